//! `pando advise`.

use crate::common::{failure, pando, text};
use pando::{Advice, Database, Layout};

/// A table that is only written and outgrows the memory, and one that is only read.
#[test]
fn tables_of_opposite_use_want_opposite_layouts() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let db = Database::builder().memory_bytes(2 << 20).create(path).unwrap();
    let (read, written) = (db.ensure_table("read").unwrap(), db.ensure_table("written").unwrap());
    db.bulk_load(&read, (0..2_000u32).map(|n| Ok((n.to_be_bytes(), [1; 40])))).unwrap();
    db.bulk_load(&written, (0..120_000u32).map(|n| Ok((n.to_be_bytes(), [1; 90])))).unwrap();
    db.checkpoint().unwrap();
    for round in 0..20u32 {
        let key = |n: u32| (round * 7919 + n * 1_201) % 120_000;
        db.write(|tx| (0..100).try_for_each(|n| tx.put(&written, &key(n).to_be_bytes(), &[2; 90]))).unwrap();
    }
    let snapshot = db.snapshot().unwrap();
    for n in 0..3_000u32 {
        snapshot.get(&read, &(n % 2_000).to_be_bytes()).unwrap();
    }
    drop(snapshot);
    let advice = db.advise(None).unwrap();
    let advised = |of: &Advice| (of.table.clone(), of.advised);
    let expected = [("read".into(), Some(Layout::BTree)), ("written".into(), Some(Layout::Lsm))];
    assert_eq!(advice.iter().map(advised).collect::<Vec<_>>(), expected, "{advice:#?}");
    assert!(advice[1].space_amplification > 1.0 && advice[1].switch_bytes > 120_000 * 94, "{advice:#?}");
    assert_eq!((advice[0].operations.gets, advice[0].operations.writes), (3_000, 0));
    db.close().unwrap();

    let shown = text(pando(["advise", path, "--memory", "2M"]));
    assert!(shown.contains("read: say how it is used") && shown.contains("  as lsm: a get"), "{shown}");
    let shown = text(pando(["advise", path, "--memory", "2M", "--writes", "1000000", "--json"]));
    let tables: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((&tables[1]["table"], &tables[1]["advised"]), (&"written".into(), &"lsm".into()), "{shown}");
    let shown = text(pando(["advise", path, "--reads", "1000000"]));
    assert!(shown.contains("read: btree is right"), "{shown}");
    failure(pando(["advise", path, "--reads", "many"]), 2);
    failure(pando(["advise", "/nowhere/at/all"]), 1);
}
