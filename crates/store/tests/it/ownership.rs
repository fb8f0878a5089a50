//! Two writers that no lock kept apart, and directories that are no longer where they were opened. The first writer is
//! refused, and commits that the second one acknowledged survive. A failure prints the seed that repeats it.

use base::env::Random;
use base::{ErrorKind, Result};
use io::sim::{CallKind, Fault, FaultError, SimDisk};
use pando_store::{Options, Store, Transaction, TransactionOptions};
use std::sync::Arc;

const SEEDS: u64 = 40;

fn options() -> Options {
    Options { page_bytes: Some(4096), memory_bytes: 4 << 20, ..Options::default() }
}

fn open(disk: &SimDisk) -> Arc<Store> {
    pando_store::open_or_create(disk.dir(), &options()).expect("it opens")
}

/// What `result` was refused with.
fn refusal<T>(result: Result<T>, seed: u64, what: &str) -> base::Error {
    result.err().unwrap_or_else(|| panic!("seed {seed}: {what}, and no call was refused"))
}

/// One durable commit of `key`.
fn put(store: &Arc<Store>, key: &str) -> Result<()> {
    let mut tx = Transaction::begin(store, TransactionOptions::default())?;
    let table = match tx.table("t")? {
        Some(table) => table,
        None => tx.create_table("t", pando_store::RequestedLayout::BTree)?,
    };
    tx.put(&table, key.as_bytes(), &[7; 300])?;
    let applied = tx.apply()?;
    store.acknowledge(applied).map(drop)
}

/// Which of `keys` are missing after a kill.
fn missing(disk: &SimDisk, keys: &[String]) -> Vec<String> {
    let store = open(&disk.after_kill());
    let snapshot = store.snapshot().expect("a snapshot");
    let table = snapshot.table("t").expect("a catalog").expect("the table");
    let is_missing = |key: &&String| snapshot.get(&table, key.as_bytes()).expect("a get").is_none();
    let missing = keys.iter().filter(is_missing).cloned().collect();
    store.check().expect("a check");
    drop(snapshot);
    store.close().expect("it closes");
    missing
}

/// Some commits, with a checkpoint now and then.
fn work(store: &Arc<Store>, name: &str, random: &mut Random, acknowledged: &mut Vec<String>) {
    for number in 0..random.below(12) {
        let key = format!("{name}{number:03}");
        put(store, &key).expect("a commit");
        acknowledged.push(key);
        if random.below(6) == 0 {
            store.checkpoint().expect("a checkpoint");
        }
    }
}

#[test]
fn a_deleted_lock_file_lets_no_second_opener_in() {
    for seed in 1..=SEEDS {
        let (disk, mut random) = (SimDisk::new(), Random::seeded(seed));
        let mut acknowledged = Vec::new();
        let first = open(&disk);
        put(&first, "begun").expect("a commit");
        work(&first, "first", &mut random, &mut acknowledged);
        disk.lose_lock("lock");
        let read_only = random.below(2) == 0;
        let second = pando_store::open(disk.dir(), &Options { read_only, ..options() });
        let refused = refusal(second, seed, "two have it open");
        assert_eq!(refused.kind(), ErrorKind::Locked, "seed {seed}: {refused:?}");
        put(&first, "goes on").expect("a commit");
        first.close().expect("it closes");
        // Closing gives up both locks.
        assert!(missing(&disk, &acknowledged).is_empty(), "seed {seed}");
        open(&disk).close().expect("it closes");
    }
}

#[test]
fn a_second_writer_that_recovered_the_database_is_noticed_by_the_first() {
    for seed in 1..=SEEDS {
        let (disk, mut random) = (SimDisk::new(), Random::seeded(seed));
        let mut acknowledged = Vec::new();
        let first = open(&disk);
        put(&first, "begun").expect("a commit"); // so that the log is not closed
        work(&first, "first", &mut random, &mut acknowledged);
        disk.lose_locks();
        let second = open(&disk);
        work(&second, "second", &mut random, &mut acknowledged);
        let refused = match random.below(2) {
            // To take room from what the second has used is what a checkpoint of the first must not do.
            0 => put(&first, "lost").and_then(|()| first.checkpoint().map(drop)),
            _ => first.close(),
        };
        let refused = refusal(refused, seed, "two write");
        assert!(matches!(refused.kind(), ErrorKind::Io | ErrorKind::Latched), "seed {seed}: {refused:?}");
        let cause = first.latched().expect("it is latched").message();
        assert!(cause.contains("another process"), "seed {seed}: {cause}");
        if random.below(2) == 0 {
            second.checkpoint().expect("the second goes on");
        }
        let lost = missing(&disk, &acknowledged);
        assert!(lost.is_empty(), "seed {seed}: {lost:?} of the second writer's or of before are gone");
        let _ = (first.close(), second.close());
    }
}

#[test]
fn a_second_writer_that_went_on_in_a_closed_log_is_noticed_by_the_first() {
    for seed in 1..=SEEDS {
        let (disk, mut random) = (SimDisk::new(), Random::seeded(seed));
        let mut acknowledged = Vec::new();
        let before = open(&disk);
        put(&before, "begun").expect("a commit");
        work(&before, "before", &mut random, &mut acknowledged);
        before.close().expect("it closes");
        let first = open(&disk);
        disk.lose_locks();
        let second = open(&disk);
        put(&second, "second").expect("a commit");
        acknowledged.push("second".into());
        work(&second, "second", &mut random, &mut acknowledged);
        if random.below(2) == 0 {
            second.close().expect("it closes");
        }
        let refused = refusal(put(&first, "lost"), seed, "the log's end is another's");
        assert_eq!(refused.kind(), ErrorKind::Latched, "seed {seed}: {refused:?}");
        assert!(first.latched().is_some(), "seed {seed}: it must not be tried again");
        let lost = missing(&disk, &acknowledged);
        assert!(lost.is_empty(), "seed {seed}: {lost:?} of the second writer's are gone");
        let _ = (first.close(), second.close());
    }
}

#[test]
fn a_data_file_that_an_older_copy_has_overwritten_is_not_written_to() {
    for seed in 1..=SEEDS {
        let (disk, mut random) = (SimDisk::new(), Random::seeded(seed));
        let store = open(&disk);
        put(&store, "begun").expect("a commit");
        for _ in 0..random.below(3) {
            put(&store, "before").expect("a commit");
            store.checkpoint().expect("a checkpoint");
        }
        let data = disk.dir().open("data").expect("the data file");
        let mut copy = vec![0; data.len().expect("a length") as usize];
        data.read_exact_at(&mut copy, 0).expect("its bytes");
        for _ in 0..1 + random.below(3) {
            put(&store, "after").expect("a commit");
            store.checkpoint().expect("a checkpoint");
        }
        data.write_at(&copy, 0).expect("overwritten");
        put(&store, "lost").expect("a commit, to the log");
        let refused = refusal(store.checkpoint(), seed, "its superblock is gone");
        assert_eq!(refused.kind(), ErrorKind::Io, "seed {seed}: {refused:?}");
        assert!(store.latched().is_some(), "seed {seed}");
        let mut found = vec![0; copy.len()];
        data.read_exact_at(&mut found, 0).expect("its bytes");
        assert!(found == copy, "seed {seed}: the copy was written to");
        let _ = store.close();
    }
}

#[test]
fn a_directory_that_is_elsewhere_latches_at_the_latest_at_the_next_segment_checkpoint_or_close() {
    for seed in 1..=SEEDS {
        let (disk, mut random) = (SimDisk::new(), Random::seeded(seed));
        let mut acknowledged = Vec::new();
        let store = open(&disk);
        put(&store, "begun").expect("a commit");
        work(&store, "k", &mut random, &mut acknowledged);
        disk.inject(Fault { call: CallKind::InPlace, nth: 1, sticky: true, error: FaultError::Io });
        let how = random.below(4);
        let refused = match how {
            0 => store.check_in_place(),
            1 => put(&store, "last").and_then(|()| store.checkpoint().map(drop)),
            2 => store.close(),
            // A log segment has room for a few hundred of these at first.
            _ => (0..1000).try_for_each(|number| put(&store, &format!("more{number}"))),
        };
        let refused = refusal(refused, seed, "the directory is elsewhere");
        assert!(matches!(refused.kind(), ErrorKind::Io | ErrorKind::Latched), "seed {seed}: {refused:?}");
        // Where a commit met it, only that is refused; the look that comes four times a second latches.
        let _ = store.check_in_place();
        assert!(store.latched().is_some(), "seed {seed}");
        let after = put(&store, "after").unwrap_err().kind();
        assert!(matches!(after, ErrorKind::Latched | ErrorKind::Closed), "seed {seed}: {after:?}");
        assert!(store.close().is_err(), "seed {seed}: closing says so, each time");
        disk.clear_faults();
        let lost = missing(&disk, &acknowledged);
        assert!(lost.is_empty(), "seed {seed}: {lost:?} were acknowledged before");
    }
}
