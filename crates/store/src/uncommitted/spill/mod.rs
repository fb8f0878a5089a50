//! The writes of a transaction that did not fit its share of memory: sorted runs of its own in the data file.
//!
//! ```text
//!   write set (memory, newest)  ──►  run, run, run ... of each table (newest first)  ──►  snapshot
//! ```
//!
//! 1. When the write set exceeds its bound, it is written, table by table, as a [`Delta`], and begins anew. A table's
//!    deltas are newer than the snapshot and older than the write set; a newer delta's range deletes hide older deltas'
//!    records. The catalog's rows are few and stay in memory; so do references to values in the data file.
//! 2. Before more are added, eight deltas of a size are merged into one of the next size, so that a look-up meets few
//!    and each record is written a logarithmic number of times, in bounded memory. If the keys of each delta follow
//!    those of the older ones, as after ascending inserts, their leaves are joined instead ([`run::join`]): records are
//!    written once.
//! 3. Deltas are immutable and reference-counted. If a savepoint exists when the write set is spilled, it keeps the
//!    lists as they were before, with the write set as it was at the savepoint (*frozen*): a rollback restores both. If
//!    a savepoint is made while much is in memory or frozen, what is in memory is spilled first, unless that is little.
//! 4. The range deletes of deltas, and frozen write sets, stay in memory. The memory that the writes were charged pays
//!    for them: [`Spills::fund`].
//! 5. A delta owns its extents until its transaction commits: with its last reference they are free again. The extents
//!    of large values are shared with the deltas that a merge makes, those of leaves with the ones that a join makes.
//!
//! Keys that were read before they were written ([`Prior::Read`]) go to the read set if they are few. Otherwise they
//! are recorded for all keys of the delta together ([`Reads`]): like the joined intervals of a long read set, this can
//! add conflicts, and never lose one.

mod build;
mod extents;
mod spilled;

pub(crate) use build::build;
pub(crate) use spilled::{Reads, Spilled};

use crate::state::attach::{Attached, MOST_ATTACHED};
use crate::state::memory::FREE_TRANSACTION_BYTES;
use crate::state::paid_reads::PaidReads;
use crate::state::store::Store;
use crate::uncommitted::large::Unpublished;
use crate::uncommitted::write_set::{Prior, Savepoint, WriteSet};
use base::budget::{Charge, MemoryCategory};
use base::slots::Reader;
use base::{Error, Result, TableId};
use build::{join, merge, write};
use extents::Extents;
use page::Value;
use run::{Delta, PinnedRecord, Probe, Said};
use space::Extent;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of deltas of a size that are merged into one.
pub(crate) const MERGED: usize = 8;

/// The writes that stay in memory when the rest of a write set is spilled.
struct Retained {
    table: TableId,
    key: Vec<u8>,
    what: RetainedValue,
}

enum RetainedValue {
    /// A row of the catalog; `None`: deleted.
    Row(Option<Vec<u8>>),
    /// A value that is in the data file already.
    Large(Arc<Unpublished>, Prior),
}

type Lists = BTreeMap<TableId, Vec<Arc<Spilled>>>;

/// A write set as of its last savepoint, and the deltas that were spilled before.
#[derive(Debug)]
struct Frozen {
    writes: WriteSet,
    lists: Lists,
}

impl Frozen {
    /// Returns the bytes of memory that it holds, without those of the deltas.
    fn held_bytes(&self) -> usize {
        size_of::<Frozen>() + self.writes.frozen_bytes() + lists_bytes(&self.lists)
    }
}

/// The memory of a table's list of deltas, without its items: its part of a node of the map, two thirds full.
const LIST_BYTES: usize = 48;

fn lists_bytes(lists: &Lists) -> usize {
    lists.values().map(|list| LIST_BYTES + list.len() * size_of::<Arc<Spilled>>()).sum()
}

/// The spilled writes of a transaction; see the module.
#[derive(Debug)]
pub(crate) struct Spills {
    store: Arc<Store>,
    lists: Lists,
    frozen: Vec<Frozen>,
    /// The memory of the frozen write sets in use, and all that they hold, in bytes.
    frozen_used_bytes: usize,
    frozen_held_bytes: usize,
    /// The memory of all deltas together, in bytes, without their pages.
    deltas_bytes: Arc<AtomicUsize>,
    /// The charge for all of that, beyond what a transaction may hold for nothing.
    charge: Charge,
    /// A savepoint spills only a write set of at least so many bytes: twice as many as when that failed last.
    pub least_bytes: usize,
    /// The deltas whose writes were rolled back, but whose keys were read.
    read_only: Vec<(TableId, Arc<Spilled>)>,
}

impl Spills {
    /// Creates spills without deltas.
    pub fn new(store: &Arc<Store>) -> Spills {
        Spills {
            store: Arc::clone(store),
            lists: Lists::new(),
            frozen: Vec::new(),
            frozen_used_bytes: 0,
            frozen_held_bytes: 0,
            deltas_bytes: Arc::default(),
            charge: Charge::none(store.account(), MemoryCategory::WriteSets),
            least_bytes: 0,
            read_only: Vec::new(),
        }
    }

    /// Returns the deltas of `table`, newest first.
    #[inline]
    pub fn deltas(&self, table: TableId) -> &[Arc<Spilled>] {
        self.lists.get(&table).map_or(&[], Vec::as_slice)
    }

    /// Returns the deltas of `table`, newest first, or none if they have neither `key` nor any greater key. So a
    /// transaction that inserts in ascending order does not look into what it has spilled.
    #[inline]
    pub fn deltas_from(&self, table: TableId, key: &[u8]) -> &[Arc<Spilled>] {
        let deltas = self.deltas(table);
        if deltas.first().is_some_and(|newest| newest.is_before(key)) { &[] } else { deltas }
    }

    /// Returns whether it has nothing to commit.
    pub fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }

    /// Returns the memory that frozen write sets use, in bytes.
    pub fn frozen_bytes(&self) -> usize {
        self.frozen_used_bytes
    }

    /// Returns the memory that it holds, in bytes: range deletes and frozen write sets.
    pub fn held_bytes(&self) -> usize {
        self.frozen_held_bytes + self.deltas_bytes.load(Ordering::SeqCst)
    }

    /// Ensures, before `writes` are spilled, that the memory is charged that will be held after that. It comes from the
    /// charge of the writes, as far as there is one. [`Spills::take_excess`] returns what is too much. A quarter of the
    /// budget is left for everything else.
    ///
    /// # Errors
    /// [`ErrorKind::Full`](base::ErrorKind::Full) if there is not enough memory. The charges are as before.
    pub fn fund(&mut self, writes: &WriteSet, mut paid: Option<&mut Charge>) -> Result<()> {
        let deltas_bytes = size_of::<Spilled>() * writes.tables().count().max(1);
        let frozen_bytes =
            if writes.has_savepoints() { size_of::<Frozen>() + lists_bytes(&self.lists) } else { 0 };
        let more_bytes = writes.kept_bytes() + deltas_bytes + frozen_bytes;
        let needed = (self.held_bytes() + more_bytes).saturating_sub(FREE_TRANSACTION_BYTES);
        let before = self.charge.bytes();
        // Merges read pages, and a commit needs memory for its record.
        if needed > self.store.account().budget().limit_bytes() / 4 * 3 {
            return Err(self.lacks(needed));
        }
        if let Some(paid) = &mut paid {
            self.charge.join(paid.split(needed.saturating_sub(before)));
        }
        if self.charge.bytes() >= needed || self.store.raise_charge(&mut self.charge, needed, false) {
            return Ok(());
        }
        let lent = self.charge.bytes() - before;
        if let Some(paid) = paid {
            paid.join(self.charge.split(lent));
        }
        Err(self.lacks(needed))
    }

    fn lacks(&self, needed_bytes: usize) -> Error {
        let holder = "the transaction, whose range deletes and savepoints stay in memory,";
        self.store.no_memory(holder, needed_bytes)
    }

    /// Returns the part of the charge that nothing needs.
    pub fn take_excess(&mut self) -> Charge {
        let needed = self.held_bytes().saturating_sub(FREE_TRANSACTION_BYTES);
        self.charge.split(self.charge.bytes().saturating_sub(needed))
    }

    fn count_frozen(&mut self) {
        self.frozen_used_bytes = self.frozen.iter().map(|frozen| frozen.writes.bytes()).sum();
        self.frozen_held_bytes = self.frozen.iter().map(Frozen::held_bytes).sum();
    }

    /// Returns every delta whose keys matter to validation, with whether they were read, written, or both.
    pub fn to_validate(&self) -> impl Iterator<Item = (TableId, &Spilled, bool)> {
        let written =
            self.lists.iter().flat_map(|(table, list)| list.iter().map(|spilled| (*table, &**spilled, true)));
        written.chain(self.read_only.iter().map(|(table, spilled)| (*table, &**spilled, false)))
    }

    /// Finds `key` in the deltas. An inner `None` means that it is deleted.
    pub fn find(
        &self,
        store: &Store,
        reader: &Reader,
        table: TableId,
        key: &[u8],
    ) -> Result<Option<Option<PinnedRecord>>> {
        let deltas = self.deltas_from(table, key);
        if deltas.is_empty() {
            return Ok(None);
        }
        let (pool, mut guard) = (&store.pool, reader.enter());
        let said = Delta::find_newest(deltas, |spilled| &spilled.delta, pool, &mut guard, Probe::new(key))?;
        Ok(match said {
            Some(Said::Record(position)) => {
                let leaf = position.leaf(pool, &mut guard)?;
                let deleted = leaf.value() == Value::Deleted;
                Some((!deleted).then(|| leaf.pin()))
            }
            Some(Said::Covered) => Some(None),
            None => None,
        })
    }

    /// Writes the user tables' part of `writes` to deltas, and removes it from `writes`, together with what was rolled
    /// back. See the module.
    ///
    /// After an error no write is lost: `writes` is as before, and merges may have been made. All that can fail comes
    /// before the first change: the merges that earlier deltas made due, then the new deltas of all tables.
    pub fn spill(&mut self, reader: &Reader, writes: &mut WriteSet, reads: &PaidReads) -> Result<()> {
        let store = &Arc::clone(&self.store);
        let _writing = store.early.begin();
        writes.sort_for_commit();
        self.merge_due(store, reader)?;
        let tables: Vec<TableId> = writes.tables().filter(|table| *table != TableId::CATALOG).collect();
        let mut spilled = Vec::new();
        for table in tables {
            let written = write(store, writes, table)?;
            if written.delta.records.root.is_some() || !written.delta.ranges.is_empty() {
                spilled.push((table, written));
            }
        }
        if spilled.is_empty() && !writes.is_mostly_gone() {
            return Ok(());
        }
        self.freeze(writes, reads, &BTreeSet::new());
        if spilled.is_empty() {
            return Ok(());
        }
        for (table, spilled) in spilled {
            self.insert(table, spilled);
        }
        store.tallies.spills.fetch_add(1, Ordering::Relaxed); // Relaxed: a tally, which orders nothing.
        Ok(())
    }

    /// Empties the write set, except for the catalog's rows and values that are in the data file already; keeps it as
    /// of its last savepoint, if it has any. Keys whose writes are gone stay read. Large values that were `replaced`
    /// are left out.
    fn freeze(&mut self, writes: &mut WriteSet, reads: &PaidReads, replaced: &BTreeSet<(TableId, Vec<u8>)>) {
        let store = Arc::clone(&self.store);
        let lost = writes.read_keys(true).chain(writes.rarely_read_keys());
        lost.for_each(|(table, key)| reads.key(&store, table, key));
        writes.sort_for_commit();
        let mut kept: Vec<Retained> = Vec::new();
        for (name, row) in writes.records(TableId::CATALOG) {
            let row = if let Value::Inline(row) = row { Some(row.to_vec()) } else { None };
            kept.push(Retained {
                table: TableId::CATALOG,
                key: name.to_vec(),
                what: RetainedValue::Row(row),
            });
        }
        for (table, key, value, prior) in writes.large_entries() {
            let at = (table, key.to_vec());
            match (replaced.contains(&at), prior) {
                (true, Prior::Read) => reads.key(&store, table, key),
                (true, Prior::Unread) => {}
                (false, _) => {
                    let what = RetainedValue::Large(Arc::clone(value), prior);
                    kept.push(Retained { table, key: at.1, what });
                }
            }
        }
        match writes.freeze() {
            None => writes.clear(),
            Some(successor) => {
                let writes = std::mem::replace(writes, successor);
                let frozen = Frozen { writes, lists: self.lists.clone() };
                self.frozen_used_bytes += frozen.writes.bytes();
                self.frozen_held_bytes += frozen.held_bytes();
                self.frozen.push(frozen);
            }
        }
        for Retained { table, key, what } in kept {
            match what {
                RetainedValue::Row(Some(row)) => writes.put(table, &key, &row, Prior::Unread),
                RetainedValue::Row(None) => writes.delete(table, &key, Prior::Unread),
                RetainedValue::Large(value, prior) => writes.put_large(table, &key, value, prior),
            }
        }
    }

    /// Adds a delta that was built beside the write set, newer than all others of its table. Of user tables the write
    /// set holds only large values; those of the delta's keys are removed. Its savepoints stay. After an error no write
    /// is lost, and the delta was not added.
    pub fn push(
        &mut self,
        reader: &Reader,
        writes: &mut WriteSet,
        reads: &PaidReads,
        table: TableId,
        spilled: Spilled,
    ) -> Result<()> {
        writes.sort_for_commit();
        let store = Arc::clone(&self.store);
        let writing = store.early.begin();
        self.merge_due(&store, reader)?;
        drop(writing);
        let mut replaced = BTreeSet::new();
        for (of, key, _, _) in writes.large_entries().filter(|entry| entry.0 == table) {
            if spilled.delta.knows(&self.store.pool, reader, key)? {
                replaced.insert((of, key.to_vec()));
            }
        }
        self.freeze(writes, reads, &replaced);
        self.insert(table, spilled);
        Ok(())
    }

    fn insert(&mut self, table: TableId, spilled: Spilled) {
        let list = self.lists.entry(table).or_default();
        list.insert(0, spilled.over(list.first(), &self.deltas_bytes));
    }

    /// Merges the newest deltas of each table that has [`MERGED`] of a level (step 2). It is called before deltas are
    /// added, so that an error leaves the new ones unmade.
    fn merge_due(&mut self, store: &Arc<Store>, reader: &Reader) -> Result<()> {
        let tables: Vec<TableId> = self.lists.keys().copied().collect();
        tables.into_iter().try_for_each(|table| self.merge_level(store, reader, table))
    }

    /// Merges the newest [`MERGED`] deltas of a table into one of the next level, as long as all of them have the same
    /// level.
    fn merge_level(&mut self, store: &Arc<Store>, reader: &Reader, table: TableId) -> Result<()> {
        loop {
            let list = &self.lists[&table];
            let level = list[0].level;
            if list.len() < MERGED || list[MERGED - 1].level != level {
                return Ok(());
            }
            self.merge_newest(store, reader, table, MERGED)?;
        }
    }

    fn merge_newest(
        &mut self,
        store: &Arc<Store>,
        reader: &Reader,
        table: TableId,
        count: usize,
    ) -> Result<()> {
        let list = self.lists.get_mut(&table).expect("a table with deltas");
        let newest = &list[..count];
        let merged =
            if are_ascending(newest) { join(store, reader, newest)? } else { merge(store, reader, newest)? };
        let merged = merged.over(list.get(count), &self.deltas_bytes);
        list.splice(..count, [merged]);
        Ok(())
    }

    /// Rolls back to the savepoint numbered `serial`, which the present write set does not have.
    pub fn thaw(&mut self, writes: &mut WriteSet, reads: &PaidReads, savepoint: Savepoint) -> Result<()> {
        let at = self.frozen.iter().rposition(|frozen| frozen.writes.knows(savepoint));
        let Some(at) = at else { return writes.rollback_to(savepoint) };
        self.frozen.truncate(at + 1);
        let frozen = self.frozen.pop().expect("it was found");
        self.count_frozen();
        writes.read_keys(false).for_each(|(table, key)| reads.key(&self.store, table, key));
        writes.thaw(frozen.writes);
        let given_up = std::mem::replace(&mut self.lists, frozen.lists);
        for (table, list) in given_up {
            let kept = self.lists.get(&table);
            let is_kept = |spilled: &Arc<Spilled>| {
                kept.is_some_and(|kept| kept.iter().any(|k| Arc::ptr_eq(k, spilled)))
            };
            let is_read = |spilled: &Arc<Spilled>| spilled.reads != Reads::Nothing && !is_kept(spilled);
            let read = list.into_iter().filter(is_read);
            self.read_only.extend(read.map(|spilled| (table, spilled)));
        }
        writes.rollback_to(savepoint)
    }

    /// Releases `savepoint`, which the present write set does not have, and those made after it, except for those of
    /// the present write set.
    pub fn release(&mut self, savepoint: Savepoint) -> Result<()> {
        let at = self.frozen.iter().rposition(|frozen| frozen.writes.knows(savepoint));
        let at = at.ok_or_else(|| {
            Error::invalid(
                "the savepoint no longer exists: the transaction was rolled back to an earlier one",
            )
        })?;
        self.frozen.truncate(at + 1);
        let frozen = &mut self.frozen[at].writes;
        frozen.release(savepoint)?;
        if !frozen.has_savepoints() {
            self.frozen.pop();
        }
        self.count_frozen();
        Ok(())
    }

    /// Drops the frozen write sets and gives their memory back. No savepoint can be rolled back to any more, except for
    /// those of the present write set.
    pub fn forget_savepoints(&mut self) {
        self.frozen = Vec::new();
        self.count_frozen();
        drop(self.take_excess());
    }

    /// Prepares the deltas for being attached, with their extents; extents that merges have dropped are freed.
    pub fn prepare(mut self, reader: &Reader) -> Result<PreparedAttach> {
        self.forget_savepoints();
        let store = Arc::clone(&self.store);
        let _writing = store.early.begin();
        for table in self.lists.keys().copied().collect::<Vec<_>>() {
            let list = &self.lists[&table];
            let most = if are_ascending(list) { 1 } else { MOST_ATTACHED };
            if list.len() > most {
                self.merge_newest(&store, reader, table, list.len() - most + 1)?;
            }
        }
        Ok(PreparedAttach::new(self))
    }
}

/// Returns whether each delta of `list`, newest first, follows the next one, so that they can be joined.
fn are_ascending(list: &[Arc<Spilled>]) -> bool {
    list.windows(2).all(|pair| pair[0].follows(&pair[1]))
}

/// A transaction's deltas, ready to be attached. If they are abandoned, their extents are freed.
#[derive(Debug)]
pub(crate) struct PreparedAttach {
    pub spills: Spills,
    pub attached: Arc<Attached>,
}

impl PreparedAttach {
    fn new(mut spills: Spills) -> PreparedAttach {
        let all = || spills.lists.values().flatten();
        let dropped: HashSet<u64> = all().flat_map(|s| s.dropped()).collect();
        let mut owners: Vec<&Arc<Extents>> = all().flat_map(|s| s.owners()).collect();
        owners.sort_unstable_by_key(|owner| Arc::as_ptr(owner));
        owners.dedup_by_key(|owner| Arc::as_ptr(owner));
        let extents = owners.into_iter().flat_map(|owner| &owner.list);
        let extents = extents.filter(|extent| !dropped.contains(&extent.unit)).copied().collect();
        let tables =
            spills.lists.iter().map(|(table, list)| (*table, list.iter().map(|s| s.delta.clone()).collect()));
        let attached = Attached::new(tables.collect(), extents, &mut spills.charge);
        let attached = Arc::new(attached);
        PreparedAttach { spills, attached }
    }

    /// Notes that the log now refers to the extents. Returns those that merges had dropped, to be freed.
    pub fn publish(&mut self, store: &Store) -> Vec<Extent> {
        let published: HashSet<u64> = self.attached.extents.iter().map(|extent| extent.unit).collect();
        let mut owned = Vec::new();
        let read_only = std::mem::take(&mut self.spills.read_only).into_iter().map(|(_, spilled)| spilled);
        let lists = std::mem::take(&mut self.spills.lists).into_values().flatten();
        for spilled in lists.chain(read_only) {
            let Spilled { pages, values, .. } = Arc::into_inner(spilled).expect("no savepoint is left");
            // Those of several deltas are taken with the last of them.
            for mut extents in pages.into_iter().chain(values).filter_map(Arc::into_inner) {
                owned.append(&mut extents.take());
            }
        }
        let (named, dropped): (Vec<_>, Vec<_>) =
            owned.into_iter().partition(|extent| published.contains(&extent.unit));
        let named_units: u64 = named.iter().map(|extent| extent.units).sum();
        store.early.remove(named_units);
        dropped
    }
}
