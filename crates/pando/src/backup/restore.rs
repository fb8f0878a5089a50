//! Restoring: a chain of backups is read once from beginning to end and becomes a database in an empty directory.
//!
//! The parts go to `store::Rebuild` as they arrive; it makes nothing visible before its end. A stream cannot seek, so
//! it is read in the same way: a chain in a stream is its members one after the other.

use super::channel::{InFile, Source, Stream};
use super::folder::Backups;
use super::format::{Base, Header};
use super::reader::{Next, Reader};
use crate::progress::ProgressResult;
use base::env::Random;
use base::{Error, ErrorKind, Result};
use io::{Dir, OsDir};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use store::{Part, Rebuild};

/// The result of a restore.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RestoreReport {
    /// The number of backups in the chain.
    pub backups: u64,
    /// The number of the last commit in the restored database.
    pub commit: u64,
    /// The number of commits that the first opening replays from the log.
    pub log_commits: u64,
    /// The number of pages written. A page counts again each time that a later backup replaces it.
    pub pages: u64,
    /// The number of bytes of backups that were read.
    pub bytes: u64,
}

/// The progress of a restore.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RestoreProgress {
    /// The number of bytes of backups that were read so far.
    pub bytes: u64,
    /// The length of all backups of the chain in bytes.
    pub expected_bytes: u64,
}

/// Restores a backup of a folder into the directory `target`, which must be empty or not exist. `at` is the backup's
/// number or name; `None` is the newest. The database becomes visible after everything was verified and read back.
/// [`Database::backup_to`](crate::Database::backup_to) has an example.
///
/// # Errors
/// `Exists` if the target has files; `Missing` if there is no such backup or a member of its chain is missing;
/// `Foreign`, `Mismatch` and `Corruption` if a backup is not valid. After an error the target holds no database, and
/// opening it fails.
pub fn restore(backups: &Backups, at: Option<&str>, target: impl AsRef<Path>) -> Result<RestoreReport> {
    // A broken chain is rejected before anything is created.
    backups.chain(at)?;
    restore_in(backups, at, empty_dir(target.as_ref())?)
}

/// Restores a backup as [`restore`] does, and calls `progress` with the number of bytes read so far: every 64 KiB, and
/// at the end of each backup. `progress` can end the restore; see [`ProgressResult`]. After the last call, the restore
/// still reads the new database back.
///
/// ```
/// # fn main() -> pando::Result<()> {
/// # let (folder, target) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
/// # let db = pando::Database::builder().in_memory()?;
/// let backups = pando::Backups::create(folder.path())?;
/// db.backup_to(&backups, pando::BackupOptions::default())?;
/// pando::restore_with(&backups, None, target.path(), |now| {
///     eprintln!("{} of {} bytes", now.bytes, now.expected_bytes);
/// })?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Those of [`restore`] and of `progress`.
pub fn restore_with<R: ProgressResult>(
    backups: &Backups,
    at: Option<&str>,
    target: impl AsRef<Path>,
    mut progress: impl FnMut(RestoreProgress) -> R,
) -> Result<RestoreReport> {
    let chain = backups.chain(at)?;
    let sources: Vec<InFile> = chain.iter().map(|backup| backups.source(backup)).collect::<Result<_>>()?;
    restore_sources(sources, empty_dir(target.as_ref())?, &mut |now| progress(now).into_result())
}

/// Restores a backup as [`restore`] does, into any directory that implements [`Dir`]. Tests use it.
#[doc(hidden)]
pub fn restore_in(backups: &Backups, at: Option<&str>, target: Arc<dyn Dir>) -> Result<RestoreReport> {
    let chain = backups.chain(at)?;
    let sources = chain.iter().map(|backup| backups.source(backup)).collect::<Result<_>>()?;
    restore_sources(sources, target, &mut |_| Ok(()))
}

/// Restores the backups in `files`: a full one, followed by any incremental ones, each of which builds on the one
/// before it. Everything else is as for [`restore`].
///
/// # Errors
/// Those of [`restore`].
pub fn restore_files(files: &[impl AsRef<Path>], target: impl AsRef<Path>) -> Result<RestoreReport> {
    let sources: Vec<InFile> = files.iter().map(|file| InFile::open(file.as_ref())).collect::<Result<_>>()?;
    restore_sources(sources, empty_dir(target.as_ref())?, &mut |_| Ok(()))
}

/// Restores one backup from each of `sources`. Each source must end after its backup.
fn restore_sources(
    sources: Vec<InFile>,
    target: Arc<dyn Dir>,
    progress: &mut dyn FnMut(RestoreProgress) -> Result<()>,
) -> Result<RestoreReport> {
    let mut restoring = Restoring::begin(target)?;
    let expected_bytes = sources.iter().map(InFile::len_bytes).sum::<Result<u64>>()?;
    let mut now = RestoreProgress { bytes: 0, expected_bytes };
    for file in sources {
        let mut source = Watched { file, now: &mut now, unreported: 0, progress };
        restoring.take(&mut source)?.ok_or_else(|| not_complete(source.name()))?;
        if restoring.take(&mut source)?.is_some() {
            return Err(Error::corruption(format!("{}: the file holds more than one backup", source.name())));
        }
        progress(now)?;
    }
    restoring.finish()
}

/// The number of bytes that are read between two reports of the progress.
const REPORT_BYTES: usize = 64 << 10;

/// A file whose reads are progress.
struct Watched<'a> {
    file: InFile,
    now: &'a mut RestoreProgress,
    /// The bytes since the last report.
    unreported: usize,
    progress: &'a mut dyn FnMut(RestoreProgress) -> Result<()>,
}

impl Source for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let read = self.file.read(buffer)?;
        self.now.bytes += read as u64;
        self.unreported += read;
        if self.unreported >= REPORT_BYTES {
            self.unreported = 0;
            (self.progress)(*self.now)?;
        }
        Ok(read)
    }

    fn name(&self) -> &str {
        self.file.name()
    }
}

/// Restores the backups that `stream` yields: a full one, followed by any incremental ones, each of which builds on the
/// one before it. Everything else is as for [`restore`]. [`Database::backup`](crate::Database::backup) has an example.
///
/// # Errors
/// Those of [`restore`] and of `stream`.
pub fn restore_stream(stream: &mut dyn Read, target: impl AsRef<Path>) -> Result<RestoreReport> {
    restore_stream_in(stream, empty_dir(target.as_ref())?)
}

/// Restores backups as [`restore_stream`] does, into any directory that implements [`Dir`]. Tests use it.
#[doc(hidden)]
pub fn restore_stream_in(stream: &mut dyn Read, target: Arc<dyn Dir>) -> Result<RestoreReport> {
    let mut restoring = Restoring::begin(target)?;
    let mut source = Stream(stream);
    restoring.take(&mut source)?.ok_or_else(|| not_complete(source.name()))?;
    while restoring.take(&mut source)?.is_some() {}
    restoring.finish()
}

fn not_complete(name: &str) -> Error {
    Error::corruption(format!("{name}: expected a backup, found nothing"))
}

/// The data file of a restore that is not complete.
const UNFINISHED: &str = "data.restore";

/// Returns the directory `path`, which is created if it does not exist. It must be empty; an unlocked lock file does
/// not count.
fn empty_dir(path: &Path) -> Result<Arc<dyn Dir>> {
    let dir = OsDir::create(path)?;
    let listed =
        std::fs::read_dir(path).map_err(|cause| Error::io(format!("list {}", path.display()), cause))?;
    let names: Vec<_> = listed.filter_map(|entry| Some(entry.ok()?.file_name())).collect();
    let path = path.display();
    if names.iter().any(|name| name == UNFINISHED) {
        let message = format!(
            "{path} has an unfinished restore, {UNFINISHED:?}: if no restore is running there, delete the \
             directory and begin again"
        );
        return Err(Error::new(ErrorKind::Exists, message));
    }
    match names.iter().find(|name| *name != "lock") {
        None => Ok(Arc::new(dir)),
        Some(name) => {
            let message = format!("{path} is not empty: it has {name:?}; name a new or empty directory");
            Err(Error::new(ErrorKind::Exists, message))
        }
    }
}

/// A restore in progress.
struct Restoring {
    rebuild: Rebuild,
    report: RestoreReport,
    /// The last restored backup: what the next one must name as its base, and its header.
    last: Option<(Base, Header)>,
}

impl Restoring {
    fn begin(target: Arc<dyn Dir>) -> Result<Self> {
        let report = RestoreReport { backups: 0, commit: 0, log_commits: 0, pages: 0, bytes: 0 };
        Ok(Restoring { rebuild: Rebuild::begin(target)?, report, last: None })
    }

    /// Restores the next backup of `source`. Returns `None` if the source has ended.
    fn take(&mut self, source: &mut dyn Source) -> Result<Option<()>> {
        let name = source.name().to_owned();
        let Some(mut reader) = Reader::begin(source)? else { return Ok(None) };
        let header = *reader.header();
        self.expect_next(&header).map_err(|error| error.within(&name))?;
        let totals = loop {
            match reader.next()? {
                Next::State(superblock) => self.rebuild.state(superblock, header.commit)?,
                Next::Part(Part::Commit(record)) => self.rebuild.commit(record)?,
                Next::Part(Part::Page(ptr, bytes)) => self.rebuild.page(ptr, bytes)?,
                Next::Part(Part::Extent(piece)) => self.rebuild.piece(piece)?,
                Next::End(totals) => break totals,
            }
        };
        self.last = Some((Base { id: header.id, hash: totals.hash, checkpoint: header.checkpoint }, header));
        self.report.backups += 1;
        self.report.commit = header.commit.0;
        self.report.log_commits = totals.commits;
        self.report.pages += totals.pages;
        self.report.bytes += totals.bytes;
        Ok(Some(()))
    }

    /// Checks that `next` builds on the last restored backup.
    fn expect_next(&self, next: &Header) -> Result<()> {
        let mismatch = |message: String| Err(Error::new(ErrorKind::Mismatch, message));
        let Some((expected, before)) = &self.last else {
            return match next.base {
                None => Ok(()),
                Some(base) => mismatch(format!(
                    "it is an incremental backup on backup {:016x}; restore that one first",
                    base.id
                )),
            };
        };
        if next.base != Some(*expected) {
            let (expected, found) = (expected.id, next.base.map_or(0, |base| base.id));
            return mismatch(format!(
                "expected an incremental backup on {expected:016x}, found one on {found:016x}"
            ));
        }
        if (next.database, next.fork) != (before.database, before.fork) {
            return mismatch("it belongs to another database than the backup before it".to_owned());
        }
        Ok(())
    }

    fn finish(self) -> Result<RestoreReport> {
        // The fork 0 belongs to databases that were never restored.
        let fork = (Random::from_entropy().next_u64() as u32).max(1);
        self.rebuild.finish(fork)?;
        Ok(self.report)
    }
}
