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
fn columns(results: &Results) -> Vec<String> {
    let ran: BTreeSet<_> = results.runs.iter().map(|run| &run.engine[..]).collect();
    let mut names: Vec<_> =
        engines::all().iter().map(|entry| entry.name).filter(|name| ran.contains(name)).collect();
    names.extend(ran.into_iter().filter(|name| engines::named(name).is_none()));
    names.into_iter().map(str::to_owned).collect()
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
    let mut cases: Vec<&str> = Vec::new();
    for row in &rows {
        if !cases.contains(&&row.case[..]) {
            cases.push(&row.case);
        }
    }
    for case in cases {
        let figures = |figure: &dyn Fn(&Row) -> Option<f64>| -> Vec<Option<f64>> {
            let of = |engine: &String| {
                let figures = rows.iter().filter(|row| row.case == case && row.engine == *engine);
                median(figures.filter_map(|row| figure(row)).collect())
            };
            engines.iter().map(of).collect()
        };
        line(out, &format!("{case}, ops/s"), engines, &figures(&|row| Some(row.rate())), true, &rate);
        let settled = |row: &Row| row.settled_seconds.map(|seconds| row.ops as f64 / seconds);
        line(out, "... settled, ops/s", engines, &figures(&settled), true, &rate);
        let tail = |row: &Row| row.p999_ns.map(|ns| ns as f64);
        line(out, "... p99.9", engines, &figures(&tail), false, &duration);
        let worst = |row: &Row| row.max_ns.map(|ns| ns as f64);
        line(out, "... longest", engines, &figures(&worst), false, &duration);
        let written = |row: &Row| Some(row.disk_bytes? as f64 / row.live_bytes? as f64);
        line(out, "... written / live bytes", engines, &figures(&written), false, &|x| format!("{x:.2}"));
        let peak = |row: &Row| row.live_bytes.and(row.peak_bytes).map(|bytes| bytes as f64);
        line(out, "... peak memory", engines, &figures(&peak), false, &|x| {
            format!("{:.0} MiB", x / f64::from(1 << 20))
        });
        let space = |row: &Row| Some(row.space_bytes? as f64 / row.live_bytes? as f64);
        line(out, "... space / live bytes", engines, &figures(&space), false, &|x| format!("{x:.2}"));
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
fn line(
    out: &mut String,
    label: &str,
    engines: &[String],
    figures: &[Option<f64>],
    more_is_better: bool,
    show: &dyn Fn(f64) -> String,
) {
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

fn median(mut figures: Vec<f64>) -> Option<f64> {
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
        line(&mut out, "more", &engines, &[Some(3.0), Some(2.0), None], true, &|x| x.to_string());
        line(&mut out, "less", &engines, &[Some(3.0), Some(2.0), None], false, &|x| x.to_string());
        assert_eq!(out, "| more | **3** | 2 | - | 1.50 |\n| less | 3 | **2** | - | 0.67 |\n");
    }
}
