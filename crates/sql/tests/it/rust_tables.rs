//! Tables that were made in Rust, as SQL has them.

use pando_sql::{Sql, Value};
use rows::{Column, ColumnType, Definition, DynamicTable, IndexDefinition, Value as RowValue};

fn open() -> (pando::Database, Sql) {
    let db = pando::Database::builder().in_memory().unwrap();
    (db.clone(), Sql::new(db))
}

fn ints(sql: &Sql, query: &str) -> Vec<i64> {
    let rows = sql.connect().unwrap().query(query, &[]).unwrap_or_else(|error| panic!("{query}: {error}"));
    let int = |row: &Vec<Value>| if let Value::Integer(number) = row[0] { number } else { panic!("{row:?}") };
    rows.iter().map(int).collect()
}

/// Notes are for the program that made the table: what they say is nothing to SQL, and stays as it is.
#[test]
fn notes_of_others_are_left_alone() {
    let (db, sql) = open();
    for (number, note) in ["what people are", "{curly}", "{\"owner\":\"Ann\"}"].into_iter().enumerate() {
        let name = format!("people{number}");
        let definition = Definition::new(&name)
            .note(note)
            .column(Column::new("id", ColumnType::Int).note(note))
            .column(Column::new("age", ColumnType::Int).nullable().note(note))
            .key(["id"]);
        let people = db.write(|tx| DynamicTable::create(tx, &definition)).unwrap();
        db.write(|tx| people.insert(tx, &[RowValue::Int(1), RowValue::Int(30)])).unwrap();
        let connection = sql.connect().unwrap();
        connection.execute(&format!("INSERT INTO {name} VALUES(2, '31')"), &[]).unwrap();
        connection.execute(&format!("ALTER TABLE {name} ADD COLUMN more TEXT DEFAULT 'x'"), &[]).unwrap();
        assert_eq!(ints(&sql, &format!("SELECT age FROM {name} WHERE more = 'x' ORDER BY id")), [30, 31]);
        let changed = DynamicTable::expect(&db.snapshot().unwrap(), &name).unwrap();
        assert_eq!(changed.schema().note(), note);
        assert_eq!(changed.schema().columns().next().unwrap().note_text(), note);
    }
}

/// A name that no statement can say hides its table, and no other.
#[test]
fn a_name_with_a_nul_is_in_nobodys_way() {
    let (db, sql) = open();
    for name in ["a\0b", "seen"] {
        let definition = Definition::new(name).column(Column::new("id", ColumnType::Int)).key(["id"]);
        let table = db.write(|tx| DynamicTable::create(tx, &definition)).unwrap();
        db.write(|tx| table.insert(tx, &[RowValue::Int(7)])).unwrap();
    }
    assert_eq!(ints(&sql, "SELECT id FROM seen"), [7]);
}

/// What is beyond SQLite's integers is shown as a float, and found by that: by the key and by an index, as without.
#[test]
fn large_unsigned_integers_are_found_as_they_are_shown() {
    let (db, sql) = open();
    let large = [1 << 63, (1 << 63) + 1, (1 << 63) + 5000, u64::MAX - 3000, u64::MAX];
    let definition = Definition::new("t")
        .column(Column::new("id", ColumnType::UInt))
        .column(Column::new("again", ColumnType::UInt))
        .key(["id"])
        .index(IndexDefinition::new("by_again", ["again"]));
    let table = db.write(|tx| DynamicTable::create(tx, &definition)).unwrap();
    db.write(|tx| {
        let rows = large.into_iter().chain([1, 2]);
        rows.into_iter()
            .try_for_each(|number| table.insert(tx, &[RowValue::UInt(number), RowValue::UInt(number)]))
    })
    .unwrap();
    let connection = sql.connect().unwrap();
    let count = |condition: &str| {
        ints(&sql, &format!("SELECT count(*) FROM t WHERE {condition}")).into_iter().next().unwrap()
    };
    for row in connection.query("SELECT DISTINCT id FROM t WHERE id > 1e18", &[]).unwrap() {
        let Value::Real(shown) = row[0] else { panic!("{row:?}") };
        let scanned = count(&format!("+id = {shown:e}"));
        assert!(scanned >= 1, "{shown}");
        assert_eq!(count(&format!("id = {shown:e}")), scanned, "{shown}");
        assert_eq!(count(&format!("again = {shown:e}")), scanned, "{shown}");
    }
    assert_eq!(count("id = 2.0"), 1);
}

/// Rows that came by another way are passed over at once when an id is given.
#[test]
fn ids_go_on_behind_rows_that_came_by_another_way() {
    let (db, sql) = open();
    let connection = sql.connect().unwrap();
    connection
        .execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, a); INSERT INTO t(a) VALUES(1)")
        .unwrap();
    let table = DynamicTable::expect(&db.snapshot().unwrap(), "t").unwrap();
    db.write(|tx| (2..=20_000).try_for_each(|id| table.insert(tx, &[RowValue::Int(id), RowValue::Null])))
        .unwrap();
    connection.execute("INSERT INTO t(a) VALUES(2)", &[]).unwrap();
    // One that was claimed and found taken may be left out.
    assert!(
        (20_001..20_003).contains(&connection.last_insert_row_id()),
        "{}",
        connection.last_insert_row_id()
    );
}

/// A table that is altered in a transaction that is the first to write to it.
#[test]
fn ids_go_on_in_a_table_that_was_just_altered() {
    let (_, sql) = open();
    sql.connect().unwrap().execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, a)").unwrap();
    let db = sql.database().clone();
    let table = DynamicTable::expect(&db.snapshot().unwrap(), "t").unwrap();
    db.write(|tx| (1..=500).try_for_each(|id| table.insert(tx, &[RowValue::Int(id), RowValue::Null])))
        .unwrap();
    let connection = sql.connect().unwrap();
    connection
        .execute_batch("BEGIN; ALTER TABLE t ADD COLUMN b; INSERT INTO t(a) VALUES(1); COMMIT")
        .unwrap();
    assert_eq!(connection.last_insert_row_id(), 501);
}

/// This package imports the library of typed rows under another name than its own, and the derived code follows it.
#[test]
fn a_derived_table_under_a_renamed_import_is_a_table_of_sql() {
    #[derive(rows::Row, Debug, PartialEq)]
    #[row(table = "people", index(by_age = "age desc"), crate = rows)]
    struct Person {
        #[row(key)]
        id: u32,
        #[row(key, descending)]
        town: String,
        #[row(default = 7)]
        age: i64,
        email: Option<String>,
    }

    let (db, sql) = open();
    let people = rows::Table::<Person>::ensure(&db).unwrap();
    let ann = Person { id: 1, town: "Ulm".into(), age: 30, email: None };
    db.write(|tx| people.insert(tx, &ann)).unwrap();
    sql.connect().unwrap().execute("INSERT INTO people(id, town, age) VALUES(2, 'Bonn', 31)", &[]).unwrap();
    assert_eq!(ints(&sql, "SELECT age FROM people ORDER BY age"), [30, 31]);
    assert_eq!(people.get(&db.snapshot().unwrap(), (1, "Ulm")).unwrap(), Some(ann));
}

/// A column has the name of its field, also if the field needs `r#` because Rust has a keyword of that name.
#[test]
fn a_field_that_is_a_keyword_is_a_column_without_the_mark() {
    #[derive(rows::Row, Debug, PartialEq)]
    #[row(table = "events", index(r#in = "type"), crate = rows)]
    struct Event {
        #[row(key)]
        id: i64,
        r#type: String,
    }

    let (db, sql) = open();
    let events = rows::Table::<Event>::ensure(&db).unwrap();
    db.write(|tx| events.insert(tx, &Event { id: 1, r#type: "made".into() })).unwrap();
    sql.connect().unwrap().execute("INSERT INTO events(id, type) VALUES(2, 'sold')", &[]).unwrap();
    assert_eq!(ints(&sql, "SELECT id FROM events WHERE type = 'sold'"), [2]);
    let table = DynamicTable::expect(&db.snapshot().unwrap(), "events").unwrap();
    assert_eq!(table.schema().indexes()[0].name(), "in");
}

fn with_emails() -> (pando_sql::Connection, impl Fn() -> Vec<Vec<Value>>) {
    let (db, sql) = open();
    let definition = Definition::new("p")
        .column(Column::new("id", ColumnType::Int))
        .column(Column::new("doc", ColumnType::Json).nullable())
        .column(Column::new("n", ColumnType::Int))
        .key(["id"])
        .index(IndexDefinition::on("by_e", "doc/email, n").unique());
    db.write(|tx| DynamicTable::create(tx, &definition)).unwrap();
    let connection = sql.connect().unwrap();
    connection
        .execute(
            r#"INSERT INTO p VALUES (1, '{"email":"x@y","age":1}', 5), (7, '{"age":2}', 5), (8, NULL, 5)"#,
            &[],
        )
        .unwrap();
    let read = sql.connect().unwrap();
    (connection, move || read.query("SELECT id, doc ->> 'age' FROM p ORDER BY id", &[]).unwrap())
}

/// A row in the way is found by the value at the path, and not by the document.
#[test]
fn conflicts_of_values_within_documents_are_resolved() {
    let (connection, rows) = with_emails();
    let run = |sql: &str| connection.execute(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error}"));
    run(r#"INSERT OR REPLACE INTO p VALUES (2, '{"age":3, "email":"x@y"}', 5)"#);
    let all = |ages: &[(i64, Option<&str>)]| {
        let row = |(id, age): &(i64, Option<&str>)| {
            vec![(*id).into(), age.map_or(Value::Null, |age| age.parse::<i64>().unwrap().into())]
        };
        ages.iter().map(row).collect::<Vec<_>>()
    };
    assert_eq!(rows(), all(&[(2, Some("3")), (7, Some("2")), (8, None)]));
    assert_eq!(run(r#"INSERT INTO p VALUES (3, '{"email":"x@y"}', 5) ON CONFLICT DO NOTHING"#), 0);
    assert_eq!(run(r#"INSERT OR IGNORE INTO p VALUES (3, '{"email":"x@y"}', 5)"#), 0);
    run(r#"INSERT INTO p VALUES (3, '{"email":"x@y"}', 5)
            ON CONFLICT DO UPDATE SET doc = '{"age":9,"email":"x@y"}'"#);
    assert_eq!(rows(), all(&[(2, Some("9")), (7, Some("2")), (8, None)]));
    run(r#"UPDATE OR REPLACE p SET doc = '{"email":"x@y"}' WHERE id = 7"#);
    assert_eq!(rows(), all(&[(7, None), (8, None)]));
    // Rows without the value conflict with none.
    assert_eq!(run("INSERT INTO p VALUES (9, '{}', 5) ON CONFLICT DO NOTHING"), 1);
    assert_eq!(run("INSERT OR REPLACE INTO p VALUES (10, '{}', 5)"), 1);
    assert_eq!(rows().len(), 4);
    let error = connection.execute(r#"INSERT INTO p VALUES (3, '{"email":"x@y"}', 5)"#, &[]).unwrap_err();
    assert!(error.message().contains("UNIQUE constraint failed"), "{error}");
    // The whole document is not unique.
    let error = connection.execute("INSERT INTO p VALUES (7, '1', 1) ON CONFLICT(doc, n) DO NOTHING", &[]);
    assert!(error.unwrap_err().message().contains("does not match"));
}

/// What cannot be read as JSON cannot be stored: a number beyond floats, and more than 128 levels.
#[test]
fn documents_that_cannot_be_read_are_refused() {
    let (connection, _) = with_emails();
    let deep = format!("{}{}", "[".repeat(129), "]".repeat(129));
    for document in ["1e400", r#"{"a":[-1e999]}"#, &deep, "{"] {
        let insert = "INSERT INTO p VALUES (20, ?, 1)";
        let error = connection.execute(insert, &[Value::Text(document.to_owned())]).unwrap_err();
        assert!(error.message().contains("cannot store TEXT value in json column p.doc"), "{error}");
    }
    let error = connection.execute("INSERT INTO p VALUES (20, '1e400', 1)", &[]).unwrap_err();
    assert!(error.message().contains("number out of range"), "{error}");
    let fits = format!("{}{}", "[".repeat(127), "]".repeat(127));
    connection.execute("INSERT INTO p VALUES (20, ?, 1)", &[Value::Text(fits)]).unwrap();
}
