//! What a key was found to hold: its bytes, or where they lie.

use crate::state::ttl::Reading;
use base::{LargeRef, Result};
use page::Value;

/// What a key was found to hold, its bytes read only if they lay in memory or in a page.
#[derive(Debug)]
pub(crate) enum Located {
    Bytes(Vec<u8>),
    /// The value is what lies behind so many of its bytes: a date.
    Large(LargeRef, usize),
}

impl Located {
    /// What a record says; `None`: that there is none, or it has expired.
    pub fn of_value(value: Value<'_>, reading: Reading) -> Result<Option<Located>> {
        match value {
            Value::Inline(stored) => Ok(reading.value(stored)?.map(|value| Located::Bytes(value.to_vec()))),
            Value::Large(large) => Ok(Located::of_large(large, reading)),
            Value::Deleted => Ok(None),
        }
    }

    /// A value outside the pages.
    pub fn of_large(large: LargeRef, reading: Reading) -> Option<Located> {
        reading.is_alive(large).then_some(Located::Large(large, reading.front_bytes()))
    }

    /// The length of the value.
    pub fn len_bytes(&self) -> u64 {
        match self {
            Located::Bytes(bytes) => bytes.len() as u64,
            Located::Large(large, front_bytes) => large.len_bytes.saturating_sub(*front_bytes as u64),
        }
    }
}
