//! Pragmas about files, which Pando's databases are not.

use crate::support::{is_over_a_store, rows};
use pando::Database;
use pando_sqlite::Connection;

#[test]
fn a_locking_mode_is_shown_as_it_was_set() {
    let db = Database::builder().in_memory().expect("it opens");
    let connection = Connection::open(&db).expect("it opens");
    let mode = |pragma: &str| rows(&connection, &format!("PRAGMA {pragma}"));
    assert_eq!(mode("main.locking_mode"), ["normal"]);
    for (set, shown) in [("EXCLUSIVE", "exclusive"), ("normal", "normal"), ("EXCLUSIVE", "exclusive")] {
        assert_eq!(mode(&format!("locking_mode = {set}")), [shown]);
        assert_eq!([mode("locking_mode"), mode("main.locking_mode")], [[shown], [shown]]);
    }
    assert_eq!(mode("main.locking_mode = NORMAL"), ["normal"]);
    assert_eq!([mode("locking_mode"), mode("main.locking_mode")], [["exclusive"], ["normal"]]);
    // It excludes nobody.
    mode("locking_mode = EXCLUSIVE");
    connection.execute("CREATE TABLE t(a)").expect("it is created");
    Connection::open(&db).expect("it opens").execute("INSERT INTO t VALUES (1)").expect("it writes");
}

#[test]
fn the_page_size_is_that_of_the_database() {
    if is_over_a_store() {
        return;
    }
    for bytes in [4096, 16384, 65536] {
        let db = Database::builder().page_bytes(bytes).in_memory().expect("it opens");
        let connection = Connection::open(&db).expect("it opens");
        for set in ["", "PRAGMA page_size = 8192", "CREATE TABLE t(a); VACUUM"] {
            connection.execute(set).expect("it runs");
            assert_eq!(rows(&connection, "PRAGMA page_size"), [bytes.to_string()], "{set}");
        }
    }
}
