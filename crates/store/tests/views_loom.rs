//! Acquisition of views against seals, switches and reclamation, under every interleaving (up to a bound on
//! preemptions): `RUSTFLAGS="--cfg loom" cargo test --release -p pando-db-store --test views_loom`.
//!
//! The module under proof is the one that ships, taken by path, because the rest of its crate is beyond loom. Its paths
//! begin at the root of this program, which is therefore not that of the other tests. What is asked of it:
//! 1. *No freed view is used.* Everything in a view is counted: the holder of one holds a count of its memtable.
//! 2. *No snapshot is torn.* A commit at or before the snapshot's timestamp lies in a memtable of its view, or in
//!    its runs; here every memtable notes the commits that went into it.
//!
//! The models have counterparts in which the caller breaks its part of the bargain, and which must fail: a model that
//! cannot fail proves nothing. Red as well: `acquire` without its look at `end` or at `absorbed`, or with the clock
//! read before the view; `pending` left out, `Relaxed`, or not heeded by `reclaim`; a publication weaker than `SeqCst`.
#![cfg(loom)]

mod state {
    /// Runs lie on the disk, which is beyond loom: here no table has one.
    pub mod tables {
        #[derive(Debug, Default)]
        pub struct Tables;

        impl Tables {
            pub fn without_residences(&self) -> Tables {
                Tables
            }
        }
    }
    /// Nor are any attached.
    #[allow(dead_code)]
    pub mod attach {
        #[derive(Debug)]
        pub struct Attached;

        impl Attached {
            pub fn runs(&self, _: base::TableId) -> &[run::Delta] {
                &[]
            }
        }
    }
}
#[path = "../src/state/view.rs"]
#[allow(dead_code, missing_docs)]
mod view;

use base::slots::Slots;
use base::sync::Arc;
use base::sync::atomic::{AtomicU64, Ordering};
use base::{CheckpointNo, CommitTs, Lsn};
use loom::thread;
use memtable::Memtable;
use state::tables::Tables;
use view::{OpenMemtable, Purpose, View, Views};

/// As much of a store as a reader's beginning meets: the views, the slots, and one clock.
struct Model {
    views: Views,
    slots: std::sync::Arc<Slots>,
    clock: AtomicU64,
    /// The memtables in the order of their seals, the open one last, each with the last commit in it, which here
    /// is known beforehand. A count of each is kept here, so that the others' counts show who else has it.
    memtables: Vec<(Arc<Memtable>, u64)>,
}

fn position() -> log::Position {
    log::Position { segment: 0, generation: 0, lsn: Lsn(0) }
}

impl Model {
    /// An open memtable for commits through the first of `lasts`, and further ones to be opened by seals.
    fn new(lasts: &[u64]) -> Arc<Self> {
        let memtables: Vec<_> = lasts.iter().map(|last| (Memtable::new().0, *last)).collect();
        let first = View {
            number: 0,
            open: OpenMemtable::new(Arc::clone(&memtables[0].0)),
            sealed: Vec::new(),
            tables: Arc::new(Tables::default()),
            checkpoint: CheckpointNo(0),
            has_attached: false,
            absorbed: CommitTs(0),
        };
        let (slots, clock) = (std::sync::Arc::new(Slots::new()), AtomicU64::new(0));
        Arc::new(Model { views: Views::new(first), slots, clock, memtables })
    }

    fn commit(&self, ts: u64) {
        self.clock.store(ts, Ordering::SeqCst);
    }

    /// Closes the `n`-th memtable behind its last commit and opens the next.
    fn seal(&self, n: usize) {
        let last = CommitTs(self.memtables[n].1);
        self.views.seal(last, position(), Arc::clone(&self.memtables[n + 1].0));
    }

    /// The memtables through the `n`-th are absorbed. A checkpoint's number is that of the last commit in it.
    fn switch(&self, n: usize) {
        let last = self.memtables[n].1;
        self.views.switch(CommitTs(last), Arc::new(Tables::default()), CheckpointNo(last));
    }

    fn reclaim(&self) {
        self.views.reclaim(&self.slots);
    }

    /// Begins a read, checks what it got, and ends it.
    fn read(&self) {
        let reader = self.slots.claim().unwrap();
        let now = || CommitTs(self.clock.load(Ordering::SeqCst));
        let (held, ts) = self.views.acquire(&reader, now, Purpose::Read).unwrap();
        for _ in 0..2 {
            // A view that was revoked is looked at no more.
            let Some(call) = reader.begin_call() else { break };
            // SAFETY: the call is the slot's own, and it holds the view until `let_go`.
            self.check(unsafe { held.get(&call) }, ts);
        }
        reader.let_go();
    }

    /// Begins a read, hands it on to a second slot, lets go of the first, and checks what the second holds.
    fn read_on(&self) {
        let (reader, other) = (self.slots.claim().unwrap(), self.slots.claim().unwrap());
        let now = || CommitTs(self.clock.load(Ordering::SeqCst));
        // In the order of a scan: the new slot before the old one.
        let (held, ts) = self.views.acquire(&other, now, Purpose::Read).unwrap();
        let call = other.begin_call().unwrap();
        self.views.hold_too(held, &call, &reader);
        drop(call);
        other.let_go();
        let call = reader.begin_call().unwrap();
        // SAFETY: as above.
        self.check(unsafe { held.get(&call) }, ts);
        drop(call);
        reader.let_go();
    }

    /// Takes every view but the current one from its holders, and frees them.
    fn expire(&self) {
        let current = self.views.with_current(|view| view.number);
        for holding in view::holdings(&self.slots).unwrap_or_default() {
            if holding.view < current {
                self.slots.revoke(&holding);
            }
        }
        self.reclaim();
    }

    fn check(&self, view: &View, ts: CommitTs) {
        assert!(view.checkpoint.0 <= ts.0, "the runs hold commits after the snapshot");
        for (n, (memtable, last)) in self.memtables.iter().enumerate() {
            let first = if n == 0 { 1 } else { self.memtables[n - 1].1 + 1 };
            let is_in_view = view.memtables().any(|other| std::ptr::eq(other, &**memtable));
            if is_in_view {
                assert!(Arc::strong_count(memtable) > 1, "a view that is held was freed");
            }
            let holds_needed_commit = first <= ts.0 && view.checkpoint.0 < *last;
            assert!(is_in_view || !holds_needed_commit, "memtable {n} is missing at {ts:?}");
        }
    }
}

/// Runs `writer` beside `readers` that each begin one read. One more thread costs a preemption: a minute else.
fn race(lasts: &'static [u64], readers: usize, writer: fn(&Model)) {
    race_with(lasts, readers, Model::read, writer);
}

fn race_with(lasts: &'static [u64], readers: usize, read: fn(&Model), writer: fn(&Model)) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(4 - readers);
    model.check(move || {
        let shared = Model::new(lasts);
        let spawn = |_| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || read(&shared))
        };
        let readers: Vec<_> = (0..readers).map(spawn).collect();
        writer(&shared);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        shared.reclaim();
        assert_eq!(shared.views.count(), 1, "with no reader left the current view alone is kept");
    });
}

#[test]
fn a_seal_tears_no_snapshot() {
    race(&[1, 2], 1, |model| {
        model.commit(1);
        model.seal(0);
        model.commit(2);
        model.reclaim();
    });
}

#[test]
fn a_switch_shows_nothing_from_after_the_snapshot() {
    race(&[1, 2], 1, |model| {
        model.commit(1);
        model.seal(0);
        model.switch(0);
        model.reclaim();
        model.commit(2);
    });
}

#[test]
fn two_readers_and_two_seals() {
    race(&[1, 2, 3], 2, |model| {
        model.commit(1);
        model.seal(0);
        model.commit(2);
        model.seal(1);
        model.reclaim();
    });
}

#[test]
fn a_view_is_not_taken_from_a_call() {
    race(&[1, 2], 1, |model| {
        model.commit(1);
        model.seal(0);
        model.switch(0);
        model.expire();
    });
}

#[test]
fn a_view_that_is_handed_on_stays() {
    race_with(&[1, 2], 1, Model::read_on, |model| {
        model.commit(1);
        model.seal(0);
        model.reclaim();
    });
}

/// The commit lock keeps this from happening.
#[test]
#[should_panic(expected = "memtable 1 is missing")]
fn a_commit_that_overtakes_its_seal_is_missed() {
    race(&[1, 2], 1, |model| {
        model.commit(1);
        model.commit(2);
        model.seal(0);
    });
}

/// A checkpoint publishes what it absorbs before it switches. A reader beside a writer that jumps cannot, so a snapshot
/// waits until the clock has reached what the runs hold.
#[test]
fn a_switch_before_publication_is_waited_for() {
    race(&[1, 2], 1, |model| {
        model.seal(0);
        model.switch(0);
        model.commit(1);
    });
}
