//! Bodies of responses that are compressed while they are sent.
//!
//! 1. Only bodies that are sent in pieces are compressed, if the client asks for it and if their content is text.
//!    Values are not: their tag and their ranges belong to the bytes as they are stored.
//! 2. Nothing waits in the encoder: when there is no next piece yet, as between two changes, everything up to there is
//!    sent.
//! 3. Long pieces are encoded on a thread that may wait, so that other connections of the thread do not wait for it. A
//!    step encodes at most [`STEP_BYTES`]: what comes of it is not counted, while the piece is counted until its end.
//! 4. The number of encoders is bounded. If there are too many, the body is sent as it is, which every client accepts.
//! 5. Whether or not a response is compressed, it says that this depends on the request (`Vary`).

use crate::limits::room::Room;
use crate::wire::body::Body;
use crate::wire::coding::{Coding, Encoder};
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, VARY};
use axum::http::{HeaderValue, Response};
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::{JoinHandle, spawn_blocking};

/// A shorter body is not worth the work.
const LEAST_BYTES: u64 = 1024;
/// The longest piece that is encoded on the thread of the connection.
const AT_ONCE_BYTES: usize = 4 << 10;

/// The longest part of a piece that is encoded at a time.
const STEP_BYTES: usize = 256 << 10;

/// The length of a body that is sent in pieces and lies in memory, as an extension of the response.
#[derive(Clone, Copy, Debug)]
pub struct InMemory(pub usize);

/// Compresses the body of a response that a client wants in `coding`, if that is useful.
pub fn compress(room: &Room, coding: Option<Coding>, mut response: Response<Body>) -> Response<Body> {
    if !is_compressible(&response) {
        return response;
    }
    response.headers_mut().append(VARY, HeaderValue::from_static("accept-encoding"));
    let short = response.extensions().get::<InMemory>().map(|InMemory(bytes)| *bytes as u64);
    let length = short.or(response.body().size_hint().exact());
    let Some(coding) = coding.filter(|_| length.is_none_or(|bytes| bytes >= LEAST_BYTES)) else {
        return response;
    };
    let Some(permit) = room.encoder_permit() else { return response };
    let encoder = match Encoder::new(coding) {
        Ok(encoder) => encoder,
        Err(error) => {
            tracing::warn!(%error, "a response could not be compressed");
            return response;
        }
    };
    let headers = response.headers_mut();
    headers.insert(CONTENT_ENCODING, coding.value());
    headers.remove(CONTENT_LENGTH);
    response.map(|body| {
        let state = State::Ready(Box::new(encoder));
        let rest = Bytes::new();
        let compressed = Compressed { body, rest, state, has_unsent: false, is_over: false, _permit: permit };
        Body::from(axum::body::Body::new(compressed))
    })
}

/// Returns whether a response is text that is sent in pieces.
fn is_compressible(response: &Response<Body>) -> bool {
    let headers = response.headers();
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let is_text =
        kind.starts_with("text/") || kind.starts_with("application/x-ndjson") || kind == "application/json";
    is_text
        && matches!(response.body(), Body::Pieces { .. })
        && response.status().is_success()
        && !headers.contains_key(ETAG)
        && !headers.contains_key(CONTENT_ENCODING)
}

/// The result of encoding on another thread.
type Encoded = (Box<Encoder>, io::Result<Vec<u8>>);

enum State {
    Ready(Box<Encoder>),
    Encoding(JoinHandle<Encoded>),
    Over,
}

/// A body that is compressed.
struct Compressed {
    body: Body,
    /// What is left of the last piece of the body.
    rest: Bytes,
    state: State,
    /// Whether the encoder may hold something that was not sent.
    has_unsent: bool,
    /// Whether the body has ended.
    is_over: bool,
    _permit: OwnedSemaphorePermit,
}

type Failed = Box<dyn std::error::Error + Send + Sync>;

impl Compressed {
    /// Encodes the next step of the piece. Returns nothing yet if that runs on another thread.
    fn encode(&mut self, mut encoder: Box<Encoder>) -> io::Result<Vec<u8>> {
        let piece = self.rest.split_to(self.rest.len().min(STEP_BYTES));
        self.has_unsent = true;
        if piece.len() > AT_ONCE_BYTES {
            self.state = State::Encoding(spawn_blocking(move || {
                let encoded = encoder.encode(&piece);
                (encoder, encoded)
            }));
            return Ok(Vec::new());
        }
        let encoded = encoder.encode(&piece)?;
        self.state = State::Ready(encoder);
        Ok(encoded)
    }

    /// Returns the next bytes to send, perhaps none; `None` at the end.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Vec<u8>, Failed>>> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Over => Poll::Ready(None),
            State::Encoding(mut task) => {
                let Poll::Ready(done) = Pin::new(&mut task).poll(context) else {
                    self.state = State::Encoding(task);
                    return Poll::Pending;
                };
                let (encoder, encoded) = done?;
                self.state = State::Ready(encoder);
                Poll::Ready(Some(encoded.map_err(Failed::from)))
            }
            State::Ready(encoder) if !self.rest.is_empty() => {
                Poll::Ready(Some(self.encode(encoder).map_err(Failed::from)))
            }
            State::Ready(encoder) if self.is_over => {
                Poll::Ready(Some(encoder.finish().map_err(Failed::from)))
            }
            State::Ready(mut encoder) => match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Pending if self.has_unsent => {
                    self.has_unsent = false;
                    let flushed = encoder.flush();
                    self.state = State::Ready(encoder);
                    Poll::Ready(Some(flushed.map_err(Failed::from)))
                }
                Poll::Pending => {
                    self.state = State::Ready(encoder);
                    Poll::Pending
                }
                Poll::Ready(Some(Ok(frame))) => {
                    self.rest = frame.into_data().unwrap_or_default();
                    self.state = State::Ready(encoder);
                    Poll::Ready(Some(Ok(Vec::new())))
                }
                Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(error.into()))),
                Poll::Ready(None) => {
                    self.is_over = true;
                    self.state = State::Ready(encoder);
                    Poll::Ready(Some(Ok(Vec::new())))
                }
            },
        }
    }
}

impl HttpBody for Compressed {
    type Data = Bytes;
    type Error = Failed;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Failed>>> {
        let this = self.get_mut();
        loop {
            match ready!(this.poll_next(context)) {
                Some(Ok(bytes)) if bytes.is_empty() => {}
                Some(next) => return Poll::Ready(Some(next.map(|bytes| Frame::data(bytes.into())))),
                None => return Poll::Ready(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Limits;
    use crate::wire::digits::random;
    use crate::wire::response::streamed;
    use http_body_util::BodyExt as _;

    #[test]
    fn responses_that_nobody_takes_leave_the_memory_of_others_alone() {
        let room = Room::new(&Limits::default());
        let compressed = || {
            let body = axum::body::Body::from(vec![b'a'; 4096]);
            compress(&room, Some(Coding::Zstd), streamed("text/plain", body))
        };
        let held: Vec<_> = (0..100).map(|_| compressed()).collect();
        let count = |held: &[Response<Body>]| {
            held.iter().filter(|response| response.headers().contains_key(CONTENT_ENCODING)).count()
        };
        assert_eq!(count(&held), 32, "further ones are sent as they are");
        let values: Vec<_> = (0..256).map_while(|_| room.body_of(vec![7; 1 << 20]).ok()).collect();
        assert_eq!(values.len(), 256, "values have all their memory");
        drop(held);
        assert_eq!(count(&[compressed()]), 1);
    }

    #[test]
    fn what_comes_of_a_long_piece_is_sent_in_steps() {
        let room = Room::new(&Limits::default());
        // Bytes that no coding makes fewer.
        let mut piece = vec![0; 4 << 20];
        random(&mut piece).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for coding in [Coding::Zstd, Coding::Gzip] {
            let body = axum::body::Body::from(piece.clone());
            let response = compress(&room, Some(coding), streamed("text/plain", body));
            assert_eq!(response.headers()[CONTENT_ENCODING], coding.name());
            let mut body = response.into_body();
            let mut bytes = 0;
            while let Some(frame) = runtime.block_on(body.frame()) {
                let sent = frame.unwrap().into_data().unwrap().len();
                assert!(sent <= 2 * STEP_BYTES, "{coding:?}: {sent} bytes at once");
                bytes += sent;
            }
            assert!(bytes >= piece.len(), "{coding:?}: {bytes} bytes");
        }
    }
}
