//! Tables: created, looked up, renamed and dropped, on every subject alike.

use crate::subject::{Subject, on_every_subject};
use pando::{ErrorKind, ReadTables, Table, TableOptions, WriteTables};

on_every_subject!(
    tables_come_and_go,
    stale_handles,
    two_creators_conflict,
    a_drop_conflicts_with_a_write,
    names_are_checked,
    handles_of_another_database,
);

fn create(subject: &impl Subject, name: &str) -> Table {
    subject.write(|tx| tx.create_table(name, &TableOptions::default())).unwrap()
}

fn tables_come_and_go(subject: &impl Subject) {
    let first = create(subject, "first");
    let mut tx = subject.begin();
    let error = tx.create_table("first", &TableOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exists);
    let second = tx.ensure_table("second").unwrap();
    assert_eq!(tx.ensure_table("second").unwrap().id(), second.id());
    assert!(second.id() > first.id());
    tx.put(&second, "k", "v").unwrap();
    assert_eq!(tx.get(&second, "k").unwrap().unwrap(), b"v");
    assert_eq!(tx.range(&second, ..).unwrap().count(), 1);
    assert!(subject.snapshot().table("second").unwrap().is_none());
    subject.commit(tx).unwrap();
    assert_eq!(subject.snapshot().get(&second, "k").unwrap().unwrap(), b"v");

    // Dropped and created in one transaction, under another id, and empty.
    let again = subject
        .write(|tx| {
            tx.drop_table(&second)?;
            assert!(tx.table("second")?.is_none());
            let again = tx.create_table("second", &TableOptions::default())?;
            assert_eq!(tx.range(&again, ..)?.count(), 0);
            tx.put(&again, "n", "")?;
            Ok(again)
        })
        .unwrap();
    assert!(again.id() > second.id(), "ids are never used again");
    assert_eq!(subject.snapshot().range(&again, ..).unwrap().count(), 1);
}

fn stale_handles(subject: &impl Subject) {
    let old = create(subject, "old");
    subject.write(|tx| tx.put(&old, "k", "v")).unwrap();
    let new = subject.write(|tx| tx.rename_table(&old, "new")).unwrap();
    assert_eq!(new.id(), old.id());
    let snapshot = subject.snapshot();
    assert_eq!(snapshot.get(&new, "k").unwrap().unwrap(), b"v");
    assert_eq!(snapshot.get(&old, "k").unwrap_err().kind(), ErrorKind::Missing);
    assert!(snapshot.cursor(&old, ..).is_err_and(|error| error.kind() == ErrorKind::Missing));
    let stale = subject.write(|tx| tx.put(&old, "k", "wrong"));
    assert_eq!(stale.unwrap_err().kind(), ErrorKind::Missing);
    let other = create(subject, "old");
    let stale = subject.write(|tx| tx.delete_range(&old, ..));
    assert_eq!(stale.unwrap_err().kind(), ErrorKind::Missing, "the name belongs to another table");
    let taken = subject.write(|tx| tx.rename_table(&new, "old"));
    assert_eq!(taken.unwrap_err().kind(), ErrorKind::Exists);
    subject.write(|tx| tx.drop_table(&other)).unwrap();
    assert_eq!(subject.snapshot().get(&new, "k").unwrap().unwrap(), b"v");
    subject.write(|tx| tx.drop_table(&new)).unwrap();
    let stale = subject.write(|tx| tx.put(&new, "k", "wrong"));
    assert_eq!(stale.unwrap_err().kind(), ErrorKind::Missing);
    // Within the transaction that renames.
    let t = create(subject, "t");
    let mut tx = subject.begin();
    let renamed = tx.rename_table(&t, "u").unwrap();
    assert_eq!(tx.put(&t, "k", "").unwrap_err().kind(), ErrorKind::Missing);
    tx.put(&renamed, "k", "u").unwrap();
    subject.commit(tx).unwrap();
    assert_eq!(subject.snapshot().get(&renamed, "k").unwrap().unwrap(), b"u");
}

fn two_creators_conflict(subject: &impl Subject) {
    let (mut one, mut other) = (subject.begin(), subject.begin());
    let table = one.ensure_table("t").unwrap();
    let lost = other.ensure_table("t").unwrap();
    one.put(&table, "k", "one").unwrap();
    other.put(&lost, "k", "other").unwrap();
    subject.commit(one).unwrap();
    assert_eq!(subject.commit(other).unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(subject.snapshot().get(&table, "k").unwrap().unwrap(), b"one");
}

fn a_drop_conflicts_with_a_write(subject: &impl Subject) {
    let t = create(subject, "t");
    let (mut writer, mut blind) = (subject.begin(), subject.begin());
    assert!(writer.get(&t, "k").unwrap().is_none());
    writer.put(&t, "k", "late").unwrap();
    blind.put(&t, "b", "late").unwrap();
    subject.write(|tx| tx.drop_table(&t)).unwrap();
    assert_eq!(subject.commit(writer).unwrap_err().kind(), ErrorKind::Conflict);
    // The native engine has validated the table at the put, and a remote store does so at the commit.
    let refused = subject.commit(blind).unwrap_err().kind();
    assert!(matches!(refused, ErrorKind::Conflict | ErrorKind::Missing), "{refused:?}");
    assert!(subject.snapshot().table("t").unwrap().is_none());
}

fn names_are_checked(subject: &impl Subject) {
    let mut tx = subject.begin();
    let longest = "n".repeat(255);
    tx.create_table(&longest, &TableOptions::default()).unwrap();
    for bad in ["", &"n".repeat(256)] {
        assert_eq!(tx.table(bad).unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(tx.create_table(bad, &TableOptions::default()).unwrap_err().kind(), ErrorKind::Invalid);
    }
    subject.commit(tx).unwrap();
    assert!(subject.snapshot().table(&longest).unwrap().is_some());
}

fn handles_of_another_database(subject: &impl Subject) {
    let other = pando::Database::builder().in_memory().unwrap().ensure_table("t").unwrap();
    let own = create(subject, "t");
    assert_eq!(own.id(), other.id(), "only the database differs");
    assert_eq!(subject.snapshot().get(&other, "k").unwrap_err().kind(), ErrorKind::Invalid);
    let mut tx = subject.begin();
    assert_eq!(tx.put(&other, "k", "").unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(tx.get(&other, "k").unwrap_err().kind(), ErrorKind::Invalid);
    // Not either after the table of the same name was used.
    let snapshot = subject.snapshot();
    assert_eq!((snapshot.get(&own, "k").unwrap(), tx.get(&own, "k").unwrap()), (None, None));
    assert_eq!(snapshot.get(&other, "k").unwrap_err().kind(), ErrorKind::Invalid);
    assert!(snapshot.cursor(&other, ..).is_err_and(|error| error.kind() == ErrorKind::Invalid));
    assert_eq!(tx.put(&other, "k", "").unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(tx.get(&other, "k").unwrap_err().kind(), ErrorKind::Invalid);
}
