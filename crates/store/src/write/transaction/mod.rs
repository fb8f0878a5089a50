//! A read-write transaction: a snapshot, the private writes over it, and what was read on the way.
//!
//! It begins and ends here. `reads` looks keys up, through its own writes; `writes` collects them, and `gap` saves
//! some look-ups; `room` charges their memory, and spills them when it does not suffice.

mod gap;
mod reads;
mod room;
mod writes;

use crate::commit::{Applied, Repeated, Request};
use crate::read::handle::Admitted;
use crate::read::handle::Table;
use crate::read::snapshot::Snapshot;
use crate::state::expiry::ReaderId;
use crate::state::memory::FREE_TRANSACTION_BYTES;
use crate::state::store::Store;
use crate::state::ttl::{Reading, Ttl};
use crate::state::view::Purpose;
use crate::uncommitted::spill::Spills;
use crate::uncommitted::write_set::{Savepoint, WriteSet};
use crate::write::scratch::Scratch;
use base::budget::Charge;
use base::{Result, TableId, Value};
use std::sync::Arc;
use txn::{Durability, Isolation, RangeToken};

/// The options of a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransactionOptions {
    /// The isolation from other transactions' commits.
    pub isolation: Isolation,
    /// The durability of the transaction's commit.
    pub durability: Durability,
}

/// A read-write transaction. If it is dropped without a commit, it has no effect. It is `Send` but not `Sync`.
#[derive(Debug)]
pub struct Transaction {
    pub(crate) snapshot: Snapshot,
    /// The buffers. They are always some until `drop` takes them.
    scratch: Option<Box<Scratch>>,
    options: TransactionOptions,
    /// The memory that its writes may hold, in bytes: what is free, or what was charged.
    paid_bytes: usize,
    charge: Option<Charge>,
    /// The writes that did not fit into memory.
    pub(crate) spills: Option<Box<Spills>>,
    /// The range that the writing cursor has passed; there is one at a time.
    range: Option<RangeToken>,
    /// The tables whose TTL it changes, with the values when it began.
    pub(crate) ttls_before: Vec<(TableId, Ttl)>,
    /// The commit of another database that it repeats.
    pub(crate) repeats: Option<Repeated>,
}

impl Transaction {
    /// Begins a transaction at the newest applied commit.
    #[track_caller]
    pub fn begin(store: &Arc<Store>, options: TransactionOptions) -> Result<Self> {
        store.check_open()?;
        store.latch.check()?;
        let snapshot = Snapshot::begin(store, Purpose::Write)?;
        let (scratch, paid_bytes) = (Some(Scratch::take()), FREE_TRANSACTION_BYTES);
        let (charge, spills, range, ttls_before) = (None, None, None, Vec::new());
        let repeats = None;
        Ok(Transaction {
            snapshot,
            scratch,
            options,
            paid_bytes,
            charge,
            spills,
            range,
            ttls_before,
            repeats,
        })
    }

    /// Returns the store.
    pub fn store(&self) -> &Arc<Store> {
        self.snapshot.store()
    }

    /// Returns its options.
    pub fn options(&self) -> TransactionOptions {
        self.options
    }

    /// Returns the time by which entries have expired for it: see [`Snapshot::time_ms`].
    pub fn time_ms(&self) -> u64 {
        self.snapshot.time_ms()
    }

    /// Returns whether it has written nothing so far.
    pub fn is_read_only(&self) -> bool {
        self.writes().is_empty() && self.spills.as_ref().is_none_or(|spills| spills.is_empty())
    }

    /// Marks a point to which [`Transaction::rollback_to`] can return. Savepoints nest.
    pub fn savepoint(&mut self) -> Savepoint {
        // The data in memory would otherwise have to stay there as long as the savepoint.
        let (frozen_bytes, least_bytes) =
            self.spills.as_ref().map_or((0, 0), |spills| (spills.frozen_bytes(), spills.least_bytes));
        let (bytes, most_bytes) = (self.writes().bytes(), self.store().memory.shares.write_set_bytes / 4);
        // Where savepoints are many, each would be a run of its own.
        let is_worth_it = bytes > least_bytes.max(most_bytes / 16);
        if bytes + frozen_bytes > most_bytes && is_worth_it {
            // If that is impossible now, it stays in memory, and the next write that finds no room returns the error.
            // The attempt may have waited for memory, so the next one is not made soon.
            let failed = self.spill().is_err();
            if let Some(spills) = &mut self.spills {
                spills.least_bytes = if failed { 2 * bytes } else { 0 };
            }
        }
        self.writes_mut().savepoint()
    }

    /// Undoes every write since `savepoint`. Reads remain in the read set.
    ///
    /// # Errors
    /// [`base::ErrorKind::Invalid`] if the savepoint was released, or an earlier one was rolled back to since.
    pub fn rollback_to(&mut self, savepoint: &Savepoint) -> Result<()> {
        let scratch = self.scratch.as_mut().expect("taken by drop alone");
        match &mut self.spills {
            Some(spills) if !scratch.writes.knows(*savepoint) => {
                let thawed = spills.thaw(&mut scratch.writes, &scratch.reads, *savepoint);
                self.settle();
                thawed?;
            }
            _ => scratch.writes.rollback_to(*savepoint)?,
        }
        // A table created since the savepoint does not exist again, and one dropped since exists again. Both were used.
        self.distrust_all();
        self.undo_made_since(*savepoint);
        Ok(())
    }

    /// Releases `savepoint` and those made after it; the writes remain. O(changes since). It frees the memory that a
    /// rollback would have needed.
    ///
    /// # Errors
    /// [`base::ErrorKind::Invalid`] if an earlier savepoint was rolled back to since.
    pub fn release(&mut self, savepoint: &Savepoint) -> Result<()> {
        let scratch = self.scratch.as_mut().expect("taken by drop alone");
        match &mut self.spills {
            Some(spills) if !scratch.writes.knows(*savepoint) => {
                spills.release(*savepoint)?;
                scratch.writes.release_all();
                self.settle();
                Ok(())
            }
            _ => scratch.writes.release(*savepoint),
        }
    }

    /// Returns a snapshot of the moment at which it began, without its own writes.
    #[track_caller]
    pub fn snapshot(&self) -> Result<Snapshot> {
        self.snapshot.try_clone()
    }

    /// Returns the identity by which [`Store::readers`] lists the transaction.
    pub fn reader_id(&self) -> ReaderId {
        ReaderId::of_reader(self.snapshot.reader())
    }

    /// Validates the transaction, appends it to the log and applies it, which are steps 1 to 6 of the commit.
    /// [`Store::acknowledge`] completes it.
    ///
    /// # Errors
    /// [`base::ErrorKind::SnapshotTooOld`] if its snapshot was revoked, among others.
    pub fn apply(mut self) -> Result<Applied> {
        self.snapshot.check_held()?;
        if let Some(spills) = &mut self.spills {
            // Their memory is needed for the rest of the commit.
            spills.forget_savepoints();
            self.writes_mut().release_all();
            if self.should_spill_rest() {
                self.spill()?;
            }
        }
        // The commit record is about as long as the writes.
        if self.spills.is_none()
            && let Err(error) = self.pay_for(self.bytes())
        {
            self.spill_after(error)?;
        }
        let mut should_spill = false;
        match self.try_apply(&mut should_spill) {
            Err(error) if should_spill => {
                // The record is encoded anew, and is short then.
                self.scratch.as_mut().expect("taken by drop alone").record = Vec::new();
                self.spill_after(error)?;
                self.try_apply(&mut should_spill)
            }
            applied => applied,
        }
    }

    /// Makes one attempt at steps 1 to 6 of the commit. After an error, says in `should_spill` whether the commit can
    /// succeed if the writes are spilled, as they have needed memory that was not there.
    fn try_apply(&mut self, should_spill: &mut bool) -> Result<Applied> {
        // The history for validation stays readable as long as the view does.
        let _call = self.snapshot.call()?.suspend();
        let scratch = self.scratch.as_mut().expect("taken by drop alone");
        let mut request = Request {
            // What was spilled before is used up by an attempt. If it was rolled back, it still says what was read.
            can_spill: self.spills.is_none(),
            spills: self.spills.take(),
            ttls_before: &self.ttls_before,
            repeats: self.repeats,
            ..request(&self.snapshot, scratch, self.options)
        };
        let applied = self.snapshot.store().apply(&mut request);
        *should_spill = request.should_spill;
        let applied = applied?;
        if !scratch.made.get_mut().is_empty() {
            // The handles are valid for everyone now.
            scratch.made.get_mut().clear();
        }
        Ok(applied)
    }

    /// Checks without a commit that no other commit so far has changed what it depends on.
    ///
    /// # Errors
    /// Those of [`Transaction::apply`] that are about other commits.
    pub fn check(&mut self) -> Result<()> {
        self.snapshot.check_held()?;
        self.latch_check()?;
        if self.is_read_only() {
            return Ok(());
        }
        let _call = self.snapshot.call()?.suspend();
        let scratch = self.scratch.as_mut().expect("taken by drop alone");
        let request = request(&self.snapshot, scratch, self.options);
        self.snapshot.store().validate_ahead(&request, self.spills.as_deref(), request.begin).map(drop)
    }

    #[inline]
    pub(crate) fn scratch(&self) -> &Scratch {
        self.scratch.as_ref().expect("taken by drop alone")
    }

    #[inline]
    pub(crate) fn writes(&self) -> &WriteSet {
        &self.scratch().writes
    }

    #[inline]
    pub(crate) fn writes_mut(&mut self) -> &mut WriteSet {
        &mut self.scratch.as_mut().expect("taken by drop alone").writes
    }

    fn is_serializable(&self) -> bool {
        self.options.isolation == Isolation::Serializable
    }

    /// Checks, once for each table, that the handle's row is in the catalog as this transaction sees it.
    #[inline]
    pub(crate) fn admit(&self, table: &Table) -> Result<TableId> {
        self.admitted(table).map(|admitted| admitted.id)
    }

    #[inline]
    pub(crate) fn admitted(&self, table: &Table) -> Result<Admitted> {
        self.snapshot.check_held()?;
        let known = self.scratch().tables.borrow().get(table);
        match known {
            Some(admitted) => Ok(admitted),
            None => self.admit_new(table),
        }
    }

    /// Returns whether the handle's row was found before, so that [`Transaction::admitted`] looks nothing up.
    fn has_admitted(&self, table: &Table) -> bool {
        self.scratch().tables.borrow().get(table).is_some()
    }

    fn admit_new(&self, table: &Table) -> Result<Admitted> {
        let reading = match self.writes().get(TableId::CATALOG, table.name().as_bytes()) {
            None => table.check(&self.snapshot)?,
            Some(Value::Inline(row)) => table.check_written(&self.snapshot, Some(row))?,
            Some(_) => table.check_written(&self.snapshot, None)?,
        };
        self.know(table, reading)
    }

    pub(crate) fn know(&self, table: &Table, reading: Reading) -> Result<Admitted> {
        let blank = self.snapshot.is_blank(table.id())?;
        let admitted = Admitted { id: table.id(), blank, reading, good: true };
        // By its handle: a table that was renamed here is known, and validated at commit, by both names.
        self.scratch().tables.borrow_mut().note(table, admitted);
        Ok(admitted)
    }

    /// Makes the rows of all tables be looked up again at their next use. It is not forgotten that they were used: the
    /// commit checks whether another transaction dropped them.
    pub(crate) fn distrust_all(&self) {
        self.scratch().tables.borrow_mut().distrust_all();
    }

    /// Makes the row of one table be looked up again at its next use; see [`Transaction::distrust_all`].
    pub(crate) fn distrust(&self, id: TableId) {
        self.scratch().tables.borrow_mut().distrust(id);
    }

    fn latch_check(&self) -> Result<()> {
        self.store().check_open()?;
        self.store().latch.check()
    }
}

/// Returns the parts of a commit that every transaction has.
#[inline]
fn request<'a>(snapshot: &'a Snapshot, scratch: &'a mut Scratch, options: TransactionOptions) -> Request<'a> {
    let Scratch { writes, reads, tables, made: _, record, dated: _, gap: _ } = scratch;
    Request {
        begin: snapshot.ts(),
        reads: reads.set(),
        writes,
        record,
        tables: tables.get_mut(),
        isolation: options.isolation,
        durability: options.durability,
        reader: snapshot.reader(),
        spills: None,
        spilled: None,
        ttls_before: &[],
        repeats: None,
        can_spill: false,
        should_spill: false,
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.scratch.take().expect("taken here alone").keep();
    }
}
