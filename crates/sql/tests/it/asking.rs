//! What tools ask of a database before anything else: the same is answered as SQLite does.

use crate::support::{Both, typed};
use pando::WriteTables;
use pando_sql::Sql;

/// What both say of it in the same way: keys that are null nowhere, types and defaults as written.
const SCHEMA: &str =
    "CREATE TABLE fruit(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, price REAL DEFAULT 1.5,
         note DEFAULT 'x' COLLATE NOCASE);
     CREATE UNIQUE INDEX by_note ON fruit(note DESC, price);
     CREATE INDEX by_price ON fruit(price);
     CREATE TABLE pair(a INTEGER NOT NULL, b TEXT NOT NULL, v, PRIMARY KEY(a, b DESC)) WITHOUT ROWID;
     CREATE TABLE \"odd name\"(\"a b\" ANY, c INT CHECK(c > 0)) STRICT";

const QUESTIONS: [&str; 22] = [
    "PRAGMA table_info(fruit)",
    "PRAGMA main.table_info('FRUIT')",
    "PRAGMA table_info = fruit",
    "PRAGMA table_info(\"odd name\")",
    "PRAGMA table_info(nobody)",
    "PRAGMA table_xinfo(pair)",
    "PRAGMA index_list(fruit)",
    "PRAGMA index_list(pair)",
    "PRAGMA index_info(by_note)",
    "PRAGMA index_xinfo(by_note)",
    "PRAGMA foreign_key_list(fruit)",
    "PRAGMA table_list(fruit)",
    "SELECT * FROM pragma_table_info('fruit') WHERE pk = 0",
    "SELECT name, type, wr, strict FROM pragma_table_list WHERE schema = 'main' AND name NOT LIKE 'sqlite%'",
    "SELECT type, name, tbl_name FROM sqlite_master ORDER BY name",
    "SELECT name FROM main.sqlite_schema WHERE type = 'table' ORDER BY name",
    "SELECT sqlite_master.name FROM sqlite_master WHERE sql LIKE '%by_price%'",
    "SELECT m.name, p.name, p.type FROM sqlite_master m JOIN pragma_table_info(m.name) p
     WHERE m.type = 'table'",
    "SELECT m.name, i.name, c.name FROM sqlite_master m, pragma_index_list(m.name) i,
         pragma_index_info(i.name) c
     WHERE m.type = 'table' ORDER BY 1, 2, c.seqno",
    "SELECT count(*) FROM sqlite_master AS m WHERE EXISTS
     (SELECT 1 FROM pragma_table_info(m.tbl_name, 'main') WHERE name = 'id')",
    "DELETE FROM sqlite_master",
    "PRAGMA foreign_keys",
];

#[test]
fn tables_are_described_as_sqlite_describes_its_own() {
    describe(&Both::new());
    // What is created within a transaction is SQLite's, so that there are both kinds.
    describe(&Both::typed());
}

fn describe(both: &Both) {
    both.run_all(SCHEMA);
    for question in QUESTIONS {
        both.run(question);
    }
    // As a transaction sees them, and as soon as they are others.
    both.run_all("BEGIN; CREATE TABLE late(a); ALTER TABLE fruit ADD COLUMN more INT");
    for question in QUESTIONS {
        both.run(question);
    }
    both.run_all("ROLLBACK; DROP INDEX by_price; DROP TABLE pair");
    for question in QUESTIONS {
        both.run(question);
    }
    both.run_all("CREATE TEMP TABLE fruit(other)");
    both.run("PRAGMA table_info(fruit)");
    both.run("PRAGMA main.table_info(fruit)");
}

/// Another connection's table is seen, though this one has never named it.
#[test]
fn a_table_need_not_have_been_used() {
    let sql = Sql::new(crate::support::database());
    let (one, two) = (sql.connect().unwrap(), sql.connect().unwrap());
    assert_eq!(one.query("SELECT count(*) FROM sqlite_master", &[]).unwrap(), [[0.into()]]);
    two.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT NOT NULL DEFAULT 'x')", &[]).unwrap();
    assert_eq!(one.query("PRAGMA table_info(t)", &[]).unwrap().len(), 2);
    assert_eq!(one.query("SELECT name FROM sqlite_master", &[]).unwrap(), [["t".to_owned().into()]]);
}

#[test]
fn a_check_checks() {
    let sql = typed::Sql::new(crate::support::database());
    let connection = sql.connect().unwrap();
    connection
        .execute_batch(
            "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT UNIQUE); INSERT INTO t VALUES(1, 'x'), (2, 'y')",
        )
        .unwrap();
    let checks = ["PRAGMA integrity_check", "PRAGMA main.quick_check", "PRAGMA quick_check(1)"];
    for check in checks {
        assert_eq!(connection.query(check, &[]).unwrap(), [["ok".to_owned().into()]], "{check}");
    }
    let db = sql.database();
    let rows = db.table("rows/1.1/t").unwrap().unwrap();
    db.write(|tx| tx.delete(&rows, [0x80, 0, 0, 0, 0, 0, 0, 1])).unwrap();
    for check in checks {
        let found = connection.query(check, &[]).unwrap();
        assert!(format!("{found:?}").contains("leads to no row"), "{check}: {found:?}");
    }
}
