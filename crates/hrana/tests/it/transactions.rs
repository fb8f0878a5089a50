//! Transactions of streams, and clients that may only read.

use crate::support::{Client, sql};
use serde_json::json;

#[test]
fn a_batch_is_a_transaction_as_libsql_writes_it() {
    let mut client = Client::of(&sql());
    client.execute("CREATE TABLE t(id INTEGER PRIMARY KEY)").unwrap();
    let ok = |step: u32| json!({"type": "ok", "step": step});
    let in_transaction = json!({"type": "not", "cond": {"type": "is_autocommit"}});
    let mut run = |second: &str| {
        let both = |step| json!({"type": "and", "conds": [ok(step), in_transaction]});
        let steps = json!([
            {"stmt": {"sql": "BEGIN IMMEDIATE"}},
            {"stmt": {"sql": "INSERT INTO t VALUES (1)"}, "condition": both(0)},
            {"stmt": {"sql": second}, "condition": both(1)},
            {"stmt": {"sql": "COMMIT"}, "condition": both(2)},
            {"stmt": {"sql": "ROLLBACK"}, "condition": {"type": "not", "cond": ok(3)}},
        ]);
        let result =
            client.ask(json!({"type": "batch", "batch": {"steps": steps}})).unwrap()["result"].clone();
        assert!(client.stream.is_autocommit());
        let done =
            result["step_results"].as_array().unwrap().iter().filter(|result| !result.is_null()).count();
        (done, client.rows("SELECT count(*) FROM t")[0][0].clone())
    };
    assert_eq!(run("INSERT INTO t VALUES (1)"), (3, "0".into()), "begin, insert, rollback");
    assert_eq!(run("INSERT INTO t VALUES (2)"), (4, "2".into()));
}

#[test]
fn of_two_transactions_that_conflict_the_second_fails() {
    let sql = sql();
    let (mut one, mut other) = (Client::of(&sql), Client::of(&sql));
    one.execute("CREATE TABLE stock(id INTEGER PRIMARY KEY, n INT)").unwrap();
    one.execute("INSERT INTO stock VALUES (7, 10)").unwrap();
    for client in [&mut one, &mut other] {
        client.execute("BEGIN IMMEDIATE").unwrap();
        client.execute("UPDATE stock SET n = n - 1 WHERE id = 7").unwrap();
        assert!(!client.stream.is_autocommit());
    }
    one.execute("COMMIT").unwrap();
    let results = other.pipeline(json!([{"type": "execute", "stmt": {"sql": "COMMIT"}}]));
    let error = &results[0]["error"];
    assert_eq!(error["code"], "SQLITE_BUSY");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("stock") && message.contains('7'), "{message}");
    assert!(other.stream.is_autocommit(), "the transaction is over");
    assert_eq!(other.rows("SELECT n FROM stock"), [["9"]]);
}

#[test]
fn a_stream_that_is_dropped_leaves_nothing() {
    let sql = sql();
    let mut client = Client::of(&sql);
    client.execute("CREATE TABLE t(a)").unwrap();
    let mut leaving = Client::of(&sql);
    leaving.execute("BEGIN").unwrap();
    leaving.execute("INSERT INTO t VALUES (1)").unwrap();
    drop(leaving);
    assert_eq!(client.rows("SELECT count(*) FROM t"), [["0"]]);
    assert_eq!(sql.database().native().unwrap().readers().unwrap().len(), 0);
}

#[test]
fn a_transaction_that_was_begun_readonly_writes_nothing() {
    let sql = sql();
    let mut client = Client::of(&sql);
    client.execute("CREATE TABLE t(a)").unwrap();
    client.execute("begin transaction readonly").unwrap();
    assert_eq!(client.rows("SELECT count(*) FROM t"), [["0"]]);
    for write in ["INSERT INTO t VALUES (1)", "DROP TABLE t", "CREATE TABLE u(a)", "CREATE TEMP TABLE u(a)"] {
        assert_eq!(client.execute(write), Err("SQLITE_READONLY".into()), "{write}");
    }
    // It reads one snapshot, whatever others do.
    Client::of(&sql).execute("INSERT INTO t VALUES (2)").unwrap();
    assert_eq!(client.rows("SELECT count(*) FROM t"), [["0"]]);
    client.execute("COMMIT").unwrap();
    client.execute("INSERT INTO t VALUES (1)").unwrap();
    assert_eq!(client.rows("SELECT count(*) FROM t"), [["2"]]);
    // The same in a sequence, after which the connection writes again.
    let mut sequence = |sql: &str| client.ask(json!({"type": "sequence", "sql": sql})).map(drop);
    sequence("BEGIN TRANSACTION READONLY; SELECT * FROM t").unwrap();
    assert_eq!(sequence("DELETE FROM t"), Err("SQLITE_READONLY".into()));
    sequence("COMMIT").unwrap();
    sequence("DELETE FROM t").unwrap();
}

#[test]
fn a_client_that_may_not_write_does_not() {
    let sql = sql();
    let mut writer = Client::of(&sql);
    writer.execute("CREATE TABLE t(a)").unwrap();
    let mut reader = Client { may_write: false, ..Client::of(&sql) };
    for write in [
        "INSERT INTO t VALUES (1)",
        "INSERT INTO t VALUES (1) RETURNING a",
        "CREATE TABLE u(a)",
        "DROP TABLE t",
        "CREATE TEMP TABLE u(a)",
        "WITH x(a) AS (SELECT 1) DELETE FROM t",
        "UPDATE t SET a = 1",
    ] {
        assert_eq!(reader.execute(write), Err("SQLITE_READONLY".into()), "{write}");
        let sequence = json!({"type": "sequence", "sql": format!("SELECT 1; {write}")});
        assert_eq!(reader.ask(sequence), Err("SQLITE_READONLY".into()), "{write}");
        let steps =
            json!([{"stmt": {"sql": "BEGIN"}}, {"stmt": {"sql": write}}, {"stmt": {"sql": "COMMIT"}}]);
        let result = reader.ask(json!({"type": "batch", "batch": {"steps": steps}})).unwrap();
        assert_eq!(result["result"]["step_errors"][1]["code"], "SQLITE_READONLY", "{write}");
        assert_eq!(reader.cursor(json!([{"stmt": {"sql": write}}]))[0]["error"]["code"], "SQLITE_READONLY");
    }
    assert_eq!(reader.rows("SELECT count(*) FROM t"), [["0"]]);
    // A token may have been replaced by a wider one between two requests.
    reader.may_write = true;
    reader.execute("INSERT INTO t VALUES (1)").unwrap();
}
