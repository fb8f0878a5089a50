//! Repeating the commits of another database, each under its own number and time.
//!
//! The database that repeats is a *follower*: it was restored from a backup of the other one, or is empty, and makes no
//! commits of its own. Its row in table [`TableId::LINEAGE`] states which database it follows and up to which commit,
//! and changes in the same transaction as everything else. So:
//!
//! 1. A commit is repeated once, whole: existing ones are skipped.
//! 2. A gap is rejected.
//! 3. A follower that made a commit of its own is rejected: its last commit is not the one that its row names. Before
//!    there is a row, the last commit must be the one from which it was restored ([`Superblock::restored`]), or none.
//!
//! A repeated commit takes the same path as any other: its writes are collected, spilled if they are many, and applied;
//! only its number is known beforehand.
//!
//! [`Superblock::restored`]: crate::superblock::Superblock::restored

use crate::commit::{Applied, Repeated};
use crate::read::handle::Admitted;
use crate::state::names::{TableChange, TableInfo};
use crate::state::store::Store;
use crate::state::ttl::Reading;
use crate::uncommitted::large::Stream;
use crate::uncommitted::write_set::Prior;
use crate::write::transaction::{Transaction, TransactionOptions};
use base::codec::{Reader, Writer};
use base::{CommitTs, DatabaseId, Error, ErrorKind, LargeRef, Result, TableId};
use std::collections::HashMap;
use std::sync::Arc;

/// The key of the only row of table [`TableId::LINEAGE`].
const FOLLOWS: &[u8] = b"follows";

/// A database and its fork, which distinguishes diverged copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lineage {
    /// The id of the database, which copies share.
    pub database: DatabaseId,
    /// The fork: 0 until the database is restored from a backup, and another number after each restore.
    pub fork: u32,
}

/// The copies of a database whose changes a follower accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forks {
    /// One copy of a database: the one that made the first change.
    One,
    /// Any copy: the caller knows that each continued where the one before it ended.
    Any,
}

/// The contents of a follower's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Follows {
    lineage: Lineage,
    /// The last commit that was repeated.
    through: CommitTs,
}

impl Follows {
    fn encode(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(20);
        out.put_u64(self.lineage.database.0);
        out.put_u32(self.lineage.fork);
        out.put_u64(self.through.0);
        out
    }

    fn decode(bytes: &[u8]) -> Result<Follows> {
        let mut reader = Reader::new(bytes);
        let mut read = || {
            let (database, fork, through) = (DatabaseId(reader.u64()?), reader.u32()?, reader.u64()?);
            let follows = Follows { lineage: Lineage { database, fork }, through: CommitTs(through) };
            reader.is_empty().then_some(follows)
        };
        read().ok_or_else(|| {
            Error::corruption("the row that says what this database follows cannot be decoded")
        })
    }
}

/// A transaction that repeats one commit.
#[derive(Debug)]
pub struct Repeat {
    tx: Transaction,
    follows: Follows,
    /// The tables that it has written to, by id.
    admitted: HashMap<TableId, Admitted>,
}

impl Repeat {
    /// Begins to repeat commit `number` of `lineage`, which was made at `time_ms` (0: unknown). Returns `None` if the
    /// store has that commit already.
    ///
    /// # Errors
    /// [`Missing`](ErrorKind::Missing) if commits before it are missing; [`Mismatch`](ErrorKind::Mismatch) if the store
    /// follows another database, or made commits of its own.
    pub fn begin(
        store: &Arc<Store>,
        lineage: Lineage,
        number: u64,
        time_ms: u64,
        forks: Forks,
        options: TransactionOptions,
    ) -> Result<Option<Repeat>> {
        let mut tx = Transaction::begin(store, options)?;
        let last = tx.snapshot.ts();
        check_lineage(store, &tx, lineage, forks, last)?;
        let next = last.0 + 1;
        if number < next {
            return Ok(None);
        }
        if number > next {
            let message = format!(
                "the changes of commits {next} to {} are missing: this database ends at commit {}, but the \
                 next change is commit {number}",
                number - 1,
                last.0
            );
            return Err(Error::new(ErrorKind::Missing, message));
        }
        let number = CommitTs(number);
        tx.repeats = Some(Repeated { number, time_ms: (time_ms > 0).then_some(time_ms) });
        let follows = Follows { lineage, through: number };
        Ok(Some(Repeat { tx, follows, admitted: HashMap::new() }))
    }

    /// Repeats the commit's changes of whole tables: all of them, before anything else.
    ///
    /// # Errors
    /// [`Mismatch`](ErrorKind::Mismatch) if the tables are not those of the other database.
    pub fn change_tables(&mut self, changes: &[TableChange]) -> Result<()> {
        for change in changes {
            match change {
                TableChange::Dropped { id, name } => {
                    self.check_table(name, *id)?;
                    self.tx.writes_mut().delete_range(*id, &[], None);
                    self.tx.writes_mut().delete(TableId::CATALOG, name.as_bytes(), Prior::Unread);
                }
                TableChange::Renamed { from, table } => {
                    self.check_table(from, table.id())?;
                    self.tx.writes_mut().delete(TableId::CATALOG, from.as_bytes(), Prior::Unread);
                }
                TableChange::Altered(table) => self.check_table(&table.name, table.id())?,
                TableChange::Created(_) => {}
            }
        }
        // A name that one table gave up may belong to another now.
        for change in changes {
            if let TableChange::Renamed { table, .. }
            | TableChange::Altered(table)
            | TableChange::Created(table) = change
            {
                self.put_row(table)?;
            }
        }
        self.tx.distrust_all();
        Ok(())
    }

    fn put_row(&mut self, table: &TableInfo) -> Result<()> {
        crate::catalog::check_name(&table.name)?;
        let store = self.tx.store();
        store.catalog.pass_id(table.id());
        store.time.pass(table.row.floor_ms());
        self.tx.make_room(table.name.len() + 24)?;
        self.tx.put_row(&table.name, table.row);
        Ok(())
    }

    /// Checks that the table of this name belongs to the other database, as far as ids show.
    fn check_table(&self, name: &str, id: TableId) -> Result<()> {
        let found = self.tx.table(name)?.map(|found| found.id());
        if found == Some(id) {
            return Ok(());
        }
        let found = found.map_or("absent".to_owned(), |found| found.to_string());
        let message = format!("table {name:?} is {id} in the database that is followed, but {found} here");
        Err(Error::new(ErrorKind::Mismatch, message))
    }

    /// Prepares for operations on a table, by its id and the name that it has after the commit.
    ///
    /// # Errors
    /// [`Mismatch`](ErrorKind::Mismatch) if there is no such table.
    pub fn enter(&mut self, id: TableId, name: &str) -> Result<()> {
        if self.admitted.contains_key(&id) {
            return Ok(());
        }
        self.check_table(name, id)?;
        let table = self.tx.table(name)?.expect("it was found a moment ago");
        let admitted = self.tx.admitted(&table)?;
        self.admitted.insert(id, admitted);
        Ok(())
    }

    fn known(&self, id: TableId) -> Result<Admitted> {
        self.admitted
            .get(&id)
            .copied()
            .ok_or_else(|| Error::invalid(format!("{id} was not named before its use")))
    }

    /// Puts a value as it is stored: in a table with a TTL, after its date.
    ///
    /// # Errors
    /// As for [`Transaction::put`].
    pub fn put(&mut self, id: TableId, key: &[u8], stored: &[u8]) -> Result<()> {
        let of = self.known(id)?;
        self.tx.check_key(key)?;
        self.tx.store().early.check_value_len(stored.len())?;
        check_date(of.reading, stored.len() as u64)?;
        let is_large = self.tx.store().early.is_large(stored.len() as u64);
        self.tx.make_room(key.len() + if is_large { LargeRef::BYTES } else { stored.len() })?;
        self.tx.store_value(id, key, stored, Prior::Unread)
    }

    /// Begins to put a value, as it is stored, a piece at a time.
    ///
    /// # Errors
    /// As for [`Transaction::value_writer`].
    pub fn value(&mut self, id: TableId, key: &[u8]) -> Result<RepeatedValue<'_>> {
        let of = self.known(id)?;
        self.tx.check_key(key)?;
        let stream = Stream::new(self.tx.store());
        Ok(RepeatedValue { tx: &mut self.tx, id, reading: of.reading, key: key.to_vec(), stream })
    }

    /// Deletes `key`.
    ///
    /// # Errors
    /// As for [`Transaction::delete`].
    pub fn delete(&mut self, id: TableId, key: &[u8]) -> Result<()> {
        self.known(id)?;
        self.tx.check_key(key)?;
        self.tx.make_room(key.len())?;
        self.tx.writes_mut().delete(id, key, Prior::Unread);
        Ok(())
    }

    /// Deletes all keys at or after `start` and before `end`; no `end` means to the end of the table.
    ///
    /// # Errors
    /// As for [`Transaction::delete_range`].
    pub fn delete_range(&mut self, id: TableId, start: &[u8], end: Option<&[u8]>) -> Result<()> {
        self.known(id)?;
        if end.is_some_and(|end| end <= start) {
            return Ok(());
        }
        self.tx.make_room(start.len() + end.map_or(0, <[u8]>::len))?;
        self.tx.writes_mut().delete_range(id, start, end);
        Ok(())
    }

    /// Commits the changes; [`Store::acknowledge`] completes the commit.
    ///
    /// # Errors
    /// As for [`Transaction::apply`]; [`Mismatch`](ErrorKind::Mismatch) if another commit came in between.
    pub fn apply(mut self) -> Result<Applied> {
        let row = self.follows.encode();
        self.tx.make_room(FOLLOWS.len() + row.len())?;
        self.tx.writes_mut().put(TableId::LINEAGE, FOLLOWS, &row, Prior::Unread);
        self.tx.apply()
    }

    /// Returns about how many bytes of writes it holds in memory.
    pub fn bytes(&self) -> usize {
        self.tx.bytes()
    }
}

/// Checks that `store` may repeat the next commit of `lineage`, as far as that shows before the commit is there.
///
/// # Errors
/// [`Mismatch`](ErrorKind::Mismatch), as for [`Repeat::begin`].
pub fn check_follower(store: &Arc<Store>, lineage: Lineage, forks: Forks) -> Result<()> {
    let tx = Transaction::begin(store, TransactionOptions::default())?;
    let last = tx.snapshot.ts();
    check_lineage(store, &tx, lineage, forks, last)
}

/// Checks that a store whose last commit is `last` may repeat commits of `lineage` (rule 3).
fn check_lineage(
    store: &Store,
    tx: &Transaction,
    lineage: Lineage,
    forks: Forks,
    last: CommitTs,
) -> Result<()> {
    let row = tx.snapshot.get_in(TableId::LINEAGE, Reading::Plain, FOLLOWS)?;
    let follows = row.map(|row| Follows::decode(&row)).transpose()?;
    // A row that came with the backup describes what the backed up database had followed, not this one.
    let follows = follows.filter(|follows| follows.through > store.restored());
    let through = match follows {
        Some(follows) if follows.lineage != lineage && forks == Forks::One => {
            let message = "this database follows another database, or another copy of it; restore a backup \
                           of the one whose changes are to be applied";
            return Err(Error::new(ErrorKind::Mismatch, message));
        }
        Some(follows) => follows.through,
        None => store.restored(),
    };
    if through != last {
        let message = format!(
            "this database has commits of its own: it followed up to commit {}, but its last commit is {}; \
             restore a backup to follow again",
            through.0, last.0
        );
        return Err(Error::new(ErrorKind::Mismatch, message));
    }
    let expects_own = follows.is_none() || forks == Forks::Any;
    if expects_own && last.0 > 0 && store.database != lineage.database {
        let message = "the changes are those of another database";
        return Err(Error::new(ErrorKind::Mismatch, message));
    }
    Ok(())
}

/// Checks that a stored value of a table with a TTL is long enough for its date.
fn check_date(reading: Reading, stored_len: u64) -> Result<()> {
    if stored_len < reading.front_bytes() as u64 {
        return Err(Error::invalid("a value of a table with a TTL is too short for its date"));
    }
    Ok(())
}

/// A value that is being put a piece at a time.
#[derive(Debug)]
#[must_use = "the value is put only if `finish` is called"]
pub struct RepeatedValue<'t> {
    tx: &'t mut Transaction,
    id: TableId,
    reading: Reading,
    key: Vec<u8>,
    stream: Stream,
}

impl RepeatedValue<'_> {
    /// Appends `bytes`.
    ///
    /// # Errors
    /// As [`ValueWriter::append`](crate::ValueWriter::append).
    pub fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write(bytes)
    }

    /// Puts the value.
    ///
    /// # Errors
    /// As [`ValueWriter::finish`](crate::ValueWriter::finish).
    pub fn finish(self) -> Result<()> {
        check_date(self.reading, self.stream.len_bytes())?;
        let streamed = self.stream.finish()?;
        self.tx.put_streamed(self.id, &self.key, streamed)
    }
}

impl Store {
    /// Returns the last commit of the backup from which the database was restored; 0 if it was created here.
    pub(crate) fn restored(&self) -> CommitTs {
        self.checkpoints.pins.newest().restored
    }

    /// Returns the database and its fork.
    pub fn lineage(&self) -> Lineage {
        let newest = self.checkpoints.pins.newest();
        Lineage { database: newest.database, fork: newest.fork }
    }

    /// Returns whether runs of large transactions wait for a checkpoint. Another large transaction may be rejected
    /// until they are absorbed.
    pub fn has_waiting_runs(&self) -> bool {
        self.attached_runs() > 0
    }
}
