//! What a damaged or forged map does to `load`, and how little room a small one takes.

use crate::common::{Recorder, trim};
use base::{CheckpointNo, DatabaseId, ErrorKind, PagePtr, checksum};
use io::File;
use pando_space::{Extent, Space, SpaceRoot};
use std::sync::Arc;

const DATABASE: DatabaseId = DatabaseId(5);

fn saved(units: u64) -> (Arc<Recorder>, SpaceRoot) {
    let file = Recorder::new();
    let mut space = Space::create(file.clone(), DATABASE, 2);
    let mut left = units;
    while left > 0 {
        let some = left.min(30_000);
        space.allocate(some).unwrap();
        left -= some;
    }
    let root = space.save(CheckpointNo(1)).unwrap();
    (file, root)
}

fn refused(file: &Arc<Recorder>, root: &SpaceRoot) -> String {
    let error = Space::load(file.clone(), DATABASE, 2, root).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    error.message().to_owned()
}

/// Puts `bytes` at `unit` with a checksum that fits.
fn forge(file: &Arc<Recorder>, unit: u64, bytes: &[u8]) -> PagePtr {
    file.write_at(bytes, unit * 4096).unwrap();
    PagePtr::new(unit, bytes.len() as u64 / 4096, checksum::extent(DATABASE, unit, bytes))
}

#[test]
fn a_small_map_takes_one_unit() {
    let (file, root) = saved(4);
    assert_eq!(file.take_written(), [6]);
    assert_eq!(file.len().unwrap(), 7 * 4096);
    assert_eq!(root, SpaceRoot { map: root.map, units: 7 });
}

#[test]
fn every_flipped_bit_of_the_written_map_is_found() {
    for units in [10, 40_000] {
        let (file, root) = saved(units);
        for unit in file.take_written() {
            for at in [0, 1, 17, 511, 4095] {
                let mut byte = [0];
                file.read_exact_at(&mut byte, unit * 4096 + at).unwrap();
                file.write_at(&[byte[0] ^ 8], unit * 4096 + at).unwrap();
                refused(&file, &root);
                file.write_at(&byte, unit * 4096 + at).unwrap();
            }
        }
        Space::load(file, DATABASE, 2, &root).unwrap();
    }
}

#[test]
fn roots_that_cannot_be_are_refused() {
    let (file, root) = saved(10);
    let map = root.map.unwrap();
    for units in [0, 1, root.units - 1, 32_769, 1 << 40, u64::MAX] {
        refused(&file, &SpaceRoot { units, ..root });
    }
    for (unit, units) in
        [(0, 1), (1, 1), (map.unit() + 1, 1), (map.unit(), 0), (map.unit(), 60_000), (1 << 39, 1)]
    {
        let map = Some(PagePtr::new(unit, units, map.checksum()));
        refused(&file, &SpaceRoot { map, ..root });
    }
    refused(&file, &SpaceRoot { map: None, ..root });
    assert!(Space::load(file, DatabaseId(6), 2, &root).is_err(), "a map of another database");
}

#[test]
fn forged_maps_are_refused() {
    let (file, root) = saved(10);
    file.set_len(64 * 4096).unwrap();
    let all_free = forge(&file, 20, &[0; 4096]);
    assert!(refused(&file, &SpaceRoot { map: Some(all_free), ..root }).contains("free"));
    let all_used = forge(&file, 20, &[0xff; 4096]);
    assert!(refused(&file, &SpaceRoot { map: Some(all_used), units: 32_768 }).contains("in use"));

    let mut chunk = [0; 4096];
    chunk[..8].copy_from_slice(&[0xff; 8]);
    let chunk = forge(&file, 21, &chunk);
    let mut directory = vec![0; 4096];
    directory[..16].copy_from_slice(&chunk.encode());
    directory[16..32].copy_from_slice(&chunk.encode());
    let twice = forge(&file, 22, &directory);
    assert!(refused(&file, &SpaceRoot { map: Some(twice), units: 40_000 }).contains("two chunks"));
    directory[32] = 1;
    let longer = forge(&file, 22, &directory);
    assert!(refused(&file, &SpaceRoot { map: Some(longer), units: 40_000 }).contains("entries"));
}

#[test]
fn a_file_cut_short_is_refused() {
    let (file, root) = saved(10);
    file.set_len(11 * 4096).unwrap();
    refused(&file, &root);
}

#[test]
fn growth_that_fails_changes_nothing() {
    let file = Recorder::new();
    let mut space = Space::create(file.clone(), DATABASE, 2);
    let unit = space.allocate(3).unwrap();
    let before = space.stats();
    file.allow(Some(0));
    assert_eq!(space.allocate(4).unwrap_err().kind(), ErrorKind::Full);
    file.allow(None);
    assert_eq!(space.stats(), before);
    assert!(space.check([Extent { unit, units: 3 }]).is_clean());
    assert_eq!(space.allocate(4).unwrap(), unit + 3);
}

#[test]
fn neighbours_are_handed_out_in_order_and_holes_are_found_again() {
    let mut space = Space::create(Recorder::new(), DATABASE, 2);
    let pages: Vec<u64> = (0..1000).map(|_| space.allocate(4).unwrap()).collect();
    assert!(pages.windows(2).all(|pair| pair[0] + 4 == pair[1]));
    pages.iter().step_by(2).for_each(|&unit| space.free_unused(unit, 4));
    let total = space.stats().total_units;
    while space.stats().free_units >= 8 {
        if space.allocate(4).unwrap() >= total {
            break;
        }
    }
    let file_grew = space.stats().total_units > total;
    assert!(!file_grew || space.stats().used_units >= 4000, "{:?}", space.stats());
}

#[test]
fn check_names_what_is_wrong() {
    let mut space = Space::create(Recorder::new(), DATABASE, 2);
    let (a, b) = (space.allocate(4).unwrap(), space.allocate(4).unwrap());
    let extent = |unit| Extent { unit, units: 4 };
    space.free_unused(b, 4);
    let lost = space.allocate(1).unwrap();
    let report = space.check([extent(a), extent(a), extent(b + 4), extent(1 << 30)]);
    assert_eq!(report.overlapping, [extent(a)]);
    assert_eq!(report.outside.len() + report.unprotected.len(), 2);
    assert!(report.unreachable.contains(&Extent { unit: lost, units: 1 }));
}

#[test]
fn a_trim_gives_back_the_end_of_the_file() {
    let file = Recorder::new();
    let mut space = Space::create(file.clone(), DATABASE, 2);
    let (low, high) = (space.allocate(4).unwrap(), space.allocate(40_000).unwrap());
    let first = space.save(CheckpointNo(1)).unwrap();
    space.retire(PagePtr::new(high, 40_000, 0), CheckpointNo(2)).unwrap();
    let second = space.save(CheckpointNo(2)).unwrap();
    space.release(CheckpointNo(2), &[]);
    let before = file.len().unwrap();
    trim(&mut space, 0);
    // The second map lies at the end, so another save must bring it to the front before the file can shrink.
    let keep = space.allocate(4).unwrap();
    let third = space.save(CheckpointNo(3)).unwrap();
    space.release(CheckpointNo(3), &[]);
    assert!(trim(&mut space, 0) > 0);
    assert!(file.len().unwrap() < before / 2, "{} of {before}", file.len().unwrap());
    let loaded = Space::load(file, DATABASE, 2, &third).unwrap();
    let extent = |unit| Extent { unit, units: 4 };
    assert!(loaded.check([extent(low), extent(keep)]).is_clean());
    assert!(first != second && second != third);
}

#[test]
fn a_trim_lets_others_in_and_leaves_what_they_took() {
    let file = Recorder::new();
    let mut space = Space::create(file.clone(), DATABASE, 2);
    let (gap, _low, high) =
        (space.allocate(3000).unwrap(), space.allocate(4).unwrap(), space.allocate(3000).unwrap());
    space.free_unused(gap, 3000);
    space.free_unused(high, 3000);
    let mut trim = space.trim(0);
    let (mut taken, mut pieces) = (Vec::new(), 0);
    while let Some(units) = space.trim_on(&mut trim).unwrap() {
        assert!((1..=256 + 16).contains(&units), "{units} in one go");
        pieces += 1;
        // The first few take what is at the front, and thus what was to be a hole; one wants more than that.
        if pieces % 5 == 0 {
            taken.push(Extent { unit: space.allocate(40).unwrap(), units: 40 });
        }
        if pieces == 3 {
            taken.push(Extent { unit: space.allocate(3100).unwrap(), units: 3100 });
        }
        let end = taken.iter().map(|extent| extent.end()).max().unwrap_or(0);
        assert!(file.len().unwrap() >= end * 4096, "cut off what is in use");
        assert!(pieces < 100, "it ends");
    }
    let stats = space.stats();
    assert_eq!(stats.used_units, 2 + 4 + taken.iter().map(|extent| extent.units).sum::<u64>());
    assert!(stats.free_units - stats.hole_units < 16, "{stats:?}");
    assert!(stats.hole_units > 2000, "{stats:?}");
}

#[test]
fn nothing_is_left_between_the_pieces_of_a_trim() {
    let mut space = Space::create(Recorder::new(), DATABASE, 2);
    // A little more than a piece, and more than a chunk of the map has.
    let lengths = [[260; 12].as_slice(), &[40_000, 300, 40_000, 260]].concat();
    let gaps: Vec<_> = lengths
        .into_iter()
        .map(|units| {
            let gap = space.allocate(units).unwrap();
            space.allocate(4).unwrap();
            (gap, units)
        })
        .collect();
    gaps.iter().for_each(|&(gap, units)| space.free_unused(gap, units));
    assert!(trim(&mut space, 0) > 80_000);
    let stats = space.stats();
    assert_eq!((stats.free_units, stats.used_units), (stats.hole_units, 2 + 16 * 4), "{stats:?}");
}

#[test]
fn what_is_not_in_use_cannot_be_given_up() {
    let mut space = Space::create(Recorder::new(), DATABASE, 2);
    let unit = space.allocate(4).unwrap();
    let before = space.stats();
    let places = [(unit, 8), (0, 1), (1, 4), (unit + 2, 4), (1 << 30, 4), (PagePtr::MAX_UNIT, 4)];
    for (unit, units) in places {
        let error = space.retire(PagePtr::new(unit, units, 0), CheckpointNo(1)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{unit}+{units}");
    }
    assert_eq!(space.stats(), before);
    space.retire(PagePtr::new(unit, 4, 0), CheckpointNo(1)).unwrap();
    assert!(space.retire(PagePtr::new(unit, 4, 0), CheckpointNo(1)).is_err(), "given up by a second parent");
}

#[test]
fn scattered_gaps_are_used_before_the_file_grows() {
    let mut space = Space::create(Recorder::new(), DATABASE, 2);
    let pages: Vec<u64> = (0..1000).map(|_| space.allocate(4).unwrap()).collect();
    pages.iter().step_by(2).for_each(|&unit| space.free_unused(unit, 4));
    let before = space.stats();
    let mut given = 0;
    while given < 350 * 4 {
        given += space.allocate_pages(4, 64).unwrap().units;
    }
    assert_eq!(space.stats().total_units, before.total_units, "{before:?}");
    // With little left, pages that belong together lie together again.
    while space.stats().total_units == before.total_units {
        space.allocate_pages(4, 64).unwrap();
    }
    assert!(space.stats().free_units > 0);
}

#[test]
fn holes_are_counted_once() {
    let mut space = Space::create(Recorder::new(), DATABASE, 2);
    let pages: Vec<u64> = (0..100).map(|_| space.allocate(64).unwrap()).collect();
    pages[..98].iter().for_each(|&unit| space.free_unused(unit, 64));
    let give = |space: &mut Space, keep| {
        trim(space, keep);
        let stats = space.stats();
        stats.free_units - stats.hole_units
    };
    // What is kept takes room; the rest does not, also where a hole was in a run before.
    assert!((3000..3200).contains(&give(&mut space, 3000)));
    assert!((3000..3200).contains(&give(&mut space, 3000)));
    assert!((1000..1200).contains(&give(&mut space, 1000)));
    assert_eq!(give(&mut space, 0), 0);
    assert_eq!(space.allocate(64).unwrap(), pages[0]);
    assert_eq!(space.stats().hole_units, 97 * 64);
}
