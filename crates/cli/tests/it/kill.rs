//! The demonstration and the killing, in short.

use crate::common::{pando, text};

#[test]
fn the_small_demonstration_holds_and_cleans_up() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("demo");
    let said = text(pando(["demo", "--small", "--dir", dir.to_str().unwrap()]));
    for expected in ["verified after           all 600 files", "every acknowledged one", "Everything held"] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    let database = dir.join("database");
    let tables = text(pando(["tables", database.to_str().unwrap(), "--format", "csv"]));
    assert!(tables.contains("files,btree,none,none,600"), "{tables}");
}

#[test]
fn nothing_acknowledged_is_lost_in_three_kills() {
    let said = text(pando(["kills", "--rounds", "3", "--seed", "5"]));
    assert!(said.starts_with("3 kills in "), "{said}");
}
