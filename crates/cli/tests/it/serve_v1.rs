//! `/v1` from outside: databases, tables, records, batches, transactions, maintenance.

use crate::http::{Client, Reply, Server, escape};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

fn value(reply: &Reply) -> Value {
    serde_json::from_slice(&reply.body).unwrap_or_else(|_| panic!("no JSON: {reply:?}"))
}

fn lines(reply: &Reply) -> Vec<Value> {
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What the server looks after every second comes about.
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A server with the database `d` and the table `t`.
fn started(dir: &Path) -> (Server, Client) {
    let server = Server::start(dir);
    let mut client = server.connect();
    assert_eq!(client.ask("PUT", "/v1/databases/d", &[], b"").status, 201);
    assert_eq!(client.ask("PUT", "/v1/databases/d/tables/t", &[], b"").status, 201);
    (server, client)
}

const ENTRIES: &str = "/v1/databases/d/tables/t/entries";

fn entry(key: &[u8]) -> String {
    format!("{ENTRIES}/{}", escape(key))
}

#[test]
fn databases_and_tables_come_and_go() {
    let dir = tempfile::tempdir().unwrap();
    let (server, mut client) = started(dir.path());
    let mut status = |method, path: &str, body: &[u8]| client.ask(method, path, &[], body).status;
    assert_eq!(status("PUT", "/v1/databases/d", b""), 200, "it is there");
    assert_eq!(status("PUT", "/v1/databases/small", br#"{"page_bytes": 4096}"#), 201);
    assert_eq!(status("PUT", "/v1/databases/small", br#"{"page_bytes": 8192}"#), 409);
    assert_eq!(status("PUT", "/v1/databases/odd", br#"{"page_bytes": 5000}"#), 400);
    assert_eq!(status("PUT", "/v1/databases/odd", br#"{"pages": 1}"#), 400);
    assert_eq!(status("PUT", "/v1/databases/odd", b"[4096]"), 400, "an array is no object");
    assert_eq!(status("GET", "/v1/databases/odd", b""), 404);
    assert_eq!(status("GET", "/v1/databases/small", b""), 200);
    assert_eq!(status("GET", "/v1/databases/small/options", b""), 200);
    assert_eq!(status("GET", "/v1/databases/small/stats", b""), 200);
    assert_eq!(status("GET", "/v1/databases/small/readers", b""), 200);
    assert_eq!(status("PUT", "/v1/databases/small/tables/a%20b", br#"{"layout": "btree"}"#), 201);
    assert_eq!(status("PUT", "/v1/databases/small/tables/a%20b", b""), 200);
    assert_eq!(status("PUT", "/v1/databases/small/tables/x", br#"{"layout": "heap"}"#), 400);
    assert_eq!(status("PATCH", "/v1/databases/small/tables/a%20b", br#"{"name": "c"}"#), 200);
    assert_eq!(status("GET", "/v1/databases/small/tables/a%20b", b""), 404);
    assert_eq!(status("PATCH", "/v1/databases/small/tables/c", b"{}"), 400);
    assert_eq!(status("PATCH", "/v1/databases/small/tables/none", br#"{"layout": "lsm"}"#), 404);
    assert_eq!(status("PATCH", "/v1/databases/small/tables/c", br#"{"layout": "lsm"}"#), 200);
    let table = value(&server.ask("GET", "/v1/databases/small/tables/c", b""));
    assert_eq!((&table["layout"], &table["ttl_ms"]), (&json!("lsm"), &json!(null)));
    assert_eq!(status("PUT", "/v1/databases/small/tables/live", br#"{"ttl_ms": 60000}"#), 201);
    assert_eq!(status("PUT", "/v1/databases/small/tables/live", br#"{"ttl_ms": 60001}"#), 409);
    for ttl in ["0", "18446744073709551615", "18446744073709551616", "-1"] {
        let options = format!(r#"{{"ttl_ms": {ttl}}}"#);
        assert_eq!(status("PUT", "/v1/databases/small/tables/none", options.as_bytes()), 400, "{ttl}");
        assert_eq!(status("PATCH", "/v1/databases/small/tables/live", options.as_bytes()), 400, "{ttl}");
    }
    // A change is made whole or not at all.
    for (change, refused) in [
        (r#"{"layout": "lsm", "ttl_ms": 0}"#, 400),
        (r#"{"layout": "lsm", "ttl_ms": 7, "name": "c"}"#, 409),
        (r#"{"ttl_ms": 7, "compression": "lz4"}"#, 400),
    ] {
        assert_eq!(
            status("PATCH", "/v1/databases/small/tables/live", change.as_bytes()),
            refused,
            "{change}"
        );
        let table = value(&server.ask("GET", "/v1/databases/small/tables/live", b""));
        assert_eq!((&table["layout"], &table["ttl_ms"]), (&json!("btree"), &json!(60000)), "{change}");
    }
    let change = br#"{"layout": "lsm", "ttl_ms": 70000, "name": "lives"}"#;
    assert_eq!(status("PATCH", "/v1/databases/small/tables/live", change), 200);
    let table = value(&server.ask("GET", "/v1/databases/small/tables/lives", b""));
    assert_eq!((&table["layout"], &table["ttl_ms"]), (&json!("lsm"), &json!(70000)));
    assert_eq!(status("PATCH", "/v1/databases/small/tables/lives", br#"{"name": "live"}"#), 200);
    assert_eq!(status("PUT", "/v1/databases/small/tables/less", br#"{"compression": "zip"}"#), 400);
    assert_eq!(status("PUT", "/v1/databases/small/tables/less", br#"{"compression": "lz4"}"#), 400);
    for ttl in ["5000", "null"] {
        let change = format!(r#"{{"ttl_ms": {ttl}}}"#);
        assert_eq!(status("PATCH", "/v1/databases/small/tables/live", change.as_bytes()), 200);
        let table = value(&server.ask("GET", "/v1/databases/small/tables/live", b""));
        assert_eq!(table["ttl_ms"].to_string(), ttl);
    }
    assert_eq!(status("DELETE", "/v1/databases/small/tables/c", b""), 204);
    assert_eq!(status("DELETE", "/v1/databases/small/tables/c", b""), 404);
    assert_eq!(status("DELETE", "/v1/databases/small", b""), 204);
    assert_eq!(status("DELETE", "/v1/databases/small", b""), 404);
    assert_eq!(status("DELETE", "/v1/databases/default", b""), 409);
    let names = value(&server.ask("GET", "/v1/databases", b""));
    let listed = |name: &str| json!({ "name": name, "open": true, "scope": "admin" });
    assert_eq!(names, json!({ "databases": [listed("d"), listed("default")], "scope": "admin" }));
    let tables = value(&server.ask("GET", "/v1/databases/d/tables", b""));
    assert_eq!(tables["tables"].as_array().unwrap().len(), 1);
    let table = &tables["tables"][0];
    let described = [&table["name"], &table["layout"], &table["approximate_entries"], &table["writes"]];
    assert_eq!(described, [&json!("t"), &json!("btree"), &json!(0), &json!(0)]);
}

#[test]
fn names_never_reach_the_file_system_as_paths() {
    let dir = tempfile::tempdir().unwrap();
    let served = dir.path().join("served");
    let server = Server::start(&served);
    let long = "x".repeat(3000);
    for name in [
        "..",
        "%2e%2e",
        "..%2fout",
        "a%2fb",
        "a%00",
        "%00",
        ".hidden",
        "a.b",
        "~",
        "%ff",
        "tokens.json",
        &long,
    ] {
        for method in ["GET", "PUT", "DELETE"] {
            let reply = server.ask(method, &format!("/v1/databases/{name}"), b"");
            assert!(matches!(reply.status, 400 | 404), "{method} {name}: {}", reply.status);
        }
        let reply = server.ask("PUT", &format!("/v1/databases/{name}/tables/t"), b"");
        assert!(matches!(reply.status, 400 | 404), "{name}: {}", reply.status);
    }
    let entries = |dir: &Path| -> Vec<String> {
        let mut names: Vec<_> = std::fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    assert_eq!(entries(&served), ["default", "server.lock"]);
    assert_eq!(entries(dir.path()), ["served"]);
    // A table's name is no path: anything goes that is short enough.
    for (name, status) in
        [("..", 201), ("%2e%2e%2fx", 201), ("a%00b", 201), ("%ff", 400), (&"t".repeat(300), 400)]
    {
        assert_eq!(
            server.ask("PUT", &format!("/v1/databases/default/tables/{name}"), b"").status,
            status,
            "{name}"
        );
    }
}

#[test]
fn records_are_resources() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, mut client) = started(dir.path());
    assert_eq!(client.ask("GET", &entry(b"k"), &[], b"").status, 404);
    let put = client.ask("PUT", &entry(b"k"), &[], b"one");
    assert_eq!(put.status, 204);
    assert!(put.header("pando-commit").is_some());
    let tag = put.header("etag").unwrap().to_owned();
    let got = client.ask("GET", &entry(b"k"), &[], b"");
    assert_eq!((got.status, got.header("etag"), &got.body[..]), (200, Some(&tag[..]), &b"one"[..]));
    let head = client.ask("HEAD", &entry(b"k"), &[], b"");
    assert_eq!(
        (head.status, head.header("content-length"), head.header("etag")),
        (200, Some("3"), Some(&tag[..]))
    );
    assert_eq!(client.ask("GET", &entry(b"k"), &[("if-none-match", &tag)], b"").status, 304);

    // Compare and swap.
    let swap = |client: &mut Client, name, tag: &str, body: &[u8]| {
        client.ask("PUT", &entry(b"k"), &[(name, tag)], body).status
    };
    assert_eq!(swap(&mut client, "if-match", &tag, b"two"), 204);
    assert_eq!(swap(&mut client, "if-match", &tag, b"three"), 412);
    assert_eq!(swap(&mut client, "if-none-match", "*", b"three"), 412);
    assert_eq!(client.ask("DELETE", &entry(b"k"), &[("if-match", &tag)], b"").status, 412);
    assert_eq!(client.ask("GET", &entry(b"k"), &[], b"").body, b"two");
    assert_eq!(client.ask("DELETE", &entry(b"k"), &[("if-match", "*")], b"").status, 204);
    assert_eq!(swap(&mut client, "if-match", "*", b"three"), 412);
    assert_eq!(swap(&mut client, "if-none-match", "*", b"four"), 204);
    assert_eq!(swap(&mut client, "if-match", "bare", b"four"), 400);
    assert_eq!(client.ask("DELETE", &entry(b"k"), &[], b"").status, 204);
    assert_eq!(client.ask("DELETE", &entry(b"k"), &[], b"").status, 204, "also where it is absent");

    // Keys are bytes, slashes too, and values as long as the limit says, with conditions.
    for byte in 0..=255u8 {
        assert_eq!(client.ask("PUT", &entry(&[byte]), &[], &[byte]).status, 204);
    }
    for byte in 0..=255u8 {
        assert_eq!(client.ask("GET", &entry(&[byte]), &[], b"").body, [byte]);
    }
    assert_eq!(client.ask("PUT", &format!("{ENTRIES}/a/b"), &[], b"slash").status, 204);
    assert_eq!(client.ask("GET", &entry(b"a/b"), &[], b"").body, b"slash");
    let long = vec![7; 3 << 20];
    assert_eq!(client.ask("PUT", &entry(b"long"), &[("if-none-match", "*")], &long).status, 204);
    assert_eq!(client.ask("PUT", &entry(b"long"), &[("if-none-match", "*")], &long).status, 412);
    assert_eq!(client.ask("GET", &entry(b"long"), &[], b"").body, long);
    let head = client.ask("HEAD", &entry(b"long"), &[], b"");
    assert_eq!(head.header("content-length"), Some("3145728"));
    // Who names another value gets none, whatever else it has.
    for key in [&b"long"[..], b"z"] {
        assert_eq!(client.ask("PUT", &entry(b"z"), &[], b"short").status, 204);
        let conditions = [("if-match", "\"x\""), ("if-none-match", "\"y\"")];
        assert_eq!(client.ask("GET", &entry(key), &conditions, b"").status, 412);
        assert_eq!(client.ask("HEAD", &entry(key), &conditions[..1], b"").status, 412);
        assert_eq!(client.ask("GET", &entry(key), &conditions[1..], b"").status, 200);
        assert_eq!(client.ask("GET", &entry(key), &[("if-none-match", "\"x,y\", *")], b"").status, 400);
        assert_eq!(client.ask("GET", &entry(key), &[("if-none-match", "*")], b"").status, 304);
    }
    for (target, status) in [
        ("/v1/databases/none/tables/t/entries/k", 404),
        ("/v1/databases/d/tables/none/entries/k", 404),
        ("/v1/databases/d/tables/t/entries/", 404),
        ("/v1/databases/d/tables/t/entries/%zz", 400),
        ("/v1/databases/d/tables/t/entries/k?durability=none", 400),
    ] {
        assert_eq!(client.ask("PUT", target, &[], b"v").status, status, "{target}");
    }
    assert_eq!(client.ask("PUT", &format!("{}?durability=lazy", entry(b"z")), &[], b"v").status, 204);
}

#[test]
fn one_of_many_swaps_succeeds() {
    let dir = tempfile::tempdir().unwrap();
    let (server, mut client) = started(dir.path());
    client.ask("PUT", &entry(b"count"), &[], b"0");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = server.connect();
                for _ in 0..25 {
                    loop {
                        let got = client.ask("GET", &entry(b"count"), &[], b"");
                        let next = (got.text().parse::<u32>().unwrap() + 1).to_string();
                        let tag = [("if-match", got.header("etag").unwrap())];
                        match client.ask("PUT", &entry(b"count"), &tag, next.as_bytes()).status {
                            204 => break,
                            409 | 412 => {}
                            other => panic!("{other}"),
                        }
                    }
                }
            });
        }
    });
    assert_eq!(client.ask("GET", &entry(b"count"), &[], b"").body, b"100");
}

#[test]
fn many_records_come_in_order_and_in_pages() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, mut client) = started(dir.path());
    let mut body = String::new();
    for n in 0..5000 {
        body.push_str(&format!("{}\n", json!({"key": format!("k{n:05}"), "value": n.to_string()})));
    }
    body.push_str(&json!({"key_hex": "ff00", "value_hex": "fe"}).to_string());
    let imported = client.ask("POST", ENTRIES, &[], body.as_bytes());
    assert_eq!(value(&imported)["records"], 5001);
    // What names a range has no effect on keys, so it is refused beside them.
    for other in ["start=b", "end=b", "prefix=b", "limit=1", "reverse=true", "cursor=61"] {
        let refused = client.ask("GET", &format!("{ENTRIES}?key=a&{other}"), &[], b"");
        assert!(
            refused.status == 400 && refused.text().contains("exclude each other"),
            "{other}: {refused:?}"
        );
    }
    let none = client.ask("GET", &format!("{ENTRIES}?limit=0"), &[], b"");
    assert_eq!(none.status, 400, "no cursor could say where to go on");
    let mut get = |query: &str| lines(&client.ask("GET", &format!("{ENTRIES}?{query}"), &[], b""));
    let all = get("");
    assert_eq!(all.len(), 5001);
    assert_eq!(all[7], json!({"key": "k00007", "value": "7"}));
    assert_eq!(all[5000], json!({"key_hex": "ff00", "value_hex": "fe"}));
    assert_eq!(
        get("start=k00010&end=k00012&keys_only"),
        [json!({"key": "k00010"}), json!({"key": "k00011"})]
    );
    assert_eq!(get("prefix=k0001").len(), 10);
    assert_eq!(get("prefix=k&reverse=true&limit=1")[0]["key"], "k04999");
    for order in ["", "&reverse"] {
        let (mut found, mut cursor) = (Vec::new(), String::new());
        loop {
            let mut page = get(&format!("prefix=k&limit=700&keys_only{order}{cursor}"));
            let next = page.pop_if(|line| line.get("cursor").is_some());
            found.extend(page);
            match next {
                Some(line) => cursor = format!("&cursor={}", line["cursor"].as_str().unwrap()),
                None => break,
            }
        }
        let keys: Vec<_> = found.iter().map(|line| line["key"].as_str().unwrap().to_owned()).collect();
        let mut expected: Vec<_> = (0..5000).map(|n| format!("k{n:05}")).collect();
        if !order.is_empty() {
            expected.reverse();
        }
        assert_eq!(keys, expected, "{order}");
    }
    let several = get("key=k00001&key=none&key=%ff%00");
    let expected = [
        json!({"key": "k00001", "value": "1"}),
        json!({"key": "none", "absent": true}),
        json!({"key_hex": "ff00", "value_hex": "fe"}),
    ];
    assert_eq!(several, expected);
    for bad in
        ["limit=x", "limit=-1", "reverse=2", "cursor=zz", "prefix=a&start=b", "start=%f", "key=a&cursor=zz"]
    {
        assert_eq!(client.ask("GET", &format!("{ENTRIES}?{bad}"), &[], b"").status, 400, "{bad}");
    }
    assert_eq!(
        client.ask("DELETE", ENTRIES, &[], b"").status,
        400,
        "a whole table is not dropped in passing"
    );
    // Nor by a name that ends as one of the range's does, or that was meant to be its end.
    for bad in
        ["weekend=1", "durability=lazy", "start=k00001&edn=k00002", "prefix&limit=1", "start=a&prefix=b"]
    {
        let refused = client.ask("DELETE", &format!("{ENTRIES}?{bad}"), &[], b"");
        assert_eq!(refused.status, 400, "{bad}");
    }
    assert_eq!(lines(&client.ask("GET", ENTRIES, &[], b"")).len(), 5001);
    assert_eq!(client.ask("DELETE", &format!("{ENTRIES}?start=k00001&end=k04999"), &[], b"").status, 204);
    assert_eq!(lines(&client.ask("GET", ENTRIES, &[], b"")).len(), 3);
    for (bad, at) in [("{\"key\":\"a\"}\n", "line 1"), ("\n\nnonsense", "line 3"), ("[]", "line 1")] {
        let refused = client.ask("POST", ENTRIES, &[], bad.as_bytes());
        assert_eq!(refused.status, 400);
        assert!(value(&refused)["detail"].as_str().unwrap().contains(at), "{}", refused.text());
    }
}

#[test]
fn a_batch_is_done_whole_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, mut client) = started(dir.path());
    assert_eq!(client.ask("PUT", "/v1/databases/d/tables/u", &[], b"").status, 201);
    let mut batch = |operations: Value| {
        let body = json!({ "operations": operations }).to_string();
        let reply = client.ask("POST", "/v1/databases/d/batch", &[], body.as_bytes());
        (reply.status, value(&reply))
    };
    let put = |table: &str, key: &str| json!({"op": "put", "table": table, "key": key, "value": key});
    let (status, answer) = batch(json!([put("t", "a"), put("u", "b"), put("u", "c")]));
    assert_eq!((status, &answer["operations"]), (200, &json!(3)));
    let failing = [
        (json!({"op": "insert", "table": "u", "key": "b", "value": ""}), 409),
        (json!({"op": "check", "table": "u", "key": "b", "value": "other"}), 412),
        (json!({"op": "check", "table": "u", "key": "b", "absent": true}), 412),
        (json!({"op": "check", "table": "u", "key": "b"}), 400),
        (json!({"op": "check", "table": "u", "key": "b", "absent": false}), 400),
        (json!({"op": "check", "table": "u", "key": "b", "absent": "yes", "value": "b"}), 400),
        (json!({"op": "check", "table": "u", "key": "b", "absent": false, "value": "b"}), 400),
        (json!({"op": "put", "table": "none", "key": "b", "value": ""}), 404),
        (json!({"op": "put", "table": "u", "key": "b"}), 400),
        (json!({"op": "put", "table": "u", "key_hex": "b", "value": ""}), 400),
        (json!({"op": "delete_range", "table": "u"}), 400),
        (json!({"op": "delete_range", "table": "u", "start": "a", "edn": "b"}), 400),
        (json!({"op": "delete", "table": "u", "key": "b", "value": "b"}), 400),
        (json!({"op": "jump", "table": "u"}), 400),
        (json!({"op": "put", "table": "u", "key": "x".repeat(9000), "value": ""}), 400),
    ];
    for (operation, expected) in failing {
        let (status, answer) = batch(json!([put("t", "new"), operation]));
        assert_eq!(status, expected, "{answer}");
        assert!(answer["detail"].as_str().unwrap().contains("operation 1"), "{answer}");
    }
    let (status, _) = batch(json!([
        {"op": "check", "table": "u", "key": "b", "value": "b"},
        {"op": "insert", "table": "t", "key_hex": "ff", "value_hex": "00"},
        {"op": "delete", "table": "t", "key": "a"},
        {"op": "delete_range", "table": "u", "start": "b", "end": "c"},
    ]));
    assert_eq!(status, 200);
    let keys = |client: &mut Client, table: &str| {
        let reply = client.ask("GET", &format!("/v1/databases/d/tables/{table}/entries?keys_only"), &[], b"");
        reply.text().to_owned()
    };
    assert_eq!(keys(&mut client, "t"), "{\"key_hex\":\"ff\"}\n", "nothing of the failed ones");
    assert_eq!(keys(&mut client, "u"), "{\"key\":\"c\"}\n");
    for bad in ["[]", "{}", "{\"operations\": 1}", "nonsense", "{\"operations\": [], \"more\": 1}"] {
        assert_eq!(client.ask("POST", "/v1/databases/d/batch", &[], bad.as_bytes()).status, 400, "{bad}");
    }
}

fn begin(client: &mut Client, body: &[u8]) -> String {
    let reply = client.ask("POST", "/v1/databases/d/transactions", &[], body);
    assert_eq!(reply.status, 201, "{reply:?}");
    value(&reply)["transaction"].as_str().unwrap().to_owned()
}

fn end(client: &mut Client, token: &str) -> Reply {
    client.ask("POST", &format!("/v1/databases/d/transactions/{token}/commit"), &[], b"")
}

#[test]
fn an_interactive_transaction_sees_its_own_writes_and_conflicts_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, mut client) = started(dir.path());
    client.ask("PUT", &entry(b"stock"), &[], b"1");
    let (first, second) = (begin(&mut client, b""), begin(&mut client, br#"{"durability": "buffered"}"#));
    for token in [&first, &second] {
        let mine = [("pando-transaction", &token[..])];
        assert_eq!(client.ask("GET", &entry(b"stock"), &mine, b"").body, b"1");
        assert_eq!(client.ask("PUT", &entry(b"stock"), &mine, b"0").status, 204);
        assert_eq!(client.ask("PUT", &entry(token.as_bytes()), &mine, b"order").status, 204);
        assert_eq!(client.ask("GET", &entry(b"stock"), &mine, b"").body, b"0", "its own write");
        assert_eq!(lines(&client.ask("GET", ENTRIES, &mine, b"")).len(), 2);
    }
    // What is done at once is not asked for within a transaction.
    let mine = [("pando-transaction", &first[..])];
    for (method, target) in
        [("POST", ENTRIES), ("PUT", "/v1/databases/d/tables/at-once"), ("DELETE", "/v1/databases/d/tables/t")]
    {
        assert_eq!(client.ask(method, target, &mine, b"").status, 400, "{method} {target}");
    }
    assert_eq!(client.ask("GET", "/v1/databases/d/tables/at-once", &[], b"").status, 404);
    assert_eq!(client.ask("GET", &entry(b"stock"), &[], b"").body, b"1", "nobody else sees it");
    assert_eq!(end(&mut client, &first).status, 200);
    let conflict = end(&mut client, &second);
    assert_eq!(conflict.status, 409);
    let problem = value(&conflict);
    assert_eq!(problem["type"], "urn:pando:problem:conflict");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("\"t\"") && detail.contains("\"stock\""), "{detail}");
    assert_eq!(end(&mut client, &second).status, 404, "it has ended");

    let third = begin(&mut client, b"");
    let mine = [("pando-transaction", &third[..])];
    assert_eq!(client.ask("DELETE", &format!("{ENTRIES}?prefix="), &mine, b"").status, 204);
    let failing = json!({"operations": [
        {"op": "put", "table": "t", "key": "x", "value": "1"},
        {"op": "check", "table": "t", "key": "x", "absent": true},
    ]});
    let batch = client.ask("POST", "/v1/databases/d/batch", &mine, failing.to_string().as_bytes());
    assert_eq!(batch.status, 412);
    assert_eq!(client.ask("GET", &entry(b"x"), &mine, b"").status, 404, "a failed batch leaves nothing");
    assert_eq!(client.ask("DELETE", &format!("/v1/databases/d/transactions/{third}"), &[], b"").status, 204);
    assert_eq!(client.ask("GET", &entry(b"stock"), &[], b"").body, b"0");
    assert_eq!(client.ask("GET", &entry(b"stock"), &mine, b"").status, 404, "it is over");
    assert_eq!(client.ask("GET", &entry(b"stock"), &[("pando-transaction", "x")], b"").status, 404);
    let other = client.ask(
        "GET",
        "/v1/databases/default/tables/entity/entries/k",
        &[("pando-transaction", &first)],
        b"",
    );
    assert_eq!(other.status, 404, "a token belongs to its database");
}

#[test]
fn transactions_are_bounded_in_number_and_time() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_with(dir.path(), &["--max-transactions", "2", "--transaction-idle", "3"]);
    let mut client = server.connect();
    assert_eq!(client.ask("PUT", "/v1/databases/d", &[], b"").status, 201);
    let held = begin(&mut client, b"");
    begin(&mut client, b"");
    let mut ask = || client.ask("POST", "/v1/databases/d/transactions", &[], b"");
    let refused = ask();
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")));
    wait_until("there is room", || ask().status == 201);
    assert_eq!(end(&mut client, &held).status, 404, "nobody used it");
}

#[test]
fn an_operator_maintains_a_database_and_takes_a_backup_that_restores() {
    let dir = tempfile::tempdir().unwrap();
    let (server, mut client) = started(&dir.path().join("served"));
    let long = vec![3; 2 << 20];
    client.ask("PUT", &entry(b"long"), &[], &long);
    for n in 0..1000 {
        let target = format!("{}?durability=buffered", entry(format!("k{n}").as_bytes()));
        assert_eq!(client.ask("PUT", &target, &[], &[n as u8; 500]).status, 204);
    }
    let mut post = |what: &str| client.ask("POST", &format!("/v1/databases/d/{what}"), &[], b"");
    assert_eq!(post("sync").status, 204);
    assert_eq!(post("checkpoint").status, 204);
    let checked = post("check");
    assert_eq!((checked.status, &value(&checked)["sound"]), (200, &json!(true)));
    assert_eq!(post("compact").status, 200);
    assert_eq!(post("nothing").status, 404);
    let backup = client.ask("GET", "/v1/databases/d/backup", &[], b"");
    assert_eq!(backup.status, 200);
    let (file, restored) = (dir.path().join("d.backup"), dir.path().join("again/d"));
    std::fs::write(&file, &backup.body).unwrap();
    std::fs::create_dir(dir.path().join("again")).unwrap();
    let restore = std::process::Command::new(env!("CARGO_BIN_EXE_pando"))
        .args(["restore".as_ref(), file.as_os_str(), restored.as_os_str()])
        .output()
        .unwrap();
    assert!(restore.status.success(), "{}", String::from_utf8_lossy(&restore.stderr));
    drop(server);
    let again = Server::start(&dir.path().join("again"));
    assert_eq!(again.ask("GET", &entry(b"long"), b"").body, long);
    assert_eq!(again.ask("GET", &entry(b"k999"), b"").body, [231; 500]);
}

#[test]
fn databases_beyond_the_bound_are_closed_and_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_with(dir.path(), &["--max-open", "3", "--durability", "buffered"]);
    let mut client = server.connect();
    for n in 0..10 {
        assert_eq!(client.ask("PUT", &format!("/v1/databases/d{n}"), &[], b"").status, 201);
        assert_eq!(client.ask("PUT", &format!("/v1/databases/d{n}/tables/t"), &[], b"").status, 201);
        let target = format!("/v1/databases/d{n}/tables/t/entries/k");
        assert_eq!(client.ask("PUT", &target, &[], n.to_string().as_bytes()).status, 204);
    }
    for n in 0..10 {
        let got = client.ask("GET", &format!("/v1/databases/d{n}/tables/t/entries/k"), &[], b"");
        assert_eq!(got.text(), n.to_string());
    }
    wait_until("few are open", || {
        let listed = value(&client.ask("GET", "/v1/databases", &[], b""));
        let listed = listed["databases"].as_array().unwrap();
        listed.iter().filter(|database| database["open"] == true).count() <= 3
    });
}

#[test]
fn a_token_opens_what_it_is_for_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let pando = |arguments: &[&str]| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_pando"))
            .arg("token")
            .arg(arguments[0])
            .arg(dir.path())
            .args(&arguments[1..])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let admin = pando(&["create", "--name", "root", "--scope", "admin"]);
    let server = Server::start(dir.path());
    let ask = |token: &str, method: &str, target: &str| {
        server.ask_with(method, target, &[("authorization", &format!("Bearer {token}"))], b"").status
    };
    for (method, target) in [
        ("GET", "/v0/entity?id=k"),
        ("PUT", "/v0/entity?id=k"),
        ("GET", "/v0/status"),
        ("GET", "/v0/nothing"),
        ("GET", "/v1/databases"),
        ("PUT", "/v1/databases/d"),
        ("GET", "/v1/databases/default/backup"),
        ("GET", "/v1/databases/default/tables/entity/entries/k"),
        ("GET", "/"),
        ("GET", "/nothing"),
        ("GET", "/metrics"),
        ("GET", "/debug/profile"),
    ] {
        let refused = server.ask(method, target, b"");
        assert_eq!((refused.status, refused.header("www-authenticate").is_some()), (401, true), "{target}");
        assert_eq!(ask("pando_0123", method, target), 401, "{target}");
    }
    assert_eq!(ask(&admin, "PUT", "/v1/databases/a"), 201);
    assert_eq!(ask(&admin, "PUT", "/v1/databases/b"), 201);
    assert_eq!(ask(&admin, "PUT", "/v1/databases/a/tables/t"), 201);
    // A running server takes notice of new tokens, and of revoked ones.
    let reader = pando(&["create", "--name", "reader", "--scope", "read", "--database", "a"]);
    let writer = pando(&["create", "--name", "writer", "--scope", "write", "--database", "a"]);
    let key = "/v1/databases/a/tables/t/entries/k";
    wait_until("the writer is known", || ask(&writer, "GET", key) != 401);
    assert_eq!((ask(&reader, "GET", key), ask(&writer, "GET", key)), (404, 404));
    assert_eq!((ask(&reader, "PUT", key), ask(&writer, "PUT", key)), (403, 204));
    assert_eq!((ask(&reader, "GET", key), ask(&writer, "GET", key)), (200, 200));
    for token in [&reader, &writer] {
        assert_eq!(ask(token, "GET", "/v1/databases/b"), 403);
        assert_eq!(ask(token, "GET", "/v1/databases/default/tables/entity/entries/k"), 403);
        assert_eq!(ask(token, "GET", "/v0/entity?id=k"), 403);
        assert_eq!(ask(token, "POST", "/v1/databases/a/checkpoint"), 403);
        assert_eq!(ask(token, "DELETE", "/v1/databases/a"), 403);
    }
    let list =
        server.ask_with("GET", "/v1/databases", &[("authorization", &format!("Bearer {reader}"))], b"");
    assert_eq!(value(&list)["databases"].as_array().unwrap().len(), 1, "it sees what it may read");
    pando(&["revoke", "writer"]);
    wait_until("the writer is refused", || ask(&writer, "GET", key) == 401);
    assert_eq!(ask(&reader, "GET", key), 200);
    assert!(pando(&["list"]).contains("reader"));
}

#[test]
fn a_server_that_others_can_reach_wants_tokens() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_pando"));
    let refused = command.arg("serve").arg(dir.path()).args(["--listen", "0.0.0.0:0"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("pando token create"));
}
