//! Attached runs: data that a transaction wrote to the data file before it committed, after its commit.
//!
//! The log's record names the runs (`base::op::Op::Attach`). From then on they are in views as part of a sealed
//! memtable (see [`crate::view::SealedMemtable`]), below what the commit still had in memory and above everything
//! older. A snapshot that began before the commit skips them, because their only timestamp is their commit's.
//!
//! The next checkpoint merges them into their tables (`absorb`):
//! 1. Their range deletes are applied to the table's run.
//! 2. Their records, merged, go into it in key order; if it is now empty, into a new run in one pass. Large values stay
//!    where they are and change their owner; those that newer runs of the same commit hide are retired.
//! 3. Their pages are retired. They cannot become the table's: a page of a table names it, and is not older than the
//!    checkpoint that first reaches it, which salvage and incremental backups rely on.
//!
//! Extents are allocated as the log's ([`space::Space::allocate_logged`]) from the first page on, so that no superblock
//! counts them before they are absorbed: after a crash, those of an uncommitted transaction are free. Recovery claims
//! the ones that it finds in the log.

use crate::state::roots::Roots;
use crate::state::ttl::Reading;
use base::budget::{Account, Charge, MemoryCategory};
use base::op::{self, Op};
use base::slots::Reader;
use base::{CheckpointNo, Error, ErrorKind, Result, TableId};
use page::Value;
use pool::Pool;
use run::{Builder, Delta, Editor, Merge, Run, WriteContext};
use space::{Extent, Space};
use std::ops::Range;
use std::sync::Arc;

/// The greatest number of runs of one table that a commit attaches; more are merged first, because every read of the
/// table looks into each until a checkpoint has absorbed them.
pub(crate) const MOST_ATTACHED: usize = 4;

/// The greatest memory of range deletes of one commit that a recovery may take beyond the budget, in bytes. A record
/// that is longer than the memtables' share may take as much.
const MOST_UNCHARGED_BYTES: usize = 64 << 20;

/// The runs of one commit.
#[derive(Debug, Default)]
pub struct Attached {
    /// The runs by table, in the order of table ids; each table's newest first.
    tables: Vec<(TableId, Vec<Delta>)>,
    /// All pages and large values.
    pub(crate) extents: Vec<Extent>,
    /// The charge for the range deletes.
    charge: Option<Charge>,
    /// The memory of the range deletes that is not charged yet, in bytes.
    uncharged_bytes: usize,
}

impl Attached {
    /// Returns the runs of a commit, by table, and each table's newest first. The `charge` of the transaction pays for
    /// their range deletes, except for the little memory that transactions have for nothing.
    pub(crate) fn new(
        tables: Vec<(TableId, Vec<Delta>)>,
        extents: Vec<Extent>,
        charge: &mut Charge,
    ) -> Attached {
        let attached = Attached { tables, extents, ..Attached::default() };
        let bytes = attached.ranges_bytes();
        let paid = charge.split(bytes).converted(MemoryCategory::Memtables);
        let rest = bytes - paid.bytes();
        let mut all = paid.account().charge_by_force(MemoryCategory::Memtables, rest);
        all.join(paid);
        Attached { charge: Some(all), ..attached }
    }

    /// Returns runs that no view has and whose memory is charged to others.
    pub(crate) fn of_stack(table: TableId, runs: Vec<Delta>) -> Attached {
        Attached { tables: vec![(table, runs)], ..Attached::default() }
    }

    /// Returns the memory of the range deletes, in bytes.
    fn ranges_bytes(&self) -> usize {
        self.tables.iter().flat_map(|row| &row.1).map(|delta| delta.ranges.bytes()).sum()
    }

    /// Returns the runs that the commit attached to `table`, newest first.
    #[inline]
    pub fn runs(&self, table: TableId) -> &[Delta] {
        match self.tables.binary_search_by_key(&table, |row| row.0) {
            Ok(at) => &self.tables[at].1,
            Err(_) => &[],
        }
    }

    /// Returns the tables that have any runs.
    pub fn tables(&self) -> impl Iterator<Item = TableId> {
        self.tables.iter().map(|row| row.0)
    }

    /// Returns the number of runs.
    pub fn count(&self) -> usize {
        self.tables.iter().map(|row| row.1.len()).sum()
    }

    /// Returns the number of records.
    pub fn records(&self) -> u64 {
        self.tables.iter().flat_map(|row| &row.1).map(|delta| delta.records.records).sum()
    }

    /// Returns the number of bytes of keys and values.
    pub fn bytes(&self) -> u64 {
        self.tables.iter().flat_map(|row| &row.1).map(|delta| delta.records.bytes).sum()
    }

    /// Returns the operations that name the runs, oldest first in each table, as in the log.
    pub(crate) fn ops(&self) -> impl Iterator<Item = (TableId, AttachOp)> {
        let deltas =
            self.tables.iter().flat_map(|(table, deltas)| deltas.iter().rev().map(|delta| (*table, delta)));
        deltas.enumerate().map(|(at, (table, delta))| {
            // All extents go with the first operation: which run owns which extent does not matter.
            let extents = if at == 0 {
                op::encode_extents(self.extents.iter().map(|e| (e.unit, e.units)))
            } else {
                Vec::new()
            };
            (table, AttachOp { delta: delta.encode(), extents })
        })
    }

    /// Returns the runs that the `Attach` operations at the front of a commit record name; `None` if there are none. It
    /// claims nothing: see [`crate::open::claims`].
    ///
    /// # Errors
    /// [`base::ErrorKind::Corruption`] if they name something impossible or damaged: it was synced before the record
    /// was written.
    pub(crate) fn recover(record: &[u8], pool: &Pool, reader: &Reader) -> Result<Option<Attached>> {
        let mut attached: Option<Attached> = None;
        let mut roots = Roots::default();
        for (table, op) in op::Decoder::begin(record).into_iter().flatten() {
            let Op::Attach { delta, extents } = op else { break };
            let attached = attached.get_or_insert_default();
            let extents = op::decode_extents(extents).unwrap_or_default();
            attached.extents.extend(extents.into_iter().map(|(unit, units)| Extent { unit, units }));
            // Everything that can be known is checked before anything is read.
            let runs = attached.list_of(table)?;
            roots.add(table, &Delta::runs(delta)?)?;
            let delta = Delta::decode(delta, pool, reader)?;
            if let Some(root) = delta.records.root {
                drop(pool.pin(reader, root)?);
            }
            let bytes = delta.ranges.bytes();
            runs.insert(0, delta);
            attached.charge_ranges(bytes, pool.account())?;
        }
        Ok(attached)
    }

    /// Charges the memory of the range deletes of a run that was read.
    fn charge_ranges(&mut self, bytes: usize, account: &Arc<Account>) -> Result<()> {
        let charge = self.charge.get_or_insert_with(|| Charge::none(account, MemoryCategory::Memtables));
        if !charge.resize(charge.bytes() + bytes) {
            self.uncharged_bytes += bytes;
        }
        if self.uncharged_bytes > MOST_UNCHARGED_BYTES { Err(self.no_memory(account)) } else { Ok(()) }
    }

    /// Returns whether there was too little memory for the range deletes.
    pub(crate) fn is_uncharged(&self) -> bool {
        self.uncharged_bytes > 0
    }

    /// Charges the range deletes for which there was too little memory, `by_force` if there still is.
    ///
    /// # Errors
    /// [`ErrorKind::Full`] if there is.
    pub(crate) fn charge_rest(&mut self, by_force: bool) -> Result<()> {
        let (bytes, Some(charge)) = (self.uncharged_bytes, &mut self.charge) else { return Ok(()) };
        if !charge.resize(charge.bytes() + bytes) {
            let account = Arc::clone(charge.account());
            if !by_force {
                return Err(self.no_memory(&account));
            }
            charge.join(account.charge_by_force(MemoryCategory::Memtables, bytes));
        }
        self.uncharged_bytes = 0;
        Ok(())
    }

    #[cold]
    fn no_memory(&self, account: &Account) -> Error {
        let (limit, missing) = (account.budget().limit_bytes(), self.uncharged_bytes);
        Error::new(
            ErrorKind::Full,
            format!(
                "the range deletes of a large transaction in the log need {missing} more bytes of memory \
                 than there are within the limit of {limit} bytes; open the database once with more \
                 memory_bytes"
            ),
        )
    }

    /// Returns the list of the runs of `table`, which comes after all others, with room for one more.
    fn list_of(&mut self, table: TableId) -> Result<&mut Vec<Delta>> {
        match self.tables.last() {
            Some((last, runs)) if *last == table => {
                if runs.len() >= MOST_ATTACHED {
                    return Err(Error::corruption(format!(
                        "a commit attached more than {MOST_ATTACHED} runs to {table}"
                    )));
                }
            }
            Some((last, _)) if *last > table => {
                return Err(Error::corruption(format!("an attached run of {table} follows one of {last}")));
            }
            _ => self.tables.push((table, Vec::new())),
        }
        Ok(&mut self.tables.last_mut().expect("the list of this table").1)
    }
}

/// One `Attach` operation, owned.
pub(crate) struct AttachOp {
    delta: [u8; Delta::BYTES],
    extents: Vec<u8>,
}

impl AttachOp {
    pub fn as_op(&self) -> Op<'_> {
        Op::Attach { delta: &self.delta, extents: &self.extents }
    }
}

/// The context in which a checkpoint absorbs a table's attached runs.
pub(crate) struct Absorb<'a> {
    pub pool: &'a Pool,
    pub reader: &'a Reader,
    pub space: &'a std::sync::Mutex<Space>,
    pub birth: CheckpointNo,
    /// The first checkpoint in whose view the deltas may be.
    pub since: CheckpointNo,
    /// How values are read: expired ones count as deleted.
    pub reading: Reading,
    pub buffer_bytes: usize,
}

/// Returns the first checkpoint in whose view the runs may be that checkpoint `birth` absorbs. The checkpoint before
/// has absorbed what it was to absorb. So these were attached after it had begun, and before its switch, when the one
/// before it was still the newest.
pub(crate) fn attached_since(birth: CheckpointNo) -> CheckpointNo {
    CheckpointNo(birth.0.saturating_sub(2))
}

impl Absorb<'_> {
    /// Merges the table's runs of `attached` into its `run`, and retires their pages (steps 1 to 3). Returns the
    /// result.
    pub fn absorb(&self, run: Run, table: TableId, attached: &Attached) -> Result<(Run, page::EditCounters)> {
        let deltas = attached.runs(table);
        let mut editor = self.editor(run, table);
        for (start, end) in deltas.iter().flat_map(|delta| delta.ranges.iter()) {
            editor.remove_range(start, end)?;
        }
        let (run, mut counters) = editor.finish()?;
        let run = if run.root.is_some() {
            let mut editor = self.editor(run, table);
            self.merged(deltas, &mut |key, value| editor.take(key, value))?;
            let (run, edits) = editor.finish()?;
            counters += edits;
            run
        } else {
            let mut builder =
                Builder::new(self.pool, self.space, self.birth, self.buffer_bytes).of_table(table);
            self.merged(deltas, &mut |key, value| match value {
                Value::Deleted => Ok(()),
                value => builder.add(key, value),
            })?;
            builder.finish()?
        };
        for delta in deltas {
            delta.retire_pages(self.pool, self.reader, self.space, self.lived())?;
        }
        Ok((run, counters))
    }

    fn lived(&self) -> Range<CheckpointNo> {
        self.since..self.birth
    }

    fn editor(&self, run: Run, table: TableId) -> Editor<'_> {
        Editor::open(run, self.pool, self.reader, self.space, self.birth, self.buffer_bytes).of_table(table)
    }

    /// Passes on the result of `deltas` for each key, in key order, and retires the large values that are not part of
    /// it.
    fn merged(&self, deltas: &[Delta], take: &mut dyn FnMut(&[u8], Value<'_>) -> Result<()>) -> Result<()> {
        let mut merge = Merge::open(deltas, self.pool, self.reader)?;
        let (pool, reader, space, birth) = (self.pool, self.reader, self.space, self.birth);
        let context = WriteContext { pool, reader, space, birth };
        while merge.next(&mut |value| context.retire_value(value))? {
            let (key, value) = merge.entry().expect("the merge is on a record");
            take(key, self.reading.unless_expired(value, &context)?)?;
        }
        Ok(())
    }
}
