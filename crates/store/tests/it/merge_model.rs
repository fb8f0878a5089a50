//! The merged cursor over random layers, against one `BTreeMap`, under random seeks and turns.

use crate::seed::Seed;
use base::env::Random;
use base::{CommitTs, Error, Result, TableId, Value};
use memtable::Memtable;
use std::collections::BTreeMap;

use pando_store::merge::{Layer, MemtableLayer, Merged, Upper};
use pando_store::write_set::{Prior, WriteSet};

const T: TableId = TableId(16);
type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// A sorted list as a layer, which fails on demand and counts its moves. A record without a value is a delete.
#[derive(Default)]
struct List {
    records: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    at: Option<usize>,
    fail_after: Option<u32>,
    moves: std::rc::Rc<std::cell::Cell<u32>>,
}

impl List {
    fn of(map: &Map) -> List {
        let records = map.iter().map(|(key, value)| (key.clone(), Some(value.clone()))).collect();
        List { records, ..List::default() }
    }
    fn go(&mut self, at: Option<usize>) -> Result<bool> {
        self.moves.set(self.moves.get() + 1);
        if let Some(left) = &mut self.fail_after {
            if *left == 0 {
                self.fail_after = None;
                self.at = None;
                return Err(Error::corruption("page 7"));
            }
            *left -= 1;
        }
        self.at = at.filter(|&at| at < self.records.len());
        Ok(self.at.is_some())
    }
    fn place_of(&self, key: &[u8]) -> usize {
        self.records.partition_point(|record| &record.0[..] < key)
    }
    fn here(&self) -> usize {
        self.at.expect("a layer that is off is not stepped")
    }
}

impl Layer for List {
    fn seek_first(&mut self) -> Result<bool> {
        self.go(Some(0))
    }
    fn seek_last(&mut self) -> Result<bool> {
        self.go(self.records.len().checked_sub(1))
    }
    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.go(Some(self.place_of(key)))
    }
    fn seek_before(&mut self, key: &[u8]) -> Result<bool> {
        self.go(self.place_of(key).checked_sub(1))
    }
    fn next(&mut self) -> Result<bool> {
        self.go(Some(self.here() + 1))
    }
    fn prev(&mut self) -> Result<bool> {
        self.go(self.here().checked_sub(1))
    }
    /// Answers for the next five records, as a leaf would.
    fn steps_before(&self, key: &[u8], forward: bool, most: u32) -> u32 {
        let (here, place) = (self.here(), self.place_of(key));
        let steps = if forward {
            place.saturating_sub(here + 1)
        } else {
            here.saturating_sub(self.records.partition_point(|record| &record.0[..] <= key))
        };
        steps.min(5).min(most as usize) as u32
    }
    /// Not onto every seventh record, as if its value lay elsewhere.
    fn step_in_leaf(&mut self, forward: bool) -> bool {
        let here = self.here();
        let next = if forward { Some(here + 1) } else { here.checked_sub(1) };
        let is_inline = |next: &usize| self.records.get(*next).is_some_and(|record| record.1.is_some());
        let next = next.filter(|next| next % 7 != 0 && is_inline(next));
        self.at = next.or(self.at);
        next.is_some()
    }
    /// Over four entries at most, and not over a delete.
    fn run<const FORWARD: bool>(
        &mut self,
        limit: Option<&[u8]>,
        most: u32,
        mut each: impl FnMut(&[u8], &[u8], &[u8]),
    ) -> u32 {
        for shown in 0..most.min(4) {
            let next = if FORWARD { self.here().checked_add(1) } else { self.here().checked_sub(1) };
            let record = next.and_then(|next| self.records.get(next));
            let Some((key, Some(value))) = record else { return shown };
            if limit.is_some_and(|limit| if FORWARD { &key[..] >= limit } else { &key[..] <= limit }) {
                return shown;
            }
            let (front, rest) = key.split_at(key.len() / 2);
            each(front, rest, value);
            self.at = next;
        }
        most.min(4)
    }
    fn entry(&self) -> Option<(&[u8], Value<'_>)> {
        let (key, value) = &self.records[self.at?];
        Some((key, value.as_ref().map_or(Value::Deleted, |value| Value::Inline(value))))
    }
}

/// Keys that share their first eight bytes, short ones, and some whose first eight are the least or the greatest.
fn random_key(random: &mut Random) -> Vec<u8> {
    let n = random.below(210);
    if n >= 200 {
        let byte = if n.is_multiple_of(2) { 0 } else { u8::MAX };
        vec![byte; 7 + (n as usize - 200) / 3]
    } else if n.is_multiple_of(3) {
        format!("common prefix {n:03}").into_bytes()
    } else {
        n.to_string().into_bytes()
    }
}

enum Change {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    DeleteRange(Vec<u8>, Option<Vec<u8>>),
}

/// A change, already made to `map`.
fn random_change(random: &mut Random, map: &mut Map) -> Change {
    let key = random_key(random);
    match random.below(20) {
        0 => {
            let end = random.chance(9, 10).then(|| random_key(random).max(key.clone()));
            map.retain(|k, _| *k < key || end.as_ref().is_some_and(|end| k >= end));
            Change::DeleteRange(key, end)
        }
        1..9 => {
            map.remove(&key);
            Change::Delete(key)
        }
        _ => {
            let value = random.next_u64().to_le_bytes().to_vec();
            map.insert(key.clone(), value.clone());
            Change::Put(key, value)
        }
    }
}

/// Two memtables, the newer one with commits that the cursor must not see, and own writes; each may be empty.
struct Stack {
    writes: WriteSet,
    memtables: Vec<std::sync::Arc<Memtable>>,
    base: Map,
    map: Map,
    seen: CommitTs,
}

impl Stack {
    fn random(random: &mut Random) -> Stack {
        let mut map: Map =
            (0..random.below(150)).map(|n| (random_key(random), n.to_le_bytes().to_vec())).collect();
        let base = map.clone();
        let mut ts = 0;
        let mut memtables = Vec::new();
        for _ in 0..2 {
            let (memtable, mut writer) = Memtable::new();
            let changes = if random.chance(1, 4) { 0 } else { random.below(80) };
            for _ in 0..changes {
                ts += 1;
                apply(&mut writer, random_change(random, &mut map), CommitTs(ts));
            }
            memtables.insert(0, memtable);
            if memtables.len() == 2 {
                for later in 1..random.below(40) {
                    apply(&mut writer, random_change(random, &mut map.clone()), CommitTs(ts + later));
                }
            }
        }
        let mut writes = WriteSet::new();
        for _ in 0..random.below(60) * random.below(2) {
            match random_change(random, &mut map) {
                Change::Put(key, value) => writes.put(T, &key, &value, Prior::Unread),
                Change::Delete(key) => writes.delete(T, &key, Prior::Unread),
                Change::DeleteRange(start, end) => writes.delete_range(T, &start, end.as_deref()),
            }
        }
        writes.sort_all();
        Stack { writes, memtables, base, map, seen: CommitTs(ts) }
    }

    fn cursor(&self) -> Merged<Upper<'_>, List> {
        let own = self.writes.cursor(T).map(Upper::from);
        let memtables = self.memtables.iter().filter(|memtable| !memtable.is_empty());
        let memtables = memtables.map(|memtable| MemtableLayer::new(memtable, T, self.seen, None).into());
        Merged::new(own.into_iter().chain(memtables).collect(), 0, List::of(&self.base), ())
    }
}

fn apply(writer: &mut memtable::Writer, change: Change, ts: CommitTs) {
    match change {
        Change::Put(key, value) => writer.put(T, &key, &value, ts),
        Change::Delete(key) => writer.delete(T, &key, ts),
        Change::DeleteRange(start, end) => {
            if end.as_ref().is_none_or(|end| start < *end) {
                writer.delete_range(T, &start, end.as_deref(), ts);
            }
        }
    }
}

/// Where the caller of a cursor will stop on his way forward, and on his way back.
#[derive(Clone, Copy, Default)]
struct Stops<'k> {
    end: Option<&'k [u8]>,
    start: Option<&'k [u8]>,
}

/// One random move on both. `at` runs from 0, before the first, to `n + 1`, behind the last.
fn random_move(
    random: &mut Random,
    cursor: &mut Merged<impl Layer, List>,
    keys: &[(&Vec<u8>, &Vec<u8>)],
    at: &mut usize,
    stops: Stops<'_>,
) -> Result<bool> {
    let key = random_key(random);
    let before = keys.partition_point(|(other, _)| **other < key);
    match random.below(16) {
        0 => (*at = before + 1, cursor.seek(&key, stops.end)).1,
        1 => (*at = before, cursor.seek_before(&key, stops.start)).1,
        2 => (*at = 1, cursor.seek_first(stops.end)).1,
        3 => (*at = keys.len(), cursor.seek_last(stops.start)).1,
        4..7 => (*at = (*at + 1).min(keys.len() + 1), cursor.next(stops.end)).1,
        7..10 => (*at = at.saturating_sub(1), cursor.prev(stops.start)).1,
        10 => walk::<true>(random, cursor, keys, at, stops),
        11 => walk::<false>(random, cursor, keys, at, stops),
        12..14 => run::<true>(random, cursor, keys, at, stops),
        _ => run::<false>(random, cursor, keys, at, stops),
    }
}

/// Up to twenty steps in one direction, within a leaf where that is possible.
fn walk<const FORWARD: bool>(
    random: &mut Random,
    cursor: &mut Merged<impl Layer, List>,
    keys: &[(&Vec<u8>, &Vec<u8>)],
    at: &mut usize,
    Stops { end, start }: Stops<'_>,
) -> Result<bool> {
    for _ in 0..random.below(20) {
        *at = if FORWARD { (*at + 1).min(keys.len() + 1) } else { at.saturating_sub(1) };
        if cursor.step_in_leaf::<FORWARD>() {
            let (key, _) = cursor.entry().expect("a step in a leaf ends on an entry");
            assert_eq!(key, keys[*at - 1].0);
            assert!(if FORWARD {
                end.is_none_or(|end| key < end)
            } else {
                start.is_none_or(|start| key > start)
            });
        } else if FORWARD {
            cursor.next(end)?;
        } else {
            cursor.prev(start)?;
        }
    }
    Ok(cursor.entry().is_some())
}

/// Runs on or back, and compares what is shown.
fn run<const FORWARD: bool>(
    random: &mut Random,
    cursor: &mut Merged<impl Layer, List>,
    keys: &[(&Vec<u8>, &Vec<u8>)],
    at: &mut usize,
    Stops { end, start }: Stops<'_>,
) -> Result<bool> {
    let (mut shown, most) = (Vec::new(), random.below(9) as u32);
    let each = |front: &[u8], rest: &[u8], value: &[u8]| shown.push(([front, rest].concat(), value.to_vec()));
    let count = cursor.run::<FORWARD>(most, if FORWARD { end } else { start }, each);
    assert_eq!(count as usize, shown.len());
    for record in shown {
        *at = if FORWARD { *at + 1 } else { *at - 1 };
        let (key, value) = keys[*at - 1];
        assert_eq!((key, value), (&record.0, &record.1));
        assert!(if FORWARD {
            end.is_none_or(|end| &key[..] < end)
        } else {
            start.is_none_or(|start| &key[..] > start)
        });
    }
    Ok(cursor.entry().is_some())
}

#[test]
fn most_records_of_a_memtable_are_run_over() {
    let (memtable, mut writer) = Memtable::new();
    let key = |number: u32| number.to_be_bytes().to_vec();
    for number in 0..1000 {
        writer.put(T, &key(number), b"value", CommitTs(1));
    }
    let layer = MemtableLayer::new(&memtable, T, CommitTs(1), None);
    let lower = List::of(&[(key(5), Vec::new()), (key(990), Vec::new())].into());
    let mut cursor = Merged::new(vec![Upper::from(layer)], 0, lower, ());
    let (start, end) = (key(10), key(980));
    for forward in [true, false] {
        let (mut keys, mut steps) = (Vec::new(), 0);
        loop {
            let is_on = match (steps, forward) {
                (0, true) => cursor.seek(&start, Some(&end)),
                (0, false) => cursor.seek_before(&end, Some(&start)),
                (_, true) => cursor.next(Some(&end)),
                (_, false) => cursor.prev(Some(&start)),
            };
            let Some((key, _)) = cursor.entry().filter(|(key, _)| (&start[..]..&end[..]).contains(key))
            else {
                break;
            };
            assert!(is_on.unwrap());
            keys.push(key.to_vec());
            steps += 1;
            let each = |_: &[u8], key: &[u8], value: &[u8]| {
                assert_eq!(value, b"value");
                keys.push(key.to_vec());
            };
            let _shown = match forward {
                true => cursor.run::<true>(u32::MAX, Some(&end), each),
                false => cursor.run::<false>(u32::MAX, Some(&start), each),
            };
        }
        if !forward {
            keys.reverse();
        }
        assert!(keys.into_iter().eq((10..980).map(key)), "forward {forward}");
        assert!(steps < 980 / 20, "forward {forward}: {steps} steps");
    }
}

/// Makes random moves on a cursor, and compares where they end with the one map that its layers are.
fn agree(random: &mut Random, mut cursor: Merged<impl Layer, List>, map: &Map) {
    let keys: Vec<_> = map.iter().collect();
    let (start, end) = (random_key(random), random_key(random));
    let (limit_end, limit_start) = (random.chance(1, 2), random.chance(1, 2));
    let stops = Stops { end: limit_end.then_some(&end), start: limit_start.then_some(&start) };
    let mut at = 1;
    cursor.seek_first(stops.end).unwrap();
    for _ in 0..200 {
        let on = random_move(random, &mut cursor, &keys, &mut at, stops).unwrap();
        let expected = at.checked_sub(1).and_then(|at| keys.get(at));
        assert_eq!(on, expected.is_some());
        assert_eq!(cursor.entry(), expected.map(|(key, value)| (&key[..], Value::Inline(&value[..]))));
    }
}

#[test]
fn agrees_with_one_map_wherever_it_turns() {
    for seed in 0..400 {
        let _shown = Seed(seed);
        let mut random = Random::seeded(seed);
        let stack = Stack::random(&mut random);
        agree(&mut random, stack.cursor(), &stack.map);
    }
}

/// Layers that are runs: as a transaction spills them, and as LSM tables have them.
#[test]
fn agrees_with_one_map_over_runs_with_deletes() {
    for seed in 0..400 {
        let _shown = Seed(seed);
        let mut random = Random::seeded(seed);
        let mut map: Map =
            (0..random.below(150)).map(|n| (random_key(&mut random), n.to_le_bytes().to_vec())).collect();
        let lower = List::of(&map);
        let mut uppers = Vec::new();
        for _ in 0..random.below(4) {
            let mut records = BTreeMap::new();
            for _ in 0..random.below(60) {
                let key = random_key(&mut random);
                let value = random.chance(2, 3).then(|| random.next_u64().to_le_bytes().to_vec());
                match &value {
                    Some(value) => map.insert(key.clone(), value.clone()),
                    None => map.remove(&key),
                };
                records.insert(key, value);
            }
            uppers.insert(0, List { records: records.into_iter().collect(), ..List::default() });
        }
        agree(&mut random, Merged::new(uppers, 0, lower, ()), &map);
    }
}

#[test]
fn a_whole_scan_either_way_shows_each_key_once() {
    for seed in 0..200 {
        let stack = Stack::random(&mut Random::seeded(seed));
        let mut cursor = stack.cursor();
        let mut forward = Vec::new();
        while cursor.next(None).unwrap() {
            forward.push(cursor.entry().unwrap().0.to_vec());
        }
        let mut backward = Vec::new();
        while cursor.prev(None).unwrap() {
            backward.push(cursor.entry().unwrap().0.to_vec());
        }
        backward.reverse();
        assert!(forward.iter().eq(stack.map.keys()), "seed {seed}");
        assert_eq!(forward, backward, "seed {seed}");
    }
}

#[test]
fn after_a_failed_move_there_is_no_entry_and_a_seek_begins_anew() {
    for seed in 0..100 {
        let mut random = Random::seeded(seed);
        let stack = Stack::random(&mut random);
        let over =
            |list| Merged::new(stack.writes.cursor(T).map(Upper::from).into_iter().collect(), 0, list, ());
        let mut shown = Map::new();
        let mut whole = over(List::of(&stack.base));
        while whole.next(None).unwrap() {
            let Some((key, Value::Inline(value))) = whole.entry() else { panic!("seed {seed}: no value") };
            shown.insert(key.to_vec(), value.to_vec());
        }
        let keys: Vec<_> = shown.iter().collect();
        let mut list = List::of(&stack.base);
        list.fail_after = Some(random.below(30) as u32);
        let mut cursor = over(list);
        let (mut at, mut moved) = (1, cursor.seek_first(None));
        for _ in 0..60 {
            if moved.is_err() {
                assert_eq!(cursor.entry(), None);
                break;
            }
            moved = random_move(&mut random, &mut cursor, &keys, &mut at, Stops::default());
        }
        let mut count = 0;
        let mut on = cursor.seek_first(None).unwrap_or_else(|_| cursor.seek_first(None).unwrap());
        while on {
            count += 1;
            on = match cursor.next(None) {
                Ok(on) => on,
                // The failure was still to come: begin anew once.
                Err(_) => (count = 0, cursor.seek_first(None).unwrap()).1,
            };
        }
        assert_eq!(count, keys.len(), "seed {seed}");
    }
}

#[test]
fn a_deleted_range_is_not_walked_through() {
    let base: Map = (0..10_000u32).map(|n| (n.to_be_bytes().to_vec(), vec![])).collect();
    let mut writes = WriteSet::new();
    writes.delete_range(T, &10u32.to_be_bytes(), Some(&9_990u32.to_be_bytes()));
    writes.sort_all();
    let list = List::of(&base);
    let moves = list.moves.clone();
    let mut cursor = Merged::new(vec![Upper::from(writes.cursor(T).unwrap())], 0, list, ());
    for step in [Merged::next, Merged::prev] {
        moves.set(0);
        let mut shown = 0;
        while step(&mut cursor, None).unwrap() {
            shown += 1;
        }
        assert_eq!(shown, 20);
        assert!(moves.get() < 60, "{} moves", moves.get());
    }
}
