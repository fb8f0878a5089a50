//! `pando serve --redis`: the session of docs/redis.md, tokens, metrics, and a server that is killed.

use crate::common::{failure, pando, text};
use crate::serving::command;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// A server with a door for clients of Redis. Dropping it kills it.
struct Served {
    process: Child,
    http: SocketAddr,
    redis: SocketAddr,
}

impl Served {
    fn start(dir: &Path, options: &[&str]) -> Self {
        let mut command = command(dir, options);
        command.args(["--redis", "127.0.0.1:0"]).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut process = command.spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut after = |what: &str| -> SocketAddr {
            let line = lines.next().unwrap().unwrap();
            line.split_once(what).unwrap_or_else(|| panic!("{line}")).1.parse().unwrap()
        };
        let (http, redis) = (after(" at http://"), after("connect to "));
        Served { process, http, redis }
    }

    fn client(&self) -> Client {
        Client::connect(self.redis)
    }

    fn metrics(&self) -> String {
        let mut stream = TcpStream::connect(self.http).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

struct Client {
    stream: TcpStream,
    replies: BufReader<TcpStream>,
}

impl Client {
    fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let replies = BufReader::new(stream.try_clone().unwrap());
        Client { stream, replies }
    }

    fn ask(&mut self, line: &str) -> String {
        self.try_ask(line).unwrap()
    }

    /// Sends an inline command, and returns its reply as redis-cli shows it; `None` if the connection ends.
    fn try_ask(&mut self, line: &str) -> Option<String> {
        self.stream.write_all(format!("{line}\r\n").as_bytes()).ok()?;
        self.reply()
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        self.replies.read_line(&mut line).ok()?;
        line.strip_suffix("\r\n").map(str::to_owned)
    }

    fn reply(&mut self) -> Option<String> {
        let line = self.line()?;
        let rest = &line[1..];
        Some(match line.as_bytes()[0] {
            b'+' => rest.to_owned(),
            b'-' => format!("(error) {rest}"),
            b':' => format!("(integer) {rest}"),
            b'$' | b'*' if rest == "-1" => "(nil)".to_owned(),
            b'$' => {
                let mut bytes = vec![0; rest.parse::<usize>().unwrap() + 2];
                self.replies.read_exact(&mut bytes).ok()?;
                format!("{:?}", String::from_utf8_lossy(&bytes[..bytes.len() - 2]))
            }
            b'*' => {
                let count: usize = rest.parse().unwrap();
                let items: Option<Vec<String>> =
                    (1..=count).map(|at| self.reply().map(|reply| format!("{at}) {reply}"))).collect();
                items?.join("\n")
            }
            other => panic!("{other}: {line}"),
        })
    }
}

#[test]
fn the_session_of_the_guide_works() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::start(dir.path(), &[]);
    let mut client = served.client();
    let guide = include_str!("../../../../docs/redis.md");
    let session = guide.split("```text\n").nth(1).unwrap().split("```").next().unwrap();
    let mut asked = 0;
    for part in session.split("> ").filter(|part| !part.is_empty()) {
        let (command, expected) = part.split_once('\n').unwrap();
        let (reply, expected) = (client.ask(command), expected.trim_end_matches('\n'));
        // What is left of a minute may be less by the time that the machine was busy.
        let seconds = |reply: &str| reply.strip_prefix("(integer) ")?.parse::<i64>().ok();
        match (seconds(&reply), seconds(expected)) {
            (Some(left), Some(of)) if command.starts_with("TTL ") && of > 5 => {
                assert!((of - 5..=of).contains(&left), "{command}: {left}");
            }
            _ => assert_eq!(reply, expected, "{command}"),
        }
        asked += 1;
    }
    assert!(asked >= 15, "the guide has a session: {asked}");
    let metrics = served.metrics();
    assert!(metrics.contains("pando_redis_commands_total{command=\"incr\"} 1"), "{metrics}");
    assert!(metrics.contains("pando_redis_unknown_commands_total 1"), "{metrics}");
}

#[test]
fn the_guide_names_every_command() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::start(dir.path(), &[]);
    let all = served.client().ask("COMMAND LIST");
    let guide = include_str!("../../../../docs/redis.md");
    for line in all.lines() {
        let name = line.split('"').nth(1).unwrap().to_uppercase();
        let is_named = [format!("`{name}`"), format!("`{name} GET`")].iter().any(|name| guide.contains(name));
        assert!(is_named, "docs/redis.md does not name {name}");
    }
}

#[test]
fn tokens_of_the_directory_apply() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let create = |name: &str, options: &[&str]| {
        let words = ["token", "create", path, "--name", name].into_iter().chain(options.iter().copied());
        let said = text(pando(words));
        said.split_whitespace().find(|word| word.starts_with("pando_")).unwrap().to_owned()
    };
    let reads = create("reads", &["--scope", "read"]);
    let other = create("other", &["--scope", "write", "--database", "other"]);
    let writes = create("writes", &["--scope", "write", "--database", "default"]);
    let served = Served::start(dir.path(), &[]);
    let mut client = served.client();
    assert_eq!(client.ask("SET a 1"), "(error) NOAUTH Authentication required.");
    assert!(client.ask(&format!("AUTH {other}")).contains("WRONGPASS"));
    assert_eq!(client.ask(&format!("AUTH {reads}")), "OK");
    assert!(client.ask("SET a 1").contains("NOPERM"));
    assert_eq!(client.ask(&format!("AUTH user {writes}")), "OK");
    assert_eq!(client.ask("SET a 1"), "OK");
    text(pando(["token", "revoke", path, "writes"]));
    let until = std::time::Instant::now() + Duration::from_secs(20);
    while !client.ask("SET a 2").contains("NOAUTH") {
        assert!(std::time::Instant::now() < until, "a revoked token is refused soon");
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(served);
    let open = tempfile::tempdir().unwrap();
    let open = open.path().to_str().unwrap();
    let words = ["serve", open, "--listen", "127.0.0.1:0", "--redis", "0.0.0.0:0"];
    assert!(failure(pando(words), 2).contains("can be reached from other machines"), "without tokens");
}

/// In sync mode, with a bucket to which nothing can be shipped.
#[cfg(feature = "ship")]
#[test]
fn a_write_that_is_not_shipped_is_reported_once() {
    let dir = tempfile::tempdir().unwrap();
    let bucket = dir.path().join("bucket");
    std::fs::create_dir_all(bucket.join("default")).unwrap();
    std::fs::write(bucket.join("default/lineage"), "not a lineage").unwrap();
    let data = dir.path().join("data");
    // A directory with a database is not restored from the bucket.
    drop(Served::start(&data, &[]));
    let served = Served::start(&data, &["--ship", bucket.to_str().unwrap(), "--ship-mode", "sync"]);
    let said = served.client().ask("SET a 1");
    assert!(said.starts_with("(error) ERR the write is stored, but it is not shipped: "), "{said}");
    assert_eq!(said.matches("is stored").count(), 1, "{said}");
}

#[test]
fn a_bank_keeps_its_sum_when_the_server_is_killed() {
    const ACCOUNTS: u64 = 8;
    let dir = tempfile::tempdir().unwrap();
    let acknowledged = AtomicU64::new(0);
    for round in 0..3 {
        let mut served = Served::start(dir.path(), &[]);
        let mut client = served.client();
        if round == 0 {
            (0..ACCOUNTS)
                .for_each(|account| assert_eq!(client.ask(&format!("SET account:{account} 100")), "OK"));
        }
        let (address, before) = (served.redis, acknowledged.load(Ordering::SeqCst));
        let is_killed = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for seed in 1..=3u64 {
                let (acknowledged, is_killed) = (&acknowledged, &is_killed);
                scope.spawn(move || {
                    let mut client = Client::connect(address);
                    let mut random = seed + round * 100;
                    while transfer(&mut client, &mut random, ACCOUNTS, acknowledged).is_some() {}
                    assert!(is_killed.load(Ordering::SeqCst), "the connection ended too early");
                });
            }
            while acknowledged.load(Ordering::SeqCst) < before + 50 {
                std::thread::sleep(Duration::from_millis(1));
            }
            is_killed.store(true, Ordering::SeqCst);
            served.process.kill().unwrap();
        });
        drop(served);
        let served = Served::start(dir.path(), &[]);
        let mut client = served.client();
        let mut number =
            |key: &str| client.ask(&format!("GET {key}")).trim_matches('"').parse::<u64>().unwrap();
        let sum: u64 = (0..ACCOUNTS).map(|account| number(&format!("account:{account}"))).sum();
        assert_eq!(sum, 100 * ACCOUNTS);
        let (stored, known) = (number("transfers"), acknowledged.load(Ordering::SeqCst));
        // Each of three clients may not have heard of its last transfer, once in each round.
        assert!(
            (known..=known + 3 * (round + 1)).contains(&stored),
            "{stored} are stored, {known} were acknowledged"
        );
    }
}

/// Moves an amount between two accounts, and counts it in the same transaction. `None` if the connection ends.
fn transfer(client: &mut Client, random: &mut u64, accounts: u64, acknowledged: &AtomicU64) -> Option<()> {
    *random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    let (from, to) = ((*random >> 33) % accounts, (*random >> 40) % accounts);
    if from == to {
        return Some(());
    }
    client.try_ask(&format!("WATCH account:{from} account:{to}"))?;
    let mut read = |account: u64| -> Option<u64> {
        client.try_ask(&format!("GET account:{account}"))?.trim_matches('"').parse().ok()
    };
    let (a, b) = (read(from)?, read(to)?);
    client.try_ask("MULTI")?;
    if a > 0 {
        client.try_ask(&format!("SET account:{from} {}", a - 1))?;
        client.try_ask(&format!("SET account:{to} {}", b + 1))?;
        client.try_ask("INCR transfers")?;
    }
    let reply = client.try_ask("EXEC")?;
    if a > 0 && reply != "(nil)" {
        acknowledged.fetch_add(1, Ordering::SeqCst);
    }
    Some(())
}
