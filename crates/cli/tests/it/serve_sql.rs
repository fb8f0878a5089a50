//! SQL over HTTP, from outside: answers, scopes, bounds, and clients that leave.
#![cfg(feature = "sql")]

use crate::http::{Client, Reply, Server};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const SQL: &str = "/v1/databases/default/sql";
const ENDLESS: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)";

fn run(client: &mut Client, asks: &Value) -> Reply {
    client.ask("POST", SQL, &[], asks.to_string().as_bytes())
}

/// Statements that must succeed: all lines of the answer.
fn lines(client: &mut Client, sql: &str) -> Vec<Value> {
    lines_in(client, sql, None)
}

/// The same of statements that take their time.
fn lines_in(client: &mut Client, sql: &str, timeout_ms: Option<u32>) -> Vec<Value> {
    let reply = run(client, &json!({ "sql": sql, "timeout_ms": timeout_ms }));
    assert_eq!(reply.status, 200, "{sql}: {reply:?}");
    let lines: Vec<Value> = reply.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.last(), Some(&json!({"done": true})), "{sql}");
    lines
}

/// The status, and what the problem says.
fn refused(client: &mut Client, asks: &Value) -> (u16, String) {
    let reply = run(client, asks);
    assert_eq!(reply.header("content-type"), Some("application/problem+json"), "{asks}: {reply:?}");
    let problem: Value = serde_json::from_slice(&reply.body).unwrap();
    (reply.status, format!("{} {}", problem["type"], problem["detail"]))
}

fn count(client: &mut Client, table: &str) -> Value {
    lines(client, &format!("SELECT count(*) FROM {table}"))[1][0].clone()
}

#[test]
fn values_come_back_as_they_were_sent() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let mut client = server.connect();
    lines(&mut client, "CREATE TABLE t(id INTEGER PRIMARY KEY, v)");
    let values = json!([
        null, 0, -1, i64::MAX, i64::MIN, 9007199254740993i64, 1.5, -0.0, 1e300, 5e-324, {"float": "inf"},
        {"float": "-inf"}, "", "text", "\u{0}\u{1f}\"\\\n\u{7f}\u{2028}ä\u{1F333}",
        {"bytes": ""}, {"bytes": "00ff"},
    ]);
    for value in values.as_array().unwrap() {
        let insert = json!({"sql": "INSERT INTO t(v) VALUES (?) RETURNING v", "params": [value]});
        let reply = run(&mut client, &insert);
        let row: Value = serde_json::from_str(reply.text().lines().nth(1).unwrap()).unwrap();
        assert_eq!(row, json!([value]));
    }
    let rows = lines(&mut client, "SELECT v FROM t ORDER BY id");
    let found: Vec<&Value> = rows[1..=values.as_array().unwrap().len()].iter().map(|row| &row[0]).collect();
    assert_eq!(found, values.as_array().unwrap().iter().collect::<Vec<_>>());
    // What has no form: NaN is NULL to SQLite, and booleans are numbers.
    assert_eq!(
        lines(&mut client, "SELECT 9e999 - 9e999, true, CAST(x'ff' AS TEXT)")[1],
        json!([null, 1, {"bytes": "ff"}])
    );
    // By name, in several statements; each format.
    let asks =
        json!({"sql": "SELECT :a AS a, $b AS b WHERE @a = 1; SELECT :b", "params": {"a": 1, "b": "x,y"}});
    let reply = client.ask("POST", &format!("{SQL}?format=json"), &[], asks.to_string().as_bytes());
    let document: Value = serde_json::from_slice(&reply.body).unwrap();
    assert_eq!(document["results"][0], json!({"columns": ["a", "b"], "rows": [[1, "x,y"]]}));
    assert_eq!(document["results"][1]["rows"], json!([["x,y"]]));
    let asks = json!({"sql": "SELECT 1 AS n, 'a \"b\"' AS t, NULL AS absent, '' AS empty"});
    let reply = client.ask("POST", &format!("{SQL}?format=csv"), &[], asks.to_string().as_bytes());
    assert_eq!((reply.status, reply.text()), (200, "n,t,absent,empty\n1,\"a \"\"b\"\"\",,\"\"\n"));
    for (asks, says) in [
        (json!({"sql": "SELECT ?, ?", "params": [1]}), "2 parameters, 1 values"),
        (json!({"sql": "SELECT :a", "params": {"b": 1}}), "no value"),
        (json!({"sql": "SELECT :a", "params": {"a": 1, "b": 1}}), "no statement has a parameter"),
        (json!({"sql": "SELECT 1; SELECT 2", "params": [1]}), "by name"),
        (json!({"sql": "SELECT ?", "params": [[1]]}), "parameter 1"),
        (json!({"sql": "SELECT ?", "params": [{"bytes": "0"}]}), "hexadecimal"),
        (json!({"sql": "SELECT ?", "params": [{"date": "today"}]}), "an object must be"),
        (json!({"sql": "SELECT ?", "params": [u64::MAX]}), "64-bit"),
        (json!({"sql": "SELECT ?", "params": 1}), "an array of values"),
    ] {
        let (status, problem) = refused(&mut client, &asks);
        assert!(status == 400 && problem.contains(says), "{asks}: {problem}");
    }
}

#[test]
fn several_statements_are_one_transaction() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let mut client = server.connect();
    let made = lines(
        &mut client,
        "CREATE TABLE t(id INTEGER PRIMARY KEY, v INTEGER UNIQUE); INSERT INTO t VALUES(1, 1), (2, 2);
         SELECT v FROM t",
    );
    let answers =
        [json!({"changes": 0}), json!({"changes": 2}), json!({"columns": ["v"]}), json!([1]), json!([2])];
    assert_eq!(made[..5], answers);
    for (script, status, says) in [
        ("INSERT INTO t VALUES(3, 3); INSERT INTO t VALUES(4, 1)", 409, "constraint\" \"statement 2: UNIQUE"),
        ("DELETE FROM t; SELECT absent FROM t", 400, "statement 2: no such column: absent"),
        ("DROP TABLE t; BEGIN", 400, "each request is one transaction"),
        ("DELETE FROM t; COMMIT; SELECT 1", 400, "each request is one transaction"),
        ("DELETE FROM t; ROLLBACK", 400, "each request is one transaction"),
        ("DELETE FROM t; ATTACH ':memory:' AS x", 403, "can use only the database"),
        ("", 400, "no statement"),
        ("-- nothing", 400, "no statement"),
    ] {
        let (found, problem) = refused(&mut client, &json!({ "sql": script }));
        assert!(found == status && problem.contains(says), "{script}: {found} {problem}");
        assert_eq!(count(&mut client, "t"), 2, "{script}");
    }
    lines(&mut client, "SAVEPOINT s; DELETE FROM t; ROLLBACK TO s; INSERT INTO t VALUES(3, 3)");
    assert_eq!(count(&mut client, "t"), 3);
    // What another client changes meanwhile is a conflict, by table and key; a single statement is run again.
    let mut other = server.connect();
    let busy =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 2000000) SELECT sum(i) FROM n";
    let slow = format!("SELECT v FROM t WHERE id = 2; {busy}; UPDATE t SET v = 30 WHERE id = 3");
    let conflict = std::thread::scope(|scope| {
        let asked = scope.spawn(|| refused(&mut other, &json!({ "sql": slow, "timeout_ms": 25_000 })));
        let begun = Instant::now();
        while !asked.is_finished() && begun.elapsed() < Duration::from_secs(20) {
            lines(&mut client, "UPDATE t SET v = v + 100 WHERE id = 2");
            std::thread::sleep(Duration::from_millis(5));
        }
        asked.join().unwrap()
    });
    assert_eq!(conflict.0, 409, "{}", conflict.1);
    // A store does not say where it was.
    if std::env::var_os("PANDO_SQL_STORE").is_none() {
        assert!(conflict.1.contains("conflict in table t at rowid 2"), "{}", conflict.1);
    }
    assert_eq!(lines(&mut client, "SELECT v FROM t WHERE id = 3")[1], json!([3]));
    // In somebody's interactive transaction there is none.
    let reply = client.ask("POST", SQL, &[("pando-transaction", "x")], br#"{"sql": "SELECT 1"}"#);
    assert_eq!(reply.status, 400);
}

#[test]
fn a_token_that_reads_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let token = |name: &str, scope: &str| {
        let words = ["--name", name, "--scope", scope, "--database", "default"];
        let mut command = Command::new(env!("CARGO_BIN_EXE_pando"));
        let output = command.args(["token", "create"]).arg(dir.path()).args(words).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let (reader, writer) = (token("reader", "read"), token("writer", "write"));
    let server = Server::start(dir.path());
    let mut client = server.connect();
    let mut ask = |token: &str, path: &str, sql: &str| {
        let bearer = format!("Bearer {token}");
        client.ask("POST", path, &[("authorization", &bearer)], json!({ "sql": sql }).to_string().as_bytes())
    };
    assert_eq!(ask("", SQL, "SELECT 1").status, 401);
    assert_eq!(ask(&reader, "/v1/databases/other/sql", "SELECT 1").status, 403);
    assert_eq!(
        ask(&writer, SQL, "CREATE TABLE t(id INTEGER PRIMARY KEY, v); INSERT INTO t VALUES(1, 1)").status,
        200
    );
    let before = ask(&writer, SQL, "SELECT * FROM t").body;
    for statement in [
        "INSERT INTO t VALUES(2, 2)",
        "REPLACE INTO t VALUES(1, 2)",
        "INSERT INTO t VALUES(1, 2) ON CONFLICT(id) DO UPDATE SET v = 3",
        "UPDATE t SET v = 2 RETURNING v",
        "DELETE FROM t",
        "WITH x(i) AS (SELECT 5) INSERT INTO t SELECT i, i FROM x",
        "CREATE TABLE u(a)",
        "CREATE TABLE u AS SELECT * FROM t",
        "CREATE TEMP TABLE u(a)",
        "CREATE INDEX by_v ON t(v)",
        "ALTER TABLE t ADD COLUMN w",
        "DROP TABLE t",
        "SELECT 1; DELETE FROM t",
        "SAVEPOINT s; DELETE FROM t; RELEASE s",
        "/* SELECT */ DELETE FROM t",
        "ATTACH ':memory:' AS x",
        "PRAGMA writable_schema = 1",
    ] {
        assert_eq!(ask(&reader, SQL, statement).status, 403, "{statement}");
        assert_eq!(ask(&writer, SQL, "SELECT * FROM t").body, before, "{statement}");
    }
    for statement in [
        "SELECT * FROM t JOIN t AS u USING (v)",
        "EXPLAIN QUERY PLAN SELECT * FROM t WHERE id = 1",
        "SELECT 1; SELECT v FROM t; VALUES (1)",
        "SAVEPOINT s; SELECT 1; RELEASE s",
        "PRAGMA table_info(t)",
        "SELECT name FROM pragma_table_info('t')",
    ] {
        assert_eq!(ask(&reader, SQL, statement).status, 200, "{statement}");
    }
    assert_eq!(ask(&writer, SQL, "CREATE INDEX by_v ON t(v)").status, 200);
    // A token that may write can say that nothing is to be written.
    let bearer = format!("Bearer {writer}");
    let mut ask = |sql: &str| {
        let asks = json!({"sql": sql, "read_only": true}).to_string();
        client.ask("POST", SQL, &[("authorization", &bearer)], asks.as_bytes())
    };
    let refused = ask("SELECT 1; DELETE FROM t");
    assert!(refused.status == 403 && refused.text().contains("read_only"), "{refused:?}");
    assert_eq!(ask("SELECT count(*) FROM t").text().lines().nth(1), Some("[1]"));
}

#[test]
fn statements_reach_the_database_alone() {
    let dir = tempfile::tempdir().unwrap();
    let served = dir.path().join("served");
    let server = Server::start(&served);
    let mut client = server.connect();
    lines(&mut client, "CREATE TABLE t(a)");
    let list = |dir: &Path| {
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>()
    };
    let (out, before) = (dir.path().join("out").display().to_string(), list(&served));
    for (statement, status) in [
        (format!("ATTACH DATABASE '{out}' AS x"), 403),
        (format!("VACUUM INTO '{out}'"), 403),
        ("VACUUM".to_owned(), 403),
        ("SELECT load_extension('libc.so.6')".to_owned(), 403),
        ("SELECT readfile('/etc/passwd')".to_owned(), 403),
        (format!("SELECT writefile('{out}', 'x')"), 403),
        (format!("INSERT INTO t SELECT readfile('{out}') RETURNING a"), 403),
        ("SELECT * FROM fsdir('/')".to_owned(), 403),
        ("CREATE TABLE u AS SELECT load_extension('libc.so.6')".to_owned(), 403),
        ("CREATE TABLE c(a CHECK (load_extension(a))); INSERT INTO c VALUES('x')".to_owned(), 403),
        ("SELECT redfile('x')".to_owned(), 400),
        (format!("PRAGMA temp_store_directory = '{}'", dir.path().display()), 403),
        ("PRAGMA hard_heap_limit = 1".to_owned(), 403),
        ("CREATE VIRTUAL TABLE x USING fts5(a)".to_owned(), 403),
    ] {
        let (found, problem) = refused(&mut client, &json!({ "sql": statement }));
        assert_eq!(found, status, "{statement}: {problem}");
        let kind = if status == 403 { "urn:pando:problem:refused" } else { "urn:pando:problem:sql" };
        assert!(problem.contains(kind), "{statement}: {problem}");
    }
    assert_eq!(list(dir.path()), ["served"]);
    assert_eq!(list(&served), before);
}

#[test]
fn statements_end_in_time_and_with_their_client() {
    let dir = tempfile::tempdir().unwrap();
    let server =
        Server::start_with(dir.path(), &["--max-sql", "1", "--sql-timeout", "2", "--max-sql-timeout", "50"]);
    let mut client = server.connect();
    lines(&mut client, "CREATE TABLE t(a)");
    let endless =
        |what: &str, ms: u64| json!({"sql": format!("{ENDLESS} {what} i FROM n"), "timeout_ms": ms});
    for (asks, least_ms) in [
        (endless("SELECT sum(i),", 200), 200),
        (endless("INSERT INTO t SELECT", 200), 200),
        (json!({"sql": format!("{ENDLESS} SELECT count(*) FROM n")}), 2000),
    ] {
        let begun = Instant::now();
        let (status, problem) = refused(&mut client, &asks);
        let took = begun.elapsed();
        assert!(status == 422 && problem.contains("time-limit"), "{asks}: {status} {problem}");
        assert!(
            took >= Duration::from_millis(least_ms) && took < Duration::from_secs(15),
            "{asks}: {took:?}"
        );
        assert_eq!(count(&mut client, "t"), 0, "{asks}");
    }
    // One long statement that is many short transactions.
    let fill = format!("CREATE TABLE many(a, b); INSERT INTO many {ENDLESS} SELECT i, i FROM n LIMIT 30000");
    lines_in(&mut client, &fill, Some(50_000));
    for index in ["CREATE INDEX by_a ON many(a)", "CREATE UNIQUE INDEX by_b ON many(b)"] {
        let asks = json!({"sql": index, "timeout_ms": 15});
        let (status, problem) = refused(&mut client, &asks);
        assert!(status == 422 && problem.contains("nothing was changed"), "{asks}: {status} {problem}");
    }
    let tables = client.ask("GET", "/v1/databases/default/documents", &[], b"");
    assert!(!tables.text().contains("by_a") && !tables.text().contains("by_b"), "{}", tables.text());
    // Rows that were sent already, the first ones at once: the last line says that they are not all.
    let long_first = "SELECT CASE WHEN i < 9 THEN hex(zeroblob(20000)) END,";
    let reply = run(&mut client, &endless(long_first, 1000));
    assert_eq!(reply.status, 200);
    let last: Value = serde_json::from_str(reply.text().lines().last().unwrap()).unwrap();
    assert_eq!(last["error"]["type"], "urn:pando:problem:time-limit");
    // Of the other formats the last chunk never comes.
    let mut broken = server.connect();
    let asks = endless(long_first, 1000).to_string();
    assert!(broken.try_ask("POST", &format!("{SQL}?format=csv"), &[], asks.as_bytes()).is_err());
    for ms in [0, 50_001] {
        assert_eq!(refused(&mut client, &endless("SELECT", ms)).0, 400);
    }
    // A client that leaves makes room, whether it waits for the first row or has stopped reading.
    for what in ["SELECT sum(i),", "INSERT INTO t SELECT", "SELECT"] {
        let body = endless(what, 50_000).to_string();
        let head = format!("POST {SQL} HTTP/1.1\r\nhost: test\r\ncontent-length: {}\r\n\r\n", body.len());
        let begun = Instant::now();
        let (leaves, busy) = loop {
            let mut leaves = server.connect();
            leaves.send(format!("{head}{body}").as_bytes()).unwrap();
            std::thread::sleep(Duration::from_millis(100));
            // It waits for a place no longer than it may take.
            let reply = run(&mut client, &json!({"sql": "SELECT 1", "timeout_ms": 50}));
            if reply.status != 200 {
                break (leaves, reply);
            }
            // It had not begun, and may have met this very request: once more.
            assert!(begun.elapsed() < Duration::from_secs(20), "{what}: it never began");
        };
        assert_eq!((busy.status, busy.header("retry-after")), (503, Some("1")));
        drop(leaves);
        let begun = Instant::now();
        while run(&mut client, &json!({"sql": "SELECT 1", "timeout_ms": 50})).status == 503 {
            assert!(begun.elapsed() < Duration::from_secs(20), "{what}: it goes on without its client");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(count(&mut client, "t"), 0, "{what}");
    }
    // Slow statements are kept, as they were written.
    let slow = client.ask("GET", "/debug/slow", &[], b"");
    assert!(slow.text().contains("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL"), "{}", slow.text());
}

#[test]
fn rows_pass_through_and_memory_is_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let server =
        Server::start_with(dir.path(), &["--sql-memory", "16M", "--sql-timeout", "60", "--memory", "32M"]);
    let mut client = server.connect();
    let rows = |count: u32, what: &str| format!("{ENDLESS} SELECT {what} FROM n LIMIT {count}");
    run(&mut client, &json!({ "sql": rows(2000, "hex(zeroblob(500))") }));
    let before = server.resident_bytes();
    let body = json!({ "sql": rows(40_000, "hex(zeroblob(500))") }).to_string();
    let head = format!("POST {SQL} HTTP/1.1\r\nhost: test\r\ncontent-length: {}\r\n\r\n", body.len());
    client.send(format!("{head}{body}").as_bytes()).unwrap();
    assert_eq!(client.reply_head().unwrap().status, 200);
    // Nobody takes the rows for a while.
    std::thread::sleep(Duration::from_millis(300));
    let (mut bytes, mut last) = (0, Vec::new());
    while let Some(chunk) = client.chunk().unwrap() {
        bytes += chunk.len();
        last = chunk;
    }
    assert!(bytes > 40_000_000 && last.ends_with(b"{\"rows\":40000}\n{\"done\":true}\n"), "{bytes}");
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} bytes more for {bytes} bytes of rows");
    // One long value is handed on in pieces, too.
    let reply = run(&mut client, &json!({"sql": "SELECT hex(zeroblob(3000000))"}));
    assert_eq!(reply.status, 200);
    assert!(reply.chunks.len() > 50, "{}", reply.chunks.len());
    // A sort of more than there is memory for, and what is larger than a value may be.
    let sort = rows(200_000, "hex(randomblob(200)) AS x").replace(" LIMIT", " ORDER BY x LIMIT");
    let sorted = sort.replace("FROM n ORDER", "FROM (SELECT i FROM n LIMIT 200000) ORDER");
    let (status, problem) = refused(&mut client, &json!({ "sql": sorted }));
    assert!(status == 507 && problem.contains("--sql-memory"), "{status} {problem}");
    assert_eq!(refused(&mut client, &json!({"sql": "SELECT zeroblob(17000000)"})).0, 400);
    assert_eq!(lines(&mut client, "SELECT 1")[1], json!([1]));
}

#[test]
fn hostile_bodies_are_refused_in_words() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let nested =
        |open: &str, count: usize| json!({ "sql": format!("SELECT {}", open.repeat(count)) }).to_string();
    let deep_json = format!("{{\"sql\": \"SELECT 1\", \"params\": {}", "[".repeat(500_000));
    let bodies: Vec<(Vec<u8>, u16)> = vec![
        (b"".to_vec(), 400),
        (b"SELECT 1".to_vec(), 400),
        (b"[]".to_vec(), 400),
        (br#"{"sql": 1}"#.to_vec(), 400),
        (br#"{"sql": null}"#.to_vec(), 400),
        (br#"{"sql": "SELECT 1", "more": 1}"#.to_vec(), 400),
        (br#"{"sql": "SELECT 1", "timeout_ms": -1}"#.to_vec(), 400),
        (br#"{"sql": "SELECT 1", "timeout_ms": 1e99}"#.to_vec(), 400),
        (b"{\"sql\": \"SELECT '\xff'\"}".to_vec(), 400),
        (br#"{"sql": "SELECT '\ud800'"}"#.to_vec(), 400),
        (deep_json.into_bytes(), 400),
        (nested("(", 300_000).into_bytes(), 400),
        (nested("(SELECT ", 100_000).into_bytes(), 400),
        (nested("-", 900_000).into_bytes(), 400),
        (nested("[", 900_000).into_bytes(), 400),
        (nested("'", 300_001).into_bytes(), 400),
        (nested("/*", 300_000).into_bytes(), 400),
        (nested("$a(", 300_000).into_bytes(), 400),
        (json!({"sql": "SELECT \u{0}1; DROP TABLE t"}).to_string().into_bytes(), 400),
        (json!({"sql": format!("SELECT 1{}", ", 1".repeat(100_000))}).to_string().into_bytes(), 400),
        (vec![b' '; 2 << 20], 413),
    ];
    for (body, status) in bodies {
        let reply = server.ask("POST", SQL, &body);
        let shown = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
        assert_eq!(reply.status, status, "{shown}: {}", String::from_utf8_lossy(&reply.body));
    }
    for (method, target, status) in [
        ("GET", SQL.to_owned(), 405),
        ("PUT", SQL.to_owned(), 405),
        ("POST", format!("{SQL}?format=xml"), 400),
        ("POST", format!("{SQL}?durability=never"), 400),
        ("POST", "/v1/databases/none/sql".to_owned(), 404),
        ("POST", "/v1/databases/..%2f/sql".to_owned(), 400),
    ] {
        assert_eq!(
            server.ask(method, &target, br#"{"sql": "SELECT 1"}"#).status,
            status,
            "{method} {target}"
        );
    }
    let mut client = server.connect();
    let many = "SELECT 1;".repeat(50_000);
    assert_eq!(lines_in(&mut client, &many, Some(60_000)).len(), 150_001);
}

/// What the server takes between two rows is not the client's time.
#[test]
fn an_answer_that_pauses_is_not_cut_off() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_with(dir.path(), &["--head-timeout", "1", "--sql-timeout", "60"]);
    let count = |to: u64| {
        format!(
            "(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {to})
                SELECT count(*) FROM n)"
        )
    };
    let ask = |sql: &str| {
        server.ask("POST", "/v1/databases/default/sql", json!({ "sql": sql }).to_string().as_bytes())
    };
    let begun = Instant::now();
    assert_eq!(ask(&format!("SELECT {}", count(1_000_000))).status, 200);
    // A row that is sent at once, and one that takes some seconds.
    let to = (1_000_000.0 * 5.0 / begun.elapsed().as_secs_f64()) as u64;
    let reply = ask(&format!("SELECT hex(zeroblob(100000)) UNION ALL SELECT {}", count(to)));
    assert!(begun.elapsed() > Duration::from_millis(2500), "it did not pause: {:?}", begun.elapsed());
    let lines: Vec<&str> = reply.text().lines().collect();
    assert_eq!((lines.len(), lines[2], lines[4]), (5, &format!("[{to}]")[..], "{\"done\":true}"));
}

/// A statement that returns rows commits before the first of them is sent.
#[test]
fn a_client_that_is_too_slow_for_the_rows_of_a_commit_learns_of_the_commit() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let mut client = server.connect();
    lines(&mut client, "CREATE TABLE t(a INTEGER PRIMARY KEY, b)");
    let insert = format!("INSERT INTO t(b) {ENDLESS} SELECT hex(zeroblob(3000)) FROM n LIMIT 2000");
    let run_slowly = |sql: &str, timeout_ms: u64| {
        let body = json!({"sql": sql, "timeout_ms": timeout_ms}).to_string();
        let head = format!("POST {SQL} HTTP/1.1\r\nhost: test\r\ncontent-length: {}\r\n\r\n", body.len());
        let mut slow = server.connect();
        slow.send(format!("{head}{body}").as_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(timeout_ms + 1000));
        let reply = slow.reply(false).unwrap();
        let last: Value = serde_json::from_str(reply.text().lines().last().unwrap()).unwrap();
        // A problem before the first piece is the whole response.
        if last["error"].is_null() { last } else { last["error"].clone() }
    };
    let returning = format!("{insert} RETURNING *");
    let mut timeout_ms = 1500;
    let mut error = run_slowly(&returning, timeout_ms);
    // On a busy machine the statement itself takes longer than that.
    while error["type"] == "urn:pando:problem:time-limit" && timeout_ms < 20_000 {
        assert_eq!(count(&mut client, "t"), 0, "{error}");
        timeout_ms *= 2;
        error = run_slowly(&returning, timeout_ms);
    }
    assert_eq!((&error["type"], &error["status"]), (&json!("urn:pando:problem:committed"), &json!(422)));
    assert!(error["detail"].as_str().unwrap().contains("is committed"), "{error}");
    assert_eq!(count(&mut client, "t"), 2000);
    // Several statements are committed after the last row was sent.
    let error = run_slowly(&format!("{insert} RETURNING *; SELECT 1"), 1500);
    assert_eq!(error["type"], "urn:pando:problem:time-limit");
    assert!(error["detail"].as_str().unwrap().contains("nothing was changed"), "{error}");
    assert_eq!(count(&mut client, "t"), 2000);
}
