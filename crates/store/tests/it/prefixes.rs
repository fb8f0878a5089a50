//! The first record whose key begins with a prefix: what a cursor finds, wherever the keys are.

use base::ErrorKind;
use base::env::Random;
use io::MemDir;
use pando_store::ttl::Ttl;
use pando_store::{
    Compression, Options, RequestedLayout, Snapshot, Span, Store, Table, Transaction, TransactionOptions,
};
use std::sync::Arc;
use std::time::Duration;
use txn::Isolation;

type Record = Option<(Vec<u8>, Vec<u8>)>;

struct Bed {
    store: Arc<Store>,
    tables: Vec<Table>,
}

impl Bed {
    /// Makes a B+tree, an LSM table, and one with a TTL.
    fn new() -> Bed {
        let options = Options {
            page_bytes: Some(4096),
            memory_bytes: 16 << 20,
            write_set_bytes: Some(50_000),
            ..Options::default()
        };
        let store = pando_store::open_or_create(Arc::new(MemDir::new()), &options).unwrap();
        let mut tx = Transaction::begin(&store, TransactionOptions::default()).unwrap();
        let ttl = Ttl::new(Duration::from_hours(1)).unwrap();
        let tables = vec![
            tx.create_table("tree", RequestedLayout::BTree).unwrap(),
            tx.create_table("lsm", RequestedLayout::Lsm).unwrap(),
            tx.create_table_with("dated", RequestedLayout::BTree, Some(ttl), Compression::None).unwrap(),
        ];
        store.acknowledge(tx.apply().unwrap()).unwrap();
        Bed { store, tables }
    }

    fn begin(&self) -> Transaction {
        let options =
            TransactionOptions { isolation: Isolation::Serializable, ..TransactionOptions::default() };
        Transaction::begin(&self.store, options).unwrap()
    }

    fn commit(&self, tx: Transaction) {
        self.store.acknowledge(tx.apply().unwrap()).unwrap();
    }
}

/// Returns a key of four digits of base 8, some of which have a tail.
fn key(random: &mut Random) -> Vec<u8> {
    let n = random.below(4096);
    let tail = if random.chance(1, 8) { "tail" } else { "" };
    format!("{n:04o}{tail}").into_bytes()
}

fn change(tx: &mut Transaction, table: &Table, random: &mut Random) {
    let key = key(random);
    match random.below(40) {
        0 => tx.put(table, &key, &vec![7; 20_000]).unwrap(),
        1 => tx.delete_range(table, &Span::prefix(&key[..1 + random.below(3) as usize])).unwrap(),
        2..14 => tx.delete(table, &key).unwrap(),
        _ => tx.put(table, &key, &random.below(1 << 40).to_le_bytes()).unwrap(),
    }
}

fn pair(rest: &[u8], value: &[u8]) -> (Vec<u8>, Vec<u8>) {
    (rest.to_vec(), value.to_vec())
}

fn check_snapshot(snapshot: &Snapshot, table: &Table, random: &mut Random, what: &str) {
    for _ in 0..20 {
        let prefix = &key(random)[..random.below(5) as usize];
        let mut cursor = snapshot.cursor(table, Span::prefix(prefix)).unwrap();
        let expected: Record = cursor.next().unwrap().map(|(key, value)| pair(&key[prefix.len()..], value));
        assert_eq!(snapshot.first_with_prefix(table, prefix, pair).unwrap(), expected, "{what}: {prefix:?}");
    }
}

fn check_transaction(tx: &Transaction, table: &Table, random: &mut Random, what: &str) {
    for _ in 0..20 {
        let prefix = &key(random)[..random.below(5) as usize];
        let mut cursor = tx.cursor_untracked(table, Span::prefix(prefix)).unwrap();
        let expected: Record = cursor.next().unwrap().map(|(key, value)| pair(&key[prefix.len()..], value));
        assert_eq!(tx.first_with_prefix(table, prefix, pair).unwrap(), expected, "{what}: {prefix:?}");
    }
}

#[test]
fn it_is_what_a_cursor_finds() {
    for seed in 0..12 {
        let mut random = Random::seeded(seed);
        let (bed, mut held) = (Bed::new(), Vec::new());
        for round in 0..40 {
            let what = format!("seed {seed}, round {round}");
            let mut tx = bed.begin();
            for _ in 0..1 + random.below(60) {
                let table = &bed.tables[random.below(3) as usize];
                change(&mut tx, table, &mut random);
            }
            if random.chance(1, 4) {
                tx.spill().unwrap();
                change(&mut tx, &bed.tables[0], &mut random);
            }
            for table in &bed.tables {
                check_transaction(&tx, table, &mut random, &what);
            }
            bed.commit(tx);
            if random.chance(1, 5) {
                bed.store.checkpoint().unwrap();
            }
            if random.chance(1, 6) {
                held.push(bed.store.snapshot().unwrap());
            }
            held.push(bed.store.snapshot().unwrap());
            for snapshot in &held {
                for table in &bed.tables {
                    check_snapshot(snapshot, table, &mut random, &what);
                }
            }
            held.truncate(3);
        }
    }
}

/// Only the keys up to the one that was found count as read, or all that could have been found.
#[test]
fn what_was_looked_at_counts_as_read() {
    let bed = Bed::new();
    let table = &bed.tables[0];
    let mut tx = bed.begin();
    ["b/5", "d/1"].iter().for_each(|key| tx.put(table, key.as_bytes(), b"1").unwrap());
    bed.commit(tx);
    for is_settled in [false, true] {
        if is_settled {
            bed.store.checkpoint().unwrap();
        }
        for (prefix, changed, is_conflict) in [
            ("b/", "b/4", true),
            ("b/", "b/5", true),
            ("b/", "b/6", false),
            ("b/", "a", false),
            ("c/", "c/9", true),
            ("c/", "c0", false),
            ("c/", "b/7", false),
        ] {
            let mut tx = bed.begin();
            let found = tx.first_with_prefix(table, prefix.as_bytes(), pair).unwrap();
            assert_eq!(found.is_some(), prefix == "b/");
            tx.put(table, b"z", b"2").unwrap();
            let mut other = bed.begin();
            other.put(table, changed.as_bytes(), b"3").unwrap();
            bed.commit(other);
            let applied = tx.apply();
            assert_eq!(applied.is_err(), is_conflict, "{prefix}, {changed}");
            match applied {
                Ok(applied) => drop(bed.store.acknowledge(applied).unwrap()),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict),
            }
            let mut undo = bed.begin();
            undo.delete(table, changed.as_bytes()).unwrap();
            undo.put(table, b"b/5", b"1").unwrap();
            bed.commit(undo);
            if is_settled {
                bed.store.checkpoint().unwrap();
            }
        }
    }
}

/// The closure may use the transaction that it is called by.
#[test]
fn the_closure_may_read() {
    let bed = Bed::new();
    let table = &bed.tables[0];
    let mut tx = bed.begin();
    tx.put(table, b"mail/7", b"").unwrap();
    tx.put(table, b"7", b"ann").unwrap();
    bed.commit(tx);
    for is_settled in [false, true] {
        if is_settled {
            bed.store.checkpoint().unwrap();
        }
        let tx = bed.begin();
        let name = tx.first_with_prefix(table, b"mail/", |id, _| tx.get(table, id).unwrap()).unwrap();
        assert_eq!(name, Some(Some(b"ann".to_vec())));
    }
}
