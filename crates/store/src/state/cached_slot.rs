//! A thread's idle reader slots: each thread keeps a few, so that beginning a read takes no lock and touches no
//! counter.
//!
//! A cached slot is a slot and a reference to its store, moved in and out of a thread-local list. The reference is
//! counted once, when the slot is made, not once in each read.

use crate::state::store::Store;
use crate::state::stretches;
use crate::state::view::HeldView;
use base::slots::Reader;
use base::{CommitTs, Error, ErrorKind, Result};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// The number of leases that a thread keeps, over all databases. More live readers work as well, but pay a lock.
const KEPT_PER_THREAD: usize = 16;

thread_local! {
    #[allow(clippy::vec_box)] // They go in and out as the boxes that snapshots hold.
    static LEASES: RefCell<Vec<Box<CachedSlot>>> = const { RefCell::new(Vec::new()) };
}

/// The most pages that the borrowed values of one reader keep pinned at a time: 1 MiB of pages of 16 KiB. More would be
/// useful to few, and a pool whose frames are all pinned can read nothing.
const MOST_PINNED: u32 = 64;

/// The right to keep one page pinned.
#[derive(Debug)]
pub(crate) struct Permit<'l> {
    pinned: &'l Cell<u32>,
}

impl Drop for Permit<'_> {
    #[inline]
    fn drop(&mut self) {
        self.pinned.set(self.pinned.get() - 1);
    }
}

/// What the snapshot that has a slot sees.
#[derive(Debug)]
pub(crate) struct Seen {
    /// The view that the slot holds.
    pub view: HeldView,
    /// The last commit that the snapshot sees.
    pub ts: CommitTs,
    /// The time, after it was first needed; 0 before.
    pub time_ms: Cell<u64>,
    /// The stretches of keys that the snapshot found empty; none in an idle slot.
    pub known: stretches::Own,
}

/// A slot of one store, with the reference that keeps the store, and what its snapshot sees. It is boxed, and a
/// snapshot is nothing but the box, so that `Result<Snapshot>` is returned in two registers. A result of six words goes
/// through memory, where each move of it waits for the stores before: this took longer than all that begins a read.
#[derive(Debug)]
pub(crate) struct CachedSlot {
    store: Arc<Store>,
    reader: Reader,
    /// The number of live [`Permit`]s.
    pinned: Cell<u32>,
    /// Stale in an idle slot.
    seen: Seen,
}

impl CachedSlot {
    /// Takes a slot of `store`: this thread's last idle one, if there is one.
    #[inline]
    pub fn take(store: &Arc<Store>) -> Result<Box<Self>> {
        let kept = LEASES.try_with(|leases| {
            let mut leases = leases.try_borrow_mut().ok()?;
            match leases.last() {
                Some(last) if Arc::ptr_eq(&last.store, store) => leases.pop(),
                _ => Self::search(&mut leases, store),
            }
        });
        match kept {
            Ok(Some(slot)) => Ok(slot),
            _ => Self::claim(store),
        }
    }

    #[cold]
    #[allow(clippy::vec_box)] // As above.
    fn search(leases: &mut Vec<Box<Self>>, store: &Arc<Store>) -> Option<Box<Self>> {
        let at = leases.iter().rposition(|slot| Arc::ptr_eq(&slot.store, store))?;
        Some(leases.swap_remove(at))
    }

    #[cold]
    fn claim(store: &Arc<Store>) -> Result<Box<Self>> {
        Self::forget(|kept| kept.is_closed());
        let full = || {
            Error::new(
                ErrorKind::Full,
                "65,536 snapshots and transactions are open, which is the limit; drop some",
            )
        };
        let reader = store.slots.claim().ok_or_else(full)?;
        let (time_ms, known) = (Cell::new(0), stretches::Own::default());
        let seen = Seen { view: HeldView::none(), ts: CommitTs(0), time_ms, known };
        Ok(Box::new(CachedSlot { store: Arc::clone(store), reader, pinned: Cell::new(0), seen }))
    }

    /// Sets what the snapshot sees that takes the slot.
    #[inline]
    pub fn see(&mut self, view: HeldView, ts: CommitTs, time_ms: u64) {
        self.reader.note_ts(ts.0);
        self.seen.view = view;
        self.seen.ts = ts;
        self.seen.time_ms.set(time_ms);
    }

    /// Returns what its snapshot sees.
    #[inline]
    pub fn seen(&self) -> &Seen {
        &self.seen
    }

    /// Returns the store.
    #[inline]
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Returns the slot's owner.
    #[inline]
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Returns the right to pin one more page, unless the limit is reached.
    #[inline]
    pub fn permit_pin(&self) -> Option<Permit<'_>> {
        let pinned = self.pinned.get();
        (pinned < MOST_PINNED).then(|| {
            self.pinned.set(pinned + 1);
            Permit { pinned: &self.pinned }
        })
    }

    /// Lets go of the view, and keeps the idle slot for this thread's next reader.
    #[inline]
    pub fn keep(mut self: Box<Self>) {
        self.reader.let_go();
        drop(self.seen.known.get_mut().take());
        if self.store.is_closed() {
            return self.end_closed();
        }
        let mut slot = Some(self);
        let _ = LEASES.try_with(|leases| {
            if let Ok(mut leases) = leases.try_borrow_mut()
                && leases.len() < KEPT_PER_THREAD
            {
                leases.extend(slot.take());
            }
        });
        if let Some(slot) = slot {
            slot.keep_beside_many();
        }
    }

    /// Gives back the memory of a closed database after its last reader.
    #[cold]
    fn end_closed(self: Box<Self>) {
        let store = Arc::clone(&self.store);
        drop(self);
        store.give_memory_back();
    }

    /// Makes room among the kept leases: those of closed databases are dropped, or else the oldest one. Without this, a
    /// thread that has used many databases would keep leases only of those.
    #[cold]
    fn keep_beside_many(self: Box<Self>) {
        let mut dropped = Vec::new();
        let _ = LEASES.try_with(|leases| {
            if let Ok(mut leases) = leases.try_borrow_mut() {
                dropped.extend(leases.extract_if(.., |slot| slot.store.is_closed()));
                if leases.len() >= KEPT_PER_THREAD {
                    dropped.push(leases.remove(0));
                }
                leases.push(self);
            }
        });
        // The dropped slot may be the last reference to its store: it is dropped here, outside the borrow.
    }

    /// Gives back every slot that this thread keeps of `store`.
    pub fn forget_all(store: &Arc<Store>) {
        Self::forget(|kept| Arc::ptr_eq(kept, store));
    }

    /// Gives back the slots that this thread keeps of some stores. The last reference to a closed store, with all its
    /// memory, may be among them.
    fn forget(which: impl Fn(&Arc<Store>) -> bool) {
        let mut dropped = Vec::new();
        let _ = LEASES.try_with(|leases| {
            if let Ok(mut leases) = leases.try_borrow_mut() {
                dropped.extend(leases.extract_if(.., |slot| which(&slot.store)));
            }
        });
        // They are dropped here, outside the borrow.
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, open_or_create};
    use io::MemDir;

    #[test]
    fn a_closed_store_goes_when_its_last_reader_turns_to_another() {
        let open = || open_or_create(Arc::new(MemDir::new()), &Options::default()).unwrap();
        let first = open();
        drop(first.snapshot().unwrap());
        let gone = Arc::downgrade(&first);
        std::thread::spawn(move || first.close().unwrap()).join().unwrap();
        assert!(gone.upgrade().is_some(), "this thread keeps a slot of it");
        drop(open().snapshot().unwrap());
        assert!(gone.upgrade().is_none());
    }
}
