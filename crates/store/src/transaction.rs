//! A read-write transaction: a snapshot, the private writes over it, and what was read on the way.

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
use crate::ttl::{DATE_BYTES, Reading, Ttl};
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
    pub(crate) snapshot: Snapshot,
    /// Always some; taken by `drop`.
    gathered: Option<Box<Gathered>>,
    options: TransactionOptions,
    /// What its writes may hold in memory, in bytes: what is free, or what was charged.
    paid_bytes: usize,
    charge: Option<Charge>,
    /// What did not fit memory.
    pub(crate) spills: Option<Box<Spills>>,
    /// The tables to which it gave a TTL, with what they had when it began.
    pub(crate) ttls_before: Vec<(TableId, Ttl)>,
}

impl Transaction {
    /// Begins at the newest commit applied.
    #[track_caller]
    pub fn begin(store: &Arc<Store>, options: TransactionOptions) -> Result<Self> {
        store.check_open()?;
        store.latch.check()?;
        let snapshot = Snapshot::begin(store, Purpose::Write)?;
        let (gathered, paid_bytes) = (Some(Gathered::take()), FREE_TRANSACTION_BYTES);
        let (charge, spills, ttls_before) = (None, None, Vec::new());
        Ok(Transaction { snapshot, gathered, options, paid_bytes, charge, spills, ttls_before })
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
    pub(crate) fn writes(&self) -> &WriteSet {
        &self.gathered().writes
    }

    #[inline]
    pub(crate) fn writes_mut(&mut self) -> &mut WriteSet {
        &mut self.gathered.as_mut().expect("taken by drop alone").writes
    }

    fn is_serializable(&self) -> bool {
        self.options.isolation == Isolation::Serializable
    }

    pub(crate) fn note_read(&self, table: TableId, key: &[u8]) {
        if self.is_serializable() {
            self.gathered().reads.borrow_mut().key(table, key);
        }
    }

    /// The time by which it knows what has expired: see [`Snapshot::time_ms`].
    pub fn time_ms(&self) -> u64 {
        self.snapshot.time_ms()
    }

    /// Checks, once a table, that the handle's row is in the catalog as this transaction sees it.
    #[inline]
    pub(crate) fn admit(&self, table: &Table) -> Result<TableId> {
        self.admitted(table).map(|admitted| admitted.id)
    }

    #[inline]
    pub(crate) fn admitted(&self, table: &Table) -> Result<Admitted> {
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
        let reading = match self.writes().get(TableId::CATALOG, table.name().as_bytes()) {
            None => table.check(&self.snapshot)?,
            Some(Own::Value(row)) => table.check_written(&self.snapshot, Some(row))?,
            Some(_) => table.check_written(&self.snapshot, None)?,
        };
        self.know(table, reading)
    }

    pub(crate) fn know(&self, table: &Table, reading: Reading) -> Result<Admitted> {
        let blank = self.snapshot.is_blank(table.id())?;
        let admitted = Admitted { id: table.id(), blank, reading, good: true };
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
    pub(crate) fn distrust(&self, which: impl Fn(TableId) -> bool) {
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
    fn write(&mut self, of: Admitted, key: &[u8], value: &[u8], prior: Prior) -> Result<()> {
        if of.reading.is_dated() {
            self.write_dated(of.id, key, value, prior)
        } else {
            self.store_value(of.id, key, value, prior)
        }
    }

    /// Likewise, behind the date. The snapshot's time is older: it was fixed when the table was admitted.
    fn write_dated(&mut self, table: TableId, key: &[u8], value: &[u8], prior: Prior) -> Result<()> {
        let date = self.date();
        let mut dated = std::mem::take(&mut self.gathered.as_mut().expect("taken by drop alone").dated);
        dated.clear();
        dated.extend_from_slice(&date);
        dated.extend_from_slice(value);
        let written = self.store_value(table, key, &dated, prior);
        self.gathered.as_mut().expect("taken by drop alone").dated = dated;
        written
    }

    /// What stands in front of a value that is put now into a table with a TTL.
    pub(crate) fn date(&self) -> [u8; DATE_BYTES] {
        self.store().time.now_ms().to_le_bytes()
    }

    #[inline]
    fn store_value(&mut self, table: TableId, key: &[u8], value: &[u8], prior: Prior) -> Result<()> {
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
        let admitted = self.admitted(table)?;
        self.check_key(key)?;
        ValueWriter::new(self, admitted, key)
    }

    /// Where the value of `key` is, and what guards it if it is this transaction's own.
    fn locate(&self, table: &Table, key: &[u8]) -> Result<Option<(Located, Option<Arc<Unpublished>>)>> {
        let Admitted { id, reading, .. } = self.admitted(table)?;
        match self.writes().get(id, key) {
            Some(Own::Value(stored)) => {
                Ok(reading.value(stored)?.map(|value| (Located::Bytes(value.to_vec()), None)))
            }
            Some(Own::Large(large)) => {
                let own = || self.writes().large(id, key).cloned();
                Ok(Located::of_large(large, reading).map(|located| (located, own())))
            }
            Some(Own::Deleted) => Ok(None),
            None => match self.find_spilled(id, key)? {
                // Not longer than a value that the log would hold; a reference could outlive the run.
                Some(found) => {
                    let value = spill::value_of(found, reading, &self.store().pool, <[u8]>::to_vec)?;
                    Ok(value.map(|value| (Located::Bytes(value), None)))
                }
                None => {
                    self.note_read(id, key);
                    Ok(self.snapshot.locate_in(id, reading, key)?.map(|located| (located, None)))
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
        let Admitted { id, reading, .. } = self.admitted(table)?;
        match self.writes().get(id, key) {
            Some(Own::Value(stored)) => Ok(reading.value(stored)?.map(<[u8]>::to_vec)),
            Some(Own::Large(large)) => self.snapshot.large_copy(reading, large),
            Some(Own::Deleted) => Ok(None),
            None if self.spills.is_some() => self.get_below(id, reading, key, <[u8]>::to_vec),
            None => {
                self.note_read(id, key);
                self.snapshot.get_in(id, reading, key)
            }
        }
    }

    /// Runs `with` on the value of `key` where it lies.
    pub fn get_with<T>(&self, table: &Table, key: &[u8], with: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        let Admitted { id, reading, .. } = self.admitted(table)?;
        match self.writes().get(id, key) {
            Some(Own::Value(stored)) => Ok(reading.value(stored)?.map(with)),
            Some(Own::Large(large)) => Ok(self.snapshot.large_copy(reading, large)?.as_deref().map(with)),
            Some(Own::Deleted) => Ok(None),
            None if self.spills.is_some() => self.get_below(id, reading, key, with),
            None => {
                self.note_read(id, key);
                self.snapshot.get_with_in(id, reading, key, with)
            }
        }
    }

    /// What was spilled says of `key`; else the snapshot, from which it was read then.
    #[cold]
    fn get_below<T>(
        &self,
        table: TableId,
        reading: Reading,
        key: &[u8],
        with: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>> {
        match self.find_spilled(table, key)? {
            Some(found) => spill::value_of(found, reading, &self.store().pool, with),
            None => {
                self.note_read(table, key);
                self.snapshot.get_with_in(table, reading, key, with)
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
    fn make_room_for(&mut self, of: Admitted, key: &[u8], value: &[u8]) -> Result<()> {
        let value_bytes = of.reading.front_bytes() + value.len();
        let is_large = value_bytes > self.store().large_bytes;
        self.make_room(key.len() + if is_large { base::LargeRef::BYTES } else { value_bytes })
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
        let Admitted { id, reading, .. } = self.admitted(table)?;
        // What it wrote itself has not expired: its dates are not before the snapshot's time.
        match self.writes().get(id, key) {
            Some(own) => Ok(own != Own::Deleted),
            None => match self.find_spilled(id, key)? {
                Some(found) => Ok(found.is_some()),
                None => {
                    self.note_read(id, key);
                    self.snapshot.contains_in(id, reading, key)
                }
            },
        }
    }

    /// Sets `key` to `value`, whatever it was.
    pub fn put(&mut self, table: &Table, key: &[u8], value: &[u8]) -> Result<()> {
        let admitted = self.admitted(table)?;
        self.put_in(admitted, key, value)
    }

    #[inline]
    pub(crate) fn put_in(&mut self, of: Admitted, key: &[u8], value: &[u8]) -> Result<()> {
        self.check_record(key, value)?;
        self.make_room_for(of, key, value)?;
        self.write(of, key, value, Prior::Unread)
    }

    /// Sets `key` to `value` if it is absent.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] if it is present; the transaction goes on.
    pub fn insert(&mut self, table: &Table, key: &[u8], value: &[u8]) -> Result<()> {
        let admitted @ Admitted { id, blank, reading, .. } = self.admitted(table)?;
        self.check_record(key, value)?;
        self.make_room_for(admitted, key, value)?;
        // That the key was read is remembered with its write; a duplicate writes nothing, so its read is noted.
        let (present, prior) = match self.writes().get(id, key) {
            Some(own) => (own != Own::Deleted, Prior::Unread),
            None => match self.find_spilled(id, key)? {
                Some(found) => (found.is_some(), Prior::Unread),
                None => (!blank && self.snapshot.contains_in(id, reading, key)?, Prior::Read),
            },
        };
        if present {
            if prior == Prior::Read {
                self.note_read(id, key);
            }
            return Err(exists(table, key));
        }
        let written = self.write(admitted, key, value, prior);
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
        let admitted = self.admitted(table)?;
        let reads = self.is_serializable().then_some(&self.gathered().reads);
        let spills = self.spills.as_deref();
        Cursor::over_transaction(&self.snapshot, self.writes(), spills, reads, admitted, span)
    }

    /// A cursor over the keys in `span` that can also put and delete where it stands.
    pub fn cursor_mut(&mut self, table: &Table, span: Span) -> Result<CursorMut<'_>> {
        self.admit(table)?;
        Ok(CursorMut::new(self, table.clone(), span))
    }

    /// A cursor whose user notes what was read itself.
    pub(crate) fn cursor_untracked(&self, table: &Table, span: Span) -> Result<Cursor<'_>> {
        let of = self.admitted(table)?;
        Cursor::over_transaction(&self.snapshot, self.writes(), self.spills.as_deref(), None, of, span)
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
        let Gathered { writes, reads, tables, record, dated: _ } =
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
            ttls_before: &self.ttls_before,
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
