//! What snapshots, transactions and databases have in common: reads of single keys.

use crate::code::pando_code;
use crate::memory::{self, Array, Buffer, Bytes, Out, Outs, Owned};
use binding::{Failure, Kind, Outcome, Source, Steps};
use pando::{Span, Table};
use std::ffi::{c_int, c_void};
use std::ops::Bound;
use std::ptr;

/// Bytes somewhere in memory.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct pando_bytes {
    /// Where they begin. NULL: there are none.
    pub data: *const c_void,
    /// How many there are.
    pub len: usize,
}

impl pando_bytes {
    /// Bytes that the caller is lent.
    pub(crate) fn lent(bytes: &[u8]) -> Self {
        pando_bytes { data: memory::lent(bytes).cast(), len: bytes.len() }
    }
}

/// No bytes.
pub(crate) const NONE: pando_bytes = pando_bytes { data: ptr::null(), len: 0 };

/// Which keys: those that begin with `prefix`, from `start` on and before `end`. A part whose `data` is NULL sets no
/// limit. `{0}` means every key.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct pando_range {
    /// The beginning that all keys have in common.
    pub prefix: pando_bytes,
    /// The first key.
    pub start: pando_bytes,
    /// The key to stop before.
    pub end: pando_bytes,
    /// Not 0: `start` itself is left out.
    pub excludes_start: c_int,
    /// Not 0: `end` itself is taken in.
    pub includes_end: c_int,
    /// Not 0: a cursor does not read the values, and shows them as empty. It is quicker where values are long. Without
    /// effect elsewhere.
    pub keys_only: c_int,
}

/// Bytes that an array or a range names.
fn named(bytes: &pando_bytes) -> Bytes<'_> {
    // SAFETY: the header demands of arrays and ranges what it demands of bytes that are arguments themselves.
    unsafe { Bytes::new(bytes.data, bytes.len) }
}

/// The span of a range; `None` means every key.
pub(crate) fn span(range: Array<'_, pando_range>) -> Outcome<Span> {
    let Some(range) = range.optional("the range")? else { return Ok(Span::all()) };
    let mut span = match named(&range.prefix).bound()? {
        Some(prefix) => Span::prefix(prefix),
        None => Span::all(),
    };
    if let Some(start) = named(&range.start).bound()? {
        let start = if range.excludes_start != 0 { Bound::Excluded(start) } else { Bound::Included(start) };
        span = span.starting(start);
    }
    if let Some(end) = named(&range.end).bound()? {
        // The next key after `end` in byte order is `end` with a zero byte.
        let end = if range.includes_end != 0 { [end, &[0]].concat() } else { end.to_vec() };
        span = span.until(&end);
    }
    Ok(span)
}

/// The steps of a cursor over a range.
pub(crate) fn steps(source: Source, table: &Table, range: Array<'_, pando_range>) -> Outcome<Steps> {
    let (table, span) = (table.clone(), span(range)?);
    let keys_only = range.optional("the range")?.is_some_and(|range| range.keys_only != 0);
    Ok(if keys_only { Steps::over_keys(source, table, span) } else { Steps::new(source, table, span) })
}

/// Where a copy of a value goes.
pub(crate) struct Copied {
    pub value: Out<*mut c_void>,
    pub value_len: Out<usize>,
}

/// Copies the value of `key` to a new block.
pub(crate) fn get(source: &Source, table: &Table, key: &[u8], to: Copied) -> Outcome<pando_code> {
    let value = to.value.required("value", ptr::null_mut())?;
    let value_len = to.value_len.required("value_len", 0)?;
    let mut copy = None;
    let found = source.read(|reads| {
        reads.get_with(table, key, &mut |bytes| copy = Some((Owned::copy(bytes), bytes.len())))
    })?;
    let Some((owned, length)) = copy.filter(|_| found) else { return Ok(pando_code::PANDO_ABSENT) };
    value.set(owned?.release());
    value_len.set(length);
    Ok(pando_code::PANDO_OK)
}

/// Copies the value of `key` to the caller's buffer, if it fits, and stores its length.
pub(crate) fn get_into(
    source: &Source,
    table: &Table,
    key: &[u8],
    (buffer, value_len): (Buffer, Out<usize>),
) -> Outcome<pando_code> {
    let value_len = value_len.required("value_len", 0)?;
    let buffer = buffer.checked()?;
    let mut filled = None;
    let found = source.read(|reads| {
        reads.get_with(table, key, &mut |bytes| filled = Some((buffer.fill(bytes), bytes.len())))
    })?;
    match filled.filter(|_| found) {
        None => Ok(pando_code::PANDO_ABSENT),
        Some((fits, length)) => {
            value_len.set(length);
            let message = || format!("the value has {length} bytes, more than the buffer");
            if fits { Ok(pando_code::PANDO_OK) } else { Err(Failure::new(Kind::TooSmall, message())) }
        }
    }
}

/// Whether `key` exists.
pub(crate) fn exists(source: &Source, table: &Table, key: &[u8]) -> Outcome<pando_code> {
    let exists = source.read(|reads| reads.contains(table, key))?;
    Ok(if exists { pando_code::PANDO_OK } else { pando_code::PANDO_ABSENT })
}

/// Copies the values of many keys to one block.
pub(crate) fn multi_get(
    source: &Source,
    table: &Table,
    keys: Array<'_, pando_bytes>,
    (values, block): (Outs<pando_bytes>, Out<*mut c_void>),
) -> Outcome<pando_code> {
    let block = block.required("block", ptr::null_mut())?;
    // All of the array is read before the first value is written, as the two may be one array.
    let keys =
        keys.get("the array of keys")?.iter().map(|key| named(key).key()).collect::<Outcome<Vec<_>>>()?;
    let values = values.required("the array of values", NONE)?;
    let mut bytes = Vec::new();
    let mut ends = Vec::with_capacity(keys.len());
    source.read(|reads| {
        for key in &keys {
            let found = reads.get_with(table, key, &mut |value| bytes.extend_from_slice(value))?;
            ends.push(found.then_some(bytes.len()));
        }
        Ok(())
    })?;
    let owned = Owned::copy(&bytes)?;
    let mut start = 0;
    for (index, end) in ends.into_iter().enumerate() {
        let Some(end) = end else { continue };
        values.set(index, pando_bytes { data: owned.pointer(start).cast(), len: end - start });
        start = end;
    }
    block.set(owned.release());
    Ok(pando_code::PANDO_OK)
}
