//! Writers of files and streams.

use crate::build::BatchBuilder;
use crate::shape::Shape;
use arrow_array::RecordBatch;
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::ArrowError;
#[cfg(feature = "parquet")]
use parquet::arrow::ArrowWriter;
#[cfg(feature = "parquet")]
use parquet::basic::{Compression, ZstdLevel};
#[cfg(feature = "parquet")]
use parquet::errors::ParquetError;
#[cfg(feature = "parquet")]
use parquet::file::properties::WriterProperties;
use rows::Value;
use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;

/// The most rows of a row group of Parquet.
#[cfg(feature = "parquet")]
const GROUP_ROWS: usize = 128 << 10;
/// The encoded bytes after which a row group ends.
#[cfg(feature = "parquet")]
const GROUP_BYTES: usize = 16 << 20;

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Apache Parquet, compressed by Zstandard.
    #[cfg(feature = "parquet")]
    Parquet,
    /// The file format of Arrow IPC, also called Feather version 2; not compressed.
    ArrowFile,
    /// The stream format of Arrow IPC, for pipes and HTTP; not compressed.
    ArrowStream,
}

/// A writer of rows. Its output is complete after [`Writer::finish`].
pub struct Writer<W: Write + Send> {
    batch: BatchBuilder,
    out: Out<W>,
}

enum Out<W: Write + Send> {
    #[cfg(feature = "parquet")]
    Parquet(Box<ArrowWriter<W>>),
    File(Box<FileWriter<W>>),
    Stream(Box<StreamWriter<W>>),
}

impl<W: Write + Send> Writer<W> {
    /// Writes what comes before the rows, and returns a writer of rows with these columns.
    ///
    /// # Errors
    /// The errors of `out`, unchanged. `InvalidData` if a row does not fit the columns.
    pub fn new(out: W, format: Format, shape: Shape) -> io::Result<Self> {
        let schema = Arc::clone(shape.schema());
        let out = match format {
            #[cfg(feature = "parquet")]
            Format::Parquet => {
                let level = ZstdLevel::try_new(3).map_err(of_parquet)?;
                let properties = WriterProperties::builder()
                    .set_compression(Compression::ZSTD(level))
                    .set_max_row_group_row_count(Some(GROUP_ROWS))
                    .build();
                let writer = ArrowWriter::try_new(out, schema, Some(properties)).map_err(of_parquet)?;
                Out::Parquet(Box::new(writer))
            }
            Format::ArrowFile => Out::File(Box::new(FileWriter::try_new(out, &schema).map_err(of_arrow)?)),
            Format::ArrowStream => {
                Out::Stream(Box::new(StreamWriter::try_new(out, &schema).map_err(of_arrow)?))
            }
        };
        Ok(Writer { batch: BatchBuilder::new(shape), out })
    }

    /// Returns the columns.
    pub fn shape(&self) -> &Shape {
        self.batch.shape()
    }

    /// Writes a row, which must have a value for each column. The row reaches the output together with its batch.
    ///
    /// # Errors
    /// As for [`Writer::new`].
    pub fn row(&mut self, row: &[Value<'_>]) -> io::Result<()> {
        if self.batch.push(row)? { self.flush() } else { Ok(()) }
    }

    /// Ends the batch. The output of a stream then has all rows so far.
    ///
    /// # Errors
    /// As for [`Writer::new`].
    pub fn flush(&mut self) -> io::Result<()> {
        match self.batch.finish()? {
            Some(batch) => self.write(&batch),
            None => Ok(()),
        }
    }

    fn write(&mut self, batch: &RecordBatch) -> io::Result<()> {
        match &mut self.out {
            Out::File(out) => out.write(batch).map_err(of_arrow),
            Out::Stream(out) => out.write(batch).map_err(of_arrow),
            #[cfg(feature = "parquet")]
            Out::Parquet(out) => {
                out.write(batch).map_err(of_parquet)?;
                // Encoded pages wait in memory until their row group ends.
                if out.in_progress_size() >= GROUP_BYTES {
                    out.flush().map_err(of_parquet)?;
                }
                Ok(())
            }
        }
    }

    /// Returns the output of a stream, for example to take what was written so far. Returns `None` for files.
    pub fn stream_mut(&mut self) -> Option<&mut W> {
        match &mut self.out {
            Out::Stream(out) => Some(out.get_mut()),
            _ => None,
        }
    }

    /// Writes the rest, and what comes after the rows. Returns the output.
    ///
    /// # Errors
    /// As for [`Writer::new`].
    pub fn finish(mut self) -> io::Result<W> {
        self.flush()?;
        match self.out {
            #[cfg(feature = "parquet")]
            Out::Parquet(out) => out.into_inner().map_err(of_parquet),
            Out::File(out) => out.into_inner().map_err(of_arrow),
            Out::Stream(out) => out.into_inner().map_err(of_arrow),
        }
    }
}

impl<W: Write + Send> fmt::Debug for Writer<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("shape", self.shape()).finish_non_exhaustive()
    }
}

/// Returns the error of the output below, if it is one.
fn of_arrow(error: ArrowError) -> io::Error {
    match error {
        ArrowError::IoError(_, cause) => cause,
        other => io::Error::other(other),
    }
}

#[cfg(feature = "parquet")]
fn of_parquet(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(cause) => match cause.downcast::<io::Error>() {
            Ok(cause) => *cause,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    }
}
