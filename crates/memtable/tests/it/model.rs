//! The memtable against a `BTreeMap` of (key, newest first), at random timestamps, in both directions.

#![cfg(not(loom))]

use base::budget::{Account, Charge, MemoryCategory};
use base::env::Random;
use base::op::Op;
use base::sync::Arc;
use base::{CommitTs, TableId, Value};
use pando_memtable::{Cursor, Memtable, Writer};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Bound;

const TABLE: TableId = TableId(16);

type Versions = BTreeMap<(Vec<u8>, Reverse<u64>), Option<Vec<u8>>>;
type Range = (Vec<u8>, Option<Vec<u8>>, u64);

#[derive(Default)]
struct Model {
    versions: Versions,
    ranges: Vec<Range>,
}

fn covers((start, end, _): &Range, key: &[u8]) -> bool {
    start.as_slice() <= key && end.as_deref().is_none_or(|end| key < end)
}

impl Model {
    fn own(&self, key: &[u8], at: u64) -> Option<(u64, &Option<Vec<u8>>)> {
        let from = (key.to_vec(), Reverse(at));
        let next = self.versions.range(from..).next().filter(|((other, _), _)| other == key);
        next.map(|((_, ts), value)| (ts.0, value))
    }

    fn range_ts(&self, key: &[u8], at: u64) -> Option<u64> {
        self.ranges.iter().filter(|range| range.2 <= at && covers(range, key)).map(|range| range.2).max()
    }

    fn get(&self, key: &[u8], at: u64) -> Option<Value<'_>> {
        let (own, range) = (self.own(key, at), self.range_ts(key, at));
        match own {
            Some((ts, Some(value))) if range.is_none_or(|range| range <= ts) => Some(Value::Inline(value)),
            None if range.is_none() => None,
            _ => Some(Value::Deleted),
        }
    }

    /// What a cursor shows.
    fn entries(&self, at: u64) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        let mut keys: Vec<_> =
            self.versions.keys().filter(|key| key.1.0 <= at).map(|key| key.0.clone()).collect();
        keys.dedup();
        let value = |key: &[u8]| match self.get(key, at) {
            Some(Value::Inline(value)) => Some(value.to_vec()),
            _ => None,
        };
        keys.into_iter().map(|key| (key.clone(), value(&key))).collect()
    }

    fn changed(&self, start: &[u8], end: Bound<&[u8]>, since: u64) -> bool {
        let inside = |key: &[u8]| match end {
            Bound::Unbounded => true,
            Bound::Included(end) => key <= end,
            Bound::Excluded(end) => key < end,
        };
        let point = |((key, ts), _): (&(Vec<u8>, Reverse<u64>), _)| {
            ts.0 > since && start <= key.as_slice() && inside(key)
        };
        let range = |range: &Range| {
            range.2 > since
                && inside(&range.0)
                && range.1.as_deref().is_none_or(|range_end| start < range_end)
        };
        self.versions.iter().any(point) || self.ranges.iter().any(range)
    }
}

fn owned((key, found): (&[u8], Value<'_>)) -> (Vec<u8>, Option<Vec<u8>>) {
    match found {
        Value::Inline(value) => (key.to_vec(), Some(value.to_vec())),
        Value::Large(..) => unreachable!("none was put"),
        Value::Deleted => (key.to_vec(), None),
    }
}

fn forward(cursor: &mut Cursor<'_>) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let mut seen = Vec::new();
    cursor.seek_first();
    while let Some(entry) = cursor.entry() {
        seen.push(owned(entry));
        cursor.next();
    }
    seen
}

fn backward(cursor: &mut Cursor<'_>) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let mut seen = Vec::new();
    cursor.seek_last();
    while let Some(entry) = cursor.entry() {
        seen.push(owned(entry));
        cursor.prev();
    }
    seen.reverse();
    seen
}

/// How keys of one run of the test look. Heads are equal, zero-padded or plain, by kind.
pub(super) fn key(random: &mut Random, kind: u64, spread: u64) -> Vec<u8> {
    let number = random.below(spread);
    match kind {
        0 => (number as u32).to_be_bytes().to_vec(),
        1 => [&b"a prefix of 19 byte"[..], &(number as u16).to_be_bytes()].concat(),
        2 => vec![0; number as usize % 24],
        3 => {
            // Groups within groups, and keys that end where others go on.
            let mut key = [b"group ".repeat(number as usize % 4), vec![number as u8 / 64; 9]].concat();
            key.extend((number as u16).to_be_bytes());
            key.truncate(if random.chance(1, 8) { number as usize % 32 } else { key.len() });
            key
        }
        _ => (0..random.below(12)).map(|_| b"\0\x01a\xff"[random.below(4) as usize]).collect(),
    }
}

fn step(random: &mut Random, kind: u64, spread: u64, ts: u64, writer: &mut Writer, model: &mut Model) {
    let (table, at) = (TABLE, CommitTs(ts));
    let one = key(random, kind, spread);
    match random.below(40) {
        0 => {
            let other = random.chance(2, 3).then(|| key(random, kind, spread));
            writer.apply(at, table, Op::DeleteRange { start: &one, end: other.as_deref() });
            if other.as_ref().is_none_or(|other| one < *other) {
                model.ranges.push((one, other, ts));
            }
        }
        9 if random.chance(1, 4) => {
            let mut bounds: Vec<_> = (0..2 + random.below(60)).map(|_| key(random, kind, spread)).collect();
            bounds.sort();
            bounds.dedup();
            // Some touch, and at times the last one has no end.
            let pairs = bounds.windows(2).filter(|_| random.chance(2, 3)).collect::<Vec<_>>();
            let mut spans: Vec<_> = pairs.iter().map(|pair| (&pair[0][..], Some(&pair[1][..]))).collect();
            let mut free = spans.first().and_then(|span| span.1);
            spans.retain(|span| {
                let apart = free.is_none_or(|free| free <= span.0 || span.1 == Some(free));
                free = if apart { span.1 } else { free };
                apart
            });
            if random.chance(1, 5)
                && let Some(last) = spans.last_mut()
            {
                last.1 = None;
            }
            writer.delete_ranges(table, &spans, at);
            let owned = |(start, end): &(&[u8], Option<&[u8]>)| (start.to_vec(), end.map(<[u8]>::to_vec), ts);
            model.ranges.extend(spans.iter().map(owned));
        }
        1..8 => {
            writer.apply(at, table, Op::Delete { key: &one });
            model.versions.insert((one, Reverse(ts)), None);
        }
        8 => {
            let mut batch: Vec<_> = (0..random.below(60)).map(|_| key(random, kind, spread)).collect();
            batch.sort();
            batch.dedup();
            let value = ts.to_be_bytes();
            writer.extend_sorted(
                table,
                at,
                &mut batch.iter().map(|key| (&key[..], Value::Inline(&value[..]))),
            );
            model.versions.extend(batch.into_iter().map(|key| ((key, Reverse(ts)), Some(value.to_vec()))));
        }
        _ => {
            let value = vec![b'v'; random.below(40) as usize];
            writer.apply(at, table, Op::Put { key: &one, value: &value });
            model.versions.insert((one, Reverse(ts)), Some(value));
        }
    }
}

fn check_points(random: &mut Random, kind: u64, spread: u64, ts: u64, memtable: &Memtable, model: &Model) {
    for _ in 0..40 {
        let (one, other) = (key(random, kind, spread), key(random, kind, spread));
        let at = random.below(ts + 2);
        assert_eq!(memtable.get(TABLE, &one, CommitTs(at)), model.get(&one, at), "{one:?} at {at}");
        let newest = model.own(&one, u64::MAX).map(|own| own.0).max(model.range_ts(&one, u64::MAX));
        assert_eq!(memtable.newest_in(TABLE, &one), newest.map(CommitTs));
        let since = ts.saturating_sub(random.below(8));
        for end in [Bound::Unbounded, Bound::Included(&other[..]), Bound::Excluded(&other[..])] {
            if end != Bound::Unbounded && other <= one {
                continue;
            }
            let changed = memtable.changed_since(TABLE, &one, end, CommitTs(since));
            assert_eq!(changed.is_some(), model.changed(&one, end, since), "{one:?}..{end:?} since {since}");
            if let Bound::Included(end) = end {
                let most = [0, 3, u32::MAX][random.below(3) as usize];
                let is_unchanged = memtable.is_unchanged(TABLE, &one, end, CommitTs(since), most);
                assert!(!is_unchanged || changed.is_none(), "{one:?}..={end:?} since {since}");
                assert!(is_unchanged || changed.is_some() || most < u32::MAX);
            }
        }
    }
}

/// What changed since, from both ends.
fn check_changes(random: &mut Random, kind: u64, spread: u64, ts: u64, memtable: &Memtable, model: &Model) {
    for _ in 0..40 {
        let one = key(random, kind, spread);
        let most = if random.chance(1, 2) { 8 } else { ts + 1 };
        let since = ts.saturating_sub(random.below(most));
        let newer = |entry: &(&(Vec<u8>, Reverse<u64>), _)| entry.0.1.0 > since;
        let from = (one.clone(), Reverse(u64::MAX));
        let next = model.versions.range(from.clone()..).find(newer).map(|entry| &entry.0.0[..]);
        assert_eq!(memtable.key_changed_since(TABLE, &one, CommitTs(since)), next, "{one:?} since {since}");
        let last = model.versions.range(..from).rev().find(newer).map(|entry| &entry.0.0[..]);
        assert_eq!(memtable.key_changed_before(TABLE, &one, CommitTs(since)), last, "{one:?} since {since}");
    }
}

fn check_cursors(random: &mut Random, kind: u64, spread: u64, ts: u64, memtable: &Memtable, model: &Model) {
    let at = random.below(ts + 1);
    let expected = model.entries(at);
    let mut cursor = memtable.cursor(TABLE, CommitTs(at));
    assert_eq!(forward(&mut cursor), expected);
    assert_eq!(backward(&mut cursor), expected);
    for _ in 0..20 {
        let target = key(random, kind, spread);
        let mut place = expected.partition_point(|entry| entry.0 < target);
        if random.chance(1, 2) {
            cursor.seek(&target);
        } else {
            cursor.seek_before(&target);
            place = place.wrapping_sub(1);
        }
        for _ in 0..random.below(30) {
            assert_eq!(cursor.entry().map(owned).as_ref(), expected.get(place), "from {target:?}");
            if cursor.entry().is_none() {
                break;
            }
            if random.chance(1, 2) {
                cursor.next();
                place += 1;
            } else {
                cursor.prev();
                place = place.wrapping_sub(1);
            }
        }
    }
}

#[test]
fn agrees_with_a_map() {
    for seed in 0..15 {
        let mut random = Random::seeded(seed);
        let (kind, spread) = (seed % 5, [60, 1000, 20_000][seed as usize % 3]);
        let (memtable, mut writer) = Memtable::new();
        let mut model = Model::default();
        for ts in 1..1500 {
            step(&mut random, kind, spread, ts, &mut writer, &mut model);
            if random.chance(1, 60) {
                check_points(&mut random, kind, spread, ts, &memtable, &model);
                check_changes(&mut random, kind, spread, ts, &memtable, &model);
                check_cursors(&mut random, kind, spread, ts, &memtable, &model);
            }
        }
    }
}

#[test]
fn cursors_keep_their_snapshot_while_the_writer_goes_on() {
    for seed in 100..108 {
        let mut random = Random::seeded(seed);
        let (kind, spread) = (seed % 4, 3000);
        let (memtable, mut writer) = Memtable::new();
        let mut model = Model::default();
        let mut held: Vec<(Cursor<'_>, Vec<_>, usize)> = Vec::new();
        for ts in 1..2500 {
            step(&mut random, kind, spread, ts, &mut writer, &mut model);
            if random.chance(1, 40) {
                let expected = model.entries(ts);
                let mut cursor = memtable.cursor(TABLE, CommitTs(ts));
                let target = key(&mut random, kind, spread);
                cursor.seek(&target);
                let place = expected.partition_point(|entry| entry.0 < target);
                held.push((cursor, expected, place));
            }
            held.retain_mut(|(cursor, expected, place)| {
                assert_eq!(cursor.entry().map(owned).as_ref(), expected.get(*place), "since {ts}");
                if random.chance(1, 2) {
                    cursor.next();
                    *place += 1;
                } else {
                    cursor.prev();
                    *place = place.wrapping_sub(1);
                }
                let on = cursor.entry().is_some();
                assert_eq!(cursor.entry().map(owned).as_ref(), expected.get(*place), "since {ts}");
                on
            });
        }
    }
}

#[test]
fn ten_thousand_tables_stay_apart() {
    let (memtable, mut writer) = Memtable::new();
    let mut ids: Vec<u32> = (0..10_000).map(|id| id * 7 + 3).collect();
    Random::seeded(5).shuffle(&mut ids);
    for &id in &ids {
        writer.put(TableId(id), b"key", &id.to_be_bytes(), CommitTs(1));
    }
    ids.sort();
    assert_eq!(memtable.tables(), ids.iter().copied().map(TableId).collect::<Vec<_>>());
    for id in ids {
        assert_eq!(
            memtable.get(TableId(id), b"key", CommitTs(1)),
            Some(Value::Inline(&id.to_be_bytes()[..]))
        );
        assert_eq!(memtable.get(TableId(id + 1), b"key", CommitTs(1)), None);
    }
    assert!(memtable.bytes() < 10_000 * 512, "{} bytes", memtable.bytes());
}

#[test]
fn sorted_loads_of_every_size_are_whole_and_can_grow() {
    sorted_loads(b"");
    sorted_loads(b"a prefix of 19 byte");
}

fn sorted_loads(prefix: &[u8]) {
    for records in (0..40_u32).chain([224, 225, 226, 240, 241, 3375, 3376, 5000]) {
        let (memtable, mut writer) = Memtable::new();
        let keys: Vec<_> = (0..records).map(|i| [prefix, &(2 * i).to_be_bytes()].concat()).collect();
        writer.extend_sorted(
            TABLE,
            CommitTs(1),
            &mut keys.iter().map(|key| (&key[..], Value::Inline(&key[..]))),
        );
        assert_eq!(forward(&mut memtable.cursor(TABLE, CommitTs(1))).len() as u32, records);
        let between: Vec<_> = (0..records).map(|i| [prefix, &(2 * i + 1).to_be_bytes()].concat()).collect();
        writer.extend_sorted(TABLE, CommitTs(2), &mut between.iter().map(|key| (&key[..], Value::Deleted)));
        assert_eq!(forward(&mut memtable.cursor(TABLE, CommitTs(1))).len() as u32, records);
        assert_eq!(backward(&mut memtable.cursor(TABLE, CommitTs(2))).len() as u32, 2 * records);
        assert_eq!(memtable.records(), u64::from(2 * records));
    }
}

#[test]
fn ascending_keys_behind_a_prefix_are_found_and_can_be_surrounded() {
    let (memtable, mut writer) = Memtable::new();
    let key = |i: u32| [&b"a prefix of 19 byte"[..], &i.to_be_bytes()].concat();
    for i in 0..20_000 {
        writer.put(TABLE, &key(2 * i), b"", CommitTs(1));
    }
    let outside: [&[u8]; 5] = [b"", b"a prefix", b"a prefix of 18", b"a prefix of 19 bytes", b"z"];
    for other in outside {
        assert_eq!(memtable.get(TABLE, other, CommitTs(1)), None);
        writer.put(TABLE, other, b"", CommitTs(2));
    }
    for i in (0..20_000).rev() {
        writer.put(TABLE, &key(2 * i + 1), b"", CommitTs(2));
    }
    for i in 0..40_000 {
        assert!(memtable.get(TABLE, &key(i), CommitTs(2)).is_some(), "{i}");
        assert_eq!(memtable.get(TABLE, &key(i), CommitTs(1)).is_some(), i % 2 == 0, "{i}");
    }
    assert_eq!(forward(&mut memtable.cursor(TABLE, CommitTs(1))).len(), 20_000);
    assert_eq!(backward(&mut memtable.cursor(TABLE, CommitTs(2))).len(), 40_005);
}

#[test]
fn sizes_from_nothing_to_the_largest_value() {
    let (memtable, mut writer) = Memtable::new();
    assert!(memtable.is_empty() && memtable.bytes() < 10 << 10);
    let large = vec![7; 64 << 20];
    writer.put(TABLE, b"", b"", CommitTs(1));
    assert!(memtable.bytes() < 10 << 10);
    writer.put(TABLE, b"large", &large, CommitTs(2));
    writer.put(TABLE, &large[..60_000], &large[..300_000], CommitTs(3));
    writer.delete(TABLE, b"large", CommitTs(4));
    assert_eq!(memtable.get(TABLE, b"", CommitTs(9)), Some(Value::Inline(b"")));
    assert_eq!(memtable.get(TABLE, b"large", CommitTs(3)), Some(Value::Inline(&large[..])));
    assert_eq!(memtable.get(TABLE, b"large", CommitTs(4)), Some(Value::Deleted));
    assert_eq!(memtable.get(TABLE, &large[..60_000], CommitTs(3)), Some(Value::Inline(&large[..300_000])));
}

#[test]
fn the_last_of_two_puts_with_one_timestamp_counts() {
    let (memtable, mut writer) = Memtable::new();
    writer.put(TABLE, b"k", b"first", CommitTs(1));
    writer.put(TABLE, b"k", b"last", CommitTs(1));
    writer.delete_range(TABLE, b"", None, CommitTs(1));
    assert_eq!(memtable.get(TABLE, b"k", CommitTs(1)), Some(Value::Inline(b"last")));
    assert_eq!(memtable.get(TABLE, b"other", CommitTs(1)), Some(Value::Deleted));
    let whole = memtable.ranges(TABLE, CommitTs(1));
    assert_eq!(whole.spans(CommitTs(0)).collect::<Vec<_>>(), [(&b""[..], None)]);
}

/// Readers take snapshots of what was applied and check that each commit is there whole, while the writer
/// writes.
#[test]
fn readers_see_whole_commits_under_a_writer() {
    use std::sync::atomic::{AtomicU64, Ordering};
    const COMMITS: u64 = 4000;
    const KEYS: u64 = 5;
    let (memtable, mut writer) = Memtable::new();
    let applied = AtomicU64::new(0);
    let key = |commit: u64, i: u64| (commit.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ i << 60).to_be_bytes();
    std::thread::scope(|scope| {
        for seed in 0..3 {
            let (memtable, applied) = (Arc::clone(&memtable), &applied);
            scope.spawn(move || {
                let mut random = Random::seeded(seed);
                loop {
                    let at = applied.load(Ordering::Acquire);
                    let mut cursor = memtable.cursor(TABLE, CommitTs(at));
                    cursor.seek_first();
                    let mut seen = 0;
                    while let Some((_, found)) = cursor.entry() {
                        assert!(matches!(found, Value::Inline(value) if value <= &at.to_be_bytes()[..]));
                        seen += 1;
                        cursor.next();
                    }
                    assert_eq!(seen, at * KEYS);
                    for _ in 0..50.min(at) {
                        let commit = 1 + random.below(at);
                        let one = key(commit, random.below(KEYS));
                        let value = commit.to_be_bytes();
                        assert_eq!(memtable.get(TABLE, &one, CommitTs(at)), Some(Value::Inline(&value)));
                    }
                    if at == COMMITS {
                        break;
                    }
                }
            });
        }
        for commit in 1..=COMMITS {
            for i in 0..KEYS {
                writer.put(TABLE, &key(commit, i), &commit.to_be_bytes(), CommitTs(commit));
            }
            applied.store(commit, Ordering::Release);
        }
    });
}

#[test]
fn what_a_commit_takes_was_reserved() {
    for seed in 0..60 {
        let mut random = Random::seeded(seed);
        let account = Account::alone(64 << 20);
        let chunk = 4096 << random.below(8);
        let (memtable, mut writer) =
            Memtable::charged(Charge::none(&account, MemoryCategory::Memtables), chunk);
        let kind = random.below(4);
        for ts in 1..400 {
            let count = if random.chance(1, 12) { 200 } else { 1 + random.below(3) };
            let longest = [20, 300, 5_000, 200_000][random.below(4) as usize] / count + 1;
            let mut changes: Vec<_> = (0..count)
                .map(|_| (key(&mut random, kind, 5_000), vec![7; random.below(longest) as usize]))
                .collect();
            changes.sort();
            changes.dedup_by(|a, b| a.0 == b.0);
            let payload = changes.iter().map(|(key, value)| key.len() + value.len()).sum();
            assert!(writer.reserve(payload, count), "seed {seed}");
            let charged = account.held().total();
            let pairs = changes.iter().map(|(key, value)| (&key[..], Value::Inline(&value[..])));
            writer.extend_sorted(TableId(16), CommitTs(ts), &mut { pairs });
            assert_eq!(account.held().total(), charged, "seed {seed}, commit {ts}: charged by force");
            assert!(memtable.bytes() <= charged);
        }
        drop(writer);
        assert_eq!(account.held().bytes(MemoryCategory::Memtables), memtable.bytes(), "seed {seed}");
        drop(memtable);
        assert_eq!(account.held().total(), 0, "seed {seed}");
    }
}

/// Commits of adjacent keys, few or many, between those of earlier commits: what they do to leaves that are full, and
/// what they take, which is charged before.
#[test]
fn adjacent_keys_fit_between_others() {
    for seed in 0..40 {
        let mut random = Random::seeded(seed);
        let account = Account::alone(64 << 20);
        let none = Charge::none(&account, MemoryCategory::Memtables);
        let (memtable, mut writer) = Memtable::charged(none, 4096);
        let mut model = BTreeMap::new();
        // Many in few places, or few in many.
        let (places, longest) = [(3, 200), (20, 40), (400, 2), (400, 9)][seed as usize % 4];
        for ts in 1..150 {
            let mut keys = Vec::new();
            for _ in 0..1 + random.below(places) {
                let place = random.below(places);
                let run = model.range((place, 0)..(place + 1, 0)).count() as u64;
                // After the last one of the place, or before all, or over some of them.
                let from = [1_000 + run, 1_000 - random.below(1_000), 1_000][random.below(3) as usize];
                keys.extend((from..from + 1 + random.below(longest)).map(|at| (place, at)));
            }
            keys.sort_unstable();
            keys.dedup();
            model.extend(keys.iter().map(|&key| (key, ts)));
            let bytes = |(place, at): &(u64, u64)| [place.to_be_bytes(), at.to_be_bytes()].concat();
            let changes: Vec<_> = keys.iter().map(bytes).collect();
            assert!(writer.reserve(changes.len() * 16, changes.len() as u64), "seed {seed}");
            let charged = account.held().total();
            let pairs = changes.iter().map(|key| (&key[..], Value::Inline(&key[8..])));
            writer.extend_sorted(TABLE, CommitTs(ts), &mut { pairs });
            assert_eq!(account.held().total(), charged, "seed {seed}, commit {ts}: charged by force");
        }
        let mut cursor = memtable.cursor(TABLE, CommitTs::MAX);
        cursor.seek_first();
        for (&(place, at), &ts) in &model {
            let key = [place.to_be_bytes(), at.to_be_bytes()].concat();
            assert_eq!(cursor.entry(), Some((&key[..], Value::Inline(&key[8..]))), "seed {seed}");
            assert_eq!(memtable.newest_in(TABLE, &key), Some(CommitTs(ts)), "seed {seed}");
            assert!(!memtable.is_unchanged(TABLE, &key, &key, CommitTs(ts - 1), 100), "seed {seed}");
            cursor.next();
        }
        assert_eq!(cursor.entry(), None, "seed {seed}");
    }
}

/// Writers that each append to a range of their own fill nodes as one writer alone does.
#[test]
fn writers_beside_each_other_fill_their_leaves() {
    const ROWS: u64 = 40_000;
    let used_by = |writers: u64| {
        let (_, mut writer) = Memtable::new();
        for (ts, first) in (1..).zip((0..ROWS / writers).step_by(100)) {
            for range in 0..writers {
                let ids = first..first + 100;
                let keys: Vec<_> = ids.map(|id| (range << 32 | id).to_be_bytes()).collect();
                let changes = keys.iter().map(|key| (&key[..], Value::Inline(b"value")));
                writer.extend_sorted(TABLE, CommitTs(ts), &mut { changes });
            }
        }
        writer.used_bytes() as u64 / ROWS
    };
    let (alone, beside) = (used_by(1), used_by(8));
    assert!(beside * 10 <= alone * 12, "{alone} bytes a row alone, {beside} beside others");
}

/// What a range delete takes is logarithmic, whatever was deleted before and however it overlaps; and looking at the
/// newest takes nothing for those that it replaced.
#[test]
fn range_deletes_stay_small_and_few_edges_stay() {
    let key = |i: u32| i.to_be_bytes();
    let (memtable, mut writer) = Memtable::new();
    const COUNT: u32 = 20_000;
    for i in 0..COUNT {
        // The beginning of the table, farther each time: what keeps a log short does that.
        writer.delete_range(TABLE, b"", Some(&key(i + 1)), CommitTs(u64::from(i) + 1));
    }
    let ranges = |at: u32| memtable.ranges(TABLE, CommitTs(u64::from(at)));
    assert_eq!(ranges(COUNT).spans(CommitTs(0)).count(), 1);
    assert_eq!(
        ranges(COUNT / 2).spans(CommitTs(0)).collect::<Vec<_>>(),
        [(&b""[..], Some(&key(COUNT / 2)[..]))]
    );
    assert!(memtable.bytes() < COUNT as usize * 300, "{} bytes", memtable.bytes());

    let (memtable, mut writer) = Memtable::new();
    for i in 0..COUNT {
        writer.delete_range(TABLE, &key(10 * i + 1), Some(&key(10 * i + 9)), CommitTs(u64::from(i) + 1));
    }
    let one_by_one = memtable.bytes();
    assert!(one_by_one < COUNT as usize * 3000, "{one_by_one} bytes");
    let at = CommitTs(u64::from(COUNT));
    assert_eq!(memtable.ranges(TABLE, at).spans(CommitTs(0)).count() as u32, COUNT);
    assert_eq!(memtable.ranges(TABLE, at).spans(CommitTs(u64::from(COUNT) - 3)).count(), 3);

    let (memtable, mut writer) = Memtable::new();
    let bounds: Vec<_> = (0..COUNT).map(|i| (key(10 * i + 1), key(10 * i + 9))).collect();
    let spans: Vec<_> = bounds.iter().map(|(start, end)| (&start[..], Some(&end[..]))).collect();
    writer.delete_ranges(TABLE, &spans, CommitTs(1));
    assert_eq!(memtable.ranges(TABLE, CommitTs(1)).spans(CommitTs(0)).collect::<Vec<_>>(), spans);
    assert!(memtable.bytes() < COUNT as usize * 320, "{} bytes", memtable.bytes());
}
