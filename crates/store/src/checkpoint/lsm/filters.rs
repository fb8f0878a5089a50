//! Filters of resting deltas, which are put into memory after a checkpoint: see [`run::resident`].
//!
//! A delta that moves keeps the one that it had, and a delta that fills gets one when it rests. Nothing is lost if one
//! is missing: reads ask the filter's pages then.

use crate::state::stack::Role;
use crate::state::store::Store;
use crate::state::tables::{Layout, Tables};
use base::budget::MemoryCategory;
use base::slots::Reader;
use base::{ErrorKind, Result};
use run::{Delta, Resident};
use std::sync::Arc;

impl Store {
    /// Reads filters into memory that are not there yet, the newest deltas' first, as long as their share of the memory
    /// lasts. A filter that cannot be read is left out: the read that needs it gets the error.
    ///
    /// # Errors
    /// [`ErrorKind::Latched`] and [`ErrorKind::Closed`].
    pub fn keep_filters(&self) -> Result<()> {
        let tables = self.views.with_current(|view| Arc::clone(&view.tables));
        if without_residence(&tables).next().is_none() {
            return Ok(());
        }
        // Without a checkpoint, no page of the current runs is freed.
        let _last = self.checkpoints.claim()?;
        self.check_open()?;
        self.latch.check()?;
        let tables = self.views.with_current(|view| Arc::clone(&view.tables));
        let Some(reader) = self.slots.claim() else { return Ok(()) };
        for delta in without_residence(&tables) {
            match self.keep_filter(delta, &reader) {
                Err(error) if matches!(error.kind(), ErrorKind::Latched | ErrorKind::Closed) => {
                    return Err(error);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn keep_filter(&self, delta: &Delta, reader: &Reader) -> Result<()> {
        let (bytes, account) = (Resident::bytes_of(&delta.filter, self.page_bytes), self.account());
        let held = account.budget().held_as(MemoryCategory::Filters);
        if held.saturating_add(bytes) > self.memory.shares.filters_bytes {
            return Ok(());
        }
        let Some(charge) = account.charge_making_room(MemoryCategory::Filters, bytes) else { return Ok(()) };
        delta.residence.set(Resident::read(delta.filter, &self.pool, reader, charge)?);
        Ok(())
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
