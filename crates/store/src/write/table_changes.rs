//! A transaction's changes of whole tables: rows of the catalog, which are written like any others.
//!
//! A transaction that used a table whose row another one has changed since has a conflict at its commit, if it wrote
//! anything (`Store::validate_tables`). So no transaction writes to a table that was dropped, or whose bytes have
//! another meaning now.

use crate::read::handle::Table;
use crate::state::catalog::{Compression, RequestedLayout, TableRow, check_name};
use crate::state::ttl::{Reading, Ttl};
use crate::uncommitted::write_set::{Prior, Savepoint};
use crate::write::transaction::Transaction;
use base::limits::UNIT_BYTES;
use base::{Error, ErrorKind, Result, Span, TableId, Value};
use std::time::Duration;

impl Transaction {
    /// Returns the table named `name`, as this transaction sees it.
    pub fn table(&self, name: &str) -> Result<Option<Table>> {
        check_name(name)?;
        let row = match self.writes().get(TableId::CATALOG, name.as_bytes()) {
            Some(Value::Inline(row)) => Some(row.to_vec()),
            Some(_) => None,
            None => {
                self.note_read(TableId::CATALOG, name.as_bytes());
                return self.snapshot.table(name);
            }
        };
        row.map(|row| Ok(self.handle(name, TableRow::decode(name.as_bytes(), &row)?))).transpose()
    }

    /// Returns a handle that is valid only in this transaction so far.
    fn handle(&self, name: &str, row: TableRow) -> Table {
        let mut made = self.scratch().made.borrow_mut();
        let known = made.newest(row.id).filter(|known| known.row() == row && known.name() == name);
        if let Some(known) = known {
            return known.clone();
        }
        let table = Table::uncommitted(self.store(), name, row);
        made.push(self.writes().moment(), table.clone());
        table
    }

    /// Marks the handles that were made since `savepoint` as undone.
    pub(crate) fn undo_made_since(&mut self, savepoint: Savepoint) {
        self.scratch().made.borrow_mut().undo_since(savepoint);
    }

    /// Creates a table.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] if there is already a table of this name.
    pub fn create_table(&mut self, name: &str, layout: RequestedLayout) -> Result<Table> {
        self.create_table_with(name, layout, None, Compression::None)
    }

    /// Creates a table whose entries live as `ttl` says (`None`: until they are deleted), and whose leaves are
    /// compressed with `compression`.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] if there is already a table of this name; [`ErrorKind::Invalid`] for compression of a
    /// table that is not an LSM table, and for compression of pages of 4 KiB, which cannot get shorter.
    pub fn create_table_with(
        &mut self,
        name: &str,
        layout: RequestedLayout,
        ttl: Option<Ttl>,
        compression: Compression,
    ) -> Result<Table> {
        if self.table(name)?.is_some() {
            return Err(Error::new(ErrorKind::Exists, format!("table {name:?} exists already")));
        }
        self.check_compression(name, layout, compression)?;
        let row = TableRow { id: self.store().catalog.claim_id()?, layout, ttl, compression };
        self.put_row(name, row);
        self.ttls_before.push((row.id, Ttl::NONE));
        let table = self.handle(name, row);
        self.know(&table, Reading::at(ttl, || self.snapshot.time_ms()))?;
        Ok(table)
    }

    pub(crate) fn put_row(&mut self, name: &str, row: TableRow) {
        self.writes_mut().put(TableId::CATALOG, name.as_bytes(), &row.encode(), Prior::Unread);
    }

    /// Drops a table and everything in it, without reading it.
    ///
    /// # Errors
    /// [`ErrorKind::Missing`] if it does not exist.
    pub fn drop_table(&mut self, table: &Table) -> Result<()> {
        let id = self.admit_name(table)?;
        self.writes_mut().delete_range(id, &[], None);
        self.writes_mut().delete(TableId::CATALOG, table.name().as_bytes(), Prior::Unread);
        self.distrust(id);
        Ok(())
    }

    /// Renames a table, and returns a handle with the new name. Its id and its records stay, and nothing is copied. It
    /// conflicts as a drop does: with every transaction that used the table and commits later, or has committed since.
    /// From now on other handles return [`ErrorKind::Missing`], also in this transaction, because their name may belong
    /// to another table later, and a layer above may have given the records another meaning with the name.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] if there is a table of the new name, [`ErrorKind::Missing`] if this one does not exist.
    pub fn rename_table(&mut self, table: &Table, name: &str) -> Result<Table> {
        let id = self.admit_name(table)?;
        if self.table(name)?.is_some() {
            return Err(Error::new(ErrorKind::Exists, format!("table {name:?} exists already")));
        }
        let row = self.row_now(table)?;
        self.writes_mut().delete(TableId::CATALOG, table.name().as_bytes(), Prior::Unread);
        self.put_row(name, row);
        self.distrust(id);
        Ok(self.handle(name, row))
    }

    /// Requests another layout. Nothing is rewritten by this call: later checkpoints and merges write the table in the
    /// new layout, while it is read and written as before. It conflicts as [`Transaction::rename_table`] does, for a
    /// moment.
    ///
    /// # Errors
    /// [`ErrorKind::Missing`] if the table does not exist.
    pub fn set_layout(&mut self, table: &Table, layout: RequestedLayout) -> Result<()> {
        self.admit_name(table)?;
        let row = self.row_now(table)?;
        if row.layout != layout {
            self.put_row(table.name(), TableRow { layout, ..row });
        }
        Ok(())
    }

    /// Sets the compression of leaves that later merges write. Existing leaves are not rewritten by this call, but when
    /// they are merged. It conflicts as [`Transaction::rename_table`] does, for a moment.
    ///
    /// # Errors
    /// [`ErrorKind::Missing`] if the table does not exist; [`ErrorKind::Invalid`] if it is not an LSM table,
    /// or has pages of 4 KiB, which cannot get shorter.
    pub fn set_compression(&mut self, table: &Table, compression: Compression) -> Result<()> {
        self.admit_name(table)?;
        let row = self.row_now(table)?;
        self.check_compression(table.name(), row.layout, compression)?;
        if row.compression != compression {
            self.put_row(table.name(), TableRow { compression, ..row });
        }
        Ok(())
    }

    /// Makes entries live for `ttl` after their put, including existing ones; `None`: until they are deleted. Entries
    /// that have expired when this commits stay expired. It conflicts as [`Transaction::rename_table`] does.
    ///
    /// # Errors
    /// [`ErrorKind::Missing`] if the table does not exist; [`ErrorKind::Invalid`] for a TTL of less than 1 ms, if the
    /// table was created without a TTL and was written to, because its values do not have the time of their put, and if
    /// it has a TTL by key.
    pub fn set_ttl(&mut self, table: &Table, ttl: Option<Duration>) -> Result<()> {
        let id = self.admit_name(table)?;
        let row = self.row_now(table)?;
        let changed = match (row.ttl, ttl) {
            (None, None) => return Ok(()),
            (None, Some(ttl)) => {
                let ttl = Ttl::new(ttl)?;
                if !self.is_unwritten(id)? {
                    return Err(undated(table));
                }
                // A concurrent transaction that writes to the table writes no dates. It must conflict with this one:
                // through a read at one isolation level, through a write at the other. So both are done.
                self.cursor(table, Span::all())?.next()?;
                self.writes_mut().delete_range(id, &[], None);
                self.ttls_before.push((id, Ttl::NONE));
                ttl
            }
            (Some(before), _) if before.is_by_key() => return Err(by_key(table)),
            (Some(before), ttl) => {
                if self.ttls_before.iter().all(|(known, _)| *known != id) {
                    self.ttls_before.push((id, before));
                }
                before.change_to(ttl, self.snapshot.time_ms())?
            }
        };
        self.put_row(table.name(), TableRow { ttl: Some(changed), ..row });
        self.distrust(id);
        Ok(())
    }

    fn check_compression(&self, name: &str, layout: RequestedLayout, compression: Compression) -> Result<()> {
        if compression == Compression::None {
            return Ok(());
        }
        if layout != RequestedLayout::Lsm {
            return Err(Error::invalid(format!(
                "table {name:?} has layout {layout}, but only an LSM table's pages can be compressed; \
                 give it layout lsm first"
            )));
        }
        if self.store().page_bytes() == UNIT_BYTES {
            return Err(Error::invalid(format!(
                "table {name:?}: compression has no effect on pages of {UNIT_BYTES} bytes, the smallest unit \
                 on disk; create the database with larger pages"
            )));
        }
        Ok(())
    }

    /// Returns whether neither this transaction's writes nor anything that it sees holds a byte of the table, including
    /// deleted entries.
    fn is_unwritten(&self, id: TableId) -> Result<bool> {
        let spilled = self.spills.as_ref().is_some_and(|spills| !spills.deltas(id).is_empty());
        Ok(self.snapshot.is_blank(id)? && !spilled && self.writes().tables().all(|table| table != id))
    }

    /// Returns the catalog's present row; a handle may be older.
    fn row_now(&self, table: &Table) -> Result<TableRow> {
        Ok(self.table(table.name())?.map_or(table.row(), |found| found.row()))
    }

    /// Checks that the table still has the handle's name: a change of the catalog's row needs that, and not only the
    /// id.
    fn admit_name(&self, table: &Table) -> Result<TableId> {
        let id = self.admit(table)?;
        self.note_read(TableId::CATALOG, table.name().as_bytes());
        if self.table(table.name())?.is_none_or(|found| found.id() != id) {
            let message = format!("table {:?} does not exist (renamed in this transaction)", table.name());
            return Err(Error::new(ErrorKind::Missing, message));
        }
        Ok(id)
    }
}

#[cold]
fn by_key(table: &Table) -> Error {
    let name = table.name();
    Error::invalid(format!("each entry of table {name:?} has a TTL of its own; set it with the entry"))
}

#[cold]
fn undated(table: &Table) -> Error {
    Error::invalid(format!(
        "table {:?} was created without a TTL and already has entries, whose values do not have the date of \
         their put; create another table with a TTL, and copy the entries",
        table.name()
    ))
}
