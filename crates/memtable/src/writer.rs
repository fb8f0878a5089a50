//! The writer of a memtable.

use crate::arena::{Arena, Bump};
use crate::cursor::Cursor;
use crate::idle::IdleChunks;
use crate::insert::{Change, Tree};
use crate::memtable::Memtable;
use crate::ranges::Span;
use crate::stage::Stages;
use crate::table::{Directory, Table};
use base::budget::Charge;
use base::op::Op;
use base::sync::Arc;
use base::sync::atomic::{AtomicU64, Ordering};
use base::{CommitTs, Large, TableId, Value};
use std::sync;

/// The right to write to a memtable, of which each memtable has one. Commits are applied in the order of their
/// timestamps: no call may have an older timestamp than an earlier call for the same table.
#[derive(Debug)]
pub struct Writer {
    pub(crate) memtable: Arc<Memtable>,
    pub(crate) bump: Bump,
}

/// The cost of a record in addition to its key and value: its header, alignment, and its share of nodes, including
/// those that splits replace.
const RECORD_COST: usize = 160;
/// The cost of splits up to the root, once a commit.
const PATH_COST: usize = 6 << 10;

/// Returns how many bytes `operations` with keys and values of `payload` bytes in total take at most.
pub(crate) fn cost(payload: usize, operations: u64) -> usize {
    payload + RECORD_COST * operations as usize + PATH_COST
}

const _: () = {
    const fn assert_send<T: Send>() {}
    assert_send::<Writer>();
    assert_send::<Arc<Memtable>>();
    assert_send::<Cursor<'static>>();
};

impl Memtable {
    /// Creates an empty memtable, which owns no memory yet, and its writer.
    pub fn new() -> (Arc<Memtable>, Writer) {
        Self::with(None, usize::MAX, None)
    }

    /// Creates an empty memtable whose memory is charged to `credit`'s account, and first to `credit` itself, which the
    /// writer takes over. It grows by at most `max_chunk_bytes` at a time, an eighth of what it will have when it is
    /// full, and by at most 1 MiB.
    pub fn charged(credit: Charge, max_chunk_bytes: usize) -> (Arc<Memtable>, Writer) {
        Self::with(Some(credit), max_chunk_bytes, None)
    }

    /// Creates an empty memtable that takes the `idle` chunks of earlier memtables first, and leaves its own there. Its
    /// memory is charged as in [`Memtable::charged`]; the idle chunks have the account of `credit`.
    pub fn reusing(
        credit: Charge,
        max_chunk_bytes: usize,
        idle: &sync::Arc<IdleChunks>,
    ) -> (Arc<Memtable>, Writer) {
        Self::with(Some(credit), max_chunk_bytes, Some(idle))
    }

    fn with(
        credit: Option<Charge>,
        max_chunk_bytes: usize,
        idle: Option<&sync::Arc<IdleChunks>>,
    ) -> (Arc<Memtable>, Writer) {
        let memtable = Arc::new(Memtable {
            directory: Directory::new(),
            records: AtomicU64::new(0),
            arena: Arena::new(credit.as_ref().map(Charge::account), max_chunk_bytes, idle),
            stages: Stages::new(max_chunk_bytes),
        });
        let writer = Writer { memtable: Arc::clone(&memtable), bump: Bump::new(credit, max_chunk_bytes) };
        (memtable, writer)
    }
}

impl Writer {
    /// Returns the memtable.
    pub fn memtable(&self) -> &Arc<Memtable> {
        &self.memtable
    }

    /// Returns the bytes in use: what the memtable has allocated, less what is free for the next records, and less what
    /// is staged for commits that have not had their turn.
    pub fn used_bytes(&self) -> usize {
        self.memtable.arena.linked_bytes().saturating_sub(self.bump.room())
    }

    /// Charges the memory of a commit of `operations` operations, whose keys and values have `payload` bytes in total.
    /// Returns false if the budget refuses, and true if nothing is charged. Never waits; usually costs a comparison.
    #[inline]
    #[must_use]
    pub fn reserve(&mut self, payload: usize, operations: u64) -> bool {
        self.bump.reserve(cost(payload, operations), false)
    }

    /// Charges the memory of a commit whose operations go to the next memtable, whose writer takes over the credit, as
    /// [`Writer::reserve`] does. The room that this memtable has left does not count.
    #[must_use]
    pub fn reserve_anew(&mut self, payload: usize, operations: u64) -> bool {
        self.bump.reserve(cost(payload, operations), true)
    }

    /// Returns how many bytes [`Writer::reserve`] would have to charge: for [`Writer::add_credit`].
    pub fn missing(&self, payload: usize, operations: u64) -> usize {
        self.bump.missing(cost(payload, operations), false)
    }

    /// Returns how many bytes [`Writer::reserve_anew`] would have to charge.
    pub fn missing_anew(&self, payload: usize, operations: u64) -> usize {
        self.bump.missing(cost(payload, operations), true)
    }

    /// Adds a charge for the commits to come.
    pub fn add_credit(&mut self, charge: Charge) {
        if let Some(credit) = self.bump.credit() {
            credit.join(charge);
        }
    }

    /// Returns unused credit to the budget, except for `keep` bytes.
    pub fn shrink_credit(&mut self, keep: usize) {
        if let Some(credit) = self.bump.credit() {
            credit.shrink_to(keep);
        }
    }

    /// Takes the unused credit, for the writer of the next memtable.
    pub fn take_credit(&mut self) -> Option<Charge> {
        self.bump.credit().as_mut().map(|credit| credit.split(usize::MAX))
    }

    /// Sets `key` to `value`. O(log n).
    #[inline]
    pub fn put(&mut self, table: TableId, key: &[u8], value: &[u8], ts: CommitTs) {
        self.insert(table, Change { ts, key, value: Value::Inline(value) });
    }

    /// Sets `key` to a value that is stored in the data file. O(log n).
    pub fn put_large(&mut self, table: TableId, key: &[u8], large: Large<'_>, ts: CommitTs) {
        self.insert(table, Change { ts, key, value: Value::Large(large) });
    }

    /// Deletes `key`, whether it is present or not. O(log n).
    #[inline]
    pub fn delete(&mut self, table: TableId, key: &[u8], ts: CommitTs) {
        self.insert(table, Change { ts, key, value: Value::Deleted });
    }

    /// Deletes every key from `start` up to, but without, `end` (`None`: to the table's end) as of before `ts`: a put
    /// with the same timestamp stays, in whichever order the two are applied. O(log n) in the range deletes of the
    /// table.
    pub fn delete_range(&mut self, table: TableId, start: &[u8], end: Option<&[u8]>, ts: CommitTs) {
        let (table, Tree { arena, bump, .. }) = self.tree(table, ts);
        if end.is_none_or(|end| start < end) {
            table.delete_range(arena, bump, (start, end), ts);
        }
        table.count(1);
        self.count(1);
    }

    /// Deletes every key in each of `spans` as of before `ts`: in O(log n) each, or in one pass over all range deletes
    /// of the table if that is less and they ascend without overlap. See [`Writer::delete_range`].
    pub fn delete_ranges(&mut self, table: TableId, spans: &[Span<'_>], ts: CommitTs) {
        let is_whole = |&(start, end): &Span<'_>| end.is_none_or(|end| start < end);
        let ascend = spans.windows(2).all(|pair| pair[0].1.is_some_and(|end| end <= pair[1].0));
        if !ascend || !spans.iter().all(is_whole) {
            return spans.iter().for_each(|&(start, end)| self.delete_range(table, start, end, ts));
        }
        let (table, Tree { arena, bump, .. }) = self.tree(table, ts);
        table.delete_ranges(arena, bump, spans, ts);
        table.count(spans.len() as u64);
        self.count(spans.len() as u64);
    }

    /// Applies one operation of a commit.
    #[inline]
    pub fn apply(&mut self, ts: CommitTs, table: TableId, op: Op<'_>) {
        match op {
            Op::Put { key, value } => self.put(table, key, value, ts),
            Op::PutLarge { key, large } => self.put_large(table, key, large, ts),
            Op::Delete { key } => self.delete(table, key, ts),
            // There is nothing to do in memory: the owner of this memtable keeps the run separately.
            Op::Attach { .. } => {}
            Op::DeleteRange { start, end } => self.delete_range(table, start, end, ts),
        }
    }

    /// Applies a commit's changes of `table` whose keys strictly ascend. If the table has no tree yet, it builds the
    /// whole tree at once, and readers see it when it is complete. Otherwise it inserts each key near the previous one.
    ///
    /// ```
    /// # use base::{CommitTs, Large, LargeRef, TableId, Value};
    /// # use pando_memtable::Memtable;
    /// let (memtable, mut writer) = Memtable::new();
    /// let changes: [(&[u8], Value<'_>); 2] = [(b"a", Value::Inline(b"1")), (b"b", Value::Deleted)];
    /// writer.extend_sorted(TableId(16), CommitTs(1), &mut changes.into_iter());
    /// assert_eq!(memtable.get(TableId(16), b"a", CommitTs(1)), Some(Value::Inline(b"1")));
    /// assert_eq!(memtable.get(TableId(16), b"b", CommitTs(1)), Some(Value::Deleted));
    /// ```
    pub fn extend_sorted<'a>(
        &mut self,
        table: TableId,
        ts: CommitTs,
        changes: &mut impl Iterator<Item = (&'a [u8], Value<'a>)>,
    ) {
        let (table, mut tree) = self.tree(table, ts);
        let mut changes = changes.map(|(key, value)| {
            if matches!(value, Value::Large(..)) {
                table.note_large();
            }
            Change { ts, key, value }
        });
        let records = match tree.root.load() {
            None => tree.build(ts, &mut changes),
            Some(_) => tree.extend(ts, &mut changes),
        };
        table.count(records);
        self.count(records);
    }

    #[inline]
    fn insert(&mut self, table: TableId, change: Change<'_>) {
        let (table, mut tree) = self.tree(table, change.ts);
        if matches!(change.value, Value::Large(..)) {
            table.note_large();
        }
        tree.insert(change);
        table.count(1);
        self.count(1);
    }

    /// Returns the table, which is about to get changes of `ts`, and its tree.
    #[inline]
    fn tree(&mut self, table: TableId, ts: CommitTs) -> (&Table, Tree<'_, '_>) {
        let Memtable { directory, arena, .. } = &*self.memtable;
        let table = directory.find_or_add(arena, &mut self.bump, table);
        table.stamp(ts);
        (table, Tree { arena, bump: &mut self.bump, root: &table.root })
    }

    /// Relaxed, in two steps: the writer alone changes the count.
    #[inline]
    pub(crate) fn count(&self, records: u64) {
        let counter = &self.memtable.records;
        counter.store(counter.load(Ordering::Relaxed) + records, Ordering::Relaxed);
    }
}

impl Drop for Writer {
    /// The memtable is complete.
    fn drop(&mut self) {
        self.memtable.stages.close();
    }
}
