//! Stages: memory of a memtable for commits that have not had their turn.
//!
//! A stage is a [`Bump`] over chunks of the memtable's arena, with lists of what was written there ([`crate::staged`]).
//! Threads take one from the memtable, and return it. When the writer is dropped, the memtable is complete: there are
//! no stages any longer, and their credit goes back.

use crate::arena::{Arena, Bump};
use crate::hint::Hint;
use crate::record::Draft;
use base::TableId;
use base::sync::{Mutex, lock};

/// The size of the largest chunk of a stage in bytes. Each thread that commits has one, of which half is unused.
const STAGE_CHUNK_BYTES: usize = 256 << 10;
/// The stages of a memtable that no thread uses; `None` once it has no writer.
#[derive(Debug)]
pub(crate) struct Stages {
    unused: Mutex<Option<Vec<Stage>>>,
    max_chunk_bytes: usize,
}

impl Stages {
    pub fn new(max_chunk_bytes: usize) -> Stages {
        Stages {
            unused: Mutex::new(Some(Vec::new())),
            max_chunk_bytes: max_chunk_bytes.min(STAGE_CHUNK_BYTES),
        }
    }

    /// Takes a stage that no thread uses, or makes one. Returns `None` once the stages were ended.
    #[inline]
    pub fn take(&self, arena: &Arena) -> Option<Stage> {
        let unused = lock(&self.unused).as_mut()?.pop();
        Some(unused.unwrap_or_else(|| Stage {
            bump: Bump::touching(arena.no_credit(), self.max_chunk_bytes),
            drafts: Vec::new(),
            pieces: Vec::new(),
            hints: Vec::new(),
        }))
    }

    /// Returns a stage, whose lists are empty.
    #[inline]
    pub fn put_back(&self, stage: Stage) {
        if let Some(unused) = &mut *lock(&self.unused) {
            unused.push(stage);
        }
    }

    /// Ends all stages: those that are in use when they are returned.
    pub fn close(&self) {
        let unused = lock(&self.unused).take();
        drop(unused);
    }
}

/// The memory and the lists of one thread that stages changes.
#[derive(Debug)]
pub(crate) struct Stage {
    pub bump: Bump,
    pub drafts: Vec<Draft<'static>>,
    pub pieces: Vec<Piece>,
    pub hints: Vec<Hint<'static>>,
}

impl Stage {
    /// Empties the lists.
    pub fn clear(&mut self) {
        self.drafts.clear();
        self.pieces.clear();
        self.hints.clear();
    }
}

/// Adjacent drafts of one table, with strictly ascending keys.
#[derive(Debug)]
pub(crate) struct Piece {
    pub table: TableId,
    /// The number of drafts up to its end, and of hints.
    pub end: usize,
    pub hints_end: usize,
    pub has_large: bool,
}
