//! Leaves without their parents: they are found by searching the file, and combined by their births.
//!
//! A leaf of birth *b* is the complete contents of its table between its first and its last key when checkpoint *b* was
//! written. So of all leaves around a key the newest decides: if it has the key, that is the version; if not, the key
//! was deleted after the older leaves. A checkpoint may write a leaf twice, and one that a crash interrupted has the
//! number of the next: among leaves of one birth any that has the key is trusted.
//!
//! Leaves of an LSM table are not complete: keys that they lack may be in an older run. There the newest leaf that has
//! the key counts, even if only as deleted.

use super::start::Start;
use base::limits::{MAX_PAGE_BYTES, MIN_PAGE_BYTES, UNIT_BYTES};
use base::{CheckpointNo, DatabaseId, PagePtr, Result, TableId, checksum};
use io::File;
use page::{Kind, Page, Value, compressed};
use pool::stored::read_page;
use std::collections::BTreeMap;

/// The number of bytes that are read at once.
const PIECE_BYTES: usize = 1 << 20;

#[derive(Debug)]
struct Leaf {
    ptr: PagePtr,
    /// The length of the whole page; if it is compressed, it takes less in the file.
    page_bytes: usize,
    birth: CheckpointNo,
    first: Vec<u8>,
    last: Vec<u8>,
    deletes: bool,
}

/// All verified leaves in a file, by table.
#[derive(Debug, Default)]
pub struct Leaves {
    by_table: BTreeMap<TableId, Vec<Leaf>>,
}

/// A function that takes a record and the birth of its leaf.
pub type Visit<'v> = dyn FnMut(CheckpointNo, &[u8], Value<'_>) -> Result<()> + 'v;

impl Leaves {
    /// Searches the whole file. A piece that the disk cannot read is skipped.
    pub fn find(data: Option<&dyn File>, start: &Start) -> Result<Self> {
        let mut leaves = Leaves::default();
        let Some(data) = data else { return Ok(leaves) };
        let sizes: Vec<usize> = match &start.superblock {
            Some(superblock) => vec![superblock.page_bytes],
            None => (0..).map(|n| MIN_PAGE_BYTES << n).take_while(|&size| size <= MAX_PAGE_BYTES).collect(),
        };
        let units = (data.len()? / UNIT_BYTES as u64).min(PagePtr::MAX_UNIT + 1);
        // A page that begins in a piece may extend into the next.
        let mut bytes = vec![0; PIECE_BYTES + MAX_PAGE_BYTES];
        let mut whole = vec![0; MAX_PAGE_BYTES];
        let mut unit = 0;
        while unit < units {
            let read = data.read_at(&mut bytes, unit * UNIT_BYTES as u64).unwrap_or(0);
            for at in (0..PIECE_BYTES).step_by(UNIT_BYTES).take_while(|&at| at < read) {
                let here = unit + (at / UNIT_BYTES) as u64;
                for &size in &sizes {
                    let (stored, whole) = (&bytes[at..read], &mut whole[..size]);
                    if let Some(found) = leaf_at(stored, whole, here, start.database) {
                        leaves.add(found, size);
                    }
                }
            }
            unit += (PIECE_BYTES / UNIT_BYTES) as u64;
        }
        leaves.by_table.values_mut().for_each(|found| found.sort_by(|a, b| a.first.cmp(&b.first)));
        Ok(leaves)
    }

    fn add(&mut self, (ptr, page): (PagePtr, Page<'_>), page_bytes: usize) {
        let Some(table) = page.table().filter(|_| page.kind() == Kind::Leaf && page.count() > 0) else {
            return;
        };
        let (mut first, mut last) = (Vec::new(), Vec::new());
        page.copy_key(0, &mut first);
        page.copy_key(page.count() - 1, &mut last);
        self.by_table.entry(table).or_default().push(Leaf {
            ptr,
            page_bytes,
            birth: page.birth(),
            first,
            last,
            deletes: page.deletes() > 0,
        });
    }

    /// Returns the number of leaves.
    pub fn len(&self) -> usize {
        self.by_table.values().map(Vec::len).sum()
    }

    /// Returns the tables of the leaves.
    pub fn tables(&self) -> impl Iterator<Item = TableId> {
        self.by_table.keys().copied()
    }

    /// Returns whether leaves of `table` hold deletes: then it had several runs.
    pub fn hold_deletes(&self, table: TableId) -> bool {
        self.by_table.get(&table).is_some_and(|leaves| leaves.iter().any(|leaf| leaf.deletes))
    }

    /// Returns the page size.
    pub fn page_bytes(&self) -> Option<usize> {
        self.by_table.values().flatten().map(|leaf| leaf.page_bytes).max()
    }

    /// Passes on the newest version of each key of `table`, in key order. `stacked`: it may have several runs. The
    /// memory is the leaves that overlap at one place.
    pub fn newest(
        &self,
        data: Option<&dyn File>,
        start: &Start,
        table: TableId,
        stacked: bool,
        visit: &mut Visit<'_>,
    ) -> Result<()> {
        let (Some(leaves), Some(data)) = (self.by_table.get(&table), data) else { return Ok(()) };
        let mut waiting = leaves.iter().peekable();
        let mut open: Vec<Open<'_>> = Vec::new();
        loop {
            let next = open.iter().map(|leaf| &leaf.key).min();
            // All leaves that begin at or before the next key are around it.
            if let Some(leaf) = waiting.next_if(|leaf| next.is_none_or(|next| leaf.first <= *next)) {
                open.extend(Open::read(leaf, data, start.database));
                continue;
            }
            let Some(key) = next.cloned() else { return Ok(()) };
            let around = open.iter().filter(|open| !stacked || open.key == key);
            let newest = around.map(|open| open.leaf.birth).max().expect("there is a key");
            let decides = open.iter().find(|open| open.leaf.birth == newest && open.key == key);
            if let Some(open) = decides {
                match Page::trusted(&open.bytes).value(open.at) {
                    Value::Deleted => {}
                    value => visit(newest, &key, value)?,
                }
            }
            open.iter_mut().filter(|open| open.key == key).for_each(Open::advance);
            open.retain(|open| open.leaf.last > key);
        }
    }
}

/// Returns the page at the beginning of `stored`, if it is a leaf of this database that belongs at `unit` and has as
/// many bytes as `whole`, the buffer for decompression.
fn leaf_at<'b>(
    stored: &'b [u8],
    whole: &'b mut [u8],
    unit: u64,
    database: DatabaseId,
) -> Option<(PagePtr, Page<'b>)> {
    let looks_like_one = stored.len() >= UNIT_BYTES && stored[8] == b'P' && stored[10] == 1;
    let compressed_bytes = looks_like_one.then(|| compressed::stored_bytes(stored))?;
    let stored = stored.get(..compressed_bytes.unwrap_or(whole.len()))?;
    let checksum = u64::from_le_bytes(*stored.first_chunk().expect("a unit is longer"));
    if checksum::extent(database, unit, &stored[8..]) != checksum {
        return None;
    }
    let ptr = PagePtr::new(unit, (stored.len() / UNIT_BYTES) as u64, checksum);
    let page = match compressed_bytes {
        Some(_) => Page::decompress(stored, ptr, database, whole),
        None => Page::verify(stored, ptr, database),
    };
    Some((ptr, page.ok()?))
}

/// A leaf that the sweep is in.
struct Open<'l> {
    leaf: &'l Leaf,
    bytes: Vec<u8>,
    at: usize,
    key: Vec<u8>,
}

impl<'l> Open<'l> {
    /// Reads the leaf again; `None` if it has changed.
    fn read(leaf: &'l Leaf, data: &dyn File, database: DatabaseId) -> Option<Self> {
        let mut bytes = vec![0; leaf.page_bytes];
        read_page(data, database, leaf.ptr, &mut bytes).ok()?;
        let key = leaf.first.clone();
        Some(Open { leaf, bytes, at: 0, key })
    }

    fn advance(&mut self) {
        let page = Page::trusted(&self.bytes);
        self.at += 1;
        if self.at < page.count() {
            page.copy_key(self.at, &mut self.key);
        }
    }
}
