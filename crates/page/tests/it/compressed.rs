//! The compressed form: every page comes back, and no forged one does harm.

use base::env::Random;
use base::{CheckpointNo, DatabaseId, ErrorKind, PagePtr};
use pando_page::compressed::seal;
use pando_page::{Compressed, Compressor, EditCounters, Kind, Page, PageMut, Value};

const DATABASE: DatabaseId = DatabaseId(3);
const UNIT: u64 = 12;
const UNIT_BYTES: usize = 4096;

const WORDS: [&str; 12] =
    ["page", "tree", "leaf", "merge", "commit", "log", "record", "the", "of", "reader", "is", "written"];

fn text(random: &mut Random, len: usize) -> Vec<u8> {
    let mut text = Vec::new();
    while text.len() < len {
        text.extend_from_slice(WORDS[random.below(WORDS.len() as u64) as usize].as_bytes());
        text.push(b' ');
    }
    text
}

fn noise(random: &mut Random, len: usize) -> Vec<u8> {
    (0..len).map(|_| random.next_u64() as u8).collect()
}

/// A leaf, about as full as said, of words or of noise.
fn leaf(random: &mut Random, page_bytes: usize, fill: usize, words: bool) -> Vec<u8> {
    let mut bytes = noise(random, page_bytes);
    let mut page = PageMut::init(&mut bytes, Kind::Leaf, 0, CheckpointNo(5));
    let counters = &mut EditCounters::default();
    for number in 0..u32::MAX {
        let len = 1 + random.below(200) as usize;
        let value = if words { text(random, len) } else { noise(random, len) };
        if page.as_page().used_bytes() >= fill
            || page.insert(number as usize, &number.to_be_bytes(), Value::Inline(&value), counters).is_err()
        {
            break;
        }
    }
    bytes
}

fn compressed(bytes: &mut [u8]) -> (Vec<u8>, Compressed) {
    let mut stored = vec![7; 100];
    let compressed = Compressor::default().compress(&mut PageMut::edit(bytes), &mut stored);
    (stored.split_off(100), compressed)
}

fn decompress(stored: &mut [u8], page_bytes: usize) -> base::Result<Vec<u8>> {
    let units = (stored.len() / UNIT_BYTES) as u64;
    let ptr = PagePtr::new(UNIT, units, seal(stored, DATABASE, UNIT));
    let mut whole = vec![0xaa; page_bytes];
    Page::decompress(stored, ptr, DATABASE, &mut whole).map(drop)?;
    Ok(whole)
}

#[test]
fn a_page_whose_slots_moved_comes_back() {
    let mut bytes = vec![0; 8192];
    let mut page = PageMut::init(&mut bytes, Kind::Leaf, 0, CheckpointNo(5));
    let keys = (0..200u16).rev().map(u16::to_be_bytes);
    keys.clone()
        .for_each(|key| page.insert(0, &key, Value::Inline(b"value"), &mut EditCounters::default()).unwrap());
    let (mut stored, compressed) = compressed(&mut bytes);
    assert_eq!(compressed.units, 1);
    let whole = decompress(&mut stored, 8192).unwrap();
    let page = Page::trusted(&whole);
    let found: Vec<_> = (0..page.count()).map(|i| [page.prefix(), page.suffix(i)].concat()).collect();
    assert!(found.iter().eq(keys.rev().map(Vec::from).collect::<Vec<_>>().iter()), "{found:?}");
}

#[test]
fn every_page_comes_back() {
    let mut random = Random::seeded(1);
    for page_bytes in [8192, 16384, 32768, 65536] {
        for _ in 0..60 {
            let fill = random.below(page_bytes as u64) as usize;
            let mut bytes = leaf(&mut random, page_bytes, fill, true);
            let (mut stored, compressed) = compressed(&mut bytes);
            assert_eq!(stored.len(), compressed.units as usize * UNIT_BYTES);
            assert_eq!(compressed.units as usize, compressed.compressed_bytes.div_ceil(UNIT_BYTES));
            if stored.len() == page_bytes {
                assert!(page_bytes == 8192 && fill > 7000, "words compress");
                continue;
            }
            let whole = decompress(&mut stored, page_bytes).unwrap();
            assert_eq!(whole[8..], bytes[8..], "but for the checksum all is as it was");
            assert_eq!(whole[..8], stored[..8], "which is that of the stored bytes");
        }
    }
}

#[test]
fn what_does_not_get_shorter_stays_as_it_is() {
    let mut random = Random::seeded(2);
    for page_bytes in [4096, 8192, 16384] {
        let mut bytes = leaf(&mut random, page_bytes, page_bytes, page_bytes == 4096);
        let (mut stored, compressed) = compressed(&mut bytes);
        assert_eq!(compressed.units as usize, page_bytes / UNIT_BYTES);
        assert_eq!(stored, bytes);
        let ptr = PagePtr::new(UNIT, compressed.units, seal(&mut stored, DATABASE, UNIT));
        Page::verify(&stored, ptr, DATABASE).unwrap();
        assert_eq!(decompress(&mut stored, page_bytes).unwrap_err().kind(), ErrorKind::Corruption);
    }
}

/// Each bit of each byte that means something is flipped, and the checksum is made good again: what is not refused is
/// a page that can be read.
#[test]
fn forged_bytes_are_refused_or_are_a_page() {
    let mut random = Random::seeded(3);
    let (mut refused, mut accepted) = (0, 0);
    for fill in [300, 5000, 8000] {
        let mut bytes = leaf(&mut random, 8192, fill, true);
        let (mut stored, compressed) = compressed(&mut bytes);
        for at in 8..(compressed.compressed_bytes + 40).min(stored.len()) {
            let byte = stored[at];
            stored[at] ^= 1 << random.below(8);
            match decompress(&mut stored, 8192) {
                Ok(whole) => {
                    accepted += 1;
                    read_all(&whole);
                }
                Err(error) => {
                    refused += 1;
                    assert_eq!(error.kind(), ErrorKind::Corruption, "byte {at}");
                    assert!(error.message().contains("unit 12"), "{error}");
                }
            }
            stored[at] = byte;
        }
    }
    assert!(refused > 1000 && accepted > 1000, "{refused} refused, {accepted} accepted");
}

/// Blocks of chance, and pieces of true ones in another order.
#[test]
fn blocks_of_chance_do_no_harm() {
    let mut random = Random::seeded(4);
    let mut bytes = leaf(&mut random, 16384, 16000, true);
    let (good, compressed) = compressed(&mut bytes);
    for _ in 0..3000 {
        let mut stored = good.clone();
        for _ in 0..1 + random.below(4) {
            let len = 1 + random.below(300) as usize;
            let to = 64 + random.below((compressed.compressed_bytes - 64 - len) as u64) as usize;
            let from = 64 + random.below((compressed.compressed_bytes - 64 - len) as u64) as usize;
            match random.below(3) {
                0 => stored[to..to + len].fill(0xff),
                1 => stored.copy_within(from..from + len, to),
                _ => stored[to..to + len].copy_from_slice(&noise(&mut random, len)),
            }
        }
        if let Ok(whole) = decompress(&mut stored, 16384) {
            read_all(&whole);
        }
    }
}

#[test]
fn lengths_that_do_not_fit_are_refused() {
    let mut random = Random::seeded(5);
    let mut bytes = leaf(&mut random, 16384, 9000, true);
    let (stored, compressed) = compressed(&mut bytes);
    let with_length = |length: u16| {
        let mut forged = stored.clone();
        forged[42..44].copy_from_slice(&length.to_le_bytes());
        forged
    };
    let length = (compressed.compressed_bytes - 64) as u16;
    for wrong in [0, 1, length - 1, length + 1, length + 4096, u16::MAX] {
        let error = decompress(&mut with_length(wrong), 16384).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{wrong}: {error}");
    }
    // A unit more than it needs, and the page of another size.
    let mut longer = stored.clone();
    longer.resize(longer.len() + UNIT_BYTES, 0);
    assert!(decompress(&mut longer, 16384).unwrap_err().message().contains("length of the block"));
    for page_bytes in [8192, 32768] {
        assert_eq!(decompress(&mut stored.clone(), page_bytes).unwrap_err().kind(), ErrorKind::Corruption);
    }
    // Rotten bytes are found before they are interpreted, wherever they are.
    let mut sealed = stored.clone();
    let ptr = PagePtr::new(UNIT, compressed.units, seal(&mut sealed, DATABASE, UNIT));
    for at in (0..sealed.len()).step_by(97) {
        let mut rotten = sealed.clone();
        rotten[at] ^= 0x10;
        let error = Page::decompress(&rotten, ptr, DATABASE, &mut vec![0; 16384]).map(drop).unwrap_err();
        assert!(error.message().contains("checksum"), "byte {at}: {error}");
    }
}

fn read_all(whole: &[u8]) {
    let page = Page::trusted(whole);
    let mut key = Vec::new();
    for at in 0..page.count() {
        page.copy_key(at, &mut key);
        match page.kind() {
            Kind::Leaf => assert!(matches!(page.search(&key), Ok(found) if found == at)),
            Kind::Inner => assert_eq!(page.child_for(&key), at),
        }
    }
}
