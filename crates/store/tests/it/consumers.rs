//! Consumers that are opened and dropped by several threads, and files of theirs that are too long.

use base::{ErrorKind, Result};
use io::{Dir, MemDir, OsDir};
use pando_store::Options;
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
