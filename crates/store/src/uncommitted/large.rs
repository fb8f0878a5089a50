//! Values that are in the data file before the commit that refers to them is in the log.
//!
//! 1. *Write.* A value that turns out to be longer than `Options::large_bytes` is cut into pieces. Each gets an extent
//!    from the space map, under the map's lock, and is written to it without that lock: a concurrent merge does not
//!    delay it. The map saves such extents as free, so a crash frees them without further work.
//! 2. *Finish.* The index of the pieces is written in the same way; the write set holds the reference and an
//!    [`Unpublished`], which frees the extents when its last owner is dropped: the transaction, or a reader that it
//!    returned.
//! 3. *Commit* syncs the data file once for all values of the transaction, whatever its durability: any other commit's
//!    flush could make a record durable that names what is not on the disk. Then it appends the record, and
//!    `Unpublished::publish` hands the extents to the log.
//! 4. A *checkpoint* that puts the reference into a page adopts the extents; one that finds that the value was replaced
//!    while it was only in memory retires them. After a crash `crate::open::claims` claims them from the log.

use crate::state::store::Store;
use base::limits::UNIT_BYTES;
use base::{Error, Large, LargeRef, PagePtr, Result};
use run::large::{encode_index, write_extent};
use space::Extent;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A value in the data file to which the log does not refer yet. Its extents are freed when it is dropped, unless a
/// commit published it.
#[derive(Debug)]
pub struct Unpublished {
    /// The encoded reference.
    large: [u8; LargeRef::BYTES],
    extents: Extents,
}

impl Unpublished {
    /// Returns the reference to the value.
    pub fn large(&self) -> Large<'_> {
        Large::of(&self.large)
    }

    /// Notes that the log now refers to the extents. The caller holds the commit lock.
    pub(crate) fn publish(&self) {
        let was_published = self.extents.published.swap(true, Ordering::SeqCst);
        assert!(!was_published, "a value is committed once");
        self.extents.store.early.remove(self.extents.units());
    }
}

/// Extents that only their owner knows.
#[derive(Debug)]
struct Extents {
    store: Arc<Store>,
    extents: Vec<Extent>,
    published: AtomicBool,
}

impl Extents {
    fn units(&self) -> u64 {
        self.extents.iter().map(|extent| extent.units).sum()
    }

    /// Writes `bytes` to an extent of their own.
    fn write(&mut self, bytes: &[u8]) -> Result<PagePtr> {
        let store = &*self.store;
        let _writing = store.early.begin();
        store.check_open()?;
        store.latch.check()?;
        let units = bytes.len().div_ceil(UNIT_BYTES) as u64;
        let unit = store.allocate_logged(units)?;
        self.extents.push(Extent { unit, units });
        write_extent(&store.pool, unit, bytes)
    }
}

impl Drop for Extents {
    fn drop(&mut self) {
        if !self.published.load(Ordering::SeqCst) {
            self.store.free_unpublished(&self.extents);
        }
    }
}

/// A value that is being written. If it is dropped unfinished, its extents are freed.
#[derive(Debug)]
pub(crate) struct Stream {
    extents: Extents,
    pieces: Vec<PagePtr>,
    /// The bytes that are in no piece yet: all of the value while it may still fit the log, less than a piece after
    /// that.
    pending: Vec<u8>,
    len_bytes: u64,
    /// The first bytes, as the reference holds them.
    head: [u8; 8],
    failed: bool,
}

/// The result of a stream.
#[derive(Debug)]
pub(crate) enum Streamed {
    /// The bytes of a value that is short enough for the log.
    Logged(Vec<u8>),
    /// A value in the data file.
    Large(Arc<Unpublished>),
}

impl Stream {
    /// Creates an empty value.
    pub fn new(store: &Arc<Store>) -> Self {
        let published = AtomicBool::new(false);
        let extents = Extents { store: Arc::clone(store), extents: Vec::new(), published };
        Stream { extents, pieces: Vec::new(), pending: Vec::new(), len_bytes: 0, head: [0; 8], failed: false }
    }

    fn store(&self) -> &Store {
        &self.extents.store
    }

    /// Returns whether the value is written to the files of this open database. A copy has the same id.
    pub fn is_of(&self, store: &Arc<Store>) -> bool {
        Arc::ptr_eq(&self.extents.store, store)
    }

    /// Returns how many bytes of the value were written so far.
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Appends `bytes` to the value. After an error it accepts no more bytes, and cannot be finished.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.check()?;
        let most = self.store().early.max_value_bytes();
        let longer = self.len_bytes.saturating_add(bytes.len() as u64);
        if longer > most {
            self.failed = true;
            return Err(Error::invalid(format!("the value is too long: a value has at most {most} bytes")));
        }
        if let Some(head) = self.head.get_mut(self.len_bytes as usize..) {
            let len = head.len().min(bytes.len());
            head[..len].copy_from_slice(&bytes[..len]);
        }
        self.len_bytes = longer;
        if !self.store().early.is_large(longer) {
            self.pending.extend_from_slice(bytes);
            return Ok(());
        }
        self.failed = true;
        self.write_pieces(bytes)?;
        self.failed = false;
        Ok(())
    }

    fn check(&self) -> Result<()> {
        if self.failed {
            return Err(Error::invalid(
                "writing this value failed before; write it again from its beginning",
            ));
        }
        Ok(())
    }

    /// Writes every whole piece of `pending` followed by `bytes`; the rest becomes pending.
    fn write_pieces(&mut self, bytes: &[u8]) -> Result<()> {
        let piece_bytes = self.store().early.piece_bytes();
        let mut pending = std::mem::take(&mut self.pending);
        let whole = pending.len() / piece_bytes * piece_bytes;
        for piece in pending[..whole].chunks_exact(piece_bytes) {
            self.write_piece(piece)?;
        }
        pending.drain(..whole);
        // The buffer could have held a whole logged value; from now on it needs only a piece.
        pending.shrink_to(piece_bytes);
        let (first, rest) = bytes.split_at(bytes.len().min(piece_bytes - pending.len()));
        pending.extend_from_slice(first);
        let mut pieces = rest.chunks_exact(piece_bytes);
        if pending.len() == piece_bytes {
            self.write_piece(&pending)?;
            pending.clear();
            for piece in &mut pieces {
                self.write_piece(piece)?;
            }
            pending.extend_from_slice(pieces.remainder());
        }
        self.pending = pending;
        Ok(())
    }

    fn write_piece(&mut self, piece: &[u8]) -> Result<()> {
        let ptr = self.extents.write(piece)?;
        self.pieces.push(ptr);
        Ok(())
    }

    /// Finishes the value.
    pub fn finish(mut self) -> Result<Streamed> {
        self.check()?;
        if !self.store().early.is_large(self.len_bytes) {
            return Ok(Streamed::Logged(self.pending));
        }
        if !self.pending.is_empty() {
            let last = std::mem::take(&mut self.pending);
            self.write_piece(&last)?;
        }
        let Stream { mut extents, pieces, len_bytes, head, .. } = self;
        let ptr = match &pieces[..] {
            [only] => *only,
            pieces => {
                let index = encode_index(len_bytes, extents.store.early.piece_bytes(), pieces);
                extents.write(&index)?.with_flags(PagePtr::IN_PIECES)
            }
        };
        Ok(Streamed::Large(Arc::new(Unpublished {
            large: LargeRef { ptr, len_bytes, head }.encode(),
            extents,
        })))
    }
}

impl Store {
    /// Makes what was written to the data file durable. There is one sync at a time: a failed sync may concern one's
    /// own bytes or another's, and the next may succeed although they are lost, so a failure latches before the next
    /// sync.
    pub(crate) fn sync_data(&self) -> Result<()> {
        let _turn = self.early.sync_turn();
        self.latch.check()?;
        self.data.sync().map_err(|cause| self.latch.set(cause))
    }

    /// Reads a large value completely.
    pub(crate) fn read_large(&self, large: LargeRef) -> Result<Vec<u8>> {
        run::read_large(&self.pool, large)
    }
}
