//! Seeks in an index whose batches are read ahead.

use crate::support::Both;

/// Looks for whole keys of an index one after another, so that a seek reads the entries after the one that it finds.
#[test]
fn whole_keys_are_scanned_in_both_directions() {
    let both = Both::new();
    both.execute(
        "CREATE TABLE q(a, b);
         CREATE INDEX qi ON q(a, b);
         CREATE TABLE k(a, b, c, PRIMARY KEY(a, b)) WITHOUT ROWID;
         WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < 300)
            INSERT INTO q SELECT 7, i FROM r;
         INSERT INTO k SELECT a, b, rowid FROM q",
    );
    for step in [1, 2, 3, 7] {
        let list = (1..300).step_by(step).map(|i| i.to_string()).collect::<Vec<_>>().join(",");
        let wanted = (1..300).step_by(step).count();
        for order in ["ASC", "DESC"] {
            let rowids = format!("WHERE a = 7 AND rowid IN ({list}) ORDER BY rowid {order}");
            for sql in [
                format!("SELECT rowid FROM q {rowids}"),
                format!("SELECT rowid, b FROM q INDEXED BY qi {rowids}"),
                format!("SELECT b, c FROM k WHERE a = 7 AND b IN ({list}) ORDER BY b {order}"),
            ] {
                for begin in ["", "BEGIN", "ROLLBACK"] {
                    both.execute(begin);
                    assert_eq!(both.query(&sql), wanted, "{sql}");
                }
            }
            let sql = format!("SELECT count(*), count(DISTINCT rowid) FROM (SELECT rowid FROM q {rowids})");
            both.query(&sql);
        }
    }
    // The index has the rowid after its only column.
    both.execute("DROP INDEX qi; CREATE INDEX qi ON q(a)");
    let list = (1..300).step_by(2).map(|i| i.to_string()).collect::<Vec<_>>().join(",");
    for order in ["ASC", "DESC"] {
        let sql =
            format!("SELECT b FROM q INDEXED BY qi WHERE a = 7 AND rowid IN ({list}) ORDER BY rowid {order}");
        assert_eq!(both.query(&sql), 150);
    }
}
