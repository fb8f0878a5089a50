//! Runs against `BTreeMap`, through many editing sessions.

use crate::common::{Bed, Model, get};
use base::env::Random;
use base::limits::{max_inline_bytes, max_key_bytes};
use base::slots::Reader;
use page::Value;
use pando_run::{Cursor, Editor, Run};
use pool::Pool;
use std::ops::Bound;

/// What the keys of a test look like.
#[derive(Clone, Copy)]
enum Keys {
    /// Four random bytes from a small range: dense, no common prefix worth speaking of.
    Dense,
    /// Long common prefixes, short tails.
    Prefixed,
    /// Up to the longest that a page allows: pages of few entries, deep trees.
    Huge,
}

fn draw_key(keys: Keys, page_bytes: usize, random: &mut Random) -> Vec<u8> {
    let n = random.below(3000) as u32;
    match keys {
        Keys::Dense => n.to_be_bytes().to_vec(),
        Keys::Prefixed => format!("tenant-{}/object/{:05}", n % 7, n).into_bytes(),
        Keys::Huge => {
            let longest = max_key_bytes(page_bytes) as u64;
            let len = if random.chance(1, 4) { longest } else { 1 + u64::from(n) % longest };
            let mut key = vec![(n % 3) as u8; len as usize];
            let at = (u64::from(n) * 7 % len) as usize;
            key[at] = (n >> 3) as u8;
            key
        }
    }
}

fn draw_value(page_bytes: usize, random: &mut Random) -> Vec<u8> {
    let inline = max_inline_bytes(page_bytes) as u64;
    let len = match random.below(40) {
        0 => inline,
        1 => inline + 1 + random.below(20_000),
        2..6 => random.below(inline),
        _ => random.below(120),
    };
    (0..len).map(|i| (i ^ len) as u8).collect()
}

fn mutate(editor: &mut Editor<'_>, model: &mut Model, keys: Keys, page_bytes: usize, random: &mut Random) {
    let key = draw_key(keys, page_bytes, random);
    match random.below(100) {
        0..50 => {
            let value = draw_value(page_bytes, random);
            assert_eq!(editor.put(&key, &value).unwrap(), model.insert(key, value).is_some());
        }
        50..60 => {
            let value = draw_value(page_bytes, random);
            let fresh = !model.contains_key(&key);
            assert_eq!(editor.insert(&key, &value).unwrap(), fresh);
            model.entry(key).or_insert(value);
        }
        60..90 => assert_eq!(editor.remove(&key).unwrap(), model.remove(&key).is_some()),
        90..98 => assert_eq!(editor.get(&key).unwrap(), model.get(&key).cloned()),
        _ => remove_range(editor, model, &key, keys, page_bytes, random),
    }
}

fn remove_range(
    editor: &mut Editor<'_>,
    model: &mut Model,
    start: &[u8],
    keys: Keys,
    page_bytes: usize,
    random: &mut Random,
) {
    let mut end = Some(draw_key(keys, page_bytes, random));
    if random.chance(3, 4) {
        // Mostly short ranges, or nothing would ever grow.
        end = model.range(start.to_vec()..).nth(random.below(60) as usize).map(|entry| entry.0.clone());
    }
    editor.remove_range(start, end.as_deref()).unwrap();
    model.retain(|key, _| key.as_slice() < start || end.as_ref().is_some_and(|end| key >= end));
}

/// Prints a seed if the test fails, also where the functions that it calls do not know the seed.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("seed {}", self.0);
        }
    }
}

fn many_sessions(keys: Keys, page_bytes: usize, seed: u64) {
    for seed in [seed, seed + 100, seed + 200] {
        sessions(keys, page_bytes, seed);
    }
}

fn sessions(keys: Keys, page_bytes: usize, seed: u64) {
    let _shown = Seed(seed);
    let random = &mut Random::seeded(seed);
    let mut bed = Bed::with_pool(page_bytes, 1 << 20);
    let (mut run, mut model) = (Run::EMPTY, Model::new());
    for session in 0..12 {
        let (old, before) = (run, model.clone());
        let limit = if session % 2 == 0 { 0 } else { 64 << 20 };
        let edits = if session % 4 == 3 { 30 } else { 2000 };
        run = bed.edit(run, limit, |editor| {
            for _ in 0..edits {
                mutate(editor, &mut model, keys, page_bytes, random);
            }
        });
        bed.verify(&old, &before);
        bed.verify(&run, &model);
        bed.checkpoint(&[run]);
        let decoded = Run::decode(&run.encode()).unwrap();
        bed.verify(&decoded, &model);
        seeks(&bed, &run, &model, keys, random);
    }
    run = bed.edit(run, 0, |editor| {
        for key in model.keys() {
            assert!(editor.remove(key).unwrap());
        }
    });
    assert_eq!(run, Run::EMPTY);
    bed.checkpoint(&[]);
    let counters = bed.counters;
    assert!(counters.splits > 0 && counters.merges > 0 && counters.borrows > 0, "{counters:?}");
}

/// The key that the cursor was on, and the records that it then ran over.
fn run_over<const FORWARD: bool>(cursor: &mut Cursor, random: &mut Random) -> (Vec<u8>, Model) {
    let key = cursor.entry().unwrap().0.to_vec();
    let mut shown = Model::new();
    let count = cursor.run::<FORWARD>(random.below(40) as usize, |prefix, suffix, value| {
        shown.insert([prefix, suffix].concat(), value.to_vec());
    });
    assert_eq!(count, shown.len());
    (key, shown)
}

/// The same in place, and in two parts, while the cursor is moved elsewhere. Values that are elsewhere are not lent.
/// Then the records that are certain to follow, and a seek among all.
fn lend_run(
    cursor: &mut Cursor,
    pool: &Pool,
    reader: &Reader,
    model: &Model,
    random: &mut Random,
) -> Option<(Vec<u8>, Model)> {
    let key = cursor.entry().unwrap().0.to_vec();
    let (most, ahead) = (random.below(40) as usize, random.below(40) as usize);
    let Some(mut run) = cursor.lend_run(most, most + ahead) else {
        assert_eq!(cursor.entry().unwrap().0, key);
        return None;
    };
    let (last, count) = (cursor.entry().unwrap().0.to_vec(), run.left());
    cursor.seek_first(pool, reader).unwrap();
    let mut shown = Model::new();
    for most in [random.below(20) as usize, usize::MAX] {
        let before = shown.len();
        let longest = run.longest_key(most);
        let bytes = run.bytes().as_ptr_range();
        let (prefix, records) = run.show(most);
        for (suffix, value, after) in records {
            assert_eq!(value.as_ptr_range().end.addr() + after, bytes.end.addr());
            shown.insert([prefix, suffix].concat(), value.to_vec());
        }
        if shown.len() > before {
            assert_eq!(shown.keys().skip(before).map(Vec::len).max(), Some(longest));
        }
    }
    assert_eq!((shown.len(), run.left()), (count, 0));
    assert_eq!(shown.last_key_value().unwrap().0, &last);

    let more = run.extend();
    assert!(more <= ahead && more == run.left());
    let all: Vec<_> = model.range(key.clone()..).map(|(key, _)| key).take(1 + count + more).collect();
    for _ in 0..4 {
        // A key that is there, one right after it, or any other.
        let sought = match random.below(3) {
            0 => model.keys().nth(random.below(model.len() as u64) as usize).unwrap().clone(),
            1 => [&all[random.below(all.len() as u64) as usize][..], b"\0"].concat(),
            _ => random.next_u64().to_be_bytes()[..random.below(9) as usize].to_vec(),
        };
        let at = all.partition_point(|key| **key < sought);
        let is_known = at < all.len() && sought >= key;
        assert_eq!(run.seek(&sought), is_known);
        if is_known {
            let (prefix, records) = run.show(usize::MAX);
            let keys: Vec<_> = records.map(|(suffix, _, _)| [prefix, suffix].concat()).collect();
            assert!(keys.iter().eq(all[at..].iter().copied()));
        }
    }
    Some((key, shown))
}

/// Glides either way until that goes no further; answers how often it did.
fn steps(cursor: &mut Cursor, model: &Model, random: &mut Random) -> usize {
    let forward = random.chance(1, 2);
    for stepped in 0.. {
        let from = cursor.entry().unwrap().0.to_vec();
        if !cursor.step_in_leaf(forward) {
            assert_eq!(cursor.entry().unwrap().0, from);
            return stepped;
        }
        let next = if forward {
            model.range::<[u8], _>((Bound::Excluded(&from[..]), Bound::Unbounded)).next()
        } else {
            model.range(..from).next_back()
        };
        let record = next.map(|(key, value)| (&key[..], &value[..]));
        assert_eq!(cursor.stepped(), record);
        assert_eq!(cursor.entry(), record.map(|(key, value)| (key, Value::Inline(value))));
    }
    unreachable!("a leaf ends")
}

/// Seeks in both directions, steps after a turn, and steps that are promised to end before a key.
fn seeks(bed: &Bed, run: &Run, model: &Model, keys: Keys, random: &mut Random) {
    bed.read(|pool, reader| {
        let mut cursor = Cursor::new(*run);
        let (mut stepped, mut lent, mut ran_back) = (0, 0, 0);
        for _ in 0..60 {
            let key = draw_key(keys, pool.page_bytes(), random);
            let at_or_after = model.range(key.clone()..).next();
            let before = model.range(..key.clone()).next_back();
            assert_eq!(get(run, pool, reader, &key), model.get(&key).cloned());
            assert_eq!(cursor.seek(pool, reader, &key).unwrap(), at_or_after.is_some());
            assert_eq!(cursor.entry().map(|entry| entry.0), at_or_after.map(|entry| &entry.0[..]));
            if at_or_after.is_some() {
                assert_eq!(cursor.prev(pool, reader).unwrap(), before.is_some());
                assert_eq!(cursor.entry().map(|entry| entry.0), before.map(|entry| &entry.0[..]));
            }
            assert_eq!(cursor.seek_before(pool, reader, &key).unwrap(), before.is_some());
            assert_eq!(cursor.entry().map(|entry| entry.0), before.map(|entry| &entry.0[..]));
            if let Some((before, _)) = before {
                let next = model.range::<[u8], _>((Bound::Excluded(&before[..]), Bound::Unbounded)).next();
                assert_eq!(cursor.next(pool, reader).unwrap(), next.is_some());
                assert_eq!(cursor.entry().map(|entry| entry.0), next.map(|entry| &entry.0[..]));
            }
            let (from, to) = (draw_key(keys, pool.page_bytes(), random), key);
            let forward = from < to;
            if cursor.seek(pool, reader, &from).unwrap() {
                if let Some((before, shown)) = lend_run(&mut cursor, pool, reader, model, random) {
                    let after = model.range::<[u8], _>((Bound::Excluded(&before[..]), Bound::Unbounded));
                    assert!(after.take(shown.len()).eq(&shown));
                    lent += shown.len();
                    cursor.seek(pool, reader, &from).unwrap();
                }
                let (behind, shown) = run_over::<false>(&mut cursor, random);
                assert!(model.range(..behind.clone()).rev().take(shown.len()).eq(shown.iter().rev()));
                let last = shown.first_key_value().map_or(&behind, |last| last.0);
                assert_eq!(cursor.entry().map(|entry| entry.0), Some(&last[..]));
                ran_back += shown.len();
                cursor.seek(pool, reader, &from).unwrap();
                let (before, shown) = run_over::<true>(&mut cursor, random);
                let behind = model.range::<[u8], _>((Bound::Excluded(&before[..]), Bound::Unbounded));
                assert!(behind.take(shown.len()).eq(&shown));
                let last = shown.last_key_value().map_or(&before, |last| last.0);
                assert_eq!(cursor.entry().map(|entry| entry.0), Some(&last[..]));
                stepped += steps(&mut cursor, model, random);
                let forward = forward && *cursor.entry().unwrap().0 < to[..];
                let most = random.below(40) as u32;
                let certain = cursor.steps_before(&to, forward, most);
                assert!(certain <= most);
                for _ in 0..certain {
                    let moved = if forward { cursor.next(pool, reader) } else { cursor.prev(pool, reader) };
                    assert!(moved.unwrap());
                    let at = cursor.entry().unwrap().0;
                    assert!(
                        if forward { at < &to[..] } else { at > &to[..] },
                        "stepped to the key or past it"
                    );
                }
            }
        }
        assert!(stepped > 0 && ran_back > 0);
        // Other leaves have so many records that a value of some is elsewhere.
        assert!(lent > 0 || !matches!(keys, Keys::Huge));
    });
}

#[test]
fn dense_keys_on_small_pages() {
    many_sessions(Keys::Dense, 4096, 1);
}

#[test]
fn dense_keys_on_default_pages() {
    many_sessions(Keys::Dense, 16384, 2);
}

#[test]
fn prefixed_keys_on_small_pages() {
    many_sessions(Keys::Prefixed, 4096, 3);
}

#[test]
fn prefixed_keys_on_default_pages() {
    many_sessions(Keys::Prefixed, 16384, 4);
}

#[test]
fn huge_keys_on_small_pages() {
    many_sessions(Keys::Huge, 4096, 5);
}

#[test]
fn huge_keys_on_default_pages() {
    many_sessions(Keys::Huge, 16384, 6);
}
