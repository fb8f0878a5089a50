//! A run that lies over others: records, deletes and range deletes, newer than those of all runs below.
//!
//! | bytes | field |
//! |---|---|
//! | 0-47 | the run of records, which may hold deletes |
//! | 48-95 | the run of its range tombstones; see [`Ranges`] |
//! | 96-143 | the run of the records' filter; see [`filter`](crate::filter) |
//!
//! A key's record decides. If there is none, a range tombstone that covers the key says that it is deleted. Otherwise
//! the runs below decide. The filter is asked before the records' pages.

use crate::allocate::Allocate;
use crate::build::Builder;
use crate::cursor::Cursor;
use crate::descriptor::Run;
use crate::drop::retire_subtree;
use crate::filter::{BitsPerKey, FilterBuilder, Foreseen, Probe, may_hold};
use crate::get::RecordPosition;
use crate::ranges::{MAX_READ_BYTES, Ranges};
use crate::resident::Residence;
use crate::write_context::WriteContext;
use base::slots::{EpochGuard, Reader};
use base::sync::Mutex;
use base::{CheckpointNo, Error, Result, TableId};
use page::Value;
use pool::Pool;
use space::Space;
use std::ops::{Bound, Range};
use std::sync::Arc;

/// The number of filters that are asked together.
const GROUP: usize = 8;

/// A run that lies over others; see the module. Cheap to clone.
#[derive(Clone, Debug, PartialEq)]
pub struct Delta {
    /// The records.
    pub records: Run,
    /// The range tombstones, in memory.
    pub ranges: Arc<Ranges>,
    /// The run that stores the range tombstones on disk.
    pub ranges_run: Run,
    /// The filter of the records; an empty run if there is none.
    pub filter: Run,
    /// The filter in memory, if it was put there.
    pub residence: Residence,
}

/// A delta's information about a key.
#[derive(Clone, Copy, Debug)]
pub enum Said {
    /// The place of the key's record, which may be a delete.
    Record(RecordPosition),
    /// A range tombstone covers the key.
    Covered,
}

impl Delta {
    /// The length of the encoded form in bytes.
    pub const BYTES: usize = 3 * Run::BYTES;

    /// Returns its three runs: records, range tombstones, filter.
    pub fn all(&self) -> [Run; 3] {
        [self.records, self.ranges_run, self.filter]
    }

    /// Returns the on-disk form.
    pub fn encode(&self) -> [u8; Delta::BYTES] {
        let mut out = [0; Delta::BYTES];
        for (run, bytes) in self.all().iter().zip(out.chunks_exact_mut(Run::BYTES)) {
            bytes.copy_from_slice(&run.encode());
        }
        out
    }

    /// Decodes the on-disk form, and reads the range tombstones that it names.
    ///
    /// Errors: [`ErrorKind::Corruption`](base::ErrorKind::Corruption) if the bytes are not descriptors; those of
    /// reading pages.
    pub fn decode(bytes: &[u8; Delta::BYTES], pool: &Pool, reader: &Reader) -> Result<Delta> {
        Delta::decode_within(bytes, MAX_READ_BYTES, pool, reader)
    }

    /// Decodes a delta whose range tombstones take at most `most_bytes` of memory; see [`Delta::decode`].
    ///
    /// Errors: [`ErrorKind::Corruption`](base::ErrorKind::Corruption) also if they take more.
    pub fn decode_within(
        bytes: &[u8; Delta::BYTES],
        most_bytes: usize,
        pool: &Pool,
        reader: &Reader,
    ) -> Result<Delta> {
        let [records, ranges_run, filter] = Delta::runs(bytes)?;
        let ranges = Arc::new(Ranges::read(ranges_run, most_bytes, pool, reader)?);
        Ok(Delta { records, ranges, ranges_run, filter, residence: Residence::default() })
    }

    /// Returns the runs that an on-disk form names, in the order of [`Delta::all`].
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

    /// Returns what the delta says about the probe's key. If the filter says no, this reads no page of the records.
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
            if may_hold {
                return self.find_record(pool, guard, probe);
            }
        }
        Ok(self.covered(probe))
    }

    /// Returns the result of the first delta, newest first, that says anything about the probe's key. Each item has its
    /// delta.
    ///
    /// A filter is asked in three steps, each of which waits for memory: its inner pages, the leaf, the key's bits.
    /// Eight filters take each step together, so that their waits overlap (Chen, Ailamaki, Gibbons, Mowry, "Improving
    /// Hash Join Performance through Prefetching", 2004: group prefetching). This applies only to pages in memory; the
    /// disk is read for one delta after the other, as far as necessary. Use it for filters that do not fit the
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

    /// Returns the result of the first delta, newest first, that says anything about the probe's key. Use it instead of
    /// [`Delta::find_newest`] for deltas most of whose filters are in memory: those of a group are searched first, and
    /// their bits are looked at after that, so that the waits for them overlap.
    #[inline]
    pub fn find_stacked<T>(
        items: &[T],
        delta: impl Fn(&T) -> &Delta,
        pool: &Pool,
        guard: &mut EpochGuard<'_>,
        probe: Probe<'_>,
    ) -> Result<Option<Said>> {
        for group in items.chunks(GROUP) {
            let mut blocks = [None; GROUP];
            for (item, block) in group.iter().zip(&mut blocks) {
                *block = delta(item).residence.get().map(|resident| resident.block(probe));
            }
            for (item, block) in group.iter().zip(blocks) {
                let delta = delta(item);
                let said = match block.map(|block| block.may_hold(probe)) {
                    None => delta.find(pool, guard, probe)?,
                    Some(true) => delta.find_record(pool, guard, probe)?,
                    Some(false) => delta.covered(probe),
                };
                if said.is_some() {
                    return Ok(said);
                }
            }
        }
        Ok(None)
    }

    /// Returns what the records and the range tombstones say about the probe's key.
    #[inline]
    fn find_record(&self, pool: &Pool, guard: &mut EpochGuard<'_>, probe: Probe<'_>) -> Result<Option<Said>> {
        match self.records.position(pool, guard, probe.key)? {
            Some(position) => Ok(Some(Said::Record(position))),
            None => Ok(self.covered(probe)),
        }
    }

    /// Returns what the range tombstones say about a key without a record.
    #[inline]
    fn covered(&self, probe: Probe<'_>) -> Option<Said> {
        let is_covered = !self.ranges.is_empty() && self.ranges.covering(probe.key).is_some();
        is_covered.then_some(Said::Covered)
    }

    /// Checks that every record passes the filter, on disk and in memory. Reads both through the pool.
    ///
    /// Errors: [`ErrorKind::Corruption`](base::ErrorKind::Corruption) naming the first key that does not pass.
    pub fn check_filter(&self, pool: &Pool, reader: &Reader) -> Result<()> {
        let mut cursor = Cursor::new(self.records);
        cursor.seek_first(pool, reader)?;
        while let Some((key, _)) = cursor.entry() {
            let probe = Probe::new(key);
            let is_known = self.residence.get().is_none_or(|resident| resident.block(probe).may_hold(probe));
            if !is_known || !may_hold(&self.filter, pool, &mut reader.enter(), probe)? {
                let key = key.escape_ascii();
                return Err(Error::corruption(format!(
                    "a filter does not contain the key \"{key}\" of its run"
                )));
            }
            cursor.next(pool, reader)?;
        }
        Ok(())
    }

    /// Returns whether the delta says something about `key`. Reads one page a level.
    pub fn knows(&self, pool: &Pool, reader: &Reader, key: &[u8]) -> Result<bool> {
        Ok(self.find(pool, &mut reader.enter(), Probe::new(key))?.is_some())
    }

    /// Returns some key in `start..end` about which the delta says something. For a range tombstone that begins before
    /// the range, that is the tombstone's start.
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

    /// Returns some key of `other`'s records that has a record here as well. Both are walked by seeking to each other's
    /// keys: at most as many seeks as the smaller one has records, and far fewer where they interleave in long
    /// stretches.
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

    /// Returns some key about which both say something. For two range tombstones that overlap, that is the start of
    /// one.
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

    /// Retires its pages, which only views of the checkpoints `lived` can reach. Large values stay with the run that
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

impl WriteContext<'_> {
    /// Retires a delta with all that it holds.
    pub fn retire_delta(&self, delta: &Delta) -> Result<()> {
        self.retire_run(delta.records, true)?;
        self.retire_run(delta.ranges_run, false)?;
        self.retire_run(delta.filter, false)
    }

    /// Retires a delta's pages. Large values stay with the run that has taken them over.
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
    /// Creates a builder that continues `delta`: [`Builder::resume`].
    pub fn resume(
        delta: &Delta,
        context: WriteContext<'a>,
        buffer_bytes: usize,
        bits: BitsPerKey,
    ) -> Result<Self> {
        let records = Builder::resume(delta.records, context, buffer_bytes)?;
        let filter = FilterBuilder::resume(delta.filter, context, buffer_bytes / 8, bits)?;
        Ok(DeltaBuilder { records, filter })
    }
}

impl<'a, A: Allocate + Copy> DeltaBuilder<'a, A> {
    /// Creates a builder like [`Builder::new`], with a filter of `bits` for each key.
    pub fn new(pool: &'a Pool, space: A, birth: CheckpointNo, buffer_bytes: usize, bits: BitsPerKey) -> Self {
        let records = Builder::new(pool, space, birth, buffer_bytes);
        DeltaBuilder { records, filter: FilterBuilder::new(pool, space, birth, buffer_bytes / 8, bits) }
    }

    /// Marks the records' pages as `table`'s, like [`Builder::of_table`]. Filters name no table, see
    /// [`filter`](crate::filter).
    #[must_use]
    pub fn of_table(self, table: TableId) -> Self {
        DeltaBuilder { records: self.records.of_table(table), ..self }
    }

    /// Compresses the records' leaves, like [`Builder::compressing_leaves`]. A filter's bits are random, and do not
    /// compress.
    #[must_use]
    pub fn compressing_leaves(self) -> Self {
        DeltaBuilder { records: self.records.compressing_leaves(), ..self }
    }

    /// Adds a record after all others: [`Builder::add`].
    #[inline]
    pub fn add(&mut self, key: &[u8], value: Value<'_>) -> Result<()> {
        self.records.add(key, value)?;
        self.filter.add(key)
    }

    /// Returns the records' builder for reading.
    pub fn records(&self) -> &Builder<'a, A> {
        &self.records
    }

    /// Returns the delta of `ranges` and of the records that were added. Errors as [`Builder::finish`].
    pub fn finish(self, ranges: Arc<Ranges>, ranges_run: Run) -> Result<Delta> {
        let (records, filter) = (self.records.finish()?, self.filter.finish()?);
        Ok(Delta { records, ranges, ranges_run, filter, residence: Residence::default() })
    }
}

fn is_behind(key: &[u8], end: Bound<&[u8]>) -> bool {
    match end {
        Bound::Unbounded => false,
        Bound::Included(end) => key > end,
        Bound::Excluded(end) => key >= end,
    }
}
