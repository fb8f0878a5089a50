//! A server that was built without SQL says so where SQL is asked for, and serves everything else: documents too.
//! `cargo test -p pando-db-cli --no-default-features --test it serve_without_sql::` runs it.
#![cfg(not(feature = "sql"))]

use crate::http::Server;

#[test]
fn sql_is_501_and_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    for body in [&br#"{"sql": "SELECT 1"}"#[..], b"", b"no JSON"] {
        let reply = server.ask("POST", "/v1/databases/default/sql", body);
        assert_eq!(reply.status, 501, "{reply:?}");
        assert_eq!(reply.header("content-type"), Some("application/problem+json"));
        assert!(reply.text().contains("urn:pando:problem:unsupported"), "{}", reply.text());
        assert!(reply.text().contains("with its feature `sql`"), "{}", reply.text());
    }
    assert_eq!(server.ask("GET", "/v1/databases/default/sql", b"").status, 405);
    let document = server.ask("GET", "/openapi.json", b"");
    assert!(document.text().contains("The server was built without SQL"));
    // The dashboard asks this before it offers a box for statements.
    assert!(server.ask("GET", "/v1/server", b"").text().contains(r#""sql":false"#));
}

#[test]
fn the_command_says_what_to_do() {
    for words in [&["sql"][..], &["sql", "--format", "json", "DIR", "SELECT 1"]] {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_pando")).args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("built without SQL"), "{output:?}");
    }
}

#[test]
fn documents_and_records_need_no_sql() {
    let dir = tempfile::tempdir().unwrap();
    let db = pando::Database::create(dir.path().join("default")).unwrap();
    let definition = rows::Definition::new("fruit")
        .column(rows::Column::new("id", rows::ColumnType::Int))
        .column(rows::Column::new("name", rows::ColumnType::Text))
        .key(["id"]);
    db.write(|tx| rows::DynamicTable::create(tx, &definition).map(drop)).unwrap();
    drop(db);
    let server = Server::start(dir.path());
    let fruit = "/v1/databases/default/documents/fruit";
    assert_eq!(server.ask("PUT", &format!("{fruit}/1"), br#"{"name": "sloe"}"#).status, 204);
    let reply = server.ask("GET", &format!("{fruit}/1"), b"");
    assert_eq!((reply.status, reply.text().trim()), (200, r#"{"id":1,"name":"sloe"}"#));
    assert!(server.ask("GET", "/v1/databases/default/documents", b"").text().contains("fruit"));
    assert_eq!(server.ask("PUT", "/v0/entity?id=k", b"v").status, 201);
}

#[test]
fn hrana_is_501_in_the_form_of_its_clients() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    for (method, path) in [("GET", "v3"), ("POST", "v2/pipeline"), ("POST", "v3/cursor")] {
        let reply = server.ask(method, &format!("/v1/databases/default/hrana/{path}"), b"{}");
        assert_eq!((reply.status, reply.header("content-type")), (501, Some("application/json")), "{path}");
        assert!(reply.text().contains(r#""code":"UNSUPPORTED""#), "{}", reply.text());
    }
}
