//! How a connection begins to read or to write.

use super::definitions::ensure_tables;
use super::{Open, State, Work, busy, lent, read};
use crate::failure::{BUSY_SNAPSHOT, ERROR, Failure, Outcome, READONLY};
use crate::writers::Turn;
use pando::any::AnyTransaction;
use pando::{Database, Durability, Isolation, ReadTables, WriteTables};
use sqlite_format::names;

/// What SQLite says of a transaction that begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begin {
    pub is_write: bool,
    pub is_autocommit: bool,
    /// It is `BEGIN IMMEDIATE` or `BEGIN EXCLUSIVE`.
    pub is_immediate: bool,
    /// How many named savepoints there are, and whether one of them began the transaction.
    pub savepoints: usize,
    pub is_outermost: bool,
    /// Whether commits wait for the disk. If not, they survive a killed process, but perhaps no power loss.
    pub is_synced: bool,
}

impl State {
    /// Begins to read or to write. `SQLITE_BUSY`: another connection excludes that, and it can be tried again. So does
    /// [`BUSY_FOR_NOW`] say, for what ends by itself.
    pub(crate) fn begin(&mut self, begin: Begin) -> Outcome<()> {
        self.met = None;
        if let Some(failure) = &mut self.failure {
            failure.reason = None;
        }
        match &self.work {
            Work::Failed(failure) => return Err(failure.clone()),
            Work::Lent => return Err(lent()),
            // A further statement of a transaction that writes.
            Work::Open(open) if open.is_writing && open.savepoints.len() >= begin.savepoints => return Ok(()),
            _ => {}
        }
        if (begin.is_write || self.replaces) && self.txn_state() < 2 {
            if self.is_read_only() {
                return Err(self.read_only());
            }
            self.create_if_bare()?;
            self.take_turn(begin.is_immediate || self.replaces)?;
        } else if !begin.is_autocommit && self.txn_state() == 0 && !self.is_read_only() {
            // A store's transaction would not see what is created after it has begun.
            if self.db.native().is_none() {
                self.create_if_bare()?;
            }
            if self.insists {
                // What the transaction reads first is to be unchanged when it writes.
                self.take_turn(false)?;
            }
        }
        let begun = self.begin_work(begin);
        if begun.is_err() {
            self.excluding = None;
        }
        begun
    }

    /// Creates the tables of a database in which SQL has created nothing yet.
    fn create_if_bare(&mut self) -> Outcome<()> {
        if self.is_bare() {
            ensure_tables(&self.db)?;
            self.meta = self.db.table(names::META)?;
        }
        Ok(())
    }

    fn begin_work(&mut self, begin: Begin) -> Outcome<()> {
        let begins = matches!(self.work, Work::Idle | Work::Committed);
        if begins {
            self.begun += 1;
            self.metas = None;
        }
        match &self.work {
            Work::Idle | Work::Committed if self.replaces => {
                self.open(begin.is_synced)?;
                self.drop_all()?;
            }
            Work::Idle | Work::Committed
                if !begin.is_write && (begin.is_autocommit || self.is_read_only()) =>
            {
                // Another process may have committed since.
                if let Some(db) = self.db.native() {
                    db.catch_up()?;
                }
                let snapshot = self.db.snapshot()?;
                if self.meta.is_none() {
                    // Another process may have created it since.
                    self.meta = snapshot.table(names::META)?;
                }
                self.work = Work::Reading(snapshot);
            }
            Work::Idle | Work::Committed => self.open(begin.is_synced)?,
            Work::Reading(_) if begin.is_write => self.upgrade(begin.is_synced)?,
            Work::Reading(_) | Work::Open(_) | Work::Failed(_) | Work::Lent => {}
        }
        if begins && self.db.native().is_none() {
            let begun = self.find_meta().and_then(|()| self.read_metas());
            if begun.is_err() {
                self.work = Work::Idle;
                return begun;
            }
        }
        if begin.is_write {
            let open = self.writable()?;
            if !open.is_writing {
                open.is_writing = true;
                open.beginning = begin.is_outermost.then(|| open.transaction.savepoint());
            }
            self.open_savepoints(begin.savepoints)?;
        }
        Ok(())
    }

    /// Looks for the table of the meta values, which another process may have created since.
    fn find_meta(&mut self) -> Outcome<()> {
        if self.meta.is_none() {
            self.meta = read!(self, reader => reader.table(names::META).map_err(Failure::from))?;
        }
        Ok(())
    }

    /// Says why nothing can be written.
    pub(super) fn read_only(&self) -> Failure {
        let message = if self.db.native().is_some_and(Database::is_beside_writer) {
            "another process has the database open for writing, and this one only reads it"
        } else if self.is_read_only && self.db.is_read_only() {
            "attempt to write a readonly database: it was opened read-only"
        } else if self.is_read_only {
            "attempt to write a readonly database: this connection is read-only"
        } else {
            "another process was writing the database when this one opened it, so that this one only reads \
             it; close it and open it again"
        };
        Failure::new(READONLY, message)
    }

    /// Excludes other writers if the caller asks for that; otherwise checks that no connection excludes this one.
    fn take_turn(&mut self, is_immediate: bool) -> Outcome<()> {
        if self.excluding.is_some() {
            return Ok(());
        }
        let turn = match self.work {
            _ if is_immediate && !self.shares_immediate => Turn::Exclusive,
            // It lasts as long as the statement, unless that is within `BEGIN`: see `lengthen_turn`.
            Work::Reading(_) => Turn::brief(),
            _ if self.insists => Turn::brief(),
            _ if self.writers.is_excluded() => return Err(busy()),
            _ => return Ok(()),
        };
        self.excluding = Some(self.writers.exclude(&self.db, turn)?);
        Ok(())
    }

    fn open(&mut self, is_synced: bool) -> Outcome<()> {
        let ticket = self.writers.enter();
        let transaction = self.begin_transaction(is_synced)?;
        self.work = Work::Open(Open::new(transaction, ticket));
        Ok(())
    }

    fn begin_transaction(&self, is_synced: bool) -> Outcome<AnyTransaction> {
        let mut options = self.options.unwrap_or_else(|| self.db.transaction_options());
        if !is_synced && options.durability == Durability::Sync {
            options.durability = Durability::Buffered;
        }
        if options.isolation != Isolation::Serializable {
            let transaction = self.db.begin_with(&options)?;
            if !self.has_trees(&transaction)? {
                return Ok(transaction);
            }
        }
        // SQLite has no other isolation, and its constraints depend on what a statement has read.
        options.isolation = Isolation::Serializable;
        Ok(self.db.begin_with(&options)?)
    }

    /// Turns a snapshot into a transaction of the same moment.
    fn upgrade(&mut self, is_synced: bool) -> Outcome<()> {
        let Work::Reading(snapshot) = &self.work else { return self.open(is_synced) };
        let Some(before) = snapshot.commit_number() else {
            let message = "over a remote store, a statement cannot write while another one of its connection \
                           still returns rows: read these to their end first, or do both within BEGIN";
            return Err(Failure::new(ERROR, message));
        };
        let ticket = self.writers.enter();
        let transaction = self.begin_transaction(is_synced)?;
        if transaction.commit_number() != Some(before) {
            let message =
                "database is locked: there was a commit since the statement that is still running began";
            return Err(Failure::new(BUSY_SNAPSHOT, message));
        }
        self.work = Work::Open(Open::new(transaction, ticket));
        Ok(())
    }
}
