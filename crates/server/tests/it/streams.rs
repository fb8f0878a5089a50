//! Answers that take their time: what is read for them stays where it is, in the memory of some pieces.

use crate::http::{Client, Server};
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

const ENTRIES: &str = "/v1/databases/d/tables/t/entries";

/// A server with the database `d` and the table `t`.
fn started(dir: &Path, options: &[&str]) -> Server {
    let server = Server::start_with(dir, &[&["--durability", "buffered"], options].concat());
    assert_eq!(server.ask("PUT", "/v1/databases/d", b"").status, 201);
    assert_eq!(server.ask("PUT", "/v1/databases/d/tables/t", b"").status, 201);
    server
}

/// Asks, and takes nothing but the head of the answer.
fn asked(server: &Server, target: &str, token: Option<&str>) -> Client {
    let mut client = server.connect();
    let token = token.map_or(String::new(), |token| format!("pando-transaction: {token}\r\n"));
    client.send(format!("GET {target} HTTP/1.1\r\nhost: a\r\n{token}\r\n").as_bytes()).unwrap();
    assert_eq!(client.reply_head().unwrap().status, 200, "{target}");
    client
}

/// The rest of a body that comes in chunks.
fn rest(client: &mut Client) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(chunk) = client.chunk().expect("it is not broken off") {
        body.extend_from_slice(&chunk);
    }
    body
}

fn json(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap()
}

#[test]
fn a_database_is_neither_closed_nor_dropped_under_a_stream() {
    const LONG: usize = 32 << 20;
    let dir = tempfile::tempdir().unwrap();
    let server = started(dir.path(), &["--max-open", "2"]);
    let mut client = server.connect();
    // More than sockets hold.
    for n in 0..40u8 {
        let target = format!("{ENTRIES}/k{n:02}");
        assert_eq!(client.ask("PUT", &target, &[], &vec![n; 900 << 10]).status, 204);
    }
    assert_eq!(client.ask("PUT", &format!("{ENTRIES}/long"), &[], &vec![7; LONG]).status, 204);
    assert_eq!(client.ask("POST", "/v1/databases/d/checkpoint", &[], b"").status, 204);
    let mut range = asked(&server, &format!("{ENTRIES}?prefix=k"), None);
    let mut value = server.connect();
    value.send(format!("GET {ENTRIES}/long HTTP/1.1\r\nhost: a\r\n\r\n").as_bytes()).unwrap();
    assert_eq!(value.reply_head().unwrap().status, 200);
    // Others are asked for, more than may be open; this one is in use.
    for n in 0..4 {
        assert_eq!(client.ask("PUT", &format!("/v1/databases/o{n}"), &[], b"").status, 201);
    }
    std::thread::sleep(Duration::from_millis(2500));
    let listed = json(&client.ask("GET", "/v1/databases", &[], b"").body);
    assert_eq!(listed["databases"][0], serde_json::json!({"name": "d", "open": true, "scope": "admin"}));
    assert_eq!(client.ask("DELETE", "/v1/databases/d", &[], b"").status, 409, "it is in use");
    // What they see stays, whatever becomes of it.
    assert_eq!(client.ask("DELETE", &format!("{ENTRIES}?prefix="), &[], b"").status, 204);
    for n in 0..3 {
        let target = format!("{ENTRIES}/n{n}");
        assert_eq!(client.ask("PUT", &target, &[], &vec![0xee; 20 << 20]).status, 204);
        assert_eq!(client.ask("POST", "/v1/databases/d/checkpoint", &[], b"").status, 204);
    }
    let body = rest(&mut range);
    let lines = body.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    let lines: Vec<Value> = lines.map(json).collect();
    assert_eq!(lines.len(), 40);
    let text = "\u{7}".repeat(900 << 10);
    assert!(lines[7]["value"] == text, "the value is another");
    let mut long = vec![0; LONG];
    std::io::Read::read_exact(&mut value.stream, &mut long).unwrap();
    assert!(long.iter().all(|&byte| byte == 7), "the value is another");
    assert_eq!(client.ask("DELETE", "/v1/databases/d", &[], b"").status, 204);
}

/// A value may be as long as a body may: who asks for many, and takes nothing, has the server hold pieces of them.
#[test]
fn long_values_among_others_take_no_memory() {
    const BYTES: usize = 24 << 20;
    let dir = tempfile::tempdir().unwrap();
    let options = ["--memory", "32M", "--durability", "buffered", "--transaction-idle", "600"];
    let server = Server::start_with(dir.path(), &options);
    for n in 0..3 {
        assert_eq!(server.ask("PUT", &format!("/v0/entity?id=r{n}"), &vec![0xf0 + n; BYTES]).status, 201);
    }
    let begun = server.ask("POST", "/v1/databases/default/transactions", b"");
    let token = json(&begun.body)["transaction"].as_str().unwrap().to_owned();
    let entries = "/v1/databases/default/tables/entity/entries";
    let (keys, range) = (format!("{entries}?key=r0&key=r1&key=r2&key=r3"), format!("{entries}?prefix=r"));
    let before = server.resident_bytes();
    for (target, token, most) in [
        (&keys[..], None, 64 << 20),
        (&range, None, 64 << 20),
        (&keys, Some(&token[..]), 64 << 20),
        (&range, Some(&token), 64 << 20),
        // A record is a chunk here, and has to be whole: there is memory for some.
        ("/v0/entities?start=r", None, 200 << 20),
    ] {
        let stalled: Vec<Client> = (0..8).map(|_| asked(&server, target, token)).collect();
        std::thread::sleep(Duration::from_millis(700));
        let grown = server.resident_bytes().saturating_sub(before);
        assert!(grown < most, "{target}: it grew by {} MiB", grown >> 20);
        assert_eq!(server.ask("GET", "/v0/status", b"").status, 200);
        drop(stalled);
    }
    // Who takes them has them whole, and in order.
    let digits = |n: usize| format!("f{n}").repeat(BYTES);
    let lines = |target: &str, token: Option<&str>| -> Vec<Value> {
        let body = rest(&mut asked(&server, target, token));
        body.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).map(json).collect()
    };
    for token in [None, Some(&token[..])] {
        let found = lines(&keys, token);
        assert_eq!(found.len(), 4);
        for (n, line) in found.iter().take(3).enumerate() {
            assert!(line["value_hex"] == digits(n), "{n}: the value is another");
        }
        assert_eq!(found[3], serde_json::json!({"key": "r3", "absent": true}));
    }
    assert_eq!(lines(&range, None).len(), 3);
    // In a transaction a long value is the last of a page.
    let page = lines(&range, Some(&token));
    assert_eq!((page.len(), &page[0]["key"]), (2, &Value::from("r0")));
    let next = format!("{range}&reverse&limit=1&cursor={}", page[1]["cursor"].as_str().unwrap());
    assert_eq!(lines(&next, Some(&token)).len(), 0, "nothing is before the first");
    let next = format!("{range}&limit=2&cursor={}", page[1]["cursor"].as_str().unwrap());
    assert_eq!(lines(&next, None).iter().map(|line| line["key"].clone()).collect::<Vec<_>>(), ["r1", "r2"]);
    let page = lines(&format!("{range}&reverse&limit=2"), None);
    assert_eq!((page.len(), &page[2]["cursor"]), (3, &Value::from("7231")));
    let mut chunks = asked(&server, "/v0/entities?start=r1", None);
    for n in 1..3u8 {
        let chunk = chunks.chunk().unwrap().unwrap();
        assert!(chunk[..3] == [b'r', b'0' + n, b'\n'] && chunk[3..] == vec![0xf0 + n; BYTES], "{n}");
    }
    assert_eq!(chunks.chunk().unwrap(), None);
}

/// Values that are not long by themselves are read whole in a transaction: together they may not be many bytes.
#[test]
fn a_transaction_answers_so_much_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let server = started(dir.path(), &[]);
    let mut client = server.connect();
    for n in 0..6 {
        assert_eq!(client.ask("PUT", &format!("{ENTRIES}/k{n}"), &[], &vec![b'v'; 900 << 10]).status, 204);
    }
    let begun = client.ask("POST", "/v1/databases/d/transactions", &[], b"");
    let token = json(&begun.body)["transaction"].as_str().unwrap().to_owned();
    let mine = [("pando-transaction", &token[..])];
    let several = client.ask("GET", &format!("{ENTRIES}?key=k0&key=k1&key=k2"), &mine, b"");
    assert_eq!((several.status, several.text().lines().count()), (200, 3));
    let many = format!("{ENTRIES}?key=k0&key=k1&key=k2&key=k3&key=k4");
    assert_eq!(client.ask("GET", &many, &mine, b"").status, 400);
    assert_eq!(client.ask("GET", &format!("{many}&keys_only"), &mine, b"").text().lines().count(), 5);
    let page = client.ask("GET", ENTRIES, &mine, b"");
    assert!(page.text().lines().last().unwrap().contains("cursor"), "the rest is for the next request");
    assert_eq!(client.ask("GET", &many, &[], b"").text().lines().count(), 5);
}

/// A client whose import comes a byte at a time, each soon enough by itself, keeps one place, and that not for ever.
#[test]
fn an_import_that_trickles_is_ended_and_others_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let server = started(dir.path(), &["--body-timeout", "2", "--max-streams", "2"]);
    let heads = [
        // Its transaction has begun, as more will come than is gathered.
        "content-length: 5000000",
        "transfer-encoding: chunked",
    ];
    let targets = [ENTRIES, "/v1/databases/d/documents/rows?schema=key%20text%20key,%20value%20text"];
    for (target, head) in targets.iter().flat_map(|target| heads.iter().map(move |head| (target, head))) {
        let mut slow = server.connect();
        let begin = format!("POST {target} HTTP/1.1\r\nhost: a\r\n{head}\r\n\r\n");
        slow.send(begin.as_bytes()).unwrap();
        let stream = slow.stream.get_ref().try_clone().unwrap();
        let is_chunked = head.starts_with("transfer");
        let trickling = std::thread::spawn(move || {
            let byte: &[u8] = if is_chunked { b"1\r\n\n\r\n" } else { b"\n" };
            let mut sent = 0;
            while sent < 200 && (&stream).write_all(byte).is_ok() {
                sent += 1;
                std::thread::sleep(Duration::from_millis(100));
            }
            sent
        });
        let begun = Instant::now();
        let mut others = server.connect();
        while begun.elapsed() < Duration::from_secs(1) {
            let record = b"{\"key\": \"a\", \"value\": \"b\"}";
            assert_eq!(others.ask("POST", ENTRIES, &[], record).status, 200, "{target}, {head}");
        }
        let refusal = slow.reply(false).expect("a reply");
        assert_eq!(refusal.status, 408, "{target}, {head}: {refusal:?}");
        assert!(begun.elapsed() < Duration::from_secs(10), "{target}, {head}: {:?}", begun.elapsed());
        drop(slow);
        assert!(trickling.join().unwrap() > 10, "each byte came soon enough");
    }
    // One that is slow, and not that slow, is heard to its end, though it takes longer than the server waits.
    let mut slow = server.connect();
    let lines: Vec<String> =
        (0..40).map(|n| format!("{{\"key\": \"{n:0100}\", \"value\": \"\"}}\n")).collect();
    let length: usize = lines.iter().map(String::len).sum();
    slow.send(format!("POST {ENTRIES} HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n").as_bytes())
        .unwrap();
    for line in lines {
        slow.send(line.as_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(75));
    }
    assert_eq!(slow.reply(false).unwrap().status, 200);
    let open = json(&server.ask("GET", "/v1/server", b"").body);
    assert_eq!((&open["streams"], &open["transactions"]), (&Value::from(0), &Value::from(0)));
}

/// Many clients ask for more than sockets hold, and take nothing of it.
#[test]
fn slow_readers_keep_nobody_from_a_short_range() {
    let dir = tempfile::tempdir().unwrap();
    let server = started(dir.path(), &["--memory", "32M", "--max-streams", "16"]);
    let mut client = server.connect();
    let fill = |client: &mut Client| {
        for n in 0..200 {
            let target = format!("{ENTRIES}/k{n:03}");
            assert_eq!(client.ask("PUT", &target, &[], &vec![n as u8; 60_000]).status, 204);
        }
    };
    fill(&mut client);
    let before = server.resident_bytes();
    let _slow: Vec<Client> = (0..16).map(|_| asked(&server, ENTRIES, None)).collect();
    for _ in 0..3 {
        fill(&mut client);
        for target in
            [format!("{ENTRIES}?limit=1"), format!("{ENTRIES}?key=k001"), format!("{ENTRIES}?prefix=none")]
        {
            let begun = Instant::now();
            assert_eq!(client.ask("GET", &target, &[], b"").status, 200, "{target}");
            assert!(begun.elapsed() < Duration::from_secs(10), "{target}: {:?}", begun.elapsed());
        }
    }
    // A long one takes the place of one that has stalled.
    let whole = client.ask("GET", ENTRIES, &[], b"");
    assert_eq!((whole.status, whole.text().lines().count()), (200, 200));
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "it grew by {} MiB", grown >> 20);
}

#[test]
fn values_of_a_range_can_be_cut() {
    let dir = tempfile::tempdir().unwrap();
    let server = started(dir.path(), &[]);
    let mut client = server.connect();
    for (key, value) in [("a", vec![b'x'; 4 << 20]), ("b", vec![0xff; 2000]), ("c", b"short".to_vec())] {
        assert_eq!(client.ask("PUT", &format!("{ENTRIES}/{key}"), &[], &value).status, 204);
    }
    for target in [format!("{ENTRIES}?value_bytes=5"), format!("{ENTRIES}?value_bytes=5&key=a&key=b&key=c")] {
        let reply = client.ask("GET", &target, &[], b"");
        let records: Vec<Value> = reply.text().lines().map(|line| json(line.as_bytes())).collect();
        let expected = [
            serde_json::json!({"key": "a", "value": "xxxxx", "value_bytes": 4 << 20}),
            serde_json::json!({"key": "b", "value_hex": "ffffffffff", "value_bytes": 2000}),
            serde_json::json!({"key": "c", "value": "short"}),
        ];
        assert_eq!(records, expected, "{target}");
    }
    assert_eq!(client.ask("GET", &format!("{ENTRIES}?value_bytes=2000000"), &[], b"").status, 400);
}
