//! `PRAGMA data_version`, by which programs and FTS5 notice that what they have read may have changed.

use crate::support::{database, is_over_a_store, rows};
use pando_sqlite::Connection;

#[test]
fn the_data_version_of_a_transaction_is_that_of_what_it_reads() {
    if is_over_a_store() {
        return; // Its commits have no numbers.
    }
    let db = database();
    let [one, other] = [(), ()].map(|()| Connection::open(&db).expect("it opens"));
    one.execute("CREATE TABLE t(a)").expect("it is created");
    let version = |of: &Connection| rows(of, "PRAGMA data_version");
    for (begin, end) in [("BEGIN", "COMMIT"), ("BEGIN", "ROLLBACK"), ("SAVEPOINT s", "RELEASE s")] {
        one.execute(begin).expect("it begins");
        let (count, before) = (rows(&one, "SELECT count(*) FROM t"), version(&one));
        other.execute("INSERT INTO t VALUES (1)").expect("nothing excludes it");
        assert_eq!((rows(&one, "SELECT count(*) FROM t"), version(&one)), (count.clone(), before.clone()));
        assert_ne!(version(&other), before);
        one.execute(end).expect("it has written nothing");
        let after = version(&one);
        assert_ne!(rows(&one, "SELECT count(*) FROM t"), count);
        assert_ne!(after, before, "{begin}, {end}");
        assert_eq!(after, version(&other), "both read the same state");
    }
    // Own writes are no commit.
    one.execute("BEGIN").expect("it begins");
    let before = version(&one);
    one.execute("INSERT INTO t VALUES (2)").expect("it writes");
    assert_eq!(version(&one), before);
    one.execute("COMMIT").expect("nothing was committed meanwhile");
    assert_ne!(version(&one), before);
}

#[test]
fn an_index_of_fts5_stays_whole_if_it_was_read_in_a_transaction_beside_commits() {
    let db = database();
    let [one, other] = [(), ()].map(|()| Connection::open(&db).expect("it opens"));
    one.execute(
        "CREATE TABLE t(a); CREATE VIRTUAL TABLE f USING fts5(x); INSERT INTO f VALUES ('hello one')",
    )
    .expect("it is created");
    assert_eq!(rows(&one, "SELECT * FROM f('hello')"), ["hello one"]);
    one.execute("BEGIN").expect("it begins");
    assert_eq!(rows(&one, "SELECT count(*) FROM t"), ["0"]);
    for _ in 0..20 {
        other.execute("INSERT INTO f VALUES ('hello two')").expect("nothing excludes it");
    }
    other.execute("INSERT INTO f(f) VALUES ('optimize')").expect("nothing excludes it");
    assert_eq!(rows(&one, "SELECT * FROM f('hello')"), ["hello one"]);
    one.execute("COMMIT").expect("it has written nothing");
    assert_eq!(rows(&one, "SELECT count(*) FROM f('hello')"), ["21"]);
    assert_eq!(rows(&one, "SELECT count(*) FROM f('two')"), ["20"]);
    one.execute("INSERT INTO f VALUES ('hello three')").expect("it writes");
    for connection in [&one, &other] {
        assert_eq!(rows(connection, "SELECT count(*) FROM f('hello')"), ["22"]);
        connection.execute("INSERT INTO f(f) VALUES ('integrity-check')").expect("it is whole");
    }
}
