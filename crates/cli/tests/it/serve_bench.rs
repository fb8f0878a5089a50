//! `pando bench http-kv` with a tiny input: it serves, checks every answer, and has a row for each case.

use serde_json::Value;
use std::process::Command;

#[test]
fn http_kv_measures_a_server_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let words =
        ["bench", "http-kv", "--n", "100", "--seconds", "1", "--durability", "sync", "--json", "--dir"];
    let output = Command::new(env!("CARGO_BIN_EXE_pando")).args(words).arg(dir.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(dir.path().read_dir().unwrap().count(), 0, "something was left behind");
    let text = String::from_utf8(output.stdout).unwrap();
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for kind in ["put", "get hit", "get miss", "delete"] {
        for how in ["1 connection", "64 connections", "knee", "paced"] {
            let case = format!("{kind}, {how}");
            assert!(rows.iter().any(|row| row["case"] == case.as_str()), "{case}: {text}");
        }
    }
    for row in &rows {
        let at = |name: &str| row[name].as_u64().unwrap_or_else(|| panic!("{name} in {row}"));
        let percentiles = ["p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns"].map(at);
        assert!(percentiles.is_sorted() && percentiles[0] > 0, "{row}");
    }
    let long = rows.iter().find(|row| row["case"] == "put, long").unwrap();
    assert_eq!(long["ops"], 600);
    let by_second = long["puts_by_second"].as_array().unwrap();
    assert_eq!(by_second.iter().map(|count| count.as_u64().unwrap()).sum::<u64>(), 600);
    for case in ["raw sync", "raw sync, during put, paced"] {
        assert!(rows.iter().any(|row| row["case"] == case), "{case}: {text}");
    }
    assert!(rows.iter().filter(|row| row["case"].as_str().unwrap().contains("beside")).count() == 2);
}
