//! Hrana over HTTP, from outside: batons, scopes, bounds, hostile input, and clients that leave.
#![cfg(feature = "sql")]

use crate::common::{pando, text};
use crate::http::{Client, Reply, Server};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

const HRANA: &str = "/v1/databases/default/hrana";

fn start(dir: &Path, options: &[&str]) -> Server {
    Server::start_with(dir, &[&["--hrana"], options].concat())
}

fn post(client: &mut Client, path: &str, token: Option<&str>, body: &Value) -> Reply {
    let bearer = token.map(|token| format!("Bearer {token}"));
    let headers: Vec<_> = bearer.iter().map(|bearer| ("authorization", bearer.as_str())).collect();
    client.ask("POST", &format!("{HRANA}/{path}"), &headers, body.to_string().as_bytes())
}

/// A pipeline with a statement for each text.
fn statements(baton: Option<&str>, texts: &[&str], closes: bool) -> Value {
    let mut requests: Vec<Value> =
        texts.iter().map(|sql| json!({"type": "execute", "stmt": {"sql": sql}})).collect();
    requests.extend(closes.then(|| json!({"type": "close"})));
    json!({"baton": baton, "requests": requests})
}

/// The results of statements on a stream, and its next baton.
fn run(client: &mut Client, baton: Option<&str>, texts: &[&str]) -> (Vec<Value>, String) {
    let reply = post(client, "v3/pipeline", None, &statements(baton, texts, false));
    assert_eq!(reply.status, 200, "{reply:?}");
    let reply: Value = serde_json::from_slice(&reply.body).unwrap();
    (reply["results"].as_array().unwrap().clone(), reply["baton"].as_str().unwrap().to_owned())
}

/// The status and the code of a request that is refused as a whole.
fn refused(reply: &Reply) -> (u16, String) {
    assert!(reply.status >= 400, "{reply:?}");
    assert_eq!(reply.header("content-type"), Some("application/json"), "{reply:?}");
    let problem: Value = serde_json::from_slice(&reply.body).unwrap();
    assert_eq!(problem["message"], problem["detail"], "{problem}");
    (reply.status, problem["code"].as_str().unwrap().to_owned())
}

fn value(results: &[Value], place: usize) -> &Value {
    &results[place]["response"]["result"]["rows"][0][0]["value"]
}

#[test]
fn it_is_off_unless_it_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let reply = server.ask("GET", &format!("{HRANA}/v3"), b"");
    assert_eq!(refused(&reply).0, 404);
    assert!(reply.text().contains("--hrana"), "{}", reply.text());
    let body = statements(None, &["SELECT 1"], true);
    assert_eq!(refused(&post(&mut server.connect(), "v2/pipeline", None, &body)).0, 404);
}

#[test]
fn versions_are_found_and_what_is_not_spoken_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path(), &[]);
    for version in ["v2", "v3"] {
        assert_eq!(server.ask("GET", &format!("{HRANA}/{version}"), b"").status, 200);
    }
    for path in ["v3-protobuf", "v3-protobuf/pipeline", "v1/execute", ""] {
        let reply = server.ask("GET", &format!("{HRANA}/{path}"), b"");
        assert_eq!(refused(&reply), (404, "NOT_FOUND".into()), "{path}");
        assert!(reply.text().contains("Protobuf"), "{}", reply.text());
    }
    // A client that was given the URL without its last slash.
    let reply = server.ask("POST", "/v1/databases/default/v2/pipeline", b"{}");
    assert!(refused(&reply).0 == 404 && reply.text().contains("slash"), "{}", reply.text());
    let reply = server.ask("POST", "/v1/databases/none/hrana/v2/pipeline", br#"{"requests": []}"#);
    assert_eq!(refused(&reply).0, 404);
}

#[test]
fn a_transaction_goes_from_baton_to_baton() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path(), &[]);
    let mut client = server.connect();
    let (_, first) = run(&mut client, None, &["CREATE TABLE t(a INT)", "BEGIN", "INSERT INTO t VALUES (1)"]);
    let (_, second) = run(&mut client, Some(&first), &["INSERT INTO t VALUES (2)"]);
    // Others do not see it, and a baton that was used is unknown.
    let (results, _) = run(&mut server.connect(), None, &["SELECT count(*) FROM t"]);
    assert_eq!(value(&results, 0), "0");
    let again = post(&mut client, "v3/pipeline", None, &statements(Some(&first), &["COMMIT"], false));
    assert_eq!(refused(&again), (400, "STREAM_EXPIRED".into()));
    let reply = post(&mut client, "v3/pipeline", None, &statements(Some(&second), &["COMMIT"], true));
    let reply: Value = serde_json::from_slice(&reply.body).unwrap();
    assert_eq!((&reply["baton"], &reply["results"][0]["type"]), (&Value::Null, &json!("ok")));
    let (results, third) = run(&mut client, None, &["SELECT sum(a) FROM t"]);
    assert_eq!(value(&results, 0), "3");
    // A cursor continues a stream, too.
    let body = json!({"baton": third, "batch": {"steps": [{"stmt": {"sql": "SELECT a FROM t"}}]}});
    let reply = post(&mut client, "v3/cursor", None, &body);
    let lines: Vec<Value> = reply.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 5);
    let (results, _) = run(&mut client, lines[0]["baton"].as_str(), &["SELECT 7"]);
    assert_eq!(value(&results, 0), "7");
    let metrics = server.ask("GET", "/metrics", b"");
    assert!(metrics.text().contains("pando_hrana_streams 2"), "{}", metrics.text());
}

#[test]
fn the_second_of_two_clients_gets_the_conflict() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path(), &[]);
    let (mut one, mut other) = (server.connect(), server.connect());
    run(
        &mut one,
        None,
        &["CREATE TABLE stock(id INTEGER PRIMARY KEY, n INT)", "INSERT INTO stock VALUES (7, 1)"],
    );
    let begin = ["BEGIN IMMEDIATE", "UPDATE stock SET n = n + 1 WHERE id = 7"];
    let (first, second) = (run(&mut one, None, &begin).1, run(&mut other, None, &begin).1);
    assert_eq!(run(&mut one, Some(&first), &["COMMIT"]).0[0]["type"], "ok");
    let (results, _) = run(&mut other, Some(&second), &["COMMIT"]);
    assert_eq!(results[0]["error"]["code"], "SQLITE_BUSY");
    let message = results[0]["error"]["message"].as_str().unwrap();
    // A store does not say where it was.
    let is_over_a_store = std::env::var_os("PANDO_SQL_STORE").is_some();
    assert!(is_over_a_store || (message.contains("stock") && message.contains('7')), "{message}");
}

#[test]
fn batons_belong_to_their_token_and_their_database() {
    let dir = tempfile::tempdir().unwrap();
    let token = |name: &str, words: &[&str]| {
        let mut all = vec!["token", "create", dir.path().to_str().unwrap(), "--name", name];
        all.extend(words);
        text(pando(all)).trim().to_owned()
    };
    let (admin, writer, reader) = (
        token("admin", &["--scope", "admin"]),
        token("writer", &["--scope", "write", "--database", "default"]),
        token("reader", &["--scope", "read", "--database", "default"]),
    );
    let server = start(dir.path(), &[]);
    let mut client = server.connect();
    let mut ask = |token: Option<&str>, body: &Value| post(&mut client, "v2/pipeline", token, body);
    let select = statements(None, &["SELECT 1"], true);
    assert_eq!(refused(&ask(None, &select)), (401, "UNAUTHORIZED".into()));
    assert_eq!(refused(&ask(Some("wrong"), &select)), (401, "UNAUTHORIZED".into()));
    let create = ask(Some(&writer), &statements(None, &["CREATE TABLE t(a)", "BEGIN"], false));
    let create: Value = serde_json::from_slice(&create.body).unwrap();
    let baton = create["baton"].as_str().unwrap();
    for other in [&admin, &reader] {
        let reply = ask(Some(other), &statements(Some(baton), &["SELECT 1"], false));
        assert_eq!(refused(&reply), (400, "STREAM_EXPIRED".into()));
    }
    let written = ask(Some(&reader), &statements(None, &["INSERT INTO t VALUES (1)"], true));
    assert!(written.status == 200 && written.text().contains("SQLITE_READONLY"), "{}", written.text());
    // The failed attempts have not taken the stream away.
    let reply = ask(Some(&writer), &statements(Some(baton), &["INSERT INTO t VALUES (2)", "COMMIT"], true));
    assert!(!reply.text().contains("error"), "{}", reply.text());
    let headers = [("authorization", &format!("Bearer {admin}")[..])];
    assert_eq!(server.ask_with("PUT", "/v1/databases/other", &headers, b"").status, 201);
    let other = server.ask_with(
        "POST",
        "/v1/databases/other/hrana/v2/pipeline",
        &headers,
        statements(None, &["BEGIN"], false).to_string().as_bytes(),
    );
    let other: Value = serde_json::from_slice(&other.body).unwrap();
    let reply = ask(Some(&admin), &statements(other["baton"].as_str(), &["SELECT 1"], false));
    assert_eq!(refused(&reply), (400, "STREAM_EXPIRED".into()), "the baton is that of another database");
}

#[test]
fn streams_are_rolled_back_when_they_are_idle() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path(), &["--transaction-idle", "1"]);
    let mut client = server.connect();
    let (_, baton) = run(&mut client, None, &["CREATE TABLE t(a)", "BEGIN", "INSERT INTO t VALUES (1)"]);
    let begun = Instant::now();
    while server.ask("GET", "/metrics", b"").text().contains("pando_hrana_streams 1") {
        assert!(begun.elapsed() < Duration::from_secs(20), "the stream stays");
        std::thread::sleep(Duration::from_millis(100));
    }
    let reply = post(&mut client, "v3/pipeline", None, &statements(Some(&baton), &["COMMIT"], false));
    assert_eq!(refused(&reply), (400, "STREAM_EXPIRED".into()));
    let (results, _) = run(&mut client, None, &["SELECT count(*) FROM t"]);
    assert_eq!(value(&results, 0), "0");
}

/// Clients that never come back: ten thousand streams are begun and left, and everybody else is served.
#[test]
fn ten_thousand_batons_take_the_memory_of_a_few() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path(), &["--max-transactions", "50"]);
    let mut client = server.connect();
    run(&mut client, None, &["CREATE TABLE t(a)"]);
    let text = format!("SELECT '{}'", "x".repeat(9000));
    let body = json!({"requests": [{"type": "store_sql", "sql_id": 1, "sql": text}]});
    let mut resident = Vec::new();
    for round in 0..10_000 {
        assert_eq!(post(&mut client, "v3/pipeline", None, &body).status, 200, "{round}");
        if round == 1000 || round == 9999 {
            resident.push(server.resident_bytes());
        }
    }
    assert!(resident[1] < resident[0] + (16 << 20), "{resident:?}");
    if std::env::var_os("PANDO_SQL_STORE").is_some() {
        return; // There the limit is that of connections.
    }
    // Transactions are not given away: the limit holds, and says its name. Who needs no place is served.
    let begin = statements(None, &["BEGIN", "SELECT * FROM t"], false);
    for round in 0..50 {
        assert_eq!(post(&mut client, "v3/pipeline", None, &begin).status, 200, "{round}");
    }
    let reply = post(&mut client, "v3/pipeline", None, &begin);
    assert_eq!(refused(&reply), (429, "STREAM_LIMIT".into()));
    assert!(
        reply.header("retry-after").is_some() && reply.text().contains("--max-transactions"),
        "{reply:?}"
    );
    let reply =
        post(&mut client, "v3/pipeline", None, &statements(None, &["INSERT INTO t VALUES (1)"], true));
    assert_eq!(reply.status, 200);
    let guessed = statements(Some(&"0".repeat(32)), &["SELECT 1"], false);
    for _ in 0..1000 {
        assert_eq!(
            refused(&post(&mut client, "v3/pipeline", None, &guessed)),
            (400, "STREAM_EXPIRED".into())
        );
    }
}

#[test]
fn hostile_bodies_are_refused_and_others_are_served() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path(), &["--body-timeout", "1"]);
    let deep = format!("{}{}", r#"{"requests":["#.repeat(50_000), "]}".repeat(50_000));
    let not = r#"{"type":"not","cond":"#;
    let condition = format!("{}{{\"type\":\"is_autocommit\"}}{}", not.repeat(20_000), "}".repeat(20_000));
    let conditions = format!(
        r#"{{"requests":[{{"type":"batch","batch":{{"steps":[
            {{"stmt":{{"sql":"SELECT 1"}},"condition":{condition}}}]}}}}]}}"#
    );
    let many =
        format!(r#"{{"requests":[{}{{"type":"close"}}]}}"#, r#"{"type":"get_autocommit"},"#.repeat(20_000));
    let bodies: [(&[u8], u16); 9] = [
        (b"", 400),
        (b"\x00\xff\x00\xff", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (deep.as_bytes(), 400),
        (conditions.as_bytes(), 400),
        (many.as_bytes(), 400),
        (br#"{"requests":[{"type":"execute","stmt":{"args":[{"type":"blob","base64":"!"}]}}]}"#, 400),
        (br#"{"baton":7,"requests":[]}"#, 400),
        (&[b' '; 2 << 20], 413),
    ];
    for (body, status) in bodies {
        for path in ["v2/pipeline", "v3/pipeline", "v3/cursor"] {
            let reply = server.ask("POST", &format!("{HRANA}/{path}"), body);
            assert_eq!(
                refused(&reply).0,
                status,
                "{path}: {}",
                String::from_utf8_lossy(&body[..body.len().min(40)])
            );
        }
    }
    // A body that is shorter than its length says.
    let mut client = server.connect();
    client
        .send(
            format!("POST {HRANA}/v3/pipeline HTTP/1.1\r\nhost: test\r\ncontent-length: 500\r\n\r\n{{")
                .as_bytes(),
        )
        .unwrap();
    assert_eq!(client.reply(false).unwrap().status, 408);
    // Statements that take what they can get.
    let numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)";
    let greedy = [
        (format!("{numbers} SELECT hex(zeroblob(1000)) FROM n"), "RESPONSE_TOO_LARGE"),
        ("SELECT hex(zeroblob(8000000)) || hex(zeroblob(8000000))".into(), "SQLITE_TOOBIG"),
        (format!("SELECT 1{}", " UNION ALL SELECT 1".repeat(5000)), "SQLITE_ERROR"),
        (format!("SELECT {}1{}", "(".repeat(5000), ")".repeat(5000)), "SQLITE_ERROR"),
        ("SELECT load_extension('x')".into(), "SQLITE_AUTH"),
        ("PRAGMA temp_store_directory = '/'".into(), "SQLITE_AUTH"),
        ("VACUUM INTO '/tmp/x'".into(), "SQLITE_AUTH"),
    ];
    for (text, code) in greedy {
        let reply = post(&mut server.connect(), "v3/pipeline", None, &statements(None, &[&text], true));
        let reply: Value = serde_json::from_slice(&reply.body).unwrap();
        assert_eq!(reply["results"][0]["error"]["code"], code, "{}", &text[..text.len().min(60)]);
    }
    assert_eq!(value(&run(&mut server.connect(), None, &["SELECT 1"]).0, 0), "1");
}

#[test]
fn a_client_that_leaves_ends_its_statements_and_its_transaction() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path(), &["--sql-timeout", "60", "--max-sql", "1"]);
    let mut client = server.connect();
    let (_, baton) = run(&mut client, None, &["CREATE TABLE t(a)", "BEGIN", "INSERT INTO t VALUES (1)"]);
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
    let body = statements(Some(&baton), &[endless], false).to_string();
    let head =
        format!("POST {HRANA}/v3/pipeline HTTP/1.1\r\nhost: test\r\ncontent-length: {}\r\n\r\n", body.len());
    client.send((head + &body).as_bytes()).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    drop(client);
    // The only place for statements is free again.
    let begun = Instant::now();
    let (results, _) = run(&mut server.connect(), None, &["SELECT count(*) FROM t"]);
    assert_eq!(value(&results, 0), "0");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    // The same for a cursor whose client reads no more than the beginning.
    let mut client = server.connect();
    let rows =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i, hex(zeroblob(500)) FROM n";
    let body = json!({"batch": {"steps": [{"stmt": {"sql": rows}}]}}).to_string();
    let head =
        format!("POST {HRANA}/v3/cursor HTTP/1.1\r\nhost: test\r\ncontent-length: {}\r\n\r\n", body.len());
    client.send((head + &body).as_bytes()).unwrap();
    assert_eq!(client.reply_head().unwrap().status, 200);
    let first = client.chunk().unwrap().unwrap();
    assert!(
        first.starts_with(b"{\"base_url\":null,\"baton\":\""),
        "{}",
        String::from_utf8_lossy(&first[..80])
    );
    let resident = server.resident_bytes();
    std::thread::sleep(Duration::from_millis(300));
    assert!(server.resident_bytes() < resident + (16 << 20), "the rows wait for their client");
    drop(client);
    let begun = Instant::now();
    run(&mut server.connect(), None, &["SELECT 1"]);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[test]
fn what_was_acknowledged_survives_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path(), &[]);
    let mut client = server.connect();
    run(
        &mut client,
        None,
        &["CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, a)", "INSERT INTO t(a) VALUES (1)"],
    );
    run(&mut client, None, &["BEGIN", "INSERT INTO t(a) VALUES (2)"]);
    server.kill();
    let server = start(dir.path(), &[]);
    let (results, _) = run(
        &mut server.connect(),
        None,
        &["SELECT count(*) FROM t", "INSERT INTO t(a) VALUES (3) RETURNING id"],
    );
    assert_eq!((value(&results, 0), value(&results, 1)), (&json!("1"), &json!("2")));
}
