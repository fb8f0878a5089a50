//! How fast runs are: `cargo run --release -p pando-db-run --example run_speed [million | ten-thousand | reads]`.
//!
//! Everything is in memory, one thread, seeded. Times are the best of three.

use base::budget::Account;
use base::env::Random;
use base::slots::{Reader, Slots};
use base::{CheckpointNo, DatabaseId, Result};
use io::{Dir, MemDir};
use page::Value;
use pando_run::{Cursor, Editor, Run};
use pool::Pool;
use space::Space;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::{Arc, Mutex};
use std::time::Instant;

const ROUNDS: usize = 3;
const RESERVED_UNITS: u64 = 2;

struct Bed {
    slots: Arc<Slots>,
    pool: Pool,
    space: Mutex<Space>,
}

impl Bed {
    fn new(page_bytes: usize) -> Result<Bed> {
        let file = MemDir::new().create("data")?;
        let (slots, database) = (Arc::new(Slots::new()), DatabaseId(1));
        let budget = Account::alone(1 << 30);
        let pool = Pool::new(file.clone(), database, page_bytes, budget, 1 << 30, slots.clone());
        Ok(Bed { slots, pool, space: Mutex::new(Space::create(file, database, RESERVED_UNITS)) })
    }

    fn build(&mut self, mut records: impl FnMut(&mut Editor<'_>) -> Result<()>) -> Result<(Run, f64, f64)> {
        let reader = self.slots.claim().expect("a free slot");
        let start = Instant::now();
        let mut editor =
            Editor::open(Run::EMPTY, &self.pool, &reader, &self.space, CheckpointNo(1), usize::MAX);
        records(&mut editor)?;
        let edited = start.elapsed().as_secs_f64();
        let counters = editor.counters();
        let (run, _) = editor.finish()?;
        let finished = start.elapsed().as_secs_f64();
        assert_eq!((counters.allocator_failures, counters.compactions), (0, 0));
        Ok((run, edited, finished))
    }
}

/// The least of `ROUNDS` results, by each field.
fn best<const N: usize>(mut round: impl FnMut() -> Result<[f64; N]>) -> Result<[f64; N]> {
    let mut best = [f64::INFINITY; N];
    for _ in 0..ROUNDS {
        for (best, now) in best.iter_mut().zip(round()?) {
            *best = best.min(now);
        }
    }
    Ok(best)
}

fn random_small_keys() -> Result<()> {
    let mut random = Random::seeded(1);
    let keys: Vec<u32> = (0..1_000_000).map(|_| random.next_u64() as u32).collect();
    let [tree] = best(|| {
        let start = Instant::now();
        let mut tree = BTreeMap::new();
        for &key in &keys {
            tree.insert(key, ());
        }
        black_box(&tree);
        Ok([start.elapsed().as_secs_f64()])
    })?;
    println!("1M random 4-byte keys: BTreeMap<u32, ()> {tree:.3} s");
    for page_bytes in [4096, 8192, 16384] {
        let [edited, finished] = best(|| {
            let (_, edited, finished) = Bed::new(page_bytes)?.build(|editor| {
                keys.iter().try_for_each(|key| editor.insert(&key.to_be_bytes(), b"").map(drop))
            })?;
            Ok([edited, finished])
        })?;
        println!("  editor, {page_bytes}-byte pages: {edited:.3} s, with finish {finished:.3} s");
    }
    Ok(())
}

fn ten_thousand() -> Result<()> {
    let mut keys: Vec<u64> = (0..10_000).collect();
    for order in ["ascending", "shuffled"] {
        let [tree] = best(|| {
            let start = Instant::now();
            let mut tree = BTreeMap::new();
            for &key in &keys {
                tree.insert(key, ());
            }
            black_box(&tree);
            Ok([start.elapsed().as_secs_f64()])
        })?;
        let [edited, finished] = best(|| {
            let (_, edited, finished) = Bed::new(8192)?.build(|editor| {
                keys.iter().try_for_each(|key| editor.insert(&key.to_be_bytes(), b"").map(drop))
            })?;
            Ok([edited, finished])
        })?;
        let ns = |seconds: f64| seconds * 1e9 / keys.len() as f64;
        println!(
            "10k {order} 8-byte keys, 8192-byte pages: {:.0} ns each, with finish {:.0}; BTreeMap {:.0}",
            ns(edited),
            ns(finished),
            ns(tree)
        );
        Random::seeded(2).shuffle(&mut keys);
    }
    Ok(())
}

fn key24(n: u64) -> [u8; 24] {
    let mut key = *b"user0000________________";
    key[8..16].copy_from_slice(&Random::seeded(n).next_u64().to_be_bytes());
    key
}

fn reads() -> Result<()> {
    const RECORDS: u64 = 500_000;
    for records in [5_000, RECORDS] {
        let mut bed = Bed::new(16384)?;
        let (run, edited, finished) =
            bed.build(|editor| (0..records).try_for_each(|n| editor.insert(&key24(n), &[7; 150]).map(drop)))?;
        println!("{records} random records of 24 + 150 bytes: {edited:.3} s, with finish {finished:.3} s");
        let reader = bed.slots.claim().expect("a free slot");
        let [forward, backward] = best(|| scan(&bed.pool, &reader, run, RECORDS / records))?;
        println!("  scan {forward:.1} ns a record, backwards {backward:.1}");
        let [get] = best(|| {
            let mut random = Random::seeded(5);
            let start = Instant::now();
            for _ in 0..RECORDS {
                let key = key24(random.below(records));
                let mut guard = reader.enter();
                let leaf = run.get(&bed.pool, &mut guard, &key)?.expect("it is there");
                black_box(leaf.value());
            }
            Ok([start.elapsed().as_secs_f64()])
        })?;
        println!("  get {:.0} ns", get * 1e9 / RECORDS as f64);
    }
    Ok(())
}

/// Scans all of `run` `times` times each way: nanoseconds a record, forward and backward.
fn scan(pool: &Pool, reader: &Reader, run: Run, times: u64) -> Result<[f64; 2]> {
    let mut cursor = Cursor::new(run);
    let (mut forward, mut backward) = (0, 0);
    let start = Instant::now();
    for _ in 0..times {
        let mut on = cursor.seek_first(pool, reader)?;
        while on {
            forward += cursor.entry().map_or(0, touch);
            on = cursor.next(pool, reader)?;
        }
    }
    let middle = Instant::now();
    for _ in 0..times {
        let mut on = cursor.seek_last(pool, reader)?;
        while on {
            backward += cursor.entry().map_or(0, touch);
            on = cursor.prev(pool, reader)?;
        }
    }
    assert_eq!(forward, backward);
    let ns = |time: std::time::Duration| time.as_nanos() as f64 / (run.records * times) as f64;
    Ok([ns(middle - start), ns(middle.elapsed())])
}

/// Looks at a record as a user would: at one byte of key and value each.
fn touch((key, value): (&[u8], Value<'_>)) -> u64 {
    let Value::Inline(value) = value else { return 0 };
    u64::from(key[key.len() - 1]) + u64::from(value[0]) + value.len() as u64
}

fn main() -> Result<()> {
    let wanted = std::env::args().nth(1);
    let wants = |part: &str| wanted.as_deref().is_none_or(|wanted| wanted == part);
    if wants("million") {
        random_small_keys()?;
    }
    if wants("ten-thousand") {
        ten_thousand()?;
    }
    if wants("reads") {
        reads()?;
    }
    Ok(())
}
