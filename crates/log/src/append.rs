//! Appending: header and payload are written into the current segment under one lock.
//!
//! When the current segment has no room, a last block in it names the next one, which was made ready beforehand. The
//! file of the ended segment joins `unsynced`, so that the next flush syncs it before any newer file.
//!
//! Lock order: `stock` before `appender`. An append that finds no segment ready releases `appender` first.

use crate::format::{
    BLOCK_HEADER_BYTES, BlockHeader, Kind, MAX_PAYLOAD_BYTES, REACH_AFTER_CLOSE_BYTES, SegmentHeader,
    block_bytes,
};
use crate::handle::Log;
use crate::segment::{Segment, Way};
use crate::stock::Room;
use base::sync::atomic::Ordering;
use base::sync::lock;
use base::{Error, ErrorKind, Lsn, Result};
use io::{File, LogMap};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// A log counts as flushed often after this many looks in a row that each found new flushes.
const OFTEN_LOOKS: u32 = 3;

/// From this many mapped pages on, releasing them costs less than their flush saves.
const RELEASE_PAGES: u64 = 16;
/// The size of a page of memory in bytes, at least.
const PAGE_BYTES: u64 = 4 << 10;

/// The reason why no more blocks are appended.
#[derive(Debug)]
pub(crate) enum Stop {
    /// [`Log::close`] was called.
    Closed,
    /// An append or a sync failed with this error.
    Latched(Error),
}

impl Stop {
    /// Returns the error that callers get from then on.
    #[cold]
    pub fn refusal(&self) -> Error {
        match self {
            Stop::Closed => Error::new(ErrorKind::Closed, "the log is closed"),
            Stop::Latched(cause) => {
                Error::new(ErrorKind::Latched, "the log stopped after a failed write or sync")
                    .caused_by(cause.to_string())
            }
        }
    }
}

/// Bytes of a file that are mapped.
#[derive(Debug)]
pub(crate) struct Mapped {
    map: Arc<dyn LogMap>,
    within: Range<u64>,
}

impl Mapped {
    pub fn release(self) {
        self.map.release(self.within.start, self.within.end - self.within.start);
    }
}

/// The place where the next block is written, and the segments around it.
#[derive(Debug)]
pub(crate) struct Appender {
    pub segment: Segment,
    /// Headers of the segments before this one that are still needed, oldest first.
    pub older: VecDeque<SegmentHeader>,
    /// The segments after this one that are ready, in order.
    pub next: VecDeque<Segment>,
    /// Whether the segment that was made last was needed before it was ready.
    pub is_in_need: bool,
    /// The LSN of the next block.
    pub end: Lsn,
    /// The link of the next block.
    pub link: u64,
    /// The LSN before which the disk has been asked to start writing everything.
    pub begun: Lsn,
    /// Files of ended segments that are not synced yet, oldest first.
    pub unsynced: Vec<Arc<dyn File>>,
    /// The mapping of the last segment that ended, for [`Log::prepare_next`] to drop: unmapping a file that is being
    /// flushed takes the kernel up to 10 ms. Only one is kept, because it counts as the process's memory.
    pub ended: Option<Arc<dyn LogMap>>,
    pub stop: Option<Stop>,
    /// The closing block with which the log was found, as long as the log ends in it. It is written again with the
    /// first append. The sync that should have made it durable may have failed, and a page cache that dropped it would
    /// leave a hole before the appended blocks.
    pub reopened: Option<[u8; BLOCK_HEADER_BYTES]>,
    /// The place after that closing block, until the log is known to be durable beyond it.
    pub continued_at: Option<Lsn>,
    /// The number of flushes at the last look of [`Log::prepare_in_time`], and how many looks in a row found new ones.
    pub flushes: u64,
    pub flushed_looks: u32,
    /// The number of pages that blocks were stored into and that were neither flushed nor released since.
    pub stored_pages: u64,
    /// The page of the segment after the last one that was stored into.
    pub stored_until: u64,
    /// The buffer in which blocks are assembled.
    pub buffer: Vec<u8>,
    /// Blocks and their bytes, with headers and padding, since the log was opened.
    pub appends: u64,
    pub appended_bytes: u64,
}

impl Appender {
    /// Creates an appender at `end` of `segment`.
    pub fn new(
        segment: Segment,
        end: Lsn,
        link: u64,
        reopened: Option<[u8; BLOCK_HEADER_BYTES]>,
    ) -> Appender {
        Appender {
            segment,
            older: VecDeque::new(),
            next: VecDeque::new(),
            is_in_need: false,
            end,
            link,
            begun: end,
            unsynced: Vec::new(),
            ended: None,
            stop: None,
            reopened,
            continued_at: reopened.map(|_| end),
            flushes: 0,
            flushed_looks: 0,
            stored_pages: 0,
            stored_until: 0,
            buffer: Vec::new(),
            appends: 0,
            appended_bytes: 0,
        }
    }

    /// Returns whether flushes come often (`flushes` were made so far), and each must also record which blocks of the
    /// file were first written.
    pub fn is_flushed_dearly(&mut self, flushes: u64) -> bool {
        let before = std::mem::replace(&mut self.flushes, flushes);
        self.flushed_looks = if flushes > before { self.flushed_looks + 1 } else { 0 };
        self.segment.room == Room::Allocated && self.flushed_looks >= OFTEN_LOOKS
    }

    /// Returns the mapped pages that were written since `synced`, if many of them were stored into. The caller releases
    /// them before it flushes.
    pub fn take_mapped(&mut self, synced: Lsn) -> [Option<Mapped>; 2] {
        if std::mem::take(&mut self.stored_pages) < RELEASE_PAGES {
            return [None, None];
        }
        let header = &self.segment.header;
        let written = header.offset_of(synced.max(header.first_lsn))..header.offset_of(self.end);
        let current = self.segment.map.clone().map(|map| Mapped { map, within: written });
        [self.ended.clone().map(|map| Mapped { map, within: 0..u64::MAX }), current]
    }

    /// Returns whether a block with this much payload fits into the current segment.
    #[inline]
    pub fn has_room(&self, payload_bytes: usize) -> bool {
        self.segment.has_room(self.end, payload_bytes)
    }

    /// Returns whether the next ready segment has room for a block with this much payload.
    #[inline]
    pub fn next_has_room(&self, payload_bytes: usize) -> bool {
        self.next.front().is_some_and(|next| next.has_room(next.header.first_lsn, payload_bytes))
    }

    /// Writes one block. The caller has checked that it has room.
    #[inline]
    fn write(&mut self, kind: Kind, payload: &[u8], stamp: Stamp, way: Way) -> Result<Lsn> {
        if let Some(closing) = self.reopened.take() {
            self.write_closing_again(&closing)?;
        }
        let header = BlockHeader {
            kind,
            payload_bytes: payload.len() as u32,
            link: self.link,
            synced: stamp.synced,
            checkpoint_low: stamp.checkpoint_low,
        };
        let (head, sum) = header.seal(self.segment.header.place(self.end), payload);
        if kind == Kind::Close {
            let mut with_zeros = [0; 2 * BLOCK_HEADER_BYTES];
            with_zeros[..BLOCK_HEADER_BYTES].copy_from_slice(&head);
            self.segment.write(self.end, &with_zeros, payload, &mut self.buffer, way)?;
        } else {
            self.segment.write(self.end, &head, payload, &mut self.buffer, way)?;
        }
        let bytes = block_bytes(payload.len());
        if way == Way::Store {
            self.note_stored(bytes);
        }
        self.end = Lsn(self.end.0 + bytes);
        self.link = sum;
        self.appends += 1;
        self.appended_bytes += bytes;
        Ok(self.end)
    }

    /// Counts the pages into which a block of `bytes` is stored at the end. The first block of a segment, or after a
    /// flush, may be counted as lying in pages that were counted before: that is one of many.
    #[inline]
    fn note_stored(&mut self, bytes: u64) {
        let start = self.segment.header.offset_of(self.end);
        let until = (start + bytes).div_ceil(PAGE_BYTES);
        self.stored_pages += until.saturating_sub(self.stored_until.max(start / PAGE_BYTES));
        self.stored_until = until;
    }

    #[cold]
    fn write_closing_again(&mut self, closing: &[u8; BLOCK_HEADER_BYTES]) -> Result<()> {
        let at = Lsn(self.end.0 - BLOCK_HEADER_BYTES as u64);
        self.segment.write(at, closing, &[], &mut self.buffer, Way::Call)
    }

    /// Checks that the log still ends in the closing block with which it was found. Another process that opened the
    /// same closed log, despite the lock, continues in the same place. The check writes nothing; a difference latches
    /// the log.
    #[cold]
    fn check_closing(&mut self, closing: [u8; BLOCK_HEADER_BYTES]) -> Result<()> {
        let at = Lsn(self.end.0 - BLOCK_HEADER_BYTES as u64);
        let (mut found, offset) = ([0; 2 * BLOCK_HEADER_BYTES], self.segment.header.offset_of(at));
        self.segment.file.read_exact_at(&mut found, offset)?;
        let (block, after) = found.split_at(BLOCK_HEADER_BYTES);
        if block == closing && after.iter().all(|&byte| byte == 0) {
            return Ok(());
        }
        let name = self.segment.header.name();
        let error = Error::new(
            ErrorKind::Latched,
            format!(
                "{name}: the log's end at offset {offset} changed since it was opened: another process has \
                 written to the database; close the database in all processes, and open it again in one"
            ),
        );
        self.latch(&error);
        Err(error)
    }

    /// Returns whether the log, which is durable before `synced`, must be flushed before another block. It continued
    /// after a closing block, and a power loss could still undo the first block and keep the next one, which begins too
    /// far away to be noticed when the log is opened. It would follow the first block if that was appended again.
    #[cold]
    fn must_flush_first(&mut self, synced: Lsn) -> bool {
        self.continued_at = self.continued_at.filter(|&at| synced <= at);
        let farthest_bytes = REACH_AFTER_CLOSE_BYTES - BLOCK_HEADER_BYTES as u64;
        self.continued_at.is_some() && self.appended_bytes > farthest_bytes
    }

    /// Ends the current segment and continues in `next`.
    #[cold]
    pub(crate) fn switch(&mut self, next: Segment, stamp: Stamp) -> Result<()> {
        self.write(Kind::End, &next.header.as_successor().encode(), stamp, Way::Call)?;
        self.end = next.header.first_lsn;
        self.link = next.header.checksum();
        let Segment { header, file, map, .. } = std::mem::replace(&mut self.segment, next);
        self.ended = map;
        self.older.push_back(header);
        self.unsynced.push(file);
        Ok(())
    }

    /// Appends one block to the current or the next segment. Returns `None` if a segment must be made ready first.
    #[inline]
    fn append(&mut self, kind: Kind, payload: &[u8], stamp: Stamp, way: Way) -> Result<Option<Lsn>> {
        if !self.has_room(payload.len()) {
            if !self.next_has_room(payload.len()) {
                return Ok(None);
            }
            let next = self.next.pop_front().expect("it has room, so it is there");
            self.switch(next, stamp)?;
        }
        self.write(kind, payload, stamp, way).map(Some)
    }

    /// Stops all appends with `cause`, unless they were stopped before.
    #[cold]
    pub fn latch(&mut self, cause: &Error) {
        if !matches!(self.stop, Some(Stop::Latched(_))) {
            self.stop = Some(Stop::Latched(cause.duplicate()));
        }
    }
}

/// The state of the log that every block repeats.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    synced: Lsn,
    checkpoint_low: u32,
}

impl Log {
    /// Appends one block and returns the LSN after it. When this returns, the block survives a killed process, but no
    /// power loss before a [`Log::sync`] through that LSN. An append costs a checksum and a copy, and from 2 KiB on a
    /// system call. If [`Log::prepare_next`] did not run in time, an append now and then also makes a new segment, with
    /// three syncs. In a log that was closed in order and opened again, the append after the first 256 KiB also flushes
    /// them, unless they were synced. For a block that will be synced at once, [`Log::append_to_sync`] is cheaper.
    ///
    /// # Errors
    /// - [`ErrorKind::Invalid`] for a payload over [`MAX_PAYLOAD_BYTES`].
    /// - [`ErrorKind::Closed`] after [`Log::close`].
    /// - [`ErrorKind::Full`] and the other errors of making a new segment. Nothing was written, and the call may be
    ///   repeated.
    /// - An error of reading the end of a log that was closed in order, before the first append. The call may be
    ///   repeated.
    /// - Any other error latches the log: from then on every call fails with [`ErrorKind::Latched`].
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use pando_log::{Log, Options};
    /// let log = Log::create(Arc::new(io::MemDir::new()), base::DatabaseId(1), Options::default())?;
    /// let end = log.append(b"a commit")?;
    /// log.sync(end)?;
    /// assert_eq!(log.synced(), end);
    /// # base::Result::Ok(())
    /// ```
    #[inline]
    pub fn append(&self, payload: &[u8]) -> Result<Lsn> {
        self.append_by(Way::unsynced(payload.len()), payload)
    }

    /// Appends a block that the caller is about to [`sync`](Log::sync). Compared with [`Log::append`] it makes one more
    /// system call for a short block, and saves what stores into a mapping cost at each flush.
    ///
    /// # Errors
    /// As [`Log::append`].
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use pando_log::{Log, Options};
    /// let log = Log::create(Arc::new(io::MemDir::new()), base::DatabaseId(1), Options::default())?;
    /// log.sync(log.append_to_sync(b"a commit")?)?;
    /// # base::Result::Ok(())
    /// ```
    #[inline]
    pub fn append_to_sync(&self, payload: &[u8]) -> Result<Lsn> {
        self.append_by(Way::Call, payload)
    }

    #[inline]
    fn append_by(&self, way: Way, payload: &[u8]) -> Result<Lsn> {
        check_length(payload.len() as u64)?;
        loop {
            let mut appender = lock(&self.appender);
            if let Some(stop) = &appender.stop {
                return Err(stop.refusal());
            }
            if let Some(closing) = appender.reopened {
                appender.check_closing(closing)?;
            }
            if appender.continued_at.is_some() && appender.must_flush_first(self.synced()) {
                let end = appender.end;
                drop(appender);
                self.sync(end)?;
                continue;
            }
            match appender.append(Kind::Data, payload, self.stamp(), way) {
                Ok(Some(end)) => {
                    // Relaxed: an estimate, for `Log::has_room`. The append after it looks again, under the lock.
                    self.room_bytes.store(appender.segment.room_bytes(end), Ordering::Relaxed);
                    return Ok(end);
                }
                Ok(None) => {
                    self.forget_room();
                    drop(appender);
                }
                Err(error) => {
                    self.forget_room();
                    appender.latch(&error);
                    return Err(error);
                }
            }
            self.prepare(payload.len())?;
        }
    }

    /// Makes [`Log::has_room`] look at the current segment until the next append: it is another one, or has no room.
    /// The caller holds the appender's lock.
    pub(crate) fn forget_room(&self) {
        self.room_bytes.store(0, Ordering::Relaxed); // Relaxed: as in `append_by`.
    }

    /// Stops all appends and flushes because of `cause`, as a failed append does.
    #[cold]
    pub fn stop(&self, cause: &Error) {
        self.forget_room();
        lock(&self.appender).latch(cause);
    }

    /// Returns whether an earlier failure stopped all appends.
    pub fn is_latched(&self) -> bool {
        matches!(lock(&self.appender).stop, Some(Stop::Latched(_)))
    }

    /// Appends the closing block, although the log is stopped for all other appends.
    pub(crate) fn append_closing(&self) -> Result<Lsn> {
        loop {
            let appended = lock(&self.appender).append(Kind::Close, &[], self.stamp(), Way::Call)?;
            // The lock is free again: `prepare` takes it after `making` and `stock`.
            match appended {
                Some(end) => return Ok(end),
                None => self.prepare(0)?,
            };
        }
    }

    #[inline]
    pub(crate) fn stamp(&self) -> Stamp {
        let synced = Lsn(self.synced.load(Ordering::SeqCst));
        Stamp { synced, checkpoint_low: self.checkpoint.load(Ordering::SeqCst) as u32 }
    }
}

/// Rejects a payload that no segment can hold.
#[inline]
pub(crate) fn check_length(payload_bytes: u64) -> Result<()> {
    if payload_bytes > MAX_PAYLOAD_BYTES as u64 {
        return Err(too_long(payload_bytes));
    }
    Ok(())
}

#[cold]
fn too_long(payload_bytes: u64) -> Error {
    Error::invalid(format!(
        "a log block holds at most {MAX_PAYLOAD_BYTES} bytes, but the record has {payload_bytes}"
    ))
}
