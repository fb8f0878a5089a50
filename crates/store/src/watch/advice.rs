//! Which layout each table wants: from what was done with it, and from what it is made of.
//!
//! 1. *Measured* of each table, since the database was opened ([`TableStats`]): look-ups, cursor moves and writes, or
//!    as many as the caller assumes; bytes that commits put in and that checkpoints wrote for it; bytes of its records
//!    and of its pages, its runs, the pages of a look-up. Of the database: the memory, and how fast checkpoints merge.
//! 2. *Estimated* for either layout: what an operation costs, in nanoseconds ([`Costs`]). The write amplification of
//!    the layout that a table has is the measured one, if enough was written to it.
//!    * A write to a B+tree pays its share of the leaves that a checkpoint rewrites: *m* writes to keys drawn at random
//!      from *n* leaves change n(1 - (1 - 1/n)^m) of them, and each is written whole. One to an LSM table pays for its
//!      record `LSM_WRITTEN` times, whatever the table's size (docs/decisions/0023-lsm-slices.md).
//!    * A look-up pays for the pages that it looks into: one a level, and in an LSM table two for each run above; and
//!      for the part of the leaves that the pool cannot hold, a read from the disk.
//!    * A move of a cursor pays more where several runs are merged.
//! 3. *Advised* is the layout with the lower sum, if it is lower by `CLEARLY`; else the one that the table has.
//!
//! The figures are made to be compared with each other. Keys that are written in order, and reads of few hot keys, make
//! a B+tree cheaper than estimated: of those nothing is known before they were measured.

use crate::state::catalog::WantedLayout;
use crate::state::store::Store;
use crate::watch::stats::TableStats;
use base::Result;
use std::sync::Arc;

/// How often an LSM table writes a record in all: spilled, merged in tiers, merged with the lowest run, with what pages
/// and filters take beside it.
const LSM_WRITTEN: f64 = 4.2;
/// Runs above the lowest that an LSM table has on the average.
const LSM_RUNS_ABOVE: f64 = 5.0;
/// One layout must be this many times cheaper before it is advised in place of the one that is there.
const CLEARLY: f64 = 1.25;
/// Fewer operations than this say nothing; nor do fewer bytes of how often they are written.
const LEAST_OPERATIONS: u64 = 1_000;
const LEAST_WRITTEN_BYTES: u64 = 16 << 20;
/// Looking into a page in memory; a step inside one; the same over several runs; a page from the disk.
const PAGE_NS: f64 = 150.0;
const MOVE_NS: f64 = 35.0;
const MERGED_MOVE_NS: f64 = 60.0;
const DISK_NS: f64 = 80_000.0;
/// What a commit takes for each record, wherever it is merged to.
const COMMIT_NS: f64 = 1_000.0;
/// How fast checkpoints merge, until that was measured.
const ASSUMED_BYTES_PER_S: u64 = 200 << 20;
/// How full pages are of a tree that was edited, and of one that was built.
const EDITED_FILL: f64 = 0.69;
const BUILT_FILL: f64 = 0.95;
/// A checkpoint reads leaves in key order: so many of them cost what one does alone.
const READ_AHEAD: f64 = 4.0;
/// What memtables and slots take for a record beside its bytes.
const RECORD_OVERHEAD_BYTES: f64 = 64.0;

/// Operations on a table.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Operations {
    /// Look-ups.
    pub gets: u64,
    /// Moves of cursors.
    pub moves: u64,
    /// Puts and deletes.
    pub writes: u64,
}

/// What one operation costs in a layout, estimated, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Costs {
    /// A look-up.
    pub get_ns: f64,
    /// A move of a cursor.
    pub move_ns: f64,
    /// A write, including all later merges.
    pub write_ns: f64,
    /// How many times the bytes of a record are written, without the log: estimated, or, for the table's own layout,
    /// [measured](Advice::measured_amplification).
    pub write_amplification: f64,
    /// Pages that a look-up reads.
    pub pages_per_get: f64,
}

impl Costs {
    /// Returns what these operations cost together, in nanoseconds.
    pub fn of(&self, operations: Operations) -> f64 {
        self.get_ns * operations.gets as f64
            + self.move_ns * operations.moves as f64
            + self.write_ns * operations.writes as f64
    }
}

/// The recommended layout of one table, and the figures behind it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Advice {
    /// The name of the table.
    pub table: String,
    /// The layout that the table has, or is being changed to.
    pub layout: WantedLayout,
    /// The recommended layout; `None`: there were too few operations to tell.
    pub advised: Option<WantedLayout>,
    /// The operations on the table that were counted or assumed.
    pub operations: Operations,
    /// Approximately how many records the table has.
    pub records: u64,
    /// Bytes of keys and values in its runs.
    pub record_bytes: u64,
    /// How many runs the table has.
    pub runs: u64,
    /// Bytes of its leaf pages and filters for each byte of records, measured; 0 without records.
    pub space_amplification: f64,
    /// How many times the bytes of a record were written since the database was opened, without the log; `None`: too
    /// few were written.
    pub measured_amplification: Option<f64>,
    /// Pages that a look-up reads now.
    pub get_pages: u64,
    /// What an operation costs as a B+tree.
    pub btree: Costs,
    /// What an operation costs as an LSM table.
    pub lsm: Costs,
    /// The number of look-ups for each write at which both layouts cost the same; with more look-ups, the B+tree is
    /// cheaper. `None`: one layout is always cheaper.
    pub even_gets_per_write: Option<f64>,
    /// How many bytes a switch to the other layout would write.
    pub switch_bytes: u64,
    /// How long a switch takes at the rate of checkpoints on this machine, in seconds.
    pub switch_seconds: f64,
}

/// What is known of a table beside its name.
#[derive(Clone, Copy, Debug, Default)]
struct Shape {
    bytes: u64,
    record_bytes: f64,
    /// Levels of a tree.
    height: u64,
    /// The write amplification, if it is known for this layout.
    measured: Option<(WantedLayout, f64)>,
}

/// What is known of the database.
#[derive(Clone, Copy, Debug)]
struct House {
    page_bytes: f64,
    pool_bytes: f64,
    memtable_bytes: f64,
    write_bytes_per_s: f64,
}

impl Shape {
    fn of(stats: &TableStats, layout: WantedLayout) -> Shape {
        let records = stats.approximate_records.max(1) as f64;
        let amplification = || (layout, stats.written_bytes as f64 / stats.committed_bytes as f64);
        let is_much = stats.committed_bytes >= LEAST_WRITTEN_BYTES;
        Shape {
            bytes: stats.record_bytes,
            record_bytes: (stats.record_bytes as f64 / records).max(16.0),
            height: stats.get_pages.saturating_sub(2 * stats.runs.saturating_sub(1)).max(1),
            measured: is_much.then(amplification),
        }
    }
}

impl House {
    /// What either layout costs. `share`: of the writes to all tables, those to this one.
    fn costs(&self, shape: Shape, share: f64) -> (Costs, Costs) {
        let record_bytes = shape.record_bytes;
        let table_bytes = (shape.bytes as f64).max(1.0);
        let ns_per_byte = 1e9 / self.write_bytes_per_s;
        let height = shape.height as f64;
        let measured = |layout| shape.measured.filter(|of| of.0 == layout).map(|of| of.1);
        let missed = |fill: f64| (1.0 - self.pool_bytes / (table_bytes / fill)).max(0.0);
        let leaves = (table_bytes / EDITED_FILL / self.page_bytes).max(1.0);
        let in_checkpoint = (self.memtable_bytes / (record_bytes + RECORD_OVERHEAD_BYTES) * share).max(1.0);
        let rewritten = leaves * -(in_checkpoint * (-1.0 / leaves).ln_1p()).exp_m1();
        let estimated = rewritten * self.page_bytes / (in_checkpoint * record_bytes);
        // What was loaded past the log is counted as written and not as put: more than the worst case is no measure.
        let amplification = measured(WantedLayout::BTree).map_or(estimated, |of| of.min(estimated));
        let lsm_amplification =
            measured(WantedLayout::Lsm).map_or(LSM_WRITTEN, |of| of.min(2.0 * LSM_WRITTEN));
        let leaves_per_write = amplification * record_bytes / self.page_bytes;
        let btree = Costs {
            get_ns: height * PAGE_NS + missed(EDITED_FILL) * DISK_NS,
            move_ns: MOVE_NS,
            // A leaf that the pool does not have is read before it is rewritten.
            write_ns: COMMIT_NS
                + amplification * record_bytes * ns_per_byte
                + missed(EDITED_FILL) * DISK_NS * leaves_per_write / READ_AHEAD,
            write_amplification: amplification,
            pages_per_get: height,
        };
        let pages = height + 2.0 * LSM_RUNS_ABOVE;
        let lsm = Costs {
            get_ns: pages * PAGE_NS + missed(BUILT_FILL) * DISK_NS,
            move_ns: MERGED_MOVE_NS,
            write_ns: COMMIT_NS + lsm_amplification * record_bytes * ns_per_byte,
            write_amplification: lsm_amplification,
            pages_per_get: pages,
        };
        (btree, lsm)
    }
}

impl Store {
    /// What each table wants, by name. `assumed`: in place of what was counted since the database was opened.
    /// `write_bytes_per_s`: how fast checkpoints merge, if that was measured. O(tables + slots).
    pub fn advise(
        self: &Arc<Self>,
        assumed: Option<Operations>,
        write_bytes_per_s: Option<u64>,
    ) -> Result<Vec<Advice>> {
        let (tables, counted) = (self.snapshot()?.tables()?, self.table_stats()?);
        let house = House {
            page_bytes: self.page_bytes as f64,
            pool_bytes: self.memory.shares.pool_bytes as f64,
            memtable_bytes: self.memory.shares.seal_bytes as f64,
            write_bytes_per_s: write_bytes_per_s.unwrap_or(ASSUMED_BYTES_PER_S).max(1 << 20) as f64,
        };
        let all_writes: u64 = counted.iter().map(|of| of.writes).sum();
        let mut advice = Vec::new();
        for table in tables {
            // One that was made between the two looks comes the next time.
            let Some(of) = counted.iter().find(|of| of.name == table.name()) else { continue };
            let done = Operations { gets: of.gets, moves: of.cursor_moves, writes: of.writes };
            let share = match assumed {
                None if all_writes > 0 => of.writes as f64 / all_writes as f64,
                _ => 1.0,
            };
            advice.push(advise(of, table.layout(), assumed.unwrap_or(done), house, share));
        }
        Ok(advice)
    }
}

fn advise(
    stats: &TableStats,
    layout: WantedLayout,
    operations: Operations,
    house: House,
    share: f64,
) -> Advice {
    let shape = Shape::of(stats, layout);
    let (btree, lsm) = house.costs(shape, share);
    let (as_btree, as_lsm) = (btree.of(operations), lsm.of(operations));
    let cheaper = match layout {
        WantedLayout::BTree if as_lsm * CLEARLY < as_btree => WantedLayout::Lsm,
        WantedLayout::Lsm if as_btree * CLEARLY < as_lsm => WantedLayout::BTree,
        layout => layout,
    };
    let done = operations.gets + operations.moves + operations.writes;
    let (saved, lost) = (btree.write_ns - lsm.write_ns, lsm.get_ns - btree.get_ns);
    let switch_bytes = shape.bytes as f64 / BUILT_FILL;
    Advice {
        table: stats.name.clone(),
        layout,
        advised: (done >= LEAST_OPERATIONS).then_some(cheaper),
        operations,
        records: stats.approximate_records,
        record_bytes: stats.record_bytes,
        runs: stats.runs,
        get_pages: stats.get_pages,
        space_amplification: stats.stored_bytes as f64 / stats.record_bytes.max(1) as f64,
        measured_amplification: shape.measured.map(|of| of.1),
        btree,
        lsm,
        even_gets_per_write: (saved > 0.0 && lost > 0.0).then(|| saved / lost),
        switch_bytes: switch_bytes as u64,
        switch_seconds: switch_bytes / house.write_bytes_per_s,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUSE: House =
        House { page_bytes: 16384.0, pool_bytes: 1e9, memtable_bytes: 32e6, write_bytes_per_s: 200e6 };

    fn stats(records: u64) -> TableStats {
        let record_bytes = records * 100;
        TableStats {
            approximate_records: records,
            record_bytes,
            stored_bytes: record_bytes / 3 * 4,
            runs: 1,
            get_pages: 3,
            ..TableStats::default()
        }
    }

    fn advised(records: u64, layout: WantedLayout, gets: u64, moves: u64, writes: u64) -> WantedLayout {
        let advice = advise(&stats(records), layout, Operations { gets, moves, writes }, HOUSE, 1.0);
        advice.advised.expect("enough was done")
    }

    #[test]
    fn opposite_uses_want_opposite_layouts() {
        use WantedLayout::{BTree, Lsm};
        for layout in [BTree, Lsm] {
            assert_eq!(advised(50_000_000, layout, 0, 0, 1_000_000), Lsm, "written alone");
            assert_eq!(advised(1_000_000, layout, 10_000_000, 0, 10_000), BTree, "read alone");
            assert_eq!(advised(1_000_000, layout, 0, 90_000_000, 10_000), BTree, "scanned");
        }
    }

    #[test]
    fn what_fits_one_memtable_is_a_btree_and_what_is_idle_stays() {
        assert_eq!(advised(10_000, WantedLayout::Lsm, 0, 0, 1_000_000), WantedLayout::BTree);
        let nothing = TableStats::default();
        let idle = advise(&nothing, WantedLayout::Lsm, Operations::default(), HOUSE, 1.0);
        assert_eq!(idle.advised, None);
        assert!(idle.btree.write_ns.is_finite() && idle.switch_bytes == 0);
    }

    #[test]
    fn what_was_measured_counts_for_the_layout_that_there_is() {
        let writes = Operations { writes: 1_000_000, ..Operations::default() };
        let (committed_bytes, written_bytes) = (100 << 20, 150 << 20);
        let of = TableStats { committed_bytes, written_bytes, ..stats(50_000_000) };
        let advice = advise(&of, WantedLayout::BTree, writes, HOUSE, 1.0);
        assert_eq!(advice.measured_amplification, Some(1.5));
        assert_eq!((advice.btree.write_amplification, advice.lsm.write_amplification), (1.5, LSM_WRITTEN));
        assert_eq!(advice.advised, Some(WantedLayout::BTree), "written in order");
    }

    #[test]
    fn at_the_even_point_both_cost_the_same() {
        let house = House { pool_bytes: 8e9, ..HOUSE };
        let advice = advise(&stats(50_000_000), WantedLayout::BTree, Operations::default(), house, 1.0);
        let even = advice.even_gets_per_write.unwrap();
        let operations = Operations { gets: (even * 1e6) as u64, moves: 0, writes: 1_000_000 };
        let (btree, lsm) = (advice.btree.of(operations), advice.lsm.of(operations));
        assert!((btree / lsm - 1.0).abs() < 0.01, "{btree} and {lsm}");
    }
}
