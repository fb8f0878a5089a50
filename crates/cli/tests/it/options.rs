//! Options, as the command shows and refuses them; and renaming, which has none.

use crate::common::{failure, pando, stdout, text};
use serde_json::Value;
use std::fs;

fn rows(args: &[&str]) -> Vec<Value> {
    let mut line = vec!["options", "--json"];
    line.extend(args);
    serde_json::from_slice::<Vec<Value>>(&stdout(pando(line))).unwrap()
}

fn of<'a>(rows: &'a [Value], name: &str) -> &'a Value {
    rows.iter().find(|row| row["option"] == name).unwrap_or_else(|| panic!("{name} is missing"))
}

#[test]
fn options_come_with_their_origins() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("db");
    let path = dir.to_str().unwrap();
    stdout(pando(["put", path, "t", "k", "v", "--page-size", "8K"]));
    let before = fs::read(dir.join("data")).unwrap();
    let stored = rows(&[path, "--memory", "64M"]);
    let page = of(&stored, "page_bytes");
    assert_eq!((&page["value"], &page["origin"]), (&8192.into(), &"stored in the database".into()));
    assert_eq!((&page["unit"], &page["group"]), (&"bytes".into(), &"storage".into()));
    let memory = of(&stored, "memory_bytes");
    assert_eq!((&memory["value"], &memory["origin"]), (&(64 << 20).into(), &"given".into()));
    let checkpoint = of(&stored, "checkpoint_bytes");
    assert_eq!(checkpoint["value"], 8 << 20);
    assert_eq!(checkpoint["origin"], "computed from memory_bytes");
    // The command reads only; the database is not.
    assert_eq!(of(&stored, "read_only")["value"], "no");
    assert!(fs::read(dir.join("data")).unwrap() == before, "it was written to");
    let new = rows(&[]);
    assert_eq!(new.len(), stored.len());
    let page = of(&new, "page_bytes");
    assert_eq!((&page["value"], &page["origin"]), (&16384.into(), &"default".into()));
    assert_eq!(of(&new, "max_snapshot_age")["value"], "none");
    let memory = of(&new, "memory_bytes");
    assert!(memory["value"].is_u64() && memory["origin"].as_str().unwrap().starts_with("computed from"));
    for row in &new {
        for column in ["default", "range", "cost"] {
            assert!(row[column].as_str().is_some_and(|text| !text.is_empty()), "{column} of {row}");
        }
    }
}

#[test]
fn people_get_groups_and_scripts_get_rows() {
    let table = text(pando(["options", "--memory", "64M"]));
    for part in
        ["memory\n", "isolation and readers\n", "67,108,864 bytes", "given", "range: 4 KiB to 1 GiB\n"]
    {
        assert!(table.contains(part), "{part} is not in\n{table}");
    }
    let csv = text(pando(["options", "--format", "csv"]));
    assert!(csv.starts_with("option,group,value,unit,default,range,origin,cost\n"), "{csv}");
    assert_eq!(csv.lines().count(), 1 + rows(&[]).len());
    let ndjson = text(pando(["options", "--format", "ndjson"]));
    assert_eq!(ndjson.lines().count(), rows(&[]).len());
}

#[test]
fn what_contradicts_or_is_out_of_range_is_2_and_says_so() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("db");
    let path = dir.to_str().unwrap();
    stdout(pando(["put", path, "t", "k", "v", "--page-size", "8K"]));
    for line in [vec!["options", path], vec!["put", path, "t", "k", "w"]] {
        let said = failure(pando(line.iter().chain(&["--page-size", "4K"])), 2);
        for part in ["8192", "4096", "help: leave the option out"] {
            assert!(said.contains(part), "{said}");
        }
    }
    for (flags, parts) in [
        (["--page-size", "5000"], ["page_bytes is 5000", "4096, 8192, 16384, 32768, 65536"]),
        (["--memory", "1000"], ["memory_bytes is 1000", "1 MiB and more"]),
    ] {
        for line in [vec!["options"], vec!["options", path], vec!["put", path, "t", "k", "w"]] {
            let said = failure(pando(line.iter().chain(&flags)), 2);
            assert!(parts.iter().all(|part| said.contains(part)), "{said}");
        }
    }
    failure(pando(["options", home.path().to_str().unwrap()]), 1);
    assert_eq!(stdout(pando(["get", path, "t", "k"])), b"v");
}

#[test]
fn a_table_is_renamed() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("db");
    let path = dir.to_str().unwrap();
    stdout(pando(["put", path, "old", "k", "v"]));
    stdout(pando(["put", path, "taken", "k", "w"]));
    assert_eq!(stdout(pando(["rename", path, "old", "new"])), b"");
    assert_eq!(stdout(pando(["get", path, "new", "k"])), b"v");
    assert!(failure(pando(["get", path, "old", "k"]), 1).contains("old"));
    // Neither what is missing is renamed, nor what exists overwritten.
    assert!(failure(pando(["rename", path, "old", "newer"]), 1).contains("old"));
    assert!(failure(pando(["rename", path, "new", "taken"]), 1).contains("taken"));
    let long = "x".repeat(256);
    failure(pando(["rename", path, "new", &long]), 2);
    assert_eq!(stdout(pando(["get", path, "taken", "k"])), b"w");
    assert_eq!(stdout(pando(["get", path, "new", "k"])), b"v");
    failure(pando(["rename", home.path().join("none").to_str().unwrap(), "a", "b"]), 1);
    assert!(!home.path().join("none").exists());
}
