//! Values in pieces: any piece of them, and references that lie.

use base::budget::Account;
use base::env::Random;
use base::limits::UNIT_BYTES;
use base::slots::Slots;
use base::{DatabaseId, ErrorKind, LargeRef, PagePtr, checksum};
use io::{Dir, File, MemDir};
use pando_run::large::{encode_index, write_extent};
use pando_run::{Pieces, read_large};
use pool::Pool;
use std::sync::Arc;

const DATABASE: DatabaseId = DatabaseId(7);

fn new_pool() -> Pool {
    let file: Arc<dyn File> = MemDir::new().create("data").unwrap();
    file.set_len(256 * UNIT_BYTES as u64).unwrap();
    Pool::new(file, DATABASE, 4096, Account::alone(1 << 20), 1 << 20, Arc::new(Slots::new()))
}

/// Writes `value` in pieces from `unit` on, with a unit left free behind each, and the index behind them.
fn write(pool: &Pool, mut unit: u64, value: &[u8], piece_bytes: usize) -> LargeRef {
    let mut pieces = Vec::new();
    for piece in value.chunks(piece_bytes) {
        let ptr = write_extent(pool, unit, piece).unwrap();
        unit += ptr.units() + 1;
        pieces.push(ptr);
    }
    write_index(pool, unit, &encode_index(value.len() as u64, piece_bytes, &pieces), value)
}

fn write_index(pool: &Pool, unit: u64, index: &[u8], value: &[u8]) -> LargeRef {
    let ptr = write_extent(pool, unit, index).unwrap().with_flags(PagePtr::IN_PIECES);
    LargeRef { ptr, len_bytes: value.len() as u64, head: LargeRef::head_of(value) }
}

#[test]
fn every_piece_of_a_value_is_found() {
    let pool = new_pool();
    let mut random = Random::seeded(5);
    for (len, piece_bytes) in
        [(4097usize, 4096usize), (8192, 4096), (50_000, 8192), (65_536, 65_536), (300_001, 65_536)]
    {
        let value: Vec<u8> = (0..len).map(|_| random.next_u64() as u8).collect();
        let large = write(&pool, 2, &value, piece_bytes);
        assert_eq!(read_large(&pool, large).unwrap(), value);
        let pieces = Pieces::open(&pool, large).unwrap();
        assert_eq!((pieces.len_bytes(), pieces.count()), (len as u64, len.div_ceil(piece_bytes)));
        assert_eq!(pieces.extents().count(), pieces.count() + 1);
        let mut buffer = Vec::new();
        for _ in 0..50 {
            let offset = random.below(len as u64);
            let (at, from) = pieces.place_of(offset);
            pieces.read(&pool, at, &mut buffer).unwrap();
            assert_eq!(buffer[from..], value[offset as usize..][..buffer.len() - from]);
        }
    }
}

/// `docs/format.md` shows these bytes.
#[test]
fn the_worked_example() {
    let pool = new_pool();
    let value = vec![b'v'; 600_000];
    let pieces: Vec<PagePtr> = [8, 72, 136]
        .into_iter()
        .zip(value.chunks(256 << 10))
        .map(|(unit, piece)| write_extent(&pool, unit, piece).unwrap())
        .collect();
    let index = encode_index(600_000, 256 << 10, &pieces);
    let large = write_index(&pool, 155, &index, &value);
    assert_eq!(read_large(&pool, large).unwrap(), value);
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
    let shown: Vec<String> = index[..64].chunks(16).map(hex).collect();
    assert_eq!(shown, EXAMPLE_INDEX);
    assert!(index.len() == 4096 && index[64..].iter().all(|&byte| byte == 0));
    assert_eq!(hex(&large.encode()), EXAMPLE_REFERENCE);
}

const EXAMPLE_INDEX: [&str; 4] = [
    "40 00 00 00 00 00 00 00 c0 27 09 00 00 00 00 00",
    "08 00 00 00 00 40 00 00 de 07 68 3b ea 37 69 e0",
    "48 00 00 00 00 40 00 00 fe ca 71 73 1a c5 47 e2",
    "88 00 00 00 00 13 00 00 0a ca a4 78 44 52 f8 3e",
];
const EXAMPLE_REFERENCE: &str = "9b 00 00 00 00 01 00 02 69 32 91 ac 90 dc 23 bb \
                                 c0 27 09 00 00 00 00 00 76 76 76 76 76 76 76 76";

#[test]
fn a_flipped_bit_anywhere_is_corruption() {
    let pool = new_pool();
    let value: Vec<u8> = (0..20_000u32).map(|n| n as u8).collect();
    let large = write(&pool, 2, &value, 8192);
    let mut random = Random::seeded(6);
    for _ in 0..300 {
        let pieces = Pieces::open(&pool, large).unwrap();
        let parts: Vec<PagePtr> = pieces.extents().collect();
        let part = random.below(parts.len() as u64) as usize;
        // The padding of a piece is not covered; that of the index is.
        let covered = if part == parts.len() - 1 { 20_000 % 8192 } else { parts[part].len_bytes() as u64 };
        let at = parts[part].offset_bytes() + random.below(covered);
        let mut byte = [0];
        pool.file().read_exact_at(&mut byte, at).unwrap();
        pool.file().write_at(&[byte[0] ^ 1 << random.below(8)], at).unwrap();
        assert_eq!(read_large(&pool, large).unwrap_err().kind(), ErrorKind::Corruption);
        let mut buffer = Vec::new();
        let found = Pieces::open(&pool, large).map(|pieces| {
            let read = |at| pieces.read(&pool, at, &mut buffer).is_err();
            (0..pieces.count()).map(read).collect::<Vec<_>>()
        });
        match found {
            Err(error) => assert!(part == 0 && error.kind() == ErrorKind::Corruption),
            Ok(failed) => assert!(failed.iter().enumerate().all(|(at, failed)| *failed == (at + 1 == part))),
        }
        pool.file().write_at(&byte, at).unwrap();
    }
}

/// Indexes whose checksums are right and whose content is not: a typed error or the value that the forger chose, and no
/// more work than the file is long.
#[test]
fn forged_indexes_and_references_are_refused() {
    let pool = new_pool();
    let value: Vec<u8> = (0..20_000u32).map(|n| n as u8).collect();
    let large = write(&pool, 2, &value, 4096);
    let good = pool.read_extent(large.ptr.with_flags(0), 4096).unwrap();
    let mut random = Random::seeded(7);
    let (mut refused, mut read) = (0, 0);
    for round in 0..4_000 {
        let (mut index, mut forged) = (good.clone(), large);
        if round % 4 != 0 {
            for _ in 0..=random.below(3) {
                let at = random.below(16 + 5 * 16 + 8) as usize;
                index[at] = if random.chance(1, 3) {
                    random.next_u64() as u8
                } else {
                    index[at] ^ 1 << random.below(8)
                };
            }
        }
        if round % 4 < 2 {
            let mut bytes = forged.encode();
            let at = random.below(LargeRef::BYTES as u64) as usize;
            bytes[at] = random.next_u64() as u8;
            forged = LargeRef::decode(&bytes);
        }
        let unit = forged.ptr.unit();
        if unit == large.ptr.unit() && forged.ptr.units() == 1 {
            pool.file().write_at(&index, large.ptr.offset_bytes()).unwrap();
            let checksum = checksum::extent(DATABASE, unit, &index);
            let ptr = PagePtr::new(unit, 1, checksum).with_flags(forged.ptr.flags());
            forged = LargeRef { ptr, ..forged };
        }
        match read_large(&pool, forged) {
            Err(error) => {
                assert!(matches!(error.kind(), ErrorKind::Corruption), "{error:?}");
                refused += 1;
            }
            Ok(found) => {
                assert_eq!(found.len() as u64, forged.len_bytes);
                read += 1;
            }
        }
    }
    assert!(refused > 2_000 && read > 0, "{refused} refused, {read} read");
}
