//! Typed tables in and out: what was exported makes the same rows; a failed import names its place and leaves nothing.

use crate::common::{failure, pando, pando_with, stdout, text};
use pando::Database;
use rows::{DynamicRow, DynamicTable, KeyRange};
use std::path::Path;

const SCHEMA: &str = "id int key, day timestamp key desc, name text null, size float default 1.5, \
                      raw bytes null, other any, tags json null";

fn word(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn load(dir: &Path, table: &str) -> Vec<DynamicRow> {
    let db = Database::open(dir).unwrap();
    let snapshot = db.snapshot().unwrap();
    assert_eq!(rows::check(&snapshot, |_| {}).unwrap().problems, []);
    let Some(table) = DynamicTable::open(&snapshot, table).unwrap() else { return Vec::new() };
    table.scan(&snapshot, &KeyRange::all()).unwrap().collect::<pando::Result<_>>().unwrap()
}

#[test]
fn what_was_exported_makes_the_same_rows() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let lines = [
        r#"{"id": 2, "day": "2024-02-29", "name": "", "other": 7}"#,
        r#"{"id": 1, "day": "2024-02-28T12:00:00.5Z", "raw": "00ff", "other": "12", "tags": {"a": [1]}}"#,
        r#"{"id": 1, "day": 5, "name": "\\N", "size": 0.1, "other": {"bytes": "ff"}, "tags": null}"#,
        r#"{"id": -9007199254740993, "day": "1969-12-31", "name": "a,\"b\"\nc", "other": 2.5}"#,
    ];
    let args = ["import", word(&db), "t", "-", "--format", "ndjson", "--schema", SCHEMA];
    let args = [&args[..], &["--index", "by_name=name, id desc", "--unique", "one=other"]].concat();
    let said = text(pando_with(args, lines.join("\n").as_bytes()));
    assert!(said.starts_with("4 rows in "), "{said}");
    let rows = load(&db, "t");
    assert_eq!(rows.len(), 4);
    for format in ["csv", "ndjson"] {
        let exported = stdout(pando(["export", word(&db), "t", "--typed", "--format", format]));
        let other = dir.path().join(format);
        let args = ["import", word(&other), "t", "-", "--format", format, "--schema", SCHEMA];
        stdout(pando_with(args, &exported));
        assert_eq!(load(&other, "t"), rows, "{format}");
        // Again into the table that is there: refused, unless it is to be overwritten.
        let args = ["import", word(&other), "t", "-", "--format", format, "--typed"];
        let said = failure(pando_with(args, &exported), 1);
        assert!(said.contains("line ") && said.contains("already"), "{said}");
        stdout(pando_with(args.iter().chain(&["--upsert"]), &exported));
        assert_eq!(load(&other, "t"), rows, "{format}");
    }
}

#[test]
fn a_failed_import_names_its_place_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let schema = "id uint key, age int null, email text";
    let csv = |rows: &str, options: &[&str]| {
        let args = ["import", word(&db), "people", "-", "--format", "csv", "--schema", schema];
        let unique = ["--unique", "by_email=email nocase"];
        pando_with(args.iter().chain(&unique).chain(options), rows.as_bytes())
    };
    let good = "id,age,email\n1,30,a@x\n2,,b@x\n";
    for (rows, says) in [
        ("3,abc,c@x\n", "CSV line 4, column \"age\": \"abc\" is no int"),
        ("-3,1,c@x\n", "CSV line 4, column \"id\": \"-3\" is no uint"),
        ("3,1\n", "line: 4"),
        ("2,1,c@x\n", "CSV line 4: table \"people\" has a row with (2) already"),
        ("3,1,A@X\n", "by_email"),
        (",1,c@x\n", "\"id\" is null"),
        ("3,1,\\N\n", "\"email\" is null"),
    ] {
        let said = failure(csv(&format!("{good}{rows}"), &[]), 1);
        assert!(said.contains(says), "{said}");
        assert_eq!(load(&db, "people"), Vec::<DynamicRow>::new(), "{rows}");
    }
    let said = failure(csv("id,age,mail\n", &[]), 1);
    assert!(said.contains("\"mail\" in table \"people\", which has id, age, email"), "{said}");
    for empty in ["", "\n\n"] {
        let said = failure(csv(empty, &[]), 1);
        assert!(said.contains("the CSV input has no header"), "{said}");
    }
    let said = failure(csv("id,age\n1,2\n", &[]), 1);
    assert!(said.contains("column \"email\": is missing"), "{said}");
    // In chunks, those before stay.
    let said = failure(csv(&format!("{good}3,x,c@x\n"), &["--chunk", "2"]), 1);
    assert!(said.contains("2 rows, through line 3, were imported before"), "{said}");
    assert_eq!(load(&db, "people").len(), 2);
    let args = ["import", word(&db), "people", "-", "--format", "ndjson", "--typed"];
    for (line, says) in [
        ("{\"id\":3,\"email\":7}", "NDJSON line 2, column \"email\": 7 is no text"),
        ("{\"id\":3,\"mail\":\"\"}", "NDJSON line 2: there is no column \"mail\""),
        ("{\"id\":3", "NDJSON line 2: the line ends in the middle"),
        ("[]", "NDJSON line 2"),
    ] {
        let said = failure(pando_with(args, format!("{{\"id\":9,\"email\":\"z\"}}\n{line}\n").as_bytes()), 1);
        assert!(said.contains(says), "{said}");
        assert_eq!(load(&db, "people").len(), 2);
    }
    let none = dir.path().join("none");
    let said =
        failure(pando_with(["import", word(&none), "t", "-", "--format", "csv", "--typed"], b"a\n"), 2);
    assert!(said.contains("--schema") && !none.exists(), "{said}");
    let args = ["import", word(&db), "t", "-", "--format", "csv", "--schema", "id integer key"];
    assert!(failure(pando_with(args, b"id\n"), 2).contains("\"integer\""));
}

/// SQL has no type for truth: a column that is declared as BOOLEAN has numbers.
#[test]
fn truth_in_a_table_of_sql_is_a_number() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    text(pando(["sql", word(&db), "CREATE TABLE t(id INTEGER PRIMARY KEY, done BOOLEAN)"]));
    for (format, rows) in [
        ("csv", "id,done\n1,true\n2,false\n"),
        ("ndjson", "{\"id\":3,\"done\":true}\n{\"id\":4,\"done\":false}\n"),
    ] {
        let args = ["import", word(&db), "t", "-", "--format", format, "--typed"];
        assert!(pando_with(args, rows.as_bytes()).status.success(), "{format}");
    }
    let all = "SELECT group_concat(id || ' ' || done || ' ' || typeof(done)) AS found FROM t";
    let found = text(pando(["sql", word(&db), all, "--format", "csv"]));
    assert_eq!(found, "found\n\"1 1 integer,2 0 integer,3 1 integer,4 0 integer\"\n");
}
