//! What the dashboard is made of: its files, and the parts of the interface that it needs. `scripts/dashboard` uses it
//! in a browser.

use crate::http::Server;
use serde_json::{Value, json};
use std::process::Command;

#[test]
fn the_files_are_served_with_a_policy_and_tags() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let page = server.ask("GET", "/", b"");
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    let text = page.text();
    let mut files: Vec<&str> = text.split('"').filter(|part| part.starts_with("dashboard/")).collect();
    assert!(files.len() >= 3, "{text}");
    files.extend(["dashboard/api.js", "dashboard/sql.js"]);
    for file in files {
        let target = format!("/{file}");
        let reply = server.ask("GET", &target, b"");
        assert_eq!(reply.status, 200, "{file}");
        let policy = reply.header("content-security-policy").unwrap();
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self'") && !policy.contains("unsafe"),
            "{policy}"
        );
        assert_eq!(reply.header("cache-control"), Some("no-cache"));
        let tag = reply.header("etag").unwrap();
        let again = server.ask_with("GET", &target, &[("if-none-match", tag)], b"");
        assert_eq!((again.status, again.body.len(), again.header("etag")), (304, 0, Some(tag)), "{file}");
    }
    for missing in ["/dashboard/none.js", "/dashboard/..", "/dashboard/a/b"] {
        assert_eq!(server.ask("GET", missing, b"").status, 404, "{missing}");
    }
}

#[test]
fn the_list_of_databases_says_what_the_token_may_do() {
    let dir = tempfile::tempdir().unwrap();
    let scopes = |server: &Server, token: Option<&str>| {
        let bearer = token.map(|token| format!("Bearer {token}"));
        let headers: Vec<(&str, &str)> = bearer.iter().map(|bearer| ("authorization", &bearer[..])).collect();
        let list: Value =
            serde_json::from_slice(&server.ask_with("GET", "/v1/databases", &headers, b"").body).unwrap();
        let of = |one: &Value| (one["name"].as_str().unwrap().to_owned(), one["scope"].clone());
        (list["scope"].clone(), list["databases"].as_array().unwrap().iter().map(of).collect::<Vec<_>>())
    };
    let default = |scope: &str| vec![("default".to_owned(), json!(scope))];
    {
        let server = Server::start(dir.path());
        assert_eq!(scopes(&server, None), (json!("admin"), default("admin")));
    }
    let token = |name: &str, scope: &str, rest: &[&str]| {
        let mut pando = Command::new(env!("CARGO_BIN_EXE_pando"));
        pando.args(["token", "create"]).arg(dir.path()).args(["--name", name, "--scope", scope]).args(rest);
        String::from_utf8(pando.output().unwrap().stdout).unwrap().trim().to_owned()
    };
    let (all, one) = (token("all", "write", &[]), token("one", "read", &["--database", "default"]));
    let none = token("none", "admin", &["--database", "other"]);
    let server = Server::start(dir.path());
    assert_eq!(scopes(&server, Some(&all)), (json!("write"), default("write")));
    assert_eq!(scopes(&server, Some(&one)), (Value::Null, default("read")));
    assert_eq!(scopes(&server, Some(&none)), (Value::Null, Vec::new()));
}

#[cfg(feature = "sql")]
#[test]
fn documents_are_listed_with_their_keys_and_long_values_cut() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let fill =
        "CREATE TABLE t(town TEXT, id INTEGER, note TEXT, raw BLOB, PRIMARY KEY(town, id)) WITHOUT ROWID;
                CREATE INDEX by_note ON t(note);
                INSERT INTO t VALUES ('a/b', 1, 'äöü', x'00112233'), ('c', 2, 'äöü', NULL),
                    ('d', 3, 'x', x'ff')";
    let asked = json!({ "sql": fill }).to_string();
    assert_eq!(server.ask("POST", "/v1/databases/default/sql", asked.as_bytes()).status, 200);
    let path = "/v1/databases/default/documents/t";
    let page = |query: &str| -> Vec<Value> {
        let reply = server.ask("GET", &format!("{path}?{query}"), b"");
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    // Three bytes end within a character, which is left out.
    let first = &page("value_bytes=3")[0];
    let document = json!({ "town": "a/b", "id": 1, "note": "ä", "raw": "001122" });
    assert_eq!((&first["document"], &first["cut"]), (&document, &json!({ "note": 6, "raw": 4 })));
    assert_eq!(first["key"], "a%2Fb/1");
    let found = server.ask("GET", &format!("{path}/{}", first["key"].as_str().unwrap()), b"");
    assert_eq!((found.status, found.text().contains("äöü")), (200, true));
    assert!(page("value_bytes=100").iter().all(|one| one.get("cut").is_none()));
    // The cursor of any document continues in either direction, also among equal values of an index.
    let ids =
        |lines: &[Value]| lines.iter().filter_map(|one| one["document"]["id"].as_u64()).collect::<Vec<_>>();
    for order in ["", "&index=by_note"] {
        let all = page(&format!("value_bytes=9{order}"));
        for (at, one) in all.iter().enumerate() {
            let cursor = one["cursor"].as_str().unwrap();
            let after = page(&format!("value_bytes=9&cursor={cursor}{order}"));
            let before = page(&format!("value_bytes=9&reverse=true&cursor={cursor}{order}"));
            let mut joined = ids(&before);
            joined.reverse();
            joined.extend(one["document"]["id"].as_u64());
            joined.extend(ids(&after));
            assert_eq!(joined, ids(&all), "{order} at {at}");
        }
    }
    assert_eq!(page("value_bytes=9&limit=2").last().unwrap().as_object().unwrap().len(), 1, "a cursor");
    for bad in ["value_bytes=x", "value_bytes=9&format=csv", "value_bytes=99999999"] {
        assert_eq!(server.ask("GET", &format!("{path}?{bad}"), b"").status, 400, "{bad}");
    }
}
