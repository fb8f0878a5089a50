//! Clients that mean no good, or do not know better: a typed refusal, no panic, and others are served meanwhile.

use crate::http::{Client, Server};
use std::io::Read;
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// Starts a server that has a record.
pub fn started(dir: &Path, options: &[&str]) -> Server {
    let server = Server::start_with(dir, options);
    assert_eq!(server.ask("PUT", "/v0/entity?id=k", b"v").status, 201);
    server
}

/// Checks that others are served.
pub fn is_well(server: &Server) {
    let reply = server.ask("GET", "/v0/entity?id=k", b"");
    assert_eq!((reply.status, &reply.body[..]), (200, &b"v"[..]));
}

/// What a client that sends these bytes gets: a status, or nothing but the end of the connection.
fn status_of(server: &Server, bytes: &[u8]) -> Option<u16> {
    let mut client = server.connect();
    // The server may close while this is still sending.
    let _ = client.send(bytes);
    let _ = client.stream.get_ref().shutdown(std::net::Shutdown::Write);
    let mut answer = Vec::new();
    let _ = client.stream.read_to_end(&mut answer);
    let text = String::from_utf8_lossy(&answer);
    text.strip_prefix("HTTP/1.1 ").map(|rest| rest[..3].parse().unwrap())
}

#[test]
fn bytes_that_are_no_requests_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let server = started(dir.path(), &[]);
    let long_header = format!("GET /v0/status HTTP/1.1\r\nx: {}\r\n\r\n", "a".repeat(200_000));
    let many_headers = format!("GET /v0/status HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(1000));
    let long_target = format!("GET /v0/entity?id={} HTTP/1.1\r\nhost: a\r\n\r\n", "a".repeat(70_000));
    let cases: [(&str, &[u8]); 14] = [
        ("nothing", b""),
        ("noise", &[0xff; 4096]),
        ("zeros", &[0; 100_000]),
        ("a bad version", b"GET / HTTP/9.9\r\n\r\n"),
        ("no version", b"GET /\r\n\r\n"),
        ("a bad name", b"GET /v0/status HTTP/1.1\r\nbad name: x\r\n\r\n"),
        ("a NUL in a target", b"GET /v0/entity?id=\0 HTTP/1.1\r\n\r\n"),
        ("a bad length", b"PUT /v0/entity?id=x HTTP/1.1\r\ncontent-length: -1\r\n\r\n"),
        ("two lengths", b"PUT /v0/entity?id=x HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab"),
        ("a bad chunk", b"PUT /v0/entity?id=x HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"),
        (
            "an overflowing chunk",
            b"PUT /v0/entity?id=x HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
        ),
        ("a long header", long_header.as_bytes()),
        ("many headers", many_headers.as_bytes()),
        ("a long target", long_target.as_bytes()),
    ];
    for (what, bytes) in cases {
        let status = status_of(&server, bytes);
        assert!(status.is_none_or(|status| (400..500).contains(&status)), "{what}: {status:?}");
    }
    assert_eq!(status_of(&server, long_header.as_bytes()), Some(431));
    assert_eq!(status_of(&server, long_target.as_bytes()).map(|status| status / 100), Some(4));
    is_well(&server);
    assert_eq!(server.ask("GET", "/v0/entity?id=x", b"").status, 404, "nothing of it was stored");
}

#[test]
fn a_length_and_chunks_together_smuggle_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let server = started(dir.path(), &[]);
    let [length, chunks] = ["content-length: 4\r\n", "transfer-encoding: chunked\r\n"];
    for (first, second) in [(length, chunks), (chunks, length)] {
        let smuggled = format!(
            "PUT /v0/entity?id=outer HTTP/1.1\r\nhost: a\r\n{first}{second}\r\n\
             0\r\n\r\nPUT /v0/entity?id=inner HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\n\r\nx"
        );
        // Chunks win, as RFC 9112 (6.1) has it, or the request is refused; a proxy that went by the length is not
        // fooled by us alone, so the connection must not go on as if nothing was.
        let mut client = server.connect();
        client.send(smuggled.as_bytes()).unwrap();
        assert!(client.reply(false).unwrap().status < 500);
        assert!(client.reply_head().is_err(), "it is closed behind the first");
        assert_eq!(server.ask("GET", "/v0/entity?id=inner", b"").status, 404);
    }
    // What is coded in another way as well would be stored as it is not.
    for coding in ["gzip, chunked", "gzip", "identity", "chunked, chunked"] {
        let coded = format!(
            "PUT /v0/entity?id=coded HTTP/1.1\r\nhost: a\r\ntransfer-encoding: {coding}\r\n\r\n0\r\n\r\n"
        );
        let mut client = server.connect();
        client.send(coded.as_bytes()).unwrap();
        assert_eq!(client.reply_head().unwrap().status, 400, "{coding}");
        assert_eq!(server.ask("GET", "/v0/entity?id=coded", b"").status, 404, "{coding}");
    }
    is_well(&server);
}

/// The end of a chunked body may arrive after the response is ready, even if the body is empty.
#[test]
fn an_unused_body_that_ends_late_leaves_the_connection_open() {
    let dir = tempfile::tempdir().unwrap();
    let server = started(dir.path(), &[]);
    let entry = "/v1/databases/default/tables/t/entries/k";
    assert_eq!(server.ask("PUT", "/v1/databases/default/tables/t", b"{}").status, 201);
    assert_eq!(server.ask("PUT", entry, b"v").status, 204);
    let mut client = server.connect();
    let requests = [
        ("GET", entry, 200),
        ("GET", "/v1/databases/default", 200),
        ("POST", "/v1/databases/default/checkpoint", 204),
        ("DELETE", entry, 204),
        ("GET", entry, 404),
    ];
    for (method, target, status) in requests {
        let head = format!("{method} {target} HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n");
        client.send(head.as_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        client.send(b"1\r\nx\r\n0\r\n\r\n").unwrap();
        let reply = client.reply(false).unwrap_or_else(|error| panic!("{method} {target}: {error}"));
        assert_eq!(reply.status, status, "{method} {target}");
    }
}

#[test]
fn a_body_over_the_limit_is_not_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let server = started(dir.path(), &["--max-body", "1M"]);
    let told_at_once = |length: &str, expects: bool| {
        let mut client = server.connect();
        let expect = if expects { "expect: 100-continue\r\n" } else { "" };
        let head =
            format!("PUT /v0/entity?id=o HTTP/1.1\r\nhost: a\r\n{expect}content-length: {length}\r\n\r\n");
        client.send(head.as_bytes()).unwrap();
        let begun = Instant::now();
        let status = client.reply_head().unwrap().status;
        assert!(begun.elapsed() < Duration::from_secs(20), "{length}: {:?}", begun.elapsed());
        (status, client)
    };
    // The first is the size of nothing that there is; the last of what is.
    for length in ["9223372036854775807", "1000000000000", "1048577"] {
        assert_eq!(told_at_once(length, true).0, 413, "{length}");
    }
    assert_eq!(told_at_once("9223372036854775807", false).0, 413);
    assert_eq!(told_at_once("99999999999999999999999", false).0, 400);
    let (status, mut client) = told_at_once("3", true);
    assert_eq!(status, 100);
    client.send(b"abc").unwrap();
    assert_eq!(client.reply(false).unwrap().status, 201);
    assert_eq!(server.ask("GET", "/v0/entity?id=o", b"").body, b"abc");
    is_well(&server);
}

#[test]
fn heads_without_an_end_take_no_memory() {
    let dir = tempfile::tempdir().unwrap();
    let server = started(dir.path(), &[]);
    let before = server.resident_bytes();
    let line = format!("x: {}\r\n", "a".repeat(1000));
    for beginning in ["GET /v0/status HTTP/1.1\r\n", "GET /", "\r\n"] {
        // 32 MiB, unless the server has had enough before: of lines, of a target, of lines before the first.
        let endless = match beginning {
            "GET /" => "a".repeat(1000),
            "\r\n" => "\r\n".repeat(500),
            _ => line.clone(),
        };
        let mut client = server.connect();
        client.send(beginning.as_bytes()).unwrap();
        let taken = (0..32_768).take_while(|_| client.send(endless.as_bytes()).is_ok()).count();
        // What the sockets hold comes on top of the limit.
        assert!(taken < 16_384, "{beginning:?}: it took {taken} KB");
    }
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 16 << 20, "it grew by {} MiB", grown >> 20);
    is_well(&server);
}

/// A page whose name is made to lead to this machine speaks as if from the server itself.
#[test]
fn names_that_somebody_can_buy_are_not_answered_without_a_token() {
    let dir = tempfile::tempdir().unwrap();
    let server = started(dir.path(), &[]);
    let status = |server: &Server, host: &str| {
        let mut client = server.connect();
        let origin = format!("origin: http://{host}\r\n");
        let head =
            format!("PUT /v0/entity?id=h HTTP/1.1\r\nhost: {host}\r\n{origin}content-length: 0\r\n\r\n");
        client.send(head.as_bytes()).unwrap();
        let changed = client.reply(false).unwrap().status;
        let head = format!("GET /v0/entity?id=k HTTP/1.1\r\nhost: {host}\r\n\r\n");
        client.send(head.as_bytes()).unwrap();
        (changed, client.reply(false).unwrap().status)
    };
    for here in ["127.0.0.1:7263", "localhost", "[::1]:80", "box"] {
        assert_eq!(status(&server, here), (201, 200), "{here}");
    }
    for name in ["evil.example", "evil.example:7263"] {
        assert_eq!(status(&server, name), (403, 403), "{name}");
    }
    drop(server);
    let server = started(dir.path(), &["--allow-anyone"]);
    assert_eq!(status(&server, "db.example"), (201, 200), "who says so is reached by any name");
}

#[test]
fn requests_that_come_all_at_once_are_answered_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let server = started(dir.path(), &[]);
    let mut client = server.connect();
    let mut bytes = Vec::new();
    for n in 0..500 {
        let target = ["/v0/entity?id=k", "/v0/entity?id=none", "/v0/entity"][n % 3];
        bytes.extend_from_slice(format!("GET {target} HTTP/1.1\r\nhost: a\r\n\r\n").as_bytes());
    }
    bytes.extend_from_slice(b"garbage\r\n\r\n");
    let sending = std::thread::spawn({
        let mut stream = client.stream.get_ref().try_clone().unwrap();
        move || {
            let _ = std::io::Write::write_all(&mut stream, &bytes);
        }
    });
    for n in 0..500 {
        assert_eq!(client.reply(false).unwrap().status, [200, 404, 400][n % 3], "{n}");
    }
    assert_eq!(client.reply_head().unwrap().status, 400);
    sending.join().unwrap();
    is_well(&server);
}

#[test]
fn slow_clients_are_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let server = started(dir.path(), &["--head-timeout", "1", "--body-timeout", "1"]);
    let closed = |mut client: Client| {
        let begun = Instant::now();
        let mut rest = Vec::new();
        let _ = client.stream.read_to_end(&mut rest);
        assert!(begun.elapsed() < Duration::from_secs(10), "it was not given up");
        String::from_utf8_lossy(&rest).into_owned()
    };
    // One that says nothing, one that never comes to the end of its head.
    assert_eq!(closed(server.connect()), "");
    let mut client = server.connect();
    for byte in b"GET /v0/status HTTP/1.1\r\nx: ".iter().chain(&[b'a'; 40]) {
        if client.send(&[*byte]).is_err() {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(!closed(client).contains(" 200 "));
    // One that stops in the middle of a body: it gets an error.
    for bytes in [10, 5 << 20] {
        let mut client = server.connect();
        let head =
            format!("PUT /v0/entity?id=slow HTTP/1.1\r\nhost: a\r\ncontent-length: {bytes}\r\n\r\nhalf");
        client.send(head.as_bytes()).unwrap();
        assert_eq!(client.reply(false).unwrap().status, 408);
    }
    assert_eq!(server.ask("GET", "/v0/entity?id=slow", b"").status, 404);
    is_well(&server);
}

/// Clients ask for more than sockets hold, and take nothing of it: of a range, of a long value, of rows. Another that
/// wants the place has it soon: long before a client that does nothing is given up.
#[test]
fn readers_that_never_read_are_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let bounds = [
        "--head-timeout",
        "60",
        "--max-streams",
        "1",
        "--max-sql",
        "1",
        "--sql-timeout",
        "2",
        "--memory",
        "32M",
    ];
    let server = started(dir.path(), &bounds);
    for n in 0..48 {
        assert_eq!(server.ask("PUT", &format!("/v0/entity?id=r{n:02}"), &[7; 1 << 20]).status, 201);
    }
    assert_eq!(server.ask("PUT", "/v0/entity?id=long", &[7; 48 << 20]).status, 201);
    let endless =
        r#"{"sql": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"}"#;
    let sql = ("POST", "/v1/databases/default/sql", endless);
    let asked = [("GET", "/v0/entities?start=r", ""), ("GET", "/v0/entity?id=long", ""), sql];
    let before = server.resident_bytes();
    for (method, target, body) in &asked[..if cfg!(feature = "sql") { 3 } else { 2 }] {
        let mut stalled = server.connect();
        let length = body.len();
        let head = format!("{method} {target} HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n{body}");
        stalled.send(head.as_bytes()).unwrap();
        assert_eq!(stalled.reply_head().unwrap().status, 200, "{target}: it has begun");
        is_well(&server);
        let begun = Instant::now();
        let mut others = server.connect();
        // What they take themselves is given back at once.
        let other = if body.is_empty() { (*target, *body) } else { (*target, r#"{"sql": "SELECT 1"}"#) };
        while others.ask(method, other.0, &[], other.1.as_bytes()).status == 503 {
            assert!(begun.elapsed() < Duration::from_secs(20), "{target}: it keeps its place for ever");
            std::thread::sleep(Duration::from_millis(20));
        }
        let grown = server.resident_bytes().saturating_sub(before);
        assert!(grown < 64 << 20, "{target}: it grew by {} MiB", grown >> 20);
        drop(stalled);
    }
}

#[test]
fn bodies_without_an_end_take_no_memory() {
    let dir = tempfile::tempdir().unwrap();
    let server = started(dir.path(), &["--max-body", "8M", "--memory", "16M"]);
    let before = server.resident_bytes();
    let clients: Vec<_> = (0..8)
        .map(|n| {
            let address = server.address;
            std::thread::spawn(move || {
                let mut client = Client::connect(address);
                let head = format!(
                    "PUT /v0/entity?id=endless{n} HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
                );
                client.send(head.as_bytes()).unwrap();
                let chunk = [b"10000\r\n", &[7; 65536][..], b"\r\n"].concat();
                // 32 MiB, unless the server has had enough before.
                (0..512).all(|_| client.send(&chunk).is_ok())
            })
        })
        .collect();
    for client in clients {
        client.join().unwrap();
    }
    is_well(&server);
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "it grew by {} MiB", grown >> 20);
    for n in 0..8 {
        assert_eq!(server.ask("GET", &format!("/v0/entity?id=endless{n}"), b"").status, 404);
    }
}

/// A client that sends all of its body before it reads the reply learns why it is refused.
#[test]
fn a_body_that_is_refused_gets_its_reason() {
    let dir = tempfile::tempdir().unwrap();
    let server = started(dir.path(), &[]);
    let body = vec![7; 20 << 20];
    let mut client = server.connect();
    let missing = "/v1/databases/default/tables/none/entries/k";
    for (method, target, status) in [
        ("PUT", missing, 404),
        ("PUT", "/v0/entity", 400),
        ("PUT", "/v0/nothing", 400),
        ("POST", "/v0/entity?id=k", 405),
        ("PUT", "/v0/entity?id=k", 201),
    ] {
        assert_eq!(client.ask(method, target, &[], &body).status, status, "{method} {target}");
    }
    let foreign = [("origin", "http://evil.example")];
    assert_eq!(client.ask("PUT", "/v0/entity?id=k", &foreign, &body).status, 403);
    assert_eq!(client.ask("GET", "/v0/entity?id=k", &[], b"").body, body);
}

/// Files that this process may have open.
fn most_files() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find(|line| line.starts_with("Max open files"));
    line.and_then(|line| line.split_whitespace().nth(3)?.parse().ok()).unwrap_or(256)
}

/// How much longer others wait beside 10,000 is for `pando bench http-kv` to measure; here, that they are served.
#[test]
fn many_idle_connections_hold_nobody_up() {
    let dir = tempfile::tempdir().unwrap();
    let server = started(dir.path(), &[]);
    let before = server.resident_bytes();
    // The server needs as many: it raises its own limit to the hard one, which is this process's too. Where that is no
    // higher it keeps half of it for other things, and the last of these is to be the client that is served.
    let count = (most_files() / 2).saturating_sub(50).clamp(1, 10_000);
    let idle: Vec<TcpStream> = (0..count).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    let mut client = server.connect();
    let mut took: Vec<Duration> = (0..1000)
        .map(|_| {
            let begun = Instant::now();
            assert_eq!(client.ask("GET", "/v0/entity?id=k", &[], b"").status, 200);
            begun.elapsed()
        })
        .collect();
    took.sort_unstable();
    assert!(took[500] < Duration::from_millis(100), "half took {:?} and more", took[500]);
    assert!(took[990] < Duration::from_millis(500), "one in a hundred took {:?} and more", took[990]);
    let each = server.resident_bytes().saturating_sub(before) / count as u64;
    assert!(each < 16 << 10, "an idle connection takes {each} bytes");
    drop(idle);
    is_well(&server);
}

#[test]
fn beyond_the_bound_connections_wait_for_their_turn() {
    let dir = tempfile::tempdir().unwrap();
    let server = started(dir.path(), &["--max-connections", "2"]);
    let (first, second) = (server.connect(), server.connect());
    let mut third = server.connect();
    third.send(b"GET /v0/entity?id=k HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    third.stream.get_ref().set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    assert!(third.reply_head().is_err(), "it is not served yet");
    drop(first);
    third.stream.get_ref().set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    assert_eq!(third.reply(false).unwrap().status, 200);
    drop(second);
}

#[test]
fn fewer_connections_where_the_system_allows_fewer_files() {
    let dir = tempfile::tempdir().unwrap();
    let mut limited = std::process::Command::new("sh");
    let serve = format!(
        "ulimit -n 256; exec {} serve {} --listen 127.0.0.1:0",
        env!("CARGO_BIN_EXE_pando"),
        dir.path().display()
    );
    limited.args(["-c", &serve]).stderr(std::process::Stdio::piped());
    let server = Server::of(limited);
    // 128 of them; the others wait for their turn.
    let clients: Vec<Client> = (0..200).map(|_| server.connect()).collect();
    assert_eq!(clients.len(), 200);
    drop(clients);
    assert_eq!(server.ask("PUT", "/v0/entity?id=k", b"v").status, 201);
    let said = server.kill_and_hear();
    assert!(said.contains("128 at a time") && said.contains("LimitNOFILE"), "{said}");
}

#[test]
fn a_burst_of_connections_is_kept_until_it_is_accepted() {
    const BURST: usize = 1000;
    let most = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap_or_default();
    if most.trim().parse().unwrap_or(0) <= BURST {
        eprintln!("skipped: the system keeps no more than {} connections", most.trim());
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let server = started(dir.path(), &[]);
    // A server that does not get to run accepts none.
    server.signal("STOP");
    let open = || TcpStream::connect_timeout(&server.address, Duration::from_millis(900));
    let streams: Vec<TcpStream> = (0..BURST).map(|_| open().expect("the system keeps it")).collect();
    server.signal("CONT");
    is_well(&server);
    assert_eq!(streams.len(), BURST);
}

/// The status and the body of the response to these bytes.
fn refused(server: &Server, bytes: &str) -> (u16, String) {
    let mut client = server.connect();
    client.send(bytes.as_bytes()).unwrap();
    let reply = client.reply(false).unwrap();
    assert_eq!(reply.header("content-type"), Some("application/problem+json"), "{bytes}");
    assert!(client.reply_head().is_err() || reply.status == 400, "{bytes}: it is closed");
    (reply.status, reply.text().to_owned())
}

#[test]
fn heads_that_can_be_understood_in_two_ways_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let server = started(dir.path(), &["--head-timeout", "2"]);
    let put = "PUT /v0/entity?id=x HTTP/1.1\r\n";
    let body = "content-length: 1\r\n\r\nx";
    for (bytes, said) in [
        (
            format!("{put}host: a\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
            "cannot be combined",
        ),
        (
            format!("{put}host: a\r\ntransfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n0\r\n\r\n"),
            "cannot be combined",
        ),
        (format!("{put}{body}"), "has 0"),
        (format!("{put}host: a\r\nhost: a\r\n{body}"), "has 2"),
        (format!("{put}host: a\r\nx: y\r\n z\r\n{body}"), "next line"),
        (format!("{put}host: a\n{body}"), "line feed"),
        (format!("{put}host: a\r\nx: y\rz\r\n{body}"), "malformed"),
        ("GET / HTTP/9.9\r\n\r\n".to_owned(), "not HTTP/1.1"),
    ] {
        let (status, detail) = refused(&server, &bytes);
        assert_eq!(status, 400, "{bytes}");
        assert!(detail.contains(said), "{bytes}: {detail}");
    }
    assert_eq!(server.ask("GET", "/v0/entity?id=x", b"").status, 404, "nothing of it was stored");
    let long_header = format!("GET /v0/status HTTP/1.1\r\nx: {}\r\n\r\n", "a".repeat(200_000));
    let (status, detail) = refused(&server, &long_header);
    assert!(status == 431 && detail.contains("--max-head"), "{status}: {detail}");
    // The rest of this head never comes.
    let (status, detail) = refused(&server, "GET /v0/status HTTP/1.1\r\nhost:");
    assert!(status == 408 && detail.contains("in time"), "{status}: {detail}");
    // HTTP/1.0 has no `host`.
    let mut old = server.connect();
    old.send(b"GET /v0/status HTTP/1.0\r\n\r\n").unwrap();
    assert_eq!(old.reply_head().unwrap().status, 200);
    is_well(&server);
}

#[test]
fn a_client_that_sends_nothing_more_is_answered() {
    let dir = tempfile::tempdir().unwrap();
    let server = started(dir.path(), &[]);
    let value = vec![7; 900_000];
    assert_eq!(server.ask("PUT", "/v0/entity?id=long", &value).status, 201);
    let sql = r#"{"sql": "SELECT 1"}"#;
    let statements = format!(
        "POST /v1/databases/default/sql HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n{sql}",
        sql.len()
    );
    let asked = ["GET /v0/entity?id=long HTTP/1.1\r\nhost: a\r\n\r\n".to_owned(), statements];
    for request in &asked[..if cfg!(feature = "sql") { 2 } else { 1 }] {
        let mut client = server.connect();
        client.send(request.as_bytes()).unwrap();
        client.stream.get_ref().shutdown(std::net::Shutdown::Write).unwrap();
        // It is taken slowly, and whole.
        std::thread::sleep(Duration::from_millis(300));
        let reply = client.reply(false).unwrap();
        assert_eq!(reply.status, 200, "{request}");
        assert!(reply.body == value || reply.text().contains("\"done\":true"), "{request}");
        assert!(client.reply_head().is_err(), "the server closes, too");
    }
}
