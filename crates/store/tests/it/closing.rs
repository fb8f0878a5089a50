//! Closing waits for what other threads write at that moment: after that, the files may belong to another process.

use base::{ErrorKind, Result};
use io::{Dir, File, FileId, Lock, LogMap, MemDir};
use pando_store::{Options, RequestedLayout, Store, Transaction, TransactionOptions};
use std::fmt;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

type Call = Box<dyn FnOnce() + Send>;

/// A call that is made before the next change of a file whose name begins in some way.
#[derive(Clone, Default)]
struct Watch(Arc<Mutex<Option<(&'static str, Call)>>>);

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a watch")
    }
}

impl Watch {
    fn look(&self, name: &str) {
        let call = self.0.lock().unwrap().take_if(|(prefix, _)| name.starts_with(*prefix));
        call.into_iter().for_each(|(_, call)| call());
    }

    /// Lets another thread close `store` when a file whose name begins with `prefix` is changed next. The result is
    /// whether it had closed it before the change, and the thread.
    fn close_before(&self, prefix: &'static str, store: &Arc<Store>) -> Receiver<Closing> {
        let (send, closing) = mpsc::channel();
        let store = Arc::clone(store);
        let call = move || {
            let thread = thread::spawn(move || store.close());
            thread::sleep(Duration::from_millis(200));
            send.send((thread.is_finished(), thread)).unwrap();
        };
        *self.0.lock().unwrap() = Some((prefix, Box::new(call)));
        closing
    }
}

type Closing = (bool, JoinHandle<Result<()>>);

/// Checks that the store was closed, and only after the change.
fn check(closing: &Receiver<Closing>) -> Result<()> {
    let (was_closed, thread) = closing.try_recv().expect("a file was changed");
    assert!(!was_closed, "another process may have opened the database before the file was changed");
    thread.join().unwrap()
}

#[derive(Debug, Default)]
struct Watched {
    dir: MemDir,
    watch: Watch,
}

impl Dir for Watched {
    fn create(&self, name: &str) -> Result<Arc<dyn File>> {
        Ok(Arc::new(WatchedFile { file: self.dir.create(name)?, watch: self.watch.clone() }))
    }
    fn open(&self, name: &str) -> Result<Arc<dyn File>> {
        Ok(Arc::new(WatchedFile { file: self.dir.open(name)?, watch: self.watch.clone() }))
    }
    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.watch.look(to);
        self.dir.rename(from, to)
    }
    fn remove(&self, name: &str) -> Result<()> {
        self.watch.look(name);
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
    fn lock_shared(&self, name: &str) -> Result<Box<dyn Lock>> {
        self.dir.lock_shared(name)
    }
    fn check_in_place(&self, files: &[&dyn File]) -> Result<()> {
        self.dir.check_in_place(files)
    }
    fn describe(&self) -> String {
        self.dir.describe()
    }
}

#[derive(Debug)]
struct WatchedFile {
    file: Arc<dyn File>,
    watch: Watch,
}

impl File for WatchedFile {
    fn name(&self) -> &str {
        self.file.name()
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.file.read_at(buffer, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.watch.look(self.name());
        self.file.write_at(bytes, offset)
    }
    fn len(&self) -> Result<u64> {
        self.file.len()
    }
    fn id(&self) -> Result<FileId> {
        self.file.id()
    }
    fn set_len(&self, len: u64) -> Result<()> {
        self.file.set_len(len)
    }
    fn allocate_at(&self, offset: u64, len: u64) -> Result<bool> {
        self.file.allocate_at(offset, len)
    }
    fn sync(&self) -> Result<()> {
        self.file.sync()
    }
    fn map(&self, len: u64) -> Result<Option<Arc<dyn LogMap>>> {
        self.file.map(len)
    }
    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.file.discard(offset, len)
    }
}

fn open(dir: &Arc<Watched>) -> Result<Arc<Store>> {
    let options = Options { page_bytes: Some(4096), memory_bytes: 4 << 20, ..Options::default() };
    pando_store::open_or_create(Arc::clone(dir) as Arc<dyn Dir>, &options)
}

fn write<T>(store: &Arc<Store>, work: impl FnOnce(&mut Transaction) -> Result<T>) -> Result<T> {
    let mut tx = Transaction::begin(store, TransactionOptions::default())?;
    let done = work(&mut tx)?;
    store.acknowledge(tx.apply()?)?;
    Ok(done)
}

/// The next owner of the directory may have moved a consumer on, and an older position must not replace the newer one.
#[test]
fn closing_waits_for_the_file_of_a_consumer() -> Result<()> {
    type Change = fn(&Arc<Store>) -> Result<()>;
    let acknowledge: Change = |store| store.consumer("a")?.acknowledge(3);
    let make: Change = |store| store.consumer("b").map(drop);
    let drop_it: Change = |store| store.drop_consumer("a");
    let found = [(acknowledge, vec![("a", 3)]), (make, vec![("a", 1), ("b", 3)]), (drop_it, vec![])];
    for (change, found) in found {
        let dir = Arc::new(Watched::default());
        let store = open(&dir)?;
        let table = write(&store, |tx| tx.create_table("t", RequestedLayout::BTree))?;
        drop(store.consumer("a")?);
        (0..2_u8).try_for_each(|key| write(&store, |tx| tx.put(&table, &[key], b"")))?;
        let closing = dir.watch.close_before("consumer-", &store);
        // A consumer that was just made cannot be opened any more.
        let changed = change(&store);
        assert!(changed.is_ok() || found.iter().any(|(name, _)| *name == "b"), "{changed:?}");
        check(&closing)?;
        assert_eq!(change(&store).unwrap_err().kind(), ErrorKind::Closed);
        let consumers = open(&dir)?.consumers()?;
        let known: Vec<_> = consumers.iter().map(|known| (&known.name[..], known.position)).collect();
        assert_eq!(known, found);
    }
    Ok(())
}

/// The next owner of the data file may use the same space for its own pages.
#[test]
fn closing_waits_for_the_pages_of_a_bulk_load_and_not_for_its_input() -> Result<()> {
    let dir = Arc::new(Watched::default());
    let store = open(&dir)?;
    let table = write(&store, |tx| tx.create_table("t", RequestedLayout::BTree))?;
    let mut tx = Transaction::begin(&store, TransactionOptions::default())?;
    let closing = dir.watch.close_before("data", &store);
    let records = (0..1_000_000_u32).map(|key| Ok((key.to_be_bytes(), [1; 100])));
    assert_eq!(tx.bulk_load(&table, records).unwrap_err().kind(), ErrorKind::Closed);
    check(&closing)?;
    drop(tx);

    // The input may close the store.
    let store = open(&dir)?;
    let table = store.snapshot()?.table("t")?.expect("it was created");
    let mut tx = Transaction::begin(&store, TransactionOptions::default())?;
    let records = (0..1_000_000_u32).map(|key| {
        if key == 200_000 {
            store.close()?;
        }
        Ok((key.to_be_bytes(), [1; 100]))
    });
    assert_eq!(tx.bulk_load(&table, records).unwrap_err().kind(), ErrorKind::Closed);
    Ok(())
}
