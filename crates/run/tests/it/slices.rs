//! Merging by slices: a builder that goes on, and runs that are cut at the front, against `BTreeMap`.

use crate::common::{Bed, Model};
use crate::resident::settle;
use base::env::Random;
use page::Value;
use pando_run::{BitsPerKey, Delta, DeltaBuilder, Probe, Ranges, Residence, Run, WriteContext};
use std::sync::Arc;

fn empty() -> Delta {
    Delta {
        records: Run::EMPTY,
        ranges: Arc::new(Ranges::default()),
        ranges_run: Run::EMPTY,
        filter: Run::EMPTY,
        residence: Residence::default(),
    }
}

/// Every key of `model`, and hardly any other, passes the filter; the records are those of `model`.
fn verify(bed: &Bed, delta: &Delta, model: &Model, seed: u64) {
    bed.verify(&delta.records, model);
    bed.read(|pool, reader| {
        delta.check_filter(pool, reader).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let mut passed = 0;
        for n in 0..500u32 {
            let key = [b"absent", &n.to_be_bytes()[..]].concat();
            let mut guard = reader.enter();
            let probe = Probe::new(&key);
            passed += u32::from(pando_run::filter::may_hold(&delta.filter, pool, &mut guard, probe).unwrap());
        }
        assert!(passed < 40 || model.is_empty(), "seed {seed}: {passed} of 500 absent keys passed");
    });
    for run in [delta.ranges_run, delta.filter] {
        bed.read(|pool, _| run.check(pool, &mut |_| Ok(())).map(drop).unwrap());
    }
}

/// Some are too long for a page.
fn value(random: &mut Random) -> Vec<u8> {
    let len = if random.chance(1, 200) { 3000 } else { random.below(60) };
    vec![random.below(256) as u8; len as usize]
}

/// Keys that share prefixes, so that separators have something to shorten.
fn key(n: usize, random: &mut Random) -> Vec<u8> {
    match random.below(30) {
        0 => vec![random.below(256) as u8; random.below(900) as usize],
        _ => format!("key-{:07}-{}", n * 13, "x".repeat(random.below(9) as usize)).into_bytes(),
    }
}

#[test]
fn what_moves_slice_by_slice_is_all_there_in_between() {
    for seed in 0..8 {
        // Shown if it fails: not every check below knows it.
        println!("seed {seed}");
        let mut random = Random::seeded(seed);
        let compresses = seed % 2 == 1;
        let mut bed = Bed::new(if compresses { 16 << 10 } else { 4096 });
        let count = 200 + random.below(12_000) as usize;
        let mut left: Model = (0..count).map(|n| (key(n, &mut random), value(&mut random))).collect();
        let mut moved = Model::new();
        let slots = Arc::clone(&bed.slots);
        let reader = slots.claim().unwrap();
        bed.birth.0 += 1;
        let builder = DeltaBuilder::new(&bed.pool, &bed.space, bed.birth, 64 << 10, BitsPerKey(12));
        let mut builder = if compresses { builder.compressing_leaves() } else { builder };
        for (key, value) in &left {
            builder.add(key, Value::Inline(value)).unwrap();
        }
        let mut source = builder.finish(Arc::default(), Run::EMPTY).unwrap();
        // `verify` asks it as well, and its front is not cut off.
        bed.read(|pool, reader| settle(&source, pool, reader));
        let mut filled = empty();
        while !left.is_empty() {
            bed.birth.0 += 1;
            let slice = (1 + random.below(1 + left.len() as u64 / 2)) as usize;
            let context =
                WriteContext { pool: &bed.pool, reader: &reader, space: &bed.space, birth: bed.birth };
            let builder = DeltaBuilder::resume(&filled, context, 8192, BitsPerKey(10)).unwrap();
            // Now and then the table's option is another.
            let mut builder =
                if compresses && random.chance(4, 5) { builder.compressing_leaves() } else { builder };
            let mut cursor = pando_run::Cursor::new(source.records);
            cursor.seek_first(context.pool, context.reader).unwrap();
            let mut until = Vec::new();
            for _ in 0..slice {
                let (key, value) = cursor.entry().expect("as many as the model has");
                builder.add(key, value).unwrap();
                until = [key, &[0]].concat();
                cursor.next(context.pool, context.reader).unwrap();
            }
            drop(cursor);
            filled = builder.finish(Arc::default(), Run::EMPTY).unwrap();
            let records = source.records.cut(context, &until).unwrap();
            let filter = match records.root {
                Some(_) => pando_run::filter::cut(source.filter, context, &until).unwrap(),
                None => {
                    context.retire_run(source.filter, false).unwrap();
                    Run::EMPTY
                }
            };
            source = Delta { records, filter, ..source };
            let rest = left.split_off(&until);
            moved.append(&mut std::mem::replace(&mut left, rest));
            verify(&bed, &filled, &moved, seed);
            verify(&bed, &source, &left, seed);
            bed.checkpoint(&[filled.records, filled.filter, source.records, source.filter]);
        }
        assert_eq!(source.records, Run::EMPTY, "seed {seed}");
    }
}

#[test]
fn ranges_are_cut_where_keys_are() {
    let spans = [(&b"b"[..], Some(&b"d"[..])), (b"f", Some(b"h")), (b"m", None)];
    let ranges = Ranges::union(spans).unwrap();
    for key in [&b""[..], b"a", b"b", b"c", b"d", b"g", b"m", b"z"] {
        let (front, rest) = (Ranges::joined(ranges.before(Some(key))), Ranges::joined(ranges.from(key)));
        for probe in [&b"a"[..], b"b", b"c", b"cc", b"d", b"e", b"f", b"g", b"gg", b"h", b"m", b"n", b"zz"] {
            let covered = ranges.covering(probe).is_some();
            assert_eq!(front.covering(probe).is_some(), covered && probe < key, "{key:?}, {probe:?}");
            assert_eq!(rest.covering(probe).is_some(), covered && probe >= key, "{key:?}, {probe:?}");
        }
    }
    assert!(Ranges::joined([(&b""[..], None)]).covers_all() && !ranges.covers_all());
}
