//! Single records, and records in order.

use crate::common::{failure, pando, pando_with, stdout, text};
use std::path::{Path, PathBuf};

/// Where a test's database is to be made.
struct Place {
    _dir: tempfile::TempDir,
    path: PathBuf,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Place { path: dir.path().join("db"), _dir: dir }
    }

    /// A command's arguments: the database behind the first word.
    fn args<'a>(&'a self, line: &'a str) -> Vec<&'a str> {
        let mut words: Vec<&str> = line.split_whitespace().collect();
        words.insert(1, self.path.to_str().unwrap());
        words
    }

    fn fruit() -> Self {
        let place = Place::new();
        for (key, value) in [("apple", "red"), ("banana", "yellow"), ("lemon", "sour"), ("lime", "green")] {
            stdout(pando(place.args(&format!("put fruit {key} {value}"))));
        }
        place
    }
}

#[test]
fn what_is_put_is_got_and_deleted() {
    let place = Place::new();
    stdout(pando(place.args("put t key value")));
    assert_eq!(stdout(pando(place.args("get t key"))), b"value");
    stdout(pando(place.args("put t key -1")));
    assert_eq!(stdout(pando(place.args("get t key"))), b"-1");
    stdout(pando(place.args("delete t key")));
    assert!(failure(pando(place.args("get t key")), 1).contains("no key key"));
    assert!(failure(pando(place.args("delete t key")), 1).contains("no key key"));
}

#[test]
fn bytes_come_from_standard_input_and_hex() {
    let place = Place::new();
    let all: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    stdout(pando_with(place.args("put t blob -"), &all));
    assert_eq!(stdout(pando(place.args("get t blob"))), all);
    stdout(pando(place.args("put t ff00 0aFF --hex")));
    assert_eq!(stdout(pando(place.args("get t FF00 --hex"))), [0x0a, 0xff]);
    assert!(failure(pando(place.args("get t xyz --hex")), 2).contains("hexadecimal"));
}

#[test]
fn a_scan_takes_bounds_direction_and_limit() {
    let place = Place::fruit();
    let keys = |options: &str| {
        let line = format!("scan fruit --keys-only --format ndjson {options}");
        let out = text(pando(place.args(&line)));
        out.lines().map(|line| line[8..line.len() - 2].to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(keys(""), ["apple", "banana", "lemon", "lime"]);
    assert_eq!(keys("--reverse"), ["lime", "lemon", "banana", "apple"]);
    assert_eq!(keys("--start banana --end lime"), ["banana", "lemon"]);
    assert_eq!(keys("--prefix l"), ["lemon", "lime"]);
    assert_eq!(keys("--prefix 6c65 --hex"), ["lemon"]);
    assert_eq!(keys("--limit 1 --reverse --end lime"), ["lemon"]);
    assert_eq!(keys("--limit 0"), [""; 0]);
    assert_eq!(keys("--start x"), [""; 0]);
    let clash = pando(place.args("scan fruit --prefix l --start a"));
    assert_eq!(clash.status.code(), Some(2));
}

#[test]
fn a_scan_has_four_formats() {
    let place = Place::fruit();
    let scan = |format: &str| text(pando(place.args(&format!("scan fruit --limit 2 {format}"))));
    assert_eq!(scan(""), "key     value\napple   red\nbanana  yellow\n");
    assert_eq!(scan("--format csv"), "key,value\napple,red\nbanana,yellow\n");
    let (apple, banana) = (r#"{"key":"apple","value":"red"}"#, r#"{"key":"banana","value":"yellow"}"#);
    assert_eq!(scan("--format ndjson"), format!("{apple}\n{banana}\n"));
    assert_eq!(scan("--json"), format!("[\n{apple},\n{banana}\n]\n"));
}

#[test]
fn tables_and_stats_and_check_are_shown() {
    let place = Place::fruit();
    let tables = text(pando(place.args("tables --format csv")));
    assert_eq!(tables, "table,layout,ttl,compression,approximate_records\nfruit,btree,none,none,4\n");
    stdout(pando(place.args("checkpoint")));
    let object =
        |line: &str| -> serde_json::Value { serde_json::from_str(&text(pando(place.args(line)))).unwrap() };
    assert_eq!(object("stats --json")["page_bytes"], 16384);
    assert_eq!(object("check --json")["tables"], 2, "the catalog and one table");
    assert!(text(pando(place.args("check"))).contains("leaf_pages"));
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let place = Place::new();
    stdout(pando_with(place.args("put t k -"), &vec![b'x'; 4 << 20]));
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_pando"));
    command.args(place.args("get t k")).stdout(std::process::Stdio::piped());
    command.stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
}

#[test]
fn looking_creates_nothing() {
    let place = Place::new();
    let empty = tempfile::tempdir().unwrap();
    for dir in [&place.path, empty.path()] {
        let dir = dir.to_str().unwrap();
        for line in [
            vec!["get", dir, "t", "k"],
            vec!["delete", dir, "t", "k"],
            vec!["scan", dir, "t"],
            vec!["tables", dir],
            vec!["stats", dir],
            vec!["check", dir],
            vec!["checkpoint", dir],
            vec!["export", dir, "t"],
        ] {
            let said = failure(pando(&line), 1);
            assert!(said.contains("help: check the path"), "{line:?}: {said}");
        }
    }
    assert!(!place.path.exists());
    assert_eq!(files(empty.path()), [""; 0]);
    // A missing table is as missing as a missing database.
    stdout(pando(place.args("put t k v")));
    for line in ["get x k", "delete x k", "scan x", "export x"] {
        assert!(failure(pando(place.args(line)), 1).contains("no table \"x\""), "{line}");
    }
    assert_eq!(text(pando(place.args("tables --format csv"))).lines().count(), 2, "a header and t");
}

fn files(dir: &Path) -> Vec<String> {
    let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    names.map(|name| name.into_string().unwrap()).collect()
}

#[test]
fn the_workloads_are_listed() {
    let names = text(pando(["bench", "--list"]));
    assert!(names.lines().any(|name| name == "btree-insert"), "{names}");
}

#[test]
fn a_long_value_passes_through() {
    let place = Place::new();
    let long: Vec<u8> = (0..5_000_000_u32).map(|n| (n / 251) as u8).collect();
    let file = place.path.with_extension("file");
    std::fs::write(&file, &long).unwrap();
    let arguments = format!("put t from-file --file {}", file.display());
    stdout(pando(place.args(&arguments)));
    stdout(pando_with(place.args("put t from-stdin --file -"), &long));
    for key in ["from-file", "from-stdin"] {
        assert!(stdout(pando(place.args(&format!("get t {key}")))) == long, "{key}");
    }
    assert!(failure(pando(place.args("put t key value --file x")), 2).contains("cannot be used with"));
    failure(pando(place.args("put t key")), 2);
    failure(pando(place.args("put t key --file /nowhere/at/all")), 1);
    assert_eq!(text(pando(place.args("scan t --keys-only --format csv"))), "key\nfrom-file\nfrom-stdin\n");
}
