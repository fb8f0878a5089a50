//! Wakers of readers of changes are code of the program's: they may panic, commit, close, and take locks.

use crate::support::small;
use pando::{Changes, Database, Durability, ErrorKind, Table, TransactionOptions};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Wake, Waker};
use std::thread;
use std::time::Duration;

const ALL: [Durability; 3] = [Durability::Sync, Durability::Buffered, Durability::Lazy];
/// A call that takes longer than this waits for itself.
const MOST: Duration = Duration::from_secs(60);

struct Call<F>(F);

impl<F: Fn() + Send + Sync + 'static> Wake for Call<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

fn waker(call: impl Fn() + Send + Sync + 'static) -> Waker {
    Waker::from(Arc::new(Call(call)))
}

fn database() -> (Database, Table) {
    let db = small().lazy_interval(Duration::from_millis(10)).in_memory().unwrap();
    let table = db.ensure_table("t").unwrap();
    (db, table)
}

/// A reader of the changes from now on, at its end.
fn at_end(db: &Database, waker: &Waker) -> Changes {
    let changes = db.changes(db.stats().unwrap().last_commit).unwrap();
    assert!(!changes.is_ready(waker), "it is at its end");
    changes
}

fn put(db: &Database, table: &Table, key: &str, durability: Durability) -> pando::Result<()> {
    let options = TransactionOptions { durability, ..db.transaction_options() };
    db.write_with(&options, |tx| tx.put(table, key, b""))
}

/// Runs `work` in a thread of its own, for a limited time.
fn in_time<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, is_done) = mpsc::channel();
    let thread = thread::spawn(move || {
        let result = work();
        let _ = done.send(());
        result
    });
    let waited = is_done.recv_timeout(MOST);
    assert_ne!(waited, Err(mpsc::RecvTimeoutError::Timeout), "{what} does not end");
    thread.join().unwrap()
}

#[test]
fn a_waker_that_panics_costs_its_wake_up_alone() {
    let (db, table) = database();
    for durability in ALL {
        let (panicking, others) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (calls, others_calls) = (Arc::clone(&panicking), Arc::clone(&others));
        let panics = waker(move || {
            calls.fetch_add(1, Ordering::SeqCst);
            panic!("the program's own");
        });
        let counts = waker(move || {
            others_calls.fetch_add(1, Ordering::SeqCst);
        });
        let readers = [at_end(&db, &panics), at_end(&db, &counts)];
        put(&db, &table, "first", durability).unwrap();
        assert_eq!([&panicking, &others].map(|calls| calls.load(Ordering::SeqCst)), [1, 1], "{durability:?}");
        db.check_writes().unwrap();
        put(&db, &table, "next", durability).unwrap();
        assert!(readers.iter().all(|reader| reader.is_ready(Waker::noop())));
    }
    db.close().unwrap();
}

#[test]
fn a_waker_that_panics_keeps_no_database_from_closing() {
    let (db, _) = database();
    let _changes = at_end(&db, &waker(|| panic!("the program's own")));
    db.close().unwrap();
    assert_eq!(db.snapshot().unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn a_waker_may_commit() {
    let (db, table) = database();
    for durability in ALL {
        let (woken, is_woken) = mpsc::channel();
        let (own, of) = (db.clone(), table.clone());
        let commits = waker(move || woken.send(put(&own, &of, "of the waker", durability)).unwrap());
        let _changes = at_end(&db, &commits);
        let (own, of) = (db.clone(), table.clone());
        in_time("a commit whose waker commits", move || put(&own, &of, "k", durability)).unwrap();
        is_woken.try_recv().expect("the waker was called before the commit returned").unwrap();
    }
}

#[test]
fn a_waker_may_take_a_lock_that_another_thread_holds_while_it_commits() {
    let (db, table) = database();
    for durability in ALL {
        let own = Arc::new(Mutex::new(()));
        let (woken, is_woken) = mpsc::channel();
        let waiting = Arc::clone(&own);
        let waits = waker(move || {
            woken.send(()).unwrap();
            drop(waiting.lock().unwrap());
        });
        let _changes = at_end(&db, &waits);
        let held = own.lock().unwrap();
        let (handle, of) = (db.clone(), table.clone());
        let first = thread::spawn(move || put(&handle, &of, "first", durability));
        is_woken.recv_timeout(MOST).unwrap();
        let (handle, of) = (db.clone(), table.clone());
        in_time("a commit beside a waker that waits", move || put(&handle, &of, "second", durability))
            .unwrap();
        drop(held);
        first.join().unwrap().unwrap();
    }
}

/// What orders commits outside of the database is given back before a waker, which may need it, is called.
#[test]
fn a_waker_may_take_the_lock_that_orders_commits() {
    let (db, table) = database();
    for durability in ALL {
        let order = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&order);
        let _changes = at_end(&db, &waker(move || assert_eq!(seen.lock().unwrap().len(), 1)));
        let (own, of) = (db.clone(), table.clone());
        in_time("a placed commit", move || {
            let options = TransactionOptions { durability, ..own.transaction_options() };
            let mut tx = own.begin_with(&options).unwrap();
            tx.put(&of, b"k", b"").unwrap();
            let placed = |mut order: std::sync::MutexGuard<'_, Vec<u64>>, number| order.push(number);
            tx.commit_placed(|_| Ok(order.lock().unwrap()), placed).unwrap();
        });
    }
}

#[test]
fn a_waker_may_use_and_close_the_database_that_is_being_closed() {
    let (db, table) = database();
    let (own, of) = (db.clone(), table.clone());
    let (woken, is_woken) = mpsc::channel();
    let closes = waker(move || {
        let kind = put(&own, &of, "k", Durability::Sync).unwrap_err().kind();
        woken.send((kind, own.close().is_ok())).unwrap();
    });
    let _changes = at_end(&db, &closes);
    in_time("the close", move || db.close()).unwrap();
    assert_eq!(is_woken.try_recv().unwrap(), (ErrorKind::Closed, true));
}

/// A reader that is too late is woken by a thread that excludes no checkpoint.
#[test]
fn a_waker_of_a_reader_that_is_too_late_may_make_a_checkpoint() {
    let db = small().max_changes_bytes(1 << 20).in_memory().unwrap();
    let table = db.ensure_table("t").unwrap();
    let changes = db.changes(0).unwrap();
    for key in 0..64_u32 {
        put(&db, &table, &key.to_string(), Durability::Buffered).unwrap();
        db.put(&table, key.to_be_bytes(), [1; 40_000]).unwrap();
    }
    let (own, (woken, is_woken)) = (db.clone(), mpsc::channel());
    let checks = waker(move || {
        let _ = woken.send(own.checkpoint());
        panic!("the program's own");
    });
    // It is registered, although the reader has something to read.
    assert!(changes.is_ready(&checks));
    let own = db.clone();
    in_time("a checkpoint that revokes", move || own.checkpoint()).unwrap();
    is_woken.recv_timeout(MOST).expect("the reader is woken").unwrap();
    let mut changes = changes;
    let error = loop {
        match changes.next() {
            Ok(change) => assert!(change.is_some(), "it is not too late"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::TooOld);
    put(&db, &table, "after", Durability::Sync).unwrap();
    db.close().unwrap();
}
