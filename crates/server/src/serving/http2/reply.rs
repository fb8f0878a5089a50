//! The body of a response over HTTP/2.
//!
//! 1. It is handed to the library in pieces of at most [`PIECE_BYTES`], so that the library holds little of it, and so
//!    that each piece that the client takes can be noted.
//! 2. Memory that is counted for it is released when the library has sent the last piece, or drops it.

use crate::serving::http2::streams::{OneStream, Streams};
use crate::wire::body::Body;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::OwnedSemaphorePermit;

/// The longest piece: a frame of the length that every client accepts.
const PIECE_BYTES: usize = 16 << 10;

/// The body of a response.
pub struct Reply {
    body: Body,
    /// What is left of the last frame of the body.
    rest: Bytes,
    stream: Arc<OneStream>,
    charge: Option<Arc<Charge>>,
}

/// The memory that is counted for a response.
pub struct Charge {
    pub streams: Arc<Streams>,
    pub bytes: usize,
    pub _memory: Option<OwnedSemaphorePermit>,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.streams.sent(self.bytes);
    }
}

/// A piece that keeps the count of its memory until it was sent.
struct Charged {
    bytes: Bytes,
    _charge: Arc<Charge>,
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Reply {
    /// Wraps a body of a stream.
    pub fn new(body: Body, stream: Arc<OneStream>, charge: Option<Arc<Charge>>) -> Self {
        Reply { body, rest: Bytes::new(), stream, charge }
    }

    /// Returns the next piece of what is left of a frame.
    fn next_piece(&mut self) -> Frame<Bytes> {
        let bytes = self.rest.split_to(self.rest.len().min(PIECE_BYTES));
        self.stream.hand_over();
        if self.is_end_stream() {
            self.stream.complete();
        }
        Frame::data(match &self.charge {
            Some(charge) => Bytes::from_owner(Charged { bytes, _charge: Arc::clone(charge) }),
            None => bytes,
        })
    }
}

impl HttpBody for Reply {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        while this.rest.is_empty() {
            let polled = Pin::new(&mut this.body).poll_frame(context);
            this.stream.looks(polled.is_pending());
            match polled {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(bytes) => this.rest = bytes,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                Poll::Ready(end) => {
                    this.stream.complete();
                    return Poll::Ready(end);
                }
            }
        }
        Poll::Ready(Some(Ok(this.next_piece())))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (inner, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower() + rest);
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}
