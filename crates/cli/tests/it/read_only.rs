//! Commands that only look: side by side, and where nothing can be written.

use crate::common::{pando, stdout};
use pando::Database;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

const RECORDS: u32 = 500;

/// A database of one table, half of it in the trees, half in a log that a killed process left.
fn unclean(dir: &Path) {
    let db = Database::create(dir).unwrap();
    let table = db.ensure_table("t").unwrap();
    for half in [0..RECORDS / 2, RECORDS / 2..RECORDS] {
        db.checkpoint().unwrap();
        db.write(|tx| half.clone().try_for_each(|n| tx.put(&table, &n.to_be_bytes(), b"v"))).unwrap();
    }
    // Closing would mark the log as whole: the files are put back as they were before.
    let before = files(dir);
    db.close().unwrap();
    for (name, bytes) in before {
        fs::write(dir.join(name), bytes).unwrap();
    }
    fs::write(dir.join("lock"), "4000000000").unwrap();
}

fn files(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(&path).unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn several_processes_read_at_once_and_change_nothing() {
    let home = tempfile::tempdir().unwrap();
    unclean(home.path());
    let before = files(home.path());
    let path = home.path().to_str().unwrap();
    let held = Database::open_read_only(home.path()).unwrap();
    let scans: Vec<_> = (0..4)
        .map(|_| {
            let path = path.to_owned();
            std::thread::spawn(move || pando(["scan", &path, "t", "--keys-only", "--format", "ndjson"]))
        })
        .collect();
    for scan in scans {
        let lines = stdout(scan.join().unwrap());
        assert_eq!(lines.iter().filter(|&&byte| byte == b'\n').count(), RECORDS as usize);
    }
    for line in [vec!["tables", path], vec!["stats", path], vec!["check", path], vec!["get", path, "t", "k"]]
    {
        let output = pando(&line);
        assert!(matches!(output.status.code(), Some(0 | 1)), "{line:?}: {output:?}");
    }
    let table = held.table("t").unwrap().expect("it is there");
    // The place of the reader that is still here, and no other, is gone in a moment.
    let mut after = files(home.path());
    after.retain(|(name, _)| !name.starts_with("reader-"));
    assert!(after == before, "a file changed");
    // A writer may come, and the reader follows it.
    stdout(pando(["put", path, "t", "k", "v"]));
    held.catch_up().unwrap();
    assert_eq!(held.get(&table, "k").unwrap().as_deref(), Some(&b"v"[..]));
    drop(held);
    assert!(!files(home.path()).iter().any(|(name, _)| name.starts_with("reader-")));
}

/// Runs `pando` as somebody who owns nothing here.
fn pando_as_nobody(program: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(args).current_dir("/");
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        // Root may write everywhere.
        command.uid(65534).gid(65534);
    }
    command.output().unwrap()
}

#[test]
fn a_directory_that_cannot_be_written_is_read() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("db");
    unclean(&dir);
    let program = home.path().join("pando");
    // By a process of its own: while this one has the copy open to write, children that other tests start have it too,
    // and what is open so cannot be run.
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_pando")).arg(&program).status();
    assert!(copied.is_ok_and(|status| status.success()), "cp copies the command");
    fs::set_permissions(home.path(), Permissions::from_mode(0o755)).unwrap();
    for with_lock in [true, false] {
        if !with_lock {
            fs::remove_file(dir.join("lock")).unwrap();
        }
        for entry in fs::read_dir(&dir).unwrap() {
            fs::set_permissions(entry.unwrap().path(), Permissions::from_mode(0o444)).unwrap();
        }
        fs::set_permissions(&dir, Permissions::from_mode(0o555)).unwrap();
        let path = dir.to_str().unwrap();
        let output = pando_as_nobody(&program, &["scan", path, "t", "--keys-only"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "with a lock file: {with_lock}: {said}");
        let refused = pando_as_nobody(&program, &["put", path, "t", "k", "v"]);
        assert_eq!(refused.status.code(), Some(1));
        if cfg!(feature = "sql") {
            let output = pando_as_nobody(&program, &["sql", path, "SELECT 6 * 7 AS n", "--format", "csv"]);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && output.stdout == b"n\n42\n", "{said}");
            assert!(said.contains("the directory cannot be written, so statements can only read"), "{said}");
            let refused = pando_as_nobody(&program, &["sql", path, "CREATE TABLE n(x)"]);
            assert!(!refused.status.success(), "{refused:?}");
        }
        assert_eq!(dir.join("lock").exists(), with_lock);
        fs::set_permissions(&dir, Permissions::from_mode(0o755)).unwrap();
    }
}
