//! The physical catalog in memory: which runs each table has.
//!
//! The rows are in a tree of their own ([`TableId::PHYSICAL`]), whose run the superblock names. Only checkpoints write
//! them. A table with no records has no row.
//!
//! | layout | key | value |
//! |---|---|---|
//! | B+tree | table id, 4 bytes big-endian | tag 1, then one run, 48 bytes |
//! | LSM | table id, position (1 byte) | tag 2, then one delta: see [`crate::lsm::stack`] |

use crate::state::roots::Roots;
use crate::state::stack::{MOST_RANGES_BYTES, Role, Stack, Stacked};
use base::slots::{EpochGuard, Reader};
use base::{Error, Result, TableId, keys};
use page::Value;
use pool::Pool;
use run::{Delta, Leaf, Residence, Run};

/// The layout of a table, with its runs. It is the only place in the engine that knows that there is more than one
/// layout: it is matched exhaustively where a run is read or a memtable absorbed.
#[derive(Clone, Debug, PartialEq)]
pub enum Layout {
    /// One run, edited in place by each checkpoint.
    BTree(Run),
    /// Several runs, one over the other, merged a slice at a time.
    Lsm(Stack),
}

const BTREE_TAG: u8 = 1;
const LSM_TAG: u8 = 2;

impl Layout {
    /// Returns the rows, as (key, value), in ascending order of key.
    pub fn rows(&self, table: TableId) -> Vec<(Vec<u8>, Vec<u8>)> {
        match self {
            Layout::BTree(run) => {
                vec![(row_key(table).to_vec(), [&[BTREE_TAG][..], &run.encode()].concat())]
            }
            Layout::Lsm(stack) => {
                let row = |(at, entry): (usize, &Stacked)| {
                    let at = u8::try_from(at).expect("a stack has few deltas");
                    ([&row_key(table)[..], &[at]].concat(), [&[LSM_TAG][..], &entry.encode()].concat())
                };
                stack.entries().iter().enumerate().map(row).collect()
            }
        }
    }

    /// Returns its runs, including those of filters and range deletes.
    pub fn runs(&self) -> Vec<Run> {
        match self {
            Layout::BTree(run) => vec![*run],
            Layout::Lsm(stack) => stack.entries().iter().flat_map(|entry| entry.delta.all()).collect(),
        }
    }

    /// Returns whether run number `at` of [`Layout::runs`] is a filter.
    pub fn is_filter(&self, at: usize) -> bool {
        match self {
            Layout::BTree(_) => false,
            Layout::Lsm(_) => at % 3 == 2,
        }
    }

    /// Returns whether the pages of run number `at` name their table: those of records do.
    pub fn says_whose(&self, at: usize) -> bool {
        match self {
            Layout::BTree(_) => true,
            Layout::Lsm(_) => at.is_multiple_of(3),
        }
    }

    /// Returns a copy of the layout with another run number `at`, of the same records.
    #[must_use]
    pub fn with_run(&self, at: usize, run: Run) -> Layout {
        match self {
            Layout::BTree(_) => Layout::BTree(run),
            Layout::Lsm(stack) => {
                let mut entries = stack.entries().to_vec();
                let Delta { records, ranges_run, filter, .. } = &mut entries[at / 3].delta;
                *[records, ranges_run, filter][at % 3] = run;
                Layout::Lsm(Stack::new(entries).expect("as many as before"))
            }
        }
    }

    /// Returns the deltas above the lowest run, newest first, and that run.
    #[inline]
    pub fn layers(&self) -> (&[Stacked], Run) {
        match self {
            Layout::BTree(run) => (&[], *run),
            Layout::Lsm(stack) => stack.layers(),
        }
    }
}

/// One row of the physical catalog, whose runs were not read.
#[derive(Clone, Debug)]
pub enum Row {
    /// The only run of a table.
    BTree(Run),
    /// One delta of a table's stack.
    Stacked(Role, Box<[u8; Delta::BYTES]>),
}

impl Row {
    /// Decodes a row that follows `before` rows of the same table.
    pub fn decode(key: &[u8], value: &[u8], before: usize) -> Result<(TableId, Row)> {
        let table = table_of_key(key)?;
        let wrong = || {
            Error::corruption(format!(
                "physical row of {table}: {} bytes with tag {:?} under a key of {} bytes, after {before} \
                 others, are not a layout that this version of Pando knows",
                value.len(),
                value.first(),
                key.len()
            ))
        };
        match (value.split_first(), &key[row_key(table).len()..]) {
            (Some((&BTREE_TAG, run)), []) if before == 0 => {
                let run = Run::decode(run.try_into().map_err(|_| wrong())?)?;
                if run.deletes {
                    return Err(Error::corruption(format!(
                        "physical row of {table}: a run contains deletes, but no run is below it"
                    )));
                }
                Ok((table, Row::BTree(run)))
            }
            (Some((&LSM_TAG, entry)), &[at]) if usize::from(at) == before => {
                let (role, delta) = Stacked::parts(table, entry)?;
                Ok((table, Row::Stacked(role, Box::new(*delta))))
            }
            _ => Err(wrong()),
        }
    }
}

/// A collector of rows in ascending order of key.
#[derive(Debug, Default)]
pub struct Rows {
    tables: Vec<(TableId, Vec<Row>)>,
}

impl Rows {
    /// Adds the next row.
    ///
    /// Errors: [`Corruption`](base::ErrorKind::Corruption) if it is not a row, or does not follow the previous one.
    pub fn push(&mut self, key: &[u8], value: Value<'_>) -> Result<()> {
        let table = table_of_key(key)?;
        let Value::Inline(value) = value else {
            return Err(Error::corruption(format!("physical row of {table} is a large value")));
        };
        let before = self.tables.last().filter(|(last, _)| *last == table).map_or(&[][..], |(_, rows)| rows);
        let (_, row) = Row::decode(key, value, before.len())?;
        match (self.tables.last_mut(), &row) {
            (Some((last, rows)), Row::Stacked(..)) if *last == table && !matches!(rows[0], Row::BTree(_)) => {
                rows.push(row);
            }
            (Some((last, _)), _) if *last > table => {
                return Err(Error::corruption(format!("physical row of {table}: it follows one of {last}")));
            }
            (Some((last, _)), _) if *last == table => {
                return Err(Error::corruption(format!(
                    "physical rows of {table}: they describe two layouts at once"
                )));
            }
            _ => self.tables.push((table, vec![row])),
        }
        Ok(())
    }

    /// Returns the tables, after reading their range deletes.
    ///
    /// Errors: [`Corruption`](base::ErrorKind::Corruption) if rows do not match each other; errors of reading pages.
    pub fn tables(self, pool: &Pool, reader: &Reader) -> Result<Tables> {
        // A merge can cut a range at a key that is longer than its start.
        let most_bytes = 2 * MOST_RANGES_BYTES;
        let mut roots = Roots::default();
        let layout = |(table, rows): (TableId, Vec<Row>)| {
            let mut entries = Vec::new();
            for row in rows {
                match row {
                    Row::BTree(run) => {
                        roots.add(table, &[run])?;
                        return Ok((table, Layout::BTree(run)));
                    }
                    Row::Stacked(role, delta) => {
                        roots.add(table, &Delta::runs(&delta)?)?;
                        let delta = Delta::decode_within(&delta, most_bytes, pool, reader)?;
                        entries.push(Stacked { delta, role });
                    }
                }
            }
            Ok((table, Layout::Lsm(Stack::check(table, entries)?)))
        };
        Ok(Tables::from_rows(self.tables.into_iter().map(layout).collect::<Result<_>>()?))
    }

    /// Returns the tables with their rows, without reading anything.
    pub fn by_table(self) -> Vec<(TableId, Vec<Row>)> {
        self.tables
    }
}

/// Every table that has runs, by id. It is immutable: a checkpoint makes a new one.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    by_id: Vec<(TableId, Layout)>,
}

impl Tables {
    /// Creates it from rows in ascending order of id.
    pub fn from_rows(rows: Vec<(TableId, Layout)>) -> Self {
        debug_assert!(rows.is_sorted_by_key(|row| row.0));
        Tables { by_id: rows }
    }

    /// Returns the table's layout and runs. O(log tables).
    #[inline]
    pub fn get(&self, table: TableId) -> Option<&Layout> {
        let at = self.by_id.binary_search_by_key(&table, |row| row.0).ok()?;
        Some(&self.by_id[at].1)
    }

    /// Returns [`Layout::layers`] of the table; nothing if nothing was absorbed into it yet.
    #[inline]
    pub fn layers(&self, table: TableId) -> (&[Stacked], Run) {
        self.get(table).map_or((&[], Run::EMPTY), Layout::layers)
    }

    /// Finds the record under `key`. It reads a page for each level of a B+tree; of a stack, for each delta, of its
    /// filter, and those of the delta that has the key.
    ///
    /// Errors: those of reading pages.
    #[inline]
    pub fn find<'g>(
        &self,
        table: TableId,
        pool: &'g Pool,
        guard: &'g mut EpochGuard<'_>,
        key: &[u8],
    ) -> Result<Option<Leaf<'g>>> {
        match self.get(table) {
            None => Ok(None),
            Some(Layout::BTree(run)) => run.get(pool, guard, key),
            Some(Layout::Lsm(stack)) => {
                let Some(position) = stack.find(pool, guard, key)? else { return Ok(None) };
                let leaf = position.leaf(pool, guard)?;
                Ok((leaf.value() != Value::Deleted).then_some(leaf))
            }
        }
    }

    /// Returns a copy of the tables whose filters are not in memory.
    pub fn without_residences(&self) -> Tables {
        let mut tables = self.clone();
        for (_, layout) in &mut tables.by_id {
            if let Layout::Lsm(stack) = layout {
                let mut entries = stack.entries().to_vec();
                entries.iter_mut().for_each(|entry| entry.delta.residence = Residence::default());
                *stack = Stack::new(entries).expect("as many as before");
            }
        }
        tables
    }

    /// Returns all rows, by id.
    pub fn iter(&self) -> impl Iterator<Item = (TableId, &Layout)> {
        self.by_id.iter().map(|(table, layout)| (*table, layout))
    }

    /// Returns the rows of `first` and of the tables after it, by id. O(log tables) before the first.
    pub fn from(&self, first: TableId) -> impl Iterator<Item = (TableId, &Layout)> {
        let at = self.by_id.partition_point(|row| row.0 < first);
        self.by_id[at..].iter().map(|(table, layout)| (*table, layout))
    }
}

/// Returns a row's key.
pub fn row_key(table: TableId) -> [u8; 4] {
    keys::u32_key(table.0)
}

/// Returns the table that a row's key names.
pub fn table_of_key(key: &[u8]) -> Result<TableId> {
    let bytes = key
        .first_chunk()
        .filter(|_| key.len() <= size_of::<TableId>() + 1)
        .ok_or_else(|| Error::corruption("physical catalog: a key has a length other than 4 or 5 bytes"))?;
    match TableId(u32::from_be_bytes(*bytes)) {
        // No table is given the last id, so that each id has a next one.
        TableId(u32::MAX) => Err(Error::corruption("physical catalog: a row of a table that cannot exist")),
        id => Ok(id),
    }
}
