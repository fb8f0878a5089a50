//! The order of indexes: that of SQLite's comparison, for every kind of value, collation and direction.

use crate::support::{Both, pick};
use base::env::Random;

/// Literals that are close to one another in some order.
const VALUES: &[&str] = &[
    "NULL",
    "0",
    "-0.0",
    "0.0",
    "1",
    "1.0",
    "-1",
    "1.5",
    "-1.5",
    "2",
    "127",
    "128",
    "-128",
    "-129",
    "32768",
    "8388608",
    "1e-300",
    "-1e-300",
    "1e300",
    "-1e300",
    "9e999",
    "-9e999",
    "9007199254740992",
    "9007199254740993",
    "9007199254740992.0",
    "9007199254740994.0",
    "-9007199254740993",
    "-9007199254740992.0",
    "9223372036854775807",
    "9223372036854775806",
    "9223372036854775808.0",
    "9223372036854774784.0",
    "9223372036854775295",
    "-9223372036854775808",
    "-9223372036854775807",
    "-9223372036854775808.0",
    "9223372036854775296.0",
    "''",
    "'a'",
    "'A'",
    "'aB'",
    "'Ab'",
    "'ab '",
    "'ab  '",
    "' ab'",
    "'b'",
    "'Z'",
    "'['",
    "'_'",
    "'é'",
    "'É'",
    "char(0)",
    "'a'||char(0)",
    "'A'||char(0)||'b'",
    "'a'||char(0)||'c'",
    "'a'||char(0)||' '",
    "'a'||char(255)",
    "x''",
    "x'00'",
    "x'0000'",
    "x'00ff'",
    "x'61'",
    "x'6100'",
    "x'61ff'",
    "x'ff'",
    "x'ffff'",
    "zeroblob(3)",
];

const COLLATIONS: &[&str] = &["BINARY", "NOCASE", "RTRIM"];

#[test]
fn every_pair_of_values_is_ordered_as_sqlite_orders_it() {
    for collation in COLLATIONS {
        for direction in ["ASC", "DESC"] {
            let both = Both::new();
            both.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, v)");
            both.execute(&format!("CREATE INDEX i ON t(v COLLATE {collation} {direction})"));
            for value in VALUES {
                both.execute(&format!("INSERT INTO t(v) VALUES ({value})"));
            }
            for order in ["ASC", "DESC"] {
                let by = format!("FROM t INDEXED BY i ORDER BY v COLLATE {collation} {order}, id");
                assert_eq!(both.query(&format!("SELECT id, v, typeof(v) {by}")), VALUES.len());
            }
            for value in VALUES {
                for op in ["<", "<=", "=", ">=", ">", "IS"] {
                    both.query(&format!(
                        "SELECT id, v FROM t WHERE v COLLATE {collation} {op} {value} \
                         ORDER BY v COLLATE {collation}, id"
                    ));
                    both.query(&format!(
                        "SELECT v FROM t WHERE v COLLATE {collation} {op} {value} \
                         ORDER BY v COLLATE {collation} DESC, id DESC LIMIT 3"
                    ));
                }
            }
            both.query("PRAGMA integrity_check");
        }
    }
}

#[test]
fn keys_of_several_columns_and_of_rowless_tables_are_ordered_as_in_sqlite() {
    let mut random = Random::seeded(7);
    for round in 0..20 {
        let both = Both::new();
        let (one, two) = (pick(&mut random, COLLATIONS), pick(&mut random, COLLATIONS));
        let (first, second) = (pick(&mut random, &["", "DESC"]), pick(&mut random, &["", "DESC"]));
        both.execute(&format!(
            "CREATE TABLE t(a COLLATE {one}, b COLLATE {two}, c, PRIMARY KEY(a {first}, b {second}))
             WITHOUT ROWID"
        ));
        both.execute(&format!("CREATE UNIQUE INDEX i ON t(b {second}, a {first}); CREATE INDEX j ON t(c)"));
        for _ in 0..150 {
            let [a, b, c] = [(); 3].map(|()| pick(&mut random, VALUES));
            both.execute(&format!("INSERT OR IGNORE INTO t VALUES ({a}, {b}, {c})"));
            if random.below(3) == 0 {
                both.execute(&format!("INSERT OR REPLACE INTO t VALUES ({b}, {a}, {c})"));
                both.execute(&format!("UPDATE OR IGNORE t SET b = {c} WHERE a = {a}"));
                both.execute(&format!("DELETE FROM t WHERE c > {c} AND b < {b}"));
            }
        }
        let [a, b] = [(); 2].map(|()| pick(&mut random, VALUES));
        for sql in [
            "SELECT a, b, c FROM t ORDER BY a, b",
            "SELECT a, b, c FROM t ORDER BY b DESC, a",
            "SELECT c, a, b FROM t ORDER BY c, a, b",
            &format!("SELECT * FROM t WHERE a >= {a} AND a < {b} ORDER BY a DESC, b DESC"),
            &format!("SELECT * FROM t WHERE b = {b} AND a <= {a} ORDER BY a, b, c"),
            "SELECT count(*) FROM t",
            "PRAGMA integrity_check",
        ] {
            assert!(both.query(sql) < 1000, "round {round}");
        }
    }
}
