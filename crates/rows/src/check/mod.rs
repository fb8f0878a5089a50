//! The check that schemas, tables and indexes agree.
//!
//! 1. Every record of the catalog is read (`catalog.rs`), and the tables that a schema names are opened.
//! 2. Every row of every typed table is read and compared with its key and its columns' types, and its entry is looked
//!    up in every index that is ready.
//! 3. Every entry is read, its row is looked up, and the entry that this row should have is compared with it.
//! 4. Tables of the engine with a typed table's name must belong to a schema.
//!
//! An index that is being built may lack entries, so step 2 skips it; the entries that it has must be right.

mod catalog;

use crate::catalog as schemas;
use crate::table::{DynamicTable, OpenIndex};
use crate::value::Value;
use pando::{Error, ErrorKind, ReadSnapshot, RecordCursor, Result, Span};
use std::fmt;

/// The counts of a check, and the problems that it found.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct CheckReport {
    /// The number of typed tables that were read.
    pub tables: u64,
    /// The number of rows that were read.
    pub rows: u64,
    /// The number of index entries that were read.
    pub entries: u64,
    /// The problems, at most [`CheckReport::MOST_PROBLEMS`].
    pub problems: Vec<Problem>,
    /// The number of further problems that were found.
    pub more_problems: u64,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.index {
            Some(index) => write!(f, "typed table {:?}, index {index:?}: {}", self.table, self.what),
            None => write!(f, "typed table {:?}: {}", self.table, self.what),
        }
    }
}

impl CheckReport {
    /// The greatest number of problems that a report lists.
    pub const MOST_PROBLEMS: usize = 1000;

    /// Returns how many problems were found, including those that are not listed.
    pub fn problem_count(&self) -> u64 {
        self.problems.len() as u64 + self.more_problems
    }

    fn note(&mut self, table: &str, index: Option<&str>, what: impl Into<String>) {
        if self.problems.len() == Self::MOST_PROBLEMS {
            self.more_problems += 1;
            return;
        }
        let what = what.into();
        // The problem's text already names its table.
        let of_index = index.map(|index| format!("typed table {table:?}, index {index:?}: "));
        let prefixes =
            [of_index, Some(format!("typed table {table:?}, ")), Some(format!("table {table:?}: "))];
        let bare = prefixes.iter().flatten().find_map(|prefix| what.strip_prefix(&prefix[..]));
        let what = bare.map_or_else(|| what.clone(), str::to_owned);
        self.problems.push(Problem { table: table.to_owned(), index: index.map(str::to_owned), what });
    }
}

/// A problem that a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// The name of the typed table. For the catalog, and for a table of the engine that belongs to no typed table, it
    /// is the engine's name.
    pub table: String,
    /// The index; `None` if the problem is in the rows or in the schema.
    pub index: Option<String>,
    /// The problem and its place, in words.
    pub what: String,
}

/// Reads all schemas, typed tables and indexes, and compares them. Calls `progress` with the counts every few
/// thousand rows.
///
/// ```
/// # fn main() -> pando::Result<()> {
/// # let db = pando::Database::builder().in_memory()?;
/// let report = pando_rows::check(&db.snapshot()?, |_| {})?;
/// assert!(report.problems.is_empty());
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// `Io`, `SnapshotTooOld` and similar errors of reading. Damage to a row, an entry or a schema is not an error, but a
/// problem in the report.
pub fn check(snapshot: &impl ReadSnapshot, mut progress: impl FnMut(&CheckReport)) -> Result<CheckReport> {
    let mut report = CheckReport::default();
    let mut readable = Vec::new();
    let names = passing(&mut report, schemas::NAME, None, schemas::names(snapshot))?;
    for name in names.unwrap_or_default() {
        report.tables += 1;
        let Some(name) = passing(&mut report, schemas::NAME, None, name)? else { continue };
        let found = passing(&mut report, &name, None, schemas::find(snapshot, &name))?;
        readable.extend(found.flatten());
    }
    let read = catalog::records(snapshot, &readable, &mut report);
    passing(&mut report, schemas::NAME, None, read)?;
    for schema in &readable {
        let opened =
            passing(&mut report, schema.name(), None, DynamicTable::expect(snapshot, schema.name()))?;
        let Some(table) = opened else { continue };
        options(&table, &mut report);
        // Pages that cannot be read end the check of this table, but not of the others.
        let read = rows(snapshot, &table, &mut report, &mut progress);
        passing(&mut report, table.name(), None, read)?;
        for open in &table.inner.indexes {
            let read = entries(snapshot, &table, open, &mut report, &mut progress);
            passing(&mut report, table.name(), Some(&open.index.name), read)?;
        }
    }
    catalog::orphans(snapshot, &readable, &mut report)?;
    Ok(report)
}

/// Reports options of a table of the engine under which its indexes cannot stay consistent.
fn options(table: &DynamicTable, report: &mut CheckReport) {
    let indexes = &table.inner.indexes;
    if table.inner.data.ttl().is_some() && !indexes.is_empty() {
        report.note(table.name(), None, "its rows expire, but the entries of its indexes do not");
    }
    for open in indexes.iter().filter(|open| open.table.ttl().is_some()) {
        report.note(table.name(), Some(&open.index.name), "its entries expire");
    }
}

/// The number of rows between two calls of `progress`.
const PROGRESS_EVERY: u64 = 4096;

/// Turns damage into a problem. Other errors are returned.
fn passing<T>(
    report: &mut CheckReport,
    table: &str,
    index: Option<&str>,
    result: Result<T>,
) -> Result<Option<T>> {
    match result {
        Ok(done) => Ok(Some(done)),
        Err(error) if is_damage(&error) => {
            report.note(table, index, error.message());
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn is_damage(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Invalid)
}

fn rows(
    snapshot: &impl ReadSnapshot,
    table: &DynamicTable,
    report: &mut CheckReport,
    progress: &mut impl FnMut(&CheckReport),
) -> Result<()> {
    let name = table.name();
    let mut cursor = snapshot.cursor(&table.inner.data, Span::all())?;
    while let Some((key, bytes)) = cursor.next()? {
        report.rows += 1;
        if report.rows.is_multiple_of(PROGRESS_EVERY) {
            progress(report);
        }
        let Some(row) = passing(report, name, None, sound_row(table, key, bytes))? else { continue };
        for open in table.inner.indexes.iter().filter(|open| !open.index.building) {
            let index = Some(&open.index.name[..]);
            let Some(entry) = passing(report, name, index, table.entry(open, &row, key))? else { continue };
            let found = snapshot.get_with(&open.table, &entry.key, |value| value == &entry.value[..])?;
            let key = || key.escape_ascii();
            match found {
                Some(true) => {}
                Some(false) => {
                    report.note(name, index, format!("the entry of row \"{}\" belongs to another row", key()))
                }
                None => report.note(name, index, format!("the row \"{}\" has no entry", key())),
            }
        }
    }
    Ok(())
}

/// Returns the row if the table can hold it, under the key that it should have.
fn sound_row<'r>(table: &'r DynamicTable, key: &'r [u8], bytes: &'r [u8]) -> Result<Vec<Value<'r>>> {
    let row = table.decode(key, bytes)?;
    let at_key = |error: Error| error.within(format_args!("the row at key \"{}\"", key.escape_ascii()));
    table.check_row(&row).map_err(at_key)?;
    if table.key_of(&row).map_err(at_key)? != key {
        let what = "its values belong to another key";
        return Err(Error::corruption(format!("the row at key \"{}\": {what}", key.escape_ascii())));
    }
    Ok(row)
}

fn entries(
    snapshot: &impl ReadSnapshot,
    table: &DynamicTable,
    open: &OpenIndex,
    report: &mut CheckReport,
    progress: &mut impl FnMut(&CheckReport),
) -> Result<()> {
    let (name, index) = (table.name(), Some(&open.index.name[..]));
    let mut cursor = snapshot.cursor(&open.table, Span::all())?;
    while let Some((key, value)) = cursor.next()? {
        report.entries += 1;
        if report.entries.is_multiple_of(PROGRESS_EVERY) {
            progress(report);
        }
        let primary = passing(report, name, index, table.primary_of(open, key, value))?;
        let Some(primary) = primary.as_deref() else { continue };
        let own = |bytes: &[u8]| {
            let row = table.decode(primary, bytes)?;
            let entry = table.entry(open, &row, primary)?;
            Ok(entry.key == key && entry.value == value)
        };
        let found: Option<Result<bool>> = snapshot.get_with(&table.inner.data, primary, own)?;
        let wrong = match found {
            Some(Ok(true)) => continue,
            // The damaged row itself was reported above.
            Some(Err(error)) if is_damage(&error) => continue,
            Some(Err(error)) => return Err(error),
            Some(Ok(false)) => "does not match the row that it leads to",
            None => "leads to no row",
        };
        report.note(name, index, table.bad_entry(open, key, wrong).message());
    }
    Ok(())
}
