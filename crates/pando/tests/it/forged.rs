//! Superblocks with other numbers and right checksums, as only a forger makes them: a typed error, or what the forger
//! chose; never a panic, never a loop without an end.

use crate::support::{Files, dir_of, means_bad_files, read_all, small};
use pando::{ErrorKind, Result};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

const SLOT_BYTES: usize = 4096;
/// The checkpoint's number, which determines the slot.
const CHECKPOINT: Range<usize> = 24..32;

/// The number fields of a superblock, and the bytes that the checksum after them covers.
const FIELDS: [(&str, Range<usize>, Range<usize>); 24] = [
    ("page size", 12..16, 0..160),
    ("checkpoint", CHECKPOINT, 0..160),
    ("absorbed", 32..40, 0..160),
    ("segment", 40..48, 0..160),
    ("generation", 48..56, 0..160),
    ("LSN", 56..64, 0..160),
    ("log synced", 64..72, 0..160),
    ("next table", 72..76, 0..160),
    ("fork", 76..80, 0..160),
    ("map's place", 80..88, 0..160),
    ("map's units", 96..104, 0..160),
    ("root's place", 104..112, 0..160),
    ("height", 120..121, 0..160),
    ("flags", 121..122, 0..160),
    ("saved units", 122..128, 0..160),
    ("records", 128..136, 0..160),
    ("bytes", 136..144, 0..160),
    ("leaves", 144..152, 0..160),
    ("time", 152..160, 0..160),
    ("later time", 512..520, 512..528),
    ("wall clock", 520..528, 512..528),
    ("restored", 536..544, 536..544),
    ("durable end", 2072..2080, 2048..2080),
    ("end's fork", 2064..2068, 2048..2080),
];

/// Numbers at the ends of ranges, and where an addition overflows.
fn numbers() -> impl Iterator<Item = u64> {
    let powers = [8, 16, 31, 32, 40, 48, 55, 56, 61, 62, 63].map(|power| 1u64 << power);
    let near = powers.into_iter().flat_map(|power| [power - 2, power - 1, power]);
    [0, 1, 2, 15].into_iter().chain(near).chain([u64::MAX - 1, u64::MAX])
}

/// The files of a database with three checkpoints, and commits after the last one.
fn sample(is_closed: bool) -> Files {
    let dir = dir_of(&Files::new());
    let db = small().page_bytes(4096).create_in(dir.clone()).unwrap();
    let table = db.ensure_table("small").unwrap();
    for round in 0..4u8 {
        db.write(|tx| (0..100u8).try_for_each(|key| tx.put(&table, &[key], &[round; 50]))).unwrap();
        if round < 3 {
            db.checkpoint().unwrap();
        }
    }
    if is_closed {
        db.close().unwrap();
    }
    dir.files()
}

/// Puts `number` into `field` of both superblocks, so that none is left that was not forged, and seals them again.
fn forge(files: &Files, field: &Range<usize>, covered: &Range<usize>, number: u64) -> Files {
    let mut files = files.clone();
    let data = files.get_mut("data").unwrap();
    for slot in 0..2 {
        let bytes = &mut data[slot * SLOT_BYTES..][..SLOT_BYTES];
        bytes[field.clone()].copy_from_slice(&number.to_le_bytes()[..field.len()]);
        let sum = base::checksum::header(&bytes[covered.clone()]);
        bytes[covered.end..covered.end + 8].copy_from_slice(&sum.to_le_bytes());
    }
    if *field == CHECKPOINT && number.is_multiple_of(2) {
        // The newest superblock is that of checkpoint 3, and in the other slot.
        data.copy_within(SLOT_BYTES..2 * SLOT_BYTES, 0);
    }
    files
}

/// Opens, reads, writes, checkpoints, checks and opens again.
fn go_on(files: &Files) -> Result<()> {
    let dir = dir_of(files);
    let db = small().create_in(dir.clone())?;
    read_all(&db)?;
    let table = db.ensure_table("another")?;
    for round in 0..3u8 {
        db.write(|tx| (0..50u8).try_for_each(|key| tx.put(&table, &[key, round], &[key; 200])))?;
        db.checkpoint()?;
        db.check()?;
    }
    read_all(&db)?;
    db.close()?;
    let db = small().create_in(dir)?;
    read_all(&db)?;
    db.close()
}

/// Whether the files were found bad; or too little memory for another page size, or no table id left.
fn is_typed(error: &pando::Error) -> bool {
    let kind = error.kind();
    let is_expected = means_bad_files(kind) || matches!(kind, ErrorKind::Invalid | ErrorKind::Full);
    is_expected && !error.to_string().contains("panicked")
}

#[test]
fn forged_numbers_of_a_superblock() {
    let (mut refused, mut harmless, mut bad) = (0, 0, Vec::new());
    for (is_closed, files) in [true, false].map(|is_closed| (is_closed, sample(is_closed))) {
        go_on(&files).unwrap();
        for ((what, field, covered), number) in FIELDS.iter().flat_map(|of| numbers().map(move |n| (of, n))) {
            let case = format!("{what} = {number:#x}, {}", if is_closed { "closed" } else { "killed" });
            let begun = Instant::now();
            let files = forge(&files, field, covered, number);
            match catch_unwind(AssertUnwindSafe(|| go_on(&files))) {
                Ok(Ok(())) => harmless += 1,
                Ok(Err(error)) if is_typed(&error) => refused += 1,
                Ok(Err(error)) => bad.push(format!("{case}: {error:?}")),
                Err(_) => bad.push(format!("{case}: a panic")),
            }
            assert!(begun.elapsed().as_secs() < 20, "{case}");
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
    assert!(refused > 100 && harmless > 50, "{refused} refused, {harmless} harmless");
}
