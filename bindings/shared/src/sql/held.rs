//! Statements that keep what they borrow: a prepared one its connection, and one that runs its prepared one.
//!
//! The types of `sql` borrow from each other, and none of them is `Send` except a connection without statements. A
//! binding keeps all of them from one call to the next, which may come from another thread. So all that belongs to a
//! connection is in one [`Group`], which is moved and locked as a whole.

use self_cell::{MutBorrow, self_cell};
use sql::{Connection, Rows, Statement, Value};
use std::collections::HashMap;
use std::rc::Rc;

self_cell!(
    /// A statement with its connection.
    pub struct Prepared {
        owner: Rc<Connection>,
        #[not_covariant]
        dependent: Statement,
    }
);

self_cell!(
    /// The rows of a statement that runs, with the statement.
    pub struct Running {
        owner: MutBorrow<Prepared>,
        #[not_covariant]
        dependent: Rows,
    }
);

/// What a statement does at this moment.
pub enum State {
    Resting(Prepared),
    Running(Running),
}

/// A statement of a group.
pub struct Entry {
    /// `None` only while it goes from one state to another.
    pub state: Option<State>,
    /// The values of its parameters.
    pub parameters: Vec<Value>,
    /// How many rows the last run has changed.
    pub changes: u64,
    /// How many runs have begun: the number of the newest one.
    pub runs: u64,
}

impl Entry {
    /// Prepares a statement.
    pub fn prepare(connection: &Rc<Connection>, text: &str) -> sql::Result<Self> {
        let prepared = Prepared::try_new(Rc::clone(connection), |connection| connection.prepare(text))?;
        let count = prepared.with_dependent(|_, statement| statement.parameter_count());
        let (state, parameters) = (Some(State::Resting(prepared)), vec![Value::Null; count]);
        Ok(Entry { state, parameters, changes: 0, runs: 0 })
    }

    /// Whether rows of a run may be left.
    pub fn is_running(&self) -> bool {
        matches!(self.state, Some(State::Running(_)))
    }

    /// Begins to run a statement that rests.
    pub fn begin(&mut self) -> sql::Result<()> {
        let Some(State::Resting(prepared)) = self.state.take_if(|state| matches!(state, State::Resting(_)))
        else {
            return Ok(());
        };
        let parameters = &self.parameters;
        let begun = Running::try_new_or_recover(MutBorrow::new(prepared), |owner| {
            owner.borrow_mut().with_dependent_mut(|_, statement| statement.query(parameters))
        });
        match begun {
            Ok(running) => {
                self.changes = running.with_dependent(|_, rows| rows.changes());
                self.runs += 1;
                self.state = Some(State::Running(running));
                Ok(())
            }
            Err((owner, error)) => {
                self.state = Some(State::Resting(owner.into_inner()));
                Err(error)
            }
        }
    }

    /// Ends a run.
    pub fn reset(&mut self) {
        self.state = self.state.take().map(|state| match state {
            State::Running(running) => State::Resting(running.into_owner().into_inner()),
            resting => resting,
        });
    }
}

/// A connection and all of its statements.
pub struct Group {
    pub statements: HashMap<u64, Entry>,
    /// How many statements were made. Numbers are never used again.
    pub made: u64,
    pub connection: Rc<Connection>,
}

// SAFETY: Every `Rc` of the connection, and all that borrows from it, is inside the group: its fields are used by
// `super` alone, within one lock, and no function there returns any of them. So they all change their thread together
// and are never used by two threads at a time. That is what SQLite demands of a connection and its statements, which
// `sql` opens in SQLite's mode for several threads. What `sql` keeps for a connection is `Send`, as `Connection` is:
// an open cursor has snapshots and cursors of the engine, which are `Send` as well, and no lock is held between two
// calls.
unsafe impl Send for Group {}
