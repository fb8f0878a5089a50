//! Looking many keys up: several with each request to a store, and one by one in the engine.

use crate::data::engine::Engine;
use pando::{ReadTables, Result, Table, ValueReader};
use std::collections::VecDeque;

/// The number of keys of the first request to a store. Nothing is known of their values then.
const FIRST_KEYS: usize = 8;
/// How many times as many keys the next request has at most.
const GROWTH: usize = 4;
/// The bytes of values that a request is meant to return.
const WANTED_BYTES: usize = 1 << 20;

/// Values that were looked up before they were needed.
pub struct LookUps {
    found: VecDeque<Option<ValueReader>>,
    /// The number of keys of the next request.
    next_keys: usize,
}

impl LookUps {
    /// Returns no values yet.
    pub fn new() -> Self {
        LookUps { found: VecDeque::new(), next_keys: FIRST_KEYS }
    }

    /// Takes the next of `keys`, and returns it with its value. Each call gets the keys that the one before has left.
    pub fn next<E: Engine>(
        &mut self,
        reader: &impl ReadTables,
        table: &Table,
        keys: &mut VecDeque<Vec<u8>>,
    ) -> Result<Option<(Vec<u8>, Option<ValueReader>)>> {
        if self.found.is_empty() && !keys.is_empty() {
            if !E::LOOKS_UP_TOGETHER {
                let key = keys.pop_front().unwrap_or_default();
                let found = reader.value_reader(table, &key)?;
                return Ok(Some((key, found)));
            }
            self.request(reader, table, keys.make_contiguous())?;
        }
        let Some(found) = self.found.pop_front() else { return Ok(None) };
        Ok(keys.pop_front().map(|key| (key, found)))
    }

    /// Looks the first of `keys` up. The next request has as many as their values let expect to fit, so that the values
    /// of few requests are long.
    fn request(&mut self, reader: &impl ReadTables, table: &Table, keys: &[Vec<u8>]) -> Result<()> {
        let asked = &keys[..self.next_keys.min(keys.len())];
        let values = reader.multi_get(table, asked)?;
        let bytes: usize = values.iter().flatten().map(Vec::len).sum();
        let fitting = asked.len() * WANTED_BYTES / bytes.max(1);
        self.next_keys = fitting.clamp(1, asked.len() * GROWTH);
        self.found = values.into_iter().map(|value| value.map(ValueReader::of)).collect();
        Ok(())
    }
}
