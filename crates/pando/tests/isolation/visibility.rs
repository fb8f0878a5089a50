//! What a power loss could still take back is shown to nobody who did not ask for it: with `Sync`, `Buffered` and
//! `Lazy` commits mixed and the flush held up, snapshots stay before the first `Sync` commit that waits for it,
//! transactions go on from the newest commit, and whatever rests on the unsynced one is acknowledged after it.

use crate::histories::{Outcome, options};
use base::Result;
use base::sync::lock;
use io::{Dir, File, Lock, LogMap, MemDir};
use pando::{Database, Durability, Isolation, Table};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// A door that syncs go through.
#[derive(Debug, Default)]
struct Door {
    /// Whether it is shut, and how many wait before it.
    state: Mutex<(bool, usize)>,
    changed: Condvar,
}

impl Door {
    fn shut(&self, shut: bool) {
        lock(&self.state).0 = shut;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let mut state = lock(&self.state);
        state.1 += 1;
        self.changed.notify_all();
        while state.0 {
            state = self.changed.wait(state).unwrap();
        }
        state.1 -= 1;
    }

    fn wait_for_someone(&self) {
        let mut state = lock(&self.state);
        while state.1 == 0 {
            state = self.changed.wait(state).unwrap();
        }
    }
}

/// Opens the door when the test ends, however it ends: waiting threads are let through.
struct Opens<'a>(&'a Door);

impl Drop for Opens<'_> {
    fn drop(&mut self) {
        self.0.shut(false);
    }
}

/// A directory in memory, every file's syncs behind one door.
#[derive(Debug)]
struct Slow {
    dir: MemDir,
    door: Arc<Door>,
}

#[derive(Debug)]
struct SlowFile {
    file: Arc<dyn File>,
    door: Arc<Door>,
}

impl Slow {
    fn behind_door(&self, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(SlowFile { file, door: Arc::clone(&self.door) })
    }
}

impl Dir for Slow {
    fn create(&self, name: &str) -> Result<Arc<dyn File>> {
        self.dir.create(name).map(|file| self.behind_door(file))
    }
    fn open(&self, name: &str) -> Result<Arc<dyn File>> {
        self.dir.open(name).map(|file| self.behind_door(file))
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

impl File for SlowFile {
    fn name(&self) -> &str {
        self.file.name()
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
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
        self.door.pass();
        self.file.sync()
    }
    fn map(&self, len: u64) -> Result<Option<Arc<dyn LogMap>>> {
        self.file.map(len)
    }
    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.file.discard(offset, len)
    }
}

fn commit(db: &Database, table: &Table, key: &str, durability: Durability) -> Outcome {
    let mut tx = db.begin_with(&options(Isolation::Serializable, durability))?;
    tx.put(table, key.as_bytes(), b"")?;
    tx.commit().map(drop)
}

fn keys(records: pando::Result<pando::Range<'_>>) -> String {
    records.unwrap().map(|record| String::from_utf8(record.unwrap().0).unwrap()).collect()
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < end, "waited in vain until {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn nothing_that_may_vanish_is_shown_or_acknowledged() -> Outcome {
    for sealed_between in [false, true] {
        let door = Arc::new(Door::default());
        let dir = Arc::new(Slow { dir: MemDir::new(), door: Arc::clone(&door) });
        // The longest interval, so that no `Lazy` commit asks for a flush of its own.
        let builder =
            Database::builder().page_bytes(4096).memory_bytes(8 << 20).lazy_interval(Duration::from_secs(60));
        let records = if sealed_between { 2 } else { 1000 };
        let db = builder.checkpoint_records(records).create_in(dir)?;
        let table = db.ensure_table("t")?;
        commit(&db, &table, "a", Durability::Buffered)?;
        assert_eq!(keys(db.snapshot()?.range(&table, ..)), "a", "no Sync commit waits: shown at once");
        db.checkpoint()?;

        door.shut(true);
        let applied = || keys(db.begin().unwrap().range(&table, ..));
        thread::scope(|scope| {
            let opens = Opens(&door);
            let sync = scope.spawn(|| commit(&db, &table, "b", Durability::Sync));
            wait_until("the Sync commit is applied", || applied() == "ab");
            door.wait_for_someone();
            let buffered = scope.spawn(|| commit(&db, &table, "c", Durability::Buffered));
            wait_until("the Buffered commit is applied", || applied() == "abc");
            let lazy = scope.spawn(|| commit(&db, &table, "d", Durability::Lazy));
            wait_until("the Lazy commit is applied", || applied() == "abcd");
            let reads = scope.spawn(|| {
                let tx = db.begin()?;
                let found = keys(tx.range(&table, ..));
                tx.commit().map(|_| found)
            });
            assert!(db.would_wait(Durability::Buffered, 1) && db.would_wait(Durability::Lazy, 1));
            thread::sleep(Duration::from_millis(30));
            assert_eq!(keys(db.snapshot().unwrap().range(&table, ..)), "a", "shown before its flush");
            let ended = [sync.is_finished(), buffered.is_finished(), lazy.is_finished(), reads.is_finished()];
            assert_eq!(ended, [false; 4], "acknowledged before the flush that it rests on");
            drop(opens);
            sync.join().unwrap()?;
            buffered.join().unwrap()?;
            lazy.join().unwrap()?;
            assert_eq!(reads.join().unwrap()?, "abcd");
            Outcome::Ok(())
        })?;
        assert_eq!(keys(db.snapshot()?.range(&table, ..)), "abcd");
        if !sealed_between {
            wait_until("nothing holds writers", || !db.would_wait(Durability::Buffered, 1));
        }
        db.close()?;
    }
    Ok(())
}
