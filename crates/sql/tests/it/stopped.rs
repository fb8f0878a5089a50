//! Statements that are stopped: by a callback that is asked, or interrupted from elsewhere. Nothing of them is left.

use crate::support::typed::{Connection, Sql};
use pando_sql::{Confines, Value};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

const ROWS: i64 = 3500;

/// A table of 3,500 rows.
fn filled() -> (pando::Database, Sql) {
    let db = pando::Database::builder().in_memory().unwrap();
    let sql = Sql::new(db.clone());
    let fill = format!(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, k TEXT);
         CREATE TABLE keyed(k TEXT PRIMARY KEY, a INTEGER);
         INSERT INTO t WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT {ROWS})
             SELECT i, 'a' || i % 10, 'k' || i FROM n;
         INSERT INTO keyed SELECT k, id FROM t;"
    );
    sql.connect().unwrap().execute_batch(&fill).unwrap();
    (db, sql)
}

/// Everything that there is, as text.
fn state(sql: &Sql) -> String {
    let connection = sql.connect().unwrap();
    let tables = connection.tables().unwrap();
    let rows = ["SELECT * FROM t ORDER BY id", "SELECT * FROM keyed ORDER BY k"]
        .map(|query| connection.query(query, &[]).unwrap());
    format!("{tables:?}\n{rows:?}")
}

/// Statements that take a while, each in words of its own.
const LONG: [&str; 11] = [
    "CREATE INDEX by_a ON t(a)",
    "CREATE UNIQUE INDEX by_k ON t(k)",
    "CREATE TABLE copy AS SELECT * FROM t",
    "DELETE FROM t",
    "DELETE FROM keyed WHERE a > 5",
    "UPDATE t SET a = a || 'x'",
    "UPDATE keyed SET k = k || 'x'",
    "INSERT INTO t SELECT id + 10000, a, k FROM t",
    "INSERT INTO t(a, k) SELECT a, k FROM t WHERE true ON CONFLICT DO NOTHING",
    "INSERT INTO t(a, k) SELECT a, k FROM t RETURNING id",
    "DELETE FROM t RETURNING id",
];

/// Runs a statement, stopped when it asks for the `at`th time: `true` if it was, and nothing is left of it.
fn stopped_at(connection: &mut Connection, asked: &Arc<AtomicU32>, statement: &str, at: u32) -> bool {
    asked.store(at, Ordering::SeqCst);
    let ran = connection.execute(statement, &[]);
    let left = asked.swap(u32::MAX, Ordering::SeqCst);
    match ran {
        Ok(_) => assert!(left > 0, "{statement}: it went on when it was told to stop"),
        Err(error) => assert!(error.is_interrupted() && left == 0, "{statement}: {error}"),
    }
    left == 0
}

#[test]
fn nothing_is_left_of_what_was_stopped() {
    let (db, sql) = filled();
    let mut connection = sql.connect().unwrap();
    let asked = Arc::new(AtomicU32::new(u32::MAX));
    let count = Arc::clone(&asked);
    let stop = move || match count.load(Ordering::SeqCst) {
        u32::MAX => false,
        0 => true,
        left => {
            count.store(left - 1, Ordering::SeqCst);
            left == 1
        }
    };
    connection.confine(Confines::default(), stop).unwrap();
    let before = state(&sql);
    for statement in LONG {
        for at in [1, 2, 3] {
            assert!(stopped_at(&mut connection, &asked, statement, at), "{statement}: asked {at} times");
            assert_eq!(state(&sql), before, "{statement}, at {at}");
            assert_eq!(rows::unfinished_indexes(&db.snapshot().unwrap()).unwrap(), []);
        }
        // Within a transaction, which goes on.
        connection.execute_batch("BEGIN; INSERT INTO keyed VALUES('mine', 0)").unwrap();
        assert!(stopped_at(&mut connection, &asked, statement, 1), "{statement}: in a transaction");
        if !connection.is_autocommit() {
            connection.execute("ROLLBACK", &[]).unwrap();
        }
        assert_eq!(state(&sql), before, "{statement}, in a transaction");
    }
    // Told nothing, each does what it says.
    for statement in &LONG[..2] {
        assert!(!stopped_at(&mut connection, &asked, statement, 1000), "{statement}");
    }
    let plan = connection.query("EXPLAIN QUERY PLAN SELECT id FROM t WHERE k = 'k7'", &[]).unwrap();
    assert!(matches!(&plan[0][3], Value::Text(text) if text.contains("by_k")), "{plan:?}");
    assert_eq!(rows::check(&db.snapshot().unwrap(), |_| {}).unwrap().problems, []);
}

#[test]
fn what_is_interrupted_stops_and_what_comes_later_does_not() {
    let (db, sql) = filled();
    let before = state(&sql);
    for statement in [LONG[0], LONG[1], LONG[3], LONG[8]] {
        let mut connection = sql.connect().unwrap();
        // Before it begins: of no effect, as for any statement of SQLite's.
        connection.interrupt_handle().interrupt();
        connection.on_progress(None::<fn() -> bool>).unwrap();
        connection.execute_batch("BEGIN; ROLLBACK").unwrap();
        let interrupt = connection.interrupt_handle();
        let mut asked = 0;
        let interrupts = move || {
            asked += 1;
            if asked == 2 {
                interrupt.interrupt();
            }
            false
        };
        if statement.starts_with("CREATE") {
            connection.on_progress(Some(interrupts)).unwrap();
        } else {
            // Sooner than every 100,000 steps.
            connection.confine(Confines::default(), interrupts).unwrap();
        }
        let error = connection.execute(statement, &[]).unwrap_err();
        assert!(error.is_interrupted(), "{statement}: {error}");
        assert_eq!(state(&sql), before, "{statement}");
        assert_eq!(rows::unfinished_indexes(&db.snapshot().unwrap()).unwrap(), []);
    }
    let connection = sql.connect().unwrap();
    connection.interrupt_handle().interrupt();
    connection.execute(LONG[0], &[]).unwrap();
}

#[test]
fn interrupts_at_any_moment_leave_no_transaction_open() {
    let (_db, sql) = filled();
    let connection = sql.connect().unwrap();
    let (interrupt, is_over) = (connection.interrupt_handle(), AtomicBool::new(false));
    let mut ended = [0; 2];
    let wrong = std::thread::scope(|scope| {
        scope.spawn(|| {
            for pause in (0..40).cycle() {
                if is_over.load(Ordering::SeqCst) {
                    break;
                }
                interrupt.interrupt();
                (0..pause * 5).for_each(|_| std::hint::spin_loop());
                // Time for a statement to end as it should.
                if pause == 39 {
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        });
        let begun = Instant::now();
        let mut wrong = None;
        while wrong.is_none() && begun.elapsed() < Duration::from_secs(2) {
            let done = connection.execute("INSERT INTO t(a, k) SELECT a, k FROM t LIMIT 3 RETURNING id", &[]);
            ended[usize::from(done.is_ok())] += 1;
            let is_known = done.as_ref().err().is_none_or(pando_sql::Error::is_interrupted);
            wrong = (!is_known || !connection.is_autocommit()).then_some(done);
        }
        is_over.store(true, Ordering::SeqCst);
        wrong
    });
    assert!(wrong.is_none(), "{wrong:?} after {ended:?}");
    assert!(ended.iter().all(|&count| count > 0), "{ended:?}");
}

/// Closing a database interrupts its connections, and they do not report that as an interrupt: new ones, those that
/// have run statements before, and those in a transaction.
#[test]
fn statements_of_a_closed_database_report_that_it_is_closed() {
    let (db, sql) = filled();
    let others =
        ["SELECT 1", "SELECT count(*) FROM t", "SELECT a FROM absent", "SELECT", "DROP TABLE t", "BEGIN"];
    let mut used = Vec::new();
    for before in ["", "SELECT count(*) FROM t", "BEGIN", "SELECT count(*) FROM t; BEGIN", "BEGIN; SELECT 1"]
    {
        for statement in LONG.into_iter().chain(others) {
            let connection = sql.connect().unwrap();
            connection.execute_batch(before).unwrap();
            used.push((connection, before, statement));
        }
    }
    db.close().unwrap();
    for (connection, before, statement) in &used {
        let error = connection.execute(statement, &[]).unwrap_err();
        assert_eq!(error.kind(), pando::ErrorKind::Closed, "{before}; {statement}: {error}");
        assert!(error.message().contains("open it again"), "{before}; {statement}: {error}");
    }
    assert_eq!(sql.connect().map(drop).unwrap_err().kind(), pando::ErrorKind::Closed);
}

/// A close at any moment, too, while a transaction begins.
#[test]
fn a_close_at_any_moment_is_not_an_interrupt() {
    for round in 0..500 {
        let db = pando::Database::builder().in_memory().unwrap();
        let sql = Sql::new(db.clone());
        let has_begun = AtomicBool::new(false);
        let error = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !has_begun.load(Ordering::SeqCst) {
                    std::hint::spin_loop();
                }
                (0..round * 20).for_each(|_| std::hint::spin_loop());
                db.close().unwrap();
            });
            loop {
                let connection = sql.connect();
                has_begun.store(true, Ordering::SeqCst);
                let ran =
                    connection.and_then(|connection| connection.execute_batch("BEGIN; SELECT 1; COMMIT"));
                if let Err(error) = ran {
                    break error;
                }
            }
        });
        assert_eq!(error.kind(), pando::ErrorKind::Closed, "{round}: {error:?}");
    }
}
