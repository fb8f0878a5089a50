//! Whatever a program writes past this crate into the engine's tables behind typed ones, `check` finds, and names.

use crate::support::{Model, for_seeds};
use pando::{Database, Table, Transaction};
use pando_rows::{Column, ColumnType, Definition, DynamicTable, IndexDefinition, Value};
use std::time::Duration;

const DATA: &str = "rows/1.1/people";
const BY_NAME: &str = "rows/1/1/by_name";
const BY_TOWN: &str = "rows/1/2/by_town";
const CATALOG: &str = "rows/catalog";
const FIRST_KEY: [u8; 8] = [0x80, 0, 0, 0, 0, 0, 0, 1];

/// A table of three rows, with a unique index and another.
fn made() -> Database {
    let db = Database::builder().in_memory().unwrap();
    let definition = Definition::new("people")
        .column(Column::new("id", ColumnType::Int))
        .column(Column::new("name", ColumnType::Text))
        .column(Column::new("town", ColumnType::Text).nullable())
        .key(["id"])
        .index(IndexDefinition::new("by_name", ["name"]).unique())
        .index(IndexDefinition::new("by_town", ["town"]));
    let fill = |tx: &mut Transaction| {
        let people = DynamicTable::create(tx, &definition)?;
        for (id, name) in [(1, "Ann"), (2, "Bob"), (3, "Cid")] {
            people.insert(tx, &[Value::Int(id), Value::from(name), Value::from("Ulm")])?;
        }
        Ok(())
    };
    db.write(fill).unwrap();
    db
}

fn table(db: &Database, name: &str) -> Table {
    db.snapshot().unwrap().table(name).unwrap().unwrap()
}

fn problems(db: &Database) -> Vec<String> {
    let report = pando_rows::check(&db.snapshot().unwrap(), |_| {}).unwrap();
    report.problems.iter().map(ToString::to_string).collect()
}

/// Each of `expected` is part of a problem, and there are no more problems than those.
fn finds(what: &str, expected: &[&str], harm: impl Fn(&Database) -> pando::Result<()>) {
    let db = made();
    assert_eq!(problems(&db), [""; 0], "before: {what}");
    harm(&db).unwrap();
    let found = problems(&db);
    assert_eq!(found.len(), expected.len(), "{what}: {found:#?}");
    for words in expected {
        assert!(found.iter().any(|problem| problem.contains(words)), "{what}: {words:?} in {found:#?}");
    }
}

#[test]
fn rows_and_entries_written_past_the_schema_are_found() {
    let first_row = r#"\x80\x00\x00\x00\x00\x00\x00\x01"#;
    finds(
        "a row is gone",
        &[
            r#"typed table "people", index "by_name": the entry "#,
            r#"typed table "people", index "by_town": the entry "#,
        ],
        |db| db.delete(&table(db, DATA), &FIRST_KEY),
    );
    finds("an entry is gone", &[&format!("index \"by_town\": the row \"{first_row}\" has no entry")], |db| {
        let entry = [b"\x01Ulm\0\0", &FIRST_KEY[..]].concat();
        db.delete(&table(db, BY_TOWN), &entry)
    });
    finds("an entry too many", &[r#"index "by_name": the entry "\x01Eve\x00\x00" does not match"#], |db| {
        db.put(&table(db, BY_NAME), b"\x01Eve\0\0", &FIRST_KEY)
    });
    finds(
        "an entry of another row",
        &["the entry of row", "does not match the row that it leads to"],
        |db| db.put(&table(db, BY_NAME), b"\x01Ann\0\0", &[0x80, 0, 0, 0, 0, 0, 0, 2]),
    );
    finds("a key that is none", &[r#"typed table "people": the row at key "zzz""#], |db| {
        db.put(&table(db, DATA), b"zzz", b"garbage")
    });
    finds("a row that is none", &["its bytes are not those of a row"], |db| {
        db.put(&table(db, DATA), &FIRST_KEY, b"\x01\x00\xff\xff\xff")
    });
    finds("a row of a later version", &["it has schema version 9, but the newest is 1"], |db| {
        db.put(&table(db, DATA), &FIRST_KEY, b"\x09\x00\x00")
    });
}

#[test]
fn schemas_and_tables_that_are_gone_are_found() {
    let orphans = ["\"rows/1.1/people\": no schema", "\"rows/1/1/by_name\": no", "\"rows/1/2/by_town\": no"];
    finds("the schema is deleted", &orphans, |db| db.delete(&table(db, CATALOG), b"tpeople"));
    finds("all schemas are deleted", &orphans, |db| db.write(|tx| tx.delete_range(&table(db, CATALOG), ..)));
    finds("the catalog is dropped", &orphans, |db| db.drop_table(CATALOG));
    let damaged = [&["typed table \"people\": "][..], &orphans].concat();
    finds("the schema is damaged", &damaged, |db| db.put(&table(db, CATALOG), b"tpeople", b"\x01"));
    finds("an index is dropped", &["\"rows/1/2/by_town\" is gone"], |db| db.drop_table(BY_TOWN));
    finds("the rows are dropped", &["\"rows/1.1/people\" is gone"], |db| db.drop_table(DATA));
    finds("the rows are renamed", &["is gone", "\"rows/9\": no schema"], |db| {
        db.rename_table(DATA, "rows/9").map(drop)
    });
    finds("a table without a schema", &["\"rows/5.1/x\": no schema"], |db| {
        db.ensure_table("rows/5.1/x").map(drop)
    });
}

#[test]
fn records_that_expire_are_found() {
    for (name, expected) in [(DATA, "its rows expire"), (BY_TOWN, "index \"by_town\": its entries expire")] {
        finds(expected, &[expected], |db| {
            db.write(|tx| DynamicTable::expect(tx, "people")?.clear(tx))?;
            db.checkpoint()?;
            let made = table(db, name);
            db.drop_table(name)?;
            let options = pando::TableOptions::with_layout(made.layout()).ttl(Duration::from_secs(3600));
            db.create_table(name, &options).map(drop)
        });
    }
}

#[test]
fn records_of_the_catalog_that_are_none_are_found() {
    finds("a number that was given", &["the next table's number is 1, but table 1 exists"], |db| {
        db.put(&table(db, CATALOG), b"n", b"\x01")
    });
    finds("no number", &["the next table's number is missing"], |db| db.delete(&table(db, CATALOG), b"n"));
    finds("a damaged number", &["the next table's number is damaged"], |db| {
        db.put(&table(db, CATALOG), b"n", b"\xff")
    });
    finds("a build of no index", &["belongs to no index that is being built"], |db| {
        db.put(&table(db, CATALOG), b"b\0\0\0\x01\0\0\0\x01", b"")
    });
    finds("anything else", &["the record \"x\" is not a record of a catalog"], |db| {
        db.put(&table(db, CATALOG), b"x", b"")
    });
    finds("a name that is no text", &["a name that is not UTF-8"], |db| {
        db.put(&table(db, CATALOG), b"t\xff", b"")
    });
}

#[test]
fn a_key_that_is_not_that_of_its_row_is_found() {
    let db = Database::builder().in_memory().unwrap();
    let definition = Definition::new("loose").column(Column::new("id", ColumnType::Any)).key(["id"]);
    db.write(|tx| DynamicTable::create(tx, &definition)?.insert(tx, &[Value::from("a")])).unwrap();
    let data = table(&db, "rows/1.1/loose");
    let snapshot = db.snapshot().unwrap();
    let (key, value) = snapshot.range(&data, ..).unwrap().next().unwrap().unwrap();
    let other = [&key[..1], b"b\0\0"].concat();
    db.put(&data, &other, &value).unwrap();
    let found = problems(&db);
    assert!(matches!(&found[..], [one] if one.contains("its values belong to another key")), "{found:?}");
}

/// Of a table of several versions with an index: whichever record is deleted, of its rows, its entries or the catalog,
/// is missed.
#[test]
fn no_record_can_go_unnoticed() {
    for_seeds(0..60, |random| {
        let db = Database::builder().in_memory().unwrap();
        let (mut table, mut model) = db.write(Model::create).unwrap();
        let mut tx = db.begin().unwrap();
        for _ in 0..4 {
            table = model.change_schema(&mut tx, table, random).unwrap();
            (0..6).for_each(|_| model.change_row(&mut tx, &table, random).unwrap());
        }
        let by_key = IndexDefinition::new("always", ["k"]);
        table = table.create_index(&mut tx, by_key).unwrap();
        tx.commit().unwrap();
        assert_eq!(problems(&db), [""; 0]);
        let snapshot = db.snapshot().unwrap();
        let own = |table: &Table| pando_rows::is_reserved(table.name());
        let mut records = Vec::new();
        for table in snapshot.tables().unwrap().into_iter().filter(own) {
            for record in snapshot.range(&table, ..).unwrap() {
                records.push((table.clone(), record.unwrap().0));
            }
        }
        let (of, key) = &records[random.below(records.len() as u64) as usize];
        db.delete(of, key).unwrap();
        assert_ne!(problems(&db), [""; 0], "{:?}, key \"{}\"", of.name(), key.escape_ascii());
        drop(table);
    });
}
