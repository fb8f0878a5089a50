//! Bytes that nobody wrote through this crate, in rows, entries and schemas: errors that name the place, found by
//! `check` as well, and never a panic.

use crate::support::{Model, for_seeds};
use base::env::Random;
use pando::{Database, ErrorKind, Result};
use pando_rows::{DynamicTable, KeyRange, Value};

/// A table with rows of several versions and some indexes.
fn made(random: &mut Random) -> (Database, Model) {
    let db = Database::builder().in_memory().unwrap();
    let (mut table, mut model) = db.write(Model::create).unwrap();
    let mut tx = db.begin().unwrap();
    for _ in 0..6 {
        table = model.change_schema(&mut tx, table, random).unwrap();
        for _ in 0..10 {
            model.change_row(&mut tx, &table, random).unwrap();
        }
    }
    tx.commit().unwrap();
    (db, model)
}

/// Everything that can be asked of what is there. Answers are errors of damage, or something.
fn ask(db: &Database, model: &Model, random: &mut Random) {
    let snapshot = db.snapshot().unwrap();
    let fine = |error: pando::Error| {
        let kinds = [ErrorKind::Corruption, ErrorKind::Invalid, ErrorKind::Missing, ErrorKind::Exists];
        assert!(kinds.contains(&error.kind()), "{:?}: {error}", error.kind());
    };
    pando_rows::check(&snapshot, |_| {}).map(drop).unwrap_or_else(fine);
    DynamicTable::all(&snapshot).map(drop).unwrap_or_else(fine);
    let table = match DynamicTable::open(&snapshot, &model.name) {
        Ok(Some(table)) => table,
        Ok(None) => return,
        Err(error) => return fine(error),
    };
    let names: Vec<_> = table.schema().indexes().iter().map(|index| index.name().to_owned()).collect();
    let read = |index: Option<&str>| -> Result<()> {
        let scan = match index {
            Some(index) => table.scan_index(&snapshot, index, &KeyRange::all())?,
            None => table.scan(&snapshot, &KeyRange::all())?,
        };
        scan.take(1000).try_for_each(|row| row.map(drop))
    };
    read(None).unwrap_or_else(fine);
    names.iter().for_each(|name| read(Some(name)).unwrap_or_else(fine));
    for key in model.rows.keys() {
        let _ = table.get(&snapshot, &crate::support::values(key)).map_err(fine);
    }
    drop(snapshot);
    let mut tx = db.begin().unwrap();
    for key in model.rows.keys() {
        let _ = table.delete(&mut tx, &crate::support::values(key)).map_err(fine);
    }
    for _ in 0..10 {
        let row: Vec<Value<'_>> = model.row(random);
        let _ = table.upsert(&mut tx, &row).map_err(fine);
    }
}

#[test]
fn damaged_bytes_are_errors() {
    for_seeds(0..150, |random| {
        let (db, model) = made(random);
        let tables = db.tables().unwrap();
        for _ in 0..=random.below(4) {
            let table = &tables[random.below(tables.len() as u64) as usize];
            let records: Vec<_> =
                db.snapshot().unwrap().range(table, ..).unwrap().map(Result::unwrap).collect();
            let Some((key, value)) = records.get(random.below(records.len().max(1) as u64) as usize) else {
                continue;
            };
            let mut damage = |bytes: &[u8]| {
                let mut bytes = bytes.to_vec();
                match (random.below(4), bytes.len() as u64) {
                    (0, length) => bytes.truncate(random.below(length + 1) as usize),
                    (1, _) => bytes.push(random.next_u64() as u8),
                    (_, 0) => {}
                    (_, length) => bytes[random.below(length) as usize] = random.next_u64() as u8,
                }
                bytes
            };
            let (new_key, new_value) = (damage(key), damage(value));
            match new_key.len() % 3 {
                0 => db.put(table, &new_key, value).unwrap(),
                1 => db.put(table, key, &new_value).unwrap(),
                _ => db.delete(table, key).unwrap(),
            }
        }
        ask(&db, &model, random);
    });
}

/// Each kind of disagreement between an index and its table is found, and named.
#[test]
fn check_finds_what_was_done_by_hand() {
    use pando_rows::{Column, ColumnType, Definition, IndexDefinition};
    let definition = Definition::new("t")
        .column(Column::new("id", ColumnType::Int))
        .column(Column::new("name", ColumnType::Text))
        .key(["id"])
        .index(IndexDefinition::new("unique", ["name"]).unique())
        .index(IndexDefinition::new("plain", ["name"]));
    let row = |id: i64| [Value::from(id), Value::from(format!("n{id}"))];
    type Damage = fn(&Database, &DynamicTable) -> Result<()>;
    let damages: [(Damage, &str); 4] = [
        (|db, t| db.write(|tx| tx.delete_range(t.index_data("plain").unwrap(), ..)), "has no entry"),
        (|db, t| db.write(|tx| tx.delete_range(t.data(), ..)), "leads to no row"),
        (
            |db, t| {
                let table = t.index_data("unique").unwrap();
                let (key, _) = db.snapshot()?.range(table, ..)?.next().unwrap()?;
                db.put(table, &key, &7i64.to_be_bytes())
            },
            "belongs to another row",
        ),
        (
            |db, t| {
                let (key, _) = db.snapshot()?.range(t.data(), ..)?.next().unwrap()?;
                db.put(t.data(), &key, &[1, 1, b'x'])
            },
            "does not match the row",
        ),
    ];
    for (damage, says) in damages {
        let db = Database::builder().in_memory().unwrap();
        let table = db.write(|tx| DynamicTable::create(tx, &definition)).unwrap();
        db.write(|tx| (0..3).try_for_each(|id| table.insert(tx, &row(id)))).unwrap();
        damage(&db, &table).unwrap();
        let report = pando_rows::check(&db.snapshot().unwrap(), |_| {}).unwrap();
        assert!(report.problems.iter().any(|problem| problem.what.contains(says)), "{says}: {report:?}");
    }
}
