//! Beginnings of values: the same in every place where a value can be, and read without the value.

use base::ErrorKind;
use base::env::Random;
use base::limits::{beginning_bytes, max_inline_bytes};
use io::MemDir;
use pando_store::ttl::Ttl;
use pando_store::{
    Beginning, Compression, Options, RequestedLayout, Span, Store, Table, Transaction, TransactionOptions,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const DATE_BYTES: usize = 8;

struct Bed {
    dir: MemDir,
    store: Arc<Store>,
    /// A B+tree, an LSM table, and one with a TTL.
    tables: Vec<Table>,
}

fn open(dir: &MemDir) -> Arc<Store> {
    let options = Options {
        page_bytes: Some(4096),
        memory_bytes: 16 << 20,
        write_set_bytes: Some(500_000),
        ..Options::default()
    };
    pando_store::open_or_create(Arc::new(dir.clone()), &options).unwrap()
}

impl Bed {
    fn new() -> Bed {
        let dir = MemDir::new();
        let store = open(&dir);
        let mut tx = Transaction::begin(&store, TransactionOptions::default()).unwrap();
        let ttl = Ttl::new(Duration::from_hours(1)).unwrap();
        let tables = vec![
            tx.create_table("tree", RequestedLayout::BTree).unwrap(),
            tx.create_table("lsm", RequestedLayout::Lsm).unwrap(),
            tx.create_table_with("dated", RequestedLayout::BTree, Some(ttl), Compression::None).unwrap(),
        ];
        store.acknowledge(tx.apply().unwrap()).unwrap();
        Bed { dir, store, tables }
    }

    fn write(&self, write: impl FnOnce(&mut Transaction)) {
        let mut tx = Transaction::begin(&self.store, TransactionOptions::default()).unwrap();
        write(&mut tx);
        self.store.acknowledge(tx.apply().unwrap()).unwrap();
    }
}

const LENGTHS: [usize; 10] = [0, 7, 900, 929, 2000, 5000, 7680, 20_000, 60_000, 1_500_000];

/// Returns a value whose bytes are different everywhere.
fn value(length: usize, round: u8) -> Vec<u8> {
    let mut random = Random::seeded(u64::from(round));
    (0..length).map(|_| random.next_u64() as u8).collect()
}

/// What of a value was shown.
#[derive(Debug, PartialEq)]
struct Shown {
    bytes: Vec<u8>,
    len_bytes: u64,
}

fn shown(beginning: Beginning<'_>) -> Shown {
    Shown { bytes: beginning.bytes.to_vec(), len_bytes: beginning.len_bytes }
}

/// Checks what each way shows of all values of a table. Returns how many bytes of each were shown by a get.
macro_rules! check {
    ($reader:expr, $table:expr, $model:expr) => {{
        let (reader, table, model): (_, &Table, &BTreeMap<u32, Vec<u8>>) = ($reader, $table, $model);
        let mut lengths = BTreeMap::new();
        let is_part = |number: u32, shown: &Shown| {
            let value = &model[&number];
            assert_eq!(shown.len_bytes, value.len() as u64, "{number}");
            assert!(value.starts_with(&shown.bytes), "{number} of {}", table.name());
        };
        for (&number, value) in model {
            let key = number.to_be_bytes();
            for whole in [0, 6000, usize::MAX] {
                let found = reader.get_beginning(table, &key, whole, shown).unwrap().unwrap();
                is_part(number, &found);
                assert!(value.len() > whole || found.bytes.len() == value.len(), "{number} up to {whole}");
                if whole == 0 {
                    lengths.insert(number, found.bytes.len());
                }
            }
        }
        assert_eq!(reader.get_beginning(table, b"none", 0, shown).unwrap(), None);
        let number = |key: &[u8]| u32::from_be_bytes(key.try_into().unwrap());
        let mut cursor = reader.cursor(table, Span::all()).unwrap();
        let mut found = Vec::new();
        while let Some((key, beginning)) = cursor.next_beginning().unwrap() {
            let (key, shown) = (number(key), shown(beginning));
            is_part(key, &shown);
            assert_eq!(shown.bytes.len(), lengths[&key], "{key}");
            found.push(key);
            if key % 3 == 0 {
                assert_eq!(cursor.value().unwrap(), Some(&model[&key][..]));
            }
        }
        assert!(found.iter().eq(model.keys()));
        let mut cursor = reader.cursor(table, Span::all()).unwrap();
        while let Some((key, beginning)) = cursor.prev_beginning().unwrap() {
            is_part(number(key), &shown(beginning));
            assert_eq!(found.pop(), Some(number(key)));
        }
        assert!(found.is_empty());
        for (&at, value) in model.iter().rev() {
            let (key, beginning) = cursor.seek_beginning(&at.to_be_bytes()).unwrap().unwrap();
            assert_eq!(number(key), at);
            is_part(at, &shown(beginning));
            assert_eq!(cursor.value_len(), Some(value.len() as u64));
        }
        lengths
    }};
}

#[test]
fn a_beginning_is_that_of_the_value_wherever_it_lies() {
    let bed = Bed::new();
    let mut model = BTreeMap::new();
    let put = |tx: &mut Transaction, model: &mut BTreeMap<u32, Vec<u8>>, from: u32, round: u8| {
        // The longest one once is enough.
        let lengths = LENGTHS.iter().filter(|length| **length < 1 << 20 || from < 10);
        for (number, &length) in (from..).zip(lengths) {
            let value = value(length, round);
            bed.tables.iter().for_each(|t| tx.put(t, &number.to_be_bytes(), &value).unwrap());
            model.insert(number, value);
        }
    };
    let check_all = |model: &BTreeMap<u32, Vec<u8>>| {
        let snapshot = bed.store.snapshot().unwrap();
        bed.tables.iter().map(|table| check!(&snapshot, table, model)).collect::<Vec<_>>()
    };
    // In memory, a value of up to 1 MiB is whole; then the pages have the beginnings.
    bed.write(|tx| put(tx, &mut model, 0, 0));
    for lengths in check_all(&model) {
        for (number, shown) in lengths {
            let len = model[&number].len();
            assert_eq!(shown, if len > 1 << 20 { 0 } else { len });
        }
    }
    let check_pages = |model: &BTreeMap<u32, Vec<u8>>| {
        bed.store.checkpoint().unwrap();
        for (table, lengths) in bed.tables.iter().zip(check_all(model)) {
            let date = if table.name() == "dated" { DATE_BYTES } else { 0 };
            for (number, shown) in lengths {
                let len = model[&number].len();
                let is_inline = len + date <= max_inline_bytes(4096);
                let in_page = beginning_bytes((len + date) as u64) - if is_inline { 0 } else { date };
                assert_eq!(shown, if is_inline { len } else { in_page }, "{len} of {}", table.name());
            }
        }
    };
    check_pages(&model);
    // New versions, and neighbours of the old ones; more than the write set holds, so that runs are attached.
    for round in 1..4 {
        bed.write(|tx| (0..12).for_each(|step| put(tx, &mut model, round * 4 + 10 * step, round as u8)));
        check_all(&model);
        check_pages(&model);
    }
    let mut tx = Transaction::begin(&bed.store, TransactionOptions::default()).unwrap();
    for step in 0..3 {
        put(&mut tx, &mut model, 5 + 30 * step, 9);
        bed.tables.iter().for_each(|table| drop(check!(&tx, table, &model)));
        tx.spill().unwrap();
        bed.tables.iter().for_each(|table| drop(check!(&tx, table, &model)));
    }
    bed.store.acknowledge(tx.apply().unwrap()).unwrap();
    check_all(&model);
    check_pages(&model);
}

/// What lies outside of the page is damaged, so that reading it would be an error.
#[test]
fn a_beginning_is_shown_without_the_value() {
    let bed = Bed::new();
    let long = value(20_000, 5);
    bed.write(|tx| bed.tables.iter().for_each(|table| tx.put(table, b"key", &long).unwrap()));
    while bed.store.checkpoint().unwrap() {}
    let Bed { dir, store, tables } = bed;
    drop((store, tables));
    let mut files = dir.files();
    let data = files.get_mut("data").unwrap();
    let places: Vec<usize> = data
        .windows(64)
        .enumerate()
        .filter(|(_, window)| *window == &long[10_000..10_064])
        .map(|(at, _)| at)
        .collect();
    assert_eq!(places.len(), 3, "one in each table");
    places.iter().for_each(|&at| data[at] ^= 1);
    let store = open(&MemDir::from(files));
    let snapshot = store.snapshot().unwrap();
    for name in ["tree", "lsm", "dated"] {
        let table = snapshot.table(name).unwrap().unwrap();
        let found = snapshot.get_beginning(&table, b"key", 16 << 10, shown).unwrap().unwrap();
        assert_eq!(found.len_bytes, 20_000);
        assert!(found.bytes.len() >= 472 && long.starts_with(&found.bytes));
        let mut cursor = snapshot.cursor(&table, Span::all()).unwrap();
        assert!(cursor.next_beginning().unwrap().is_some());
        assert_eq!(cursor.value().unwrap_err().kind(), ErrorKind::Corruption);
        let whole = snapshot.get_beginning(&table, b"key", 32 << 10, shown).unwrap_err();
        assert_eq!(whole.kind(), ErrorKind::Corruption);
    }
}
