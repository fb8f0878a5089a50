//! Consumers that are opened and dropped by several threads, and files of theirs that are too long.

use base::{ErrorKind, Result};
use io::sim::{CallKind, Fault, FaultError, SimDisk};
use io::{Dir, MemDir, OsDir};
use pando_store::{Options, RequestedLayout, Store, Table, Transaction, TransactionOptions};
use std::sync::Arc;

/// A consumer that was opened is there, whatever another thread drops meanwhile.
#[test]
fn a_consumer_that_is_open_is_not_dropped() -> Result<()> {
    let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
    let store = pando_store::open_or_create(dir, &Options { memory_bytes: 4 << 20, ..Options::default() })?;
    std::thread::scope(|scope| {
        let opening = scope.spawn(|| -> Result<()> {
            for round in 0..20_000 {
                match store.consumer("a") {
                    Ok(open) => {
                        let is_there = store.consumers()?.iter().any(|consumer| consumer.name == open.name());
                        assert!(is_there, "round {round}");
                    }
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Locked, "{error}"),
                }
            }
            Ok(())
        });
        while !opening.is_finished() {
            if let Err(error) = store.drop_consumer("a") {
                assert!(matches!(error.kind(), ErrorKind::Locked | ErrorKind::Missing), "{error}");
            }
        }
        opening.join().unwrap()
    })
}

/// The length of a file costs nothing, so no memory is allocated by it.
#[test]
fn a_file_of_a_consumer_that_is_longer_than_any_is_damaged() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { memory_bytes: 4 << 20, ..Options::default() };
    let open = || pando_store::open_or_create(Arc::new(OsDir::open(dir.path())?), &options);
    let store = open()?;
    drop(store.consumer("m")?);
    store.close()?;
    // It has no blocks: its bytes are zeros that nobody wrote.
    let file = std::fs::OpenOptions::new().write(true).open(dir.path().join("consumer-6d")).unwrap();
    file.set_len(8 << 40).unwrap();
    let error = open().map(drop).unwrap_err();
    assert!(error.kind() == ErrorKind::Corruption && error.to_string().contains("consumer-6d"), "{error}");
    Ok(())
}

fn write<T>(store: &Arc<Store>, work: impl FnOnce(&mut Transaction) -> Result<T>) -> Result<T> {
    let mut tx = Transaction::begin(store, TransactionOptions::default())?;
    let done = work(&mut tx)?;
    store.acknowledge(tx.apply()?)?;
    Ok(done)
}

/// A database whose consumer needs segments of the log, and a large value, that nothing else needs.
fn with_a_consumer(disk: &SimDisk, options: &Options) -> Result<()> {
    let store = pando_store::open_or_create(disk.dir(), options)?;
    let table: Table = write(&store, |tx| tx.create_table("t", RequestedLayout::BTree))?;
    drop(store.consumer("c")?);
    write(&store, |tx| tx.put(&table, b"large", &[1; 20_000]))?;
    (0..80_u32).try_for_each(|key| write(&store, |tx| tx.put(&table, &key.to_be_bytes(), &[1; 7000])))?;
    while store.checkpoint()? {}
    store.close()
}

/// What a consumer needs is there although it cannot be read at this moment: then the opening fails.
#[test]
fn an_error_while_opening_loses_no_consumer() -> Result<()> {
    let options = Options {
        page_bytes: Some(4096),
        memory_bytes: 8 << 20,
        large_bytes: 8 << 10,
        piece_bytes: 4 << 10,
        max_segment_bytes: 256 << 10,
        ..Options::default()
    };
    for call in [CallKind::Open, CallKind::Read] {
        for nth in 1.. {
            let disk = SimDisk::new();
            disk.keep_history(false);
            with_a_consumer(&disk, &options)?;
            disk.inject(Fault { call, nth, sticky: false, error: FaultError::Io });
            let opened = pando_store::open_or_create(disk.dir(), &options);
            let hits = disk.faults_hit();
            disk.clear_faults();
            if hits == 0 {
                assert!(nth > 3, "opening makes some calls of {call:?}");
                break;
            }
            if let Ok(store) = opened {
                assert!(!store.consumers()?[0].is_lost, "{call:?} {nth}");
            }
        }
    }
    Ok(())
}
