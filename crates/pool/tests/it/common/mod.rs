//! Pages whose content says where they belong, and a pool over a file of them.
#![allow(dead_code)]

use base::budget::Account;
use base::slots::{Reader, Slots};
use base::{CheckpointNo, DatabaseId, PagePtr};
use io::{Dir, File, MemDir};
use page::{EditCounters, Kind, Page, PageMut, Value};
use pando_pool::Pool;
use std::sync::Arc;

pub const DATABASE: DatabaseId = DatabaseId(3);

/// A file with pages, a pool, and the slots of its readers.
pub struct Fixture {
    pub file: Arc<dyn File>,
    pub pool: Pool,
    pub slots: Arc<Slots>,
    pub budget: Arc<Account>,
    pub page_bytes: usize,
}

impl Fixture {
    pub fn new(page_bytes: usize, limit_bytes: usize) -> Fixture {
        Fixture::with_share(page_bytes, limit_bytes, limit_bytes)
    }

    pub fn with_share(page_bytes: usize, limit_bytes: usize, share_bytes: usize) -> Fixture {
        Fixture::over(MemDir::new().create("data").unwrap(), page_bytes, limit_bytes, share_bytes)
    }

    pub fn over(file: Arc<dyn File>, page_bytes: usize, limit_bytes: usize, share_bytes: usize) -> Fixture {
        let slots = Arc::new(Slots::new());
        let budget = Account::alone(1 << 30);
        let pool = Pool::new(file.clone(), DATABASE, page_bytes, budget.clone(), limit_bytes, slots.clone())
            .with_share(share_bytes);
        Fixture { file, pool, slots, budget, page_bytes }
    }

    /// The bytes of page number `n` (from 1 on), distinguished from earlier ones at that place by `version`.
    pub fn build(&self, n: u64, version: u64) -> (PagePtr, Vec<u8>) {
        let units = (self.page_bytes / 4096) as u64;
        let mut bytes = vec![0; self.page_bytes];
        let mut leaf = PageMut::init(&mut bytes, Kind::Leaf, 0, CheckpointNo(version + 1));
        let value = Value::Inline(&version.to_be_bytes());
        leaf.insert(0, &n.to_be_bytes(), value, &mut EditCounters::default()).unwrap();
        let checksum = leaf.seal(DATABASE, n * units);
        (PagePtr::new(n * units, units, checksum), bytes)
    }

    pub fn write(&self, n: u64, version: u64) -> PagePtr {
        let (ptr, bytes) = self.build(n, version);
        self.file.write_at(&bytes, ptr.offset_bytes()).unwrap();
        ptr
    }

    pub fn write_all(&self, count: u64) -> Vec<PagePtr> {
        (1..=count).map(|n| self.write(n, 0)).collect()
    }

    /// Runs `work` as a reader with a slot of its own.
    pub fn with_reader<T>(&self, work: impl FnOnce(&Reader) -> T) -> T {
        work(&self.slots.claim().unwrap())
    }

    pub fn read(&self, reader: &Reader, ptr: PagePtr) -> base::Result<(u64, u64)> {
        Ok(content(self.pool.read(&mut reader.enter(), ptr)?.page()))
    }
}

/// Number and version of a page, as its content says.
pub fn content(page: Page<'_>) -> (u64, u64) {
    let mut key = Vec::new();
    page.copy_key(0, &mut key);
    let Value::Inline(version) = page.value(0) else { panic!("no large values here") };
    let number = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().expect("8 bytes"));
    (number(&key), number(version))
}
