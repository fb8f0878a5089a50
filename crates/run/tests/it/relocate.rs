//! Moving, packing and dropping: what they read, and that they change nothing but places.

use crate::common::{Bed, DATABASE, Model};
use base::env::Random;
use base::{CheckpointNo, ErrorKind, PagePtr, checksum};
use page::{EditCounters, Kind, PageMut, Value};
use pando_run::{Relocation, Run};
use std::cell::Cell;
use std::rc::Rc;

const PAGE_BYTES: usize = 4096;

fn key(n: u64) -> Vec<u8> {
    n.to_be_bytes().to_vec()
}

/// A run in which `0..n` were put in random order, over several checkpoints.
fn scattered(bed: &mut Bed, n: u64, random: &mut Random, value: impl Fn(u64) -> Vec<u8>) -> (Run, Model) {
    let (mut run, mut model) = (Run::EMPTY, Model::new());
    let mut order: Vec<u64> = (0..n).collect();
    random.shuffle(&mut order);
    for part in order.chunks(n.div_ceil(6) as usize) {
        run = bed.edit(run, 0, |editor| {
            for &n in part {
                editor.put(&key(n), &value(n)).unwrap();
                model.insert(key(n), value(n));
            }
        });
        bed.checkpoint(&[run]);
    }
    (run, model)
}

fn total_units(bed: &mut Bed) -> u64 {
    bed.space.get_mut().unwrap().stats().total_units
}

/// Rounds until a pass over the run is done; answers the run and how many rounds that took.
fn relocate(bed: &mut Bed, mut run: Run, model: &Model, work: Relocation) -> (Run, u32) {
    let (mut from, mut rounds) = (Some(Vec::new()), 0);
    while let Some(start) = from.take() {
        let before = run;
        run = bed.edit(run, 0, |editor| from = editor.relocate(&start, &mut { work }).unwrap());
        bed.verify(&before, model);
        let space = bed.space.get_mut().unwrap();
        space.move_map(work.border_unit);
        bed.checkpoint(&[run]);
        let space = bed.space.get_mut().unwrap();
        let mut trim = space.trim(0);
        while space.trim_on(&mut trim).unwrap().is_some() {}
        rounds += 1;
        assert!(rounds < 1000, "a relocation does not end");
    }
    bed.verify(&run, model);
    (run, rounds)
}

#[test]
fn a_file_with_gaps_becomes_as_short_as_what_it_holds() {
    for seed in 0..4 {
        let random = &mut Random::seeded(seed);
        let compresses = seed % 2 == 1;
        let mut bed = Bed::with_pool(if compresses { 4 * PAGE_BYTES } else { PAGE_BYTES }, 1 << 20);
        bed.compresses = compresses;
        // Every twentieth value lies in an extent of its own.
        let value = |n: u64| vec![n as u8; if n.is_multiple_of(20) { 3000 + n as usize * 2 } else { 60 }];
        let (mut run, mut model) = scattered(&mut bed, 6000, random, value);
        let gone = random.below(3000);
        let end = key(gone + 2500);
        run = bed.edit(run, 0, |editor| editor.remove_range(&key(gone), Some(&end)).unwrap());
        model.retain(|k, _| *k < key(gone) || *k >= end);
        bed.checkpoint(&[run]);
        let (mut passes, before) = (0, total_units(&mut bed));
        loop {
            let stats = bed.space.get_mut().unwrap().stats();
            if stats.free_units <= stats.total_units / 16 || passes == 8 {
                break;
            }
            let border_unit = stats.used_units + stats.free_units / 16;
            let units = if passes == 0 { 64 + random.below(400) } else { u64::MAX };
            let work = Relocation { border_unit, packs: passes == 0, units, parents: 1 + random.below(100) };
            run = relocate(&mut bed, run, &model, work).0;
            passes += 1;
        }
        // Some gaps are left that no large value fits into.
        let stats = bed.space.get_mut().unwrap().stats();
        assert!(stats.free_units <= stats.total_units / 5, "{before} units before, {stats:?} after");
    }
}

#[test]
fn each_round_is_bounded() {
    let mut bed = Bed::new(PAGE_BYTES);
    let (mut run, mut model) = scattered(&mut bed, 20_000, &mut Random::seeded(9), |_| vec![7; 50]);
    run = bed.edit(run, 0, |editor| editor.remove_range(&key(2000), Some(&key(14_000))).unwrap());
    model.retain(|k, _| *k < key(2000) || *k >= key(14_000));
    bed.checkpoint(&[run]);
    let stats = bed.space.get_mut().unwrap().stats();
    let high = |bed: &Bed, run: &Run, border: u64| {
        let mut high = 0;
        let mut visit = |ptr: PagePtr| {
            high += u64::from(ptr.unit() >= border);
            Ok(())
        };
        run.check(&bed.pool, &mut visit).unwrap();
        high
    };
    let border_unit = stats.used_units + stats.free_units / 4;
    let before = high(&bed, &run, border_unit);
    let work = Relocation { border_unit, packs: false, units: 5, parents: 4 };
    let (moved, rounds) = relocate(&mut bed, run, &model, work);
    assert!(before > 50 && u64::from(rounds) >= before / 10, "{rounds} rounds for {before} pages");
    assert_eq!(high(&bed, &moved, border_unit), 0);
}

/// Copies of pages may be memory that the kernel has to find first: those of one parent in one go take milliseconds.
#[test]
fn a_throttled_thread_pauses_after_each_page_that_moves() {
    let mut bed = Bed::new(PAGE_BYTES);
    let (run, _) = scattered(&mut bed, 4000, &mut Random::seeded(5), |_| vec![7; 50]);
    let pauses = Rc::new(Cell::new(0));
    let counted = Rc::clone(&pauses);
    let mut work = Relocation { border_unit: 0, packs: false, units: u64::MAX, parents: u64::MAX };
    let mut before_writing = 0;
    let moved = base::background::throttled(Rc::new(move || counted.set(counted.get() + 1)), || {
        bed.edit(run, 64 << 20, |editor| {
            editor.relocate(&[], &mut work).unwrap();
            before_writing = pauses.get();
        })
    });
    assert!(before_writing >= run.leaves, "{before_writing} pauses while {} leaves were copied", run.leaves);
    let writing = pauses.get() - before_writing;
    assert!(writing >= moved.leaves, "{writing} pauses while {} leaves came into the pool", moved.leaves);
}

#[test]
fn neighbours_half_empty_are_packed_when_they_are_written() {
    let mut bed = Bed::new(16 << 10);
    let (run, mut model) = scattered(&mut bed, 20_000, &mut Random::seeded(3), |n| vec![n as u8; 90]);
    let fill = |run: &Run, model: &Model| model.len() as f64 * 110.0 / (run.leaves as f64 * 16384.0);
    // Each leaf loses most of its records: not enough to be mended one by one.
    let run = bed.edit(run, 64 << 20, |editor| {
        for n in (0..20_000).filter(|n| n % 5 < 3) {
            editor.remove(&key(n)).unwrap();
            model.remove(&key(n));
        }
    });
    bed.checkpoint(&[run]);
    bed.verify(&run, &model);
    assert!(fill(&run, &model) > 0.75, "leaves are {:.2} full", fill(&run, &model));
}

#[test]
fn ascending_inserts_are_left_full() {
    let mut bed = Bed::new(16 << 10);
    let run = bed.edit(Run::EMPTY, 0, |editor| {
        (0..20_000).for_each(|n| assert!(!editor.put(&key(n), &[1; 90]).unwrap()));
    });
    assert_eq!(bed.counters.merges + bed.counters.borrows, 0);
    assert!(run.leaves < 20_000 * 112 / 16000, "{} leaves", run.leaves);
}

#[test]
fn a_dropped_range_reads_no_leaf_inside_it() {
    let mut bed = Bed::new(PAGE_BYTES);
    let n = 100_000;
    let run = bed.edit(Run::EMPTY, 8 << 20, |editor| {
        (0..n).for_each(|n| assert!(!editor.put(&key(n), &[1; 60]).unwrap()));
    });
    bed.checkpoint(&[run]);
    let inner = run.check(&bed.pool, &mut |_| Ok(())).unwrap().inner_pages;
    bed.cool();
    let run = bed.edit(run, 8 << 20, |editor| {
        editor.remove_range(&key(1000), Some(&key(n - 1000))).unwrap();
    });
    // The inner pages name the leaves; the two leaves at the edges, and their neighbours to mend them, are read.
    let read = bed.pool.stats().faults;
    assert!(read <= inner + 8, "{read} pages read, {inner} inner pages, {} leaves left", run.leaves);
    bed.checkpoint(&[run]);
    assert!(run.leaves < 60);
}

/// An inner page over leaves at these places, written at `unit` as a hostile program would.
fn forge_parent(bed: &Bed, unit: u64, children: &[PagePtr]) -> PagePtr {
    let mut bytes = vec![0; PAGE_BYTES];
    let mut page = PageMut::init(&mut bytes, Kind::Inner, 1, CheckpointNo(1));
    for (at, child) in children.iter().enumerate() {
        page.insert_child(at, &[at as u8], *child, &mut EditCounters::default()).unwrap();
    }
    let sum = page.seal(DATABASE, unit);
    bed.file.write_at(&bytes, unit * 4096).unwrap();
    PagePtr::new(unit, 1, sum)
}

#[test]
fn a_page_with_two_parents_is_corruption() {
    let mut bed = Bed::new(PAGE_BYTES);
    let space = bed.space.get_mut().unwrap();
    let (leaf_unit, unit) = (space.allocate(1).unwrap(), space.allocate(1).unwrap());
    let mut bytes = vec![0; PAGE_BYTES];
    let mut leaf = PageMut::init(&mut bytes, Kind::Leaf, 0, CheckpointNo(1));
    leaf.insert(0, b"\x01k", Value::Inline(b"v"), &mut EditCounters::default()).unwrap();
    let leaf = PagePtr::new(leaf_unit, 1, leaf.seal(DATABASE, leaf_unit));
    bed.file.write_at(&bytes, leaf_unit * 4096).unwrap();
    let wrong = |unit| PagePtr::new(unit, 1, checksum::header(b"unread"));
    for second in [leaf, wrong(0), wrong(1 << 20), wrong(leaf_unit)] {
        let root = forge_parent(&bed, unit, &[leaf, second]);
        let run = Run { root: Some(root), height: 2, records: 2, bytes: 6, leaves: 2, ..Run::EMPTY };
        for (start, end) in [(&b""[..], None), (&b""[..], Some(&b"\x09"[..]))] {
            let dropped = bed.try_edit(run, 0, |editor| editor.remove_range(start, end));
            assert_eq!(dropped.unwrap_err().kind(), ErrorKind::Corruption, "{second:?}");
            bed.space.get_mut().unwrap().revert();
            // A map that was never saved has nothing to go back to.
            let space = bed.space.get_mut().unwrap();
            while space.allocate(1).unwrap() < unit {}
        }
    }
}

#[test]
fn looking_for_what_could_be_packed_reads_each_leaf_once() {
    let (n, random) = (60_000, &mut Random::seeded(1));
    // Far fewer pages fit the pool than a parent has leaves.
    let mut bed = Bed::with_pool(PAGE_BYTES, 64 << 10);
    let mut builder = pando_run::Builder::new(&bed.pool, &bed.space, CheckpointNo(1), 1 << 20);
    for n in 0..n {
        builder.add(&key(n), Value::Inline(&random.next_u64().to_be_bytes())).unwrap();
    }
    let run = builder.finish().unwrap();
    bed.birth.0 += 1;
    bed.checkpoint(&[run]);
    let before = bed.pool.stats().faults;
    let mut work = Relocation { border_unit: u64::MAX, packs: true, units: u64::MAX, parents: u64::MAX };
    bed.edit(run, 0, |editor| assert_eq!(editor.relocate(&[], &mut work).unwrap(), None));
    let read = bed.pool.stats().faults - before;
    assert!(read < 2 * run.leaves, "{read} pages were read to look at {} leaves", run.leaves);
}
