//! A run that lies over others: records, deletes and range deletes, newer than all that is below.
//!
//! | bytes | field |
//! |---|---|
//! | 0-47 | the run of records, which may hold deletes |
//! | 48-95 | the run of its range tombstones; see [`Ranges`] |
//! | 96-143 | the run of the records' filter; see [`filter`](crate::filter) |
//!
//! A key's record decides; where there is none, a range tombstone that covers the key says that it is deleted; else the
//! runs below decide. The filter is asked before the records' pages.

use crate::allocate::Allocate;
use crate::build::Builder;
use crate::cursor::Cursor;
use crate::descriptor::Run;
use crate::drop::retire_subtree;
use crate::filter::{BitsPerKey, FilterBuilder, Foreseen, Probe, may_hold};
use crate::get::Spot;
use crate::ranges::Ranges;
use crate::site::Site;
use base::slots::{EpochGuard, Reader};
use base::sync::Mutex;
use base::{CheckpointNo, Error, Result, TableId};
use page::Value;
use pool::Pool;
use space::Space;
use std::ops::{Bound, Range};
use std::sync::Arc;

/// How many filters are asked together.
const GROUP: usize = 8;

/// See the module. Cheap to clone.
#[derive(Clone, Debug, PartialEq)]
pub struct Delta {
    /// The records.
    pub records: Run,
    /// The range tombstones, in memory.
    pub ranges: Arc<Ranges>,
    /// The same on the disk.
    pub ranges_run: Run,
    /// The filter of the records; empty: there is none.
    pub filter: Run,
}

/// What a delta says of a key.
#[derive(Clone, Copy, Debug)]
pub enum Said {
    /// Its record, which may be a delete, lies here.
    Record(Spot),
    /// A range tombstone covers it.
    Covered,
}

impl Delta {
    /// Bytes of the encoded form.
    pub const BYTES: usize = 3 * Run::BYTES;

    /// Its three runs: records, range tombstones, filter.
    pub fn all(&self) -> [Run; 3] {
        [self.records, self.ranges_run, self.filter]
    }

    /// The on-disk form.
    pub fn encode(&self) -> [u8; Delta::BYTES] {
        let mut out = [0; Delta::BYTES];
        for (run, bytes) in self.all().iter().zip(out.chunks_exact_mut(Run::BYTES)) {
            bytes.copy_from_slice(&run.encode());
        }
        out
    }

    /// Reads the on-disk form, and the range tombstones that it names.
    ///
    /// Errors: [`ErrorKind::Corruption`](base::ErrorKind::Corruption) where the bytes are no descriptors; what reading
    /// pages answers.
    pub fn decode(bytes: &[u8; Delta::BYTES], pool: &Pool, reader: &Reader) -> Result<Delta> {
        let [records, ranges_run, filter] = Delta::runs(bytes)?;
        let ranges = Arc::new(Ranges::read(ranges_run, pool, reader)?);
        Ok(Delta { records, ranges, ranges_run, filter })
    }

    /// The runs that an on-disk form names, as [`Delta::all`] has them.
    pub fn runs(bytes: &[u8; Delta::BYTES]) -> Result<[Run; 3]> {
        let run = |at: usize| Run::decode(bytes[at * Run::BYTES..].first_chunk().expect("48 of 144 bytes"));
        let runs = [run(0)?, run(1)?, run(2)?];
        match runs[1].deletes || runs[2].deletes {
            true => Err(Error::corruption(
                "a filter, or a run of range tombstones, contains deletes, which is not allowed",
            )),
            false => Ok(runs),
        }
    }

    /// What it says of the probe's key. Where the filter says no, it costs no page of the records.
    #[inline]
    pub fn find(&self, pool: &Pool, guard: &mut EpochGuard<'_>, probe: Probe<'_>) -> Result<Option<Said>> {
        self.find_foreseen(pool, guard, probe, None)
    }

    #[inline]
    fn find_foreseen(
        &self,
        pool: &Pool,
        guard: &mut EpochGuard<'_>,
        probe: Probe<'_>,
        foreseen: Option<Foreseen<'_>>,
    ) -> Result<Option<Said>> {
        if self.records.root.is_some() {
            let may_hold = match foreseen.and_then(|foreseen| foreseen.may_hold(pool, guard, probe)) {
                Some(known) => known?,
                None => may_hold(&self.filter, pool, guard, probe)?,
            };
            if may_hold && let Some(spot) = self.records.spot(pool, guard, probe.key)? {
                return Ok(Some(Said::Record(spot)));
            }
        }
        let is_covered = !self.ranges.is_empty() && self.ranges.covering(probe.key).is_some();
        Ok(is_covered.then_some(Said::Covered))
    }

    /// What the first says of the probe's key that says anything, of many, newest first; each item has its delta.
    ///
    /// A filter is asked in three steps, each of which waits for memory: its inner pages, the leaf, the key's bits.
    /// Eight filters take each step together, so that they wait together, too (Chen, Ailamaki, Gibbons, Mowry,
    /// "Improving Hash Join Performance through Prefetching", 2004: group prefetching). Only what is in memory is
    /// looked at so; the disk is asked one delta after the other, as far as it takes. For filters that do not fit the
    /// processor's caches: where they do, the second look at each page costs more than is won.
    #[inline(never)]
    pub fn find_newest<T>(
        items: &[T],
        delta: impl Fn(&T) -> &Delta,
        pool: &Pool,
        guard: &mut EpochGuard<'_>,
        probe: Probe<'_>,
    ) -> Result<Option<Said>> {
        for group in items.chunks(GROUP) {
            let mut foreseen = [None; GROUP];
            if group.len() > 1 {
                for (item, foreseen) in group.iter().zip(&mut foreseen) {
                    *foreseen = Foreseen::leaf(&delta(item).filter, pool, guard, probe.key);
                }
                for foreseen in foreseen.iter_mut().flatten() {
                    foreseen.fetch_block(pool, guard, probe);
                }
            }
            for (item, foreseen) in group.iter().zip(foreseen) {
                if let Some(said) = delta(item).find_foreseen(pool, guard, probe, foreseen)? {
                    return Ok(Some(said));
                }
            }
        }
        Ok(None)
    }

    /// Holds the filter against the records: each must pass it. Reads both through the pool.
    ///
    /// Errors: [`ErrorKind::Corruption`](base::ErrorKind::Corruption) naming the first key that does not pass.
    pub fn check_filter(&self, pool: &Pool, reader: &Reader) -> Result<()> {
        let mut cursor = Cursor::new(self.records);
        cursor.seek_first(pool, reader)?;
        while let Some((key, _)) = cursor.entry() {
            if !may_hold(&self.filter, pool, &mut reader.enter(), Probe::new(key))? {
                let key = key.escape_ascii();
                return Err(Error::corruption(format!(
                    "a filter does not contain the key \"{key}\" of its run"
                )));
            }
            cursor.next(pool, reader)?;
        }
        Ok(())
    }

    /// Whether it says something about `key`. One page a level.
    pub fn knows(&self, pool: &Pool, reader: &Reader, key: &[u8]) -> Result<bool> {
        Ok(self.find(pool, &mut reader.enter(), Probe::new(key))?.is_some())
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

    /// Retires its pages, which views of the checkpoints `lived` alone may reach; large values are left to the run that
    /// has taken them over.
    pub fn retire_pages(
        &self,
        pool: &Pool,
        reader: &Reader,
        space: &Mutex<Space>,
        lived: Range<CheckpointNo>,
    ) -> Result<()> {
        for run in self.all() {
            if let Some((root, level)) = run.top() {
                retire_subtree(pool, reader, space, &lived, root, level, false)?;
            }
        }
        Ok(())
    }
}

impl Site<'_> {
    /// Gives up a delta with all that it holds.
    pub fn retire_delta(&self, delta: &Delta) -> Result<()> {
        self.retire_run(delta.records, true)?;
        self.retire_run(delta.ranges_run, false)?;
        self.retire_run(delta.filter, false)
    }

    /// Gives up a delta's pages; large values are left to the run that has taken them over.
    pub fn retire_pages(&self, delta: &Delta) -> Result<()> {
        delta.all().into_iter().try_for_each(|run| self.retire_run(run, false))
    }
}

/// Builds a delta's records and their filter, in one pass.
pub struct DeltaBuilder<'a, A> {
    records: Builder<'a, A>,
    filter: FilterBuilder<'a, A>,
}

impl<'a> DeltaBuilder<'a, &'a Mutex<Space>> {
    /// A builder that goes on where `delta` ends: [`Builder::resume`].
    pub fn resume(delta: &Delta, site: Site<'a>, buffer_bytes: usize, bits: BitsPerKey) -> Result<Self> {
        let records = Builder::resume(delta.records, site, buffer_bytes)?;
        let filter = FilterBuilder::resume(delta.filter, site, buffer_bytes / 8, bits)?;
        Ok(DeltaBuilder { records, filter })
    }
}

impl<'a, A: Allocate + Copy> DeltaBuilder<'a, A> {
    /// As [`Builder::new`], with a filter of so many bits for each key.
    pub fn new(pool: &'a Pool, space: A, birth: CheckpointNo, buffer_bytes: usize, bits: BitsPerKey) -> Self {
        let records = Builder::new(pool, space, birth, buffer_bytes);
        DeltaBuilder { records, filter: FilterBuilder::new(pool, space, birth, buffer_bytes / 8, bits) }
    }

    /// As [`Builder::of_table`]: of the records. Filters name no table, see [`filter`](crate::filter).
    #[must_use]
    pub fn of_table(self, table: TableId) -> Self {
        DeltaBuilder { records: self.records.of_table(table), ..self }
    }

    /// As [`Builder::compressing_leaves`]: of the records. A filter's bits are chance, and do not compress.
    #[must_use]
    pub fn compressing_leaves(self) -> Self {
        DeltaBuilder { records: self.records.compressing_leaves(), ..self }
    }

    /// Adds a record behind all others: [`Builder::add`].
    #[inline]
    pub fn add(&mut self, key: &[u8], value: Value<'_>) -> Result<()> {
        self.records.add(key, value)?;
        self.filter.add(key)
    }

    /// The records' builder, to look at.
    pub fn records(&self) -> &Builder<'a, A> {
        &self.records
    }

    /// The delta of `ranges` and of what was added. Errors as [`Builder::finish`].
    pub fn finish(self, ranges: Arc<Ranges>, ranges_run: Run) -> Result<Delta> {
        Ok(Delta { records: self.records.finish()?, ranges, ranges_run, filter: self.filter.finish()? })
    }
}

fn is_behind(key: &[u8], end: Bound<&[u8]>) -> bool {
    match end {
        Bound::Unbounded => false,
        Bound::Included(end) => key > end,
        Bound::Excluded(end) => key >= end,
    }
}
