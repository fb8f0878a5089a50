//! Crashes at every kind of moment of random statements and typed writes, on the simulated disk. What is found then is
//! the state after some commit, at or after the last one acknowledged. Every index agrees with its table, what
//! triggers maintain agrees with the rows that they follow, and no foreign key is violated.

use base::env::Random;
use io::sim::{ImageKind, SimDisk};
use pando::Database;
use pando_sqlite::{Connection, Value as Sql};
use rows::{DynamicTable, Value};
use std::collections::HashSet;

/// `totals` is maintained by triggers, `lines` by a foreign key, `notes` by typed writes as well.
const SCHEMA: [&str; 9] = [
    "CREATE TABLE orders(id INTEGER PRIMARY KEY, person TEXT NOT NULL, amount INTEGER NOT NULL)",
    "CREATE INDEX by_person ON orders(person, amount DESC)",
    "CREATE TABLE totals(person TEXT PRIMARY KEY, amount INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE lines(id INTEGER PRIMARY KEY, text,
       parent INTEGER NOT NULL REFERENCES orders ON DELETE CASCADE)",
    "CREATE INDEX by_parent ON lines(parent)",
    "CREATE TRIGGER added AFTER INSERT ON orders BEGIN
       INSERT INTO totals VALUES(new.person, new.amount)
         ON CONFLICT(person) DO UPDATE SET amount = amount + excluded.amount;
     END",
    "CREATE TRIGGER removed AFTER DELETE ON orders BEGIN
       UPDATE totals SET amount = amount - old.amount WHERE person = old.person;
     END",
    "CREATE TABLE notes(id INTEGER PRIMARY KEY, word TEXT UNIQUE, size INTEGER)",
    "CREATE INDEX by_size ON notes(size)",
];

/// The kinds of images: what was not synced is lost, kept, or kept in part.
const KINDS: [ImageKind; 6] = [
    ImageKind::Nothing,
    ImageKind::Everything,
    ImageKind::Prefix(1),
    ImageKind::DropOne(1),
    ImageKind::Torn512(1),
    ImageKind::RandomSubset(2),
];

fn open(disk: &SimDisk) -> Database {
    let builder = Database::builder().page_bytes(4096).memory_bytes(8 << 20).max_segment_bytes(16 << 10);
    builder.create_in(disk.dir()).unwrap()
}

/// Runs a query, and returns each row as text.
fn all(connection: &Connection, sql: &str) -> Vec<String> {
    let rows = connection.query(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    rows.iter().map(|row| row.iter().map(text).collect::<Vec<_>>().join("|")).collect()
}

fn text(value: &Sql) -> String {
    match value {
        Sql::Text(text) => text.clone(),
        value => format!("{value:?}"),
    }
}

/// The definitions and all rows.
fn dump(connection: &Connection) -> Vec<String> {
    let mut dump = all(connection, "SELECT type, name, sql FROM sqlite_schema ORDER BY name");
    for table in all(connection, "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name") {
        dump.push(table.clone());
        dump.extend(all(connection, &format!("SELECT * FROM {table} ORDER BY 1")));
    }
    dump
}

/// The states after commits, each with the number of the commit and the event of the disk that acknowledged it.
#[derive(Default)]
struct History(Vec<(u64, usize, Vec<String>)>);

impl History {
    fn note(&mut self, disk: &SimDisk, db: &Database, connection: &Connection) {
        let commit = db.snapshot().unwrap().commit_number();
        self.0.push((commit, disk.mark("acknowledged"), dump(connection)));
    }
}

/// One change of orders and their lines.
fn change(random: &mut Random) -> String {
    let (id, amount) = (random.below(30), random.below(100));
    let person = ["ash", "birch", "cedar"][random.below(3) as usize];
    match random.below(6) {
        0 => format!("DELETE FROM orders WHERE id = {id}"),
        1 => format!("DELETE FROM orders WHERE person = '{person}' AND amount < {}", amount / 4),
        2 => format!(
            "INSERT INTO lines(parent, text)
             SELECT id, zeroblob({amount} * 40) FROM orders WHERE id <= {id}"
        ),
        _ => format!(
            "INSERT INTO orders(id, person, amount) VALUES({id}, '{person}', {amount})
             ON CONFLICT(id) DO NOTHING"
        ),
    }
}

/// A change of a definition.
fn definition(number: u64, random: &mut Random) -> String {
    match random.below(3) {
        0 => format!("CREATE INDEX more{number} ON orders(amount, person)"),
        1 => format!("ALTER TABLE orders ADD COLUMN more{number} TEXT DEFAULT 'none'"),
        _ => format!("CREATE TABLE more{number}(a PRIMARY KEY, b UNIQUE)"),
    }
}

/// Several changes in one transaction, a part of which is taken back.
fn several(connection: &Connection, random: &mut Random) {
    connection.execute("BEGIN IMMEDIATE").unwrap();
    for _ in 0..random.below(6) {
        connection.execute(&change(random)).unwrap();
    }
    connection.execute("SAVEPOINT half").unwrap();
    connection.execute(&change(random)).unwrap();
    if random.below(2) == 0 {
        connection.execute("ROLLBACK TO half").unwrap();
    }
    connection.execute(if random.below(4) == 0 { "ROLLBACK" } else { "COMMIT" }).unwrap();
}

/// Typed writes to one table, and a statement of SQLite's to the same one later.
fn typed(db: &Database, random: &mut Random) {
    let mut tx = db.begin().unwrap();
    let table = DynamicTable::expect(&tx, "notes").unwrap();
    for _ in 0..1 + random.below(5) {
        let id = random.below(20) as i64;
        let key = [Value::Int(id)];
        if random.below(3) == 0 {
            table.remove(&mut tx, &key).unwrap();
            continue;
        }
        let (word, size) = (format!("word {id}-{}", random.below(3)), random.below(9) as i64);
        let row = [Value::Int(id), Value::Text(word.into()), Value::Int(size)];
        table.upsert(&mut tx, &row[..]).unwrap();
    }
    tx.commit().unwrap();
}

fn work(disk: &SimDisk, random: &mut Random) -> History {
    let db = open(disk);
    let connection = Connection::open(&db).unwrap();
    connection.execute("PRAGMA foreign_keys = ON").unwrap();
    let mut history = History::default();
    for sql in SCHEMA {
        connection.execute(sql).unwrap();
        history.note(disk, &db, &connection);
    }
    for number in 0..16 {
        match random.below(8) {
            0 => connection.execute(&definition(number, random)).unwrap(),
            1 => db.checkpoint().unwrap(),
            2 => several(&connection, random),
            3 | 4 => typed(&db, random),
            5 => connection.execute("UPDATE notes SET size = size + 1 WHERE id % 3 = 0").unwrap(),
            _ => connection.execute(&change(random)).unwrap(),
        }
        history.note(disk, &db, &connection);
    }
    drop(connection);
    db.close().unwrap();
    history
}

fn verify(disk: &SimDisk, history: &History, events: usize) {
    let db = open(disk);
    let commit = db.snapshot().unwrap().commit_number();
    let promised = history.0.iter().rev().find(|(_, event, _)| *event < events);
    assert!(promised.is_none_or(|(promised, ..)| *promised <= commit), "an acknowledged commit is lost");
    let connection = Connection::open(&db).unwrap();
    assert_eq!(all(&connection, "PRAGMA integrity_check"), ["ok"], "after commit {commit}");
    assert!(all(&connection, "PRAGMA foreign_key_check").is_empty(), "after commit {commit}");
    let Some((_, _, expected)) = history.0.iter().rev().find(|(number, ..)| *number <= commit) else {
        return;
    };
    assert_eq!(dump(&connection), *expected, "after commit {commit}");
    // The definitions come one after the other, and the triggers are after the tables that they need.
    if all(&connection, "SELECT 1 FROM sqlite_schema WHERE name = 'removed'").is_empty() {
        return;
    }
    let differences = "SELECT person, amount FROM totals WHERE amount != 0
                       EXCEPT SELECT person, sum(amount) FROM orders GROUP BY person HAVING sum(amount) != 0";
    assert!(all(&connection, differences).is_empty(), "after commit {commit}");
}

#[test]
fn indexes_triggers_and_foreign_keys_survive_crashes() {
    let mut seen = HashSet::new();
    for seed in 0..10 {
        let mut random = Random::seeded(seed);
        let disk = SimDisk::new();
        let history = work(&disk, &mut random);
        let events = disk.event_count();
        for _ in 0..40 {
            let at = random.below(events as u64 + 1) as usize;
            for image in disk.images(at, &KINDS, &mut random) {
                if seen.insert((seed, image.fingerprint())) {
                    verify(&image.restore(), &history, at);
                }
            }
        }
    }
    assert!(seen.len() > 500, "only {} images", seen.len());
}
