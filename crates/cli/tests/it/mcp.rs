//! `pando mcp`, as a client speaks with it: a line of JSON each way.

use crate::common::{failure, pando, text};
use pando::Database;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A running command, after the handshake.
struct Agent {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    requests: u64,
}

impl Agent {
    fn start(dir: &Path, options: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pando"));
        command.arg("mcp").arg(dir).args(options);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let (input, output) = (process.stdin.take(), BufReader::new(process.stdout.take().unwrap()));
        let mut agent = Agent { process, input, output, requests: 0 };
        let info = json!({ "name": "test", "version": "1" });
        let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info });
        assert_eq!(agent.request("initialize", hello)["result"]["serverInfo"]["name"], "pando");
        agent.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string());
        agent
    }

    fn send(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    fn request(&mut self, method: &str, params: Value) -> Value {
        self.requests += 1;
        let id = self.requests;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string());
        let reply = self.receive();
        assert_eq!(reply["id"], id, "{reply}");
        reply
    }

    /// What a tool returns.
    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let reply = self.request("tools/call", json!({ "name": tool, "arguments": arguments }));
        assert_eq!(reply["result"]["isError"], false, "{reply}");
        let result = &reply["result"]["structuredContent"];
        let text = reply["result"]["content"][0]["text"].as_str().unwrap();
        assert_eq!(&serde_json::from_str::<Value>(text).unwrap(), result, "both forms say the same");
        result.clone()
    }

    /// Why a call fails.
    fn fails(&mut self, tool: &str, arguments: Value) -> String {
        let reply = self.request("tools/call", json!({ "name": tool, "arguments": arguments }));
        match reply.get("error") {
            Some(error) => error["message"].as_str().unwrap().to_owned(),
            None => {
                assert_eq!(reply["result"]["isError"], true, "{reply}");
                reply["result"]["content"][0]["text"].as_str().unwrap().to_owned()
            }
        }
    }

    fn tools(&mut self) -> Vec<String> {
        let reply = self.request("tools/list", json!({}));
        let tools = reply["result"]["tools"].as_array().unwrap().clone();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Closes standard input, on which the command ends.
    fn end(mut self) {
        drop(self.input.take());
        let mut rest = String::new();
        let status = self.process.wait().unwrap();
        std::io::Read::read_to_string(&mut self.process.stderr.take().unwrap(), &mut rest).unwrap();
        assert!(status.success(), "{status}: {rest}");
    }
}

/// Typed and plain tables: texts, bytes, a long value, a hundred and twenty keys.
fn shop(dir: &Path) {
    let path = dir.to_str().unwrap();
    let script = "CREATE TABLE fruit(id INTEGER PRIMARY KEY, name TEXT UNIQUE, price REAL);
                  INSERT INTO fruit(name, price) VALUES ('apple', 1.5), ('lemon', 0.5), ('pear', 2);";
    text(pando(["sql", path, script]));
    let db = Database::open(dir).unwrap();
    let notes = db.ensure_table("notes").unwrap();
    db.put(&notes, "long", "ä".repeat(3 << 20)).unwrap();
    db.put(&notes, b"\xff\x00", b"\x00\xfe").unwrap();
    let numbers = db.ensure_table("numbers").unwrap();
    db.write(|tx| (0..120).try_for_each(|n| tx.put(&numbers, format!("k{n:03}"), format!("v{n}")))).unwrap();
    db.close().unwrap();
}

#[test]
fn an_agent_finds_its_way() {
    let dir = tempfile::tempdir().unwrap();
    shop(dir.path());
    let mut agent = Agent::start(dir.path(), &[]);
    assert_eq!(agent.tools(), ["list_tables", "describe_table", "get", "scan", "query", "explain"]);

    let tables = agent.call("list_tables", json!({}));
    assert_eq!(tables["typed_tables"], json!([{ "name": "fruit" }]));
    assert_eq!(tables["writes_allowed"], false);
    let plain = tables["plain_tables"].as_array().unwrap();
    let names: Vec<&str> = plain.iter().map(|table| table["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["notes", "numbers"]);
    let fruit = agent.call("describe_table", json!({ "table": "fruit" }));
    assert_eq!(fruit["columns"][1]["name"], "name");
    assert_eq!(fruit["indexes"][0]["unique"], true, "{fruit}");

    let asked =
        json!({ "sql": "SELECT name, price FROM fruit WHERE price < ? ORDER BY name", "params": [2] });
    let found = agent.call("query", asked);
    assert_eq!(found["columns"], json!(["name", "price"]));
    assert_eq!(found["rows"], json!([["apple", 1.5], ["lemon", 0.5]]));
    assert_eq!(found["has_more"], false);
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n";
    let found = agent.call("query", json!({ "sql": endless, "limit": 3 }));
    assert_eq!((&found["rows"], &found["has_more"]), (&json!([[1], [2], [3]]), &json!(true)));
    let plan = agent.call("explain", json!({ "sql": "SELECT * FROM fruit WHERE name = 'pear'" }));
    assert!(plan["rows"].to_string().contains("fruit"), "{plan}");
    let steps = agent.call("explain", json!({ "table": "numbers", "key": "k007" }));
    assert!(steps["steps"].as_array().unwrap().len() > 1, "{steps}");

    assert_eq!(agent.call("get", json!({ "table": "numbers", "key": "k007" }))["value"], "v7");
    assert_eq!(agent.call("get", json!({ "table": "numbers", "key": "none" })), json!({ "found": false }));
    let bytes = agent.call("get", json!({ "table": "notes", "key_hex": "ff00" }));
    assert_eq!(bytes, json!({ "found": true, "value_hex": "00fe", "value_bytes": 2 }));
    let long = agent.call("get", json!({ "table": "notes", "key": "long", "value_limit": 5 }));
    assert_eq!(long, json!({ "found": true, "value": "ää", "truncated": true, "value_bytes": 6 << 20 }));
    agent.end();
}

/// `next` leads through a table in both directions, however small the pages are.
#[test]
fn scans_go_on_where_they_ended() {
    let dir = tempfile::tempdir().unwrap();
    shop(dir.path());
    for options in [&[][..], &["--result-size", "64"]] {
        let mut agent = Agent::start(dir.path(), options);
        for reverse in [false, true] {
            let mut keys = Vec::new();
            let mut arguments =
                json!({ "table": "numbers", "prefix": "k0", "limit": 33, "reverse": reverse });
            loop {
                let page = agent.call("scan", arguments.clone());
                let records = page["records"].as_array().unwrap();
                assert!(!records.is_empty() && records.len() <= 33);
                keys.extend(records.iter().map(|record| record["key"].as_str().unwrap().to_owned()));
                let Some(next) = page["next"].as_object() else { break };
                arguments.as_object_mut().unwrap().extend(next.clone());
            }
            let mut expected: Vec<String> = (0..100).map(|n| format!("k{n:03}")).collect();
            if reverse {
                expected.reverse();
            }
            assert_eq!(keys, expected);
        }
        let between = json!({ "table": "numbers", "start": "k005", "end": "k007" });
        assert_eq!(agent.call("scan", between)["records"].as_array().unwrap().len(), 2);
        agent.end();
    }
}

/// Thirty ways to write, none of which is offered, and none of which changes a byte.
#[test]
fn nothing_is_written_without_the_flag() {
    let dir = tempfile::tempdir().unwrap();
    shop(dir.path());
    let path = dir.path().to_str().unwrap();
    let exported =
        || (text(pando(["export", path, "numbers", "-"])), text(pando(["sql", path, "SELECT * FROM fruit"])));
    let before = exported();
    let mut agent = Agent::start(dir.path(), &[]);
    let mut refusals = Vec::new();
    for (tool, arguments) in [
        ("put", json!({ "table": "numbers", "key": "k000", "value": "x" })),
        ("put", json!({ "table": "fruit", "key": "k000", "value": "x" })),
        ("put", json!({ "table": "rows/fruit", "key": "k000", "value": "x" })),
        ("delete", json!({ "table": "numbers", "key": "k000" })),
        ("delete", json!({ "table": "rows/fruit", "key_hex": "00" })),
        ("create_table", json!({ "table": "new" })),
        ("execute", json!({ "sql": "DELETE FROM fruit" })),
        ("execute", json!({ "sql": "DROP TABLE fruit" })),
        ("PUT", json!({ "table": "numbers", "key": "k000", "value": "x" })),
        ("drop_table", json!({ "table": "numbers" })),
    ] {
        refusals.push(agent.fails(tool, arguments));
    }
    for sql in [
        "INSERT INTO fruit(name) VALUES ('fig')",
        "INSERT INTO fruit(name) VALUES ('fig') RETURNING id",
        "REPLACE INTO fruit(id, name) VALUES (1, 'fig')",
        "UPDATE fruit SET price = 0",
        "UPDATE fruit SET price = 0 RETURNING id",
        "DELETE FROM fruit",
        "WITH gone AS (SELECT 1) DELETE FROM fruit",
        "CREATE TABLE t(a INTEGER PRIMARY KEY)",
        "CREATE TABLE t AS SELECT * FROM fruit",
        "DROP TABLE fruit",
        "ALTER TABLE fruit ADD COLUMN x",
        "CREATE INDEX i ON fruit(price)",
        "DROP INDEX fruit_name",
        "BEGIN",
        "COMMIT",
        "SELECT 1; DELETE FROM fruit",
        "ATTACH 'other.db' AS other",
        "VACUUM INTO 'other.db'",
        "PRAGMA writable_schema = 1",
        "SELECT load_extension('x')",
        "SELECT writefile('x', 'y')",
    ] {
        let failed = agent.fails("query", json!({ "sql": sql }));
        assert!(!failed.is_empty(), "{sql}");
        refusals.push(failed);
    }
    assert!(refusals.len() >= 30);
    assert!(refusals[0].contains("--allow-writes"), "{}", refusals[0]);
    agent.end();
    assert_eq!(exported(), before);
    let files = dir.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name());
    assert!(!files.into_iter().any(|name| name == "other.db"));
}

#[test]
fn an_agent_that_may_write_does() {
    let dir = tempfile::tempdir().unwrap();
    shop(dir.path());
    let path = dir.path().to_str().unwrap();
    let mut agent = Agent::start(dir.path(), &["--allow-writes"]);
    assert_eq!(agent.call("list_tables", json!({}))["writes_allowed"], true);
    assert_eq!(
        agent.call("put", json!({ "table": "numbers", "key": "k000", "value_hex": "00ff" })),
        json!({ "replaced": true })
    );
    assert_eq!(
        agent.call("delete", json!({ "table": "numbers", "key": "k001" })),
        json!({ "deleted": true })
    );
    agent.call("create_table", json!({ "table": "events", "layout": "lsm" }));
    let sql = "INSERT INTO fruit(name) VALUES (?), (?) RETURNING id";
    let inserted = json!({ "sql": sql, "params": ["fig", null], "limit": 1 });
    let inserted = agent.call("execute", inserted);
    assert_eq!((&inserted["rows"], &inserted["changes"]), (&json!([[4]]), &json!(2)), "{inserted}");
    for (tool, arguments) in [
        ("put", json!({ "table": "missing", "key": "k", "value": "v" })),
        ("put", json!({ "table": "rows/fruit", "key": "k", "value": "v" })),
        ("put", json!({ "table": "numbers", "key": "k", "key_hex": "00", "value": "v" })),
        ("put", json!({ "table": "numbers", "key": "k", "valeu": "v" })),
        ("put", json!({ "table": "numbers", "key_hex": "0", "value": "v" })),
        ("create_table", json!({ "table": "t", "layout": "heap" })),
        ("execute", json!({ "sql": "INSERT INTO fruit(name) VALUES ('fig')" })),
        ("execute", json!({ "sql": "DELETE FROM fruit; DELETE FROM fruit" })),
        ("execute", json!({ "sql": "DELETE FROM fruit WHERE id = ?" })),
    ] {
        assert!(!agent.fails(tool, arguments.clone()).is_empty(), "{tool} {arguments}");
    }
    agent.end();
    assert_eq!(text(pando(["sql", path, "SELECT count(*) FROM fruit", "--format", "csv"])), "count(*)\n5\n");
    assert_eq!(pando(["get", path, "numbers", "k000"]).stdout, b"\x00\xff");
    failure(pando(["get", path, "numbers", "k001"]), 1);
}

/// One value cannot fill the context of an agent.
#[test]
fn a_row_that_is_too_long_for_a_result_is_cut() {
    let dir = tempfile::tempdir().unwrap();
    shop(dir.path());
    let mut agent = Agent::start(dir.path(), &["--result-size", "10K"]);
    for sql in [
        "SELECT hex(zeroblob(3000000)), 7",
        "SELECT zeroblob(6000000), 7",
        "SELECT replace(hex(zeroblob(3000000)), '00', char(1)), 7",
    ] {
        let found = agent.call("query", json!({ "sql": sql }));
        assert!(found["rows"].to_string().len() <= 10 << 10, "{sql}");
        let row = &found["rows"][0];
        assert_eq!((&row[0]["truncated"], &row[1]), (&json!(true), &json!(7)), "{sql}: {row}");
        assert!(row[0]["value_bytes"].as_u64() >= Some(3_000_000), "{sql}");
    }
    // A later row is left for the next result.
    let found = agent.call("query", json!({ "sql": "SELECT 1 UNION ALL SELECT hex(zeroblob(3000000))" }));
    assert_eq!((&found["rows"], &found["has_more"]), (&json!([[1]]), &json!(true)), "{found}");
    agent.end();
}

/// It reads beside a process that writes, and sees what that one commits; it does not write then.
#[test]
fn it_works_beside_a_writer() {
    let dir = tempfile::tempdir().unwrap();
    shop(dir.path());
    let db = Database::open(dir.path()).unwrap();
    let numbers = db.table("numbers").unwrap().unwrap();
    let mut agent = Agent::start(dir.path(), &[]);
    db.put(&numbers, "new", "1").unwrap();
    let begun = std::time::Instant::now();
    while agent.call("get", json!({ "table": "numbers", "key": "new" }))["found"] != true {
        assert!(begun.elapsed().as_secs() < 20, "it does not follow");
    }
    agent.end();
    let writing = pando(["mcp", dir.path().to_str().unwrap(), "--allow-writes"]);
    assert!(failure(writing, 4).contains("without --allow-writes"));
    db.close().unwrap();
}

/// Lines that are no requests, and requests that are too much, end no server and no other request.
#[test]
fn hostile_input_is_survived() {
    let dir = tempfile::tempdir().unwrap();
    shop(dir.path());
    let mut agent = Agent::start(dir.path(), &["--statement-time", "300ms"]);
    for line in ["", "{", "[]", "null", "\u{0}", "{\"jsonrpc\":\"2.0\"}", "{\"jsonrpc\":\"1.0\",\"id\":1}"] {
        agent.send(line);
    }
    agent.send(&"[".repeat(100_000));
    agent.send(&format!("{{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"{}\"}}", "m".repeat(1 << 20)));
    // Refusals of these lines may come first; the ping's reply comes, too.
    agent.send("{\"jsonrpc\":\"2.0\",\"id\":77,\"method\":\"ping\"}");
    while agent.receive()["id"] != 77 {}
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
    assert!(agent.fails("query", json!({ "sql": endless })).contains("took longer"));
    for arguments in [
        json!({ "table": 7, "key": "k" }),
        json!({ "table": "numbers", "key": ["k"] }),
        json!({ "table": "t".repeat(1 << 20), "key": "k" }),
        json!({ "table": "numbers", "key": "k", "value_limit": -1 }),
        json!({ "table": "numbers", "key": "k", "value_limit": u64::MAX }),
    ] {
        assert!(!agent.fails("get", arguments).is_empty());
    }
    let long = json!({ "table": "numbers", "key": "k".repeat(1 << 20) });
    assert_eq!(agent.call("get", long), json!({ "found": false }));
    assert_eq!(agent.call("get", json!({ "table": "numbers", "key": "k007" }))["value"], "v7");
    agent.end();
}
