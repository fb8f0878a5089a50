//! Databases that are dropped on a server that ships, with a folder as the bucket.
#![cfg(feature = "ship")]

use crate::common::{pando, text};
use crate::http::Server;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

fn path(dir: &Path, name: &str) -> String {
    dir.join(name).to_str().unwrap().to_owned()
}

fn scan(db: &str) -> String {
    text(pando(["scan", db, "t", "--format", "csv"]))
}

fn create(server: &Server, name: &str, key: &str) {
    let base = format!("/v1/databases/{name}");
    assert_eq!(server.ask("PUT", &base, b"{}").status, 201, "{name}");
    assert_eq!(server.ask("PUT", &format!("{base}/tables/t"), b"{}").status, 201, "{name}");
    put(server, name, key);
}

fn put(server: &Server, name: &str, key: &str) {
    let reply = server.ask("PUT", &format!("/v1/databases/{name}/tables/t/entries/{key}"), b"value");
    assert_eq!(reply.status, 204, "{name}: {}", reply.text());
}

fn get(server: &Server, name: &str, key: &str) -> u16 {
    server.ask("GET", &format!("/v1/databases/{name}/tables/t/entries/{key}"), b"").status
}

fn remove(server: &Server, name: &str) {
    let reply = server.ask("DELETE", &format!("/v1/databases/{name}"), b"");
    assert!(reply.status < 300, "{}", reply.text());
}

/// Waits until `is_so`.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_dropped_database_does_not_come_back_and_its_name_is_free() {
    let dir = tempfile::tempdir().unwrap();
    let bucket = path(dir.path(), "bucket");
    let sync = ["--ship", &bucket, "--ship-mode", "sync"];
    let start = |name: &str| Server::start_with(&dir.path().join(name), &sync);
    let first = start("first");
    create(&first, "shop", "of-the-first");
    create(&first, "gone", "of-gone");
    create(&first, "stays", "of-stays");
    remove(&first, "shop");
    remove(&first, "gone");
    // It is shipped at once, under the same name.
    create(&first, "shop", "of-the-second");
    let metrics = first.ask("GET", "/metrics", b"").text().to_owned();
    for line in ["pando_ship_up{database=\"shop\"} 1", "pando_ship_other_lineage{database=\"shop\"} 0"] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
    // The directory is still its writer's after a restart.
    assert!(first.terminate().success());
    let first = start("first");
    put(&first, "shop", "after-a-restart");
    assert!(first.terminate().success());

    // Any other machine.
    let second = start("second");
    assert_eq!(get(&second, "shop", "of-the-first"), 404);
    assert_eq!((get(&second, "shop", "of-the-second"), get(&second, "shop", "after-a-restart")), (200, 200));
    assert_eq!(get(&second, "stays", "of-stays"), 200);
    assert_eq!(second.ask("GET", "/v1/databases/gone", b"").status, 404, "it came back");
    put(&second, "shop", "of-another-machine");
    create(&second, "gone", "again");
    assert!(second.terminate().success());

    // What was dropped can be restored by name.
    let restored = |words: &[&str], name: &str| {
        let target = path(dir.path(), name);
        let url = format!("{bucket}/{}", words[0]);
        let said = pando([&["restore", &url, &target], &words[1..]].concat());
        let note = String::from_utf8(said.stderr).unwrap();
        assert!(said.status.success(), "{note}");
        (scan(&target), note)
    };
    let (rows, note) = restored(&["shop", "--incarnation", "1"], "old-shop");
    assert!(rows.contains("of-the-first") && note.contains("was dropped at"), "{rows} {note}");
    let (rows, note) = restored(&["shop"], "new-shop");
    assert!(rows.contains("of-another-machine") && !rows.contains("of-the-first"), "{rows}");
    assert!(note.is_empty(), "{note}");

    // A drop by mistake: the restored directory takes its place again.
    let second = start("second");
    remove(&second, "gone");
    assert!(second.terminate().success());
    restored(&["gone"], "second/gone");
    let second = start("second");
    put(&second, "gone", "is-back");
    assert!(second.terminate().success());
    let third = start("third");
    assert_eq!((get(&third, "gone", "again"), get(&third, "gone", "is-back")), (200, 200));
}

#[test]
fn a_drop_waits_for_the_bucket() {
    let dir = tempfile::tempdir().unwrap();
    let (bucket, aside) = (path(dir.path(), "bucket"), dir.path().join("aside"));
    let server = Server::start_with(&dir.path().join("data"), &["--ship", &bucket]);
    create(&server, "shop", "a");
    let line = "pando_ship_up{database=\"shop\"} 1";
    until(line, || server.ask("GET", "/metrics", b"").text().contains(line));
    fs::rename(&bucket, &aside).unwrap();
    let refused = server.ask("DELETE", "/v1/databases/shop", b"");
    let text = refused.text();
    assert!(refused.status == 503 && text.contains("urn:pando:problem:not-shipped"), "{text}");
    assert!(text.contains("was not dropped"), "{text}");
    put(&server, "shop", "b");
    fs::rename(&aside, &bucket).unwrap();
    until("the drop", || server.ask("DELETE", "/v1/databases/shop", b"").status < 300);
    assert!(server.terminate().success());
    let empty = Server::start_with(&dir.path().join("empty"), &["--ship", &bucket]);
    assert_eq!(empty.ask("GET", "/v1/databases/shop", b"").status, 404);
}

#[test]
fn a_replica_of_the_bucket_notices_a_drop() {
    let dir = tempfile::tempdir().unwrap();
    let bucket = path(dir.path(), "bucket");
    let sync = ["--ship", &bucket, "--ship-mode", "sync"];
    let primary = Server::start_with(&dir.path().join("primary"), &sync);
    create(&primary, "shop", "old");
    create(&primary, "gone", "old");
    let replica = Server::start_with(
        &dir.path().join("replica"),
        &[&sync[..], &["--follow-interval", "20ms"]].concat(),
    );
    assert_eq!((get(&replica, "shop", "old"), get(&replica, "gone", "old")), (200, 200));
    remove(&primary, "gone");
    until("the replica says so", || {
        replica.ask("GET", "/v1/server", b"").text().contains("the database was dropped at")
    });
    assert_eq!(get(&replica, "gone", "old"), 200, "the copy stays");
    remove(&primary, "shop");
    create(&primary, "shop", "new");
    until("the replica follows the new one", || get(&replica, "shop", "new") == 200);
    assert_eq!(get(&replica, "shop", "old"), 404);
    // A promotion brings nothing back.
    primary.kill();
    text(pando(["promote", &format!("http://{}", replica.address)]));
    assert_eq!(replica.ask("GET", "/v1/databases/gone", b"").status, 404);
    put(&replica, "shop", "of-the-successor");
    create(&replica, "gone", "another");
    assert!(replica.terminate().success());
    let next = Server::start_with(&dir.path().join("next"), &sync);
    assert_eq!((get(&next, "shop", "of-the-successor"), get(&next, "gone", "another")), (200, 200));
    assert_eq!(get(&next, "gone", "old"), 404);
}

#[test]
fn a_list_of_a_bucket_goes_on_after_a_damaged_database() {
    let dir = tempfile::tempdir().unwrap();
    let bucket = path(dir.path(), "bucket");
    let server = Server::start_with(&dir.path().join("data"), &["--ship", &bucket, "--ship-mode", "sync"]);
    for name in ["a", "b", "c"] {
        create(&server, name, "k");
    }
    remove(&server, "c");
    create(&server, "c", "again");
    assert!(server.terminate().success());
    let list = |words: &[&str]| {
        let said = pando([&["restore", &bucket, "--list"], words].concat());
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (said.status.code().unwrap(), text(said.stdout), text(said.stderr))
    };
    let (code, listed, said) = list(&["--format", "ndjson"]);
    assert_eq!((code, said.as_str()), (0, ""), "{listed}");
    let rows: Vec<serde_json::Value> = listed.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
    let row = |name: &str, incarnation: u64| {
        let found = rows.iter().find(|row| row["database"] == name && row["incarnation"] == incarnation);
        found.unwrap_or_else(|| panic!("{name} {incarnation} in {listed}")).clone()
    };
    assert!(row("a", 1)["dropped_ms"].is_null() && row("c", 2)["dropped_ms"].is_null());
    assert!(row("c", 1)["dropped_ms"].as_u64().is_some_and(|at| at > 0));
    // One bit of one, and the object of another.
    let lineage = format!("{bucket}/a/lineage");
    let mut bytes = fs::read(&lineage).unwrap();
    bytes[70] ^= 1;
    fs::write(&lineage, bytes).unwrap();
    fs::remove_file(format!("{bucket}/c/lineage")).unwrap();
    let (code, listed, said) = list(&["--format", "csv"]);
    assert_eq!(code, 3, "{said}");
    let names: Vec<_> = listed.lines().skip(1).map(|row| row.split(',').next().unwrap()).collect();
    assert_eq!(names, ["b", "c", "default"], "{listed}");
    for what in ["/a: lineage: expected SHA-256", "/c/lineage is missing"] {
        assert!(said.contains(what), "{what} in {said}");
    }
}

/// The documentation says how to get the space of a dropped database back.
#[test]
fn the_objects_of_a_dropped_database_may_be_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let bucket = path(dir.path(), "bucket");
    let sync = ["--ship", &bucket, "--ship-mode", "sync", "--follow-interval", "20ms"];
    let primary = Server::start_with(&dir.path().join("primary"), &sync);
    create(&primary, "shop", "old");
    create(&primary, "store", "old");
    let replica = Server::start_with(&dir.path().join("replica"), &sync);
    let other = Server::start_with(&dir.path().join("other"), &sync);
    assert_eq!((get(&replica, "shop", "old"), get(&replica, "store", "old")), (200, 200));
    replica.kill();
    other.kill();
    remove(&primary, "shop");
    create(&primary, "shop", "new");
    remove(&primary, "store");
    create(&primary, "store", "again");
    remove(&primary, "store");
    for name in ["shop", "store"] {
        for entry in fs::read_dir(format!("{bucket}/{name}")).unwrap() {
            let entry = entry.unwrap();
            match entry.file_name() == "incarnations" {
                true => {}
                false if entry.path().is_dir() => fs::remove_dir_all(entry.path()).unwrap(),
                false => fs::remove_file(entry.path()).unwrap(),
            }
        }
    }
    // The folder is a bucket nevertheless.
    let listed = text(pando(["restore", "--list", &format!("{bucket}/shop"), "--format", "csv"]));
    assert_eq!(listed.lines().count(), 2, "{listed}");
    let target = path(dir.path(), "restored");
    text(pando(["restore", &format!("{bucket}/shop"), &target]));
    assert!(scan(&target).contains("new"));
    // A replica copies the new database, and can be promoted.
    let replica = Server::start_with(&dir.path().join("replica"), &sync);
    until("the replica follows the new one", || get(&replica, "shop", "new") == 200);
    text(pando(["promote", &path(dir.path(), "other")]));
    text(pando(["promote", &format!("http://{}", replica.address)]));
    put(&replica, "shop", "of-the-successor");
    assert_eq!(replica.ask("GET", "/v1/databases/store", b"").status, 404);
}
