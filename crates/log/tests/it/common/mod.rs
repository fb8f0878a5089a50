//! What the tests of the log share.

use base::{DatabaseId, ErrorKind, Lsn, Result};
use io::{Dir, MemDir};
use pando_log::{Log, Options, Position, Tail};
use std::collections::BTreeMap;
use std::sync::Arc;

pub const DATABASE: DatabaseId = DatabaseId(0x9a0d);
pub const SMALL: Options =
    Options { first_segment_bytes: 4096, max_segment_bytes: 8192, flush_worth_bytes: u64::MAX };
pub const START: Position = Position { segment: 1, generation: 1, lsn: Lsn(0) };

pub type Files = BTreeMap<String, Vec<u8>>;

/// All files of a directory.
pub fn files_of(dir: &dyn Dir) -> Files {
    let read = |name: String| {
        let file = dir.open(&name).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        (name, bytes)
    };
    dir.list().unwrap().into_iter().map(read).collect()
}

/// A directory in memory with these files.
pub fn dir_of(files: &Files) -> Arc<dyn Dir> {
    let dir = MemDir::new();
    for (name, bytes) in files {
        dir.create(name).unwrap().write_at(bytes, 0).unwrap();
    }
    Arc::new(dir)
}

/// A directory in memory.
pub fn memory() -> Arc<dyn Dir> {
    Arc::new(MemDir::new())
}

/// The payloads from `from` on, and the tail.
pub fn scan(dir: &Arc<dyn Dir>, from: Position) -> Result<(Vec<Vec<u8>>, Tail)> {
    let mut payloads = Vec::new();
    let tail = Log::scan(dir, DATABASE, from, &mut |block| {
        payloads.push(block.payload.to_vec());
        Ok(())
    })?;
    Ok((payloads, tail))
}

/// The `n`-th payload of a test: its number, then bytes that follow from it.
pub fn payload(n: u64, bytes: usize) -> Vec<u8> {
    let mut out = n.to_le_bytes().to_vec();
    out.extend((0..bytes as u64).map(|i| (i.wrapping_mul(n + 7) >> 3) as u8));
    out
}

/// What a scan may refuse with.
pub fn is_refusal(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Corruption | ErrorKind::Foreign)
}
