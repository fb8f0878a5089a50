//! Retiring a subtree without reading pages that need not be read.
//!
//! A page's own pointer suffices to retire it. Inner pages are read for their children's pointers; leaves only if
//! the pointer says that a large value lies below.

use crate::descriptor::expect_level;
use crate::large::retire_large;
use base::limits::UNIT_BYTES;
use base::slots::Reader;
use base::sync::{Mutex, lock};
use base::{CheckpointNo, PagePtr, Result};
use page::Value;
use pool::Pool;
use space::Space;
use std::ops::{AddAssign, Range};

/// The leaves that were removed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Dropped {
    pub leaves: u64,
    /// The units that compressing these leaves saved: see [`Run::saved_units`](crate::Run::saved_units).
    pub saved_units: u64,
}

impl Dropped {
    /// Returns the count of one leaf, at `ptr`.
    pub fn leaf(ptr: PagePtr, page_bytes: usize) -> Self {
        Dropped { leaves: 1, saved_units: saved_units(ptr, page_bytes) }
    }
}

impl AddAssign for Dropped {
    fn add_assign(&mut self, other: Self) {
        self.leaves += other.leaves;
        self.saved_units += other.saved_units;
    }
}

/// Returns the units that the page at `ptr` saves compared with an uncompressed page.
pub(crate) fn saved_units(ptr: PagePtr, page_bytes: usize) -> u64 {
    ((page_bytes / UNIT_BYTES) as u64).saturating_sub(ptr.units())
}

/// Retires the subtree at `ptr`, whose root has `level`, and which only the checkpoints `lived` reach. Returns what
/// leaves it had. With `values` its large values are retired, too; without, they belong to another run by now.
pub(crate) fn retire_subtree(
    pool: &Pool,
    reader: &Reader,
    space: &Mutex<Space>,
    lived: &Range<CheckpointNo>,
    ptr: PagePtr,
    level: u8,
    values: bool,
) -> Result<Dropped> {
    let mut dropped = if level == 0 { Dropped::leaf(ptr, pool.page_bytes()) } else { Dropped::default() };
    if level > 0 || (values && ptr.flags() & PagePtr::HAS_LARGE != 0) {
        let pin = pool.pin(reader, ptr)?;
        let page = pin.page();
        expect_level(page, ptr, level)?;
        for i in 0..page.count() {
            if level > 0 {
                dropped += retire_subtree(pool, reader, space, lived, page.child(i), level - 1, values)?;
            } else if let Value::Large(large) = page.value(i) {
                retire_large(pool, space, large.reference(), lived.end)?;
            }
        }
    }
    lock(space).retire_born(ptr, lived.start, lived.end)?;
    Ok(dropped)
}
