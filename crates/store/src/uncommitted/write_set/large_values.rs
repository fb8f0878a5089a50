//! The large values that the writes of a transaction hold.

use crate::uncommitted::large::Unpublished;
use std::sync::Arc;

/// The large values of a transaction, by number; `None` if one was replaced or rolled back.
#[derive(Debug, Default)]
pub(super) struct LargeValues(Vec<Option<Arc<Unpublished>>>);

impl LargeValues {
    /// Returns whether none was ever added.
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

    /// Returns the length of all values together, in bytes.
    pub fn len_bytes(&self) -> u64 {
        self.0.iter().flatten().map(|value| value.large().reference().len_bytes).sum()
    }

    /// Releases the value with this number, if there is one: nothing refers to it.
    #[inline]
    pub fn release(&mut self, index: Option<usize>) {
        if let Some(index) = index {
            self.0[index] = None;
        }
    }
}
