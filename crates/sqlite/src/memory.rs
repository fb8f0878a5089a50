//! The memory of cursors, which is kept from one to the next.

use crate::paging::Paging;
use crate::sys::Row;
use pando::LentRun;

/// Zeros after a record: SQLite's decoders of numbers may look a few bytes beyond one that is malformed.
const MARGIN: usize = 16;

/// The lengths of the memory into which records are copied: each is twice as long as the one before.
const LEAST_CHUNK_BYTES: usize = 512;
const MOST_CHUNK_BYTES: usize = 64 << 10;

/// What a cursor needs memory for.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// The rows of the batch, and what keeps their records.
    pub rows: Vec<Row>,
    pub records: Records,
    /// The saved key, where the place has one.
    pub key: Vec<u8>,
    /// The key of the first row of the batch, for indexes.
    pub first_key: Vec<u8>,
    /// The key that is sought.
    pub sought: Vec<u8>,
    /// What is sought beyond the key, in a `WITHOUT ROWID` table.
    pub sought_rest: Vec<u8>,
    /// The first fields of the entries that are read, if others are not.
    pub prefix: Vec<u8>,
    /// How the last stored key began, if it was cut.
    pub group: Vec<u8>,
    /// A key from which on there is none, where the cursor has met one.
    pub beyond: Vec<u8>,
    pub known: Known,
}

impl Memory {
    /// Forgets the batch.
    pub(crate) fn clear_batch(&mut self) {
        self.rows.clear();
        self.records.clear();
    }

    /// Forgets the batch, but not the page in which it ended.
    fn leave_page(&mut self) {
        let page = self.records.take_page(|_| true);
        self.clear_batch();
        self.records.runs.extend(page);
    }

    /// Returns how many bytes it has allocated, apart from the records of a batch that are not in one piece.
    fn bytes(&self) -> usize {
        let Memory { rows, records, key, first_key, sought, sought_rest, prefix, group, beyond, .. } = self;
        let all = [&records.filling, key, first_key, sought, sought_rest, prefix, group, beyond];
        all.map(Vec::capacity).iter().sum::<usize>() + rows.capacity() * size_of::<Row>()
    }

    /// Returns the record of a row of the batch.
    pub(crate) fn record(&self, row: usize) -> &[u8] {
        self.records.get(&self.rows[row])
    }
}

/// What keeps the records of a batch: copies, and pages in which they lie. C has their addresses, so nothing of it
/// moves until the next batch.
#[derive(Debug, Default)]
pub(crate) struct Records {
    /// The memory that copies are appended to. It never grows.
    filling: Vec<u8>,
    /// What was filled before.
    full: Vec<Vec<u8>>,
    full_bytes: usize,
    /// The pages in which others lie.
    runs: Vec<LentRun>,
    /// The record of which the batch had the beginning, read as a whole.
    whole: Option<Whole>,
}

/// A record that was read as a whole, and its row before that.
#[derive(Debug)]
struct Whole {
    bytes: Vec<u8>,
    before: Row,
}

impl Records {
    fn clear(&mut self) {
        self.filling.clear();
        self.full.clear();
        self.full_bytes = 0;
        self.runs.clear();
        self.whole = None;
    }

    /// Returns how many bytes were copied.
    #[inline]
    pub(crate) fn copied_bytes(&self) -> usize {
        self.full_bytes + self.filling.len()
    }

    /// Copies a record, and returns where it is.
    #[inline]
    pub(crate) fn copy(&mut self, record: &[u8]) -> *const u8 {
        if self.filling.capacity() - self.filling.len() < record.len() + MARGIN {
            self.make_room(record.len());
        }
        let at = self.filling.as_ptr().wrapping_add(self.filling.len());
        self.filling.extend_from_slice(record);
        at
    }

    /// Returns a pointer to a record of a page that has `after` bytes after it. A record at the page's end is copied.
    #[inline]
    pub(crate) fn place(&mut self, record: &[u8], after: usize) -> *const u8 {
        if after < MARGIN { self.copy(record) } else { record.as_ptr() }
    }

    #[cold]
    fn make_room(&mut self, bytes: usize) {
        self.end();
        let twice = (2 * self.filling.capacity()).clamp(LEAST_CHUNK_BYTES, MOST_CHUNK_BYTES);
        let wider = Vec::with_capacity(twice.max(bytes + MARGIN));
        let full = std::mem::replace(&mut self.filling, wider);
        if !full.is_empty() {
            self.full_bytes += full.len();
            self.full.push(full);
        }
    }

    /// Puts the zeros after the last copy. There is room for them.
    #[inline]
    pub(crate) fn end(&mut self) {
        if self.filling.capacity() - self.filling.len() >= MARGIN {
            self.filling.extend_from_slice(&[0; MARGIN]);
        }
    }

    /// Keeps a record that was read as a whole for the row at `at`, in place of the one before, whose row has only the
    /// beginning again.
    pub(crate) fn keep_whole(&mut self, rows: &mut [Row], at: usize, record: &[u8]) {
        let mut bytes = self.whole.take().map_or_else(Vec::new, |Whole { bytes, before }| {
            // Rows may have been deleted since, and this one may have been written.
            if let Some(row) = rows.iter_mut().find(|row| row.record == bytes.as_ptr()) {
                *row = before;
            }
            bytes
        });
        bytes.clear();
        bytes.reserve(record.len() + MARGIN);
        bytes.extend_from_slice(record);
        bytes.extend_from_slice(&[0; MARGIN]);
        let before = rows[at];
        rows[at] = Row::whole(before.rowid, bytes.as_ptr(), before.bytes);
        self.whole = Some(Whole { bytes, before });
    }

    /// Returns the record that was read as a whole, if it is that of a row.
    pub(crate) fn whole_mut(&mut self, row: &Row) -> Option<&mut [u8]> {
        let whole = self.whole.as_mut().filter(|whole| whole.bytes.as_ptr() == row.record)?;
        whole.bytes.get_mut(..row.bytes as usize)
    }

    /// Keeps the page in which some records lie.
    pub(crate) fn keep(&mut self, run: LentRun) {
        // Runs of one page, between which there are records of a memtable.
        self.runs.pop_if(|last| std::ptr::eq(last.bytes(), run.bytes()));
        self.runs.push(run);
    }

    /// Returns in how many pages records lie.
    #[inline]
    pub(crate) fn pages(&self) -> usize {
        self.runs.len()
    }

    /// Takes the page in which the batch ended, if `has` finds in it what is to be shown next.
    #[inline]
    pub(crate) fn take_page(&mut self, has: impl FnOnce(&mut LentRun) -> bool) -> Option<LentRun> {
        self.runs.pop_if(has)
    }

    /// Returns the record of a row, or the part of it that is there.
    pub(crate) fn get(&self, row: &Row) -> &[u8] {
        let whole = self.whole.iter().map(|whole| &whole.bytes);
        let copies = self.full.iter().chain([&self.filling]).chain(whole).map(|copies| &copies[..]);
        for bytes in copies.chain(self.runs.iter().map(LentRun::bytes)) {
            let start = row.record.addr().wrapping_sub(bytes.as_ptr().addr());
            if let Some(record) = bytes.get(start..).and_then(|rest| rest.get(..row.here as usize)) {
                return record;
            }
        }
        // A row without a record: `Cursor::new_rowid`.
        &[]
    }
}

/// The memory of cursors that were closed.
#[derive(Debug, Default)]
pub(crate) struct Spare {
    /// Each with its bytes.
    kept: Vec<(Box<Memory>, usize)>,
    bytes: usize,
}

/// What a cursor knows of its tree beside a page and `beyond`, and what the next one may know, until the snapshot ends:
/// a subquery that depends on the rows of a query opens its cursors for each of them.
#[derive(Debug)]
pub(crate) struct Known {
    /// The root of the tree, and whether it is an index, of a cursor that was closed.
    tree: Option<(u32, bool)>,
    /// The version of the tree that the page is of, of a cursor that was closed.
    pub stamp: u64,
    /// The version of the tree in which there is no key from `beyond` on; 0 if that is not known.
    pub beyond_stamp: u64,
    /// The rowid that was sought last.
    pub last_rowid: i64,
    /// Whether a cursor has moved on from the first of equal entries, which then are not read one by one.
    pub is_followed: bool,
    pub paging: Paging,
}

impl Default for Known {
    fn default() -> Known {
        let (tree, stamp, beyond_stamp, paging) = (None, 0, 0, Paging::default());
        Known { tree, stamp, beyond_stamp, last_rowid: i64::MIN, is_followed: false, paging }
    }
}

/// How many cursors' memory is kept, and how many bytes in all: 1,000 idle connections should need little, and a
/// statement that scans a table should find the memory of the one before.
const MOST: usize = 4;
const MOST_BYTES: usize = 64 << 10;

impl Spare {
    /// Returns the memory of the last cursor on the same tree, with what that knew; or else memory of which nothing is
    /// known, or new memory.
    pub(crate) fn take(&mut self, tree: (u32, bool)) -> Box<Memory> {
        let mut found = None;
        for (at, (memory, _)) in self.kept.iter().enumerate() {
            match memory.known.tree {
                None => found = Some(at),
                Some(known) if known == tree => {
                    found = Some(at);
                    break;
                }
                Some(_) => {}
            }
        }
        let Some(at) = found else { return Box::default() };
        let (memory, bytes) = self.kept.swap_remove(at);
        self.bytes -= bytes;
        memory
    }

    /// Keeps the memory of a cursor, in place of another's if there are [`MOST`], unless all that is kept would then be
    /// more than [`MOST_BYTES`]. `of`: the tree of which it knows what stays true, and the batch's version of it.
    pub(crate) fn keep(&mut self, mut memory: Box<Memory>, of: Option<((u32, bool), u64)>) {
        match of {
            Some((tree, stamp)) => {
                (memory.known.tree, memory.known.stamp) = (Some(tree), stamp);
                if memory.records.pages() > 0 { memory.leave_page() } else { memory.clear_batch() }
            }
            None => {
                memory.known = Known::default();
                memory.clear_batch();
            }
        }
        let bytes = memory.bytes();
        if self.kept.len() >= MOST {
            self.bytes -= self.kept.swap_remove(0).1;
        }
        if self.bytes + bytes <= MOST_BYTES {
            self.bytes += bytes;
            self.kept.push((memory, bytes));
        }
    }

    /// Forgets what cursors knew, when the snapshot ends that it is of.
    pub(crate) fn forget_known(&mut self) {
        for (memory, _) in self.kept.iter_mut().filter(|(memory, _)| memory.known.tree.is_some()) {
            memory.known = Known::default();
            if memory.records.pages() > 0 {
                memory.clear_batch();
            }
        }
    }
}
