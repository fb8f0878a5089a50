//! `pando compact` and `pando check`.

use crate::common::{failure, pando, text};
use pando::Database;
use std::path::Path;

fn files_bytes(dir: &Path) -> u64 {
    dir.read_dir().unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

#[test]
fn it_prints_what_the_files_took_and_take() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::builder().memory_bytes(32 << 20).create(dir.path()).unwrap();
    let table = db.ensure_table("t").unwrap();
    let key = |n: u32| n.wrapping_mul(0x9e37_79b9).to_be_bytes();
    db.write(|tx| (0..20_000).try_for_each(|n| tx.put(&table, &key(n), &[7; 100]))).unwrap();
    db.checkpoint().unwrap();
    db.write(|tx| (0..20_000).filter(|n| n % 8 > 0).try_for_each(|n| tx.delete(&table, &key(n)))).unwrap();
    db.close().unwrap();
    drop(db);
    let before = files_bytes(dir.path());
    let path = dir.path().to_str().unwrap();
    let said = text(pando(["compact", path, "--json"]));
    for field in ["data_file_bytes_before", "data_file_bytes", "log_file_bytes_before", "log_file_bytes"] {
        assert!(said.contains(&format!("\"{field}\":")), "{field} in {said}");
    }
    let after = files_bytes(dir.path());
    // 380 KB are in use, and a quarter of a megabyte is kept for the checkpoint that a full disk needs.
    assert!(after < before / 4 && after < 800_000, "{before} bytes became {after}: {said}");
    let checked = text(pando(["check", path, "--json"]));
    // The table's row in the catalog is one more.
    assert!(checked.contains("\"records_in_pages\":2501"), "{checked}");
    assert!(text(pando(["compact", path])).contains("data_used_bytes"));
    failure(pando(["compact", dir.path().join("nowhere").to_str().unwrap()]), 1);
}

#[test]
fn a_check_says_that_there_is_no_checkpoint_yet() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db").to_str().unwrap().to_owned();
    text(pando(["put", &path, "t", "k", "v"]));
    text(pando(["put", &path, "t", "l", "v"]));
    let said = text(pando(["check", &path]));
    assert!(said.contains("none yet: everything is in the log"), "{said}");
    // The table, its row in the catalog, and two records.
    let said = text(pando(["check", &path, "--json"]));
    for field in ["\"checkpoint\":null", "\"commits_in_log\":3", "\"changes_in_log\":3"] {
        assert!(said.contains(field), "{field} in {said}");
    }
    text(pando(["checkpoint", &path]));
    let said = text(pando(["check", &path, "--json"]));
    for field in ["\"checkpoint\":1", "\"commits_in_log\":0", "\"changes_in_log\":0"] {
        assert!(said.contains(field), "{field} in {said}");
    }
    assert!(!text(pando(["check", &path])).contains("none yet"));
}
