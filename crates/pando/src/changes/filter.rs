//! The filter of a reader of changes: which operations of a change it returns.

use base::Result;
use base::keys::prefix_end;
use store::changes::{Change, Operation, TableChange};

/// The operations that a reader asked for: all, or those on some tables and keys.
#[derive(Clone, Debug, Default)]
pub(super) struct Filter {
    tables: Vec<String>,
    prefix: Vec<u8>,
    /// The first key after all keys that begin with the prefix.
    prefix_end: Option<Vec<u8>>,
}

impl Filter {
    pub fn add_table(&mut self, name: &str) {
        self.tables.push(name.to_owned());
    }

    pub fn set_prefix(&mut self, prefix: &[u8]) {
        (self.prefix, self.prefix_end) = (prefix.to_vec(), prefix_end(prefix));
    }

    /// Returns whether the filter excludes nothing.
    pub fn is_all(&self) -> bool {
        self.tables.is_empty() && self.prefix.is_empty()
    }

    fn has_table(&self, name: &str) -> bool {
        self.tables.is_empty() || self.tables.iter().any(|table| table == name)
    }

    /// Returns whether a change has an operation that passes the filter.
    pub fn has_any(&self, change: Change<'_>) -> Result<bool> {
        let mut operations = change.operations()?;
        while let Some(operation) = operations.next()? {
            if self.limit(operation).is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the part of `operation` that passes the filter. A range delete is cut to the prefix.
    pub fn limit<'a>(&'a self, operation: Operation<'a>) -> Option<Operation<'a>> {
        match operation {
            Operation::Table(change) => {
                let is_asked = match change {
                    TableChange::Renamed { from, table } => {
                        self.has_table(from) || self.has_table(table.name())
                    }
                    change => self.has_table(change.name()),
                };
                is_asked.then_some(operation)
            }
            Operation::Put { table, key, .. } | Operation::Delete { table, key } => {
                let is_asked = self.has_table(table.name()) && key.starts_with(&self.prefix);
                is_asked.then_some(operation)
            }
            Operation::DeleteRange { table, start, end } => {
                let start = start.max(&self.prefix);
                let end = match (end, self.prefix_end.as_deref()) {
                    (Some(end), Some(prefix_end)) => Some(end.min(prefix_end)),
                    (end, prefix_end) => end.or(prefix_end),
                };
                let is_asked = self.has_table(table.name()) && end.is_none_or(|end| start < end);
                is_asked.then_some(Operation::DeleteRange { table, start, end })
            }
        }
    }
}
