//! The memory of a statement that writes one row again and again, which is the process': so a test of its own.
#![cfg(target_os = "linux")]

use pando_sqlite::{Connection, Value};

/// Returns the most memory that the process has had, in bytes.
fn peak_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("it can be read");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("it has a peak");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") << 10
}

#[test]
fn a_row_that_is_written_again_and_again_is_kept_once() {
    // AddressSanitizer, for which `scripts/sanitize` sets this, keeps 256 MiB of what was freed.
    if std::env::var_os("ASAN_OPTIONS").is_some() {
        return;
    }
    const ROW_BYTES: usize = 10_000;
    const TIMES: usize = 10_000;
    let db = pando::Database::builder().in_memory().expect("it opens");
    let connection = Connection::open(&db).expect("it opens");
    connection.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, n, c)").expect("it creates");
    let upserts = |times: usize| {
        format!(
            "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < {times})
             INSERT INTO t SELECT 1, i, zeroblob({ROW_BYTES}) || i FROM n WHERE true
             ON CONFLICT(id) DO UPDATE SET n = excluded.n, c = excluded.c"
        )
    };
    connection.execute(&upserts(100)).expect("it writes");
    let before = peak_bytes();
    connection.execute(&upserts(TIMES)).expect("it writes");
    let taken = peak_bytes() - before;
    assert!(taken < ROW_BYTES * TIMES / 4, "{taken} bytes for {TIMES} times {ROW_BYTES}");
    let row = connection.query("SELECT count(*), sum(n) FROM t").expect("it reads");
    assert_eq!(row, [[Value::Integer(1), Value::Integer(TIMES as i64)]]);
}
