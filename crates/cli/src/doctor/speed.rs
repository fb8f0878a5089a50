//! Findings about what slows operations down, or will slow an opening down.

use super::figures::Figures;
use super::finding::{Finding, Rule};
use crate::text;

/// All rules of this file.
pub const RULES: &[Rule] = &[
    memory_too_small,
    writers_wait_for_memory,
    merging_behind,
    writers_delayed,
    many_runs,
    slow_flushes,
    conflicts,
    long_recovery,
    dead_entries,
    layout,
];

/// The least number of page reads that say something about the memory.
const LEAST_FAULTS: u64 = 1_000;

/// Many look-ups read a page from the disk, and the data exceeds the memory.
fn memory_too_small(figures: &Figures) -> Vec<Finding> {
    let (faults, evictions) = (figures.stat("pool_faults"), figures.stat("pool_evictions"));
    let lookups = figures.stat("gets") + figures.stat("cursor_moves");
    let (limit, used) = (figures.stat("memory_limit_bytes"), figures.stat("data_used_bytes"));
    // Without evictions the pages were read for the first time. One read in twenty look-ups is already a third of
    // their time on a fast disk.
    if faults < LEAST_FAULTS || evictions == 0 || faults < lookups / 20 || limit >= used {
        return Vec::new();
    }
    let what = format!(
        "{} pages were read from the disk for {} look-ups and cursor moves, and {} were evicted: the memory \
         of {} does not hold the pages that are in use. The data has {}.",
        text::count(faults),
        text::count(lookups),
        text::count(evictions),
        text::size(limit),
        text::size(used)
    );
    let advice =
        format!("Raise {}, or read less of the data at a time.", figures.option("--memory", "memory_bytes"));
    vec![Finding::warning("memory-too-small", what, advice)]
}

/// Returns which share of the time something took, in thousandths; `None` if the time is not known.
fn permille(figures: &Figures, seconds: f64) -> Option<u64> {
    let period = figures.period.filter(|period| !period.is_zero())?;
    Some((seconds / period.as_secs_f64() * 1000.0) as u64)
}

/// Writers waited until a checkpoint freed memory.
fn writers_wait_for_memory(figures: &Figures) -> Vec<Finding> {
    let seconds = figures.waits("pando_wait_seconds_sum", "memory_full");
    let count = figures.waits("pando_wait_seconds_count", "memory_full") as u64;
    if permille(figures, seconds).is_none_or(|permille| permille < 10) {
        return Vec::new();
    }
    let what = format!(
        "Writers stood still {} times, for {} in total, until a checkpoint had freed memory.",
        text::count(count),
        text::seconds(seconds)
    );
    let advice = format!(
        "Raise {}. If the disk is slow (`pando_wait_seconds{{cause=\"sync\"}}`), a faster one helps more.",
        figures.option("--memory", "memory_bytes")
    );
    vec![Finding::warning("checkpoint-stalls", what, advice)]
}

/// Returns what is filling up, and what to do, for a cause of delays.
fn cause(figures: &Figures, name: &str) -> (&'static str, String) {
    match name {
        "log" => (
            "the log that a recovery would replay approaches its limit",
            "Raise `max_log_bytes` and `max_log_records` in a program, or use a faster disk.".to_owned(),
        ),
        "budget" => (
            "the memtables of all databases fill the shared memory",
            format!("Raise {}.", figures.option("--memory", "memory_bytes")),
        ),
        _ => (
            "its memtables fill their share of the memory",
            format!("Raise {}.", figures.option("--memory", "memory_bytes")),
        ),
    }
}

const CAUSES: [&str; 3] = ["memtables", "log", "budget"];

/// Checkpoints are so slow that writers are held back with full force.
fn merging_behind(figures: &Figures) -> Vec<Finding> {
    let debt = |name: &str| figures.stat(&format!("debt_{name}_permille"));
    let worst = CAUSES.into_iter().max_by_key(|name| debt(name)).filter(|name| debt(name) >= 900);
    let Some(worst) = worst else { return Vec::new() };
    let (what, advice) = cause(figures, worst);
    let what = format!(
        "Checkpoints and merges do not keep up: the debt is {}% of its limit, because {what}.",
        debt(worst) / 10
    );
    vec![Finding::warning("merge-debt", what, advice)]
}

/// Writers were slowed down for a noticeable share of the time.
fn writers_delayed(figures: &Figures) -> Vec<Finding> {
    let found = |name: &&str| {
        let seconds = figures.stat(&format!("delays_{name}_ns")) as f64 / 1e9;
        let share = permille(figures, seconds).filter(|share| *share >= 50)?;
        let (why, advice) = cause(figures, name);
        let what = format!(
            "Writers were slowed down {} times, for {} in total ({} % of the time), because {why}.",
            text::count(figures.stat(&format!("delays_{name}"))),
            text::seconds(seconds),
            share / 10
        );
        Some(Finding::warning("writers-delayed", what, advice))
    };
    CAUSES.iter().filter_map(found).collect()
}

/// The number of runs from which the merges of an LSM table do not keep up. Merging keeps a few of each size.
const MANY_RUNS: u64 = 32;

/// LSM tables whose merges do not keep up.
fn many_runs(figures: &Figures) -> Vec<Finding> {
    let many = figures.advice.iter().filter(|table| table.layout == "lsm" && table.runs > MANY_RUNS);
    let found = many.map(|table| {
        let what = format!(
            "The LSM table {:?} has {} runs, and a look-up may read {} pages: its merges do not keep up.",
            table.table, table.runs, table.get_pages
        );
        let advice = format!(
            "Merging continues when writes pause. `{}` merges everything now.",
            figures.command("compact", "")
        );
        Finding::warning("lsm-debt", what, advice)
    });
    found.collect()
}

/// The 99th percentile of flushes from which a disk is slow, in seconds.
const SLOW_FLUSH_S: f64 = 0.05;

/// The disk takes long for a flush.
fn slow_flushes(figures: &Figures) -> Vec<Finding> {
    let labels = [("cause", "sync"), ("quantile", "0.99")];
    let p99 = figures.metrics.get("pando_wait_seconds", &labels).unwrap_or(0.0);
    if p99 < SLOW_FLUSH_S || figures.waits("pando_wait_seconds_count", "sync") < 100.0 {
        return Vec::new();
    }
    let what =
        format!("One commit in a hundred waits {} or longer for a flush of the log.", text::seconds(p99));
    let advice = "Check the disk (`iostat -x 1`): other programs may use it, or its write cache may be off. \
                  Where losing the last moment is acceptable, commit with `buffered` or `lazy`.";
    vec![Finding::warning("slow-flushes", what, advice)]
}

/// Many transactions conflict.
fn conflicts(figures: &Figures) -> Vec<Finding> {
    let (conflicts, commits) = (figures.stat("conflicts"), figures.stat("commits"));
    if conflicts < 100 || conflicts.saturating_mul(4) < commits {
        return Vec::new();
    }
    let what = format!(
        "{} transactions failed with a conflict, and {} committed.",
        text::count(conflicts),
        text::count(commits)
    );
    let advice = "A conflict names its table and key: spread what all transactions write, such as a counter, \
                  over several keys, and make transactions shorter.";
    vec![Finding::warning("conflicts", what, advice)]
}

/// The records that a recovery replays in a second.
const REPLAYED_PER_S: u64 = 1_000_000;
/// The time of a recovery from which it is a finding, in seconds.
const LONG_RECOVERY_S: u64 = 5;

/// An opening after a crash would take long.
fn long_recovery(figures: &Figures) -> Vec<Finding> {
    let records = figures.stat("unabsorbed_records");
    let seconds = records / REPLAYED_PER_S;
    if seconds < LONG_RECOVERY_S {
        return Vec::new();
    }
    let what = format!(
        "The next opening replays {} records of the log ({}), which takes about {seconds} s.",
        text::count(records),
        text::size(figures.stat("unabsorbed_log_bytes"))
    );
    let advice = format!(
        "Run `{}` before a planned restart. Lower `checkpoint_records` if recovery has to be short at any \
         time.",
        figures.command("checkpoint", "")
    );
    vec![Finding::note("long-recovery", what, advice)]
}

/// Cursors pass over many deleted or expired entries.
fn dead_entries(figures: &Figures) -> Vec<Finding> {
    let (dead, moves) = (figures.stat("dead_passed"), figures.stat("cursor_moves"));
    if dead < 1_000_000 || dead < moves.saturating_mul(10) {
        return Vec::new();
    }
    let what = format!(
        "Cursors passed over {} deleted or expired entries to find {} records.",
        text::count(dead),
        text::count(moves)
    );
    let advice = "Start scans after what was deleted, where you know it. Delete whole ranges with one range \
                  delete. A checkpoint removes deleted entries of B+tree tables.";
    vec![Finding::note("dead-entries", what, advice)]
}

/// The records from which a layout matters.
const LARGE_TABLE: u64 = 100_000;

/// Tables that would be cheaper in the other layout.
fn layout(figures: &Figures) -> Vec<Finding> {
    let found = figures.advice.iter().filter_map(|table| {
        let advised = table.advised.as_ref().filter(|advised| **advised != table.layout)?;
        if table.records < LARGE_TABLE {
            return None;
        }
        let what = format!(
            "The table {:?} has the layout {}; for the operations that were counted, {advised} would be \
             cheaper.",
            table.table, table.layout
        );
        let advice = format!(
            "Run `{}`. The switch writes {} and takes about {}; `{}` has the costs.",
            figures.command("layout", &format!("{} {advised}", quoted(&table.table))),
            text::size(table.switch_bytes),
            text::seconds(table.switch_seconds),
            figures.command("advise", ""),
        );
        Some(Finding::note("layout", what, advice))
    });
    found.collect()
}

/// Returns a name as a word of a shell.
fn quoted(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    if !name.is_empty() && name.chars().all(is_plain) && !name.starts_with('-') {
        return name.to_owned();
    }
    format!("'{}'", name.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity::{Note, Warning};
    use super::super::samples::Samples;
    use super::super::tests::names;
    use super::*;
    use crate::advise::AdviceRow;
    use std::time::Duration;

    fn stats(stats: &[(&str, u64)]) -> Figures {
        let stats = stats.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        Figures { stats, period: Some(Duration::from_secs(100)), ..Figures::default() }
    }

    fn metrics(page: &str) -> Figures {
        Figures { metrics: Samples::parse(page).unwrap(), ..stats(&[]) }
    }

    #[test]
    fn memory_is_too_small_if_pages_are_evicted_and_read_again() {
        let found = |faults, evictions, gets, limit, used| {
            let figures = [
                ("pool_faults", faults),
                ("pool_evictions", evictions),
                ("gets", gets),
                ("memory_limit_bytes", limit),
                ("data_used_bytes", used),
            ];
            names(&stats(&figures))
        };
        assert_eq!(found(5_000, 10, 100_000, 1 << 20, 1 << 30), [(Warning, "memory-too-small")]);
        assert_eq!(found(4_999, 10, 100_000, 1 << 20, 1 << 30), [], "one in twenty-one");
        assert_eq!(found(5_000, 0, 100_000, 1 << 20, 1 << 30), [], "read for the first time");
        assert_eq!(found(5_000, 10, 100_000, 1 << 30, 1 << 30), [], "everything would fit");
        assert_eq!(found(999, 10, 10, 1 << 20, 1 << 30), [], "too few");
    }

    #[test]
    fn waits_count_by_their_share_of_the_time() {
        let waited = |seconds: f64| {
            names(&metrics(&format!("pando_wait_seconds_sum{{cause=\"memory_full\"}} {seconds}\n")))
        };
        assert_eq!(waited(1.0), [(Warning, "checkpoint-stalls")]);
        assert_eq!(waited(0.9), []);
        for (cause, says) in [("memtables", "share of the memory"), ("log", "replay"), ("budget", "shared")] {
            let delayed = |ns| stats(&[(&format!("delays_{cause}_ns"), ns)]);
            assert_eq!(names(&delayed(5_000_000_000)), [(Warning, "writers-delayed")], "{cause}");
            assert!(writers_delayed(&delayed(5_000_000_000))[0].what.contains(says), "{cause}");
            assert_eq!(names(&delayed(4_900_000_000)), []);
            let debt = |permille| stats(&[(&format!("debt_{cause}_permille"), permille)]);
            assert_eq!(names(&debt(900)), [(Warning, "merge-debt")]);
            assert!(merging_behind(&debt(900))[0].what.contains(says), "{cause}");
            assert_eq!(names(&debt(899)), []);
        }
        let unknown = Figures { period: None, ..stats(&[("delays_log_ns", u64::MAX)]) };
        assert_eq!(names(&unknown), [], "it may have been weeks");
    }

    #[test]
    fn a_slow_disk_shows_in_its_flushes() {
        let flushes = |p99: f64, count: u64| {
            names(&metrics(&format!(
                "pando_wait_seconds{{cause=\"sync\",quantile=\"0.99\"}} {p99}\n\
                 pando_wait_seconds_count{{cause=\"sync\"}} {count}\n"
            )))
        };
        assert_eq!(flushes(0.06, 100), [(Warning, "slow-flushes")]);
        assert_eq!(flushes(0.06, 99), []);
        assert_eq!(flushes(0.04, 100), []);
        // Another program may respond in the server's place.
        for strange in [f64::NAN, f64::INFINITY] {
            assert_eq!(flushes(strange, 100).len(), 1, "{strange}");
        }
    }

    #[test]
    fn counters_of_transactions_and_cursors() {
        let conflicts = |conflicts, commits| names(&stats(&[("conflicts", conflicts), ("commits", commits)]));
        assert_eq!(conflicts(100, 400), [(Warning, "conflicts")]);
        assert_eq!(conflicts(100, 401), []);
        assert_eq!(conflicts(99, 0), []);
        let recovery = |records| names(&stats(&[("unabsorbed_records", records)]));
        assert_eq!((recovery(5_000_000), recovery(4_999_999)), (vec![(Note, "long-recovery")], vec![]));
        let dead = |dead, moves| names(&stats(&[("dead_passed", dead), ("cursor_moves", moves)]));
        assert_eq!(dead(1_000_000, 100_000), [(Note, "dead-entries")]);
        assert_eq!(dead(1_000_000, 100_001), []);
    }

    #[test]
    fn tables_say_what_they_want() {
        let table = |layout: &str, advised: Option<&str>, records, runs| {
            let row = AdviceRow {
                table: "a b".to_owned(),
                layout: layout.to_owned(),
                advised: advised.map(str::to_owned),
                records,
                runs,
                ..AdviceRow::default()
            };
            Figures { target: "shop".to_owned(), advice: vec![row], ..Figures::default() }
        };
        assert_eq!(names(&table("lsm", Some("lsm"), 1, 33)), [(Warning, "lsm-debt")]);
        assert_eq!(names(&table("lsm", Some("lsm"), 1, 32)), []);
        assert_eq!(names(&table("btree", None, LARGE_TABLE, 40)), []);
        let switch = table("btree", Some("lsm"), LARGE_TABLE, 1);
        assert_eq!(names(&switch), [(Note, "layout")]);
        assert!(layout(&switch)[0].advice.contains("pando layout shop 'a b' lsm"));
        assert_eq!(names(&table("btree", Some("lsm"), LARGE_TABLE - 1, 1)), []);
    }
}
