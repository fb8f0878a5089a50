//! SQL: connections and prepared statements whose rows are fetched a few at a time.
//!
//! 1. A connection and its statements are used by one call at a time; a second one gets [`crate::Kind::InUse`].
//! 2. A statement can be freed while another call uses its connection: the next call drops it. A garbage collector
//!    frees statements when it likes. So a call waits while one is dropped, and is never refused because of it.
//! 3. A call may come from any thread (`held.rs` argues why).

#[allow(unsafe_code, reason = "statements and rows, which borrow from each other, change threads together")]
mod held;

use crate::failure::{Failure, Kind, Outcome};
use crate::handle::{Handle, try_lock};
use held::{Entry, Group, State};
use pando::ErrorKind;
use sql::Interrupt;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use sql::{ColumnInfo, Row, Value, ValueRef, is_transaction_control, sqlite_version};

impl From<sql::Error> for Failure {
    fn from(error: sql::Error) -> Self {
        let kind = match &error {
            error if error.is_interrupted() => Kind::Interrupted,
            error if error.is_constraint() => Kind::Constraint,
            error => Kind::Engine(error.kind()),
        };
        let conflict = error.conflict();
        Failure {
            table: conflict.map(|conflict| conflict.table().to_owned()),
            key: conflict.and_then(|conflict| conflict.key()).map(<[u8]>::to_vec),
            sqlite_code: Some(error.code()),
            ..Failure::new(kind, error.message())
        }
    }
}

/// A connection, with one transaction at a time.
#[derive(Debug)]
pub struct SqlConnection {
    handle: Arc<Handle>,
    group: Mutex<Option<Group>>,
    /// Statements that were freed while a call used the connection. What frees one has this lock while it has the
    /// group's.
    freed: Mutex<Vec<u64>>,
    interrupt: Interrupt,
}

impl Group {
    /// Drops the statements with these numbers.
    fn drop_statements(&mut self, freed: &mut Vec<u64>) {
        for id in freed.drain(..) {
            self.statements.remove(&id);
        }
    }
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Group").field("made", &self.made).finish_non_exhaustive()
    }
}

impl SqlConnection {
    /// Opens a connection to a database.
    pub fn open(handle: &Arc<Handle>) -> Outcome<Arc<Self>> {
        let connection = handle.sql()?.connect()?;
        let interrupt = connection.interrupt_handle();
        let group = Group { statements: HashMap::new(), made: 0, connection: Rc::new(connection) };
        let (group, freed) = (Mutex::new(Some(group)), Mutex::default());
        Ok(Arc::new(SqlConnection { handle: Arc::clone(handle), group, freed, interrupt }))
    }

    /// Runs `work` on the connection and its statements.
    fn with<T>(&self, work: impl FnOnce(&mut Group) -> Outcome<T>) -> Outcome<T> {
        self.handle.open()?;
        let mut guard = self.lock_group()?;
        let group = guard.as_mut().ok_or_else(closed)?;
        group.drop_statements(&mut self.lock_freed());
        work(group)
    }

    /// The group, if no other call uses it.
    fn lock_group(&self) -> Outcome<MutexGuard<'_, Option<Group>>> {
        let refused = match try_lock(&self.group, CONNECTION) {
            Err(failure) if failure.kind == Kind::InUse => failure,
            done => return done,
        };
        // In the child of a fork the lock below may never be released.
        self.check_process().map_err(|_| refused)?;
        let _no_statement_is_freed_now = self.lock_freed();
        try_lock(&self.group, CONNECTION)
    }

    fn lock_freed(&self) -> MutexGuard<'_, Vec<u64>> {
        self.freed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the statements of a script, without parameters, one after another. Rows are left out.
    pub fn execute_script(&self, text: &str) -> Outcome<()> {
        self.check_process()?;
        self.with(|group| Ok(group.connection.execute_batch(text)?))
    }

    /// Prepares the only statement in `text`.
    pub fn prepare(self: &Arc<Self>, text: &str) -> Outcome<SqlStatement> {
        self.check_process()?;
        let id = self.with(|group| {
            let entry = Entry::prepare(&group.connection, text)?;
            group.made += 1;
            group.statements.insert(group.made, entry);
            Ok(group.made)
        })?;
        Ok(SqlStatement { connection: Arc::clone(self), id })
    }

    /// Fails with `Forked` in the child of a fork, in which SQLite would not notice it.
    fn check_process(&self) -> Outcome<()> {
        drop(self.handle.open()?.snapshot()?);
        Ok(())
    }

    /// Whether no transaction is open.
    pub fn is_autocommit(&self) -> Outcome<bool> {
        self.with(|group| Ok(group.connection.is_autocommit()))
    }

    /// Whether no transaction is open and no statement runs. Otherwise other writers may wait for the next call.
    pub fn is_at_rest(&self) -> Outcome<bool> {
        self.with(|group| {
            Ok(group.connection.is_autocommit() && !group.statements.values().any(Entry::is_running))
        })
    }

    /// The id of the row that was inserted last.
    pub fn last_insert_row_id(&self) -> Outcome<i64> {
        self.with(|group| Ok(group.connection.last_insert_row_id()))
    }

    /// Whether statements that write fail from now on.
    pub fn set_read_only(&self, read_only: bool) -> Outcome<()> {
        self.with(|group| {
            group.connection.set_read_only(read_only);
            Ok(())
        })
    }

    /// The options of transactions that the database was opened with.
    pub fn default_options(&self) -> Outcome<pando::TransactionOptions> {
        Ok(self.handle.open()?.transaction_options())
    }

    /// Changes the options of transactions that begin from now on.
    pub fn set_transaction_options(&self, options: pando::TransactionOptions) -> Outcome<()> {
        self.with(|group| {
            group.connection.set_transaction_options(options);
            Ok(())
        })
    }

    /// Stops the statement that runs, from any thread.
    pub fn interrupt(&self) {
        // SQLite's own connection must not be closed meanwhile, which the lock of rusqlite's handle ensures.
        self.interrupt.interrupt();
    }

    /// Ends the connection with its statements, and rolls back its transaction. A second time has no effect.
    pub fn close(&self) -> Outcome<()> {
        drop(self.lock_group()?.take());
        Ok(())
    }
}

/// A prepared statement. It is freed by dropping it.
#[derive(Debug)]
pub struct SqlStatement {
    connection: Arc<SqlConnection>,
    id: u64,
}

impl SqlStatement {
    fn with<T>(&self, work: impl FnOnce(&mut Entry) -> Outcome<T>) -> Outcome<T> {
        self.connection.with(|group| work(group.statements.get_mut(&self.id).ok_or_else(closed)?))
    }

    fn look<T>(&self, look: impl FnOnce(&sql::Statement<'_>) -> Outcome<T>) -> Outcome<T> {
        self.with(|entry| match &entry.state {
            Some(State::Resting(prepared)) => prepared.with_dependent(|_, statement| look(statement)),
            _ => Err(runs()),
        })
    }

    /// The connection.
    pub fn connection(&self) -> &Arc<SqlConnection> {
        &self.connection
    }

    /// How many parameters there are.
    pub fn parameter_count(&self) -> Outcome<usize> {
        self.with(|entry| Ok(entry.parameters.len()))
    }

    /// The place of a named parameter, counted from 0. The name includes its `:`, `@` or `$`.
    pub fn parameter(&self, name: &str) -> Outcome<Option<usize>> {
        self.look(|statement| Ok(statement.parameter(name)?))
    }

    /// Sets the value of a parameter, which stays until it is set again. Places are counted from 0.
    pub fn bind(&self, place: usize, value: Value) -> Outcome<()> {
        self.with(|entry| {
            if matches!(entry.state, Some(State::Running(_))) {
                return Err(runs());
            }
            let count = entry.parameters.len();
            let Some(parameter) = entry.parameters.get_mut(place) else {
                let place = place.saturating_add(1);
                return Err(Failure::invalid(format!("there is no parameter {place}; there are {count}")));
            };
            *parameter = value;
            Ok(())
        })
    }

    /// Sets the values of all parameters.
    pub fn bind_all(&self, values: Vec<Value>) -> Outcome<()> {
        self.with(|entry| {
            if matches!(entry.state, Some(State::Running(_))) {
                return Err(runs());
            }
            let (wanted, given) = (entry.parameters.len(), values.len());
            if wanted != given {
                let message = format!("the statement has {wanted} parameters, {given} values were given");
                return Err(Failure::invalid(message));
            }
            entry.parameters = values;
            Ok(())
        })
    }

    /// The columns of the rows; none if there are no rows.
    pub fn columns(&self) -> Outcome<Vec<ColumnInfo>> {
        self.with(|entry| match &entry.state {
            Some(State::Resting(prepared)) => {
                Ok(prepared.with_dependent(|_, statement| statement.columns())?)
            }
            // Its declared types are not known again before it rests.
            Some(State::Running(running)) => Ok(running.with_dependent(|_, rows| {
                rows.columns().iter().map(|name| ColumnInfo::new(name.clone(), None)).collect()
            })),
            None => Err(closed()),
        })
    }

    /// Runs the statement, or goes on with it. `take` gets the next rows until it returns false. Returns whether there
    /// may be more rows; after the last, and after an error, the statement rests.
    pub fn fetch(&self, take: &mut dyn FnMut(&Row<'_>) -> bool) -> Outcome<bool> {
        self.with(|entry| {
            entry.begin()?;
            entry.take_rows(take)
        })
    }

    /// Goes on with the run of this number, as `fetch` does. Fails if it has ended, and never begins another one.
    pub fn fetch_of(&self, run: u64, take: &mut dyn FnMut(&Row<'_>) -> bool) -> Outcome<bool> {
        self.with(|entry| {
            if entry.runs != run {
                return Err(runs_again());
            }
            entry.take_rows(take)
        })
    }

    /// The number of the run that began last.
    pub fn run(&self) -> Outcome<u64> {
        self.with(|entry| Ok(entry.runs))
    }

    /// How many rows the last run has inserted, updated or deleted.
    pub fn changes(&self) -> Outcome<u64> {
        self.with(|entry| Ok(entry.changes))
    }

    /// Ends the run of this number. It has no effect if that has ended.
    pub fn end_run(&self, run: u64) -> Outcome<()> {
        self.with(|entry| {
            if entry.runs == run {
                entry.reset();
            }
            Ok(())
        })
    }

    /// Ends a run, so that the next fetch begins again.
    pub fn reset(&self) -> Outcome<()> {
        self.with(|entry| {
            entry.reset();
            Ok(())
        })
    }
}

impl Entry {
    /// Gives the next rows of the run to `take`, until it returns false. Returns whether there may be more.
    fn take_rows(&mut self, take: &mut dyn FnMut(&Row<'_>) -> bool) -> Outcome<bool> {
        let running = match &mut self.state {
            Some(State::Running(running)) => running,
            Some(State::Resting(_)) => return Err(Failure::invalid("the run of the statement has ended")),
            None => return Err(closed()),
        };
        let fetched: sql::Result<bool> = running.with_dependent_mut(|_, rows| {
            while let Some(row) = rows.next()? {
                if !take(&row) {
                    return Ok(true);
                }
            }
            Ok(false)
        });
        if !matches!(fetched, Ok(true)) {
            self.reset();
        }
        Ok(fetched?)
    }
}

impl Drop for SqlStatement {
    fn drop(&mut self) {
        let mut freed = self.connection.lock_freed();
        freed.push(self.id);
        // If another call has the group, the next one drops the statement.
        if let Ok(mut guard) = self.connection.group.try_lock()
            && let Some(group) = guard.as_mut()
        {
            group.drop_statements(&mut freed);
        }
    }
}

const CONNECTION: &str = "the connection";

#[cold]
fn closed() -> Failure {
    Failure::closed(CONNECTION)
}

#[cold]
fn runs_again() -> Failure {
    Failure::invalid("the statement runs again, which ended these rows: prepare another one")
}

#[cold]
fn runs() -> Failure {
    Failure::new(
        Kind::Engine(ErrorKind::Invalid),
        "the statement is running: fetch its last row, or reset it, before this call",
    )
}
