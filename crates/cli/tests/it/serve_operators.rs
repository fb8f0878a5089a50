//! What an operator asks of a server: advice, backups, its log, signals, and what is not for servers.

use crate::common::{failure, pando, text};
use crate::http::Server;
use serde_json::Value;
use std::process::Stdio;
use std::time::{Duration, Instant};

#[test]
fn a_server_advises_as_a_directory_does() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("shop");
    let db = pando::Database::builder().memory_bytes(2 << 20).create(&path).unwrap();
    let (read, written) = (db.ensure_table("read").unwrap(), db.ensure_table("written").unwrap());
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
        (&["--url", "http://h", "restore", "x"][..], "below the served directory"),
        (&["restore", "x", "http://h/shop"], "below the served directory"),
        (&["--url", "http://h", "salvage", "x"], "run salvage on the directory"),
        (&["token", "list", "http://h"], "on the server's machine"),
        (&["--url", "http://h", "profile"], "/debug/profile"),
        (&["--url", "http://h", "demo"], "does not work with --url"),
    ] {
        let said = failure(pando(words), 2);
        assert!(said.contains(says), "{words:?}: {said}");
    }
}

/// A server whose standard error is `stderr`, with a line for each request.
fn logging_to(dir: &std::path::Path, stderr: Stdio) -> Server {
    let mut command = crate::serving::command(dir, &["--log", "info"]);
    command.stderr(stderr);
    Server::of(command)
}

/// What `/metrics` says of dropped lines.
fn dropped_lines(server: &Server) -> u64 {
    let page = server.ask("GET", "/metrics", b"");
    let line = page.text().lines().find(|line| line.starts_with("pando_log_dropped_lines_total "));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).expect("the figure is there")
}

#[test]
fn a_log_that_cannot_be_written_costs_no_answer() {
    let closed = {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        Stdio::from(writer)
    };
    let full = Stdio::from(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
    for (what, stderr) in [("a closed pipe", closed), ("a full disk", full)] {
        let dir = tempfile::tempdir().unwrap();
        let server = logging_to(dir.path(), stderr);
        assert_eq!(server.ask("PUT", "/v0/entity?id=k", b"v").status, 201, "{what}");
        assert_eq!(server.ask("GET", "/v0/entity?id=k", b"").body, b"v", "{what}");
        // The thread that writes the log may not have tried yet.
        let begun = Instant::now();
        while dropped_lines(&server) < 2 {
            assert!(begun.elapsed() < Duration::from_secs(10), "{what}");
        }
        assert!(server.terminate().success(), "{what}");
    }
}

#[test]
fn a_log_whose_reader_stalls_stops_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    let server = logging_to(dir.path(), writer.into());
    // Far more than the pipe and the queue hold.
    let mut client = server.connect();
    let long_id = "i".repeat(120);
    for _ in 0..8_000 {
        let reply = client.ask("GET", "/v0/entity?id=k", &[("x-request-id", &long_id)], b"");
        assert_eq!(reply.status, 404);
    }
    assert_eq!(server.ask("GET", "/healthz", b"").status, 200);
    assert!(dropped_lines(&server) > 0);
    let begun = Instant::now();
    assert!(server.terminate().success());
    assert!(begun.elapsed() < Duration::from_secs(20), "its end took {:?}", begun.elapsed());
    drop(reader);
}

#[test]
fn a_log_in_a_file_has_no_colours_and_every_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let server = logging_to(&dir.path().join("data"), std::fs::File::create(&path).unwrap().into());
    for _ in 0..100 {
        assert_eq!(server.ask("GET", "/healthz", b"").status, 200);
    }
    assert!(server.terminate().success());
    let log = std::fs::read_to_string(&path).unwrap();
    assert!(!log.contains('\u{1b}'), "{log}");
    assert_eq!(log.lines().filter(|line| line.contains("path=/healthz")).count(), 100, "{log}");
}

#[test]
fn signals_that_ask_for_nothing_end_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    for signal in ["HUP", "USR1", "USR2", "PIPE", "HUP", "XFSZ"] {
        server.signal(signal);
        assert_eq!(server.ask("PUT", "/v0/entity?id=k", signal.as_bytes()).status, 201, "{signal}");
    }
    assert!(server.terminate().success());
    let server = Server::start(dir.path());
    assert_eq!(server.ask("GET", "/v0/entity?id=k", b"").body, b"XFSZ");
    server.signal("XCPU");
    assert!(server.wait().success(), "the time of CPU is used up: an end in order");
}

#[test]
fn a_limit_on_the_size_of_files_is_a_full_disk() {
    let dir = tempfile::tempdir().unwrap();
    let mut limited = std::process::Command::new("bash");
    // In KiB; below it are the files of a new database.
    limited.args(["-c", "ulimit -f 6000; exec \"$@\"", "bash", env!("CARGO_BIN_EXE_pando"), "serve"]);
    limited.arg(dir.path()).args(["--listen", "127.0.0.1:0"]);
    let server = Server::of(limited);
    assert_eq!(server.ask("PUT", "/v0/entity?id=k", b"v").status, 201);
    let refused = server.ask("PUT", "/v0/entity?id=long", &vec![7; 12 << 20]);
    assert_eq!(refused.status, 507, "{}", refused.text());
    assert_eq!(server.ask("GET", "/v0/entity?id=long", b"").status, 404);
    assert_eq!(server.ask("GET", "/v0/entity?id=k", b"").body, b"v");
    assert!(server.terminate().success());

    // The same of a command.
    let long = dir.path().join("long");
    std::fs::write(&long, vec![7; 12 << 20]).unwrap();
    let mut limited = std::process::Command::new("bash");
    limited.args(["-c", "ulimit -f 6000; exec \"$@\"", "bash", env!("CARGO_BIN_EXE_pando"), "put"]);
    limited.arg(dir.path().join("db")).args(["t", "k", "--file"]).arg(&long);
    failure(limited.output().unwrap(), 1);
}

#[test]
fn a_server_that_ends_serves_on_while_load_balancers_notice() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_with(dir.path(), &["--drain-delay", "60"]);
    assert_eq!(server.ask("GET", "/readyz", b"").status, 200);
    let mut open = server.connect();
    server.signal("TERM");
    let begun = Instant::now();
    while server.ask("GET", "/readyz", b"").status == 200 {
        assert!(begun.elapsed() < Duration::from_secs(10), "it is still ready");
    }
    assert_eq!(server.ask("PUT", "/v0/entity?id=k", b"v").status, 201, "new connections are accepted");
    assert_eq!(open.ask("GET", "/v0/entity?id=k", &[], b"").body, b"v");
    // A second signal does not wait.
    assert!(server.terminate().success());
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());

    let server = Server::start_with(dir.path(), &["--drain-delay", "1"]);
    let begun = Instant::now();
    assert!(server.terminate().success());
    assert!(begun.elapsed() >= Duration::from_secs(1), "{:?}", begun.elapsed());
}

#[test]
fn the_log_has_the_client_that_a_trusted_proxy_names() {
    let dir = tempfile::tempdir().unwrap();
    let ask = |server: &Server, id: &str, headers: &[(&str, &str)]| {
        let headers = [headers, &[("x-request-id", id)]].concat();
        // One response comes from memory, the other from its handler.
        for path in ["/v0/entity?id=k", "/healthz"] {
            assert!(server.ask_with("GET", path, &headers, b"").status < 500);
        }
    };
    let lines = |said: &str, id: &str, client: &str| {
        let is_so = |line: &&str| {
            line.contains(&format!("id=\"{id}\"")) && line.contains(&format!("client={client} "))
        };
        said.lines().filter(is_so).count()
    };
    let xff = |list| ("x-forwarded-for", list);
    // Returns what a server logs about the requests that `asks` sends.
    let logged = |options: &[&str], asks: &dyn Fn(&Server)| {
        let path = dir.path().join("log");
        let words = [&["--log", "info"], options].concat();
        let mut command = crate::serving::command(&dir.path().join("data"), &words);
        command.stderr(std::fs::File::create(&path).unwrap());
        let server = Server::of(command);
        asks(&server);
        assert!(server.terminate().success());
        std::fs::read_to_string(&path).unwrap().replace('\n', " \n")
    };
    let said = logged(&[], &|server| {
        ask(server, "direct", &[]);
        ask(server, "hostile", &[xff("203.0.113.5"), ("forwarded", "for=203.0.113.5")]);
    });
    assert_eq!((lines(&said, "direct", "127.0.0.1"), lines(&said, "hostile", "127.0.0.1")), (2, 2), "{said}");
    assert!(!said.contains("203.0.113.5"), "{said}");

    let said = logged(&["--trusted-proxy", "192.0.2.1,127.0.0.0/8"], &|server| {
        ask(server, "named", &[xff("203.0.113.5, 198.51.100.7")]);
        ask(server, "other", &[("forwarded", "for=203.0.113.5")]);
        ask(server, "broken", &[xff("203.0.113.5, \"")]);
    });
    assert_eq!(lines(&said, "named", "198.51.100.7"), 2, "{said}");
    assert_eq!((lines(&said, "other", "127.0.0.1"), lines(&said, "broken", "127.0.0.1")), (2, 2), "{said}");
    assert!(!said.contains("203.0.113.5"), "{said}");

    let said = logged(&["--trusted-proxy", "127.0.0.1", "--proxy-header", "forwarded"], &|server| {
        ask(server, "standard", &[("forwarded", "for=198.51.100.7;proto=https"), xff("203.0.113.5")]);
    });
    assert_eq!(lines(&said, "standard", "198.51.100.7"), 2, "{said}");

    let path = dir.path().to_str().unwrap();
    let words = ["serve", path, "--listen", "127.0.0.1:0", "--trusted-proxy", "proxy.example"];
    failure(pando(words), 2);
}

#[test]
fn a_token_with_a_rate_gets_no_more_than_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let token = |name: &str, rate: &[&str]| {
        let arguments = ["token", "create", path, "--name", name, "--scope", "write"];
        format!("Bearer {}", text(pando([&arguments[..], rate].concat())).trim())
    };
    let (slow, free) = (token("slow", &["--rate", "5"]), token("free", &[]));
    #[cfg(feature = "sql")]
    let of_sql = token("sql", &["--rate", "5"]);
    failure(pando(["token", "create", path, "--name", "n", "--scope", "read", "--rate", "0"]), 2);
    let listed: Value = serde_json::from_str(&text(pando(["token", "list", path, "--json"]))).unwrap();
    assert_eq!((&listed[0]["rate"], &listed[1]["rate"]), (&5.into(), &Value::Null));
    let server = Server::start(dir.path());
    let mut client = server.connect();
    let begun = Instant::now();
    let mut ask = |token: &str| client.ask("GET", "/v1/databases", &[("authorization", token)], b"");
    let replies: Vec<_> = (0..60).map(|_| ask(&slow)).collect();
    let accepted = replies.iter().filter(|reply| reply.status == 200).count();
    let allowed = 5 + (begun.elapsed().as_millis() as usize).div_ceil(200);
    assert!((5..=allowed).contains(&accepted), "{accepted} of {allowed}");
    let refused = replies.iter().find(|reply| reply.status != 200).expect("one too many");
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")));
    assert!(refused.text().contains("urn:pando:problem:rate-limit"), "{}", refused.text());
    #[cfg(feature = "sql")]
    for n in 0..5 {
        let sql = format!("{{\"sql\": \"CREATE TABLE t{n}(id INTEGER PRIMARY KEY)\"}}");
        let target = "/v1/databases/default/sql";
        let reply = client.ask("POST", target, &[("authorization", &of_sql)], sql.as_bytes());
        assert_eq!(reply.status, 200, "a statement counts once: {reply:?}");
    }
    let mut ask = |token: &str| client.ask("GET", "/v1/databases", &[("authorization", token)], b"");
    // Others are not concerned, and after a second it goes on.
    assert!((0..60).all(|_| ask(&free).status == 200));
    std::thread::sleep(Duration::from_millis(1_100));
    assert!((0..5).all(|_| ask(&slow).status == 200));
    let page = server.ask_with("GET", "/metrics", &[("authorization", &free)], b"");
    assert!(page.text().contains("pando_http_refusals_total{reason=\"rate-limit\"}"));
}

#[test]
fn pages_of_named_sites_use_the_server_and_others_do_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let token = text(pando(["token", "create", path, "--name", "n", "--scope", "write"]));
    let token = format!("Bearer {}", token.trim());
    let server =
        Server::start_with(dir.path(), &["--cors-origin", "https://app.example,http://localhost:3000"]);
    let ask = |method: &str, headers: &[(&str, &str)]| {
        let cross_site = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "cors")];
        server.ask_with(method, "/v0/entity?id=k", &[headers, &cross_site].concat(), b"")
    };
    for origin in ["https://app.example", "http://localhost:3000"] {
        let preflight = [
            ("origin", origin),
            ("access-control-request-method", "PUT"),
            ("access-control-request-headers", "authorization"),
        ];
        let reply = ask("OPTIONS", &preflight);
        assert_eq!((reply.status, reply.header("access-control-allow-origin")), (204, Some(origin)));
        assert!(reply.header("access-control-allow-methods").unwrap().contains("PUT"), "{reply:?}");
        assert!(reply.header("access-control-allow-headers").unwrap().contains("authorization"), "{reply:?}");
        assert_eq!(reply.header("access-control-allow-credentials"), None);
        for (method, status) in [("PUT", 201), ("GET", 200), ("DELETE", 202), ("GET", 404)] {
            let reply = ask(method, &[("origin", origin), ("authorization", &token)]);
            assert_eq!((reply.status, reply.header("access-control-allow-origin")), (status, Some(origin)));
            assert!(reply.header("vary").is_some_and(|vary| vary.contains("origin")), "{reply:?}");
            assert!(reply.header("access-control-expose-headers").unwrap().contains("etag"));
        }
        // The page learns that its token is wrong.
        let reply = ask("PUT", &[("origin", origin)]);
        assert_eq!((reply.status, reply.header("access-control-allow-origin")), (401, Some(origin)));
    }
    for other in ["https://other.example", "http://app.example", "null"] {
        let preflight = [("origin", other), ("access-control-request-method", "PUT")];
        for reply in [ask("OPTIONS", &preflight), ask("PUT", &[("origin", other), ("authorization", &token)])]
        {
            assert_eq!((reply.status, reply.header("access-control-allow-origin")), (403, None), "{other}");
        }
    }
    // What is not a preflight needs what it needs.
    assert_ne!(ask("OPTIONS", &[("origin", "https://app.example")]).status, 204);

    let plain = tempfile::tempdir().unwrap();
    let path = plain.path().to_str().unwrap();
    failure(pando(["serve", path, "--listen", "127.0.0.1:0", "--cors-origin", "*"]), 2);
    let server = Server::start(plain.path());
    let reply = server.ask("PUT", "/v0/entity?id=k", b"v");
    assert_eq!((reply.status, reply.header("vary")), (201, None), "nothing is said without --cors-origin");
}

/// `/readyz` needs no token, so that it must not cost a flush of what `lazy` keeps from the disk.
#[test]
fn a_look_at_readiness_flushes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_with(dir.path(), &["--durability", "lazy"]);
    assert_eq!(server.ask("PUT", "/v0/entity?id=k", b"v").status, 201);
    let flushes = || {
        let stats = server.ask("GET", "/v1/databases/default/stats", b"");
        serde_json::from_str::<Value>(stats.text()).unwrap()["log_flushes"].as_u64().unwrap()
    };
    let (before, begun) = (flushes(), Instant::now());
    for _ in 0..100 {
        assert_eq!(server.ask("PUT", "/v0/entity?id=k", b"v").status, 201);
        assert_eq!(server.ask("GET", "/readyz", b"").status, 200);
    }
    // The server itself flushes a lazy commit now and then.
    let most = 20 + 20 * begun.elapsed().as_secs();
    assert!(flushes() - before < most, "{} flushes", flushes() - before);
}
