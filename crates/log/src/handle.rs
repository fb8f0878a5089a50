//! The handle of an open log: creating a log, dropping old segments, closing.

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

/// The lengths of segments, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The length of the first segment of a generation. Each later segment is twice as long as the one before.
    pub first_segment_bytes: u64,
    /// The length at which the doubling stops. A longer payload still gets a segment that holds it.
    pub max_segment_bytes: u64,
    /// The bytes of a new segment for each of which one flush makes it worth to overwrite the file with zeros
    /// beforehand. If at least that many flushes came since the previous segment was made, the new one is overwritten,
    /// which makes flushes cheap. Otherwise its space is only allocated, where the file system can do that. Writing
    /// this many zeros takes about as much time as a flush saves.
    pub flush_worth_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options { first_segment_bytes: 16 << 10, max_segment_bytes: 64 << 20, flush_worth_bytes: 256 << 10 }
    }
}

impl Options {
    /// Rejects impossible lengths with [`ErrorKind::Invalid`].
    pub fn check(&self) -> Result<()> {
        let range = 4096..=MAX_SEGMENT_BYTES;
        if range.contains(&self.first_segment_bytes) && range.contains(&self.max_segment_bytes) {
            return Ok(());
        }
        Err(Error::invalid(format!("the size of a log segment must be within {range:?} bytes, not {self:?}")))
    }
}

/// Segments shorter than 4 MiB would cost busy writers more in syncs than they save in space.
const LEAST_LIMIT_BYTES: u64 = 4 << 20;

/// The write-ahead log of one database, open for appending. All methods may be called from any thread.
#[derive(Debug)]
pub struct Log {
    pub(crate) options: Options,
    /// The lock of the thread that makes a segment, held from the look at the ready segments until the new one is
    /// ready. Taken before `stock` and `appender`, which are free meanwhile.
    pub(crate) making: Mutex<()>,
    /// The number of threads that wait for `making`: see [`Log::hurry`].
    pub(crate) wanted: AtomicU64,
    pub(crate) stock: Mutex<Stock>,
    pub(crate) appender: Mutex<Appender>,
    /// The length of the longest payload for which the current segment had room after the newest append, if it is still
    /// the current one; 0 if it is not, or if an append found no room.
    pub(crate) room_bytes: AtomicU64,
    pub(crate) flush: Flush,
    /// The LSN before which everything is durable.
    pub(crate) synced: AtomicU64,
    pub(crate) checkpoint: AtomicU64,
    /// The limit set by [`Log::limit_segments`].
    segment_limit_bytes: AtomicU64,
    /// The limit set by [`Log::grant_segments`].
    pub(crate) granted_bytes: AtomicU64,
}

/// Statistics of the log: what it did since it was opened, and what it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStats {
    /// The number of blocks that were appended.
    pub appends: u64,
    /// The bytes of those blocks, with headers and padding.
    pub appended_bytes: u64,
    /// The number of calls of [`Log::sync`] that had to wait for a flush.
    pub syncs_asked: u64,
    /// The number of flushes that served those calls.
    pub syncs: u64,
    /// The number of segments that hold live blocks, including the current one.
    pub segments: u64,
    /// The bytes of those segments' files.
    pub live_bytes: u64,
    /// The bytes of files kept for reuse, including the next segment.
    pub spare_bytes: u64,
}

impl Log {
    /// Creates the log of a new database: its first segment, synced with its name. Takes three syncs.
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
        let first_bytes = segment_bytes_for(0, options.first_segment_bytes);
        let segment = stock.ready(draft, first_bytes, first_bytes, Room::Written)?;
        let link = segment.header.checksum();
        let appender = Appender::new(segment, Lsn(0), link, None);
        Ok(Log::new(options, stock, appender, Lsn(0), CheckpointNo(0)))
    }

    /// Removes every log segment in `dir`: the files that an interrupted creation of a database has left.
    pub fn discard(dir: &Arc<dyn Dir>) -> Result<()> {
        let names = dir.list()?;
        names.iter().filter(|name| segment_number(name).is_some()).try_for_each(|name| dir.remove(name))
    }

    /// Creates a log that continues at `appender` and is durable before `synced`.
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
        let (segment_limit_bytes, granted_bytes) = (AtomicU64::new(u64::MAX), AtomicU64::new(u64::MAX));
        let (making, wanted) = (Mutex::new(()), AtomicU64::new(0));
        let room_bytes = AtomicU64::new(0);
        Log {
            options,
            making,
            wanted,
            stock,
            appender,
            room_bytes,
            flush,
            synced,
            checkpoint,
            segment_limit_bytes,
            granted_bytes,
        }
    }

    /// Returns the LSN before which everything is durable.
    #[inline]
    pub fn synced(&self) -> Lsn {
        Lsn(self.synced.load(Ordering::SeqCst))
    }

    /// Returns the position of the next block. A checkpoint that covers all blocks so far stores this in its
    /// superblock, after a sync through it.
    pub fn end(&self) -> Position {
        let appender = lock(&self.appender);
        let SegmentHeader { number, generation, .. } = appender.segment.header;
        Position { segment: number, generation, lsn: appender.end }
    }

    /// Returns the file of the current segment, and its length in bytes, which does not change while it is written.
    pub fn current_segment(&self) -> (Arc<dyn File>, u64) {
        let segment = &lock(&self.appender).segment;
        (Arc::clone(&segment.file), segment.header.len_bytes)
    }

    /// Returns the name of a log segment that this log did not make, if there is one. Then another process has opened
    /// the database for writing and recovered it. Lists the directory.
    ///
    /// # Errors
    /// The errors of listing the directory.
    pub fn foreign_segment(&self) -> Result<Option<String>> {
        let dir = Arc::clone(lock(&self.stock).dir());
        // The directory is listed first: a file that this log makes meanwhile has a number that the stock has already
        // assigned.
        let newest = dir.list()?.iter().filter_map(|name| segment_number(name)).max();
        let next = lock(&self.stock).next_number();
        Ok(newest.filter(|&number| number >= next).map(segment_name))
    }

    /// Returns the length of the current segment if blocks are stored through a mapping of it, which counts as the
    /// process's memory; 0 if it is too long to be mapped, and the next ones may be; `None` if segments are not mapped.
    pub fn mapped_bytes(&self) -> Option<u64> {
        let segment = &lock(&self.appender).segment;
        let mapped_bytes = if segment.is_too_long { 0 } else { segment.header.len_bytes };
        (segment.is_mapped() || segment.is_too_long).then_some(mapped_bytes)
    }

    /// Writes `checkpoint` as the newest one into every block from now on. Numbers only grow.
    pub fn set_checkpoint(&self, checkpoint: CheckpointNo) {
        self.checkpoint.fetch_max(checkpoint.0, Ordering::SeqCst);
    }

    /// Limits segments from the next one on to `bytes`, or to 4 MiB if that is more, even if the options allow more.
    /// The log of a small database should not take more space than its data.
    pub fn limit_segments(&self, bytes: u64) {
        self.segment_limit_bytes.store(bytes.max(LEAST_LIMIT_BYTES), Ordering::SeqCst);
    }

    /// Returns the greatest length of a segment that is made if memory for it is granted, unless a record needs a
    /// longer one.
    pub fn most_segment_bytes(&self) -> u64 {
        self.options.max_segment_bytes.min(self.segment_limit_bytes.load(Ordering::SeqCst))
    }

    /// Returns the greatest length of a segment that is made now, unless a record needs a longer one.
    pub fn longest_segment_bytes(&self) -> u64 {
        self.most_segment_bytes().min(self.granted_bytes.load(Ordering::SeqCst))
    }

    /// Returns the greatest length of a file that is kept for reuse. It is more than the length of a segment made now:
    /// the size of the data, on which that depends, varies all the time, and lengths are rounded up.
    pub(crate) fn longest_spare_bytes(&self) -> u64 {
        2 * self.longest_segment_bytes()
    }

    /// Returns the header of the segment after `current`, without number and length.
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

    /// Drops all segments wholly before `position`, which is durable in the superblock, so that no replay starts before
    /// it. A few of their files are kept for reuse; the others are removed. Segments that [`Log::hold`] keeps stay for
    /// a later call.
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

    /// Reduces the files kept for reuse to a few when no segment was started for forty calls: some ten seconds, if it
    /// is called every 250 ms.
    ///
    /// # Errors
    /// The errors of removing a file.
    pub fn rest(&self) -> Result<()> {
        let surplus = {
            let mut stock = lock(&self.stock);
            if stock.rest() { stock.take_surplus(self.longest_spare_bytes()) } else { Vec::new() }
        };
        self.remove_surplus(surplus)
    }

    /// Runs without a lock: removing a file may take a tenth of a second, in which appends and new segments continue.
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

    /// Syncs the log and marks it as closed, so that the next open needs no recovery. Appends are rejected from the
    /// call on. It takes one flush if everything was synced before, none if nothing was appended, and two otherwise.
    /// Closing again does nothing. Returns the LSN before which every block is durable: that of the closing block.
    ///
    /// # Errors
    /// [`ErrorKind::Latched`] if the log was latched before. Any other error latches it.
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

    /// Removes the files kept for reuse, because a closed log has none. A file that cannot be removed, or that is back
    /// after a crash, becomes a spare when the log is next opened.
    fn remove_spares(&self) {
        let _ = self.drop_spares();
    }

    /// Writes the closing block, once everything before it is durable, as the block states: otherwise it would be no
    /// proof of an orderly end.
    fn close_at(&self, end: Lsn) -> Result<()> {
        self.sync(end)?;
        let closed = self.append_closing()?;
        if self.end().lsn.0 - end.0 > BLOCK_HEADER_BYTES as u64 {
            // The block went into another segment: the end block before it is not yet known to be durable.
            self.sync(closed)?;
            self.append_closing()?;
        }
        self.sync(self.end().lsn)
    }

    /// Returns the statistics. Takes the locks for a moment.
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

/// Returns the file of an unused segment as a spare. A file that was not overwritten is as easily made anew.
pub(crate) fn spare_of(unused: &Segment) -> Spare {
    let len_bytes = if unused.room == Room::Written { unused.header.len_bytes } else { 0 };
    Spare { name: unused.header.name(), len_bytes }
}
