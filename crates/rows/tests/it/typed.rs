//! Tables of structs: all types there and back, keys, what a changed struct does, handles that outlive a change.

use pando::{Database, ErrorKind, Result};
use pando_rows::{
    Column, ColumnType, Definition, DynamicTable, IndexDefinition, Row, Table, Timestamp, Value, build_index,
};

#[derive(Row, Clone, Debug, PartialEq)]
#[row(table = "everything", unique(by_uuid = "uuid"), index(by_city = "document/city nocase desc, int"))]
struct Everything {
    #[row(key)]
    text: String,
    #[row(key, descending)]
    int: i32,
    #[row(key)]
    bytes: Vec<u8>,
    uuid: [u8; 16],
    uint: Option<u16>,
    float: f64,
    flag: bool,
    moment: Timestamp,
    document: serde_json::Value,
    #[row(name = "type")]
    kind: Option<String>,
    any: Value<'static>,
}

fn everything(n: u8) -> Everything {
    Everything {
        text: format!("text {}", n / 4),
        int: i32::from(n) - 2,
        bytes: vec![0, n, 0xff],
        uuid: [n; 16],
        uint: n.is_multiple_of(2).then_some(u16::from(n)),
        float: f64::from(n) / 3.0,
        flag: n.is_multiple_of(3),
        moment: Timestamp { micros: i64::from(n) - 5 },
        document: serde_json::json!({"city": if n.is_multiple_of(2) { "ulm" } else { "BONN" }}),
        kind: (n % 2 == 1).then(|| "kind".to_owned()),
        any: if n.is_multiple_of(2) { Value::Null } else { Value::from(i64::from(n)) },
    }
}

#[test]
fn all_types_come_back() -> Result<()> {
    let db = Database::builder().in_memory()?;
    let table = Table::<Everything>::ensure(&db)?;
    let mut all: Vec<Everything> = (0..12).map(everything).collect();
    db.write(|tx| all.iter().try_for_each(|row| table.insert(tx, row)))?;
    // Within a text, from the largest int to the smallest.
    all.sort_by(|a, b| (&a.text, -a.int).cmp(&(&b.text, -b.int)));
    let snapshot = db.snapshot()?;
    assert_eq!(table.range(&snapshot, ..)?.collect::<Result<Vec<_>>>()?, all);
    let mut backwards = table.range_backwards(&snapshot, ..)?.collect::<Result<Vec<_>>>()?;
    backwards.reverse();
    assert_eq!(backwards, all);
    for row in &all {
        assert_eq!(table.get(&snapshot, row.key())?.as_ref(), Some(row));
        assert_eq!(table.get(&snapshot, (&row.text, row.int, &row.bytes))?.as_ref(), Some(row));
        assert_eq!(
            table.by_index(&snapshot, "by_uuid", row.uuid)?.collect::<Result<Vec<_>>>()?,
            std::slice::from_ref(row)
        );
    }
    assert_eq!(table.prefix(&snapshot, "text 1")?.collect::<Result<Vec<_>>>()?, all[4..8]);
    assert_eq!(table.range(&snapshot, all[2].key()..all[5].key())?.collect::<Result<Vec<_>>>()?, all[2..5]);
    assert_eq!(table.range(&snapshot, all[2].key()..=all[5].key())?.count(), 4);
    assert_eq!(table.by_index(&snapshot, "by_city", "Ulm")?.count(), 6);
    assert_eq!(table.by_index_backwards(&snapshot, "by_city", ())?.next().unwrap()?.document["city"], "BONN");
    assert_eq!(table.by_index(&snapshot, "by_city", 7).map(drop).map_err(|e| e.kind()), Ok(()));
    assert_eq!(table.by_index(&snapshot, "none", 7).unwrap_err().kind(), ErrorKind::Missing);
    db.write(|tx| {
        assert_eq!(table.remove(tx, all[0].key())?.as_ref(), Some(&all[0]));
        assert!(!table.delete(tx, all[0].key())?);
        assert!(!table.update(tx, &all[0])?);
        assert!(!table.contains(tx, all[0].key())?);
        table.upsert(tx, &all[0])?;
        assert_eq!(table.insert(tx, &all[0]).unwrap_err().kind(), ErrorKind::Exists);
        Ok(())
    })?;
    assert_eq!(pando_rows::check(&db.snapshot()?, |_| {})?.problems, []);
    Ok(())
}

mod before {
    #[derive(pando_rows::Row, Clone, Debug, PartialEq)]
    #[row(table = "people")]
    pub struct Person {
        #[row(key)]
        pub id: u64,
        pub name: String,
    }
}

mod after {
    #[derive(pando_rows::Row, Clone, Debug, PartialEq)]
    #[row(table = "people", index(by_town = "town"))]
    pub struct Person {
        #[row(key)]
        pub id: u64,
        pub name: String,
        #[row(default = "Ulm")]
        pub town: String,
        pub age: Option<i64>,
    }
}

#[test]
fn a_struct_that_grew_is_opened_as_what_it_was() -> Result<()> {
    let db = Database::builder().in_memory()?;
    let old = Table::<before::Person>::ensure(&db)?;
    let person = |id: u64| before::Person { id, name: format!("p{id}") };
    db.write(|tx| (0..10).try_for_each(|id| old.insert(tx, &person(id))))?;
    let earlier = db.snapshot()?;
    let new = Table::<after::Person>::ensure(&db)?;
    let now = db.snapshot()?;
    let grown = |id: u64| after::Person { id, name: format!("p{id}"), town: "Ulm".into(), age: None };
    assert_eq!(new.get(&now, 3)?, Some(grown(3)));
    assert_eq!(new.by_index(&now, "by_town", "Ulm")?.count(), 10);
    let mut both = new.range(&now, 2..5)?;
    let ends = (both.next().transpose()?, both.next_back().transpose()?, both.next().transpose()?);
    assert_eq!(ends, (Some(grown(2)), Some(grown(4)), Some(grown(3))));
    assert!(both.next_back().is_none() && both.next().is_none());
    // The old program reads what it saw then, and gets an error for the rest.
    assert_eq!(old.get(&earlier, 3)?, Some(person(3)));
    let error = old.get(&now, 3).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Mismatch);
    assert!(error.to_string().contains("4 columns, not 2"), "{error}");
    assert_eq!(new.get(&earlier, 3).unwrap_err().kind(), ErrorKind::Mismatch);
    assert_eq!(Table::<before::Person>::ensure(&db).unwrap_err().kind(), ErrorKind::Mismatch);
    assert_eq!(Table::<after::Person>::expect(&now)?.get(&now, 3)?, Some(grown(3)));
    assert_eq!(Table::<after::Person>::open(&now)?.unwrap().get(&now, 3)?, Some(grown(3)));
    Ok(())
}

#[test]
fn a_handle_outlives_an_index_made_beside_it() -> Result<()> {
    let db = Database::builder().in_memory()?;
    let table = Table::<before::Person>::ensure(&db)?;
    let person = |id: u64| before::Person { id, name: format!("p{}", id % 3) };
    db.write(|tx| (0..10).try_for_each(|id| table.insert(tx, &person(id))))?;
    let earlier = db.snapshot()?;
    build_index(&db, "people", IndexDefinition::new("by_name", ["name"]), |_| Ok(()))?;
    db.write(|tx| {
        table.insert(tx, &person(10))?;
        table.delete(tx, 0)?;
        assert_eq!(table.by_index(tx, "by_name", "p1")?.count(), 4);
        Ok(())
    })?;
    assert_eq!(table.range(&earlier, ..)?.count(), 10);
    assert_eq!(table.range(&db.snapshot()?, ..)?.count(), 10);
    assert_eq!(table.clone().by_index(&db.snapshot()?, "by_name", "p0")?.count(), 3);
    assert_eq!(pando_rows::check(&db.snapshot()?, |_| {})?.problems, []);
    Ok(())
}

#[test]
fn a_handle_forgets_what_was_undone() -> Result<()> {
    let db = Database::builder().in_memory()?;
    let table = Table::<before::Person>::ensure(&db)?;
    let person = |id: u64| before::Person { id, name: format!("p{}", id % 3) };
    let index = |tx: &mut pando::Transaction, name: &str| {
        DynamicTable::expect(tx, "people")?.create_index(tx, IndexDefinition::new(name, ["name"]))
    };
    let mut tx = db.begin()?;
    index(&mut tx, "undone")?;
    table.insert(&mut tx, &person(1))?;
    drop(tx);
    db.write(|tx| index(tx, "kept"))?;
    db.write(|tx| table.insert(tx, &person(2)))?;
    assert_eq!(table.by_index(&db.snapshot()?, "kept", ())?.count(), 1);
    assert_eq!(table.by_index(&db.snapshot()?, "undone", ()).unwrap_err().kind(), pando::ErrorKind::Missing);
    assert_eq!(pando_rows::check(&db.snapshot()?, |_| {})?.problems, []);
    Ok(())
}

#[test]
fn another_table_of_the_name_is_refused() -> Result<()> {
    let id = || Column::new("id", ColumnType::UInt);
    let name = || Column::new("name", ColumnType::Text);
    let people = || Definition::new("people");
    for (definition, says) in [
        (
            people().column(Column::new("id", ColumnType::Int)).column(name()).key(["id"]),
            "\"id\" of type int",
        ),
        (people().column(id()).column(name().nullable()).key(["id"]), "may be null"),
        (people().column(id()).column(name()).key(["name"]), "primary key"),
        (people().column(name()).column(id()).key(["id"]), "\"name\""),
    ] {
        let db = Database::builder().in_memory()?;
        db.write(|tx| DynamicTable::create(tx, &definition).map(drop))?;
        let error = Table::<before::Person>::ensure(&db).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Mismatch);
        assert!(error.to_string().contains(says), "{error}");
    }
    let db = Database::builder().in_memory()?;
    assert_eq!(Table::<before::Person>::expect(&db.snapshot()?).unwrap_err().kind(), ErrorKind::Missing);
    assert!(Table::<before::Person>::open(&db.snapshot()?)?.is_none());
    // A number that its field cannot hold.
    let table = Table::<Everything>::ensure(&db)?;
    let mut row: Vec<Value<'_>> =
        (0..11).map(|place| pando_rows::Columns::value(&everything(1), place).into_owned()).collect();
    row[4] = Value::UInt(70_000);
    db.write(|tx| table.dynamic().insert(tx, &row))?;
    let error = table.range(&db.snapshot()?, ..)?.next().unwrap().unwrap_err();
    assert!(error.to_string().contains("\"uint\""), "{error}");
    Ok(())
}
