//! Statements that nobody meant: whatever words come in whatever order, the answer is an error or rows, and no panic.

use crate::support::pick;
use base::env::Random;

const WORDS: [&str; 74] = [
    "INSERT",
    "OR",
    "REPLACE",
    "IGNORE",
    "INTO",
    "t",
    "main",
    ".",
    "(",
    ")",
    ",",
    "VALUES",
    "1",
    "'x'",
    "\"a\"",
    "[b",
    "ON",
    "CONFLICT",
    "DO",
    "NOTHING",
    "UPDATE",
    "SET",
    "=",
    "excluded",
    "WHERE",
    "RETURNING",
    "*",
    "DELETE",
    "FROM",
    "WITH",
    "AS",
    "SELECT",
    "id",
    "a",
    "DEFAULT",
    "?",
    "?2",
    ":n",
    "x'",
    "'",
    "é",
    ";",
    "--",
    "/*",
    "CREATE",
    "TABLE",
    "INDEX",
    "UNIQUE",
    "DROP",
    "ALTER",
    "ADD",
    "COLUMN",
    "RENAME",
    "TO",
    "IF",
    "NOT",
    "EXISTS",
    "TEMP",
    "PRAGMA",
    "table_info",
    "sqlite_master",
    "pragma_table_info",
    "VACUUM",
    "SAVEPOINT",
    "RELEASE",
    "BEGIN",
    "ROLLBACK",
    "CHECK",
    "PRIMARY",
    "KEY",
    "ORDER BY",
    "LIMIT",
    "JOIN",
    "u",
];

/// What statements begin with, so that more than their first word is read.
const BEGINNINGS: [&str; 10] = [
    "",
    "INSERT INTO t VALUES(1, 'x') ON CONFLICT(id) DO",
    "INSERT INTO t VALUES(1, 'x') ON CONFLICT(id) DO UPDATE SET a =",
    "INSERT INTO t(id) VALUES(?1) RETURNING",
    "UPDATE t SET a = 'x' WHERE",
    "DELETE FROM t RETURNING",
    "CREATE TABLE u(",
    "ALTER TABLE t",
    "PRAGMA",
    "SELECT * FROM",
];

#[test]
fn no_order_of_words_panics() {
    let sql = crate::support::typed::Sql::new(crate::support::database());
    let connection = sql.connect().unwrap();
    connection.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT DEFAULT 'd' UNIQUE)").unwrap();
    for seed in 0..6000 {
        let mut random = Random::seeded(seed);
        let mut text = pick(&mut random, &BEGINNINGS).to_owned();
        for _ in 0..random.below(14) {
            text.push_str(if random.below(8) == 0 { "" } else { " " });
            text.push_str(pick(&mut random, &WORDS));
        }
        let _ = connection.query(&text, &[]);
        let _ = connection.query(&text, &[1.into()]);
        if !connection.is_autocommit() {
            connection.execute("ROLLBACK", &[]).unwrap();
        }
    }
    let report = rows::check(&sql.database().snapshot().unwrap(), |_| {}).unwrap();
    assert_eq!(report.problems, []);
}

/// Parts of an upsert in places where they do not belong.
#[test]
fn parts_of_an_upsert_may_come_in_any_order() {
    let sql = crate::support::typed::Sql::new(crate::support::database());
    let connection = sql.connect().unwrap();
    connection.execute_batch("CREATE TABLE b(id INTEGER PRIMARY KEY, n TEXT)").unwrap();
    let parts = [
        "ON CONFLICT(id)",
        "ON CONFLICT",
        "DO",
        "DO x",
        "DO NOTHING",
        "DO UPDATE SET n = 1",
        "SET n = excluded.excluded.n",
        "WHERE n = excluded.n",
        "UPDATE",
        "RETURNING",
        "RETURNING excluded.n, n",
        "(",
        ")",
    ];
    let insert = "INSERT INTO b VALUES(1, 'x')";
    for one in parts {
        for two in parts {
            for three in parts {
                let _ = connection.query(&format!("{insert} {one} {two} {three}"), &[]);
                let _ = connection.query(&format!("{insert} ON CONFLICT(id) {one} {two} {three} {one}"), &[]);
            }
        }
    }
    let says = |statement: &str| connection.query(statement, &[]).unwrap_err().message().to_owned();
    let odd = says(&format!("{insert} ON CONFLICT(id) DO x ON CONFLICT(id) DO UPDATE SET n = 1"));
    assert!(odd.contains("syntax error"), "{odd}");
}
