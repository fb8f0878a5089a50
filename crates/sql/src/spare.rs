//! Memory that a table keeps for the rows that are written to it.

use rows::Value;
use std::cell::Cell;

/// Memory for a row's values, kept from one row to the next. A clone has its own.
#[derive(Default)]
pub(crate) struct Spare(Cell<Vec<Value<'static>>>);

impl Clone for Spare {
    fn clone(&self) -> Self {
        Spare::default()
    }
}

impl Spare {
    /// Returns the memory, without values.
    #[inline]
    pub fn take<'v>(&self) -> Vec<Value<'v>> {
        self.0.take()
    }

    /// Keeps the memory of `values` and drops its values. Collecting no values of the same size reuses the allocation.
    #[inline]
    pub fn keep(&self, mut values: Vec<Value<'_>>) {
        values.clear();
        self.0.set(values.into_iter().map(|_| Value::Null).collect());
    }
}
