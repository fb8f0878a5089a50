//! What the memtable does in a second, on one thread:
//! `cargo run --release -p pando-db-memtable --example memtable_speed [records]`.

use base::env::Random;
use base::sync::Arc;
use base::{CommitTs, TableId, Value};
use pando_memtable::Memtable;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

const TABLE: TableId = TableId(16);
const AT: CommitTs = CommitTs(1);

fn main() {
    let records: u64 = std::env::args().nth(1).map_or(1_000_000, |n| n.parse().expect("a number of records"));
    println!("{:<44}{:>10}{:>14}", "", "ns each", "bytes each");
    for (name, prefix) in
        [("4-byte keys", &b""[..]), ("4-byte keys behind a prefix of 16", &b"a common prefix:"[..])]
    {
        let mut numbers: Vec<u32> = (0..records as u32).collect();
        let key = |number: &u32| [prefix, &number.to_be_bytes()].concat();
        let sorted: Vec<Vec<u8>> = numbers.iter().map(key).collect();
        Random::seeded(1).shuffle(&mut numbers);
        let shuffled: Vec<Vec<u8>> = numbers.iter().map(key).collect();
        println!("{name}");
        let random = insert("  put, random order", &shuffled);
        insert("  put, ascending", &sorted);
        insert_in_batches("  extend_sorted, random batches of 1000", &shuffled);
        let bulk = extend("  extend_sorted into an empty table", &sorted);
        Random::seeded(2).shuffle(&mut numbers);
        let probes: Vec<Vec<u8>> = numbers.iter().map(key).collect();
        map_for_comparison(&shuffled, &probes);
        for (name, memtable) in [("put at random", &random), ("extended", &bulk)] {
            get(&format!("  get, random hits, {name}"), memtable, &probes);
            scan(&format!("  scan, {name}"), memtable, records);
        }
    }
}

fn report(name: &str, begun: Instant, count: u64, bytes: Option<usize>) {
    let bytes = bytes.map_or(String::new(), |bytes| format!("{:.0}", bytes as f64 / count as f64));
    println!("{name:<44}{:>10.1}{bytes:>14}", begun.elapsed().as_nanos() as f64 / count as f64);
}

fn insert(name: &str, keys: &[Vec<u8>]) -> Arc<Memtable> {
    let (memtable, mut writer) = Memtable::new();
    let begun = Instant::now();
    for key in keys {
        writer.put(TABLE, key, b"", AT);
    }
    report(name, begun, keys.len() as u64, Some(memtable.bytes()));
    memtable
}

fn insert_in_batches(name: &str, keys: &[Vec<u8>]) {
    let (memtable, mut writer) = Memtable::new();
    writer.put(TABLE, b"", b"", AT);
    let mut batches: Vec<_> = keys.chunks(1000).map(<[Vec<u8>]>::to_vec).collect();
    batches.iter_mut().for_each(|batch| batch.sort());
    let begun = Instant::now();
    for batch in &batches {
        writer.extend_sorted(TABLE, AT, &mut batch.iter().map(|key| (&key[..], Value::Inline(&b""[..]))));
    }
    report(name, begun, keys.len() as u64, Some(memtable.bytes()));
}

fn extend(name: &str, keys: &[Vec<u8>]) -> Arc<Memtable> {
    let (memtable, mut writer) = Memtable::new();
    let begun = Instant::now();
    writer.extend_sorted(TABLE, AT, &mut keys.iter().map(|key| (&key[..], Value::Inline(&b""[..]))));
    report(name, begun, keys.len() as u64, Some(memtable.bytes()));
    memtable
}

/// What the standard library's map needs here and now, single-threaded and without versions.
fn map_for_comparison(keys: &[Vec<u8>], probes: &[Vec<u8>]) {
    let begun = Instant::now();
    let map: BTreeMap<Box<[u8]>, u64> = keys.iter().fold(BTreeMap::new(), |mut map, key| {
        map.insert(key.as_slice().into(), AT.0);
        map
    });
    report("  BTreeMap insert, random order", begun, keys.len() as u64, None);
    let begun = Instant::now();
    for key in probes {
        assert!(black_box(map.get(key.as_slice())).is_some());
    }
    report("  BTreeMap get, random hits", begun, probes.len() as u64, None);
}

fn get(name: &str, memtable: &Memtable, keys: &[Vec<u8>]) {
    let begun = Instant::now();
    for key in keys {
        assert!(black_box(memtable.get(TABLE, key, AT)).is_some());
    }
    report(name, begun, keys.len() as u64, None);
}

fn scan(name: &str, memtable: &Memtable, records: u64) {
    let begun = Instant::now();
    let mut cursor = memtable.cursor(TABLE, AT);
    let mut seen = 0;
    cursor.seek_first();
    while black_box(cursor.entry()).is_some() {
        seen += 1;
        cursor.next();
    }
    assert_eq!(seen, records);
    report(name, begun, records, None);
}
