//! The tables that a transaction uses, and those that it makes.

use crate::read::handle::{Admitted, Table};
use crate::uncommitted::write_set::Savepoint;
use base::TableId;
use txn::positions::{FEW, Positions};

/// Handles, each with what is known of its table. One that was renamed within the transaction is here by both names.
#[derive(Debug, Default)]
pub(crate) struct UsedTables {
    list: Vec<(Table, Admitted)>,
    positions: Positions,
    /// Whether a table is here by two names.
    has_twins: bool,
}

impl UsedTables {
    /// Returns what is known of a handle's table, unless it is [distrusted](Self::distrust).
    #[inline]
    pub fn get(&self, table: &Table) -> Option<Admitted> {
        if self.list.len() > FEW {
            return self.get_of_many(table);
        }
        // A transaction of SQL uses the tables of definitions first, and those of rows most.
        let is = |(known, admitted): &&(Table, Admitted)| admitted.good && known.is(table);
        self.list.iter().rfind(is).map(|(_, admitted)| *admitted)
    }

    #[inline(never)]
    fn get_of_many(&self, table: &Table) -> Option<Admitted> {
        let admitted = self.find(table).map(|at| self.list[at].1);
        admitted.filter(|admitted| admitted.good)
    }

    fn find(&self, table: &Table) -> Option<usize> {
        self.find_until(self.last(table.id())?, table)
    }

    /// Returns the position of the table's last handle.
    fn last(&self, id: TableId) -> Option<usize> {
        self.positions.find(&self.list, id, |(known, _)| known.id())
    }

    /// Returns the position of a handle; `last` is that of its table's last one.
    fn find_until(&self, last: usize, table: &Table) -> Option<usize> {
        let is = |(known, _): &(Table, Admitted)| known.is(table);
        // If the last handle of the table has another name, an earlier one may have this name.
        if is(&self.list[last]) { Some(last) } else { self.list.iter().rposition(is) }
    }

    /// Notes what is known of a handle's table.
    pub fn note(&mut self, table: &Table, admitted: Admitted) {
        let last = self.last(table.id());
        match last.and_then(|last| self.find_until(last, table)) {
            Some(at) => self.list[at].1 = admitted,
            None => {
                self.has_twins |= last.is_some();
                self.list.push((table.clone(), admitted));
                self.positions.note_last(&self.list, |(known, _)| known.id());
            }
        }
    }

    /// Forgets what is known of the tables, but not that they were used.
    pub fn distrust_all(&mut self) {
        self.list.iter_mut().for_each(|(_, admitted)| admitted.good = false);
    }

    /// Forgets what is known of a table, but not that it was used. O(1), unless a table is here by two names.
    pub fn distrust(&mut self, id: TableId) {
        if self.has_twins {
            let tables = self.list.iter_mut().map(|(_, admitted)| admitted);
            tables.filter(|admitted| admitted.id == id).for_each(|admitted| admitted.good = false);
        } else if let Some(at) = self.last(id) {
            self.list[at].1.good = false;
        }
    }

    /// Returns the handles.
    pub fn iter(&self) -> impl Iterator<Item = &Table> {
        self.list.iter().map(|(table, _)| table)
    }

    /// Forgets all tables.
    pub fn clear(&mut self) {
        self.list.clear();
        self.positions.clear();
        self.has_twins = false;
    }
}

/// The handles that are valid only in a transaction, each with when it was made:
/// [`WriteSet::moment`](crate::uncommitted::write_set::WriteSet::moment).
#[derive(Debug, Default)]
pub(crate) struct MadeTables {
    list: Vec<(u64, Table)>,
    positions: Positions,
}

impl MadeTables {
    /// Returns the newest handle of a table.
    pub fn newest(&self, id: TableId) -> Option<&Table> {
        self.positions.find(&self.list, id, |(_, table)| table.id()).map(|at| &self.list[at].1)
    }

    /// Adds a handle.
    pub fn push(&mut self, moment: u64, table: Table) {
        self.list.push((moment, table));
        self.positions.note_last(&self.list, |(_, table)| table.id());
    }

    /// Marks the handles that were made since `savepoint` as undone, and removes them.
    pub fn undo_since(&mut self, savepoint: Savepoint) {
        // Moments ascend.
        if self.list.last().is_none_or(|(moment, _)| !savepoint.is_before(*moment)) {
            return;
        }
        for (moment, table) in std::mem::take(self).list {
            if savepoint.is_before(moment) { table.undo() } else { self.push(moment, table) }
        }
    }

    /// Marks all handles as undone, and removes them.
    pub fn undo_all(&mut self) {
        self.list.iter().for_each(|(_, table)| table.undo());
        self.clear();
    }

    /// Returns whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Removes all handles, which are valid for everyone now.
    pub fn clear(&mut self) {
        self.list.clear();
        self.positions.clear();
    }
}
