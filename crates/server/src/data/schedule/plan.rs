//! When a backup is due, and whether it is a full one.

use pando::BackupEntry;
use std::time::{Duration, SystemTime};

/// The largest number of incremental backups of a chain. A restore reads all of them, and the loss of one makes the
/// later ones useless.
pub const MOST_INCREMENTAL: usize = 24;
/// The longest pause before another attempt after a failure.
const RETRY: Duration = Duration::from_secs(300);

/// Returns whether a backup is due at `now`, if the newest one was begun at `newest` and the last attempt at
/// `attempted`. After a clock was set back by more than the interval, one is due as well.
pub fn is_due(
    every: Duration,
    newest: Option<SystemTime>,
    attempted: Option<SystemTime>,
    now: SystemTime,
) -> bool {
    let has_passed = |since: SystemTime, time: Duration| match now.duration_since(since) {
        Ok(passed) => passed >= time,
        Err(ahead) => ahead.duration() > time,
    };
    newest.is_none_or(|newest| has_passed(newest, every))
        && attempted.is_none_or(|attempted| has_passed(attempted, every.min(RETRY)))
}

/// Returns whether the next backup begins a chain: there is none, the newest backup is damaged, the chain is long, or
/// its incremental backups are together as long as its full one. `entries` are those of the folder, oldest first.
pub fn begins_chain(entries: &[BackupEntry]) -> bool {
    let (mut count, mut bytes) = (0, 0);
    for entry in entries.iter().rev() {
        match &entry.info {
            Err(_) => return true,
            Ok(info) if info.is_full() => return count >= MOST_INCREMENTAL || bytes > entry.bytes,
            Ok(_) => {
                count += 1;
                bytes += entry.bytes;
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::UNIX_EPOCH;

    #[test]
    fn a_backup_is_due_an_interval_after_the_one_before() {
        let at = |seconds: u64| UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds);
        let hour = Duration::from_secs(3600);
        assert!(is_due(hour, None, None, at(0)), "there is none");
        assert!(!is_due(hour, Some(at(0)), Some(at(0)), at(3599)));
        assert!(is_due(hour, Some(at(0)), Some(at(0)), at(3600)));
        assert!(!is_due(hour, Some(at(0)), Some(at(3600)), at(3899)), "the last attempt has just failed");
        assert!(is_due(hour, Some(at(0)), Some(at(3600)), at(3900)));
        let minute = Duration::from_secs(60);
        assert!(is_due(minute, Some(at(0)), Some(at(60)), at(120)), "no later than the next one");
        assert!(!is_due(hour, Some(at(3600)), Some(at(3600)), at(1)), "the clock was set back a little");
        assert!(is_due(hour, Some(at(3602)), Some(at(3602)), at(1)), "the clock was set back further");
    }
}
