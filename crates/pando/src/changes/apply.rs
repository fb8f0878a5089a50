//! Changes of another database, applied to this one, each as one transaction.

use super::format::{Begin, LongValue};
use super::read::{Part, Reader};
use crate::Identity;
use crate::database::Database;
use base::op::{Decoder, Op};
use base::{Error, Result};
use std::io::Read;
use store::changes::TableChange;
use store::{Forks, Repeat, TransactionOptions};
use txn::{Durability, Isolation};

/// The result of [`Database::apply_changes`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Applied {
    /// The number of changes that were applied.
    pub applied: u64,
    /// The number of changes that the database had already.
    pub skipped: u64,
    /// The number of the last commit of the database.
    pub last_commit: u64,
}

/// The greatest number of table changes that are collected for one commit: as many as a commit record can hold.
const MOST_TABLE_CHANGES: usize = 1 << 20;

impl Database {
    /// Applies changes of another database, in the form that [`Change::write_to`](crate::Change::write_to) writes, each
    /// as one transaction under its own commit number and time. Returns at the end of `input`; everything that was
    /// applied is durable then.
    ///
    /// This database must be a *follower*: empty or restored from a backup of the other database, and without commits
    /// of its own. It skips changes that it already has, so you can repeat an interrupted call from any earlier commit
    /// on.
    ///
    /// Memory is bounded as for any other transaction, whatever the length of a change.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// let primary = pando::Database::builder().in_memory()?;
    /// let follower = pando::Database::builder().in_memory()?;
    /// let mut changes = primary.changes(0)?;
    /// let fruit = primary.ensure_table("fruit")?;
    /// primary.put(&fruit, b"apple", b"red")?;
    ///
    /// let mut bytes = Vec::new();
    /// while let Some(mut change) = changes.next()? {
    ///     change.write_to(&mut bytes)?;
    /// }
    /// let applied = follower.apply_changes(&mut &bytes[..])?;
    /// assert_eq!((applied.applied, applied.last_commit), (2, 2));
    /// let fruit = follower.ensure_table("fruit")?;
    /// assert_eq!(follower.get(&fruit, b"apple")?.as_deref(), Some(&b"red"[..]));
    /// assert_eq!(follower.apply_changes(&mut &bytes[..])?.skipped, 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Missing` if `input` lacks changes between the last commit of this database and the first new one; the message
    /// has both numbers. `Mismatch` if this database made commits of its own, or follows another database; `Foreign`
    /// and `Corruption` if the bytes are not changes, or end in the middle of one; errors of a commit. The changes
    /// before the failed one are applied; nothing of the failed one is.
    pub fn apply_changes(&self, input: &mut dyn Read) -> Result<Applied> {
        self.apply_changes_of(Forks::One, input)
    }

    /// Applies changes as [`Database::apply_changes`] does, and also accepts changes of several copies of one database.
    /// Each copy must have been restored at the last of the previous copy's changes in `input`, as in a lineage in a
    /// bucket: the call cannot detect changes of copies that diverged.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    /// let restored = |db: &pando::Database, dir: &tempfile::TempDir| {
    ///     let mut backup = Vec::new();
    ///     db.backup(pando::BackupOptions::default(), &mut backup)?;
    ///     pando::restore_stream(&mut &backup[..], dir.path())?;
    ///     pando::Database::open(dir.path())
    /// };
    /// let written = |changes: &mut pando::Changes| {
    ///     let mut bytes = Vec::new();
    ///     while let Some(mut change) = changes.next()? {
    ///         change.write_to(&mut bytes)?;
    ///     }
    ///     Ok::<_, pando::Error>(bytes)
    /// };
    /// let primary = pando::Database::builder().in_memory()?;
    /// let fruit = primary.ensure_table("fruit")?;
    /// let (follower, mut changes) = (restored(&primary, &first)?, primary.changes(1)?);
    /// primary.put(&fruit, b"apple", b"red")?;
    /// follower.apply_changes_across_forks(&mut &written(&mut changes)?[..])?;
    /// // The primary is lost. A copy of it goes on.
    /// let (successor, fruit) = (restored(&primary, &second)?, fruit.name().to_owned());
    /// let mut changes = successor.changes(2)?;
    /// successor.put(&successor.ensure_table(&fruit)?, b"lemon", b"yellow")?;
    /// let bytes = written(&mut changes)?;
    /// assert_eq!(follower.apply_changes(&mut &bytes[..]).unwrap_err().kind(), pando::ErrorKind::Mismatch);
    /// assert_eq!(follower.apply_changes_across_forks(&mut &bytes[..])?.last_commit, 3);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Database::apply_changes`], except that changes of another copy do not return `Mismatch`.
    pub fn apply_changes_across_forks(&self, input: &mut dyn Read) -> Result<Applied> {
        self.apply_changes_of(Forks::Any, input)
    }

    /// Checks that this database can apply the next change of the database with this [identity](Database::identity).
    /// [`Database::apply_changes`] makes the same check, but only when a change comes. Call this to recognize early a
    /// copy that has diverged or follows another database.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// let primary = pando::Database::builder().in_memory()?;
    /// primary.ensure_table("fruit")?;
    /// let mut backup = Vec::new();
    /// primary.backup(pando::BackupOptions::default(), &mut backup)?;
    /// pando::restore_stream(&mut &backup[..], dir.path())?;
    /// let follower = pando::Database::open(dir.path())?;
    /// follower.check_follows(primary.identity())?;
    ///
    /// let another = pando::Database::builder().in_memory()?;
    /// let error = follower.check_follows(another.identity()).unwrap_err();
    /// assert_eq!(error.kind(), pando::ErrorKind::Mismatch);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Mismatch` if the database made commits of its own, or follows another database or another copy of it; `Closed`.
    pub fn check_follows(&self, identity: Identity) -> Result<()> {
        store::check_follower(&self.shared.store, identity.into(), Forks::One)
    }

    fn apply_changes_of(&self, forks: Forks, input: &mut dyn Read) -> Result<Applied> {
        let store = &self.shared.store;
        let mut reader = Reader::new(input);
        let mut done = Applied::default();
        let outcome = loop {
            match self.apply_next(forks, &mut reader) {
                Ok(Some(true)) => done.applied += 1,
                Ok(Some(false)) => done.skipped += 1,
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        if done.applied > 0 {
            store.sync()?;
        }
        outcome?;
        done.last_commit = store.last_commit();
        Ok(done)
    }

    /// Applies one change. Returns whether it was new, or `None` at the end of the input.
    fn apply_next(&self, forks: Forks, reader: &mut Reader<'_>) -> Result<Option<bool>> {
        let Some(begin) = reader.begin()? else { return Ok(None) };
        self.apply_change(forks, begin, reader)
            .map(Some)
            .map_err(|error| error.within(format!("applying commit {}", begin.commit)))
    }

    fn apply_change(&self, forks: Forks, begin: Begin, reader: &mut Reader<'_>) -> Result<bool> {
        let store = &self.shared.store;
        store.check_process()?;
        self.shared.signals.wait_for_room()?;
        if store.has_waiting_runs() {
            // A large transaction may be rejected until the changes are merged, and the input cannot be read again.
            store.checkpoint()?;
        }
        // One sync at the end covers all of them.
        let options =
            TransactionOptions { isolation: Isolation::Serializable, durability: Durability::Buffered };
        let repeat = Repeat::begin(store, begin.lineage, begin.commit, begin.time_ms, forks, options)?;
        let Some(repeat) = repeat else {
            while !matches!(reader.next()?, Part::End) {}
            return Ok(false);
        };
        let repeat = fill(repeat, reader)?;
        let bytes = repeat.bytes() as u64;
        self.shared.pass_gate();
        let applied = repeat.apply()?;
        self.shared.finish_commit(applied, options.durability, bytes)?;
        Ok(true)
    }
}

/// Applies the operations of the change in `reader` up to its end.
fn fill(mut repeat: Repeat, reader: &mut Reader<'_>) -> Result<Repeat> {
    let mut tables: Option<Vec<TableChange>> = Some(Vec::new());
    loop {
        match reader.next()? {
            Part::Tables(changes) => {
                let gathered = tables.as_mut().ok_or_else(|| misplaced("a change of a table"))?;
                gathered.extend(changes);
                if gathered.len() > MOST_TABLE_CHANGES {
                    return Err(Error::corruption(
                        "a change has more changes of tables than a commit can have",
                    ));
                }
                continue;
            }
            part => {
                if let Some(changes) = tables.take() {
                    repeat.change_tables(&changes)?;
                }
                match part {
                    Part::End => return Ok(repeat),
                    Part::Table(id, name) => repeat.enter(id, name)?,
                    Part::Operations(operations) => repeat_operations(&mut repeat, operations)?,
                    Part::Value(LongValue { table, len_bytes, key }) => {
                        let key = key.to_vec();
                        repeat_value(&mut repeat, reader, table, &key, len_bytes)?;
                    }
                    Part::Piece(_) => return Err(misplaced("a piece of a value")),
                    Part::Tables(_) => unreachable!("taken above"),
                }
            }
        }
    }
}

fn repeat_operations(repeat: &mut Repeat, mut operations: Decoder<'_>) -> Result<()> {
    for (table, op) in &mut operations {
        match op {
            Op::Put { key, value } => repeat.put(table, key, value)?,
            Op::Delete { key } => repeat.delete(table, key)?,
            Op::DeleteRange { start, end } => repeat.delete_range(table, start, end)?,
            Op::PutLarge { .. } | Op::Attach { .. } => return Err(misplaced("a reference into a data file")),
        }
    }
    match operations.finish() {
        Some([]) => Ok(()),
        _ => Err(Error::corruption("a frame of operations cannot be decoded")),
    }
}

fn repeat_value(
    repeat: &mut Repeat,
    reader: &mut Reader<'_>,
    table: base::TableId,
    key: &[u8],
    len_bytes: u64,
) -> Result<()> {
    let mut writer = repeat.value(table, key)?;
    let mut left = len_bytes;
    while left > 0 {
        let Part::Piece(piece) = reader.next()? else { return Err(misplaced("a frame other than a piece")) };
        let rest = left.checked_sub(piece.len() as u64).filter(|_| !piece.is_empty());
        left = rest.ok_or_else(|| Error::corruption("the pieces of a value are longer than it"))?;
        writer.append(piece)?;
    }
    writer.finish()
}

#[cold]
fn misplaced(what: &str) -> Error {
    Error::corruption(format!("{what} is in the wrong place in a change; read the changes again"))
}
