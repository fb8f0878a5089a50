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
    for (at, path) in env::args().skip(1).enumerate() {
        let text = fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let counts = script(&path, &String::from_utf8_lossy(&text), at % 2 == 0);
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

/// A statement of a script.
struct Statement {
    sql: String,
    is_query: bool,
    is_ordered: bool,
}

/// The rows of a statement as texts, sorted if they have no order.
type Shown = Result<Vec<String>, Error>;

fn script(path: &str, text: &str, is_pando_first: bool) -> Counts {
    let statements = statements(text);
    // One after the other: side by side, each would run with what the other leaves in caches and in the allocator.
    let ours = || {
        let db = pando::Database::builder().in_memory().expect("a database in memory opens");
        run(&Connection::open(&db).expect("a connection opens"), &statements)
    };
    let theirs = || run(&Connection::in_memory().expect("a connection opens"), &statements);
    let ((ours, our_time), (theirs, their_time)) = if is_pando_first {
        let ours = ours();
        (ours, theirs())
    } else {
        let theirs = theirs();
        (ours(), theirs)
    };
    let mut counts = Counts { ours: our_time, theirs: their_time, ..Counts::default() };
    for (statement, results) in statements.iter().zip(ours.into_iter().zip(theirs)) {
        compare(path, &statement.sql, results, &mut counts);
    }
    counts
}

fn statements(text: &str) -> Vec<Statement> {
    let mut statements = Vec::new();
    for block in text.replace("\r\n", "\n").split("\n\n") {
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
        let sql = lines.take_while(|line| *line != "----").collect::<Vec<_>>().join("\n");
        let is_query = head.starts_with("query");
        let is_ordered = head.split_whitespace().nth(2) == Some("nosort");
        statements.push(Statement { sql, is_query, is_ordered });
    }
    statements
}

/// Runs the statements. Returns what each showed, and the time of all, without that for the texts.
fn run(connection: &Connection, statements: &[Statement]) -> (Vec<Shown>, Duration) {
    let mut time = Duration::ZERO;
    let one = |statement: &Statement| {
        let Statement { sql, is_query, is_ordered } = statement;
        let start = Instant::now();
        let rows = match is_query {
            true => connection.query(sql),
            false => connection.execute(sql).map(|()| Rows::default()),
        };
        time += start.elapsed();
        let mut texts: Vec<String> = rows?.iter().map(|row| format!("{row:?}")).collect();
        if !is_ordered {
            texts.sort();
        }
        Ok(texts)
    };
    (statements.iter().map(one).collect(), time)
}

fn compare(path: &str, sql: &str, results: (Shown, Shown), counts: &mut Counts) {
    match results {
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

fn short(result: &Shown) -> String {
    let text = match result {
        Ok(rows) => format!("{} rows {rows:?}", rows.len()),
        Err(error) => format!("error {error}"),
    };
    text.chars().take(300).collect()
}
