//! The anomalies of the Hermitage suite (Kleppmann 2014, after Adya 1999) against a real database, at both levels.
//!
//! Each row of the table names a history and how its last commit ends under serializable and under snapshot
//! isolation; what must not be *seen* is asserted while it is played. Every row is played on a table of
//! each layout three times: with all the data in memory, with it in the tree, and with a checkpoint between the steps,
//! so that the conflicts have to be found in memtables that are sealed and absorbed already.

use crate::histories::{BOTH, Outcome, options, restless};
use pando::{Database, Durability, ErrorKind, Isolation, Layout, Table, TableOptions, Transaction};

/// When checkpoints run.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Churn {
    Never,
    Before,
    Between,
}

/// Each layout of the table, with each of these.
const PLAYS: [(Layout, Churn); 6] = [
    (Layout::BTree, Churn::Never),
    (Layout::BTree, Churn::Before),
    (Layout::BTree, Churn::Between),
    (Layout::Lsm, Churn::Never),
    (Layout::Lsm, Churn::Before),
    (Layout::Lsm, Churn::Between),
];

/// A database whose table has x = 10 and y = 20.
struct Stage {
    db: Database,
    table: Table,
    isolation: Isolation,
    churn: Churn,
}

impl Stage {
    fn new(isolation: Isolation, layout: Layout, churn: Churn) -> pando::Result<Stage> {
        let db = restless().in_memory()?;
        let table = db.create_table("t", &TableOptions::with_layout(layout))?;
        db.write(|tx| {
            tx.put(&table, b"x", &[10])?;
            tx.put(&table, b"y", &[20])
        })?;
        if churn != Churn::Never {
            db.checkpoint()?;
        }
        Ok(Stage { db, table, isolation, churn })
    }

    fn begin(&self) -> pando::Result<Transaction> {
        self.db.begin_with(&options(self.isolation, Durability::Buffered))
    }

    fn between(&self) -> Outcome {
        if self.churn == Churn::Between { self.db.checkpoint() } else { Ok(()) }
    }

    /// Commits one that must get through, and has a checkpoint behind it.
    fn commit(&self, tx: Transaction) -> Outcome {
        tx.commit()?;
        self.between()
    }

    fn get(&self, tx: &Transaction, key: &str) -> Option<u8> {
        tx.get(&self.table, key.as_bytes()).unwrap().map(|value| value[0])
    }

    fn put(&self, tx: &mut Transaction, key: &str, value: u8) {
        tx.put(&self.table, key.as_bytes(), &[value]).unwrap();
    }

    /// The keys whose values are divisible, found by reading all.
    fn divisible(&self, tx: &Transaction, by: u8) -> Vec<String> {
        let records = tx.range(&self.table, ..).unwrap().map(Result::unwrap);
        let found = records.filter(|(_, value)| value[0].is_multiple_of(by));
        found.map(|(key, _)| String::from_utf8(key).unwrap()).collect()
    }

    fn now(&self, key: &str) -> Option<u8> {
        self.db.get(&self.table, key.as_bytes()).unwrap().map(|value| value[0])
    }
}

use Verdict::{Commits, Refused};

/// How the last commit of a history ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Verdict {
    Commits,
    Refused,
}

struct Anomaly {
    name: &'static str,
    /// Plays the history up to the commit that is judged, and hands that transaction out.
    play: fn(&Stage) -> pando::Result<Transaction>,
    serializable: Verdict,
    snapshot: Verdict,
}

const ANOMALIES: [Anomaly; 19] = [
    // Blind writes depend on nothing: one after the other is a serial order. The values never mix either way.
    Anomaly { name: "G0 dirty write", play: dirty_write, serializable: Commits, snapshot: Refused },
    Anomaly { name: "G1a aborted read", play: aborted_read, serializable: Commits, snapshot: Commits },
    Anomaly {
        name: "G1b intermediate read",
        play: intermediate_read,
        serializable: Commits,
        snapshot: Commits,
    },
    Anomaly {
        name: "G1c circular information flow",
        play: circular,
        serializable: Refused,
        snapshot: Commits,
    },
    Anomaly {
        name: "OTV observed transaction vanishes",
        play: vanishing,
        serializable: Commits,
        snapshot: Refused,
    },
    Anomaly {
        name: "PMP predicate-many-preceders",
        play: preceders,
        serializable: Refused,
        snapshot: Commits,
    },
    Anomaly {
        name: "PMP for write predicates",
        play: preceders_write,
        serializable: Refused,
        snapshot: Refused,
    },
    Anomaly { name: "P4 lost update", play: lost_update, serializable: Refused, snapshot: Refused },
    Anomaly { name: "P4 by compare-and-swap", play: lost_swap, serializable: Refused, snapshot: Refused },
    Anomaly { name: "two inserts of one key", play: two_inserts, serializable: Refused, snapshot: Refused },
    Anomaly { name: "two removals of one key", play: two_removals, serializable: Refused, snapshot: Refused },
    Anomaly { name: "G-single read skew", play: read_skew, serializable: Commits, snapshot: Commits },
    Anomaly { name: "G-single by predicate", play: predicate_skew, serializable: Commits, snapshot: Commits },
    Anomaly {
        name: "G-single, write predicate",
        play: skewed_write,
        serializable: Refused,
        snapshot: Refused,
    },
    Anomaly { name: "G2-item write skew", play: write_skew, serializable: Refused, snapshot: Commits },
    Anomaly { name: "G2 by predicate", play: predicate_write_skew, serializable: Refused, snapshot: Commits },
    Anomaly {
        name: "G2 of three, one reads only",
        play: read_only_anomaly,
        serializable: Refused,
        snapshot: Commits,
    },
    Anomaly {
        name: "phantom by range delete",
        play: vanished_range,
        serializable: Refused,
        snapshot: Commits,
    },
    Anomaly { name: "range deletes cross", play: crossing_deletes, serializable: Commits, snapshot: Refused },
];

#[test]
fn every_anomaly_is_allowed_or_refused_as_documented() -> Outcome {
    for anomaly in &ANOMALIES {
        for (isolation, expected) in
            [(Isolation::Serializable, anomaly.serializable), (Isolation::Snapshot, anomaly.snapshot)]
        {
            for (layout, churn) in PLAYS {
                let stage = Stage::new(isolation, layout, churn)?;
                let verdict = match (anomaly.play)(&stage)?.commit() {
                    Ok(_) => Commits,
                    Err(error) if error.kind() == ErrorKind::Conflict => Refused,
                    Err(error) => return Err(error),
                };
                let place = format!("{} under {isolation:?}, {layout}, checkpoints {churn:?}", anomaly.name);
                assert_eq!(verdict, expected, "{place}");
            }
        }
    }
    Ok(())
}

fn dirty_write(stage: &Stage) -> pando::Result<Transaction> {
    let (mut a, mut b) = (stage.begin()?, stage.begin()?);
    stage.put(&mut a, "x", 11);
    stage.put(&mut b, "x", 12);
    stage.put(&mut a, "y", 21);
    stage.commit(a)?;
    assert_eq!((stage.now("x"), stage.now("y")), (Some(11), Some(21)));
    stage.put(&mut b, "y", 22);
    Ok(b)
}

fn aborted_read(stage: &Stage) -> pando::Result<Transaction> {
    let (mut a, b) = (stage.begin()?, stage.begin()?);
    stage.put(&mut a, "x", 101);
    assert_eq!(stage.get(&b, "x"), Some(10));
    a.abort();
    stage.between()?;
    assert_eq!((stage.get(&b, "x"), stage.now("x")), (Some(10), Some(10)));
    let mut b = b;
    stage.put(&mut b, "y", 1);
    Ok(b)
}

fn intermediate_read(stage: &Stage) -> pando::Result<Transaction> {
    let (mut a, b) = (stage.begin()?, stage.begin()?);
    stage.put(&mut a, "x", 101);
    assert_eq!(stage.get(&b, "x"), Some(10));
    stage.put(&mut a, "x", 11);
    stage.commit(a)?;
    assert_eq!((stage.get(&b, "x"), stage.now("x")), (Some(10), Some(11)));
    Ok(b)
}

fn circular(stage: &Stage) -> pando::Result<Transaction> {
    let (mut a, mut b) = (stage.begin()?, stage.begin()?);
    stage.put(&mut a, "x", 11);
    stage.put(&mut b, "y", 22);
    assert_eq!((stage.get(&a, "y"), stage.get(&b, "x")), (Some(20), Some(10)));
    stage.commit(a)?;
    Ok(b)
}

fn vanishing(stage: &Stage) -> pando::Result<Transaction> {
    let (mut a, mut b) = (stage.begin()?, stage.begin()?);
    stage.put(&mut a, "x", 11);
    stage.put(&mut a, "y", 19);
    stage.put(&mut b, "x", 12);
    stage.commit(a)?;
    let observer = stage.begin()?;
    let seen = || (stage.get(&observer, "x"), stage.get(&observer, "y"));
    assert_eq!(seen(), (Some(11), Some(19)));
    stage.put(&mut b, "y", 18);
    stage.db.put(&stage.table, b"x", &[99])?;
    assert_eq!(seen(), (Some(11), Some(19)));
    observer.commit()?;
    Ok(b)
}

fn preceders(stage: &Stage) -> pando::Result<Transaction> {
    let (mut a, mut b) = (stage.begin()?, stage.begin()?);
    assert_eq!(stage.divisible(&a, 3), [""; 0]);
    stage.put(&mut b, "z", 30);
    stage.commit(b)?;
    assert_eq!(stage.divisible(&a, 3), [""; 0]);
    stage.put(&mut a, "total", 0);
    Ok(a)
}

fn preceders_write(stage: &Stage) -> pando::Result<Transaction> {
    let (mut a, mut b) = (stage.begin()?, stage.begin()?);
    let mut cursor = a.cursor_mut(&stage.table, ..)?;
    while let Some((_, value)) = cursor.next()? {
        let more = value[0] + 10;
        cursor.put(&[more])?;
    }
    let mut cursor = b.cursor_mut(&stage.table, ..)?;
    while let Some((_, value)) = cursor.next()? {
        if value[0] == 20 {
            cursor.delete()?;
        }
    }
    stage.commit(a)?;
    assert_eq!((stage.now("x"), stage.now("y")), (Some(20), Some(30)));
    Ok(b)
}

fn lost_update(stage: &Stage) -> pando::Result<Transaction> {
    let (mut a, mut b) = (stage.begin()?, stage.begin()?);
    for tx in [&mut a, &mut b] {
        let more = stage.get(tx, "x").unwrap() + 1;
        stage.put(tx, "x", more);
    }
    stage.commit(a)?;
    Ok(b)
}

fn lost_swap(stage: &Stage) -> pando::Result<Transaction> {
    let (mut a, mut b) = (stage.begin()?, stage.begin()?);
    for tx in [&mut a, &mut b] {
        assert!(tx.compare_and_swap(&stage.table, b"x", Some(&[10]), Some(&[11]))?);
    }
    stage.commit(a)?;
    Ok(b)
}

fn two_inserts(stage: &Stage) -> pando::Result<Transaction> {
    let (mut a, mut b) = (stage.begin()?, stage.begin()?);
    a.insert(&stage.table, b"z", &[1])?;
    b.insert(&stage.table, b"z", &[2])?;
    stage.commit(a)?;
    Ok(b)
}

fn two_removals(stage: &Stage) -> pando::Result<Transaction> {
    let (mut a, mut b) = (stage.begin()?, stage.begin()?);
    assert_eq!(a.remove(&stage.table, b"x")?, Some(vec![10]));
    assert_eq!(b.remove(&stage.table, b"x")?, Some(vec![10]));
    stage.commit(a)?;
    Ok(b)
}

/// Somebody moves 8 from x to y beside the judged one.
fn transfer(stage: &Stage) -> Outcome {
    let mut tx = stage.begin()?;
    assert_eq!((stage.get(&tx, "x"), stage.get(&tx, "y")), (Some(10), Some(20)));
    stage.put(&mut tx, "x", 2);
    stage.put(&mut tx, "y", 28);
    stage.commit(tx)
}

fn read_skew(stage: &Stage) -> pando::Result<Transaction> {
    let a = stage.begin()?;
    assert_eq!(stage.get(&a, "x"), Some(10));
    transfer(stage)?;
    assert_eq!(stage.get(&a, "y"), Some(20));
    Ok(a)
}

fn predicate_skew(stage: &Stage) -> pando::Result<Transaction> {
    let a = stage.begin()?;
    assert_eq!(stage.divisible(&a, 5), ["x", "y"]);
    transfer(stage)?;
    assert_eq!(stage.divisible(&a, 7), [""; 0]);
    Ok(a)
}

fn skewed_write(stage: &Stage) -> pando::Result<Transaction> {
    let mut a = stage.begin()?;
    assert_eq!(stage.get(&a, "x"), Some(10));
    transfer(stage)?;
    for key in stage.divisible(&a, 20) {
        a.delete(&stage.table, key.as_bytes())?;
    }
    Ok(a)
}

fn write_skew(stage: &Stage) -> pando::Result<Transaction> {
    let (mut a, mut b) = (stage.begin()?, stage.begin()?);
    for tx in [&a, &b] {
        assert_eq!((stage.get(tx, "x"), stage.get(tx, "y")), (Some(10), Some(20)));
    }
    stage.put(&mut a, "x", 0);
    stage.put(&mut b, "y", 0);
    stage.commit(a)?;
    Ok(b)
}

fn predicate_write_skew(stage: &Stage) -> pando::Result<Transaction> {
    let (mut a, mut b) = (stage.begin()?, stage.begin()?);
    assert_eq!((stage.divisible(&a, 3), stage.divisible(&b, 3)), (vec![], vec![]));
    stage.put(&mut a, "k3", 30);
    stage.put(&mut b, "k4", 42);
    stage.commit(a)?;
    Ok(b)
}

/// Fekete, O'Neil and O'Neil 2004: the report sees the deposit but not the withdrawal that ignored it.
fn read_only_anomaly(stage: &Stage) -> pando::Result<Transaction> {
    let mut withdrawal = stage.begin()?;
    assert_eq!(stage.divisible(&withdrawal, 1), ["x", "y"]);
    let mut deposit = stage.begin()?;
    stage.put(&mut deposit, "y", 25);
    stage.commit(deposit)?;
    let report = stage.begin()?;
    assert_eq!((stage.get(&report, "x"), stage.get(&report, "y")), (Some(10), Some(25)));
    report.commit()?;
    stage.put(&mut withdrawal, "x", 0);
    Ok(withdrawal)
}

fn vanished_range(stage: &Stage) -> pando::Result<Transaction> {
    let (mut a, mut b) = (stage.begin()?, stage.begin()?);
    assert_eq!(a.range(&stage.table, "a".."z")?.count(), 2);
    b.delete_range(&stage.table, "y"..)?;
    stage.commit(b)?;
    assert_eq!(a.range(&stage.table, "a".."z")?.count(), 2);
    stage.put(&mut a, "0", 2);
    Ok(a)
}

fn crossing_deletes(stage: &Stage) -> pando::Result<Transaction> {
    let (mut a, mut b) = (stage.begin()?, stage.begin()?);
    a.delete_range(&stage.table, ..="x")?;
    b.delete_range(&stage.table, "x"..)?;
    stage.commit(a)?;
    Ok(b)
}

/// What a transaction does to a table, before the table is dropped by somebody else.
type Use = fn(&mut Transaction, &Table) -> Outcome;

const USES: [(&str, Use); 7] = [
    ("put", |tx, t| tx.put(t, b"z", b"")),
    ("delete range", |tx, t| tx.delete_range(t, "x"..)),
    ("get", |tx, t| tx.get(t, b"x").map(drop)),
    ("put, then roll back something else", |tx, t| {
        tx.put(t, b"z", b"")?;
        let savepoint = tx.savepoint();
        tx.put(t, b"zz", b"")?;
        tx.rollback_to(&savepoint)
    }),
    ("put, drop, roll back the drop", |tx, t| {
        tx.put(t, b"z", b"")?;
        let savepoint = tx.savepoint();
        tx.drop_table(t)?;
        tx.rollback_to(&savepoint)
    }),
    ("roll back a drop, then put", |tx, t| {
        let savepoint = tx.savepoint();
        tx.drop_table(t)?;
        tx.rollback_to(&savepoint)?;
        tx.put(t, b"z", b"")
    }),
    ("drop", Transaction::drop_table),
];

#[test]
fn a_dropped_table_refuses_everybody_who_used_it_and_writes() -> Outcome {
    for isolation in BOTH {
        for (layout, churn) in PLAYS {
            for recreated in [false, true] {
                for (name, work) in USES {
                    let stage = Stage::new(isolation, layout, churn)?;
                    let other = stage.db.ensure_table("other")?;
                    let mut tx = stage.begin()?;
                    work(&mut tx, &stage.table)?;
                    tx.put(&other, b"k", b"")?;
                    stage.db.drop_table("t")?;
                    stage.between()?;
                    if recreated {
                        stage.db.ensure_table("t")?;
                    }
                    let refused = tx.commit().map_err(|error| error.kind());
                    let place = format!("{name} under {isolation:?}, {layout}, checkpoints {churn:?}");
                    assert_eq!(refused, Err(ErrorKind::Conflict), "{place}");
                    assert_eq!(stage.db.get(&other, b"k")?, None, "{place}");
                    stage.db.checkpoint()?;
                    stage.db.check()?;
                }
            }
        }
    }
    Ok(())
}

#[test]
fn of_two_who_make_the_same_table_one_is_refused() -> Outcome {
    for isolation in BOTH {
        let stage = Stage::new(isolation, Layout::Lsm, Churn::Never)?;
        let (mut a, mut b) = (stage.begin()?, stage.begin()?);
        for tx in [&mut a, &mut b] {
            let table = tx.create_table("new", &Default::default())?;
            tx.put(&table, b"k", b"")?;
        }
        stage.commit(a)?;
        assert_eq!(b.commit().unwrap_err().kind(), ErrorKind::Conflict);
    }
    Ok(())
}

/// A transaction that outlived the history by which it must be judged is not let through unjudged.
#[test]
fn whoever_began_too_long_ago_is_refused_whatever_they_rely_on() -> Outcome {
    let works: [(&str, &[Isolation], Use); 4] = [
        ("a read", &BOTH[..1], |tx, t| tx.get(t, b"x").map(drop)),
        ("an insert", &BOTH, |tx, t| tx.insert(t, b"z", &[1])),
        ("a write, first committer wins", &BOTH[1..], |tx, t| tx.put(t, b"x", &[1])),
        ("a range delete, first committer wins", &BOTH[1..], |tx, t| tx.delete_range(t, ..)),
    ];
    for (name, isolations, work) in works {
        for &isolation in isolations {
            let db = Database::builder()
                .page_bytes(4096)
                .memory_bytes(1 << 20)
                .checkpoint_records(50)
                .in_memory()?;
            let (table, filler) = (db.ensure_table("t")?, db.ensure_table("filler")?);
            db.put(&table, b"x", &[0])?;
            let mut tx = db.begin_with(&options(isolation, Durability::Buffered))?;
            work(&mut tx, &table)?;
            tx.put(&filler, b"judged", b"")?;
            db.write(|tx| {
                tx.put(&table, b"x", &[2])?;
                tx.put(&table, b"z", &[2])
            })?;
            for i in 0..300u32 {
                db.put(&filler, &(i % 10).to_be_bytes(), &[0; 10_000])?;
                if i % 10 == 0 {
                    db.checkpoint()?;
                }
            }
            let error = tx.commit().expect_err(&format!("{name} under {isolation:?} was not judged"));
            assert!(error.is_retryable(), "{name} under {isolation:?}: {error}");
        }
    }
    Ok(())
}
