//! `ship`, `serve --ship` and `restore`, with a folder as the bucket.
#![cfg(feature = "ship")]

use crate::common::{failure, pando, stdout, text};
use crate::http::Server;
use crate::serving::command;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

fn put(db: &str, key: &str, value: &str) {
    stdout(pando(["put", db, "t", key, value]));
}

fn scan(db: &str) -> String {
    text(pando(["scan", db, "t", "--format", "ndjson"]))
}

fn path(dir: &Path, name: &str) -> String {
    dir.join(name).to_str().unwrap().to_owned()
}

fn number(said: &str, name: &str) -> u64 {
    let rows: serde_json::Value = serde_json::from_str(said).unwrap();
    let row = if rows.is_array() { &rows[0] } else { &rows };
    row[name].as_u64().unwrap_or_else(|| panic!("{name} in {said}"))
}

#[test]
fn a_database_is_shipped_and_restored_as_of_each_commit() {
    let dir = tempfile::tempdir().unwrap();
    let (db, bucket) = (path(dir.path(), "db"), path(dir.path(), "bucket"));
    let mut states = Vec::new();
    for key in ["a", "b", "c", "d"] {
        put(&db, key, &key.repeat(3000));
        let said = text(pando(["ship", &db, &bucket, "--once", "--json"]));
        states.push((number(&said, "shipped_commit"), scan(&db)));
    }
    let said = text(pando(["ship", &db, &bucket, "--status", "--json"]));
    assert_eq!((number(&said, "lag_commits"), number(&said, "epoch")), (0, 4), "{said}");
    put(&db, "e", "not shipped");
    let said = text(pando(["ship", &db, &bucket, "--status", "--json"]));
    assert_eq!(number(&said, "lag_commits"), 1, "{said}");
    for (commit, state) in &states {
        let target = path(dir.path(), &format!("at-{commit}"));
        let commit = commit.to_string();
        stdout(pando(["restore", &bucket, &target, "--commit", &commit]));
        assert_eq!(scan(&target), *state);
        stdout(pando(["check", &target]));
    }
    let listed = text(pando(["restore", "--list", &format!("file://{bucket}"), "--format", "csv"]));
    assert_eq!(listed.lines().count(), 2, "{listed}");
    // The moments of the table are those that `--at` takes.
    let listed = text(pando(["restore", "--list", &bucket]));
    let moments: Vec<_> = listed.split_whitespace().filter(|cell| cell.ends_with('Z')).collect();
    let target = path(dir.path(), "last");
    let said = text(pando(["restore", &bucket, &target, "--at", moments[1], "--json"]));
    assert_eq!(number(&said, "commit"), states[3].0, "{listed}");
    let target = path(dir.path(), "newest");
    let said = text(pando(["restore", &bucket, &target, "--at", "2099-01-01T00:00:00Z", "--json"]));
    assert_eq!(number(&said, "commit"), states[3].0);
    // The copy goes on with the lineage, and the database that it was copied from is refused.
    put(&target, "f", "of the copy");
    stdout(pando(["ship", &target, &bucket, "--once"]));
    let said = failure(pando(["ship", &db, &bucket, "--once"]), 2);
    assert!(said.contains("another copy of this database"), "{said}");
}

#[test]
fn what_cannot_be_restored_or_shipped_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let (db, bucket) = (path(dir.path(), "db"), path(dir.path(), "bucket"));
    put(&db, "a", "1");
    stdout(pando(["ship", &db, &bucket, "--once"]));
    let target = path(dir.path(), "target");
    let said = failure(pando(["restore", &bucket, &target, "--commit", "99"]), 1);
    assert!(said.contains("commit 99 is not there"), "{said}");
    let said = failure(pando(["restore", &bucket, &target, "--at", "yesterday"]), 2);
    assert!(said.contains("2026-11-25T10:00:00Z"), "{said}");
    failure(pando(["restore", &bucket, &target, "--at", "1999-01-01T00:00:00Z"]), 1);
    failure(pando(["restore", "s3://", &target]), 2);
    let said = failure(pando(["restore", "ftp://host/x", &target]), 2);
    assert!(said.contains("az://"), "{said}");
    failure(pando(["restore", &bucket, &db]), 1);
    let other = path(dir.path(), "other");
    put(&other, "a", "1");
    let said = failure(pando(["ship", &other, &bucket, "--once"]), 2);
    assert!(said.contains("of another database"), "{said}");
    // One flipped bit in the base.
    let parts = fs::read_dir(dir.path().join("bucket/parts/base")).unwrap();
    let part = parts.map(|part| part.unwrap().path()).next().unwrap();
    let mut bytes = fs::read(&part).unwrap();
    bytes[100] ^= 1;
    fs::write(&part, bytes).unwrap();
    let said = failure(pando(["restore", &bucket, &target]), 3);
    assert!(said.contains(part.file_name().unwrap().to_str().unwrap()), "{said}");
    assert!(said.contains("keep the bucket as it is"), "{said}");
    assert!(!Path::new(&target).exists(), "nothing is left");
    let said = failure(pando(["restore", &bucket, &target, "--list"]), 2);
    assert!(said.contains("or one bucket"), "{said}");
    // An object that was emptied, and one that is gone.
    let lineage = dir.path().join("bucket/lineage");
    fs::write(&lineage, b"").unwrap();
    for words in [vec!["ship", &db, &bucket, "--once"], vec!["restore", &bucket, &target]] {
        let said = failure(pando(words), 3);
        assert!(said.contains("lineage: it has 0 bytes") && said.contains("keep the bucket"), "{said}");
        assert!(!said.contains("salvage"), "{said}");
    }
    fs::remove_file(&lineage).unwrap();
    let said = failure(pando(["ship", &db, &bucket, "--once"]), 3);
    assert!(said.contains("lineage is missing, although epochs/"), "{said}");
    assert!(!lineage.exists(), "it is not replaced");
}

/// A bucket that cannot be written to: the cause is printed and logged, and a single shipment ends.
#[test]
fn a_bucket_that_fails_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let (db, bucket) = (path(dir.path(), "db"), path(dir.path(), "bucket"));
    put(&db, "a", "1");
    let (data, log) = (dir.path().join("data"), dir.path().join("log"));
    let mut command = command(&data, &["--ship", &bucket]);
    command.stderr(fs::File::create(&log).unwrap());
    let server = Server::of(command);
    assert_eq!(server.ask("PUT", "/v0/entity?id=k", b"v").status, 201);
    let aside = dir.path().join("aside");
    let within = |what: &str| {
        let until = Instant::now() + Duration::from_secs(20);
        while !fs::read_to_string(&log).unwrap().contains(what) {
            assert!(Instant::now() < until, "{what} is not in {}", fs::read_to_string(&log).unwrap());
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    while !server.ask("GET", "/metrics", b"").text().contains("pando_ship_up{database=\"default\"} 1") {
        std::thread::sleep(Duration::from_millis(50));
    }
    // A file stands where the folder was.
    fs::rename(&bucket, &aside).unwrap();
    fs::write(&bucket, "").unwrap();
    server.ask("PUT", "/v0/entity?id=k", b"w");
    within("the database cannot be shipped");
    let began = Instant::now();
    let stuck = path(dir.path(), "stuck");
    fs::create_dir(&stuck).unwrap();
    fs::write(format!("{stuck}/epochs"), "no folder").unwrap();
    let output = pando(["ship", &db, &stuck, "--once", "--give-up", "1s"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("trying again") && said.contains("failed for"), "{said}");
    assert!(began.elapsed() < Duration::from_secs(15), "it took {:?}", began.elapsed());
    fs::remove_file(&bucket).unwrap();
    fs::rename(&aside, &bucket).unwrap();
    within("the database is shipped again");
}

#[test]
fn a_server_ships_each_database_and_is_fenced_by_its_successor() {
    let dir = tempfile::tempdir().unwrap();
    let (data, bucket) = (dir.path().join("data"), path(dir.path(), "bucket"));
    let sync = ["--ship", &bucket, "--ship-mode", "sync"];
    let server = Server::start_with(&data, &sync);
    let ask =
        |server: &Server, method: &str, target: &str, body: &[u8]| server.ask(method, target, body).status;
    assert_eq!(ask(&server, "PUT", "/v1/databases/shop", b"{}"), 201);
    assert_eq!(ask(&server, "PUT", "/v1/databases/shop/tables/t", b"{}"), 201);
    for key in ["a", "b", "c"] {
        let target = format!("/v1/databases/shop/tables/t/entries/{key}");
        assert!(ask(&server, "PUT", &target, b"value") < 300);
    }
    let metrics = server.ask("GET", "/metrics", b"").text().to_owned();
    assert!(metrics.contains("pando_ship_up{database=\"shop\"} 1"), "{metrics}");
    assert!(metrics.contains("pando_ship_lag_commits{database=\"shop\"} 0"), "{metrics}");
    // Everything acknowledged is in the bucket already.
    let successor_data = dir.path().join("successor");
    fs::create_dir(&successor_data).unwrap();
    let copy = path(&successor_data, "shop");
    stdout(pando(["restore", &format!("{bucket}/shop"), &copy]));
    assert_eq!(scan(&copy).lines().count(), 3);
    let listed = text(pando(["restore", "--list", &bucket, "--format", "csv"]));
    assert!(listed.contains("\nshop,") && listed.contains("\ndefault,"), "{listed}");
    stdout(pando(["restore", &format!("{bucket}/default"), &path(&successor_data, "default")]));
    let successor = Server::start_with(&successor_data, &sync);
    assert!(ask(&successor, "PUT", "/v1/databases/shop/tables/t/entries/d", b"value") < 300);
    let refused = server.ask("PUT", "/v1/databases/shop/tables/t/entries/e", b"value");
    assert_eq!(refused.status, 503);
    assert!(refused.text().contains("urn:pando:problem:fenced"), "{}", refused.text());
    // Reads go on.
    assert_eq!(ask(&server, "GET", "/v1/databases/shop/tables/t/entries/a", b""), 200);
    assert!(successor.terminate().success());
    drop(server);
    // Nor does the old one take writes when it comes back, not even in async mode.
    let back = Server::start_with(&data, &["--ship", &bucket]);
    let until = Instant::now() + Duration::from_secs(20);
    let refusal = loop {
        let answer = back.ask("PUT", "/v1/databases/shop/tables/t/entries/f", b"value");
        if answer.status == 503 || Instant::now() > until {
            break answer;
        }
    };
    assert!(refusal.text().contains("another copy of this database"), "{}", refusal.text());
    drop(back);
    let last = path(dir.path(), "last");
    stdout(pando(["restore", &format!("{bucket}/shop"), &last]));
    assert_eq!(scan(&last).lines().count(), 4);
}

/// Whatever ends shipping, the request was valid, and its write is stored: 503, and not the status that the kind of the
/// error has elsewhere.
#[test]
fn a_write_that_is_stored_and_cannot_be_shipped_gets_503() {
    let dir = tempfile::tempdir().unwrap();
    let (data, bucket) = (dir.path().join("data"), path(dir.path(), "bucket"));
    fs::create_dir_all(format!("{bucket}/default")).unwrap();
    fs::write(format!("{bucket}/default/lineage"), "not a lineage").unwrap();
    fs::create_dir(&data).unwrap();
    put(&path(&data, "default"), "k", "v");
    let server = Server::start_with(&data, &["--ship", &bucket, "--ship-mode", "sync"]);
    let mut refused = vec![server.ask("PUT", "/v0/entity?id=greeting", b"hello")];
    if cfg!(feature = "sql") {
        let sql = br#"{"sql":"CREATE TABLE t(id INTEGER PRIMARY KEY)"}"#;
        refused.push(server.ask("POST", "/v1/databases/default/sql", sql));
    }
    for refused in refused {
        let text = refused.text();
        assert_eq!(refused.status, 503, "{text}");
        let said = ["urn:pando:problem:not-shipped", "is stored in this database", "not an object of Pando"];
        assert!(said.iter().all(|said| text.contains(said)), "{text}");
    }
    assert_eq!(server.ask("GET", "/v0/entity?id=greeting", b"").text(), "hello");
}

#[test]
fn a_server_ships_its_tail_at_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let (data, bucket) = (dir.path().join("data"), path(dir.path(), "bucket"));
    let server = Server::start_with(&data, &["--ship", &bucket, "--ship-interval", "10m"]);
    assert!(server.ask("PUT", "/v0/entity?id=greeting", b"hello").status < 300);
    let begun = Instant::now();
    while !server.ask("GET", "/metrics", b"").text().contains("pando_ship_up{database=\"default\"} 1") {
        assert!(begun.elapsed() < Duration::from_secs(60), "the base is not shipped");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(server.ask("PUT", "/v0/entity?id=last", b"hello").status < 300);
    let begun = Instant::now();
    assert!(server.terminate().success());
    assert!(begun.elapsed() < Duration::from_secs(50), "{:?}", begun.elapsed());
    let copies = dir.path().join("copies");
    fs::create_dir(&copies).unwrap();
    stdout(pando(["restore", &format!("{bucket}/default"), &path(&copies, "default")]));
    let copy = Server::start(&copies);
    for key in ["greeting", "last"] {
        assert_eq!(copy.ask("GET", &format!("/v0/entity?id={key}"), b"").text(), "hello", "{key}");
    }
}

/// The response of statements can be longer than what is kept in memory, and then begins before they are complete. Its
/// end waits for the bucket.
#[test]
#[cfg(feature = "sql")]
fn a_long_response_of_sql_ends_when_its_writes_are_in_the_bucket() {
    let dir = tempfile::tempdir().unwrap();
    let (data, bucket) = (dir.path().join("data"), path(dir.path(), "bucket"));
    let server = Server::start_with(&data, &["--ship", &bucket, "--ship-mode", "sync"]);
    let target = "/v1/databases/default/sql";
    let headers = [("content-type", "application/json")];
    let statements = r#"{"sql":"INSERT INTO t VALUES (NULL);
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000) SELECT i FROM n"}"#
        .replace('\n', " ");
    let made =
        server.ask_with("POST", target, &headers, br#"{"sql":"CREATE TABLE t(id INTEGER PRIMARY KEY)"}"#);
    assert_eq!(made.status, 200, "{made:?}");
    let whole = server.ask_with("POST", target, &headers, statements.as_bytes());
    assert!(whole.chunks.len() > 1, "the response is streamed: {} bytes", whole.body.len());

    // This write is acknowledged when everything before it is in the bucket, too.
    assert!(server.ask("PUT", "/v0/entity?id=k", b"v").status < 300);
    // A bucket that cannot be written to.
    let aside = dir.path().join("aside");
    fs::rename(&bucket, &aside).unwrap();
    fs::write(&bucket, "").unwrap();
    let mut client = server.connect();
    let length = statements.len();
    let head = format!("POST {target} HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\n");
    client.send(format!("{head}content-length: {length}\r\n\r\n{statements}").as_bytes()).unwrap();
    assert_eq!(client.reply_head().unwrap().status, 200);
    client.stream.get_ref().set_read_timeout(Some(Duration::from_secs(3))).unwrap();
    let end = loop {
        match client.chunk() {
            Ok(Some(_)) => {}
            other => break other,
        }
    };
    assert!(end.is_err(), "the response ended although its write is not in the bucket");
}

/// As when the disk of the bucket is unmounted: the path is gone, or is an empty directory of another disk.
#[test]
fn a_folder_that_was_taken_away_gets_no_commits() {
    let dir = tempfile::tempdir().unwrap();
    let (data, bucket) = (dir.path().join("data"), path(dir.path(), "mnt/pando"));
    let server = Server::start_with(&data, &["--ship", &bucket, "--ship-mode", "sync"]);
    assert_eq!(server.ask("PUT", "/v0/entity?id=k", b"1").status, 201);
    let (mount, aside) = (dir.path().join("mnt"), dir.path().join("aside"));
    fs::rename(&mount, &aside).unwrap();
    let is_up = |value: u8| {
        let line = format!("pando_ship_up{{database=\"default\"}} {value}");
        let until = Instant::now() + Duration::from_secs(20);
        while !server.ask("GET", "/metrics", b"").text().contains(&line) {
            assert!(Instant::now() < until, "{line}");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let refused = |value: &[u8]| {
        let mut client = server.connect();
        client.stream.get_ref().set_read_timeout(Some(Duration::from_secs(3))).unwrap();
        let reply = client.try_ask("PUT", "/v0/entity?id=k", &[], value);
        assert!(reply.is_err(), "{reply:?}");
        is_up(0);
    };
    refused(b"2");
    assert!(!mount.exists(), "nothing is created in its place");
    fs::create_dir_all(&bucket).unwrap();
    refused(b"3");
    assert_eq!(fs::read_dir(&bucket).unwrap().count(), 0, "another folder is not filled");
    fs::remove_dir_all(&mount).unwrap();
    fs::rename(&aside, &mount).unwrap();
    is_up(1);
    assert_eq!(server.ask("PUT", "/v0/entity?id=l", b"4").status, 201);
    server.kill();
    let copies = dir.path().join("copies");
    fs::create_dir(&copies).unwrap();
    stdout(pando(["restore", &format!("{bucket}/default"), &path(&copies, "default")]));
    let copy = Server::start(&copies);
    assert_eq!(copy.ask("GET", "/v0/entity?id=k", b"").text(), "3");
    assert_eq!(copy.ask("GET", "/v0/entity?id=l", b"").text(), "4");
}

#[test]
fn what_only_reads_a_bucket_creates_no_folder() {
    let dir = tempfile::tempdir().unwrap();
    let (db, missing) = (path(dir.path(), "db"), path(dir.path(), "missing"));
    let (data, target) = (path(dir.path(), "data"), path(dir.path(), "target"));
    put(&db, "a", "1");
    let url = format!("file://{missing}");
    for words in [
        vec!["ship", &db, &missing, "--status"],
        vec!["restore", &url, &target],
        vec!["restore", &url, "--list"],
        vec!["serve", &data, "--listen", "127.0.0.1:0", "--follow", &missing],
        vec!["serve", &data, "--listen", "127.0.0.1:0", "--follow", &url],
    ] {
        let said = failure(pando(&words), 1);
        assert!(
            said.contains("there is no such folder") && said.contains("mount its disk"),
            "{words:?}: {said}"
        );
        assert!(!Path::new(&missing).exists(), "{words:?}");
    }
}

/// Every kind of write, to a server in sync mode whose bucket cannot be written to.
#[test]
fn nothing_is_acknowledged_while_the_bucket_is_away() {
    let dir = tempfile::tempdir().unwrap();
    let (data, bucket) = (dir.path().join("data"), path(dir.path(), "bucket"));
    let server = Server::start_with(&data, &["--ship", &bucket, "--ship-mode", "sync"]);
    let base = "/v1/databases/default";
    for table in ["single", "range", "import", "batch", "dropped", "altered", "interactive"] {
        assert_eq!(server.ask("PUT", &format!("{base}/tables/{table}"), b"{}").status, 201);
    }
    let rows = |name: &str| format!("{base}/documents/{name}?format=csv&schema=id%20int%20key&chunk=1");
    let [rows, typed] = [rows("rows"), rows("typed")];
    assert_eq!(server.ask("POST", &typed, b"id\n1\n").status, 200);
    // An import that creates its table can conflict with the statement below that creates one.
    assert_eq!(server.ask("POST", &rows, b"id\n").status, 200);
    let begun = server.ask("POST", &format!("{base}/transactions"), b"{}");
    let begun: serde_json::Value = serde_json::from_slice(&begun.body).unwrap();
    let transaction = begun["transaction"].as_str().unwrap();
    let within = [("pando-transaction", transaction)];
    let entry = format!("{base}/tables/interactive/entries/k");
    let written = server.ask_with("PUT", &entry, &within, b"v");
    assert_eq!(written.status, 204);
    assert_eq!(written.header("pando-commit"), None, "no commit has what a transaction wrote before its end");

    let aside = dir.path().join("aside");
    fs::rename(&bucket, &aside).unwrap();
    fs::write(&bucket, "").unwrap();
    let writes: Vec<(&str, String, &str)> = vec![
        ("PUT", "/v0/entity?id=k".into(), "v"),
        ("PUT", format!("{base}/tables/single/entries/k"), "v"),
        ("DELETE", format!("{base}/tables/single/entries/none"), ""),
        ("DELETE", format!("{base}/tables/range/entries?prefix="), ""),
        ("POST", format!("{base}/tables/import/entries"), r#"{"key":"k","value":"v"}"#),
        (
            "POST",
            format!("{base}/batch"),
            r#"{"operations":[{"op":"put","table":"batch","key":"k","value":"v"}]}"#,
        ),
        ("PUT", format!("{base}/tables/created"), "{}"),
        ("DELETE", format!("{base}/tables/dropped"), ""),
        ("PATCH", format!("{base}/tables/altered"), r#"{"layout":"lsm"}"#),
        ("PUT", format!("{base}/documents/typed/2"), r#"{"id":2}"#),
        // The second row is wrong. The response says that the first one stays.
        ("POST", format!("{base}/documents/rows?format=csv&chunk=1"), "id\n1\nx\n"),
        ("POST", format!("{base}/transactions/{transaction}/commit"), ""),
        #[cfg(feature = "sql")]
        ("POST", format!("{base}/sql"), r#"{"sql":"CREATE TABLE by_sql(id INTEGER PRIMARY KEY)"}"#),
        ("PUT", "/v1/databases/created".into(), "{}"),
    ];
    std::thread::scope(|scope| {
        for (method, target, body) in &writes {
            let mut client = server.connect();
            scope.spawn(move || {
                client.stream.get_ref().set_read_timeout(Some(Duration::from_secs(3))).unwrap();
                let reply = client.try_ask(method, target, &[], body.as_bytes());
                assert!(reply.is_err(), "{method} {target}: {reply:?}");
            });
        }
    });
    // All of them are stored all the same, and shipped when the bucket is back.
    fs::remove_file(&bucket).unwrap();
    fs::rename(&aside, &bucket).unwrap();
    assert_eq!(server.ask("PUT", "/v1/databases/created", b"{}").status, 200);
    assert_eq!(server.ask("PUT", &format!("{base}/tables/single/entries/last"), b"v").status, 204);
    server.kill();
    let copy = dir.path().join("copy");
    let copy = Server::start_with(&copy, &["--ship", &bucket, "--ship-held", "take-over"]);
    assert_eq!(copy.ask("GET", "/v0/entity?id=k", b"").text(), "v");
    assert_eq!(copy.ask("GET", &entry, b"").text(), "v");
    assert_eq!(copy.ask("GET", "/v1/databases/created", b"").status, 200);
    assert_eq!(copy.ask("GET", &format!("{base}/documents/rows?format=csv"), b"").text(), "id\n1\n");
}

#[test]
fn a_bucket_inside_of_what_it_keeps_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let shown = path(dir.path(), "data");
    fs::create_dir(&data).unwrap();
    std::os::unix::fs::symlink(&data, dir.path().join("link")).unwrap();
    let serve = |target: &str, option: &str, bucket: &str| {
        pando(["serve", target, "--listen", "127.0.0.1:0", option, bucket])
    };
    let inside = [
        shown.clone(),
        format!("{shown}/"),
        format!("file://{shown}"),
        path(dir.path(), "link"),
        path(&data, "default"),
        path(&data, "bucket/of/mine"),
        path(dir.path(), "link/bucket"),
    ];
    for bucket in &inside {
        for option in ["--ship", "--follow"] {
            let said = failure(serve(&shown, option, bucket), 2);
            assert!(said.contains("lies inside the served directory"), "{bucket}: {said}");
        }
    }
    assert_eq!(fs::read_dir(&data).unwrap().count(), 0, "nothing was made");
    // Of a directory that does not exist yet, too.
    let none = path(dir.path(), "none");
    failure(serve(&none, "--ship", &none), 2);
    assert!(!Path::new(&none).exists());
    let db = path(&data, "default");
    put(&db, "a", "1");
    for bucket in [&db, &path(&data, "default/bucket")] {
        for option in ["--once", "--status"] {
            let said = failure(pando(["ship", &db, bucket, option]), 2);
            assert!(said.contains("lies inside the directory of the database"), "{bucket}: {said}");
        }
    }
    assert!(!data.join("default/bucket").exists());
    // Beside it, a folder whose name begins in the same way can be a bucket.
    let beside = format!("{shown}-bucket");
    let server = Server::start_with(&data, &["--ship", &beside]);
    assert!(server.terminate().success());
    let server = Server::start_with(&data, &["--ship", &beside]);
    assert_eq!(server.ask("GET", "/v1/databases/default/tables/t/entries/a", b"").text(), "1");
}
