//! What an operator asks of a server: advice, backups, and what is not for servers.

mod common;
#[path = "support/http.rs"]
mod http;

use common::{failure, pando, text};
use http::Server;
use serde_json::Value;

#[test]
fn a_server_advises_as_a_directory_does() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("shop");
    let db = pando::Database::builder().memory_bytes(2 << 20).create(&path).unwrap();
    let (read, written) = (db.table("read").unwrap(), db.table("written").unwrap());
    db.bulk_load(&read, (0..2_000u32).map(|n| Ok((n.to_be_bytes(), [1; 40])))).unwrap();
    db.bulk_load(&written, (0..120_000u32).map(|n| Ok((n.to_be_bytes(), [1; 90])))).unwrap();
    db.close().unwrap();
    let (path, memory) = (path.to_str().unwrap(), ["--memory", "2M"]);
    let asked = [
        &["--reads", "1000000"][..],
        &["--writes", "1000000"],
        &["--scanned", "7", "--reads", "1"],
        &["--writes", "1000000", "--json"],
        &["--reads", "5000", "--format", "csv"],
    ];
    let here = asked.map(|words| text(pando([&["advise", path], words, &memory].concat())));
    let advises = |said: &[String]| {
        assert!(said[0].contains("read: btree is right"), "{}", said[0]);
        assert!(said[1].contains("written: lsm would be cheaper"), "{}", said[1]);
    };
    advises(&here);

    let server = Server::start_with(dir.path(), &memory);
    let url = format!("http://{}/shop", server.address);
    let there = asked.map(|words| text(pando([&["--url", &url, "advise"], words].concat())));
    let costs = |said: &str| -> Vec<String> {
        // How fast the server merges is its own measure, and what the database may take is shared.
        said.lines().filter(|line| !line.contains("switch")).map(str::to_owned).collect()
    };
    assert_eq!(there.len(), here.len());
    assert_eq!(costs(&here[0]).len(), costs(&there[0]).len());
    advises(&there);
    let columns = |said: &str| said.lines().next().unwrap().to_owned();
    assert_eq!(columns(&here[4]), columns(&there[4]));
    let tables = |said: &str| -> Vec<Value> { serde_json::from_str(said).unwrap() };
    let names = |rows: &[Value]| -> Vec<String> {
        rows.iter().flat_map(|row| row.as_object().unwrap().keys().cloned()).collect()
    };
    assert_eq!(names(&tables(&here[3])), names(&tables(&there[3])));
    assert_eq!(tables(&there[3])[1]["advised"], "lsm");
    // Without a word, from what the server was asked for.
    assert!(text(pando(["--url", &url, "advise"])).contains("read: say how it is used"));
    let mut client = server.connect();
    for _ in 0..3_000 {
        client.ask("GET", "/v1/databases/shop/tables/read/entries/none", &[], b"");
    }
    assert!(text(pando(["--url", &url, "advise"])).contains("read: btree is right"));
    failure(pando(["--url", &url, "advise", "--reads", "many"]), 2);
    failure(pando(["advise", &format!("http://{}/none", server.address)]), 1);
    for (method, target, status) in [
        ("GET", "/v1/databases/shop/advise?reads=1&scanned=2&writes=3", 200),
        ("GET", "/v1/databases/shop/advise?reads=x", 400),
        ("GET", "/v1/databases/shop/advise?writes=-1", 400),
        ("GET", "/v1/databases/shop/advise?scanned=99999999999999999999", 400),
        ("GET", "/v1/databases/none/advise", 404),
        ("POST", "/v1/databases/shop/advise", 405),
    ] {
        let reply = client.ask(method, target, &[], b"");
        assert_eq!(reply.status, status, "{method} {target}: {reply:?}");
    }
}

#[test]
fn a_token_reaches_as_far_as_it_says() {
    let dir = tempfile::tempdir().unwrap();
    let token = |scope: &str, database: &str| {
        let name = format!("{scope}-{database}");
        let arguments = ["token", "create", dir.path().to_str().unwrap(), "--name", &name, "--scope", scope];
        text(pando(arguments.into_iter().chain(["--database", database]))).trim().to_owned()
    };
    let [reader, writer, admin, stranger] = [
        token("read", "default"),
        token("write", "default"),
        token("admin", "default"),
        token("admin", "other"),
    ];
    let server = Server::start(dir.path());
    let ask = |target: &str, token: &str| {
        let bearer = format!("Bearer {token}");
        let headers: &[(&str, &str)] = if token.is_empty() { &[] } else { &[("authorization", &bearer)] };
        server.ask_with("GET", &format!("/v1/databases/default{target}"), headers, b"").status
    };
    let cases = [
        ("/advise", [401, 401, 403, 200, 200, 200]),
        ("/backup?rate=99999999", [401, 401, 403, 403, 403, 200]),
        ("/backup?since=00", [401, 401, 403, 403, 403, 400]),
    ];
    for (target, statuses) in cases {
        let tokens = ["", "pando_wrong", &stranger, &reader, &writer, &admin];
        assert_eq!(tokens.map(|token| ask(target, token)), statuses, "{target}");
    }
}

#[test]
fn backups_of_a_server_are_differences_too() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("served"));
    let url = format!("http://{}/shop", server.address);
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let there = |words: &[&str]| text(pando([&["--url", &url[..]], words].concat()));
    let folder = at("folder");
    let put = |key: &str| there(&["put", "fruit", key, "red"]);
    put("apple");
    let kind = |said: &str| -> String {
        let said: Value = serde_json::from_str(said).unwrap();
        format!("{} {}", said["backup"].as_str().unwrap(), said["kind"].as_str().unwrap())
    };
    let backup = |words: &[&str]| kind(&there(&[&["backup", &folder, "--json"], words].concat()));
    assert_eq!(backup(&["--incremental"]), "backup-000001-full full", "there is none yet");
    put("pear");
    there(&["checkpoint"]);
    assert_eq!(backup(&["--incremental"]), "backup-000002-incremental incremental");
    put("plum");
    let full = at("folder/backup-000001-full");
    assert_eq!(backup(&["--since", &full, "--rate", "100M"]), "backup-000003-incremental incremental");
    let stream = pando(["--url", &url, "backup", "-", "--since", &full]);
    std::fs::write(at("stream"), stream.stdout).unwrap();
    for (target, backups) in [
        ("two", vec!["--at", "2", &folder]),
        ("newest", vec![&folder]),
        ("files", vec![&full, &at("stream")]),
    ] {
        text(pando(std::iter::once("restore").chain(backups).chain([&at(target)[..]])));
        let keys = text(pando(["scan", &at(target), "fruit", "--keys-only", "--format", "csv"]));
        let expected = if target == "two" { "key\napple\npear\n" } else { "key\napple\npear\nplum\n" };
        assert_eq!(keys, expected, "{target}");
    }
    // One of another database is no base: said as of a directory, and nothing is left of it.
    let (other, of_other) = (at("other"), at("of-other"));
    text(pando(["put", &other, "fruit", "apple", "green"]));
    text(pando(["backup", &other, &of_other]));
    let here = failure(pando(["backup", &other, &folder, "--incremental"]), 2);
    assert!(here.contains("is of another database"), "{here}");
    let said = failure(pando(["--url", &url, "backup", &of_other, "--incremental"]), 2);
    assert_eq!(said.replace("backup-000001-full", ""), here.replace("backup-000003-incremental", ""));
    assert_eq!(text(pando(["restore", "--list", &of_other, "--format", "csv"])).lines().count(), 2);
    failure(pando(["--url", &url, "backup", "-", "--incremental"]), 2);
    failure(pando(["--url", &url, "backup", &folder, "--since", "/nowhere/at/all"]), 1);
    let mut client = server.connect();
    for query in [
        "since=",
        "since=0",
        "since=zz",
        &format!("since={}", "00".repeat(200)),
        "rate=0",
        "rate=1000",
        "rate=x",
    ] {
        let reply = client.ask("GET", &format!("/v1/databases/shop/backup?{query}"), &[], b"");
        assert_eq!(reply.status, 400, "{query}: {reply:?}");
    }
    assert_eq!(client.ask("GET", "/v1/databases/none/backup?rate=65536", &[], b"").status, 404);
}

#[test]
fn what_is_not_for_servers_says_what_to_do() {
    for (words, says) in [
        (&["--url", "http://h", "restore", "x"][..], "below the one that is served"),
        (&["restore", "x", "http://h/shop"], "below the one that is served"),
        (&["--url", "http://h", "salvage", "x"], "where it is"),
        (&["token", "list", "http://h"], "where the directory is"),
        (&["--url", "http://h", "profile"], "/debug/profile"),
        (&["--url", "http://h", "demo"], "the command is one of"),
    ] {
        let said = failure(pando(words), 2);
        assert!(said.contains(says), "{words:?}: {said}");
    }
}
