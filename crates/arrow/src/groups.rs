//! The row groups of a Parquet file, one after the other.
//!
//! The reader of arrow-rs returns batches with a number of rows that is fixed before it begins. Here that number
//! depends on how long the rows of a group are, by the metadata of the file: a batch has about 1 MiB. The metadata has
//! only averages. Rows that are much longer than the others of their group make longer batches.

use crate::read::invalid;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use pando::Result;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::basic::Type;
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use std::fs::File;

/// The most rows of a batch.
const MOST_ROWS: u64 = 1024;
/// The bytes of a batch whose rows are of average length.
const BATCH_BYTES: u64 = 1 << 20;
/// The most bytes that a column with a dictionary adds to a batch, provided that this allows [`FEW_ROWS`].
const DICTIONARY_BYTES: u64 = 16 << 20;
/// The rows of a batch that even a long dictionary allows. Programs end a dictionary at about 1 MiB, and most long ones
/// have many short values.
const FEW_ROWS: u64 = 64;

/// A reader of the batches of a Parquet file.
pub(crate) struct Groups {
    file: File,
    metadata: ArrowReaderMetadata,
    /// The group that comes next.
    next: usize,
    reader: Option<ParquetRecordBatchReader>,
}

impl Groups {
    /// Reads the metadata of a file.
    pub(crate) fn open(file: File) -> Result<Self> {
        let metadata = ArrowReaderMetadata::load(&file, ArrowReaderOptions::default()).map_err(invalid)?;
        Ok(Groups { file, metadata, next: 0, reader: None })
    }

    /// Returns the schema, which has the metadata that the batches lack.
    pub(crate) fn schema(&self) -> &SchemaRef {
        self.metadata.schema()
    }

    /// Returns the next batch; `None` at the end.
    pub(crate) fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.reader.as_mut().and_then(Iterator::next) {
                return batch.map(Some).map_err(invalid);
            }
            // What the reader of a group keeps is freed before the next group is read.
            self.reader = None;
            let Some(group) = self.metadata.metadata().row_groups().get(self.next) else { return Ok(None) };
            let file = self.file.try_clone().map_err(|cause| pando::Error::io("read the file", cause))?;
            let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone());
            let builder = builder.with_row_groups(vec![self.next]).with_batch_size(batch_rows(group));
            self.reader = Some(builder.build().map_err(invalid)?);
            self.next += 1;
        }
    }
}

/// Returns how many rows of a group make a batch.
fn batch_rows(group: &RowGroupMetaData) -> usize {
    let rows = u64::try_from(group.num_rows()).unwrap_or(0).max(1);
    let row_bytes = group.columns().iter().map(|column| value_bytes(column, rows));
    let row_bytes = row_bytes.fold(0, u64::saturating_add).max(1);
    let of_dictionaries = group.columns().iter().map(dictionary_rows).min().unwrap_or(MOST_ROWS);
    (BATCH_BYTES / row_bytes).min(of_dictionaries).clamp(1, MOST_ROWS) as usize
}

/// Returns the average bytes of a value of a column.
fn value_bytes(column: &ColumnChunkMetaData, rows: u64) -> u64 {
    match column.column_descr().physical_type() {
        Type::BYTE_ARRAY => {
            let unencoded = column.unencoded_byte_array_data_bytes().unwrap_or(0);
            bytes_of(unencoded.max(column.uncompressed_size())).div_ceil(rows)
        }
        Type::FIXED_LEN_BYTE_ARRAY => bytes_of(column.column_descr().type_length().into()),
        _ => 8,
    }
}

/// Returns the most rows of a batch that a column allows whose dictionary could have a single long value, for which
/// each row has only an index.
fn dictionary_rows(column: &ColumnChunkMetaData) -> u64 {
    let has_dictionary = column.dictionary_page_offset().is_some();
    // If the writer gives the length of the values, the average is that of values, not of indexes.
    let is_unknown = column.unencoded_byte_array_data_bytes().is_none();
    let is_bytes = column.column_descr().physical_type() == Type::BYTE_ARRAY;
    if !(has_dictionary && is_unknown && is_bytes) {
        return MOST_ROWS;
    }
    // No value is longer than the column.
    (DICTIONARY_BYTES / bytes_of(column.uncompressed_size()).max(1)).clamp(FEW_ROWS, MOST_ROWS)
}

fn bytes_of(length: i64) -> u64 {
    u64::try_from(length).unwrap_or(0)
}
