//! The memory of memtables that are gone, used again by others.

#![cfg(not(loom))]

use base::budget::{Account, Charge, MemoryCategory};
use base::env::Random;
use base::{CommitTs, TableId, Value};
use pando_memtable::{IdleChunks, Memtable, Staged, Writer};
use std::collections::BTreeMap;
use std::sync::{Arc, Barrier};
use std::thread;

const TABLE: TableId = TableId(16);
const CHUNK: usize = 1 << 20;
const BUDGET: usize = 256 << 20;

fn memtable(account: &Arc<Account>, idle: &Arc<IdleChunks>) -> (Arc<Memtable>, Writer) {
    Memtable::reusing(Charge::none(account, MemoryCategory::Memtables), CHUNK, idle)
}

/// Fills a memtable with at least `bytes`.
fn filled(account: &Arc<Account>, idle: &Arc<IdleChunks>, bytes: usize) -> Arc<Memtable> {
    let (memtable, mut writer) = memtable(account, idle);
    for key in 0_u64.. {
        writer.put(TABLE, &key.to_be_bytes(), &[1; 1000], CommitTs(1));
        if memtable.bytes() >= bytes {
            break;
        }
    }
    memtable
}

fn held(account: &Account) -> (usize, usize) {
    let held = account.held();
    (held.bytes(MemoryCategory::Memtables), held.bytes(MemoryCategory::IdleChunks))
}

#[test]
fn what_one_memtable_leaves_the_next_one_uses() {
    let account = Account::alone(BUDGET);
    let idle = IdleChunks::new(&account, 64 << 20);
    let first = filled(&account, &idle, 8 << 20);
    let bytes = first.bytes();
    drop(first);
    let kept = idle.bytes();
    assert!(kept > bytes - CHUNK, "{kept} of {bytes}");
    assert_eq!(held(&account), (0, kept));
    assert_eq!(account.budget().used_bytes(), kept);

    let second = filled(&account, &idle, 8 << 20);
    assert_eq!(held(&account), (second.bytes(), idle.bytes()));
    assert_eq!((second.bytes(), idle.bytes()), (bytes, 0));
    assert_eq!(account.budget().peak_bytes(), bytes, "the same memory, and no other");
    drop(second);
    drop(idle);
    assert_eq!(account.held().total(), 0);
}

#[test]
fn no_more_is_kept_than_allowed_and_than_the_budget_has_to_spare() {
    let account = Account::alone(BUDGET);
    let idle = IdleChunks::new(&account, 3 << 20);
    drop(filled(&account, &idle, 8 << 20));
    let kept = idle.bytes();
    assert!((2 << 20..=3 << 20).contains(&kept), "{kept}");
    assert_eq!(idle.give(usize::MAX), kept);

    let pages = account.charge(MemoryCategory::Pool, BUDGET / 8 * 7).unwrap();
    drop(filled(&account, &idle, 8 << 20));
    assert_eq!((idle.bytes(), held(&account)), (0, (0, 0)), "less than an eighth was free");
    drop(pages);

    let reader = filled(&account, &idle, 8 << 20);
    idle.close();
    drop(reader);
    assert_eq!(idle.bytes(), 0, "nothing is kept after the end");
}

/// A long value has a chunk of its own size, which hardly another one could use.
#[test]
fn chunks_of_unusual_sizes_are_not_kept() {
    let account = Account::alone(BUDGET);
    let idle = IdleChunks::new(&account, 64 << 20);
    let (long, mut writer) = memtable(&account, &idle);
    (0..30_u8).for_each(|key| writer.put(TABLE, &[key], &vec![key; 300_000], CommitTs(1)));
    assert!(long.bytes() > 9_000_000);
    drop((long, writer));
    assert!(idle.bytes() <= CHUNK, "{}", idle.bytes());
    assert_eq!(held(&account), (0, idle.bytes()));
}

#[test]
fn idle_chunks_are_given_up_where_memory_is_needed() {
    let account = Account::alone(BUDGET);
    let idle = IdleChunks::new(&account, 64 << 20);
    drop(filled(&account, &idle, 16 << 20));
    let before = idle.bytes();
    let given = idle.give(3 << 20);
    assert!((3 << 20..=4 << 20).contains(&given), "{given}");
    assert_eq!((idle.bytes(), account.budget().used_bytes()), (before - given, before - given));
    assert_eq!(idle.give(usize::MAX), before - given);
    assert_eq!(idle.give(1), 0);
}

#[test]
fn what_is_not_needed_for_two_seconds_is_freed() {
    let account = Account::alone(BUDGET);
    let idle = IdleChunks::new(&account, 64 << 20);
    let kept = || drop(filled(&account, &idle, 16 << 20));
    kept();
    let all = idle.bytes();
    // A writer fills one memtable a second: all of it is needed.
    for _ in 0..10 {
        kept();
        (0..4).for_each(|_| idle.rest());
        assert_eq!(idle.bytes(), all);
    }
    // Another one needs the half of it.
    for _ in 0..10 {
        drop(filled(&account, &idle, 8 << 20));
        (0..4).for_each(|_| idle.rest());
    }
    let half = idle.bytes();
    assert!((8 << 20..12 << 20).contains(&half), "{half}");
    // None writes.
    (0..8).for_each(|_| idle.rest());
    let mut before = idle.bytes();
    for _ in 0..16 {
        idle.rest();
        assert!(before - idle.bytes() <= 5 << 20, "as much at once as takes a millisecond");
        before = idle.bytes();
    }
    assert_eq!((idle.bytes(), held(&account)), (0, (0, 0)));
}

/// Commits `pairs`, as a stage or all at once.
fn write(writer: &mut Writer, pairs: &BTreeMap<[u8; 8], Vec<u8>>, ts: CommitTs, is_staged: bool) {
    let payload = pairs.iter().map(|(key, value)| key.len() + value.len()).sum();
    let pairs = pairs.iter().map(|(key, value)| (&key[..], Value::Inline(&value[..])));
    if !is_staged {
        return writer.extend_sorted(TABLE, ts, &mut { pairs });
    }
    let count = pairs.len() as u64;
    let mut staged = Staged::begin(writer.memtable(), payload, count, usize::MAX).expect("there is memory");
    pairs.for_each(|(key, value)| staged.push(TABLE, key, value));
    writer.link(&mut staged, ts);
}

/// Memtables that begin and end in any order, each with the content of others in its memory.
#[test]
fn nothing_of_one_memtable_is_seen_in_another() {
    for seed in 0..6 {
        println!("seed {seed}");
        let mut random = Random::seeded(seed);
        let account = Account::alone(BUDGET);
        let idle = IdleChunks::new(&account, (1 + random.below(16) as usize) << 20);
        let mut open = Vec::new();
        for _ in 0..40 {
            if open.len() > 3 {
                open.swap_remove(random.below(open.len() as u64) as usize);
            }
            let (memtable, mut writer) = memtable(&account, &idle);
            let mut model = BTreeMap::new();
            let longest = 1 + random.below(600);
            for ts in 1..=random.below(40) {
                let pairs: BTreeMap<_, _> = (0..1 + random.below(120))
                    .map(|_| {
                        (random.below(20_000).to_be_bytes(), vec![ts as u8; random.below(longest) as usize])
                    })
                    .collect();
                write(&mut writer, &pairs, CommitTs(ts), random.chance(1, 2));
                model.extend(pairs);
            }
            open.push((memtable, writer, model));
            for (memtable, _, model) in &open {
                let mut cursor = memtable.cursor(TABLE, CommitTs::MAX);
                cursor.seek_first();
                for (key, value) in model {
                    assert_eq!(cursor.entry(), Some((&key[..], Value::Inline(&value[..]))), "seed {seed}");
                    cursor.next();
                }
                assert_eq!(cursor.entry(), None, "seed {seed}");
            }
            let all = open.iter().map(|(memtable, ..)| memtable.bytes()).sum::<usize>();
            assert!(held(&account).0 >= all, "credit comes on top");
            assert_eq!(held(&account).1, idle.bytes());
        }
        drop(open);
        assert_eq!(held(&account), (0, idle.bytes()), "seed {seed}");
    }
}

#[test]
fn threads_share_idle_chunks() {
    let account = Account::alone(BUDGET);
    let idle = IdleChunks::new(&account, 12 << 20);
    let begin = Barrier::new(4);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                begin.wait();
                (0..20).for_each(|_| drop(filled(&account, &idle, 6 << 20)));
            });
        }
        begin.wait();
        for _ in 0..200 {
            idle.rest();
            idle.give(100_000);
            thread::yield_now();
        }
    });
    assert_eq!(held(&account), (0, idle.bytes()));
    drop(idle);
    assert_eq!(account.held().total(), 0);
}
