//! `export --typed`: the rows of a typed table as CSV or NDJSON, in the order of the primary key, through one snapshot.
//! `import --typed` of the result makes the same rows.

use crate::failure::{Failure, Outcome};
use pando::Snapshot;
use rows::{Column, ColumnType, DynamicTable, KeyRange};
use std::io::{self, Write};

/// Writes all rows of `table`.
pub fn write(
    snapshot: &Snapshot,
    table: &DynamicTable,
    as_csv: bool,
    out: impl Write,
    refused: impl Fn(io::Error) -> Failure,
) -> Outcome {
    let columns: Vec<(&str, ColumnType)> =
        table.schema().columns().map(|column: &Column| (column.name(), column.column_type())).collect();
    let mut scan = table.scan(snapshot, &KeyRange::all())?;
    if as_csv {
        let mut out = csv::Writer::from_writer(out);
        let failed = |error: csv::Error| match error.into_kind() {
            csv::ErrorKind::Io(cause) => refused(cause),
            other => Failure::Failed(format!("{other:?}")),
        };
        out.write_record(columns.iter().map(|(name, _)| name)).map_err(failed)?;
        while let Some(texts) = scan.next_with(|row| {
            row.iter().zip(&columns).map(|(value, (_, kind))| value.to_text(*kind)).collect::<Vec<_>>()
        })? {
            out.write_record(&texts).map_err(failed)?;
        }
        return out.flush().map_err(&refused);
    }
    let mut out = out;
    while let Some(line) = scan.next_with(|row| {
        let fields = row.iter().zip(&columns).map(|(value, (name, kind))| {
            format!("{}:{}", serde_json::Value::from(*name), value.to_json(*kind))
        });
        format!("{{{}}}\n", fields.collect::<Vec<_>>().join(","))
    })? {
        out.write_all(line.as_bytes()).map_err(&refused)?;
    }
    out.flush().map_err(&refused)
}
