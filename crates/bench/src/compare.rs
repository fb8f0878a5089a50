//! `compare`: the rows that became better or worse between two files, by how much, beyond noise.
//!
//! A figure has *changed* if every repetition in one file lies on the same side of every repetition in the other, and
//! the medians differ by more than a threshold. With five repetitions in each file, chance alone does that once in 126
//! figures (the extreme outcome of the rank-sum test of Mann and Whitney, 1947). With one repetition only the threshold
//! decides, and a note below the table says so.
//!
//! The judged figures are times and costs, for which less is better. Counts that define the workload (operations, rows)
//! are not judged.

use crate::results::{Key, Results, Series};
use std::fmt::Write;

/// The figures that are judged.
const JUDGED: [&str; 14] = [
    "ns_per_op",
    "p50_ns",
    "p99_ns",
    "p999_ns",
    "flushes",
    "log_bytes",
    "write_call_bytes",
    "disk_bytes",
    "peak_memory_bytes",
    "file_bytes",
    "allocations",
    "key_decodes",
    "compactions",
    "allocator_failures",
];

/// The judgement of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Less than before, beyond noise.
    Better,
    /// More than before, beyond noise.
    Worse,
    /// Neither better nor worse.
    Same,
}

/// A figure in both files.
#[derive(Clone, Debug)]
pub struct Change {
    /// The case of the figure.
    pub key: Key,
    /// The name of the figure.
    pub figure: &'static str,
    /// The median in the older file.
    pub before: f64,
    /// The median in the newer file.
    pub after: f64,
    /// The judgement of the change.
    pub verdict: Verdict,
}

impl Change {
    /// Returns `after` divided by `before`; 1 if both are 0.
    pub fn ratio(&self) -> f64 {
        if self.before == self.after { 1.0 } else { self.after / self.before }
    }
}

/// The comparison of two files.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// Every judged figure that both files have.
    pub changes: Vec<Change>,
    /// Cases that only the first file has.
    pub gone: Vec<Key>,
    /// Cases that only the second file has.
    pub added: Vec<Key>,
    /// Whether some case has only one repetition.
    pub unrepeated: bool,
}

/// Compares two files; `threshold` is a fraction such as 0.05.
pub fn compare(before: &Results, after: &Results, threshold: f64) -> Comparison {
    let mut comparison = Comparison::default();
    for (key, old) in &before.series {
        let Some(new) = after.get(key) else {
            comparison.gone.push(key.clone());
            continue;
        };
        for figure in JUDGED {
            let (Some(was), Some(is)) = (old.median(figure), new.median(figure)) else { continue };
            let verdict = judge(old, new, figure, threshold);
            let key = key.clone();
            comparison.changes.push(Change { key, figure, before: was, after: is, verdict });
        }
        let repetitions = |series: &Series| series.figures.get("ns_per_op").map_or(0, Vec::len);
        comparison.unrepeated |= repetitions(old).min(repetitions(new)) < 2;
    }
    let is_new = |key: &&Key| before.get(key).is_none();
    comparison.added = after.series.iter().map(|(key, _)| key).filter(is_new).cloned().collect();
    comparison
}

fn judge(old: &Series, new: &Series, figure: &str, threshold: f64) -> Verdict {
    let medians = old.median(figure).zip(new.median(figure));
    let ranges = old.range(figure).zip(new.range(figure));
    let (Some((was, is)), Some(((old_least, old_most), (new_least, new_most)))) = (medians, ranges) else {
        return Verdict::Same;
    };
    if new_least > old_most && is > was * (1.0 + threshold) {
        Verdict::Worse
    } else if new_most < old_least && is < was * (1.0 - threshold) {
        Verdict::Better
    } else {
        Verdict::Same
    }
}

impl Comparison {
    /// Returns whether any figure got worse.
    pub fn is_worse(&self) -> bool {
        self.changes.iter().any(|change| change.verdict == Verdict::Worse)
    }

    /// Returns the comparison for people: the changes, worst first, and then the cases that cannot be compared.
    pub fn text(&self) -> String {
        let mut changed: Vec<_> = self.changes.iter().filter(|c| c.verdict != Verdict::Same).collect();
        changed.sort_by(|a, b| b.ratio().total_cmp(&a.ratio()));
        let mut out = String::new();
        for change in &changed {
            let verdict = if change.verdict == Verdict::Worse { "worse " } else { "better" };
            let percent = (change.ratio() - 1.0) * 100.0;
            let Change { key, figure, before, after, .. } = change;
            let name = name(key);
            let _ = writeln!(
                out,
                "{verdict}  {percent:+8.1}%  {figure:<18} {before:>14.1} -> {after:<14.1} {name}"
            );
        }
        let same = self.changes.len() - changed.len();
        let _ = writeln!(out, "{} figures changed beyond noise, {same} did not", changed.len());
        for (keys, what) in [(&self.gone, "only before"), (&self.added, "only after")] {
            for key in keys {
                let _ = writeln!(out, "{what}: {}", name(key));
            }
        }
        if self.unrepeated {
            out += "some cases were run once: their noise is unknown; use --repeat 5\n";
        }
        out
    }

    /// Returns one JSON object for each figure.
    pub fn json(&self) -> String {
        let line = |change: &Change| {
            let Change { key, figure, before, after, verdict } = change;
            let Key { workload, case, durability, threads, settings } = key;
            let verdict = format!("{verdict:?}").to_lowercase();
            let object = serde_json::json!({
                "workload": workload, "case": case, "durability": durability, "threads": threads,
                "settings": settings, "figure": figure, "before": before, "after": after, "verdict": verdict,
            });
            format!("{object}\n")
        };
        self.changes.iter().map(line).collect()
    }
}

fn name(key: &Key) -> String {
    let Key { workload, case, durability, threads, settings } = key;
    format!("{workload} / {case} / {durability} / {threads} thr. {settings}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(values: &[(&str, &[f64])]) -> Results {
        let row = |case: &str, value: f64| {
            let head = r#""workload":"w","durability":"sync","threads":1"#;
            format!("{{{head},\"case\":\"{case}\",\"ns_per_op\":{value}}}\n")
        };
        let text: String =
            values.iter().flat_map(|(case, values)| values.iter().map(|&value| row(case, value))).collect();
        Results::parse(&text).unwrap()
    }

    #[test]
    fn a_change_is_one_beyond_noise_and_threshold() {
        let before = results(&[
            ("noisy", &[100.0, 150.0, 120.0]),
            ("slow", &[100.0, 101.0]),
            ("little", &[100.0, 101.0]),
        ]);
        let after = results(&[
            ("noisy", &[140.0, 160.0, 149.0]),
            ("slow", &[120.0, 119.0]),
            ("little", &[102.0, 103.0]),
        ]);
        let comparison = compare(&before, &after, 0.05);
        let verdicts: Vec<_> = comparison.changes.iter().map(|change| change.verdict).collect();
        assert_eq!(verdicts, [Verdict::Same, Verdict::Worse, Verdict::Same]);
        assert!(comparison.is_worse() && !comparison.unrepeated);
        let back = compare(&after, &before, 0.05);
        assert_eq!(back.changes[1].verdict, Verdict::Better);
        assert!(!back.is_worse());
    }

    #[test]
    fn what_cannot_be_compared_is_said() {
        let comparison = compare(&results(&[("a", &[1.0])]), &results(&[("b", &[1.0])]), 0.05);
        assert!(comparison.changes.is_empty() && !comparison.is_worse());
        let text = comparison.text();
        assert!(text.contains("only before: w / a") && text.contains("only after: w / b"), "{text}");
        assert!(
            compare(&results(&[("a", &[1.0])]), &results(&[("a", &[1.0])]), 0.05).text().contains("--repeat")
        );
    }
}
