//! The library from outside: what a first user tries.

use pando::{Database, Durability, ErrorKind, Isolation, TransactionOptions};
use std::thread;
use std::time::{Duration, Instant};

type Outcome = pando::Result<()>;

fn memory() -> Database {
    Database::builder().page_bytes(4096).memory_bytes(8 << 20).in_memory().unwrap()
}

fn keys(db: &Database, table: &pando::Table) -> Vec<Vec<u8>> {
    db.snapshot().unwrap().range(table, ..).unwrap().map(|record| record.unwrap().0).collect()
}

#[test]
fn what_was_committed_is_there_after_reopening() -> Outcome {
    let dir = tempfile::tempdir().unwrap();
    {
        let db = Database::create(dir.path())?;
        let table = db.ensure_table("t")?;
        for i in 0..1000u32 {
            db.write(|tx| tx.put(&table, &i.to_be_bytes(), &[i as u8; 100]))?;
            if i == 500 {
                db.checkpoint()?;
            }
        }
    }
    let db = Database::open(dir.path())?;
    let table = db.table("t")?.expect("it was created");
    assert_eq!(keys(&db, &table).len(), 1000);
    assert_eq!(db.get(&table, &999u32.to_be_bytes())?, Some(vec![999u32 as u8; 100]));
    db.check()?;
    Ok(())
}

#[test]
fn a_snapshot_stays_as_it_was_over_seals_and_checkpoints() -> Outcome {
    let db = memory();
    let table = db.ensure_table("t")?;
    db.put(&table, b"k", b"1")?;
    let before = db.snapshot()?;
    db.put(&table, b"k", b"2")?;
    db.checkpoint()?;
    let between = db.snapshot()?;
    db.delete(&table, b"k")?;
    db.checkpoint()?;
    assert_eq!(before.get(&table, b"k")?, Some(b"1".to_vec()));
    assert_eq!(before.try_clone()?.get(&table, b"k")?, Some(b"1".to_vec()));
    assert_eq!(between.get(&table, b"k")?, Some(b"2".to_vec()));
    assert_eq!(db.get(&table, b"k")?, None);
    Ok(())
}

#[test]
fn ranges_go_both_ways_and_meet() -> Outcome {
    let db = memory();
    let table = db.ensure_table("t")?;
    db.write(|tx| (0..100u8).try_for_each(|i| tx.put(&table, &[i], &[i])))?;
    db.checkpoint()?;
    db.write(|tx| {
        tx.delete(&table, &[50])?;
        tx.put(&table, &[200], &[200])
    })?;
    let snapshot = db.snapshot()?;
    let forward: Vec<_> = snapshot.range(&table, ..)?.map(|record| record.unwrap().0[0]).collect();
    let mut backward: Vec<_> = snapshot.range(&table, ..)?.rev().map(|record| record.unwrap().0[0]).collect();
    backward.reverse();
    assert_eq!(forward, backward);
    assert_eq!(forward, (0..100).filter(|i| *i != 50).chain([200]).collect::<Vec<u8>>());
    let mut both = snapshot.range(&table, [10u8]..=[14u8])?;
    let mut seen = Vec::new();
    while let Some(record) = both.next() {
        seen.push(record?.0[0]);
        seen.extend(both.next_back().map(|record| record.unwrap().0[0]));
    }
    assert_eq!(seen, [10, 14, 11, 13, 12]);
    Ok(())
}

#[test]
fn phantoms_and_write_skew_are_refused_under_serializable_only() -> Outcome {
    for (isolation, refused) in [(Isolation::Serializable, true), (Isolation::Snapshot, false)] {
        let db = memory();
        let table = db.ensure_table("t")?;
        db.write(|tx| (0..10u8).try_for_each(|i| tx.put(&table, &[i], b"on")))?;
        let options = TransactionOptions { isolation, ..Default::default() };
        let (mut a, mut b) = (db.begin_with(&options)?, db.begin_with(&options)?);
        assert_eq!(a.range(&table, ..)?.count(), 10);
        assert_eq!(b.range(&table, ..)?.count(), 10);
        a.put(&table, &[100], b"a")?;
        b.put(&table, &[101], b"b")?;
        a.commit()?;
        let second = b.commit();
        assert_eq!(second.is_err(), refused);
        if let Err(error) = second {
            assert_eq!(error.kind(), ErrorKind::Conflict);
            assert!(error.message().contains("table \"t\" at key \"d\""), "{error}");
        }
    }
    Ok(())
}

#[test]
fn a_dropped_table_is_gone_and_a_writer_to_it_conflicts() -> Outcome {
    let db = memory();
    let table = db.ensure_table("t")?;
    db.put(&table, b"k", b"v")?;
    db.checkpoint()?;
    let old = db.snapshot()?;
    let mut writer = db.begin()?;
    writer.put(&table, b"other", b"v")?;
    db.drop_table("t")?;
    assert_eq!(writer.commit().unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(db.get(&table, b"k").unwrap_err().kind(), ErrorKind::Missing);
    assert_eq!(old.get(&table, b"k")?, Some(b"v".to_vec()));
    let again = db.ensure_table("t")?;
    assert_eq!(db.get(&again, b"k")?, None);
    db.checkpoint()?;
    drop(old);
    db.checkpoint()?;
    db.check()?;
    Ok(())
}

#[test]
fn large_values_come_back_whole() -> Outcome {
    let db = memory();
    let table = db.ensure_table("t")?;
    let large: Vec<u8> = (0..3_000_000u32).map(|i| (i * 7) as u8).collect();
    db.put(&table, b"large", &large)?;
    assert_eq!(db.get(&table, b"large")?.as_ref(), Some(&large));
    db.checkpoint()?;
    assert_eq!(db.get(&table, b"large")?.as_ref(), Some(&large));
    assert_eq!(db.snapshot()?.get_with(&table, b"large", |value| value == large)?, Some(true));
    let report = db.check()?;
    assert_eq!(report.large_values, 1);
    Ok(())
}

#[test]
fn limits_are_errors_and_the_transaction_goes_on() -> Outcome {
    let db = memory();
    let table = db.ensure_table("t")?;
    let mut tx = db.begin()?;
    let too_long = vec![0; pando::limits::max_key_bytes(4096) + 1];
    assert_eq!(tx.put(&table, &too_long, b"").unwrap_err().kind(), ErrorKind::Invalid);
    tx.put(&table, &too_long[1..], b"")?;
    tx.put(&table, b"", b"the empty key")?;
    tx.commit()?;
    db.checkpoint()?;
    assert_eq!(db.get(&table, b"")?, Some(b"the empty key".to_vec()));
    Ok(())
}

#[test]
fn every_durability_is_visible_at_once_and_mixed() -> Outcome {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::create(dir.path())?;
    let table = db.ensure_table("t")?;
    for (i, durability) in
        [Durability::Buffered, Durability::Sync, Durability::Lazy, Durability::Buffered].iter().enumerate()
    {
        let mut tx = db.begin_with(&TransactionOptions { durability: *durability, ..Default::default() })?;
        tx.put(&table, &[i as u8], b"")?;
        tx.commit()?;
        assert_eq!(keys(&db, &table).len(), i + 1);
    }
    Ok(())
}

#[test]
fn a_second_opener_is_told_who_has_it() -> Outcome {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::create(dir.path())?;
    let error = Database::open(dir.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked);
    assert!(error.to_string().contains(&std::process::id().to_string()), "{error}");
    db.close()?;
    db.close()?;
    Database::open(dir.path())?;
    Ok(())
}

#[test]
fn an_empty_database_is_small() -> Outcome {
    let dir = tempfile::tempdir().unwrap();
    Database::create(dir.path())?.close()?;
    let bytes: u64 =
        std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
    assert!(bytes <= 64 << 10, "{bytes} bytes");
    Ok(())
}

#[test]
fn a_commit_inside_a_gated_closure_does_not_wait_for_its_own_gate() -> Outcome {
    let db = memory();
    let table = db.ensure_table("t")?;
    db.put(&table, b"k", b"0")?;
    let mut attempts = 0;
    db.write(|tx| {
        attempts += 1;
        let seen = tx.get(&table, b"k")?;
        assert!(attempts <= 7 || db.would_wait(Durability::Buffered, 1), "the gate holds others back");
        // Another transaction gets in between, also when this thread holds the gate.
        if attempts <= 9 {
            db.write(|other| other.put(&table, b"k", &[attempts]))?;
        }
        tx.put(&table, b"copy", &seen.unwrap_or_default())
    })?;
    assert_eq!(attempts, 10);
    assert_eq!(db.get(&table, b"copy")?, Some(vec![9]));
    Ok(())
}

#[test]
fn a_hold_keeps_all_other_commits_waiting_until_it_is_dropped() -> Outcome {
    let db = memory();
    let table = db.ensure_table("t")?;
    let hold = db.try_hold_commits().expect("nobody has it");
    assert!(db.try_hold_commits().is_none());
    thread::scope(|scope| {
        let other = scope.spawn(|| db.put(&table, b"k", b"other"));
        let retry = scope.spawn(|| db.write(|tx| tx.put(&table, b"r", b"")));
        thread::sleep(Duration::from_millis(30));
        assert!(!other.is_finished() && !retry.is_finished(), "they wait at the gate");
        let mut tx = db.begin()?;
        assert_eq!(tx.get(&table, b"k")?, None);
        tx.put(&table, b"k", b"mine")?;
        let number = hold.commit(tx)?;
        assert_eq!(db.begin()?.commit_number(), number);
        drop(hold);
        other.join().unwrap()?;
        retry.join().unwrap()
    })?;
    assert_eq!(db.get(&table, b"k")?, Some(b"other".to_vec()));
    let hold = db.try_hold_commits().expect("it was given back");
    let foreign = memory().begin()?;
    assert_eq!(hold.commit(foreign).unwrap_err().kind(), ErrorKind::Invalid);
    Ok(())
}

#[test]
fn closing_ends_a_wait_for_a_hold_that_is_never_dropped() -> Outcome {
    let db = memory();
    let table = db.ensure_table("t")?;
    let hold = db.try_hold_commits().expect("no other hold exists");
    thread::scope(|scope| {
        let waits = [
            scope.spawn(|| db.put(&table, b"k", b"")),
            scope.spawn(|| db.write(|tx| tx.put(&table, b"r", b""))),
        ];
        thread::sleep(Duration::from_millis(30));
        assert!(waits.iter().all(|wait| !wait.is_finished()), "they wait at the gate");
        db.close()?;
        for wait in waits {
            assert_eq!(wait.join().unwrap().unwrap_err().kind(), ErrorKind::Closed);
        }
        Outcome::Ok(())
    })?;
    drop(hold);
    Ok(())
}

#[test]
fn the_last_key_is_looked_up_without_being_read() -> Outcome {
    let db = memory();
    let table = db.ensure_table("t")?;
    db.put(&table, b"b", b"")?;
    let (mut one, mut two) = (db.begin()?, db.begin()?);
    assert_eq!(one.last_key_unread(&table)?, Some(b"b".to_vec()));
    two.put(&table, b"c", b"")?;
    two.delete(&table, b"c")?;
    assert_eq!(two.last_key_unread(&table)?, Some(b"b".to_vec()));
    one.put(&table, b"d", b"")?;
    two.put(&table, b"e", b"")?;
    one.commit()?;
    two.commit()?;
    // A cursor that looks for the end is a conflict.
    let (mut one, mut two) = (db.begin()?, db.begin()?);
    assert_eq!(two.cursor(&table, ..)?.prev()?.map(|(key, _)| key.to_vec()), Some(b"e".to_vec()));
    one.put(&table, b"f", b"")?;
    two.put(&table, b"g", b"")?;
    one.commit()?;
    assert_eq!(two.commit().unwrap_err().kind(), ErrorKind::Conflict);
    Ok(())
}

#[test]
fn lazy_commits_wait_for_one_sync_together() -> Outcome {
    let dir = tempfile::tempdir().unwrap();
    let interval = Duration::from_millis(400);
    let db = Database::builder().lazy_interval(interval).durability(Durability::Lazy).create(dir.path())?;
    let table = db.ensure_table("t")?;
    db.sync()?;
    let (before, begun) = (db.stats()?.log_flushes, Instant::now());
    for i in 0..100u8 {
        db.put(&table, &[i], b"")?;
        std::thread::sleep(Duration::from_millis(1));
    }
    let (flushes, took) = (db.stats()?.log_flushes - before, begun.elapsed());
    let intervals = took.as_millis().div_ceil(interval.as_millis()) as u64;
    assert!(flushes <= 1 + intervals, "{flushes} flushes for 100 lazy commits in {took:?}");
    while db.stats()?.log_flushes == before {
        assert!(begun.elapsed() < took + Duration::from_secs(20), "the last commits were never synced");
        std::thread::sleep(interval / 10);
    }
    Ok(())
}

/// A rename keeps the records, conflicts as a drop does, and leaves no handle that means another table.
#[test]
fn a_table_is_renamed() -> Outcome {
    let db = Database::builder().in_memory()?;
    let (a, b) = (db.ensure_table("a")?, db.ensure_table("b")?);
    db.put(&a, b"k", b"of a")?;
    db.put(&b, b"k", b"of b")?;
    let kind = |result: Outcome| result.unwrap_err().kind();
    assert_eq!(kind(db.rename_table("a", "b").map(drop)), ErrorKind::Exists);
    assert_eq!(kind(db.rename_table("c", "d").map(drop)), ErrorKind::Missing);
    let before = db.snapshot()?;
    let mut other = db.begin()?;
    other.put(&a, b"k", b"blind")?;
    // They change names with each other.
    let (new_a, new_b) = db.write(|tx| {
        let aside = tx.rename_table(&a, "aside")?;
        assert_eq!(tx.get(&aside, b"k")?.as_deref(), Some(&b"of a"[..]));
        assert_eq!(kind(tx.get(&a, b"k").map(drop)), ErrorKind::Missing, "the old handle's name is gone");
        assert_eq!(tx.drop_table(&a).unwrap_err().kind(), ErrorKind::Missing);
        let new_a = tx.rename_table(&b, "a")?;
        tx.put(&new_a, b"more", b"")?;
        Ok((new_a, tx.rename_table(&aside, "b")?))
    })?;
    assert_eq!(kind(other.commit().map(drop)), ErrorKind::Conflict);
    assert_eq!(db.get(&new_a, b"k")?.as_deref(), Some(&b"of b"[..]));
    assert_eq!(db.get(&new_b, b"k")?.as_deref(), Some(&b"of a"[..]));
    assert_eq!((new_a.id(), new_b.id()), (b.id(), a.id()));
    assert_eq!(kind(db.get(&a, b"k").map(drop)), ErrorKind::Missing);
    assert_eq!(before.get(&a, b"k")?.as_deref(), Some(&b"of a"[..]), "what was open sees the old names");
    db.checkpoint()?;
    assert_eq!(db.tables()?.iter().map(|table| table.name().to_owned()).collect::<Vec<_>>(), ["a", "b"]);
    let mut undone = db.begin()?;
    let savepoint = undone.savepoint();
    let gone = undone.rename_table(&new_a, "c")?;
    undone.rollback_to(&savepoint)?;
    assert!(undone.get(&new_a, b"k")?.is_some());
    assert_eq!(undone.drop_table(&gone).unwrap_err().kind(), ErrorKind::Missing);
    Ok(())
}

/// Records that a cursor runs over count as read, in both directions.
#[test]
fn what_a_cursor_runs_over_is_a_conflict_if_others_change_it() -> Outcome {
    for (forward, is_merged) in [(true, false), (false, false), (true, true), (false, true)] {
        let db = memory();
        let table = db.ensure_table("t")?;
        db.write(|tx| (0..100_u8).try_for_each(|key| tx.put(&table, [key], [key])))?;
        if is_merged {
            db.checkpoint()?;
        }
        for (changed, conflicts) in [(if forward { 5_u8 } else { 95 }, true), (50, false)] {
            let mut tx = db.begin()?;
            let mut cursor = tx.cursor(&table, ..)?;
            let shown = match forward {
                true => cursor.next()?.is_some() && cursor.run_on(9, |_, _, _| {})? > 2,
                false => cursor.prev()?.is_some() && cursor.run_back(9, |_, _, _| {})? > 2,
            };
            assert!(shown, "forward {forward}: the records are run over");
            drop(cursor);
            db.put(&table, [changed], b"changed")?;
            tx.put(&table, [200], b"own")?;
            let committed = tx.commit().map(drop);
            assert_eq!(committed.is_err(), conflicts, "forward {forward}, {changed}: {committed:?}");
        }
    }
    Ok(())
}
