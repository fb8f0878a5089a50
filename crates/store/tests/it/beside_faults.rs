//! Readers beside a writer, where files fail, or writers come and go: a reader goes on, and never takes for damage what
//! another process has reused.

use base::{ErrorKind, Result};
use io::sim::{CallKind, Fault, FaultError, SimDisk};
use io::{Dir, MemDir};
use pando_store::{
    Follower, Options, RequestedLayout, Snapshot, Store, Table, Transaction, TransactionOptions, beside,
};
use std::sync::Arc;
use std::time::Duration;

const KEYS: u32 = 4000;

fn options(memory_bytes: usize) -> Options {
    Options {
        page_bytes: Some(4096),
        memory_bytes,
        admits_readers: true,
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

fn standing_by(dir: &Arc<dyn Dir>) -> Result<(Arc<Store>, Follower)> {
    let options = Options { read_only: true, ..options(8 << 20) };
    let reader = pando_store::open(Arc::clone(dir), &options)?;
    let follower = beside::stand_by(&reader, Arc::clone(dir), &options)?.expect("files can be created");
    Ok((reader, follower))
}

fn write<T>(store: &Arc<Store>, work: impl FnOnce(&mut Transaction) -> Result<T>) -> Result<T> {
    let mut tx = Transaction::begin(store, TransactionOptions::default())?;
    let done = work(&mut tx)?;
    store.acknowledge(tx.apply()?)?;
    Ok(done)
}

fn create(store: &Arc<Store>) -> Result<Table> {
    write(store, |tx| tx.create_table("t", RequestedLayout::BTree))
}

fn table_of(store: &Arc<Store>) -> Result<Table> {
    Ok(store.snapshot()?.table("t")?.expect("it was created"))
}

fn get(store: &Arc<Store>, key: &[u8]) -> Result<Option<Vec<u8>>> {
    let snapshot = store.snapshot()?;
    let Some(table) = snapshot.table("t")? else { return Ok(None) };
    snapshot.get(&table, key)
}

/// Sets all keys, so that the pages from before are used again two rounds later.
fn put_all(store: &Arc<Store>, table: &Table, round: u8) -> Result<()> {
    write(store, |tx| (0..KEYS).try_for_each(|key| tx.put(table, &key.to_be_bytes(), &[round; 500])))?;
    while store.checkpoint()? {}
    Ok(())
}

/// Checks that each read of a snapshot of round 0 is right, or fails because the snapshot is too old. Returns how many
/// reads failed.
fn too_old(snapshot: &Snapshot, table: &Table) -> usize {
    let outdated = |key: &u32| match snapshot.get(table, &key.to_be_bytes()) {
        Ok(value) => {
            assert!(value == Some(vec![0; 500]), "{value:?}");
            false
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::SnapshotTooOld, "{error}");
            true
        }
    };
    (0..KEYS).filter(outdated).count()
}

fn tick_and_catch_up(follower: &mut Follower, times: u64) -> Result<()> {
    for at in 0..times {
        let _ = follower.tick(Duration::from_millis(250 * at));
        let _ = follower.catch_up();
    }
    follower.tick(Duration::from_millis(250 * times))?;
    follower.catch_up().map(drop)
}

/// An opening that fails at its board is refused while somebody reads, and leaves what the reader follows.
#[test]
fn a_reader_follows_the_writer_that_comes_after_one_that_was_refused() -> Result<()> {
    for (call, most) in [(CallKind::Map, 4), (CallKind::Open, 20), (CallKind::Write, 8), (CallKind::Read, 40)]
    {
        for nth in 1..=most {
            let disk = SimDisk::new();
            disk.keep_history(false);
            let dir = disk.dir();
            let one = writer(&dir)?;
            create(&one)?;
            one.close()?;
            drop(one);
            let (read, mut follower) = standing_by(&dir)?;
            disk.inject(Fault { call, nth, sticky: false, error: FaultError::Io });
            let refused = writer(&dir).map(drop);
            let hits = disk.faults_hit();
            disk.clear_faults();
            if hits == 0 {
                break;
            }
            let store = writer(&dir)?;
            let table = table_of(&store)?;
            write(&store, |tx| tx.put(&table, b"k", b"v"))?;
            tick_and_catch_up(&mut follower, 3)?;
            let shown = get(&read, b"k")?.is_some();
            assert!(shown, "it does not follow after {call:?} {nth}, when an opening ended with {refused:?}");
        }
    }
    Ok(())
}

#[test]
fn a_refused_writer_leaves_the_board_to_those_who_follow_it() -> Result<()> {
    let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
    let one = writer(&dir)?;
    let table = create(&one)?;
    put_all(&one, &table, 0)?;
    let (read, mut follower) = reader(&dir, 1 << 20)?;
    let snapshot = read.snapshot()?;
    let there = snapshot.table("t")?.expect("it was created");
    one.close()?;
    drop((one, table));
    let alone = Options { admits_readers: false, ..options(8 << 20) };
    let refused = pando_store::open_or_create(Arc::clone(&dir), &alone).map(drop);
    assert_eq!(refused.map_err(|error| error.kind()), Err(ErrorKind::Locked));
    let two = writer(&dir)?;
    let table = table_of(&two)?;
    for round in 1..5 {
        put_all(&two, &table, round)?;
    }
    tick_and_catch_up(&mut follower, 3)?;
    too_old(&snapshot, &there);
    assert_eq!(get(&read, &0_u32.to_be_bytes())?, Some(vec![4; 500]));
    Ok(())
}

/// Somebody deletes the board's file between two writers.
#[test]
fn a_reader_looks_for_a_board_that_took_the_place_of_its_own() -> Result<()> {
    let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
    let one = writer(&dir)?;
    let table = create(&one)?;
    write(&one, |tx| tx.put(&table, b"k", b"1"))?;
    let (read, mut follower) = reader(&dir, 1 << 20)?;
    one.close()?;
    drop((one, table));
    dir.remove("visible")?;
    let two = writer(&dir)?;
    let table = table_of(&two)?;
    write(&two, |tx| tx.put(&table, b"k", b"2"))?;
    tick_and_catch_up(&mut follower, 1)?;
    assert_eq!(get(&read, b"k")?, Some(b"2".to_vec()));
    Ok(())
}

#[test]
fn a_follower_goes_on_after_an_error() -> Result<()> {
    let disk = SimDisk::new();
    let dir = disk.dir();
    let store = writer(&dir)?;
    let table = create(&store)?;
    let (read, mut follower) = reader(&dir, 8 << 20)?;
    follower.catch_up()?;
    // More than one segment.
    for key in 0..80_u32 {
        write(&store, |tx| tx.put(&table, &key.to_be_bytes(), &[1; 8000]))?;
    }
    disk.inject(Fault { call: CallKind::Open, nth: 1, sticky: true, error: FaultError::Io });
    for attempt in 0..3 {
        let failed = follower.catch_up().map_err(|error| error.kind());
        assert_eq!(failed, Err(ErrorKind::Io), "attempt {attempt}: it shows an old state");
    }
    disk.clear_faults();
    assert!(follower.catch_up()?);
    assert_eq!(get(&read, &79_u32.to_be_bytes())?, Some(vec![1; 8000]));
    write(&store, |tx| tx.put(&table, b"k", b"v"))?;
    follower.catch_up()?;
    assert_eq!(get(&read, b"k")?, Some(b"v".to_vec()));
    Ok(())
}

/// Another writer takes over, and uses pages again before the reader has looked.
#[test]
fn pages_that_the_next_writer_used_again_are_no_damage() -> Result<()> {
    let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
    let store = writer(&dir)?;
    let table = create(&store)?;
    put_all(&store, &table, 0)?;
    let (read, mut follower) = reader(&dir, 1 << 20)?;
    let snapshot = read.snapshot()?;
    let there = snapshot.table("t")?.expect("it was created");
    put_all(&store, &table, 1)?;
    follower.catch_up()?;
    store.close()?;
    drop((store, table));
    let store = writer(&dir)?;
    let table = table_of(&store)?;
    for round in 2..6 {
        put_all(&store, &table, round)?;
    }
    assert!(too_old(&snapshot, &there) > 0, "no page was used again");
    tick_and_catch_up(&mut follower, 1)?;
    too_old(&snapshot, &there);
    assert_eq!(get(&read, &0_u32.to_be_bytes())?, Some(vec![5; 500]));
    Ok(())
}

/// The reader has lost its seat, and a call fails while it takes another one.
#[test]
fn snapshots_of_a_lost_seat_are_too_old_although_the_next_checkpoint_cannot_be_read() -> Result<()> {
    for (call, most) in [(CallKind::Read, 16), (CallKind::Open, 4)] {
        for nth in 1..=most {
            let disk = SimDisk::new();
            disk.keep_history(false);
            let dir = disk.dir();
            let bounded = Options { max_pinned_space_bytes: Some(1 << 20), ..options(8 << 20) };
            let store = pando_store::open_or_create(Arc::clone(&dir), &bounded)?;
            let table = create(&store)?;
            put_all(&store, &table, 0)?;
            let (read, mut follower) = reader(&dir, 1 << 20)?;
            let snapshot = read.snapshot()?;
            let there = snapshot.table("t")?.expect("it was created");
            for round in 1..4 {
                put_all(&store, &table, round)?;
            }
            disk.inject(Fault { call, nth, sticky: false, error: FaultError::Io });
            let _ = follower.tick(Duration::from_millis(250));
            let hits = disk.faults_hit();
            disk.clear_faults();
            too_old(&snapshot, &there);
            tick_and_catch_up(&mut follower, 3)?;
            assert!(too_old(&snapshot, &there) > 0, "{call:?} {nth}");
            assert_eq!(get(&read, &0_u32.to_be_bytes())?, Some(vec![3; 500]), "{call:?} {nth}");
            if hits == 0 {
                break;
            }
        }
    }
    Ok(())
}

#[test]
fn what_is_acknowledged_while_the_writer_closes_is_shown() -> Result<()> {
    let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
    let store = writer(&dir)?;
    let table = create(&store)?;
    let (read, mut follower) = reader(&dir, 8 << 20)?;
    let mut tx = Transaction::begin(&store, TransactionOptions::default())?;
    tx.put(&table, b"k", b"v")?;
    let applied = tx.apply()?;
    store.close()?;
    store.acknowledge(applied)?;
    drop((store, table));
    follower.catch_up()?;
    assert_eq!(get(&read, b"k")?, Some(b"v".to_vec()));
    Ok(())
}

#[test]
fn on_a_full_disk_readers_open_and_follow() -> Result<()> {
    let disk = SimDisk::new();
    let dir = disk.dir();
    let store = writer(&dir)?;
    let table = create(&store)?;
    write(&store, |tx| tx.put(&table, b"k", b"old"))?;
    store.checkpoint()?;
    disk.set_capacity(disk.used_bytes());
    let (reader, mut follower) = reader(&dir, 4 << 20)?;
    assert_eq!(get(&reader, b"k")?.as_deref(), Some(&b"old"[..]));
    write(&store, |tx| tx.delete(&table, b"k"))?;
    assert!(follower.catch_up()?);
    assert_eq!(get(&reader, b"k")?, None);
    let seat = || -> Result<u64> {
        let names = dir.list()?;
        dir.open_to_read(names.iter().find(|name| name.starts_with("reader-")).expect("it reads"))?.len()
    };
    follower.tick(Duration::ZERO)?;
    assert_eq!(seat()?, 0, "there is no room for it");
    disk.set_capacity(None);
    follower.tick(Duration::from_millis(250))?;
    assert_eq!(seat()?, 48);
    Ok(())
}
