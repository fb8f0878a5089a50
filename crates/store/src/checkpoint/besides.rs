//! What a checkpoint does besides absorbing: what it moves, and what it sweeps.

use base::TableId;
use run::Relocation;
use space::SpaceStats;
use std::collections::VecDeque;

/// A file of 8 MiB or less is not worth moving pages, unless somebody asks.
const LEAST_UNITS: u64 = 2048;
/// What an ordinary checkpoint moves at most: 8 MiB.
const ROUND_UNITS: u64 = 2048;
/// Parents of leaves that an ordinary checkpoint looks at, at most.
const ROUND_PARENTS: u64 = 256;
/// What one round of a compaction moves at most: 64 MiB, so that checkpoints that writers wait for come between.
pub(super) const COMPACTION_UNITS: u64 = 16_384;

/// What a checkpoint moves besides what it absorbs.
#[derive(Debug)]
pub(crate) struct Moves {
    pub work: Relocation,
    /// All of the file's free units are given back, not only those beyond the usual need.
    pub gives_all_back: bool,
}

impl Moves {
    /// What an ordinary checkpoint should move, now that it knows what it needs itself.
    pub fn ordinary(space: SpaceStats) -> Option<Moves> {
        let SpaceStats { total_units, free_units, .. } = space;
        if total_units <= LEAST_UNITS || free_units <= total_units / 2 {
            return None;
        }
        // A quarter of what is free stays before the border, for the pages that point to those that move.
        let border_unit = total_units - free_units + free_units / 4;
        let work = Relocation { border_unit, packs: false, units: ROUND_UNITS, parents: ROUND_PARENTS };
        Some(Moves { work, gives_all_back: false })
    }

    pub fn compacting(space: SpaceStats, packs: bool) -> Moves {
        let SpaceStats { total_units, free_units, .. } = space;
        let border_unit = total_units - free_units + free_units / 16;
        let work = Relocation { border_unit, packs, units: COMPACTION_UNITS, parents: u64::MAX };
        Moves { work, gives_all_back: true }
    }

    /// What is moved of the physical catalog, which is a few pages: all that lies high.
    pub fn of_catalog(&self) -> Relocation {
        Relocation { packs: false, units: u64::MAX, parents: u64::MAX, ..self.work }
    }

    /// Where what is to be moved begins.
    pub fn border_unit(&self) -> u64 {
        self.work.border_unit
    }
}

/// What a checkpoint sweeps.
#[derive(Debug, Default)]
pub(crate) struct Sweeps {
    /// Tables, each with how many of its records are to be looked at.
    pub due: VecDeque<(TableId, u64)>,
    /// How many are to be looked at of all tables, for a compaction.
    pub compacting: u64,
}
