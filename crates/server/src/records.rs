//! Records in order, as a body that is as long as they are and takes the memory of one batch.
//!
//! A batch is read on a thread that may wait, from the key behind the last one on, in the same snapshot; while a client
//! takes its time no thread waits for it. What fails once the first bytes are sent can only break the body off: the
//! last chunk never comes, and every client notices.

use bytes::Bytes;
use http_body::{Body, Frame};
use pando::{Error, Snapshot, Span, Table};
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

/// Writes one record as it is sent.
pub type Encode = fn(key: &[u8], value: &[u8], out: &mut Vec<u8>);

/// What is still to be read.
pub struct Records {
    snapshot: Snapshot,
    table: Table,
    start: Vec<u8>,
    end: Option<Vec<u8>>,
    encode: Encode,
    /// Each record is a chunk of its own; else a batch is.
    apart: bool,
    over: bool,
}

impl Records {
    /// The records of `span` as `snapshot` sees them.
    pub fn new(snapshot: Snapshot, table: Table, span: &Span, encode: Encode, apart: bool) -> Self {
        let (start, end) = (span.start().to_vec(), span.end().map(<[u8]>::to_vec));
        Records { snapshot, table, start, end, encode, apart, over: false }
    }

    /// The next batch, in chunks; none at the end. Reads from the disk.
    pub fn next_batch(&mut self) -> Result<VecDeque<Bytes>, Error> {
        let mut chunks = VecDeque::new();
        if self.over {
            return Ok(chunks);
        }
        let end = self.end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let span = Span::between(Bound::Included(&self.start), end);
        let mut cursor = self.snapshot.cursor(&self.table, span)?;
        let (mut batch, mut cuts) = (Vec::with_capacity(BATCH_BYTES / 4), Vec::new());
        let mut last = Vec::new();
        while batch.len() < BATCH_BYTES && cuts.len() < BATCH_RECORDS {
            let Some((key, value)) = cursor.next()? else {
                self.over = true;
                break;
            };
            (self.encode)(key, value, &mut batch);
            cuts.push(batch.len());
            last.clear();
            last.extend_from_slice(key);
        }
        // The next key after `last` in byte order.
        last.push(0);
        self.start = last;
        let mut rest = Bytes::from(batch);
        if self.apart {
            let mut from = 0;
            chunks.extend(cuts.into_iter().map(|cut| rest.split_to(cut - std::mem::replace(&mut from, cut))));
        } else if !rest.is_empty() {
            chunks.push_back(rest);
        }
        Ok(chunks)
    }
}

/// A body of records.
pub struct RecordsBody {
    state: State,
    ready: VecDeque<Bytes>,
    _permit: OwnedSemaphorePermit,
}

type Batch = (Box<Records>, Result<VecDeque<Bytes>, Error>);

enum State {
    Resting(Box<Records>),
    Reading(JoinHandle<Batch>),
    Over,
}

impl RecordsBody {
    /// `first`, and then the rest of `records`.
    pub fn new(records: Records, first: VecDeque<Bytes>, permit: OwnedSemaphorePermit) -> Self {
        RecordsBody { state: State::Resting(Box::new(records)), ready: first, _permit: permit }
    }
}

impl Body for RecordsBody {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = self.get_mut();
        loop {
            if let Some(chunk) = this.ready.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(chunk))));
            }
            match std::mem::replace(&mut this.state, State::Over) {
                State::Over => return Poll::Ready(None),
                State::Resting(records) if records.over => return Poll::Ready(None),
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
                    this.ready =
                        batch.inspect_err(|error| tracing::warn!(%error, "a range was broken off"))?;
                    this.state = State::Resting(records);
                }
            }
        }
    }
}

/// The contract's form: `key`, a line feed, `value`.
pub fn encode_lines(key: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.reserve(key.len() + value.len() + 1);
    out.extend_from_slice(key);
    out.push(b'\n');
    out.extend_from_slice(value);
}
