//! Findings about the disk, the files, and what keeps them from shrinking.

use super::figures::{Consumer, Figures, Reader};
use super::finding::{Finding, Rule};
use crate::text;
use std::time::Duration;

const MIB: u64 = 1 << 20;

/// All rules of this file.
pub const RULES: &[Rule] = &[
    disk_full,
    disk_low,
    held_by_readers,
    idle_transactions,
    expired_readers,
    log_held,
    consumers,
    fragmented,
];

/// Writes fail: the disk is full.
fn disk_full(figures: &Figures) -> Vec<Finding> {
    if figures.stat("short_of_room") == 0 {
        return Vec::new();
    }
    let what = "The disk is full: the database rejects writes, except deletes, and continues to serve reads.";
    let advice = "Free space on the file system, or delete records: deletes use a reserve inside the data \
                  file. Writes resume by themselves.";
    vec![Finding::critical("disk-full", what.to_owned(), advice)]
}

/// The disk has little room, compared with its size and with what a busy database needs.
fn disk_low(figures: &Figures) -> Vec<Finding> {
    let Some(disk) = figures.disk.filter(|_| figures.stat("short_of_room") == 0) else { return Vec::new() };
    let files_bytes = figures.stat("data_file_bytes") + figures.stat("log_file_bytes");
    let is_below = |permille: u64, least_bytes: u64| {
        disk.free_bytes < disk.total_bytes / 1000 * permille && disk.free_bytes < least_bytes
    };
    let (free, total) = (text::size(disk.free_bytes), text::size(disk.total_bytes));
    let what = format!(
        "The file system has {free} of {total} free, and the database's files have {}. A database whose \
         records change can take several times the size of its data for a while.",
        text::size(files_bytes)
    );
    let advice = format!(
        "Free space or enlarge the file system. `{}` gives back what the files do not need.",
        figures.command("compact", "")
    );
    // A tenth of the files is what one checkpoint may write.
    if is_below(50, (64 * MIB).max(files_bytes / 10)) {
        return vec![Finding::critical("disk-nearly-full", what, advice)];
    }
    if is_below(100, (1024 * MIB).max(files_bytes)) {
        return vec![Finding::warning("disk-low", what, advice)];
    }
    Vec::new()
}

/// The age from which a reader counts as long.
const LONG_READER: Duration = Duration::from_secs(600);
/// The memory and space from which a long reader is a finding.
const HELD_BYTES: u64 = 64 * MIB;

fn is_long(reader: &Reader) -> bool {
    u128::from(reader.age_ms) >= LONG_READER.as_millis()
}

/// Readers that have been open for long keep replaced pages and memtables.
fn held_by_readers(figures: &Figures) -> Vec<Finding> {
    let held = |reader: &&Reader| is_long(reader) && reader.memory_bytes + reader.space_bytes >= HELD_BYTES;
    let long: Vec<&Reader> = figures.readers.iter().filter(held).collect();
    let Some(oldest) = long.iter().max_by_key(|reader| reader.age_ms) else { return Vec::new() };
    let most =
        |bytes: fn(&Reader) -> u64| text::size(long.iter().map(|reader| bytes(reader)).max().unwrap_or(0));
    let what = format!(
        "{} snapshots or transactions have been open for more than {}, the oldest for {}. They keep up to \
         {} of the data file and {} of memory from being freed.",
        long.len(),
        text::seconds(LONG_READER.as_secs_f64()),
        text::seconds(oldest.age_ms as f64 / 1e3),
        most(|reader| reader.space_bytes),
        most(|reader| reader.memory_bytes),
    );
    let advice = "End them: look for streams, exports and backups whose clients read slowly. \
                  `max_snapshot_age` lets a program's readers expire.";
    vec![Finding::warning("long-readers", what, advice)]
}

/// A read-write transaction that is open for long was probably forgotten.
fn idle_transactions(figures: &Figures) -> Vec<Finding> {
    let long = figures.readers.iter().filter(|reader| reader.is_transaction && is_long(reader));
    let Some(oldest_ms) = long.map(|reader| reader.age_ms).max() else { return Vec::new() };
    let what = format!(
        "A read-write transaction has been open for {}. Until it ends, the history against which it will be \
         validated is kept in memory.",
        text::seconds(oldest_ms as f64 / 1e3)
    );
    let advice = "Commit it or roll it back. A server does so by itself after `--transaction-idle`.";
    vec![Finding::warning("long-transaction", what, advice)]
}

/// Readers were ended because they kept too much.
fn expired_readers(figures: &Figures) -> Vec<Finding> {
    let expired = figures.stat("expired_readers");
    if expired == 0 {
        return Vec::new();
    }
    let what = format!(
        "{} readers expired with SnapshotTooOld, because they kept too much space or memory for too long.",
        text::count(expired)
    );
    let advice = "Read in shorter pieces, with cursors of ranges for example, or raise \
                  `max_pinned_space_bytes` or the memory.";
    vec![Finding::warning("expired-readers", what, advice)]
}

/// The bytes of log from which it is a finding that they are kept.
const LOG_HELD_BYTES: u64 = 256 * MIB;

/// The log is much longer than what a recovery would replay.
fn log_held(figures: &Figures) -> Vec<Finding> {
    let (file_bytes, needed_bytes) = (figures.stat("log_file_bytes"), figures.stat("unabsorbed_log_bytes"));
    let held_bytes = file_bytes.saturating_sub(needed_bytes);
    if held_bytes < LOG_HELD_BYTES || file_bytes < needed_bytes.saturating_mul(4) {
        return Vec::new();
    }
    let late = figures.consumers.iter().filter(|consumer| consumer.lag_commits > 0 && !consumer.is_lost);
    let holder = if let Some(late) = late.max_by_key(|consumer| consumer.lag_commits) {
        format!(
            "The consumer {:?} has not acknowledged {} commits.",
            late.name,
            text::count(late.lag_commits)
        )
    } else if figures.metric("pando_ship_lag_commits") > 0.0 {
        let lag = figures.metric("pando_ship_lag_commits") as u64;
        format!("{} commits are not in the bucket yet.", text::count(lag))
    } else if figures.stat("pinned") > 0 {
        "A backup is running.".to_owned()
    } else {
        "A reader of changes may be slow.".to_owned()
    };
    let what = format!(
        "The log takes {}, of which a recovery would need {}. {holder}",
        text::size(file_bytes),
        text::size(needed_bytes)
    );
    let advice = format!(
        "Let the consumer catch up, or drop it if nothing reads it any longer: `{}`. The option \
         `max_changes_bytes` (1 GiB; only a program can set it) bounds what is kept: beyond it, slow readers \
         have to begin again.",
        figures.command("consumers", "--drop NAME")
    );
    vec![Finding::warning("log-held", what, advice)]
}

/// The lag from which a consumer is a finding, in commits.
const LATE_COMMITS: u64 = 1_000_000;

/// Consumers of changes that lack many commits, or have lost their position.
fn consumers(figures: &Figures) -> Vec<Finding> {
    let found = |consumer: &Consumer| {
        let name = &consumer.name;
        if consumer.is_lost {
            let what = format!("The consumer {name:?} has lost its position: the log kept too much for it.");
            let advice = format!(
                "Drop the consumer (`{}`), create it again, and then copy the data to it. If it may be \
                 offline for that long again, let a program open the database with a larger \
                 `max_changes_bytes`; `pando serve` keeps 1 GiB.",
                figures.command("consumers", "--drop NAME")
            );
            return Some(Finding::critical("consumer-lost", what, advice));
        }
        if consumer.lag_commits < LATE_COMMITS {
            return None;
        }
        let what = format!("The consumer {name:?} lacks {} commits.", text::count(consumer.lag_commits));
        let advice = "Check that it runs and acknowledges. It loses its position when the log that is kept \
                      for it exceeds `max_changes_bytes` (1 GiB unless a program sets it).";
        Some(Finding::warning("consumer-late", what, advice))
    };
    figures.consumers.iter().filter_map(found).collect()
}

/// The free bytes from which a compaction is worth it, if they are half of the file.
const FRAGMENTED_BYTES: u64 = 256 * MIB;

/// Much of the data file is free.
fn fragmented(figures: &Figures) -> Vec<Finding> {
    let [file, used, retired, holes] =
        ["data_file_bytes", "data_used_bytes", "data_retired_bytes", "data_hole_bytes"]
            .map(|name| figures.stat(name));
    let free_bytes = file.saturating_sub(used + retired + holes);
    if free_bytes < FRAGMENTED_BYTES || free_bytes < file / 2 {
        return Vec::new();
    }
    let what = format!(
        "{} of the data file's {} are free. New records reuse them, but the file system does not have them.",
        text::size(free_bytes),
        text::size(file)
    );
    let advice = format!("If you need the space, run `{}`.", figures.command("compact", ""));
    vec![Finding::note("free-space-in-file", what, advice)]
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity::{Critical, Note, Warning};
    use super::super::tests::names;
    use super::*;
    use server::Disk;

    fn stats(stats: &[(&str, u64)]) -> Figures {
        let stats = stats.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        Figures { stats, ..Figures::default() }
    }

    #[test]
    fn a_disk_is_low_by_its_size_and_by_the_files() {
        let found = |free_mib: u64, total_mib: u64, file_mib: u64| {
            let disk = Disk { free_bytes: free_mib * MIB, total_bytes: total_mib * MIB };
            let sizes = [("data_file_bytes", file_mib * MIB), ("data_used_bytes", file_mib * MIB)];
            names(&Figures { disk: Some(disk), ..stats(&sizes) })
        };
        assert_eq!(found(9_000, 100_000, 10_000), [(Warning, "disk-low")]);
        assert_eq!(found(11_000, 100_000, 50_000), [], "a tenth is free");
        assert_eq!(found(9_000, 100_000, 100), [], "the files are small");
        assert_eq!(found(900, 10_000, 100), [(Warning, "disk-low")], "less than a gigabyte");
        assert_eq!(found(900, 100_000, 10_000), [(Critical, "disk-nearly-full")]);
        assert_eq!(found(60, 10_000, 100), [(Critical, "disk-nearly-full")]);
        let full = stats(&[("short_of_room", 1)]);
        let full = Figures { disk: Some(Disk { free_bytes: 0, total_bytes: 100 * MIB }), ..full };
        assert_eq!(names(&full), [(Critical, "disk-full")], "once");
    }

    #[test]
    fn readers_are_named_when_they_are_old_and_keep_much() {
        let found = |is_transaction, minutes: u64, space_mib: u64| {
            let reader = Reader {
                is_transaction,
                age_ms: minutes * 60_000,
                memory_bytes: 0,
                space_bytes: space_mib * MIB,
            };
            names(&Figures { readers: vec![reader], ..Figures::default() })
        };
        assert_eq!(found(false, 10, 64), [(Warning, "long-readers")]);
        assert_eq!(found(false, 9, 64), []);
        assert_eq!(found(false, 10, 63), []);
        assert_eq!(found(true, 10, 0), [(Warning, "long-transaction")]);
        assert_eq!(names(&stats(&[("expired_readers", 1)])), [(Warning, "expired-readers")]);
    }

    #[test]
    fn a_held_log_names_who_holds_it() {
        let held = stats(&[("log_file_bytes", 300 * MIB), ("unabsorbed_log_bytes", 20 * MIB)]);
        let what = |figures: &Figures| log_held(figures)[0].what.clone();
        assert_eq!(names(&held), [(Warning, "log-held")]);
        assert!(what(&held).contains("300.0 MiB") && what(&held).contains("reader of changes"));
        let consumer = Consumer { name: "search".to_owned(), lag_commits: 1_234, is_lost: false };
        let by_consumer = Figures { consumers: vec![consumer], ..held.clone() };
        assert!(what(&by_consumer).contains("\"search\" has not acknowledged 1,234"));
        let busy = stats(&[("log_file_bytes", 300 * MIB), ("unabsorbed_log_bytes", 200 * MIB)]);
        assert_eq!(names(&busy), [], "recovery needs most of it");
        let short = stats(&[("log_file_bytes", 255 * MIB)]);
        assert_eq!(names(&short), []);
    }

    #[test]
    fn consumers_are_late_or_lost() {
        let found = |lag_commits, is_lost| {
            let consumer = Consumer { name: "c".to_owned(), lag_commits, is_lost };
            names(&Figures { consumers: vec![consumer], ..Figures::default() })
        };
        assert_eq!(found(LATE_COMMITS - 1, false), []);
        assert_eq!(found(LATE_COMMITS, false), [(Warning, "consumer-late")]);
        assert_eq!(found(0, true), [(Critical, "consumer-lost")]);
    }

    #[test]
    fn a_file_that_is_half_free_can_be_compacted() {
        let found = |file_mib: u64, used_mib: u64, holes_mib: u64| {
            let sizes = [
                ("data_file_bytes", file_mib),
                ("data_used_bytes", used_mib),
                ("data_hole_bytes", holes_mib),
            ];
            names(&stats(&sizes.map(|(name, mib)| (name, mib * MIB))))
        };
        assert_eq!(found(600, 200, 0), [(Note, "free-space-in-file")]);
        assert_eq!(found(600, 400, 0), []);
        assert_eq!(found(600, 100, 450), [], "the file system has it already");
        assert_eq!(found(200, 10, 0), []);
    }
}
