//! Comparisons between columns of every affinity: an index changes no answer, and neither does a scan that makes one
//! for itself.

use crate::support::{Both, pick};
use base::env::Random;

const COLUMNS: [(&str, &str); 5] =
    [("i", "INTEGER"), ("t", "TEXT"), ("r", "REAL"), ("n", "NUMERIC"), ("b", "")];

fn text(random: &mut Random) -> String {
    let texts = [
        "'10'", "'10.0'", "' 10'", "'1e1'", "'abc'", "'ABC'", "'abc '", "'$a'", "''", "'4x'", "'0.3'", "'5'",
    ];
    pick(random, &texts).to_owned()
}

fn number(random: &mut Random) -> String {
    pick(random, &["10", "5", "4", "0", "-3", "9007199254740993", "602393"]).to_owned()
}

fn real(random: &mut Random) -> String {
    pick(random, &["10.0", "0.5", "0.1 + 0.2", "0.3", "9007199254740992.0", "4.0", "1e300"]).to_owned()
}

fn value(column: &str, random: &mut Random) -> String {
    if random.below(10) == 0 {
        return "NULL".to_owned();
    }
    match column {
        "i" => number(random),
        "t" => text(random),
        "r" => real(random),
        _ => match random.below(4) {
            0 => number(random),
            1 => real(random),
            2 => "x'3130'".to_owned(),
            _ => text(random),
        },
    }
}

fn column(random: &mut Random) -> &'static str {
    COLUMNS[random.below(COLUMNS.len() as u64) as usize].0
}

fn query(random: &mut Random) -> String {
    let op = pick(random, &["=", "=", "=", "<", "<=", ">", ">=", "IS"]);
    let (left, right) = (column(random), column(random));
    let collate = pick(random, &["", "", "", " COLLATE NOCASE", " COLLATE RTRIM"]);
    let shown = "count(*), sum(length(t.t)), min(t.id)";
    match random.below(11) {
        0 | 1 => format!("SELECT t.id, u.id FROM t JOIN u ON t.{left} {op} u.{right}{collate}"),
        2 => format!("SELECT {shown} FROM t WHERE {left} IN (SELECT {right} FROM u)"),
        3 => format!(
            "SELECT {shown} FROM t WHERE {left} {op} (SELECT {right} FROM u WHERE id = {})",
            random.below(90)
        ),
        4 => {
            format!("SELECT {shown} FROM t WHERE {left} {op} CAST({} AS {})", value(right, random), "INTEGER")
        }
        5 => format!("SELECT {shown} FROM t WHERE {left} {op} {}{collate}", value(right, random)),
        6 => format!(
            "SELECT {shown} FROM t WHERE {left} IN ({}, {})",
            value(right, random),
            value("b", random)
        ),
        7 => format!(
            "SELECT t.id, (SELECT count(*) FROM u WHERE u.{left} {op} t.{right}) FROM t ORDER BY t.id LIMIT 9"
        ),
        8 => format!(
            "SELECT t.id, u.id FROM t LEFT JOIN u ON u.{left} = t.{right} AND u.i > 3 ORDER BY t.id, u.id"
        ),
        // Bound parts have no order of their own where what they are bound to lets several values through.
        9 => format!(
            "SELECT t.id FROM u, t WHERE u.id = {} AND t.{left} = u.{right} ORDER BY t.i, t.id LIMIT 5",
            random.below(90)
        ),
        _ => format!("SELECT count(DISTINCT t.id) FROM t, u WHERE t.{left} = u.{right} + 0"),
    }
}

fn insert(table: &str, id: u64, random: &mut Random) -> String {
    let values: Vec<_> = COLUMNS.iter().map(|(name, _)| value(name, random)).collect();
    format!("INSERT INTO {table} VALUES({id}, {})", values.join(", "))
}

#[test]
fn an_index_changes_no_answer() {
    for seed in 0..40 {
        eprintln!("seed {seed}");
        let mut random = Random::seeded(seed);
        let both = Both::typed();
        let columns: Vec<_> = COLUMNS.iter().map(|(name, kind)| format!("{name} {kind}")).collect();
        let rows = if seed % 2 == 0 { 20 } else { 90 };
        for table in ["t", "u"] {
            both.run(&format!("CREATE TABLE {table}(id INTEGER PRIMARY KEY, {})", columns.join(", ")));
            (0..rows).for_each(|id| assert!(both.run(&insert(table, id, &mut random))));
        }
        for step in 0..60 {
            // Ours alone: SQLite's own indexes are not what is asked about.
            if step % 15 == 14 {
                let (table, first, second) =
                    (pick(&mut random, &["t", "u"]), column(&mut random), column(&mut random));
                let second = if first == second { "id" } else { second };
                let index = format!("CREATE INDEX i{step} ON {table}({first}, {second} DESC)");
                both.ours.execute(&index, &[]).unwrap();
            }
            both.run(&query(&mut random));
        }
    }
}

/// A key of texts, too, is asked for by numbers.
#[test]
fn a_key_of_texts_changes_no_answer() {
    let both = Both::typed();
    both.run_all(
        "CREATE TABLE k(x TEXT PRIMARY KEY, y INT) WITHOUT ROWID; CREATE TABLE n(i INTEGER);
         INSERT INTO k VALUES('10', 1), ('10.0', 2), ('4x', 3), ('abc', 4);
         INSERT INTO n VALUES(10), (602393);
         SELECT x, i FROM n JOIN k ON x = i ORDER BY x;
         SELECT x FROM k WHERE x IN (SELECT i FROM n) ORDER BY x;
         SELECT count(*) FROM k WHERE x > (SELECT max(i) FROM n);
         SELECT x FROM k WHERE x = 10; SELECT x FROM k WHERE x = '10'; DELETE FROM k WHERE x = 10 RETURNING y;
         UPDATE k SET y = 9 WHERE x IN (SELECT i FROM n); SELECT * FROM k ORDER BY x",
    );
}

/// A join without an index reads each table once or twice, and a row for each that matches.
#[test]
fn a_join_without_an_index_is_not_quadratic() {
    const ROWS: u64 = 2000;
    let db = pando::Database::builder().in_memory().unwrap();
    let connection = crate::support::typed::Sql::new(db.clone()).connect().unwrap();
    connection
        .execute_batch(&format!(
            "CREATE TABLE a(x INT, v INT); CREATE TABLE b(y TEXT, w INT);
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS})
             INSERT INTO a SELECT i, i % 7 FROM n;
             INSERT INTO b SELECT x || '.0', v FROM a"
        ))
        .unwrap();
    let visited =
        || db.table_stats().unwrap().iter().map(|table| table.gets + table.cursor_moves).sum::<u64>();
    for query in [
        "SELECT count(*), sum(w) FROM a JOIN b ON a.x = b.y",
        "SELECT count(*), sum(w) FROM a LEFT JOIN b ON a.x = b.y AND w >= 0",
        "SELECT count(*), sum((SELECT w FROM b WHERE y = x)) FROM a",
    ] {
        let before = visited();
        let rows = connection.query(query, &[]).unwrap();
        assert_eq!(rows[0][0], i64::try_from(ROWS).unwrap().into(), "{query}");
        let rows_visited = visited() - before;
        assert!(rows_visited <= 6 * ROWS, "{query}: {rows_visited} for {ROWS} rows");
    }
}

/// After the index that a scan makes for itself, a `RIGHT JOIN` reads the whole table for the rows that were not met.
#[test]
fn an_outer_join_without_an_index_has_the_rows_that_match_nothing() {
    let both = Both::typed();
    both.run_all(
        "CREATE TABLE few(id INTEGER PRIMARY KEY, k TEXT, n INTEGER); CREATE TABLE many(k TEXT, n INTEGER);
         INSERT INTO few VALUES (1, 'x1', 1), (2, 'x700', 2), (3, NULL, 3), (4, 'x700', NULL), (5, 'none', 5);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1500)
         INSERT INTO many SELECT nullif('x' || i, 'x9'), i FROM n",
    );
    let join = "SELECT id, m.n FROM few AS f RIGHT JOIN many AS m ON m.k = f.k";
    let plan = both.ours.query(&format!("EXPLAIN QUERY PLAN {join}"), &[]).unwrap();
    let plan = format!("{plan:?}");
    assert!(
        plan.contains("TRANSIENT INDEX") && plan.contains("RIGHT-JOIN"),
        "the test tests nothing: {plan}"
    );
    both.run_all(&format!(
        "{join} ORDER BY id, m.n;
         SELECT id, m.n FROM few AS f FULL JOIN many AS m ON m.k = f.k ORDER BY id, m.n;
         SELECT count(*), count(id), sum(m.n) FROM many AS m FULL JOIN few AS f ON m.k = f.k;
         SELECT a.n, b.id FROM many AS m JOIN few AS a ON m.k = a.k FULL JOIN few AS b ON b.n = a.n
         ORDER BY a.n, b.id"
    ));
}

/// The first and the last key are where the key begins and ends, whatever indexes there are beside.
#[test]
fn the_largest_key_is_found_without_a_scan() {
    const ROWS: u64 = 2000;
    let db = pando::Database::builder().in_memory().unwrap();
    let connection = crate::support::typed::Sql::new(db.clone()).connect().unwrap();
    connection
        .execute_batch(&format!(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a INT NOT NULL, b INT); CREATE INDEX by_a ON t(a);
             CREATE TABLE k(s TEXT PRIMARY KEY, v INT); CREATE INDEX by_v ON k(v);
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS})
             INSERT INTO t SELECT i, i % 100, i FROM n;
             INSERT INTO k SELECT printf('%05d', id), a FROM t"
        ))
        .unwrap();
    let visited =
        || db.table_stats().unwrap().iter().map(|table| table.gets + table.cursor_moves).sum::<u64>();
    for query in [
        "SELECT max(id) FROM t",
        "SELECT min(id) FROM t",
        "SELECT max(rowid) FROM t",
        "SELECT max(a) FROM t",
        "SELECT min(a) FROM t",
        "SELECT max(s) FROM k",
        "SELECT min(s) FROM k",
        "SELECT id, b FROM t ORDER BY id DESC LIMIT 1",
        "SELECT s FROM k ORDER BY s DESC LIMIT 1",
        "SELECT max(id) FROM t WHERE a = 5",
    ] {
        let before = visited();
        connection.query(query, &[]).unwrap();
        let rows_visited = visited() - before;
        assert!(rows_visited <= 200, "{query}: {rows_visited} of {ROWS} rows");
    }
}

/// A view can hide a join, and `IN` can name a table: a text is then compared with numbers.
#[test]
fn a_view_and_a_named_table_are_queries_of_their_own() {
    let both = Both::typed();
    both.run_all(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT); CREATE TABLE u(n INTEGER PRIMARY KEY);
         CREATE TABLE seen(id INTEGER PRIMARY KEY, many INTEGER);
         INSERT INTO t VALUES(1, '05'), (2, '5'), (3, 'x');
         INSERT INTO u VALUES(5); INSERT INTO seen VALUES(1, 0)",
    );
    both.ours.execute("CREATE INDEX by_name ON t(name)", &[]).unwrap();
    both.run_all(
        "CREATE VIEW v AS SELECT t.id, t.name FROM u CROSS JOIN t ON t.name = u.n;
         CREATE TEMP VIEW w AS SELECT id FROM t WHERE name IN u;
         SELECT id FROM t WHERE name IN u ORDER BY id; SELECT id FROM t WHERE name IN main.u ORDER BY id;
         SELECT id FROM t WHERE name NOT IN u ORDER BY id; SELECT id FROM t WHERE name IN (SELECT n FROM u);
         SELECT id FROM v ORDER BY id; SELECT id FROM v ORDER BY name; SELECT id FROM [v] WHERE id > 0;
         SELECT * FROM main.v AS other; SELECT id FROM w ORDER BY id; SELECT count(*) FROM [v];
         INSERT INTO seen SELECT id + 10, 1 FROM v; SELECT id, many FROM seen ORDER BY id;
         UPDATE t SET name = name || '' WHERE name IN u; DELETE FROM t WHERE name IN u;
         SELECT id FROM t ORDER BY id",
    );
}

/// A view of `temp` takes the name of a typed table.
#[test]
fn a_temporary_view_hides_a_typed_table() {
    let both = Both::typed();
    both.run_all(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT); CREATE TABLE u(n INTEGER PRIMARY KEY);
         INSERT INTO t VALUES(1, '05'), (2, '5'), (3, 'x'); INSERT INTO u VALUES(5)",
    );
    both.ours.execute("CREATE INDEX by_name ON t(name)", &[]).unwrap();
    both.run_all(
        "CREATE TEMP VIEW t AS SELECT a.id, a.name FROM u CROSS JOIN main.t AS a ON a.name = u.n;
         SELECT id FROM t ORDER BY id; SELECT name FROM t WHERE id > 0 ORDER BY id",
    );
}
