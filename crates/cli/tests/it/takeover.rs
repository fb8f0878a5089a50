//! Servers that take over from one that is alive, and that writes at full speed.

use crate::common::{pando, text};
use crate::http::{Client, Server};
use std::net::SocketAddr;
use std::path::Path;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How many clients write.
const CLIENTS: u64 = 4;

/// Starts clients that put keys until a write is refused. Each returns how many of its keys were acknowledged.
fn write_until_fenced(address: SocketAddr) -> Vec<JoinHandle<u64>> {
    let client = move |name: u64| {
        let mut client = Client::connect(address);
        let begun = Instant::now();
        for n in 0.. {
            let reply = client.ask("PUT", &format!("/v0/entity?id={name}-{n}"), &[], b"v");
            if reply.status != 201 {
                assert!(
                    reply.status == 503 && reply.text().contains("urn:pando:problem:fenced"),
                    "{} {}",
                    reply.status,
                    reply.text()
                );
                return n;
            }
            assert!(begun.elapsed() < Duration::from_secs(120), "the writer was never fenced");
        }
        unreachable!()
    };
    (0..CLIENTS).map(|name| thread::spawn(move || client(name))).collect()
}

/// Checks that `successor` accepts writes, and has everything that was acknowledged by the server before it.
fn check(successor: &Server, clients: Vec<JoinHandle<u64>>) {
    let reply = successor.ask("PUT", "/v0/entity?id=new", b"1");
    assert_eq!(reply.status, 201, "{}", reply.text());
    for (name, client) in clients.into_iter().enumerate() {
        let acknowledged = client.join().unwrap();
        assert!(acknowledged > 0);
        for n in 0..acknowledged {
            let reply = successor.ask("GET", &format!("/v0/entity?id={name}-{n}"), b"");
            assert_eq!(reply.status, 200, "{name}-{n} of {acknowledged} was acknowledged, and is lost");
        }
    }
}

fn metric(server: &Server, name: &str) -> String {
    let page = server.ask("GET", "/metrics", b"").text().to_owned();
    let line = page.lines().find(|line| line.starts_with(name));
    line.unwrap_or_else(|| panic!("{name} in {page}")).rsplit(' ').next().unwrap().to_owned()
}

fn start(dir: &Path, ship: &[&str], more: &[&str]) -> Server {
    Server::start_with(dir, &[ship, more].concat())
}

#[test]
fn a_server_takes_over_from_one_that_writes_at_full_speed() {
    let dir = tempfile::tempdir().unwrap();
    let bucket = dir.path().join("bucket").to_str().unwrap().to_owned();
    let ship = ["--ship", &bucket, "--ship-mode", "sync", "--follow-interval", "20ms"];
    let first = start(&dir.path().join("a"), &ship, &[]);
    let clients = write_until_fenced(first.address);
    thread::sleep(Duration::from_millis(500));
    // One in an empty directory.
    let second = start(&dir.path().join("b"), &ship, &["--ship-held", "take-over"]);
    check(&second, clients);
    assert_eq!(metric(&first, "pando_ship_fenced"), "1");
    // It stays the writer when it is started again.
    second.kill();
    let second = start(&dir.path().join("b"), &ship, &["--ship-held", "take-over"]);
    // A running replica.
    let third = start(&dir.path().join("c"), &ship, &[]);
    let clients = write_until_fenced(second.address);
    thread::sleep(Duration::from_millis(500));
    let said = text(pando(["promote", &format!("http://{}", third.address), "--format", "csv"]));
    assert!(said.starts_with("database,commit\ndefault,"), "{said}");
    check(&third, clients);
    // The directory of a replica that was stopped.
    let fourth = start(&dir.path().join("d"), &ship, &[]);
    fourth.kill();
    let clients = write_until_fenced(third.address);
    thread::sleep(Duration::from_millis(500));
    let fourth = start(&dir.path().join("d"), &ship, &["--ship-held", "take-over"]);
    check(&fourth, clients);
    // A server whose directory does not continue the lineage says that it is not the writer.
    third.kill();
    let third = start(&dir.path().join("c"), &ship, &[]);
    let refused = third.ask("PUT", "/v0/entity?id=late", b"1");
    assert_eq!(refused.status, 503, "{}", refused.text());
    assert_eq!(metric(&third, "pando_ship_fenced"), "1");
}
