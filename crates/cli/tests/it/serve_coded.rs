//! Content codings: responses that are compressed where a client asks for it, and imports that are decoded.

use crate::http::{Reply, Server};
use flate2::write::{GzDecoder, GzEncoder};
use std::io::Write as _;
use std::time::{Duration, Instant};

const ENTRIES: &str = "/v1/databases/default/tables/t/entries";

fn started(options: &[&str]) -> (tempfile::TempDir, Server) {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_with(dir.path(), options);
    assert_eq!(server.ask("PUT", "/v1/databases/default/tables/t", b"").status, 201);
    (dir, server)
}

fn lines(count: usize) -> Vec<u8> {
    (0..count).flat_map(|n| format!("{{\"key\":\"k{n:06}\",\"value\":\"{n}\"}}\n").into_bytes()).collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// The body of a response as it was before it was compressed.
fn decoded(reply: &Reply) -> Vec<u8> {
    match reply.header("content-encoding") {
        None => reply.body.clone(),
        Some("gzip") => {
            let mut decoder = GzDecoder::new(Vec::new());
            decoder.write_all(&reply.body).unwrap();
            decoder.finish().unwrap()
        }
        Some("zstd") => zstd::decode_all(&reply.body[..]).unwrap(),
        Some(other) => panic!("{other}"),
    }
}

#[test]
fn what_is_sent_in_pieces_is_compressed_where_it_is_asked_for() {
    let (_dir, server) = started(&[]);
    let all = lines(30_000);
    assert_eq!(server.ask("POST", ENTRIES, &all).status, 200);
    let get = |target: &str, accepts: &str| {
        let reply = server.ask_with("GET", target, &[("accept-encoding", accepts)], b"");
        assert_eq!(reply.status, 200, "{target}");
        reply
    };
    for (accepts, coding) in
        [("gzip", Some("gzip")), ("zstd, gzip", Some("zstd")), ("br", None), ("gzip;q=0", None)]
    {
        let reply = get(ENTRIES, accepts);
        assert_eq!(reply.header("content-encoding"), coding, "{accepts}");
        // Caches must know that it depends on the request, whatever this one got.
        assert_eq!(reply.header("vary"), Some("accept-encoding"), "{accepts}");
        assert!(decoded(&reply) == all, "{accepts}");
        assert!(coding.is_none() || reply.body.len() < all.len() / 4, "{accepts}: {}", reply.body.len());
    }
    let head = server.ask_with("HEAD", ENTRIES, &[("accept-encoding", "gzip")], b"");
    assert_eq!((head.status, head.body.len()), (200, 0));
    // A page of some records as well; a few bytes are not worth it.
    let page = get(&format!("{ENTRIES}?limit=100"), "gzip");
    assert_eq!(page.header("content-encoding"), Some("gzip"));
    assert!(decoded(&page).starts_with(&all[..1000]));
    let short = get(&format!("{ENTRIES}?limit=3"), "gzip");
    assert_eq!((short.header("content-encoding"), short.header("vary")), (None, Some("accept-encoding")));
    // A value has a tag and ranges, which belong to its bytes.
    assert_eq!(server.ask("PUT", &format!("{ENTRIES}/long"), &[b'x'; 2 << 20]).status, 204);
    for key in ["k000001", "long"] {
        let value = get(&format!("{ENTRIES}/{key}"), "gzip");
        assert_eq!((value.header("content-encoding"), value.header("vary")), (None, None), "{key}");
    }
}

#[test]
#[cfg(feature = "sql")]
fn rows_are_compressed() {
    let (_dir, server) = started(&[]);
    let rows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 50000) SELECT i FROM n";
    let sql = format!("{{\"sql\":\"{rows}\"}}");
    let target = "/v1/databases/default/sql";
    let plain = server.ask("POST", target, sql.as_bytes());
    for coding in ["gzip", "zstd"] {
        let reply = server.ask_with("POST", target, &[("accept-encoding", coding)], sql.as_bytes());
        assert_eq!((reply.status, reply.header("content-encoding")), (200, Some(coding)));
        assert!(decoded(&reply) == plain.body);
    }
}

/// Nothing of a change waits in the encoder for the next one.
#[test]
fn changes_are_flushed() {
    let (_dir, server) = started(&[]);
    let mut client = server.connect();
    let head =
        "GET /v1/databases/default/changes?table=t HTTP/1.1\r\nhost: a\r\naccept-encoding: gzip\r\n\r\n";
    client.send(head.as_bytes()).unwrap();
    let reply = client.reply_head().unwrap();
    assert_eq!((reply.status, reply.header("content-encoding")), (200, Some("gzip")));
    let mut decoder = GzDecoder::new(Vec::new());
    for n in 0..3 {
        assert_eq!(server.ask("PUT", &format!("{ENTRIES}/c{n}"), b"1").status, 204);
        let begun = Instant::now();
        while !String::from_utf8_lossy(decoder.get_ref()).contains(&format!("\"c{n}\"")) {
            decoder.write_all(&client.chunk().unwrap().expect("it does not end")).unwrap();
            decoder.flush().unwrap();
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    }
}

#[test]
fn an_import_is_decoded() {
    let (_dir, server) = started(&["--max-import", "8M"]);
    let all = lines(20_000);
    let import = |coding: &str, body: &[u8]| {
        let reply = server.ask_with("POST", ENTRIES, &[("content-encoding", coding)], body);
        assert_eq!(server.ask("GET", "/v0/status", b"").status, 200);
        reply
    };
    for (coding, body) in [("gzip", gzip(&all)), ("zstd", zstd::encode_all(&all[..], 3).unwrap())] {
        assert_eq!(server.ask("DELETE", &format!("{ENTRIES}?start="), b"").status / 100, 2);
        let reply = import(coding, &body);
        assert_eq!(reply.status, 200, "{coding}: {}", reply.text());
        assert!(server.ask("GET", ENTRIES, b"").body == all, "{coding}");
        // Cut, or something else: nothing of it is stored.
        assert_eq!(server.ask("DELETE", &format!("{ENTRIES}?start="), b"").status / 100, 2);
        assert_eq!(import(coding, &body[..body.len() - 9]).status, 400, "{coding}");
        assert_eq!(import(coding, &all).status, 400, "{coding}");
        assert_eq!(server.ask("GET", ENTRIES, b"").body, b"");
    }
    let schema = "/v1/databases/default/documents/people?format=csv&schema=id%20int%20key,name%20text";
    let csv = gzip(b"id,name\n1,Ann\n2,Bob\n");
    assert_eq!(server.ask_with("POST", schema, &[("content-encoding", "gzip")], &csv).status, 200);
    for other in ["br", "gzip, gzip", "deflate"] {
        let reply = import(other, &all);
        assert_eq!((reply.status, reply.text().contains("unsupported")), (415, true), "{other}");
    }
    // What a value was encoded with is a matter of its reader.
    let put = server.ask_with("PUT", &format!("{ENTRIES}/raw"), &[("content-encoding", "br")], b"x");
    assert_eq!(put.status, 204);
}

/// What little bytes become extends the time of their body by nothing.
#[test]
fn an_encoded_body_that_trickles_is_refused() {
    let (_dir, server) = started(&["--body-timeout", "1"]);
    let line = format!("{{\"key\":\"k\",\"value\":\"{}\"}}\n", "0".repeat(1 << 20));
    let body = gzip(line.repeat(100).as_bytes());
    let mut client = server.connect();
    let head = format!(
        "POST {ENTRIES} HTTP/1.1\r\nhost: a\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    client.send(head.as_bytes()).unwrap();
    client.send(&body[..200]).unwrap();
    let begun = Instant::now();
    // A byte stands for about a thousand.
    for byte in body[200..].chunks(1) {
        std::thread::sleep(Duration::from_millis(50));
        if client.send(byte).is_err() || begun.elapsed() > Duration::from_secs(15) {
            break;
        }
    }
    assert!(begun.elapsed() < Duration::from_secs(15), "it is received for ever");
    // The connection may be reset before the response is read, because more arrived after it.
    if let Ok(reply) = client.reply_head() {
        assert_eq!(reply.status, 408);
    }
    // A fast one is not affected.
    assert_eq!(server.ask_with("POST", ENTRIES, &[("content-encoding", "gzip")], &body).status, 200);
}

/// A hundred kilobytes that become a hundred megabytes.
#[test]
fn a_bomb_is_refused_at_the_limit() {
    let (_dir, server) = started(&["--max-import", "8M", "--memory", "32M"]);
    let line = format!("{{\"key\":\"k\",\"value\":\"{}\"}}\n", "0".repeat(1 << 20));
    let bomb = line.repeat(100).into_bytes();
    let before = server.resident_bytes();
    for (coding, body) in [("gzip", gzip(&bomb)), ("zstd", zstd::encode_all(&bomb[..], 19).unwrap())] {
        assert!(body.len() < 1 << 20);
        let reply = server.ask_with("POST", ENTRIES, &[("content-encoding", coding)], &body);
        assert_eq!(reply.status, 413, "{coding}: {}", reply.text());
    }
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "it grew by {} MiB", grown >> 20);
    assert_eq!(server.ask("GET", ENTRIES, b"").body, b"");
    assert_eq!(server.ask("POST", ENTRIES, &lines(10)).status, 200);
}
