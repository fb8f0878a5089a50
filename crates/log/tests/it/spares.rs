//! Files that are kept for later segments: how many, and for how long.

use crate::common::*;
use io::sim::{CallKind, SimDisk};
use pando_log::{Log, Options};

/// Appends and syncs until `segments` were begun, and lets go of all but the last one. Answers how many files were
/// made.
fn cycle(log: &Log, disk: &SimDisk, segments: u64, payload_bytes: usize) -> u64 {
    let made = disk.calls(CallKind::Create);
    for n in 0..segments {
        let before = log.end().segment;
        while log.end().segment == before {
            let end = log.append(&payload(n, payload_bytes)).unwrap();
            log.sync(end).unwrap();
            log.prepare_next().unwrap();
        }
    }
    log.drop_before(log.end()).unwrap();
    disk.calls(CallKind::Create) - made
}

#[test]
fn between_like_checkpoints_no_file_is_made() {
    let disk = SimDisk::new();
    let log = Log::create(disk.dir(), DATABASE, SMALL).unwrap();
    let made: Vec<u64> = (0..5).map(|_| cycle(&log, &disk, 6, 900)).collect();
    assert!(made[0] >= 5, "{made:?}");
    assert_eq!(made[2..], [0, 0, 0], "{made:?}");
    let files = disk.dir().list().unwrap().len();
    assert!((6..=9).contains(&files), "{files} files: six, the current one, and two that are ready");
    // The next cycles are shorter, and fewer are kept.
    (0..4).for_each(|_| assert_eq!(cycle(&log, &disk, 1, 900), 0));
    assert!(log.stats().spare_bytes <= 4 * 8192, "{:?}", log.stats());
}

#[test]
fn spares_fit_while_the_limit_grows_with_the_data() {
    let disk = SimDisk::new();
    let options = Options { first_segment_bytes: 4 << 20, max_segment_bytes: 64 << 20, ..SMALL };
    let log = Log::create(disk.dir(), DATABASE, options).unwrap();
    let made: Vec<u64> = (0..5)
        .map(|round| {
            log.limit_segments((4 << 20) + round * 1_300_000);
            cycle(&log, &disk, 2, 900_000)
        })
        .collect();
    assert_eq!(made[2..], [0, 0, 0], "{made:?}");
    assert_eq!(log.stats().live_bytes, 4 << 20, "half of what it could be by now");
}

/// All files had been removed at each checkpoint, and new ones written over with zeros, beside data of 55 MB.
#[test]
fn spares_fit_while_the_data_grows_and_shrinks_a_little() {
    let disk = SimDisk::new();
    let options = Options { first_segment_bytes: 4 << 20, max_segment_bytes: 64 << 20, ..SMALL };
    let log = Log::create(disk.dir(), DATABASE, options).unwrap();
    let made = [6_860_001, 6_860_001, 6_860_001, 6_800_000, 6_860_001, 6_400_001, 6_900_001].map(|bytes| {
        log.limit_segments(bytes);
        cycle(&log, &disk, 6, 900_000)
    });
    // Where segments come to be as long as they may, one more is ready.
    assert!(made[2..].iter().sum::<u64>() <= 2, "{made:?}");
}

#[test]
fn files_that_are_long_beside_what_is_left_of_the_data_go() {
    let disk = SimDisk::new();
    let options = Options { first_segment_bytes: 4 << 20, max_segment_bytes: 64 << 20, ..SMALL };
    let log = Log::create(disk.dir(), DATABASE, options).unwrap();
    log.limit_segments(10 << 20);
    for _ in 0..2 {
        cycle(&log, &disk, 3, 900_000);
    }
    assert!(log.stats().spare_bytes >= 4 * (10 << 20), "{:?}", log.stats());
    log.limit_segments(0);
    for _ in 0..3 {
        cycle(&log, &disk, 3, 900_000);
    }
    assert!(log.stats().spare_bytes <= 6 * (4 << 20), "{:?}", log.stats());
}

#[test]
fn of_allocated_files_few_are_kept() {
    let disk = SimDisk::new();
    let log = Log::create(disk.dir(), DATABASE, Options { flush_worth_bytes: 0, ..SMALL }).unwrap();
    let unflushed_cycle = || {
        let made = disk.calls(CallKind::Create);
        let before = log.end().segment;
        while log.end().segment < before + 6 {
            log.append(&payload(1, 900)).unwrap();
        }
        log.sync(log.end().lsn).unwrap();
        log.drop_before(log.end()).unwrap();
        disk.calls(CallKind::Create) - made
    };
    let made = [0; 4].map(|_| unflushed_cycle());
    assert!(made.iter().all(|&made| made >= 4), "{made:?}");
    assert!(log.stats().spare_bytes <= 3 * 8192, "{:?}", log.stats());
}

#[test]
fn a_log_at_rest_gives_its_room_back() {
    let disk = SimDisk::new();
    let log = Log::create(disk.dir(), DATABASE, SMALL).unwrap();
    let made = [0; 3].map(|_| cycle(&log, &disk, 6, 900));
    assert!(made[2] == 0 && log.stats().spare_bytes >= 5 * 8192, "{:?}", log.stats());
    let held = |calls: usize| {
        (0..calls).for_each(|_| log.rest().unwrap());
        disk.dir().list().unwrap().len()
    };
    let before = held(39);
    assert!(before >= 6, "{before} files");
    cycle(&log, &disk, 1, 900);
    let used = held(40);
    assert!(used >= 6, "{used} files: it was not at rest");
    assert!(
        held(1) <= 5 && log.stats().spare_bytes <= 4 * 8192,
        "two are ready, two are kept: {:?}",
        log.stats()
    );
    let end = log.append(b"more").unwrap();
    log.sync(end).unwrap();
}
