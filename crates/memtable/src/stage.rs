//! Stages: memory of a memtable for commits that have not had their turn.
//!
//! A stage is a [`Bump`] over chunks of the memtable's arena, with lists of what was written there ([`crate::staged`]).
//! Threads take one from the memtable, and return it. There are twice as many as processors, and at least eight: a
//! thread that finds none applies its commit without. A stage that no thread uses keeps its chunk and short lists, but
//! no credit. When the writer is dropped, the memtable is complete, and its stages end.

use crate::arena::{Arena, Bump, MAPPED_BYTES};
use crate::hint::Hint;
use crate::record::Draft;
use base::TableId;
use base::sync::{Mutex, lock};
use std::sync::OnceLock;
use std::thread;

/// The size of the largest chunk of a stage in bytes. On average, half of it is unused. Where memory is scarce it is
/// less: all stages together have a quarter of a full memtable, of which `max_chunk_bytes` is an eighth.
const STAGE_CHUNK_BYTES: usize = 256 << 10;
const _: () = assert!(STAGE_CHUNK_BYTES >= MAPPED_BYTES, "most of a large memtable is in stages");
/// The most stages of a memtable, for each processor and at least: a thread that waits for its turn has one, too.
const STAGES_PER_PROCESSOR: usize = 2;
const LEAST_STAGES: usize = 8;
/// The greatest capacity of each list of a stage that no thread uses: 50 KB in total, which no budget knows of.
const KEPT_ENTRIES: usize = 256;

/// The stages of a memtable, on cache lines of their own: commits take the lock, and every reader loads the fields
/// beside it.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Stages {
    /// `None` once the stages were ended.
    list: Mutex<Option<List>>,
    max_chunk_bytes: usize,
}

#[derive(Debug, Default)]
struct List {
    unused: Vec<Stage>,
    /// The number of stages, including those that threads use.
    count: usize,
}

impl Stages {
    pub fn new(max_chunk_bytes: usize) -> Stages {
        Stages {
            list: Mutex::new(Some(List::default())),
            max_chunk_bytes: chunk_bytes(max_chunk_bytes, most_stages()),
        }
    }

    /// Takes a stage that no thread uses, or makes one. Returns `None` if there are as many as there may be, all in
    /// use, and once the stages were ended.
    #[inline]
    pub fn take(&self, arena: &Arena) -> Option<Stage> {
        let mut list = lock(&self.list);
        let list = list.as_mut()?;
        if let Some(unused) = list.unused.pop() {
            return Some(unused);
        }
        if list.count == most_stages() {
            return None;
        }
        list.count += 1;
        Some(Stage {
            bump: Bump::new(arena.no_credit(), self.max_chunk_bytes),
            drafts: Vec::new(),
            pieces: Vec::new(),
            hints: Vec::new(),
        })
    }

    /// Returns a stage, whose lists are empty.
    #[inline]
    pub fn put_back(&self, mut stage: Stage) {
        if let Some(credit) = stage.bump.credit().as_mut().filter(|credit| credit.bytes() > 0) {
            credit.shrink_to(0);
        }
        stage.drafts.shrink_to(KEPT_ENTRIES);
        stage.pieces.shrink_to(KEPT_ENTRIES);
        stage.hints.shrink_to(KEPT_ENTRIES);
        if let Some(list) = &mut *lock(&self.list) {
            list.unused.push(stage);
        }
    }

    /// Ends all stages: those that are in use when they are returned. Never waits: in a child that was forked while
    /// another thread had the lock, it stays locked. If a thread has it, the stages end with the memtable.
    pub fn close(&self) {
        let ended = self.list.try_lock().ok().and_then(|mut list| list.take());
        drop(ended);
    }
}

/// Returns the size of the largest chunk of each of `stages` in bytes.
fn chunk_bytes(max_chunk_bytes: usize, stages: usize) -> usize {
    (max_chunk_bytes / stages).saturating_mul(2).min(STAGE_CHUNK_BYTES)
}

/// Returns the greatest number of stages of a memtable.
pub(crate) fn most_stages() -> usize {
    // Counting processors reads files.
    static MOST: OnceLock<usize> = OnceLock::new();
    *MOST.get_or_init(|| {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        (STAGES_PER_PROCESSOR * processors).max(LEAST_STAGES)
    })
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::{Arc, mpsc};
    use std::time::Duration;

    #[test]
    fn stages_of_a_large_memtable_have_mapped_chunks_on_many_processors() {
        let eighth = (128 << 20) / 8;
        assert!(chunk_bytes(eighth, STAGES_PER_PROCESSOR * 64) >= MAPPED_BYTES);
        let (small, stages) = ((1 << 20) / 8, STAGES_PER_PROCESSOR * 64);
        assert!(chunk_bytes(small, stages) * stages <= (1 << 20) / 4, "a quarter of the memtable");
    }

    #[test]
    fn the_end_does_not_wait_for_a_lock_that_no_thread_releases() {
        let stages = Arc::new(Stages::new(1 << 20));
        let held = lock(&stages.list);
        let (done, is_done) = mpsc::channel();
        let ended = Arc::clone(&stages);
        thread::spawn(move || {
            ended.close();
            done.send(()).unwrap();
        });
        assert!(is_done.recv_timeout(Duration::from_secs(10)).is_ok());
        drop(held);
        stages.close();
        assert!(stages.take(&Arena::new(None, usize::MAX, None)).is_none());
    }
}
