//! Room on the disk: a commit is taken only if the checkpoint that will absorb it has its room already.
//!
//! A checkpoint copies every page that it changes before it frees one, so on a full disk it could not even absorb
//! deletes. Therefore:
//! 1. *Bound.* What absorbing takes at most follows from how many records, bytes and tables the memtables hold
//!    ([`Store::want_units`]): two pages for each record, but no more than there are; what is new, twice; the map.
//! 2. *Reserve.* So many free units of the data file are firm ([`space::firm`]): the file system keeps a block for
//!    each. The commit lock has a [`Credit`] of records and bytes for which that was seen to; a commit that it does
//!    not cover has more room set aside, or waits for a checkpoint, or is [`Full`](ErrorKind::Full). Beyond
//!    [`SURE_UNITS`] and what checkpoints took lately the room is not set aside but asked for: the file system must
//!    have it twice.
//! 3. *Deletes.* Some units more are kept, which only commits that delete and nothing else may count on. If these find
//!    no room in the log, some of the reserve is given back to the file system, as much as a short segment takes.
//! 4. *Care.* A checkpoint that meets a full disk nevertheless is made again with firm units alone, and without what it
//!    need not do; then with nothing but what it must. One that only merges, so that what was deleted gives its room
//!    back, has nothing that it must do: it is made again with half as much to merge, down to a page's worth.
//!
//! A database of [`TINY_BYTES`] keeps nothing: its reserve would be larger than itself. Where the file system does not
//! set room aside (a copy-on-write one), or there is none (memory), none of this is done.

mod grant;
mod reserve;

use crate::state::stack::MOST_STACKED;
use crate::state::tables::{Layout, Tables};
use base::limits::UNIT_BYTES;
use base::op::{Decoder, Op};
use base::sync::lock;
use base::{Error, Lsn};
use run::Run;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

/// So much of a database, data file and log that is not absorbed, takes no reserve.
const TINY_BYTES: u64 = 64 << 10;
/// Up to 32 MiB are set aside always, in units.
const SURE_UNITS: u64 = (32 << 20) / UNIT_BYTES as u64;
/// What is kept for deletes: this share of all leaves,
const DELETES_SHARE: u64 = 16;
/// at least and at most so many pages.
const DELETES_PAGES: (u64, u64) = (4, 256);
/// What is kept to be given back for a log segment: 64 KiB, and what a file takes beside its bytes.
const LOG_UNITS: u64 = 16 + LOG_SPARE_UNITS;
const LOG_SPARE_UNITS: u64 = 4;
/// Pages that a checkpoint takes beside those of records: roots, the catalog and the physical rows.
const FIXED_PAGES: u64 = 4;
/// At least so many keys with references to values fit a unit of a leaf that is half full.
const REFERENCES_PER_UNIT: u64 = 16;
/// Credits are as large as what is there already, within these bounds.
const CREDIT_RECORDS: (u64, u64) = (256, 64 << 10);
const CREDIT_BYTES: (u64, u64) = (16 << 10, 8 << 20);
/// Where there is no room for a credit of so many records and bytes, nothing is added: a checkpoint for each record or
/// two would be the price.
const LEAST_CREDIT: Credit = Credit { records: 32, bytes: 4 << 10 };
/// A commit that is refused counts as one of at most this size, when it is looked whether there is room again.
const MOST_ASKED: Credit = Credit { records: 1000, bytes: 1 << 20 };

/// A careful checkpoint merges at least so many bytes,
const LEAST_SLICE_BYTES: u64 = 4 << 10;
/// and is given up after so many halvings.
const MOST_HALVINGS: u32 = 8;

/// How careful checkpoints are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Care {
    /// As usual.
    None,
    /// Firm units alone, compactions as small as the room.
    Firm,
    /// Firm units alone, and only what must be done.
    Bare,
}

/// What is known of the room.
#[derive(Debug)]
pub(crate) struct Rooms {
    care: AtomicU8,
    /// How often what a careful checkpoint merges was halved: each that found no room adds one.
    halvings: AtomicU32,
    /// Checkpoints that were as careful as can be, and failed for want of room.
    failures: AtomicU64,
    /// One credit is given at a time. Before the space map's lock and the commit lock.
    granting: Mutex<()>,
    /// Whether room is set aside at all.
    is_supported: AtomicBool,
    pub is_short: AtomicBool,
    /// Whether a whole reserve was set aside since the database was opened: from then on it is kept.
    is_kept: AtomicBool,
    /// Why, and the size of what was refused: once there is room for as much, they are taken again.
    why: Mutex<Option<(Error, Credit)>>,
    /// Leaves that a checkpoint may copy: of B+tree tables and the physical rows.
    leaves: AtomicU64,
    /// Leaves of all runs.
    all_leaves: AtomicU64,
    /// What a checkpoint must merge of LSM tables that are as tall as may be, in units.
    due_units: AtomicU64,
    /// LSNs that recovery passed over: they end here, and are so many.
    gap: (AtomicU64, AtomicU64),
}

impl Default for Rooms {
    fn default() -> Self {
        Rooms {
            care: AtomicU8::new(Care::None as u8),
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

/// What may still be committed before room has to be seen to again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Credit {
    records: u64,
    bytes: u64,
}

impl Credit {
    /// Takes so much of it, if it has that.
    #[inline]
    pub fn take(&mut self, records: u64, bytes: u64) -> bool {
        let covers = self.records >= records && self.bytes >= bytes;
        if covers {
            (self.records, self.bytes) = (self.records - records, self.bytes - bytes);
        }
        covers
    }
}

/// What no checkpoint has absorbed yet.
#[derive(Clone, Copy, Debug, Default)]
struct Owed {
    records: u64,
    bytes: u64,
    tables: u64,
    /// So often a checkpoint may go through a table: what it wrote in one pass it copies in the next.
    passes: u64,
}

impl Owed {
    fn with(self, more: Credit) -> Owed {
        Owed {
            records: self.records.saturating_add(more.records),
            bytes: self.bytes.saturating_add(more.bytes),
            tables: self.tables + 1,
            passes: self.passes.max(1),
        }
    }
}

/// For what a commit asks, beside its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It adds.
    Adds,
    /// It deletes, and nothing else.
    Frees,
}

impl Purpose {
    /// Of a commit record. O(operations).
    pub fn of(record: &[u8]) -> Purpose {
        let is_delete = |op: &Op<'_>| matches!(op, Op::Delete { .. } | Op::DeleteRange { .. });
        let frees = Decoder::begin(record).is_some_and(|mut ops| ops.all(|(_, op)| is_delete(&op)));
        if frees { Purpose::Frees } else { Purpose::Adds }
    }
}

impl Rooms {
    pub fn care(&self) -> Care {
        match self.care.load(Ordering::SeqCst) {
            0 => Care::None,
            1 => Care::Firm,
            _ => Care::Bare,
        }
    }

    /// A checkpoint of such care found no room.
    pub fn note_failure(&self, care: Care) {
        match care {
            Care::None => self.care.fetch_max(Care::Firm as u8, Ordering::SeqCst),
            Care::Firm => {
                self.halvings.fetch_add(1, Ordering::SeqCst);
                self.care.fetch_max(Care::Bare as u8, Ordering::SeqCst)
            }
            Care::Bare => {
                self.failures.fetch_add(1, Ordering::SeqCst);
                Care::Bare as u8
            }
        };
    }

    /// A checkpoint of such care was made. If it absorbed something, there may be more room, and more to merge.
    pub fn note_made(&self, care: Care, absorbs: bool) {
        if absorbs {
            self.halvings.store(0, Ordering::SeqCst);
        } else if care == Care::Firm {
            // One checkpoint is made at a time: nobody else changes it.
            let before = self.halvings.load(Ordering::SeqCst);
            self.halvings.store(before.saturating_sub(1), Ordering::SeqCst);
        }
    }

    /// Whether a checkpoint that only merges may be made. With nothing but what it must do it would merge nothing.
    pub fn may_merge(&self) -> bool {
        if self.care() != Care::Bare {
            return true;
        }
        let is_worth_it = self.halvings.load(Ordering::SeqCst) <= MOST_HALVINGS;
        if is_worth_it {
            self.care.store(Care::Firm as u8, Ordering::SeqCst);
        }
        is_worth_it
    }

    /// What a careful checkpoint may merge, in bytes, of `room_bytes` that are certain.
    pub fn careful_slice_bytes(&self, room_bytes: u64) -> u64 {
        let halvings = self.halvings.load(Ordering::SeqCst).min(MOST_HALVINGS);
        ((room_bytes / 4) >> halvings).max(LEAST_SLICE_BYTES)
    }

    /// Recovery went on at `end`, behind `bytes` LSNs that nobody uses.
    pub fn note_gap(&self, end: Lsn, bytes: u64) {
        self.gap.0.store(end.0, Ordering::SeqCst);
        self.gap.1.store(bytes, Ordering::SeqCst);
    }

    /// Of the LSNs from `replay_from` on, those that nobody uses.
    fn gap_after(&self, replay_from: u64) -> u64 {
        if replay_from < self.gap.0.load(Ordering::SeqCst) { self.gap.1.load(Ordering::SeqCst) } else { 0 }
    }

    /// The runs are these from now on.
    pub fn note_tables(&self, tables: &Tables, physical: &Run, page_bytes: usize) {
        let page_units = (page_bytes / UNIT_BYTES) as u64;
        let (mut trees, mut all, mut due) = (physical.leaves, physical.leaves, 0);
        for (_, layout) in tables.iter() {
            match layout {
                Layout::BTree(run) => {
                    trees += run.leaves;
                    all += run.leaves;
                }
                Layout::Lsm(stack) => {
                    let entries = stack.entries();
                    let leaves: u64 = entries.iter().map(|entry| entry.delta.records.leaves).sum();
                    all += leaves;
                    if entries.len() + 2 >= MOST_STACKED {
                        due += leaves * page_units;
                    }
                }
            }
        }
        self.leaves.store(trees, Ordering::SeqCst);
        self.all_leaves.store(all, Ordering::SeqCst);
        self.due_units.store(due, Ordering::SeqCst);
    }

    fn is_supported(&self) -> bool {
        self.is_supported.load(Ordering::SeqCst)
    }

    fn set_short(&self, why: Option<(Error, Credit)>) {
        self.is_short.store(why.is_some(), Ordering::SeqCst);
        *lock(&self.why) = why;
    }
}
