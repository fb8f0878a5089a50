//! Runs scripts of sqllogictest on Pando's trees and on SQLite's own in memory, and compares every result.
//!
//! `cargo run --release --package pando-db-sqlite --example sqllogictest -- FILE...` takes files in the format of
//! <https://www.sqlite.org/sqllogictest/doc/trunk/about.wiki>, of which it needs statements and queries only: the
//! expected results are SQLite's. Rows of a query without an order are compared in any order.

use pando_sqlite::{Connection, Error, Rows};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use std::{env, fs};

/// What happened to the statements of a script.
#[derive(Default)]
struct Counts {
    same: usize,
    different: usize,
    refused: BTreeMap<String, usize>,
    ours: Duration,
    theirs: Duration,
}

fn main() {
    let mut all = Counts::default();
    for path in env::args().skip(1) {
        let text = fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let counts = script(&path, &String::from_utf8_lossy(&text));
        let refused: usize = counts.refused.values().sum();
        println!(
            "{path}: {} same, {} different, {refused} refused, {:.2} s, SQLite {:.2} s",
            counts.same,
            counts.different,
            counts.ours.as_secs_f64(),
            counts.theirs.as_secs_f64()
        );
        all.same += counts.same;
        all.different += counts.different;
        all.ours += counts.ours;
        all.theirs += counts.theirs;
        for (reason, count) in counts.refused {
            *all.refused.entry(reason).or_default() += count;
        }
    }
    println!("all: {} same, {} different, refused: {:?}", all.same, all.different, all.refused);
    println!("{:.2} s, SQLite in memory {:.2} s", all.ours.as_secs_f64(), all.theirs.as_secs_f64());
    std::process::exit(i32::from(all.different > 0));
}

fn script(path: &str, text: &str) -> Counts {
    let db = pando::Database::builder().in_memory().expect("a database in memory opens");
    let ours = Connection::open(&db).expect("a connection opens");
    let theirs = Connection::in_memory().expect("a connection opens");
    let mut counts = Counts::default();
    let text = text.replace("\r\n", "\n");
    for block in text.split("\n\n") {
        let lines = || block.lines().filter(|line| !line.starts_with('#'));
        let foreign = |line: &str| match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["onlyif", name, ..] => name != "sqlite",
            ["skipif", name, ..] => name == "sqlite",
            _ => false,
        };
        if lines().any(foreign) {
            continue;
        }
        let mut lines =
            lines().skip_while(|line| !line.starts_with("statement") && !line.starts_with("query"));
        let Some(head) = lines.next() else { continue };
        let sql: Vec<&str> = lines.take_while(|line| *line != "----").collect();
        let sql = sql.join("\n");
        let is_query = head.starts_with("query");
        let is_ordered = head.split_whitespace().nth(2) == Some("nosort");
        let (mine, time) = timed(&ours, &sql, is_query);
        counts.ours += time;
        let (other, time) = timed(&theirs, &sql, is_query);
        counts.theirs += time;
        compare(path, &sql, mine, other, is_ordered, &mut counts);
    }
    counts
}

fn timed(connection: &Connection, sql: &str, is_query: bool) -> (Result<Rows, Error>, Duration) {
    let start = Instant::now();
    let rows =
        if is_query { connection.query(sql) } else { connection.execute(sql).map(|()| Rows::default()) };
    (rows, start.elapsed())
}

fn compare(
    path: &str,
    sql: &str,
    ours: Result<Rows, Error>,
    theirs: Result<Rows, Error>,
    is_ordered: bool,
    counts: &mut Counts,
) {
    let texts = |rows: Rows| {
        let mut rows: Vec<String> = rows.iter().map(|row| format!("{row:?}")).collect();
        if !is_ordered {
            rows.sort();
        }
        rows
    };
    match (ours.map(texts), theirs.map(texts)) {
        (Ok(ours), Ok(theirs)) if ours == theirs => counts.same += 1,
        (Err(ours), Err(theirs)) if ours.code == theirs.code => counts.same += 1,
        (Err(error), _)
            if error.message.contains("not supported") || error.message.contains("cannot have") =>
        {
            *counts.refused.entry(error.message).or_default() += 1;
        }
        (ours, theirs) => {
            counts.different += 1;
            if counts.different <= 5 {
                println!("{path}: {sql}\n  Pando  {}\n  SQLite {}", short(&ours), short(&theirs));
            }
        }
    }
}

fn short(result: &Result<Vec<String>, Error>) -> String {
    let text = match result {
        Ok(rows) => format!("{} rows {rows:?}", rows.len()),
        Err(error) => format!("error {error}"),
    };
    text.chars().take(300).collect()
}
