//! Transactions that do not fit memory, against `BTreeMap`: reads of their own, savepoints, conflicts, reopening.

use base::ErrorKind;
use base::env::Random;
use io::{Dir, MemDir};
use pando_store::{Options, RequestedLayout, Span, Store, Table, Transaction, TransactionOptions};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use txn::{Durability, Isolation};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn options(write_set_bytes: usize) -> Options {
    Options {
        page_bytes: Some(4096),
        memory_bytes: 4 << 20,
        write_set_bytes: Some(write_set_bytes),
        ..Options::default()
    }
}

fn open(dir: &Arc<dyn Dir>, write_set_bytes: usize) -> Arc<Store> {
    pando_store::open_or_create(Arc::clone(dir), &options(write_set_bytes)).unwrap()
}

fn begin(store: &Arc<Store>, isolation: Isolation) -> Transaction {
    let options = TransactionOptions { isolation, durability: Durability::Buffered };
    Transaction::begin(store, options).unwrap()
}

fn commit(store: &Store, tx: Transaction) -> base::Result<()> {
    let applied = tx.apply()?;
    store.acknowledge(applied).map(drop)
}

fn table(store: &Arc<Store>) -> Table {
    let mut tx = begin(store, Isolation::Serializable);
    let table = tx.create_table("t", RequestedLayout::BTree).unwrap();
    commit(store, tx).unwrap();
    table
}

fn key(random: &mut Random) -> Vec<u8> {
    format!("{:04}", random.below(600)).into_bytes()
}

/// Values that no two writes share, a few of them too long for a page.
fn value(random: &mut Random) -> Vec<u8> {
    let len = if random.chance(1, 30) { 2000 + random.below(9000) } else { random.below(120) };
    let mut value = random.next_u64().to_be_bytes().to_vec();
    value.resize(8 + len as usize, b'v');
    value
}

fn scan(tx: &Transaction, table: &Table, span: Span, forward: bool) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut cursor = tx.cursor(table, span).unwrap();
    let mut found = Vec::new();
    while let Some((key, value)) = if forward { cursor.next() } else { cursor.prev() }.unwrap() {
        found.push((key.to_vec(), value.to_vec()));
        let most = found.len() % 9;
        let each =
            |front: &[u8], rest: &[u8], value: &[u8]| found.push(([front, rest].concat(), value.to_vec()));
        let _shown = if forward { cursor.run_on(most, each) } else { cursor.run_back(most, each) }.unwrap();
    }
    if !forward {
        found.reverse();
    }
    found
}

fn rows(model: &Model) -> Vec<(Vec<u8>, Vec<u8>)> {
    model.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn write(tx: &mut Transaction, table: &Table, model: &mut Model, random: &mut Random) {
    let key = key(random);
    match random.below(100) {
        0..55 => {
            let value = value(random);
            tx.put(table, &key, &value).unwrap();
            model.insert(key, value);
        }
        55..70 => {
            let value = value(random);
            match tx.insert(table, &key, &value) {
                Ok(()) => assert!(model.insert(key, value).is_none()),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Exists);
                    assert!(model.contains_key(&key));
                }
            }
        }
        70..80 => {
            tx.delete(table, &key).unwrap();
            model.remove(&key);
        }
        80..85 => assert_eq!(tx.remove(table, &key).unwrap(), model.remove(&key)),
        85..88 => {
            let end = [&key[..], &b"5"[..]].concat();
            tx.delete_range(table, &Span::from(&key[..]..&end[..])).unwrap();
            model.retain(|k, _| *k < key || *k >= end);
        }
        88..90 => {
            let end = format!("{:04}", random.below(700)).into_bytes();
            tx.delete_range(table, &Span::from(&key[..]..&end[..])).unwrap();
            model.retain(|k, _| *k < key || *k >= end);
        }
        90..93 => {
            let new = value(random);
            let expected = model.get(&key).cloned();
            assert!(tx.compare_and_swap(table, &key, expected.as_deref(), Some(&new)).unwrap());
            model.insert(key, new);
        }
        93..96 => {
            let mut records: Vec<_> =
                (0..random.below(60)).map(|_| (self::key(random), value(random))).collect();
            if random.chance(1, 2) {
                records.sort();
            }
            tx.bulk_load(table, records.iter().cloned().map(Ok)).unwrap();
            model.extend(records);
        }
        _ => {
            let mut cursor = tx.cursor_mut(table, Span::from(&key[..]..)).unwrap();
            for _ in 0..random.below(12) {
                let Some((at, _)) = cursor.next().unwrap() else { break };
                let at = at.to_vec();
                if random.chance(1, 3) {
                    cursor.delete().unwrap();
                    model.remove(&at);
                } else {
                    let value = value(random);
                    cursor.put(&value).unwrap();
                    model.insert(at, value);
                }
            }
        }
    }
}

/// Puts keys after all others.
fn append(tx: &mut Transaction, table: &Table, model: &mut Model, random: &mut Random) {
    let last = model.keys().next_back().and_then(|last| std::str::from_utf8(last).unwrap().parse().ok());
    let from = last.map_or(0, |last: u32| last + 1).max(100_000);
    for n in from..from + random.below(12) as u32 {
        let (key, value) = (n.to_string().into_bytes(), value(random));
        tx.insert(table, &key, &value).unwrap();
        model.insert(key, value);
    }
}

fn first_with_prefix(tx: &Transaction, table: &Table, prefix: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    tx.first_with_prefix(table, prefix, |rest, value| (rest.to_vec(), value.to_vec())).unwrap()
}

fn check_reads(tx: &Transaction, table: &Table, model: &Model, random: &mut Random) {
    let any = |random: &mut Random| match model.len() as u64 {
        count if count > 0 && random.chance(1, 2) => {
            model.keys().nth(random.below(count) as usize).unwrap().clone()
        }
        _ => key(random),
    };
    let (start, end) = (any(random), any(random));
    assert_eq!(tx.get(table, &start).unwrap(), model.get(&start).cloned());
    assert_eq!(tx.contains(table, &end).unwrap(), model.contains_key(&end));
    let prefix = &start[..1 + random.below(4) as usize];
    let first = model.range(prefix.to_vec()..).next().filter(|(key, _)| key.starts_with(prefix));
    let first = first.map(|(key, value)| (key[prefix.len()..].to_vec(), value.clone()));
    assert_eq!(first_with_prefix(tx, table, prefix), first, "{prefix:?}");
    if start < end {
        let expected: Vec<_> =
            model.range(start.clone()..end.clone()).map(|(k, v)| (k.clone(), v.clone())).collect();
        assert_eq!(scan(tx, table, Span::from(&start[..]..&end[..]), random.chance(1, 2)), expected);
    }
}

#[test]
fn a_spilled_transaction_is_what_it_wrote() {
    spilled_transactions(0..24, 0);
}

/// The leaves of spilled runs that follow one another are joined.
#[test]
fn a_spilled_transaction_that_appends_is_what_it_wrote() {
    spilled_transactions(24..48, 9);
}

/// Random transactions. Of ten writes, `appends` are of keys after all others.
fn spilled_transactions(seeds: Range<u64>, appends: u64) {
    for seed in seeds {
        let mut random = Random::seeded(seed);
        let bound = [500, 2_000, 10_000][random.below(3) as usize];
        let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
        let mut store = open(&dir, bound);
        let mut table = table(&store);
        let mut committed = Model::new();
        for round in 0..8 {
            let before = committed.clone();
            let old = store.snapshot().unwrap();
            let mut tx = begin(&store, Isolation::Serializable);
            let mut model = committed.clone();
            let mut savepoints = Vec::new();
            for _ in 0..40 + random.below(260) {
                match random.chance(appends, 10) {
                    true => append(&mut tx, &table, &mut model, &mut random),
                    false => write(&mut tx, &table, &mut model, &mut random),
                }
                match random.below(40) {
                    0..2 => savepoints.push((tx.savepoint(), model.clone())),
                    3 if !savepoints.is_empty() => {
                        let at = random.below(savepoints.len() as u64) as usize;
                        tx.release(&savepoints[at].0).unwrap();
                        savepoints.truncate(at);
                    }
                    2 if !savepoints.is_empty() => {
                        let at = random.below(savepoints.len() as u64) as usize;
                        savepoints.truncate(at + 1);
                        tx.rollback_to(&savepoints[at].0).unwrap();
                        model = savepoints[at].1.clone();
                        assert_eq!(scan(&tx, &table, Span::all(), true), rows(&model), "seed {seed}");
                    }
                    3..6 => check_reads(&tx, &table, &model, &mut random),
                    6 if random.chance(1, 3) => drop(store.checkpoint().unwrap()),
                    _ => {}
                }
            }
            assert_eq!(scan(&tx, &table, Span::all(), false), rows(&model), "seed {seed}, round {round}");
            if random.chance(1, 4) {
                drop(tx);
            } else {
                commit(&store, tx).unwrap();
                committed = model;
            }
            let old_rows = begin_rows(&old, &table);
            assert_eq!(old_rows, rows(&before), "seed {seed}, round {round}: an older snapshot");
            drop(old);
            assert_eq!(begin_rows(&store.snapshot().unwrap(), &table), rows(&committed), "seed {seed}");
            let report = store.check().unwrap();
            assert_eq!(report.orphan_units, 0, "seed {seed}, round {round}");
            if random.chance(1, 3) {
                store.close().unwrap();
                store = open(&dir, bound);
                table = store.snapshot().unwrap().table("t").unwrap().unwrap();
                assert_eq!(begin_rows(&store.snapshot().unwrap(), &table), rows(&committed), "seed {seed}");
            }
        }
        while store.checkpoint().unwrap() {}
        assert_eq!(begin_rows(&store.snapshot().unwrap(), &table), rows(&committed), "seed {seed}");
        assert_eq!(store.check().unwrap().records, committed.len() as u64 + 1);
        assert_eq!(store.check().unwrap().orphan_units, 0);
        assert_eq!(store.stats().unwrap().attached_runs, 0, "seed {seed}");
    }
}

fn begin_rows(snapshot: &pando_store::Snapshot, table: &Table) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut cursor = snapshot.cursor(table, Span::all()).unwrap();
    let mut found = Vec::new();
    while let Some((key, value)) = cursor.next().unwrap() {
        found.push((key.to_vec(), value.to_vec()));
        if let Some(mut run) = cursor.lend_run(found.len() % 9).unwrap() {
            let (front, records) = run.show(usize::MAX);
            found.extend(records.map(|(rest, value, _)| ([front, rest].concat(), value.to_vec())));
        }
    }
    for (key, value) in found.iter().step_by(7) {
        assert_eq!(snapshot.get(table, key).unwrap().as_ref(), Some(value));
    }
    found
}

/// Fills a transaction until it has spilled the keys `from..to`.
fn fill(tx: &mut Transaction, table: &Table, numbers: std::ops::Range<u32>) {
    for n in numbers {
        tx.put(table, format!("{n:04}").as_bytes(), &[7; 40]).unwrap();
    }
    tx.spill().unwrap();
}

/// Runs of a transaction and attached ones lend their pages, and are run over in both directions.
#[test]
fn runs_above_the_lowest_are_not_walked_through() {
    let store = open(&(Arc::new(MemDir::new()) as Arc<dyn Dir>), 1 << 20);
    let table = table(&store);
    let mut tx = begin(&store, Isolation::Serializable);
    for part in 0..3 {
        fill(&mut tx, &table, part * 1000..part * 1000 + 1000);
    }
    for forward in [true, false] {
        let mut cursor = tx.cursor(&table, Span::all()).unwrap();
        let (mut steps, mut shown) = (0, 0);
        while if forward { cursor.advance() } else { cursor.retreat() }.unwrap() {
            let (most, each) = (usize::MAX, |_: &[u8], _: &[u8], value: &[u8]| assert_eq!(value, [7; 40]));
            shown += if forward { cursor.run_on(most, each) } else { cursor.run_back(most, each) }.unwrap();
            steps += 1;
        }
        assert!(steps + shown == 3000 && steps < 100, "forward {forward}: {steps} steps");
    }
    commit(&store, tx).unwrap();
    assert!(store.stats().unwrap().attached_runs > 0);
    let snapshot = store.snapshot().unwrap();
    let mut cursor = snapshot.cursor(&table, Span::all()).unwrap();
    let (mut steps, mut lent) = (0, 0);
    while cursor.advance().unwrap() {
        lent += cursor.lend_run(usize::MAX).unwrap().map_or(0, |run| run.left());
        steps += 1;
    }
    assert!(steps + lent == 3000 && steps < 100, "{steps} steps");
}

#[test]
fn what_others_read_is_held_against_attached_runs() {
    let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
    let store = open(&dir, 1000);
    let table = table(&store);
    let begin = || self::begin(&store, Isolation::Serializable);
    let (mut reader, mut scanner, mut phantom, mut apart, mut huge) =
        (begin(), begin(), begin(), begin(), begin());
    reader.get(&table, b"0005").unwrap();
    assert_eq!(scan(&scanner, &table, Span::from("0050".."0060"), true).len(), 0);
    assert_eq!(scan(&phantom, &table, Span::from("0300".."0400"), true).len(), 0);
    apart.get(&table, b"9").unwrap();
    fill(&mut huge, &table, 0..100);
    huge.delete_range(&table, &Span::from("0350".."0351")).unwrap();
    huge.spill().unwrap();
    commit(&store, huge).unwrap();
    for (tx, conflicts) in
        [(&mut reader, true), (&mut scanner, true), (&mut phantom, true), (&mut apart, false)]
    {
        let mut tx = std::mem::replace(tx, begin());
        tx.put(&table, b"zz", b"").unwrap();
        let committed = commit(&store, tx);
        assert_eq!(committed.is_err(), conflicts, "{committed:?}");
        if let Err(error) = committed {
            assert!(error.kind() == ErrorKind::Conflict && error.message().contains("\"t\""), "{error}");
        }
    }
}

#[test]
fn what_a_spilled_transaction_depends_on_is_held_against_others() {
    let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
    let store = open(&dir, 1000);
    let table = table(&store);
    // Blind writes depend on nothing under serializable; inserts have looked; under snapshot isolation writes count.
    for (isolation, insert, conflicts) in [
        (Isolation::Serializable, false, false),
        (Isolation::Serializable, true, true),
        (Isolation::Snapshot, false, true),
    ] {
        for other_spills in [false, true] {
            let mut huge = begin(&store, isolation);
            for n in 0..100 {
                let key = format!("{isolation:?}-{insert}-{other_spills}-{n:04}");
                match insert {
                    true => huge.insert(&table, key.as_bytes(), &[7; 40]).unwrap(),
                    false => huge.put(&table, key.as_bytes(), &[7; 40]).unwrap(),
                }
            }
            huge.spill().unwrap();
            let mut other = begin(&store, Isolation::Serializable);
            other
                .put(&table, format!("{isolation:?}-{insert}-{other_spills}-0050").as_bytes(), b"x")
                .unwrap();
            if other_spills {
                other.spill().unwrap();
            }
            commit(&store, other).unwrap();
            let committed = commit(&store, huge);
            assert_eq!(committed.is_err(), conflicts, "{isolation:?} {insert} {other_spills}: {committed:?}");
        }
    }
    assert_eq!(store.check().unwrap().orphan_units, 0, "what conflicted is free again");
}

#[test]
fn a_read_that_was_rolled_back_with_its_spilled_write_counts() {
    let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
    let store = open(&dir, 1000);
    let table = table(&store);
    let mut tx = begin(&store, Isolation::Serializable);
    tx.put(&table, b"a", b"1").unwrap();
    let savepoint = tx.savepoint();
    tx.insert(&table, b"k", b"1").unwrap();
    tx.spill().unwrap();
    tx.rollback_to(&savepoint).unwrap();
    assert_eq!(tx.get(&table, b"a").unwrap().as_deref(), Some(&b"1"[..]));
    let mut other = begin(&store, Isolation::Serializable);
    other.put(&table, b"k", b"2").unwrap();
    commit(&store, other).unwrap();
    assert_eq!(commit(&store, tx).unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(store.check().unwrap().orphan_units, 0);
}

#[test]
fn what_was_rolled_back_takes_no_memory() {
    let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
    let bound = 64 << 10;
    let store = open(&dir, bound);
    let table = table(&store);
    // With nothing else, behind a row of the catalog, and behind a record; within an outer savepoint, too.
    for (makes_table, puts, is_nested) in [
        (false, false, false),
        (true, false, false),
        (false, true, false),
        (false, false, true),
        (true, true, true),
    ] {
        let mut tx = begin(&store, Isolation::Serializable);
        if makes_table {
            tx.create_table(&format!("made {puts}"), RequestedLayout::BTree).unwrap();
        }
        if puts {
            tx.put(&table, b"put", b"there").unwrap();
        }
        let outer = is_nested.then(|| tx.savepoint());
        // 48 MiB, of a memory of 4.
        for n in 0..3000u32 {
            let savepoint = tx.savepoint();
            tx.insert(&table, &n.to_be_bytes(), &[7; 16 << 10]).unwrap();
            tx.rollback_to(&savepoint).unwrap();
            if n % 2 == 0 {
                tx.release(&savepoint).unwrap();
            }
            assert!(tx.bytes() <= bound, "{} bytes after {n}", tx.bytes());
        }
        assert_eq!(scan(&tx, &table, Span::all(), true).len(), usize::from(puts));
        if let Some(outer) = outer {
            tx.rollback_to(&outer).unwrap();
            assert_eq!(scan(&tx, &table, Span::all(), true).len(), usize::from(puts));
        }
        // That they were absent was seen.
        let mut other = begin(&store, Isolation::Serializable);
        other.put(&table, &1500u32.to_be_bytes(), b"").unwrap();
        other.delete(&table, &1500u32.to_be_bytes()).unwrap();
        commit(&store, other).unwrap();
        tx.put(&table, b"other", b"").unwrap();
        assert_eq!(commit(&store, tx).unwrap_err().kind(), ErrorKind::Conflict);
    }
}

#[test]
fn values_that_were_written_a_piece_at_a_time_are_spilled_like_others() {
    let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
    let bound = 64 << 10;
    let store = open(&dir, bound);
    let table = table(&store);
    let mut tx = begin(&store, Isolation::Serializable);
    // 16 MiB, of a memory of 4.
    for n in 0..1000u32 {
        let mut writer = tx.value_writer(&table, &n.to_be_bytes()).unwrap();
        writer.append(&[n as u8; 9_000]).unwrap();
        writer.append(&[7; 7_000]).unwrap();
        assert_eq!(writer.finish().unwrap(), 16_000);
        assert!(tx.bytes() <= bound, "{} bytes after {n}", tx.bytes());
    }
    commit(&store, tx).unwrap();
    let found = begin_rows(&store.snapshot().unwrap(), &table);
    assert_eq!(found.len(), 1000);
    for (key, value) in found {
        assert_eq!(value, [&[key[3]; 9_000][..], &[7; 7_000]].concat());
    }
}

#[test]
fn a_savepoint_that_is_gone_back_to_again_and_again_costs_no_more_each_time() {
    let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
    let store = open(&dir, 64 << 10);
    let table = table(&store);
    let mut tx = begin(&store, Isolation::Serializable);
    tx.put(&table, b"put", b"there").unwrap();
    let savepoint = tx.savepoint();
    for round in 0..100u32 {
        for n in 0..100u32 {
            tx.put(&table, &(round * 100 + n).to_be_bytes(), &[7; 2 << 10]).unwrap();
        }
        tx.rollback_to(&savepoint).unwrap();
        let held = store.memory().held.bytes(base::budget::MemoryCategory::WriteSets);
        assert!(held <= 1 << 20, "{held} bytes in round {round}");
    }
    assert_eq!(scan(&tx, &table, Span::all(), true).len(), 1);
}

#[test]
fn a_savepoint_releases_those_behind_it_also_where_there_was_a_spill_between() {
    let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
    let store = open(&dir, 64 << 10);
    let table = table(&store);
    let mut tx = begin(&store, Isolation::Serializable);
    let first = tx.savepoint();
    tx.put(&table, b"1", b"").unwrap();
    tx.spill().unwrap();
    let second = tx.savepoint();
    tx.put(&table, b"2", b"").unwrap();
    tx.release(&first).unwrap();
    assert_eq!(tx.rollback_to(&second).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(scan(&tx, &table, Span::all(), true).len(), 2);
}

#[test]
fn a_transaction_many_times_its_bound_is_one_commit() {
    let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
    let store = open(&dir, 64 << 10);
    let table = table(&store);
    let mut tx = begin(&store, Isolation::Serializable);
    let mut random = Random::seeded(7);
    // As by hand with 10 million; here as many times the bound as that is of 2 MiB.
    let records = 40_000u32;
    for n in 0..records {
        let key = n.wrapping_mul(0x9e37_79b1).to_be_bytes();
        tx.insert(&table, &key, &random.next_u64().to_be_bytes().repeat(6)).unwrap();
    }
    assert_eq!(tx.insert(&table, &0u32.to_be_bytes(), b"").unwrap_err().kind(), ErrorKind::Exists);
    assert!(tx.bytes() <= 64 << 10 && store.stats().unwrap().spills > 50);
    commit(&store, tx).unwrap();
    let snapshot = store.snapshot().unwrap();
    assert_eq!(begin_rows(&snapshot, &table).len(), records as usize);
    drop(snapshot);
    let record_bytes = u64::from(records) * 52;
    let waiting = store.table_stats().unwrap().remove(0);
    // The last of it stayed in memory.
    assert!(waiting.runs > 1 && waiting.record_bytes > record_bytes / 10 * 9, "{waiting:?}");
    while store.checkpoint().unwrap() {}
    let merged = store.table_stats().unwrap().remove(0);
    assert_eq!((merged.runs, merged.record_bytes), (1, record_bytes), "{merged:?}");
    assert!(
        merged.stored_bytes > record_bytes && merged.get_pages < waiting.get_pages,
        "{waiting:?} {merged:?}"
    );
    // And the row of the catalog.
    assert_eq!(store.check().unwrap().records, u64::from(records) + 1);
}

#[test]
fn large_transactions_that_follow_one_another_make_room_for_themselves() {
    let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
    let store = open(&dir, 4 << 10);
    let table = table(&store);
    // Nobody else makes checkpoints here.
    for round in 0..100_u32 {
        let mut tx = begin(&store, Isolation::Serializable);
        fill(&mut tx, &table, round * 20..round * 20 + 30);
        commit(&store, tx).unwrap();
    }
    assert_eq!(begin_rows(&store.snapshot().unwrap(), &table).len(), 99 * 20 + 30);
    assert!(store.stats().unwrap().checkpoints > 1);
}

/// What stays in memory becomes one block of the log, whose length is bounded however much memory there is.
#[test]
fn more_than_a_block_of_the_log_is_spilled_however_large_the_memory() {
    const VALUES: usize = 72;
    let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
    let store = pando_store::open_or_create(
        Arc::clone(&dir),
        &Options { memory_bytes: 4 << 30, ..Options::default() },
    )
    .unwrap();
    let table = table(&store);
    let mut tx = begin(&store, Isolation::Serializable);
    for number in 0..VALUES {
        tx.put(&table, &[number as u8], &vec![number as u8; 1_000_000]).unwrap();
    }
    commit(&store, tx).unwrap();
    let tx = begin(&store, Isolation::Serializable);
    for number in 0..VALUES {
        let value = tx.get(&table, &[number as u8]).unwrap().unwrap();
        assert!(value.len() == 1_000_000 && value.iter().all(|&byte| byte == number as u8), "value {number}");
    }
}

#[test]
fn a_load_replaces_a_large_value_that_was_put_before() {
    let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
    let store = pando_store::open_or_create(dir, &Options { large_bytes: 900, ..options(1000) }).unwrap();
    let table = table(&store);
    let mut tx = begin(&store, Isolation::Serializable);
    tx.put(&table, b"0500", &[1; 5000]).unwrap();
    tx.put(&table, b"9999", &[2; 5000]).unwrap();
    tx.bulk_load(&table, (0..1000u32).map(|n| Ok((format!("{n:04}"), [3; 20])))).unwrap();
    let long = (1000..1200u32).map(|n| Ok((format!("{n:04}"), vec![4; if n == 1100 { 9000 } else { 20 }])));
    assert_eq!(tx.bulk_load(&table, long).unwrap(), 200);
    assert_eq!(tx.get(&table, b"1100").unwrap().unwrap(), [4; 9000]);
    assert_eq!(tx.get(&table, b"1199").unwrap().unwrap(), [4; 20]);
    assert_eq!(tx.get(&table, b"0500").unwrap().unwrap(), [3; 20]);
    commit(&store, tx).unwrap();
    let snapshot = store.snapshot().unwrap();
    assert_eq!(snapshot.get(&table, b"0500").unwrap().unwrap(), [3; 20]);
    assert_eq!(snapshot.get(&table, b"9999").unwrap().unwrap(), [2; 5000]);
    drop(snapshot);
    while store.checkpoint().unwrap() {}
    assert_eq!(store.check().unwrap().orphan_units, 0);
}

/// A range delete hides a record that was read, and merges of the transaction's runs drop it: it still counts as read.
#[test]
fn a_read_is_not_lost_in_a_merge_of_runs() {
    for way in 0..3 {
        for is_deleted in [false, true] {
            println!("seed {way}, deleted: {is_deleted}");
            let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
            let store = open(&dir, 1 << 20);
            let table = table(&store);
            let mut tx = begin(&store, Isolation::Serializable);
            tx.put(&table, b"b", b"not read").unwrap();
            match way {
                0 => tx.insert(&table, b"k", b"1").unwrap(),
                1 => {
                    assert!(!tx.contains(&table, b"k").unwrap());
                    tx.put(&table, b"k", b"1").unwrap();
                }
                // One of many: the others are not read with it.
                _ => {
                    assert_eq!(tx.get(&table, b"k").unwrap(), None);
                    tx.put(&table, b"k", b"1").unwrap();
                    (0..100u8).for_each(|n| tx.put(&table, &[b'c', n], b"not read").unwrap());
                }
            }
            tx.spill().unwrap();
            if is_deleted {
                tx.delete_range(&table, &Span::from(&b"j"[..]..&b"l"[..])).unwrap();
            }
            for round in 0..20u8 {
                tx.put(&table, &[b'x', round], b"").unwrap();
                tx.spill().unwrap();
            }
            let mut other = begin(&store, Isolation::Serializable);
            other.put(&table, b"k", b"2").unwrap();
            commit(&store, other).unwrap();
            let error = commit(&store, tx).expect_err("the key was read, and has changed");
            assert_eq!(error.kind(), ErrorKind::Conflict);
        }
    }
}

#[test]
fn writes_beside_one_read_key_are_not_read_with_it() {
    let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
    let store = open(&dir, 1 << 20);
    let table = table(&store);
    let mut tx = begin(&store, Isolation::Serializable);
    (0..100u8).for_each(|n| tx.put(&table, &[b'c', n], b"not read").unwrap());
    assert_eq!(tx.get(&table, b"k").unwrap(), None);
    tx.put(&table, b"k", b"1").unwrap();
    tx.spill().unwrap();
    let mut other = begin(&store, Isolation::Serializable);
    other.put(&table, &[b'c', 5], b"2").unwrap();
    commit(&store, other).unwrap();
    commit(&store, tx).unwrap();
}

/// The first key with a prefix is found wherever it is, and what was looked at counts as read.
#[test]
fn the_first_key_with_a_prefix_is_found_and_read() {
    let key = |n: u32| format!("{n:04}").into_bytes();
    for place in ["own writes", "spilled", "attached", "memtable", "page"] {
        let store = open(&(Arc::new(MemDir::new()) as Arc<dyn Dir>), 1 << 20);
        let table = table(&store);
        let mut tx = begin(&store, Isolation::Serializable);
        (0..500).for_each(|n| tx.put(&table, &key(n * 2), b"value").unwrap());
        match place {
            "own writes" => {}
            "spilled" | "attached" => tx.spill().unwrap(),
            _ => {
                commit(&store, tx).unwrap();
                tx = begin(&store, Isolation::Serializable);
            }
        }
        if place == "attached" || place == "page" {
            commit(&store, tx).unwrap();
            if place == "page" {
                store.checkpoint().unwrap();
            }
            tx = begin(&store, Isolation::Serializable);
        }
        for n in 0..1000 {
            let found = (n % 2 == 0).then(|| (Vec::new(), b"value".to_vec()));
            assert_eq!(first_with_prefix(&tx, &table, &key(n)), found, "{place}: {n}");
        }
        for (prefix, rest) in [
            ("", Some("0000")),
            ("0", Some("000")),
            ("00", Some("00")),
            ("05", Some("00")),
            ("099", Some("0")),
            ("1", None),
            ("0998", Some("")),
            ("09981", None),
        ] {
            let found = first_with_prefix(&tx, &table, prefix.as_bytes());
            let rest = rest.map(|rest| rest.as_bytes().to_vec());
            assert_eq!(found.map(|(rest, _)| rest), rest, "{place}: {prefix}");
        }

        let mut other = begin(&store, Isolation::Serializable);
        other.put(&table, &key(77), b"new").unwrap();
        commit(&store, other).unwrap();
        tx.put(&table, b"5", b"").unwrap();
        assert_eq!(commit(&store, tx).unwrap_err().kind(), ErrorKind::Conflict, "{place}");
    }
}

/// The first keys with a prefix can be in the leaf after that to which the prefix leads.
#[test]
fn a_prefix_is_not_missed_at_the_end_of_a_leaf() {
    let store = open(&(Arc::new(MemDir::new()) as Arc<dyn Dir>), 1 << 20);
    let table = table(&store);
    let key = |n: u32| format!("{n:04}").into_bytes();
    let write = |change: &dyn Fn(&mut Transaction)| {
        let mut tx = begin(&store, Isolation::Serializable);
        change(&mut tx);
        commit(&store, tx).unwrap();
        store.checkpoint().unwrap();
    };
    // A leaf has four of them, so that some begin in the middle of ten keys, and all digits lead there.
    write(&|tx| (0..500).for_each(|n| tx.put(&table, &key(n), &[7; 900]).unwrap()));
    let is_first = |n: &u32| n % 10 < 4;
    write(&|tx| (0..500).filter(is_first).for_each(|n| tx.delete(&table, &key(n)).unwrap()));
    let tx = begin(&store, Isolation::Serializable);
    for tens in 0..50 {
        let prefix = format!("{tens:03}");
        let found = first_with_prefix(&tx, &table, prefix.as_bytes());
        assert_eq!(found, Some((b"4".to_vec(), vec![7; 900])), "{prefix} has six keys");
    }
}
