//! One memory budget, shared or not: it holds under load, an idle database's part goes to a busy one, what does not
//! fit is refused by name, and nothing is left on the books when all is closed.

use base::env::Random;
use pando::{Budget, Database, Durability, ErrorKind, Layout, MemoryCategory, Result, Table, TableOptions};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const MIB: usize = 1 << 20;

fn open(budget: &Arc<Budget>, page_bytes: usize) -> Result<Database> {
    Database::builder().budget(budget).page_bytes(page_bytes).durability(Durability::Buffered).in_memory()
}

fn value_of(key: u64, version: u64) -> Vec<u8> {
    let mut value = vec![(key * 31 + version) as u8; 100 + (key % 700) as usize];
    value[..8].copy_from_slice(&version.to_le_bytes());
    value
}

/// Commits of many sizes, and reads that check them.
fn work(db: &Database, seed: u64, rounds: u64) -> Result<()> {
    let table = db.ensure_table("t")?;
    let mut random = Random::seeded(seed);
    let mut newest = vec![None; 3_000];
    for round in 0..rounds {
        let count = if random.chance(1, 30) { 200 } else { 1 + random.below(5) };
        let keys: Vec<_> = (0..count).map(|_| random.below(newest.len() as u64)).collect();
        db.write(|tx| {
            keys.iter().try_for_each(|&key| tx.put(&table, &key.to_be_bytes(), &value_of(key, round)))
        })?;
        keys.iter().for_each(|&key| newest[key as usize] = Some(round));
        let key = random.below(newest.len() as u64);
        let expected = newest[key as usize].map(|version| value_of(key, version));
        assert_eq!(db.get(&table, &key.to_be_bytes())?, expected, "seed {seed}, round {round}");
    }
    Ok(())
}

#[test]
fn databases_of_several_page_sizes_share_a_budget_that_holds() -> Result<()> {
    let budget = Budget::new(12 * MIB);
    std::thread::scope(|scope| {
        let workers = [4096, 16384, 32768, 4096].map(|page_bytes| {
            let budget = &budget;
            scope.spawn(move || {
                let db = open(budget, page_bytes)?;
                work(&db, page_bytes as u64, 1_500)?;
                let memory = db.stats()?.memory;
                assert_eq!(memory.limit_bytes, 12 * MIB as u64);
                assert!(memory.held.total() as u64 <= memory.peak_bytes);
                db.close()
            })
        });
        workers.into_iter().try_for_each(|worker| worker.join().unwrap())
    })?;
    println!("peak {} of {}", budget.peak_bytes(), budget.limit_bytes());
    assert!(budget.peak_bytes() <= budget.limit_bytes(), "{}", budget.peak_bytes());
    assert_eq!(budget.used_bytes(), 0, "{:?}", budget.held());
    Ok(())
}

fn fill(db: &Database, records: u64) -> Result<Table> {
    let table = db.ensure_table("t")?;
    for first in (0..records).step_by(100) {
        db.write(|tx| {
            (first..first + 100).try_for_each(|key| tx.put(&table, &key.to_be_bytes(), &[7; 1000]))
        })?;
    }
    db.checkpoint()?;
    Ok(table)
}

fn read_all(db: &Database, table: &Table, records: u64) -> Result<()> {
    (0..records).try_for_each(|key| db.get(table, &key.to_be_bytes()).map(|value| assert!(value.is_some())))
}

#[test]
fn a_busy_database_gets_the_memory_of_idle_ones() -> Result<()> {
    const RECORDS: u64 = 6_000;
    let budget = Budget::new(8 * MIB);
    let pool = |db: &Database| db.stats().map(|stats| stats.memory.held.bytes(MemoryCategory::Pool));
    let idle = [open(&budget, 4096)?, open(&budget, 16384)?];
    for db in &idle {
        let table = fill(db, RECORDS)?;
        (0..3).try_for_each(|_| read_all(db, &table, RECORDS))?;
    }
    let before = [pool(&idle[0])?, pool(&idle[1])?];
    let busy = open(&budget, 8192)?;
    let table = fill(&busy, RECORDS)?;
    for _ in 0..6 {
        read_all(&busy, &table, RECORDS)?;
    }
    let (after, own) = ([pool(&idle[0])?, pool(&idle[1])?], pool(&busy)?);
    println!("idle {before:?} -> {after:?}, busy {own}");
    assert!(before.iter().sum::<usize>() > 4 * MIB, "{before:?}");
    assert!(own > 3 * MIB, "{own}");
    assert!(budget.peak_bytes() <= budget.limit_bytes(), "{}", budget.peak_bytes());
    Ok(())
}

#[test]
fn a_transaction_of_many_budgets_stays_inside_one() -> Result<()> {
    let db = Database::builder().memory_bytes(2 * MIB).page_bytes(4096).in_memory()?;
    let table = db.ensure_table("large")?;
    db.write(|tx| (0..40_000u64).try_for_each(|key| tx.put(&table, &key.to_be_bytes(), &[1; 200])))?;
    assert_eq!(db.snapshot()?.range(&table, ..)?.count(), 40_000);
    let stats = db.stats()?.memory;
    assert!(stats.peak_bytes <= stats.limit_bytes, "{stats:?}");
    assert_eq!(stats.held.bytes(MemoryCategory::WriteSets), 0, "the transaction holds nothing any more");
    work(&db, 1, 300)
}

#[test]
fn what_a_transaction_reads_is_bounded_and_still_conflicts() -> Result<()> {
    let db = Database::builder().memory_bytes(8 * MIB).in_memory()?;
    let table = db.ensure_table("t")?;
    let key = |n: u64| [&b"read/"[..], &n.to_be_bytes(), &[b'x'; 900]].concat();
    let held = || db.stats().map(|stats| stats.memory.held.bytes(MemoryCategory::WriteSets));
    let reader = || -> Result<_> {
        let mut tx = db.begin()?;
        for n in 0..20_000 {
            if n % 2 == 0 {
                assert_eq!(tx.get(&table, &key(n))?, None);
            } else {
                assert_eq!(tx.range(&table, key(n)..key(n + 1))?.count(), 0);
            }
        }
        // Twenty megabytes of keys in what a transaction may note: a quarter of its writes' share.
        assert!((1..=8 * MIB / 16 / 4).contains(&held()?), "{}", held()?);
        tx.put(&table, b"written", b"")?;
        Ok(tx)
    };
    // The second one lies between two that were read: it conflicts because they were joined.
    let between = [key(7_000), b"\0".to_vec()].concat();
    let others = [(key(7_000), true), (between, true), (key(19_999), true), (b"elsewhere".to_vec(), false)];
    for (other, conflicts) in others {
        let tx = reader()?;
        db.put(&table, &other, b"")?;
        let committed = tx.commit();
        assert_eq!(committed.is_err_and(|error| error.kind() == ErrorKind::Conflict), conflicts, "{other:?}");
        db.delete(&table, &other)?;
    }
    assert_eq!(held()?, 0, "the transactions hold nothing any more");
    Ok(())
}

#[test]
fn memtables_of_idle_databases_make_room() -> Result<()> {
    let budget = Budget::new(6 * MIB);
    let idle: Vec<_> = (0..3).map(|_| open(&budget, 4096)).collect::<Result<_>>()?;
    for db in &idle {
        // Just not enough to be sealed.
        let table = db.ensure_table("t")?;
        for key in 0..550u64 {
            db.write(|tx| tx.put(&table, &key.to_be_bytes(), &[7; 1000]))?;
        }
    }
    let busy = open(&budget, 4096)?;
    work(&busy, 3, 2_000)?;
    assert!(budget.peak_bytes() <= budget.limit_bytes());
    Ok(())
}

#[test]
fn a_budget_too_small_for_another_database_says_so() -> Result<()> {
    let budget = Budget::new(8 * MIB);
    let mut open_ones = Vec::new();
    let error = loop {
        match open(&budget, 65536) {
            Ok(db) => open_ones.push(db),
            Err(error) => break error,
        }
        assert!(open_ones.len() < 4, "more reserves than fit");
    };
    assert_eq!(error.kind(), ErrorKind::Full, "{error}");
    assert!(error.message().contains("let fewer databases share it"), "{error}");
    drop(open_ones);
    open(&budget, 65536)?;
    let small = Database::builder().memory_bytes(2 * MIB).page_bytes(65536).in_memory().unwrap_err();
    assert_eq!(small.kind(), ErrorKind::Invalid, "{small}");
    Ok(())
}

fn open_in(dir: &Path, name: &str, budget: &Arc<Budget>) -> Result<Database> {
    Database::builder()
        .budget(budget)
        .page_bytes(4096)
        .durability(Durability::Buffered)
        .create(dir.join(name))
}

#[test]
fn databases_that_write_little_cost_little() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    // The reserve of each is 40 pages; before segments were charged by their lengths, 24 fitted.
    let budget = Budget::new(64 * MIB);
    let mut open_ones = Vec::new();
    for number in 0..150 {
        let db = open_in(dir.path(), &format!("{number}"), &budget)?;
        let table = db.ensure_table("t")?;
        db.put(&table, "key", "value")?;
        open_ones.push((db, table));
    }
    for (db, table) in &open_ones {
        assert_eq!(db.get(table, "key")?.as_deref(), Some(&b"value"[..]));
    }
    assert!(budget.peak_bytes() <= budget.limit_bytes());
    Ok(())
}

#[test]
fn an_idle_log_makes_room_for_another_database() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let budget = Budget::new(64 * MIB);
    let log_bytes = || budget.held_as(MemoryCategory::Log);
    let mut open_ones = vec![open_in(dir.path(), "busy", &budget)?];
    work(&open_ones[0], 5, 20_000)?;
    assert!(log_bytes() >= MIB, "segments have grown: {}", log_bytes());
    let full = loop {
        match open_in(dir.path(), &format!("{}", open_ones.len()), &budget) {
            Ok(db) => open_ones.push(db),
            Err(error) => break error,
        }
    };
    assert_eq!(full.kind(), ErrorKind::Full, "{full}");
    // The busy one was asked for its memory, and gives it when its thread has the processor.
    let are_short = || log_bytes() == open_ones.len() * (64 << 10);
    let until = Instant::now() + Duration::from_secs(60);
    while !are_short() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(are_short(), "{} databases have segments of {} bytes", open_ones.len(), log_bytes());
    assert!(budget.peak_bytes() <= budget.limit_bytes());
    // It grows again, once there is memory.
    open_ones.truncate(1);
    fill(&open_ones[0], 20_000)?;
    assert!(log_bytes() >= MIB, "{}", log_bytes());
    Ok(())
}

#[test]
fn a_log_that_gets_no_memory_keeps_short_segments() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let budget = Budget::new(64 * MIB);
    let db = open_in(dir.path(), "db", &budget)?;
    // It cannot be made to free any of it.
    let others = budget.join("others", 63 * MIB)?;
    let table = db.ensure_table("t")?;
    (0..8_000u64).try_for_each(|key| db.put(&table, &key.to_be_bytes(), &[7; 200]))?;
    let files = std::fs::read_dir(dir.path().join("db")).unwrap().map(|entry| entry.unwrap());
    let segments = files.filter(|file| file.file_name().to_string_lossy().starts_with("log-"));
    let longest_bytes = segments.map(|file| file.metadata().unwrap().len()).max().unwrap();
    assert!(longest_bytes < MIB as u64, "{longest_bytes}");
    drop(others);
    fill(&db, 20_000)?;
    let log_bytes = budget.held_as(MemoryCategory::Log);
    assert_eq!(log_bytes, MIB, "a 64th of the budget");
    Ok(())
}

/// Files that were made for segments with more memory are not mapped: they would take all that there is.
#[test]
fn a_database_is_opened_with_a_part_of_its_memory_after_a_crash() -> Result<()> {
    const LITTLE: usize = 8 * MIB;
    let dir = tempfile::tempdir().unwrap();
    let (written, killed) = (dir.path().join("written"), dir.path().join("killed"));
    let builder = || Database::builder().page_bytes(4096).durability(Durability::Buffered);
    let db = builder().memory_bytes(1024 * MIB).checkpoint_bytes(512 << 20).create(&written)?;
    let table = fill(&db, 100_000)?;
    (0..50_000u64).try_for_each(|key| db.put(&table, &key.to_be_bytes(), &[8; 500]))?;
    std::fs::create_dir(&killed).unwrap();
    for file in std::fs::read_dir(&written).unwrap().map(|entry| entry.unwrap()) {
        std::fs::copy(file.path(), killed.join(file.file_name())).unwrap();
    }
    db.close()?;
    for dir in [&killed, &written] {
        let db = builder().memory_bytes(LITTLE).open(dir)?;
        let log_bytes = || db.stats().map(|stats| stats.memory.held.bytes(MemoryCategory::Log));
        assert!(log_bytes()? <= LITTLE / 16, "{}", log_bytes()?);
        let table = db.ensure_table("t")?;
        assert_eq!(db.snapshot()?.range(&table, ..)?.count(), 100_000);
        fill(&db, 20_000)?;
        assert!(log_bytes()? <= LITTLE / 16, "{}", log_bytes()?);
        db.close()?;
    }
    Ok(())
}

/// Transactions that each take almost as much memory as one may, in all more than there is: they are spilled. At worst,
/// one of many finds that the cache has no page left for that, and succeeds when it runs again.
#[test]
fn transactions_side_by_side_seldom_lack_memory() -> Result<()> {
    const THREADS: u64 = 8;
    const ROUNDS: u64 = 10;
    for (layout, memory_bytes) in [(Layout::BTree, 8 * MIB), (Layout::Lsm, 4 * MIB)] {
        let dir = tempfile::tempdir().unwrap();
        let builder = Database::builder().page_bytes(4096).durability(Durability::Buffered);
        let db = builder.memory_bytes(memory_bytes).create(dir.path().join("db"))?;
        let table = db.create_table("t", &TableOptions::with_layout(layout))?;
        let records = (memory_bytes / 16 / 600) as u64;
        let again = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let (db, table, again) = (&db, &table, &again);
            let put_all = move |tx: &mut pando::Transaction, thread: u64, round: u64| {
                (0..records).try_for_each(|at| {
                    let key = [(at * 7919 % 65_521).to_be_bytes(), thread.to_be_bytes()].concat();
                    tx.put(table, &key, &[round as u8; 500])
                })
            };
            let most_again = THREADS * ROUNDS / 10;
            let write_once = move |thread, round| loop {
                match db.write(|tx| put_all(tx, thread, round)) {
                    Err(error) if error.kind() == ErrorKind::Full => {
                        assert!(again.fetch_add(1, Ordering::SeqCst) < most_again, "{error}");
                    }
                    written => break written,
                }
            };
            let write = move |thread: u64| (0..ROUNDS).try_for_each(|round| write_once(thread, round));
            let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || write(thread))).collect();
            threads.into_iter().try_for_each(|thread| thread.join().unwrap())
        })?;
        assert_eq!(db.snapshot()?.range(&table, ..)?.count() as u64, THREADS * records);
        let memory = db.stats()?.memory;
        assert!(memory.peak_bytes <= memory.limit_bytes, "{memory:?}");
    }
    Ok(())
}
