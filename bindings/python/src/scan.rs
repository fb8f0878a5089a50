//! Iterators over a table, which fetch records in chunks.
//!
//! A chunk is read without the interpreter's lock, into one buffer. The first chunk is small, so that looking at a few
//! records costs little; each further one is twice as long, up to a bound. Between two chunks nothing is kept open:
//! the next one begins after the last key.

use crate::codec::{KeyKind, ValueKind};
use crate::guard::in_use;
use crate::source::{Reads, Source};
use pando::{Result, Span, Table};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use std::mem;
use std::ops::Bound as End;
use std::sync::{Mutex, MutexGuard};

/// The records of the first chunk, and the most of any.
const FIRST_RECORDS: usize = 16;
const MOST_RECORDS: usize = 2048;
/// A chunk ends after so many bytes.
const CHUNK_BYTES: usize = 512 << 10;

/// What an iterator yields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Keys alone: values are not read.
    Keys,
    /// Values alone.
    Values,
    /// Pairs.
    Items,
}

/// Records that were read and not yet handed out.
#[derive(Default)]
struct Chunk {
    bytes: Vec<u8>,
    /// Where each key and each value ends.
    ends: Vec<(usize, usize)>,
    /// How many were handed out, and where the last of these ends.
    taken: usize,
    taken_bytes: usize,
    last_key: Vec<u8>,
}

impl Chunk {
    fn push(&mut self, key: &[u8], rest: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(rest);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((key_end, self.bytes.len()));
    }

    fn is_full(&self, most: usize) -> bool {
        self.ends.len() >= most || self.bytes.len() >= CHUNK_BYTES
    }

    fn take(&mut self) -> Option<(&[u8], &[u8])> {
        let &(key_end, end) = self.ends.get(self.taken)?;
        let start = mem::replace(&mut self.taken_bytes, end);
        self.taken += 1;
        Some((&self.bytes[start..key_end], &self.bytes[key_end..end]))
    }

    /// Reads up to `most` records; `what` says whether values are wanted. Returns whether the span has more.
    fn fill(
        &mut self,
        reads: &dyn Reads,
        table: &Table,
        asked: &Asked,
        span: &Span,
        most: usize,
    ) -> Result<bool> {
        let mut cursor = reads.cursor(table, span.clone())?;
        let has_more = loop {
            if self.is_full(most) {
                break true;
            }
            if asked.what == What::Keys {
                let on = if asked.reverse { cursor.retreat()? } else { cursor.advance()? };
                let Some(key) = cursor.key().filter(|_| on) else { break false };
                self.push(key, b"", b"");
                continue;
            }
            let record = if asked.reverse { cursor.prev()? } else { cursor.next()? };
            let Some((key, value)) = record else { break false };
            self.push(key, b"", value);
            if !asked.reverse && !self.is_full(most) {
                // It shows no more bytes than a page has.
                cursor.run_on(most - self.ends.len(), |key, rest, value| self.push(key, rest, value))?;
            }
        };
        if let Some(&(key_end, _)) = self.ends.last() {
            let start = self.ends.len().checked_sub(2).map_or(0, |before| self.ends[before].1);
            self.last_key = self.bytes[start..key_end].to_vec();
        }
        Ok(has_more)
    }
}

/// What to read, and in which order.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The keys.
    pub span: Span,
    /// Whether the last key comes first.
    pub reverse: bool,
    /// The greatest number of records.
    pub limit: u64,
    /// What is yielded.
    pub what: What,
}

struct State {
    chunk: Chunk,
    rest: Asked,
    next_records: usize,
    has_more: bool,
}

/// An iterator over records in key order.
#[pyclass(frozen, generic, module = "pando._pando")]
pub struct Scan {
    source: Source,
    table: Table,
    key: KeyKind,
    value: ValueKind,
    state: Mutex<State>,
}

impl Scan {
    /// Over the records that `asked` names.
    pub fn new(source: Source, table: Table, (key, value): (KeyKind, ValueKind), asked: Asked) -> Self {
        let has_more = asked.limit > 0;
        let state = State { chunk: Chunk::default(), rest: asked, next_records: FIRST_RECORDS, has_more };
        Scan { source, table, key, value, state: Mutex::new(state) }
    }

    fn lock(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, State>> {
        self.state.try_lock().map_err(|_| in_use(py, "the iterator"))
    }

    /// Sees to it that a record is at hand; false at the end.
    fn ready(&self, py: Python<'_>, state: &mut State) -> PyResult<bool> {
        if state.chunk.taken < state.chunk.ends.len() {
            return Ok(true);
        }
        if !state.has_more {
            return Ok(false);
        }
        let most = state.next_records.min(usize::try_from(state.rest.limit).unwrap_or(usize::MAX));
        let (rest, table) = (&state.rest, &self.table);
        let mut chunk = mem::take(&mut state.chunk);
        chunk.bytes.clear();
        chunk.ends.clear();
        (chunk.taken, chunk.taken_bytes) = (0, 0);
        let (chunk, has_more) = self.source.read(py, move |reads| {
            let has_more = chunk.fill(reads, table, rest, &rest.span, most)?;
            Ok((chunk, has_more))
        })?;
        let count = chunk.ends.len();
        state.rest.limit -= count as u64;
        state.has_more = has_more && state.rest.limit > 0;
        state.rest.span = match state.rest.reverse {
            true => state.rest.span.until(&chunk.last_key),
            false => state.rest.span.starting(End::Excluded(&chunk.last_key)),
        };
        state.next_records = (most * 2).min(MOST_RECORDS);
        state.chunk = chunk;
        Ok(count > 0)
    }

    fn take<'py>(&self, py: Python<'py>, state: &mut State) -> PyResult<Option<Bound<'py, PyAny>>> {
        let what = state.rest.what;
        let Some((key, value)) = state.chunk.take() else { return Ok(None) };
        let taken = match what {
            What::Keys => self.key.decode(py, key)?,
            What::Values => self.value.decode(py, value)?,
            What::Items => {
                PyTuple::new(py, [self.key.decode(py, key)?, self.value.decode(py, value)?])?.into_any()
            }
        };
        Ok(Some(taken))
    }
}

#[pymethods]
impl Scan {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        // Records at hand end with their source, too.
        self.source.check(py)?;
        let mut state = self.lock(py)?;
        match self.ready(py, &mut state)? {
            true => self.take(py, &mut state),
            false => Ok(None),
        }
    }

    /// Raises an exception if what is read has ended, for uses of the records of [`Scan::chunk`].
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.source.check(py)
    }

    /// Returns what the next chunk holds, as a list; an empty one at the end.
    fn chunk<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.source.check(py)?;
        let mut state = self.lock(py)?;
        let taken = PyList::empty(py);
        if self.ready(py, &mut state)? {
            while let Some(one) = self.take(py, &mut state)? {
                taken.append(one)?;
            }
        }
        Ok(taken)
    }
}

/// Counts the keys of a table, a slice at a time, so that Ctrl-C stops it.
pub fn count(py: Python<'_>, source: &Source, table: &Table) -> PyResult<u64> {
    const SLICE: u64 = 1 << 16;
    let (mut total, mut span) = (0, Span::all());
    loop {
        let from = span.clone();
        let (count, last) = source.read(py, move |reads| {
            let mut cursor = reads.cursor(table, from)?;
            let mut count = 0;
            while count < SLICE && cursor.advance()? {
                count += 1;
            }
            Ok((count, cursor.key().map(<[u8]>::to_vec)))
        })?;
        total += count;
        match last {
            Some(last) if count == SLICE => span = span.starting(End::Excluded(&last)),
            _ => return Ok(total),
        }
        py.check_signals()?;
    }
}
