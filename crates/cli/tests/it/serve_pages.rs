//! What people and tools look at: the OpenAPI document against the running server, metrics, profiles.

use crate::http::Server;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::{Duration, Instant};

#[test]
fn the_document_describes_what_the_server_answers() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let mut client = server.connect();
    let document: Value = serde_json::from_slice(&client.ask("GET", "/openapi.json", &[], b"").body).unwrap();
    assert_eq!(document["openapi"], "3.1.0");
    for (path, methods) in document["paths"].as_object().unwrap() {
        let target = path
            .replace("{database}", "d")
            .replace("{table}", "t")
            .replace("{key}", "k")
            .replace("{file}", "app.js");
        let target = target.replace("{transaction}", "none");
        let described: BTreeSet<&str> =
            methods.as_object().unwrap().keys().map(|method| &method[..]).collect();
        // A header that is wrong where it is read, and a method that nobody has.
        let headers = [("if-match", "bare")];
        for method in ["get", "head", "put", "post", "patch", "delete", "propfind"] {
            let is_described = described.contains(method);
            let reply =
                client.ask(&method.to_uppercase(), &target, if is_described { &[] } else { &headers }, b"");
            let status = reply.status;
            if is_described {
                let known = methods[method]["responses"].as_object().unwrap();
                assert!(
                    known.contains_key(&status.to_string()),
                    "{method} {path}: {status} is not described"
                );
            } else {
                assert_eq!(status, 405, "{method} {path} is not described");
                let allowed = reply.header("allow").unwrap_or_else(|| panic!("{method} {path}: {reply:?}"));
                let allowed: BTreeSet<String> = allowed.split(", ").map(str::to_lowercase).collect();
                assert!(allowed.iter().eq(described.iter()), "{method} {path}: {allowed:?}");
            }
        }
    }
}

#[test]
fn every_operation_but_health_wants_a_token() {
    let dir = tempfile::tempdir().unwrap();
    let token = |name: &str, arguments: &[&str]| {
        let mut pando = Command::new(env!("CARGO_BIN_EXE_pando"));
        pando.args(["token", "create"]).arg(dir.path()).args(["--name", name]).args(arguments);
        let output = pando.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        format!("Bearer {}", String::from_utf8(output.stdout).unwrap().trim())
    };
    let admin = token("admin", &["--scope", "admin"]);
    let stranger = token("stranger", &["--scope", "admin", "--database", "other"]);
    let server = Server::start(dir.path());
    let mut client = server.connect();
    let mut status = |method: &str, target: &str, bearer: &str| {
        let headers = [("authorization", bearer)];
        let headers = if bearer.is_empty() { &[][..] } else { &headers };
        client.ask(&method.to_uppercase(), target, headers, b"").status
    };
    let document = server.ask_with("GET", "/openapi.json", &[("authorization", &admin)], b"");
    let document: Value = serde_json::from_slice(&document.body).unwrap();
    for (path, methods) in document["paths"].as_object().unwrap() {
        let target = path
            .replace("{database}", "d")
            .replace("{table}", "t")
            .replace("{key}", "k")
            .replace("{file}", "app.js");
        for method in methods.as_object().unwrap().keys() {
            let is_health = ["/healthz", "/readyz"].contains(&&path[..]);
            let without = if is_health { 200 } else { 401 };
            assert_eq!(status(method, &target, ""), without, "{method} {path}");
            assert_eq!(status(method, &target, "Bearer pando_wrong"), without, "{method} {path}");
            // One for another database: the pages say nothing of anybody's data, and the list is of its own.
            let is_anybodys = is_health
                || [
                    "/",
                    "/dashboard/{file}",
                    "/docs",
                    "/openapi.json",
                    "/v1/server",
                    "/v1/history",
                    "/v1/databases",
                ]
                .contains(&&path[..]);
            let other = if is_anybodys { 200 } else { 403 };
            assert_eq!(status(method, &target, &stranger), other, "{method} {path}");
        }
    }
}

/// Lines of a Prometheus exposition as (name, labels, value), each checked to be well-formed.
fn parse(text: &str) -> Vec<(String, BTreeMap<String, String>, f64)> {
    let (mut samples, mut types) = (Vec::new(), BTreeMap::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(["counter", "gauge", "histogram", "summary"].contains(&kind), "{line}");
            assert!(types.insert(name.to_owned(), kind).is_none(), "{name} twice");
            continue;
        }
        if line.starts_with('#') {
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let labels = labels.strip_suffix('}').unwrap();
        let labels = labels.split(',').filter(|label| !label.is_empty()).map(|label| {
            let (key, value) = label.split_once('=').unwrap();
            (key.to_owned(), value.strip_prefix('"').unwrap().strip_suffix('"').unwrap().to_owned())
        });
        let family =
            ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
        assert!(types.contains_key(name) || types.contains_key(family), "{name} has no type");
        samples.push((name.to_owned(), labels.collect(), value.parse().unwrap()));
    }
    samples
}

#[test]
fn metrics_count_what_was_asked() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let mut client = server.connect();
    for n in 0..20 {
        client.ask("PUT", &format!("/v0/entity?id={n}"), &[], b"v");
        client.ask("GET", &format!("/v0/entity?id={}", 2 * n), &[], b"");
    }
    assert_eq!(client.ask("PUT", "/v1/databases/second", &[], b"").status, 201);
    let reply = client.ask("GET", "/metrics", &[], b"");
    assert!(reply.header("content-type").unwrap().starts_with("text/plain; version=0.0.4"));
    let samples = parse(reply.text());
    let of = |name: &str, label: &str, is: &str| -> f64 {
        let found = samples
            .iter()
            .filter(|(found, labels, _)| found == name && labels.get(label).is_some_and(|value| value == is));
        found.map(|(_, _, value)| value).sum()
    };
    assert_eq!(of("pando_http_requests_total", "kind", "put"), 20.0);
    assert_eq!(of("pando_http_requests_total", "kind", "get"), 20.0);
    assert_eq!(of("pando_http_requests_total", "status", "4xx"), 19.0);
    assert_eq!(of("pando_http_request_duration_seconds_count", "kind", "put"), 20.0);
    assert!(of("pando_commits_total", "database", "default") >= 20.0);
    assert_eq!(of("pando_table_writes_total", "table", "entity"), 20.0);
    assert_eq!(of("pando_commits_total", "database", "second"), 0.0);
    // The buckets of a histogram only grow, up to the count.
    let buckets =
        samples.iter().filter(|(name, labels, _)| name.ends_with("_bucket") && labels["kind"] == "get");
    let buckets: Vec<f64> = buckets.map(|(_, _, count)| *count).collect();
    assert!(buckets.is_sorted() && buckets.last() == Some(&20.0), "{buckets:?}");
}

#[test]
fn slow_requests_are_kept_and_explained() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_with(dir.path(), &["--slow", "40"]);
    let mut client = server.connect();
    assert_eq!(client.ask("PUT", "/v0/entity?id=k", &[], b"v").status, 201);
    // A body that takes its time, from when it was asked for.
    client.begin_put("/v0/entity?id=late", 2);
    std::thread::sleep(Duration::from_millis(60));
    client.send(b"vv").unwrap();
    assert_eq!(client.reply(false).unwrap().status, 201);
    let slow: Value = serde_json::from_slice(&client.ask("GET", "/debug/slow", &[], b"").body).unwrap();
    assert_eq!(slow["threshold_us"], 40_000);
    let late = slow["slow"].as_array().unwrap().iter().find(|one| one["target"] == "/v0/entity?id=late");
    let late = late.unwrap_or_else(|| panic!("{slow}"));
    assert!(late["us"].as_u64().unwrap() >= 50_000 && late["method"] == "PUT" && late["status"] == 201);

    let table = "/v1/databases/default/tables/entity/explain";
    let reply = client.ask("GET", &format!("{table}?key=k"), &[], b"");
    assert_eq!(reply.status, 200, "{}", reply.text());
    let explained: Value = serde_json::from_slice(&reply.body).unwrap();
    assert_eq!(
        explained["steps"].as_array().unwrap().last().unwrap()["outcome"],
        "a value of 1 bytes",
        "{explained}"
    );
    let explained: Value =
        serde_json::from_slice(&client.ask("GET", &format!("{table}?prefix=l&limit=5"), &[], b"").body)
            .unwrap();
    assert!(explained["ns"].as_u64().unwrap() > 0, "{explained}");
    for (bad, status) in [("limit=0", 400), ("limit=x", 400), ("key=%zz", 400), ("prefix=a&start=b", 400)] {
        assert_eq!(client.ask("GET", &format!("{table}?{bad}"), &[], b"").status, status, "{bad}");
    }
    assert_eq!(client.ask("GET", &table.replace("entity", "none"), &[], b"").status, 404);
}

#[test]
fn tables_say_what_they_cost() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_with(dir.path(), &["--durability", "lazy"]);
    let mut client = server.connect();
    for n in 0..200 {
        client.ask("PUT", &format!("/v0/entity?id={n}"), &[], &[b'v'; 1000]);
    }
    assert_eq!(client.ask("POST", "/v1/databases/default/checkpoint", &[], b"").status, 204);
    let listed: Value =
        serde_json::from_slice(&client.ask("GET", "/v1/databases/default/tables", &[], b"").body).unwrap();
    let table = &listed["tables"][0];
    let number = |name: &str| table[name].as_u64().unwrap();
    assert!((200_000..260_000).contains(&number("committed_bytes")), "{table}");
    assert!(number("record_bytes") >= 200_000 && number("stored_bytes") >= number("record_bytes"), "{table}");
    assert!(number("written_bytes") >= number("stored_bytes"), "{table}");
    assert!(number("runs") >= 1 && number("get_pages") >= 1 && number("writes") == 200, "{table}");
}

#[test]
fn health_ids_and_the_access_log() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    assert_eq!(server.ask("GET", "/healthz", b"").status, 200);
    assert_eq!(server.ask("GET", "/readyz", b"").status, 200);
    let reply = server.ask_with("GET", "/v0/status", &[("x-request-id", "mine")], b"");
    assert_eq!(reply.header("x-request-id"), Some("mine"));
    let given = server.ask("GET", "/v0/status", b"");
    assert!(given.header("x-request-id").is_some_and(|id| id.len() > 10));
    let foreign = [("origin", "http://evil.example")];
    assert_eq!(server.ask_with("POST", "/v1/databases/default/checkpoint", &foreign, b"").status, 403);
}

#[test]
fn a_profile_is_recorded_while_the_server_works() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    for kind in ["cpu", "alloc", "lock"] {
        let profile = server.ask("GET", &format!("/debug/profile?kind={kind}&seconds=1"), b"");
        assert_eq!(profile.status, 200, "{kind}: {}", profile.text());
        assert!(profile.text().contains("<svg"), "{kind}");
    }
    for bad in ["kind=heat", "seconds=0", "seconds=61", "form=png", "last=5"] {
        assert_eq!(server.ask("GET", &format!("/debug/profile?{bad}"), b"").status, 400, "{bad}");
    }
}

#[test]
fn the_last_seconds_are_kept_where_they_are_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_with(dir.path(), &["--profile-window", "30"]);
    let mut client = server.connect();
    // Samples are taken by processor time, so it takes some work to be seen; how much depends on the machine.
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        (0..2000).for_each(|n| drop(client.ask("GET", &format!("/v0/entity?id={n}"), &[], b"")));
        let profile = client.ask("GET", "/debug/profile?last=30&form=folded", &[], b"");
        assert_eq!(profile.status, 200, "{}", profile.text());
        if profile.text().contains("pando-http") {
            break;
        }
        assert!(Instant::now() < deadline, "what answers is not in it: {}", profile.text());
    }
    let begun = Instant::now();
    assert_eq!(client.ask("GET", "/debug/profile?seconds=1&form=folded", &[], b"").status, 200);
    assert!(begun.elapsed().as_secs() >= 1);
    for (bad, status) in [("last=0", 400), ("last=5&kind=lock", 400), ("kind=alloc&seconds=1", 409)] {
        assert_eq!(client.ask("GET", &format!("/debug/profile?{bad}"), &[], b"").status, status, "{bad}");
    }
}

#[test]
fn a_browser_is_asked_for_the_token_as_a_password() {
    let dir = tempfile::tempdir().unwrap();
    let mut pando = Command::new(env!("CARGO_BIN_EXE_pando"));
    pando.args(["token", "create"]).arg(dir.path()).args(["--name", "a", "--scope", "read"]);
    let token = String::from_utf8(pando.output().unwrap().stdout).unwrap();
    let server = Server::start(dir.path());
    let refused = server.ask("GET", "/", b"");
    let challenges = refused.headers.iter().filter(|(name, _)| name == "www-authenticate");
    let schemes: Vec<&str> = challenges.filter_map(|(_, value)| value.split(' ').next()).collect();
    assert_eq!((refused.status, schemes), (401, vec!["Bearer", "Basic"]));
    let password = base64(format!("whoever:{}", token.trim()).as_bytes());
    let shown = server.ask_with("GET", "/", &[("authorization", &format!("Basic {password}"))], b"");
    assert_eq!(shown.status, 200);
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let bits = three.iter().fold(0, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        let digit = |at: usize| char::from(DIGITS[(bits >> (18 - 6 * at)) as usize & 63]);
        text.extend((0..4).map(|at| if at <= three.len() { digit(at) } else { '=' }));
    }
    text
}
