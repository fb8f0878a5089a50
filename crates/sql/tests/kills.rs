//! A process that writes through SQL is killed, again and again, on one database.
//!
//! 1. The test starts itself with `PANDO_VICTIM` naming the directory. In that process three writers run transactions
//!    with several statements, beside changes of definitions and checkpoints, and print each commit after it.
//! 2. SIGKILL ends it at any moment: while it opens, recovers, commits, builds an index, or makes a checkpoint.
//! 3. What is found then is, for each writer, the state after one of its transactions, the last acknowledged one or
//!    the next. A model has that state. SQLite's integrity check passes, every index has the rows of its table, and
//!    everything that triggers maintain agrees with the rows that they follow.
//!
//! `PANDO_SQL_KILLS=200 cargo test -p pando-db-sql --test kills -- --nocapture` kills 200 times.
#![cfg(target_os = "linux")]

use base::env::Random;
use pando::{Builder, Database};
use pando_sqlite::{Connection, Value};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{self, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use std::{env, thread};

const WRITERS: u64 = 3;
const VICTIM: &str = "PANDO_VICTIM";
const ROUNDS: &str = "PANDO_SQL_KILLS";
const FEW_ROUNDS: u64 = 6;
/// The longest time in milliseconds between the start of the process, or its first commit, and its end.
const LONGEST_MS: u64 = 150;
/// The longest wait for its first commit.
const PATIENCE: Duration = Duration::from_secs(60);

/// Every statement can run again, because a process can be killed between two of them.
const SCHEMA: [&str; 9] = [
    "CREATE TABLE IF NOT EXISTS marks(writer INTEGER PRIMARY KEY, number INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS items(id INTEGER PRIMARY KEY AUTOINCREMENT, writer INTEGER NOT NULL,
       number INTEGER NOT NULL, part INTEGER NOT NULL, size INTEGER, note TEXT,
       UNIQUE(writer, number, part))",
    "CREATE INDEX IF NOT EXISTS items_size ON items(size DESC, note COLLATE NOCASE)",
    "CREATE INDEX IF NOT EXISTS items_large ON items(writer, length(note)) WHERE size > 50",
    "CREATE TABLE IF NOT EXISTS totals(writer INTEGER, part INTEGER, count INTEGER, size INTEGER,
       PRIMARY KEY(writer, part)) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS log(item INTEGER, writer INTEGER, what TEXT)",
    "CREATE TRIGGER IF NOT EXISTS added AFTER INSERT ON items BEGIN
       INSERT INTO totals VALUES (new.writer, new.part, 1, new.size) ON CONFLICT(writer, part)
         DO UPDATE SET count = count + 1, size = size + excluded.size;
       INSERT INTO log VALUES (new.id, new.writer, 'added');
     END",
    "CREATE TRIGGER IF NOT EXISTS changed AFTER UPDATE OF size ON items BEGIN
       UPDATE totals SET size = size + new.size - old.size WHERE writer = new.writer AND part = new.part;
       INSERT INTO log VALUES (new.id, new.writer, 'changed');
     END",
    "CREATE TRIGGER IF NOT EXISTS removed AFTER DELETE ON items BEGIN
       UPDATE totals SET count = count - 1, size = size - old.size
         WHERE writer = old.writer AND part = old.part;
       DELETE FROM log WHERE writer = old.writer AND item = old.id;
     END",
];

fn builder() -> Builder {
    // Small, so that there are checkpoints, and pages that are evicted.
    Database::builder().page_bytes(4096).memory_bytes(8 << 20).max_segment_bytes(256 << 10)
}

/// The rows of a writer: the size of each, by number and part.
type Rows = BTreeMap<(u64, u64), u64>;

/// The statements of a transaction of a writer, and the same to the model.
fn transaction(writer: u64, number: u64, rows: &mut Rows) -> Vec<String> {
    let mut statements = vec!["BEGIN".to_owned()];
    for part in 0..1 + number % 4 {
        let size = (number * 31 + part * 7) % 100;
        rows.insert((number, part), size);
        statements.push(format!(
            "INSERT INTO items(writer, number, part, size, note)
             VALUES ({writer}, {number}, {part}, {size}, printf('Note %d of %.*c', {number}, {}, 'x'))",
            size * 11
        ));
    }
    if number.is_multiple_of(3) {
        statements.push(format!(
            "UPDATE items SET size = size + 3 WHERE writer = {writer} AND number = {}",
            number - number % 5
        ));
        rows.iter_mut().filter(|((of, _), _)| *of == number - number % 5).for_each(|(_, size)| *size += 3);
    }
    if number.is_multiple_of(2) {
        let below = number.saturating_sub(40);
        statements.push(format!("DELETE FROM items WHERE writer = {writer} AND number < {below}"));
        rows.retain(|(of, _), _| *of >= below);
    }
    statements.push(format!("INSERT OR REPLACE INTO marks VALUES ({writer}, {number})"));
    statements.push("COMMIT".to_owned());
    statements
}

/// Runs statements, and repeats them until they do not conflict.
fn run(connection: &Connection, statements: &[String]) {
    loop {
        match statements.iter().try_for_each(|sql| connection.execute(sql)) {
            Ok(()) => return,
            Err(error) if error.is_conflict() || error.is_busy() => {
                if connection.is_in_transaction() {
                    connection.execute("ROLLBACK").unwrap();
                }
            }
            Err(error) => panic!("{statements:?}: {error}"),
        }
    }
}

/// Writes until it is killed. A panic of any thread ends it, and so does the end of the process that started it.
fn write(dir: &Path) {
    std::panic::set_hook(Box::new(|info| {
        eprintln!("{info}");
        process::exit(101);
    }));
    thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        process::exit(102);
    });
    let db = builder().create(dir).unwrap();
    let first = Connection::open(&db).unwrap();
    first.set_busy_timeout(Duration::from_secs(20));
    SCHEMA.iter().for_each(|sql| run(&first, &[(*sql).to_owned()]));
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let connection = Connection::open(&db).unwrap();
            connection.set_busy_timeout(Duration::from_secs(20));
            scope.spawn(move || {
                for number in 1 + mark(&connection, writer).. {
                    run(&connection, &transaction(writer, number, &mut Rows::new()));
                    println!("{writer} {number}");
                    std::io::stdout().flush().unwrap();
                }
            });
        }
        loop {
            let more = "CREATE INDEX IF NOT EXISTS more ON items(note, writer)";
            for sql in [more, "DROP INDEX IF EXISTS more"] {
                run(&first, &[sql.to_owned()]);
                db.checkpoint().unwrap();
                thread::sleep(Duration::from_millis(15));
            }
        }
    });
}

/// Returns the number of the last transaction of a writer.
fn mark(connection: &Connection, writer: u64) -> u64 {
    let number =
        numbers(connection, &format!("SELECT coalesce(max(number), 0) FROM marks WHERE writer = {writer}"));
    number[0][0] as u64
}

fn query(connection: &Connection, sql: &str) -> Vec<Vec<Value>> {
    connection.query(sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

fn numbers(connection: &Connection, sql: &str) -> Vec<Vec<i64>> {
    let number =
        |value: &Value| if let Value::Integer(value) = value { *value } else { panic!("{sql}: {value:?}") };
    query(connection, sql).iter().map(|row| row.iter().map(number).collect()).collect()
}

/// Starts the process, kills it, and returns the last commit of each writer that it has acknowledged.
fn kill_one(dir: &Path, random: &mut Random) -> [u64; WRITERS as usize] {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "indexes_and_triggers_survive_kills", "--nocapture"])
        .env(VICTIM, dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (sender, output) = mpsc::channel();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let reader = thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
    let mut heard = Vec::new();
    if random.below(4) > 0 {
        // From its first commit on. Lines of the test's own are longer, or have one word.
        let is_commit =
            |line: &String| line.split(' ').filter_map(|word| word.parse::<u64>().ok()).count() == 2;
        let next = || output.recv_timeout(PATIENCE).expect("it commits in time");
        heard.extend(std::iter::repeat_with(next).find(is_commit));
    }
    thread::sleep(Duration::from_millis(random.below(LONGEST_MS)));
    child.kill().unwrap();
    let status = child.wait().unwrap();
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&status),
        Some(9),
        "it ended by itself: {status}"
    );
    heard.extend(output.iter());
    reader.join().unwrap().unwrap();
    let mut marks = [0; WRITERS as usize];
    for line in heard {
        let pair: Vec<u64> = line.split(' ').filter_map(|number| number.parse().ok()).collect();
        if let [writer, number] = pair[..] {
            marks[writer as usize] = number;
        }
    }
    marks
}

/// Compares what is found with the model and with itself. Returns how many rows there are.
fn verify(dir: &Path, acknowledged: &mut [u64; WRITERS as usize], models: &mut [(u64, Rows)]) -> usize {
    let db = builder().create(dir).unwrap();
    let connection = Connection::open(&db).unwrap();
    if query(&connection, "SELECT 1 FROM sqlite_schema WHERE name = 'removed'").is_empty() {
        assert_eq!(*acknowledged, [0; WRITERS as usize], "the tables are lost");
        return 0;
    }
    assert_eq!(query(&connection, "PRAGMA integrity_check"), [[Value::Text("ok".into())]]);
    let mut rows = 0;
    for writer in 0..WRITERS {
        let found = mark(&connection, writer);
        let promised = &mut acknowledged[writer as usize];
        assert!((*promised..=*promised + 1).contains(&found), "writer {writer}: {found} after {promised}");
        // What was found once is expected from now on.
        *promised = found;
        let (number, model) = &mut models[writer as usize];
        (*number + 1..=found).for_each(|number| drop(transaction(writer, number, model)));
        *number = found;
        let sql =
            format!("SELECT number, part, size FROM items WHERE writer = {writer} ORDER BY number, part");
        let expected =
            model.iter().map(|((number, part), size)| vec![*number as i64, *part as i64, *size as i64]);
        assert_eq!(numbers(&connection, &sql), expected.collect::<Vec<_>>(), "writer {writer}");
        rows += model.len();
    }
    for (index, columns, condition) in [
        ("items_size", "size, note, id", "true"),
        ("items_large", "writer, length(note), id", "size > 50"),
        ("more", "note, writer, id", "true"),
    ] {
        let exists = format!("SELECT 1 FROM sqlite_schema WHERE name = '{index}'");
        if !query(&connection, &exists).is_empty() {
            let by = |how: &str| {
                query(
                    &connection,
                    &format!("SELECT {columns} FROM items {how} WHERE {condition} ORDER BY 1, 2, 3"),
                )
            };
            assert_eq!(by(&format!("INDEXED BY {index}")), by("NOT INDEXED"), "{index}");
        }
    }
    let of_triggers = [
        "SELECT writer, part, count, size FROM totals WHERE count <> 0
         EXCEPT SELECT writer, part, count(*), sum(size) FROM items GROUP BY writer, part",
        "SELECT writer, part, count(*), sum(size) FROM items GROUP BY writer, part
         EXCEPT SELECT writer, part, count, size FROM totals",
        "SELECT id, writer FROM items EXCEPT SELECT item, writer FROM log WHERE what = 'added'",
        "SELECT item, writer FROM log EXCEPT SELECT id, writer FROM items",
        "SELECT seq FROM sqlite_sequence WHERE seq < (SELECT max(id) FROM items)",
    ];
    for differences in of_triggers {
        assert!(
            query(&connection, differences).is_empty(),
            "{differences}: {:?}",
            query(&connection, differences)
        );
    }
    drop(connection);
    db.close().unwrap();
    rows
}

#[test]
fn indexes_and_triggers_survive_kills() {
    if let Some(dir) = env::var_os(VICTIM) {
        return write(Path::new(&dir));
    }
    let rounds = env::var(ROUNDS).map_or(FEW_ROUNDS, |rounds| rounds.parse().expect("a number of rounds"));
    let dir = tempfile::tempdir().unwrap();
    let directory = dir.path().join("db");
    let mut random = Random::seeded(1);
    let mut acknowledged = [0; WRITERS as usize];
    let mut models = vec![(0, Rows::new()); WRITERS as usize];
    let (begun, mut rows) = (Instant::now(), 0);
    for _ in 0..rounds {
        let heard = kill_one(&directory, &mut random);
        heard.iter().zip(&mut acknowledged).for_each(|(heard, known)| *known = (*known).max(*heard));
        rows += verify(&directory, &mut acknowledged, &mut models);
    }
    let commits: u64 = acknowledged.iter().sum();
    println!("{rounds} kills in {:.0?}: {commits} commits, {rows} rows compared", begun.elapsed());
    assert!(acknowledged.iter().all(|number| *number > 0), "a writer committed nothing: {acknowledged:?}");
}
