//! The oracle: what the database holds after each commit, and what a transaction sees on the way.
//!
//! 1. [`Model::at`]`(p)` is the state after the first `p` commits, all of it, shared copy-on-write by table: so any
//!    prefix is at hand and costs one vector of references for each table that its last commit wrote.
//! 2. A [`Draft`] is a transaction: the state it began on, that state with its own writes, and the writes as a list,
//!    because a commit applies them to the newest state, which others may have changed meanwhile.
//! 3. What a draft read is kept as keys and ranges. [`Model::commit`] refuses a serializable commit whose reads would
//!    give anything else at its place in the order of commits.

use base::CommitTs;
use std::collections::BTreeMap;
use std::sync::Arc;
use store::{Savepoint, Snapshot, Span, WantedLayout};
use txn::{Durability, Isolation};

/// Bytes of a key or a value.
pub type Bytes = Arc<[u8]>;
/// The records of a table in order.
type Rows = Vec<(Bytes, Bytes)>;

/// One table: which one of those that had its name, the layout asked for, and its records.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Table {
    id: u32,
    layout: WantedLayout,
    rows: Arc<Rows>,
}

/// Everything that a database holds, by table name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    tables: BTreeMap<&'static str, Table>,
}

/// One write.
#[derive(Clone, Debug)]
pub enum Change {
    /// Sets a key.
    Put(&'static str, Bytes, Bytes),
    /// Removes a key.
    Delete(&'static str, Bytes),
    /// Removes all keys from one on and below another.
    DeleteRange(&'static str, Bytes, Bytes),
    /// Makes a table, with the id that it was given.
    Create(&'static str, u32, WantedLayout),
    /// Asks for another layout.
    SetLayout(&'static str, WantedLayout),
    /// Drops a table.
    Drop(&'static str),
    /// Gives the first name's table the second name.
    Rename(&'static str, &'static str),
}

impl State {
    /// The layout that was asked for of a table that exists.
    pub fn layout(&self, table: &str) -> Option<WantedLayout> {
        self.tables.get(table).map(|table| table.layout)
    }

    /// Whether a table exists.
    pub fn has(&self, table: &str) -> bool {
        self.tables.contains_key(table)
    }

    /// The value of a key.
    pub fn get(&self, table: &str, key: &[u8]) -> Option<&[u8]> {
        let rows = &self.tables.get(table)?.rows;
        rows.binary_search_by(|row| (*row.0).cmp(key)).ok().map(|at| &*rows[at].1)
    }

    /// The records from `start` on and below `end`.
    pub fn range(&self, table: &str, start: &[u8], end: &[u8]) -> &[(Bytes, Bytes)] {
        let Some(table) = self.tables.get(table) else { return &[] };
        let place = |key: &[u8]| table.rows.partition_point(|row| &*row.0 < key);
        &table.rows[place(start)..place(end).max(place(start))]
    }

    /// Makes one change.
    ///
    /// # Errors
    /// If its table does not exist.
    pub fn change(&mut self, change: &Change) -> Result<(), String> {
        let rows = |state: &mut Self, name: &str| match state.tables.get_mut(name) {
            Some(table) => Ok(Arc::clone(&table.rows)),
            None => Err(format!("a commit wrote to table {name}, which was dropped before it")),
        };
        let (name, rows) = match change {
            Change::Create(name, id, layout) => {
                self.tables.insert(name, Table { id: *id, layout: *layout, rows: Arc::default() });
                return Ok(());
            }
            Change::SetLayout(name, layout) => {
                let gone = || format!("a commit set the layout of {name}, which was dropped before it");
                self.tables.get_mut(name).ok_or_else(gone)?.layout = *layout;
                return Ok(());
            }
            Change::Drop(name) => {
                self.tables.remove(name);
                return Ok(());
            }
            Change::Rename(name, new) => {
                let gone = || format!("a commit renamed table {name}, which was dropped before it");
                let table = self.tables.remove(name).ok_or_else(gone)?;
                return match self.tables.insert(new, table) {
                    None => Ok(()),
                    Some(_) => Err(format!("a commit named a table {new}, and there was one")),
                };
            }
            Change::Put(name, key, value) => {
                let mut rows = Rows::clone(&*rows(self, name)?);
                let record = (Arc::clone(key), Arc::clone(value));
                match rows.binary_search_by(|row| row.0.cmp(key)) {
                    Ok(at) => rows[at] = record,
                    Err(at) => rows.insert(at, record),
                }
                (name, rows)
            }
            Change::Delete(name, key) => {
                let mut rows = Rows::clone(&*rows(self, name)?);
                rows.retain(|row| row.0 != *key);
                (name, rows)
            }
            Change::DeleteRange(name, start, end) => {
                let mut rows = Rows::clone(&*rows(self, name)?);
                rows.retain(|row| row.0 < *start || row.0 >= *end);
                (name, rows)
            }
        };
        self.tables.get_mut(name).expect("it was there").rows = Arc::new(rows);
        Ok(())
    }

    /// Reads everything that `snapshot` sees and says how it differs.
    ///
    /// # Errors
    /// What differs first, or the engine's error.
    pub fn check(&self, snapshot: &Snapshot) -> Result<(), String> {
        let seen = snapshot.tables().map_err(|error| format!("listing the tables: {error:?}"))?;
        let names: Vec<_> = seen.iter().map(|table| (table.name(), table.id().0, table.layout())).collect();
        let expected: Vec<_> =
            self.tables.iter().map(|(name, table)| (*name, table.id, table.layout)).collect();
        if names != expected {
            return Err(format!("tables are {names:?}, expected {expected:?}"));
        }
        for (table, expected) in seen.iter().zip(self.tables.values()) {
            let name = table.name();
            let failed = |error| format!("scanning {name}: {error:?}");
            let mut cursor = snapshot.cursor(table, Span::all()).map_err(failed)?;
            for (at, (key, value)) in expected.rows.iter().enumerate() {
                match cursor.next().map_err(failed)? {
                    Some((found, bytes)) if found == &**key && bytes == &**value => {}
                    found => {
                        let found = found.map(|(key, value)| (text(key), value.len()));
                        let expected = (text(key), value.len());
                        return Err(format!(
                            "record {at} of table {name} is {found:?}, expected {expected:?}"
                        ));
                    }
                }
            }
            if let Some((key, _)) = cursor.next().map_err(failed)? {
                return Err(format!("table {name} has a key \"{}\" that it should not have", text(key)));
            }
        }
        Ok(())
    }

    /// Every `step`th record of every table: its table, key and value.
    pub fn sample(&self, step: usize) -> impl Iterator<Item = (&'static str, &Bytes, &Bytes)> {
        let rows = |(name, table)| Table::rows_of(name, table);
        self.tables.iter().flat_map(rows).step_by(step)
    }
}

impl Table {
    fn rows_of<'a>(
        name: &&'static str,
        table: &'a Table,
    ) -> impl Iterator<Item = (&'static str, &'a Bytes, &'a Bytes)> {
        let name = *name;
        table.rows.iter().map(move |(key, value)| (name, key, value))
    }
}

/// A key for a message.
pub fn text(key: &[u8]) -> String {
    let shown = &key[..key.len().min(24)];
    format!("{}{}", shown.escape_ascii(), if key.len() > 24 { "..." } else { "" })
}

/// Something that a transaction read.
#[derive(Clone, Debug)]
enum Read {
    Table(&'static str),
    Key(&'static str, Bytes),
    Range(&'static str, Bytes, Bytes),
}

/// A transaction as the model sees it.
#[derive(Clone, Debug)]
pub struct Draft {
    base: State,
    /// What it sees: the state it began on and its own writes.
    pub state: State,
    changes: Vec<Change>,
    reads: Vec<Read>,
    savepoints: Vec<(Savepoint, State, usize)>,
}

impl Draft {
    /// Whether it wrote nothing that was not rolled back.
    pub fn is_read_only(&self) -> bool {
        self.changes.is_empty()
    }

    /// Writes.
    ///
    /// # Panics
    /// If the draft does not see the table: its script asked for it first.
    pub fn write(&mut self, change: Change) {
        self.state.change(&change).expect("the script made the table first");
        self.changes.push(change);
    }

    /// Notes that it looked whether a table exists.
    pub fn read_table(&mut self, table: &'static str) {
        self.reads.push(Read::Table(table));
    }

    /// Notes that it read a key, unless it is one that it has written itself.
    pub fn read_key(&mut self, table: &'static str, key: &Bytes) {
        let own = |change: &Change| match change {
            Change::Put(name, written, _) | Change::Delete(name, written) => *name == table && written == key,
            Change::DeleteRange(name, start, end) => *name == table && start <= key && key < end,
            Change::Create(name, ..) | Change::Drop(name) => *name == table,
            Change::SetLayout(..) => false,
            Change::Rename(name, new) => *name == table || *new == table,
        };
        if !self.changes.iter().any(own) {
            self.reads.push(Read::Key(table, Arc::clone(key)));
        }
    }

    /// Notes that it read a range. Only while it has written nothing to the table, so that the range is the base's.
    pub fn read_range(&mut self, table: &'static str, start: &Bytes, end: &Bytes) {
        let touches = |change: &Change| match change {
            Change::Put(name, ..) | Change::Delete(name, _) | Change::DeleteRange(name, ..) => *name == table,
            Change::Create(name, ..) | Change::Drop(name) => *name == table,
            Change::SetLayout(..) => false,
            Change::Rename(name, new) => *name == table || *new == table,
        };
        if !self.changes.iter().any(touches) {
            self.reads.push(Read::Range(table, Arc::clone(start), Arc::clone(end)));
        }
    }

    /// Remembers where it stands.
    pub fn save(&mut self, savepoint: Savepoint) {
        self.savepoints.push((savepoint, self.state.clone(), self.changes.len()));
    }

    /// Goes back to the newest savepoint, if there is one; reads stay.
    pub fn roll_back(&mut self) -> Option<Savepoint> {
        let (savepoint, state, changes) = self.savepoints.pop()?;
        self.state = state;
        self.changes.truncate(changes);
        Some(savepoint)
    }
}

impl Read {
    fn same(&self, a: &State, b: &State) -> bool {
        let id = |state: &State, name: &str| state.tables.get(name).map(|table| table.id);
        match self {
            Read::Table(name) => id(a, name) == id(b, name),
            Read::Key(name, key) => a.get(name, key) == b.get(name, key),
            Read::Range(name, start, end) => a.range(name, start, end) == b.range(name, start, end),
        }
    }
}

/// The states after every commit so far.
#[derive(Clone, Debug)]
pub struct Model {
    states: Vec<State>,
    /// The newest `Sync` commit at or before each commit.
    newest_sync: Vec<u64>,
    durabilities: Vec<Durability>,
}

impl Default for Model {
    fn default() -> Self {
        Model { states: vec![State::default()], newest_sync: vec![0], durabilities: vec![Durability::Sync] }
    }
}

impl Model {
    /// How many commits there are.
    pub fn last(&self) -> u64 {
        self.states.len() as u64 - 1
    }

    /// The newest state.
    pub fn newest(&self) -> &State {
        self.states.last().expect("the empty state is always there")
    }

    /// The state after the first `commits` commits; `None` if there were not so many.
    pub fn at(&self, commits: u64) -> Option<&State> {
        self.states.get(usize::try_from(commits).ok()?)
    }

    /// The newest `Sync` commit at or before `commits`.
    pub fn newest_sync(&self, commits: u64) -> u64 {
        self.newest_sync[commits as usize]
    }

    /// The newest commit that survives a killed process: the last that is not `Lazy`.
    pub fn newest_buffered(&self) -> u64 {
        self.durabilities.iter().rposition(|durability| *durability != Durability::Lazy).unwrap_or(0) as u64
    }

    /// A transaction that begins now.
    pub fn begin(&self) -> Draft {
        let base = self.newest().clone();
        Draft { state: base.clone(), base, changes: Vec::new(), reads: Vec::new(), savepoints: Vec::new() }
    }

    /// Commits `draft` as the engine did, at `ts`.
    ///
    /// # Errors
    /// If it should have been refused: its place in the order is taken, or what it read is not so there.
    pub fn commit(
        &mut self,
        draft: &Draft,
        ts: CommitTs,
        isolation: Isolation,
        durability: Durability,
    ) -> Result<(), String> {
        if ts.0 != self.last() + 1 {
            return Err(format!("commit {} follows commit {}", ts.0, self.last()));
        }
        let newest = self.newest();
        if isolation == Isolation::Serializable
            && let Some(read) = draft.reads.iter().find(|read| !read.same(&draft.base, newest))
        {
            return Err(format!("commit {} is not serializable: {read:?} changed since it began", ts.0));
        }
        let mut next = newest.clone();
        draft.changes.iter().try_for_each(|change| next.change(change))?;
        self.states.push(next);
        self.durabilities.push(durability);
        let sync = if durability == Durability::Sync { ts.0 } else { *self.newest_sync.last().unwrap_or(&0) };
        self.newest_sync.push(sync);
        Ok(())
    }

    /// Forgets the commits behind the first `commits`: a power loss did.
    pub fn cut(&mut self, commits: u64) {
        let kept = commits as usize + 1;
        self.states.truncate(kept);
        self.newest_sync.truncate(kept);
        self.durabilities.truncate(kept);
    }
}
