//! Random rows, schemas and transactions against a `BTreeMap`.

use crate::support::{Model, for_seeds};
use io::{Dir, MemDir};
use pando::{Database, ErrorKind, Result};
use pando_rows::{Cause, DynamicTable, IndexDefinition, build_index, finish_index, unfinished_indexes};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

fn open(dir: &Arc<MemDir>) -> Database {
    let builder = Database::builder().page_bytes(4096).memory_bytes(8 << 20).checkpoint_bytes(256 << 10);
    builder.create_in(Arc::clone(dir) as Arc<dyn Dir>).unwrap()
}

#[test]
fn rows_and_indexes_agree_with_the_model() {
    for_seeds(0..60, |random| {
        let dir = Arc::new(MemDir::new());
        let mut db = open(&dir);
        let (mut table, mut model) = db.write(Model::create).unwrap();
        for _ in 0..25 {
            let (before, old) = (model.clone(), table.clone());
            let earlier = db.snapshot().unwrap();
            let mut tx = db.begin().unwrap();
            let mut savepoints = Vec::new();
            for _ in 0..random.below(30) {
                match random.below(20) {
                    0 | 1 => table = model.change_schema(&mut tx, table, random).unwrap(),
                    2 => savepoints.push((tx.savepoint(), model.clone(), table.clone())),
                    3 => {
                        if let Some((savepoint, then, handle)) = savepoints.pop() {
                            tx.rollback_to(&savepoint).unwrap();
                            (model, table) = (then, handle);
                        }
                    }
                    _ => model.change_row(&mut tx, &table, random).unwrap(),
                }
            }
            model.verify(&tx, &table);
            if random.chance(1, 4) {
                drop(tx);
                (model, table) = (before.clone(), old);
            } else {
                tx.commit().unwrap();
            }
            before.verify_all(&earlier);
            drop(earlier);
            if random.chance(1, 4) {
                db.checkpoint().unwrap();
            }
            if random.chance(1, 5) {
                db.close().unwrap();
                db = open(&dir);
                table = DynamicTable::expect(&db.snapshot().unwrap(), &model.name).unwrap();
            }
            model.verify_all(&db.snapshot().unwrap());
        }
    });
}

/// Writers go on while indexes are built: what is ready agrees with the table, what cannot be unique is refused.
#[test]
fn indexes_are_built_beside_writers() {
    for_seeds(0..6, |random| {
        let db = open(&Arc::new(MemDir::new()));
        let (mut table, mut model) = db.write(Model::create).unwrap();
        for _ in 0..3 {
            table = db.write(|tx| model.change_schema(tx, table.clone(), random)).unwrap();
        }
        let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for writer in 0..2u64 {
                let mut random = base::env::Random::seeded(random.next_u64() + writer);
                let (db, model, stop, written) = (&db, &model, &stop, &written);
                scope.spawn(move || {
                    let mut table = DynamicTable::expect(&db.snapshot().unwrap(), &model.name).unwrap();
                    while !stop.load(Ordering::SeqCst) {
                        write_something(db, &mut table, model, &mut random).unwrap();
                        written.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
            let mut named = model.clone();
            for number in 0..8 {
                let before = written.load(Ordering::SeqCst);
                while written.load(Ordering::SeqCst) < before + 5 {
                    std::thread::yield_now();
                }
                let (_, definition) = named.index(format!("built{number}"), random);
                match build_index(&db, &model.name, definition, |_| Ok(())) {
                    Ok(table) => {
                        assert!(!table.schema().indexes().iter().any(pando_rows::Index::is_building))
                    }
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Exists, "{error}"),
                }
            }
            stop.store(true, Ordering::SeqCst);
        });
        let snapshot = db.snapshot().unwrap();
        assert!(unfinished_indexes(&snapshot).unwrap().is_empty());
        let report = pando_rows::check(&snapshot, |_| {}).unwrap();
        assert_eq!(report.problems, []);
    });
}

/// By a handle that is kept until somebody changed the schema.
fn write_something(
    db: &Database,
    table: &mut DynamicTable,
    model: &Model,
    random: &mut base::env::Random,
) -> Result<()> {
    let written = db.write(|tx| {
        for _ in 0..=random.below(4) {
            let row = model.row(random);
            match random.below(3) {
                0 => table.delete(tx, &crate::support::values(&crate::support::key_of(&row))).map(drop)?,
                _ => table.upsert(tx, &row)?,
            }
        }
        Ok(())
    });
    match written {
        Err(error) if error.kind() == ErrorKind::Exists => Ok(()),
        Err(error) if matches!(Cause::in_error(&error), Some(Cause::SchemaChanged { .. })) => {
            *table = DynamicTable::expect(&db.snapshot()?, &model.name)?;
            Ok(())
        }
        done => done,
    }
}

/// While a unique index is built, a row that is not in it yet is changed beside one of the same value that is.
#[test]
fn an_entry_of_another_row_stays_while_an_index_is_built() {
    use pando_rows::{Column, ColumnType, Definition, Value};
    let db = Database::builder().in_memory().unwrap();
    let definition = Definition::new("t")
        .column(Column::new("id", ColumnType::Int))
        .column(Column::new("email", ColumnType::Text))
        .key(["id"]);
    let table = db.write(|tx| DynamicTable::create(tx, &definition)).unwrap();
    let row = |id: i64, email: &str| [Value::from(id), Value::from(email.to_owned())];
    db.write(|tx| (0..3000).try_for_each(|id| table.insert(tx, &row(id, &format!("{id}@x"))))).unwrap();
    let mut chunks = 0;
    let index = IndexDefinition::new("by_email", ["email"]).unique();
    let table = build_index(&db, "t", index, |progress| {
        chunks += 1;
        assert_eq!(progress.chunks, chunks);
        if chunks == 1 {
            // Seed 0: row 2999 has no entry yet; 1 takes its value, and then 2999 goes.
            let table = DynamicTable::expect(&db.snapshot().unwrap(), "t").unwrap();
            assert!(
                table.scan_index(&db.snapshot().unwrap(), "by_email", &pando_rows::KeyRange::all()).is_err()
            );
            db.write(|tx| table.update(tx, &row(1, "2999@x"))).unwrap();
            db.write(|tx| table.delete(tx, &[Value::from(2999)])).unwrap();
        }
        Ok(())
    })
    .unwrap();
    let snapshot = db.snapshot().unwrap();
    assert_eq!(pando_rows::check(&snapshot, |_| {}).unwrap().problems, [], "seed 0");
    assert_eq!(table.count(&snapshot, Some("by_email"), &pando_rows::KeyRange::all()).unwrap(), 2999);
    // What is ready is left as it is.
    assert_eq!(
        finish_index(&db, "t", "by_email", |_| panic!("nothing to do")).unwrap().schema(),
        table.schema()
    );
}
