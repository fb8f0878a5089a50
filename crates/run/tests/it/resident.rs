//! Filters in memory, which say what their pages say.

use crate::common::Bed;
use base::budget::{Account, Charge, MemoryCategory};
use base::env::Random;
use base::slots::Reader;
use page::Value;
use pando_run::filter::may_hold;
use pando_run::resident::Loader;
use pando_run::{BitsPerKey, Delta, DeltaBuilder, Probe, Resident, Run};
use pool::Pool;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Reads a filter in small parts.
fn read(filter: Run, pool: &Pool, reader: &Reader) -> base::Result<Resident> {
    let mut loader = Loader::new(Charge::none(&Account::alone(1 << 20), MemoryCategory::Filters));
    while !loader.read_on(filter, pool, reader, 7)? {}
    Ok(loader.finish())
}

/// Puts the filter of `delta` into memory.
pub fn settle(delta: &Delta, pool: &Pool, reader: &Reader) {
    delta.residence.set(read(delta.filter, pool, reader).unwrap());
}

fn delta(bed: &Bed, keys: &BTreeSet<Vec<u8>>, bits: u8) -> Delta {
    let mut builder = DeltaBuilder::new(&bed.pool, &bed.space, bed.birth, 64 << 10, BitsPerKey(bits));
    for key in keys {
        builder.add(key, Value::Inline(b"")).unwrap();
    }
    builder.finish(Arc::default(), Run::EMPTY).unwrap()
}

/// Returns a key of one of several shapes: short ones, which heads of eight bytes do not tell from longer ones; ones
/// with a long common beginning; ones in groups, so that many stretches have one head; some at random.
fn key(random: &mut Random, shape: u64) -> Vec<u8> {
    let number = random.below(60_000);
    match shape {
        0 => number.to_be_bytes()[6 - (number % 3) as usize..].to_vec(),
        1 => format!("tenants/0001/users/{number:06}").into_bytes(),
        2 => format!("{:02}-a group of many/{number:06}", number % 7).into_bytes(),
        3 => vec![0; 1 + (number % 300) as usize],
        _ => random.next_u64().to_be_bytes().to_vec(),
    }
}

#[test]
fn it_says_what_the_pages_say() {
    for seed in 0..30 {
        println!("seed {seed}");
        let mut random = Random::seeded(seed);
        let bed = Bed::new(4096);
        let (shape, count) = (seed % 6, [0, 1, 40, 20_000][random.below(4) as usize]);
        // The last shape is a mixture.
        let some = |random: &mut Random| {
            let shape = if shape < 5 { shape } else { random.below(5) };
            key(random, shape)
        };
        let keys: BTreeSet<_> = (0..count).map(|_| some(&mut random)).collect();
        let delta = delta(&bed, &keys, 8 + (seed % 9) as u8);
        if delta.filter.root.is_none() {
            assert!(keys.is_empty());
            continue;
        }
        bed.read(|pool, reader| {
            settle(&delta, pool, reader);
            let others: Vec<_> = (0..5000).map(|_| some(&mut random)).collect();
            let edges = [vec![], vec![0], vec![255; 40], b"tenants".to_vec(), b"tenants0".to_vec()];
            for key in keys.iter().chain(&others).chain(&edges) {
                let probe = Probe::new(key);
                let by_pages = may_hold(&delta.filter, pool, &mut reader.enter(), probe).unwrap();
                assert!(by_pages || !keys.contains(key));
                let mut pages = Vec::new();
                let in_memory = delta.explain_filter(pool, reader, key, &mut pages).unwrap();
                assert_eq!(in_memory, by_pages, "{}", key.escape_ascii());
                assert!(pages.is_empty(), "no page is read");
            }
            delta.check_filter(pool, reader).unwrap();
        });
    }
}

/// `check` finds a filter in memory that lacks a key.
#[test]
fn a_filter_of_other_keys_is_found() {
    let bed = Bed::new(4096);
    let [one, two] = [0, 1].map(|first| {
        let keys = (first..5000u32).step_by(2).map(|n| n.to_be_bytes().to_vec()).collect();
        delta(&bed, &keys, 10)
    });
    bed.read(|pool, reader| {
        settle(&two, pool, reader);
        let wrong = Delta { residence: two.residence.clone(), ..one.clone() };
        assert!(one.check_filter(pool, reader).is_ok());
        assert!(
            wrong.check_filter(pool, reader).unwrap_err().to_string().contains("does not contain the key")
        );
    });
}

/// Pages that are not those of a filter give an error.
#[test]
fn records_are_no_filter() {
    let bed = Bed::new(4096);
    let delta = delta(&bed, &[b"key".to_vec()].into(), 10);
    bed.read(|pool, reader| {
        let error = read(delta.records, pool, reader).unwrap_err();
        assert_eq!(error.kind(), base::ErrorKind::Corruption);
    });
}

/// What is charged beforehand is for whole pages, and the rest of it is given back.
#[test]
fn it_is_charged_for_what_it_takes() {
    let bed = Bed::new(4096);
    let keys: BTreeSet<_> = (0..20_000u32).map(|n| n.to_be_bytes().to_vec()).collect();
    let delta = delta(&bed, &keys, 10);
    let account = Account::alone(4 << 20);
    let held = || account.held().bytes(MemoryCategory::Filters);
    bed.read(|pool, reader| {
        let mut loader = Loader::new(account.charge(MemoryCategory::Filters, 1 << 20).unwrap());
        while !loader.read_on(delta.filter, pool, reader, 10).unwrap() {}
        let resident = loader.finish();
        let bits_bytes = keys.len() * 10 / 8;
        assert!((bits_bytes..bits_bytes * 5 / 4).contains(&held()), "{} for {bits_bytes}", held());
        drop(resident);
    });
    assert_eq!(held(), 0);
}
