//! Tables as Apache Arrow and Parquet, and back.
//!
//! | column | Arrow | other types that are read into it |
//! |---|---|---|
//! | bool | Boolean | |
//! | int | Int64 | all integers that fit |
//! | uint | UInt64 | all integers that fit |
//! | float | Float64 | Float32, and integers of up to 32 bits |
//! | timestamp | Timestamp(µs, UTC) | timestamps of other units, with or without a zone, and dates |
//! | text | Utf8 | LargeUtf8, Utf8View |
//! | bytes | Binary | LargeBinary, BinaryView, FixedSizeBinary |
//! | uuid | FixedSizeBinary(16) | texts that are UUIDs |
//! | json | Utf8 | |
//! | any | Utf8, each value as its JSON | |
//!
//! Dictionaries of these are read as their values. Other types (decimals, lists, structs) are rejected by name. A time
//! with nanoseconds that are not whole microseconds is rejected, too, instead of rounded.
//!
//! A written file has the type of each column and the primary key in its metadata, so [`RowBatches`] can create the
//! same table again. Files of other programs need no metadata: their columns are converted to the types of the table
//! into which they are read.
//!
//! 1. `shape`: columns of tables, as fields of Arrow and back.
//! 2. `build` and `write`: rows to batches of at most 8,192 rows and 1 MiB ([`BatchBuilder`]), and batches to a file.
//! 3. `guess`: the types of columns that are not declared, such as those of SQL results.
//! 4. `footer`, `groups`, `blocks`, `read`, `values` and `row_batches`: a file to batches, and batches to rows.
//!
//! A writer needs the memory of a batch, and for Parquet of a row group of at most 16 MiB in its encoded form. A reader
//! needs that of a batch: for Parquet about 1 MiB, and for Arrow IPC as the file has it, at most 512 MiB. Bytes from
//! outside are never believed: lengths are checked here and by the readers of arrow-rs, and what they reject, or panic
//! over, is an error of kind `Invalid`.
//!
//! Without the feature `parquet`, which is on by default, Parquet files are not recognized.
#![deny(missing_docs, unsafe_code)]

mod shape;
mod build;
mod write;
mod guess;
#[cfg(feature = "parquet")]
mod footer;
#[cfg(feature = "parquet")]
mod groups;
mod blocks;
mod read;
mod values;
mod row_batches;

pub use arrow_array::RecordBatch;
pub use build::BatchBuilder;
pub use guess::{GuessedType, fitted};
pub use read::Batches;
pub use row_batches::{RecordBatches, RowBatches};
pub use shape::Shape;
pub use write::{Format, Writer};

/// Compiles the example of the package's page.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct PackagePage;
