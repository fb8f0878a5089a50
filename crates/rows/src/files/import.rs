//! Rows of a file into a typed table: all in one transaction, with the making of the table if that is asked for, or in
//! chunks. After a failure, which names line and column, nothing of the transaction is there.

use super::{RowFormat, RowReader, Storage};
use crate::cause::Cause;
use crate::definition::Definition;
use crate::table::DynamicTable;
use pando::{Database, Error, Transaction, TransactionOptions};
use std::fmt;
use std::io::{self, Read};

/// How often progress is told, in rows.
const TOLD_ROWS: u64 = 1000;

/// Rows that are to be put into a table.
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
    /// The table's name.
    pub table: &'a str,
    /// What the table is made as; `None`: it is there.
    pub definition: Option<&'a Definition>,
    /// How the table is stored that is made; one that is there is, or the import fails with `Mismatch`.
    pub storage: Storage,
    /// Whether rows take the place of those with the same primary key; else such a row is a failure.
    pub upsert: bool,
    /// Commit every so many rows, instead of all at once; more than 0.
    pub chunk_rows: Option<u64>,
    /// Of each transaction.
    pub options: TransactionOptions,
}

/// What was imported.
#[derive(Clone, Copy, Debug)]
pub struct Imported {
    /// Rows, of all chunks.
    pub rows: u64,
    /// The number of the last commit.
    pub commit: u64,
}

/// What is there after a failure all the same: the chunks before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Rows.
    pub rows: u64,
    /// The line of the last of them.
    pub line: u64,
}

/// Why an import did not come to its end.
#[derive(Debug)]
pub enum ImportError {
    /// The input is not as it should be: where, and what is wrong there.
    Wrong(String),
    /// A row is not one that the table takes: it has a [`Cause`], and says its line.
    Refused(Error),
    /// The input could not be read.
    Unreadable(RowFormat, io::Error),
    /// The engine failed; `Missing`: there is no such table.
    Engine(Error),
}

/// An import that did not come to its end.
#[derive(Debug)]
pub struct ImportFailure {
    /// Why.
    pub error: ImportError,
    /// What is there all the same; `None`: nothing.
    pub kept: Option<Kept>,
}

impl<'a> Import<'a> {
    /// Rows into a table that is there, none of whose keys is; all or none.
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

    /// Puts all rows of `input`, and says now and then how many it has put. Memory: that of a transaction, which has
    /// a bound, and of one record.
    ///
    /// # Errors
    /// The first thing that is wrong. Nothing is there then but [`ImportFailure::kept`].
    pub fn run<R: Read>(
        &self,
        db: &Database,
        input: &mut RowReader<R>,
        progress: impl FnMut(u64),
    ) -> Result<Imported, ImportFailure> {
        let mut kept = None;
        self.run_keeping(db, input, progress, &mut kept).map_err(|error| ImportFailure { error, kept })
    }

    fn run_keeping<R: Read>(
        &self,
        db: &Database,
        input: &mut RowReader<R>,
        mut progress: impl FnMut(u64),
        kept: &mut Option<Kept>,
    ) -> Result<Imported, ImportError> {
        let mut rows = 0;
        let mut tx = db.begin_with(self.options)?;
        let table = self.open(&mut tx)?;
        input.match_columns(&table)?;
        while let Some(row) = input.next(&table)? {
            let put = match self.upsert {
                true => table.upsert(&mut tx, &row),
                false => table.insert(&mut tx, &row),
            };
            put.map_err(|error| refused(error, input))?;
            rows += 1;
            if rows % TOLD_ROWS == 0 {
                progress(rows);
            }
            if self.chunk_rows.is_some_and(|chunk| rows % chunk == 0) {
                tx.commit()?;
                *kept = Some(Kept { rows, line: input.line() });
                tx = db.begin_with(self.options)?;
            }
        }
        Ok(Imported { rows, commit: tx.commit()? })
    }

    fn open(&self, tx: &mut Transaction) -> pando::Result<DynamicTable> {
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

/// What the engine says of a row: that the row is wrong is the input's fault, the rest is not.
fn refused<R: Read>(error: Error, input: &RowReader<R>) -> ImportError {
    let is_wrong = Cause::of(&error).is_some();
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
            Some(Kept { rows, line }) => {
                write!(f, "\n{rows} rows, through line {line}, were imported before and are in the table")
            }
            None => Ok(()),
        }
    }
}

impl std::error::Error for ImportError {}
impl std::error::Error for ImportFailure {}
