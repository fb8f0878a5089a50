//! The recommended layout of each table: from the operations on it, and from its contents.
//!
//! 1. *Measured* for each table, since the database was opened ([`TableStats`]): look-ups, cursor moves and writes, or
//!    as many as the caller assumes; bytes that commits put in and that checkpoints wrote for it; bytes of its records
//!    and of its pages, its runs, the pages of a look-up. For the database: the memory, and how fast checkpoints merge.
//! 2. *Estimated* for either layout: the cost of an operation in nanoseconds ([`Costs`]). The write amplification of
//!    the table's present layout is the measured one, if enough was written to it.
//!    * A write to a B+tree pays its share of the leaves that a checkpoint rewrites: *m* writes to keys drawn at random
//!      from *n* leaves change n(1 - (1 - 1/n)^m) of them, and each is written whole. A write to an LSM table pays for
//!      its record `LSM_WRITTEN` times, whatever the table's size (docs/decisions/0023-lsm-slices.md).
//!    * A look-up pays for the pages that it reads: one a level, and in an LSM table two for each run above; and for
//!      the part of the leaves that the pool cannot hold, a read from the disk.
//!    * A move of a cursor pays more if several runs are merged.
//! 3. *Recommended* is the layout with the lower sum, if it is lower by `CLEARLY`; otherwise the present one.
//!
//! The figures are made to be compared with each other. Keys that are written in order, and reads of few hot keys, make
//! a B+tree cheaper than estimated: these are not known before they were measured.

use crate::state::catalog::RequestedLayout;
use crate::state::store::Store;
use crate::watch::stats::TableStats;
use base::Result;
use std::sync::Arc;

/// The number of times that an LSM table writes a record: spilled, merged in tiers, merged with the lowest run, with
/// the space of pages and filters.
const LSM_WRITTEN: f64 = 4.2;
/// The average number of runs above the lowest of an LSM table.
const LSM_RUNS_ABOVE: f64 = 5.0;
/// The factor by which a layout must be cheaper to be recommended in place of the present one.
const CLEARLY: f64 = 1.25;
/// The least number of operations that are significant, and of bytes from which amplification is computed.
const LEAST_OPERATIONS: u64 = 1_000;
const LEAST_WRITTEN_BYTES: u64 = 16 << 20;
/// The time of a look into a page in memory; then of a step inside one, of a step over several runs, and of a page from
/// the disk.
const PAGE_NS: f64 = 150.0;
const MOVE_NS: f64 = 35.0;
const MERGED_MOVE_NS: f64 = 60.0;
const DISK_NS: f64 = 80_000.0;
/// The time of a commit for each record, in any layout.
const COMMIT_NS: f64 = 1_000.0;
/// The assumed rate at which checkpoints merge, until it was measured.
const ASSUMED_BYTES_PER_S: u64 = 200 << 20;
/// The fill of pages of an edited tree, and then of a built one.
const EDITED_FILL: f64 = 0.69;
const BUILT_FILL: f64 = 0.95;
/// The number of leaves that a checkpoint, which reads them in key order, reads at the cost of one.
const READ_AHEAD: f64 = 4.0;
/// The memory of a record in memtables and slots in addition to its bytes.
const RECORD_OVERHEAD_BYTES: f64 = 64.0;

/// Operations on a table.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Operations {
    /// The number of look-ups.
    pub gets: u64,
    /// The number of cursor moves.
    pub moves: u64,
    /// The number of puts and deletes.
    pub writes: u64,
}

/// The estimated cost of one operation in a layout, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Costs {
    /// The cost of a look-up.
    pub get_ns: f64,
    /// The cost of a cursor move.
    pub move_ns: f64,
    /// The cost of a write, including all later merges.
    pub write_ns: f64,
    /// The number of times that the bytes of a record are written, without the log: estimated, or, for the table's own
    /// layout, [measured](Advice::measured_amplification).
    pub write_amplification: f64,
    /// The number of pages that a look-up reads.
    pub pages_per_get: f64,
}

impl Costs {
    /// Returns the cost of these operations together, in nanoseconds.
    pub fn total_ns(&self, operations: Operations) -> f64 {
        self.get_ns * operations.gets as f64
            + self.move_ns * operations.moves as f64
            + self.write_ns * operations.writes as f64
    }
}

/// The recommended layout of one table, and the figures for it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Advice {
    /// The name of the table.
    pub table: String,
    /// The layout that the table has, or is being changed to.
    pub layout: RequestedLayout,
    /// The recommended layout; `None` if there were too few operations for a recommendation.
    pub advised: Option<RequestedLayout>,
    /// The operations on the table that were counted or assumed.
    pub operations: Operations,
    /// The approximate number of records of the table.
    pub records: u64,
    /// The bytes of keys and values in the table's runs.
    pub record_bytes: u64,
    /// The number of runs of the table.
    pub runs: u64,
    /// The bytes of the table's leaf pages and filters for each byte of records, measured; 0 without records.
    pub space_amplification: f64,
    /// The number of times that the bytes of a record were written since the database was opened, without the log;
    /// `None` if too few were written.
    pub measured_amplification: Option<f64>,
    /// The number of pages that a look-up reads now.
    pub get_pages: u64,
    /// The cost of operations with the B+tree layout.
    pub btree: Costs,
    /// The cost of operations with the LSM layout.
    pub lsm: Costs,
    /// The number of look-ups for each write at which both layouts cost the same; with more look-ups, the B+tree is
    /// cheaper. `None` if one layout is always cheaper.
    pub even_gets_per_write: Option<f64>,
    /// The number of bytes that a switch to the other layout would write.
    pub switch_bytes: u64,
    /// The time of a switch at the rate of checkpoints on this machine, in seconds.
    pub switch_seconds: f64,
}

/// The data of a table besides its name.
#[derive(Clone, Copy, Debug, Default)]
struct Shape {
    bytes: u64,
    record_bytes: f64,
    /// The number of levels of a tree.
    height: u64,
    /// The write amplification, if it is known for this layout.
    measured: Option<(RequestedLayout, f64)>,
}

/// The data of the database.
#[derive(Clone, Copy, Debug)]
struct Parameters {
    page_bytes: f64,
    pool_bytes: f64,
    memtable_bytes: f64,
    write_bytes_per_s: f64,
}

impl Shape {
    fn new(stats: &TableStats, layout: RequestedLayout) -> Shape {
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

impl Parameters {
    /// Returns the costs of both layouts. `share` is this table's share of the writes to all tables.
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
        // Loaded data that bypassed the log counts as written and not as put: more than the worst case is not a
        // measurement.
        let amplification = measured(RequestedLayout::BTree).map_or(estimated, |of| of.min(estimated));
        let lsm_amplification =
            measured(RequestedLayout::Lsm).map_or(LSM_WRITTEN, |of| of.min(2.0 * LSM_WRITTEN));
        let leaves_per_write = amplification * record_bytes / self.page_bytes;
        let btree = Costs {
            get_ns: height * PAGE_NS + missed(EDITED_FILL) * DISK_NS,
            move_ns: MOVE_NS,
            // A leaf that is not in the pool is read before it is rewritten.
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
    /// Returns the recommendations, ordered by table name. `assumed` replaces what was counted since the database was
    /// opened. `write_bytes_per_s` is the rate at which checkpoints merge, if it was measured. O(tables + slots).
    pub fn advise(
        self: &Arc<Self>,
        assumed: Option<Operations>,
        write_bytes_per_s: Option<u64>,
    ) -> Result<Vec<Advice>> {
        let (tables, counted) = (self.snapshot()?.tables()?, self.table_stats()?);
        let parameters = Parameters {
            page_bytes: self.page_bytes as f64,
            pool_bytes: self.memory.shares.pool_bytes as f64,
            memtable_bytes: self.memory.shares.seal_bytes as f64,
            write_bytes_per_s: write_bytes_per_s.unwrap_or(ASSUMED_BYTES_PER_S).max(1 << 20) as f64,
        };
        let all_writes: u64 = counted.iter().map(|of| of.writes).sum();
        let mut advice = Vec::new();
        for table in tables {
            // A table that was created between the two looks is included the next time.
            let Some(of) = counted.iter().find(|of| of.name == table.name()) else { continue };
            let done = Operations { gets: of.gets, moves: of.cursor_moves, writes: of.writes };
            let share = match assumed {
                None if all_writes > 0 => of.writes as f64 / all_writes as f64,
                _ => 1.0,
            };
            advice.push(advise(of, table.layout(), assumed.unwrap_or(done), parameters, share));
        }
        Ok(advice)
    }
}

fn advise(
    stats: &TableStats,
    layout: RequestedLayout,
    operations: Operations,
    parameters: Parameters,
    share: f64,
) -> Advice {
    let shape = Shape::new(stats, layout);
    let (btree, lsm) = parameters.costs(shape, share);
    let (as_btree, as_lsm) = (btree.total_ns(operations), lsm.total_ns(operations));
    let cheaper = match layout {
        RequestedLayout::BTree if as_lsm * CLEARLY < as_btree => RequestedLayout::Lsm,
        RequestedLayout::Lsm if as_btree * CLEARLY < as_lsm => RequestedLayout::BTree,
        layout => layout,
    };
    let done = operations.gets.saturating_add(operations.moves).saturating_add(operations.writes);
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
        switch_seconds: switch_bytes / parameters.write_bytes_per_s,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARAMETERS: Parameters =
        Parameters { page_bytes: 16384.0, pool_bytes: 1e9, memtable_bytes: 32e6, write_bytes_per_s: 200e6 };

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

    fn advised(records: u64, layout: RequestedLayout, gets: u64, moves: u64, writes: u64) -> RequestedLayout {
        let advice = advise(&stats(records), layout, Operations { gets, moves, writes }, PARAMETERS, 1.0);
        advice.advised.expect("enough was done")
    }

    #[test]
    fn opposite_uses_want_opposite_layouts() {
        use RequestedLayout::{BTree, Lsm};
        for layout in [BTree, Lsm] {
            assert_eq!(advised(50_000_000, layout, 0, 0, 1_000_000), Lsm, "written alone");
            assert_eq!(advised(1_000_000, layout, 10_000_000, 0, 10_000), BTree, "read alone");
            assert_eq!(advised(1_000_000, layout, 0, 90_000_000, 10_000), BTree, "scanned");
        }
    }

    #[test]
    fn what_fits_one_memtable_is_a_btree_and_what_is_idle_stays() {
        assert_eq!(advised(10_000, RequestedLayout::Lsm, 0, 0, 1_000_000), RequestedLayout::BTree);
        assert_eq!(advised(10_000, RequestedLayout::Lsm, u64::MAX, 1, u64::MAX), RequestedLayout::BTree);
        let nothing = TableStats::default();
        let idle = advise(&nothing, RequestedLayout::Lsm, Operations::default(), PARAMETERS, 1.0);
        assert_eq!(idle.advised, None);
        assert!(idle.btree.write_ns.is_finite() && idle.switch_bytes == 0);
    }

    #[test]
    fn what_was_measured_counts_for_the_layout_that_there_is() {
        let writes = Operations { writes: 1_000_000, ..Operations::default() };
        let (committed_bytes, written_bytes) = (100 << 20, 150 << 20);
        let of = TableStats { committed_bytes, written_bytes, ..stats(50_000_000) };
        let advice = advise(&of, RequestedLayout::BTree, writes, PARAMETERS, 1.0);
        assert_eq!(advice.measured_amplification, Some(1.5));
        assert_eq!((advice.btree.write_amplification, advice.lsm.write_amplification), (1.5, LSM_WRITTEN));
        assert_eq!(advice.advised, Some(RequestedLayout::BTree), "written in order");
    }

    #[test]
    fn at_the_even_point_both_cost_the_same() {
        let parameters = Parameters { pool_bytes: 8e9, ..PARAMETERS };
        let advice =
            advise(&stats(50_000_000), RequestedLayout::BTree, Operations::default(), parameters, 1.0);
        let even = advice.even_gets_per_write.unwrap();
        let operations = Operations { gets: (even * 1e6) as u64, moves: 0, writes: 1_000_000 };
        let (btree, lsm) = (advice.btree.total_ns(operations), advice.lsm.total_ns(operations));
        assert!((btree / lsm - 1.0).abs() < 0.01, "{btree} and {lsm}");
    }
}
