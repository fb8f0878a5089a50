//! Runs built in one pass, deltas merged and taken by an editor, against `BTreeMap`.

use crate::common::{Bed, Model};
use base::env::Random;
use base::limits::{max_inline_bytes, max_key_bytes};
use base::sync::lock;
use base::{CheckpointNo, ErrorKind};
use page::Value;
use pando_run::{BitsPerKey, Builder, Delta, DeltaBuilder, Editor, Merge, Probe, Ranges, Run};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::rc::Rc;
use std::sync::Arc;

fn draw_key(page_bytes: usize, random: &mut Random) -> Vec<u8> {
    let n = random.below(4000);
    let mut key = format!("{:02}/{n:05}", n % 13).into_bytes();
    if n.is_multiple_of(9) {
        key.resize(max_key_bytes(page_bytes) - (n as usize % 5), b'x');
    }
    key
}

fn draw_value(page_bytes: usize, random: &mut Random) -> Vec<u8> {
    let inline = max_inline_bytes(page_bytes) as u64;
    let len = match random.below(30) {
        0 => inline,
        1 => inline + 1 + random.below(9_000),
        2..5 => random.below(inline),
        _ => random.below(100),
    };
    vec![len as u8; len as usize]
}

fn build(bed: &mut Bed, model: &Model, buffer_bytes: usize) -> Run {
    bed.birth.0 += 1;
    let mut builder = Builder::new(&bed.pool, &bed.space, bed.birth, buffer_bytes);
    for (key, value) in model {
        builder.add(key, Value::Inline(value)).unwrap();
    }
    builder.finish().unwrap()
}

/// The pool's frames may be memory that the kernel has to find first: 64 of them in one go take milliseconds.
#[test]
fn a_throttled_thread_pauses_after_each_page() {
    let mut bed = Bed::new(16384);
    let model: Model = (0..6000).map(|n: u32| (n.to_be_bytes().to_vec(), vec![7; 100])).collect();
    let pauses = Rc::new(Cell::new(0));
    let counted = Rc::clone(&pauses);
    let run = base::background::throttled(Rc::new(move || counted.set(counted.get() + 1)), || {
        build(&mut bed, &model, 1 << 20)
    });
    assert!(pauses.get() >= run.leaves, "{} pauses for {} leaves", pauses.get(), run.leaves);
}

#[test]
fn a_built_run_is_what_was_added_and_can_be_edited() {
    for (seed, page_bytes) in [(1, 4096), (2, 4096), (3, 16384), (4, 65536)] {
        let mut random = Random::seeded(seed);
        for records in [0, 1, 2, 70, 900, 6000] {
            let mut bed = Bed::new(page_bytes);
            let mut model: Model = (0..records)
                .map(|_| (draw_key(page_bytes, &mut random), draw_value(page_bytes, &mut random)))
                .collect();
            let buffer_bytes = [0, 5 * page_bytes, 1 << 20][random.below(3) as usize];
            let run = build(&mut bed, &model, buffer_bytes);
            assert_eq!((run.records, run.deletes), (model.len() as u64, false));
            bed.verify(&run, &model);
            bed.checkpoint(&[run]);
            let run = bed.edit(run, 0, |editor| {
                for _ in 0..300 {
                    let (key, value) =
                        (draw_key(page_bytes, &mut random), draw_value(page_bytes, &mut random));
                    editor.put(&key, &value).unwrap();
                    model.insert(key, value);
                }
            });
            bed.verify(&run, &model);
            bed.checkpoint(&[run]);
        }
    }
}

#[test]
fn pages_of_a_built_run_are_full() {
    let mut bed = Bed::new(4096);
    let model: Model = (0..20_000u32).map(|n| (n.to_be_bytes().to_vec(), vec![7; 100])).collect();
    let run = build(&mut bed, &model, 64 << 10);
    let per_leaf = (4096 - 64 - 8) / (8 + 104);
    assert!(run.leaves <= 20_000 / per_leaf + 1, "{} leaves", run.leaves);
}

#[test]
fn keys_must_ascend_and_fit() {
    let bed = Bed::new(4096);
    let mut builder = Builder::new(&bed.pool, &bed.space, CheckpointNo(1), 0);
    builder.add(b"b", Value::Inline(b"")).unwrap();
    for key in [&b"b"[..], b"a", b"", &[b'z'; 2000]] {
        assert_eq!(builder.add(key, Value::Inline(b"")).unwrap_err().kind(), ErrorKind::Invalid);
    }
    builder.add(b"ba", Value::Deleted).unwrap();
    let run = builder.finish().unwrap();
    assert_eq!((run.records, run.deletes), (2, true));
    let wrong = Run { deletes: false, ..run };
    let found = bed.read(|pool, reader| {
        let mut guard = reader.enter();
        wrong.get(pool, &mut guard, b"b").map(drop)
    });
    let error = found.unwrap_err();
    assert!(error.kind() == ErrorKind::Corruption && error.message().contains("deletes"), "{error}");
}

/// What a delta says, and what it deletes by range before.
#[derive(Clone, Default)]
struct Said {
    ranges: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    records: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

impl Said {
    fn draw(page_bytes: usize, random: &mut Random) -> Said {
        let mut said = Said::default();
        for _ in 0..random.below(4) {
            let mut bounds = [draw_key(page_bytes, random), draw_key(page_bytes, random)];
            bounds.sort();
            let [start, mut end] = bounds;
            end.push(0);
            said.ranges.push((start, (!random.chance(1, 20)).then_some(end)));
        }
        for _ in 0..random.below(400) {
            let value = random.chance(3, 4).then(|| draw_value(page_bytes, random));
            said.records.insert(draw_key(page_bytes, random), value);
        }
        said
    }

    fn write(&self, bed: &mut Bed) -> Delta {
        bed.birth.0 += 1;
        let spans = self.ranges.iter().map(|(start, end)| (&start[..], end.as_deref()));
        let ranges = Ranges::union(spans).unwrap();
        let ranges_run = ranges.write(&bed.pool, &bed.space, bed.birth).unwrap();
        let mut builder = DeltaBuilder::new(&bed.pool, &bed.space, bed.birth, 8192, BitsPerKey(10));
        for (key, value) in &self.records {
            builder.add(key, value.as_ref().map_or(Value::Deleted, |value| Value::Inline(value))).unwrap();
        }
        let delta = builder.finish(Arc::new(ranges), ranges_run).unwrap();
        bed.read(|pool, reader| delta.check_filter(pool, reader).unwrap());
        let read = bed.read(|pool, reader| Delta::decode(&delta.encode(), pool, reader).unwrap());
        for probe in 0..60u8 {
            let key = format!("{probe:02}").into_bytes();
            assert_eq!(read.ranges.covering(&key).is_some(), delta.ranges.covering(&key).is_some());
        }
        delta
    }

    fn apply(&self, model: &mut Model) {
        for (start, end) in &self.ranges {
            model.retain(|key, _| key < start || end.as_ref().is_some_and(|end| key >= end));
        }
        for (key, value) in &self.records {
            match value {
                Some(value) => model.insert(key.clone(), value.clone()),
                None => model.remove(key),
            };
        }
    }
}

#[test]
fn a_merge_of_deltas_does_what_they_do_one_after_the_other() {
    for seed in 0..12 {
        let mut random = Random::seeded(seed);
        let mut bed = Bed::new(4096);
        let mut model: Model =
            (0..500).map(|_| (draw_key(4096, &mut random), draw_value(4096, &mut random))).collect();
        let run = build(&mut bed, &model, 0);
        let said: Vec<Said> = (0..1 + random.below(5)).map(|_| Said::draw(4096, &mut random)).collect();
        let deltas: Vec<Delta> = said.iter().map(|said| said.write(&mut bed)).collect();
        lock(&bed.space).save(bed.birth).unwrap();
        said.iter().for_each(|said| said.apply(&mut model));
        let run = absorb(&mut bed, run, &deltas);
        bed.verify(&run, &model);
        bed.checkpoint(&[run]);
    }
}

/// Keys that begin alike, are short, or are as great as keys can be: the bytes that a merge compares first say nothing.
#[test]
fn a_merge_tells_keys_apart_that_begin_alike() {
    let mut bed = Bed::new(4096);
    let begins: [&[u8]; 5] = [b"", b"\0\0", b"the same ", &[0xff; 7], &[0xff; 8]];
    let ends: [&[u8]; 5] = [b"", b"\0", b"\0\0", b"a", b"\xff"];
    let keys: Vec<_> =
        begins.iter().flat_map(|begin| ends.iter().map(move |end| [*begin, *end].concat())).collect();
    for seed in 0..40 {
        let mut random = Random::seeded(seed);
        let (mut deltas, mut expected) = (Vec::new(), Model::new());
        for newer in 0..4u8 {
            let some = keys.iter().filter(|_| random.chance(1, 2)).cloned();
            let records: Model = some.map(|key| (key, vec![newer])).collect();
            expected.extend(records.clone());
            let mut builder = DeltaBuilder::new(&bed.pool, &bed.space, bed.birth, 8192, BitsPerKey(10));
            for (key, value) in &records {
                builder.add(key, Value::Inline(value)).unwrap();
            }
            deltas.push(builder.finish(Arc::default(), Run::EMPTY).unwrap());
        }
        let merged = bed.read(|pool, reader| {
            let mut merge = Merge::open(deltas.iter().rev(), pool, reader).unwrap();
            let mut merged = Vec::new();
            while merge.next(&mut |_| Ok(())).unwrap() {
                let (key, Value::Inline(value)) = merge.entry().unwrap() else {
                    panic!("no such value was added")
                };
                merged.push((key.to_vec(), value.to_vec()));
            }
            merged
        });
        assert_eq!(merged, expected.into_iter().collect::<Vec<_>>(), "seed {seed}");
        bed.birth.0 += 1;
    }
}

#[test]
fn of_a_delta_the_filter_goes_before_cached_pages_and_leaves_do_not() {
    let mut bed = Bed::with_pool(4096, 1 << 20);
    let records = || (0..40_000u32).map(|n| ((2 * n).to_be_bytes().to_vec(), vec![7; 10]));
    let older: Model = records().collect();
    let older = build(&mut bed, &older, 64 << 10);
    bed.read(|pool, reader| {
        let mut cursor = pando_run::Cursor::new(older);
        let mut on = cursor.seek_first(pool, reader).unwrap();
        while on {
            on = cursor.next(pool, reader).unwrap();
        }
    });
    let full = bed.pool.stats();
    assert!(full.evictions > 0, "the pool is full: {full:?}");

    let mut builder = DeltaBuilder::new(&bed.pool, &bed.space, bed.birth, 64 << 10, BitsPerKey(10));
    for (key, value) in records() {
        builder.add(&key, Value::Inline(&value)).unwrap();
    }
    let delta = builder.finish(Arc::default(), Run::EMPTY).unwrap();
    let built = bed.pool.stats();
    let admitted = built.admitted - full.admitted;
    assert!(admitted < delta.records.leaves / 8, "{admitted} pages, {} leaves", delta.records.leaves);
    bed.read(|pool, reader| {
        for key in (0..40_000u32).map(|n| (2 * n + 1).to_be_bytes()) {
            let mut guard = reader.enter();
            pando_run::filter::may_hold(&delta.filter, pool, &mut guard, Probe::new(&key)).unwrap();
        }
    });
    // What came first of it may have made room for the rest.
    let faults = bed.pool.stats().faults - built.faults;
    assert!(faults <= delta.filter.leaves / 4, "{faults} reads of {} leaves", delta.filter.leaves);
}

/// As a checkpoint does it: the ranges of all, then the merged records; large values change hands.
fn absorb(bed: &mut Bed, run: Run, deltas: &[Delta]) -> Run {
    bed.birth.0 += 1;
    let (pool, reader) = (&bed.pool, bed.slots.claim().unwrap());
    let mut dropped = Vec::new();
    let mut editor = Editor::open(run, pool, &reader, &bed.space, bed.birth, 64 << 10);
    for (start, end) in deltas.iter().flat_map(|delta| delta.ranges.iter()) {
        editor.remove_range(start, end).unwrap();
    }
    let mut merge = Merge::open(deltas.iter().rev(), pool, &reader).unwrap();
    let mut note = |value: Value<'_>| {
        if let Value::Large(large) = value {
            dropped.push(large.reference().ptr);
        }
        Ok(())
    };
    while merge.next(&mut note).unwrap() {
        let (key, value) = merge.entry().unwrap();
        editor.take(key, value).unwrap();
    }
    let (run, _) = editor.finish().unwrap();
    for ptr in dropped {
        lock(&bed.space).retire(ptr, bed.birth).unwrap();
    }
    for delta in deltas {
        delta.retire_pages(pool, &reader, &bed.space, CheckpointNo(0)..bed.birth).unwrap();
    }
    run
}

#[test]
fn what_a_delta_knows() {
    for seed in 0..6 {
        let mut random = Random::seeded(seed);
        let mut bed = Bed::new(4096);
        let (one, two) = (Said::draw(4096, &mut random), Said::draw(4096, &mut random));
        let (a, b) = (one.write(&mut bed), two.write(&mut bed));
        bed.read(|pool, reader| {
            let common = a.common_key(pool, reader, &b).unwrap();
            assert_eq!(common.as_ref(), one.records.keys().find(|key| two.records.contains_key(*key)));
            for _ in 0..200 {
                let (key, end) = (draw_key(4096, &mut random), draw_key(4096, &mut random));
                let covered = a.ranges.covering(&key).is_some();
                assert_eq!(a.knows(pool, reader, &key).unwrap(), covered || one.records.contains_key(&key));
                if key < end {
                    let reaches = |(start, stop): &(Vec<u8>, Option<Vec<u8>>)| {
                        *start < end && stop.as_ref().is_none_or(|stop| *stop > key)
                    };
                    let any = one.ranges.iter().any(reaches)
                        || one.records.range(key.clone()..end.clone()).next().is_some();
                    let found = a.any_in(pool, reader, &key, Bound::Excluded(&end)).unwrap();
                    assert_eq!(found.is_some(), any, "seed {seed}");
                }
            }
        });
    }
}
