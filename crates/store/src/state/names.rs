//! The names of tables by id, and the changes that a commit makes to whole tables: read from the catalog's rows in its
//! record.

use crate::state::catalog::{Compression, RequestedLayout, TableRow};
use crate::state::ttl::Ttl;
use base::op::{Decoder, Op};
use base::{Error, Result, TableId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// A table as of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableInfo {
    pub(crate) name: Arc<str>,
    pub(crate) row: TableRow,
}

impl TableInfo {
    /// Returns the name of the table.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the id of the table, which is never reused.
    pub fn id(&self) -> TableId {
        self.row.id
    }

    /// Returns the layout that was requested for the table.
    pub fn layout(&self) -> RequestedLayout {
        self.row.layout
    }

    /// Returns whether each of its values has a date: the table has a TTL, or had one.
    pub fn is_dated(&self) -> bool {
        self.row.ttl.is_some()
    }

    /// Returns how long entries live, or `None` if they do not expire, or if each has a TTL of its own.
    pub fn ttl(&self) -> Option<Duration> {
        self.row.ttl?.duration()
    }

    /// Returns whether each entry has a TTL of its own.
    pub fn has_ttl_by_key(&self) -> bool {
        self.row.ttl.is_some_and(Ttl::is_by_key)
    }

    /// Returns the compression of leaves that merges of the table write.
    pub fn compression(&self) -> Compression {
        self.row.compression
    }

    /// Returns the row of the catalog, for [`TableInfo::decode`].
    pub fn encode_row(&self) -> Vec<u8> {
        self.row.encode()
    }

    /// Reads a row of the catalog.
    ///
    /// # Errors
    /// [`Corruption`](base::ErrorKind::Corruption) if it cannot be read.
    pub fn decode(name: &[u8], row: &[u8]) -> Result<TableInfo> {
        Ok(TableInfo { name: name_of(name)?.into(), row: TableRow::decode(name, row)? })
    }
}

/// A change of a whole table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableChange {
    /// The table was created.
    Created(TableInfo),
    /// The table was dropped, with all that it held.
    Dropped {
        /// The id of the table.
        id: TableId,
        /// The name that the table had.
        name: Arc<str>,
    },
    /// The table has another name, and perhaps other options.
    Renamed {
        /// The name that the table had.
        from: Arc<str>,
        /// The table after the commit.
        table: TableInfo,
    },
    /// The table has other options: layout, TTL or compression.
    Altered(TableInfo),
}

impl TableChange {
    /// Returns the name that the table has after the commit, or, if it was dropped, the name that it had.
    pub fn name(&self) -> &str {
        match self {
            TableChange::Created(table) | TableChange::Altered(table) => table.name(),
            TableChange::Renamed { table, .. } => table.name(),
            TableChange::Dropped { name, .. } => name,
        }
    }
}

/// The tables of one moment, by id.
pub(crate) type Names = BTreeMap<TableId, TableInfo>;

/// Returns the operations on the catalog in a record; attached runs come before them.
fn catalog_ops(record: &[u8]) -> impl Iterator<Item = Op<'_>> {
    let ops = Decoder::begin(record).into_iter().flatten();
    let ops = ops.skip_while(|(_, op)| matches!(op, Op::Attach { .. }));
    ops.take_while(|(table, _)| *table == TableId::CATALOG).map(|(_, op)| op)
}

/// Returns the changes that `record` made to the tables `before` it, and the tables after it. The order is dropped,
/// renamed, altered and created tables.
///
/// # Errors
/// [`Corruption`](base::ErrorKind::Corruption) for a row that cannot be read.
pub(crate) fn changes_in(record: &[u8], before: &Arc<Names>) -> Result<(Vec<TableChange>, Arc<Names>)> {
    if catalog_ops(record).next().is_none() {
        return Ok((Vec::new(), Arc::clone(before)));
    }
    let (mut freed, mut rows) = (BTreeSet::new(), BTreeMap::new());
    for op in catalog_ops(record) {
        match op {
            Op::Put { key, value } => {
                let row = TableRow::decode(key, value)?;
                freed.insert(name_of(key)?);
                rows.insert(row.id, TableInfo { name: name_of(key)?.into(), row });
            }
            Op::Delete { key } => {
                freed.insert(name_of(key)?);
            }
            _ => return Err(Error::corruption("a commit changed the catalog by more than single rows")),
        }
    }
    let mut after = Names::clone(before);
    let (mut changes, mut renamed, mut others) = (Vec::new(), Vec::new(), Vec::new());
    for (&id, old) in before.iter().filter(|(id, old)| freed.contains(&*old.name) && !rows.contains_key(id)) {
        after.remove(&id);
        changes.push(TableChange::Dropped { id, name: Arc::clone(&old.name) });
    }
    for (id, table) in rows {
        after.insert(id, table.clone());
        match before.get(&id) {
            Some(old) if old.name == table.name => others.push(TableChange::Altered(table)),
            Some(old) => renamed.push(TableChange::Renamed { from: Arc::clone(&old.name), table }),
            None => others.push(TableChange::Created(table)),
        }
    }
    changes.append(&mut renamed);
    changes.append(&mut others);
    Ok((changes, Arc::new(after)))
}

/// Returns the name in a catalog row's key.
pub(crate) fn name_of(key: &[u8]) -> Result<&str> {
    std::str::from_utf8(key)
        .map_err(|_| Error::corruption(format!("a table's name is not UTF-8: \"{}\"", key.escape_ascii())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::CommitTs;
    use base::op::Encoder;

    fn row(id: u32) -> TableRow {
        let (layout, compression) = (RequestedLayout::BTree, Compression::None);
        TableRow { id: TableId(id), layout, ttl: None, compression }
    }

    /// Returns a record that deletes rows and puts others, by name.
    fn record(deletes: &[&str], puts: &[(&str, u32)]) -> Vec<u8> {
        let rows: Vec<_> = puts.iter().map(|(name, id)| (*name, row(*id).encode())).collect();
        let mut record = Vec::new();
        let mut encoder = Encoder::begin(&mut record, CommitTs(1), (deletes.len() + puts.len()) as u64);
        for name in deletes {
            encoder.push(TableId::CATALOG, Op::Delete { key: name.as_bytes() });
        }
        for (name, row) in &rows {
            encoder.push(TableId::CATALOG, Op::Put { key: name.as_bytes(), value: row });
        }
        record
    }

    #[test]
    fn tables_are_made_renamed_swapped_and_dropped() -> Result<()> {
        let info = |name: &str, id| TableInfo { name: name.into(), row: row(id) };
        let (made, names) = changes_in(&record(&[], &[("a", 16), ("b", 17)]), &Arc::default())?;
        assert_eq!(made, [TableChange::Created(info("a", 16)), TableChange::Created(info("b", 17))]);
        let (swapped, names) = changes_in(&record(&[], &[("b", 16), ("a", 17)]), &names)?;
        let renamed = |from: &str, to, id| TableChange::Renamed { from: from.into(), table: info(to, id) };
        assert_eq!(swapped, [renamed("a", "b", 16), renamed("b", "a", 17)]);
        // One table is dropped and created again under its name; the other one is renamed.
        let (mixed, names) = changes_in(&record(&["b"], &[("a", 18), ("c", 16)]), &names)?;
        let dropped = TableChange::Dropped { id: TableId(17), name: "a".into() };
        assert_eq!(mixed, [dropped, renamed("b", "c", 16), TableChange::Created(info("a", 18))]);
        assert_eq!(names.keys().copied().collect::<Vec<_>>(), [TableId(16), TableId(18)]);
        // One transaction created and dropped it.
        assert_eq!(changes_in(&record(&["never"], &[]), &names)?, (vec![], names));
        Ok(())
    }
}
