//! One scheduled backup: into a folder, verified, and followed by the removal of old ones.

use crate::config::BackupPlan;
use crate::data::schedule::plan::begins_chain;
use pando::{BackupOptions, BackupProgress, BackupReport, Backups, Database, ErrorKind, Result};
use std::time::SystemTime;

/// The result of a backup.
#[derive(Debug)]
pub struct Taken {
    /// What was written.
    pub report: BackupReport,
    /// The names of the old backups that were removed, or why they could not be.
    pub removed: Result<Vec<String>>,
}

/// Takes a backup of `db` into `folder`, and removes those of `db` that `plan` does not keep. Backups of an earlier
/// database with the same name stay. `now` is the time that the backup
/// states, and `progress` is called with what was written.
///
/// # Errors
/// Those of [`Database::backup_to`]. A file with the name of a backup is then not left.
pub fn take(
    db: &Database,
    folder: &Backups,
    plan: &BackupPlan,
    now: SystemTime,
    progress: &mut dyn FnMut(BackupProgress),
) -> Result<Taken> {
    let entries = folder.list()?;
    let base = entries.last().and_then(|newest| newest.info.as_ref().ok());
    let report = match base.filter(|_| !begins_chain(&entries)) {
        None => db.backup_to(folder, options(plan, now, progress))?,
        Some(base) => match db.backup_to(folder, options(plan, now, progress).since(base)) {
            // The database was replaced: by a restored copy, or by an older one.
            Err(error) if error.kind() == ErrorKind::Mismatch => {
                db.backup_to(folder, options(plan, now, progress))?
            }
            taken => taken?,
        },
    };
    let removed = folder.prune(report.identity, plan.keep, now);
    Ok(Taken { report, removed })
}

fn options<'p>(
    plan: &BackupPlan,
    now: SystemTime,
    progress: &'p mut dyn FnMut(BackupProgress),
) -> BackupOptions<'p> {
    let options = BackupOptions::default().verify(true).created(now).progress(progress);
    if let Some(bytes) = plan.rate_bytes { options.rate_bytes(bytes) } else { options }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::schedule::plan::{MOST_INCREMENTAL, is_due};
    use io::{Dir, File, FileId, Lock, LogMap};
    use pando::Retention;
    use std::collections::BTreeMap;
    use std::path::Path;
    use std::sync::Arc;
    use std::time::{Duration, UNIX_EPOCH};

    const HOUR: Duration = Duration::from_secs(3600);
    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn plan(dir: &Path, keep: Retention) -> BackupPlan {
        BackupPlan { to: dir.to_owned(), every: 6 * HOUR, keep, rate_bytes: None }
    }

    /// The number that the table held when the backup `at` was taken, from a restore of it.
    fn restored(folder: &Backups, at: &str) -> u64 {
        let target = tempfile::tempdir().unwrap();
        pando::restore(folder, Some(at), target.path()).unwrap();
        let db = Database::builder().memory_bytes(2 << 20).open(target.path()).unwrap();
        db.check().unwrap();
        let table = db.table("t").unwrap().unwrap();
        let value = db.get(&table, b"count").unwrap().unwrap();
        let count = u64::from_be_bytes(value[..8].try_into().unwrap());
        // Everything that was written until then is there, and nothing else.
        let snapshot = db.snapshot().unwrap();
        assert_eq!(snapshot.range(&table, "k".."l").unwrap().count() as u64, count.min(50));
        count
    }

    /// Thirty days in which the clock advances an hour at a time, with a write every hour.
    fn thirty_days(keep: Retention, mut each: impl FnMut(&Backups, SystemTime, &BTreeMap<String, u64>)) {
        let dir = tempfile::tempdir().unwrap();
        let plan = plan(dir.path(), keep);
        let folder = Backups::create(dir.path()).unwrap();
        let db = Database::builder().memory_bytes(2 << 20).in_memory().unwrap();
        let table = db.ensure_table("t").unwrap();
        let (mut newest, mut taken) = (None, BTreeMap::new());
        let start = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        for hour in 0..30 * 24 {
            let now = start + HOUR * hour;
            let count = u64::from(hour) + 1;
            db.write(|tx| {
                tx.put(&table, b"count", count.to_be_bytes())?;
                tx.put(&table, format!("k{}", count % 50), [count as u8; 200])
            })
            .unwrap();
            if hour % 5 == 0 {
                db.checkpoint().unwrap();
            }
            if !is_due(plan.every, newest, newest, now) {
                continue;
            }
            newest = Some(now);
            let done = take(&db, &folder, &plan, now, &mut |_| {}).unwrap();
            taken.insert(done.report.name.unwrap(), count);
            for removed in done.removed.unwrap() {
                taken.remove(&removed).expect("it was there");
            }
            each(&folder, now, &taken);
        }
        db.close().unwrap();
    }

    #[test]
    fn thirty_days_of_backups_by_age() {
        let week = 7 * DAY;
        let mut backups = 0;
        let mut last = None;
        thirty_days(Retention::Younger(week), |folder, now, taken| {
            backups += 1;
            let entries = folder.list().unwrap();
            let names: Vec<&str> = entries.iter().map(|entry| &entry.name[..]).collect();
            assert!(names.iter().copied().eq(taken.keys().map(String::as_str)), "{names:?} {taken:?}");
            let ages = entries
                .iter()
                .map(|entry| now.duration_since(entry.info.as_ref().unwrap().created()).unwrap());
            let young = ages.filter(|age| *age <= week).count();
            assert_eq!(young, backups.min(29), "none of a week is missing");
            // Older ones stay only because others build on them.
            assert!(entries.len() <= young + MOST_INCREMENTAL, "{} are kept", entries.len());
            last = Some((entries.len(), taken.clone()));
            if backups == 120 {
                for (name, count) in taken {
                    assert_eq!(restored(folder, name), *count, "{name}");
                }
            }
        });
        let (kept, _) = last.unwrap();
        assert_eq!(backups, 120, "four a day");
        assert!((29..53).contains(&kept), "{kept} are kept");
    }

    #[test]
    fn thirty_days_of_backups_by_count() {
        let mut backups = 0;
        thirty_days(Retention::Newest(10), |folder, _, taken| {
            backups += 1;
            assert!(
                taken.len() >= backups.min(10) && taken.len() <= 10 + MOST_INCREMENTAL,
                "{}",
                taken.len()
            );
            if backups % 24 == 0 {
                for (name, count) in taken {
                    assert_eq!(restored(folder, name), *count, "{name}");
                }
            }
        });
    }

    /// A directory on a disk that reads other bytes than were written, beyond the head of a backup.
    #[derive(Debug)]
    struct Rotting(io::MemDir);

    #[derive(Debug)]
    struct RottingFile(Arc<dyn File>);

    impl Dir for Rotting {
        fn create(&self, name: &str) -> Result<Arc<dyn File>> {
            Ok(Arc::new(RottingFile(self.0.create(name)?)))
        }

        fn open(&self, name: &str) -> Result<Arc<dyn File>> {
            self.0.open(name)
        }

        fn rename(&self, from: &str, to: &str) -> Result<()> {
            self.0.rename(from, to)
        }

        fn remove(&self, name: &str) -> Result<()> {
            self.0.remove(name)
        }

        fn list(&self) -> Result<Vec<String>> {
            self.0.list()
        }

        fn sync(&self) -> Result<()> {
            self.0.sync()
        }

        fn lock(&self, name: &str) -> Result<Box<dyn Lock>> {
            self.0.lock(name)
        }

        fn lock_existing(&self, name: &str) -> Result<Box<dyn Lock>> {
            self.0.lock_existing(name)
        }

        fn lock_shared(&self, name: &str) -> Result<Box<dyn Lock>> {
            self.0.lock_shared(name)
        }

        fn check_in_place(&self, _: &[&dyn File]) -> Result<()> {
            Ok(())
        }

        fn describe(&self) -> String {
            self.0.describe()
        }
    }

    impl File for RottingFile {
        fn name(&self) -> &str {
            self.0.name()
        }

        fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
            let read = self.0.read_at(buffer, offset)?;
            if let Some(byte) =
                1_000u64.checked_sub(offset).and_then(|at| buffer[..read].get_mut(at as usize))
            {
                *byte ^= 1;
            }
            Ok(read)
        }

        fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
            self.0.write_at(bytes, offset)
        }

        fn len(&self) -> Result<u64> {
            self.0.len()
        }

        fn id(&self) -> Result<FileId> {
            self.0.id()
        }

        fn set_len(&self, len: u64) -> Result<()> {
            self.0.set_len(len)
        }

        fn allocate_at(&self, offset: u64, len: u64) -> Result<bool> {
            self.0.allocate_at(offset, len)
        }

        fn sync(&self) -> Result<()> {
            self.0.sync()
        }

        fn map(&self, _: u64) -> Result<Option<Arc<dyn LogMap>>> {
            Ok(None)
        }

        fn discard(&self, offset: u64, len: u64) -> Result<()> {
            self.0.discard(offset, len)
        }
    }

    #[test]
    fn a_backup_that_cannot_be_read_back_gets_no_name() {
        let folder = Backups::in_dir(Arc::new(Rotting(io::MemDir::new())));
        let db = Database::builder().memory_bytes(2 << 20).in_memory().unwrap();
        let table = db.ensure_table("t").unwrap();
        db.write(|tx| tx.put(&table, b"k", [7; 10_000])).unwrap();
        let refused =
            take(&db, &folder, &plan(Path::new("."), Retention::Newest(1)), UNIX_EPOCH, &mut |_| {})
                .unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corruption, "{refused}");
        assert_eq!(folder.list().unwrap().len(), 0);
    }

    #[test]
    fn a_damaged_or_foreign_folder_gets_a_new_chain() {
        let dir = tempfile::tempdir().unwrap();
        let plan = plan(dir.path(), Retention::Newest(1));
        let folder = Backups::create(dir.path()).unwrap();
        let db = Database::builder().memory_bytes(2 << 20).in_memory().unwrap();
        let now = UNIX_EPOCH + DAY;
        let name = |taken: Taken| taken.report.name.unwrap();
        assert_eq!(name(take(&db, &folder, &plan, now, &mut |_| {}).unwrap()), "backup-000001-full");
        db.ensure_table("t").unwrap();
        assert_eq!(name(take(&db, &folder, &plan, now, &mut |_| {}).unwrap()), "backup-000002-incremental");
        // Of another database: the incremental one is refused, and a full one is taken instead.
        let other = Database::builder().memory_bytes(2 << 20).in_memory().unwrap();
        let taken = take(&other, &folder, &plan, now, &mut |_| {}).unwrap();
        assert_eq!(taken.removed.as_ref().unwrap().len(), 0, "those of the first database stay");
        assert_eq!(name(taken), "backup-000003-full");
        let path = dir.path().join("backup-000003-full");
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        let taken = take(&other, &folder, &plan, now, &mut |_| {}).unwrap();
        assert_eq!(taken.removed.as_ref().unwrap().len(), 0, "the damaged one stays");
        assert_eq!(name(taken), "backup-000004-full");
    }
}
