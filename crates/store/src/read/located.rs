//! The contents of a key: the bytes of its value, or their place.

use crate::state::ttl::Reading;
use base::{LargeRef, Result};
use page::Value;

/// The contents of a key. The bytes are read only if they are in memory or in a page.
#[derive(Debug)]
pub(crate) enum Located {
    Bytes(Vec<u8>),
    /// A large value, and the length in bytes of the date before it.
    Large(LargeRef, usize),
}

impl Located {
    /// Returns the contents of a record; `None` if it is a delete or has expired.
    pub fn of_value(value: Value<'_>, reading: Reading) -> Result<Option<Located>> {
        match value {
            Value::Inline(stored) => Ok(reading.value(stored)?.map(|value| Located::Bytes(value.to_vec()))),
            Value::Large(large) => Ok(Located::of_large(large.reference(), reading)),
            Value::Deleted => Ok(None),
        }
    }

    /// Returns a value outside the pages, unless it has expired.
    pub fn of_large(large: LargeRef, reading: Reading) -> Option<Located> {
        reading.is_alive(large).then_some(Located::Large(large, reading.front_bytes()))
    }

    /// Returns the length of the value.
    pub fn len_bytes(&self) -> u64 {
        match self {
            Located::Bytes(bytes) => bytes.len() as u64,
            Located::Large(large, front_bytes) => large.len_bytes.saturating_sub(*front_bytes as u64),
        }
    }
}
