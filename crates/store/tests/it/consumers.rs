//! Consumers that are opened and dropped by several threads.

use base::{ErrorKind, Result};
use io::{Dir, MemDir};
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
