//! The body of a request. One that its client gives up in its middle is an error, and not a shorter body.
//!
//! The library ends a body without an error if the client resets the stream with the code `NO_ERROR`, which a server is
//! free to send after its response (RFC 9113, 8.1), but a client has no reason for. Only a frame with `END_STREAM` says
//! that a request is complete.

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A body that ends with an error unless its stream has ended.
pub struct Complete<B> {
    body: B,
    has_ended: bool,
}

impl<B> Complete<B> {
    pub fn new(body: B) -> Self {
        Complete { body, has_ended: false }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Complete<B>
where
    B::Error: Into<Failure>,
{
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        let polled = Pin::new(&mut self.body).poll_frame(context);
        polled.map(|frame| match frame {
            None => {
                self.has_ended = true;
                let is_cut = !self.body.is_end_stream();
                is_cut.then(|| Err("the client reset the stream before the end of the body".into()))
            }
            Some(frame) => Some(frame.map_err(Into::into)),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.has_ended || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
