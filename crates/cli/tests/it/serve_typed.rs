//! Rows of typed tables in and out of a server: what `pando --url` says is what it says of a directory, and what a
//! client may send has bounds.

use crate::common::{pando, pando_with, text};
use crate::http::{Client, Reply, Server};
use std::path::Path;
use std::process::Output;

const DOCUMENTS: &str = "/v1/databases/default/documents";
const SCHEMA: &str = "id int key, day timestamp key desc, name text null, size float default 1.5, \
                      raw bytes null, other any, tags json null";

fn said(output: &Output) -> (Option<i32>, String, String) {
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    // What it took differs.
    let stdout = lossy(&output.stdout);
    let stdout =
        if stdout.contains(" rows in ") { stdout.split(" in ").next().unwrap().to_owned() } else { stdout };
    (output.status.code(), stdout, lossy(&output.stderr))
}

/// Says it to a directory and to a server, and asserts that both answer the same.
struct Both {
    local: String,
    url: String,
}

impl Both {
    fn at(dir: &Path, server: &Server) -> Self {
        let local = dir.join("local").to_str().unwrap().to_owned();
        Both { local, url: format!("http://{}/moved", server.address) }
    }

    #[track_caller]
    fn say(&self, words: &[&str], input: &[u8], code: i32) -> String {
        let here = said(&pando_with([&words[..1], &[&self.local], &words[1..]].concat(), input));
        let there = said(&pando_with([&["--url", &self.url[..]], words].concat(), input));
        assert_eq!(here, there, "{words:?}");
        assert_eq!(here.0, Some(code), "{words:?}: {here:?}");
        if code == 0 { here.1 } else { here.2 }
    }
}

#[test]
fn a_server_takes_and_gives_the_rows_that_a_directory_does() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("served"));
    let both = Both::at(dir.path(), &server);
    let lines = [
        r#"{"id": 2, "day": "2024-02-29", "name": "", "other": 7}"#,
        r#"{"id": 1, "day": "2024-02-28T12:00:00.5Z", "raw": "00ff", "other": "12", "tags": {"a": [1]}}"#,
        r#"{"id": 1, "day": 5, "name": "\\N", "size": 0.1, "other": {"bytes": "ff"}, "tags": null}"#,
        r#"{"id": -9007199254740993, "day": "1969-12-31", "name": "a,\"b\"\nc", "other": 2.5}"#,
    ];
    let indexes = ["--index", "by_name=name, id desc", "--unique", "one=other"];
    let import = ["import", "t", "-", "--format", "ndjson", "--schema", SCHEMA];
    // Nothing is there yet: neither the database nor the table.
    both.say(&["import", "t", "-", "--format", "csv", "--typed"], b"a\n", 2);
    assert_eq!(both.say(&[&import[..], &indexes].concat(), lines.join("\n").as_bytes(), 0), "4 rows");
    both.say(&[&import[..], &indexes].concat(), b"", 1);
    both.say(&["import", "none", "-", "--format", "csv", "--typed"], b"a\n", 2);
    for format in ["csv", "ndjson"] {
        let exported = both.say(&["export", "t", "--typed", "--format", format], b"", 0);
        let import = ["import", "t", "-", "--format", format, "--typed"];
        assert!(both.say(&import, exported.as_bytes(), 1).contains("already"));
        both.say(&[&import[..], &["--upsert"]].concat(), exported.as_bytes(), 0);
        let import = ["import", format, "-", "--format", format, "--schema", SCHEMA];
        both.say(&import, exported.as_bytes(), 0);
        assert_eq!(both.say(&["export", format, "--typed", "--format", format], b"", 0), exported);
    }
    let empty = ["import", "empty", "-", "--format", "csv", "--schema", "id int key, name text null"];
    both.say(&empty, b"id,name\n", 0);
    assert_eq!(both.say(&["export", "empty", "--typed", "--format", "csv"], b"", 0), "id,name\n");
    assert_eq!(both.say(&["export", "empty", "--typed"], b"", 0), "");
    // Into a file.
    let file = dir.path().join("out.csv");
    text(pando(["--url", &both.url, "export", "empty", file.to_str().unwrap(), "--typed"]));
    assert_eq!(std::fs::read(&file).unwrap(), b"id,name\n");
    for (words, code) in [
        (&["export", "none", "--typed"][..], 1),
        (&["export", "t", "--typed", "--format", "tree"], 2),
        (&["import", "t", "-", "--format", "csv", "--typed", "--threads", "2"], 2),
        (&["import", "t", "-", "--format", "csv", "--typed", "--key", "id"], 2),
        (&["import", "t", "-", "--format", "tree", "--typed"], 2),
        (&["import", "u", "-", "--format", "csv", "--schema", "id integer key"], 2),
        (&["import", "u", "-", "--format", "csv", "--schema", "id int"], 2),
        (&["import", "u", "-", "--format", "csv", "--schema", "id int key", "--index", "id"], 2),
    ] {
        both.say(words, b"id\n", code);
    }
}

#[test]
fn a_failed_import_names_its_place_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("served"));
    let both = Both::at(dir.path(), &server);
    let schema = "id uint key, age int null, email text";
    let import = ["import", "people", "-", "--format", "csv", "--schema", schema];
    let unique = ["--unique", "by_email=email nocase"];
    let good = "id,age,email\n1,30,a@x\n2,,b@x\n";
    for (rows, says) in [
        ("3,abc,c@x\n", "CSV line 4, column \"age\": \"abc\" is no int"),
        ("3,1\n", "line: 4"),
        ("2,1,c@x\n", "CSV line 4: table \"people\" has a row with (2) already"),
        ("3,1,A@X\n", "by_email"),
        (",1,c@x\n", "\"id\" is null"),
    ] {
        let said = both.say(&[&import[..], &unique].concat(), format!("{good}{rows}").as_bytes(), 1);
        assert!(said.contains(says), "{said}");
        both.say(&["export", "people", "--typed"], b"", 1);
    }
    assert!(both.say(&import, b"id,age,mail\n", 1).contains("no column \"mail\" in table \"people\""));
    assert!(both.say(&import, b"id,age\n1,2\n", 1).contains("column \"email\": is missing"));
    // In chunks, those before stay.
    let chunks = [&import[..], &unique, &["--chunk", "2"]].concat();
    let said = both.say(&chunks, format!("{good}3,x,c@x\n").as_bytes(), 1);
    assert!(said.contains("2 rows, through line 3, were imported before"), "{said}");
    assert_eq!(both.say(&["export", "people", "--typed"], b"", 0).lines().count(), 2);
    let import = ["import", "people", "-", "--format", "ndjson", "--typed"];
    for (line, says) in [
        ("{\"id\":3,\"email\":7}", "NDJSON line 2, column \"email\": 7 is no text"),
        ("{\"id\":3", "NDJSON line 2: the line ends in the middle of its JSON"),
    ] {
        let said = both.say(&import, format!("{{\"id\":9,\"email\":\"z\"}}\n{line}\n").as_bytes(), 1);
        assert!(said.contains(says), "{said}");
    }
    // Wrong at once, and much after it: the reply says so all the same.
    let mut long = b"{\"id\":\"x\"}\n".to_vec();
    (0..200_000)
        .for_each(|n| long.extend_from_slice(format!("{{\"id\":{n},\"email\":\"{n:0100}\"}}\n").as_bytes()));
    assert!(both.say(&import, &long, 1).contains("NDJSON line 1, column \"id\""));
    assert_eq!(both.say(&["export", "people", "--typed"], b"", 0).lines().count(), 2);
}

#[test]
fn a_typed_table_is_stored_as_it_was_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("served"));
    let both = Both::at(dir.path(), &server);
    let rows = b"id,name\n1,a\n2,b\n";
    let made =
        ["import", "t", "-", "--format", "csv", "--schema", "id int key, name text", "--index", "i=name"];
    let lsm = ["--layout", "lsm", "--compression", "lz4"];
    both.say(&[&made[..], &lsm].concat(), rows, 0);
    let tables = both.say(&["tables", "--json"], b"", 0);
    let of_rows = |name: &str| tables.lines().find(|line| line.contains(name)).unwrap().to_owned();
    for name in ["rows/1.1/t", "rows/1/1/i"] {
        let line = of_rows(name);
        assert!(line.contains("lsm") && line.contains("lz4"), "{line}");
    }
    let kept =
        ["import", "kept", "-", "--format", "csv", "--schema", "id int key, name text", "--ttl", "36h"];
    both.say(&kept, rows, 0);
    // One that is there is as described, or the reply says so.
    let into = ["import", "t", "-", "--format", "csv", "--typed", "--upsert"];
    both.say(&[&into[..], &lsm].concat(), rows, 0);
    for (option, other) in [("--layout", "btree"), ("--ttl", "1h"), ("--compression", "none")] {
        let said = both.say(&[&into[..], &[option, other]].concat(), b"id,name\n3,c\n", 2);
        assert!(said.contains("was asked for"), "{said}");
    }
    assert_eq!(both.say(&["export", "t", "--typed", "--format", "csv"], b"", 0).lines().count(), 3);
    // What no table can be is none.
    for (options, says) in [
        (&["--compression", "lz4"][..], "only an LSM table's"),
        (&["--ttl", "1h", "--index", "i=name"], "a table with a TTL has no indexes"),
    ] {
        let made = ["import", "u", "-", "--format", "csv", "--schema", "id int key, name text"];
        let said = both.say(&[&made[..], options].concat(), rows, 2);
        assert!(said.contains(says), "{said}");
        both.say(&["export", "u", "--typed"], b"", 1);
    }
    let url = "/v1/databases/moved/documents/v?schema=id%20int%20key";
    for query in ["layout=heap", "ttl_ms=x", "ttl_ms=0", "compression=zip", "layout=%ff"] {
        let reply = server.ask("POST", &format!("{url}&{query}"), b"{\"id\":1}");
        assert_eq!(reply.status, 400, "{query}: {reply:?}");
    }
}

/// A server with the table `people`, and a client of it.
fn with_people(dir: &Path, options: &[&str]) -> (Server, Client) {
    let server = Server::start_with(dir, options);
    let mut client = server.connect();
    let made = post(
        &mut client,
        "people?format=csv&schema=id%20int%20key,%20name%20text%20null",
        b"id,name\n1,Ann\n",
    );
    assert_eq!(made.status, 200, "{made:?}");
    (server, client)
}

fn post(client: &mut Client, target: &str, body: &[u8]) -> Reply {
    client.ask("POST", &format!("{DOCUMENTS}/{target}"), &[], body)
}

fn all(client: &mut Client) -> String {
    client.ask("GET", &format!("{DOCUMENTS}/people?format=csv"), &[], b"").text().to_owned()
}

#[test]
fn what_an_import_says_is_checked() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, mut client) = with_people(dir.path(), &[]);
    let csv = [("content-type", "Text/CSV; charset=utf-8")];
    let by_header = client.ask("POST", &format!("{DOCUMENTS}/people"), &csv, b"name,id\nBob,2\n");
    assert_eq!((by_header.status, by_header.text().contains("\"records\":1")), (200, true), "{by_header:?}");
    for (target, body, status, says) in [
        ("people", "{\"id\":2,\"name\":\"Bo\"}\n\n", 200, "\"records\":1"),
        ("people?insert=false", "{\"id\":2,\"name\":\"Bob\"}", 200, "\"records\":1"),
        ("people?format=csv", "id\n3,4\n", 400, "problem:import"),
        ("people?format=csv", "id,id\n", 400, "appears twice"),
        ("people?format=csv", "id,age\n", 400, "which has id, name"),
        ("people", "{\"id\":\"x\"}", 400, "NDJSON line 1, column"),
        ("people?insert=true", "{\"id\":2}", 409, "problem:exists"),
        (
            "people?chunk=1&insert=true",
            "{\"id\":7}\n{\"id\":2}",
            409,
            "1 rows, through line 1, were imported before",
        ),
        ("people?chunk=0", "", 400, "`chunk`"),
        ("people?chunk=x", "", 400, "`chunk`"),
        ("people?format=xml", "", 400, "`format`"),
        ("people?insert=yes", "", 400, "`insert`"),
        ("people?inset=true", "", 400, "is not a parameter of"),
        ("people?durability=never", "", 400, "durability"),
        ("people?index=i=name", "", 400, "`schema`"),
        ("people?schema=id%20int%20key", "", 409, "problem:exists"),
        ("new?schema=id%20int", "", 400, "problem:bad-request"),
        ("new?schema=id%20integer%20key", "", 400, "integer"),
        ("new?schema=id%20int%20key&unique=id", "", 400, "NAME=COLUMNS"),
        ("new?schema=%ff", "", 400, "UTF-8"),
        ("new?schema=id%20int%20key", "{\"id\":1}\n{\"id\":null}", 400, "problem:import"),
        ("new", "", 404, "there is no typed table"),
    ] {
        let reply = post(&mut client, target, body.as_bytes());
        assert!(reply.status == status && reply.text().contains(says), "{target}: {reply:?}");
    }
    assert_eq!(all(&mut client), "id,name\n1,Ann\n2,Bob\n7,\\N\n");
    for (query, status) in [
        ("format=csv&reverse=true", 200),
        ("format=csv&start=2", 200),
        ("format=csv&limit=1", 400),
        ("format=csv&cursor=00", 400),
        ("format=json", 400),
    ] {
        assert_eq!(
            client.ask("GET", &format!("{DOCUMENTS}/people?{query}"), &[], b"").status,
            status,
            "{query}"
        );
    }
    let begun = client.ask("POST", "/v1/databases/default/transactions", &[], b"");
    let begun: serde_json::Value = serde_json::from_slice(&begun.body).unwrap();
    let mine = [("pando-transaction", begun["transaction"].as_str().unwrap())];
    for (method, target) in [("POST", "people?format=csv"), ("GET", "people?format=csv")] {
        assert_eq!(client.ask(method, &format!("{DOCUMENTS}/{target}"), &mine, b"").status, 400, "{method}");
    }
    let gone = client.ask("POST", "/v1/databases/none/documents/people", &[], b"");
    assert_eq!(gone.status, 404);
}

#[test]
fn an_import_has_a_bound_of_its_own_and_little_memory() {
    let dir = tempfile::tempdir().unwrap();
    let bounds = ["--max-body", "1M", "--max-import", "48M", "--memory", "16M"];
    let (server, mut client) = with_people(dir.path(), &bounds);
    let before = server.resident_bytes();
    let rows = |count: usize| -> String {
        let row = |n| format!("{{\"id\":{n},\"name\":\"{n:01000}\"}}\n");
        (10..10 + count).map(row).collect()
    };
    let reply = post(&mut client, "people", rows(40_000).as_bytes());
    assert!(reply.status == 200 && reply.text().contains("\"records\":40000"), "{reply:?}");
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 40 << 20, "{grown} bytes for 40 MB");
    let csv = all(&mut client);
    assert_eq!(csv.lines().count(), 40_002);
    assert_eq!(post(&mut client, "people", rows(50_000).as_bytes()).status, 413);
    let length = [("content-length", "99000000000"), ("expect", "100-continue")];
    let heads: String = length.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let mut other = server.connect();
    other.send(format!("POST {DOCUMENTS}/people HTTP/1.1\r\nhost: a\r\n{heads}\r\n").as_bytes()).unwrap();
    assert_eq!(other.reply_head().unwrap().status, 413);
    // One record, and one field, without an end.
    for (format, begin) in [("ndjson", "{\"id\":1,\"name\":\""), ("csv", "id,name\n1,\"")] {
        let endless = format!("{begin}{}", "x".repeat(6 << 20));
        let reply = post(&mut client, &format!("people?format={format}"), endless.as_bytes());
        assert!(reply.status == 400 && reply.text().contains("longer than"), "{reply:?}");
    }
    // Broken off, at the end of a line.
    let mut other = server.connect();
    let head = format!("POST {DOCUMENTS}/people HTTP/1.1\r\nhost: a\r\ncontent-length: 3000000\r\n\r\n");
    other.send(head.as_bytes()).unwrap();
    other.send(rows(1500).replace("\"id\":", "\"id\":-").as_bytes()).unwrap();
    drop(other);
    assert_eq!(post(&mut client, "people", b"{\"id\":0}").status, 200);
    assert_eq!(all(&mut client).lines().count(), 40_003, "nothing of it is there");
    let gone =
        server.connect().ask("POST", "/v1/databases/default/tables/entity/entries", &[], b"{\"key\":\"a\"");
    assert_eq!(gone.status, 400);
}

#[test]
fn who_reads_may_export_and_who_writes_import() {
    let dir = tempfile::tempdir().unwrap();
    let served = dir.path().join("served");
    drop(with_people(&served, &[]));
    let token = |scope: &str, database: &str| {
        let arguments = [
            "token",
            "create",
            served.to_str().unwrap(),
            "--name",
            &format!("{scope}{database}"),
            "--scope",
            scope,
        ];
        text(pando(arguments.into_iter().chain(["--database", database]))).trim().to_owned()
    };
    let [reader, writer, stranger] =
        [token("read", "default"), token("write", "default"), token("admin", "other")];
    let server = Server::start(&served);
    let ask = |method: &str, target: &str, token: &str, body: &[u8]| {
        let bearer = format!("Bearer {token}");
        let headers: &[(&str, &str)] = if token.is_empty() { &[] } else { &[("authorization", &bearer)] };
        server.ask_with(method, &format!("{DOCUMENTS}/{target}"), headers, body).status
    };
    for (token, status) in [("", 401), ("pando_wrong", 401), (&stranger, 403), (&reader, 200), (&writer, 200)]
    {
        assert_eq!(ask("GET", "people?format=csv", token, b""), status);
    }
    for (token, status) in [("", 401), ("pando_wrong", 401), (&stranger, 403), (&reader, 403), (&writer, 200)]
    {
        assert_eq!(ask("POST", "people?format=csv", token, b"id\n5\n"), status);
        let schema = format!("made{status}?schema=id%20int%20key");
        assert_eq!(ask("POST", &schema, token, b"{\"id\":1}"), status);
    }
    // A long body that nobody takes: the client hears why.
    let import = ["import", "people", "-", "--format", "csv", "--typed"];
    let url = format!("http://{}", server.address);
    let mut long = b"id\n".to_vec();
    (0..2_000_000).for_each(|n| long.extend_from_slice(format!("{n}\n").as_bytes()));
    for (token, says) in [(&reader, "403"), (&"pando_wrong".to_owned(), "401")] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_pando"));
        command.env("PANDO_TOKEN", token).args(["--url", &url]).args(import);
        command.stdin(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        let long = long.clone();
        let feeding = std::thread::spawn(move || drop(std::io::Write::write_all(&mut input, &long)));
        let output = child.wait_with_output().unwrap();
        feeding.join().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && stderr.contains(says), "{stderr}");
    }
}
