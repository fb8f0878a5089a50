//! What bounds statements: the authorizer, limits, interrupts and the callback while they run.

use crate::support::{fresh, rows};
use pando_sqlite::{Access, Action, Connection, Decision, Limit};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const ENDLESS: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)";

fn with_tables() -> Connection {
    let connection = fresh();
    let schema = "CREATE TABLE person(name TEXT, salary INTEGER);
        CREATE TABLE log(what);
        CREATE TRIGGER notes AFTER INSERT ON person BEGIN INSERT INTO log VALUES (new.name); END;
        INSERT INTO person VALUES ('Ada', 100)";
    connection.execute(schema).expect("it runs");
    connection
}

#[test]
fn an_authorizer_denies_and_hides() {
    let mut connection = with_tables();
    let decide = |access: Access<'_>| match access.action {
        Action::Read { table: "person", column: "salary" } => Decision::Ignore,
        Action::Pragma { name: "cache_size", argument: Some(_) } | Action::Attach { .. } => Decision::Deny,
        Action::Function { name: "hex" } | Action::DropTable { .. } => Decision::Deny,
        _ => Decision::Allow,
    };
    connection.set_authorizer(Some(decide)).expect("it is set");
    assert_eq!(rows(&connection, "SELECT name, salary FROM person"), ["Ada|NULL"]);
    for denied in ["SELECT hex(1)", "DROP TABLE person", "ATTACH ':memory:' AS m", "PRAGMA cache_size = 7"] {
        let error = connection.execute(denied).expect_err(denied);
        assert!(error.is_denied() || error.message.contains("not authorized"), "{denied}: {error}");
    }
    connection.execute("PRAGMA cache_size").expect("it only asks");
    connection.set_authorizer(None::<fn(Access<'_>) -> Decision>).expect("it is removed");
    assert_eq!(rows(&connection, "SELECT salary FROM person"), ["100"]);
}

#[test]
fn an_authorizer_learns_what_does_something_and_where() {
    let mut connection = with_tables();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noting = Arc::clone(&seen);
    let note = move |access: Access<'_>| {
        if let Action::Insert { table } = access.action {
            let within = access.within.map(str::to_owned);
            noting.lock().expect("no panic").push((
                table.to_owned(),
                access.schema.map(str::to_owned),
                within,
            ));
        }
        Decision::Allow
    };
    connection.set_authorizer(Some(note)).expect("it is set");
    connection.execute("INSERT INTO person VALUES ('Bo', 90)").expect("it runs");
    let seen = seen.lock().expect("no panic");
    assert!(seen.contains(&("person".into(), Some("main".into()), None)), "{seen:?}");
    assert!(seen.contains(&("log".into(), Some("main".into()), Some("notes".into()))), "{seen:?}");
}

#[test]
fn an_authorizer_that_panics_denies_and_prepared_statements_are_decided_again() {
    let mut connection = with_tables();
    drop(connection.prepare_kept("SELECT name FROM person").expect("it is allowed"));
    let decide = |access: Access<'_>| match access.action {
        Action::Read { .. } => panic!("a mistake in the callback"),
        _ => Decision::Allow,
    };
    connection.set_authorizer(Some(decide)).expect("it is set");
    assert!(connection.prepare_kept("SELECT name FROM person").expect_err("it panics").is_denied());
    assert_eq!(rows(&connection, "SELECT 1"), ["1"]);
}

#[test]
fn limits_hold_and_can_be_read() {
    let connection = fresh();
    let before = connection.set_limit(Limit::Columns, 5);
    assert_eq!((before, connection.limit(Limit::Columns)), (2000, 5));
    assert!(connection.execute("CREATE TABLE t(a, b, c, d, e, f)").is_err());
    connection.set_limit(Limit::AttachedDatabases, 0);
    assert!(connection.execute("ATTACH ':memory:' AS m").is_err());
    connection.set_limit(Limit::ExpressionDepth, 4);
    assert!(connection.query("SELECT 1 + (2 + (3 + (4 + 5)))").is_err());
    connection.set_limit(Limit::ValueBytes, 1000);
    connection.execute("CREATE TABLE t(a)").expect("it is short");
    let mut insert = connection.prepare("INSERT INTO t VALUES (?)").expect("it is right");
    let long = pando_sqlite::Value::Blob(vec![0; 1001]);
    assert_eq!(insert.bind(1, &long).expect_err("it is too long").code, 18);
}

#[test]
fn a_callback_stops_a_statement_and_what_it_wrote_is_undone() {
    let mut connection = with_tables();
    let calls = Arc::new(AtomicU32::new(0));
    let counting = Arc::clone(&calls);
    let stop = move || counting.fetch_add(1, Ordering::SeqCst) >= 20;
    connection.set_progress_handler(1000, Some(stop)).expect("it is set");
    let error = connection.execute(&format!("{ENDLESS} INSERT INTO person SELECT i, i FROM n"));
    assert!(error.expect_err("it would not end").is_interrupted());
    assert_eq!(calls.swap(0, Ordering::SeqCst), 21);
    assert_eq!(rows(&connection, "SELECT count(*) FROM person"), ["1"]);

    connection.set_progress_handler(1000, Some(|| panic!("a mistake in the callback"))).expect("it is set");
    assert!(
        connection.query(&format!("{ENDLESS} SELECT max(i) FROM n")).expect_err("stopped").is_interrupted()
    );
    connection.set_progress_handler(1, None::<fn() -> bool>).expect("it is removed");
    assert_eq!(rows(&connection, "SELECT count(*) FROM person"), ["1"]);
    assert!(connection.set_progress_handler(0, None::<fn() -> bool>).is_err());
}

#[test]
fn an_interrupt_of_another_thread_stops_a_statement_and_outlives_its_connection() {
    let connection = with_tables();
    let (interrupt, is_done) = (connection.interrupt_handle(), Arc::new(AtomicBool::new(false)));
    let until = Arc::clone(&is_done);
    let stopping = thread::spawn(move || {
        while !until.load(Ordering::SeqCst) {
            interrupt.interrupt();
            thread::sleep(Duration::from_millis(1));
        }
        interrupt
    });
    let error = connection.execute(&format!("{ENDLESS} INSERT INTO person SELECT i, i FROM n"));
    is_done.store(true, Ordering::SeqCst);
    assert!(error.expect_err("it would not end").is_interrupted());
    let interrupt = stopping.join().expect("it ends");
    assert_eq!(rows(&connection, "SELECT count(*) FROM person"), ["1"]);
    drop(connection);
    interrupt.interrupt();
}

/// One instruction of SQLite's machine counts a whole tree. It is stopped as others are.
#[test]
fn what_counts_a_whole_tree_is_stopped_too() {
    let mut connection = fresh();
    let fill = "CREATE TABLE t(a INTEGER PRIMARY KEY, b); CREATE INDEX by_b ON t(b);
        INSERT INTO t WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 20000)
            SELECT i, i FROM n";
    connection.execute(fill).expect("it runs");
    let whole = ["SELECT count(*) FROM t", "SELECT count(*) FROM t INDEXED BY by_b", "DELETE FROM t"];
    let stop = || true;
    for within in ["", "BEGIN; INSERT INTO t VALUES (0, 0)"] {
        for sql in whole {
            connection.execute(within).expect("it begins");
            // So many steps that it is never called between two of them.
            connection.set_progress_handler(1_000_000_000, Some(stop)).expect("it is set");
            assert!(connection.execute(sql).expect_err(sql).is_interrupted(), "{sql}");
            let interrupt = connection.interrupt_handle();
            let interrupts = move || {
                interrupt.interrupt();
                false
            };
            if connection.is_in_transaction() {
                connection.execute("ROLLBACK").expect("it reads only, so that the transaction is open");
            }
            connection.set_progress_handler(1_000_000_000, Some(interrupts)).expect("it is set");
            assert!(connection.execute(sql).expect_err(sql).is_interrupted(), "{sql}");
            connection.set_progress_handler(1, None::<fn() -> bool>).expect("it is removed");
            assert_eq!(rows(&connection, "SELECT count(*), min(a) FROM t"), ["20000|1"]);
        }
    }
    assert_eq!(rows(&connection, "PRAGMA integrity_check"), ["ok"]);
    connection.execute("DELETE FROM t").expect("nothing stops it");
    assert_eq!(connection.changes(), 20000);
    for count in [1, 4095, 4096, 4097, 8192, 8193] {
        let fill = "INSERT INTO t WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT";
        connection.execute(&format!("{fill} {count}) SELECT i, i FROM n")).expect("it runs");
        assert_eq!(rows(&connection, whole[0]), [count.to_string()]);
        connection.execute("DELETE FROM t").expect("it runs");
        assert_eq!(connection.changes(), count);
    }
}

/// One look-up reads all keys that begin in the same way, if they are long.
#[test]
fn a_look_up_among_many_long_keys_is_interrupted() {
    let connection = fresh();
    connection
        .execute(
            "CREATE TABLE t(s); CREATE INDEX i ON t(s);
             WITH RECURSIVE n(x) AS (VALUES(1) UNION ALL SELECT x + 1 FROM n WHERE x < 300)
                INSERT INTO t SELECT hex(zeroblob(700)) || x FROM n",
        )
        .expect("it runs");
    let interrupt = connection.interrupt_handle();
    let interrupts = move |_: &[pando_sqlite::ValueRef<'_>]| {
        interrupt.interrupt();
        Ok(pando_sqlite::Value::Text("5".into()))
    };
    connection.create_function("interrupts", 0, interrupts).expect("it is new");
    let sql = "SELECT rowid FROM t INDEXED BY i WHERE s = hex(zeroblob(700)) || interrupts()";
    for begin in ["", "BEGIN"] {
        connection.execute(begin).expect("it begins");
        let mut query = connection.prepare(sql).expect("it is right");
        assert!(query.step().expect_err("it would return a row").is_interrupted());
        drop(query);
        assert_eq!(rows(&connection, &sql.replace("interrupts()", "'5'")), ["5"]);
    }
}

/// Closing a database ends the statements that other threads run, whether they read tables or compute.
#[test]
fn statements_end_when_the_database_is_closed() {
    let endless = format!("{ENDLESS} SELECT count(*) FROM n");
    let of_tables = "SELECT count(*) FROM t a, t b, t c, t d WHERE a.x + b.x + c.x + d.x < 0".to_owned();
    let writing = "INSERT INTO t SELECT a.x FROM t a, t b, t c, t d".to_owned();
    for statement in [endless, of_tables, writing] {
        let db = pando::Database::builder().in_memory().expect("it is opened");
        let connection = Connection::open(&db).expect("it is opened");
        let fill = format!("CREATE TABLE t(x); INSERT INTO t {ENDLESS} SELECT i FROM n LIMIT 2000");
        connection.execute(&fill).expect("it runs");
        let (begun, is_running) = (Arc::new(AtomicBool::new(false)), AtomicBool::new(true));
        let error = thread::scope(|scope| {
            let (begun, is_running) = (&begun, &is_running);
            let text = &statement;
            let running = scope.spawn(move || {
                let mut connection = connection;
                let noted = Arc::clone(begun);
                let note = move || {
                    noted.store(true, Ordering::SeqCst);
                    false
                };
                connection.set_progress_handler(100, Some(note)).expect("it is set");
                let error = connection.query(text).expect_err("it is endless");
                is_running.store(false, Ordering::SeqCst);
                for later in ["DELETE FROM t", "SELECT 1", text] {
                    let after = connection.query(later).expect_err("the database is closed");
                    assert!(after.is_closed(), "{text}, then {later}: {after}");
                }
                error
            });
            while !begun.load(Ordering::SeqCst) {
                thread::yield_now();
            }
            assert!(is_running.load(Ordering::SeqCst), "{text}");
            db.close().expect("it closes");
            running.join().expect("it did not panic")
        });
        assert!(error.is_closed() && error.message.contains("open it again"), "{statement}: {error}");
    }
    let db = pando::Database::builder().in_memory().expect("it is opened");
    db.close().expect("it closes");
    let error = Connection::open(&db).and_then(|connection| connection.query("SELECT 1 FROM sqlite_schema"));
    assert!(error.as_ref().is_err_and(|error| error.is_closed()), "{error:?}");
}
