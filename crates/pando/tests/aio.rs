//! The asynchronous interface: what completes at once, what waits without a thread, and what holds after a future is
//! dropped. Every test runs under an executor that is not tokio, and the ones of throughput and lateness under tokio.

#[path = "../examples/async_commits.rs"]
#[allow(dead_code, unreachable_pub)]
mod async_commits;

use base::env::Random;
use futures_executor::block_on;
use futures_util::future::join_all;
use futures_util::{StreamExt, TryStreamExt};
use io::sim::{CallKind, Fault, FaultError, ImageKind, SimDisk};
use pando::aio::{Database, Scan, Snapshot, Transaction};
use pando::{Durability, ErrorKind, Table, TransactionOptions};
use std::collections::BTreeMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// A database on the disk with one table.
fn database() -> (tempfile::TempDir, Database, Table) {
    let dir = tempfile::tempdir().unwrap();
    let db = pando::Database::create(dir.path()).unwrap();
    let table = db.ensure_table("t").unwrap();
    (dir, Database::new(db).unwrap(), table)
}

/// Polls once.
fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Waits until `holds`, for at most ten seconds.
fn eventually(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..10_000 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("{what} did not happen within ten seconds");
}

#[test]
fn futures_and_handles_can_be_sent_and_shared() {
    fn send<T: Send>(value: T) -> T {
        value
    }
    fn shared<T: Send + Sync>() {}
    shared::<Database>();
    shared::<Snapshot>();
    fn sent<T: Send>() {}
    sent::<Transaction>();
    sent::<Scan>();
    let (_dir, db, table) = database();
    block_on(send(async {
        let mut tx = db.begin().await?;
        tx.put(&table, b"k", b"1").await?;
        tx.commit().await?;
        let snapshot = db.snapshot()?;
        assert_eq!(snapshot.get(&table, b"k").await?.as_deref(), Some(&b"1"[..]));
        let table = &table;
        db.transact(|mut tx| async move {
            let value = tx.get(table, b"k").await?;
            tx.put(table, b"l", value.unwrap()).await
        })
        .await
    }))
    .unwrap();
}

#[test]
fn a_commit_waits_without_a_thread_and_is_durable_and_visible() {
    let (dir, db, table) = database();
    block_on(async {
        let commits = (0..2000u32).map(|n| {
            let (db, table) = (db.clone(), table.clone());
            async move { db.put(&table, n.to_be_bytes(), b"v").await }
        });
        join_all(commits).await.into_iter().for_each(|done| done.unwrap());
        // All were applied before the first one was awaited: few flushes serve them.
        let flushes = db.blocking().stats().unwrap().log_flushes;
        assert!(flushes < 200, "{flushes} flushes for 2000 commits");
        assert_eq!(db.blocking().snapshot().unwrap().range(&table, ..).unwrap().count(), 2000);
    });
    // What was acknowledged is in the files: a copy of them, as a killed process leaves them, has all of it.
    let copy = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    let copied = pando::Database::open(copy.path()).unwrap();
    let table = copied.ensure_table("t").unwrap();
    assert_eq!(copied.snapshot().unwrap().range(&table, ..).unwrap().count(), 2000);
}

#[test]
fn reads_of_memory_complete_at_the_first_poll() {
    let (_dir, db, table) = database();
    db.blocking().put(&table, b"k", b"v").unwrap();
    let snapshot = db.snapshot().unwrap();
    let found = Poll::Ready(Some(b"v".to_vec()));
    assert_eq!(poll(pin!(db.get(&table, b"k"))).map(Result::unwrap), found);
    assert_eq!(poll(pin!(snapshot.get(&table, b"k"))).map(Result::unwrap), found);
    assert_eq!(poll(pin!(snapshot.get(&table, b"other"))).map(Result::unwrap), Poll::Ready(None));
    let Poll::Ready(Ok(mut tx)) = poll(pin!(db.begin())) else { panic!("beginning waits for nothing") };
    assert_eq!(poll(pin!(tx.get(&table, b"k"))).map(Result::unwrap), found);
    assert!(poll(pin!(tx.put(&table, b"k", b"own"))).is_ready());
    assert_eq!(poll(pin!(tx.get(&table, b"k"))).map(Result::unwrap), Poll::Ready(Some(b"own".to_vec())));
    assert!(poll(pin!(tx.delete(&table, b"k"))).is_ready());
    assert_eq!(poll(pin!(tx.get(&table, b"k"))).map(Result::unwrap), Poll::Ready(None));
    tx.abort();
    // A commit that needs no flush, while no other one waits for a flush, does not wait, either.
    let buffered = TransactionOptions { durability: Durability::Buffered, ..Default::default() };
    let Poll::Ready(Ok(mut tx)) = poll(pin!(db.begin_with(&buffered))) else { panic!("as above") };
    assert!(poll(pin!(tx.put(&table, b"k", b"w"))).is_ready());
    assert!(matches!(poll(pin!(tx.commit())), Poll::Ready(Ok(_))));
}

#[test]
fn reads_that_miss_the_cache_are_read_by_the_pool() {
    let dir = tempfile::tempdir().unwrap();
    let db = pando::Database::builder().memory_bytes(64 << 20).create(dir.path()).unwrap();
    let table = db.ensure_table("t").unwrap();
    db.bulk_load(&table, (0..200_000u32).map(|n| Ok((n.to_be_bytes(), [7; 200])))).unwrap();
    db.checkpoint().unwrap();
    drop(db);
    let db = pando::Database::builder().memory_bytes(64 << 20).open(dir.path()).unwrap();
    let table = db.snapshot().unwrap().table("t").unwrap().unwrap();
    let db = Database::with_threads(db, 3).unwrap();
    // While no thread of the pool is free, such a read waits. Otherwise it might be completed before it is polled.
    let (go, gone) = std::sync::mpsc::channel::<()>();
    let gone = Arc::new(std::sync::Mutex::new(gone));
    let mut busy = [(); 3].map(|()| {
        let gone = Arc::clone(&gone);
        Box::pin(db.run(move |_| {
            gone.lock().unwrap().recv().unwrap();
            Ok(())
        }))
    });
    assert!(busy.iter_mut().all(|work| poll(work.as_mut()).is_pending()));
    let mut read = pin!(db.get(&table, 77u32.to_be_bytes()));
    assert!(poll(read.as_mut()).is_pending(), "nothing was read yet");
    (0..3).for_each(|_| go.send(()).unwrap());
    assert_eq!(block_on(read).unwrap(), Some(vec![7; 200]));
    block_on(async {
        let snapshot = db.snapshot().unwrap();
        let mut tx = db.begin().await.unwrap();
        let gets = (0..500u32).map(|n| snapshot.get(&table, (n * 397).to_be_bytes()));
        for value in join_all(gets).await {
            assert_eq!(value.unwrap(), Some(vec![7; 200]));
        }
        assert_eq!(tx.get(&table, 199_999u32.to_be_bytes()).await.unwrap(), Some(vec![7; 200]));
        assert_eq!(tx.get(&table, 200_000u32.to_be_bytes()).await.unwrap(), None);
        // The reads of both kinds are in the read set.
        db.put(&table, 200_000u32.to_be_bytes(), b"new").await.unwrap();
        tx.put(&table, b"other", b"").await.unwrap();
        assert_eq!(tx.commit().await.unwrap_err().kind(), ErrorKind::Conflict);
    });
}

#[test]
fn a_resident_read_of_a_transaction_is_validated() {
    let (_dir, db, table) = database();
    block_on(async {
        let mut first = db.begin().await.unwrap();
        assert_eq!(first.get(&table, b"k").await.unwrap(), None);
        first.put(&table, b"l", b"").await.unwrap();
        db.put(&table, b"k", b"v").await.unwrap();
        assert_eq!(first.commit().await.unwrap_err().kind(), ErrorKind::Conflict);
    });
}

#[test]
fn tasks_that_change_one_key_lose_no_change() {
    let (_dir, db, table) = database();
    let attempts = Arc::new(AtomicUsize::new(0));
    block_on(async {
        let tasks = (0..200).map(|_| {
            let (db, table, attempts) = (&db, &table, &attempts);
            async move {
                db.transact(|mut tx| async move {
                    attempts.fetch_add(1, Ordering::SeqCst);
                    let value = tx.get(table, b"sum").await?.unwrap_or_else(|| vec![0; 8]);
                    // Another task runs here, so that there are conflicts.
                    pending_once().await;
                    let sum = u64::from_be_bytes(value.try_into().unwrap()) + 1;
                    tx.put(table, b"sum", sum.to_be_bytes()).await
                })
                .await
            }
        });
        let conflicts = join_all(tasks).await.into_iter().filter(Result::is_err).count();
        assert!(attempts.load(Ordering::SeqCst) > 200, "no attempt was repeated");
        let sum = db.get(&table, b"sum").await.unwrap().unwrap();
        assert_eq!(u64::from_be_bytes(sum.try_into().unwrap()), 200 - conflicts as u64);
        assert!(conflicts < 100, "{conflicts} of 200 tasks gave up");
    });
}

/// Lets other tasks run once.
async fn pending_once() {
    let mut polled = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut polled, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[test]
fn the_error_of_the_work_rolls_back() {
    let (_dir, db, table) = database();
    block_on(async {
        let table = &table;
        let failed = db
            .transact(|mut tx| async move {
                tx.put(table, b"k", b"v").await?;
                Err::<(), _>(pando::Error::new(ErrorKind::Invalid, "no"))
            })
            .await;
        assert_eq!(failed.unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(db.get(table, b"k").await.unwrap(), None);
    });
}

#[test]
fn a_dropped_commit_is_flushed_and_becomes_visible() {
    let (_dir, db, table) = database();
    // Polled once and dropped: it is in the log. On a quick disk it may even be done.
    let _ = poll(pin!(db.put(&table, b"polled", b"")));
    // Never polled: it is not made.
    drop(db.put(&table, b"not polled", b""));
    let sees = |key: &[u8]| db.blocking().get(&table, key).unwrap().is_some();
    eventually("the flush of a dropped commit", || sees(b"polled"));
    assert!(!sees(b"not polled"));
}

#[test]
fn long_transactions_are_made_by_the_pool_and_are_atomic_when_dropped() {
    let (_dir, db, table) = database();
    let part = |n: u32, part: u32| [n.to_be_bytes(), part.to_be_bytes()].concat();
    for n in 0..60u32 {
        let mut put = pin!(async {
            let mut tx = db.begin().await?;
            for at in 0..4 {
                tx.put(&table, part(n, at), vec![n as u8; 20_000]).await?;
            }
            tx.commit().await
        });
        // Dropped after some polls: early, in the middle, or when it may be done.
        for _ in 0..n {
            if poll(put.as_mut()).is_ready() {
                break;
            }
            std::thread::sleep(Duration::from_micros(100));
        }
    }
    std::thread::sleep(Duration::from_millis(200));
    let snapshot = db.blocking().snapshot().unwrap();
    let mut made = BTreeMap::new();
    for record in snapshot.range(&table, ..).unwrap() {
        let (key, value) = record.unwrap();
        let n = u32::from_be_bytes(key[..4].try_into().unwrap());
        assert_eq!(value, vec![n as u8; 20_000]);
        *made.entry(n).or_insert(0) += 1;
    }
    assert!(made.values().all(|parts| *parts == 4), "{made:?}");
    assert!(made.len() < 60, "the first one was never polled");
}

#[test]
fn a_transaction_whose_call_was_dropped_on_a_thread_is_rolled_back() {
    let (_dir, db, table) = database();
    block_on(async {
        let mut tx = db.begin().await.unwrap();
        tx.put(&table, b"k", b"v").await.unwrap();
        let (go, gone) = std::sync::mpsc::channel::<()>();
        {
            let mut run = pin!(tx.run(move |_| {
                gone.recv().ok();
                Ok(())
            }));
            assert!(poll(run.as_mut()).is_pending());
        }
        go.send(()).unwrap();
        assert_eq!(tx.get(&table, b"k").await.unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(tx.put(&table, b"k", b"w").await.unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(tx.commit().await.unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(db.get(&table, b"k").await.unwrap(), None);
    });
    eventually("the end of the dropped transaction", || db.blocking().readers().unwrap().is_empty());
}

#[test]
fn scans_are_bounded_batches_of_one_snapshot() {
    let (_dir, db, table) = database();
    let key = |n: u32| n.to_be_bytes();
    db.blocking().bulk_load(&table, (0..3000u32).map(|n| Ok((key(n), vec![1; 100])))).unwrap();
    db.blocking().put(&table, key(1500), vec![2; 100_000]).unwrap();
    block_on(async {
        let scan = db.scan(&table, key(10)..key(2990)).unwrap().with_limits(100, 50_000);
        db.put(&table, key(20), b"later").await.unwrap();
        let batches: Vec<_> = scan.try_collect().await.unwrap();
        assert!(batches.iter().all(|batch| batch.len() <= 100));
        assert!(batches.iter().any(|batch| batch.len() == 1 && batch[0].1.len() == 100_000));
        let records: Vec<_> = batches.into_iter().flatten().collect();
        assert_eq!(
            records.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>(),
            (10..2990).map(|n| key(n).to_vec()).collect::<Vec<_>>()
        );
        assert_eq!(records[10].1, vec![1; 100], "the scan's snapshot is older than the put");
        // A dropped call of `next_batch` loses no record.
        let mut scan = db.snapshot().unwrap().scan(&table, ..).unwrap();
        let mut count = 0;
        loop {
            let _ = poll(pin!(scan.next_batch()))
                .map(|batch| count += batch.unwrap().map_or(0, |batch| batch.len()));
            match scan.next_batch().await.unwrap() {
                Some(batch) => count += batch.len(),
                None => break,
            }
        }
        assert_eq!(count, 3000);
        assert_eq!(db.scan(&table, key(5000)..).unwrap().next().await.map(Result::unwrap), None);
    });
}

#[test]
fn a_panic_reaches_the_task_and_leaves_the_pool_usable() {
    let (_dir, db, table) = database();
    let db = Database::with_threads(db.blocking().clone(), 1).unwrap();
    let panicked = std::panic::catch_unwind(AssertUnwindSafe(|| {
        block_on(db.run(|_| -> pando::Result<()> { panic!("on purpose") }))
    }));
    assert_eq!(*panicked.unwrap_err().downcast::<&str>().unwrap(), "on purpose");
    block_on(db.run(move |db| db.put(&table, b"k", b"v"))).unwrap();
}

#[test]
fn a_pool_has_at_most_its_threads() {
    let (_dir, db, _table) = database();
    let db = Database::with_threads(db.blocking().clone(), 3).unwrap();
    let (present, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let works = (0..30).map(|_| {
        let (present, most) = (Arc::clone(&present), Arc::clone(&most));
        db.run(move |_| {
            most.fetch_max(present.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(2));
            present.fetch_sub(1, Ordering::SeqCst);
            Ok(())
        })
    });
    block_on(join_all(works)).into_iter().for_each(|done| done.unwrap());
    assert_eq!(most.load(Ordering::SeqCst), 3);
    for threads in [0, 1025] {
        let refused = Database::with_threads(db.blocking().clone(), threads).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid);
    }
}

#[test]
fn work_that_is_dropped_before_it_began_is_not_done() {
    let (_dir, db, table) = database();
    let db = Database::with_threads(db.blocking().clone(), 1).unwrap();
    let (go, gone) = std::sync::mpsc::channel::<()>();
    let mut first = pin!(db.run(move |_| Ok(gone.recv().ok())));
    assert!(poll(first.as_mut()).is_pending());
    {
        let table = table.clone();
        assert!(poll(pin!(db.run(move |db| db.put(&table, b"k", b"")))).is_pending());
    }
    go.send(()).unwrap();
    block_on(first).unwrap();
    block_on(db.run(|_| Ok(()))).unwrap();
    assert_eq!(db.blocking().get(&table, b"k").unwrap(), None);
}

#[test]
fn a_commit_waits_at_the_gate_of_another_writer_without_the_task() {
    let (_dir, db, table) = database();
    // One that conflicts until it holds the gate. While it does, the commits of tasks wait on the pool.
    let (mut rounds, other) = (0, db.clone());
    db.blocking()
        .write(|tx| {
            rounds += 1;
            tx.get(&table, b"contested")?;
            tx.put(&table, b"mine", b"")?;
            let mut put = Box::pin(other.put(&table, b"contested", b""));
            if rounds < 8 {
                block_on(put).unwrap();
            } else {
                assert!(poll(put.as_mut()).is_pending(), "the gate is held");
            }
            Ok(())
        })
        .unwrap();
    assert_eq!(rounds, 8);
}

#[test]
fn what_was_acknowledged_survives_a_power_loss() {
    let disk = SimDisk::new();
    let small = || pando::Database::builder().memory_bytes(8 << 20).page_bytes(4096);
    let db = small().create_in(disk.dir()).unwrap();
    let table = db.ensure_table("t").unwrap();
    let db = Database::new(db).unwrap();
    let puts = (0..50u32).map(|n| db.put(&table, n.to_be_bytes(), b"v"));
    block_on(join_all(puts)).into_iter().for_each(|done| done.unwrap());
    let mut random = Random::seeded(7);
    for image in disk.images_now(&ImageKind::all(8), &mut random) {
        let recovered = small().create_in(image.restore().dir()).unwrap();
        let table = recovered.ensure_table("t").unwrap();
        assert_eq!(recovered.snapshot().unwrap().range(&table, ..).unwrap().count(), 50);
    }
}

#[test]
fn a_failed_flush_is_reported_to_every_commit_that_waited_for_it() {
    let disk = SimDisk::new();
    let small = pando::Database::builder().memory_bytes(8 << 20).page_bytes(4096);
    let db = small.create_in(disk.dir()).unwrap();
    let table = db.ensure_table("t").unwrap();
    let db = Database::new(db).unwrap();
    block_on(db.put(&table, b"before", b"")).unwrap();
    // A file that is made ready in the background may meet the fault instead of a flush: that stops nothing.
    let mut round = 0u32;
    let failed = loop {
        disk.inject(Fault { call: CallKind::Sync, nth: 1, sticky: false, error: FaultError::Io });
        let puts = (0..10u32).map(|n| db.put(&table, [round.to_be_bytes(), n.to_be_bytes()].concat(), b""));
        let failed: Vec<_> = block_on(join_all(puts)).into_iter().filter_map(Result::err).collect();
        if !failed.is_empty() {
            break failed;
        }
        round += 1;
        assert!(round < 50, "no flush meets the fault");
    };
    // Those that were applied are in doubt; those that came after the failure were refused.
    let count = |kind| failed.iter().filter(|error| error.kind() == kind).count();
    let (in_doubt, refused) = (count(ErrorKind::Indeterminate), count(ErrorKind::Latched));
    assert!(in_doubt > 0 && in_doubt + refused == failed.len(), "{failed:?}");
    assert_eq!(block_on(db.put(&table, b"after", b"")).unwrap_err().kind(), ErrorKind::Latched);
    assert_eq!(block_on(db.get(&table, b"before")).unwrap(), Some(vec![]), "reads go on");
}

#[test]
fn closing_completes_what_waits_and_refuses_the_rest() {
    let (_dir, db, table) = database();
    let mut put = Box::pin(db.put(&table, b"k", b"v"));
    let polled = poll(put.as_mut());
    db.blocking().close().unwrap();
    match polled {
        Poll::Ready(done) => done.unwrap(),
        Poll::Pending => block_on(put).unwrap(),
    }
    assert_eq!(block_on(db.put(&table, b"k", b"w")).unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(block_on(db.get(&table, b"k")).unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn the_last_handle_closes_the_database() {
    let (dir, db, table) = database();
    block_on(db.put(&table, b"k", b"v")).unwrap();
    drop(db);
    let again = pando::Database::open(dir.path()).expect("the lock is free");
    assert_eq!(again.get(&again.ensure_table("t").unwrap(), b"k").unwrap(), Some(b"v".to_vec()));
}

#[test]
fn a_task_is_woken_once_for_its_commit() {
    struct Counting(AtomicUsize);
    impl Wake for Counting {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let (_dir, db, table) = database();
    let wakes = Arc::new(Counting(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&wakes));
    let mut waits = 0;
    for _ in 0..20 {
        let mut put = pin!(db.put(&table, b"k", b"v"));
        // On a quick disk it may be done at the first poll.
        if put.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            waits += 1;
            eventually("the wake-up", || wakes.0.load(Ordering::SeqCst) == waits);
            assert!(matches!(put.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Ready(Ok(()))));
        }
    }
    assert_eq!(wakes.0.load(Ordering::SeqCst), waits);
}

#[test]
fn a_waker_that_panics_does_not_end_the_thread_that_waits_for_the_disk() {
    struct Panics(AtomicUsize);
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
            panic!("the program's own");
        }
    }
    let (_dir, db, table) = database();
    let panics = Arc::new(Panics(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&panics));
    let mut waits = 0;
    for _ in 0..20 {
        let mut put = pin!(db.put(&table, b"k", b"v"));
        // On a quick disk it may be done at the first poll.
        if put.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            waits += 1;
            eventually("the wake-up", || panics.0.load(Ordering::SeqCst) == waits);
            assert!(matches!(put.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Ready(Ok(()))));
        }
    }
    assert!(waits > 0, "no commit waited for the disk");
    db.blocking().check_writes().unwrap();
    block_on(db.put(&table, b"after", b"v")).unwrap();
}

#[test]
fn it_works_in_tokio_too() {
    let (_dir, db, table) = database();
    for threads in [1, 4] {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(async {
            let tasks: Vec<_> = (0..500u32)
                .map(|n| {
                    let (db, table) = (db.clone(), table.clone());
                    tokio::spawn(async move {
                        let key = n.to_be_bytes();
                        let table = &table;
                        db.transact(|mut tx| async move {
                            let value = tx.get(table, key).await?.map_or(0, |value| value[0]);
                            tx.put(table, key, [value + 1]).await
                        })
                        .await
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap().unwrap();
            }
            let timed = tokio::time::timeout(Duration::from_nanos(1), db.put(&table, b"timed", b"")).await;
            drop(timed);
        });
    }
    let values = db.blocking().snapshot().unwrap();
    let count = values
        .range(&table, ..500u32.to_be_bytes())
        .unwrap()
        .filter(|record| record.as_ref().is_ok_and(|(_, value)| value == &[2]));
    assert_eq!(count.count(), 500);
}

#[test]
fn the_example_measures_commits_and_lateness() {
    let dir = tempfile::tempdir().unwrap();
    let asked = async_commits::Asked { tasks: 300, part: Duration::from_millis(300) };
    let (_, ratio) = async_commits::measure(dir.path(), asked).unwrap();
    assert!(ratio > 0.0);
}
