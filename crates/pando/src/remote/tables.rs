//! The tables that a remote transaction sees. It can create, rename and drop them together with its other changes.
//!
//! The catalog is table 0, as in the engine: a record for each table, from its name to its id and options. Another
//! record holds the next id, so ids are never reused, and two transactions that create tables at once conflict.

use crate::database::TableOptions;
use crate::remote::capability::check_options;
use crate::remote::transaction::RemoteTransaction;
use base::{Error, ErrorKind, Result, TableId, Value};
use store::Table;
use store::catalog::{TableRow, check_name};
use store::ttl::Ttl;
use store::write_set::Prior;

/// The table that holds the next id. The engine has no table of this id.
const COUNTERS: TableId = TableId(3);
/// The key of the next id, 4 bytes in big-endian order.
const NEXT_ID: &[u8] = b"next-table-id";

impl RemoteTransaction {
    /// Returns the table named `name`, as this transaction sees it, or `None` if there is none.
    ///
    /// # Errors
    /// `Invalid` for a name that is empty or too long.
    pub fn table(&self, name: &str) -> Result<Option<Table>> {
        check_name(name)?;
        match self.own_row(name) {
            Some(row) => row.map(|row| self.own_handle(name, row)).transpose(),
            None => self.reads.table(name),
        }
    }

    /// Returns the handle of a table whose row this transaction wrote: the one that was made then, so that a rollback
    /// finds it.
    fn own_handle(&self, name: &str, row: &[u8]) -> Result<Table> {
        let row = TableRow::decode(name.as_bytes(), row)?;
        let made = self.made.iter().rev().map(|(_, table)| table);
        let found = made.into_iter().find(|table| table.name() == name && table.id() == row.id);
        Ok(found.cloned().unwrap_or_else(|| Table::elsewhere(self.reads.database, name, row)))
    }

    /// Creates a table. Like every other change, it becomes visible to others when the transaction commits.
    ///
    /// # Errors
    /// `Exists` if there is already a table of this name; `Invalid` for a TTL of less than 1 ms, and, with
    /// [`Unsupported`](crate::remote::Unsupported) as its cause, for options of layout and compression.
    pub fn create_table(&mut self, name: &str, options: &TableOptions) -> Result<Table> {
        check_options(options)?;
        let ttl = options.ttl.map(Ttl::new).transpose()?;
        if self.table(name)?.is_some() {
            return Err(Error::new(ErrorKind::Exists, format!("table {name:?} exists already")));
        }
        let id = self.claim_id()?;
        self.reads.note_new(id);
        let row = TableRow { id, layout: options.layout, ttl, compression: options.compression };
        self.write_row(name, row)
    }

    fn claim_id(&mut self) -> Result<TableId> {
        let stored = match self.writes.get(COUNTERS, NEXT_ID) {
            Some(Value::Inline(next)) => Some(next.to_vec()),
            _ => self.reads.get_raw(COUNTERS, NEXT_ID)?,
        };
        let next = match stored {
            None => TableId::FIRST_USER.0,
            Some(bytes) => bytes.try_into().map(u32::from_be_bytes).map_err(|bytes: Vec<u8>| {
                Error::corruption(format!("the next table id has {} bytes instead of 4", bytes.len()))
            })?,
        };
        let after = next.checked_add(1).ok_or_else(|| {
            Error::new(ErrorKind::Full, "this database has no table id left: 2^32 tables were created")
        })?;
        self.writes.put(COUNTERS, NEXT_ID, &after.to_be_bytes(), Prior::Unread);
        Ok(TableId(next))
    }

    /// Writes a row of the catalog, and returns a handle of it.
    fn write_row(&mut self, name: &str, row: TableRow) -> Result<Table> {
        self.writes.put(TableId::CATALOG, name.as_bytes(), &row.encode(), Prior::Unread);
        let table = Table::elsewhere(self.reads.database, name, row);
        self.made.push((self.writes.moment(), table.clone()));
        Ok(table)
    }

    /// Returns the table named `name`, and creates it with the default options if this transaction sees none.
    ///
    /// # Errors
    /// As for [`RemoteTransaction::create_table`], except for `Exists`.
    pub fn ensure_table(&mut self, name: &str) -> Result<Table> {
        self.ensure(name, &TableOptions::default(), |_, table| Ok(table))
    }

    /// Returns the table named `name`, and creates it with these options if this transaction sees none. An existing
    /// table must have exactly these options.
    ///
    /// # Errors
    /// `Mismatch` if the table exists and has other options; otherwise as for [`RemoteTransaction::create_table`].
    pub fn ensure_table_with(&mut self, name: &str, options: &TableOptions) -> Result<Table> {
        check_options(options)?;
        self.ensure(name, options, TableOptions::check)
    }

    fn ensure(
        &mut self,
        name: &str,
        options: &TableOptions,
        existing: impl FnOnce(&TableOptions, Table) -> Result<Table>,
    ) -> Result<Table> {
        match self.table(name)? {
            Some(table) => existing(options, table),
            None => self.create_table(name, options),
        }
    }

    /// Drops a table and everything in it. The store deletes the records one by one.
    ///
    /// # Errors
    /// `Missing` if the handle is stale.
    pub fn drop_table(&mut self, table: &Table) -> Result<()> {
        self.admit(table)?;
        self.writes.delete_range(table.id(), &[], None);
        self.writes.delete(TableId::CATALOG, table.name().as_bytes(), Prior::Unread);
        self.reads.forget(table.id());
        Ok(())
    }

    /// Renames a table and returns a handle with the new name. No data is copied. Other handles of the table return
    /// `Missing` from now on.
    ///
    /// # Errors
    /// `Exists` if there is already a table of the new name; `Missing` if the handle is stale.
    pub fn rename_table(&mut self, table: &Table, name: &str) -> Result<Table> {
        self.admit(table)?;
        if self.table(name)?.is_some() {
            return Err(Error::new(ErrorKind::Exists, format!("table {name:?} exists already")));
        }
        let row = table.handle_row();
        self.writes.delete(TableId::CATALOG, table.name().as_bytes(), Prior::Unread);
        self.reads.forget(table.id());
        self.write_row(name, row)
    }
}
