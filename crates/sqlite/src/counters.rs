//! The counters of `AUTOINCREMENT`: the rows of `sqlite_sequence`, each with the name of a table and the largest rowid
//! that the table had.
//!
//! SQLite's code for an `INSERT` finds the row of its table by reading the rows from the first one on, and writes it if
//! the counter has become larger. Any two transactions that insert would conflict there, even in different tables. But
//! they do not depend on what they read: rowids that others have given are passed over anyway (`writers`), and a
//! counter only has to be as large as the largest of them. So what `AUTOINCREMENT` itself reads does not count as
//! read, what it writes depends on nothing, and at the commit a counter is put that is at least as large as that of
//! each transaction which this one did not see:
//!
//! 1. [`Counted`] has the counters that were committed, each with the number of its commit. A commit looks there,
//!    writes the larger counters, and gets its place in the order of commits under one lock. So the last commit has the
//!    largest counter. The disk is waited for without the lock, but for large values and what memory does not hold.
//! 2. Two transactions may each insert the first row for a table. The second one then uses the row of the first.
//! 3. A statement that names `sqlite_sequence` is not of this kind. Its transaction requires that no other one changed
//!    the counters, and transactions that ran beside it and raised one conflict with it.

use crate::sys::counter;
use pando::{Span, Table, Transaction};
use sqlite_format::record::{self, Field};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a transaction did to the counters.
#[derive(Debug)]
pub(crate) struct Counters {
    table: Table,
    /// The keys of the rows that `AUTOINCREMENT` wrote. Some may be rolled back.
    raised: Vec<[u8; 8]>,
    /// Whether a statement wrote to the table by its name.
    is_rewritten: bool,
}

/// The counters of a database that were committed while it is open.
#[derive(Debug, Default)]
pub(crate) struct Counted(Mutex<Commits>);

#[derive(Debug, Default)]
struct Commits {
    /// The last commit of each counter, by the name of the table.
    raised: HashMap<Vec<u8>, Raised>,
    /// The last commit of a statement that named the table.
    rewritten_at: u64,
}

#[derive(Clone, Copy, Debug)]
struct Raised {
    row: [u8; 8],
    value: i64,
    commit: u64,
}

/// The counters that a transaction commits, and the lock until the commit has its place in the order of commits.
#[must_use = "the commit is to be noted"]
pub(crate) struct Settled<'c> {
    commits: MutexGuard<'c, Commits>,
    raises: Vec<Raise>,
    is_rewritten: bool,
}

/// A counter that a transaction commits.
struct Raise {
    name: Vec<u8>,
    row: [u8; 8],
    value: i64,
}

impl Counters {
    pub(crate) fn new(table: Table) -> Counters {
        Counters { table, raised: Vec::new(), is_rewritten: false }
    }

    /// Returns the name of the table of Pando that `sqlite_sequence` is.
    pub(crate) fn table_name(&self) -> &str {
        self.table.name()
    }

    /// Notes a write to the row with a key, or to all rows if the key is empty. `kind` says who writes: `AUTOINCREMENT`
    /// itself, or a statement that names the table.
    pub(crate) fn note(&mut self, kind: u8, key: &[u8]) {
        match key.try_into() {
            Ok(key) if kind == counter::OWN => {
                if !self.raised.contains(&key) {
                    self.raised.push(key);
                }
            }
            _ => self.is_rewritten = true,
        }
    }
}

impl Counted {
    /// Makes a transaction conflict with a commit that [`Counted::settle`] would make it conflict with.
    pub(crate) fn check(&self, tx: &Transaction, counters: &Counters) -> pando::Result<()> {
        let commits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if commits.conflicts(tx, counters) { tx.require_unchanged(&counters.table, ..) } else { Ok(()) }
    }

    /// Makes the counters of a transaction at least as large as those that it did not see. It is committed next.
    pub(crate) fn settle(&self, tx: &mut Transaction, counters: &Counters) -> pando::Result<Settled<'_>> {
        // Between two statements the data are whole, so a panic elsewhere leaves nothing half done.
        let commits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let raises = commits.settle(tx, counters)?;
        Ok(Settled { commits, raises, is_rewritten: counters.is_rewritten })
    }
}

impl Settled<'_> {
    /// Notes the number of the commit, which must have written something.
    pub(crate) fn note(mut self, commit: u64) {
        if self.is_rewritten {
            // A transaction that did not see these counters conflicts with this commit.
            self.commits.raised.clear();
            self.commits.rewritten_at = commit.max(self.commits.rewritten_at);
        }
        for Raise { name, row, value } in self.raises {
            self.commits.raised.insert(name, Raised { row, value, commit });
        }
    }
}

impl Commits {
    /// Returns whether a transaction requires that no other one changed the counters since it began.
    fn conflicts(&self, transaction: &Transaction, counters: &Counters) -> bool {
        counters.is_rewritten || self.rewritten_at > transaction.commit_number()
    }

    /// Returns the counters of a transaction, after it has written those that had to be larger.
    fn settle(&self, transaction: &mut Transaction, counters: &Counters) -> pando::Result<Vec<Raise>> {
        let (table, begin) = (&counters.table, transaction.commit_number());
        if self.conflicts(transaction, counters) {
            transaction.require_unchanged(table, ..)?;
            return Ok(Vec::new());
        }
        let mut raises = Vec::with_capacity(counters.raised.len());
        for &row in &counters.raised {
            // Without one, it was rolled back.
            let Some(mut raise) = own(transaction, counters, row)? else { continue };
            let unseen = self.raised.get(&raise.name).filter(|raised| raised.commit > begin);
            if let Some(unseen) = unseen.filter(|unseen| unseen.row != row || unseen.value > raise.value) {
                raise.value = raise.value.max(unseen.value);
                raise.row = unseen.row;
                if row != unseen.row {
                    transaction.delete(table, row)?;
                }
                let mut written = Vec::new();
                record::push(&mut written, &[Field::Text(&raise.name), Field::Integer(raise.value)]);
                transaction.put(table, raise.row, written)?;
            }
            raises.push(raise);
        }
        Ok(raises)
    }
}

/// Returns the counter in a row of a transaction.
fn own(transaction: &Transaction, counters: &Counters, row: [u8; 8]) -> pando::Result<Option<Raise>> {
    let mut cursor = transaction.cursor_untracked(&counters.table, Span::prefix(&row))?;
    let Some((_, stored)) = cursor.next()? else { return Ok(None) };
    let Ok(mut fields) = record::fields(stored) else { return Ok(None) };
    match (fields.next(), fields.next()) {
        (Some(Ok(Field::Text(name))), Some(Ok(Field::Integer(value)))) => {
            Ok(Some(Raise { name: name.to_vec(), row, value }))
        }
        _ => Ok(None),
    }
}
