//! What queries cost, in instructions: on Pando's trees, on a file of SQLite's, through virtual tables.
//!
//! ```text
//! cargo build --release --package pando-db-sql --example measure
//! valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect='*measured*' \
//!     target/release/examples/measure ENGINE WORK
//! ```
//!
//! Where valgrind ends with a signal in `vdso`, build with `RUSTFLAGS="--cfg rustix_use_libc"`.
//!
//! With a third argument, ROUNDS, the work is done that often, and the median of the times is printed as well.
//!
//! ENGINE is `trees`, `file` or `virtual`, and WORK a name in [`WORKS`]. The table has 100,000 rows, and everything is
//! in memory. The program prints how many rows or statements the instructions are to be divided by.

use std::path::Path;
use std::time::Instant;
use std::{env, hint};

const ROWS: i64 = 100_000;
const TABLE: &str = "CREATE TABLE IF NOT EXISTS t(a INTEGER PRIMARY KEY, b INTEGER, c TEXT, d INTEGER)";
const INDEX: &str = "CREATE INDEX t_d ON t(d)";
/// Pseudo-random values in `d`, none twice.
const FILL: &str =
    "INSERT INTO t WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i+1 FROM n WHERE i<100000)
    SELECT i, i % 1000, 'a text of some forty bytes, number ' || i, i * 7919 % 100003 FROM n";

/// A name, a statement with at most one parameter, how often it runs, and by what its instructions are divided.
const WORKS: &[(&str, &str, i64, i64)] = &[
    ("sum", "SELECT sum(b) FROM t", 1, ROWS),
    ("count", "SELECT count(*) FROM t", 1, ROWS),
    ("lookup", "SELECT b FROM t WHERE a = ?1", 2000, 2000),
    ("range", "SELECT sum(b) FROM t WHERE a BETWEEN ?1 AND ?1 + 99", 500, 500),
    ("index-lookup", "SELECT b FROM t WHERE d = ?1", 2000, 2000),
    ("index-range", "SELECT sum(b) FROM t WHERE d BETWEEN ?1 AND ?1 + 99", 500, 500),
    ("join", "SELECT sum(u.b) FROM t JOIN t AS u ON u.a = t.b + 1 WHERE t.a < 10000", 1, 10_000),
    ("update", "UPDATE t SET b = b + 1 WHERE a = ?1", 1000, 1000),
    ("update-all", "UPDATE t SET b = b + 1", 1, ROWS),
    ("insert", "INSERT INTO t(b, c, d) VALUES (?1, 'a text of some forty bytes, number', ?1)", 1000, 1000),
];

trait Engine {
    fn execute(&self, sql: &str);
    /// Runs a statement with each parameter, and returns the sum of the first column.
    fn run(&self, sql: &str, parameters: &[i64]) -> i64;
}

impl Engine for pando_sqlite::Connection {
    fn execute(&self, sql: &str) {
        pando_sqlite::Connection::execute(self, sql).expect(sql);
    }

    fn run(&self, sql: &str, parameters: &[i64]) -> i64 {
        let mut statement = self.prepare(sql).expect(sql);
        let mut sum = 0;
        for &parameter in parameters {
            if sql.contains("?1") {
                statement.bind(1, &pando_sqlite::Value::Integer(parameter)).expect(sql);
            }
            while statement.step().expect(sql) {
                if let pando_sqlite::Value::Integer(value) = statement.value(0) {
                    sum += value;
                }
            }
        }
        sum
    }
}

impl Engine for rusqlite::Connection {
    fn execute(&self, sql: &str) {
        self.execute_batch(sql).expect(sql);
    }

    fn run(&self, sql: &str, parameters: &[i64]) -> i64 {
        let mut statement = self.prepare(sql).expect(sql);
        let mut sum = 0;
        for parameter in parameters {
            let bound: &[&dyn rusqlite::ToSql] = if sql.contains("?1") { &[parameter] } else { &[] };
            let mut rows = statement.query(bound).expect(sql);
            while let Some(row) = rows.next().expect(sql) {
                sum += row.get::<_, Option<i64>>(0).expect(sql).unwrap_or(0);
            }
        }
        sum
    }
}

impl Engine for pando_sql::Connection {
    fn execute(&self, sql: &str) {
        self.execute_batch(sql).expect(sql);
    }

    fn run(&self, sql: &str, parameters: &[i64]) -> i64 {
        let mut statement = self.prepare(sql).expect(sql);
        let mut sum = 0;
        for &parameter in parameters {
            let bound: &[pando_sql::Value] = if sql.contains("?1") { &[parameter.into()] } else { &[] };
            if !sql.starts_with("SELECT") {
                statement.execute(bound).expect(sql);
                continue;
            }
            let mut rows = statement.query(bound).expect(sql);
            while let Some(row) = rows.next().expect(sql) {
                sum += row.get(0).as_i64().unwrap_or(0);
            }
        }
        sum
    }
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (engine, work, rounds) = match &arguments[..] {
        [engine, work] => (engine, work, 1),
        [engine, work, rounds] => (engine, work, rounds.parse().expect("a number of rounds")),
        _ => panic!("arguments: an engine, a work, and perhaps a number of rounds"),
    };
    let dir = tempfile::tempdir().expect("a directory");
    match engine.as_str() {
        "trees" => {
            let db = pando::Database::create(dir.path()).expect("it is created");
            let connection = pando_sqlite::Connection::open(&db).expect("it opens");
            prepare(&connection, || db.checkpoint().expect("it checkpoints"));
            measure(&connection, work, rounds);
        }
        "file" => {
            let connection = file(dir.path());
            prepare(&connection, || Engine::execute(&connection, "PRAGMA wal_checkpoint(TRUNCATE)"));
            measure(&connection, work, rounds);
        }
        "virtual" => {
            let db = pando::Database::create(dir.path()).expect("it is created");
            let sql = pando_sql::Sql::new(db.clone());
            let definition = dir.path().join("definition.db");
            Engine::execute(&rusqlite::Connection::open(&definition).expect("it opens"), TABLE);
            pando_sql::import_sqlite_typed(&sql, &definition, |_| {}).expect("it is imported");
            let connection = sql.connect().expect("it connects");
            prepare(&connection, || db.checkpoint().expect("it checkpoints"));
            measure(&connection, work, rounds);
        }
        other => panic!("no engine {other}"),
    }
}

fn file(dir: &Path) -> rusqlite::Connection {
    let connection = rusqlite::Connection::open(dir.join("sqlite.db")).expect("it opens");
    let options = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -200000";
    Engine::execute(&connection, options);
    connection
}

fn prepare(engine: &impl Engine, checkpoint: impl FnOnce()) {
    engine.execute(TABLE);
    engine.execute(FILL);
    engine.execute(INDEX);
    checkpoint();
    engine.run("SELECT sum(b) FROM t WHERE d > 0", &[0]);
}

fn measure(engine: &impl Engine, name: &str, rounds: usize) {
    let &(_, sql, times, divisor) =
        WORKS.iter().find(|work| work.0 == name).unwrap_or_else(|| panic!("no work {name}"));
    let parameters: Vec<i64> = (0..times).map(|at| at * 48_271 % ROWS + 1).collect();
    let is_change = sql.starts_with("UPDATE") || sql.starts_with("INSERT");
    let (mut times, mut sum) = (Vec::new(), 0);
    for _ in 0..rounds {
        engine.execute(if is_change { "BEGIN" } else { "SELECT 1" });
        let begin = Instant::now();
        sum = measured(engine, sql, &parameters);
        times.push(begin.elapsed());
        engine.execute(if is_change { "COMMIT" } else { "SELECT 1" });
    }
    println!("{name}: sum {sum}, divide by {divisor}");
    if rounds > 1 {
        times.sort_unstable();
        println!("{:.0} ns", times[rounds / 2].as_nanos() as f64 / divisor as f64);
    }
}

#[inline(never)]
fn measured(engine: &impl Engine, sql: &str, parameters: &[i64]) -> i64 {
    hint::black_box(engine.run(hint::black_box(sql), parameters))
}
