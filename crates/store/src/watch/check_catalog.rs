//! The check that the two catalogs agree: the logical rows, which list the tables, and the physical ones, which locate
//! their records.
//!
//! Both are compared as of the newest checkpoint, which absorbs them together. A table without records has no physical
//! row. Every physical row has a logical one: without it the records could not be read or freed. No two names have the
//! same id, and no id is one that will be given later.

use crate::state::catalog::TableRow;
use crate::state::store::Store;
use crate::state::tables::Tables;
use crate::watch::check::Findings;
use base::{Error, Result, TableId};
use page::Value;
use run::Cursor;
use std::collections::BTreeMap;

impl Store {
    /// Adds to `findings` the disagreements of `tables`, the physical rows, with the catalog's own records. `next` is
    /// the first id that was not given by then.
    pub(crate) fn check_catalog(&self, tables: &Tables, next: TableId, findings: &mut Findings) {
        let file = self.data.name();
        let mut problem = |what: String| findings.add(Error::corruption(format!("{file}: {what}")));
        let names = match self.names_in(tables) {
            Ok(rows) => rows,
            // The reader of the catalog's run reports damaged pages.
            Err(error) => return problem(format!("the catalog: {error}")),
        };
        for (id, names) in &names {
            if names.len() > 1 {
                problem(format!("{id} has several names: {}", names.join(", ")));
            }
            if *id >= next {
                problem(format!("{id} is {}, but the next id to assign is {next}", names[0]));
            }
        }
        for (id, _) in tables.iter() {
            if id >= TableId::FIRST_USER && !names.contains_key(&id) {
                problem(format!("{id} has records, but no name in the catalog"));
            }
        }
    }

    /// Returns the names of each id.
    fn names_in(&self, tables: &Tables) -> Result<BTreeMap<TableId, Vec<String>>> {
        let mut names: BTreeMap<_, Vec<_>> = BTreeMap::new();
        let Some(reader) = self.slots.claim() else { return Ok(names) };
        let mut cursor = Cursor::new(tables.layers(TableId::CATALOG).1);
        cursor.seek_first(&self.pool, &reader)?;
        while let Some((key, value)) = cursor.entry() {
            let name = String::from_utf8_lossy(key).into_owned();
            let Value::Inline(value) = value else {
                return Err(Error::corruption(format!("the row of {name:?} is a large value")));
            };
            names.entry(TableRow::decode(key, value)?.id).or_default().push(name);
            cursor.next(&self.pool, &reader)?;
        }
        Ok(names)
    }
}
