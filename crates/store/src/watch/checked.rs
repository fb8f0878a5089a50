//! The state that a check reads: one moment of the database, kept unchanged while it is read.
//!
//! A check of a large file takes long. Commits and checkpoints go on meanwhile, as they do while a backup is made
//! (`crate::open::pinned`):
//! 1. Under the space map's and the commit lock, the newest checkpoint is pinned. So no checkpoint switches in between,
//!    and nothing that it reaches is freed until it is unpinned.
//! 2. Under the same locks, the rest of the state is noted: the map that the checkpoint wrote, the large values that
//!    only memtables refer to, and the attached runs. A later checkpoint adopts those extents before it retires them,
//!    which adds them to the map of the pinned one (rule 2 of `space::reached`), so they stay, too.
//!
//! A process that reads the database of another one has no pins. It holds its checkpoint: there is none to wait for.

use crate::state::attach::Attached;
use crate::state::store::Store;
use crate::state::superblock::Superblock;
use crate::state::tables::Tables;
use base::sync::lock;
use base::{LargeRef, Result};
use memtable::Memtable;
use space::SavedMap;
use std::sync::{Arc, MutexGuard};

/// The state; see the module. Dropping it releases it.
pub(super) struct Checked<'s> {
    pub superblock: Superblock,
    pub tables: Arc<Tables>,
    /// The map of the checkpoint. `None`: after a failure it may be that of a checkpoint that did not end, and another
    /// process's map belongs to commits that are not known.
    pub map: Option<SavedMap>,
    /// The runs that no checkpoint has absorbed.
    pub attached: Vec<Arc<Attached>>,
    /// The large values that the memtables refer to.
    pub values: Vec<LargeRef>,
    /// The units of the values of unfinished transactions.
    pub unpublished_units: u64,
    pub last_commit: u64,
    /// The changes in the memtables.
    pub changes: u64,
    kept: Kept<'s>,
}

/// What keeps the state.
enum Kept<'s> {
    Pinned(&'s Store),
    Held { _superblock: MutexGuard<'s, Superblock> },
}

impl Checked<'_> {
    /// Takes the present state of `store`.
    pub fn take(store: &Store) -> Result<Checked<'_>> {
        store.checkpoints.check_not_called()?;
        let held = match store.is_read_only() || store.is_beside() {
            true => Some(store.checkpoints.claim()?),
            false => None,
        };
        let knows_map = store.latched().is_none() && !store.is_beside();
        // No value is begun, given up or committed while both are locked.
        let space = lock(&store.space);
        let _committer = lock(&store.committer);
        let (superblock, tables, kept) = match held {
            Some(held) => {
                let tables = store.views.with_current(|view| Arc::clone(&view.tables));
                (*held, tables, Kept::Held { _superblock: held })
            }
            None => {
                let (superblock, tables, ()) = store.checkpoints.pins.pin(|| ());
                (superblock, tables, Kept::Pinned(store))
            }
        };
        let map = || space.saved_map(superblock.checkpoint, &superblock.space, superblock.absorbed);
        let of = |memtable: &Memtable| {
            let tables = memtable.tables().into_iter();
            tables.flat_map(|table| memtable.large_refs(table)).collect::<Vec<_>>()
        };
        Ok(store.views.with_current(|view| Checked {
            superblock,
            tables,
            map: knows_map.then(map).flatten(),
            attached: view.sealed.iter().filter_map(|sealed| sealed.attached.clone()).collect(),
            values: view.memtables().flat_map(of).collect(),
            unpublished_units: store.early.units(),
            last_commit: store.last_commit(),
            changes: view.memtables().map(Memtable::records).sum(),
            kept,
        }))
    }
}

impl Drop for Checked<'_> {
    fn drop(&mut self) {
        if let Kept::Pinned(store) = &self.kept {
            store.checkpoints.pins.unpin(self.superblock.checkpoint);
        }
    }
}
