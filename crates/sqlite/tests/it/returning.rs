//! Statements outside of `BEGIN` that write and return rows: a row that a program has seen is committed.

use crate::support::rows;
use pando::Database;
use pando_sqlite::{Connection, Statement, Value, ValueRef};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

const BUSY: i32 = 5;

fn several<const N: usize>(schema: &str) -> (Database, [Connection; N]) {
    let db = Database::builder().in_memory().expect("it opens");
    let connections = std::array::from_fn(|_| Connection::open(&db).expect("it opens"));
    connections[0].execute(schema).expect("it runs");
    (db, connections)
}

/// Adds `meddle()` to the first connection: whenever a statement calls it, the second one runs `sql` first. Returns the
/// number of the calls.
fn meddling(one: &Connection, two: Connection, sql: &'static str) -> Arc<AtomicU32> {
    let calls = Arc::new(AtomicU32::new(0));
    let counting = Arc::clone(&calls);
    let meddle = move |_: &[ValueRef<'_>]| {
        counting.fetch_add(1, Ordering::SeqCst);
        // In the end it is excluded.
        let _changed = two.execute(sql).is_ok();
        Ok(Value::Integer(100))
    };
    one.create_function("meddle", 0, meddle).expect("it is added");
    calls
}

/// Runs a statement as most programs do that expect one row: a step, the value, a reset whose result is not looked at.
fn first(statement: &mut Statement<'_>) -> Option<Value> {
    let is_row = statement.step().unwrap_or_else(|error| panic!("a step: {error}"));
    let value = is_row.then(|| statement.value(0));
    let _ignored = statement.reset();
    value
}

#[test]
fn a_job_is_given_to_one_worker() {
    const JOBS: i64 = 1000;
    let (db, [main]) =
        several("CREATE TABLE jobs(id INTEGER PRIMARY KEY, st); CREATE INDEX by_st ON jobs(st)");
    let fill = format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {JOBS})
         INSERT INTO jobs SELECT i, 'new' FROM n"
    );
    main.execute(&fill).expect("it fills");
    let begun = Barrier::new(4);
    let work = || {
        begun.wait();
        let connection = Connection::open(&db).expect("it opens");
        connection.execute("PRAGMA busy_timeout = 60000").expect("it is set");
        let take = "UPDATE jobs SET st = 'done' WHERE id =
                    (SELECT id FROM jobs WHERE st = 'new' ORDER BY id LIMIT 1) RETURNING id";
        let mut take = connection.prepare(take).expect("it is prepared");
        std::iter::from_fn(|| first(&mut take)).collect::<Vec<_>>()
    };
    let mut taken = thread::scope(|scope| {
        let workers: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("it ends")).collect::<Vec<_>>()
    });
    taken.sort_by_key(|id| if let Value::Integer(id) = id { *id } else { 0 });
    assert!(taken.iter().cloned().eq((1..=JOBS).map(Value::Integer)), "{taken:?}");
}

#[test]
fn others_wait_from_the_first_row_to_the_reset() {
    for sql in [
        "UPDATE t SET b = b + 10 WHERE a = 1 RETURNING b",
        "INSERT INTO t VALUES (1, 10) ON CONFLICT DO UPDATE SET b = b + 10 RETURNING b",
        "DELETE FROM t WHERE a = 1 RETURNING b",
    ] {
        let (_, [one, two]) =
            several("CREATE TABLE t(a INTEGER PRIMARY KEY, b); INSERT INTO t VALUES (1, 0)");
        let mut statement = one.prepare(sql).expect("it is prepared");
        assert!(statement.step().expect("it returns the row"), "{sql}");
        assert_eq!(rows(&two, "SELECT b FROM t"), ["0"], "others read what is committed");
        two.execute("PRAGMA busy_timeout = 100").expect("it is set");
        let begun = Instant::now();
        let error = two.execute("UPDATE t SET b = b + 1 WHERE a = 1").expect_err("it is excluded");
        assert_eq!(error.code, BUSY, "{error}");
        assert!(begun.elapsed() >= Duration::from_millis(90), "{:?}", begun.elapsed());
        two.execute("PRAGMA busy_timeout = 20000").expect("it is set");
        let two = thread::scope(|scope| {
            let waiting = scope.spawn(move || {
                two.execute("UPDATE t SET b = b + 1 WHERE a = 1").expect("it waits for its turn");
                two
            });
            thread::sleep(Duration::from_millis(30));
            statement.reset().expect("it commits");
            waiting.join().expect("it ends")
        });
        let expected: &[&str] = if sql.starts_with("DELETE") { &[] } else { &["11"] };
        assert_eq!(rows(&two, "SELECT b FROM t"), expected, "{sql}");
    }
}

#[test]
fn a_conflict_before_the_first_row_is_repeated() {
    for sql in [
        "UPDATE t SET b = meddle() + b WHERE a = 1 RETURNING b",
        "DELETE FROM t WHERE b < meddle() RETURNING 107",
    ] {
        let (_, [one, two, three]) =
            several("CREATE TABLE t(a INTEGER PRIMARY KEY, b); INSERT INTO t VALUES (1, 0)");
        let calls = meddling(&one, two, "UPDATE t SET b = b + 1 WHERE a = 1");
        let mut statement = one.prepare(sql).expect("it is prepared");
        assert_eq!(first(&mut statement), Some(Value::Integer(107)), "{sql}");
        assert_eq!(calls.load(Ordering::SeqCst), 8, "in the end nobody can interfere");
        let expected: &[&str] = if sql.starts_with("DELETE") { &[] } else { &["107"] };
        assert_eq!(rows(&three, "SELECT b FROM t"), expected, "{sql}");
        three.execute("INSERT INTO t VALUES (7, 7)").expect("the turn has ended");
    }
}

#[test]
fn what_does_not_conflict_runs_once() {
    let (_, [one, two, three]) =
        several("CREATE TABLE t(a INTEGER PRIMARY KEY, b); INSERT INTO t VALUES (1, 0), (2, 0)");
    let calls = meddling(&one, two, "UPDATE t SET b = b + 1 WHERE a = 2");
    let mut statement =
        one.prepare("UPDATE t SET b = meddle() WHERE a = 1 RETURNING b").expect("it is prepared");
    assert_eq!(first(&mut statement), Some(Value::Integer(100)));
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    assert_eq!(rows(&three, "SELECT b FROM t"), ["100", "1"]);
}

/// What FTS has gathered is written by the commit, after the rows, and what `AUTOINCREMENT` has is compared there.
#[test]
fn what_is_written_by_the_commit_meets_no_conflict() {
    let schema =
        "CREATE TABLE t(a INTEGER PRIMARY KEY AUTOINCREMENT, b); CREATE VIRTUAL TABLE words USING fts5(b);
                  CREATE TRIGGER into_words AFTER INSERT ON t WHEN new.b <> 'n' BEGIN
                      INSERT INTO words(rowid, b) VALUES (new.a, new.b);
                  END; INSERT INTO t(b) VALUES ('n')";
    let cases = [
        (
            "'apple'",
            "INSERT INTO words(rowid, b) VALUES (abs(random()), 'pear')",
            "SELECT count(*) > 1 FROM words",
        ),
        ("'n'", "UPDATE sqlite_sequence SET seq = seq + 50", "SELECT max(a) > 50 FROM t"),
    ];
    for (value, meddle, check) in cases {
        let (_, [one, two, three]) = several(schema);
        meddling(&one, two, meddle);
        let sql = format!("INSERT INTO t(b) SELECT {value} WHERE meddle() RETURNING a");
        let mut statement = one.prepare(&sql).expect("it is prepared");
        assert!(statement.step().expect("it returns the row"));
        statement.reset().unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert_eq!(rows(&three, check), ["1"], "{sql}");
        three.execute("INSERT INTO words(words) VALUES ('integrity-check')").expect("the index is right");
    }
}

#[test]
fn within_begin_nobody_is_excluded() {
    let (_, [one, two]) =
        several("CREATE TABLE t(a INTEGER PRIMARY KEY, b); INSERT INTO t VALUES (1, 0), (2, 0)");
    one.execute("BEGIN").expect("it begins");
    let mut statement = one.prepare("UPDATE t SET b = 1 WHERE a = 1 RETURNING b").expect("it is prepared");
    assert!(statement.step().expect("it returns the row"));
    two.execute("UPDATE t SET b = 2 WHERE a = 2").expect("it commits");
    statement.reset().expect("it ends");
    one.execute("COMMIT").expect("they do not conflict");
    // What is repeated with its rows to their end excludes nobody either.
    let run = || {
        let mut statement = one.prepare("UPDATE t SET b = 3 WHERE a = 1 RETURNING b")?;
        assert!(statement.step()?);
        two.execute("UPDATE t SET b = 4 WHERE a = 2").expect("it commits");
        statement.reset()
    };
    one.repeating(run, pando_sqlite::Error::is_conflict).expect("they do not conflict");
    assert_eq!(rows(&two, "SELECT b FROM t"), ["3", "4"]);
}

#[test]
fn a_statement_that_is_left_in_its_rows_can_become_a_transaction() {
    let (_, [one, two]) = several("CREATE TABLE t(a INTEGER PRIMARY KEY, b); INSERT INTO t VALUES (1, 0)");
    let mut statement = one.prepare("UPDATE t SET b = 1 RETURNING b").expect("it is prepared");
    assert!(statement.step().expect("it returns the row"));
    // A second statement writes beside it, and both are committed with the last one.
    one.execute("INSERT INTO t VALUES (2, 2)").expect("it writes");
    assert_eq!(rows(&two, "SELECT a, b FROM t"), ["1|0"]);
    one.execute("BEGIN; INSERT INTO t VALUES (3, 3)").expect("it writes");
    drop(statement);
    assert_eq!(two.execute("INSERT INTO t VALUES (4, 4)").expect_err("it is excluded").code, BUSY);
    one.execute("COMMIT").expect("it commits");
    assert_eq!(rows(&two, "SELECT a, b FROM t"), ["1|1", "2|2", "3|3"]);
    two.execute("INSERT INTO t VALUES (4, 4)").expect("it is its turn");
}
