//! Values too long for a page: each lies in an extent of its own, named by a [`LargeRef`] in the leaf.

use crate::build::Allocate;
use base::limits::{MAX_VALUE_BYTES, UNIT_BYTES};
use base::{Error, PagePtr, Result, checksum};
use page::{LargeRef, Value};
use pool::Pool;

/// Reads a large value, its checksum verified.
///
/// Errors: [`ErrorKind::Corruption`](base::ErrorKind::Corruption) where the length does not fit the extent or the
/// limits (nothing is allocated then), or the bytes are not those that were written.
pub fn read_large(pool: &Pool, large: LargeRef) -> Result<Vec<u8>> {
    pool.read_extent(large.ptr, checked_len(large)?)
}

/// The length of the value, once it is known to fit its extent and the limits.
pub(crate) fn checked_len(large: LargeRef) -> Result<usize> {
    match usize::try_from(large.len_bytes) {
        Ok(len) if len <= large.ptr.len_bytes() && len <= MAX_VALUE_BYTES => Ok(len),
        _ => Err(Error::corruption(format!(
            "large value of {} bytes at {:?}: longer than its extent or than {MAX_VALUE_BYTES} bytes",
            large.len_bytes, large.ptr
        ))),
    }
}

/// Writes `value` to an extent of its own. The last unit is padded with zeros, which the checksum does not cover.
pub(crate) fn write_large(pool: &Pool, space: &mut dyn Allocate, value: &[u8]) -> Result<LargeRef> {
    let units = value.len().div_ceil(UNIT_BYTES) as u64;
    let unit = space.for_value(units)?;
    let ptr = PagePtr::new(unit, units, checksum::extent(pool.database(), unit, value));
    let (whole, rest) = value.split_at(value.len() / UNIT_BYTES * UNIT_BYTES);
    if !whole.is_empty() {
        pool.file().write_at(whole, ptr.offset_bytes())?;
    }
    if !rest.is_empty() {
        let mut last = [0; UNIT_BYTES];
        last[..rest.len()].copy_from_slice(rest);
        pool.file().write_at(&last, ptr.offset_bytes() + whole.len() as u64)?;
    }
    Ok(LargeRef { ptr, len_bytes: value.len() as u64 })
}

/// Bytes of the value itself, wherever it lies.
#[inline]
pub(crate) fn value_bytes(value: Value<'_>) -> u64 {
    match value {
        Value::Inline(bytes) => bytes.len() as u64,
        Value::Large(large) => large.len_bytes,
        Value::Deleted => 0,
    }
}

/// The hash under which a record is conserved: as [`page::Page::record_sum`] counts it.
#[inline]
pub(crate) fn record_hash(key: &[u8], value: Value<'_>) -> u64 {
    match value {
        Value::Inline(bytes) => checksum::record(key, bytes),
        Value::Large(large) => checksum::record(key, &large.encode()),
        Value::Deleted => checksum::record(key, &[]),
    }
}
