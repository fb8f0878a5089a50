//! What a response carries. Most are one piece of memory, and say so without a box and a virtual call.

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};

/// The body of a response.
#[derive(Debug)]
pub enum Body {
    /// All of it; `None` once it was sent.
    Whole(Option<Bytes>),
    /// Piece by piece.
    Pieces(axum::body::Body),
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
}

impl From<axum::body::Body> for Body {
    fn from(body: axum::body::Body) -> Self {
        Body::Pieces(body)
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
            Body::Pieces(body) => Pin::new(body).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Body::Whole(bytes) => bytes.as_ref().is_none_or(Bytes::is_empty),
            Body::Pieces(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Body::Pieces(body) => body.size_hint(),
        }
    }
}
