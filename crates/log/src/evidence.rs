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
//! Blocks prove themselves without their neighbours, at any multiple of 8. Candidates are filtered by their `synced`
//! field first: it must lie between *p* and the candidate, which old bytes and payloads satisfy by chance only once in
//! 2^30 or more. Hostile bytes can satisfy it, so the bytes hashed are bounded by a multiple of the segment's length.

use crate::format::{ALIGN_BYTES, BLOCK_HEADER_BYTES, SEGMENT_HEADER_BYTES, block_bytes};
use crate::survey::Survey;
use crate::window::{Found, Window};
use base::{Error, Lsn, Result};
use io::Dir;
use std::sync::Arc;

/// The distance within which proofs are sought in each segment after a closing block that is still followed by its
/// zeros. There are proofs only if the log was opened again and appended to, and just the first of those sectors was
/// lost; the first appended blocks are near. Reading to the ends of the segments would cost every open of a closed log
/// up to 100 ms.
pub(crate) const REACH_BEHIND_CLOSE_BYTES: u64 = 256 << 10;

/// The largest number of times that a segment's length may be hashed in search of proofs.
const MAX_PASSES: u64 = 16;

/// Returns the proof that the log was once durable beyond `at`, the bad block in `window`, or `None` if there is no
/// proof within `reach_bytes` of the places where each segment may continue.
pub(crate) fn of_durability(
    dir: &Arc<dyn Dir>,
    survey: &Survey,
    window: &mut Window,
    at: Lsn,
    reach_bytes: u64,
) -> Result<Option<String>> {
    let here = window.header;
    if let Some(proof) = in_segment(window, Lsn(at.0 + ALIGN_BYTES), at, reach_bytes)? {
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
            if let Some(proof) = in_segment(&mut window, later.first_lsn, at, reach_bytes)? {
                return Ok(Some(proof));
            }
        }
    }
    Ok(None)
}

/// Finds a block in `window`, from `start` on, that says the log was durable beyond `at`.
fn in_segment(window: &mut Window, start: Lsn, at: Lsn, reach_bytes: u64) -> Result<Option<String>> {
    let header = window.header;
    let end = header.len_bytes.min(header.offset_of(start).saturating_add(reach_bytes));
    let last = end.saturating_sub(BLOCK_HEADER_BYTES as u64);
    let mut budget_bytes = header.len_bytes.saturating_mul(MAX_PASSES);
    let mut offset = header.offset_of(start);
    debug_assert!(offset >= SEGMENT_HEADER_BYTES as u64);
    while offset <= last {
        let lsn = header.lsn_at(offset);
        offset += ALIGN_BYTES;
        let Some(block) = window.block_header(lsn)?.filter(|b| b.synced > at && b.synced <= lsn) else {
            continue;
        };
        let bytes = block_bytes(block.payload_bytes as usize);
        if bytes > header.len_bytes - header.offset_of(lsn) {
            continue;
        }
        budget_bytes = budget_bytes.checked_sub(bytes).ok_or_else(|| {
            Error::corruption(format!(
                "{}: too many bytes after LSN {at} look like blocks but are none",
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
