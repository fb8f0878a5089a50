//! Writers that meet: what waits, what is repeated, and what excludes nobody.

use pando::Database;
use pando_sql::{Confines, Connection, Sql, Value};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// A database with the table `stock`, which SQLite has made, and connections to it.
fn several<const N: usize>() -> (Database, [Connection; N]) {
    let db = Database::builder().in_memory().unwrap();
    let made = pando_sqlite::Connection::open(&db).unwrap();
    made.execute(
        "CREATE TABLE stock(id INTEGER PRIMARY KEY, count); INSERT INTO stock VALUES (1, 0), (2, 0)",
    )
    .unwrap();
    let sql = Sql::new(db.clone());
    (db, std::array::from_fn(|_| sql.connect().unwrap()))
}

fn rows(connection: &Connection, sql: &str) -> Vec<Vec<Value>> {
    connection.query(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// Runs `work` in a thread, and panics if it does not end.
#[track_caller]
fn ends(work: impl FnOnce() + Send + 'static) {
    let (sender, end) = mpsc::channel();
    let running = thread::spawn(move || {
        work();
        sender.send(()).unwrap();
    });
    match end.recv_timeout(Duration::from_secs(20)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it waits for itself"),
        _ => running.join().unwrap(),
    }
}

#[test]
fn a_block_of_ids_is_recorded_beside_a_running_query() {
    let (_, [one, two]) = several();
    one.execute("CREATE TABLE q(id INTEGER PRIMARY KEY AUTOINCREMENT, what)", &[]).unwrap();
    ends(move || {
        let mut select = one.prepare("SELECT id FROM stock").unwrap();
        let mut reading = select.query(&[]).unwrap();
        assert!(reading.next().unwrap().is_some());
        // This excludes other writers.
        one.execute("INSERT INTO q(what) VALUES (1)", &[]).unwrap();
        one.execute_batch("BEGIN; INSERT INTO q VALUES (5000, 2); INSERT INTO q(what) VALUES (3)").unwrap();
        assert!(
            two.execute("INSERT INTO q(what) VALUES (4)", &[]).unwrap_err().kind()
                == pando::ErrorKind::Locked
        );
        one.execute("COMMIT", &[]).unwrap();
        two.execute("INSERT INTO q(what) VALUES (5)", &[]).unwrap();
        let ids = rows(&two, "SELECT id FROM q ORDER BY what");
        assert_eq!(ids[..3], [[1.into()], [5000.into()], [5001.into()]]);
        assert!(two.last_insert_row_id() > 5001);
    });
}

#[test]
fn blocks_of_ids_are_recorded_by_several_writers_that_exclude_one_another() {
    let (db, [first]) = several();
    first.execute("CREATE TABLE q(id INTEGER PRIMARY KEY AUTOINCREMENT, what)", &[]).unwrap();
    let sql = Sql::new(db);
    ends(move || {
        thread::scope(|scope| {
            for beside in [true, true, false, false] {
                let connection = sql.connect().unwrap();
                scope.spawn(move || {
                    for _ in 0..20 {
                        // A conflict is between the query and the write beside it.
                        loop {
                            let mut select = connection.prepare("SELECT id FROM stock").unwrap();
                            let mut reading = select.query(&[]).unwrap();
                            if beside {
                                assert!(reading.next().unwrap().is_some());
                            }
                            let many = "INSERT INTO q(what) WITH RECURSIVE n(i) AS
                                (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 300) SELECT i FROM n";
                            match connection.execute(many, &[]) {
                                Err(error) if beside && error.is_conflict() => {}
                                done => break assert_eq!(done.unwrap(), 300),
                            }
                        }
                    }
                });
            }
        });
    });
    assert_eq!(rows(&first, "SELECT count(*), count(DISTINCT id) FROM q"), [[24000.into(), 24000.into()]]);
}

#[test]
fn a_client_excludes_nobody_however_it_writes_begin() {
    let (db, [one, two]) = several();
    for begin in [
        "BEGIN IMMEDIATE",
        ";;begin/* */exclusive TRANSACTION;",
        "/* */ BEGIN -- x\n IMMEDIATE TRANSACTION --",
    ] {
        one.execute(begin, &[]).unwrap();
        assert!(!one.is_autocommit(), "{begin}");
        one.execute("UPDATE stock SET count = count + 1 WHERE id = 1", &[]).unwrap();
        assert!(db.try_hold_commits().is_some(), "{begin}: it holds up writers");
        two.execute("UPDATE stock SET count = count + 1 WHERE id = 2", &[]).unwrap();
        one.execute("COMMIT", &[]).unwrap();
    }
    assert_eq!(rows(&one, "SELECT count FROM stock"), [[3.into()], [3.into()]]);
    one.execute_batch("CREATE TEMP TABLE trigger(a)").unwrap();
    for second in [
        "DROP TABLE trigger; BEGIN IMMEDIATE",
        "SELECT 1; BEGIN IMMEDIATE",
        "CREATE TEMP TRIGGER x AFTER INSERT ON temp.trigger BEGIN SELECT 1; END; BEGIN IMMEDIATE",
        "CREATE TABLE c AS SELECT 1) LIMIT 0; BEGIN IMMEDIATE; SELECT (1",
        "CREATE TABLE c AS SELECT 1) LIMIT 0 --",
    ] {
        one.execute(second, &[]).unwrap_err();
        assert!(one.is_autocommit() && db.try_hold_commits().is_some(), "{second}");
    }
    assert_eq!(rows(&one, "SELECT count(*) FROM temp.sqlite_schema"), [[1.into()]], "nothing of them ran");
}

#[test]
fn what_a_write_returns_is_committed() {
    let (_, [one, two]) = several();
    let mut update = one.prepare("UPDATE stock SET count = count + 10 RETURNING count").unwrap();
    let mut returned = update.query(&[]).unwrap();
    assert_eq!(returned.next().unwrap().unwrap().get(0), pando_sql::ValueRef::Integer(10));
    assert_eq!(returned.changes(), 2);
    two.execute("UPDATE stock SET count = count + 1 WHERE id = 1", &[]).unwrap();
    // The second row is not fetched.
    drop(returned);
    drop(update);
    assert_eq!(rows(&two, "SELECT count FROM stock"), [[11.into()], [10.into()]]);
    let returning = "UPDATE stock SET count = 5 WHERE id = 2 RETURNING id";
    assert_eq!(one.execute(returning, &[]).unwrap(), 1);
    assert_eq!(rows(&one, "SELECT changes()"), [[1.into()]]);
}

#[test]
fn a_write_that_returns_rows_is_repeated_after_a_conflict() {
    let (db, [first]) = several();
    let sql = Sql::new(db);
    let mut seen = thread::scope(|scope| {
        let threads = [(); 4].map(|()| {
            let connection = sql.connect().unwrap();
            scope.spawn(move || {
                let add = "UPDATE stock SET count = count + 1 WHERE id = 1 RETURNING count";
                (0..50).map(|_| rows(&connection, add).remove(0).remove(0)).collect::<Vec<_>>()
            })
        });
        threads.map(|thread| thread.join().unwrap()).concat()
    });
    seen.sort_by_key(|value| if let Value::Integer(value) = value { *value } else { panic!("{value:?}") });
    assert_eq!(seen, (1..=200).map(Value::Integer).collect::<Vec<_>>());
    assert_eq!(rows(&first, "SELECT count FROM stock WHERE id = 1"), [[200.into()]]);
}

#[test]
fn rows_that_a_write_returns_are_bounded_and_it_is_undone() {
    let (_, [mut one]) = several();
    one.confine(Confines { held_bytes: 10_000, ..Confines::default() }, || false).unwrap();
    let many = "INSERT INTO stock WITH RECURSIVE n(i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM n LIMIT 1000)
        SELECT i, i FROM n RETURNING id";
    for begin in ["", "BEGIN; INSERT INTO stock VALUES (3, 3)"] {
        one.execute_batch(begin).unwrap();
        let before = rows(&one, "SELECT count(*) FROM stock");
        let error = one.query(many, &[]).unwrap_err();
        assert!(error.message().contains("at most 10000 bytes"), "{error}");
        assert_eq!(rows(&one, "SELECT count(*) FROM stock"), before);
    }
    one.execute_batch("COMMIT").unwrap();
    assert_eq!(rows(&one, "SELECT count(*) FROM stock"), [[3.into()]]);
}

#[test]
fn a_write_waits_for_one_beside_a_query() {
    let (_, [one, two]) = several();
    let mut select = one.prepare("SELECT id FROM stock").unwrap();
    let mut reading = select.query(&[]).unwrap();
    assert!(reading.next().unwrap().is_some());
    one.execute_batch("BEGIN; UPDATE stock SET count = 1 WHERE id = 1").unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(move || two.execute("UPDATE stock SET count = 2 WHERE id = 2", &[]));
        thread::sleep(Duration::from_millis(100));
        one.execute("COMMIT", &[]).unwrap();
        assert_eq!(waiting.join().unwrap().unwrap(), 1);
    });
    drop(reading);
    assert_eq!(rows(&one, "SELECT count FROM stock"), [[1.into()], [2.into()]]);
}

#[test]
fn an_interrupt_and_the_time_limit_end_a_wait() {
    let (_, [one, two, mut three]) = several();
    let mut select = one.prepare("SELECT id FROM stock").unwrap();
    let mut reading = select.query(&[]).unwrap();
    assert!(reading.next().unwrap().is_some());
    one.execute_batch("BEGIN; UPDATE stock SET count = 1 WHERE id = 1").unwrap();
    three.on_progress(Some(|| true)).unwrap();
    let write = "UPDATE stock SET count = 2 WHERE id = 2";
    assert!(three.execute(write, &[]).unwrap_err().is_interrupted());
    thread::scope(|scope| {
        let interrupt = two.interrupt_handle();
        let waiting = scope.spawn(move || two.execute(write, &[]));
        // One that comes before the statement is about nothing.
        while !waiting.is_finished() {
            interrupt.interrupt();
            thread::sleep(Duration::from_millis(5));
        }
        assert!(waiting.join().unwrap().unwrap_err().is_interrupted());
    });
}

#[test]
fn an_interrupt_and_the_time_limit_end_a_wait_for_a_long_statement() {
    let (_, [mut one, mut two, three]) = several();
    let stop_one = one.interrupt_handle();
    let (sender, is_running) = mpsc::channel();
    let long = thread::spawn(move || {
        // Called after many instructions, which the query does not have.
        one.on_progress(Some(move || sender.send(()).is_err())).unwrap();
        let mut select = one.prepare("SELECT id FROM stock").unwrap();
        let mut reading = select.query(&[]).unwrap();
        assert!(reading.next().unwrap().is_some());
        // It excludes other writers until it ends.
        let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
            UPDATE stock SET count = (SELECT count(*) FROM n)";
        one.execute(endless, &[]).unwrap_err().is_interrupted()
    });
    is_running.recv().unwrap();
    let limit = Instant::now() + Duration::from_millis(200);
    two.on_progress(Some(move || Instant::now() >= limit)).unwrap();
    // The first waits for its commit, the second for its turn.
    let insert = move || two.execute("INSERT INTO stock VALUES (3, 0)", &[]).unwrap_err();
    let stop_three = three.interrupt_handle();
    let begin = move || {
        let mut select = three.prepare("SELECT id FROM stock").unwrap();
        let mut reading = select.query(&[]).unwrap();
        assert!(reading.next().unwrap().is_some());
        three.execute("INSERT INTO stock VALUES (4, 0)", &[]).unwrap_err()
    };
    let waiting = [thread::spawn(insert), thread::spawn(begin)];
    let until = Instant::now() + Duration::from_secs(20);
    let ended = || waiting.each_ref().map(|waiting| waiting.is_finished());
    while ended() != [true; 2] && Instant::now() < until {
        stop_three.interrupt();
        thread::sleep(Duration::from_millis(5));
    }
    let ended = ended();
    stop_one.interrupt();
    assert!(long.join().unwrap());
    assert_eq!(ended, [true; 2]);
    for waiting in waiting {
        let error = waiting.join().unwrap();
        assert!(error.is_interrupted(), "{error}");
    }
}
