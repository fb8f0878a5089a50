//! Retention: which backups of a folder are kept, and the removal of the others.
//!
//! 1. Only backups of the named database are removed, and only those are counted. A folder may have the only backup of
//!    another database.
//! 2. A backup on which a kept one builds is kept as well. So every backup that remains can be restored.
//! 3. The newest backup that is not damaged is always kept.
//! 4. Damaged backups stay: what they hold is not known, and `salvage` may read a part of it.
//! 5. Backups are removed newest first. After a crash in between, each that remains still has its base.

use super::folder::{BackupEntry, BackupInfo, Backups};
use crate::Identity;
use base::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

/// Which backups of a folder are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Retention {
    /// This number of backups, the newest ones.
    Newest(usize),
    /// Backups that are at most this old.
    Younger(Duration),
}

impl Backups {
    /// Removes the backups of the database `of` that `keep` does not select and on which no kept one builds. Returns
    /// the names of the removed files. The newest backup of the database always stays, and so do damaged backups and
    /// those of other databases. A restored copy counts as the same database. `now` is the time against which ages are
    /// computed. O(backups).
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let db = pando::Database::builder().in_memory()?;
    /// let backups = pando::Backups::create(folder.path())?;
    /// for _ in 0..3 {
    ///     db.backup_to(&backups, pando::BackupOptions::default())?;
    /// }
    /// let removed = backups.prune(
    ///     db.identity(),
    ///     pando::Retention::Newest(2),
    ///     std::time::SystemTime::now(),
    /// )?;
    /// assert_eq!(removed, ["backup-000001-full"]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Locked` if a backup is being added to the folder; `Io` if a file cannot be read or removed.
    pub fn prune(&self, of: Identity, keep: Retention, now: SystemTime) -> Result<Vec<String>> {
        let lock = self.lock()?;
        let entries = self.list()?;
        let intact = entries.iter().filter_map(|entry| Some((entry, entry.info.as_ref().ok()?)));
        let intact: Vec<(&BackupEntry, &BackupInfo)> =
            intact.filter(|(_, info)| info.header.database.0 == of.database).collect();
        let needed = needed(&intact, keep, now);
        let mut removed = Vec::new();
        for (entry, info) in intact.into_iter().rev() {
            if !needed.contains(&info.header.id) {
                self.remove(&entry.name)?;
                removed.push(entry.name.clone());
            }
        }
        if !removed.is_empty() {
            self.sync()?;
        }
        drop(lock);
        Ok(removed)
    }
}

/// Returns the ids of the backups to keep, and of those on which they build. `intact` is oldest first.
fn needed(intact: &[(&BackupEntry, &BackupInfo)], keep: Retention, now: SystemTime) -> BTreeSet<u64> {
    let is_kept = |place: usize, info: &BackupInfo| match keep {
        Retention::Newest(count) => intact.len() - place <= count,
        // A backup of the future was taken before the clock was set back.
        Retention::Younger(age) => {
            now.duration_since(info.created()).is_ok_and(|old| old <= age) || info.created() > now
        }
    };
    let bases: BTreeMap<u64, Option<u64>> =
        intact.iter().map(|(_, info)| (info.header.id, info.header.base.map(|base| base.id))).collect();
    let mut needed = BTreeSet::new();
    for (place, (_, info)) in intact.iter().enumerate() {
        if place + 1 < intact.len() && !is_kept(place, info) {
            continue;
        }
        let mut next = Some(info.header.id);
        while let Some(id) = next.filter(|id| needed.insert(*id)) {
            next = bases.get(&id).copied().flatten();
        }
    }
    needed
}
