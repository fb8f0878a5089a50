//! `pando layout`, and `--layout` of commands that make tables.

use crate::common::{failure, pando, text};
use pando::Database;

#[test]
fn a_table_is_made_switched_and_switched_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    text(pando(["put", path, "t", "k", "v", "--layout", "lsm"]));
    assert!(text(pando(["tables", path])).contains("lsm"));
    failure(pando(["put", path, "t", "k", "v", "--layout", "btree"]), 2);
    failure(pando(["put", path, "t", "k", "v", "--layout", "heap"]), 2);
    failure(pando(["layout", path, "nowhere", "lsm"]), 1);

    let db = Database::open(path).unwrap();
    let table = db.ensure_table("t").unwrap();
    for batch in 0..12u32 {
        db.write(|tx| {
            (0..500u32).try_for_each(|n| tx.put(&table, &(n * 12 + batch).to_be_bytes(), &[7; 40]))
        })
        .unwrap();
        db.checkpoint().unwrap();
    }
    db.close().unwrap();
    for (layout, lsm_tables) in [("btree", 0), ("lsm", 1), ("lsm", 1), ("btree", 0)] {
        text(pando(["layout", path, "t", layout]));
        assert!(text(pando(["tables", path])).contains(layout));
        let checked = text(pando(["check", path, "--json"]));
        assert!(checked.contains(&format!("\"lsm_tables\":{lsm_tables}")), "{layout}: {checked}");
        // The table's row in the catalog, and the key put first.
        assert!(checked.contains("\"records_in_pages\":6002"), "{layout}: {checked}");
        assert!(checked.contains("\"runs\":2"), "{layout}: {checked}");
        assert!(checked.contains("\"problems\":0"), "{layout}: {checked}");
    }
    assert_eq!(text(pando(["get", path, "t", "k"])), "v");
}
