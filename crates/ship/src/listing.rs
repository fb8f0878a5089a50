//! What a bucket has, for people and programs.

use crate::bucket::Bucket;
use crate::lineage::{Lineage, Standing};
use crate::name;
use base::{ErrorKind, Result};
use serde::Serialize;

/// The longest name of a server's database.
const MOST_NAME_BYTES: usize = 64;
/// A folder that `mkfs` makes, and that only the superuser may read: a bucket can be all of a disk.
const OF_FILE_SYSTEM: &str = "lost+found";

/// The lineage of a bucket.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Listing {
    /// The id of the database, in hexadecimal digits.
    pub database: String,
    /// The time when the lineage was created, in milliseconds since 1970.
    pub created_ms: u64,
    /// The epoch of the newest writer.
    pub epoch: u64,
    /// The number of the newest commit in the bucket.
    pub newest_commit: u64,
    /// The time of that commit, in milliseconds since 1970.
    pub newest_time_ms: u64,
    /// The number of the newest segment.
    pub newest_segment: u64,
    /// Whether the newest writer may be alive: it has neither released the lineage nor dropped the database.
    pub is_held: bool,
    /// The time when the database was dropped, in milliseconds since 1970; `None` if it was not dropped.
    pub dropped_ms: Option<u64>,
    /// The states that can be restored, oldest first.
    pub bases: Vec<Reach>,
}

/// A base, and the states that can be restored from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Reach {
    /// The number of the base's commit, the first one that can be restored.
    pub commit: u64,
    /// A time at which that commit was the newest, in milliseconds since 1970.
    pub time_ms: u64,
    /// The number of the last commit that can be restored.
    pub last_commit: u64,
    /// A time at which the last commit was the newest, in milliseconds since 1970.
    pub last_time_ms: u64,
    /// The epoch of the base's writer.
    pub epoch: u64,
    /// The number of bytes of the base in the bucket.
    pub bytes: u64,
}

/// The listing of one database in the bucket of a server.
#[derive(Debug)]
#[non_exhaustive]
pub struct NamedListing {
    /// The name of the database; empty for the database whose lineage is the bucket itself.
    pub database: String,
    /// The number of the database among those of this name: see [`Bucket::incarnation`].
    pub incarnation: u64,
    /// The listing, or the error with which it could not be read.
    pub listing: Result<Listing>,
}

impl Bucket {
    /// Lists the states that can be restored, without reading the bases or the log.
    ///
    /// # Errors
    /// `Missing` if the bucket holds no shipped database; `Corruption` and `Foreign`, naming the object.
    pub fn listing(&self) -> Result<Listing> {
        let lineage = Lineage::expect(self)?;
        let head = lineage.tail()?.map(|tail| tail.head);
        let (newest_commit, newest_time_ms) =
            head.map_or((0, 0), |head| (head.last_commit, head.last_time_ms));
        let mut bases: Vec<Reach> = Vec::new();
        for base in lineage.bases()? {
            if matches!(lineage.stands(&base)?, Standing::Unfinished) {
                continue;
            }
            let manifest = &base.manifest;
            if let Some(after) = manifest.leaps_after {
                for earlier in bases.iter_mut().filter(|earlier| earlier.last_commit > after) {
                    (earlier.last_commit, earlier.last_time_ms) = (after, manifest.time_ms);
                }
            }
            bases.push(Reach {
                commit: manifest.commit,
                time_ms: manifest.time_ms,
                last_commit: newest_commit,
                last_time_ms: newest_time_ms.max(manifest.time_ms),
                epoch: base.epoch,
                bytes: manifest.parts.stored_bytes(),
            });
        }
        Ok(Listing {
            database: format!("{:016x}", lineage.database),
            created_ms: lineage.created_ms,
            epoch: lineage.newest(name::EPOCHS)?,
            newest_commit,
            newest_time_ms,
            newest_segment: head.map_or(0, |head| head.number),
            is_held: head.is_some_and(|head| head.is_held()),
            dropped_ms: head.and_then(|head| head.dropped_ms),
            bases,
        })
    }

    /// Returns whether the bucket holds a database whose newest writer has not [released](crate::Shipper::release) it,
    /// and has not dropped it. That writer may be alive.
    ///
    /// # Errors
    /// `Io` if the bucket cannot be reached; `Corruption` and `Foreign`, naming the object.
    pub fn is_held(&self) -> Result<bool> {
        let Some(lineage) = Lineage::open(self)? else { return Ok(false) };
        Ok(lineage.tail()?.is_some_and(|tail| tail.head.is_held()))
    }

    /// Returns whether the bucket has a base, so that its database can be restored. Before the first one, no commit
    /// counts as shipped.
    ///
    /// # Errors
    /// `Io` if the bucket cannot be reached; `Corruption` and `Foreign`, naming the object.
    pub fn has_base(&self) -> Result<bool> {
        let Some(lineage) = Lineage::open(self)? else { return Ok(false) };
        for named in lineage.kept_bases()? {
            // A restore names one that is damaged, and may begin with an earlier one.
            let Ok(base) = named.base else { return Ok(true) };
            if !matches!(lineage.stands(&base)?, Standing::Unfinished) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the number of the newest commit in the bucket, or 0 if the bucket has no log yet.
    ///
    /// # Errors
    /// `Missing` if the bucket holds no shipped database; `Io` if it cannot be reached; `Corruption` and `Foreign`,
    /// naming the object.
    pub fn newest_commit(&self) -> Result<u64> {
        Ok(Lineage::expect(self)?.tail()?.map_or(0, |tail| tail.head.last_commit))
    }

    /// Returns whether the bucket holds a shipped database, or held one that was dropped.
    ///
    /// # Errors
    /// `Io` if the bucket cannot be reached; `Corruption` if the object `lineage` of that database is missing.
    pub fn is_shipped(&self) -> Result<bool> {
        // The objects of the first database may have been deleted after it was dropped.
        if self.exists(name::LINEAGE)? {
            return Ok(true);
        }
        let has_others = self.own_incarnation().is_none() && self.incarnations()?.len() > 1;
        Ok(has_others && self.newest_incarnation()? > 1)
    }

    /// Returns the names of the databases in the bucket of a server, dropped ones included: the folders of the bucket
    /// that hold a shipped database, and that have a name of 1 to 64 letters, digits, `-` and `_`. A database whose
    /// lineage is the bucket itself is not among them: see [`Bucket::is_shipped`].
    ///
    /// # Errors
    /// `Io` if the bucket cannot be reached; `Corruption` if the object `lineage` of a database is missing.
    pub fn databases(&self) -> Result<Vec<String>> {
        let mut found = self.folders_of_databases()?;
        // No server can have another one, and what else is on a disk may be unreadable.
        found.retain(|folder| is_name(folder));
        let mut names = Vec::new();
        for folder in found {
            if self.within(&folder)?.holds_a_lineage()? {
                names.push(folder);
            }
        }
        Ok(names)
    }

    /// Lists the folders in which there may be databases: not those of a file system, and those of a lineage only if a
    /// database has such a name.
    fn folders_of_databases(&self) -> Result<Vec<String>> {
        let mut found = Vec::new();
        for folder in self.folders("")? {
            let is_of_file_system = folder == OF_FILE_SYSTEM || folder.starts_with('.');
            let is_of_lineage = name::OWN_FOLDERS.contains(&&*folder);
            if !is_of_file_system && (!is_of_lineage || self.within(&folder)?.is_shipped()?) {
                found.push(folder);
            }
        }
        Ok(found)
    }

    /// Returns the listings of all databases in the bucket, dropped ones included: of the database whose lineage is the
    /// bucket itself, and of those in folders of it. A damaged database has an error in its place, and the others are
    /// listed nevertheless.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// let bucket = pando_ship::Bucket::connect(dir.path().to_str().unwrap())?;
    /// for found in bucket.listings()? {
    ///     match found.listing {
    ///         Ok(listing) => println!("{}: {} bases", found.database, listing.bases.len()),
    ///         Err(error) => eprintln!("{}: {error}", found.database),
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Io` if the bucket cannot be reached.
    pub fn listings(&self) -> Result<Vec<NamedListing>> {
        let mut found = Vec::new();
        self.list_incarnations("", &mut found)?;
        for database in self.folders_of_databases()? {
            self.within(&database)?.list_incarnations(&database, &mut found)?;
        }
        Ok(found)
    }

    /// Adds the listings of all databases of this name, which is `database`.
    fn list_incarnations(&self, database: &str, found: &mut Vec<NamedListing>) -> Result<()> {
        for incarnation in self.incarnations()? {
            let listing = match self.incarnation(incarnation)?.listing() {
                // No folder of a database, or one whose objects were removed after it was dropped.
                Err(error) if error.kind() == ErrorKind::Missing => continue,
                Err(error) if matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Foreign) => {
                    Err(error)
                }
                listing => Ok(listing?),
            };
            found.push(NamedListing { database: database.to_owned(), incarnation, listing });
        }
        Ok(())
    }

    /// Returns whether there is a lineage, or what is left of one whose object is missing, which is an error.
    fn holds_a_lineage(&self) -> Result<bool> {
        Ok(self.is_shipped()? || Lineage::lost(self)?.is_some())
    }
}

/// Returns whether a server's database can have this name.
fn is_name(name: &str) -> bool {
    let letters = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=MOST_NAME_BYTES).contains(&name.len()) && name.bytes().all(letters)
}
