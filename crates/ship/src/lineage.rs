//! A lineage as its bucket has it: what readers and writers learn from it.
//!
//! 1. Epochs and floors are numbered without gaps from 1, and none is ever deleted.
//! 2. Segments from the floor on are numbered without gaps. Below the floor only fences are left.
//! 3. A base counts only with the very segment that its manifest names. See [`Lineage::stands`].

use crate::bucket::Bucket;
use crate::format::{Author, Kind};
use crate::name;
use crate::objects::{self, Floor, Manifest};
use crate::segment::{self, Segment};
use base::limits::NUMBER_LIMIT;
use base::{Error, ErrorKind, Result};
use bytes::Bytes;

/// How many segments [`Lineage::tail_from`] requests at once.
const AT_ONCE: u64 = 4;

/// A lineage that exists.
#[derive(Clone, Debug)]
pub(crate) struct Lineage {
    pub bucket: Bucket,
    pub database: u64,
    pub id: u64,
    pub created_ms: u64,
}

/// A base whose manifest is valid.
#[derive(Clone, Debug)]
pub(crate) struct Base {
    pub epoch: u64,
    pub manifest: Manifest,
}

/// A base by its name, whether its manifest is valid or not.
#[derive(Debug)]
pub(crate) struct NamedBase {
    pub commit: u64,
    pub epoch: u64,
    pub base: Result<Base>,
}

impl NamedBase {
    /// Returns whether the base is not below the floor. Two bases of one commit can stand on different segments. Of a
    /// damaged manifest only the commit is known.
    pub fn is_kept(&self, floor: Floor) -> bool {
        let stands_above = self.base.as_ref().map_or(true, |base| base.manifest.segment >= floor.segment);
        self.commit >= floor.commit && stands_above
    }
}

/// Whether a base counts: the result of [`Lineage::stands`].
#[derive(Debug)]
pub(crate) enum Standing {
    /// The base counts; this is its segment.
    Valid(Box<Segment>),
    /// The base does not count: its writer ended, or was fenced, before it wrote the segment.
    Unfinished,
}

impl Lineage {
    /// Reads the lineage of `bucket`; `None` if it has none. Of several databases of one name it is the newest one's.
    pub fn open(bucket: &Bucket) -> Result<Option<Self>> {
        let bucket = &bucket.newest()?;
        let Some(bytes) = bucket.get(name::LINEAGE)? else { return Ok(None) };
        let decoded = objects::decode_number(name::LINEAGE, Kind::Lineage, &bytes);
        let (author, created_ms) = decoded.map_err(|error| error.within(bucket))?;
        let (bucket, database, id) = (bucket.clone(), author.database, author.lineage);
        Ok(Some(Lineage { bucket, database, id, created_ms }))
    }

    /// Reads the lineage of `bucket`.
    ///
    /// # Errors
    /// `Missing` if it has none; `Corruption` if it had one.
    pub fn expect(bucket: &Bucket) -> Result<Self> {
        let bucket = &bucket.newest()?;
        if let Some(lineage) = Self::open(bucket)? {
            return Ok(lineage);
        }
        let missing = || Error::new(ErrorKind::Missing, format!("{bucket} holds no shipped database"));
        Self::lost(bucket)?.ok_or_else(missing)
    }

    /// Looks for what belongs to a lineage whose object was not found. Returns the lineage if another writer has
    /// created it meanwhile; `None` if there is nothing.
    ///
    /// # Errors
    /// `Corruption` if the object is missing although others are there. A new one would be of another lineage, which
    /// refuses them all.
    pub fn lost(bucket: &Bucket) -> Result<Option<Self>> {
        for folder in [name::EPOCHS, name::LOG, name::BASES] {
            let is_ours = |name: &String| match folder {
                name::BASES => name::base_of(name).is_some(),
                _ => name::number_of(folder, name).is_some(),
            };
            let Some(found) = bucket.list(folder, None)?.into_iter().find(is_ours) else { continue };
            // It is created before all others.
            if let Some(lineage) = Self::open(bucket)? {
                return Ok(Some(lineage));
            }
            let advice = "put the object back, for example from an older version in the store, or ship to a \
                          new prefix and keep this one";
            return Err(Error::corruption(format!(
                "{bucket}/{} is missing, although {found} is there; {advice}",
                name::LINEAGE
            )));
        }
        Ok(None)
    }

    /// Returns the number of the newest object in `folder`, which is numbered without gaps; 0 if there is none.
    pub fn newest(&self, folder: &str) -> Result<u64> {
        let listed = self.bucket.list(folder, None)?;
        let mut newest = listed.iter().filter_map(|name| name::number_of(folder, name)).max().unwrap_or(0);
        while self.bucket.exists(&name::numbered(folder, newest + 1))? {
            newest += 1;
        }
        Ok(newest)
    }

    /// Returns what is kept.
    pub fn floor(&self) -> Result<Floor> {
        let newest = self.newest(name::FLOORS)?;
        if newest == 0 {
            return Ok(Floor { segment: 1, commit: 0 });
        }
        let name = name::numbered(name::FLOORS, newest);
        let decoded = Floor::decode(&name, &self.bucket.expect(&name)?);
        let (author, floor) = decoded.map_err(|error| error.within(&self.bucket))?;
        self.check_author(&name, &author)?;
        Ok(floor)
    }

    /// Returns segment `number`, verified; `None` if it does not exist.
    pub fn segment(&self, number: u64) -> Result<Option<Segment>> {
        let name = name::numbered(name::LOG, number);
        self.verified(number, &name, self.bucket.get(&name)?)
    }

    /// Returns `count` segments from `first` on, verified, each `None` if it does not exist. All are read at once.
    pub fn segments(&self, first: u64, count: u64) -> Vec<Result<Option<Segment>>> {
        let names: Vec<_> = (first..first + count).map(|number| name::numbered(name::LOG, number)).collect();
        let read = self.bucket.get_all(&names);
        let verified =
            |(number, (name, bytes)): (u64, (&String, Result<_>))| self.verified(number, name, bytes?);
        (first..).zip(names.iter().zip(read)).map(verified).collect()
    }

    /// Returns segment `number`, of which `bytes` is the object `name`.
    pub fn verified(&self, number: u64, name: &str, bytes: Option<Bytes>) -> Result<Option<Segment>> {
        let Some(bytes) = bytes else { return Ok(None) };
        let segment = segment::decode(number, &bytes).map_err(|error| error.within(&self.bucket))?;
        self.check_author(name, &segment.author)?;
        Ok(Some(segment))
    }

    /// Returns the newest segment; `None` if there is none yet. O(log segments) requests.
    pub fn tail(&self) -> Result<Option<Segment>> {
        let mut from = self.tail_hint()?;
        loop {
            let Some(mut last) = self.last_existing(from)? else {
                return if from == 1 {
                    self.nothing_after(0).map(|()| None)
                } else {
                    Err(self.missing(from))
                };
            };
            // A writer may add more meanwhile.
            while self.bucket.exists(&name::numbered(name::LOG, last + 1))? {
                last += 1;
            }
            match self.nothing_after(last) {
                Err(_) if self.bucket.exists(&name::numbered(name::LOG, last + 1))? => from = last,
                Err(error) => return Err(error),
                Ok(()) => return self.segment(last)?.map(Some).ok_or_else(|| self.missing(last)),
            }
        }
    }

    /// Returns the newest segment, where `from` is one that was the newest a moment ago. Usually one round of requests.
    pub fn tail_from(&self, from: Segment) -> Result<Segment> {
        let mut last = from;
        loop {
            for next in self.segments(last.head.number + 1, AT_ONCE) {
                match next? {
                    Some(next) => last = next,
                    None => return Ok(last),
                }
            }
        }
    }

    /// Returns a segment that exists: where the search for the newest one begins.
    fn tail_hint(&self) -> Result<u64> {
        let floor = self.floor()?.segment;
        let bases = self.all_bases()?.into_iter().filter_map(|named| named.base.ok());
        let newest = bases.map(|base| base.manifest.segment).max().unwrap_or(1);
        let exists = newest > floor && self.bucket.exists(&name::numbered(name::LOG, newest))?;
        Ok(if exists { newest } else { floor })
    }

    /// Returns the last of the segments that exist from `from` on without a gap, up to a gap that
    /// [`Lineage::nothing_after`] finds; `None` if `from` does not exist.
    fn last_existing(&self, from: u64) -> Result<Option<u64>> {
        let exists = |number| match number < NUMBER_LIMIT {
            true => self.bucket.exists(&name::numbered(name::LOG, number)),
            false => Ok(false),
        };
        if !exists(from)? {
            return Ok(None);
        }
        let mut step = 1;
        while exists(from + step)? {
            step *= 2;
        }
        let (mut there, mut absent) = (from + step / 2, from + step);
        while absent - there > 1 {
            let middle = there + (absent - there) / 2;
            if exists(middle)? {
                there = middle;
            } else {
                absent = middle;
            }
        }
        Ok(Some(there))
    }

    /// Checks that the log ends with segment `last`.
    ///
    /// # Errors
    /// `Corruption` if a segment after `last` is listed: then `last + 1` is missing.
    pub fn nothing_after(&self, last: u64) -> Result<()> {
        let after = name::numbered(name::LOG, last);
        let listed = self.bucket.list(name::LOG, Some(&after))?;
        let later = listed.iter().filter_map(|name| name::number_of(name::LOG, name)).any(|n| n > last);
        if later { Err(self.missing(last + 1)) } else { Ok(()) }
    }

    pub fn missing(&self, number: u64) -> Error {
        let name = name::numbered(name::LOG, number);
        Error::corruption(format!("{}/{name} is missing, although later objects need it", self.bucket))
    }

    /// Returns all bases, oldest first, including damaged ones and those below the floor that were not deleted yet.
    pub fn all_bases(&self) -> Result<Vec<NamedBase>> {
        let mut found = Vec::new();
        for name in self.bucket.list(name::BASES, None)? {
            let Some((epoch, commit)) = name::base_of(&name) else { continue };
            if let Some(bytes) = self.bucket.get(&name)? {
                found.push(NamedBase { commit, epoch, base: self.base(&name, &bytes) });
            }
        }
        found.sort_by_key(|named| (named.commit, named.epoch));
        Ok(found)
    }

    /// Returns the bases that are kept, oldest first, damaged ones included.
    pub fn kept_bases(&self) -> Result<Vec<NamedBase>> {
        let floor = self.floor()?;
        let mut bases = self.all_bases()?;
        bases.retain(|named| named.is_kept(floor));
        Ok(bases)
    }

    fn base(&self, name: &str, bytes: &[u8]) -> Result<Base> {
        let decoded = Manifest::decode(name, bytes).map_err(|error| error.within(&self.bucket));
        let (author, manifest) = decoded?;
        self.check_author(name, &author)?;
        Ok(Base { epoch: author.epoch, manifest })
    }

    /// Returns the bases that are kept, oldest first.
    ///
    /// # Errors
    /// `Corruption` and `Foreign` if a manifest is not valid.
    pub fn bases(&self) -> Result<Vec<Base>> {
        self.kept_bases()?.into_iter().map(|named| named.base).collect()
    }

    /// Returns whether a base counts.
    ///
    /// A base that leaps over a part of the log is published *before* its segment, which decides: the manifest has
    /// the hash of the segment that is to be written, so the writer that wins that number decides about the base, too.
    ///
    /// # Errors
    /// `Corruption` naming the segment, if that is missing or damaged.
    pub fn stands(&self, base: &Base) -> Result<Standing> {
        let Manifest { segment: number, segment_hash, leaps_after, commit, .. } = base.manifest;
        let found = self.segment(number)?;
        let segment = match (found, leaps_after) {
            (Some(segment), _) if segment.hash == segment_hash => segment,
            (Some(_), Some(_)) => return Ok(Standing::Unfinished),
            (None, Some(_)) if self.nothing_after(number).is_ok() => return Ok(Standing::Unfinished),
            (None, _) => return Err(self.missing(number)),
            (Some(_), None) => {
                let name = name::manifest(base.epoch, commit);
                let message = format!("{}/{name}: segment {number} is not the one it names", self.bucket);
                return Err(Error::corruption(message));
            }
        };
        if commit > segment.head.last_commit || segment.head.first_commit > commit + 1 {
            let (name, head) = (name::manifest(base.epoch, commit), &segment.head);
            let span = format!("commits {} to {}", head.first_commit, head.last_commit);
            return Err(Error::corruption(format!(
                "{}/{name}: the base is ahead of its log: it has commit {commit}, and segment {number} has \
                 {span}",
                self.bucket
            )));
        }
        Ok(Standing::Valid(Box::new(segment)))
    }

    /// Checks that an object belongs to this database and lineage.
    ///
    /// # Errors
    /// `Foreign` if an object belongs to another database or lineage.
    pub fn check_author(&self, name: &str, author: &Author) -> Result<()> {
        if (author.database, author.lineage) == (self.database, self.id) {
            return Ok(());
        }
        let message = format!("{}/{name} belongs to another database or lineage", self.bucket);
        Err(Error::new(ErrorKind::Foreign, message))
    }
}
