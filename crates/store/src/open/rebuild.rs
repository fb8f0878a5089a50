//! Rebuilding a database in an empty directory from the parts that [`crate::pinned`] returned.
//!
//! 1. Lock the directory, create `data.restore`, and make that name durable. Until the end, opening rejects the
//!    directory, whatever else it contains.
//! 2. For each state of a chain, oldest first: a new log takes its commits, and the data file its extents, at their
//!    original places. An extent is verified against its pointer's checksum when it arrives.
//! 3. Write the superblock: the last state's, with the new log's position and a fork of its own. Sync the file.
//! 4. Read everything back: every page and value that the superblock reaches, each checked against its pointer. This
//!    finds what a chain left out by mistake.
//! 5. Make all names durable, including the removal of earlier logs. Rename `data.restore` to `data`, and make that
//!    durable.
//!
//! So whenever it is interrupted, the directory is rejected or complete. If it is given up, it removes what it created.
//!
//! Places are kept because every checksum is seeded with its place and the database's id: other places, or another id,
//! would require writing every page anew. The file is sparse where nothing was used.

use crate::open::claims::{Reference, claim, read_through, references};
use crate::open::pinned::following;
use crate::open::recovery::{DATA, LOCK, REBUILT_DATA, read_physical_rows};
use crate::state::superblock::{RESERVED_UNITS, Superblock};
use base::budget::Account;
use base::checksum::Running;
use base::limits::UNIT_BYTES;
use base::slots::Slots;
use base::{CommitTs, Error, ErrorKind, PagePtr, Result};
use io::{Dir, File, Lock};
use log::Log;
use page::Page;
use pool::Pool;
use run::Run;
use run::walk::Piece;
use space::Space;
use std::sync::Arc;

/// The memory for pages while everything is read back: no page is needed twice.
const POOL_BYTES: usize = 1 << 20;

/// Returns the options of the new log: its segments have one size, because the log's length is bounded.
fn log_options() -> log::Options {
    log::Options { first_segment_bytes: 16 << 10, max_segment_bytes: 64 << 20, ..log::Options::default() }
}

/// One state of the chain, while it is taken in.
#[derive(Debug)]
struct State {
    superblock: Superblock,
    ts: CommitTs,
    log: Log,
    /// The last commit that was taken in, or absorbed.
    last: CommitTs,
    /// The data outside the log that the commits refer to.
    references: Vec<Reference>,
}

/// An extent of which some pieces have arrived.
#[derive(Debug)]
struct Partial {
    ptr: PagePtr,
    len_bytes: u64,
    written: u64,
    running: Running,
}

/// A database that is being rebuilt; see [the module](self).
#[derive(Debug)]
pub struct Rebuild {
    dir: Arc<dyn Dir>,
    data: Arc<dyn File>,
    state: Option<State>,
    partial: Option<Partial>,
    /// The buffer in which a compressed page is decompressed for verification.
    whole: Vec<u8>,
    is_done: bool,
    _lock: Box<dyn Lock>,
}

impl Rebuild {
    /// Locks the directory, which must be empty, and creates a data file in it that no opening accepts (step 1).
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] if the directory has files; [`ErrorKind::Locked`].
    pub fn begin(dir: Arc<dyn Dir>) -> Result<Self> {
        let refuse_files = || match dir.list()?.iter().find(|name| *name != LOCK) {
            None => Ok(()),
            Some(name) => {
                let message = format!("{} is not empty: it has {name:?}", dir.describe());
                Err(Error::new(ErrorKind::Exists, message))
            }
        };
        // This comes before the lock, which creates a file, so that a foreign directory stays as it is.
        refuse_files()?;
        let lock = dir.lock(LOCK)?;
        refuse_files()?;
        let data = dir.create(REBUILT_DATA)?;
        let (state, partial, whole) = (None, None, Vec::new());
        let rebuild = Rebuild { dir, data, state, partial, whole, is_done: false, _lock: lock };
        rebuild.dir.sync()?;
        Ok(rebuild)
    }

    /// Begins to take in one state. Its commits and extents follow.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if it does not follow the previous state.
    pub fn state(&mut self, superblock: Superblock, ts: CommitTs) -> Result<()> {
        self.end_state()?;
        if let Some(before) = &self.state {
            let identity =
                |superblock: &Superblock| (superblock.database, superblock.fork, superblock.page_bytes);
            let older = superblock.checkpoint < before.superblock.checkpoint;
            if identity(&superblock) != identity(&before.superblock) || older {
                return Err(Error::invalid(
                    "the backups do not form one chain: each must build on the one before it",
                ));
            }
        }
        self.state = None;
        Log::discard(&self.dir)?;
        let log = Log::create(Arc::clone(&self.dir), superblock.database, log_options())?;
        log.set_checkpoint(superblock.checkpoint);
        let superblock = Superblock { replay_from: log.end(), ..superblock };
        self.state = Some(State { superblock, ts, log, last: superblock.absorbed, references: Vec::new() });
        Ok(())
    }

    /// Takes in the next commit of the state.
    ///
    /// # Errors
    /// [`ErrorKind::Corruption`] if it is not the next; errors of the log.
    pub fn commit(&mut self, record: &[u8]) -> Result<()> {
        let state = self.state.as_mut().ok_or_else(no_state)?;
        state.last = following(state.last, record)?;
        state.references.extend(references(record));
        state.log.append(record).map(drop)
    }

    /// Takes in a page.
    ///
    /// # Errors
    /// [`ErrorKind::Corruption`] if it is not what `ptr` points to.
    pub fn page(&mut self, ptr: PagePtr, bytes: &[u8]) -> Result<()> {
        let state = self.state.as_ref().ok_or_else(no_state)?;
        let Superblock { page_bytes, database, .. } = state.superblock;
        let is_long = bytes.len() != ptr.len_bytes() || bytes.len() > page_bytes;
        if self.partial.is_some() || ptr.unit() < RESERVED_UNITS || is_long {
            return Err(Error::corruption(format!(
                "{ptr:?}: the backup has a page of {} bytes at a wrong place",
                bytes.len()
            )));
        }
        if bytes.len() == page_bytes {
            Page::verify(bytes, ptr, database)?;
        } else {
            self.whole.resize(page_bytes, 0);
            Page::decompress(bytes, ptr, database, &mut self.whole)?;
        }
        self.data.write_at(bytes, ptr.offset_bytes())
    }

    /// Takes in the next piece of a large value or of the space map.
    ///
    /// # Errors
    /// [`ErrorKind::Corruption`] if it does not follow the previous piece, or if the extent's checksum is wrong.
    pub fn piece(&mut self, piece: Piece<'_>) -> Result<()> {
        let Piece { ptr, len_bytes, offset, bytes } = piece;
        let state = self.state.as_ref().ok_or_else(no_state)?;
        let database = state.superblock.database;
        let begin = || Partial { ptr, len_bytes, written: 0, running: Running::extent(database, ptr.unit()) };
        let partial = self.partial.get_or_insert_with(begin);
        let expected = (partial.ptr, partial.len_bytes, partial.written);
        let end = offset.checked_add(bytes.len() as u64).filter(|&end| end <= len_bytes && !bytes.is_empty());
        let fits = len_bytes <= ptr.len_bytes() as u64 && ptr.unit() >= RESERVED_UNITS;
        let Some(end) = end.filter(|_| fits && expected == (ptr, len_bytes, offset)) else {
            return Err(Error::corruption(format!(
                "expected bytes of {:?} from {} on, found {} of {ptr:?} from {offset} on",
                partial.ptr,
                partial.written,
                bytes.len()
            )));
        };
        partial.running.update(bytes);
        partial.written = end;
        self.data.write_at(bytes, ptr.offset_bytes() + offset)?;
        if end < len_bytes {
            return Ok(());
        }
        let found = partial.running.finish();
        if found != ptr.checksum() {
            return Err(Error::corruption(format!("{ptr:?}: its bytes have checksum {found:016x}")));
        }
        self.partial = None;
        self.pad(ptr, len_bytes)
    }

    /// Writes zeros to the end of an extent's last unit, so that the file is as long as its extents require.
    fn pad(&self, ptr: PagePtr, len_bytes: u64) -> Result<()> {
        match (len_bytes as usize).next_multiple_of(UNIT_BYTES) - len_bytes as usize {
            0 => Ok(()),
            rest => self.data.write_at(&[0; UNIT_BYTES][..rest], ptr.offset_bytes() + len_bytes),
        }
    }

    /// Checks that everything that was announced has arrived.
    fn end_state(&self) -> Result<()> {
        let Some(state) = &self.state else { return Ok(()) };
        if self.partial.is_some() || state.last != state.ts {
            let (last, ts) = (state.last.0, state.ts.0);
            return Err(Error::corruption(format!(
                "the backup ends at commit {last}, but its header states commit {ts}"
            )));
        }
        Ok(())
    }

    /// Completes the database (steps 3 to 5): writes the superblock, reads everything back, and gives the data file its
    /// name. `fork` distinguishes the rebuilt database from the copied one: not 0, drawn at random.
    ///
    /// # Errors
    /// [`ErrorKind::Corruption`] if parts are missing.
    pub fn finish(mut self, fork: u32) -> Result<()> {
        self.end_state()?;
        let State { superblock, ts, log, references, .. } = self.state.take().ok_or_else(no_state)?;
        log.sync(log.end().lsn)?;
        let superblock = Superblock { fork, log_synced: log.synced(), restored: ts, ..superblock };
        log.close()?;
        self.data.write_at(&[0; RESERVED_UNITS as usize * UNIT_BYTES], 0)?;
        superblock.write(&*self.data)?;
        self.data.sync()?;
        self.read_back(&superblock, references)?;
        self.dir.sync()?;
        self.dir.rename(REBUILT_DATA, DATA)?;
        self.is_done = true;
        self.dir.sync()
    }

    /// Reads every page and value that the superblock reaches, and checks each against its pointer (step 4).
    fn read_back(&self, superblock: &Superblock, references: Vec<Reference>) -> Result<()> {
        let Superblock { database, page_bytes, .. } = *superblock;
        let (slots, budget) = (Arc::new(Slots::new()), Account::alone(2 * POOL_BYTES));
        let data = Arc::clone(&self.data);
        let pool = Pool::new(data, database, page_bytes, budget, POOL_BYTES, Arc::clone(&slots));
        let mut space = Space::load(Arc::clone(&self.data), database, RESERVED_UNITS, &superblock.space)?;
        for reference in references {
            claim(&reference, &pool, &mut space)?;
            read_through(&reference, &pool)?;
        }
        superblock.physical.check(&pool, &mut |_| Ok(()))?;
        for (table, layout) in read_physical_rows(&superblock.physical, &pool, &slots)?.iter() {
            let check = |run: Run| run.check(&pool, &mut |_| Ok(())).map(drop);
            layout.runs().into_iter().try_for_each(check).map_err(|error| error.within(table))?;
        }
        Ok(())
    }
}

fn no_state() -> Error {
    Error::invalid("the backup has no header; it must come first")
}

impl Drop for Rebuild {
    fn drop(&mut self) {
        if !self.is_done {
            // Best effort: a directory that remains is rejected, with the reason.
            self.state = None;
            let _ = Log::discard(&self.dir);
            let _ = self.dir.sync();
            let _ = self.dir.remove(REBUILT_DATA);
        }
    }
}
