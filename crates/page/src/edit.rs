//! Insert, replace, remove.
use crate::{Kind, Page, Value};
use base::{CheckpointNo, DatabaseId, PagePtr};

/// What edits cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EditCounters {
    /// Comparisons, in searches that precede an edit, that had to look into a cell because heads were equal.
    pub key_decodes: u64,
    /// Pages whose cells were moved together to join their free bytes.
    pub compactions: u64,
    /// Allocations that failed although the page's free bytes sufficed; each led to a compaction.
    pub allocator_failures: u64,
    /// Bytes of cells that were moved inside pages and between them.
    pub bytes_moved: u64,
    /// Pages split.
    pub splits: u64,
    /// Pairs of pages merged.
    pub merges: u64,
    /// Moves of entries between siblings.
    pub borrows: u64,
}

/// The page is too full: split it and try again. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

/// A page that may be edited.
pub struct PageMut<'a> {
    pub(crate) bytes: &'a mut [u8],
}

impl<'a> PageMut<'a> {
    /// Makes an empty page of `bytes`.
    pub fn init(bytes: &'a mut [u8], kind: Kind, level: u8, birth: CheckpointNo) -> PageMut<'a> {
        let _ = (kind, level, birth);
        PageMut { bytes }
    }

    /// A trusted page (see [`Page::trusted`]) to edit.
    #[inline]
    pub fn edit(bytes: &'a mut [u8]) -> PageMut<'a> {
        PageMut { bytes }
    }

    /// The page, to read.
    #[inline]
    pub fn as_page(&self) -> Page<'_> {
        Page::trusted(self.bytes)
    }

    /// Inserts into a leaf. `at` is what [`Page::search`] answered for `key`, as `Err`. The key need not share the
    /// prefix.
    pub fn insert(
        &mut self,
        at: usize,
        key: &[u8],
        value: Value<'_>,
        counters: &mut EditCounters,
    ) -> Result<(), NoRoom> {
        let _ = (at, key, value, counters);
        unimplemented!()
    }

    /// Inserts into an inner page, at 1 or behind; at 0 only into an empty page, and then `key` is not stored: entry
    /// 0 has no key.
    pub fn insert_child(
        &mut self,
        at: usize,
        key: &[u8],
        child: PagePtr,
        counters: &mut EditCounters,
    ) -> Result<(), NoRoom> {
        let _ = (at, key, child, counters);
        unimplemented!()
    }

    /// Gives entry `at` of a leaf another value.
    pub fn replace(
        &mut self,
        at: usize,
        value: Value<'_>,
        counters: &mut EditCounters,
    ) -> Result<(), NoRoom> {
        let _ = (at, value, counters);
        unimplemented!()
    }

    /// Points entry `at` of an inner page elsewhere.
    pub fn set_child(&mut self, at: usize, child: PagePtr) {
        let _ = (at, child);
        unimplemented!()
    }

    /// Removes entry `at`. Of an inner page's entry 0: entry 1 takes its place and loses its key.
    pub fn remove(&mut self, at: usize, counters: &mut EditCounters) {
        let _ = (at, counters);
        unimplemented!()
    }

    /// Sets the birth.
    pub fn set_birth(&mut self, birth: CheckpointNo) {
        let _ = birth;
        unimplemented!()
    }

    /// Computes, stores and returns the checksum of the page as it is to lie at `unit`. The last step before writing.
    pub fn seal(&mut self, database: DatabaseId, unit: u64) -> u64 {
        let _ = (database, unit);
        unimplemented!()
    }
}
