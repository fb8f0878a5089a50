//! Memory that a pool gives back: the pages used least go, what is read stays right, and the books agree.
#![cfg(not(any(loom, shuttle)))]

use crate::common::{Fixture, content};
use base::budget::{Given, Need};
use base::env::Random;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn giving_takes_the_least_used_chunks_and_growing_takes_their_places() {
    let fixture = Fixture::new(4096, 1 << 20);
    let budget = fixture.budget.clone();
    let ptrs = fixture.write_all(600);
    fixture.with_reader(|reader| {
        for round in 0..4 {
            (1..).zip(&ptrs).for_each(|(n, &ptr)| assert_eq!(fixture.read(reader, ptr).unwrap(), (n, 0)));
            let full = fixture.pool.stats();
            assert!(full.frames > 200, "{full:?}");
            let Given::Bytes(given) = fixture.pool.give(300 << 10, Need::Must) else {
                panic!("nobody looks")
            };
            let left = fixture.pool.stats();
            assert!((300 << 10..400 << 10).contains(&given), "{given}");
            assert_eq!((left.bytes, budget.held().total()), (full.bytes - given, full.bytes - given));
            assert!(left.frames < full.frames && left.pages <= left.frames, "round {round}: {left:?}");
        }
        let Given::Bytes(_) = fixture.pool.give(usize::MAX, Need::Must) else { panic!("nobody looks") };
        let last = fixture.pool.stats();
        assert_eq!(last.frames, (1 << 20) / 16 / 4096, "one chunk: a read needs no overdraft");
        assert_eq!(fixture.pool.give(usize::MAX, Need::Must), Given::Bytes(0));
        let Given::Bytes(_) = fixture.pool.give(usize::MAX, Need::All) else { panic!("nobody looks") };
        let none = fixture.pool.stats();
        assert_eq!((none.frames, none.pages), (0, 0));
        assert!(none.bytes < 32 << 10, "the table and the directory stay: {none:?}");
        assert_eq!(fixture.read(reader, ptrs[7]).unwrap(), (8, 0));
    });
}

#[test]
fn what_is_used_is_spared_by_a_wish() {
    let fixture = Fixture::new(4096, 1 << 20);
    let ptrs = fixture.write_all(100);
    fixture.with_reader(|reader| {
        let read_all = || ptrs.iter().for_each(|&ptr| assert!(fixture.read(reader, ptr).is_ok()));
        (0..3).for_each(|_| read_all());
        assert_eq!(fixture.pool.give(1, Need::Wish), Given::Bytes(0), "all pages were used");
        for _ in 0..20 {
            read_all();
            assert_eq!(fixture.pool.give(1, Need::Wish), Given::Bytes(0), "and are used again");
        }
        let given = (0..20).filter(|_| fixture.pool.give(1, Need::Wish) != Given::Bytes(0)).count();
        assert!(given > 0, "what was not used since the last wish goes");
        assert!(fixture.pool.stats().frames > 0, "but not the last chunk");
    });
}

#[test]
fn readers_see_their_pages_while_memory_is_given_back() {
    for seed in 0..4 {
        let fixture = Fixture::new(4096, 512 << 10);
        let ptrs = fixture.write_all(300);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (fixture, ptrs, stop) = (&fixture, &ptrs, &stop);
                scope.spawn(move || {
                    let mut random = Random::seeded(seed * 10 + thread);
                    let mut pins = Vec::new();
                    fixture.with_reader(|reader| {
                        while !stop.load(Ordering::SeqCst) {
                            let n = random.below(300);
                            let pin = fixture.pool.pin(reader, ptrs[n as usize]).unwrap();
                            assert_eq!(content(pin.page()), (n + 1, 0), "seed {seed}");
                            if random.chance(1, 20) {
                                pins.push((n, pin));
                            }
                            if pins.len() > 4 {
                                let (n, pin) = pins.swap_remove(0);
                                assert_eq!(content(pin.page()), (n + 1, 0), "seed {seed}: under a pin");
                            }
                        }
                    });
                });
            }
            // It decides when the readers stop: under load they may all be through before it has begun.
            scope.spawn(|| {
                let mut random = Random::seeded(seed);
                let mut gifts = 0;
                while gifts < 300 || fixture.pool.stats().given_chunks == 0 {
                    let bytes = random.below(200 << 10) as usize;
                    let _ = fixture.pool.give(bytes, Need::Must);
                    gifts += 1;
                    std::thread::yield_now();
                }
                stop.store(true, Ordering::SeqCst);
            });
        });
        let stats = fixture.pool.stats();
        assert!(stats.given_chunks > 0, "seed {seed}: {stats:?}");
        assert_eq!(fixture.budget.held().total(), stats.bytes, "seed {seed}: {stats:?}");
        let budget = fixture.budget.clone();
        drop(fixture);
        assert_eq!(budget.held().total(), 0, "seed {seed}");
    }
}
