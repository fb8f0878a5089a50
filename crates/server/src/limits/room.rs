//! Bounds that requests share: the memory of bodies in both directions, the places of streams, and the number of SQL
//! requests at work.

use crate::config::Limits;
use crate::limits::receive::Reception;
use crate::limits::streams::{StreamPermit, Streams};
use crate::wire::body::{Body, counted};
use crate::wire::problem::{Answer, Problem};
pub use crate::wire::response::FREE_ANSWER_BYTES;
use crate::wire::response::Uncounted;
use axum::http::Response;
use std::sync::Arc;
#[cfg(feature = "sql")]
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The longest record that the contract's form sends as one chunk. Longer records are several chunks.
pub const CHUNK_BYTES: u64 = 64 << 20;

/// The memory, over all streams, of chunks that are read as a whole. It holds at least the longest chunk.
const CHUNKS_KIB: usize = 128 << 10;
const _: () = assert!(CHUNKS_KIB as u64 * 1024 > CHUNK_BYTES + (1 << 20), "and its key");

/// The memory of values that were read as a whole, until their clients have received them.
const RESPONSES_KIB: usize = 256 << 10;
/// Returns how much of that memory a response of this length is counted as.
pub fn kib_of(bytes: usize) -> usize {
    bytes.div_ceil(1024).min(RESPONSES_KIB)
}

/// The largest number of responses that are compressed at a time: 64 MiB, as each encoder takes 2.
#[cfg(feature = "compression")]
const ENCODERS: usize = 32;
/// The largest number of imports that are decoded at a time: 72 MiB, as each decoder takes 9.
#[cfg(feature = "compression")]
const DECODERS: usize = 8;

/// The largest number of SQL requests that wait. Their statements are counted as bodies that are received.
#[cfg(feature = "sql")]
const WAITING_STATEMENTS: usize = 1024;

/// The bounds that requests share.
#[derive(Debug)]
pub struct Room {
    /// The bounds of request bodies.
    pub reception: Reception,
    streams: Arc<Streams>,
    responses: Arc<Semaphore>,
    #[cfg(feature = "compression")]
    encoders: Arc<Semaphore>,
    #[cfg(feature = "compression")]
    decoders: Arc<Semaphore>,
    #[cfg(feature = "sql")]
    turns: Turns,
}

/// The turns of requests that run SQL statements.
#[cfg(feature = "sql")]
#[derive(Debug)]
struct Turns {
    running: Arc<Semaphore>,
    /// Places of requests that wait for their statements to run.
    waiting: Arc<Semaphore>,
    most_running: usize,
    /// The time limits of statements in milliseconds: the usual one, and the longest. They can be renewed.
    usual_ms: AtomicU64,
    most_ms: AtomicU64,
}

impl Room {
    /// Creates the bounds from `limits`, with nothing in use.
    pub fn new(limits: &Limits) -> Self {
        let room = Room {
            reception: Reception::new(limits),
            streams: Streams::new(limits.streams, Arc::new(Semaphore::new(CHUNKS_KIB))),
            responses: Arc::new(Semaphore::new(RESPONSES_KIB)),
            #[cfg(feature = "compression")]
            encoders: Arc::new(Semaphore::new(ENCODERS)),
            #[cfg(feature = "compression")]
            decoders: Arc::new(Semaphore::new(DECODERS)),
            #[cfg(feature = "sql")]
            turns: Turns {
                running: Arc::new(Semaphore::new(limits.statements)),
                waiting: Arc::new(Semaphore::new(WAITING_STATEMENTS)),
                most_running: limits.statements,
                usual_ms: AtomicU64::new(0),
                most_ms: AtomicU64::new(0),
            },
        };
        room.renew(limits);
        room
    }

    /// Changes the limits of bodies and of the time of statements, for those that begin from now on. Memory, and the
    /// numbers of what runs at a time, stay.
    pub fn renew(&self, limits: &Limits) {
        self.reception.renew(limits);
        #[cfg(feature = "sql")]
        {
            let ms = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
            // Relaxed for both: each stands by itself.
            self.turns.usual_ms.store(ms(limits.statement_time), Ordering::Relaxed);
            self.turns.most_ms.store(ms(limits.most_statement_time), Ordering::Relaxed);
        }
    }

    /// Returns the number of streams in progress.
    pub fn streams(&self) -> usize {
        self.streams.count()
    }

    /// Returns a value as the body of a response. A value that is not short is counted until the last of it was sent.
    #[inline]
    pub fn body_of(&self, value: Vec<u8>) -> Answer<Body> {
        Ok(match self.answer_memory(value.len())? {
            Some(memory) => Body::whole(counted(value, memory)),
            None => Body::whole(value),
        })
    }

    /// Counts the body of a response that its handler has not counted, until the last of it was sent. Only the response
    /// to a request that changes nothing may be refused.
    pub fn count(&self, mut response: Response<Body>) -> Answer<Response<Body>> {
        if response.extensions_mut().remove::<Uncounted>().is_some()
            && let Body::Whole(Some(bytes)) = response.body_mut()
            && let Some(memory) = self.answer_memory(bytes.len())?
        {
            *bytes = counted(std::mem::take(bytes), memory);
        }
        Ok(response)
    }

    /// Reserves the memory of a response of that length. A short one is not counted and gets `None`.
    #[inline]
    pub fn answer_memory(&self, bytes: usize) -> Answer<Option<OwnedSemaphorePermit>> {
        if bytes <= FREE_ANSWER_BYTES {
            return Ok(None);
        }
        self.counted_memory(bytes).map(Some)
    }

    /// Reserves the memory of a response, also of a short one.
    pub fn counted_memory(&self, bytes: usize) -> Answer<OwnedSemaphorePermit> {
        let busy =
            |_| Problem::busy("responses that clients have not read yet fill the memory reserved for them");
        Arc::clone(&self.responses).try_acquire_many_owned(kib_of(bytes) as u32).map_err(busy)
    }

    /// Reserves more memory for a response that has grown to `bytes` and has reserved `have_bytes`.
    #[cfg(feature = "sql")]
    pub fn answer_memory_beyond(
        &self,
        have_bytes: usize,
        bytes: usize,
    ) -> Answer<Option<OwnedSemaphorePermit>> {
        let most = RESPONSES_KIB * 1024;
        match bytes.min(most).saturating_sub(have_bytes) {
            more if bytes <= FREE_ANSWER_BYTES || more == 0 => Ok(None),
            more => self.answer_memory(more.max(FREE_ANSWER_BYTES + 1)),
        }
    }

    /// Waits for a place of a stream and returns the right to stream, which lasts until it is dropped.
    pub async fn stream_permit(&self) -> Answer<StreamPermit> {
        self.streams.take().await
    }
}

/// Encoders and decoders have bounds of their own, so that clients that do not read compressed responses take no memory
/// from the responses of others.
#[cfg(feature = "compression")]
impl Room {
    /// Returns the right to compress a response, which lasts until it is dropped; `None` if too many are compressed.
    pub fn encoder_permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.encoders).try_acquire_owned().ok()
    }

    /// Returns the right to decode an import, which lasts until it is dropped.
    ///
    /// # Errors
    /// 503 if too many are decoded.
    pub fn decoder_permit(&self) -> Answer<OwnedSemaphorePermit> {
        let busy = |_| {
            Problem::busy(
                "too many compressed imports are in progress; try again, or send the import uncompressed",
            )
        };
        Arc::clone(&self.decoders).try_acquire_owned().map_err(busy)
    }
}

#[cfg(feature = "sql")]
impl Room {
    /// Waits, for at most `patience`, for the right to run statements, which lasts until it is dropped. Requests wait
    /// in order.
    pub async fn statement_permit(&self, patience: std::time::Duration) -> Answer<OwnedSemaphorePermit> {
        let Turns { running, waiting, most_running, .. } = &self.turns;
        if let Ok(permit) = Arc::clone(running).try_acquire_owned() {
            return Ok(permit);
        }
        let busy = || Problem::busy("the limit of running and waiting SQL requests is reached (--max-sql)");
        let _place = Arc::clone(waiting).try_acquire_owned().map_err(|_| busy())?;
        if *most_running == 0 {
            return Err(busy());
        }
        let permit = tokio::time::timeout(patience, Arc::clone(running).acquire_owned()).await;
        permit.map_err(|_| busy())?.map_err(|_| busy())
    }

    /// Returns the time limit of a request that asks for `asked_ms`.
    ///
    /// # Errors
    /// 400 if that is more than a request can ask for.
    pub fn statement_time(&self, asked_ms: Option<u64>) -> Answer<std::time::Duration> {
        // Relaxed for both: see `renew`.
        let most_ms = self.turns.most_ms.load(Ordering::Relaxed);
        match asked_ms {
            None => Ok(std::time::Duration::from_millis(self.turns.usual_ms.load(Ordering::Relaxed))),
            Some(ms) if ms > 0 && ms <= most_ms => Ok(std::time::Duration::from_millis(ms)),
            Some(_) => Err(Problem::bad_request(format!("`timeout_ms` must be 1 to {most_ms}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::response::{fixed, whole};
    use axum::http::StatusCode;

    #[test]
    fn responses_that_nobody_takes_are_bounded() {
        let room = Room::new(&Limits::default());
        let held: Vec<Body> = (0..1000).map_while(|_| room.body_of(vec![7; 1 << 20]).ok()).collect();
        assert_eq!(held.len(), 256);
        let refused = room.body_of(vec![7; FREE_ANSWER_BYTES + 1]).unwrap_err();
        assert_eq!((refused.status, refused.retry_after_s), (StatusCode::SERVICE_UNAVAILABLE, Some(1)));
        assert!(room.body_of(vec![7; FREE_ANSWER_BYTES]).is_ok(), "a short one is not counted");
        drop(held);
        assert!(room.body_of(vec![7; 1 << 20]).is_ok());
        let held: Vec<_> =
            (0..1000).map_while(|_| room.count(whole("text/plain", vec![7; 1 << 20])).ok()).collect();
        assert_eq!(held.len(), 256);
        assert!(room.count(whole("text/plain", vec![7; FREE_ANSWER_BYTES])).is_ok(), "it is short");
        assert!(room.count(fixed("text/plain", vec![7; 1 << 20])).is_ok(), "it is counted elsewhere");
        drop(held);
        assert!(room.count(whole("text/plain", vec![7; 1 << 20])).is_ok());
    }
}
