//! The output of the demonstration.

use super::load::Loaded;
use super::source::Source;
use crate::crash::victim::Heard;
use crate::crash::workload::Verdict;
use crate::failure::Outcome;
use crate::output::say;
use crate::{inspect, text};
use pando::{CheckReport, Stats};
use std::fmt::Display;
use std::time::Duration;

/// Prints a line of a section.
pub fn field(label: &str, value: impl Display) -> Outcome {
    say!("  {label:<24} {value}")
}

/// Prints a count or a size with its name.
fn number(name: &str, value: u64) -> Outcome {
    let shown = if name.ends_with("_bytes") { text::size(value) } else { text::count(value) };
    field(&name.replace('_', " "), shown)
}

/// Prints the measurements of the import.
pub fn load(source: &Source, loaded: &Loaded) -> Outcome {
    let files = source.files.len() as u64;
    let (count, commits) = (text::count(files), text::count(loaded.latencies.len()));
    let (bytes, elapsed) = (text::size(source.bytes), text::time(loaded.elapsed));
    field("imported", format_args!("{count} files, {bytes}, in {commits} commits and {elapsed}"))?;
    let bytes_rate = text::size(text::rate(source.bytes, loaded.elapsed));
    let files_rate = text::count(text::rate(files, loaded.elapsed));
    field("throughput", format_args!("{bytes_rate}/s, {files_rate} files/s"))?;
    let at = |quantile| text::time(Duration::from_micros(loaded.latencies.value_at_quantile(quantile)));
    let (p50, p90, p99, max) = (at(0.5), at(0.9), at(0.99), at(1.0));
    field("commit latency", format_args!("p50 {p50}, p90 {p90}, p99 {p99}, max {max}"))?;
    let tally = &loaded.verified;
    let (snapshots, files) = (text::count(tally.snapshots), text::count(tally.files));
    field(
        "verified meanwhile",
        format_args!("{snapshots} snapshots, {files} files, {}", text::size(tally.bytes)),
    )?;
    let first = text::count(tally.batches_at_first);
    field("", format_args!("the first that was not empty showed {first} of {commits} commits"))
}

/// Prints the state that the killed child left.
pub fn kill(heard: &Heard, verdict: &Verdict, opened: Duration) -> Outcome {
    let found: u64 = verdict.marks.iter().sum();
    let (heard, found) = (text::count(heard.commits), text::count(found));
    field("acknowledged", format_args!("{heard} commits before it died, sync and buffered"))?;
    field("opened again", format_args!("in {}", text::time(opened)))?;
    field("found", format_args!("{found} commits: every acknowledged one, none applied partially"))?;
    field("compared", format_args!("{} rows, byte for byte", text::count(verdict.rows)))
}

/// Prints the findings of the check, and the size of the database on disk.
pub fn check(found: &CheckReport, elapsed: Duration, stats: &Stats) -> Outcome {
    for (name, value) in inspect::check_fields(found) {
        number(name, value)?;
    }
    field("time", text::time(elapsed))?;
    number("data_file_bytes", stats.data_file_bytes)?;
    number("data_used_bytes", stats.data_used_bytes)?;
    number("log_file_bytes", stats.log_file_bytes)?;
    let amplification = stats.data_used_bytes as f64 / found.record_bytes.max(1) as f64;
    field("space", format_args!("{amplification:.2} bytes on disk for each byte of keys and values"))
}

/// Prints all counters of the engine.
pub fn counters(stats: &Stats) -> Outcome {
    stats.numbers().into_iter().try_for_each(|(name, value)| number(&name, value))
}
