//! Backups with a byte changed, cut, added or left out, chains in disorder: refused, and no database becomes visible.

use crate::support::small;
use io::{Dir, MemDir};
use pando::{BackupOptions, Backups, Database, ErrorKind};
use std::sync::Arc;

/// A tiny database with a tree, a large value and commits in its log.
fn tiny() -> Database {
    let db = small().page_bytes(4096).create_in(Arc::new(MemDir::new())).unwrap();
    let table = db.ensure_table("t").unwrap();
    db.put(&table, b"large", &[3; 1500]).unwrap();
    for key in 0..20u8 {
        db.put(&table, &[key], &[key; 20]).unwrap();
    }
    db.checkpoint().unwrap();
    db.put(&table, b"later", b"in the log").unwrap();
    db
}

/// A chain of three, each as its bytes.
fn chain() -> Vec<Vec<u8>> {
    let (db, dir) = (tiny(), Arc::new(MemDir::new()));
    let backups = Backups::in_dir(dir.clone());
    db.backup_to(&backups, BackupOptions::default()).unwrap();
    for key in 0..2u8 {
        db.put(&db.ensure_table("t").unwrap(), &[100 + key], b"more").unwrap();
        db.checkpoint().unwrap();
        let base = backups.newest().unwrap().unwrap();
        db.backup_to(&backups, BackupOptions::default().since(&base)).unwrap();
    }
    let files = dir.files();
    files.into_iter().filter(|(name, _)| name.starts_with("backup-")).map(|(_, bytes)| bytes).collect()
}

/// Restores a stream; on success answers the last commit, else the error, after seeing that nothing is visible.
fn restore(mut stream: &[u8]) -> Result<u64, pando::Error> {
    let target: Arc<dyn Dir> = Arc::new(MemDir::new());
    match pando::restore_stream_in(&mut stream, Arc::clone(&target)) {
        Ok(report) => Ok(report.commit),
        Err(error) => {
            let names = target.list().unwrap();
            assert!(names.iter().all(|name| name == "lock"), "{error}: {names:?} are left");
            Err(error)
        }
    }
}

#[track_caller]
fn refused(what: &str, stream: &[u8]) {
    match restore(stream) {
        Ok(commit) => panic!("{what}: restored, through commit {commit}"),
        Err(error) => {
            let kinds = [ErrorKind::Corruption, ErrorKind::Foreign, ErrorKind::Mismatch];
            assert!(kinds.contains(&error.kind()), "{what}: {error:?}");
        }
    }
}

#[test]
fn every_flipped_byte_is_refused() {
    let chain = chain();
    assert!(restore(&chain.concat()).is_ok());
    let (full, rest) = (chain[0].clone(), chain[1..].concat());
    for at in 0..full.len() {
        let mut bytes = full.clone();
        bytes[at] ^= 1 << (at % 8);
        refused(&format!("byte {at} of {}", full.len()), &bytes);
    }
    for at in 0..rest.len() {
        // All of the small fields, and a sample of the pages.
        if at % 7 == 0 || at % 4096 < 200 {
            let mut bytes = [&full[..], &rest[..]].concat();
            bytes[full.len() + at] ^= 1 << (at % 8);
            refused(&format!("byte {at} of the differences"), &bytes);
        }
    }
}

#[test]
fn what_is_cut_or_added_is_refused() {
    let full = &chain()[0];
    for len in (0..full.len()).step_by(11).chain(full.len() - 70..full.len()) {
        refused(&format!("cut at {len}"), &full[..len]);
    }
    for more in [&b"\0"[..], b"x", &[0; 200], &full[..104], full] {
        refused(&format!("{} bytes more", more.len()), &[full, more].concat());
    }
    // A piece left out, or there twice.
    for at in (0..full.len() - 300).step_by(301) {
        refused("a gap", &[&full[..at], &full[at + 24..]].concat());
        refused("a repetition", &[&full[..at + 24], &full[at..]].concat());
    }
}

#[test]
fn chains_in_disorder_are_refused() {
    let (chain, other) = (chain(), chain());
    let [a, b, c] = &chain[..] else { panic!("three backups") };
    assert!(restore(&[&a[..], b, c].concat()).is_ok() && restore(&[&a[..], b].concat()).is_ok());
    let disorders: [(&str, &[&[u8]]); 7] = [
        ("no full backup", &[b]),
        ("the full one later", &[b, a]),
        ("one missing", &[a, c]),
        ("two swapped", &[a, c, b]),
        ("one twice", &[a, b, b]),
        ("another database's", &[a, &other[1]]),
        ("another database's full one", &[&other[0], b, c]),
    ];
    for (what, members) in disorders {
        refused(what, &members.concat());
    }
}

#[test]
fn a_newer_format_and_a_foreign_file_say_so() {
    let full = &chain()[0];
    let mut newer = full.clone();
    newer[8] = 2;
    assert!(restore(&newer).unwrap_err().message().contains("format 2"));
    assert_eq!(restore(&newer).unwrap_err().kind(), ErrorKind::Foreign);
    assert_eq!(restore(&[b'x'; 5000]).unwrap_err().kind(), ErrorKind::Foreign);
}

#[test]
fn a_folder_names_what_is_damaged_or_missing() {
    let files = || {
        let dir = MemDir::new();
        for (at, bytes) in chain().iter().enumerate() {
            let kind = if at == 0 { "full" } else { "incremental" };
            let file = dir.create(&format!("backup-{:06}-{kind}", at + 1)).unwrap();
            file.write_at(bytes, 0).unwrap();
        }
        Arc::new(dir)
    };
    let dir = files();
    let backups = Backups::in_dir(dir.clone());
    assert_eq!(backups.chain(None).unwrap().len(), 3);
    dir.remove("backup-000002-incremental").unwrap();
    let missing = backups.chain(None).unwrap_err();
    assert!(missing.kind() == ErrorKind::Missing && missing.message().contains("backup-000003"), "{missing}");
    assert_eq!(backups.chain(Some("1")).unwrap().len(), 1);
    // Two files changed names: what they say of each other counts.
    let dir = files();
    dir.rename("backup-000001-full", "spare").unwrap();
    dir.rename("backup-000003-incremental", "backup-000001-full").unwrap();
    dir.rename("spare", "backup-000003-incremental").unwrap();
    let backups = Backups::in_dir(dir.clone());
    assert_eq!(backups.chain(Some("1")).unwrap().len(), 3);
    let target: Arc<dyn Dir> = Arc::new(MemDir::new());
    assert_eq!(pando::restore_in(&backups, Some("1"), target).unwrap().backups, 3);
    // A damaged end, and a directory that is not empty.
    let file = dir.open("backup-000002-incremental").unwrap();
    let (mut byte, place) = ([0], file.len().unwrap() - 5);
    file.read_exact_at(&mut byte, place).unwrap();
    file.write_at(&[byte[0] ^ 1], place).unwrap(); // never the byte that is there: it is part of a hash
    let damaged = backups.list().unwrap().remove(1).info.unwrap_err();
    assert!(
        damaged.kind() == ErrorKind::Corruption && damaged.message().contains("backup-000002"),
        "{damaged}"
    );
    let target = Arc::new(MemDir::new());
    target.create("somebody's").unwrap();
    let exists = pando::restore_in(&backups, Some("3"), target.clone()).unwrap_err();
    assert_eq!((exists.kind(), target.list().unwrap()), (ErrorKind::Exists, vec!["somebody's".to_owned()]));
}

#[test]
fn a_damaged_page_fails_the_backup_and_is_named() {
    let dir = Arc::new(MemDir::new());
    let db = small().page_bytes(4096).create_in(dir.clone()).unwrap();
    let table = db.ensure_table("t").unwrap();
    for key in 0..500u32 {
        db.put(&table, &key.to_be_bytes(), &[1; 50]).unwrap();
    }
    db.checkpoint().unwrap();
    // The pool holds good copies; the file has rotted.
    assert!(db.get(&table, &3u32.to_be_bytes()).unwrap().is_some());
    let data = dir.open("data").unwrap();
    for unit in 2..data.len().unwrap() / 4096 {
        let mut byte = [0];
        data.read_exact_at(&mut byte, unit * 4096 + 2000).unwrap();
        data.write_at(&[byte[0] ^ 1], unit * 4096 + 2000).unwrap();
    }
    let backups = Backups::in_dir(Arc::new(MemDir::new()));
    let error = db.backup_to(&backups, BackupOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.message().contains("unit "), "{error}");
    assert!(backups.list().unwrap().is_empty());
    assert_eq!(db.stats().unwrap().pinned, 0);
}
