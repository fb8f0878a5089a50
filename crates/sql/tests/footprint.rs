//! What a connection costs: the time to open it and the memory that it keeps, of a thousand in one process.
//!
//! It is a program of its own, because it reads the memory of the process.
//! `cargo test --release -p pando-db-sql --test footprint -- --nocapture` prints the figures.
#![cfg(target_os = "linux")]

use pando_sql::{Connection, Sql, Value};
use std::time::Instant;

const CONNECTIONS: usize = 1000;
/// The most bytes that a connection may keep, whether it only reads or writes, too.
const MOST_BYTES: usize = 100 << 10;
/// The most microseconds for the median opening. An optimized build takes some 50, a debug build on a busy machine
/// three times as long.
const MOST_MICROSECONDS: u128 = 500;

/// Returns the bytes of memory that the process has.
fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("Linux says it");
    let kibibytes: usize = line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap();
    kibibytes << 10
}

#[test]
fn a_connection_takes_microseconds_and_less_than_100_kib() {
    let dir = tempfile::tempdir().unwrap();
    let db = pando::Database::create(dir.path()).unwrap();
    let sql = Sql::new(db.clone());
    let first = sql.connect().unwrap();
    // Definitions of a usual size, because every connection has its own copy of them.
    for table in 0..6 {
        first
            .execute_batch(&format!(
                "CREATE TABLE t{table}(id INTEGER PRIMARY KEY, name TEXT UNIQUE, size REAL, note);
                 CREATE INDEX by_size{table} ON t{table}(size, name);
                 CREATE TRIGGER noted{table} AFTER INSERT ON t{table} BEGIN
                   UPDATE t{table} SET note = new.name WHERE id = new.id; END;
                 INSERT INTO t{table}(name, size) VALUES ('a', 1), ('b', 2)"
            ))
            .unwrap();
    }
    let read = |connection: &Connection| {
        let rows = connection.query("SELECT name, note FROM t3 WHERE size > 1.5", &[]).unwrap();
        assert_eq!(rows, [["b", "b"].map(|text| Value::Text(text.into()))]);
    };
    // What the process loads once.
    read(&sql.connect().unwrap());

    let before = resident_bytes();
    let mut times = Vec::with_capacity(CONNECTIONS);
    let mut open = || {
        let begun = Instant::now();
        let connection = sql.connect().unwrap();
        times.push(begun.elapsed().as_micros());
        connection
    };
    let all: Vec<Connection> = (0..CONNECTIONS).map(|_| open()).collect();
    let opened = resident_bytes();
    all.iter().for_each(read);
    let has_read = resident_bytes();
    for (number, connection) in all.iter().enumerate() {
        connection
            .execute("INSERT INTO t5(name, size) VALUES (?, 0)", &[format!("n{number}").into()])
            .unwrap();
    }
    let has_written = resident_bytes();
    times.sort_unstable();
    let median = times[CONNECTIONS / 2];
    let each = |now: usize| now.saturating_sub(before) / CONNECTIONS;
    println!(
        "{CONNECTIONS} connections: {median} us each (99 of 100 within {} us), {} bytes each when opened, \
         {} when it has read, {} when it has written",
        times[CONNECTIONS * 99 / 100],
        each(opened),
        each(has_read),
        each(has_written)
    );
    assert!(median < MOST_MICROSECONDS, "{median} us");
    // Less than the smallest structure of SQLite is no measurement.
    assert!(
        each(opened) > 1000 && each(has_written) < MOST_BYTES,
        "{} and {}",
        each(opened),
        each(has_written)
    );
    drop(all);
    drop(first);
    db.close().unwrap();
}
