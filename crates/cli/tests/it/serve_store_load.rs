//! Two `pando serve` on one store, under load and under attack, judged by the checker of histories.
//!
//! 1. Eight clients run transactions on eight current lists, which they read and append to, and transfers between
//!    accounts: as batches with checks, and as interactive transactions. Half of them use each server.
//! 2. A proxy before the store delays requests and cuts connections, at each step of a request. One server is killed
//!    again and again, and PostgreSQL restarts twice, the second time as after a crash.
//! 3. A client that gets `indeterminate` asks for the outcome, twice. A client that gets no response, because its
//!    server was killed, does not know; what the lists show in the end decides, and must show all of its appends or
//!    none.
//! 4. The history must have no anomaly, and no sum of the accounts may differ.
//!
//! `PANDO_LOAD_SECONDS` sets how long it runs. On a slow machine it goes on until enough has happened to be judged.

#[path = "../../../pando/tests/isolation/histories/checker.rs"]
#[allow(dead_code)] // Its own tests use the rest.
mod checker;

use crate::http::{Client, Reply, Server};
use crate::proxy::Proxy;
use crate::serve_store::value;
use crate::server;
use base::env::Random;
use checker::{Element, End, Key, Op, Transaction, check};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const CLIENTS: u64 = 8;
const ACCOUNTS: u64 = 20;
const BALANCE: u64 = 100;
/// The lists that transactions use at a time. Others take their place, so that none grows long.
const LISTS: u64 = 8;
const APPENDS_TO_LISTS: u64 = 400;
/// The proxy cuts one in so many requests to the store, and delays some.
const CUT_ONE_IN: u64 = 300;

/// The least that a run must have seen: restarts of the store, kills of a server, committed transactions.
const LEAST_RESTARTS: u32 = 2;
const LEAST_KILLS: u32 = 3;
const LEAST_APPENDED: u64 = 50;
const LEAST_TRANSFERRED: u64 = 20;
/// How much longer than asked for a run may take to see that.
const MOST_EXTRA: Duration = Duration::from_secs(240);

/// What became of a transaction, as far as its client knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Known {
    Committed,
    Aborted,
    /// There was no response.
    Unknown,
}

/// What the clients share.
struct Load {
    steady: SocketAddr,
    /// The address of the server that is killed, which changes.
    other: Mutex<SocketAddr>,
    is_over: AtomicBool,
    clock: AtomicU64,
    appends: AtomicU64,
    history: Mutex<Vec<(Transaction, Known)>>,
    transfers: Mutex<BTreeMap<Known, u64>>,
    /// The commits that were in doubt and did happen, and those that did not.
    resolved: [AtomicU64; 2],
}

impl Load {
    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// Connects client `number` to its server.
    fn connect(&self, number: u64) -> io::Result<Client> {
        let address = if number.is_multiple_of(2) { self.steady } else { *self.other.lock().unwrap() };
        let stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        stream.set_nodelay(true)?;
        Ok(Client { stream: BufReader::new(stream) })
    }

    /// Returns what a response to a commit says. If the commit is in doubt, it asks, at the server that stays.
    fn outcome(&self, reply: io::Result<Reply>) -> Known {
        let Ok(reply) = reply else { return Known::Unknown };
        match reply.status {
            200 => Known::Committed,
            500 => {
                assert_eq!(value(&reply)["type"], "urn:pando:problem:indeterminate", "{}", reply.text());
                let commit = value(&reply)["commit"].as_str().unwrap().to_owned();
                let outcomes = [self.resolve(&commit), self.resolve(&commit)];
                assert_eq!(outcomes[0], outcomes[1], "{commit}");
                self.resolved[usize::from(!outcomes[0])].fetch_add(1, Ordering::SeqCst);
                if outcomes[0] { Known::Committed } else { Known::Aborted }
            }
            404 | 409 | 412 | 503 | 504 => Known::Aborted,
            status => panic!("{status}: {}", reply.text()),
        }
    }

    /// Returns whether enough transactions have committed to be judged.
    fn has_enough(&self) -> bool {
        let history = self.history.lock().unwrap();
        let appended = history.iter().filter(|(_, known)| *known == Known::Committed).count() as u64;
        let transferred = self.transfers.lock().unwrap().get(&Known::Committed).copied().unwrap_or(0);
        appended > LEAST_APPENDED && transferred > LEAST_TRANSFERRED
    }

    fn resolve(&self, commit: &str) -> bool {
        let begun = Instant::now();
        loop {
            let path = format!("/v1/databases/default/commits/{commit}/outcome");
            let reply = Client::connect(self.steady).ask("POST", &path, &[], b"");
            match reply.status {
                200 => return value(&reply)["committed"].as_bool().unwrap(),
                503 => assert!(begun.elapsed() < Duration::from_secs(60), "{}", reply.text()),
                status => panic!("{status}: {}", reply.text()),
            }
        }
    }
}

/// A client, with its random numbers.
struct Worker<'l> {
    load: &'l Load,
    number: u64,
    made: u64,
    random: Random,
}

impl Worker<'_> {
    fn run(mut self) {
        while !self.load.is_over.load(Ordering::SeqCst) {
            let Ok(mut client) = self.load.connect(self.number) else {
                thread::sleep(Duration::from_millis(5));
                continue;
            };
            match self.random.below(10) {
                0..4 => self.append_in_a_batch(&mut client),
                4..7 => self.append_interactively(&mut client),
                _ => self.transfer(&mut client),
            }
        }
    }

    /// Returns some of the current lists.
    fn lists(&mut self) -> Vec<Key> {
        let first = self.load.appends.load(Ordering::SeqCst) / APPENDS_TO_LISTS * LISTS;
        let count = 1 + self.random.below(3);
        let chosen: BTreeSet<_> = (0..count).map(|_| (first + self.random.below(LISTS)) as Key).collect();
        chosen.into_iter().collect()
    }

    fn element(&mut self) -> Element {
        self.made += 1;
        self.load.appends.fetch_add(1, Ordering::SeqCst);
        self.number * 1_000_000_000 + self.made
    }

    fn note(&self, ops: Vec<Op>, began: u64, known: Known) {
        let end = if known == Known::Committed { End::Committed } else { End::Aborted };
        let transaction = Transaction { ops, end, began, ended: self.load.now() };
        self.load.history.lock().unwrap().push((transaction, known));
    }

    /// Reads lists, and appends to some of them in a batch that checks all that was read.
    fn append_in_a_batch(&mut self, client: &mut Client) {
        let (keys, began) = (self.lists(), self.load.now());
        let query: Vec<_> = keys.iter().map(|key| format!("key={}", list(*key))).collect();
        let found = client.try_ask("GET", &format!("{TABLE}?{}", query.join("&")), &[], b"");
        let Some(found) = found.ok().filter(|reply| reply.status == 200) else { return };
        let lines = found.text().lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let values: Vec<Option<String>> =
            lines.map(|line| line["value"].as_str().map(str::to_owned)).collect();
        assert_eq!(values.len(), keys.len(), "{}", found.text());
        let (mut ops, mut operations) = (Vec::new(), Vec::new());
        for (key, value) in keys.into_iter().zip(values) {
            let name = list(key);
            operations.push(match &value {
                Some(value) => json!({ "op": "check", "table": "t", "key": name, "value": value }),
                None => json!({ "op": "check", "table": "t", "key": name, "absent": true }),
            });
            ops.push(Op::Read(key, elements(value.as_deref().unwrap_or_default())));
            if self.random.below(3) > 0 {
                let element = self.element();
                let longer = appended(value.as_deref().unwrap_or_default(), element);
                operations.push(json!({ "op": "put", "table": "t", "key": name, "value": longer }));
                ops.push(Op::Append(key, element));
            }
        }
        let known = self.batch(client, operations);
        self.note(ops, began, known);
    }

    fn batch(&self, client: &mut Client, operations: Vec<Value>) -> Known {
        let body = json!({ "operations": operations }).to_string();
        self.load.outcome(client.try_ask("POST", &format!("{DB}/batch"), &[], body.as_bytes()))
    }

    /// Reads lists in a transaction, appends to some of them, and reads them again at times.
    fn append_interactively(&mut self, client: &mut Client) {
        let (keys, began) = (self.lists(), self.load.now());
        let begun = client.try_ask("POST", &format!("{DB}/transactions"), &[], b"");
        // Over the limit of transactions, or the server was killed.
        let Some(begun) = begun.ok().filter(|reply| reply.status == 201) else { return };
        let token = value(&begun)["transaction"].as_str().unwrap().to_owned();
        let mut ops = Vec::new();
        if !self.work(client, &token, &keys, &mut ops) {
            // It ends by itself if the server no longer runs.
            let _ = client.try_ask("DELETE", &format!("{DB}/transactions/{token}"), &[], b"");
            return self.note(ops, began, Known::Aborted);
        }
        let reply = client.try_ask("POST", &format!("{DB}/transactions/{token}/commit"), &[], b"");
        let known = self.load.outcome(reply);
        self.note(ops, began, known);
    }

    /// Returns whether all requests of the transaction were successful.
    fn work(&mut self, client: &mut Client, token: &str, keys: &[Key], ops: &mut Vec<Op>) -> bool {
        let within = [("pando-transaction", token)];
        for &key in keys {
            let path = format!("{TABLE}/{}", list(key));
            let Ok(reply) = client.try_ask("GET", &path, &within, b"") else { return false };
            let found = match reply.status {
                200 => reply.text().to_owned(),
                404 if reply.body.is_empty() => String::new(),
                _ => return false,
            };
            ops.push(Op::Read(key, elements(&found)));
            if self.random.below(3) == 0 {
                continue;
            }
            let element = self.element();
            let longer = appended(&found, element);
            let put = client.try_ask("PUT", &path, &within, longer.as_bytes());
            if !put.is_ok_and(|reply| reply.status == 204) {
                return false;
            }
            ops.push(Op::Append(key, element));
        }
        true
    }

    /// Moves money from one account to another.
    fn transfer(&mut self, client: &mut Client) {
        let (from, to) = (self.random.below(ACCOUNTS), self.random.below(ACCOUNTS));
        let mut balance = |account: u64| -> Option<u64> {
            let reply = client.try_ask("GET", &format!("{DB}/tables/bank/entries/{account}"), &[], b"");
            reply.ok().filter(|reply| reply.status == 200)?.text().parse().ok()
        };
        let (Some(has), Some(gets)) = (balance(from), balance(to)) else { return };
        let sum = 1 + self.random.below(20);
        let Some(rest) = has.checked_sub(sum).filter(|_| from != to) else { return };
        let operations = vec![
            balanced("check", from, has),
            balanced("check", to, gets),
            balanced("put", from, rest),
            balanced("put", to, gets + sum),
        ];
        let known = self.batch(client, operations);
        *self.load.transfers.lock().unwrap().entry(known).or_default() += 1;
    }
}

/// Returns an operation of a batch on an account.
fn balanced(op: &str, account: u64, balance: u64) -> Value {
    json!({ "op": op, "table": "bank", "key": account.to_string(), "value": balance.to_string() })
}

const DB: &str = "/v1/databases/default";
const TABLE: &str = "/v1/databases/default/tables/t/entries";

fn list(key: Key) -> String {
    format!("{key:08}")
}

fn elements(value: &str) -> Vec<Element> {
    value.split_terminator(' ').map(|element| element.parse().expect("an element")).collect()
}

fn appended(value: &str, element: Element) -> String {
    format!("{value}{element} ")
}

/// Returns the records of a table; `None` if the store does not respond at the moment.
fn records(client: &mut Client, table: &str) -> Option<Vec<(String, String)>> {
    let reply = client.try_ask("GET", &format!("{DB}/tables/{table}/entries"), &[], b"").ok()?;
    let lines = reply.text().lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let text = |line: &Value, name: &str| line[name].as_str().unwrap().to_owned();
    (reply.status == 200).then(|| lines.map(|line| (text(&line, "key"), text(&line, "value"))).collect())
}

#[track_caller]
fn check_sum(client: &mut Client) -> bool {
    let Some(accounts) = records(client, "bank") else { return false };
    let sum: u64 = accounts.iter().map(|(_, balance)| balance.parse::<u64>().unwrap()).sum();
    assert_eq!((accounts.len() as u64, sum), (ACCOUNTS, ACCOUNTS * BALANCE), "{accounts:?}");
    true
}

/// Decides about the transactions whose clients had no response, by what the lists hold in the end.
fn decide(history: Vec<(Transaction, Known)>, lists: &BTreeSet<Element>) -> Vec<Transaction> {
    let decided = history.into_iter().map(|(mut transaction, known)| {
        if known == Known::Unknown {
            let appended = transaction.ops.iter().filter_map(|op| match op {
                Op::Append(_, element) => Some(lists.contains(element)),
                Op::Read(..) => None,
            });
            let shown: Vec<bool> = appended.collect();
            assert!(shown.windows(2).all(|pair| pair[0] == pair[1]), "in part: {transaction:?}");
            if shown.first() == Some(&true) {
                (transaction.end, transaction.ended) = (End::Committed, u64::MAX);
            }
        }
        transaction
    });
    decided.collect()
}

#[test]
fn two_servers_under_attack_show_no_anomaly() {
    let seconds = std::env::var("PANDO_LOAD_SECONDS").map_or(12, |text| text.parse().expect("seconds"));
    let time = Duration::from_secs(seconds);
    let Some(mut postgres) = server::Server::start() else { return };
    let (proxy, dir) = (Proxy::start(&postgres.dir), tempfile::tempdir().unwrap());
    let url = server::url(&proxy.dir);
    let serve = |dir: &Path| {
        let options = ["--store", &url, "--store-connections", "14", "--store-timeout", "5"];
        Server::start_with(dir, &options)
    };
    let steady = serve(dir.path());
    let mut client = steady.connect();
    for table in ["t", "bank"] {
        assert_eq!(client.ask("PUT", &format!("{DB}/tables/{table}"), &[], b"").status, 201);
    }
    for account in 0..ACCOUNTS {
        let path = format!("{DB}/tables/bank/entries/{account}");
        assert_eq!(client.ask("PUT", &path, &[], BALANCE.to_string().as_bytes()).status, 204);
    }
    let mut killed = serve(dir.path());
    let load = Load {
        steady: steady.address,
        other: Mutex::new(killed.address),
        is_over: AtomicBool::new(false),
        clock: AtomicU64::new(0),
        appends: AtomicU64::new(0),
        history: Mutex::default(),
        transfers: Mutex::default(),
        resolved: Default::default(),
    };
    let (mut kills, mut restarts, mut sums) = (0, 0, 0);
    let is_done = |elapsed: Duration, kills: u32, restarts: u32| {
        let has_enough = || kills >= LEAST_KILLS && restarts >= LEAST_RESTARTS && load.has_enough();
        elapsed >= time && (elapsed >= time + MOST_EXTRA || has_enough())
    };
    let begun = Instant::now();
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let worker = Worker { load: &load, number, made: 0, random: Random::seeded(number) };
            scope.spawn(move || worker.run());
        }
        let _over = Over(&load.is_over);
        while !is_done(begun.elapsed(), kills, restarts) {
            proxy.set_rough(CUT_ONE_IN);
            thread::sleep(Duration::from_millis(800));
            sums += u64::from(check_sum(&mut steady.connect()));
            if begun.elapsed() * 3 > time * (restarts + 1) && restarts < LEAST_RESTARTS {
                postgres.restart(if restarts == 0 { "fast" } else { "immediate" });
                restarts += 1;
            }
            killed.kill();
            kills += 1;
            // A server that cannot reach the store does not start.
            proxy.set_rough(0);
            killed = serve(dir.path());
            *load.other.lock().unwrap() = killed.address;
        }
    });
    let seconds = begun.elapsed().as_secs();
    proxy.set_rough(0);
    // What a killed server had sent to the store may still be on its way.
    thread::sleep(Duration::from_secs(1));
    assert!(check_sum(&mut client) || check_sum(&mut steady.connect()));
    let began = load.now();
    let lists = records(&mut steady.connect(), "t").expect("the store responds");
    let lists: Vec<_> = lists.iter().map(|(key, value)| (key.parse().unwrap(), elements(value))).collect();
    let shown: BTreeSet<Element> = lists.iter().flat_map(|(_, list)| list.iter().copied()).collect();
    let history = load.history.into_inner().unwrap();
    let count = |wanted: Known| history.iter().filter(|(_, known)| *known == wanted).count() as u64;
    let (committed, aborted, unknown) =
        (count(Known::Committed), count(Known::Aborted), count(Known::Unknown));
    let mut judged = decide(history, &shown);
    let ops = lists.into_iter().map(|(key, list)| Op::Read(key, list)).collect();
    judged.push(Transaction { ops, end: End::Committed, began, ended: began + 1 });
    let anomalies = check(&judged);
    let transfers = load.transfers.into_inner().unwrap();
    let resolved = load.resolved.map(AtomicU64::into_inner);
    println!(
        "{seconds} s, {kills} kills, {restarts} restarts of the store, {} transactions: on lists {committed} \
         committed, {aborted} aborted, {unknown} without a response; transfers {transfers:?}; {sums} sums; in doubt \
         {} committed, {} not; {} anomalies",
        judged.len() as u64 - 1 + transfers.values().sum::<u64>(),
        resolved[0],
        resolved[1],
        anomalies.len()
    );
    let first_five: Vec<_> = anomalies.iter().take(5).map(ToString::to_string).collect();
    assert!(anomalies.is_empty(), "{first_five:#?}");
    let transferred = transfers.get(&Known::Committed).copied().unwrap_or(0);
    assert_eq!(restarts, LEAST_RESTARTS);
    assert!(kills >= LEAST_KILLS && committed > LEAST_APPENDED && transferred > LEAST_TRANSFERRED);
}

/// Ends the clients, also if an assertion fails.
struct Over<'l>(&'l AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
