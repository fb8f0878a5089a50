//! `pando salvage`, as a user whose disk has rotted runs it.

use crate::common::{failure, pando, stdout, text};
use pando::{Compression, Database, Layout, TableOptions};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

const RECORDS: u32 = 3000;

/// A closed database whose table `t` has several leaves.
fn fill(dir: &Path) {
    let db = Database::builder().page_bytes(4096).create(dir).unwrap();
    let table = db.ensure_table("t").unwrap();
    db.write(|tx| (0..RECORDS).try_for_each(|n| tx.put(&table, &n.to_be_bytes(), &[7; 20]))).unwrap();
    db.ensure_table("empty").unwrap();
    db.checkpoint().unwrap();
    db.put(&table, b"late", b"from the log").unwrap();
    db.close().unwrap();
}

fn records(dir: &Path) -> usize {
    let db = Database::open(dir).unwrap();
    db.check().unwrap();
    let snapshot = db.snapshot().unwrap();
    let table = snapshot.table("t").unwrap().unwrap();
    snapshot.range(&table, ..).unwrap().count()
}

#[test]
fn a_whole_database_comes_out_whole() {
    let home = tempfile::tempdir().unwrap();
    let (dir, out) = (home.path().join("db"), home.path().join("out"));
    fill(&dir);
    let before = fs::read(dir.join("data")).unwrap();
    let said = text(pando([Path::new("salvage"), &dir, &out]));
    assert!(said.contains("table t: 3,001 records certain, 0 uncertain"), "{said}");
    assert_eq!(records(&out), 3001);
    assert_eq!(Database::open(&out).unwrap().tables().unwrap().len(), 2);
    assert!(!home.path().join("out.uncertain").exists());
    assert!(fs::read(dir.join("data")).unwrap() == before);
    let refused = failure(pando([Path::new("salvage"), &dir, &out]), 2);
    assert!(refused.contains("exists already"), "{refused}");
}

#[test]
fn a_damaged_one_comes_out_with_what_is_left() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("db");
    fill(&dir);
    let data = dir.join("data");
    let mut bytes = fs::read(&data).unwrap();
    let at = bytes.windows(20).rposition(|bytes| bytes == [7; 20]).unwrap();
    bytes[at] ^= 1;
    fs::write(&data, &bytes).unwrap();
    let (dir, out) = (dir.to_str().unwrap(), home.path().join("out"));
    let output = pando(["salvage", dir, out.to_str().unwrap()]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("lost: from"), "{said}");
    let left = records(&out);
    assert!((RECORDS as usize / 2..RECORDS as usize).contains(&left), "{left} records, {said}");
    let lines = home.path().join("lines");
    let output = pando(["salvage", dir, lines.to_str().unwrap(), "--format", "ndjson", "--json"]);
    assert_eq!(output.status.code(), Some(3));
    let report = String::from_utf8(output.stdout).unwrap();
    assert!(report.contains("\"complete\":false") && report.contains("\"low_hex\""), "{report}");
    assert_eq!(fs::read_to_string(&lines).unwrap().lines().count(), left);
}

#[test]
fn what_says_nothing_of_itself_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("db");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("data"), vec![b'?'; 100_000]).unwrap();
    let out = home.path().join("out");
    let said = failure(pando([Path::new("salvage"), &dir, &out]), 3);
    assert!(said.contains("nothing says which database this was"), "{said}");
    assert!(!out.exists());
}

/// Runs `pando` where no file may be longer than `kib`, as on a disk that is full.
fn pando_within(kib: u32, args: &[&str]) -> Output {
    let script = format!("trap '' XFSZ; ulimit -f {kib}; exec \"$@\"");
    let program = env!("CARGO_BIN_EXE_pando");
    Command::new("bash").args(["-c", &script, "bash", program]).args(args).output().unwrap()
}

/// Neither command leaves a part of a result, which could be taken for all of it, and would be in the way.
#[test]
fn what_could_not_be_written_leaves_nothing() {
    let home = tempfile::tempdir().unwrap();
    let (dir, out) = (home.path().join("db"), home.path().join("out"));
    fill(&dir);
    let (dir, path) = (dir.to_str().unwrap(), out.to_str().unwrap());
    for line in [
        vec!["salvage", dir, path],
        vec!["salvage", dir, path, "--format", "ndjson"],
        vec!["export", dir, "t", path],
        vec!["export", dir, "t", path, "--format", "csv"],
    ] {
        let failed = pando_within(16, &line);
        assert!(failed.stdout.is_empty() && !failed.status.success(), "{line:?}: {failed:?}");
        let left: Vec<_> =
            fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["db"], "{line:?}: {failed:?}");
        stdout(pando(&line));
        let again = failure(pando(&line), 2);
        assert!(again.contains("exists already"), "{line:?}: {again}");
        if out.is_dir() { fs::remove_dir_all(&out).unwrap() } else { fs::remove_file(&out).unwrap() }
    }
}

/// A salvage that was killed has no result, and the next one says what it left.
#[test]
fn a_part_of_a_result_is_named() {
    let home = tempfile::tempdir().unwrap();
    let (dir, out) = (home.path().join("db"), home.path().join("out"));
    fill(&dir);
    for (name, format) in [("out.part", "database"), ("out.uncertain.part", "ndjson")] {
        let part = home.path().join(name);
        fs::create_dir(&part).unwrap();
        let line = ["salvage", dir.to_str().unwrap(), out.to_str().unwrap(), "--format", format];
        let said = failure(pando(line), 2);
        assert!(said.contains(&format!("{name} exists already")) && !out.exists(), "{said}");
        fs::remove_dir(&part).unwrap();
        stdout(pando(line));
        assert!(out.exists() && !part.exists());
        if out.is_dir() { fs::remove_dir_all(&out).unwrap() } else { fs::remove_file(&out).unwrap() }
    }
}

#[test]
fn tables_keep_their_layout_and_compression_and_their_entries_do_not_expire() {
    let home = tempfile::tempdir().unwrap();
    let (dir, out) = (home.path().join("db"), home.path().join("out"));
    let db = Database::create(&dir).unwrap();
    let compressed = TableOptions::with_layout(Layout::Lsm).compression(Compression::Lz4);
    let hour = Duration::from_secs(3600);
    db.create_table("compressed", &compressed).unwrap();
    db.create_table("plain", &TableOptions::default()).unwrap();
    db.create_table("was-lsm", &compressed).unwrap();
    db.set_layout("was-lsm", Layout::BTree).unwrap();
    db.create_table("dated", &TableOptions::with_layout(Layout::Lsm).ttl(hour)).unwrap();
    db.create_table("each", &TableOptions::default().ttl_by_key()).unwrap();
    for table in db.tables().unwrap() {
        db.put(&table, b"key", b"value").unwrap();
    }
    db.close().unwrap();

    let line = ["salvage", dir.to_str().unwrap(), out.to_str().unwrap()];
    let said = text(pando(line));
    assert!(said.contains("not kept: the TTL of 1h"), "{said}");
    assert_eq!(said.matches("not kept").count(), 2, "{said}");
    let db = Database::open(&out).unwrap();
    let tables = db.tables().unwrap();
    let options: Vec<_> =
        tables.iter().map(|table| (table.name(), table.layout(), table.compression())).collect();
    let expected = [
        ("compressed", Layout::Lsm, Compression::Lz4),
        ("dated", Layout::Lsm, Compression::None),
        ("each", Layout::BTree, Compression::None),
        ("plain", Layout::BTree, Compression::None),
        ("was-lsm", Layout::BTree, Compression::Lz4),
    ];
    assert_eq!(options, expected);
    assert!(tables.iter().all(|table| table.ttl().is_none()));
    assert!(tables.iter().all(|table| table.has_ttl_by_key() == (table.name() == "each")));
    for table in &tables {
        assert_eq!(db.get(table, b"key").unwrap().as_deref(), Some(&b"value"[..]), "{}", table.name());
    }
    // The values have dates, which a TTL needs.
    db.set_ttl("dated", Some(hour)).unwrap();
    db.close().unwrap();

    fs::remove_dir_all(&out).unwrap();
    let report: Value = serde_json::from_str(&text(pando(line.iter().chain(&["--json"])))).unwrap();
    let options: Vec<_> =
        report["tables"].as_array().unwrap().iter().map(|table| &table["options"]).collect();
    assert_eq!(
        options[1],
        &json!({"layout": "lsm", "ttl_ms": 3_600_000, "ttl_by_key": false, "compression": "none"})
    );
    assert_eq!((&options[0]["compression"], &options[2]["ttl_by_key"]), (&json!("lz4"), &json!(true)));
}

/// An export that was killed has no result, and the next one says what it left.
#[test]
fn an_export_has_its_name_once_it_is_complete() {
    let home = tempfile::tempdir().unwrap();
    let (dir, out) = (home.path().join("db"), home.path().join("out.csv"));
    fill(&dir);
    let line = ["export", dir.to_str().unwrap(), "t", out.to_str().unwrap()];
    let part = home.path().join("out.csv.part");
    fs::write(&part, b"of a killed export").unwrap();
    let said = failure(pando(line), 2);
    assert!(said.contains("out.csv.part exists already") && !out.exists(), "{said}");
    fs::remove_file(&part).unwrap();
    stdout(pando(line));
    assert!(out.exists() && !part.exists());
}
