//! A replica of a lineage: a database that was restored from it, and applies each further segment.
//!
//! 1. The database's last commit says where it is. The segment that has the next commit is searched for once, and after
//!    each failure; then each segment must name the hash of the one before it, as in a restore.
//! 2. A segment that is not there yet is asked for again. Every so often the follower looks whether it will never be
//!    there: because the floor is above it, or because later ones exist.
//! 3. After the segment that drops the database nothing comes. The follower says so each time that it is called.
//! 4. Taking over applies what there is, writes the fence, and then applies the log through that fence: see `writer`.
//!    The writer before it cannot write after the fence, so nothing that it acknowledged is missing.

use crate::ahead::Ahead;
use crate::bucket::Bucket;
use crate::candidate::Candidate;
use crate::database::{Live, read_marker};
use crate::format::Hash;
use crate::lineage::Lineage;
use crate::restore::{self, check_chain, moment};
use crate::segment::Segment;
use crate::source::{Source as _, Target};
use crate::writer::Writer;
use base::{Error, ErrorKind, Result};
use pando::Database;
use pando::Identity;
use std::path::Path;

/// The number of attempts to read the next segment after which a missing one is looked for.
const ATTEMPTS_A_LOOK: u32 = 20;
/// How often a segment that the log must have is asked for.
const ATTEMPTS_FOR_ONE: u32 = 20;

/// A replica of a lineage: it applies new commits to a database that was restored from the lineage.
#[derive(Debug)]
pub struct Follower {
    lineage: Lineage,
    position: Option<Position>,
    ahead: Ahead,
    newest_commit: u64,
    attempts: u32,
}

/// Where the next segment is, and what it must name.
#[derive(Clone, Copy, Debug)]
struct Position {
    next: u64,
    previous: Hash,
    epoch: u64,
}

/// The result of [`Follower::advance`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Advance {
    /// Whether a segment was applied. If not, there was no new one: wait before you call again.
    pub has_moved: bool,
    /// The number of the last commit of the database.
    pub commit: u64,
    /// The number of the newest commit that the bucket is known to have.
    pub newest_commit: u64,
}

impl Position {
    fn after(segment: &Segment) -> Self {
        let Segment { head, hash, author, .. } = segment;
        Position { next: head.number + 1, previous: *hash, epoch: author.epoch }
    }
}

impl Follower {
    /// Opens the lineage of `bucket` to apply its commits to the database in the directory `dir`, which
    /// [`restore`](crate::restore) has made.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let (home, copy) = (dir.path().join("db"), dir.path().join("copy"));
    /// use pando_ship::{Bucket, Follower, Goal, Options, Shipper};
    /// let bucket = Bucket::connect(dir.path().join("bucket").to_str().unwrap())?;
    /// let db = pando::Database::create(&home)?;
    /// let fruit = db.ensure_table("fruit")?;
    /// let shipper = Shipper::start(&db, &home, bucket.clone(), Options { sync: true, ..Options::default() })?;
    /// shipper.wait(1)?;
    ///
    /// pando_ship::restore(&bucket, Goal::Newest, &copy, &mut |_| {})?;
    /// let replica = pando::Database::open(&copy)?;
    /// replica.set_replica(true);
    /// let mut follower = Follower::open(&bucket, &copy)?;
    /// db.put(&fruit, b"apple", b"red")?;
    /// shipper.wait(2)?;
    /// while follower.advance(&replica)?.has_moved {}
    /// assert_eq!(replica.get(&replica.table("fruit")?.unwrap(), b"apple")?.as_deref(), Some(&b"red"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Missing` if the bucket has no database; `TooOld` if the database was dropped and its name belongs to another
    /// one, also if the lineage of the dropped database was deleted from the bucket: restore again. `Mismatch` if `dir`
    /// was not restored from a lineage of this name.
    pub fn open(bucket: &Bucket, dir: impl AsRef<Path>) -> Result<Self> {
        let lineage = Lineage::expect(bucket)?;
        if read_marker(dir.as_ref())?.is_some_and(|origin| origin.lineage == lineage.id) {
            return Ok(Follower::of(lineage));
        }
        let is_gone = match was_dropped(bucket, dir.as_ref())? {
            Some(is_dropped) => is_dropped,
            // Only lineages that ended with a drop are deleted from a bucket in which another one follows.
            None => read_marker(dir.as_ref())?.is_some() && bucket.newest_incarnation()? > 1,
        };
        if is_gone {
            let message =
                format!("{bucket}: the database was dropped, and another one has its name; restore again");
            return Err(Error::new(ErrorKind::TooOld, message));
        }
        let dir = dir.as_ref().display();
        let message = format!("{dir} was not restored from the lineage that is in {bucket}");
        Err(Error::new(ErrorKind::Mismatch, format!("{message}; restore it into a new directory")))
    }

    pub(crate) fn of(lineage: Lineage) -> Self {
        Follower { lineage, position: None, ahead: Ahead::default(), newest_commit: 0, attempts: 0 }
    }

    /// Applies the next segment to `db`, the database in the directory that was passed to [`Follower::open`]. The
    /// segment is durable when the call returns. If there are more segments, the call reads up to 32 of them at once,
    /// about 16 MiB, and keeps them for the next calls. If there is no new segment, it usually sends one request.
    ///
    /// # Errors
    /// `TooOld` if the log in the bucket no longer has the next commit: restore again. `Missing` if the database was
    /// dropped and `db` has all of its commits. `Mismatch` if `db` made commits of its own; `Corruption` and `Foreign`,
    /// with the object; `Io` if the bucket cannot be reached: call again.
    pub fn advance(&mut self, db: &Database) -> Result<Advance> {
        let commit = db.snapshot()?.commit_number();
        self.advance_into(&mut Live { db: db.clone(), origin: None }, commit)
    }

    pub(crate) fn advance_into(&mut self, target: &mut dyn Target, commit: u64) -> Result<Advance> {
        // An error leaves no position: the next call searches for it.
        let position = match self.position.take() {
            Some(position) => position,
            None => self.find(commit)?,
        };
        let Some(segment) = self.ahead.take(&self.lineage, position.next)? else {
            self.look_for_missing(position.next, commit)?;
            self.position = Some(position);
            self.newest_commit = self.newest_commit.max(commit);
            return Ok(Advance { has_moved: false, commit, newest_commit: self.newest_commit });
        };
        check_chain(&self.lineage, &segment, position.previous, position.epoch)?;
        if let Some(dropped_ms) = segment.head.dropped_ms {
            return Err(self.dropped(dropped_ms));
        }
        if segment.head.is_rebase && segment.head.first_commit > commit + 1 {
            return Err(self.too_old(commit));
        }
        let report = restore::apply(&self.lineage, &segment, commit, target)?;
        self.newest_commit = self.newest_commit.max(report.commit);
        self.position = Some(Position::after(&segment));
        Ok(Advance { has_moved: true, commit: report.commit, newest_commit: self.newest_commit })
    }

    /// Finds the segment that has the first commit after `commit`, or the number after the last one.
    fn find(&mut self, commit: u64) -> Result<Position> {
        let Some(tail) = self.lineage.tail()? else {
            return Err(Error::new(ErrorKind::Missing, format!("{} has no log yet", self.lineage.bucket)));
        };
        self.newest_commit = tail.head.last_commit;
        if commit > self.newest_commit {
            let (bucket, newest) = (&self.lineage.bucket, self.newest_commit);
            let message = format!("{bucket} ends at commit {newest}, but this database ends at {commit}");
            return Err(Error::new(ErrorKind::Mismatch, message));
        }
        if commit == self.newest_commit {
            if let Some(dropped_ms) = tail.head.dropped_ms {
                return Err(self.dropped(dropped_ms));
            }
            return Ok(Position::after(&tail));
        }
        let (mut low, mut high) = (self.lineage.floor()?.segment, tail.head.number);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.expect(middle)?.head.last_commit > commit {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        let Segment { head, author, .. } = self.expect(low)?;
        if head.first_commit > commit + 1 {
            return Err(self.too_old(commit));
        }
        Ok(Position { next: low, previous: head.previous, epoch: author.epoch })
    }

    /// Returns a segment at or above the floor, which existed a moment ago.
    fn expect(&self, number: u64) -> Result<Segment> {
        match self.lineage.segment(number)? {
            Some(segment) => Ok(segment),
            None if self.lineage.floor()?.segment > number => {
                let message = format!("{}: segments are being deleted; try again", self.lineage.bucket);
                Err(Error::new(ErrorKind::Conflict, message))
            }
            None => Err(self.lineage.missing(number)),
        }
    }

    /// Applies the second rule to the segment `number` after `commit`.
    fn look_for_missing(&mut self, number: u64, commit: u64) -> Result<()> {
        self.attempts = self.attempts.wrapping_add(1);
        if !self.attempts.is_multiple_of(ATTEMPTS_A_LOOK) {
            return Ok(());
        }
        if self.lineage.floor()?.segment > number {
            return Err(self.too_old(commit));
        }
        match self.lineage.nothing_after(number - 1) {
            // It may have been written a moment ago.
            Err(_) if self.lineage.segment(number)?.is_some() => Ok(()),
            done => done,
        }
    }

    #[cold]
    fn dropped(&self, dropped_ms: u64) -> Error {
        let (bucket, at) = (&self.lineage.bucket, moment(dropped_ms));
        let message =
            format!("{bucket}: the database was dropped at {at}; everything before that was applied");
        Error::new(ErrorKind::Missing, message)
    }

    #[cold]
    fn too_old(&self, commit: u64) -> Error {
        let bucket = &self.lineage.bucket;
        let message = format!("the log in {bucket} no longer has commit {}; restore again", commit + 1);
        Error::new(ErrorKind::TooOld, message)
    }

    /// Makes `db` the lineage's writer: fences the previous writer, which may be writing at full speed, and applies
    /// everything that the bucket has. Returns the epoch of `db`. Call [`Shipper::start`](crate::Shipper::start) next,
    /// which continues the lineage.
    ///
    /// # Errors
    /// As for [`Follower::advance`]; `Fenced` if a third writer takes over in the meantime; `Conflict` if the previous
    /// writer was faster at each attempt to fence it. After an error the database is still a follower; the previous
    /// writer may be fenced already.
    pub fn take_over(&mut self, db: &Database) -> Result<u64> {
        let live = Live { db: db.clone(), origin: None };
        let mut target = Live { db: db.clone(), origin: None };
        let identity = live.identity()?;
        self.take_over_into(&mut target, identity, live.newest()?)
    }

    pub(crate) fn take_over_into(
        &mut self,
        target: &mut dyn Target,
        identity: Identity,
        mut commit: u64,
    ) -> Result<u64> {
        // Most of the work, and everything that a database which cannot follow fails at, before anybody is disturbed.
        let newest = self.lineage.tail()?.map_or(0, |tail| tail.head.number);
        self.advance_through(newest, target, &mut commit)?;
        let candidate =
            Candidate { identity, origin: None, newest: commit, follows: true, checksum: &|_| Ok(None) };
        let writer = Writer::take_over(&self.lineage.bucket, &candidate)?;
        self.advance_through(writer.tail().number, target, &mut commit)?;
        Ok(writer.epoch())
    }

    /// Applies the log through segment `number`, which exists.
    fn advance_through(&mut self, number: u64, target: &mut dyn Target, commit: &mut u64) -> Result<()> {
        let mut attempts = 0;
        while self.position.is_none_or(|position| position.next <= number) {
            let advance = self.advance_into(target, *commit)?;
            *commit = advance.commit;
            attempts = if advance.has_moved { 0 } else { attempts + 1 };
            let lacks = self.position.map(|position| position.next).filter(|&next| next <= number);
            if let Some(next) = lacks.filter(|_| !advance.has_moved) {
                // It was deleted: search for the commit anew, which says whether the log still has it.
                self.position = None;
                if attempts == ATTEMPTS_FOR_ONE {
                    return Err(self.lineage.missing(next));
                }
            }
        }
        Ok(())
    }
}

/// Returns whether the database in the directory `dir`, which was restored from `bucket`, was dropped later. Returns
/// `None` if it was not restored from a lineage of this name that is still in the bucket.
///
/// # Errors
/// `Io` if the bucket cannot be reached; `Corruption` and `Foreign`, with the object.
pub fn was_dropped(bucket: &Bucket, dir: impl AsRef<Path>) -> Result<Option<bool>> {
    let Some(origin) = read_marker(dir.as_ref())? else { return Ok(None) };
    for number in bucket.incarnations()?.into_iter().rev() {
        let bucket = bucket.incarnation(number)?;
        if Lineage::open(&bucket)?.is_some_and(|lineage| lineage.id == origin.lineage) {
            return bucket.dropped_ms().map(|dropped_ms| Some(dropped_ms.is_some()));
        }
    }
    Ok(None)
}
