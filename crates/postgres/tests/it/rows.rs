//! Typed rows with indexes, through the same calls as on the native engine.

use crate::subject::{Subject, on_every_subject};
use pando::ErrorKind;
use rows::{Row, Table};

on_every_subject!(rows_and_indexes_agree, a_unique_index_is_unique_among_transactions);

#[derive(Row, Debug, Clone, PartialEq)]
#[row(table = "people", unique(by_email = "email"), index(by_city = "city"))]
struct Person {
    #[row(key)]
    id: u64,
    email: String,
    city: String,
}

fn person(id: u64, city: &str) -> Person {
    Person { id, email: format!("{id}@example.org"), city: city.to_owned() }
}

fn rows_and_indexes_agree(subject: &impl Subject) {
    let people = subject.write(Table::<Person>::create).unwrap();
    subject
        .write(|tx| {
            (0..200)
                .try_for_each(|id| people.insert(tx, &person(id, if id % 2 == 0 { "Bern" } else { "Rome" })))
        })
        .unwrap();
    subject
        .write(|tx| {
            assert!(people.update(tx, &person(1, "Bern"))?);
            assert!(people.delete(tx, 2)?);
            let twice = people.insert(tx, &Person { email: "3@example.org".into(), ..person(500, "Oslo") });
            assert_eq!(twice.unwrap_err().kind(), ErrorKind::Exists);
            assert!(people.get(tx, 500)?.is_none(), "the row is undone with its entries");
            Ok(())
        })
        .unwrap();
    let snapshot = subject.snapshot();
    assert_eq!(people.get(&snapshot, 1).unwrap(), Some(person(1, "Bern")));
    assert_eq!(people.range(&snapshot, ..).unwrap().count(), 199);
    let in_bern: Vec<_> =
        people.by_index(&snapshot, "by_city", "Bern").unwrap().map(Result::unwrap).collect();
    assert_eq!(in_bern.len(), 100);
    assert!(in_bern.iter().all(|person| person.city == "Bern"));
    let back = people.range_backwards(&snapshot, 190..).unwrap().map(|person| person.unwrap().id);
    assert!(back.eq((190..200).rev()));
}

fn a_unique_index_is_unique_among_transactions(subject: &impl Subject) {
    let people = subject.write(Table::<Person>::create).unwrap();
    let (mut one, mut other) = (subject.begin(), subject.begin());
    people.insert(&mut one, &person(1, "Bern")).unwrap();
    people.insert(&mut other, &Person { email: "1@example.org".into(), ..person(2, "Rome") }).unwrap();
    subject.commit(one).unwrap();
    assert_eq!(subject.commit(other).unwrap_err().kind(), ErrorKind::Conflict);
}
