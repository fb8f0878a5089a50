//! `pando sql`.
#![cfg(feature = "sql")]

use crate::common::{failure, pando, pando_with, text};

#[test]
fn statements_scripts_and_formats() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let script = "-- fruit\nCREATE TABLE fruit(id INTEGER PRIMARY KEY, name TEXT, price REAL, seed BLOB);\n\
                  INSERT INTO fruit(name, price, seed) VALUES('apple; red', 1.5, NULL),\n \
                  ('fig', 2, x'00ff');";
    assert_eq!(text(pando_with(["sql", path], script.as_bytes())), "");
    let all = "SELECT * FROM fruit";
    assert_eq!(
        text(pando(["sql", path, all])),
        "id  name        price  seed\n1   apple; red  1.5    null\n2   fig         2.0    0x00ff\n"
    );
    assert_eq!(
        text(pando(["sql", path, all, "--format", "ndjson"])),
        "{\"id\":1,\"name\":\"apple; red\",\"price\":1.5,\"seed\":null}\n\
         {\"id\":2,\"name\":\"fig\",\"price\":2.0,\"seed_hex\":\"00ff\"}\n"
    );
    let csv =
        ["sql", path, "SELECT id, name FROM fruit WHERE name LIKE 'f%'", "--format", "csv", "--read-only"];
    assert_eq!(text(pando(csv)), "id,name\n2,fig\n");
    let json = ["sql", path, "SELECT count(*) AS \"how \"\"many\" FROM fruit", "--json"];
    assert_eq!(text(pando(json)), "[\n{\"how \\\"many\":2}\n]\n");
    let plan = ["sql", path, "EXPLAIN QUERY PLAN SELECT name FROM fruit WHERE id > 1 ORDER BY id DESC"];
    assert_eq!(text(pando(plan)), "SEARCH fruit USING INTEGER PRIMARY KEY (rowid>?)\n");
}

#[test]
fn a_script_stops_at_its_first_error_and_names_the_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let script = "CREATE TABLE t(id INTEGER PRIMARY KEY, n INTEGER);\nINSERT INTO t VALUES(1, 1);\n\n\
                  INSERT INTO t VALUES('x', 2);\nINSERT INTO t VALUES(3, 3);";
    let said = failure(pando_with(["sql", path], script.as_bytes()), 1);
    assert_eq!(said, "error: line 4: datatype mismatch\n");
    assert_eq!(text(pando(["sql", path, "SELECT count(*) AS n FROM t", "--format", "csv"])), "n\n1\n");
    let said = failure(pando(["sql", path, "SELECT missing FROM t"]), 1);
    assert!(said.contains("no such column: missing"), "{said}");
    let said = failure(pando(["sql", path, "DELETE FROM t", "--read-only"]), 1);
    assert!(said.contains("read-only"), "{said}");
}

#[test]
fn sqlite_files_come_and_go() {
    let dir = tempfile::tempdir().unwrap();
    let (one, other) = (dir.path().join("one"), dir.path().join("other"));
    let (one, other) = (one.to_str().unwrap(), other.to_str().unwrap());
    let file = dir.path().join("file.db");
    let file = file.to_str().unwrap();
    text(pando([
        "sql",
        one,
        "CREATE TABLE t(a TEXT PRIMARY KEY, b)",
        "INSERT INTO t VALUES('x', 1), ('y', 'two')",
    ]));
    let output = pando(["sql", one, "--to-sqlite", file]);
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "exported 1 tables, 2 rows\n");
    let output = pando(["sql", other, "--from-sqlite", file]);
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "imported 1 tables, 2 rows\n");
    assert_eq!(text(pando(["sql", other, "SELECT * FROM t", "--format", "csv"])), "a,b\nx,1\ny,two\n");
    failure(pando(["sql", one, "--to-sqlite", file]), 1);
    std::fs::write(file, b"no database, and long enough to look like one").unwrap();
    let said = failure(pando(["sql", other, "--from-sqlite", file]), 3);
    assert!(said.contains("not a database"), "{said}");
}

#[test]
fn a_sqlite_file_that_does_not_exist_leaves_no_database() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let said = failure(pando(["sql", &at("new"), "--from-sqlite", &at("nofile")]), 1);
    assert!(said.contains("nofile"), "{said}");
    assert!(!dir.path().join("new").exists() && !dir.path().join("nofile").exists());
    // Nor does a file that SQLite cannot read.
    std::fs::write(dir.path().join("text"), "not a database, but long enough to be one".repeat(30)).unwrap();
    let said = failure(pando(["sql", &at("new"), "--from-sqlite", &at("text")]), 3);
    assert!(said.contains("not a database") && !said.contains("help:"), "{said}");
    assert!(!dir.path().join("new").exists());
    // A database that exists stays as it was.
    text(pando(["sql", &at("old"), "CREATE TABLE t(a)"]));
    failure(pando(["sql", &at("old"), "--from-sqlite", &at("nofile")]), 1);
    assert_eq!(text(pando(["sql", &at("old"), "SELECT count(*) AS n FROM t", "--format", "csv"])), "n\n0\n");
}
