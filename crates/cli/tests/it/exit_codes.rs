//! Every documented exit code, as it comes about.

use crate::common::{failure, pando, stdout, text};
use pando::Database;
use std::fs;
use std::path::Path;

/// A database with a checkpointed table of a hundred records.
fn fill(dir: &Path) -> Database {
    let db = Database::create(dir).unwrap();
    let table = db.ensure_table("t").unwrap();
    db.write(|tx| (0..100_u32).try_for_each(|n| tx.put(&table, &n.to_be_bytes(), &[7; 100]))).unwrap();
    db.checkpoint().unwrap();
    db
}

#[test]
fn wrong_usage_is_2() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    for line in [
        vec![],
        vec!["no-such-command"],
        vec!["get", path],
        vec!["put", path, "t", "k", "v", "--page-size", "5000"],
        vec!["put", path, "t", "k", "v", "--memory", "many"],
        vec!["put", path, "t", "", "v", "--memory", "1"],
        vec!["import", path, "t", "no-name-that-tells"],
        vec!["scan", path, "t", "--format", "yaml"],
    ] {
        let output = pando(&line);
        assert_eq!(output.status.code(), Some(2), "{line:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    // An option that contradicts what is stored.
    stdout(pando(["put", path, "t", "k", "v", "--page-size", "8K"]));
    stdout(pando(["put", path, "t", "k", "v"]));
    assert!(
        failure(pando(["put", path, "t", "k", "v", "--page-size", "4K"]), 2)
            .contains("help: leave the option out")
    );
    let long = "k".repeat(8192);
    failure(pando(["put", path, "t", long.as_str(), "v"]), 2);
}

#[test]
fn a_locked_database_is_4_and_names_its_owner() {
    let dir = tempfile::tempdir().unwrap();
    let db = fill(dir.path());
    let path = dir.path().to_str().unwrap();
    for line in [vec!["compact", path], vec!["put", path, "t", "k", "v"], vec!["checkpoint", path]] {
        let said = failure(pando(&line), 4);
        assert!(said.contains(&std::process::id().to_string()), "{said}");
    }
    db.close().unwrap();
    stdout(pando(["tables", path]));
}

#[test]
fn damage_is_3() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path()).close().unwrap();
    let path = dir.path().to_str().unwrap();
    stdout(pando(["check", path]));
    let data = dir.path().join("data");
    let sound = fs::read(&data).unwrap();
    // Somewhere in a page: the checkpoint wrote some of the records there.
    let at = sound.windows(100).rposition(|bytes| bytes == [7; 100]).unwrap();
    let mut damaged = sound.clone();
    damaged[at] ^= 1;
    fs::write(&data, &damaged).unwrap();
    let output = pando(["check", path, "--json"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("problem: table 16: page at unit") && said.contains("pando salvage"), "{said}");
    assert!(String::from_utf8(output.stdout).unwrap().contains("\"problems\":1"));
    failure(pando(["export", path, "t", dir.path().join("out.csv").to_str().unwrap()]), 3);
    fs::write(&data, &sound).unwrap();
    stdout(pando(["check", path]));
}

#[test]
fn what_is_no_database_is_3() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("data"), vec![b'?'; 100_000]).unwrap();
    failure(pando(["tables", dir.path().to_str().unwrap()]), 3);
}

#[test]
fn the_tokens_of_a_directory_that_does_not_exist_are_1() {
    let dir = tempfile::tempdir().unwrap();
    let none = dir.path().join("none");
    let path = none.to_str().unwrap();
    for line in [vec!["token", "list", path], vec!["token", "revoke", path, "reader"]] {
        let said = failure(pando(&line), 1);
        assert!(said.contains("none") && said.contains("check the path"), "{said}");
    }
    assert!(!none.exists());
    // A directory without tokens has an empty list, and the first token can be made before the first start.
    assert_eq!(text(pando(["token", "list", dir.path().to_str().unwrap(), "--format", "ndjson"])), "");
    stdout(pando(["token", "create", path, "--name", "reader", "--scope", "read"]));
    assert!(text(pando(["token", "list", path])).contains("reader"));
}

#[test]
fn only_options_that_contradict_what_is_stored_can_be_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (db, other) = (at("db"), at("other"));
    stdout(pando(["put", &db, "t", "k", "v"]));
    stdout(pando(["put", &other, "t", "k", "v"]));
    let help = "leave the option out";
    // A backup that builds on one that is missing, and one of another database.
    let (full, first, second) = (at("full"), at("first"), at("second"));
    for (file, since) in [(&full, None), (&first, Some(&full)), (&second, Some(&first))] {
        stdout(pando(["put", &db, "t", file, "v"]));
        let since = since.map_or_else(Vec::new, |since| vec!["--since", since.as_str()]);
        fs::write(file, stdout(pando([vec!["backup", &db, "-"], since].concat()))).unwrap();
    }
    let said = failure(pando(["restore", &full, &second, &at("gap")]), 2);
    assert!(!said.contains(help), "{said}");
    let said = failure(pando(["backup", &other, "-", "--since", &full]), 2);
    assert!(!said.contains(help), "{said}");
    // A directory that is no replica, and one that is.
    let said = failure(pando(["promote", dir.path().to_str().unwrap()]), 2);
    assert!(!said.contains(help), "{said}");
    fs::write(dir.path().join("replica"), "http://127.0.0.1:9\n").unwrap();
    let said = failure(pando(["serve", dir.path().to_str().unwrap(), "--listen", "127.0.0.1:0"]), 2);
    assert!(said.contains("--follow http") && !said.contains(help), "{said}");
    // What is stored of a table can contradict an option, too.
    for option in [["--layout", "lsm"], ["--ttl", "5s"]] {
        let said = failure(pando([&["put", &db, "t", "k", "v"], &option[..]].concat()), 2);
        assert!(said.contains(help), "{said}");
    }
}

#[test]
fn help_documents_them() {
    let help = text(pando(["--help"]));
    for line in ["0  done", "1  failed", "2  the command", "3  the files", "4  another", "5  conflicts"] {
        assert!(help.contains(line), "{line}");
    }
}
