//! SQLite files in and out.

use pando_sql::{Sql, Value};
use std::path::Path;

fn open() -> Sql {
    Sql::new(crate::support::database())
}

const TABLES: [&str; 4] = ["artist", "album", "sale", "odd"];

/// A file with what files have: keys of each kind, indexes, defaults, values of other types than declared.
fn make(file: &Path) {
    let sqlite = rusqlite::Connection::open(file).unwrap();
    sqlite
        .execute_batch(
            "CREATE TABLE artist(id INTEGER PRIMARY KEY AUTOINCREMENT,
                 name VARCHAR(40) NOT NULL COLLATE NOCASE UNIQUE,
                 born DATE, score NUMERIC DEFAULT 0 CHECK(score >= 0));
             CREATE TABLE album(title TEXT, artist INTEGER REFERENCES artist(id) ON DELETE CASCADE,
                 price REAL, cover BLOB,
                 PRIMARY KEY(artist, title DESC)) WITHOUT ROWID;
             CREATE INDEX by_price ON album(price DESC, title);
             CREATE TABLE sale(album TEXT, count INT, at DATETIME DEFAULT CURRENT_TIMESTAMP);
             CREATE INDEX by_count ON sale(count);
             CREATE INDEX large ON sale(count) WHERE count > 10;
             CREATE TABLE odd(k TEXT PRIMARY KEY, n INTEGER);
             CREATE VIEW best AS SELECT * FROM artist WHERE score > 9;",
        )
        .unwrap();
    sqlite
        .execute_batch(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
             INSERT INTO artist SELECT i * 3, 'name ' || i, '19' || (i % 100), i % 11 FROM n;
             INSERT INTO artist VALUES (4000, 'gone', NULL, 0);
             DELETE FROM artist WHERE id = 4000;
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
             INSERT INTO album SELECT 'title ' || (i * 7919 % 2003), (1 + i % 500) * 3,
                 i / 8.0, zeroblob(i % 40) FROM n;
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
             INSERT INTO sale SELECT 'title ' || (i % 2003), CASE i % 9 WHEN 0 THEN NULL WHEN 1 THEN 'many' ELSE i END,
                 '2026-01-01' FROM n;
             DELETE FROM sale WHERE rowid % 5 = 0;
             INSERT INTO odd VALUES(NULL, 1), (NULL, 2), ('a', 3);",
        )
        .unwrap();
}

fn sqlite_rows(file: &Path, table: &str) -> Vec<Vec<Value>> {
    let sqlite = rusqlite::Connection::open(file).unwrap();
    let mut statement = sqlite.prepare(&format!("SELECT * FROM {table}")).unwrap();
    let count = statement.column_count();
    let rows = statement.query_map([], |row| (0..count).map(|column| row.get(column)).collect());
    let mut rows: Vec<Vec<Value>> = rows.unwrap().collect::<Result<_, _>>().unwrap();
    rows.sort_by_key(|row| format!("{row:?}"));
    rows
}

#[test]
fn a_file_goes_in_and_comes_out_row_for_row() {
    let dir = tempfile::tempdir().unwrap();
    let (file, back) = (dir.path().join("in.db"), dir.path().join("out.db"));
    make(&file);
    let sql = open();
    let mut seen = Vec::new();
    let report = pando_sql::import_sqlite_typed(&sql, &file, |now| seen.push(now.clone())).unwrap();
    assert_eq!((report.tables, report.rows), (4, 500 + 2000 + 2400 + 3));
    let left_out = ["view best", "index large: it is a partial index"];
    assert!(left_out.iter().all(|what| report.left_out.iter().any(|found| found == what)), "{report:?}");
    assert!(report.left_out.iter().any(|found| found.contains("REFERENCES")), "{report:?}");
    assert!(seen.iter().any(|now| now.table == "sale"));
    let connection = sql.connect().unwrap();
    for table in TABLES {
        let mut ours = connection.query(&format!("SELECT * FROM {table}"), &[]).unwrap();
        ours.sort_by_key(|row| format!("{row:?}"));
        assert_eq!(ours, sqlite_rows(&file, table), "{table}");
    }
    let plan = "EXPLAIN QUERY PLAN SELECT title FROM album WHERE price > 100 ORDER BY price DESC";
    let plan = connection.query(plan, &[]).unwrap();
    assert!(format!("{plan:?}").contains("COVERING INDEX by_price (price>?)"), "{plan:?}");
    let report = pando_sql::export_sqlite(&sql, &back, |_| {}).unwrap();
    assert_eq!((report.tables, report.rows), (4, 4903));
    for table in TABLES {
        assert_eq!(sqlite_rows(&back, table), sqlite_rows(&file, table), "{table}");
    }
    let sqlite = rusqlite::Connection::open(&back).unwrap();
    let check: String = sqlite.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
    assert!(
        sqlite.execute("INSERT INTO artist(name) VALUES('NAME 7')", []).is_err(),
        "no UNIQUE, or no NOCASE"
    );
    assert!(sqlite.execute("INSERT INTO artist(name, score) VALUES('x', -1)", []).is_err(), "no CHECK");
    // The ids of both go on after one that was given to a row that is gone.
    connection.execute("INSERT INTO artist(name) VALUES ('new')", &[]).unwrap();
    assert_eq!(connection.last_insert_row_id(), 4001);
    sqlite.execute("INSERT INTO artist(name) VALUES ('new')", []).unwrap();
    assert_eq!(sqlite.last_insert_rowid(), 4001);
    let keys: i64 = sqlite
        .query_row("SELECT count(*) FROM pragma_foreign_key_list('album')", [], |row| row.get(0))
        .unwrap();
    assert_eq!(keys, 1);
    let error = pando_sql::import_sqlite_typed(&sql, &file, |_| {}).unwrap_err();
    assert!(error.message().contains("already"), "{error}");
}

#[test]
fn a_damaged_file_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("in.db");
    make(&file);
    let whole = std::fs::read(&file).unwrap();
    let mut random = base::env::Random::seeded(7);
    let mut refused = 0;
    for round in 0..40 {
        let mut bytes = whole.clone();
        match round {
            0 => bytes.truncate(bytes.len() / 2),
            1 => bytes = b"not at all".to_vec(),
            2 => bytes[..16].fill(b'x'),
            _ => {
                for _ in 0..20 {
                    let at = random.below(bytes.len() as u64) as usize;
                    bytes[at] ^= 1 << random.below(8);
                }
            }
        }
        std::fs::write(&file, &bytes).unwrap();
        let sql = open();
        // A flipped bit may be in a value: then it is what the file says.
        if pando_sql::import_sqlite_typed(&sql, &file, |_| {}).is_err() {
            refused += 1;
            assert!(sql.connect().unwrap().tables().unwrap().is_empty(), "round {round}");
        }
    }
    assert!(refused >= 3, "{refused}");
    assert!(pando_sql::import_sqlite_typed(&open(), dir.path().join("missing"), |_| {}).is_err());
}

/// Columns of the names that SQLite has for row ids, and values that only a `STRICT` table keeps as they are.
#[test]
fn odd_names_and_strict_tables_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let (file, back) = (dir.path().join("in.db"), dir.path().join("out.db"));
    let tables = ["one", "two", "three", "strict"];
    let sqlite = rusqlite::Connection::open(&file).unwrap();
    sqlite
        .execute_batch(
            "CREATE TABLE one(rowid TEXT, a);
             INSERT INTO one(_rowid_, rowid, a) VALUES(7, 'x', 1), (9, 'x', 2);
             CREATE TABLE two(rowid, _rowid_ INTEGER, a); INSERT INTO two(oid, rowid, _rowid_) VALUES(5, 1, 1);
             CREATE TABLE three(rowid, _rowid_, oid); INSERT INTO three VALUES(1, 1, 1), (1, 1, 1);
             CREATE TABLE strict(k ANY, n ANY, PRIMARY KEY(k)) STRICT;
             INSERT INTO strict VALUES('12', '012'), (12, 1.0), (x'3132', NULL);",
        )
        .unwrap();
    drop(sqlite);
    let sql = open();
    pando_sql::import_sqlite_typed(&sql, &file, |_| {}).unwrap();
    let connection = sql.connect().unwrap();
    let all = |table: &str| {
        let mut rows = connection.query(&format!("SELECT * FROM {table}"), &[]).unwrap();
        rows.sort_by_key(|row| format!("{row:?}"));
        rows
    };
    for table in tables {
        assert_eq!(all(table), sqlite_rows(&file, table), "{table}");
    }
    let ids = connection.query("SELECT _rowid_ FROM one ORDER BY 1", &[]).unwrap();
    assert_eq!(ids, [[Value::Integer(7)], [Value::Integer(9)]]);
    let again = dir.path().join("again.db");
    rusqlite::Connection::open(&again)
        .unwrap()
        .execute_batch("CREATE TABLE zero(a); CREATE TABLE ONE(a)")
        .unwrap();
    let error = pando_sql::import_sqlite_typed(&sql, &again, |_| {}).unwrap_err();
    assert!(error.message().contains("an index ONE already"), "{error}");
    assert_eq!(connection.tables().unwrap().len(), tables.len());
    // Nobody can name the ids of its rows, there or here.
    let error = pando_sql::export_sqlite(&sql, &back, |_| {}).unwrap_err();
    assert!(error.message().contains("table three"), "{error}");
    connection.execute("DROP TABLE three", &[]).unwrap();
    pando_sql::export_sqlite(&sql, &back, |_| {}).unwrap();
    for table in ["one", "two", "strict"] {
        assert_eq!(sqlite_rows(&back, table), sqlite_rows(&file, table), "{table}");
    }
    let sqlite = rusqlite::Connection::open(&back).unwrap();
    let ids: i64 = sqlite.query_row("SELECT sum(_rowid_) FROM one", [], |row| row.get(0)).unwrap();
    assert_eq!(ids, 16);
}

/// A file that passes SQLite's check, and whose schema means harm: nothing of it runs while it is read, and what is
/// kept of it runs confined.
#[test]
fn a_hostile_schema_does_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (file, other) = (dir.path().join("in.db"), dir.path().join("other.db"));
    let sqlite = rusqlite::Connection::open(&file).unwrap();
    sqlite
        .execute_batch(
            "CREATE TABLE \"quo\"\"ted; DROP TABLE x\"(\"a\"\"b\" TEXT DEFAULT 'it''s; --',
                 CHECK(\"a\"\"b\" <> '--'));
             INSERT INTO \"quo\"\"ted; DROP TABLE x\" VALUES('1');
             CREATE TABLE trap(a, b DEFAULT (printf('%.*c', 100, 'x')), CHECK(length(b) < 200));
             INSERT INTO trap(a) VALUES(1);
             CREATE VIEW endless AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n;
             CREATE TRIGGER fires AFTER INSERT ON trap BEGIN DELETE FROM trap; END;
             CREATE VIRTUAL TABLE words USING fts5(word); INSERT INTO words VALUES('w');",
        )
        .unwrap();
    drop(sqlite);
    let sql = open();
    let report = pando_sql::import_sqlite_typed(&sql, &file, |_| {}).unwrap();
    for what in ["view endless", "trigger fires", "virtual table words"] {
        assert!(report.left_out.iter().any(|found| found == what), "{report:?}");
    }
    let mut connection = sql.connect().unwrap();
    connection.confine(pando_sql::Confines::default(), || false).unwrap();
    connection.execute("INSERT INTO \"quo\"\"ted; DROP TABLE x\" DEFAULT VALUES", &[]).unwrap();
    let error = connection.execute("INSERT INTO \"quo\"\"ted; DROP TABLE x\" VALUES('--')", &[]).unwrap_err();
    assert!(error.is_constraint(), "{error}");
    connection.execute("INSERT INTO trap(a) VALUES(2)", &[]).unwrap();
    let rows = connection.query("SELECT count(*), max(length(b)) FROM trap", &[]).unwrap();
    assert_eq!(rows, [[Value::Integer(2), Value::Integer(100)]]);
    pando_sql::export_sqlite(&sql, &other, |_| {}).unwrap();
    assert_eq!(sqlite_rows(&other, "\"quo\"\"ted; DROP TABLE x\"").len(), 2);
}
