//! The amplification of a table: how much more is written, read and stored than was put into it.
//!
//! * *Write*: the bytes that checkpoints wrote to the data file for a table, divided by the bytes that commits put into
//!   it. The log adds one more.
//! * *Read*: the pages that a get reads if the key is not in a memtable: those of the lowest run, and two of each
//!   filter above it, attached runs included.
//! * *Space*: the bytes of leaf pages and filters, divided by the bytes of the records in them, which can include
//!   several versions of a key.
//!
//! The counters change when a checkpoint begins and ends its work on a table, with one lock each. Commits and reads do
//! not pay for them.

use crate::checkpoint::Checkpoint;
use crate::state::store::Store;
use crate::state::tables::Tables;
use base::limits::UNIT_BYTES;
use base::sync::lock;
use base::{Result, TableId};
use run::{Delta, Run};

/// The pages of a filter that a get reads: its root and a leaf.
const FILTER_PAGES: u64 = 2;

/// The part of a table that is in pages, merged or not.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InPages {
    pub runs: u64,
    pub get_pages: u64,
    pub record_bytes: u64,
    pub stored_bytes: u64,
    pub saved_bytes: u64,
}

impl InPages {
    /// Returns the part for `layout` and for `attached`, the table's runs that wait for a checkpoint, newest first.
    pub fn measure<'a>(
        tables: &'a Tables,
        attached: impl Iterator<Item = &'a Delta>,
        table: TableId,
        page_bytes: u64,
    ) -> Self {
        let (above, lowest) = tables.layers(table);
        let mut all = InPages::default();
        let mut height = lowest.height;
        if lowest.root.is_some() {
            (all.runs, all.record_bytes) = (1, lowest.bytes);
            all.add_leaves(&lowest, page_bytes);
        }
        for delta in attached.chain(above.iter().map(|stacked| &stacked.delta)) {
            all.runs += 1;
            all.record_bytes += delta.records.bytes;
            all.add_leaves(&delta.records, page_bytes);
            all.add_leaves(&delta.filter, page_bytes);
            if lowest.root.is_none() {
                height = height.max(delta.records.height);
            }
        }
        all.get_pages = u64::from(height) + all.runs.saturating_sub(1) * FILTER_PAGES;
        all
    }

    fn add_leaves(&mut self, run: &Run, page_bytes: u64) {
        let saved_bytes = run.saved_units.saturating_mul(UNIT_BYTES as u64);
        self.saved_bytes += saved_bytes;
        self.stored_bytes += run.leaves.saturating_mul(page_bytes).saturating_sub(saved_bytes);
    }
}

impl Checkpoint<'_> {
    /// Runs `work` on `table`, and counts the data file bytes that it takes as written for the table. They include what
    /// a transaction spills meanwhile.
    pub(crate) fn work_on<T>(
        &mut self,
        table: TableId,
        work: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let handed_out = |store: &Store| lock(&store.space).handed_out_units();
        let before = handed_out(self.store);
        let done = work(self)?;
        let units = handed_out(self.store).saturating_sub(before);
        *lock(&self.store.tallies.written_bytes).entry(table).or_default() += units * UNIT_BYTES as u64;
        Ok(done)
    }
}
