//! What the tests of bad input and of trouble share: the files of a database as plain bytes, and the data that should
//! be found in them.
#![allow(dead_code)] // Each test binary uses a part.

use io::MemDir;
use pando::{Builder, Database, ErrorKind, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Every file of a directory.
pub type Files = BTreeMap<String, Vec<u8>>;

/// Every record of every table.
pub type Data = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

/// A directory with these files.
pub fn dir_of(files: &Files) -> Arc<MemDir> {
    Arc::new(MemDir::from(files.clone()))
}

/// Where the block begins that the log has in `after` and had not in `before`, one commit earlier: segment, offset.
/// The first segment with a difference, for the log's thread may have made the next ones ready meanwhile, of old files
/// with old blocks.
pub fn new_block(before: &Files, after: &Files) -> (String, usize) {
    let differs = |(name, bytes): (&String, &Vec<u8>)| {
        let old = before.get(name).map_or(&[][..], |old| old);
        let at = (0..bytes.len()).find(|&at| bytes[at] != old.get(at).copied().unwrap_or(0))?;
        Some((name.clone(), at))
    };
    after.iter().filter(|(name, _)| name.starts_with("log-")).find_map(differs).expect("the log grew")
}

/// Small pages, small segments, not much memory; checkpoints only when they are asked for.
pub fn small() -> Builder {
    Database::builder().memory_bytes(8 << 20).max_segment_bytes(16 << 10).checkpoint_bytes(256 << 10)
}

/// Reads everything, forwards, backwards and by key. All three must agree, or answer an error.
pub fn read_all(db: &Database) -> Result<Data> {
    let snapshot = db.snapshot()?;
    let mut data = Data::new();
    for table in snapshot.tables()? {
        let mut records = BTreeMap::new();
        for record in snapshot.range(&table, ..)? {
            let (key, value) = record?;
            let found = snapshot.get_with(&table, &key, |found| found == value)?;
            assert_eq!(found, Some(true), "the scan and the look-up of {key:?} disagree");
            records.insert(key, value);
        }
        let backwards = snapshot.range(&table, ..)?.rev().collect::<Result<Vec<_>>>()?;
        assert!(backwards.iter().rev().map(|(k, v)| (k, v)).eq(&records), "the two directions disagree");
        data.insert(table.name().to_owned(), records);
    }
    Ok(data)
}

/// Whether `kind` says that files are bad.
pub fn means_bad_files(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Corruption | ErrorKind::Foreign)
}
