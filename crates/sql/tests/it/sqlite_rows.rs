//! Tables that SQLite made, read as typed tables: each value is the one that SQL returns.

use base::env::Random;
use pando::{Database, ErrorKind};
use pando_sqlite::{Connection, Value as Sql};
use rows::{Batch, BatchScan, Bounds, Cause, ColumnType, Definition, DynamicTable, KeyRange, Value};
use std::ops::Bound;

fn made(sql: &str) -> (Database, Connection) {
    let db = Database::builder().in_memory().unwrap();
    let connection = Connection::open(&db).unwrap();
    connection.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    (db, connection)
}

/// Returns a value as SQL shows it.
fn in_sql(value: &Value<'_>) -> Sql {
    match value {
        Value::Null => Sql::Null,
        Value::Int(number) => Sql::Integer(*number),
        Value::Float(number) => Sql::Real(*number),
        Value::Text(text) => Sql::Text(text.to_string()),
        Value::Bytes(bytes) => Sql::Blob(bytes.to_vec()),
        other => panic!("{other:?} is no value of SQLite"),
    }
}

fn all_in_sql(rows: Vec<Vec<Value<'_>>>) -> Vec<Vec<Sql>> {
    rows.iter().map(|row| row.iter().map(in_sql).collect()).collect()
}

fn scanned(db: &Database, table: &str) -> Vec<Vec<Sql>> {
    let snapshot = db.snapshot().unwrap();
    let table = DynamicTable::expect(&snapshot, table).unwrap();
    let scan = table.scan(&snapshot, &KeyRange::all()).unwrap();
    all_in_sql(scan.map(|row| row.unwrap()).collect())
}

/// Reads by batches, forwards or backwards.
fn batched(
    table: &DynamicTable,
    db: &Database,
    index: Option<&str>,
    bounds: &Bounds<'_>,
    back: bool,
) -> Vec<Vec<Sql>> {
    let snapshot = db.snapshot().unwrap();
    let mut scan = BatchScan::new(table, index, bounds, back, false).unwrap();
    let (mut batch, mut rows) = (Batch::default(), Vec::new());
    while !scan.is_done() {
        scan.fill(&snapshot, 3, &mut batch).unwrap();
        for row in 0..batch.len() {
            let columns = 0..table.schema().columns().count();
            rows.push(columns.map(|place| in_sql(&scan.value(&mut batch, row, place).unwrap())).collect());
        }
    }
    rows
}

/// Tables `t`, the columns to select, and the order of their key. Values are integers, floats, texts and blobs where
/// the type of the column allows them.
const TABLES: &[(&str, &str, &str)] = &[
    ("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT, c REAL, d, e BLOB, f NUMERIC)", "*", "a"),
    ("CREATE TABLE t(a INT, b TEXT, c REAL, d, e BLOB, f NUMERIC)", "rowid, *", "rowid"),
    ("CREATE TABLE t(b TEXT, c REAL, a INTEGER PRIMARY KEY, d, e BLOB, f NUMERIC)", "*", "a"),
    (
        "CREATE TABLE t(a INT, b TEXT, c REAL, d, e BLOB, f NUMERIC, PRIMARY KEY(b, a)) WITHOUT ROWID",
        "*",
        "b, a",
    ),
    (
        "CREATE TABLE t(a INT, b TEXT COLLATE NOCASE, c REAL, d, e BLOB, f NUMERIC, \
        PRIMARY KEY(c DESC, b, a)) WITHOUT ROWID",
        "*",
        "c DESC, b, a",
    ),
    (
        "CREATE TABLE t(rowid TEXT, a INT, b TEXT, c REAL, d ANY, e BLOB, f ANY, \
        g TEXT AS (b || c) STORED) STRICT",
        "_rowid_, *",
        "_rowid_",
    ),
];

const INDEXES: &str = "CREATE INDEX i_b ON t(b);
    CREATE INDEX i_ca ON t(c DESC, a);
    CREATE INDEX i_d ON t(d, b COLLATE RTRIM);
    CREATE INDEX i_odd ON t(a + 1); CREATE INDEX i_part ON t(a) WHERE a > 3;";

fn literal(random: &mut Random, column: &str) -> String {
    if random.below(6) == 0 {
        return if "abc".contains(column) { "0".into() } else { "NULL".into() };
    }
    let number = [0, 1, -1, 7, 300, -70_000, 1 << 40, i64::MAX, i64::MIN + 1][random.below(9) as usize];
    let float = ["0.0", "-2.5", "3.0", "1e300", "9007199254740993.0", "-1e-9"][random.below(6) as usize];
    let text = ["''", "'a'", "'A'", "'ab '", "'ab'", "'ü'", "'a' || char(0) || 'b'", "'5'"]
        [random.below(8) as usize];
    let blob = ["x''", "x'00'", "x'00ff'", "x'6162'"][random.below(4) as usize];
    match column {
        "a" => number.to_string(),
        "b" => text.to_owned(),
        "c" => float.to_owned(),
        "e" => blob.to_owned(),
        _ => match random.below(4) {
            0 => number.to_string(),
            1 => float.to_owned(),
            2 => text.to_owned(),
            _ => blob.to_owned(),
        },
    }
}

#[test]
fn random_rows_are_those_of_sql() {
    for seed in 0..12 {
        let (create, select, order) = TABLES[seed as usize % TABLES.len()];
        let (db, connection) = made(&format!("{create}; {INDEXES}"));
        let mut random = Random::seeded(seed);
        for _ in 0..60 {
            let values: Vec<_> =
                ["a", "b", "c", "d", "e", "f"].map(|column| literal(&mut random, column)).into();
            connection
                .execute(&format!(
                    "INSERT OR REPLACE INTO t(a, b, c, d, e, f) VALUES ({})",
                    values.join(", ")
                ))
                .unwrap();
        }
        connection
            .execute("ALTER TABLE t ADD COLUMN h INT DEFAULT (7); ALTER TABLE t ADD COLUMN i TEXT")
            .unwrap();
        for _ in 0..9 {
            let values: Vec<_> =
                ["a", "b", "c", "d", "e", "f"].map(|column| literal(&mut random, column)).into();
            connection
                .execute(&format!(
                    "INSERT OR REPLACE INTO t(a, b, c, d, e, f, h) VALUES ({}, 8)",
                    values.join(", ")
                ))
                .unwrap();
        }
        let of_sql = |filter: &str, order: &str| {
            connection.query(&format!("SELECT {select} FROM t {filter} ORDER BY {order}")).unwrap()
        };
        assert_eq!(scanned(&db, "t"), of_sql("", order), "seed {seed}: {create}");

        let snapshot = db.snapshot().unwrap();
        let table = DynamicTable::expect(&snapshot, "t").unwrap();
        let names: Vec<_> = table.schema().indexes().iter().map(rows::Index::name).collect();
        assert_eq!(names, ["i_b", "i_ca", "i_d"], "seed {seed}");
        let backwards: Vec<_> = of_sql("", order).into_iter().rev().collect();
        assert_eq!(batched(&table, &db, None, &Bounds::default(), true), backwards, "seed {seed}");
        // Where rows are equal in an index, those of SQL are in the order of the key.
        for (index, by) in [("i_b", "b"), ("i_ca", "c DESC, a"), ("i_d", "d, b COLLATE RTRIM")] {
            let wanted = of_sql(&format!("INDEXED BY {index}"), &format!("{by}, {order}"));
            let scan = table.scan_index(&snapshot, index, &KeyRange::all()).unwrap();
            assert_eq!(all_in_sql(scan.map(|row| row.unwrap()).collect()), wanted, "seed {seed}: {index}");
            assert_eq!(
                batched(&table, &db, Some(index), &Bounds::default(), false),
                wanted,
                "seed {seed}: {index}"
            );
        }
        let (low, high) = (Value::Float(-2.5), Value::Float(3.0));
        let bounds = Bounds { equal: Vec::new(), lower: Bound::Excluded(low), upper: Bound::Included(high) };
        let wanted = of_sql("INDEXED BY i_ca WHERE c > -2.5 AND c <= 3.0", &format!("c DESC, a, {order}"));
        assert_eq!(batched(&table, &db, Some("i_ca"), &bounds, false), wanted, "seed {seed}");
        for text in ["a", "AB", ""] {
            let wanted = of_sql(&format!("WHERE b = '{text}'"), order);
            let key = [Value::from(text)];
            let scan = table.scan_index(&snapshot, "i_b", &KeyRange::prefix(&key)).unwrap();
            assert_eq!(all_in_sql(scan.map(|row| row.unwrap()).collect()), wanted, "seed {seed}: {text}");
        }
        // Each row is found by its key.
        for row in table.scan(&snapshot, &KeyRange::all()).unwrap() {
            let row = row.unwrap();
            let places = table.schema().key().iter().map(|part| table.schema().place(part.column()).unwrap());
            let key: Vec<_> = places.map(|place| row[place].clone()).collect();
            assert_eq!(table.get(&snapshot, &key).unwrap(), Some(row), "seed {seed}");
        }
    }
}

#[test]
fn a_schema_shows_what_sql_declares() {
    let (db, _connection) = made(
        "CREATE TABLE fruit(id INTEGER PRIMARY KEY, name VARCHAR(20) NOT NULL COLLATE NOCASE, \
        price DOUBLE DEFAULT 1.5,
             picture BLOB, born DATE);
         CREATE UNIQUE INDEX by_name ON fruit(name);
         CREATE TABLE plain(a); CREATE VIEW v AS SELECT 1; CREATE VIRTUAL TABLE words USING fts5(text)",
    );
    let snapshot = db.snapshot().unwrap();
    let names: Vec<_> = DynamicTable::all(&snapshot).unwrap().iter().map(|t| t.name().to_owned()).collect();
    assert!(
        ["fruit", "plain", "words_content"].iter().all(|name| names.contains(&(*name).to_owned())),
        "{names:?}"
    );
    assert!(!["v", "words"].iter().any(|name| names.contains(&(*name).to_owned())), "{names:?}");
    assert!(DynamicTable::open(&snapshot, "v").unwrap().is_none());
    let table = DynamicTable::expect(&snapshot, "fruit").unwrap();
    let columns: Vec<_> =
        table.schema().columns().map(|c| (c.name(), c.column_type(), c.is_nullable())).collect();
    use ColumnType::{Any, Bytes, Float, Int, Text};
    let wanted = [
        ("id", Int, false),
        ("name", Text, false),
        ("price", Float, true),
        ("picture", Bytes, true),
        ("born", Any, true),
    ];
    assert_eq!(columns, wanted);
    let notes: Vec<_> = table.schema().columns().map(rows::Column::note_text).collect();
    assert_eq!(notes[1], r#"{"type":"VARCHAR(20)","collate":"NOCASE"}"#);
    assert_eq!(notes[2], r#"{"type":"DOUBLE","default":"1.5"}"#);
    assert!(table.schema().indexes()[0].is_unique());
    assert_eq!(table.schema().indexes()[0].parts()[0].collation_of(), rows::Collation::NoCase);
    let plain = DynamicTable::expect(&snapshot, "plain").unwrap();
    assert_eq!((plain.schema().note(), plain.schema().key()[0].column()), (r#"{"row_id":true}"#, "rowid"));
}

#[test]
fn what_has_no_right_value_is_refused_by_name() {
    let (db, connection) = made(
        "CREATE TABLE odd(id INTEGER PRIMARY KEY, n INT, t TEXT);
         INSERT INTO odd VALUES (1, 1, 'a'), (2, 'word', 'b'), (3, 1.5, 'c'), (4, 4, x'00'), (5, 5,
         CAST(x'ff' AS TEXT)), (6, 6, 'f');
         CREATE TABLE computed(a, b AS (a + 1));
         CREATE TABLE aged(a); INSERT INTO aged VALUES (1)",
    );
    let snapshot = db.snapshot().unwrap();
    let table = DynamicTable::expect(&snapshot, "odd").unwrap();
    let read: Vec<_> = table.scan(&snapshot, &KeyRange::all()).unwrap().collect();
    let is_read: Vec<_> = read.iter().map(Result::is_ok).collect();
    assert_eq!(is_read, [true, false, false, false, false, true], "the scan goes on after each");
    for (row, words) in [
        (1, "column \"n\" holds a TEXT"),
        (2, "holds a REAL"),
        (3, "column \"t\" holds a BLOB"),
        (4, "not UTF-8"),
    ] {
        let error = read[row].as_ref().unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        assert!(matches!(Cause::in_error(error), Some(Cause::WrongType { .. })), "{error}");
    }
    let error = DynamicTable::open(&snapshot, "computed").unwrap_err();
    assert!(
        error.to_string().contains("column \"b\" is computed") && error.kind() == ErrorKind::Invalid,
        "{error}"
    );
    assert!(!DynamicTable::all(&snapshot).unwrap().iter().any(|table| table.name() == "computed"));

    connection.execute("ALTER TABLE aged ADD COLUMN b TEXT DEFAULT 2.5").unwrap();
    let snapshot = db.snapshot().unwrap();
    let error =
        DynamicTable::expect(&snapshot, "aged").unwrap().get(&snapshot, &[Value::Int(1)]).unwrap_err();
    assert!(error.to_string().contains("a default that only SQLite can compute"), "{error}");
}

#[test]
fn a_default_of_another_type_is_refused() {
    for (column, words) in [
        ("INT DEFAULT 'word'", "holds a TEXT"),
        ("INT DEFAULT 2.5", "holds a REAL"),
        ("TEXT DEFAULT x'00'", "holds a BLOB"),
        ("BLOB DEFAULT 5", "holds an INTEGER"),
    ] {
        let (db, _connection) = made(&format!(
            "CREATE TABLE aged(a INTEGER PRIMARY KEY); INSERT INTO aged VALUES (1);
             ALTER TABLE aged ADD COLUMN b {column}"
        ));
        let snapshot = db.snapshot().unwrap();
        let table = DynamicTable::expect(&snapshot, "aged").unwrap();
        let error = table.get(&snapshot, &[Value::Int(1)]).expect_err(column);
        assert!(error.to_string().contains(words), "{column}: {error}");
        assert!(matches!(Cause::in_error(&error), Some(Cause::WrongType { .. })), "{error}");
    }
}

#[test]
fn a_default_in_older_rows_is_that_of_sql_or_refused() {
    let defaults = [
        "2.0",
        "(2.0)",
        "2.5",
        "1e3",
        "1e99",
        "5",
        "(5)",
        "-5",
        "+5",
        "05",
        "true",
        "004912345678901",
        "-0.0",
        "'5'",
        "'none'",
        "x'00'",
        "NULL",
    ];
    let mut read = 0;
    for kind in ["", "BLOB", "TEXT", "NUMERIC", "INT", "REAL"] {
        for default in defaults {
            let (db, connection) = made(&format!(
                "CREATE TABLE aged(a INTEGER PRIMARY KEY); INSERT INTO aged VALUES (1);
                 ALTER TABLE aged ADD COLUMN b {kind} DEFAULT {default}"
            ));
            let snapshot = db.snapshot().unwrap();
            let table = DynamicTable::expect(&snapshot, "aged").unwrap();
            let Ok(found) = table.get(&snapshot, &[Value::Int(1)]) else { continue };
            let found = all_in_sql(vec![found.unwrap()]);
            assert_eq!(found, connection.query("SELECT a, b FROM aged").unwrap(), "{kind} {default}");
            read += 1;
        }
    }
    assert!(read > 50, "{read} of them are plain");
}

#[test]
fn definitions_that_are_not_utf8_hide_no_other_table() {
    let (db, _connection) = made(
        "CREATE TABLE good(id INTEGER PRIMARY KEY, a TEXT); INSERT INTO good VALUES (1, 'x');
         CREATE TABLE named(id INTEGER PRIMARY KEY); CREATE TABLE odd(id INTEGER PRIMARY KEY);
         CREATE INDEX good_a ON good(a); PRAGMA writable_schema = ON;
         UPDATE sqlite_schema SET name = CAST(x'ff' AS TEXT) WHERE name = 'named';
         UPDATE sqlite_schema SET sql = CAST(CAST(sql AS BLOB) || x'2d2dff' AS TEXT)
         WHERE name IN ('odd', 'good_a')",
    );
    let snapshot = db.snapshot().unwrap();
    let all = DynamicTable::all(&snapshot).unwrap();
    assert_eq!(all.iter().map(DynamicTable::name).collect::<Vec<_>>(), ["good"]);
    assert!(all[0].is_read_only() && all[0].schema().indexes().is_empty());
    assert!(all[0].get(&snapshot, &[Value::Int(1)]).unwrap().is_some());
    let refused = DynamicTable::open(&snapshot, "odd").unwrap_err().to_string();
    assert!(refused.contains("its definition is not UTF-8"), "{refused}");
}

#[test]
fn a_value_after_a_damaged_field_is_an_error() {
    let (db, _connection) =
        made("CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b TEXT); INSERT INTO t VALUES (1, 'x', 'y')");
    let root = db.snapshot().unwrap().table("sql:2").unwrap().unwrap();
    let records: Vec<_> =
        db.snapshot().unwrap().range(&root, ..).unwrap().map(|record| record.unwrap()).collect();
    let (key, mut record) = (records[0].0.to_vec(), records[0].1.to_vec());
    // The type of field `a` is one that SQLite reserves.
    record[2] = 10;
    db.write(|tx| tx.put(&root, &key, &record)).unwrap();
    let snapshot = db.snapshot().unwrap();
    let table = DynamicTable::expect(&snapshot, "t").unwrap();
    let mut scan = BatchScan::new(&table, None, &Bounds::default(), false, false).unwrap();
    let mut batch = Batch::default();
    scan.fill(&snapshot, 1, &mut batch).unwrap();
    let error = scan.value(&mut batch, 0, 2).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
}

#[test]
fn definitions_are_changed_by_sqlite_alone() {
    let (db, connection) = made(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT); INSERT INTO t VALUES (1, 'x'); \
        CREATE VIEW v AS SELECT 1",
    );
    type Attempt = fn(&mut pando::Transaction, DynamicTable) -> pando::Result<()>;
    let attempts: [(&str, Attempt); 3] = [
        ("rename", |tx, table| table.rename(tx, "other").map(drop)),
        ("drop", |tx, table| table.drop(tx)),
        ("add_column", |tx, table| {
            table.add_column(tx, rows::Column::new("b", ColumnType::Int).nullable()).map(drop)
        }),
    ];
    for (name, attempt) in attempts {
        let error = db.write(|tx| attempt(tx, DynamicTable::expect(tx, "t")?)).unwrap_err();
        assert!(matches!(Cause::in_error(&error), Some(Cause::MadeBySqlite { .. })), "{name}: {error}");
        assert!(error.to_string().contains("its definition is changed with SQL"), "{name}: {error}");
    }
    let index = rows::IndexDefinition::new("i", ["a"]);
    assert!(rows::build_index(&db, "t", index, |_| Ok(())).is_err());
    for name in ["t", "T", "v"] {
        let definition = Definition::new(name).column(rows::Column::new("id", ColumnType::Int)).key(["id"]);
        let error = db.write(|tx| DynamicTable::create(tx, &definition).map(drop)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Exists, "{name}: {error}");
    }
    assert_eq!(connection.query("SELECT * FROM t").unwrap(), [[Sql::Integer(1), Sql::Text("x".into())]]);
    assert!(
        rows::is_reserved("sql:2")
            && rows::refuse_reserved("sql:2").unwrap_err().to_string().contains("what SQL stores")
    );
    assert_eq!(rows::check(&db.snapshot().unwrap(), |_| {}).unwrap().problem_count(), 0);
}

#[test]
fn a_handle_is_stale_after_a_change_of_definitions() {
    let (db, connection) =
        made("CREATE TABLE t(id INTEGER PRIMARY KEY, a, b); INSERT INTO t VALUES (1, 'x', 'y')");
    let plain = db.ensure_table("log").unwrap();
    let before = db.snapshot().unwrap();
    let table = DynamicTable::expect(&before, "t").unwrap();
    let mut writer = db.begin().unwrap();
    assert_eq!(table.get(&writer, &[Value::Int(1)]).unwrap().unwrap()[2], Value::from("y"));
    writer.put(&plain, "k", "v").unwrap();

    connection.execute("ALTER TABLE t DROP COLUMN a").unwrap();
    assert_eq!(writer.commit().unwrap_err().kind(), ErrorKind::Conflict);
    // The older snapshot still has what the handle knows.
    assert_eq!(table.get(&before, &[Value::Int(1)]).unwrap().unwrap()[2], Value::from("y"));
    let now = db.snapshot().unwrap();
    let is_stale = |error: pando::Error| matches!(Cause::in_error(&error), Some(Cause::SchemaChanged { .. }));
    assert!(is_stale(table.get(&now, &[Value::Int(1)]).unwrap_err()));
    assert!(is_stale(table.contains(&now, &[Value::Int(1)]).unwrap_err()));
    assert!(is_stale(table.scan(&now, &KeyRange::all()).unwrap_err()));
    let mut scan = BatchScan::new(&table, None, &Bounds::default(), false, false).unwrap();
    assert!(is_stale(scan.fill(&now, 9, &mut Batch::default()).unwrap_err()));
    assert!(is_stale(scan.fill_keys(&now, std::iter::empty(), &mut Batch::default()).unwrap_err()));
    let table = DynamicTable::expect(&now, "t").unwrap();
    assert_eq!(table.get(&now, &[Value::Int(1)]).unwrap().unwrap(), [Value::Int(1), Value::from("y")]);
}

#[test]
fn keys_without_an_order_are_refused() {
    let (db, connection) = made(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT); CREATE INDEX i ON t(a);
         CREATE TABLE k(a TEXT PRIMARY KEY, b) WITHOUT ROWID; INSERT INTO t VALUES (1, 'short'); \
         INSERT INTO k VALUES ('s', 1)",
    );
    connection
        .execute(
            "INSERT INTO t VALUES (2, printf('%.*c', 2000, 'a')); \
    INSERT INTO k VALUES (printf('%.*c', 2000, 'a'), 2)",
        )
        .unwrap();
    let snapshot = db.snapshot().unwrap();
    let table = DynamicTable::expect(&snapshot, "t").unwrap();
    assert_eq!(
        table.scan(&snapshot, &KeyRange::all()).unwrap().filter(Result::is_ok).count(),
        2,
        "rowids have an order"
    );
    let too_long = |error: &pando::Error| matches!(Cause::in_error(error), Some(Cause::TooLong { .. }));
    let read: Vec<_> = table.scan_index(&snapshot, "i", &KeyRange::all()).unwrap().collect();
    assert!(too_long(read[0].as_ref().unwrap_err()) && read[1].is_ok(), "{read:?}");
    let long = [Value::from("a".repeat(2000))];
    assert!(too_long(&table.scan_index(&snapshot, "i", &KeyRange::prefix(&long)).unwrap_err()));
    let keyed = DynamicTable::expect(&snapshot, "k").unwrap();
    assert!(too_long(&keyed.get(&snapshot, &long).unwrap_err()));
    assert_eq!(keyed.scan(&snapshot, &KeyRange::all()).unwrap().filter(Result::is_err).count(), 1);
}

#[test]
fn damage_is_an_error_and_never_a_panic() {
    for (tree, harm) in
        [("sql:1", 0), ("sql:1", 1), ("sql:2", 0), ("sql:2", 1), ("sql:3", 0), ("sql:3", 1), ("sql:meta", 2)]
    {
        let (db, _connection) = made(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT); CREATE INDEX i ON t(a); \
            INSERT INTO t VALUES (1, 'x')",
        );
        let table = db.snapshot().unwrap().table(tree).unwrap().unwrap();
        let records: Vec<_> =
            db.snapshot().unwrap().range(&table, ..).unwrap().map(|record| record.unwrap()).collect();
        for (key, value) in &records {
            for at in 0..=value.len() {
                let harmed = match harm {
                    0 => value[..at].to_vec(),
                    1 => value
                        .iter()
                        .enumerate()
                        .map(|(place, byte)| if place == at { byte ^ 0x55 } else { *byte })
                        .collect(),
                    _ => vec![0; at],
                };
                db.write(|tx| tx.put(&table, key, &harmed)).unwrap();
                let snapshot = db.snapshot().unwrap();
                let _ = DynamicTable::all(&snapshot);
                if let Ok(Some(typed)) = DynamicTable::open(&snapshot, "t") {
                    let _ = typed.scan(&snapshot, &KeyRange::all()).map(|scan| scan.map(drop).count());
                    let _ =
                        typed.scan_index(&snapshot, "i", &KeyRange::all()).map(|scan| scan.map(drop).count());
                }
            }
            db.write(|tx| tx.put(&table, key, value)).unwrap();
        }
        // A key that is none.
        db.write(|tx| tx.put(&table, [5, 5, 5], records[0].1.clone())).unwrap();
        let snapshot = db.snapshot().unwrap();
        if let Ok(Some(typed)) = DynamicTable::open(&snapshot, "t") {
            let _ = typed.scan(&snapshot, &KeyRange::all()).map(|scan| scan.map(drop).count());
        }
    }
}

#[test]
fn sql_reads_and_writes_them_in_sqlites_way() {
    let (db, connection) = made(
        "CREATE TABLE fruit(id INTEGER PRIMARY KEY, name TEXT NOT NULL, price REAL DEFAULT 1.5, note);
         CREATE INDEX by_name ON fruit(name, price DESC); CREATE INDEX by_note ON fruit(note);
         INSERT INTO fruit(name, price, note) VALUES ('apple', 2, 7), ('lemon', NULL, 'sour'),
         ('apple', 0.5, x'07'), ('fig', -1, 7.5);
         CREATE TABLE plain(a, b TEXT); INSERT INTO plain VALUES (5, 'apple'), (NULL, 'fig'), (2.5, 'none');
         CREATE TABLE keyed(k TEXT COLLATE NOCASE, n INT, v, PRIMARY KEY(k, n DESC)) WITHOUT ROWID;
         CREATE INDEX by_v ON keyed(v); INSERT INTO keyed VALUES ('X', 1, 'one'), ('x', 2, 'two'), \
         ('y', 1, NULL)",
    );
    let sql = pando_sql::Sql::new(db.clone()).connect().unwrap();
    let of_pando = |query: &str| -> Vec<Vec<Sql>> {
        let value = |value: pando_sql::Value| match value {
            pando_sql::Value::Null => Sql::Null,
            pando_sql::Value::Integer(number) => Sql::Integer(number),
            pando_sql::Value::Real(number) => Sql::Real(number),
            pando_sql::Value::Text(text) => Sql::Text(text),
            pando_sql::Value::Blob(bytes) => Sql::Blob(bytes),
        };
        let rows = sql.query(query, &[]).unwrap_or_else(|error| panic!("{query}: {error}"));
        rows.into_iter().map(|row| row.into_iter().map(value).collect()).collect()
    };
    for query in [
        "SELECT * FROM fruit ORDER BY id",
        "SELECT id FROM fruit WHERE name = 'apple' ORDER BY price",
        "SELECT id, price FROM fruit WHERE name >= 'b' ORDER BY name, price DESC",
        "SELECT name, price FROM fruit WHERE name = 'apple' AND price > 1",
        "SELECT id FROM fruit WHERE note = 7",
        "SELECT id, typeof(note) FROM fruit WHERE note > 7 ORDER BY note",
        "SELECT name, count(*), sum(price) FROM fruit GROUP BY name",
        "SELECT max(id), min(price) FROM fruit",
        "SELECT rowid, a, b FROM plain WHERE rowid > 1",
        "SELECT f.id, p.a FROM fruit f JOIN plain p ON p.b = f.name ORDER BY f.id",
        "SELECT * FROM keyed ORDER BY k, n DESC",
        "SELECT v FROM keyed WHERE k = 'x' ORDER BY n",
        "SELECT k, n FROM keyed WHERE v IS NULL OR v = 'one' ORDER BY k",
        "SELECT count(*) FROM keyed",
    ] {
        assert_eq!(of_pando(query), connection.query(query).unwrap(), "{query}");
    }
    let error = sql.execute("CREATE TABLE FRUIT(id INTEGER PRIMARY KEY)", &[]).unwrap_err();
    assert!(error.message().contains("already"), "{error}");
    assert_eq!(of_pando("SELECT count(*) FROM fruit"), [[Sql::Integer(4)]]);
    for statement in [
        "INSERT INTO fruit(name) VALUES ('pear')",
        "INSERT INTO plain(b) VALUES ('last')",
        "INSERT INTO keyed VALUES ('z', 1, 2)",
        "UPDATE plain SET a = 1 WHERE rowid = 2",
        "UPDATE keyed SET v = 'new', n = n + 1 WHERE k = 'X'",
        "DELETE FROM fruit WHERE id = 1",
        "INSERT INTO fruit(id, name, price) VALUES (2, 'new', 3) ON CONFLICT(id) DO UPDATE SET price = 9",
    ] {
        sql.execute(statement, &[]).unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    for query in ["SELECT * FROM fruit", "SELECT rowid, * FROM plain", "SELECT * FROM keyed ORDER BY k, n"] {
        assert_eq!(of_pando(query), connection.query(query).unwrap(), "{query}");
    }
    let fruit = connection.query("SELECT id, price FROM fruit WHERE price > 1 ORDER BY id").unwrap();
    assert_eq!(fruit, [[Sql::Integer(2), Sql::Real(9.0)], [Sql::Integer(5), Sql::Real(1.5)]]);
    assert_eq!(connection.query("PRAGMA integrity_check").unwrap(), [[Sql::Text("ok".into())]]);
    // It notices what SQLite changes.
    connection
        .execute(
            "ALTER TABLE fruit RENAME COLUMN note TO remark; INSERT INTO fruit(name, \
    remark) VALUES ('kiwi', 1)",
        )
        .unwrap();
    assert_eq!(of_pando("SELECT name FROM fruit WHERE remark = 1"), [[Sql::Text("kiwi".into())]]);
}
