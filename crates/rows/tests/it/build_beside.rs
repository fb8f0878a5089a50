//! Builds of an index beside writers whose transactions began earlier.

use pando::{Database, ErrorKind, Isolation, TransactionOptions};
use pando_rows::{
    Column, ColumnType, Definition, DynamicTable, IndexDefinition, Value, build_index_in_chunks,
};

const ROWS: i64 = 12;

fn filled(isolation: Isolation) -> Database {
    let db = Database::builder().isolation(isolation).in_memory().unwrap();
    let columns = Definition::new("t").column(Column::new("id", ColumnType::Int));
    let definition = columns.column(Column::new("v", ColumnType::Text)).key(["id"]);
    db.write(|tx| {
        let table = DynamicTable::create(tx, &definition)?;
        (0..ROWS).try_for_each(|id| table.insert(tx, &row(id, format!("v{id}"))))
    })
    .unwrap();
    db
}

fn row(id: i64, v: String) -> [Value<'static>; 2] {
    [Value::from(id), Value::from(v)]
}

/// A row whose entry a chunk puts is deleted or changed by a transaction that began before the chunk and commits after
/// it: the transaction fails, or the entry would lead to no row.
#[test]
fn a_writer_that_began_before_a_chunk_conflicts_with_it() {
    for of_database in [Isolation::Serializable, Isolation::Snapshot] {
        for (isolation, unique, deletes) in [
            (Isolation::Snapshot, true, true),
            (Isolation::Snapshot, true, false),
            (Isolation::Snapshot, false, true),
            (Isolation::Snapshot, false, false),
            (Isolation::Serializable, true, true),
        ] {
            let db = filled(of_database);
            let definition = IndexDefinition::new("by_v", ["v"]);
            let definition = if unique { definition.unique() } else { definition };
            let (mut chunks, mut writer) = (0, None);
            build_index_in_chunks(&db, "t", definition, 2, |_| {
                chunks += 1;
                if chunks == 1 {
                    let options = TransactionOptions { isolation, ..TransactionOptions::default() };
                    let mut tx = db.begin_with(&options)?;
                    let table = DynamicTable::expect(&tx, "t")?;
                    // The next chunk has this row.
                    if deletes {
                        assert!(table.delete(&mut tx, &[Value::from(3)])?);
                    } else {
                        table.upsert(&mut tx, &row(3, "changed".to_owned()))?;
                    }
                    writer = Some(tx);
                } else if let Some(tx) = writer.take() {
                    let error = tx.commit().expect_err("the chunk has put an entry of the row");
                    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                }
                Ok(())
            })
            .unwrap();
            assert!(chunks > 2 && writer.is_none());
            let problems = pando_rows::check(&db.snapshot().unwrap(), |_| {}).unwrap().problems;
            assert_eq!(problems, [], "{of_database:?} {isolation:?} unique: {unique}, deletes: {deletes}");
        }
    }
}
