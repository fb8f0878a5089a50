//! Reading the log while it is being written: what was appended before a moment, from a held position on.
//!
//! 1. *Hold* the position, so that no checkpoint takes its segment away.
//! 2. *Follow*: note the segments from there on, and the end. Blocks before that end are whole, even while others
//!    append: an append returns after its block was written.
//! 3. Read block after block. A segment is left at its end block, or at the cut that the next one, of a newer
//!    generation, declares for it.
//!
//! There is no torn tail here, so a bad block is damage and nothing else.

use crate::format::{BLOCK_HEADER_BYTES, Kind, Position, SegmentHeader, block_bytes};
use crate::handle::Log;
use crate::scan::Tail;
use crate::window::{Found, READ_BYTES, Window};
use base::sync::lock;
use base::{Error, Lsn, Result};
use io::Dir;
use std::collections::VecDeque;
use std::sync::Arc;

/// A reader of a live log; the head of this file has the argument. Memory: one block, at least 256 KiB.
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
    /// The segments that were not begun yet.
    later: VecDeque<SegmentHeader>,
    window: Window,
    at: Lsn,
    end: Lsn,
    /// Where in the window's segment the payload gone to lies, and its length.
    payload: (u64, usize),
}

impl Tail {
    /// Keeps the segments from that of `from` on, which lies before the position from which the scan went: they are the
    /// log's, too, once it is resumed.
    ///
    /// # Errors
    /// [`Corruption`](base::ErrorKind::Corruption) if one of them is not there. The tail is as before then.
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

    /// A reader of what was found, from `from` on, to the end.
    ///
    /// # Errors
    /// [`Corruption`](base::ErrorKind::Corruption) if there is no such position.
    pub fn follow(&self, dir: &Arc<dyn Dir>, from: Position) -> Result<Follow> {
        let later = self.chain.iter().filter(|header| header.number >= from.segment).copied().collect();
        follow_over(dir, later, from, self.end.lsn)
    }
}

/// A reader of the segments of `later` from `from`, which lies in the first one, up to `end`.
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
    /// Keeps the segments from that of `from` on until [`Log::let_go`]. The caller sees to it that nobody drops
    /// them before this returns.
    pub fn hold(&self, from: Position) {
        lock(&self.stock).hold(from.segment);
    }

    /// Ends one [`Log::hold`] of the same position. The segments go with the next [`Log::drop_before`].
    pub fn let_go(&self, from: Position) {
        lock(&self.stock).let_go(from.segment);
    }

    /// A reader of what was appended from `from`, which the caller holds, up to now.
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

    /// Lets `follow`, a reader of this log, go on to what was appended since. The caller holds its position still.
    pub fn extend(&self, follow: &mut Follow) {
        let known = follow.later.back().map_or(follow.window.header.number, |last| last.number);
        {
            let appender = lock(&self.appender);
            let all = appender.older.iter().chain([&appender.segment.header]);
            follow.later.extend(all.filter(|header| header.number > known).copied());
            follow.end = appender.end;
        }
        // It may hold bytes from before the blocks were written.
        follow.window.forget();
    }
}

impl Follow {
    /// The memory that it takes at least, in bytes.
    pub const LEAST_BYTES: usize = READ_BYTES as usize;

    /// Goes to the next payload that is not empty; false behind the last.
    ///
    /// # Errors
    /// [`Corruption`](base::ErrorKind::Corruption) naming the block that is not what was written.
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

    /// The payload gone to.
    pub fn payload(&self) -> &[u8] {
        let (offset, bytes) = self.payload;
        self.window.read_before(offset, bytes)
    }

    /// The position behind it: what [`Log::end`] was after its append.
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
