//! Long readers: what each keeps, and when they expire.
//!
//! A snapshot keeps its view: the memtables that were not absorbed then, and the pages that were replaced since. A
//! read-write transaction also keeps the sealed memtables of its time, as the history for the validation of its commit,
//! and the pages of the runs that were attached among them. Each is cheap, and a forgotten one is not noticed until
//! memory or disk are full of what only it can see. So there are bounds:
//!
//! * on *memory*: the memtables that are kept only for readers, by about their share ([`crate::options::Shares`]);
//! * on *space*: the units that are kept only for readers, by an option;
//! * on *age*, by an option that is off by default: age by itself does no harm.
//!
//! Beyond a bound the oldest readers lose their views (`base::slots` describes how, and why that is safe), but no more
//! of them than necessary. Their next call fails with [`ErrorKind::SnapshotTooOld`](base::ErrorKind::SnapshotTooOld).
//! Others are not affected, because their own views keep what they see. A reader that is in a call, an open cursor, and
//! a user's code inside a `get_with` keep what they look at; it is freed when they have ended.
//!
//! The store has no clock. Its driver sets the time ([`crate::Store::tick`]); ages are as precise as that.

mod id;
mod readers;

pub use id::ReaderId;

use crate::state::view::{SealedMemtable, View};
use base::limits::UNIT_BYTES;
use base::slots::Holding;
use base::{CheckpointNo, CommitTs};
use memtable::Memtable;
use space::Space;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::Location;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The age at which a reader is reported, whatever it keeps.
const NOTICED_AGE_MS: u64 = 60_000;
/// The most notices that wait to be taken; further ones are dropped.
const MAX_NOTICES: usize = 64;

/// The bounds, and the readers that were reported.
#[derive(Debug)]
pub(crate) struct Expiry {
    /// The time, in milliseconds since a fixed moment.
    clock_ms: AtomicU64,
    max_age_ms: Option<u64>,
    memory_bytes: usize,
    /// The bound on space; `None`: [`default_space_bytes`].
    space_bytes: Option<u64>,
    noticed: Mutex<Noticed>,
    expired: AtomicU64,
}

/// The space that readers may always keep, in bytes: below it the file's size is not checked.
const MIN_SPACE_BYTES: u64 = 1 << 30;

/// Returns how many bytes of a data file, of which `used_bytes` are in use, readers may keep if no option is set.
///
/// It is twice what is in use: a merge of everything (a compaction, a change of layout or the lowest level of an LSM
/// table) retires everything, including what it leaves out, and a reader that began just before should survive it.
pub fn default_space_bytes(used_bytes: u64) -> u64 {
    used_bytes.saturating_mul(2).max(MIN_SPACE_BYTES)
}

#[derive(Debug, Default)]
struct Noticed {
    readers: BTreeSet<(usize, u64)>,
    notices: Vec<OpenReader>,
}

/// An open snapshot or transaction, as [`crate::Store::readers`] returns it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OpenReader {
    /// The identity of the reader, which stays the same until it ends.
    pub id: ReaderId,
    /// Whether the reader is a read-write transaction.
    pub is_transaction: bool,
    /// The time for which the reader has been open, accurate to about a second.
    pub age: Duration,
    /// The number of the last commit that the reader sees.
    pub commit: u64,
    /// The number of the view that the reader holds. Views are numbered since the database was opened.
    pub view: u64,
    /// The place in the program where the reader was begun.
    pub opened_at: Option<&'static Location<'static>>,
    /// The memory of memtables that this reader needs and the newest view does not, in bytes. Memory that several
    /// readers keep counts for each of them.
    pub memory_bytes: u64,
    /// The space in the data file that is not freed before this reader ends, in bytes. Space that several readers keep
    /// counts for each of them.
    pub space_bytes: u64,
    /// Whether the reader is being used at this moment, or has an open cursor. What it keeps stays until that ends.
    pub in_call: bool,
    /// Whether the reader has expired: its next call fails.
    pub expired: bool,
}

impl Expiry {
    pub fn new(options: &crate::Options) -> Self {
        let shares = options.shares();
        Expiry {
            clock_ms: AtomicU64::new(0),
            max_age_ms: options.max_snapshot_age.map(|age| age.as_millis() as u64),
            // One view may hold a whole share, and the memtables that were filling when writers were held back: a
            // reader may keep that much however quickly others write. Half of the memory remains for writers.
            memory_bytes: (shares.memtables_bytes + 2 * shares.seal_bytes).min(options.ceiling_bytes() / 2),
            space_bytes: options.max_pinned_space_bytes,
            noticed: Mutex::new(Noticed::default()),
            expired: AtomicU64::new(0),
        }
    }

    /// Returns how much memory a reader may keep of memtables that the newest view does not need, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// Returns whether `kept_bytes` is more than readers may keep of the data file, of which `used_bytes` are in use.
    pub fn is_too_much_space(&self, kept_bytes: u64, used_bytes: u64) -> bool {
        kept_bytes > self.space_bytes.unwrap_or_else(|| default_space_bytes(used_bytes))
    }

    /// Returns the last time that [`crate::Store::tick`] got, in milliseconds.
    #[inline]
    pub fn now_ms(&self) -> u64 {
        // Relaxed: it orders nothing.
        self.clock_ms.load(Ordering::Relaxed)
    }

    /// Returns how many readers lost their views.
    pub fn count(&self) -> u64 {
        // Relaxed: a tally.
        self.expired.load(Ordering::Relaxed)
    }
}

/// What one view holds and the newest does not.
#[derive(Debug)]
struct Retained {
    checkpoint: CheckpointNo,
    memtables: Vec<(usize, u64)>,
}

/// A census of what is kept for whom: collected under locks, evaluated without.
#[derive(Debug)]
struct Census {
    views: HashMap<u64, Retained>,
    /// The sealed memtables that are kept only for validation: the first view without each, its address, its bytes.
    history: Vec<(u64, usize, u64)>,
    /// The commits in the history that attached runs, newest first: the first view without each, and its number.
    attached: Vec<(u64, CommitTs)>,
    /// The units that are kept because commits that attached runs are in the history, by the last commit that was
    /// absorbed with each.
    validated: BTreeMap<CommitTs, u64>,
    /// The retired units, by the first checkpoint that may reach them and the one that retired them.
    retired: BTreeMap<(CheckpointNo, CheckpointNo), u64>,
}

fn address_and_bytes(memtable: &Memtable) -> (usize, u64) {
    (std::ptr::from_ref(memtable).addr(), memtable.bytes() as u64)
}

impl Census {
    fn take(views: &[Box<View>], history: &[SealedMemtable], space: &Space) -> Self {
        let newest = views.last().expect("there is always a current view");
        let needed: BTreeSet<_> = newest.memtables().map(|memtable| address_and_bytes(memtable).0).collect();
        let others = |view: &View| {
            let memtables = view.memtables().map(address_and_bytes);
            memtables.filter(|(address, _)| !needed.contains(address)).collect()
        };
        let kept = |view: &View| Retained { checkpoint: view.checkpoint, memtables: others(view) };
        let past = |sealed: &SealedMemtable| {
            let (address, bytes) = address_and_bytes(&sealed.memtable);
            (!needed.contains(&address)).then_some((sealed.first_view, address, bytes))
        };
        let place = |sealed: &SealedMemtable| (sealed.first_view, sealed.sealed_at);
        Census {
            views: views.iter().map(|view| (view.number, kept(view))).collect(),
            history: history.iter().filter_map(past).collect(),
            attached: history.iter().filter(|sealed| sealed.attached.is_some()).map(place).collect(),
            validated: space.validated_units().clone(),
            retired: space.retired_by_checkpoint(),
        }
    }

    /// Returns the memtables that `holding` keeps, by address.
    fn memtables(&self, holding: &Holding) -> impl Iterator<Item = (usize, u64)> {
        let own = self.views.get(&holding.view).into_iter().flat_map(|kept| kept.memtables.iter().copied());
        let oldest = if holding.writes { holding.view } else { u64::MAX };
        let history = self.history.iter().filter(move |(first_view, ..)| *first_view > oldest);
        own.chain(history.map(|&(_, address, bytes)| (address, bytes)))
    }

    fn memory_bytes(&self, holding: &Holding) -> u64 {
        self.memtables(holding).collect::<BTreeSet<_>>().iter().map(|(_, bytes)| bytes).sum()
    }

    fn space_bytes(&self, holding: &Holding) -> u64 {
        let Some(kept) = self.views.get(&holding.view) else { return 0 };
        let seen = self.retired.iter().filter(|((born, at), _)| (*born..*at).contains(&kept.checkpoint));
        let units = seen.map(|(_, units)| units).sum::<u64>() + self.validated_units(holding);
        units * UNIT_BYTES as u64
    }

    /// Returns the units that `holding` keeps for its validation.
    fn validated_units(&self, holding: &Holding) -> u64 {
        let is_needed = |&&(first_view, _): &&(u64, CommitTs)| holding.writes && first_view > holding.view;
        // The newest come first, and an older one has an older first view.
        let Some((_, oldest)) = self.attached.iter().take_while(is_needed).last() else { return 0 };
        self.validated.range(*oldest..).map(|(_, units)| units).sum()
    }

    /// Returns the newest view whose holders, together with all younger ones, keep more than the bounds allow; 0 if
    /// none.
    fn cut(&self, held: &[Holding], memory_bytes: u64, space_bytes: u64) -> u64 {
        let mut newest_first: Vec<_> = held.iter().collect();
        newest_first.sort_unstable_by_key(|holding| std::cmp::Reverse(holding.view));
        let (mut counted, mut total) = (BTreeSet::new(), 0);
        for holding in newest_first {
            for (address, bytes) in self.memtables(holding) {
                total += if counted.insert(address) { bytes } else { 0 };
            }
            if total > memory_bytes || self.space_bytes(holding) > space_bytes {
                return holding.view;
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_lives_through_a_merge_of_everything() {
        const GIB: u64 = 1 << 30;
        // The reader keeps all of the old file; the merge has left what is in use then.
        for (old, left) in [(GIB, 0), (3 * GIB, 2 * GIB), (40 * GIB, 20 * GIB)] {
            assert!(default_space_bytes(left) >= old, "{old} bytes, {left} of them live");
        }
        assert!(default_space_bytes(GIB) < 3 * GIB, "a bound it is");
    }
}
