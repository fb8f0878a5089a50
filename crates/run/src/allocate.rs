//! Allocation of places in the data file for new pages and large values.
//!
//! Builders, and the code that writes large values, ask an [`Allocate`]: the space map itself, or a caller's own source
//! of units.

use base::Result;
use base::sync::{Mutex, lock};
use space::Space;
use std::cell::RefCell;

/// The source of space for a builder's pages and large values.
pub trait Allocate {
    /// Returns the first of `units` contiguous units for pages.
    fn for_pages(&mut self, units: u64) -> Result<u64>;
    /// Returns the first of `units` contiguous units for one large value.
    fn for_value(&mut self, units: u64) -> Result<u64>;
}

impl Allocate for &Mutex<Space> {
    fn for_pages(&mut self, units: u64) -> Result<u64> {
        lock(self).allocate(units)
    }
    fn for_value(&mut self, units: u64) -> Result<u64> {
        lock(self).allocate(units)
    }
}

/// Lets several builders allocate from the same source in turn.
impl<A: Allocate + ?Sized> Allocate for &RefCell<A> {
    fn for_pages(&mut self, units: u64) -> Result<u64> {
        self.borrow_mut().for_pages(units)
    }
    fn for_value(&mut self, units: u64) -> Result<u64> {
        self.borrow_mut().for_value(units)
    }
}

impl<A: Allocate + ?Sized> Allocate for &mut A {
    fn for_pages(&mut self, units: u64) -> Result<u64> {
        (**self).for_pages(units)
    }
    fn for_value(&mut self, units: u64) -> Result<u64> {
        (**self).for_value(units)
    }
}
