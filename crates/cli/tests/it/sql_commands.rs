//! The commands of `pando sql` that begin with a dot.
#![cfg(feature = "sql")]

use crate::common::{failure, pando, pando_with, text};
use crate::http::Server;
use std::fs;
use std::path::Path;

/// A database with a table, a view, an index and a trigger.
const SHOP: &str = "\
CREATE TABLE fruit(id INTEGER PRIMARY KEY, name TEXT UNIQUE, price REAL, seed BLOB);
CREATE TABLE log(what);
CREATE INDEX by_price ON fruit(price);
CREATE VIEW cheap AS SELECT name FROM fruit WHERE price < 2;
CREATE TRIGGER noted AFTER INSERT ON fruit BEGIN INSERT INTO log VALUES(new.name); END;
INSERT INTO fruit VALUES(1, 'apple', 1.5, NULL), (2, 'O''Neill''s', -0.1, x'00ff');";

fn shop(dir: &Path) -> String {
    let path = dir.join("shop").to_str().unwrap().to_owned();
    text(pando_with(["sql", &path], SHOP.as_bytes()));
    path
}

fn script(path: &str, script: &str) -> String {
    text(pando_with(["sql", path], script.as_bytes()))
}

#[test]
fn tables_indexes_and_definitions_are_listed() {
    let dir = tempfile::tempdir().unwrap();
    let path = shop(dir.path());
    assert_eq!(text(pando(["sql", &path, ".tables"])), "table\ncheap\nfruit\nlog\n");
    assert_eq!(text(pando(["sql", &path, ".tables %u%"])), "table\nfruit\n");
    assert_eq!(
        text(pando(["sql", &path, ".tables", "--json"])),
        "[\n{\"table\":\"cheap\"},\n{\"table\":\"fruit\"},\n{\"table\":\"log\"}\n]\n"
    );
    assert_eq!(script(&path, ".indices fruit\n"), "index\nby_price\nsqlite_autoindex_fruit_1\n");
    let schema = script(&path, ".sch fruit");
    assert!(schema.starts_with("CREATE TABLE fruit(id INTEGER PRIMARY KEY"), "{schema}");
    assert!(schema.contains("CREATE INDEX by_price") && schema.contains("END;\n"), "{schema}");
    assert!(!schema.contains("log(what)"), "{schema}");
}

#[test]
fn each_mode_writes_rows_as_sqlite_does() {
    let dir = tempfile::tempdir().unwrap();
    let path = shop(dir.path());
    let select = "SELECT id, name, seed FROM fruit;";
    let cases = [
        ("list", "1|apple|\n2|O'Neill's|\0\u{fffd}\n"),
        ("tabs", "1\tapple\t\n2\tO'Neill's\t\0\u{fffd}\n"),
        ("csv", "1,apple,\n2,O'Neill's,\0\u{fffd}\n"),
        ("quote", "1,'apple',NULL\n2,'O''Neill''s',X'00ff'\n"),
        (
            "insert f",
            "INSERT INTO \"f\" VALUES(1,'apple',NULL);\n\
             INSERT INTO \"f\" VALUES(2,'O''Neill''s',X'00ff');\n",
        ),
        ("line", "  id = 1\nname = apple\nseed = \n\n  id = 2\nname = O'Neill's\nseed = \0\u{fffd}\n"),
        ("column", "id  name       seed\n1   apple      null\n2   O'Neill's  0x00ff\n"),
        (
            "markdown",
            "| id | name      | seed   |\n\
             |----|-----------|--------|\n\
             | 1  | apple     |        |\n\
             | 2  | O'Neill's | 0x00ff |\n",
        ),
        (
            "table",
            "+----+-----------+--------+\n\
             | id | name      | seed   |\n\
             +----+-----------+--------+\n\
             | 1  | apple     |        |\n\
             | 2  | O'Neill's | 0x00ff |\n\
             +----+-----------+--------+\n",
        ),
        (
            "box",
            "┌────┬───────────┬────────┐\n\
             │ id │ name      │ seed   │\n\
             ├────┼───────────┼────────┤\n\
             │ 1  │ apple     │        │\n\
             │ 2  │ O'Neill's │ 0x00ff │\n\
             └────┴───────────┴────────┘\n",
        ),
    ];
    for (mode, expected) in cases {
        let output = pando_with(["sql", &path], format!(".mode {mode}\n{select}").as_bytes());
        assert!(output.status.success(), "{mode}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{mode}");
        let none = script(&path, &format!(".mode {mode}\nSELECT 1 AS one WHERE 0;"));
        assert_eq!(none, "", "{mode}");
    }
    let set = ".mode list\n.headers on\n.nullvalue -\n.separator ', '\n";
    assert_eq!(script(&path, &format!("{set}SELECT 1 AS a, NULL AS b;")), "a, b\n1, -\n");
    let refused = failure(pando(["sql", &path, ".mode fancy"]), 2);
    assert!(refused.contains("column, table, box"), "{refused}");
}

#[test]
fn a_dump_makes_the_same_database_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = shop(dir.path());
    let more = "CREATE TABLE odd(a INTEGER PRIMARY KEY AUTOINCREMENT, \"b \"\"c\" TEXT, d AS (a + 1), e);
        INSERT INTO odd(a, \"b \"\"c\", e) VALUES(-9223372036854775808, 'two\nlines', 0.1 + 0.2),
            (9, 'nul' || char(0) || 'x', 9e999), (8, NULL, -9e999), (7, '', 5e-324), (6, 'é;--', 1e300);
        DELETE FROM odd WHERE a = 9; INSERT INTO odd(a, e) VALUES(2, 123456789.123456789);
        CREATE TABLE pair(a, b, PRIMARY KEY(b, a)) WITHOUT ROWID; INSERT INTO pair VALUES('x', 1), ('y', x'');
        CREATE VIRTUAL TABLE words USING fts5(text, tag UNINDEXED);
        INSERT INTO words(rowid, text, tag) VALUES(7, 'a quick fox', 1), (9, 'a slow dog', NULL);
        CREATE VIRTUAL TABLE fruits USING fts5(name, content = 'fruit', content_rowid = 'id');
        INSERT INTO fruits(fruits) VALUES('rebuild');
        CREATE VIRTUAL TABLE boxes USING rtree(id, x0, x1); INSERT INTO boxes VALUES(1, 0.5, 2), (3, -1, 1);";
    script(&path, more);
    let dump = text(pando(["sql", &path, ".dump"]));
    assert!(
        dump.starts_with("PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\n") && dump.ends_with("COMMIT;\n")
    );
    let copy = dir.path().join("copy").to_str().unwrap().to_owned();
    script(&copy, &dump);
    let all =
        "SELECT type, name, sql FROM sqlite_schema ORDER BY name; SELECT * FROM fruit; SELECT * FROM log;
        SELECT *, typeof(e), hex(\"b \"\"c\") FROM odd; SELECT * FROM pair; SELECT * FROM sqlite_sequence;
        SELECT rowid, * FROM words WHERE words MATCH 'fox';
        SELECT rowid FROM fruits WHERE fruits MATCH 'apple'; SELECT * FROM boxes WHERE x1 > 1;";
    let quoted = |path: &str| script(path, &format!(".mode quote\n{all}"));
    assert_eq!(quoted(&copy), quoted(&path));
    assert!(quoted(&copy).contains("7,'a quick fox',1"));
    // The copy is in order, and its index of words can be written.
    script(&copy, "INSERT INTO words(text) VALUES('another fox');");
    let count = "SELECT count(*) FROM words WHERE words MATCH 'fox'";
    assert_eq!(text(pando(["sql", &copy, count, "--format", "csv"])), "count(*)\n2\n");
    assert_eq!(
        text(pando(["sql", &copy, "PRAGMA integrity_check", "--format", "csv"])),
        "integrity_check\nok\n"
    );
    // What a dump cannot keep is no part of it.
    script(&path, "CREATE VIRTUAL TABLE bare USING fts5(text, content='');");
    let output = pando(["sql", &path, ".dump"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code() == Some(1) && output.stdout.ends_with(b"ROLLBACK; -- the dump has failed\n")
    );
    assert!(said.contains("\"bare\"") && said.contains("--to-sqlite"), "{said}");
    let one = script(&path, ".dump log");
    assert_eq!(one.lines().filter(|line| line.starts_with("CREATE")).count(), 1, "{one}");
}

#[test]
fn an_import_makes_a_table_or_fills_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = shop(dir.path());
    let file = dir.path().join("towns.csv");
    fs::write(&file, "name,people\n\"Ulm, Danube\",126000\nBern,\n").unwrap();
    let file = file.to_str().unwrap();
    script(&path, &format!(".import --csv \"{file}\" towns\n"));
    let all = "SELECT name, people, typeof(people) FROM towns;";
    let towns = format!(".mode quote\n{all}");
    assert_eq!(script(&path, &towns), "'Ulm, Danube',126000,'integer'\n'Bern','','text'\n");
    // It exists now, so the first line is passed over, and columns convert texts.
    script(&path, "CREATE TABLE numbers(name TEXT, people INTEGER);");
    script(&path, &format!(".mode csv\n.import --skip 1 {file} numbers\n"));
    let numbers = "SELECT people FROM numbers WHERE typeof(people) = 'integer'";
    assert_eq!(text(pando(["sql", &path, numbers, "--format", "csv"])), "people\n126000\n");
    // The second row fails, so none is inserted.
    let lines = dir.path().join("lines");
    fs::write(&lines, "3|fig|1|\n3|again|2|\n").unwrap();
    let said = failure(pando(["sql", &path, &format!(".import {} fruit", lines.display())]), 1);
    assert!(said.contains("lines:2: ") && said.contains("fruit.id"), "{said}");
    assert_eq!(text(pando(["sql", &path, "SELECT count(*) AS n FROM fruit", "--format", "csv"])), "n\n2\n");
    // Too few and too many values.
    fs::write(&lines, "1|2\n3\n4|5|6\n").unwrap();
    let output = pando(["sql", &path, "CREATE TABLE two(a, b)", &format!(".import {} two", lines.display())]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.contains("lines:2: 1 values for 2 columns"), "{said}");
    assert_eq!(script(&path, ".mode quote\nSELECT * FROM two;"), "'1','2'\n'3',NULL\n'4','5'\n");
}

/// The parser of CSV takes all that follows an open quote for one value, and passes over empty lines.
#[test]
fn an_import_refuses_an_open_quote_and_keeps_empty_lines() {
    let dir = tempfile::tempdir().unwrap();
    let path = shop(dir.path());
    let file = dir.path().join("lines.csv");
    let import = |text: &[u8], table: &str| {
        fs::write(&file, text).unwrap();
        pando(["sql", &path, &format!(".import --csv {} {table}", file.display())])
    };
    let said = failure(import(b"a,b\n1,\"unclosed\n2,x\n3,y\n", "open"), 1);
    assert!(said.contains("lines.csv: CSV line 2, column 3") && said.contains("never closed"), "{said}");
    let said = failure(import(b"a\n\"1\"2\n", "open"), 1);
    assert!(said.contains("more text after its closing quote"), "{said}");
    let said = failure(import(b"\xff\xfea\0", "open"), 1);
    assert!(said.contains("lines.csv: the input is UTF-16"), "{said}");
    assert!(!script(&path, ".tables").contains("open"));
    // In a table of one column, an empty line is an empty text.
    for (table, lines) in
        [("one", "\u{feff}a\n1\n\n\"x\n\n\"\n\n"), ("two", "a\r\n1\r\n\r\n\"x\n\n\"\r\n\r\n")]
    {
        text(import(lines.as_bytes(), table));
        let all = script(&path, &format!(".mode quote\nSELECT hex(a) FROM {table};"));
        assert_eq!(all, "'31'\n''\n'780A0A'\n''\n", "{table}");
    }
    text(import(b"a,b\n1,2\n\n3,4\n", "wide"));
    assert_eq!(script(&path, ".mode list\nSELECT * FROM wide;"), "1|2\n3|4\n");
    // The line of a failure counts the empty lines before it.
    script(&path, "CREATE TABLE few(a CHECK(a <> '3'));");
    let said = failure(import(b"\n1\n\n3\n", "few"), 1);
    assert!(said.contains("lines.csv:4: "), "{said}");
}

#[test]
fn scripts_read_files_write_files_and_end_where_they_are_set_to() {
    let dir = tempfile::tempdir().unwrap();
    let path = shop(dir.path());
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    fs::write(at("inner"), ".mode list\nSELECT 1;\n.quit\nSELECT 2;\n").unwrap();
    assert_eq!(script(&path, &format!(".print 'a  b' c\n.read {}\nSELECT 3;", at("inner"))), "a  b c\n1\n");
    let lines = script(
        &path,
        &format!(
            ".mode list\n.once {0}\nSELECT 1;\nSELECT 2;\n\
             .output {1}\n.tables\nSELECT 3;\n.output\nSELECT 4;",
            at("once"),
            at("more")
        ),
    );
    assert_eq!(lines, "2\n4\n");
    assert_eq!(fs::read_to_string(at("once")).unwrap(), "1\n");
    assert_eq!(fs::read_to_string(at("more")).unwrap(), "cheap\nfruit\nlog\n3\n");
    // A script goes on after a failure if it is to; the exit code says that something failed.
    let output = pando_with(["sql", &path], b".bail off\n.mode list\nSELECT missing;\nSELECT 5;\n");
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(1), &b"5\n"[..]));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("line 3: no such column: missing"), "{said}");
    // A file that reads itself ends.
    fs::write(at("loop"), format!(".read {}\n", at("loop"))).unwrap();
    assert!(failure(pando(["sql", &path, &format!(".read {}", at("loop"))]), 1).contains("25 files"));
    assert_eq!(script(&path, ".changes on\n.mode list\nDELETE FROM log;"), "changes: 2\n");
    assert!(script(&path, ".eqp on\nSELECT name FROM fruit WHERE id = 1;").starts_with("SEARCH fruit"));
    let echoed = script(&path, ".mode list\n.echo on\nSELECT 6;\n.tables l%");
    assert_eq!(echoed, "SELECT 6\n6\n.tables l%\nlog\n");
}

#[test]
fn a_server_has_the_same_commands_but_for_those_of_one_transaction() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("served"));
    let url = format!("http://{}/shop", server.address);
    text(pando(["put", &url, "other", "key", "value"]));
    text(pando_with(["sql", &url], SHOP.as_bytes()));
    assert_eq!(script(&url, ".mode list\n.tables f%\nSELECT count(*) FROM fruit;"), "fruit\n2\n");
    assert_eq!(script(&url, ".schema log"), "CREATE TABLE log(what);\n");
    assert_eq!(script(&url, ".changes on\nDELETE FROM log;"), "changes: 2\n");
    assert!(failure(pando(["sql", &url, ".dump"]), 2).contains("pando backup"));
    assert!(failure(pando(["sql", &url, ".import x y"]), 2).contains("pando import"));
}

#[test]
fn what_is_no_command_is_refused_with_advice() {
    let dir = tempfile::tempdir().unwrap();
    let path = shop(dir.path());
    for (command, expected) in [
        (".nothing", ".help lists the commands"),
        (".backup x", "pando backup DIR TARGET"),
        (".s", "can be .schema or .separator"),
        (".timer maybe", "usage: .timer on|off"),
        (".import x", "usage: .import"),
        (".print 'open", "is not closed"),
    ] {
        let said = failure(pando(["sql", &path, command]), 2);
        assert!(said.contains(expected), "{command}: {said}");
    }
    let help = script(&path, ".help");
    assert!(help.contains(".dump [PATTERN]") && help.contains("markdown"), "{help}");
    assert!(script(&path, ".show").contains("mode: column\n"));
}
