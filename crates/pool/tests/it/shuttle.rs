//! Faults against eviction under a model checker's schedules: two frames, four pages, three readers. A page that is
//! held, in an epoch or by a pin, must not change while others fault, evict, forget and replace.
//!
//! `RUSTFLAGS="--cfg shuttle" cargo test -p pando-db-pool --test it`
#![cfg(shuttle)]

use crate::common::{Fixture, content};
use base::Result;
use base::budget::Need;
use io::{Dir, File, FileId, LogMap, MemDir};
use shuttle::scheduler::RandomScheduler;
use shuttle::sync::atomic::{AtomicU32, Ordering};
use shuttle::{Config, Runner, thread};
use std::sync::Arc;

const PAGE_BYTES: usize = 65536;
const ROUNDS: usize = 2000;
/// A pool that is built and moved unoptimised does not fit the checker's usual 32 KiB.
const STACK_BYTES: usize = 256 << 10;

/// Runs `test` under many schedules.
fn check(test: impl Fn() + Send + Sync + 'static) {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    Runner::new(RandomScheduler::new(ROUNDS), config).run(test);
}

/// Reads `pages` in turn, letting others run while a page is held.
fn reader(fixture: &Fixture, ptrs: &[base::PagePtr], pages: &[usize]) {
    fixture.with_reader(|reader| {
        let mut last = None;
        for &page in pages {
            let expected = (page as u64 + 1, 0);
            let mut guard = reader.enter();
            let held = fixture.pool.read(&mut guard, ptrs[page]).unwrap();
            assert_eq!(content(held.page()), expected);
            thread::yield_now();
            assert_eq!(content(held.page()), expected, "the page changed inside the epoch");
            if page % 2 == 0 {
                last = Some((held.pin(), expected));
            }
            drop(guard);
            if let Some((pin, expected)) = &last {
                thread::yield_now();
                assert_eq!(content(pin.page()), *expected, "the page changed under a pin");
            }
        }
    });
}

#[test]
fn readers_see_their_pages_whatever_is_evicted() {
    check(|| {
        let fixture = Arc::new(Fixture::new(PAGE_BYTES, 2 * PAGE_BYTES + 8192));
        let ptrs = Arc::new(fixture.write_all(4));
        let spawn = |pages: &'static [usize]| {
            let (fixture, ptrs) = (fixture.clone(), ptrs.clone());
            thread::spawn(move || reader(&fixture, &ptrs, pages))
        };
        let readers = [spawn(&[0, 1, 0, 3]), spawn(&[1, 2, 1]), spawn(&[3, 1, 0])];
        // Pinned pages are not evicted, so that only this makes their frames wait for their pins.
        for page in [0, 1, 0, 2, 0] {
            fixture.pool.forget(ptrs[page].unit());
            thread::yield_now();
        }
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        assert!(fixture.pool.stats().frames == 2);
    });
}

#[test]
fn readers_see_their_pages_whatever_is_given_back() {
    check(|| {
        let fixture = Arc::new(Fixture::new(PAGE_BYTES, 3 * PAGE_BYTES + 8192));
        let ptrs = Arc::new(fixture.write_all(4));
        let spawn = |pages: &'static [usize]| {
            let (fixture, ptrs) = (fixture.clone(), ptrs.clone());
            thread::spawn(move || reader(&fixture, &ptrs, pages))
        };
        let readers = [spawn(&[0, 1, 0, 3]), spawn(&[1, 2, 1])];
        for _ in 0..4 {
            let _ = fixture.pool.give(PAGE_BYTES, Need::Must);
            thread::yield_now();
        }
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        let _ = fixture.pool.give(usize::MAX, Need::All);
        assert_eq!(fixture.pool.stats().frames, 0, "a chunk stayed");
    });
}

/// A reader that looked at the file's length before the file grew, and notes it late, must not make another reader
/// take the pointer to a new page for a damaged one.
#[test]
fn a_page_at_the_end_of_a_file_that_has_just_grown_is_found() {
    check(|| {
        let inner = MemDir::new().create("data").unwrap();
        let file = Arc::new(Late { inner, looks: AtomicU32::new(0) });
        let fixture = Arc::new(Fixture::over(file.clone(), PAGE_BYTES, 8 << 20, 8 << 20));
        let first = fixture.write(1, 0);
        let before = thread::spawn({
            let fixture = fixture.clone();
            move || fixture.with_reader(|reader| assert_eq!(fixture.read(reader, first).unwrap(), (1, 0)))
        });
        file.wait_for_looks(1);
        let second = fixture.write(2, 0);
        fixture.with_reader(|reader| assert_eq!(fixture.read(reader, second).unwrap(), (2, 0)));
        before.join().unwrap();
    });
}

/// A file whose first call of `len` returns only after the second one has begun.
#[derive(Debug)]
struct Late {
    inner: Arc<dyn File>,
    looks: AtomicU32,
}

impl Late {
    fn wait_for_looks(&self, looks: u32) {
        while self.looks.load(Ordering::SeqCst) < looks {
            thread::yield_now();
        }
    }
}

impl File for Late {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.inner.read_at(buffer, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.inner.write_at(bytes, offset)
    }
    fn len(&self) -> Result<u64> {
        let len = self.inner.len();
        if self.looks.fetch_add(1, Ordering::SeqCst) == 0 {
            self.wait_for_looks(2);
        }
        len
    }
    fn id(&self) -> Result<FileId> {
        self.inner.id()
    }
    fn set_len(&self, len: u64) -> Result<()> {
        self.inner.set_len(len)
    }
    fn allocate_at(&self, offset: u64, len: u64) -> Result<bool> {
        self.inner.allocate_at(offset, len)
    }
    fn sync(&self) -> Result<()> {
        self.inner.sync()
    }
    fn map(&self, len: u64) -> Result<Option<Arc<dyn LogMap>>> {
        self.inner.map(len)
    }
    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.inner.discard(offset, len)
    }
}

#[test]
fn two_faults_of_one_page_read_it_once() {
    check(|| {
        let fixture = Arc::new(Fixture::new(PAGE_BYTES, 8 << 20));
        let ptrs = Arc::new(fixture.write_all(1));
        let readers = [0, 1].map(|_| {
            let (fixture, ptrs) = (fixture.clone(), ptrs.clone());
            thread::spawn(move || reader(&fixture, &ptrs, &[0]))
        });
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        assert_eq!(fixture.pool.stats().faults, 1);
    });
}
