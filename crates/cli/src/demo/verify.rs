//! Compares one snapshot with the files.

use super::source::{FILES, INDEX, Source, index_row};
use crate::failure::{Failure, Outcome};
use crate::{text, tree};
use pando::{Database, ErrorKind, Span, Table};
use std::collections::HashMap;
use std::path::Path;

/// The counts of comparisons.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub snapshots: u64,
    pub files: u64,
    /// The number of bytes of contents.
    pub bytes: u64,
    /// The number of batches in the first snapshot that had any.
    pub batches_at_first: u64,
}

/// The path of each file, and the batch that it belongs to.
type Places<'a> = HashMap<&'a [u8], (&'a Path, usize)>;

/// Reads everything in a new snapshot. Both tables must have the same paths, each content must equal the file's, and
/// each batch must have all of its files or none. If `is_complete`, all batches must be there.
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
