//! The places of streams: long values, ranges and maintenance under way.
//!
//! 1. There are so many places (`--max-streams`). A stream has one from its first piece that does not fit into one
//!    answer to its last.
//! 2. A stream whose client has taken nothing for [`STALLED`] loses its place to one that wants it: its connection is
//!    closed, as its client would otherwise keep others from being served for as long as it likes. While there are
//!    places, a slow client keeps its own.
//! 3. Who finds no place waits for one, for [`PATIENCE`], among at most [`MOST_WAITING`]; then it gets 503.

use crate::wire::problem::{Answer, Problem};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// A stream whose client takes nothing for so long may lose its place.
const STALLED: Duration = Duration::from_secs(2);
/// How long a stream waits for a place: longer than it takes to find out who has stalled.
const PATIENCE: Duration = Duration::from_secs(4);
/// How often it looks.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// So many wait at a time.
const MOST_WAITING: usize = 256;
/// A place whose stream does not wait for its client.
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

/// One that is taken.
#[derive(Debug)]
pub struct Place {
    /// When its client took something last, in milliseconds since the start.
    waits_since_ms: AtomicU64,
    is_lost: AtomicBool,
    /// What ends its connection.
    cut: OnceLock<Arc<Notify>>,
}

/// The right to stream.
#[derive(Debug)]
pub struct StreamPermit {
    place: Arc<Place>,
    streams: Arc<Streams>,
}

impl Streams {
    /// None is taken yet. `chunks` is the memory of chunks that are read whole.
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

    /// How many are taken.
    pub fn count(&self) -> usize {
        self.taken().len()
    }

    fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    /// A place, as soon as there is one.
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
            // Relaxed: an estimate of who has waited longest, which orders nothing.
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
    /// One of `count` places.
    #[cfg(test)]
    pub fn of(streams: &Arc<Streams>) -> Self {
        streams.try_take().unwrap()
    }

    /// Its place.
    pub fn place(&self) -> Arc<Place> {
        Arc::clone(&self.place)
    }

    /// The client has been given something: from now on the stream waits for it.
    pub fn wait_for_client(&self) {
        // Relaxed, here and below: see `try_take`.
        self.place.waits_since_ms.store(self.streams.now_ms(), Ordering::Relaxed);
    }

    /// The client wants more: from now on it waits for the stream.
    pub fn work(&self) {
        self.place.waits_since_ms.store(WORKING, Ordering::Relaxed); // Relaxed: as above.
    }

    /// The memory of a chunk that cannot be sent piece by piece, as soon as there is so much.
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
        // What was lost before its connection knew of it.
        let late = Arc::new(Notify::new());
        working.place().lose();
        working.place().cut_by(&late);
        runtime.block_on(async { timeout(Duration::from_secs(20), late.notified()).await.unwrap() });
    }
}
