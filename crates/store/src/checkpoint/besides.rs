//! The other work of a checkpoint: the pages that it moves, and the tables that it sweeps.

use base::TableId;
use run::Relocation;
use space::SpaceStats;
use std::collections::VecDeque;

/// The smallest file whose pages are moved without a request: 8 MiB.
const LEAST_UNITS: u64 = 2048;
/// The most that an ordinary checkpoint moves: 8 MiB.
const ROUND_UNITS: u64 = 2048;
/// The most parents of leaves that an ordinary checkpoint looks at.
const ROUND_PARENTS: u64 = 256;
/// The most that one round of a compaction moves: 64 MiB, so that checkpoints that writers wait for come between
/// rounds.
pub(super) const COMPACTION_UNITS: u64 = 16_384;

/// The pages that a checkpoint moves.
#[derive(Debug)]
pub(crate) struct Moves {
    pub work: Relocation,
    /// Whether all of the file's free units are returned to the file system, not only those beyond the usual need.
    pub gives_all_back: bool,
}

impl Moves {
    /// Returns what an ordinary checkpoint should move, after it knows its own need.
    pub fn ordinary(space: SpaceStats) -> Option<Moves> {
        let SpaceStats { total_units, free_units, .. } = space;
        if total_units <= LEAST_UNITS || free_units <= total_units / 2 {
            return None;
        }
        // A quarter of the free units stays below the border, for the pages that point to those that move.
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

    /// Returns the relocation of the physical catalog, which is a few pages: all of its pages above the border move.
    pub fn of_catalog(&self) -> Relocation {
        Relocation { packs: false, units: u64::MAX, parents: u64::MAX, ..self.work }
    }

    /// Returns the unit above which pages are moved.
    pub fn border_unit(&self) -> u64 {
        self.work.border_unit
    }
}

/// The tables that a checkpoint sweeps.
#[derive(Debug, Default)]
pub(crate) struct Sweeps {
    /// The tables that are due, each with the number of records to look at.
    pub due: VecDeque<(TableId, u64)>,
    /// The number of records to look at in all tables, for a compaction.
    pub compacting: u64,
}
