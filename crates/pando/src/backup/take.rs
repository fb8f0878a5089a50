//! Taking a backup: pin, copy part by part, unpin.
//!
//! No lock is held during reads, writes and waits. So a slow target or a low rate costs the database only what is
//! pinned: the log until its commits are copied, which happens first, and the pages that checkpoints replace meanwhile,
//! until the end. The memory is one page for each level of a tree, the longest commit record, and 400 KiB.

use super::channel::{InFile, Sink, Stream};
use super::folder::{BackupInfo, Backups};
use super::format::{Base, Header, Kind, Totals};
use super::writer::Writer;
use crate::Identity;
use crate::database::Database;
use crate::progress::ProgressResult;
use base::env::Random;
use base::{Error, ErrorKind, Result};
use std::fmt;
use std::io::Write;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use store::superblock::Superblock;
use store::{Part, Pinned};

/// Options of a backup.
#[derive(Default)]
#[must_use]
pub struct BackupOptions<'a> {
    rate_bytes: Option<u64>,
    since: Option<BackupInfo>,
    verify: bool,
    created: Option<SystemTime>,
    progress: Option<Watch<'a>>,
}

/// A function that gets the progress, and whose error ends the backup.
type Watch<'a> = Box<dyn FnMut(BackupProgress) -> Result<()> + 'a>;

impl fmt::Debug for BackupOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BackupOptions { rate_bytes, since, verify, .. } = self;
        let mut fields = f.debug_struct("BackupOptions");
        fields.field("rate_bytes", rate_bytes).field("since", since).field("verify", verify).finish()
    }
}

impl<'a> BackupOptions<'a> {
    /// The lowest [rate](Self::rate_bytes) of a backup, in bytes a second. At a lower rate a backup would hardly end.
    pub const LEAST_RATE_BYTES: u64 = 64 << 10;

    /// Limits writing to this many bytes a second. Default: no limit. A low rate makes the database keep its log and
    /// its replaced pages for longer. A backup with a rate below [`BackupOptions::LEAST_RATE_BYTES`] fails with
    /// `Invalid`.
    pub fn rate_bytes(mut self, bytes_a_second: u64) -> Self {
        self.rate_bytes = Some(bytes_a_second);
        self
    }

    /// Takes an incremental backup: only what changed since `base`, an older backup of the same database.
    pub fn since(mut self, base: &BackupInfo) -> Self {
        self.since = Some(base.clone());
        self
    }

    /// Reads the backup back and compares every checksum before its file in a folder gets its name. A file with the
    /// name of a backup was then readable when it was made. Default: no. The option has no effect on a stream.
    pub fn verify(mut self, verify: bool) -> Self {
        self.verify = verify;
        self
    }

    /// Sets the time in the header of the backup. Default: the clock of the machine. Simulations use it.
    #[doc(hidden)]
    pub fn created(mut self, created: SystemTime) -> Self {
        self.created = Some(created);
        self
    }

    /// Calls `progress` from time to time with the number of bytes written. `progress` [can end the
    /// backup](ProgressResult).
    pub fn progress<F, R>(mut self, progress: &'a mut F) -> Self
    where
        F: FnMut(BackupProgress) -> R + ?Sized,
        R: ProgressResult,
    {
        self.progress = Some(Box::new(|now| progress(now).into_result()));
        self
    }
}

/// The progress of a backup.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct BackupProgress {
    /// The number of bytes written so far.
    pub bytes: u64,
    /// The approximate length of a full backup in bytes.
    pub expected_bytes: u64,
}

/// The result of a backup.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BackupReport {
    /// The name of the backup's file in the folder; `None` for a stream.
    pub name: Option<String>,
    /// The [identity](Database::identity) of the database.
    pub identity: Identity,
    /// Whether the backup is full, that is, complete in itself.
    pub is_full: bool,
    /// The number of the last commit in the backup. The backup holds what a snapshot of that commit sees.
    pub commit: u64,
    /// The number of the checkpoint whose pages the backup holds.
    pub checkpoint: u64,
    /// The number of commits after the checkpoint that were copied from the log.
    pub log_commits: u64,
    /// The number of pages that were copied.
    pub pages: u64,
    /// The length of the backup in bytes.
    pub bytes: u64,
}

impl Database {
    /// Writes a backup of everything that is visible now to `sink`, while commits and checkpoints continue. It verifies
    /// every page that it copies. You can call it from any thread.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let db = pando::Database::builder().in_memory()?;
    /// # let restored = tempfile::tempdir().unwrap();
    /// let fruit = db.ensure_table("fruit")?;
    /// db.put(&fruit, b"apple", b"red")?;
    /// let mut bytes = Vec::new();
    /// let report = db.backup(pando::BackupOptions::default(), &mut bytes)?;
    /// assert_eq!(report.bytes, bytes.len() as u64);
    /// pando::restore_stream(&mut &bytes[..], restored.path())?;
    /// let copy = pando::Database::open(restored.path())?;
    /// assert_eq!(copy.get(&copy.ensure_table("fruit")?, b"apple")?.as_deref(), Some(&b"red"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Corruption`, with the damaged page or block; `Mismatch` if the base of an incremental backup belongs to another
    /// database or to another fork of this one; `Closed` if the database is closed while the backup runs; errors of the
    /// sink. The bytes written before an error are not a valid backup, and a restore rejects them.
    pub fn backup(&self, options: BackupOptions<'_>, sink: &mut dyn Write) -> Result<BackupReport> {
        let mut stream = Stream(sink);
        let report = take(self, options, &mut stream)?;
        sink.flush().map_err(|cause| Error::io("write the backup", cause))?;
        Ok(report)
    }

    /// Writes a backup into a folder, under the next number. The file gets its name after it is complete and synced.
    /// Everything else is as for [`Database::backup`].
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let (folder, restored) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    /// # let db = pando::Database::builder().in_memory()?;
    /// let fruit = db.ensure_table("fruit")?;
    /// let backups = pando::Backups::create(folder.path())?;
    /// db.backup_to(&backups, pando::BackupOptions::default())?;
    /// db.put(&fruit, b"apple", b"red")?;
    /// let newest = backups.newest()?.unwrap();
    /// db.backup_to(&backups, pando::BackupOptions::default().since(&newest))?;
    /// pando::restore(&backups, None, restored.path())?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Database::backup`]; `Locked` if another backup is being added to the folder; `Corruption` if
    /// [`BackupOptions::verify`] finds other bytes than were written.
    pub fn backup_to(&self, backups: &Backups, options: BackupOptions<'_>) -> Result<BackupReport> {
        let addition = backups.begin(options.since.is_none())?;
        let mut file = InFile::new(addition.file());
        let verify = options.verify;
        let report = take(self, options, &mut file)?;
        if verify {
            addition.verify()?;
        }
        let name = Some(addition.publish()?);
        Ok(BackupReport { name, ..report })
    }
}

fn take(db: &Database, options: BackupOptions<'_>, sink: &mut dyn Sink) -> Result<BackupReport> {
    let BackupOptions { rate_bytes, since, progress, created, .. } = options;
    let least = BackupOptions::LEAST_RATE_BYTES;
    if rate_bytes.is_some_and(|rate| rate < least) {
        return Err(Error::invalid(format!("the lowest rate of a backup is {least} bytes a second")));
    }
    let base = since.as_ref().map(BackupInfo::as_base);
    let mut pinned = db.shared.store.pin(base.map(|base| base.checkpoint))?;
    if let Some(since) = &since {
        check_base(since, pinned.superblock())?;
    }
    let header = header_of(&pinned, base, created.unwrap_or_else(SystemTime::now));
    let expected_bytes = pinned.estimated_bytes();
    let mut paced = Paced { sink, pace: rate_bytes.map(Pace::new), progress, bytes: 0, expected_bytes };
    let mut writer = Writer::begin(&mut paced, &header)?;
    writer.record(Kind::State, &[&pinned.superblock().encode()[..Superblock::BYTES]])?;
    while pinned.advance()? {
        match pinned.part() {
            Part::Commit(record) => writer.record(Kind::Commit, &[record])?,
            Part::Page(ptr, bytes) => writer.record(Kind::Page, &[&ptr.encode(), bytes])?,
            Part::Extent(piece) => writer.record(
                Kind::Extent,
                &[
                    &piece.ptr.encode(),
                    &piece.len_bytes.to_le_bytes(),
                    &piece.offset.to_le_bytes(),
                    piece.bytes,
                ],
            )?,
        }
    }
    drop(pinned);
    let Totals { commits, pages, .. } = writer.end()?;
    Ok(BackupReport {
        name: None,
        identity: header.identity(),
        is_full: base.is_none(),
        commit: header.commit.0,
        checkpoint: header.checkpoint.0,
        log_commits: commits,
        pages,
        bytes: paced.bytes,
    })
}

fn header_of(pinned: &Pinned, base: Option<Base>, created: SystemTime) -> Header {
    let superblock = pinned.superblock();
    Header {
        id: Random::from_entropy().next_u64().max(1),
        base,
        database: superblock.database,
        fork: superblock.fork,
        page_bytes: superblock.page_bytes as u32,
        checkpoint: superblock.checkpoint,
        commit: pinned.ts(),
        created_s: created.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
    }
}

/// Checks that the base of an incremental backup belongs to this database and to this fork of it.
fn check_base(since: &BackupInfo, superblock: &Superblock) -> Result<()> {
    let problem = if since.header.database != superblock.database {
        "is of another database"
    } else if since.header.fork != superblock.fork {
        "was taken before this database was restored, or from another copy of it"
    } else if since.header.checkpoint > superblock.checkpoint {
        "is newer than this database, which is an older copy"
    } else {
        return Ok(());
    };
    let message = format!("backup {} {problem}; take a full backup instead", since.name);
    Err(Error::new(ErrorKind::Mismatch, message))
}

/// A sink that limits the rate and reports progress.
struct Paced<'s, 'p> {
    sink: &'s mut dyn Sink,
    pace: Option<Pace>,
    progress: Option<Watch<'p>>,
    bytes: u64,
    expected_bytes: u64,
}

impl Sink for Paced<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.sink.write(bytes)?;
        self.bytes += bytes.len() as u64;
        if let Some(progress) = &mut self.progress {
            progress(BackupProgress { bytes: self.bytes, expected_bytes: self.expected_bytes })?;
        }
        if let Some(pace) = &mut self.pace {
            thread::sleep(pace.after(bytes.len() as u64, Instant::now()));
        }
        Ok(())
    }
}

/// A rate limit: no byte is written before the moment at which the rate allows it. After a pause the writer may catch
/// up by a moment's worth of bytes, but no more.
#[derive(Debug)]
struct Pace {
    bytes_a_second: u64,
    allowed_from: Instant,
}

impl Pace {
    const CREDIT: Duration = Duration::from_millis(100);

    fn new(bytes_a_second: u64) -> Self {
        Pace { bytes_a_second: bytes_a_second.max(1), allowed_from: Instant::now() }
    }

    /// Returns how long to wait at `now`, after `bytes` were written.
    fn after(&mut self, bytes: u64, now: Instant) -> Duration {
        let earliest = now.checked_sub(Self::CREDIT).unwrap_or(now);
        let taken = Duration::from_secs_f64(bytes as f64 / self.bytes_a_second as f64);
        self.allowed_from = self.allowed_from.max(earliest) + taken;
        self.allowed_from.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_holds_on_average_and_makes_up_for_no_long_pause() {
        let mut pace = Pace::new(1000);
        let mut now = pace.allowed_from;
        for _ in 0..50 {
            now += Duration::from_millis(20);
            now += pace.after(100, now);
        }
        let took = now - (pace.allowed_from - Duration::from_secs(5));
        assert_eq!(took, Duration::from_secs(5), "5000 bytes at 1000 a second");
        now += Duration::from_secs(60);
        assert_eq!(pace.after(200, now), Duration::from_millis(100), "a minute's pause is worth 100 ms");
    }
}
