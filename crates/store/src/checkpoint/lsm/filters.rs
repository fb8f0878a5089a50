//! Filters of resting deltas, which are put into memory after a checkpoint: see [`run::resident`].
//!
//! A delta that moves keeps the one that it had, if any, and a delta that fills gets one when it rests. Nothing is lost
//! if one is missing: reads ask the filter's pages then.

use crate::state::stack::Role;
use crate::state::store::Store;
use crate::state::tables::{Layout, Tables};
use crate::state::upkeep::Keeping;
use base::budget::{Charge, MemoryCategory};
use base::slots::Reader;
use base::{ErrorKind, Result};
use run::resident::Loader;
use run::{Delta, Resident, Run};
use std::sync::Arc;

/// The most of a filter that is read at once: stretches, of about a page's quarter each. A checkpoint that becomes due
/// waits for them.
const STEP_STRETCHES: usize = 4096;

impl Store {
    /// Reads a part of a filter into memory, if one is not there yet: the newest deltas' first, as long as their share
    /// of the memory lasts. Returns whether there may be more to do. A filter that cannot be read is left out: the read
    /// that needs it gets the error.
    ///
    /// # Errors
    /// [`ErrorKind::Latched`] and [`ErrorKind::Closed`], and those of a checkpoint's beginning.
    pub fn keep_filters(&self) -> Result<bool> {
        let tables = self.views.with_current(|view| Arc::clone(&view.tables));
        if without_residence(&tables).next().is_none() {
            *self.upkeep.keeping() = None;
            return Ok(false);
        }
        // Without a checkpoint, no page of the current runs is freed.
        let _last = self.checkpoints.claim()?;
        self.check_open()?;
        self.latch.check()?;
        let tables = self.views.with_current(|view| Arc::clone(&view.tables));
        let Some(reader) = self.slots.claim() else { return Ok(false) };
        let mut keeping = self.upkeep.keeping();
        let begun = keeping.as_ref().map(|keeping| keeping.filter);
        let (first, others): (Vec<_>, Vec<_>) =
            without_residence(&tables).partition(|delta| Some(delta.filter) == begun);
        for delta in first.into_iter().chain(others) {
            match self.keep_on(&mut keeping, delta, &reader) {
                Ok(true) => return Ok(true),
                Err(error) if matches!(error.kind(), ErrorKind::Latched | ErrorKind::Closed) => {
                    return Err(error);
                }
                Ok(false) | Err(_) => {}
            }
        }
        Ok(false)
    }

    /// Reads a part of the filter of `delta`. Returns false if there is no room for it.
    fn keep_on(&self, keeping: &mut Option<Keeping>, delta: &Delta, reader: &Reader) -> Result<bool> {
        let filter = delta.filter;
        let begun = keeping.take().filter(|keeping| keeping.filter == filter).map(|keeping| keeping.loader);
        let Some(mut loader) = begun.or_else(|| self.pay_for_filter(&filter).map(Loader::new)) else {
            return Ok(false);
        };
        if loader.read_on(filter, &self.pool, reader, STEP_STRETCHES)? {
            delta.residence.set(loader.finish());
        } else {
            *keeping = Some(Keeping { filter, loader });
        }
        Ok(true)
    }

    /// Charges the memory for a filter, within the share of all.
    fn pay_for_filter(&self, filter: &Run) -> Option<Charge> {
        let (bytes, account) = (Resident::bytes_of(filter, self.page_bytes), self.account());
        let held = account.budget().held_as(MemoryCategory::Filters);
        let is_in_share = held.saturating_add(bytes) <= self.memory.shares.filters_bytes;
        is_in_share.then(|| account.charge_making_room(MemoryCategory::Filters, bytes)).flatten()
    }
}

/// Returns the resting deltas with a filter that is not in memory.
fn without_residence(tables: &Tables) -> impl Iterator<Item = &Delta> {
    let stacks = tables.iter().filter_map(|(_, layout)| match layout {
        Layout::Lsm(stack) => Some(stack.entries()),
        Layout::BTree(_) => None,
    });
    let resting = stacks.flatten().filter(|entry| entry.role == Role::Rests).map(|entry| &entry.delta);
    resting.filter(|delta| delta.filter.root.is_some() && delta.residence.get().is_none())
}
