//! `pando serve --backup-to`: scheduled backups.

use crate::common::{failure, pando, text};
use crate::http::Server;
use serde_json::Value;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

fn backups(server: &Server) -> Value {
    let reply = server.ask("GET", "/v1/server", b"");
    serde_json::from_str::<Value>(reply.text()).unwrap()["backups"].take()
}

/// Waits until the results of scheduled backups are so.
fn wait(server: &Server, is_so: impl Fn(&Value) -> bool) -> Value {
    let begun = Instant::now();
    loop {
        let found = backups(server);
        if is_so(&found["databases"]) {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{found}");
        sleep(Duration::from_millis(20));
    }
}

/// The value of `key` in a restore of backup `at` of a folder.
fn restored(folder: &Path, at: &str, key: &str) -> String {
    let target = tempfile::tempdir().unwrap();
    let target = target.path().to_str().unwrap();
    text(pando(["restore", folder.to_str().unwrap(), target, "--at", at]));
    text(pando(["check", target]));
    text(pando(["get", target, "entity", key]))
}

/// The names of the files in a folder.
fn files(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .map(|entries| entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect())
        .unwrap_or_default();
    names.retain(|name| name.starts_with("backup-"));
    names.sort();
    names
}

#[test]
fn a_server_backs_its_databases_up_and_keeps_the_newest() {
    let (dir, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let options = ["--backup-to", to.path().to_str().unwrap(), "--backup-every", "1s", "--backup-keep", "2"];
    let server = Server::start_with(dir.path(), &options);
    assert_eq!(server.ask("PUT", "/v1/databases/shop", b"").status, 201);
    assert_eq!(server.ask("PUT", "/v0/entity?id=n", b"0").status, 201);
    for n in 1..5 {
        let taken = |found: &Value| found["default"]["taken"].as_u64().unwrap_or(0);
        let before = taken(&backups(&server)["databases"]);
        server.ask("PUT", "/v0/entity?id=n", n.to_string().as_bytes());
        wait(&server, |found| taken(found) > before + 1);
    }
    let found = wait(&server, |found| found["shop"]["taken"].as_u64() >= Some(2));
    assert_eq!((&found["databases"]["default"]["failures"], &found["every_s"]), (&0.into(), &1.0.into()));
    let page = server.ask("GET", "/metrics", b"");
    for line in ["pando_backup_failing{database=\"default\"} 0\n", "pando_backup_interval_seconds 1\n"] {
        assert!(page.text().contains(line), "{line}");
    }
    let stats = server.ask("GET", "/v1/databases/default/stats", b"");
    assert!(stats.text().contains("\"backups_taken\":"), "{}", stats.text());
    assert!(server.terminate().success());

    let folder = to.path().join("default");
    let kept = files(&folder);
    // Chains of up to 24: those on which the newest two build are kept as well.
    assert!(kept[0].ends_with("-full") && kept.len() <= 26, "{kept:?}");
    assert!(kept.iter().all(|name| !name.ends_with(".partial")), "{kept:?}");
    assert_eq!(restored(&folder, kept.last().unwrap(), "n"), "4");
    assert!(!files(&to.path().join("shop")).is_empty());
}

#[test]
fn a_server_that_dies_in_a_backup_leaves_no_half_one() {
    let (dir, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let folder = to.path().join("default");
    let options =
        ["--backup-to", to.path().to_str().unwrap(), "--backup-every", "1s", "--backup-rate", "64K"];
    let server = Server::start_with(dir.path(), &options);
    assert_eq!(server.ask("PUT", "/v0/entity?id=n", b"before").status, 201);
    // The second one from here on begins after the value was written.
    let number = |found: &Value| found["default"]["taken"].as_u64().unwrap_or(0);
    let before = number(&backups(&server)["databases"]);
    let taken = wait(&server, |found| number(found) > before + 1);
    let mut whole = files(&folder);
    whole.retain(|name| !name.ends_with(".partial"));
    // Two megabytes take half a minute at this rate.
    let long: Vec<u8> = (0..2 << 20).map(|n: u32| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    assert_eq!(server.ask("PUT", "/v0/entity?id=long", &long).status, 201);
    // Waits until a server that was started at that time is in the middle of it.
    let wait_for_half = |since: SystemTime| {
        let begun = Instant::now();
        let is_half = || {
            let partial = files(&folder).into_iter().find(|name| name.ends_with(".partial"))?;
            let found = std::fs::metadata(folder.join(partial)).ok()?;
            (found.len() > 200 << 10 && found.modified().unwrap() > since).then_some(())
        };
        while is_half().is_none() {
            assert!(begun.elapsed() < Duration::from_secs(60), "{:?} {taken}", files(&folder));
            sleep(Duration::from_millis(20));
        }
    };
    wait_for_half(SystemTime::UNIX_EPOCH);
    server.kill();
    let listed = text(pando(["restore", "--list", folder.to_str().unwrap(), "--format", "csv"]));
    assert!(!listed.contains("damaged") && listed.lines().count() > whole.len(), "{listed}");
    // The first one may be older than the value.
    assert_eq!(restored(&folder, whole.last().unwrap(), "n"), "before");

    // The next server goes on, and its end does not wait for a slow backup.
    let since = SystemTime::now();
    let server = Server::start_with(dir.path(), &options);
    wait_for_half(since);
    let begun = Instant::now();
    assert!(server.terminate().success());
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    assert!(files(&folder).iter().all(|name| !name.ends_with(".partial")), "{:?}", files(&folder));
}

#[test]
fn a_failing_backup_is_seen_by_doctor() {
    let (dir, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(to.path().join("default"), b"a file is in the way").unwrap();
    let options = ["--backup-to", to.path().to_str().unwrap(), "--backup-every", "1s"];
    let server = Server::start_with(dir.path(), &options);
    let found = wait(&server, |found| found["default"]["failures"].as_u64() >= Some(2));
    assert!(found["databases"]["default"]["error"].is_string(), "{found}");
    let url = format!("http://{}", server.address);
    let output = pando(["--url", &url, "doctor"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(6), "{said}");
    assert!(said.contains("[backup-failing]"), "{said}");
}

#[test]
fn options_of_backups_are_checked() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let inside = dir.path().join("backups");
    let serve = |words: &[&str]| pando([&["serve", path, "--listen", "127.0.0.1:0"], words].concat());
    let said = failure(serve(&["--backup-to", inside.to_str().unwrap()]), 2);
    assert!(said.contains("outside of it"), "{said}");
    for words in [["--backup-keep", "0"], ["--backup-keep", "week"], ["--backup-every", "1"]] {
        failure(serve(&words), 2);
    }
}

#[test]
fn the_command_verifies_and_prunes() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (db, folder) = (at("db"), at("folder"));
    for n in ["1", "2", "3"] {
        text(pando(["put", &db, "t", "k", n]));
        text(pando(["backup", &db, &folder, "--verify", "--keep", "2"]));
    }
    assert_eq!(files(Path::new(&folder)), ["backup-000002-full", "backup-000003-full"]);
    failure(pando(["backup", &db, &folder, "--keep", "0"]), 2);
    failure(pando(["backup", &db, "-", "--keep", "2"]), 2);
    failure(pando(["backup", &db, "-", "--verify"]), 2);
}

#[test]
fn a_token_of_one_database_learns_nothing_of_others() {
    let (dir, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let at = dir.path().to_str().unwrap();
    let create = |name: &str, scope: &str, more: &[&str]| {
        let token = [&["token", "create", at, "--name", name, "--scope", scope][..], more].concat();
        format!("Bearer {}", text(pando(token)).trim())
    };
    let admin = create("root", "admin", &[]);
    let reader = create("reader", "read", &["--database", "shop"]);
    let options = ["--backup-to", to.path().to_str().unwrap(), "--backup-every", "1s"];
    let server = Server::start_with(dir.path(), &options);
    let ask = |method: &str, target: &str, token: &str| {
        server.ask_with(method, target, &[("authorization", token)], b"")
    };
    assert_eq!(ask("PUT", "/v1/databases/shop", &admin).status, 201);
    assert_eq!(ask("PUT", "/v1/databases/secret", &admin).status, 201);
    let names = |token: &str| {
        let shown: Value = serde_json::from_str(ask("GET", "/v1/server", token).text()).unwrap();
        let databases = shown["backups"]["databases"].as_object().unwrap();
        databases.iter().map(|(name, of)| (name.clone(), of.get("error").is_some())).collect::<Vec<_>>()
    };
    let begun = Instant::now();
    while names(&admin).len() < 3 {
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", names(&admin));
        sleep(Duration::from_millis(20));
    }
    assert!(names(&admin).iter().all(|(_, has_error)| *has_error));
    assert_eq!(names(&reader), [("shop".to_owned(), false)]);
}
