//! `serve --store`: the contract of `/v0`, records, batches, documents and transactions over PostgreSQL, whose server
//! the tests start.

use crate::common::{failure, pando};
use crate::copy::Person;
use crate::http::{Client, Reply, Server};
use crate::serve_v0 as contract;
use crate::server;
use crate::serving::command;
use pando_postgres::Options;
use rows::Table;
use serde_json::{Value, json};
use std::io::BufReader;
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A schema of the shared server, and the directory of tokens.
struct Store {
    url: String,
    schema: String,
    dir: TempDir,
}

impl Store {
    /// Returns a new one, if there is a server of PostgreSQL.
    fn new() -> Option<Store> {
        let url = server::url(server::shared()?);
        Some(Store { url, schema: server::schema(), dir: tempfile::tempdir().unwrap() })
    }

    fn options<'o>(&'o self, more: &[&'o str]) -> Vec<&'o str> {
        let own = ["--store", &self.url, "--store-schema", &self.schema, "--store-connections", "10"];
        [&own, more].concat()
    }

    /// Starts a server over it.
    fn serve(&self) -> Server {
        Server::start_with(self.dir.path(), &self.options(&[]))
    }
}

pub fn value(reply: &Reply) -> Value {
    serde_json::from_slice(&reply.body).unwrap_or_else(|_| panic!("{} {}", reply.status, reply.text()))
}

/// Asserts that a request was refused because the store does not have `capability`.
#[track_caller]
fn assert_unsupported(reply: &Reply, status: u16, capability: &str) {
    assert_eq!(reply.status, status, "{}", reply.text());
    let problem = value(reply);
    assert_eq!(problem["type"], "urn:pando:problem:unsupported");
    assert_eq!(problem["capability"], capability);
}

#[test]
fn the_contract_of_v0_holds_over_a_store() {
    let Some(store) = Store::new() else { return };
    let server = store.serve();
    contract::puts_and_deletes(&server);
    contract::refuses(&server);
    contract::takes_any_bytes(&server);
    contract::forgets_clients_that_leave(&server);
    assert_eq!(server.terminate().code(), Some(0));
    let Some(store) = Store::new() else { return };
    contract::sends_ranges(&store.serve());
    let Some(store) = Store::new() else { return };
    contract::streams_ranges(&store.serve());
}

#[test]
fn what_was_acknowledged_survives_kills_of_the_server() {
    let Some(store) = Store::new() else { return };
    contract::survives_kills(4, |_| store.serve());
}

#[test]
fn long_values_are_stored_up_to_the_limit_of_the_store() {
    let Some(store) = Store::new() else { return };
    let server = store.serve();
    for bytes in [1 << 20, (1 << 20) + 1, 16 << 20] {
        let value: Vec<u8> = (0..bytes).map(|at| (at / 7) as u8).collect();
        assert_eq!(server.ask("PUT", "/v0/entity?id=long", &value).status, 201, "{bytes}");
        assert!(server.ask("GET", "/v0/entity?id=long", b"").body == value, "{bytes}");
        assert_eq!(server.ask("GET", "/v0/entities?start=long", b"").chunks[0].len(), "long\n".len() + bytes);
    }
    let over = vec![1; (16 << 20) + 1];
    let refused = server.ask("PUT", "/v0/entity?id=long", &over);
    assert_eq!(refused.status, 413);
    assert!(refused.text().contains("longer than 16777216 bytes"), "{}", refused.text());
    assert_eq!(server.ask("GET", "/v0/entity?id=long", b"").body.len(), 16 << 20, "the value before stays");
}

const TABLES: &str = "/v1/databases/shop/tables";

/// A server with the database `shop`, and in it the table `t`.
fn shop(store: &Store) -> (Server, Client) {
    let server = store.serve();
    let mut client = server.connect();
    assert_eq!(client.ask("PUT", "/v1/databases/shop", &[], b"").status, 201);
    assert_eq!(client.ask("PUT", &format!("{TABLES}/t"), &[], b"").status, 201);
    (server, client)
}

#[test]
fn databases_and_tables_are_those_of_the_store() {
    let Some(store) = Store::new() else { return };
    let (server, mut client) = shop(&store);
    assert_eq!(client.ask("PUT", "/v1/databases/shop", &[], b"").status, 200, "it is there");
    assert_eq!(client.ask("PUT", "/v1/databases/Shop-2", &[], b"").status, 201);
    assert_unsupported(&client.ask("PUT", "/v1/databases/x", &[], br#"{"page_bytes":4096}"#), 422, "layouts");
    assert_eq!(client.ask("GET", "/v1/databases/none", &[], b"").status, 404);
    assert_eq!(client.ask("GET", "/v1/databases/a%2Fb", &[], b"").status, 400);
    let names = |client: &mut Client| {
        let all = value(&client.ask("GET", "/v1/databases", &[], b""));
        let names = all["databases"].as_array().unwrap().iter().map(|one| one["name"].clone());
        names.collect::<Vec<_>>()
    };
    assert_eq!(names(&mut client), ["Shop-2", "default", "shop"]);

    let ask = |client: &mut Client, method, name: &str, body: &[u8]| {
        client.ask(method, &format!("{TABLES}/{name}"), &[], body)
    };
    assert_eq!(ask(&mut client, "PUT", "dated", br#"{"ttl_ms":60000}"#).status, 201);
    assert_eq!(ask(&mut client, "PUT", "dated", b"").status, 200, "what is not set stays as it is");
    assert_eq!(ask(&mut client, "PUT", "dated", br#"{"ttl_ms":7}"#).status, 409);
    assert_unsupported(&ask(&mut client, "PUT", "u", br#"{"layout":"lsm"}"#), 422, "layouts");
    assert_unsupported(&ask(&mut client, "PUT", "u", br#"{"compression":"lz4"}"#), 422, "compression");
    assert_unsupported(&ask(&mut client, "PUT", "u", br#"{"ttl_by_key":true}"#), 422, "ttl-by-key");
    assert_unsupported(&ask(&mut client, "PATCH", "t", br#"{"layout":"lsm"}"#), 422, "table-changes");
    let tables = value(&client.ask("GET", TABLES, &[], b""));
    let expected = json!([{ "name": "dated", "ttl_ms": 60000 }, { "name": "t", "ttl_ms": null }]);
    assert_eq!(tables["tables"], expected);

    assert_eq!(ask(&mut client, "PUT", "t/entries/k", b"v").status, 204);
    assert_eq!(ask(&mut client, "PATCH", "t", br#"{"name":"new"}"#).status, 200);
    assert_eq!(ask(&mut client, "GET", "new/entries/k", b"").body, b"v");
    assert_eq!(ask(&mut client, "GET", "t/entries/k", b"").status, 404);
    assert_eq!(ask(&mut client, "PUT", "t/entries/k", b"v").status, 404);

    // Another server on the store sees the same, and its handles notice what this one does.
    let other = store.serve();
    let mut second = other.connect();
    assert_eq!(names(&mut second), ["Shop-2", "default", "shop"]);
    assert_eq!(ask(&mut second, "GET", "new/entries/k", b"").body, b"v");
    assert_eq!(ask(&mut client, "DELETE", "new", b"").status, 204);
    assert_eq!(ask(&mut client, "PUT", "new", b"").status, 201);
    assert_eq!(ask(&mut client, "PUT", "new/entries/k", b"w").status, 204);
    assert_eq!(ask(&mut second, "GET", "new/entries/k", b"").body, b"w");
    assert_eq!(ask(&mut second, "PUT", "new/entries/k", b"x").status, 204);
    drop(server);
}

#[test]
fn records_have_tags_conditions_and_ranges() {
    let Some(store) = Store::new() else { return };
    let (_server, mut client) = shop(&store);
    let path = format!("{TABLES}/t/entries/a%2Fb");
    let put = client.ask("PUT", &path, &[("if-none-match", "*")], b"one");
    assert_eq!((put.status, put.header("pando-commit")), (204, None), "there is no order of commits");
    let tag = put.header("etag").unwrap().to_owned();
    assert_eq!(client.ask("PUT", &path, &[("if-none-match", "*")], b"two").status, 412);
    assert_eq!(client.ask("PUT", &path, &[("if-match", "\"other\"")], b"two").status, 412);
    let got = client.ask("GET", &path, &[], b"");
    assert_eq!((got.status, &got.body[..], got.header("etag")), (200, &b"one"[..], Some(&tag[..])));
    assert_eq!(client.ask("GET", &path, &[("if-none-match", &tag)], b"").status, 304);
    let part = client.ask("GET", &path, &[("range", "bytes=1-")], b"");
    assert_eq!((part.status, &part.body[..]), (206, &b"ne"[..]));
    assert_eq!(client.ask("PUT", &path, &[("if-match", &tag)], b"two").status, 204);
    assert_unsupported(&client.ask("PUT", &format!("{path}?ttl_ms=5"), &[], b"v"), 422, "ttl-by-key");
    assert_unsupported(&client.ask("PUT", &format!("{path}?durability=lazy"), &[], b"v"), 422, "durability");
    assert_unsupported(&client.ask("GET", &path, &[("pando-min-commit", "1")], b""), 422, "commit-numbers");
    assert_eq!(client.ask("GET", &path, &[], b"").body, b"two", "nothing was done");
    assert_eq!(client.ask("DELETE", &path, &[], b"").status, 204);
    assert_eq!(client.ask("GET", &path, &[], b"").status, 404);

    let lines: String = (0..3000).map(|n| format!("{{\"key\":\"{n:05}\",\"value\":\"v{n}\"}}\n")).collect();
    let all = format!("{TABLES}/t/entries");
    let imported = value(&client.ask("POST", &all, &[], lines.as_bytes()));
    assert_eq!((&imported["records"], &imported["commit"]), (&json!(3000), &Value::Null));
    assert_eq!(client.ask("GET", &all, &[], b"").text(), lines);
    let page = client.ask("GET", &format!("{all}?limit=2&reverse"), &[], b"").text().to_owned();
    assert!(page.starts_with("{\"key\":\"02999\""), "{page}");
    let keys = client.ask("GET", &format!("{all}?key=00007&key=none"), &[], b"").text().to_owned();
    assert_eq!(keys.lines().count(), 2, "{keys}");
    assert_eq!(client.ask("DELETE", &format!("{all}?start=00001"), &[], b"").status, 204);
    assert_eq!(client.ask("GET", &all, &[], b"").text().lines().count(), 1);
}

#[test]
fn a_batch_is_done_whole_or_not_at_all_over_a_store() {
    let Some(store) = Store::new() else { return };
    let (_server, mut client) = shop(&store);
    let mut batch = |operations: Value| {
        let body = json!({ "operations": operations }).to_string();
        client.ask("POST", "/v1/databases/shop/batch", &[], body.as_bytes())
    };
    let done = batch(json!([
        { "op": "put", "table": "t", "key": "a", "value": "1" },
        { "op": "insert", "table": "t", "key": "b", "value": "2" },
    ]));
    assert_eq!((done.status, &value(&done)["operations"]), (200, &json!(2)));
    let refused = batch(json!([
        { "op": "put", "table": "t", "key": "a", "value": "9" },
        { "op": "check", "table": "t", "key": "b", "value": "3" },
    ]));
    assert_eq!(refused.status, 412);
    assert_eq!(batch(json!([{ "op": "insert", "table": "t", "key": "b", "value": "9" }])).status, 409);
    assert_eq!(batch(json!([{ "op": "check", "table": "t", "key": "a", "value": "1" }])).status, 200);
}

#[test]
fn documents_are_rows_of_the_store() {
    let Some(store) = Store::new() else { return };
    let server = store.serve();
    let db = Options::default().schema(&store.schema).open(&store.url).unwrap();
    db.write(Table::<Person>::create).unwrap();
    let definition = value(&server.ask("GET", "/v1/databases/default/documents", b""));
    assert_eq!(definition["tables"][0]["name"], "people");
    let table = "/v1/databases/default/documents/people";
    for n in 1..=3 {
        let person = json!({ "email": format!("p{n}"), "city": "Bern" });
        let reply = server.ask("PUT", &format!("{table}/{n}"), person.to_string().as_bytes());
        assert_eq!(reply.status, 204, "{}", reply.text());
    }
    let one = value(&server.ask("GET", &format!("{table}/2"), b""));
    assert_eq!((&one["email"], &one["city"]), (&json!("p2"), &json!("Bern")));
    let reply = server.connect().ask(
        "PATCH",
        &format!("{table}/2"),
        &[("content-type", "application/merge-patch+json")],
        br#"{"city":"Basel"}"#,
    );
    assert_eq!(reply.status, 204, "{}", reply.text());
    let found = server.ask("GET", &format!("{table}?index=by_city&prefix=Bern"), b"");
    assert_eq!(found.text().lines().count(), 2, "{}", found.text());
    assert_eq!(server.ask("DELETE", &format!("{table}/1"), b"").status, 204);
    assert_eq!(server.ask("GET", &format!("{table}/1"), b"").status, 404);
    let rows = br#"{"id":7,"email":"p7","city":"Bern"}
{"id":8,"email":"p8","city":"Bern"}
"#;
    let imported = server.ask("POST", table, rows);
    assert_eq!((imported.status, &value(&imported)["records"]), (200, &json!(2)), "{}", imported.text());
    assert_eq!(server.ask("GET", &format!("{table}/8"), b"").status, 200);
    let refused =
        server.ask("POST", "/v1/databases/default/documents/new?schema=id%20int%20key&layout=lsm", b"");
    assert_unsupported(&refused, 422, "layouts");
}

/// SQL through two servers, on tables that either makes, and a transaction of Hrana.
#[test]
fn sql_and_hrana_run_over_the_store() {
    let Some(store) = Store::new() else { return };
    let servers = [(); 2].map(|()| Server::start_with(store.dir.path(), &store.options(&["--hrana"])));
    let ask = |server: &Server, sql: &str| {
        let body = json!({ "sql": sql }).to_string();
        let reply = server.ask("POST", "/v1/databases/default/sql?format=json", body.as_bytes());
        (reply.status, reply.text().to_owned())
    };
    let table =
        "CREATE TABLE fruit(name TEXT PRIMARY KEY, n INT); INSERT INTO fruit VALUES ('fig', 1), ('pear', 2)";
    assert_eq!(ask(&servers[0], table).0, 200);
    assert!(ask(&servers[1], "SELECT sum(n) FROM fruit").1.contains("[[3]]"));
    let (status, said) = ask(&servers[1], "INSERT INTO fruit VALUES ('kiwi', 3), ('fig', 4)");
    assert!(status == 409 && said.contains("UNIQUE constraint failed: fruit.name"), "{said}");
    assert!(ask(&servers[0], "SELECT count(*) FROM fruit").1.contains("[[2]]"), "nothing was written");
    let (status, said) = ask(&servers[0], "VACUUM");
    assert!(status == 403 && said.contains("refused"), "{status} {said}");

    let pipeline = |server: &Server, baton: Option<&str>, sql: &[&str]| {
        let requests: Vec<_> =
            sql.iter().map(|sql| json!({ "type": "execute", "stmt": { "sql": sql } })).collect();
        let body = json!({ "baton": baton, "requests": requests }).to_string();
        value(&server.ask("POST", "/v1/databases/default/hrana/v3/pipeline", body.as_bytes()))
    };
    let update = ["BEGIN", "UPDATE fruit SET n = n + 1 WHERE name = 'fig'"];
    let both = [0, 1].map(|at| (at, pipeline(&servers[at], None, &update)));
    let results = both.map(|(at, begun)| {
        assert_eq!(begun["results"][1]["type"], "ok", "{begun}");
        pipeline(&servers[at], begun["baton"].as_str(), &["COMMIT"])["results"][0].clone()
    });
    assert_eq!(results[0]["type"], "ok", "{results:?}");
    assert_eq!(results[1]["error"]["code"], "SQLITE_BUSY", "{results:?}");
    assert!(ask(&servers[1], "SELECT n FROM fruit WHERE name = 'fig'").1.contains("[[2]]"));
}

#[test]
fn a_transaction_of_a_client_keeps_a_connection_until_it_ends() {
    let Some(store) = Store::new() else { return };
    let (_server, mut client) = shop(&store);
    let begin = |client: &mut Client| client.ask("POST", "/v1/databases/shop/transactions", &[], b"");
    let token = |reply: &Reply| value(reply)["transaction"].as_str().unwrap().to_owned();
    let path = format!("{TABLES}/t/entries/k");
    let end = |client: &mut Client, token: &str| {
        client.ask("POST", &format!("/v1/databases/shop/transactions/{token}/commit"), &[], b"")
    };
    let one = token(&begin(&mut client));
    let within = [("pando-transaction", &one[..])];
    assert_eq!(client.ask("GET", &path, &within, b"").status, 404);
    assert_eq!(client.ask("PUT", &path, &within, b"mine").status, 204);
    assert_eq!(client.ask("GET", &path, &within, b"").body, b"mine");
    assert_eq!(client.ask("GET", &path, &[], b"").status, 404, "others do not see it yet");
    let committed = end(&mut client, &one);
    assert_eq!((committed.status, &value(&committed)["commit"]), (200, &Value::Null));
    assert_eq!(client.ask("GET", &path, &[], b"").body, b"mine");

    // Two transactions that read and change one record: one of them has a conflict.
    let (one, two) = (token(&begin(&mut client)), token(&begin(&mut client)));
    for token in [&one, &two] {
        let within = [("pando-transaction", &token[..])];
        assert_eq!(client.ask("GET", &path, &within, b"").body, b"mine");
        assert_eq!(client.ask("PUT", &path, &within, token.as_bytes()).status, 204);
    }
    assert_eq!(end(&mut client, &one).status, 200);
    let refused = end(&mut client, &two);
    assert_eq!((refused.status, &value(&refused)["type"]), (409, &json!("urn:pando:problem:conflict")));
    assert_eq!(client.ask("GET", &path, &[], b"").body, one.as_bytes());

    // With six connections there are at most two transactions. As many streams and all other requests get through.
    let held: Vec<_> = (0..2).map(|_| token(&begin(&mut client))).collect();
    for token in &held {
        assert_eq!(client.ask("GET", &path, &[("pando-transaction", token)], b"").status, 200);
    }
    assert_eq!(begin(&mut client).status, 429);
    assert_eq!(client.ask("GET", &path, &[], b"").status, 200);
    let rolled_back = format!("/v1/databases/shop/transactions/{}", held[0]);
    assert_eq!(client.ask("DELETE", &rolled_back, &[], b"").status, 204);
    assert_eq!(begin(&mut client).status, 201);
    let lazy = br#"{"durability":"lazy"}"#;
    let reply = client.ask("POST", "/v1/databases/shop/transactions", &[], lazy);
    assert_unsupported(&reply, 422, "durability");
}

#[test]
fn the_server_says_how_it_is() {
    let Some(store) = Store::new() else { return };
    let server = store.serve();
    assert_eq!(server.ask("GET", "/readyz", b"").text(), "ready\n");
    assert_eq!(server.ask("GET", "/healthz", b"").status, 200);
    let described = value(&server.ask("GET", "/v1/server", b""));
    assert_eq!((&described["store_connections"], &described["open_databases"]), (&json!(10), &json!(1)));
    assert!(described["unsupported"].as_array().unwrap().contains(&json!("backups")));
    let metrics = server.ask("GET", "/metrics", b"").text().to_owned();
    for line in [
        "pando_open_databases 1",
        "pando_store_max_connections 10",
        "pando_http_transactions 0",
        "pando_store_repeats_total{database=\"default\"} 0",
    ] {
        assert!(metrics.lines().any(|shown| shown == line), "{line}: {metrics}");
    }
    let settings = value(&server.ask("GET", "/v1/settings", b"")).to_string();
    assert!(settings.contains("postgres:///postgres\""), "without its parameters: {settings}");
    assert!(!settings.contains("user=test"), "{settings}");
}

#[test]
fn a_store_that_restarts_is_ridden_out_and_one_that_is_gone_is_named() {
    let Some(mut postgres) = server::Server::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let url = server::url(&postgres.dir);
    let server = Server::start_with(dir.path(), &["--store", &url]);
    let mut client = server.connect();
    assert_eq!(client.ask("PUT", "/v0/entity?id=k", &[], b"one").status, 201);
    let begun = client.ask("POST", "/v1/databases/default/transactions", &[], b"");
    let token = value(&begun)["transaction"].as_str().unwrap().to_owned();
    let within = [("pando-transaction", &token[..])];
    let path = "/v1/databases/default/tables/entity/entries/k";
    assert_eq!(client.ask("GET", path, &within, b"").body, b"one");
    for how in ["fast", "immediate"] {
        postgres.restart(how);
        // The idle connections have ended; both requests find new ones.
        assert_eq!(client.ask("GET", "/v0/entity?id=k", &[], b"").body, b"one", "{how}");
        postgres.restart(how);
        assert_eq!(client.ask("PUT", "/v0/entity?id=k", &[], b"one").status, 201, "{how}");
    }
    // The transaction had read, and is over.
    let lost = client.ask("GET", path, &within, b"");
    assert_eq!((lost.status, &value(&lost)["type"]), (503, &json!("urn:pando:problem:store-unavailable")));

    drop(postgres);
    let begun = Instant::now();
    let gone = loop {
        let reply = client.ask("GET", "/v0/entity?id=k", &[], b"");
        if reply.status != 200 {
            break reply;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "the store goes on");
    };
    assert_eq!((gone.status, &value(&gone)["type"]), (503, &json!("urn:pando:problem:store-unavailable")));
    assert_eq!(gone.header("retry-after"), Some("1"));
    // No connection is left on which a commit could have been sent.
    let not_written = client.ask("PUT", "/v0/entity?id=k", &[], b"two");
    assert_eq!(not_written.status, 503, "{}", not_written.text());
    let not_ready = client.ask("GET", "/readyz", &[], b"");
    assert_eq!((not_ready.status, &value(&not_ready)["type"]), (503, &json!("urn:pando:problem:not-ready")));
    assert_eq!(client.ask("GET", "/healthz", &[], b"").status, 200);
}

/// The rows of docs/http.md that list what a server over a store refuses: method, path, capability.
fn refused() -> Vec<(String, String, String)> {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/http.md")).unwrap();
    let (_, section) = page.split_once("\n## Over a remote store\n").expect("the page has the section");
    let rows = section.split("\n## ").next().unwrap().lines().filter_map(|line| line.strip_prefix("| `"));
    let row = |row: &str| {
        let (operation, rest) = row.split_once("` | `")?;
        let (method, path) = operation.split_once(' ')?;
        Some((method.to_owned(), path.to_owned(), rest.split_once('`')?.0.to_owned()))
    };
    rows.filter_map(row).collect()
}

#[test]
fn what_is_refused_is_what_the_page_lists() {
    let Some(store) = Store::new() else { return };
    let server = store.serve();
    let refused = refused();
    assert!(refused.len() > 15, "{refused:?}");
    let document = value(&server.ask("GET", "/openapi.json", b""));
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys().filter(|method| *method != "head") {
            let method = method.to_uppercase();
            let needs = refused.iter().find(|(of, at, _)| *of == method && at == path);
            let target = path.replace("{database}", "default").replace("{table}", "entity");
            let target = target.replace(['{', '}'], "");
            if target == "/debug/profile" {
                continue; // It takes as long as it is asked to.
            }
            let reply = server.ask(&method, &target, b"");
            match needs {
                Some((_, _, capability)) => assert_unsupported(&reply, 501, capability),
                None => assert_ne!(reply.status, 501, "{method} {path}"),
            }
        }
    }
}

#[test]
fn what_cannot_be_combined_with_a_store_is_said() {
    let Some(store) = Store::new() else { return };
    let refuse = |options: &[&str], code: i32, said: &str| {
        let output = command(store.dir.path(), options).output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{message}");
        assert!(message.contains(said), "{message}");
    };
    refuse(
        &store.options(&["--follow", "http://127.0.0.1:1"]),
        2,
        "`--follow` cannot be used with `--store`",
    );
    refuse(&store.options(&["--durability", "lazy"]), 2, "a durability other than `sync`");
    refuse(&["--store", "http://127.0.0.1:1"], 2, "begins with postgres://");
    refuse(&["--store", "postgres:///x?host=/nowhere"], 1, "");
    refuse(&store.options(&["--store-schema", "Bad"]), 2, "a schema has lower-case letters");
    assert!(failure(pando(["serve"]), 2).contains("<DIR>"));
    let left: Vec<_> = std::fs::read_dir(store.dir.path()).unwrap().collect();
    assert!(left.is_empty(), "the directory has only tokens: {left:?}");
}

/// Sets a flag when it is dropped.
struct Stopping<'s>(&'s AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Starts two servers on the store. Transfers between accounts go through both, and one is killed again and again.
#[test]
fn no_money_is_lost_between_two_servers_of_which_one_is_killed() {
    const ACCOUNTS: u64 = 20;
    let kills = std::env::var("PANDO_KILLS").map_or(5, |kills| kills.parse().expect("a number of kills"));
    let Some(store) = Store::new() else { return };
    let (steady, mut client) = shop(&store);
    for account in 0..ACCOUNTS {
        let path = format!("{TABLES}/t/entries/{account}");
        assert_eq!(client.ask("PUT", &path, &[], b"100").status, 204);
    }
    // While this transaction is open, PostgreSQL has to remember all later ones. It soon has no room for them, and then
    // reports conflicts that are none, for reads as well.
    let begun = client.ask("POST", "/v1/databases/shop/transactions", &[], b"");
    let of_begun = value(&begun)["transaction"].as_str().unwrap().to_owned();
    let open = [("pando-transaction", &of_begun[..])];
    assert_eq!(client.ask("PUT", &format!("{TABLES}/t/entries/open"), &open, b"0").status, 204);
    assert_eq!(client.ask("GET", &format!("{TABLES}/t/entries/open"), &open, b"").status, 200);
    let (stop, moved, lost) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let balances = |client: &mut Client| -> Option<Vec<u64>> {
        let reply = client.try_ask("GET", &format!("{TABLES}/t/entries"), &[], b"").ok()?;
        let text = (reply.status == 200).then(|| reply.text().to_owned())?;
        let of = |line: &str| serde_json::from_str::<Value>(line).unwrap()["value"].as_str()?.parse().ok();
        Some(text.lines().map(|line| of(line).expect("a balance")).collect())
    };
    let transfer = |address, from: u64, to: u64| -> std::io::Result<u16> {
        // A server that was killed refuses the connection.
        let mut client = Client { stream: BufReader::new(TcpStream::connect(address)?) };
        let mut ask = |method: &str, path: &str, body: &[u8]| client.try_ask(method, path, &[], body);
        let balance = |reply: Reply| {
            // The port of a server that was killed can be that of another test's server.
            assert!(reply.status == 200 || address != steady.address, "{} {}", reply.status, reply.text());
            reply.text().parse::<u64>().unwrap_or(0)
        };
        let (at_from, at_to) = (format!("{TABLES}/t/entries/{from}"), format!("{TABLES}/t/entries/{to}"));
        let (has, gets) = (balance(ask("GET", &at_from, b"")?), balance(ask("GET", &at_to, b"")?));
        let Some(rest) = has.checked_sub(7) else { return Ok(412) };
        let batch = json!({ "operations": [
            { "op": "check", "table": "t", "key": from.to_string(), "value": has.to_string() },
            { "op": "check", "table": "t", "key": to.to_string(), "value": gets.to_string() },
            { "op": "put", "table": "t", "key": from.to_string(), "value": rest.to_string() },
            { "op": "put", "table": "t", "key": to.to_string(), "value": (gets + 7).to_string() },
        ] });
        ask("POST", "/v1/databases/shop/batch", batch.to_string().as_bytes()).map(|reply| reply.status)
    };
    let address = std::sync::Mutex::new(steady.address);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (stop, moved, lost, steady, address) = (&stop, &moved, &lost, steady.address, &address);
            scope.spawn(move || {
                for round in (thread..).step_by(3) {
                    if stop.load(Ordering::SeqCst) {
                        break;
                    }
                    let (from, to) = (round % ACCOUNTS, (round * 7 + 1) % ACCOUNTS);
                    let server = if thread % 2 == 0 { steady } else { *address.lock().unwrap() };
                    match if from == to { Ok(412) } else { transfer(server, from, to) } {
                        Ok(200) => drop(moved.fetch_add(1, Ordering::SeqCst)),
                        Ok(status) => assert!([409, 412].contains(&status), "{status}"),
                        Err(_) => {
                            lost.fetch_add(1, Ordering::SeqCst);
                            std::thread::sleep(Duration::from_millis(1));
                        }
                    }
                }
            });
        }
        // The transfers end with this thread, also if an assertion fails.
        let _stopping = Stopping(&stop);
        for _ in 0..kills {
            let killed = store.serve();
            *address.lock().unwrap() = killed.address;
            let mut client = killed.connect();
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_millis(300) {
                let balances = balances(&mut client).expect("the server runs, and reads do not conflict");
                assert_eq!(balances.iter().sum::<u64>(), 100 * ACCOUNTS, "{balances:?}");
            }
            killed.kill();
        }
    });
    let all = balances(&mut client).unwrap();
    assert_eq!((all.len() as u64, all.iter().sum::<u64>()), (ACCOUNTS, 100 * ACCOUNTS));
    let (moved, lost) = (moved.into_inner(), lost.into_inner());
    println!("{kills} kills, {moved} transfers, {lost} without a response, and the sum is the same");
    assert!(moved > 20 && lost > 0);
}

#[test]
fn tokens_are_in_the_directory() {
    let Some(store) = Store::new() else { return };
    let dir: &Path = store.dir.path();
    let created = pando(["token", "create", dir.to_str().unwrap(), "--name", "reader", "--scope", "read"]);
    assert!(created.status.success());
    let token = String::from_utf8(created.stdout).unwrap();
    let token = token.split_whitespace().last().unwrap().to_owned();
    let server = store.serve();
    assert_eq!(server.ask("GET", "/v0/entity?id=k", b"").status, 401);
    let bearer = format!("Bearer {token}");
    let with =
        |method, target: &str| server.ask_with(method, target, &[("authorization", &bearer)], b"").status;
    assert_eq!((with("GET", "/v0/entity?id=k"), with("PUT", "/v0/entity?id=k")), (404, 403));
    // What the server does not have is said only to those who may use it.
    assert_eq!(
        (with("GET", "/v1/databases/default/changes"), with("POST", "/v1/databases/default/check")),
        (501, 403)
    );
}
