//! What a transaction gathers: its writes, its reads, the tables it used, its commit record.
//!
//! Each thread keeps a few, emptied, for its next transactions, so that a small transaction allocates nothing. They
//! are boxed: a transaction is moved several times from its beginning to its end.

use crate::read::handle::{Admitted, Table};
use crate::state::paid_reads::PaidReads;
use crate::uncommitted::write_set::WriteSet;
use crate::write::gap::Gap;
use std::cell::RefCell;

/// Emptied ones that a thread keeps.
const KEPT: usize = 4;
/// A record buffer larger than this is not kept.
const KEPT_RECORD_BYTES: usize = 64 << 10;

thread_local! {
    #[allow(clippy::vec_box)] // They go out of the list as the boxes that they are.
    static EMPTIED: RefCell<Vec<Box<Gathered>>> = const { RefCell::new(Vec::new()) };
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    pub writes: WriteSet,
    pub reads: PaidReads,
    /// Where its snapshot is known to have nothing.
    pub gap: Gap,
    /// Tables that were used, each once. Few: searched linearly. In a cell, for the same reason as the reads.
    pub tables: RefCell<Vec<(Table, Admitted)>>,
    /// Handles on tables that are so in this transaction alone, and when each was made: [`WriteSet::moment`].
    pub made: RefCell<Vec<(u64, Table)>>,
    /// The commit record.
    pub record: Vec<u8>,
    /// A value with its date in front.
    pub dated: Vec<u8>,
}

impl Gathered {
    /// This thread's last one, or a new one.
    #[inline]
    pub fn take() -> Box<Self> {
        EMPTIED.try_with(|kept| kept.try_borrow_mut().ok()?.pop()).ok().flatten().unwrap_or_default()
    }

    #[cold]
    fn undo_made(&mut self) {
        self.made.get_mut().drain(..).for_each(|(_, table)| table.undo());
    }

    /// Empties it and keeps it; what was made is undone.
    pub fn keep(mut self: Box<Self>) {
        if !self.made.get_mut().is_empty() {
            self.undo_made();
        }
        self.writes.clear();
        self.reads.clear();
        self.gap.clear();
        self.tables.get_mut().clear();
        self.record.clear();
        self.record.shrink_to(KEPT_RECORD_BYTES);
        self.dated.clear();
        self.dated.shrink_to(KEPT_RECORD_BYTES);
        let mut emptied = Some(self);
        let _ = EMPTIED.try_with(|kept| {
            if let Ok(mut kept) = kept.try_borrow_mut()
                && kept.len() < KEPT
            {
                kept.extend(emptied.take());
            }
        });
    }
}
