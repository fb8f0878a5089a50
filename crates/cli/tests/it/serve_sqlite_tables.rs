//! Documents, imports and SQL of a server in tables that SQLite's library made: SQLite reads what they wrote.

use crate::common::{failure, pando, pando_with, text};
use crate::http::Server;
use pando_sqlite::{Connection, Value};

const DOCUMENTS: &str = "/v1/databases/default/documents";

fn shown(connection: &Connection, query: &str) -> Vec<String> {
    let text = |value: &Value| match value {
        Value::Null => "NULL".to_owned(),
        Value::Integer(number) => number.to_string(),
        Value::Real(number) => format!("{number:?}"),
        Value::Text(text) => text.clone(),
        Value::Blob(bytes) => format!("{bytes:02x?}"),
    };
    let rows = connection.query(query).unwrap();
    rows.iter().map(|row| row.iter().map(text).collect::<Vec<_>>().join("|")).collect()
}

#[test]
fn a_server_writes_to_tables_that_sqlite_made() {
    let dir = tempfile::tempdir().unwrap();
    let served = dir.path().join("served");
    let path = served.join("default");
    std::fs::create_dir_all(&served).unwrap();
    let db = pando::Database::create(&path).unwrap();
    let made = Connection::open(&db).unwrap();
    made.execute(
        "CREATE TABLE fruit(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE COLLATE NOCASE,
             price REAL DEFAULT 1.5, bought DATE DEFAULT CURRENT_DATE);
         CREATE INDEX by_price ON fruit(price DESC); INSERT INTO fruit VALUES (1, 'apple', 2, 20240229);
         CREATE TABLE town(name TEXT PRIMARY KEY, people INT) WITHOUT ROWID;
         CREATE TABLE logged(id INTEGER PRIMARY KEY);
         CREATE TRIGGER log AFTER INSERT ON logged BEGIN SELECT 1; END",
    )
    .unwrap();
    drop(made);
    db.close().unwrap();
    drop(db);

    let server = Server::start(&served);
    let ask = |method: &str, target: &str, body: &str| {
        let json = [("content-type", "application/json")];
        let reply = server.ask_with(method, &format!("{DOCUMENTS}{target}"), &json, body.as_bytes());
        (reply.status, reply.text().to_owned())
    };
    let (status, listed) = ask("GET", "", "");
    assert_eq!(status, 200);
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let listed = listed["tables"].as_array().unwrap();
    let read_only: Vec<_> = listed.iter().map(|table| (&table["name"], &table["why_read_only"])).collect();
    assert_eq!(read_only.len(), 3);
    assert!(read_only[0].0 == "fruit" && read_only[0].1.is_null() && listed[0]["read_only"] == false);
    assert!(read_only[1].0 == "logged" && read_only[1].1 == "it has the trigger \"log\"");

    let mut wrong = Vec::new();
    for (method, target, body, wanted, words) in [
        ("PUT", "/fruit/7", r#"{"name": "lemon", "price": 3, "bought": "2024"}"#, 204, ""),
        ("PUT", "/fruit/7", r#"{"name": "Lemon", "price": 3.25, "bought": null}"#, 204, ""),
        ("PUT", "/fruit/8", r#"{"name": "LEMON", "bought": null}"#, 409, "sqlite_autoindex_fruit_1"),
        ("PUT", "/fruit/8", r#"{"name": "fig"}"#, 400, "bought\\\": it is missing"),
        ("PUT", "/fruit/8", r#"{"price": 1, "bought": null}"#, 400, "name\\\": it is missing"),
        ("PATCH", "/fruit/1", r#"{"price": null}"#, 204, ""),
        ("DELETE", "/fruit/9", "", 204, ""),
        ("PUT", "/town/Bonn", r#"{"people": 300000}"#, 204, ""),
        ("PUT", "/town/Ulm", r#"{"people": 120000}"#, 204, ""),
        ("DELETE", "/town/Bonn", "", 204, ""),
        ("PUT", "/logged/1", "{}", 400, "it has the trigger"),
        (
            "POST",
            "/fruit?format=ndjson",
            "{\"name\":\"pear\",\"bought\":1}\n{\"name\":\"kiwi\",\"bought\":2.0}\n",
            200,
            "",
        ),
        (
            "POST",
            "/fruit?format=ndjson",
            "{\"name\":\"plum\",\"bought\":1}\n{\"name\":\"PEAR\",\"bought\":1}\n",
            409,
            "PEAR",
        ),
    ] {
        let (status, said) = ask(method, target, body);
        if status != wanted || !said.contains(words) {
            wrong.push(format!("{method} {target} {body}: {status} {said}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    // The tag of what was written is that of what is read: the text has become a number.
    let json = [("content-type", "application/json")];
    let body = br#"{"name": "Lemon", "price": 3.25, "bought": "2024"}"#;
    let put = server.ask_with("PUT", &format!("{DOCUMENTS}/fruit/7"), &json, body);
    let got = server.ask("GET", &format!("{DOCUMENTS}/fruit/7"), b"");
    assert!(got.text().contains("\"bought\":2024"), "{got:?}");
    assert!(put.header("etag").is_some() && put.header("etag") == got.header("etag"), "{put:?} {got:?}");
    let sql = server.ask(
        "POST",
        "/v1/databases/default/sql",
        br#"{"sql": "UPDATE fruit SET price = price + 1 WHERE name = 'kiwi'"}"#,
    );
    assert_eq!(sql.status, 200, "{}", sql.text());
    // SQLite rounds the first one in another way than Rust does, and SQL is SQLite's own here.
    for price in ["3500000000000000.2500001", "1e1"] {
        let sql = format!(r#"{{"sql": "UPDATE fruit SET price = '{price}' WHERE name = 'pear'"}}"#);
        let reply = server.ask("POST", "/v1/databases/default/sql", sql.as_bytes());
        assert_eq!(reply.status, 200, "{price}: {}", reply.text());
    }
    assert!(server.terminate().success());

    let path = path.to_str().unwrap();
    let csv = b"id,name,price,bought\n20,plum,,5\n";
    text(pando_with(["import", path, "fruit", "-", "--typed", "--format", "csv"], csv));
    let said =
        failure(pando_with(["import", path, "logged", "-", "--typed", "--format", "csv"], b"id\n1\n"), 1);
    assert!(said.contains("it has the trigger"), "{said}");
    text(pando(["check", path]));

    let db = pando::Database::open(path).unwrap();
    let read = Connection::open(&db).unwrap();
    assert_eq!(shown(&read, "PRAGMA integrity_check"), ["ok"]);
    let wanted =
        ["1|apple|NULL|20240229", "7|Lemon|3.25|2024", "8|pear|10.0|1", "9|kiwi|2.5|2", "20|plum|NULL|5"];
    assert_eq!(shown(&read, "SELECT * FROM fruit ORDER BY id"), wanted);
    assert_eq!(shown(&read, "SELECT id FROM fruit WHERE price > 2 ORDER BY price DESC"), ["8", "7", "9"]);
    assert_eq!(shown(&read, "SELECT * FROM town"), ["Ulm|120000"]);
    assert_eq!(shown(&read, "SELECT count(*) FROM logged"), ["0"]);
}
