//! Freeing what only ended or expired readers needed: old views with their memtables, conflict history, retired pages.

use crate::state::committer::Committer;
use crate::state::seats::{self, Needed};
use crate::state::store::Store;
use crate::state::view::{SealedMemtable, oldest_writing_view};
use base::budget::Need;
use base::limits::UNIT_BYTES;
use base::sync::lock;
use base::{CheckpointNo, Result};
use log::Position;
use space::NamedNeed;
use std::sync::Arc;

impl Store {
    /// Returns whether [`Store::reclaim`] has something to do, now or when a reader has ended: readers, or a pinned
    /// state that is being copied, keep something, or units of the data file are free and not returned yet.
    pub fn waits_to_reclaim(&self) -> bool {
        self.waits_for_readers() || lock(&self.space).has_released()
    }

    /// Returns whether readers, or a pinned state that is being copied, keep something that [`Store::reclaim`] would
    /// free.
    pub(crate) fn waits_for_readers(&self) -> bool {
        self.views.count() > 1 || lock(&self.space).retired_units() > 0
    }

    /// Frees what only ended or expired readers needed: old views with their memtables, conflict history, retired
    /// pages. It is a checkpoint's last step; after a long reader has ended, it is worth a call in between.
    pub fn reclaim(&self) {
        let Ok(_checkpoint) = self.checkpoints.claim() else { return };
        self.free_unneeded();
        // A failure here costs only space, and the next checkpoint tries again.
        let _ = self.latch.check().and_then(|()| self.give_back(false));
    }

    pub(crate) fn free_unneeded(&self) {
        // This frees what no reader needs first, so that readers are judged only by what they keep.
        self.free_unread();
        if self.expire_readers() | self.revoke_late_feeds() {
            self.free_unread();
        }
    }

    /// Revokes the feeds for which more is kept than allowed.
    fn revoke_late_feeds(&self) -> bool {
        let mut kept_bytes = lock(&self.space).followed_units() * UNIT_BYTES as u64;
        let (end, mut has_revoked) = (self.log.end().lsn, false);
        while self.feeds.revoke_late(end, kept_bytes, self.max_changes_bytes) {
            // What the data file keeps for the others is known after this one's is free.
            (kept_bytes, has_revoked) = (0, true);
        }
        if has_revoked {
            self.feeds.owe_wake();
        }
        has_revoked
    }

    /// Releases the retired extents that no view and no pinned checkpoint reads. The caller has claimed the checkpoint,
    /// so that none retires runs that are attached meanwhile.
    fn free_unread(&self) {
        let mut read = self.free_memtables();
        read.extend(self.checkpoints.pins.all());
        read.sort_unstable();
        read.dedup();
        let through = self.freed_through();
        let need = NamedNeed {
            followed_after: self.feeds.need().after,
            validated_after: lock(&self.committer).attached_after(),
        };
        let mut freed = {
            let mut space = lock(&self.space);
            space.need_named(need);
            space.release(through, &read)
        };
        freed.sort_unstable();
        // Pages that were written there since the lock was released are dropped as well; they are read again.
        self.pool.forget_all(&freed.iter().map(|extent| extent.unit..extent.end()).collect::<Vec<_>>());
    }

    /// Returns the checkpoint up to which what only earlier ones need may be freed.
    fn freed_through(&self) -> CheckpointNo {
        let noted = self.checkpoints.noted();
        if lock(&self.space).retired_units() == 0 {
            // Nothing waits to be freed, so no other process is asked: an idle database lists no directory.
            return noted;
        }
        let needed = self.needed_by_others().checkpoint;
        if needed < noted && self.others_keep_too_much() {
            // They have until the next look to notice it.
            let _ = seats::revoke_before(&*self.dir, self.database, noted);
        }
        noted.min(needed)
    }

    /// Returns what readers in other processes need, or everything if that cannot be known.
    fn needed_by_others(&self) -> Needed {
        match self.processes.may_be_read() {
            true => seats::needed(&*self.dir, self.database).unwrap_or(Needed::EVERYTHING),
            false => Needed::NOTHING,
        }
    }

    fn others_keep_too_much(&self) -> bool {
        let bytes = |units: u64| units * UNIT_BYTES as u64;
        let (retired_units, used_units) = {
            let space = lock(&self.space);
            (space.retired_units(), space.used_units())
        };
        self.expiry.is_too_much_space(bytes(retired_units), bytes(used_units))
            || self.log.stats().live_bytes > 2 * self.max_log_bytes + self.most_fed_bytes()
    }

    /// Returns how much the log may keep for readers of changes, in addition to what it keeps for others.
    fn most_fed_bytes(&self) -> u64 {
        if self.feeds.count() > 0 { self.max_changes_bytes } else { 0 }
    }

    /// Drops the log before `position`, except for what readers in other processes and readers of changes still have to
    /// read.
    pub(crate) fn drop_log(&self, position: Position) -> Result<()> {
        let needed = self.needed_by_others().segment.min(self.feeds.need().segment);
        let segment = position.segment.min(needed);
        self.log.drop_before(Position { segment, ..position })
    }

    /// Frees the memory of a closed database, except for what open snapshots still read. Threads that have read the
    /// database keep a slot and the store as long as they live.
    pub(crate) fn give_memory_back(&self) {
        if !self.is_closed() || self.processes.is_forked() {
            return;
        }
        let dropped = {
            let mut committer = lock(&self.committer);
            let (open, writer) = self.memory.new_memtable(None);
            self.views.close(Arc::clone(&open));
            let open = std::mem::replace(&mut committer.open, open);
            let writer = std::mem::replace(&mut committer.writer, writer);
            (open, writer, std::mem::take(&mut committer.history))
        };
        drop(dropped);
        // The tables of the last view have no filters in memory.
        let tables = self.views.with_current(|view| Arc::clone(&view.tables));
        self.checkpoints.pins.switch(self.checkpoints.pins.newest(), tables);
        *self.upkeep.keeping() = None;
        self.views.reclaim(&self.slots);
        self.memory.idle.close();
        // A page that a reader looks at now is freed when the reader ends.
        self.pool.give(usize::MAX, Need::All);
        self.log.unmap();
        self.memory.give_back_log();
    }

    /// Frees memory: old views and conflict history. Returns the checkpoints that are still read.
    pub(crate) fn free_memtables(&self) -> Vec<CheckpointNo> {
        let forgotten = self.prune_history(&mut lock(&self.committer));
        drop(forgotten);
        self.views.reclaim(&self.slots)
    }

    /// Removes the sealed memtables that every read-write transaction began after, except for expired transactions,
    /// which get [`ErrorKind::SnapshotTooOld`]. The caller frees them outside the lock, when no view holds them either.
    pub(crate) fn prune_history(&self, committer: &mut Committer) -> Vec<SealedMemtable> {
        let oldest = oldest_writing_view(&self.slots);
        let forgotten: Vec<_> =
            committer.history.extract_if(.., |sealed| sealed.first_view <= oldest).collect();
        for sealed in &forgotten {
            committer.history_floor = committer.history_floor.max(sealed.sealed_at);
        }
        forgotten
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::seats::Seat;
    use crate::{Options, RequestedLayout, Table, Transaction, TransactionOptions};
    use base::env::Random;
    use io::{Dir, MemDir};

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

    /// Returns the pages in memory, and the most that a superblock refers to: the catalog's only leaf takes less than a
    /// page on the disk.
    fn pages(store: &Store) -> (u64, u64) {
        let used = lock(&store.space).used_units() * UNIT_BYTES as u64;
        (store.pool.stats().pages as u64, used / PAGE_BYTES as u64 + 1)
    }

    #[test]
    fn a_closed_database_has_no_memory_although_threads_that_read_it_live() -> Result<()> {
        let store = store()?;
        let table = write(&store, |tx| tx.create_table("t", RequestedLayout::BTree))?;
        put_all(&store, &table, 0)?;
        let (read, has_read) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let reader = std::thread::spawn({
            let (store, table) = (Arc::clone(&store), table.clone());
            move || {
                let snapshot = store.snapshot().unwrap();
                (0..3000_u32).for_each(|key| drop(snapshot.get(&table, &key.to_be_bytes()).unwrap()));
                drop((snapshot, store));
                read.send(()).unwrap();
                let _ = ended.recv();
            }
        });
        has_read.recv().unwrap();
        // A value is in a memtable as well.
        let mut tx = Transaction::begin(&store, TransactionOptions::default())?;
        (0..3000_u32).try_for_each(|key| tx.put(&table, &key.to_be_bytes(), &[9; 500]))?;
        store.acknowledge(tx.apply()?)?;
        // A reader is still open: what it sees stays until it ends.
        let snapshot = store.snapshot()?;
        let held = || store.memory.account.held().total() - store.memory.account.reserve_bytes();
        let before = held();
        store.close()?;
        assert_eq!(snapshot.get(&table, &7_u32.to_be_bytes())?.as_deref(), Some(&[9; 500][..]));
        assert!(store.snapshot().is_err());
        drop(snapshot);
        let after = held();
        assert!(before > 3 << 20 && after < before / 10, "{before} bytes, {after} after closing");
        drop(end);
        reader.join().unwrap();
        Ok(())
    }

    #[test]
    fn a_seat_keeps_the_log_from_its_segment_on() -> Result<()> {
        let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
        let options = Options { memory_bytes: 64 << 20, admits_readers: true, ..Options::default() };
        let store = crate::open_or_create(Arc::clone(&dir), &options)?;
        let table = write(&store, |tx| tx.create_table("t", RequestedLayout::BTree))?;
        let first = store.log.end().segment;
        let is_there = || dir.list().unwrap().contains(&format!("log-{first:016x}"));
        let mut seat = Seat::take(&dir, store.database, &mut Random::seeded(1))?;
        let checkpoint = store.checkpoints.noted();
        seat.set(Needed { checkpoint, segment: first })?;
        (0..20).try_for_each(|round| put_all(&store, &table, round))?;
        assert!(is_there(), "the reader has not read it yet");
        drop(seat);
        (0..20).try_for_each(|round| put_all(&store, &table, round))?;
        assert!(!is_there());
        Ok(())
    }

    #[test]
    fn a_feed_keeps_the_log_from_its_place_on() -> Result<()> {
        let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
        let store = crate::open_or_create(
            Arc::clone(&dir),
            &Options { memory_bytes: 64 << 20, ..Options::default() },
        )?;
        let table = write(&store, |tx| tx.create_table("t", RequestedLayout::BTree))?;
        let first = store.log.end().segment;
        let is_there = || dir.list().unwrap().contains(&format!("log-{first:016x}"));
        let feed = store.feed(None)?;
        (0..20).try_for_each(|round| put_all(&store, &table, round))?;
        assert!(is_there(), "the feed has not read it yet (seed 1)");
        drop(feed);
        (0..20).try_for_each(|round| put_all(&store, &table, round))?;
        assert!(!is_there());
        Ok(())
    }

    #[test]
    fn a_copy_pins_its_checkpoint_and_nothing_after_it() -> Result<()> {
        for layout in [RequestedLayout::BTree, RequestedLayout::Lsm] {
            let store = store()?;
            let table = write(&store, |tx| tx.create_table("t", layout))?;
            put_all(&store, &table, 0)?;
            let retired = || lock(&store.space).stats().retired_units * UNIT_BYTES as u64;
            let mut pinned = store.pin(None)?;
            for round in 1..20 {
                put_all(&store, &table, round)?;
                // The 1.5 MB that the copy reaches, and what the newest checkpoint has just replaced.
                assert!(retired() < 6 << 20, "{layout:?}, round {round}: {} bytes wait", retired());
            }
            while pinned.advance()? {}
            drop(pinned);
            store.reclaim();
            assert!(retired() < 3 << 20, "{layout:?}: {} bytes wait for nobody", retired());
        }
        Ok(())
    }

    #[test]
    fn what_a_check_of_readers_frees_is_returned_by_the_next_reclaim() -> Result<()> {
        let store = store()?;
        let table = write(&store, |tx| tx.create_table("t", RequestedLayout::BTree))?;
        put_all(&store, &table, 0)?;
        let snapshot = store.snapshot()?;
        write(&store, |tx| tx.drop_table(&table))?;
        assert!(!store.look_after_readers());
        drop(snapshot);
        let file_bytes = || store.stats().unwrap().data_file_bytes;
        let before = file_bytes();
        // The check comes before the thread of checkpoints looks.
        assert!(store.look_after_readers() && !store.waits_for_readers());
        assert!(store.waits_to_reclaim() && file_bytes() == before);
        store.reclaim();
        assert!(!store.waits_to_reclaim() && !store.look_after_readers());
        assert!(file_bytes() < before / 2, "{before} bytes became {}", file_bytes());
        Ok(())
    }

    #[test]
    fn pages_that_nobody_can_ask_for_are_in_no_frame() -> Result<()> {
        for layout in [RequestedLayout::BTree, RequestedLayout::Lsm] {
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
