//! The definitions that SQLite made, as of a change, and what they say about operations.

use super::{Changed, Defined, Named, decode, unknown};
use crate::open::{Entry, decoded_entry, for_decoding};
use crate::table::DynamicTable;
use pando::changes::TableChange;
use pando::{Database, Operation, ReadTables, RecordCursor, Result, Span};
use sqlite_format::names;
use std::collections::{BTreeMap, HashMap, HashSet};

/// The definitions that SQLite made.
#[derive(Debug, Default)]
pub(super) struct SqliteSchema {
    /// The rows of `sqlite_schema` by their stored keys. `None`: it has no name, or one that is not UTF-8.
    entries: BTreeMap<Vec<u8>, Option<Entry>>,
    /// What has changed after the commit of the beginning, by root: whether it is a table, and its name of now. A root
    /// is never used again.
    later: HashMap<u32, (bool, String)>,
    /// The keys of what has changed after the commit of the beginning, up to the change that has it.
    forgotten: HashSet<Vec<u8>>,
    /// The definitions that the present change has, with what was there before.
    changed: BTreeMap<Vec<u8>, Before>,
    /// The roots that the present change has made, and those of whose rows it has several forms, with their names.
    made: HashSet<u32>,
    mixed: HashMap<u32, String>,
    /// The keys of the definitions that were shown: a change in parts can have one several times.
    shown: HashSet<Vec<u8>>,
    /// What is stored under a root, once it was asked for.
    roots: HashMap<u32, Tree>,
}

/// What was stored under a key of `sqlite_schema` before the present change.
#[derive(Debug)]
enum Before {
    Known(Option<Entry>),
    Forgotten,
}

impl Before {
    fn entry(&self) -> Option<&Entry> {
        match self {
            Before::Known(entry) => entry.as_ref(),
            Before::Forgotten => None,
        }
    }
}

/// What SQLite stores in a table of the engine.
#[derive(Debug)]
enum Tree {
    Rows(Box<DynamicTable>),
    /// An index, or a table of SQLite's own.
    Internal,
    /// Rows that cannot be shown.
    Unknown {
        table: Option<String>,
        why: String,
    },
}

impl SqliteSchema {
    /// Reads all definitions.
    pub fn read(reader: &impl ReadTables) -> Result<Self> {
        let mut read = SqliteSchema::default();
        let Some(schema) = reader.table(&names::of_root(names::SCHEMA))? else { return Ok(read) };
        let mut cursor = reader.cursor(&schema, Span::all())?;
        while let Some((key, record)) = cursor.next()? {
            read.entries.insert(key.to_vec(), decoded_entry(record));
        }
        Ok(read)
    }

    /// Begins a change.
    pub fn enter(&mut self) {
        self.changed.clear();
        self.made.clear();
        self.mixed.clear();
    }

    /// Begins the operations of a change.
    pub fn show_again(&mut self) {
        self.shown.clear();
    }

    /// Forgets the definitions that an operation changes.
    pub fn forget(&mut self, operation: &Operation<'_>) {
        let keys: Vec<_> = match operation {
            Operation::Put { key, .. } | Operation::Delete { key, .. } => vec![key.to_vec()],
            Operation::DeleteRange { start, end, .. } => self.keys_in(start, *end),
            Operation::Table(_) => Vec::new(),
        };
        for key in keys {
            if let Some(Some(entry)) = self.entries.remove(&key) {
                let is_table = entry.is_table() && !entry.is_internal();
                self.later.insert(entry.root, (is_table, entry.name));
            }
            self.forgotten.insert(key);
        }
    }

    fn keys_in(&self, start: &[u8], end: Option<&[u8]>) -> Vec<Vec<u8>> {
        let from = self.entries.range(start.to_vec()..);
        let keys = from.map(|(key, _)| key).take_while(|key| end.is_none_or(|end| &key[..] < end));
        keys.cloned().collect()
    }

    /// Takes over a definition.
    pub fn note(&mut self, operation: &Operation<'_>) -> Result<()> {
        match operation {
            Operation::Put { key, value, .. } => {
                let entry = decoded_entry(&value.to_vec()?);
                let before = self.entries.insert(key.to_vec(), entry).flatten();
                self.note_before(key, before);
            }
            Operation::Delete { key, .. } => self.remove(key),
            Operation::DeleteRange { start, end, .. } => {
                self.keys_in(start, *end).iter().for_each(|key| self.remove(key));
            }
            Operation::Table(TableChange::Created(table)) => self.made.extend(names::root_of(table.name())),
            Operation::Table(_) => {}
        }
        Ok(())
    }

    fn remove(&mut self, key: &[u8]) {
        let before = self.entries.remove(key).flatten();
        self.note_before(key, before);
    }

    fn note_before(&mut self, key: &[u8], before: Option<Entry>) {
        let is_forgotten = self.forgotten.remove(key);
        let before = if is_forgotten { Before::Forgotten } else { Before::Known(before) };
        self.changed.entry(key.to_vec()).or_insert(before);
    }

    /// Uses the definitions of the present change from now on. If it is in parts, it can have rows from before them.
    pub fn take_over(&mut self, is_in_parts: bool) {
        self.roots.clear();
        for (key, before) in self.changed.iter().filter(|_| is_in_parts) {
            let Some(Some(after)) = self.entries.get(key) else { continue };
            let before = before.entry();
            let is_as_before =
                before.is_some_and(|before| (before.root, &before.sql) == (after.root, &after.sql));
            if after.is_table() && !is_as_before && !self.made.contains(&after.root) {
                self.mixed.insert(after.root, after.name.clone());
            }
        }
    }

    /// Shows a row of `sqlite_schema`.
    pub fn definition(&mut self, operation: &Operation<'_>) -> Changed<'_> {
        let (Operation::Put { key, .. } | Operation::Delete { key, .. }) = operation else {
            return Changed::Internal;
        };
        if !self.shown.insert(key.to_vec()) {
            return Changed::Internal;
        }
        let changed = self.changed.get(*key);
        let before = changed.and_then(Before::entry);
        let after = self.entries.get(*key).and_then(Option::as_ref);
        match (before, after) {
            (_, Some(after)) if after.is_internal() || before == Some(after) => Changed::Internal,
            (_, Some(after)) => {
                let (same, other) = match before {
                    Some(before) if before.root == after.root && before.kind == after.kind => {
                        (Some(before), None)
                    }
                    before => (None, before.filter(|before| !before.is_internal())),
                };
                Changed::Defined(Defined {
                    named: named(after),
                    sql: after.sql.as_deref().and_then(|sql| str::from_utf8(sql).ok()),
                    schema: None,
                    renamed_from: same.map(|before| &before.name[..]).filter(|name| *name != after.name),
                    in_place_of: other.map(named),
                })
            }
            (Some(before), None) if before.is_internal() => Changed::Internal,
            (Some(before), None) => Changed::Dropped(named(before)),
            (None, None) if matches!(changed, Some(Before::Forgotten)) => {
                unknown(None, "a definition that is not known was dropped")
            }
            (None, None) => Changed::Internal,
        }
    }

    /// Shows a change of a table of the engine. A definition shows what was dropped, unless it is not known.
    pub fn tree_change(&self, change: &TableChange) -> Changed<'_> {
        let TableChange::Dropped { name, .. } = change else { return Changed::Internal };
        let Some(root) = names::root_of(name).filter(|root| *root != names::SCHEMA) else {
            return Changed::Internal;
        };
        let mut known = self.changed.values().filter_map(Before::entry);
        match known.any(|entry| entry.root == root) {
            true => Changed::Internal,
            false => unknown(None, "a table or an index was dropped whose definition is not known"),
        }
    }

    /// Shows an operation on what is stored under a root.
    pub fn decode(
        &mut self,
        db: &Database,
        root: u32,
        operation: &Operation<'_>,
        most_bytes: u64,
    ) -> Result<Changed<'_>> {
        if let Some(name) = self.mixed.get(&root) {
            let why = "a large transaction wrote rows before and after it altered their table";
            return Ok(unknown(Some(name), why));
        }
        if !self.roots.contains_key(&root) {
            let tree = self.tree(db, root)?;
            self.roots.insert(root, tree);
        }
        match &self.roots[&root] {
            Tree::Rows(table) => decode(table, operation, most_bytes),
            Tree::Internal => Ok(Changed::Internal),
            Tree::Unknown { table, why } => Ok(unknown(table.as_deref(), why)),
        }
    }

    /// Returns what is stored under a root.
    fn tree(&self, db: &Database, root: u32) -> Result<Tree> {
        let unknown =
            |table: Option<&String>, why: &str| Tree::Unknown { table: table.cloned(), why: why.to_owned() };
        let Some(entry) = self.entries.values().flatten().find(|entry| entry.root == root) else {
            return Ok(match self.later.get(&root) {
                // Its name as of the commit is not known.
                Some((true, name)) => unknown(
                    None,
                    &format!("the definition of table {name:?} changed later, and the earlier one is gone"),
                ),
                Some((false, _)) => Tree::Internal,
                None => unknown(None, "the table or index was dropped later, and its definition is gone"),
            });
        };
        if !entry.is_table() || entry.is_internal() {
            return Ok(Tree::Internal);
        }
        let Some(meta) = db.snapshot()?.table(names::META)? else {
            return Ok(unknown(Some(&entry.name), "the definitions are gone"));
        };
        Ok(match for_decoding(entry, &meta) {
            Ok(table) => Tree::Rows(Box::new(table)),
            Err(error) => unknown(Some(&entry.name), &error.to_string()),
        })
    }
}

fn named(entry: &Entry) -> Named<'_> {
    Named { kind: &entry.kind, name: &entry.name, table: &entry.table }
}
