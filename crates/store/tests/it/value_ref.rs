//! Values that are borrowed: the same as copies, where they lie, for as long as they are kept.

use io::{Dir, MemDir};
use pando_store::ttl::Ttl;
use pando_store::{
    Compression, Options, RequestedLayout, Store, Table, Transaction, TransactionOptions, ValueRef,
};
use std::sync::Arc;
use std::time::Duration;

/// As many pages as the values of one snapshot may pin.
const MOST_PINNED: usize = 64;

struct Bed {
    store: Arc<Store>,
    tables: Vec<Table>,
}

impl Bed {
    /// A B+tree, an LSM table, and one with a TTL.
    fn new(memory_bytes: usize) -> Bed {
        let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
        let options = Options {
            page_bytes: Some(4096),
            memory_bytes,
            write_set_bytes: Some(30_000),
            ..Options::default()
        };
        let store = pando_store::open_or_create(dir, &options).unwrap();
        let mut tx = Transaction::begin(&store, TransactionOptions::default()).unwrap();
        let tables = vec![
            tx.create_table("tree", RequestedLayout::BTree).unwrap(),
            tx.create_table("lsm", RequestedLayout::Lsm).unwrap(),
            tx.create_table_with(
                "dated",
                RequestedLayout::BTree,
                Some(Ttl::new(Duration::from_hours(1)).unwrap()),
                Compression::None,
            )
            .unwrap(),
        ];
        store.acknowledge(tx.apply().unwrap()).unwrap();
        Bed { store, tables }
    }

    fn write(&self, write: impl FnOnce(&mut Transaction)) {
        let mut tx = Transaction::begin(&self.store, TransactionOptions::default()).unwrap();
        write(&mut tx);
        self.store.acknowledge(tx.apply().unwrap()).unwrap();
    }
}

fn value(number: u32, round: u32) -> Vec<u8> {
    // Some lie outside the pages.
    let len = if number % 17 == 3 { 5_000 } else { 10 + number as usize % 300 };
    [&number.to_be_bytes()[..], &round.to_be_bytes()[..], &vec![number as u8; len]].concat()
}

fn address(value: &ValueRef<'_>) -> *const u8 {
    value.as_ptr()
}

#[test]
fn a_borrowed_value_is_what_a_copy_is() {
    let bed = Bed::new(4 << 20);
    let put = |tx: &mut Transaction, numbers: std::ops::Range<u32>, round: u32| {
        for number in numbers {
            bed.tables.iter().for_each(|t| tx.put(t, &number.to_be_bytes(), &value(number, round)).unwrap());
        }
    };
    bed.write(|tx| put(tx, 0..300, 0));
    bed.store.checkpoint().unwrap();
    bed.write(|tx| put(tx, 100..150, 1));
    bed.write(|tx| bed.tables.iter().for_each(|t| tx.delete(t, &7_u32.to_be_bytes()).unwrap()));
    // More than a write set may hold: this one is attached.
    bed.write(|tx| put(tx, 200..330, 2));

    let snapshot = bed.store.snapshot().unwrap();
    let mut tx = Transaction::begin(&bed.store, TransactionOptions::default()).unwrap();
    put(&mut tx, 20..140, 3);
    bed.tables.iter().for_each(|t| tx.delete(t, &21_u32.to_be_bytes()).unwrap());
    put(&mut tx, 320..340, 4);
    let expected = |number: u32, own: bool| match number {
        320..340 if own => Some(value(number, 4)),
        21 if own => None,
        20..140 if own => Some(value(number, 3)),
        7 | 330.. => None,
        200..330 => Some(value(number, 2)),
        100..150 => Some(value(number, 1)),
        _ => Some(value(number, 0)),
    };
    for table in &bed.tables {
        let mut kept = Vec::new();
        for number in 0..345_u32 {
            let key = number.to_be_bytes();
            let lent = snapshot.get_ref(table, &key).unwrap();
            assert_eq!(lent.as_deref(), expected(number, false).as_deref(), "{number} of {}", table.name());
            assert_eq!(snapshot.get(table, &key).unwrap(), expected(number, false));
            assert_eq!(snapshot.contains(table, &key).unwrap(), lent.is_some());
            let len = snapshot.value_len(table, &key).unwrap();
            assert_eq!(len, expected(number, false).map(|value| value.len() as u64));
            kept.push((lent, expected(number, false)));
            let own = tx.get_ref(table, &key).unwrap();
            assert_eq!(own.as_deref(), expected(number, true).as_deref(), "own {number} of {}", table.name());
            assert_eq!(tx.get(table, &key).unwrap(), expected(number, true));
            assert_eq!(tx.contains(table, &key).unwrap(), own.is_some());
            assert_eq!(tx.value_len(table, &key).unwrap(), own.as_ref().map(|value| value.len() as u64));
            kept.push((own, expected(number, true)));
        }
        bed.store.checkpoint().unwrap();
        assert!(kept.iter().all(|(lent, value)| lent.as_deref() == value.as_deref()));
    }
}

#[test]
fn it_is_no_copy_but_for_those_beyond_the_limit() {
    let bed = Bed::new(4 << 20);
    let table = &bed.tables[0];
    bed.write(|tx| (0..100_u32).for_each(|n| tx.put(table, &n.to_be_bytes(), &[n as u8; 90]).unwrap()));
    let in_memory = bed.store.snapshot().unwrap();
    let key = 5_u32.to_be_bytes();
    let kept: Vec<_> =
        (0..2 * MOST_PINNED).map(|_| in_memory.get_ref(table, &key).unwrap().unwrap()).collect();
    assert!(kept.iter().all(|value| address(value) == address(&kept[0])), "none is a copy in a memtable");

    bed.store.checkpoint().unwrap();
    let in_pages = bed.store.snapshot().unwrap();
    let lent = || in_pages.get_ref(table, &key).unwrap().unwrap();
    let mut kept: Vec<_> = (0..=MOST_PINNED).map(|_| lent()).collect();
    let first = address(&kept[0]);
    assert!(kept[..MOST_PINNED].iter().all(|value| address(value) == first));
    assert_ne!(address(&kept[MOST_PINNED]), first, "it pins one page too many");
    assert!(kept.iter().all(|value| **value == [5; 90]));
    drop(kept.swap_remove(7));
    assert_eq!(address(&lent()), first);
    drop(kept);
    let all: Vec<_> = (0..MOST_PINNED).map(|_| lent()).collect();
    assert!(all.iter().all(|value| address(value) == first), "permits come back");
}

#[test]
fn kept_values_do_not_stop_the_pool_and_do_not_change() {
    let bed = Bed::new(2 << 20);
    let table = &bed.tables[0];
    let count = 4_000_u32;
    let each = |number: u32| [&number.to_be_bytes()[..], &[number as u8; 900]].concat();
    for first in (0..count).step_by(500) {
        bed.write(|tx| (first..first + 500).for_each(|n| tx.put(table, &n.to_be_bytes(), &each(n)).unwrap()));
        bed.store.checkpoint().unwrap();
    }
    let snapshot = bed.store.snapshot().unwrap();
    let evicted = || bed.store.stats().unwrap().pool_evictions;
    let before = evicted();
    let kept: Vec<_> = (0..count)
        .step_by(4)
        .map(|n| (n, snapshot.get_ref(table, &n.to_be_bytes()).unwrap().unwrap()))
        .collect();
    for n in 0..count {
        assert_eq!(snapshot.get(table, &n.to_be_bytes()).unwrap(), Some(each(n)));
    }
    assert!(evicted() > before + 500, "the data is larger than the pool: {}", evicted() - before);
    assert!(kept.iter().all(|(n, value)| **value == each(*n)));
}
