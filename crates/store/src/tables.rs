//! The physical catalog in memory: which runs each table has.
//!
//! The rows lie in a tree of their own ([`TableId::PHYSICAL`]), whose run the superblock names, and are written by
//! checkpoints alone. Key: the table id, 4 bytes big-endian. Value: the layout's tag, then its runs:
//!
//! | layout | tag | rest |
//! |---|---:|---|
//! | B+tree | 1 | one run, 48 bytes |

use base::{Error, Result, TableId, keys};
use run::Run;

/// How a table is laid out, with its runs. The one place in the engine that knows there is more than one layout:
/// matched exhaustively by whoever reads a run or absorbs a memtable.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Layout {
    /// One run, edited in place by each checkpoint.
    BTree(Run),
}

const BTREE_TAG: u8 = 1;

impl Layout {
    /// The row's value.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Layout::BTree(run) => [&[BTREE_TAG][..], &run.encode()].concat(),
        }
    }

    /// Reads a row's value.
    pub fn decode(table: TableId, value: &[u8]) -> Result<Self> {
        match value.split_first() {
            Some((&BTREE_TAG, rest)) if rest.len() == Run::BYTES => {
                let run = Run::decode(rest.try_into().expect("length was just compared"))?;
                if run.deletes {
                    return Err(Error::corruption(format!(
                        "physical row of {table}: a run that holds deletes, with nothing below it"
                    )));
                }
                Ok(Layout::BTree(run))
            }
            _ => Err(Error::corruption(format!(
                "physical row of {table}: {} bytes with tag {:?} are no layout that this program knows",
                value.len(),
                value.first()
            ))),
        }
    }
}

/// Every table that has runs, by id. Immutable: a checkpoint makes a new one.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    by_id: Vec<(TableId, Layout)>,
}

impl Tables {
    /// From rows in ascending order of id.
    pub fn from_rows(rows: Vec<(TableId, Layout)>) -> Self {
        debug_assert!(rows.is_sorted_by_key(|row| row.0));
        Tables { by_id: rows }
    }

    /// The table's layout and runs. Logarithmic in the number of tables.
    #[inline]
    pub fn get(&self, table: TableId) -> Option<&Layout> {
        let at = self.by_id.binary_search_by_key(&table, |row| row.0).ok()?;
        Some(&self.by_id[at].1)
    }

    /// The one run of a table whose layout is a B+tree; empty if nothing was absorbed into it yet.
    #[inline]
    pub fn run(&self, table: TableId) -> Run {
        match self.get(table) {
            Some(Layout::BTree(run)) => *run,
            None => Run::EMPTY,
        }
    }

    /// Sets or, with `None`, removes a row.
    pub fn set(&mut self, table: TableId, layout: Option<Layout>) {
        match (self.by_id.binary_search_by_key(&table, |row| row.0), layout) {
            (Ok(at), Some(layout)) => self.by_id[at].1 = layout,
            (Ok(at), None) => drop(self.by_id.remove(at)),
            (Err(at), Some(layout)) => self.by_id.insert(at, (table, layout)),
            (Err(_), None) => {}
        }
    }

    /// All rows, by id.
    pub fn iter(&self) -> impl Iterator<Item = (TableId, &Layout)> {
        self.by_id.iter().map(|(table, layout)| (*table, layout))
    }
}

/// A row's key.
pub fn row_key(table: TableId) -> [u8; 4] {
    keys::u32_key(table.0)
}

/// The table that a row's key names.
pub fn table_of_key(key: &[u8]) -> Result<TableId> {
    let bytes =
        key.try_into().map_err(|_| Error::corruption("physical catalog: a key is not 4 bytes long"))?;
    Ok(TableId(u32::from_be_bytes(bytes)))
}
