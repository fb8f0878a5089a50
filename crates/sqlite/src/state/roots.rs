//! Roots and meta values: which table of Pando a root is, and what a database's header has in SQLite.

#[cfg(not(feature = "drop-in"))]
use super::lent;
use super::{Open, State, Work, read};
use crate::failure::{CORRUPT, ERROR, Failure, Outcome, not_a_rowid};
use crate::sys::counter;
use pando::{ReadTables, RecordCursor, Table, TableOptions, WriteTables};
use sqlite_format::key::{Order, Shape};
use sqlite_format::{key, names};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The key of the last root that was given, in the table of the meta values. The others have their number as key.
const LAST_ROOT: [u8; 1] = [255];

/// A table or an index, as the cursors on it share it.
#[derive(Debug)]
pub(crate) struct Tree {
    pub table: Table,
    /// Changes with each write of the connection, and with each rollback. C reads it.
    pub version: Cell<u64>,
    /// Whether the running transaction created it.
    is_new: Cell<bool>,
    root: u32,
    numbers: Cell<Numbers>,
    /// The order of an index, as a cursor was opened with it last.
    shape: RefCell<Option<Rc<Shape>>>,
}

/// What a transaction knows of the rowids of a table.
#[derive(Clone, Copy, Debug, Default)]
struct Numbers {
    /// The transaction's number: what others knew is void.
    of: u64,
    /// The rowid after the last one. `None`: to be looked up.
    next: Option<i64>,
    /// The rowids that are the transaction's own, up to and with `last`.
    first: i64,
    last: i64,
}

/// The most rowids that a transaction takes for itself at once.
const MOST_NUMBERS: i64 = 1024;

impl Tree {
    /// Notes that batches that were read before are no longer current.
    pub(crate) fn touch(&self) {
        self.version.set(self.version.get() + 1);
    }

    pub(crate) fn root(&self) -> u32 {
        self.root
    }

    /// Returns the order of an index that has these orders and fields of its key: see [`Shape::new`].
    pub(crate) fn shape(
        &self,
        orders: impl Iterator<Item = Order> + Clone,
        key_fields: Option<usize>,
    ) -> Rc<Shape> {
        let mut known = self.shape.borrow_mut();
        match known.as_ref().filter(|shape| shape.is_of(orders.clone(), key_fields)) {
            Some(shape) => Rc::clone(shape),
            None => Rc::clone(known.insert(Rc::new(Shape::new(orders, key_fields)))),
        }
    }

    /// Notes that a row was put.
    pub(crate) fn note_row(&self, rowid: i64) {
        let mut numbers = self.numbers.get();
        numbers.next =
            numbers.next.and_then(|next| if rowid < next { Some(next) } else { rowid.checked_add(1) });
        self.numbers.set(numbers);
    }

    /// Notes that rows were deleted, or that what was written is undone.
    pub(crate) fn forget_last_row(&self) {
        self.numbers.set(Numbers { next: None, ..self.numbers.get() });
    }
}

/// When the schema cookie was read, which each statement asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// In a snapshot after this commit.
    Commit(u64),
    /// In the transaction of this number, in which it is read once: the read counts until the end.
    Transaction(u64),
}

/// The root of a virtual table. SQLite opens it only as the parent of a foreign key.
const NO_ROOT: u32 = 0;

/// The trees that were used so far.
#[derive(Debug, Default)]
pub(super) struct Roots {
    trees: BTreeMap<u32, Rc<Tree>>,
}

impl Roots {
    fn insert(&mut self, root: u32, table: Table, is_new: bool) -> Rc<Tree> {
        let (version, is_new, numbers) = (Cell::new(1), Cell::new(is_new), Cell::default());
        let tree = Rc::new(Tree { table, version, is_new, root, numbers, shape: RefCell::default() });
        self.trees.insert(root, Rc::clone(&tree));
        tree
    }

    /// Notes that the transaction was committed.
    pub(super) fn keep(&mut self) {
        self.trees.values().for_each(|tree| tree.is_new.set(false));
    }

    /// Notes that the batches that cursors have read are no longer current.
    pub(super) fn touch(&self) {
        self.trees.values().for_each(|tree| tree.touch());
    }

    /// Notes a rollback. Of the tables that the transaction created, those remain that `remains` says.
    pub(super) fn undo(&mut self, remains: impl Fn(&str) -> bool) {
        for tree in self.trees.values() {
            tree.touch();
            tree.forget_last_row();
        }
        self.trees.retain(|_, tree| !tree.is_new.get() || remains(tree.table.name()));
    }
}

impl State {
    /// Returns the tree with a root.
    pub(crate) fn tree(&mut self, root: u32) -> Outcome<Rc<Tree>> {
        if let Some(tree) = self.roots.trees.get(&root) {
            return Ok(Rc::clone(tree));
        }
        if root == NO_ROOT {
            let message = "not supported: a foreign key refers to a table that CREATE TABLE did not make";
            return Err(Failure::new(ERROR, message));
        }
        let table = read!(self, reader => reader.table(&names::of_root(root)).map_err(Failure::from))?;
        let table =
            table.ok_or_else(|| Failure::new(CORRUPT, format!("there is no tree with root {root}")))?;
        // It may have been created by this transaction, and dropped, and given back by a rollback to a savepoint. One
        // that is older stays known after a rollback: cursors that read on share its version with those that write.
        let is_new =
            matches!(&self.work, Work::Open(open) if open.created_after.is_some_and(|last| root > last));
        Ok(self.roots.insert(root, table, is_new))
    }

    /// Creates a tree, and returns its root.
    pub(crate) fn create(&mut self) -> Outcome<u32> {
        let root = self.last_root()? + 1;
        let meta = self.meta()?;
        let Open { transaction, created_after, .. } = self.writable()?;
        // A rollback to a savepoint can give back a root, so that the first one counts.
        created_after.get_or_insert(root - 1);
        transaction.put(&meta, LAST_ROOT, root.to_be_bytes())?;
        let table = transaction.create_table(&names::of_root(root), &TableOptions::default())?;
        self.roots.insert(root, table, true);
        self.note_meta(LAST_ROOT, Some(root));
        Ok(root)
    }

    /// Drops a tree.
    pub(crate) fn drop_tree(&mut self, root: u32) -> Outcome<()> {
        let tree = self.tree(root)?;
        self.writable()?.transaction.drop_table(&tree.table)?;
        tree.touch();
        self.roots.trees.remove(&root);
        Ok(())
    }

    /// Drops all tables and indexes, and deletes their definitions. New ones get roots that were never used. The
    /// transaction has just begun, and nothing else is committed while it runs.
    pub(super) fn drop_all(&mut self) -> Outcome<()> {
        let schema = self.tree(names::SCHEMA)?;
        let tables = self.db.tables()?;
        let transaction = &mut self.writable()?.transaction;
        let is_tree = |table: &Table| names::root_of(table.name()).is_some_and(|root| root != names::SCHEMA);
        for table in tables.iter().filter(|table| is_tree(table)) {
            transaction.drop_table(table)?;
        }
        transaction.delete_range(&schema.table, ..)?;
        schema.touch();
        // SQLite chooses the format with the first table.
        let meta = self.meta()?;
        self.writable()?.transaction.delete(&meta, names::FILE_FORMAT)?;
        self.note_meta(names::FILE_FORMAT, None);
        Ok(())
    }

    /// Deletes all entries of a tree, which can be `sqlite_sequence`.
    pub(crate) fn clear(&mut self, root: u32, is_counters: bool) -> Outcome<()> {
        let tree = self.tree(root)?;
        self.check_pins(&tree, std::ptr::null())?;
        let open = self.writable()?;
        if is_counters {
            open.note_counter(counter::SQL, &tree, &[]);
        }
        open.transaction.delete_range(&tree.table, ..)?;
        tree.touch();
        tree.forget_last_row();
        Ok(())
    }

    /// Returns the rowid for a new row of a table, as SQLite numbers them: the one after the last, and after `counter`.
    /// Numbers that other transactions have taken are passed over. `None`: the last rowid there is exists.
    ///
    /// The last row is looked up without being read, so that two transactions that append do not conflict. The row has
    /// to be put by an insert, which reads its key.
    pub(crate) fn new_rowid(&mut self, tree: &Tree, counter: i64) -> Outcome<Option<i64>> {
        let Open { transaction, ticket, .. } = self.writable()?;
        let mut numbers = tree.numbers.get();
        if numbers.of != ticket.number {
            numbers = Numbers { of: ticket.number, next: None, first: 0, last: -1 };
        }
        let next = match numbers.next {
            Some(next) => next,
            None => match transaction.last_key_unread(&tree.table)? {
                None => 1,
                Some(key) => match key::rowid_of(&key, &[]).ok_or_else(not_a_rowid)?.checked_add(1) {
                    None => return Ok(None),
                    Some(next) => next,
                },
            },
        };
        numbers.next = Some(next);
        let Some(after) = counter.checked_add(1) else { return Ok(None) };
        let next = next.max(after);
        if !(numbers.first..=numbers.last).contains(&next) {
            let count = (2 * (numbers.last - numbers.first + 1)).clamp(1, MOST_NUMBERS);
            // At the end of all numbers, a block may not fit where one number does.
            let given = [count, 1].iter().find_map(|&count| {
                ticket.give(tree.root, next, count).map(|first| (first, first + (count - 1)))
            });
            let Some(given) = given else { return Ok(None) };
            (numbers.first, numbers.last) = given;
        }
        tree.numbers.set(numbers);
        Ok(Some(next.max(numbers.first)))
    }

    /// Returns the last root that was given.
    pub(crate) fn last_root(&self) -> Outcome<u32> {
        Ok(self.number(LAST_ROOT)?.unwrap_or(names::SCHEMA))
    }

    /// Returns whether a table of SQL was ever created in the database.
    pub(super) fn has_trees(&self, reader: &impl ReadTables) -> Outcome<bool> {
        let Some(meta) = &self.meta else { return Ok(false) };
        Ok(reader.contains(meta, LAST_ROOT)?)
    }

    /// Returns a meta value, 0 if it was never set.
    pub(crate) fn meta_value(&self, at: u8) -> Outcome<u32> {
        let moment = self.moment().filter(|_| [at] == names::COOKIE);
        match self.cookie.get() {
            Some((read_at, cookie)) if moment == Some(read_at) => return Ok(cookie),
            _ => {}
        }
        let value = self.number([at])?.unwrap_or(0);
        if let Some(moment) = moment {
            self.cookie.set(Some((moment, value)));
        }
        Ok(value)
    }

    /// Returns the schema cookie of the transaction, or of the last commit if none has begun.
    #[cfg(not(feature = "drop-in"))]
    pub(crate) fn schema_cookie(&mut self) -> Outcome<u32> {
        match &self.work {
            Work::Reading(_) | Work::Open(_) => self.meta_value(names::COOKIE[0]),
            Work::Idle | Work::Committed => self.last_cookie(),
            Work::Failed(failure) => Err(failure.clone()),
            Work::Lent => Err(lent()),
        }
    }

    /// Returns the schema cookie of the last commit.
    #[cfg(not(feature = "drop-in"))]
    fn last_cookie(&mut self) -> Outcome<u32> {
        let snapshot = self.db.snapshot()?;
        let moment = snapshot.commit_number().map(Moment::Commit);
        if let Some((read_at, cookie)) = self.cookie.get()
            && moment == Some(read_at)
        {
            return Ok(cookie);
        }
        if self.meta.is_none() {
            self.meta = snapshot.table(names::META)?;
        }
        let cookie = match &self.meta {
            Some(meta) => read_number(&snapshot, meta, names::COOKIE)?.unwrap_or(0),
            None => 0,
        };
        self.cookie.set(moment.map(|moment| (moment, cookie)));
        Ok(cookie)
    }

    /// Notes that the schema cookie may have changed within the transaction.
    pub(crate) fn forget_cookie(&self) {
        self.cookie.set(None);
    }

    /// Returns the moment whose state is read, if another statement can read the same.
    fn moment(&self) -> Option<Moment> {
        match &self.work {
            Work::Reading(snapshot) => snapshot.commit_number().map(Moment::Commit),
            Work::Open(open) => Some(Moment::Transaction(open.ticket.number)),
            _ => None,
        }
    }

    /// Sets a meta value.
    pub(crate) fn set_meta(&mut self, at: u8, mut value: u32) -> Outcome<()> {
        if [at] == names::COOKIE {
            if self.replaces {
                // Other connections have to notice, and the cookie of what is copied may be that of before.
                value = value.max(self.meta_value(at)?.wrapping_add(1));
            }
            self.rename_definitions(value)?;
        }
        let meta = self.meta()?;
        self.writable()?.transaction.put(&meta, [at], value.to_be_bytes())?;
        self.note_meta([at], Some(value));
        Ok(())
    }

    /// Renames the empty table that has the schema cookie in its name. So the commit conflicts with each transaction
    /// that has written by older definitions, whatever its isolation, and handles of `rows` become stale.
    fn rename_definitions(&mut self, cookie: u32) -> Outcome<()> {
        let before = self.meta_value(names::COOKIE[0])?;
        if before == cookie {
            return Ok(());
        }
        let transaction = &mut self.writable()?.transaction;
        match transaction.table(&names::of_cookie(before))? {
            Some(table) => transaction.rename_table(&table, &names::of_cookie(cookie)).map(drop)?,
            // An older version made the database. Nobody has written by its definitions without this table.
            None => {
                transaction.create_table(&names::of_cookie(cookie), &TableOptions::default()).map(drop)?
            }
        };
        Ok(())
    }

    /// Returns the table of the meta values.
    fn meta(&self) -> Outcome<Table> {
        self.meta.clone().ok_or_else(|| Failure::new(CORRUPT, "the table of SQL's meta values is missing"))
    }

    /// Reads all meta values over a store, in one request.
    pub(super) fn read_metas(&mut self) -> Outcome<()> {
        self.metas = None;
        let Some(meta) = self.meta.clone().filter(|_| self.db.native().is_none()) else { return Ok(()) };
        self.metas = Some(read!(self, reader => all_numbers(reader, &meta))?);
        Ok(())
    }

    /// Notes a meta value that the transaction has written.
    fn note_meta(&mut self, key: [u8; 1], value: Option<u32>) {
        self.forget_cookie();
        let Some(metas) = &mut self.metas else { return };
        match value {
            Some(value) => drop(metas.insert(key.to_vec(), value)),
            None => drop(metas.remove(&key[..])),
        }
    }

    fn number(&self, key: [u8; 1]) -> Outcome<Option<u32>> {
        if let Some(metas) = &self.metas {
            return Ok(metas.get(&key[..]).copied());
        }
        let Some(meta) = &self.meta else { return Ok(None) };
        read!(self, reader => read_number(reader, meta, key))
    }
}

fn read_number(reader: &impl ReadTables, meta: &Table, key: [u8; 1]) -> Outcome<Option<u32>> {
    let decode = |value: &[u8]| value.try_into().map(u32::from_be_bytes);
    let found = reader.get_with(meta, key, decode)?;
    found.transpose().map_err(|_| Failure::new(CORRUPT, "a meta value does not have 4 bytes"))
}

/// Returns all numbers of a table.
fn all_numbers(reader: &impl ReadTables, table: &Table) -> Outcome<BTreeMap<Vec<u8>, u32>> {
    let mut cursor = reader.cursor(table, ..)?;
    let mut all = BTreeMap::new();
    while let Some((key, value)) = cursor.next()? {
        let malformed = |_| Failure::new(CORRUPT, "a meta value does not have 4 bytes");
        all.insert(key.to_vec(), u32::from_be_bytes(value.try_into().map_err(malformed)?));
    }
    Ok(all)
}
