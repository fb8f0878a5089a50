//! `pando explain`, run as a user does.

use crate::common::{failure, pando, pando_with, stdout, text};

#[test]
fn operations_are_explained() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let db = db.to_str().unwrap();
    for key in ["a", "b", "c"] {
        stdout(pando(["put", db, "t", key, "value"]));
    }
    stdout(pando(["checkpoint", db]));
    let get = text(pando(["explain", db, "get", "t", "b", "--json"]));
    assert!(get.contains("a value of 5 bytes") && get.contains("read from the file"), "{get}");
    let again = text(pando(["explain", db, "get", "t", "b", "--repeat", "2"]));
    assert!(again.contains("in memory") && !again.contains("read from the file"), "{again}");
    let absent = text(pando(["explain", db, "get", "t", "zz"]));
    assert!(absent.contains("it is absent"), "{absent}");
    let scan = text(pando(["explain", db, "scan", "t", "--limit", "2", "--format", "csv"]));
    assert!(scan.contains("\"1 records, "), "{scan}");
    let put = text(pando(["explain", db, "put", "t", "d", "4"]));
    assert!(put.contains("1 blocks appended, 1 flushes"), "{put}");
    let lines = pando_with(["explain", db, "commit", "t", "--durability", "buffered"], b"e\t5\nf\t6\n");
    assert!(text(lines).contains("2 records"));
    assert_eq!(text(pando(["get", db, "t", "f"])), "6");
    failure(pando_with(["explain", db, "commit", "t"], b"no tab\n"), 2);
    failure(pando(["explain", db, "get", "absent", "k"]), 1);
}
