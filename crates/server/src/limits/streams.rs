//! The places of streams: long values, ranges and maintenance in progress.
//!
//! 1. The number of places is fixed (`--max-streams`). A stream has a place from its first piece that does not fit into
//!    one response to its last piece.
//! 2. A stream whose client has received nothing for [`STALLED`] loses its place if another stream wants one. Its
//!    connection is closed, because a stalled client could otherwise block others without limit. While places are free,
//!    a slow client keeps its own.
//! 3. A stream that finds no place waits for at most [`PATIENCE`], among at most [`MOST_WAITING`] others. After that it
//!    gets 503.

use crate::wire::problem::{Answer, Problem};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// How long the client of a stream can receive nothing before the stream may lose its place.
const STALLED: Duration = Duration::from_secs(2);
/// How long a stream waits for a place: longer than it takes to detect a stalled client.
const PATIENCE: Duration = Duration::from_secs(4);
/// How often a waiting stream looks for a stalled one.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The largest number of streams that wait for a place.
const MOST_WAITING: usize = 256;
/// The time of a place whose stream does not wait for its client.
const WORKING: u64 = u64::MAX;

/// All places.
#[derive(Debug)]
pub struct Streams {
    most: usize,
    taken: Mutex<Vec<Arc<Place>>>,
    freed: Notify,
    waiting: AtomicUsize,
    started: Instant,
    chunks: Arc<Semaphore>,
}

/// A taken place.
#[derive(Debug)]
pub struct Place {
    /// When the client last received something, in milliseconds since the start.
    waits_since_ms: AtomicU64,
    is_lost: AtomicBool,
    /// Ends the stream's connection.
    cut: OnceLock<Arc<Notify>>,
}

/// The right to stream.
#[derive(Debug)]
pub struct StreamPermit {
    place: Arc<Place>,
    streams: Arc<Streams>,
}

impl Streams {
    /// Creates the places, all free. `chunks` is the memory of chunks that are read as a whole.
    pub fn new(most: usize, chunks: Arc<Semaphore>) -> Arc<Self> {
        Arc::new(Streams {
            most,
            taken: Mutex::default(),
            freed: Notify::new(),
            waiting: AtomicUsize::new(0),
            started: Instant::now(),
            chunks,
        })
    }

    fn taken(&self) -> MutexGuard<'_, Vec<Arc<Place>>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of taken places.
    pub fn count(&self) -> usize {
        self.taken().len()
    }

    fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    /// Waits for a place and takes it.
    pub async fn take(self: &Arc<Self>) -> Answer<StreamPermit> {
        if let Some(permit) = self.try_take() {
            return Ok(permit);
        }
        let busy =
            || Problem::busy("the limit of long values and ranges in transfer is reached (--max-streams)");
        let before = self.waiting.fetch_add(1, Ordering::SeqCst);
        let _waiting = Waiting(&self.waiting);
        if before >= MOST_WAITING {
            return Err(busy());
        }
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            let _ = timeout(LOOK_EVERY, self.freed.notified()).await;
            if let Some(permit) = self.try_take() {
                return Ok(permit);
            }
        }
        Err(busy())
    }

    fn try_take(self: &Arc<Self>) -> Option<StreamPermit> {
        let place = Arc::new(Place {
            waits_since_ms: AtomicU64::new(WORKING),
            is_lost: AtomicBool::new(false),
            cut: OnceLock::new(),
        });
        let mut taken = self.taken();
        if taken.len() < self.most {
            taken.push(Arc::clone(&place));
        } else {
            // Relaxed: this is an estimate of which stream has waited longest, which orders nothing.
            let waits_since = |place: &Arc<Place>| place.waits_since_ms.load(Ordering::Relaxed);
            let slowest = taken.iter_mut().min_by_key(|place| waits_since(place))?;
            if waits_since(slowest).saturating_add(STALLED.as_millis() as u64) > self.now_ms() {
                return None;
            }
            std::mem::replace(slowest, Arc::clone(&place)).lose();
        }
        drop(taken);
        Some(StreamPermit { place, streams: Arc::clone(self) })
    }
}

struct Waiting<'w>(&'w AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Place {
    fn lose(&self) {
        self.is_lost.store(true, Ordering::SeqCst);
        if let Some(cut) = self.cut.get() {
            cut.notify_one();
        }
    }

    /// Wakes `cut` when the place is lost.
    pub fn cut_by(&self, cut: &Arc<Notify>) {
        let _ = self.cut.set(Arc::clone(cut));
        // Stored by `lose` before it looks for `cut`: one of the two sees the other.
        if self.is_lost.load(Ordering::SeqCst) {
            cut.notify_one();
        }
    }
}

impl StreamPermit {
    /// Takes a place.
    #[cfg(test)]
    pub fn take(streams: &Arc<Streams>) -> Self {
        streams.try_take().unwrap()
    }

    /// Returns the place of this stream.
    pub fn place(&self) -> Arc<Place> {
        Arc::clone(&self.place)
    }

    /// Notes that the client was given something, so that the stream waits for it from now on.
    pub fn wait_for_client(&self) {
        // Relaxed, here and below: see `try_take`.
        self.place.waits_since_ms.store(self.streams.now_ms(), Ordering::Relaxed);
    }

    /// Notes that the client wants more, so that it waits for the stream from now on.
    pub fn work(&self) {
        self.place.waits_since_ms.store(WORKING, Ordering::Relaxed); // Relaxed: as above.
    }

    /// Waits for the memory of a chunk that cannot be sent in pieces.
    pub fn memory(&self, bytes: u64) -> impl Future<Output = OwnedSemaphorePermit> + Send + use<> {
        let (chunks, kib) = (Arc::clone(&self.streams.chunks), bytes.div_ceil(1024) as u32);
        async move { chunks.acquire_many_owned(kib).await.expect("it is never closed") }
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        self.streams.taken().retain(|place| !Arc::ptr_eq(place, &self.place));
        self.streams.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stalled_stream_loses_its_place_and_no_other_does() {
        let streams = Streams::new(2, Arc::new(Semaphore::new(1)));
        let (stalled, working) = (streams.try_take().unwrap(), streams.try_take().unwrap());
        let cut = Arc::new(Notify::new());
        stalled.place().cut_by(&cut);
        stalled.wait_for_client();
        working.work();
        assert!(streams.try_take().is_none(), "it has not stalled for long");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let begun = Instant::now();
        let next = runtime.block_on(streams.take()).unwrap();
        assert!(begun.elapsed() >= STALLED && streams.count() == 2);
        runtime.block_on(async { timeout(Duration::from_secs(20), cut.notified()).await.unwrap() });
        assert_eq!(runtime.block_on(streams.take()).unwrap_err().status.as_u16(), 503);
        drop(stalled);
        assert_eq!(streams.count(), 2, "it had no place any more");
        drop(next);
        assert_eq!(streams.count(), 1);
        // A place that was lost before its connection was registered.
        let late = Arc::new(Notify::new());
        working.place().lose();
        working.place().cut_by(&late);
        runtime.block_on(async { timeout(Duration::from_secs(20), late.notified()).await.unwrap() });
    }
}
