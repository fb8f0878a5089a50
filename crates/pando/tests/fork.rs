//! A child that was forked with a database open: every call returns an error, and harms nothing.
//! This is a program of its own: the child would have the open files of other tests, and their locks.
#![cfg(unix)]

use pando::{Database, ErrorKind};

fn is_forked<T>(result: pando::Result<T>) -> bool {
    result.is_err_and(|error| error.kind() == ErrorKind::Forked)
}

/// What the child tries; the number of the first thing that went wrong, or 0.
fn in_child(
    db: Database,
    table: &pando::Table,
    snapshot: pando::Snapshot,
    hold: pando::CommitHold,
    [mut tx, placed, held]: [pando::Transaction; 3],
) -> i32 {
    // SAFETY: a call that waits for another thread, which the child does not have, is killed.
    unsafe { libc::alarm(20) };
    let refused = [
        is_forked(db.snapshot()),
        is_forked(db.begin()),
        is_forked(db.get(table, b"k")),
        is_forked(db.put(table, b"k", b"from the child")),
        is_forked(db.write_with(&db.transaction_options(), |tx| tx.delete(table, b"k"))),
        is_forked(db.bulk_load(table, [Ok((b"k", b"from the child"))])),
        is_forked(snapshot.get(table, b"k")),
        is_forked(snapshot.cursor(table, ..)),
        is_forked(tx.put(table, b"k", b"from the child")),
        is_forked(tx.bulk_load(table, [Ok((b"k", b"from the child"))])),
        is_forked(tx.commit()),
        is_forked(
            placed.commit_placed(|_| -> pando::Result<()> { panic!("nothing is committed") }, |(), _| {}),
        ),
        is_forked(hold.commit(held)),
        db.try_hold_commits().is_none(),
        is_forked(db.checkpoint()),
        is_forked(db.sync()),
        is_forked(db.check()),
        is_forked(db.stats()),
        is_forked(db.readers()),
        is_forked(db.close()),
    ];
    drop((db, snapshot, hold));
    let own = || -> pando::Result<bool> {
        let db = Database::builder().in_memory()?;
        let table = db.ensure_table("t")?;
        db.put(&table, b"k", b"v")?;
        Ok(db.get(&table, b"k")?.is_some())
    };
    match refused.iter().position(|refused| !refused) {
        Some(at) => at as i32 + 1,
        None if own().is_ok_and(|found| found) => 0,
        None => 100,
    }
}

#[test]
fn a_forked_child_gets_errors_and_harms_nothing() -> pando::Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::create(dir.path())?;
    let table = db.ensure_table("t")?;
    db.put(&table, b"k", b"v")?;
    let (snapshot, mut tx) = (db.snapshot()?, db.begin()?);
    tx.put(&table, b"tx", b"of the parent")?;
    let (placed, held) = (db.begin()?, db.begin()?);
    // The child's copy of the gate is never opened.
    let hold = db.try_hold_commits().expect("no other hold exists");
    // SAFETY: the child runs on this thread alone, and ends with `_exit`, without running anything of the parent's.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let code = in_child(db, &table, snapshot, hold, [tx, placed, held]);
        // SAFETY: ends the process.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: `status` is a place for one integer.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert!(libc::WIFEXITED(status), "the child was killed: {status}");
    assert_eq!(libc::WEXITSTATUS(status), 0, "the first call that was not refused");
    // The parent has its lock, its log and its transactions.
    drop((placed, held, hold));
    assert_eq!(Database::open(dir.path()).unwrap_err().kind(), ErrorKind::Locked);
    assert_eq!(snapshot.get(&table, b"k")?.as_deref(), Some(&b"v"[..]));
    tx.commit()?;
    db.put(&table, b"after", b"v")?;
    drop(snapshot);
    db.close()?;
    let db = Database::open(dir.path())?;
    assert_eq!(db.get(&db.ensure_table("t")?, b"tx")?.as_deref(), Some(&b"of the parent"[..]));
    db.check().map(drop)
}
