//! A body of any number of records, in the memory of one batch.
//!
//! A thread that may wait reads a batch, from the key after the last one, in the same snapshot. No thread waits for a
//! slow client. A long value ends its batch, and is read in pieces while it is sent. If it must be a single chunk, it
//! waits for enough memory. An error after the first bytes can only break the body off: the last chunk never arrives,
//! and every client detects that.

use crate::data::engine::{Engine, Kept, Native};
use crate::data::open::Open;
use crate::limits::room::Room;
use crate::limits::streams::StreamPermit;
use crate::send::long_record::{LONG_BYTES, LongRecord};
use crate::send::look_ups::LookUps;
use crate::wire::body::Body as ResponseBody;
use crate::wire::form::Form;
use crate::wire::problem::Answer;
use axum::http::Response;
use bytes::Bytes;
use http_body::{Body, Frame};
use pando::{Error, ErrorKind, Expiry, ReadTables, RecordCursor, Result, Span, Table, ValueReader};
use std::collections::VecDeque;
use std::io::{self, Read};
use std::ops::Bound;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::{JoinHandle, spawn_blocking};

/// The approximate number of bytes that are read at once. A single record may be longer.
const BATCH_BYTES: usize = 128 << 10;
/// The largest number of records in a batch.
const BATCH_RECORDS: usize = 2048;

/// The records of a body, and their order.
#[derive(Clone, Debug)]
pub enum Which {
    /// The records of a span in ascending order.
    Forwards(Span),
    /// The records of a span in descending order.
    Backwards(Span),
    /// The records of some keys, in this order. Absent keys are reported.
    Keys(VecDeque<Vec<u8>>),
}

/// The records that are still to be read.
pub struct Records<E: Engine = Native> {
    snapshot: Kept<E>,
    table: Table,
    which: Which,
    /// Values of the next keys.
    look_ups: LookUps,
    form: Form,
    /// The number of records that may still be read.
    left: u64,
    over: bool,
    /// A handle that keeps the database from being closed or dropped.
    open: Arc<Open<E>>,
}

/// The next part of a body.
#[derive(Debug)]
pub enum Part {
    /// A piece of the body, or with the contract's records a chunk.
    Bytes(Bytes),
    /// A record that is not read yet.
    Long(Box<LongRecord>),
}

/// A batch that is being gathered.
#[derive(Default)]
pub struct Batch {
    bytes: Vec<u8>,
    /// The ends of the records in the bytes.
    cuts: Vec<usize>,
    last_key: Vec<u8>,
    /// A long record after all others.
    long: Option<Box<LongRecord>>,
}

impl Batch {
    fn is_full(&self) -> bool {
        self.bytes.len() >= BATCH_BYTES || self.cuts.len() >= BATCH_RECORDS || self.has_long()
    }

    /// Returns the memory of the records that were read, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether a long record follows the others. No other record can follow it.
    pub fn has_long(&self) -> bool {
        self.long.is_some()
    }

    /// Writes the cursor that continues after the last record.
    pub fn write_cursor(&mut self, form: Form) {
        let out = self.long.as_mut().map_or(&mut self.bytes, |long| long.after());
        form.write_cursor(&self.last_key, out);
    }

    /// Adds the record that `cursor` is on. `life` returns when the entry of a key expires.
    pub fn add<E: Engine>(
        &mut self,
        form: Form,
        cursor: &mut impl RecordCursor,
        life: impl FnOnce(&[u8]) -> Result<Option<Expiry>>,
        open: &Arc<Open<E>>,
    ) -> Result<()> {
        let life = life(cursor.key().unwrap_or_default())?;
        if let Some(cut) = cursor.value_len().and_then(|bytes| form.cut(bytes)) {
            return self.add_cut(form, cursor, cut, life);
        }
        let is_long = form.has_values() && cursor.value_len().is_some_and(|bytes| bytes > LONG_BYTES);
        let reader = if is_long { cursor.value_reader()? } else { None };
        if form.has_values() && reader.is_none() {
            cursor.value()?;
        }
        let key = cursor.key().unwrap_or_default();
        match reader {
            Some(reader) => self.long = Some(Box::new(LongRecord::new(form, key, reader, life, open))),
            None => {
                form.write(key, cursor.current().map(|(_, value)| value), life, &mut self.bytes);
                self.cuts.push(self.bytes.len());
            }
        }
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        Ok(())
    }

    /// Adds the record that `cursor` is on, with the first `cut` bytes of its value. No more of a long value is read.
    fn add_cut(
        &mut self,
        form: Form,
        cursor: &mut impl RecordCursor,
        cut: u64,
        life: Option<Expiry>,
    ) -> Result<()> {
        let len_bytes = cursor.value_len().unwrap_or_default();
        let beginning = match cursor.value_reader()? {
            Some(reader) => read_beginning(reader, cut)?,
            None => cursor.value()?.unwrap_or_default()[..cut as usize].to_vec(),
        };
        let key = cursor.key().unwrap_or_default();
        form.write_cut(key, &beginning, len_bytes, life, &mut self.bytes);
        self.cuts.push(self.bytes.len());
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        Ok(())
    }

    /// Adds the result of looking a key up.
    pub fn add_found<E: Engine>(
        &mut self,
        form: Form,
        key: &[u8],
        found: Option<ValueReader>,
        life: Option<Expiry>,
        open: &Arc<Open<E>>,
    ) -> Result<()> {
        match found {
            Some(reader) if form.cut(reader.len_bytes()).is_some() => {
                let len_bytes = reader.len_bytes();
                let cut = form.cut(len_bytes).unwrap_or_default();
                form.write_cut(key, &read_beginning(reader, cut)?, len_bytes, life, &mut self.bytes);
                self.cuts.push(self.bytes.len());
            }
            Some(reader) if form.has_values() && reader.len_bytes() > LONG_BYTES => {
                self.long = Some(Box::new(LongRecord::new(form, key, reader, life, open)));
            }
            Some(reader) => {
                let value = if form.has_values() { read_all(reader)? } else { Vec::new() };
                form.write(key, Some(&value), life, &mut self.bytes);
                self.cuts.push(self.bytes.len());
            }
            None => {
                form.write_absent(key, &mut self.bytes);
                self.cuts.push(self.bytes.len());
            }
        }
        Ok(())
    }

    /// Returns the parts of the batch in order.
    pub fn into_parts(self, form: Form) -> VecDeque<Part> {
        let (mut rest, mut from) = (Bytes::from(self.bytes), 0);
        let mut parts = VecDeque::new();
        if form.is_apart() {
            let chunk = |cut: usize| Part::Bytes(rest.split_to(cut - std::mem::replace(&mut from, cut)));
            parts.extend(self.cuts.into_iter().map(chunk));
        } else if !rest.is_empty() {
            parts.push_back(Part::Bytes(rest));
        }
        parts.extend(self.long.map(Part::Long));
        parts
    }
}

impl<E: Engine> Records<E> {
    /// Reads the first batch of the records that a snapshot of `open` sees, at most `limit`. Returns the records that
    /// are left, and the batch.
    pub fn begin(
        open: &Arc<Open<E>>,
        table: &Table,
        which: &Which,
        form: Form,
        limit: Option<u64>,
    ) -> Answer<(Self, VecDeque<Part>)> {
        let (left, over) = (limit.unwrap_or(u64::MAX), false);
        E::read(&open.db, |snapshot| {
            let (snapshot, open) = (Kept::new(snapshot), Arc::clone(open));
            let (table, which) = (table.clone(), which.clone());
            let look_ups = LookUps::default();
            let mut records = Records { snapshot, table, which, look_ups, form, left, over, open };
            let first = records.next_batch()?;
            Ok((records, first))
        })
    }

    /// Returns when the entry of `key` expires, if its table has a TTL by key.
    fn life(&self, key: &[u8]) -> Result<Option<Expiry>> {
        if self.table.has_ttl_by_key() {
            E::expiry_at(self.snapshot.get(), &self.table, key)
        } else {
            Ok(None)
        }
    }

    fn read_span(&mut self, span: &Span, forwards: bool, batch: &mut Batch) -> Result<()> {
        let mut cursor = self.snapshot.get().cursor(&self.table, span.clone())?;
        while !batch.is_full() {
            let found = if forwards { cursor.advance()? } else { cursor.retreat()? };
            if !found {
                self.over = true;
                return Ok(());
            }
            if self.left == 0 {
                // There are more records; the cursor continues after the last one.
                batch.write_cursor(self.form);
                self.over = true;
                return Ok(());
            }
            self.left -= 1;
            batch.add(self.form, &mut cursor, |key| self.life(key), &self.open)?;
        }
        // The cursor must name the last record that was sent if the limit is reached here.
        if self.left == 0 {
            let more = if forwards { cursor.advance()? } else { cursor.retreat()? };
            if more {
                batch.write_cursor(self.form);
            }
            self.over = true;
        }
        Ok(())
    }

    fn read_keys(&mut self, mut keys: VecDeque<Vec<u8>>, batch: &mut Batch) -> Result<()> {
        while !batch.is_full() {
            let look_up =
                |keys: &[_], found: &mut _| E::look_up(self.snapshot.get(), &self.table, keys, found);
            let Some((key, found)) = self.look_ups.next(&mut keys, look_up)? else {
                self.over = true;
                break;
            };
            batch.add_found(self.form, &key, found, self.life(&key)?, &self.open)?;
        }
        self.which = Which::Keys(keys);
        Ok(())
    }
}

/// Reads a short value.
pub fn read_all(mut reader: ValueReader) -> Result<Vec<u8>> {
    let mut value = Vec::with_capacity(reader.len_bytes() as usize);
    reader.read_to_end(&mut value).map_err(inward)?;
    Ok(value)
}

/// Reads the first `bytes` of a longer value.
fn read_beginning(mut reader: ValueReader, bytes: u64) -> Result<Vec<u8>> {
    let mut beginning = vec![0; bytes as usize];
    reader.read_exact(&mut beginning).map_err(inward)?;
    Ok(beginning)
}

/// Returns the library's error in an I/O error of a value's reader.
pub fn inward(error: io::Error) -> Error {
    match error.downcast::<Error>() {
        Ok(ours) => ours,
        Err(theirs) => Error::new(ErrorKind::Io, "reading a value failed").caused_by(theirs),
    }
}

/// A source of batches.
pub trait Batches: Send + 'static {
    /// Returns the next batch; it is empty at the end. Reads from the disk.
    fn next_batch(&mut self) -> Result<VecDeque<Part>>;
    /// Returns whether the source is exhausted.
    fn is_over(&self) -> bool;
}

impl<E: Engine> Batches for Records<E> {
    fn next_batch(&mut self) -> Result<VecDeque<Part>> {
        if self.over {
            return Ok(VecDeque::new());
        }
        let mut batch = Batch::default();
        match std::mem::replace(&mut self.which, Which::Keys(VecDeque::new())) {
            Which::Keys(keys) => self.read_keys(keys, &mut batch)?,
            Which::Forwards(span) => {
                self.read_span(&span, true, &mut batch)?;
                // In byte order, the next key after a key is that key with a zero byte appended.
                let mut next = batch.last_key.clone();
                next.push(0);
                let end = span.end().map_or(Bound::Unbounded, Bound::Excluded);
                self.which = Which::Forwards(Span::between(Bound::Included(&next), end));
            }
            Which::Backwards(span) => {
                self.read_span(&span, false, &mut batch)?;
                let start = Bound::Included(span.start());
                self.which = Which::Backwards(Span::between(start, Bound::Excluded(&batch.last_key)));
            }
        }
        Ok(batch.into_parts(self.form))
    }

    fn is_over(&self) -> bool {
        self.over
    }
}

/// A source that yields nothing after the first batch.
pub struct Nothing;

impl Batches for Nothing {
    fn next_batch(&mut self) -> Result<VecDeque<Part>> {
        Ok(VecDeque::new())
    }

    fn is_over(&self) -> bool {
        true
    }
}

/// A body of records.
pub struct RecordsBody<R> {
    state: State<R>,
    ready: VecDeque<Part>,
    /// The place of the stream; `None` if everything was read at the start.
    permit: Option<StreamPermit>,
    /// The memory that is counted for what was read at the start.
    _memory: Option<OwnedSemaphorePermit>,
}

type Failed = Box<dyn std::error::Error + Send + Sync>;
type Memory = Pin<Box<dyn Future<Output = OwnedSemaphorePermit> + Send>>;
type Parts = std::result::Result<VecDeque<Part>, Failed>;

enum State<R> {
    Resting(Box<R>),
    /// Waits for memory, for a record that must be one chunk.
    Waiting(Box<R>, Box<LongRecord>, Memory),
    /// Reads on a thread that may wait. Its result comes before the parts that are ready.
    Reading(JoinHandle<(Box<R>, Parts)>),
    /// Everything was read, and is in memory.
    Sending,
    Over,
}

impl<R: Batches> State<R> {
    fn read(mut records: Box<R>, read: impl FnOnce(&mut R) -> Parts + Send + 'static) -> Self {
        State::Reading(spawn_blocking(move || {
            let parts = read(&mut records);
            (records, parts)
        }))
    }
}

impl<R: Batches> RecordsBody<R> {
    /// Returns a response with `first`, and then the rest of `records`. Without a rest it takes no place of a stream,
    /// so a short response does not wait for slow clients.
    pub async fn response(room: &Room, records: R, first: VecDeque<Part>) -> Answer<Response<ResponseBody>> {
        let read = first.iter().map(|part| match part {
            Part::Bytes(bytes) => Some(bytes.len()),
            Part::Long(_) => None,
        });
        let whole_bytes = read.sum::<Option<usize>>().filter(|_| records.is_over());
        let (permit, memory) = match whole_bytes {
            Some(bytes) => (None, room.answer_memory(bytes)?),
            None => (Some(room.stream_permit().await?), None),
        };
        let place = permit.as_ref().map(StreamPermit::place);
        // Without a rest, the snapshot ends here and not when the client has taken the response.
        let state = match &whole_bytes {
            Some(_) => State::Sending,
            None => State::Resting(Box::new(records)),
        };
        let body = RecordsBody { state, ready: first, permit, _memory: memory };
        let mut response = Response::new(ResponseBody::from(axum::body::Body::new(body)));
        if let Some(place) = place {
            response.extensions_mut().insert(place);
        }
        #[cfg(feature = "compression")]
        if let Some(bytes) = whole_bytes {
            response.extensions_mut().insert(crate::send::compressed::InMemory(bytes));
        }
        Ok(response)
    }
}

impl<R: Batches> Body for RecordsBody<R> {
    type Data = Bytes;
    type Error = Failed;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, Failed>>> {
        let this = self.get_mut();
        if let Some(permit) = &this.permit {
            permit.work();
        }
        loop {
            this.state = match std::mem::replace(&mut this.state, State::Over) {
                State::Over => return Poll::Ready(None),
                State::Sending => match this.ready.pop_front() {
                    Some(Part::Bytes(bytes)) => {
                        this.state = State::Sending;
                        return Poll::Ready(Some(Ok(Frame::data(bytes))));
                    }
                    Some(Part::Long(_)) => unreachable!("a long record is not in memory"),
                    None => return Poll::Ready(None),
                },
                State::Resting(records) => match this.ready.pop_front() {
                    Some(Part::Bytes(bytes)) => {
                        this.state = State::Resting(records);
                        if let Some(permit) = &this.permit {
                            permit.wait_for_client();
                        }
                        return Poll::Ready(Some(Ok(Frame::data(bytes))));
                    }
                    Some(Part::Long(long)) => match long.whole_bytes() {
                        Some(bytes) => {
                            let permit = this.permit.as_ref().expect("a long record has one");
                            State::Waiting(records, long, Box::pin(permit.memory(bytes)))
                        }
                        None => State::read(records, move |_| next_piece(long)),
                    },
                    None if records.is_over() => return Poll::Ready(None),
                    None => State::read(records, |records| Ok(records.next_batch()?)),
                },
                State::Waiting(records, long, mut memory) => match memory.as_mut().poll(context) {
                    Poll::Ready(memory) => State::read(records, move |_| whole(*long, memory)),
                    Poll::Pending => {
                        this.state = State::Waiting(records, long, memory);
                        return Poll::Pending;
                    }
                },
                State::Reading(mut task) => match Pin::new(&mut task).poll(context) {
                    Poll::Ready(done) => {
                        let (records, parts) = done?;
                        let parts = parts.inspect_err(broken_off)?;
                        parts.into_iter().rev().for_each(|part| this.ready.push_front(part));
                        State::Resting(records)
                    }
                    Poll::Pending => {
                        this.state = State::Reading(task);
                        return Poll::Pending;
                    }
                },
            };
        }
    }
}

/// Reads a piece of a long record and returns it with the rest.
fn next_piece(mut long: Box<LongRecord>) -> Parts {
    Ok(match long.next_piece()? {
        Some(piece) => VecDeque::from([Part::Bytes(piece.into()), Part::Long(long)]),
        None => VecDeque::new(),
    })
}

/// Reads a whole long record.
fn whole(long: LongRecord, memory: OwnedSemaphorePermit) -> Parts {
    Ok(VecDeque::from([Part::Bytes(long.read_whole(memory)?)]))
}

fn broken_off(error: &Failed) {
    tracing::warn!(%error, "a range was aborted");
}
