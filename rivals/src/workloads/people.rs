//! The people and their towns, whom the workloads of SQL ask for and change: all follows from an id.

use crate::engine::Outcome;
use crate::records::permutation;
use crate::tables::{Cell, Link, Table};

const ROWS_A_TRANSACTION: usize = 1000;

/// How many people there are, and how many towns. The number of people is no multiple of 7919, so that names are
/// unique.
pub(super) struct People {
    pub count: u64,
    pub towns: u64,
}

impl People {
    pub fn name(&self, id: u64) -> String {
        format!("person {:08}", id.wrapping_mul(7919) % self.count)
    }

    pub fn town(&self, id: u64) -> u64 {
        id % self.towns
    }

    pub fn age(&self, id: u64) -> i64 {
        (id % 97) as i64
    }

    /// Makes both tables.
    pub fn create(link: &mut dyn Link) -> Outcome<()> {
        link.create(Table::Towns)?;
        link.create(Table::People)
    }

    /// Inserts all, the people in random order.
    pub fn insert(&self, link: &mut dyn Link) -> Outcome<()> {
        let mut towns = 0..self.towns;
        link.insert(Table::Towns, true, &mut |row| {
            row.clear();
            let Some(id) = towns.next() else { return false };
            row.extend([Cell::Int(id as i64), Cell::Text(format!("town {id}"))]);
            true
        })?;
        for ids in permutation(self.count, 5).chunks(ROWS_A_TRANSACTION) {
            let mut ids = ids.iter();
            link.insert(Table::People, true, &mut |row| {
                row.clear();
                let Some(&id) = ids.next() else { return false };
                let (name, town) = (Cell::Text(self.name(id)), Cell::Int(self.town(id) as i64));
                row.extend([Cell::Int(id as i64), name, town, Cell::Int(self.age(id))]);
                true
            })?;
        }
        Ok(())
    }
}
