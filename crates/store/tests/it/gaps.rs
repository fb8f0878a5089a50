//! Inserts and gets of keys that ascend, among rows that exist, are deleted, or are added meanwhile, compared with
//! `BTreeMap`: what is known of a gap is never more than the snapshot says, and what was not looked up is validated
//! all the same.

use base::ErrorKind;
use base::env::Random;
use io::{Dir, MemDir};
use pando_store::{Options, RequestedLayout, Span, Store, Table, Transaction, TransactionOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use txn::{Durability, Isolation};

const KEYS: u64 = 600;

type Model = BTreeMap<Vec<u8>, u64>;

fn key(number: u64) -> Vec<u8> {
    // Some that others begin with, and some longer than what is compared at once.
    let mut key = (number / 3).to_be_bytes()[5..].to_vec();
    key.extend_from_slice([&b""[..], b"\0", b"a longer end"][(number % 3) as usize]);
    key
}

fn begin(store: &Arc<Store>) -> Transaction {
    let options = TransactionOptions { isolation: Isolation::Serializable, durability: Durability::Buffered };
    Transaction::begin(store, options).unwrap()
}

fn open(dir: &Arc<dyn Dir>) -> Arc<Store> {
    let options = Options { page_bytes: Some(4096), memory_bytes: 4 << 20, ..Options::default() };
    pando_store::open_or_create(Arc::clone(dir), &options).unwrap()
}

/// Looks a key up once, as a program does before it puts the key, and compares what it finds with `expected`.
fn check_absent(
    tx: &Transaction,
    table: &Table,
    key: &[u8],
    expected: Option<&u64>,
) -> Result<(), ErrorKind> {
    let is_there = if key.len().is_multiple_of(2) {
        tx.contains(table, key).unwrap()
    } else {
        let number = |value: &[u8]| u64::from_be_bytes(value.try_into().unwrap());
        let found = tx.get_with(table, key, number).unwrap();
        assert_eq!(found.as_ref(), expected);
        found.is_some()
    };
    assert_eq!(is_there, expected.is_some());
    if is_there { Err(ErrorKind::Exists) } else { Ok(()) }
}

struct Bed {
    store: Arc<Store>,
    table: Table,
    random: Random,
    model: Model,
}

impl Bed {
    /// Changes some rows in a transaction of its own; answers which keys.
    fn change(&mut self) -> BTreeSet<Vec<u8>> {
        let mut changed = BTreeSet::new();
        let mut tx = begin(&self.store);
        for _ in 0..self.random.below(6) {
            let first = self.random.below(KEYS);
            let (start, end) = (key(first), key((first + self.random.below(40)).min(KEYS - 1)));
            match self.random.below(4) {
                0 if start < end => {
                    tx.delete_range(&self.table, &Span::from(&start[..]..&end[..])).unwrap();
                    changed.extend((0..KEYS).map(key).filter(|key| start <= *key && *key < end));
                    self.model.retain(|key, _| !(start <= *key && *key < end));
                }
                1 => {
                    tx.delete(&self.table, &start).unwrap();
                    self.model.remove(&start);
                    changed.insert(start);
                }
                _ => {
                    tx.put(&self.table, &start, &first.to_be_bytes()).unwrap();
                    self.model.insert(start.clone(), first);
                    changed.insert(start);
                }
            }
        }
        let applied = tx.apply().unwrap();
        self.store.acknowledge(applied).unwrap();
        changed
    }

    /// Inserts in runs; others change rows meanwhile.
    fn insert(&mut self) {
        // What the transaction sees, and what of it are writes of its own.
        let mut own = (self.model.clone(), BTreeSet::new());
        let mut tx = begin(&self.store);
        let (mut looked_up, mut theirs) = (BTreeSet::new(), BTreeSet::new());
        for _ in 0..self.random.below(8) {
            let mut number = self.random.below(KEYS);
            let savepoint = (self.random.below(4) == 0).then(|| (tx.savepoint(), own.clone()));
            for _ in 0..self.random.below(80) {
                number += 1 + self.random.below(4) / 3;
                let at = key(number);
                let expected = if own.0.contains_key(&at) { Err(ErrorKind::Exists) } else { Ok(()) };
                let inserted = match self.random.below(3) {
                    0 => check_absent(&tx, &self.table, &at, own.0.get(&at)).map(|()| {
                        tx.put(&self.table, &at, &number.to_be_bytes()).unwrap();
                    }),
                    _ => tx.insert(&self.table, &at, &number.to_be_bytes()).map_err(|error| error.kind()),
                };
                assert_eq!(inserted, expected);
                if !own.1.contains(&at) {
                    looked_up.insert(at.clone());
                }
                if expected.is_ok() {
                    own.0.insert(at.clone(), number);
                    own.1.insert(at);
                }
                if self.random.below(50) == 0 {
                    let at = key(self.random.below(KEYS));
                    tx.delete(&self.table, &at).unwrap();
                    own.0.remove(&at);
                    own.1.insert(at);
                }
            }
            if let Some((savepoint, before)) = savepoint {
                tx.rollback_to(&savepoint).unwrap();
                own = before;
            }
            if self.random.below(3) == 0 {
                theirs.extend(self.change());
            }
            if self.random.below(9) == 0 {
                self.store.checkpoint().unwrap();
            }
        }
        let is_conflict = looked_up.intersection(&theirs).next().is_some();
        let is_empty = tx.is_read_only();
        match tx.apply() {
            Ok(applied) => {
                assert!(!is_conflict || is_empty);
                self.store.acknowledge(applied).unwrap();
                for key in own.1 {
                    match own.0.remove(&key) {
                        Some(number) => drop(self.model.insert(key, number)),
                        None => drop(self.model.remove(&key)),
                    }
                }
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Conflict);
                assert!(is_conflict);
            }
        }
    }

    fn check(&self) {
        let snapshot = self.store.snapshot().unwrap();
        let mut cursor = snapshot.cursor(&self.table, Span::all()).unwrap();
        let mut found = Model::new();
        while let Some((key, value)) = cursor.next().unwrap() {
            found.insert(key.to_vec(), u64::from_be_bytes(value.try_into().unwrap()));
        }
        assert_eq!(found, self.model);
    }
}

#[test]
fn keys_that_are_not_looked_up_agree_with_a_map() {
    for layout in RequestedLayout::ALL {
        for seed in 0..40 {
            // Shown if it fails.
            println!("{layout:?}, seed {seed}");
            let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
            let store = open(&dir);
            let mut tx = begin(&store);
            let table = tx.create_table("t", layout).unwrap();
            let applied = tx.apply().unwrap();
            store.acknowledge(applied).unwrap();
            let mut bed = Bed { store, table, random: Random::seeded(seed), model: Model::new() };
            for round in 0..30 {
                if round % 3 == 0 {
                    bed.change();
                }
                bed.insert();
                bed.check();
            }
        }
    }
}

/// The row that comes in a stretch after it was found out conflicts, also where nothing else around it changed.
#[test]
fn a_row_in_a_known_stretch_conflicts() {
    let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
    let store = open(&dir);
    let mut tx = begin(&store);
    let table = tx.create_table("t", RequestedLayout::BTree).unwrap();
    tx.put(&table, b"zz", b"").unwrap();
    let applied = tx.apply().unwrap();
    store.acknowledge(applied).unwrap();
    for (theirs, conflicts) in [(40u8, true), (150, false), (0, true), (99, true), (100, false)] {
        let mut tx = begin(&store);
        for number in 0..100u8 {
            tx.insert(&table, &[b'a', theirs, number], b"1").unwrap();
        }
        let mut other = begin(&store);
        other.put(&table, &[b'a', theirs, theirs], b"2").unwrap();
        let applied = other.apply().unwrap();
        store.acknowledge(applied).unwrap();
        assert_eq!(tx.apply().is_err(), conflicts, "{theirs}");
    }
}
