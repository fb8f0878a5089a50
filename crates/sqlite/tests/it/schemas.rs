//! Definitions, attached databases, and export.

use crate::support::{Both, fresh, rows};

#[test]
fn definitions_change_as_in_sqlite() {
    let both = Both::new();
    for sql in [
        "CREATE TABLE t(a INTEGER PRIMARY KEY, b NOT NULL, c COLLATE NOCASE, UNIQUE(b))",
        "INSERT INTO t VALUES (1, 'x', 'A'), (2, 'y', 'a'), (3, 'z', 'b')",
        "CREATE INDEX i ON t(c, b DESC)",
        "ALTER TABLE t ADD COLUMN d DEFAULT 4",
        "ALTER TABLE t RENAME COLUMN b TO bb",
        "ALTER TABLE t RENAME TO tt",
        "ALTER TABLE tt ALTER bb DROP NOT NULL",
        "INSERT INTO tt(bb, c) VALUES (NULL, 'B'), (NULL, 'C')",
        "INSERT INTO tt(bb) VALUES ('x')",
        "SELECT * FROM tt ORDER BY bb, a",
        "SELECT * FROM tt WHERE bb = 'y'",
        "SELECT a FROM tt ORDER BY c, bb DESC, a",
        "CREATE TABLE k(a, b, c, PRIMARY KEY(c, a)) WITHOUT ROWID",
        "INSERT INTO k VALUES (1, 2, 3), (2, 2, 2), (3, 2, 1)",
        "ALTER TABLE k DROP COLUMN b",
        "INSERT INTO k VALUES (4, 1), (2, 3)",
        "SELECT * FROM k ORDER BY c, a",
        "CREATE TABLE l(a TEXT PRIMARY KEY, b TEXT) WITHOUT ROWID",
        "INSERT INTO l VALUES ('1', 'one'), ('2', NULL), ('3', 'three')",
        "SELECT b FROM l WHERE a IN (1, 2, 3) ORDER BY b ASC NULLS LAST",
        "SELECT b FROM l WHERE a IN (1, 2, 3, 4) ORDER BY b DESC NULLS FIRST",
        "SELECT b FROM l WHERE a = '3' AND b > 'one' UNION ALL SELECT b FROM l WHERE a = '1' AND b > 'one'",
        "REINDEX",
        "ANALYZE",
        "SELECT tbl, idx, stat FROM sqlite_stat1 ORDER BY idx",
        "ALTER TABLE tt DROP COLUMN d",
        "DROP INDEX i",
        "CREATE TABLE u AS SELECT c, count(*) AS n FROM tt GROUP BY c",
        "SELECT * FROM u ORDER BY c",
        "DELETE FROM u",
        "SELECT count(*) FROM u",
        "INSERT INTO u SELECT c, a FROM tt",
        "CREATE TABLE w(c, n); INSERT INTO w SELECT * FROM u",
        "CREATE VIRTUAL TABLE f USING fts5(body)",
        "INSERT INTO f VALUES ('the quick brown fox'), ('a lazy dog'), ('quick dogs')",
        "SELECT rowid, body FROM f WHERE f MATCH 'quick' ORDER BY rowid",
        "DELETE FROM f WHERE rowid = 1",
        "SELECT rowid FROM f WHERE f MATCH 'quick'",
        "DROP TABLE tt",
        "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name",
        "PRAGMA integrity_check",
    ] {
        both.query(sql);
    }
}

#[test]
fn a_trigger_cannot_change_a_row_that_its_statement_is_about_to_change() {
    let both = Both::new();
    for sql in [
        "PRAGMA recursive_triggers = true",
        "CREATE TABLE t(a UNIQUE ON CONFLICT REPLACE, b)",
        "INSERT INTO t(a, b) VALUES (4, 12), (9, 13)",
        "CREATE INDEX i ON t(b)",
        "CREATE TRIGGER r DELETE ON t BEGIN UPDATE t SET b = a; END",
        "UPDATE t SET a = 0",
        "SELECT * FROM t",
        "PRAGMA integrity_check",
    ] {
        both.query(sql);
    }
}

#[test]
fn attached_and_temporary_tables_are_sqlites_own_and_files_are_exported_and_imported() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("export.db");
    let name = file.to_str().expect("a name");
    let connection = fresh();
    connection
        .execute(
            "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT UNIQUE, c);
             CREATE TABLE k(a, b, PRIMARY KEY(b)) WITHOUT ROWID;
             INSERT INTO t VALUES (1, 'x', zeroblob(9000)), (2, 'y', 2.5); INSERT INTO k VALUES (1, 'k');
             CREATE TRIGGER r AFTER INSERT ON t BEGIN DELETE FROM k; END; PRAGMA user_version = 3;",
        )
        .expect("it runs");
    connection.execute(&format!("VACUUM INTO '{name}'")).expect("it is exported");

    let sqlite = rusqlite::Connection::open(&file).expect("stock SQLite opens it");
    let check: String =
        sqlite.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("it is whole");
    assert_eq!(check, "ok");
    let lengths: i64 =
        sqlite.query_row("SELECT sum(length(c)) FROM t", [], |row| row.get(0)).expect("it has rows");
    assert_eq!(lengths, 9003);
    drop(sqlite);

    let other = fresh();
    other.execute(&format!("ATTACH '{name}' AS file")).expect("it is attached");
    other
        .execute(
            "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT UNIQUE, c); INSERT INTO t SELECT * FROM file.t;
             CREATE TABLE k(a, b, PRIMARY KEY(b)) WITHOUT ROWID; INSERT INTO k SELECT * FROM file.k;
             CREATE TEMP TABLE mine AS SELECT * FROM t; INSERT INTO file.t VALUES (9, 'z', 1);",
        )
        .expect("it is imported");
    assert_eq!(rows(&other, "SELECT a, b, length(c) FROM t ORDER BY b"), ["1|x|9000", "2|y|3"]);
    assert_eq!(
        rows(&other, "SELECT count(*) FROM temp.mine UNION ALL SELECT count(*) FROM file.t"),
        ["2", "3"]
    );
    assert_eq!(rows(&other, "SELECT * FROM k"), ["1|k"]);
    assert_eq!(rows(&other, "PRAGMA integrity_check"), ["ok"]);
}
