//! Responses that are sent for long: they end with their token, and with their server.

use crate::common::{pando, text};
use crate::http::{Client, Server};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// How much longer than it should a test may take on a busy machine.
const SLACK: Duration = Duration::from_secs(10);
const CHANGES: &str = "/v1/databases/default/changes";

fn token(dir: &Path, name: &str, more: &[&str]) -> String {
    let words = ["token", "create", dir.to_str().unwrap(), "--name", name, "--scope", "admin"];
    text(pando(words.iter().chain(more))).trim().to_owned()
}

/// Begins a response that does not end by itself.
fn begin(server: &Server, target: &str, token: &str) -> Client {
    let mut client = server.connect();
    let head = format!("GET {target} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {token}\r\n\r\n");
    client.send(head.as_bytes()).unwrap();
    assert_eq!(client.reply_head().unwrap().status, 200);
    client
}

/// Reads the rest of a response. Returns it, and whether it ended in order.
fn rest(client: &mut Client) -> (String, bool) {
    let mut all = Vec::new();
    loop {
        match client.chunk() {
            Ok(Some(chunk)) => all.extend(chunk),
            end => return (String::from_utf8(all).unwrap(), end.is_ok()),
        }
    }
}

#[test]
fn a_feed_ends_with_its_token() {
    let dir = tempfile::tempdir().unwrap();
    let (revoked, kept) = (token(dir.path(), "revoked", &[]), token(dir.path(), "kept", &[]));
    // The server is started meanwhile, which takes seconds on a slow disk.
    let expiring = token(dir.path(), "expiring", &["--expires-in", "6s"]);
    let until = Instant::now() + Duration::from_secs(6);
    let server = Server::start(dir.path());
    let put = |key: &str| {
        let bearer = format!("Bearer {kept}");
        let headers = [("authorization", &*bearer)];
        assert_eq!(server.ask_with("PUT", &format!("/v0/entity?id={key}"), &headers, b"v").status, 201);
    };
    let feed = |token: &str, format: &str| begin(&server, &format!("{CHANGES}?format={format}"), token);
    let mut others = feed(&kept, "ndjson");
    let mut expires = feed(&expiring, "ndjson");
    let mut feeds = ["ndjson", "sse", "binary"].map(|format| feed(&revoked, format));
    put("before");
    let (said, _) = rest(&mut expires);
    // The end of a token is a whole second.
    assert!(Instant::now() + Duration::from_secs(1) > until && Instant::now() < until + SLACK);
    assert!(said.ends_with("}}\n") && said.contains("before"), "{said}");
    assert!(said.lines().last().unwrap().contains("has expired"), "{said}");
    text(pando(["token", "revoke", dir.path().to_str().unwrap(), "revoked"]));
    let begun = Instant::now();
    let ends: Vec<_> = feeds[..2].iter_mut().map(rest).collect();
    assert!(ends[0].0.ends_with("}}\n") && ends[0].1, "{ends:?}");
    assert!(ends[0].0.lines().last().unwrap().contains("urn:pando:problem:unauthorized"), "{ends:?}");
    assert!(ends[1].0.ends_with("\n\n") && ends[1].0.contains("event: error\ndata: "), "{ends:?}");
    // Bytes for a copy have no line for it.
    while let Ok(Some(_)) = feeds[2].chunk() {}
    assert!(begun.elapsed() < Duration::from_secs(1) + SLACK, "{:?}", begun.elapsed());
    put("after");
    let mut said = String::new();
    while !said.contains("after") {
        said += std::str::from_utf8(&others.chunk().unwrap().expect("it goes on")).unwrap();
    }
}

#[test]
fn an_export_breaks_off_when_its_token_is_revoked() {
    let dir = tempfile::tempdir().unwrap();
    let (revoked, kept) = (token(dir.path(), "revoked", &[]), token(dir.path(), "kept", &[]));
    let server = Server::start(dir.path());
    let bearer = format!("Bearer {kept}");
    let headers = [("authorization", &*bearer)];
    for n in 0..60 {
        let value = vec![b'v'; 1 << 20];
        let target = format!("/v0/entity?id={n}");
        assert_eq!(server.ask_with("PUT", &target, &headers, &value).status, 201);
    }
    let mut export = begin(&server, "/v1/databases/default/tables/entity/entries", &revoked);
    export.chunk().unwrap().expect("it has begun");
    text(pando(["token", "revoke", dir.path().to_str().unwrap(), "revoked"]));
    let begun = Instant::now();
    loop {
        match export.chunk() {
            Ok(Some(chunk)) => thread::sleep(Duration::from_millis(chunk.len() as u64 >> 12)),
            Ok(None) => panic!("all of it was sent, within {:?}", begun.elapsed()),
            Err(_) => break,
        }
        assert!(begun.elapsed() < Duration::from_secs(60));
    }
}

#[test]
fn a_feed_does_not_delay_the_end_of_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let admin = token(dir.path(), "admin", &[]);
    let server = Server::start_with(dir.path(), &["--drain", "20"]);
    let mut feeds = ["ndjson", "sse", "binary"]
        .map(|format| begin(&server, &format!("{CHANGES}?format={format}"), &admin));
    let bearer = format!("Bearer {admin}");
    let reply = server.ask_with("PUT", "/v0/entity?id=k", &[("authorization", &bearer)], b"v");
    assert_eq!(reply.status, 201);
    let begun = Instant::now();
    assert!(server.terminate().success());
    assert!(begun.elapsed() < Duration::from_secs(1) + SLACK, "{:?}", begun.elapsed());
    let (lines, is_whole) = rest(&mut feeds[0]);
    assert!(is_whole && lines.lines().last().unwrap().starts_with("{\"position\":"), "{lines}");
    let (events, is_whole) = rest(&mut feeds[1]);
    assert!(is_whole && events.ends_with("\n\n") && events.contains("\"k\""), "{events}");
    while feeds[2].chunk().unwrap().is_some() {}
}

#[cfg(feature = "sql")]
#[test]
fn a_running_statement_delays_the_end_of_the_server_by_the_drain_time_at_most() {
    let dir = tempfile::tempdir().unwrap();
    let admin = token(dir.path(), "admin", &[]);
    let server = Server::start_with(dir.path(), &["--drain", "4"]);
    let mut client = server.connect();
    let sql = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c";
    let body = serde_json::json!({ "sql": sql }).to_string();
    let head = format!(
        "POST /v1/databases/default/sql HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {admin}\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    client.send(head.as_bytes()).unwrap();
    thread::sleep(Duration::from_millis(500));
    let begun = Instant::now();
    assert!(server.terminate().success());
    let took = begun.elapsed();
    assert!(took > Duration::from_secs(3) && took < Duration::from_secs(4) + SLACK, "{took:?}");
}

/// An acknowledgement that is refused leaves no consumer, which would keep the log.
#[test]
fn a_refused_acknowledgement_makes_no_consumer() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    assert_eq!(server.ask("PUT", "/v0/entity?id=k", b"v").status, 201);
    let consumers = "/v1/databases/default/consumers";
    assert_eq!(server.ask("PUT", &format!("{consumers}/typo?acknowledge=99"), b"").status, 400);
    assert_eq!(server.ask("GET", &format!("{consumers}/typo"), b"").status, 404);
    assert_eq!(server.ask("PUT", &format!("{consumers}/kept?acknowledge=1"), b"").status, 201);
    assert_eq!(server.ask("PUT", &format!("{consumers}/kept?acknowledge=99"), b"").status, 400);
    assert_eq!(server.ask("GET", &format!("{consumers}/kept"), b"").status, 200);
}
