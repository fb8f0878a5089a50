//! `serve --store` with a proxy before the store that cuts connections at each step of a commit: every write happens at
//! most once, and its client learns whether it did.

use crate::http::{Client, Reply, Server};
use crate::proxy::{Cut, MARK, Proxy};
use crate::serve_store::value;
use crate::server;
use serde_json::{Value, json};

const SHOP: &str = "/v1/databases/shop";

/// A way to put a record, in the course of which one commit is sent.
type Put = fn(&mut Client, &str, &str) -> Reply;

/// Without reading: one statement.
fn put_blindly(client: &mut Client, key: &str, value: &str) -> Reply {
    client.ask("PUT", &format!("{SHOP}/tables/t/entries/{key}"), &[], value.as_bytes())
}

/// In a transaction that the server begins and repeats.
fn put_in_a_batch(client: &mut Client, key: &str, value: &str) -> Reply {
    let insert = json!({ "op": "insert", "table": "t", "key": key, "value": value });
    let body = json!({ "operations": [insert] }).to_string();
    client.ask("POST", &format!("{SHOP}/batch"), &[], body.as_bytes())
}

/// In a transaction that the client holds.
fn put_interactively(client: &mut Client, key: &str, value: &str) -> Reply {
    let transactions = format!("{SHOP}/transactions");
    let begun = self::value(&client.ask("POST", &transactions, &[], b""));
    let token = begun["transaction"].as_str().unwrap();
    let (path, within) = (format!("{SHOP}/tables/t/entries/{key}"), [("pando-transaction", token)]);
    assert_eq!(client.ask("GET", &path, &within, b"").status, 404);
    assert_eq!(client.ask("PUT", &path, &within, value.as_bytes()).status, 204);
    client.ask("POST", &format!("{transactions}/{token}/commit"), &[], b"")
}

/// As a statement of SQL, which reads what it depends on.
fn put_by_sql(client: &mut Client, key: &str, value: &str) -> Reply {
    ask_sql(client, "INSERT INTO s VALUES (?, ?)", &json!([key, value]))
}

fn ask_sql(client: &mut Client, sql: &str, params: &Value) -> Reply {
    let body = json!({ "sql": sql, "params": params }).to_string();
    client.ask("POST", &format!("{SHOP}/sql?format=json"), &[], body.as_bytes())
}

/// A server whose way to the store leads through a proxy.
struct Cuttable {
    proxy: Proxy,
    server: Server,
    _dir: tempfile::TempDir,
}

impl Cuttable {
    fn start() -> Option<Cuttable> {
        let (proxy, dir) = (Proxy::start(server::shared()?), tempfile::tempdir().unwrap());
        let (url, schema) = (server::url(&proxy.dir), server::schema());
        let start = |timeout: &str| {
            let options = ["--store", &url, "--store-schema", &schema, "--store-timeout", timeout, "--hrana"];
            Server::start_with(dir.path(), &options)
        };
        // On a busy machine, a database may not be made within the time that a request waits for a store that is away.
        let server = start("60");
        assert_eq!(server.ask("PUT", SHOP, b"").status, 201);
        assert_eq!(server.ask("PUT", &format!("{SHOP}/tables/t"), b"").status, 201);
        let create = "CREATE TABLE s(key PRIMARY KEY, value); CREATE INDEX i ON s(value)";
        assert_eq!(ask_sql(&mut server.connect(), create, &Value::Null).status, 200);
        drop(server);
        let cuttable = Cuttable { proxy, server: start("3"), _dir: dir };
        assert!(!cuttable.is_there("nothing"), "and a connection is open now");
        Some(cuttable)
    }

    fn is_there(&self, key: &str) -> bool {
        let sql = "SELECT count(*) AS n FROM s WHERE key = ?";
        let found = ask_sql(&mut self.server.connect(), sql, &json!([key]));
        assert_eq!(found.status, 200, "{}", found.text());
        let is_in_sql = found.text().contains("[[1]]");
        is_in_sql || self.server.ask("GET", &format!("{SHOP}/tables/t/entries/{key}"), b"").status == 200
    }

    /// Returns the name of a commit in doubt of the database `default`, and leaves the store away.
    fn in_doubt(&self) -> String {
        assert_eq!(self.server.ask("GET", "/v0/entity?id=k", b"").status, 404, "and a connection is open");
        self.proxy.cut_next_commit(Cut::BeforeTheRequest);
        self.proxy.set_down(true);
        let reply = self.server.ask("PUT", "/v0/entity?id=k", MARK);
        value(&reply)["commit"].as_str().expect("the name of the commit").to_owned()
    }

    /// Cuts at each step while the store can be reached again at once: the server finds out by itself.
    fn resolves(&self, put: Put, is_repeated: bool) {
        let mut client = self.server.connect();
        for (number, cut) in Cut::ALL.into_iter().enumerate() {
            let key = format!("resolved-{number}");
            let value = format!("{}{number}", str::from_utf8(MARK).unwrap());
            self.proxy.cut_next_commit(cut);
            let reply = put(&mut client, &key, &value);
            let is_done = is_repeated || cut.is_after_the_request();
            match is_done {
                true => assert!([200, 204].contains(&reply.status), "{cut:?}: {}", reply.text()),
                false => {
                    assert_problem(&reply, 503, "store-unavailable");
                    assert!(reply.text().contains("nothing was written"), "{cut:?}: {}", reply.text());
                }
            }
            assert_eq!(self.is_there(&key), is_done, "{cut:?}");
        }
    }

    /// Cuts at each step, after which the store stays away for longer than the server waits: the client asks later.
    fn leaves_no_doubt(&self, put: Put) {
        let mut client = self.server.connect();
        for (number, cut) in Cut::ALL.into_iter().enumerate() {
            let key = format!("doubted-{number}");
            assert!(!self.is_there(&key), "and a connection is open now");
            self.proxy.cut_next_commit(cut);
            self.proxy.set_down(true);
            let reply = put(&mut client, &key, str::from_utf8(MARK).unwrap());
            assert_problem(&reply, 500, "indeterminate");
            let commit = value(&reply)["commit"].as_str().expect("the name of the commit").to_owned();
            let ask = |database: &str| {
                let path = format!("/v1/databases/{database}/commits/{commit}/outcome");
                self.server.ask("POST", &path, b"")
            };
            if number == 0 {
                let unreachable = ask("shop");
                assert_problem(&unreachable, 503, "store-unavailable");
                assert!(unreachable.header("retry-after").is_some());
            }
            self.proxy.set_down(false);
            for _ in 0..2 {
                let outcome = ask("shop");
                let expected = json!({ "committed": cut.is_after_the_request() });
                assert_eq!((outcome.status, value(&outcome)), (200, expected), "{cut:?}");
            }
            assert_eq!(self.is_there(&key), cut.is_after_the_request(), "{cut:?}");
            // Another database would say that it knows nothing of the commit.
            assert_problem(&ask("default"), 404, "not-found");
        }
    }
}

fn problem_of(reply: &Reply) -> String {
    value(reply)["type"].as_str().expect("a problem").to_owned()
}

#[track_caller]
fn assert_problem(reply: &Reply, status: u16, kind: &str) {
    assert_eq!(reply.status, status, "{}", reply.text());
    assert_eq!(value(reply)["type"], Value::from(format!("urn:pando:problem:{kind}")));
}

#[test]
fn a_put_that_is_cut_happens_once_and_its_client_learns_of_it() {
    let Some(cuttable) = Cuttable::start() else { return };
    cuttable.resolves(put_blindly, true);
    cuttable.leaves_no_doubt(put_blindly);
}

#[test]
fn a_batch_that_is_cut_happens_once_and_its_client_learns_of_it() {
    let Some(cuttable) = Cuttable::start() else { return };
    cuttable.resolves(put_in_a_batch, true);
    cuttable.leaves_no_doubt(put_in_a_batch);
}

#[test]
fn a_transaction_whose_commit_is_cut_happens_once_and_its_client_learns_of_it() {
    let Some(cuttable) = Cuttable::start() else { return };
    cuttable.resolves(put_interactively, false);
    cuttable.leaves_no_doubt(put_interactively);
}

#[test]
fn a_statement_that_is_cut_happens_once_and_its_client_learns_of_it() {
    let Some(cuttable) = Cuttable::start() else { return };
    cuttable.resolves(put_by_sql, false);
    cuttable.leaves_no_doubt(put_by_sql);
    let agree = "SELECT (SELECT count(*) FROM s) = (SELECT count(*) FROM s INDEXED BY i WHERE value >= '')";
    let found = ask_sql(&mut cuttable.server.connect(), agree, &Value::Null);
    assert!(found.text().contains("[[1]]"), "{}", found.text());
}

/// A client of Hrana gets a code of its own, and the name of the commit.
#[test]
fn a_commit_of_hrana_in_doubt_is_named() {
    let Some(cuttable) = Cuttable::start() else { return };
    let insert = format!("INSERT INTO s VALUES ('h', '{}')", str::from_utf8(MARK).unwrap());
    let steps = ["BEGIN", "SELECT count(*) FROM s", &insert, "COMMIT"];
    let requests = steps.map(|sql| json!({ "type": "execute", "stmt": { "sql": sql } }));
    let body = json!({ "requests": requests }).to_string();
    cuttable.proxy.cut_next_commit(Cut::BeforeTheRequest);
    cuttable.proxy.set_down(true);
    let reply = value(&cuttable.server.ask("POST", &format!("{SHOP}/hrana/v3/pipeline"), body.as_bytes()));
    cuttable.proxy.set_down(false);
    let error = &reply["results"][3]["error"];
    assert_eq!(error["code"], "INDETERMINATE", "{reply}");
    let message = error["message"].as_str().unwrap();
    let commit = message.split('/').find(|part| part.len() == 48).expect("the name of the commit");
    let outcome = cuttable.server.ask("POST", &format!("{SHOP}/commits/{commit}/outcome"), b"");
    assert_eq!((outcome.status, value(&outcome)), (200, json!({ "committed": false })));
    assert!(!cuttable.is_there("h"));
}

#[test]
fn only_a_commit_in_doubt_has_an_outcome() {
    let Some(cuttable) = Cuttable::start() else { return };
    let ask = |server: &Server, commit: &str| {
        server.ask("POST", &format!("/v1/databases/default/commits/{commit}/outcome"), b"")
    };
    assert_problem(&ask(&cuttable.server, "00ff"), 400, "bad-request");
    assert_problem(&ask(&cuttable.server, &"0".repeat(48)), 404, "not-found");
    // While the store stays away each request waits, and only so many may.
    let commit = cuttable.in_doubt();
    let types = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..8).map(|_| scope.spawn(|| ask(&cuttable.server, &commit))).collect();
        asking.into_iter().map(|asking| problem_of(&asking.join().unwrap())).collect::<Vec<_>>()
    });
    let count = |kind: &str| types.iter().filter(|is| **is == format!("urn:pando:problem:{kind}")).count();
    assert!(count("busy") > 0 && count("store-unavailable") >= 4, "{types:?}");
    assert_eq!(count("busy") + count("store-unavailable"), 8, "{types:?}");
    let dir = tempfile::tempdir().unwrap();
    let native = Server::start(dir.path());
    let refused = ask(&native, &"0".repeat(48));
    assert_problem(&refused, 404, "not-found");
    assert!(refused.text().contains("keeps its databases itself"), "{}", refused.text());
}
