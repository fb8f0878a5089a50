//! What is wrong with a row, an entry or a key of SQLite's, and the error that says so.

use super::values::Misfit;
use crate::cause::Cause;
use crate::definition::Column;
use pando::Error;
use sqlite_format::key::CUT_BYTES;
use sqlite_format::record::Malformed;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// The key is not one of this table.
    Key,
    /// The bytes are not those of a row or of an entry.
    Row,
    /// The key is too long to have an order.
    TooLong,
    /// The value of the column at this place is none of its type.
    Unfit(usize, Misfit),
    /// SQLite cannot store the value in the column at this place.
    Unstorable(usize, &'static str),
    /// The row is longer than SQLite reads.
    LongRow,
}

impl From<Malformed> for Problem {
    fn from(_: Malformed) -> Problem {
        Problem::Row
    }
}

impl Problem {
    /// Returns the error for the row at `key`, or for an entry of the index at it.
    #[cold]
    pub fn error(self, table: &str, columns: &[Column], index: Option<&str>, key: &[u8]) -> Error {
        let of = match index {
            None => format!("table {table:?}, the row at key \"{}\"", key.escape_ascii()),
            Some(index) => format!("table {table:?}, index {index:?}, the entry \"{}\"", key.escape_ascii()),
        };
        match self {
            Problem::Key => Error::corruption(format!("{of}: its key is not a key of this table")),
            Problem::Row => Error::corruption(format!("{of}: its bytes are not those of SQLite's records")),
            Problem::TooLong => too_long(table, index),
            Problem::Unstorable(place, what) => {
                let name = columns[place].name().to_owned();
                let message = format!("table {table:?}: column {name:?} cannot have {what}");
                Cause::WrongType { table: table.to_owned(), column: name }.error(message)
            }
            Problem::LongRow => {
                let most = super::stored::MOST_RECORD_BYTES;
                Error::invalid(format!("table {table:?}: SQLite has no rows of more than {most} bytes"))
            }
            Problem::Unfit(place, misfit) => {
                let column = &columns[place];
                let (name, kind) = (column.name().to_owned(), column.column_type());
                let what = match misfit {
                    Misfit::Type(is) => format!(
                        "holds {is} and is of type {kind}; SQLite allows that, and typed tables do not: \
                         read it with SQL"
                    ),
                    Misfit::NotUtf8 => "holds text that is not UTF-8".to_owned(),
                    Misfit::NoDefault => {
                        "was added later, with a default that only SQLite can compute".to_owned()
                    }
                };
                let message = format!("{of}: column {name:?} {what}");
                Cause::WrongType { table: table.to_owned(), column: name }.error(message)
            }
        }
    }
}

/// Returns the error for a key that has no order.
#[cold]
fn too_long(table: &str, index: Option<&str>) -> Error {
    let of = index.map_or("its primary key".to_owned(), |index| format!("index {index:?}"));
    let message = format!(
        "table {table:?}: {of} has keys of more than {CUT_BYTES} bytes, which only SQL can read in their \
         order"
    );
    Cause::TooLong { table: table.to_owned(), index: index.map(str::to_owned) }.error(message)
}
