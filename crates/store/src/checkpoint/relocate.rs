//! Making the data file shorter: pages at its end move into gaps before, a bounded number with each checkpoint.
//!
//! A page moves in the same way as it changes: it is written to the lowest free place, and its old place is retired. So
//! the order of a checkpoint protects a move as it protects an edit, and after a crash a move is done or not begun.
//! When the old places are released, the free end of the file is cut off ([`Space::trim`](space::Space::trim)).
//!
//! * Any checkpoint moves pages if more than half of a file of over `LEAST_UNITS` is free: at most `ROUND_UNITS` units,
//!   after looking at no more than `ROUND_PARENTS` parents of leaves.
//! * A [`Compaction`] is a sequence of checkpoints. They merge the runs of each LSM table into one, drop expired
//!   entries (`crate::checkpoint::sweep`), then move more pages each and pack leaves, until nothing is gained. What
//!   remains are gaps that no page fits into, and space before values in pieces, which stay where they are.
//!
//! The place where the last relocation stopped is only in memory: after a restart the next one begins at the first
//! table.

use crate::checkpoint::Checkpoint;
use crate::checkpoint::besides::{COMPACTION_UNITS, Moves};
use crate::state::reserve::Fallback;
use crate::state::store::Store;
use base::limits::UNIT_BYTES;
use base::sync::lock;
use base::{Result, TableId, background};
use run::Relocation;
use space::SpaceStats;

/// The greatest number of passes over all tables. The first packs and moves almost everything; each later one finds
/// less.
const MAX_PASSES: u32 = 8;
/// The share of the file by which a pass must make it shorter; otherwise it is the last.
const LEAST_GAIN_SHARE: u64 = 64;

impl Checkpoint<'_> {
    /// Moves pages of one table. Returns whether another step may follow.
    pub(crate) fn relocate(&mut self) -> Result<bool> {
        let store = self.store;
        if self.moves.is_none() && self.fallback != Fallback::None {
            return Ok(false);
        }
        if self.moves.is_none() {
            self.moves = Moves::ordinary(lock(&store.space).stats());
        }
        let Some(mut work) = self.moves.as_ref().map(|moves| moves.work) else { return Ok(false) };
        if self.fallback != Fallback::None {
            work.units = work.units.min(store.reserve_room_bytes() / UNIT_BYTES as u64 / 4);
        }
        let from = store.upkeep.relocation().take().unwrap_or((TableId(0), 0, Vec::new()));
        let Some((table, layout)) = self.tables.from(from.0).next() else { return Ok(false) };
        let (at, key) = if table == from.0 { (from.1, from.2) } else { (0, Vec::new()) };
        let Some(&run) = layout.runs().get(at) else {
            *store.upkeep.relocation() = Some((TableId(table.0 + 1), 0, Vec::new()));
            return Ok(true);
        };
        let is_filter = layout.is_filter(at);
        // Leaves that are compressed with LZ4 are already as full as is useful.
        work.packs &= !is_filter && !self.compresses_leaves(table)?;
        let mut stopped = None;
        let editor = match layout.says_whose(at) {
            true => self.editor_of(run, table)?,
            false if is_filter => self.editor(run).moving_only(),
            false => self.editor(run),
        };
        let moved = self.edit_with(editor, |editor| {
            stopped = editor.relocate(&key, &mut work)?;
            Ok(())
        })?;
        let layout = layout.with_run(at, moved);
        self.set_layout(table, Some(layout));
        if let Some(moves) = &mut self.moves {
            moves.work = Relocation { packs: moves.work.packs, ..work };
        }
        let more = stopped.is_none();
        let next = stopped.map_or((table, at + 1, Vec::new()), |key| (table, at, key));
        *store.upkeep.relocation() = Some(next);
        Ok(more)
    }

    /// Returns free units to the file system: all of them, or those beyond the usual need.
    pub(crate) fn give_back(&self) -> Result<()> {
        let gives_all_back = self.moves.as_ref().is_some_and(|moves| moves.gives_all_back);
        self.store.give_back(gives_all_back)
    }
}

impl Store {
    /// Returns free units to the file system, `all` of them or those beyond the usual need, a few at a time. The caller
    /// holds the lock on the checkpoint, and no checkpoint is between its space map and its note: so no superblock that
    /// can still become valid refers to a free unit.
    pub(crate) fn give_back(&self, all: bool) -> Result<()> {
        self.renew_reserve();
        let reserve_units = self.reserve_units();
        let mut trim = {
            let mut space = lock(&self.space);
            if all {
                space.trim_all_but(reserve_units)
            } else {
                let keep_units = space.usual_need().max(reserve_units);
                space.trim(keep_units)
            }
        };
        while lock(&self.space).trim_on(&mut trim)?.is_some() {
            background::pause();
        }
        Ok(())
    }
}

/// The greatest share of the log's segments in what the data file uses.
const LOG_SHARE: u64 = 8;

impl Store {
    /// Lets the log grow with the data: a closed database keeps one segment, which should not be larger than the rest.
    pub(crate) fn limit_log(&self) {
        let used_bytes = lock(&self.space).used_units() * UNIT_BYTES as u64;
        self.log.limit_segments(used_bytes / LOG_SHARE);
    }
}

/// A process that makes a database as small as possible, checkpoint by checkpoint, while commits and reads go on.
#[derive(Debug, Default)]
pub struct Compaction {
    passes: u32,
    /// The file's length at the beginning of the pass.
    began_units: u64,
    /// The rounds that this pass may still take: a pass ends, whatever is written meanwhile.
    rounds_left: u64,
    /// The slices of LSM tables that this pass may still merge; `None`: it has not merged any.
    slices_left: Option<u64>,
    /// Whether the sweep of expired entries has begun.
    sweeps: bool,
}

impl Compaction {
    /// Creates a compaction that has not begun.
    pub fn new() -> Self {
        Compaction::default()
    }

    /// Begins the next round, a checkpoint that the caller runs to its end. Returns `None` at the end of the
    /// compaction. By then it has removed the log's files that are not needed.
    ///
    /// # Errors
    /// As [`Store::begin_checkpoint`].
    pub fn next_round<'s>(&mut self, store: &'s Store) -> Result<Option<Checkpoint<'s>>> {
        if let Some(round) = self.next_slice(store)? {
            return Ok(Some(round));
        }
        if let Some(round) = self.next_sweep(store)? {
            return Ok(Some(round));
        }
        let space = lock(&store.space).stats();
        let is_pass_over = self.rounds_left == 0 || store.upkeep.relocation().is_none();
        if is_pass_over {
            if self.is_over(space) {
                store.log.drop_spares()?;
                return Ok(None);
            }
            if self.passes == 0 {
                // The following records begin in a short segment, so that the first round frees the long ones.
                store.log.shorten()?;
            }
            self.passes += 1;
            self.began_units = space.total_units;
            self.rounds_left = 4 + 2 * space.total_units / COMPACTION_UNITS;
            *store.upkeep.relocation() = None;
        }
        self.rounds_left -= 1;
        store.begin_moving_checkpoint(Some(Moves::compacting(space, self.passes == 1))).map(Some)
    }

    /// Begins the next merge: each LSM table becomes one run before anything is moved.
    fn next_slice<'s>(&mut self, store: &'s Store) -> Result<Option<Checkpoint<'s>>> {
        let used_bytes = lock(&store.space).used_units() * UNIT_BYTES as u64;
        let left = self.slices_left.get_or_insert(8 + 2 * used_bytes / store.upkeep.slice_bytes.max(1));
        match left.checked_sub(1) {
            None => Ok(None),
            Some(fewer) => {
                *left = fewer;
                store.begin_merging(true).inspect(|round| {
                    if round.is_none() {
                        *left = 0;
                    }
                })
            }
        }
    }

    /// Begins the next sweep: expired entries are removed once, after the merges.
    fn next_sweep<'s>(&mut self, store: &'s Store) -> Result<Option<Checkpoint<'s>>> {
        if !std::mem::replace(&mut self.sweeps, true) {
            store.begin_sweeping()?;
        }
        if !store.is_sweeping() {
            return Ok(None);
        }
        let mut round = store.begin_moving_checkpoint(None)?;
        round.sweep_on();
        Ok(Some(round))
    }

    fn is_over(&self, space: SpaceStats) -> bool {
        // A pass that made the file longer, to have space to move pages through, has left the gaps to the next one.
        let gained = self.began_units.checked_sub(space.total_units);
        self.passes >= MAX_PASSES
            || (self.passes > 0 && space.free_units <= space.total_units / LEAST_GAIN_SHARE)
            || (self.passes > 1 && gained.is_some_and(|gained| gained <= self.began_units / LEAST_GAIN_SHARE))
    }

    /// Returns the number of passes over all tables, including the one in progress.
    pub fn passes(&self) -> u32 {
        self.passes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compaction_ends_when_nothing_is_gained_any_more() {
        let of = |total_units, free_units| SpaceStats { total_units, free_units, ..SpaceStats::default() };
        let after = |passes| Compaction { passes, began_units: 1000, ..Compaction::default() };
        for (passes, space, over) in [
            (0, of(1000, 0), false),
            (1, of(1000, 15), true),
            (1, of(1000, 500), false),
            (2, of(984, 500), false),
            (2, of(985, 500), true),
            (2, of(1000, 500), true),
            // The pass made space at the end to move pages through, and has left the gaps to the next one.
            (2, of(1001, 500), false),
            (MAX_PASSES - 1, of(2000, 500), false),
            (MAX_PASSES, of(2000, 500), true),
        ] {
            assert_eq!(after(passes).is_over(space), over, "after {passes} passes: {space:?}");
        }
    }
}
