//! A read-write transaction: a snapshot, the private writes over it, and what was read on the way.
//!
//! It begins and ends here; `reads` looks keys up, through its own writes; `writes` gathers them, and `gap` spares
//! inserts some look-ups; `room` pays for the memory that they take, and spills them when it does not suffice.

mod gap;
mod reads;
mod room;
mod writes;

use crate::commit::{Applied, Repeated, Request};
use crate::read::handle::Admitted;
use crate::read::handle::Table;
use crate::read::snapshot::Snapshot;
use crate::state::memory::FREE_TRANSACTION_BYTES;
use crate::state::store::Store;
use crate::state::ttl::{Reading, Ttl};
use crate::state::view::Purpose;
use crate::uncommitted::spill::Spills;
use crate::uncommitted::write_set::{Own, Savepoint, WriteSet};
use crate::write::gathered::Gathered;
use base::budget::Charge;
use base::{Result, TableId};
use std::sync::Arc;
use txn::{Durability, Isolation, RangeToken};

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
    /// What the cursor that writes has passed; there is one at a time.
    range: Option<RangeToken>,
    /// The tables to which it gave a TTL, with what they had when it began.
    pub(crate) ttls_before: Vec<(TableId, Ttl)>,
    /// The commit of another database that it repeats.
    pub(crate) repeats: Option<Repeated>,
}

impl Transaction {
    /// Begins at the newest commit applied.
    #[track_caller]
    pub fn begin(store: &Arc<Store>, options: TransactionOptions) -> Result<Self> {
        store.check_open()?;
        store.latch.check()?;
        let snapshot = Snapshot::begin(store, Purpose::Write)?;
        let (gathered, paid_bytes) = (Some(Gathered::take()), FREE_TRANSACTION_BYTES);
        let (charge, spills, range, ttls_before) = (None, None, None, Vec::new());
        let repeats = None;
        Ok(Transaction {
            snapshot,
            gathered,
            options,
            paid_bytes,
            charge,
            spills,
            range,
            ttls_before,
            repeats,
        })
    }

    /// The store.
    pub fn store(&self) -> &Arc<Store> {
        self.snapshot.store()
    }

    /// How it runs.
    pub fn options(&self) -> TransactionOptions {
        self.options
    }

    /// The time by which it knows what has expired: see [`Snapshot::time_ms`].
    pub fn time_ms(&self) -> u64 {
        self.snapshot.time_ms()
    }

    /// Whether it wrote nothing so far.
    pub fn is_read_only(&self) -> bool {
        self.writes().is_empty() && self.spills.as_ref().is_none_or(|spills| spills.is_empty())
    }

    /// Marks a point to which [`Transaction::rollback_to`] can return. Savepoints nest.
    pub fn savepoint(&mut self) -> Savepoint {
        // What is in memory now would have to stay there for as long as the savepoint does.
        let frozen_bytes = self.spills.as_ref().map_or(0, |spills| spills.frozen_bytes());
        let most_bytes = self.store().memory.shares.write_set_bytes / 4;
        if self.writes().bytes() + frozen_bytes > most_bytes && !self.writes().is_blank() {
            // Not possible now: then it stays in memory, and the next write that finds no room tells why.
            let _ = self.spill();
        }
        self.writes_mut().savepoint()
    }

    /// Undoes every write since `savepoint`. What was read stays read.
    ///
    /// # Errors
    /// [`base::ErrorKind::Invalid`] if an earlier savepoint was rolled back to since.
    pub fn rollback_to(&mut self, savepoint: &Savepoint) -> Result<()> {
        let gathered = self.gathered.as_mut().expect("taken by drop alone");
        match &mut self.spills {
            Some(spills) if !gathered.writes.knows(*savepoint) => {
                spills.thaw(&mut gathered.writes, &gathered.reads, *savepoint)?;
            }
            _ => gathered.writes.rollback_to(*savepoint)?,
        }
        // A table made since the savepoint is no more, one dropped since is again. Used they were all the same.
        self.distrust(|_| true);
        self.undo_made_since(*savepoint);
        Ok(())
    }

    /// Gives up `savepoint` and those made after it; what was written stays. O(changes since), and frees the memory
    /// that going back would have needed.
    ///
    /// # Errors
    /// [`base::ErrorKind::Invalid`] if an earlier savepoint was rolled back to since.
    pub fn release(&mut self, savepoint: &Savepoint) -> Result<()> {
        let gathered = self.gathered.as_mut().expect("taken by drop alone");
        match &mut self.spills {
            Some(spills) if !gathered.writes.knows(*savepoint) => {
                spills.release(*savepoint)?;
                gathered.writes.release_all();
                Ok(())
            }
            _ => gathered.writes.release(*savepoint),
        }
    }

    /// Steps 1 to 6 of the commit; [`Store::acknowledge`] takes the rest.
    ///
    /// # Errors
    /// [`base::ErrorKind::SnapshotTooOld`] if its snapshot was revoked, among others.
    pub fn apply(mut self) -> Result<Applied> {
        self.snapshot.check_held()?;
        // The commit record is about as long as the writes.
        if self.spills.is_none() {
            self.pay_for(self.bytes())?;
        }
        // What the commit is validated against stays readable for as long as the view does.
        let _call = self.snapshot.call()?.aside();
        let Gathered { writes, reads, tables, made, record, dated: _, gap: _ } =
            &mut **self.gathered.as_mut().expect("taken by drop alone");
        let mut request = Request {
            begin: self.snapshot.ts(),
            reads: reads.set(),
            writes,
            record,
            tables: tables.get_mut(),
            isolation: self.options.isolation,
            durability: self.options.durability,
            reader: self.snapshot.reader(),
            spills: self.spills.take(),
            spilled: (0, 0),
            ttls_before: &self.ttls_before,
            repeats: self.repeats,
        };
        let applied = self.snapshot.store().apply(&mut request)?;
        if !made.get_mut().is_empty() {
            // They are everybody's now.
            made.get_mut().clear();
        }
        Ok(applied)
    }

    #[inline]
    pub(crate) fn gathered(&self) -> &Gathered {
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

    fn latch_check(&self) -> Result<()> {
        self.store().check_open()?;
        self.store().latch.check()
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.gathered.take().expect("taken here alone").keep();
    }
}
