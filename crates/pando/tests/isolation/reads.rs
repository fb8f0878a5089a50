//! Every way to read, and what exactly it makes a transaction depend on: a serializable transaction is refused if
//! something that it read was changed meanwhile, present or absent, and by nothing else. Under snapshot isolation it
//! is refused over what it wrote alone.
//!
//! The table has the keys "10", "20" to "90".

use crate::histories::{BOTH, Outcome, options, restless};
use pando::{Durability, ErrorKind, Isolation, Span, Table, Transaction};

struct Case {
    name: &'static str,
    work: fn(&mut Transaction, &Table) -> Outcome,
    /// Keys that it depends on having read them.
    reads: &'static [&'static str],
    /// Keys that it writes, whether or not it read them.
    writes: &'static [&'static str],
    /// Keys beside these, as near as can be.
    beside: &'static [&'static str],
}

const NONE: Case = Case { name: "", work: |_, _| Ok(()), reads: &[], writes: &[], beside: &[] };

fn point_cases() -> Vec<Case> {
    vec![
        Case {
            name: "get",
            work: |tx, t| is(tx.get(t, b"20")?, "20"),
            reads: &["20"],
            beside: &["10", "2", "200", "30"],
            ..NONE
        },
        Case {
            name: "get an absent key",
            work: |tx, t| absent(tx.get(t, b"25")?),
            reads: &["25"],
            beside: &["20", "2", "255", "30"],
            ..NONE
        },
        Case {
            name: "contains, get_with and multi_get",
            work: |tx, t| {
                assert!(tx.contains(t, b"20")? && !tx.contains(t, b"25")?);
                assert_eq!(tx.get_with(t, b"40", <[u8]>::len)?, Some(2));
                tx.multi_get(t, &["60", "65"]).map(drop)
            },
            reads: &["20", "25", "40", "60", "65"],
            beside: &["30", "50", "62"],
            ..NONE
        },
        Case {
            name: "insert",
            work: |tx, t| tx.insert(t, b"25", b""),
            reads: &["25"],
            writes: &["25"],
            beside: &["20", "30"],
        },
        Case {
            name: "insert what exists",
            work: |tx, t| refused(tx.insert(t, b"20", b"").unwrap_err().kind() == ErrorKind::Exists),
            reads: &["20"],
            beside: &["10", "25"],
            ..NONE
        },
        Case {
            name: "insert, rolled back",
            work: |tx, t| {
                let savepoint = tx.savepoint();
                tx.insert(t, b"25", b"")?;
                tx.get(t, b"40")?;
                tx.rollback_to(&savepoint)
            },
            reads: &["25", "40"],
            beside: &["20", "30"],
            ..NONE
        },
        Case {
            name: "put and delete, rolled back",
            work: |tx, t| {
                let savepoint = tx.savepoint();
                tx.put(t, b"20", b"")?;
                tx.delete(t, b"30")?;
                tx.delete_range(t, "50".."60")?;
                tx.rollback_to(&savepoint)
            },
            beside: &["20", "30", "50", "55"],
            ..NONE
        },
        Case {
            name: "remove",
            work: |tx, t| is(tx.remove(t, b"20")?, "20"),
            reads: &["20"],
            writes: &["20"],
            beside: &["10", "30"],
        },
        Case {
            name: "remove an absent key",
            work: |tx, t| absent(tx.remove(t, b"25")?),
            reads: &["25"],
            beside: &["20", "30"],
            ..NONE
        },
        Case {
            name: "compare and swap",
            work: |tx, t| refused(tx.compare_and_swap(t, b"20", Some(b"20"), None)?),
            reads: &["20"],
            writes: &["20"],
            beside: &["10", "30"],
        },
        Case {
            name: "compare and not swap",
            work: |tx, t| refused(!tx.compare_and_swap(t, b"20", None, Some(b""))?),
            reads: &["20"],
            beside: &["10", "30"],
            ..NONE
        },
        Case {
            name: "blind writes",
            work: |tx, t| {
                tx.put(t, b"20", b"")?;
                tx.delete(t, b"30")?;
                tx.delete_range(t, "50".."60")
            },
            writes: &["20", "30", "50", "55"],
            beside: &["10", "40", "60"],
            ..NONE
        },
        Case {
            name: "reads of own writes",
            work: |tx, t| {
                tx.put(t, b"20", b"own")?;
                tx.delete_range(t, "50".."60")?;
                is(tx.get(t, b"20")?, "own")?;
                absent(tx.get(t, b"50")?)?;
                tx.insert(t, b"55", b"")
            },
            writes: &["20", "50", "52", "55"],
            beside: &["10", "40", "60"],
            ..NONE
        },
    ]
}

fn cursor_cases() -> Vec<Case> {
    vec![
        Case {
            name: "cursor, twice forward",
            work: |tx, t| {
                let mut cursor = tx.cursor(t, ..)?;
                on(cursor.next()?, "10");
                on(cursor.next()?, "20");
                Ok(())
            },
            reads: &["", "05", "10", "15", "20"],
            beside: &["200", "25", "30", "95"],
            ..NONE
        },
        Case {
            name: "cursor, twice backward",
            work: |tx, t| {
                let mut cursor = tx.cursor(t, ..)?;
                on(cursor.prev()?, "90");
                on(cursor.prev()?, "80");
                Ok(())
            },
            reads: &["80", "85", "90", "95"],
            beside: &["05", "70", "799"],
            ..NONE
        },
        Case {
            name: "cursor, forward and back off the start",
            work: |tx, t| {
                let mut cursor = tx.cursor(t, "25".."75")?;
                on(cursor.next()?, "30");
                assert_eq!(cursor.prev()?, None);
                on(cursor.next()?, "30");
                Ok(())
            },
            reads: &["25", "27", "30"],
            beside: &["24", "300", "40"],
            ..NONE
        },
        Case {
            name: "cursor, sought",
            work: |tx, t| {
                on(tx.cursor(t, ..)?.seek(b"35")?, "40");
                Ok(())
            },
            reads: &["35", "37", "40"],
            beside: &["30", "34", "400", "50"],
            ..NONE
        },
        Case {
            name: "cursor, sought and back",
            work: |tx, t| {
                let mut cursor = tx.cursor(t, ..)?;
                on(cursor.seek(b"35")?, "40");
                on(cursor.prev()?, "30");
                Ok(())
            },
            reads: &["30", "33", "35", "40"],
            beside: &["20", "25", "400", "50"],
            ..NONE
        },
        Case {
            name: "cursor, sought twice",
            work: |tx, t| {
                let mut cursor = tx.cursor(t, ..)?;
                on(cursor.seek(b"20")?, "20");
                on(cursor.next()?, "30");
                on(cursor.seek(b"70")?, "70");
                Ok(())
            },
            reads: &["20", "25", "30", "70"],
            beside: &["10", "300", "40", "60", "75"],
            ..NONE
        },
        Case {
            name: "cursor, sought behind the last",
            work: |tx, t| {
                let mut cursor = tx.cursor(t, ..)?;
                assert_eq!(cursor.seek(b"95")?, None);
                on(cursor.prev()?, "90");
                Ok(())
            },
            reads: &["90", "93", "95", "99"],
            beside: &["80", "85"],
            ..NONE
        },
        Case {
            name: "range, all of it",
            work: |tx, t| {
                assert_eq!(tx.range(t, "25".."55")?.count(), 3);
                Ok(())
            },
            reads: &["25", "30", "54"],
            beside: &["20", "249", "55", "60"],
            ..NONE
        },
        Case {
            name: "an empty range",
            work: |tx, t| {
                assert_eq!(tx.range(t, "41".."49")?.rev().count(), 0);
                Ok(())
            },
            reads: &["41", "45"],
            beside: &["40", "49", "50"],
            ..NONE
        },
        Case {
            name: "range, one from each end",
            work: |tx, t| {
                let mut range = tx.range(t, "15".."85")?;
                assert_eq!(range.next().unwrap()?.0, b"20");
                assert_eq!(range.next_back().unwrap()?.0, b"80");
                Ok(())
            },
            reads: &["15", "20", "80", "84"],
            beside: &["10", "30", "50", "70", "85"],
            ..NONE
        },
        Case {
            name: "prefix",
            work: |tx, t| {
                assert_eq!(tx.prefix(t, b"2")?.count(), 1);
                Ok(())
            },
            reads: &["2", "20", "29"],
            beside: &["10", "19", "3"],
            ..NONE
        },
        Case {
            name: "range over own range delete",
            work: |tx, t| {
                tx.delete_range(t, "30".."50")?;
                assert_eq!(tx.range(t, "20".."60")?.count(), 2);
                Ok(())
            },
            // What it wrote inside a range that it scanned counts as read: there is one interval for the scan.
            reads: &["20", "25", "30", "45", "50", "59"],
            writes: &["30", "45"],
            beside: &["10", "60"],
        },
    ]
}

fn writing_cursor_cases() -> Vec<Case> {
    vec![
        Case {
            name: "cursor_mut, twice forward",
            work: |tx, t| {
                let mut cursor = tx.cursor_mut(t, ..)?;
                on(cursor.next()?, "10");
                on(cursor.next()?, "20");
                Ok(())
            },
            reads: &["", "05", "10", "15", "20"],
            beside: &["200", "25", "30", "95"],
            ..NONE
        },
        Case {
            name: "cursor_mut, twice backward",
            work: |tx, t| {
                let mut cursor = tx.cursor_mut(t, ..)?;
                on(cursor.prev()?, "90");
                on(cursor.prev()?, "80");
                Ok(())
            },
            reads: &["80", "85", "90", "95"],
            beside: &["05", "70", "799"],
            ..NONE
        },
        Case {
            name: "cursor_mut, sought, back, and put",
            work: |tx, t| {
                let mut cursor = tx.cursor_mut(t, ..)?;
                on(cursor.seek(b"35")?, "40");
                on(cursor.prev()?, "30");
                cursor.put(b"new")
            },
            reads: &["30", "33", "35", "40"],
            writes: &["30"],
            beside: &["20", "25", "400", "50"],
        },
        Case {
            name: "cursor_mut, sought, and on after the transaction was used",
            work: |tx, t| {
                let mut cursor = tx.cursor_mut(t, ..)?;
                on(cursor.seek(b"35")?, "40");
                cursor.transaction().put(t, b"85", b"")?;
                on(cursor.next()?, "50");
                Ok(())
            },
            reads: &["35", "40", "45", "50"],
            writes: &["85"],
            beside: &["30", "349", "500", "60"],
        },
        Case {
            name: "cursor_mut, sought, and back after the transaction was used",
            work: |tx, t| {
                let mut cursor = tx.cursor_mut(t, ..)?;
                on(cursor.seek(b"65")?, "70");
                cursor.transaction();
                on(cursor.prev()?, "60");
                Ok(())
            },
            reads: &["60", "65", "69", "70"],
            beside: &["50", "59", "700", "80"],
            ..NONE
        },
        Case {
            name: "cursor_mut within another",
            work: |tx, t| {
                let mut cursor = tx.cursor_mut(t, ..)?;
                on(cursor.next()?, "10");
                let mut inner = cursor.transaction().cursor_mut(t, Span::from("50"..))?;
                on(inner.next()?, "50");
                on(cursor.next()?, "20");
                on(cursor.next()?, "30");
                Ok(())
            },
            reads: &["05", "10", "15", "20", "25", "30", "50"],
            beside: &["300", "40", "49", "500", "60"],
            ..NONE
        },
        Case {
            name: "cursor_mut, deleting a span to its end",
            work: |tx, t| {
                let mut cursor = tx.cursor_mut(t, Span::from("25".."45"))?;
                while cursor.next()?.is_some() {
                    cursor.delete()?;
                }
                Ok(())
            },
            reads: &["25", "30", "40", "44"],
            writes: &["30", "40"],
            beside: &["20", "45", "50"],
        },
        Case {
            name: "cursor_mut, off the end and back",
            work: |tx, t| {
                let mut cursor = tx.cursor_mut(t, "65".."95")?;
                assert_eq!(cursor.seek(b"91")?, None);
                assert_eq!(cursor.next()?, None);
                on(cursor.prev()?, "90");
                assert_eq!(cursor.next()?, None);
                on(cursor.prev()?, "90");
                on(cursor.prev()?, "80");
                Ok(())
            },
            reads: &["80", "85", "90", "94"],
            beside: &["70", "95"],
            ..NONE
        },
        Case {
            name: "cursor_mut, off the start and forth",
            work: |tx, t| {
                let mut cursor = tx.cursor_mut(t, "15".."95")?;
                on(cursor.next()?, "20");
                assert_eq!(cursor.prev()?, None);
                cursor.transaction();
                assert_eq!(cursor.prev()?, None);
                on(cursor.next()?, "20");
                Ok(())
            },
            reads: &["15", "20"],
            beside: &["10", "200", "30"],
            ..NONE
        },
    ]
}

fn is(value: Option<Vec<u8>>, expected: &str) -> Outcome {
    assert_eq!(value.as_deref(), Some(expected.as_bytes()));
    Ok(())
}

fn absent(value: Option<Vec<u8>>) -> Outcome {
    assert_eq!(value, None);
    Ok(())
}

fn refused(yes: bool) -> Outcome {
    assert!(yes);
    Ok(())
}

fn on(record: Option<(&[u8], &[u8])>, key: &str) {
    assert_eq!(record.map(|(key, _)| key), Some(key.as_bytes()));
}

/// The ways in which somebody else changes a key.
type Change = fn(&mut Transaction, &Table, &[u8]) -> Outcome;

const CHANGES: [(&str, Change); 4] = [
    ("put", |tx, t, key| tx.put(t, key, b"changed")),
    ("delete", |tx, t, key| tx.delete(t, key)),
    ("range delete", |tx, t, key| tx.delete_range(t, key..=key)),
    ("two range deletes and a put", |tx, t, key| {
        tx.delete_range(t, key..=key)?;
        tx.put(t, key, b"changed")?;
        tx.delete_range(t, key..=key)
    }),
];

/// Whether the transaction of `case` is refused if `key` is changed beside it.
fn is_refused(
    case: &Case,
    isolation: Isolation,
    change: Change,
    key: &str,
    churn: bool,
) -> pando::Result<bool> {
    let db = restless().in_memory()?;
    let (table, other) = (db.ensure_table("t")?, db.ensure_table("other")?);
    db.write(|tx| {
        (1..10).try_for_each(|i| tx.put(&table, format!("{i}0").as_bytes(), format!("{i}0").as_bytes()))
    })?;
    if churn {
        db.checkpoint()?;
    }
    let mut tx = db.begin_with(&options(isolation, Durability::Buffered))?;
    (case.work)(&mut tx, &table)?;
    tx.put(&other, b"judged", b"")?;
    db.write(|tx| change(tx, &table, key.as_bytes()))?;
    if churn {
        db.checkpoint()?;
    }
    match tx.commit() {
        Ok(_) => Ok(false),
        Err(error) if error.kind() == ErrorKind::Conflict => Ok(true),
        Err(error) => Err(error),
    }
}

fn play(cases: &[Case]) -> Outcome {
    for case in cases {
        for isolation in BOTH {
            let relied_on = if isolation == Isolation::Serializable { case.reads } else { case.writes };
            let keys: std::collections::BTreeSet<_> =
                [case.reads, case.writes, case.beside].concat().into_iter().collect();
            for key in keys {
                for (n, (how, change)) in CHANGES.into_iter().enumerate() {
                    let refused = is_refused(case, isolation, change, key, n % 2 == 0)?;
                    let place = format!("{}, then {how} of {key:?} under {isolation:?}", case.name);
                    assert_eq!(refused, relied_on.contains(&key), "{place}");
                }
            }
        }
    }
    Ok(())
}

#[test]
fn point_reads_depend_on_their_keys() -> Outcome {
    play(&point_cases())
}

#[test]
fn cursors_depend_on_what_they_passed() -> Outcome {
    play(&cursor_cases())
}

#[test]
fn writing_cursors_depend_on_what_they_passed() -> Outcome {
    play(&writing_cursor_cases())
}
