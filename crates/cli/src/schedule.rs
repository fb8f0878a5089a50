//! `serve --backup-to`: scheduled backups.

use crate::text;
use clap::Args;
use pando::Retention;
use server::{BackupPlan, Config};
use std::path::PathBuf;
use std::time::Duration;

/// Options of `serve`.
#[derive(Args, Clone, Debug)]
pub struct ScheduleArgs {
    /// Back up every database into a folder of its name below DIR, at the interval of --backup-every; DIR must not lie
    /// inside the served directory [default: no backups]
    #[arg(long, value_name = "DIR", env = "PANDO_BACKUP_TO")]
    backup_to: Option<PathBuf>,
    /// The time between backups of a database, as in 6h. Backups are incremental, except for the first, and for those
    /// that follow 24 incremental ones, or incremental ones that are together larger than the full one before them
    #[arg(long, value_name = "TIME", default_value = "24h", env = "PANDO_BACKUP_EVERY",
          value_parser = parse_interval)]
    backup_every: Duration,
    /// Keep backups that are younger than TIME, as in 7d, or the newest N, as in 30, and those on which they build; the
    /// newest backup is always kept, and so are those of a dropped database that had the same name
    #[arg(long, value_name = "TIME|N", default_value = "7d", env = "PANDO_BACKUP_KEEP",
          value_parser = parse_retention)]
    backup_keep: Retention,
    /// Write at most SIZE bytes of a backup a second, as in 50MiB [default: no limit]
    #[arg(long, value_name = "SIZE", env = "PANDO_BACKUP_RATE", value_parser = parse_rate)]
    backup_rate: Option<u64>,
}

impl ScheduleArgs {
    /// Adds the backups to the configuration of a server, if they are asked for.
    pub fn add_to(self, config: &mut Config) {
        let ScheduleArgs { backup_to, backup_every: every, backup_keep: keep, backup_rate: rate_bytes } =
            self;
        config.backups = backup_to.map(|to| BackupPlan { to, every, keep, rate_bytes });
    }
}

/// Parses which backups are kept: a number of them, or an age.
pub fn parse_retention(text: &str) -> Result<Retention, String> {
    let wrong =
        || "write a number of backups, as in 30, or an age with ms, s, m, h or d, as in 7d".to_owned();
    match text.parse::<usize>() {
        Ok(0) => Err("the newest backup is always kept: give 1 or more".to_owned()),
        Ok(count) => Ok(Retention::Newest(count)),
        Err(_) => text::parse_duration(text).map(Retention::Younger).map_err(|_| wrong()),
    }
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    match text::parse_duration(text)? {
        every if every < Duration::from_secs(1) => Err("the shortest interval is 1s".to_owned()),
        every => Ok(every),
    }
}

/// Parses the rate of a backup in bytes a second.
pub fn parse_rate(text: &str) -> Result<u64, String> {
    match text::parse_size(text)? as u64 {
        bytes if bytes < LEAST_RATE_BYTES => Err("the lowest rate is 64K".to_owned()),
        bytes => Ok(bytes),
    }
}

/// The lowest rate: a slower backup keeps replaced pages for too long.
const LEAST_RATE_BYTES: u64 = pando::BackupOptions::LEAST_RATE_BYTES;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retention_is_a_number_or_an_age() {
        assert_eq!(parse_retention("30"), Ok(Retention::Newest(30)));
        assert_eq!(parse_retention("7d"), Ok(Retention::Younger(Duration::from_secs(7 * 86_400))));
        for wrong in ["", "0", "d", "-1", "7 days", "1w"] {
            assert!(parse_retention(wrong).is_err(), "{wrong}");
        }
        assert!(parse_interval("999ms").is_err() && parse_interval("1s").is_ok());
        assert!(parse_rate("63K").is_err() && parse_rate("64K").is_ok());
    }
}
