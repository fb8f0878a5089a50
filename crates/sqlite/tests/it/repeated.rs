//! Transactions that are repeated as a whole after conflicts.

use crate::support::{database, is_over_a_store, rows};
use pando_sqlite::{Connection, Error, Value, ValueRef};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Three connections to a database with a row, which the second one changes whenever the first one calls `meddle()`,
/// and the number of these calls.
fn meddling(mut act: impl FnMut() + Send + 'static) -> ([Connection; 2], Arc<AtomicU32>) {
    let db = database();
    let [one, two, three] = std::array::from_fn(|_| Connection::open(&db).expect("it opens"));
    one.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, b); INSERT INTO t VALUES (1, 0)").expect("it runs");
    let calls = Arc::new(AtomicU32::new(0));
    let counting = Arc::clone(&calls);
    let meddle = move |_: &[ValueRef<'_>]| {
        counting.fetch_add(1, Ordering::SeqCst);
        // In the end it is excluded.
        let _changed = two.execute("UPDATE t SET b = b + 1 WHERE a = 1").is_ok();
        act();
        Ok(Value::Integer(100))
    };
    one.create_function("meddle", 0, meddle).expect("it is added");
    ([one, three], calls)
}

/// A transaction that writes.
type Work = fn(&Connection) -> Result<(), Error>;

const WRITE: &str = "UPDATE t SET b = meddle() WHERE a = 1";

#[test]
fn each_conflict_is_repeated_once_and_in_the_end_others_wait() {
    let works: [Work; 4] = [
        |one| one.execute(WRITE),
        |one| one.query(&format!("{WRITE} RETURNING b")).map(drop),
        |one| one.execute(&format!("BEGIN; {WRITE}; COMMIT")),
        |one| one.execute("BEGIN; SELECT meddle() FROM t; UPDATE t SET b = 100; COMMIT"),
    ];
    for work in works {
        let ([one, other], calls) = meddling(|| ());
        let mut runs = 0;
        let run = || {
            runs += 1;
            work(&one)
        };
        one.repeating(run, Error::is_conflict).expect("nobody can interfere in the end");
        assert_eq!((runs, calls.load(Ordering::SeqCst)), (8, 8));
        assert_eq!(rows(&other, "SELECT b FROM t"), ["100"]);
        other.execute("UPDATE t SET b = 7").expect("the turn has ended");
    }
}

#[test]
fn an_interrupt_between_attempts_or_statements_stops_the_transaction() {
    for sql in [WRITE.to_owned(), format!("BEGIN; {WRITE}; COMMIT")] {
        let ([one, other], calls) = meddling(|| ());
        let mut runs = 0;
        let interrupt = one.interrupt_handle();
        let run = || {
            runs += 1;
            let done = one.execute(&sql);
            interrupt.interrupt();
            done
        };
        assert!(one.repeating(run, Error::is_conflict).expect_err("it is interrupted").is_interrupted());
        assert_eq!((runs, calls.load(Ordering::SeqCst)), (2, 1), "{sql}");
        assert_eq!(rows(&other, "SELECT b FROM t"), ["1"]);
        // Within the transaction it stops all statements, until it is forgotten.
        let run = || {
            one.execute("BEGIN")?;
            one.interrupt_handle().interrupt();
            let error = one.execute("UPDATE t SET b = 9").expect_err("it is interrupted");
            assert!(error.is_interrupted(), "{error}");
            one.forget_interrupt();
            if one.is_in_transaction() { one.execute("ROLLBACK") } else { Ok(()) }
        };
        one.repeating(run, Error::is_conflict).expect("it ends");
        one.execute("UPDATE t SET b = 8").expect("nothing is left of it");
        assert_eq!(rows(&other, "SELECT b FROM t"), ["8"]);
    }
}

#[test]
fn what_cannot_succeed_again_runs_once() {
    let ([one, other], _) = meddling(|| ());
    let count = |work: &dyn Fn() -> Result<(), Error>| {
        let mut runs = 0;
        let done = one.repeating(
            || {
                runs += 1;
                work()
            },
            Error::is_conflict,
        );
        (runs, done.expect_err("it has a conflict").is_conflict())
    };
    // Within a transaction, and beside a query whose rows are of an older state.
    one.execute("BEGIN; UPDATE t SET b = 1").expect("it writes");
    other.execute("UPDATE t SET b = 2").expect("it writes");
    assert_eq!(count(&|| one.execute("COMMIT")), (1, true));
    let mut reading = one.prepare("SELECT * FROM t").expect("it is right");
    assert!(reading.step().expect("there is a row"));
    other.execute("UPDATE t SET b = 3").expect("it writes");
    // Over a store it is no conflict, but refused.
    assert_eq!(count(&|| one.execute("UPDATE t SET b = 4")), (1, !is_over_a_store()));
}
