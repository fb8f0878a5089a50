//! The tables as a checkpoint leaves them: those of the checkpoint before, with the changes so far.
//!
//! Readers look a table up in a sorted list ([`Tables`]). A checkpoint may change as many tables as there are, and each
//! row that is added or removed by itself would move all rows after it. So changes are collected, and the list is made
//! once, in O(tables), before the switch.

use crate::state::stack::Stacked;
use crate::state::tables::{Layout, Tables};
use base::TableId;
use run::Run;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The tables of the last checkpoint, and what a checkpoint in progress changes in them.
#[derive(Debug, Default)]
pub(crate) struct ChangedTables {
    before: Arc<Tables>,
    /// The changed rows; `None`: the table has no runs any longer.
    changes: BTreeMap<TableId, Option<Layout>>,
}

impl ChangedTables {
    /// Creates it without changes.
    pub fn new(before: Arc<Tables>) -> Self {
        ChangedTables { before, changes: BTreeMap::new() }
    }

    /// Returns the table's layout and runs. O(log tables).
    pub fn get(&self, table: TableId) -> Option<&Layout> {
        match self.changes.get(&table) {
            Some(changed) => changed.as_ref(),
            None => self.before.get(table),
        }
    }

    /// Returns [`Layout::layers`] of the table; nothing if nothing was absorbed into it yet.
    pub fn layers(&self, table: TableId) -> (&[Stacked], Run) {
        self.get(table).map_or((&[], Run::EMPTY), Layout::layers)
    }

    /// Sets or, with `None`, removes a row. O(log tables).
    pub fn set(&mut self, table: TableId, layout: Option<Layout>) {
        self.changes.insert(table, layout);
    }

    /// Returns all rows, by id.
    pub fn iter(&self) -> impl Iterator<Item = (TableId, &Layout)> {
        self.from(TableId(0))
    }

    /// Returns the rows of `first` and of the tables after it, by id. The first row costs O(log tables), and O(1) for
    /// each removed one before it.
    pub fn from(&self, first: TableId) -> impl Iterator<Item = (TableId, &Layout)> {
        let mut before = self.before.from(first).peekable();
        let mut changes = self.changes.range(first..).peekable();
        std::iter::from_fn(move || {
            loop {
                let Some(&(changed, _)) = changes.peek() else { return before.next() };
                if let Some(row) = before.next_if(|(table, _)| table < changed) {
                    return Some(row);
                }
                before.next_if(|(table, _)| table == changed);
                if let Some((table, Some(layout))) = changes.next() {
                    return Some((*table, layout));
                }
            }
        })
    }

    /// Returns the tables with all changes. O(tables), or O(1) if there are no changes.
    pub fn finish(self) -> Arc<Tables> {
        if self.changes.is_empty() {
            return self.before;
        }
        Arc::new(Tables::from_rows(self.iter().map(|(table, layout)| (table, layout.clone())).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::env::Random;

    fn layout(records: u64) -> Layout {
        Layout::BTree(Run { records, ..Run::EMPTY })
    }

    fn rows<'a>(rows: impl Iterator<Item = (TableId, &'a Layout)>) -> Vec<(u32, u64)> {
        rows.map(|(table, layout)| (table.0, layout.layers().1.records)).collect()
    }

    #[test]
    fn it_reads_like_the_list_that_it_becomes() {
        for seed in 0..200 {
            let mut random = Random::seeded(seed);
            let mut model: BTreeMap<u32, u64> =
                (0..20).filter(|_| random.chance(1, 2)).map(|table| (table, 1000)).collect();
            let before = model.iter().map(|(&table, &records)| (TableId(table), layout(records)));
            let mut tables = ChangedTables::new(Arc::new(Tables::from_rows(before.collect())));
            for change in 0..random.below(20) {
                let table = random.below(25) as u32;
                match random.chance(1, 2) {
                    true => {
                        model.insert(table, change);
                        tables.set(TableId(table), Some(layout(change)));
                    }
                    false => {
                        model.remove(&table);
                        tables.set(TableId(table), None);
                    }
                }
            }
            for table in 0..26 {
                let found = tables.get(TableId(table)).map(|layout| layout.layers().1.records);
                assert_eq!(found, model.get(&table).copied(), "seed {seed}");
                let expected: Vec<_> =
                    model.range(table..).map(|(&table, &records)| (table, records)).collect();
                assert_eq!(rows(tables.from(TableId(table))), expected, "seed {seed}, from {table}");
            }
            let expected: Vec<_> = model.into_iter().collect();
            assert_eq!(rows(tables.finish().iter()), expected, "seed {seed}");
        }
    }

    /// No row moves, however many are added and removed, before the list is made at the end.
    #[test]
    fn a_removed_row_moves_no_others() {
        let before =
            Arc::new(Tables::from_rows((0..1000).map(|table| (TableId(table), layout(1))).collect()));
        let mut tables = ChangedTables::new(Arc::clone(&before));
        (0..1000).for_each(|table| tables.set(TableId(table), None));
        (1000..1010).for_each(|table| tables.set(TableId(table), Some(layout(2))));
        assert!(Arc::ptr_eq(&before, &tables.before) && before.iter().count() == 1000);
        assert_eq!(tables.finish().iter().count(), 10);
    }

    #[test]
    fn tables_that_did_not_change_are_not_copied() {
        let before = Arc::new(Tables::from_rows(vec![(TableId(7), layout(1))]));
        assert!(Arc::ptr_eq(&before, &ChangedTables::new(Arc::clone(&before)).finish()));
    }
}
