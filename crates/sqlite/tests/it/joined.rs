//! Joins: look-ups one after the other, of which many end in the page where the one before ended, or beyond all rows.

use crate::support::pick;
use base::env::Random;
use pando::Database;
use pando_sqlite::{Connection, Statement, Value};

/// A table of which a page has all rows, one with many pages and with indexes, of which one has cut keys, and one
/// without rowids.
const SCHEMA: &str = "
    CREATE TABLE few(a INTEGER PRIMARY KEY, b TEXT UNIQUE);
    CREATE TABLE many(a INTEGER PRIMARY KEY, b INTEGER, c TEXT);
    CREATE INDEX many_b ON many(b); CREATE INDEX many_c ON many(c COLLATE NOCASE DESC, b);
    CREATE TABLE cut(a INTEGER PRIMARY KEY, b TEXT); CREATE INDEX cut_b ON cut(b, a DESC);
    CREATE TABLE pairs(x, y, z, PRIMARY KEY(x, y)) WITHOUT ROWID;
    CREATE TABLE sought(i INTEGER PRIMARY KEY, n INTEGER);
    WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
        INSERT INTO many SELECT i * 3, i % 700, 'row ' || (i % 900) FROM n;
    INSERT INTO few SELECT a, 'row ' || a FROM many WHERE a < 300;
    INSERT INTO cut SELECT a, CASE WHEN a % 4 = 0 THEN 's' || a ELSE char(64 + a % 7) || hex(zeroblob(470)) || (b % 40)
        END FROM many WHERE a < 1500;
    INSERT INTO pairs SELECT b, a, c FROM many";

const JOINS: &[&str] = &[
    "SELECT i, a, b FROM sought CROSS JOIN few ON a = n",
    "SELECT i, a, b FROM sought LEFT JOIN few ON a = n",
    "SELECT i, a, b FROM sought CROSS JOIN few ON b = 'row ' || n",
    "SELECT i, a, b FROM sought CROSS JOIN few ON a >= n AND a < n + 9",
    "SELECT i, a, b, c FROM sought LEFT JOIN many ON a = n",
    "SELECT i, a, c FROM sought LEFT JOIN many ON b = n",
    "SELECT i, a, c FROM sought LEFT JOIN many INDEXED BY many_c ON c = 'ROW ' || n COLLATE NOCASE",
    "SELECT i, a, c FROM sought CROSS JOIN many INDEXED BY many_c
        ON c = 'row ' || (n / 2) COLLATE NOCASE AND b > n",
    "SELECT i, a FROM sought LEFT JOIN cut ON b = char(64 + n % 7) || hex(zeroblob(470)) || (n % 50)",
    "SELECT i, (SELECT max(a) FROM cut WHERE b <= char(64 + n % 7) || hex(zeroblob(470)) || (n % 50))
        FROM sought",
    "SELECT i, (SELECT a FROM cut WHERE b > char(64 + n % 9) ORDER BY b, a DESC) FROM sought",
    "SELECT i, a FROM sought LEFT JOIN cut ON b = 's' || n",
    "SELECT a, substr(b, 1, 1), substr(b, -3) FROM cut ORDER BY b, a DESC",
    "SELECT i, y, z FROM sought LEFT JOIN pairs ON x = n",
    "SELECT i, y, z FROM sought LEFT JOIN pairs ON x = n % 700 AND y = n * 3",
    "SELECT i FROM sought WHERE EXISTS (SELECT 1 FROM many WHERE b = n)",
    "SELECT i FROM sought WHERE NOT EXISTS (SELECT 1 FROM many WHERE c = 'row ' || n)",
    "SELECT i FROM sought WHERE n IN (SELECT a FROM few) AND n NOT IN (SELECT y FROM pairs WHERE x < 9)",
    "SELECT i, (SELECT max(a) FROM many WHERE b < n) FROM sought",
];

const CHANGES: &[&str] = &[
    "INSERT OR IGNORE INTO few SELECT n, 'row ' || n FROM sought WHERE i % 5 = random() % 5",
    "DELETE FROM few WHERE a IN (SELECT n FROM sought WHERE i % 3 = random() % 3)",
    "DELETE FROM few WHERE a = (SELECT max(a) FROM few)",
    "UPDATE few SET b = b || 'x' WHERE a % 30 = 0",
    "UPDATE many SET b = b + 700 WHERE a % 50 = 0",
    "INSERT INTO many(b, c) SELECT n, 'row ' || n FROM sought WHERE i % 9 = random() % 9",
    "DELETE FROM many WHERE b IN (SELECT n FROM sought WHERE i % 9 = random() % 9)",
    "DELETE FROM many WHERE a % 97 = 0",
    "UPDATE cut SET b = b || '.' WHERE a % 60 = 0",
    "DELETE FROM pairs WHERE y % 91 = 0",
    "INSERT OR REPLACE INTO pairs SELECT n, 1, 'new' FROM sought WHERE i % 40 = 0",
];

/// A database of ours and one of SQLite's own trees, to which the same is done.
struct Both {
    db: Database,
    ours: Connection,
    theirs: Connection,
}

impl Both {
    /// What is sought is in random order, from a part of the keys and of those that do not exist.
    fn new(random: &mut Random) -> Both {
        let db = Database::builder().in_memory().expect("it opens");
        let ours = Connection::open(&db).expect("it opens");
        let both = Both { db, ours, theirs: Connection::in_memory().expect("it opens") };
        both.execute(SCHEMA);
        let (from, range) =
            (random.below(400) as i64 - 100, [20, 300, 900, 12_000][random.below(4) as usize]);
        let order = pick(random, &["random", "ascending", "descending"]);
        let mut sought: Vec<_> = (0..250).map(|_| from + random.below(range) as i64).collect();
        match order {
            "ascending" => sought.sort(),
            "descending" => sought.sort_by_key(|n| -n),
            _ => {}
        }
        let values: Vec<_> = sought.iter().map(|n| format!("({n})")).collect();
        both.execute(&format!("INSERT INTO sought(n) VALUES {}", values.join(",")));
        both
    }

    fn execute(&self, sql: &str) {
        for on in [&self.ours, &self.theirs] {
            on.execute(sql).expect(sql);
        }
    }
}

/// A change of random rows, the same ones in both databases.
fn change(random: &mut Random) -> String {
    pick(random, CHANGES).replace("random()", &random.below(99).to_string())
}

fn next(query: &mut Statement<'_>) -> Option<Vec<Value>> {
    query.step().expect("it steps").then(|| (0..query.columns()).map(|at| query.value(at)).collect())
}

#[test]
fn joins_find_the_same_rows_wherever_these_lie() {
    let mut rows = 0;
    for seed in 0..24 {
        let mut random = Random::seeded(seed);
        let both = Both::new(&mut random);
        // All in pages, some rows of them newer, or none.
        if seed % 3 > 0 {
            both.db.checkpoint().expect("it checkpoints");
        }
        for sql in JOINS {
            if random.chance(1, 3) && seed % 3 > 1 {
                both.execute(&change(&mut random));
            }
            let in_transaction = random.chance(1, 4);
            if in_transaction {
                both.execute("BEGIN");
            }
            let [ours, theirs] = [&both.ours, &both.theirs].map(|on| on.query(sql).expect(sql));
            assert_eq!(ours, theirs, "seed {seed}: {sql}");
            rows += ours.len();
            if in_transaction {
                both.execute("COMMIT");
            }
        }
    }
    assert!(rows > 40_000, "{rows} rows");
}

/// Each look-up sees what its connection has written since the one before.
#[test]
fn a_join_goes_on_over_tables_that_change() {
    for seed in 0..12 {
        let mut random = Random::seeded(seed);
        let both = Both::new(&mut random);
        if seed % 3 > 0 {
            both.db.checkpoint().expect("it checkpoints");
        }
        for sql in JOINS.iter().filter(|sql| !sql.contains("cut") && !sql.contains(" IN ")) {
            let mut queries = [&both.ours, &both.theirs].map(|on| on.prepare(sql).expect(sql));
            loop {
                let [ours, theirs] = queries.each_mut().map(next);
                assert_eq!(ours, theirs, "seed {seed}: {sql}");
                if ours.is_none() {
                    break;
                }
                if random.chance(1, 40) {
                    let change = change(&mut random);
                    // A change of the rows between two steps within one look-up has no defined order.
                    if !sql.contains("many") || !change.contains("many") {
                        both.execute(&change);
                    }
                }
            }
        }
    }
}

/// What one statement has found in pages and beyond all rows is not taken to be so by the next one, when another
/// connection has committed.
#[test]
fn what_cursors_knew_ends_with_their_snapshot() {
    let both = Both::new(&mut Random::seeded(1));
    // The first one that is sought is between others.
    both.execute("UPDATE sought SET n = i + 30");
    both.db.checkpoint().expect("it checkpoints");
    let other = Connection::open(&both.db).expect("it opens");
    let queries = [
        "SELECT count(*) FROM sought WHERE NOT EXISTS (SELECT 1 FROM few WHERE a = n)",
        "SELECT count(*) FROM sought WHERE NOT EXISTS (SELECT 1 FROM few WHERE b = 'row ' || n)",
        "SELECT sum((SELECT count(*) FROM many WHERE b = n)) FROM sought",
        "SELECT group_concat((SELECT max(a) FROM few WHERE a <= n)) FROM sought",
    ];
    for round in 0..4 {
        for sql in queries {
            // Of kept statements, too.
            let ours = both.ours.prepare_kept(sql).map(|mut query| next(&mut query)).expect(sql);
            let theirs = both.theirs.prepare(sql).map(|mut query| next(&mut query)).expect(sql);
            assert_eq!(ours, theirs, "round {round}: {sql}");
        }
        let change = format!(
            "INSERT OR IGNORE INTO few SELECT n, 'row ' || n FROM sought WHERE n % 4 = {round};
             DELETE FROM many WHERE a % 7 = {round}; INSERT INTO many(b) VALUES ({}), (9000)",
            round * 50
        );
        other.execute(&change).expect("it writes");
        both.theirs.execute(&change).expect("it writes");
        // All rows are in pages again, which are known as a whole.
        both.db.checkpoint().expect("it checkpoints");
    }
}
