//! Counters, for `/metrics` and for INFO.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The counters of one command.
#[derive(Debug, Default)]
struct Calls {
    count: AtomicU64,
    faults: AtomicU64,
    ns: AtomicU64,
}

/// All counters.
#[derive(Debug)]
pub struct Figures {
    names: Vec<&'static str>,
    calls: Vec<Calls>,
    start: Instant,
    /// Connections that are open.
    pub connections: AtomicU64,
    /// Connections that wait for an element.
    pub blocked: AtomicU64,
    /// Connections that were accepted.
    pub accepted: AtomicU64,
    /// Connections that were refused because too many are open.
    pub refused: AtomicU64,
    /// Transactions that were committed.
    pub commits: AtomicU64,
    /// Jobs in these transactions: writes of one connection that are one unit.
    pub jobs: AtomicU64,
    /// Commands that do not exist.
    pub unknown: AtomicU64,
    /// Keys that were removed after their expiry.
    pub expired: AtomicU64,
    /// Connections that were closed because they did not read their messages.
    pub overflowed: AtomicU64,
}

impl Figures {
    /// Creates counters of zero for commands of these names.
    pub fn new(names: Vec<&'static str>) -> Self {
        let calls = names.iter().map(|_| Calls::default()).collect();
        let zero = AtomicU64::default;
        Figures {
            names,
            calls,
            start: Instant::now(),
            connections: zero(),
            blocked: zero(),
            accepted: zero(),
            refused: zero(),
            commits: zero(),
            jobs: zero(),
            unknown: zero(),
            expired: zero(),
            overflowed: zero(),
        }
    }

    /// Counts a call of the command with this index.
    pub fn note(&self, command: usize, took: Duration, failed: bool) {
        let calls = &self.calls[command];
        // Relaxed for all: these are counters, which order nothing.
        calls.count.fetch_add(1, Ordering::Relaxed);
        calls.ns.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
        if failed {
            calls.faults.fetch_add(1, Ordering::Relaxed); // Relaxed: as above.
        }
    }

    /// Returns the time since the start.
    pub fn uptime(&self) -> Duration {
        self.start.elapsed()
    }

    /// Returns the number of calls of all commands.
    pub fn commands(&self) -> u64 {
        // Relaxed: these are counters.
        self.calls.iter().map(|calls| calls.count.load(Ordering::Relaxed)).sum()
    }

    /// Writes the counters in the text format of Prometheus.
    pub fn prometheus(&self, out: &mut String) {
        let load = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
        let called = || self.names.iter().zip(&self.calls).filter(|(_, calls)| load(&calls.count) > 0);
        let mut family = |name: &str, help: &str, value: &dyn Fn(&Calls) -> String| {
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} counter");
            for (command, calls) in called() {
                let _ = writeln!(out, "{name}{{command=\"{command}\"}} {}", value(calls));
            }
        };
        family("pando_redis_commands_total", "Commands of Redis by name.", &|calls| {
            load(&calls.count).to_string()
        });
        family("pando_redis_command_errors_total", "Commands that failed.", &|calls| {
            load(&calls.faults).to_string()
        });
        family(
            "pando_redis_command_seconds_total",
            "Seconds in which commands ran, without their commits.",
            &|calls| (load(&calls.ns) as f64 / 1e9).to_string(),
        );
        let plain = [
            ("connections", "gauge", "Connections that are open.", &self.connections),
            ("blocked_connections", "gauge", "Connections that wait for an element.", &self.blocked),
            ("connections_total", "counter", "Connections that were accepted.", &self.accepted),
            ("refused_connections_total", "counter", "Connections beyond the limit.", &self.refused),
            ("commits_total", "counter", "Transactions that were committed.", &self.commits),
            ("committed_jobs_total", "counter", "Jobs of connections in these transactions.", &self.jobs),
            ("unknown_commands_total", "counter", "Commands that do not exist.", &self.unknown),
            ("expired_keys_total", "counter", "Expiries that the sweep has processed.", &self.expired),
            (
                "overflowed_total",
                "counter",
                "Connections that did not read their messages.",
                &self.overflowed,
            ),
        ];
        for (name, kind, help, counter) in plain {
            write_plain(out, name, kind, help, load(counter));
        }
    }
}

/// Writes a figure without labels in the text format of Prometheus.
pub fn write_plain(out: &mut String, name: &str, kind: &str, help: &str, value: u64) {
    let name = format_args!("pando_redis_{name}");
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_ran_are_shown() {
        let figures = Figures::new(vec!["get", "set"]);
        figures.note(1, Duration::from_millis(500), true);
        figures.note(1, Duration::from_millis(500), false);
        let mut text = String::new();
        figures.prometheus(&mut text);
        assert!(text.contains("pando_redis_commands_total{command=\"set\"} 2"), "{text}");
        assert!(text.contains("pando_redis_command_errors_total{command=\"set\"} 1"), "{text}");
        assert!(text.contains("pando_redis_command_seconds_total{command=\"set\"} 1\n"), "{text}");
        assert!(!text.contains("\"get\""), "{text}");
        assert_eq!(figures.commands(), 2);
    }
}
