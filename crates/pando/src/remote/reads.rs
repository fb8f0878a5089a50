//! The reads that a remote snapshot and a remote transaction share: a session, and the tables that it has met.
//!
//! A table's row of the catalog is read once in each session, in the same round trip as the first record if the first
//! use is a get.

use crate::remote::seam::{Mode, Most, Order, Page, Session, Store, id_of};
use base::{DatabaseId, Error, Result, Span, TableId};
use std::cell::RefCell;
use std::sync::Arc;
use store::Table;
use store::catalog::TableRow;

/// The length of the date before each value of a table with a TTL.
const DATE_BYTES: usize = 8;

/// More than a table's row of the catalog has in bytes.
const ROW_BYTES: usize = 1 << 10;

/// The way in which the values of a table are read: after dates if it has a TTL, and only from this time on.
pub(super) type Oldest = Option<u64>;

/// A key and its value.
pub(super) type Record = (Vec<u8>, Vec<u8>);

#[derive(Debug)]
pub(super) struct Reads {
    pub store: Arc<dyn Store>,
    pub database: DatabaseId,
    session: RefCell<Box<dyn Session>>,
    /// The tables whose rows were found in this session.
    known: RefCell<Vec<(Table, Oldest)>>,
    /// The tables that the transaction creates. The store has no records of them.
    new: RefCell<Vec<TableId>>,
}

impl Reads {
    pub fn new(store: &Arc<dyn Store>, mode: Mode) -> Self {
        Reads {
            store: Arc::clone(store),
            database: id_of(&**store),
            session: RefCell::new(store.session(mode)),
            known: RefCell::default(),
            new: RefCell::default(),
        }
    }

    /// Returns the session, for the commit.
    pub fn session(&mut self) -> &mut dyn Session {
        &mut **self.session.get_mut()
    }

    /// Returns how the values of a table are read, if the table's row was found before. A table of another database
    /// can have the same id and name, and the making of a handle can have been rolled back since.
    ///
    /// # Errors
    /// `Invalid` if the handle belongs to another database; `Missing` if its making was rolled back.
    pub fn known(&self, table: &Table) -> Result<Option<Oldest>> {
        let known = self.known.borrow();
        let is_same =
            |(found, _): &&(Table, Oldest)| found.id() == table.id() && found.name() == table.name();
        let Some(&(_, oldest)) = known.iter().find(is_same) else { return Ok(None) };
        table.own_row(self.database)?;
        Ok(Some(oldest))
    }

    /// Notes that a table's row was found, and returns how its values are read.
    pub fn know(&self, table: &Table, row: TableRow) -> Result<Oldest> {
        let oldest = match row.ttl {
            None => None,
            Some(ttl) => Some(ttl.oldest_ms(self.session.borrow_mut().time_ms()?)),
        };
        self.known.borrow_mut().push((table.clone(), oldest));
        Ok(oldest)
    }

    /// Notes that the transaction creates a table. Its id was never used, and is used again only for another new one.
    pub fn note_new(&self, id: TableId) {
        self.new.borrow_mut().push(id);
    }

    fn is_new(&self, id: TableId) -> bool {
        self.new.borrow().contains(&id)
    }

    /// Forgets a table whose row the transaction has changed.
    pub fn forget(&self, id: TableId) {
        self.known.borrow_mut().retain(|(table, _)| table.id() != id);
    }

    /// Forgets all tables.
    pub fn forget_all(&self) {
        self.known.borrow_mut().clear();
    }

    /// Returns how the values of `table` are read. Looks its row up in the store unless it is known.
    pub fn admit(&self, table: &Table) -> Result<Oldest> {
        if let Some(oldest) = self.known(table)? {
            return Ok(oldest);
        }
        let row = self.get_raw(TableId::CATALOG, table.name().as_bytes())?;
        self.know(table, table.check_elsewhere(self.database, row.as_deref())?)
    }

    /// Returns the stored bytes of a record.
    pub fn get_raw(&self, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut found = self.session.borrow_mut().get_many(&[(table, key)], usize::MAX)?;
        Ok(found.pop().flatten())
    }

    /// Returns the values of these keys, in one round trip, which also looks up the table's row if it is not known. A
    /// long list ends after the value with which they have `most_bytes`; the first one is always returned.
    pub fn get_many(&self, table: &Table, keys: &[&[u8]], most_bytes: usize) -> Result<Vec<Option<Vec<u8>>>> {
        let known = self.known(table)?;
        if known.is_some() && self.is_new(table.id()) {
            return Ok(vec![None; keys.len()]);
        }
        let mut asked = Vec::with_capacity(keys.len() + 1);
        if known.is_none() {
            asked.push((TableId::CATALOG, table.name().as_bytes()));
        }
        asked.extend(keys.iter().map(|&key| (table.id(), key)));
        // The row counts for the store, and not here.
        let most_found = most_bytes.saturating_add(ROW_BYTES);
        let mut found = self.session.borrow_mut().get_many(&asked, most_found)?.into_iter();
        let oldest = match known {
            Some(oldest) => oldest,
            None => {
                let row = found.next().flatten();
                self.know(table, table.check_elsewhere(self.database, row.as_deref())?)?
            }
        };
        let (mut values, mut bytes) = (Vec::with_capacity(keys.len()), 0);
        for stored in found {
            let value = stored.map_or(Ok(None), |stored| value(oldest, stored))?;
            bytes += value.as_ref().map_or(0, Vec::len);
            values.push(value);
            // The store may have returned more.
            if bytes >= most_bytes {
                break;
            }
        }
        Ok(values)
    }

    pub fn fetch(&self, table: TableId, span: &Span, order: Order, most: Most) -> Result<Page> {
        if self.is_new(table) {
            return Ok(Page { records: Vec::new(), is_last: true });
        }
        self.session.borrow_mut().fetch(table, span, order, most)
    }

    /// Returns the table named `name`, as the store has it.
    pub fn table(&self, name: &str) -> Result<Option<Table>> {
        store::catalog::check_name(name)?;
        let row = self.get_raw(TableId::CATALOG, name.as_bytes())?;
        row.map(|row| self.found(name.as_bytes(), &row)).transpose()
    }

    /// Returns a handle of a table whose row was just read.
    pub fn found(&self, name: &[u8], row: &[u8]) -> Result<Table> {
        let row = TableRow::decode(name, row)?;
        let name = std::str::from_utf8(name)
            .map_err(|_| Error::corruption(format!("the name of {} in the catalog is not UTF-8", row.id)))?;
        let table = Table::elsewhere(self.database, name, row);
        if self.known(&table)?.is_none() {
            self.know(&table, row)?;
        }
        Ok(table)
    }
}

/// Returns the value that `stored` holds; `None` if it has expired.
pub(super) fn value(oldest: Oldest, mut stored: Vec<u8>) -> Result<Option<Vec<u8>>> {
    let Some(oldest_ms) = oldest else { return Ok(Some(stored)) };
    let Some((date, _)) = stored.split_first_chunk() else {
        return Err(Error::corruption(format!(
            "a value of a table with a TTL has {} bytes, too few for its date of {DATE_BYTES} bytes",
            stored.len()
        )));
    };
    if u64::from_be_bytes(*date) < oldest_ms {
        return Ok(None);
    }
    stored.drain(..DATE_BYTES);
    Ok(Some(stored))
}
