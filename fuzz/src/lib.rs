//! What the targets share: edits that libFuzzer thinks of, sound files to make them in, and checksums put right again
//! behind them, so that they come further than the first comparison.

pub mod sql;

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

/// Computes the checksums of a log segment anew, and the links that chain its blocks, up to the first bytes that are no
/// block. `docs/format.md` has the layout.
pub fn reseal_segment(segment: &mut [u8], database: DatabaseId) {
    const HEADER_BYTES: usize = 96;
    const BLOCK_HEADER_BYTES: usize = 32;
    let Some(header) = segment.get_mut(..HEADER_BYTES) else { return };
    let mut link = checksum::header(&header[..88]);
    put_word(header, 11, link);
    let (generation, first_lsn) = (word(header, 3), word(header, 5));
    let mut at = HEADER_BYTES;
    while let Some(header) = segment.get(at..at + BLOCK_HEADER_BYTES) {
        let length = word(header, 3) as u32;
        let (kind, payload_bytes) = (length >> 28, (length & 0x0fff_ffff) as usize);
        let Some(block) = segment.get_mut(at..at + BLOCK_HEADER_BYTES + payload_bytes) else { return };
        if kind == 0 {
            return;
        }
        let (header, payload) = block.split_at_mut(BLOCK_HEADER_BYTES);
        let lsn = base::Lsn(first_lsn.wrapping_add((at - HEADER_BYTES) as u64));
        let sum = |bytes: &[u8]| checksum::log_block(database, generation, lsn, bytes);
        put_word(header, 1, link);
        put_word(header, 0, sum(payload));
        link = sum(header);
        put_word(header, 0, link);
        at = (at + BLOCK_HEADER_BYTES + payload_bytes).next_multiple_of(8);
    }
}

/// Computes the checksums of a backup's header and records anew, and the hash in its end record, up to the first bytes
/// that are no record. `docs/format.md` has the layout.
pub fn reseal_backup(stream: &mut [u8]) {
    const HEADER_BYTES: usize = 104;
    const RECORD_BYTES: usize = 24;
    const END: u32 = 5;
    let Some(header) = stream.get_mut(..HEADER_BYTES) else { return };
    let sum = checksum::header(&header[..96]);
    put_word(header, 12, sum);
    let backup = word(header, 2);
    let mut at = HEADER_BYTES;
    while let Some(head) = stream.get(at..at + RECORD_BYTES) {
        let length = word(head, 1);
        let (payload_bytes, kind, sequence) = (length as u32 as usize, (length >> 32) as u32, word(head, 2));
        let mut before = checksum::Running::unseeded();
        before.update(&stream[..at]);
        let Some(record) = stream.get_mut(at..at + RECORD_BYTES + payload_bytes) else { return };
        if kind == END && payload_bytes == 40 {
            put_word(record, 7, before.finish());
        }
        let mut sum = checksum::Running::backup_record(backup, sequence);
        sum.update(&record[8..]);
        put_word(record, 0, sum.finish());
        at += RECORD_BYTES + payload_bytes;
    }
}

/// The little-endian word number `index`.
fn word(bytes: &[u8], index: usize) -> u64 {
    u64::from_le_bytes(bytes[index * 8..][..8].try_into().expect("eight bytes"))
}

fn put_word(bytes: &mut [u8], index: usize, value: u64) {
    bytes[index * 8..][..8].copy_from_slice(&value.to_le_bytes());
}

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
