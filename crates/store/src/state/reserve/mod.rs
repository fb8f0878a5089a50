//! Room on the disk: a commit is accepted only if the checkpoint that will absorb it has its room already.
//!
//! A checkpoint copies every page that it changes before it frees one, so on a full disk it could not even absorb
//! deletes. Therefore:
//! 1. *Bound.* The most that absorbing takes follows from the number of records, bytes and tables in the memtables
//!    ([`Store::want_units`]): two pages for each record, but no more than exist; what is new, twice; the map.
//! 2. *Reserve.* So many free units of the data file are firm ([`space::firm`]): the file system keeps a block for
//!    each. The commit lock has an [`Allowance`] of records and bytes for which room was ensured. A commit that it does
//!    not cover has more room set aside, or waits for a checkpoint, or fails with [`Full`](ErrorKind::Full). Beyond
//!    [`SURE_UNITS`] and the recent use of checkpoints the room is not set aside but only checked: the file system must
//!    have twice as much.
//! 3. *Deletes.* Some more units are kept for commits that only delete. If these find no room in the log, some of the
//!    reserve is returned to the file system, as much as a short segment takes.
//! 4. *Fallback.* A checkpoint that meets a full disk nevertheless is made again with firm units alone, and without
//!    optional work; then only with the necessary work. A checkpoint that only merges, so that deleted records free
//!    their space, has no necessary work: it is made again with half as much to merge, down to a page's worth.
//!
//! A database of [`TINY_BYTES`] keeps nothing, because its reserve would be larger than itself. If the file system does
//! not set room aside (a copy-on-write one), or there is none (memory), none of this is done.

mod grant;
mod size;

use crate::state::stack::MOST_STACKED;
use crate::state::tables::{Layout, Tables};
use base::limits::UNIT_BYTES;
use base::op::{Decoder, Op};
use base::sync::lock;
use base::{Error, Lsn};
use run::Run;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

/// The size of a database, data file and unabsorbed log, below which it has no reserve.
const TINY_BYTES: u64 = 64 << 10;
/// The units that are always set aside: up to 32 MiB.
const SURE_UNITS: u64 = (32 << 20) / UNIT_BYTES as u64;
/// The share of all leaves that is kept for deletes.
const DELETES_SHARE: u64 = 16;
/// The least and the greatest number of pages that are kept for deletes.
const DELETES_PAGES: (u64, u64) = (4, 256);
/// The units that are kept for a log segment: 64 KiB, and what a file takes in addition to its bytes.
const LOG_UNITS: u64 = 16 + LOG_SPARE_UNITS;
const LOG_SPARE_UNITS: u64 = 4;
/// The pages that a checkpoint takes in addition to those of records: roots, the catalog and the physical rows.
const FIXED_PAGES: u64 = 4;
/// The least number of keys with references to values that fit a unit of a half-full leaf.
const REFERENCES_PER_UNIT: u64 = 16;
/// The bounds of an allowance, which is as large as what exists already.
const ALLOWANCE_RECORDS: (u64, u64) = (256, 64 << 10);
const ALLOWANCE_BYTES: (u64, u64) = (16 << 10, 8 << 20);
/// The least allowance of records and bytes. If there is no room for it, nothing is added, because that would take a
/// checkpoint for each record or two.
const LEAST_ALLOWANCE: Allowance = Allowance { records: 32, bytes: 4 << 10 };
/// The greatest size that a rejected commit counts when room is checked again.
const MOST_ASKED: Allowance = Allowance { records: 1000, bytes: 1 << 20 };

/// The least number of bytes that a careful checkpoint merges.
const LEAST_SLICE_BYTES: u64 = 4 << 10;
/// The number of halvings after which a careful checkpoint is given up.
const MOST_HALVINGS: u32 = 8;

/// What checkpoints leave out because the disk was full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fallback {
    /// The usual way.
    None,
    /// Only firm units, and compactions as small as the room.
    AllocatedOnly,
    /// Only firm units, and only the necessary work.
    NoMerges,
}

/// The state of the room.
#[derive(Debug)]
pub(crate) struct Reservations {
    fallback: AtomicU8,
    /// The number of times that a careful checkpoint's merge was halved: each one that found no room adds one.
    halvings: AtomicU32,
    /// The number of checkpoints that failed for lack of room with the last fallback.
    failures: AtomicU64,
    /// The lock for giving allowances, one at a time. It comes before the space map's lock and the commit lock.
    granting: Mutex<()>,
    /// Whether room is set aside at all.
    is_supported: AtomicBool,
    pub is_short: AtomicBool,
    /// Whether a whole reserve was set aside since the database was opened: from then on it is kept.
    is_kept: AtomicBool,
    /// The reason for rejections, and the size of the rejected commit: commits are accepted once there is room for it.
    why: Mutex<Option<(Error, Allowance)>>,
    /// The leaves that a checkpoint may copy: of B+tree tables and the physical rows.
    leaves: AtomicU64,
    /// The leaves of all runs.
    all_leaves: AtomicU64,
    /// The units that a checkpoint must merge of LSM tables that have their greatest height.
    due_units: AtomicU64,
    /// The LSNs that recovery skipped: their end, and their number.
    gap: (AtomicU64, AtomicU64),
}

impl Default for Reservations {
    fn default() -> Self {
        Reservations {
            fallback: AtomicU8::new(Fallback::None as u8),
            halvings: AtomicU32::new(0),
            failures: AtomicU64::new(0),
            granting: Mutex::default(),
            is_supported: AtomicBool::new(true),
            is_short: AtomicBool::new(false),
            is_kept: AtomicBool::new(false),
            why: Mutex::default(),
            leaves: AtomicU64::new(0),
            all_leaves: AtomicU64::new(0),
            due_units: AtomicU64::new(0),
            gap: (AtomicU64::new(0), AtomicU64::new(0)),
        }
    }
}

/// What may still be committed before room is checked again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Allowance {
    records: u64,
    bytes: u64,
}

impl Allowance {
    /// Takes `records` and `bytes` from the allowance, if it has both. Returns whether it did.
    #[inline]
    pub fn take(&mut self, records: u64, bytes: u64) -> bool {
        let covers = self.records >= records && self.bytes >= bytes;
        if covers {
            (self.records, self.bytes) = (self.records - records, self.bytes - bytes);
        }
        covers
    }
}

/// The leaves of all tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaves {
    /// The leaves that a checkpoint may copy: of B+tree tables and the physical rows.
    of_trees: u64,
    /// The leaves of all runs.
    all: u64,
    /// The units that a checkpoint must merge of LSM tables that have their greatest height.
    due_units: u64,
}

impl Leaves {
    /// Counts the leaves of `tables` and of the physical rows. O(tables).
    pub fn count(tables: &Tables, physical: &Run, page_bytes: usize) -> Leaves {
        let page_units = (page_bytes / UNIT_BYTES) as u64;
        let mut count = Leaves { of_trees: physical.leaves, all: physical.leaves, due_units: 0 };
        for (_, layout) in tables.iter() {
            match layout {
                Layout::BTree(run) => {
                    count.of_trees += run.leaves;
                    count.all += run.leaves;
                }
                Layout::Lsm(stack) => {
                    let entries = stack.entries();
                    let leaves: u64 = entries.iter().map(|entry| entry.delta.records.leaves).sum();
                    count.all += leaves;
                    if entries.len() + 2 >= MOST_STACKED {
                        count.due_units += leaves * page_units;
                    }
                }
            }
        }
        count
    }
}

/// What no checkpoint has absorbed yet.
#[derive(Clone, Copy, Debug, Default)]
struct Debt {
    records: u64,
    bytes: u64,
    tables: u64,
    /// The number of times that a checkpoint may go through a table: what it wrote in one pass it copies in the next.
    passes: u64,
}

impl Debt {
    fn with(self, more: Allowance) -> Debt {
        Debt {
            records: self.records.saturating_add(more.records),
            bytes: self.bytes.saturating_add(more.bytes),
            tables: self.tables + 1,
            passes: self.passes.max(1),
        }
    }
}

/// The purpose of the room that a commit needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The commit adds data.
    Adds,
    /// The commit only deletes.
    Frees,
}

impl Purpose {
    /// Returns the purpose of a commit record. O(operations).
    pub fn classify(record: &[u8]) -> Purpose {
        let is_delete = |op: &Op<'_>| matches!(op, Op::Delete { .. } | Op::DeleteRange { .. });
        let frees = Decoder::begin(record).is_some_and(|mut ops| ops.all(|(_, op)| is_delete(&op)));
        if frees { Purpose::Frees } else { Purpose::Adds }
    }
}

impl Reservations {
    pub fn fallback(&self) -> Fallback {
        match self.fallback.load(Ordering::SeqCst) {
            0 => Fallback::None,
            1 => Fallback::AllocatedOnly,
            _ => Fallback::NoMerges,
        }
    }

    /// Notes that a checkpoint with `fallback` found no room.
    pub fn note_failure(&self, fallback: Fallback) {
        match fallback {
            Fallback::None => self.fallback.fetch_max(Fallback::AllocatedOnly as u8, Ordering::SeqCst),
            Fallback::AllocatedOnly => {
                self.halvings.fetch_add(1, Ordering::SeqCst);
                self.fallback.fetch_max(Fallback::NoMerges as u8, Ordering::SeqCst)
            }
            Fallback::NoMerges => {
                self.failures.fetch_add(1, Ordering::SeqCst);
                Fallback::NoMerges as u8
            }
        };
    }

    /// Notes that a checkpoint with `fallback` succeeded. If it absorbed something, there may be more room, and more to
    /// merge.
    pub fn note_made(&self, fallback: Fallback, absorbs: bool) {
        if absorbs {
            self.halvings.store(0, Ordering::SeqCst);
        } else if fallback == Fallback::AllocatedOnly {
            // There is one checkpoint at a time: no other thread changes it.
            let before = self.halvings.load(Ordering::SeqCst);
            self.halvings.store(before.saturating_sub(1), Ordering::SeqCst);
        }
    }

    /// Returns whether a checkpoint that only merges may be made. With only its necessary work it would merge nothing.
    pub fn may_merge(&self) -> bool {
        if self.fallback() != Fallback::NoMerges {
            return true;
        }
        let is_worth_it = self.halvings.load(Ordering::SeqCst) <= MOST_HALVINGS;
        if is_worth_it {
            self.fallback.store(Fallback::AllocatedOnly as u8, Ordering::SeqCst);
        }
        is_worth_it
    }

    /// Returns how many bytes a careful checkpoint may merge, if `room_bytes` are certain.
    pub fn fallback_slice_bytes(&self, room_bytes: u64) -> u64 {
        let halvings = self.halvings.load(Ordering::SeqCst).min(MOST_HALVINGS);
        ((room_bytes / 4) >> halvings).max(LEAST_SLICE_BYTES)
    }

    /// Notes that recovery continued at `end`, after `bytes` unused LSNs.
    pub fn note_gap(&self, end: Lsn, bytes: u64) {
        self.gap.0.store(end.0, Ordering::SeqCst);
        self.gap.1.store(bytes, Ordering::SeqCst);
    }

    /// Returns the number of unused LSNs after `replay_from`.
    fn gap_after(&self, replay_from: u64) -> u64 {
        if replay_from < self.gap.0.load(Ordering::SeqCst) { self.gap.1.load(Ordering::SeqCst) } else { 0 }
    }

    /// Notes the leaves of the present runs.
    pub fn note_leaves(&self, leaves: Leaves) {
        self.leaves.store(leaves.of_trees, Ordering::SeqCst);
        self.all_leaves.store(leaves.all, Ordering::SeqCst);
        self.due_units.store(leaves.due_units, Ordering::SeqCst);
    }

    fn is_supported(&self) -> bool {
        self.is_supported.load(Ordering::SeqCst)
    }

    fn set_short(&self, why: Option<(Error, Allowance)>) {
        self.is_short.store(why.is_some(), Ordering::SeqCst);
        *lock(&self.why) = why;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On a full disk, a checkpoint that only merges is made smaller and smaller, and is given up in the end. What a
    /// checkpoint absorbs, or merges, makes it worth another try.
    #[test]
    fn a_merge_without_room_is_halved_and_then_given_up() {
        let reservations = Reservations::default();
        let room = 64 << 20;
        reservations.note_failure(Fallback::None);
        assert_eq!(
            (reservations.fallback(), reservations.fallback_slice_bytes(room)),
            (Fallback::AllocatedOnly, 16 << 20)
        );
        for halvings in 1..=MOST_HALVINGS {
            reservations.note_failure(Fallback::AllocatedOnly);
            assert_eq!(reservations.fallback(), Fallback::NoMerges);
            assert!(reservations.may_merge(), "after {halvings} halvings");
            assert_eq!(
                (reservations.fallback(), reservations.fallback_slice_bytes(room)),
                (Fallback::AllocatedOnly, (16 << 20) >> halvings)
            );
        }
        assert_eq!(reservations.fallback_slice_bytes(0), LEAST_SLICE_BYTES);
        reservations.note_failure(Fallback::AllocatedOnly);
        assert!(
            !reservations.may_merge() && reservations.fallback() == Fallback::NoMerges,
            "it would be tried for ever"
        );
        reservations.note_made(Fallback::NoMerges, false);
        assert!(!reservations.may_merge(), "a checkpoint that did nothing has made no room");
        reservations.note_made(Fallback::NoMerges, true);
        assert!(reservations.may_merge());
        assert_eq!(reservations.fallback_slice_bytes(room), 16 << 20);
        reservations.note_failure(Fallback::AllocatedOnly);
        reservations.note_failure(Fallback::AllocatedOnly);
        assert!(reservations.may_merge());
        reservations.note_made(Fallback::AllocatedOnly, false);
        assert_eq!(reservations.fallback_slice_bytes(room), 8 << 20, "one that merged has made some room");
    }
}
