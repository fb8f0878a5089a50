//! The write set against a naive map that keeps every state a savepoint may go back to.

use crate::seed::Seed;
use base::env::Random;
use base::op::Op;
use base::{TableId, Value};
use pando_store::write_set::{Prior, Savepoint, WriteSet};
use std::collections::BTreeMap;
use txn::WrittenKey;

type Key = (TableId, Vec<u8>);

/// `Some(None)` is deleted. Ranges are kept as the raw list of what was asked for.
#[derive(Clone, Default)]
struct Model {
    keys: BTreeMap<Key, Option<Vec<u8>>>,
    ranges: Vec<(TableId, Vec<u8>, Option<Vec<u8>>)>,
}

impl Model {
    fn get(&self, key: &Key) -> Option<Option<&[u8]>> {
        if let Some(own) = self.keys.get(key) {
            return Some(own.as_deref());
        }
        self.ranges.iter().any(|range| covers(range, key)).then_some(None)
    }
}

fn covers((table, start, end): &(TableId, Vec<u8>, Option<Vec<u8>>), key: &Key) -> bool {
    *table == key.0 && *start <= key.1 && end.as_ref().is_none_or(|end| key.1 < *end)
}

/// Short keys, keys that share more than eight bytes, keys that differ by trailing zeros, the empty key.
fn random_key(random: &mut Random) -> Vec<u8> {
    let n = random.below(60);
    match random.below(5) {
        0 => vec![0; n as usize % 20],
        1 => format!("a long common prefix {n:03}").into_bytes(),
        2 => [&b"12345678"[..], &vec![0; n as usize % 12]].concat(),
        _ => n.to_string().into_bytes(),
    }
}

struct Pair {
    real: WriteSet,
    model: Model,
    savepoints: Vec<(Savepoint, Model)>,
    read: Vec<Key>,
}

impl Pair {
    fn step(&mut self, random: &mut Random) {
        let table = TableId(16 + random.below(3) as u32);
        let key = random_key(random);
        let prior = if random.chance(1, 4) { Prior::Read } else { Prior::Unread };
        match random.below(100) {
            0..60 => {
                let value = vec![random.below(256) as u8; random.below(30) as usize];
                self.real.put(table, &key, &value, prior);
                self.wrote(table, key, Some(value), prior);
            }
            60..80 => {
                self.real.delete(table, &key, prior);
                self.wrote(table, key, None, prior);
            }
            80..87 => {
                let end = random.chance(9, 10).then(|| random_key(random));
                self.real.delete_range(table, &key, end.as_deref());
                if end.as_ref().is_none_or(|end| key < *end) {
                    let range = (table, key, end);
                    self.model.keys.retain(|key, _| !covers(&range, key));
                    self.model.ranges.push(range);
                }
            }
            87..92 => self.savepoints.push((self.real.savepoint(), self.model.clone())),
            92..95 => self.roll_back(random),
            95..97 if !self.savepoints.is_empty() => {
                let level = random.below(self.savepoints.len() as u64) as usize;
                self.real.release(self.savepoints[level].0).unwrap();
                self.savepoints.truncate(level);
            }
            _ => self.real.sort(table),
        }
    }

    fn wrote(&mut self, table: TableId, key: Vec<u8>, value: Option<Vec<u8>>, prior: Prior) {
        if prior == Prior::Read {
            self.read.push((table, key.clone()));
        }
        self.model.keys.insert((table, key), value);
    }

    fn roll_back(&mut self, random: &mut Random) {
        if self.savepoints.is_empty() {
            return;
        }
        let level = random.below(self.savepoints.len() as u64) as usize;
        let dead = self.savepoints.last().unwrap().0;
        self.real.rollback_to(self.savepoints[level].0).unwrap();
        self.model = self.savepoints[level].1.clone();
        if level + 1 < self.savepoints.len() {
            assert!(self.real.rollback_to(dead).is_err());
        }
        self.savepoints.truncate(level + 1);
    }

    fn check_get(&self, random: &mut Random) {
        let key = (TableId(16 + random.below(4) as u32), random_key(random));
        let own = match self.real.get(key.0, &key.1) {
            Some(Value::Inline(value)) => Some(Some(value)),
            Some(Value::Deleted) => Some(None),
            Some(Value::Large(..)) => unreachable!("none was put"),
            None => None,
        };
        assert_eq!(own, self.model.get(&key), "{key:?}");
    }

    fn check_all(&mut self) {
        self.real.sort_all();
        let mut keys = BTreeMap::new();
        for table in self.real.tables() {
            let mut ops = Vec::new();
            self.real.for_each_op(table, |op| ops.push(op));
            let first_record = ops.iter().position(|op| !matches!(op, Op::DeleteRange { .. }));
            let records = &ops[first_record.unwrap_or(ops.len())..];
            let of = |op: &Op<'_>| match *op {
                Op::Put { key, value } => (key.to_vec(), Some(value.to_vec())),
                Op::Delete { key } => (key.to_vec(), None),
                Op::PutLarge { .. } | Op::Attach { .. } => unreachable!("none was put"),
                Op::DeleteRange { .. } => panic!("a range delete follows a record"),
            };
            let records: Vec<_> = records.iter().map(of).collect();
            assert!(records.windows(2).all(|pair| pair[0].0 < pair[1].0), "not in key order");
            keys.extend(records.into_iter().map(|(key, value)| ((table, key), value)));
        }
        assert_eq!(keys, self.model.keys);
        let mut operations = 0;
        self.real.tables().for_each(|table| self.real.for_each_op(table, |_| operations += 1));
        assert_eq!(self.real.operations(), operations as u64);
        assert_eq!(self.real.is_empty(), operations == 0);
        self.check_written();
    }

    /// Validation sees every live key once, with its flag, and every key that was read, also after a rollback.
    fn check_written(&self) {
        let mut seen = BTreeMap::new();
        for (table, written) in self.real.written(|_| true) {
            let (key, live, read) = match written {
                WrittenKey::Key { key, read } => (key, true, read),
                WrittenKey::Read { key } => (key, false, true),
                WrittenKey::Range { .. } => continue,
            };
            assert!(seen.insert((table, key.to_vec()), (live, read)).is_none(), "twice");
        }
        let live: Vec<_> = seen.iter().filter(|(_, flags)| flags.0).map(|(key, _)| key).collect();
        assert_eq!(live, self.model.keys.keys().collect::<Vec<_>>());
        let read: std::collections::BTreeSet<_> = self.read.iter().collect();
        assert_eq!(seen.iter().filter(|(_, flags)| flags.1).map(|(key, _)| key).collect::<Vec<_>>(), {
            read.into_iter().collect::<Vec<_>>()
        });
    }

    /// A cursor under random moves, with a `BTreeMap` range beside it.
    fn check_cursor(&mut self, random: &mut Random) {
        let table = TableId(16);
        self.real.sort(table);
        let Some(mut cursor) = self.real.cursor(table) else { return };
        let keys: Vec<_> = self.model.keys.iter().filter(|(key, _)| key.0 == table).collect();
        let mut at = keys.len();
        for _ in 0..30 {
            let key = random_key(random);
            let before = keys.partition_point(|(other, _)| other.1 < key);
            at = match random.below(10) {
                0 => (cursor.seek(&key), before).1,
                1 => (cursor.seek_before(&key), before.wrapping_sub(1)).1,
                2 => (cursor.seek_first(), 0).1,
                3 => (cursor.seek_last(), keys.len().wrapping_sub(1)).1,
                4 | 5 if at < keys.len() => (cursor.next(), at + 1).1,
                6 | 7 if at < keys.len() => (cursor.prev(), at.wrapping_sub(1)).1,
                8 | 9 if at < keys.len() => {
                    let (limit, most) = (random.chance(1, 2).then_some(&key[..]), random.below(6) as u32);
                    let forward = random.chance(1, 2);
                    let step = |at: usize| if forward { at + 1 } else { at.wrapping_sub(1) };
                    let mut to = at;
                    let each = |key: &[u8], value: &[u8]| {
                        to = step(to);
                        let ((_, expected), expected_value) = keys[to];
                        assert_eq!((key, Some(value)), (&expected[..], expected_value.as_deref()));
                        assert!(limit.is_none_or(|limit| if forward { key < limit } else { key > limit }));
                    };
                    let shown = match forward {
                        true => cursor.run::<true>(limit, most, each),
                        false => cursor.run::<false>(limit, most, each),
                    };
                    assert!(shown <= most && shown as usize == to.abs_diff(at));
                    to
                }
                _ => at,
            };
            let entry = cursor.entry().map(|(key, own)| (key, matches!(own, Value::Deleted)));
            assert_eq!(entry, keys.get(at).map(|(key, value)| (&key.1[..], value.is_none())));
        }
    }
}

fn play(seed: u64, steps: u64) {
    let _shown = Seed(seed);
    let mut random = Random::seeded(seed);
    let mut pair =
        Pair { real: WriteSet::new(), model: Model::default(), savepoints: Vec::new(), read: Vec::new() };
    for transaction in 0..3 {
        let steps = if transaction == 1 { 10 } else { random.below(steps) };
        for _ in 0..steps {
            pair.step(&mut random);
            pair.check_get(&mut random);
            if random.chance(1, 50) {
                pair.check_cursor(&mut random);
            }
        }
        pair.check_all();
        pair.real.clear();
        assert!(pair.real.is_empty() && pair.real.bytes() == 0);
        pair = Pair { real: pair.real, model: Model::default(), savepoints: Vec::new(), read: Vec::new() };
    }
}

#[test]
fn agrees_with_a_map_under_savepoints_and_ranges() {
    for seed in 0..300 {
        play(seed, 400);
    }
}

/// Enough keys for several blocks of the order, in ascending, descending and random order, with removals.
#[test]
fn a_large_order_is_kept_under_changes() {
    let t = TableId(16);
    let mut random = Random::seeded(5);
    let mut writes = WriteSet::new();
    let mut model = BTreeMap::new();
    let key = |n: u64| format!("user{n:012}").into_bytes();
    for n in (0..6000).map(|_| random.below(1 << 20)) {
        writes.put(t, &key(n), b"v", Prior::Unread);
        model.insert(key(n), ());
    }
    writes.sort(t);
    for n in 0..8000 {
        let n = if n % 2 == 0 { n } else { random.below(1 << 20) };
        if n % 5 == 0 {
            let (start, end) = (key(n), key(n + 300));
            writes.delete_range(t, &start, Some(&end));
            model.retain(|key, ()| *key < start || *key >= end);
        }
        writes.put(t, &key(n), b"v", Prior::Unread);
        model.insert(key(n), ());
    }
    assert!(writes.records(t).map(|record| record.0).eq(model.keys()));
    writes.delete_range(t, b"", None);
    assert_eq!((writes.operations(), writes.records(t).count()), (1, 0));
}

#[test]
fn overwriting_a_key_again_and_again_takes_no_more_memory() {
    let mut writes = WriteSet::new();
    for n in 0..1000u64 {
        writes.put(TableId(16), b"counter", &n.to_le_bytes(), Prior::Unread);
    }
    assert!(writes.bytes() < 200);
}
