//! The same statements on Pando's tables, typed ones and those of SQL, and on SQLite's: each has the same outcome and
//! the same rows.

use crate::support::{Both, pick};
use base::env::Random;

fn number(random: &mut Random) -> String {
    let plain = (random.below(24) as i64 - 4).to_string();
    let special = ["NULL", "0", "9223372036854775806", "-9223372036854775808"];
    if random.below(12) == 0 { pick(random, &special).to_owned() } else { plain }
}

fn text(random: &mut Random) -> String {
    let all = ["NULL", "''", "'a'", "'A'", "'b'", "'ab'", "'a '", "'z'", "'é'", "'a' || char(0)"];
    pick(random, &all).to_owned()
}

fn real(random: &mut Random) -> String {
    pick(random, &["NULL", "0.5", "-1.25", "3.0", "1e100", "7", "-0.0", "2.5"]).to_owned()
}

fn any(random: &mut Random) -> String {
    match random.below(4) {
        0 => number(random),
        1 => text(random),
        2 => real(random),
        _ => pick(random, &["x''", "x'00ff'", "x'61'", "NULL"]).to_owned(),
    }
}

/// What a column of integers is compared with: not always an integer.
fn compared(random: &mut Random) -> String {
    let odd = [
        "2.5",
        "-0.5",
        "3.0",
        "'7'",
        "'7.5'",
        "' 8 '",
        "'x'",
        "''",
        "x'33'",
        "1e300",
        "-1e300",
        "9.3e18",
        "-9.3e18",
        "9223372036854775807.0",
        "-9223372036854775808.0",
        "NULL",
    ];
    if random.below(4) == 0 { pick(random, &odd).to_owned() } else { number(random) }
}

fn condition(random: &mut Random) -> String {
    let compare = ["=", "<", "<=", ">", ">=", "IS", "<>"];
    let one = |random: &mut Random| {
        let op = pick(random, &compare);
        match random.below(10) {
            0 => format!("id {op} {}", compared(random)),
            1 | 2 => format!("a {op} {}", compared(random)),
            3 | 4 => format!("b {op} {}", text(random)),
            5 => format!("c {op} {}", real(random)),
            6 => format!("d {op} {}", any(random)),
            7 => format!("b {op} {} COLLATE NOCASE", text(random)),
            8 => format!("a IN ({}, {}, {})", number(random), number(random), number(random)),
            _ => format!("a BETWEEN {} AND {}", compared(random), compared(random)),
        }
    };
    let joins = [" AND ", " OR "];
    let parts: Vec<_> = (0..1 + random.below(3)).map(|_| one(random)).collect();
    parts.join(pick(random, &joins))
}

fn statement(random: &mut Random) -> String {
    let or = pick(random, &["", "", "OR IGNORE ", "OR REPLACE "]);
    let returning = pick(random, &["", "", " RETURNING id, a, b"]);
    match random.below(21) {
        0..=5 => {
            let rows: Vec<_> = (0..1 + random.below(3))
                .map(|_| {
                    let (id, a, b) = (random.below(40), number(random), text(random));
                    format!("({id}, {a}, {b}, {}, {})", real(random), any(random))
                })
                .collect();
            format!("INSERT {or}INTO t VALUES {}{returning}", rows.join(", "))
        }
        6 => {
            let rows: Vec<_> = (0..1 + random.below(4))
                .map(|_| format!("({}, {})", random.below(40), text(random)))
                .collect();
            format!(
                "INSERT {or}INTO t(id, b) VALUES {} ON CONFLICT(id)
                 DO UPDATE SET a = ifnull(a, 0) + 1, b = excluded.b{returning}",
                rows.join(", ")
            )
        }
        7 | 8 => {
            let (a, b) = (number(random), text(random));
            // Of several rows the first or the last stays, in the order of the plan.
            let one = format!("id = {}", random.below(40));
            let which = if or.is_empty() { condition(random) } else { one };
            format!("UPDATE {or}t SET a = {a}, b = {b} WHERE {which}{returning}")
        }
        9 => format!("UPDATE t SET id = id + 100 WHERE id = {}", random.below(40)),
        10 | 11 => format!("DELETE FROM t WHERE {}{returning}", condition(random)),
        12 if random.below(3) == 0 => {
            format!("SELECT count(*), max(id) FROM t WHERE id >= {}", compared(random))
        }
        12 => format!("SELECT count(*), sum(a), min(a), max(c) FROM t WHERE {}", condition(random)),
        20 => format!("SELECT count(*), min(id) FROM t WHERE {} GROUP BY b", condition(random)),
        13 => format!("SELECT a, count(*), max(c) FROM t WHERE {} GROUP BY a", condition(random)),
        14 if random.below(2) == 0 => format!(
            "SELECT t.id, u.id FROM t LEFT JOIN t AS u ON u.a = t.id AND u.a < {}
             WHERE u.id IS NULL OR u.id > {}",
            compared(random),
            compared(random)
        ),
        14 => format!(
            "SELECT t.id, u.id FROM t JOIN t AS u ON t.a = u.a AND t.b < u.b WHERE {}",
            condition(random)
                .replace("id ", "t.id ")
                .replace("a ", "t.a ")
                .replace("b ", "t.b ")
                .replace("c ", "t.c ")
                .replace("d ", "t.d ")
                .replace("t.it.d", "t.id")
        ),
        _ => {
            let order =
                pick(random, &["a", "a DESC", "b, a DESC", "b DESC, a", "c", "c DESC", "d", "a, b DESC"]);
            let limit = if random.below(2) == 0 {
                format!(" LIMIT {} OFFSET {}", random.below(8), random.below(3))
            } else {
                String::new()
            };
            let id = if order.contains("a DESC") { "id DESC" } else { "id" };
            format!("SELECT * FROM t WHERE {} ORDER BY {order}, {id}{limit}", condition(random))
        }
    }
}

const SCHEMAS: [&str; 3] = [
    "CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER, b TEXT, c REAL, d)",
    "CREATE TABLE t(id INT NOT NULL, a INTEGER, b TEXT, c REAL, d NUMERIC,
         PRIMARY KEY(id DESC)) WITHOUT ROWID",
    "CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER, b TEXT COLLATE NOCASE, c REAL UNIQUE, d,
         CHECK(a <> 3))",
];
const INDEXES: [&str; 6] = [
    "CREATE INDEX by_a ON t(a)",
    "CREATE INDEX by_b_a ON t(b, a DESC)",
    "CREATE UNIQUE INDEX by_a_b ON t(a, b)",
    "CREATE INDEX by_c ON t(c DESC)",
    "CREATE INDEX by_d ON t(d, b)",
    "CREATE INDEX by_b_alone ON t(b COLLATE NOCASE)",
];

fn run(seed: u64, steps: u32, both: &Both) {
    let mut random = Random::seeded(seed);
    both.run(SCHEMAS[random.below(3) as usize]);
    let mut depth = None;
    for step in 0..steps {
        if step % 20 == 0 {
            both.run(INDEXES[random.below(6) as usize]);
        }
        match (random.below(24), depth) {
            (0, None) => {
                both.run("BEGIN");
                depth = Some(0);
            }
            (0, Some(_)) => {
                both.run(pick(&mut random, &["COMMIT", "ROLLBACK"]));
                depth = None;
            }
            (1, Some(saved)) if saved < 3 => {
                both.run(&format!("SAVEPOINT s{saved}"));
                depth = Some(saved + 1);
            }
            (2, Some(saved)) if saved > 0 => {
                let to = random.below(saved);
                both.run(&format!("ROLLBACK TO s{to}"));
                depth = Some(to + 1);
            }
            (3, Some(saved)) if saved > 0 => {
                let to = random.below(saved);
                both.run(&format!("RELEASE s{to}"));
                depth = Some(to);
            }
            _ => {
                both.run(&statement(&mut random));
            }
        }
    }
    both.run("SELECT * FROM t ORDER BY id");
}

#[test]
fn random_statements_have_the_same_outcome() {
    for seed in 0..30 {
        eprintln!("seed {seed}");
        run(seed, 150, &Both::typed());
        run(seed, 150, &Both::new());
    }
}

/// A few statements of which most are about savepoints: many begin before anything was read or written.
fn savepoints(seed: u64, both: &Both) {
    let mut random = Random::seeded(seed);
    for table in ["t", "u"] {
        both.run(&format!("CREATE TABLE {table}(id INTEGER PRIMARY KEY, a INTEGER)"));
        both.run(&format!("INSERT INTO {table} VALUES(1, 1), (2, 2), (3, 3)"));
    }
    for _ in 0..8 {
        let has_begun = random.below(3) > 0 && both.run("BEGIN");
        let mut depth = 0;
        for _ in 0..3 + random.below(12) {
            let table = pick(&mut random, &["t", "u"]);
            let id = random.below(6);
            match random.below(18) {
                0..=2 => {
                    both.run(&format!("SAVEPOINT s{depth}"));
                    depth += 1;
                }
                3 if depth > 0 => {
                    let to = random.below(depth);
                    both.run(&format!("ROLLBACK TO s{to}"));
                    depth = to + 1;
                }
                4 if depth > 0 => {
                    depth = random.below(depth);
                    both.run(&format!("RELEASE s{depth}"));
                }
                5 => drop(both.run(&format!("DELETE FROM {table} WHERE id <= {id}"))),
                6 => drop(both.run(&format!("SELECT count(*) FROM {table}"))),
                7 => drop(both.run(&format!("UPDATE {table} SET a = a + 1 WHERE id >= {id}"))),
                // One row, and what is done in steps: SQLite makes no savepoint of its own for those.
                8 => drop(both.run(&format!("INSERT INTO {table} VALUES({}, 1)", id + 3))),
                9 => drop(both.run(&format!("UPDATE {table} SET a = a + 1 WHERE id = {id}"))),
                10 => drop(both.run(&format!("DELETE FROM {table} WHERE id = {id}"))),
                11 => {
                    both.run(&format!("INSERT OR REPLACE INTO {table} VALUES({id}, 5) RETURNING id, a"));
                }
                12 => drop(both.run(&format!(
                    "INSERT INTO {table} VALUES({id}, 2) ON CONFLICT(id) DO UPDATE SET a = a + 2 RETURNING a"
                ))),
                13 => drop(both.run(&format!("DELETE FROM {table} WHERE id >= {id} RETURNING id"))),
                14 => drop(both.run("CREATE TABLE IF NOT EXISTS v(a)")),
                15 => drop(both.run("DROP TABLE IF EXISTS v")),
                16 => drop(both.run("INSERT INTO v VALUES(1)")),
                // Where the second row is there, the statement is undone.
                _ => drop(both.run(&format!("INSERT INTO {table} VALUES({}, 0), ({id}, 0)", id + 7))),
            }
        }
        both.run("SELECT * FROM t ORDER BY id");
        if has_begun || depth > 0 {
            both.run(pick(&mut random, &["COMMIT", "COMMIT", "ROLLBACK"]));
        }
        both.run("SELECT * FROM t ORDER BY id");
        both.run("SELECT * FROM u ORDER BY id");
    }
}

#[test]
fn savepoints_go_back_to_where_they_began() {
    for seed in 0..300 {
        savepoints(seed, &Both::typed());
        savepoints(seed, &Both::new());
    }
}
