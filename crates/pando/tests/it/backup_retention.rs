//! Retention of backups, against its rules, in folders with any chains.

use crate::support::small;
use base::env::Random;
use io::{Dir, MemDir};
use pando::{BackupOptions, Backups, Database, ErrorKind, Retention};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

fn at(hour: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_000_000 + hour * 3600)
}

/// The value of the only record in a restored backup.
fn restored(backups: &Backups, name: &str) -> u64 {
    let target: Arc<dyn Dir> = Arc::new(MemDir::new());
    pando::restore_in(backups, Some(name), Arc::clone(&target)).unwrap();
    let db = small().open_in(target).unwrap();
    let value = db.get(&db.table("t").unwrap().unwrap(), b"k").unwrap().unwrap();
    u64::from_be_bytes(value.try_into().unwrap())
}

/// The names of a folder's backups, oldest first.
fn names(backups: &Backups) -> Vec<String> {
    backups.list().unwrap().into_iter().map(|entry| entry.name).collect()
}

fn add(db: &Database, backups: &Backups, hour: u64, is_full: bool) -> String {
    let base = backups.newest().unwrap().filter(|_| !is_full);
    let options = BackupOptions::default().created(at(hour));
    let options = if let Some(base) = &base { options.since(base) } else { options };
    db.backup_to(backups, options).unwrap().name.unwrap()
}

/// What remains of the backups `before`: each that is selected, and from each back to its full one.
fn kept(
    before: &[String],
    keep: Retention,
    now: u64,
    written: &BTreeMap<String, (u64, bool)>,
) -> Vec<String> {
    let mut kept = Vec::new();
    // Whether the backup after this one is kept and builds on it.
    let mut is_base = false;
    for (from_end, name) in before.iter().rev().enumerate() {
        let (hour, is_full) = written[name];
        let is_selected = match keep {
            Retention::Newest(count) => from_end < count,
            Retention::Younger(age) => Duration::from_secs((now - hour) * 3600) <= age,
            _ => unreachable!("there are two kinds"),
        };
        if is_selected || is_base || from_end == 0 {
            kept.push(name.clone());
            is_base = !is_full;
        } else {
            is_base = false;
        }
    }
    kept.reverse();
    kept
}

#[test]
fn what_is_kept_can_be_restored_and_what_is_not_needed_goes() {
    for seed in 0..12 {
        let mut random = Random::seeded(seed);
        let db = small().create_in(Arc::new(MemDir::new())).unwrap();
        let table = db.ensure_table("t").unwrap();
        let backups = Backups::in_dir(Arc::new(MemDir::new()));
        let mut written = BTreeMap::new();
        for hour in 0..30u64 {
            db.put(&table, b"k", hour.to_be_bytes()).unwrap();
            let is_full = hour == 0 || random.chance(1, 4);
            written.insert(add(&db, &backups, hour, is_full), (hour, is_full));
            if !random.chance(1, 3) {
                continue;
            }
            let number = 1 + random.below(9);
            let keep = match random.chance(1, 2) {
                true => Retention::Newest(number as usize),
                false => Retention::Younger(Duration::from_secs(number * 3600)),
            };
            let before = names(&backups);
            let removed = backups.prune(db.identity(), keep, at(hour)).unwrap();
            let after = names(&backups);
            let expected = kept(&before, keep, hour, &written);
            assert_eq!(after, expected, "seed {seed}, hour {hour}, {keep:?}");
            assert_eq!(removed.len() + after.len(), before.len());
            assert!(removed.iter().rev().is_sorted(), "newest first: {removed:?}");
        }
        for name in names(&backups) {
            assert_eq!(restored(&backups, &name), written[&name].0, "seed {seed}, {name}");
        }
    }
}

#[test]
fn damaged_backups_stay_and_a_busy_folder_is_left_alone() {
    let db = small().create_in(Arc::new(MemDir::new())).unwrap();
    db.ensure_table("t").unwrap();
    let dir = Arc::new(MemDir::new());
    let backups = Backups::in_dir(Arc::clone(&dir) as Arc<dyn Dir>);
    for hour in 0..3 {
        add(&db, &backups, hour, true);
    }
    let first = dir.open_to_read("backup-000001-full").unwrap();
    let mut bytes = vec![0; first.len().unwrap() as usize];
    first.read_exact_at(&mut bytes, 0).unwrap();
    drop(first);
    dir.remove("backup-000001-full").unwrap();
    dir.create("backup-000001-full").unwrap().write_at(&bytes[..bytes.len() / 2], 0).unwrap();
    let lock = dir.lock("backups.lock").unwrap();
    let refused = backups.prune(db.identity(), Retention::Newest(1), at(3)).unwrap_err();
    assert_eq!((refused.kind(), names(&backups).len()), (ErrorKind::Locked, 3));
    drop(lock);
    assert_eq!(backups.prune(db.identity(), Retention::Newest(1), at(3)).unwrap(), ["backup-000002-full"]);
    assert_eq!(names(&backups), ["backup-000001-full", "backup-000003-full"]);
    // The clock was set back: nothing is old.
    add(&db, &backups, 9, true);
    assert_eq!(backups.prune(db.identity(), Retention::Younger(Duration::ZERO), at(2)).unwrap().len(), 0);
}

#[test]
fn a_folder_takes_one_backup_at_a_time() {
    let db = small().create_in(Arc::new(MemDir::new())).unwrap();
    db.ensure_table("t").unwrap();
    let backups = Backups::in_dir(Arc::new(MemDir::new()));
    let mut refusals = Vec::new();
    let mut meanwhile = |_| {
        refusals.push(db.backup_to(&backups, BackupOptions::default()).map(drop));
        refusals.push(backups.prune(db.identity(), Retention::Newest(1), at(0)).map(drop));
    };
    db.backup_to(&backups, BackupOptions::default().progress(&mut meanwhile)).unwrap();
    let kinds: Vec<_> = refusals.into_iter().map(|refused| refused.unwrap_err().kind()).collect();
    assert!(!kinds.is_empty() && kinds.iter().all(|kind| *kind == ErrorKind::Locked), "{kinds:?}");
    assert_eq!(names(&backups), ["backup-000001-full"]);
}

#[test]
fn backups_of_other_databases_stay_and_are_not_counted() {
    let [one, other] = [(); 2].map(|()| small().create_in(Arc::new(MemDir::new())).unwrap());
    let backups = Backups::in_dir(Arc::new(MemDir::new()));
    add(&one, &backups, 0, true);
    for hour in 1..3 {
        add(&other, &backups, hour, true);
    }
    let newest = Retention::Newest(1);
    assert_eq!(backups.prune(other.identity(), newest, at(3)).unwrap(), ["backup-000002-full"]);
    assert_eq!(backups.prune(other.identity(), Retention::Younger(Duration::ZERO), at(9)).unwrap().len(), 0);
    // The newest of each database stays, wherever it is in the folder.
    assert_eq!(backups.prune(one.identity(), newest, at(3)).unwrap().len(), 0);
    assert_eq!(names(&backups), ["backup-000001-full", "backup-000003-full"]);
    let target: Arc<dyn Dir> = Arc::new(MemDir::new());
    pando::restore_in(&backups, Some("1"), Arc::clone(&target)).unwrap();
    // A restored copy is the same database.
    let copy = small().open_in(target).unwrap();
    add(&copy, &backups, 4, true);
    assert_eq!(backups.prune(copy.identity(), newest, at(4)).unwrap(), ["backup-000001-full"]);
}
