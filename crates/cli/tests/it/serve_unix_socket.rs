//! `pando serve --unix-socket`: a second way in, for programs on the same machine.

use crate::common::pando;
use crate::http::Server;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Sends a request over the socket, on a connection of its own, and returns the response.
fn ask(socket: &Path, method: &str, target: &str, body: &str) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    let head = format!("{method} {target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
    write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

#[test]
fn both_ways_lead_to_the_same_data() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("pando.sock");
    let server = Server::start_with(&dir.path().join("data"), &["--unix-socket", socket.to_str().unwrap()]);
    assert!(ask(&socket, "PUT", "/v0/entity?id=k", "v").starts_with("HTTP/1.1 201"));
    assert_eq!(server.ask("GET", "/v0/entity?id=k", b"").body, b"v");
    assert!(ask(&socket, "GET", "/v0/entity?id=k", "").ends_with("\r\n\r\nv"));
    assert!(server.terminate().success());
    assert!(!socket.exists(), "the socket of a server that has ended");
}

#[test]
fn the_socket_of_a_killed_server_is_replaced_and_nothing_else_is() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("pando.sock");
    let options = ["--unix-socket", socket.to_str().unwrap()];
    Server::start_with(&dir.path().join("data"), &options).kill();
    assert!(socket.exists());
    let server = Server::start_with(&dir.path().join("data"), &options);
    assert!(ask(&socket, "GET", "/healthz", "").starts_with("HTTP/1.1 200"));

    let other = dir.path().join("other");
    let start =
        || pando(["serve", other.to_str().unwrap(), "--listen", "127.0.0.1:0", options[0], options[1]]);
    let said = String::from_utf8(start().stderr).unwrap();
    assert!(said.contains("another server listens on"), "{said}");
    assert!(ask(&socket, "GET", "/healthz", "").starts_with("HTTP/1.1 200"));

    server.kill();
    fs::remove_file(&socket).unwrap();
    fs::write(&socket, "precious").unwrap();
    let said = String::from_utf8(start().stderr).unwrap();
    assert!(said.contains("is not a socket"), "{said}");
    assert_eq!(fs::read(&socket).unwrap(), b"precious");
}

/// Statements end with their client, over this socket as over the others.
#[test]
#[cfg(feature = "sql")]
fn statements_end_with_their_client() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("pando.sock");
    let options = [
        "--unix-socket",
        socket.to_str().unwrap(),
        "--max-sql",
        "1",
        "--sql-timeout",
        "600",
        "--max-sql-timeout",
        "600",
    ];
    let server = Server::start_with(&dir.path().join("data"), &options);
    let endless =
        r#"{"sql":"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT sum(i) FROM n"}"#;
    let mut stream = UnixStream::connect(&socket).unwrap();
    let head =
        "POST /v1/databases/default/sql HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    write!(stream, "{head}content-length: {}\r\n\r\n{endless}", endless.len()).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(500));
    drop(stream);
    // There is one place for statements: the next ones get it when the first have ended.
    let begun = std::time::Instant::now();
    let headers = [("content-type", "application/json")];
    let reply = server.ask_with("POST", "/v1/databases/default/sql", &headers, br#"{"sql":"SELECT 1"}"#);
    assert_eq!(reply.status, 200, "{reply:?}");
    assert!(begun.elapsed().as_secs() < 30, "{:?}", begun.elapsed());
}
