//! Finding a table in a list of those that a transaction uses.

use base::TableId;
use std::collections::HashMap;

/// The greatest length of a list that is searched one by one, from the last item to the first. Most transactions use a
/// few tables, and find them soonest so.
pub const FEW: usize = 16;

/// Where each table is in a list, for as long as the list only grows at its end. Nothing is kept for one of at most
/// [`FEW`] items.
///
/// ```
/// use base::TableId;
/// use pando_txn::Positions;
/// let (mut list, mut positions) = (Vec::new(), Positions::default());
/// for id in 0..100 {
///     list.push((TableId(id), "what is known of the table"));
///     positions.note_last(&list, |item| item.0);
/// }
/// assert_eq!(positions.find(&list, TableId(70), |item| item.0), Some(70));
/// ```
#[derive(Debug, Default)]
#[allow(clippy::box_collection, reason = "each transaction has three of these, mostly empty")]
pub struct Positions(Option<Box<HashMap<TableId, usize>>>);

impl Positions {
    /// Notes the last item, which was added to the list. O(1) amortised.
    pub fn note_last<T>(&mut self, list: &[T], table_of: impl Fn(&T) -> TableId) {
        if list.len() <= FEW {
            return;
        }
        let noted = if list.len() == FEW + 1 { 0 } else { list.len() - 1 };
        let positions = self.0.get_or_insert_default();
        positions.extend(list.iter().enumerate().skip(noted).map(|(at, item)| (table_of(item), at)));
    }

    /// Returns the position of the last item about `table`. O(1).
    #[inline]
    pub fn find<T>(&self, list: &[T], table: TableId, table_of: impl Fn(&T) -> TableId) -> Option<usize> {
        if list.len() > FEW {
            return self.find_among_many(table);
        }
        list.iter().rposition(|item| table_of(item) == table)
    }

    #[inline(never)]
    fn find_among_many(&self, table: TableId) -> Option<usize> {
        self.0.as_ref()?.get(&table).copied()
    }

    /// Forgets all positions, and frees their memory.
    pub fn clear(&mut self) {
        self.0 = None;
    }
}
