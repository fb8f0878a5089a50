//! The uncommitted writes of a transaction: private, in memory, and freed with the transaction.
//!
//! 1. A write set contains one of three things about a key: a value, a delete, or nothing (then the snapshot decides).
//!    The last write to the key decides; a range delete counts as a write to every key in it.
//! 2. The *final* state is committed: per table the union of the range deletes, then one put or delete per key in key
//!    order. That is the same state, because puts that a later range delete covered are not among them.
//! 3. Bytes are appended to one arena and never move while the set lives. A value that fits where the key's last value
//!    is stored overwrites it, unless a savepoint may need the old one.
//! 4. Savepoints nest. While one is live every change is logged with what it replaced; a rollback undoes changes from
//!    the end. That a key was *read* before it was written is remembered through a rollback: the transaction has seen
//!    it.
//! 5. A large value is held by its [`Unpublished`], which is dropped when the write is replaced or finally rolled back,
//!    so that its extents are freed then and not only with the transaction.
//! 6. An empty set owns no memory, and [`WriteSet::clear`] keeps small buffers: a transaction of a few writes allocates
//!    nothing if its set has been used before.
//!
//! ```
//! use base::{TableId, Value};
//! use pando_store::write_set::{Prior, WriteSet};
//! let t = TableId(16);
//! let mut writes = WriteSet::new();
//! writes.put(t, b"a", b"1", Prior::Unread);
//! let savepoint = writes.savepoint();
//! writes.delete_range(t, b"a", None);
//! assert_eq!(writes.get(t, b"a"), Some(Value::Deleted));
//! writes.rollback_to(savepoint).unwrap();
//! assert_eq!(writes.get(t, b"a"), Some(Value::Inline(b"1")));
//! assert_eq!(writes.get(t, b"b"), None);
//! ```
//!
//! Reading order: `table` (entries), `index` and `order` (two ways to find them), `ranges`, `arena`, `savepoints`,
//! `large_values`, `contents` (the data for a commit, a scan or a spill), `cursor`.

mod arena;
mod contents;
mod cursor;
mod index;
mod large_values;
mod order;
mod ranges;
mod savepoints;
mod table;

pub use cursor::Cursor;
pub use savepoints::Savepoint;

use crate::state::stretches;
use crate::uncommitted::large::Unpublished;
use arena::Arena;
use base::{TableId, Value};
use large_values::LargeValues;
use ranges::Ranges;
use savepoints::{LiveSavepoint, Undo};
use std::sync::Arc;
use table::{Content, ENTRY_BYTES, State, TableSet};

/// The number of tables whose buffers an emptied set keeps.
const KEPT_TABLES: usize = 4;

/// Up to this number of tables, tests check the sums over all tables at each use.
const FEW_TABLES: usize = 8;

/// The most memory of a write in addition to its key and value, in bytes: its entry, with the room by which the list of
/// entries grows (64), its part of the index grows too (32), its position in the order (16), and one change to undo.
pub const WRITE_COST: usize = 112 + size_of::<Undo>();

/// The size of a write set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// The bytes of memory in use.
    pub used_bytes: usize,
    /// An upper bound of the bytes that the commit takes in the log.
    pub logged_bytes: usize,
    /// An upper bound of the memory that is held, including free room in buffers.
    pub held_bytes: usize,
}

/// Whether the transaction looked a key up in its snapshot before it writes it. An insert that reports duplicates has,
/// and so has a put after a get. It then needs no entry in the read set: the flag is validated instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prior {
    /// The key was not looked up: a blind write.
    Unread,
    /// The key was looked up, and found present or absent.
    Read,
}

/// A write set; see the module. Threads cannot share it, but it may be sent.
#[derive(Debug, Default)]
pub struct WriteSet {
    /// The tables. The first `used` are this transaction's, in the order of their ids; the rest are buffers kept for
    /// more.
    tables: Vec<TableSet>,
    used: usize,
    /// The table written or looked up last.
    last: usize,
    /// The entries of all tables, and the bytes of their range deletes.
    entries: usize,
    range_bytes: usize,
    arena: Arena,
    large: LargeValues,
    undo: Vec<Undo>,
    /// The bytes of what range deletes replaced, in `undo`.
    undo_bytes: usize,
    savepoints: Vec<LiveSavepoint>,
    /// The bytes of the savepoints.
    savepoint_bytes: usize,
    next_serial: u64,
    /// Stretches of keys that were found empty, own writes included.
    known: stretches::Own,
}

impl WriteSet {
    /// Creates an empty set. It allocates nothing.
    pub fn new() -> Self {
        WriteSet::default()
    }

    /// Returns what this transaction wrote to `key`, if anything. O(1), and O(log n) in the table's range deletes.
    #[inline]
    pub fn get(&self, table: TableId, key: &[u8]) -> Option<Value<'_>> {
        let set = self.table(table)?;
        if let Some(number) = set.find(key, &self.arena) {
            let entry = set.entry(number);
            if entry.state() != State::Gone {
                return Some(entry.own(&self.arena, &self.large));
            }
        }
        set.ranges.covering(key).map(|_| Value::Deleted)
    }

    /// Sets `key` to `value`. Both are copied. O(1) amortised; O(log n) more after an order was made.
    #[inline]
    pub fn put(&mut self, table: TableId, key: &[u8], value: &[u8], prior: Prior) {
        let at = self.table_index(table);
        let set = &mut self.tables[at];
        let (number, offset) = match set.find(key, &self.arena) {
            None => {
                let number = set.add(key, value, &mut self.arena);
                self.entries += 1;
                (number, set.added_offset(number))
            }
            Some(number) => {
                let old_offset = set.value_offset(number, value.len()).filter(|_| self.savepoints.is_empty());
                let offset = match old_offset {
                    Some(offset) => {
                        self.arena.overwrite(offset, value);
                        offset
                    }
                    None => self.arena.append(value, &[]),
                };
                (number, offset)
            }
        };
        self.change(at, number, TableSet::put_content(offset, value), prior);
    }

    /// Sets `key` to a value in the data file. It costs what [`WriteSet::put`] of an empty value does.
    pub fn put_large(&mut self, table: TableId, key: &[u8], value: Arc<Unpublished>, prior: Prior) {
        let at = self.table_index(table);
        let set = &mut self.tables[at];
        let number = match set.find(key, &self.arena) {
            Some(number) => number,
            None => {
                self.entries += 1;
                set.add(key, &[], &mut self.arena)
            }
        };
        let index = self.large.add(value);
        self.change(at, number, TableSet::large_content(index), prior);
    }

    /// Returns the guard of the large value that this transaction put under `key`.
    pub fn large(&self, table: TableId, key: &[u8]) -> Option<&Arc<Unpublished>> {
        let set = self.table(table)?;
        let entry = set.entry(set.find(key, &self.arena)?);
        entry.large().map(|index| self.large.get(index))
    }

    /// Returns whether a large value was ever put: the data file must then be synced before the commit.
    pub fn has_large(&self) -> bool {
        !self.large.is_empty()
    }

    /// Returns the length of the large values that are put, in bytes. O(large values that were ever put).
    pub fn large_bytes(&self) -> u64 {
        self.large.len_bytes()
    }

    /// Deletes `key`, whether or not it exists. It costs what [`WriteSet::put`] does.
    #[inline]
    pub fn delete(&mut self, table: TableId, key: &[u8], prior: Prior) {
        let at = self.table_index(table);
        let set = &mut self.tables[at];
        let number = match set.find(key, &self.arena) {
            Some(number) => number,
            None => {
                self.entries += 1;
                set.add(key, &[], &mut self.arena)
            }
        };
        self.change(at, number, self.tables[at].content_as(number, State::Deleted), prior);
    }

    /// Deletes every key in `[start, end)`; no `end` means to the end of the table. O(own writes inside). The table's
    /// order is made if it has own writes.
    pub fn delete_range(&mut self, table: TableId, start: &[u8], end: Option<&[u8]>) {
        if end.is_some_and(|end| end <= start) {
            return;
        }
        let at = self.table_index(table);
        for number in self.tables[at].live_in(start, end, &self.arena) {
            self.change(at, number, self.tables[at].content_as(number, State::Gone), Prior::Unread);
        }
        let change = self.change_ranges(at, |ranges| ranges.insert(start, end));
        if !self.savepoints.is_empty() {
            self.undo_bytes += change.bytes();
            self.undo.push(Undo::Range { table, change });
        }
    }

    /// Changes the range deletes of a table.
    fn change_ranges<T>(&mut self, at: usize, how: impl FnOnce(&mut Ranges) -> T) -> T {
        let ranges = &mut self.tables[at].ranges;
        let before = ranges.bytes();
        let changed = how(ranges);
        self.range_bytes = self.range_bytes - before + ranges.bytes();
        changed
    }

    /// Changes an entry, and logs the previous content while a savepoint is live.
    #[inline]
    fn change(&mut self, at: usize, number: u32, content: Content, prior: Prior) {
        let set = &mut self.tables[at];
        if content.is_put() {
            stretches::cut(&mut self.known, set.table, set.entry(number).key(&self.arena));
        }
        let old = set.set(number, content, &self.arena);
        if prior == Prior::Read {
            set.mark_read(number);
        }
        if self.savepoints.is_empty() {
            self.large.release(old.large());
        } else {
            self.undo.push(Undo::Entry { table: set.table, number, old });
        }
    }

    /// Returns the stretches of keys that were found empty, own writes included. Each put takes its key out.
    pub(crate) fn known(&self) -> &stretches::Own {
        &self.known
    }

    /// Forgets the stretches: the transaction got records in another way than by puts.
    pub(crate) fn forget_known(&mut self) {
        self.known.take();
    }

    /// Returns whether there is nothing to commit.
    pub fn is_empty(&self) -> bool {
        self.sets().iter().all(|set| set.operations() == 0)
    }

    /// Returns whether it holds nothing at all, not even rolled back writes, which take memory too.
    pub fn is_blank(&self) -> bool {
        self.sets().iter().all(|set| set.entries() == 0 && set.operations() == 0)
    }

    /// Returns whether most of its memory is taken by writes that were rolled back or overwritten. O(writes).
    pub fn is_mostly_gone(&self) -> bool {
        let live_bytes: usize = self.sets().iter().map(TableSet::live_bytes).sum();
        self.bytes() > 2 * live_bytes
    }

    /// Returns its size, for the memory budget and the log. O(1).
    #[inline]
    pub fn footprint(&self) -> Footprint {
        /// A record in the log has a kind, two lengths, and with the first of a table its id.
        const PER_OPERATION_BYTES: usize = 16;
        let WriteSet { entries, range_bytes, .. } = *self;
        debug_assert!(self.used > FEW_TABLES || (entries, range_bytes) == self.count());
        let own_bytes = self.arena.used_bytes() + range_bytes;
        Footprint {
            used_bytes: own_bytes
                + entries * ENTRY_BYTES
                + self.undo.len() * size_of::<Undo>()
                + self.undo_bytes,
            logged_bytes: own_bytes + entries * PER_OPERATION_BYTES,
            held_bytes: self.arena.held_bytes()
                + range_bytes
                + WRITE_COST * entries
                + size_of::<Undo>() * self.undo.capacity()
                + self.undo_bytes
                + self.savepoint_bytes,
        }
    }

    /// Returns the memory that the set holds once it is frozen, in bytes.
    pub(crate) fn frozen_bytes(&self) -> usize {
        let tables_bytes = size_of::<TableSet>() * self.tables.capacity();
        self.bytes() + tables_bytes + self.savepoint_bytes
    }

    /// Counts the entries of all tables, and the bytes of their range deletes. O(tables).
    fn count(&self) -> (usize, usize) {
        let sets = self.sets().iter();
        let counts = sets.map(|set| (set.entries(), set.ranges.bytes()));
        counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// Returns the bytes of memory in use.
    pub fn bytes(&self) -> usize {
        self.footprint().used_bytes
    }

    /// Forgets everything, including savepoints. It keeps small buffers for the next transaction.
    pub fn clear(&mut self) {
        self.tables.truncate(KEPT_TABLES);
        let used = self.used.min(KEPT_TABLES);
        self.tables[..used].iter_mut().for_each(TableSet::clear);
        (self.used, self.entries, self.range_bytes) = (0, 0, 0);
        self.arena.clear();
        self.large = LargeValues::default();
        self.undo = Vec::new();
        self.savepoints.clear();
        (self.undo_bytes, self.savepoint_bytes) = (0, 0);
        self.known.take();
    }

    /// Returns an upper bound of the memory that stays in use, in bytes, if the writes are spilled: that of the range
    /// deletes, and of the set itself if it has savepoints.
    pub(crate) fn kept_bytes(&self) -> usize {
        match self.has_savepoints() {
            true => self.footprint().held_bytes + size_of::<TableSet>() * self.used,
            false => self.range_bytes,
        }
    }

    fn sets(&self) -> &[TableSet] {
        &self.tables[..self.used]
    }

    #[inline]
    fn position(&self, table: TableId) -> Option<usize> {
        match self.sets().get(self.last) {
            Some(set) if set.table == table => Some(self.last),
            _ => self.sets().binary_search_by_key(&table, |set| set.table).ok(),
        }
    }

    #[inline]
    fn table(&self, table: TableId) -> Option<&TableSet> {
        self.position(table).map(|at| &self.tables[at])
    }

    #[inline]
    fn table_index(&mut self, table: TableId) -> usize {
        self.last = match self.position(table) {
            Some(at) => at,
            None => self.add_table(table),
        };
        self.last
    }

    fn add_table(&mut self, table: TableId) -> usize {
        match self.tables.get_mut(self.used) {
            Some(kept) => kept.table = table,
            None => self.tables.push(TableSet::new(table)),
        }
        let at = self.sets().partition_point(|set| set.table < table);
        self.tables[at..=self.used].rotate_right(1);
        self.used += 1;
        at
    }
}
