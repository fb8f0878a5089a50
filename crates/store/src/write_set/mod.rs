//! What a transaction has written and not committed: private, in memory, gone when the transaction is.
//!
//! 1. A write set says one of three things about a key: a value, deleted, or nothing (then the snapshot decides).
//!    The last write to the key decides; a range delete counts as a write to every key in it.
//! 2. What is committed is the *final* state: per table the union of the range deletes, then one put or delete per
//!    key in key order. That is the same state, as puts that a later range delete covered are not among them.
//! 3. Bytes are appended to one arena and never move while the set lives. A value that fits where the key's last
//!    value lies is written over it, unless a savepoint may want the old one back.
//! 4. Savepoints nest. While one is live every change is logged with what it replaced; rolling back undoes from the
//!    end. That a key was *read* before it was written is remembered through a rollback: the transaction has seen it.
//! 5. A large value is held by its [`Unpublished`]: dropped when the write is replaced or rolled back for good, so that
//!    its extents are freed then and not only with the transaction.
//! 6. An empty set owns no memory, and [`WriteSet::clear`] keeps small buffers: a transaction of a few writes
//!    allocates nothing once its set has been used before.
//!
//! ```
//! use base::TableId;
//! use store::write_set::{Own, Prior, WriteSet};
//! let t = TableId(16);
//! let mut writes = WriteSet::new();
//! writes.put(t, b"a", b"1", Prior::Unread);
//! let savepoint = writes.savepoint();
//! writes.delete_range(t, b"a", None);
//! assert_eq!(writes.get(t, b"a"), Some(Own::Deleted));
//! writes.rollback_to(savepoint).unwrap();
//! assert_eq!(writes.get(t, b"a"), Some(Own::Value(b"1")));
//! assert_eq!(writes.get(t, b"b"), None);
//! ```
//!
//! Reading order: `table` (entries), `index` and `order` (two ways to find them), `ranges`, `arena`,
//! `cursor`.

mod arena;
mod cursor;
mod index;
mod order;
mod ranges;
mod table;

pub use cursor::Cursor;

use crate::large::Unpublished;
use arena::{Arena, Mark};
use base::op::Op;
use base::{Error, LargeRef, Result, TableId};
use ranges::Replaced;
use std::sync::Arc;
use table::{Content, ENTRY_BYTES, Entry, State, TableSet};
use txn::WrittenKey;

/// Tables whose buffers an emptied set keeps.
const KEPT_TABLES: usize = 4;

/// What a write takes in memory at most beside its key and value, in bytes: its entry, with the room that the list of
/// entries grows by (64), its part of the index likewise (32), its place in the order (16), and one change to undo.
pub const WRITE_COST: usize = 112 + size_of::<Undo>();

/// What a write set takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// Bytes of memory in use.
    pub used_bytes: usize,
    /// An upper bound of the bytes that the commit takes in the log.
    pub logged_bytes: usize,
    /// An upper bound of the memory that is held, free room in buffers included.
    pub held_bytes: usize,
}

/// What a transaction's own writes say about a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Own<'a> {
    /// It has this value.
    Value(&'a [u8]),
    /// It has a value that lies in the data file.
    Large(LargeRef),
    /// It is deleted, whatever the snapshot says.
    Deleted,
}

/// The large values of a transaction, by number; none where one was replaced or rolled back.
#[derive(Debug, Default)]
struct LargeValues(Vec<Option<Arc<Unpublished>>>);

impl LargeValues {
    fn add(&mut self, value: Arc<Unpublished>) -> usize {
        self.0.push(Some(value));
        self.0.len() - 1
    }

    fn get(&self, index: usize) -> &Arc<Unpublished> {
        self.0[index].as_ref().expect("an entry's large value is held")
    }

    /// Nothing refers to what `content` held any more.
    #[inline]
    fn let_go(&mut self, content: Content) {
        if let Some(index) = content.large() {
            self.0[index] = None;
        }
    }
}

/// Whether the transaction looked a key up in its snapshot before it writes it. An insert that answers duplicates
/// has, and needs no entry in the read set then: the flag is validated instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prior {
    /// A blind write.
    Unread,
    /// Found, or found absent.
    Read,
}

/// Where [`WriteSet::rollback_to`] goes back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Savepoint {
    serial: u64,
}

/// One change, with what it replaced.
#[derive(Debug)]
enum Undo {
    Entry { table: TableId, number: u32, old: Content },
    Range { table: TableId, change: Replaced },
}

#[derive(Debug)]
struct LiveSavepoint {
    serial: u64,
    undo_len: usize,
    /// How much of the arena and of each table there was.
    arena: Mark,
    entries: Vec<(TableId, usize)>,
}

/// See the module. Not shared between threads; may be sent.
#[derive(Debug, Default)]
pub struct WriteSet {
    /// The first `used` are this transaction's, in the order of their ids; the rest are buffers kept for more.
    tables: Vec<TableSet>,
    used: usize,
    /// The table written or looked up last.
    last: usize,
    arena: Arena,
    large: LargeValues,
    undo: Vec<Undo>,
    savepoints: Vec<LiveSavepoint>,
    next_serial: u64,
}

impl WriteSet {
    /// An empty set. Allocates nothing.
    pub fn new() -> Self {
        WriteSet::default()
    }

    /// What this transaction wrote to `key`, if anything. O(1), and O(log n) in the table's range deletes.
    #[inline]
    pub fn get(&self, table: TableId, key: &[u8]) -> Option<Own<'_>> {
        let set = self.table(table)?;
        if let Some(number) = set.find(key, &self.arena) {
            let entry = set.entry(number);
            if entry.state() != State::Gone {
                return Some(entry.own(&self.arena, &self.large));
            }
        }
        set.ranges.covering(key).map(|_| Own::Deleted)
    }

    /// Sets `key` to `value`. Both are copied. O(1) amortised; O(log n) more once an order was asked for.
    #[inline]
    pub fn put(&mut self, table: TableId, key: &[u8], value: &[u8], prior: Prior) {
        let at = self.table_index(table);
        let set = &mut self.tables[at];
        let (number, place) = match set.find(key, &self.arena) {
            None => {
                let number = set.add(key, value, &mut self.arena);
                (number, set.added_place(number))
            }
            Some(number) => {
                let old_place = set.value_place(number, value.len()).filter(|_| self.savepoints.is_empty());
                let place = match old_place {
                    Some(place) => {
                        self.arena.overwrite(place, value);
                        place
                    }
                    None => self.arena.append(value, &[]),
                };
                (number, place)
            }
        };
        self.change(at, number, TableSet::put_content(place, value), prior);
    }

    /// Sets `key` to a value that lies in the data file. Costs what [`WriteSet::put`] of an empty value does.
    pub fn put_large(&mut self, table: TableId, key: &[u8], value: Arc<Unpublished>, prior: Prior) {
        let at = self.table_index(table);
        let set = &mut self.tables[at];
        let number = match set.find(key, &self.arena) {
            Some(number) => number,
            None => set.add(key, &[], &mut self.arena),
        };
        let index = self.large.add(value);
        self.change(at, number, TableSet::large_content(index), prior);
    }

    /// The guard of the large value that this transaction put under `key`.
    pub fn large(&self, table: TableId, key: &[u8]) -> Option<&Arc<Unpublished>> {
        let set = self.table(table)?;
        let entry = set.entry(set.find(key, &self.arena)?);
        entry.large().map(|index| self.large.get(index))
    }

    /// Whether a large value was ever put: the data file is to be synced before the commit.
    pub fn has_large(&self) -> bool {
        !self.large.0.is_empty()
    }

    /// The large values to be committed; every table was sorted.
    pub(crate) fn committed_large(&self) -> impl Iterator<Item = &Arc<Unpublished>> {
        let sets = if self.has_large() { self.sets() } else { &[] };
        sets.iter()
            .flat_map(|set| set.in_order(&self.arena))
            .filter_map(|entry| Some(self.large.get(entry.large()?)))
    }

    /// Deletes `key`, present or not. Costs what [`WriteSet::put`] does.
    #[inline]
    pub fn delete(&mut self, table: TableId, key: &[u8], prior: Prior) {
        let at = self.table_index(table);
        let set = &mut self.tables[at];
        let number = match set.find(key, &self.arena) {
            Some(number) => number,
            None => set.add(key, &[], &mut self.arena),
        };
        self.change(at, number, self.tables[at].content_as(number, State::Deleted), prior);
    }

    /// Deletes every key in `[start, end)`; no `end` means to the end of the table. O(own writes inside), and the
    /// table's order is made if it has own writes.
    pub fn delete_range(&mut self, table: TableId, start: &[u8], end: Option<&[u8]>) {
        if end.is_some_and(|end| end <= start) {
            return;
        }
        let at = self.table_index(table);
        for number in self.tables[at].live_in(start, end, &self.arena) {
            self.change(at, number, self.tables[at].content_as(number, State::Gone), Prior::Unread);
        }
        let change = self.tables[at].ranges.insert(start, end);
        if !self.savepoints.is_empty() {
            self.undo.push(Undo::Range { table, change });
        }
    }

    /// Changes an entry, and logs what was there while a savepoint is live.
    #[inline]
    fn change(&mut self, at: usize, number: u32, content: Content, prior: Prior) {
        let set = &mut self.tables[at];
        let old = set.set(number, content, &self.arena);
        if prior == Prior::Read {
            set.mark_read(number);
        }
        if self.savepoints.is_empty() {
            self.large.let_go(old);
        } else {
            self.undo.push(Undo::Entry { table: set.table, number, old });
        }
    }

    /// Remembers the present state until the savepoint is released, or an earlier one is gone back to. O(1).
    pub fn savepoint(&mut self) -> Savepoint {
        let serial = self.next_serial;
        self.next_serial += 1;
        let entries = self.sets().iter().map(|set| (set.table, set.len())).collect();
        let (undo_len, arena) = (self.undo.len(), self.arena.mark());
        self.savepoints.push(LiveSavepoint { serial, undo_len, arena, entries });
        Savepoint { serial }
    }

    /// Goes back to what was when `savepoint` was made. It stays live; those made after it do not. O(changes since).
    /// [`base::ErrorKind::Invalid`] if it is not live any more; nothing is changed then.
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        let level = self.level(savepoint)?;
        self.savepoints.truncate(level + 1);
        while self.undo.len() > self.savepoints[level].undo_len {
            match self.undo.pop().expect("longer than a length") {
                Undo::Entry { table, number, old } => {
                    let at = self.table_index(table);
                    let undone = self.tables[at].set(number, old, &self.arena);
                    self.large.let_go(undone);
                }
                Undo::Range { table, change } => {
                    let at = self.table_index(table);
                    self.tables[at].ranges.undo(change);
                }
            }
        }
        Ok(())
    }

    /// Gives up `savepoint` and those made after it; what was written stays. [`base::ErrorKind::Invalid`] if it is
    /// not live any more.
    pub fn release(&mut self, savepoint: Savepoint) -> Result<()> {
        let level = self.level(savepoint)?;
        self.savepoints.truncate(level);
        if level == 0 {
            for undo in self.undo.drain(..) {
                if let Undo::Entry { old, .. } = undo {
                    self.large.let_go(old);
                }
            }
        }
        Ok(())
    }

    /// Gives up every savepoint; what was written stays.
    pub fn release_all(&mut self) {
        if let Some(first) = self.savepoints.first() {
            self.release(Savepoint { serial: first.serial }).expect("it is live");
        }
    }

    fn level(&self, savepoint: Savepoint) -> Result<usize> {
        let live = self.savepoints.iter().rposition(|live| live.serial == savepoint.serial);
        live.ok_or_else(|| Error::invalid("the savepoint was released, or an earlier one was rolled back to"))
    }

    /// Whether there is nothing to commit.
    pub fn is_empty(&self) -> bool {
        self.sets().iter().all(|set| set.operations() == 0)
    }

    /// Whether it holds nothing at all, not even what was rolled back: that takes memory too.
    pub fn is_blank(&self) -> bool {
        self.sets().iter().all(|set| set.entries() == 0 && set.operations() == 0)
    }

    /// Whether most of its memory is taken by what was rolled back or written over. O(writes).
    pub fn is_mostly_gone(&self) -> bool {
        let live_bytes: usize = self.sets().iter().map(TableSet::live_bytes).sum();
        self.bytes() > 2 * live_bytes
    }

    /// Puts, deletes and range deletes to commit.
    pub fn operations(&self) -> u64 {
        self.sets().iter().map(|set| set.operations() as u64).sum()
    }

    /// What it takes, for the memory budget and the log. O(tables), which are few.
    #[inline]
    pub fn footprint(&self) -> Footprint {
        /// In the log: a kind, two lengths, and with the first of a table its id.
        const PER_OPERATION_BYTES: usize = 16;
        let (mut entries, mut range_bytes) = (0, 0);
        for set in self.sets() {
            entries += set.entries();
            range_bytes += set.range_bytes();
        }
        let own_bytes = self.arena.used_bytes() + range_bytes;
        Footprint {
            used_bytes: own_bytes + entries * ENTRY_BYTES + self.undo.len() * size_of::<Undo>(),
            logged_bytes: own_bytes + entries * PER_OPERATION_BYTES,
            held_bytes: self.arena.held_bytes()
                + WRITE_COST * entries
                + size_of::<Undo>() * self.undo.capacity(),
        }
    }

    /// Bytes of memory in use.
    pub fn bytes(&self) -> usize {
        self.footprint().used_bytes
    }

    /// How many puts, deletes and range deletes there are to commit, by table.
    pub fn operations_by_table(&self) -> impl Iterator<Item = (TableId, u64)> {
        let sets = self.sets().iter().map(|set| (set.table, set.operations() as u64));
        sets.filter(|&(_, operations)| operations > 0)
    }

    /// The tables with something to commit, in the order of their ids.
    pub fn tables(&self) -> impl Iterator<Item = TableId> {
        self.sets().iter().filter(|set| set.operations() > 0).map(|set| set.table)
    }

    /// Puts one table's writes in key order and keeps them so from now on. O(n log n) the first time, O(1) after.
    pub fn sort(&self, table: TableId) {
        if let Some(at) = self.position(table) {
            self.tables[at].ensure_order(&self.arena);
        }
    }

    /// [`WriteSet::sort`] for every table.
    pub fn sort_all(&self) {
        for set in self.sets() {
            set.ensure_order(&self.arena);
        }
    }

    /// What a commit does first, outside the critical section: sorts every table of more than one write, so that
    /// [`WriteSet::records`] and [`WriteSet::ops`] can be asked for.
    pub fn sort_for_commit(&self) {
        for set in self.sets() {
            set.ensure_records(&self.arena);
        }
    }

    /// A cursor over the writes to `table`, which must have been sorted; `None` if there are none, so that a scan
    /// need not merge anything. Range deletes count: the merged cursor must know what they hide.
    pub fn cursor(&self, table: TableId) -> Option<Cursor<'_>> {
        let set = self.table(table).filter(|set| set.operations() > 0)?;
        Some(Cursor::new(set, &self.arena, &self.large))
    }

    /// The range deletes of `table` in key order: disjoint `[start, end)`, to be applied before the records.
    pub fn ranges(&self, table: TableId) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        let spans = self.table(table).into_iter().flat_map(|set| set.ranges.spans());
        spans.map(|span| (&span.start[..], span.end.as_deref()))
    }

    /// The puts and deletes of `table`, which must have been sorted, strictly ascending.
    pub fn records(&self, table: TableId) -> impl Iterator<Item = (&[u8], Own<'_>)> {
        let record = |entry: &table::Entry| (entry.key(&self.arena), entry.own(&self.arena, &self.large));
        self.table(table).into_iter().flat_map(move |set| set.in_order(&self.arena).map(record))
    }

    /// Everything to commit in `table`, which must have been sorted, in the order in which the log has it.
    pub fn ops(&self, table: TableId) -> impl Iterator<Item = Op<'_>> {
        let ranges = self.ranges(table).map(|(start, end)| Op::DeleteRange { start, end });
        let records = self.records(table).map(|(key, own)| match own {
            Own::Value(value) => Op::Put { key, value },
            Own::Large(large) => Op::PutLarge { key, large },
            Own::Deleted => Op::Delete { key },
        });
        ranges.chain(records)
    }

    /// What validation must know, table by table, for the tables that `changed` says yes to. In key order where the
    /// table was sorted, which is kinder to the history's caches.
    pub fn written(
        &self,
        mut changed: impl FnMut(TableId) -> bool,
    ) -> impl Iterator<Item = (TableId, WrittenKey<'_>)> {
        self.sets().iter().filter(move |set| changed(set.table)).flat_map(|set| {
            let ranges = set.ranges.spans().iter();
            let ranges =
                ranges.map(|span| WrittenKey::Range { start: &span.start, end: span.end.as_deref() });
            let keys = set.to_validate(&self.arena).map(|entry| {
                let (key, read) = (entry.key(&self.arena), entry.read());
                if entry.state() == State::Gone {
                    WrittenKey::Read { key }
                } else {
                    WrittenKey::Key { key, read }
                }
            });
            ranges.chain(keys).map(|written| (set.table, written))
        })
    }

    /// How many keys of `table` were written or taken back, and the first and the last of them, where that is known:
    /// after sorting, and of a table without range deletes.
    pub fn ends(&self, table: TableId) -> Option<(usize, &[u8], &[u8])> {
        let set = self.table(table)?;
        set.ends(&self.arena).map(|(first, last)| (set.entries(), first, last))
    }

    /// Whether there is anything that can be gone back to.
    pub fn has_savepoints(&self) -> bool {
        !self.savepoints.is_empty()
    }

    /// Whether `savepoint` can be gone back to.
    pub fn knows(&self, savepoint: Savepoint) -> bool {
        self.level(savepoint).is_ok()
    }

    /// Goes back to the last savepoint and gives up all memory that was used since; answers an empty set for what comes
    /// after. `None`, and nothing is done, without a savepoint.
    pub fn freeze(&mut self) -> Option<WriteSet> {
        let serial = self.savepoints.last()?.serial;
        self.rollback_to(Savepoint { serial }).expect("the last savepoint is live");
        let last = self.savepoints.last().expect("it was just gone back to");
        for set in &mut self.tables[..self.used] {
            let known = last.entries.iter().find(|known| known.0 == set.table);
            set.truncate(known.map_or(0, |known| known.1));
        }
        self.arena.truncate(&last.arena);
        self.undo.shrink_to_fit();
        Some(WriteSet { next_serial: self.next_serial, ..WriteSet::default() })
    }

    /// Puts `earlier`, which was frozen, in the place of this set. Savepoints keep their order.
    pub fn thaw(&mut self, earlier: WriteSet) {
        let next_serial = self.next_serial;
        *self = earlier;
        self.next_serial = next_serial;
    }

    /// Keys that were looked up before they were written: all, or those alone whose writes are gone.
    pub fn read_keys(&self, gone: bool) -> impl Iterator<Item = (TableId, &[u8])> {
        let keys = move |set: &'_ TableSet| {
            let read =
                set.all().iter().filter(move |entry| entry.read() && (!gone || entry.state() == State::Gone));
            read.map(|entry| (set.table, entry.key(&self.arena))).collect::<Vec<_>>()
        };
        self.sets().iter().flat_map(keys)
    }

    /// The large values that were put, each with whether its key was looked up before. Every table was sorted.
    pub fn large_entries(&self) -> impl Iterator<Item = (TableId, &[u8], &Arc<Unpublished>, Prior)> {
        let sets = if self.has_large() { self.sets() } else { &[] };
        sets.iter().flat_map(move |set| {
            set.in_order(&self.arena).filter_map(move |entry| {
                let prior = if entry.read() { Prior::Read } else { Prior::Unread };
                Some((set.table, entry.key(&self.arena), self.large.get(entry.large()?), prior))
            })
        })
    }

    /// Whether a key that is written in `table` was looked up before.
    pub fn has_read(&self, table: TableId) -> bool {
        let is_read = |entry: &Entry| entry.read() && entry.state() != State::Gone;
        self.table(table).is_some_and(|set| set.all().iter().any(is_read))
    }

    /// Forgets everything, savepoints included. Keeps small buffers for the next transaction.
    pub fn clear(&mut self) {
        self.tables.truncate(KEPT_TABLES);
        let used = self.used.min(KEPT_TABLES);
        self.tables[..used].iter_mut().for_each(TableSet::clear);
        self.used = 0;
        self.arena.clear();
        self.large.0 = Vec::new();
        self.undo = Vec::new();
        self.savepoints.clear();
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
