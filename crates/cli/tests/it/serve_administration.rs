//! What the server offers to those who look after it: the history, readers and their end, jobs, backups, tokens,
//! settings; and what the dashboard needs to edit without loss.

use crate::http::Server;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const DB: &str = "/v1/databases/default";

fn value(server: &Server, target: &str) -> Value {
    let reply = server.ask("GET", target, b"");
    assert_eq!(reply.status, 200, "{target}: {}", reply.text());
    serde_json::from_slice(&reply.body).unwrap()
}

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{what} never came");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn the_server_keeps_a_history_of_itself_and_of_its_databases() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    for n in 0..20 {
        assert_eq!(server.ask("PUT", &format!("/v0/entity?id=k{n}"), b"v").status, 201);
        assert_eq!(server.ask("GET", &format!("/v0/entity?id=k{n}"), b"").status, 200);
    }
    let sum = |list: &Value| list.as_array().into_iter().flatten().filter_map(Value::as_u64).sum::<u64>();
    // The last of them may be in a later point than the first.
    let of_server = wait_for("all 20 in points", || {
        let found = value(&server, "/v1/history");
        let count = |what: &str| sum(&found["requests"][what]["count"]);
        (count("put") >= 20 && count("get") >= 20).then_some(found)
    });
    assert_eq!(sum(&of_server["requests"]["put"]["count"]), 20, "{of_server}");
    assert!(of_server["requests"]["get"]["p99_us"][0].as_u64() > Some(0));
    assert_eq!(of_server["step_ms"], 5000);
    let newest = of_server["newest"].as_u64().unwrap();
    let later = value(&server, &format!("/v1/history?after={newest}"));
    assert!(later["points"].as_u64() <= Some(1), "{later}");
    let of_database = value(&server, &format!("{DB}/history"));
    assert!(
        of_database["points"].as_u64() >= Some(1) && of_database["data_file_bytes"][0].as_u64() > Some(0)
    );
    assert_eq!(server.ask("GET", "/v1/history?after=x", b"").status, 400);
    assert_eq!(server.ask("GET", "/v1/databases/none/history", b"").status, 404);
}

#[test]
fn readers_of_others_are_ended_by_their_id() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    assert_eq!(server.ask("PUT", "/v0/entity?id=k", b"old").status, 201);
    let begun: Value =
        serde_json::from_slice(&server.ask("POST", &format!("{DB}/transactions"), b"").body).unwrap();
    let token = begun["transaction"].as_str().unwrap();
    let entry = format!("{DB}/tables/entity/entries/k");
    let put = server.ask_with("PUT", &entry, &[("pando-transaction", token)], b"new");
    assert_eq!(put.status, 204);
    let readers = || value(&server, &format!("{DB}/readers"))["readers"].as_array().unwrap().clone();
    let listed = readers();
    let own = listed.iter().find(|one| !one["idle_ms"].is_null()).expect("the transaction");
    assert_eq!((&own["is_transaction"], &own["expired"]), (&json!(true), &json!(false)));
    let id = own["id"].as_str().unwrap();
    assert!(!token.contains(id), "the id does not let others use the transaction");
    assert_eq!(server.ask("DELETE", &format!("{DB}/readers/{id}"), b"").status, 204);
    assert_eq!(server.ask("DELETE", &format!("{DB}/readers/{id}"), b"").status, 404);
    assert_eq!(server.ask("DELETE", &format!("{DB}/readers/nonsense"), b"").status, 404);
    assert!(readers().iter().all(|one| one["id"] != id));
    let commit = server.ask("POST", &format!("{DB}/transactions/{token}/commit"), b"");
    assert_eq!((commit.status, commit.text().contains("no-transaction")), (404, true));
    assert_eq!(server.ask("GET", "/v0/entity?id=k", b"").text(), "old");
}

#[test]
fn work_is_listed_with_its_result() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    assert_eq!(server.ask("PUT", "/v0/entity?id=k", b"v").status, 201);
    assert_eq!(server.ask("POST", &format!("{DB}/checkpoint"), b"").status, 204);
    assert_eq!(server.ask("POST", &format!("{DB}/check"), b"").status, 200);
    assert_eq!(server.ask("POST", &format!("{DB}/compact"), b"").status, 200);
    assert_eq!(server.ask("GET", &format!("{DB}/backup"), b"").status, 200);
    let ended = wait_for("the backup's end", || {
        let jobs = value(&server, &format!("{DB}/jobs"));
        assert!(jobs["running"].is_array());
        let ended = jobs["ended"].as_array().unwrap().clone();
        (ended.len() == 4).then_some(ended)
    });
    let kinds: Vec<&str> = ended.iter().map(|one| one["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["backup", "compact", "check", "checkpoint"]);
    assert!(ended.iter().all(|one| one["error"].is_null()), "{ended:?}");
    assert!(ended[..3].iter().all(|one| one["done"].as_u64() > Some(0)), "{ended:?}");
    assert_eq!(value(&server, &format!("{DB}/backups")), json!({ "schedule": null, "backups": [] }));
}

#[test]
fn kept_backups_are_listed() {
    let (dir, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let options = ["--backup-to", to.path().to_str().unwrap(), "--backup-every", "1s", "--backup-keep", "2"];
    let server = Server::start_with(dir.path(), &options);
    let found = wait_for("two backups", || {
        let found = value(&server, &format!("{DB}/backups"));
        (found["backups"].as_array().unwrap().len() >= 2).then_some(found)
    });
    let newest = &found["backups"][0];
    assert!(newest["created_s"].as_u64() >= found["backups"][1]["created_s"].as_u64(), "{found}");
    assert!(newest["name"].as_str().unwrap().starts_with("backup-") && newest["bytes"].as_u64() > Some(0));
    assert_eq!((&found["schedule"]["error"], &found["schedule"]["every_s"]), (&Value::Null, &json!(1.0)));
    std::fs::write(to.path().join("default").join(newest["name"].as_str().unwrap()), b"damaged").unwrap();
    let damaged = value(&server, &format!("{DB}/backups"));
    let all = damaged["backups"].as_array().unwrap();
    assert!(all.iter().any(|one| one["error"].is_string()), "{damaged}");
}

#[test]
fn tokens_are_made_and_revoked_and_nobody_is_locked_out() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let bearer = |token: &str| format!("Bearer {token}");
    let ask = |method: &str, target: &str, token: &str, body: Value| {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let (value, mut headers) = (bearer(token), Vec::new());
        if !token.is_empty() {
            headers.push(("authorization", &value[..]));
        }
        let reply = server.ask_with(method, target, &headers, &body);
        (reply.status, serde_json::from_slice::<Value>(&reply.body).unwrap_or_default())
    };
    for first in [
        json!({"name": "a", "scope": "write"}),
        json!({"name": "a", "scope": "admin", "database": "default"}),
        json!({"name": "a", "scope": "admin", "expires_in_s": 60}),
    ] {
        assert_eq!(ask("POST", "/v1/tokens", "", first.clone()).0, 409, "{first}");
    }
    let (status, made) = ask("POST", "/v1/tokens", "", json!({"name": "chief", "scope": "admin"}));
    let chief = made["token"].as_str().unwrap().to_owned();
    assert_eq!(status, 201);
    assert_eq!(ask("GET", "/v1/tokens", "", Value::Null).0, 401, "from now on a token is required");
    let wanted =
        json!({"name": "a b", "scope": "read", "database": "default", "rate": 1000, "expires_in_s": 3});
    let reader = ask("POST", "/v1/tokens", &chief, wanted.clone()).1["token"].as_str().unwrap().to_owned();
    assert_eq!(ask("POST", "/v1/tokens", &chief, wanted).0, 409, "the name is taken");
    assert_eq!(ask("GET", &format!("{DB}/stats"), &reader, Value::Null).0, 200);
    assert_eq!(ask("GET", "/v1/tokens", &reader, Value::Null).0, 403);
    let listed = ask("GET", "/v1/tokens", &chief, Value::Null).1;
    let of = |name: &str| {
        listed["tokens"].as_array().unwrap().iter().find(|one| one["name"] == name).unwrap().clone()
    };
    assert_eq!(
        (&of("a b")["scope"], &of("a b")["rate"], &of("a b")["is_expired"]),
        (&json!("read"), &json!(1000), &json!(false))
    );
    assert!(of("a b")["last_used_s"].as_u64() >= of("a b")["created_s"].as_u64(), "{listed}");
    assert!(!listed.to_string().contains(&reader) && listed["tokens"][0].get("sha256").is_none());
    wait_for("the token's end", || {
        (ask("GET", &format!("{DB}/stats"), &reader, Value::Null).0 == 401).then_some(())
    });
    assert_eq!(
        ask("DELETE", "/v1/tokens/chief", &chief, Value::Null).0,
        409,
        "nobody could administer the server"
    );
    assert_eq!(ask("DELETE", "/v1/tokens/none", &chief, Value::Null).0, 404);
    assert_eq!(ask("DELETE", "/v1/tokens/a%20b", &chief, Value::Null).0, 204);
    let second = ask("POST", "/v1/tokens", &chief, json!({"name": "second", "scope": "admin"})).1;
    assert_eq!(ask("DELETE", "/v1/tokens/chief", second["token"].as_str().unwrap(), Value::Null).0, 204);
    assert_eq!(ask("GET", "/v1/tokens", &chief, Value::Null).0, 401);
    for wrong in [
        json!({"name": "", "scope": "read"}),
        json!({"name": "x"}),
        json!({"name": "x", "scope": "read", "rate": 0}),
        json!({"name": "x", "scope": "read", "expires_in_s": 0}),
        json!({"name": "x", "scope": "read", "more": 1}),
    ] {
        assert_eq!(
            ask("POST", "/v1/tokens", second["token"].as_str().unwrap(), wrong.clone()).0,
            400,
            "{wrong}"
        );
    }
}

#[test]
fn the_options_of_the_server_say_what_set_them() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_with(dir.path(), &["--max-body", "1M"]);
    let settings = value(&server, "/v1/settings");
    let of = |name: &str| {
        let found = settings["settings"].as_array().unwrap().iter().find(|one| one["name"] == name);
        found.map(|one| (one["value"].clone(), one["origin"].clone())).unwrap()
    };
    assert_eq!(of("max-body"), (json!("1M"), json!("the command line")));
    assert_eq!(of("max-streams"), (json!("64"), json!("the default")));
}

#[test]
fn a_long_value_is_compared_and_a_saved_entry_keeps_its_date() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let table = format!("{DB}/tables/t");
    assert_eq!(server.ask("PUT", &table, br#"{"ttl_by_key": true}"#).status, 201);
    let long = format!("{table}/entries/long");
    assert_eq!(server.ask("PUT", &long, &vec![7; 3 << 20]).status, 204);
    let tag = |server: &Server| {
        let head = server.ask_with("HEAD", &long, &[("if-none-match", "\"none\"")], b"");
        assert_eq!((head.status, head.header("content-length")), (200, Some("3145728")));
        head.header("etag").expect("a tag").to_owned()
    };
    assert_eq!(server.ask("HEAD", &long, b"").header("etag"), None, "nobody asked for it");
    let before = tag(&server);
    assert_eq!(server.ask_with("HEAD", &long, &[("if-none-match", &before)], b"").status, 304);
    assert_eq!(server.ask("PUT", &long, &vec![8; 3 << 20]).status, 204);
    assert_eq!(server.ask_with("DELETE", &long, &[("if-match", &before)], b"").status, 412);
    assert_eq!(server.ask_with("DELETE", &long, &[("if-match", &tag(&server))], b"").status, 204);

    let ttl = |key: &str| value(&server, &format!("{table}/expiry/{key}"))["ttl_ms"].clone();
    for (key, body) in [("k", vec![1; 10]), ("l", vec![1; 2 << 20])] {
        let entry = format!("{table}/entries/{key}");
        assert_eq!(server.ask("PUT", &format!("{entry}?ttl_ms=600000"), b"first").status, 204);
        std::thread::sleep(Duration::from_millis(1500));
        assert_eq!(server.ask("PUT", &format!("{entry}?keep_ttl=true"), &body).status, 204);
        let left = ttl(key).as_u64().unwrap();
        assert!((500_000..=598_500).contains(&left), "{key}: {left}");
        assert_eq!(server.ask("PUT", &entry, b"second").status, 204);
        assert_eq!(ttl(key), Value::Null, "without it, for ever");
        assert_eq!(server.ask("PUT", &format!("{entry}?keep_ttl=true"), b"third").status, 204);
        assert_eq!(ttl(key), Value::Null);
        assert_eq!(server.ask("PUT", &format!("{entry}?keep_ttl=true&ttl_ms=5"), b"x").status, 400);
    }
    assert_eq!(server.ask("PUT", &format!("{table}/entries/new?keep_ttl=true"), b"v").status, 204);
    assert_eq!(ttl("new"), Value::Null);
    assert_eq!(server.ask("PUT", &format!("{DB}/tables/entity/entries/k?keep_ttl=true"), b"v").status, 400);
}

#[test]
fn changes_come_with_the_beginnings_of_their_values() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    assert_eq!(server.ask("PUT", "/v0/entity?id=k", &[b'x'; 5000]).status, 201);
    let lines = |query: &str| -> Vec<Value> {
        let reply = server.ask("GET", &format!("{DB}/changes?wait=0&{query}"), b"");
        assert_eq!(reply.status, 200);
        reply.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let put = |lines: Vec<Value>| lines.into_iter().find(|one| one["op"] == "put").unwrap();
    let cut = put(lines("value_bytes=10"));
    assert_eq!((&cut["value"], &cut["value_bytes"]), (&json!("xxxxxxxxxx"), &json!(5000)));
    assert_eq!(put(lines("table=entity"))["value"].as_str().unwrap().len(), 5000);
    assert_eq!(server.ask("GET", &format!("{DB}/changes?value_bytes=x"), b"").status, 400);
}
