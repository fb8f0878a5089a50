//! Bodies of imports that are decoded while they are received.
//!
//! 1. What is decoded counts toward the limit of an import, however little was received for it: a small body that
//!    becomes a huge one is refused at the limit, and is never in memory as a whole.
//! 2. Once the limit is exceeded, nothing more is decoded: what is then discarded is what still arrives, not what it
//!    would become.
//! 3. The number of decoders is bounded. If there are too many, the client is asked to retry.
//! 4. The time in which a body keeps the server waiting is extended by what was received, not by what it became: a
//!    client could hold a decoder for hours with one byte now and then.

use crate::limits::receive::{Patience, RequestBody, TooSlow};
use crate::limits::room::Room;
use crate::wire::coding::{Coding, Decoder};
use crate::wire::problem::{Answer, Problem};
use axum::http::HeaderMap;
use bytes::{Buf as _, Bytes};
use http_body::{Body, Frame};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::sync::OwnedSemaphorePermit;

/// Returns the body of an import as it was before its client encoded it.
///
/// # Errors
/// 415 for a coding that is not supported, 503 if too many bodies are decoded.
pub fn decoded(room: &Room, headers: &HeaderMap, body: RequestBody) -> Answer<RequestBody> {
    let Some(coding) = Coding::of_body(headers)? else { return Ok(body) };
    let permit = room.decoder_permit()?;
    let decoder = Decoder::new(coding).map_err(|error| Problem::internal(error.to_string()))?;
    let decoded = Decoded {
        body,
        coding,
        decoder: Some(decoder),
        rest: Bytes::new(),
        decoded_bytes: 0,
        limit_bytes: room.reception.import_bytes(),
        is_full: false,
        patience: room.reception.patience(),
        waits_since: None,
        _permit: permit,
    };
    Ok(RequestBody::new(decoded))
}

/// A body that is decoded.
struct Decoded {
    body: RequestBody,
    coding: Coding,
    /// `None` after the end.
    decoder: Option<Decoder>,
    /// What was received and is not decoded yet.
    rest: Bytes,
    decoded_bytes: u64,
    limit_bytes: u64,
    /// Whether the decoder may have more of what it was given.
    is_full: bool,
    patience: Patience,
    /// Since when the server waits for the client.
    waits_since: Option<Instant>,
    _permit: OwnedSemaphorePermit,
}

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Says that the coding is what is wrong with a body.
fn undecodable(coding: Coding, error: &std::io::Error) -> Failed {
    format!("it cannot be decoded as {}: {error}", coding.name()).into()
}

impl Body for Decoded {
    type Data = Bytes;
    type Error = Failed;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Failed>>> {
        let this = self.get_mut();
        if this.decoded_bytes > this.limit_bytes {
            return Pin::new(&mut this.body).poll_frame(context).map_err(Failed::from);
        }
        loop {
            let Some(decoder) = &mut this.decoder else { return Poll::Ready(None) };
            if this.is_full || !this.rest.is_empty() {
                let decoded = decoder.decode(&this.rest);
                let (out, used) = decoded.map_err(|error| undecodable(this.coding, &error))?;
                this.rest.advance(used);
                this.is_full = !out.is_empty();
                this.decoded_bytes += out.len() as u64;
                if !out.is_empty() {
                    return Poll::Ready(Some(Ok(Frame::data(out.into()))));
                }
                continue;
            }
            let Poll::Ready(received) = Pin::new(&mut this.body).poll_frame(context) else {
                this.waits_since.get_or_insert_with(Instant::now);
                return Poll::Pending;
            };
            let waited = this.waits_since.take().map_or(Duration::ZERO, |since| since.elapsed());
            match received {
                Some(Ok(frame)) => {
                    this.rest = frame.into_data().unwrap_or_default();
                    if !this.patience.note(waited, this.rest.len()) {
                        return Poll::Ready(Some(Err(TooSlow.into())));
                    }
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
                None => {
                    let last = decoder.finish();
                    this.decoder = None;
                    let last = last.map_err(|error| undecodable(this.coding, &error))?;
                    if !last.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(last.into()))));
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Limits;
    use crate::wire::coding::Encoder;
    use axum::http::HeaderValue;
    use axum::http::header::CONTENT_ENCODING;
    use http_body_util::BodyExt as _;

    #[test]
    fn nothing_is_decoded_after_the_limit() {
        let room = Room::new(&Limits { import_bytes: 1 << 20, ..Limits::default() });
        for coding in [Coding::Gzip, Coding::Zstd] {
            let mut encoder = Encoder::new(coding).unwrap();
            let mut bomb = encoder.encode(&vec![0; 64 << 20]).unwrap();
            bomb.extend(encoder.finish().unwrap());
            let (bomb_bytes, headers) = (
                bomb.len(),
                HeaderMap::from_iter([(CONTENT_ENCODING, HeaderValue::from_static(coding.name()))]),
            );
            let pieces = bomb.chunks(1000).map(|piece| Ok(Frame::data(Bytes::copy_from_slice(piece))));
            let pieces: Vec<Result<_, std::convert::Infallible>> = pieces.collect();
            let body = RequestBody::new(Pieces(pieces.into_iter()));
            let mut body = decoded(&room, &headers, body).unwrap();
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let mut bytes = 0;
            while let Some(frame) = runtime.block_on(body.frame()) {
                bytes += frame.unwrap().into_data().unwrap().len();
            }
            // The last piece may exceed the limit by what comes of one step.
            assert!(bytes > 1 << 20 && bytes < (2 << 20) + bomb_bytes, "{coding:?}: {bytes}");
        }
    }

    struct Pieces<I>(I);

    impl<I: Iterator<Item = Result<Frame<Bytes>, std::convert::Infallible>> + Unpin> Body for Pieces<I> {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, std::convert::Infallible>>> {
            Poll::Ready(self.0.next())
        }
    }
}
