//! How far a pool grows beyond its share: as far as pages come back, and not for those that do not.
#![cfg(not(any(loom, shuttle)))]

use crate::common::Fixture;
use base::budget::Need;
use base::env::Random;

const LIMIT: usize = 4 << 20;
const SHARE: usize = 2 << 20;

/// A pool with a share of half its limit, over `pages` pages of 4 KiB; and a way to read them.
fn with_pages(pages: usize, test: impl FnOnce(&Fixture, &mut dyn FnMut(usize) -> u64)) {
    let fixture = Fixture::with_share(4096, LIMIT, SHARE);
    let ptrs = fixture.write_all(pages as u64);
    fixture.with_reader(|reader| {
        let mut read = |index: usize| fixture.read(reader, ptrs[index]).expect("the page is there").0;
        test(&fixture, &mut read);
    });
}

/// Reads at random until the pool has a chunk more; answers how many pages that took.
fn until_it_grows(
    fixture: &Fixture,
    pages: u64,
    random: &mut Random,
    read: &mut dyn FnMut(usize) -> u64,
) -> u64 {
    let (frames, faults) = (fixture.pool.stats().frames, fixture.pool.stats().faults);
    while fixture.pool.stats().frames == frames {
        let index = random.below(pages) as usize;
        assert_eq!(read(index), index as u64 + 1);
        assert!(fixture.pool.stats().faults < faults + 1_000_000, "it never grows");
    }
    fixture.pool.stats().faults - faults
}

#[test]
fn pages_that_come_back_are_worth_more_than_the_share() {
    with_pages(850, |fixture, read| {
        let mut random = Random::seeded(1);
        (0..100_000).for_each(|_| _ = read(random.below(850) as usize));
        let grown = fixture.pool.stats();
        assert!(grown.bytes > SHARE + (SHARE >> 1) && grown.bytes <= LIMIT, "{grown:?}");
        (0..10_000).for_each(|_| _ = read(random.below(850) as usize));
        assert_eq!(fixture.pool.stats().faults, grown.faults, "all of them are there");
    });
}

#[test]
fn pages_that_are_read_once_are_not() {
    with_pages(3000, |fixture, read| {
        (0..4).for_each(|_| (0..3000).for_each(|index| _ = read(index)));
        let stats = fixture.pool.stats();
        let chunk_bytes = LIMIT / 32;
        assert!((SHARE - chunk_bytes..SHARE + 2 * chunk_bytes).contains(&stats.bytes), "{stats:?}");
    });
}

#[test]
fn what_was_taken_back_is_bought_dearly() {
    with_pages(2000, |fixture, read| {
        let mut random = Random::seeded(2);
        (0..20_000).for_each(|_| _ = read(random.below(2000) as usize));
        let full = fixture.pool.stats();
        assert!(full.bytes > SHARE + (SHARE >> 1), "{full:?}");
        let price = |fixture: &Fixture, random: &mut Random, read: &mut dyn FnMut(usize) -> u64| {
            let before = fixture.pool.stats().bytes;
            let _ = fixture.pool.give(1, Need::Must);
            let given = before - fixture.pool.stats().bytes;
            assert!(given >= SHARE / 16, "looked at all frames for {given} bytes");
            // What still fits into frames that are vacant is no price.
            until_it_grows(fixture, 2000, random, read)
        };
        price(fixture, &mut random, read);
        let second = price(fixture, &mut random, read);
        (0..4).for_each(|_| _ = price(fixture, &mut random, read));
        let seventh = price(fixture, &mut random, read);
        assert!(seventh > 3 * second, "at second {second} faults, then {seventh}");
    });
}
