//! What a snapshot keeps: of the data file what it sees, once, however much is written while it is open; and of the
//! memory what is not the writers'.

use base::Result;
use base::budget::MemoryCategory;
use base::env::Random;
use io::{Dir, MemDir};
use pando_store::checkpoint::Step;
use pando_store::{Options, RequestedLayout, Snapshot, Span, Store, Table, Transaction, TransactionOptions};
use std::sync::Arc;

const RECORDS: u32 = 3000;

fn put_all(store: &Arc<Store>, table: &Table, round: u32) -> Result<()> {
    let mut tx = Transaction::begin(store, TransactionOptions::default())?;
    for key in 0..RECORDS {
        tx.put(table, &key.to_be_bytes(), &[&round.to_be_bytes()[..], &[7; 90]].concat())?;
    }
    store.acknowledge(tx.apply()?)?;
    store.checkpoint().map(drop)
}

fn check(snapshot: &Snapshot, table: &Table, round: u32) -> Result<()> {
    let mut cursor = snapshot.cursor(table, Span::all())?;
    let mut found = 0;
    while let Some((key, value)) = cursor.next()? {
        assert_eq!((key, &value[..4]), (&u32::to_be_bytes(found)[..], &round.to_be_bytes()[..]));
        found += 1;
    }
    assert_eq!(found, RECORDS);
    Ok(())
}

#[test]
fn pages_that_came_and_went_while_it_is_open_are_used_again() -> Result<()> {
    let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
    let options = Options { page_bytes: Some(4096), memory_bytes: 4 << 20, ..Options::default() };
    let store = pando_store::open_or_create(dir, &options)?;
    let mut tx = Transaction::begin(&store, TransactionOptions::default())?;
    let table = tx.create_table("t", RequestedLayout::BTree)?;
    store.acknowledge(tx.apply()?)?;
    put_all(&store, &table, 0)?;
    let first = store.snapshot()?;
    let live = store.stats()?.data_used_bytes;
    for round in 1..20 {
        put_all(&store, &table, round)?;
    }
    let second = store.snapshot()?;
    for round in 20..40 {
        put_all(&store, &table, round)?;
    }
    let stats = store.stats()?;
    // What is live, two copies that are seen, and what the last checkpoint replaced.
    let most = 4 * live + (1 << 20);
    let kept = stats.data_used_bytes + stats.data_retired_bytes;
    assert!(kept <= most, "{kept} bytes for {live} that live");
    check(&first, &table, 0)?;
    check(&second, &table, 19)?;
    let seen: Vec<_> = store.readers()?.iter().map(|reader| reader.space_bytes).collect();
    // Each round is a run of its own first, which counts for readers of about its time.
    assert!(seen.iter().all(|&bytes| bytes > live / 2 && bytes < 3 * live), "{seen:?} of {live}");
    drop(first);
    store.reclaim();
    check(&second, &table, 19)?;
    drop(second);
    store.reclaim();
    let stats = store.stats()?;
    assert!(stats.data_retired_bytes < live / 4, "{stats:?}");
    check(&store.snapshot()?, &table, 39)
}

/// What memtables hold of the budget, by the books.
fn held(store: &Store) -> Result<usize> {
    Ok(store.stats()?.memory.held.bytes(MemoryCategory::Memtables))
}

#[test]
fn memtables_come_back_at_the_switch_and_what_it_keeps_is_no_debt() -> Result<()> {
    let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
    let options = Options { page_bytes: Some(4096), memory_bytes: 8 << 20, ..Options::default() };
    let store = pando_store::open_or_create(dir, &options)?;
    let mut tx = Transaction::begin(&store, TransactionOptions::default())?;
    let table = tx.create_table("t", RequestedLayout::BTree)?;
    store.acknowledge(tx.apply()?)?;
    let fill = || {
        (0..500_u32).try_for_each(|key| {
            let mut tx = Transaction::begin(&store, TransactionOptions::default())?;
            tx.put(&table, &key.to_be_bytes(), &[7; 1000])?;
            store.acknowledge(tx.apply()?).map(drop)
        })
    };
    let merge = || -> Result<()> {
        let mut checkpoint = store.begin_checkpoint()?.expect("there is something to merge");
        let before = held(&store)?;
        while checkpoint.next_step() <= Step::Switch {
            assert!(held(&store)? > 500_000, "it reads what it merges");
            checkpoint.step()?;
        }
        // Nothing is noted and nothing freed yet: the flush of the note may take long.
        assert_eq!(checkpoint.next_step(), Step::Note);
        let kept = store.readers()?.iter().map(|reader| reader.memory_bytes as usize).sum::<usize>();
        assert!(held(&store)? < before - 500_000 + kept, "{} of {before}, {kept} kept", held(&store)?);
        checkpoint.finish()
    };
    fill()?;
    merge()?;
    let snapshot = store.snapshot()?;
    fill()?;
    merge()?;
    let kept = store.readers()?[0].memory_bytes;
    assert!(kept > 500_000 && held(&store)? as u64 > kept, "{kept}");
    assert!(store.pressure().shared_bytes < 100_000, "{:?}", store.pressure());
    drop(snapshot);
    store.reclaim();
    // What is paid in advance for the next commits is less than half of a memtable.
    assert!(held(&store)? < 300_000, "{}", held(&store)?);
    Ok(())
}

/// A large value that lies in no checkpoint yet is in no map of its time. A snapshot that reaches it through a memtable
/// keeps it all the same.
#[test]
fn a_value_that_is_reached_through_a_memtable_stays() -> Result<()> {
    for seed in 0..6 {
        let mut random = Random::seeded(seed);
        let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
        let (page_bytes, large_bytes) = (Some(4096), 2 << 10);
        let options = Options { page_bytes, large_bytes, memory_bytes: 8 << 20, ..Options::default() };
        let store = pando_store::open_or_create(dir, &options)?;
        let mut tx = Transaction::begin(&store, TransactionOptions::default())?;
        let table = tx.create_table("t", RequestedLayout::ALL[seed as usize % 2])?;
        store.acknowledge(tx.apply()?)?;
        store.checkpoint()?;
        let value = |round: u8, key: u8| vec![round ^ key.wrapping_mul(31); 9_000];
        let put_all = |round: u8| -> Result<()> {
            let mut tx = Transaction::begin(&store, TransactionOptions::default())?;
            (0..20).try_for_each(|key| tx.put(&table, &[key], &value(round, key)))?;
            store.acknowledge(tx.apply()?).map(drop)
        };
        let mut snapshots = Vec::new();
        for round in 0..12 {
            put_all(round)?;
            snapshots.push((store.snapshot()?, round));
            if random.chance(2, 3) {
                store.checkpoint()?;
            }
            if snapshots.len() > 4 {
                snapshots.remove(random.below(5) as usize);
            }
            for (snapshot, round) in &snapshots {
                for key in 0..20 {
                    let found = snapshot.get(&table, &[key]);
                    let found = found.unwrap_or_else(|error| panic!("seed {seed}, round {round}: {error}"));
                    assert!(found == Some(value(*round, key)), "seed {seed}, round {round}, key {key}");
                }
            }
        }
    }
    Ok(())
}
