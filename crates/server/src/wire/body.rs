//! The body of a response. Most bodies are one piece of memory, and need no box and no virtual call.

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::sync::OwnedSemaphorePermit;

/// The body of a response.
#[derive(Debug)]
pub enum Body {
    /// All bytes of the body; `None` once they were sent.
    Whole(Option<Bytes>),
    /// A body that is sent in pieces.
    Pieces {
        /// The source of the pieces.
        body: axum::body::Body,
        /// Records that the server is at work while there is nothing to send, because it looks for the next record, for
        /// example.
        working: Option<Arc<Working>>,
    },
}

/// Whether the client of a connection waits for the server, rather than the server for the client.
#[derive(Debug, Default)]
pub struct Working(AtomicBool);

impl Working {
    /// Sets whether the client waits for the server.
    pub fn set(&self, working: bool) {
        // Relaxed: only one thread uses it.
        self.0.store(working, Ordering::Relaxed);
    }

    /// Returns whether the client waits for the server.
    pub fn get(&self) -> bool {
        // Relaxed: see above.
        self.0.load(Ordering::Relaxed)
    }
}

impl Body {
    /// Creates a body of one piece of memory.
    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        Body::Whole(Some(bytes.into()))
    }

    /// Creates an empty body.
    pub fn empty() -> Self {
        Body::Whole(None)
    }

    /// Keeps `turn` until the body was sent, or is not wanted any more. A body of one piece has no need of that: its
    /// request has ended.
    pub fn keeps(self, turn: Option<OwnedSemaphorePermit>) -> Self {
        match (self, turn) {
            (Body::Pieces { body, working }, Some(turn)) => {
                let body = axum::body::Body::new(Keeping { body, _turn: turn });
                Body::Pieces { body, working }
            }
            (body, _) => body,
        }
    }

    /// Ends with an error some time after what `look` returns has returned false. A body of one piece has no need of
    /// that.
    pub fn while_permitted(self, look: impl FnOnce() -> Look) -> Self {
        match self {
            Body::Pieces { body, working } => {
                let permitted = Permitted { body, look: look(), looked: Instant::now(), was_valid: true };
                Body::Pieces { body: axum::body::Body::new(permitted), working }
            }
            whole => whole,
        }
    }

    /// Registers `watcher`, in which a body that is sent in pieces records whether the client waits for the server.
    #[inline]
    pub fn be_watched_by(&mut self, watcher: &Arc<Working>) {
        if let Body::Pieces { working, .. } = self {
            *working = Some(Arc::clone(watcher));
        }
    }
}

impl From<axum::body::Body> for Body {
    fn from(body: axum::body::Body) -> Self {
        Body::Pieces { body, working: None }
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match self.get_mut() {
            Body::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Body::Pieces { body, working } => {
                let polled = Pin::new(body).poll_frame(context);
                if let Some(working) = working {
                    working.set(polled.is_pending());
                }
                polled
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Body::Whole(bytes) => bytes.as_ref().is_none_or(Bytes::is_empty),
            Body::Pieces { body, .. } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Body::Pieces { body, .. } => body.size_hint(),
        }
    }
}

/// A body that keeps the turn of its request.
struct Keeping {
    body: axum::body::Body,
    _turn: OwnedSemaphorePermit,
}

impl HttpBody for Keeping {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// How often a body looks whether its request is still permitted. A source of pieces that looks more often can end with
/// words of its own, before the body breaks off at the second look.
const LOOK: Duration = Duration::from_secs(1);
/// The error of a body that breaks off.
const NOT_PERMITTED: &str = "the token of the request was revoked or has expired while the response was sent";

/// Returns whether the request of a body is still permitted.
pub type Look = Box<dyn Fn() -> bool + Send>;

/// A body that is sent as long as its request is permitted.
struct Permitted {
    body: axum::body::Body,
    look: Look,
    looked: Instant,
    was_valid: bool,
}

impl Permitted {
    /// Returns whether the request was permitted at this look or the last.
    fn is_permitted(&mut self) -> bool {
        let now = Instant::now();
        if now - self.looked < LOOK {
            return true;
        }
        let is_valid = (self.look)();
        let is_permitted = is_valid || self.was_valid;
        (self.looked, self.was_valid) = (now, is_valid);
        is_permitted
    }
}

impl HttpBody for Permitted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if !self.is_permitted() {
            return Poll::Ready(Some(Err(axum::Error::new(NOT_PERMITTED))));
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Wraps bytes that are counted as `memory` until the last clone is dropped.
pub fn counted(bytes: impl AsRef<[u8]> + Send + 'static, memory: OwnedSemaphorePermit) -> Bytes {
    struct Counted<B> {
        bytes: B,
        _memory: OwnedSemaphorePermit,
    }
    impl<B: AsRef<[u8]>> AsRef<[u8]> for Counted<B> {
        fn as_ref(&self) -> &[u8] {
            self.bytes.as_ref()
        }
    }
    Bytes::from_owner(Counted { bytes, _memory: memory })
}
