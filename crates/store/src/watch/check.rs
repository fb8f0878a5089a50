//! The check that everything on the disk is consistent.

use crate::state::attach::Attached;
use crate::state::store::Store;
use crate::state::superblock::RESERVED_UNITS;
use crate::state::tables::Layout;
use crate::watch::checked::Checked;
use base::limits::UNIT_BYTES;
use base::{CheckpointNo, Error, Result, TableId};
use run::check::Expected;
use run::{Delta, Pieces, Run};
use space::{Extent, SavedMap, Space};

/// The counts of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The number of tables with pages.
    pub tables: u64,
    /// The number of tables that have the LSM layout now. A table whose layout was changed has the new layout once it
    /// was merged.
    pub lsm_tables: u64,
    /// The number of runs of records; a B+tree is one.
    pub runs: u64,
    /// The number of records in pages. Records that are only in memtables do not count.
    pub records: u64,
    /// The bytes of keys and values of the records in pages.
    pub record_bytes: u64,
    /// The number of leaf pages, which hold records.
    pub leaves: u64,
    /// The number of inner pages, which hold pointers to pages.
    pub inner_pages: u64,
    /// The number of values in extents of their own.
    pub large_values: u64,
    /// The unused bytes in pages.
    pub free_in_pages_bytes: u64,
    /// The bytes that compression saves in leaves.
    pub saved_bytes: u64,
    /// The units of the data file that are used, although nothing reaches them: space is lost, but no data.
    pub orphan_units: u64,
    /// The number of the checkpoint whose pages were read; 0 if there is no checkpoint yet, and so there are no pages.
    pub checkpoint: u64,
    /// The number of commits after that checkpoint, which are only in the log. Opening the database verifies them.
    pub log_commits: u64,
    /// The number of puts, deletes and range deletes of these commits that are in memory, including those of the
    /// catalog.
    pub log_changes: u64,
}

/// The counts and problems that a check found.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Findings {
    /// The counts, which are complete despite the problems.
    pub report: Report,
    /// The problems, each with its place: the first [`Findings::MOST`].
    pub wrong: Vec<Error>,
    /// The number of all problems.
    pub count: u64,
}

impl Findings {
    /// The greatest number of problems that are kept.
    pub const MOST: usize = 1000;

    pub(crate) fn add(&mut self, error: Error) {
        self.count += 1;
        if self.wrong.len() < Self::MOST {
            self.wrong.push(error);
        }
    }
}

impl Store {
    /// Reads everything that the newest checkpoint reaches, and the large values that only the memtables refer to,
    /// bypassing the pool. It verifies each checksum and structural rule, and that the space map agrees. Commits, reads
    /// and checkpoints continue; what the newest checkpoint reaches is kept until the check ends.
    ///
    /// # Errors
    /// [`base::ErrorKind::Corruption`] with the first problem.
    pub fn check(&self) -> Result<Report> {
        let Findings { report, mut wrong, .. } = self.check_all(&mut |_| Ok(()))?;
        if wrong.is_empty() { Ok(report) } else { Err(wrong.swap_remove(0)) }
    }

    /// Reads everything that one checkpoint reaches, and verifies it past the first problem. For what it verifies see
    /// [`Store::check`]. `progress` is called with the counts after each table. It may read and write; a checkpoint, a
    /// compaction, a second check and a close fail there.
    ///
    /// # Errors
    /// [`base::ErrorKind::Closed`], also if the database is closed meanwhile, and those of `progress`, which end the
    /// check. Problems are not errors here.
    pub fn check_all(&self, progress: &mut dyn FnMut(&Report) -> Result<()>) -> Result<Findings> {
        self.check_open()?;
        let checked = Checked::take(self)?;
        let found = self.check_state(&checked, progress);
        // A process that opened the files since may have changed them: then nothing that was read is valid.
        self.check_open()?;
        found
    }

    fn check_state(
        &self,
        checked: &Checked<'_>,
        progress: &mut dyn FnMut(&Report) -> Result<()>,
    ) -> Result<Findings> {
        let Checked { superblock, tables, .. } = checked;
        let report = Report {
            checkpoint: superblock.checkpoint.0,
            log_commits: checked.last_commit.saturating_sub(superblock.absorbed.0),
            log_changes: checked.changes,
            ..Report::default()
        };
        let mut findings = Findings { report, ..Findings::default() };
        let mut extents = Vec::new();
        // A process that follows another may have read commits after later checkpoints.
        let newest = if self.is_beside() { CheckpointNo(u64::MAX - 1) } else { superblock.checkpoint };
        let of = |table| Expected { table: Some(table), newest: Some(newest) };
        let physical = TableId::PHYSICAL;
        self.check_run(&superblock.physical, physical, of(physical), &mut findings, &mut extents);
        findings.report.records = 0;
        findings.report.record_bytes = 0;
        for (table, layout) in tables.iter() {
            findings.report.tables += 1;
            match layout {
                Layout::BTree(run) => {
                    findings.report.runs += 1;
                    self.check_run(run, table, of(table), &mut findings, &mut extents);
                }
                Layout::Lsm(stack) => {
                    findings.report.lsm_tables += 1;
                    findings.report.runs += stack.entries().len() as u64;
                    stack.entries().iter().for_each(|entry| {
                        self.check_delta(&entry.delta, table, of(table), &mut findings, &mut extents);
                    });
                }
            }
            self.checkpoints.while_calling(|| progress(&findings.report))?;
            self.check_open()?;
        }
        self.check_catalog(tables, superblock.next_table, &mut findings);
        for attached in &checked.attached {
            self.check_attached(attached, newest, &mut findings, &mut extents);
        }
        let Some(map) = &checked.map else { return Ok(findings) };
        self.check_space(map, checked, extents, &mut findings);
        match self.check_logged(map, checked) {
            Ok(orphan_units) => findings.report.orphan_units += orphan_units,
            Err(error) => findings.add(error),
        }
        Ok(findings)
    }

    fn check_space(
        &self,
        map: &SavedMap,
        checked: &Checked<'_>,
        extents: Vec<Extent>,
        findings: &mut Findings,
    ) {
        let root = &checked.superblock.space;
        let own = match Space::map_parts(&*self.data, self.database, RESERVED_UNITS, root) {
            Ok(own) => own,
            Err(error) => return findings.add(error),
        };
        let found = map.check(own.into_iter().map(Extent::from), extents);
        let lists = [
            ("lies outside the file", &found.outside),
            ("is used twice", &found.overlapping),
            ("is free in the map", &found.unprotected),
        ];
        for (what, list) in lists {
            for Extent { unit, units } in list {
                let file = self.data.name();
                findings.add(Error::corruption(format!("{file}: space map: unit {unit}+{units} {what}")));
            }
        }
        findings.report.orphan_units = found.unreachable.iter().map(|extent| extent.units).sum();
    }

    /// Reads the large values that the memtables refer to. Returns how many units the space map has as the log's that
    /// belong neither to these nor to an unfinished transaction.
    fn check_logged(&self, map: &SavedMap, checked: &Checked<'_>) -> Result<u64> {
        let (mut logged, unpublished_units) = (map.logged().clone(), checked.unpublished_units);
        for extent in checked.attached.iter().flat_map(|attached| &attached.extents) {
            if logged.remove(&extent.unit) != Some(extent.units) {
                let file = self.data.name();
                return Err(Error::corruption(format!(
                    "{file}: {extent:?}, which the log refers to, is not reserved for it"
                )));
            }
        }
        let mut buffer = Vec::new();
        for &large in &checked.values {
            let pieces = Pieces::open(&self.pool, large)?;
            (0..pieces.count()).try_for_each(|at| pieces.read(&self.pool, at, &mut buffer))?;
            for ptr in pieces.extents() {
                if logged.remove(&ptr.unit()) != Some(ptr.units()) {
                    let file = self.data.name();
                    return Err(Error::corruption(format!(
                        "{file}: {ptr:?}, which the log refers to, is not reserved for it"
                    )));
                }
            }
        }
        let kept: u64 = logged.values().sum();
        match kept.checked_sub(unpublished_units) {
            Some(orphans) => Ok(orphans),
            None => {
                let what = format!(
                    "{unpublished_units} units belong to unfinished transactions, but {kept} are reserved"
                );
                Err(Error::corruption(format!("{}: {what}", self.data.name())))
            }
        }
    }

    /// Checks an attached run like a table's run. Its records are counted after they are absorbed.
    fn check_attached(
        &self,
        attached: &Attached,
        newest: CheckpointNo,
        findings: &mut Findings,
        extents: &mut Vec<Extent>,
    ) {
        let (records, record_bytes) = (findings.report.records, findings.report.record_bytes);
        // They were written after the newest checkpoint at the latest, before it was known that they would belong to
        // the table.
        let expected = Expected { table: None, newest: Some(CheckpointNo(newest.0 + 1)) };
        for table in attached.tables() {
            for delta in attached.runs(table) {
                self.check_delta(delta, table, expected, findings, extents);
            }
        }
        (findings.report.records, findings.report.record_bytes) = (records, record_bytes);
    }

    /// Checks the delta's runs, of which only the records count for the report; and its filter against its records.
    fn check_delta(
        &self,
        delta: &Delta,
        table: TableId,
        expected: Expected,
        findings: &mut Findings,
        extents: &mut Vec<Extent>,
    ) {
        let before = findings.count;
        self.check_run(&delta.records, table, expected, findings, extents);
        let (records, record_bytes) = (findings.report.records, findings.report.record_bytes);
        self.check_run(&delta.ranges_run, table, expected, findings, extents);
        self.check_run(&delta.filter, table, expected, findings, extents);
        (findings.report.records, findings.report.record_bytes) = (records, record_bytes);
        // The damage was reported already, with its place.
        if findings.count == before
            && let Some(reader) = self.slots.claim()
            && let Err(error) = delta.check_filter(&self.pool, &reader)
        {
            findings.add(error.within(table));
        }
    }

    fn check_run(
        &self,
        run: &Run,
        table: TableId,
        expected: Expected,
        findings: &mut Findings,
        extents: &mut Vec<Extent>,
    ) {
        let mut visit = |ptr| {
            extents.push(Extent::from(ptr));
            Ok(())
        };
        let before = findings.count;
        let mut wrong = |error: Error| {
            findings.add(error.within(table));
            Ok(())
        };
        match run.check_all(&self.pool, expected, &mut visit, &mut wrong) {
            Err(error) => findings.add(error.within(table)),
            Ok(found) => {
                if findings.count == before && found.leaves != run.leaves {
                    let what = format!("{table}: expected {} leaves, found {}", run.leaves, found.leaves);
                    findings.add(Error::corruption(what));
                }
                if findings.count == before && found.saved_units != run.saved_units {
                    let (expected, found) = (run.saved_units, found.saved_units);
                    let what = format!(
                        "{table}: expected leaves to save {expected} units by compression, found {found}"
                    );
                    findings.add(Error::corruption(what));
                }
                let report = &mut findings.report;
                report.records += found.records;
                report.record_bytes += found.bytes;
                report.leaves += found.leaves;
                report.inner_pages += found.inner_pages;
                report.large_values += found.large_values;
                report.free_in_pages_bytes += found.free_bytes;
                report.saved_bytes += found.saved_units * UNIT_BYTES as u64;
            }
        }
    }
}
