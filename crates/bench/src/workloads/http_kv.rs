//! `http-kv`: single records over HTTP, by the `/v0` contract, with a server in a process of its own.
//!
//! * n (100,000) records of 16 hexadecimal digits and 1 KiB (`--value-bytes`), in a new server; Buffered, then Sync, or
//!   what `--durability` says. Every response is checked, values by their length and number.
//! * For each of PUT, GET hit, GET miss and DELETE of random records: as fast as possible on 1 and on 64 connections,
//!   `--seconds` (5) each. Then on 64 with a pace: each request is due at its time, and its latency counts from then.
//!   `knee` is at the highest rate with a p99 that is still flat, and `paced` at 70% of that.
//! * The knee is searched between a tenth of the unpaced rate and all of it. Clients that wait for one another's
//!   responses are served in batches, and are faster than independent ones. A p99 is flat if it is at most twice that
//!   at the tenth, or a millisecond more than that, in one of two tries. The tenth is the best of five tries, because
//!   it decides what counts as flat. A short disturbance of the machine only ever adds, and is not a knee. After a try
//!   the server has some time to finish its remaining work. `tried_per_s` and `tried_p99_ns` have the measurements of
//!   the search. With `--rate` there is no search, and all paced requests use that rate, to compare servers.
//! * `put, long`: six PUTs for each record (600,000), paced at the same rate, with their latencies second by second,
//!   and the number of checkpoints meanwhile. There are three rounds. The row is the one with the median p99; the p99
//!   and p99.9 of all rounds are in `p99_by_round_ns` and `p999_by_round_ns`. A machine that stalls for 20 ms
//!   determines the p99.9 of one round.
//! * `get hit, paced, beside ...`: the same while 10,000 idle connections are open, and while 200 clients send a byte
//!   of their head at a time and 8 send bodies without an end. Each of them and the GETs alone take turns, in five
//!   rounds. Each row is the round with the median p99, with all of them in `p99_by_round_ns`, because chance decides
//!   that of one second.
//! * With Sync, `raw sync`: 4 KiB written over a file of fixed size and synced, in the same directory, before and
//!   after: the speed of the disk. `raw sync, during put, paced` and `... long` are the same, 250 times a second,
//!   during those PUTs: the speed of the disk and the scheduler under that load. `due_p50_ns` and so on count from the
//!   time when each was due, as the PUTs' latencies do, because a stall delays everything that is due meanwhile.

use crate::bed::Place;
use crate::http::connection::Reply;
use crate::http::crowd::Crowd;
use crate::http::disk::{Beside, time_syncs};
use crate::http::load::{self, Pace, Requests, Seen};
use crate::http::server::Server;
use crate::measure::{Usage, latencies};
use crate::records::Records;
use crate::report::{Figure, Row};
use crate::settings::{Durability, Settings};
use crate::{Failure, Outcome, ensure};
use base::env::Random;
use hdrhistogram::Histogram;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::thread;
use std::time::Duration;

pub(super) const NAME: &str = "http-kv";
const DEFAULT_N: u64 = 100_000;
const KEY_BYTES: usize = 8;
const VALUE_BYTES: usize = 1024;
const SECONDS: f64 = 5.0;
const CONNECTIONS: usize = 64;
/// The fraction of the knee at which paced requests are sent.
const SHARE_OF_KNEE: f64 = 0.7;
/// The fraction of the unpaced rate at which the search for the knee begins.
const LEAST_SHARE: f64 = 0.1;
/// The number of bisections: the knee is found to 3% of the unpaced rate.
const KNEE_STEPS: u32 = 5;
/// How often a rate is tried.
const KNEE_TRIES: usize = 2;
/// How often the least rate is tried, with whose p99 all others are compared. A disturbed one would call twice that
/// flat.
const LEAST_TRIES: usize = 5;
/// The pause before the next try, as a fraction of the time of the last one, for a merge of what it wrote.
const SETTLES: f64 = 0.25;
/// The rise of a p99 that is allowed in any case.
const FLAT_NS: u64 = 1_000_000;
/// The PUTs of the long case, for each record.
const LONG_PER_RECORD: u64 = 6;
/// The number of rounds of the long case.
const LONG_ROUNDS: usize = 3;
/// The number of requests for each record after which a case ends, so that small inputs take little time.
const MOST_PER_RECORD: u64 = 5;
/// The time limit of a case that ends by its number of requests.
const NO_END: Duration = Duration::from_secs(86_400);
const IDLE: u64 = 10_000;
const SLOW: u64 = 200;
const ENDLESS: u64 = 8;
/// The number of rounds in which GETs are measured beside each crowd.
const CROWD_ROUNDS: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Load,
    Put,
    Hit,
    Miss,
    Delete,
}

impl Kind {
    /// The kinds that are measured. The last one removes what the others need.
    const MEASURED: [Kind; 4] = [Kind::Put, Kind::Hit, Kind::Miss, Kind::Delete];

    fn name(self) -> &'static str {
        match self {
            Kind::Load => "load",
            Kind::Put => "put",
            Kind::Hit => "get hit",
            Kind::Miss => "get miss",
            Kind::Delete => "delete",
        }
    }

    fn status(self) -> u16 {
        match self {
            Kind::Load | Kind::Put => 201,
            Kind::Hit => 200,
            Kind::Miss => 404,
            Kind::Delete => 202,
        }
    }
}

pub(super) fn run(settings: &Settings) -> Outcome<Vec<Row>> {
    let both = [Durability::Buffered, Durability::Sync];
    let chosen = settings.durability.as_ref().map_or(&both[..], std::slice::from_ref);
    let mut rows = Vec::new();
    for &durability in chosen {
        rows.extend(serve(settings, durability)?);
    }
    Ok(rows)
}

fn serve(settings: &Settings, durability: Durability) -> Outcome<Vec<Row>> {
    let place = Place::new(settings)?;
    let memory = settings.memory.map(|bytes| bytes.to_string());
    let mut options = vec!["--durability", durability.name()];
    options.extend(memory.iter().flat_map(|bytes| ["--memory", bytes]));
    let mut disk = (durability == Durability::Sync).then(latencies);
    disk.iter_mut().try_for_each(|taken| time_syncs(place.path(), "blocks before", taken))?;
    let server = Server::start(settings.server.as_deref(), &place.path().join("data"), &options)?;
    let run = Run {
        server: &server,
        dir: place.path(),
        settings,
        durability: durability.name(),
        n: settings.n.unwrap_or(DEFAULT_N),
        records: Records::new(settings.seed, KEY_BYTES, settings.value_bytes.unwrap_or(VALUE_BYTES).max(8)),
    };
    let mut rows = run.all()?;
    drop(server);
    disk.iter_mut().try_for_each(|taken| time_syncs(place.path(), "blocks after", taken))?;
    rows.extend(disk.map(|taken| disk_row("raw sync", &taken)));
    Ok(rows)
}

struct Run<'a> {
    server: &'a Server,
    /// The server's directory, with space for files beside it.
    dir: &'a Path,
    settings: &'a Settings,
    durability: &'static str,
    n: u64,
    records: Records,
}

impl Run<'_> {
    fn all(&self) -> Outcome<Vec<Row>> {
        let whole = Pace { most: self.n, time: NO_END, ..self.pace(CONNECTIONS, None) };
        let mut rows = vec![self.row("load, 64 connections", Kind::Load, whole)?.0];
        for kind in Kind::MEASURED {
            let rate = match self.settings.rate {
                Some(rate) => rate as f64,
                None => self.unpaced(kind, &mut rows)? * SHARE_OF_KNEE,
            };
            if kind == Kind::Delete {
                self.row("load again", Kind::Load, whole)?;
            }
            let paced = self.pace(CONNECTIONS, Some(rate));
            let row = || Ok(self.row(&format!("{}, paced", kind.name()), kind, paced)?.0);
            match kind {
                Kind::Put => {
                    rows.extend(self.beside_syncs("paced", row)?);
                    rows.extend(self.long_rounds(rate)?);
                }
                Kind::Hit => rows.extend(self.beside_crowds(paced)?),
                _ => rows.push(row()?),
            }
        }
        Ok(rows)
    }

    /// Runs the PUTs of the case `how`, and with Sync also measures raw syncs meanwhile.
    fn beside_syncs(&self, how: &str, puts: impl FnOnce() -> Outcome<Row>) -> Outcome<Vec<Row>> {
        if self.durability != Durability::Sync.name() {
            return Ok(vec![puts()?]);
        }
        let blocks = format!("blocks during {how}");
        let beside = Beside::start(self.dir, &blocks)?;
        let row = puts()?;
        let syncs = beside.end()?;
        fs::remove_file(self.dir.join(&blocks))?;
        let due = |quantile| syncs.from_due.value_at_quantile(quantile);
        let beside = disk_row(&format!("raw sync, during put, {how}"), &syncs.taken)
            .with("due_p50_ns", due(0.5))
            .with("due_p99_ns", due(0.99))
            .with("due_p999_ns", due(0.999))
            .with("due_max_ns", syncs.from_due.max());
        Ok(vec![row, beside])
    }

    /// Measures requests without a pace, and the knee, whose rate is returned.
    fn unpaced(&self, kind: Kind, rows: &mut Vec<Row>) -> Outcome<f64> {
        let alone = format!("{}, 1 connection", kind.name());
        rows.push(self.row(&alone, kind, self.pace(1, None))?.0);
        let fast = format!("{}, 64 connections", kind.name());
        let (row, unpaced) = self.row(&fast, kind, self.pace(CONNECTIONS, None))?;
        rows.push(row);
        let (row, knee) = self.knee(kind, unpaced)?;
        rows.push(row);
        Ok(knee)
    }

    /// Finds the highest rate at which the p99 is flat: see the module.
    fn knee(&self, kind: Kind, unpaced: f64) -> Outcome<(Row, f64)> {
        let mut tries = Tries { run: self, kind, unpaced, per_s: Vec::new(), p99_ns: Vec::new() };
        let mut best = tries.at(LEAST_SHARE, LEAST_TRIES, 0)?;
        let least_ns = p99_ns(&best.1);
        let limit_ns = least_ns + least_ns.max(FLAT_NS);
        let (mut flat, mut above) = (LEAST_SHARE, 1.0);
        for _ in 0..KNEE_STEPS {
            let share = (flat + above) / 2.0;
            let tried = tries.at(share, KNEE_TRIES, limit_ns)?;
            if p99_ns(&tried.1) <= limit_ns {
                (flat, best) = (share, tried);
            } else {
                above = share;
            }
        }
        let row = self.figures(&format!("{}, knee", kind.name()), best.0, &best.1);
        let row = row.over_time("tried_per_s", tries.per_s).over_time("tried_p99_ns", tries.p99_ns);
        Ok((row, unpaced * flat))
    }

    fn pace(&self, connections: usize, rate: Option<f64>) -> Pace {
        let time = Duration::from_secs_f64(self.settings.seconds.unwrap_or(SECONDS));
        Pace { connections, rate, time, most: self.n * MOST_PER_RECORD }
    }

    /// Runs rounds of [`Run::long`], each beside raw syncs with Sync.
    fn long_rounds(&self, rate: f64) -> Outcome<Vec<Row>> {
        let round = |_| self.beside_syncs("long", || self.long(rate));
        let mut rounds = (0..LONG_ROUNDS).map(round).collect::<Outcome<Vec<_>>>()?;
        let ns = |row: &Row, name: &str| match row.figure(name) {
            Some(Figure::Count(ns)) => ns,
            _ => unreachable!("every row has its percentiles"),
        };
        let of_all = |at: usize, name: &str| rounds.iter().map(|rows| ns(&rows[at], name)).collect();
        let tails: Vec<[Vec<u64>; 2]> =
            (0..rounds[0].len()).map(|at| ["p99_ns", "p999_ns"].map(|name| of_all(at, name))).collect();
        rounds.sort_by_key(|rows| ns(&rows[0], "p99_ns"));
        let median = rounds.swap_remove(LONG_ROUNDS / 2);
        let with_tails = |(row, [p99, p999]): (Row, [Vec<u64>; 2])| {
            row.over_time("p99_by_round_ns", p99).over_time("p999_by_round_ns", p999)
        };
        Ok(median.into_iter().zip(tails).map(with_tails).collect())
    }

    /// Measures PUTs across checkpoints, over time.
    fn long(&self, rate: f64) -> Outcome<Row> {
        let most = self.settings.iterations.unwrap_or(self.n * LONG_PER_RECORD);
        let number = |name: &str| {
            Ok::<_, Failure>(self.server.stats()?.get(name).and_then(|n| n.as_u64()).unwrap_or(0))
        };
        let before = number("checkpoints")?;
        let pace = Pace { connections: CONNECTIONS, rate: Some(rate), time: NO_END, most };
        let seen = self.requests(Kind::Put, pace)?;
        let checkpoints = number("checkpoints")? - before;
        let of_second = |get: fn(&load::Second) -> u64| seen.by_second.iter().map(get).collect::<Vec<_>>();
        Ok(self
            .figures("put, long", pace, &seen)
            .with("checkpoints", checkpoints)
            .over_time("puts_by_second", of_second(|second| second.count))
            .over_time("p50_by_second_ns", of_second(|second| second.p50_ns))
            .over_time("p99_by_second_ns", of_second(|second| second.p99_ns))
            .over_time("max_by_second_ns", of_second(|second| second.max_ns)))
    }

    /// Measures GETs alone, and while crowds occupy the server. With few records the crowds are smaller.
    fn beside_crowds(&self, pace: Pace) -> Outcome<[Row; 3]> {
        let scaled = |count: u64| (count * self.n / DEFAULT_N).clamp(1, count) as usize;
        let mut rounds = [const { Vec::new() }; 3];
        for _ in 0..CROWD_ROUNDS {
            rounds[0].push(self.requests(Kind::Hit, pace)?);
            let before = self.server.connections()?;
            let idle = Crowd::idle(self.server.address, scaled(IDLE))?;
            self.server.await_connections(|count| count >= before + scaled(IDLE) as u64)?;
            rounds[1].push(self.requests(Kind::Hit, pace)?);
            drop(idle);
            self.server.await_connections(|count| count <= before)?;
            let senders = Crowd::senders(self.server.address, scaled(SLOW), scaled(ENDLESS))?;
            rounds[2].push(self.requests(Kind::Hit, pace)?);
            drop(senders);
            self.server.await_connections(|count| count <= before)?;
        }
        let [alone, idle, senders] = rounds;
        let beside_idle = format!("get hit, paced, beside {IDLE} idle connections");
        let beside_senders =
            format!("get hit, paced, beside {SLOW} slow clients and {ENDLESS} endless bodies");
        Ok([
            self.median_round("get hit, paced", pace, alone),
            self.median_round(&beside_idle, pace, idle),
            self.median_round(&beside_senders, pace, senders),
        ])
    }

    /// Returns the round with the median p99, with those of all rounds.
    fn median_round(&self, case: &str, pace: Pace, mut rounds: Vec<Seen>) -> Row {
        let by_round = rounds.iter().map(p99_ns).collect();
        rounds.sort_by_key(p99_ns);
        self.figures(case, pace, &rounds[rounds.len() / 2]).over_time("p99_by_round_ns", by_round)
    }

    /// Measures a case. Returns its row and its rate.
    fn row(&self, case: &str, kind: Kind, pace: Pace) -> Outcome<(Row, f64)> {
        let seen = self.requests(kind, pace)?;
        Ok((self.figures(case, pace, &seen), seen.rate()))
    }

    fn requests(&self, kind: Kind, pace: Pace) -> Outcome<Seen> {
        let random = Random::seeded(self.settings.seed ^ kind as u64 ^ (pace.connections as u64) << 8);
        let (key, value) = (Vec::new(), Vec::new());
        let mut asked = Asked { kind, records: self.records, n: self.n, random, key, value };
        load::run(self.server.address, pace, &mut asked)
    }

    fn figures(&self, case: &str, pace: Pace, seen: &Seen) -> Row {
        let usage = Usage {
            seconds: seen.seconds,
            peak_memory_bytes: self.server.peak_memory_bytes(),
            ..Usage::default()
        };
        let row = Row::new(NAME, case, self.durability, seen.latencies.len(), usage);
        let row = row.threads(pace.connections).with("requests_per_s", seen.rate());
        percentiles(row, &seen.latencies)
    }
}

/// The search for a knee.
struct Tries<'a> {
    run: &'a Run<'a>,
    kind: Kind,
    /// The unpaced requests per second.
    unpaced: f64,
    /// The rates that were tried, in order, and their p99.
    per_s: Vec<u64>,
    p99_ns: Vec<u64>,
}

impl Tries<'_> {
    /// Tries this share of the unpaced rate until the p99 is at most `enough_ns`, at most `tries` times. Returns the
    /// best try.
    fn at(&mut self, share: f64, tries: usize, enough_ns: u64) -> Outcome<(Pace, Seen)> {
        let pace = self.run.pace(CONNECTIONS, Some(self.unpaced * share));
        let mut best: Option<Seen> = None;
        for _ in 0..tries {
            let seen = self.run.requests(self.kind, pace)?;
            thread::sleep(Duration::from_secs_f64(seen.seconds * SETTLES));
            self.per_s.push((self.unpaced * share) as u64);
            self.p99_ns.push(p99_ns(&seen));
            if best.as_ref().is_none_or(|best| p99_ns(&seen) < p99_ns(best)) {
                best = Some(seen);
            }
            if best.as_ref().is_some_and(|best| p99_ns(best) <= enough_ns) {
                break;
            }
        }
        Ok((pace, best.expect("it was tried")))
    }
}

fn p99_ns(seen: &Seen) -> u64 {
    seen.latencies.value_at_quantile(0.99)
}

fn percentiles(row: Row, taken: &Histogram<u64>) -> Row {
    let at = |quantile| taken.value_at_quantile(quantile);
    row.with("p50_ns", at(0.5))
        .with("p90_ns", at(0.9))
        .with("p99_ns", at(0.99))
        .with("p999_ns", at(0.999))
        .with("max_ns", taken.max())
}

/// Requests of one kind.
struct Asked {
    kind: Kind,
    records: Records,
    n: u64,
    random: Random,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Requests for Asked {
    fn write(&mut self, number: u64, out: &mut Vec<u8>) -> u64 {
        let record = match self.kind {
            Kind::Load => number,
            Kind::Miss => self.n + self.random.below(self.n),
            Kind::Put | Kind::Hit | Kind::Delete => self.random.below(self.n),
        };
        self.records.key(record, &mut self.key);
        let method = match self.kind {
            Kind::Load | Kind::Put => "PUT",
            Kind::Hit | Kind::Miss => "GET",
            Kind::Delete => "DELETE",
        };
        let id = u64::from_be_bytes(*self.key.first_chunk().expect("keys have 8 bytes"));
        let into_memory = "memory takes everything";
        write!(out, "{method} /v0/entity?id={id:016x} HTTP/1.1\r\nhost: bench\r\n").expect(into_memory);
        if method == "PUT" {
            self.records.value(record, &mut self.value);
            write!(out, "content-length: {}\r\n\r\n", self.value.len()).expect(into_memory);
            out.extend_from_slice(&self.value);
        } else {
            out.extend_from_slice(b"\r\n");
        }
        record
    }

    fn check(&mut self, record: u64, reply: Reply<'_>) -> Outcome<()> {
        let name = self.kind.name();
        ensure(reply.status == self.kind.status(), || format!("{name} was answered with {}", reply.status))?;
        let right = self.kind != Kind::Hit || self.records.is_value_of(record, reply.body);
        ensure(right, || format!("record {record} has another value"))
    }
}

fn disk_row(case: &str, taken: &Histogram<u64>) -> Row {
    let seconds = taken.mean() * taken.len() as f64 / 1e9;
    let usage = Usage { seconds, peak_memory_bytes: crate::measure::resident_bytes(), ..Usage::default() };
    percentiles(Row::new(NAME, case, "sync", taken.len(), usage), taken)
}
