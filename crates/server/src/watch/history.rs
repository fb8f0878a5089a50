//! The last hour in figures, so that a chart is full when its page is opened.
//!
//! 1. Time is cut into steps of [`STEP`], numbered since the start of the server. The thread that looks after the
//!    server every second takes one point for each step: counts since the point before, and sizes at that moment. A
//!    request costs nothing more, because what it counts is counted anyway.
//! 2. A step in which that thread did not run, because the machine was suspended for example, has no point (null).
//! 3. Memory is bounded: [`POINTS`] points of the server, about 100 KiB, and as many of each of at most
//!    [`MOST_DATABASES`] databases, about 50 KiB each. A database that was closed for the whole hour is forgotten. If
//!    there are more, the one that was closed longest ago is.

use crate::watch::observe::{BUCKETS, Kind, Observed, bucket_end_ns};
use pando::Stats;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The time between two points.
pub const STEP: Duration = Duration::from_secs(5);
/// The number of points that are kept: one hour.
pub const POINTS: usize = 720;
/// The largest number of databases whose points are kept.
const MOST_DATABASES: usize = 64;

/// The history of a server and of its databases.
#[derive(Debug)]
pub struct History {
    started: SystemTime,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// The number of the newest point.
    newest: Option<u64>,
    newest_at: Option<SystemTime>,
    server: Series<ServerPoint>,
    databases: BTreeMap<String, OfDatabase>,
    /// The counts at the newest point.
    before: Option<Vec<Counts>>,
}

/// Points one step apart, the newest last. A step without a point is `None`.
#[derive(Debug)]
struct Series<P>(VecDeque<Option<P>>);

impl<P> Default for Series<P> {
    fn default() -> Self {
        Series(VecDeque::new())
    }
}

impl<P> Series<P> {
    /// Adds a point after `missed` steps without one.
    fn add(&mut self, missed: u64, point: Option<P>) {
        for _ in 0..missed.min(POINTS as u64) {
            self.push(None);
        }
        self.push(point);
    }

    fn push(&mut self, point: Option<P>) {
        if self.0.len() == POINTS {
            self.0.pop_front();
        }
        self.0.push_back(point);
    }

    /// Returns the newest `count` points as a list of what `of` returns for each.
    fn column(&self, count: usize, of: impl Fn(&P) -> Value) -> Value {
        let skipped = self.0.len().saturating_sub(count);
        let each = |point: &Option<P>| point.as_ref().map_or(Value::Null, &of);
        self.0.iter().skip(skipped).map(each).collect()
    }
}

/// The counts of one kind of request since the start.
#[derive(Debug)]
struct Counts {
    buckets: Box<[u64; BUCKETS]>,
    failed: u64,
}

/// One step of the server.
#[derive(Debug)]
struct ServerPoint {
    kinds: [KindPoint; Kind::COUNT],
    connections: u32,
    memory_bytes: u64,
}

/// The requests of one kind in one step.
#[derive(Clone, Copy, Debug, Default)]
struct KindPoint {
    count: u32,
    failed: u32,
    p50_us: u32,
    p99_us: u32,
}

/// The points of a database.
#[derive(Debug)]
struct OfDatabase {
    points: Series<DatabasePoint>,
    /// The counts at its newest point.
    before: Tallies,
    /// The number of the newest point at which it was open.
    open_at: u64,
}

/// Counts of a database since it was opened.
#[derive(Clone, Copy, Debug, Default)]
struct Tallies {
    commits: u64,
    conflicts: u64,
    reads: u64,
    writes: u64,
    pages_read: u64,
}

/// One step of a database.
#[derive(Debug)]
struct DatabasePoint {
    counts: [u32; 5],
    readers: u32,
    debt_permille: u32,
    memtable_bytes: u64,
    log_file_bytes: u64,
    data_file_bytes: u64,
    data_used_bytes: u64,
}

fn narrow(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

impl History {
    /// Creates an empty history.
    pub fn new() -> Self {
        History { started: SystemTime::now(), kept: Mutex::default() }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether a point is due when the server has been up for so long.
    pub fn is_due(&self, uptime: Duration) -> bool {
        let number = step_of(uptime);
        number > 0 && self.kept().newest.is_none_or(|newest| number > newest)
    }

    /// Adds a point: the counts of requests, the sizes of the server, and the figures of each open database.
    pub fn add(
        &self,
        uptime: Duration,
        now: SystemTime,
        observed: &Observed,
        connections: usize,
        memory_bytes: u64,
        databases: &[(String, Stats)],
    ) {
        let counts: Vec<Counts> = Kind::ALL.into_iter().map(|kind| counts(observed, kind)).collect();
        let number = step_of(uptime);
        let mut kept = self.kept();
        let kept = &mut *kept;
        // The first point of all counts from the start of the server.
        let missed = kept.newest.map_or(0, |newest| number.saturating_sub(newest + 1));
        let kinds = std::array::from_fn(|at| {
            KindPoint::since(kept.before.as_ref().map(|before| &before[at]), &counts[at])
        });
        let point = ServerPoint { kinds, connections: narrow(connections as u64), memory_bytes };
        kept.server.add(missed, Some(point));
        for (name, stats) in databases {
            kept.add_database(name, stats, number, missed);
        }
        for of in kept.databases.values_mut().filter(|of| of.open_at != number) {
            of.points.add(missed, None);
        }
        kept.databases.retain(|_, of| number - of.open_at < POINTS as u64);
        (kept.newest, kept.newest_at, kept.before) = (Some(number), Some(now), Some(counts));
    }

    /// Returns the points of the server after number `after` as JSON; all if there is no such number.
    pub fn server(&self, after: Option<u64>) -> Value {
        let kept = self.kept();
        let count = kept.count_after(after, kept.server.0.len());
        let column = |of: &dyn Fn(&ServerPoint) -> Value| kept.server.column(count, of);
        let recent = || kept.server.0.iter().rev().take(count).flatten();
        let requests = Kind::ALL.into_iter().enumerate().filter_map(|(at, kind)| {
            if recent().all(|point| point.kinds[at].count == 0) {
                return None;
            }
            let latency = |of: fn(&KindPoint) -> u32| {
                column(&move |point| match point.kinds[at] {
                    KindPoint { count: 0, .. } => Value::Null,
                    kind => of(&kind).into(),
                })
            };
            let series = json!({
                "count": column(&|point| point.kinds[at].count.into()),
                "failed": column(&|point| point.kinds[at].failed.into()),
                "p50_us": latency(|kind| kind.p50_us),
                "p99_us": latency(|kind| kind.p99_us),
            });
            Some((kind.name().to_owned(), series))
        });
        let requests: Map<String, Value> = requests.collect();
        let mut described = self.head(&kept, count);
        described["requests"] = Value::Object(requests);
        described["connections"] = column(&|point| point.connections.into());
        described["memory_bytes"] = column(&|point| point.memory_bytes.into());
        described
    }

    /// Returns the points of a database after number `after` as JSON; none for a database that was not open.
    pub fn database(&self, name: &str, after: Option<u64>) -> Value {
        const COUNTS: [&str; 5] = ["commits", "conflicts", "reads", "writes", "pages_read"];
        let kept = self.kept();
        let none = Series::default();
        let points = kept.databases.get(name).map_or(&none, |of| &of.points);
        let count = kept.count_after(after, points.0.len());
        let mut described = self.head(&kept, count);
        for (at, name) in COUNTS.into_iter().enumerate() {
            described[name] = points.column(count, |point| point.counts[at].into());
        }
        described["readers"] = points.column(count, |point| point.readers.into());
        described["debt_permille"] = points.column(count, |point| point.debt_permille.into());
        described["memtable_bytes"] = points.column(count, |point| point.memtable_bytes.into());
        described["log_file_bytes"] = points.column(count, |point| point.log_file_bytes.into());
        described["data_file_bytes"] = points.column(count, |point| point.data_file_bytes.into());
        described["data_used_bytes"] = points.column(count, |point| point.data_used_bytes.into());
        described
    }

    /// Returns what the points of a response have in common.
    fn head(&self, kept: &Kept, count: usize) -> Value {
        json!({
            "started_ms": unix_ms(self.started),
            "step_ms": STEP.as_millis() as u64,
            "newest": kept.newest,
            "newest_ms": kept.newest_at.map(unix_ms),
            "points": count,
        })
    }
}

impl Kept {
    fn add_database(&mut self, name: &str, stats: &Stats, number: u64, missed: u64) {
        let now = Tallies {
            commits: stats.commits,
            conflicts: stats.conflicts,
            reads: stats.gets + stats.cursor_moves,
            writes: stats.writes,
            pages_read: stats.pool_faults,
        };
        if !self.databases.contains_key(name) {
            if self.databases.len() >= MOST_DATABASES {
                let oldest = self.databases.iter().min_by_key(|(_, of)| of.open_at);
                match oldest.filter(|(_, of)| of.open_at != number).map(|(name, _)| name.clone()) {
                    Some(oldest) => drop(self.databases.remove(&oldest)),
                    None => return,
                }
            }
            // What it counted before its first point belongs to no step.
            let new = OfDatabase { points: Series::default(), before: now, open_at: number };
            self.databases.insert(name.to_owned(), new);
        }
        let of = self.databases.get_mut(name).expect("it was inserted");
        let point = DatabasePoint {
            counts: now.since(&of.before),
            readers: narrow(stats.readers),
            debt_permille: narrow(stats.pacing.debt_permille.iter().copied().max().unwrap_or_default()),
            memtable_bytes: stats.memtable_bytes,
            log_file_bytes: stats.log_file_bytes,
            data_file_bytes: stats.data_file_bytes,
            data_used_bytes: stats.data_used_bytes,
        };
        of.points.add(if of.points.0.is_empty() { 0 } else { missed }, Some(point));
        (of.before, of.open_at) = (now, number);
    }

    /// Returns how many of `held` points are newer than `after`.
    fn count_after(&self, after: Option<u64>, held: usize) -> usize {
        match (after, self.newest) {
            (Some(after), Some(newest)) if after <= newest => held.min((newest - after) as usize),
            _ => held,
        }
    }
}

impl Tallies {
    /// Returns what was counted since `before`. A database that was opened again counts from zero.
    fn since(&self, before: &Tallies) -> [u32; 5] {
        let is_new = self.commits < before.commits || self.reads < before.reads;
        let since = |now: u64, before: u64| narrow(if is_new { now } else { now.saturating_sub(before) });
        [
            since(self.commits, before.commits),
            since(self.conflicts, before.conflicts),
            since(self.reads, before.reads),
            since(self.writes, before.writes),
            since(self.pages_read, before.pages_read),
        ]
    }
}

fn counts(observed: &Observed, kind: Kind) -> Counts {
    let totals = observed.totals(kind);
    Counts { failed: totals.statuses[5], buckets: totals.buckets }
}

impl KindPoint {
    /// Returns what was counted between `before` and `now`.
    fn since(before: Option<&Counts>, now: &Counts) -> Self {
        let of =
            |at: usize| now.buckets[at] - before.map_or(0, |before| before.buckets[at].min(now.buckets[at]));
        let count: u64 = (0..BUCKETS).map(of).sum();
        let below = |share: f64| {
            let wanted = ((count as f64 * share).ceil() as u64).max(1);
            let mut passed = 0;
            let bucket = (0..BUCKETS).find(|&at| {
                passed += of(at);
                passed >= wanted
            });
            narrow(bucket.map_or(0, |bucket| bucket_end_ns(bucket).div_ceil(1000)))
        };
        let failed = now.failed.saturating_sub(before.map_or(0, |before| before.failed));
        KindPoint { count: narrow(count), failed: narrow(failed), p50_us: below(0.5), p99_us: below(0.99) }
    }
}

/// Returns the number of the step that ended last.
fn step_of(uptime: Duration) -> u64 {
    uptime.as_secs() / STEP.as_secs()
}

fn unix_ms(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pando::Database;

    fn at(step: u64) -> Duration {
        STEP * step as u32
    }

    #[test]
    fn an_hour_is_kept_step_by_step_with_gaps() {
        let (history, observed) = (History::new(), Observed::new());
        let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        assert!(!history.is_due(Duration::from_secs(4)) && history.is_due(at(1)));
        for (step, requests) in [(1, 3), (2, 0), (5, 7)] {
            (0..requests).for_each(|_| observed.note(Kind::Get, Duration::from_micros(90), 200));
            assert!(history.is_due(at(step)));
            history.add(at(step), now, &observed, 4, 1 << 20, &[]);
            assert!(!history.is_due(at(step) + Duration::from_secs(1)));
        }
        observed.note(Kind::Put, Duration::from_millis(3), 503);
        history.add(at(6), now, &observed, 4, 1 << 20, &[]);
        let all = history.server(None);
        assert_eq!(all["requests"]["get"]["count"], json!([3, 0, null, null, 7, 0]));
        assert_eq!(all["requests"]["put"]["failed"], json!([0, 0, null, null, 0, 1]));
        assert_eq!(all["requests"]["get"]["p99_us"][1], Value::Null, "nothing was asked then");
        let us = all["requests"]["get"]["p50_us"][0].as_u64().unwrap();
        assert!((90..=102).contains(&us), "{us}");
        assert!(all["requests"].get("sql").is_none(), "there was none");
        assert_eq!(
            (&all["newest"], &all["points"], &all["newest_ms"]),
            (&6.into(), &6.into(), &1_800_000_000_000_u64.into())
        );
        let some = history.server(Some(4));
        assert_eq!((&some["requests"]["get"]["count"], &some["points"]), (&json!([7, 0]), &2.into()));
        assert_eq!(history.server(Some(6))["points"], 0);
        assert_eq!(history.server(Some(99))["points"], 6, "of an earlier server");
        for step in 7..2000 {
            history.add(at(step), now, &observed, 4, 1 << 20, &[]);
        }
        assert_eq!(history.server(None)["points"], POINTS as u64);
        history.add(at(90_000), now, &observed, 4, 1 << 20, &[]);
        let all = history.server(None);
        assert_eq!(all["connections"].as_array().unwrap().iter().filter(|one| !one.is_null()).count(), 1);
    }

    #[test]
    fn databases_are_followed_while_they_are_open_and_their_number_is_bounded() -> pando::Result<()> {
        let (history, observed) = (History::new(), Observed::new());
        let db = Database::builder().in_memory()?;
        let table = db.ensure_table("t")?;
        let add = |step, names: &[String]| -> pando::Result<()> {
            let stats = db.stats()?;
            let databases: Vec<_> = names.iter().map(|name| (name.clone(), stats)).collect();
            history.add(at(step), UNIX_EPOCH, &observed, 0, 0, &databases);
            Ok(())
        };
        let one = ["one".to_owned()];
        add(1, &one)?;
        db.put(&table, b"k", b"v")?;
        db.put(&table, b"l", b"v")?;
        add(2, &one)?;
        add(3, &[])?;
        add(5, &one)?;
        let shown = history.database("one", None);
        assert_eq!(shown["commits"], json!([0, 2, null, null, 0]));
        assert_eq!(shown["newest"], 5);
        assert!(shown["data_file_bytes"][0].as_u64() > Some(0));
        assert_eq!(history.database("none", None)["points"], 0);
        let many: Vec<String> = (0..MOST_DATABASES + 5).map(|n| format!("many{n:03}")).collect();
        add(6, &many)?;
        assert_eq!(history.kept().databases.len(), MOST_DATABASES);
        assert_eq!(history.database("one", None)["points"], 0, "it was closed longest ago");
        assert_eq!(history.database("many000", None)["points"], 1);
        add(6 + POINTS as u64, &[])?;
        assert_eq!(history.kept().databases.len(), 0, "they were closed for an hour");
        Ok(())
    }
}
