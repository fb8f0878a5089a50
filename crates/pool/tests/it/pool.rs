//! One thread: what a pool costs, finds, refuses and lets go. Then several, on a pool that is much too small.
#![cfg(not(any(loom, shuttle)))]

use crate::common::{DATABASE, Fixture, content};
use base::budget::Need;
use base::env::Random;
use base::{CheckpointNo, ErrorKind, PagePtr, checksum};
use page::{EditCounters, Kind, PageMut};
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn a_pool_grows_with_use_and_keeps_its_limit() {
    let fixture = Fixture::new(4096, 1 << 20);
    assert_eq!(fixture.budget.budget().used_bytes(), 0);
    let ptrs = fixture.write_all(1000);
    fixture.with_reader(|reader| {
        fixture.read(reader, ptrs[0]).unwrap();
        let small = fixture.pool.stats();
        assert!(small.bytes > 0 && small.bytes < 200 << 10, "{small:?}");
        for (n, &ptr) in (1..).zip(&ptrs) {
            assert_eq!(fixture.read(reader, ptr).unwrap(), (n, 0));
            assert!(fixture.pool.stats().bytes <= 1 << 20);
        }
    });
    let stats = fixture.pool.stats();
    assert!(stats.frames > 200 && stats.faults == 1000 && stats.overdraft_bytes == 0, "{stats:?}");
    assert_eq!(fixture.budget.budget().used_bytes(), stats.bytes);
    let budget = fixture.budget.clone();
    drop(fixture);
    assert_eq!(budget.budget().used_bytes(), 0);
}

#[test]
fn a_page_is_loaded_once_and_a_pin_outlives_the_pool() {
    let fixture = Fixture::new(16384, 8 << 20);
    let ptr = fixture.write(1, 0);
    let pin = fixture.with_reader(|reader| {
        (0..10).for_each(|_| assert_eq!(fixture.read(reader, ptr).unwrap(), (1, 0)));
        fixture.pool.pin(reader, ptr).unwrap()
    });
    assert_eq!(fixture.pool.stats().faults, 1);
    drop(fixture);
    assert_eq!(content(pin.clone().page()), (1, 0));
}

#[test]
fn a_bad_page_is_an_error_each_time_and_found_when_mended() {
    let fixture = Fixture::new(4096, 1 << 20);
    let (ptr, bytes) = fixture.build(1, 0);
    let mut bad = bytes.clone();
    bad[4000] ^= 1;
    fixture.file.write_at(&bad, ptr.offset_bytes()).unwrap();
    fixture.with_reader(|reader| {
        for _ in 0..100 {
            assert_eq!(fixture.read(reader, ptr).unwrap_err().kind(), ErrorKind::Corruption);
        }
        assert_eq!(fixture.pool.stats().pages, 0);
        fixture.file.write_at(&bytes, ptr.offset_bytes()).unwrap();
        assert_eq!(fixture.read(reader, ptr).unwrap(), (1, 0));
    });
}

#[test]
fn pointers_that_cannot_be_are_refused_before_anything_is_allocated() {
    let fixture = Fixture::new(4096, 1 << 20);
    fixture.write(1, 0);
    let bad = [PagePtr::new(0, 1, 1), PagePtr::new(2, 1, 1), PagePtr::new(PagePtr::MAX_UNIT, 60_000, 1)];
    let flagged = PagePtr::new(1, 1, 1).with_flags(PagePtr::IN_MEMORY);
    fixture.with_reader(|reader| {
        for ptr in bad.into_iter().chain([flagged, PagePtr::new(1, 0, 1)]) {
            assert_eq!(fixture.read(reader, ptr).unwrap_err().kind(), ErrorKind::Corruption);
            assert!(fixture.pool.read_extent(ptr, 4096).is_err());
        }
    });
    assert_eq!(fixture.pool.stats().bytes, 0);
}

#[test]
fn a_reused_unit_never_shows_the_page_before() {
    let fixture = Fixture::new(4096, 1 << 20);
    let old = fixture.write(1, 0);
    fixture.with_reader(|reader| {
        let pin = fixture.pool.pin(reader, old).unwrap();
        let new = fixture.write(1, 1);
        assert_eq!(fixture.read(reader, new).unwrap(), (1, 1));
        assert_eq!(content(pin.page()), (1, 0));
        assert_eq!(fixture.read(reader, old).unwrap_err().kind(), ErrorKind::Corruption);
        // A failed read of the old pointer does not push out the page that is there.
        let faults = fixture.pool.stats().faults;
        assert_eq!(fixture.read(reader, new).unwrap(), (1, 1));
        assert_eq!(fixture.pool.stats().faults, faults);
    });
}

#[test]
fn admitted_pages_are_found_and_forgotten_ones_are_not() {
    let fixture = Fixture::new(4096, 1 << 20);
    let (ptr, bytes) = fixture.build(1, 0);
    fixture.file.set_len(1 << 20).unwrap();
    fixture.pool.admit(ptr, &bytes);
    fixture.with_reader(|reader| {
        assert_eq!(fixture.read(reader, ptr).unwrap(), (1, 0));
        assert_eq!((fixture.pool.stats().faults, fixture.pool.stats().admitted), (0, 1));
        fixture.pool.forget(ptr.unit());
        fixture.pool.forget(ptr.unit());
        assert!(fixture.read(reader, ptr).is_err(), "it was never written");
    });
}

#[test]
fn for_what_is_offered_no_page_goes() {
    let fixture = Fixture::new(4096, 1 << 20);
    let (first, bytes) = fixture.build(1, 0);
    fixture.file.set_len(8 << 20).unwrap();
    fixture.pool.offer(first, &bytes);
    assert_eq!(fixture.pool.stats().admitted, 1, "there is room");
    let ptrs = fixture.write_all(1000);
    fixture.with_reader(|reader| {
        ptrs.iter().for_each(|&ptr| assert!(fixture.read(reader, ptr).is_ok()));
        let before = fixture.pool.stats();
        assert!(before.evictions > 0, "the pool is full: {before:?}");
        let last = ptrs[999];
        let offer = |n| {
            let (ptr, bytes) = fixture.build(n, 0);
            fixture.pool.offer(ptr, &bytes);
        };
        (1001..1065).for_each(offer);
        let full = fixture.pool.stats();
        assert_eq!(full, before, "what the last eviction left, which comes by the batch, is for misses");
        fixture.pool.forget(last.unit());
        offer(1066);
        assert_eq!(fixture.pool.stats().admitted, full.admitted + 1, "a frame was left");
        (2001..2033).for_each(|n| {
            let (ptr, bytes) = fixture.build(n, 0);
            fixture.pool.admit(ptr, &bytes);
        });
        let more = fixture.pool.stats();
        assert_eq!(more.admitted, full.admitted + 33, "other pages go for those that are admitted");
        assert!(more.evictions > full.evictions, "{more:?}");
    });
}

#[test]
fn when_all_is_pinned_there_is_an_overdraft_and_then_an_error() {
    let fixture = Fixture::new(65536, 8 << 20);
    let ptrs = fixture.write_all(200);
    fixture.with_reader(|reader| {
        let (mut pins, mut refused) = (Vec::new(), None);
        for &ptr in &ptrs {
            match fixture.pool.pin(reader, ptr) {
                Ok(pin) => pins.push(pin),
                Err(error) => {
                    refused = Some(error);
                    break;
                }
            }
        }
        let stats = fixture.pool.stats();
        let refused = refused.unwrap();
        assert!(refused.kind() == ErrorKind::Full && pando_pool::is_exhausted(&refused), "{refused}");
        assert!(stats.bytes <= 8 << 20 && stats.overdraft_bytes == 8 * 65536, "{stats:?}");
        assert_eq!(pins.len(), stats.frames + 8);
        assert!(stats.frames >= 120, "{stats:?}");
        for (n, pin) in (1..).zip(&pins) {
            assert_eq!(content(pin.page()), (n, 0));
        }
        drop(pins);
        assert_eq!(fixture.pool.stats().overdraft_bytes, 0);
        assert_eq!(fixture.read(reader, ptrs[199]).unwrap(), (200, 0));
    });
}

/// Threads that read one page at a time wait for one another's, although all memory has other uses.
#[test]
fn without_frames_of_its_own_calls_take_turns_with_the_overdraft() {
    let fixture = Fixture::new(4096, 0);
    let ptrs = fixture.write_all(64);
    std::thread::scope(|scope| {
        for thread in 0..24 {
            let (fixture, ptrs) = (&fixture, &ptrs);
            scope.spawn(move || {
                fixture.with_reader(|reader| {
                    for round in 0..20 {
                        let at = (round * 7 + thread) % ptrs.len();
                        let pin = fixture.pool.pin(reader, ptrs[at]).unwrap();
                        std::thread::sleep(std::time::Duration::from_micros(100));
                        assert_eq!(content(pin.page()), (at as u64 + 1, 0));
                    }
                });
            });
        }
    });
    assert!(fixture.pool.stats().frames <= 8, "{:?}", fixture.pool.stats());
}

#[test]
fn extents_are_checked_over_their_length() {
    let fixture = Fixture::new(4096, 1 << 20);
    let value = vec![7; 10_000];
    fixture.file.write_at(&value, 5 * 4096).unwrap();
    fixture.file.set_len(8 * 4096).unwrap();
    let ptr = PagePtr::new(5, 3, checksum::extent(DATABASE, 5, &value));
    assert_eq!(fixture.pool.read_extent(ptr, 10_000).unwrap(), value);
    assert_eq!(fixture.pool.read_extent(ptr, 9_999).unwrap_err().kind(), ErrorKind::Corruption);
    assert_eq!(fixture.pool.read_extent(ptr, 4 * 4096).unwrap_err().kind(), ErrorKind::Corruption);
    assert_eq!(fixture.pool.stats().bytes, 0);
}

/// Readers, pinners, an admitter and a forgetter over a pool of a tenth of the pages: whatever is read under a pointer
/// is its page, and memory stays under the limit.
#[test]
fn threads_on_a_tiny_pool_see_the_right_pages() {
    const LIMIT: usize = 256 << 10;
    let fixture = Fixture::new(4096, LIMIT);
    let ptrs = fixture.write_all(500);
    let done = AtomicBool::new(false);
    let work = |seed: u64| {
        fixture.with_reader(|reader| {
            let mut random = Random::seeded(seed);
            let mut pins = Vec::new();
            for _ in 0..20_000 {
                // Half of the reads go to a few pages, so that hits race with evictions.
                let n = if random.chance(1, 2) { random.below(30) } else { random.below(500) };
                let ptr = ptrs[n as usize];
                match random.below(20) {
                    0 if pins.len() < 2 => pins.push((n + 1, fixture.pool.pin(reader, ptr).unwrap())),
                    1 => {
                        if let Some((n, pin)) = pins.pop() {
                            assert_eq!(content(pin.page()), (n, 0));
                        }
                    }
                    2 => fixture.pool.forget(ptr.unit()),
                    3 => fixture.pool.admit(ptr, &fixture.build(n + 1, 0).1),
                    _ => assert_eq!(fixture.read(reader, ptr).unwrap(), (n + 1, 0)),
                }
            }
        });
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4).map(|seed| scope.spawn(move || work(seed))).collect();
        let watcher = scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                let stats = fixture.pool.stats();
                assert!(stats.bytes <= LIMIT && stats.overdraft_bytes <= 8 * 4096, "{stats:?}");
                std::thread::yield_now();
            }
        });
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        done.store(true, Ordering::SeqCst);
        watcher.join().unwrap();
    });
    assert!(fixture.pool.stats().evictions > 1000, "{:?}", fixture.pool.stats());
}

/// Pages whose words share a tag and a cluster of the table are distinguished: the first is not all that is looked at.
#[test]
fn pages_at_scattered_places_are_all_found() {
    for seed in 0..6 {
        let (fixture, mut random) = (Fixture::new(4096, 8 << 20), Random::seeded(seed));
        let places: std::collections::BTreeSet<u64> = (0..1000).map(|_| 1 + random.below(6000)).collect();
        let ptrs: Vec<_> = places.iter().map(|&place| fixture.write(place, 0)).collect();
        fixture.with_reader(|reader| {
            for _ in 0..3 {
                for (&place, &ptr) in places.iter().zip(&ptrs) {
                    assert_eq!(fixture.read(reader, ptr).unwrap(), (place, 0), "seed {seed}");
                }
            }
        });
        assert_eq!(fixture.pool.stats().faults, places.len() as u64, "seed {seed}");
    }
}

/// Writes a page over `children` behind all of them.
fn write_parent(fixture: &Fixture, n: u64, children: &[PagePtr]) -> PagePtr {
    let units = (fixture.page_bytes / 4096) as u64;
    let mut bytes = vec![0; fixture.page_bytes];
    let mut inner = PageMut::init(&mut bytes, Kind::Inner, 1, CheckpointNo(1));
    for (at, &child) in children.iter().enumerate() {
        let key = if at == 0 { vec![] } else { (at as u64).to_be_bytes().to_vec() };
        inner.insert_child(at, &key, child, &mut EditCounters::default()).unwrap();
    }
    let checksum = inner.seal(DATABASE, n * units);
    let ptr = PagePtr::new(n * units, units, checksum);
    fixture.file.write_at(&bytes, ptr.offset_bytes()).unwrap();
    ptr
}

#[test]
fn a_child_is_the_right_one_whatever_its_hint_says() {
    // 30 parents of 4 children each, through a pool that holds a fifth of them: frames and hints change hands.
    let fixture = Fixture::new(4096, 1 << 18);
    let children = fixture.write_all(120);
    let over = |(i, four): (usize, &[PagePtr])| write_parent(&fixture, 200 + i as u64, four);
    let parents: Vec<PagePtr> = children.chunks(4).enumerate().map(over).collect();
    let mut random = Random::seeded(5);
    fixture.with_reader(|reader| {
        for step in 0..5000 {
            let (which, at) = (random.below(30) as usize, random.below(4) as usize);
            let mut guard = reader.enter();
            let parent = fixture.pool.read(&mut guard, parents[which]).unwrap();
            let hints = fixture.pool.hints(&parent);
            hints.near(at);
            let (hint, ptr) = (hints.of_child(at), parent.page().child(at));
            let child = fixture.pool.read_hinted(&mut guard, ptr, hint).unwrap();
            assert_eq!(content(child.page()), (4 * which as u64 + at as u64 + 1, 0));
            // Nor do children that no page has.
            let wrong = fixture.pool.hints(&child).of_child(at);
            drop(child);
            drop(fixture.pool.read_hinted(&mut guard, parents[which], wrong).unwrap());
            drop(guard);
            if step % 100 == 0 {
                fixture.pool.forget(parents[random.below(30) as usize].unit());
                fixture.pool.give(1 << 16, Need::Must);
            }
        }
    });
    assert!(fixture.pool.stats().evictions > 100, "{:?}", fixture.pool.stats());
    assert_eq!(fixture.budget.held().total(), fixture.pool.stats().bytes);
}

#[test]
fn what_was_freed_leaves_its_frames_to_what_comes() {
    let fixture = Fixture::new(16 << 10, 32 << 20);
    let is_freed = |n: u64| (21..61).contains(&n) || (101..181).contains(&n);
    // Few units of many frames, and more of them than there are frames: what is behind the file is nobody's.
    for nobodys in [4, 4000] {
        let ptrs = fixture.write_all(1000);
        fixture.with_reader(|reader| {
            ptrs.iter().for_each(|&ptr| assert!(fixture.read(reader, ptr).is_ok()));
            let before = fixture.pool.stats();
            assert_eq!(before.pages, 1000);
            let few = [21 * 4..61 * 4, 101 * 4..105 * 4, 105 * 4..181 * 4, 1 << 30..(1 << 30) + nobodys];
            fixture.pool.forget_all(&few);
            assert_eq!(fixture.pool.stats().pages, 880);
            // New pages at other places take these frames; the others' pages are still there.
            for n in 2001..2121 {
                let (ptr, bytes) = fixture.build(n, 1);
                fixture.pool.admit(ptr, &bytes);
            }
            let after = fixture.pool.stats();
            assert_eq!((after.pages, after.frames, after.evictions), (1000, before.frames, 0));
            let kept = (1..).zip(&ptrs).filter(|(n, _)| !is_freed(*n));
            kept.for_each(|(n, &ptr)| assert_eq!(fixture.read(reader, ptr).unwrap(), (n, 0)));
            assert_eq!(fixture.pool.stats().faults, after.faults);
            assert_eq!(fixture.read(reader, ptrs[20]).unwrap(), (21, 0), "what was forgotten is read again");
            fixture.pool.forget_all(&[0..1 << 20, 1 << 20..1 << 40]);
            assert_eq!(fixture.pool.stats().pages, 0);
        });
    }
}
