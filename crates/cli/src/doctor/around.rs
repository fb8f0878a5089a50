//! Findings about the surroundings: the server, its clients, its copies, and the permissions of the files.

use super::figures::Figures;
use super::finding::{Finding, Rule};
use crate::text::{self, seconds};

/// All rules of this file.
pub const RULES: &[Rule] = &[
    unready,
    broken,
    world_writable,
    restored_copy,
    open_files,
    few_files,
    connections,
    busy,
    failed_logins,
    dropped_lines,
    backups,
    shipping,
    replica,
];

/// The server does not accept requests, or no writes.
fn unready(figures: &Figures) -> Vec<Finding> {
    let found = figures.unready.iter().map(|why| {
        let what = format!("The server is not ready: {why}.");
        let advice = "Read the server's log. After a failed flush or write, fix the cause and restart the \
                      server: it reads the end of the log again before it serves.";
        Finding::critical("not-ready", what, advice)
    });
    found.collect()
}

/// Requests failed because of damage, or because of an error inside the server.
fn broken(figures: &Figures) -> Vec<Finding> {
    let mut findings = Vec::new();
    let damaged = figures.refusals("corruption");
    if damaged > 0 {
        let what = format!("{} requests met damaged pages.", text::count(damaged));
        let advice = format!(
            "Keep the directory as it is, and run `{}` to see how far the damage reaches. Restore a backup, \
             or run `pando salvage` on the directory.",
            figures.command("check", "")
        );
        findings.push(Finding::critical("damage", what, advice));
    }
    let failed = figures.refusals("internal") + figures.refusals("indeterminate");
    if failed > 0 {
        let what = format!("{} requests failed inside the server (status 500).", text::count(failed));
        let advice = "Read the server's log for the errors; `--log info` has a line for each request.";
        findings.push(Finding::warning("internal-errors", what, advice));
    }
    findings
}

/// Every user of the machine can change the files.
fn world_writable(figures: &Figures) -> Vec<Finding> {
    if !figures.is_world_writable {
        return Vec::new();
    }
    let what = "Every user of this machine can write the directory or its files.".to_owned();
    let advice = format!("Run `chmod -R o-w {}`.", figures.target);
    vec![Finding::warning("world-writable", what, advice)]
}

/// The database is a restored copy.
fn restored_copy(figures: &Figures) -> Vec<Finding> {
    if figures.fork == 0 {
        return Vec::new();
    }
    let what = format!(
        "The database was restored from a backup (fork {:08x}): backups of the original are no base for its \
         incremental backups.",
        figures.fork
    );
    vec![Finding::note("restored-copy", what, "Begin its backups with a full one, in a folder of its own.")]
}

/// The process is about to run out of open files.
fn open_files(figures: &Figures) -> Vec<Finding> {
    let (open, most) = (figures.metric("process_open_fds"), figures.metric("process_max_fds"));
    if most == 0.0 || open < most * 0.8 {
        return Vec::new();
    }
    let what = format!("The server has {open} files and sockets open, of at most {most}.");
    let advice = "Raise the limit (`LimitNOFILE=` of its unit, `ulimit -Hn`), or lower --max-connections.";
    vec![Finding::warning("open-files", what, advice)]
}

/// The limit of open files from which a server has room for its connections and databases.
const ENOUGH_FILES: f64 = 4096.0;

/// The limit of open files is low for a server.
fn few_files(figures: &Figures) -> Vec<Finding> {
    let most = figures.metric("process_max_fds");
    if most == 0.0 || most >= ENOUGH_FILES {
        return Vec::new();
    }
    let what = format!(
        "The system allows the server only {most} open files, so it accepts only {} connections at a time.",
        figures.metric("pando_http_max_connections")
    );
    let advice = "Raise the limit: `LimitNOFILE=65536` in its unit, or `ulimit -Hn`.";
    vec![Finding::note("few-files", what, advice)]
}

/// Nearly all connections are in use.
fn connections(figures: &Figures) -> Vec<Finding> {
    let open = figures.metric("pando_http_connections");
    let most = figures.metric("pando_http_max_connections");
    if most == 0.0 || open < most * 0.9 {
        return Vec::new();
    }
    let what = format!(
        "{open} of {most} connections are in use. When all are, further clients wait to be accepted."
    );
    let advice = "Raise --max-connections, or let clients close idle connections. --head-timeout closes \
                  those that are silent.";
    vec![Finding::warning("connections", what, advice)]
}

/// The refusals that say that a limit is too low, with what to do.
const LIMITS: [(&str, &str); 6] = [
    (
        "busy",
        "Lower the load, or raise the limit that the response names (--max-streams, --max-sql, memory).",
    ),
    ("time-limit", "Statements run longer than --sql-timeout: add an index, or raise it."),
    ("rate-limit", "A client sends more requests a second than its token allows (`pando token list`)."),
    ("too-many-transactions", "Raise --max-transactions, or commit interactive transactions sooner."),
    ("stream-limit", "Raise --max-transactions: it also bounds the streams of Hrana."),
    ("full", "Free disk space, or raise --memory or --sql-memory, as the response says."),
];

/// A noticeable share of the requests was refused because of a limit.
fn busy(figures: &Figures) -> Vec<Finding> {
    let requests = figures.metrics.all("pando_http_requests_total").map(|sample| sample.value).sum::<f64>();
    let found = LIMITS.iter().filter_map(|(reason, advice)| {
        let refused = figures.refusals(reason);
        if refused < 10 || (refused as f64) < requests / 1000.0 {
            return None;
        }
        let what = format!(
            "{} of {} requests were refused with the problem `{reason}`.",
            text::count(refused),
            text::count(requests as u64)
        );
        Some(Finding::warning("refusals", what, *advice))
    });
    found.collect()
}

/// The failed logins from which they are a finding: in all, and an hour on average.
const FAILED_LOGINS: (f64, f64) = (100.0, 10.0);

/// A client presents wrong tokens.
fn failed_logins(figures: &Figures) -> Vec<Finding> {
    let failed = figures.metric("pando_failed_logins_total");
    // Mistakes of a year are no finding.
    let hours = figures.period.map_or(0.0, |period| period.as_secs_f64() / 3600.0);
    if failed < FAILED_LOGINS.0 || failed < FAILED_LOGINS.1 * hours {
        return Vec::new();
    }
    let what = format!("Clients presented an unknown or revoked token {} times.", text::count(failed as u64));
    let advice = "A client may still use a token that you have revoked; `--log info` has a line for each \
                  request. Tokens have 32 random bytes, so guessing is hopeless, but costs time.";
    vec![Finding::warning("failed-logins", what, advice)]
}

/// Lines of the log were lost.
fn dropped_lines(figures: &Figures) -> Vec<Finding> {
    let dropped = figures.metric("pando_log_dropped_lines_total");
    if dropped == 0.0 {
        return Vec::new();
    }
    let what = format!("{} lines of the server's log were dropped.", text::count(dropped as u64));
    let advice = "What reads standard error is too slow, or its disk is full. `--log warn` writes less.";
    vec![Finding::warning("dropped-log-lines", what, advice)]
}

/// Scheduled backups fail, or there is no new one.
fn backups(figures: &Figures) -> Vec<Finding> {
    let interval_s = figures.metric("pando_backup_interval_seconds");
    if interval_s == 0.0 {
        return Vec::new();
    }
    let failures = figures.metric("pando_backup_failures_total") as u64;
    if figures.metric("pando_backup_failing") > 0.0 {
        let what = format!(
            "The last scheduled backup failed ({} failures since the server started).",
            text::count(failures)
        );
        let advice = "`/v1/server` has the error, and the server's log has all of them. Check that the \
                      folder of --backup-to can be written and has room.";
        return vec![Finding::critical("backup-failing", what, advice)];
    }
    let (newest_s, now_s) = (figures.metric("pando_backup_last_success_timestamp_seconds"), figures.now_s);
    let (age_s, has_run_s) = (now_s - newest_s, figures.metric("pando_uptime_seconds"));
    if age_s.min(has_run_s) < interval_s * 2.0 {
        return Vec::new();
    }
    let is = match newest_s {
        0.0 => format!("There is no backup, although the server has run for {}", seconds(has_run_s)),
        _ => format!("The newest backup is {} old", seconds(age_s)),
    };
    let what = format!("{is}, and one is due every {}.", seconds(interval_s));
    let advice = "A backup may take longer than the interval: `pando_backup_last_duration_seconds` says how \
                  long. Raise --backup-every, or --backup-rate if it is set.";
    vec![Finding::warning("backup-late", what, advice)]
}

/// The lag of a copy from which it is a finding, in seconds.
const LATE_S: f64 = 60.0;

/// Commits do not reach the bucket, or late.
fn shipping(figures: &Figures) -> Vec<Finding> {
    let Some(up) = figures.metrics.get("pando_ship_up", &[]) else { return Vec::new() };
    let lag = figures.metric("pando_ship_lag_commits") as u64;
    if figures.metric("pando_ship_other_lineage") > 0.0 {
        let what = "The bucket has a lineage of this name that the database does not continue: it is of \
                    another database, or of another copy of this one. The database is not shipped, and \
                    rejects writes."
            .to_owned();
        let advice = "Read the server's log: it says what the bucket has. If another server has shipped a \
                      copy of this database since, send clients to that one. If the lineage is of another \
                      database that had the name before, and you need nothing of it, remove its folder in \
                      the bucket and start this server again; otherwise create the database under another \
                      name.";
        return vec![Finding::critical("other-lineage", what, advice)];
    }
    if figures.metric("pando_ship_fenced") > 0.0 {
        let what = "Another server has taken over the lineage in the bucket: this one is fenced and rejects \
                    writes."
            .to_owned();
        let advice = "Send clients to the other server, and stop this one. Its directory cannot be shipped \
                      to that bucket again. If the takeover was wrong, start a server on a new, empty \
                      directory with --ship-held take-over: it continues from what is in the bucket. Only \
                      the old directory has the writes that were not shipped.";
        return vec![Finding::critical("fenced", what, advice)];
    }
    if up == 0.0 {
        let what =
            format!("The database is not shipped: {} commits are not in the bucket.", text::count(lag));
        let advice = "Read the server's log for the cause. Check the address of the bucket, the credentials \
                      and the network.";
        return vec![Finding::critical("not-shipped", what, advice)];
    }
    let late = figures.metric("pando_ship_lag_seconds");
    if late < LATE_S {
        return Vec::new();
    }
    let what =
        format!("Shipping is {} late: {} commits are not in the bucket.", seconds(late), text::count(lag));
    let advice = "Check the network to the bucket and its rate limits.";
    vec![Finding::warning("ship-late", what, advice)]
}

/// The replica does not reach its source, or is late.
fn replica(figures: &Figures) -> Vec<Finding> {
    let Some(up) = figures.metrics.get("pando_replica_up", &[]) else { return Vec::new() };
    let late = figures.metric("pando_replica_lag_seconds");
    if figures.metric("pando_replica_copying") > 0.0 {
        let what = format!(
            "The replica copies the database anew, because its next commit was no longer available from its \
             source. It lacks {} commits, and serves reads from the old copy.",
            text::count(figures.metric("pando_replica_lag_commits") as u64)
        );
        let advice = "Wait until the copy is complete, and do not promote this replica before: the commits \
                      that it lacks would be lost. If this happens again, follow a bucket that keeps more of \
                      the log (--ship-keep-for), or keep the replica from being away for long: a server keeps \
                      1 GiB of its log.";
        return vec![Finding::warning("replica-copies", what, advice)];
    }
    if up > 0.0 && late < LATE_S {
        return Vec::new();
    }
    let reaches = if up > 0.0 { "reaches" } else { "does not reach" };
    let what = format!(
        "The replica {reaches} its source, and had everything {} ago; it lacks {} commits.",
        seconds(late),
        text::count(figures.metric("pando_replica_lag_commits") as u64)
    );
    let advice = "Check the source and the network. If the primary is lost, `pando promote` makes this one \
                  the primary.";
    vec![Finding::warning("replica-late", what, advice)]
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity::{Critical, Note, Warning};
    use super::super::samples::Samples;
    use super::super::tests::names;
    use super::*;

    fn metrics(page: &str) -> Figures {
        Figures { metrics: Samples::parse(page).unwrap(), ..Figures::default() }
    }

    #[test]
    fn files_and_copies() {
        let found = names(&Figures { is_world_writable: true, fork: 1, ..Figures::default() });
        assert_eq!(found, [(Warning, "world-writable"), (Note, "restored-copy")]);
        let unready = Figures { unready: Some("it is full".to_owned()), ..Figures::default() };
        assert_eq!(names(&unready), [(Critical, "not-ready")]);
    }

    #[test]
    fn open_files_and_connections() {
        let files =
            |open, most| names(&metrics(&format!("process_open_fds {open}\nprocess_max_fds {most}\n")));
        assert_eq!(files(8_000, 10_000), [(Warning, "open-files")]);
        assert_eq!(files(7_999, 10_000), []);
        assert_eq!(files(10, 1_024), [(Note, "few-files")]);
        let connections = |open| {
            names(&metrics(&format!("pando_http_connections {open}\npando_http_max_connections 100\n")))
        };
        assert_eq!((connections(90), connections(89)), (vec![(Warning, "connections")], vec![]));
    }

    #[test]
    fn refusals_by_reason() {
        let refused = |reason: &str, count: u64| {
            names(&metrics(&format!(
                "pando_http_requests_total{{kind=\"get\",status=\"2xx\"}} 19000\n\
                 pando_http_requests_total{{kind=\"get\",status=\"5xx\"}} 1000\n\
                 pando_http_refusals_total{{reason=\"{reason}\"}} {count}\n"
            )))
        };
        for (reason, _) in LIMITS {
            assert_eq!(refused(reason, 20), [(Warning, "refusals")], "{reason}");
            assert_eq!(refused(reason, 19), [], "{reason}");
        }
        assert_eq!(refused("not-found", 10_000), []);
        assert_eq!(refused("corruption", 1), [(Critical, "damage")]);
        assert_eq!(refused("internal", 1), [(Warning, "internal-errors")]);
    }

    #[test]
    fn tokens_and_the_log() {
        let logins = |count| names(&metrics(&format!("pando_failed_logins_total {count}\n")));
        assert_eq!((logins(100), logins(99)), (vec![(Warning, "failed-logins")], vec![]));
        let in_days = |count: u64, days: u64| {
            let period = Some(std::time::Duration::from_secs(days * 86_400));
            names(&Figures { period, ..metrics(&format!("pando_failed_logins_total {count}\n")) })
        };
        assert_eq!((in_days(240, 1), in_days(239, 1)), (vec![(Warning, "failed-logins")], vec![]));
        let lines = |count| names(&metrics(&format!("pando_log_dropped_lines_total {count}\n")));
        assert_eq!((lines(1), lines(0)), (vec![(Warning, "dropped-log-lines")], vec![]));
    }

    #[test]
    fn backups_fail_or_are_late() {
        let found = |failing: u64, newest: u64, uptime: u64| {
            let page = format!(
                "pando_backup_interval_seconds 3600\npando_backup_failing{{database=\"d\"}} {failing}\n\
                 pando_backup_last_success_timestamp_seconds{{database=\"d\"}} {newest}\n\
                 pando_uptime_seconds {uptime}\n"
            );
            names(&Figures { now_s: 100_000.0, ..metrics(&page) })
        };
        assert_eq!(found(1, 99_000, 10), [(Critical, "backup-failing")]);
        assert_eq!(found(0, 92_801, 50_000), []);
        assert_eq!(found(0, 92_800, 50_000), [(Warning, "backup-late")]);
        assert_eq!(found(0, 92_800, 7_199), [], "the server has just started");
        assert_eq!(found(0, 0, 7_199), [], "the first one may be running");
        assert_eq!(found(0, 0, 7_200), [(Warning, "backup-late")]);
    }

    #[test]
    fn copies_that_are_late() {
        let ship = |up: u64, fenced: u64, lag: u64| {
            names(&metrics(&format!(
                "pando_ship_up{{database=\"d\"}} {up}\npando_ship_fenced{{database=\"d\"}} {fenced}\n\
                 pando_ship_lag_seconds{{database=\"d\"}} {lag}\n"
            )))
        };
        assert_eq!(ship(1, 0, 59), []);
        assert_eq!(ship(1, 0, 60), [(Warning, "ship-late")]);
        assert_eq!(ship(0, 0, 0), [(Critical, "not-shipped")]);
        assert_eq!(ship(0, 1, 0), [(Critical, "fenced")]);
        let other = "pando_ship_up{database=\"d\"} 0\npando_ship_fenced{database=\"d\"} 1\n\
                     pando_ship_other_lineage{database=\"d\"} 1\n";
        assert_eq!(names(&metrics(other)), [(Critical, "other-lineage")]);
        let replica = |up: u64, lag: u64| {
            names(&metrics(&format!(
                "pando_replica_up{{database=\"d\"}} {up}\npando_replica_lag_seconds{{database=\"d\"}} {lag}\n"
            )))
        };
        assert_eq!((replica(1, 59), replica(1, 60)), (vec![], vec![(Warning, "replica-late")]));
        assert_eq!(replica(0, 0), [(Warning, "replica-late")]);
        let copying = "pando_replica_up{database=\"d\"} 1\npando_replica_copying{database=\"d\"} 1\n";
        assert_eq!(names(&metrics(copying)), [(Warning, "replica-copies")]);
    }
}
