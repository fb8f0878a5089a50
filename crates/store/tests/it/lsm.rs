//! LSM tables against `BTreeMap`: spilled, merged slice by slice, switched, dropped, reopened; in both layouts at once.

use base::ErrorKind;
use base::env::Random;
use io::{Dir, MemDir};
use pando_store::relocate::Compaction;
use pando_store::tables::Layout;
use pando_store::{
    Compression, Options, RequestedLayout, Snapshot, Span, Store, Table, Transaction, TransactionOptions,
};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use txn::{Durability, Isolation};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn options((slice_bytes, fan, page_bytes): Merging) -> Options {
    Options {
        page_bytes: Some(page_bytes),
        memory_bytes: 4 << 20,
        write_set_bytes: Some(30_000),
        large_bytes: 9_000,
        piece_bytes: 4096,
        slice_bytes,
        fan,
        ..Options::default()
    }
}

/// Bytes of a slice, how many runs are merged into one, and bytes of a page.
type Merging = (u64, usize, usize);

fn open(dir: &Arc<dyn Dir>, merging: Merging) -> Arc<Store> {
    pando_store::open_or_create(Arc::clone(dir), &options(merging)).unwrap()
}

fn begin(store: &Arc<Store>) -> Transaction {
    let options = TransactionOptions { isolation: Isolation::Serializable, durability: Durability::Buffered };
    Transaction::begin(store, options).unwrap()
}

fn commit(store: &Store, tx: Transaction) {
    let applied = tx.apply().unwrap();
    store.acknowledge(applied).unwrap();
}

fn create(store: &Arc<Store>, name: &str, layout: RequestedLayout) -> Table {
    let mut tx = begin(store);
    let table = tx.create_table(name, layout).unwrap();
    commit(store, tx);
    table
}

/// Where it is an LSM table.
fn set_compression(store: &Arc<Store>, name: &str, compression: Compression) {
    let mut tx = begin(store);
    let table = tx.table(name).unwrap().unwrap();
    let set = tx.set_compression(&table, compression);
    assert_eq!(set.is_err(), table.layout() == RequestedLayout::BTree && compression == Compression::Lz4);
    commit(store, tx);
}

fn key(random: &mut Random) -> Vec<u8> {
    format!("{:05}", random.below(3000)).into_bytes()
}

/// Values that no two writes share; a few outside of pages, some of these in pieces.
fn value(random: &mut Random) -> Vec<u8> {
    let len = match random.below(60) {
        0 => 10_000 + random.below(9000),
        1 => 1500 + random.below(6000),
        _ => random.below(100),
    };
    let mut value = random.next_u64().to_be_bytes().to_vec();
    value.resize(8 + len as usize, b'v');
    value
}

fn write(tx: &mut Transaction, table: &Table, model: &mut Model, random: &mut Random) {
    let key = key(random);
    match random.below(1000) {
        0..700 => {
            let value = value(random);
            tx.put(table, &key, &value).unwrap();
            model.insert(key, value);
        }
        700..950 => {
            tx.delete(table, &key).unwrap();
            model.remove(&key);
        }
        950..999 => {
            let mut end = key.clone();
            end[3] = end[3].saturating_add(1 + random.below(4) as u8);
            tx.delete_range(table, &(&*key..&*end).into()).unwrap();
            model.retain(|k, _| *k < key || *k >= end);
        }
        _ => {
            tx.delete_range(table, &Span::all()).unwrap();
            model.clear();
        }
    }
}

/// Everything that a snapshot shows, in every way.
fn verify(snapshot: &Snapshot, table: &Table, model: &Model, random: &mut Random) {
    let mut cursor = snapshot.cursor(table, Span::all()).unwrap();
    for (key, value) in model {
        let found = cursor.next().unwrap().expect("a record");
        assert_eq!((found.0, found.1), (&key[..], &value[..]));
    }
    assert!(cursor.next().unwrap().is_none());
    for (key, value) in model.iter().rev() {
        assert_eq!(cursor.prev().unwrap().expect("a record"), (&key[..], &value[..]));
    }
    assert!(cursor.prev().unwrap().is_none());
    for _ in 0..200 {
        let key = key(random);
        assert_eq!(snapshot.get(table, &key).unwrap().as_ref(), model.get(&key));
        assert_eq!(snapshot.contains(table, &key).unwrap(), model.contains_key(&key));
        let end = [&key[..3], b"~"].concat();
        let mut cursor = snapshot.cursor(table, (&*key..&*end).into()).unwrap();
        let mut expected = model.range(key..end);
        loop {
            let found = cursor.next().unwrap().map(|(key, value)| (key.to_vec(), value.to_vec()));
            let next = expected.next().map(|(key, value)| (key.clone(), value.clone()));
            assert_eq!(found, next);
            if next.is_none() {
                break;
            }
        }
    }
}

fn layout_of(store: &Store, table: &Table) -> Option<Layout> {
    store.layout_of(table)
}

#[test]
fn an_lsm_table_is_a_map() {
    for seed in 0..12 {
        run(seed, RequestedLayout::Lsm, 0, 4096);
    }
}

/// Its compression is given and taken away now and then.
#[test]
fn a_compressed_table_is_a_map() {
    for seed in 200..212 {
        run(seed, RequestedLayout::Lsm, if seed % 3 == 0 { 25 } else { 0 }, 8192 << (seed % 3));
    }
}

#[test]
fn a_table_that_is_switched_again_and_again_is_a_map() {
    for seed in 100..112 {
        run(seed, if seed % 2 == 0 { RequestedLayout::Lsm } else { RequestedLayout::BTree }, 25, 4096);
    }
}

fn run(seed: u64, layout: RequestedLayout, switches: u64, page_bytes: usize) {
    // Shown if it fails: not every check below knows it.
    println!("seed {seed}");
    let mut random = Random::seeded(seed);
    let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
    let slice_bytes = [2_000, 20_000, 1 << 20][random.below(3) as usize];
    let merging = (slice_bytes, [2, 3, 8][random.below(3) as usize], page_bytes);
    let mut store = open(&dir, merging);
    let mut table = create(&store, "t", layout);
    let mut model = Model::new();
    let mut held: Vec<(Snapshot, Model)> = Vec::new();
    for turn in 0..400 {
        if page_bytes > 4096 && turn % 80 == 0 {
            let compression = if turn % 320 == 240 { Compression::None } else { Compression::Lz4 };
            set_compression(&store, "t", compression);
        }
        match random.below(100) {
            0..45 => {
                let mut tx = begin(&store);
                for _ in 0..1 + random.below(60) {
                    write(&mut tx, &table, &mut model, &mut random);
                }
                if random.chance(1, 5) {
                    tx.spill().unwrap();
                    write(&mut tx, &table, &mut model, &mut random);
                }
                commit(&store, tx);
            }
            45..65 => {
                store.checkpoint().unwrap();
                // Filters get into memory a part at a time, while runs come and go.
                store.keep_filters().unwrap();
            }
            65..85 => {
                if let Some(round) = store.begin_compaction().unwrap() {
                    round.finish().unwrap();
                }
            }
            85..88 if random.chance(1, 4) => compact(&store),
            88..91 if random.below(100) < switches => {
                let to = RequestedLayout::ALL[random.below(2) as usize];
                let mut tx = begin(&store);
                tx.set_layout(&table, to).unwrap();
                commit(&store, tx);
            }
            91..93 => held.push((store.snapshot().unwrap(), model.clone())),
            93..95 => {
                if let Some((snapshot, model)) = held.pop() {
                    verify(&snapshot, &table, &model, &mut random);
                }
            }
            95 => {
                held.clear();
                store.close().unwrap();
                store = open(&dir, merging);
                table = store.snapshot().unwrap().table("t").unwrap().unwrap();
            }
            96 => {
                let report = store.check().unwrap();
                assert_eq!(report.orphan_units, 0, "seed {seed}");
            }
            _ => verify(&store.snapshot().unwrap(), &table, &model, &mut random),
        }
    }
    verify(&store.snapshot().unwrap(), &table, &model, &mut random);
    held.clear();
    store.checkpoint().unwrap();
    compact(&store);
    verify(&store.snapshot().unwrap(), &table, &model, &mut random);
    let row = store.snapshot().unwrap().table("t").unwrap().unwrap();
    if row.compression() == Compression::Lz4 && row.layout() == RequestedLayout::Lsm && !model.is_empty() {
        let stats = &store.table_stats().unwrap()[0];
        assert!(stats.saved_bytes > 0, "seed {seed}: {stats:?}");
    }
    let wanted = store.snapshot().unwrap().table("t").unwrap().unwrap().layout();
    match layout_of(&store, &table) {
        None => assert!(model.is_empty()),
        Some(Layout::BTree(_)) => assert_eq!(wanted, RequestedLayout::BTree, "seed {seed}"),
        Some(Layout::Lsm(stack)) => {
            assert_eq!(wanted, RequestedLayout::Lsm, "seed {seed}");
            assert_eq!(stack.entries().len(), 1, "seed {seed}: wholly merged");
            assert!(!stack.entries()[0].delta.records.deletes);
        }
    }
    assert_eq!(store.check().unwrap().orphan_units, 0, "seed {seed}");
    let mut tx = begin(&store);
    tx.drop_table(&table).unwrap();
    commit(&store, tx);
    store.checkpoint().unwrap();
    assert!(layout_of(&store, &table).is_none(), "seed {seed}: a dropped table has no runs");
    assert_eq!(store.check().unwrap().orphan_units, 0, "seed {seed}");
}

/// So many that they are not kept beside the records, but carried out at once; the deltas below have filters.
#[test]
fn deltas_that_many_range_deletes_empty_leave_nothing() {
    let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
    // Nothing is spilled, so that all ranges come in one memtable.
    let options = Options { write_set_bytes: Some(1 << 20), ..options((1 << 20, 8, 4096)) };
    let store = pando_store::open_or_create(Arc::clone(&dir), &options).unwrap();
    let table = create(&store, "t", RequestedLayout::Lsm);
    let key = |n: u32| format!("{n:06}").into_bytes();
    for third in 0..3 {
        let mut tx = begin(&store);
        (0..1000).for_each(|n| tx.put(&table, &key(3 * n + third), b"value").unwrap());
        commit(&store, tx);
        store.checkpoint().unwrap();
    }
    let Some(Layout::Lsm(stack)) = layout_of(&store, &table) else { panic!("an LSM table") };
    assert!(stack.entries().iter().any(|entry| entry.delta.filter.root.is_some()), "there are filters");
    let mut tx = begin(&store);
    for n in 0..3000 {
        let end = [&key(n)[..], &[0]].concat();
        let only = Span::between(Bound::Included(&key(n)), Bound::Excluded(&end));
        tx.delete_range(&table, &only).unwrap();
    }
    commit(&store, tx);
    store.checkpoint().unwrap();
    let left = layout_of(&store, &table);
    assert_eq!(store.check().unwrap().orphan_units, 0, "{left:?}");
    assert!(left.is_none(), "{left:?}");
}

fn compact(store: &Arc<Store>) {
    let mut compaction = Compaction::new();
    while let Some(round) = compaction.next_round(store).unwrap() {
        round.finish().unwrap();
    }
}

/// What is merged while the option says so is compressed; what lies there stays as it is. What is compressed is read
/// when the table is none of an LSM table any more.
#[test]
fn compression_is_what_the_next_merge_does() {
    let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
    let merging = (1 << 20, 8, 16384);
    let mut store = open(&dir, merging);
    let table = create(&store, "t", RequestedLayout::Lsm);
    let mut random = Random::seeded(5);
    let mut model = Model::new();
    let mut fill = |store: &Arc<Store>, model: &mut Model| {
        let mut tx = begin(store);
        for _ in 0..2000 {
            let (key, value) = (key(&mut random), value(&mut random));
            tx.put(&table, &key, &value[..value.len().min(100)]).unwrap();
            model.insert(key, value[..value.len().min(100)].to_vec());
        }
        commit(store, tx);
        store.checkpoint().unwrap();
    };
    let saved = |store: &Arc<Store>| store.table_stats().unwrap()[0].saved_bytes;
    fill(&store, &mut model);
    assert_eq!(saved(&store), 0);
    set_compression(&store, "t", Compression::Lz4);
    store.checkpoint().unwrap();
    assert_eq!(saved(&store), 0, "nothing is rewritten by the option");
    fill(&store, &mut model);
    let compressed = saved(&store);
    assert!(compressed > 30_000, "{compressed}");
    set_compression(&store, "t", Compression::None);
    fill(&store, &mut model);
    assert!(saved(&store) <= compressed);
    set_compression(&store, "t", Compression::Lz4);
    compact(&store);
    let report = store.check().unwrap();
    // Small tables of one leaf, as the catalog is, take one unit of four.
    let small = report.saved_bytes - saved(&store);
    assert!(small > 0 && small <= 4 * 3 * 4096, "{small}");
    assert!(report.saved_bytes > report.leaves * 16384 / 3, "{report:?}");
    let mut tx = begin(&store);
    let handle = tx.table("t").unwrap().unwrap();
    tx.set_layout(&handle, RequestedLayout::BTree).unwrap();
    commit(&store, tx);
    store.checkpoint().unwrap();
    compact(&store);
    assert!(matches!(layout_of(&store, &table), Some(Layout::BTree(_))));
    fill(&store, &mut model);
    store.close().unwrap();
    store = open(&dir, merging);
    let handle = store.snapshot().unwrap().table("t").unwrap().unwrap();
    assert_eq!(handle.compression(), Compression::Lz4, "it is as it was, for when the layout is");
    verify(&store.snapshot().unwrap(), &handle, &model, &mut Random::seeded(1));
    store.check().unwrap();
}

#[test]
fn a_table_that_cannot_be_compressed_says_so() {
    let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
    let store = open(&dir, (1 << 20, 8, 8192));
    let mut tx = begin(&store);
    let made = tx.create_table_with("t", RequestedLayout::BTree, None, Compression::Lz4).unwrap_err();
    assert!(made.kind() == ErrorKind::Invalid && made.message().contains("give it layout lsm"), "{made}");
    let table = tx.create_table("t", RequestedLayout::BTree).unwrap();
    assert_eq!(tx.set_compression(&table, Compression::Lz4).unwrap_err().kind(), ErrorKind::Invalid);
    tx.set_compression(&table, Compression::None).unwrap();
    drop(tx);
    let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
    let store = open(&dir, (1 << 20, 8, 4096));
    let mut tx = begin(&store);
    let made = tx.create_table_with("t", RequestedLayout::Lsm, None, Compression::Lz4).unwrap_err();
    assert!(made.kind() == ErrorKind::Invalid && made.message().contains("larger pages"), "{made}");
}
