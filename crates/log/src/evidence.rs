//! Deciding at a bad block between a torn tail and damage: whether the log was provably durable after it.
//!
//! A crash may lose or tear any block that was not synced, so a bad block at LSN *p* is most often just where the log
//! ends. It is damage if one of the following exists anywhere after it:
//!
//! 1. A valid block, in this segment or a later one of this generation, that was appended when the log was durable
//!    beyond *p* (its `synced` field).
//! 2. A segment of a newer generation: its recovery first made everything before its cut durable, and a cut at *p*
//!    would have led the scan there.
//!
//! After a closing block, a block of a later run may be the only one that a power loss has left. It proves nothing, and
//! it must not follow what is appended in its place: the log then continues in a new generation ([`is_continued`]).
//!
//! Blocks prove themselves without their neighbours, at any multiple of 8. Candidates are filtered by their `synced`
//! field first: it must lie between *p* and the candidate, which old bytes and payloads satisfy by chance only once in
//! 2^30 or more. Hostile bytes can satisfy it, so the bytes hashed are bounded by a multiple of the segment's length.

use crate::format::{
    ALIGN_BYTES, BLOCK_HEADER_BYTES, BlockHeader, REACH_AFTER_CLOSE_BYTES, SEGMENT_HEADER_BYTES, block_bytes,
};
use crate::survey::Survey;
use crate::window::{Found, Window};
use base::{Error, Lsn, Result};
use io::Dir;
use std::sync::Arc;

/// The largest number of times that a segment's length may be hashed in search of proofs.
const MAX_PASSES: u64 = 16;

/// Returns the proof that the log was once durable beyond `at`, the bad block in `window`, or `None` if there is none.
pub(crate) fn of_durability(
    dir: &Arc<dyn Dir>,
    survey: &Survey,
    window: &mut Window,
    at: Lsn,
) -> Result<Option<String>> {
    let here = window.header;
    let least = Lsn(at.0 + 1);
    if let Some(proof) = in_segment(window, Lsn(at.0 + ALIGN_BYTES), least, u64::MAX)? {
        return Ok(Some(proof));
    }
    for later in survey.after(here.number)? {
        if later.generation > here.generation {
            let (name, cut) = (later.name(), later.cut);
            return Ok(Some(format!(
                "{name} belongs to a newer generation, which began when the log was durable up to LSN {cut}"
            )));
        }
        if later.generation == here.generation && later.first_lsn > at {
            let mut window = Window::open(dir, later)?;
            if let Some(proof) = in_segment(&mut window, later.first_lsn, least, u64::MAX)? {
                return Ok(Some(proof));
            }
        }
    }
    Ok(None)
}

/// Returns whether the log was opened again after the closing block before `at` in `window`, and anything is left of
/// what was appended then. A segment after that of the closing block is taken for such a rest: closing removes them.
pub(crate) fn is_continued(survey: &Survey, window: &mut Window, at: Lsn) -> Result<bool> {
    let here = window.header;
    if survey.after(here.number)?.iter().any(|later| later.generation >= here.generation) {
        return Ok(true);
    }
    // A log that continues states from its first block on that it is durable up to the closing block.
    let least = Lsn(at.0 - BLOCK_HEADER_BYTES as u64);
    Ok(in_segment(window, Lsn(at.0 + ALIGN_BYTES), least, REACH_AFTER_CLOSE_BYTES)?.is_some())
}

/// Finds a block in `window`, from `start` on, that says the log was durable up to `least` or beyond. Looks at
/// `reach_bytes`.
fn in_segment(window: &mut Window, start: Lsn, least: Lsn, reach_bytes: u64) -> Result<Option<String>> {
    let header = window.header;
    let end = header.len_bytes.min(header.offset_of(start).saturating_add(reach_bytes));
    let last = end.saturating_sub(BLOCK_HEADER_BYTES as u64);
    let mut budget_bytes = header.len_bytes.saturating_mul(MAX_PASSES);
    let mut offset = header.offset_of(start);
    debug_assert!(offset >= SEGMENT_HEADER_BYTES as u64);
    while offset <= last {
        let bytes = window.bytes_at_hand(offset, BLOCK_HEADER_BYTES)?;
        let places = (bytes.len().saturating_sub(BLOCK_HEADER_BYTES) as u64 / ALIGN_BYTES) + 1;
        let Some(skipped) = BlockHeader::find_synced(bytes, header.lsn_at(offset), least) else {
            offset += places * ALIGN_BYTES;
            continue;
        };
        offset += skipped as u64 * ALIGN_BYTES;
        if offset > last {
            break;
        }
        let lsn = header.lsn_at(offset);
        offset += ALIGN_BYTES;
        let Some(block) = window.block_header(lsn)? else { continue };
        let bytes = block_bytes(block.payload_bytes as usize);
        if bytes > header.len_bytes - header.offset_of(lsn) {
            continue;
        }
        budget_bytes = budget_bytes.checked_sub(bytes).ok_or_else(|| {
            Error::corruption(format!(
                "{}: too many bytes after LSN {start} look like blocks but are none",
                header.name()
            ))
        })?;
        if let Found::Block { header: block, .. } = window.block(lsn)? {
            let (name, synced) = (header.name(), block.synced);
            return Ok(Some(format!(
                "the block at LSN {lsn} in {name} says that it was durable up to {synced}"
            )));
        }
    }
    Ok(None)
}
