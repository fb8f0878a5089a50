//! `/metrics`: the rules of the format, bounded labels, and the names in the dashboard and the alerts of `deploy/`.

use crate::common::{pando, text};
use crate::http::Server;
#[cfg(feature = "ship")]
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A page of metrics: the type of each family, and the labels of its samples.
#[derive(Default)]
struct Page {
    kinds: BTreeMap<String, String>,
    /// The labels of the samples by name.
    samples: BTreeMap<String, Vec<String>>,
}

impl Page {
    /// Parses a page and checks the rules of the format.
    fn of(server: &Server) -> Self {
        let reply = server.ask("GET", "/metrics", b"");
        assert_eq!(reply.status, 200);
        let mut page = Page::default();
        let mut family = String::new();
        for line in reply.text().lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                let (name, words) = help.split_once(' ').unwrap();
                assert!(words.ends_with('.') && words.len() > 10, "{line}");
                family = name.to_owned();
            } else if let Some(kind) = line.strip_prefix("# TYPE ") {
                let (name, kind) = kind.split_once(' ').unwrap();
                assert_eq!(name, family, "the help comes first, and a family comes once");
                assert!(page.kinds.insert(name.to_owned(), kind.to_owned()).is_none(), "{name} comes twice");
            } else {
                let name = line.split(['{', ' ']).next().unwrap();
                let own = name.strip_prefix(&family);
                let ends: &[&str] = match &page.kinds[&family][..] {
                    "histogram" => &["_bucket", "_sum", "_count"],
                    "summary" => &["", "_sum", "_count"],
                    _ => &[""],
                };
                assert!(own.is_some_and(|end| ends.contains(&end)), "{line} is not of {family}");
                let (labels, value) = line[name.len()..].rsplit_once(' ').unwrap();
                value.parse::<f64>().unwrap_or_else(|_| panic!("{line}"));
                let all = page.samples.entry(name.to_owned()).or_default();
                assert!(!all.contains(&labels.to_owned()), "{line} comes twice");
                all.push(labels.to_owned());
            }
        }
        page
    }

    /// Adds what another server shows.
    #[cfg(feature = "ship")]
    fn add(&mut self, other: Page) {
        self.samples.extend(other.samples);
    }

    /// The values of a label over all samples.
    fn values(&self, label: &str) -> BTreeSet<String> {
        let parts = self
            .samples
            .values()
            .flatten()
            .filter_map(|labels| labels.split(&format!("{label}=\"")).nth(1)?.split('"').next());
        parts.map(str::to_owned).collect()
    }
}

#[test]
fn names_follow_the_conventions_of_prometheus() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    assert_eq!(server.ask("GET", "/v0/nothing", b"").status, 400);
    let page = Page::of(&server);
    assert!(page.kinds.len() > 90, "{}", page.kinds.len());
    for (name, kind) in &page.kinds {
        let is_of_process = name.starts_with("process_");
        assert!(name.starts_with("pando_") || is_of_process, "{name}");
        assert_eq!(name.ends_with("_total"), kind == "counter", "{name} is a {kind}");
        let abbreviated = ["s", "ms", "us", "ns", "kb", "mb", "kib", "mib", "b", "pct", "permille"];
        let units: Vec<&str> = name.trim_end_matches("_total").split('_').collect();
        assert!(!abbreviated.contains(units.last().unwrap()), "{name}");
        assert!(!units.iter().any(|unit| ["milliseconds", "kilobytes", "percent"].contains(unit)), "{name}");
        assert!(!name.contains(&kind[..]), "{name}: the name has its type");
    }
}

#[test]
fn figures_of_the_machine_and_of_connections_are_right() {
    let dir = tempfile::tempdir().unwrap();
    let token = ["token", "create", dir.path().to_str().unwrap(), "--name", "n", "--scope", "admin"];
    let token = format!("Bearer {}", text(pando(token)).trim());
    let server = Server::start_with(dir.path(), &["--max-connections", "100"]);
    let good: &[(&str, &str)] = &[("authorization", &token)];
    let number = |name: &str| -> f64 {
        let page = server.ask_with("GET", "/metrics", good, b"");
        let line = page
            .text()
            .lines()
            .find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ')));
        line.map_or(0.0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
    };
    let (received, sent) = ("pando_http_received_bytes_total", "pando_http_sent_bytes_total");
    let before = (number(received), number(sent));
    let value = vec![7; 100_000];
    assert_eq!(server.ask_with("PUT", "/v0/entity?id=k", good, &value).status, 201);
    let after = number(received) - before.0;
    assert!((100_000.0..103_000.0).contains(&after), "{after} bytes were received");
    assert_eq!(server.ask_with("GET", "/v0/entity?id=k", good, b"").body, value);
    // The pages of `number` are sent, too, and bytes may be counted after their client has them.
    let page = server.ask_with("GET", "/metrics", good, b"").body.len() as f64;
    let (mut after, mut pages) = (0.0, 5.0);
    while after < 100_000.0 && pages < 500.0 {
        after = number(sent) - before.1;
        pages += 1.0;
    }
    let most = 103_000.0 + pages * page;
    assert!((100_000.0..most).contains(&after), "{after} bytes were sent, {pages} pages of {page}");

    for _ in 0..3 {
        let wrong = [("authorization", "Bearer pando_nothing")];
        assert_eq!(server.ask_with("GET", "/v0/entity?id=k", &wrong, b"").status, 401);
        assert_eq!(server.ask("GET", "/v0/entity?id=k", b"").status, 401);
    }
    assert_eq!(number("pando_failed_logins_total"), 3.0, "a request without a token is no login");
    assert_eq!(number("pando_http_refusals_total{reason=\"unauthorized\"}"), 6.0);
    assert_eq!(server.ask_with("GET", "/v1/databases/none/tables", good, b"").status, 404);
    assert_eq!(number("pando_http_refusals_total{reason=\"not-found\"}"), 1.0);
    // What the HTTP library refuses is counted as well.
    let mut client = server.connect();
    client.send(b"GET /v0/entity?id=k HTTP/1.1\r\nhost : a b\r\n\r\n").unwrap();
    assert_eq!(client.reply(false).unwrap().status, 400);
    assert_eq!(number("pando_http_refusals_total{reason=\"bad-request\"}"), 1.0);

    assert_eq!(number("pando_http_max_connections"), 100.0);
    let clients: Vec<_> = (0..20).map(|_| server.connect()).collect();
    let begun = Instant::now();
    while number("process_open_fds") < 40.0 && begun.elapsed() < Duration::from_secs(5) {
        sleep(Duration::from_millis(10));
    }
    assert!((40.0..200.0).contains(&number("process_open_fds")), "{}", number("process_open_fds"));
    drop(clients);
    let resident = number("process_resident_memory_bytes");
    let seen = server.resident_bytes() as f64;
    assert!((seen / 2.0..seen * 2.0).contains(&resident), "{resident} {seen}");
    let (free, size) = (number("pando_disk_free_bytes"), number("pando_disk_size_bytes"));
    assert!(free > 0.0 && free < size, "{free} {size}");
}

#[test]
fn clients_cannot_add_samples() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let ask_all = |round: u32| {
        for n in 0..40 {
            for target in [
                format!("/nothing/{round}/{n}"),
                format!("/v1/databases/d{round}-{n}/tables"),
                format!("/v1/databases/default/tables/t{round}-{n}"),
                format!("/v0/entity?id=k{round}-{n}&other={n}"),
                format!("/v1/databases/default/transactions/{round}{n}/commit"),
            ] {
                let method = ["GET", "POST", "BREW"][n % 3];
                server.ask(method, &target, b"");
            }
        }
    };
    ask_all(0);
    let count = |page: &Page| page.samples.values().map(Vec::len).sum::<usize>();
    let before = count(&Page::of(&server));
    ask_all(1);
    ask_all(2);
    let page = Page::of(&server);
    assert_eq!(count(&page), before);
    assert!(page.values("reason").len() < 12, "{:?}", page.values("reason"));
    assert_eq!(page.values("kind").len(), 7);
}

/// The names of metrics in an expression.
#[cfg(feature = "ship")]
fn names(expression: &str) -> impl Iterator<Item = &str> {
    let words = expression.split(|c: char| c != '_' && !c.is_ascii_alphanumeric());
    words.filter(|word| word.starts_with("pando_") || word.starts_with("process_"))
}

/// The expressions of all panels, and the queries of the variables.
#[cfg(feature = "ship")]
fn expressions(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match member.as_str() {
                    Some(text) if name == "expr" || name == "definition" => found.push(text.to_owned()),
                    _ => expressions(member, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| expressions(item, found)),
        _ => {}
    }
}

#[test]
#[cfg(feature = "ship")]
fn every_metric_of_the_dashboard_and_the_alerts_is_served() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let db = pando::Database::create(dir.path().join("primary/default")).unwrap();
    drop(db.consumer("search").unwrap());
    db.close().unwrap();
    let (bucket, backups) = (at("bucket"), at("backups"));
    let options = ["--ship", &bucket[..], "--backup-to", &backups, "--backup-every", "1s"];
    let primary = Server::start_with(&dir.path().join("primary"), &options);
    assert_eq!(primary.ask("PUT", "/v0/entity?id=k", b"v").status, 201);
    assert_eq!(primary.ask("GET", "/nothing", b"").status, 404);
    let source = format!("http://{}", primary.address);
    let replica = Server::start_with(&dir.path().join("replica"), &["--follow", &source]);
    let begun = Instant::now();
    let mut page = loop {
        let page = Page::of(&primary);
        if page.samples.contains_key("pando_backup_kept") || begun.elapsed() > Duration::from_secs(30) {
            break page;
        }
        sleep(Duration::from_millis(50));
    };
    page.add(Page::of(&replica));

    let dashboard: Value =
        serde_json::from_str(include_str!("../../../../deploy/grafana/pando.json")).unwrap();
    let mut queries = Vec::new();
    expressions(&dashboard, &mut queries);
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len());
    assert!(queries.len() > 60, "{}", queries.len());
    let rules = include_str!("../../../../deploy/prometheus/pando.rules.yml");
    let rules = rules.lines().filter(|line| !line.trim_start().starts_with(['#', 's', 'd', '-']));
    let rules: Vec<String> = rules.map(str::to_owned).collect();
    let mut used = BTreeSet::new();
    for query in queries.iter().chain(&rules) {
        for name in names(query) {
            assert!(page.samples.contains_key(name), "no server has {name}, which is used in {query}");
            used.insert(name);
        }
    }
    assert!(used.len() > 60, "{used:?}");
}

#[test]
fn names_of_consumers_cannot_spoil_the_page() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let consumers = "/v1/databases/default/consumers";
    for name in ["a%09b%01", "%0a", "%7f", "%c2%85"] {
        let reply = server.ask("PUT", &format!("{consumers}/{name}"), b"");
        assert_eq!(reply.status, 400, "{name}: {}", reply.text());
        assert!(reply.text().contains("control character"), "{name}: {}", reply.text());
    }
    assert_eq!(server.ask("PUT", &format!("{consumers}/q%22b%5cs"), b"").status, 201);
    for n in 0..150 {
        assert_eq!(server.ask("PUT", &format!("{consumers}/c{n}"), b"").status, 201);
    }
    // One that lags is shown whatever its name.
    assert_eq!(server.ask("PUT", "/v0/entity?id=k", b"v").status, 201);
    let newest = server.ask("PUT", "/v0/entity?id=k", b"v");
    assert_eq!(newest.status, 201);
    for n in 0..150 {
        let target = format!("{consumers}/c{n}?acknowledge=2");
        assert_eq!(server.ask("PUT", &target, b"").status, 200);
    }
    let page = Page::of(&server);
    for name in ["pando_consumer_lag_commits", "pando_consumer_lost"] {
        let samples = &page.samples[name];
        assert_eq!(samples.len(), 100, "{name}");
        let escaped = r#"{database="default",consumer="q\"b\\s"}"#;
        assert!(samples.iter().any(|labels| labels == escaped), "{samples:?}");
    }
}
