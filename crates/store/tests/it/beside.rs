//! Readers beside a writer: what they show is always the state of one commit, whatever the writer does meanwhile.

use base::budget::MemoryCategory;
use base::env::Random;
use base::{ErrorKind, Result};
use io::{Dir, MemDir};
use pando_store::{
    Follower, Options, RequestedLayout, Snapshot, Store, Table, Transaction, TransactionOptions, beside,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn options(memory_bytes: usize) -> Options {
    Options {
        page_bytes: Some(4096),
        memory_bytes,
        admits_readers: true,
        large_bytes: 8 << 10,
        piece_bytes: 4 << 10,
        max_segment_bytes: 256 << 10,
        ..Options::default()
    }
}

fn writer(dir: &Arc<dyn Dir>) -> Result<Arc<Store>> {
    pando_store::open_or_create(Arc::clone(dir), &options(8 << 20))
}

fn reader(dir: &Arc<dyn Dir>, memory_bytes: usize) -> Result<(Arc<Store>, Follower)> {
    beside::open(Arc::clone(dir), &Options { read_only: true, ..options(memory_bytes) })
}

fn write<T>(store: &Arc<Store>, work: impl FnOnce(&mut Transaction) -> Result<T>) -> Result<T> {
    let mut tx = Transaction::begin(store, TransactionOptions::default())?;
    let done = work(&mut tx)?;
    store.acknowledge(tx.apply()?)?;
    Ok(done)
}

fn content(snapshot: &Snapshot, name: &str) -> Result<Model> {
    let Some(table) = snapshot.table(name)? else { return Ok(Model::new()) };
    let mut cursor = snapshot.cursor(&table, base::Span::all())?;
    let mut found = Model::new();
    while let Some((key, value)) = cursor.next()? {
        found.insert(key.to_vec(), value.to_vec());
    }
    for (key, value) in found.iter().step_by(7) {
        assert_eq!(snapshot.get(&table, key)?.as_ref(), Some(value), "a get and a scan differ");
    }
    Ok(found)
}

/// One commit of the writer, and the same in the model.
fn step(store: &Arc<Store>, table: &Table, model: &mut Model, random: &mut Random, round: u64) -> Result<()> {
    write(store, |tx| {
        for _ in 0..1 + random.below(40) {
            let key = random.below(600).to_be_bytes().to_vec();
            match random.below(20) {
                0 => {
                    let to = (u64::from_be_bytes(key[..].try_into().unwrap()) + 20).to_be_bytes().to_vec();
                    tx.delete_range(table, &base::Span::from(key.clone()..to.clone()))?;
                    model.retain(|at, _| *at < key || *at >= to);
                }
                1..4 => {
                    tx.delete(table, &key)?;
                    model.remove(&key);
                }
                // Some of them lie in the data file before their commit.
                way => {
                    let bytes = if way == 4 { 20_000 } else { 200 };
                    let value = vec![(round % 251) as u8; bytes];
                    tx.put(table, &key, &value)?;
                    model.insert(key, value);
                }
            }
        }
        Ok(())
    })
}

fn follow_a_history(seed: u64, memory_bytes: usize, layout: RequestedLayout) -> Result<()> {
    let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
    let mut random = Random::seeded(seed);
    let mut store = writer(&dir)?;
    let mut table = write(&store, |tx| tx.create_table("t", layout))?;
    let (read, mut follower) = reader(&dir, memory_bytes)?;
    let mut model = Model::new();
    let mut kept: Vec<(Snapshot, Model)> = Vec::new();
    for round in 0..400 {
        step(&store, &table, &mut model, &mut random, round)?;
        match random.below(12) {
            0 => drop(store.checkpoint()?),
            1 => store.reclaim(),
            2 if round % 3 == 0 => kept.clear(),
            _ => {}
        }
        if random.below(60) == 0 {
            // Another writer takes over: snapshots from before may have ended.
            store.close()?;
            store = writer(&dir)?;
            table = store.snapshot()?.table("t")?.unwrap();
            follower.catch_up()?;
            for (snapshot, model) in kept.drain(..) {
                match content(&snapshot, "t") {
                    Ok(found) => assert!(found == model, "seed {seed}, round {round}: an old snapshot tore"),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::SnapshotTooOld, "{error}"),
                }
            }
        }
        if random.below(4) == 0 {
            follower.catch_up()?;
            follower.tick(Duration::from_millis(round))?;
            let snapshot = read.snapshot()?;
            let found = content(&snapshot, "t")?;
            assert!(found == model, "seed {seed}, round {round}: {} of {}", found.len(), model.len());
            if kept.len() < 5 {
                kept.push((snapshot, model.clone()));
            }
        }
        if random.below(10) == 0 {
            for (snapshot, model) in &kept {
                assert!(content(snapshot, "t")? == *model, "seed {seed}, round {round}: a snapshot changed");
            }
        }
    }
    drop(kept);
    store.checkpoint()?;
    follower.catch_up()?;
    store.reclaim();
    assert_eq!(store.stats()?.data_retired_bytes, 0, "nothing waits for a reader that has caught up");
    Ok(())
}

#[test]
fn each_state_is_that_of_a_commit() -> Result<()> {
    for seed in 0..12 {
        for layout in [RequestedLayout::BTree, RequestedLayout::Lsm] {
            follow_a_history(seed, 8 << 20, layout)?;
        }
    }
    Ok(())
}

/// A writer's memtables may hold more than the reader has memory for: it then waits for a checkpoint.
#[test]
fn a_reader_with_little_memory_follows_from_checkpoint_to_checkpoint() -> Result<()> {
    let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
    let store = pando_store::open_or_create(Arc::clone(&dir), &options(64 << 20))?;
    let table = write(&store, |tx| tx.create_table("t", RequestedLayout::BTree))?;
    let (read, mut follower) = reader(&dir, 2 << 20)?;
    let count = || content(&read.snapshot()?, "t").map(|found| found.len());
    for round in 0..40_u32 {
        write(&store, |tx| {
            (0..100_u32).try_for_each(|key| tx.put(&table, &(round * 100 + key).to_be_bytes(), &[1; 1000]))
        })?;
        follower.catch_up()?;
        let seen = count()?;
        assert!(seen.is_multiple_of(100) && seen <= (round as usize + 1) * 100, "{seen} of round {round}");
    }
    assert!(count()? < 4000, "it does not fit");
    store.checkpoint()?;
    follower.catch_up()?;
    assert_eq!(count()?, 4000);
    write(&store, |tx| tx.put(&table, b"more", b"1"))?;
    follower.catch_up()?;
    assert_eq!(count()?, 4001);
    Ok(())
}

/// The writer's checkpoints may absorb less than the reader has applied when its memory is full.
#[test]
fn a_reader_with_little_memory_never_goes_back() -> Result<()> {
    let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
    let often = Options { seal_bytes: Some(300 << 10), ..options(64 << 20) };
    let store = pando_store::open_or_create(Arc::clone(&dir), &often)?;
    let table = write(&store, |tx| tx.create_table("t", RequestedLayout::BTree))?;
    let (read, mut follower) = reader(&dir, 2 << 20)?;
    let (mut last, mut stalled, mut checkpoints) = (0, 0, 0);
    for round in 0..400_u32 {
        write(&store, |tx| {
            (0..20_u32).try_for_each(|key| tx.put(&table, &(round * 20 + key).to_be_bytes(), &[1; 1000]))
        })?;
        follower.catch_up()?;
        if read.snapshot()?.ts().0 == last {
            // The reader's memory is full. What is sealed is absorbed, and not what is still open.
            store.begin_pending_checkpoint()?.expect("something is sealed").finish()?;
            checkpoints += 1;
            follower.catch_up()?;
        }
        let snapshot = read.snapshot()?;
        let (ts, seen) = (snapshot.ts().0, content(&snapshot, "t")?.len() as u64);
        assert!(ts >= last, "seed 0, round {round}: commit {ts} after {last}");
        assert_eq!(seen, (ts - 1) * 20, "seed 0, round {round}: what is there as of commit {ts}");
        stalled += u32::from(ts < u64::from(round) + 2);
        last = ts;
    }
    assert_eq!(last, 401, "after a checkpoint the reader goes on");
    assert!(checkpoints > 3 && stalled < 10, "{checkpoints} checkpoints, {stalled} looks were late");
    Ok(())
}

/// Commits that wait for their flush are in the log, and a power loss could take them back.
#[test]
fn what_is_not_acknowledged_is_not_shown() -> Result<()> {
    let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
    let store = writer(&dir)?;
    let table = write(&store, |tx| tx.create_table("t", RequestedLayout::BTree))?;
    let (read, mut follower) = reader(&dir, 8 << 20)?;
    let mut tx = Transaction::begin(&store, TransactionOptions::default())?;
    tx.put(&table, b"k", b"v")?;
    let applied = tx.apply()?;
    assert!(!follower.catch_up()?);
    assert_eq!(content(&read.snapshot()?, "t")?.len(), 0);
    // Nor after somebody else has opened it.
    let (second, _follower) = reader(&dir, 8 << 20)?;
    assert_eq!(content(&second.snapshot()?, "t")?.len(), 0);
    store.acknowledge(applied)?;
    assert!(follower.catch_up()?);
    assert_eq!(content(&read.snapshot()?, "t")?.len(), 1);
    Ok(())
}

#[test]
fn runs_that_a_commit_attached_are_read() -> Result<()> {
    let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
    let store = writer(&dir)?;
    let (read, mut follower) = reader(&dir, 8 << 20)?;
    // More than a transaction keeps in memory.
    write(&store, |tx| {
        let table = tx.create_table("t", RequestedLayout::Lsm)?;
        (0..20_000_u32).try_for_each(|key| tx.put(&table, &key.to_be_bytes(), &[3; 100]))
    })?;
    follower.catch_up()?;
    let snapshot = read.snapshot()?;
    assert_eq!(content(&snapshot, "t")?.len(), 20_000);
    let table = store.snapshot()?.table("t")?.unwrap();
    write(&store, |tx| tx.drop_table(&table))?;
    store.checkpoint()?;
    store.checkpoint()?;
    follower.catch_up()?;
    store.reclaim();
    assert_eq!(content(&snapshot, "t")?.len(), 20_000, "what a snapshot reads stays");
    assert!(read.snapshot()?.table("t")?.is_none());
    Ok(())
}

/// A reader that stands still keeps pages until the writer's bound, and then begins anew.
#[test]
fn a_reader_that_stands_still_is_bounded() -> Result<()> {
    let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
    let most = Options { max_pinned_space_bytes: Some(2 << 20), ..options(8 << 20) };
    let store = pando_store::open_or_create(Arc::clone(&dir), &most)?;
    let table = write(&store, |tx| tx.create_table("t", RequestedLayout::BTree))?;
    let (read, mut follower) = reader(&dir, 8 << 20)?;
    follower.catch_up()?;
    let snapshot = read.snapshot()?;
    let mut waiting = 0;
    for round in 0..60_u8 {
        write(&store, |tx| {
            (0..300_u32).try_for_each(|key| tx.put(&table, &key.to_be_bytes(), &[round; 1000]))
        })?;
        store.checkpoint()?;
        waiting = waiting.max(store.stats()?.data_retired_bytes);
    }
    assert!((2 << 20..4 << 20).contains(&waiting), "{waiting} bytes waited for the reader");
    follower.tick(Duration::from_secs(1))?;
    let error = content(&snapshot, "t").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SnapshotTooOld);
    follower.catch_up()?;
    assert_eq!(content(&read.snapshot()?, "t")?.len(), 300);
    Ok(())
}

/// With so much memory, chunks of memtables are mapped, and kept for the next ones.
#[test]
fn the_memory_of_memtables_that_were_merged_elsewhere_is_freed() -> Result<()> {
    let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
    let store = writer(&dir)?;
    let table = write(&store, |tx| tx.create_table("t", RequestedLayout::BTree))?;
    let (read, mut follower) = reader(&dir, 1 << 30)?;
    for first in (0..4_000_u32).step_by(100) {
        write(&store, |tx| {
            (first..first + 100).try_for_each(|key| tx.put(&table, &key.to_be_bytes(), &[7; 1000]))
        })?;
        follower.catch_up()?;
    }
    store.checkpoint()?;
    follower.catch_up()?;
    let idle = || read.memory().held.bytes(MemoryCategory::IdleChunks);
    assert!(idle() > 2 << 20, "{}", idle());
    for tick in 1..=40 {
        follower.tick(Duration::from_millis(250 * tick))?;
    }
    assert_eq!(idle(), 0);
    Ok(())
}

#[test]
fn a_writer_that_admits_no_readers_is_left_alone() -> Result<()> {
    let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
    // One before it did.
    writer(&dir)?.close()?;
    let store = pando_store::open_or_create(
        Arc::clone(&dir),
        &Options { admits_readers: false, ..options(8 << 20) },
    )?;
    let refused = reader(&dir, 8 << 20).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Locked, "{refused}");
    assert!(refused.to_string().contains("does not admit readers"), "{refused}");
    drop(store);
    Ok(())
}

#[test]
fn what_only_the_writer_can_do_is_refused() -> Result<()> {
    let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
    let _store = writer(&dir)?;
    let (read, _follower) = reader(&dir, 8 << 20)?;
    assert_eq!(read.pin(None).unwrap_err().kind(), ErrorKind::Locked);
    assert_eq!(read.checkpoint().unwrap_err().kind(), ErrorKind::ReadOnly);
    assert_eq!(read.check()?.tables, 0, "its pages can be checked");
    Ok(())
}

/// A reader that came first keeps no writer out. It shows what there was, and then what the writers show, whether the
/// one before it closed the database or was killed.
#[test]
fn a_reader_that_came_first_follows_the_writer_that_comes() -> Result<()> {
    for seed in 0..8 {
        let mut random = Random::seeded(seed);
        let disk = io::sim::SimDisk::new();
        disk.keep_history(false);
        let dir = disk.dir();
        let store = writer(&dir)?;
        let table = write(&store, |tx| tx.create_table("t", RequestedLayout::ALL[seed as usize % 2]))?;
        let mut model = Model::new();
        (0..40).try_for_each(|round| step(&store, &table, &mut model, &mut random, round))?;
        if seed % 3 == 0 {
            store.checkpoint()?;
        }
        let (dir, is_killed) = if seed < 4 { (dir, false) } else { (disk.after_kill().dir(), true) };
        if !is_killed {
            store.close()?;
        }
        drop((store, table));
        let options = Options { read_only: true, ..options(8 << 20) };
        let reader = pando_store::open(Arc::clone(&dir), &options)?;
        let locked = writer(&dir).expect_err("the reader has not stood by yet");
        assert_eq!(locked.kind(), ErrorKind::Locked);
        let mut follower =
            beside::stand_by(&reader, Arc::clone(&dir), &options)?.expect("files can be created");
        assert!(follower.is_alone() && !reader.is_beside() && !follower.catch_up()?);
        reader.check()?;
        let old = reader.snapshot()?;
        let before = model.clone();
        assert_eq!(content(&old, "t")?, before, "seed {seed}");
        for life in 0..3 {
            let store = writer(&dir)?;
            let table = store.snapshot()?.table("t")?.expect("it was created");
            for round in 0..30 {
                step(&store, &table, &mut model, &mut random, round)?;
                if random.chance(1, 10) {
                    store.checkpoint()?;
                }
                follower.tick(Duration::from_millis(100 * (life * 30 + round)))?;
                follower.catch_up()?;
                assert_eq!(
                    content(&reader.snapshot()?, "t")?,
                    model,
                    "seed {seed}, life {life}, round {round}"
                );
            }
            assert!(reader.is_beside() && !follower.is_alone());
            store.close()?;
        }
        assert_eq!(reader.check().map(drop).map_err(|error| error.kind()), Ok(()));
        match content(&old, "t") {
            Ok(found) => assert_eq!(found, before, "seed {seed}: an old snapshot"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::SnapshotTooOld, "{error}"),
        }
    }
    Ok(())
}

/// A directory with a database that has a table, closed.
fn with_one_table() -> Result<Arc<dyn Dir>> {
    let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
    let store = writer(&dir)?;
    write(&store, |tx| tx.create_table("t", RequestedLayout::BTree))?;
    store.close()?;
    Ok(dir)
}

/// A reader that came when no process had the database open.
fn standing_by(dir: &Arc<dyn Dir>) -> Result<(Arc<Store>, Follower)> {
    let options = Options { read_only: true, ..options(8 << 20) };
    let reader = pando_store::open(Arc::clone(dir), &options)?;
    let follower = beside::stand_by(&reader, Arc::clone(dir), &options)?.expect("files can be created");
    Ok((reader, follower))
}

/// What a copy has still to read is the reader's only until a writer comes.
#[test]
fn a_backup_ends_by_name_when_a_writer_comes() -> Result<()> {
    let dir = with_one_table()?;
    let (reader, mut follower) = standing_by(&dir)?;
    let mut pinned = reader.pin(None)?;
    assert!(pinned.advance()?);
    let store = writer(&dir)?;
    follower.catch_up()?;
    assert_eq!(pinned.advance().expect_err("another process writes").kind(), ErrorKind::Locked);
    assert_eq!(reader.pin(None).expect_err("another process writes").kind(), ErrorKind::Locked);
    store.close()
}

/// What a writer that comes later commits is not in the log of the process that follows the changes.
#[test]
fn a_feed_ends_by_name_when_a_writer_comes() -> Result<()> {
    let dir = with_one_table()?;
    let (reader, mut follower) = standing_by(&dir)?;
    let mut feed = reader.feed(None)?;
    assert!(feed.advance()? && !feed.advance()?);
    let store = writer(&dir)?;
    write(&store, |tx| tx.create_table("u", RequestedLayout::BTree))?;
    follower.catch_up()?;
    assert_eq!(feed.advance().expect_err("another process writes").kind(), ErrorKind::Locked);
    assert_eq!(reader.feed(None).expect_err("another process writes").kind(), ErrorKind::Locked);
    Ok(())
}

/// A writer that keeps no board would not look at the seats of readers: it does not come while there are some.
#[test]
fn a_writer_without_a_board_does_not_come_while_somebody_reads() -> Result<()> {
    let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
    writer(&dir)?.close()?;
    let read_only = Options { read_only: true, ..options(8 << 20) };
    let reader = pando_store::open(Arc::clone(&dir), &read_only)?;
    let follower = beside::stand_by(&reader, Arc::clone(&dir), &read_only)?.expect("files can be created");
    let alone = Options { admits_readers: false, ..options(8 << 20) };
    let refused = pando_store::open_or_create(Arc::clone(&dir), &alone).expect_err("somebody reads");
    assert_eq!(refused.kind(), ErrorKind::Locked, "{refused}");
    drop((follower, reader));
    pando_store::open_or_create(dir, &alone)?.close()
}

/// Where nothing can be created, a reader cannot say what it needs, and keeps writers out instead.
#[test]
fn a_reader_that_cannot_stand_by_keeps_writers_out() -> Result<()> {
    let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
    writer(&dir)?.close()?;
    let options = Options { read_only: true, ..options(8 << 20) };
    let reader = pando_store::open(Arc::clone(&dir), &options)?;
    let read_only: Arc<dyn Dir> = Arc::new(io::ReadOnlyDir::new(Arc::clone(&dir)));
    assert!(beside::stand_by(&reader, read_only, &options)?.is_none());
    assert_eq!(writer(&dir).expect_err("somebody reads").kind(), ErrorKind::Locked);
    drop(reader);
    writer(&dir)?.close()
}

/// A commit that is acknowledged after its store was closed shows readers nothing: the board is the next writer's.
#[test]
fn what_a_closed_writer_acknowledges_is_not_shown() -> Result<()> {
    let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
    let one = writer(&dir)?;
    let table = write(&one, |tx| tx.create_table("t", RequestedLayout::BTree))?;
    let mut tx = Transaction::begin(&one, TransactionOptions::default())?;
    tx.put(&table, b"k", b"1")?;
    let applied = tx.apply()?;
    one.close()?;
    let two = writer(&dir)?;
    let table = two.snapshot()?.table("t")?.expect("it was committed");
    write(&two, |tx| tx.put(&table, b"k", b"2"))?;
    let _ = one.acknowledge(applied);
    let (store, mut follower) = reader(&dir, 4 << 20)?;
    follower.catch_up()?;
    let table = store.snapshot()?.table("t")?.expect("it was committed");
    assert_eq!(store.snapshot()?.get(&table, b"k")?, Some(b"2".to_vec()));
    Ok(())
}

#[test]
fn a_reader_without_a_free_slot_follows_later() -> Result<()> {
    let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
    let store = writer(&dir)?;
    let table = write(&store, |tx| tx.create_table("t", RequestedLayout::BTree))?;
    let (beside, mut follower) = reader(&dir, 4 << 20)?;
    let put = |value: &[u8]| write(&store, |tx| tx.put(&table, b"k", value));
    put(b"1")?;
    follower.catch_up()?;
    let mut snapshots = Vec::new();
    let full = loop {
        match beside.snapshot() {
            Ok(snapshot) => snapshots.push(snapshot),
            Err(full) => break full,
        }
    };
    assert_eq!((full.kind(), snapshots.len()), (ErrorKind::Full, 64 << 10));
    put(b"2")?;
    assert_eq!(follower.catch_up().unwrap_err().kind(), ErrorKind::Full);
    store.checkpoint()?;
    assert_eq!(follower.catch_up().unwrap_err().kind(), ErrorKind::Full, "a checkpoint is not read either");
    assert_eq!(content(&snapshots[0], "t")?[&b"k"[..]], b"1");
    snapshots.clear();
    assert!(follower.catch_up()?);
    assert_eq!(content(&beside.snapshot()?, "t")?[&b"k"[..]], b"2");
    Ok(())
}

/// A writer that needs the space takes the seat of a reader away, and frees pages before the reader has noticed.
#[test]
fn pages_that_are_not_kept_any_more_are_no_damage() -> Result<()> {
    let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
    let bounded = Options { max_pinned_space_bytes: Some(1 << 20), ..options(8 << 20) };
    let store = pando_store::open_or_create(Arc::clone(&dir), &bounded)?;
    let table = write(&store, |tx| tx.create_table("t", RequestedLayout::BTree))?;
    let put_all = |round: u8| -> Result<()> {
        write(&store, |tx| {
            (0..4000_u32).try_for_each(|key| tx.put(&table, &key.to_be_bytes(), &[round; 500]))
        })?;
        while store.checkpoint()? {}
        Ok(())
    };
    put_all(0)?;
    let (beside, _follower) = reader(&dir, 1 << 20)?;
    let snapshot = beside.snapshot()?;
    let there = snapshot.table("t")?.expect("it was committed");
    let mut too_old = 0;
    for round in 1..4 {
        put_all(round)?;
        for key in 0..4000_u32 {
            match snapshot.get(&there, &key.to_be_bytes()) {
                Ok(value) => assert_eq!(value, Some(vec![0; 500])),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::SnapshotTooOld, "{error}");
                    too_old += 1;
                }
            }
        }
    }
    assert!(too_old > 0, "the writer has not needed the space");
    Ok(())
}
