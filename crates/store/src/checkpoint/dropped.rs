//! Forgetting the counters of tables that were dropped: only their sum is kept, so that totals never decrease.
//!
//! A commit that writes to a table follows the one that creates it, or is the same. So if a table has counters, is not
//! in the catalog that a checkpoint has absorbed, and is in no memtable since, it was dropped.

use super::Checkpoint;
use crate::state::committer::{Committer, Written};
use crate::state::requested::RequestedRows;
use crate::state::store::Store;
use base::TableId;
use base::sync::lock;
use std::collections::BTreeSet;

/// Dropped tables are looked for where this many more tables have counters than twice as many as exist. So a search
/// costs each dropped table little.
const MOST_FORGOTTEN: usize = 64;

impl Checkpoint<'_> {
    /// Returns the tables in the catalog that the checkpoint has absorbed; `None` if it cannot be read.
    pub(super) fn known_tables(&self) -> Option<RequestedRows> {
        let (_, catalog) = self.tables.layers(TableId::CATALOG);
        self.store.upkeep.wanted.rows(catalog, &self.store.pool, self.context().reader).ok()
    }
}

impl Store {
    /// Forgets the counters of tables that are neither in `known` nor in a memtable of the current view.
    pub(super) fn forget_dropped(&self, committer: &mut Committer, known: &RequestedRows) {
        let mut written_bytes = lock(&self.tallies.written_bytes);
        if committer.written.len().max(written_bytes.len()) <= 2 * known.len() + MOST_FORGOTTEN {
            return;
        }
        let in_memory: BTreeSet<TableId> =
            self.views.with_current(|view| view.memtables().flat_map(|memtable| memtable.tables()).collect());
        let exists = |table: TableId| {
            table < TableId::FIRST_USER || known.contains_key(&table) || in_memory.contains(&table)
        };
        let Committer { written, written_to_dropped, .. } = committer;
        written.retain(|&table, of_table| {
            let exists = exists(table);
            if !exists {
                *written_to_dropped = written_to_dropped.plus(*of_table);
            }
            exists
        });
        written_bytes.retain(|&table, _| exists(table));
    }
}

impl Written {
    fn plus(self, other: Written) -> Written {
        Written {
            commits: self.commits + other.commits,
            operations: self.operations + other.operations,
            bytes: self.bytes + other.bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, RequestedLayout, Table, Transaction, TransactionOptions};
    use base::Result;
    use std::sync::Arc;

    fn commit<T>(store: &Arc<Store>, write: impl FnOnce(&mut Transaction) -> Result<T>) -> Result<T> {
        let mut tx = Transaction::begin(store, TransactionOptions::default())?;
        let written = write(&mut tx)?;
        store.acknowledge(tx.apply()?)?;
        Ok(written)
    }

    #[test]
    fn dropped_tables_leave_only_their_sums() -> Result<()> {
        let options = Options { page_bytes: Some(4096), memory_bytes: 4 << 20, ..Options::default() };
        let store = crate::open_or_create(Arc::new(io::MemDir::new()), &options)?;
        let create = |name: &str| -> Result<Table> {
            commit(&store, |tx| {
                let table = tx.create_table(name, RequestedLayout::BTree)?;
                tx.put(&table, b"key", b"value")?;
                Ok(table)
            })
        };
        let kept = create("kept")?;
        let mut writes = 2;
        for n in 0..1000 {
            let table = create(&n.to_string())?;
            commit(&store, |tx| tx.drop_table(&table))?;
            commit(&store, |tx| tx.put(&kept, b"key", b"value"))?;
            writes += 4;
            if n % 50 == 0 {
                store.checkpoint()?;
            }
            assert!(store.stats()?.writes >= writes, "{n}");
            writes = store.stats()?.writes;
        }
        let waiting = create("waiting")?;
        while store.checkpoint()? {}
        assert!(lock(&store.committer).written.len() < 200);
        assert!(lock(&store.tallies.written_bytes).len() < 200);
        let stats = store.table_stats()?;
        assert_eq!((stats[0].name.as_str(), stats[0].writes), ("kept", 1001));
        assert_eq!((stats[1].name.as_str(), stats[1].writes), (waiting.name(), 1));
        assert!(stats[0].written_bytes > 0 && stats[0].committed_bytes > 10_000);
        Ok(())
    }
}
