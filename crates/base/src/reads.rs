//! Statistics of reads, by table.
//!
//! A reader's counts are in its slot, in cache lines that it alone writes: a read costs an addition, no lock and no
//! shared write. A slot counts `PLACES` tables at a time; each can be in two places, chosen by its id, so that two that
//! are read in turns do not displace each other. When a reader comes to a table and others have both places, it moves
//! the counts of the one that was read less to the database's `ReadTotals`, by atomic additions. The figures of a table
//! are the sum of the totals and of all slots.

use crate::TableId;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The number of tables that a reader counts without touching the totals, in 32 bytes each. A statement of SQL looks
/// into a table and its indexes in turns, and their ids are mostly consecutive.
const PLACES: usize = 8;
/// The number of places in the totals.
const TABLES: usize = 256;
/// The places in the totals where a table can be, so many places apart: ids are mostly consecutive. If other tables
/// have all of them, the counts of the table are lost when they are moved. A look at all places would cost each read
/// that comes to another table some microseconds.
const PROBES: usize = 8;
const STRIDE: usize = 37;
/// A place without a table: ids are assigned from the low end.
const NOBODY: u32 = u32::MAX;

/// Reads of one table since the database was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// The number of keys that were looked up.
    pub gets: u64,
    /// The number of cursors that were closed.
    pub scans: u64,
    /// The number of times that cursors moved: one for each record, and one at the end.
    pub cursor_moves: u64,
}

impl Reads {
    /// Returns the sum of both.
    pub fn plus(self, other: Reads) -> Reads {
        Reads {
            gets: self.gets + other.gets,
            scans: self.scans + other.scans,
            cursor_moves: self.cursor_moves + other.cursor_moves,
        }
    }
}

/// The atomic counters of [`Reads`].
#[derive(Debug)]
struct Counting {
    table: AtomicU32,
    gets: AtomicU64,
    scans: AtomicU64,
    cursor_moves: AtomicU64,
}

impl Counting {
    fn new() -> Self {
        let word = || AtomicU64::new(0);
        Counting { table: AtomicU32::new(NOBODY), gets: word(), scans: word(), cursor_moves: word() }
    }

    // Relaxed throughout this file: tallies order nothing, and a figure may be an instant old.
    #[inline]
    fn is_of(&self, table: u32) -> bool {
        self.table.load(Ordering::Relaxed) == table
    }

    /// Returns whether its table was read more since it has the place. A place without a table was not read.
    fn read_more_than(&self, other: &Counting) -> bool {
        let count = |place: &Counting| {
            if place.is_of(NOBODY) { 0 } else { 1 + place.reads().gets + place.reads().scans }
        };
        count(self) > count(other)
    }

    fn reads(&self) -> Reads {
        let word = |word: &AtomicU64| word.load(Ordering::Relaxed); // Relaxed: as above.
        let (gets, scans) = (word(&self.gets), word(&self.scans));
        Reads { gets, scans, cursor_moves: word(&self.cursor_moves) }
    }
}

/// One reader's counts. Only the owner of the slot calls the methods that count.
#[derive(Debug)]
pub(crate) struct ReadCounts {
    places: [Counting; PLACES],
}

impl ReadCounts {
    pub fn new() -> Self {
        ReadCounts { places: std::array::from_fn(|_| Counting::new()) }
    }

    /// Counts a key looked up in `table`, and returns the new count.
    #[inline]
    pub fn get(&self, table: TableId, totals: &ReadTotals) -> u64 {
        let place = self.place(table, totals);
        add(&place.gets, 1)
    }

    /// Counts a cursor that was moved `moves` times.
    pub fn scan(&self, table: TableId, moves: u64, totals: &ReadTotals) {
        let place = self.place(table, totals);
        add(&place.scans, 1);
        add(&place.cursor_moves, moves);
    }

    #[inline]
    fn place(&self, table: TableId, totals: &ReadTotals) -> &Counting {
        let place = &self.places[table.0 as usize % PLACES];
        if place.is_of(table.0) { place } else { self.other_place(place, table.0, totals) }
    }

    /// Returns the other place of `table`, or one of the two after it was taken.
    fn other_place<'s>(&'s self, place: &'s Counting, table: u32, totals: &ReadTotals) -> &'s Counting {
        let other = &self.places[(table as usize / PLACES + table as usize + 1) % PLACES];
        if other.is_of(table) {
            return other;
        }
        let taken = if other.read_more_than(place) { place } else { other };
        Self::take(taken, table, totals);
        taken
    }

    #[cold]
    fn take(place: &Counting, table: u32, totals: &ReadTotals) {
        let before = place.table.swap(NOBODY, Ordering::SeqCst);
        if before != NOBODY {
            totals.add(before, place.reads());
        }
        for word in [&place.gets, &place.scans, &place.cursor_moves] {
            // Relaxed: the store of `table` that follows orders it for `each`, which loads that first.
            word.store(0, Ordering::Relaxed);
        }
        place.table.store(table, Ordering::SeqCst);
    }

    /// Returns the counts of this slot, by table.
    pub fn each(&self) -> impl Iterator<Item = (TableId, Reads)> {
        self.places.iter().filter_map(|place| {
            let table = place.table.load(Ordering::SeqCst);
            (table != NOBODY).then(|| (TableId(table), place.reads()))
        })
    }
}

/// Adds without a locked instruction, because the word has one writer. Returns the sum.
#[inline]
fn add(word: &AtomicU64, more: u64) -> u64 {
    // Relaxed: a tally, whose one writer this is.
    let sum = word.load(Ordering::Relaxed) + more;
    word.store(sum, Ordering::Relaxed); // Relaxed: as above.
    sum
}

/// The counts that slots have moved here, by table: a hash table that only grows, without locks.
#[derive(Debug)]
pub(crate) struct ReadTotals {
    tables: Box<[Counting]>,
}

impl ReadTotals {
    pub fn new() -> Self {
        ReadTotals { tables: std::iter::repeat_with(Counting::new).take(TABLES).collect() }
    }

    fn add(&self, table: u32, reads: Reads) {
        let places = (0..PROBES).map(|probe| (table as usize + probe * STRIDE) % TABLES);
        for place in places.map(|place| &self.tables[place]) {
            // Most places have a table, and then a failed exchange would cost as much as one that succeeds.
            if ![table, NOBODY].contains(&place.table.load(Ordering::SeqCst)) {
                continue;
            }
            let claimed = place.table.compare_exchange(NOBODY, table, Ordering::SeqCst, Ordering::SeqCst);
            if claimed.is_ok() || claimed == Err(table) {
                place.gets.fetch_add(reads.gets, Ordering::SeqCst);
                place.scans.fetch_add(reads.scans, Ordering::SeqCst);
                place.cursor_moves.fetch_add(reads.cursor_moves, Ordering::SeqCst);
                return;
            }
        }
    }

    /// Returns the totals plus the counts of `slots`, by table. A count that a reader moves at this moment may be
    /// missing from this result, or be in it twice.
    pub fn with<'a>(&self, slots: impl Iterator<Item = &'a ReadCounts>) -> BTreeMap<TableId, Reads> {
        let mut sums = BTreeMap::<TableId, Reads>::new();
        let moved =
            self.tables.iter().map(|place| (TableId(place.table.load(Ordering::SeqCst)), place.reads()));
        let moved = moved.filter(|(table, _)| table.0 != NOBODY);
        for (table, reads) in moved.chain(slots.flat_map(ReadCounts::each)) {
            let sum = sums.entry(table).or_default();
            *sum = sum.plus(reads);
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Random;

    #[test]
    fn two_tables_in_turns_do_not_displace_each_other() {
        for (one, two) in
            [(16, 16 + PLACES as u32), (17, 17 + 5 * PLACES as u32), (3, 3 + 64 * PLACES as u32)]
        {
            let (totals, slot) = (ReadTotals::new(), ReadCounts::new());
            for count in 1..100 {
                assert_eq!(slot.get(TableId(one), &totals), count);
                assert_eq!(slot.get(TableId(two), &totals), count);
            }
            assert!(totals.with(std::iter::empty()).is_empty(), "{one} and {two}");
        }
    }

    #[test]
    fn nothing_is_lost_on_the_way_to_the_totals() {
        let totals = ReadTotals::new();
        let slots: Vec<ReadCounts> = (0..3).map(|_| ReadCounts::new()).collect();
        let models: Vec<_> = std::thread::scope(|scope| {
            let count = |(seed, slot): (usize, &ReadCounts)| {
                let (mut random, mut model) =
                    (Random::seeded(seed as u64), BTreeMap::<TableId, Reads>::new());
                for _ in 0..20_000 {
                    let table = TableId(random.below(60) as u32);
                    let reads = model.entry(table).or_default();
                    if random.chance(3, 4) {
                        reads.gets += 1;
                        assert!(slot.get(table, &totals) <= reads.gets);
                    } else {
                        *reads = reads.plus(Reads { gets: 0, scans: 1, cursor_moves: 7 });
                        slot.scan(table, 7, &totals);
                    }
                }
                model
            };
            let threads: Vec<_> =
                slots.iter().enumerate().map(|slot| scope.spawn(move || count(slot))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let mut expected = BTreeMap::<TableId, Reads>::new();
        for (table, reads) in models.into_iter().flatten() {
            let sum = expected.entry(table).or_default();
            *sum = sum.plus(reads);
        }
        assert_eq!(totals.with(slots.iter()), expected);
    }
}
