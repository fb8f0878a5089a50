//! Many records, keys or writes as one buffer. Lengths have 32 bits, little-endian.
//!
//! | what | each element |
//! |---|---|
//! | writes | a byte (0 put, 1 delete), length of the key, length of the value, key, value |
//! | keys | length, bytes |
//! | values | length and one, or 0 for none; bytes |
//! | records | length of the key, length of the value, key, value |

use binding::{Failure, Outcome};
use pando::{Result, Table, Transaction};

/// Reads elements from the front of a buffer.
struct Unpacking<'a>(&'a [u8]);

impl<'a> Unpacking<'a> {
    fn take(&mut self, length: usize) -> Outcome<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or_else(cut)?;
        self.0 = rest;
        Ok(taken)
    }

    fn length(&mut self) -> Outcome<usize> {
        let bytes = self.take(4)?.try_into().map_err(|_| cut())?;
        Ok(u32::from_le_bytes(bytes) as usize)
    }
}

#[cold]
fn cut() -> Failure {
    Failure::misuse("a packed buffer ends within an element")
}

/// A write.
pub struct Write<'a> {
    key: &'a [u8],
    /// `None`: the key is deleted.
    value: Option<&'a [u8]>,
}

/// The writes of a buffer.
pub fn writes(bytes: &[u8]) -> Outcome<Vec<Write<'_>>> {
    let mut rest = Unpacking(bytes);
    let mut writes = Vec::new();
    while !rest.0.is_empty() {
        let is_put = rest.take(1)? == [0];
        let (key_length, value_length) = (rest.length()?, rest.length()?);
        let (key, value) = (rest.take(key_length)?, rest.take(value_length)?);
        writes.push(Write { key, value: is_put.then_some(value) });
    }
    Ok(writes)
}

/// Applies writes in their order.
pub fn apply(tx: &mut Transaction, table: &Table, writes: &[Write<'_>]) -> Result<()> {
    writes.iter().try_for_each(|write| match write.value {
        Some(value) => tx.put(table, write.key, value),
        None => tx.delete(table, write.key),
    })
}

/// The keys of a buffer.
pub fn keys(bytes: &[u8]) -> Outcome<Vec<&[u8]>> {
    let mut rest = Unpacking(bytes);
    let mut keys = Vec::new();
    while !rest.0.is_empty() {
        let length = rest.length()?;
        keys.push(rest.take(length)?);
    }
    Ok(keys)
}

fn push_length(to: &mut Vec<u8>, length: usize) -> Outcome<()> {
    let length = u32::try_from(length).map_err(|_| Failure::invalid("a value of 4 GiB or more"))?;
    to.extend_from_slice(&length.to_le_bytes());
    Ok(())
}

/// Appends a value, or that there is none.
pub fn push_value(to: &mut Vec<u8>, value: Option<&[u8]>) -> Outcome<()> {
    push_length(to, value.map_or(0, |value| value.len() + 1))?;
    to.extend_from_slice(value.unwrap_or_default());
    Ok(())
}

/// Appends a record.
pub fn push_record(to: &mut Vec<u8>, key: &[u8], value: &[u8]) -> Outcome<()> {
    push_length(to, key.len())?;
    push_length(to, value.len())?;
    to.extend_from_slice(key);
    to.extend_from_slice(value);
    Ok(())
}
