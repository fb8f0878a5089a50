//! The table: a workload a section, a case a row, an engine a column, medians of the repetitions; lost rows included.

use crate::drive::{Answer, Results};
use crate::engine::Durability;
use crate::measure::Row;
use crate::{engines, workloads};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;

/// Whether the engine is one of those that the others are compared with.
fn is_ours(engine: &str) -> bool {
    engine.starts_with("pando")
}

/// Where the figures come from.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Machine {
    pub processor: String,
    pub cores: usize,
    pub memory_bytes: u64,
    pub kernel: String,
}

impl Machine {
    /// This one.
    pub fn here() -> Self {
        let line = |path: &str, label: &str| {
            let text = fs::read_to_string(path).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix(label)).unwrap_or("unknown");
            line.trim_matches([' ', '\t', ':']).to_owned()
        };
        let kib = line("/proc/meminfo", "MemTotal:");
        Machine {
            processor: line("/proc/cpuinfo", "model name"),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: kib.split(' ').next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024,
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
        }
    }
}

/// The whole page, in Markdown.
pub fn markdown(results: &Results) -> String {
    let mut out = String::new();
    let Machine { processor, cores, memory_bytes, kernel } = &results.machine;
    let (repeat, cache_mib) = (results.repeat, results.cache_bytes >> 20);
    let gib = *memory_bytes as f64 / f64::from(1 << 30);
    let _ = writeln!(
        out,
        "Machine: {processor}, {cores} cores, {gib:.0} GiB, Linux {kernel}. Medians of {repeat} repetitions, \
         each in a process and a directory of its own, engines interleaved; caches of {cache_mib} MiB where \
         an engine has one.{}\n",
        if results.scale == 1.0 { String::new() } else { format!(" Sizes scaled by {}.", results.scale) }
    );
    let engines = columns(results);
    for workload in workloads::ALL {
        let engines: Vec<_> = engines.iter().filter(|engine| workload.is_for(engine)).cloned().collect();
        for &durability in workload.durabilities {
            section(&mut out, results, workload, durability, &engines);
        }
    }
    let _ = writeln!(out, "\n## The engines\n");
    for entry in engines::all().iter().filter(|entry| engines.iter().any(|name| name == entry.name)) {
        let _ = writeln!(out, "* `{}`: {}", entry.name, entry.about);
    }
    out
}

/// Engines that have runs, in the order in which they are known.
pub fn columns(results: &Results) -> Vec<String> {
    let ran: BTreeSet<_> = results.runs.iter().map(|run| &run.engine[..]).collect();
    let mut names: Vec<_> =
        engines::all().iter().map(|entry| entry.name).filter(|name| ran.contains(name)).collect();
    names.extend(ran.into_iter().filter(|name| engines::named(name).is_none()));
    names.into_iter().map(str::to_owned).collect()
}

/// A figure of a row, and how it is shown.
pub struct Figure {
    name: &'static str,
    /// Of a row that has it.
    pub of: fn(&Row) -> Option<f64>,
    pub more_is_better: bool,
    pub show: fn(f64) -> String,
}

impl Figure {
    /// The beginning of its line: the case's name stands before the first figure only.
    pub fn label(&self, case: &str) -> String {
        let is_first = self.name == FIGURES[0].name;
        format!("{} {}", if is_first { format!("{case},") } else { "...".to_owned() }, self.name)
    }
}

/// All of them, in the order of the lines of a case.
pub const FIGURES: &[Figure] = &[
    Figure { name: "ops/s", of: |row| Some(row.rate()), more_is_better: true, show: rate },
    Figure {
        name: "settled, ops/s",
        of: |row| row.settled_seconds.map(|seconds| row.ops as f64 / seconds),
        more_is_better: true,
        show: rate,
    },
    Figure {
        name: "p99.9",
        of: |row| row.p999_ns.map(|ns| ns as f64),
        more_is_better: false,
        show: duration,
    },
    Figure {
        name: "longest",
        of: |row| row.max_ns.map(|ns| ns as f64),
        more_is_better: false,
        show: duration,
    },
    Figure {
        name: "written / live bytes",
        of: |row| Some(row.disk_bytes? as f64 / row.live_bytes? as f64),
        more_is_better: false,
        show: |ratio| format!("{ratio:.2}"),
    },
    Figure {
        name: "peak memory",
        of: |row| row.live_bytes.and(row.peak_bytes).map(|bytes| bytes as f64),
        more_is_better: false,
        show: |bytes| format!("{:.0} MiB", bytes / f64::from(1 << 20)),
    },
    Figure {
        name: "space / live bytes",
        of: |row| Some(row.space_bytes? as f64 / row.live_bytes? as f64),
        more_is_better: false,
        show: |ratio| format!("{ratio:.2}"),
    },
];

/// The cases of these rows, in the order in which they come.
pub fn cases<'a>(rows: impl Iterator<Item = &'a Row>) -> Vec<&'a str> {
    let mut cases: Vec<&str> = Vec::new();
    for row in rows {
        if !cases.contains(&&row.case[..]) {
            cases.push(&row.case);
        }
    }
    cases
}

fn section(
    out: &mut String,
    results: &Results,
    workload: &workloads::Workload,
    durability: Durability,
    engines: &[String],
) {
    let of_this = |run: &&crate::drive::Run| run.workload == workload.name && run.durability == durability;
    let rows: Vec<&Row> = results
        .runs
        .iter()
        .filter(of_this)
        .filter_map(|run| match &run.answer {
            Answer::Rows(rows) => Some(rows),
            Answer::Unsupported(_) | Answer::Failed(_) => None,
        })
        .flatten()
        .collect();
    if rows.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n## `{}`, {durability}\n\n{}.\n", workload.name, workload.about);
    let _ = writeln!(out, "| case | {} | ours / best rival |", engines.join(" | "));
    let _ = writeln!(out, "|---|{}---:|", "---:|".repeat(engines.len()));
    for case in cases(rows.iter().copied()) {
        for figure in FIGURES {
            let of = |engine: &String| {
                let figures = rows.iter().filter(|row| row.case == case && row.engine == *engine);
                median(figures.filter_map(|row| (figure.of)(row)).collect())
            };
            line(out, &figure.label(case), engines, &engines.iter().map(of).collect::<Vec<_>>(), figure);
        }
    }
    let mut reasons: Vec<String> = Vec::new();
    for run in results.runs.iter().filter(of_this) {
        if let Answer::Unsupported(why) | Answer::Failed(why) = &run.answer {
            let reason = format!("`{}`: {why}", run.engine);
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
        }
    }
    if !reasons.is_empty() {
        let _ = writeln!(out, "\nWithout figures: {}.", reasons.join("; "));
    }
}

/// A line of the table: the best figure in bold, and how ours stands beside the best of the others (above 1: ahead).
fn line(out: &mut String, label: &str, engines: &[String], figures: &[Option<f64>], figure: &Figure) {
    let (more_is_better, show) = (figure.more_is_better, figure.show);
    if figures.iter().all(Option::is_none) {
        return;
    }
    let better = |a: f64, b: f64| if more_is_better { a.max(b) } else { a.min(b) };
    let best_of = |ours: bool| {
        let these = engines.iter().zip(figures).filter(|(engine, _)| is_ours(engine) == ours);
        these.filter_map(|(_, figure)| *figure).reduce(better)
    };
    let best = figures.iter().flatten().copied().reduce(better);
    let cells: Vec<_> = figures
        .iter()
        .map(|figure| match figure {
            Some(figure) if Some(*figure) == best => format!("**{}**", show(*figure)),
            Some(figure) => show(*figure),
            None => "-".into(),
        })
        .collect();
    let ratio = match (best_of(true), best_of(false)) {
        (Some(ours), Some(theirs)) => {
            let ratio = if more_is_better { ours / theirs } else { theirs / ours };
            format!("{ratio:.2}")
        }
        _ => "-".into(),
    };
    let _ = writeln!(out, "| {label} | {} | {ratio} |", cells.join(" | "));
}

pub fn median(mut figures: Vec<f64>) -> Option<f64> {
    figures.sort_by(f64::total_cmp);
    let middle = figures.len() / 2;
    match figures.len() {
        0 => None,
        len if len % 2 == 1 => Some(figures[middle]),
        _ => Some((figures[middle - 1] + figures[middle]) / 2.0),
    }
}

fn rate(per_second: f64) -> String {
    match per_second {
        x if x >= 10e6 => format!("{:.1} M", x / 1e6),
        x if x >= 1e6 => format!("{:.2} M", x / 1e6),
        x if x >= 10e3 => format!("{:.0} k", x / 1e3),
        x if x >= 1e3 => format!("{:.1} k", x / 1e3),
        x => format!("{x:.0}"),
    }
}

fn duration(ns: f64) -> String {
    match ns {
        x if x >= 1e9 => format!("{:.1} s", x / 1e9),
        x if x >= 1e6 => format!("{:.1} ms", x / 1e6),
        x if x >= 1e3 => format!("{:.1} us", x / 1e3),
        x => format!("{x:.0} ns"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_units() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0]), Some(2.5));
        assert_eq!(median(vec![]), None);
        assert_eq!(
            (rate(2_345_678.0), rate(12_345.0), rate(12.4)),
            ("2.35 M".into(), "12 k".into(), "12".into())
        );
        assert_eq!((duration(1_500.0), duration(999.0)), ("1.5 us".into(), "999 ns".into()));
    }

    #[test]
    fn the_ratio_says_who_is_ahead() {
        let engines = ["pando".to_owned(), "other".to_owned(), "none".to_owned()];
        let mut out = String::new();
        let figure =
            |more_is_better| Figure { name: "", of: |_| None, more_is_better, show: |x| x.to_string() };
        line(&mut out, "more", &engines, &[Some(3.0), Some(2.0), None], &figure(true));
        line(&mut out, "less", &engines, &[Some(3.0), Some(2.0), None], &figure(false));
        assert_eq!(out, "| more | **3** | 2 | - | 1.50 |\n| less | 3 | **2** | - | 0.67 |\n");
    }
}
