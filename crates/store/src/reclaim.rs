//! What only ended or expired readers needed is freed: old views with their memtables, conflict history, retired pages.

use crate::store::Store;
use base::CheckpointNo;
use base::sync::lock;
use std::sync::atomic::Ordering;

impl Store {
    /// Whether readers, or what is pinned for a copy, keep something that [`Store::reclaim`] would free after them.
    pub fn waits_for_readers(&self) -> bool {
        self.views.count() > 1 || lock(&self.space).stats().retired_units > 0
    }

    /// Frees what only ended or expired readers needed: old views with their memtables, conflict history, retired
    /// pages. A checkpoint does it as its last step; after a long reader has ended it is worth doing in between.
    pub fn reclaim(&self) {
        let _checkpoint = self.claim_checkpoint();
        self.free_unneeded();
        // What fails here is tried again by the next checkpoint, and costs nothing but room.
        let _ = self.latch.check().and_then(|()| self.give_back(false));
    }

    pub(crate) fn free_unneeded(&self) {
        self.expire_readers();
        let read = self.free_memtables();
        let noted = CheckpointNo(self.noted.load(Ordering::SeqCst));
        let mut freed = lock(&self.space).release(noted.min(self.pins.oldest()), &read);
        freed.sort_unstable();
        // What somebody has written there since the lock was let go is forgotten, too: it is read again.
        self.pool.forget_all(&freed.iter().map(|extent| extent.unit..extent.end()).collect::<Vec<_>>());
    }

    /// The part of it that is memory: old views and conflict history. Answers which checkpoints are still read.
    pub(crate) fn free_memtables(&self) -> Vec<CheckpointNo> {
        let forgotten = self.prune_history(&mut lock(&self.committer));
        drop(forgotten);
        self.views.reclaim(&self.slots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, Table, Transaction, TransactionOptions, WantedLayout};
    use base::Result;
    use base::limits::UNIT_BYTES;
    use io::MemDir;
    use std::sync::Arc;

    const PAGE_BYTES: usize = 16 << 10;

    fn store() -> Result<Arc<Store>> {
        let options = Options { page_bytes: Some(PAGE_BYTES), memory_bytes: 64 << 20, ..Options::default() };
        crate::open_or_create(Arc::new(MemDir::new()), &options)
    }

    fn write<T>(store: &Arc<Store>, work: impl FnOnce(&mut Transaction) -> Result<T>) -> Result<T> {
        let mut tx = Transaction::begin(store, TransactionOptions::default())?;
        let done = work(&mut tx)?;
        store.acknowledge(tx.apply()?)?;
        store.checkpoint()?;
        Ok(done)
    }

    fn put_all(store: &Arc<Store>, table: &Table, round: u32) -> Result<()> {
        let put = |tx: &mut Transaction, key: u32| tx.put(table, &key.to_be_bytes(), &[round as u8; 500]);
        write(store, |tx| (0..3000).try_for_each(|key| put(tx, key)))
    }

    /// Pages in memory, and the most that a superblock names.
    fn pages(store: &Store) -> (u64, u64) {
        let used = lock(&store.space).stats().used_units * UNIT_BYTES as u64;
        (store.pool.stats().pages as u64, used / PAGE_BYTES as u64)
    }

    #[test]
    fn pages_that_nobody_can_ask_for_are_in_no_frame() -> Result<()> {
        for layout in [WantedLayout::BTree, WantedLayout::Lsm] {
            let store = store()?;
            let table = write(&store, |tx| tx.create_table("t", layout))?;
            put_all(&store, &table, 0)?;
            for round in 1..6 {
                put_all(&store, &table, round)?;
                let (kept, used) = pages(&store);
                assert!(kept <= used && kept > used / 2, "{layout:?}: {kept} pages of {used}");
            }
            // What a snapshot sees stays until it has ended.
            let snapshot = store.snapshot()?;
            put_all(&store, &table, 6)?;
            let (kept, used) = pages(&store);
            assert!(kept > used * 3 / 2, "{layout:?}: {kept} pages of {used}");
            assert_eq!(snapshot.get(&table, &7_u32.to_be_bytes())?.as_deref(), Some(&[5; 500][..]));
            drop(snapshot);
            store.reclaim();
            let (kept, used) = pages(&store);
            assert!(kept <= used, "{layout:?}: {kept} pages of {used}");

            write(&store, |tx| tx.drop_table(&table))?;
            let (kept, used) = pages(&store);
            assert!(kept <= used && used < 10, "{layout:?}: {kept} pages of {used}");
        }
        Ok(())
    }
}
