//! Random statements on both kinds of trees.

use crate::support::{Both, pick};
use base::env::Random;

const SCHEMA: &str = "
    CREATE TABLE p(id INTEGER PRIMARY KEY, name TEXT COLLATE NOCASE UNIQUE, size REAL, note);
    CREATE INDEX p_size ON p(size DESC, name);
    CREATE INDEX p_big ON p(note) WHERE size > 50;
    CREATE INDEX p_expr ON p(length(name), id);
    CREATE TABLE c(id INTEGER PRIMARY KEY AUTOINCREMENT, parent REFERENCES p(id) ON DELETE CASCADE, what,
                   twice GENERATED ALWAYS AS (what || what) STORED);
    CREATE INDEX c_parent ON c(parent);
    CREATE TABLE log(at INTEGER PRIMARY KEY, what);
    CREATE TABLE k(a, b, c, PRIMARY KEY(b, a)) WITHOUT ROWID;
    CREATE TRIGGER noted AFTER UPDATE OF size ON p WHEN new.size > 90
        BEGIN INSERT INTO log(what) VALUES (old.name || ' grew'); UPDATE k SET c = c + 1 WHERE a = new.id; END;
    CREATE VIEW large AS SELECT p.id, p.name, count(c.id) AS n FROM p LEFT JOIN c ON c.parent = p.id
        WHERE size > 30 GROUP BY p.id;
    PRAGMA foreign_keys = 1;
";

/// Returns a random statement.
fn statement(random: &mut Random) -> String {
    let (id, other, size) = (random.below(60), random.below(60), random.below(100));
    let name = format!("{}{}", pick(random, &["ab", "AB", "b", "long name ", "x"]), random.below(25));
    let or = pick(random, &["", "OR IGNORE", "OR REPLACE", "OR FAIL", "OR ROLLBACK", "OR ABORT"]);
    match random.below(20) {
        0..4 => format!("INSERT {or} INTO p VALUES ({id}, '{name}', {size}.5, {other})"),
        4 => format!(
            "INSERT {or} INTO p(name, size) SELECT name || '{other}', size + 1 FROM p WHERE id < {id}"
        ),
        5..7 => format!("INSERT INTO c(parent, what) VALUES ({id}, '{name}')"),
        7 => format!("UPDATE {or} p SET size = size + {size} WHERE id BETWEEN {id} AND {}", id + 10),
        8 => format!("UPDATE {or} p SET name = '{name}' WHERE size > {size} AND note = {other}"),
        9 => format!("UPDATE {or} p SET id = id + {other} WHERE name < '{name}'"),
        10 => format!("DELETE FROM p WHERE id = {id} OR size < {}", size / 20),
        11 => format!("INSERT {or} INTO k VALUES ({id}, '{name}', {size})"),
        12 => format!("UPDATE {or} k SET a = a + 1 WHERE b >= '{name}'"),
        13 => format!("DELETE FROM k WHERE a < {}", id / 4),
        14 => format!(
            "INSERT INTO p(id, name) VALUES ({id}, '{name}') \
             ON CONFLICT(id) DO UPDATE SET note = note + 1 ON CONFLICT(name) DO NOTHING RETURNING id, note"
        ),
        15 => pick(random, &["BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT a", "SAVEPOINT b"]).to_owned(),
        16 => {
            pick(random, &["RELEASE a", "ROLLBACK TO a", "ROLLBACK TO b", "RELEASE b", "COMMIT"]).to_owned()
        }
        17 => format!(
            "SELECT * FROM p LEFT JOIN c ON c.parent = p.id WHERE p.size > {size} ORDER BY p.id, c.id"
        ),
        18 => format!("SELECT name, size FROM p WHERE size <= {size} ORDER BY size DESC, name LIMIT 7"),
        _ => format!("SELECT * FROM large WHERE n < {id} ORDER BY id"),
    }
}

const QUERIES: &[&str] = &[
    "SELECT * FROM p ORDER BY id",
    "SELECT id FROM p ORDER BY name DESC",
    "SELECT id FROM p ORDER BY size DESC, name",
    "SELECT note FROM p WHERE size > 50 ORDER BY note, id",
    "SELECT id FROM p WHERE length(name) = 4 ORDER BY id",
    "SELECT * FROM c ORDER BY parent, id",
    "SELECT * FROM log",
    "SELECT * FROM k ORDER BY b, a",
    "SELECT name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_stat%' ORDER BY name",
    "SELECT * FROM sqlite_sequence",
    "PRAGMA foreign_key_check",
    "PRAGMA integrity_check",
];

#[test]
fn random_statements_have_the_same_results() {
    let mut rows = 0;
    for seed in 0..40 {
        let mut random = Random::seeded(seed);
        let both = Both::new();
        both.execute(SCHEMA);
        for step in 0..250 {
            rows += both.query(&statement(&mut random));
            assert_eq!(both.ours.changes(), both.theirs.changes(), "seed {seed}, step {step}");
            assert_eq!(
                both.ours.is_in_transaction(),
                both.theirs.is_in_transaction(),
                "seed {seed}, step {step}"
            );
            assert_eq!(
                both.ours.last_insert_rowid(),
                both.theirs.last_insert_rowid(),
                "seed {seed}, step {step}"
            );
        }
        for sql in QUERIES {
            rows += both.query(sql);
        }
    }
    assert!(rows > 10_000, "the statements returned only {rows} rows");
}

/// A join seeks rowids one after the other, and reads several rows at once: with gaps, at both ends, and beyond.
#[test]
fn joins_by_ascending_rowids_find_the_same() {
    let both = Both::new();
    both.execute("CREATE TABLE a(id INTEGER PRIMARY KEY, n); CREATE TABLE b(id INTEGER PRIMARY KEY, n)");
    let numbers = "WITH RECURSIVE n(i) AS (VALUES (-20) UNION ALL SELECT i + 1 FROM n WHERE i < 400)";
    both.execute(&format!("INSERT INTO a {numbers} SELECT i, i % 7 FROM n"));
    for (kept, rows) in [("i % 3", 280), ("i < 50 OR i > 200", 269), ("i % 40 = 0", 10), ("i > 100", 300)] {
        both.execute("DELETE FROM b");
        both.execute(&format!("INSERT INTO b {numbers} SELECT i, i FROM n WHERE {kept}"));
        both.query("SELECT a.id, b.n FROM a LEFT JOIN b ON b.id = a.id ORDER BY a.id");
        both.query("SELECT a.id, b.n FROM a LEFT JOIN b ON b.id = a.id ORDER BY a.id DESC");
        both.query("SELECT a.id, b.n FROM a LEFT JOIN b ON b.id = a.id + a.n ORDER BY a.id");
        both.query("SELECT a.id, b.n FROM a LEFT JOIN b ON b.id = a.id * 2 - 1 ORDER BY a.id");
        assert!(both.query("SELECT a.id, b.n FROM a CROSS JOIN b ON b.id = a.id") >= rows);
        both.execute("BEGIN");
        both.query("SELECT a.id, b.n FROM a LEFT JOIN b ON b.id = a.id ORDER BY a.id");
        both.execute("UPDATE b SET n = n + 1 WHERE id IN (SELECT id FROM a WHERE n = 3); COMMIT");
    }
}
