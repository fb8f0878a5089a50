//! What a running server takes over: its configuration at SIGHUP, and limits of tokens.

use crate::common::{failure, pando, text};
use crate::http::{Client, Server};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn configured(dir: &Path, options: &[&str]) -> Server {
    let config = dir.join("pando.toml");
    let mut words = vec!["--config", config.to_str().unwrap(), "--log", "info"];
    words.extend_from_slice(options);
    let mut command = crate::serving::command(&dir.join("data"), &words);
    command.stderr(Stdio::piped());
    Server::of(command)
}

#[test]
fn a_changed_configuration_takes_effect_at_a_signal() {
    let dir = tempfile::tempdir().unwrap();
    let write = |text: &str| std::fs::write(dir.path().join("pando.toml"), text).unwrap();
    write("max-body = '1K'\nslow = 100\n");
    let server = configured(dir.path(), &["--head-timeout", "60"]);
    let put = |bytes: usize| server.ask("PUT", "/v0/entity?id=k", &vec![7; bytes]).status;
    let origin = |server: &Server| {
        let headers = [("origin", "https://app.example")];
        let reply = server.ask_with("GET", "/healthz", &headers, b"");
        reply.header("access-control-allow-origin").map(str::to_owned)
    };
    assert_eq!((put(1024), put(1025), origin(&server)), (201, 413, None));

    // `head-timeout` stands on the command line, which comes before the file.
    write("max-body = '2K'\nslow = 5\ncors-origin = 'https://app.example'\nhead-timeout = 1\nmax-sql = 3\n");
    let idle = server.connect();
    assert_eq!(put(1025), 413, "nothing changes without a signal");
    server.signal("HUP");
    wait_until("the configuration is read again", || put(1025) == 201);
    assert_eq!((put(2048), put(2049)), (201, 413));
    assert_eq!(origin(&server).as_deref(), Some("https://app.example"));
    let slow = server.ask("GET", "/debug/slow", b"");
    assert!(slow.text().contains("\"threshold_us\":5000"), "{}", slow.text());

    // What cannot be used changes nothing, and ends nothing.
    let contradicts = "max-body = '1K'\nsql-timeout = 61";
    for bad in ["max-body = 'x'", "cors-origin = 'app'", "nonsense = 1", "max-body", contradicts] {
        write(bad);
        server.signal("HUP");
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!((put(2048), put(2049)), (201, 413), "{bad}");
    }
    let Client { stream } = idle;
    drop(stream);
    let said = server.kill_and_hear();
    assert_eq!(said.matches("the configuration was read again").count(), 1, "{said}");
    assert_eq!(said.matches("could not be read again; the one in use stays").count(), 5, "{said}");
    let fixed: Vec<&str> =
        said.lines().filter(|line| line.contains("only when the server starts again")).collect();
    assert_eq!(fixed.len(), 1, "{said}");
    assert!(fixed[0].contains("starts again: max-sql"), "{said}");
}

/// Sends SIGHUP until the configuration is in use, as `is_so` finds.
fn reload_until(server: &Server, what: &str, is_so: impl Fn() -> bool) {
    server.signal("HUP");
    wait_until(what, is_so);
}

#[test]
fn the_level_of_the_log_and_the_drain_delay_change_at_a_signal() {
    let dir = tempfile::tempdir().unwrap();
    let write = |text: &str| std::fs::write(dir.path().join("pando.toml"), text).unwrap();
    write("log = 'warn'\nslow = 100");
    let config = dir.path().join("pando.toml");
    let words = ["--config", config.to_str().unwrap()];
    let mut command = crate::serving::command(&dir.path().join("data"), &words);
    command.stderr(Stdio::piped());
    let server = Server::of(command);
    let ask = |id: &str| server.ask_with("GET", "/healthz", &[("x-request-id", id)], b"");
    let threshold = |us: u32| {
        let slow = server.ask("GET", "/debug/slow", b"");
        slow.text().contains(&format!("\"threshold_us\":{us}"))
    };
    ask("before");
    write("log = 'debug'\nslow = 5\ndrain-delay = 60");
    reload_until(&server, "the log is verbose", || threshold(5000));
    ask("meanwhile");
    // A checkpoint has spans, which are logged at their ends.
    assert_eq!(server.ask("POST", "/v1/databases/default/checkpoint", b"").status, 204);
    // A configuration that cannot be used leaves the level as it is.
    write("log = 'warn'\ncors-origin = 'app'");
    server.signal("HUP");
    std::thread::sleep(Duration::from_millis(300));
    ask("still");
    write("log = 'warn'\nslow = 7\ndrain-delay = 60");
    reload_until(&server, "the log is quiet", || threshold(7000));
    ask("after");

    server.signal("TERM");
    wait_until("it says that it ends", || server.ask("GET", "/readyz", b"").status == 503);
    assert_eq!(ask("draining").status, 200, "it still serves what load balancers send");
    let said = server.kill_and_hear();
    for (id, is_logged) in [("before", false), ("meanwhile", true), ("still", true), ("after", false)] {
        assert_eq!(said.contains(&format!("id=\"{id}\"")), is_logged, "{id}: {said}");
    }
    let closed =
        said.lines().filter(|line| line.contains("checkpoint{") && line.contains("time.busy")).count();
    assert!(closed > 0, "{said}");
    assert!(!said.contains("only when the server starts again"), "{said}");
}

#[cfg(feature = "sql")]
#[test]
fn the_time_limits_of_sql_change_at_a_signal() {
    let dir = tempfile::tempdir().unwrap();
    let write = |text: &str| std::fs::write(dir.path().join("pando.toml"), text).unwrap();
    write("sql-timeout = 60\nmax-sql-timeout = 60\nsql-memory = '64M'");
    let server = configured(dir.path(), &[]);
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
    let run = |sql: &str, more: &str| {
        let body = format!("{{\"sql\":\"{sql}\"{more}}}");
        server.ask("POST", "/v1/databases/default/sql", body.as_bytes())
    };
    assert_eq!(run("SELECT 1", ",\"timeout_ms\":30000").status, 200);
    write("sql-timeout = 1\nmax-sql-timeout = 2\nsql-memory = '32M'");
    reload_until(&server, "the longest time is renewed", || {
        run("SELECT 1", ",\"timeout_ms\":30000").status == 400
    });
    assert_eq!(run("SELECT 1", ",\"timeout_ms\":2000").status, 200);
    let stopped = run(endless, "");
    assert_eq!(stopped.status, 422, "{}", stopped.text());
    assert!(stopped.text().contains("longer than 1000 ms"), "{}", stopped.text());
    // SQLite cannot raise its limit of memory again.
    let said = server.kill_and_hear();
    assert!(said.contains("starts again: sql-memory"), "{said}");
}

#[test]
fn a_token_is_refused_more_requests_at_a_time_than_it_allows() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let create = |name: &str, more: &[&str]| {
        let words = ["token", "create", path, "--name", name, "--scope", "admin"];
        text(crate::common::pando(words.iter().chain(more))).trim().to_owned()
    };
    let (two, other) = (create("two", &["--concurrency", "2"]), create("other", &[]));
    let listed = text(crate::common::pando(["token", "list", path, "--format", "csv"]));
    assert!(listed.lines().next().unwrap().ends_with("rate,concurrency,expires_s"), "{listed}");
    assert!(listed.lines().any(|line| line.starts_with("two,") && line.ends_with(",2,")), "{listed}");
    let server = Server::start(dir.path());
    let asked = |token: &str| {
        let bearer = format!("Bearer {token}");
        server.ask_with("GET", "/v1/databases", &[("authorization", &bearer)], b"")
    };
    // Responses that do not end hold the turns of their requests.
    let hold = || {
        let mut client = server.connect();
        let head = format!(
            "GET /v1/databases/default/changes HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {two}\r\n\r\n"
        );
        client.send(head.as_bytes()).unwrap();
        assert_eq!(client.reply_head().unwrap().status, 200);
        client
    };
    let (first, _second) = (hold(), hold());
    let refused = asked(&two);
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")));
    assert!(refused.text().contains("urn:pando:problem:concurrency-limit"), "{}", refused.text());
    assert_eq!(asked(&other).status, 200, "others are not affected");
    drop(first);
    wait_until("its turn is free", || asked(&two).status == 200);
}

#[test]
fn a_request_of_sql_never_has_more_time_than_the_most_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let both = ["--sql-timeout", "2", "--max-sql-timeout", "1"];
    for words in [&["--sql-timeout", "61"][..], &["--max-sql-timeout", "9"], &both] {
        let serve = [&["serve", path, "--listen", "127.0.0.1:0"], words].concat();
        let said = failure(pando(serve), 2);
        assert!(said.contains("--sql-timeout") && said.contains("--max-sql-timeout"), "{said}");
    }
    let both = ["--sql-timeout", "61", "--max-sql-timeout", "61"];
    assert!(Server::start_with(dir.path(), &both).terminate().success());
}
