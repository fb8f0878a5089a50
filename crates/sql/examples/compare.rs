//! The same SQL on Pando and on SQLite's own tables, one after the other, in directories side by side, as durable:
//! `Sync` here, WAL with `synchronous=FULL` there. Every answer is checked.
//!
//! ```text
//! cargo run --release -p pando-db-sql --example compare -- [TRANSACTIONS] [ROWS] [DIR]
//! ```
//!
//! `write-throughput`: T threads, each so many transactions of 100 inserts, ids disjoint and ascending; over one
//! connection a thread, and over a new connection for each transaction. Then a table of ROWS rows: look-ups by primary
//! key and by index, a range, a join, an aggregate.

use std::path::Path;
use std::time::{Duration, Instant};

const ROWS_A_TRANSACTION: i64 = 100;
const TABLE: &str = "CREATE TABLE entry(id INTEGER PRIMARY KEY, data TEXT NOT NULL)";
const INSERT: &str = "INSERT INTO entry(id, data) VALUES(?, ?)";
const PEOPLE: [&str; 3] = [
    "CREATE TABLE person(id INTEGER PRIMARY KEY, name TEXT NOT NULL, town INTEGER NOT NULL,
         age INTEGER NOT NULL)",
    "CREATE INDEX by_name ON person(name)",
    "CREATE TABLE town(id INTEGER PRIMARY KEY, name TEXT NOT NULL)",
];

/// One side.
trait Side: Sync {
    type Connection;
    const NAME: &'static str;
    fn connect(&self) -> Self::Connection;
    fn run(connection: &Self::Connection, sql: &str);
    /// A transaction of inserts.
    fn insert(connection: &Self::Connection, sql: &str, rows: &mut dyn Iterator<Item = (i64, String)>);
    /// The sum of the first columns, which are integers, and the number of rows.
    fn sum(
        connection: &Self::Connection,
        sql: &str,
        parameters: &mut dyn Iterator<Item = pando_sql::Value>,
    ) -> (i64, u64);
}

struct Pando(pando_sql::Sql);

impl Side for Pando {
    type Connection = pando_sql::Connection;
    const NAME: &'static str = "pando";

    fn connect(&self) -> pando_sql::Connection {
        self.0.connect().unwrap()
    }

    fn run(connection: &pando_sql::Connection, sql: &str) {
        connection.execute_batch(sql).unwrap();
    }

    fn insert(connection: &pando_sql::Connection, sql: &str, rows: &mut dyn Iterator<Item = (i64, String)>) {
        connection.execute("BEGIN IMMEDIATE", &[]).unwrap();
        let mut statement = connection.prepare(sql).unwrap();
        for (id, data) in rows {
            statement.execute(&[id.into(), data.into()]).unwrap();
        }
        connection.execute("COMMIT", &[]).unwrap();
    }

    fn sum(
        connection: &pando_sql::Connection,
        sql: &str,
        parameters: &mut dyn Iterator<Item = pando_sql::Value>,
    ) -> (i64, u64) {
        let mut statement = connection.prepare(sql).unwrap();
        let (mut sum, mut count) = (0i64, 0);
        let mut add = |parameters: &[pando_sql::Value]| {
            let mut rows = statement.query(parameters).unwrap();
            while let Some(row) = rows.next().unwrap() {
                sum = sum.wrapping_add(row.get(0).as_i64().unwrap());
                count += 1;
            }
        };
        if sql.contains('?') {
            parameters.for_each(|value| add(&[value]))
        } else {
            add(&[])
        }
        (sum, count)
    }
}

struct Sqlite<'a>(&'a Path);

impl Side for Sqlite<'_> {
    type Connection = rusqlite::Connection;
    const NAME: &'static str = "sqlite";

    fn connect(&self) -> rusqlite::Connection {
        let connection = rusqlite::Connection::open(self.0.join("file.db")).unwrap();
        connection.busy_timeout(Duration::from_secs(120)).unwrap();
        connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL").unwrap();
        connection
    }

    fn run(connection: &rusqlite::Connection, sql: &str) {
        connection.execute_batch(sql).unwrap();
    }

    fn insert(connection: &rusqlite::Connection, sql: &str, rows: &mut dyn Iterator<Item = (i64, String)>) {
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        let mut statement = connection.prepare_cached(sql).unwrap();
        for (id, data) in rows {
            statement.execute((id, data)).unwrap();
        }
        drop(statement);
        connection.execute_batch("COMMIT").unwrap();
    }

    fn sum(
        connection: &rusqlite::Connection,
        sql: &str,
        parameters: &mut dyn Iterator<Item = pando_sql::Value>,
    ) -> (i64, u64) {
        let mut statement = connection.prepare_cached(sql).unwrap();
        let (mut sum, mut count) = (0i64, 0);
        let mut add = |value: Option<pando_sql::Value>| {
            let mut rows = statement.query(rusqlite::params_from_iter(value)).unwrap();
            while let Some(row) = rows.next().unwrap() {
                sum = sum.wrapping_add(row.get::<_, i64>(0).unwrap());
                count += 1;
            }
        };
        if sql.contains('?') {
            parameters.for_each(|value| add(Some(value)))
        } else {
            add(None)
        }
        (sum, count)
    }
}

/// T threads write; answers rows a second.
fn write<S: Side>(side: &S, table: &str, threads: i64, transactions: i64, connection_each: bool) -> f64 {
    S::run(&side.connect(), &TABLE.replace("entry", table));
    let insert = INSERT.replace("entry", table);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let insert = &insert;
            scope.spawn(move || {
                let own: Vec<_> =
                    (0..if connection_each { transactions } else { 1 }).map(|_| side.connect()).collect();
                for transaction in 0..transactions {
                    let first = (thread * transactions + transaction) * ROWS_A_TRANSACTION;
                    let rows = &mut (first..first + ROWS_A_TRANSACTION).map(|id| (id, format!("data_{id}")));
                    S::insert(&own[transaction as usize % own.len()], insert, rows);
                }
            });
        }
    });
    let took = begun.elapsed();
    let rows = threads * transactions * ROWS_A_TRANSACTION;
    let (count, _) =
        S::sum(&side.connect(), &format!("SELECT count(*) FROM {table}"), &mut std::iter::empty());
    assert_eq!(count, rows, "rows are missing");
    rows as f64 / took.as_secs_f64()
}

/// Nanoseconds of each query; and what it answered.
fn read<S: Side>(side: &S, rows: i64) -> Vec<(&'static str, f64, (i64, u64))> {
    let connection = side.connect();
    PEOPLE.iter().for_each(|sql| S::run(&connection, sql));
    S::insert(
        &connection,
        "INSERT INTO town VALUES(?, ?)",
        &mut (0..1000).map(|id| (id, format!("town {id}"))),
    );
    let people = "INSERT INTO person(id, name, town, age)
                  SELECT i, 'name ' || (i * 7919 % 1000003), i % 1000, i % 90 FROM n";
    for first in (0..rows).step_by(100_000) {
        let last = (first + 100_000).min(rows) - 1;
        S::run(
            &connection,
            &format!(
                "WITH RECURSIVE n(i) AS (SELECT {first} UNION ALL SELECT i + 1 FROM n WHERE i < {last})
                 {people}"
            ),
        );
    }
    let looks = 50_000.min(rows);
    let ids = || (0..looks).map(|n| n * 7_919 % rows);
    let queries: [(&str, &str, i64); 5] = [
        ("primary key", "SELECT age FROM person WHERE id = ?", 1),
        ("index", "SELECT id FROM person WHERE name = ?", 1),
        ("range of 100", "SELECT age FROM person WHERE id >= ? LIMIT 100", 10),
        ("join", "SELECT person.age FROM person JOIN town ON town.id = person.town WHERE person.age = 7", 0),
        ("aggregate", "SELECT sum(id) FROM person GROUP BY age", 0),
    ];
    queries
        .into_iter()
        .map(|(name, sql, share)| {
            let begun = Instant::now();
            let count = if share == 0 { 1 } else { looks / share };
            let parameters = ids().take(count as usize).map(|id| match name {
                "index" => format!("name {}", id * 7919 % 1_000_003).into(),
                _ => id.into(),
            });
            let answer = S::sum(&connection, sql, &mut { parameters });
            (name, begun.elapsed().as_nanos() as f64 / count as f64, answer)
        })
        .collect()
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: i64| arguments.next().map_or(default, |text| text.parse().expect("a number"));
    let (transactions, rows) = (number(100), number(100_000));
    let dir = match arguments.next() {
        Some(dir) => tempfile::tempdir_in(dir).unwrap(),
        None => tempfile::tempdir().unwrap(),
    };
    let db = pando::Database::create(dir.path().join("pando")).unwrap();
    let (pando, sqlite) = (Pando(pando_sql::Sql::new(db)), Sqlite(dir.path()));
    println!("{:<44} {:>12} {:>12}", "rows a second", Pando::NAME, Sqlite::NAME);
    for connection_each in [false, true] {
        for threads in [1, 2, 4, 8] {
            let table = format!("entry_{threads}_{connection_each}");
            let ours = write(&pando, &table, threads, transactions, connection_each);
            let theirs = write(&sqlite, &table, threads, transactions, connection_each);
            let form = if connection_each { "a connection a transaction" } else { "a connection a thread" };
            let name = format!("{threads} writers, {form}");
            println!("{name:<44} {ours:>12.0} {theirs:>12.0} {:>6.2}x", ours / theirs);
        }
    }
    println!("{:<44} {:>12} {:>12}", "microseconds a query", Pando::NAME, Sqlite::NAME);
    for (ours, theirs) in read(&pando, rows).into_iter().zip(read(&sqlite, rows)) {
        assert_eq!(ours.2, theirs.2, "{} has another answer", ours.0);
        println!(
            "{:<44} {:>12.2} {:>12.2} {:>6.2}x",
            ours.0,
            ours.1 / 1e3,
            theirs.1 / 1e3,
            ours.1 / theirs.1
        );
    }
    let connecting = Instant::now();
    let open: Vec<_> = (0..1000).map(|_| pando.connect()).collect();
    println!(
        "{:<44} {:>12.2}",
        "a connection, of 1,000 open",
        connecting.elapsed().as_micros() as f64 / open.len() as f64
    );
}
