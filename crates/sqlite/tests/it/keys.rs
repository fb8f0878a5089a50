//! Look-ups of whole keys in a `WITHOUT ROWID` table, one after another: in any order, in memory and in pages, with own
//! writes and with changes while a statement looks them up.

use base::env::Random;
use pando::Database;
use pando_sqlite::Connection;

/// 3,000 keys of two columns, some of them long, and as many that do not exist; each look-up has a number.
fn fill(seed: u64) -> String {
    let mut random = Random::seeded(seed);
    let mut numbers: Vec<u64> = (0..6000).collect();
    for at in (1..numbers.len()).rev() {
        numbers.swap(at, random.below(at as u64 + 1) as usize);
    }
    let rows = numbers.iter().enumerate().map(|(at, number)| format!("({at},{number})"));
    format!(
        "CREATE TABLE k(a TEXT, b INTEGER, c INTEGER, PRIMARY KEY (a, b DESC)) WITHOUT ROWID;
         CREATE TABLE probe(n INTEGER PRIMARY KEY, at INTEGER, a TEXT, b INTEGER);
         INSERT INTO probe(n, at) VALUES {};
         UPDATE probe SET b = at % 13,
             a = CASE WHEN at % 100 = 8 THEN hex(zeroblob(600)) || at % 9 ELSE 'key ' || (at / 7) END;
         INSERT INTO k SELECT a, b, at FROM probe WHERE at % 2 = 0 ON CONFLICT DO NOTHING",
        rows.collect::<Vec<_>>().join(",")
    )
}

const LOOK_UPS: [&str; 8] = [
    "SELECT n, k.c FROM probe CROSS JOIN k ON k.a = probe.a AND k.b = probe.b ORDER BY n",
    "SELECT n, k.c FROM probe CROSS JOIN k ON k.a = probe.a AND k.b = probe.b ORDER BY n DESC, k.a DESC",
    "SELECT n, k.c FROM (SELECT * FROM probe ORDER BY at LIMIT 9999) AS p CROSS JOIN k USING (a, b)",
    "SELECT n, k.c FROM (SELECT * FROM probe ORDER BY a, b LIMIT 9999) AS p LEFT JOIN k USING (a, b)",
    "SELECT n, (SELECT max(c) FROM k WHERE k.a = probe.a AND k.b = probe.b) FROM probe ORDER BY n",
    "SELECT n FROM probe WHERE NOT EXISTS (SELECT 1 FROM k WHERE k.a = probe.a AND k.b = probe.b) ORDER BY n",
    "SELECT n FROM probe WHERE (a, b) IN (SELECT a, b FROM k) ORDER BY n",
    "SELECT n, k.c FROM probe CROSS JOIN k ON k.a = probe.a AND k.b = probe.b AND k.c > 50 ORDER BY n",
];

const CHANGES: [&str; 5] = [
    "UPDATE k SET c = c + 1 WHERE (a, b) IN (SELECT a, b FROM probe WHERE n % 3 = 0)",
    "UPDATE k SET c = k.c + p.n FROM probe AS p WHERE k.a = p.a AND k.b = p.b AND p.n % 5 = 0",
    "DELETE FROM k WHERE EXISTS (SELECT 1 FROM probe WHERE probe.a = k.a AND probe.b = k.b AND n % 7 = 0)",
    "INSERT INTO k SELECT a, b, n FROM probe WHERE n % 11 = 0 ON CONFLICT DO UPDATE SET c = k.c + excluded.c",
    "UPDATE k SET b = b + 20 WHERE a = 'key 40' AND b IN (1, 3, 5, 7, 8, 9)",
];

#[test]
fn whole_keys_are_found_as_sqlite_finds_them() {
    for (seed, in_pages) in [(1, false), (2, true)] {
        let db = Database::builder().in_memory().expect("it opens");
        let both = [Connection::open(&db).expect("it opens"), Connection::in_memory().expect("it opens")];
        let execute = |sql: &str| {
            let codes = both.each_ref().map(|on| on.execute(sql).err().map(|error| error.code));
            assert_eq!(codes[0], codes[1], "{sql}");
        };
        let compare = || {
            for sql in LOOK_UPS {
                let [ours, theirs] = both.each_ref().map(|on| on.query(sql).expect(sql));
                assert!(!theirs.is_empty() && ours == theirs, "{sql}");
            }
        };
        execute(&fill(seed));
        if in_pages {
            db.checkpoint().expect("it checkpoints");
        }
        compare();
        execute("BEGIN");
        for sql in CHANGES {
            execute(sql);
            compare();
        }
        execute("COMMIT");
        compare();
    }
}
