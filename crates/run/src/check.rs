//! A full check of a run against every rule that it must obey.
//!
//! Pages are read from the file itself, not from the pool, which may hold a good copy of a page that was damaged since.
//! Of each page the check verifies: its checksum against the pointer, its structure, its level; that its keys lie
//! between the keys of its parent that bound it; that the pointer is right about large values below; that it is not
//! newer than its parent, and that no other parent leads to it; and that it names the right table, if it names one. Of
//! each large value it verifies the checksum, and the beginning that its page has. Levels fall by one on every step
//! down, so pointers in a circle are found. An error is reported, and the check continues with everything except what
//! lies below a bad page.
//!
//! Memory: one page for each level, a number for each page, and one piece of a large value with the list of its pieces.

use crate::descriptor::{MAX_HEIGHT, Run, expect_leaf, expect_level};
use crate::large::{Pieces, wrong as wrong_value};
use base::limits::UNIT_BYTES;
use base::{CheckpointNo, Error, PagePtr, Result, TableId};
use page::{LargeRef, Page, Value};
use pool::Pool;
use pool::stored::{check_length, read_page};
use std::collections::HashSet;

/// The result of [`Run::check`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// The number of pages of records.
    pub leaves: u64,
    /// The number of pages of pointers.
    pub inner_pages: u64,
    /// The number of values in extents of their own.
    pub large_values: u64,
    /// The number of records, counted.
    pub records: u64,
    /// The bytes of keys and values, counted.
    pub bytes: u64,
    /// The free bytes in pages.
    pub free_bytes: u64,
    /// The units that compressing the leaves saves: see [`Run::saved_units`].
    pub saved_units: u64,
}

/// Knowledge of a run in addition to its descriptor.
#[derive(Clone, Copy, Debug, Default)]
pub struct Expected {
    /// The table whose records the run holds; `None` allows any table.
    pub table: Option<TableId>,
    /// The newest checkpoint that can have written a page of the run; `None` allows any.
    pub newest: Option<CheckpointNo>,
}

/// The bounds that a page's ancestors set: `low <= key`, `key < high`, and its least age.
#[derive(Clone, Copy)]
struct Fences<'k> {
    low: Option<&'k [u8]>,
    high: Option<&'k [u8]>,
    newest: CheckpointNo,
}

struct Check<'a> {
    pool: &'a Pool,
    visit: &'a mut dyn FnMut(PagePtr) -> Result<()>,
    wrong: &'a mut dyn FnMut(Error) -> Result<()>,
    table: Option<TableId>,
    /// The units of the pages that were read.
    seen: HashSet<u64>,
    report: CheckReport,
    key: Vec<u8>,
    /// Whether leaves may hold deletes.
    deletes: bool,
}

impl Run {
    /// Checks the whole run and counts it. Calls `visit` with every extent of the run, pages and large values, once
    /// each; compare them with the space map.
    ///
    /// Errors: the first rule that does not hold, as [`ErrorKind::Corruption`](base::ErrorKind::Corruption) naming the
    /// page; errors of reading and of `visit`.
    pub fn check(&self, pool: &Pool, visit: &mut dyn FnMut(PagePtr) -> Result<()>) -> Result<CheckReport> {
        self.check_all(pool, Expected::default(), visit, &mut Err)
    }

    /// Checks the whole run and counts it, with additional knowledge, past the first problem. Calls `visit` with every
    /// extent of the run, and `wrong` for each rule that does not hold; continues if that returns `Ok`. An extent to
    /// which two pointers lead is visited twice. For the rules see [`Run::check`].
    ///
    /// Errors: those that `visit` and `wrong` return.
    pub fn check_all(
        &self,
        pool: &Pool,
        expected: Expected,
        visit: &mut dyn FnMut(PagePtr) -> Result<()>,
        wrong: &mut dyn FnMut(Error) -> Result<()>,
    ) -> Result<CheckReport> {
        let (report, key, seen) = (CheckReport::default(), Vec::new(), HashSet::new());
        let Expected { table, newest } = expected;
        let mut check = Check { pool, visit, wrong, table, seen, report, key, deletes: self.deletes };
        if usize::from(self.height) > MAX_HEIGHT || (self.height == 0) != self.root.is_none() {
            let what = format!("a run of height {} with root {:?}", self.height, self.root);
            (check.wrong)(Error::corruption(what))?;
            return Ok(check.report);
        }
        if let Some((root, level)) = self.top() {
            let newest = newest.unwrap_or(CheckpointNo(u64::MAX));
            check.subtree(root, level, Fences { low: None, high: None, newest })?;
        }
        Ok(check.report)
    }
}

impl Check<'_> {
    /// Checks what lies below `ptr`. An error in the page itself ends it, and is returned.
    fn subtree(&mut self, ptr: PagePtr, level: u8, fences: Fences<'_>) -> Result<()> {
        (self.visit)(ptr)?;
        let mut bytes = Vec::new();
        match self.read(ptr, level, fences, &mut bytes) {
            Err(error) => (self.wrong)(error),
            Ok(page) if level == 0 => self.leaf(page),
            Ok(page) => self.inner(page, level, fences),
        }
    }

    /// Reads a page and checks it against all that is known of it.
    fn read<'b>(
        &mut self,
        ptr: PagePtr,
        level: u8,
        fences: Fences<'_>,
        bytes: &'b mut Vec<u8>,
    ) -> Result<Page<'b>> {
        bytes.resize(self.pool.page_bytes(), 0);
        check_length(ptr, bytes.len())?;
        if !self.seen.insert(ptr.unit()) {
            return Err(wrong(ptr, "two parents point to it"));
        }
        let page = read_page(&**self.pool.file(), self.pool.database(), ptr, bytes)?;
        expect_level(page, ptr, level)?;
        if level == 0 {
            expect_leaf(page, ptr, self.deletes)?;
            self.report.saved_units += self.pool.page_bytes() as u64 / UNIT_BYTES as u64 - ptr.units();
        }
        let claims_large = ptr.flags() & PagePtr::HAS_LARGE != 0;
        if page.has_large() != claims_large {
            let what = format!("the pointer's large flag is {claims_large}, the page's is not");
            return Err(wrong(ptr, &what));
        }
        if page.birth() > fences.newest {
            let what = format!("born at checkpoint {}, its parent at {}", page.birth().0, fences.newest.0);
            return Err(wrong(ptr, &what));
        }
        if let (Some(expected), Some(found)) = (self.table, page.table())
            && expected != found
        {
            return Err(wrong(ptr, &format!("a page of {found}, expected one of {expected}")));
        }
        for i in level.min(1).into()..page.count() {
            page.copy_key(i, &mut self.key);
            fences.expect(&self.key, ptr)?;
        }
        self.report.free_bytes += page.free_bytes() as u64;
        Ok(page)
    }

    fn leaf(&mut self, page: Page<'_>) -> Result<()> {
        self.report.leaves += 1;
        for i in 0..page.count() {
            page.copy_key(i, &mut self.key);
            self.report.records += 1;
            self.report.bytes += self.key.len() as u64;
            match page.value(i) {
                Value::Inline(value) => self.report.bytes += value.len() as u64,
                Value::Large(large) => self.large(large.reference(), large.beginning())?,
                Value::Deleted => {}
            }
        }
        Ok(())
    }

    fn large(&mut self, large: LargeRef, beginning: &[u8]) -> Result<()> {
        let pieces = match Pieces::open(self.pool, large) {
            Ok(pieces) => pieces,
            Err(error) => return (self.wrong)(error),
        };
        pieces.extents().try_for_each(|ptr| (self.visit)(ptr))?;
        let mut buffer = Vec::new();
        for at in 0..pieces.count() {
            match pieces.read(self.pool, at, &mut buffer) {
                Ok(()) if at == 0 && !buffer.starts_with(beginning) => {
                    (self.wrong)(wrong_value(large, "its beginning differs from the one in its page"))?;
                }
                read => read.or_else(|error| (self.wrong)(error))?,
            }
        }
        self.report.large_values += 1;
        self.report.bytes += large.len_bytes;
        Ok(())
    }

    fn inner(&mut self, page: Page<'_>, level: u8, fences: Fences<'_>) -> Result<()> {
        self.report.inner_pages += 1;
        let (mut low_key, mut high_key) = (Vec::new(), Vec::new());
        let mut low = fences.low;
        for i in 0..page.count() {
            let last = i + 1 == page.count();
            if !last {
                page.copy_key(i + 1, &mut high_key);
            }
            let high = if last { fences.high } else { Some(&high_key[..]) };
            self.subtree(page.child(i), level - 1, Fences { low, high, newest: page.birth() })?;
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
