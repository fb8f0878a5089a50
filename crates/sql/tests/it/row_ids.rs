//! Which ids new rows get: each its own, behind all that there are, over deletes, merges and openings.

use crate::support::typed::{Connection, Sql};
use pando_sql::Value;

fn count_and_least(connection: &Connection) -> Vec<Value> {
    connection.query("SELECT count(*), min(id) FROM q", &[]).unwrap().remove(0)
}

/// A queue: ids go on behind whatever was deleted in this process, and behind what is there after an opening.
#[test]
fn ids_go_on_after_what_was_deleted() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..4 {
        let db = pando::Database::create(dir.path()).unwrap();
        let connection = Sql::new(db.clone()).connect().unwrap();
        connection.execute("CREATE TABLE IF NOT EXISTS q(id INTEGER PRIMARY KEY, what)", &[]).unwrap();
        let mut last = i64::from(round > 0);
        for _ in 0..50 {
            connection.execute("INSERT INTO q(what) VALUES (1)", &[]).unwrap();
            let id = connection.last_insert_row_id();
            assert!(id > last, "round {round}: {id} after {last}");
            last = id;
        }
        connection.execute("DELETE FROM q WHERE id > (SELECT min(id) FROM q)", &[]).unwrap();
        if round % 2 == 1 {
            db.checkpoint().unwrap();
        }
        assert_eq!(count_and_least(&connection), [Value::Integer(1), Value::Integer(1)]);
        drop(connection);
        db.close().unwrap();
    }
}

/// The largest id there can be leaves no room behind it; once its row is deleted, an opening finds it again.
#[test]
fn a_largest_id_that_was_deleted_leaves_room_after_an_opening() {
    for layout in ["(id INTEGER PRIMARY KEY, what)", "(what)"] {
        let dir = tempfile::tempdir().unwrap();
        let opened = || {
            let db = pando::Database::create(dir.path()).unwrap();
            (Sql::new(db.clone()).connect().unwrap(), db)
        };
        let (connection, db) = opened();
        connection.execute_batch(&format!("CREATE TABLE q{layout}; INSERT INTO q(what) VALUES (1)")).unwrap();
        connection.execute("INSERT INTO q(rowid, what) VALUES (9223372036854775807, 2)", &[]).unwrap();
        let error = connection.execute("INSERT INTO q(what) VALUES (3)", &[]).unwrap_err();
        assert!(error.message().contains("out of row ids"), "{error}");
        connection.execute("DELETE FROM q WHERE rowid > 1", &[]).unwrap();
        drop(connection);
        db.close().unwrap();
        let (connection, db) = opened();
        connection.execute("INSERT INTO q(what) VALUES (3)", &[]).unwrap();
        assert_eq!(connection.last_insert_row_id(), 2, "{layout}");
        drop(connection);
        db.close().unwrap();
    }
}

/// With `AUTOINCREMENT`, no id is given twice: not after deletes, merges, rollbacks and openings, nor one that a
/// statement chose.
#[test]
fn autoincrement_gives_no_id_twice() {
    let dir = tempfile::tempdir().unwrap();
    let mut last = 0;
    for round in 0..4 {
        let db = pando::Database::create(dir.path()).unwrap();
        let connection = Sql::new(db.clone()).connect().unwrap();
        let create = "CREATE TABLE IF NOT EXISTS q(id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, what)";
        connection.execute(create, &[]).unwrap();
        let mut insert = |sql: &str| {
            connection.execute(sql, &[]).unwrap();
            let id = connection.last_insert_row_id();
            assert!(id > last, "round {round}: {id} after {last}");
            last = id;
        };
        insert("INSERT INTO q(what) VALUES (1)");
        insert("INSERT INTO q SELECT max(coalesce((SELECT max(id) FROM q), 0)) + 5000, 2");
        connection.execute("BEGIN", &[]).unwrap();
        insert("INSERT INTO q(what) VALUES (3)");
        connection.execute("ROLLBACK", &[]).unwrap();
        insert("INSERT INTO q(what) VALUES (4) RETURNING id");
        // Nothing is left of the ids, in memory or on the disk.
        connection.execute("DELETE FROM q", &[]).unwrap();
        db.checkpoint().unwrap();
        db.compact(|_| {}).unwrap();
        assert_eq!(rows::check(&db.snapshot().unwrap(), |_| {}).unwrap().problems, []);
        drop(connection);
        db.close().unwrap();
    }
    let db = pando::Database::create(dir.path()).unwrap();
    let connection = Sql::new(db.clone()).connect().unwrap();
    let sql = "SELECT sql FROM sqlite_schema";
    let shown = connection.query(sql, &[]).unwrap();
    assert_eq!(shown.len(), 1, "the table of SQLite's own is not shown");
    assert!(format!("{shown:?}").contains("AUTOINCREMENT"), "{shown:?}");
    connection.execute("ALTER TABLE q RENAME TO r", &[]).unwrap();
    connection.execute("INSERT INTO r(what) VALUES (5)", &[]).unwrap();
    assert!(connection.last_insert_row_id() > last);
    connection.execute("INSERT INTO r(id) VALUES (9223372036854775807)", &[]).unwrap();
    connection.execute("DELETE FROM r", &[]).unwrap();
    drop(connection);
    let connection = Sql::new(db.clone()).connect().unwrap();
    let error = connection.execute("INSERT INTO r(what) VALUES (6)", &[]).unwrap_err();
    assert!(error.message().contains("out of row ids"), "{error}");
    connection.execute("DROP TABLE r", &[]).unwrap();
    let ids = db.table(rows::ROW_IDS).unwrap().unwrap();
    assert_eq!(db.snapshot().unwrap().range(&ids, ..).unwrap().count(), 0);
}

/// Two of them count for themselves, as a replica that becomes a primary does not know what its primary gave since.
#[test]
fn autoincrement_gives_no_id_twice_through_two_sqls_of_a_database() {
    let db = pando::Database::builder().in_memory().unwrap();
    let both = [(); 2].map(|()| Sql::new(db.clone()).connect().unwrap());
    both[0].execute("CREATE TABLE q(id INTEGER PRIMARY KEY AUTOINCREMENT, what)", &[]).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for round in 0..30 {
        for connection in &both {
            // Most of a block at once.
            let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400)
                        INSERT INTO q(what) SELECT i FROM n RETURNING id";
            for row in connection.query(many, &[]).unwrap() {
                let pando_sql::Value::Integer(id) = row[0] else { panic!("{row:?}") };
                assert!(seen.insert(id), "round {round}: {id} was given before");
            }
            // Nothing is left of the ids but their record, which an id of the statement's own does not lower.
            connection.execute("DELETE FROM q", &[]).unwrap();
            let before = recorded(&db);
            let own = seen.last().unwrap() - 600;
            connection.execute("INSERT INTO q(id) VALUES (?)", &[own.into()]).unwrap();
            connection.execute("DELETE FROM q", &[]).unwrap();
            assert!(recorded(&db) >= before);
        }
    }
}

/// The record of the only table with `AUTOINCREMENT`.
fn recorded(db: &pando::Database) -> i64 {
    let (ids, snapshot) = (db.table(rows::ROW_IDS).unwrap().unwrap(), db.snapshot().unwrap());
    let (_, last) = snapshot.range(&ids, ..).unwrap().next().unwrap().unwrap();
    i64::from_be_bytes(last[..].try_into().unwrap())
}

/// As in SQLite, a column `SERIAL PRIMARY KEY` is no row id, and stays null. Migrations of drizzle-orm rely on it.
#[test]
fn a_serial_key_may_be_null() {
    let both = crate::support::Both::new();
    for (statement, is_done) in [
        ("CREATE TABLE m(id SERIAL PRIMARY KEY, hash text NOT NULL, created_at numeric)", true),
        ("INSERT INTO m(hash, created_at) VALUES ('a', 17.0), ('b', 18)", true),
        ("INSERT INTO m VALUES (1, 'c', '19')", true),
        ("INSERT INTO m VALUES (1, 'd', 20)", false),
        ("CREATE TABLE n(id SERIAL PRIMARY KEY NOT NULL, a)", true),
        ("INSERT INTO n(a) VALUES (1)", false),
    ] {
        assert_eq!(both.ours.execute(statement, &[]).is_ok(), is_done, "{statement}");
        assert_eq!(both.sqlite.execute(statement, []).is_ok(), is_done, "{statement}");
    }
    let sql = "SELECT id, hash, created_at FROM m ORDER BY created_at DESC";
    assert_eq!(both.ours.query(sql, &[]).unwrap(), both.on_sqlite(sql).unwrap());
}
