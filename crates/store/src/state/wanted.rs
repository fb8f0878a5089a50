//! The layouts that the catalog asks for.

use crate::state::catalog::TableRow;
use base::slots::Reader;
use base::{Error, Result, TableId};
use page::Value;
use pool::Pool;
use run::{Cursor, Run};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// What each table's owner asked for, as the catalog's run has it.
pub(crate) type WantedRows = Arc<BTreeMap<TableId, TableRow>>;

/// What the catalog said when it was looked at last.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    last: Mutex<Option<(Run, WantedRows)>>,
}

impl Wanted {
    /// What `catalog`, table 0's run, says. Read once for each run.
    pub fn of(&self, catalog: Run, pool: &Pool, reader: &Reader) -> Result<WantedRows> {
        let mut last = base::sync::lock(&self.last);
        if let Some((run, wanted)) = &*last
            && *run == catalog
        {
            return Ok(Arc::clone(wanted));
        }
        let mut wanted = BTreeMap::new();
        let mut cursor = Cursor::new(catalog);
        cursor.seek_first(pool, reader)?;
        while let Some((name, value)) = cursor.entry() {
            let Value::Inline(row) = value else {
                return Err(Error::corruption("the catalog holds a large value"));
            };
            let row = TableRow::decode(name, row)?;
            wanted.insert(row.id, row);
            cursor.next(pool, reader)?;
        }
        let wanted = Arc::new(wanted);
        *last = Some((catalog, Arc::clone(&wanted)));
        Ok(wanted)
    }
}
