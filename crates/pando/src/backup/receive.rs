//! Adding a backup to a folder that was taken elsewhere, for example one that a server sent over the network.

use super::channel::{InFile, Sink};
use super::folder::{Addition, BackupInfo, Backups};
use super::reader::{Next, Reader};
use super::take::BackupReport;
use base::{Error, ErrorKind, Result};
use std::io::Read;

/// The number of bytes that are read at a time.
const PIECE_BYTES: usize = 1 << 20;

impl Backups {
    /// Adds the full backup that `stream` yields. The backup appears in the folder after all of it was received and
    /// every checksum was verified. Blocks until the stream ends.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// let db = pando::Database::builder().in_memory()?;
    /// let mut stream = Vec::new();
    /// db.backup(pando::BackupOptions::default(), &mut stream)?;
    /// let backups = pando::Backups::create(dir.path())?;
    /// let report = backups.receive(&mut &stream[..])?;
    /// assert_eq!(report.bytes, stream.len() as u64);
    /// assert!(backups.receive(&mut &stream[..100]).is_err(), "only a part of it came");
    /// assert_eq!(backups.list()?.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Corruption` and `Foreign` if the stream is not a valid backup; `Invalid` if it is an incremental one. The
    /// folder stays as it was.
    pub fn receive(&self, stream: &mut dyn Read) -> Result<BackupReport> {
        self.receive_as(stream, None)
    }

    /// Adds the incremental backup that `stream` yields, which must build on `base`. See [`Backups::receive`].
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = pando::Database::builder().in_memory()?;
    /// let backups = pando::Backups::create(dir.path())?;
    /// db.backup_to(&backups, pando::BackupOptions::default())?;
    /// let (newest, mut stream) = (backups.newest()?.unwrap(), Vec::new());
    /// db.backup(pando::BackupOptions::default().since(&newest), &mut stream)?;
    /// let report = backups.receive_since(&mut &stream[..], &newest)?;
    /// assert!(!report.is_full && backups.chain(None)?.len() == 2);
    /// assert!(backups.receive(&mut &stream[..]).is_err(), "it is no full one");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Backups::receive`]; `Invalid` if the backup is full, or builds on another one.
    pub fn receive_since(&self, stream: &mut dyn Read, base: &BackupInfo) -> Result<BackupReport> {
        self.receive_as(stream, Some(base))
    }

    fn receive_as(&self, stream: &mut dyn Read, base: Option<&BackupInfo>) -> Result<BackupReport> {
        let addition = self.begin(base.is_none())?;
        copy(stream, &addition)?;
        let mut source = InFile::new(addition.file());
        let nothing = || Error::new(ErrorKind::Foreign, "the stream is empty, so it is not a backup");
        let mut reader = Reader::begin(&mut source)?.ok_or_else(nothing)?;
        let header = *reader.header();
        if header.base != base.map(BackupInfo::as_base) {
            let what = base.map_or(
                "the stream is an incremental backup, but a full one was requested",
                |_| "the stream is a full backup, or builds on another backup than the requested one",
            );
            return Err(Error::invalid(what));
        }
        let totals = loop {
            if let Next::End(totals) = reader.next()? {
                break totals;
            }
        };
        let bytes = addition.file().len()?;
        if Reader::begin(&mut source)?.is_some() {
            return Err(Error::corruption("there are bytes after the end of the backup"));
        }
        Ok(BackupReport {
            name: Some(addition.publish()?),
            identity: header.identity(),
            is_full: base.is_none(),
            commit: header.commit.0,
            checkpoint: header.checkpoint.0,
            log_commits: totals.commits,
            pages: totals.pages,
            bytes,
        })
    }
}

fn copy(stream: &mut dyn Read, addition: &Addition) -> Result<()> {
    let (mut sink, mut piece) = (InFile::new(addition.file()), vec![0; PIECE_BYTES]);
    loop {
        match stream.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(bytes) => sink.write(&piece[..bytes])?,
            Err(cause) if cause.kind() == std::io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(Error::io("read the backup", cause)),
        }
    }
}
