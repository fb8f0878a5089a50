//! Damaged and invented files: an error of kind `Invalid`, in bounded time and memory, and never a panic.

use pando::ErrorKind;
use pando_arrow::{Batches, Format, RowBatches, Shape, Writer};
use proptest::prelude::*;
use rows::{ColumnType, Definition, DynamicTable, Import, Value};
use std::fs;

fn file(format: Format) -> Vec<u8> {
    let shape = Shape::of_columns([("id", ColumnType::Int, false), ("name", ColumnType::Text, true)]);
    let mut writer = Writer::new(Vec::new(), format, shape).unwrap();
    for id in 0..50 {
        let name = if id % 7 == 0 { Value::Null } else { Value::from(format!("name {}", id % 5)) };
        writer.row(&[Value::Int(id), name]).unwrap();
    }
    writer.finish().unwrap()
}

/// Imports whatever these bytes are.
fn read(bytes: &[u8]) -> Result<u64, String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, bytes).unwrap();
    let opened = Batches::open(&path).map_err(|error| {
        assert!([ErrorKind::Invalid, ErrorKind::Io].contains(&error.kind()), "{error}");
        error.to_string()
    })?;
    let db = pando::Database::builder().in_memory().unwrap();
    db.write(|tx| DynamicTable::create(tx, &Definition::parse("t", "id int key, name text null")?)).unwrap();
    let mut input = RowBatches::new(opened);
    let _ = input.definition("t");
    let import = Import { upsert: true, ..Import::into("t", db.transaction_options()) };
    import.run(&db, &mut input, |_| {}).map(|imported| imported.rows).map_err(|failure| failure.to_string())
}

const FORMATS: [Format; 3] = [Format::Parquet, Format::ArrowFile, Format::ArrowStream];

#[test]
fn every_truncation_is_an_error() {
    for format in FORMATS {
        let file = file(format);
        assert_eq!(read(&file), Ok(50));
        for end in (0..file.len()).step_by(7) {
            let read = read(&file[..end]);
            assert!(read.is_err(), "{format:?}, {end} bytes: {read:?}");
        }
    }
}

#[test]
fn what_is_no_such_file_is_named() {
    for bytes in
        [&b""[..], b"PAR1", b"PAR1\xff\xff\xff\x7fPAR1", b"ARROW1\0\0", b"id,name\n1,a\n", &[0xff; 4000]]
    {
        assert!(read(bytes).is_err(), "{bytes:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn changed_bytes_are_errors_or_other_rows(
        format in 0..3usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut file = file(FORMATS[format]);
        for (at, byte) in changes {
            let at = at.index(file.len());
            file[at] = byte;
        }
        let _ = read(&file);
    }

    #[test]
    fn long_lengths_are_not_believed(format in 1..3usize, at in any::<prop::sample::Index>()) {
        let mut file = file(FORMATS[format]);
        let at = at.index(file.len() / 8 - 1) * 8;
        file[at..at + 8].copy_from_slice(&(i64::MAX - 7).to_le_bytes());
        let _ = read(&file);
    }
}
