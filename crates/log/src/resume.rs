//! The writing half of recovery: from the tail that a scan found to a log that can be appended to.
//!
//! A log that was closed in order continues where it is; nothing is written and nothing synced. Otherwise:
//!
//! 1. Write the tail again, the same bytes in the same place, from the last LSN that is known to be durable up to the
//!    cut, and sync. A flush that failed before may have left the page cache with bytes that the disk lacks, and the
//!    cut must not move back once it is declared.
//! 2. Make the first segment of a new generation ready. Its header names this segment and the cut, so from its sync on
//!    a scan continues there from here. Its generation and LSN are greater than any that a file in the directory has or
//!    had room for, including files of recoveries that crashed.
//! 3. Write an end block at the cut that names the new segment, and sync, so that a loss of the new segment is noticed.
//!
//! A crash before the end of step 2 leaves the tail as it was, and perhaps a file that the next recovery continues from
//! or ignores. A crash during step 3 leaves the result of step 2.

use crate::append::{Appender, Stop};
use crate::format::{
    BlockHeader, Kind, MAX_SEGMENT_BYTES, SEGMENT_HEADER_BYTES, SegmentHeader, segment_name,
};
use crate::handle::{Log, Options};
use crate::scan::{Tail, closing_bytes};
use crate::segment::Segment;
use crate::stock::{Room, Stock, segment_bytes_for};
use crate::window::Window;
use base::{CheckpointNo, Error, Lsn, Result};
use io::Dir;
use std::collections::VecDeque;
use std::sync::Arc;

/// The tail is written again in pieces of this size.
const PIECE_BYTES: u64 = 256 << 10;

impl Log {
    /// Returns the log that [`Log::scan`] found, ready for appends. `checkpoint` is the newest durable one. A log that
    /// was closed in order is not written. Otherwise this takes four flushes and a directory sync, and writes the bytes
    /// that were not known to be durable. The directory must not have changed since the scan.
    ///
    /// # Errors
    /// The errors of the files. After an error the log is still intact: scan and resume again.
    pub fn resume(dir: Arc<dyn Dir>, tail: Tail, checkpoint: CheckpointNo, options: Options) -> Result<Log> {
        options.check()?;
        let last = *tail.chain.last().expect("a tail has a segment");
        let mut stock = Stock::new(dir, tail.survey.next_number(), tail.survey.spares(&tail.chain));
        let (appender, synced) = if tail.closed {
            in_place(&stock, &tail, options)?
        } else {
            recover(&mut stock, &tail, checkpoint, options)?
        };
        let mut older = VecDeque::from(tail.chain);
        if appender.segment.header.number == last.number {
            older.pop_back();
        }
        Ok(Log::new(options, stock, Appender { older, ..appender }, synced, checkpoint))
    }
}

impl Log {
    /// Returns the log that [`Log::scan`] found, unchanged: nothing is written, and every append is rejected as if the
    /// log were closed.
    pub fn read_only(
        dir: Arc<dyn Dir>,
        tail: Tail,
        checkpoint: CheckpointNo,
        options: Options,
    ) -> Result<Log> {
        let mut older = VecDeque::from(tail.chain);
        let last = older.pop_back().expect("a tail has a segment");
        let appender = Appender::new(Segment::open(&dir, last)?, tail.end.lsn, tail.link, None);
        let appender = Appender { older, stop: Some(Stop::Closed), ..appender };
        let stock = Stock::new(dir, tail.survey.next_number(), Vec::new());
        Ok(Log::new(options, stock, appender, tail.synced, checkpoint))
    }
}

/// Continues after the closing block. That block itself is not counted as durable: it has no payload, and its own flush
/// may have failed.
fn in_place(stock: &Stock, tail: &Tail, options: Options) -> Result<(Appender, Lsn)> {
    let (last, end) = (*tail.chain.last().expect("a tail has a segment"), tail.end.lsn);
    let closing = closing_bytes(&mut Window::open(stock.dir(), last)?, end)?;
    // The file does not say how its space was secured.
    let room = if last.len_bytes <= options.flush_worth_bytes { Room::Written } else { Room::Allocated };
    let segment = Segment::open_to_append(stock.dir(), last, room, options.max_segment_bytes)?;
    let appender = Appender::new(segment, end, tail.link, Some(closing));
    Ok((appender, Lsn(end.0 - closing.len() as u64)))
}

/// Continues in a new generation.
fn recover(
    stock: &mut Stock,
    tail: &Tail,
    checkpoint: CheckpointNo,
    options: Options,
) -> Result<(Appender, Lsn)> {
    write_again(stock.dir(), tail)?;
    let draft = next_generation(tail, checkpoint)?;
    let first_bytes = segment_bytes_for(0, options.first_segment_bytes);
    let segment = stock.ready(draft, first_bytes, options.max_segment_bytes, Room::Written)?;
    end_with(stock.dir(), tail, &segment, checkpoint)?;
    let (first_lsn, link) = (segment.header.first_lsn, segment.header.checksum());
    Ok((Appender::new(segment, first_lsn, link, None), first_lsn))
}

/// Writes the tail again, from the last LSN that is known to be durable up to the cut, and syncs it (step 1).
fn write_again(dir: &Arc<dyn Dir>, tail: &Tail) -> Result<()> {
    let mut buffer = Vec::new();
    let last = tail.end.segment;
    for header in &tail.chain {
        let end = if header.number == last { tail.end.lsn } else { header.limit_lsn() };
        if end <= tail.synced {
            continue;
        }
        let file = dir.open(&header.name())?;
        let mut offset = header.offset_of(tail.synced.max(header.first_lsn));
        let end = header.offset_of(end);
        while offset < end {
            buffer.resize((end - offset).min(PIECE_BYTES) as usize, 0);
            file.read_exact_at(&mut buffer, offset)?;
            file.write_at(&buffer, offset)?;
            offset += buffer.len() as u64;
        }
        file.sync()?;
    }
    Ok(())
}

/// Returns the header for step 2, without number and length.
fn next_generation(tail: &Tail, checkpoint: CheckpointNo) -> Result<SegmentHeader> {
    let last = tail.chain.last().expect("a tail has a segment");
    let first_lsn = tail.survey.next_lsn();
    // The numbers stay far below the limits of a header, so that generations never run out.
    let generation = tail.survey.next_generation();
    if generation.max(first_lsn.0 + MAX_SEGMENT_BYTES).max(tail.survey.next_number()) >= 1 << 61 {
        let name = segment_name(last.number);
        return Err(Error::corruption(format!(
            "{name}: its first LSN {first_lsn} leaves no room for another block"
        )));
    }
    Ok(SegmentHeader {
        generation,
        first_lsn,
        previous: last.number,
        previous_generation: last.generation,
        cut: tail.end.lsn,
        checkpoint,
        ..*last
    })
}

/// Writes an end block at the cut, which names the segment `next` (step 3). There is room, because every append leaves
/// it.
fn end_with(dir: &Arc<dyn Dir>, tail: &Tail, next: &Segment, checkpoint: CheckpointNo) -> Result<()> {
    let last = *tail.chain.last().expect("a tail has a segment");
    let payload = next.header.as_successor().encode();
    let header = BlockHeader {
        kind: Kind::End,
        payload_bytes: payload.len() as u32,
        link: tail.link,
        synced: tail.end.lsn,
        checkpoint_low: checkpoint.0 as u32,
    };
    let (head, _) = header.seal(last.place(tail.end.lsn), &payload);
    let offset = last.offset_of(tail.end.lsn);
    if offset + (head.len() + payload.len()) as u64 > last.len_bytes {
        return Err(Error::corruption(format!(
            "{}: there is no room for an end block at offset {offset}",
            last.name()
        )));
    }
    debug_assert!(offset >= SEGMENT_HEADER_BYTES as u64);
    let file = dir.open(&last.name())?;
    file.write_at(&[&head[..], &payload[..]].concat(), offset)?;
    file.sync()
}
