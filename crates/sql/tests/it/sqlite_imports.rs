//! Whole SQLite files in and out: what they define, their rows and their numbers stay as they are.

use pando_sql::{Connection, Sql, Value};
use rusqlite::functions::FunctionFlags;
use std::path::Path;

fn open() -> Sql {
    Sql::new(crate::support::database())
}

/// What files have, of each kind.
const SHOP: &str = "
    PRAGMA user_version = 7; PRAGMA application_id = 1234;
    CREATE TABLE artist(id INTEGER PRIMARY KEY AUTOINCREMENT, name VARCHAR(40) NOT NULL COLLATE NOCASE UNIQUE,
        born DATE, score NUMERIC DEFAULT 0 CHECK(score >= 0));
    CREATE TABLE album(title TEXT, artist INTEGER REFERENCES artist(id) ON DELETE CASCADE, price REAL, cover BLOB,
        gross REAL AS (price * 1.2), label TEXT AS (upper(title)) STORED,
        PRIMARY KEY(artist, title DESC)) WITHOUT ROWID;
    CREATE TABLE sale(album TEXT, count INT UNIQUE ON CONFLICT REPLACE, at DATETIME DEFAULT CURRENT_TIMESTAMP);
    CREATE TABLE odd(rowid TEXT, k TEXT PRIMARY KEY, n ANY) STRICT;
    CREATE TABLE [a table; with 'names'](\"select\", `from`, PRIMARY KEY(\"select\"));
    CREATE INDEX by_price ON album(price DESC, title) WHERE price > 2;
    CREATE INDEX by_length ON album(length(title), label);
    CREATE VIEW best AS SELECT name, (SELECT count(*) FROM album WHERE artist = artist.id) AS albums
        FROM artist WHERE score > 9;
    CREATE TABLE log(what);
    CREATE TRIGGER sold AFTER INSERT ON sale BEGIN INSERT INTO log VALUES (new.album); END;
    CREATE TRIGGER renamed INSTEAD OF UPDATE OF name ON best BEGIN
        UPDATE artist SET name = new.name WHERE name = old.name; END;
    CREATE VIRTUAL TABLE words USING fts5(body, tokenize = 'porter');
    CREATE VIRTUAL TABLE titles USING fts5(album, content = 'sale', content_rowid = 'rowid');
    CREATE VIRTUAL TABLE copies USING fts4(content=\"sale\");
    CREATE VIRTUAL TABLE terms USING fts5vocab('words', 'row');
    CREATE VIRTUAL TABLE old_words USING fts4(body);
    CREATE VIRTUAL TABLE places USING rtree(id, x0, x1, y0, y1);
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400)
        INSERT INTO artist SELECT i * 3, 'name ' || i, '19' || (i % 100), i % 11 FROM n;
    INSERT INTO artist VALUES (4000, 'gone', NULL, 0); DELETE FROM artist WHERE id = 4000;
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 900)
        INSERT INTO album(title, artist, price, cover)
        SELECT 'title ' || i, (1 + i % 400) * 3, i / 8.0, zeroblob(i % 40) FROM n;
    INSERT INTO sale(rowid, album, count) VALUES (9, 'nine', 1), (-3, x'00ff', 2), (70000000000, 7.5, 3), (12, NULL, 2);
    INSERT INTO odd VALUES ('x', 'a', 1), ('y', 'b', x'01'), (NULL, 'c', 'text');
    INSERT INTO [a table; with 'names'] VALUES (NULL, 1), (NULL, 2), ('k', 3);
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300)
        INSERT INTO words SELECT 'running number ' || i || ' of many' FROM n;
    DELETE FROM words WHERE rowid % 3 = 0;
    INSERT INTO titles(titles) VALUES ('rebuild'); INSERT INTO copies(copies) VALUES ('rebuild');
    INSERT INTO log VALUES ('a' || char(0) || 'b'), (CAST(x'ff6100' AS TEXT));
    INSERT INTO old_words VALUES ('the quick fox'), ('a lazy dog');
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200)
        INSERT INTO places SELECT i, i, i + 5, -i, 1 FROM n;
";

/// What a file or a database has to show for it.
const QUESTIONS: [&str; 15] = [
    "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name",
    "SELECT * FROM artist",
    "SELECT * FROM album ORDER BY artist, title",
    "SELECT rowid, album, count FROM sale ORDER BY rowid",
    "SELECT _rowid_, * FROM odd ORDER BY k",
    "SELECT rowid, * FROM [a table; with 'names'] ORDER BY rowid",
    "SELECT * FROM best ORDER BY name",
    "SELECT rowid, hex(what), typeof(what) FROM log ORDER BY rowid",
    "SELECT rowid FROM copies WHERE copies MATCH 'nine'",
    "SELECT term, cnt FROM terms WHERE term > 'm' ORDER BY term",
    "SELECT rowid, body FROM words WHERE words MATCH 'run AND number' ORDER BY rowid",
    "SELECT rowid FROM titles WHERE titles MATCH 'nine'",
    "SELECT rowid, body FROM old_words WHERE old_words MATCH 'quick'",
    "SELECT id, x0, y1 FROM places WHERE x0 > 50 AND y0 < -100 ORDER BY id",
    "SELECT * FROM sqlite_sequence",
];

/// Changes that use what was defined.
const CHANGES: &str = "
    INSERT INTO artist(name) VALUES ('new'); DELETE FROM artist WHERE id = 30;
    INSERT INTO sale(album, count) VALUES ('ten', 2);
    UPDATE best SET name = 'best of all' WHERE name = 'name 10';
    INSERT INTO words VALUES ('running late'); DELETE FROM words WHERE rowid = 1;
    INSERT INTO old_words VALUES ('quick again'); DELETE FROM places WHERE id = 60;
";

fn make(file: &Path, sql: &str) {
    rusqlite::Connection::open(file).unwrap().execute_batch(sql).unwrap();
}

fn of_file(file: &Path, question: &str) -> Vec<Vec<Value>> {
    let sqlite = rusqlite::Connection::open(file).unwrap();
    let mut statement = sqlite.prepare(question).unwrap();
    let count = statement.column_count();
    let rows = statement.query_map([], |row| (0..count).map(|column| row.get(column)).collect()).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

fn of_database(connection: &Connection, question: &str) -> Vec<Vec<Value>> {
    connection.query(question, &[]).unwrap_or_else(|error| panic!("{question}: {error}"))
}

#[test]
fn a_file_goes_in_whole_and_comes_out_whole() {
    let dir = tempfile::tempdir().unwrap();
    let (file, back) = (dir.path().join("in.db"), dir.path().join("out.db"));
    make(&file, SHOP);
    let sql = open();
    let mut seen = Vec::new();
    let report = pando_sql::import_sqlite(&sql, &file, |now| seen.push(now.clone())).unwrap();
    assert_eq!(report.left_out, [""; 0]);
    assert!(seen.iter().any(|now| now.table == "sale") && report.rows > 1500, "{report:?}");
    let connection = sql.connect().unwrap();
    for question in QUESTIONS {
        assert_eq!(of_database(&connection, question), of_file(&file, question), "{question}");
    }
    let numbers = ["PRAGMA user_version", "PRAGMA application_id", "PRAGMA integrity_check"];
    assert_eq!(
        numbers.map(|number| of_database(&connection, number)[0][0].clone()),
        [Value::Integer(7), Value::Integer(1234), Value::Text("ok".to_owned())]
    );
    pando_sql::export_sqlite(&sql, &back, |_| {}).unwrap();
    for question in QUESTIONS {
        assert_eq!(of_file(&back, question), of_file(&file, question), "{question}");
    }

    // It all still works.
    connection.execute("PRAGMA foreign_keys = ON", &[]).unwrap();
    for statement in [
        "INSERT INTO artist(name, score) VALUES ('x', -1)",
        "INSERT INTO artist(name) VALUES ('NAME 7')",
        "INSERT INTO album(title, artist) VALUES ('t', 1)",
        "INSERT INTO odd VALUES (x'01', 'd', 1)",
    ] {
        assert!(connection.execute(statement, &[]).is_err(), "{statement}");
    }
    make(&file, &format!("PRAGMA foreign_keys = ON; {CHANGES}"));
    connection.execute_batch(CHANGES).unwrap();
    for question in QUESTIONS {
        assert_eq!(of_database(&connection, question), of_file(&file, question), "{question}");
    }
    for table in ["words", "titles", "old_words"] {
        connection.execute(&format!("INSERT INTO {table}({table}) VALUES ('integrity-check')"), &[]).unwrap();
    }
    assert_eq!(of_database(&connection, "SELECT rtreecheck('places')"), [[Value::Text("ok".to_owned())]]);
}

/// A name that is taken, by a table of either kind, is refused, and nothing of the file stays.
#[test]
fn what_fails_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("in.db");
    make(&file, SHOP);
    for taken in [
        "CREATE TABLE SALE(a)",
        "CREATE VIEW best AS SELECT 1",
        "CREATE TABLE other(a); CREATE INDEX by_length ON other(a)",
        "CREATE TABLE words_data(a)",
        "CREATE TABLE Words(a)",
    ] {
        let sql = open();
        let connection = sql.connect().unwrap();
        connection.execute_batch(taken).unwrap();
        let before = of_database(&connection, QUESTIONS[0]);
        let error = pando_sql::import_sqlite(&sql, &file, |_| {}).unwrap_err();
        assert!(error.message().contains("already"), "{taken}: {error}");
        assert_eq!(of_database(&connection, QUESTIONS[0]), before, "{taken}");
    }
    for name in ["Album", "by_price", "BEST"] {
        let sql = open();
        let definition =
            rows::Definition::new(name).column(rows::Column::new("a", rows::ColumnType::Int)).key(["a"]);
        sql.database().write(|tx| rows::DynamicTable::create(tx, &definition)).unwrap();
        let error = pando_sql::import_sqlite(&sql, &file, |_| {}).unwrap_err();
        assert!(error.message().contains("already"), "{name}: {error}");
        assert_eq!(sql.connect().unwrap().tables().unwrap().len(), 1, "{name}");
    }
    let sql = open();
    pando_sql::import_sqlite(&sql, &file, |_| {}).unwrap();
    let connection = sql.connect().unwrap();
    let before = QUESTIONS.map(|question| of_database(&connection, question));
    let error = pando_sql::import_sqlite(&sql, &file, |_| {}).unwrap_err();
    assert!(error.message().contains("already"), "{error}");
    assert_eq!(QUESTIONS.map(|question| of_database(&connection, question)), before);
}

/// What needs a program that made the file is named: a module is left out, a function or a collation is an error.
#[test]
fn what_needs_another_program_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("in.db");
    make(&file, "CREATE TABLE t(a); INSERT INTO t VALUES (1); PRAGMA user_version = 3; ANALYZE");
    make(
        &file,
        "PRAGMA writable_schema = ON; INSERT INTO sqlite_schema VALUES
         ('table', 'shapes', 'shapes', 0, 'CREATE VIRTUAL TABLE shapes USING of_maps(a)')",
    );
    let sql = open();
    sql.connect().unwrap().execute("PRAGMA user_version = 4", &[]).unwrap();
    let mut first = None;
    let report = pando_sql::import_sqlite(&sql, &file, |now| {
        first.get_or_insert_with(|| now.clone());
    })
    .unwrap();
    // All of it is known before the first row is copied.
    assert_eq!(first.map(|now| (now.rows, now.left_out)), Some((0, report.left_out.clone())));
    assert_eq!(
        report.left_out,
        [
            "table sqlite_stat1: run ANALYZE",
            "table sqlite_stat4: run ANALYZE",
            "virtual table shapes: no such module: of_maps",
            "user_version 3: the database has another one"
        ]
    );
    assert_eq!((report.tables, report.rows), (1, 1));
    let other = dir.path().join("other.db");
    let sqlite = rusqlite::Connection::open(&other).unwrap();
    let flags = FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_UTF8;
    sqlite.create_scalar_function("of_mine", 1, flags, |call| call.get::<i64>(0)).unwrap();
    sqlite
        .execute_batch("CREATE TABLE t(a); CREATE INDEX i ON t(of_mine(a)); INSERT INTO t VALUES (1)")
        .unwrap();
    drop(sqlite);
    let sql = open();
    let error = pando_sql::import_sqlite(&sql, &other, |_| {}).unwrap_err();
    let message = error.message();
    assert!(message.contains("other.db: ") && message.contains("of_mine"), "{error}");
    assert!(sql.connect().unwrap().tables().unwrap().is_empty());
}

#[test]
fn a_damaged_file_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("in.db");
    make(&file, SHOP);
    let whole = std::fs::read(&file).unwrap();
    let mut random = base::env::Random::seeded(7);
    let mut refused = 0;
    for round in 0..30 {
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
        if pando_sql::import_sqlite(&sql, &file, |_| {}).is_err() {
            refused += 1;
            assert!(sql.connect().unwrap().tables().unwrap().is_empty(), "round {round}");
        }
    }
    assert!(refused >= 3, "{refused}");
}

/// Counters are those of the tables that are copied, and of no others.
#[test]
fn counters_of_other_tables_stay() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("in.db");
    make(
        &file,
        "CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT); INSERT INTO t VALUES (7);
         INSERT INTO sqlite_sequence VALUES ('orders', 3), ('later', 4), ('t', 99), (NULL, 1)",
    );
    let sql = open();
    let connection = sql.connect().unwrap();
    connection
        .execute_batch(
            "CREATE TABLE orders(id INTEGER PRIMARY KEY AUTOINCREMENT); INSERT INTO orders VALUES (5000)",
        )
        .unwrap();
    pando_sql::import_sqlite(&sql, &file, |_| {}).unwrap();
    let counters = of_database(&connection, "SELECT name, seq FROM sqlite_sequence ORDER BY name");
    let counter = |name: &str, seq: i64| vec![Value::Text(name.to_owned()), Value::Integer(seq)];
    assert_eq!(counters, [counter("orders", 5000), counter("t", 7)]);
}

/// Rows that are older than a `CHECK` go in and out, as often as one likes.
#[test]
fn rows_that_a_check_would_refuse_now_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let [file, back] = ["in.db", "out.db"].map(|name| dir.path().join(name));
    make(
        &file,
        "CREATE TABLE t(a CHECK (a > 0)); PRAGMA ignore_check_constraints = ON;
         INSERT INTO t VALUES (-1), (1)",
    );
    let sql = open();
    pando_sql::import_sqlite(&sql, &file, |_| {}).unwrap();
    pando_sql::export_sqlite(&sql, &back, |_| {}).unwrap();
    let again = open();
    pando_sql::import_sqlite(&again, &back, |_| {}).unwrap();
    let connection = again.connect().unwrap();
    assert_eq!(of_database(&connection, "SELECT a FROM t"), [[Value::Integer(-1)], [Value::Integer(1)]]);
    assert!(connection.execute("INSERT INTO t VALUES (-2)", &[]).is_err());
}

/// Their bytes differ then, and so can their order.
#[test]
fn texts_of_utf_16_are_converted_and_that_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("in.db");
    make(
        &file,
        "PRAGMA encoding = 'UTF-16le'; CREATE TABLE t(a TEXT UNIQUE ON CONFLICT REPLACE);
         INSERT INTO t VALUES ('äöü'), ('x')",
    );
    let sql = open();
    let report = pando_sql::import_sqlite(&sql, &file, |_| {}).unwrap();
    assert_eq!(report.left_out, ["encoding UTF-16le: texts are stored in UTF-8"]);
    let connection = sql.connect().unwrap();
    assert_eq!(of_database(&connection, "SELECT a FROM t"), of_file(&file, "SELECT a FROM t"));
}
