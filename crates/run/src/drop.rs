//! Giving up a subtree without reading what need not be read.
//!
//! A page's own pointer suffices to retire it. Inner pages are read for their children's pointers; leaves only if
//! the pointer says that a large value lies below.

use crate::descriptor::expect_level;
use crate::large::retire_large;
use base::slots::Reader;
use base::sync::{Mutex, lock};
use base::{CheckpointNo, PagePtr, Result};
use page::Value;
use pool::Pool;
use space::Space;
use std::ops::Range;

/// Retires the subtree at `ptr`, whose root has `level`, and which no checkpoints but those `lived` reach; answers how
/// many leaves it had. Its large values go too with `values`; without, they belong to another run by now.
pub(crate) fn retire_subtree(
    pool: &Pool,
    reader: &Reader,
    space: &Mutex<Space>,
    lived: &Range<CheckpointNo>,
    ptr: PagePtr,
    level: u8,
    values: bool,
) -> Result<u64> {
    let mut leaves = u64::from(level == 0);
    if level > 0 || (values && ptr.flags() & PagePtr::HAS_LARGE != 0) {
        let pin = pool.pin(reader, ptr)?;
        let page = pin.page();
        expect_level(page, ptr, level)?;
        for i in 0..page.count() {
            if level > 0 {
                leaves += retire_subtree(pool, reader, space, lived, page.child(i), level - 1, values)?;
            } else if let Value::Large(large) = page.value(i) {
                retire_large(pool, space, large, lived.end)?;
            }
        }
    }
    lock(space).retire_born(ptr, lived.start, lived.end)?;
    Ok(leaves)
}
