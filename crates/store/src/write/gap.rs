//! Where the snapshot has nothing: an insert there need not look.
//!
//! 1. A snapshot does not change, so what was once found empty of it stays so, for all of the transaction.
//! 2. After some inserts in a row whose keys ascended and were not there, the stretch from the last of them to the next
//!    key of any layer, a later commit's too, is found out, by one seek in each. Rows that come in order then cost a
//!    comparison each.
//! 3. Where stretches turn out to be short the next one is looked for later, twice as late each time: what is lost is a
//!    small part of what the look-ups cost.

use base::TableId;

/// Look-ups in vain, in a row, before the first stretch is found out, and at most.
const PATIENCE: u32 = 2;
const MOST_PATIENCE: u32 = 1024;
/// A stretch pays if it has spared so many look-ups: finding it out costs a few.
const WORTHWHILE: u32 = 8;

/// See the module.
#[derive(Debug)]
pub(crate) struct Gap {
    table: TableId,
    /// The last key that was looked up in vain. With `is_known` the first of the stretch.
    low: Vec<u8>,
    /// The first key behind the stretch; `None`: it goes on to the end of the table.
    pub high: Option<Vec<u8>>,
    pub is_known: bool,
    /// Look-ups that it has spared.
    spared: u32,
    /// Look-ups in vain of ascending keys, in a row.
    streak: u32,
    patience: u32,
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
        }
    }
}

impl Gap {
    /// Forgets everything; keeps its memory.
    pub fn clear(&mut self) {
        (self.is_known, self.spared, self.streak, self.patience) = (false, 0, 0, PATIENCE);
        (self.table, self.high) = (TableId::CATALOG, None);
        self.low.clear();
    }

    /// Whether the snapshot is known to have no `key` in `table`.
    #[inline]
    pub fn holds(&mut self, table: TableId, key: &[u8]) -> bool {
        let holds = self.is_known
            && self.table == table
            && key >= &self.low[..]
            && self.high.as_deref().is_none_or(|high| key < high);
        self.spared += u32::from(holds);
        holds
    }

    /// Notes that `key` was looked up in vain. Answers whether it is time to find out how far that goes.
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

    /// Takes over that the stretch from the last key that was looked up ends before `high`.
    pub fn learn(&mut self, high: Option<Vec<u8>>) {
        (self.high, self.is_known, self.spared, self.streak) = (high, true, 0, 0);
    }
}
