//! `serve --store` takes no more of the store, and of its own memory, than it needs.

use crate::http::{Client, Server};
use crate::proxy::Proxy;
use crate::serve_store::value;
use crate::serve_store_failures::{run, wait_until};
use crate::server;
use serde_json::json;
use std::fmt::Write as _;
use std::time::Duration;

const ENTRIES: &str = "/v1/databases/default/tables/entity/entries";

#[test]
fn a_range_reads_from_the_store_what_it_sends() {
    const VALUES: usize = 64;
    const VALUE_BYTES: usize = 64 << 10;
    let Some(store) = server::shared() else { return };
    let (proxy, dir) = (Proxy::start(store), tempfile::tempdir().unwrap());
    let (url, schema) = (server::url(&proxy.dir), server::schema());
    let server = Server::start_with(dir.path(), &["--store", &url, "--store-schema", &schema]);
    let mut client = server.connect();
    for number in 0..VALUES {
        let path = format!("{ENTRIES}/{number:03}");
        assert_eq!(client.ask("PUT", &path, &[], &[b'v'; VALUE_BYTES]).status, 204);
    }
    // The protocol sends each byte of a value as one byte.
    let all = (VALUES * VALUE_BYTES) as u64;
    for order in ["", "?reverse"] {
        let (sent, reply) = proxy.sent_bytes(|| client.ask("GET", &format!("{ENTRIES}{order}"), &[], b""));
        assert_eq!(reply.text().lines().count(), VALUES);
        assert!((all..all * 5 / 4).contains(&sent), "{sent} of {all} bytes, {order:?}");
    }
    let (sent, reply) = proxy.sent_bytes(|| client.ask("GET", &format!("{ENTRIES}?limit=1"), &[], b""));
    assert_eq!(reply.text().lines().count(), 2, "and a cursor");
    assert!(sent < 256 << 10, "{sent} bytes for one record");
}

#[test]
fn many_keys_are_looked_up_with_few_requests() {
    let Some(store) = server::shared() else { return };
    let (proxy, dir) = (Proxy::start(store), tempfile::tempdir().unwrap());
    let (url, schema) = (server::url(&proxy.dir), server::schema());
    let server = Server::start_with(dir.path(), &["--store", &url, "--store-schema", &schema]);
    let mut client = server.connect();
    let short = (0..1000).map(|n| format!("{{\"key\":\"{n:03}\",\"value\":\"v{n}\"}}\n"));
    let long =
        (0..24).map(|n| format!("{{\"key\":\"long-{n:02}\",\"value\":\"{}\"}}\n", "v".repeat(512 << 10)));
    let lines = |records: Vec<String>| records.concat();
    let (short, long) = (short.collect::<Vec<_>>(), long.collect::<Vec<_>>());
    for records in [&short, &long] {
        assert_eq!(client.ask("POST", ENTRIES, &[], lines(records.clone()).as_bytes()).status, 200);
    }
    let begun = client.ask("POST", "/v1/databases/default/transactions", &[], b"");
    let token = value(&begun)["transaction"].as_str().unwrap().to_owned();
    for headers in [&[][..], &[("pando-transaction", &token[..])]] {
        // Descending, one of them twice, and one that does not exist.
        let keys: Vec<_> = (2..1000).rev().map(|n| format!("key={n:03}")).collect();
        let path = format!("{ENTRIES}?{}&key=002&key=none", keys.join("&"));
        let (requests, reply) = proxy.round_trips(|| client.ask("GET", &path, headers, b""));
        let mut expected: Vec<_> = short[2..].iter().rev().cloned().collect();
        expected.extend([short[2].clone(), "{\"key\":\"none\",\"absent\":true}\n".to_owned()]);
        assert!(reply.text() == lines(expected), "other records, {headers:?}");
        // The values, the table, and the end of the transaction of the store.
        assert!(requests <= 5, "{requests} requests for 1,000 keys");
    }
    // Short values say nothing about those after them.
    let keys = (0..500).map(|n| format!("key={n:03}")).chain((0..24).map(|n| format!("key=long-{n:02}")));
    let path = format!("{ENTRIES}?{}", keys.collect::<Vec<_>>().join("&"));
    let (requests, reply) = proxy.round_trips(|| client.ask("GET", &path, &[], b""));
    assert!(reply.text() == lines([&short[..500], &long].concat()), "{} bytes", reply.body.len());
    // Two long ones with each.
    assert!((12..=17).contains(&requests), "{requests} requests for 24 values of 512 KiB");
}

/// Returns the memory that the writes of open transactions have reserved.
fn reserved(server: &Server) -> u64 {
    let metrics = server.ask("GET", "/metrics", b"").text().to_owned();
    let line = metrics.lines().find_map(|line| line.strip_prefix("pando_store_write_memory_bytes "));
    line.expect("the metric").parse().unwrap()
}

#[test]
fn transactions_and_imports_share_a_limit_of_memory() {
    let Some(store) = server::shared() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (url, schema) = (server::url(store), server::schema());
    let options = ["--store", &url, "--store-schema", &schema, "--memory", "16M"];
    let server = Server::start_with(dir.path(), &options);
    let mut client = server.connect();
    let reserved = || reserved(&server);
    let begun = client.ask("POST", "/v1/databases/default/transactions", &[], b"");
    let token = value(&begun)["transaction"].as_str().unwrap().to_owned();
    let within = [("pando-transaction", &token[..])];
    let put = |client: &mut Client, number: u32| {
        client.ask("PUT", &format!("{ENTRIES}/held-{number}"), &within, &vec![7; 1 << 20]).status
    };
    for number in 0..6 {
        assert_eq!(put(&mut client, number), 204, "{number}");
    }
    assert!((11 << 20..14 << 20).contains(&reserved()), "{}", reserved());
    let lines = (0..40).fold(String::new(), |mut lines, number| {
        let _ = writeln!(lines, "{}", json!({ "key": format!("i{number}"), "value": "v".repeat(100 << 10) }));
        lines
    });
    let import = || server.ask("POST", ENTRIES, lines.as_bytes());
    let refused = import();
    assert_eq!((refused.status, &value(&refused)["type"]), (503, &json!("urn:pando:problem:store-busy")));
    assert!(refused.header("retry-after").is_some() && refused.text().contains("`--memory`"));
    assert_eq!(server.ask("GET", &format!("{ENTRIES}/i0"), b"").status, 404, "nothing was stored");
    // Short writes go on, and so does the transaction, up to the limit.
    assert_eq!(server.ask("PUT", &format!("{ENTRIES}/short"), b"v").status, 204);
    assert_eq!([put(&mut client, 6), put(&mut client, 7), put(&mut client, 8)], [204, 204, 507]);
    let transaction = format!("/v1/databases/default/transactions/{token}");
    assert_eq!(client.ask("DELETE", &transaction, &[], b"").status, 204);
    assert_eq!(reserved(), 0);
    assert_eq!(import().status, 200);
    assert_eq!(reserved(), 0);
}

#[test]
fn idle_connections_are_closed_and_opened_again() {
    let Some(store) = server::shared() else { return };
    let (dir, schema) = (tempfile::tempdir().unwrap(), server::schema());
    let url = format!("{}&application_name=idle_{schema}", server::url(store));
    let options = ["--store", &url, "--store-schema", &schema, "--store-idle", "4"];
    let server = Server::start_with(dir.path(), &options);
    let of_store = format!("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'idle_{schema}'");
    let path = format!("{ENTRIES}/k");
    for body in [b"one", b"two"] {
        assert_eq!(server.ask("PUT", &path, body).status, 204);
        assert_eq!(server.ask("GET", &path, b"").body, body);
        assert_ne!(run(&of_store), "0");
        wait_until(|| run(&of_store) == "0");
    }
    // One that a transaction uses stays.
    let begun = server.ask("POST", "/v1/databases/default/transactions", b"");
    let token = value(&begun)["transaction"].as_str().unwrap().to_owned();
    let within = [("pando-transaction", &token[..])];
    assert_eq!(server.ask_with("GET", &path, &within, b"").body, b"two");
    std::thread::sleep(Duration::from_secs(7));
    assert_eq!(run(&of_store), "1");
    assert_eq!(server.ask_with("GET", &path, &within, b"").body, b"two");
}

#[test]
fn an_import_that_arrives_slowly_holds_no_transaction_of_the_store() {
    let Some(store) = server::shared() else { return };
    let (dir, schema) = (tempfile::tempdir().unwrap(), server::schema());
    let url = format!("{}&application_name=slow_{schema}", server::url(store));
    let server = Server::start_with(dir.path(), &["--store", &url, "--store-schema", &schema]);
    let lines = (0..40).fold(String::new(), |mut lines, number| {
        let _ = writeln!(lines, "{}", json!({ "key": format!("i{number}"), "value": "v".repeat(100 << 10) }));
        lines
    });
    let mut client = server.connect();
    let length = lines.len();
    let head = format!("POST {ENTRIES} HTTP/1.1\r\nhost: test\r\ncontent-length: {length}\r\n\r\n");
    client.send(head.as_bytes()).unwrap();
    let (begin, rest) = lines.as_bytes().split_at(length / 2);
    client.send(begin).unwrap();
    wait_until(|| reserved(&server) > 3 << 20);
    let state = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'slow_{schema}' \
         AND state LIKE 'idle in transaction%'"
    );
    assert_eq!(run(&state), "0");
    client.send(rest).unwrap();
    assert_eq!(client.reply(false).unwrap().status, 200);
    // The commit checks the table, which another server may have dropped.
    let other = Server::start_with(dir.path(), &["--store", &url, "--store-schema", &schema]);
    let import = || other.ask("POST", ENTRIES, b"{\"key\":\"k\",\"value\":\"v\"}").status;
    let table = "/v1/databases/default/tables/entity";
    assert_eq!(import(), 200);
    assert_eq!(server.ask("DELETE", table, b"").status, 204);
    assert_eq!([import(), import()], [404, 404]);
    assert_eq!(server.ask("PUT", table, b"").status, 201);
    assert_eq!(import(), 200);
}
