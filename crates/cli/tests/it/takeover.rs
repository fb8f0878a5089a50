//! Servers that take over from one that is alive, and that writes at full speed.

use crate::common::{pando, text};
use crate::http::{Client, Server};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How many clients write.
const CLIENTS: u64 = 4;

/// Starts clients that put keys until a write is refused. Each returns how many of its keys were acknowledged. Waits
/// until each has put one.
fn write_until_fenced(address: SocketAddr) -> Vec<JoinHandle<u64>> {
    let client = move |name: u64, acknowledged: &AtomicU64| {
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
            acknowledged.store(n + 1, Ordering::SeqCst);
            assert!(begun.elapsed() < Duration::from_secs(120), "the writer was never fenced");
        }
        unreachable!()
    };
    let counts: Vec<Arc<AtomicU64>> = (0..CLIENTS).map(|_| Arc::default()).collect();
    let begin = |(name, count): (u64, &Arc<AtomicU64>)| {
        let count = Arc::clone(count);
        thread::spawn(move || client(name, &count))
    };
    let clients = (0..).zip(&counts).map(begin).collect();
    let begun = Instant::now();
    while counts.iter().any(|count| count.load(Ordering::SeqCst) == 0) {
        assert!(begun.elapsed() < Duration::from_secs(60), "not every client could put a key");
        thread::sleep(Duration::from_millis(20));
    }
    clients
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
    let said = text(pando(["promote", &format!("http://{}", third.address), "--format", "csv"]));
    assert!(said.starts_with("database,commit\ndefault,"), "{said}");
    check(&third, clients);
    // The directory of a replica that was stopped.
    let fourth = start(&dir.path().join("d"), &ship, &[]);
    fourth.kill();
    let clients = write_until_fenced(third.address);
    let fourth = start(&dir.path().join("d"), &ship, &["--ship-held", "take-over"]);
    check(&fourth, clients);
    // A server whose directory does not continue the lineage says that it is not the writer.
    third.kill();
    let third = start(&dir.path().join("c"), &ship, &[]);
    let refused = third.ask("PUT", "/v0/entity?id=late", b"1");
    assert_eq!(refused.status, 503, "{}", refused.text());
    assert_eq!(metric(&third, "pando_ship_fenced"), "1");
}

fn create(server: &Server, name: &str, key: &str) {
    let base = format!("/v1/databases/{name}");
    assert_eq!(server.ask("PUT", &base, b"{}").status, 201, "{name}");
    assert_eq!(server.ask("PUT", &format!("{base}/tables/t"), b"{}").status, 201, "{name}");
    assert_eq!(put(server, name, key), 204);
}

fn put(server: &Server, name: &str, key: &str) -> u16 {
    server.ask("PUT", &format!("/v1/databases/{name}/tables/t/entries/{key}"), b"v").status
}

fn get(server: &Server, name: &str, key: &str) -> u16 {
    server.ask("GET", &format!("/v1/databases/{name}/tables/t/entries/{key}"), b"").status
}

/// What the primary creates, and drops and creates again, after the replica has looked for databases.
fn change(primary: &Server) {
    create(primary, "fresh", "acknowledged");
    for name in ["shop", "gone"] {
        assert!(primary.ask("DELETE", &format!("/v1/databases/{name}"), b"").status < 300);
    }
    create(primary, "shop", "new");
}

/// Checks that `successor` has everything that `old` has acknowledged, and that `old` acknowledges nothing more.
fn check_databases(successor: &Server, old: &Server) {
    assert_eq!((get(successor, "fresh", "acknowledged"), get(successor, "shop", "new")), (200, 200));
    assert_eq!((get(successor, "shop", "old"), get(successor, "gone", "old")), (404, 404));
    for name in ["fresh", "shop"] {
        assert_eq!(put(old, name, "of-the-old"), 503, "{name} is not fenced");
        assert_eq!(put(successor, name, "of-the-successor"), 204, "{name}");
    }
    let refused = old.ask("PUT", "/v1/databases/later", b"{}");
    assert!(refused.status == 503 && refused.text().contains("problem:fenced"), "{}", refused.text());
    create(successor, "later", "k");
}

#[test]
fn a_promotion_takes_over_databases_that_the_replica_has_not_seen() {
    let dir = tempfile::tempdir().unwrap();
    let bucket = dir.path().join("bucket").to_str().unwrap().to_owned();
    let ship = ["--ship", &bucket, "--ship-mode", "sync", "--follow-interval", "20ms"];
    let old = start(&dir.path().join("a"), &ship, &[]);
    create(&old, "shop", "old");
    create(&old, "gone", "old");
    // A replica that is not running, and one that is.
    let stopped = dir.path().join("b");
    start(&stopped, &ship, &[]).kill();
    let running = start(&dir.path().join("c"), &ship, &[]);
    change(&old);
    text(pando(["promote", &format!("http://{}", running.address)]));
    check_databases(&running, &old);
    assert!(running.ask("DELETE", "/v1/databases/fresh", b"").status < 300);
    create(&running, "fresh", "acknowledged");
    let said = text(pando(["promote", stopped.to_str().unwrap(), "--format", "csv"]));
    assert!(["\nfresh,", "\nlater,", "\nshop,"].iter().all(|name| said.contains(name)), "{said}");
    let started = start(&stopped, &ship, &[]);
    assert_eq!((get(&started, "shop", "of-the-successor"), get(&started, "later", "k")), (200, 200));
    check_refused(&running);
    // The bucket has what both have.
    assert!(started.terminate().success());
    let next = start(&dir.path().join("d"), &ship, &[]);
    assert_eq!((get(&next, "fresh", "acknowledged"), get(&next, "shop", "of-the-successor")), (200, 200));
}

fn check_refused(old: &Server) {
    for name in ["fresh", "shop", "later"] {
        assert_eq!(put(old, name, "late"), 503, "{name} is not fenced");
    }
}

/// The bucket has none of the default database, which every server creates.
#[test]
fn a_replica_of_a_bucket_without_a_default_database_is_promoted() {
    let dir = tempfile::tempdir().unwrap();
    let bucket = dir.path().join("bucket");
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    text(pando(["put", &at("db"), "t", "k", "v"]));
    text(pando(["ship", &at("db"), bucket.join("shop").to_str().unwrap(), "--once"]));
    let follow = ["--follow", bucket.to_str().unwrap(), "--follow-interval", "20ms"];
    let replica = start(&dir.path().join("replica"), &follow, &[]);
    assert_eq!(get(&replica, "shop", "k"), 200);
    text(pando(["promote", &format!("http://{}", replica.address)]));
    assert_eq!(put(&replica, "shop", "k2"), 204);
    assert_eq!(replica.ask("PUT", "/v0/entity?id=new", b"1").status, 201);
}
