//! Whether each index agrees with its table.
//!
//! 1. Every row of every typed table is read, and its entry looked up in every index that is ready.
//! 2. Every entry is read, the row it leads to looked up, and the entry that this row should have compared with it.
//!
//! One that is being built may lack entries, so that step 1 passes over it; those it has must be right.

use crate::catalog;
use crate::read::Read;
use crate::table::{DynamicTable, OpenIndex};
use pando::{Error, ErrorKind, Result, Snapshot, Span};

/// What was read, and what is wrong.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct CheckReport {
    /// Typed tables.
    pub tables: u64,
    /// Their rows.
    pub rows: u64,
    /// Entries of their indexes.
    pub entries: u64,
    /// All that is wrong, up to [`CheckReport::MOST_PROBLEMS`].
    pub problems: Vec<Problem>,
    /// Problems beyond those.
    pub more_problems: u64,
}

impl CheckReport {
    /// Problems that are kept one by one.
    pub const MOST_PROBLEMS: usize = 1000;

    fn note(&mut self, table: &str, index: Option<&str>, what: impl Into<String>) {
        if self.problems.len() == Self::MOST_PROBLEMS {
            self.more_problems += 1;
            return;
        }
        let (table, index, what) = (table.to_owned(), index.map(str::to_owned), what.into());
        self.problems.push(Problem { table, index, what });
    }
}

/// Something wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The typed table.
    pub table: String,
    /// The index; `None`: the rows themselves.
    pub index: Option<String>,
    /// What is wrong, and where.
    pub what: String,
}

/// Reads all typed tables and their indexes, and compares them. `progress` is shown the counts every so often.
///
/// ```
/// # fn main() -> pando::Result<()> {
/// # let db = pando::Database::builder().in_memory()?;
/// let report = rows::check(&db.snapshot()?, |_| {})?;
/// assert!(report.problems.is_empty());
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// `Io`, `SnapshotTooOld` and the like. What is wrong with a row, an entry or a schema is no error, but a problem.
pub fn check(snapshot: &Snapshot, mut progress: impl FnMut(&CheckReport)) -> Result<CheckReport> {
    let mut report = CheckReport::default();
    for name in catalog::names(snapshot)? {
        report.tables += 1;
        let opened = name.and_then(|name| DynamicTable::expect(snapshot, &name));
        let Some(table) = passing(&mut report, "?", None, opened)? else { continue };
        rows(snapshot, &table, &mut report, &mut progress)?;
        for open in &table.inner.indexes {
            entries(snapshot, &table, open, &mut report, &mut progress)?;
        }
    }
    Ok(report)
}

/// Counts between two calls of `progress`.
const PROGRESS_EVERY: u64 = 4096;

/// Makes damage a problem; other errors are passed on.
fn passing<T>(
    report: &mut CheckReport,
    table: &str,
    index: Option<&str>,
    result: Result<T>,
) -> Result<Option<T>> {
    match result {
        Ok(done) => Ok(Some(done)),
        Err(error) if is_damage(&error) => {
            report.note(table, index, error.to_string());
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn is_damage(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Invalid)
}

fn rows(
    snapshot: &Snapshot,
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
        let Some(row) = passing(report, name, None, table.decode(key, bytes))? else { continue };
        for open in table.inner.indexes.iter().filter(|open| !open.index.building) {
            let index = Some(&open.index.name[..]);
            let Some(entry) = passing(report, name, index, table.entry(open, &row, key))? else { continue };
            let found = snapshot.get_with(&open.table, &entry.key, |value| value == &entry.value[..])?;
            let key = || key.escape_ascii();
            match found {
                Some(true) => {}
                Some(false) => {
                    report.note(name, index, format!("the entry of row \"{}\" is another's", key()))
                }
                None => report.note(name, index, format!("the row \"{}\" has no entry", key())),
            }
        }
    }
    Ok(())
}

fn entries(
    snapshot: &Snapshot,
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
        let Some(primary) = primary else { continue };
        let own = |bytes: &[u8]| {
            let row = table.decode(primary, bytes)?;
            let entry = table.entry(open, &row, primary)?;
            Ok(entry.key == key && entry.value == value)
        };
        let found: Option<Result<bool>> = Read::get_with(snapshot, &table.inner.data, primary, own)?;
        let wrong = match found {
            Some(Ok(true)) => continue,
            // The row itself was found damaged before.
            Some(Err(error)) if is_damage(&error) => continue,
            Some(Err(error)) => return Err(error),
            Some(Ok(false)) => "is not that of the row it leads to",
            None => "leads to no row",
        };
        report.note(name, index, table.bad_entry(open, key, wrong).message());
    }
    Ok(())
}
