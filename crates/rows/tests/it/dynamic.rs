//! Typed tables by schema: what is refused and how, what a changed schema does to handles and transactions.

use pando::{Database, ErrorKind, Isolation, Result, TransactionOptions};
use pando_rows::{
    Cause, Collation, Column, ColumnType, Definition, DynamicTable, IndexDefinition, KeyRange, Part, Value,
    build_index, unfinished_indexes,
};
use std::collections::VecDeque;
use std::ops::Bound;

fn people() -> Definition {
    Definition::new("people")
        .column(Column::new("id", ColumnType::Int))
        .column(Column::new("email", ColumnType::Text).nullable())
        .column(Column::new("age", ColumnType::Int))
        .key(["id"])
        .index(IndexDefinition::new("by_email", [Part::new("email").collation(Collation::NoCase)]).unique())
        .index(IndexDefinition::new("by_age", [Part::new("age").descending()]))
}

fn person(id: i64, email: Option<&'static str>, age: i64) -> [Value<'static>; 3] {
    [Value::from(id), Value::from(email), Value::from(age)]
}

fn database() -> (Database, DynamicTable) {
    let db = Database::builder().in_memory().unwrap();
    let table = db.write(|tx| DynamicTable::create(tx, &people())).unwrap();
    (db, table)
}

/// Ids in the order of an index, and that both directions agree.
fn by(db: &Database, table: &DynamicTable, index: &str) -> Vec<i64> {
    let ids = |range: KeyRange<'_>| {
        let snapshot = db.snapshot().unwrap();
        let scan = table.scan_index(&snapshot, index, &range).unwrap();
        scan.map(|row| id(&row.unwrap())).collect::<Vec<_>>()
    };
    let forwards = ids(KeyRange::all());
    let mut backwards = ids(KeyRange::all().backwards());
    backwards.reverse();
    assert_eq!(forwards, backwards);
    forwards
}

fn id(row: &[Value<'_>]) -> i64 {
    match row[0] {
        Value::Int(id) => id,
        _ => panic!("the id is {}", row[0]),
    }
}

#[test]
fn a_range_of_many_rows_is_deleted_with_its_entries() {
    let (db, people) = database();
    db.write(|tx| {
        (0..2000).try_for_each(|id| {
            let email = (id % 2 == 0).then(|| Value::from(format!("{id}@x")));
            people.insert(tx, &[Value::from(id), email.unwrap_or(Value::Null), Value::from(id % 7)])
        })
    })
    .unwrap();
    let (low, high) = ([Value::from(300)], [Value::from(1700)]);
    let range = KeyRange::between(Bound::Included(&low), Bound::Excluded(&high));
    // Some are the transaction's own, and a failure leaves everything.
    let given_up = db.write(|tx| {
        people.delete_range(tx, &range)?;
        people.insert(tx, &person(0, None, 0))
    });
    assert_eq!(given_up.unwrap_err().kind(), ErrorKind::Exists);
    assert_eq!(by(&db, &people, "by_age").len(), 2000);
    db.write(|tx| {
        people.delete(tx, &[Value::from(400)])?;
        people.upsert(tx, &person(500, Some("of its own"), 99))?;
        people.delete_range(tx, &range)?;
        people.insert(tx, &person(500, Some("800@x"), 1))
    })
    .unwrap();
    let mut left = by(&db, &people, "by_age");
    left.sort_unstable();
    assert_eq!(left, (0..300).chain([500]).chain(1700..2000).collect::<Vec<_>>());
    assert_eq!(by(&db, &people, "by_email").len(), 601);
}

#[test]
fn rows_and_indexes_go_together() {
    let (db, people) = database();
    db.write(|tx| {
        people.insert(tx, &person(1, Some("a@x"), 30))?;
        people.insert(tx, &person(2, None, 40))?;
        people.insert(tx, &person(3, None, 30))
    })
    .unwrap();
    assert_eq!(by(&db, &people, "by_age"), [2, 1, 3]);
    assert_eq!(by(&db, &people, "by_email"), [2, 3, 1]);
    db.write(|tx| {
        assert!(people.update(tx, &person(1, Some("a@x"), 50))?);
        assert!(!people.update(tx, &person(9, None, 1))?);
        assert!(people.replace(tx, &[Value::from(3)], &person(4, Some("b@x"), 20))?);
        assert!(people.delete(tx, &[Value::from(2)])?);
        assert!(!people.delete(tx, &[Value::from(2)])?);
        people.upsert(tx, &person(5, Some("c@x"), 10))?;
        people.upsert(tx, &person(5, Some("d@x"), 60))
    })
    .unwrap();
    assert_eq!(by(&db, &people, "by_age"), [5, 1, 4]);
    assert_eq!(by(&db, &people, "by_email"), [1, 4, 5]);
    let snapshot = db.snapshot().unwrap();
    let row = people.get(&snapshot, &[Value::from(4)]).unwrap().unwrap();
    assert_eq!(row, person(4, Some("b@x"), 20));
    let removed = db.write(|tx| people.remove(tx, &[Value::from(4)])).unwrap();
    assert_eq!(removed.unwrap(), row);
    db.write(|tx| people.clear(tx)).unwrap();
    assert_eq!(people.count(&db.snapshot().unwrap(), Some("by_age"), &KeyRange::all()).unwrap(), 0);
}

#[test]
fn what_does_not_fit_is_refused_and_nothing_is_left_of_it() {
    let (db, people) = database();
    let mut tx = db.begin().unwrap();
    people.insert(&mut tx, &person(1, Some("a@x"), 30)).unwrap();
    let long = "x".repeat(5000);
    let bad: [(&[Value<'_>], ErrorKind, &str); 6] = [
        (&person(1, None, 1), ErrorKind::Exists, "has a row with (1) already: the primary key (id)"),
        (&person(2, Some("A@X"), 1), ErrorKind::Exists, "(\"A@X\") already: index \"by_email\" (email)"),
        (&[Value::from(2), Value::Null, Value::Null], ErrorKind::Invalid, "\"age\" is null"),
        (&[Value::from("2"), Value::Null, Value::from(1)], ErrorKind::Invalid, "\"2\" of type text"),
        (&[Value::from(2)], ErrorKind::Invalid, "has 1 values, but the table has 3 columns"),
        (
            &[Value::from(2), Value::from(&long[..]), Value::from(1)],
            ErrorKind::Invalid,
            "\"by_email\" is too long",
        ),
    ];
    for (row, kind, says) in bad {
        let error = people.insert(&mut tx, row).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(says), "{error}");
        assert!(Cause::in_error(&error).is_some());
        if kind == ErrorKind::Invalid {
            assert_eq!(people.upsert(&mut tx, row).unwrap_err().kind(), kind);
        }
    }
    assert!(people.replace(&mut tx, &[Value::from(1)], &person(2, Some("b@x"), 30)).unwrap());
    let error = people.get(&tx, &[Value::from("x")]).unwrap_err();
    assert!(
        matches!(Cause::in_error(&error), Some(Cause::WrongType { column, .. }) if column == "id"),
        "{error}"
    );
    assert!(people.get(&tx, &[]).is_err());
    tx.commit().unwrap();
    assert_eq!(by(&db, &people, "by_email"), [2]);
    assert_eq!(by(&db, &people, "by_age"), [2]);
    assert_eq!(people.count(&db.snapshot().unwrap(), None, &KeyRange::all()).unwrap(), 1);
}

#[test]
fn definitions_that_do_not_hold_together_are_refused() {
    let db = Database::builder().in_memory().unwrap();
    let column = |name: &str| Column::new(name, ColumnType::Text);
    let json = Column::new("doc", ColumnType::Json);
    let t = || Definition::new("t").column(column("a"));
    for (definition, says) in [
        (Definition::new("").column(column("a")).key(["a"]), "name of a table"),
        (Definition::new("t").key(["a"]), "columns"),
        (t(), "the primary key has no column"),
        (t().key(["b"]), "\"b\" that does not exist"),
        (t().column(column("a")).key(["a"]), "two columns"),
        (t().key(["a", "a"]), "twice"),
        (Definition::new("t").column(column("a").nullable()).key(["a"]), "may not be null"),
        (t().column(column("b").default(7)).key(["a"]), "default 7"),
        (t().column(json.clone()).key([Part::new("a"), Part::new("doc")]), "name a path"),
        (t().key([Part::new("a").path("/x")]), "has no paths"),
        (t().column(json).key(["a"]).index(IndexDefinition::new("i", [Part::new("doc").path("x")])), "slash"),
        (t().key(["a"]).index(IndexDefinition::new("i", ["z"])), "\"z\""),
        (
            Definition::new("t")
                .column(Column::new("n", ColumnType::Int))
                .key([Part::new("n").collation(Collation::NoCase)]),
            "is not text",
        ),
    ] {
        let error = db.write(|tx| DynamicTable::create(tx, &definition)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(says), "{error}");
    }
    assert!(db.tables().unwrap().is_empty());
}

#[test]
fn columns_come_and_go_at_once() {
    let (db, people) = database();
    db.write(|tx| people.insert(tx, &person(1, None, 30))).unwrap();
    let people = db
        .write(|tx| {
            let people =
                people.clone().add_column(tx, Column::new("town", ColumnType::Text).default("Ulm"))?;
            people.add_column(tx, Column::new("note", ColumnType::Any).nullable())
        })
        .unwrap();
    let extended =
        |id: i64, town: &'static str| [&person(id, None, 30)[..], &[Value::from(town), Value::Null]].concat();
    db.write(|tx| people.insert(tx, &extended(2, "Bonn"))).unwrap();
    let all = |people: &DynamicTable| {
        let snapshot = db.snapshot().unwrap();
        people.scan(&snapshot, &KeyRange::all()).unwrap().collect::<Result<Vec<_>>>().unwrap()
    };
    assert_eq!(all(&people), [extended(1, "Ulm"), extended(2, "Bonn")]);
    let people = db
        .write(|tx| {
            let people = people.clone().drop_column(tx, "town")?;
            assert!(people.clone().drop_column(tx, "age").is_err(), "an index is over it");
            assert!(people.clone().drop_column(tx, "id").is_err(), "the key is over it");
            people.rename_column(tx, "age", "years")
        })
        .unwrap();
    let short = |id: i64| [&person(id, None, 30)[..], &[Value::Null]].concat();
    assert_eq!(all(&people), [short(1), short(2)]);
    assert_eq!(by(&db, &people, "by_age"), [1, 2]);
    let refused = db.write(|tx| people.clone().add_column(tx, Column::new("new", ColumnType::Int)));
    assert!(refused.unwrap_err().to_string().contains("needs a default"));
    let people = db.write(|tx| people.clone().rename(tx, "folk")).unwrap();
    assert!(DynamicTable::open(&db.snapshot().unwrap(), "people").unwrap().is_none());
    assert_eq!(all(&DynamicTable::expect(&db.snapshot().unwrap(), "folk").unwrap()).len(), 2);
    db.write(|tx| people.clone().drop(tx)).unwrap();
    let left: Vec<_> = db.tables().unwrap().iter().map(|table| table.name().to_owned()).collect();
    assert_eq!(left, ["rows/catalog"]);
}

/// A handle from before a change gets an error, in the changing transaction too, and a transaction that wrote by one
/// does not commit, whatever its isolation.
#[test]
fn nobody_writes_by_an_older_schema() {
    for isolation in [Isolation::Serializable, Isolation::Snapshot] {
        let (db, old) = database();
        let mut late = db.begin_with(&TransactionOptions { isolation, ..db.transaction_options() }).unwrap();
        old.insert(&mut late, &person(7, None, 7)).unwrap();
        let before = db.snapshot().unwrap();
        let changed = |error: pando::Error| {
            assert!(matches!(Cause::in_error(&error), Some(Cause::SchemaChanged { .. })), "{error}");
            assert_eq!(error.kind(), ErrorKind::Missing);
        };
        let new = db
            .write(|tx| {
                old.insert(tx, &person(1, None, 1))?;
                let index = IndexDefinition::new("both", ["age", "email"]);
                let new = old.clone().create_index(tx, index)?;
                changed(old.insert(tx, &person(2, None, 2)).unwrap_err());
                new.insert(tx, &person(3, None, 3))?;
                changed(old.insert(tx, &person(2, None, 2)).unwrap_err());
                Ok(new)
            })
            .unwrap();
        assert_eq!(late.commit().unwrap_err().kind(), ErrorKind::Conflict);
        changed(db.write(|tx| old.insert(tx, &person(2, None, 2))).unwrap_err());
        changed(db.write(|tx| old.upsert(tx, &person(2, None, 2))).unwrap_err());
        changed(db.write(|tx| old.delete(tx, &[Value::from(1)])).unwrap_err());
        let now = db.snapshot().unwrap();
        changed(old.get(&now, &[Value::from(1)]).unwrap_err());
        changed(old.scan_index(&now, "by_age", &KeyRange::all()).map(drop).unwrap_err());
        changed(db.write(|tx| old.clone().drop(tx)).unwrap_err());
        assert_eq!(by(&db, &new, "both"), [1, 3]);
        // A snapshot sees the schema that was.
        assert!(old.get(&before, &[Value::from(1)]).unwrap().is_none());
        changed(new.get(&before, &[Value::from(1)]).unwrap_err());
        assert_eq!(DynamicTable::expect(&before, "people").unwrap().schema(), old.schema());
    }
}

#[test]
fn ranges_take_in_and_leave_out_all_with_their_values() {
    let db = Database::builder().in_memory().unwrap();
    let definition = Definition::new("t")
        .column(Column::new("a", ColumnType::Text))
        .column(Column::new("b", ColumnType::Int))
        .key([Part::new("a"), Part::new("b").descending()]);
    let table = db.write(|tx| DynamicTable::create(tx, &definition)).unwrap();
    let row = |a: &'static str, b: i64| [Value::from(a), Value::from(b)];
    let all = [row("", 1), row("a", 9), row("a", 5), row("a", -1), row("a\0", 3), row("b", 2)];
    db.write(|tx| all.iter().try_for_each(|row| table.insert(tx, row))).unwrap();
    let snapshot = db.snapshot().unwrap();
    let found =
        |range: KeyRange<'_>| table.scan(&snapshot, &range).unwrap().collect::<Result<Vec<_>>>().unwrap();
    let (a, nine, five) = (&row("a", 0)[..1], &row("a", 9)[..], &row("a", 5)[..]);
    assert_eq!(found(KeyRange::all()), all);
    assert_eq!(found(KeyRange::prefix(a)), all[1..4]);
    assert_eq!(found(KeyRange::between(Bound::Excluded(a), Bound::Unbounded)), all[4..]);
    assert_eq!(found(KeyRange::between(Bound::Unbounded, Bound::Excluded(a))), all[..1]);
    assert_eq!(found(KeyRange::between(Bound::Excluded(nine), Bound::Included(a))), all[2..4]);
    assert_eq!(found(KeyRange::between(Bound::Included(a), Bound::Included(five))), all[1..3]);
    assert!(found(KeyRange::between(Bound::Excluded(a), Bound::Excluded(a))).is_empty());
    let mut reversed = found(KeyRange::prefix(a).backwards());
    reversed.reverse();
    assert_eq!(reversed, all[1..4]);
    // Page by page, forwards and backwards.
    for backwards in [false, true] {
        let range = if backwards { KeyRange::all().backwards() } else { KeyRange::all() };
        let (mut pages, mut from) = (Vec::new(), range.clone());
        loop {
            let mut scan = table.scan(&snapshot, &from).unwrap();
            let Some(row) = scan.next_row().unwrap() else { break };
            pages.push(row);
            from = range.clone().beyond(scan.position().unwrap());
        }
        if backwards {
            pages.reverse();
        }
        assert_eq!(pages, all);
    }
}

/// Takes rows from the front where a bit of `order` is 0 and from the back where it is 1, as from a deque.
fn take_both_ends(mut scan: impl DoubleEndedIterator<Item = Result<i64>>, all: &[i64], order: u32) {
    let mut left: VecDeque<i64> = all.iter().copied().collect();
    for step in 0..all.len() + 3 {
        let (found, expected) = match order >> step & 1 {
            0 => (scan.next(), left.pop_front()),
            _ => (scan.next_back(), left.pop_back()),
        };
        assert_eq!(found.transpose().unwrap(), expected, "step {step} of order {order:b} over {all:?}");
    }
}

#[test]
fn a_scan_is_taken_from_both_ends() {
    let (db, people) = database();
    db.write(|tx| (1..=6).try_for_each(|id| people.insert(tx, &person(id, None, id % 3)))).unwrap();
    let mut tx = db.begin().unwrap();
    people.delete(&mut tx, &[Value::from(4)]).unwrap();
    people.insert(&mut tx, &person(9, None, 2)).unwrap();
    let snapshot = db.snapshot().unwrap();
    let ids = |row: Result<Vec<Value<'static>>>| row.map(|row| id(&row));
    let two = [Value::from(2)];
    for order in 0..1 << 9 {
        let all = KeyRange::all();
        take_both_ends(people.scan(&snapshot, &all).unwrap().map(ids), &[1, 2, 3, 4, 5, 6], order);
        let backwards = KeyRange::all().backwards();
        take_both_ends(people.scan(&tx, &backwards).unwrap().map(ids), &[9, 6, 5, 3, 2, 1], order);
        take_both_ends(people.scan_index(&tx, "by_age", &all).unwrap().map(ids), &[2, 5, 9, 1, 3, 6], order);
        let aged = KeyRange::prefix(&two).backwards();
        take_both_ends(people.scan_index(&snapshot, "by_age", &aged).unwrap().map(ids), &[5, 2], order);
        let none = KeyRange::between(Bound::Excluded(&two), Bound::Excluded(&two));
        take_both_ends(people.scan(&snapshot, &none).unwrap().map(ids), &[], order);
    }
    // What was taken from the back does not move the position.
    let mut scan = people.scan(&snapshot, &KeyRange::all()).unwrap();
    assert_eq!(
        (scan.next_row().unwrap().map(|row| id(&row)), scan.next_back().map(ids).unwrap().unwrap()),
        (Some(1), 6)
    );
    let rest = KeyRange::all().beyond(scan.position().unwrap());
    take_both_ends(people.scan(&snapshot, &rest).unwrap().map(ids), &[2, 3, 4, 5, 6], 0);
}

#[test]
fn a_unique_index_over_what_is_not_unique_is_refused() {
    let (db, people) = database();
    db.write(|tx| (1..=5).try_for_each(|id| people.insert(tx, &person(id, None, id / 2)))).unwrap();
    let index = || IndexDefinition::new("one_of_an_age", ["age"]).unique();
    let error = db.write(|tx| people.clone().create_index(tx, index())).unwrap_err();
    let Some(Cause::Duplicate { index: Some(index), .. }) = Cause::in_error(&error) else {
        panic!("{error}")
    };
    assert_eq!(index, "one_of_an_age");
    assert_eq!(by(&db, &people, "by_age"), [4, 5, 2, 3, 1]);
    assert!(!db.tables().unwrap().iter().any(|table| table.name().contains("one_of_an_age")));
}

/// Two threads insert the same value again and again: one of them wins each time.
#[test]
fn unique_violations_are_found_under_concurrency() {
    for isolation in [Isolation::Serializable, Isolation::Snapshot] {
        let db = Database::builder().isolation(isolation).in_memory().unwrap();
        let people = db.write(|tx| DynamicTable::create(tx, &people())).unwrap();
        let won: i64 = std::thread::scope(|scope| {
            let worker = |thread: i64| {
                let (db, people) = (&db, &people);
                scope.spawn(move || {
                    let insert = |n: i64| {
                        let email = Value::from(format!("{n}@x"));
                        let row = [Value::from(n * 10 + thread), email, Value::from(0)];
                        match db.write(|tx| people.insert(tx, &row)) {
                            Ok(()) => 1,
                            Err(error) => {
                                assert_eq!(error.kind(), ErrorKind::Exists, "{error}");
                                0
                            }
                        }
                    };
                    (0..200).map(insert).sum::<i64>()
                })
            };
            let threads: Vec<_> = (0..4).map(worker).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(won, 200);
        assert_eq!(by(&db, &people, "by_email").len(), 200);
        assert_eq!(by(&db, &people, "by_age").len(), 200);
    }
}

#[test]
fn documents_are_indexed_by_path() {
    let db = Database::builder().in_memory().unwrap();
    let definition = Definition::new("docs")
        .column(Column::new("id", ColumnType::Int))
        .column(Column::new("doc", ColumnType::Json))
        .key(["id"])
        .index(IndexDefinition::new("by_size", [Part::new("doc").path("/box/size")]));
    let docs = db.write(|tx| DynamicTable::create(tx, &definition)).unwrap();
    let documents = [
        serde_json::json!({"box": {"size": 3}}),
        serde_json::json!({"box": {"size": 2.5}}),
        serde_json::json!({"box": {"size": "large"}}),
        serde_json::json!({"box": [1]}),
        serde_json::json!({"box": {"size": 18446744073709551615u64}}),
    ];
    db.write(|tx| {
        let mut rows = documents.iter().enumerate();
        rows.try_for_each(|(id, doc)| docs.insert(tx, &[Value::from(id as i64), Value::json(doc)]))
    })
    .unwrap();
    assert_eq!(by(&db, &docs, "by_size"), [3, 1, 0, 4, 2]);
    let three = [Value::from(3.0)];
    let snapshot = db.snapshot().unwrap();
    let found = docs.scan_index(&snapshot, "by_size", &KeyRange::prefix(&three)).unwrap().next().unwrap();
    assert_eq!(id(&found.unwrap()), 0);
    let error = db.write(|tx| docs.insert(tx, &[Value::from(9), Value::Json("{".into())])).unwrap_err();
    assert!(error.to_string().contains("is not JSON"), "{error}");
    assert!(docs.get(&db.snapshot().unwrap(), &[Value::from(9)]).unwrap().is_none());
}

/// A handle that a transaction has made is none once that came to nothing, whatever others make of the table: not even
/// where they give the same version to another schema.
#[test]
fn a_handle_whose_making_was_undone_is_none() {
    let (db, table) = database();
    let row = [Value::from(1), Value::Null, Value::from(1), Value::from(5)];
    let with = |tx: &mut pando::Transaction, name: &str, kind| {
        table.clone().add_column(tx, Column::new(name, kind).nullable()).unwrap()
    };
    let mut tx = db.begin().unwrap();
    let dropped = with(&mut tx, "a", ColumnType::Int);
    drop(tx);
    let (mut late, mut tx) = (db.begin().unwrap(), db.begin().unwrap());
    let conflicting = with(&mut late, "b", ColumnType::Int);
    let savepoint = tx.savepoint();
    let undone = with(&mut tx, "c", ColumnType::Int);
    undone.insert(&mut tx, &row).unwrap();
    tx.rollback_to(&savepoint).unwrap();
    let kept = with(&mut tx, "d", ColumnType::Text);
    let second = tx.savepoint();
    let twice = kept.clone().add_column(&mut tx, Column::new("e", ColumnType::Int).nullable()).unwrap();
    tx.rollback_to(&second).unwrap();
    let changed = |error: pando::Error| {
        assert!(matches!(Cause::in_error(&error), Some(Cause::SchemaChanged { .. })), "{error}");
    };
    changed(undone.insert(&mut tx, &row).unwrap_err());
    changed(twice.delete(&mut tx, &[Value::from(1)]).unwrap_err());
    let own = [Value::from(2), Value::Null, Value::from(2), Value::from("d")];
    kept.insert(&mut tx, &own).unwrap();
    tx.commit().unwrap();
    assert_eq!(late.commit().unwrap_err().kind(), ErrorKind::Conflict);
    for handle in [dropped, conflicting, undone] {
        assert_eq!(handle.schema().version(), kept.schema().version());
        changed(db.write(|tx| handle.insert(tx, &row)).unwrap_err());
        changed(handle.get(&db.snapshot().unwrap(), &[Value::from(2)]).unwrap_err());
        changed(db.write(|tx| handle.clone().drop_column(tx, "age").map(drop)).unwrap_err());
        // Nor where the transaction knows the table already.
        let both = |tx: &mut pando::Transaction| {
            assert!(kept.contains(tx, &[Value::from(2)])?);
            handle.insert(tx, &row)
        };
        changed(db.write(both).unwrap_err());
    }
    db.write(|tx| kept.upsert(tx, &own)).unwrap();
    assert_eq!(pando_rows::check(&db.snapshot().unwrap(), |_| {}).unwrap().problems, []);
}

/// An index that a row is too long for is not left behind half built, where it would keep others from being written.
#[test]
fn an_index_that_cannot_hold_a_row_is_not_left_behind() {
    let (db, table) = database();
    let long: &'static str = "l".repeat(6000).leak();
    let table = db.write(|tx| table.clone().drop_index(tx, "by_email")).unwrap();
    db.write(|tx| (1..3000).try_for_each(|id| table.insert(tx, &person(id, Some("short"), 1)))).unwrap();
    db.write(|tx| table.insert(tx, &person(3000, Some(long), 1))).unwrap();
    let error = build_index(&db, "people", IndexDefinition::new("again", ["email"]), |_| Ok(())).unwrap_err();
    assert!(matches!(Cause::in_error(&error), Some(Cause::TooLong { index: Some(_), .. })), "{error}");
    let snapshot = db.snapshot().unwrap();
    assert_eq!(unfinished_indexes(&snapshot).unwrap(), []);
    let table = DynamicTable::expect(&snapshot, "people").unwrap();
    db.write(|tx| table.insert(tx, &person(3001, Some(long), 1))).unwrap();
    assert_eq!(pando_rows::check(&db.snapshot().unwrap(), |_| {}).unwrap().problems, []);
}
