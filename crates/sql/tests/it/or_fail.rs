//! `OR FAIL`: a row that breaks a constraint ends the statement, and leaves those before it, also with `RETURNING`.

use crate::support::Both;
use pando_sql::{Confines, Sql};

const STATEMENTS: [&str; 5] = [
    "INSERT OR FAIL INTO t VALUES (20, 1), (20, 2)",
    "INSERT OR FAIL INTO t VALUES (21, 1), (21, 2) RETURNING a",
    "INSERT OR FAIL INTO t VALUES (22, 1), (1, 9), (23, 1) ON CONFLICT(a) DO NOTHING RETURNING a",
    "INSERT OR FAIL INTO t VALUES (24, 1), (25, NULL), (26, 1)
        ON CONFLICT(a) DO UPDATE SET b = 9 RETURNING a",
    "UPDATE OR FAIL t SET a = CASE a WHEN 2 THEN 12 WHEN 3 THEN 12 ELSE a END RETURNING a",
];

#[test]
fn rows_before_the_one_that_fails_stay() {
    for both in [Both::new(), Both::typed()] {
        both.run_all("CREATE TABLE t(a INTEGER PRIMARY KEY, b INTEGER NOT NULL)");
        for (begin, end) in [("BEGIN", "COMMIT"), ("BEGIN", "ROLLBACK"), ("SELECT 1", "SELECT 1")] {
            both.run_all("DELETE FROM t; INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)");
            both.run(begin);
            for statement in STATEMENTS {
                both.run(statement);
                both.run("SELECT * FROM t ORDER BY a");
            }
            both.run(end);
            both.run("SELECT * FROM t ORDER BY a");
        }
    }
}

#[test]
fn a_statement_that_fails_otherwise_leaves_nothing() {
    for both in [Both::new(), Both::typed()] {
        both.run_all(
            "CREATE TABLE t(a INTEGER PRIMARY KEY, b INTEGER NOT NULL); INSERT INTO t VALUES (1, 1)",
        );
        for or in ["", "OR ABORT", "OR ROLLBACK"] {
            both.run("BEGIN");
            both.run("INSERT INTO t VALUES (2, 2)");
            assert!(!both.run(&format!("INSERT {or} INTO t VALUES (3, 3), (3, 4) RETURNING a")));
            both.run("SELECT * FROM t ORDER BY a");
            assert_eq!(both.ours.is_autocommit(), or == "OR ROLLBACK");
            both.run("ROLLBACK");
        }
    }
}

/// A statement with too many rows is stopped after it has written all of them.
#[test]
fn a_statement_that_is_stopped_leaves_nothing() {
    let mut one = Sql::new(crate::support::database()).connect().unwrap();
    one.execute("CREATE TABLE t(a)", &[]).unwrap();
    one.confine(Confines { held_bytes: 10_000, ..Confines::default() }, || false).unwrap();
    for begin in ["SELECT 1", "BEGIN"] {
        one.query(begin, &[]).unwrap();
        let sql =
            "INSERT OR FAIL INTO t WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 1000)
                SELECT i FROM n RETURNING a";
        assert!(one.query(sql, &[]).unwrap_err().message().contains("at most 10000 bytes"), "{begin}");
        assert_eq!(one.query("SELECT count(*) FROM t", &[]).unwrap(), [[0.into()]], "{begin}");
    }
}
