//! Which databases of a bucket are found, and which of a server are shipped.
#![cfg(feature = "ship")]

use crate::common::{pando, stdout, text};
use crate::http::Server;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

fn path(dir: &Path, name: &str) -> String {
    dir.join(name).to_str().unwrap().to_owned()
}

fn create(server: &Server, name: &str) {
    assert_eq!(server.ask("PUT", &format!("/v1/databases/{name}"), b"{}").status, 201);
    assert_eq!(server.ask("PUT", &format!("/v1/databases/{name}/tables/t"), b"{}").status, 201);
}

fn put(server: &Server, name: &str, key: &str) -> u16 {
    server.ask("PUT", &format!("/v1/databases/{name}/tables/t/entries/{key}"), b"v").status
}

fn get(server: &Server, name: &str, key: &str) -> u16 {
    server.ask("GET", &format!("/v1/databases/{name}/tables/t/entries/{key}"), b"").status
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Returns whether a restore of the database has the key.
fn is_in_bucket(bucket: &str, dir: &Path, name: &str, key: &str) -> bool {
    let target = path(dir, "restored");
    let _ = fs::remove_dir_all(&target);
    stdout(pando(["restore", &format!("{bucket}/{name}"), &target]));
    text(pando(["scan", &target, "t", "--format", "csv"])).contains(key)
}

#[test]
fn databases_beside_a_default_one_in_the_bucket_itself_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let bucket = path(dir.path(), "bucket");
    text(pando(["put", &path(dir.path(), "first/default"), "t", "k", "v"]));
    text(pando(["ship", &path(dir.path(), "first/default"), &bucket, "--once"]));
    let ship = ["--ship", &bucket, "--ship-mode", "sync", "--follow-interval", "20ms"];
    let first = Server::start_with(&dir.path().join("first"), &ship);
    create(&first, "shop");
    assert_eq!(put(&first, "shop", "k"), 204);
    let listed = text(pando(["restore", "--list", &bucket, "--format", "csv"]));
    assert!(listed.contains("\nshop,") && listed.contains("\n\"\","), "{listed}");
    let replica = Server::start_with(&dir.path().join("replica"), &ship);
    assert_eq!((get(&replica, "shop", "k"), get(&replica, "default", "k")), (200, 200));
    assert!(first.terminate().success());
    let second = Server::start_with(&dir.path().join("second"), &ship);
    assert_eq!((get(&second, "shop", "k"), get(&second, "default", "k")), (200, 200));
    assert_eq!((put(&second, "shop", "k2"), put(&second, "default", "k2")), (204, 204));
}

/// No database is closed with commits that the bucket lacks, and none is forgotten by a restart.
#[test]
fn commits_of_databases_that_are_not_open_are_shipped() {
    let dir = tempfile::tempdir().unwrap();
    let (bucket, aside) = (path(dir.path(), "bucket"), dir.path().join("aside"));
    let options = ["--ship", &bucket, "--max-open", "2", "--ship-interval", "50ms"];
    let data = dir.path().join("data");
    let server = Server::start_with(&data, &options);
    ["a", "b", "c"].iter().for_each(|name| create(&server, name));
    let metric = |server: &Server, line: &str| server.ask("GET", "/metrics", b"").text().contains(line);
    // It is written once: a put at each look would be a new commit that is not shipped yet.
    assert_eq!(put(&server, "b", "before"), 204);
    until("b is shipped", || {
        metric(&server, "pando_ship_up{database=\"b\"} 1")
            && metric(&server, "pando_ship_lag_commits{database=\"b\"} 0")
    });
    fs::rename(&bucket, &aside).unwrap();
    assert_eq!(put(&server, "b", "while-away"), 204);
    until("its difficulty is noticed", || metric(&server, "pando_ship_up{database=\"b\"} 0"));
    let begun = Instant::now();
    assert_eq!((get(&server, "a", "k"), get(&server, "c", "k")), (404, 404));
    assert!(begun.elapsed() < Duration::from_secs(25), "they waited for {:?}", begun.elapsed());
    std::thread::sleep(Duration::from_millis(1500));
    assert!(metric(&server, "pando_ship_lag_commits{database=\"b\"} 1"), "it is shown");
    fs::rename(&aside, &bucket).unwrap();
    until("b is shipped", || is_in_bucket(&bucket, dir.path(), "b", "while-away"));

    // Of a server that was killed, the database that was written last is shipped without being used.
    let line = "pando_ship_up{database=\"c\"} 1";
    until("c is shipped", || get(&server, "c", "k") == 404 && metric(&server, line));
    fs::rename(&bucket, &aside).unwrap();
    assert_eq!(put(&server, "c", "of-the-killed"), 204);
    server.kill();
    fs::rename(&aside, &bucket).unwrap();
    let server = Server::start_with(&data, &options);
    until("c is shipped after a restart", || is_in_bucket(&bucket, dir.path(), "c", "of-the-killed"));
    assert!(metric(&server, "pando_ship_closed_databases "));
    assert!(server.terminate().success());
    assert_eq!(fs::read_dir(data.join(".unreleased")).unwrap().count(), 0);
}
