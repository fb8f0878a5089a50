//! Gaps of the snapshot, in which it has no keys, so that an insert or a get need not look a key up.
//!
//! 1. A snapshot does not change, so a range that was once found empty of its keys stays so for the whole transaction.
//! 2. After some inserts in a row with ascending keys that did not exist, one seek in each layer finds the gap from the
//!    last of them to the next key of any layer, including later commits'. Rows that come in order then cost a
//!    comparison each. A put after a get that found nothing counts as an insert. Other gets use a gap and do not look
//!    for one: the seek can read pages that filters save them.
//! 3. If gaps turn out to be short, the next one is looked for later, twice as late each time: the loss is a small part
//!    of the cost of the look-ups.

use base::TableId;

/// The number of failed look-ups in a row before the first gap is looked for, and the greatest number.
const PATIENCE: u32 = 2;
const MOST_PATIENCE: u32 = 1024;
/// The number of saved look-ups from which a gap pays: finding it costs a few.
const WORTHWHILE: u32 = 8;

/// A gap of the snapshot; see the module.
#[derive(Debug)]
pub(crate) struct Gap {
    table: TableId,
    /// The last key that was looked up and not found. If `is_known`, it is the first of the gap.
    low: Vec<u8>,
    /// The first key after the gap; `None`: it extends to the end of the table.
    pub high: Option<Vec<u8>>,
    pub is_known: bool,
    /// The number of look-ups that it has saved.
    spared: u32,
    /// The number of failed look-ups of ascending keys in a row.
    streak: u32,
    patience: u32,
    /// The last key that a get did not find, and its table.
    missed: (TableId, Vec<u8>),
}

impl Default for Gap {
    fn default() -> Self {
        Gap {
            table: TableId::CATALOG,
            low: Vec::new(),
            high: None,
            is_known: false,
            spared: 0,
            streak: 0,
            patience: PATIENCE,
            missed: (TableId::CATALOG, Vec::new()),
        }
    }
}

impl Gap {
    /// Forgets everything, and keeps its memory.
    pub fn clear(&mut self) {
        (self.is_known, self.spared, self.streak, self.patience) = (false, 0, 0, PATIENCE);
        (self.table, self.high) = (TableId::CATALOG, None);
        self.low.clear();
        self.missed.0 = TableId::CATALOG;
    }

    /// Notes that a get did not find `key`.
    pub fn miss(&mut self, table: TableId, key: &[u8]) {
        self.missed.0 = table;
        self.missed.1.clear();
        self.missed.1.extend_from_slice(key);
    }

    /// Returns whether `key` is the one that a get did not find last.
    #[inline]
    pub fn has_missed(&self, table: TableId, key: &[u8]) -> bool {
        self.missed.0 == table && self.missed.1 == key
    }

    /// Returns whether the snapshot is known to have no `key` in `table`.
    #[inline]
    pub fn holds(&mut self, table: TableId, key: &[u8]) -> bool {
        let holds = self.is_known
            && self.table == table
            && key >= &self.low[..]
            && self.high.as_deref().is_none_or(|high| key < high);
        self.spared += u32::from(holds);
        holds
    }

    /// Notes that `key` was looked up and not found. Returns whether it is time to look for the end of the gap.
    pub fn note(&mut self, table: TableId, key: &[u8]) -> bool {
        if std::mem::take(&mut self.is_known) {
            let doubled = (self.patience * 2).min(MOST_PATIENCE);
            self.patience = if self.spared < WORTHWHILE { doubled } else { PATIENCE };
        }
        let ascends = self.table == table && &self.low[..] < key;
        self.streak = if ascends { self.streak + 1 } else { 1 };
        self.table = table;
        self.low.clear();
        self.low.extend_from_slice(key);
        self.streak >= self.patience
    }

    /// Records that the gap that begins at the last key looked up ends before `high`.
    pub fn learn(&mut self, high: Option<Vec<u8>>) {
        (self.high, self.is_known, self.spared, self.streak) = (high, true, 0, 0);
    }
}
