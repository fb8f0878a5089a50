//! `watch`, and the stream of changes of a server.

use crate::common::{failure, pando, text};
use crate::http::Server;
use pando::{Database, Durability};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A server with the database `d` and the table `t`, and its address.
fn started(dir: &Path) -> (Server, String) {
    let server = Server::start(dir);
    let mut client = server.connect();
    assert_eq!(client.ask("PUT", "/v1/databases/d", &[], b"").status, 201);
    assert_eq!(client.ask("PUT", "/v1/databases/d/tables/t", &[], b"").status, 201);
    let address = format!("http://{}/d", server.address);
    (server, address)
}

#[test]
fn a_directory_shows_what_its_log_holds() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    for (table, key) in [("t", "a1"), ("t", "b1"), ("u", "a2")] {
        text(pando(["put", path, table, key, "v"]));
    }
    let all = lines(&text(pando(["watch", path])));
    let puts: Vec<_> =
        all.iter().filter(|line| line["op"] == "put").map(|line| line["key"].as_str()).collect();
    assert_eq!(puts, [Some("a1"), Some("b1"), Some("a2")]);
    let some = lines(&text(pando(["watch", path, "t", "--prefix", "a"])));
    assert_eq!(some.iter().filter(|line| line["op"] == "put").count(), 1);
    let last = all.last().unwrap()["commit"].as_u64().unwrap().to_string();
    assert_eq!(text(pando(["watch", path, "--from", &last])), "");
    assert!(failure(pando(["watch", path, "--from", "1000"]), 2).contains("newest one is"));
    let db = Database::builder().open(path).unwrap();
    db.checkpoint().unwrap();
    let refused = failure(pando(["watch", path]), 4);
    assert!(refused.contains("pando watch http://"), "{refused}");
    drop(db);
    assert!(failure(pando(["watch", path, "--from", "1"]), 1).contains(&format!("commit {last} or later")));
}

#[test]
fn a_server_is_followed_until_it_is_interrupted() {
    let dir = tempfile::tempdir().unwrap();
    let (server, address) = started(dir.path());
    let mut watch = Command::new(env!("CARGO_BIN_EXE_pando"))
        .args(["watch", &address, "t", "--from", "1"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut shown = BufReader::new(watch.stdout.take().unwrap());
    let mut client = server.connect();
    for key in ["a", "b", "c"] {
        let path = format!("/v1/databases/d/tables/t/entries/{key}");
        assert_eq!(client.ask("PUT", &path, &[], b"value").status, 204);
        let mut line = String::new();
        shown.read_line(&mut line).unwrap();
        let line: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            (&line["op"], &line["key"], &line["value"]),
            (&"put".into(), &key.into(), &"value".into())
        );
        let mut end = String::new();
        shown.read_line(&mut end).unwrap();
        let end: Value = serde_json::from_str(&end).unwrap();
        assert_eq!((&end["op"], &end["commit"]), (&"commit".into(), &line["commit"]));
        // The first one may have come before anybody followed.
        assert!(key == "a" || end["time_ms"].as_u64() > Some(1_600_000_000_000));
    }
    let killed = Command::new("kill").args(["-INT", &watch.id().to_string()]).status().unwrap();
    assert!(killed.success());
    assert_eq!(watch.wait().unwrap().code(), Some(0));
    let mut rest = String::new();
    shown.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
}

#[test]
fn events_have_the_numbers_of_whole_commits() {
    let dir = tempfile::tempdir().unwrap();
    let (server, _) = started(dir.path());
    let mut client = server.connect();
    let put = |key: &str| json!({ "op": "put", "table": "t", "key": key, "value": "1" });
    let batch = json!({ "operations": [put("a"), put("b")] }).to_string();
    let answer = client.ask("POST", "/v1/databases/d/batch", &[], batch.as_bytes());
    assert!(answer.status < 300, "{answer:?}");
    let path = "/v1/databases/d/changes?wait=0";
    let events = client.ask("GET", path, &[("accept", "text/event-stream"), ("last-event-id", "1")], b"");
    assert_eq!(events.status, 200);
    let text = events.text().to_owned();
    let parts: Vec<&str> = text.trim_end().split("\n\n").collect();
    assert_eq!(parts.len(), 3, "{text}");
    assert!(parts[..2].iter().all(|part| part.starts_with("data: {") && !part.contains("\nid:")), "{text}");
    assert!(parts[2].ends_with("\nid: 2"), "{text}");
    let status = |client: &mut crate::http::Client, path: &str| client.ask("GET", path, &[], b"").status;
    assert_eq!(status(&mut client, "/v1/databases/d/changes?after=x"), 400);
    assert_eq!(status(&mut client, "/v1/databases/d/changes?after=99"), 400);
    assert_eq!(status(&mut client, "/v1/databases/d/changes?format=xml"), 400);
    assert_eq!(status(&mut client, "/v1/databases/none/changes"), 404);
    assert_eq!(client.ask("POST", "/v1/databases/d/checkpoint", &[], b"").status, 204);
    assert_eq!(status(&mut client, "/v1/databases/d/changes?after=1&wait=0"), 410);
    let end = client.ask("GET", "/v1/databases/d/changes?after=2&wait=0", &[], b"");
    assert_eq!(end.text(), "{\"position\":2}\n");
}

#[test]
fn the_bytes_of_a_server_feed_a_copy() {
    let dir = tempfile::tempdir().unwrap();
    let (server, _) = started(dir.path());
    let mut client = server.connect();
    let follower = Database::builder().durability(Durability::Buffered).in_memory().unwrap();
    for round in 0..5_u8 {
        for key in 0..20_u8 {
            let path = format!("/v1/databases/d/tables/t/entries/{round}-{key}");
            assert_eq!(client.ask("PUT", &path, &[], &[round; 3000]).status, 204);
        }
        let after = follower.stats().unwrap().last_commit;
        let path = format!("/v1/databases/d/changes?after={after}&wait=0&format=binary");
        let changes = client.ask("GET", &path, &[], b"");
        assert_eq!(changes.status, 200);
        follower.apply_changes(&mut &changes.body[..]).unwrap();
    }
    let table = follower.table("t").unwrap().unwrap();
    assert_eq!(follower.snapshot().unwrap().range(&table, ..).unwrap().count(), 100);
    assert_eq!(follower.get(&table, b"4-19").unwrap(), Some(vec![4; 3000]));
}

#[test]
fn a_consumer_goes_on_where_it_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("default");
    let path = home.to_str().unwrap();
    let keys = |said: &str| -> Vec<String> {
        let puts = lines(said).into_iter().filter(|line| line["op"] == "put");
        puts.map(|line| line["key"].as_str().unwrap().to_owned()).collect()
    };
    text(pando(["put", path, "t", "before", "v"]));
    // It begins at the newest commit.
    assert_eq!(text(pando(["watch", path, "--consumer", "mails"])), "");
    for key in ["a", "b"] {
        text(pando(["put", path, "t", key, "v"]));
    }
    text(pando(["checkpoint", path]));
    assert_eq!(keys(&text(pando(["watch", path, "--consumer", "mails"]))), ["a", "b"]);
    assert_eq!(text(pando(["watch", path, "--consumer", "mails"])), "");
    text(pando(["put", path, "t", "c", "v"]));
    let server = Server::start(dir.path());
    let metrics = server.ask("GET", "/metrics", b"").text().to_owned();
    let line = "pando_consumer_lag_commits{database=\"default\",consumer=\"mails\"} ";
    let lag = metrics.lines().find_map(|found| found.strip_prefix(line)?.parse::<u64>().ok());
    // The put, and the table that a server creates.
    assert_eq!(lag, Some(2), "{metrics}");
    failure(pando(["watch", path, "--consumer", "mails"]), 4);
    let address = format!("http://{}", server.address);
    let watch =
        |consumer: &str| keys(&text(pando(["watch", &address, "t", "--consumer", consumer, "--wait", "0"])));
    // The server continues where the directory's command stopped, and keeps what it lacks.
    assert_eq!(watch("mails"), ["c"]);
    assert!(watch("mails").is_empty() && watch("new/one").is_empty());
    text(pando(["put", &address, "t", "d", "v"]));
    text(pando(["checkpoint", &address]));
    assert_eq!((watch("mails"), watch("new/one")), (vec!["d".to_owned()], vec!["d".to_owned()]));
    text(pando(["put", &address, "t", "e", "v"]));
    drop(server);
    assert_eq!(keys(&text(pando(["watch", path, "--consumer", "mails"]))), ["e"]);
}

#[test]
fn a_server_keeps_the_positions_of_consumers() {
    let dir = tempfile::tempdir().unwrap();
    let (server, _) = started(dir.path());
    let ask = |method: &str, path: &str| {
        let reply = server.ask(method, &format!("/v1/databases/d{path}"), b"");
        (reply.status, reply.text().to_owned())
    };
    let position = |(status, text): (u16, String)| {
        let consumer: Value = serde_json::from_str(&text).unwrap();
        (status, consumer["position"].as_u64().unwrap_or_else(|| panic!("{text}")))
    };
    assert_eq!(ask("GET", "/consumers"), (200, "{\"consumers\":[]}\n".to_owned()));
    assert_eq!(ask("GET", "/consumers/mails").0, 404);
    assert_eq!(ask("GET", "/changes?consumer=mails&wait=0").0, 404);
    let (status, first) = position(ask("PUT", "/consumers/mails"));
    assert_eq!(status, 201);
    assert_eq!(position(ask("PUT", "/consumers/mails")), (200, first));
    for key in ["a", "b", "c"] {
        assert_eq!(server.ask("PUT", &format!("/v1/databases/d/tables/t/entries/{key}"), b"v").status, 204);
    }
    let seen = || -> Vec<u64> {
        let text = ask("GET", "/changes?consumer=mails&wait=0").1;
        let commits = lines(&text).into_iter().filter(|line| line["op"] == "commit");
        commits.map(|line| line["commit"].as_u64().unwrap()).collect()
    };
    assert_eq!(ask("POST", "/checkpoint").0, 204);
    assert_eq!(seen(), [first + 1, first + 2, first + 3]);
    assert_eq!(
        position(ask("PUT", &format!("/consumers/mails?acknowledge={}", first + 2))),
        (200, first + 2)
    );
    // It does not go back, nor to a commit that does not exist.
    assert_eq!(position(ask("PUT", &format!("/consumers/mails?acknowledge={first}"))), (200, first + 2));
    assert_eq!(ask("PUT", "/consumers/mails?acknowledge=99").0, 400);
    assert_eq!(ask("PUT", "/consumers/mails?acknowledge=x").0, 400);
    assert_eq!(ask("PUT", &format!("/consumers/{}", "n".repeat(101))).0, 400);
    assert_eq!(ask("GET", "/changes?consumer=mails&after=1&wait=0").0, 400);
    assert_eq!(seen(), [first + 3]);
    // A client that connects again has seen more than the consumer acknowledged.
    let last = (first + 3).to_string();
    let again = server.ask_with(
        "GET",
        "/v1/databases/d/changes?consumer=mails&wait=0",
        &[("last-event-id", &last)],
        b"",
    );
    assert_eq!(again.text().lines().count(), 1, "{}", again.text());
    server.kill();
    let server = Server::start(dir.path());
    let reply = server.ask("GET", "/v1/databases/d/consumers", b"");
    let expected = json!({ "consumers": [{ "name": "mails", "position": first + 2, "is_lost": false }] });
    assert_eq!(serde_json::from_slice::<Value>(&reply.body).unwrap(), expected);
    assert_eq!(server.ask("DELETE", "/v1/databases/d/consumers/mails", b"").status, 204);
    assert_eq!(server.ask("DELETE", "/v1/databases/d/consumers/mails", b"").status, 404);
}

/// No float has this value.
const EXACT: i64 = (1 << 53) + 1;

#[test]
fn rows_are_shown_with_their_columns() {
    let dir = tempfile::tempdir().unwrap();
    let (server, address) = started(dir.path());
    let mut client = server.connect();
    let define_seen = "CREATE TABLE seen(name TEXT COLLATE NOCASE PRIMARY KEY, n) WITHOUT ROWID";
    for sql in [
        "CREATE TABLE fruit(id INTEGER PRIMARY KEY, name TEXT, photo BLOB)",
        "CREATE INDEX by_name ON fruit(name)",
        "INSERT INTO fruit VALUES (1, 'fig', x'ff00'), (2, 'a long name', NULL)",
        "DELETE FROM fruit WHERE id = 1",
        "DELETE FROM fruit",
        define_seen,
        "INSERT INTO seen VALUES ('Fig', 9007199254740993)",
        "DELETE FROM seen WHERE name = 'FIG'",
        "DROP TABLE seen",
    ] {
        let answer =
            client.ask("POST", "/v1/databases/d/sql", &[], json!({ "sql": sql }).to_string().as_bytes());
        assert_eq!(answer.status, 200, "{sql}: {answer:?}");
    }
    assert_eq!(client.ask("PUT", "/v1/databases/d/tables/t/entries/k", &[], b"v").status, 204);

    let shown = |args: &[&str]| {
        let all = lines(&text(pando([&["watch", &address, "--rows", "--wait", "0"], args].concat())));
        all.into_iter().filter(|line| line["op"] != "commit").map(|mut line| {
            assert!(line["commit"].take().is_u64());
            line.as_object_mut().unwrap().remove("commit");
            line
        })
    };
    let all: Vec<_> = shown(&[]).collect();
    let define = |kind: &str, name: &str, table: &str, sql: &str| {
        let mut line = json!({ "op": "define", "type": kind, "name": name, "table": table });
        line["sql"] = sql.into();
        line
    };
    let of_seen = all.iter().find(|line| line["table"] == "seen" && line["op"] == "put").unwrap();
    let key = of_seen["key_hex"].as_str().unwrap();
    let put =
        |table: &str, key: Value, row: Value| json!({ "op": "put", "table": table, "key": key, "row": row });
    let expected = [
        json!({ "op": "create_table", "table": "t", "layout": "btree", "compression": "none" }),
        define(
            "table",
            "fruit",
            "fruit",
            "CREATE TABLE fruit(id INTEGER PRIMARY KEY, name TEXT, photo BLOB)",
        ),
        define("index", "by_name", "fruit", "CREATE INDEX by_name ON fruit(name)"),
        put("fruit", json!({ "id": 1 }), json!({ "id": 1, "name": "fig", "photo": "ff00" })),
        put("fruit", json!({ "id": 2 }), json!({ "id": 2, "name": "a long name", "photo": null })),
        json!({ "op": "delete", "table": "fruit", "key": { "id": 1 } }),
        json!({ "op": "clear", "table": "fruit" }),
        define("table", "seen", "seen", define_seen),
        json!({ "op": "put", "table": "seen", "key_hex": key, "row": { "name": "Fig", "n": EXACT } }),
        json!({ "op": "delete", "table": "seen", "key_hex": key }),
        json!({ "op": "drop", "type": "table", "name": "seen", "table": "seen" }),
        json!({ "op": "put", "table": "t", "key": "k", "value": "v" }),
    ];
    assert_eq!(all, expected);

    // By table, and with long values cut.
    let ops: Vec<_> = shown(&["Fruit"]).map(|line| line["op"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ops, ["define", "define", "put", "put", "delete", "clear"]);
    let path = "/v1/databases/d/changes?rows=true&table=fruit&value_bytes=3&wait=0";
    let cut = lines(client.ask("GET", path, &[], b"").text());
    let long = cut.iter().find(|line| line["key"]["id"] == 2).unwrap();
    assert_eq!((&long["row"]["name"], &long["cut"]), (&"a l".into(), &json!({ "name": 11 })));
    // As events: changes of other tables have none.
    let events = client.ask("GET", path, &[("accept", "text/event-stream")], b"");
    assert_eq!(events.text().matches("\nid: ").count(), 5, "{events:?}");

    for wrong in ["rows=true&format=binary", "rows=true&prefix=a", "rows=perhaps"] {
        let answer = client.ask("GET", &format!("/v1/databases/d/changes?{wrong}"), &[], b"");
        assert_eq!(answer.status, 400, "{wrong}");
    }
    assert!(
        failure(pando(["watch", &address, "--rows", "--prefix", "a"]), 2).contains("cannot be used with")
    );
}

#[test]
fn a_directory_shows_rows() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    text(pando(["sql", path, "CREATE TABLE t(a INTEGER PRIMARY KEY, b); INSERT INTO t VALUES (1, 'x')"]));
    let rows = lines(&text(pando(["watch", path, "--rows", "t"])));
    assert!(rows.iter().any(|line| line["row"] == json!({ "a": 1, "b": "x" })), "{rows:?}");
    // A consumer that stopped before a definition changed.
    text(pando(["watch", path, "--consumer", "c"]));
    text(pando(["sql", path, "ALTER TABLE t ADD COLUMN c; INSERT INTO t VALUES (2, 'y', 3)"]));
    let rows = lines(&text(pando(["watch", path, "--consumer", "c", "--rows"])));
    assert!(rows.iter().any(|line| line["row"] == json!({ "a": 2, "b": "y", "c": 3 })), "{rows:?}");
}

// Changes of other tables neither prolong a stream of rows that nobody shows, nor hold back the lines of one.
#[test]
fn a_stream_of_selected_rows_ends_beside_a_busy_table() {
    let dir = tempfile::tempdir().unwrap();
    let (server, _) = started(dir.path());
    let mut client = server.connect();
    for sql in ["CREATE TABLE rare(a)", "INSERT INTO rare VALUES (1)"] {
        let body = json!({ "sql": sql }).to_string();
        assert_eq!(client.ask("POST", "/v1/databases/d/sql", &[], body.as_bytes()).status, 200);
    }
    let is_over = AtomicBool::new(false);
    thread::scope(|threads| {
        let writer = threads.spawn(|| {
            let mut client = server.connect();
            let began = Instant::now();
            while !is_over.load(SeqCst) && began.elapsed() < Duration::from_secs(60) {
                client.ask("PUT", "/v1/databases/d/tables/t/entries/busy", &[], b"v");
            }
        });
        let stream = client.ask("GET", "/v1/databases/d/changes?rows=true&table=rare&wait=1", &[], b"");
        assert!(!writer.is_finished(), "the stream lasted as long as the writer");
        is_over.store(true, SeqCst);
        let shown = lines(stream.text());
        assert!(shown.iter().any(|line| line["row"]["a"] == 1), "{shown:?}");
        assert!(shown.last().unwrap()["position"].as_u64() > Some(0), "{shown:?}");
    });
}

#[test]
fn consumers_are_listed_and_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    text(pando(["put", path, "t", "a", "v"]));
    text(pando(["watch", path, "--consumer", "typo"]));
    text(pando(["watch", path, "--consumer", "two words/ü"]));
    let listed =
        |at: &str| -> Value { serde_json::from_str(&text(pando(["consumers", at, "--json"]))).unwrap() };
    let position = listed(path)[0]["position"].as_u64().unwrap();
    let one = |name: &str| json!({ "consumer": name, "position": position, "state": "kept" });
    assert_eq!(listed(path), json!([one("two words/ü"), one("typo")]));
    let shown = text(pando(["consumers", path]));
    assert!(shown.starts_with("consumer") && shown.contains("typo"), "{shown}");
    text(pando(["consumers", path, "--drop", "typo"]));
    assert_eq!(listed(path), json!([one("two words/ü")]));
    assert!(failure(pando(["consumers", path, "--drop", "typo"]), 1).contains("no consumer \"typo\""));
    failure(pando(["consumers", path, "--drop", "typo", "--json"]), 2);

    // While another process writes, its server has the consumers.
    let db = Database::open(path).unwrap();
    for words in [&["consumers", path][..], &["consumers", path, "--drop", "typo"]] {
        failure(pando(words), 4);
    }
    db.close().unwrap();

    let dir = tempfile::tempdir().unwrap();
    let (server, address) = started(dir.path());
    let name = "/v1/databases/d/consumers/two%20words%2F%C3%BC";
    assert_eq!(server.connect().ask("PUT", name, &[], b"").status, 201);
    assert_eq!(listed(&address)[0]["consumer"], "two words/ü");
    text(pando(["consumers", &address, "--drop", "two words/ü"]));
    assert_eq!(listed(&address), json!([]));
    failure(pando(["--url", &address, "consumers", "--drop", "two words/ü"]), 1);
}
