//! Statements of strangers: they reach the database and nothing else, take what they may, and end when they are told
//! to.

use crate::support::typed;
use pando_sql::{Confines, Connection, Sql, Value};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn open() -> Sql {
    Sql::new(crate::support::database())
}

fn confined(sql: &Sql) -> Connection {
    let mut connection = sql.connect().unwrap();
    connection.confine(Confines::default(), || false).unwrap();
    connection
}

#[test]
fn files_and_the_process_are_out_of_reach() {
    let dir = tempfile::tempdir().unwrap();
    let secret = dir.path().join("secret");
    std::fs::write(&secret, "it is").unwrap();
    let (out, secret) = (dir.path().join("out"), secret.display());
    let out_text = out.display();
    let sql = open();
    let connection = confined(&sql);
    connection.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, a)", &[]).unwrap();
    let statements = [
        format!("ATTACH DATABASE '{out_text}' AS x"),
        format!("ATTACH DATABASE 'file:{out_text}?mode=rwc' AS x"),
        "ATTACH ':memory:' AS x".to_owned(),
        "DETACH temp".to_owned(),
        format!("VACUUM INTO '{out_text}'"),
        "VACUUM".to_owned(),
        format!("SELECT load_extension('{secret}')"),
        format!("SELECT LOAD_EXTENSION('{secret}', 'main')"),
        format!("SELECT readfile('{secret}')"),
        format!("SELECT writefile('{out_text}', 'x')"),
        format!("SELECT edit('{secret}')"),
        format!("SELECT * FROM fsdir('{secret}')"),
        format!("INSERT INTO t(a) VALUES (readfile('{secret}')) RETURNING a"),
        format!("CREATE TABLE x(a CHECK (writefile('{out_text}', a) > 0))"),
        "SELECT fts3_tokenizer('simple')".to_owned(),
        format!("CREATE VIRTUAL TABLE x USING csv(filename='{secret}')"),
        "CREATE VIRTUAL TABLE temp.x USING fts5(a)".to_owned(),
        "CREATE VIRTUAL TABLE temp.x USING dbstat".to_owned(),
        "PRAGMA temp_store_directory = '/tmp'".to_owned(),
        "PRAGMA temp_store = FILE".to_owned(),
        "PRAGMA journal_mode = DELETE".to_owned(),
        "PRAGMA writable_schema = ON".to_owned(),
        "PRAGMA soft_heap_limit = 1".to_owned(),
        "SELECT * FROM pragma_hard_heap_limit(1)".to_owned(),
        "SELECT * FROM pragma_hard_heap_limit".to_owned(),
        "PRAGMA temp.cache_size = 1000000".to_owned(),
        "EXPLAIN PRAGMA recursive_triggers = ON".to_owned(),
        format!("CREATE TABLE x AS SELECT load_extension('{secret}')"),
        // A text that two readers could cut in different places.
        format!("CREATE TABLE x(a DEFAULT ($a(')); ATTACH '{out_text}' AS b; --')"),
        format!("CREATE TABLE x(a CHECK ($a(') > 1)); ATTACH '{out_text}' AS b; --')"),
        format!("CREATE INDEX i ON t(a) WHERE $a('); ATTACH '{out_text}' AS b; --')"),
    ];
    for statement in &statements {
        let error = connection.execute(statement, &[]).expect_err(statement);
        // Of these SQLite makes nothing at all.
        let is_wrong = statement.contains("$a(") || statement.contains("hard_heap_limit(1)");
        assert!(error.is_refused() != is_wrong, "{statement}: {error}");
        assert!(!error.message().is_empty(), "{statement}");
        assert!(!out.exists(), "{statement}");
    }
    // What a definition hides is met when a row is checked, or made.
    let hidden = [
        format!("CREATE TABLE c(a CHECK (load_extension('{secret}') IS NULL)); INSERT INTO c VALUES(1)"),
        format!("CREATE TABLE d(a, b DEFAULT (load_extension('{secret}'))); INSERT INTO d(a) VALUES(1)"),
    ];
    for script in &hidden {
        let error = connection.execute_batch(script).expect_err(script);
        assert!(error.is_refused(), "{script}: {error}");
    }
    // What is wrong, and reaches for nothing, is as wrong as ever.
    for wrong in ["SELECT readfil('x')", "SELECT * FROM absent", "SELEC 1"] {
        let error = connection.execute(wrong, &[]).expect_err(wrong);
        assert!(!error.is_refused(), "{wrong}: {error}");
    }
    let files: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap().path()).collect();
    assert_eq!(files, [Path::new(&secret.to_string())]);
    assert_eq!(connection.query("SELECT * FROM t", &[]).unwrap(), [[]; 0]);
}

#[test]
fn whatever_concerns_the_database_goes_on() {
    let sql = open();
    let connection = confined(&sql);
    connection
        .execute_batch(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT DEFAULT (upper('x')), n INTEGER CHECK (n > 0));
             CREATE INDEX by_n ON t(n);
             INSERT INTO t(a, n) VALUES ('b', 2), ('c', 3);
             INSERT INTO t(n) VALUES (9) ON CONFLICT DO NOTHING;
             ALTER TABLE t ADD COLUMN more;
             CREATE TABLE u AS SELECT a, n FROM t WHERE n > 2;
             BEGIN; SAVEPOINT s; DELETE FROM t; ROLLBACK TO s; RELEASE s; COMMIT;
             CREATE TEMP TABLE seen(id); INSERT INTO seen SELECT id FROM t;
             EXPLAIN QUERY PLAN SELECT * FROM t ORDER BY n;
             DROP TABLE u;",
        )
        .unwrap();
    let found = connection.query("UPDATE t SET more = 1 WHERE n = 9 RETURNING a, n", &[]).unwrap();
    assert_eq!(found, [[Value::Text("X".to_owned()), Value::Integer(9)]]);
    let ordered = "SELECT count(*) FROM t JOIN seen USING (id) ORDER BY t.a || seen.id";
    assert_eq!(connection.query(ordered, &[]).unwrap(), [[Value::Integer(3)]]);
    let columns = connection.query("SELECT name FROM pragma_table_info('t')", &[]).unwrap();
    assert_eq!(columns.len(), 4);
}

#[test]
fn what_is_too_large_or_too_deep_is_refused() {
    // The stack of a thread that a server runs statements on.
    let work = || {
        let sql = typed::Sql::new(crate::support::database());
        let mut connection = sql.connect().unwrap();
        connection.confine(Confines { held_bytes: 1 << 20, ..Confines::default() }, || false).unwrap();
        connection.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, a)", &[]).unwrap();
        (*connection).execute("CREATE TABLE own(id INTEGER PRIMARY KEY, a)", &[]).unwrap();
        let nested =
            |open: &str, close: &str, depth: usize| format!("{}1{}", open.repeat(depth), close.repeat(depth));
        let mut deepest = [0, 0, 0];
        for depth in [10, 100, 200, 400, 490, 600, 3000, 100_000] {
            let texts = [
                format!("SELECT {}", nested("(1+", ")", depth)),
                format!("SELECT {}", nested("(SELECT ", ")", depth)),
                format!("SELECT * FROM {}", nested("(SELECT * FROM ", ")", depth).replace('1', "t")),
            ];
            for (text, deepest) in texts.iter().zip(&mut deepest) {
                match connection.query(text, &[]) {
                    Ok(_) => *deepest = depth,
                    Err(error) => assert!(!error.is_interrupted() && depth > 10, "{depth}: {error}"),
                }
            }
        }
        assert!(deepest.iter().all(|depth| (10..600).contains(depth)), "{deepest:?}");
        let refused = [
            format!("SELECT 1{}", " UNION ALL SELECT 1".repeat(300)),
            format!("SELECT 'a' LIKE '{}'", "%a".repeat(600)),
            "SELECT zeroblob(17000000)".to_owned(),
            "SELECT replace(hex(zeroblob(4000000)), '0', 'much longer')".to_owned(),
            format!("SELECT json_array_length('{}')", "[".repeat(100_000)),
        ];
        for text in &refused {
            connection.query(text, &[]).expect_err(text);
        }
        // Rows that would be held.
        let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 100000)
                    INSERT INTO t SELECT i, zeroblob(1000) FROM n";
        for end in ["RETURNING id", "RETURNING *", "ON CONFLICT(id) DO NOTHING"] {
            let where_true = if end.starts_with("ON") { " WHERE true " } else { " " };
            let error = connection.query(&format!("{many}{where_true}{end}"), &[]).unwrap_err();
            assert!(error.message().contains("fewer rows at a time"), "{end}: {error}");
            assert_eq!(connection.query("SELECT * FROM t", &[]).unwrap(), [[]; 0]);
        }
        let of_sqlite = format!("{} RETURNING id", many.replace("INTO t", "INTO own"));
        let error = connection.query(&of_sqlite, &[]).unwrap_err();
        assert!(error.message().contains("fewer rows at a time"), "{error}");
        assert_eq!(connection.query("SELECT * FROM own", &[]).unwrap(), [[]; 0]);
    };
    std::thread::Builder::new().stack_size(2 << 20).spawn(work).unwrap().join().unwrap();
}

#[test]
fn a_statement_ends_when_it_is_told_to() {
    let sql = open();
    let mut connection = sql.connect().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&stop);
    connection.confine(Confines::default(), move || asked.load(Ordering::SeqCst)).unwrap();
    connection.execute("CREATE TABLE t(a)", &[]).unwrap();
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)";
    for statement in
        [format!("{endless} SELECT count(*) FROM n"), format!("{endless} INSERT INTO t SELECT i FROM n")]
    {
        stop.store(false, Ordering::SeqCst);
        let begun = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(50));
                stop.store(true, Ordering::SeqCst);
            });
            let error = connection.query(&statement, &[]).unwrap_err();
            assert!(error.is_interrupted(), "{error}");
        });
        assert!(begun.elapsed() < Duration::from_secs(10), "{statement}");
        stop.store(false, Ordering::SeqCst);
        assert_eq!(connection.query("SELECT count(*) FROM t", &[]).unwrap(), [[Value::Integer(0)]]);
    }
}

#[test]
fn a_connection_that_only_reads_writes_nothing() {
    let sql = open();
    let connection = sql.connect().unwrap();
    connection
        .execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, a); INSERT INTO t VALUES(1, 1)")
        .unwrap();
    connection.set_read_only(true);
    for statement in [
        "INSERT INTO t VALUES(2, 2)",
        "INSERT INTO t VALUES(1, 2) ON CONFLICT DO UPDATE SET a = 3",
        "UPDATE t SET a = 2 RETURNING a",
        "DELETE FROM t",
        "CREATE TABLE u(a)",
        "CREATE TABLE u AS SELECT 1",
        "CREATE INDEX by_a ON t(a)",
        "ALTER TABLE t RENAME TO u",
        "DROP TABLE t",
    ] {
        for in_transaction in [false, true] {
            let prepared = connection.prepare(statement);
            assert!(!prepared.unwrap().is_read_only(), "{statement}");
            if in_transaction {
                connection.execute_batch("BEGIN; SELECT * FROM t").unwrap();
            }
            let error = connection.execute(statement, &[]).unwrap_err();
            assert_eq!(error.kind(), pando::ErrorKind::ReadOnly, "{statement}: {error}");
            if in_transaction {
                connection.execute("COMMIT", &[]).unwrap();
            }
        }
    }
    let one = [[Value::Integer(1), Value::Integer(1)]];
    // A transaction is a snapshot.
    connection.execute("BEGIN", &[]).unwrap();
    assert_eq!(connection.query("SELECT * FROM t", &[]).unwrap(), one);
    let other = sql.connect().unwrap();
    other.execute("INSERT INTO t VALUES(2, 2)", &[]).unwrap();
    assert_eq!(connection.query("SELECT * FROM t", &[]).unwrap(), one);
    connection.execute("COMMIT", &[]).unwrap();
    assert_eq!(connection.query("SELECT * FROM t", &[]).unwrap().len(), 2);
    connection.set_read_only(false);
    assert_eq!(connection.execute("DELETE FROM t", &[]).unwrap(), 2);
}

/// A confined client cannot write what a virtual table keeps in tables of its own; the virtual table itself can.
#[test]
fn confined_connections_write_a_virtual_table_by_its_name_alone() {
    let sql = Sql::new(crate::support::database());
    sql.connect().unwrap().execute_batch("CREATE VIRTUAL TABLE words USING fts5(word)").unwrap();
    let mut connection = sql.connect().unwrap();
    connection.confine(pando_sql::Confines::default(), || false).unwrap();
    connection
        .execute_batch("INSERT INTO words VALUES ('plum'), ('pear'); UPDATE words SET word = 'fig'")
        .unwrap();
    for statement in [
        "UPDATE words_data SET block = x''",
        "DELETE FROM words_content",
        "INSERT INTO words_config VALUES ('a', 1)",
        "DROP TABLE words_data",
    ] {
        let error = connection.execute(statement, &[]).expect_err(statement);
        assert!(error.message().contains("may not be"), "{statement}: {error}");
    }
    connection.execute_batch("INSERT INTO words(words) VALUES ('optimize')").unwrap();
    assert_eq!(connection.query("SELECT count(*) FROM words('fig')", &[]).unwrap(), [[2.into()]]);
    let error = connection.execute("CREATE VIEW v AS SELECT * FROM pragma_page_count", &[]).unwrap_err();
    assert!(error.message().contains("page_count"), "{error}");
}

/// A new constraint is tested against the rows that there are, and a client can check a single table alone.
#[test]
fn a_column_can_be_added_with_a_constraint() {
    let sql = open();
    let connection = confined(&sql);
    connection.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES (1), (7)").unwrap();
    connection.execute("ALTER TABLE t ADD COLUMN b CHECK (b IS NULL OR b > a)", &[]).unwrap();
    let error = connection.execute("ALTER TABLE t ADD COLUMN c CHECK (a < 7)", &[]).unwrap_err();
    assert!(error.message().contains("CHECK constraint failed"), "{error}");
    assert_eq!(connection.query("PRAGMA quick_check(t)", &[]).unwrap(), [[Value::Text("ok".into())]]);
    for statement in [
        "PRAGMA quick_check",
        "PRAGMA quick_check('5')",
        "PRAGMA quick_check(+5)",
        "PRAGMA quick_check(-5)",
        "PRAGMA quick_check(5.0)",
        "PRAGMA quick_check = 5.0",
        "PRAGMA main.quick_check(-5.0)",
        "PRAGMA quick_check(.5)",
        "PRAGMA quick_check(0x5)",
        "PRAGMA quick_check(-0x5)",
        "PRAGMA quick_check(5e0)",
        "PRAGMA quick_check(sqlite_schema)",
        "PRAGMA integrity_check(t)",
        "SELECT * FROM pragma_quick_check",
        "SELECT * FROM pragma_integrity_check(1)",
        "CREATE VIEW v AS SELECT * FROM pragma_quick_check(5)",
        "CREATE TRIGGER r AFTER INSERT ON t BEGIN SELECT * FROM pragma_quick_check(5); END",
    ] {
        let done = connection.query(statement, &[]);
        assert!(matches!(&done, Err(error) if error.is_refused()), "{statement}: {done:?}");
    }
}

/// Every connection reads all definitions, so that clients may not make too many; they can drop some at any time.
#[test]
fn definitions_have_a_bound() {
    let sql = open();
    let (owner, connection) = (sql.connect().unwrap(), confined(&sql));
    let long = "x".repeat(400_000);
    for name in ["a", "b"] {
        connection.execute(&format!("CREATE VIEW {name} AS SELECT '{long}'"), &[]).unwrap();
    }
    connection.execute("CREATE TABLE t(a)", &[]).unwrap();
    let more = [
        format!("CREATE VIEW c AS SELECT '{long}'"),
        format!("CREATE TABLE c(a CHECK (a <> '{long}'))"),
        format!("CREATE INDEX c ON t(a) WHERE a <> '{long}'"),
        format!("CREATE TRIGGER c BEFORE INSERT ON t BEGIN SELECT '{long}'; END"),
        format!("ALTER TABLE t ADD COLUMN c DEFAULT '{long}'"),
    ];
    for statement in &more {
        let done = connection.execute(statement, &[]);
        let is_refused = matches!(&done, Err(error) if error.message().contains("definitions"));
        assert!(is_refused, "{}: {done:?}", &statement[..20]);
    }
    // What is temporary has no bound of this kind, and nothing else passes for it.
    connection
        .execute_batch(
            "CREATE TEMP TABLE main(a); CREATE TEMP TABLE u(a); CREATE INDEX temp.t ON u(a);
             CREATE TRIGGER temp.other AFTER INSERT ON u BEGIN SELECT 1; END",
        )
        .unwrap();
    let qualified = format!("CREATE TRIGGER c BEFORE INSERT ON main.t BEGIN SELECT '{long}'; END");
    for statement in more.iter().chain([&qualified]) {
        let done = connection.execute(statement, &[]);
        let is_refused = matches!(&done, Err(error) if error.message().contains("definitions"));
        assert!(is_refused, "{}: {done:?}", &statement[..20]);
    }
    connection.execute_batch("CREATE TRIGGER c AFTER INSERT ON u BEGIN SELECT 1; END").unwrap();
    owner.execute(&more[0], &[]).unwrap();
    let error = connection.execute("CREATE TABLE d(a)", &[]).unwrap_err();
    assert!(error.message().contains("drop tables"), "{error}");
    connection.execute("DROP TABLE t", &[]).unwrap();
    connection.execute("DROP VIEW c", &[]).unwrap();
    connection.execute("CREATE TABLE d(a)", &[]).unwrap();
}
