//! What the targets share: edits that libFuzzer thinks of, sound files to make them in, and checksums put right again
//! behind them, so that they come further than the first comparison.

use arbitrary::Arbitrary;
use base::{DatabaseId, ErrorKind, checksum};
use io::{Dir, MemDir};
use page::{Kind, Page};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;

/// Every accessor of a page that was found sound: what they say fits together.
pub fn look_at_all(page: &Page<'_>) {
    let mut key = Vec::new();
    black_box((page.level(), page.birth(), page.prefix(), page.has_large()));
    assert_eq!(page.used_bytes() + page.free_bytes(), page.bytes().len());
    for at in 0..page.count() {
        page.copy_key(at, &mut key);
        match page.kind() {
            Kind::Leaf => {
                black_box(page.value(at));
                assert_eq!(page.search(&key), Ok(at));
            }
            Kind::Inner => {
                black_box(page.child(at));
                assert_eq!(page.child_for(&key), at);
            }
        }
    }
}

/// Files by name.
pub type Files = BTreeMap<String, Vec<u8>>;

/// A change to some bytes.
#[derive(Arbitrary, Clone, Debug)]
pub enum Edit {
    /// Other bytes from a place on, which wraps around.
    Overwrite { at: u32, bytes: Vec<u8> },
    /// One bit.
    Flip { at: u32, bit: u8 },
    /// Bytes from one place to another.
    Copy { from: u32, to: u32, len: u8 },
    /// The end, as a part of the length in 65,536ths.
    Truncate { at: u16 },
}

impl Edit {
    /// Makes the change. Answers from where on bytes may differ.
    pub fn apply(&self, file: &mut Vec<u8>) -> Option<usize> {
        let len = file.len();
        let place = |at: u32| (len > 0).then(|| at as usize % len);
        match self {
            Edit::Overwrite { at, bytes } => {
                let at = place(*at)?;
                let count = bytes.len().min(len - at);
                file[at..at + count].copy_from_slice(&bytes[..count]);
                Some(at)
            }
            Edit::Flip { at, bit } => {
                let at = place(*at)?;
                file[at] ^= 1 << (bit % 8);
                Some(at)
            }
            Edit::Copy { from, to, len: count } => {
                let (from, to) = (place(*from)?, place(*to)?);
                let count = usize::from(*count).min(len - from).min(len - to);
                file.copy_within(from..from + count, to);
                Some(to)
            }
            Edit::Truncate { at } => {
                let at = len * usize::from(*at) / 65_536;
                file.truncate(at);
                Some(at)
            }
        }
    }
}

/// A directory with these files.
pub fn dir_of(files: &Files) -> Arc<dyn Dir> {
    let dir = MemDir::new();
    for (name, bytes) in files {
        let file = dir.create(name).expect("memory takes any file");
        file.write_at(bytes, 0).expect("memory takes any bytes");
    }
    Arc::new(dir)
}

/// All files of a directory.
pub fn files_of(dir: &dyn Dir) -> Files {
    let names = dir.list().expect("memory can be listed");
    let read = |name: String| {
        let file = dir.open(&name).expect("it was listed");
        let mut bytes = vec![0; file.len().expect("memory has a length") as usize];
        file.read_exact_at(&mut bytes, 0).expect("as long as it is");
        (name, bytes)
    };
    names.into_iter().map(read).collect()
}

/// Whether this is how bad bytes are refused. Anything else is a finding.
pub fn is_refusal(kind: ErrorKind) -> bool {
    use ErrorKind::*;
    // Full: what a forged length asks for. Invalid and Mismatch: what a forged option comes to.
    matches!(kind, Corruption | Foreign | Mismatch | Missing | Full | Invalid | Io)
}

const UNIT_BYTES: usize = 4096;

/// Puts the checksum of the page in `unit` right, in the pointers to it too, and those of the pages that hold these, up
/// to the superblocks. For data files with pages of one unit.
pub fn repair(data: &mut [u8], database: DatabaseId, unit: usize) {
    let mut dirty = vec![unit];
    // A pointer that a forger made may lead around in a circle.
    for _ in 0..64 {
        let Some(unit) = dirty.pop() else { return };
        let units = data.len() / UNIT_BYTES;
        if unit >= units {
            continue;
        }
        let bytes = &mut data[unit * UNIT_BYTES..][..UNIT_BYTES];
        if unit < 2 {
            let body_bytes = store::superblock::Superblock::BYTES - 8;
            let sum = checksum::header(&bytes[..body_bytes]);
            bytes[body_bytes..body_bytes + 8].copy_from_slice(&sum.to_le_bytes());
            continue;
        }
        let stored: [u8; 8] = bytes[..8].try_into().expect("eight bytes");
        let right = checksum::extent(database, unit as u64, &bytes[8..]).to_le_bytes();
        if stored == right {
            continue;
        }
        bytes[..8].copy_from_slice(&right);
        for other in (0..units).filter(|&other| other != unit) {
            let bytes = &mut data[other * UNIT_BYTES..][..UNIT_BYTES];
            let found: Vec<usize> = (0..UNIT_BYTES - 7).filter(|&at| bytes[at..at + 8] == stored).collect();
            for at in &found {
                bytes[*at..at + 8].copy_from_slice(&right);
            }
            if !found.is_empty() {
                dirty.push(other);
            }
        }
    }
}
