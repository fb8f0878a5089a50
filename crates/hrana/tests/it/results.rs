//! Results, arguments, stored texts, bounds.

use crate::support::{Client, sql};
use pando_hrana::{Cursor, Lines, Stop};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

#[test]
fn results_have_columns_types_rows_and_counts() {
    let mut client = Client::of(&sql());
    client.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, name VARCHAR(20) UNIQUE, data BLOB)").unwrap();
    let args = json!([{"type": "text", "value": "ä\"\\\u{1}"}, {"type": "blob", "base64": "AP8"}]);
    let insert =
        json!({"type": "execute", "stmt": {"sql": "INSERT INTO t(name, data) VALUES (?, ?)", "args": args}});
    let result = client.ask(insert.clone()).unwrap()["result"].clone();
    assert_eq!(result, json!({"cols": [], "rows": [], "affected_row_count": 1, "last_insert_rowid": "1"}));
    assert_eq!(client.ask(insert), Err("SQLITE_CONSTRAINT_UNIQUE".into()));
    let result = client.execute("SELECT id, name, data, id * 1.5 AS x, NULL FROM t;").unwrap();
    assert_eq!(
        result["cols"],
        json!([{"name": "id", "decltype": "INTEGER"}, {"name": "name", "decltype": "VARCHAR(20)"},
            {"name": "data", "decltype": "BLOB"}, {"name": "x", "decltype": null},
            {"name": "NULL", "decltype": null}])
    );
    assert_eq!(
        result["rows"],
        json!([[{"type": "integer", "value": "1"}, {"type": "text", "value": "ä\"\\\u{1}"},
            {"type": "blob", "base64": "AP8"}, {"type": "float", "value": 1.5}, {"type": "null"}]])
    );
    // Rows of RETURNING, which are not wanted the second time.
    let update = "UPDATE t SET id = id + 1 RETURNING id";
    let returning = |wanted: Value| json!({"type": "execute", "stmt": {"sql": update, "want_rows": wanted}});
    let result = client.ask(returning(Value::Null)).unwrap()["result"].clone();
    assert_eq!(result["rows"], json!([[{"type": "integer", "value": "2"}]]));
    assert_eq!(
        (&result["affected_row_count"], &result["cols"][0]["decltype"]),
        (&json!(1), &json!("INTEGER"))
    );
    let result = client.ask(returning(json!(false))).unwrap()["result"].clone();
    assert_eq!((&result["rows"], &result["affected_row_count"]), (&json!([]), &json!(1)));
    assert_eq!(client.rows("SELECT id FROM t"), [["3"]]);
    assert_eq!(client.execute("SELECT 1; SELECT 2"), Err("SQL_MANY_STATEMENTS".into()));
    assert_eq!(client.execute(" ; -- nothing"), Err("SQL_NO_STATEMENT".into()));
    assert_eq!(client.execute("SELEC"), Err("SQLITE_ERROR".into()));
    assert_eq!(client.execute("ATTACH 'x' AS x"), Err("SQLITE_AUTH".into()));
}

#[test]
fn arguments_are_bound_by_place_and_by_name() {
    let mut client = Client::of(&sql());
    let int = |number: i64| json!({"type": "integer", "value": number.to_string()});
    let mut run = |sql: &str, args: &[i64], named: &[(&str, i64)]| {
        let args: Vec<Value> = args.iter().map(|number| int(*number)).collect();
        let named: Vec<Value> =
            named.iter().map(|(name, number)| json!({"name": name, "value": int(*number)})).collect();
        let stmt = json!({"sql": sql, "args": args, "named_args": named});
        let response = client.ask(json!({"type": "execute", "stmt": stmt}))?;
        let row = response["result"]["rows"][0].as_array().unwrap().clone();
        Ok::<Vec<String>, String>(
            row.iter().map(|value| value["value"].as_str().unwrap().to_owned()).collect(),
        )
    };
    assert_eq!(run("SELECT ?, ?", &[1, 2], &[]).unwrap(), ["1", "2"]);
    assert_eq!(run("SELECT ?2, ?1", &[1, 2], &[]).unwrap(), ["2", "1"]);
    assert_eq!(
        run("SELECT :a, @b, $c, :a", &[], &[("a", 1), ("@b", 2), ("c", 3)]).unwrap(),
        ["1", "2", "3", "1"]
    );
    assert_eq!(run("SELECT :a, $a", &[], &[("a", 7)]).unwrap(), ["7", "7"]);
    assert_eq!(run("SELECT ?, :b", &[1, 2], &[("b", 9)]).unwrap(), ["1", "9"], "names take precedence");
    for wrong in [
        run("SELECT ?, ?", &[1], &[]),
        run("SELECT ?", &[1, 2], &[]),
        run("SELECT 1", &[1], &[]),
        run("SELECT :a", &[], &[("b", 1)]),
        run("SELECT :a", &[], &[("a", 1), ("b", 1)]),
        run("SELECT :a", &[], &[]),
    ] {
        assert_eq!(wrong, Err("ARGS_INVALID".into()));
    }
}

#[test]
fn texts_are_stored_and_statements_described() {
    let mut client = Client::of(&sql());
    client.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT)").unwrap();
    let results = client.pipeline(json!([
        {"type": "store_sql", "sql_id": 1, "sql": "SELECT count(*) AS n FROM t WHERE id > :id"},
        {"type": "execute", "stmt": {"sql_id": 1, "named_args":
            [{"name": "id", "value": {"type": "integer", "value": "0"}}]}},
        {"type": "describe", "sql_id": 1},
        {"type": "describe", "sql": "INSERT INTO t(name) VALUES (?) RETURNING name"},
        {"type": "describe", "sql": "EXPLAIN SELECT 1"},
        {"type": "sequence", "sql": "INSERT INTO t VALUES (1, 'a'); SELECT 1; INSERT INTO t VALUES (2, '');"},
        {"type": "sequence", "sql": "INSERT INTO t VALUES (3, ''), (3, ''); DELETE FROM t"},
        {"type": "close_sql", "sql_id": 1},
        {"type": "execute", "stmt": {"sql_id": 1}},
        {"type": "get_autocommit"},
        {"type": "close"},
        {"type": "get_autocommit"},
    ]));
    let code = |place: usize| results[place]["error"]["code"].as_str().unwrap_or("none");
    let response = |place: usize| &results[place]["response"];
    assert_eq!(response(1)["result"]["rows"][0][0]["value"], "0");
    let described = json!({"params": [{"name": ":id"}], "cols": [{"name": "n", "decltype": null}],
        "is_explain": false, "is_readonly": true});
    assert_eq!(response(2)["result"], described);
    let described = json!({"params": [{"name": null}], "cols": [{"name": "name", "decltype": "TEXT"}],
        "is_explain": false, "is_readonly": false});
    assert_eq!(response(3)["result"], described);
    assert_eq!(response(4)["result"]["is_explain"], true);
    assert_eq!((code(5), code(6)), ("none", "SQLITE_CONSTRAINT_PRIMARYKEY"));
    assert_eq!((code(8), code(11)), ("SQL_STORE_NOT_FOUND", "STREAM_CLOSED"));
    assert_eq!(response(9)["is_autocommit"], true);
    assert!(client.stream.is_closed());
}

#[test]
fn cursors_send_what_batches_send() {
    let mut client = Client::of(&sql());
    let steps = json!([
        {"stmt": {"sql": "SELECT 1 AS a UNION ALL SELECT 2"}},
        {"stmt": {"sql": "SELECT 'skipped'"}, "condition": {"type": "error", "step": 0}},
        {"stmt": {"sql": "SELEC"}},
        {"stmt": {"sql": "SELECT 1 UNION ALL SELECT abs(-9223372036854775808)"}},
        {"stmt": {"sql": "SELECT 3"}, "condition": {"type": "error", "step": 3}},
    ]);
    let lines = client.cursor(steps.clone());
    let kinds: Vec<(&str, i64)> = lines
        .iter()
        .map(|line| (line["type"].as_str().unwrap(), line["step"].as_i64().unwrap_or(-1)))
        .collect();
    assert_eq!(
        kinds,
        [
            ("step_begin", 0),
            ("row", -1),
            ("row", -1),
            ("step_end", -1),
            ("step_error", 2),
            ("step_begin", 3),
            ("row", -1),
            ("step_error", 3),
            ("step_begin", 4),
            ("row", -1),
            ("step_end", -1)
        ]
    );
    let result = client.ask(json!({"type": "batch", "batch": {"steps": steps}})).unwrap()["result"].clone();
    let is_null =
        |name: &str| -> Vec<bool> { result[name].as_array().unwrap().iter().map(Value::is_null).collect() };
    assert_eq!(is_null("step_results"), [false, true, true, true, false]);
    assert_eq!(is_null("step_errors"), [true, true, false, false, true]);
    // A wrong condition fails the batch as a whole.
    let steps = json!([{"stmt": {"sql": "SELECT 1"}, "condition": {"type": "ok", "step": 0}}]);
    assert_eq!(client.cursor(steps.clone())[0]["error"]["code"], "BATCH_COND_BAD_STEP");
    let batch = json!({"type": "batch", "batch": {"steps": steps}});
    assert_eq!(client.ask(batch), Err("BATCH_COND_BAD_STEP".into()));
    let numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)";
    let lines =
        client.cursor(json!([{"stmt": {"sql": format!("{numbers} SELECT i, hex(zeroblob(20)) FROM n")}}]));
    assert_eq!((lines.len(), &lines[20_000]["row"][0]["value"]), (20_002, &json!("20000")));
}

#[test]
fn replies_are_bounded_but_rows_of_writes_are_sent() {
    let mut client = Client::of(&sql());
    client.most_bytes = 100_000;
    let numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)";
    client.execute("CREATE TABLE t(id INTEGER PRIMARY KEY)").unwrap();
    assert_eq!(client.execute(&format!("{numbers} SELECT i FROM n")), Err("RESPONSE_TOO_LARGE".into()));
    assert_eq!(client.execute("SELECT hex(zeroblob(1000000))"), Err("RESPONSE_TOO_LARGE".into()));
    // A statement that writes has its effect, and so the rows are sent; a second one does not begin.
    let insert = format!("{numbers} INSERT INTO t SELECT i + (SELECT count(*) FROM t) FROM n RETURNING id");
    let steps = json!([{"stmt": {"sql": insert}}, {"stmt": {"sql": insert}}, {"stmt": {"sql": "SELECT 1"}},
        {"stmt": {"sql": "DELETE FROM t WHERE id = 1"}}]);
    let result = client.ask(json!({"type": "batch", "batch": {"steps": steps}})).unwrap()["result"].clone();
    assert_eq!(result["step_results"][0]["rows"].as_array().unwrap().len(), 5000);
    for step in [1, 2] {
        assert_eq!(result["step_errors"][step]["code"], "RESPONSE_TOO_LARGE", "{step}");
    }
    assert_eq!(result["step_results"][3]["affected_row_count"], 1);
    client.most_bytes = 1 << 20;
    assert_eq!(client.rows("SELECT count(*) FROM t"), [["4999"]]);
    // Nor do names of columns and messages add up, which repeat what was sent once.
    let long = "x".repeat(100_000);
    let store = |number: i32, sql: String| json!({"type": "store_sql", "sql_id": number, "sql": sql});
    let mut requests = vec![store(1, format!("SELECT 1 AS {long}")), store(2, format!("SELECT '{long}"))];
    for number in [1, 2] {
        requests.extend(vec![json!({"type": "execute", "stmt": {"sql_id": number}}); 300]);
        requests.extend(vec![json!({"type": "describe", "sql_id": number}); 300]);
    }
    let results = client.pipeline(json!(requests));
    assert!(json!(results).to_string().len() < 3 << 20);
    assert_eq!(results[301]["error"]["code"], "RESPONSE_TOO_LARGE");
}

#[test]
fn statements_end_at_the_time_limit_and_when_their_client_leaves() {
    let mut client = Client::of(&sql());
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
    let requests = json!([{"type": "execute", "stmt": {"sql": endless}},
        {"type": "sequence", "sql": "SELECT 1"},
        {"type": "get_autocommit"}]);
    let begun = Instant::now();
    let results = client.pipeline_until(requests.clone(), &Stop::after(Duration::from_millis(100)));
    assert_eq!(results[0]["error"]["code"], "SQLITE_INTERRUPT");
    assert!(results[0]["error"]["message"].as_str().unwrap().contains("100 ms"), "{results:?}");
    assert_eq!(
        (&results[1]["error"]["code"], &results[2]["type"]),
        (&json!("SQLITE_INTERRUPT"), &json!("ok"))
    );
    let stop = Stop::after(Duration::from_secs(60));
    let leaver = stop.clone();
    let leaving = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        leaver.cancel();
    });
    assert_eq!(client.pipeline_until(requests, &stop)[0]["error"]["code"], "SQLITE_INTERRUPT");
    leaving.join().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(30));
    assert_eq!(client.rows("SELECT 1"), [["1"]], "the next request has its own time");
}

/// What a cursor replies whose client takes `pieces` pieces, and no further one.
fn taken(client: &mut Client, steps: &Value, pieces: usize) -> String {
    let body = json!({ "batch": { "steps": steps } }).to_string();
    let cursor = Cursor::read(body.as_bytes()).unwrap();
    let sent = Arc::new(Mutex::new((Vec::new(), pieces)));
    let taking = Arc::clone(&sent);
    let mut lines = Lines::new(None, move |piece| {
        let (all, left) = &mut *taking.lock().unwrap();
        if *left == 0 {
            return Err(piece);
        }
        *left -= 1;
        all.extend(piece);
        Ok(())
    });
    client.stream.run_cursor(&cursor.batch, true, &Stop::after(Duration::from_secs(60)), &mut lines);
    let last = lines.finish();
    let (mut all, _) = std::mem::take(&mut *sent.lock().unwrap());
    all.extend(last);
    String::from_utf8(all).unwrap()
}

const NUMBERS: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)";

#[test]
fn a_cursor_that_is_cut_ends_with_whole_lines() {
    let mut client = Client::of(&sql());
    let steps =
        json!([{"stmt": {"sql": format!("{NUMBERS} SELECT i, hex(zeroblob(500)) FROM n LIMIT 500")}}]);
    for pieces in 0..4 {
        let text = taken(&mut client, &steps, pieces);
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let (last, rows) = lines.split_last().unwrap();
        assert_eq!(
            (&last["type"], &last["error"]["code"]),
            (&json!("step_error"), &json!("SQLITE_INTERRUPT"))
        );
        // No row is missing before the last one that was sent.
        for (place, row) in rows[2..].iter().enumerate() {
            assert_eq!(row["row"][0]["value"], (place + 1).to_string());
        }
        assert!(rows.len() > 64 * pieces, "{} rows of {pieces} pieces", rows.len());
    }
    // A row that is longer than several pieces has been sent in part. The error is a line of its own.
    let steps = json!([{"stmt": {"sql": "SELECT 1, hex(zeroblob(500000))"}}]);
    for pieces in 0..4 {
        let text = taken(&mut client, &steps, pieces);
        let bad = text.lines().filter(|line| serde_json::from_str::<Value>(line).is_err()).count();
        assert!(bad <= 1, "{pieces}: {bad}");
        let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        assert_eq!(last["type"], "step_error", "{pieces}");
    }
}

#[test]
fn a_write_whose_rows_are_not_taken_has_succeeded_for_conditions() {
    let sql = sql();
    let mut client = Client::of(&sql);
    client.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, b)").unwrap();
    let insert = format!("INSERT INTO t(b) {NUMBERS} SELECT hex(zeroblob(500)) FROM n LIMIT 500 RETURNING *");
    let note = |what: &str, condition: &str| {
        json!({"stmt": {"sql": format!("INSERT INTO t(b) VALUES ('{what}')")},
            "condition": {"type": condition, "step": 0}})
    };
    let steps = json!([{"stmt": {"sql": insert}}, note("succeeded", "ok"), note("failed", "error")]);
    let text = taken(&mut client, &steps, 1);
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let error = lines.iter().find(|line| line["type"] == "step_error").unwrap();
    assert_eq!((&error["step"], &error["error"]["code"]), (&json!(0), &json!("ROWS_MISSING")));
    assert_eq!(client.rows("SELECT b FROM t WHERE a > 500"), [["succeeded"]]);
    assert_eq!(client.rows("SELECT count(*) FROM t"), [["501"]]);
}
