//! Giving up a whole tree, or a subtree, without reading what need not be read.
//!
//! A page's own pointer suffices to retire it. Inner pages are read for their children's pointers; leaves only if
//! the pointer says that a large value lies below.

use crate::descriptor::{Run, expect_level};
use base::slots::Reader;
use base::{CheckpointNo, PagePtr, Result};
use page::Value;
use pool::Pool;
use space::Space;

/// Retires every page and large value of `run` at checkpoint `at`. Reads its inner pages, and the leaves that hold
/// large values. After an error some of it is retired: revert the space map.
pub fn drop_tree(run: &Run, pool: &Pool, reader: &Reader, space: &mut Space, at: CheckpointNo) -> Result<()> {
    match run.top() {
        Some((root, level)) => retire_subtree(pool, reader, space, at, root, level).map(drop),
        None => Ok(()),
    }
}

/// Retires the subtree at `ptr`, whose root has `level`; answers how many leaves it had.
pub(crate) fn retire_subtree(
    pool: &Pool,
    reader: &Reader,
    space: &mut Space,
    at: CheckpointNo,
    ptr: PagePtr,
    level: u8,
) -> Result<u64> {
    let mut leaves = u64::from(level == 0);
    if level > 0 || ptr.flags() & PagePtr::HAS_LARGE != 0 {
        let pin = pool.pin(reader, ptr)?;
        let page = pin.page();
        expect_level(page, ptr, level)?;
        for i in 0..page.count() {
            if level > 0 {
                leaves += retire_subtree(pool, reader, space, at, page.child(i), level - 1)?;
            } else if let Value::Large(large) = page.value(i) {
                space.retire(large.ptr, at);
            }
        }
    }
    space.retire(ptr, at);
    Ok(leaves)
}
