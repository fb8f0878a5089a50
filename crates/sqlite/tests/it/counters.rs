//! The counters of `AUTOINCREMENT`, which several transactions raise at once.

use crate::support::{Both, rows};
use base::env::Random;
use pando::{Database, Error, ErrorKind};
use pando_sqlite::{Connection, Value};
use std::collections::HashSet;
use std::sync::{Mutex, mpsc};
use std::time::Duration;
use std::{fs, thread};

const BUSY_SNAPSHOT: i32 = 517;
const TABLES: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, a);
                      CREATE TABLE u(id INTEGER PRIMARY KEY AUTOINCREMENT, a)";
const COUNTERS: &str = "SELECT name, seq FROM sqlite_sequence ORDER BY name";

fn several<const N: usize>() -> [Connection; N] {
    let db = Database::builder().in_memory().expect("it opens");
    let connections = std::array::from_fn(|_| Connection::open(&db).expect("it opens"));
    connections[0].execute(TABLES).expect("it runs");
    connections
}

#[track_caller]
fn run(connection: &Connection, sql: &str) {
    connection.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
}

#[track_caller]
fn conflicts(connection: &Connection) {
    assert_eq!(connection.execute("COMMIT").expect_err("the counters have changed").code, BUSY_SNAPSHOT);
}

#[test]
fn transactions_that_insert_into_one_table_all_commit() {
    for first_is_first in [true, false] {
        let [one, two] = several();
        run(&one, "INSERT INTO t(a) VALUES ('before')");
        run(&one, "BEGIN; INSERT INTO t(a) VALUES (1)");
        run(&two, "BEGIN; INSERT INTO t(a) VALUES (2), (2)");
        run(&one, "INSERT INTO t(a) VALUES (1)");
        let order = if first_is_first { [&one, &two] } else { [&two, &one] };
        order.into_iter().for_each(|connection| run(connection, "COMMIT"));
        assert_eq!(rows(&one, "SELECT count(*), count(DISTINCT id) FROM t"), ["5|5"]);
        let largest = rows(&one, "SELECT 't', max(id) FROM t");
        assert_eq!(rows(&one, COUNTERS), largest, "the larger counter stays in both orders");
    }
}

#[test]
fn transactions_that_insert_the_first_rows_share_a_counter() {
    let [one, two, three] = several();
    run(&one, "BEGIN; INSERT INTO t(a) VALUES (1)");
    run(&two, "BEGIN; INSERT INTO u(a) VALUES (1); INSERT INTO t(a) VALUES (2)");
    run(&three, "BEGIN; INSERT INTO u(a) VALUES (2), (3)");
    for connection in [&three, &two, &one] {
        run(connection, "COMMIT");
    }
    assert_eq!(rows(&one, COUNTERS), ["t|2", "u|3"]);
    run(&two, "INSERT INTO t(a) VALUES (3); INSERT INTO u(a) VALUES (4)");
    assert_eq!(rows(&one, COUNTERS), ["t|3", "u|4"]);
    assert_eq!(rows(&one, "PRAGMA integrity_check"), ["ok"]);
}

#[test]
fn a_rowid_is_not_given_again_after_its_row_is_deleted() {
    let [one, two] = several();
    run(&one, "INSERT INTO t(a) VALUES (1)");
    run(&two, "BEGIN; INSERT INTO t(a) VALUES (2)");
    run(&one, "BEGIN; INSERT INTO t(a) VALUES (3), (4), (5); DELETE FROM t WHERE a > 2; COMMIT");
    run(&two, "INSERT INTO t(a) VALUES (6); COMMIT");
    let highest = rows(&one, COUNTERS)[0].clone();
    run(&one, "DELETE FROM t; INSERT INTO t(a) VALUES (7)");
    let id = rows(&one, "SELECT 't|' || (id - 1) FROM t");
    assert_eq!(id, [highest]);
}

#[test]
fn a_counter_that_is_rolled_back_stays_as_it_was() {
    let [one, two] = several();
    run(&one, "INSERT INTO t(a) VALUES (1)");
    run(&one, "BEGIN; SAVEPOINT s; INSERT INTO t(a) VALUES (2), (3)");
    run(&two, "INSERT INTO u(a) VALUES (1)");
    run(&one, "ROLLBACK TO s; INSERT INTO u(a) VALUES (2); COMMIT");
    assert_eq!(rows(&two, COUNTERS), ["t|1", "u|2"]);
    run(&one, "BEGIN; INSERT INTO t(a) VALUES (9); ROLLBACK");
    run(&two, "INSERT INTO t(a) VALUES (2)");
    assert_eq!(rows(&two, COUNTERS), ["t|2", "u|2"]);
}

#[test]
fn counters_whose_table_is_rolled_back_are_forgotten() {
    let db = Database::builder().in_memory().expect("it opens");
    let connection = Connection::open(&db).expect("it opens");
    let create = "CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, a); INSERT INTO t(a) VALUES (1), (2)";
    run(&connection, "CREATE TABLE v(a)");
    run(
        &connection,
        &format!("BEGIN; SAVEPOINT s; {create}; ROLLBACK TO s; INSERT INTO v VALUES (1); COMMIT"),
    );
    run(
        &connection,
        &format!("BEGIN; SAVEPOINT s; {create}; ROLLBACK TO s; CREATE TABLE w(a); {create}; COMMIT"),
    );
    assert_eq!(rows(&connection, COUNTERS), ["t|2"]);
    assert_eq!(rows(&connection, "SELECT count(*) FROM v"), ["1"]);
}

#[test]
fn statements_that_name_the_table_conflict_with_inserts_beside_them() {
    for statement in [
        "UPDATE sqlite_sequence SET seq = 0 WHERE name = 'u'",
        "DELETE FROM sqlite_sequence",
        "INSERT INTO sqlite_sequence VALUES ('w', 1)",
        "DROP TABLE u",
    ] {
        for inserts_first in [true, false] {
            let [one, two] = several();
            run(&one, "INSERT INTO t(a) VALUES (1); INSERT INTO u(a) VALUES (1)");
            run(&one, &format!("BEGIN; {statement}"));
            run(&two, "BEGIN; INSERT INTO t(a) VALUES (2)");
            let [first, second] = if inserts_first { [&two, &one] } else { [&one, &two] };
            run(first, "COMMIT");
            conflicts(second);
        }
    }
    let [one, two] = several();
    run(&one, "INSERT INTO t(a) VALUES (1)");
    run(&one, "BEGIN; INSERT INTO u(a) SELECT seq FROM sqlite_sequence");
    run(&two, "INSERT INTO t(a) VALUES (2)");
    conflicts(&one);
}

#[test]
fn a_counter_can_be_set_back() {
    let [one, two] = several();
    for connection in [&one, &two] {
        run(connection, "INSERT INTO t(a) VALUES (1), (2), (3)");
        run(connection, "DELETE FROM t; UPDATE sqlite_sequence SET seq = 0");
        run(connection, "INSERT INTO t(a) VALUES (4)");
        assert_eq!(rows(connection, COUNTERS), ["t|1"]);
        run(
            connection,
            "BEGIN; DELETE FROM t; DELETE FROM sqlite_sequence; INSERT INTO t(a) VALUES (5); COMMIT",
        );
        assert_eq!(rows(connection, COUNTERS), ["t|1"]);
        run(connection, "DELETE FROM t; DELETE FROM sqlite_sequence");
    }
}

/// A commit that wrote nothing has no place in the order of commits, and says nothing about the counters.
#[test]
fn a_rewrite_that_was_rolled_back_lets_no_counter_go_back() {
    let [one, two, three] = several();
    run(&one, "INSERT INTO t(a) VALUES (1)");
    run(&one, "BEGIN; SAVEPOINT s; DELETE FROM sqlite_sequence; ROLLBACK TO s");
    run(&two, "BEGIN; INSERT INTO t(a) VALUES (2)");
    run(&three, "INSERT INTO t(id) VALUES (100); DELETE FROM t WHERE id = 100");
    run(&one, "COMMIT");
    run(&two, "COMMIT");
    assert_eq!(rows(&one, COUNTERS), ["t|100"]);
}

/// An insert of a smaller id depends on the counter, too, which it does not write.
#[test]
fn an_insert_that_raises_nothing_conflicts_with_a_rewrite() {
    let [one, two] = several();
    run(&one, "INSERT INTO t(id) VALUES (10)");
    run(&one, "BEGIN; INSERT INTO t(id) VALUES (3)");
    run(&two, "DELETE FROM sqlite_sequence");
    conflicts(&one);
}

/// The last attempts of `Database::write` hold the commit gate, which commits of their own thread pass.
#[test]
fn a_commit_within_the_gate_waits_for_no_commit_outside() {
    let (done, is_done) = mpsc::channel();
    thread::spawn(move || {
        let db = Database::builder().in_memory().expect("it opens");
        let connection = Connection::open(&db).expect("it opens");
        run(&connection, TABLES);
        let mut attempts = 0;
        let never = thread::scope(|scope| {
            db.write(|_| -> pando::Result<()> {
                attempts += 1;
                let other = Connection::open(&db).expect("it opens");
                scope.spawn(move || run(&other, "INSERT INTO t(a) VALUES (1)"));
                // It waits at the gate, if that is held.
                thread::sleep(Duration::from_millis(20));
                run(&connection, "INSERT INTO t(a) VALUES (2)");
                Err(Error::new(ErrorKind::Conflict, "again"))
            })
        });
        assert!(never.is_err() && attempts > 3, "the last attempts hold the gate");
        assert_eq!(rows(&connection, "SELECT count(*) FROM t"), [(2 * attempts).to_string()]);
        done.send(()).expect("the test waits");
    });
    is_done.recv_timeout(Duration::from_secs(60)).expect("nothing waits for itself");
}

/// A copy of the files has the same identity, and its own counters.
#[test]
fn a_copy_in_the_same_process_has_its_own_counters() {
    let (first, second) =
        (tempfile::tempdir().expect("it is made"), tempfile::tempdir().expect("it is made"));
    let db = Database::create(first.path()).expect("it is created");
    run(&Connection::open(&db).expect("it opens"), TABLES);
    db.close().expect("it closes");
    for file in fs::read_dir(first.path()).expect("it is listed") {
        let file = file.expect("it is listed");
        fs::copy(file.path(), second.path().join(file.file_name())).expect("it is copied");
    }
    let dbs = [&first, &second].map(|directory| Database::open(directory.path()).expect("it opens"));
    let [one, two] = dbs.each_ref().map(|db| Connection::open(db).expect("it opens"));
    run(&two, "BEGIN; INSERT INTO u(a) VALUES (1); INSERT INTO t(a) VALUES (1)");
    run(&one, "INSERT INTO t(a) VALUES (1); INSERT INTO t(a) VALUES (2); INSERT INTO u(a) VALUES (1)");
    run(&two, "COMMIT");
    assert_eq!(rows(&one, COUNTERS), ["t|2", "u|1"]);
    assert_eq!(rows(&two, COUNTERS), ["t|1", "u|1"]);
}

#[test]
fn the_last_ids_of_all_are_given_as_in_sqlite() {
    let both = Both::new();
    both.execute(TABLES);
    both.execute("INSERT INTO t(a) VALUES (0)");
    both.execute("UPDATE sqlite_sequence SET seq = 9223372036854775801");
    for _ in 0..4 {
        both.execute("INSERT INTO t(a) VALUES (1), (2)");
    }
    both.query("SELECT id, a FROM t ORDER BY id");
    both.query(COUNTERS);
}

/// Threads insert and delete in transactions of several statements. None may conflict, no id may be given twice, and
/// after an opening the ids go on.
#[test]
fn writers_beside_one_another_never_get_an_id_twice() {
    let directory = tempfile::tempdir().expect("it is made");
    let ids = Mutex::new(HashSet::new());
    for round in 0..2 {
        let db = match round {
            0 => Database::create(directory.path()),
            _ => Database::open(directory.path()),
        };
        let db = db.expect("it opens");
        let connection = Connection::open(&db).expect("it opens");
        if round == 0 {
            run(&connection, TABLES);
        }
        thread::scope(|scope| {
            for writer in 0..4 {
                let (db, ids) = (&db, &ids);
                scope.spawn(move || insert_and_delete(db, 10 * round + writer, ids));
            }
        });
        for table in ["t", "u"] {
            let all = ids.lock().expect("no writer failed");
            let highest = all.iter().filter(|(of, _)| *of == table).map(|&(_, id)| id).max();
            let counter = format!("SELECT seq FROM sqlite_sequence WHERE name = '{table}'");
            let counted = rows(&connection, &counter);
            assert_eq!(counted.len(), 1, "{table} has one counter");
            assert!(counted[0].parse::<i64>().ok() >= highest, "{counted:?}, and {highest:?} was given");
        }
        drop(connection);
        db.close().expect("it closes");
    }
}

fn insert_and_delete(db: &Database, seed: u64, ids: &Mutex<HashSet<(&str, i64)>>) {
    let connection = Connection::open(db).expect("it opens");
    if seed.is_multiple_of(2) {
        // Such a commit is visible at once, a synced one only after its flush.
        run(&connection, "PRAGMA synchronous = OFF");
    }
    let mut random = Random::seeded(seed);
    for _ in 0..60 {
        run(&connection, "BEGIN");
        let mut given = Vec::new();
        for _ in 0..=random.below(3) {
            let table = ["t", "u"][random.below(2) as usize];
            let inserted = connection.query(&format!("INSERT INTO {table}(a) VALUES (1) RETURNING id"));
            let [row] = &inserted.expect("it inserts")[..] else { panic!("it returns a row") };
            let [Value::Integer(id)] = row[..] else { panic!("it returns an id") };
            given.push((table, id));
            if random.below(2) == 0 {
                run(&connection, &format!("DELETE FROM {table} WHERE id = {id}"));
            }
        }
        run(&connection, "COMMIT");
        let mut ids = ids.lock().expect("no writer failed");
        for id in given {
            assert!(ids.insert(id), "{id:?} was given twice");
        }
    }
}
