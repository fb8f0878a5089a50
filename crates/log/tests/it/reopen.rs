//! Writing, scanning and resuming over files in memory.

use crate::common::*;
use base::env::Random;
use base::{CheckpointNo, DatabaseId, ErrorKind, Lsn};
use pando_log::{Log, MAX_PAYLOAD_BYTES, Options, Position};

#[test]
fn what_was_appended_is_shown_in_order_over_many_segments() {
    let dir = memory();
    let log = Log::create(dir.clone(), DATABASE, SMALL).unwrap();
    let written: Vec<_> = (0..500).map(|n| payload(n, n as usize % 300)).collect();
    for (n, bytes) in written.iter().enumerate() {
        let end = log.append(bytes).unwrap();
        assert_eq!(end, log.end().lsn);
        if n % 7 == 0 {
            log.sync(end).unwrap();
        }
        if n % 5 == 0 {
            log.prepare_next().unwrap();
        }
    }
    let end = log.end();
    let (found, tail) = scan(&dir, START).unwrap();
    assert_eq!(found, written);
    assert_eq!((tail.end, tail.closed, tail.blocks), (end, false, 500));
    assert!(log.stats().segments > 5);
}

#[test]
fn a_closed_log_goes_on_in_place_without_a_write() {
    let dir = memory();
    let log = Log::create(dir.clone(), DATABASE, SMALL).unwrap();
    log.append(b"one").unwrap();
    log.close().unwrap();
    log.close().unwrap();
    assert_eq!(log.append(b"late").unwrap_err().kind(), ErrorKind::Closed);
    let before = files_of(&*dir);
    let tail = scan(&dir, START).unwrap().1;
    assert!(tail.closed);
    let from = tail.end;
    let log = Log::resume(dir.clone(), tail, CheckpointNo(0), SMALL).unwrap();
    log.sync(log.end().lsn).unwrap();
    log.close().unwrap();
    assert_eq!(files_of(&*dir), before);
    assert!(scan(&dir, from).unwrap().1.closed, "a position behind the closing block is a closed end too");

    let log = Log::resume(dir.clone(), scan(&dir, START).unwrap().1, CheckpointNo(0), SMALL).unwrap();
    log.append(b"two").unwrap();
    let (found, tail) = scan(&dir, START).unwrap();
    assert_eq!(found, [b"one", b"two"]);
    assert!(!tail.closed);
    assert_eq!(tail.end.generation, 1);
}

#[test]
fn a_closed_log_keeps_no_files_for_later() {
    let dir = memory();
    let log = Log::create(dir.clone(), DATABASE, SMALL).unwrap();
    while log.stats().segments < 4 {
        log.append(&[7; 300]).unwrap();
    }
    log.sync(log.end().lsn).unwrap();
    log.drop_before(log.end()).unwrap();
    while !log.prepare_next().unwrap() {
        log.append(&[7; 300]).unwrap();
    }
    assert!(log.stats().spare_bytes > 0);
    let from = log.end();
    log.close().unwrap();
    assert_eq!(files_of(&*dir).len(), 1, "the segment with the closing block is all that is left");
    let tail = scan(&dir, from).unwrap().1;
    assert!(tail.closed);
    let log = Log::resume(dir, tail, CheckpointNo(0), SMALL).unwrap();
    log.append(b"more").unwrap();
    log.sync(log.end().lsn).unwrap();
}

#[test]
fn two_short_segments_are_ready_and_a_long_record_takes_the_place_of_both() {
    let dir = memory();
    let options = Options { max_segment_bytes: 4096, ..SMALL };
    let log = Log::create(dir.clone(), DATABASE, options).unwrap();
    let ready = || std::iter::from_fn(|| log.prepare_next().unwrap().then_some(())).count();
    assert_eq!((ready(), log.stats().spare_bytes), (2, 2 * 4096));
    let mut written = Vec::new();
    for round in 0..40 {
        // Some fit, some go on in the first that is ready, some in none of them.
        let bytes = payload(round, [100, 900, 2500, 6000][round as usize % 4]);
        log.append(&bytes).unwrap();
        written.push(bytes);
        if round % 3 == 0 {
            assert!(ready() <= 2 && log.stats().spare_bytes >= 2 * 4096);
        }
    }
    log.sync(log.end().lsn).unwrap();
    let (found, tail) = scan(&dir, START).unwrap();
    assert_eq!(found, written);
    // As if killed, with segments ready that nothing names.
    let log = Log::resume(dir.clone(), tail, CheckpointNo(0), options).unwrap();
    log.append(b"more").unwrap();
    written.push(b"more".to_vec());
    assert_eq!(scan(&dir, START).unwrap().0, written);
}

#[test]
fn a_log_that_was_not_closed_goes_on_in_a_new_generation() {
    let dir = memory();
    let mut ends = Vec::new();
    drop(Log::create(dir.clone(), DATABASE, SMALL).unwrap());
    for round in 0..20u64 {
        let (found, tail) = scan(&dir, START).unwrap();
        assert_eq!(found.len() as u64, round);
        let log = Log::resume(dir.clone(), tail, CheckpointNo(0), SMALL).unwrap();
        assert_eq!(log.end().generation, round + 2);
        assert!(ends.iter().all(|&end| end < log.end().lsn));
        log.append(&payload(round, 10)).unwrap();
        ends.push(log.end().lsn);
    }
}

#[test]
fn every_position_on_the_way_is_one_to_start_from() {
    let dir = memory();
    let log = Log::create(dir.clone(), DATABASE, SMALL).unwrap();
    let written: Vec<_> = (0..100).map(|n| payload(n, 200)).collect();
    let mut positions = vec![log.end()];
    for bytes in &written {
        log.append(bytes).unwrap();
        positions.push(log.end());
    }
    for (n, &position) in positions.iter().enumerate() {
        assert_eq!(scan(&dir, position).unwrap().0, written[n..]);
    }
    let astray = Position { lsn: Lsn(positions[3].lsn.0 + 3), ..positions[3] };
    assert_eq!(scan(&dir, astray).unwrap_err().kind(), ErrorKind::Corruption);
}

#[test]
fn dropped_segments_are_used_again() {
    let dir = memory();
    let log = Log::create(dir.clone(), DATABASE, SMALL).unwrap();
    for n in 0..400 {
        let end = log.append(&payload(n, 150)).unwrap();
        log.sync(end).unwrap();
        log.drop_before(log.end()).unwrap();
    }
    assert!(dir.list().unwrap().len() <= 4, "{:?}", dir.list());
    let from = log.end();
    log.append(b"last").unwrap();
    let (found, tail) = scan(&dir, from).unwrap();
    assert_eq!(found, [b"last"]);
    let log = Log::resume(dir.clone(), tail, CheckpointNo(0), SMALL).unwrap();
    log.append(b"more").unwrap();
    assert_eq!(scan(&dir, from).unwrap().0, [b"last", b"more"]);
    assert_eq!(scan(&dir, START).unwrap_err().kind(), ErrorKind::Corruption);
}

#[test]
fn a_long_payload_gets_a_segment_of_its_size() {
    let dir = memory();
    let log = Log::create(dir.clone(), DATABASE, SMALL).unwrap();
    let long = payload(1, 300_000);
    log.append(b"short").unwrap();
    log.reserve(long.len() as u64).unwrap();
    log.append(&long).unwrap();
    log.append(b"short again").unwrap();
    let (found, _) = scan(&dir, START).unwrap();
    assert_eq!(found, [b"short".to_vec(), long, b"short again".to_vec()]);
    let over = MAX_PAYLOAD_BYTES as u64 + 1;
    assert_eq!(log.reserve(over).unwrap_err().kind(), ErrorKind::Invalid);
    log.append(b"not latched").unwrap();
}

#[test]
fn a_newer_checkpoint_is_reported() {
    let dir = memory();
    let log = Log::create(dir.clone(), DATABASE, SMALL).unwrap();
    log.append(b"").unwrap();
    assert_eq!(scan(&dir, START).unwrap().1.newest_checkpoint, CheckpointNo(0));
    log.set_checkpoint(CheckpointNo(9));
    log.append(b"").unwrap();
    assert_eq!(scan(&dir, START).unwrap().1.newest_checkpoint, CheckpointNo(9));
}

#[test]
fn missing_and_foreign_segments_are_named() {
    let dir = memory();
    let log = Log::create(dir.clone(), DATABASE, SMALL).unwrap();
    for n in 0..200 {
        log.append(&payload(n, 100)).unwrap();
    }
    log.sync(log.end().lsn).unwrap();
    let files = files_of(&*dir);
    let middle = files.keys().nth(2).unwrap().clone();

    let mut without = files.clone();
    without.remove(&middle);
    let error = scan(&dir_of(&without), START).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.message().contains(&middle), "{error}");

    let other = memory();
    let log = Log::create(other.clone(), DatabaseId(1), SMALL).unwrap();
    for n in 0..200 {
        log.append(&payload(n, 100)).unwrap();
    }
    let mut mixed = files.clone();
    mixed.insert(middle.clone(), files_of(&*other)[&middle].clone());
    let error = scan(&dir_of(&mixed), START).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Foreign);
    assert!(error.message().contains(&middle), "{error}");

    let mut short = files.clone();
    short.get_mut(&middle).unwrap().truncate(1000);
    assert_eq!(scan(&dir_of(&short), START).unwrap_err().kind(), ErrorKind::Corruption);

    let mut newer = files;
    newer.get_mut(&middle).unwrap()[8] = 2;
    assert_eq!(scan(&dir_of(&newer), START).unwrap_err().kind(), ErrorKind::Foreign);
}

/// A log over three generations and a clean end in between, with the number of payloads that a later block proves
/// durable.
fn chequered() -> (Files, Vec<Vec<u8>>, usize) {
    let dir = memory();
    let mut written = Vec::new();
    let mut proven = 0;
    let mut log = Log::create(dir.clone(), DATABASE, SMALL).unwrap();
    for round in 0..4 {
        for n in 0..20u64 {
            let bytes = payload(n + 100 * round, 60 + 17 * n as usize % 200);
            log.append(&bytes).unwrap();
            written.push(bytes);
            if n == 12 {
                log.sync(log.end().lsn).unwrap();
                proven = written.len();
            }
        }
        if round == 1 {
            log.close().unwrap();
        }
        if round < 3 {
            let tail = scan(&dir, START).unwrap().1;
            log = Log::resume(dir.clone(), tail, CheckpointNo(round), SMALL).unwrap();
        }
    }
    (files_of(&*dir), written, proven)
}

#[test]
fn no_flipped_byte_changes_a_payload_or_hides_what_was_durable() {
    let (files, written, proven) = chequered();
    let (mut refused, mut shorter) = (0, 0);
    for name in files.keys() {
        for at in 0..files[name].len() {
            if at > 600 && at % 3 != 0 {
                continue;
            }
            let mut flipped = files.clone();
            flipped.get_mut(name).unwrap()[at] ^= 0x41;
            match scan(&dir_of(&flipped), START) {
                Err(error) => {
                    assert!(is_refusal(error.kind()), "{error}");
                    refused += 1;
                }
                Ok((found, _)) => {
                    assert!(written.starts_with(&found), "byte {at} of {name}: other payloads");
                    assert!(found.len() >= proven, "byte {at} of {name}: {} < {proven}", found.len());
                    shorter += usize::from(found.len() < written.len());
                }
            }
        }
    }
    assert!(refused > 1000 && shorter > 100, "{refused} refused, {shorter} shorter");
}

#[test]
fn a_wiped_sector_before_the_durable_end_is_damage() {
    let (files, written, proven) = chequered();
    for name in files.keys() {
        for at in (0..files[name].len()).step_by(512) {
            let mut wiped = files.clone();
            let bytes = wiped.get_mut(name).unwrap();
            let end = (at + 512).min(bytes.len());
            bytes[at..end].fill(0);
            match scan(&dir_of(&wiped), START) {
                Err(error) => assert!(is_refusal(error.kind()), "{error}"),
                Ok((found, _)) => {
                    assert!(written.starts_with(&found));
                    assert!(found.len() >= proven, "byte {at} of {name}: {} < {proven}", found.len());
                }
            }
        }
    }
}

/// A block that outlived the one before it must not be taken for the successor of what was written there since.
#[test]
fn a_stale_block_does_not_follow_a_new_one() {
    let dir = memory();
    let log = Log::create(dir.clone(), DATABASE, SMALL).unwrap();
    log.append(b"kept").unwrap();
    log.close().unwrap();
    let closed = files_of(&*dir);
    let log = Log::resume(dir.clone(), scan(&dir, START).unwrap().1, CheckpointNo(0), SMALL).unwrap();
    let from = log.end().lsn.0 as usize + 96;
    log.append(b"lost by a crash").unwrap();
    let to = log.end().lsn.0 as usize + 96;
    log.append(b"stale").unwrap();
    let mut files = files_of(&*dir);
    let (name, before) = closed.first_key_value().unwrap();
    files.get_mut(name).unwrap()[from..to].copy_from_slice(&before[from..to]);

    let dir = dir_of(&files);
    let (found, tail) = scan(&dir, START).unwrap();
    assert_eq!((found, tail.closed), (vec![b"kept".to_vec()], false));
    let log = Log::resume(dir.clone(), tail, CheckpointNo(0), SMALL).unwrap();
    log.append(b"another of 15 b").unwrap();
    assert_eq!(scan(&dir, START).unwrap().0, [&b"kept"[..], b"another of 15 b"]);
}

/// Nor may it follow the same block when that is appended again: an application that starts anew repeats what it did.
#[test]
fn a_stale_block_does_not_follow_the_same_one() {
    let long = Options { first_segment_bytes: 1 << 20, max_segment_bytes: 1 << 20, ..SMALL };
    let (reach, mut flushed) = (256 << 10, 0);
    // The stale block is near, in the next segment, or as far away as one may be that was never flushed.
    let near = [8, 440, 600, 3500, 5000, 20_000].map(|bytes| (SMALL, bytes));
    let far = [reach - 100, reach - 72, reach - 64, reach - 56, reach, 2 * reach].map(|bytes| (long, bytes));
    for (options, bytes) in near.into_iter().chain(far) {
        let dir = memory();
        let log = Log::create(dir.clone(), DATABASE, options).unwrap();
        log.append(b"one").unwrap();
        log.close().unwrap();
        let closed = files_of(&*dir);
        let (name, before) = closed.first_key_value().unwrap();
        let log = Log::resume(dir.clone(), scan(&dir, START).unwrap().1, CheckpointNo(0), options).unwrap();
        let (at, repeated) = (log.end(), vec![7; bytes]);
        log.append(&repeated).unwrap();
        let stats = log.stats();
        log.append(b"never acknowledged").unwrap();
        if log.synced() > at.lsn {
            assert_eq!((log.stats().syncs, bytes > reach - 64), (stats.syncs + 1, true), "{bytes} bytes");
            flushed += 1;
            continue;
        }
        // A power loss keeps all sectors written since, except the first one.
        let mut files = files_of(&*dir);
        let sector = (96 + at.lsn.0 as usize) / 512 * 512;
        files.get_mut(name).unwrap()[sector..sector + 512].copy_from_slice(&before[sector..sector + 512]);

        let dir = dir_of(&files);
        let (found, tail) = scan(&dir, START).unwrap();
        assert_eq!(found, [b"one"]);
        let log = Log::resume(dir.clone(), tail, CheckpointNo(0), options).unwrap();
        log.sync(log.append(&repeated).unwrap()).unwrap();
        let found = scan(&dir, START).unwrap().0;
        assert_eq!((found.len(), &found[1]), (2, &repeated), "{bytes} bytes");
    }
    assert_eq!(flushed, 3);
}

#[test]
fn a_log_closes_at_whatever_fill_of_its_segment() {
    for bytes in 3700..3950 {
        let dir = memory();
        let log = Log::create(dir.clone(), DATABASE, SMALL).unwrap();
        log.append(&vec![7; bytes]).unwrap();
        log.close().unwrap();
        let (found, tail) = scan(&dir, START).unwrap();
        assert_eq!((found.len(), tail.closed), (1, true), "{bytes} bytes");
        let log = Log::resume(dir.clone(), tail, CheckpointNo(0), SMALL).unwrap();
        log.append(b"more").unwrap();
        assert_eq!(scan(&dir, START).unwrap().0.len(), 2, "{bytes} bytes");
    }
}

#[test]
fn no_bytes_make_a_scan_or_a_resumption_panic() {
    let (files, written, _) = chequered();
    let mut random = Random::seeded(5);
    for _ in 0..600 {
        let mut mangled = files.clone();
        for _ in 0..1 + random.below(3) {
            let name = files.keys().nth(random.below(files.len() as u64) as usize).unwrap();
            let bytes = mangled.get_mut(name).unwrap();
            let (at, from) = (random.below(4000) as usize & !7, random.below(4000) as usize & !7);
            match random.below(4) {
                0 => bytes.truncate(at),
                1 => bytes.iter_mut().skip(at).take(64).for_each(|byte| *byte = random.next_u64() as u8),
                2 if at.max(from) + 96 <= bytes.len() => bytes.copy_within(from..from + 96, at),
                _ => bytes.extend([0xff; 100]),
            }
        }
        let dir = dir_of(&mangled);
        match scan(&dir, START) {
            Err(error) => assert!(is_refusal(error.kind()), "{error}"),
            Ok((found, tail)) => {
                assert!(written.starts_with(&found));
                let log = Log::resume(dir.clone(), tail, CheckpointNo(0), SMALL).unwrap();
                log.append(b"more").unwrap();
                assert_eq!(scan(&dir, START).unwrap().0.len(), found.len() + 1);
            }
        }
    }
}

#[test]
fn options_are_checked() {
    let tiny = Options { first_segment_bytes: 100, ..SMALL };
    assert_eq!(Log::create(memory(), DATABASE, tiny).unwrap_err().kind(), ErrorKind::Invalid);
    let dir = memory();
    drop(Log::create(dir.clone(), DATABASE, SMALL).unwrap());
    assert_eq!(Log::create(dir.clone(), DATABASE, SMALL).unwrap_err().kind(), ErrorKind::Exists);
    Log::discard(&dir).unwrap();
    Log::create(dir, DATABASE, SMALL).unwrap();
}

#[test]
fn a_log_whose_segment_is_full_closes_in_the_next_one() {
    let mut next_segment = 0;
    for bytes in (0..200).step_by(8) {
        let dir = memory();
        let log = Log::create(dir.clone(), DATABASE, SMALL).unwrap();
        while log.end().lsn.0 + 400 < SMALL.first_segment_bytes {
            log.append(&payload(1, 64)).unwrap();
        }
        log.append(&payload(2, 8 + bytes)).unwrap();
        let before = log.end().segment;
        log.close().unwrap();
        next_segment += u64::from(log.end().segment > before);
        let (payloads, tail) = scan(&dir, START).unwrap();
        assert!(tail.closed);
        assert_eq!(payloads.last(), Some(&payload(2, 8 + bytes)));
    }
    assert!(next_segment > 0, "no length of the last block left too little room for the closing one");
}
