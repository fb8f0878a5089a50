//! Tables that SQLite made beside typed tables, in one connection and one transaction.

use crate::support::typed::{Connection, Sql};
use pando::{Database, Isolation};
use pando_sql::Value;

/// A database with the typed table `seen`, and the table `stock` of SQLite's, whose trigger writes to the typed one.
fn both() -> (Sql, Connection) {
    let db = Database::builder().in_memory().unwrap();
    let sql = Sql::new(db.clone());
    let connection = sql.connect().unwrap();
    connection.execute("CREATE TABLE seen(id INTEGER PRIMARY KEY, name TEXT NOT NULL)", &[]).unwrap();
    let made = pando_sqlite::Connection::open(&db).unwrap();
    let schema = "CREATE TABLE stock(id INTEGER PRIMARY KEY, name TEXT UNIQUE, count INTEGER DEFAULT 1,
            worth AS (count * 2) STORED);
        CREATE TRIGGER notes AFTER INSERT ON stock BEGIN INSERT INTO seen VALUES (new.id, new.name); END";
    made.execute(schema).unwrap();
    (sql, connection)
}

fn rows(connection: &Connection, sql: &str) -> Vec<Vec<Value>> {
    connection.query(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

fn texts(connection: &Connection, sql: &str) -> Vec<String> {
    let text = |value: Value| if let Value::Text(text) = value { text } else { panic!("{value:?}") };
    rows(connection, sql).into_iter().map(|mut row| text(row.remove(0))).collect()
}

#[test]
fn statements_about_them_are_sqlites_own_and_one_commit_has_both() {
    let (sql, connection) = both();
    let before = sql.database().native().unwrap().stats().unwrap().commits;
    let found =
        rows(&connection, "INSERT INTO stock(name) VALUES ('bolt'), ('nut') RETURNING id, name, worth");
    assert_eq!(
        found,
        [[1.into(), "bolt".to_owned().into(), 2.into()], [2.into(), "nut".to_owned().into(), 2.into()]]
    );
    assert_eq!(sql.database().native().unwrap().stats().unwrap().commits - before, 1);
    assert_eq!(texts(&connection, "SELECT seen.name FROM seen JOIN stock USING (id)"), ["bolt", "nut"]);

    let upsert = "INSERT INTO stock(name) VALUES ('nut'), ('cog') ON CONFLICT(name) DO UPDATE SET count = 9
        RETURNING name || count";
    assert_eq!(texts(&connection, upsert), ["nut9", "cog1"]);
    assert_eq!(rows(&connection, "SELECT changes()"), [[2.into()]]);
    assert_eq!(texts(&connection, "SELECT name FROM seen"), ["bolt", "nut", "cog"]);

    connection.execute_batch("BEGIN; DELETE FROM stock; DELETE FROM seen; ROLLBACK").unwrap();
    connection
        .execute_batch("BEGIN; SAVEPOINT s; INSERT INTO stock(name) VALUES ('pin'); ROLLBACK TO s; COMMIT")
        .unwrap();
    // The second row is refused, and what the trigger of the first one wrote is undone.
    connection.execute("INSERT INTO stock(name) VALUES ('pin'), ('nut')", &[]).unwrap_err();
    for table in ["stock", "seen"] {
        assert_eq!(
            texts(&connection, &format!("SELECT name FROM {table} ORDER BY id")),
            ["bolt", "nut", "cog"]
        );
    }
}

#[test]
fn their_definitions_are_changed_by_sqlite_and_described() {
    let (sql, connection) = both();
    for statement in [
        "CREATE UNIQUE INDEX scarce ON stock(name) WHERE count < 5",
        "ALTER TABLE stock ADD COLUMN shelf TEXT DEFAULT 'a'",
        "INSERT INTO stock(name) VALUES ('bolt')",
        "CREATE INDEX by_name ON seen(name)",
    ] {
        connection.execute(statement, &[]).unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    assert_eq!(texts(&connection, "SELECT shelf FROM stock"), ["a"]);
    // A name stands for one table.
    for statement in ["CREATE TABLE Stock(a)", "CREATE TABLE seen(a)", "CREATE TABLE stock AS SELECT 1"] {
        let error = connection.execute(statement, &[]).unwrap_err();
        assert!(error.message().contains("already exists"), "{statement}: {error}");
    }
    connection.execute("CREATE TABLE IF NOT EXISTS stock(a)", &[]).unwrap();
    let names: Vec<_> = connection.tables().unwrap().into_iter().map(|table| table.name).collect();
    assert_eq!(names, ["seen", "stock"]);

    connection.execute("DROP TABLE stock", &[]).unwrap();
    assert!(sql.connect().unwrap().query("SELECT * FROM stock", &[]).is_err());
    let made = pando_sqlite::Connection::open(sql.database()).unwrap();
    made.execute("CREATE TABLE plain(id INTEGER PRIMARY KEY, a TEXT)").unwrap();
    let names: Vec<_> = connection.tables().unwrap().into_iter().map(|table| table.name).collect();
    assert_eq!(names, ["plain", "seen"]);
    let listed = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name";
    assert_eq!(texts(&connection, listed), ["plain", "seen"]);
    assert_eq!(texts(&connection, "SELECT name FROM pragma_table_info('plain')"), ["id", "a"]);
}

#[test]
fn a_conflict_in_either_refuses_both() {
    let (sql, one) = both();
    let two = sql.connect().unwrap();
    one.execute("INSERT INTO stock(name) VALUES ('bolt')", &[]).unwrap();
    let met = |ours: &str, theirs: &str| {
        assert!(one.execute("BEGIN IMMEDIATE, please", &[]).is_err());
        // It excludes nobody.
        one.execute_batch("BEGIN IMMEDIATE").unwrap();
        two.execute_batch("BEGIN EXCLUSIVE").unwrap();
        one.execute(ours, &[]).unwrap();
        two.execute(theirs, &[]).unwrap();
        one.execute("COMMIT", &[]).unwrap();
        let error = two.execute("COMMIT", &[]).unwrap_err();
        assert!(error.is_conflict() && two.is_autocommit(), "{error}");
        let conflict = error.conflict().expect("a commit knows its place");
        let last = conflict.key().and_then(<[u8]>::last).copied();
        (conflict.table().to_owned(), last, error.message().to_owned())
    };
    let (table, last, message) = met("UPDATE stock SET count = 2", "UPDATE stock SET count = 3");
    assert!(message.contains("table stock at rowid 1"), "{message}");
    assert_eq!((&table[..], last), ("stock", Some(1)));
    let (table, last, message) = met("UPDATE seen SET name = 'x'", "UPDATE seen SET name = 'y'");
    assert!(message.contains("conflict in table seen at key (1)"), "{message}");
    assert_eq!((&table[..], last), ("seen", Some(1)));
    assert_eq!(rows(&one, "SELECT count, seen.name FROM stock, seen"), [[2.into(), "x".to_owned().into()]]);
}

#[test]
fn a_weaker_isolation_ends_with_the_first_table_of_sqlites() {
    let db = Database::builder().in_memory().unwrap();
    let sql = Sql::new(db.clone());
    let (one, two) = (sql.connect().unwrap(), sql.connect().unwrap());
    one.execute_batch("CREATE TABLE duty(id INTEGER PRIMARY KEY, is_on INTEGER)").unwrap();
    let mut options = db.transaction_options();
    options.isolation = Isolation::Snapshot;
    for connection in [&one, &two] {
        connection.set_transaction_options(options);
    }
    let skew = || {
        one.execute_batch("DELETE FROM duty; INSERT INTO duty VALUES (1, 1), (2, 1); BEGIN").unwrap();
        two.execute_batch("BEGIN").unwrap();
        for (connection, id) in [(&one, 1), (&two, 2)] {
            let off =
                format!("UPDATE duty SET is_on = 0 WHERE id = {id} AND (SELECT sum(is_on) FROM duty) = 2");
            connection.execute(&off, &[]).unwrap();
        }
        one.execute_batch("COMMIT").unwrap();
        two.execute_batch("COMMIT")
    };
    skew().unwrap();
    assert_eq!(rows(&one, "SELECT sum(is_on) FROM duty"), [[0.into()]]);
    pando_sqlite::Connection::open(&db).unwrap().execute("CREATE TABLE t(a)").unwrap();
    assert!(skew().unwrap_err().is_conflict());
    assert_eq!(rows(&one, "SELECT sum(is_on) FROM duty"), [[1.into()]]);
}

#[test]
fn a_trigger_that_leaves_out_a_default_of_a_typed_table_is_refused() {
    let (sql, connection) = both();
    connection
        .execute("CREATE TABLE log(id INTEGER PRIMARY KEY, what TEXT DEFAULT 'made', n INTEGER)", &[])
        .unwrap();
    let made = pando_sqlite::Connection::open(sql.database()).unwrap();
    made.execute("CREATE TABLE a(x)").unwrap();
    // It is `crates/sql` that knows typed tables, so the trigger is written as one of SQLite's was.
    made.execute("CREATE TRIGGER t AFTER INSERT ON a BEGIN INSERT INTO log(n) VALUES (new.x); END").unwrap();
    let connection = sql.connect().unwrap();
    let error = connection.execute("INSERT INTO a VALUES (1)", &[]).unwrap_err();
    assert!(error.message().contains("column log.what has a default"), "{error}");
    assert_eq!(
        rows(&connection, "SELECT (SELECT count(*) FROM a), count(*) FROM log"),
        [[0.into(), 0.into()]]
    );

    let whole = "DROP TRIGGER t;
        CREATE TRIGGER t AFTER INSERT ON a BEGIN INSERT INTO log VALUES (NULL, 'x', new.x); END";
    made.execute(whole).unwrap();
    connection.execute("INSERT INTO a VALUES (1), (2)", &[]).unwrap();
    connection.execute("INSERT INTO log(n) VALUES (3)", &[]).unwrap();
    connection.execute("INSERT INTO log VALUES (9, NULL, 4)", &[]).unwrap();
    let logged = "SELECT coalesce(what, '-') FROM log ORDER BY n";
    assert_eq!(texts(&connection, logged), ["x", "x", "made", "-"]);
}

#[test]
fn a_name_stands_for_one_table_or_index() {
    let (sql, connection) = both();
    connection.execute_batch("CREATE INDEX typed_index ON seen(name); CREATE TABLE other(a)").unwrap();
    // While it names the table, that cannot be renamed.
    connection.execute("DROP TRIGGER notes", &[]).unwrap();
    let made = pando_sqlite::Connection::open(sql.database()).unwrap();
    let schema = "CREATE INDEX made_index ON stock(count); CREATE VIEW made_view AS SELECT 1;
        CREATE TABLE odd(a, b AS (a))";
    made.execute(schema).unwrap();
    let connection = sql.connect().unwrap();
    for within in ["", "BEGIN"] {
        for statement in [
            "ALTER TABLE stock RENAME TO Seen",
            "ALTER TABLE odd RENAME TO seen",
            "ALTER TABLE odd RENAME TO typed_index",
            "ALTER TABLE seen RENAME TO Stock",
            "ALTER TABLE seen RENAME TO odd",
            "ALTER TABLE seen RENAME TO made_view",
            "ALTER TABLE seen RENAME TO made_index",
            "CREATE INDEX Typed_Index ON stock(count)",
            "CREATE INDEX seen ON stock(count)",
            "CREATE INDEX made_index ON seen(name)",
            "CREATE UNIQUE INDEX stock ON seen(name)",
            "CREATE INDEX made_view ON seen(name)",
            "CREATE TABLE made_index(a)",
            "CREATE TABLE made_index AS SELECT 1 AS a",
        ] {
            connection.execute_batch(within).unwrap();
            let refused = connection.execute(statement, &[]);
            let error = refused.expect_err(statement);
            assert!(error.message().contains("already"), "{statement}: {error}");
            if !within.is_empty() {
                connection.execute("COMMIT", &[]).unwrap();
            }
        }
    }
    let listed = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name";
    assert_eq!(texts(&connection, listed), ["odd", "other", "seen", "stock"]);
    assert_eq!(texts(&connection, "SELECT name FROM pragma_index_list('seen')"), ["typed_index"]);
    for statement in
        ["ALTER TABLE other RENAME TO free", "ALTER TABLE odd RENAME TO other", "CREATE INDEX i ON other(a)"]
    {
        connection.execute(statement, &[]).unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
}

#[test]
fn rows_that_triggers_and_foreign_keys_change_are_not_counted() {
    let db = pando::Database::builder().in_memory().unwrap();
    pando_sqlite::Connection::open(&db)
        .unwrap()
        .execute(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, v); CREATE TABLE log(id);
             CREATE TABLE child(of INTEGER REFERENCES t ON DELETE CASCADE);
             CREATE TRIGGER a AFTER UPDATE ON t BEGIN INSERT INTO log VALUES (new.id); END;
             INSERT INTO t VALUES (1, 1), (2, 1); INSERT INTO child VALUES (1), (1), (2)",
        )
        .unwrap();
    let connection = Sql::new(db).connect().unwrap();
    for (sql, changes) in [
        ("UPDATE t SET v = 2 WHERE id = 1", 1),
        ("UPDATE t SET v = 2 WHERE id = 7", 0),
        ("DELETE FROM t WHERE id = 1", 1),
        ("CREATE INDEX by_v ON t(v)", 0),
        ("INSERT INTO t VALUES (8, 1), (9, 1)", 2),
    ] {
        assert_eq!(connection.execute(sql, &[]).unwrap(), changes, "{sql}");
    }
    assert_eq!(connection.query("SELECT changes()", &[]).unwrap(), [[2.into()]]);
    let mut returning = connection.prepare("UPDATE t SET v = 3 WHERE id = 8 RETURNING v").unwrap();
    assert_eq!(returning.query(&[]).unwrap().changes(), 1);
    let mut none = connection.prepare("UPDATE t SET v = 3 WHERE id = 7 RETURNING v").unwrap();
    assert_eq!(none.query(&[]).unwrap().changes(), 0);
}
