//! The memory of a look-up among many long keys that begin in the same way, in a process of its own, whose memory is
//! measured.
#![cfg(target_os = "linux")]

use pando_sqlite::{Connection, Value};
use std::fs;

/// Returns the largest memory that the process has had since the last call, in KiB.
fn take_peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("it is a line");
    let kib = line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number");
    fs::write("/proc/self/clear_refs", "5").expect("a process may do it to itself");
    kib
}

#[test]
fn a_look_up_among_long_keys_keeps_few_of_them() {
    const ROWS: usize = 8000;
    let directory = tempfile::tempdir().expect("a directory");
    // Most of its pages are not in memory, so that reading them is seen, too, but only up to this.
    let db =
        pando::Database::builder().memory_bytes(32 << 20).create(directory.path()).expect("it is created");
    let connection = Connection::open(&db).expect("it opens");
    connection
        .execute(&format!(
            "PRAGMA synchronous = OFF; CREATE TABLE t(a INTEGER PRIMARY KEY, s); CREATE INDEX i ON t(s);
             WITH RECURSIVE n(x) AS (VALUES(1) UNION ALL SELECT x + 1 FROM n WHERE x < {ROWS})
                INSERT INTO t SELECT x, hex(zeroblob(1750)) || x FROM n"
        ))
        .expect("it runs");
    db.checkpoint().expect("it checkpoints");
    let look_up = |sql: &str| {
        // The pages are read once before.
        connection.query("SELECT count(*) FROM t INDEXED BY i").expect("it runs");
        take_peak_kib();
        let before = take_peak_kib();
        let rows = connection.query(sql).expect("it runs");
        (rows, take_peak_kib().saturating_sub(before))
    };
    for (sql, found) in [
        ("SELECT a FROM t WHERE s = hex(zeroblob(1750)) || 77", 77),
        ("SELECT a FROM t WHERE s > hex(zeroblob(1750)) || 77 ORDER BY s LIMIT 1", 770),
        ("SELECT a FROM t WHERE s < hex(zeroblob(1750)) || 77 ORDER BY s DESC LIMIT 1", 7699),
    ] {
        let (rows, peak_kib) = look_up(sql);
        assert_eq!(rows, [[Value::Integer(found)]], "{sql}");
        assert!(peak_kib < 16 << 10, "{sql}: {peak_kib} KiB");
    }
}
