//! Reading a page from the file, in whichever form it lies there: as it is, or compressed.

use base::limits::UNIT_BYTES;
use base::{DatabaseId, Error, PagePtr, Result};
use io::File;
use page::Page;
use std::cell::RefCell;

thread_local! {
    /// What a thread reads compressed pages into: less than a page, taken with its first one.
    static STORED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Reads the page that `ptr` names into `bytes`, which is as long as the database's pages, and verifies it. `ptr` may
/// come from a damaged page. A compressed page needs a second buffer, one a thread: less than a page, kept while the
/// thread lives.
///
/// Errors: [`ErrorKind::Corruption`](base::ErrorKind::Corruption) if what is there is not what `ptr` names, or `ptr`
/// cannot be a page's; those of reading. `bytes` are anything then.
pub fn read_page<'b>(
    file: &dyn File,
    database: DatabaseId,
    ptr: PagePtr,
    bytes: &'b mut [u8],
) -> Result<Page<'b>> {
    if ptr.len_bytes() == bytes.len() {
        file.read_exact_at(bytes, ptr.offset_bytes())?;
        return Page::verify(bytes, ptr, database);
    }
    check_length(ptr, bytes.len())?;
    STORED.with_borrow_mut(|stored| {
        stored.resize(ptr.len_bytes(), 0);
        file.read_exact_at(stored, ptr.offset_bytes())?;
        Page::decompress(stored, ptr, database, bytes)
    })
}

/// Refuses a pointer whose length is no page's, compressed or not.
///
/// Errors: [`ErrorKind::Corruption`](base::ErrorKind::Corruption) naming it.
pub fn check_length(ptr: PagePtr, page_bytes: usize) -> Result<()> {
    let most = (page_bytes / UNIT_BYTES) as u64;
    if (1..=most).contains(&ptr.units()) {
        return Ok(());
    }
    let found = ptr.len_bytes();
    Err(Error::corruption(format!(
        "page at {ptr:?} is {found} bytes long, but pages of this database have at most {page_bytes}"
    )))
}
