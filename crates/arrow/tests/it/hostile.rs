//! Damaged and invented files: an error of kind `Invalid`, in bounded time and memory, and never a panic.

use arrow_ipc::reader::read_footer_length;
use arrow_ipc::root_as_footer;
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

/// A Parquet file without rows whose schema has these elements, each with the number of its children.
fn parquet_of(children: impl Iterator<Item = i32>) -> Vec<u8> {
    let number = |mut number: u64| {
        let mut bytes = Vec::new();
        while number >= 0x80 {
            bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        bytes.push(number as u8);
        bytes
    };
    let zigzag = |n: i32| number(((n << 1) ^ (n >> 31)) as u32 as u64);
    // Repetition (3), name (4), number of children (5); a column has a type (1) instead.
    let elements: Vec<_> = children
        .map(|children| match children {
            0 => b"\x15\x04\x25\x02\x18\x01c\0".to_vec(),
            _ => [b"\x35\x02\x18\x01g\x15", &zigzag(children)[..], b"\0"].concat(),
        })
        .collect();
    let version = b"\x15\x02";
    let schema = [b"\x19\xfc", &number(elements.len() as u64)[..], &elements.concat()].concat();
    let rows_and_groups = b"\x16\0\x19\x0c\0";
    let footer = [&version[..], &schema, rows_and_groups].concat();
    [b"PAR1", &footer[..], &(footer.len() as u32).to_le_bytes(), b"PAR1"].concat()
}

#[test]
fn a_schema_that_would_end_the_process_is_an_error() {
    // It is well formed: a table without a column that it needs, and a group, which no table can hold.
    for sound in [vec![1, 0], vec![1, 1, 0], vec![2, 2, 0, 0, 0]] {
        let message = read(&parquet_of(sound.into_iter())).unwrap_err();
        assert!(message.contains("no column"), "{message}");
    }
    let deep = |levels| parquet_of(std::iter::repeat_n(1, levels).chain([0]));
    let message = read(&deep(1_000_000)).unwrap_err();
    assert!(message.contains("nested too deeply"), "{message}");
    // The reader would reserve 16 GiB.
    for members in [i32::MAX, 2] {
        let message = read(&parquet_of([1, members, 0].into_iter())).unwrap_err();
        assert!(message.contains("more members"), "{message}");
    }
    let message = read(&parquet_of([1, -1, 0].into_iter())).unwrap_err();
    assert!(message.contains("negative"), "{message}");
}

/// The lengths of blocks in the footer, for which the reader would reserve and clear memory before it reads.
#[test]
fn a_block_is_no_longer_than_its_file() {
    let whole = file(Format::ArrowFile);
    let footer_end = whole.len() - 10;
    let footer_bytes = read_footer_length(*whole.last_chunk().unwrap()).unwrap();
    let footer = root_as_footer(&whole[footer_end - footer_bytes..footer_end]).unwrap();
    let block = *footer.recordBatches().unwrap().get(0);
    // In a file a block has its offset, the length of its metadata and of its body, each in 8 bytes.
    let place = |file: &[u8]| {
        let place = file.windows(block.0.len()).rposition(|bytes| bytes == block.0);
        place.expect("the footer has the block")
    };
    let at = place(&whole);
    for (field, length) in [(16, 8i64 << 30), (16, whole.len() as i64), (0, whole.len() as i64), (8, 1 << 30)]
    {
        let mut file = whole.clone();
        file[at + field..at + field + 8].copy_from_slice(&length.to_le_bytes());
        let message = read(&file).unwrap_err();
        assert!(message.contains("lies outside"), "{field} {length}: {message}");
    }
}

/// Every place of a file with a length that is long and still plausible, so that memory could be reserved for it.
#[test]
fn plausible_lengths_reserve_no_memory() {
    for format in [Format::ArrowFile, Format::ArrowStream] {
        for length in [0x7fff_fff8, 1i64 << 40, 1 << 46] {
            let whole = file(format);
            for at in (0..whole.len() - 8).step_by(8) {
                let mut file = whole.clone();
                file[at..at + 8].copy_from_slice(&length.to_le_bytes());
                let _ = read(&file);
            }
        }
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
