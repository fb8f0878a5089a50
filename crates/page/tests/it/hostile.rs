//! Forged pages: bytes are changed and the checksum is repaired. `verify` refuses, or every accessor and edit works.

use base::env::Random;
use base::{CheckpointNo, DatabaseId, ErrorKind, PagePtr, checksum};
use pando_page::{EditCounters, Kind, Large, LargeRef, Page, PageMut, Value};
use std::hint::black_box;

const DATABASE: DatabaseId = DatabaseId(3);
const PAGE_BYTES: usize = 4096;
const UNIT: u64 = 12;

fn leaf(random: &mut Random) -> Vec<u8> {
    let mut bytes = vec![0; PAGE_BYTES];
    let mut counters = EditCounters::default();
    let mut page = PageMut::init(&mut bytes, Kind::Leaf, 0, CheckpointNo(1));
    for i in 0..60u64 {
        let key = [b"key/".as_slice(), &(random.next_u64() >> 50).to_be_bytes()].concat();
        let large = LargeRef { ptr: PagePtr::new(5, 2, 9), len_bytes: 5000, head: *b"the head" };
        let inline = vec![i as u8; random.below(40) as usize];
        let beginning = &b"the head, and what follows it"[..if i % 2 == 0 { 0 } else { 29 }];
        let encoded = [&large.encode()[..], beginning].concat();
        let value = if i % 7 == 0 { Value::Large(Large::of(&encoded)) } else { Value::Inline(&inline) };
        if let Err(at) = page.as_page().search(&key) {
            page.insert(at, &key, value, &mut counters).unwrap();
        }
    }
    for _ in 0..15 {
        page.remove(random.below(page.as_page().count() as u64) as usize, &mut counters);
    }
    bytes
}

fn inner(random: &mut Random) -> Vec<u8> {
    let mut bytes = vec![0; PAGE_BYTES];
    let mut counters = EditCounters::default();
    let mut page = PageMut::init(&mut bytes, Kind::Inner, 1, CheckpointNo(1));
    page.insert_child(0, b"", PagePtr::new(1, 1, 1), &mut counters).unwrap();
    for i in 0..50u64 {
        let key = (random.next_u64() >> 20).to_be_bytes();
        if let Err(at) = page.as_page().search(&key) {
            page.insert_child(at, &key, PagePtr::new(i, 1, i), &mut counters).unwrap();
        }
    }
    for _ in 0..10 {
        page.remove(random.below(page.as_page().count() as u64) as usize, &mut counters);
    }
    bytes
}

fn repaired(bytes: &mut [u8]) -> PagePtr {
    let sum = checksum::extent(DATABASE, UNIT, &bytes[8..]);
    bytes[..8].copy_from_slice(&sum.to_le_bytes());
    PagePtr::new(UNIT, 1, sum)
}

/// Calls everything there is on a page that passed.
fn exercise(bytes: &[u8], random: &mut Random) {
    let page = Page::trusted(bytes);
    let mut buffer = Vec::new();
    black_box((page.kind(), page.level(), page.birth(), page.prefix(), page.has_large()));
    assert_eq!(page.used_bytes() + page.free_bytes(), PAGE_BYTES);
    black_box(format!("{page:?}"));
    for i in 0..page.count() {
        black_box(page.suffix(i));
        page.copy_key(i, &mut buffer);
        match page.kind() {
            Kind::Leaf => {
                black_box(page.value(i));
                assert_eq!(page.search(&buffer), Ok(i));
            }
            Kind::Inner => {
                black_box(page.child(i));
                assert_eq!(page.child_for(&buffer), i);
            }
        }
    }
    if page.kind() == Kind::Leaf {
        page.record_sum(&mut buffer);
    }
    edit_everything(bytes, random);
}

fn edit_everything(bytes: &[u8], random: &mut Random) {
    let (mut copy, mut right) = (bytes.to_vec(), vec![0; PAGE_BYTES]);
    let kind = Page::trusted(bytes).kind();
    let level = Page::trusted(bytes).level();
    let mut counters = EditCounters::default();
    let mut page = PageMut::edit(&mut copy);
    for _ in 0..30 {
        let key = vec![random.next_u64() as u8; random.below(300) as usize];
        let count = page.as_page().count() as u64;
        match (kind, page.as_page().search(&key)) {
            (Kind::Leaf, Err(at)) => {
                black_box(page.insert(at, &key, Value::Inline(&key), &mut counters)).ok()
            }
            (Kind::Leaf, Ok(at)) => black_box(page.replace(at, Value::Inline(&[]), &mut counters)).ok(),
            (Kind::Inner, Err(at)) => page.insert_child(at, &key, PagePtr::new(1, 1, 1), &mut counters).ok(),
            (Kind::Inner, Ok(at)) => {
                page.set_child(at, PagePtr::new(1, 1, 1));
                Some(())
            }
        };
        if kind == Kind::Leaf && count > 0 {
            let value = vec![1; random.below(900) as usize];
            black_box(page.replace(random.below(count) as usize, Value::Inline(&value), &mut counters)).ok();
        }
        if count > 2 {
            page.remove(random.below(count) as usize, &mut counters);
        }
    }
    let count = page.as_page().count();
    if count >= 2 {
        let mut separator = Vec::new();
        page.as_page().separator(count / 2, &mut separator);
        let mut sibling = PageMut::init(&mut right, kind, level, CheckpointNo(1));
        page.split(&mut sibling, count / 2, &mut counters);
        page.merge(sibling.as_page(), &separator, &mut counters).expect("halves fit together again");
    }
}

#[test]
fn forged_pages_are_refused_or_harmless() {
    let mut random = Random::seeded(21);
    let (mut passed, mut refused) = (0, 0);
    for round in 0..6000 {
        let mut bytes = if round % 2 == 0 { leaf(&mut random) } else { inner(&mut random) };
        for _ in 0..1 + random.below(3) {
            // Half of the changes strike the header and the first slots, where structure is densest.
            let bound = if random.chance(1, 2) { 96 } else { PAGE_BYTES as u64 };
            let at = 8 + random.below(bound - 8) as usize;
            match random.below(3) {
                0 => bytes[at] ^= 1 << random.below(8),
                1 => bytes[at] = random.next_u64() as u8,
                _ => bytes[at] = bytes[at].wrapping_add(4),
            }
        }
        let ptr = repaired(&mut bytes);
        match Page::verify(&bytes, ptr, DATABASE) {
            Ok(_) => {
                passed += 1;
                exercise(&bytes, &mut random);
            }
            Err(error) => {
                refused += 1;
                assert_eq!(error.kind(), ErrorKind::Corruption);
                let message = error.message();
                assert!(message.contains("unit 12") && message.contains("expected"), "{message}");
            }
        }
    }
    assert!(passed > 500 && refused > 500, "{passed} passed, {refused} refused");
}

#[test]
fn noise_is_refused() {
    let mut random = Random::seeded(22);
    for len in [0, 1, 8, 63, 64, 100, 4096, 8192, 5000] {
        let mut bytes: Vec<u8> = (0..len).map(|_| random.next_u64() as u8).collect();
        let ptr = if len > 8 { repaired(&mut bytes) } else { PagePtr::new(UNIT, 1, 0) };
        assert!(Page::verify(&bytes, ptr, DATABASE).is_err());
    }
}

#[test]
fn a_flipped_bit_and_a_wrong_place_are_found() {
    let mut bytes = leaf(&mut Random::seeded(23));
    let ptr = repaired(&mut bytes);
    Page::verify(&bytes, ptr, DATABASE).unwrap();
    let elsewhere = PagePtr::new(UNIT + 1, 1, ptr.checksum());
    assert!(Page::verify(&bytes, elsewhere, DATABASE).is_err());
    assert!(Page::verify(&bytes, ptr, DatabaseId(4)).is_err());
    for at in (0..PAGE_BYTES).step_by(97) {
        bytes[at] ^= 0x10;
        assert!(Page::verify(&bytes, ptr, DATABASE).is_err(), "byte {at}");
        bytes[at] ^= 0x10;
    }
}
