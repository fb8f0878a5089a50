//! The layouts that the catalog requests.

use crate::state::catalog::TableRow;
use base::slots::Reader;
use base::{Error, Result, TableId};
use page::Value;
use pool::Pool;
use run::{Cursor, Run};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// The requested options of each table, from the catalog's run.
pub(crate) type RequestedRows = Arc<BTreeMap<TableId, TableRow>>;

/// The contents of the catalog when it was read last.
#[derive(Debug, Default)]
pub(crate) struct Requested {
    last: Mutex<Option<(Run, RequestedRows)>>,
}

impl Requested {
    /// Returns the contents of `catalog`, table 0's run. They are read once for each run.
    pub fn rows(&self, catalog: Run, pool: &Pool, reader: &Reader) -> Result<RequestedRows> {
        let mut last = base::sync::lock(&self.last);
        if let Some((run, wanted)) = &*last
            && *run == catalog
        {
            return Ok(Arc::clone(wanted));
        }
        let mut wanted = BTreeMap::new();
        // A forged catalog may lead to the same leaf again and again.
        let mut before = Vec::new();
        let mut cursor = Cursor::new(catalog);
        cursor.seek_first(pool, reader)?;
        while let Some((name, value)) = cursor.entry() {
            let Value::Inline(row) = value else {
                return Err(Error::corruption("the catalog holds a large value"));
            };
            if !wanted.is_empty() && *name <= *before {
                return Err(Error::corruption("the names in the catalog are not in ascending order"));
            }
            let row = TableRow::decode(name, row)?;
            wanted.insert(row.id, row);
            before.clear();
            before.extend_from_slice(name);
            cursor.next(pool, reader)?;
        }
        let wanted = Arc::new(wanted);
        *last = Some((catalog, Arc::clone(&wanted)));
        Ok(wanted)
    }
}
