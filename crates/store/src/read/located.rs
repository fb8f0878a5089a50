//! What a key was found to hold: its bytes, or where they lie.

use crate::state::ttl::Reading;
use base::{LargeRef, Result};
use memtable::Found;
use page::Value;
use run::PinnedRecord;

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

    /// What a record of a page says, if there is one.
    pub fn of_record(record: &Option<PinnedRecord>, reading: Reading) -> Result<Option<Located>> {
        record.as_ref().map_or(Ok(None), |record| Located::of_value(record.value(), reading))
    }

    /// What a memtable says.
    pub fn of_found(found: Found<'_>, reading: Reading) -> Result<Option<Located>> {
        match found {
            Found::Value(stored) => Located::of_value(Value::Inline(stored), reading),
            Found::Large(large) => Ok(Located::of_large(large, reading)),
            Found::Deleted => Ok(None),
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
