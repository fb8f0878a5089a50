//! What a response carries. Most are one piece of memory, and say so without a box and a virtual call.

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use tokio::sync::OwnedSemaphorePermit;

/// The body of a response.
#[derive(Debug)]
pub enum Body {
    /// All of it; `None` once it was sent.
    Whole(Option<Bytes>),
    /// Piece by piece.
    Pieces {
        /// Where they come from.
        body: axum::body::Body,
        /// Says that the server is at work while there is nothing to send: it looks for the next record, say.
        working: Option<Arc<Working>>,
    },
}

/// Whether it is the server that keeps the client of a connection waiting, not the other way round.
#[derive(Debug, Default)]
pub struct Working(AtomicBool);

impl Working {
    /// Notes it.
    pub fn set(&self, working: bool) {
        // Relaxed: one thread alone looks at it.
        self.0.store(working, Ordering::Relaxed);
    }

    /// Whether it is so.
    pub fn get(&self) -> bool {
        // Relaxed: as above.
        self.0.load(Ordering::Relaxed)
    }
}

impl Body {
    /// One piece of memory.
    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        Body::Whole(Some(bytes.into()))
    }

    /// Nothing.
    pub fn empty() -> Self {
        Body::Whole(None)
    }

    /// The same; what comes in pieces says in `working` who waits for whom.
    pub fn watched_by(self, working: &Arc<Working>) -> Self {
        match self {
            Body::Pieces { body, .. } => Body::Pieces { body, working: Some(Arc::clone(working)) },
            whole => whole,
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

/// Bytes that are counted as `memory` until the last of them is gone.
pub fn counted(bytes: Vec<u8>, memory: OwnedSemaphorePermit) -> Bytes {
    struct Counted {
        bytes: Vec<u8>,
        _memory: OwnedSemaphorePermit,
    }
    impl AsRef<[u8]> for Counted {
        fn as_ref(&self) -> &[u8] {
            &self.bytes
        }
    }
    Bytes::from_owner(Counted { bytes, _memory: memory })
}
