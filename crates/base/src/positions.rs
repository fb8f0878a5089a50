//! Finding a table in the list of those that a transaction uses.

use crate::TableId;
use std::collections::HashMap;

/// The positions of tables in a list, for as long as the list only grows at its end. Most transactions use a few
/// tables, and find them soonest one by one, from the last to the first. So nothing is kept for a list that is no
/// longer than [`Positions::FEW`].
///
/// ```
/// use base::TableId;
/// use pando_base as base;
/// let (mut list, mut positions) = (Vec::new(), base::positions::Positions::default());
/// for id in 0..100 {
///     list.push(TableId(id));
///     positions.note_last(list.iter().copied());
/// }
/// assert_eq!(positions.get(TableId(70)), Some(70));
/// ```
#[derive(Debug, Default)]
#[allow(clippy::box_collection, reason = "each transaction has three of these, mostly empty")]
pub struct Positions(Option<Box<HashMap<TableId, usize>>>);

impl Positions {
    /// The greatest length of a list that is searched without this.
    pub const FEW: usize = 16;

    /// Notes the last of `tables`, which was added to the list. A table that is in the list twice is found at its last
    /// position. O(1) amortised.
    pub fn note_last(&mut self, tables: impl ExactSizeIterator<Item = TableId>) {
        let len = tables.len();
        if len <= Positions::FEW {
            return;
        }
        let is_first = len == Positions::FEW + 1;
        let noted = if is_first { 0 } else { len - 1 };
        let positions = self.0.get_or_insert_default();
        positions.extend(tables.enumerate().skip(noted).map(|(at, table)| (table, at)));
    }

    /// Returns the position of `table` in a list longer than [`Positions::FEW`].
    #[inline(never)]
    pub fn get(&self, table: TableId) -> Option<usize> {
        self.0.as_ref()?.get(&table).copied()
    }

    /// Forgets all positions, and frees their memory.
    pub fn clear(&mut self) {
        self.0 = None;
    }
}
