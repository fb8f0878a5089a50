//! The one writer of a lineage.
//!
//! # Taking over
//! 1. Read the newest segment, and check that the database continues it. A database that does not is rejected here,
//!    before it has an effect on other writers. A *follower*, whose database has a part of the lineage and nothing
//!    else, need not have the newest commit yet.
//! 2. Raise the epoch: create `epochs/E+1`. Two that do so at once get different epochs.
//! 3. Write a *fence*, an empty segment of the new epoch, at the first free number. If that number is taken, read on
//!    from there, and go back to 1 for the next one; if it was taken in a higher epoch, end as `Fenced`.
//! 4. Read the floor. A number below it may have been free only because its segment was deleted: go back to 1.
//! 5. A follower applies the log up to its fence, which no other writer can extend. Until then it writes nothing.
//!
//! A follower fences first and applies afterwards because a writer at full speed always has commits that the follower
//! lacks. What remains is a race of single puts for the next number, which the follower wins soon: the writer syncs its
//! log between its puts.
//!
//! # Why no acknowledged commit is lost
//! Numbers are dense, and each is created by a conditional put. So a writer's next number is the first free one, or it
//! belongs to a fence of a writer that took over; fences are never deleted, so the put fails, however late it comes.
//! The order of segments, and nothing else, says who wrote when. No clock is read.
//!
//! # Dropping
//! The last segment of a lineage may say that its database was dropped. It is put under the next number like every
//! other segment, so a writer that was replaced cannot drop what its successor has. It is put before the directory is
//! removed: after a crash in between, the database is still there, and goes on in a lineage of its own (see
//! `incarnation`). The drop was not acknowledged then.
//!
//! # One segment, one content
//! A put whose outcome is unknown may still arrive. The bytes for a number are therefore kept until the number is
//! known to be ours or another's, and nothing else is ever put there.

use crate::bucket::{Bucket, Created};
use crate::candidate::{Candidate, Continues, check_begins, check_continues};
use crate::format::{Author, Hash, Kind};
use crate::gather::Batch;
use crate::lineage::Lineage;
use crate::name;
use crate::objects::{self, Floor, Manifest};
use crate::options::LEAST_COUNTED_BYTES;
use crate::segment::{self, Head, Segment};
use base::env::{Clock, Random};
use base::{Error, ErrorKind, Result};
use bytes::Bytes;
use pando::Identity;
use std::collections::HashSet;

/// The end of the log, as its writer knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tail {
    pub number: u64,
    pub hash: Hash,
    pub last_commit: u64,
    pub last_time_ms: u64,
    last_change: u64,
    /// Whether the segment is a release.
    pub is_release: bool,
    /// Whether the segment drops the database.
    pub is_drop: bool,
    /// The commit of the newest base that was published before.
    pub base_commit: u64,
    /// Bytes of the segments since that base, each counted as at least [`LEAST_COUNTED_BYTES`], and of the parts that
    /// they name.
    pub log_bytes: u64,
}

impl Tail {
    const NONE: Tail = Tail {
        number: 0,
        hash: [0; 32],
        last_commit: 0,
        last_time_ms: 0,
        last_change: 0,
        is_release: false,
        is_drop: false,
        base_commit: 0,
        log_bytes: 0,
    };

    fn from_segment(segment: &Segment) -> Self {
        Tail::of(&segment.head, segment.hash)
    }

    fn of(head: &Head, hash: Hash) -> Self {
        let Head { number, last_commit, last_time_ms, last_change, is_release, .. } = *head;
        let Head { base_commit, log_bytes, dropped_ms, .. } = *head;
        let is_drop = dropped_ms.is_some();
        Tail {
            number,
            hash,
            last_commit,
            last_time_ms,
            last_change,
            is_release,
            is_drop,
            base_commit,
            log_bytes,
        }
    }
}

/// How often a fence is put before the writer that always has the number already is reported.
const FENCES: u32 = 500;

/// Writes a lineage's log.
#[derive(Debug)]
pub(crate) struct Writer {
    pub lineage: Lineage,
    author: Author,
    tail: Tail,
    pending: Option<Pending>,
    /// How many bases this writer has begun.
    attempts: u32,
    /// The attempts of the bases that it has published, or may have.
    published: HashSet<u64>,
}

/// A segment whose bytes are final, and that is not known to be in the bucket yet.
#[derive(Debug)]
struct Pending {
    bytes: Bytes,
    tail: Tail,
}

/// The number of an attempt to make a base: the epoch of its writer in the upper 32 bits, and a count in the lower 32.
/// A writer has its epoch alone, so no two attempts have one number.
pub(crate) struct Attempt;

impl Attempt {
    /// The upper bits of attempts of which the epoch is not known. Earlier versions have random numbers, which are as
    /// good as never those of an epoch that was reached.
    const UNKNOWN: u64 = u32::MAX as u64;

    fn number(epoch: u64, count: u32) -> u64 {
        match epoch {
            0..Self::UNKNOWN => (epoch << 32) | u64::from(count),
            // No lineage gets so far. Nothing is ever removed of it.
            _ => (Self::UNKNOWN << 32) | (Random::from_entropy().next_u64() >> 32),
        }
    }

    /// Returns the epoch of the writer that has made an attempt; `None` if its number does not say so.
    pub fn epoch(attempt: u64) -> Option<u64> {
        Some(attempt >> 32).filter(|&epoch| epoch < Self::UNKNOWN)
    }
}

/// Returns the error of a writer that another writer has replaced.
fn fenced(bucket: &Bucket, epoch: u64, by: u64) -> Error {
    let message = format!(
        "{bucket}: another writer has taken over (epoch {by}, this one has {epoch}); stop writing here, and \
         restore from the bucket into a new directory"
    );
    Error::new(ErrorKind::Fenced, message)
}

impl Writer {
    /// Takes the lineage of `bucket` over, and creates it if there is none. If the database that has the name was
    /// dropped, a lineage of its own begins for another one, and for one that may return: see [`check_continues`] and
    /// [`check_begins`].
    ///
    /// # Errors
    /// `Mismatch` if the database does not continue the lineage; `Fenced` if another writer takes over meanwhile;
    /// `Io` if the bucket cannot be reached, and `Conflict` if the writer before this one was faster each time: try
    /// again.
    pub fn take_over(bucket: &Bucket, candidate: &Candidate<'_>) -> Result<Self> {
        let writer = Random::from_entropy().next_u64();
        let bucket = bucket.newest()?;
        let mut lineage = match Lineage::open(&bucket)? {
            Some(lineage) => lineage,
            None => create_lineage(&bucket, candidate.identity, writer)?,
        };
        check_conditional_puts(&bucket, writer)?;
        loop {
            let number = lineage.bucket.newest_incarnation()?;
            if let Some(writer) = Self::take(lineage, candidate, writer)? {
                return Ok(writer);
            }
            // The database that had the name was dropped.
            check_begins(&bucket, number, candidate)?;
            let next = bucket.incarnation(number + 1)?;
            lineage = match Lineage::open(&next)? {
                Some(lineage) => lineage,
                None => create_lineage(&next, candidate.identity, writer)?,
            };
        }
    }

    /// Takes this very lineage over. Returns `None` if it has ended with a drop, and the candidate may begin the next.
    fn take(lineage: Lineage, candidate: &Candidate<'_>, writer: u64) -> Result<Option<Self>> {
        let tail = lineage.tail()?;
        if check_continues(&lineage, tail.as_ref(), candidate)? == Continues::After {
            return Ok(None);
        }
        let (database, fork) = (lineage.database, candidate.identity.fork);
        let mut author = Author { database, lineage: lineage.id, writer, epoch: 0, fork };
        author.epoch = raise_epoch(&lineage, author, tail.map_or(0, |tail| tail.author.epoch))?;
        let (pending, published) = (None, HashSet::new());
        let mut this = Writer { lineage, author, tail: Tail::NONE, pending, attempts: 0, published };
        Ok(this.fence(candidate)?.then_some(this))
    }

    /// Steps 3 and 4. Returns `false` if the lineage was ended by a drop meanwhile.
    fn fence(&mut self, candidate: &Candidate<'_>) -> Result<bool> {
        let mut found = None;
        for _ in 0..FENCES {
            let tail = match found.take() {
                Some(segment) => Some(self.lineage.tail_from(segment)?),
                None => self.lineage.tail()?,
            };
            if check_continues(&self.lineage, tail.as_ref(), candidate)? == Continues::After {
                return Ok(false);
            }
            if let Some(tail) = tail.as_ref().filter(|tail| tail.author.epoch >= self.author.epoch) {
                return Err(fenced(&self.lineage.bucket, self.author.epoch, tail.author.epoch));
            }
            self.tail = tail.as_ref().map_or(Tail::NONE, Tail::from_segment);
            if tail.is_some_and(|tail| tail.author.fork != self.author.fork) {
                // A copy writes the same change with its own fork, so the checksum would differ at its next start.
                self.tail.last_change = 0;
            }
            self.seal(Head { is_fence: true, ..self.next_head() }, Vec::new());
            let (number, bytes) =
                self.pending.as_ref().map(|p| (p.tail.number, p.bytes.clone())).expect("sealed");
            let name = name::numbered(name::LOG, number);
            let created = self.lineage.bucket.create(&name, &bytes)?;
            let pending = self.pending.take().expect("sealed");
            match created {
                Created::Ours if self.lineage.floor()?.segment <= number => {
                    self.tail = pending.tail;
                    return Ok(true);
                }
                Created::Ours => {}
                Created::Theirs(theirs) => found = self.lineage.verified(number, &name, Some(theirs))?,
            }
        }
        let bucket = &self.lineage.bucket;
        let message = format!("{bucket}: its writer was faster at each of {FENCES} attempts to fence it");
        Err(Error::new(ErrorKind::Conflict, format!("{message}; try again, or stop that writer")))
    }

    pub fn epoch(&self) -> u64 {
        self.author.epoch
    }

    pub fn tail(&self) -> &Tail {
        &self.tail
    }

    /// Returns the number of an attempt to make a base, which is used once: it names the writer, see [`Attempt`].
    pub fn begin_attempt(&mut self) -> u64 {
        self.attempts += 1;
        Attempt::number(self.author.epoch, self.attempts)
    }

    /// Returns whether this writer has made `attempt`, and will never publish its base: it has begun another one since.
    pub fn has_given_up(&self, attempt: u64) -> bool {
        Attempt::epoch(attempt) == Some(self.author.epoch)
            && attempt != Attempt::number(self.author.epoch, self.attempts)
            && !self.published.contains(&attempt)
    }

    /// Returns the number of the segment that is written next.
    pub fn next_number(&self) -> u64 {
        self.tail.number + 1
    }

    /// Returns whether a segment waits for [`Writer::settle`].
    pub fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    fn next_head(&self) -> Head {
        let tail = &self.tail;
        Head {
            number: tail.number + 1,
            is_fence: false,
            is_rebase: false,
            is_release: false,
            dropped_ms: None,
            first_commit: tail.last_commit + 1,
            last_commit: tail.last_commit,
            first_time_ms: tail.last_time_ms,
            last_time_ms: tail.last_time_ms,
            count: 0,
            previous: tail.hash,
            last_change: tail.last_change,
            base_commit: tail.base_commit,
            log_bytes: tail.log_bytes,
        }
    }

    /// Makes `batch` the next segment. Call [`Writer::settle`] to write it.
    ///
    /// # Errors
    /// `Corruption` if its first commit is not the successor of the last one: the log never has a gap.
    pub fn prepare(&mut self, batch: Batch) -> Result<()> {
        let expected = self.tail.last_commit + 1;
        if batch.first.commit != expected {
            let found = batch.first.commit;
            let message = format!("the change feed has a gap: expected commit {expected}, found {found}");
            return Err(Error::corruption(message));
        }
        let head = Head {
            last_commit: batch.last.commit,
            first_time_ms: batch.first.time_ms,
            last_time_ms: batch.last.time_ms,
            count: batch.count,
            last_change: batch.last_change,
            log_bytes: self.tail.log_bytes.saturating_add(batch.part_bytes),
            ..self.next_head()
        };
        self.seal(head, batch.body);
        Ok(())
    }

    /// Makes an empty segment the next one that begins after a base with `commit`, newest at `time_ms`. Returns its
    /// number and hash, which the base's manifest has to name before [`Writer::settle`].
    pub fn prepare_rebase(&mut self, commit: u64, time_ms: u64) -> (u64, Hash) {
        let head = Head {
            is_rebase: true,
            first_commit: commit + 1,
            last_commit: commit,
            first_time_ms: time_ms,
            last_time_ms: time_ms,
            last_change: 0,
            base_commit: commit,
            log_bytes: 0,
            ..self.next_head()
        };
        self.seal(head, Vec::new());
        let tail = self.pending.as_ref().expect("sealed").tail;
        (tail.number, tail.hash)
    }

    /// Makes an empty segment the next one, which says that this writer has ended in order. Nothing may follow.
    pub fn prepare_release(&mut self) {
        self.seal(Head { is_release: true, ..self.next_head() }, Vec::new());
    }

    /// Makes an empty segment the next one, which says that the database was dropped. Nothing may ever follow.
    pub fn prepare_drop(&mut self, dropped_ms: u64) {
        self.seal(Head { dropped_ms: Some(dropped_ms), ..self.next_head() }, Vec::new());
    }

    fn seal(&mut self, head: Head, body: Vec<u8>) {
        let bytes = segment::encode(&self.author, &head, body);
        // The object's own hash is its last 32 bytes.
        let hash = bytes[bytes.len() - 32..].try_into().expect("32 bytes");
        self.pending = Some(Pending { bytes: Bytes::from(bytes), tail: Tail::of(&head, hash) });
    }

    /// Writes the segment that waits. Returns the bytes that it has in the bucket.
    ///
    /// # Errors
    /// `Fenced` if another writer has its number: nothing of it is in the lineage. `Io` while the outcome is unknown:
    /// call again.
    pub fn settle(&mut self) -> Result<u64> {
        let Some(pending) = &self.pending else { return Ok(0) };
        let number = pending.tail.number;
        match self.lineage.bucket.create(&name::numbered(name::LOG, number), &pending.bytes)? {
            Created::Ours => {
                let pending = self.pending.take().expect("it is there");
                let stored = pending.bytes.len() as u64;
                let log_bytes = pending.tail.log_bytes.saturating_add(stored.max(LEAST_COUNTED_BYTES));
                self.tail = Tail { log_bytes, ..pending.tail };
                Ok(stored)
            }
            Created::Theirs(found) => {
                let theirs = segment::decode(number, &found)?;
                if theirs.author.epoch > self.author.epoch {
                    return Err(fenced(&self.lineage.bucket, self.author.epoch, theirs.author.epoch));
                }
                let name = name::numbered(name::LOG, number);
                let (ours, theirs) = (self.author.epoch, theirs.author.epoch);
                let bucket = &self.lineage.bucket;
                Err(Error::corruption(format!(
                    "{bucket}/{name}: expected epoch {ours}, found epoch {theirs}"
                )))
            }
        }
    }

    /// Publishes a base. Idempotent.
    ///
    /// # Errors
    /// `Invalid` if the base is ahead of the log, which may never get its commits.
    pub fn publish(&mut self, manifest: &Manifest) -> Result<()> {
        if manifest.leaps_after.is_none() && manifest.commit > self.tail.last_commit {
            let (commit, last) = (manifest.commit, self.tail.last_commit);
            return Err(Error::invalid(format!(
                "a base of commit {commit} is ahead of the log, which ends at {last}"
            )));
        }
        self.published.insert(manifest.parts.attempt);
        let (name, bytes) = (manifest.name(self.author.epoch), Bytes::from(manifest.encode(&self.author)));
        match self.lineage.bucket.create(&name, &bytes)? {
            Created::Ours => {
                self.tail.base_commit = self.tail.base_commit.max(manifest.commit);
                self.tail.log_bytes = 0;
                Ok(())
            }
            Created::Theirs(_) => {
                Err(Error::corruption(format!("{}/{name} exists with other contents", self.lineage.bucket)))
            }
        }
    }

    /// Raises the floor. From then on no reader needs what is below it.
    pub fn raise_floor(&self, floor: Floor) -> Result<()> {
        loop {
            let newest = self.lineage.newest(name::FLOORS)?;
            if self.lineage.floor()?.segment >= floor.segment {
                return Ok(());
            }
            let name = name::numbered(name::FLOORS, newest + 1);
            let bytes = Bytes::from(floor.encode(&self.author));
            self.lineage.bucket.create(&name, &bytes)?;
        }
    }
}

fn create_lineage(bucket: &Bucket, identity: Identity, writer: u64) -> Result<Lineage> {
    if let Some(lineage) = Lineage::lost(bucket)? {
        return Ok(lineage);
    }
    let lineage = Random::from_entropy().next_u64();
    let Identity { database, fork } = identity;
    let author = Author { database, lineage, writer, epoch: 0, fork };
    let bytes = objects::encode_number(Kind::Lineage, &author, Clock::default().now_ms());
    bucket.create(name::LINEAGE, &Bytes::from(bytes))?;
    // Somebody else's may be there by now, which is as good.
    Lineage::expect(bucket)
}

/// Refuses a store that ignores the condition of a put, because all guarantees depend on conditional puts.
fn check_conditional_puts(bucket: &Bucket, writer: u64) -> Result<()> {
    let name = format!("{}/{writer:016x}", name::PROBES);
    let put = |text: &'static [u8]| bucket.create(&name, &Bytes::from_static(text));
    put(b"first")?;
    let second = put(b"second")?;
    bucket.delete(&name)?;
    match second {
        Created::Theirs(found) if found == b"first"[..] => Ok(()),
        _ => Err(Error::invalid(format!(
            "{bucket}: the store ignores the condition of a put (If-None-Match), so it cannot keep two \
             writers apart"
        ))),
    }
}

/// Creates the next epoch. It is above `written`, that of the newest segment, also if the object of that epoch is
/// missing.
fn raise_epoch(lineage: &Lineage, author: Author, written: u64) -> Result<u64> {
    let mut epoch = lineage.newest(name::EPOCHS)?.max(written) + 1;
    loop {
        let author = Author { epoch, ..author };
        let bytes = Bytes::from(objects::encode_number(Kind::Epoch, &author, Clock::default().now_ms()));
        match lineage.bucket.create(&name::numbered(name::EPOCHS, epoch), &bytes)? {
            Created::Ours => return Ok(epoch),
            Created::Theirs(_) => epoch += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_hash_of_an_object_is_its_end() {
        use super::*;
        let author = Author { database: 1, lineage: 2, writer: 3, epoch: 4, fork: 5 };
        let bytes = objects::encode_number(Kind::Epoch, &author, 7);
        let rest = bytes.len() - 32;
        assert_eq!(crate::format::hash(&bytes[..rest])[..], bytes[rest..]);
    }
}
