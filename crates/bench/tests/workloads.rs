//! Every workload with tiny inputs, through the command: so that none rots, and each judges its own answers.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn command(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pando-bench")).args(args).output().expect("the command starts")
}

/// The rows of one workload, in a directory that must be empty again afterwards.
fn rows(args: &[&str]) -> Vec<Value> {
    let dir = tempfile::tempdir().unwrap();
    let mut all = args.to_vec();
    all.extend(["--json", "--dir", path(dir.path())]);
    let output = command(&all);
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{args:?}: {err}");
    assert_eq!(dir.path().read_dir().unwrap().count(), 0, "{args:?} left something behind");
    let rows: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for row in &rows {
        assert_eq!(row["workload"], args[0]);
        for name in ["seconds", "ops", "ns_per_op"] {
            assert!(row[name].as_f64().is_some_and(|number| number > 0.0), "{name} in {row}");
        }
        assert!(["sync", "buffered", "lazy", "none"].contains(&row["durability"].as_str().unwrap()));
        if cfg!(target_os = "linux") {
            assert!(row["peak_memory_bytes"].as_u64().unwrap() > 0, "{row}");
        }
    }
    rows
}

fn path(path: &Path) -> &str {
    path.to_str().expect("temporary directories have plain names")
}

fn cases(rows: &[Value]) -> Vec<&str> {
    rows.iter().map(|row| row["case"].as_str().unwrap()).collect()
}

fn number(row: &Value, name: &str) -> f64 {
    row[name].as_f64().unwrap_or_else(|| panic!("{name} in {row}"))
}

#[test]
fn the_list_names_every_workload() {
    let output = command(&["--list"]);
    let names = String::from_utf8(output.stdout).unwrap();
    let expected = [
        "btree-insert",
        "leaf-edit",
        "read-start",
        "write-throughput",
        "bulk",
        "point-get",
        "scan",
        "delete-churn",
        "range-delete",
        "many-ranges",
        "queue",
        "kv-load",
        "steady",
        "ceilings",
        "ycsb",
        "http-kv",
        "baseline",
    ];
    assert_eq!(names.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn flags_that_make_no_sense_are_usage_errors() {
    for args in [&["no-such"][..], &["scan", "--n", "many"], &["scan", "--threads", "0"], &[]] {
        assert_eq!(command(args).status.code(), Some(2), "{args:?}");
    }
    assert_eq!(command(&["scan", "--n", "100", "--page-size", "1000"]).status.code(), Some(1));
}

#[test]
fn typed_rows_take_the_place_of_bytes() {
    let inserted = rows(&["btree-insert", "--n", "3000", "--api", "rows"]);
    let expected =
        ["single, rows", "single + checkpoint, rows", "per-insert, rows", "per-insert + checkpoint, rows"];
    assert_eq!(cases(&inserted)[2..], expected);
    let args =
        ["write-throughput", "--threads", "2", "--iterations", "5", "--batch-size", "10", "--api", "rows"];
    assert_eq!(cases(&rows(&args)), ["per-transaction, rows", "long-lived, rows"]);
}

#[cfg(feature = "sql")]
#[test]
fn sql_takes_the_place_of_bytes() {
    let inserted = rows(&["btree-insert", "--n", "2000", "--api", "sql"]);
    let expected =
        ["single, sql", "single + checkpoint, sql", "per-insert, sql", "per-insert + checkpoint, sql"];
    assert_eq!(cases(&inserted)[2..], expected);
    let args =
        ["write-throughput", "--threads", "2", "--iterations", "5", "--batch-size", "10", "--api", "sql"];
    let written = rows(&args);
    assert_eq!(cases(&written), ["per-transaction, sql", "long-lived, sql"]);
    assert!(number(&written[0], "open_ns") > 0.0);
}

#[test]
fn btree_insert_has_three_modes_and_a_reference() {
    let rows = rows(&["btree-insert", "--n", "3000"]);
    let expected = [
        "BTreeMap<u32, ()>",
        "BTreeMap<u64, u64>",
        "none",
        "none + checkpoint",
        "single",
        "single + checkpoint",
        "per-insert",
        "per-insert + checkpoint",
    ];
    assert_eq!(cases(&rows), expected);
    assert_eq!((&rows[4]["durability"], &rows[6]["durability"]), (&"sync".into(), &"buffered".into()));
    assert_eq!(rows[4]["flushes"], 1, "one transaction, one flush");
    assert!(number(&rows[3], "seconds") >= number(&rows[2], "seconds"));
}

#[test]
fn leaf_edit_flushes_once_and_counts_what_pages_did() {
    let rows = rows(&["leaf-edit", "--n", "2000"]);
    assert_eq!(rows.len(), 8);
    for row in rows.iter().filter(|row| row["case"].as_str().unwrap().starts_with("editor")) {
        assert_eq!((number(row, "allocator_failures"), number(row, "compactions")), (0.0, 0.0), "{row}");
        assert!(number(row, "splits") > 0.0);
    }
    let editor_only = self::rows(&["leaf-edit", "--n", "500", "--path", "editor"]);
    assert!(cases(&editor_only).iter().all(|case| case.starts_with("editor")));
}

#[test]
fn read_start_allocates_nothing() {
    let rows = rows(&["read-start", "--n", "500", "-i", "400", "--threads", "1,2"]);
    assert_eq!(rows.len(), 16);
    for row in &rows {
        assert_eq!(number(row, "allocations_per_begin"), 0.0, "{row}");
    }
    assert!(rows.iter().any(|row| number(row, "commits") > 0.0), "the writer wrote");
}

#[test]
fn write_throughput_has_both_forms() {
    let rows =
        rows(&["write-throughput", "-i", "5", "--batch-size", "7", "--threads", "1,2", "--work-us", "10"]);
    assert_eq!(rows.len(), 4);
    for row in &rows {
        let threads = row["threads"].as_u64().unwrap();
        assert_eq!((row["ops"].as_u64(), row["commits"].as_u64()), (Some(35 * threads), Some(5 * threads)));
        assert!(number(row, "commits_per_flush") >= 1.0);
        assert!(number(row, "p50_ns") <= number(row, "max_ns"));
    }
    assert!(rows[0]["bytes_per_handle"].as_f64().is_some());
}

#[test]
fn a_long_run_crosses_checkpoints() {
    let rows = rows(&[
        "write-throughput",
        "--long",
        "--n",
        "100k",
        "--threads",
        "2",
        "--durability",
        "lazy",
        "--batch-size",
        "10",
    ]);
    assert_eq!(rows[0]["ops"], 100_000);
    assert!(number(&rows[0], "checkpoints") >= 1.0);
}

#[test]
fn bulk_loads_by_transactions_and_by_the_editor() {
    let rows = rows(&["bulk", "--n", "3000", "--batch-size", "100", "--durability", "buffered"]);
    assert_eq!(
        cases(&rows),
        [
            "batches of 100",
            "batches of 100 + checkpoint",
            "one transaction",
            "one transaction + checkpoint",
            "bulk load",
            "bulk load + checkpoint",
            "bulk load, ascending",
            "bulk load, ascending + checkpoint"
        ]
    );
    assert_eq!(self::rows(&["bulk", "--n", "3000", "--path", "editor"]).len(), 2);
}

#[test]
fn point_get_reads_cold_and_warm_and_past_its_memory() {
    let rows = rows(&["point-get", "--n", "3000", "-i", "1000", "--threads", "1"]);
    assert_eq!(
        cases(&rows),
        ["copy, cold", "copy, warm", "in place, cold", "in place, warm", "absent, cold", "absent, warm"]
    );
    assert!(number(&rows[0], "pool_faults") > 0.0 && number(&rows[1], "pool_faults") == 0.0);
    let small = self::rows(&["point-get", "--n", "100k", "-i", "5000", "--threads", "1", "--memory", "8MiB"]);
    assert!(number(&small[3], "pool_faults") > 0.0, "warm reads of more than the memory fault: {}", small[3]);
    assert!(number(&small[3], "pool_bytes") <= f64::from(8 << 20));
}

#[test]
fn scan_goes_both_ways_with_and_without_the_memtable() {
    let rows = rows(&["scan", "--n", "3000", "--repeat", "2"]);
    assert_eq!(rows.len(), 8);
    assert_eq!(rows[4]["repetition"], 2);
}

#[test]
fn delete_churn_counts_space_over_what_lives() {
    let rows = rows(&["delete-churn", "--n", "5000", "--memory", "4MiB", "--batch-size", "100"]);
    assert_eq!(rows.len(), 1);
    assert!(number(&rows[0], "checkpoints") >= 2.0, "{}", rows[0]);
    let [most, end] = ["space_over_live_max", "space_over_live_end"].map(|name| number(&rows[0], name));
    assert!(most > 1.0 && end > 1.0, "{}", rows[0]);
}

#[test]
fn range_delete_reads_little() {
    let rows = rows(&["range-delete", "--n", "30k"]);
    assert_eq!(cases(&rows), ["commit", "checkpoint", "second checkpoint"]);
    assert_eq!(number(&rows[0], "pages_read"), 0.0);
    assert!(number(&rows[1], "pages_read") < 20.0, "{}", rows[1]);
    assert!(number(&rows[1], "data_used_bytes") < 0.7 * number(&rows[0], "data_used_bytes"), "{}", rows[1]);
}

#[test]
fn a_queue_walks_over_little_of_what_was_taken() {
    for layout in ["btree", "lsm"] {
        let rows = rows(&["queue", "--n", "3000", "--layout", layout]);
        assert_eq!(cases(&rows), ["pop", "first", "last"]);
        for row in &rows {
            assert!(number(row, "dead_passed") < 64.0, "{row}");
        }
    }
}

#[test]
fn many_ranges_are_deleted_and_stay_so() {
    let rows = rows(&["many-ranges", "--n", "500"]);
    assert_eq!(cases(&rows), ["delete", "scan", "get", "first", "checkpoint", "scan after"]);
}

#[test]
fn baseline_measures_the_machine() {
    let rows = rows(&["baseline", "--n", "1000", "-i", "3"]);
    assert_eq!(rows.len(), 4);
    let all_ns = number(&rows[0], "ns_per_op") * number(&rows[0], "ops");
    assert!(
        number(&rows[0], "max_ns") <= all_ns * 1.01,
        "one of three takes no longer than all: {}",
        rows[0]
    );
    assert!(number(&rows[0], "p50_ns") > 100.0, "a write and a sync are system calls");
}

#[test]
fn the_table_is_for_people() {
    let output = command(&["baseline", "--n", "1000", "-i", "3"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("baseline\ncase"), "{text}");
    assert!(text.contains("append 4 KiB + sync"));
}

#[test]
fn ceilings_has_a_row_for_each_phase() {
    for layout in ["btree", "lsm"] {
        let rows = rows(&["ceilings", "--n", "2000", "--memory", "8MiB", "--layout", layout]);
        let phases = ["load", "puts", "one transaction", "recovery", "compact", "check", "backup"];
        assert_eq!(cases(&rows), phases, "{layout}");
        assert!(rows.iter().all(|row| number(row, "budget_bytes") == f64::from(8 << 20)));
    }
}

#[test]
fn steady_keeps_its_bounds_and_samples_each_second() {
    let rows = rows(&["steady", "--n", "2000", "--seconds", "2", "--memory", "8MiB"]);
    assert_eq!(cases(&rows), ["put"]);
    assert!(number(&rows[0], "p999_ns") >= number(&rows[0], "own_p50_ns"));
    for name in ["rows_by_second", "resident_by_second_bytes", "debt_by_second_permille"] {
        assert!(!rows[0][name].as_array().unwrap().is_empty(), "{name}");
    }
}
