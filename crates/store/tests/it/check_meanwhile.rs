//! Checks beside what they check: checkpoints go on, and neither sees the other's half-done work.

use base::ErrorKind;
use base::env::Random;
use io::{Dir, MemDir};
use pando_store::{Options, RequestedLayout, Span, Store, Table, Transaction, TransactionOptions};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

/// Longer than this a value is in the data file before its commit.
const LARGE_BYTES: usize = 8 << 10;

fn open(dir: &Arc<dyn Dir>) -> Arc<Store> {
    let options = Options {
        page_bytes: Some(4096),
        memory_bytes: 4 << 20,
        large_bytes: LARGE_BYTES,
        piece_bytes: LARGE_BYTES,
        write_set_bytes: Some(64 << 10),
        ..Options::default()
    };
    pando_store::open_or_create(Arc::clone(dir), &options).unwrap()
}

fn write<T>(store: &Arc<Store>, work: impl FnOnce(&mut Transaction) -> T) -> T {
    let mut tx = Transaction::begin(store, TransactionOptions::default()).unwrap();
    let done = work(&mut tx);
    store.acknowledge(tx.apply().unwrap()).unwrap();
    done
}

fn tables(store: &Arc<Store>) -> Vec<Table> {
    write(store, |tx| {
        let table =
            |(at, &layout): (usize, &RequestedLayout)| tx.create_table(&format!("t{at}"), layout).unwrap();
        RequestedLayout::ALL.iter().enumerate().map(table).collect()
    })
}

/// Replaces and deletes records and large values; now and then by a transaction that spills, whose runs are attached.
fn change(store: &Arc<Store>, tables: &[Table], random: &mut Random) {
    let count = if random.chance(1, 4) { 300 } else { 20 };
    write(store, |tx| {
        for _ in 0..count {
            let table = &tables[random.below(tables.len() as u64) as usize];
            let key = random.below(400).to_be_bytes();
            match random.below(30) {
                0 => tx.put(table, &key, &vec![7; LARGE_BYTES + random.below(40_000) as usize]).unwrap(),
                1 => tx
                    .delete_range(table, &Span::from(&key[..]..&random.below(400).to_be_bytes()[..]))
                    .unwrap(),
                2..6 => tx.delete(table, &key).unwrap(),
                _ => tx.put(table, &key, &vec![1; random.below(800) as usize]).unwrap(),
            }
        }
    });
}

/// A check between any two steps of a checkpoint reads the checkpoint before, whose pages, map and values stay.
#[test]
fn a_check_between_the_steps_of_a_checkpoint_is_clean() {
    for seed in 0..3 {
        let mut random = Random::seeded(seed);
        let store = open(&(Arc::new(MemDir::new()) as Arc<dyn Dir>));
        let tables = tables(&store);
        for round in 0..8 {
            change(&store, &tables, &mut random);
            let mut unfinished = Transaction::begin(&store, TransactionOptions::default()).unwrap();
            unfinished.put(&tables[0], b"unfinished", &[9; 3 * LARGE_BYTES]).unwrap();
            let snapshot = store.snapshot().unwrap();
            let mut checkpoint = store.begin_checkpoint().unwrap().expect("something was written");
            let last = checkpoint.number().0 - 1;
            loop {
                let (step, context) = (checkpoint.next_step(), format!("seed {seed}, round {round}"));
                let report = store.check().unwrap_or_else(|e| panic!("{context}, before {step}: {e}"));
                assert_eq!(report.orphan_units, 0, "{context}, before {step}");
                let expected = if step > pando_store::checkpoint::Step::Switch { last + 1 } else { last };
                assert_eq!(report.checkpoint, expected, "{context}, before {step}");
                if step == pando_store::checkpoint::Step::Done {
                    break;
                }
                if random.chance(1, 3) {
                    change(&store, &tables, &mut random);
                }
                checkpoint.step().unwrap();
            }
            drop((checkpoint, snapshot, unfinished));
        }
        store.reclaim();
        assert_eq!(store.check().unwrap().orphan_units, 0, "seed {seed}");
        store.close().unwrap();
    }
}

/// Whole checkpoints are made while a check is under way, and what it has still to read stays until its end.
#[test]
fn checkpoints_go_on_during_a_check() {
    for seed in 0..3 {
        let mut random = Random::seeded(seed);
        let store = open(&(Arc::new(MemDir::new()) as Arc<dyn Dir>));
        let tables = tables(&store);
        (0..3).for_each(|_| change(&store, &tables, &mut random));
        store.checkpoint().unwrap();
        (0..3).for_each(|_| change(&store, &tables, &mut random));
        let mut calls = 0;
        let findings = store.check_all(&mut |_| {
            calls += 1;
            let (made, is_made) = channel();
            let (store, tables, seed) = (Arc::clone(&store), tables.clone(), 100 * seed + calls);
            std::thread::spawn(move || {
                let mut random = Random::seeded(seed);
                for _ in 0..5 {
                    change(&store, &tables, &mut random);
                    store.checkpoint().unwrap();
                }
                made.send(()).unwrap();
            });
            is_made.recv_timeout(Duration::from_secs(60)).expect("checkpoints do not wait for the check");
            Ok(())
        });
        let findings = findings.unwrap();
        assert!(findings.wrong.is_empty(), "seed {seed}: {:?}", findings.wrong);
        assert_eq!((findings.report.orphan_units, findings.report.tables), (0, calls), "seed {seed}");
        let space = store.stats().unwrap();
        store.reclaim();
        let left = store.check().unwrap();
        assert_eq!(left.orphan_units, 0, "seed {seed}: {space:?}");
        store.close().unwrap();
    }
}

#[test]
fn closing_ends_a_check() {
    let store = open(&(Arc::new(MemDir::new()) as Arc<dyn Dir>));
    let tables = tables(&store);
    change(&store, &tables, &mut Random::seeded(1));
    store.checkpoint().unwrap();
    let ended = store.check_all(&mut |_| {
        let store = Arc::clone(&store);
        std::thread::spawn(move || store.close().unwrap()).join().unwrap();
        Ok(())
    });
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::Closed);
}
