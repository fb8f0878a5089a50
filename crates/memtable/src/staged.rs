//! Staged commits: a commit writes its records into the memtable's memory before it has its turn.
//!
//! Commits are applied one after the other, and each waits for those before it. So most of the work is done before:
//!
//! 1. *Stage*, on any thread, beside others that do the same and beside the writer: every key and value is copied into
//!    memory that belongs to the thread's stage alone, as a [`Draft`]. No reader can find it there.
//! 2. *Search*: a [`Hint`] for each key whose leaf is not that of the key before.
//! 3. *Link* ([`Writer::link`]), by the one writer, in the order of commits: each draft gets its timestamp and its
//!    place in the tree. This copies no key, and usually takes no memory that was never written to, because nodes come
//!    from the stage, too.
//!
//! What was staged and not linked is freed with its chunks: the memtable is as large as before, and as empty.

use crate::arena::Mark;
use crate::hint::Hint;
use crate::insert::Tree;
use crate::link::{Finger, search_ahead};
use crate::memtable::Memtable;
use crate::record::Draft;
use crate::stage::{Piece, Stage, most_stages};
use crate::writer::{Writer, cost};
use base::sync::Arc;
use base::{CommitTs, TableId, Value};
use std::mem;

/// The usual memory of an operation in addition to its key and value: a record's header, alignment, a share of nodes.
const USUAL_COST: usize = 96;
/// The usual memory for the path to a commit's first key, once for each commit.
const USUAL_PATH_COST: usize = 1 << 10;

/// The most hints of a commit: they take 136 bytes each, which no budget knows of.
const MOST_HINTS: usize = 1024;

const _: () = {
    const fn assert_send<T: Send>() {}
    assert_send::<Staged>();
};

/// The puts and deletes of one commit, in a memtable's memory, where no reader sees them until [`Writer::link`].
/// Dropped before, they have no effect.
///
/// ```
/// # use base::{CommitTs, TableId, Value};
/// # use pando_memtable::{Memtable, Staged};
/// let (memtable, mut writer) = Memtable::new();
/// let mut staged = Staged::begin(&memtable, 2, 1, 32 << 20).expect("there is a writer, and no budget");
/// staged.push(TableId(16), b"a", Value::Inline(b"1"));
/// assert_eq!(memtable.get(TableId(16), b"a", CommitTs::MAX), None);
/// writer.link(&mut staged, CommitTs(1));
/// assert_eq!(memtable.get(TableId(16), b"a", CommitTs::MAX), Some(Value::Inline(b"1")));
/// ```
#[derive(Debug)]
pub struct Staged {
    /// Some until it is dropped.
    stage: Option<Stage>,
    begin: Mark,
    is_linked: bool,
    memtable: Arc<Memtable>,
}

// SAFETY: `begin` points into the chunk of the stage, which may move between threads.
unsafe impl Send for Staged {}

impl Staged {
    /// Begins to stage, in `memtable`, the changes of a commit of `operations` puts and deletes, whose keys and values
    /// have `payload` bytes in total, and charges their memory; page pools give some up if necessary, so the caller has
    /// no lock of theirs. Returns `None` if that is more than [`Staged::most_bytes`] allows in a memtable that is
    /// complete with `full_bytes`, if the budget refuses, if as many commits are staged as may be, and usually once
    /// the memtable has no writer.
    pub fn begin(
        memtable: &Arc<Memtable>,
        payload: usize,
        operations: u64,
        full_bytes: usize,
    ) -> Option<Staged> {
        let needed = cost(payload, operations);
        if needed > Staged::most_bytes(full_bytes) {
            return None;
        }
        let mut stage = memtable.stages.take(&memtable.arena)?;
        let begin = stage.bump.mark();
        let is_paid = stage.bump.reserve_exactly(needed);
        if is_paid {
            let usual = payload + USUAL_COST * operations as usize + USUAL_PATH_COST;
            stage.bump.prepare(&memtable.arena, usual);
        }
        let staged = Staged { stage: Some(stage), begin, is_linked: false, memtable: Arc::clone(memtable) };
        is_paid.then_some(staged)
    }

    /// Returns the most memory that a staged commit takes in a memtable that is complete with `full_bytes`: together,
    /// the commits that wait for their turn take a quarter of that.
    #[must_use]
    pub fn most_bytes(full_bytes: usize) -> usize {
        full_bytes / 4 / most_stages()
    }

    /// Returns whether these changes are staged, in this order. They must not be linked yet. O(changes).
    pub fn is_of<'a>(&self, changes: impl Iterator<Item = (TableId, &'a [u8], Value<'a>)>) -> bool {
        let Stage { drafts, pieces, .. } = self.stage.as_ref().expect("not dropped");
        let mut begin = 0;
        let staged = pieces.iter().flat_map(|piece| {
            let of_piece = &drafts[mem::replace(&mut begin, piece.end)..piece.end];
            of_piece.iter().map(|draft| (piece.table, draft.key(), draft.value()))
        });
        staged.eq(changes)
    }

    /// Adds a change of `key` in `table`.
    #[inline]
    pub fn push(&mut self, table: TableId, key: &[u8], value: Value<'_>) {
        let Stage { bump, drafts, pieces, .. } = self.stage.as_mut().expect("not dropped");
        let is_large = matches!(value, Value::Large(..));
        let draft = Draft::write(bump, &self.memtable.arena, key, value);
        match pieces.last_mut() {
            Some(piece) if piece.table == table && drafts[drafts.len() - 1].key() < key => {
                piece.end += 1;
                piece.has_large |= is_large;
            }
            _ => pieces.push(Piece { table, end: drafts.len() + 1, hints_end: 0, has_large: is_large }),
        }
        // SAFETY: the draft leaves the list when `self` is dropped, which keeps the memtable until then. `link` uses it
        // in this memtable.
        drafts.push(unsafe { draft.detach() });
    }

    /// Searches for the places of the changes, so that [`Writer::link`] finds them soon, and in the processor's cache.
    /// It keeps the hints for about a thousand keys; the writer searches for the others.
    pub fn search(&mut self) {
        let Stage { drafts, pieces, hints, .. } = self.stage.as_mut().expect("not dropped");
        let mut begin = 0;
        for piece in pieces {
            let table = self.memtable.directory.find(piece.table);
            if let Some(root) = table.and_then(|table| table.root.load()) {
                let most = MOST_HINTS - hints.len();
                search_ahead(root, &drafts[begin..piece.end], most, |hint| {
                    // SAFETY: the lifetime is that of the memtable. The hint leaves the list when `self` is dropped,
                    // which keeps the memtable until then.
                    hints.push(unsafe { mem::transmute::<Hint<'_>, Hint<'static>>(hint) });
                });
            }
            (begin, piece.hints_end) = (piece.end, hints.len());
        }
    }

    /// Returns whether the changes are in the memory of `memtable`.
    #[inline]
    pub fn is_in(&self, memtable: &Arc<Memtable>) -> bool {
        Arc::ptr_eq(&self.memtable, memtable)
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        let Some(mut stage) = self.stage.take() else { return };
        stage.clear();
        if !self.is_linked {
            // SAFETY: `begin` marked the stage, and only `link` keeps what came after. No other thread knows of that,
            // and the stage's lists have just lost it.
            unsafe { stage.bump.rewind(&self.memtable.arena, self.begin) };
        }
        self.memtable.stages.put_back(stage);
    }
}

impl Writer {
    /// Applies what was staged as commit `ts`: like [`Writer::apply`] for each change, in the order of the changes.
    /// Drop `staged` when other threads do not wait: this returns its stage.
    ///
    /// # Panics
    /// If it was staged in another memtable, or linked before.
    pub fn link(&mut self, staged: &mut Staged, ts: CommitTs) {
        assert!(staged.is_in(&self.memtable), "changes are linked in the memtable that has them");
        assert!(!staged.is_linked, "changes are linked once");
        // From the first draft on, readers may find what is in the stage's memory.
        staged.is_linked = true;
        let Stage { bump, drafts, pieces, hints } = staged.stage.as_mut().expect("not dropped");
        let unlinked = bump.keep(staged.begin);
        let (arena, mut begin, mut hints_begin) = (&self.memtable.arena, 0, 0);
        for piece in pieces.iter() {
            let table = self.memtable.directory.find_or_add(arena, bump, piece.table);
            table.stamp(ts);
            if piece.has_large {
                table.note_large();
            }
            let drafts = &drafts[begin..piece.end];
            let hints = hints.get(hints_begin..piece.hints_end).unwrap_or_default();
            let mut tree = Tree { arena, bump: &mut *bump, root: &table.root };
            match table.root.load() {
                None => tree.build_of_drafts(ts, drafts),
                Some(root) => tree.link(&mut Finger::new(root), ts, drafts, hints),
            }
            table.count(drafts.len() as u64);
            (begin, hints_begin) = (piece.end, piece.hints_end);
        }
        bump.note_linked(arena, unlinked);
        self.count(begin as u64);
    }
}
