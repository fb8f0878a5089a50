//! What people and machines do to the files of an open database: directories moved, deleted and replaced, lock files
//! deleted, log segments cut, sectors lost after an orderly close. Acknowledged commits survive, or a call returns an
//! error that says why they do not.

use pando::{Database, Durability, ErrorKind, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How soon a commit is refused: the files are looked after four times a second.
const SOON: Duration = Duration::from_secs(10);

/// A temporary directory, and in it the path of a database.
fn place() -> (tempfile::TempDir, PathBuf) {
    let home = tempfile::tempdir().expect("a temporary directory");
    let path = home.path().join("db");
    (home, path)
}

fn create(path: &Path, durability: Durability) -> Database {
    Database::builder().durability(durability).create(path).expect("a database")
}

/// Puts keys until one is refused; returns how many were acknowledged, and the refusal.
fn put_until_refused(db: &Database, name: &str) -> (u32, pando::Error) {
    let (table, begun) = (db.ensure_table("t").expect("a table"), Instant::now());
    for number in 0.. {
        if let Err(refusal) = db.put(&table, format!("{name}{number:08}").as_bytes(), &[7; 400]) {
            return (number, refusal);
        }
        assert!(begun.elapsed() < SOON, "{number} commits were acknowledged, and none refused");
        std::thread::sleep(Duration::from_millis(1));
    }
    unreachable!("the loop ends by a return")
}

fn assert_holds(path: &Path, name: &str, count: u32) -> Result<()> {
    let db = Database::open(path)?;
    let (table, snapshot) = (db.ensure_table("t")?, db.snapshot()?);
    for number in 0..count {
        let key = format!("{name}{number:08}");
        assert!(snapshot.get(&table, key.as_bytes())?.is_some(), "{key} of {count} is gone");
    }
    drop(snapshot);
    db.check()?;
    db.close()
}

#[test]
fn a_directory_that_was_moved_and_replaced_leaves_two_whole_databases() -> Result<()> {
    for durability in [Durability::Sync, Durability::Buffered] {
        let (home, path) = place();
        let db = create(&path, durability);
        db.ensure_table("t")?;
        let aside = home.path().join("aside");
        fs::rename(&path, &aside).expect("moved");
        let restored = create(&path, Durability::Sync);
        let table = restored.ensure_table("t")?;
        restored.put(&table, b"new00000000", b"precious")?;
        let (count, refusal) = put_until_refused(&db, "old");
        assert!(matches!(refusal.kind(), ErrorKind::Latched | ErrorKind::Io), "{refusal:?}");
        assert!(format!("{refusal:?}").contains("took the place"), "{refusal:?}");
        let closing = db.close().expect_err("closing says so, too");
        assert_eq!(closing.kind(), ErrorKind::Latched);
        restored.close()?;
        assert_holds(&path, "new", 1)?;
        assert_holds(&aside, "old", count)?;
    }
    Ok(())
}

#[test]
fn commits_to_a_deleted_directory_are_refused_and_not_as_missing() -> Result<()> {
    let (_home, path) = place();
    let db = create(&path, Durability::Sync);
    db.ensure_table("t")?;
    fs::remove_dir_all(&path).expect("deleted");
    let (_, refusal) = put_until_refused(&db, "k");
    assert!(matches!(refusal.kind(), ErrorKind::Latched | ErrorKind::Io), "{refusal:?}");
    assert_eq!(db.close().expect_err("nothing of it is left").kind(), ErrorKind::Latched);
    Ok(())
}

#[test]
fn closing_says_that_the_directory_is_gone_where_no_commit_did() -> Result<()> {
    let (_home, path) = place();
    let db = create(&path, Durability::Buffered);
    let table = db.ensure_table("t")?;
    fs::remove_dir_all(&path).expect("deleted");
    let put = db.put(&table, b"k", b"v");
    let closed = db.close();
    assert!(closed.is_err(), "{put:?}, then {closed:?}");
    Ok(())
}

#[test]
fn a_segment_that_needs_a_new_file_in_a_deleted_directory_is_no_missing_table() -> Result<()> {
    let (_home, path) = place();
    let db = create(&path, Durability::Buffered);
    let table = db.ensure_table("t")?;
    fs::remove_dir_all(&path).expect("deleted");
    // One that does not fit the segment that is ready.
    let refusal = db.put(&table, b"k", &vec![7; 900 << 10]).expect_err("no segment can be made");
    assert!(matches!(refusal.kind(), ErrorKind::Latched | ErrorKind::Io), "{refusal:?}");
    Ok(())
}

#[test]
fn a_deleted_lock_file_lets_no_second_writer_in() -> Result<()> {
    let (_home, path) = place();
    let db = create(&path, Durability::Sync);
    let table = db.ensure_table("t")?;
    fs::remove_file(path.join("lock")).expect("deleted");
    assert_eq!(Database::open(&path).expect_err("it is open").kind(), ErrorKind::Locked);
    let reader = Database::builder().read_only(true).open(&path)?;
    assert!(reader.is_beside_writer(), "the data file is locked as well");
    drop(reader);
    db.put(&table, b"k00000000", b"v")?;
    db.close()?;
    assert_holds(&path, "k", 1)
}

/// A store to a page that the file no longer has raises SIGBUS, as after a file system was shut down.
#[test]
fn a_log_segment_that_was_cut_refuses_commits_and_spares_the_process() -> Result<()> {
    let (_home, path) = place();
    let db = create(&path, Durability::Buffered);
    let table = db.ensure_table("t")?;
    for number in 0..2000_u32 {
        db.put(&table, &number.to_be_bytes(), &[7; 400])?;
    }
    for entry in fs::read_dir(&path).expect("a directory").map(|entry| entry.expect("an entry").path()) {
        if entry.file_name().is_some_and(|name| name.to_string_lossy().starts_with("log-")) {
            fs::File::options().write(true).open(&entry).expect("a segment").set_len(4096).expect("cut");
        }
    }
    let (_, refusal) = put_until_refused(&db, "k");
    let kinds = [ErrorKind::Latched, ErrorKind::Io, ErrorKind::Indeterminate];
    assert!(kinds.contains(&refusal.kind()), "{refusal:?}");
    assert_eq!(db.snapshot()?.get(&table, &7_u32.to_be_bytes())?, Some(vec![7; 400]), "reads go on");
    assert!(db.close().is_err());
    Ok(())
}

#[test]
fn a_sector_lost_after_an_orderly_close_is_corruption() -> Result<()> {
    let (_home, path) = place();
    for number in 0..60_u32 {
        let db = create(&path, Durability::Sync);
        db.put(&db.ensure_table("t")?, format!("k{number:08}").as_bytes(), &[7; 100])?;
        db.close()?;
    }
    assert_holds(&path, "k", 60)?;
    let log = path.join("log-0000000000000001");
    let whole = fs::read(&log).expect("the one segment");
    let end = whole.iter().rposition(|&byte| byte != 0).expect("it holds something");
    for sector in (0..=end / 512).rev().step_by(3) {
        let mut lost = whole.clone();
        lost[sector * 512..][..512].fill(0);
        fs::write(&log, &lost).expect("written");
        match Database::open(&path) {
            Err(error) => assert_eq!(error.kind(), ErrorKind::Corruption, "sector {sector}"),
            // The last one may hold the closing block alone, without which nothing is lost.
            Ok(db) => {
                db.close()?;
                assert_holds(&path, "k", 60)?;
            }
        }
    }
    Ok(())
}
