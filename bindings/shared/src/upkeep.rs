//! Long work, which reports how far it is and can be ended: checks, compactions, backups, restores.

use crate::failure::{Failure, Kind, Outcome};
use pando::{BackupOptions, BackupProgress, Backups, Compacted, Database, RestoreProgress};
use std::path::Path;

/// A function that gets two numbers which say how far the work is, and returns whether the work goes on.
pub type GoOn<'a> = dyn FnMut(u64, u64) -> bool + 'a;

const ENDED: &str = "the function that gets the progress has ended the work";

fn verdict(goes_on: bool) -> pando::Result<()> {
    if goes_on { Ok(()) } else { Err(pando::Error::invalid(ENDED)) }
}

/// Runs `work` with a function of the progress. An end that the function asked for is [`Kind::Interrupted`].
fn watched<T>(
    go_on: &mut GoOn<'_>,
    work: impl FnOnce(&mut dyn FnMut(u64, u64) -> pando::Result<()>) -> Outcome<T>,
) -> Outcome<T> {
    let mut is_ended = false;
    let done = work(&mut |done, expected| {
        is_ended = is_ended || !go_on(done, expected);
        verdict(!is_ended)
    });
    match done {
        Err(_) if is_ended => Err(Failure::new(Kind::Interrupted, ENDED)),
        done => done,
    }
}

/// Reads everything and verifies it; the first problem is the failure. `go_on` gets the numbers of tables and of
/// records so far.
pub fn check(db: &Database, go_on: &mut GoOn<'_>) -> Outcome<()> {
    watched(go_on, |report| {
        let mut found = db.check_all(|now| report(now.tables, now.records))?;
        if found.wrong.is_empty() { Ok(()) } else { Err(found.wrong.swap_remove(0).into()) }
    })
}

/// Makes the files as small as possible. `go_on` gets the length of the data file and how much of it is used.
pub fn compact(db: &Database, go_on: &mut GoOn<'_>) -> Outcome<Compacted> {
    watched(go_on, |report| Ok(db.compact(|now| report(now.data_file_bytes, now.data_used_bytes))?))
}

/// Adds a backup to a folder, and returns its name. `go_on` gets the bytes written and the length of a full backup.
pub fn back_up(db: &Database, folder: &Path, incremental: bool, go_on: &mut GoOn<'_>) -> Outcome<String> {
    watched(go_on, |report| {
        let backups = Backups::create(folder)?;
        let mut progress = |now: BackupProgress| report(now.bytes, now.expected_bytes);
        let mut options = BackupOptions::default().progress(&mut progress);
        if let Some(newest) = backups.newest()?.filter(|_| incremental) {
            options = options.since(&newest);
        }
        Ok(db.backup_to(&backups, options)?.name.unwrap_or_default())
    })
}

/// Restores a backup of a folder into the directory `target`, and returns the number of the last commit. `go_on` gets
/// the bytes read and the length of the backups.
pub fn restore(folder: &Path, at: Option<&str>, target: &Path, go_on: &mut GoOn<'_>) -> Outcome<u64> {
    watched(go_on, |report| {
        let progress = |now: RestoreProgress| report(now.bytes, now.expected_bytes);
        Ok(pando::restore_with(&Backups::open(folder)?, at, target, progress)?.commit)
    })
}
