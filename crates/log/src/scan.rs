//! The read-only half of recovery: the valid prefix of the log from a known position on, and where it is cut.
//!
//! 1. Survey the directory. A segment of another database or of a newer format is an error, wherever its number lies.
//! 2. In each segment, from its beginning (the first: from the position), take block after block whose checksum and
//!    link are right.
//! 3. An end block leads to its successor, which must be there. So does the cut that the first segment of a newer
//!    generation declares for this one. It was declared when everything before it had been made durable, so a bad block
//!    before it is damage.
//! 4. At any other bad block the log ends, unless there is proof that it once continued (`evidence`). After a closing
//!    block it was closed in order, unless a block is left that was appended since.

use crate::evidence;
use crate::format::{BLOCK_HEADER_BYTES, BlockHeader, Kind, Position, SegmentHeader, Successor, block_bytes};
use crate::survey::Survey;
use crate::window::{Found, Window};
use base::{CheckpointNo, DatabaseId, Error, Lsn, Result};
use io::Dir;
use std::sync::Arc;

/// One appended payload, as a scan shows it.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    /// The LSN at which the block begins.
    pub lsn: Lsn,
    /// The position after the block: the value that [`Log::end`](crate::Log::end) had after its append.
    pub end: Position,
    /// The bytes that were appended.
    pub payload: &'a [u8],
}

/// The end of the log, and what [`Log::resume`](crate::Log::resume) needs to continue there.
#[derive(Debug)]
pub struct Tail {
    /// The end of the valid prefix.
    pub end: Position,
    /// The newest checkpoint that any block of the prefix names. If it is newer than that of the superblock, a newer
    /// superblock was lost, and the caller must not continue.
    pub newest_checkpoint: CheckpointNo,
    /// Whether the log was closed in order and nothing was appended since, so that resuming it writes nothing.
    pub closed: bool,
    /// The number of payloads that were visited.
    pub blocks: u64,
    /// The bytes of those payloads.
    pub payload_bytes: u64,
    /// The LSN before which the log is known to have been durable.
    pub(crate) synced: Lsn,
    /// The link of the next block.
    pub(crate) link: u64,
    /// The segments from the position on; the last one is that of `end`.
    pub(crate) chain: Vec<SegmentHeader>,
    pub(crate) survey: Survey,
}

/// How a segment's part of the prefix ends.
enum Step {
    /// The log continues in this segment.
    Next(SegmentHeader),
    /// The log ends.
    End,
}

impl crate::Log {
    /// Calls `visit` with every payload from `from` on, in order, and finds the end of the log. Writes nothing. Uses
    /// memory for one block, at least 256 KiB. Everything before `from` must have been durable, as it is before the
    /// position in a superblock.
    ///
    /// # Errors
    /// - [`Corruption`](base::ErrorKind::Corruption) if bytes that were once durable are missing or different. The
    ///   message names file and place.
    /// - [`Foreign`](base::ErrorKind::Foreign) for a segment of another database or a newer format, also if the log
    ///   does not need it: [`Log::resume`](crate::Log::resume) would otherwise have to guess what may be removed.
    /// - Any error that `visit` returns. A read error is never taken for the end of the log.
    pub fn scan(
        dir: &Arc<dyn Dir>,
        database: DatabaseId,
        from: Position,
        visit: &mut dyn FnMut(Block<'_>) -> Result<()>,
    ) -> Result<Tail> {
        let survey = Survey::read(dir, database)?;
        survey.check_own()?;
        Self::scan_surveyed(dir, survey, from, visit)
    }

    /// Calls `visit` with every payload from `from` on, as [`scan`](Self::scan) does, in a directory that may also hold
    /// segments of other databases, which the log does not need. Salvage uses this. If their numbers come after that of
    /// the segment in which the log ends, they are an error, after the last payload: one of them may have replaced the
    /// segment that followed.
    ///
    /// # Errors
    /// Those of [`scan`](Self::scan).
    pub fn scan_mixed(
        dir: &Arc<dyn Dir>,
        database: DatabaseId,
        from: Position,
        visit: &mut dyn FnMut(Block<'_>) -> Result<()>,
    ) -> Result<Tail> {
        Self::scan_surveyed(dir, Survey::read(dir, database)?, from, visit)
    }

    fn scan_surveyed(
        dir: &Arc<dyn Dir>,
        survey: Survey,
        from: Position,
        visit: &mut dyn FnMut(Block<'_>) -> Result<()>,
    ) -> Result<Tail> {
        let first = survey.named(from.segment, "the superblock")?;
        let aligned = from.lsn.0.is_multiple_of(crate::format::ALIGN_BYTES);
        let inside = first.first_lsn <= from.lsn && from.lsn <= first.limit_lsn();
        if first.generation != from.generation || !inside || !aligned {
            let name = first.name();
            return Err(Error::corruption(format!(
                "{name}: the superblock expects {from:?}, found {first:?}"
            )));
        }
        let tail = Tail {
            end: from,
            newest_checkpoint: first.checkpoint,
            closed: false,
            blocks: 0,
            payload_bytes: 0,
            synced: from.lsn,
            link: 0,
            chain: Vec::new(),
            survey,
        };
        Walk { dir, visit, tail, closing: None }.walk(first)
    }
}

struct Walk<'a> {
    dir: &'a Arc<dyn Dir>,
    visit: &'a mut dyn FnMut(Block<'_>) -> Result<()>,
    tail: Tail,
    /// The LSN after the last block, if that block closed the log in order.
    closing: Option<Lsn>,
}

impl Walk<'_> {
    fn walk(mut self, first: SegmentHeader) -> Result<Tail> {
        let mut link = (self.tail.end.lsn == first.first_lsn).then(|| first.checksum());
        let mut header = first;
        loop {
            self.tail.chain.push(header);
            self.tail.newest_checkpoint = self.tail.newest_checkpoint.max(header.checkpoint);
            match self.segment(header, link)? {
                Step::End => return Ok(self.tail),
                // Numbers grow, so this loop ends.
                Step::Next(next) if next.number > header.number && next.first_lsn >= self.tail.end.lsn => {
                    self.tail.end =
                        Position { segment: next.number, generation: next.generation, lsn: next.first_lsn };
                    link = Some(next.checksum());
                    header = next;
                }
                Step::Next(next) => {
                    let (name, found) = (header.name(), next.as_successor());
                    return Err(Error::corruption(format!(
                        "{name}: expected a later successor, found {found:?}"
                    )));
                }
            }
        }
    }

    /// Takes the blocks of one segment from the end so far on. `link` is that of the first block, if it is known.
    fn segment(&mut self, header: SegmentHeader, mut link: Option<u64>) -> Result<Step> {
        let mut window = Window::open(self.dir, header)?;
        if link.is_none() {
            link = self.close_before(&mut window)?;
        }
        let recovered = self.tail.survey.recovered_after(&header);
        let cut = recovered.map_or(Lsn(u64::MAX), |next| next.cut);
        loop {
            let lsn = self.tail.end.lsn;
            if let Some(next) = recovered.filter(|_| lsn == cut) {
                self.tail.synced = next.first_lsn;
                return Ok(Step::Next(next));
            }
            let bad = match window.block(lsn)? {
                Found::Block { header: block, checksum, payload } => {
                    match objection(&block, lsn, link, cut) {
                        None => {
                            link = Some(checksum);
                            if let Some(successor) = self.take(&header, &block, payload)? {
                                return self.tail.survey.successor(successor, &header.name()).map(Step::Next);
                            }
                            continue;
                        }
                        Some(bad) => bad,
                    }
                }
                Found::Bad(bad) => bad,
            };
            self.tail.link = link.unwrap_or(0);
            return self.ends_with(&mut window, recovered, &bad).map(|()| Step::End);
        }
    }

    /// Returns the checksum of the closing block right before the position, if there is one: that is a closed end, too.
    fn close_before(&mut self, window: &mut Window) -> Result<Option<u64>> {
        let end = self.tail.end.lsn;
        let lsn = Lsn(end.0.saturating_sub(BLOCK_HEADER_BYTES as u64));
        if lsn < window.header.first_lsn {
            return Ok(None);
        }
        match window.block(lsn)? {
            Found::Block { header, checksum, .. } if header.kind == Kind::Close && header.synced == lsn => {
                self.closing = Some(end);
                Ok(Some(checksum))
            }
            _ => Ok(None),
        }
    }

    /// Takes one valid block. Returns the successor that an end block names.
    fn take(
        &mut self,
        segment: &SegmentHeader,
        block: &BlockHeader,
        payload: &[u8],
    ) -> Result<Option<Successor>> {
        let lsn = self.tail.end.lsn;
        let named = segment.widen_checkpoint(block.checkpoint_low);
        self.tail.newest_checkpoint = self.tail.newest_checkpoint.max(named);
        self.tail.synced = self.tail.synced.max(block.synced);
        self.tail.end.lsn = Lsn(lsn.0 + block_bytes(payload.len()));
        self.closing = (block.kind == Kind::Close && block.synced == lsn).then_some(self.tail.end.lsn);
        match block.kind {
            Kind::Data => {
                self.tail.blocks += 1;
                self.tail.payload_bytes += payload.len() as u64;
                (self.visit)(Block { lsn, end: self.tail.end, payload })?;
                Ok(None)
            }
            Kind::End => Ok(Successor::decode(payload)),
            Kind::Close => Ok(None),
        }
    }

    /// Ends the prefix at the bad block in `window`, after checking that there is no proof of the contrary.
    fn ends_with(&mut self, window: &mut Window, recovered: Option<SegmentHeader>, bad: &str) -> Result<()> {
        let at = self.tail.end.lsn;
        let place = format!("{} at offset {}: {bad}", window.header.name(), window.header.offset_of(at));
        if let Some(next) = recovered {
            let (name, cut) = (next.name(), next.cut);
            return Err(Error::corruption(format!(
                "{place}; but {name} states that the log was durable up to LSN {cut}"
            )));
        }
        let (dir, survey) = (self.dir, &self.tail.survey);
        let ends_closed = self.closing == Some(at) && window.is_blank(at)?;
        self.tail.closed = ends_closed && !evidence::is_continued(survey, window, at)?;
        if self.tail.closed {
            return Ok(());
        }
        match evidence::of_durability(dir, survey, window, at)? {
            Some(proof) => Err(Error::corruption(format!("{place}; but {proof}"))),
            None => Ok(()),
        }
    }
}

/// Returns why a block with a right checksum does not belong here.
fn objection(block: &BlockHeader, lsn: Lsn, link: Option<u64>, cut: Lsn) -> Option<String> {
    if let Some(expected) = link.filter(|&expected| expected != block.link) {
        return Some(format!("expected link {expected:016x}, found {:016x}", block.link));
    }
    let end = Lsn(lsn.0 + block_bytes(block.payload_bytes as usize));
    if block.synced > lsn || end > cut {
        return Some(format!("expected a block before {cut}, found one that ends at {end}"));
    }
    None
}

/// Returns the bytes of the closing block with which a log in `window` ends at `end`.
pub(crate) fn closing_bytes(window: &mut Window, end: Lsn) -> Result<[u8; BLOCK_HEADER_BYTES]> {
    let offset = window.header.offset_of(end) - BLOCK_HEADER_BYTES as u64;
    let bytes = window.bytes(offset, BLOCK_HEADER_BYTES)?.expect("the scan has read it");
    Ok(bytes.try_into().expect("as many as asked for"))
}
