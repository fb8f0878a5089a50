//! The `/v0` contract from outside: a server in a process of its own, spoken to over sockets.

use crate::http::{Client, Server, escape};
use crate::serving::command;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn entity(id: &[u8]) -> String {
    format!("/v0/entity?id={}", escape(id))
}

#[test]
fn what_is_put_is_got_until_it_is_deleted() {
    let dir = tempfile::tempdir().unwrap();
    puts_and_deletes(&Server::start(dir.path()));
}

/// The contract of single records.
pub fn puts_and_deletes(server: &Server) {
    let mut client = server.connect();
    let mut ask = |method, body: &[u8]| {
        let reply = client.ask(method, "/v0/entity?id=k", &[], body);
        (reply.status, reply.body)
    };
    assert_eq!(ask("GET", b"").0, 404);
    assert_eq!(ask("DELETE", b"").0, 202, "also where it is absent");
    assert_eq!(ask("PUT", b"one").0, 201);
    assert_eq!(ask("GET", b""), (200, b"one".to_vec()));
    assert_eq!(ask("PUT", b"two").0, 201);
    assert_eq!(ask("GET", b""), (200, b"two".to_vec()), "the last write wins");
    assert_eq!(ask("PUT", b"").0, 201);
    assert_eq!(ask("GET", b""), (200, Vec::new()), "an empty value is a value");
    assert_eq!(ask("DELETE", b"").0, 202);
    assert_eq!(ask("GET", b"").0, 404);
    assert_eq!(ask("DELETE", b"").0, 202);
}

#[test]
fn the_records_are_those_of_an_lsm_table_of_the_default_database() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let table = server.ask("GET", "/v1/databases/default/tables/entity", b"");
    assert!(table.text().contains("\"layout\":\"lsm\""), "{}", table.text());
    assert_eq!(server.ask("PUT", "/v0/entity?id=k", b"v").status, 201);
    assert_eq!(server.ask("GET", "/v1/databases/default/tables/entity/entries/k", b"").body, b"v");
}

#[test]
fn what_does_not_fit_the_contract_is_refused_as_it_says() {
    let dir = tempfile::tempdir().unwrap();
    refuses(&Server::start(dir.path()));
}

/// The statuses of requests that do not fit the contract.
pub fn refuses(server: &Server) {
    let cases = [
        ("GET", "/v0/entity", 400),
        ("GET", "/v0/entity?id=", 400),
        ("GET", "/v0/entity?id", 400),
        ("GET", "/v0/entity?other=1", 400),
        ("PUT", "/v0/entity", 400),
        ("PUT", "/v0/entity?id=", 400),
        ("DELETE", "/v0/entity", 400),
        ("DELETE", "/v0/entity?id=", 400),
        ("PUT", "/v0/entity?id", 400),
        ("DELETE", "/v0/entity?id", 400),
        ("DELETE", "/v0/entity?ids=k", 400),
        ("GET", "/v0/entity?id=%zz", 400),
        ("GET", "/v0/entity?id=%4", 400),
        ("POST", "/v0/entity?id=k", 405),
        ("HEAD", "/v0/entity?id=k", 404),
        ("PATCH", "/v0/entity?id=k", 405),
        ("OPTIONS", "/v0/entity", 405),
        ("GET", "/v0/entities", 400),
        ("GET", "/v0/entities?start=", 400),
        ("GET", "/v0/entities?end=z", 400),
        ("GET", "/v0/entities?start=a", 200),
        ("GET", "/v0/entities?start=b&end=a", 200),
        ("GET", "/v0/status", 200),
        ("GET", "/v0", 400),
        ("GET", "/v0/", 400),
        ("GET", "/v0/nothing", 400),
        ("PUT", "/v0/entity/", 400),
        ("GET", "/v0/entity/more?id=k", 400),
        ("DELETE", "/v0/a/b/c", 400),
        ("GET", "/v0x", 404),
        ("GET", "/nothing", 404),
        ("PUT", "/v00/entity?id=k", 404),
    ];
    for (method, target, status) in cases {
        let reply = server.ask(method, target, b"");
        assert_eq!(reply.status, status, "{method} {target}");
        if status >= 400 && method != "HEAD" {
            assert_eq!(reply.header("content-type"), Some("application/problem+json"), "{method} {target}");
        }
    }
    let too_long = entity(&[b'k'; 5000]);
    assert_eq!(server.ask("PUT", &too_long, b"v").status, 400, "longer than any key");
    assert_eq!(server.ask("GET", &too_long, b"").status, 404);
    // A part would replace the value that it is a part of.
    assert_eq!(server.ask("PUT", "/v0/entity?id=whole", b"ABCDEF").status, 201);
    let part = [("content-range", "bytes 4-5/6")];
    for target in ["/v0/entity?id=whole", "/v1/databases/default/tables/entity/entries/whole"] {
        let refused = server.ask_with("PUT", target, &part, b"EF");
        assert!(
            refused.status == 400 && refused.text().contains("send the whole value"),
            "{}",
            refused.text()
        );
    }
    assert_eq!(server.ask("GET", "/v0/entity?id=whole", b"").text(), "ABCDEF");
    assert_eq!(server.ask("DELETE", "/v0/entity?id=whole", b"").status, 202);
}

#[test]
fn ids_and_values_are_bytes() {
    let dir = tempfile::tempdir().unwrap();
    takes_any_bytes(&Server::start(dir.path()));
}

/// Keys and values of any bytes.
pub fn takes_any_bytes(server: &Server) {
    let mut client = server.connect();
    for byte in 0..=255u8 {
        let value = [byte, 255 - byte, b'\n', 0];
        assert_eq!(client.ask("PUT", &entity(&[byte, b'x']), &[], &value).status, 201, "{byte}");
    }
    for byte in 0..=255u8 {
        let reply = client.ask("GET", &entity(&[byte, b'x']), &[], b"");
        assert_eq!((reply.status, reply.body), (200, vec![byte, 255 - byte, b'\n', 0]), "{byte}");
    }
    // A plus is a plus, and what is escaped is what is not.
    assert_eq!(client.ask("PUT", "/v0/entity?id=a+b", &[], b"plus").status, 201);
    assert_eq!(client.ask("GET", "/v0/entity?id=%61%2Bb", &[], b"").body, b"plus");
    assert_eq!(client.ask("GET", "/v0/entity?id=a%20b", &[], b"").status, 404);
}

#[test]
fn a_range_is_in_order_a_record_a_chunk() {
    let dir = tempfile::tempdir().unwrap();
    sends_ranges(&Server::start(dir.path()));
}

/// The contract of ranges.
pub fn sends_ranges(server: &Server) {
    let mut client = server.connect();
    let ids: [&[u8]; 7] = [b"a", b"a\0", b"a\n", b"ab", b"b", b"\xff", b"\xff\xff"];
    for id in ids.iter().rev() {
        assert_eq!(client.ask("PUT", &entity(id), &[], &[b"v", *id].concat()).status, 201);
    }
    assert_eq!(client.ask("PUT", &entity(b"b"), &[], b"").status, 201);
    let mut range = |query: &str| {
        let reply = client.ask("GET", &format!("/v0/entities?{query}"), &[], b"");
        assert_eq!((reply.status, reply.header("transfer-encoding")), (200, Some("chunked")), "{query}");
        reply.chunks
    };
    let record = |id: &[u8]| match id {
        b"b" => b"b\n".to_vec(),
        id => [id, b"\nv", id].concat(),
    };
    assert_eq!(range("start=%00"), ids.map(record));
    assert_eq!(range("start=a&end=b"), [&b"a"[..], b"a\0", b"a\n", b"ab"].map(record));
    assert_eq!(range("start=a%00&end=%ff"), [&b"a\0"[..], b"a\n", b"ab", b"b"].map(record));
    assert_eq!(range("start=c&end=d"), [[0u8; 0]; 0]);
    assert_eq!(range("start=b&end=a"), [[0u8; 0]; 0]);
    assert_eq!(range("start=b&end="), [[0u8; 0]; 0], "nothing is before the empty key");
}

#[test]
fn a_range_larger_than_memory_is_streamed() {
    let dir = tempfile::tempdir().unwrap();
    streams_ranges(&Server::start_with(dir.path(), &["--memory", "32M", "--durability", "buffered"]));
}

/// A range that is longer than what the server may use of memory.
pub fn streams_ranges(server: &Server) {
    const VALUE_BYTES: usize = 100_000;
    const RECORDS: usize = 2_000;
    let mut client = server.connect();
    for n in 0..RECORDS {
        let value = vec![n as u8; VALUE_BYTES];
        assert_eq!(client.ask("PUT", &format!("/v0/entity?id={n:08}"), &[], &value).status, 201);
    }
    let before = server.resident_bytes();
    // A client that takes its time at first: nothing piles up for it meanwhile.
    client.send(b"GET /v0/entities?start=0 HTTP/1.1\r\nhost: test\r\n\r\n").unwrap();
    assert_eq!(client.reply_head().unwrap().status, 200);
    std::thread::sleep(Duration::from_millis(300));
    let mut grown = 0;
    for n in 0..RECORDS {
        let chunk = client.chunk().unwrap().expect("a record");
        let (key, value) = chunk.split_at(9);
        assert_eq!(key, format!("{n:08}\n").as_bytes());
        assert!(value.len() == VALUE_BYTES && value.iter().all(|&byte| byte == n as u8));
        if n % 100 == 0 {
            grown = grown.max(server.resident_bytes().saturating_sub(before));
        }
    }
    assert_eq!(client.chunk().unwrap(), None);
    assert!(grown < 48 << 20, "it grew by {} MiB over {} MiB of records", grown >> 20, RECORDS / 10);
}

#[test]
fn long_values_are_stored_up_to_the_limit_and_nothing_beyond() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_with(dir.path(), &["--memory", "32M"]);
    let pattern = |bytes: usize| (0..bytes).map(|at| (at / 7) as u8).collect::<Vec<u8>>();
    let limit = 64 << 20;
    for bytes in [16 << 10, (16 << 10) + 1, 1 << 20, (1 << 20) + 1, 10_000_000, limit] {
        let value = pattern(bytes);
        assert_eq!(server.ask("PUT", &format!("/v0/entity?id=long{bytes}"), &value).status, 201, "{bytes}");
        let got = server.ask("GET", &format!("/v0/entity?id=long{bytes}"), b"");
        assert!(got.status == 200 && got.body == value, "{bytes}");
    }
    assert!(server.resident_bytes() < 128 << 20, "values pass through");
    // In a range, each is one chunk all the same.
    let range = server.ask("GET", "/v0/entities?start=long&end=long9", b"");
    let lengths: Vec<_> = range.chunks.iter().map(|chunk| chunk.len()).collect();
    let key_bytes = |bytes: usize| format!("long{bytes}\n").len();
    let mut expected = [1 << 20, (1 << 20) + 1, 10_000_000, 16 << 10, (16 << 10) + 1, limit];
    expected.sort_by_key(|bytes| bytes.to_string());
    assert_eq!(lengths, expected.map(|bytes| key_bytes(bytes) + bytes));
    let over = pattern(limit + 1);
    assert_eq!(server.ask("PUT", "/v0/entity?id=over", &over).status, 413);
    assert_eq!(server.ask("GET", "/v0/entity?id=over", b"").status, 404, "nothing was stored");
    assert_eq!(server.ask("PUT", "/v0/entity?id=over", b"short").status, 201);
    assert_eq!(server.ask("PUT", "/v0/entity?id=over", &over).status, 413);
    assert_eq!(server.ask("GET", "/v0/entity?id=over", b"").body, b"short", "nor was anything lost");
    assert_eq!(server.ask("DELETE", "/v0/entity?id=over", b"").status, 202);
    // The same without a length: it is noticed on the way.
    let mut client = server.connect();
    let head = "PUT /v0/entity?id=over HTTP/1.1\r\nhost: test\r\ntransfer-encoding: chunked\r\n\r\n";
    client.send(head.as_bytes()).unwrap();
    for piece in over.chunks(1 << 20) {
        client.send(format!("{:x}\r\n", piece.len()).as_bytes()).unwrap();
        client.send(piece).unwrap();
        client.send(b"\r\n").unwrap();
    }
    client.send(b"0\r\n\r\n").unwrap();
    assert_eq!(client.reply(false).unwrap().status, 413);
    assert_eq!(server.ask("GET", "/v0/entity?id=over", b"").status, 404, "nothing was stored");
}

#[test]
fn a_client_that_leaves_in_the_middle_of_a_value_stores_nothing() {
    let dir = tempfile::tempdir().unwrap();
    forgets_clients_that_leave(&Server::start(dir.path()));
}

/// Bodies that do not arrive as a whole.
pub fn forgets_clients_that_leave(server: &Server) {
    for bytes in [100, 3 << 20] {
        let mut client = server.connect();
        let head =
            format!("PUT /v0/entity?id=half HTTP/1.1\r\nhost: test\r\ncontent-length: {bytes}\r\n\r\n");
        client.send(head.as_bytes()).unwrap();
        client.send(&vec![1; bytes / 2]).unwrap();
        drop(client);
    }
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(server.ask("GET", "/v0/entity?id=half", b"").status, 404);
}

#[test]
fn what_was_acknowledged_survives_an_end_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_with(dir.path(), &["--durability", "lazy"]);
    assert_eq!(server.ask("PUT", "/v0/entity?id=k", b"kept").status, 201);
    assert_eq!(server.terminate().code(), Some(0));
    let server = Server::start(dir.path());
    assert_eq!(server.ask("GET", "/v0/entity?id=k", b"").body, b"kept");
    assert_eq!(server.terminate().code(), Some(0));
    std::fs::remove_dir_all(dir.path()).unwrap();
    let server = Server::start(dir.path());
    assert_eq!(server.ask("GET", "/v0/entity?id=k", b"").status, 404, "a wiped directory is an empty store");
}

#[test]
fn a_request_under_way_is_answered_at_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let (mut client, address) = (server.connect(), server.address);
    client.begin_put("/v0/entity?id=late", 4);
    client.send(b"la").unwrap();
    let ended = std::thread::spawn(move || server.terminate());
    // The signal has arrived once nobody else is let in.
    let begun = Instant::now();
    while std::net::TcpStream::connect(address).is_ok() {
        assert!(begun.elapsed() < Duration::from_secs(20), "it goes on");
        std::thread::sleep(Duration::from_millis(5));
    }
    client.send(b"te").unwrap();
    assert_eq!(client.reply(false).unwrap().status, 201);
    assert_eq!(ended.join().unwrap().code(), Some(0));
    let server = Server::start(dir.path());
    assert_eq!(server.ask("GET", "/v0/entity?id=late", b"").body, b"late");
}

#[test]
fn a_second_server_on_the_directory_is_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let refused = command(dir.path(), &[]).output().unwrap();
    assert_eq!(refused.status.code(), Some(4));
    let message = String::from_utf8(refused.stderr).unwrap();
    assert!(message.contains(&format!("process {}", server.id())), "{message}");
    assert!(refused.stdout.is_empty(), "it does not claim to serve");
}

#[test]
fn what_cannot_be_served_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let served = dir.path().join("served");
    let server = Server::start(&served);
    let port = server.address.to_string();
    let file = dir.path().join("file");
    std::fs::write(&file, b"").unwrap();
    let unguarded = dir.path().join("unguarded");
    std::fs::create_dir(&unguarded).unwrap();
    std::fs::write(unguarded.join("tokens.json"), b"{").unwrap();
    let cases: [(PathBuf, &[&str], i32, &str); 5] = [
        (dir.path().join("other"), &["--listen", &port], 1, "choose another with --listen"),
        (served.join("default"), &[], 2, "name the directory above it"),
        (file, &[], 2, "is not a directory"),
        (unguarded, &[], 2, "pando token create"),
        (dir.path().join("new"), &["--listen", "here"], 2, "as in 127.0.0.1:7263"),
    ];
    for (what, options, code, said) in cases {
        let refused = command(&what, options).output().unwrap();
        let message = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(code), "{message}");
        assert!(message.contains(said) && !message.contains("salvage"), "{message}");
        assert!(refused.stdout.is_empty(), "it does not claim to serve");
    }
    assert!(!served.join("default/default").exists(), "nothing was made in the database");
}

/// The acknowledged state of each key: what was last acknowledged, and what it may hold because nobody knows.
type Acknowledged = BTreeMap<u32, (Option<u32>, Option<Option<u32>>)>;

/// Threads that write, each keys of its own.
const WRITERS: u32 = 4;
/// Keys of a thread.
const KEYS: u32 = 500;

/// Writes until `stop` or the server's end, and returns how many writes were acknowledged. Thread `thread` has the
/// keys that leave it as the remainder.
fn write(address: std::net::SocketAddr, thread: u32, state: &Mutex<Acknowledged>, stop: &AtomicBool) -> u64 {
    let mut client = Client::connect(address);
    let mut acknowledged = 0;
    for round in 0u32.. {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        let key = (round * 7 % KEYS) * WRITERS + thread;
        let wanted = (round % 5 != 4).then_some(round);
        state.lock().unwrap().entry(key).or_default().1 = Some(wanted);
        let target = format!("/v0/entity?id={key}");
        let (reply, status) = match wanted {
            Some(value) => (client.try_ask("PUT", &target, &[], value.to_string().as_bytes()), 201),
            None => (client.try_ask("DELETE", &target, &[], b""), 202),
        };
        // No answer: it may have been stored, or not.
        let Ok(reply) = reply else { break };
        assert_eq!(reply.status, status);
        state.lock().unwrap().insert(key, (wanted, None));
        acknowledged += 1;
    }
    acknowledged
}

/// `PANDO_KILLS=200 cargo test ... survives_a_kill` does it so often; usually it is six times.
#[test]
fn what_was_acknowledged_survives_a_kill_under_load() {
    let kills = std::env::var("PANDO_KILLS").map_or(6, |kills| kills.parse().expect("a number of kills"));
    let dir = tempfile::tempdir().unwrap();
    survives_kills(kills, |round| {
        let durability = ["buffered", "sync"][round % 2];
        Server::start_with(dir.path(), &["--durability", durability])
    });
}

/// Kills the server that `start` starts, while it is written to, and looks for what was acknowledged in the next one.
pub fn survives_kills(kills: usize, start: impl Fn(usize) -> Server) {
    let state = Mutex::new(Acknowledged::new());
    let mut acknowledged = 0;
    for round in 0..=kills {
        let server = start(round);
        let stop = AtomicBool::new(false);
        let mut client = server.connect();
        for (key, (known, maybe)) in &mut *state.lock().unwrap() {
            let reply = client.ask("GET", &format!("/v0/entity?id={key}"), &[], b"");
            let found = (reply.status == 200).then(|| reply.text().parse().unwrap());
            assert!(
                found == *known || Some(found) == *maybe,
                "key {key}: {found:?}, not {known:?}, {maybe:?}"
            );
            (*known, *maybe) = (found, None);
        }
        if round == kills {
            break;
        }
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|thread| {
                    let (address, state, stop) = (server.address, &state, &stop);
                    scope.spawn(move || write(address, thread, state, stop))
                })
                .collect();
            // At any moment, but not before anything was stored.
            let begun = Instant::now();
            std::thread::sleep(Duration::from_millis(150 + 60 * (round as u64 % 8)));
            while state.lock().unwrap().len() < 40 && begun.elapsed() < Duration::from_secs(20) {
                std::thread::sleep(Duration::from_millis(5));
            }
            server.kill();
            stop.store(true, Ordering::SeqCst);
            acknowledged += writers.into_iter().map(|writer| writer.join().unwrap()).sum::<u64>();
        });
    }
    let keys = state.lock().unwrap().len();
    println!("{kills} kills, {acknowledged} acknowledged writes of {keys} keys, none lost");
    assert!(keys > 20 && acknowledged > 20);
}
