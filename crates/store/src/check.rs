//! Whether everything on disk is as it should be.

use crate::store::Store;
use crate::tables::Layout;
use base::sync::lock;
use base::{Error, Result, TableId};
use run::{Pieces, Run};
use space::Extent;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::Ordering;

/// What a check found, all of it in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Tables with pages.
    pub tables: u64,
    /// Records in pages; what only the memtables hold is not counted.
    pub records: u64,
    /// Bytes of their keys and values.
    pub record_bytes: u64,
    /// Pages of records.
    pub leaves: u64,
    /// Pages of pointers.
    pub inner_pages: u64,
    /// Values in extents of their own.
    pub large_values: u64,
    /// Bytes in pages that hold nothing.
    pub free_in_pages_bytes: u64,
    /// Units of the data file that are used though nothing reaches them: lost room, no lost data.
    pub orphan_units: u64,
}

impl Store {
    /// Reads everything that the newest checkpoint reaches, and the large values that only the memtables know, past the
    /// pool, and checks each checksum and structural rule, and that the space map agrees. No checkpoint runs meanwhile;
    /// commits and reads go on.
    ///
    /// # Errors
    /// [`base::ErrorKind::Corruption`] with the first thing found wrong.
    pub fn check(&self) -> Result<Report> {
        self.check_open()?;
        let superblock = lock(&self.checkpoint);
        let mut report = Report::default();
        let mut extents = Vec::new();
        self.check_run(&superblock.physical, TableId::PHYSICAL, &mut report, &mut extents)?;
        report.records = 0;
        report.record_bytes = 0;
        let tables = self.views.with_current(|view| std::sync::Arc::clone(&view.tables));
        for (table, layout) in tables.iter() {
            report.tables += 1;
            match layout {
                Layout::BTree(run) => self.check_run(run, table, &mut report, &mut extents)?,
            }
        }
        if self.latched().is_some() {
            // The map may be that of a checkpoint that failed half-way. Nothing is handed out from it any more.
            return Ok(report);
        }
        let found = lock(&self.space).check(extents);
        let mut wrong = String::new();
        let lists = [
            ("outside the file", &found.outside),
            ("used twice", &found.overlapping),
            ("free in the map", &found.unprotected),
        ];
        for (what, list) in lists {
            if let Some(first) = list.first() {
                let _ = write!(
                    wrong,
                    " {} reachable extents are {what}, the first at unit {};",
                    list.len(),
                    first.unit
                );
            }
        }
        if !wrong.is_empty() {
            return Err(Error::corruption(format!("{}: space map:{wrong}", self.data.name())));
        }
        report.orphan_units = found.unreachable.iter().map(|extent| extent.units).sum();
        report.orphan_units += self.check_logged()?;
        Ok(report)
    }

    /// Reads the large values that the memtables refer to, and answers how many units the space map has as the log's
    /// that are neither theirs nor an unfinished transaction's.
    fn check_logged(&self) -> Result<u64> {
        let (mut logged, unpublished_units, references) = {
            // With both held no value is begun, given up or committed: what is read is of one moment.
            let space = lock(&self.space);
            let _committer = lock(&self.committer);
            let references = self.views.with_current(|view| {
                let of = |memtable: &memtable::Memtable| {
                    let tables = memtable.tables().into_iter();
                    tables.flat_map(|table| memtable.large_refs(table)).collect::<Vec<_>>()
                };
                view.memtables().flat_map(of).collect::<Vec<_>>()
            });
            let logged: BTreeMap<u64, u64> =
                space.logged().map(|extent| (extent.unit, extent.units)).collect();
            (logged, self.unpublished_units.load(Ordering::SeqCst), references)
        };
        let mut buffer = Vec::new();
        for large in references {
            let pieces = Pieces::open(&self.pool, large)?;
            (0..pieces.count()).try_for_each(|at| pieces.read(&self.pool, at, &mut buffer))?;
            for ptr in pieces.extents() {
                if logged.remove(&ptr.unit()) != Some(ptr.units()) {
                    let file = self.data.name();
                    return Err(Error::corruption(format!("{file}: the log's {ptr:?} is not kept for it")));
                }
            }
        }
        let kept: u64 = logged.values().sum();
        match kept.checked_sub(unpublished_units) {
            Some(orphans) => Ok(orphans),
            None => {
                let what = format!("{unpublished_units} units of unfinished transactions, {kept} are kept");
                Err(Error::corruption(format!("{}: {what}", self.data.name())))
            }
        }
    }

    fn check_run(
        &self,
        run: &Run,
        table: TableId,
        report: &mut Report,
        extents: &mut Vec<Extent>,
    ) -> Result<()> {
        let mut visit = |ptr| {
            extents.push(Extent::from(ptr));
            Ok(())
        };
        let found = run.check(&self.pool, &mut visit).map_err(|error| error.within(table))?;
        report.records += found.records;
        report.record_bytes += found.bytes;
        report.leaves += found.leaves;
        report.inner_pages += found.inner_pages;
        report.large_values += found.large_values;
        report.free_in_pages_bytes += found.free_bytes;
        Ok(())
    }
}
