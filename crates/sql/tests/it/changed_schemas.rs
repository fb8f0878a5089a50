//! Statements that were made before another connection, or their own, changed a table: each does what it would do if it
//! were made now.

use crate::support::is_over_a_store;
use crate::support::typed::{Connection, Sql};
use pando_sql::Value;

fn open() -> (Connection, Connection) {
    let sql = Sql::new(crate::support::database());
    (sql.connect().unwrap(), sql.connect().unwrap())
}

fn numbers(connection: &Connection, sql: &str) -> Vec<Vec<i64>> {
    let number =
        |value: &Value| if let Value::Integer(number) = value { *number } else { panic!("{value:?}") };
    let rows = connection.query(sql, &[]).unwrap();
    rows.iter().map(|row| row.iter().map(number).collect()).collect()
}

/// Columns that an `INSERT` leaves out have their defaults, also one that was added since it was prepared, by any
/// connection.
#[test]
fn a_column_that_was_added_has_its_default() {
    let inserts = [
        "INSERT INTO t(a) VALUES(?)",
        "INSERT INTO t(a, b) VALUES(?, 2)",
        "INSERT INTO t(a) SELECT ? WHERE true",
        "INSERT INTO t(a) VALUES(?) ON CONFLICT DO NOTHING",
        "INSERT INTO t(a) VALUES(?) RETURNING a",
        "INSERT OR REPLACE INTO t(a) VALUES(?) RETURNING a",
    ];
    for insert in inserts {
        for is_held in [false, true] {
            for in_transaction in [false, true] {
                let (one, two) = open();
                one.execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY, b INTEGER DEFAULT 2)").unwrap();
                let mut held = two.prepare(insert).unwrap();
                held.execute(&[1.into()]).unwrap();
                one.execute_batch("ALTER TABLE t ADD COLUMN c INTEGER NOT NULL DEFAULT 3").unwrap();
                if in_transaction {
                    two.execute("BEGIN", &[]).unwrap();
                }
                for a in 2..5i64 {
                    let inserted =
                        if is_held { held.execute(&[a.into()]) } else { two.execute(insert, &[a.into()]) };
                    inserted.unwrap_or_else(|error| panic!("{insert}: {error}"));
                }
                if in_transaction {
                    two.execute("COMMIT", &[]).unwrap();
                }
                let wanted: Vec<_> = (1..5).map(|a| vec![a, 2, 3]).collect();
                let what = format!("{insert}, held: {is_held}, in a transaction: {in_transaction}");
                assert_eq!(numbers(&one, "SELECT a, b, c FROM t ORDER BY a"), wanted, "{what}");
            }
        }
    }
}

/// A table that was dropped and made anew, with another key.
#[test]
fn steps_are_those_of_the_table_as_it_is() {
    let (one, two) = open();
    one.execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY, b INTEGER UNIQUE, n INTEGER)").unwrap();
    let upsert =
        "INSERT INTO t VALUES(?, ?, 1) ON CONFLICT DO UPDATE SET n = n + excluded.n RETURNING a, b, n";
    let mut held = two.prepare(upsert).unwrap();
    held.execute(&[1.into(), 7.into()]).unwrap();
    one.execute_batch("DROP TABLE t; CREATE TABLE t(a INTEGER, b INTEGER, n INTEGER, PRIMARY KEY(b, a))")
        .unwrap();
    for _ in 0..2 {
        held.execute(&[1.into(), 7.into()]).unwrap();
        held.execute(&[2.into(), 7.into()]).unwrap();
    }
    assert_eq!(numbers(&one, "SELECT * FROM t ORDER BY a"), [[1, 7, 2], [2, 7, 2]]);
    one.execute("DROP TABLE t", &[]).unwrap();
    let error = held.execute(&[1.into(), 7.into()]).unwrap_err();
    assert!(error.message().contains("no such table"), "{error}");
}

/// A query shows each row once, whatever its connection is asked for between two of them.
#[test]
fn a_query_is_not_run_again_from_its_beginning() {
    let (one, two) = open();
    one.execute_batch(
        "CREATE TABLE t(a INTEGER PRIMARY KEY); CREATE TABLE u(b INTEGER PRIMARY KEY, t INTEGER);
         CREATE INDEX by_t ON u(t);
         INSERT INTO t WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 40) SELECT i FROM n;
         INSERT INTO u SELECT a * 10, a FROM t; INSERT INTO u SELECT a * 10 + 1, a FROM t;",
    )
    .unwrap();
    let mut join = one.prepare("SELECT a, b FROM t CROSS JOIN u ON u.t = t.a").unwrap();
    let mut rows = join.query(&[]).unwrap();
    let mut found = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        let (a, b) = (row.get(0).as_i64().unwrap(), row.get(1).as_i64().unwrap());
        found.push((a, b));
        match found.len() {
            5 => drop(one.tables().unwrap()),
            12 => drop(one.query("SELECT * FROM nowhere", &[]).unwrap_err()),
            20 => two.execute_batch("CREATE TABLE other(x); ALTER TABLE other ADD COLUMN y").unwrap(),
            // As in SQLite, no write follows a read of an older state.
            25 => {
                let error = one.execute("INSERT INTO other VALUES(1, 2)", &[]).unwrap_err();
                assert_ne!(error.is_conflict(), is_over_a_store(), "{error}");
            }
            _ => {}
        }
    }
    let wanted: Vec<_> = (1..=40).flat_map(|a| [(a, a * 10), (a, a * 10 + 1)]).collect();
    assert_eq!(found, wanted);
    drop(rows);
    if is_over_a_store() {
        return; // As said above, nothing is changed beside a query of the same connection.
    }
    // If a table that is being read is itself changed, that is said, and no row is shown twice.
    let mut rows = join.query(&[]).unwrap();
    let mut shown = 0;
    let outcome = loop {
        match rows.next() {
            Ok(Some(_)) => shown += 1,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
        if shown == 5 {
            one.execute("ALTER TABLE u ADD COLUMN more", &[]).unwrap();
        }
    };
    match outcome {
        Ok(()) => assert_eq!(shown, 80),
        Err(error) => assert!(error.message().contains("was changed while"), "{error}"),
    }
}
