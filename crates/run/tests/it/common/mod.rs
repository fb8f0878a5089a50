//! A file in memory with a space map and a pool, and the checks that every test makes after a checkpoint.
#![allow(dead_code, reason = "each test binary uses its part")]

use base::budget::Account;
use base::slots::{Reader, Slots};
use base::{CheckpointNo, DatabaseId, PagePtr, Result, limits};
use io::{Dir, File, MemDir};
use page::{EditCounters, Value};
use pando_run::{CheckReport, Cursor, Editor, Run, read_large};
use pool::Pool;
use space::{Extent, Space};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

pub const DATABASE: DatabaseId = DatabaseId(77);
const RESERVED_UNITS: u64 = 2;

pub type Model = BTreeMap<Vec<u8>, Vec<u8>>;

pub struct Bed {
    pub file: Arc<dyn File>,
    pub slots: Arc<Slots>,
    reader: Reader,
    pub pool: Pool,
    pub space: Mutex<Space>,
    pub birth: CheckpointNo,
    /// Whether editors compress leaves.
    pub compresses: bool,
    /// Of all sessions together.
    pub counters: EditCounters,
}

impl Bed {
    pub fn new(page_bytes: usize) -> Bed {
        Bed::with_pool(page_bytes, 64 << 20)
    }

    pub fn with_pool(page_bytes: usize, pool_bytes: usize) -> Bed {
        let file = MemDir::new().create("data").unwrap();
        let slots = Arc::new(Slots::new());
        let reader = slots.claim().unwrap();
        let pool = new_pool(&file, page_bytes, pool_bytes, &slots);
        let space = Mutex::new(Space::create(file.clone(), DATABASE, RESERVED_UNITS));
        let (birth, counters) = (CheckpointNo(0), EditCounters::default());
        Bed { file, slots, reader, pool, space, birth, compresses: false, counters }
    }

    /// Forgets all that is cached.
    pub fn cool(&mut self) {
        self.pool = new_pool(&self.file, self.pool.page_bytes(), 64 << 20, &self.slots);
    }

    pub fn read<T>(&self, body: impl FnOnce(&Pool, &Reader) -> T) -> T {
        body(&self.pool, &self.reader)
    }

    /// One editing session at the next checkpoint, not saved yet.
    pub fn edit(&mut self, run: Run, dirty_limit_bytes: usize, body: impl FnOnce(&mut Editor<'_>)) -> Run {
        self.try_edit(run, dirty_limit_bytes, |editor| {
            body(editor);
            Ok(())
        })
        .unwrap()
    }

    pub fn try_edit(
        &mut self,
        run: Run,
        dirty_limit_bytes: usize,
        body: impl FnOnce(&mut Editor<'_>) -> Result<()>,
    ) -> Result<Run> {
        self.birth.0 += 1;
        let mut editor =
            Editor::open(run, &self.pool, &self.reader, &self.space, self.birth, dirty_limit_bytes);
        if self.compresses {
            editor = editor.compressing_leaves();
        }
        body(&mut editor)?;
        let (run, counters) = editor.finish()?;
        self.counters.splits += counters.splits;
        self.counters.merges += counters.merges;
        self.counters.borrows += counters.borrows;
        Ok(run)
    }

    /// Saves the space map, releases what the checkpoint retired, and checks that exactly the runs' extents are
    /// in use: nothing leaked, nothing used twice.
    pub fn checkpoint(&mut self, runs: &[Run]) {
        let space = self.space.get_mut().unwrap();
        space.save(self.birth).unwrap();
        space.release(self.birth, &[]);
        let mut extents = Vec::new();
        for run in runs {
            let found = run.check(&self.pool, &mut |ptr: PagePtr| {
                extents.push(Extent { unit: ptr.unit(), units: ptr.units() });
                Ok(())
            });
            let found = found.unwrap();
            assert_eq!((found.leaves, found.saved_units), (run.leaves, run.saved_units));
        }
        let report = space.check(extents);
        assert!(report.is_clean(), "{report:?}");
    }

    /// Compares all of `run` with `model`, by cursor both ways and by get.
    pub fn verify(&self, run: &Run, model: &Model) -> CheckReport {
        self.read(|pool, reader| {
            let mut cursor = Cursor::new(*run);
            let mut on = cursor.seek_first(pool, reader).unwrap();
            for (key, value) in model {
                assert!(on, "the scan ended before {key:x?}");
                let (found, stored) = cursor.entry().unwrap();
                assert_eq!((found, &copy(pool, stored)), (&key[..], value));
                on = cursor.next(pool, reader).unwrap();
            }
            assert!(!on, "the scan went beyond the end");
            let mut on = cursor.seek_last(pool, reader).unwrap();
            for key in model.keys().rev() {
                assert!(on);
                assert_eq!(cursor.entry().unwrap().0, &key[..]);
                on = cursor.prev(pool, reader).unwrap();
            }
            assert!(!on);
            for (key, value) in model.iter().step_by(1 + model.len() / 50) {
                assert_eq!(get(run, pool, reader, key).as_ref(), Some(value));
            }
        });
        let report = run.check(&self.pool, &mut |_| Ok(())).unwrap();
        assert_eq!((report.records, report.leaves), (model.len() as u64, run.leaves));
        let bytes: usize = model.iter().map(|(key, value)| key.len() + value.len()).sum();
        assert_eq!(report.bytes, bytes as u64);
        report
    }
}

fn new_pool(file: &Arc<dyn File>, page_bytes: usize, pool_bytes: usize, slots: &Arc<Slots>) -> Pool {
    let budget = Account::alone(256 << 20);
    Pool::new(file.clone(), DATABASE, page_bytes, budget, pool_bytes, slots.clone())
}

pub fn copy(pool: &Pool, value: Value<'_>) -> Vec<u8> {
    match value {
        Value::Inline(bytes) => bytes.to_vec(),
        Value::Large(large) => {
            let value = read_large(pool, large.reference()).unwrap();
            assert_eq!(large.beginning(), &value[..limits::beginning_bytes(value.len() as u64)]);
            value
        }
        Value::Deleted => panic!("a delete where there can be none"),
    }
}

pub fn get(run: &Run, pool: &Pool, reader: &Reader, key: &[u8]) -> Option<Vec<u8>> {
    let mut guard = reader.enter();
    let record = run.get(pool, &mut guard, key).unwrap().map(|leaf| leaf.pin());
    drop(guard);
    record.map(|record| copy(pool, record.value()))
}
