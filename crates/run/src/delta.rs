//! A run that lies over others: records, deletes and range deletes, newer than all that is below.
//!
//! | bytes | field |
//! |---|---|
//! | 0-47 | the run of records, which may hold deletes |
//! | 48-95 | the run of its range tombstones; see [`Ranges`] |
//!
//! A key's record decides; where there is none, a range tombstone that covers the key says that it is deleted; else the
//! runs below decide.

use crate::cursor::Cursor;
use crate::descriptor::Run;
use crate::drop::retire_subtree;
use crate::ranges::Ranges;
use base::slots::Reader;
use base::sync::Mutex;
use base::{CheckpointNo, Result};
use pool::Pool;
use space::Space;
use std::ops::Bound;
use std::sync::Arc;

/// See the module. Cheap to clone.
#[derive(Clone, Debug, PartialEq)]
pub struct Delta {
    /// The records.
    pub records: Run,
    /// The range tombstones, in memory.
    pub ranges: Arc<Ranges>,
    /// The same on the disk.
    pub ranges_run: Run,
}

impl Delta {
    /// Bytes of the encoded form.
    pub const BYTES: usize = 2 * Run::BYTES;

    /// The on-disk form.
    pub fn encode(&self) -> [u8; Delta::BYTES] {
        let mut out = [0; Delta::BYTES];
        out[..Run::BYTES].copy_from_slice(&self.records.encode());
        out[Run::BYTES..].copy_from_slice(&self.ranges_run.encode());
        out
    }

    /// Reads the on-disk form, and the range tombstones that it names.
    ///
    /// Errors: [`ErrorKind::Corruption`](base::ErrorKind::Corruption) where the bytes are no descriptors; what reading
    /// pages answers.
    pub fn decode(bytes: &[u8; Delta::BYTES], pool: &Pool, reader: &Reader) -> Result<Delta> {
        let (records, ranges_run) = Delta::runs(bytes)?;
        let ranges = Arc::new(Ranges::read(ranges_run, pool, reader)?);
        Ok(Delta { records, ranges, ranges_run })
    }

    /// The run of records and that of range tombstones that an on-disk form names.
    pub fn runs(bytes: &[u8; Delta::BYTES]) -> Result<(Run, Run)> {
        let records = Run::decode(bytes.first_chunk().expect("48 of 96 bytes"))?;
        Ok((records, Run::decode(bytes.last_chunk().expect("48 of 96 bytes"))?))
    }

    /// Whether it says something about `key`. One page a level.
    pub fn knows(&self, pool: &Pool, reader: &Reader, key: &[u8]) -> Result<bool> {
        if self.ranges.covering(key).is_some() {
            return Ok(true);
        }
        let mut guard = reader.enter();
        Ok(self.records.get(pool, &mut guard, key)?.is_some())
    }

    /// Some key in `start..end` that it says something about; of a range tombstone that reaches in, where that starts.
    pub fn any_in(
        &self,
        pool: &Pool,
        reader: &Reader,
        start: &[u8],
        end: Bound<&[u8]>,
    ) -> Result<Option<Vec<u8>>> {
        if let Some((start, _)) = self.ranges.overlapping(start, end) {
            return Ok(Some(start.to_vec()));
        }
        let mut cursor = Cursor::new(self.records);
        cursor.seek(pool, reader, start)?;
        Ok(cursor.entry().map(|(key, _)| key).filter(|key| !is_behind(key, end)).map(<[u8]>::to_vec))
    }

    /// Some key of `other`'s records that has a record here as well. Both are walked by seeking to each other's keys:
    /// as many seeks as the smaller one has records, at most, and far fewer where they interleave in long stretches.
    pub fn common_key(&self, pool: &Pool, reader: &Reader, other: &Delta) -> Result<Option<Vec<u8>>> {
        let (mut here, mut there) = (Cursor::new(self.records), Cursor::new(other.records));
        here.seek_first(pool, reader)?;
        there.seek_first(pool, reader)?;
        while let (Some((a, _)), Some((b, _))) = (here.entry(), there.entry()) {
            match a.cmp(b) {
                std::cmp::Ordering::Equal => return Ok(Some(a.to_vec())),
                std::cmp::Ordering::Less => here.seek(pool, reader, b)?,
                std::cmp::Ordering::Greater => there.seek(pool, reader, a)?,
            };
        }
        Ok(None)
    }

    /// Some key that both say something about; of range tombstones of both that overlap, where one starts.
    pub fn conflict_with(&self, pool: &Pool, reader: &Reader, other: &Delta) -> Result<Option<Vec<u8>>> {
        for (one, two) in [(self, other), (other, self)] {
            for (start, end) in one.ranges.iter() {
                let end = end.map_or(Bound::Unbounded, Bound::Excluded);
                if let Some(key) = two.any_in(pool, reader, start, end)? {
                    return Ok(Some(key));
                }
            }
        }
        self.common_key(pool, reader, other)
    }

    /// Retires its pages at checkpoint `at`; large values are left to whoever has taken them over.
    pub fn retire_pages(
        &self,
        pool: &Pool,
        reader: &Reader,
        space: &Mutex<Space>,
        at: CheckpointNo,
    ) -> Result<()> {
        for run in [self.records, self.ranges_run] {
            if let Some((root, level)) = run.top() {
                retire_subtree(pool, reader, space, at, root, level, false)?;
            }
        }
        Ok(())
    }
}

fn is_behind(key: &[u8], end: Bound<&[u8]>) -> bool {
    match end {
        Bound::Unbounded => false,
        Bound::Included(end) => key > end,
        Bound::Excluded(end) => key >= end,
    }
}
