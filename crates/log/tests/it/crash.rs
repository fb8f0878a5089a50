//! The log alone on the simulated disk: whatever a power loss leaves at any event, what is recovered is a prefix of
//! what was appended, with everything in it whose sync was acknowledged; also when recovery itself is cut short, and
//! when calls fail.

use crate::common::*;
use base::env::Random;
use base::{CheckpointNo, ErrorKind, Result};
use io::Dir;
use io::sim::{CallKind, Fault, FaultError, Image, ImageKind, SimDisk};
use pando_log::{Log, Options, Position};
use std::sync::Arc;

/// What a disk was given, by the number of events that had happened.
#[derive(Clone)]
struct Ledger {
    payloads: Vec<Vec<u8>>,
    /// So many payloads were acknowledged as durable.
    acknowledged: Vec<(usize, usize)>,
    /// The position in the superblock, and how many payloads lie before it.
    superblocks: Vec<(usize, Position, usize)>,
}

impl Ledger {
    fn new() -> Ledger {
        Ledger { payloads: Vec::new(), acknowledged: Vec::new(), superblocks: vec![(0, START, 0)] }
    }

    fn acknowledged_at(&self, event: usize) -> usize {
        let before = self.acknowledged.iter().take_while(|(at, _)| *at <= event);
        before.last().map_or(0, |&(_, count)| count)
    }

    fn superblock_at(&self, event: usize) -> (Position, usize) {
        let before = self.superblocks.iter().take_while(|(at, ..)| *at <= event);
        before.last().map(|&(_, position, count)| (position, count)).unwrap()
    }

    /// What a disk restored from a moment of this one was given: by then recorded, with its events counted anew.
    fn after_crash(&self, event: usize) -> Ledger {
        let (position, skipped) = self.superblock_at(event);
        Ledger {
            payloads: self.payloads.clone(),
            acknowledged: vec![(0, self.acknowledged_at(event))],
            superblocks: vec![(0, position, skipped)],
        }
    }
}

/// Appends, syncs, readies, drops and closes at random.
fn work(disk: &SimDisk, log: &Log, ledger: &mut Ledger, steps: u64, random: &mut Random) -> Result<()> {
    for _ in 0..steps {
        match random.below(12) {
            0..6 => {
                let long = if random.chance(1, 12) { 9000 } else { 900 };
                let bytes = payload(random.next_u64(), random.below(long) as usize);
                ledger.payloads.push(bytes);
                let append = if random.chance(1, 2) { Log::append } else { Log::append_to_sync };
                if let Err(error) = append(log, ledger.payloads.last().unwrap()) {
                    // One that latched may have been written; one that found no room was not.
                    if !log.is_latched() {
                        ledger.payloads.pop();
                    }
                    return Err(error);
                }
            }
            6..9 => {
                log.sync(log.end().lsn)?;
                ledger.acknowledged.push((disk.event_count(), ledger.payloads.len()));
            }
            9 => drop(log.prepare_next()?),
            10 => log.reserve(random.below(5000))?,
            _ if random.chance(1, 3) => {
                let end = log.end();
                log.sync(end.lsn)?;
                ledger.acknowledged.push((disk.event_count(), ledger.payloads.len()));
                ledger.superblocks.push((disk.event_count(), end, ledger.payloads.len()));
                log.drop_before(end)?;
            }
            _ => (),
        }
    }
    if random.chance(1, 2) {
        log.close()?;
        ledger.acknowledged.push((disk.event_count(), ledger.payloads.len()));
    }
    Ok(())
}

/// Checks what a scan finds against the ledger, resumes, and cuts the ledger to what was found.
fn recover(disk: &SimDisk, ledger: &mut Ledger, options: Options) -> std::result::Result<Log, String> {
    let dir = disk.dir();
    let (position, skipped) = ledger.superblock_at(usize::MAX);
    let (found, tail) = scan(&dir, position).map_err(|error| error.to_string())?;
    if !ledger.payloads[skipped..].starts_with(&found) {
        return Err("not a prefix".into());
    }
    let (recovered, acknowledged) = (skipped + found.len(), ledger.acknowledged_at(usize::MAX));
    if recovered < acknowledged {
        return Err(format!("{recovered} recovered, {acknowledged} acknowledged"));
    }
    let log = Log::resume(dir, tail, CheckpointNo(0), options).map_err(|error| error.to_string())?;
    ledger.payloads.truncate(recovered);
    ledger.acknowledged.push((disk.event_count(), recovered));
    Ok(log)
}

/// Every image of every event of `disk`, since its history began; in some, work goes on and is cut short again.
fn explore(disk: &SimDisk, ledger: &Ledger, most: usize, depth: u32, random: &mut Random) -> usize {
    let mut images = 0;
    for at in disk.events().0..=disk.event_count() {
        for image in disk.images(at, &ImageKind::all(most), random) {
            images += 1;
            let survivor = image.restore();
            survivor.set_maps(random.chance(1, 2));
            let mut given = ledger.after_crash(at);
            let nested = depth > 0 && random.chance(1, 60);
            survivor.keep_history(nested);
            let log = match recover(&survivor, &mut given, SMALL) {
                Ok(log) => log,
                Err(what) => panic!("event {at}, {}: {what}\n{}", image.fate(), listing(&image)),
            };
            if nested {
                work(&survivor, &log, &mut given, 12, random).unwrap();
                images += explore(&survivor, &widened(&given, ledger), most.div_ceil(2), depth - 1, random);
            }
        }
    }
    images
}

/// During recovery more may be found than is left after it: images of that time are held against all payloads.
fn widened(given: &Ledger, before: &Ledger) -> Ledger {
    let mut wide = given.clone();
    if before.payloads.starts_with(&given.payloads) {
        wide.payloads.clone_from(&before.payloads);
    }
    wide
}

fn listing(image: &Image) -> String {
    let line = |name: &str| {
        format!("{name}: {:02x?}", &image.read(name).unwrap().iter().take(96).collect::<Vec<_>>())
    };
    image.names().map(line).collect::<Vec<_>>().join("\n")
}

/// Of the seeds with mappings, every other one has its segments allocated and not written over.
fn options(seed: u64) -> Options {
    Options { flush_worth_bytes: if seed & 2 == 0 { u64::MAX } else { 0 }, ..SMALL }
}

#[test]
fn every_crash_leaves_a_prefix_with_all_that_was_acknowledged() {
    let mut images = 0;
    for seed in 0..4 {
        let mut random = Random::seeded(seed);
        let disk = SimDisk::new();
        disk.set_maps(seed % 2 == 0);
        let log = Log::create(disk.dir(), DATABASE, options(seed)).unwrap();
        disk.keep_history(true);
        let mut ledger = Ledger::new();
        work(&disk, &log, &mut ledger, 40, &mut random).unwrap();
        images += explore(&disk, &ledger, 3, 2, &mut random);
    }
    assert!(images > 5_000, "{images}");
}

/// Scans, resumes, appends and syncs, on what a failure has left.
fn goes_on(disk: &SimDisk, ledger: &Ledger, what: &str) {
    let mut given = ledger.after_crash(usize::MAX);
    let log = recover(disk, &mut given, SMALL).unwrap_or_else(|error| panic!("{what}: {error}"));
    log.append(b"after").unwrap();
    given.payloads.push(b"after".to_vec());
    for image in disk.images_now(&[ImageKind::Nothing, ImageKind::KeepOne(3)], &mut Random::seeded(4)) {
        let mut again = given.after_crash(usize::MAX);
        let recovered = recover(&image.restore(), &mut again, SMALL);
        recovered.unwrap_or_else(|error| panic!("{what}, then unsynced, {}: {error}", image.fate()));
    }
    log.sync(log.end().lsn).unwrap();
    given.acknowledged.push((disk.event_count(), given.payloads.len()));
    for image in disk.images_now(&ImageKind::all(2), &mut Random::seeded(3)) {
        let mut again = given.after_crash(usize::MAX);
        let recovered = recover(&image.restore(), &mut again, SMALL);
        recovered.unwrap_or_else(|error| panic!("{what}, then {}: {error}", image.fate()));
    }
}

fn run_with_fault(seed: u64, fault: Fault) -> bool {
    let what = format!("seed {seed}, {fault:?}");
    let mut random = Random::seeded(seed);
    let disk = SimDisk::new();
    disk.set_maps(seed.is_multiple_of(2));
    let log = Log::create(disk.dir(), DATABASE, options(seed)).unwrap();
    disk.keep_history(false);
    let mut ledger = Ledger::new();
    disk.inject(fault);
    let result = work(&disk, &log, &mut ledger, 40, &mut random);
    if disk.faults_hit() == 0 {
        return false;
    }
    disk.clear_faults();
    let unsynced = log.end().lsn > log.synced();
    if let Err(error) = result {
        assert!(matches!(error.kind(), ErrorKind::Io | ErrorKind::Full), "{what}: {error}");
    }
    if let Err(error) = log.append(b"behind") {
        let refusals = [ErrorKind::Latched, ErrorKind::Closed];
        assert!(refusals.contains(&error.kind()), "{what}: {error}");
        if error.kind() == ErrorKind::Latched && unsynced {
            assert_eq!(log.sync(log.end().lsn).unwrap_err().kind(), ErrorKind::Latched, "{what}");
            assert_eq!(log.close().unwrap_err().kind(), ErrorKind::Latched, "{what}");
        }
    } else {
        ledger.payloads.push(b"behind".to_vec());
    }
    for image in disk.images_now(&ImageKind::all(2), &mut random) {
        goes_on(&image.restore(), &ledger, &format!("{what}, {}", image.fate()));
    }
    drop(log);
    goes_on(&disk.after_kill(), &ledger, &format!("{what}, killed"));
    true
}

#[test]
fn a_failed_call_loses_nothing_that_was_acknowledged() {
    for call in CallKind::EACH {
        for error in [FaultError::Io, FaultError::Full] {
            for seed in 0..2 {
                let nths = (1..).step_by(if call == CallKind::Write { 3 } else { 1 });
                for nth in nths {
                    if !run_with_fault(seed, Fault { call, nth, sticky: nth % 2 == 0, error }) {
                        break;
                    }
                }
            }
        }
    }
}

/// A recovery in which a call fails is no worse than one that crashed.
#[test]
fn a_failed_recovery_is_tried_again() {
    let mut random = Random::seeded(11);
    let disk = SimDisk::new();
    let log = Log::create(disk.dir(), DATABASE, SMALL).unwrap();
    let mut ledger = Ledger::new();
    while ledger.payloads.len() < 30 {
        ledger.payloads.push(payload(ledger.payloads.len() as u64, 500));
        log.append(ledger.payloads.last().unwrap()).unwrap();
        if ledger.payloads.len() == 25 {
            log.sync(log.end().lsn).unwrap();
            ledger.acknowledged.push((disk.event_count(), 25));
        }
    }
    for nth in 1.. {
        let survivor = disk.after_kill();
        survivor.inject(Fault { call: CallKind::Any, nth, sticky: false, error: FaultError::Io });
        let mut given = ledger.after_crash(usize::MAX);
        let log = recover(&survivor, &mut given, SMALL);
        if survivor.faults_hit() == 0 {
            assert!(nth > 10 && log.is_ok());
            break;
        }
        for image in survivor.images_now(&ImageKind::all(3), &mut random) {
            goes_on(&image.restore(), &ledger, &format!("recovery failed at call {nth}, {}", image.fate()));
        }
        goes_on(&survivor.after_kill(), &ledger, &format!("recovery failed at call {nth}, killed"));
    }
}

#[test]
fn a_full_disk_refuses_the_reservation_and_nothing_else() {
    let disk = SimDisk::new();
    let log = Log::create(disk.dir(), DATABASE, SMALL).unwrap();
    disk.set_capacity(disk.used_bytes() + 8192);
    let mut appended = Vec::new();
    let refused = loop {
        let bytes = payload(appended.len() as u64, 700);
        if let Err(error) = log.reserve(bytes.len() as u64) {
            break error;
        }
        log.append(&bytes).unwrap();
        appended.push(bytes);
    };
    assert_eq!(refused.kind(), ErrorKind::Full);
    log.sync(log.end().lsn).unwrap();
    disk.set_capacity(None);
    log.reserve(700).unwrap();
    appended.push(payload(1000, 700));
    log.append(&payload(1000, 700)).unwrap();
    log.close().unwrap();
    let dir: Arc<dyn Dir> = disk.dir();
    assert_eq!(scan(&dir, START).unwrap().0, appended);
}
