//! The results as NDJSON.

use super::Progress;
use super::results::Results;
use crate::failure::{Failure, Outcome};
use crate::output::{Cell, Format, Rows};
use pando::salvage::{Sink, StoredOptions, Trust};
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::PathBuf;

/// A file for each degree of trust.
pub struct Lines {
    rows: [Option<Rows<BufWriter<File>>>; 2],
    progress: Progress,
    results: Results,
}

impl Lines {
    pub fn new(results: Results) -> Self {
        Lines { rows: [None, None], progress: Progress::default(), results }
    }

    fn rows(&mut self, trust: Trust) -> io::Result<&mut Rows<BufWriter<File>>> {
        let rows = &mut self.rows[trust as usize];
        if rows.is_none() {
            let file = BufWriter::new(File::create_new(self.results.part(trust))?);
            self.results.note(trust);
            *rows = Some(Rows::new(file, Format::Ndjson, &["table", "key", "value"])?);
        }
        Ok(rows.as_mut().expect("made above"))
    }

    /// Completes the results, and returns their names.
    pub fn finish(mut self) -> Outcome<Vec<PathBuf>> {
        for trust in [Trust::Certain, Trust::Uncertain] {
            let Some(rows) = self.rows[trust as usize].take() else { continue };
            let part = self.results.part(trust);
            let written = rows.finish().and_then(|_| fs::File::open(&part)?.sync_all());
            written.map_err(|cause| Failure::system(format!("write {}", part.display()), cause))?;
        }
        self.results.complete()
    }
}

impl Sink for Lines {
    fn begin(&mut self, _page_bytes: Option<usize>) -> pando::Result<()> {
        let made = self.rows(Trust::Certain).map(drop);
        let part = self.results.part(Trust::Certain);
        made.map_err(|cause| pando::Error::io(format!("create {}", part.display()), cause))
    }

    fn table(&mut self, _table: &str, _options: &StoredOptions) -> pando::Result<()> {
        Ok(())
    }

    fn record(&mut self, trust: Trust, table: &str, key: &[u8], value: &[u8]) -> pando::Result<()> {
        self.progress.record();
        let cells = [Cell::Bytes(table.as_bytes()), Cell::Bytes(key), Cell::Bytes(value)];
        let written = self.rows(trust).and_then(|rows| rows.row(&cells));
        written.map_err(|cause| pando::Error::io("write the records", cause))
    }
}
