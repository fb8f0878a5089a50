//! The explained form of [`Run::get`], which records the pages that it reads, and whether they were in memory.

use crate::delta::Delta;
use crate::descriptor::{Run, expect_leaf, expect_level};
use crate::filter::{Probe, may_hold};
use base::env::Stopwatch;
use base::explain::Touched;
use base::slots::Reader;
use base::{ErrorKind, PagePtr, Result};
use page::{Page, Value};
use pool::Pool;

/// The contents of a record, without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outline {
    /// A value in the page, of this many bytes.
    Inline(u64),
    /// A value outside of the pages, of this many bytes.
    Large(u64),
    /// A delete.
    Deleted,
}

impl Run {
    /// Returns what is stored under `key`, as [`Run::get`] finds it. Adds the pages it read to `pages`. The reader must
    /// be in no epoch.
    ///
    /// Errors: as for [`Run::get`].
    pub fn explain(
        &self,
        pool: &Pool,
        reader: &Reader,
        key: &[u8],
        pages: &mut Vec<Touched>,
    ) -> Result<Option<Outline>> {
        let Some((mut ptr, top)) = self.top() else { return Ok(None) };
        for level in (1..=top).rev() {
            ptr = touch(pool, reader, ptr, level, pages, |page| {
                expect_level(page, ptr, level)?;
                Ok(page.child(page.child_for(key)))
            })?;
        }
        touch(pool, reader, ptr, 0, pages, |page| {
            expect_leaf(page, ptr, self.deletes)?;
            let found = page.search(key).ok().map(|at| page.value(at));
            Ok(found.map(|value| match value {
                Value::Inline(value) => Outline::Inline(value.len() as u64),
                Value::Large(large) => Outline::Large(large.reference().len_bytes),
                Value::Deleted => Outline::Deleted,
            }))
        })
    }
}

impl Delta {
    /// Returns whether the filter lets `key` pass. Adds the filter's pages to `pages`, unless the filter is in memory.
    /// The reader must be in no epoch.
    ///
    /// Errors: those of reading the filter.
    pub fn explain_filter(
        &self,
        pool: &Pool,
        reader: &Reader,
        key: &[u8],
        pages: &mut Vec<Touched>,
    ) -> Result<bool> {
        if self.records.root.is_none() {
            return Ok(false);
        }
        let probe = Probe::new(key);
        if let Some(resident) = self.residence.get() {
            return Ok(resident.block(probe).may_hold(probe));
        }
        self.filter.explain(pool, reader, key, pages)?;
        may_hold(&self.filter, pool, &mut reader.enter(), probe)
    }
}

fn touch<T>(
    pool: &Pool,
    reader: &Reader,
    ptr: PagePtr,
    level: u8,
    pages: &mut Vec<Touched>,
    look: impl Fn(Page<'_>) -> Result<T>,
) -> Result<T> {
    let watch = Stopwatch::start();
    let mut entries = 0;
    let mut look_at = |page: Page<'_>| {
        entries = page.count() as u64;
        look(page)
    };
    let at_once = {
        let mut guard = reader.enter().without_waiting();
        pool.read(&mut guard, ptr).map(|page| look_at(page.page()))
    };
    let was_resident = !matches!(&at_once, Err(error) if error.kind() == ErrorKind::WouldWait);
    let found = if was_resident {
        at_once?
    } else {
        let mut guard = reader.enter();
        look_at(pool.read(&mut guard, ptr)?.page())
    };
    let bytes = ptr.len_bytes() as u64;
    pages.push(Touched { unit: ptr.unit(), level, entries, bytes, was_resident, ns: watch.elapsed_ns() });
    found
}
