//! Snapshots and transactions that stay open: what they keep is shown and bounded, the ones from which something
//! is taken learn it by an error, and nobody else notices.

use crate::support::small;
use base::env::Random;
use pando::{Database, Durability, ErrorKind, TransactionOptions};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Shown with a failure.
fn seeded(seed: u64) -> Random {
    println!("seed {seed}");
    Random::seeded(seed)
}

fn key(random: &mut Random) -> [u8; 4] {
    (random.below(2000) as u32).to_be_bytes()
}

/// Commits `count` random records; a checkpoint every thousand.
fn load(db: &Database, random: &mut Random, count: u32) {
    let table = db.ensure_table("t").unwrap();
    let options = TransactionOptions { durability: Durability::Buffered, ..db.transaction_options() };
    for n in 0..count {
        let mut tx = db.begin_with(&options).unwrap();
        tx.put(&table, &key(random), &[n as u8; 500]).unwrap();
        tx.commit().unwrap();
        if n % 1000 == 999 {
            db.checkpoint().unwrap();
        }
    }
}

fn kind<T: std::fmt::Debug>(result: pando::Result<T>) -> ErrorKind {
    result.unwrap_err().kind()
}

/// Waits until `reached` says so, some seconds at most.
fn wait_until(what: &str, mut reached: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !reached() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what} never came");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_snapshot_that_stays_open_keeps_what_it_sees_and_no_more() {
    let db = small().memory_bytes(64 << 20).in_memory().unwrap();
    let mut random = seeded(1);
    load(&db, &mut random, 2000);
    let snapshot = db.snapshot().unwrap();
    let table = db.ensure_table("t").unwrap();
    let seen: BTreeMap<_, _> = snapshot.range(&table, ..).unwrap().map(Result::unwrap).collect();
    for _ in 0..5 {
        load(&db, &mut random, 2000);
        // The view that it holds, and the newest: those between went when nobody held them any more.
        assert!(db.stats().unwrap().views <= 3, "{:?}", db.stats().unwrap());
        assert!(snapshot.range(&table, ..).unwrap().map(Result::unwrap).eq(seen.clone()));
    }
    let readers = db.readers().unwrap();
    assert_eq!(readers.len(), 1);
    assert!(readers[0].space_bytes > 0 && !readers[0].is_transaction, "{readers:?}");
    assert_eq!(readers[0].commit, snapshot.commit_number());
    assert_eq!(readers[0].opened_at.unwrap().file(), file!());
    drop(snapshot);
    db.checkpoint().unwrap();
    assert!(db.readers().unwrap().is_empty());
}

#[test]
fn memory_and_space_stay_inside_their_bounds_and_the_young_read_on() {
    const SPACE_BYTES: u64 = 8 << 20;
    let db = small()
        .memory_bytes(16 << 20)
        .checkpoint_bytes(2 << 20)
        .max_pinned_space_bytes(SPACE_BYTES)
        .in_memory()
        .unwrap();
    let table = db.ensure_table("t").unwrap();
    let mut random = seeded(2);
    load(&db, &mut random, 2000);
    // A snapshot keeps what it sees and no more: 12 MB that nobody after it does.
    let old = |n: u32| [&[1][..], &n.to_be_bytes()].concat();
    db.write(|tx| (0..24_000).try_for_each(|n| tx.put(&table, &old(n), &[1; 500]))).unwrap();
    db.checkpoint().unwrap();
    let forgotten = db.snapshot().unwrap();
    db.write(|tx| tx.delete_range(&table, &[1][..]..&[2][..])).unwrap();
    let (mut young, mut most_file_bytes) = (Vec::new(), 0);
    for _ in 0..25 {
        load(&db, &mut random, 1000);
        let reader = db.snapshot().unwrap();
        let sum: usize = reader.range(&table, ..).unwrap().map(|record| record.unwrap().1.len()).sum();
        young.push((reader, sum));
        if young.len() > 2 {
            let (reader, sum) = young.remove(0);
            let again: usize = reader.range(&table, ..).unwrap().map(|record| record.unwrap().1.len()).sum();
            assert_eq!(again, sum, "the young go on");
        }
        let stats = db.stats().unwrap();
        most_file_bytes = most_file_bytes.max(stats.data_file_bytes);
        assert!(stats.data_retired_bytes < SPACE_BYTES + (8 << 20), "{stats:?}");
    }
    // 1 MB of live records.
    assert!(most_file_bytes < SPACE_BYTES + (16 << 20), "the file grew to {most_file_bytes} bytes");
    assert_eq!(db.stats().unwrap().expired_readers, 1);
    assert_eq!(kind(forgotten.get(&table, b"k")), ErrorKind::SnapshotTooOld);
    assert_eq!(kind(forgotten.cursor(&table, ..).map(drop)), ErrorKind::SnapshotTooOld);
    assert_eq!(kind(forgotten.try_clone().map(drop)), ErrorKind::SnapshotTooOld);
    assert_eq!(kind(forgotten.tables()), ErrorKind::SnapshotTooOld);
    drop(forgotten);
    assert!(db.get(&table, &key(&mut random)).is_ok(), "its slot serves the next");
    db.check().unwrap();
}

#[test]
fn a_writer_that_sleeps_gets_an_error_and_runs_again() {
    let db = small().memory_bytes(2 << 20).checkpoint_bytes(256 << 10).in_memory().unwrap();
    let table = db.ensure_table("t").unwrap();
    let mut random = seeded(3);
    let mut sleeper = db.begin().unwrap();
    sleeper.get(&table, b"k").unwrap();
    sleeper.put(&table, b"slept", b"").unwrap();
    let attempts = AtomicUsize::new(0);
    db.write(|tx| {
        tx.get(&table, b"counter")?;
        if attempts.fetch_add(1, Ordering::SeqCst) == 0 {
            // Far more than the memory that history may have.
            load(&db, &mut random, 12_000);
            db.checkpoint()?;
            assert_eq!(kind(tx.get(&table, b"k")), ErrorKind::SnapshotTooOld);
            assert_eq!(kind(tx.put(&table, b"k", b"")), ErrorKind::SnapshotTooOld);
        }
        tx.put(&table, b"counter", b"1")
    })
    .unwrap();
    assert_eq!(attempts.load(Ordering::SeqCst), 2);
    assert_eq!(kind(sleeper.commit()), ErrorKind::SnapshotTooOld);
    assert_eq!(db.get(&table, b"slept").unwrap(), None);
    assert_eq!(db.get(&table, b"counter").unwrap().as_deref(), Some(&b"1"[..]));
    let stats = db.stats().unwrap();
    assert!(stats.expired_readers >= 2, "{stats:?}");
    // The history went with them.
    assert!(stats.memtable_bytes < 2 << 20 && stats.views <= 2, "{stats:?}");
}

#[test]
fn a_cursor_a_closure_and_a_borrowed_value_keep_what_they_look_at_until_they_end() {
    // Ages are known to a quarter of a second: a reader that is not meant has the rest of this, on a busy machine too.
    let db = small().max_snapshot_age(Duration::from_millis(1500)).in_memory().unwrap();
    let table = db.ensure_table("t").unwrap();
    let mut random = seeded(4);
    load(&db, &mut random, 3000);
    db.put(&table, b"in memory", b"value").unwrap();
    let (snapshot, closure, lender) =
        (db.snapshot().unwrap(), db.snapshot().unwrap(), db.snapshot().unwrap());
    let lent = lender.get_ref(&table, b"in memory").unwrap().unwrap();
    let mut cursor = snapshot.cursor(&table, ..).unwrap();
    cursor.next().unwrap().unwrap();
    let (first, value) = cursor.current().map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap();
    let inside = closure.get_with(&table, b"in memory", |value| {
        wait_until("expiry", || db.stats().unwrap().expired_readers >= 3);
        load(&db, &mut random, 5000);
        assert_eq!(value, b"value");
        assert_eq!(kind(closure.get(&table, b"in memory")), ErrorKind::SnapshotTooOld);
        db.readers().unwrap().iter().filter(|reader| reader.expired && reader.in_call).count()
    });
    assert_eq!(inside.unwrap(), Some(3));
    assert_eq!(&*lent, b"value");
    assert_eq!(kind(lender.get(&table, b"in memory")), ErrorKind::SnapshotTooOld);
    drop(lent);
    assert_eq!(cursor.current(), Some((&first[..], &value[..])), "what is lent stays");
    assert_eq!(kind(cursor.next().map(drop)), ErrorKind::SnapshotTooOld);
    drop(cursor);
    db.checkpoint().unwrap();
    assert_eq!(kind(snapshot.get(&table, &first)), ErrorKind::SnapshotTooOld);
    assert!(db.stats().unwrap().views <= 2);
}

#[test]
fn an_old_reader_is_reported_once_and_once_more_when_it_expires() {
    let reported = Arc::new(Mutex::new(Vec::new()));
    let listener = {
        let reported = Arc::clone(&reported);
        move |reader: &pando::OpenReader| reported.lock().unwrap().push((reader.opened_at, reader.expired))
    };
    let age = Duration::from_millis(2500);
    let db = small().max_snapshot_age(age).on_long_reader(listener).in_memory().unwrap();
    let snapshot = db.snapshot().unwrap();
    let here = line!() - 1;
    wait_until("expiry", || snapshot.tables().is_err());
    let young = db.snapshot().unwrap();
    wait_until("the news", || reported.lock().unwrap().len() >= 2);
    let reported: Vec<_> =
        reported.lock().unwrap().iter().map(|(at, expired)| (at.unwrap().line(), *expired)).collect();
    assert_eq!(reported, [(here, false), (here, true)]);
    assert!(young.tables().is_ok());
}

#[test]
fn one_reader_is_ended_by_its_id_and_others_are_not() {
    let db = small().in_memory().unwrap();
    let table = db.ensure_table("t").unwrap();
    db.put(&table, b"k", b"old").unwrap();
    let (ended, other) = (db.snapshot().unwrap(), db.snapshot().unwrap());
    let mut tx = db.begin().unwrap();
    tx.put(&table, b"k", b"of the transaction").unwrap();
    let of_tx = tx.reader_id();
    let readers = db.readers().unwrap();
    assert_eq!(readers.iter().map(|reader| reader.id).collect::<std::collections::BTreeSet<_>>().len(), 3);
    assert!(readers.iter().any(|reader| reader.is_transaction && reader.id == of_tx));
    // Snapshots that were begun later use the same slots again: an id is that of one reader only.
    let ids: Vec<_> =
        readers.iter().filter(|reader| !reader.is_transaction).map(|reader| reader.id).collect();
    let count = |db: &Database| db.readers().unwrap().len();
    assert!(db.expire_reader(of_tx).unwrap());
    assert!(!db.expire_reader(of_tx).unwrap(), "it expired before");
    assert_eq!(count(&db), 2);
    assert_eq!(kind(tx.get(&table, b"k")), ErrorKind::SnapshotTooOld);
    assert_eq!(kind(tx.commit()), ErrorKind::SnapshotTooOld);
    assert_eq!(db.get(&table, b"k").unwrap().as_deref(), Some(&b"old"[..]), "nothing was written");
    let is_ended = |id: pando::ReaderId| db.expire_reader(id).unwrap();
    assert!(is_ended(ids[0]));
    let left = [&ended, &other].into_iter().filter(|snapshot| snapshot.get(&table, b"k").is_ok()).count();
    assert_eq!((left, count(&db), db.stats().unwrap().expired_readers), (1, 1, 2));
    drop((ended, other));
    assert!(!is_ended(ids[1]), "it has ended");
    let (one, two) = (db.snapshot().unwrap(), db.snapshot().unwrap());
    assert!(!is_ended(ids[0]) && !is_ended(ids[1]) && !is_ended(of_tx));
    assert!(one.get(&table, b"k").is_ok() && two.get(&table, b"k").is_ok());
}
