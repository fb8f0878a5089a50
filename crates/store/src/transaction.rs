//! A read-write transaction: a snapshot, the private writes over it, and what was read on the way.

use crate::catalog::{TableRow, WantedLayout, check_name};
use crate::commit::{Applied, Request};
use crate::gathered::{Admitted, Gathered};
use crate::handle::Table;
use crate::large::{Stream, Streamed, Unpublished, check_value_len};
use crate::memory::FREE_TRANSACTION_BYTES;
use crate::scan::{Cursor, Span};
use crate::scan_mut::CursorMut;
use crate::snapshot::Snapshot;
use crate::spill::{self, Spilled, Spills};
use crate::store::Store;
use crate::value_reader::{Located, ValueReader};
use crate::value_writer::ValueWriter;
use crate::view::Purpose;
use crate::write_set::{Own, Prior, Savepoint, WRITE_COST, WriteSet};
use base::budget::{Charge, Holder};
use base::{Error, ErrorKind, Result, TableId, limits};
use run::PinnedRecord;
use std::ops::Bound;
use std::sync::Arc;
use txn::{Durability, Isolation, RangeToken};

/// More than this in memory is spilled however large the memory is: what stays is one block of the log.
const MOST_LOGGED_BYTES: usize = log::MAX_PAYLOAD_BYTES - (4 << 20);

/// How a transaction runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransactionOptions {
    /// What other transactions' commits may do to it.
    pub isolation: Isolation,
    /// What its own commit survives.
    pub durability: Durability,
}

/// A read-write transaction. Dropped without a commit, it leaves nothing behind. `Send` but not `Sync`.
#[derive(Debug)]
pub struct Transaction {
    snapshot: Snapshot,
    /// Always some; taken by `drop`.
    gathered: Option<Box<Gathered>>,
    options: TransactionOptions,
    /// What its writes may hold in memory, in bytes: what is free, or what was charged.
    paid_bytes: usize,
    charge: Option<Charge>,
    /// What did not fit memory.
    spills: Option<Box<Spills>>,
}

impl Transaction {
    /// Begins at the newest commit applied.
    #[track_caller]
    pub fn begin(store: &Arc<Store>, options: TransactionOptions) -> Result<Self> {
        store.check_open()?;
        store.latch.check()?;
        let snapshot = Snapshot::begin(store, Purpose::Write)?;
        let (gathered, paid_bytes) = (Some(Gathered::take()), FREE_TRANSACTION_BYTES);
        Ok(Transaction { snapshot, gathered, options, paid_bytes, charge: None, spills: None })
    }

    /// The store.
    pub fn store(&self) -> &Arc<Store> {
        self.snapshot.store()
    }

    /// How it runs.
    pub fn options(&self) -> TransactionOptions {
        self.options
    }

    #[inline]
    fn gathered(&self) -> &Gathered {
        self.gathered.as_ref().expect("taken by drop alone")
    }

    #[inline]
    fn writes(&self) -> &WriteSet {
        &self.gathered().writes
    }

    #[inline]
    fn writes_mut(&mut self) -> &mut WriteSet {
        &mut self.gathered.as_mut().expect("taken by drop alone").writes
    }

    fn is_serializable(&self) -> bool {
        self.options.isolation == Isolation::Serializable
    }

    fn note_read(&self, table: TableId, key: &[u8]) {
        if self.is_serializable() {
            self.gathered().reads.borrow_mut().key(table, key);
        }
    }

    /// Checks, once a table, that the handle's row is in the catalog as this transaction sees it.
    #[inline]
    pub(crate) fn admit(&self, table: &Table) -> Result<TableId> {
        self.admitted(table).map(|admitted| admitted.id)
    }

    #[inline]
    fn admitted(&self, table: &Table) -> Result<Admitted> {
        self.snapshot.check_held()?;
        let tables = self.gathered().tables.borrow();
        match tables.iter().find(|(known, admitted)| admitted.good && known.is(table)) {
            Some((_, admitted)) => Ok(*admitted),
            None => {
                drop(tables);
                self.admit_new(table)
            }
        }
    }

    fn admit_new(&self, table: &Table) -> Result<Admitted> {
        match self.writes().get(TableId::CATALOG, table.name().as_bytes()) {
            None => table.check(&self.snapshot)?,
            Some(Own::Value(row)) => table.check_written(self.store(), Some(row))?,
            Some(_) => table.check_written(self.store(), None)?,
        }
        self.know(table)
    }

    fn know(&self, table: &Table) -> Result<Admitted> {
        let admitted = Admitted { id: table.id(), blank: self.snapshot.is_blank(table.id())?, good: true };
        let mut tables = self.gathered().tables.borrow_mut();
        // By handle: a table that was renamed here is known, and asked about at commit, by both names.
        match tables.iter_mut().find(|(known, _)| known.is(table)) {
            Some((_, known)) => *known = admitted,
            None => tables.push((table.clone(), admitted)),
        }
        Ok(admitted)
    }

    /// Has the rows of some tables looked up again at their next use. That they were used is not forgotten: the
    /// commit asks whether somebody dropped them.
    fn distrust(&self, which: impl Fn(TableId) -> bool) {
        let mut tables = self.gathered().tables.borrow_mut();
        tables.iter_mut().filter(|(_, known)| which(known.id)).for_each(|(_, known)| known.good = false);
    }

    fn check_key(&self, key: &[u8]) -> Result<()> {
        let most = limits::max_key_bytes(self.store().page_bytes);
        if key.len() > most {
            let message =
                format!("a key has {} bytes; pages of this database hold at most {most}", key.len());
            return Err(Error::invalid(message));
        }
        Ok(())
    }

    pub(crate) fn check_record(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.check_key(key)?;
        check_value_len(self.store(), value.len())
    }

    /// Puts `value`; if it is large, into the data file.
    #[inline]
    fn write(&mut self, table: TableId, key: &[u8], value: &[u8], prior: Prior) -> Result<()> {
        if value.len() > self.store().large_bytes {
            return self.write_large(table, key, value, prior);
        }
        self.pay_for(WRITE_COST + key.len() + value.len())?;
        self.writes_mut().put(table, key, value, prior);
        Ok(())
    }

    #[cold]
    fn write_large(&mut self, table: TableId, key: &[u8], value: &[u8], prior: Prior) -> Result<()> {
        let mut stream = Stream::new(self.store());
        stream.write(value)?;
        let streamed = stream.finish()?;
        self.write_streamed(table, key, streamed, prior);
        Ok(())
    }

    fn write_streamed(&mut self, table: TableId, key: &[u8], streamed: Streamed, prior: Prior) {
        match streamed {
            Streamed::Logged(value) => self.writes_mut().put(table, key, &value, prior),
            Streamed::Large(value) => self.writes_mut().put_large(table, key, value, prior),
        }
    }

    /// Puts what a [`ValueWriter`] has finished.
    pub(crate) fn put_streamed(&mut self, table: TableId, key: &[u8], streamed: Streamed) {
        self.write_streamed(table, key, streamed, Prior::Unread);
    }

    /// Begins to put a value under `key` a piece at a time.
    pub fn value_writer(&mut self, table: &Table, key: &[u8]) -> Result<ValueWriter<'_>> {
        let id = self.admit(table)?;
        self.check_key(key)?;
        Ok(ValueWriter::new(self, id, key))
    }

    /// Where the value of `key` is, and what guards it if it is this transaction's own.
    fn locate(&self, table: &Table, key: &[u8]) -> Result<Option<(Located, Option<Arc<Unpublished>>)>> {
        let id = self.admit(table)?;
        match self.writes().get(id, key) {
            Some(Own::Value(value)) => Ok(Some((Located::Bytes(value.to_vec()), None))),
            Some(Own::Large(large)) => {
                Ok(Some((Located::Large(large), self.writes().large(id, key).cloned())))
            }
            Some(Own::Deleted) => Ok(None),
            None => match self.find_spilled(id, key)? {
                // Not longer than a value that the log would hold; a reference could outlive the run.
                Some(found) => {
                    let value = spill::value_of(found, &self.store().pool, <[u8]>::to_vec)?;
                    Ok(value.map(|value| (Located::Bytes(value), None)))
                }
                None => {
                    self.note_read(id, key);
                    Ok(self.snapshot.locate_in(id, key)?.map(|located| (located, None)))
                }
            },
        }
    }

    /// A reader of the value of `key`, own writes included. It may outlive the transaction.
    pub fn value_reader(&self, table: &Table, key: &[u8]) -> Result<Option<ValueReader>> {
        let located = self.locate(table, key)?;
        located.map(|(located, own)| ValueReader::new(located, &self.snapshot, own)).transpose()
    }

    /// The length of the value of `key`, in bytes, own writes included.
    pub fn value_len(&self, table: &Table, key: &[u8]) -> Result<Option<u64>> {
        Ok(self.locate(table, key)?.map(|(located, _)| located.len_bytes()))
    }

    /// Sees to it that a write of `bytes` is paid for, before it is made.
    #[inline]
    fn pay_for(&mut self, bytes: usize) -> Result<()> {
        let bytes = self.writes().held_bytes() + bytes;
        if bytes <= self.paid_bytes { Ok(()) } else { self.pay(bytes) }
    }

    #[cold]
    fn pay(&mut self, bytes: usize) -> Result<()> {
        let charge = self.charge.take();
        let mut charge = charge.unwrap_or_else(|| Charge::none(self.store().account(), Holder::WriteSets));
        let is_paid = self.store().raise_charge(&mut charge, bytes);
        self.paid_bytes = self.paid_bytes.max(charge.bytes());
        self.charge = Some(charge);
        if is_paid { Ok(()) } else { Err(self.store().no_memory("the transaction", bytes)) }
    }

    /// A copy of the value of `key`, own writes included.
    pub fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let id = self.admit(table)?;
        match self.writes().get(id, key) {
            Some(Own::Value(value)) => Ok(Some(value.to_vec())),
            Some(Own::Large(large)) => self.store().read_large(large).map(Some),
            Some(Own::Deleted) => Ok(None),
            None if self.spills.is_some() => self.get_below(id, key, <[u8]>::to_vec),
            None => {
                self.note_read(id, key);
                self.snapshot.get_in(id, key)
            }
        }
    }

    /// Runs `with` on the value of `key` where it lies.
    pub fn get_with<T>(&self, table: &Table, key: &[u8], with: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        let id = self.admit(table)?;
        match self.writes().get(id, key) {
            Some(Own::Value(value)) => Ok(Some(with(value))),
            Some(Own::Large(large)) => self.store().read_large(large).map(|value| Some(with(&value))),
            Some(Own::Deleted) => Ok(None),
            None if self.spills.is_some() => self.get_below(id, key, with),
            None => {
                self.note_read(id, key);
                self.snapshot.get_with_in(id, key, with)
            }
        }
    }

    /// What was spilled says of `key`; else the snapshot, from which it was read then.
    #[cold]
    fn get_below<T>(&self, table: TableId, key: &[u8], with: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        match self.find_spilled(table, key)? {
            Some(found) => spill::value_of(found, &self.store().pool, with),
            None => {
                self.note_read(table, key);
                self.snapshot.get_with_in(table, key, with)
            }
        }
    }

    fn find_spilled(&self, table: TableId, key: &[u8]) -> Result<Option<Option<PinnedRecord>>> {
        match &self.spills {
            Some(spills) => spills.find(self.store(), self.snapshot.reader(), table, key),
            None => Ok(None),
        }
    }

    /// [`Transaction::make_room`] for a record; a large value lies in the data file.
    #[inline]
    fn make_room_for(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let is_large = value.len() > self.store().large_bytes;
        self.make_room(key.len() + if is_large { base::LargeRef::BYTES } else { value.len() })
    }

    /// Spills the write set if another `bytes` would take it past its bound.
    #[inline]
    fn make_room(&mut self, bytes: usize) -> Result<()> {
        let writes = self.writes();
        let is_full = writes.bytes() + bytes > self.store().shares.write_set_bytes
            || writes.logged_bytes() + bytes > MOST_LOGGED_BYTES;
        if is_full && !writes.is_empty() {
            self.spill()?;
        }
        match self.pay_for(WRITE_COST + bytes) {
            // The budget has none left: what is in memory need not be there.
            Err(error) if error.kind() == ErrorKind::Full && !self.writes().is_empty() => {
                self.spill()?;
                self.pay_for(WRITE_COST + bytes)
            }
            paid => paid,
        }
    }

    /// Writes what is in memory to the data file, as runs of this transaction.
    ///
    /// # Errors
    /// [`ErrorKind::Full`] and those of writing: the write that asked for it was not done, all others are as before.
    #[cold]
    pub fn spill(&mut self) -> Result<()> {
        self.latch_check()?;
        let store = Arc::clone(self.store());
        let spills = self.spills.get_or_insert_with(|| Box::new(Spills::new(&store)));
        let gathered = self.gathered.as_mut().expect("taken by drop alone");
        spills.spill(self.snapshot.reader(), &mut gathered.writes, gathered.reads.get_mut())
    }

    /// Adds a run that was built beside the write set, which is empty.
    pub(crate) fn push_spilled(&mut self, table: TableId, spilled: Spilled) -> Result<()> {
        let store = Arc::clone(self.store());
        let spills = self.spills.get_or_insert_with(|| Box::new(Spills::new(&store)));
        let gathered = self.gathered.as_mut().expect("taken by drop alone");
        let reads = gathered.reads.get_mut();
        spills.push(self.snapshot.reader(), &mut gathered.writes, reads, table, spilled)
    }

    fn latch_check(&self) -> Result<()> {
        self.store().check_open()?;
        self.store().latch.check()
    }

    /// Whether `key` is present.
    pub fn contains(&self, table: &Table, key: &[u8]) -> Result<bool> {
        let id = self.admit(table)?;
        match self.writes().get(id, key) {
            Some(own) => Ok(own != Own::Deleted),
            None => match self.find_spilled(id, key)? {
                Some(found) => Ok(found.is_some()),
                None => {
                    self.note_read(id, key);
                    self.snapshot.contains_in(id, key)
                }
            },
        }
    }

    /// Sets `key` to `value`, whatever it was.
    pub fn put(&mut self, table: &Table, key: &[u8], value: &[u8]) -> Result<()> {
        let id = self.admit(table)?;
        self.put_in(id, key, value)
    }

    #[inline]
    pub(crate) fn put_in(&mut self, id: TableId, key: &[u8], value: &[u8]) -> Result<()> {
        self.check_record(key, value)?;
        self.make_room_for(key, value)?;
        self.write(id, key, value, Prior::Unread)
    }

    /// Sets `key` to `value` if it is absent.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] if it is present; the transaction goes on.
    pub fn insert(&mut self, table: &Table, key: &[u8], value: &[u8]) -> Result<()> {
        let Admitted { id, blank, .. } = self.admitted(table)?;
        self.check_record(key, value)?;
        self.make_room_for(key, value)?;
        // That the key was read is remembered with its write; a duplicate writes nothing, so its read is noted.
        let (present, prior) = match self.writes().get(id, key) {
            Some(own) => (own != Own::Deleted, Prior::Unread),
            None => match self.find_spilled(id, key)? {
                Some(found) => (found.is_some(), Prior::Unread),
                None => (!blank && self.snapshot.contains_in(id, key)?, Prior::Read),
            },
        };
        if present {
            if prior == Prior::Read {
                self.note_read(id, key);
            }
            return Err(exists(table, key));
        }
        let written = self.write(id, key, value, prior);
        if written.is_err() && prior == Prior::Read {
            // No write remembers that the key was found absent, and the caller may have understood it.
            self.note_read(id, key);
        }
        written
    }

    /// Removes `key`, present or not; reads nothing and so conflicts with nobody.
    pub fn delete(&mut self, table: &Table, key: &[u8]) -> Result<()> {
        let id = self.admit(table)?;
        self.check_key(key)?;
        self.make_room(key.len())?;
        self.writes_mut().delete(id, key, Prior::Unread);
        Ok(())
    }

    /// Removes `key` and returns its value.
    pub fn remove(&mut self, table: &Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let old = self.get(table, key)?;
        if old.is_some() {
            self.make_room(key.len())?;
            self.writes_mut().delete(table.id(), key, Prior::Unread);
        }
        Ok(old)
    }

    /// Removes every key in `span`, unread: the cost does not depend on how many there are.
    pub fn delete_range(&mut self, table: &Table, span: &Span) -> Result<()> {
        let id = self.admit(table)?;
        let (start, end) = (span.start(), span.end());
        // Right behind the longest key there is the bound that is one byte longer.
        let longest = limits::max_key_bytes(self.store().page_bytes) + 1;
        if start.len() > longest || end.is_some_and(|end| end.len() > longest) {
            return Err(Error::invalid(format!("a bound of a range has at most {longest} bytes")));
        }
        if end.is_none_or(|end| start < end) {
            self.make_room(start.len() + end.map_or(0, <[u8]>::len))?;
            self.writes_mut().delete_range(id, start, end);
        }
        Ok(())
    }

    /// Sets `key` to `new` (`None`: removes it) if its value is `expected` (`None`: absent). Answers whether it did.
    pub fn compare_and_swap(
        &mut self,
        table: &Table,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool> {
        let same = self.get_with(table, key, |value| expected == Some(value))?.unwrap_or(expected.is_none());
        if same {
            match new {
                Some(value) => self.put(table, key, value)?,
                None => self.delete(table, key)?,
            }
        }
        Ok(same)
    }

    /// A cursor over the keys in `span`, own writes included. What it passes is part of what was read.
    pub fn cursor(&self, table: &Table, span: Span) -> Result<Cursor<'_>> {
        let id = self.admit(table)?;
        let reads = self.is_serializable().then_some(&self.gathered().reads);
        let spills = self.spills.as_deref();
        Cursor::over_transaction(&self.snapshot, self.writes(), spills, reads, id, span)
    }

    /// A cursor over the keys in `span` that can also put and delete where it stands.
    pub fn cursor_mut(&mut self, table: &Table, span: Span) -> Result<CursorMut<'_>> {
        self.admit(table)?;
        Ok(CursorMut::new(self, table.clone(), span))
    }

    /// A cursor whose user notes what was read itself.
    pub(crate) fn cursor_untracked(&self, table: &Table, span: Span) -> Result<Cursor<'_>> {
        let id = self.admit(table)?;
        Cursor::over_transaction(&self.snapshot, self.writes(), self.spills.as_deref(), None, id, span)
    }

    pub(crate) fn track_range(&self, table: &Table, low: &[u8], high: Bound<&[u8]>) -> Option<RangeToken> {
        self.is_serializable().then(|| self.gathered().reads.borrow_mut().range(table.id(), low, high))
    }

    pub(crate) fn extend_range_high(&self, token: RangeToken, high: Bound<&[u8]>) {
        self.gathered().reads.borrow_mut().extend_high(token, high);
    }

    pub(crate) fn extend_range_low(&self, token: RangeToken, low: &[u8]) {
        self.gathered().reads.borrow_mut().extend_low(token, low);
    }

    /// Marks a point to which [`Transaction::rollback_to`] can return. Savepoints nest.
    pub fn savepoint(&mut self) -> Savepoint {
        // What is in memory now would have to stay there for as long as the savepoint does.
        let frozen_bytes = self.spills.as_ref().map_or(0, |spills| spills.frozen_bytes());
        let most_bytes = self.store().shares.write_set_bytes / 4;
        if self.writes().bytes() + frozen_bytes > most_bytes && !self.writes().is_empty() {
            // Not possible now: then it stays in memory, and the next write that finds no room tells why.
            let _ = self.spill();
        }
        self.writes_mut().savepoint()
    }

    /// Undoes every write since `savepoint`. What was read stays read.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if an earlier savepoint was rolled back to since.
    pub fn rollback_to(&mut self, savepoint: &Savepoint) -> Result<()> {
        let gathered = self.gathered.as_mut().expect("taken by drop alone");
        match &mut self.spills {
            Some(spills) if !gathered.writes.knows(*savepoint) => {
                spills.thaw(&mut gathered.writes, gathered.reads.get_mut(), *savepoint)?;
            }
            _ => gathered.writes.rollback_to(*savepoint)?,
        }
        // A table made since the savepoint is no more, one dropped since is again. Used they were all the same.
        self.distrust(|_| true);
        Ok(())
    }

    /// Gives up `savepoint` and those made after it; what was written stays. O(changes since), and frees the memory
    /// that going back would have needed.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if an earlier savepoint was rolled back to since.
    pub fn release(&mut self, savepoint: &Savepoint) -> Result<()> {
        let gathered = self.gathered.as_mut().expect("taken by drop alone");
        match &mut self.spills {
            Some(spills) if !gathered.writes.knows(*savepoint) => spills.release(*savepoint),
            _ => gathered.writes.release(*savepoint),
        }
    }

    /// The table named `name`, as this transaction sees it.
    pub fn table(&self, name: &str) -> Result<Option<Table>> {
        check_name(name)?;
        let row = match self.writes().get(TableId::CATALOG, name.as_bytes()) {
            Some(Own::Value(row)) => Some(row.to_vec()),
            Some(_) => None,
            None => {
                self.note_read(TableId::CATALOG, name.as_bytes());
                return self.snapshot.table(name);
            }
        };
        row.map(|row| Ok(Table::uncommitted(self.store(), name, TableRow::decode(name.as_bytes(), &row)?)))
            .transpose()
    }

    /// Makes a table.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] if there is one of that name.
    pub fn create_table(&mut self, name: &str, layout: WantedLayout) -> Result<Table> {
        if self.table(name)?.is_some() {
            return Err(Error::new(ErrorKind::Exists, format!("table {name:?} exists already")));
        }
        let row = TableRow { id: self.store().claim_table_id(), layout };
        self.writes_mut().put(TableId::CATALOG, name.as_bytes(), &row.encode(), Prior::Unread);
        let table = Table::uncommitted(self.store(), name, row);
        self.know(&table)?;
        Ok(table)
    }

    /// Drops a table with all it holds, unread.
    ///
    /// # Errors
    /// [`ErrorKind::Missing`] if it does not exist.
    pub fn drop_table(&mut self, table: &Table) -> Result<()> {
        let id = self.admit_name(table)?;
        self.writes_mut().delete_range(id, &[], None);
        self.writes_mut().delete(TableId::CATALOG, table.name().as_bytes(), Prior::Unread);
        self.distrust(|known| known == id);
        Ok(())
    }

    /// Gives a table another name, and returns a handle under that. Its id and its records stay, and nothing is copied.
    /// Conflicts as a drop does: with every transaction that used the table and commits later, or has committed since.
    /// From here on other handles answer [`ErrorKind::Missing`], in this transaction too: their name may be another
    /// table's, and a floor above may have given the records another meaning with the name.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] if there is a table of that name, [`ErrorKind::Missing`] if this one does not exist.
    pub fn rename_table(&mut self, table: &Table, name: &str) -> Result<Table> {
        let id = self.admit_name(table)?;
        if self.table(name)?.is_some() {
            return Err(Error::new(ErrorKind::Exists, format!("table {name:?} exists already")));
        }
        let row = TableRow { id, layout: self.wanted_layout(table)? };
        let writes = self.writes_mut();
        writes.delete(TableId::CATALOG, table.name().as_bytes(), Prior::Unread);
        writes.put(TableId::CATALOG, name.as_bytes(), &row.encode(), Prior::Unread);
        self.distrust(|known| known == id);
        Ok(Table::uncommitted(self.store(), name, row))
    }

    /// Asks for another layout. Nothing is rewritten by this: the checkpoints and merges that come write the table in
    /// the new one, while it is read and written as before. Conflicts as [`Transaction::rename_table`] does, for a
    /// moment.
    ///
    /// # Errors
    /// [`ErrorKind::Missing`] if the table does not exist.
    pub fn set_layout(&mut self, table: &Table, layout: WantedLayout) -> Result<()> {
        let id = self.admit_name(table)?;
        if self.wanted_layout(table)? != layout {
            let row = TableRow { id, layout };
            self.writes_mut().put(TableId::CATALOG, table.name().as_bytes(), &row.encode(), Prior::Unread);
        }
        Ok(())
    }

    /// The layout that the catalog says now: a handle may be older.
    fn wanted_layout(&self, table: &Table) -> Result<WantedLayout> {
        Ok(self.table(table.name())?.map_or(table.layout(), |found| found.layout()))
    }

    /// Checks that the table has the handle's name still: what changes the catalog's row needs that, and not the
    /// id alone.
    fn admit_name(&self, table: &Table) -> Result<TableId> {
        let id = self.admit(table)?;
        self.note_read(TableId::CATALOG, table.name().as_bytes());
        if self.table(table.name())?.is_none_or(|found| found.id() != id) {
            let message = format!("table {:?} does not exist (renamed in this transaction)", table.name());
            return Err(Error::new(ErrorKind::Missing, message));
        }
        Ok(id)
    }

    /// Bytes that its writes hold in memory.
    pub fn bytes(&self) -> usize {
        self.writes().bytes()
    }

    /// Whether it wrote nothing so far.
    pub fn is_read_only(&self) -> bool {
        self.writes().is_empty() && self.spills.as_ref().is_none_or(|spills| spills.is_empty())
    }

    /// Steps 1 to 6 of the commit; [`Store::acknowledge`] takes the rest.
    ///
    /// # Errors
    /// [`ErrorKind::SnapshotTooOld`] if its snapshot was revoked, among others.
    pub fn apply(mut self) -> Result<Applied> {
        self.snapshot.check_held()?;
        // The commit record is about as long as the writes.
        if self.spills.is_none() {
            self.pay_for(self.bytes())?;
        }
        // What the commit is validated against stays readable for as long as the view does.
        let _call = self.snapshot.call()?.aside();
        let Gathered { writes, reads, tables, record } =
            &mut **self.gathered.as_mut().expect("taken by drop alone");
        let mut request = Request {
            begin: self.snapshot.ts(),
            reads: reads.get_mut(),
            writes,
            record,
            tables: tables.get_mut(),
            isolation: self.options.isolation,
            durability: self.options.durability,
            reader: self.snapshot.reader(),
            spills: self.spills.take(),
        };
        self.snapshot.store().apply(&mut request)
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.gathered.take().expect("taken here alone").keep();
    }
}

#[cold]
fn exists(table: &Table, key: &[u8]) -> Error {
    let (name, key) = (table.name(), key.escape_ascii());
    Error::new(ErrorKind::Exists, format!("table {name:?} has the key \"{key}\" already"))
}
