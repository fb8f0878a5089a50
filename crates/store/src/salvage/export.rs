//! The whole export: the list of tables, and each of them, first walked and then searched for.

use super::blend::{Blend, Hides};
use super::replay::Replayed;
use super::report::{Lost, Report, Sink, StoredOptions, TableReport, Trust};
use super::scan::Leaves;
use super::start::Start;
use super::walk::{Values, Walk};
use super::{blend, replay, stacked};
use crate::open::recovery::{DATA, LOCK, NEW_DATA};
use crate::state::catalog::{RequestedLayout, TableRow};
use crate::state::superblock::Superblock;
use crate::state::tables::{self, Row};
use crate::state::ttl::DATE_BYTES;
use base::{Error, ErrorKind, Result, TableId};
use io::{Dir, File, ReadOnlyDir};
use page::Value;
use run::{Delta, Ranges, Run};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Exports what is readable in `dir` to `sink`.
///
/// # Errors
/// [`ErrorKind::Missing`] if there is neither a data file nor a log; [`ErrorKind::Locked`] if another process writes;
/// [`ErrorKind::Foreign`] if nothing identifies the database, so that nothing can be verified, or if its format is
/// newer than this version; errors of `sink`. Damage is not an error: it is reported.
pub fn salvage(dir: Arc<dyn Dir>, sink: &mut dyn Sink) -> Result<Report> {
    let dir: Arc<dyn Dir> = Arc::new(ReadOnlyDir::new(dir));
    let names = dir.list()?;
    if !names.iter().any(|name| crate::open::recovery::is_database_file(name)) {
        return Err(Error::new(ErrorKind::Missing, "there is no database"));
    }
    // If there is no lock file, none is created.
    let _lock = names.iter().any(|name| name == LOCK).then(|| dir.lock(LOCK)).transpose()?;
    let data = [DATA, NEW_DATA].into_iter().find(|data| names.iter().any(|name| name == data));
    let data = data.map(|name| dir.open(name)).transpose()?;
    let mut report = Report::default();
    let start = Start::find(&dir, data.as_deref(), &mut report)?;
    let replayed = match &start.superblock {
        Some(superblock) => replay::after(&dir, superblock, &mut report),
        None => replay::all(&dir, start.database, &mut report),
    };
    let (names, dated) = (BTreeMap::new(), BTreeSet::new());
    Salvage { data, start, replayed, report, sink, leaves: None, names, dated }.export()
}

struct Salvage<'a> {
    data: Option<Arc<dyn File>>,
    start: Start,
    replayed: Replayed,
    report: Report,
    sink: &'a mut dyn Sink,
    leaves: Option<Leaves>,
    names: BTreeMap<TableId, String>,
    /// The tables whose values begin with dates: see [`crate::ttl`].
    dated: BTreeSet<TableId>,
}

/// The runs of a table.
enum Placed {
    Run(Run),
    /// The records and the range deletes of each delta, newest first.
    Stack(Vec<(Run, Run)>),
}

fn placed(rows: Vec<Row>) -> Result<Placed> {
    let mut stack = Vec::new();
    for row in rows {
        match row {
            Row::BTree(run) => return Ok(Placed::Run(run)),
            Row::Stacked(_, delta) => {
                let [records, ranges, _] = Delta::runs(&delta)?;
                stack.push((records, ranges));
            }
        }
    }
    Ok(Placed::Stack(stack))
}

/// The rows of a catalog, as the walk finds them.
struct Rows<T> {
    rows: BTreeMap<TableId, T>,
    is_whole: bool,
}

impl Salvage<'_> {
    fn export(mut self) -> Result<Report> {
        let page_bytes = match &self.start.superblock {
            Some(superblock) => Some(superblock.page_bytes),
            None => self.leaves()?.page_bytes(),
        };
        self.sink.begin(page_bytes)?;
        let runs = self.runs();
        let catalog = self.catalog(&runs)?;
        let mut tables: BTreeSet<TableId> = catalog.rows.keys().copied().collect();
        if !catalog.is_whole || self.report.is_outdated {
            tables.extend(runs.rows.keys().copied());
            tables.extend(self.replayed.memtable.tables());
            tables.extend(self.leaves()?.tables());
        }
        for table in tables.into_iter().filter(|&table| table >= TableId::FIRST_USER) {
            self.table(table, catalog.rows.get(&table).copied(), &runs)?;
        }
        self.report.tables.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(self.report)
    }

    fn values(&self) -> Values<'_> {
        Values { data: self.data.as_deref(), database: self.start.database }
    }

    /// Returns the leaves that the scan finds. The first call searches the file.
    fn leaves(&mut self) -> Result<&Leaves> {
        if self.leaves.is_none() {
            let leaves = Leaves::find(self.data.as_deref(), &self.start)?;
            self.report.scanned_leaves = Some(leaves.len() as u64);
            self.leaves = Some(leaves);
        }
        Ok(self.leaves.as_ref().expect("found above"))
    }

    /// Returns the runs of each table, as the newest readable checkpoint has them.
    fn runs(&mut self) -> Rows<Placed> {
        let mut rows = BTreeMap::new();
        let Some(superblock) = self.start.superblock else { return Rows { rows, is_whole: false } };
        let mut wrong = Vec::new();
        let mut walk = Walk::new(self.data.as_deref(), &self.start, TableId::PHYSICAL);
        let mut scratch = tables::Rows::default();
        let walked = walk.run(&superblock.physical, &mut |key, value| {
            wrong.extend(scratch.push(key, value).err().map(|error| error.to_string()));
            Ok(())
        });
        wrong.extend(walked.err().map(|error| error.to_string()));
        wrong.extend(walk.lost.into_iter().map(|lost| lost.why));
        for (table, found) in scratch.by_table() {
            let placed = placed(found).map_err(|error| wrong.push(error.to_string()));
            rows.extend(placed.ok().map(|placed| (table, placed)));
        }
        let is_whole = wrong.is_empty();
        if !is_whole {
            // Of a stack, rows may be missing that hide what the others contain.
            rows.retain(|_, placed| matches!(placed, Placed::Run(_)));
        }
        self.report.damage.extend(wrong.into_iter().map(|why| format!("physical catalog: {why}")));
        Rows { rows, is_whole }
    }

    /// Returns the tables that certainly exist. The names of others, if found, go to `self.names`.
    fn catalog(&mut self, runs: &Rows<Placed>) -> Result<Rows<StoredOptions>> {
        let mut certain = BTreeMap::new();
        let mut wrong = Vec::new();
        let mut rows = Collect::default();
        let mut lost = Vec::new();
        if self.start.superblock.is_some() {
            let mut blend =
                Blend::new(&self.replayed.memtable, TableId::CATALOG, Hides::All, self.values(), &mut rows);
            let mut walk = Walk::new(self.data.as_deref(), &self.start, TableId::CATALOG);
            let run = match runs.rows.get(&TableId::CATALOG) {
                Some(Placed::Run(run)) => *run,
                Some(Placed::Stack(_)) | None => Run::EMPTY,
            };
            walk.run(&run, &mut |key, value| blend.tree(key, value))?;
            blend.finish()?;
            lost = walk.lost;
            lost.append(&mut blend.lost);
        }
        for (name, row) in rows.0 {
            match TableRow::decode(&name, &row) {
                Ok(row) => {
                    certain.insert(row.id, StoredOptions::of(&row));
                    self.name(&row, &name);
                }
                Err(error) => wrong.push(error.to_string()),
            }
        }
        wrong.extend(lost.into_iter().map(|lost| lost.why));
        let is_whole = wrong.is_empty() && runs.is_whole;
        self.report.damage.extend(wrong.into_iter().map(|why| format!("catalog: {why}")));
        if !is_whole || self.report.is_outdated {
            let mut rows = Collect::default();
            self.leaves()?;
            let leaves = self.leaves.as_ref().expect("asked for above");
            let mut blend =
                Blend::new(&self.replayed.memtable, TableId::CATALOG, Hides::Puts, self.values(), &mut rows);
            leaves.newest(
                self.data.as_deref(),
                &self.start,
                TableId::CATALOG,
                false,
                &mut |_, key, value| blend.tree(key, value),
            )?;
            blend.finish()?;
            for (name, row) in rows.0 {
                if let Ok(row) = TableRow::decode(&name, &row) {
                    self.name(&row, &name);
                }
            }
        }
        Ok(Rows { rows: certain, is_whole })
    }

    /// Stores the name of a table, unless it or the name is known already, and whether it has dates.
    fn name(&mut self, row: &TableRow, name: &[u8]) {
        if row.ttl.is_some() {
            self.dated.insert(row.id);
        }
        let name = String::from_utf8_lossy(name).into_owned();
        if !self.names.values().any(|known| *known == name) {
            self.names.entry(row.id).or_insert(name);
        }
    }

    fn front_bytes(&self, table: TableId) -> usize {
        if self.dated.contains(&table) { DATE_BYTES } else { 0 }
    }

    /// Exports one table. Records are certain only if the table certainly exists.
    fn table(&mut self, table: TableId, options: Option<StoredOptions>, runs: &Rows<Placed>) -> Result<()> {
        let name = self.names.get(&table).cloned().unwrap_or_else(|| format!("table-{}", table.0));
        let mut found = TableReport { name, options, ..TableReport::default() };
        let walked = self.start.superblock.filter(|_| options.is_some());
        match walked.zip(options) {
            Some((_, options)) => {
                self.sink.table(&found.name, &options)?;
                self.walk_table(table, runs, &mut found)?;
            }
            None => found.lost.push(Lost::all("the table has no readable root")),
        }
        found.lost.sort_by(|a, b| a.low.cmp(&b.low));
        if !found.lost.is_empty() || self.report.is_outdated {
            let stacked = options.is_some_and(|options| options.layout == RequestedLayout::Lsm)
                || matches!(runs.rows.get(&table), Some(Placed::Stack(_)))
                || self.leaves()?.hold_deletes(table);
            self.scan_table(table, walked.as_ref(), stacked, &mut found)?;
        }
        if options.is_some() || found.uncertain > 0 {
            self.report.tables.push(found);
        }
        Ok(())
    }

    /// Exports the records that a walk from the table's root finds, and notes the keys that it cannot read (step 3).
    fn walk_table(&mut self, table: TableId, runs: &Rows<Placed>, found: &mut TableReport) -> Result<()> {
        let placed = runs.rows.get(&table);
        if placed.is_none() && !runs.is_whole {
            found
                .lost
                .push(Lost::all("the root of the table may be among the lost rows of the physical catalog"));
        }
        let data = self.data.as_deref();
        let values = Values { data, database: self.start.database };
        let front_bytes = self.front_bytes(table);
        let (sink, name) = (&mut *self.sink, &found.name[..]);
        let mut out = Out { sink, name, trust: Trust::Certain, count: 0, front_bytes };
        let mut blend = Blend::new(&self.replayed.memtable, table, Hides::All, values, &mut out);
        let mut visit = |key: &[u8], value: Value<'_>| blend.tree(key, value);
        let lost = match placed {
            None => Vec::new(),
            Some(Placed::Run(run)) => {
                let mut walk = Walk::new(data, &self.start, table);
                walk.run(run, &mut visit)?;
                walk.lost
            }
            Some(Placed::Stack(stack)) => stacked::walk(data, &self.start, table, stack, &mut visit)?,
        };
        blend.finish()?;
        found.lost.append(&mut blend.lost);
        found.certain = out.count;
        found.lost.extend(lost);
        Ok(())
    }

    /// Searches all leaves of the data file for the table's lost records, and exports them as uncertain (step 4). For a
    /// table that was `walked`, the certain records are not repeated, except for later states.
    fn scan_table(
        &mut self,
        table: TableId,
        walked: Option<&Superblock>,
        stacked: bool,
        found: &mut TableReport,
    ) -> Result<()> {
        self.leaves()?;
        let leaves = self.leaves.as_ref().expect("asked for above");
        let later = walked.filter(|_| self.report.is_outdated).map(|superblock| superblock.checkpoint);
        let hides = match (walked, later) {
            (None, _) => Hides::Puts,
            (Some(_), Some(_)) => Hides::Nothing,
            (Some(_), None) => Hides::All,
        };
        let front_bytes = self.front_bytes(table);
        let (sink, name) = (&mut *self.sink, &found.name[..]);
        let mut out = Out { sink, name, trust: Trust::Uncertain, count: 0, front_bytes };
        let values = Values { data: self.data.as_deref(), database: self.start.database };
        let mut blend = Blend::new(&self.replayed.memtable, table, hides, values, &mut out);
        if walked.is_some() {
            blend.without_log();
        }
        let (data, start) = (self.data.as_deref(), &self.start);
        // A value of the log that cannot be read may lie among the keys of a page that cannot be read: losses overlap.
        let lost = Ranges::joined(found.lost.iter().map(|lost| (&lost.low[..], lost.high.as_deref())));
        leaves.newest(data, start, table, stacked, &mut |birth, key, value| {
            let is_later = later.is_some_and(|later| birth > later);
            let is_wanted = is_later || lost.covering(key).is_some();
            if is_wanted { blend.tree(key, value) } else { Ok(()) }
        })?;
        blend.finish()?;
        found.uncertain = out.count;
        Ok(())
    }
}

/// Rows in memory.
#[derive(Default)]
struct Collect(Vec<(Vec<u8>, Vec<u8>)>);

impl blend::Take for Collect {
    fn take(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.push((key.to_vec(), value.to_vec()));
        Ok(())
    }
}

/// The output of one table's records to the sink, counted.
struct Out<'a> {
    sink: &'a mut dyn Sink,
    name: &'a str,
    trust: Trust,
    count: u64,
    /// The bytes before each value's first byte.
    front_bytes: usize,
}

impl blend::Take for Out<'_> {
    fn take(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.count += 1;
        self.sink.record(self.trust, self.name, key, value.get(self.front_bytes..).unwrap_or_default())
    }
}
