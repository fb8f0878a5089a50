//! Errors of transactions say what a program needs to go on: whether to repeat or to wait, and where the conflict was.

use crate::support::{database, is_over_a_store, rows};
use pando::any::AnyDatabase;
use pando::{Durability, Isolation};
use pando_sqlite::{Conflict, Connection, Error};
use std::time::{Duration, Instant};

const SCHEMA: &str = "CREATE TABLE stock(id INTEGER PRIMARY KEY, name TEXT UNIQUE, count);
    CREATE TABLE place(shelf TEXT, slot INTEGER, PRIMARY KEY (shelf, slot)) WITHOUT ROWID;
    INSERT INTO stock VALUES (7, 'bolt', 1)";

fn two() -> (AnyDatabase, [Connection; 2]) {
    let db = database();
    let both = [Connection::open(&db).expect("it opens"), Connection::open(&db).expect("it opens")];
    both[0].execute(SCHEMA).expect("it runs");
    (db, both)
}

/// Runs a statement in a transaction of each connection. Returns the conflict of the second commit.
#[track_caller]
fn conflict_of(both: &[Connection; 2], statements: [&str; 2]) -> (Conflict, String) {
    let error = meet(both, statements);
    (error.conflict().expect("it names a place").clone(), error.message)
}

/// Does the same, and returns the error.
#[track_caller]
fn meet(both: &[Connection; 2], statements: [&str; 2]) -> Error {
    for (connection, sql) in both.iter().zip(statements) {
        connection.execute(&format!("BEGIN; {sql}")).expect(sql);
    }
    both[0].execute("COMMIT").expect("nobody was before it");
    let error = both[1].execute("COMMIT").expect_err("the other one was first");
    assert!(error.is_conflict() && !error.is_busy(), "{error}");
    error
}

#[test]
fn a_conflict_names_its_table_index_and_key() {
    if is_over_a_store() {
        return; // A store does not say where a conflict was.
    }
    let (_db, both) = two();
    let update = "UPDATE stock SET count = count + 1 WHERE id = 7";
    let (conflict, message) = conflict_of(&both, [update, update]);
    assert_eq!((conflict.table(), conflict.index(), conflict.rowid()), ("stock", None, Some(7)));
    assert!(message.contains("table stock at rowid 7"), "{message}");

    let inserts = ["INSERT INTO stock VALUES (8, 'nut', 1)", "INSERT INTO stock VALUES (9, 'nut', 1)"];
    let (conflict, _) = conflict_of(&both, inserts);
    assert_eq!(conflict.table(), "stock");
    assert_eq!((conflict.index(), conflict.rowid()), (Some("sqlite_autoindex_stock_1"), None));
    assert!(conflict.key().is_some_and(|key| key.windows(3).any(|bytes| bytes == b"nut")));

    let (conflict, _) = conflict_of(&both, ["INSERT INTO place VALUES ('a', 1)"; 2]);
    assert_eq!((conflict.table(), conflict.index(), conflict.rowid()), ("place", None, None));
}

#[test]
fn a_conflict_is_not_named_by_a_later_error_of_the_same_code() {
    if is_over_a_store() {
        return; // As above.
    }
    let (_db, both) = two();
    let update = "UPDATE stock SET count = count + 1 WHERE id = 7";
    conflict_of(&both, [update, update]);
    // A write beside a running query, after a commit: the same code, and no place.
    let mut query = both[1].prepare("SELECT * FROM stock").expect("it is right");
    assert!(query.step().expect("there is a row"));
    both[0].execute(update).expect("it runs");
    let error = both[1].execute(update).expect_err("there was a commit");
    assert!(error.is_conflict() && error.conflict().is_none(), "{error:?}");
}

#[test]
fn what_is_unique_stays_so_whatever_isolation_is_asked_for() {
    let (db, both) = two();
    for connection in &both {
        let mut options = db.transaction_options();
        (options.isolation, options.durability) = (Isolation::Snapshot, Durability::Buffered);
        connection.set_transaction_options(options);
    }
    meet(&both, ["INSERT INTO stock VALUES (8, 'nut', 1)", "INSERT INTO stock VALUES (9, 'nut', 1)"]);
    assert_eq!(rows(&both[0], "SELECT count(*) FROM stock WHERE name = 'nut'"), ["1"]);
}

#[test]
fn the_durability_that_is_set_is_that_of_commits() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = pando::Database::create(dir.path().join("db")).expect("it opens");
    let connection = Connection::open(&db).expect("it opens");
    connection.execute("CREATE TABLE t(a)").expect("it runs");
    let flushes = |connection: &Connection| {
        let before = db.stats().expect("they are counted").log_flushes_asked;
        connection.execute("INSERT INTO t VALUES (1)").expect("it runs");
        db.stats().expect("they are counted").log_flushes_asked - before
    };
    assert_eq!(flushes(&connection), 1);
    let mut options = db.transaction_options();
    options.durability = Durability::Buffered;
    connection.set_transaction_options(options);
    assert_eq!(flushes(&connection), 0);
}

#[test]
fn a_connection_that_reads_only_writes_nothing_but_temporary_tables_and_never_conflicts() {
    let (_db, [one, two]) = two();
    two.set_read_only(true);
    let error = two.execute("UPDATE stock SET count = 2").expect_err("it reads only");
    assert_eq!(error.code, 8, "{error}");
    assert_eq!(two.execute("CREATE TABLE u(a)").expect_err("it reads only").code, 8);
    two.execute("CREATE TEMP TABLE own(a); INSERT INTO own VALUES (1)").expect("it is the connection's own");

    two.execute("BEGIN").expect("it begins");
    assert_eq!(rows(&two, "SELECT count FROM stock"), ["1"]);
    one.execute("UPDATE stock SET count = 2").expect("it runs");
    assert_eq!(rows(&two, "SELECT count FROM stock"), ["1"], "it is a snapshot");
    two.execute("COMMIT").expect("a snapshot has no conflicts");
    assert_eq!(rows(&two, "SELECT count FROM stock"), ["2"]);

    two.set_read_only(false);
    two.execute("UPDATE stock SET count = 3").expect("it writes again");
    assert_eq!(rows(&one, "SELECT count FROM stock"), ["3"]);
}

#[test]
fn a_busy_timeout_is_waited_for() {
    let (_db, [one, two]) = two();
    one.execute("BEGIN IMMEDIATE").expect("nobody else does");
    let error = two.execute("DELETE FROM stock").expect_err("it is excluded");
    assert!(error.is_busy() && !error.is_conflict());
    two.set_busy_timeout(Duration::from_millis(60));
    let begin = Instant::now();
    assert!(two.execute("DELETE FROM stock").expect_err("it is excluded").is_busy());
    assert!(begin.elapsed() >= Duration::from_millis(50), "{:?}", begin.elapsed());
}
