//! Rows that lie in pages: batches leave them there, and show the rest of a page without a search.

use crate::support::{Seed, pick};
use base::env::Random;
use pando::Database;
use pando_sqlite::{Connection, Value};

/// A database whose rows are in pages, a connection to it, and one to SQLite's own trees.
struct InPages {
    db: Database,
    ours: Connection,
    theirs: Connection,
}

impl InPages {
    fn new(schema: &str) -> InPages {
        let pages = InPages::unmerged(schema);
        pages.db.checkpoint().expect("it checkpoints");
        pages
    }

    /// Does not move the rows to pages.
    fn unmerged(schema: &str) -> InPages {
        let db = Database::builder().in_memory().expect("it opens");
        let ours = Connection::open(&db).expect("it opens");
        let pages = InPages { db, ours, theirs: Connection::in_memory().expect("it opens") };
        pages.execute(schema);
        pages
    }

    #[track_caller]
    fn execute(&self, sql: &str) {
        let codes = [&self.ours, &self.theirs].map(|on| on.execute(sql).err().map(|error| error.code));
        assert_eq!(codes[0], codes[1], "{sql}");
    }

    #[track_caller]
    fn query(&self, sql: &str) -> usize {
        let [ours, theirs] = [&self.ours, &self.theirs].map(|on| on.query(sql).expect(sql));
        assert_eq!(ours, theirs, "{sql}");
        ours.len()
    }
}

/// 3,000 rows, some of them longer than a page, with gaps between the rowids.
const SCHEMA: &str = "
    CREATE TABLE t(a INTEGER PRIMARY KEY, b INTEGER, c TEXT);
    CREATE INDEX t_b ON t(b, c);
    CREATE TABLE k(x, y, z, PRIMARY KEY(x, y)) WITHOUT ROWID;
    WITH RECURSIVE n(i) AS (VALUES (-900) UNION ALL SELECT i + 1 FROM n WHERE i < 2100)
        INSERT INTO t SELECT i * 3 + (i % 5 = 0), i % 90, CASE WHEN i IN (7, 1500) THEN hex(zeroblob(20000))
            WHEN i % 60 = 0 THEN hex(zeroblob(300)) WHEN i % 7 = 0 THEN '' ELSE 'row ' || i END FROM n;
    INSERT INTO k SELECT b, a, c FROM t";

/// More indexes: with other orders, of a table without rowids, and with keys that are cut and begin in the same way.
const INDEXES: &str = "
    CREATE INDEX t_c ON t(c COLLATE NOCASE DESC, b); CREATE INDEX k_z ON k(z DESC, y);
    CREATE TABLE long(a INTEGER PRIMARY KEY AUTOINCREMENT, b); CREATE INDEX long_b ON long(b, a DESC);
    INSERT INTO long(b) SELECT hex(zeroblob(500)) || (a % 40) FROM t WHERE a BETWEEN 0 AND 900";

fn statement(random: &mut Random) -> String {
    let from = random.below(9000) as i64 - 2700;
    let length = [0, 1, 5, 40, 300, 5000][random.below(6) as usize];
    let (to, b) = (from + length, random.below(95));
    let order = pick(random, &["", " ORDER BY a DESC", " ORDER BY a", " LIMIT 9", " ORDER BY c, a"]);
    match random.below(24) {
        0..3 => format!("SELECT * FROM t WHERE a BETWEEN {from} AND {to}{order}"),
        3 => format!("SELECT * FROM t WHERE a > {from} AND a < {to}{order}"),
        4 => format!("SELECT a, b FROM t WHERE b >= {b} AND b < {b} + 3 ORDER BY b, c, a"),
        5 => format!("SELECT u.a, v.a, v.c FROM t AS u LEFT JOIN t AS v ON v.a = u.a + 3 WHERE u.a < {from}"),
        6 => format!("SELECT * FROM k WHERE x = {b} AND y >= {from} ORDER BY y DESC"),
        7 => format!("UPDATE t SET b = b + 1 WHERE a BETWEEN {from} AND {to}"),
        8 => format!("UPDATE t SET c = c || 'x' WHERE b = {b}"),
        9 => format!("DELETE FROM t WHERE a BETWEEN {from} AND {} AND b % 2 = 0", from + length.min(40)),
        10 => format!("INSERT OR REPLACE INTO t VALUES ({from}, {b}, 'new {to}')"),
        11 => format!("UPDATE k SET z = z || '.' WHERE x = {b}"),
        12 => pick(random, &["BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT a", "ROLLBACK TO a"]).to_owned(),
        13 => format!("UPDATE t SET a = a + 1 WHERE a = {from}"),
        14 => format!("DELETE FROM k WHERE x = {b} AND y < {from}"),
        15 => format!("DELETE FROM t WHERE b = {b} AND a > {from}"),
        16 => format!("SELECT b, c FROM t WHERE b <= {b} ORDER BY b DESC, c DESC"),
        20 => format!("DELETE FROM long INDEXED BY long_b WHERE b LIKE '%0{b}' AND a % 3 = {}", b % 3),
        21 => format!("INSERT INTO long(b) SELECT b || 'x' FROM long WHERE a % 50 = {}", b % 50),
        22 => format!(
            "SELECT a, substr(b, -4) FROM long WHERE b >= hex(zeroblob(500)) || '{b}' ORDER BY b, a DESC"
        ),
        23 => format!("DELETE FROM t INDEXED BY t_c WHERE c > 'ROW {b}' AND c < 'row {b}5' AND b % 4 = 1"),
        17 => format!(
            "SELECT u.a, (SELECT count(*) FROM k NOT INDEXED WHERE k.x + 0 = u.b AND k.y > u.a) FROM t AS u
             WHERE u.a BETWEEN {from} AND {}",
            from + 30
        ),
        18 => format!(
            "UPDATE t SET b = (SELECT count(*) FROM t AS i NOT INDEXED WHERE i.b = t.b AND i.a <= {to})
             WHERE a BETWEEN {from} AND {}",
            from + 30
        ),
        _ => format!("SELECT count(*), sum(b), max(c), min(a) FROM t WHERE a >= {from}"),
    }
}

#[test]
fn random_statements_have_the_same_results_over_pages() {
    let mut rows = 0;
    for seed in 0..12 {
        let _shown = Seed(seed);
        let mut random = Random::seeded(seed);
        // Every other time, the first rows are in memory until a statement later.
        let schema = [SCHEMA, INDEXES].join(";");
        let pages = if seed % 2 == 0 { InPages::new(&schema) } else { InPages::unmerged(&schema) };
        for _ in 0..150 {
            let sql = statement(&mut random);
            match sql.starts_with("SELECT") {
                true => rows += pages.query(&sql),
                false => pages.execute(&sql),
            }
            if random.below(12) == 0 && !pages.ours.is_in_transaction() {
                pages.db.checkpoint().expect("it checkpoints");
            }
        }
        rows += pages.query("SELECT * FROM t ORDER BY a") + pages.query("SELECT * FROM k ORDER BY x, y");
        pages.query("SELECT c, b FROM t ORDER BY c COLLATE NOCASE DESC, b");
        pages.query("SELECT z, y FROM k ORDER BY z DESC, y");
        pages.query("PRAGMA integrity_check");
    }
    assert!(rows > 200_000, "the statements returned only {rows} rows");
}

/// A query reads on from its page while its connection, and another one, change what it reads.
#[test]
fn a_query_reads_on_while_its_rows_change() {
    let pages = InPages::new(SCHEMA);
    let other = Connection::open(&pages.db).expect("it opens");
    let expected = pages.ours.query("SELECT a, b FROM t ORDER BY a").expect("it reads");
    let mut query = pages.ours.prepare("SELECT a, b FROM t ORDER BY a").expect("it prepares");
    for (at, row) in expected.iter().enumerate() {
        assert!(query.step().expect("it steps"));
        assert_eq!([query.value(0), query.value(1)], row[..], "row {at}");
        if at == 100 {
            other.execute("UPDATE t SET b = -1; DELETE FROM t WHERE a % 2 = 0").expect("it writes");
            pages.db.checkpoint().expect("it checkpoints");
        }
    }
    assert!(!query.step().expect("it ends"));
    drop(query);

    // What the connection itself writes, a query of its own sees from the next row on.
    let mut query = pages.ours.prepare("SELECT a, b FROM t ORDER BY a").expect("it prepares");
    assert!(query.step().expect("it steps"));
    pages.ours.execute("UPDATE t SET b = a * 2").expect("it writes");
    for _ in 0..900 {
        assert!(query.step().expect("it steps"));
        let Value::Integer(a) = query.value(0) else { panic!("a rowid is an integer") };
        assert_eq!(query.value(1), Value::Integer(a * 2));
    }
}

/// Queries that were left half-read keep some pages. They leave enough of a small pool to all others.
#[test]
fn many_queries_that_are_left_half_read_do_not_take_the_pool() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Database::builder().memory_bytes(4 << 20).create(dir.path()).expect("it opens");
    let connection = Connection::open(&db).expect("it opens");
    let fill = "CREATE TABLE t(a INTEGER PRIMARY KEY, c TEXT); WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL
        SELECT i + 1 FROM n WHERE i < 60000) INSERT INTO t SELECT i, hex(zeroblob(50)) FROM n";
    connection.execute(fill).expect("it fills");
    db.checkpoint().expect("it checkpoints");
    let connections: Vec<_> = (0..300).map(|_| Connection::open(&db).expect("it opens")).collect();
    let mut queries = Vec::new();
    for (at, connection) in connections.iter().enumerate() {
        // Each in other pages.
        let sql = format!("SELECT a FROM t WHERE a > {}", 199 * at);
        let mut query = connection.prepare(&sql).expect("it prepares");
        for _ in 0..40 {
            assert!(query.step().expect("it steps"));
        }
        queries.push(query);
    }
    let all = connection.query("SELECT count(c), sum(a) FROM t").expect("it reads");
    assert_eq!(all, [[Value::Integer(60_000), Value::Integer(1_800_030_000)]]);
    for query in &mut queries {
        assert!(query.step().expect("it steps"));
    }
}

/// Databases that share a budget have less memory than each could keep by itself.
#[test]
fn half_read_queries_leave_a_shared_budget_to_other_databases() {
    let budget = pando::Budget::new(48 << 20);
    let dirs: Vec<_> = (0..8).map(|_| tempfile::tempdir().expect("a directory")).collect();
    let open = |dir: &tempfile::TempDir| {
        let db = Database::builder().budget(&budget).create(dir.path()).expect("it opens");
        let fill = "CREATE TABLE t(a INTEGER PRIMARY KEY, c TEXT); CREATE TABLE z(a, c);
            WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
            INSERT INTO t SELECT i, hex(zeroblob(150)) FROM n";
        Connection::open(&db).expect("it opens").execute(fill).expect("it fills");
        db.checkpoint().expect("it checkpoints");
        db
    };
    let all: Vec<_> = dirs.iter().map(open).collect();
    let sixty = all.iter().flat_map(|db| std::iter::repeat_n(db, 60));
    let connections: Vec<_> = sixty.map(|db| Connection::open(db).expect("it opens")).collect();
    let mut queries = Vec::new();
    for (at, connection) in connections.iter().enumerate() {
        let sql = format!("SELECT a, c FROM t WHERE a >= {}", at % 60 * 333);
        let mut query = connection.prepare(&sql).expect("it prepares");
        for _ in 0..40 {
            assert!(query.step().expect("it steps"));
        }
        queries.push(query);
    }
    for db in &all {
        let connection = Connection::open(db).expect("it opens");
        let write = "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
            INSERT INTO z SELECT i, hex(zeroblob(100)) FROM n";
        connection.execute(write).expect("it writes");
        let counted = connection.query("SELECT count(*), max(length(c)) FROM t").expect("it reads");
        assert_eq!(counted, [[Value::Integer(20_000), Value::Integer(300)]]);
    }
}

/// What a transaction has not asked for is no conflict, although it is in the same page.
#[test]
fn the_rest_of_a_page_is_no_conflict() {
    let pages = InPages::new(SCHEMA);
    let other = Connection::open(&pages.db).expect("it opens");
    for sql in [
        "SELECT sum(b) FROM t WHERE a BETWEEN 2431 AND 2460",
        "SELECT b FROM t WHERE a >= 2431 LIMIT 5",
        "UPDATE t SET b = b + 1 WHERE a BETWEEN 2431 AND 2460",
        "DELETE FROM t WHERE a BETWEEN 2431 AND 2460 AND b % 2 = 0",
    ] {
        pages.ours.execute("BEGIN").expect("it begins");
        pages.ours.query(sql).expect(sql);
        other.execute("UPDATE t SET b = b + 1 WHERE a = 2551").expect("it writes");
        pages.ours.execute("UPDATE t SET b = 0 WHERE a = 3001").expect("it writes");
        pages.ours.execute("COMMIT").unwrap_or_else(|error| panic!("{sql}: {error}"));
        pages.db.checkpoint().expect("it checkpoints");
    }
}

/// A statement that changes the rows that it scans goes on in its batch, and sees each row as it has become.
#[test]
fn a_scan_goes_on_in_the_rows_that_it_changes() {
    let (pages, mut rows) = (InPages::new(SCHEMA), 0);
    for sql in [
        "UPDATE t SET b = b + 1, c = c || 'longer than it was before' RETURNING a, b, c",
        "UPDATE t SET b = b - 1 WHERE a % 2 = 0",
        "DELETE FROM t WHERE a % 3 = 1",
        "DELETE FROM t WHERE a BETWEEN 100 AND 2000 RETURNING a",
        "UPDATE t SET c = zeroblob(3000) WHERE b = 5",
        "UPDATE t SET b = (SELECT count(*) FROM t AS u WHERE u.a BETWEEN t.a - 9 AND t.a + 9) WHERE a < 90",
        "DELETE FROM t WHERE (SELECT count(*) FROM t AS u WHERE u.a BETWEEN t.a - 9 AND t.a + 9) > 4",
    ] {
        for begin in [false, true] {
            if begin {
                pages.execute(
                    "BEGIN; INSERT INTO t VALUES (-5000, 1, 'own'), (150, 2, 'own'), (99999, 3, 'own')",
                );
            }
            pages.query(sql);
            rows += pages.query("SELECT a, b, hex(c) FROM t ORDER BY a");
            pages.query("SELECT b, c FROM t WHERE b > 3 ORDER BY b, c");
            if begin {
                pages.execute("ROLLBACK");
            }
        }
        pages.db.checkpoint().expect("it checkpoints");
    }
    pages.query("PRAGMA integrity_check");
    assert!(rows > 15_000, "only {rows} rows");
}

/// A cursor that comes to a row again sees it as it has become.
#[test]
fn a_row_that_is_written_again_is_the_one_that_was_written() {
    let pages = InPages::new(SCHEMA);
    for _ in 0..2 {
        pages.query(
            "INSERT INTO t(a, b) VALUES (30, 1), (33, 1), (33, 2), (36, 3), (33, 3), (4, 7), (4, 8)
             ON CONFLICT(a) DO UPDATE SET b = b * 10 + excluded.b, c = c || '-' || b RETURNING *",
        );
        pages.query("SELECT * FROM t WHERE a < 50 ORDER BY a");
        pages.execute("BEGIN");
    }
}

/// Returns how many records cursors came to while a statement ran.
fn moves(pages: &InPages, sql: &str) -> u64 {
    let all = || {
        let stats = pages.db.table_stats().expect("it counts");
        stats.iter().map(|table| table.cursor_moves).sum::<u64>()
    };
    let before = all();
    pages.query(sql);
    all() - before
}

/// A loop within another, a statement that deletes what it scans, and the build of an index do not read rows again and
/// again.
#[test]
fn rows_are_read_about_once() {
    for pages in [InPages::new(SCHEMA), InPages::unmerged(SCHEMA)] {
        pages.execute("CREATE TABLE few(y); INSERT INTO few SELECT a % 100 FROM t WHERE a > 0 LIMIT 300");
        // The first passes have longer batches each time, and the last of them has all rows.
        let sql = "SELECT count(*) FROM t CROSS JOIN few WHERE t.b < few.y AND t.a BETWEEN 0 AND 300";
        let few = moves(&pages, sql);
        assert!(few < 3_000, "{few} records for 100 loops over 300");
        let count = pages.query("SELECT a FROM t WHERE b > 30") as u64;
        let deleted = moves(&pages, "DELETE FROM t INDEXED BY t_b WHERE b > 30");
        assert!(count > 1_000 && deleted < 2 * count, "{deleted} records to delete {count}");
        for sql in
            ["CREATE INDEX later ON t(c, b)", "CREATE UNIQUE INDEX later_a ON t(a + 1)", "REINDEX later"]
        {
            let (rows, read) = (pages.query("SELECT a FROM t") as u64, moves(&pages, sql));
            assert!(rows > 1_000 && read < 2 * rows + 100, "{read} records for {rows} entries: {sql}");
        }
        pages.query("SELECT * FROM t ORDER BY a DESC");
        pages.query("SELECT b, c FROM t ORDER BY b DESC, c DESC");
        pages.query("PRAGMA integrity_check");
    }
}

/// A loop within another sees what its connection has written since the loop before.
#[test]
fn a_loop_that_begins_again_sees_what_was_written() {
    let pages = InPages::new(SCHEMA);
    let run = |connection: &Connection, sql: &str| {
        let few = "CREATE TABLE few(y INTEGER PRIMARY KEY, z); INSERT INTO few VALUES (1, 1), (2, 2), (3, 3)";
        connection.execute(few).expect("it writes");
        let mut query = connection.prepare(sql).expect("it prepares");
        let mut rows = Vec::new();
        while query.step().expect("it steps") {
            rows.push([query.value(0), query.value(1), query.value(2)]);
            let sql = match rows.len() {
                5 => "INSERT INTO few VALUES (0, 17)",
                20 => "UPDATE few SET z = z + 10",
                40 => "DELETE FROM few WHERE y < 2",
                60 => "DELETE FROM few",
                _ => continue,
            };
            connection.execute(sql).expect("it writes");
        }
        drop(query);
        connection.execute("DROP TABLE few").expect("it drops");
        rows
    };
    // In the second one, the inner loop has ended without a row when the connection writes.
    for (sql, count) in [
        ("SELECT a, y, z FROM t CROSS JOIN few WHERE a BETWEEN 0 AND 300", 60),
        ("SELECT a, y, z FROM t LEFT JOIN few ON z + a > a + 9 WHERE a BETWEEN 0 AND 300", 126),
    ] {
        let rows = run(&pages.ours, sql);
        assert_eq!(rows, run(&pages.theirs, sql), "seed 0: {sql}");
        assert_eq!(rows.len(), count, "{sql}");
    }
}

/// The schema cookie is read once in a transaction, and again after what may have changed it.
#[test]
fn each_statement_runs_by_the_definitions_of_its_moment() {
    let pages = InPages::new(SCHEMA);
    let other = Connection::open(&pages.db).expect("it opens");
    let columns =
        |connection: &Connection| connection.query("SELECT * FROM k LIMIT 1").expect("it reads")[0].len();
    assert_eq!((columns(&pages.ours), columns(&other)), (3, 3));
    other.execute("ALTER TABLE k ADD COLUMN w").expect("it writes");
    assert_eq!((columns(&pages.ours), columns(&other)), (4, 4));
    pages.ours.execute("BEGIN").expect("it begins");
    assert_eq!(columns(&pages.ours), 4);
    let version = || pages.ours.query("PRAGMA schema_version").expect("it reads");
    let before = version();
    pages.ours.execute("SAVEPOINT s; ALTER TABLE k ADD COLUMN v").expect("it writes");
    assert_eq!((columns(&pages.ours), columns(&other)), (5, 4));
    assert_ne!(version(), before);
    pages.ours.execute("ROLLBACK TO s").expect("it goes back");
    assert_eq!(version(), before);
    assert_eq!(columns(&pages.ours), 4);
    pages.ours.execute("ALTER TABLE k ADD COLUMN u").expect("it writes");
    assert_eq!(columns(&pages.ours), 5);
    pages.ours.execute("ROLLBACK").expect("it goes back");
    assert_eq!((columns(&pages.ours), columns(&other)), (4, 4));

    // What a transaction did by definitions that another one has changed is a conflict.
    pages.ours.execute("BEGIN; INSERT INTO k(x, y) VALUES (-1, -1)").expect("it writes");
    assert_eq!(columns(&pages.ours), 4);
    other.execute("ALTER TABLE k ADD COLUMN t").expect("it writes");
    pages.ours.execute("INSERT INTO k(x, y) VALUES (-1, -2)").expect("it writes");
    assert!(pages.ours.execute("COMMIT").is_err());
    pages.ours.execute("ROLLBACK").ok();
    assert_eq!((columns(&pages.ours), columns(&other)), (5, 5));
}

/// Returns how many keys were looked up, and how many ranges were read, while a statement ran.
fn looks(pages: &InPages, sql: &str) -> u64 {
    let all = || {
        let stats = pages.db.table_stats().expect("it counts");
        stats.iter().map(|table| table.gets + table.scans).sum::<u64>()
    };
    let before = all();
    pages.execute(sql);
    all() - before
}

/// The entry of a row that changes is removed from an index unread, unless the index has an expression.
#[test]
fn entries_are_removed_unread() {
    let pages = InPages::new(SCHEMA);
    pages.execute(
        "CREATE INDEX t_b_c ON t(b DESC, c COLLATE NOCASE); CREATE INDEX t_expr ON t(b + 1);
        CREATE TABLE e(a INTEGER PRIMARY KEY, b TEXT NOT NULL UNIQUE); INSERT INTO e SELECT a, a FROM t",
    );
    let rows = pages.query("SELECT a FROM t") as u64;
    for (sql, most) in [
        ("UPDATE t SET b = b + 1", rows),
        ("UPDATE t SET b = b + 1, c = c || '.'", rows),
        ("DELETE FROM t WHERE a > 3000", rows),
        // New ones are looked for, because they have to be unique.
        ("UPDATE e SET b = b || 'x' WHERE a % 3 > 0", rows * 2 / 3),
        ("DELETE FROM e WHERE a % 3 > 0", 0),
    ] {
        let read = looks(&pages, sql);
        // Beside them, the statement reads the rows that it changes, in batches of 64 at most.
        assert!(read <= most + rows / 20, "{read} reads: {sql}");
        pages.query("SELECT b, c FROM t ORDER BY b DESC, c COLLATE NOCASE, a");
        pages.query("PRAGMA integrity_check");
    }
}

/// Look-ups that end in the page where the one before ended, or beyond all rows, read nothing: in a join, and in a
/// subquery for each row.
#[test]
fn look_ups_go_on_in_a_page() {
    let pages = InPages::new(SCHEMA);
    pages.execute(
        "CREATE TABLE few(y INTEGER PRIMARY KEY, z TEXT UNIQUE);
        INSERT INTO few SELECT DISTINCT b, 'few ' || b FROM t",
    );
    pages.db.checkpoint().expect("it checkpoints");
    let rows = pages.query("SELECT a FROM t") as u64;
    for sql in [
        "SELECT t.a FROM t CROSS JOIN few ON y = t.b",
        "SELECT t.a FROM t CROSS JOIN few ON z = 'few ' || t.b",
        "SELECT t.a, u.a FROM t CROSS JOIN t AS u ON u.a = t.a",
        "SELECT a, (SELECT z FROM few WHERE y = b) FROM t",
        "SELECT a, (SELECT y FROM few WHERE z = 'few ' || b) FROM t",
        "SELECT a FROM t WHERE NOT EXISTS (SELECT 1 FROM few WHERE y = a + 5000)",
        "SELECT a FROM t WHERE NOT EXISTS (SELECT 1 FROM few WHERE z = 'more ' || (a + 10000))",
    ] {
        let read = looks(&pages, sql);
        assert!(read < rows / 10, "{read} reads for {rows} look-ups: {sql}");
        pages.query(sql);
    }
}

/// Records that have equal keys can differ.
#[test]
fn an_entry_whose_key_stays_is_replaced() {
    for merged in [true, false] {
        let schema = "CREATE TABLE t(a INTEGER PRIMARY KEY, b, c TEXT COLLATE NOCASE, d AS (b * 2));
            CREATE INDEX t_b ON t(b); CREATE INDEX t_c ON t(c); CREATE INDEX t_d ON t(d, c);
            CREATE UNIQUE INDEX t_cb ON t(c, b);
            CREATE TABLE e(a INTEGER PRIMARY KEY, b TEXT NOT NULL UNIQUE COLLATE NOCASE, c);
            CREATE TABLE r(a INTEGER PRIMARY KEY, b REAL, c NUMERIC); CREATE INDEX r_b ON r(b DESC, c);
            CREATE TABLE k(x TEXT COLLATE NOCASE PRIMARY KEY, y, z) WITHOUT ROWID; CREATE INDEX k_y ON k(y);
            WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 300)
                INSERT INTO t SELECT i, i, 'row ' || i FROM n;
            INSERT INTO k SELECT c, b, a FROM t; INSERT INTO e SELECT a, c, b FROM t;
            INSERT INTO r SELECT a, CASE a % 4 WHEN 0 THEN a WHEN 1 THEN a / 3.0 WHEN 2 THEN 9007199254740993 + a
                ELSE '1e' || a END,
                CASE a % 3 WHEN 0 THEN a || '.0' WHEN 1 THEN x'00' || a ELSE 'r' || a END FROM t";
        let pages = if merged { InPages::new(schema) } else { InPages::unmerged(schema) };
        for sql in [
            "UPDATE t SET c = upper(c) WHERE a % 2 = 0",
            "UPDATE t SET b = b * 1.0 WHERE a % 3 = 0",
            "UPDATE t SET b = b, c = c",
            "UPDATE t SET c = iif(a % 5 = 0, lower(c), c), b = iif(a % 7 = 0, b + 500, b)",
            "UPDATE OR REPLACE t SET c = 'ROW 7', b = 7 WHERE a BETWEEN 100 AND 110",
            "INSERT INTO t(a, b, c) SELECT a, -b, upper(c) FROM t WHERE a < 50
                ON CONFLICT(a) DO UPDATE SET c = excluded.c",
            "UPDATE k SET x = upper(x), y = y * 1.0 WHERE z % 2 = 0",
            "REPLACE INTO k SELECT lower(x), y, z FROM k WHERE z % 3 = 0",
            "UPDATE r SET b = b + 1, c = c || 'x' WHERE a % 2 = 0",
            "UPDATE r SET b = CAST(b AS INTEGER) WHERE a % 3 > 0",
            "DELETE FROM r WHERE a % 5 = 2",
            "UPDATE e SET b = upper(b) WHERE a % 2 = 0",
            "UPDATE e SET b = b || 'x', c = c + 1 WHERE a % 3 = 0",
            "REPLACE INTO e SELECT a, lower(b), c FROM e WHERE a % 5 = 0",
            "DELETE FROM e WHERE a % 7 = 0",
            "DELETE FROM t WHERE a % 4 = 1",
            "DELETE FROM k WHERE y % 4 = 1",
        ] {
            pages.execute(sql);
            pages.query("SELECT b, typeof(b) FROM t INDEXED BY t_b WHERE b > -1000 ORDER BY b");
            pages.query("SELECT c FROM t INDEXED BY t_c WHERE c > '' ORDER BY c, a");
            pages.query("SELECT d, c FROM t INDEXED BY t_d WHERE d > -1000 ORDER BY d, c, a");
            pages.query("SELECT c, b, typeof(b) FROM t INDEXED BY t_cb WHERE c > '' ORDER BY c, b");
            pages.query("SELECT b FROM e ORDER BY b");
            pages.query("SELECT b, c, typeof(b), typeof(c) FROM r ORDER BY b DESC, c");
            pages.query("SELECT y, typeof(y), x FROM k INDEXED BY k_y WHERE y > 0 ORDER BY y, x");
            pages.query("PRAGMA integrity_check");
        }
    }
}
