//! Reads all of a run and checks every rule that it must obey.
//!
//! Pages come from the file itself, not from the pool, which may hold a good copy of a page that has rotted since.
//! Checked are, of each page: its checksum against the pointer, its structure, its level; that its keys lie between
//! the keys of its parent that bound it; that the pointer tells truly whether a large value lies below; and of each
//! large value its checksum. Levels fall by one on every step down, so pointers that lead round in a circle are found.
//!
//! Memory: one page for each level, and one piece of a large value with the list of its pieces.

use crate::descriptor::{MAX_HEIGHT, Run, expect_leaf, expect_level};
use crate::large::Pieces;
use base::{Error, PagePtr, Result};
use page::{LargeRef, Page, Value};
use pool::Pool;

/// What [`Run::check`] found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Pages of records.
    pub leaves: u64,
    /// Pages of pointers.
    pub inner_pages: u64,
    /// Values in extents of their own.
    pub large_values: u64,
    /// Records, counted.
    pub records: u64,
    /// Bytes of keys and values, counted.
    pub bytes: u64,
    /// Bytes in pages that hold nothing.
    pub free_bytes: u64,
}

/// The bounds that a page's ancestors set: `low <= key`, `key < high`.
#[derive(Clone, Copy)]
struct Fences<'k> {
    low: Option<&'k [u8]>,
    high: Option<&'k [u8]>,
}

struct Check<'a> {
    pool: &'a Pool,
    visit: &'a mut dyn FnMut(PagePtr) -> Result<()>,
    report: CheckReport,
    key: Vec<u8>,
    /// Whether leaves may hold deletes.
    deletes: bool,
}

impl Run {
    /// Checks all of the run and counts it. `visit` is given every extent of the run, pages and large values, once
    /// each; compare them with the space map.
    ///
    /// Errors: the first rule that does not hold, as [`ErrorKind::Corruption`](base::ErrorKind::Corruption) naming
    /// the page; whatever reading or `visit` answers.
    pub fn check(&self, pool: &Pool, visit: &mut dyn FnMut(PagePtr) -> Result<()>) -> Result<CheckReport> {
        let mut check =
            Check { pool, visit, report: CheckReport::default(), key: Vec::new(), deletes: self.deletes };
        if usize::from(self.height) > MAX_HEIGHT || (self.height == 0) != self.root.is_none() {
            return Err(Error::corruption(format!(
                "a run of height {} with root {:?}",
                self.height, self.root
            )));
        }
        if let Some((root, level)) = self.top() {
            check.subtree(root, level, Fences { low: None, high: None })?;
        }
        Ok(check.report)
    }
}

impl Check<'_> {
    fn subtree(&mut self, ptr: PagePtr, level: u8, fences: Fences<'_>) -> Result<()> {
        (self.visit)(ptr)?;
        let mut bytes = vec![0; self.pool.page_bytes()];
        if ptr.len_bytes() != bytes.len() {
            return Err(wrong(ptr, &format!("{} bytes long, pages have {}", ptr.len_bytes(), bytes.len())));
        }
        self.pool.file().read_exact_at(&mut bytes, ptr.offset_bytes())?;
        let page = Page::verify(&bytes, ptr, self.pool.database())?;
        expect_level(page, ptr, level)?;
        let claims_large = ptr.flags() & PagePtr::HAS_LARGE != 0;
        if page.has_large() != claims_large {
            return Err(wrong(
                ptr,
                &format!("the pointer's large flag is {claims_large}, the page's is not"),
            ));
        }
        self.report.free_bytes += page.free_bytes() as u64;
        match level {
            0 => expect_leaf(page, ptr, self.deletes).and_then(|()| self.leaf(page, ptr, fences)),
            _ => self.inner(page, ptr, level, fences),
        }
    }

    fn leaf(&mut self, page: Page<'_>, ptr: PagePtr, fences: Fences<'_>) -> Result<()> {
        self.report.leaves += 1;
        for i in 0..page.count() {
            page.copy_key(i, &mut self.key);
            fences.expect(&self.key, ptr)?;
            self.report.records += 1;
            self.report.bytes += self.key.len() as u64;
            match page.value(i) {
                Value::Inline(value) => self.report.bytes += value.len() as u64,
                Value::Large(large) => self.large(large)?,
                Value::Deleted => {}
            }
        }
        Ok(())
    }

    fn large(&mut self, large: LargeRef) -> Result<()> {
        let pieces = Pieces::open(self.pool, large)?;
        pieces.extents().try_for_each(|ptr| (self.visit)(ptr))?;
        let mut buffer = Vec::new();
        (0..pieces.count()).try_for_each(|at| pieces.read(self.pool, at, &mut buffer))?;
        self.report.large_values += 1;
        self.report.bytes += large.len_bytes;
        Ok(())
    }

    fn inner(&mut self, page: Page<'_>, ptr: PagePtr, level: u8, fences: Fences<'_>) -> Result<()> {
        self.report.inner_pages += 1;
        let (mut low_key, mut high_key) = (Vec::new(), Vec::new());
        let mut low = fences.low;
        for i in 0..page.count() {
            let last = i + 1 == page.count();
            if !last {
                page.copy_key(i + 1, &mut high_key);
                fences.expect(&high_key, ptr)?;
            }
            let high = if last { fences.high } else { Some(&high_key[..]) };
            self.subtree(page.child(i), level - 1, Fences { low, high })?;
            std::mem::swap(&mut low_key, &mut high_key);
            low = Some(&low_key);
        }
        Ok(())
    }
}

impl Fences<'_> {
    fn expect(&self, key: &[u8], ptr: PagePtr) -> Result<()> {
        if self.low.is_some_and(|low| key < low) || self.high.is_some_and(|high| key >= high) {
            return Err(wrong(ptr, &format!("key {key:x?} is outside {:x?}..{:x?}", self.low, self.high)));
        }
        Ok(())
    }
}

#[cold]
fn wrong(ptr: PagePtr, what: &str) -> Error {
    Error::corruption(format!("page at {ptr:?}: {what}"))
}
