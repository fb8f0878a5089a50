//! Scans as streams of batches. A batch is read by one job on a thread of the pool, with a cursor of its own: cursors
//! borrow their snapshot, and would keep its pages pinned while the task does something else. Seeking again costs about
//! a microsecond for each batch.

use super::Threads;
use super::pool::Work;
use crate::cursor::Span;
use base::Result;
use futures_core::Stream;
use std::future::{Future, poll_fn};
use std::mem;
use std::ops::Bound;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use store::Table;

/// The records of a batch, in key order: copies of keys and values.
pub type Batch = Vec<(Vec<u8>, Vec<u8>)>;

const USUAL_RECORDS: usize = 1024;
const USUAL_BYTES: usize = 256 << 10;

/// The records of a range of keys in order, as a stream of batches. Each batch has at least one record, and at most
/// 1,024 records and 256 KiB of keys and values, except that a longer record is a batch by itself. An error ends the
/// stream.
///
/// It is a [`futures_core::Stream`], which the crates of the `futures` family extend with adapters.
///
/// ```
/// # futures_executor::block_on(async {
/// # let db = pando::aio::Database::new(pando::Database::builder().in_memory()?)?;
/// # let table = db.run(|db| db.ensure_table("t")).await?;
/// # db.run({ let table = table.clone(); move |db| db.bulk_load(&table, (0..5000u32).map(|n| Ok((n.to_be_bytes(),
/// [])))) }).await?; let mut scan = db.scan(&table, ..)?; let mut count = 0; while let Some(batch) =
/// scan.next_batch().await? { count += batch.len(); } assert_eq!(count, 5000);
/// # Ok::<(), pando::Error>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
#[must_use = "records are read only as the scan is polled"]
pub struct Scan {
    state: State,
    threads: Arc<Threads>,
    most: Most,
}

/// The limits of a batch.
#[derive(Clone, Copy, Debug)]
struct Most {
    records: usize,
    bytes: usize,
}

#[derive(Debug)]
enum State {
    /// No batch is being read.
    Rests(Rest),
    /// A thread is reading the next batch.
    Reads(Work<Result<(Batch, Option<Rest>)>>),
    Ended,
}

/// What is left to be read.
#[derive(Debug)]
struct Rest {
    snapshot: crate::Snapshot,
    table: Table,
    span: Span,
}

impl Scan {
    pub(super) fn new(snapshot: crate::Snapshot, threads: Arc<Threads>, table: Table, span: Span) -> Self {
        let most = Most { records: USUAL_RECORDS, bytes: USUAL_BYTES };
        Scan { state: State::Rests(Rest { snapshot, table, span }), threads, most }
    }

    /// Sets the limits of the following batches: at most `records`, and at most `bytes` of keys and values unless a
    /// single record is longer. A limit of 0 counts as 1.
    pub fn with_limits(mut self, records: usize, bytes: usize) -> Self {
        self.most = Most { records: records.max(1), bytes: bytes.max(1) };
        self
    }

    /// Returns the next batch, or `None` at the end. If its future is dropped, the batch is not lost: the next call
    /// returns it.
    ///
    /// # Errors
    /// As for [`crate::Snapshot::cursor`]. The scan then has ended.
    pub async fn next_batch(&mut self) -> Result<Option<Batch>> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await.transpose()
    }
}

impl Stream for Scan {
    type Item = Result<Batch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Batch>>> {
        let mut work = match mem::replace(&mut self.state, State::Ended) {
            State::Rests(rest) => {
                let most = self.most;
                self.threads.pool.run(move || rest.read(most))
            }
            State::Reads(work) => work,
            State::Ended => return Poll::Ready(None),
        };
        let polled = Pin::new(&mut work).poll(context);
        if polled.is_pending() {
            self.state = State::Reads(work);
        }
        let (batch, rest) = match ready!(polled) {
            Ok(read) => read,
            Err(error) => return Poll::Ready(Some(Err(error))),
        };
        self.state = rest.map_or(State::Ended, State::Rests);
        Poll::Ready((!batch.is_empty()).then_some(Ok(batch)))
    }
}

impl Rest {
    /// Reads the next batch. Returns it with the rest of the scan, if there may be more records.
    fn read(mut self, most: Most) -> Result<(Batch, Option<Self>)> {
        let (mut batch, mut bytes) = (Batch::new(), 0);
        let mut cursor = self.snapshot.cursor(&self.table, self.span.clone())?;
        while let Some((key, value)) = cursor.next()? {
            bytes += key.len() + value.len();
            if batch.len() == most.records || (bytes > most.bytes && !batch.is_empty()) {
                drop(cursor);
                let (last, _) = batch.last().expect("it has as many records as fit");
                self.span = self.span.starting(Bound::Excluded(last));
                return Ok((batch, Some(self)));
            }
            batch.push((key.to_vec(), value.to_vec()));
        }
        Ok((batch, None))
    }
}
