//! Backups and restores whose every call fails in turn, and that are cut off at every moment.

use crate::support::{Data, read_all, small};
use base::env::Random;
use io::sim::{CallKind, Fault, FaultError, ImageKind, SimDisk};
use pando::{BackupOptions, Backups, Database, ErrorKind, Result};

/// A database on `disk` with two states, and its data.
fn database(disk: &SimDisk) -> Database {
    let db = small().page_bytes(4096).create_in(disk.dir()).unwrap();
    let table = db.ensure_table("t").unwrap();
    for key in 0..60u32 {
        db.put(&table, &key.to_be_bytes(), &vec![5; if key % 20 == 0 { 6000 } else { 40 }]).unwrap();
    }
    db.checkpoint().unwrap();
    // Enough for several log segments.
    for key in 0..30u32 {
        db.put(&table, &key.to_be_bytes(), &[6; 700]).unwrap();
    }
    db
}

fn add(db: &Database, backups: &Backups) -> Result<()> {
    let base = backups.newest()?;
    let options = match &base {
        Some(base) => BackupOptions::default().since(base),
        None => BackupOptions::default(),
    };
    db.backup_to(backups, options).map(drop)
}

/// Fails the first call of each kind on `disk`, then the second, until none is met any more. `attempt` is run each
/// time, and `judge` afterwards with its result. Calls of the kind `but` are left out.
fn every_call(
    disk: &SimDisk,
    but: Option<CallKind>,
    mut attempt: impl FnMut() -> Result<()>,
    mut judge: impl FnMut(&str, Result<()>),
) -> u64 {
    let mut failed = 0;
    for call in CallKind::EACH.into_iter().filter(|call| Some(*call) != but) {
        for (error, sticky) in [(FaultError::Io, false), (FaultError::Full, true)] {
            for nth in 1..2000 {
                disk.inject(Fault { call, nth, sticky, error });
                let hits = disk.faults_hit();
                let outcome = attempt();
                let hit = disk.faults_hit() > hits;
                disk.clear_faults();
                let what = format!("{call:?} {nth}, {error:?}, sticky: {sticky}");
                if !hit {
                    outcome.unwrap();
                    break;
                }
                failed += 1;
                judge(&what, outcome);
            }
        }
    }
    failed
}

fn is_clean(error: &pando::Error) -> bool {
    matches!(error.kind(), ErrorKind::Io | ErrorKind::Full)
}

#[test]
fn a_failing_call_fails_the_backup_and_nothing_else() {
    let (source, target) = (SimDisk::new(), SimDisk::new());
    source.keep_history(false);
    target.keep_history(false);
    let db = database(&source);
    let data = read_all(&db).unwrap();
    let backups = Backups::in_dir(target.dir());
    let sound = |what: &str| {
        assert_eq!(db.stats().unwrap().pinned, 0, "{what}");
        assert_eq!(read_all(&db).unwrap(), data, "{what}");
        assert!(backups.list().unwrap().iter().all(|entry| entry.info.is_ok()), "{what}");
    };
    let judge = |what: &str, outcome: Result<()>| {
        // A failed removal of what is left over, for one, fails nothing.
        assert!(outcome.as_ref().err().is_none_or(is_clean), "{what}: {outcome:?}");
        sound(what);
    };
    let failed = every_call(&target, None, || add(&db, &backups), judge);
    assert!(failed > 20, "{failed} failed calls of the target");
    // The log thread looks now and then whether the directory is in its place. If it is not, writing stops.
    let failed = every_call(&source, Some(CallKind::InPlace), || add(&db, &backups), judge);
    assert!(failed > 10, "{failed} failed calls of the database");
    db.put(&db.ensure_table("t").unwrap(), b"goes on", b"yes").unwrap();
    db.checkpoint().unwrap();
    db.check().unwrap();
    add(&db, &backups).unwrap();
    assert_eq!(restored(&backups, &SimDisk::new()).unwrap(), read_all(&db).unwrap());
}

/// Restores the newest backup onto `disk` and reads it.
fn restored(backups: &Backups, disk: &SimDisk) -> Result<Data> {
    pando::restore_in(backups, None, disk.dir())?;
    opened(disk)
}

fn opened(disk: &SimDisk) -> Result<Data> {
    let db = small().open_in(disk.dir())?;
    let data = read_all(&db);
    db.check()?;
    db.close()?;
    data
}

/// A folder with a chain of two, and what is in its newest.
fn chain(folder: &SimDisk) -> (Backups, Data) {
    let db = database(&SimDisk::new());
    let backups = Backups::in_dir(folder.dir());
    add(&db, &backups).unwrap();
    db.put(&db.ensure_table("t").unwrap(), b"difference", &[9; 3000]).unwrap();
    db.checkpoint().unwrap();
    add(&db, &backups).unwrap();
    (backups, read_all(&db).unwrap())
}

#[test]
fn a_failing_call_fails_the_restore_and_shows_nothing_by_halves() {
    let folder = SimDisk::new();
    let (backups, data) = chain(&folder);
    let failed = every_call(
        &folder,
        None,
        || restored(&backups, &SimDisk::new()).map(drop),
        |what, outcome| assert!(is_clean(&outcome.expect_err(what)), "{what}"),
    );
    assert!(failed > 20, "{failed} failed calls of the folder");
    let mut failed = 0;
    for call in CallKind::EACH {
        for nth in 1..2000 {
            let target = SimDisk::new();
            target.inject(Fault { call, nth, sticky: nth % 2 == 0, error: FaultError::Io });
            let outcome = pando::restore_in(&backups, None, target.dir());
            let hit = target.faults_hit() > 0;
            target.clear_faults();
            match (&outcome, opened(&target)) {
                (Ok(_), Ok(found)) => assert_eq!(found, data),
                // The last sync of the directory failed: the database is there, its name not yet for certain.
                (Err(error), Ok(found)) if call == CallKind::DirSync && is_clean(error) => {
                    assert_eq!(found, data)
                }
                (Err(error), Err(refused)) if is_clean(error) => {
                    let kinds = [ErrorKind::Missing, ErrorKind::Corruption];
                    assert!(kinds.contains(&refused.kind()), "{call:?} {nth}: {refused:?}");
                }
                other => panic!("{call:?} {nth}: {other:?}"),
            }
            if !hit {
                break;
            }
            failed += 1;
        }
    }
    assert!(failed > 40, "{failed} failed calls of the target");
}

#[test]
fn a_restore_cut_off_at_any_moment_is_refused_or_whole() {
    let (backups, data) = chain(&SimDisk::new());
    let target = SimDisk::new();
    pando::restore_in(&backups, None, target.dir()).unwrap();
    let (mut random, end) = (Random::seeded(45), target.event_count());
    let (mut whole, mut refused) = (0, 0);
    for at in 0..=end {
        for image in target.images(at, &ImageKind::all(2), &mut random) {
            match opened(&image.restore()) {
                Ok(found) => {
                    whole += 1;
                    assert_eq!(found, data, "seed 45: event {at} of {end}, {}", image.fate());
                }
                Err(error) => {
                    refused += 1;
                    let kinds = [ErrorKind::Missing, ErrorKind::Corruption];
                    let known = kinds.contains(&error.kind()) && at < end;
                    assert!(known, "seed 45: event {at} of {end}, {}: {error:?}", image.fate());
                }
            }
        }
    }
    assert!(whole > 4 && refused > 100, "{whole} whole, {refused} refused");
}

#[test]
fn a_backup_cut_off_at_any_moment_leaves_the_folder_sound() {
    let folder = SimDisk::new();
    let db = database(&SimDisk::new());
    let backups = Backups::in_dir(folder.dir());
    add(&db, &backups).unwrap();
    let (first, begin) = (read_all(&db).unwrap(), folder.event_count());
    db.put(&db.ensure_table("t").unwrap(), b"difference", &[9; 3000]).unwrap();
    db.checkpoint().unwrap();
    add(&db, &backups).unwrap();
    let (second, end) = (read_all(&db).unwrap(), folder.event_count());
    let mut random = Random::seeded(46);
    for at in begin..=end {
        for image in folder.images(at, &ImageKind::all(1), &mut random) {
            let disk = image.restore();
            let backups = Backups::in_dir(disk.dir());
            let entries = backups.list().unwrap();
            let place = format!("seed 46: event {at} of {end}, {}", image.fate());
            assert!(entries.iter().all(|entry| entry.info.is_ok()), "{place}: {entries:?}");
            let found = restored(&backups, &SimDisk::new()).unwrap();
            assert!(found == second || (found == first && at < end), "{place}");
            // The next backup goes on from there.
            add(&db, &backups).unwrap();
            assert_eq!(restored(&backups, &SimDisk::new()).unwrap(), second, "{place}");
        }
    }
}
