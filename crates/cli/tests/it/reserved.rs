//! Tables that typed tables are made of are written to through typed tables alone: every door of the command and of the
//! server that writes records by a table's name refuses theirs, and `check` finds what was written past them.

use crate::common::{failure, pando, pando_with, text};
use crate::http::{Client, Server};
use std::path::Path;

const RESERVED: [&str; 4] = ["rows/catalog", "rows/1.1/f", "rows/1/1/by_name", "rows/new"];

/// A typed table of two rows, with an index.
fn make(dir: &str) {
    let import = ["import", dir, "f", "-", "--format", "csv", "--schema", "id int key, name text"];
    let with_index = [&import[..], &["--unique", "by_name=name"]].concat();
    text(pando_with(with_index, b"id,name\n1,a\n2,b\n"));
}

fn assert_sound(dir: &str) {
    let checked = text(pando(["check", dir, "--json"]));
    assert!(checked.contains("\"typed_rows\":2") && checked.contains("\"index_entries\":2"), "{checked}");
    assert!(checked.contains("\"problems\":0"), "{checked}");
}

#[test]
fn commands_refuse_reserved_tables() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("d").to_str().unwrap().to_owned();
    make(&dir);
    text(pando(["put", &dir, "free", "k", "v"]));
    // The address is not even asked: nothing listens there.
    for place in [&dir[..], "http://127.0.0.1:1/default"] {
        for name in RESERVED {
            let refused: [&[&str]; 7] = [
                &["put", place, name, "k", "v"],
                &["delete", place, name, "k"],
                &["rename", place, name, "other"],
                &["rename", place, "free", name],
                &["ttl", place, name, "1h"],
                &["import", place, name, "-", "--format", "csv"],
                &["import", place, name, "-", "--format", "csv", "--bulk"],
            ];
            for words in refused {
                let said = failure(pando_with(words, b"key,value\na,b\n"), 2);
                assert!(
                    said.contains("typed table") && said.contains("write rows with SQL"),
                    "{words:?}: {said}"
                );
            }
        }
    }
    // They can be read, and how they are laid out is no matter of rows.
    assert_eq!(text(pando(["scan", &dir, "rows/1.1/f", "--keys-only"])).lines().count(), 3);
    text(pando(["layout", &dir, "rows/1.1/f", "lsm"]));
    text(pando(["compression", &dir, "rows/1.1/f", "lz4"]));
    assert_sound(&dir);
}

/// A client with the typed table `f` in the database `t`.
fn served(dir: &Path, made: &str) -> (Server, Client) {
    std::fs::create_dir_all(dir).unwrap();
    make(made);
    let server = Server::start(dir);
    let client = server.connect();
    (server, client)
}

#[test]
fn a_server_refuses_reserved_tables() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("t").to_str().unwrap().to_owned();
    let (server, mut client) = served(home.path(), &dir);
    let database = "/v1/databases/t";
    let mut refused = |method: &str, path: &str, body: &[u8], headers: &[(&str, &str)]| {
        let reply = client.ask(method, path, headers, body);
        let said = reply.text();
        assert_eq!(reply.status, 403, "{method} {path}: {said}");
        assert!(said.contains("urn:pando:problem:reserved-table"), "{said}");
        assert!(said.contains("typed table"), "{said}");
    };
    let long = vec![b'x'; 2 << 20];
    for name in RESERVED {
        let table = format!("{database}/tables/{}", name.replace('/', "%2F"));
        for headers in [&[][..], &[("pando-transaction", "00")]] {
            refused("PUT", &table, b"", headers);
            refused("DELETE", &table, b"", headers);
            refused("PUT", &format!("{table}/entries/k"), b"v", headers);
            refused("PUT", &format!("{table}/entries/k"), &long, headers);
            refused("DELETE", &format!("{table}/entries/k"), b"", headers);
            refused("DELETE", &format!("{table}/entries?prefix="), b"", headers);
            refused("POST", &format!("{table}/entries"), b"{\"key\":\"a\",\"value\":\"b\"}\n", headers);
        }
        for change in ["{\"name\":\"mine\"}", "{\"ttl_ms\":1000}", "{\"layout\":\"lsm\",\"ttl_ms\":null}"] {
            refused("PATCH", &table, change.as_bytes(), &[]);
        }
        for operation in [
            "\"op\":\"put\",\"key\":\"k\",\"value\":\"v\"",
            "\"op\":\"insert\",\"key\":\"k\",\"value\":\"v\"",
            "\"op\":\"delete\",\"key\":\"k\"",
            "\"op\":\"delete_range\",\"prefix\":\"\"",
        ] {
            let free = "{\"op\":\"check\",\"table\":\"rows/catalog\",\"key\":\"x\",\"absent\":true}";
            let batch = format!("{{\"operations\":[{free},{{\"table\":\"{name}\",{operation}}}]}}");
            refused("POST", &format!("{database}/batch"), batch.as_bytes(), &[]);
        }
    }
    let mut status = |method: &str, path: &str, body: &str| {
        client.ask(method, &format!("{database}{path}"), &[], body.as_bytes()).status
    };
    assert_eq!(status("PUT", "/tables/free", ""), 201);
    assert_eq!(
        status("PATCH", "/tables/free", "{\"name\":\"rows/2.1/free\"}"),
        403,
        "nor may one become such"
    );
    assert_eq!(status("GET", "/tables/rows%2F1.1%2Ff/entries", ""), 200, "they can be read");
    assert_eq!(status("PATCH", "/tables/rows%2F1.1%2Ff", "{\"layout\":\"lsm\"}"), 200);
    let checked = client.ask("POST", &format!("{database}/check"), &[], b"");
    let checked = checked.text();
    assert!(checked.contains("\"sound\":true") && checked.contains("\"typed_rows\":2"), "{checked}");
    drop(server);
}

#[test]
fn check_finds_what_was_written_past_typed_tables() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("t").to_str().unwrap().to_owned();
    make(&dir);
    let db = pando::Database::open(&dir).unwrap();
    let rows = db.snapshot().unwrap().table("rows/1.1/f").unwrap().unwrap();
    db.delete(&rows, &[0x80, 0, 0, 0, 0, 0, 0, 1]).unwrap();
    db.close().unwrap();
    let said = pando(["check", &dir]);
    let stderr = String::from_utf8(said.stderr).unwrap();
    assert_eq!(said.status.code(), Some(3), "{stderr}");
    let problem =
        "problem: typed table \"f\", index \"by_name\": the entry \"\\x01a\\x00\\x00\" leads to no row";
    assert!(stderr.contains(problem) || stderr.contains(&problem.replace("\\x01", "")), "{stderr}");
    let server = Server::start(home.path());
    let checked = server.ask("POST", "/v1/databases/t/check", b"");
    let checked = checked.text();
    assert!(checked.contains("\"sound\":false") && checked.contains("\"problem_count\":1"), "{checked}");
    assert!(checked.contains("leads to no row"), "{checked}");
}
