//! Bit rot: a closed database with one byte changed must be refused, or hold exactly what it held.
//!
//! Crashes leave whole sectors of what was written, so the checksums of pages and superblocks are hardly put to the
//! test by them. Here each file of a seed's last state has single bytes flipped, one at a time: opening, reading all of
//! it and checking it must end in a typed error, or find nothing missing and nothing else.

use crate::schedule::{self, Run};
use base::seams::Random;
use base::{Error, ErrorKind};
use io::sim::{Fate, Image, SimDisk};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What flipping bytes came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rotted {
    /// Bytes flipped, one at a time.
    pub flips: u64,
    /// Refused with a typed error when opening, reading or checking.
    pub refused: u64,
    /// Without effect: in a place that nothing needs.
    pub harmless: u64,
}

/// Runs the workload of `seed`, closes, and flips `flips` bytes.
///
/// # Errors
/// The first flip that went unnoticed, or panicked.
pub fn seed(seed: u64, flips: u64, rotted: &mut Rotted) -> Result<(), String> {
    let mut flip = String::new();
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let run = schedule::run(seed)?;
        let image = closed(&run)?;
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

/// The disk as the last session left it, recovered once and closed.
fn closed(run: &Run) -> Result<Image, String> {
    let last = run.sessions.last().ok_or("a run has sessions")?;
    let disk = last.disk.image(last.last, Fate::Everything).restore();
    let store = store::open(disk.dir(), &run.options).map_err(|error| format!("opening: {error:?}"))?;
    store.close().map_err(|error| format!("closing: {error:?}"))?;
    Ok(disk.image(disk.event_count(), Fate::Everything))
}

fn one(image: &Image, run: &Run, random: &mut Random, rotted: &mut Rotted) -> Result<String, String> {
    let names: Vec<_> = image.names().collect();
    let name = names[random.below(names.len() as u64) as usize];
    let disk = image.restore();
    let flip = flip_byte(&disk, name, random).map_err(|error| format!("flipping: {error:?}"))?;
    rotted.flips += 1;
    match read_all(&disk, run) {
        Ok(()) => rotted.harmless += 1,
        Err(Found::Refused) => rotted.refused += 1,
        Err(Found::Wrong(wrong)) => return Err(format!("{flip}: {wrong}")),
    }
    Ok(flip)
}

/// Flips bits of one byte that is not zero, where there is one nearby: most of a file is room.
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
            // The message of a refusal says so; a difference in what was read does not.
            (_, Err(what)) if what.contains("Corruption") => Err(Found::Refused),
            (_, Err(what)) => Err(Found::Wrong(what)),
            (false, Ok(())) => Err(Found::Wrong(format!("commit {commits} of {}", run.model.last()))),
        }
    });
    // Closing may meet the damage as well; it is the reads that must not be wrong.
    let _ = store.close();
    read.and(checked.map(drop))
}
