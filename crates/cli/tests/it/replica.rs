//! `serve --follow` and `promote`: replicas of a server, and of a bucket.

use crate::common::{failure, pando, text};
use crate::http::{Client, Reply, Server};
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The longest that a test waits for a replica.
const PATIENCE: Duration = Duration::from_secs(60);

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A primary at the same port after each restart.
fn primary(dir: &Path, port: u16, options: &[&str]) -> Server {
    let listen = format!("127.0.0.1:{port}");
    Server::start_with(dir, &[&["--listen", &listen], options].concat())
}

fn url(server: &Server) -> String {
    format!("http://{}", server.address)
}

fn replica(dir: &Path, of: &str) -> Server {
    Server::start_with(dir, &["--follow", of, "--follow-interval", "20ms"])
}

fn put(server: &Server, table: &str, key: &str, value: &[u8]) -> Reply {
    server.ask("PUT", &format!("/v1/databases/default/tables/{table}/entries/{key}"), value)
}

fn json(reply: &Reply) -> serde_json::Value {
    serde_json::from_slice(&reply.body).unwrap_or_else(|_| panic!("{}: {}", reply.status, reply.text()))
}

fn stat(server: &Server, name: &str) -> u64 {
    let stats = json(&server.ask("GET", "/v1/databases/default/stats", b""));
    stats[name].as_u64().unwrap_or_else(|| panic!("{name} in {stats}"))
}

/// Waits until the replica has everything that the primary has. Returns how often it was asked.
fn await_level(primary: &Server, replica: &Server) -> u32 {
    let newest = stat(primary, "last_commit");
    let begun = Instant::now();
    let mut polls = 1;
    while stat(replica, "replica_applied_commit") < newest || stat(replica, "replica_lag_commits") > 0 {
        assert!(begun.elapsed() < PATIENCE, "{}", replica.ask("GET", "/v1/server", b"").text());
        std::thread::sleep(Duration::from_millis(5));
        polls += 1;
    }
    polls
}

/// Every table with its options and its records.
fn export(server: &Server) -> BTreeMap<String, (String, Vec<u8>)> {
    let tables = json(&server.ask("GET", "/v1/databases/default/tables", b""));
    let mut all = BTreeMap::new();
    for table in tables["tables"].as_array().unwrap() {
        let name = table["name"].as_str().unwrap();
        let records = server.ask("GET", &format!("/v1/databases/default/tables/{name}/entries"), b"");
        assert_eq!(records.status, 200, "{name}");
        all.insert(name.to_owned(), (table["layout"].to_string(), records.body));
    }
    all
}

#[test]
fn a_replica_reads_and_leaves_writes_to_its_primary() {
    let dir = tempfile::tempdir().unwrap();
    let (home, copy) = (dir.path().join("primary"), dir.path().join("replica"));
    let main = Server::start(&home);
    assert_eq!(main.ask("PUT", "/v1/databases/shop", b"{}").status, 201);
    assert_eq!(main.ask("PUT", "/v0/entity?id=a", b"1").status, 201);
    let other = replica(&copy, &url(&main));
    assert_eq!(other.ask("GET", "/v0/entity?id=a", b"").text(), "1");
    // What was written is read: the client names the commit.
    for n in 0..20 {
        let written = main.ask("PUT", &format!("/v0/entity?id=k{n}"), b"v");
        let commit = written.header("pando-commit").expect("a write names its commit");
        let headers = [("pando-min-commit", commit)];
        let read = other.ask_with("GET", &format!("/v0/entity?id=k{n}"), &headers, b"");
        assert_eq!((read.status, read.text()), (200, "v"));
    }
    let sql = |server: &Server, text: &str, headers: &[(&str, &str)]| {
        let body = serde_json::json!({ "sql": text }).to_string();
        server.ask_with("POST", "/v1/databases/shop/sql", headers, body.as_bytes())
    };
    if cfg!(feature = "sql") {
        let made = sql(&main, "CREATE TABLE t (a INTEGER PRIMARY KEY); INSERT INTO t VALUES (7)", &[]);
        let commit = made.header("pando-commit").expect("SQL names its commit").to_owned();
        let read = sql(&other, "SELECT a FROM t", &[("pando-min-commit", &commit)]);
        assert!(read.text().contains("[7]"), "{}", read.text());
        assert_eq!(sql(&other, "INSERT INTO t VALUES (8)", &[]).status, 307);
        let rows = other.ask("GET", "/v1/databases/shop/documents/t", b"");
        assert_eq!(rows.text().lines().next(), Some("{\"a\":7}"));
    }
    // Writes, and what belongs to a transaction, get the address of the primary.
    for (method, target) in [
        ("PUT", "/v0/entity?id=x"),
        ("DELETE", "/v0/entity?id=a"),
        ("PUT", "/v1/databases/shop/tables/t2"),
        ("POST", "/v1/databases/shop/batch"),
        ("POST", "/v1/databases/shop/transactions"),
        ("PUT", "/v1/databases/new"),
        ("DELETE", "/v1/databases/shop"),
    ] {
        let refused = other.ask(method, target, b"{}");
        assert_eq!(refused.status, 307, "{method} {target}");
        assert_eq!(refused.header("location"), Some(&*format!("{}{target}", url(&main))));
        assert!(refused.text().contains("urn:pando:problem:replica"));
    }
    let within = [("pando-transaction", "0123")];
    assert_eq!(other.ask_with("GET", "/v0/entity?id=a", &within, b"").status, 307);
    assert_eq!(other.ask("POST", "/v1/databases/shop/check", b"").status, 200);
    assert_eq!(other.ask_with("GET", "/v0/entity?id=a", &[("pando-min-commit", "x")], b"").status, 400);
    let late = other.ask_with("GET", "/v0/entity?id=a", &[("pando-min-commit", "999")], b"");
    assert!(late.status == 504 && late.text().contains("urn:pando:problem:not-applied"), "{}", late.text());
    // A database that is new.
    assert_eq!(main.ask("PUT", "/v1/databases/later", b"{}").status, 201);
    let begun = Instant::now();
    while other.ask("GET", "/v1/databases/later", b"").status != 200 {
        assert!(begun.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(20));
    }
    let metrics = other.ask("GET", "/metrics", b"").text().to_owned();
    for line in ["pando_replica 1", "pando_replica_up{database=\"default\"} 1"] {
        assert!(metrics.lines().any(|found| found == line), "{line} in {metrics}");
    }
    assert!(metrics.contains("pando_replica_lag_seconds{database=\"shop\"}"), "{metrics}");
    let health = json(&other.ask("GET", "/v1/server", b""));
    assert_eq!((&health["role"], &health["replica"]["source"]), (&"replica".into(), &url(&main).into()));
    assert!(other.ask("GET", "/readyz", b"").text().contains("lag_commits="));
}

#[test]
fn directories_keep_their_role() {
    let dir = tempfile::tempdir().unwrap();
    let (home, copy) = (dir.path().join("primary"), dir.path().join("replica"));
    let main = Server::start(&home);
    assert_eq!(main.ask("PUT", "/v0/entity?id=a", b"1").status, 201);
    let address = url(&main);
    drop(replica(&copy, &address));
    let at = |path: &Path| path.to_str().unwrap().to_owned();
    let serve = |dir: &Path, rest: &[&str]| {
        let dir = at(dir);
        pando([&["serve", &dir, "--listen", "127.0.0.1:0"], rest].concat())
    };
    let said = failure(serve(&copy, &[]), 2);
    assert!(said.contains("is a replica of") && said.contains("pando promote"), "{said}");
    let own = dir.path().join("own");
    text(pando(["put", &at(&own.join("default")), "t", "k", "v"]));
    let said = failure(serve(&own, &["--follow", &address]), 2);
    assert!(said.contains("databases of its own"), "{said}");
    assert!(failure(serve(&own, &["--follow", "http://h/shop"]), 2).contains("without a database"));
    assert!(failure(serve(&own, &["--primary", "http://h"]), 2).contains("--follow"));
    assert!(failure(pando(["promote", &at(&own)]), 2).contains("is not a replica"));
    // Without its primary it serves what it has; without both it does not start.
    main.kill();
    let alone = replica(&copy, &address);
    assert_eq!(alone.ask("GET", "/v0/entity?id=a", b"").text(), "1");
    let begun = Instant::now();
    while !alone.ask("GET", "/metrics", b"").text().contains("pando_replica_up{database=\"default\"} 0") {
        assert!(begun.elapsed() < PATIENCE);
    }
    assert!(failure(pando(["promote", &at(&copy)]), 4).contains("already served"));
    alone.kill();
    failure(serve(&dir.path().join("none"), &["--follow", &address]), 1);
    let said = text(pando(["promote", &at(&copy), "--format", "csv"]));
    assert!(said.starts_with("database,commit\ndefault,"), "{said}");
    let promoted = Server::start(&copy);
    assert_eq!(promoted.ask("PUT", "/v0/entity?id=b", b"2").status, 201);
    drop(promoted);
    failure(serve(&copy, &["--follow", &address]), 2);
}

#[test]
fn a_running_replica_becomes_the_primary() {
    let dir = tempfile::tempdir().unwrap();
    let main = Server::start(&dir.path().join("primary"));
    let other = replica(&dir.path().join("replica"), &url(&main));
    let commit = main.ask("PUT", "/v0/entity?id=a", b"1").header("pando-commit").unwrap().to_owned();
    let read = other.ask_with("GET", "/v0/entity?id=a", &[("pando-min-commit", &commit)], b"");
    assert_eq!(read.status, 200, "{}", read.text());
    main.kill();
    let said = text(pando(["promote", &url(&other), "--format", "csv"]));
    assert_eq!(said, format!("database,commit\ndefault,{commit}\n"));
    assert_eq!(other.ask("PUT", "/v0/entity?id=b", b"2").status, 201);
    assert_eq!(other.ask("GET", "/v0/entity?id=a", b"").text(), "1");
    // Once more changes nothing.
    text(pando(["promote", &url(&other)]));
    let metrics = other.ask("GET", "/metrics", b"").text().to_owned();
    assert!(metrics.contains("\npando_replica 0\n") && !metrics.contains("pando_replica_up"), "{metrics}");
    let primary = Server::start(&dir.path().join("third"));
    assert!(failure(pando(["promote", &url(&primary)]), 2).contains("did not begin as a replica"));
}

/// The consumers by which the primary knows its replicas.
fn known_replicas(main: &Server) -> Vec<String> {
    let consumers = json(&main.ask("GET", "/v1/databases/default/consumers", b""));
    let name = |consumer: &serde_json::Value| consumer["name"].as_str().unwrap().to_owned();
    consumers["consumers"].as_array().unwrap().iter().map(name).collect()
}

fn forget_replicas(main: &Server) {
    for name in known_replicas(main) {
        assert_eq!(main.ask("DELETE", &format!("/v1/databases/default/consumers/{name}"), b"").status, 204);
    }
}

#[test]
fn a_replica_that_was_away_continues_after_checkpoints_and_restarts_of_its_primary() {
    let dir = tempfile::tempdir().unwrap();
    let (home, copy, port) = (dir.path().join("primary"), dir.path().join("replica"), free_port());
    let main = primary(&home, port, &[]);
    let write = |main: &Server, round: u32| {
        for n in 0..40 {
            let target = format!("/v0/entity?id={round}-{n}");
            assert_eq!(main.ask("PUT", &target, &[b'v'; 100 << 10]).status, 201);
        }
        assert_eq!(main.ask("POST", "/v1/databases/default/checkpoint", b"").status, 204);
    };
    write(&main, 0);
    let other = replica(&copy, &url(&main));
    assert_eq!(stat(&other, "replica_copies"), 1);
    write(&main, 1);
    await_level(&main, &other);
    assert!(other.terminate().success());
    // It has acknowledged everything before it ended, so it pins nothing of that.
    let names = known_replicas(&main);
    assert!(names.len() == 1 && names[0].starts_with("replica-"), "{names:?}");
    let lag = |main: &Server| {
        let metrics = main.ask("GET", "/metrics", b"").text().to_owned();
        let line = format!("pando_consumer_lag_commits{{database=\"default\",consumer=\"{}\"}} ", names[0]);
        metrics.lines().find_map(|found| found.strip_prefix(&line)?.parse::<u64>().ok()).unwrap()
    };
    assert_eq!(lag(&main), 0);
    write(&main, 2);
    main.kill();
    let main = primary(&home, port, &[]);
    write(&main, 3);
    assert!(lag(&main) >= 80);
    let other = replica(&copy, &url(&main));
    await_level(&main, &other);
    assert_eq!(stat(&other, "replica_copies"), 0, "it continued where it was");
    assert!(export(&main) == export(&other));
    assert_eq!(known_replicas(&main), names, "it is the same one");
    // A replica whose consumer was deleted is not disturbed while it is connected, and creates it again.
    forget_replicas(&main);
    write(&main, 4);
    await_level(&main, &other);
    let begun = Instant::now();
    while known_replicas(&main) != names {
        assert!(begun.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(stat(&other, "replica_copies"), 0);
}

#[test]
fn requests_that_wait_for_a_commit_do_not_keep_the_old_copy() {
    let dir = tempfile::tempdir().unwrap();
    let main = Server::start(&dir.path().join("primary"));
    assert_eq!(main.ask("PUT", "/v0/entity?id=a", b"1").status, 201);
    drop(replica(&dir.path().join("replica"), &url(&main)));
    // The log that it needs is gone after these, because nobody says any longer that it is needed.
    forget_replicas(&main);
    for n in 0..40 {
        assert_eq!(main.ask("PUT", &format!("/v0/entity?id=k{n}"), &[b'v'; 100 << 10]).status, 201);
    }
    assert_eq!(main.ask("POST", "/v1/databases/default/checkpoint", b"").status, 204);
    let written = main.ask("PUT", "/v0/entity?id=a", b"2");
    let commit = written.header("pando-commit").unwrap();
    assert_eq!(main.ask("POST", "/v1/databases/default/checkpoint", b"").status, 204);
    let other = replica(&dir.path().join("replica"), &url(&main));
    std::thread::scope(|scope| {
        for n in 0..4 {
            let other = &other;
            scope.spawn(move || {
                // At each moment, some of them have just begun to wait.
                std::thread::sleep(Duration::from_millis(300 * n));
                let (headers, begun) = ([("pando-min-commit", commit)], Instant::now());
                let read = loop {
                    let read = other.ask_with("GET", "/v0/entity?id=a", &headers, b"");
                    if read.status != 504 || begun.elapsed() > PATIENCE {
                        break read;
                    }
                };
                assert_eq!((read.status, read.text()), (200, "2"));
            });
        }
    });
    assert_eq!(stat(&other, "replica_copies"), 1);
}

/// Writes to the primary until `is_over`, through its restarts, and keeps a model of what was acknowledged. A request
/// without a response is sent again, so the model is what the primary has in the end.
fn load(port: u16, seed: u64, is_over: &AtomicBool) -> BTreeMap<String, BTreeMap<String, Vec<u8>>> {
    let mut random = seed;
    let mut next = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let mut model = BTreeMap::<String, BTreeMap<String, Vec<u8>>>::new();
    let mut client: Option<Client> = None;
    let mut ask = |method: &str, target: &str, body: &[u8]| {
        let begun = Instant::now();
        loop {
            let answer = match &mut client {
                Some(client) => client.try_ask(method, target, &[], body),
                None => match std::net::TcpStream::connect(("127.0.0.1", port)) {
                    Ok(_) => {
                        client = Some(Client::connect(([127, 0, 0, 1], port).into()));
                        continue;
                    }
                    Err(error) => Err(error),
                },
            };
            match answer {
                Ok(reply) if reply.status < 300 || reply.status == 404 => return,
                Ok(reply) => panic!("{method} {target}: {} {}", reply.status, reply.text()),
                Err(_) => client = None,
            }
            assert!(begun.elapsed() < PATIENCE);
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    let mut rounds = 0_u64;
    while !is_over.load(Ordering::SeqCst) || rounds < 60 {
        rounds += 1;
        let name = format!("t{}", next(4));
        let table = format!("/v1/databases/default/tables/{name}");
        let layouts = ["btree", "lsm"];
        if !model.contains_key(&name) {
            ask("PUT", &table, b"{}");
            model.insert(name.clone(), BTreeMap::new());
        }
        let records = model.get_mut(&name).unwrap();
        match (rounds % 60, next(40)) {
            // Each round of sixty has one of each.
            (20, _) => {
                let value = vec![next(256) as u8; 20 << 20];
                ask("PUT", &format!("{table}/entries/large"), &value);
                records.insert("large".into(), value);
            }
            (40, _) => {
                let mut lines = String::new();
                for n in 0..20_000 {
                    lines.push_str(&format!("{{\"key\":\"bulk-{n:06}\",\"value\":\"{rounds}\"}}\n"));
                    records.insert(format!("bulk-{n:06}"), rounds.to_string().into());
                }
                ask("POST", &format!("{table}/entries"), lines.as_bytes());
            }
            (50, _) => {
                ask("DELETE", &table, b"");
                model.remove(&name);
            }
            (_, 0) => {
                let layout = layouts[next(2) as usize];
                ask("PATCH", &table, format!("{{\"layout\":\"{layout}\"}}").as_bytes());
            }
            (_, 1) => {
                ask("DELETE", &format!("{table}/entries?prefix=key-1"), b"");
                records.retain(|key, _| !key.starts_with("key-1"));
            }
            (_, 2) => ask("POST", "/v1/databases/default/checkpoint", b""),
            _ => {
                let key = format!("key-{}", next(500));
                let value = vec![b'a' + next(26) as u8; next(4000) as usize];
                ask("PUT", &format!("{table}/entries/{key}"), &value);
                records.insert(key, value);
            }
        }
    }
    model
}

/// Compares a server with the model.
fn check_model(server: &Server, model: &BTreeMap<String, BTreeMap<String, Vec<u8>>>, seed: u64) {
    let mut client = server.connect();
    for (name, records) in model {
        let table = format!("/v1/databases/default/tables/{name}/entries");
        let listed = client.ask("GET", &table, &[], b"");
        let keys: Vec<String> = listed
            .text()
            .lines()
            .filter_map(|line| {
                let line: serde_json::Value = serde_json::from_str(line).unwrap();
                Some(line["key"].as_str()?.to_owned())
            })
            .collect();
        let (found, expected) = (keys.len(), records.len());
        assert!(keys.iter().eq(records.keys()), "seed {seed}: {found} keys in {name}, not {expected}");
        for (key, value) in records.iter().filter(|(key, _)| !key.starts_with("bulk-0")) {
            let found = client.ask("GET", &format!("{table}/{key}"), &[], b"");
            assert!(found.body == *value, "seed {seed}: {key} in {name} differs");
        }
    }
}

/// Kills primary and replica in turn while a client writes, 6 times, or as often as `PANDO_REPLICA_KILLS` says.
fn follows_through_kills(seed: u64, primary_options: &[&str], follow: impl Fn(u16) -> String) {
    let dir = tempfile::tempdir().unwrap();
    let (home, copy) = (dir.path().join("primary"), dir.path().join("replica"));
    let (port, is_over) = (free_port(), AtomicBool::new(false));
    let options = [&["--max-body", "64M", "--memory", "64M"], primary_options].concat();
    let main = primary(&home, port, &options);
    let address = follow(port);
    let begun = Instant::now();
    let other = loop {
        // A bucket has nothing until the first base is there.
        let is_there = address.starts_with("http://")
            || main.ask("GET", "/metrics", b"").text().contains("pando_ship_up{database=\"default\"} 1");
        if is_there {
            break replica(&copy, &address);
        }
        assert!(begun.elapsed() < PATIENCE);
    };
    let (main, other, model) = std::thread::scope(|scope| {
        let (mut main, mut other) = (main, other);
        let writer = scope.spawn(|| load(port, seed, &is_over));
        let mut before = 0;
        let rounds = std::env::var("PANDO_REPLICA_KILLS").map_or(6, |rounds| rounds.parse().unwrap());
        for round in 0..rounds {
            std::thread::sleep(Duration::from_millis(200 + 150 * (seed + round) % 500));
            if round % 2 == 0 {
                main.kill();
                main = primary(&home, port, &options);
            } else {
                other.kill();
                other = replica(&copy, &address);
            }
            let applied = stat(&other, "replica_applied_commit");
            assert!(applied >= before, "seed {seed}: it went back from {before} to {applied}");
            before = applied;
        }
        is_over.store(true, Ordering::SeqCst);
        (main, other, writer.join().unwrap())
    });
    let polls = await_level(&main, &other);
    assert!(polls < 4_000, "seed {seed}: {polls} polls");
    assert!(export(&main) == export(&other), "seed {seed}: the exports differ");
    check_model(&other, &model, seed);
    // On a quiet server a commit is seen at once.
    let written = put(&main, "quiet", "k", b"v");
    assert!(written.status == 404, "the table is made by name");
    assert_eq!(main.ask("PUT", "/v1/databases/default/tables/quiet", b"{}").status, 201);
    let polls = await_level(&main, &other);
    assert!(polls < 400, "seed {seed}: {polls} polls for one commit");
    assert_eq!(json(&other.ask("POST", "/v1/databases/default/check", b""))["sound"], true);
}

#[test]
fn a_replica_of_a_server_follows_through_kills() {
    follows_through_kills(1, &[], |port| format!("http://127.0.0.1:{port}"));
}

#[cfg(feature = "ship")]
#[test]
fn a_replica_of_a_bucket_follows_through_kills() {
    let bucket = tempfile::tempdir().unwrap();
    let bucket = bucket.path().join("bucket").to_str().unwrap().to_owned();
    let ship = ["--ship", &bucket, "--ship-interval", "50ms", "--ship-keep", "1", "--ship-keep-for", "1s"];
    follows_through_kills(2, &ship, |_| bucket.clone());
}

#[cfg(feature = "ship")]
#[test]
fn a_replica_of_a_bucket_takes_over() {
    let dir = tempfile::tempdir().unwrap();
    let bucket = dir.path().join("bucket").to_str().unwrap().to_owned();
    let main = Server::start_with(&dir.path().join("a"), &["--ship", &bucket, "--ship-mode", "sync"]);
    assert_eq!(main.ask("PUT", "/v0/entity?id=a", b"1").status, 201);
    let follow = ["--follow", &bucket, "--follow-interval", "20ms", "--ship-mode", "sync"];
    let other = Server::start_with(&dir.path().join("b"), &follow);
    assert_eq!(other.ask("GET", "/v0/entity?id=a", b"").text(), "1");
    let refused = other.ask("PUT", "/v0/entity?id=b", b"2");
    assert!(refused.status == 503 && refused.text().contains("urn:pando:problem:replica"), "{refused:?}");
    // This one can be stopped, and takes over from its directory.
    let third = dir.path().join("c");
    drop(replica(&third, &bucket));
    for n in 0..30 {
        assert_eq!(main.ask("PUT", &format!("/v0/entity?id=k{n}"), b"v").status, 201);
    }
    // The old one is alive, and everything that it has answered is there.
    let said = text(pando(["promote", &url(&other), "--format", "csv"]));
    assert!(said.starts_with("database,commit\ndefault,"), "{said}");
    let fenced = main.ask("PUT", "/v0/entity?id=late", b"v");
    assert!(fenced.status == 503 && fenced.text().contains("urn:pando:problem:fenced"), "{fenced:?}");
    for n in 0..30 {
        assert_eq!(other.ask("GET", &format!("/v0/entity?id=k{n}"), b"").status, 200, "k{n}");
    }
    assert_eq!(other.ask("PUT", "/v0/entity?id=b", b"2").status, 201);
    drop(other);
    let said = text(pando(["promote", third.to_str().unwrap(), "--format", "csv"]));
    assert!(said.starts_with("database,commit\ndefault,"), "{said}");
    let last = Server::start_with(&third, &["--ship", &bucket, "--ship-mode", "sync"]);
    assert_eq!(last.ask("GET", "/v0/entity?id=b", b"").text(), "2");
    assert_eq!(last.ask("PUT", "/v0/entity?id=c", b"3").status, 201);
    // It can be restarted: the lineage is its own now.
    last.kill();
    let again = Server::start_with(&third, &["--ship", &bucket, "--ship-mode", "sync"]);
    assert_eq!(again.ask("PUT", "/v0/entity?id=d", b"4").status, 201);
}

#[cfg(feature = "ship")]
#[test]
fn a_server_that_ships_is_restored_and_takes_over_what_was_released() {
    let dir = tempfile::tempdir().unwrap();
    let bucket = dir.path().join("bucket").to_str().unwrap().to_owned();
    let ship = ["--ship", &bucket, "--ship-mode", "sync", "--follow-interval", "20ms"];
    let at = |name: &str| dir.path().join(name);
    let first = Server::start_with(&at("a"), &ship);
    assert_eq!(first.ask("PUT", "/v1/databases/shop", b"{}").status, 201);
    assert_eq!(first.ask("PUT", "/v0/entity?id=a", b"1").status, 201);
    // It is alive, so the second one follows, or refuses.
    let second = Server::start_with(&at("b"), &ship);
    assert_eq!(json(&second.ask("GET", "/v1/server", b""))["role"], "replica");
    assert_eq!(second.ask("GET", "/v0/entity?id=a", b"").text(), "1");
    assert_eq!(second.ask("PUT", "/v0/entity?id=b", b"2").status, 503);
    let none = at("none").to_str().unwrap().to_owned();
    let refuse = ["serve", &none, "--ship", &bucket, "--ship-held", "refuse", "--listen", "127.0.0.1:0"];
    assert!(failure(pando(refuse), 2).contains("has not shut down in order"));
    assert_eq!(first.ask("PUT", "/v0/entity?id=c", b"3").status, 201);
    assert!(first.terminate().success());
    drop(second);
    // It was released: a replica that starts now becomes the primary, and has everything.
    let second = Server::start_with(&at("b"), &ship);
    assert_eq!(json(&second.ask("GET", "/v1/server", b""))["role"], "primary");
    assert_eq!(second.ask("GET", "/v0/entity?id=c", b"").text(), "3");
    assert_eq!(second.ask("PUT", "/v0/entity?id=d", b"4").status, 201);
    assert!(second.terminate().success());
    // And so does one with an empty directory.
    let third = Server::start_with(&at("c"), &ship);
    assert_eq!(third.ask("GET", "/v0/entity?id=d", b"").text(), "4");
    assert_eq!(third.ask("GET", "/v1/databases/shop", b"").status, 200);
    assert_eq!(third.ask("PUT", "/v0/entity?id=e", b"5").status, 201);
    third.kill();
    // A killed server has not released anything, and goes on where it was.
    let third = Server::start_with(&at("c"), &ship);
    assert_eq!(third.ask("PUT", "/v0/entity?id=f", b"6").status, 201);
    assert_eq!(third.ask("GET", "/readyz", b"").status, 200);
    let fourth = Server::start_with(&at("d"), &[&ship[..], &["--ship-held", "take-over"]].concat());
    assert_eq!(fourth.ask("PUT", "/v0/entity?id=g", b"7").status, 201);
    let fenced = third.ask("PUT", "/v0/entity?id=h", b"8");
    assert!(fenced.status == 503 && fenced.text().contains("urn:pando:problem:fenced"), "{fenced:?}");
    assert_eq!(fourth.ask("GET", "/v0/entity?id=f", b"").text(), "6");
    // Clients are sent to the other one, and the operator is told what to do.
    let ready = third.ask("GET", "/readyz", b"");
    assert!(ready.status == 503 && ready.text().contains("urn:pando:problem:not-ready"), "{ready:?}");
    assert_eq!(fourth.ask("GET", "/readyz", b"").status, 200);
    let doctor = pando(["--url", &format!("{}/default", url(&third)), "doctor"]);
    let said = String::from_utf8(doctor.stdout).unwrap();
    assert!(said.contains("[fenced]") && said.contains("empty directory"), "{said}");
    // What it advises works: a server on an empty directory takes over again.
    let fifth = Server::start_with(&at("e"), &[&ship[..], &["--ship-held", "take-over"]].concat());
    assert_eq!(fifth.ask("PUT", "/v0/entity?id=i", b"9").status, 201);
    assert_eq!(fifth.ask("GET", "/v0/entity?id=g", b"").text(), "7");
}

/// Databases that were closed because others were used, and one that was dropped, do not keep the next server from
/// taking over.
#[cfg(feature = "ship")]
#[test]
fn a_server_that_ends_in_order_has_released_closed_databases() {
    let dir = tempfile::tempdir().unwrap();
    let bucket = dir.path().join("bucket").to_str().unwrap().to_owned();
    let first = Server::start_with(&dir.path().join("a"), &["--ship", &bucket, "--max-open", "2"]);
    for name in ["one", "two", "three", "dropped"] {
        assert_eq!(first.ask("PUT", &format!("/v1/databases/{name}"), b"{}").status, 201);
        assert_eq!(first.ask("PUT", &format!("/v1/databases/{name}/tables/t"), b"{}").status, 201);
    }
    let dropped = (0..100).any(|_| first.ask("DELETE", "/v1/databases/dropped", b"").status == 204);
    assert!(dropped);
    // A database that was closed is opened again, and shipped.
    assert_eq!(first.ask("PUT", "/v1/databases/one/tables/t/entries/k", b"v").status, 204);
    let metrics = first.ask("GET", "/metrics", b"").text().to_owned();
    assert!(!metrics.contains("pando_ship_up{database=\"three\"}"), "it is closed: {metrics}");
    // As long as the server runs, another one follows, and its log says why.
    let (second, log) = (dir.path().join("b"), dir.path().join("log"));
    let mut command = crate::serving::command(&second, &["--ship", &bucket]);
    command.stderr(std::fs::File::create(&log).unwrap());
    let second = Server::of(command);
    assert_eq!(json(&second.ask("GET", "/v1/server", b""))["role"], "replica");
    let said = std::fs::read_to_string(&log).unwrap();
    assert!(said.contains("this server begins as a replica") && said.contains("default"), "{said}");
    drop(second);
    assert!(first.terminate().success());
    let third = Server::start_with(&dir.path().join("c"), &["--ship", &bucket]);
    assert_eq!(json(&third.ask("GET", "/v1/server", b""))["role"], "primary");
    assert_eq!(third.ask("GET", "/v1/databases/one/tables/t/entries/k", b"").text(), "v");
    assert_eq!(third.ask("PUT", "/v1/databases/three/tables/t/entries/k", b"v").status, 204);
}

/// A load balancer would send clients to an empty database.
#[cfg(feature = "ship")]
#[test]
fn a_replica_that_has_copied_nothing_is_not_ready() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let bucket = at("bucket").to_str().unwrap().to_owned();
    std::fs::create_dir(&bucket).unwrap();
    let replica = Server::start_with(&at("b"), &["--follow", &bucket, "--follow-interval", "20ms"]);
    let ready = replica.ask("GET", "/readyz", b"");
    assert!(ready.status == 503 && ready.text().contains("copied nothing yet"), "{ready:?}");
    let primary = Server::start_with(&at("a"), &["--ship", &bucket, "--ship-mode", "sync"]);
    assert_eq!(primary.ask("PUT", "/v0/entity?id=a", b"1").status, 201);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    // Its last look at the bucket may have been before the put.
    let is_there = || replica.ask("GET", "/v0/entity?id=a", b"").text() == "1";
    while replica.ask("GET", "/readyz", b"").status != 200 || !is_there() {
        assert!(std::time::Instant::now() < deadline, "{:?}", replica.ask("GET", "/readyz", b""));
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[cfg(feature = "ship")]
#[test]
fn an_interval_at_which_a_server_would_spin_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    for interval in ["0s", "0ms", "9ms"] {
        for (with, option) in [("--follow", "--follow-interval"), ("--ship", "--ship-interval")] {
            let words = ["serve", &at("copy"), with, &at("bucket"), option, interval];
            let output = pando(words.into_iter().chain(["--listen", "127.0.0.1:0"]));
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{option} {interval}: {said}");
            assert!(said.contains("the shortest interval is 10ms"), "{said}");
        }
    }
}

/// Copies a folder. The parts of bases are left out: a read of one waits until [`fill`] has put it there.
#[cfg(feature = "ship")]
fn copy_without_parts(from: &Path, to: &Path) -> Vec<(std::path::PathBuf, std::path::PathBuf)> {
    std::fs::create_dir_all(to).unwrap();
    let mut waiting = Vec::new();
    for entry in std::fs::read_dir(from).unwrap() {
        let (from, to) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        if from.is_dir() {
            waiting.extend(copy_without_parts(&from, &to));
        } else if from.parent().unwrap().ends_with("parts/base") {
            assert!(std::process::Command::new("mkfifo").arg(&to).status().unwrap().success());
            waiting.push((from, to));
        } else {
            std::fs::copy(&from, &to).unwrap();
        }
    }
    waiting
}

/// A replica whose copy is under way says so, and doctor does not advise to promote it.
#[cfg(feature = "ship")]
#[test]
fn a_replica_that_copies_a_database_anew_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let (filled, bucket) = (at("filled"), at("bucket"));
    let primary = Server::start_with(&at("a"), &["--ship", filled.to_str().unwrap(), "--ship-mode", "sync"]);
    for n in 0..7 {
        assert_eq!(primary.ask("PUT", &format!("/v0/entity?id={n}"), b"1").status, 201);
    }
    let newest = stat(&primary, "last_commit");
    // It finds its database later, and a copy of that which waits.
    std::fs::create_dir(&bucket).unwrap();
    let other = replica(&at("b"), bucket.to_str().unwrap());
    let waiting = copy_without_parts(&filled, &at("copied"));
    assert!(!waiting.is_empty());
    std::fs::rename(at("copied/default"), bucket.join("default")).unwrap();
    let lag = || json(&other.ask("GET", "/v1/server", b""))["replica"]["databases"]["default"].clone();
    let begun = Instant::now();
    while lag()["lag_commits"] == 0 {
        assert!(begun.elapsed() < PATIENCE, "{}", lag());
        std::thread::sleep(Duration::from_millis(20));
    }
    let found = lag();
    let expected = serde_json::json!([true, true, newest, 0, null]);
    let fields = ["copying", "up", "newest_commit", "copies", "error"].map(|name| found[name].clone());
    assert_eq!(serde_json::Value::from(fields.to_vec()), expected, "{found}");
    std::thread::sleep(Duration::from_millis(1100));
    assert!(lag()["lag_seconds"].as_f64() > Some(1.0), "{}", lag());
    let metrics = other.ask("GET", "/metrics", b"").text().to_owned();
    assert!(metrics.contains("pando_replica_copying{database=\"default\"} 1"), "{metrics}");
    let ready = other.ask("GET", "/readyz", b"");
    assert!(ready.status == 503 && ready.text().contains("first copy is not complete"), "{ready:?}");
    let doctor = pando(["--url", &format!("{}/default", url(&other)), "doctor"]);
    let said = String::from_utf8(doctor.stdout).unwrap();
    assert!(said.contains("[replica-copies]") && !said.contains("[replica-late]"), "{said}");
    // Each attempt that waits gets nothing, and the next one finds all parts.
    for (from, to) in waiting {
        let to = bucket.join(to.strip_prefix(at("copied")).unwrap());
        std::fs::copy(&from, at("part")).unwrap();
        std::fs::OpenOptions::new().write(true).open(&to).map(drop).unwrap();
        std::fs::rename(at("part"), &to).unwrap();
    }
    let begun = Instant::now();
    while other.ask("GET", "/v0/entity?id=6", b"").status != 200 {
        assert!(begun.elapsed() < PATIENCE, "{}", lag());
        std::thread::sleep(Duration::from_millis(20));
    }
    await_level(&primary, &other);
    assert_eq!((&lag()["copying"], &lag()["copies"]), (&false.into(), &1.into()), "{}", lag());
}

/// The reason may name paths and addresses, and `/readyz` needs no token.
#[cfg(feature = "ship")]
#[test]
fn only_a_token_learns_why_a_server_is_not_ready() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (bucket, data) = (at("bucket"), at("b"));
    std::fs::create_dir(&bucket).unwrap();
    std::fs::create_dir(&data).unwrap();
    let token = text(pando(["token", "create", &data, "--name", "n", "--scope", "read", "--database", "x"]));
    let token = format!("Bearer {}", token.trim());
    let replica =
        Server::start_with(&dir.path().join("b"), &["--follow", &bucket, "--follow-interval", "20ms"]);
    let ready = replica.ask("GET", "/readyz", b"");
    assert!(ready.status == 503 && ready.text().contains("not-ready"), "{ready:?}");
    assert!(ready.text().contains("send a token") && !ready.text().contains("copied"), "{ready:?}");
    let ready = replica.ask_with("GET", "/readyz", &[("authorization", &token)], b"");
    assert!(ready.status == 503 && ready.text().contains("copied nothing yet"), "{ready:?}");
}
