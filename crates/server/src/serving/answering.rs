//! A response that is there at once, or comes later.
//!
//! The future of a handler takes several kilobytes, and the HTTP library moves the future of a request into a task or a
//! box, which for HTTP/2 happens several times. Of most requests memory has the response, so only the others pay for a
//! box of their own.

use crate::wire::body::Body;
use axum::http::Response;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A response that is there at once, or comes later. It is awaited once.
pub enum Answering {
    /// The response; `None` after it was returned.
    Ready(Option<Response<Body>>),
    /// The work that makes it.
    Later(Pin<Box<dyn Future<Output = Response<Body>> + Send>>),
}

impl Answering {
    /// Returns the response later, when `work` has made it.
    pub fn later(work: impl Future<Output = Response<Body>> + Send + 'static) -> Self {
        Answering::Later(Box::pin(work))
    }
}

impl Future for Answering {
    type Output = Result<Response<Body>, Infallible>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Answering::Ready(response) => Poll::Ready(Ok(response.take().expect("it is awaited once"))),
            Answering::Later(work) => work.as_mut().poll(context).map(Ok),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_library_moves_is_small() {
        let response = size_of::<Response<Body>>();
        assert!(size_of::<Answering>() <= response, "{} of {response}", size_of::<Answering>());
    }
}
