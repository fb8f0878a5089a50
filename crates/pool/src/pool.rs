//! The pool: the calls of readers and checkpoints.

use crate::fault::{Begun, FrameFor, Misses};
use crate::frames::{Frames, Pin, Resident};
use crate::hints::{Hint, Hints};
use crate::ledger::{KEPT_PART, Ledger, Loan, OVERDRAFT_PAGES};
use crate::stored::read_page;
use base::budget::{self, Account, Given, Need};
use base::latency::Cause;
use base::limits::{UNIT_BYTES, is_page_size};
use base::slots::{EpochGuard, Reader, Slots};
use base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use base::{DatabaseId, Error, ErrorKind, PagePtr, Result, checksum};
use io::File;
use page::Page;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// The pages of a data file that are in memory.
///
/// A hit takes no lock and writes nothing that another thread writes, unless the page's visited bit must be set. Memory
/// comes in chunks as pages are read, and is charged to the pool's limit and to its account of the budget. It is
/// reused, and freed when another category of the budget needs it ([`Pool::give`]). A pool that never read a page has
/// allocated nothing.
///
/// **Overdraft.** While no frame is available (all are pinned, or others use the budget), up to 8 pages beyond the
/// limit are read into memory of their own, which is freed with their pins. After that a read fails with
/// [`ErrorKind::Full`].
///
/// ```
/// # use base::{budget::Account, slots::{Reader, Slots}, *};
/// # use io::{Dir, File};
/// # use page::{EditCounters, Kind, PageMut, Value};
/// # use std::sync::Arc;
/// let (file, id) = (io::MemDir::new().create("data")?, DatabaseId(7));
/// let mut bytes = vec![0; 4096];
/// let mut leaf = PageMut::init(&mut bytes, Kind::Leaf, 0, CheckpointNo(1));
/// leaf.insert(0, b"key", Value::Inline(b"value"), &mut EditCounters::default()).unwrap();
/// let ptr = PagePtr::new(2, 1, leaf.seal(id, 2));
/// file.write_at(&bytes, ptr.offset_bytes())?;
///
/// let slots = Arc::new(Slots::new());
/// let pool = pando_pool::Pool::new(file, id, 4096, Account::alone(1 << 20), 1 << 20, slots.clone());
/// let reader = slots.claim().unwrap();
/// let mut guard = reader.enter();
/// let found = pool.read(&mut guard, ptr)?;
/// assert_eq!(found.page().search(b"key"), Ok(0));
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct Pool {
    file: Arc<dyn File>,
    database: DatabaseId,
    page_bytes: usize,
    ledger: Arc<Ledger>,
    misses: Misses,
    /// The most pages of the budget's databases that readers may keep.
    most_kept: usize,
    /// The greatest length of the file in units that was seen. It seldom shrinks, and then a read detects it.
    file_units: AtomicU64,
    /// Whether another process may write to the file.
    is_closed: AtomicBool,
    has_lost_pages: OnceLock<HasLostPages>,
}

/// Returns whether a process that writes the file has stopped keeping pages for this one.
struct HasLostPages(Box<dyn Fn() -> bool + Send + Sync>);

impl fmt::Debug for HasLostPages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HasLostPages")
    }
}

/// Statistics of a pool. Hits are not counted, because counting them would make readers write to a shared line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// The number of pages that a reader had to load, including failures.
    pub faults: u64,
    /// The number of times that a reader waited for another reader's load.
    pub waits: u64,
    /// The number of pages that checkpoints placed in the pool.
    pub admitted: u64,
    /// The number of pages that were evicted.
    pub evictions: u64,
    /// The number of frames that have memory.
    pub frames: usize,
    /// The number of pages in memory.
    pub pages: usize,
    /// The bytes that are charged to the limit, including bookkeeping.
    pub bytes: usize,
    /// The bytes that exist beyond the limit at this moment.
    pub overdraft_bytes: usize,
    /// The number of chunks that were freed because another category of the budget needed the memory.
    pub given_chunks: u64,
}

/// A page that was read: borrowed from the guard's epoch if it was in memory, pinned if it had to be loaded.
#[derive(Debug)]
pub struct PageRef<'g>(Held<'g>);

#[derive(Debug)]
enum Held<'g> {
    InEpoch(Resident<'g>),
    Pinned(Pin),
}

impl PageRef<'_> {
    /// Returns the page.
    #[inline]
    pub fn page(&self) -> Page<'_> {
        match &self.0 {
            Held::InEpoch(resident) => Page::trusted(resident.bytes),
            Held::Pinned(pin) => pin.page(),
        }
    }

    /// Returns a pin, which keeps the page beyond the epoch.
    #[inline]
    pub fn pin(&self) -> Pin {
        match &self.0 {
            Held::InEpoch(resident) => resident.pin(),
            Held::Pinned(pin) => pin.clone(),
        }
    }
}

impl Pool {
    /// Creates a pool over the pages of `file`. `limit_bytes` is its own limit; its memory is also charged to
    /// `account`. Every guard and reader that is passed to it must be of `slots`: the pool waits only for those before
    /// it reuses memory.
    pub fn new(
        file: Arc<dyn File>,
        database: DatabaseId,
        page_bytes: usize,
        account: Arc<Account>,
        limit_bytes: usize,
        slots: Arc<Slots>,
    ) -> Pool {
        assert!(is_page_size(page_bytes), "pages of {page_bytes} bytes");
        let ledger = Arc::new(Ledger::new(account, limit_bytes, page_bytes));
        let frames = Frames::new(page_bytes, limit_bytes, Arc::clone(&ledger));
        let chunk_bytes = frames.chunk_frames() * page_bytes;
        let most_kept = ledger.account().budget().limit_bytes() / KEPT_PART / chunk_bytes;
        let misses = Misses::new(frames, slots, Arc::clone(&ledger), page_bytes);
        let (file_units, is_closed) = (AtomicU64::new(0), AtomicBool::new(false));
        let has_lost_pages = OnceLock::new();
        Pool { file, database, page_bytes, ledger, misses, most_kept, file_units, is_closed, has_lost_pages }
    }

    /// Sets the pool's share of its limit. Beyond the share it grows only as far as pages come back soon after they
    /// were evicted, and the more slowly the more often memory beyond the share is taken back.
    pub fn with_share(self, share_bytes: usize) -> Pool {
        self.misses.keep_to(share_bytes);
        self
    }

    /// Returns the page that `ptr` names. A miss leaves the epoch, loads, verifies and pins. Under a guard whose holder
    /// must not wait, a miss does nothing and returns [`ErrorKind::WouldWait`].
    ///
    /// Errors: [`ErrorKind::Corruption`] if the bytes in the file are not what `ptr` names, [`ErrorKind::Full`] if no
    /// frame is available, and those of the file. Errors are not cached.
    #[inline]
    pub fn read<'g>(&'g self, guard: &'g mut EpochGuard<'_>, ptr: PagePtr) -> Result<PageRef<'g>> {
        self.read_hinted(guard, ptr, Hint::default())
    }

    /// Returns the hints for the children of `inner`, for [`Pool::read_hinted`].
    #[inline]
    pub fn hints(&self, inner: &PageRef<'_>) -> Hints<'_> {
        match &inner.0 {
            Held::InEpoch(resident) => {
                let (chunk, index) = resident.frame();
                self.misses.frames().hints(chunk, index)
            }
            Held::Pinned(pin) => self.hints_of(pin),
        }
    }

    /// Returns the hints for the children of a pinned page.
    #[inline]
    pub fn hints_of(&self, inner: &Pin) -> Hints<'_> {
        let (chunk, index) = inner.frame();
        self.misses.frames().hints(chunk, index)
    }

    /// Returns the page that `ptr` names, which is the child of `hint`. Corrects the hint if it was wrong. For misses
    /// and errors see [`Pool::read`].
    #[inline]
    pub fn read_hinted<'g>(
        &'g self,
        guard: &'g mut EpochGuard<'_>,
        ptr: PagePtr,
        hint: Hint<'_>,
    ) -> Result<PageRef<'g>> {
        match self.look(guard, ptr, hint) {
            Ok(page) => Ok(page),
            Err(guard) if !guard.may_wait() => Err(would_wait()),
            Err(guard) => guard.outside(|| self.fault(ptr)).map(|pin| PageRef(Held::Pinned(pin))),
        }
    }

    /// Returns the page that `ptr` names, which is the child of `hint`, if it is in memory. Never reads the file.
    #[inline]
    pub fn resident<'g>(
        &'g self,
        guard: &'g mut EpochGuard<'_>,
        ptr: PagePtr,
        hint: Hint<'_>,
    ) -> Option<PageRef<'g>> {
        self.look(guard, ptr, hint).ok()
    }

    /// Returns the page if it is in memory, else the guard.
    #[inline]
    fn look<'g, 'e>(
        &'g self,
        guard: &'g mut EpochGuard<'e>,
        ptr: PagePtr,
        hint: Hint<'_>,
    ) -> std::result::Result<PageRef<'g>, &'g mut EpochGuard<'e>> {
        // The result may be used because this epoch is one that eviction waits for.
        assert!(guard.belongs_to(self.misses.slots()), "the guard is of another database");
        self.misses.frames().read(guard, ptr, hint).map(|resident| PageRef(Held::InEpoch(resident)))
    }

    /// Returns a pin on the page that `ptr` names, which keeps it in memory until it is dropped. Errors as for
    /// [`Pool::read`]. The reader must be in no epoch.
    pub fn pin(&self, reader: &Reader, ptr: PagePtr) -> Result<Pin> {
        let mut guard = reader.enter();
        Ok(self.read(&mut guard, ptr)?.pin())
    }

    /// Keeps a page that was just written, if a frame is available at once. It counts as not visited. `bytes` must be
    /// the whole page that `ptr` names, compressed or not: they are not verified again.
    pub fn admit(&self, ptr: PagePtr, bytes: &[u8]) {
        self.keep(ptr, bytes, Misses::try_frame);
    }

    /// Keeps a page that was just written, if a frame is available without evicting another page. Use it for pages that
    /// no reader has requested yet, and of which there may be more than the pool holds. For `bytes` see
    /// [`Pool::admit`].
    pub fn offer(&self, ptr: PagePtr, bytes: &[u8]) {
        self.keep(ptr, bytes, Misses::spare_frame);
    }

    fn keep(&self, ptr: PagePtr, bytes: &[u8], frame: FrameFor) {
        assert_eq!(bytes.len(), self.page_bytes, "a page of another size");
        debug_assert!(
            ptr.len_bytes() < bytes.len() || Page::verify(bytes, ptr, self.database).is_ok(),
            "{ptr:?} is not what was written"
        );
        if let Some(mut load) = self.misses.begin_admission(ptr, frame) {
            load.bytes().copy_from_slice(bytes);
            load.finish();
        }
    }

    /// Reports that the page at `unit` was freed. Its frame is used for the next page that needs one. A reader that
    /// still wants the page reads it again.
    pub fn forget(&self, unit: u64) {
        self.misses.forget(unit);
    }

    /// Reports that all pages that begin in `freed` were freed: ranges of units that ascend and do not overlap. Their
    /// frames are used for the next pages that need some. Without this call, unreachable pages keep their frames until
    /// their units are written again or they are evicted. O(units), or O(frames * log ranges) if there are fewer
    /// frames.
    pub fn forget_all(&self, freed: &[Range<u64>]) {
        self.misses.forget_all(freed);
    }

    /// Frees about `bytes` of memory: the least used pages, whole chunks at a time, which may be more than requested.
    /// Unless `need` is [`Need::All`], the last chunk stays, if the last chunks of all databases of the budget are a
    /// small part of it. Pages that calls use at this moment are freed a moment later: ask again. O(frames).
    pub fn give(&self, bytes: usize, need: Need) -> Given {
        self.misses.give(bytes, need)
    }

    /// Returns the right to keep one page pinned while a program does what it likes. `None` if too much of the budget
    /// is kept so already: a pin keeps the chunk of its page, so each counts as a chunk.
    #[inline]
    pub fn keep_page(&self) -> Option<budget::KeptPage> {
        self.ledger.account().budget().keep_page(self.most_kept)
    }

    /// Returns the account that pays for its memory.
    pub fn account(&self) -> &Arc<Account> {
        self.ledger.account()
    }

    /// Returns how many bytes a pool of such pages may take beyond its limit. The budget's account keeps them in
    /// reserve.
    pub fn overdraft_bytes(page_bytes: usize) -> usize {
        OVERDRAFT_PAGES * page_bytes
    }

    /// Lets the pool exceed the limit and the budget by `pages`, while no frame is available otherwise, until the loan
    /// is dropped. The budget is charged by force for those that are used. Recovery needs it, because it cannot
    /// continue without.
    pub fn lend(&self, pages: usize) -> Loan {
        Loan::new(&self.ledger, pages * self.page_bytes)
    }

    /// Reads a large value: the first `len_bytes` of an extent, whose checksum covers exactly these. It is read from
    /// the file and not cached. Returns [`ErrorKind::Corruption`] if the extent is not within the file, is shorter, or
    /// has other bytes. Nothing is allocated before its place is checked.
    pub fn read_extent(&self, ptr: PagePtr, len_bytes: usize) -> Result<Vec<u8>> {
        self.check_extent(ptr, len_bytes)?;
        let mut bytes = vec![0; len_bytes];
        self.read_extent_into(ptr, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads the first bytes of an extent, whose checksum covers exactly these, into `buffer`: as many as it has. After
    /// an error its contents are undefined. For errors see [`Pool::read_extent`].
    pub fn read_extent_into(&self, ptr: PagePtr, buffer: &mut [u8]) -> Result<()> {
        self.judge(self.read_verified(ptr, buffer))
    }

    fn read_verified(&self, ptr: PagePtr, buffer: &mut [u8]) -> Result<()> {
        self.check_extent(ptr, buffer.len())?;
        self.file.read_exact_at(buffer, ptr.offset_bytes())?;
        let found = checksum::extent(self.database, ptr.unit(), buffer);
        if found != ptr.checksum() {
            return Err(self.corrupt(ptr, format!("its checksum is {found:016x}")));
        }
        Ok(())
    }

    /// Notes that another process may write to the file from now on. It does not keep the pages that this one's
    /// snapshots need, and a page that it has reused is not damaged.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
    }

    /// Sets, once, the call that is made after wrong or missing bytes: it returns whether the process that writes the
    /// file has stopped keeping pages for this one.
    pub fn set_has_lost_pages(&self, call: Box<dyn Fn() -> bool + Send + Sync>) {
        assert!(self.has_lost_pages.set(HasLostPages(call)).is_ok(), "a pool has one such call");
    }

    /// Returns the result of `read`, which reads the file.
    ///
    /// Errors: those of `read`; if the bytes are wrong or missing, [`ErrorKind::Closed`] if the pool was closed, and
    /// [`ErrorKind::SnapshotTooOld`] if another process no longer keeps the pages.
    pub fn judge<T>(&self, read: Result<T>) -> Result<T> {
        read.map_err(|error| match error.kind() {
            ErrorKind::Corruption | ErrorKind::Io if self.is_closed.load(Ordering::SeqCst) => reused(error),
            ErrorKind::Corruption | ErrorKind::Io
                if self.has_lost_pages.get().is_some_and(|has| (has.0)()) =>
            {
                not_kept(error)
            }
            _ => error,
        })
    }

    fn check_extent(&self, ptr: PagePtr, len_bytes: usize) -> Result<()> {
        self.check_place(ptr)?;
        if len_bytes > ptr.len_bytes() {
            return Err(self.corrupt(ptr, format!("{len_bytes} bytes expected")));
        }
        Ok(())
    }

    /// Returns the statistics. Takes the lock that faults take.
    pub fn stats(&self) -> PoolStats {
        let counts = self.misses.counts();
        PoolStats {
            faults: counts.faults,
            waits: counts.waits,
            admitted: counts.admitted,
            evictions: counts.evictions,
            frames: counts.frames,
            pages: counts.pages,
            bytes: self.ledger.used_bytes(),
            overdraft_bytes: self.ledger.overdrawn_bytes(),
            given_chunks: counts.given_chunks,
        }
    }

    /// Returns the size of every page in bytes.
    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Returns the id of the database.
    pub fn database(&self) -> DatabaseId {
        self.database
    }

    /// Returns the data file.
    pub fn file(&self) -> &Arc<dyn File> {
        &self.file
    }

    #[cold]
    fn fault(&self, ptr: PagePtr) -> Result<Pin> {
        self.judge(self.fault_in(ptr))
    }

    fn fault_in(&self, ptr: PagePtr) -> Result<Pin> {
        self.check_place(ptr)?;
        if ptr.units() == 0 || ptr.len_bytes() > self.page_bytes {
            return Err(self.corrupt(ptr, format!("pages of this database have {} bytes", self.page_bytes)));
        }
        let latencies = &self.misses.slots().latencies;
        latencies.time(Cause::PoolFault, || self.load(ptr))
    }

    fn load(&self, ptr: PagePtr) -> Result<Pin> {
        let mut load = match self.misses.begin(ptr)? {
            Begun::Linked(pin) => return Ok(pin),
            Begun::Load(load) => load,
        };
        read_page(&*self.file, self.database, ptr, load.bytes())?;
        Ok(load.finish())
    }

    /// Checks that `ptr` lies within the file, because a pointer may come from a damaged page.
    fn check_place(&self, ptr: PagePtr) -> Result<()> {
        let end = ptr.unit() + ptr.units();
        // Relaxed: the stored length only saves another look at the file.
        let mut file_units = self.file_units.load(Ordering::Relaxed);
        if end > file_units {
            file_units = self.file.len()? / UNIT_BYTES as u64;
            // A thread that looked before the file grew must not hide what this one has seen: the stored length only
            // grows, and the decision below is about this thread's own look.
            self.file_units.fetch_max(file_units, Ordering::Relaxed);
        }
        if ptr.unit() == 0 || ptr.flags() & PagePtr::IN_MEMORY != 0 || end > file_units {
            return Err(self.corrupt(ptr, format!("the file has {file_units} units")));
        }
        Ok(())
    }

    #[cold]
    fn corrupt(&self, ptr: PagePtr, what: impl std::fmt::Display) -> Error {
        Error::corruption(format!("{}: bad pointer to {ptr:?}: {what}", self.file.name()))
    }
}

#[cold]
fn not_kept(error: Error) -> Error {
    let message =
        "the process that writes the database has needed the space of this snapshot; take a new one";
    Error::new(ErrorKind::SnapshotTooOld, message).caused_by(error)
}

#[cold]
fn reused(error: Error) -> Error {
    let message = "the database was closed, and pages of this snapshot were reused since; open it again";
    Error::new(ErrorKind::Closed, message).caused_by(error)
}

#[cold]
fn would_wait() -> Error {
    Error::new(ErrorKind::WouldWait, "a page on the path is not in memory")
}
