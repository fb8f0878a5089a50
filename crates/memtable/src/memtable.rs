//! The memtable, as readers use it.

use crate::arena::Arena;
use crate::changed;
use crate::cursor::Cursor;
use crate::ranges::Ranges;
use crate::record::Record;
use crate::search::find;
use crate::stage::Stages;
use crate::table::{Directory, Table};
use base::sync::atomic::{AtomicU64, Ordering};
use base::{CommitTs, LargeRef, TableId, Value};
use std::ops::Bound;

/// The changes of many tables since the last seal, in memory, each with its commit timestamp.
///
/// Reads take no lock, never wait and write nothing; what they return is borrowed from the memtable. They see
/// every commit at or before their timestamp, provided that those were applied before the read began. All
/// memory is freed with the memtable.
///
/// ```
/// use base::{CommitTs, TableId, Value};
/// use pando_memtable::Memtable;
/// let (memtable, mut writer) = Memtable::new();
/// let table = TableId(16);
/// writer.put(table, b"aspen", b"grove", CommitTs(1));
/// writer.delete(table, b"aspen", CommitTs(2));
/// assert_eq!(memtable.get(table, b"aspen", CommitTs(1)), Some(Value::Inline(b"grove")));
/// assert_eq!(memtable.get(table, b"aspen", CommitTs(2)), Some(Value::Deleted));
/// assert_eq!(memtable.get(table, b"birch", CommitTs(2)), None);
/// ```
#[derive(Debug)]
pub struct Memtable {
    pub(crate) directory: Directory,
    pub(crate) records: AtomicU64,
    /// What commits that are not applied yet write into: before the arena, which owns its memory.
    pub(crate) stages: Stages,
    /// The memory of all tables.
    pub(crate) arena: Arena,
}

impl Memtable {
    /// Returns the newest change of `key` at or before `at`, or `None` if this memtable has none. O(log n), plus the
    /// versions of the key newer than `at`.
    #[inline]
    pub fn get(&self, table: TableId, key: &[u8], at: CommitTs) -> Option<Value<'_>> {
        let table = self.directory.find(table)?;
        let record = table.root.load().and_then(|root| find(root, key)).and_then(|newest| newest.visible(at));
        if table.hidden_since(key, record.map(|record| record.ts()), at).is_some() {
            return Some(Value::Deleted);
        }
        record.map(Record::found)
    }

    /// Returns a cursor over the keys of `table` as of `at`.
    ///
    /// ```
    /// # use base::{CommitTs, TableId, Value};
    /// # use pando_memtable::Memtable;
    /// let (memtable, mut writer) = Memtable::new();
    /// let (table, at) = (TableId(16), CommitTs(1));
    /// writer.put(table, b"a", b"1", at);
    /// writer.put(table, b"b", b"2", at);
    /// let mut cursor = memtable.cursor(table, at);
    /// cursor.seek(b"aa");
    /// writer.delete(table, b"a", CommitTs(2));
    /// assert_eq!(cursor.entry(), Some((&b"b"[..], Value::Inline(b"2"))));
    /// cursor.prev();
    /// assert_eq!(cursor.entry(), Some((&b"a"[..], Value::Inline(b"1"))));
    /// ```
    #[inline]
    pub fn cursor(&self, table: TableId, at: CommitTs) -> Cursor<'_> {
        Cursor::new(self.directory.find(table), at)
    }

    /// Returns the first key of `table` that begins with `prefix`, whatever was written under it and when, and what it
    /// has as of `at`: `None` if it was written later. Range deletes are left aside. O(log n).
    ///
    /// ```
    /// # use base::{CommitTs, TableId, Value};
    /// let (memtable, mut writer) = pando_memtable::Memtable::new();
    /// writer.put(TableId(16), b"apple", b"1", CommitTs(1));
    /// let first = |prefix: &[u8], at| memtable.first_with_prefix(TableId(16), prefix, CommitTs(at));
    /// assert_eq!(first(b"b", 1), None);
    /// assert_eq!(first(b"app", 1), Some((&b"apple"[..], Some(Value::Inline(b"1")))));
    /// assert_eq!(first(b"app", 0), Some((&b"apple"[..], None)));
    /// ```
    pub fn first_with_prefix(
        &self,
        table: TableId,
        prefix: &[u8],
        at: CommitTs,
    ) -> Option<(&[u8], Option<Value<'_>>)> {
        Cursor::new(Some(self.directory.find(table)?), at).first_with_prefix(prefix)
    }

    /// Returns the range deletes of `table` as of `at`. One load if there are none, else O(log n).
    #[inline]
    pub fn ranges(&self, table: TableId, at: CommitTs) -> Ranges<'_> {
        self.directory.find(table).map_or(Ranges::default(), |table| table.ranges(at))
    }

    /// Returns when `key` last changed, by a change of its own or by a range delete over it. O(log n).
    pub fn newest_in(&self, table: TableId, key: &[u8]) -> Option<CommitTs> {
        let table = self.directory.find(table)?;
        let own = table.root.load().and_then(|root| find(root, key)).map(|newest| newest.ts());
        table.hidden_since(key, own, CommitTs::MAX).or(own)
    }

    /// Returns some key in the range that changed after `since`, or the first key of a range delete after `since` that
    /// reaches into the range, or `None` if nothing changed. O(1) if nothing in the table is newer; otherwise nodes
    /// that are not newer are skipped.
    pub fn changed_since(
        &self,
        table: TableId,
        start: &[u8],
        end: Bound<&[u8]>,
        since: CommitTs,
    ) -> Option<Vec<u8>> {
        let table = self.directory.find(table)?;
        changed::changed_since(table, start, end, since).map(<[u8]>::to_vec)
    }

    /// Returns true if nothing from `start` to `end`, both included, changed after `since`, and about `most` looks at
    /// nodes suffice to see that. True is certain; false has no meaning.
    ///
    /// ```
    /// # use base::{CommitTs, TableId};
    /// # use pando_memtable::Memtable;
    /// let (memtable, mut writer) = Memtable::new();
    /// let table = TableId(16);
    /// writer.put(table, b"a", b"1", CommitTs(1));
    /// writer.put(table, b"z", b"1", CommitTs(2));
    /// assert!(memtable.is_unchanged(table, b"a", b"y", CommitTs(1), 4));
    /// assert!(!memtable.is_unchanged(table, b"a", b"z", CommitTs(1), 4));
    /// ```
    pub fn is_unchanged(&self, table: TableId, start: &[u8], end: &[u8], since: CommitTs, most: u32) -> bool {
        let table = self.directory.find(table);
        table.is_none_or(|table| changed::is_unchanged(table, start, end, since, most))
    }

    /// Returns the first key at or after `start` with a put or a delete of its own after `since`; range deletes do not
    /// count. O(log n), because nodes that are not newer are skipped.
    pub fn key_changed_since(&self, table: TableId, start: &[u8], since: CommitTs) -> Option<&[u8]> {
        let table = self.directory.find(table).filter(|table| table.newest() > since)?;
        changed::changed_key(table.root.load()?, start, Bound::Unbounded, since)
    }

    /// Returns the last key before `before` with a put or a delete of its own after `since`, like
    /// [`Memtable::key_changed_since`].
    pub fn key_changed_before(&self, table: TableId, before: &[u8], since: CommitTs) -> Option<&[u8]> {
        let table = self.directory.find(table).filter(|table| table.newest() > since)?;
        changed::changed_before(table.root.load()?, before, since)
    }

    /// Returns a timestamp at or after the newest change of `table`; 0 if there is none. O(1).
    pub fn newest(&self, table: TableId) -> CommitTs {
        self.directory.find(table).map_or(CommitTs(0), Table::newest)
    }

    /// Returns the tables that were written, in ascending order.
    pub fn tables(&self) -> Vec<TableId> {
        let mut ids: Vec<_> = self.directory.all().map(|table| table.id).collect();
        ids.sort_unstable();
        ids
    }

    /// Returns the allocated memory in bytes, used or not.
    pub fn bytes(&self) -> usize {
        self.arena.bytes()
    }

    /// Returns the number of puts, deletes and range deletes.
    pub fn records(&self) -> u64 {
        // Relaxed: a count, which orders nothing.
        self.records.load(Ordering::Relaxed)
    }

    /// Returns the number of puts, deletes and range deletes of `table`. O(1).
    pub fn records_of(&self, table: TableId) -> u64 {
        self.directory.find(table).map_or(0, Table::records)
    }

    /// Returns every large reference that was ever put into `table`, including those that later changes replaced or
    /// deleted: the memtable keeps all of them from being freed. O(1) if there is none, else O(versions of all keys).
    /// If the memtable is written to meanwhile, the result has at least the references of the commits applied before.
    pub fn large_refs(&self, table: TableId) -> Vec<LargeRef> {
        let mut found = Vec::new();
        let Some(table) = self.directory.find(table).filter(|table| table.has_large()) else { return found };
        let mut cursor = Cursor::new(Some(table), CommitTs::MAX);
        cursor.seek_first();
        while let Some(newest) = cursor.newest() {
            found.extend(newest.versions().filter_map(|record| match record.found() {
                Value::Large(large) => Some(large.reference()),
                _ => None,
            }));
            cursor.next();
        }
        found
    }

    /// Returns whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.records() == 0
    }
}
