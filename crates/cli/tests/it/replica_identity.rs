//! Replicas of a server whose source is another database, or another copy of theirs, with as many commits.

use crate::http::{Reply, Server};
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant};

/// The longest that a test waits for a replica.
const PATIENCE: Duration = Duration::from_secs(60);

fn url(server: &Server) -> String {
    format!("http://{}", server.address)
}

fn replica(dir: &Path, of: &str) -> Server {
    Server::start_with(dir, &["--follow", of])
}

fn json(reply: &Reply) -> Value {
    serde_json::from_slice(&reply.body).unwrap_or_else(|_| panic!("{}: {}", reply.status, reply.text()))
}

fn stat(server: &Server, database: &str, name: &str) -> u64 {
    let stats = json(&server.ask("GET", &format!("/v1/databases/{database}/stats"), b""));
    stats[name].as_u64().unwrap_or_else(|| panic!("{name} in {stats}"))
}

/// Waits until the replica has the commit.
fn await_commit(replica: &Server, database: &str, commit: u64) {
    let begun = Instant::now();
    while stat(replica, database, "replica_applied_commit") < commit {
        assert!(begun.elapsed() < PATIENCE, "{}", replica.ask("GET", "/v1/server", b"").text());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until the replica reports that it does not follow, and returns why.
fn await_refusal(replica: &Server, database: &str) -> String {
    let begun = Instant::now();
    let line = format!("pando_replica_up{{database=\"{database}\"}} 0");
    while !replica.ask("GET", "/metrics", b"").text().contains(&line) {
        assert!(begun.elapsed() < Duration::from_secs(10), "it reports that it follows");
        std::thread::sleep(Duration::from_millis(50));
    }
    // It stays so, although the source can be reached.
    std::thread::sleep(Duration::from_millis(1500));
    assert!(replica.ask("GET", "/metrics", b"").text().contains(&line), "it reports that it follows");
    replica.ask("GET", "/v1/server", b"").text().to_owned()
}

fn put(server: &Server, database: &str, key: &str) -> u64 {
    let reply = server.ask("PUT", &format!("/v1/databases/{database}/tables/t/entries/{key}"), b"v");
    assert!(reply.status < 300, "{}", reply.text());
    reply.header("pando-commit").unwrap().parse().unwrap()
}

#[test]
fn a_database_that_was_created_again_is_not_taken_for_the_old_one() {
    let dir = tempfile::tempdir().unwrap();
    let main = Server::start(&dir.path().join("primary"));
    let create = || {
        assert_eq!(main.ask("PUT", "/v1/databases/shop", b"{}").status, 201);
        assert_eq!(main.ask("PUT", "/v1/databases/shop/tables/t", b"{}").status, 201);
    };
    create();
    let other = replica(&dir.path().join("replica"), &url(&main));
    let commit = put(&main, "shop", "old");
    await_commit(&other, "shop", commit);
    assert_eq!(main.ask("DELETE", "/v1/databases/shop", b"").status, 204);
    create();
    assert_eq!(put(&main, "shop", "new"), commit, "it has as many commits");
    let said = await_refusal(&other, "shop");
    assert!(said.contains("follows another database, or another copy of it"), "{said}");
    assert!(other.ask("GET", "/metrics", b"").text().contains("pando_replica_up{database=\"default\"} 1"));
}

/// The old primary made a commit that one replica got, and another one, which is promoted, did not.
#[test]
fn a_replica_that_has_more_than_the_new_primary_does_not_follow_it() {
    let dir = tempfile::tempdir().unwrap();
    let main = Server::start(&dir.path().join("primary"));
    assert_eq!(main.ask("PUT", "/v1/databases/default/tables/t", b"{}").status, 201);
    let (one, two) = (dir.path().join("one"), dir.path().join("two"));
    let first = replica(&one, &url(&main));
    let second = replica(&two, &url(&main));
    let commit = put(&main, "default", "both");
    await_commit(&first, "default", commit);
    await_commit(&second, "default", commit);
    assert!(first.terminate().success());
    let commit = put(&main, "default", "second");
    await_commit(&second, "default", commit);
    assert!(second.terminate().success());
    drop(main);
    crate::common::stdout(crate::common::pando(["promote", one.to_str().unwrap()]));
    let first = Server::start(&one);
    assert_eq!(put(&first, "default", "first"), commit, "both have as many commits");
    let second = replica(&two, &url(&first));
    let said = await_refusal(&second, "default");
    assert!(said.contains("follows another database, or another copy of it"), "{said}");
    // A replica that begins anew follows.
    let third = replica(&dir.path().join("three"), &url(&first));
    await_commit(&third, "default", commit);
    assert!(third.ask("GET", "/metrics", b"").text().contains("pando_replica_up{database=\"default\"} 1"));
}

/// A stream of its changes is no use that keeps a database, however often it is written.
#[test]
fn a_database_that_is_followed_and_written_can_be_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let main = Server::start(&dir.path().join("primary"));
    assert_eq!(main.ask("PUT", "/v1/databases/shop", b"{}").status, 201);
    assert_eq!(main.ask("PUT", "/v1/databases/shop/tables/t", b"{}").status, 201);
    let other = replica(&dir.path().join("replica"), &url(&main));
    let commit = put(&main, "shop", "first");
    await_commit(&other, "shop", commit);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let begun = Instant::now();
            while main.ask("PUT", "/v1/databases/shop/tables/t/entries/k", b"v").status < 300 {
                assert!(begun.elapsed() < PATIENCE, "it is still there");
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(main.ask("DELETE", "/v1/databases/shop", b"").status, 204);
        writer.join().unwrap();
    });
    await_refusal(&other, "shop");
}
