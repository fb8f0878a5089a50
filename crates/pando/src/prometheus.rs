//! Counters and sizes in the text format that Prometheus and compatible programs read (version 0.0.4).
//!
//! A family is a `# HELP` line, a `# TYPE` line and its samples. Counters end in `_total`; times are in seconds, sizes
//! in bytes; waits are summaries, with quantiles since the database was opened.

use crate::database::Database;
use base::budget::MemoryCategory;
use base::latency;
use base::{ErrorKind, Result};
use std::fmt::{Display, Write as _};
use store::figures::Figure;
use store::pacing::Cause;
use store::stats::{Stats, TableStats};

const NS_PER_S: f64 = 1e9;

impl Database {
    /// Returns all metrics in the text format of Prometheus; serve them as `text/plain; version=0.0.4`. O(tables).
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// let db = pando::Database::builder().in_memory()?;
    /// db.put(&db.ensure_table("fruit")?, b"apple", b"red")?;
    /// assert!(db.prometheus()?.contains("\npando_table_writes_total{table=\"fruit\"} 1\n"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn prometheus(&self) -> Result<String> {
        let mut page = Page { most_tables: usize::MAX, ..Page::default() };
        page.database(self)?;
        Ok(page.text())
    }
}

/// Returns the metrics of several databases on one page: those of [`Database::prometheus`], with a label `database` on
/// each sample. A database that is closed during the call is left out. O(databases x tables).
///
/// ```
/// # fn main() -> pando::Result<()> {
/// let db = pando::Database::builder().in_memory()?;
/// let page = pando::prometheus([("shop", &db)])?;
/// assert!(page.contains("\npando_commits_total{database=\"shop\"} 0\n"));
/// # Ok(())
/// # }
/// ```
pub fn prometheus<'d>(databases: impl IntoIterator<Item = (&'d str, &'d Database)>) -> Result<String> {
    prometheus_of_top_tables(databases, usize::MAX)
}

/// Returns the page of [`prometheus()`] with the samples of at most `most_tables` tables of each database: those with
/// the most look-ups, scans and writes since the database was opened. In each family, all other tables share one sample
/// with the label `rest="true"` instead of `table`: the sum of their figures, or the largest for `table_get_pages`. A
/// table can move between the two groups, so the shared sample can decrease. Time: O(databases x tables). Size:
/// O(databases x `most_tables`).
///
/// ```
/// # fn main() -> pando::Result<()> {
/// let db = pando::Database::builder().in_memory()?;
/// for name in ["one", "two", "three"] {
///     db.put(&db.ensure_table(name)?, b"k", b"v")?;
/// }
/// db.put(&db.ensure_table("two")?, b"k", b"w")?;
/// let page = pando::prometheus_of_top_tables([("shop", &db)], 1)?;
/// assert!(page.contains("\npando_table_writes_total{database=\"shop\",table=\"two\"} 2\n"));
/// assert!(page.contains("\npando_table_writes_total{database=\"shop\",rest=\"true\"} 2\n"));
/// # Ok(())
/// # }
/// ```
pub fn prometheus_of_top_tables<'d>(
    databases: impl IntoIterator<Item = (&'d str, &'d Database)>,
    most_tables: usize,
) -> Result<String> {
    let mut page = Page { most_tables, ..Page::default() };
    for (name, db) in databases {
        page.label = format!("database=\"{}\"", prometheus_label(name));
        match page.database(db) {
            Err(error) if error.kind() == ErrorKind::Closed => {}
            done => done?,
        }
    }
    Ok(page.text())
}

/// A page of families, in the order in which they first occur. The format requires all samples of a family together.
#[derive(Default)]
struct Page {
    families: Vec<Family>,
    /// The family to which samples are added.
    current: usize,
    /// The first label of every sample.
    label: String,
    /// The number of tables of a database that have samples of their own.
    most_tables: usize,
}

struct Family {
    name: String,
    head: String,
    samples: String,
}

impl Page {
    fn database(&mut self, db: &Database) -> Result<()> {
        let (stats, mut tables) = (db.stats()?, db.table_stats()?);
        let rest = split_off_rest(&mut tables, self.most_tables);
        self.figures(&stats);
        self.memory(&stats);
        self.waits(&stats);
        self.pacing(&stats);
        self.tables(&tables, &rest);
        Ok(())
    }

    fn text(&self) -> String {
        self.families.iter().flat_map(|family| [&family.head[..], &family.samples]).collect()
    }

    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let known = self.families.iter().position(|family| family.name == name);
        self.current = known.unwrap_or_else(|| {
            let head = format!("# HELP pando_{name} {help}\n# TYPE pando_{name} {kind}\n");
            self.families.push(Family { name: name.to_owned(), head, samples: String::new() });
            self.families.len() - 1
        });
    }

    fn sample(&mut self, name: &str, label: Option<(&str, &str)>, value: impl Display) {
        let own = label.map_or(String::new(), |(label, of)| format!("{label}=\"{}\"", prometheus_label(of)));
        self.labelled(name, &own, value);
    }

    /// Adds a sample with labels that are already formatted.
    fn labelled(&mut self, name: &str, labels: &str, value: impl Display) {
        let samples = &mut self.families[self.current].samples;
        let _ = match (&self.label[..], labels) {
            ("", "") => writeln!(samples, "pando_{name} {value}"),
            (all, "") | ("", all) => writeln!(samples, "pando_{name}{{{all}}} {value}"),
            (all, own) => writeln!(samples, "pando_{name}{{{all},{own}}} {value}"),
        };
    }

    /// Adds the samples without labels of their own.
    fn figures(&mut self, stats: &Stats) {
        for Figure { name, is_count, meaning, value, .. } in stats.figures() {
            let (name, kind) = match is_count {
                true => (format!("{name}_total"), "counter"),
                // Prometheus does not abbreviate units.
                false => (name.replace("_per_s", "_per_second"), "gauge"),
            };
            self.family(&name, kind, meaning);
            self.sample(&name, None, value);
        }
    }

    fn memory(&mut self, stats: &Stats) {
        self.family("memory_held_bytes", "gauge", "Memory of this database, by category.");
        for category in MemoryCategory::ALL {
            self.sample(
                "memory_held_bytes",
                Some(("category", category.name())),
                stats.memory.held.bytes(category),
            );
        }
    }

    fn waits(&mut self, stats: &Stats) {
        let help = "Waits by cause; memtable and pool_hit are one read in 1024.";
        self.family("wait_seconds", "summary", help);
        for cause in latency::Cause::ALL {
            let (name, waits) = (cause.name(), stats.latencies.get(cause));
            for (quantile, ns) in [("0.5", waits.p50_ns), ("0.99", waits.p99_ns), ("0.999", waits.p999_ns)] {
                let seconds = ns as f64 / NS_PER_S;
                let labels = format!("cause=\"{name}\",quantile=\"{quantile}\"");
                self.labelled("wait_seconds", &labels, seconds);
            }
            let sum = waits.total_ns as f64 / NS_PER_S;
            self.sample("wait_seconds_sum", Some(("cause", name)), sum);
            self.sample("wait_seconds_count", Some(("cause", name)), waits.count);
        }
        self.family("wait_seconds_max", "gauge", "The longest wait, by cause.");
        for cause in latency::Cause::ALL {
            let longest = stats.latencies.get(cause).max_ns as f64 / NS_PER_S;
            self.sample("wait_seconds_max", Some(("cause", cause.name())), longest);
        }
    }

    fn pacing(&mut self, stats: &Stats) {
        let pacing = &stats.pacing;
        self.family("debt_ratio", "gauge", "Merge debt as a fraction of its limit, by what is filling up.");
        for cause in Cause::ALL {
            let ratio = pacing.debt_permille[cause as usize] as f64 / 1000.0;
            self.sample("debt_ratio", Some(("cause", cause.name())), ratio);
        }
        self.family("delays_total", "counter", "Times that writers were slowed down because of merge debt.");
        for cause in Cause::ALL {
            let delays = pacing.delays[cause as usize].count;
            self.sample("delays_total", Some(("cause", cause.name())), delays);
        }
    }

    fn tables(&mut self, tables: &[TableStats], rest: &[TableStats]) {
        type Figure = (&'static str, &'static str, &'static str, fn(&TableStats) -> u64);
        let families: [Figure; 13] = [
            ("table_records", "gauge", "Approximate number of records, by table.", |table| {
                table.approximate_records
            }),
            ("table_gets_total", "counter", "Keys that were looked up, by table.", |table| table.gets),
            ("table_scans_total", "counter", "Cursors that were closed, by table.", |table| table.scans),
            ("table_cursor_moves_total", "counter", "Cursor moves, by table.", |table| table.cursor_moves),
            ("table_commits_total", "counter", "Commits that wrote to a table.", |table| table.commits),
            ("table_writes_total", "counter", "Puts and deletes committed, by table.", |table| table.writes),
            ("table_committed_bytes_total", "counter", "Bytes committed to a table.", |table| {
                table.committed_bytes
            }),
            ("table_written_bytes_total", "counter", "Bytes that checkpoints wrote for a table.", |table| {
                table.written_bytes
            }),
            ("table_runs", "gauge", "Runs, by table.", |table| table.runs),
            ("table_get_pages", "gauge", "Pages that a get may read, by table.", |table| table.get_pages),
            ("table_record_bytes", "gauge", "Bytes of keys and values in pages.", |table| table.record_bytes),
            ("table_stored_bytes", "gauge", "Bytes of pages that hold the keys and values.", |table| {
                table.stored_bytes
            }),
            ("table_saved_bytes", "gauge", "Bytes that the compression of pages saves.", |table| {
                table.saved_bytes
            }),
        ];
        for (name, kind, help, figure) in families {
            self.family(name, kind, help);
            for table in tables {
                self.sample(name, Some(("table", &table.name)), figure(table));
            }
            let figures = rest.iter().map(figure);
            if !rest.is_empty() {
                // A sum of heights has no meaning.
                let all = if name == "table_get_pages" { figures.max().unwrap_or(0) } else { figures.sum() };
                self.sample(name, Some(("rest", "true")), all);
            }
        }
    }
}

/// Splits off all tables except the `most` that were used most. The others stay in their order.
fn split_off_rest(tables: &mut Vec<TableStats>, most: usize) -> Vec<TableStats> {
    if tables.len() <= most {
        return Vec::new();
    }
    let uses = |table: &TableStats| table.gets.saturating_add(table.scans).saturating_add(table.writes);
    let mut by_use: Vec<u64> = tables.iter().map(uses).collect();
    by_use.sort_unstable_by(|one, other| other.cmp(one));
    let least = by_use.get(most.saturating_sub(1)).copied().unwrap_or(u64::MAX);
    // The number of tables to keep of those that were used as much as the last one.
    let mut ties = most - by_use.iter().take_while(|uses| **uses > least).count().min(most);
    let (shown, rest) = std::mem::take(tables).into_iter().partition(|table| match uses(table) {
        used if used == least && ties > 0 => {
            ties -= 1;
            true
        }
        used => used > least,
    });
    *tables = shown;
    rest
}

/// Escapes the value of a label for the text format of Prometheus. The quotes around it are not part of the result.
///
/// ```
/// assert_eq!(pando::prometheus_label("a\"b"), "a\\\"b");
/// ```
#[must_use]
pub fn prometheus_label(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
