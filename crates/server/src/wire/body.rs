//! What a response carries. Most are one piece of memory, and say so without a box and a virtual call.

use crate::serving::connection::Signs;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The body of a response.
#[derive(Debug)]
pub enum Body {
    /// All of it; `None` once it was sent.
    Whole(Option<Bytes>),
    /// Piece by piece.
    Pieces {
        /// Where they come from.
        body: axum::body::Body,
        /// What is told while there is nothing to send: the server looks for the next record, say.
        signs: Option<Arc<Signs>>,
    },
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

    /// The same; what comes in pieces says in `signs` who waits for whom.
    pub fn watched_by(self, signs: &Arc<Signs>) -> Self {
        match self {
            Body::Pieces { body, .. } => Body::Pieces { body, signs: Some(Arc::clone(signs)) },
            whole => whole,
        }
    }
}

impl From<axum::body::Body> for Body {
    fn from(body: axum::body::Body) -> Self {
        Body::Pieces { body, signs: None }
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
            Body::Pieces { body, signs } => {
                let polled = Pin::new(body).poll_frame(context);
                if let Some(signs) = signs {
                    signs.set_working(polled.is_pending());
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
