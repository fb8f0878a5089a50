//! The handle of an open log: making one, letting go of old segments, closing.

use crate::append::{Appender, Stop};
use crate::flush::Flush;
use crate::format::{
    BLOCK_HEADER_BYTES, MAX_SEGMENT_BYTES, Position, SegmentHeader, segment_name, segment_number,
};
use crate::segment::Segment;
use crate::stock::{Room, Spare, Stock, remove, segment_bytes_for};
use base::sync::atomic::{AtomicU64, Ordering};
use base::sync::{Mutex, lock};
use base::{CheckpointNo, DatabaseId, Error, ErrorKind, Lsn, Result};
use io::{Dir, File};
use std::sync::Arc;

/// How long segments are, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The first segment of a generation. Each later one is twice as long as the one before.
    pub first_segment_bytes: u64,
    /// Where the doubling stops. A longer payload still gets a segment that holds it.
    pub max_segment_bytes: u64,
    /// A new segment is written over beforehand, which makes flushes cheap, if since the one before was made a flush or
    /// more came for each so many of its bytes; otherwise its room is only allocated, where that can be done. So many
    /// zeros take about as much time as a flush saves.
    pub flush_worth_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options { first_segment_bytes: 16 << 10, max_segment_bytes: 64 << 20, flush_worth_bytes: 256 << 10 }
    }
}

impl Options {
    /// Refuses lengths that no segment has, with [`ErrorKind::Invalid`].
    pub fn check(&self) -> Result<()> {
        let range = 4096..=MAX_SEGMENT_BYTES;
        if range.contains(&self.first_segment_bytes) && range.contains(&self.max_segment_bytes) {
            return Ok(());
        }
        Err(Error::invalid(format!("the size of a log segment must be within {range:?} bytes, not {self:?}")))
    }
}

/// Shorter segments than 4 MiB would cost busy writers more syncs than they save room.
const LEAST_LIMIT_BYTES: u64 = 4 << 20;

/// The write-ahead log of one database, open for appending. All methods may be called from any thread.
#[derive(Debug)]
pub struct Log {
    pub(crate) options: Options,
    /// Held by the thread that makes a segment, from the look at what is ready until it is; taken before `stock` and
    /// `appender`, which are free meanwhile.
    pub(crate) making: Mutex<()>,
    /// How many wait for `making`: see [`Log::hurry`].
    pub(crate) wanted: AtomicU64,
    pub(crate) stock: Mutex<Stock>,
    pub(crate) appender: Mutex<Appender>,
    pub(crate) flush: Flush,
    /// Everything before this LSN is durable.
    pub(crate) synced: AtomicU64,
    pub(crate) checkpoint: AtomicU64,
    /// See [`Log::limit_segments`].
    segment_limit_bytes: AtomicU64,
}

/// What the log has done since it was opened, and what it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStats {
    /// Blocks appended.
    pub appends: u64,
    /// Their bytes, with headers and padding.
    pub appended_bytes: u64,
    /// Calls of [`Log::sync`] that found work to wait for.
    pub syncs_asked: u64,
    /// Flushes that served them.
    pub syncs: u64,
    /// Segments that hold live blocks, the current one included.
    pub segments: u64,
    /// Bytes of those segments' files.
    pub live_bytes: u64,
    /// Bytes of files kept to be used again, the next segment included.
    pub spare_bytes: u64,
}

impl Log {
    /// Makes the log of a new database: its first segment, synced with its name. Three syncs.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] if the directory has log segments: see [`Log::discard`].
    pub fn create(dir: Arc<dyn Dir>, database: DatabaseId, options: Options) -> Result<Log> {
        options.check()?;
        if let Some(name) = dir.list()?.iter().find(|name| segment_number(name).is_some()) {
            return Err(Error::new(
                ErrorKind::Exists,
                format!("{} already has a log: {name}", dir.describe()),
            ));
        }
        let draft = SegmentHeader {
            database,
            generation: 1,
            number: 1,
            first_lsn: Lsn(0),
            len_bytes: 0,
            previous: 0,
            previous_generation: 0,
            cut: Lsn(0),
            checkpoint: CheckpointNo(0),
        };
        let mut stock = Stock::new(dir, 1, Vec::new());
        let segment = stock.ready(draft, segment_bytes_for(0, options.first_segment_bytes), Room::Written)?;
        let link = segment.header.checksum();
        let appender = Appender::new(segment, Lsn(0), link, None);
        Ok(Log::new(options, stock, appender, Lsn(0), CheckpointNo(0)))
    }

    /// Removes every log segment in `dir`: what a database whose creation was cut short has left.
    pub fn discard(dir: &Arc<dyn Dir>) -> Result<()> {
        let names = dir.list()?;
        names.iter().filter(|name| segment_number(name).is_some()).try_for_each(|name| dir.remove(name))
    }

    /// A log that goes on at `appender` and is durable below `synced`.
    pub(crate) fn new(
        options: Options,
        stock: Stock,
        appender: Appender,
        synced: Lsn,
        checkpoint: CheckpointNo,
    ) -> Log {
        let synced = AtomicU64::new(synced.0);
        let (stock, appender) = (Mutex::new(stock), Mutex::new(appender));
        let (flush, checkpoint) = (Flush::default(), AtomicU64::new(checkpoint.0));
        let segment_limit_bytes = AtomicU64::new(u64::MAX);
        let (making, wanted) = (Mutex::new(()), AtomicU64::new(0));
        Log { options, making, wanted, stock, appender, flush, synced, checkpoint, segment_limit_bytes }
    }

    /// Everything before this LSN is durable.
    #[inline]
    pub fn synced(&self) -> Lsn {
        Lsn(self.synced.load(Ordering::SeqCst))
    }

    /// Where the next block begins. A checkpoint that covers all blocks so far keeps this in its superblock, after a
    /// sync through it.
    pub fn end(&self) -> Position {
        let appender = lock(&self.appender);
        let SegmentHeader { number, generation, .. } = appender.segment.header;
        Position { segment: number, generation, lsn: appender.end }
    }

    /// The file of the current segment, and its length in bytes, which does not change while it is written.
    pub fn current_segment(&self) -> (Arc<dyn File>, u64) {
        let segment = &lock(&self.appender).segment;
        (Arc::clone(&segment.file), segment.header.len_bytes)
    }

    /// Returns the name of a log segment that this log did not make, if there is one: another process has then opened
    /// the database for writing and recovered it. Lists the directory.
    ///
    /// # Errors
    /// Those of listing.
    pub fn foreign_segment(&self) -> Result<Option<String>> {
        let dir = Arc::clone(lock(&self.stock).dir());
        // Listed first: what this log makes meanwhile has a number that the stock gave away before it is asked.
        let newest = dir.list()?.iter().filter_map(|name| segment_number(name)).max();
        let next = lock(&self.stock).next_number();
        Ok(newest.filter(|&number| number >= next).map(segment_name))
    }

    /// Whether blocks are stored through a mapping of the current segment, which counts as the process's memory.
    pub fn is_mapped(&self) -> bool {
        lock(&self.appender).segment.is_mapped()
    }

    /// Names `checkpoint` as the newest in every block from now on. Numbers only grow.
    pub fn set_checkpoint(&self, checkpoint: CheckpointNo) {
        self.checkpoint.fetch_max(checkpoint.0, Ordering::SeqCst);
    }

    /// Makes segments from the next one on no longer than `bytes`, or than 4 MiB if that is more, whatever the options
    /// allow: a log beside little data should not take more room than the data.
    pub fn limit_segments(&self, bytes: u64) {
        self.segment_limit_bytes.store(bytes.max(LEAST_LIMIT_BYTES), Ordering::SeqCst);
    }

    pub(crate) fn longest_segment_bytes(&self) -> u64 {
        self.options.max_segment_bytes.min(self.segment_limit_bytes.load(Ordering::SeqCst))
    }

    /// Files up to this length are kept for later. Not the longest that would be made just now: the data that this
    /// follows is a little more and a little less all the time, and lengths are rounded up.
    fn longest_spare_bytes(&self) -> u64 {
        2 * self.longest_segment_bytes()
    }

    /// The header of the segment after `current`, without number and length.
    pub(crate) fn draft_after(&self, current: &SegmentHeader) -> SegmentHeader {
        SegmentHeader {
            first_lsn: current.limit_lsn(),
            previous: current.number,
            previous_generation: current.generation,
            cut: current.limit_lsn(),
            checkpoint: CheckpointNo(self.checkpoint.load(Ordering::SeqCst)),
            ..*current
        }
    }

    /// Lets go of all segments wholly before `position`, which is durable in the superblock: nothing starts replay
    /// before it any more. Their files are kept to be used again, a few, or removed. What [`Log::hold`] keeps stays
    /// for a later call.
    pub fn drop_before(&self, position: Position) -> Result<()> {
        let surplus = {
            let mut stock = lock(&self.stock);
            let needed = position.segment.min(stock.first_held());
            let mut appender = lock(&self.appender);
            let count = appender.older.partition_point(|header| header.number < needed);
            for header in appender.older.drain(..count) {
                stock.put_ended(&header);
            }
            if count > 0 {
                stock.end_cycle();
            }
            stock.take_surplus(self.longest_spare_bytes())
        };
        self.remove_surplus(surplus)
    }

    /// Keeps few files for later segments again when none was begun for forty calls: some ten seconds, if it
    /// is called each 250 ms.
    ///
    /// # Errors
    /// Those of removing a file.
    pub fn rest(&self) -> Result<()> {
        let surplus = {
            let mut stock = lock(&self.stock);
            if stock.rest() { stock.take_surplus(self.longest_spare_bytes()) } else { Vec::new() }
        };
        self.remove_surplus(surplus)
    }

    /// Without a lock: to remove a file may take a tenth of a second, in which appends and new segments go on.
    fn remove_surplus(&self, surplus: Vec<Spare>) -> Result<()> {
        if surplus.is_empty() {
            return Ok(());
        }
        let dir = Arc::clone(lock(&self.stock).dir());
        remove(&dir, surplus).map_err(|(error, left)| {
            let mut stock = lock(&self.stock);
            left.into_iter().for_each(|spare| stock.put(spare));
            error
        })
    }

    /// Syncs the log and marks it as closed, so that the next opening has nothing to mend. Appends are refused from
    /// the call on. One flush if all was synced before, none if nothing was appended, else two. Closing again does
    /// nothing. Returns the LSN before which every block is durable: that of the closing block.
    ///
    /// # Errors
    /// [`ErrorKind::Latched`] if the log was latched before; otherwise what struck latches it.
    pub fn close(&self) -> Result<Lsn> {
        let end = {
            let mut appender = lock(&self.appender);
            match &appender.stop {
                Some(Stop::Closed) => return Ok(self.synced()),
                Some(latched) => return Err(latched.refusal()),
                None => appender.stop = Some(Stop::Closed),
            }
            if appender.reopened.is_some() {
                return Ok(self.synced());
            }
            appender.end
        };
        self.close_at(end).inspect_err(|error| lock(&self.appender).latch(error))?;
        self.remove_spares();
        Ok(end)
    }

    /// A closed log keeps no files for later. One that cannot be removed, or is there again after a crash, is a spare
    /// like any other when the log is opened next.
    fn remove_spares(&self) {
        let _ = self.drop_spares();
    }

    /// The closing block is written only when all before it is durable, and says so: one that does not is no proof
    /// of an orderly end.
    fn close_at(&self, end: Lsn) -> Result<()> {
        self.sync(end)?;
        let closed = self.append_closing()?;
        if self.end().lsn.0 - end.0 > BLOCK_HEADER_BYTES as u64 {
            // It went into another segment: the end block before it is not yet known to be durable.
            self.sync(closed)?;
            self.append_closing()?;
        }
        self.sync(self.end().lsn)
    }

    /// Counters, and what is held. Takes the locks for a moment.
    pub fn stats(&self) -> LogStats {
        let spares = lock(&self.stock).spare_bytes();
        let appender = lock(&self.appender);
        let older_bytes: u64 = appender.older.iter().map(|header| header.len_bytes).sum();
        LogStats {
            appends: appender.appends,
            appended_bytes: appender.appended_bytes,
            syncs_asked: self.flush.asked.load(Ordering::SeqCst),
            syncs: self.flush.flushes.load(Ordering::SeqCst),
            segments: appender.older.len() as u64 + 1,
            live_bytes: older_bytes + appender.segment.header.len_bytes,
            spare_bytes: spares + appender.next.iter().map(|next| next.header.len_bytes).sum::<u64>(),
        }
    }
}

/// The file of a segment in which nobody went on. One that was not written over is as easily made anew.
pub(crate) fn spare_of(unused: &Segment) -> Spare {
    let len_bytes = if unused.room == Room::Written { unused.header.len_bytes } else { 0 };
    Spare { name: unused.header.name(), len_bytes }
}
