//! Rows that `rows` writes into tables of SQLite's are the rows that SQLite's own statements would have stored.

use crate::support::pick;
use base::env::Random;
use pando::{Database, ErrorKind, Isolation, TransactionOptions};
use pando_sqlite::{Connection, Value as Sql};
use rows::{Cause, DynamicTable, KeyRange, Value};
use sqlite_format::record::{self, Field};
use std::collections::BTreeMap;

fn made(sql: &str) -> (Database, Connection) {
    let db = Database::builder().in_memory().unwrap();
    let connection = Connection::open(&db).unwrap();
    connection.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    (db, connection)
}

fn expect(db: &Database, table: &str) -> DynamicTable {
    DynamicTable::expect(&db.snapshot().unwrap(), table).unwrap()
}

/// A value in SQL's words.
fn literal(value: &Value<'_>) -> String {
    match value {
        Value::Null => "NULL".into(),
        Value::Int(number) => number.to_string(),
        Value::Float(number) => format!("{number:?}"),
        Value::Text(text) => {
            let pieces: Vec<_> =
                text.split('\0').map(|piece| format!("'{}'", piece.replace('\'', "''"))).collect();
            format!("({})", pieces.join(" || char(0) || "))
        }
        Value::Bytes(bytes) => {
            format!("x'{}'", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
        }
        other => panic!("{other:?} is no value of SQLite"),
    }
}

fn shortened(field: Field<'_>) -> Field<'_> {
    match field {
        Field::Real(number) if number.fract() == 0.0 && number.abs() <= (1_i64 << 47) as f64 => {
            Field::Integer(number as i64)
        }
        field => field,
    }
}

/// Returns all records of a tree of Pando. In a column of affinity REAL, SQLite stores an integral float as an integer
/// or as a float, depending on the statement and on whether the table has an index: here all are integers.
fn records(db: &Database, root: i64) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let snapshot = db.snapshot().unwrap();
    let tree = snapshot.table(&format!("sql:{root}")).unwrap().unwrap();
    let mut all = BTreeMap::new();
    for record in snapshot.range(&tree, ..).unwrap() {
        let (key, record) = record.unwrap();
        let fields: Vec<_> =
            record::fields(&record).unwrap().map(|field| shortened(field.unwrap())).collect();
        let mut same = Vec::new();
        record::push(&mut same, &fields);
        all.insert(key.to_vec(), same);
    }
    all
}

/// The records of table `t` and of its indexes, by their names.
fn stored(db: &Database, connection: &Connection) -> BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>> {
    let listed = connection.query("SELECT name, rootpage FROM sqlite_schema WHERE rootpage > 0").unwrap();
    let tree = |row: &Vec<Sql>| match (&row[0], &row[1]) {
        (Sql::Text(name), Sql::Integer(root)) => (name.clone(), records(db, *root)),
        other => panic!("{other:?}"),
    };
    listed.iter().map(tree).collect()
}

fn check(connection: &Connection, what: &str) {
    let found = connection.query("PRAGMA integrity_check").unwrap();
    assert_eq!(found, [[Sql::Text("ok".into())]], "{what}");
}

/// Definitions of `t`, with columns a (integers), b (texts), c (floats), d (anything), e (blobs).
const TABLES: &[&str] = &[
    "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT, c REAL, d, e BLOB)",
    "CREATE TABLE t(b TEXT NOT NULL, a INT, c DOUBLE, d NUMERIC, e BLOB)",
    "CREATE TABLE t(a INT PRIMARY KEY, b TEXT COLLATE NOCASE UNIQUE, c REAL, d, e BLOB, UNIQUE(c, d))",
    "CREATE TABLE t(a INTEGER, b TEXT, c REAL, d, e BLOB, PRIMARY KEY(b, a)) WITHOUT ROWID",
    "CREATE TABLE t(a INT, b TEXT COLLATE NOCASE, c REAL, d DECIMAL, e BLOB, \
     PRIMARY KEY(c DESC, b, a)) WITHOUT ROWID",
    "CREATE TABLE t(a INT, b TEXT COLLATE RTRIM, c REAL, d DATE, e BLOB UNIQUE, \
     PRIMARY KEY(b DESC, d), UNIQUE(a, b)) WITHOUT ROWID",
    "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT NOT NULL, c REAL, d ANY, e BLOB, \
     UNIQUE(b COLLATE NOCASE)) STRICT",
    "CREATE TABLE t(a INTEGER PRIMARY KEY DESC, b TEXT, c REAL, d ANY, e BLOB) STRICT",
    "CREATE TABLE t(d ANY PRIMARY KEY, a INT, b TEXT, c REAL, e BLOB) STRICT, WITHOUT ROWID",
];

const INDEXES: &[&str] = &[
    "",
    "CREATE INDEX i ON t(b, c DESC)",
    "CREATE INDEX i ON t(d); CREATE UNIQUE INDEX j ON t(a, b COLLATE RTRIM)",
    "CREATE UNIQUE INDEX i ON t(c DESC, d); CREATE INDEX j ON t(e, a DESC); \
     CREATE INDEX k ON t(b COLLATE NOCASE)",
];

fn value(random: &mut Random, column: &str) -> Value<'static> {
    if random.below(7) == 0 {
        return Value::Null;
    }
    let int = [0, 1, -1, 2, 300, -70_000, 1 << 40, (1 << 53) + 1][random.below(8) as usize];
    let float = [0.0, -2.5, 3.0, 1e300, (1_i64 << 47) as f64, -(1_i64 << 47) as f64, -1e-9, 7.0]
        [random.below(8) as usize];
    let texts = ["", "a", "A", "ab ", "ab", "ü", "a\0b", "\0five", "5", " 2.50 ", "1e2", "x' y"];
    let text = pick(random, &texts).to_owned();
    let blob = [vec![], vec![0], vec![0, 255], vec![97; 300]][random.below(4) as usize].clone();
    match column {
        "a" | "f" => Value::Int(int),
        "b" => Value::from(text),
        "c" => Value::Float(float),
        "e" => Value::from(blob),
        _ => match random.below(4) {
            0 => Value::Int(int),
            1 => Value::Float(float),
            2 => Value::from(text),
            _ => Value::from(blob),
        },
    }
}

/// Two databases with the same definitions: in the first one `rows` and SQLite write in turn, in the second one only
/// SQLite does.
struct Twins {
    mixed: (Database, Connection),
    plain: (Database, Connection),
    what: String,
}

/// What a statement came to: how many rows it changed, or that a constraint forbids it.
type Outcome = Result<i64, &'static str>;

impl Twins {
    fn new(create: &str, seed: u64) -> Twins {
        Twins { mixed: made(create), plain: made(create), what: format!("seed {seed}: {create}") }
    }

    /// Runs a statement of SQL.
    fn sql(connection: &Connection, sql: &str, what: &str) -> Outcome {
        match connection.execute(sql) {
            Ok(()) => Ok(connection.changes()),
            // 19 is SQLITE_CONSTRAINT, and 20 is SQLITE_MISMATCH.
            Err(error) if [19, 20].contains(&(error.code & 255)) => Err("refused"),
            Err(error) => panic!("{what}: {sql}: {error}"),
        }
    }

    /// Runs a statement in the second database, and the same by `typed` in the first one, or by SQLite.
    fn both(
        &self,
        is_typed: bool,
        sql: &str,
        typed: impl Fn(&mut pando::Transaction, &DynamicTable) -> pando::Result<i64>,
    ) {
        let wanted = Self::sql(&self.plain.1, sql, &self.what);
        let done = match is_typed {
            false => Self::sql(&self.mixed.1, sql, &self.what),
            true => {
                let table = expect(&self.mixed.0, "t");
                self.mixed.0.write(|tx| typed(tx, &table)).map_err(|error| match Cause::in_error(&error) {
                    Some(Cause::Duplicate { .. } | Cause::Null { .. } | Cause::WrongType { .. }) => "refused",
                    _ => panic!("{}: {sql}: {error}", self.what),
                })
            }
        };
        // `rows` checks a row before it looks for the one that it replaces.
        if (done, wanted) != (Err("refused"), Ok(0)) {
            assert_eq!(done, wanted, "{}: {sql}", self.what);
        }
    }

    fn compare(&self) {
        check(&self.mixed.1, &self.what);
        let [mixed, plain] = [&self.mixed, &self.plain].map(|(db, connection)| stored(db, connection));
        for (name, wanted) in &plain {
            let found = &mixed[name];
            let differing = wanted.iter().find(|(key, record)| found.get(*key) != Some(record));
            assert_eq!(
                differing.map(|(key, record)| (key, Some(record), found.get(key))),
                None,
                "{}: {name}",
                self.what
            );
            assert_eq!(found.len(), wanted.len(), "{}: {name}", self.what);
        }
        let [mixed, plain] = [&self.mixed, &self.plain].map(|(_, connection)| {
            let mut rows = connection.query("SELECT * FROM t NOT INDEXED").unwrap();
            rows.sort_by_key(|row| format!("{row:?}"));
            rows
        });
        // Here types matter.
        assert_eq!(mixed, plain, "{}", self.what);
        let snapshot = self.mixed.0.snapshot().unwrap();
        let typed =
            expect(&self.mixed.0, "t").scan(&snapshot, &KeyRange::all()).unwrap().map(Result::unwrap).count();
        assert_eq!(typed, mixed.len(), "{}", self.what);
    }
}

fn row_of(table: &DynamicTable, random: &mut Random) -> Vec<Value<'static>> {
    let row = table.schema().columns().map(|column| match column.name() {
        "rowid" => Value::Int(random.below(30) as i64),
        name => value(random, name),
    });
    row.collect()
}

fn key_of(table: &DynamicTable, row: &[Value<'static>]) -> Vec<Value<'static>> {
    let place = |part: &rows::Part| table.schema().place(part.column()).unwrap();
    table.schema().key().iter().map(|part| row[place(part)].clone()).collect()
}

/// `"b" = 'x' AND …`, in the collations of the key's columns.
fn key_is(table: &DynamicTable, key: &[Value<'static>]) -> String {
    let parts = table.schema().key().iter().zip(key);
    parts
        .map(|(part, value)| format!("{} IS {}", part.column(), literal(value)))
        .collect::<Vec<_>>()
        .join(" AND ")
}

fn step(twins: &Twins, random: &mut Random) {
    let is_typed = random.below(3) > 0;
    let table = expect(&twins.mixed.0, "t");
    let row = row_of(&table, random);
    let names: Vec<_> = table.schema().columns().map(|column| column.name().to_owned()).collect();
    let values: Vec<_> = row.iter().map(literal).collect();
    let (key, insert) =
        (key_of(&table, &row), format!("INTO t({}) VALUES ({})", names.join(", "), values.join(", ")));
    let has_null_key = key.iter().any(Value::is_null);
    match random.below(10) {
        0..=4 => twins.both(is_typed, &format!("INSERT {insert}"), |tx, t| t.insert(tx, &row).map(|()| 1)),
        5 if !has_null_key => {
            let set: Vec<_> =
                names.iter().zip(&values).map(|(name, value)| format!("{name} = {value}")).collect();
            let sql = format!("UPDATE t SET {} WHERE {}", set.join(", "), key_is(&table, &key));
            twins.both(is_typed, &sql, |tx, t| t.update(tx, &row).map(i64::from));
        }
        6 => {
            // Another row, found by its key, becomes this one.
            let snapshot = twins.mixed.0.snapshot().unwrap();
            let all: Vec<_> = table.scan(&snapshot, &KeyRange::all()).unwrap().map(Result::unwrap).collect();
            let Some(other) = all.get(random.below(all.len().max(1) as u64) as usize) else { return };
            let other = key_of(&table, other);
            if has_null_key {
                return;
            }
            let set: Vec<_> =
                names.iter().zip(&values).map(|(name, value)| format!("{name} = {value}")).collect();
            let sql = format!("UPDATE t SET {} WHERE {}", set.join(", "), key_is(&table, &other));
            twins.both(is_typed, &sql, |tx, t| t.replace(tx, &other, &row).map(i64::from));
        }
        7 if !has_null_key => {
            let sql = format!("DELETE FROM t WHERE {}", key_is(&table, &key));
            twins.both(is_typed, &sql, |tx, t| t.delete(tx, &key).map(i64::from));
        }
        8 if names[0] == "rowid" || names[0] == "a" && table.schema().key()[0].column() == "a" => {
            // The next rowid.
            let mut row = row.clone();
            row[0] = Value::Null;
            let mut values = values.clone();
            values[0] = "NULL".into();
            let sql = format!("INSERT INTO t({}) VALUES ({})", names.join(", "), values.join(", "));
            twins.both(is_typed, &sql, |tx, t| t.insert(tx, &row).map(|()| 1));
        }
        9 if random.below(4) == 0 => {
            let (low, high) = (value(random, "a"), value(random, "a"));
            let (Value::Int(low), Value::Int(high)) = (low, high) else { return };
            if names[0] == "rowid"
                || table.schema().key().len() == 1 && table.schema().key()[0].column() == "a"
            {
                let column = table.schema().key()[0].column();
                let sql = format!("DELETE FROM t WHERE {column} BETWEEN {low} AND {high}");
                let (low, high) = ([Value::Int(low)], [Value::Int(high)]);
                let range = KeyRange::between(
                    std::ops::Bound::Included(&low[..]),
                    std::ops::Bound::Included(&high[..]),
                );
                let wanted = Twins::sql(&twins.plain.1, &sql, &twins.what);
                match is_typed {
                    true => twins.mixed.0.write(|tx| table.delete_range(tx, &range)).unwrap(),
                    false => assert_eq!(Twins::sql(&twins.mixed.1, &sql, &twins.what), wanted),
                }
            }
        }
        _ => {}
    }
}

#[test]
fn random_writes_store_what_sqlite_stores() {
    let mut left = 0;
    for seed in 0..72 {
        let (create, indexes) =
            (TABLES[seed as usize % TABLES.len()], INDEXES[seed as usize / 9 % INDEXES.len()]);
        let twins = Twins::new(&format!("{create}; {indexes}"), seed);
        assert_eq!(expect(&twins.mixed.0, "t").why_read_only(), None, "{}", twins.what);
        let mut random = Random::seeded(seed);
        for round in 0..6 {
            for _ in 0..14 {
                step(&twins, &mut random);
            }
            twins.compare();
            if round == 3 {
                // Rows that lack a column, and then an index on it.
                let sql = "ALTER TABLE t ADD COLUMN f INT DEFAULT 7; CREATE INDEX late ON t(f, b)";
                for connection in [&twins.mixed.1, &twins.plain.1] {
                    connection.execute(sql).unwrap();
                }
            }
        }
        let rows = twins.mixed.1.query("SELECT count(*) FROM t").unwrap();
        let Sql::Integer(rows) = rows[0][0] else { panic!("{rows:?}") };
        left += rows;
    }
    assert!(left > 300, "{left} rows are left in all");
}

#[test]
fn rows_of_other_types_keep_their_entries() {
    let (db, connection) = made(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, n INT, s TEXT); CREATE INDEX i ON t(n, s);
         INSERT INTO t VALUES (1, 'word', x'00'), (2, 2.5, CAST(x'ff' AS TEXT)), (3, 3, 'c'), (4, x'04', 'd');
         ALTER TABLE t ADD COLUMN late TEXT DEFAULT 2.5",
    );
    let table = expect(&db, "t");
    let row = |id| [Value::Int(id), Value::Int(7), Value::from("new"), Value::Null];
    db.write(|tx| {
        assert!(table.update(tx, &row(1))? && table.delete(tx, &[Value::Int(2)])?);
        // What cannot be returned is not deleted.
        assert_eq!(table.remove(tx, &[Value::Int(4)]).unwrap_err().kind(), ErrorKind::Invalid);
        table.delete(tx, &[Value::Int(4)]).map(drop)
    })
    .unwrap();
    check(&connection, "other types");
    let ids = connection.query("SELECT id FROM t INDEXED BY i WHERE n > 0 ORDER BY id").unwrap();
    assert_eq!(ids, [[Sql::Integer(1)], [Sql::Integer(3)]]);
    // An index on a column whose value in older rows only SQLite can compute.
    connection.execute("CREATE INDEX j ON t(late)").unwrap();
    let table = expect(&db, "t");
    let error = db.write(|tx| table.delete(tx, &[Value::Int(3)])).unwrap_err();
    assert!(error.to_string().contains("a default that only SQLite can compute"), "{error}");
    assert_eq!(connection.query("SELECT count(*) FROM t").unwrap(), [[Sql::Integer(2)]]);
}

#[test]
fn what_sqlite_enforces_is_refused_by_name() {
    for (sql, words) in [
        ("CREATE TABLE t(id INTEGER PRIMARY KEY, a CHECK (a > 0))", "it has a CHECK constraint"),
        ("CREATE TABLE t(id INTEGER PRIMARY KEY, a, CHECK (a > 0))", "it has a CHECK constraint"),
        ("CREATE TABLE t(id INTEGER PRIMARY KEY, a REFERENCES u)", "it has a foreign key"),
        (
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a, FOREIGN KEY(a) REFERENCES u(id))",
            "it has a foreign key",
        ),
        (
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a); CREATE TABLE u(b REFERENCES T)",
            "table \"u\" refers to it",
        ),
        ("CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, a)", "it has AUTOINCREMENT"),
        ("CREATE TABLE t(id INTEGER PRIMARY KEY, a, b AS (a + 1) STORED)", "it has a generated column"),
        (
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a NOT NULL ON CONFLICT IGNORE)",
            "it has an ON CONFLICT clause",
        ),
        ("CREATE TABLE t(id INTEGER PRIMARY KEY ON CONFLICT REPLACE, a)", "it has an ON CONFLICT clause"),
        (
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a UNIQUE ON CONFLICT REPLACE)",
            "it has an ON CONFLICT clause",
        ),
        (
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a, UNIQUE(a) ON CONFLICT FAIL)",
            "it has an ON CONFLICT clause",
        ),
        (
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a); \
             CREATE TRIGGER g AFTER DELETE ON T BEGIN SELECT 1; END",
            "it has the trigger \"g\"",
        ),
        (
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a); CREATE INDEX i ON t(a) WHERE a > 0",
            "its index \"i\" is partial",
        ),
        (
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a); CREATE INDEX i ON t(a + 1)",
            "its index \"i\" is partial",
        ),
        (
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a); CREATE INDEX i ON t(a, a COLLATE NOCASE)",
            "has a column twice",
        ),
    ] {
        let (db, connection) = made(sql);
        let table = expect(&db, "t");
        assert!(table.is_read_only() && table.why_read_only().unwrap().contains(words), "{sql}: {table:?}");
        let refused = |work: &dyn Fn(&mut pando::Transaction) -> pando::Result<()>| {
            let error = db.write(|tx| work(tx)).unwrap_err();
            assert!(matches!(Cause::in_error(&error), Some(Cause::MadeBySqlite { .. })), "{sql}: {error}");
            assert!(error.to_string().contains("table \"t\" was made by SQL"), "{sql}: {error}");
            assert!(error.to_string().contains(words), "{sql}: {error}");
        };
        let columns = table.schema().columns().count();
        let mut row = vec![Value::Null; columns];
        row[0] = Value::Int(1);
        let key = [Value::Int(1)];
        refused(&|tx| table.insert(tx, &row));
        refused(&|tx| table.upsert(tx, &row));
        refused(&|tx| table.update(tx, &row).map(drop));
        refused(&|tx| table.replace(tx, &key, &row).map(drop));
        refused(&|tx| table.delete(tx, &key).map(drop));
        refused(&|tx| table.remove(tx, &key).map(drop));
        refused(&|tx| table.clear(tx));
        refused(&|tx| table.delete_range(tx, &KeyRange::all()));
        assert!(connection.query("SELECT * FROM t").unwrap().is_empty(), "{sql}");
    }
    let (db, _connection) = made("CREATE VIRTUAL TABLE words USING fts5(text)");
    let why = expect(&db, "words_content");
    assert_eq!(why.why_read_only(), Some("it belongs to the virtual table \"words\""));
}

#[test]
fn a_database_of_an_older_version_is_read_and_not_written() {
    let (db, connection) = made("CREATE TABLE t(id INTEGER PRIMARY KEY)");
    let names = db.snapshot().unwrap().tables().unwrap();
    let named: Vec<_> = names.iter().map(|table| table.name().to_owned()).collect();
    let definitions = named.iter().find(|name| name.starts_with("sql:schema-")).unwrap().clone();
    drop(connection);
    db.write(|tx| {
        let table = tx.table(&definitions)?.unwrap();
        tx.drop_table(&table)
    })
    .unwrap();
    assert!(expect(&db, "t").why_read_only().unwrap().contains("write to it with SQL once"));
    let _connection = Connection::open(&db).unwrap();
    assert_eq!(expect(&db, "t").why_read_only(), None);
}

#[test]
fn values_that_sqlite_lacks_are_refused() {
    let (db, connection) = made("CREATE TABLE t(id INTEGER PRIMARY KEY, a, n NUMERIC, r REAL)");
    let table = expect(&db, "t");
    for (place, value) in [
        (1, Value::Bool(true)),
        (1, Value::Uuid([0; 16])),
        (1, Value::Timestamp(0)),
        (1, Value::UInt(u64::MAX)),
        (1, Value::Float(f64::NAN)),
        (2, Value::from("1e400")),
        (2, Value::from("0.12345678901234567")),
        (3, Value::Float(f64::NAN)),
    ] {
        let mut row = [Value::Int(1), Value::Null, Value::Null, Value::Null];
        row[place] = value;
        let error = db.write(|tx| table.insert(tx, &row)).unwrap_err();
        assert!(matches!(Cause::in_error(&error), Some(Cause::WrongType { .. })), "{error}");
    }
    let row = [Value::Int(1), Value::UInt(7), Value::from(" 7.0"), Value::Null];
    db.write(|tx| table.insert(tx, &row)).unwrap();
    let read = connection.query("SELECT typeof(a), a, typeof(n), n FROM t").unwrap();
    let integer = || Sql::Text("integer".into());
    assert_eq!(read, [[integer(), Sql::Integer(7), integer(), Sql::Integer(7)]]);
}

#[test]
fn rowids_follow_the_last_one() {
    let (db, connection) = made("CREATE TABLE t(a TEXT); INSERT INTO t(rowid, a) VALUES (41, 'x')");
    let table = expect(&db, "t");
    db.write(|tx| {
        assert_eq!(table.next_row_id(tx)?, 42);
        table.insert(tx, &[Value::Null, Value::from("y")])?;
        table.upsert(tx, &[Value::Null, Value::from("z")])?;
        assert_eq!(
            table.update(tx, &[Value::Null, Value::from("z")]).unwrap_err().kind(),
            ErrorKind::Invalid
        );
        table.insert(tx, &[Value::Int(i64::MAX), Value::from("last")])?;
        let error = table.insert(tx, &[Value::Null, Value::from("none")]).unwrap_err();
        assert!(error.to_string().contains("the largest rowid"), "{error}");
        Ok(())
    })
    .unwrap();
    let read = connection.query("SELECT rowid FROM t").unwrap();
    assert_eq!(read, [[Sql::Integer(41)], [Sql::Integer(42)], [Sql::Integer(43)], [Sql::Integer(i64::MAX)]]);
    let (db, _connection) = made("CREATE TABLE t(a TEXT PRIMARY KEY) WITHOUT ROWID");
    let error = expect(&db, "t").next_row_id(&db.snapshot().unwrap()).unwrap_err();
    assert!(error.to_string().contains("not stored by SQLite's rowid"), "{error}");
}

#[test]
fn defaults_fill_what_a_row_does_not_name() {
    let (db, _connection) = made(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT DEFAULT 'x', b INT NOT NULL DEFAULT 5,
         c DEFAULT CURRENT_TIME, d INT DEFAULT 'word', e REAL DEFAULT 2, f,
         g TEXT NOT NULL, h TEXT DEFAULT NULL)",
    );
    let table = expect(&db, "t");
    let absent: Vec<_> = table.schema().columns().map(rows::Column::value_if_absent).collect();
    let null = || Some(Value::Null);
    let wanted = [
        null(),
        Some(Value::from("x")),
        Some(Value::Int(5)),
        None,
        None,
        Some(Value::Float(2.0)),
        null(),
        None,
        null(),
    ];
    assert_eq!(absent, wanted);
}

const BOTH: [Isolation; 2] = [Isolation::Serializable, Isolation::Snapshot];

fn begin(db: &Database, isolation: Isolation) -> pando::Transaction {
    db.begin_with(&TransactionOptions { isolation, ..db.transaction_options() }).unwrap()
}

#[test]
fn a_change_of_definitions_conflicts_with_a_writer() {
    for isolation in BOTH {
        for change in [
            "ALTER TABLE t ADD COLUMN b",
            "CREATE INDEX i ON t(a)",
            "ALTER TABLE t RENAME TO u",
            "DROP TABLE t",
            "CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT 1; END",
            "CREATE TABLE child(b REFERENCES t)",
            "CREATE TABLE other(b)",
        ] {
            let what = format!("{isolation:?}: {change}");
            let (db, connection) =
                made("CREATE TABLE t(id INTEGER PRIMARY KEY, a); INSERT INTO t VALUES (1, 'x')");
            let table = expect(&db, "t");
            // The change is committed first.
            let mut writer = begin(&db, isolation);
            table.insert(&mut writer, &[Value::Int(2), Value::from("y")]).unwrap();
            connection.execute(change).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(writer.commit().unwrap_err().kind(), ErrorKind::Conflict, "{what}");
            let mut late = begin(&db, isolation);
            let error = table.insert(&mut late, &[Value::Int(3), Value::from("z")]).unwrap_err();
            assert!(matches!(Cause::in_error(&error), Some(Cause::SchemaChanged { .. })), "{what}: {error}");
            check(&connection, &what);
        }
        // The writer is committed first, and the change has read the rows before.
        let (db, connection) =
            made("CREATE TABLE t(id INTEGER PRIMARY KEY, a); INSERT INTO t VALUES (1, 'x')");
        let table = expect(&db, "t");
        let mut writer = begin(&db, isolation);
        table.insert(&mut writer, &[Value::Int(2), Value::from("y")]).unwrap();
        connection.execute("BEGIN; CREATE INDEX i ON t(a)").unwrap();
        writer.commit().unwrap();
        assert_eq!(connection.execute("COMMIT").unwrap_err().code & 255, 5, "SQLITE_BUSY");
        connection.execute("CREATE INDEX i ON t(a)").unwrap();
        check(&connection, "an index of both rows");
        assert_eq!(
            connection.query("SELECT count(*) FROM t INDEXED BY i WHERE a > ''").unwrap(),
            [[Sql::Integer(2)]]
        );
    }
}

#[test]
fn values_stay_unique_between_both() {
    for isolation in BOTH {
        let create = "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT COLLATE NOCASE UNIQUE)";
        let row = |id, text: &'static str| [Value::Int(id), Value::from(text)];
        // One after the other.
        let (db, connection) = made(create);
        let table = expect(&db, "t");
        connection.execute("INSERT INTO t VALUES (1, 'ann')").unwrap();
        let error = db.write(|tx| table.insert(tx, &row(2, "ANN"))).unwrap_err();
        let duplicate = Cause::in_error(&error);
        assert!(
            matches!(duplicate, Some(Cause::Duplicate { index: Some(_), columns, .. }) if columns == &["a"]),
            "{error}"
        );
        db.write(|tx| table.insert(tx, &row(2, "bob"))).unwrap();
        assert_eq!(connection.execute("INSERT INTO t VALUES (3, 'BOB')").unwrap_err().code, 2067);
        // Beside each other: SQLite first, then `rows` first, then `rows` twice.
        let mut writer = begin(&db, isolation);
        table.insert(&mut writer, &row(4, "eve")).unwrap();
        connection.execute("INSERT INTO t VALUES (5, 'EVE')").unwrap();
        assert_eq!(writer.commit().unwrap_err().kind(), ErrorKind::Conflict, "{isolation:?}");
        connection.execute("BEGIN; INSERT INTO t VALUES (6, 'fay')").unwrap();
        let mut writer = begin(&db, isolation);
        table.insert(&mut writer, &row(7, "FAY")).unwrap();
        writer.commit().unwrap();
        assert_eq!(connection.execute("COMMIT").unwrap_err().code & 255, 5, "{isolation:?}");
        let (mut one, mut two) = (begin(&db, isolation), begin(&db, isolation));
        table.insert(&mut one, &row(8, "gil")).unwrap();
        table.insert(&mut two, &row(9, "Gil")).unwrap();
        one.commit().unwrap();
        assert_eq!(two.commit().unwrap_err().kind(), ErrorKind::Conflict, "{isolation:?}");
        check(&connection, "unique");
        assert_eq!(
            connection.query("SELECT group_concat(id) FROM t").unwrap(),
            [[Sql::Text("1,2,5,7,8".into())]]
        );
    }
}

#[test]
fn write_skew_between_both_is_a_conflict() {
    let (db, connection) =
        made("CREATE TABLE t(id INTEGER PRIMARY KEY, is_on INT); INSERT INTO t VALUES (1, 1), (2, 1)");
    let table = expect(&db, "t");
    // Each switches one off, because it has seen that the other is on.
    let mut writer = begin(&db, Isolation::Serializable);
    assert_eq!(table.get(&writer, &[Value::Int(2)]).unwrap().unwrap()[1], Value::Int(1));
    table.update(&mut writer, &[Value::Int(1), Value::Int(0)]).unwrap();
    connection
        .execute("BEGIN; UPDATE t SET is_on = 0 WHERE id = 2 AND (SELECT is_on FROM t WHERE id = 1)")
        .unwrap();
    writer.commit().unwrap();
    assert_eq!(connection.execute("COMMIT").unwrap_err().code & 255, 5);
    let on = connection.query("SELECT sum(is_on) FROM t").unwrap();
    assert_eq!(on, [[Sql::Integer(1)]]);
}

#[test]
fn a_failed_write_leaves_nothing() {
    let (db, connection) = made(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b UNIQUE); CREATE INDEX i ON t(a);
         INSERT INTO t VALUES (1, 'x', 'one'), (2, 'y', 'two')",
    );
    let table = expect(&db, "t");
    let row = |id, b: &str| [Value::Int(id), Value::from("new"), Value::from(b.to_owned())];
    db.write(|tx| {
        for failed in [
            table.insert(tx, &row(3, "one")),
            table.upsert(tx, &row(2, "one")),
            table.update(tx, &row(2, "one")).map(drop),
            table.replace(tx, &[Value::Int(2)], &row(9, "one")).map(drop),
            table.replace(tx, &[Value::Int(2)], &row(1, "new")).map(drop),
            table.insert(tx, &row(3, &"long".repeat(300))),
        ] {
            assert!(Cause::in_error(&failed.unwrap_err()).is_some());
        }
        table.upsert(tx, &row(4, "four"))
    })
    .unwrap();
    check(&connection, "failed writes");
    let ids = connection.query("SELECT id, a FROM t INDEXED BY i WHERE a > '' ORDER BY id").unwrap();
    let text = |text: &str| Sql::Text(text.into());
    let wanted = [[Sql::Integer(1), text("x")], [Sql::Integer(2), text("y")], [Sql::Integer(4), text("new")]];
    assert_eq!(ids, wanted);
}

/// SQLite cuts long keys of entries. Texts that are equal in an index, and of different letters, have one entry.
#[test]
fn an_entry_of_a_long_text_is_replaced_by_one_of_another_case() {
    for unique in ["", "UNIQUE"] {
        let (db, connection) = made(&format!(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT COLLATE NOCASE); CREATE {unique} INDEX i ON t(a);
             INSERT INTO t VALUES (1, '{}')",
            "A".repeat(1000)
        ));
        let table = expect(&db, "t");
        db.write(|tx| table.update(tx, &[Value::Int(1), Value::from("a".repeat(1000))])).unwrap();
        check(&connection, "an entry of another case");
        let count = |sql: &str| connection.query(sql).unwrap();
        assert_eq!(count("SELECT count(*) FROM t INDEXED BY i WHERE a > ''"), [[Sql::Integer(1)]]);
        db.write(|tx| table.delete(tx, &[Value::Int(1)]).map(drop)).unwrap();
        connection.execute(&format!("INSERT INTO t VALUES (2, '{}')", "a".repeat(1000))).unwrap();
        check(&connection, "the text is free again");
    }
}

#[test]
fn definitions_elsewhere_do_not_make_a_table_unwritable() {
    let long = "n".repeat(190);
    let (db, _connection) = made(&format!(
        "CREATE TABLE t(id INTEGER PRIMARY KEY); CREATE VIRTUAL TABLE d USING fts5(title, cross_references);
         CREATE TABLE parent(id INTEGER PRIMARY KEY); CREATE TABLE child(p REFERENCES parent);
         CREATE TABLE {long}(id INTEGER PRIMARY KEY, a UNIQUE)"
    ));
    assert_eq!(expect(&db, "t").why_read_only(), None);
    assert!(expect(&db, "parent").why_read_only().unwrap().contains("\"child\" refers to it"));
    // The name of its index is longer than names may be here, so the index cannot be kept, and the table is read.
    assert!(expect(&db, &long).why_read_only().unwrap().contains("a name that is too long"));
}

#[test]
fn damaged_records_and_entries_are_errors() {
    let create = "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b INT UNIQUE); CREATE INDEX i ON t(a);
         INSERT INTO t VALUES (1, 'x', 5)";
    let row = [Value::Int(1), Value::from("y"), Value::Int(6)];
    for tree in ["sql:2", "sql:3", "sql:4"] {
        let (db, _connection) = made(create);
        let table = db.snapshot().unwrap().table(tree).unwrap().unwrap();
        let records: Vec<_> =
            db.snapshot().unwrap().range(&table, ..).unwrap().map(|record| record.unwrap()).collect();
        let (key, value) = (records[0].0.to_vec(), records[0].1.to_vec());
        let typed = expect(&db, "t");
        let attempt = || {
            let mut tx = db.begin().unwrap();
            let results = [
                typed.update(&mut tx, &row).map(drop),
                typed.delete(&mut tx, &[Value::Int(1)]).map(drop),
                typed.insert(&mut tx, &row),
                typed.delete_range(&mut tx, &KeyRange::all()),
            ];
            results.into_iter().filter_map(Result::err).collect::<Vec<_>>()
        };
        assert!(attempt().is_empty());
        for at in 0..value.len() {
            for harm in [0x55, 0xff] {
                let mut harmed = value.clone();
                harmed[at] ^= harm;
                for harmed in [&value[..at], &harmed] {
                    db.write(|tx| tx.put(&table, &key, harmed)).unwrap();
                    for error in attempt() {
                        assert!(
                            matches!(
                                error.kind(),
                                ErrorKind::Corruption | ErrorKind::Exists | ErrorKind::Invalid
                            ),
                            "{error}"
                        );
                    }
                }
            }
        }
        // A missing entry is found where it is needed; the row's own record is not missed.
        db.write(|tx| tx.delete(&table, &key)).unwrap();
        let errors = attempt();
        if tree != "sql:2" {
            assert_eq!(errors[0].kind(), ErrorKind::Corruption, "{tree}: {errors:?}");
            assert!(errors[0].to_string().contains("of a row is missing"), "{errors:?}");
        }
        // A key that is none.
        db.write(|tx| tx.put(&table, [5, 5, 5], &value)).unwrap();
        let errors = attempt();
        assert!(
            tree != "sql:2" || errors.iter().all(|error| error.kind() == ErrorKind::Corruption),
            "{errors:?}"
        );
    }
}
