//! A database as it is shipped, and as it is restored.
//!
//! # The marker
//! A restored database is of a fork of its own. The file `lineage` in its directory records where it came from. With
//! that record it may continue the lineage, as long as no other database has. The file has 32 bytes: magic
//! (`PANDOLIN`), the lineage's id, the commit, and the checksum of these 24 bytes. If the database had been dropped
//! before it was restored, the magic is `PANDOUND`, and the database may have its name again, in a lineage of its own.

use crate::bucket::Bucket;
use crate::handle::Shipper;
use crate::lineage::Lineage;
use crate::options::Options;
use crate::restore::{self, Goal, Report};
use crate::source::{Follow, Origin, Source, Stamp, Target};
use base::codec::{Reader, Writer as _};
use base::env::Clock;
use base::{Error, ErrorKind, Result, checksum};
use pando::Identity;
use pando::{BackupOptions, Changes, Database};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const MARKER: &str = "lineage";
const MAGIC: [u8; 8] = *b"PANDOLIN";
/// The magic of a database that had been dropped before it was restored.
const MAGIC_AFTER_DROP: [u8; 8] = *b"PANDOUND";
/// The length of the marker: its fields, and their checksum.
const MARKER_BYTES: usize = 32;

impl Shipper {
    /// Begins to ship `db`, whose directory is `dir`, to `bucket`, and returns at once. If the bucket cannot be
    /// reached, the shipper's thread tries again until it can. Call this before the first commit of this process, so
    /// that the shipper notices commits that are in the bucket and that this database has lost.
    ///
    /// # Errors
    /// `Closed` if the database is closed; `Io` if `dir` cannot be read, or no thread can be started. Later errors are
    /// in [`Shipper::status`] and [`Shipper::ended`].
    pub fn start(db: &Database, dir: impl AsRef<Path>, bucket: Bucket, options: Options) -> Result<Self> {
        let origin = read_marker(dir.as_ref())?;
        Shipper::over(Arc::new(Live { db: db.clone(), origin }), bucket, options)
    }
}

/// Restores the database of `bucket` as of `goal` into the directory `dir`, which must be empty or not exist. Calls
/// `progress` with the number of bytes read so far. The number starts again from 0 if the base is deleted during the
/// restore, which then begins again with another base.
///
/// The database is built beside `dir`, in `.NAME.restoring`, verified, and then renamed. So `dir` has the whole
/// database or nothing, even after a crash.
///
/// You can restore a database that was dropped. If another database was created under its name later, that one is
/// restored; choose an earlier one by [`Bucket::incarnation`].
///
/// # Errors
/// `Exists` if `dir` has files; `Missing` if the bucket has no database, or no state as old or as new as `goal`;
/// `Corruption` and `Foreign`, with the object that is missing, damaged or not Pando's; `Conflict` if the writer
/// deletes bases faster than they can be read.
pub fn restore(
    bucket: &Bucket,
    goal: Goal,
    dir: impl AsRef<Path>,
    progress: &mut dyn FnMut(u64),
) -> Result<Report> {
    let dir = dir.as_ref();
    check_empty(dir)?;
    let lineage = Lineage::expect(bucket)?;
    let dropped_ms = dropped_ms(&lineage)?;
    let beside = beside(dir)?;
    remove(&beside)?;
    let mut target = Restored { dir: beside.clone(), db: None };
    let done = restore::run(&lineage, goal, &mut target, progress).and_then(|report| {
        let report = Report { dropped_ms, ..report };
        let (commit, after_drop) = (report.commit, dropped_ms.is_some());
        target.finish(Origin { lineage: lineage.id, commit, after_drop })?;
        fs::rename(&beside, dir).map_err(|cause| Error::io(format!("rename {}", beside.display()), cause))?;
        sync_parent(dir)?;
        Ok(report)
    });
    if done.is_err() {
        drop(target);
        remove(&beside)?;
    }
    done
}

/// Returns when the database of the lineage was dropped. A log whose end is damaged does not say so, and an earlier
/// state of it can be restored all the same.
fn dropped_ms(lineage: &Lineage) -> Result<Option<u64>> {
    match lineage.tail() {
        Err(error) if matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Foreign) => Ok(None),
        tail => Ok(tail?.and_then(|tail| tail.head.dropped_ms)),
    }
}

/// A database that is open.
pub(crate) struct Live {
    pub db: Database,
    pub origin: Option<Origin>,
}

impl Source for Live {
    fn identity(&self) -> Result<Identity> {
        Ok(self.db.identity())
    }

    fn origin(&self) -> Result<Option<Origin>> {
        Ok(self.origin)
    }

    fn newest(&self) -> Result<u64> {
        Ok(self.db.snapshot()?.commit_number())
    }

    fn time_ms(&self) -> u64 {
        self.db.time_ms()
    }

    fn sync(&self) -> Result<()> {
        self.db.sync()
    }

    fn follow(&self, after: u64) -> Result<Box<dyn Follow>> {
        // 0 means "as far back as possible", which may be later than that.
        let changes = self.db.changes(after)?;
        if changes.position() > after {
            return Err(Error::new(ErrorKind::TooOld, "the first commits are no longer in the log"));
        }
        Ok(Box::new(Following(changes)))
    }

    fn backup(&self, out: &mut dyn Write) -> Result<u64> {
        Ok(self.db.backup(BackupOptions::default(), out)?.commit)
    }
}

struct Following(Changes);

impl Follow for Following {
    fn next(&mut self, wait: Duration, out: &mut dyn Write) -> Result<Option<Stamp>> {
        let change = if wait.is_zero() { self.0.next()? } else { self.0.wait(wait)? };
        let Some(mut change) = change else { return Ok(None) };
        change.write_to(out)?;
        let commit = change.commit_number();
        // A commit from before anybody read changes has no time. This one is later, and near.
        let time_ms = change.time_ms().unwrap_or_else(|| Clock::default().now_ms());
        Ok(Some(Stamp { commit, time_ms }))
    }
}

/// A database that is being restored.
struct Restored {
    dir: PathBuf,
    db: Option<Database>,
}

impl Restored {
    /// Verifies everything that was written, and marks where it came from.
    fn finish(&mut self, origin: Origin) -> Result<()> {
        let db = self.db.take().ok_or_else(|| Error::invalid("nothing was restored"))?;
        db.checkpoint()?;
        db.check()?;
        db.close()?;
        write_marker(&self.dir, origin)
    }
}

impl Target for Restored {
    fn base(&mut self, backup: &mut dyn Read) -> Result<u64> {
        // An earlier attempt may have left something.
        self.db = None;
        remove(&self.dir)?;
        let report = pando::restore_stream(backup, &self.dir)?;
        self.db = Some(Database::open(&self.dir)?);
        Ok(report.commit)
    }

    fn apply(&mut self, changes: &mut dyn Read) -> Result<()> {
        let db = self.db.as_ref().ok_or_else(|| Error::invalid("there is no base yet"))?;
        db.apply_changes_across_forks(changes).map(drop)
    }
}

impl Target for Live {
    fn base(&mut self, _: &mut dyn Read) -> Result<u64> {
        Err(Error::invalid("a database that is open is not restored"))
    }

    fn apply(&mut self, changes: &mut dyn Read) -> Result<()> {
        self.db.apply_changes_across_forks(changes).map(drop)
    }
}

fn check_empty(dir: &Path) -> Result<()> {
    let shown = dir.display();
    match fs::read_dir(dir) {
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(cause) => Err(Error::io(format!("list {shown}"), cause)),
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => {
                let message = format!("{shown} is not empty; name a new or empty directory");
                Err(Error::new(ErrorKind::Exists, message))
            }
        },
    }
}

fn beside(dir: &Path) -> Result<PathBuf> {
    let name = dir.file_name().ok_or_else(|| Error::invalid(format!("{} has no name", dir.display())))?;
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(".restoring");
    Ok(dir.with_file_name(hidden))
}

/// Removes what a restore that was interrupted has left.
fn remove(beside: &Path) -> Result<()> {
    match fs::remove_dir_all(beside) {
        Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io(format!("remove {}", beside.display()), cause))
        }
        _ => Ok(()),
    }
}

fn sync_parent(dir: &Path) -> Result<()> {
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let synced = File::open(parent).and_then(|parent| parent.sync_all());
    synced.map_err(|cause| Error::io(format!("sync {}", parent.display()), cause))
}

pub(crate) fn write_marker(dir: &Path, origin: Origin) -> Result<()> {
    let mut bytes = if origin.after_drop { MAGIC_AFTER_DROP } else { MAGIC }.to_vec();
    bytes.put_u64(origin.lineage);
    bytes.put_u64(origin.commit);
    let sum = checksum::header(&bytes);
    bytes.put_u64(sum);
    let path = dir.join(MARKER);
    let written = File::create(&path).and_then(|mut file| {
        file.write_all(&bytes)?;
        file.sync_all()?;
        File::open(dir)?.sync_all()
    });
    written.map_err(|cause| Error::io(format!("write {}", path.display()), cause))
}

/// Returns the marker of `dir`, if it has one.
pub(crate) fn read_marker(dir: &Path) -> Result<Option<Origin>> {
    let path = dir.join(MARKER);
    let mut bytes = Vec::new();
    // A file of another length is damaged: no more is read of it, however long it is.
    match File::open(&path).and_then(|file| file.take(MARKER_BYTES as u64 + 1).read_to_end(&mut bytes)) {
        Ok(_) => {}
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(Error::io(format!("read {}", path.display()), cause)),
    };
    let mut reader = Reader::new(&bytes);
    let mut read = || {
        let magic: [u8; 8] = reader.array()?;
        let after_drop = magic == MAGIC_AFTER_DROP;
        (magic == MAGIC || after_drop).then_some(())?;
        let origin = Origin { lineage: reader.u64()?, commit: reader.u64()?, after_drop };
        (reader.u64()? == checksum::header(&bytes[..24]) && reader.is_empty()).then_some(origin)
    };
    let damaged = || Error::corruption(format!("{} is damaged", path.display()));
    read().map(Some).ok_or_else(damaged)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_is_read_back_and_a_longer_file_is_damaged() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read_marker(dir.path()).unwrap(), None);
        for after_drop in [true, false] {
            let origin = Origin { lineage: 7, commit: 9, after_drop };
            write_marker(dir.path(), origin).unwrap();
            assert_eq!(read_marker(dir.path()).unwrap(), Some(origin));
        }
        // The rest has no blocks.
        File::options().write(true).open(dir.path().join(MARKER)).unwrap().set_len(8 << 40).unwrap();
        assert_eq!(read_marker(dir.path()).unwrap_err().kind(), ErrorKind::Corruption);
    }
}
