//! Rows of files: what is wrong leaves nothing, and no record takes more memory than it may.

use pando::Database;
use pando_rows::{Definition, DynamicTable, Import, ImportError, KeyRange, RowFormat, RowReader, RowWriter};
use std::io::{self, Read};

/// Gives a few bytes at a time, and then, if it is to, fails.
struct Slowly<'a> {
    bytes: &'a [u8],
    fails: bool,
}

impl Read for Slowly<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.bytes.is_empty() && self.fails {
            return Err(io::Error::other("the line is dead"));
        }
        let some = out.len().min(3);
        self.bytes.read(&mut out[..some])
    }
}

fn made() -> Database {
    let db = Database::builder().in_memory().unwrap();
    let definition = Definition::parse("t", "id int key, name text null").unwrap();
    db.write(|tx| DynamicTable::create(tx, &definition)).unwrap();
    db
}

fn written(db: &Database, format: RowFormat) -> String {
    let snapshot = db.snapshot().unwrap();
    let table = DynamicTable::expect(&snapshot, "t").unwrap();
    let mut out = Vec::new();
    let mut writer = RowWriter::new(&table, format, &mut out);
    writer.header().unwrap();
    for row in table.scan(&snapshot, &KeyRange::all()).unwrap() {
        writer.row(&row.unwrap()).unwrap();
    }
    writer.flush().unwrap();
    drop(writer);
    String::from_utf8(out).unwrap()
}

const CSV: &str = "id,name\n1,\"a,\"\"b\"\"\"\n2,\\N\n";
const NDJSON: &str = "{\"id\":1,\"name\":\"a,\\\"b\\\"\"}\n{\"id\":2,\"name\":null}\n";

#[test]
fn what_is_read_is_written() {
    for (format, text) in [(RowFormat::Csv, CSV), (RowFormat::Ndjson, NDJSON)] {
        let db = made();
        let import = Import::into("t", db.transaction_options());
        let mut input = RowReader::new(Slowly { bytes: text.as_bytes(), fails: false }, format);
        assert_eq!(import.run(&db, &mut input, |_| {}).unwrap().rows, 2);
        assert_eq!(input.line(), if format == RowFormat::Csv { 3 } else { 2 });
        assert_eq!(
            (written(&db, RowFormat::Csv), written(&db, RowFormat::Ndjson)),
            (CSV.into(), NDJSON.into())
        );
    }
}

#[test]
fn an_input_that_fails_leaves_nothing() {
    for (format, text) in [(RowFormat::Csv, CSV), (RowFormat::Ndjson, NDJSON)] {
        for end in 0..=text.len() {
            let db = made();
            let import = Import::into("t", db.transaction_options());
            let input = Slowly { bytes: &text.as_bytes()[..end], fails: true };
            let failure = import.run(&db, &mut RowReader::new(input, format), |_| {}).unwrap_err();
            assert!(matches!(failure.error, ImportError::Unreadable(..)), "{failure}");
            assert!(failure.kept.is_none() && written(&db, RowFormat::Ndjson).is_empty(), "{end}");
        }
    }
}

#[test]
fn a_record_is_as_long_as_it_may_be() {
    let name = "x".repeat(100_000);
    for (format, head) in [(RowFormat::Csv, "id,name\n"), (RowFormat::Ndjson, "")] {
        let row = |id: u32| match format {
            RowFormat::Csv => format!("{id},{name}\n"),
            RowFormat::Ndjson => format!("{{\"id\":{id},\"name\":\"{name}\"}}\n"),
        };
        // Each by itself, not all of them together.
        let text: String = std::iter::once(head.to_owned()).chain((0..20).map(row)).collect();
        let run = |most: u64| {
            let db = made();
            let import = Import::into("t", db.transaction_options());
            import.run(&db, &mut RowReader::bounded(text.as_bytes(), format, b',', most), |_| {})
        };
        assert_eq!(run(110_000).unwrap().rows, 20);
        let failure = run(90_000).unwrap_err();
        assert!(
            matches!(&failure.error, ImportError::Wrong(said) if said.contains("longer than 90000 bytes"))
        );
    }
}
