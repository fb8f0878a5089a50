//! Reading a page from the file, as it is or compressed.

use base::limits::UNIT_BYTES;
use base::{DatabaseId, Error, PagePtr, Result};
use io::File;
use page::Page;
use std::cell::RefCell;

thread_local! {
    /// The thread's buffer for compressed pages: less than a page, allocated with the first one.
    static STORED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Reads the page that `ptr` names into `bytes`, which is as long as the database's pages, and verifies it. `ptr` may
/// come from a damaged page. A compressed page needs a second buffer, one for each thread: less than a page, kept until
/// the thread ends.
///
/// Errors: [`ErrorKind::Corruption`](base::ErrorKind::Corruption) if the bytes in the file are not what `ptr` names, or
/// `ptr` cannot be a page's; those of reading. The contents of `bytes` are undefined then.
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

/// Rejects a pointer whose length is not that of a page, compressed or not.
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
