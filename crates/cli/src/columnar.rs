//! Arrow and Parquet in `export` and `import`.

use crate::export::ExportArgs;
use crate::failure::{Failure, Outcome};
use crate::import::RecordFormat;
use crate::target::{Target, refused};
use arrow::{Batches, Format, RecordBatches, Shape, Writer};
use pando::{Cursor, Snapshot};
use rows::{DynamicTable, KeyRange, Value};
use std::io;
use std::path::Path;

/// Returns the format of columns that `format` names; `None`: it is one of rows.
pub fn format_of(format: RecordFormat, to_stdout: bool) -> Option<Format> {
    match format {
        RecordFormat::Parquet => Some(Format::Parquet),
        // A pipe cannot be read from its end, where a file has its footer.
        RecordFormat::Arrow if to_stdout => Some(Format::ArrowStream),
        RecordFormat::Arrow => Some(Format::ArrowFile),
        _ => None,
    }
}

/// Exports the records of a table.
pub fn export(cursor: &mut Cursor<'_>, args: &ExportArgs, format: Format) -> Outcome {
    let (target, refused) = (Target::create(&args.target)?, refused(&args.target));
    let mut out = Writer::new(target, format, Shape::of_records()).map_err(&refused)?;
    while let Some((key, value)) = cursor.next()? {
        let row = [Value::Bytes(key.into()), Value::Bytes(value.into())];
        out.row(&row).map_err(&refused)?;
    }
    out.finish().map_err(&refused)?.finish()
}

/// Exports the rows of a typed table.
pub fn export_typed(snapshot: &Snapshot, args: &ExportArgs, format: Format) -> Outcome {
    let table = DynamicTable::expect(snapshot, &args.table)?;
    let (target, refused) = (Target::create(&args.target)?, refused(&args.target));
    let mut out = Writer::new(target, format, Shape::of_table(&table)).map_err(&refused)?;
    let mut scan = table.scan(snapshot, &KeyRange::all())?;
    while let Some(written) = scan.next_with(|row| out.row(&row))? {
        written.map_err(&refused)?;
    }
    out.finish().map_err(&refused)?.finish()
}

/// Opens a file, or for `-` a stream of Arrow on standard input.
pub fn open(source: &Path, format: RecordFormat) -> Outcome<Batches<'static>> {
    if source != Path::new("-") {
        return Ok(Batches::open(source)?);
    }
    match format {
        RecordFormat::Parquet => Err(Failure::Usage(
            "Parquet is read from its end: write it to a file, and name the file as SOURCE".to_owned(),
        )),
        _ => Ok(Batches::stream(io::stdin())?),
    }
}

/// Returns the records in two columns of a file.
pub fn records(
    batches: Batches<'static>,
    key: Option<&str>,
    value: Option<&str>,
) -> Outcome<RecordBatches<'static>> {
    Ok(RecordBatches::new(batches, key.unwrap_or("key"), value.unwrap_or("value"))?)
}
