//! `export --typed`: the rows of a typed table as CSV or NDJSON, in the order of the primary key, through one snapshot,
//! here or of a server. `import --typed` of the result makes the same rows.

use crate::export::{ExportArgs, refused};
use crate::failure::{Failure, Outcome};
use crate::import::RecordFormat;
use crate::output;
use crate::remote::Remote;
use pando::Snapshot;
use rows::{DynamicTable, KeyRange, RowFormat, RowWriter};
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

/// What is read of a server's answer at a time.
const PIECE_BYTES: usize = 64 << 10;

/// Where rows go, and what it means if they cannot.
type Target = (Box<dyn Write>, Box<dyn Fn(io::Error) -> Failure>);

/// All rows of a table here.
pub fn from_snapshot(snapshot: &Snapshot, args: &ExportArgs, format: RecordFormat) -> Outcome {
    let format = row_format(format)?;
    let table = DynamicTable::expect(snapshot, &args.table)?;
    let (out, refused) = target(&args.target)?;
    let mut out = RowWriter::new(&table, format, out);
    out.header().map_err(&refused)?;
    let mut scan = table.scan(snapshot, &KeyRange::all())?;
    while let Some(written) = scan.next_with(|row| out.row(&row))? {
        written.map_err(&refused)?;
    }
    out.flush().map_err(&refused)
}

/// All rows of a table of a server, which writes them down in the same way.
pub fn from_server(remote: &Remote, args: &ExportArgs, format: RecordFormat) -> Outcome {
    let word = row_format(format)?.to_string().to_lowercase();
    // Asked before anything is created: a table mistyped creates no file.
    let answer = remote.ask("GET", &format!("{}?format={word}", Remote::documents(&args.table)), None)?;
    let (mut out, refused) = target(&args.target)?;
    let (mut answer, mut piece) = (answer.into_body().into_reader(), vec![0; PIECE_BYTES]);
    loop {
        let broken_off = |cause| Failure::system("read the server's response", cause);
        match answer.read(&mut piece).map_err(broken_off)? {
            0 => return out.flush().map_err(&refused),
            bytes => out.write_all(&piece[..bytes]).map_err(&refused)?,
        }
    }
}

fn row_format(format: RecordFormat) -> Outcome<RowFormat> {
    match format {
        RecordFormat::Csv => Ok(RowFormat::Csv),
        RecordFormat::Ndjson => Ok(RowFormat::Ndjson),
        RecordFormat::Tree => {
            Err(Failure::Usage("a typed table can be exported only as csv or ndjson".to_owned()))
        }
    }
}

fn target(path: &Path) -> Outcome<Target> {
    if path == Path::new("-") {
        return Ok((Box::new(output::stdout()), Box::new(Failure::stdout)));
    }
    let file = File::create_new(path).map_err(refused(path))?;
    Ok((Box::new(BufWriter::new(file)), Box::new(refused(path))))
}
