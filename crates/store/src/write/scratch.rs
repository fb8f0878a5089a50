//! The buffers of a transaction: its writes, its reads, the tables it used, its commit record.
//!
//! Each thread keeps a few emptied ones for its next transactions, so that a small transaction allocates nothing. They
//! are boxed, because a transaction is moved several times from its beginning to its end.

use crate::read::used::{MadeTables, UsedTables};
use crate::state::paid_reads::PaidReads;
use crate::uncommitted::write_set::WriteSet;
use crate::write::gap::Gap;
use std::cell::RefCell;

/// The number of emptied buffers that a thread keeps.
const KEPT: usize = 4;
/// The greatest length of a record buffer that is kept.
const KEPT_RECORD_BYTES: usize = 64 << 10;

thread_local! {
    #[allow(clippy::vec_box)] // They go out of the list as the boxes that they are.
    static EMPTIED: RefCell<Vec<Box<Scratch>>> = const { RefCell::new(Vec::new()) };
}

/// The buffers of a transaction; see the module.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub writes: WriteSet,
    pub reads: PaidReads,
    /// The gap in which its snapshot is known to have no keys. It is in a cell, because look-ups that fail find it.
    pub gap: RefCell<Gap>,
    /// The tables that were used. They are in a cell, as the reads are.
    pub tables: RefCell<UsedTables>,
    /// The handles that are valid only in this transaction.
    pub made: RefCell<MadeTables>,
    /// The commit record.
    pub record: Vec<u8>,
    /// A buffer for a value with its date.
    pub dated: Vec<u8>,
}

impl Scratch {
    /// Returns this thread's last emptied buffers, or new ones.
    #[inline]
    pub fn take() -> Box<Self> {
        EMPTIED.try_with(|kept| kept.try_borrow_mut().ok()?.pop()).ok().flatten().unwrap_or_default()
    }

    #[cold]
    fn undo_made(&mut self) {
        self.made.get_mut().undo_all();
    }

    /// Empties the buffers and keeps them; the handles that were made are marked as undone.
    pub fn keep(mut self: Box<Self>) {
        if !self.made.get_mut().is_empty() {
            self.undo_made();
        }
        self.writes.clear();
        self.reads.clear();
        self.gap.get_mut().clear();
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
