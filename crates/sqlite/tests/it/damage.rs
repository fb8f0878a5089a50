//! Damaged pages: a check of the database reports them, and one of a single table reads that table alone.

use crate::support::rows;
use pando::{Database, TableOptions};
use pando_sqlite::Connection;

#[test]
fn a_check_of_the_database_reads_all_pages_and_one_of_a_table_its_own() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Database::create(dir.path()).expect("it is created");
    let connection = Connection::open(&db).expect("a connection opens");
    // SQLite begins with what was made last. A view has no tree.
    connection
        .execute("CREATE TABLE t(a); INSERT INTO t VALUES (1); CREATE VIEW v AS SELECT 1")
        .expect("they are made");
    drop(connection);
    let table = db.create_table("bytes", &TableOptions::default()).expect("it is created");
    for key in 0..100_u32 {
        db.put(&table, key.to_be_bytes(), [7; 100]).expect("it is put");
    }
    db.checkpoint().expect("pages are written");
    db.close().expect("it closes");
    let data = dir.path().join("data");
    let mut damaged = std::fs::read(&data).expect("it is read");
    let at = damaged.windows(100).rposition(|bytes| bytes == [7; 100]).expect("the records are in a page");
    damaged[at] ^= 1;
    std::fs::write(&data, damaged).expect("it is written");

    let db = Database::open(dir.path()).expect("it opens");
    let connection = Connection::open(&db).expect("a connection opens");
    for check in ["quick_check(t)", "integrity_check(t)"] {
        assert_eq!(rows(&connection, &format!("PRAGMA {check}")), ["ok"], "{check}");
    }
    for check in ["quick_check", "integrity_check", "integrity_check(7)"] {
        let found = rows(&connection, &format!("PRAGMA {check}"));
        assert!(found.len() == 1 && found[0].contains("page"), "{check}: {found:?}");
    }
}
