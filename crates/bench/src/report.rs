//! A row of figures, and rows as a table for people or as JSON, one object per line.
//!
//! Names of figures end in their unit: `_bytes`, `_ns`, `_us`. A figure without a unit in its name is a count or a
//! ratio.

use crate::measure::Usage;
use profile::Kind;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use std::borrow::Cow;
use std::fs;

/// One measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The workload's name.
    pub workload: &'static str,
    /// The case of the workload.
    pub case: String,
    /// The durability of the writes: `sync`, `buffered`, `lazy`, or `none` without a log.
    pub durability: &'static str,
    /// The number of threads that did the operations.
    pub threads: usize,
    /// The number of operations.
    pub ops: u64,
    /// The usage of the operations.
    pub usage: Usage,
    /// The workload's own figures, in the order of display.
    pub figures: Vec<(Cow<'static, str>, Figure)>,
    /// Figures over time, a number for each equal step. They are only in JSON.
    pub over_time: Vec<(&'static str, Vec<u64>)>,
    /// The profile of the workload, in its first row, as folded text. It is only in JSON.
    pub profile: Option<(Kind, String)>,
}

/// The origin of a row in JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setting {
    /// The machine and the version.
    pub context: String,
    /// The flags that distinguish the run from others.
    pub settings: String,
}

impl Setting {
    /// Returns this machine and this version.
    pub fn here() -> Self {
        let line = |path: &str, label: &str| {
            let text = fs::read_to_string(path).ok()?;
            let line = text.lines().find_map(|line| line.strip_prefix(label))?.to_owned();
            Some(line.trim_matches([' ', '\t', ':']).to_owned())
        };
        let unknown = || "unknown processor".to_owned();
        let processor = line("/proc/cpuinfo", "model name").unwrap_or_else(unknown);
        let memory_kib = line("/proc/meminfo", "MemTotal:").unwrap_or_default();
        let memory_gib = memory_kib.trim_end_matches(" kB").parse().unwrap_or(0u64) >> 20;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let (version, os, kernel) = (env!("CARGO_PKG_VERSION"), std::env::consts::OS, kernel.trim());
        let context = format!("Pando {version}; {processor}, {cores} cores, {memory_gib} GiB; {os} {kernel}")
            .trim_end()
            .to_owned();
        Setting { context, settings: String::new() }
    }
}

/// A number of a row.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Figure {
    /// A count, or a size in the unit at the end of the name.
    Count(u64),
    /// A ratio, or a mean.
    Real(f64),
}

impl From<u64> for Figure {
    fn from(count: u64) -> Self {
        Figure::Count(count)
    }
}

impl From<f64> for Figure {
    fn from(real: f64) -> Self {
        Figure::Real(real)
    }
}

impl Row {
    /// Creates a row of one thread without figures of its own.
    pub fn new(
        workload: &'static str,
        case: impl Into<String>,
        durability: &'static str,
        ops: u64,
        usage: Usage,
    ) -> Self {
        Row {
            workload,
            case: case.into(),
            durability,
            threads: 1,
            ops,
            usage,
            figures: Vec::new(),
            over_time: Vec::new(),
            profile: None,
        }
    }

    /// Sets the number of threads.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Adds a figure.
    #[must_use]
    pub fn with(mut self, name: impl Into<Cow<'static, str>>, figure: impl Into<Figure>) -> Self {
        self.figures.push((name.into(), figure.into()));
        self
    }

    /// Adds a figure over time.
    #[must_use]
    pub fn over_time(mut self, name: &'static str, values: Vec<u64>) -> Self {
        self.over_time.push((name, values));
        self
    }

    /// Adds the counters of work inside pages.
    #[must_use]
    pub fn edits(self, counters: &page::EditCounters) -> Self {
        self.with("key_decodes", counters.key_decodes)
            .with("compactions", counters.compactions)
            .with("allocator_failures", counters.allocator_failures)
            .with("moved_bytes", counters.bytes_moved)
            .with("splits", counters.splits)
    }

    /// Returns the wall time per operation.
    pub fn ns_per_op(&self) -> f64 {
        self.usage.seconds * 1e9 / self.ops.max(1) as f64
    }

    /// Returns the figure called `name`.
    pub fn figure(&self, name: &str) -> Option<Figure> {
        self.figures.iter().find(|(own, _)| own == name).map(|&(_, figure)| figure)
    }

    /// Returns the row as one line of JSON.
    pub fn json(&self, setting: &Setting) -> String {
        serde_json::to_string(&InSetting(self, setting)).expect("a row has string keys and finite numbers")
    }

    /// Returns the usage counters that are known.
    fn used(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let usage = &self.usage;
        let all = [
            ("flushes", usage.flushes),
            ("log_bytes", usage.log_bytes),
            ("write_call_bytes", usage.write_call_bytes),
            ("disk_bytes", usage.disk_bytes),
            ("start_memory_bytes", usage.start_memory_bytes),
            ("peak_memory_bytes", usage.peak_memory_bytes),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?)))
    }

    /// Returns every column of the table with this row's text.
    fn cells(&self) -> Vec<(Cow<'static, str>, String)> {
        let mut cells = vec![
            ("case".into(), self.case.clone()),
            ("durability".into(), self.durability.to_owned()),
            ("threads".into(), self.threads.to_string()),
            ("ops".into(), self.ops.to_string()),
            ("seconds".into(), format!("{:.4}", self.usage.seconds)),
            ("ns/op".into(), format!("{:.1}", self.ns_per_op())),
        ];
        cells.extend(self.usage.cpu_seconds.map(|seconds| ("cpu s".into(), format!("{seconds:.2}"))));
        let own = self.figures.iter().cloned();
        let used = self.used().map(|(name, value)| (name.into(), Figure::Count(value)));
        cells.extend(own.chain(used).map(|(name, figure)| {
            let text = text(&name, figure);
            (name, text)
        }));
        cells
    }
}

/// A row and its origin.
struct InSetting<'a>(&'a Row, &'a Setting);

impl Serialize for InSetting<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let InSetting(row, setting) = self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("workload", row.workload)?;
        map.serialize_entry("case", &row.case)?;
        map.serialize_entry("durability", row.durability)?;
        map.serialize_entry("threads", &row.threads)?;
        map.serialize_entry("seconds", &row.usage.seconds)?;
        map.serialize_entry("ops", &row.ops)?;
        map.serialize_entry("ns_per_op", &row.ns_per_op())?;
        if let Some(seconds) = row.usage.cpu_seconds {
            map.serialize_entry("cpu_seconds", &seconds)?;
        }
        for (name, figure) in &row.figures {
            map.serialize_entry(name, figure)?;
        }
        for (name, value) in row.used() {
            map.serialize_entry(name, &value)?;
        }
        for (name, values) in &row.over_time {
            map.serialize_entry(name, values)?;
        }
        if let Some((kind, folded)) = &row.profile {
            map.serialize_entry("profile", &kind.to_string())?;
            map.serialize_entry("folded", folded)?;
        }
        map.serialize_entry("settings", &setting.settings)?;
        map.serialize_entry("context", &setting.context)?;
        map.end()
    }
}

/// Returns a figure for people, in a unit that keeps it short.
fn text(name: &str, figure: Figure) -> String {
    const STEPS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match figure {
        Figure::Count(bytes) if name.ends_with("_bytes") => {
            match STEPS.iter().find(|&&(step, _)| bytes >= step * 10 || (bytes >= step && bytes % step == 0))
            {
                Some((step, unit)) => format!("{:.1} {unit}", bytes as f64 / *step as f64),
                None => bytes.to_string(),
            }
        }
        Figure::Count(count) => count.to_string(),
        Figure::Real(real) => format!("{real:.2}"),
    }
}

/// Returns the rows of one workload as a table under its name, with a column for each figure that any row has.
pub fn table(rows: &[Row]) -> String {
    let Some(first) = rows.first() else { return String::new() };
    let cells: Vec<_> = rows.iter().map(Row::cells).collect();
    let mut columns: Vec<Cow<'static, str>> = Vec::new();
    for (name, _) in cells.iter().flatten() {
        if !columns.contains(name) {
            columns.push(name.clone());
        }
    }
    let mut lines = vec![columns.iter().map(|name| name.replace('_', " ")).collect::<Vec<_>>()];
    lines.extend(cells.iter().map(|cells| {
        let of = |column: &Cow<'static, str>| cells.iter().find(|(name, _)| name == column);
        columns.iter().map(|column| of(column).map_or("-".to_owned(), |(_, text)| text.clone())).collect()
    }));
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<_> = (0..columns.len()).map(width).collect();
    let mut out = format!("{}\n", first.workload);
    for line in &lines {
        // Words are aligned to the left, and numbers to the right.
        let padded = line.iter().zip(&widths).enumerate().map(|(column, (text, &width))| match column {
            0 | 1 => format!("{text:<width$}"),
            _ => format!("{text:>width$}"),
        });
        out += padded.collect::<Vec<_>>().join("  ").trim_end();
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(case: &str) -> Row {
        let usage = Usage { seconds: 0.5, flushes: Some(1), ..Usage::default() };
        Row::new("point-get", case, "sync", 1000, usage)
    }

    #[test]
    fn json_has_the_promised_names() {
        let setting = Setting { settings: "--n 5".into(), ..Setting::here() };
        let json: serde_json::Value =
            serde_json::from_str(&row("warm").with("p50_ns", 7).with("ratio", 0.5).json(&setting)).unwrap();
        assert_eq!(json["workload"], "point-get");
        assert_eq!(json["durability"], "sync");
        assert_eq!((&json["seconds"], &json["ops"]), (&0.5.into(), &1000.into()));
        assert_eq!(json["ns_per_op"], 500_000.0);
        assert_eq!((&json["p50_ns"], &json["ratio"], &json["flushes"]), (&7.into(), &0.5.into(), &1.into()));
        assert!(json.get("peak_memory_bytes").is_none(), "unknown is absent, not 0");
        assert_eq!(json["settings"], "--n 5");
        assert!(json["context"].as_str().unwrap().starts_with("Pando 0."));
    }

    #[test]
    fn a_table_is_aligned_and_marks_what_a_row_lacks() {
        let text = table(&[row("warm"), row("much longer").with("file_bytes", 20 << 20)]);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 4);
        assert!(lines[1].starts_with("case         durability  threads"));
        assert_eq!(lines[2].find("sync"), lines[3].find("sync"));
        assert!(lines[3].contains("20.0 MiB") && lines[2].trim_end().ends_with('-'));
    }
}
