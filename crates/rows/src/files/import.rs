//! Importing the rows of a file into a typed table: all in one transaction, which can also create the table, or in
//! chunks. After a failure, which names line and column, nothing of the failed transaction remains.

use super::{RowFormat, Storage};
use crate::cause::Cause;
use crate::definition::Definition;
use crate::table::{DynamicRow, DynamicTable};
use pando::any::{AnyDatabase, AnyTransaction};
use pando::{Error, TransactionOptions};
use std::fmt;
use std::io;

/// The number of rows between two reports of progress.
const REPORT_ROWS: u64 = 1000;

/// An import of rows into a table.
///
/// ```
/// use pando_rows::{Definition, Import, RowFormat, RowReader};
/// # fn main() -> pando::Result<()> {
/// # let db = pando::Database::builder().in_memory()?;
/// let definition = Definition::parse("people", "id int key, age int null")?;
/// let import = Import { definition: Some(&definition), ..Import::into("people", db.transaction_options()) };
/// let input = &b"id,age\n1,30\n2,\n"[..];
/// let imported = import.run(&db, &mut RowReader::new(input, RowFormat::Csv), |_| {}).unwrap();
/// assert_eq!(imported.rows, 2);
/// let again = Import::into("people", db.transaction_options());
/// let input = &b"id,age\n3,30\n4,old\n"[..];
/// let failure = again.run(&db, &mut RowReader::new(input, RowFormat::Csv), |_| {}).unwrap_err();
/// assert_eq!(failure.to_string(), "CSV line 3, column \"age\": \"old\" is no int");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Import<'a> {
    /// The name of the table.
    pub table: &'a str,
    /// The definition with which the table is created; `None` if it must exist.
    pub definition: Option<&'a Definition>,
    /// The storage of a new table. An existing table must be stored in the same way; otherwise the import fails with
    /// `Mismatch`.
    pub storage: Storage,
    /// Whether a row replaces the row with the same primary key. If not, such a row ends the import with an error.
    pub upsert: bool,
    /// The number of rows in each transaction, at least 1; `None` for all rows in one transaction.
    pub chunk_rows: Option<u64>,
    /// The options of each transaction.
    pub options: TransactionOptions,
}

/// The result of an import.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Imported {
    /// The number of imported rows.
    pub rows: u64,
    /// The number of the last commit; `None` in a remote store.
    pub commit: Option<u64>,
}

/// The result of the chunks before the failure of an import, which remain in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartialImport {
    /// The number of rows that remain in the table.
    pub rows: u64,
    /// The line of the last row that remains in the table.
    pub line: u64,
}

/// The reason why an import failed.
#[derive(Debug)]
pub enum ImportError {
    /// The input is not valid. The text states the place and the problem.
    Wrong(String),
    /// The table rejected a row. The error has a [`Cause`] and states the line.
    Refused(Error),
    /// The input could not be read.
    Unreadable(RowFormat, io::Error),
    /// The engine failed. The kind `Missing` means that there is no such table.
    Engine(Error),
}

/// A failed import.
#[derive(Debug)]
#[non_exhaustive]
pub struct ImportFailure {
    /// The reason why the import failed.
    pub error: ImportError,
    /// The rows that remain in the table; `None` if no rows remain.
    pub kept: Option<PartialImport>,
}

/// The rows of an input, one after the other. [`RowReader`](crate::RowReader) reads CSV and NDJSON; other crates read
/// other formats.
pub trait RowSource {
    /// Finds the columns of the input in the table, before the first row.
    ///
    /// # Errors
    /// [`ImportError::Wrong`] if they do not fit.
    fn begin(&mut self, table: &DynamicTable) -> Result<(), ImportError>;

    /// Reads the next row, with a value for each column of the table. Returns `None` at the end.
    ///
    /// # Errors
    /// Any error of an import.
    fn next_row(&mut self, table: &DynamicTable) -> Result<Option<DynamicRow>, ImportError>;

    /// Returns the line of the last row that was read, or its number in an input without lines.
    fn line(&self) -> u64;

    /// Returns the place of the last row that was read, in words.
    fn place(&self) -> String;
}

impl<'a> Import<'a> {
    /// Creates an import into an existing table. All rows are imported in one transaction,
    /// which fails if a key exists.
    pub fn into(table: &'a str, options: TransactionOptions) -> Self {
        Import {
            table,
            definition: None,
            storage: Storage::default(),
            upsert: false,
            chunk_rows: None,
            options,
        }
    }

    /// Puts all rows of `input`, and calls the callback from time to time with the number of rows so far. It needs the
    /// memory of a transaction, which is bounded, and of one record.
    ///
    /// # Errors
    /// The first problem. Only the rows in [`ImportFailure::kept`] then remain in the table.
    pub fn run(
        &self,
        db: impl Into<AnyDatabase>,
        input: &mut impl RowSource,
        progress: impl FnMut(u64),
    ) -> Result<Imported, ImportFailure> {
        let mut kept = None;
        self.run_keeping(&db.into(), input, progress, &mut kept)
            .map_err(|error| ImportFailure { error, kept })
    }

    fn run_keeping(
        &self,
        db: &AnyDatabase,
        input: &mut impl RowSource,
        mut progress: impl FnMut(u64),
        kept: &mut Option<PartialImport>,
    ) -> Result<Imported, ImportError> {
        let mut rows = 0;
        let mut tx = db.begin_with(&self.options)?;
        let table = self.open(&mut tx)?;
        input.begin(&table)?;
        while let Some(row) = input.next_row(&table)? {
            let put = match self.upsert {
                true => table.upsert(&mut tx, &row),
                false => table.insert(&mut tx, &row),
            };
            put.map_err(|error| refused(error, input))?;
            rows += 1;
            if rows % REPORT_ROWS == 0 {
                progress(rows);
            }
            if self.chunk_rows.is_some_and(|chunk| rows % chunk == 0) {
                tx.commit()?;
                *kept = Some(PartialImport { rows, line: input.line() });
                tx = db.begin_with(&self.options)?;
            }
        }
        Ok(Imported { rows, commit: tx.commit()? })
    }

    fn open(&self, tx: &mut AnyTransaction) -> pando::Result<DynamicTable> {
        match self.definition {
            Some(definition) => DynamicTable::create(tx, &self.storage.applied_to(definition.clone())),
            None => {
                let table = DynamicTable::expect(tx, self.table)?;
                self.storage.check(&table)?;
                Ok(table)
            }
        }
    }
}

/// Converts an error of the engine for a row. An invalid row is the fault of the input; other errors are not.
fn refused(error: Error, input: &impl RowSource) -> ImportError {
    let is_wrong = Cause::in_error(&error).is_some();
    let error = error.within(input.place());
    if is_wrong { ImportError::Refused(error) } else { ImportError::Engine(error) }
}

impl From<Error> for ImportError {
    fn from(error: Error) -> Self {
        ImportError::Engine(error)
    }
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ImportError::Wrong(message) => f.write_str(message),
            ImportError::Refused(error) | ImportError::Engine(error) => write!(f, "{error}"),
            ImportError::Unreadable(format, cause) => write!(f, "cannot read the {format} input: {cause}"),
        }
    }
}

impl fmt::Display for ImportFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.error)?;
        match self.kept {
            Some(PartialImport { rows, line }) => {
                write!(f, "\n{rows} rows, through line {line}, were imported before and are in the table")
            }
            None => Ok(()),
        }
    }
}

impl std::error::Error for ImportError {}
impl std::error::Error for ImportFailure {}
