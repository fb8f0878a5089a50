//! What is to be seen of a database, from this process or from a server.

use super::samples::Samples;
use crate::advise::{self, AdviceRow};
use crate::failure::{Failure, Outcome};
use crate::open::Existing;
use crate::remote::Remote;
use serde::Deserialize;
use serde_json::Value;
use server::Disk;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What is to be seen of a database. What could not be seen is empty, and no rule finds anything in it.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// The directory, or the address on a server.
    pub target: String,
    /// Whether the database is one of a server.
    pub is_served: bool,
    /// Counts and sizes by name, as `pando stats` prints them.
    pub stats: BTreeMap<String, u64>,
    /// The metrics of the server that concern the database, or the server as a whole.
    pub metrics: Samples,
    /// The open snapshots and transactions.
    pub readers: Vec<Reader>,
    /// The advice for each table.
    pub advice: Vec<AdviceRow>,
    /// The consumers of changes.
    pub consumers: Vec<Consumer>,
    /// The room on the disk.
    pub disk: Option<Disk>,
    /// The time in which the counters counted; `None` if it is not known.
    pub period: Option<Duration>,
    /// The time, in seconds since 1970; 0 if it is not known.
    pub now_s: f64,
    /// The fork of the database: not 0 if it was restored from a backup.
    pub fork: u32,
    /// Whether every user of the machine can write the database's files.
    pub is_world_writable: bool,
    /// Why the server is not ready.
    pub unready: Option<String>,
    /// What could not be examined, and why.
    pub unseen: Vec<String>,
}

/// An open snapshot or transaction.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Reader {
    /// Whether it can write.
    pub is_transaction: bool,
    /// Its age in milliseconds.
    pub age_ms: u64,
    /// The memory in bytes that it keeps from being freed.
    pub memory_bytes: u64,
    /// The space in bytes that it keeps from being freed.
    pub space_bytes: u64,
}

/// A consumer of changes.
#[derive(Clone, Debug, Default)]
pub struct Consumer {
    /// Its name.
    pub name: String,
    /// The number of commits that it has not acknowledged.
    pub lag_commits: u64,
    /// Whether it has lost its place.
    pub is_lost: bool,
}

impl Figures {
    /// Returns a count or size by its name; 0 if it was not seen.
    pub fn stat(&self, name: &str) -> u64 {
        self.stats.get(name).copied().unwrap_or(0)
    }

    /// Returns a metric of the server that has no other labels than the database; 0 if it was not seen.
    pub fn metric(&self, name: &str) -> f64 {
        self.metrics.get(name, &[]).unwrap_or(0.0)
    }

    /// Returns a metric of waits; 0 if it was not seen.
    pub fn waits(&self, name: &str, cause: &str) -> f64 {
        self.metrics.get(name, &[("cause", cause)]).unwrap_or(0.0)
    }

    /// Returns how many requests were refused for a reason.
    pub fn refusals(&self, reason: &str) -> u64 {
        self.metrics.get("pando_http_refusals_total", &[("reason", reason)]).unwrap_or(0.0) as u64
    }

    /// Returns a command line that runs `command` on the database.
    pub fn command(&self, command: &str, rest: &str) -> String {
        let target = &self.target;
        let words = match self.is_served {
            true => format!("pando --url {target} {command} {rest}"),
            false => format!("pando {command} {target} {rest}"),
        };
        words.trim_end().to_owned()
    }

    /// Returns what a program, or the server, sets to change an option of the database.
    pub fn option(&self, of_server: &str, of_library: &str) -> String {
        if self.is_served { format!("`{of_server}`") } else { format!("the option `{of_library}`") }
    }

    /// Subtracts the counts in `before`, which was seen `period` ago.
    pub fn since(mut self, before: &Figures, period: Duration) -> Self {
        let figures = pando::Stats::default().figures();
        let counts: BTreeSet<&str> =
            figures.iter().filter(|figure| figure.is_count).map(|figure| figure.name).collect();
        for (name, value) in &mut self.stats {
            if counts.contains(&name[..]) || name.starts_with("delays_") {
                let earlier = before.stat(name);
                *value -= if earlier <= *value { earlier } else { 0 };
            }
        }
        self.metrics = self.metrics.since(&before.metrics);
        self.period = Some(period);
        self
    }
}

/// Collects what is to be seen of the database in a directory. It is opened read-only, maybe beside a writer.
pub fn of_directory(database: &Existing) -> Outcome<Figures> {
    let dir = &database.dir;
    if !dir.join("data").exists() && dir.join(server::DEFAULT_DATABASE).join("data").exists() {
        return Err(Failure::Usage(format!(
            "{0} holds the databases of a server: name one of them, as in {0}/{1}, or the server, as in \
             `pando --url http://127.0.0.1:7263/{1} doctor`",
            dir.display(),
            server::DEFAULT_DATABASE
        )));
    }
    let db = database.open()?;
    let snapshot = db.snapshot()?;
    let newest = snapshot.commit_number();
    drop(snapshot);
    let consumers = db.consumers()?.into_iter().map(|consumer| Consumer {
        lag_commits: newest.saturating_sub(consumer.position),
        name: consumer.name,
        is_lost: consumer.is_lost,
    });
    Ok(Figures {
        target: dir.display().to_string(),
        stats: db.stats()?.numbers().into_iter().collect(),
        advice: db.advise(None)?.iter().map(AdviceRow::from).collect(),
        consumers: consumers.collect(),
        disk: Some(Disk::of(dir)?),
        fork: db.identity().fork,
        is_world_writable: is_world_writable(dir),
        unseen: vec![
            "cache misses, waits and open readers, which only the process that has the database open counts"
                .to_owned(),
        ],
        ..Figures::default()
    })
}

/// Returns whether every user of the machine can write the directory, or the file of the data.
fn is_world_writable(dir: &Path) -> bool {
    const OTHERS_WRITE: u32 = 0o002;
    let is = |path: &Path| std::fs::metadata(path).is_ok_and(|found| found.mode() & OTHERS_WRITE != 0);
    is(dir) || is(&dir.join("data"))
}

/// Collects what a server says of a database and of itself.
pub fn of_server(remote: &Remote) -> Outcome<Figures> {
    let number = |(name, value): (String, Value)| Some((name, value.as_u64()?));
    let mut figures = Figures {
        target: remote.address(),
        is_served: true,
        now_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64()),
        stats: remote.ask_json("GET", "/stats")?.into_iter().filter_map(number).collect(),
        advice: advise::ask(remote, "")?,
        ..Figures::default()
    };
    let mut readers = remote.ask_json("GET", "/readers")?;
    figures.readers = serde_json::from_value(readers.remove("readers").unwrap_or_default())
        .map_err(|error| Failure::Failed(format!("cannot read the server's response: {error}")))?;
    figures.unready = remote.ask_server("/readyz").err().map(|failure| failure.message());
    match remote.ask_server("/metrics") {
        Ok(page) => {
            let samples = Samples::parse(&page)
                .map_err(|error| Failure::Failed(format!("cannot read the server's metrics: {error}")))?;
            add_metrics(&mut figures, samples.of_database(remote.database()));
        }
        Err(failure) => figures.unseen.push(format!(
            "the server's metrics (disk, waits, connections, shipping), which need a token for all \
             databases: {}",
            failure.message()
        )),
    }
    Ok(figures)
}

/// Adds the metrics, and what they say of the disk, the consumers and the time.
fn add_metrics(figures: &mut Figures, metrics: Samples) {
    let size = |name: &str| metrics.get(name, &[]).map(|bytes| bytes as u64);
    let room = (size("pando_disk_free_bytes"), size("pando_disk_size_bytes"));
    if let (Some(free_bytes), Some(total_bytes)) = room {
        figures.disk = Some(Disk { free_bytes, total_bytes });
    }
    figures.consumers = metrics
        .all("pando_consumer_lag_commits")
        .map(|sample| {
            let name = sample.label("consumer").to_owned();
            let is_lost = metrics.get("pando_consumer_lost", &[("consumer", &name)]) == Some(1.0);
            Consumer { name, lag_commits: sample.value as u64, is_lost }
        })
        .collect();
    let uptime_s = metrics.get("pando_uptime_seconds", &[]);
    figures.period = uptime_s.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    figures.metrics = metrics;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_before_does_not_count() {
        let figures = |gets: u64, readers: u64, delays: u64| {
            let stats = [("gets", gets), ("readers", readers), ("delays_log_ns", delays)];
            Figures {
                stats: stats.map(|(name, value)| (name.to_owned(), value)).into(),
                ..Figures::default()
            }
        };
        let since = figures(110, 5, 70).since(&figures(100, 9, 50), Duration::from_secs(3));
        assert_eq!(["gets", "readers", "delays_log_ns"].map(|name| since.stat(name)), [10, 5, 20]);
        assert_eq!(since.period, Some(Duration::from_secs(3)));
    }

    #[test]
    fn metrics_say_more_of_a_server() {
        let page = "pando_disk_free_bytes 10\npando_disk_size_bytes 100\npando_uptime_seconds 60\n\
                    pando_consumer_lag_commits{database=\"d\",consumer=\"c\"} 7\n\
                    pando_consumer_lost{database=\"d\",consumer=\"c\"} 1\n";
        let mut figures = Figures::default();
        add_metrics(&mut figures, Samples::parse(page).unwrap());
        assert_eq!(figures.disk, Some(Disk { free_bytes: 10, total_bytes: 100 }));
        assert_eq!(figures.period, Some(Duration::from_secs(60)));
        let consumer = &figures.consumers[0];
        assert_eq!((&consumer.name[..], consumer.lag_commits, consumer.is_lost), ("c", 7, true));
        for strange in ["NaN", "-1", "+Inf"] {
            let mut figures = Figures::default();
            add_metrics(&mut figures, Samples::parse(&format!("pando_uptime_seconds {strange}\n")).unwrap());
            assert_eq!(figures.period, None, "{strange}");
        }
    }

    #[test]
    fn a_command_names_the_database() {
        let here = Figures { target: "shop".to_owned(), ..Figures::default() };
        assert_eq!(here.command("compact", ""), "pando compact shop");
        let there = Figures { target: "http://h/shop".to_owned(), is_served: true, ..Figures::default() };
        assert_eq!(there.command("layout", "t lsm"), "pando --url http://h/shop layout t lsm");
    }
}
