//! Firm units: free units for which the file system is known to keep a block, so that writing them cannot fail on a
//! full disk.
//!
//! A unit is *firm* once it was written or allocated since the file was opened, and until it is returned to the file
//! system. Other free units may be holes of the file, or lie after its end.
//!
//! 1. [`Space::firm_up`] makes enough free units firm, by asking the file system: first those within the map, lowest
//!    first, then those after its end. Asking for units that already have their blocks succeeds on a full disk, too.
//! 2. While [`Space::set_firm_only`] is on, only firm units are handed out. A checkpoint that met a full disk is
//!    repeated in this mode, so that it can write what it allocates.
//! 3. [`Space::keep_firm`] sets how many must be left. Allocations for the log ([`Space::allocate_logged`]) leave that
//!    many or fail with [`Full`](ErrorKind::Full), so that large values and spilled writes do not take the space that
//!    the next checkpoint needs.
//!
//! Units are counted in whole pages: the rest of a run of free units does not count.

use crate::chunk::{CHUNK_UNITS, Chunk, PageCount};
use crate::map::{MAX_UNITS, Space};
use crate::root::Extent;
use base::limits::UNIT_BYTES;
use base::{Error, ErrorKind, Result};

/// The largest number of requests to the file system in one call of [`Space::firm_up`].
const MOST_ASKED: u32 = 2048;
/// After this many refusals within the map, the rest of it is treated as holes.
const MOST_REFUSED: u32 = 64;
/// The number of times that a refused piece is halved, because a part of it may have its blocks.
const MOST_HALVED: u32 = 8;

/// The result of [`Space::firm_up`].
#[derive(Debug)]
pub struct Firm {
    /// The number of free firm units, in whole pages.
    pub units: u64,
    /// Whether the file system can allocate space.
    pub is_supported: bool,
    /// The last error of the file system, if it refused space.
    pub refused: Option<Error>,
}

/// How many units must be left, and what is known of the firm units.
#[derive(Debug, Default)]
pub(crate) struct Reserve {
    units: u64,
    page_units: u64,
    /// The number of additional units that may at least be handed out before the firm units must be counted again.
    slack: u64,
    /// Whether only firm units are handed out.
    pub only: bool,
}

/// The free firm units at the beginning of a piece of a trim, and how many of them must be left.
#[derive(Debug)]
pub(crate) struct FirmRuns {
    /// In order.
    runs: Vec<Extent>,
    /// The firm units that are left, in whole pages.
    units: u64,
    kept_units: u64,
    page_units: u64,
}

impl FirmRuns {
    /// Returns whether `extent` may be returned to the file system, as [`Space::can_spare`] does, and counts it as
    /// returned. No run may be asked for twice. O(log runs).
    pub(crate) fn spare(&mut self, extent: Extent) -> bool {
        let first = self.runs.partition_point(|run| run.end() <= extent.unit);
        let within = self.runs[first..].iter().take_while(|run| run.unit < extent.end());
        let loss: u64 = within
            .map(|run| {
                let before = extent.unit.saturating_sub(run.unit);
                let after = run.end().saturating_sub(extent.end());
                let left = whole_pages(before, self.page_units) + whole_pages(after, self.page_units);
                whole_pages(run.units, self.page_units) - left
            })
            .sum();
        // Units that are not known to be firm do not count.
        let can = loss == 0 || self.units >= self.kept_units + loss;
        self.units -= if can { loss } else { 0 };
        can
    }
}

/// Returns how many of `units` adjacent units are in whole pages.
fn whole_pages(units: u64, page_units: u64) -> u64 {
    units / page_units.max(1) * page_units.max(1)
}

impl Space {
    /// Makes at least `want_units` free units firm, in whole pages of `page_units`, if the file system has the space.
    /// Returns how many there are then. O(units / 64), plus the system calls.
    ///
    /// # Errors
    /// The errors of the file, except for [`Full`](ErrorKind::Full), which is in the result.
    pub fn firm_up(&mut self, want_units: u64, page_units: u64) -> Result<Firm> {
        let mut firm = Firm { units: self.firm_units(page_units), is_supported: true, refused: None };
        let mut asked = 0;
        if firm.units < want_units {
            self.firm_up_within(want_units, page_units, &mut firm, &mut asked)?;
        }
        if firm.units < want_units && firm.is_supported {
            self.firm_up_behind(want_units, page_units, &mut firm, &mut asked)?;
        }
        if asked > 0 {
            // Neighbouring runs may have been joined.
            firm.units = self.firm_units(page_units);
        }
        Ok(firm)
    }

    /// Returns the number of free firm units, in whole pages of `page_units`. O(units / 64).
    pub fn firm_units(&self, page_units: u64) -> u64 {
        let mut count = PageCount::new(page_units);
        let chunks = self.chunks.iter().enumerate();
        chunks.for_each(|(index, chunk)| chunk.count_firm(self.units_of(index), &mut count));
        count.finish()
    }

    /// Sets how many free firm units an allocation for the log must leave, in whole pages of `page_units`. With 0 it
    /// may take all.
    pub fn keep_firm(&mut self, units: u64, page_units: u64) {
        self.kept = Reserve { units, page_units, slack: 0, only: self.kept.only };
    }

    /// Returns `units` free firm units, or all if there are fewer, to the file system, the highest first.
    ///
    /// # Errors
    /// The errors of the file.
    pub fn give_up_firm(&mut self, units: u64) -> Result<()> {
        let mut left = units;
        let runs: Vec<Extent> = self.firm_runs(self.all()).collect();
        for run in runs.into_iter().rev() {
            let take = run.units.min(left);
            let extent = Extent { unit: run.end() - take, units: take };
            self.file.discard(extent.unit * UNIT_BYTES as u64, take * UNIT_BYTES as u64)?;
            self.note_holes(extent);
            self.kept.slack = 0;
            left -= take;
            if left == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Sets whether only firm units are handed out.
    pub fn set_firm_only(&mut self, only: bool) {
        self.kept.only = only;
    }

    /// Returns whether only firm units are handed out.
    pub fn is_firm_only(&self) -> bool {
        self.kept.only
    }

    /// Returns how many firm units must be left.
    pub fn kept_units(&self) -> u64 {
        self.kept.units
    }

    /// Returns whether `extent` may be returned to the file system: enough firm units are left.
    pub(crate) fn can_spare(&mut self, extent: Extent) -> bool {
        // Units that are not known to be firm do not count.
        if self.kept.units == 0 || self.firm_runs(extent).next().is_none() {
            return true;
        }
        self.kept.slack = 0;
        let page_units = self.kept.page_units;
        let before = Extent { unit: 0, units: extent.unit };
        let after = Extent { unit: extent.end(), units: self.units - extent.end() };
        let runs = self.firm_runs(before).chain(self.firm_runs(after));
        runs.map(|run| whole_pages(run.units, page_units)).sum::<u64>() >= self.kept.units
    }

    /// Returns the free firm units, for [`FirmRuns::spare`]: many questions, but one look at the map. O(units / 64).
    pub(crate) fn all_firm_runs(&mut self) -> FirmRuns {
        self.kept.slack = 0;
        let Reserve { units: kept_units, page_units, .. } = self.kept;
        // If nothing is kept, nothing is asked.
        let runs: Vec<Extent> = match kept_units {
            0 => Vec::new(),
            _ => self.firm_runs(self.all()).collect(),
        };
        let units = runs.iter().map(|run| whole_pages(run.units, page_units)).sum();
        FirmRuns { runs, units, kept_units, page_units }
    }

    /// Makes the required number of units before `end` firm, if the file system has the space. The units after `end`
    /// are to be cut off.
    pub(crate) fn keep_before(&mut self, end: u64) -> Result<()> {
        let after = Extent { unit: end, units: self.units - end };
        if self.can_spare(after) {
            return Ok(());
        }
        let known: Vec<Extent> = self.firm_runs(after).collect();
        self.each_chunk_untouched(after, |chunk, from, to| chunk.firm.fill(from, to, false));
        let Reserve { units, page_units, .. } = self.kept;
        let asked = self.firm_up(units, page_units);
        // These units have their blocks until they are cut off.
        known.into_iter().for_each(|run| self.note_firm(run));
        asked.map(drop)
    }

    /// Returns the end of the lowest firm units that suffice. The units after that are to be cut off.
    pub(crate) fn end_of_kept(&mut self) -> u64 {
        self.kept.slack = 0;
        let Reserve { units: mut missing, page_units, .. } = self.kept;
        let mut end = 0;
        for run in self.firm_runs(self.all()) {
            let needed = missing.next_multiple_of(page_units.max(1));
            if needed <= run.units {
                return if needed == 0 { end } else { run.unit + needed };
            }
            missing = missing.saturating_sub(run.units / page_units * page_units);
            end = run.end();
        }
        end
    }

    /// Returns the runs of free firm units within `extent`, in order. O(units / 64).
    fn firm_runs(&self, extent: Extent) -> impl Iterator<Item = Extent> {
        let mut at = extent.unit;
        std::iter::from_fn(move || {
            let begin = self.next_in_chunks(at, extent.end(), Chunk::next_firm);
            at = self.next_in_chunks(begin, extent.end(), Chunk::next_not_firm);
            (begin < at).then(|| Extent { unit: begin, units: at - begin })
        })
    }

    /// Returns the first unit in `from..to` that `next` finds in its chunk, or `to`.
    pub(crate) fn next_in_chunks(&self, from: u64, to: u64, next: impl Fn(&Chunk, u64, u64) -> u64) -> u64 {
        let mut at = from;
        while at < to {
            let base = at / CHUNK_UNITS * CHUNK_UNITS;
            let end = CHUNK_UNITS.min(to - base);
            let found = next(&self.chunks[(base / CHUNK_UNITS) as usize], at - base, end);
            if found < end {
                return base + found;
            }
            at = base + end;
        }
        to
    }

    fn all(&self) -> Extent {
        Extent { unit: 0, units: self.units }
    }

    /// Rejects `extent`, which was handed out, if it has no disk space or does not leave enough firm units.
    pub(crate) fn check_kept(&mut self, extent: Extent) -> Result<()> {
        let units = extent.units;
        if !self.is_firm(extent) {
            let mut firm = Firm { units: 0, is_supported: true, refused: None };
            if !self.ask(extent, &mut firm)?
                && let Some(refused) = firm.refused
            {
                return Err(refused);
            }
        }
        if self.kept.units == 0 || self.kept.slack >= units {
            self.kept.slack = self.kept.slack.saturating_sub(units);
            return Ok(());
        }
        let Reserve { units: kept, page_units, .. } = self.kept;
        let mut firm = self.firm_units(page_units);
        if firm < kept {
            let made = self.firm_up(kept, page_units)?;
            if made.units < kept && made.is_supported {
                let what = "the remaining room is reserved for checkpoints and deletes; delete records, \
                            drop a table, or free space on the disk";
                let error = Error::new(ErrorKind::Full, what);
                return Err(match made.refused {
                    Some(refused) => error.caused_by(refused),
                    None => error,
                });
            }
            firm = made.units;
        }
        self.kept.slack = firm.saturating_sub(kept);
        Ok(())
    }

    fn firm_up_within(
        &mut self,
        want_units: u64,
        page_units: u64,
        firm: &mut Firm,
        asked: &mut u32,
    ) -> Result<()> {
        let mut refusals = 0;
        for index in 0..self.chunks.len() {
            let (base, len) = (index as u64 * CHUNK_UNITS, self.units_of(index));
            let mut at = 0;
            while let Some((from, to)) = self.chunks[index].next_doubtful_run(at, len) {
                at = to;
                let (mut from, mut piece, mut halved) = (from, to - from, 0);
                while from + page_units <= to && firm.units < want_units {
                    let missing = (want_units - firm.units).next_multiple_of(page_units);
                    piece = piece.min(to - from).min(missing).max(page_units);
                    if *asked >= MOST_ASKED || refusals >= MOST_REFUSED {
                        return Ok(());
                    }
                    *asked += 1;
                    let extent = Extent { unit: base + from, units: piece };
                    if self.ask(extent, firm)? {
                        firm.units += piece / page_units * page_units;
                        from += piece;
                    } else if !firm.is_supported {
                        return Ok(());
                    } else if piece > page_units && halved < MOST_HALVED {
                        (piece, halved) = (piece / 2, halved + 1);
                    } else {
                        refusals += 1;
                        break;
                    }
                }
                if firm.units >= want_units {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn firm_up_behind(
        &mut self,
        want_units: u64,
        page_units: u64,
        firm: &mut Firm,
        asked: &mut u32,
    ) -> Result<()> {
        let mut piece = u64::MAX;
        while firm.units < want_units {
            let missing = (want_units - firm.units).next_multiple_of(page_units);
            piece = piece.min(missing).min(MAX_UNITS - self.units);
            if piece < page_units || *asked >= MOST_ASKED {
                return Ok(());
            }
            *asked += 1;
            let extent = Extent { unit: self.units, units: piece };
            if self.ask(extent, firm)? {
                firm.units += piece;
            } else if !firm.is_supported {
                return Ok(());
            } else {
                piece = piece / 2 / page_units * page_units;
            }
        }
        Ok(())
    }

    /// Asks the file system for the space of `extent`, which is free or begins at the map's end.
    fn ask(&mut self, extent: Extent, firm: &mut Firm) -> Result<bool> {
        let unit_bytes = UNIT_BYTES as u64;
        match self.file.allocate_at(extent.unit * unit_bytes, extent.units * unit_bytes) {
            Ok(true) => {
                if extent.end() > self.units {
                    self.cover(extent.end());
                }
                self.note_firm(extent);
                Ok(true)
            }
            Ok(false) => {
                firm.is_supported = false;
                Ok(false)
            }
            Err(error) if error.kind() == ErrorKind::Full => {
                firm.refused = Some(error);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the start of `units` free units at the end of the map, after allocating their space.
    pub(crate) fn grow_firmly(&mut self, units: u64) -> Result<u64> {
        let first = self.tail();
        let extent = Extent { unit: first, units };
        if extent.end() > MAX_UNITS {
            return Err(Error::new(ErrorKind::Full, "the data file has reached its largest possible size"));
        }
        let mut firm = Firm { units: 0, is_supported: true, refused: None };
        if self.ask(extent, &mut firm)? {
            return Ok(first);
        }
        let full = || Error::new(ErrorKind::Full, "the file system cannot reserve room for the data file");
        Err(firm.refused.unwrap_or_else(full))
    }

    fn is_firm(&mut self, extent: Extent) -> bool {
        let mut is_firm = true;
        self.each_chunk_untouched(extent, |chunk, from, to| {
            is_firm &= chunk.firm.count(from, to) == to - from;
        });
        is_firm
    }

    /// Records that each of these units has its block.
    pub(crate) fn note_firm(&mut self, extent: Extent) {
        self.each_chunk_untouched(extent, |chunk: &mut Chunk, from, to| {
            chunk.firm.fill(from, to, true);
            chunk.holes.fill(from, to, false);
        });
    }
}
