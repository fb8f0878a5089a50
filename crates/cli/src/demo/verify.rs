//! Compares what one snapshot shows with the files.

use super::source::{FILES, INDEX, Source, index_row};
use crate::failure::{Failure, Outcome};
use crate::{text, tree};
use pando::{Database, ErrorKind, Span, Table};
use std::collections::HashMap;
use std::path::Path;

/// What sweeps compared.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub snapshots: u64,
    pub files: u64,
    /// Of contents.
    pub bytes: u64,
    /// Batches that the first snapshot with any showed.
    pub batches_at_first: u64,
}

/// Where each file lies and which batch it belongs to.
type Places<'a> = HashMap<&'a [u8], (&'a Path, usize)>;

/// Reads everything that a new snapshot shows. Both tables must show the same paths, each content must be the
/// file's, and of each batch all files or none must be there; all batches, if `is_complete`.
pub fn sweep(db: &Database, source: &Source, is_complete: bool, tally: &mut Tally) -> Outcome {
    let batches: Vec<_> = source.batches().collect();
    let places = places(&batches);
    let snapshot = db.snapshot()?;
    let table = |name: &str| -> Outcome<Table> {
        let missing = || pando::Error::new(ErrorKind::Missing, format!("there is no table {name:?}"));
        Ok(snapshot.table(name)?.ok_or_else(missing)?)
    };
    let mut contents = snapshot.cursor(&table(FILES)?, Span::all())?;
    let mut rows = snapshot.cursor(&table(INDEX)?, Span::all())?;
    let mut seen = vec![0; batches.len()];
    while let Some((key, content)) = contents.next()? {
        let untrue = |what: &str| Failure::Failed(format!("{}: {what}", text::show(key)));
        let (path, batch) = places.get(key).ok_or_else(|| untrue("no such file was imported"))?;
        let row = rows.next()?.ok_or_else(|| untrue("in the table, not in the index"))?;
        if row != (key, &index_row(*batch, content.len())) {
            return Err(untrue("table and index differ"));
        }
        if tree::read(path)? != content {
            return Err(untrue("content and file differ"));
        }
        seen[*batch] += 1;
        tally.files += 1;
        tally.bytes += content.len() as u64;
    }
    if let Some((key, _)) = rows.next()? {
        return Err(Failure::Failed(format!("{}: in the index, not in the table", text::show(key))));
    }
    let mut whole = 0;
    for (number, (seen, batch)) in seen.iter().zip(&batches).enumerate() {
        if *seen == batch.len() {
            whole += 1;
        } else if *seen > 0 || is_complete {
            let message = format!("commit {number} has {} files, {seen} of them are there", batch.len());
            return Err(Failure::Failed(message));
        }
    }
    if tally.batches_at_first == 0 {
        tally.batches_at_first = whole;
    }
    tally.snapshots += 1;
    Ok(())
}

fn places<'a>(batches: &[&'a [tree::Entry]]) -> Places<'a> {
    let files =
        batches.iter().enumerate().flat_map(|(batch, files)| files.iter().map(move |file| (file, batch)));
    files.map(|(file, batch)| (&file.key[..], (file.path.as_path(), batch))).collect()
}
