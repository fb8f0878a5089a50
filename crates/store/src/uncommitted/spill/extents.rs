//! The extents of uncommitted data: they are freed with their owner, unless the log refers to them.

use crate::state::early::EarlyWrites;
use crate::state::store::Store;
use base::Result;
use base::sync::lock;
use run::Allocate;
use space::Extent;
use std::fmt;
use std::sync::{Arc, RwLockReadGuard};

/// Extents that belong to a transaction: they are freed when this is dropped, unless the transaction was committed.
pub(crate) struct Extents {
    store: Arc<Store>,
    pub(super) list: Vec<Extent>,
}

impl fmt::Debug for Extents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.list.fmt(f)
    }
}

impl Extents {
    pub fn new(store: &Arc<Store>) -> Extents {
        Extents { store: Arc::clone(store), list: Vec::new() }
    }

    fn allocate(&mut self, units: u64) -> Result<u64> {
        self.store.check_open()?;
        let unit = self.store.allocate_logged(units)?;
        self.list.push(Extent { unit, units });
        Ok(unit)
    }

    /// Returns the extents, which the log refers to from now on.
    pub fn take(&mut self) -> Vec<Extent> {
        std::mem::take(&mut self.list)
    }
}

impl Drop for Extents {
    fn drop(&mut self) {
        self.store.free_unpublished(&self.list);
    }
}

impl Store {
    pub(crate) fn free_unpublished(&self, extents: &[Extent]) {
        // After a latch nothing is allocated, and the log may refer to the extents. In a forked child they are not
        // ours.
        if extents.is_empty() || self.latched().is_some() || self.processes.is_forked() {
            return;
        }
        let mut space = lock(&self.space);
        for extent in extents {
            space.free_unused(extent.unit, extent.units);
            self.early.remove(extent.units);
        }
    }
}

/// The space for a delta's pages and values, each with its own owner.
pub(super) struct Room<'a> {
    pub pages: &'a mut Extents,
    pub values: &'a mut Extents,
    /// The turn, if the caller does not keep closing out itself.
    pub turn: Option<Turn<'a>>,
}

/// Closing is kept out from an allocation until what was allocated is written: after that, the space may belong to
/// another process. It is not kept out in between, where code of the program's runs.
pub(super) struct Turn<'a> {
    early: &'a EarlyWrites,
    writing: Option<RwLockReadGuard<'a, ()>>,
}

impl<'a> Turn<'a> {
    pub fn new(early: &'a EarlyWrites) -> Self {
        Turn { early, writing: None }
    }

    fn begin(&mut self) {
        self.writing.get_or_insert_with(|| self.early.begin());
    }

    /// Lets closing go on: what was allocated is written.
    #[inline]
    pub fn end(&mut self) {
        self.writing = None;
    }
}

impl Allocate for Room<'_> {
    fn for_pages(&mut self, units: u64) -> Result<u64> {
        self.turn.iter_mut().for_each(Turn::begin);
        self.pages.allocate(units)
    }
    fn for_value(&mut self, units: u64) -> Result<u64> {
        self.turn.iter_mut().for_each(Turn::begin);
        self.values.allocate(units)
    }
}
