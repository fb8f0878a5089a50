//! The environment of a checkpoint's work on runs: the pool, the reader and the space map.

use crate::allocate::Allocate;
use crate::descriptor::Run;
use crate::drop::retire_subtree;
use crate::large::{adopt_large, retire_large};
use base::limits::UNIT_BYTES;
use base::slots::Reader;
use base::sync::Mutex;
use base::{CheckpointNo, LargeRef, PagePtr, Result};
use page::{PageMut, Value};
use pool::Pool;
use space::Space;
use std::ops::Range;

/// The environment of a checkpoint's work on runs.
#[derive(Clone, Copy)]
pub struct WriteContext<'a> {
    /// The pool, through which pages are read and written.
    pub pool: &'a Pool,
    /// The reader, whose epochs and view protect the pages.
    pub reader: &'a Reader,
    /// The map of the data file.
    pub space: &'a Mutex<Space>,
    /// The checkpoint that writes: later than every published one.
    pub birth: CheckpointNo,
}

impl WriteContext<'_> {
    /// Transfers a value to which the log referred to the checkpoint. Returns what a page has of it, in `buffer`.
    pub fn adopt_large<'b>(&self, large: LargeRef, buffer: &'b mut Vec<u8>) -> Result<Value<'b>> {
        adopt_large(self.pool, self.space, large, buffer)
    }

    /// Retires a large value.
    pub fn retire_large(&self, large: LargeRef) -> Result<()> {
        retire_large(self.pool, self.space, large, self.birth)
    }

    /// Retires what a record held outside its page.
    pub fn retire_value(&self, value: Value<'_>) -> Result<()> {
        match value {
            Value::Large(large) => self.retire_large(large.reference()),
            Value::Inline(_) | Value::Deleted => Ok(()),
        }
    }

    /// Returns the checkpoints that may reach something that is retired without being read, so that its birth is
    /// unknown.
    pub(crate) fn lived(&self) -> Range<CheckpointNo> {
        CheckpointNo(0)..self.birth
    }

    /// Retires a run's pages, and its large values if `values`.
    pub fn retire_run(&self, run: Run, values: bool) -> Result<()> {
        let Some((root, level)) = run.top() else { return Ok(()) };
        let lived = self.lived();
        retire_subtree(self.pool, self.reader, self.space, &lived, root, level, values).map(drop)
    }

    /// Writes a page to a place of its own.
    pub(crate) fn write_page(&self, bytes: &mut [u8]) -> Result<PagePtr> {
        let units = (bytes.len() / UNIT_BYTES) as u64;
        let unit = { self.space }.for_pages(units)?;
        let mut page = PageMut::edit(bytes);
        page.set_birth(self.birth);
        let checksum = page.seal(self.pool.database(), unit);
        let flags = if page.as_page().has_large() { PagePtr::HAS_LARGE } else { 0 };
        let ptr = PagePtr::new(unit, units, checksum).with_flags(flags);
        self.pool
            .file()
            .write_at(bytes, ptr.offset_bytes())
            .map_err(|error| error.within("writing a run"))?;
        self.pool.admit(ptr, bytes);
        Ok(ptr)
    }
}
