//! Clients of HTTP/2 that mean no good: bounded work, bounded memory, and others are served meanwhile.

use crate::http::Server;
use crate::http2::{Client, read, request, run};
use crate::serve_hostile::{is_well, started};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// The header list of `GET /healthz` at the host `t`, each field without an entry in a table: method, scheme, path and
/// authority.
const HEALTH: &[u8] = b"\x82\x86\x04\x08/healthz\x01\x01t";

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A connection that has sent its preface.
fn connect(server: &Server) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
    stream.write_all(&[PREFACE, &frame(SETTINGS, 0, 0, b"")].concat()).unwrap();
    stream
}

/// Sends `bytes` up to `times`, until the server takes no more. Returns how often it took them.
fn flood(stream: &mut TcpStream, bytes: &[u8], times: usize) -> usize {
    (0..times).take_while(|_| stream.write_all(bytes).is_ok()).count()
}

/// Waits until the server closes the connection.
#[track_caller]
fn is_closed(mut stream: TcpStream) {
    let begun = Instant::now();
    let mut buffer = [0; 4096];
    while stream.read(&mut buffer).is_ok_and(|bytes| bytes > 0) {
        assert!(begun.elapsed() < Duration::from_secs(20), "it is still open");
    }
    assert!(begun.elapsed() < Duration::from_secs(20), "it is still open");
}

/// The longest of the quickest 99 of 100 requests that others send while `attack` runs.
fn p99_beside(server: &Server, attack: impl FnOnce() + Send) -> Duration {
    let is_over = AtomicBool::new(false);
    let mut took = std::thread::scope(|scope| {
        let others = scope.spawn(|| {
            let mut client = server.connect();
            let mut took = Vec::new();
            while !is_over.load(Ordering::SeqCst) || took.len() < 200 {
                let begun = Instant::now();
                assert_eq!(client.ask("GET", "/v0/entity?id=k", &[], b"").status, 200);
                took.push(begun.elapsed());
                std::thread::sleep(Duration::from_millis(1));
            }
            took
        });
        attack();
        is_over.store(true, Ordering::SeqCst);
        others.join().unwrap()
    });
    took.sort_unstable();
    took[took.len() * 99 / 100]
}

/// What the others' p99 beside an attack is compared with: that alone, and that beside a thread that only computes, as
/// the attacker's does.
struct Controls {
    alone: Duration,
    busy: Duration,
}

impl Controls {
    fn of(server: &Server) -> Controls {
        let alone = p99_beside(server, || std::thread::sleep(Duration::from_millis(500)));
        let busy = p99_beside(server, || {
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_millis(500) {
                std::hint::spin_loop();
            }
        });
        Controls { alone, busy }
    }

    /// Shows the p99 beside an attack. It must not be far above that alone; a busy machine has seconds.
    fn judge(&self, attack: &str, beside: Duration) {
        let Controls { alone, busy } = self;
        println!("{attack}: others' p99 {beside:?}; alone {alone:?}, beside a busy thread {busy:?}");
        assert!(
            beside < (*alone * 4).max(Duration::from_secs(1)),
            "{attack}: p99 {beside:?}, alone {alone:?}"
        );
    }
}

/// CVE-2023-44487: each reset frees the place of a stream, but not what was begun for it.
#[test]
fn ten_thousand_resets_hold_nobody_up() {
    let dir = tempfile::tempdir().unwrap();
    let server = started(dir.path(), &[]);
    let before = server.resident_bytes();
    let controls = Controls::of(&server);
    // Head and reset in one write: the library sees them before the request has begun. In two, the request has begun.
    for is_at_once in [true, false] {
        let beside = p99_beside(&server, || {
            let mut streams = 0;
            for _ in 0..50 {
                let mut stream = connect(&server);
                stream.set_nodelay(true).unwrap();
                // The response to this one waits for a change that does not come.
                let endless = b"\x82\x86\x04\x25/v1/databases/default/changes?wait=60\x01\x01t";
                for n in 0..200 {
                    let id = 2 * n + 1;
                    let head = frame(HEADERS, END_STREAM | END_HEADERS, id, endless);
                    let reset = frame(RST_STREAM, 0, id, &8_u32.to_be_bytes());
                    let sent = match is_at_once {
                        true => stream.write_all(&[head, reset].concat()),
                        false => stream.write_all(&head).and_then(|()| stream.write_all(&reset)),
                    };
                    if sent.is_err() {
                        break;
                    }
                    streams += 1;
                }
                is_closed(stream);
            }
            assert!(streams >= 1_000, "{streams} streams");
        });
        controls.judge(if is_at_once { "resets in one write" } else { "resets in two writes" }, beside);
        is_well(&server);
    }
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "it grew by {} MiB", grown >> 20);
}

#[test]
fn a_client_may_reset_some_of_its_requests() {
    let dir = tempfile::tempdir().unwrap();
    let server = started(dir.path(), &[]);
    run(async {
        let mut client = Client::connect(server.address).await;
        for _ in 0..200 {
            let changes = request("GET", "/v1/databases/default/changes");
            let (response, mut stream) = client.begin(changes, false).await.unwrap();
            let body = response.await.unwrap().into_body();
            stream.send_reset(h2::Reason::CANCEL);
            drop(body);
            for _ in 0..2 {
                assert_eq!(client.ask("GET", "/v0/entity?id=k", b"").await.body, b"v");
            }
        }
    });
    let metrics = server.ask("GET", "/metrics", b"");
    assert!(metrics.text().contains("pando_http2_resets_total 200\n"), "{}", metrics.text());
}

#[test]
fn floods_of_control_frames_take_no_memory() {
    let dir = tempfile::tempdir().unwrap();
    let server = started(dir.path(), &[]);
    let before = server.resident_bytes();
    let controls = Controls::of(&server);
    for (what, flood_of) in [
        ("PING", frame(PING, 0, 0, b"12345678")),
        ("SETTINGS", frame(SETTINGS, 0, 0, &[0, 4, 0, 1, 0, 0])),
        ("an empty SETTINGS", frame(SETTINGS, 0, 0, b"")),
    ] {
        let beside = p99_beside(&server, || {
            let mut stream = connect(&server);
            let many = flood_of.repeat(1_000);
            // Their acknowledgements are never read: the server stops reading when it cannot write.
            let taken = flood(&mut stream, &many, 3_000);
            assert!(taken < 3_000, "{what}: it took all of {} MB", 3 * flood_of.len());
        });
        controls.judge(what, beside);
        let grown = server.resident_bytes().saturating_sub(before);
        assert!(grown < 16 << 20, "{what}: it grew by {} MiB", grown >> 20);
    }
    is_well(&server);
}

/// CVE-2024-27983 and its kin: a header list that never ends.
#[test]
fn header_lists_without_an_end_take_no_memory() {
    let dir = tempfile::tempdir().unwrap();
    let server = started(dir.path(), &[]);
    let before = server.resident_bytes();
    let mut stream = connect(&server);
    stream.write_all(&frame(HEADERS, END_STREAM, 1, HEALTH)).unwrap();
    // A field without an entry in a table: a name of 1 byte, a value of 100.
    let field = [&b"\0\x01x\x64"[..], &[b'a'; 100]].concat();
    let taken = flood(&mut stream, &frame(CONTINUATION, 0, 1, &field.repeat(100)), 10_000);
    assert!(taken < 2_000, "it took {taken} pieces of 10 KB");
    is_closed(stream);
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 16 << 20, "it grew by {} MiB", grown >> 20);
    is_well(&server);
    run(async {
        let mut client = Client::connect(server.address).await;
        let mut long = request("GET", "/v0/entity?id=k");
        for n in 0..200 {
            let name = http::HeaderName::from_bytes(format!("x-{n}").as_bytes()).unwrap();
            long.headers_mut().insert(name, "a".repeat(1_000).parse().unwrap());
        }
        match client.try_send(long, b"").await {
            Ok(reply) => assert_eq!(reply.status, 431),
            Err(error) => assert!(error.is_reset() || error.is_go_away(), "{error}"),
        }
    });
    is_well(&server);
}

#[test]
fn bytes_that_are_no_frames_end_their_connection() {
    let dir = tempfile::tempdir().unwrap();
    let server = started(dir.path(), &["--head-timeout", "2"]);
    let cases: [(&str, Vec<u8>); 8] = [
        ("a bad preface", b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n".to_vec()),
        ("another request after PRI", b"PRI / HTTP/1.1\r\nhost: a\r\n\r\n".to_vec()),
        ("half a preface", PREFACE[..20].to_vec()),
        ("no frame after the preface", PREFACE.to_vec()),
        ("noise", [PREFACE, &[0xff; 4096]].concat()),
        ("a frame of 16 MB", [PREFACE, b"\xff\xff\xff\0\0\0\0\0\x01"].concat()),
        ("data without a head", [PREFACE, &frame(SETTINGS, 0, 0, b""), &frame(0, 0, 1, b"x")].concat()),
        (
            "a head for stream 0",
            [PREFACE, &frame(SETTINGS, 0, 0, b""), &frame(HEADERS, 5, 0, HEALTH)].concat(),
        ),
    ];
    for (what, bytes) in cases {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let _ = stream.write_all(&bytes);
        let begun = Instant::now();
        let mut heard = Vec::new();
        let _ = stream.read_to_end(&mut heard);
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}: it is still open");
    }
    is_well(&server);
}

#[test]
fn a_stream_whose_client_takes_nothing_is_reset_and_others_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let server = started(dir.path(), &["--head-timeout", "2", "--memory", "32M"]);
    assert_eq!(server.ask("PUT", "/v0/entity?id=long", &[7; 8 << 20]).status, 201);
    assert_eq!(server.ask("PUT", "/v0/entity?id=short", &[7; 60 << 10]).status, 201);
    run(async {
        let mut client = Client::with_window(server.address, 20 << 10).await;
        for target in ["/v0/entity?id=long", "/v0/entity?id=short", "/v0/entities?start=a"] {
            let (response, _) = client.begin(request("GET", target), false).await.unwrap();
            let response = response.await.unwrap();
            assert_eq!(response.status(), 200);
            let begun = Instant::now();
            let stalled = tokio::spawn(async move {
                // Data that has arrived is not taken.
                let mut body = response.into_body();
                loop {
                    match body.data().await {
                        Some(Ok(_)) => {}
                        Some(Err(error)) => return error,
                        None => panic!("the whole body has come"),
                    }
                }
            });
            while !stalled.is_finished() {
                assert_eq!(client.ask("GET", "/v0/entity?id=k", b"").await.body, b"v");
                tokio::time::sleep(Duration::from_millis(100)).await;
                assert!(begun.elapsed() < Duration::from_secs(30), "{target}: it is not reset");
            }
            assert!(stalled.await.unwrap().is_reset(), "{target}");
            assert!(begun.elapsed() > Duration::from_secs(1), "{target}: {:?}", begun.elapsed());
        }
        // Then there is no stream any more, and the connection ends in order.
        let begun = Instant::now();
        let Client { send, connection } = client;
        assert!(connection.await.unwrap().is_ok());
        drop(send);
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    });
    is_well(&server);
}

/// Reads frames until one of this kind comes. Returns its flags.
#[track_caller]
fn await_frame(stream: &mut TcpStream, kind: u8) -> u8 {
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).expect("the connection is open");
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        stream.read_exact(&mut vec![0; length as usize]).unwrap();
        if head[3] == kind {
            return head[4];
        }
    }
}

/// A request that arrives while its idle connection is closed, and that takes longer than the close.
#[test]
fn what_arrives_at_the_end_of_a_connection_is_completed() {
    let dir = tempfile::tempdir().unwrap();
    let server = started(dir.path(), &["--head-timeout", "2"]);
    let mut stream = connect(&server);
    await_frame(&mut stream, GOAWAY);
    let path = b"/v1/databases/default/changes?wait=4";
    let head = [b"\x82\x86\x04", &[path.len() as u8][..], path, b"\x01\x01t"].concat();
    stream.write_all(&frame(HEADERS, END_STREAM | END_HEADERS, 1, &head)).unwrap();
    let begun = Instant::now();
    await_frame(&mut stream, HEADERS);
    while await_frame(&mut stream, DATA) & END_STREAM == 0 {}
    assert!(begun.elapsed() > Duration::from_secs(3), "{:?}: it did not wait", begun.elapsed());
    is_closed(stream);
}

/// The library would wait for an acknowledgement of the end.
#[test]
fn clients_that_do_not_respond_do_not_hold_a_shutdown_up() {
    let dir = tempfile::tempdir().unwrap();
    let server = started(dir.path(), &["--drain", "60"]);
    let mut idle = connect(&server);
    idle.write_all(&frame(HEADERS, END_STREAM | END_HEADERS, 1, HEALTH)).unwrap();
    await_frame(&mut idle, HEADERS);
    let silent = TcpStream::connect(server.address).unwrap();
    let begun = Instant::now();
    assert_eq!(server.terminate().code(), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    drop((idle, silent));
}

/// One place for long values: a stalled stream loses it to another of the same connection, and only that stream ends.
#[test]
fn a_stream_that_loses_its_place_is_reset_alone() {
    let dir = tempfile::tempdir().unwrap();
    let server = started(dir.path(), &["--max-streams", "1", "--memory", "32M"]);
    assert_eq!(server.ask("PUT", "/v0/entity?id=long", &[7; 8 << 20]).status, 201);
    run(async {
        let mut client = Client::with_window(server.address, 20 << 10).await;
        let long = || request("GET", "/v0/entity?id=long");
        let (response, _) = client.begin(long(), false).await.unwrap();
        let stalled = response.await.unwrap().into_body();
        let (response, _) = client.begin(long(), false).await.unwrap();
        let next = response.await.unwrap();
        assert_eq!(next.status(), 200);
        assert_eq!(read(next.into_body()).await.unwrap().len(), 8 << 20);
        assert!(read(stalled).await.unwrap_err().is_reset());
        assert_eq!(client.ask("GET", "/v0/entity?id=k", b"").await.body, b"v");
    });
}

/// Responses wait in memory for clients that never open their windows.
#[test]
fn responses_that_nobody_takes_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    // With the default, the first responses would be given up while a slow machine still asks for the last.
    let server = started(dir.path(), &["--memory", "32M", "--head-timeout", "600"]);
    assert_eq!(server.ask("PUT", "/v0/entity?id=short", &[7; 60 << 10]).status, 201);
    let before = server.resident_bytes();
    run(async {
        let (mut held, mut clients) = (Vec::new(), Vec::new());
        let mut statuses = std::collections::BTreeMap::<u16, usize>::new();
        for _ in 0..100 {
            let mut client = Client::with_window(server.address, 0).await;
            for _ in 0..100 {
                let (response, _) = client.begin(request("GET", "/v0/entity?id=short"), false).await.unwrap();
                let response = response.await.unwrap();
                *statuses.entry(response.status().as_u16()).or_default() += 1;
                held.push(response);
            }
            clients.push(client);
        }
        // 600 MB were asked for. What is counted is 256 MiB, and each connection has 256 KiB of its own.
        assert!(statuses[&200] > 4_000 && statuses[&503] > 4_000, "{statuses:?}");
    });
    let grown = server.resident_bytes().saturating_sub(before);
    // 10,000 requests in progress take some kilobytes each, besides.
    assert!(grown < 800 << 20, "it grew by {} MiB", grown >> 20);
    is_well(&server);
}

/// Statements whose results would not fit are refused before they run, and not after they have changed something.
#[cfg(feature = "sql")]
#[test]
fn results_that_nobody_takes_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    // Clients that take nothing must not lose their requests while the test runs.
    let options = ["--memory", "32M", "--durability", "lazy", "--head-timeout", "600"];
    let server = started(dir.path(), &options);
    assert_eq!(server.ask("PUT", "/v0/entity?id=short", &[7; 60 << 10]).status, 201);
    let target = "/v1/databases/default/sql";
    let sql = |text: &str| server.ask("POST", target, format!("{{\"sql\":\"{text}\"}}").as_bytes());
    assert_eq!(sql("CREATE TABLE t(a)").status, 200);
    // 60 KB, which handlers do not count.
    let body = b"{\"sql\":\"INSERT INTO t VALUES (1); SELECT hex(zeroblob(30000))\"}";
    let mut statuses = std::collections::BTreeMap::<u16, usize>::new();
    run(async {
        let (mut held, mut clients, mut waiting) = (Vec::new(), Vec::new(), Vec::new());
        // The memory that all share fills up.
        let mut status = 200;
        while status == 200 {
            let mut client = Client::with_window(server.address, 0).await;
            for _ in 0..100 {
                let (response, _) = client.begin(request("GET", "/v0/entity?id=short"), false).await.unwrap();
                let response = response.await.unwrap();
                status = response.status().as_u16();
                held.push(response);
            }
            clients.push(client);
            assert!(clients.len() < 100, "no bound after {} responses", held.len());
        }
        // A connection has 256 KiB of its own.
        let mut client = Client::with_window(server.address, 0).await;
        // Requests whose bodies have not come hold none of it.
        for _ in 0..10 {
            waiting.push(client.begin(request("POST", target), true).await.unwrap());
        }
        for _ in 0..50 {
            let (response, mut stream) = client.begin(request("POST", target), true).await.unwrap();
            stream.send_data(bytes::Bytes::from_static(body), true).unwrap();
            let response = response.await.unwrap();
            *statuses.entry(response.status().as_u16()).or_default() += 1;
            held.push(response);
        }
    });
    assert_eq!(statuses.get(&200), Some(&4), "{statuses:?}");
    assert_eq!(statuses.get(&503), Some(&46), "{statuses:?}");
    let count = sql("SELECT count(*) FROM t");
    assert!(count.text().contains("\n[4]\n"), "{} beside {statuses:?}", count.text());
    // Those clients have gone, and their memory is free again: more is there than a connection has of its own.
    let begun = Instant::now();
    let are_taken = || {
        run(async {
            let mut client = Client::with_window(server.address, 0).await;
            let mut held = Vec::new();
            for _ in 0..20 {
                let (response, _) = client.begin(request("GET", "/v0/entity?id=short"), false).await.unwrap();
                held.push(response.await.unwrap());
            }
            held.iter().all(|response| response.status() == 200)
        })
    };
    while !are_taken() {
        assert!(begun.elapsed() < Duration::from_secs(30), "the memory is not free");
    }
    is_well(&server);
}

/// A client that sends bodies which nobody reads, because their requests wait.
#[test]
fn bodies_that_are_not_read_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let server = started(dir.path(), &[]);
    let before = server.resident_bytes();
    let mut streams = Vec::new();
    for _ in 0..20 {
        let mut stream = connect(&server);
        for n in 0..100_u32 {
            // `:method: POST`, to a path without a handler.
            let head = b"\x83\x86\x04\x08/healthz\x01\x01t";
            let mut bytes = frame(HEADERS, END_HEADERS, 2 * n + 1, head);
            bytes.extend(frame(0, 0, 2 * n + 1, &[7; 16_384]).repeat(4));
            if stream.write_all(&bytes).is_err() {
                break;
            }
        }
        streams.push(stream);
    }
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "it grew by {} MiB", grown >> 20);
    is_well(&server);
    for stream in streams {
        let _ = stream.shutdown(Shutdown::Both);
    }
    is_well(&server);
}

/// Head and reset in one write: the server knows of the reset before the request begins.
#[test]
fn a_request_that_its_client_has_given_up_does_not_begin() {
    let dir = tempfile::tempdir().unwrap();
    let server = started(dir.path(), &[]);
    let mut stream = connect(&server);
    let path = b"/v0/entity?id=k";
    let head = [&b"\x02\x06DELETE\x87\x04"[..], &[path.len() as u8], path, b"\x01\x01t"].concat();
    for n in 0..10 {
        let id = 2 * n + 1;
        let (begun, reset) = (frame(HEADERS, END_STREAM | END_HEADERS, id, &head), 8_u32.to_be_bytes());
        stream.write_all(&[begun, frame(RST_STREAM, 0, id, &reset)].concat()).unwrap();
    }
    // The response to this one comes after all of them.
    stream.write_all(&frame(HEADERS, END_STREAM | END_HEADERS, 21, HEALTH)).unwrap();
    await_frame(&mut stream, HEADERS);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(server.ask("GET", "/v0/entity?id=k", b"").text(), "v");
}

/// A reset without an error ends a body in the library, but the request was not complete.
#[test]
fn a_body_that_its_client_gives_up_is_not_stored() {
    let dir = tempfile::tempdir().unwrap();
    let server = started(dir.path(), &[]);
    let mut stream = connect(&server);
    stream.set_nodelay(true).unwrap();
    let import = "/v1/databases/default/tables/entity/entries";
    for n in 0..40_u32 {
        // PUT, and POST of records, with `https` and the authority `t`.
        let (method, path) = match n % 2 {
            0 => (&b"\x02\x03PUT"[..], format!("/v0/entity?id=cut-{n}")),
            _ => (&b"\x83"[..], import.to_owned()),
        };
        let mut head = [method, b"\x87\x04", &[path.len() as u8], path.as_bytes(), b"\x01\x01t"].concat();
        let body = format!("{{\"key\": \"cut-{n}\", \"value\": \"x\"}}\n");
        if n % 8 < 4 {
            // `content-length`: all bytes are there, but not the end.
            head.extend([&b"\x0f\x0d\x02"[..], body.len().to_string().as_bytes()].concat());
        }
        let id = 2 * n + 1;
        stream.write_all(&frame(HEADERS, END_HEADERS, id, &head)).unwrap();
        stream.write_all(&frame(DATA, 0, id, body.as_bytes())).unwrap();
        // A handler that waits for the rest of the body hears of the reset, and one that has not begun yet, too.
        if n % 4 < 2 {
            std::thread::sleep(Duration::from_millis(5));
        }
        stream.write_all(&frame(RST_STREAM, 0, id, &0_u32.to_be_bytes())).unwrap();
    }
    std::thread::sleep(Duration::from_millis(300));
    is_well(&server);
    let stored = server.ask("GET", "/v1/databases/default/tables/entity/entries?prefix=cut-", b"");
    assert_eq!((stored.status, stored.text()), (200, ""));
}
