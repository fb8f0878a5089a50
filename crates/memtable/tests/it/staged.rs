//! Staged commits: what was staged early is applied in its turn, whatever was applied meanwhile.

#![cfg(not(loom))]

use crate::model::key;
use base::budget::{Account, Charge, MemoryCategory};
use base::env::Random;
use base::sync::Arc;
use base::{CommitTs, TableId, Value};
use pando_memtable::{Memtable, Staged};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Barrier, Mutex};

const TABLE: TableId = TableId(16);

/// The newest change of each key of a table: its commit.
type Newest = BTreeMap<(TableId, Vec<u8>), u64>;
type Keys = Vec<(TableId, Vec<u8>)>;

/// Stages a commit of up to `most` keys.
fn stage(random: &mut Random, memtable: &Arc<Memtable>, kind: u64, most: u64) -> (Staged, Keys) {
    let one = |random: &mut Random| (TableId(16 + random.below(8) as u32 / 7), key(random, kind, 20_000));
    let mut keys: Keys = (0..1 + random.below(most)).map(|_| one(random)).collect();
    keys.sort();
    keys.dedup();
    let payload = keys.iter().map(|(_, key)| 2 * key.len()).sum();
    let mut staged = Staged::begin(memtable, payload, keys.len() as u64, usize::MAX)
        .expect("there is memory, and a writer");
    keys.iter().for_each(|(table, key)| staged.push(*table, key, Value::Inline(key)));
    if random.chance(7, 8) {
        staged.search();
    }
    (staged, keys)
}

fn check(memtable: &Memtable, newest: &Newest, seed: u64) {
    for table in [TABLE, TableId(17)] {
        let mut cursor = memtable.cursor(table, CommitTs::MAX);
        cursor.seek_first();
        for ((_, key), _) in newest.iter().filter(|((of, _), _)| *of == table) {
            assert_eq!(cursor.entry(), Some((&key[..], Value::Inline(key))), "seed {seed}");
            cursor.next();
        }
        assert_eq!(cursor.entry(), None, "seed {seed}");
    }
    for ((table, key), &ts) in newest {
        assert_eq!(memtable.newest_in(*table, key), Some(CommitTs(ts)), "seed {seed}");
        assert!(!memtable.is_unchanged(*table, key, key, CommitTs(ts - 1), 100), "seed {seed}");
    }
    // From the first key on, this goes to the leaf through nodes that know of the change.
    for ((table, _), &ts) in newest.iter().step_by(7) {
        let of_table = newest.iter().filter(|((of, _), _)| of == table);
        let first = of_table.filter(|(_, newest)| **newest >= ts).map(|((_, key), _)| &key[..]).next();
        assert_eq!(
            memtable.key_changed_since(*table, &[], CommitTs(ts - 1)),
            first,
            "seed {seed}, commit {ts}"
        );
    }
}

#[test]
fn staged_early_and_linked_in_any_order() {
    for seed in 0..60 {
        println!("seed {seed}");
        let mut random = Random::seeded(seed);
        let account = Account::alone(64 << 20);
        let none = Charge::none(&account, MemoryCategory::Memtables);
        let (memtable, mut writer) = Memtable::charged(none, 4096 << random.below(8));
        let (kind, most) = (seed % 5, [4, 30, 200][seed as usize % 3]);
        let (mut newest, mut waiting) = (Newest::new(), Vec::new());
        for ts in 1..120 {
            while waiting.len() < 1 + random.below(6) as usize {
                waiting.push(stage(&mut random, &memtable, kind, most));
            }
            let (mut staged, keys) = waiting.swap_remove(random.below(waiting.len() as u64) as usize);
            if random.chance(1, 8) {
                // Its memory is used again.
                drop(staged);
                continue;
            }
            let charged = account.held().total();
            match random.chance(1, 8) {
                true => {
                    drop(staged);
                    let pairs = keys.iter().map(|(_, key)| (&key[..], Value::Inline(&key[..])));
                    let pairs = pairs.take(keys.iter().filter(|(table, _)| *table == TABLE).count());
                    writer.extend_sorted(TABLE, CommitTs(ts), &mut { pairs });
                    newest.extend(keys.into_iter().filter(|key| key.0 == TABLE).map(|key| (key, ts)));
                }
                false => {
                    writer.link(&mut staged, CommitTs(ts));
                    assert!(account.held().total() <= charged, "seed {seed}, commit {ts}: charged by force");
                    newest.extend(keys.into_iter().map(|key| (key, ts)));
                }
            }
            if random.chance(1, 20) {
                check(&memtable, &newest, seed);
            }
        }
        check(&memtable, &newest, seed);
        drop((waiting, writer));
        assert_eq!(account.held().bytes(MemoryCategory::Memtables), memtable.bytes(), "seed {seed}");
        drop(memtable);
        assert_eq!(account.held().total(), 0, "seed {seed}");
    }
}

/// Threads stage beside each other and beside the writer, and take turns.
#[test]
fn threads_stage_beside_the_writer() {
    const COMMITS: u64 = 300;
    for kind in [0, 1, 3] {
        let (memtable, writer) = Memtable::new();
        let turn = Mutex::new((writer, 0, Newest::new()));
        std::thread::scope(|scope| {
            for seed in 0..3 {
                let (memtable, turn) = (&memtable, &turn);
                scope.spawn(move || {
                    let mut random = Random::seeded(seed);
                    for _ in 0..COMMITS {
                        let (mut staged, keys) = stage(&mut random, memtable, kind, 60);
                        let (writer, ts, newest) = &mut *turn.lock().unwrap();
                        *ts += 1;
                        writer.link(&mut staged, CommitTs(*ts));
                        newest.extend(keys.into_iter().map(|key| (key, *ts)));
                    }
                });
            }
        });
        let (_, ts, newest) = &*turn.lock().unwrap();
        assert_eq!(*ts, 3 * COMMITS);
        check(&memtable, newest, kind);
    }
}

#[test]
fn a_commit_of_more_keys_than_hints() {
    let (mut random, mut newest) = (Random::seeded(7), Newest::new());
    let (memtable, mut writer) = Memtable::new();
    let (mut first, keys) = stage(&mut random, &memtable, 0, 4000);
    writer.link(&mut first, CommitTs(1));
    newest.extend(keys.into_iter().map(|key| (key, 1)));
    let commits: Vec<_> = (0..3).map(|_| stage(&mut random, &memtable, 0, 8000)).collect();
    for (ts, (mut staged, keys)) in (2..).zip(commits) {
        writer.link(&mut staged, CommitTs(ts));
        newest.extend(keys.into_iter().map(|key| (key, ts)));
    }
    assert!(newest.len() > 4000, "the commits had {} keys", newest.len());
    check(&memtable, &newest, 7);
}

#[test]
fn nothing_is_staged_without_a_writer_or_linked_elsewhere() {
    let (memtable, mut writer) = Memtable::new();
    let mut staged = Staged::begin(&memtable, 2, 1, usize::MAX).unwrap();
    staged.push(TABLE, b"k", Value::Inline(b"v"));
    let (other, mut other_writer) = Memtable::new();
    assert!(staged.is_in(&memtable) && !staged.is_in(&other));
    let linked = catch_unwind(AssertUnwindSafe(|| other_writer.link(&mut staged, CommitTs(1))));
    assert!(linked.is_err() && other.is_empty() && memtable.is_empty());
    writer.link(&mut staged, CommitTs(1));
    let again = catch_unwind(AssertUnwindSafe(|| writer.link(&mut staged, CommitTs(2))));
    assert!(again.is_err() && memtable.records() == 1);
    drop(staged);
    // A stage is used again, and ends with the writer even if a commit holds it then.
    writer.link(&mut Staged::begin(&memtable, 0, 0, usize::MAX).unwrap(), CommitTs(1));
    let held = Staged::begin(&memtable, 2, 1, usize::MAX).unwrap();
    drop(writer);
    assert!(Staged::begin(&memtable, 2, 1, usize::MAX).is_none());
    drop(held);
    assert!(Staged::begin(&memtable, 2, 1, usize::MAX).is_none());
}

#[test]
fn a_refused_charge_leaves_the_stage_for_others() {
    let account = Account::alone(1 << 20);
    let none = Charge::none(&account, MemoryCategory::Memtables);
    let (memtable, mut writer) = Memtable::charged(none, 4096);
    assert!(Staged::begin(&memtable, 4 << 20, 1, usize::MAX).is_none());
    let mut staged = Staged::begin(&memtable, 2, 1, usize::MAX).unwrap();
    staged.push(TABLE, b"k", Value::Inline(b"v"));
    writer.link(&mut staged, CommitTs(1));
    assert_eq!(memtable.get(TABLE, b"k", CommitTs(1)), Some(Value::Inline(b"v")));
}

/// Stages a commit of `count` keys with values of `value_bytes`, or returns `None` if the budget refuses.
fn stage_values(memtable: &Arc<Memtable>, count: u64, value_bytes: usize) -> Option<Staged> {
    let payload = count as usize * (8 + value_bytes);
    let mut staged = Staged::begin(memtable, payload, count, usize::MAX)?;
    for n in 0..count {
        staged.push(TABLE, &n.to_be_bytes(), Value::Inline(&vec![1; value_bytes]));
    }
    staged.search();
    Some(staged)
}

/// A commit that fails leaves nothing in the memtable, whatever its size: neither in an empty one, which is never
/// sealed, nor in one with records.
#[test]
fn abandoned_stages_leave_no_memory() {
    let shapes = [(4, 100 << 10), (8, 60 << 10), (4000, 100), (1, 1 << 20), (10, 8), (100, 3000), (300, 0)];
    for max_chunk_bytes in [4 << 10, 7 << 10, 64 << 10, 1 << 20] {
        let account = Account::alone(64 << 20);
        let none = Charge::none(&account, MemoryCategory::Memtables);
        let (memtable, mut writer) = Memtable::charged(none, max_chunk_bytes);
        for ts in 0..4 {
            let bytes = memtable.bytes();
            assert!(ts > 0 || bytes == 0);
            for (count, value_bytes) in shapes.into_iter().cycle().take(50 * shapes.len()) {
                let staged = stage_values(&memtable, count, value_bytes).expect("there is memory");
                assert!(memtable.bytes() >= count as usize * value_bytes);
                drop(staged);
                assert_eq!(memtable.bytes(), bytes, "{count} values of {value_bytes} bytes");
            }
            // What is linked stays, and is whole.
            writer.link(&mut stage_values(&memtable, 1000, 100).expect("there is memory"), CommitTs(ts + 1));
        }
        for n in 0..1000_u64 {
            assert_eq!(memtable.get(TABLE, &n.to_be_bytes(), CommitTs(4)), Some(Value::Inline(&[1; 100])));
        }
        drop((memtable, writer));
        assert_eq!(account.held().total(), 0);
    }
}

/// What waits for its turn does not count as used, so that the memtable is not sealed because of it.
#[test]
fn what_is_staged_is_not_used() {
    for max_chunk_bytes in [4 << 10, 1 << 20] {
        let account = Account::alone(64 << 20);
        let none = Charge::none(&account, MemoryCategory::Memtables);
        let (memtable, mut writer) = Memtable::charged(none, max_chunk_bytes);
        for ts in 1..100 {
            let before = writer.used_bytes();
            let shapes = [(8, 20), (4, 300 << 10), (500, 100), (1, 0)];
            let staged: Vec<_> =
                shapes.map(|(count, bytes)| stage_values(&memtable, count, bytes).unwrap()).into();
            assert_eq!(writer.used_bytes(), before, "seed {ts}");
            let mut staged = staged.into_iter();
            staged.next_back();
            assert_eq!(writer.used_bytes(), before, "seed {ts}");
            let mut linked = staged.nth(ts as usize % 3).unwrap();
            let (count, value_bytes) = shapes[ts as usize % 3];
            writer.link(&mut linked, CommitTs(ts));
            let payload = count as usize * (8 + value_bytes);
            let used = writer.used_bytes() - before;
            // Beside the records: nodes, and the rests of chunks that were too small.
            assert!(
                used >= payload && used < 2 * payload + (64 << 10),
                "seed {ts}: {used} bytes for {payload}"
            );
            drop((linked, staged));
            assert_eq!(writer.used_bytes(), before + used, "seed {ts}");
        }
    }
}

/// A commit that would take much of a small memtable is not staged.
#[test]
fn all_that_is_staged_takes_a_quarter_of_a_memtable() {
    let (memtable, _writer) = Memtable::new();
    let full_bytes = 2 << 20;
    let most = Staged::most_bytes(full_bytes);
    assert!(most <= full_bytes / 32, "there are at least eight stages");
    assert!(Staged::begin(&memtable, most / 4, 10, full_bytes).is_some());
    assert!(Staged::begin(&memtable, most, 10, full_bytes).is_none());
    assert!(Staged::begin(&memtable, 10, most as u64 / 50, full_bytes).is_none());
}

/// Many threads that commit little do not take much of the budget, neither while they wait for their turn nor after.
#[test]
fn stages_are_few_and_keep_no_credit() {
    const THREADS: u64 = 256;
    const BATCHES: u64 = 20;
    let account = Account::alone(64 << 20);
    let none = Charge::none(&account, MemoryCategory::Memtables);
    let (memtable, writer) = Memtable::charged(none, 1 << 20);
    let one = stage_values(&memtable, 8, 20).expect("there is memory");
    assert!(account.held().total() < 64 << 10, "{} bytes for 8 rows", account.held().total());
    drop(one);
    assert_eq!(account.held().total(), 0);
    let (turn, all_hold) = (Mutex::new((writer, 0, 0, 0)), Barrier::new(THREADS as usize));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            let (memtable, turn, all_hold, account) = (&memtable, &turn, &all_hold, &account);
            scope.spawn(move || {
                for _ in 0..BATCHES {
                    let staged = stage_values(memtable, 8, 20);
                    let is_leader = all_hold.wait().is_leader();
                    let (writer, ts, linked, most_unused) = &mut *turn.lock().unwrap();
                    if is_leader {
                        *most_unused =
                            account.held().total().saturating_sub(memtable.bytes()).max(*most_unused);
                    }
                    *ts += 1;
                    if let Some(mut staged) = staged {
                        *linked += 1;
                        writer.link(&mut staged, CommitTs(*ts));
                        continue;
                    }
                    let _ = writer.reserve(8 * 28, 8);
                    let keys: Vec<_> = (0..8_u64).map(u64::to_be_bytes).collect();
                    let changes = keys.iter().map(|key| (&key[..], Value::Inline(&[1; 20])));
                    writer.extend_sorted(TABLE, CommitTs(*ts), &mut { changes });
                }
            });
        }
    });
    let (writer, ts, linked, most_unused) = &mut *turn.lock().unwrap();
    assert!(*most_unused < 4 << 20, "{most_unused} bytes were charged and not used");
    assert!((*ts, memtable.records()) == (THREADS * BATCHES, 8 * THREADS * BATCHES));
    assert!(*linked >= 8 * BATCHES, "{linked} of {ts} commits were staged");
    writer.shrink_credit(0);
    assert_eq!(account.held().total(), memtable.bytes());
    // A record of a short key and value takes 56 bytes, and each stage and the writer have half a chunk unused.
    assert!(memtable.bytes() < 8 << 20, "{} bytes", memtable.bytes());
}
