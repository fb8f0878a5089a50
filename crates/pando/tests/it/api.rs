//! The calls that do not fit: limits, wrong handles, contradicting options, closed databases, every order of dropping.

use crate::support::{dir_of, small};
use pando::{Builder, Conflict, Database, ErrorKind, Isolation, TableOptions, TransactionOptions, limits};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

type Outcome = pando::Result<()>;

fn memory() -> Builder {
    Database::builder().page_bytes(4096).memory_bytes(8 << 20)
}

#[track_caller]
fn refused<T>(result: pando::Result<T>, kind: ErrorKind) -> pando::Error {
    let Err(error) = result else { panic!("expected {kind:?}, but it went well") };
    assert_eq!(error.kind(), kind, "{error}");
    error
}

#[test]
fn keys_up_to_the_limit_and_no_longer() -> Outcome {
    for page_bytes in [4096, 8192, 16384, 32768, 65536] {
        let db = memory().page_bytes(page_bytes).in_memory()?;
        let table = db.ensure_table("t")?;
        let most = limits::max_key_bytes(page_bytes);
        let longest: Vec<Vec<u8>> = (0..40).map(|last| [vec![7; most - 1], vec![last]].concat()).collect();
        db.write(|tx| longest.iter().try_for_each(|key| tx.put(&table, key, &[1; 500])))?;
        db.checkpoint()?;
        let snapshot = db.snapshot()?;
        assert_eq!(snapshot.range(&table, ..)?.count(), 40);
        assert_eq!(snapshot.get(&table, &longest[17])?, Some(vec![1; 500]));

        let too_long = vec![0xff; most + 1];
        let mut tx = db.begin()?;
        refused(tx.put(&table, &too_long, b""), ErrorKind::Invalid);
        refused(tx.insert(&table, &too_long, b""), ErrorKind::Invalid);
        refused(tx.delete(&table, &too_long), ErrorKind::Invalid);
        refused(tx.compare_and_swap(&table, &too_long, None, Some(b"")), ErrorKind::Invalid);
        // There is no such key: to ask for one is no mistake.
        assert_eq!(tx.get(&table, &too_long)?, None);
        assert_eq!(tx.remove(&table, &too_long)?, None);
        assert_eq!(tx.range(&table, &too_long[..]..)?.count(), 0);
        // A range may end at any key, the longest included.
        tx.delete_range(&table, &longest[3][..]..=&longest[5][..])?;
        tx.delete_range(&table, (std::ops::Bound::Excluded(&longest[36][..]), std::ops::Bound::Unbounded))?;
        tx.commit()?;
        db.checkpoint()?;
        let left: Vec<_> = db.snapshot()?.range(&table, ..)?.map(|record| record.unwrap().0).collect();
        let expected = [&longest[..3], &longest[6..=36]].concat();
        assert!(left == expected, "{} keys are left", left.len());
        db.check()?;
    }
    Ok(())
}

#[test]
fn values_around_every_length_that_matters() -> Outcome {
    let db = memory().in_memory()?;
    let table = db.ensure_table("t")?;
    let longest_key = vec![1; limits::max_key_bytes(4096)];
    let (logged, piece) = (limits::MAX_LOGGED_VALUE_BYTES, limits::PIECE_BYTES);
    for len in [logged - 1, logged, logged + 1, 5 * piece - 1, 5 * piece, 5 * piece + 1, 33 << 20] {
        let mut value = vec![9; len];
        value[len / 2] = 1;
        db.put(&table, &longest_key, &value)?;
        assert_eq!(db.snapshot()?.get_with(&table, &longest_key, |found| found == value)?, Some(true));
        db.checkpoint()?;
        assert_eq!(db.snapshot()?.get_with(&table, &longest_key, |found| found == value)?, Some(true));
        assert_eq!(db.snapshot()?.value_len(&table, &longest_key)?, Some(len as u64));
    }
    db.delete(&table, &longest_key)?;
    db.checkpoint()?;
    assert_eq!(db.check()?.orphan_units, 0);
    Ok(())
}

/// More than one block of the log holds, and more than the budget.
#[test]
fn a_transaction_has_no_size() -> Outcome {
    let db = memory().memory_bytes(16 << 20).in_memory()?;
    let table = db.ensure_table("t")?;
    let mut tx = db.begin()?;
    let value = vec![3; 100 << 10];
    for key in 0..700u16 {
        tx.put(&table, &key.to_be_bytes(), &value)?;
    }
    assert_eq!(tx.get(&table, &5u16.to_be_bytes())?.as_deref(), Some(&value[..]));
    tx.commit()?;
    assert_eq!(db.snapshot()?.range(&table, ..)?.count(), 700);
    let records = (0..50_000u32).rev().map(|n| Ok((n.to_be_bytes(), vec![7; 60])));
    assert_eq!(db.bulk_load(&table, records)?, 50_000);
    db.checkpoint()?;
    assert_eq!(db.snapshot()?.range(&table, ..)?.count(), 50_700);
    assert_eq!(db.check()?.orphan_units, 0);
    Ok(())
}

#[test]
fn names_of_tables() -> Outcome {
    let db = memory().in_memory()?;
    let longest = "n".repeat(limits::MAX_TABLE_NAME_BYTES);
    db.ensure_table(&longest)?;
    db.ensure_table("träume/🌳 \0\n")?;
    refused(db.ensure_table(&format!("{longest}n")), ErrorKind::Invalid);
    refused(db.ensure_table(""), ErrorKind::Invalid);
    refused(db.create_table(&longest, &TableOptions::default()), ErrorKind::Exists);
    assert!(db.table("absent")?.is_none());
    refused(db.table(""), ErrorKind::Invalid);
    refused(db.drop_table("absent"), ErrorKind::Missing);
    assert_eq!(db.tables()?.len(), 2);
    Ok(())
}

#[test]
fn a_table_of_another_database() -> Outcome {
    let (ours, theirs) = (memory().in_memory()?, memory().in_memory()?);
    let (table, other) = (ours.ensure_table("t")?, theirs.ensure_table("t")?);
    assert_eq!(table.id(), other.id(), "ids alone do not tell them apart");
    theirs.put(&other, b"k", b"theirs")?;
    for handle in [&other, &other.clone()] {
        refused(ours.get(handle, b"k"), ErrorKind::Invalid);
        refused(ours.put(handle, b"k", b"v"), ErrorKind::Invalid);
        refused(ours.snapshot()?.range(handle, ..).map(drop), ErrorKind::Invalid);
        let mut tx = ours.begin()?;
        refused(tx.drop_table(handle), ErrorKind::Invalid);
        refused(tx.cursor_mut(handle, ..).map(drop), ErrorKind::Invalid);
        refused(tx.delete_range(handle, ..), ErrorKind::Invalid);
        // Also when the transaction knows its own table of that id already.
        tx.put(&table, b"k", b"ours")?;
        refused(tx.get(handle, b"k"), ErrorKind::Invalid);
        refused(tx.put(handle, b"k", b"v"), ErrorKind::Invalid);
    }
    Ok(())
}

#[test]
fn a_table_that_was_dropped() -> Outcome {
    let db = memory().in_memory()?;
    let table = db.ensure_table("t")?;
    db.put(&table, b"k", b"v")?;
    let old = db.snapshot()?;
    let mut within = db.begin()?;
    within.drop_table(&table)?;
    refused(within.get(&table, b"k"), ErrorKind::Missing);
    refused(within.put(&table, b"k", b"v"), ErrorKind::Missing);
    refused(within.drop_table(&table), ErrorKind::Missing);
    assert!(within.table("t")?.is_none());
    let again = within.create_table("t", &TableOptions::default())?;
    assert_eq!(within.get(&again, b"k")?, None);
    within.put(&again, b"k", b"new")?;
    within.commit()?;
    refused(db.get(&table, b"k"), ErrorKind::Missing);
    refused(db.put(&table, b"k", b"v"), ErrorKind::Missing);
    refused(db.snapshot()?.approximate_len(&table), ErrorKind::Missing);
    assert_eq!(db.get(&again, b"k")?, Some(b"new".to_vec()));
    assert_eq!(old.get(&table, b"k")?, Some(b"v".to_vec()));
    refused(old.get(&again, b"k"), ErrorKind::Missing);
    Ok(())
}

#[test]
fn a_table_that_was_never_committed() -> Outcome {
    let db = memory().in_memory()?;
    let mut tx = db.begin()?;
    let table = tx.create_table("t", &TableOptions::default())?;
    tx.put(&table, b"k", b"v")?;
    let before = tx.savepoint();
    let second = tx.create_table("second", &TableOptions::default())?;
    tx.rollback_to(&before)?;
    refused(tx.get(&second, b"k"), ErrorKind::Missing);
    assert_eq!(tx.get(&table, b"k")?, Some(b"v".to_vec()));
    refused(db.get(&table, b"k"), ErrorKind::Missing);
    drop(tx);
    refused(db.get(&table, b"k"), ErrorKind::Missing);
    // Another of the same name is another table.
    let other = db.ensure_table("t")?;
    assert_ne!(other.id(), table.id());
    refused(db.put(&table, b"k", b"v"), ErrorKind::Missing);
    Ok(())
}

#[test]
fn savepoints_of_the_past() -> Outcome {
    let db = memory().in_memory()?;
    let table = db.ensure_table("t")?;
    let mut tx = db.begin()?;
    tx.put(&table, b"a", b"")?;
    let outer = tx.savepoint();
    tx.put(&table, b"b", b"")?;
    let inner = tx.savepoint();
    tx.put(&table, b"c", b"")?;
    tx.rollback_to(&inner)?;
    tx.rollback_to(&inner)?;
    tx.rollback_to(&outer)?;
    refused(tx.rollback_to(&inner), ErrorKind::Invalid);
    tx.rollback_to(&outer)?;
    tx.commit()?;
    assert_eq!(db.snapshot()?.range(&table, ..)?.count(), 1);
    Ok(())
}

#[test]
fn options_that_are_none_or_contradict() -> Outcome {
    for page_bytes in [0, 1, 512, 4095, 5000, 12288, 131_072] {
        refused(memory().page_bytes(page_bytes).in_memory(), ErrorKind::Invalid);
    }
    refused(memory().memory_bytes(0).in_memory(), ErrorKind::Invalid);
    refused(memory().lazy_interval(Duration::ZERO).in_memory(), ErrorKind::Invalid);
    for segment_bytes in [0, 1, 1 << 40] {
        refused(memory().max_segment_bytes(segment_bytes).in_memory(), ErrorKind::Invalid);
    }
    let dir = tempfile::tempdir().unwrap();
    memory().create(dir.path())?.close()?;
    let error = refused(memory().page_bytes(8192).open(dir.path()), ErrorKind::Mismatch);
    assert!(error.to_string().contains("4096") && error.to_string().contains("8192"), "{error}");
    Database::open(dir.path())?.close()
}

#[test]
fn options_that_are_invalid_leave_nothing_behind() -> Outcome {
    let dir = dir_of(&Default::default());
    refused(memory().max_segment_bytes(1).create_in(dir.clone()), ErrorKind::Invalid);
    let names: Vec<_> = dir.files().into_keys().filter(|name| name != "lock").collect();
    assert!(names.is_empty(), "{names:?}");
    memory().create_in(dir)?.close()
}

#[test]
fn places_where_no_database_can_be() -> Outcome {
    let dir = tempfile::tempdir().unwrap();
    let absent = dir.path().join("absent");
    let error = refused(Database::open(&absent), ErrorKind::Missing);
    assert!(error.to_string().contains("absent"), "{error}");
    assert!(!absent.exists(), "opening made it");
    // An empty directory is no database either.
    refused(Database::open(dir.path()), ErrorKind::Missing);

    let file = dir.path().join("file");
    std::fs::write(&file, "text").unwrap();
    for path in [file.clone(), file.join("below")] {
        for error in [Database::create(&path).unwrap_err(), Database::open(&path).unwrap_err()] {
            assert!(
                matches!(error.kind(), ErrorKind::Io | ErrorKind::Missing | ErrorKind::Invalid),
                "{error:?}"
            );
            assert!(error.to_string().contains("file"), "{error}");
        }
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "text");
    Database::create(dir.path().join("made/with/parents"))?.close()
}

/// Root may write anywhere: then there is nothing to see.
#[test]
fn a_directory_that_is_read_only() -> Outcome {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let set_mode = |mode| {
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set_mode(0o555);
    if std::fs::write(dir.path().join("probe"), "").is_err() {
        let error = refused(Database::create(dir.path()), ErrorKind::Io);
        assert!(error.to_string().to_lowercase().contains("permission denied"), "{error}");
    }
    set_mode(0o755);
    Ok(())
}

#[test]
fn a_second_opener_and_the_lock_in_the_end() -> Outcome {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::create(dir.path())?;
    let clone = db.clone();
    for _ in 0..3 {
        let error = refused(Database::create(dir.path()), ErrorKind::Locked);
        assert!(error.to_string().contains(&std::process::id().to_string()), "{error}");
    }
    drop(db);
    refused(Database::open(dir.path()), ErrorKind::Locked);
    drop(clone);
    drop(Database::open(dir.path())?);
    // A failed opening lets go of it.
    refused(Database::builder().page_bytes(65536).open(dir.path()), ErrorKind::Mismatch);
    drop(Database::open(dir.path())?);
    Ok(())
}

#[test]
fn after_close_everything_is_closed_but_snapshots_go_on() -> Outcome {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::builder().page_bytes(4096).create(dir.path())?;
    let table = db.ensure_table("t")?;
    db.write(|tx| (0..100u8).try_for_each(|key| tx.put(&table, &[key], &[key; 100])))?;
    db.checkpoint()?;
    db.put(&table, b"later", b"v")?;
    let other = db.clone();
    let snapshot = db.snapshot()?;
    let mut tx = db.begin()?;
    tx.put(&table, b"pending", b"v")?;
    db.close()?;
    db.close()?;
    other.close()?;

    for db in [&db, &other] {
        refused(db.snapshot(), ErrorKind::Closed);
        refused(db.begin(), ErrorKind::Closed);
        refused(db.begin_with(&TransactionOptions::default()), ErrorKind::Closed);
        refused(db.write(|_| Ok(())), ErrorKind::Closed);
        refused(db.get(&table, b"later"), ErrorKind::Closed);
        refused(db.put(&table, b"later", b""), ErrorKind::Closed);
        refused(db.delete(&table, b"later"), ErrorKind::Closed);
        refused(db.bulk_load(&table, [Ok((b"later", b""))]), ErrorKind::Closed);
        refused(db.ensure_table("t"), ErrorKind::Closed);
        refused(db.ensure_table("other"), ErrorKind::Closed);
        refused(db.table("t"), ErrorKind::Closed);
        refused(db.ensure_table_with("t", &TableOptions::default()), ErrorKind::Closed);
        refused(db.create_table("other", &TableOptions::default()), ErrorKind::Closed);
        refused(db.drop_table("t"), ErrorKind::Closed);
        refused(db.tables(), ErrorKind::Closed);
        refused(db.checkpoint(), ErrorKind::Closed);
        refused(db.sync(), ErrorKind::Closed);
        refused(db.check(), ErrorKind::Closed);
        refused(db.stats(), ErrorKind::Closed);
    }
    assert_eq!(snapshot.range(&table, ..)?.count(), 101);
    assert_eq!(snapshot.get(&table, &[7])?, Some(vec![7; 100]));
    drop(snapshot.try_clone()?);
    refused(tx.commit(), ErrorKind::Closed);

    let again = Database::open(dir.path())?;
    let table = again.ensure_table("t")?;
    assert_eq!(again.snapshot()?.range(&table, ..)?.count(), 101);
    assert_eq!(again.get(&table, b"pending")?, None);
    Ok(())
}

#[test]
fn snapshots_and_transactions_outlive_their_database() -> Outcome {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::create(dir.path())?;
    let table = db.ensure_table("t")?;
    db.put(&table, b"k", b"v")?;
    let snapshot = db.snapshot()?;
    let clone = snapshot.try_clone()?;
    drop(db);
    assert_eq!(clone.get(&table, b"k")?, Some(b"v".to_vec()));
    drop(clone);
    let elsewhere = std::thread::spawn(move || snapshot.get(&table, b"k"));
    assert_eq!(elsewhere.join().unwrap()?, Some(b"v".to_vec()));

    let db = Database::open(dir.path())?;
    let table = db.ensure_table("t")?;
    let mut tx = db.begin()?;
    tx.put(&table, b"from a transaction", b"v")?;
    drop(db);
    // The transaction keeps the database open; nobody closed it.
    tx.commit()?;
    let db = Database::open(dir.path())?;
    let table = db.ensure_table("t")?;
    assert_eq!(db.get(&table, b"from a transaction")?, Some(b"v".to_vec()));
    Ok(())
}

/// Files of another program can have the names of a database's files.
#[test]
fn creating_a_database_overwrites_no_file_of_another_program() -> Outcome {
    for name in ["lock", "visible", "data"] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        let theirs = [b"theirs".as_slice(); 5000].concat();
        std::fs::write(&path, &theirs).unwrap();
        let error = refused(Database::create(dir.path()), ErrorKind::Foreign);
        assert!(error.message().contains(name) || name == "data", "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), theirs, "{name}");
        std::fs::remove_file(&path).unwrap();
        Database::create(dir.path())?.close()?;
    }
    Ok(())
}

/// Pages that another opening has reused are not damaged.
#[test]
fn a_snapshot_of_a_closed_database_fails_once_its_pages_are_reused() -> Outcome {
    let dir = tempfile::tempdir().unwrap();
    let small = || Database::builder().page_bytes(4096).memory_bytes(4 << 20);
    let db = small().create(dir.path())?;
    let table = db.ensure_table("t")?;
    let put_all = |db: &Database, with: u8| -> Outcome {
        db.write(|tx| (0..500u32).try_for_each(|key| tx.put(&table, &key.to_be_bytes(), &[with; 900])))?;
        db.write(|tx| tx.put(&table, b"long", &[with; 100_000]))?;
        db.checkpoint().map(drop)
    };
    put_all(&db, 1)?;
    let snapshot = db.snapshot()?;
    db.close()?;
    let count = || {
        snapshot
            .range(&table, ..)?
            .try_fold(0, |count, record| record.map(|(_, value)| count + u32::from(value[0])))
    };
    assert_eq!(count()?, 501, "nothing was reused yet");
    let again = small().create(dir.path())?;
    (2..6).try_for_each(|with| put_all(&again, with))?;
    refused(count(), ErrorKind::Closed);
    refused(snapshot.get(&table, b"long"), ErrorKind::Closed);
    again.check()?;
    Ok(())
}

/// Whatever is under way ends with a result or with `Closed`, and what was acknowledged is there afterwards.
#[test]
fn closing_in_the_middle_of_everything() -> Outcome {
    for round in 0..20 {
        let dir = dir_of(&Default::default());
        let db = small().page_bytes(4096).checkpoint_bytes(64 << 10).create_in(dir.clone())?;
        let table = db.ensure_table("t")?;
        let acknowledged = AtomicU64::new(0);
        let begun = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for thread in 0..2u64 {
                let (db, table, acknowledged, begun) = (db.clone(), &table, &acknowledged, &begun);
                scope.spawn(move || {
                    for i in 0.. {
                        let key = (thread << 32 | i).to_be_bytes();
                        match db.put(table, &key, &[1; 700]) {
                            Ok(()) => acknowledged.fetch_add(1, Ordering::SeqCst),
                            Err(error) => return assert_eq!(error.kind(), ErrorKind::Closed, "{error}"),
                        };
                        begun.store(true, Ordering::SeqCst);
                    }
                });
            }
            let (reader, table) = (db.clone(), &table);
            scope.spawn(move || {
                while let Ok(snapshot) = reader.snapshot() {
                    snapshot.range(table, ..).unwrap().for_each(|record| drop(record.unwrap()));
                }
            });
            let checkpointer = db.clone();
            scope.spawn(move || while checkpointer.checkpoint().is_ok() {});
            while !begun.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            std::thread::sleep(Duration::from_micros(500 * round));
            let closer = db.clone();
            let closing = scope.spawn(move || closer.close());
            let both = (db.close(), closing.join().unwrap());
            both.0.and(both.1)
        })?;
        let db = small().create_in(dir)?;
        let table = db.ensure_table("t")?;
        assert_eq!(db.snapshot()?.range(&table, ..)?.count() as u64, acknowledged.into_inner());
        db.check()?;
    }
    Ok(())
}

/// A thread that closes while another one does returns once the database is closed.
#[test]
fn of_two_threads_that_close_none_returns_before_the_end() -> Outcome {
    for _ in 0..50 {
        let dir = tempfile::tempdir().unwrap();
        let db = small().create(dir.path())?;
        let table = db.ensure_table("t")?;
        db.put(&table, b"k", b"v")?;
        let begin = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            let close = || {
                begin.wait();
                let closed = db.close();
                // Nobody else has it open: what is locked is locked by the other thread.
                let opened = small().read_only(true).open(dir.path()).map(drop);
                closed.and(opened)
            };
            let other = scope.spawn(close);
            let both = (close(), other.join().unwrap());
            both.0.and(both.1)
        })?;
    }
    Ok(())
}

#[test]
fn cursors_refuse_to_write_where_they_stand_on_nothing() -> Outcome {
    let db = memory().in_memory()?;
    let table = db.ensure_table("t")?;
    db.put(&table, b"k", b"v")?;
    let mut tx = db.begin()?;
    let mut cursor = tx.cursor_mut(&table, ..)?;
    refused(cursor.put(b"x"), ErrorKind::Invalid);
    refused(cursor.delete(), ErrorKind::Invalid);
    assert_eq!(cursor.next()?, Some((&b"k"[..], &b"v"[..])));
    cursor.put(b"w")?;
    assert_eq!(cursor.current(), Some((&b"k"[..], &b"w"[..])));
    cursor.delete()?;
    refused(cursor.delete(), ErrorKind::Invalid);
    assert_eq!(cursor.next()?, None);
    Ok(())
}

#[test]
fn a_transaction_in_which_nothing_happened() -> Outcome {
    let db = memory().in_memory()?;
    let table = db.ensure_table("t")?;
    let before = db.stats()?.last_commit;
    db.begin()?.commit()?;
    let tx = db.begin()?;
    tx.get(&table, b"k")?;
    tx.commit()?;
    db.begin()?.abort();
    assert_eq!(db.stats()?.last_commit, before);
    Ok(())
}

/// An error in the closure is the caller's: it is handed out, and nothing of the attempt is left.
#[test]
fn write_hands_out_errors_and_retries_conflicts() -> Outcome {
    let db = memory().isolation(Isolation::Serializable).in_memory()?;
    let table = db.ensure_table("t")?;
    let error = db.write(|tx| {
        tx.put(&table, b"k", b"v")?;
        tx.insert(&table, b"k", b"w")
    });
    refused(error, ErrorKind::Exists);
    assert_eq!(db.get(&table, b"k")?, None);
    let db = Arc::new(db);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let (db, table) = (Arc::clone(&db), &table);
            scope.spawn(move || {
                for _ in 0..50 {
                    let add = |tx: &mut pando::Transaction| {
                        let sum = tx
                            .get(table, b"sum")?
                            .map_or(0, |bytes| u64::from_be_bytes(bytes.try_into().unwrap()));
                        tx.put(table, b"sum", &(sum + 1).to_be_bytes())
                    };
                    db.write(add).unwrap();
                }
            });
        }
    });
    assert_eq!(db.get(&table, b"sum")?, Some(200u64.to_be_bytes().to_vec()));
    Ok(())
}

#[test]
fn a_closure_that_waits_for_another_writer_gets_its_conflict() -> Outcome {
    let db = memory().in_memory()?;
    let table = db.ensure_table("t")?;
    let conflict = db.write(|tx| {
        tx.get(&table, "theirs")?;
        tx.put(&table, "mine", "")?;
        std::thread::scope(|scope| scope.spawn(|| db.put(&table, "theirs", "new")).join().unwrap())
    });
    refused(conflict, ErrorKind::Conflict);
    Ok(())
}

/// Keys and values are whatever has bytes: literals, strings, vectors, arrays and references to them.
#[test]
fn keys_and_values_are_anything_with_bytes() -> pando::Result<()> {
    let db = Database::builder().in_memory()?;
    let table = db.ensure_table("t")?;
    let id = 7_u32.to_be_bytes();
    db.write(|tx| {
        tx.put(&table, "literal", String::from("owned"))?;
        tx.put(&table, id, vec![1, 2])?;
        tx.insert(&table, &id[..2], [3; 3])
    })?;
    db.put(&table, String::from("string"), b"bytes")?;
    let snapshot = db.snapshot()?;
    assert_eq!(snapshot.get(&table, b"literal")?.as_deref(), Some(&b"owned"[..]));
    assert_eq!(snapshot.get(&table, id)?, Some(vec![1, 2]));
    assert_eq!(snapshot.get(&table, vec![0, 0])?, Some(vec![3; 3]));
    assert_eq!(snapshot.prefix(&table, "str")?.count(), 1);
    Ok(())
}

/// A program that has to know what it lost against asks for the cause and parses no message.
#[test]
fn a_conflict_carries_its_table_and_key() -> pando::Result<()> {
    let db = Database::builder().in_memory()?;
    let table = db.ensure_table("accounts")?;
    let mut tx = db.begin()?;
    tx.get(&table, "alice")?;
    tx.put(&table, "bob", "1")?;
    db.put(&table, "alice", "2")?;
    let error = tx.commit().unwrap_err();
    let conflict = Conflict::in_error(&error).expect("the error has a cause");
    assert_eq!((conflict.table(), conflict.key()), (Some("accounts"), Some(&b"alice"[..])));

    let mut tx = db.begin()?;
    tx.put(&table, "bob", "1")?;
    db.write(|tx| tx.drop_table(&table))?;
    let error = tx.commit().unwrap_err();
    let conflict = Conflict::in_error(&error).expect("the error has a cause");
    assert_eq!((conflict.table(), conflict.key()), (Some("accounts"), None));
    Ok(())
}
