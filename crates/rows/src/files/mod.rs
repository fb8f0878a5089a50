//! Rows of typed tables in files: CSV with a header, or NDJSON, one object on each line.
//!
//! `input.rs` detects the encoding of the text, `reader.rs` reads rows, `import.rs` puts them into a table with the
//! options of `storage.rs`, and `writer.rs` writes rows. Values have the form that `text.rs` defines, so that written
//! rows are read back as the same rows.

mod import;
mod input;
mod reader;
mod storage;
mod writer;

pub use import::{Import, ImportError, ImportFailure, Imported, PartialImport, RowSource};
pub use input::{Quotes, Refused, Text, check_beginning, other_delimiter};
pub use reader::{RowReader, json_problem};
pub use storage::Storage;
pub use writer::RowWriter;

use std::fmt;

/// The format of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowFormat {
    /// RFC 4180, with a header; values as text.
    Csv,
    /// One JSON object on each line.
    Ndjson,
}

impl fmt::Display for RowFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RowFormat::Csv => "CSV",
            RowFormat::Ndjson => "NDJSON",
        })
    }
}
