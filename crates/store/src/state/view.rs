//! Views: what a reader sees in addition to its timestamp, and when old ones may be freed.
//!
//! A view is one consistent set of parts: the open memtable, the sealed ones that no checkpoint has absorbed yet, and
//! the runs. A snapshot is (view, timestamp). Three events replace views, under the commit lock: a *seal* (the open
//! memtable is closed and a new one opened), an *attachment* (a commit brings runs of its own) and a *switch* (a
//! checkpoint's runs replace the memtables that it absorbed). A reader beside a writer seals and switches as that did.
//! Closing the store leaves a view without memtables.
//!
//! # Attached runs
//! They belong to a sealed memtable, which holds only the rest of the same commit, and lie right below it. A reader
//! looks into them only if its timestamp is the commit's or later: a snapshot that loaded the new view but an older
//! clock skips the runs as it skips the memtable's entries. For a reader that loads the newer clock, the view before is
//! closed at the commit *before*: it lacks the runs. The view is published before the clock moves, so a transaction may
//! hold the new view and still have to be validated against the commit: the memtable counts as conflict history from
//! the view after on (`first_view`).
//!
//! # Acquisition (invariant 7)
//! 1. Mark the slot pending.
//! 2. Load the current view.
//! 3. Load the clock.
//! 4. If the view's open memtable was sealed at a timestamp before the one just read, or if the view's runs hold later
//!    commits, go back to 2.
//! 5. Announce the view.
//!
//! Step 4 keeps a snapshot from tearing: commits after the seal are in a memtable that this view does not have. A view
//! that is newer than the timestamp is harmless: a seal only adds a memtable, whose newer entries the timestamp
//! excludes one by one; and the runs of a switch, which know no timestamps, hold commits that were visible before it,
//! while the clock is read after the view. Only a reader beside a writer may jump: it publishes runs that hold commits
//! which it has not applied, and the clock right after them, so that step 4 does not wait long. `base::slots` argues
//! steps 1 and 5.
//!
//! # Freeing
//! A view is freed when no slot holds it, even if older ones are held: a snapshot keeps what it sees, and nothing that
//! came later. What a snapshot may keep is bounded (`expiry.rs`): its view can be revoked, and is therefore only read
//! in calls.

use crate::state::attach::Attached;
use crate::state::tables::Tables;
use base::slots::{Announced, EpochGuard, Holding, Reader, Slots, Suspended};
use base::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use base::sync::{Arc, Mutex, lock};
use base::{CheckpointNo, CommitTs, TableId};
use memtable::Memtable;
use run::Delta;
use std::ptr;

/// A memtable and the commit at which it was sealed; all views that have it open share it.
#[derive(Debug)]
pub struct OpenMemtable {
    /// The memtable.
    pub memtable: Arc<Memtable>,
    /// The first commit that goes to another memtable: the largest number while it is open, [`CLOSED`] in the last
    /// view.
    end: AtomicU64,
}

/// The end in a closed store: no commit goes to the memtable.
const CLOSED: u64 = 0;

impl OpenMemtable {
    /// Creates an open memtable.
    pub fn new(memtable: Arc<Memtable>) -> Arc<Self> {
        Arc::new(OpenMemtable { memtable, end: AtomicU64::new(u64::MAX) })
    }

    /// Creates the empty memtable of a closed store.
    fn closed(memtable: Arc<Memtable>) -> Arc<Self> {
        Arc::new(OpenMemtable { memtable, end: AtomicU64::new(CLOSED) })
    }
}

/// A memtable that accepts no more writes.
#[derive(Clone, Debug)]
pub struct SealedMemtable {
    /// The memtable.
    pub memtable: Arc<Memtable>,
    /// The last commit before the seal; every entry is at or before it.
    pub sealed_at: CommitTs,
    /// The log position of the seal: everything before it is in this memtable, an older one, or the runs.
    pub log_end: log::Position,
    /// The first view whose holders all began at or after `sealed_at`.
    pub first_view: u64,
    /// The runs that were committed with its entries, at `sealed_at`.
    pub attached: Option<Arc<Attached>>,
}

impl SealedMemtable {
    /// Returns the attached runs of `table` that a reader at `ts` sees, newest first.
    #[inline]
    pub fn attached_for(&self, table: TableId, ts: CommitTs) -> &[Delta] {
        match &self.attached {
            Some(attached) if self.sealed_at <= ts => attached.runs(table),
            _ => &[],
        }
    }
}

/// One consistent set of parts. It is immutable, except that the open memtable grows.
#[derive(Debug)]
pub struct View {
    /// The number of the view, in the order of publication, from 1.
    pub number: u64,
    /// The memtable that receives the writes of new commits.
    pub open: Arc<OpenMemtable>,
    /// The sealed memtables that are not absorbed yet, newest first.
    pub sealed: Vec<SealedMemtable>,
    /// The runs of every table.
    pub tables: Arc<Tables>,
    /// The checkpoint that wrote those runs.
    pub checkpoint: CheckpointNo,
    /// Whether any sealed memtable has attached runs.
    pub has_attached: bool,
    /// The newest commit that the runs may contain.
    pub absorbed: CommitTs,
}

impl View {
    /// Returns the memtables, newest first.
    pub fn memtables(&self) -> impl Iterator<Item = &Memtable> {
        std::iter::once(&*self.open.memtable).chain(self.sealed.iter().map(|sealed| &*sealed.memtable))
    }
}

/// The purpose for which a slot holds its view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A read-only snapshot.
    Read,
    /// A read-write transaction, whose validation needs the memtables since its view.
    Write,
}

/// The current view and those that readers may still hold.
#[derive(Debug)]
pub struct Views {
    current: AtomicPtr<View>,
    kept: Kept,
}

/// All views that are not freed, oldest first; the last one is current. They are boxed, so that pointers to views stay
/// valid while the list moves. The lock has cache lines of its own: commits take it, and every reader loads `current`.
#[derive(Debug)]
#[repr(align(128))]
struct Kept(#[allow(clippy::vec_box)] Mutex<Vec<Box<View>>>);

impl Views {
    /// Creates the list; the first view is current.
    pub fn new(first: View) -> Self {
        let views = Views { current: AtomicPtr::new(ptr::null_mut()), kept: Kept(Mutex::new(Vec::new())) };
        views.publish(first);
        views
    }

    /// Takes hold of the current view and a timestamp that belongs to it, as the head of this file argues. Returns
    /// `None` after the store was closed.
    #[inline]
    pub fn acquire(
        &self,
        reader: &Reader,
        clock: impl Fn() -> CommitTs,
        purpose: Purpose,
    ) -> Option<(HeldView, CommitTs)> {
        reader.pending();
        loop {
            let current = self.current.load(Ordering::SeqCst);
            // SAFETY: published views are freed by `reclaim` alone, which frees none while a slot is pending, and
            // ours has been since before the load.
            let view = unsafe { &*current };
            let ts = clock();
            // SeqCst, partner `seal`: if `ts` is after the seal, its commit came after the seal's store.
            let end = view.open.end.load(Ordering::SeqCst);
            if ts.0 >= end || ts < view.absorbed {
                if end == CLOSED {
                    reader.let_go();
                    return None;
                }
                base::sync::spin();
                continue;
            }
            reader.hold(view.number, purpose == Purpose::Write);
            return Some((HeldView(current), ts));
        }
    }

    /// Runs `with` on the current view. It takes the list's lock: it is for the few callers that change views, not for
    /// readers.
    pub fn with_current<T>(&self, with: impl FnOnce(&View) -> T) -> T {
        let kept = lock(&self.kept.0);
        with(kept.last().expect("there is always a current view"))
    }

    /// Returns the memtable that receives the writes of new commits. It may be sealed a moment later.
    pub fn open_memtable(&self) -> Arc<Memtable> {
        self.with_current(|view| Arc::clone(&view.open.memtable))
    }

    /// Makes `view` the current one. The caller holds the commit lock.
    pub fn publish(&self, mut view: View) {
        let mut kept = lock(&self.kept.0);
        view.number = kept.last().map_or(1, |last| last.number + 1);
        kept.push(Box::new(view));
        let newest: *const View = &**kept.last().expect("just pushed");
        self.current.store(newest.cast_mut(), Ordering::SeqCst);
        base::sync::loom_fence();
    }

    /// Closes the open memtable of the current view at `ts`, the newest commit applied, and opens `next`. The caller
    /// holds the commit lock, so that no commit comes in between.
    pub fn seal(&self, ts: CommitTs, log_end: log::Position, next: Arc<Memtable>) -> SealedMemtable {
        let (sealed, view) = self.with_current(|current| {
            let memtable = Arc::clone(&current.open.memtable);
            let first_view = current.number + 1;
            let sealed = SealedMemtable { memtable, sealed_at: ts, log_end, first_view, attached: None };
            let mut all = Vec::with_capacity(current.sealed.len() + 1);
            all.push(sealed.clone());
            all.extend(current.sealed.iter().cloned());
            current.open.end.store(ts.0 + 1, Ordering::SeqCst);
            let (tables, checkpoint) = (Arc::clone(&current.tables), current.checkpoint);
            let (has_attached, absorbed) = (current.has_attached, current.absorbed);
            let open = OpenMemtable::new(next);
            (sealed, View { number: 0, open, sealed: all, tables, checkpoint, has_attached, absorbed })
        });
        self.publish(view);
        sealed
    }

    /// Closes the open memtable, which holds only what commit `ts` wrote, together with the runs `attached` of the same
    /// commit, and opens `next`. The caller holds the commit lock and has not published `ts` yet.
    pub fn attach(
        &self,
        ts: CommitTs,
        log_end: log::Position,
        attached: Arc<Attached>,
        next: Arc<Memtable>,
    ) -> SealedMemtable {
        let (sealed, view) = self.with_current(|current| {
            let memtable = Arc::clone(&current.open.memtable);
            let first_view = current.number + 2;
            let sealed =
                SealedMemtable { memtable, sealed_at: ts, log_end, first_view, attached: Some(attached) };
            let all = std::iter::once(&sealed).chain(&current.sealed).cloned().collect();
            current.open.end.store(ts.0, Ordering::SeqCst);
            let (tables, checkpoint) = (Arc::clone(&current.tables), current.checkpoint);
            let (open, absorbed) = (OpenMemtable::new(next), current.absorbed);
            (sealed, View { number: 0, open, sealed: all, tables, checkpoint, has_attached: true, absorbed })
        });
        self.publish(view);
        sealed
    }

    /// Replaces the memtables sealed at or before `absorbed` with the runs of `checkpoint`. The caller holds the commit
    /// lock.
    pub fn switch(&self, absorbed: CommitTs, tables: Arc<Tables>, checkpoint: CheckpointNo) {
        let view = self.with_current(|current| {
            let sealed: Vec<SealedMemtable> =
                current.sealed.iter().filter(|sealed| sealed.sealed_at > absorbed).cloned().collect();
            let has_attached = sealed.iter().any(|sealed| sealed.attached.is_some());
            let open = Arc::clone(&current.open);
            View { number: 0, open, sealed, tables, checkpoint, has_attached, absorbed }
        });
        self.publish(view);
    }

    /// Publishes the last view, which holds the runs and `empty`. From now on [`Views::acquire`] returns `None`, and
    /// memtables that no reader holds can be freed.
    pub fn close(&self, empty: Arc<Memtable>) {
        let view = self.with_current(|current| View {
            number: 0,
            open: OpenMemtable::closed(empty),
            sealed: Vec::new(),
            tables: Arc::new(current.tables.without_residences()),
            checkpoint: current.checkpoint,
            has_attached: false,
            absorbed: current.absorbed,
        });
        self.publish(view);
    }

    /// Announces `view` in another slot, for reading. `call` is a call of a slot that holds it, and so proves that it
    /// is held meanwhile.
    pub fn hold_too(&self, view: HeldView, call: &EpochGuard<'_>, reader: &Reader) {
        // This is under the list's lock: a scan that had passed the new slot, and reaches the old one after that was
        // released, would see neither.
        let _kept = lock(&self.kept.0);
        reader.pending();
        // SAFETY: `call` keeps the view.
        reader.hold(unsafe { view.get(call) }.number, false);
    }

    /// Frees the views that no slot holds, and returns the checkpoints that kept views still read, ascending. While a
    /// reader is about to take hold of one, nothing is freed.
    pub fn reclaim(&self, slots: &Slots) -> Vec<CheckpointNo> {
        let mut kept = lock(&self.kept.0);
        let mut freed = Vec::new();
        if let Some(held) = holdings(slots) {
            let current = kept.last().expect("there is always a current view").number;
            let is_held = |number| held.iter().any(|holding| holding.view == number);
            freed.extend(kept.extract_if(.., |view| view.number != current && !is_held(view.number)));
        }
        let mut read: Vec<_> = kept.iter().map(|view| view.checkpoint).collect();
        drop(kept);
        drop(freed);
        read.dedup();
        read
    }

    /// Runs `with` on all views that are kept, oldest first; the last one is current.
    pub fn with_kept<T>(&self, with: impl FnOnce(&[Box<View>]) -> T) -> T {
        with(&lock(&self.kept.0))
    }

    /// Returns how many views are kept, including the current one.
    pub fn count(&self) -> usize {
        lock(&self.kept.0).len()
    }
}

/// Returns what the slots hold; `None` while a reader is pending.
pub fn holdings(slots: &Slots) -> Option<Vec<Holding>> {
    let held = |announced| match announced {
        Announced::Pending => None,
        Announced::Held(holding) => Some(holding),
    };
    slots.announced().map(held).collect()
}

/// Returns the oldest view that a read-write transaction holds: `u64::MAX` if there is none, 0 while one may be about
/// to.
pub fn oldest_writing_view(slots: &Slots) -> u64 {
    let Some(held) = holdings(slots) else { return 0 };
    let writing = held.iter().filter(|holding| holding.writes);
    writing.map(|holding| holding.view).min().unwrap_or(u64::MAX)
}

/// A view that a slot announces. The owner keeps the slot held.
#[derive(Clone, Copy, Debug)]
pub struct HeldView(*const View);

// SAFETY: a View is Sync, and the pointer is only ever dereferenced to a shared reference.
unsafe impl Send for HeldView {}

impl HeldView {
    /// Returns the view of a slot that holds none.
    pub const fn none() -> Self {
        HeldView(ptr::null())
    }

    /// Returns the view, for the length of a call.
    ///
    /// # Safety
    /// The slot through which the view was acquired has begun `call`, and has not released the view.
    #[inline]
    pub unsafe fn get<'a>(self, _call: &'a EpochGuard<'_>) -> &'a View {
        // SAFETY: the caller promises that the slot is in a call, and `reclaim` frees no view of such a slot.
        unsafe { &*self.0 }
    }

    /// Returns the view, for as long as a call is kept that looks at no frame.
    ///
    /// # Safety
    /// As for [`HeldView::get`]; and nothing of the view is used when the returned [`Suspended`] is dropped.
    pub unsafe fn keep<'a>(self, call: EpochGuard<'a>) -> (&'a View, Suspended<'a>) {
        // SAFETY: the caller promises that the slot is in a call, and `reclaim` frees no view of such a slot.
        (unsafe { &*self.0 }, call.suspend())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// A reader beside a writer jumps to a checkpoint: the view is there before the clock.
    #[test]
    fn a_snapshot_is_not_older_than_the_runs_of_its_view() {
        let slots = Arc::new(Slots::new());
        let (memtable, _writer) = Memtable::new();
        let views = Views::new(View {
            number: 0,
            open: OpenMemtable::new(memtable),
            sealed: Vec::new(),
            tables: Arc::default(),
            checkpoint: CheckpointNo(0),
            has_attached: false,
            absorbed: CommitTs(0),
        });
        views.switch(CommitTs(5), Arc::default(), CheckpointNo(1));
        let clock = Cell::new(2);
        let tick = || CommitTs(clock.replace(clock.get() + 1));
        let reader = slots.claim_or_full().unwrap();
        let (_, ts) = views.acquire(&reader, tick, Purpose::Read).unwrap();
        assert_eq!(ts, CommitTs(5));
        reader.let_go();
    }
}
