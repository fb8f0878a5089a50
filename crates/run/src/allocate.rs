//! Where new pages and large values get their place in the data file.
//!
//! A builder, and what writes large values, ask an [`Allocate`]: the space map itself, or a caller's own source of
//! units.

use base::Result;
use base::sync::{Mutex, lock};
use space::Space;
use std::cell::RefCell;

/// Where a builder's pages and large values get their room from.
pub trait Allocate {
    /// The first of `units` contiguous units for pages.
    fn for_pages(&mut self, units: u64) -> Result<u64>;
    /// The first of `units` contiguous units for one large value.
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

/// For builders that take their room from the same place by turns.
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
