//! Index keys that are longer than a page takes.

use crate::support::{Both, pick, rows};
use base::env::Random;
use pando_sqlite::Connection;

/// Returns an expression for a text: long ones differ at their beginning, around the place where keys are cut, or only
/// at their end, so that many are in one group.
fn text(random: &mut Random) -> String {
    let beginning = pick(random, &["a", "a", "a", "A", "b"]);
    let length = [1, 3, 880, 891, 892, 893, 894, 895, 1000, 5000][random.below(10) as usize];
    let end = pick(random, &["", "x", "X", " ", "  ", "y", "z", "'||char(0)||'", "long and longer"]);
    match random.below(8) {
        0 => format!("x'{}{:02x}'", "00".repeat(length), random.below(3)),
        1 => "NULL".into(),
        2 => random.below(3).to_string(),
        _ => format!("'{beginning}{}{end}'", "m".repeat(length)),
    }
}

#[test]
fn long_keys_are_ordered_sought_changed_and_deleted_as_in_sqlite() {
    let mut random = Random::seeded(11);
    let mut compared = 0;
    for round in 0..16 {
        let both = Both::new();
        let collation = pick(&mut random, &["BINARY", "NOCASE", "RTRIM"]);
        let direction = pick(&mut random, &["", "DESC"]);
        both.execute(&format!(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, v COLLATE {collation}, w);
             CREATE INDEX i ON t(v {direction}, w);
             CREATE UNIQUE INDEX u ON t(w, v) WHERE w > 1;
             CREATE TABLE k(v COLLATE {collation}, w, x, PRIMARY KEY(v {direction}, w)) WITHOUT ROWID"
        ));
        for _ in 0..60 {
            let [v, x] = [(); 2].map(|()| text(&mut random));
            let w = random.below(4);
            both.execute(&format!("INSERT OR IGNORE INTO t(v, w) VALUES ({v}, {w})"));
            both.query(&format!(
                "INSERT OR REPLACE INTO k VALUES (coalesce({v}, ''), {w}, {x}) RETURNING length(v), w"
            ));
            if random.below(4) == 0 {
                both.execute(&format!("UPDATE OR IGNORE t SET v = {x} WHERE v = {v}"));
                both.execute(&format!("DELETE FROM k WHERE v >= {x} AND w = {w}"));
                both.execute(&format!("DELETE FROM t WHERE v > {x} AND v < {v} AND w = 3"));
            }
        }
        for _ in 0..20 {
            let [v, x] = [(); 2].map(|()| text(&mut random));
            for op in ["<", "<=", "=", ">=", ">"] {
                for order in ["", "DESC"] {
                    compared += both.query(&format!(
                        "SELECT id, w, length(v), substr(v, -3) FROM t INDEXED BY i WHERE v {op} {v}
                         ORDER BY v {order}, w {order}, id {order}"
                    ));
                    compared += both.query(&format!(
                        "SELECT w, length(v), x FROM k WHERE v {op} {v} ORDER BY v {order}, w {order} LIMIT 5"
                    ));
                }
            }
            both.query(&format!("SELECT count(*) FROM t WHERE v = {v} AND w BETWEEN 1 AND 2"));
            both.query(&format!("SELECT max(w), min(w) FROM t INDEXED BY i WHERE v BETWEEN {v} AND {x}"));
            both.query(&format!("SELECT max(v), min(v) FROM k WHERE w = {}", random.below(4)));
        }
        both.query("SELECT id, v FROM t ORDER BY v, w, id");
        both.query("SELECT count(*), sum(w) FROM k");
        both.query("PRAGMA integrity_check");
        assert!(compared > 100 * round, "round {round}");
    }
}

/// The entries of one value can all be in a group of long keys: the first one that is stored is not the first in order.
#[test]
fn the_first_of_equal_values_is_found_in_a_group_of_long_keys() {
    let both = Both::new();
    both.execute(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, w, v);
         CREATE INDEX i ON t(w, v);
         WITH RECURSIVE n(x) AS (VALUES(1) UNION ALL SELECT x + 1 FROM n WHERE x < 20)
            INSERT INTO t SELECT x, x % 2, hex(zeroblob(600)) || (100 - x) FROM n",
    );
    for begin in ["", "BEGIN", "SAVEPOINT s"] {
        both.execute(begin);
        for order in ["v", "v DESC", "v LIMIT 1"] {
            let query = format!("SELECT id FROM t INDEXED BY i WHERE w = 1 ORDER BY {order}");
            assert!(both.query(&query) > 0, "{begin}: {query}");
        }
        both.query("SELECT min(v), max(v) FROM t INDEXED BY i WHERE w = 0");
        both.execute("UPDATE t SET v = v || 'x' WHERE w = 1");
    }
}

/// A group that is longer than a batch, between other groups and short keys.
#[test]
fn a_long_group_is_read_in_order_between_others() {
    let both = Both::new();
    both.execute(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, s);
         CREATE INDEX i ON t(s);
         CREATE TABLE k(s PRIMARY KEY, id) WITHOUT ROWID;
         WITH RECURSIVE n(x) AS (VALUES(1) UNION ALL SELECT x + 1 FROM n WHERE x <= 300)
            INSERT INTO t SELECT x, hex(zeroblob(1700)) || (x * 79 % 311) FROM n;
         WITH RECURSIVE n(x) AS (VALUES(1) UNION ALL SELECT x + 1 FROM n WHERE x <= 60)
            INSERT INTO t SELECT x + 2000,
                CASE x % 3 WHEN 0 THEN '' WHEN 1 THEN 'z' ELSE hex(zeroblob(700)) || 'y' END || x FROM n;
         INSERT INTO k SELECT s, id FROM t",
    );
    let middle = "hex(zeroblob(1700)) || '77'";
    for begin in ["", "BEGIN"] {
        both.execute(begin);
        assert!(both.query("SELECT id FROM t INDEXED BY i ORDER BY s") > 300);
        assert!(both.query("SELECT id FROM k ORDER BY s DESC") > 300);
        for (op, order) in [(">", "ASC"), (">=", "ASC"), ("<", "DESC"), ("<=", "DESC"), ("=", "ASC")] {
            for limit in [1, 3, 40] {
                let end = format!("WHERE s {op} {middle} ORDER BY s {order} LIMIT {limit}");
                both.query(&format!("SELECT id FROM t INDEXED BY i {end}"));
                both.query(&format!("SELECT id FROM k {end}"));
            }
        }
        both.query(&format!("SELECT max(s), count(*) FROM k WHERE s < {middle}"));
        both.query("SELECT id FROM t WHERE s > hex(zeroblob(700)) AND s < 'a' ORDER BY s DESC LIMIT 30");
    }
    both.execute(&format!("DELETE FROM t WHERE s > {middle} AND id % 3 = 0"));
    both.execute(&format!("UPDATE k SET s = s || 'x' WHERE s > {middle} AND id % 3 = 0"));
    both.query("SELECT id FROM t INDEXED BY i ORDER BY s DESC");
    both.query("SELECT id FROM k ORDER BY s");
    both.query("PRAGMA integrity_check");
}

/// A group of which a batch has a part.
#[test]
fn a_group_of_many_megabytes_is_read_in_parts() {
    let both = Both::new();
    both.execute(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, s);
         CREATE INDEX i ON t(s);
         WITH RECURSIVE n(x) AS (VALUES(1) UNION ALL SELECT x + 1 FROM n WHERE x <= 24)
            INSERT INTO t SELECT x, hex(zeroblob(500000)) || (x * 7 % 29) FROM n;
         INSERT INTO t VALUES (100, '!'), (101, 'a')",
    );
    for begin in ["", "BEGIN"] {
        both.execute(begin);
        for order in ["s", "s DESC"] {
            assert!(both.query(&format!("SELECT id FROM t INDEXED BY i ORDER BY {order}")) > 24);
        }
    }
    both.execute("DELETE FROM t WHERE s > hex(zeroblob(500000)) || 2");
    assert!(both.query("SELECT id FROM t INDEXED BY i ORDER BY s") > 2);
}

#[test]
fn the_smallest_pages_take_the_longest_keys() {
    let db = pando::Database::builder().page_bytes(4096).in_memory().expect("it opens");
    let connection = Connection::open(&db).expect("it opens");
    connection
        .execute(
            "CREATE TABLE t(a UNIQUE, b);
             WITH RECURSIVE n(i) AS (VALUES(850) UNION ALL SELECT i+1 FROM n WHERE i<1000)
                INSERT INTO t SELECT hex(zeroblob(i / 2)) || i, i FROM n;",
        )
        .expect("it runs");
    db.checkpoint().expect("it checkpoints");
    let error = connection.execute("INSERT INTO t SELECT a, 0 FROM t WHERE b = 990").expect_err("it exists");
    assert_eq!(error.code, 2067, "{error}");
    assert_eq!(rows(&connection, "SELECT count(*), sum(b) FROM t ORDER BY a"), ["151|139675"]);
    assert_eq!(rows(&connection, "SELECT b FROM t WHERE a = hex(zeroblob(499)) || 999"), ["999"]);
    assert_eq!(rows(&connection, "PRAGMA integrity_check"), ["ok"]);
}
