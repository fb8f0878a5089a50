//! The body of a request over HTTP/2.
//!
//! 1. What a handler takes is given back to the client's windows at once, so that the client can send as much again.
//! 2. A body that its client gives up is an error, and not a shorter body. That includes a reset with the code
//!    `NO_ERROR`, which a server is free to send after its response (RFC 9113, 8.1), but a client has no reason for.
//!    Only a frame with `END_STREAM` says that a request is complete.

use bytes::Bytes;
use h2::RecvStream;
use http_body::{Body, Frame, SizeHint};
use hyper::HeaderMap;
use hyper::header::CONTENT_LENGTH;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// The body of a request.
#[derive(Debug)]
pub struct Received {
    stream: RecvStream,
    /// The bytes that are still to come, if the client has said how many there are.
    left_bytes: Option<u64>,
}

impl Received {
    /// Wraps the body of a request with these headers.
    pub fn new(stream: RecvStream, headers: &HeaderMap) -> Self {
        let left_bytes = match stream.is_end_stream() {
            true => Some(0),
            // The library refuses a length that is not a number, and a body of another length.
            false => headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok()),
        };
        Received { stream, left_bytes }
    }
}

impl Body for Received {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        let this = self.get_mut();
        match ready!(this.stream.poll_data(context)) {
            Some(Ok(bytes)) => {
                // An error says that the stream has ended, which the next call finds.
                let _ = this.stream.flow_control().release_capacity(bytes.len());
                this.left_bytes = this.left_bytes.map(|left| left.saturating_sub(bytes.len() as u64));
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Some(Err(error)) => Poll::Ready(Some(Err(error))),
            // Trailers may follow, which no handler reads.
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.left_bytes.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
