//! A folder of backups: files `backup-<number>-full` and `backup-<number>-incremental`, numbered from 1 in the order in
//! which they were taken.
//!
//! A backup is written as `backup-<number>.partial` and synced; then it is renamed, and the rename is synced as well.
//! So a file with a backup's name is complete. A process that adds a backup holds `backups.lock`; the next addition
//! removes what a killed one left. A chain is found by what the headers state about each other, not by names or
//! numbers.

use super::channel::{InFile, open_file};
use super::format::{Base, END_BYTES, HEADER_BYTES, Header, Kind, RECORD_BYTES, RecordHead, Totals};
use super::reader::{Next, Reader};
use crate::Identity;
use base::{Error, ErrorKind, Result};
use io::{Dir, File, Lock, OsDir};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const LOCK: &str = "backups.lock";
const PARTIAL: &str = ".partial";
const PREFIX: &str = "backup-";
const FULL: &str = "-full";
const INCREMENTAL: &str = "-incremental";
/// The longest file name.
const MOST_NAME_BYTES: usize = 255;

/// A folder of backups, each in a file of its own whose name contains its number.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Backups {
    dir: Arc<dyn Dir>,
}

/// A backup file of a folder.
#[derive(Debug)]
#[non_exhaustive]
pub struct BackupEntry {
    /// The number of the backup, in the order in which the backups of the folder were taken.
    pub number: u64,
    /// The name of the file.
    pub name: String,
    /// The length of the file in bytes.
    pub bytes: u64,
    /// The description in the first and the last record of the file, or the error found in them. Only a restore
    /// verifies the records between.
    pub info: Result<BackupInfo>,
}

/// The description of a complete backup.
#[derive(Clone, Debug)]
pub struct BackupInfo {
    pub(super) name: String,
    pub(super) header: Header,
    totals: Totals,
}

impl BackupInfo {
    /// Returns the number of the last commit in the backup.
    pub fn commit(&self) -> u64 {
        self.header.commit.0
    }

    /// Returns the number of the checkpoint whose pages the backup holds.
    pub fn checkpoint(&self) -> u64 {
        self.header.checkpoint.0
    }

    /// Returns the [identity](crate::Database::identity) that the database had when the backup was taken. An
    /// incremental backup can be taken since this one only of a database with the same identity.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = pando::Database::builder().in_memory()?;
    /// let backups = pando::Backups::create(dir.path())?;
    /// db.backup_to(&backups, pando::BackupOptions::default())?;
    /// assert_eq!(backups.newest()?.unwrap().identity(), db.identity());
    /// # Ok(())
    /// # }
    /// ```
    pub fn identity(&self) -> Identity {
        self.header.identity()
    }

    /// Returns whether the backup is full, that is, complete in itself.
    pub fn is_full(&self) -> bool {
        self.header.base.is_none()
    }

    /// Returns when the backup was begun, by the clock of the machine that took it.
    pub fn created(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(self.header.created_s)
    }

    /// Reads the description of the backup in the file `path`, for example to take an incremental backup since it. It
    /// reads only the first and the last record.
    ///
    /// # Errors
    /// `Missing` if there is no such file; `Foreign` if it is not a backup; `Corruption` if it is damaged or
    /// incomplete.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        Self::of_file(&*open_file(path.as_ref())?)
    }

    /// Encodes the description in a few bytes, so that another process, such as a server, can take the next incremental
    /// backup.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = pando::Database::builder().in_memory()?;
    /// let backups = pando::Backups::create(dir.path())?;
    /// db.backup_to(&backups, pando::BackupOptions::default())?;
    /// let newest = backups.newest()?.unwrap();
    /// let sent = pando::BackupInfo::from_bytes(&newest.to_bytes())?;
    /// db.backup_to(&backups, pando::BackupOptions::default().since(&sent))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn to_bytes(&self) -> Vec<u8> {
        [&self.header.encode()[..], &self.totals.encode(), self.name.as_bytes()].concat()
    }

    /// Decodes what [`BackupInfo::to_bytes`] encoded.
    ///
    /// # Errors
    /// `Invalid` if `bytes` are anything else.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let wrong = || Error::invalid("the bytes do not describe a backup; take a full backup");
        let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or_else(wrong)?;
        let (totals, name) = rest.split_at_checked(END_BYTES).ok_or_else(wrong)?;
        let name =
            str::from_utf8(name).ok().filter(|name| name.len() <= MOST_NAME_BYTES).ok_or_else(wrong)?;
        let header = Header::decode(header).map_err(|error| wrong().caused_by(error))?;
        Ok(BackupInfo { name: name.to_owned(), header, totals: Totals::decode(totals)? })
    }

    pub(super) fn as_base(&self) -> Base {
        Base { id: self.header.id, hash: self.totals.hash, checkpoint: self.header.checkpoint }
    }

    fn of_file(file: &dyn File) -> Result<Self> {
        let within = |error: Error| error.within(file.name());
        let mut bytes = [0; HEADER_BYTES];
        if file.read_at(&mut bytes, 0)? < HEADER_BYTES {
            return Err(within(Error::new(ErrorKind::Foreign, "the file is too short to be a backup")));
        }
        let header = Header::decode(&bytes).map_err(within)?;
        let totals = read_totals(file, &header).map_err(within)?;
        Ok(BackupInfo { name: file.name().to_owned(), header, totals })
    }
}

/// Reads the end record, which has a fixed length and is the last thing in the file.
fn read_totals(file: &dyn File, header: &Header) -> Result<Totals> {
    let len = file.len()?;
    let end_bytes = (RECORD_BYTES + END_BYTES) as u64;
    let at = len.checked_sub(end_bytes).filter(|&at| at >= HEADER_BYTES as u64);
    let at = at.ok_or_else(|| Error::corruption("the backup is incomplete"))?;
    let (mut head, mut payload) = ([0; RECORD_BYTES], [0; END_BYTES]);
    file.read_exact_at(&mut head, at)?;
    file.read_exact_at(&mut payload, at + RECORD_BYTES as u64)?;
    let totals = Totals::decode(&payload)?;
    let decoded = RecordHead::decode(&head, totals.records)?;
    decoded.verify(&head, header.id, &payload)?;
    if decoded.kind != Kind::End || totals.bytes != at {
        return Err(Error::corruption(format!(
            "expected the end record at byte {}, found it at {at}",
            totals.bytes
        )));
    }
    Ok(totals)
}

impl Backups {
    /// Opens the folder `path`, and creates it if it does not exist.
    ///
    /// # Errors
    /// `Io` if it cannot be created.
    pub fn create(path: impl AsRef<Path>) -> Result<Self> {
        Ok(Backups { dir: Arc::new(OsDir::create(path)?) })
    }

    /// Opens the folder `path`.
    ///
    /// # Errors
    /// `Missing` if it does not exist.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Ok(Backups { dir: Arc::new(OsDir::open(path)?) })
    }

    /// Opens a folder in any directory that implements [`Dir`]. Tests use it.
    #[doc(hidden)]
    pub fn in_dir(dir: Arc<dyn Dir>) -> Self {
        Backups { dir }
    }

    /// Lists all backups, oldest first. A damaged backup is listed with its error.
    ///
    /// # Errors
    /// `Io` if the folder cannot be read.
    pub fn list(&self) -> Result<Vec<BackupEntry>> {
        let mut entries = Vec::new();
        for name in self.dir.list()? {
            let Some(number) = number_of(&name) else { continue };
            let file = self.dir.open_to_read(&name)?;
            let (bytes, info) = (file.len()?, BackupInfo::of_file(&*file));
            // An I/O error does not mean that the backup is damaged.
            if let Err(error) = &info
                && matches!(error.kind(), ErrorKind::Io)
            {
                return Err(error.duplicate());
            }
            entries.push(BackupEntry { number, name, bytes, info });
        }
        entries.sort_by_key(|entry| entry.number);
        Ok(entries)
    }

    /// Returns the newest backup, or `None` if the folder has none.
    ///
    /// # Errors
    /// The error of the newest backup if that backup is damaged: an older one never silently takes its place.
    pub fn newest(&self) -> Result<Option<BackupInfo>> {
        self.list()?.pop().map(|entry| entry.info).transpose()
    }

    /// Returns the chain of backups that a restore of backup `at` needs, the full one first. `at` is a number or a
    /// name; `None` is the newest.
    ///
    /// # Errors
    /// `Missing` if there is no such backup or a member of its chain is missing; `Foreign` and `Corruption` if a
    /// member is damaged.
    pub fn chain(&self, at: Option<&str>) -> Result<Vec<BackupInfo>> {
        let mut entries = self.list()?;
        let chosen = match at {
            None => entries.len().checked_sub(1),
            Some(at) => entries.iter().position(|entry| entry.name == at || at.parse() == Ok(entry.number)),
        };
        let none = || match at {
            Some(at) => missing(format!(
                "{} has no backup {at:?}; list the backups to see which there are",
                self.dir.describe()
            )),
            None => missing(format!("{} has no backups", self.dir.describe())),
        };
        let mut chain = vec![entries.swap_remove(chosen.ok_or_else(none)?).info?];
        while let Some(base) = chain.last().and_then(|last| last.header.base) {
            let found =
                entries.iter().position(|entry| matches!(&entry.info, Ok(info) if info.as_base() == base));
            let Some(found) = found else {
                let name = &chain.last().expect("it was just looked at").name;
                return Err(missing(format!(
                    "{name} is incremental, and the backup {:016x} that it builds on is missing or \
                     damaged in {}",
                    base.id,
                    self.dir.describe()
                )));
            };
            chain.push(entries.swap_remove(found).info?);
        }
        chain.reverse();
        Ok(chain)
    }

    pub(super) fn source(&self, backup: &BackupInfo) -> Result<InFile> {
        Ok(InFile::new(self.dir.open_to_read(&backup.name)?))
    }

    /// Keeps others from adding and removing backups until the lock is dropped.
    pub(super) fn lock(&self) -> Result<Box<dyn Lock>> {
        self.dir.lock(LOCK).map_err(|error| match error.kind() {
            ErrorKind::Locked => {
                let what = format!(
                    "another process is adding a backup to {}, or removing old ones; run one backup into a \
                     folder at a time",
                    self.dir.describe()
                );
                Error::new(ErrorKind::Locked, what).caused_by(error)
            }
            _ => error,
        })
    }

    pub(super) fn remove(&self, name: &str) -> Result<()> {
        self.dir.remove(name)
    }

    /// Makes removals durable.
    pub(super) fn sync(&self) -> Result<()> {
        self.dir.sync()
    }

    /// Begins to add a backup.
    pub(super) fn begin(&self, is_full: bool) -> Result<Addition> {
        let lock = self.lock()?;
        let names = self.dir.list()?;
        for name in names.iter().filter(|name| name.starts_with(PREFIX) && name.ends_with(PARTIAL)) {
            self.dir.remove(name)?;
        }
        let number = names.iter().filter_map(|name| number_of(name)).max().unwrap_or(0) + 1;
        let kind = if is_full { FULL } else { INCREMENTAL };
        let partial = format!("{PREFIX}{number:06}{PARTIAL}");
        let file = self.dir.create(&partial)?;
        let name = format!("{PREFIX}{number:06}{kind}");
        Ok(Addition { dir: Arc::clone(&self.dir), file, partial, name, is_published: false, _lock: lock })
    }
}

fn missing(message: String) -> Error {
    Error::new(ErrorKind::Missing, message)
}

/// Returns the number in a backup's name.
fn number_of(name: &str) -> Option<u64> {
    let rest = name.strip_prefix(PREFIX)?;
    let digits = rest.strip_suffix(FULL).or_else(|| rest.strip_suffix(INCREMENTAL))?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// A backup that is being added to a folder. Its partial file is removed if it is dropped before it is published.
#[derive(Debug)]
pub(super) struct Addition {
    dir: Arc<dyn Dir>,
    file: Arc<dyn File>,
    partial: String,
    name: String,
    is_published: bool,
    _lock: Box<dyn Lock>,
}

impl Addition {
    pub fn file(&self) -> Arc<dyn File> {
        Arc::clone(&self.file)
    }

    /// Makes the file durable, reads it back, and verifies every checksum.
    pub fn verify(&self) -> Result<()> {
        self.file.sync()?;
        let mut source = InFile::new(self.file());
        let Some(mut reader) = Reader::begin(&mut source)? else {
            return Err(Error::corruption(format!("{}: the file is empty", self.partial)));
        };
        while !matches!(reader.next()?, Next::End(_)) {}
        Ok(())
    }

    /// Makes the file durable, then renames it to its final name. Returns that name.
    pub fn publish(mut self) -> Result<String> {
        self.file.sync()?;
        self.dir.rename(&self.partial, &self.name)?;
        self.is_published = true;
        self.dir.sync()?;
        Ok(std::mem::take(&mut self.name))
    }
}

impl Drop for Addition {
    fn drop(&mut self) {
        if !self.is_published {
            // Best effort: the next addition removes it as well.
            let _ = self.dir.remove(&self.partial);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BackupOptions, Database};
    use io::MemDir;

    #[test]
    fn a_backup_that_reads_back_differently_gets_no_name() {
        let db = Database::builder().memory_bytes(2 << 20).in_memory().unwrap();
        let table = db.ensure_table("t").unwrap();
        db.put(&table, b"k", b"v").unwrap();
        let mut bytes = Vec::new();
        db.backup(BackupOptions::default(), &mut bytes).unwrap();
        let folder = Backups::in_dir(Arc::new(MemDir::new()));
        let verify = |bytes: &[u8]| {
            let addition = folder.begin(true).unwrap();
            addition.file().write_at(bytes, 0).unwrap();
            addition.verify()
        };
        verify(&bytes).unwrap();
        for at in (0..bytes.len()).step_by(97).chain([bytes.len() - 1]) {
            let mut wrong = bytes.clone();
            wrong[at] ^= 1;
            let kind = verify(&wrong).unwrap_err().kind();
            assert!(matches!(kind, ErrorKind::Corruption | ErrorKind::Foreign), "byte {at}: {kind:?}");
            assert!(verify(&bytes[..at]).is_err(), "{at} bytes of it");
        }
        assert_eq!(folder.list().unwrap().len(), 0);
        assert_eq!(folder.dir.list().unwrap(), Vec::<String>::new(), "nothing is left of them");
        db.backup_to(&folder, BackupOptions::default().verify(true)).unwrap();
        assert_eq!(folder.list().unwrap().len(), 1);
    }
}
