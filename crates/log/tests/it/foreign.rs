//! Segments in the directory that the log does not need: its own may be reused, those of others stay as they are.

use crate::common::*;
use base::{CheckpointNo, DatabaseId, ErrorKind};
use io::Dir;
use pando_log::{Log, Position};
use std::sync::Arc;

const OTHER: DatabaseId = DatabaseId(0x07e4);

/// A log of `database` that begins in a later segment than the sixth, and the position from which it is needed.
fn advanced(database: DatabaseId) -> (Files, Position) {
    let dir = memory();
    let log = Log::create(dir.clone(), database, SMALL).unwrap();
    while log.end().segment < 7 {
        log.append(&payload(log.end().segment, 300)).unwrap();
    }
    log.sync(log.end().lsn).unwrap();
    log.drop_before(log.end()).unwrap();
    let from = log.end();
    log.append(b"needed").unwrap();
    log.sync(log.end().lsn).unwrap();
    (files_of(&*dir), from)
}

/// The first segment of another database's log.
fn foreign() -> Vec<u8> {
    let dir = memory();
    let log = Log::create(dir.clone(), OTHER, SMALL).unwrap();
    log.sync(log.append(b"the only copy").unwrap()).unwrap();
    files_of(&*dir).into_values().next().unwrap()
}

/// Opens the log, and makes it need as many new segments as make it reuse and remove all that it may.
fn use_up(dir: &Arc<dyn Dir>, from: Position) -> base::Result<()> {
    let (found, tail) = scan(dir, from)?;
    assert_eq!(found, [b"needed"]);
    let log = Log::resume(dir.clone(), tail, CheckpointNo(0), SMALL)?;
    let first = log.end().segment;
    while log.end().segment < first + 5 {
        log.append(&payload(1, 300))?;
        log.prepare_next()?;
    }
    log.sync(log.end().lsn)?;
    log.drop_before(log.end())?;
    log.close().map(drop)
}

#[test]
fn a_segment_of_another_database_is_named_and_kept_whatever_its_number() {
    let (files, from) = advanced(DATABASE);
    for number in [1, from.segment - 1, from.segment + 90] {
        let name = format!("log-{number:016x}");
        let mut mixed = files.clone();
        mixed.insert(name.clone(), foreign());
        let dir = dir_of(&mixed);
        let error = use_up(&dir, from).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Foreign, "{error}");
        assert!(error.message().contains(&name), "{error}");
        assert_eq!(files_of(&*dir), mixed, "nothing was changed");
        dir.remove(&name).unwrap();
        use_up(&dir, from).unwrap();
    }
}

#[test]
fn a_segment_of_a_newer_format_is_named_and_kept_whatever_its_number() {
    let (files, from) = advanced(DATABASE);
    for number in [1, from.segment + 90] {
        let name = format!("log-{number:016x}");
        let mut mixed = files.clone();
        let mut newer = foreign();
        newer[8] = 2;
        mixed.insert(name.clone(), newer);
        let dir = dir_of(&mixed);
        let error = use_up(&dir, from).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Foreign, "{error}");
        assert!(error.message().contains(&name) && error.message().contains("format 2"), "{error}");
        assert_eq!(files_of(&*dir), mixed, "nothing was changed");
    }
}

/// Nothing says whose a file with a damaged header is. The log does not need it, and opens.
#[test]
fn a_damaged_header_before_the_position_leaves_its_file_as_it_is() {
    let (files, from) = advanced(DATABASE);
    for bytes in [foreign(), b"notes of a user".to_vec()] {
        let mut damaged = bytes;
        damaged[13] ^= 1;
        let mut mixed = files.clone();
        mixed.insert("log-0000000000000001".into(), damaged.clone());
        let dir = dir_of(&mixed);
        use_up(&dir, from).unwrap();
        assert_eq!(files_of(&*dir).get("log-0000000000000001"), Some(&damaged));
    }
}

/// What a log leaves itself: segments that ended, some renamed without a new header, some never made ready, some of
/// recoveries that were killed.
#[test]
fn what_a_log_has_left_itself_is_used_up() {
    let (files, from) = advanced(DATABASE);
    let own = files.values().next().unwrap().clone();
    let mut left = files.clone();
    left.insert("log-0000000000000001".into(), own.clone());
    left.insert("log-0000000000000002".into(), Vec::new());
    left.insert("log-0000000000000003".into(), vec![0; 4096]);
    left.insert("log-0000000000000004".into(), own[..2000].to_vec());
    // After the position: a spare that was renamed, and a file whose space was not yet secured.
    left.insert("log-0000000000000050".into(), own);
    left.insert("log-0000000000000051".into(), vec![0; 100]);
    let dir = dir_of(&left);
    use_up(&dir, from).unwrap();
    let names = dir.list().unwrap();
    assert_eq!(names.len(), 1, "a closed log keeps its last segment: {names:?}");
    // A recovery that was killed leaves the first segment of its generation.
    let dir = dir_of(&files);
    for _ in 0..3 {
        let tail = scan(&dir, from).unwrap().1;
        drop(Log::resume(dir.clone(), tail, CheckpointNo(0), SMALL).unwrap());
    }
    use_up(&dir, from).unwrap();
    assert_eq!(dir.list().unwrap().len(), 1);
}

#[test]
fn salvage_reads_past_the_segments_of_others() {
    let (files, from) = advanced(DATABASE);
    let mut mixed = files.clone();
    mixed.insert("log-0000000000000001".into(), foreign());
    let later = format!("log-{:016x}", from.segment + 90);
    for with_later in [false, true] {
        if with_later {
            mixed.insert(later.clone(), foreign());
        }
        let dir = dir_of(&mixed);
        let mut found = Vec::new();
        let scanned = Log::scan_mixed(&dir, DATABASE, from, &mut |block| {
            found.push(block.payload.to_vec());
            Ok(())
        });
        assert_eq!(found, [b"needed"]);
        // It may have replaced one of ours.
        assert_eq!(scanned.is_err(), with_later);
        let foreign = Log::foreign_segments(&dir, DATABASE).unwrap();
        assert_eq!(foreign.len(), 1 + usize::from(with_later), "{foreign:?}");
    }
}
