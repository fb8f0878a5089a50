//! A page with changed bytes and a checksum that is right: refused, or every accessor works on it.
#![no_main]

use arbitrary::Arbitrary;
use base::{CheckpointNo, DatabaseId, PagePtr, checksum};
use libfuzzer_sys::fuzz_target;
use page::{EditCounters, Kind, Large, LargeRef, Page, PageMut, Value};
use pando_fuzz::{Edit, look_at_all};
use std::sync::OnceLock;

const DATABASE: DatabaseId = DatabaseId(3);
const UNIT: u64 = 12;
const PAGE_BYTES: usize = 4096;

#[derive(Arbitrary, Debug)]
struct Input {
    inner: bool,
    edits: Vec<Edit>,
}

/// A leaf with values of every kind and gaps, and an inner page.
fn sound() -> &'static [Vec<u8>; 2] {
    static SOUND: OnceLock<[Vec<u8>; 2]> = OnceLock::new();
    SOUND.get_or_init(|| {
        let (mut leaf, mut inner) = (vec![0; PAGE_BYTES], vec![0; PAGE_BYTES]);
        let mut counters = EditCounters::default();
        let mut page = PageMut::init(&mut leaf, Kind::Leaf, 0, CheckpointNo(1));
        for i in 0..60u8 {
            let large = LargeRef { ptr: PagePtr::new(5, 2, 9), len_bytes: 5000, head: [7; 8] };
            let inline = vec![i; usize::from(i) % 40];
            let beginning = &[7; 40][..usize::from(i % 2) * 40];
            let encoded = [&large.encode()[..], beginning].concat();
            let value = if i % 7 == 0 { Value::Large(Large::of(&encoded)) } else { Value::Inline(&inline) };
            page.insert(i.into(), &[b"key/", &[i][..]].concat(), value, &mut counters).expect("it fits");
        }
        (0..15).for_each(|i| page.remove(i * 2, &mut counters));
        let mut page = PageMut::init(&mut inner, Kind::Inner, 1, CheckpointNo(1));
        page.insert_child(0, b"", PagePtr::new(1, 1, 1), &mut counters).expect("it fits");
        for i in 1..50u8 {
            let child = PagePtr::new(i.into(), 1, i.into());
            page.insert_child(i.into(), &[b"prefix", &[i][..]].concat(), child, &mut counters)
                .expect("it fits");
        }
        [leaf, inner]
    })
}

fuzz_target!(|input: Input| {
    let mut bytes = sound()[usize::from(input.inner)].clone();
    for edit in input.edits.iter().take(8) {
        edit.apply(&mut bytes);
    }
    bytes.resize(PAGE_BYTES, 0);
    let sum = checksum::extent(DATABASE, UNIT, &bytes[8..]);
    bytes[..8].copy_from_slice(&sum.to_le_bytes());
    let Ok(page) = Page::verify(&bytes, PagePtr::new(UNIT, 1, sum), DATABASE) else { return };
    look_at_all(&page);
});
