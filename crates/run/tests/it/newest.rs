//! Many deltas that are asked for one key, together.

use crate::common::Bed;
use crate::resident::settle;
use base::env::Random;
use page::Value;
use pando_run::{BitsPerKey, Delta, DeltaBuilder, Probe, Ranges, Run, Said};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A delta of `records`, `None` being a delete, and of a range; with a filter, or without one.
fn delta(bed: &Bed, records: &BTreeMap<u32, Option<u32>>, covers: Option<[u32; 2]>, filtered: bool) -> Delta {
    let ends = covers.map(|range| range.map(u32::to_be_bytes));
    let ranges = Ranges::union(ends.iter().map(|[start, end]| (&start[..], Some(&end[..])))).unwrap();
    let mut builder = DeltaBuilder::new(&bed.pool, &bed.space, bed.birth, 64 << 10, BitsPerKey(10));
    for (key, value) in records {
        let value = value.map(u32::to_le_bytes);
        let value = value.as_ref().map_or(Value::Deleted, |bytes| Value::Inline(bytes));
        builder.add(&key.to_be_bytes(), value).unwrap();
    }
    let ranges_run = match ranges.is_empty() {
        true => Run::EMPTY,
        false => ranges.write(&bed.pool, &bed.space, bed.birth).unwrap(),
    };
    let delta = builder.finish(Arc::new(ranges), ranges_run).unwrap();
    if filtered { delta } else { Delta { filter: Run::EMPTY, ..delta } }
}

/// Returns what is said of `key`: nothing, that it is deleted, or its value. Both ways of asking say the same.
fn said(bed: &Bed, deltas: &[Delta], key: u32) -> Option<Option<u32>> {
    let said = said_by(bed, deltas, key, false);
    assert_eq!(said_by(bed, deltas, key, true), said);
    said
}

fn said_by(bed: &Bed, deltas: &[Delta], key: u32, is_stack: bool) -> Option<Option<u32>> {
    bed.read(|pool, reader| {
        let key = key.to_be_bytes();
        let mut guard = reader.enter();
        let probe = Probe::new(&key);
        let found = match is_stack {
            true => Delta::find_stacked(deltas, |delta| delta, pool, &mut guard, probe),
            false => Delta::find_newest(deltas, |delta| delta, pool, &mut guard, probe),
        };
        match found.unwrap()? {
            Said::Covered => Some(None),
            Said::Record(position) => match position.leaf(pool, &mut guard).unwrap().value() {
                Value::Inline(bytes) => Some(Some(u32::from_le_bytes(bytes.try_into().unwrap()))),
                Value::Deleted => Some(None),
                Value::Large(..) => panic!("none was added"),
            },
        }
    })
}

#[test]
fn the_newest_that_says_something_decides_whatever_is_in_memory() {
    const KEYS: u64 = 30_000;
    for seed in 0..6 {
        let mut random = Random::seeded(seed);
        // The second holds a tenth of the pages.
        let mut bed = Bed::with_pool(4096, if seed % 2 == 0 { 64 << 20 } else { 512 << 10 });
        let mut model: BTreeMap<u32, Option<u32>> = BTreeMap::new();
        let mut deltas = Vec::new();
        for _ in 0..1 + random.below(20) {
            let covers = random.chance(1, 3).then(|| {
                let start = random.below(KEYS) as u32;
                [start, start + random.below(KEYS / 10) as u32]
            });
            let count = if random.chance(1, 5) { 0 } else { random.below(8000) };
            let records: BTreeMap<u32, Option<u32>> = (0..count)
                .map(|n| (random.below(KEYS) as u32, (!random.chance(1, 10)).then_some(n as u32)))
                .collect();
            if let Some([start, end]) = covers {
                model.extend((start..end).map(|key| (key, None)));
            }
            model.extend(records.iter().map(|(key, value)| (*key, *value)));
            let delta = delta(&bed, &records, covers, !random.chance(1, 10));
            if delta.filter.root.is_some() && random.chance(2, 3) {
                bed.read(|pool, reader| settle(&delta, pool, reader));
            }
            deltas.insert(0, delta);
            bed.birth.0 += 1;
        }
        for _ in 0..2 {
            for _ in 0..5000 {
                let key = random.below(KEYS + 100) as u32;
                let expected = model.get(&key).copied();
                assert_eq!(said(&bed, &deltas, key), expected, "seed {seed}, key {key}");
            }
            bed.cool();
        }
    }
}

#[test]
fn for_a_key_of_the_newest_no_older_one_is_read() {
    let mut bed = Bed::new(4096);
    let mut deltas = Vec::new();
    for number in 0..6 {
        let records = (0..20_000).map(|key| (key, Some(number))).collect();
        deltas.insert(0, delta(&bed, &records, None, true));
        bed.birth.0 += 1;
    }
    bed.cool();
    let newest: BTreeSet<u32> = (0..20_000).step_by(50).collect();
    for key in newest {
        assert_eq!(said(&bed, &deltas, key), Some(Some(5)));
    }
    let of = |run: Run| run.leaves + 8;
    let most = of(deltas[0].records) + of(deltas[0].filter);
    let faults = bed.pool.stats().faults;
    assert!(faults <= most, "{faults} pages were read, and the newest has {most}");
}
