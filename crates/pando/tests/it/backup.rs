//! Backups taken under load, restored and compared with the commit that they name; chains, and each member of them.

use crate::support::{Data, read_all, small};
use base::env::Random;
use io::{Dir, MemDir};
use pando::{
    BackupOptions, Backups, Database, Durability, ErrorKind, Result, TableOptions, TransactionOptions, limits,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

const TABLES: [&str; 3] = ["accounts", "blobs", "queue"];

/// What one transaction did.
#[derive(Clone, Debug)]
enum Op {
    Create(&'static str),
    Drop(&'static str),
    Put(&'static str, Vec<u8>, Vec<u8>),
    DeleteRange(&'static str, Vec<u8>, Vec<u8>),
}

/// Every commit with what it did, in any order.
type History = Mutex<Vec<(u64, Vec<Op>)>>;

/// The data after commit `through`.
fn data_at(history: &History, through: u64) -> Data {
    let mut commits = history.lock().unwrap().clone();
    commits.sort_by_key(|commit| commit.0);
    assert!(commits.iter().map(|commit| commit.0).eq(1..=commits.len() as u64), "every commit is known");
    let mut data = Data::new();
    for (_, ops) in commits.into_iter().take_while(|commit| commit.0 <= through) {
        for op in ops {
            match op {
                Op::Create(table) => drop(data.insert(table.to_owned(), Default::default())),
                Op::Drop(table) => drop(data.remove(table)),
                Op::Put(table, key, value) => drop(data.get_mut(table).unwrap().insert(key, value)),
                Op::DeleteRange(table, start, end) => {
                    data.get_mut(table).unwrap().retain(|key, _| *key < start || *key >= end);
                }
            }
        }
    }
    data
}

/// One transaction of a few operations; nothing if it met a conflict.
fn transact(db: &Database, random: &mut Random, history: &History) -> Result<()> {
    let durability = if random.chance(1, 3) { Durability::Sync } else { Durability::Buffered };
    let mut tx = db.begin_with(&TransactionOptions { durability, ..db.transaction_options() })?;
    let name = TABLES[random.below(TABLES.len() as u64) as usize];
    let mut ops = Vec::new();
    let table = match tx.table(name)? {
        Some(table) => table,
        None => {
            ops.push(Op::Create(name));
            tx.create_table(name, &TableOptions::default())?
        }
    };
    let key = |random: &mut Random| (random.below(4000) as u32).to_be_bytes().to_vec();
    if random.chance(1, 150) {
        tx.drop_table(&table)?;
        ops.push(Op::Drop(name));
    } else {
        if random.chance(1, 12) {
            let (a, b) = (key(random), key(random));
            let (start, end) = if a <= b { (a, b) } else { (b, a) };
            tx.delete_range(&table, start.clone()..end.clone())?;
            ops.push(Op::DeleteRange(name, start, end));
        }
        for _ in 0..1 + random.below(8) {
            let len = match random.below(800) {
                0 => limits::MAX_LOGGED_VALUE_BYTES as u64 + random.below(90_000),
                1..20 => 1000 + random.below(90_000),
                _ => random.below(200),
            };
            let (key, value) = (key(random), vec![random.next_u64() as u8; len as usize]);
            tx.put(&table, &key, &value)?;
            ops.push(Op::Put(name, key, value));
        }
    }
    let commit = tx.commit()?;
    history.lock().unwrap().push((commit, ops));
    Ok(())
}

fn load(db: &Database, seed: u64, transactions: usize, history: &History) {
    let mut random = Random::seeded(seed);
    for _ in 0..transactions {
        match transact(db, &mut random, history) {
            Err(error) if error.is_retryable() => {}
            done => done.unwrap(),
        }
    }
}

/// Restores the folder's backup `at` and answers what it holds, checked, with its last commit.
fn restored(backups: &Backups, at: Option<&str>) -> (u64, Data) {
    let target: Arc<dyn Dir> = Arc::new(MemDir::new());
    let report = pando::restore_in(backups, at, Arc::clone(&target)).unwrap();
    let db = small().create_in(target).unwrap();
    let commit = db.snapshot().unwrap().commit_number();
    assert_eq!(commit, report.commit);
    let data = read_all(&db).unwrap();
    assert_eq!(db.check().unwrap().orphan_units, 0);
    db.put(&db.ensure_table("afterwards").unwrap(), b"k", b"v").unwrap();
    db.checkpoint().unwrap();
    db.check().unwrap();
    db.close().unwrap();
    (commit, data)
}

#[test]
fn every_backup_taken_under_load_restores_to_the_commit_it_names() {
    for seed in 1..=2 {
        println!("seed {seed}");
        let db = small().page_bytes(4096).create_in(Arc::new(MemDir::new())).unwrap();
        let (history, done) = (History::default(), AtomicBool::new(false));
        let backups = Backups::in_dir(Arc::new(MemDir::new()));
        thread::scope(|scope| {
            let writers: Vec<_> = (0..3)
                .map(|writer| {
                    let (db, history) = (&db, &history);
                    scope.spawn(move || load(db, seed * 100 + writer, 500, history))
                })
                .collect();
            scope.spawn(|| {
                while !done.load(Ordering::SeqCst) {
                    db.checkpoint().unwrap();
                    thread::sleep(std::time::Duration::from_millis(3));
                }
            });
            let mut random = Random::seeded(seed);
            let mut taken = 0;
            while taken < 5 || !writers.iter().all(|writer| writer.is_finished()) {
                taken += 1;
                let mut options = BackupOptions::default();
                if let Some(newest) = backups.newest().unwrap().filter(|_| random.chance(4, 5)) {
                    options = options.since(&newest);
                }
                if random.chance(1, 2) {
                    options = options.rate_bytes(8 << 20);
                }
                db.backup_to(&backups, options).unwrap();
            }
            done.store(true, Ordering::SeqCst);
        });
        assert_eq!(db.stats().unwrap().pinned, 0);
        db.check().unwrap();
        let entries = backups.list().unwrap();
        assert!(entries.len() > 4, "{} backups", entries.len());
        for entry in entries {
            let info = entry.info.unwrap();
            let (commit, data) = restored(&backups, Some(&entry.name));
            assert_eq!(commit, info.commit());
            assert!(data == data_at(&history, commit), "seed {seed}: {} at commit {commit}", entry.name);
        }
        db.close().unwrap();
    }
}

/// A database with some of everything, and its folder.
fn sample() -> (Database, Backups) {
    let db = small().page_bytes(4096).create_in(Arc::new(MemDir::new())).unwrap();
    let history = History::default();
    load(&db, 9, 60, &history);
    db.checkpoint().unwrap();
    load(&db, 10, 20, &history);
    (db, Backups::in_dir(Arc::new(MemDir::new())))
}

#[test]
fn a_difference_leaves_out_what_did_not_change() {
    let (db, backups) = sample();
    let table = db.ensure_table("accounts").unwrap();
    for key in 0..3000u32 {
        db.put(&table, &key.to_be_bytes(), &[7; 100]).unwrap();
    }
    db.checkpoint().unwrap();
    let full = db.backup_to(&backups, BackupOptions::default()).unwrap();
    let base = backups.newest().unwrap().unwrap();
    let same = db.backup_to(&backups, BackupOptions::default().since(&base)).unwrap();
    assert_eq!((same.pages, same.log_commits, same.is_full), (0, 0, false));
    db.put(&table, &5u32.to_be_bytes(), b"changed").unwrap();
    db.checkpoint().unwrap();
    let base = backups.newest().unwrap().unwrap();
    let little = db.backup_to(&backups, BackupOptions::default().since(&base)).unwrap();
    assert!(little.pages > 0 && little.pages < 10 && full.pages > 80, "{little:?} {full:?}");
    assert_eq!(restored(&backups, None).1, read_all(&db).unwrap());
    assert_eq!(restored(&backups, Some("1")).0, full.commit);
    assert_eq!(restored(&backups, Some("backup-000002-incremental")).0, same.commit);
    assert_eq!(backups.chain(Some("7")).unwrap_err().kind(), ErrorKind::Missing);
}

#[test]
fn a_restored_database_begins_a_chain_of_its_own() {
    let (db, backups) = sample();
    db.backup_to(&backups, BackupOptions::default()).unwrap();
    let target: Arc<dyn Dir> = Arc::new(MemDir::new());
    pando::restore_in(&backups, None, Arc::clone(&target)).unwrap();
    let copy = small().create_in(target).unwrap();
    let base = backups.newest().unwrap().unwrap();
    let refused = copy.backup_to(&backups, BackupOptions::default().since(&base)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Mismatch);
    assert!(refused.message().contains("restored"), "{refused}");
    let other = small().create_in(Arc::new(MemDir::new())).unwrap();
    let refused = other.backup_to(&backups, BackupOptions::default().since(&base)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Mismatch);
    assert_eq!(backups.list().unwrap().len(), 1, "what was refused leaves nothing");
    db.backup_to(&backups, BackupOptions::default().since(&base)).unwrap();
    copy.backup_to(&backups, BackupOptions::default()).unwrap();
    let base = backups.newest().unwrap().unwrap();
    copy.backup_to(&backups, BackupOptions::default().since(&base)).unwrap();
    assert_eq!(restored(&backups, None).1, read_all(&copy).unwrap());
    assert_eq!(restored(&backups, Some("2")).1, read_all(&db).unwrap());
}

#[test]
fn an_empty_database_is_backed_up_too() {
    let db = small().create_in(Arc::new(MemDir::new())).unwrap();
    let backups = Backups::in_dir(Arc::new(MemDir::new()));
    db.backup_to(&backups, BackupOptions::default()).unwrap();
    assert_eq!(restored(&backups, None), (0, Data::new()));
    db.ensure_table("t").unwrap();
    let base = backups.newest().unwrap().unwrap();
    db.backup_to(&backups, BackupOptions::default().since(&base)).unwrap();
    assert_eq!(restored(&backups, None).1, read_all(&db).unwrap());
}

#[test]
fn closing_ends_a_backup() {
    let (db, _) = sample();
    let closes = db.clone();
    let mut progress = |_| closes.close().unwrap();
    let mut bytes = Vec::new();
    let ended = db.backup(BackupOptions::default().progress(&mut progress), &mut bytes);
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn what_would_wait_for_a_check_fails_within_it() {
    let (db, _) = sample();
    let mut calls = 0;
    let checked = db.check_all(|_| {
        calls += 1;
        let refused =
            [db.checkpoint().map(drop), db.compact(|_| ()).map(drop), db.check().map(drop), db.close()];
        assert!(refused.iter().all(|done| done.as_ref().unwrap_err().kind() == ErrorKind::Invalid));
        db.tables().map(drop)
    });
    assert_eq!(checked.unwrap().count, 0);
    assert!(calls > 0);
    // Whatever writes checkpoints by itself still does.
    let table = db.ensure_table("accounts").unwrap();
    let (begun, before) = (std::time::Instant::now(), db.stats().unwrap().checkpoints);
    while db.stats().unwrap().checkpoints == before {
        db.put(&table, b"k", &[7; 1000]).unwrap();
        assert!(begun.elapsed().as_secs() < 60, "no checkpoint is made");
    }
    db.checkpoint().unwrap();
    db.check().unwrap();
    db.close().unwrap();
}

#[test]
fn an_error_of_the_progress_ends_the_work() {
    let refuse = |bytes: u64| match bytes < 10_000 {
        true => Ok(()),
        false => Err(pando::Error::new(ErrorKind::Full, "enough")),
    };
    let (db, backups) = sample();
    db.backup_to(&backups, BackupOptions::default()).unwrap();
    let count = backups.list().unwrap().len();
    let mut progress = |now: pando::BackupProgress| refuse(now.bytes);
    let ended = db.backup_to(&backups, BackupOptions::default().progress(&mut progress));
    assert!(ended.unwrap_err().message().contains("enough"));
    assert_eq!(backups.list().unwrap().len(), count, "no file is left");
    assert!(db.check_all(|_| refuse(10_000)).unwrap_err().message().contains("enough"));

    let (folder, target) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let backups = pando::Backups::create(folder.path()).unwrap();
    let taken = db.backup_to(&backups, BackupOptions::default()).unwrap();
    let ended = pando::restore_with(&backups, None, target.path(), |now| refuse(now.bytes));
    assert!(ended.unwrap_err().message().contains("enough"));
    assert!(pando::Database::open(target.path()).is_err());
    let target = tempfile::tempdir().unwrap();
    let mut seen = Vec::new();
    pando::restore_with(&backups, None, target.path(), |now| seen.push((now.bytes, now.expected_bytes)))
        .unwrap();
    assert!(seen.len() > 1 && seen.is_sorted() && seen.last() == Some(&(taken.bytes, taken.bytes)));
    assert!(pando::Database::open(target.path()).is_ok());
}

/// The copy has the same id and the same tables, but not the space in which the value lies.
#[test]
fn a_value_begun_in_a_database_is_not_put_into_a_copy_of_it() {
    let (db, backups) = sample();
    let table = db.ensure_table("accounts").unwrap();
    db.backup_to(&backups, BackupOptions::default()).unwrap();
    let target: Arc<dyn Dir> = Arc::new(MemDir::new());
    pando::restore_in(&backups, None, Arc::clone(&target)).unwrap();
    let copy = small().create_in(target).unwrap();
    for bytes in [10, 3 << 20] {
        let mut value = db.begin().unwrap().owned_value_writer(&table, b"long").unwrap();
        value.append(&vec![7; bytes]).unwrap();
        let mut tx = copy.begin().unwrap();
        assert_eq!(tx.finish_value(value).unwrap_err().kind(), ErrorKind::Invalid);
        tx.commit().unwrap();
        assert_eq!(copy.snapshot().unwrap().value_len(&table, b"long").unwrap(), None);
    }
}

#[test]
fn a_rate_at_which_a_backup_would_never_end_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let backups = Backups::create(dir.path().join("backups")).unwrap();
    let db = Database::builder().in_memory().unwrap();
    for rate in [0, 1, BackupOptions::LEAST_RATE_BYTES - 1] {
        let refused = db.backup_to(&backups, BackupOptions::default().rate_bytes(rate)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
    }
    db.backup_to(&backups, BackupOptions::default().rate_bytes(BackupOptions::LEAST_RATE_BYTES)).unwrap();
    assert_eq!(backups.list().unwrap().len(), 1, "what was refused left nothing");
}
