//! `pando ttl`, and `--ttl` of commands that make tables.

use crate::common::{failure, pando, text};
use crate::http::Server;
use std::time::{Duration, Instant};

#[test]
fn entries_expire_and_the_ttl_changes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    text(pando(["put", path, "t", "k", "v", "--ttl", "36h", "--layout", "lsm"]));
    assert!(text(pando(["tables", path])).contains("36h"));
    text(pando(["put", path, "t", "k", "v"]));
    failure(pando(["put", path, "t", "k", "v", "--ttl", "35h"]), 2);
    failure(pando(["put", path, "t", "k", "v", "--ttl", "soon"]), 2);
    failure(pando(["ttl", path, "nowhere", "1s"]), 1);
    assert_eq!(text(pando(["get", path, "t", "k"])), "v");

    text(pando(["ttl", path, "t", "1ms"]));
    let began = Instant::now();
    while pando(["get", path, "t", "k"]).status.code() == Some(0) {
        assert!(began.elapsed() < Duration::from_secs(10), "it does not expire");
    }
    failure(pando(["get", path, "t", "k"]), 1);
    text(pando(["ttl", path, "t", "none"]));
    assert!(text(pando(["tables", path, "--json"])).contains("\"ttl\":\"none\""));
    failure(pando(["get", path, "t", "k"]), 1);

    text(pando(["put", path, "plain", "k", "v"]));
    failure(pando(["ttl", path, "plain", "1h"]), 2);
    assert_eq!(text(pando(["get", path, "plain", "k"])), "v");
}

#[test]
fn each_entry_of_a_table_can_have_a_ttl_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("default");
    let path = home.to_str().unwrap();
    text(pando(["put", path, "cache", "long", "v", "--expires-in", "1h"]));
    text(pando(["put", path, "cache", "short", "v", "--expires-in", "1ms"]));
    text(pando(["put", path, "cache", "ever", "v"]));
    std::thread::sleep(std::time::Duration::from_millis(5));
    assert_eq!(text(pando(["scan", path, "cache", "--keys-only", "--format", "csv"])), "key\never\nlong\n");
    assert!(text(pando(["tables", path, "--format", "csv"])).contains("cache,btree,by-key,none,"));
    for (arguments, expected) in [
        (&["put", path, "plain", "k", "v"][..], ""),
        (&["put", path, "plain", "k", "v", "--expires-in", "1h"], "no TTL by key"),
        (&["put", path, "cache", "k", "v", "--ttl", "1h"], "a TTL by key"),
        (&["put", path, "other", "k", "v", "--ttl", "1h", "--expires-in", "1h"], "by key"),
        (&["ttl", path, "cache", "1h"], "a TTL of its own"),
        (
            &["import", path, "rows", "-", "--format", "csv", "--schema", "id int key", "--ttl", "by-key"],
            "no TTL of their own",
        ),
    ] {
        match expected {
            "" => drop(text(pando(arguments))),
            expected => assert!(failure(pando(arguments), 2).contains(expected), "{arguments:?}"),
        }
    }

    let server = Server::start(dir.path());
    let tables = "/v1/databases/default/tables";
    let ask = |method: &str, path: &str, body: &[u8]| {
        let reply = server.ask(method, &format!("{tables}{path}"), body);
        (reply.status, reply.text().to_owned())
    };
    let ttl = |key: &str| {
        let (status, text) = ask("GET", &format!("/cache/expiry/{key}"), b"");
        let reply: serde_json::Value = serde_json::from_str(&text).unwrap();
        (status, reply["ttl_ms"].as_u64())
    };
    assert!(ttl("long").1.is_some_and(|ms| (3_000_000..3_600_000).contains(&ms)), "{:?}", ttl("long"));
    assert_eq!((ttl("ever"), ttl("short").0), ((200, None), 404));
    assert_eq!(ask("PUT", "/cache/entries/new?ttl_ms=60000", b"v").0, 204);
    assert!(ttl("new").1.is_some_and(|ms| (50_000..=60_000).contains(&ms)));
    // More than 1 MiB is written as it comes.
    assert_eq!(ask("PUT", "/cache/entries/large?ttl_ms=60000", &vec![7; 3 << 20]).0, 204);
    assert!(ttl("large").1.is_some());
    assert_eq!(ask("PUT", "/cache/expiry/new", b"").0, 204);
    assert_eq!(ttl("new"), (200, None));
    assert_eq!(ask("PUT", "/cache/expiry/large?ttl_ms=1", b"").0, 204);
    std::thread::sleep(std::time::Duration::from_millis(5));
    assert_eq!((ttl("large").0, ask("GET", "/cache/entries/large", b"").0), (404, 404));
    assert_eq!(ask("PUT", "/cache/expiry/absent?ttl_ms=1", b"").0, 404);
    for refused in [
        ask("PUT", "/plain/entries/k?ttl_ms=1", b"v"),
        ask("PUT", "/plain/expiry/k?ttl_ms=1", b""),
        ask("GET", "/plain/expiry/k", b""),
        ask("PUT", "/cache/entries/k?ttl_ms=0", b"v"),
        ask("PUT", "/cache/entries/k?ttl_ms=x", b"v"),
        ask("PATCH", "/cache", b"{\"ttl_ms\":1000}"),
    ] {
        assert_eq!(refused.0, 400, "{}", refused.1);
    }
    // Within a transaction.
    let begun = server.ask("POST", "/v1/databases/default/transactions", b"");
    let begun: serde_json::Value = serde_json::from_slice(&begun.body).unwrap();
    let within = [("pando-transaction", begun["transaction"].as_str().unwrap())];
    let entry = format!("{tables}/cache/entries/tx?ttl_ms=60000");
    assert_eq!(server.ask_with("PUT", &entry, &within, b"v").status, 204);
    let expiry = format!("{tables}/cache/expiry/tx");
    assert!(server.ask_with("GET", &expiry, &within, b"").text().contains("\"ttl_ms\":60000"));
    assert_eq!((server.ask_with("PUT", &expiry, &within, b"").status, ttl("tx").0), (204, 404));
    // Tables are created and described, and a follower sees the moments.
    assert_eq!(ask("PUT", "/sessions", b"{\"ttl_by_key\":true,\"layout\":\"lsm\"}").0, 201);
    assert_eq!(ask("PUT", "/sessions", b"{}").0, 200);
    assert_eq!(ask("PUT", "/sessions", b"{\"ttl_by_key\":false}").0, 409);
    assert_eq!(ask("PUT", "/both", b"{\"ttl_by_key\":true,\"ttl_ms\":9}").0, 400);
    assert!(ask("GET", "/sessions", b"").1.contains("\"ttl_by_key\":true"));
    assert_eq!(ask("PUT", "/sessions/entries/ann?ttl_ms=60000", b"in").0, 204);
    let changes =
        server.ask("GET", "/v1/databases/default/changes?table=sessions&wait=0", b"").text().to_owned();
    assert!(changes.contains("\"ttl_by_key\":true") && changes.contains("\"expires_ms\":"), "{changes}");
}

#[test]
fn exports_keep_the_ttl_of_each_entry() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("default");
    let path = home.to_str().unwrap();
    text(pando(["put", path, "cache", "hour", "v", "--expires-in", "1h"]));
    text(pando(["put", path, "cache", "ever", "v"]));
    let long = dir.path().join("long");
    std::fs::write(&long, vec![b'x'; 2 << 20]).unwrap();
    text(pando(["put", path, "cache", "long", "--file", long.to_str().unwrap(), "--expires-in", "2h"]));

    let file = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let server = Server::start(&dir.path().join("elsewhere"));
    let remote = format!("http://{}/copy", server.address);
    for name in ["cache.ndjson", "cache.csv"] {
        text(pando(["export", path, "cache", &file(name)]));
        // Into a directory and from it to a server, and back.
        let copy = file(&format!("of-{name}.pando"));
        text(pando(["import", &copy, "cache", &file(name), "--ttl", "by-key"]));
        let again = format!("again-{name}");
        text(pando(["export", &copy, "cache", &file(&again)]));
        text(pando(["import", &remote, "cache", &file(&again), "--ttl", "by-key"]));
        let from_server = format!("server-{name}");
        text(pando(["export", &remote, "cache", &file(&from_server)]));
        let last = file(&format!("last-{name}.pando"));
        text(pando(["import", &last, "cache", &file(&from_server), "--ttl", "by-key"]));
        for copy in [copy, last] {
            let db = pando::Database::builder().read_only(true).open(&copy).unwrap();
            let (snapshot, table) = (db.snapshot().unwrap(), db.table("cache").unwrap().unwrap());
            let hours = |key: &str| match snapshot.expiry(&table, key).unwrap().expect("it is there") {
                pando::Expiry::Never => None,
                pando::Expiry::In(ttl) => Some(ttl.as_secs_f64() / 3600.0),
            };
            assert_eq!(hours("ever"), None, "{copy}");
            assert!(hours("hour").is_some_and(|hours| (0.9..1.0).contains(&hours)), "{copy}");
            assert!(hours("long").is_some_and(|hours| (1.9..2.0).contains(&hours)), "{copy}");
            assert_eq!(snapshot.get(&table, "long").unwrap().unwrap().len(), 2 << 20, "{copy}");
        }
    }

    let plain = file("plain.pando");
    let refused = failure(pando(["import", &plain, "cache", &file("cache.ndjson")]), 2);
    assert!(refused.contains("create it with a TTL by key"), "{refused}");
    let bulk = ["import", &plain, "bulk", &file("cache.ndjson"), "--bulk", "--ttl", "by-key"];
    assert!(failure(pando(bulk), 2).contains("leave out --bulk"));
    std::fs::write(file("wrong.ndjson"), "{\"key\":\"k\",\"value\":\"v\",\"ttl_ms\":\"soon\"}\n").unwrap();
    assert!(failure(pando(["import", &plain, "t", &file("wrong.ndjson")]), 1).contains("line 1: `ttl_ms`"));
    std::fs::write(file("wrong.csv"), "key,value,ttl_ms\nk,v,soon\n").unwrap();
    assert!(failure(pando(["import", &plain, "t", &file("wrong.csv")]), 1).contains("`ttl_ms`"));
}
