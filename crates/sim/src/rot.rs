//! Bit rot: a closed database that was damaged must be refused, or hold exactly what it held.
//!
//! Crashes leave whole sectors, so they hardly exercise the checksums of pages and superblocks. This module flips
//! single bytes in each file of a seed's last state, one at a time. It also zeroes each block of its log, alone and
//! with all blocks after it, and cuts the log off there. Opening, reading everything and checking must end in a typed
//! error, or find exactly the same content: a log that was closed in order has no torn tail.

use crate::history::Run;
use crate::perform::perform;
use crate::schedule;
use crate::workload::{Op, TABLES};
use base::env::Random;
use base::{Error, ErrorKind};
use io::sim::{Fate, Image, SimDisk};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use store::{Store, Transaction, TransactionOptions};

/// The number of bytes of a log that are lost at once.
const BLOCK_BYTES: usize = 4096;

/// The counts of the damage.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rotted {
    /// The bytes that were flipped, one at a time.
    pub flips: u64,
    /// The blocks of the log that were zeroed or cut off.
    pub lost_blocks: u64,
    /// The damage that was refused with a typed error when opening, reading or checking.
    pub refused: u64,
    /// The damage without effect, in a place that nothing needs.
    pub harmless: u64,
}

/// Runs the workload of `seed`, closes the database, and flips `flips` bytes.
///
/// # Errors
/// The first flip that was not detected, or that caused a panic.
pub fn seed(seed: u64, flips: u64, rotted: &mut Rotted) -> Result<(), String> {
    let mut flip = String::new();
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut run = schedule::run(seed)?;
        let image = closed(&mut run)?;
        lose_blocks(&image, &run, rotted, &mut flip)?;
        let mut random = Random::seeded(seed ^ 0x726f_7474_656e);
        for _ in 0..flips {
            flip = one(&image, &run, &mut random, rotted)?;
        }
        Ok::<(), String>(())
    }));
    let again = format!("again: cargo run --release -q -p pando-sim -- rot --seeds 1 --first-seed {seed}");
    match outcome {
        Ok(Ok(())) => Ok(()),
        Ok(Err(what)) => Err(format!("seed {seed}: {what}\n  {again} --flips {flips}")),
        Err(_) => Err(format!("seed {seed}: panic at the flip after {flip}\n  {again} --flips {flips}")),
    }
}

/// The number of commits between the last opening and its close, which a torn tail would lose.
const LAST_COMMITS: u32 = 40;

/// Returns the disk of the last session after it was recovered once, written to and closed.
fn closed(run: &mut Run) -> Result<Image, String> {
    let last = run.sessions.last().ok_or("a run has sessions")?;
    let disk = last.disk.image(last.last, Fate::Everything).restore();
    let store = store::open(disk.dir(), &run.options).map_err(|error| format!("opening: {error:?}"))?;
    for number in 0..LAST_COMMITS {
        commit(&store, run, number)?;
    }
    store.close().map_err(|error| format!("closing: {error:?}"))?;
    Ok(disk.image(disk.event_count(), Fate::Everything))
}

/// Makes one durable commit, in the engine and in the model.
fn commit(store: &Arc<Store>, run: &mut Run, number: u32) -> Result<(), String> {
    let failed = |error: Error| format!("commit {number} before the close: {error:?}");
    let options = TransactionOptions::default();
    let mut tx = Transaction::begin(store, options).map_err(failed)?;
    let mut draft = run.model.begin(tx.time_ms());
    let put = Op::Put(TABLES[1], format!("last-{number:04}").into_bytes().into(), vec![7; 150].into());
    perform(&mut tx, &mut draft, &put).map_err(|trouble| trouble.to_string())?;
    let applied = tx.apply().map_err(failed)?;
    let (isolation, durability) = (options.isolation, options.durability);
    run.model.commit(&draft, applied.ts(), isolation, durability, store.time_ms())?;
    store.acknowledge(applied).map(drop).map_err(failed)
}

/// Zeroes and cuts off blocks of the log's files that are in use.
fn lose_blocks(image: &Image, run: &Run, rotted: &mut Rotted, what: &mut String) -> Result<(), String> {
    for name in image.names().filter(|name| name.starts_with("log-")) {
        let bytes = image.read(name).unwrap_or_default();
        for (block, old) in bytes.chunks(BLOCK_BYTES).enumerate() {
            if old.iter().all(|&byte| byte == 0) {
                continue;
            }
            let at = block * BLOCK_BYTES;
            for (how, end) in
                [("zeroed", Some(at + old.len())), ("zeroed to the end", Some(bytes.len())), ("cut", None)]
            {
                *what = format!("{name} {how} at {at}");
                let disk = image.restore();
                let lost = disk.dir().open(name).and_then(|file| match end {
                    Some(end) => file.write_at(&vec![0; end - at], at as u64),
                    None => file.set_len(at as u64),
                });
                lost.map_err(|error| format!("{what}: {error:?}"))?;
                rotted.lost_blocks += 1;
                judge(&disk, run, rotted).map_err(|wrong| format!("{what}: {wrong}"))?;
            }
        }
    }
    Ok(())
}

fn one(image: &Image, run: &Run, random: &mut Random, rotted: &mut Rotted) -> Result<String, String> {
    let names: Vec<_> = image.names().collect();
    let name = names[random.below(names.len() as u64) as usize];
    let disk = image.restore();
    let flip = flip_byte(&disk, name, random).map_err(|error| format!("flipping: {error:?}"))?;
    rotted.flips += 1;
    judge(&disk, run, rotted).map_err(|wrong| format!("{flip}: {wrong}"))?;
    Ok(flip)
}

/// Counts the effect of the damage. Returns an error if it was not detected.
fn judge(disk: &SimDisk, run: &Run, rotted: &mut Rotted) -> Result<(), String> {
    match read_all(disk, run) {
        Ok(()) => rotted.harmless += 1,
        Err(Found::Refused) => rotted.refused += 1,
        Err(Found::Wrong(wrong)) => return Err(wrong),
    }
    Ok(())
}

/// Flips bits of one byte, a nonzero one if there is one nearby, because most of a file is unused.
fn flip_byte(disk: &SimDisk, name: &str, random: &mut Random) -> Result<String, Error> {
    let file = disk.dir().open(name)?;
    let offset = random.below(file.len()?.max(1));
    let mut bytes = vec![0; 512];
    let read = file.read_at(&mut bytes, offset)?;
    let ahead = bytes[..read].iter().position(|&byte| byte != 0).unwrap_or(0);
    let flipped = bytes[ahead] ^ (1 << random.below(8));
    let offset = offset + ahead as u64;
    file.write_at(&[flipped], offset)?;
    Ok(format!("byte {offset} of {name}"))
}

enum Found {
    Refused,
    Wrong(String),
}

fn read_all(disk: &SimDisk, run: &Run) -> Result<(), Found> {
    let refused = |error: Error| match error.kind() {
        ErrorKind::Corruption | ErrorKind::Foreign => Found::Refused,
        _ => Found::Wrong(format!("{error:?}")),
    };
    let store = store::open(disk.dir(), &run.options).map_err(refused)?;
    let checked = store.check().map_err(refused);
    let read = store.snapshot().map_err(refused).and_then(|snapshot| {
        let commits = snapshot.ts().0;
        let expected = run.model.newest();
        match (commits == run.model.last(), expected.check(&snapshot)) {
            (true, Ok(())) => Ok(()),
            // The message of a refusal contains the kind; a difference in what was read does not.
            (_, Err(what)) if what.contains("Corruption") => Err(Found::Refused),
            (_, Err(what)) => Err(Found::Wrong(what)),
            (false, Ok(())) => Err(Found::Wrong(format!("commit {commits} of {}", run.model.last()))),
        }
    });
    // Closing may meet the damage as well; only the reads must not be wrong.
    let _ = store.close();
    read.and(checked.map(drop))
}
