//! The batches of Parquet have few rows if the rows are long.

use arrow_array::{ArrayRef, LargeBinaryArray, RecordBatch};
use pando_arrow::Batches;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use std::fs;
use std::sync::Arc;

/// Returns the number of rows of each batch of a file.
fn batches(bytes: &[u8]) -> Vec<usize> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, bytes).unwrap();
    Batches::open(&path).unwrap().map(|batch| batch.unwrap().num_rows()).collect()
}

fn column(value: &[u8], rows: usize) -> RecordBatch {
    let column: ArrayRef = Arc::new(LargeBinaryArray::from_iter_values((0..rows).map(|_| value)));
    RecordBatch::try_from_iter([("raw", column)]).unwrap()
}

#[test]
fn a_batch_has_few_long_rows_and_many_short_ones() {
    let mut file = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut file, column(b"", 0).schema(), None).unwrap();
    for group in [column(&[7; 300_000], 8), column(b"short", 2000), column(&[7; 3_000_000], 2)] {
        writer.write(&group).unwrap();
        writer.flush().unwrap();
    }
    writer.close().unwrap();
    assert_eq!(batches(&file), [3, 3, 2, 1024, 976, 1, 1]);
}

/// A column with a dictionary has its long value only once. Programs do not have to write how long its rows are.
#[test]
fn a_batch_has_few_rows_with_a_long_value_of_a_dictionary() {
    let batch = column(&[7; 200_000], 300);
    for (statistics, most) in [(EnabledStatistics::Chunk, 5), (EnabledStatistics::None, 90)] {
        let properties = WriterProperties::builder().set_statistics_enabled(statistics).build();
        let mut file = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        assert!(file.len() < 1 << 20);
        let rows = batches(&file);
        assert_eq!(rows.iter().sum::<usize>(), 300);
        assert!(rows.iter().all(|rows| *rows <= most), "{statistics:?}: {rows:?}");
    }
}
