//! Scans by batches against rows that are got one by one: of every kind of key, with rows of older schemas.

use base::env::Random;
use pando::Database;
use pando_rows::{
    Batch, BatchScan, Bounds, Column, ColumnType, Definition, DynamicTable, IndexDefinition, Part, Value,
};

fn column(name: &str, kind: ColumnType) -> Column {
    Column::new(name, kind)
}

fn table(db: &Database, key: &[Part]) -> DynamicTable {
    let definition = Definition::new("t")
        .column(column("number", ColumnType::Int))
        .column(column("text", ColumnType::Text))
        .column(column("maybe", ColumnType::Float).nullable())
        .column(column("any", ColumnType::Any).nullable())
        .column(column("bytes", ColumnType::Bytes).nullable())
        .key(key.iter().cloned())
        .index(IndexDefinition::new("by_maybe", ["maybe", "number"]))
        .index(IndexDefinition::new("by_text", ["text", "number"]).unique());
    db.write(|tx| DynamicTable::create(tx, &definition)).unwrap()
}

fn fill(db: &Database, table: &DynamicTable, random: &mut Random, first: i64) {
    db.write(|tx| {
        for number in first..first + 60 {
            let texts = ["", "a", "a\0b", "\u{e9}t\u{e9}"];
            let text = format!("{}{number}", texts[random.below(4) as usize]);
            let any = match random.below(4) {
                0 => Value::Null,
                1 => Value::Int(number),
                2 => Value::from(text.clone()),
                _ => Value::from(vec![0, 255]),
            };
            let mut row = vec![Value::Int(number), Value::from(text)];
            row.push(Value::from((random.below(3) > 0).then_some(number as f64 / 4.0)));
            row.push(any);
            row.push(Value::from((random.below(2) > 0).then(|| vec![7u8; random.below(300) as usize])));
            row.extend(table.schema().columns().skip(5).map(|_| Value::Int(number)));
            row.truncate(table.schema().columns().count());
            table.insert(tx, &row)?;
        }
        Ok(())
    })
    .unwrap();
}

/// Every value of every row, asked for in an order of chance, is that of the row that `get` answers.
fn compare(db: &Database, table: &DynamicTable, random: &mut Random) {
    let snapshot = db.snapshot().unwrap();
    let places = table.schema().columns().count();
    let key: Vec<_> =
        table.schema().key().iter().map(|part| table.schema().place(part.column()).unwrap()).collect();
    for index in [None, Some("by_maybe"), Some("by_text")] {
        for keys_only in [false, true] {
            let given: Vec<_> = match (index, keys_only) {
                (_, false) => (0..places).collect(),
                (None, true) => key.clone(),
                (Some(_), true) => {
                    let parts = table.schema().index(index.unwrap()).unwrap().parts().iter();
                    parts
                        .map(|part| table.schema().place(part.column()).unwrap())
                        .chain(key.clone())
                        .collect()
                }
            };
            for backwards in [false, true] {
                let mut scan =
                    BatchScan::new(table, index, &Bounds::default(), backwards, keys_only).unwrap();
                let (mut batch, mut count) = (Batch::default(), 0);
                while !scan.is_done() {
                    scan.fill(&snapshot, 1 + random.below(50) as usize, &mut batch).unwrap();
                    for row in 0..batch.len() {
                        let parts =
                            key.iter().map(|place| scan.value(&mut batch, row, *place).unwrap().into_owned());
                        let wanted = table.get(&snapshot, &parts.collect::<Vec<_>>()).unwrap().unwrap();
                        for _ in 0..2 * given.len() {
                            let place = given[random.below(given.len() as u64) as usize];
                            if let Some(integer) = scan.integer(&mut batch, row, place) {
                                assert_eq!(Value::Int(integer), wanted[place]);
                            }
                            let value = scan.value(&mut batch, row, place).unwrap();
                            assert_eq!(
                                value, wanted[place],
                                "{index:?}, {keys_only}, place {place} of {wanted:?}"
                            );
                        }
                        count += 1;
                    }
                }
                assert_eq!(count, table.count(&snapshot, None, &pando_rows::KeyRange::all()).unwrap());
            }
        }
    }
}

#[test]
fn values_are_read_one_by_one_as_in_whole_rows() {
    let keys: [Vec<Part>; 4] = [
        vec![Part::new("number")],
        vec![Part::new("text").descending(), Part::new("number")],
        vec![Part::new("text"), Part::new("number").descending()],
        vec![Part::new("number").descending()],
    ];
    for (seed, key) in keys.iter().enumerate() {
        let mut random = Random::seeded(seed as u64);
        let db = Database::builder().in_memory().unwrap();
        let first = table(&db, key);
        fill(&db, &first, &mut random, 0);
        compare(&db, &first, &mut random);
        // Rows of three versions, one of which lacks what the others have.
        let added = column("later", ColumnType::Int).default(-5);
        let second = db.write(|tx| first.clone().add_column(tx, added.clone())).unwrap();
        fill(&db, &second, &mut random, 1000);
        compare(&db, &second, &mut random);
        let third = db.write(|tx| second.clone().drop_column(tx, "any")).unwrap();
        db.checkpoint().unwrap();
        compare(&db, &third, &mut random);
    }
}

/// What a batch took in has been read: a row that another transaction puts into it meanwhile is a conflict, one behind
/// it is none.
#[test]
fn a_transaction_has_read_what_its_batches_hold() {
    for (number, is_conflict) in [(151, true), (1, true), (197, true), (451, false)] {
        let db = Database::builder().in_memory().unwrap();
        let key = [Part::new("number")];
        let definition = Definition::new("t").column(column("number", ColumnType::Int)).key(key);
        let table = db.write(|tx| DynamicTable::create(tx, &definition)).unwrap();
        let row = |number: i64| [Value::Int(number)];
        db.write(|tx| (0..1000).try_for_each(|number| table.insert(tx, &row(2 * number)))).unwrap();
        db.checkpoint().unwrap();
        let mut tx = db.begin().unwrap();
        let mut batch = Batch::default();
        let mut scan = BatchScan::new(&table, None, &Bounds::default(), false, true).unwrap();
        scan.fill(&tx, 100, &mut batch).unwrap();
        assert_eq!(scan.integer(&mut batch, 99, 0), Some(198));
        table.insert(&mut tx, &row(5001)).unwrap();
        db.write(|tx| table.insert(tx, &row(number))).unwrap();
        assert_eq!(tx.commit().is_err(), is_conflict, "seed {number}");
    }
}

/// Whatever was deleted at the end, one look tells what no row is behind; it is the last row once a merge has dropped
/// the rest.
#[test]
fn a_bound_of_the_last_key_is_found_behind_what_was_deleted() {
    let db = Database::builder().in_memory().unwrap();
    let key = [Part::new("number")];
    let definition = Definition::new("t").column(column("number", ColumnType::Int)).key(key);
    let table = db.write(|tx| DynamicTable::create(tx, &definition)).unwrap();
    let bound = || table.last_key_bound(&db.snapshot().unwrap()).unwrap();
    assert_eq!(bound(), None);
    let mut random = Random::seeded(7);
    let mut model = std::collections::BTreeSet::new();
    for _ in 0..60 {
        let first = random.below(1000) as i64;
        let last = first + random.below(50) as i64;
        let deletes = random.below(3) == 0;
        db.write(|tx| {
            (first..last).try_for_each(|number| match deletes {
                true => table.delete(tx, &[Value::Int(number)]).map(drop),
                false => table.upsert(tx, &[Value::Int(number)]),
            })
        })
        .unwrap();
        for number in first..last {
            let _ = if deletes { model.remove(&number) } else { model.insert(number) };
        }
        let is_merged = random.below(4) == 0;
        if is_merged {
            db.checkpoint().unwrap();
        }
        let found = bound();
        let live = model.last().map(|number| vec![Value::Int(*number)]);
        assert!(found >= live, "seed 7: {found:?}, {live:?}");
        assert!(!is_merged || found == live, "seed 7: {found:?}, {live:?}");
    }
    db.write(|tx| table.clear(tx)).unwrap();
    db.checkpoint().unwrap();
    assert_eq!(bound(), None);
    let numbers = || (1..=2000).map(|number| [Value::Int(number)]);
    db.write(|tx| numbers().try_for_each(|row| table.insert(tx, &row))).unwrap();
    db.write(|tx| numbers().try_for_each(|key| table.delete(tx, &key).map(drop))).unwrap();
    assert_eq!(
        bound(),
        Some(vec![Value::Int(2000)]),
        "one look ends at what was deleted, and goes not behind it"
    );
    db.write(|tx| table.clone().drop(tx)).unwrap();
    let error = table.last_key_bound(&db.snapshot().unwrap()).unwrap_err();
    assert_eq!(error.kind(), pando::ErrorKind::Missing, "{error}");
    let folded = Definition::new("folded").column(column("name", ColumnType::Text));
    let folded = folded.key([Part::new("name").collation(pando_rows::Collation::NoCase)]);
    let folded = db.write(|tx| DynamicTable::create(tx, &folded)).unwrap();
    let error = folded.last_key_bound(&db.snapshot().unwrap()).unwrap_err();
    assert_eq!(error.kind(), pando::ErrorKind::Invalid, "{error}");
}
