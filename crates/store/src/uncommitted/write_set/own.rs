//! What the writes of a transaction say about a key, and the large values that they hold.

use crate::uncommitted::large::Unpublished;
use base::LargeRef;
use std::sync::Arc;

/// What a transaction's own writes say about a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Own<'a> {
    /// It has this value.
    Value(&'a [u8]),
    /// It has a value that lies in the data file.
    Large(LargeRef),
    /// It is deleted, whatever the snapshot says.
    Deleted,
}

/// The large values of a transaction, by number; none where one was replaced or rolled back.
#[derive(Debug, Default)]
pub(super) struct LargeValues(Vec<Option<Arc<Unpublished>>>);

impl LargeValues {
    /// Whether none was ever added.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn add(&mut self, value: Arc<Unpublished>) -> usize {
        self.0.push(Some(value));
        self.0.len() - 1
    }

    pub fn get(&self, index: usize) -> &Arc<Unpublished> {
        self.0[index].as_ref().expect("an entry's large value is held")
    }

    /// Releases the value with this number, if there is one: nothing refers to it any more.
    #[inline]
    pub fn release(&mut self, index: Option<usize>) {
        if let Some(index) = index {
            self.0[index] = None;
        }
    }
}
