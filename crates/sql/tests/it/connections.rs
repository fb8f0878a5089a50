//! Many connections at once: what they cost the database.

use pando_sql::{Connection, Sql};
use std::time::Instant;

/// A thousand connections, each used, take nothing of the database's memory beyond the first one, and open in what is
/// microseconds each in a release build: a bound here, wide enough for a slow machine.
#[test]
fn a_thousand_connections_take_no_cache() {
    let dir = tempfile::tempdir().unwrap();
    let db = pando::Database::create(dir.path()).unwrap();
    let sql = Sql::new(db.clone());
    let first = sql.connect().unwrap();
    first.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT); CREATE INDEX by_v ON t(v)").unwrap();
    let fill = "INSERT INTO t WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 20000)
                SELECT i, 'v' || i FROM n";
    first.execute(fill, &[]).unwrap();
    db.checkpoint().unwrap();
    let look = |connection: &Connection| {
        for id in [1i64, 10_000, 20_000] {
            let rows = connection.query("SELECT id FROM t WHERE v = 'v' || ?", &[id.into()]).unwrap();
            assert_eq!(rows, [[pando_sql::Value::from(id)]]);
        }
    };
    look(&first);
    look(&sql.connect().unwrap());
    let held = || {
        let stats = db.stats().unwrap();
        (stats.pool_bytes, stats.pool_faults, stats.memtable_bytes, stats.readers)
    };
    let before = held();
    let begun = Instant::now();
    let all: Vec<_> = (0..1000).map(|_| sql.connect().unwrap()).collect();
    let opened = begun.elapsed();
    all.iter().for_each(look);
    assert_eq!(held(), before);
    assert!(opened.as_millis() < 5000, "{opened:?}");
    drop((all, first));
    db.close().unwrap();
}
