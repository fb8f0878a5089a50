//! The anomalies that a serializable transaction must not show, on every subject alike. Every table has enough records
//! that a conflict is one of records, and not of a page that everything is in.

use crate::subject::{self, Subject, on_every_subject};
use pando::{ErrorKind, Isolation, ReadTables, Table, WriteTables};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

on_every_subject!(
    lost_update,
    write_skew,
    phantom,
    phantom_in_an_empty_range,
    read_only_transactions_are_serializable,
    snapshot_isolation_allows_write_skew_but_no_lost_update,
    blind_puts_of_one_key_do_not_conflict,
    different_records_do_not_conflict,
    transfers_keep_the_sum,
);

fn accounts(subject: &impl Subject) -> Table {
    subject
        .write(|tx| {
            let t = tx.ensure_table("accounts")?;
            (0..2000_u32).try_for_each(|key| tx.put(&t, key.to_be_bytes(), [100]))?;
            Ok(t)
        })
        .unwrap()
}

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

/// Commits both, and returns how many succeeded. The other one must have a conflict.
fn commit_both<S: Subject>(subject: &S, one: S::Tx, other: S::Tx) -> usize {
    let done = [subject.commit(one), subject.commit(other)];
    for error in done.iter().filter_map(|done| done.as_ref().err()) {
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error:?}");
    }
    done.iter().filter(|done| done.is_ok()).count()
}

fn lost_update(subject: &impl Subject) {
    let t = accounts(subject);
    let (mut one, mut other) = (subject.begin(), subject.begin());
    for tx in [&mut one, &mut other] {
        let before = tx.get(&t, key(1)).unwrap().unwrap()[0];
        tx.put(&t, key(1), [before + 1]).unwrap();
    }
    assert_eq!(commit_both(subject, one, other), 1);
    assert_eq!(subject.snapshot().get(&t, key(1)).unwrap().unwrap(), [101]);
}

fn write_skew(subject: &impl Subject) {
    let t = accounts(subject);
    let (mut one, mut other) = (subject.begin(), subject.begin());
    for tx in [&one, &other] {
        assert_eq!(tx.multi_get(&t, &[key(1), key(1999)]).unwrap(), [Some(vec![100]), Some(vec![100])]);
    }
    one.put(&t, key(1), [0]).unwrap();
    other.put(&t, key(1999), [0]).unwrap();
    assert_eq!(commit_both(subject, one, other), 1);
}

fn phantom(subject: &impl Subject) {
    let t = accounts(subject);
    let (mut one, mut other) = (subject.begin(), subject.begin());
    for tx in [&one, &other] {
        assert_eq!(tx.range(&t, key(100)..key(110)).unwrap().count(), 10);
    }
    one.put(&t, [&key(105)[..], b"one"].concat(), "").unwrap();
    other.put(&t, [&key(107)[..], b"other"].concat(), "").unwrap();
    assert_eq!(commit_both(subject, one, other), 1);
    assert_eq!(subject.snapshot().range(&t, key(100)..key(110)).unwrap().count(), 11);
}

fn phantom_in_an_empty_range(subject: &impl Subject) {
    let t = accounts(subject);
    let (mut one, mut other) = (subject.begin(), subject.begin());
    for tx in [&one, &other] {
        assert!(tx.range(&t, key(5000)..key(6000)).unwrap().next().is_none());
    }
    one.put(&t, key(5100), "").unwrap();
    other.put(&t, key(5200), "").unwrap();
    assert_eq!(commit_both(subject, one, other), 1);
}

/// The read-only anomaly of Fekete, O'Neil and O'Neil (2004): a transaction that only reads sees a deposit, but not a
/// withdrawal that does not know the deposit, and the withdrawal commits after it.
fn read_only_transactions_are_serializable(subject: &impl Subject) {
    let (checking, savings) = (key(1), key(1999));
    // A snapshot counts when it is dropped, and a transaction when it is committed.
    for by_transaction in [false, true] {
        let t = accounts(subject);
        let keys = [checking, savings];
        let mut withdrawal = subject.begin();
        assert_eq!(withdrawal.multi_get(&t, &keys).unwrap(), [Some(vec![100]), Some(vec![100])]);
        subject
            .write(|tx| {
                let before = tx.get(&t, savings)?.unwrap()[0];
                tx.put(&t, savings, [before + 20])
            })
            .unwrap();
        let report = if by_transaction {
            let tx = subject.begin();
            tx.multi_get(&t, &keys).and_then(|seen| subject.commit(tx).map(|()| seen))
        } else {
            subject.snapshot().multi_get(&t, &keys)
        };
        let report_is_there = report.is_ok_and(|seen| seen == [Some(vec![100]), Some(vec![120])]);
        withdrawal.put(&t, checking, [0]).unwrap();
        let withdrawn = subject.commit(withdrawal).is_ok();
        assert!(
            !(report_is_there && withdrawn),
            "no order of the three explains what the report showed, {by_transaction}"
        );
    }
}

/// The same three, but the withdrawal commits while the report reads: it fits no order then, and a new one does.
#[test]
fn a_report_that_fits_no_order_is_read_again() {
    let Some(db) = subject::postgres() else { return };
    let (t, [checking, savings]) = (accounts(&db), [key(1), key(1999)]);
    // Beside other tests, the server can refuse the withdrawal for a conflict that is none.
    for _ in 0..20 {
        db.write(|tx| [checking, savings].iter().try_for_each(|key| tx.put(&t, key, [100]))).unwrap();
        let mut withdrawal = db.begin();
        let both = withdrawal.multi_get(&t, &[checking, savings]);
        assert_eq!(both.unwrap(), [Some(vec![100]), Some(vec![100])]);
        withdrawal.put(&t, checking, [0]).unwrap();
        db.put(&t, savings, [120]).unwrap();
        let (mut withdrawal, mut is_withdrawn) = (Some(withdrawal), false);
        let (mut reports, repeats) = (0, db.repeats());
        let report = db.read(|snapshot| {
            reports += 1;
            let saved = snapshot.get(&t, savings)?;
            if let Some(withdrawal) = withdrawal.take() {
                is_withdrawn = withdrawal.commit().is_ok();
            }
            Ok((snapshot.get(&t, checking)?, saved))
        });
        if is_withdrawn {
            assert_eq!(report.unwrap(), (Some(vec![0]), Some(vec![120])));
            assert_eq!((reports > 1, db.repeats() - repeats), (true, reports - 1));
            return;
        }
    }
    panic!("no withdrawal was committed");
}

#[test]
fn reads_that_always_conflict_end() {
    let Some(db) = subject::postgres() else { return };
    let attempts = |kind: ErrorKind, pause: Duration| {
        let mut attempts = 0;
        let read = db.read(|_| -> pando::Result<()> {
            attempts += 1;
            thread::sleep(pause);
            Err(pando::Error::new(kind, "as the test wants it"))
        });
        assert_eq!(read.unwrap_err().kind(), kind);
        attempts
    };
    assert_eq!(attempts(ErrorKind::Conflict, Duration::ZERO), 16);
    assert!((1..=3).contains(&attempts(ErrorKind::Conflict, Duration::from_secs(1))));
    assert_eq!(attempts(ErrorKind::SnapshotTooOld, Duration::ZERO), 1);
}

fn snapshot_isolation_allows_write_skew_but_no_lost_update(subject: &impl Subject) {
    let t = accounts(subject);
    let skewed = || (subject.begin_with(Isolation::Snapshot), subject.begin_with(Isolation::Snapshot));
    let (mut one, mut other) = skewed();
    for tx in [&one, &other] {
        assert_eq!(tx.multi_get(&t, &[key(1), key(1999)]).unwrap(), [Some(vec![100]), Some(vec![100])]);
    }
    one.put(&t, key(1), [0]).unwrap();
    other.put(&t, key(1999), [0]).unwrap();
    assert_eq!(commit_both(subject, one, other), 2);
    let (mut one, mut other) = skewed();
    for tx in [&mut one, &mut other] {
        let before = tx.get(&t, key(2)).unwrap().unwrap()[0];
        tx.put(&t, key(2), [before + 1]).unwrap();
    }
    assert_eq!(commit_both(subject, one, other), 1);
}

/// Writes that nobody has read depend on nothing, so both transactions commit, in this order.
fn blind_puts_of_one_key_do_not_conflict(subject: &impl Subject) {
    let t = accounts(subject);
    let (mut one, mut other) = (subject.begin(), subject.begin());
    one.put(&t, key(1), [1]).unwrap();
    other.put(&t, key(1), [2]).unwrap();
    assert_eq!(commit_both(subject, one, other), 2);
    assert_eq!(subject.snapshot().get(&t, key(1)).unwrap().unwrap(), [2]);
}

fn different_records_do_not_conflict(subject: &impl Subject) {
    let t = accounts(subject);
    let (mut one, mut other) = (subject.begin(), subject.begin());
    for (tx, number) in [(&mut one, 1), (&mut other, 1999)] {
        assert_eq!(tx.get(&t, key(number)).unwrap().unwrap(), [100]);
        tx.put(&t, key(number), [1]).unwrap();
    }
    assert_eq!(commit_both(subject, one, other), 2);
}

/// Four threads move money between ten accounts; readers check the sum meanwhile.
fn transfers_keep_the_sum(subject: &impl Subject) {
    const ACCOUNTS: u32 = 10;
    let t = accounts(subject);
    let transfers = AtomicU32::new(0);
    let sum = |reader: &dyn Fn(u32) -> u32| (0..ACCOUNTS).map(reader).sum::<u32>();
    thread::scope(|scope| {
        for seed in 0..4_u64 {
            let (t, transfers) = (&t, &transfers);
            scope.spawn(move || {
                let mut random = base::env::Random::seeded(seed);
                for _ in 0..50 {
                    let (from, to) = (random.below(10) as u32, random.below(10) as u32);
                    let moved = subject.write(|tx| {
                        let rich = tx.get(t, key(from))?.unwrap()[0];
                        let poor = tx.get(t, key(to))?.unwrap()[0];
                        if from == to || rich == 0 || poor == 255 {
                            return Ok(());
                        }
                        tx.put(t, key(from), [rich - 1])?;
                        tx.put(t, key(to), [poor + 1])
                    });
                    match moved {
                        Ok(()) => drop(transfers.fetch_add(1, Ordering::SeqCst)),
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error:?}"),
                    }
                }
            });
        }
        for _ in 0..20 {
            let snapshot = subject.snapshot();
            let keys: Vec<_> = (0..ACCOUNTS).map(key).collect();
            match snapshot.multi_get(&t, &keys) {
                Ok(found) => assert_eq!(sum(&|n| u32::from(found[n as usize].as_ref().unwrap()[0])), 1000),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error:?}"),
            }
        }
    });
    let snapshot = subject.snapshot();
    assert_eq!(sum(&|number| u32::from(snapshot.get(&t, key(number)).unwrap().unwrap()[0])), 1000);
    let transfers = transfers.into_inner();
    assert!(transfers > 150, "only {transfers} of 200 transfers were committed");
}

/// The one conflict that a remote store reports and the engine does not: the writes of one key collide, although
/// neither transaction has read it, as both have read something else before.
#[test]
fn puts_of_one_key_after_other_reads_conflict_in_postgresql_only() {
    fn committed(subject: &impl Subject) -> usize {
        let t = accounts(subject);
        let (mut one, mut other) = (subject.begin(), subject.begin());
        for (tx, number) in [(&mut one, 500), (&mut other, 1500)] {
            assert_eq!(tx.get(&t, key(number)).unwrap().unwrap(), [100]);
            tx.put(&t, key(1), [1]).unwrap();
        }
        commit_both(subject, one, other)
    }
    assert_eq!(committed(&subject::native().unwrap()), 2);
    if let Some(postgres) = subject::postgres() {
        assert_eq!(committed(&postgres), 1);
    }
}
