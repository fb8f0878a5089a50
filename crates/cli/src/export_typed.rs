//! `export --typed`: writes the rows of a typed table as CSV or NDJSON, in the order of the primary key, from one
//! snapshot of a directory or of a server. An `import --typed` of the result creates the same rows.

use crate::export::ExportArgs;
use crate::failure::{Failure, Outcome};
use crate::import::RecordFormat;
use crate::remote::Remote;
use crate::target::{Target, refused};
use pando::Snapshot;
use rows::{DynamicTable, KeyRange, RowFormat, RowWriter};
use std::io::{Read, Write};

/// The number of bytes that are read from a server's response at a time.
const PIECE_BYTES: usize = 64 << 10;

/// Exports all rows of a table in a directory.
pub fn from_snapshot(snapshot: &Snapshot, args: &ExportArgs, format: RecordFormat) -> Outcome {
    let format = row_format(format)?;
    let table = DynamicTable::expect(snapshot, &args.table)?;
    let (mut target, refused) = (Target::create(&args.target)?, refused(&args.target));
    let mut out = RowWriter::new(&table, format, &mut target);
    out.header().map_err(&refused)?;
    let mut scan = table.scan(snapshot, &KeyRange::all())?;
    while let Some(written) = scan.next_with(|row| out.row(&row))? {
        written.map_err(&refused)?;
    }
    out.flush().map_err(&refused)?;
    drop(out);
    target.finish()
}

/// Exports all rows of a table of a server, which writes them in the same form.
pub fn from_server(remote: &Remote, args: &ExportArgs, format: RecordFormat) -> Outcome {
    let word = row_format(format)?.to_string().to_lowercase();
    // The server is asked before anything is created, so that a misspelt table creates no file.
    let answer = remote.ask("GET", &format!("{}?format={word}", Remote::documents(&args.table)), None)?;
    let (mut out, refused) = (Target::create(&args.target)?, refused(&args.target));
    let (mut answer, mut piece) = (answer.into_body().into_reader(), vec![0; PIECE_BYTES]);
    loop {
        let broken_off = |cause| Failure::system("read the server's response", cause);
        match answer.read(&mut piece).map_err(broken_off)? {
            0 => return out.finish(),
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
        #[cfg(feature = "arrow")]
        RecordFormat::Parquet | RecordFormat::Arrow => Err(crate::export::no_columns_of_servers()),
    }
}
