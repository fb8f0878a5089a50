//! Firm units: what they promise on a disk that is full, or becomes so.

use base::{CheckpointNo, DatabaseId, ErrorKind, PagePtr};
use io::File;
use io::sim::SimDisk;
use pando_space::Space;
use std::sync::Arc;

const UNIT: u64 = 4096;
const PAGE_UNITS: u64 = 4;

fn disk(units: u64) -> (SimDisk, Arc<dyn File>, Space) {
    let disk = SimDisk::new();
    disk.set_capacity(units * UNIT);
    let file = disk.dir().create("data").unwrap();
    let space = Space::create(file.clone(), DatabaseId(1), 2);
    (disk, file, space)
}

/// Takes all the room that is left for another file.
fn fill(disk: &SimDisk) {
    let other = disk.dir().create("other").unwrap();
    let refused = (0..).find_map(|at| other.write_at(&[1; UNIT as usize], at * UNIT).err()).unwrap();
    assert_eq!(refused.kind(), ErrorKind::Full);
}

#[test]
fn what_is_firm_can_be_written_on_a_full_disk() {
    let (disk, file, mut space) = disk(100);
    assert_eq!(space.firm_up(30, PAGE_UNITS).unwrap().units, 32, "whole pages");
    fill(&disk);
    let more = space.firm_up(60, PAGE_UNITS).unwrap();
    assert!(more.units == 32 && more.refused.is_some_and(|refused| refused.kind() == ErrorKind::Full));
    space.set_firm_only(true);
    for _ in 0..8 {
        let unit = space.allocate(PAGE_UNITS).unwrap();
        file.write_at(&[7; (PAGE_UNITS * UNIT) as usize], unit * UNIT).unwrap();
    }
    assert_eq!(space.allocate(1).unwrap_err().kind(), ErrorKind::Full);
    // A checkpoint that fails gives them back, as firm as before.
    space.revert();
    assert_eq!(space.firm_units(PAGE_UNITS), 32);
}

#[test]
fn units_of_an_earlier_process_are_found_to_be_firm() {
    let (disk, file, mut space) = disk(100);
    space.firm_up(20, PAGE_UNITS).unwrap();
    let root = space.save(CheckpointNo(1)).unwrap();
    fill(&disk);
    let mut space = Space::load(file, DatabaseId(1), 2, &root).unwrap();
    assert_eq!(space.firm_units(PAGE_UNITS), 0, "nobody has asked yet");
    assert!(space.firm_up(16, PAGE_UNITS).unwrap().units >= 16);
}

/// Low units are free, but not known to be firm; the end becomes free and firm. What is kept moves to the low ones
/// where the disk has room for them, and stays at the end where it has none.
#[test]
fn a_trim_keeps_low_units_rather_than_the_end() {
    for is_full in [false, true] {
        let (disk, file, mut space) = disk(3000);
        let (low, high) = (space.allocate(1600).unwrap(), space.allocate(300).unwrap());
        assert!(low < high);
        file.write_at(&vec![1; 300 * UNIT as usize], high * UNIT).unwrap();
        space.save(CheckpointNo(1)).unwrap();
        space.retire(PagePtr::new(low, 1600, 0), CheckpointNo(2)).unwrap();
        let root = space.save(CheckpointNo(2)).unwrap();
        drop(space);
        let mut space = Space::load(Arc::clone(&file), DatabaseId(1), 2, &root).unwrap();
        space.retire(PagePtr::new(high, 300, 0), CheckpointNo(3)).unwrap();
        space.save(CheckpointNo(3)).unwrap();
        space.release(CheckpointNo(3), &[]);
        if is_full {
            fill(&disk);
        }
        let firm = space.firm_units(PAGE_UNITS);
        assert!((296..=304).contains(&firm), "{firm} units");
        space.keep_firm(200, PAGE_UNITS);
        let mut trim = space.trim_all_but(200);
        while space.trim_on(&mut trim).unwrap().is_some() {}
        assert!(space.firm_units(PAGE_UNITS) >= 200, "{} units", space.firm_units(PAGE_UNITS));
        let at_end = space.stats().total_units.saturating_sub(high);
        let expected = if is_full { 200..=260 } else { 0..=16 };
        assert!(expected.contains(&at_end), "full: {is_full}, {at_end} units are left at the end");
    }
}

/// Free runs that are no whole number of pages: what is kept needs more units than its count, and the file still
/// ends right after the last of them.
#[test]
fn a_trim_counts_what_it_keeps_in_whole_pages() {
    let (_disk, _file, mut space) = disk(1000);
    let first = space.allocate(2).unwrap();
    let used = space.allocate(3).unwrap();
    space.free_unused(first, 2);
    space.firm_up(300, PAGE_UNITS).unwrap();
    space.keep_firm(64, PAGE_UNITS);
    let mut trim = space.trim_all_but(64);
    while space.trim_on(&mut trim).unwrap().is_some() {}
    assert_eq!(space.firm_units(PAGE_UNITS), 64);
    assert_eq!(space.stats().total_units, used + 3 + 64, "2 units before those used are no page");
}

/// Many free runs between used units, none a whole number of pages: the trim returns as many as it may, and no more.
#[test]
fn a_trim_of_many_runs_returns_what_is_not_kept() {
    const RUN: u64 = 22;
    for kept in [0, 1000, 3000, 7000] {
        let (_disk, file, mut space) = disk(20_000);
        let runs: Vec<u64> = (0..400).map(|_| (space.allocate(RUN).unwrap(), space.allocate(1)).0).collect();
        let end = space.stats().total_units;
        file.write_at(&vec![1; ((end - runs[0]) * UNIT) as usize], runs[0] * UNIT).unwrap();
        runs.iter().for_each(|unit| space.free_unused(*unit, RUN));
        let before = space.firm_up(400 * 20, PAGE_UNITS).unwrap().units;
        assert_eq!(before, 400 * 20);
        space.keep_firm(kept, PAGE_UNITS);
        let mut trim = space.trim_all_but(0);
        while space.trim_on(&mut trim).unwrap().is_some() {}
        let left = space.firm_units(PAGE_UNITS);
        // What is left beyond that is a run that could only be returned whole.
        assert!((kept..kept + 20).contains(&left), "{left} units are left of {before}, {kept} are kept");
    }
}

#[test]
fn what_a_killed_process_had_allocated_behind_the_map_is_given_back() {
    let (_disk, file, mut space) = disk(2000);
    let root = space.save(CheckpointNo(1)).unwrap();
    let units = space.stats().total_units;
    space.firm_up(1000, PAGE_UNITS).unwrap();
    drop(space);
    assert!(file.len().unwrap() >= 1000 * UNIT);
    let mut space = Space::load(Arc::clone(&file), DatabaseId(1), 2, &root).unwrap();
    let mut trim = space.trim(0);
    while space.trim_on(&mut trim).unwrap().is_some() {}
    assert!(file.len().unwrap() <= units * UNIT, "{} bytes", file.len().unwrap());
}

#[test]
fn what_the_log_refers_to_leaves_what_is_kept() {
    let (disk, _file, mut space) = disk(100);
    space.firm_up(40, PAGE_UNITS).unwrap();
    space.keep_firm(40, PAGE_UNITS);
    let unit = space.allocate_logged(8).unwrap();
    assert_eq!(space.firm_units(PAGE_UNITS), 40, "others were made firm for those");
    space.free_unused(unit, 8);
    fill(&disk);
    let given = (0..).take_while(|_| space.allocate_logged(4).is_ok()).count();
    assert!(given <= 4 && space.firm_units(PAGE_UNITS) >= 40, "{given} extents");
    // The checkpoint may take them.
    space.set_firm_only(true);
    assert!(space.allocate(PAGE_UNITS).is_ok());
    assert_eq!(space.allocate_logged(1).unwrap_err().kind(), ErrorKind::Full);
}

#[test]
fn a_trim_leaves_what_is_kept_and_a_log_gets_what_it_needs() {
    let (disk, file, mut space) = disk(2000);
    let unit = space.allocate(1500).unwrap();
    file.write_at(&vec![1; 1500 * UNIT as usize], unit * UNIT).unwrap();
    space.save(CheckpointNo(1)).unwrap();
    space.retire(PagePtr::new(unit, 1500, 0), CheckpointNo(2)).unwrap();
    space.save(CheckpointNo(2)).unwrap();
    space.release(CheckpointNo(2), &[]);
    space.keep_firm(600, PAGE_UNITS);
    let mut trim = space.trim_all_but(600);
    while space.trim_on(&mut trim).unwrap().is_some() {}
    assert!(space.firm_units(PAGE_UNITS) >= 600, "{} units", space.firm_units(PAGE_UNITS));
    assert!(disk.used_bytes() < 1000 * UNIT, "{} bytes", disk.used_bytes());
    let (used, firm) = (disk.used_bytes(), space.firm_units(1));
    space.give_up_firm(10).unwrap();
    assert_eq!((used - disk.used_bytes(), firm - space.firm_units(1)), (10 * UNIT, 10));
}
