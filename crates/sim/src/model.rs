//! The oracle: the content of the database after each commit, and what a transaction sees before its commit.
//!
//! 1. [`Model::at`]`(p)` is the complete state after the first `p` commits, shared copy-on-write by table. Any prefix
//!    is available, and costs one vector of references for each table that its last commit wrote.
//! 2. A [`Draft`] is a transaction: the state on which it began, that state with its own writes, and the list of
//!    writes. The list is needed because a commit applies it to the newest state, which other commits may have changed
//!    meanwhile.
//! 3. An expired entry of a table with a TTL stays in the state, with its date. The reader supplies the time, so a
//!    state is the same at any time.
//! 4. The reads of a draft are kept as keys and ranges. [`Model::commit`] refuses a serializable commit whose reads
//!    would return anything else at its place in the order of commits.

use base::CommitTs;
use std::collections::BTreeMap;
use std::sync::Arc;
use store::{Compression, RequestedLayout, Savepoint, Snapshot, Span};
use txn::{Durability, Isolation};

/// The bytes of a key or a value.
pub type Bytes = Arc<[u8]>;
/// A record: its key, its value, and the time of its put.
type Row = (Bytes, Bytes, u64);
/// The TTL of tables in which each entry has its own.
pub const BY_KEY_MS: u64 = 0;

/// The records of a table in order, including those that have expired.
type Rows = Vec<Row>;

/// One table: its id, the requested layout and compression, the life of its entries, and its records.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Table {
    id: u32,
    layout: RequestedLayout,
    compression: Compression,
    life: Option<Life>,
    rows: Arc<Rows>,
}

/// The life of a table's entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Life {
    /// The TTL in milliseconds; `None`: entries do not expire. With [`BY_KEY_MS`], dates are those at which entries
    /// expire.
    ttl_ms: Option<u64>,
    /// The oldest date that had not expired when the TTL was set.
    floor_ms: u64,
    /// The TTL and floor that hold until the commit that changes them.
    before: Option<(Option<u64>, u64)>,
}

impl Life {
    /// Creates the life of a new table.
    fn new(ttl_ms: u64) -> Life {
        Life { ttl_ms: Some(ttl_ms), floor_ms: 0, before: Some((None, 0)) }
    }

    fn oldest(ttl_ms: Option<u64>, floor_ms: u64, now: u64) -> u64 {
        ttl_ms.map_or(0, |ttl_ms| (now + 1).saturating_sub(ttl_ms)).max(floor_ms)
    }

    fn change(&mut self, ttl_ms: Option<u64>, now: u64) {
        self.before = self.before.or(Some((self.ttl_ms, self.floor_ms)));
        self.floor_ms = Life::oldest(self.ttl_ms, self.floor_ms, now);
        self.ttl_ms = ttl_ms;
    }

    /// Commits the change: entries that had expired by the old TTL stay expired.
    fn commit(&mut self, now: u64) {
        if let Some((ttl_ms, floor_ms)) = self.before.take() {
            self.floor_ms = Life::oldest(ttl_ms, floor_ms, now);
        }
    }
}

/// The content of a database, by table name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    tables: BTreeMap<&'static str, Table>,
}

/// One write.
#[derive(Clone, Debug)]
pub enum Change {
    /// Sets a key at a time.
    Put(&'static str, Bytes, Bytes, u64),
    /// Removes a key.
    Delete(&'static str, Bytes),
    /// Removes all keys from one (inclusive) to another (exclusive).
    DeleteRange(&'static str, Bytes, Bytes),
    /// Creates a table, with its id and its TTL.
    Create(&'static str, u32, RequestedLayout, Compression, Option<u64>),
    /// Sets another compression.
    SetCompression(&'static str, Compression),
    /// Sets another layout.
    SetLayout(&'static str, RequestedLayout),
    /// Sets or removes the TTL, at a time.
    SetTtl(&'static str, Option<u64>, u64),
    /// Drops a table.
    Drop(&'static str),
    /// Renames the first name's table to the second name.
    Rename(&'static str, &'static str),
}

impl State {
    /// Returns the requested layout of a table that exists.
    pub fn layout(&self, table: &str) -> Option<RequestedLayout> {
        self.tables.get(table).map(|table| table.layout)
    }

    /// Returns the requested compression of a table that exists.
    pub fn compression(&self, table: &str) -> Option<Compression> {
        self.tables.get(table).map(|table| table.compression)
    }

    /// Returns whether a table exists.
    pub fn has(&self, table: &str) -> bool {
        self.tables.contains_key(table)
    }

    /// Returns whether a table exists and its entries have dates.
    pub fn is_dated(&self, table: &str) -> bool {
        self.tables.get(table).is_some_and(|table| table.life.is_some())
    }

    /// Returns whether a table exists and each of its entries has a TTL of its own.
    pub fn has_ttl_by_key(&self, table: &str) -> bool {
        let life = self.tables.get(table).and_then(|table| table.life);
        life.is_some_and(|life| life.ttl_ms == Some(BY_KEY_MS))
    }

    /// Returns when the entry of a key expires, which may be in the past.
    pub fn date(&self, table: &str, key: &[u8]) -> Option<u64> {
        let table = self.tables.get(table)?;
        let at = table.rows.binary_search_by(|row| (*row.0).cmp(key)).ok()?;
        Some(table.rows[at].2)
    }

    /// Returns the value of a key.
    pub fn get(&self, table: &str, key: &[u8], now: u64) -> Option<&[u8]> {
        let table = self.tables.get(table)?;
        let at = table.rows.binary_search_by(|row| (*row.0).cmp(key)).ok()?;
        table.lives(&table.rows[at], now).then(|| &*table.rows[at].1)
    }

    /// Returns the records from `start` (inclusive) to `end` (exclusive).
    pub fn range(&self, table: &str, start: &[u8], end: &[u8], now: u64) -> Vec<(&[u8], &[u8])> {
        let Some(table) = self.tables.get(table) else { return Vec::new() };
        let place = |key: &[u8]| table.rows.partition_point(|row| &*row.0 < key);
        let rows = &table.rows[place(start)..place(end).max(place(start))];
        rows.iter().filter(|row| table.lives(row, now)).map(|row| (&*row.0, &*row.1)).collect()
    }

    /// Applies one change.
    ///
    /// # Errors
    /// If its table does not exist.
    pub fn change(&mut self, change: &Change) -> Result<(), String> {
        let rows = |state: &mut Self, name: &str| match state.tables.get_mut(name) {
            Some(table) => Ok(Arc::clone(&table.rows)),
            None => Err(format!("a commit wrote to table {name}, which was dropped before it")),
        };
        let (name, rows) = match change {
            Change::Create(name, id, layout, compression, ttl_ms) => {
                let (layout, compression, life) = (*layout, *compression, ttl_ms.map(Life::new));
                let table = Table { id: *id, layout, compression, life, rows: Arc::default() };
                self.tables.insert(name, table);
                return Ok(());
            }
            Change::SetCompression(name, compression) => {
                let gone = || format!("a commit set the compression of {name}, which was dropped before it");
                self.tables.get_mut(name).ok_or_else(gone)?.compression = *compression;
                return Ok(());
            }
            Change::SetTtl(name, ttl_ms, now) => {
                let gone = || format!("a commit set the TTL of {name}, which was dropped before it");
                match (&mut self.tables.get_mut(name).ok_or_else(gone)?.life, *ttl_ms) {
                    (Some(life), ttl_ms) => life.change(ttl_ms, *now),
                    (life, ttl_ms) => *life = ttl_ms.map(Life::new),
                }
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
            Change::Put(name, key, value, date) => {
                let mut rows = Rows::clone(&*rows(self, name)?);
                let record = (Arc::clone(key), Arc::clone(value), *date);
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

    /// Reads everything that `snapshot` sees and compares it.
    ///
    /// # Errors
    /// The first difference, or the engine's error.
    pub fn check(&self, snapshot: &Snapshot) -> Result<(), String> {
        let seen = snapshot.tables().map_err(|error| format!("listing the tables: {error:?}"))?;
        let named = |table: &store::Table| {
            let ttl_ms = match table.has_ttl_by_key() {
                true => Some(BY_KEY_MS),
                false => table.ttl().map(|ttl| ttl.as_millis() as u64),
            };
            (table.name().to_owned(), table.id().0, table.layout(), table.compression(), ttl_ms)
        };
        let names: Vec<_> = seen.iter().map(named).collect();
        let expected = |(name, table): (&&str, &Table)| {
            let ttl_ms = table.life.and_then(|life| life.ttl_ms);
            (String::from(*name), table.id, table.layout, table.compression, ttl_ms)
        };
        let expected: Vec<_> = self.tables.iter().map(expected).collect();
        let now = snapshot.time_ms();
        if names != expected {
            return Err(format!("tables are {names:?}, expected {expected:?}"));
        }
        for (table, expected) in seen.iter().zip(self.tables.values()) {
            let name = table.name();
            let failed = |error| format!("scanning {name}: {error:?}");
            let mut cursor = snapshot.cursor(table, Span::all()).map_err(failed)?;
            let rows = expected.rows.iter().filter(|row| expected.lives(row, now));
            for (at, (key, value, _)) in rows.enumerate() {
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

    /// Returns every `step`th record of every table: its table, key and value; the value is `None` if it has expired.
    pub fn sample(
        &self,
        step: usize,
        now: u64,
    ) -> impl Iterator<Item = (&'static str, &Bytes, Option<&Bytes>)> {
        let rows = move |(name, table)| Table::rows_of(name, table, now);
        self.tables.iter().flat_map(rows).step_by(step)
    }
}

impl Table {
    fn rows_of<'a>(
        name: &&'static str,
        table: &'a Table,
        now: u64,
    ) -> impl Iterator<Item = (&'static str, &'a Bytes, Option<&'a Bytes>)> {
        let name = *name;
        table.rows.iter().map(move |row| (name, &row.0, table.lives(row, now).then_some(&row.1)))
    }

    fn lives(&self, row: &Row, now: u64) -> bool {
        self.life.is_none_or(|life| row.2 >= Life::oldest(life.ttl_ms, life.floor_ms, now))
    }
}

/// Returns a key for a message.
pub fn text(key: &[u8]) -> String {
    let shown = &key[..key.len().min(24)];
    format!("{}{}", shown.escape_ascii(), if key.len() > 24 { "..." } else { "" })
}

/// A read of a transaction.
#[derive(Clone, Debug)]
enum Read {
    Table(&'static str),
    Key(&'static str, Bytes),
    Range(&'static str, Bytes, Bytes),
}

/// A transaction as the model sees it.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The time by which it sees what has expired.
    pub now: u64,
    base: State,
    /// The state that it sees: the one on which it began, with its own writes.
    pub state: State,
    changes: Vec<Change>,
    reads: Vec<Read>,
    savepoints: Vec<(Savepoint, State, usize)>,
}

impl Draft {
    /// Returns whether it wrote nothing that was not rolled back.
    pub fn is_read_only(&self) -> bool {
        self.changes.is_empty()
    }

    /// Adds a write.
    ///
    /// # Panics
    /// If the draft does not see the table. Its script must check that first.
    pub fn write(&mut self, change: Change) {
        self.state.change(&change).expect("the script made the table first");
        self.changes.push(change);
    }

    /// Notes that it checked whether a table exists.
    pub fn read_table(&mut self, table: &'static str) {
        self.reads.push(Read::Table(table));
    }

    /// Notes that it read a key, unless it has written that key itself.
    pub fn read_key(&mut self, table: &'static str, key: &Bytes) {
        let own = |change: &Change| match change {
            Change::Put(name, written, ..) | Change::Delete(name, written) => {
                *name == table && written == key
            }
            Change::DeleteRange(name, start, end) => *name == table && start <= key && key < end,
            Change::Create(name, ..) | Change::Drop(name) | Change::SetTtl(name, ..) => *name == table,
            Change::SetLayout(..) | Change::SetCompression(..) => false,
            Change::Rename(name, new) => *name == table || *new == table,
        };
        if !self.changes.iter().any(own) {
            self.reads.push(Read::Key(table, Arc::clone(key)));
        }
    }

    /// Notes that it read a range. It may do so only before it writes to the table, so that the range is that of the
    /// base.
    pub fn read_range(&mut self, table: &'static str, start: &Bytes, end: &Bytes) {
        let touches = |change: &Change| match change {
            Change::Put(name, ..) | Change::Delete(name, _) | Change::DeleteRange(name, ..) => *name == table,
            Change::Create(name, ..) | Change::Drop(name) | Change::SetTtl(name, ..) => *name == table,
            Change::SetLayout(..) | Change::SetCompression(..) => false,
            Change::Rename(name, new) => *name == table || *new == table,
        };
        if !self.changes.iter().any(touches) {
            self.reads.push(Read::Range(table, Arc::clone(start), Arc::clone(end)));
        }
    }

    /// Marks a savepoint.
    pub fn save(&mut self, savepoint: Savepoint) {
        self.savepoints.push((savepoint, self.state.clone(), self.changes.len()));
    }

    /// Rolls back to the newest savepoint, if there is one. Reads stay.
    pub fn roll_back(&mut self) -> Option<Savepoint> {
        let (savepoint, state, changes) = self.savepoints.pop()?;
        self.state = state;
        self.changes.truncate(changes);
        Some(savepoint)
    }
}

impl Read {
    /// Returns whether the read has the same result in both states at `now`.
    fn same(&self, a: &State, b: &State, now: u64) -> bool {
        let id = |state: &State, name: &str| state.tables.get(name).map(|table| table.id);
        match self {
            Read::Table(name) => id(a, name) == id(b, name),
            Read::Key(name, key) => a.get(name, key, now) == b.get(name, key, now),
            Read::Range(name, start, end) => a.range(name, start, end, now) == b.range(name, start, end, now),
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
    /// Returns the number of commits.
    pub fn last(&self) -> u64 {
        self.states.len() as u64 - 1
    }

    /// Returns the newest state.
    pub fn newest(&self) -> &State {
        self.states.last().expect("the empty state is always there")
    }

    /// Returns the state after the first `commits` commits; `None` if there were fewer.
    pub fn at(&self, commits: u64) -> Option<&State> {
        self.states.get(usize::try_from(commits).ok()?)
    }

    /// Returns the newest `Sync` commit at or before `commits`.
    pub fn newest_sync(&self, commits: u64) -> u64 {
        self.newest_sync[commits as usize]
    }

    /// Returns the newest commit that survives a killed process: the last one that is not `Lazy`.
    pub fn newest_buffered(&self) -> u64 {
        self.durabilities.iter().rposition(|durability| *durability != Durability::Lazy).unwrap_or(0) as u64
    }

    /// Begins a transaction at the time `now`.
    pub fn begin(&self, now: u64) -> Draft {
        let base = self.newest().clone();
        let state = base.clone();
        Draft { now, state, base, changes: Vec::new(), reads: Vec::new(), savepoints: Vec::new() }
    }

    /// Commits `draft` as the engine did, at `ts`; the time is `now`.
    ///
    /// # Errors
    /// If it should have been refused: its place in the order is taken, or its reads have other results there.
    pub fn commit(
        &mut self,
        draft: &Draft,
        ts: CommitTs,
        isolation: Isolation,
        durability: Durability,
        now: u64,
    ) -> Result<(), String> {
        if ts.0 != self.last() + 1 {
            return Err(format!("commit {} follows commit {}", ts.0, self.last()));
        }
        let newest = self.newest();
        if isolation == Isolation::Serializable
            && let Some(read) = draft.reads.iter().find(|read| !read.same(&draft.base, newest, draft.now))
        {
            return Err(format!("commit {} is not serializable: {read:?} changed since it began", ts.0));
        }
        let mut next = newest.clone();
        draft.changes.iter().try_for_each(|change| next.change(change))?;
        next.tables.values_mut().filter_map(|table| table.life.as_mut()).for_each(|life| life.commit(now));
        self.states.push(next);
        self.durabilities.push(durability);
        let sync = if durability == Durability::Sync { ts.0 } else { *self.newest_sync.last().unwrap_or(&0) };
        self.newest_sync.push(sync);
        Ok(())
    }

    /// Removes the commits after the first `commits`, which a power loss has undone.
    pub fn cut(&mut self, commits: u64) {
        let kept = commits as usize + 1;
        self.states.truncate(kept);
        self.newest_sync.truncate(kept);
        self.durabilities.truncate(kept);
    }
}
