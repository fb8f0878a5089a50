//! Every count and size of [`Stats`] with its name and its meaning, for programs that show all of them.
//!
//! The names are the same on the command line, over HTTP and for Prometheus, which adds its conventional prefixes and
//! suffixes.

use crate::state::pacing::Cause;
use crate::watch::stats::Stats;
use base::budget::MemoryCategory;

/// A number in [`Stats`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Figure {
    /// The name: lower case with underscores, ending in its unit if it has one.
    pub name: &'static str,
    /// Whether the number only grows while the database is open.
    pub is_count: bool,
    /// The meaning, as a sentence.
    pub meaning: &'static str,
    /// The current value.
    pub value: u64,
}

fn count(name: &'static str, meaning: &'static str, value: u64) -> Figure {
    Figure { name, is_count: true, meaning, value }
}

fn size(name: &'static str, meaning: &'static str, value: u64) -> Figure {
    Figure { name, is_count: false, meaning, value }
}

impl Stats {
    /// Returns the numbers of the database as a whole, in the order of the layers. [`Stats::numbers`] also has those
    /// by category and by cause.
    pub fn figures(&self) -> Vec<Figure> {
        let mut figures = self.operations();
        figures.extend(self.storage());
        figures.extend(self.memory_and_merging());
        figures.extend(self.page_edits());
        figures
    }

    /// Returns all numbers with flat names: the [figures](Stats::figures), then `memory_{category}_bytes`, and for
    /// writers `debt_{cause}_permille`, `delays_{cause}` and `delays_{cause}_ns`.
    ///
    /// ```
    /// let numbers = pando_store::stats::Stats::default().numbers();
    /// assert!(numbers.contains(&("memory_pool_bytes".to_owned(), 0)));
    /// ```
    pub fn numbers(&self) -> Vec<(String, u64)> {
        let figures = self.figures().into_iter().map(|figure| (figure.name.to_owned(), figure.value));
        let held = |category: MemoryCategory| {
            (format!("memory_{}_bytes", category.name()), self.memory.held.bytes(category) as u64)
        };
        let debts = |cause: Cause| {
            let (name, delays) = (cause.name(), self.pacing.delays[cause as usize]);
            [
                (format!("debt_{name}_permille"), self.pacing.debt_permille[cause as usize]),
                (format!("delays_{name}"), delays.count),
                (format!("delays_{name}_ns"), delays.total_ns),
            ]
        };
        figures.chain(MemoryCategory::ALL.map(held)).chain(Cause::ALL.into_iter().flat_map(debts)).collect()
    }

    fn short_of_room(&self) -> u64 {
        u64::from(self.is_short_of_room)
    }

    fn operations(&self) -> Vec<Figure> {
        vec![
            size("last_commit", "The number of the last commit.", self.last_commit),
            size("visible_commit", "The last commit that every reader sees.", self.visible_commit),
            count("commits", "Commits that wrote something.", self.commits),
            count("conflicts", "Transactions that failed with a conflict.", self.conflicts),
            count("gets", "Keys that were looked up.", self.gets),
            count("scans", "Cursors that were closed.", self.scans),
            count("cursor_moves", "Times that cursors moved.", self.cursor_moves),
            count("dead_passed", "Deleted and expired entries that cursors passed over.", self.dead_passed),
            count("writes", "Puts, deletes and range deletes committed.", self.writes),
            count("spills", "Spills of transactions that did not fit memory.", self.spills),
            size("readers", "Snapshots and transactions that are open.", self.readers),
            count("expired_readers", "Readers that expired.", self.expired_readers),
            size("views", "Views kept for readers, including the current one.", self.views),
            size("pinned", "States that are being copied.", self.pinned),
        ]
    }

    fn storage(&self) -> Vec<Figure> {
        vec![
            size("page_bytes", "Bytes of a page.", self.page_bytes),
            count("pool_faults", "Pages read from disk.", self.pool_faults),
            count("pool_evictions", "Pages that left the pool.", self.pool_evictions),
            count("log_appends", "Blocks appended to the log.", self.log_appends),
            count("log_appended_bytes", "Bytes appended to the log.", self.log_appended_bytes),
            count("log_flushes", "Flushes of the log.", self.log_flushes),
            count("log_flushes_asked", "Calls that waited for a flush.", self.log_flushes_asked),
            size("log_file_bytes", "Bytes of the log's files.", self.log_file_bytes),
            size("data_file_bytes", "Bytes of the data file.", self.data_file_bytes),
            size("data_used_bytes", "Bytes of the data file in use.", self.data_used_bytes),
            size("data_retired_bytes", "Bytes that stay in use until readers end.", self.data_retired_bytes),
            size(
                "data_hole_bytes",
                "Free bytes for which the file system keeps no blocks.",
                self.data_hole_bytes,
            ),
            size(
                "data_reserve_bytes",
                "Bytes reserved for checkpoints in case the disk is full.",
                self.data_reserve_bytes,
            ),
            size(
                "short_of_room",
                "1 while writes fail because the disk is full, otherwise 0.",
                self.short_of_room(),
            ),
        ]
    }

    fn memory_and_merging(&self) -> Vec<Figure> {
        let (memory, pacing) = (&self.memory, &self.pacing);
        vec![
            size("memory_limit_bytes", "The memory budget.", memory.limit_bytes),
            size("memory_used_bytes", "Memory used of the budget.", memory.used_bytes),
            size("memory_peak_bytes", "The highest memory use so far.", memory.peak_bytes),
            size("memory_databases", "Databases that share the budget.", memory.databases),
            size("pool_bytes", "Memory of the page pool.", self.pool_bytes),
            size("memtable_bytes", "Memory of memtables that are not merged yet.", self.memtable_bytes),
            count("seals", "Memtables sealed.", self.seals),
            size("sealed_memtables", "Memtables that wait for a checkpoint.", self.sealed_memtables),
            size("attached_runs", "Spilled runs that wait for a checkpoint.", self.attached_runs),
            size("checkpoint", "The last checkpoint's number.", self.checkpoint),
            count("checkpoints", "Checkpoints made.", self.checkpoints),
            count("absorbed_records", "Records merged by checkpoints.", self.absorbed_records),
            size("absorbed_bytes_per_s", "How fast memtables are merged.", pacing.absorbed_bytes_per_s),
            size("stacked_runs", "Runs that LSM tables have.", self.stacked_runs),
            count(
                "compacted_bytes",
                "Bytes of records that merges of LSM tables moved.",
                self.compacted_bytes,
            ),
            size("unabsorbed_log_bytes", "Log that a recovery would replay.", pacing.unabsorbed_log_bytes),
            size(
                "unabsorbed_records",
                "Records in the log that a recovery would replay.",
                pacing.unabsorbed_records,
            ),
        ]
    }

    fn page_edits(&self) -> Vec<Figure> {
        let edits = &self.edits;
        vec![
            count("page_splits", "Pages split.", edits.splits),
            count("page_merges", "Pairs of pages merged.", edits.merges),
            count("page_borrows", "Moves of entries between sibling pages.", edits.borrows),
            count("page_compactions", "Pages compacted in place.", edits.compactions),
            count(
                "page_allocator_failures",
                "Inserts that found the free bytes of a page scattered.",
                edits.allocator_failures,
            ),
            count("page_key_decodes", "Key comparisons that had to read a cell.", edits.key_decodes),
            count("page_bytes_moved", "Bytes moved within and between pages.", edits.bytes_moved),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_well_formed_and_come_once() {
        let numbers = Stats::default().numbers();
        let names: BTreeSet<&str> = numbers.iter().map(|(name, _)| &name[..]).collect();
        assert_eq!(names.len(), numbers.len());
        let is_well_formed = |name: &str| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        assert!(names.iter().all(|name| is_well_formed(name)), "{names:?}");
    }
}
