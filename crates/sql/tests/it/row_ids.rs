//! Which ids new rows get: each its own, behind all that there are, over deletes, merges and openings.

use pando_sql::{Connection, Sql, Value};

fn count_and_least(connection: &Connection) -> Vec<Value> {
    connection.query("SELECT count(*), min(id) FROM q", &[]).unwrap().remove(0)
}

/// A queue: ids go on behind whatever was deleted in this process, and behind what is there after an opening.
#[test]
fn ids_go_on_behind_what_was_deleted() {
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
