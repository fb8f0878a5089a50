//! Typed documents over HTTP, from outside.

use crate::http::{Client, Reply, Server};
use rows::{Column, ColumnType, Definition, DynamicTable, IndexDefinition, Part};
use serde_json::{Value, json};
use std::path::Path;

const DOCUMENTS: &str = "/v1/databases/default/documents";

/// A server with `people`, by town and name, and `visits`, by person and the newest first.
fn started(dir: &Path) -> (Server, Client) {
    let db = pando::Database::builder().create(dir.join("default")).unwrap();
    let column = Column::new;
    let people = Definition::new("people")
        .column(column("id", ColumnType::Int))
        .column(column("name", ColumnType::Text))
        .column(column("town", ColumnType::Text).nullable())
        .column(column("more", ColumnType::Json).nullable())
        .column(column("points", ColumnType::Float).default(0.5))
        .key(["id"])
        .index(IndexDefinition::new("by_town", ["town", "name"]))
        .index(IndexDefinition::new("by_name", ["name"]).unique());
    let visits = Definition::new("visits")
        .column(column("who", ColumnType::Text))
        .column(column("at", ColumnType::Timestamp))
        .column(column("raw", ColumnType::Bytes).nullable())
        .key([Part::new("who"), Part::new("at").descending()]);
    db.write(|tx| {
        DynamicTable::create(tx, &people)?;
        DynamicTable::create(tx, &visits).map(drop)
    })
    .unwrap();
    db.close().unwrap();
    let server = Server::start(dir);
    let client = server.connect();
    (server, client)
}

fn put(client: &mut Client, key: &str, document: &Value) -> Reply {
    client.ask("PUT", &format!("{DOCUMENTS}/{key}"), &[], document.to_string().as_bytes())
}

fn get(client: &mut Client, key: &str) -> (u16, Value) {
    let reply = client.ask("GET", &format!("{DOCUMENTS}/{key}"), &[], b"");
    (reply.status, serde_json::from_slice(&reply.body).unwrap())
}

fn lines(client: &mut Client, query: &str) -> Vec<Value> {
    let reply = client.ask("GET", &format!("{DOCUMENTS}/{query}"), &[], b"");
    assert_eq!(reply.status, 200, "{query}: {reply:?}");
    reply.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The members `name` of what a query answers.
fn names(client: &mut Client, query: &str) -> Vec<String> {
    let name = |line: &Value| line["name"].as_str().unwrap_or("cursor").to_owned();
    lines(client, query).iter().map(name).collect()
}

#[test]
fn documents_are_resources() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, mut client) = started(dir.path());
    let ann = json!({"name": "Ann", "town": "Ulm", "more": {"a": [1, null]}});
    let stored = put(&mut client, "people/1", &ann);
    assert_eq!(stored.status, 204, "{stored:?}");
    assert!(stored.header("pando-commit").is_some());
    let whole = json!({"id": 1, "name": "Ann", "town": "Ulm", "more": {"a": [1, null]}, "points": 0.5});
    assert_eq!(get(&mut client, "people/1"), (200, whole.clone()));
    assert_eq!(put(&mut client, "people/1", &whole).status, 204, "what was read can be stored");
    let tag = stored.header("etag").unwrap();
    let mut ask = |method, headers: &[(&str, &str)], body: &Value| {
        client.ask(method, &format!("{DOCUMENTS}/people/1"), headers, body.to_string().as_bytes()).status
    };
    assert_eq!(ask("GET", &[("if-none-match", tag)], &json!({})), 304);
    assert_eq!(ask("PUT", &[("if-none-match", "*")], &ann), 412);
    assert_eq!(ask("PUT", &[("if-match", tag)], &json!({"name": "Anna"})), 204);
    assert_eq!(ask("PUT", &[("if-match", tag)], &ann), 412);
    assert_eq!(ask("DELETE", &[("if-match", tag)], &ann), 412);
    assert_eq!(ask("GET", &[("if-match", tag), ("if-none-match", "\"x\"")], &json!({})), 412);
    let none = client.ask("GET", &format!("{DOCUMENTS}/people/9"), &[("if-match", "*")], b"");
    assert_eq!(none.status, 412, "nor is there any");
    assert_eq!(get(&mut client, "people/1").1["name"], "Anna");
    // Keys of several parts, of text that needs escapes, of times.
    let visit = json!({"raw": "00ff"});
    assert_eq!(put(&mut client, "visits/a%2Fb%20%C3%A4/2024-02-29T12:00:00Z", &visit).status, 204);
    let (status, found) = get(&mut client, "visits/a%2Fb%20%C3%A4/1709208000000000");
    let whole = json!({"who": "a/b ä", "at": "2024-02-29T12:00:00Z", "raw": "00ff"});
    assert_eq!((status, found), (200, whole));
    for (key, document, status) in [
        ("people/2", json!({"name": "Ann"}), 204),
        ("people/3", json!({"name": "Ann"}), 409),
        ("people/3", json!({}), 400),
        ("people/3", json!({"name": null}), 400),
        ("people/3", json!({"name": 3}), 400),
        ("people/3", json!({"name": "x", "age": 3}), 400),
        ("people/3", json!({"name": "x", "id": 4}), 400),
        ("people/3", json!(["x"]), 400),
        ("people/three", json!({"name": "x"}), 400),
        ("people/3/4", json!({"name": "x"}), 400),
        ("people/%ff", json!({"name": "x"}), 400),
        ("visits/a", json!({}), 400),
        ("none/3", json!({"name": "x"}), 404),
    ] {
        let reply = put(&mut client, key, &document);
        assert_eq!(reply.status, status, "{key} {document}: {reply:?}");
    }
    assert_eq!(get(&mut client, "people/3").0, 404);
    assert_eq!(client.ask("DELETE", &format!("{DOCUMENTS}/people/2"), &[], b"").status, 204);
    assert_eq!(client.ask("DELETE", &format!("{DOCUMENTS}/people/2"), &[], b"").status, 204);
    assert_eq!(get(&mut client, "people/2").0, 404);
    assert_eq!(names(&mut client, "people?index=by_name"), ["Anna"], "entries go with their document");
    let tables = client.ask("GET", DOCUMENTS, &[], b"");
    let tables: Value = serde_json::from_slice(&tables.body).unwrap();
    assert_eq!(tables["tables"][0]["name"], "people");
    assert_eq!(
        tables["tables"][0]["indexes"][1],
        json!({"name": "by_name", "parts": [{"column": "name"}],
        "unique": true, "building": false})
    );
    assert_eq!(tables["tables"][1]["key"], json!([{"column": "who"}, {"column": "at", "descending": true}]));
}

#[test]
fn ranges_follow_keys_and_indexes() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, mut client) = started(dir.path());
    let towns = ["Bonn", "Ulm"];
    let rows: String = (0..6000)
        .map(|n| json!({"id": n, "name": format!("n{n:04}"), "town": towns.get(n % 3)}).to_string() + "\n")
        .collect();
    assert_eq!(client.ask("POST", &format!("{DOCUMENTS}/none"), &[], b"").status, 404, "nothing for nobody");
    let reply = client.ask("POST", &format!("{DOCUMENTS}/people"), &[], rows.as_bytes());
    assert_eq!(reply.status, 200, "{reply:?}");
    assert!(reply.text().contains("\"records\":6000"));
    // More than a batch, in order.
    let all = lines(&mut client, "people");
    assert_eq!((all.len(), &all[5999]["id"]), (6000, &json!(5999)));
    assert_eq!(lines(&mut client, "people?reverse=true")[0]["id"], 5999);
    assert_eq!(names(&mut client, "people?start=10&end=13"), ["n0010", "n0011", "n0012"]);
    assert_eq!(names(&mut client, "people?prefix=7"), ["n0007"]);
    assert_eq!(names(&mut client, "people?index=by_town&prefix=Ulm&limit=2"), ["n0001", "n0004", "cursor"]);
    let between = "people?index=by_town&start=Ulm/n0004&end=Ulm/n0010";
    assert_eq!(names(&mut client, between), ["n0004", "n0007"]);
    assert_eq!(names(&mut client, "people?index=by_town&prefix=%5CN&limit=1")[0], "n0002", "null is \\N");
    assert_eq!(lines(&mut client, "people?index=by_town").len(), 6000);
    // Page by page, in both directions, to the end.
    for order in ["", "&reverse=true", "&index=by_town", "&index=by_town&reverse=true"] {
        let (mut paged, mut cursor) = (Vec::new(), String::new());
        loop {
            let mut page = lines(&mut client, &format!("people?limit=1700{order}{cursor}"));
            let next = page.last().and_then(|last| Some(last["cursor"].as_str()?.to_owned()));
            page.truncate(page.len() - usize::from(next.is_some()));
            paged.append(&mut page);
            let Some(next) = next else { break };
            cursor = format!("&cursor={next}");
        }
        assert_eq!(
            paged,
            lines(&mut client, &format!("people?{}", order.trim_start_matches('&'))),
            "{order}"
        );
    }
    let bad = "{\"id\": 1, \"name\": \"new\"}\n{\"id\": 9000, \"name\": \"n0005\"}\n";
    let reply = client.ask("POST", &format!("{DOCUMENTS}/people"), &[], bad.as_bytes());
    assert!(reply.status == 409 && reply.text().contains("line 2: "), "{reply:?}");
    assert_eq!(get(&mut client, "people/1").1["name"], "n0001", "all or none");
    for (query, status) in [
        ("people?index=none", 404),
        ("none", 404),
        ("people?start=x", 400),
        ("people?prefix=1&end=2", 400),
        ("people?prefix=1/2", 400),
        ("people?limit=x", 400),
        ("people?cursor=x", 400),
        ("people?reverse=maybe", 400),
        ("people?cursor=ffffffffffffffffffffffff", 200),
        ("people?cursor=", 200),
        ("people?index=by_town&cursor=00", 200),
        ("people?limit=0", 400),
        ("people?start=9&end=3", 200),
        ("people?%ff=1", 400),
    ] {
        assert_eq!(client.ask("GET", &format!("{DOCUMENTS}/{query}"), &[], b"").status, status, "{query}");
    }
}

/// One that fills a batch by itself, and the last of its page.
#[test]
fn long_documents_come_in_pages_too() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, mut client) = started(dir.path());
    for id in 1..=3 {
        put(
            &mut client,
            &format!("people/{id}"),
            &json!({"name": id.to_string(), "more": "x".repeat(200_000)}),
        );
    }
    for order in ["", "&reverse=true"] {
        let (mut ids, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = client.ask("GET", &format!("{DOCUMENTS}/people?limit=1{order}{cursor}"), &[], b"");
            let page: Vec<Value> =
                page.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            ids.extend(page.iter().filter_map(|line| line["id"].as_i64()));
            match page.iter().find_map(|line| line["cursor"].as_str()) {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        if !order.is_empty() {
            ids.reverse();
        }
        assert_eq!(ids, [1, 2, 3], "{order}");
    }
}

#[test]
fn documents_are_part_of_transactions() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, mut client) = started(dir.path());
    put(&mut client, "people/1", &json!({"name": "Ann"}));
    let begin = client.ask("POST", "/v1/databases/default/transactions", &[], b"");
    let begin: Value = serde_json::from_slice(&begin.body).unwrap();
    let token = begin["transaction"].as_str().unwrap().to_owned();
    let mut within = |method: &str, path: &str, body: &Value| {
        let (target, mine) = (format!("{DOCUMENTS}/{path}"), [("pando-transaction", &token[..])]);
        client.ask(method, &target, &mine, body.to_string().as_bytes())
    };
    assert_eq!(within("PUT", "people/2", &json!({"name": "Bob"})).status, 204);
    assert_eq!(within("PUT", "people/3", &json!({"name": "Ann"})).status, 409, "and the transaction goes on");
    assert_eq!(within("DELETE", "people/1", &json!({})).status, 204);
    assert_eq!(
        within("POST", "people", &json!({"id": 9, "name": "Zoe"})).status,
        400,
        "an import is one itself"
    );
    assert_eq!(within("GET", "people/2", &json!({})).status, 200);
    let seen = within("GET", "people?index=by_name", &json!({}));
    assert!(seen.text().lines().count() == 1 && seen.text().contains("Bob"), "{seen:?}");
    assert_eq!(names(&mut client, "people"), ["Ann"], "nobody else sees it");
    // Somebody else changes what was read: a conflict, of which nothing is left.
    put(&mut client, "people/2", &json!({"name": "Eve"}));
    let commit = client.ask("POST", &format!("/v1/databases/default/transactions/{token}/commit"), &[], b"");
    assert_eq!(commit.status, 409, "{commit:?}");
    assert_eq!(names(&mut client, "people"), ["Ann", "Eve"]);
}
