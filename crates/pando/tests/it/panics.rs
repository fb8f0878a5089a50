//! Code of the caller's that panics, wherever the engine calls it, costs that call alone. A panic of the engine's own
//! threads stops all writing, and says so.

use crate::support::{dir_of, small};
use base::Result;
use io::{Dir, File, Lock, LogMap, MemDir};
use pando::{Database, Durability, ErrorKind, TableOptions, TransactionOptions};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

fn wait_until(what: &str, mut reached: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !reached() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what} never came");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs what has to panic.
fn panics<T>(what: &str, work: impl FnOnce() -> T) {
    assert!(catch_unwind(AssertUnwindSafe(work)).is_err(), "{what} does not panic");
}

/// That the database does all that it did, and that nothing was lost of its room.
fn check_whole(db: &Database, what: &str) {
    let table = db.ensure_table("after").unwrap();
    for durability in [Durability::Sync, Durability::Buffered, Durability::Lazy] {
        let mut tx = db.begin_with(&TransactionOptions { durability, ..db.transaction_options() }).unwrap();
        tx.put(&table, what.as_bytes(), b"goes on").unwrap();
        tx.commit().unwrap();
    }
    let commit = db.stats().unwrap().last_commit;
    wait_until("the lazy flush", || db.stats().unwrap().visible_commit >= commit);
    db.checkpoint().unwrap();
    assert_eq!(db.check().unwrap().orphan_units, 0, "{what}");
    assert_eq!(db.stats().unwrap().readers, 0, "{what}: a reader stays");
}

#[test]
fn a_callback_that_panics_is_called_again_and_lazy_commits_are_flushed() {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let db = small()
        .max_snapshot_age(Duration::from_millis(200))
        .lazy_interval(Duration::from_millis(10))
        .on_long_reader(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            panic!("the caller's own");
        })
        .in_memory()
        .unwrap();
    for round in 1..=3 {
        let before = calls.load(Ordering::SeqCst);
        let snapshot = db.snapshot().unwrap();
        wait_until("the call", || calls.load(Ordering::SeqCst) > before);
        let table = db.ensure_table("t").unwrap();
        wait_until("the expiry", || snapshot.get(&table, b"k").is_err());
        drop(snapshot);
        check_whole(&db, &format!("round {round}"));
    }
    db.close().unwrap();
}

/// The log thread then closes the database, and does not wait for itself.
#[test]
fn a_callback_may_drop_the_last_handle() {
    let last: Arc<std::sync::Mutex<Option<Database>>> = Arc::default();
    let (handle, gone) = (Arc::clone(&last), Arc::new(AtomicBool::new(false)));
    let done = Arc::clone(&gone);
    let db = small()
        .max_snapshot_age(Duration::from_millis(200))
        .on_long_reader(move |_| {
            drop(handle.lock().unwrap().take());
            done.store(true, Ordering::SeqCst);
        })
        .in_memory()
        .unwrap();
    let snapshot = db.snapshot().unwrap();
    *last.lock().unwrap() = Some(db);
    wait_until("the close", || gone.load(Ordering::SeqCst));
    drop(snapshot);
}

/// The log thread is in the function while another thread closes the database and waits for the log thread's end.
#[test]
fn a_callback_may_close_while_another_thread_closes() {
    let last: Arc<std::sync::Mutex<Option<Database>>> = Arc::default();
    let (called, is_called) = std::sync::mpsc::channel();
    let (handle, called) = (Arc::clone(&last), std::sync::Mutex::new(called));
    let db = small()
        .max_snapshot_age(Duration::from_millis(200))
        .on_long_reader(move |_| {
            if let Some(db) = handle.lock().unwrap().take() {
                called.lock().unwrap().send(()).unwrap();
                // Long enough for the other thread to be in its call.
                std::thread::sleep(Duration::from_millis(100));
                db.close().unwrap();
            }
        })
        .in_memory()
        .unwrap();
    *last.lock().unwrap() = Some(db.clone());
    let _snapshot = db.snapshot().unwrap();
    is_called.recv_timeout(Duration::from_secs(60)).expect("the call");
    let (closed, is_closed) = std::sync::mpsc::channel();
    std::thread::spawn(move || closed.send(db.close()));
    is_closed.recv_timeout(Duration::from_secs(60)).expect("the end of the close").unwrap();
}

/// No later commit has to make it visible.
#[test]
fn a_placed_commit_is_finished_although_its_function_panics() {
    let db = small().in_memory().unwrap();
    let table = db.ensure_table("t").unwrap();
    let mut tx = db.begin().unwrap();
    tx.put(&table, b"placed", b"v").unwrap();
    panics("placed", || tx.commit_placed(|_| Ok(()), |(), _| panic!("the caller's own")));
    let stats = db.stats().unwrap();
    assert_eq!(stats.visible_commit, stats.last_commit);
    assert!(db.get(&table, b"placed").unwrap().is_some());
    check_whole(&db, "placed");
}

/// Readers expire as before, although the function of a check has panicked.
#[test]
fn readers_expire_after_a_check_that_panicked() {
    let db = small().max_snapshot_age(Duration::from_millis(200)).in_memory().unwrap();
    let table = db.ensure_table("t").unwrap();
    db.put(&table, b"k", b"v").unwrap();
    db.checkpoint().unwrap();
    panics("a check", || db.check_all(|_| -> () { panic!("the caller's own") }));
    let snapshot = db.snapshot().unwrap();
    wait_until("the expiry", || snapshot.get(&table, b"k").is_err());
}

/// A sink that takes so many bytes.
struct Sink(usize);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).expect("a sink that panics when it is full");
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn closures_iterators_and_sinks_that_panic_cost_their_call_alone() {
    let db = small().lazy_interval(Duration::from_millis(10)).in_memory().unwrap();
    let table = db.ensure_table("t").unwrap();
    let stack = db.create_table("stack", &TableOptions::with_layout(pando::Layout::Lsm)).unwrap();
    for n in 0..3_000_u32 {
        db.put(&table, &n.to_be_bytes(), &[1; 200]).unwrap();
        db.put(&stack, &n.to_be_bytes(), &[1; 200]).unwrap();
    }
    db.checkpoint().unwrap();
    db.delete(&table, &7_u32.to_be_bytes()).unwrap();

    panics("a retry closure", || {
        db.write(|tx| -> pando::Result<()> {
            tx.put(&table, b"never", b"")?;
            panic!("the caller's own")
        })
    });
    assert_eq!(db.get(&table, b"never").unwrap(), None);
    check_whole(&db, "a retry closure");

    // The last attempts hold all other commits back.
    let mut attempts = 0;
    panics("a gated closure", || {
        db.write(|tx| -> pando::Result<()> {
            attempts += 1;
            tx.get(&table, b"contended")?;
            if attempts > 9 {
                panic!("the caller's own, with the gate held");
            }
            db.begin().and_then(|mut other| {
                other.put(&table, b"contended", &[attempts])?;
                other.commit()
            })?;
            tx.put(&table, b"contended", b"mine")
        })
    });
    let other = db.clone();
    let (key, value) = (b"from another thread", b"");
    let of = table.clone();
    std::thread::spawn(move || other.put(&of, key, value).unwrap()).join().unwrap();
    check_whole(&db, "a gated closure");

    panics("get_with", || {
        db.snapshot().unwrap().get_with(&table, &9_u32.to_be_bytes(), |_| panic!("the caller's own"))
    });
    check_whole(&db, "get_with");

    for count in [10, 40_000_u32] {
        let records = (0..).map(|n: u32| {
            assert!(n < count, "an iterator that panics");
            Ok((n.to_be_bytes(), [2; 100]))
        });
        panics("a bulk load's iterator", || db.bulk_load(&table, records));
        check_whole(&db, "a bulk load's iterator");
    }
    // Out of order: it is spilled.
    let records = (0..).map(|n: u32| {
        assert!(n < 60_000, "an iterator that panics");
        Ok((n.wrapping_mul(0x9e37_79b9).to_be_bytes(), [2; 100]))
    });
    panics("a bulk load's iterator", || db.bulk_load(&stack, records));
    check_whole(&db, "a bulk load out of order");

    panics("a check's progress", || db.check_all(|_| -> () { panic!("the caller's own") }));
    check_whole(&db, "a check's progress");
    panics("a compaction's progress", || db.compact(|_| -> () { panic!("the caller's own") }));
    check_whole(&db, "a compaction's progress");
    panics("settle's progress", || {
        db.settle(|| panic!("the caller's own")).unwrap();
        panic!("there may be nothing to settle")
    });
    check_whole(&db, "settle's progress");
    for bytes in [0, 100_000] {
        panics("a backup's sink", || db.backup(pando::BackupOptions::default(), &mut Sink(bytes)));
        check_whole(&db, "a backup's sink");
    }
    assert_eq!(db.stats().unwrap().pinned, 0);
    db.close().unwrap();
}

/// Syncs by the thread that `fails` names panic, and reads as well if it follows a writer.
#[derive(Debug)]
struct Broken {
    dir: MemDir,
    fails: Arc<OnceLock<&'static str>>,
}

#[derive(Debug)]
struct BrokenFile {
    file: Arc<dyn File>,
    fails: Arc<OnceLock<&'static str>>,
}

impl Broken {
    fn broken(&self, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(BrokenFile { file, fails: Arc::clone(&self.fails) })
    }
}

impl Dir for Broken {
    fn create(&self, name: &str) -> Result<Arc<dyn File>> {
        self.dir.create(name).map(|file| self.broken(file))
    }
    fn open(&self, name: &str) -> Result<Arc<dyn File>> {
        self.dir.open(name).map(|file| self.broken(file))
    }
    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.dir.rename(from, to)
    }
    fn remove(&self, name: &str) -> Result<()> {
        self.dir.remove(name)
    }
    fn list(&self) -> Result<Vec<String>> {
        self.dir.list()
    }
    fn sync(&self) -> Result<()> {
        self.dir.sync()
    }
    fn lock(&self, name: &str) -> Result<Box<dyn Lock>> {
        self.dir.lock(name)
    }
    fn lock_existing(&self, name: &str) -> Result<Box<dyn Lock>> {
        self.dir.lock_existing(name)
    }
    fn check_in_place(&self, files: &[&dyn File]) -> Result<()> {
        self.dir.check_in_place(files)
    }
    fn lock_shared(&self, name: &str) -> Result<Box<dyn Lock>> {
        self.dir.lock_shared(name)
    }
    fn describe(&self) -> String {
        self.dir.describe()
    }
}

impl File for BrokenFile {
    fn name(&self) -> &str {
        self.file.name()
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let follows = self.fails.get().is_some_and(|fails| *fails == FOLLOW);
        assert!(!follows || std::thread::current().name() != Some(FOLLOW), "a file that panics");
        self.file.read_at(buffer, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.file.write_at(bytes, offset)
    }
    fn len(&self) -> Result<u64> {
        self.file.len()
    }
    fn id(&self) -> Result<io::FileId> {
        self.file.id()
    }
    fn set_len(&self, len: u64) -> Result<()> {
        self.file.set_len(len)
    }
    fn allocate_at(&self, offset: u64, len: u64) -> Result<bool> {
        self.file.allocate_at(offset, len)
    }
    fn sync(&self) -> Result<()> {
        let fails = self.fails.get().is_some_and(|fails| std::thread::current().name() == Some(fails));
        assert!(!fails, "a file that panics");
        self.file.sync()
    }
    fn map(&self, len: u64) -> Result<Option<Arc<dyn LogMap>>> {
        let map = self.file.map(len)?;
        let (name, fails) = (self.name().to_owned(), Arc::clone(&self.fails));
        Ok(map.map(|map| Arc::new(BrokenMap { map, name, fails }) as Arc<dyn LogMap>))
    }
    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.file.discard(offset, len)
    }
}

/// The thread of a reader beside a writer.
const FOLLOW: &str = "pando-follow";

#[test]
fn a_panic_of_the_thread_that_follows_a_writer_is_reported() {
    let fails = Arc::new(OnceLock::new());
    let dir = Arc::new(Broken { dir: MemDir::new(), fails: Arc::clone(&fails) });
    let options = store::Options { admits_readers: true, memory_bytes: 8 << 20, ..Default::default() };
    let writer = store::open_or_create(dir.clone(), &options).unwrap();
    let put = |key: &[u8]| {
        let mut tx = store::Transaction::begin(&writer, Default::default()).unwrap();
        let table = match tx.table("t").unwrap() {
            Some(table) => table,
            None => tx.create_table("t", Default::default()).unwrap(),
        };
        tx.put(&table, key, b"").unwrap();
        writer.acknowledge(tx.apply().unwrap()).unwrap();
    };
    put(b"before");
    let reader = small().read_only(true).open_in(dir).unwrap();
    assert!(reader.is_beside_writer());
    fails.set(FOLLOW).unwrap();
    put(b"after");
    wait_until("the report", || {
        put(b"more");
        reader.catch_up().is_err_and(|error| {
            assert_eq!(error.kind(), ErrorKind::Latched, "{error}");
            assert!(error.to_string().contains(FOLLOW) && error.to_string().contains("a file that panics"));
            true
        })
    });
    let there = reader.snapshot().unwrap().table("t").unwrap().unwrap();
    assert!(reader.get(&there, b"before").unwrap().is_some(), "reads go on");
    reader.close().unwrap();
    writer.close().unwrap();
}

#[derive(Debug)]
struct BrokenMap {
    map: Arc<dyn LogMap>,
    name: String,
    fails: Arc<OnceLock<&'static str>>,
}

/// A commit that panics where it shows readers how far they may read: after its append.
const COMMIT: &str = "commit";
/// Whether it is about to.
static IS_ABOUT_TO: AtomicBool = AtomicBool::new(false);

impl LogMap for BrokenMap {
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        if self.name == "visible" && self.fails.get() == Some(&COMMIT) {
            IS_ABOUT_TO.store(true, Ordering::SeqCst);
            // Another commit comes to wait for the commit lock.
            std::thread::sleep(Duration::from_millis(100));
            panic!("a map that panics");
        }
        self.map.write(offset, bytes)
    }
}

/// Memory may have only a part of that commit, and a checkpoint would drop its record.
#[test]
fn a_panic_after_the_append_stops_all_writing() {
    let fails = Arc::new(OnceLock::new());
    let dir = Arc::new(Broken { dir: MemDir::new(), fails: Arc::clone(&fails) });
    let options = store::Options { admits_readers: true, memory_bytes: 8 << 20, ..Default::default() };
    let db = store::open_or_create(dir.clone(), &options).unwrap();
    let durability = Durability::Buffered;
    let begin = || {
        let options = store::TransactionOptions { durability, ..Default::default() };
        store::Transaction::begin(&db, options)
    };
    let mut tx = begin().unwrap();
    let table = tx.create_table("t", Default::default()).unwrap();
    db.acknowledge(tx.apply().unwrap()).unwrap();
    let put = |key: &[u8]| {
        let mut tx = begin()?;
        tx.put(&table, key, b"")?;
        db.acknowledge(tx.apply()?).map(drop)
    };
    put(b"before").unwrap();
    fails.set(COMMIT).unwrap();
    let waiting = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            wait_until("the panic", || IS_ABOUT_TO.load(Ordering::SeqCst));
            put(b"waiting").unwrap_err()
        });
        panics("the commit", || put(b"half"));
        waiting.join().unwrap()
    });
    let (later, checkpoint) = (put(b"later").unwrap_err(), db.checkpoint().unwrap_err());
    for refused in [waiting, later, checkpoint, db.close().unwrap_err()] {
        assert_eq!(refused.kind(), ErrorKind::Latched, "{refused}");
        assert!(refused.to_string().contains("panicked after"), "{refused}");
    }
    let db = store::open(dir_of(&dir.dir.files()), &options).unwrap();
    let snapshot = db.snapshot().unwrap();
    let has = |key: &[u8]| snapshot.get(&table, key).unwrap().is_some();
    assert_eq!((has(b"before"), has(b"half"), has(b"waiting")), (true, true, false));
}

/// A bug in a worker is no reason to go on without it: memory would fill up, lazy commits would never be flushed.
#[test]
fn a_worker_that_panics_stops_all_writing_and_says_so() {
    for thread in ["pando-checkpoint", "pando-log"] {
        let fails = Arc::new(OnceLock::new());
        let dir = Broken { dir: MemDir::new(), fails: Arc::clone(&fails) };
        let db = small().lazy_interval(Duration::from_millis(10)).create_in(Arc::new(dir)).unwrap();
        let table = db.ensure_table("t").unwrap();
        db.put(&table, b"before", b"").unwrap();
        fails.set(thread).unwrap();
        let is_log = thread == "pando-log";
        let durability = if is_log { Durability::Lazy } else { Durability::Buffered };
        let put = |n: u32| {
            let mut tx = db.begin_with(&TransactionOptions { durability, ..db.transaction_options() })?;
            tx.put(&table, &n.to_be_bytes(), &[0; 1000])?;
            tx.commit().map(drop)
        };
        let mut refused = None;
        wait_until("the refusal", || {
            refused = (0..if is_log { 1 } else { 100 }).find_map(|n| put(n).err());
            refused.is_some()
        });
        let refused = refused.unwrap();
        assert_eq!(refused.kind(), ErrorKind::Latched, "{refused}");
        let said = format!("{refused} {refused:?}");
        assert!(said.contains(thread) && said.contains("a file that panics"), "{said}");
        assert!(db.get(&table, b"before").unwrap().is_some(), "reads go on");
        assert_eq!(db.close().unwrap_err().kind(), ErrorKind::Latched, "closing says so, too");
    }
}
