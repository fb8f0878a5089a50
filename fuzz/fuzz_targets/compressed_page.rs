//! A compressed page with changed bytes and a checksum that is right: refused, or a whole page on which every accessor
//! works.
#![no_main]

use arbitrary::Arbitrary;
use base::{CheckpointNo, DatabaseId, PagePtr, checksum};
use libfuzzer_sys::fuzz_target;
use page::{Compressor, EditCounters, Kind, Page, PageMut, Value};
use pando_fuzz::{Edit, look_at_all};
use std::sync::OnceLock;

const DATABASE: DatabaseId = DatabaseId(3);
const UNIT: u64 = 12;
const UNIT_BYTES: usize = 4096;
const PAGE_BYTES: usize = 4 * UNIT_BYTES;

#[derive(Arbitrary, Debug)]
struct Input {
    edits: Vec<Edit>,
    /// Units that the pointer says, beyond one.
    more_units: u8,
}

/// A leaf of words, as it is stored: half as long, or less.
fn sound() -> &'static [u8] {
    static SOUND: OnceLock<Vec<u8>> = OnceLock::new();
    SOUND.get_or_init(|| {
        let mut leaf = vec![0; PAGE_BYTES];
        let mut page = PageMut::init(&mut leaf, Kind::Leaf, 0, CheckpointNo(1));
        for i in 0..200u8 {
            let value = b"one word and another word ".repeat(usize::from(i % 4));
            let key = [b"key/", &[i][..]].concat();
            page.insert(i.into(), &key, Value::Inline(&value), &mut EditCounters::default())
                .expect("it fits");
        }
        let mut stored = Vec::new();
        let compressed = Compressor::default().compress(&mut page, &mut stored);
        assert!(compressed.units < 4, "it got shorter");
        stored
    })
}

fuzz_target!(|input: Input| {
    let mut stored = sound().to_vec();
    stored.resize(UNIT_BYTES * (1 + usize::from(input.more_units % 4)), 0);
    let len_bytes = stored.len();
    for edit in input.edits.iter().take(8) {
        edit.apply(&mut stored);
    }
    stored.resize(len_bytes, 0);
    let sum = checksum::extent(DATABASE, UNIT, &stored[8..]);
    stored[..8].copy_from_slice(&sum.to_le_bytes());
    let ptr = PagePtr::new(UNIT, (len_bytes / UNIT_BYTES) as u64, sum);
    let mut bytes = vec![0xaa; PAGE_BYTES];
    if let Ok(page) = Page::decompress(&stored, ptr, DATABASE, &mut bytes) {
        look_at_all(&page);
    }
});
