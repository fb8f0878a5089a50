//! Records as a body that is as long as they are and takes the memory of one batch.
//!
//! A batch is read on a thread that may wait, from the key behind the last one on, in the same snapshot; while a client
//! takes its time no thread waits for it. What fails once the first bytes are sent can only break the body off: the
//! last chunk never comes, and every client notices.

use crate::form::Form;
use bytes::Bytes;
use http_body::{Body, Frame};
use pando::{Error, Result, Snapshot, Span, Table};
use std::collections::VecDeque;
use std::ops::Bound;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinHandle;

/// About so much is read at once; a single record may be longer.
const BATCH_BYTES: usize = 128 << 10;
/// Records of a batch, at most.
const BATCH_RECORDS: usize = 2048;

/// Which records, in which order.
#[derive(Clone, Debug)]
pub enum Which {
    /// Those of a span, from the first on.
    Forwards(Span),
    /// Those of a span, from the last on.
    Backwards(Span),
    /// Those of some keys, one after the other; absent ones are said to be.
    Keys(VecDeque<Vec<u8>>),
}

/// What is still to be read.
pub struct Records {
    snapshot: Snapshot,
    table: Table,
    which: Which,
    form: Form,
    /// How many records there may still be.
    left: u64,
    over: bool,
}

/// What a batch is gathered in.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    /// The ends of the records.
    cuts: Vec<usize>,
    last_key: Vec<u8>,
}

impl Batch {
    fn is_full(&self) -> bool {
        self.bytes.len() >= BATCH_BYTES || self.cuts.len() >= BATCH_RECORDS
    }
}

impl Records {
    /// The records that `snapshot` sees, `limit` at most.
    pub fn new(snapshot: Snapshot, table: Table, which: Which, form: Form, limit: Option<u64>) -> Self {
        Records { snapshot, table, which, form, left: limit.unwrap_or(u64::MAX), over: false }
    }

    /// The next batch, in chunks; none at the end. Reads from the disk.
    pub fn next_batch(&mut self) -> Result<VecDeque<Bytes>> {
        if self.over {
            return Ok(VecDeque::new());
        }
        let mut batch = Batch::default();
        match std::mem::replace(&mut self.which, Which::Keys(VecDeque::new())) {
            Which::Keys(keys) => self.read_keys(keys, &mut batch)?,
            Which::Forwards(span) => {
                self.read_span(&span, true, &mut batch)?;
                // The next key after the last one in byte order is that with a zero behind it.
                batch.last_key.push(0);
                let end = span.end().map_or(Bound::Unbounded, Bound::Excluded);
                self.which = Which::Forwards(Span::between(Bound::Included(&batch.last_key), end));
            }
            Which::Backwards(span) => {
                self.read_span(&span, false, &mut batch)?;
                let start = Bound::Included(span.start());
                self.which = Which::Backwards(Span::between(start, Bound::Excluded(&batch.last_key)));
            }
        }
        Ok(self.chunks(batch))
    }

    fn chunks(&self, batch: Batch) -> VecDeque<Bytes> {
        let mut rest = Bytes::from(batch.bytes);
        if !self.form.is_apart() {
            return if rest.is_empty() { VecDeque::new() } else { VecDeque::from([rest]) };
        }
        let mut from = 0;
        batch.cuts.into_iter().map(|cut| rest.split_to(cut - std::mem::replace(&mut from, cut))).collect()
    }

    fn read_span(&mut self, span: &Span, forwards: bool, batch: &mut Batch) -> Result<()> {
        let mut cursor = self.snapshot.cursor(&self.table, span.clone())?;
        while !batch.is_full() {
            let found = if forwards { cursor.advance()? } else { cursor.retreat()? };
            if !found {
                self.over = true;
                return Ok(());
            }
            if self.left == 0 {
                // There is more, and this is how to go on.
                self.form.write_cursor(&batch.last_key, &mut batch.bytes);
                self.over = true;
                return Ok(());
            }
            self.left -= 1;
            if self.form.has_values() {
                cursor.value()?;
            }
            let value = cursor.current().map(|(_, value)| value);
            let key = cursor.key().unwrap_or_default();
            self.form.write(key, value, &mut batch.bytes);
            batch.cuts.push(batch.bytes.len());
            batch.last_key.clear();
            batch.last_key.extend_from_slice(key);
        }
        // The cursor's key is that of the last record that was sent, should the limit be met right here.
        if self.left == 0 {
            let more = if forwards { cursor.advance()? } else { cursor.retreat()? };
            if more {
                self.form.write_cursor(&batch.last_key, &mut batch.bytes);
            }
            self.over = true;
        }
        Ok(())
    }

    fn read_keys(&mut self, mut keys: VecDeque<Vec<u8>>, batch: &mut Batch) -> Result<()> {
        while !batch.is_full() {
            let Some(key) = keys.pop_front() else {
                self.over = true;
                break;
            };
            match self.snapshot.get(&self.table, &key)? {
                Some(value) => self.form.write(&key, Some(&value), &mut batch.bytes),
                None => self.form.write_absent(&key, &mut batch.bytes),
            }
            batch.cuts.push(batch.bytes.len());
        }
        self.which = Which::Keys(keys);
        Ok(())
    }
}

/// What is read batch by batch.
pub trait Batches: Send + 'static {
    /// The next batch, in chunks; none at the end. Reads from the disk.
    fn next_batch(&mut self) -> Result<VecDeque<Bytes>>;
    /// Whether there is nothing more.
    fn is_over(&self) -> bool;
}

impl Batches for Records {
    fn next_batch(&mut self) -> Result<VecDeque<Bytes>> {
        Records::next_batch(self)
    }

    fn is_over(&self) -> bool {
        self.over
    }
}

/// A body of records.
pub struct RecordsBody<R> {
    state: State<R>,
    ready: VecDeque<Bytes>,
    _permit: OwnedSemaphorePermit,
}

type Read<R> = (Box<R>, Result<VecDeque<Bytes>>);

enum State<R> {
    Resting(Box<R>),
    Reading(JoinHandle<Read<R>>),
    Over,
}

impl<R: Batches> RecordsBody<R> {
    /// `first`, and then the rest of `records`.
    pub fn new(records: R, first: VecDeque<Bytes>, permit: OwnedSemaphorePermit) -> Self {
        RecordsBody { state: State::Resting(Box::new(records)), ready: first, _permit: permit }
    }
}

impl<R: Batches> Body for RecordsBody<R> {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, Self::Error>>> {
        let this = self.get_mut();
        loop {
            if let Some(chunk) = this.ready.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(chunk))));
            }
            match std::mem::replace(&mut this.state, State::Over) {
                State::Over => return Poll::Ready(None),
                State::Resting(records) if records.is_over() => return Poll::Ready(None),
                State::Resting(mut records) => {
                    this.state = State::Reading(tokio::task::spawn_blocking(move || {
                        let batch = records.next_batch();
                        (records, batch)
                    }));
                }
                State::Reading(mut task) => {
                    let Poll::Ready(done) = Pin::new(&mut task).poll(context) else {
                        this.state = State::Reading(task);
                        return Poll::Pending;
                    };
                    let (records, batch) = done?;
                    this.ready = batch.inspect_err(broken_off)?;
                    this.state = State::Resting(records);
                }
            }
        }
    }
}

fn broken_off(error: &Error) {
    tracing::warn!(%error, "a range was broken off");
}
