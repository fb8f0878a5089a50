//! `backup` and `restore`, as a user runs them.

use crate::common::{failure, pando, pando_with, stdout, text};
use pando::Database;
use std::fs;
use std::path::Path;

fn put(db: &str, key: &str, value: &str) {
    stdout(pando(["put", db, "t", key, value]));
}

fn scan(db: &str) -> String {
    text(pando(["scan", db, "t", "--format", "ndjson"]))
}

fn path(dir: &Path, name: &str) -> String {
    dir.join(name).to_str().unwrap().to_owned()
}

#[test]
fn a_folder_of_backups_restores_any_of_its_states() {
    let dir = tempfile::tempdir().unwrap();
    let (db, folder) = (path(dir.path(), "db"), path(dir.path(), "backups"));
    let mut states = Vec::new();
    for key in ["a", "b", "c"] {
        put(&db, key, &key.repeat(3000));
        stdout(pando(["checkpoint", &db]));
        let said = text(pando(["backup", &db, &folder, "--incremental", "--rate", "50MiB", "--json"]));
        let kind = if states.is_empty() { "\"full\"" } else { "\"incremental\"" };
        assert!(said.contains(kind) && said.contains("\"pages\":"), "{said}");
        states.push(scan(&db));
    }
    let listed = text(pando(["restore", "--list", &folder, "--format", "csv"]));
    assert_eq!(listed.lines().count(), 4, "{listed}");
    for (at, state) in states.iter().enumerate() {
        let target = path(dir.path(), &format!("restored-{at}"));
        let at = (at + 1).to_string();
        stdout(pando(["restore", &folder, &target, "--at", &at]));
        assert_eq!(scan(&target), *state);
        stdout(pando(["check", &target]));
    }
    let target = path(dir.path(), "newest");
    let said = text(pando(["restore", &folder, &target, "--json"]));
    assert!(said.contains("\"backups\":3"), "{said}");
    assert_eq!(scan(&target), states[2]);
    let files: Vec<String> = ["1-full", "2-incremental"]
        .map(|name| path(dir.path(), &format!("backups/backup-00000{name}")))
        .into();
    let target = path(dir.path(), "of-files");
    stdout(pando(["restore", &files[0], &files[1], &target]));
    assert_eq!(scan(&target), states[1]);
    let refused = failure(pando(["restore", &files[1], &path(dir.path(), "none")]), 2);
    assert!(refused.contains("restore that one first"), "{refused}");
}

#[test]
fn a_stream_is_a_backup() {
    let dir = tempfile::tempdir().unwrap();
    let (db, target) = (path(dir.path(), "db"), path(dir.path(), "restored"));
    put(&db, "a", "1");
    let full = stdout(pando(["backup", &db, "-"]));
    let file = path(dir.path(), "full");
    fs::write(&file, &full).unwrap();
    put(&db, "b", "2");
    let difference = stdout(pando(["backup", &db, "-", "--since", &file]));
    stdout(pando_with(["restore", "-", &target], &[full.clone(), difference].concat()));
    assert_eq!(scan(&target), scan(&db));
    failure(pando_with(["restore", "-", &path(dir.path(), "cut")], &full[..full.len() - 1]), 3);
}

#[test]
fn what_is_wrong_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let (db, folder) = (path(dir.path(), "db"), path(dir.path(), "backups"));
    put(&db, "a", "1");
    stdout(pando(["backup", &db, &folder]));
    assert!(failure(pando(["restore", &folder, &db]), 1).contains("is not empty"));
    assert!(failure(pando(["restore", &folder]), 2).contains("then the directory"));
    assert!(failure(pando(["restore", &folder, &path(dir.path(), "x"), "--at", "9"]), 1).contains("\"9\""));
    failure(pando(["restore", &path(dir.path(), "nowhere"), &path(dir.path(), "x")]), 1);
    failure(pando(["backup", &path(dir.path(), "nowhere"), &folder]), 1);
    failure(pando(["backup", &db, "-", "--incremental"]), 2);
    let held = pando::Database::open(&db).unwrap();
    assert!(failure(pando(["backup", &db, &folder]), 4).contains("Database::backup"));
    held.close().unwrap();
    // An interrupted restore.
    let cut = dir.path().join("cut");
    fs::create_dir(&cut).unwrap();
    fs::write(cut.join("data.restore"), b"half").unwrap();
    let cut = cut.to_str().unwrap();
    for line in [vec!["tables", cut], vec!["put", cut, "t", "k", "v"], vec!["check", cut]] {
        assert!(failure(pando(&line), 3).contains("restore was interrupted"));
    }
    // A backup with a byte changed: listed as damaged at its end, refused wherever it is.
    let file = dir.path().join("backups/backup-000001-full");
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, &bytes).unwrap();
    assert!(
        failure(pando(["restore", &folder, &path(dir.path(), "flipped")]), 3).contains("backup-000001-full")
    );
    assert!(!dir.path().join("flipped/data").exists());
}

#[test]
fn what_cannot_be_restored_is_advised_on_as_a_backup() {
    let dir = tempfile::tempdir().unwrap();
    let db = path(dir.path(), "db");
    stdout(pando(["put", &db, "t", "k", "v"]));
    let file = path(dir.path(), "file");
    std::fs::write(&file, stdout(pando(["backup", &db, "-"]))).unwrap();
    let whole = std::fs::read(&file).unwrap();
    let into = path(dir.path(), "into");
    let advice = |code: i32| {
        let said = failure(pando(["restore", &file, &into]), code);
        for other in ["`put`", "salvage", "directory of a Pando"] {
            assert!(!said.contains(other), "{said}");
        }
        said
    };
    for cut in [whole.len() - 1, whole.len() / 2, 100] {
        std::fs::write(&file, &whole[..cut]).unwrap();
        assert!(advice(3).contains("help: "), "{cut}");
    }
    std::fs::write(&file, b"no backup").unwrap();
    assert!(advice(3).contains("name a backup"));
    std::fs::remove_file(&file).unwrap();
    assert!(advice(1).contains("`pando backup`"));
}

#[test]
fn a_rate_at_which_a_backup_would_never_end_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (db, folder) = (path(dir.path(), "db"), path(dir.path(), "backups"));
    put(&db, "a", "1");
    for rate in ["0", "1", "63K"] {
        let output = pando(["backup", &db, &folder, "--rate", rate]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{rate}: {said}");
        assert!(said.contains("the lowest rate is 64K"), "{said}");
    }
    assert!(!Path::new(&folder).exists(), "nothing was begun");
    stdout(pando(["backup", &db, &folder, "--rate", "64K"]));
}

#[test]
fn backups_of_another_database_in_the_folder_stay() {
    let dir = tempfile::tempdir().unwrap();
    let (one, other, folder) =
        (path(dir.path(), "one"), path(dir.path(), "other"), path(dir.path(), "backups"));
    for db in [&one, &other, &other] {
        put(db, "k", db);
        stdout(pando(["backup", db, &folder, "--keep", "1"]));
    }
    let names = |folder: &str| {
        let mut names: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names(&folder), ["backup-000001-full", "backup-000003-full", "backups.lock"]);
    let target = path(dir.path(), "restored");
    stdout(pando(["restore", &folder, &target, "--at", "1"]));
    assert_eq!(scan(&target), scan(&one));
}

#[test]
fn a_refused_backup_makes_no_folder() {
    let dir = tempfile::tempdir().unwrap();
    let (db, folder) = (path(dir.path(), "db"), path(dir.path(), "backups"));
    put(&db, "k", "v");
    let open = Database::open(&db).unwrap();
    let said = failure(pando(["backup", &db, &folder]), 4);
    assert!(said.contains("back it up through its server"), "{said}");
    assert!(!Path::new(&folder).exists());
    open.close().unwrap();
    let said = failure(pando(["backup", &db, "s3://bucket/backups"]), 2);
    assert!(said.contains("`pando ship`") && !Path::new("s3:").exists(), "{said}");
}

#[test]
fn advice_about_a_folder_is_not_about_the_database() {
    let dir = tempfile::tempdir().unwrap();
    let (db, folder) = (path(dir.path(), "db"), path(dir.path(), "backups"));
    put(&db, "k", "v");
    stdout(pando(["backup", &db, &folder]));
    let lock = fs::File::open(path(dir.path(), "backups/backups.lock")).unwrap();
    lock.lock().unwrap();
    let said = failure(pando(["backup", &db, &folder]), 4);
    assert!(said.contains("is adding a backup to") && !said.contains("help:"), "{said}");
    drop(lock);

    let file = path(dir.path(), "backups/backup-000001-full");
    let bytes = fs::read(&file).unwrap();
    for wrong in [&bytes[..bytes.len() / 2], b"text"] {
        fs::write(&file, wrong).unwrap();
        for words in [&["--incremental", &folder][..], &["--since", &file, "-"]] {
            let said = failure(pando([&["backup", &db], words].concat()), 3);
            assert!(said.contains("backup-000001-full") && said.contains("take a full backup"), "{said}");
            assert!(!said.contains("salvage") && !said.contains("directory of a Pando"), "{said}");
        }
    }
    stdout(pando(["backup", &db, &folder]));
    stdout(pando(["backup", &db, &folder, "--incremental"]));
}

#[test]
fn a_killed_restore_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let (db, folder, target) =
        (path(dir.path(), "db"), path(dir.path(), "backups"), path(dir.path(), "restored"));
    put(&db, "k", "v");
    stdout(pando(["backup", &db, &folder]));
    fs::create_dir(&target).unwrap();
    for left in ["lock", "log-0000000000000001", "data.restore"] {
        fs::write(path(Path::new(&target), left), b"").unwrap();
    }
    let said = failure(pando(["restore", &folder, &target]), 1);
    assert!(said.contains("unfinished restore") && said.contains("delete the directory"), "{said}");
    fs::remove_dir_all(&target).unwrap();
    stdout(pando(["restore", &folder, &target]));
}
