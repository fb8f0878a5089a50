//! Reading the log while it is being written, from a held position up to the end at some moment.
//!
//! 1. *Hold* the position, so that no checkpoint drops its segment.
//! 2. *Follow*: record the segments from there on, and the end. Blocks before that end are whole, even while other
//!    threads append: an append returns after its block was written.
//! 3. Read block after block. The reader leaves a segment at its end block, or at the cut that the next segment, of a
//!    newer generation, declares for it.
//!
//! A live log has no torn tail, so any bad block is damage.

use crate::format::{BLOCK_HEADER_BYTES, Kind, Position, SegmentHeader, block_bytes};
use crate::handle::Log;
use crate::scan::Tail;
use crate::window::{Found, READ_BYTES, Window};
use base::sync::lock;
use base::{Error, Lsn, Result};
use io::Dir;
use std::collections::VecDeque;
use std::sync::Arc;

/// A reader of a live log. It uses memory for one block, at least 256 KiB.
///
/// ```
/// # use std::sync::Arc;
/// # use pando_log::{Log, Options};
/// let log = Log::create(Arc::new(io::MemDir::new()), base::DatabaseId(1), Options::default())?;
/// let start = log.end();
/// log.append(b"a commit")?;
/// log.hold(start);
/// let mut follow = log.follow(start)?;
/// assert!(follow.advance()?);
/// assert_eq!(follow.payload(), b"a commit");
/// assert!(!follow.advance()?);
/// log.let_go(start);
/// # base::Result::Ok(())
/// ```
#[derive(Debug)]
pub struct Follow {
    dir: Arc<dyn Dir>,
    /// The segments that were not started yet.
    later: VecDeque<SegmentHeader>,
    window: Window,
    at: Lsn,
    end: Lsn,
    /// The place of the current payload in the window's segment, and its length.
    payload: (u64, usize),
}

impl Tail {
    /// Keeps the segments from that of `from` on, which is before the position at which the scan started. The log has
    /// them, too, once it is resumed.
    ///
    /// # Errors
    /// [`Corruption`](base::ErrorKind::Corruption) if one of them is missing. The tail is unchanged then.
    pub fn keep_from(&mut self, from: Position) -> Result<()> {
        let mut before = Vec::new();
        let mut first = *self.chain.first().expect("a tail has a segment");
        while first.number > from.segment {
            let previous = self.survey.named(first.previous, &first.name())?;
            if previous.generation != first.previous_generation || previous.number >= first.number {
                let name = first.name();
                return Err(Error::corruption(format!(
                    "{name}: its predecessor is another one, {previous:?}"
                )));
            }
            before.push(previous);
            first = previous;
        }
        before.reverse();
        self.chain.splice(0..0, before);
        Ok(())
    }

    /// Returns a reader of the scanned log, from `from` to the end.
    ///
    /// # Errors
    /// [`Corruption`](base::ErrorKind::Corruption) if there is no such position.
    pub fn follow(&self, dir: &Arc<dyn Dir>, from: Position) -> Result<Follow> {
        let later = self.chain.iter().filter(|header| header.number >= from.segment).copied().collect();
        follow_over(dir, later, from, self.end.lsn)
    }
}

/// Returns a reader of the segments of `later` from `from`, which lies in the first one, up to `end`.
fn follow_over(
    dir: &Arc<dyn Dir>,
    mut later: VecDeque<SegmentHeader>,
    from: Position,
    end: Lsn,
) -> Result<Follow> {
    let first = later.pop_front().filter(|first| {
        (first.number, first.generation) == (from.segment, from.generation) && first.first_lsn <= from.lsn
    });
    let Some(first) = first else {
        return Err(Error::corruption(format!("the log has no segment that begins at {from:?}")));
    };
    let window = Window::open(dir, first)?;
    Ok(Follow { dir: Arc::clone(dir), later, window, at: from.lsn, end, payload: (0, 0) })
}

impl Log {
    /// Keeps the segments from that of `from` on until [`Log::let_go`]. The caller must make sure that no thread drops
    /// them before this returns.
    pub fn hold(&self, from: Position) {
        lock(&self.stock).hold(from.segment);
    }

    /// Ends one [`Log::hold`] of the same position. The next [`Log::drop_before`] can drop the segments.
    pub fn let_go(&self, from: Position) {
        lock(&self.stock).let_go(from.segment);
    }

    /// Returns a reader of the blocks from `from`, which the caller holds, up to the current end.
    ///
    /// # Errors
    /// [`Corruption`](base::ErrorKind::Corruption) if there is no such position.
    pub fn follow(&self, from: Position) -> Result<Follow> {
        let dir = Arc::clone(lock(&self.stock).dir());
        let (later, end) = {
            let appender = lock(&self.appender);
            let all = appender.older.iter().chain([&appender.segment.header]);
            let later: VecDeque<_> = all.filter(|header| header.number >= from.segment).copied().collect();
            (later, appender.end)
        };
        follow_over(&dir, later, from, end)
    }

    /// Extends `follow`, a reader of this log, to the current end. The caller must still hold its position.
    pub fn extend(&self, follow: &mut Follow) {
        let known = follow.later.back().map_or(follow.window.header.number, |last| last.number);
        {
            let appender = lock(&self.appender);
            let all = appender.older.iter().chain([&appender.segment.header]);
            follow.later.extend(all.filter(|header| header.number > known).copied());
            follow.end = appender.end;
        }
        // The window may hold bytes from before the blocks were written.
        follow.window.forget();
    }
}

impl Follow {
    /// The least memory that a reader uses, in bytes.
    pub const LEAST_BYTES: usize = READ_BYTES as usize;

    /// Moves to the next payload that is not empty. Returns false after the last.
    ///
    /// # Errors
    /// [`Corruption`](base::ErrorKind::Corruption) if a block differs from what was written. The message names the
    /// block.
    pub fn advance(&mut self) -> Result<bool> {
        loop {
            let cut = self.later.front().map(|next| (next.generation, next.cut));
            let here = self.window.header;
            if cut.is_some_and(|(generation, cut)| generation > here.generation && cut == self.at) {
                self.next_segment()?;
                continue;
            }
            if self.at >= self.end {
                return Ok(false);
            }
            let (kind, payload_bytes) = match self.window.block(self.at)? {
                Found::Block { header, payload, .. } => (header.kind, payload.len()),
                Found::Bad(bad) => return Err(self.damaged(&bad)),
            };
            if kind == Kind::End {
                self.next_segment()?;
                continue;
            }
            self.payload = (here.offset_of(self.at) + BLOCK_HEADER_BYTES as u64, payload_bytes);
            self.at = Lsn(self.at.0 + block_bytes(payload_bytes));
            if payload_bytes > 0 {
                return Ok(true);
            }
        }
    }

    /// Returns the current payload.
    pub fn payload(&self) -> &[u8] {
        let (offset, bytes) = self.payload;
        self.window.read_before(offset, bytes)
    }

    /// Returns the position after the current payload: the value that [`Log::end`] had after its append.
    pub fn end(&self) -> Position {
        let SegmentHeader { number, generation, .. } = self.window.header;
        Position { segment: number, generation, lsn: self.at }
    }

    fn next_segment(&mut self) -> Result<()> {
        let Some(next) = self.later.pop_front() else {
            return Err(self.damaged("expected more blocks, but the log ends here"));
        };
        self.window = Window::open(&self.dir, next)?;
        self.at = next.first_lsn;
        Ok(())
    }

    fn damaged(&self, what: &str) -> Error {
        let header = &self.window.header;
        Error::corruption(format!("{} at offset {}: {what}", header.name(), header.offset_of(self.at)))
    }
}
