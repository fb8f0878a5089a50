//! Rows whose records lie outside of pages: their first columns are read without the rest, and everything is as in
//! SQLite.

use crate::support::{Seed, pick};
use base::env::Random;
use pando::Database;
use pando_sqlite::{Connection, Value};

struct Two {
    db: Database,
    ours: Connection,
    theirs: Connection,
}

/// A table with long columns in the middle and at the end; one whose header alone is longer than what a page has of a
/// record; and a trigger, which reads old columns.
fn schema() -> String {
    let columns: Vec<String> = (0..700).map(|at| format!("c{at}")).collect();
    format!(
        "CREATE TABLE f(id INTEGER PRIMARY KEY, name TEXT, data BLOB, size INTEGER, note TEXT);
         CREATE INDEX f_name ON f(name); CREATE INDEX f_note ON f(substr(note, 1, 20));
         CREATE TABLE wide({});
         CREATE TABLE log(at INTEGER PRIMARY KEY, what TEXT, size INTEGER);
         CREATE TRIGGER f_log AFTER UPDATE OF note ON f
             BEGIN INSERT INTO log(what, size)
                 VALUES (substr(old.note, -9) || old.name, length(old.data)); END",
        columns.join(", ")
    )
}

const LENGTHS: &[&str] = &["0", "30", "900", "4100", "6000", "17000", "40000"];

fn text(random: &mut Random) -> String {
    let length = pick(random, LENGTHS);
    format!("hex(zeroblob({length} / 2)) || {}", random.below(1000))
}

fn row(random: &mut Random) -> String {
    let (id, data, note) = (random.below(80), text(random), text(random));
    format!("({id}, 'name ' || {id} % 9, CAST({data} AS BLOB), {}, {note})", random.below(1000))
}

const COLUMNS: &[&str] =
    &["id", "name", "data", "size", "note", "length(data)", "length(note)", "substr(note, 3, 9)"];

fn query(random: &mut Random) -> String {
    let columns: Vec<&str> = (0..1 + random.below(4)).map(|_| pick(random, COLUMNS)).collect();
    let (columns, id) = (columns.join(", "), random.below(80));
    let order =
        pick(random, &["", "ORDER BY id", "ORDER BY id DESC", "ORDER BY name, id", "ORDER BY note, id"]);
    match random.below(11) {
        9.. => near(random),
        0..3 => format!("SELECT {columns} FROM f {order}"),
        3 => format!("SELECT {columns} FROM f WHERE id = {id}"),
        4 => format!("SELECT {columns} FROM f WHERE id BETWEEN {id} AND {id} + 20 {order}"),
        5 => format!("SELECT {columns} FROM f WHERE name = 'name ' || ({id} % 9) {order}"),
        6 => format!(
            "SELECT a.note = b.note, a.name, length(b.data) FROM f AS a JOIN f AS b ON b.id = a.id + {id} % 5"
        ),
        7 => format!("SELECT c3, c690, length(c650), c699 FROM wide WHERE rowid > {id}"),
        _ => format!("SELECT name, sum(length(data)), max(note) FROM f WHERE size > {id} GROUP BY name"),
    }
}

/// Look-ups of rowids that are near one another, so that a row of a batch is gone back to.
fn near(random: &mut Random) -> String {
    let mut id = random.below(80) as i64;
    let mut ids: Vec<String> = Vec::new();
    for _ in 0..30 {
        id += [1, 1, 1, -1, -2, 2][random.below(6) as usize];
        ids.push(format!("({id})"));
    }
    format!(
        "WITH o(i) AS (VALUES {}) SELECT o.i, f.note, f.data FROM o CROSS JOIN f ON f.id = o.i",
        ids.join(", ")
    )
}

fn change(random: &mut Random) -> String {
    let (id, row, text) = (random.below(80), row(random), text(random));
    match random.below(12) {
        0..4 => format!("INSERT OR REPLACE INTO f VALUES {row}, {}", self::row(random)),
        4 => format!("UPDATE f SET size = size + 1 WHERE id BETWEEN {id} AND {id} + 20"),
        5 => format!("UPDATE f SET note = {text} WHERE id % 7 = {id} % 7"),
        6 => format!("UPDATE f SET data = data || note, id = id + 100 WHERE id = {id}"),
        7 => format!("DELETE FROM f WHERE id = {id} OR id > 80 + {id}"),
        8 => format!("INSERT INTO wide(c3, c650, c690) VALUES ({id}, {text}, 'after ' || {id})"),
        9 => format!("UPDATE wide SET c3 = c650, c699 = c690 WHERE rowid % 5 = {id} % 5"),
        10 => format!(
            "INSERT INTO f VALUES {row}
                 ON CONFLICT DO UPDATE SET note = note || excluded.name, size = length(data)"
        ),
        _ => pick(random, &["BEGIN", "COMMIT", "SAVEPOINT a", "ROLLBACK TO a", "RELEASE a", "ROLLBACK"])
            .to_owned(),
    }
}

impl Two {
    fn new() -> Two {
        let db = Database::builder().in_memory().expect("it opens");
        let ours = Connection::open(&db).expect("it opens");
        let two = Two { db, ours, theirs: Connection::in_memory().expect("it opens") };
        two.execute(&schema());
        two
    }

    #[track_caller]
    fn execute(&self, sql: &str) {
        let codes = [&self.ours, &self.theirs].map(|on| on.execute(sql).err().map(|error| error.code));
        assert_eq!(codes[0], codes[1], "{sql}");
    }

    #[track_caller]
    fn query(&self, sql: &str) -> usize {
        let [ours, theirs] = [&self.ours, &self.theirs].map(|on| on.query(sql).expect(sql));
        assert!(ours == theirs, "{sql}");
        ours.len()
    }

    /// Changes the table while a query reads it row by row.
    fn change_while_reading(&self, query: &str, changes: &[String]) -> usize {
        let read = |on: &Connection| {
            let mut statement = on.prepare(query).expect(query);
            let (mut rows, mut changes) = (Vec::new(), changes.iter());
            while let Ok(true) = statement.step() {
                rows.push((0..statement.columns()).map(|at| statement.value(at)).collect::<Vec<Value>>());
                if let Some(change) = changes.next() {
                    rows.push(vec![Value::Integer(
                        on.execute(change).map_or_else(|error| error.code.into(), |()| 0),
                    )]);
                }
            }
            rows
        };
        let (ours, theirs) = (read(&self.ours), read(&self.theirs));
        assert!(ours == theirs, "{query} with {changes:?}");
        ours.len()
    }
}

#[test]
fn rows_with_long_columns_are_what_they_are_in_sqlite() {
    for seed in 0..12 {
        let _seed = Seed(seed);
        let (mut random, two) = (Random::seeded(seed), Two::new());
        let mut rows = 0;
        for step in 0..180 {
            two.execute(&change(&mut random));
            if step % 6 == 0 {
                two.db.checkpoint().expect("it checkpoints");
            }
            for _ in 0..3 {
                rows += two.query(&query(&mut random));
            }
        }
        let _ = [&two.ours, &two.theirs].map(|on| on.execute("COMMIT"));
        two.db.checkpoint().expect("it checkpoints");
        rows +=
            two.query("SELECT * FROM f") + two.query("SELECT * FROM wide") + two.query("SELECT * FROM log");
        assert!(rows > 1000, "{rows}");
        assert_eq!(two.query("PRAGMA integrity_check"), 1);
    }
}

/// The order in which SQLite passes rows whose keys change meanwhile is not defined, so none is inserted or moved.
#[test]
fn rows_that_change_while_they_are_read_are_what_they_are_in_sqlite() {
    let mut rows = 0;
    for seed in 0..30 {
        let _seed = Seed(seed);
        let (mut random, two) = (Random::seeded(seed), Two::new());
        for _ in 0..40 {
            two.execute(&format!("INSERT OR REPLACE INTO f VALUES {}", row(&mut random)));
        }
        two.db.checkpoint().expect("it checkpoints");
        let is_within = random.chance(1, 2);
        if is_within {
            two.execute("BEGIN");
        }
        let changes: Vec<String> = (0..random.below(30))
            .map(|_| {
                let (id, text) = (random.below(80), text(&mut random));
                match random.below(4) {
                    0 => format!("DELETE FROM f WHERE id = {id}"),
                    1 => format!("UPDATE f SET note = {text}, data = NULL WHERE id = {id}"),
                    2 => format!("UPDATE f SET size = -size WHERE id >= {id}"),
                    _ => format!("SELECT sum(length(note)) FROM f WHERE id > {id}"),
                }
            })
            .collect();
        let columns = pick(
            &mut random,
            &["id, note", "name, size", "*", "size, data, note", "data, id, substr(note, 2, 30)"],
        );
        let order = pick(&mut random, &["", "ORDER BY id DESC"]);
        rows += two.change_while_reading(&format!("SELECT {columns} FROM f {order}"), &changes);
        two.query("SELECT * FROM f");
    }
    assert!(rows > 500, "{rows}");
}

/// What lies outside of the page is damaged, so that reading it would be an error.
#[test]
fn short_columns_are_read_without_the_long_ones() {
    let dir = tempfile::tempdir().expect("a directory is made");
    let path = dir.path().join("db");
    {
        let db = Database::create(&path).expect("it is created");
        let on = Connection::open(&db).expect("it opens");
        on.execute("CREATE TABLE f(id INTEGER PRIMARY KEY, name TEXT, data BLOB)").expect("it runs");
        on.execute(
            "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 200)
             INSERT INTO f SELECT i, 'name ' || i,
                 CAST(hex(zeroblob(10000)) || '-mark-' || hex(zeroblob(10000)) AS BLOB) FROM n",
        )
        .expect("it runs");
        db.checkpoint().expect("it checkpoints");
    }
    let file = path.join("data");
    let mut data = std::fs::read(&file).expect("it is there");
    let mut at = 0;
    let mut damaged = 0;
    while let Some(next) = data[at..].windows(6).position(|window| window == b"-mark-") {
        at += next + 1;
        data[at] ^= 1;
        damaged += 1;
    }
    assert!(damaged >= 200, "{damaged}");
    std::fs::write(&file, data).expect("it is written");
    let db = Database::open(&path).expect("it opens");
    let on = Connection::open(&db).expect("it opens");
    let one = |sql: &str| on.query(sql).map(|rows| rows[0][0].clone());
    assert_eq!(one("SELECT count(*) FROM f WHERE name LIKE '%7%'"), Ok(Value::Integer(38)));
    assert_eq!(one("SELECT sum(length(data)) FROM f"), Ok(Value::Integer(200 * 40_006)));
    assert_eq!(one("SELECT name FROM f WHERE id = 150"), Ok(Value::Text("name 150".into())));
    assert_eq!(one("SELECT name FROM f ORDER BY id DESC"), Ok(Value::Text("name 200".into())));
    assert_eq!(one("SELECT name FROM f WHERE id > 190"), Ok(Value::Text("name 191".into())));
    for sql in ["SELECT data FROM f WHERE id = 150", "SELECT max(data) FROM f", "SELECT * FROM f"] {
        assert_eq!(one(sql).expect_err("it is damaged").code, 11, "{sql}");
    }
}
