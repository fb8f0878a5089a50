//! Faults against eviction under a model checker's schedules: two frames, four pages, three readers. A page that is
//! held, in an epoch or by a pin, must not change while others fault, evict, forget and replace.
//!
//! `RUSTFLAGS="--cfg shuttle" cargo test -p pando-db-pool --test it`
#![cfg(shuttle)]

use crate::common::{Fixture, content};
use base::budget::Need;
use shuttle::scheduler::RandomScheduler;
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
        let _ = fixture.pool.give(usize::MAX, Need::Must);
        assert_eq!(fixture.pool.stats().frames, 0, "a chunk stayed");
    });
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
