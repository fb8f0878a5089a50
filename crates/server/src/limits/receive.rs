//! Receives request bodies: short ones in memory, long ones in pieces, all within bounds.
//!
//! 1. A body is refused if it declares a length over the limit, or turns out to be longer. The server first discards
//!    what the client has already sent, for a bounded time, because the client may not read a response before. It does
//!    not discard if the client waits for permission to send (`Expect: 100-continue`), or if so much is to come that
//!    the end would not be reached.
//! 2. A body of up to [`WHOLE_BYTES`] is gathered in memory. Beyond a small allowance for each request, that memory is
//!    counted over all clients. When it is used up, the client is asked to retry.
//! 3. A longer body is handed on in pieces: [`Received::Long`].
//! 4. A client that sends nothing for a while is disconnected, and so is one that sends a byte now and then. Each body
//!    has a time budget, which waiting uses up and arriving bytes refill.
//! 5. A body is lent to the handler. If there is a response before the body has ended, the rest is discarded as in 1.
//!    Otherwise the HTTP library would close the connection after the response, and a client that keeps connections
//!    would find that out with its next request.

use crate::config::Limits;
use crate::wire::problem::{Answer, Problem};
use axum::http::header::{CONTENT_RANGE, EXPECT, TRANSFER_ENCODING};
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use std::error::Error as _;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// The longest body that is gathered. Longer values are written in pieces anyway.
pub const WHOLE_BYTES: usize = 1 << 20;
/// The memory that a request may hold without being counted.
const FREE_BYTES: usize = 16 << 10;
/// The step in which memory is counted.
const STEP_BYTES: usize = 16 << 10;
/// The number of bytes that make up for a second of waiting. A client that sends more slowly in the long run is
/// disconnected.
const LEAST_BYTES_A_SECOND: f64 = 256.0;
/// How long a refused body is discarded before the response is sent.
const DISCARD_FOR: Duration = Duration::from_secs(10);

/// A body of a request.
pub type RequestBody = axum::body::Body;

/// Refuses a body before any of it was received.
///
/// # Errors
/// 400 for a coding that is not supported and for a part of a value, 413 for a length over the limit if the client
/// waits for permission to send.
pub fn check_head<B: http_body::Body>(request: &Request<B>, limit_bytes: u64) -> Answer<()> {
    let headers = request.headers();
    let is_known = |coding: &HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"chunked");
    if !headers.get_all(TRANSFER_ENCODING).iter().all(is_known) {
        return Err(Problem::bad_request("the only supported `transfer-encoding` is chunked"));
    }
    // It would be stored in the place of the whole value (RFC 9110, section 14.5).
    if request.method() == Method::PUT && headers.contains_key(CONTENT_RANGE) {
        return Err(Problem::bad_request(
            "a part of a value cannot be put (`content-range`); send the whole value",
        ));
    }
    if headers.contains_key(EXPECT) && request.body().size_hint().lower() > limit_bytes {
        return Err(Problem::too_large(limit_bytes));
    }
    Ok(())
}

/// The memory that a body is counted as, until this is dropped. A short body is not counted.
pub type Counted = Option<OwnedSemaphorePermit>;

/// A body that was received, or its beginning.
#[derive(Debug)]
pub enum Received {
    /// The whole body, and the memory that it is counted as.
    Whole(Bytes, Counted),
    /// The beginning of a body that is not gathered, and the rest that is still to come.
    Long(Bytes, Incoming),
}

/// A body that is being received.
#[derive(Debug)]
pub struct Incoming {
    body: RequestBody,
    received_bytes: u64,
    limit_bytes: u64,
    patience: Patience,
}

/// The time that a client may still keep the server waiting for a body. What arrives extends it.
#[derive(Debug)]
pub struct Patience {
    most: Duration,
    left: Duration,
}

impl Patience {
    fn new(most: Duration) -> Self {
        Patience { most, left: most }
    }

    /// Notes that the client sent `bytes` bytes after the server has `waited` for them. Returns whether time is left.
    pub fn note(&mut self, waited: Duration, bytes: usize) -> bool {
        let left = self.left.checked_sub(waited);
        let earned = Duration::from_secs_f64(bytes as f64 / LEAST_BYTES_A_SECOND);
        self.left = (left.unwrap_or_default() + earned).min(self.most);
        left.is_some()
    }
}

/// The error of an encoded body that arrives too slowly.
#[derive(Debug)]
pub struct TooSlow;

impl std::fmt::Display for TooSlow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("it arrives too slowly")
    }
}

impl std::error::Error for TooSlow {}

/// The bounds of request bodies.
#[derive(Debug)]
pub struct Reception {
    memory: Arc<Semaphore>,
    /// The limits of a body, of an import, and of the time that a body keeps the server waiting. They can be renewed.
    body_bytes: AtomicU64,
    import_bytes: AtomicU64,
    patience_ms: AtomicU64,
}

impl Reception {
    /// Creates the bounds from `limits`.
    pub fn new(limits: &Limits) -> Self {
        let steps = limits.receiving_bytes.div_ceil(STEP_BYTES).max(WHOLE_BYTES / STEP_BYTES);
        let reception = Reception {
            memory: Arc::new(Semaphore::new(steps)),
            body_bytes: AtomicU64::new(0),
            import_bytes: AtomicU64::new(0),
            patience_ms: AtomicU64::new(0),
        };
        reception.renew(limits);
        reception
    }

    /// Changes the limits of bodies that are received from now on. The memory for all bodies stays.
    pub fn renew(&self, limits: &Limits) {
        // Relaxed for all: each stands by itself.
        self.body_bytes.store(limits.body_bytes, Ordering::Relaxed);
        self.import_bytes.store(limits.import_bytes, Ordering::Relaxed);
        let patience_ms = limits.body_timeout.as_millis() as u64;
        self.patience_ms.store(patience_ms, Ordering::Relaxed); // Relaxed: as above.
    }

    /// Returns the limit of an import.
    #[cfg(feature = "compression")]
    pub fn import_bytes(&self) -> u64 {
        self.import_bytes.load(Ordering::Relaxed) // Relaxed: see `renew`.
    }

    /// Returns how long a client may keep the server waiting for one body.
    pub fn patience(&self) -> Patience {
        // Relaxed: see `renew`.
        Patience::new(Duration::from_millis(self.patience_ms.load(Ordering::Relaxed)))
    }

    /// Receives a body, up to `limit_bytes` and to the server's own limit.
    pub async fn receive(&self, body: RequestBody, limit_bytes: u64) -> Answer<Received> {
        let most_bytes = self.body_bytes.load(Ordering::Relaxed); // Relaxed: see `renew`.
        self.receive_up_to(body, limit_bytes.min(most_bytes)).await
    }

    /// Receives the body of an import, which has a limit of its own.
    pub async fn receive_import(&self, body: RequestBody) -> Answer<Received> {
        let most_bytes = self.import_bytes.load(Ordering::Relaxed); // Relaxed: see `renew`.
        self.receive_up_to(body, most_bytes).await
    }

    async fn receive_up_to(&self, body: RequestBody, limit_bytes: u64) -> Answer<Received> {
        let hint = body.size_hint();
        // Relaxed: see `renew`.
        let mut incoming = Incoming { body, received_bytes: 0, limit_bytes, patience: self.patience() };
        if hint.lower() > limit_bytes {
            if hint.lower() <= incoming.most_discarded() {
                incoming.discard().await;
            }
            return Err(Problem::too_large(limit_bytes));
        }
        if hint.lower() > WHOLE_BYTES as u64 {
            return Ok(Received::Long(Bytes::new(), incoming));
        }
        let mut counted: Counted = None;
        let Some(first) = incoming.next().await? else { return Ok(Received::Whole(Bytes::new(), None)) };
        // A short body usually arrives in one piece. Its length alone does not say that the client has ended it.
        if incoming.body.is_end_stream() && first.len() <= FREE_BYTES {
            return Ok(Received::Whole(first, None));
        }
        let mut gathered = BytesMut::from(&first[..]);
        loop {
            if gathered.len() > WHOLE_BYTES {
                return Ok(Received::Long(gathered.freeze(), incoming));
            }
            self.count(&mut counted, gathered.len())?;
            match incoming.next().await? {
                Some(piece) => gathered.extend_from_slice(&piece),
                None => return Ok(Received::Whole(gathered.freeze(), counted)),
            }
        }
    }

    /// Receives a body that must be in memory as a whole, JSON for example. Keep the returned permit as long as what is
    /// made of the body.
    pub async fn receive_whole(&self, body: RequestBody, limit_bytes: usize) -> Answer<(Bytes, Counted)> {
        debug_assert!(limit_bytes <= WHOLE_BYTES);
        match self.receive(body, limit_bytes as u64).await? {
            Received::Whole(bytes, counted) => Ok((bytes, counted)),
            Received::Long(_, mut rest) => {
                rest.discard().await;
                Err(Problem::too_large(limit_bytes as u64))
            }
        }
    }

    /// Receives the rest of a long body into memory, which is counted.
    #[cfg(feature = "remote")]
    pub async fn gather(&self, begin: Bytes, mut rest: Incoming) -> Answer<(Bytes, Counted)> {
        let (mut gathered, mut counted) = (BytesMut::from(begin), None);
        while let Some(piece) = rest.next().await? {
            gathered.extend_from_slice(&piece);
            if let Err(busy) = self.count(&mut counted, gathered.len()) {
                drop((gathered, counted));
                rest.discard().await;
                return Err(busy);
            }
        }
        Ok((gathered.freeze(), counted))
    }

    fn count(&self, counted: &mut Counted, bytes: usize) -> Answer<()> {
        let have = counted.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let wanted = bytes.saturating_sub(FREE_BYTES).div_ceil(STEP_BYTES);
        if wanted <= have {
            return Ok(());
        }
        let busy = |_| Problem::busy("the bodies of other requests fill the memory reserved for them");
        let more = Arc::clone(&self.memory).try_acquire_many_owned((wanted - have) as u32).map_err(busy)?;
        match counted {
            Some(counted) => counted.merge(more),
            None => *counted = Some(more),
        }
        Ok(())
    }
}

impl Incoming {
    /// Returns the next piece; `None` at the end.
    pub async fn next(&mut self) -> Answer<Option<Bytes>> {
        loop {
            let begun = Instant::now();
            let frame = match timeout(self.patience.left, self.body.frame()).await {
                Ok(None) => return Ok(None),
                Ok(Some(Ok(frame))) => frame,
                Ok(Some(Err(error))) if error.source().is_some_and(|cause| cause.is::<TooSlow>()) => {
                    return Err(too_slow());
                }
                Ok(Some(Err(error))) => {
                    return Err(Problem::bad_request(format!("the body could not be received: {error}")));
                }
                Err(_) => return Err(too_slow()),
            };
            // Trailers carry nothing that the server uses.
            let Ok(piece) = frame.into_data() else { continue };
            self.received_bytes += piece.len() as u64;
            // Only the client's time counts. A piece that arrived while the request waited for its place is there at
            // once.
            self.patience.note(begun.elapsed(), piece.len());
            if self.received_bytes > self.limit_bytes {
                self.discard().await;
                return Err(Problem::too_large(self.limit_bytes));
            }
            return Ok(Some(piece));
        }
    }

    /// Returns how many bytes are discarded at most.
    fn most_discarded(&self) -> u64 {
        most_discarded(self.limit_bytes)
    }

    /// Discards what still arrives, for a bounded time and up to about the limit once more.
    pub async fn discard(&mut self) {
        let most = self.most_discarded();
        discard(&mut self.body, most).await;
    }
}

#[cold]
fn too_slow() -> Problem {
    let detail = "the body was not received in time: it arrives too slowly";
    Problem::new(StatusCode::REQUEST_TIMEOUT, "timeout", detail)
}

fn most_discarded(limit_bytes: u64) -> u64 {
    limit_bytes.max(WHOLE_BYTES as u64).saturating_mul(2)
}

async fn discard<B: Body<Data = Bytes> + Unpin>(body: &mut B, most: u64) {
    let mut discarded = 0;
    let all = async {
        while let Some(Ok(frame)) = body.frame().await {
            discarded += frame.data_ref().map_or(0, Bytes::len) as u64;
            if discarded > most {
                break;
            }
        }
    };
    let _ = timeout(DISCARD_FOR, all).await;
}

/// Returns whether the server reads the rest of a body before it sends this status. The code for 408 and 413 has
/// already done so.
pub fn is_to_be_heard(status: StatusCode) -> bool {
    ![StatusCode::REQUEST_TIMEOUT, StatusCode::PAYLOAD_TOO_LARGE].contains(&status)
}

/// Discards a body, up to twice the limit, unless it declares a longer length.
pub async fn throw_away<B: Body<Data = Bytes> + Unpin>(mut body: B, limit_bytes: u64) {
    let most = most_discarded(limit_bytes);
    if body.size_hint().lower() <= most {
        discard(&mut body, most).await;
    }
}

/// A body that is lent to the handler. The unread rest is returned.
struct Lent<B: Body + Unpin> {
    body: Option<B>,
    back: Arc<Mutex<Option<B>>>,
}

/// The unread rest of a lent body.
pub struct Left<B>(Option<Arc<Mutex<Option<B>>>>);

/// Lends a body. The rest is not returned if the client waits for permission to send.
pub fn lend<B>(body: B, headers: &HeaderMap) -> (RequestBody, Left<B>)
where
    B: Body<Data = Bytes> + Unpin + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if body.is_end_stream() || headers.contains_key(EXPECT) {
        return (RequestBody::new(body), Left(None));
    }
    let back = Arc::new(Mutex::new(None));
    (RequestBody::new(Lent { body: Some(body), back: Arc::clone(&back) }), Left(Some(back)))
}

impl<B> Left<B> {
    /// Returns the body if it was not read to its end.
    pub fn take(self) -> Option<B> {
        self.0?.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<B: Body + Unpin> Body for Lent<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.get_mut();
        let Some(body) = &mut this.body else { return Poll::Ready(None) };
        let polled = Pin::new(body).poll_frame(context);
        // A body that has failed yields nothing more.
        if let Poll::Ready(None | Some(Err(_))) = polled {
            this.body = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(B::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), B::size_hint)
    }
}

impl<B: Body + Unpin> Drop for Lent<B> {
    fn drop(&mut self) {
        let left = self.body.take().filter(|body| !body.is_end_stream());
        *self.back.lock().unwrap_or_else(PoisonError::into_inner) = left;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_ends_and_is_earned_by_bytes() {
        let second = Duration::from_secs(1);
        let mut patience = Patience::new(2 * second);
        assert!(patience.note(second, 0) && patience.note(second, 0));
        assert!(!patience.note(Duration::from_millis(1), 0), "two seconds are over");
        let mut patience = Patience::new(2 * second);
        for _ in 0..100 {
            assert!(patience.note(second, LEAST_BYTES_A_SECOND as usize), "what arrives pays for the time");
        }
        // What is earned is not saved up beyond the beginning's.
        assert!(patience.note(Duration::ZERO, 1 << 20) && !patience.note(3 * second, 0));
    }
}
