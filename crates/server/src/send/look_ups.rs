//! Looking many keys up: as many with each request to a store as fit a response, and one by one in the engine.

use crate::data::engine::Found;
use pando::{Result, ValueReader};
use std::collections::VecDeque;

/// Values that were looked up before they are needed.
#[derive(Default)]
pub struct LookUps {
    found: Found,
}

impl LookUps {
    /// Takes the next of `keys`, and returns it with its value. `look_up` is called on those that are left if none of
    /// their values is here yet.
    pub fn next(
        &mut self,
        keys: &mut VecDeque<Vec<u8>>,
        look_up: impl FnOnce(&[Vec<u8>], &mut Found) -> Result<()>,
    ) -> Result<Option<(Vec<u8>, Option<ValueReader>)>> {
        if self.found.is_empty() && !keys.is_empty() {
            look_up(keys.make_contiguous(), &mut self.found)?;
        }
        Ok(keys.pop_front().zip(self.found.pop_front()))
    }
}
