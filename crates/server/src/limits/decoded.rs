//! Bodies of imports that are decoded while they are received.
//!
//! 1. What is decoded counts toward the limit of an import, however little was received for it: a small body that
//!    becomes a huge one is refused at the limit, and is never in memory as a whole.
//! 2. The memory of a decoder is counted with that of responses. If there is none, the client is asked to retry.

use crate::limits::receive::RequestBody;
use crate::limits::room::Room;
use crate::wire::coding::{Coding, DECODER_BYTES, Decoder};
use crate::wire::problem::{Answer, Problem};
use axum::http::HeaderMap;
use bytes::{Buf as _, Bytes};
use http_body::{Body, Frame};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::sync::OwnedSemaphorePermit;

/// Returns the body of an import as it was before its client encoded it.
///
/// # Errors
/// 415 for a coding that is not supported, 503 if there is no memory for a decoder.
pub fn decoded(room: &Room, headers: &HeaderMap, body: RequestBody) -> Answer<RequestBody> {
    let Some(coding) = Coding::of_body(headers)? else { return Ok(body) };
    let memory = room.counted_memory(DECODER_BYTES)?;
    let decoder = Decoder::new(coding).map_err(|error| Problem::internal(error.to_string()))?;
    let decoded =
        Decoded { body, decoder: Some(decoder), rest: Bytes::new(), is_full: false, _memory: memory };
    Ok(RequestBody::new(decoded))
}

/// A body that is decoded.
struct Decoded {
    body: RequestBody,
    /// `None` after the end.
    decoder: Option<Decoder>,
    /// What was received and is not decoded yet.
    rest: Bytes,
    /// Whether the decoder may have more of what it was given.
    is_full: bool,
    _memory: OwnedSemaphorePermit,
}

type Failed = Box<dyn std::error::Error + Send + Sync>;

impl Body for Decoded {
    type Data = Bytes;
    type Error = Failed;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Failed>>> {
        let this = self.get_mut();
        loop {
            let Some(decoder) = &mut this.decoder else { return Poll::Ready(None) };
            if this.is_full || !this.rest.is_empty() {
                let (out, used) = decoder.decode(&this.rest)?;
                this.rest.advance(used);
                this.is_full = !out.is_empty();
                if !out.is_empty() {
                    return Poll::Ready(Some(Ok(Frame::data(out.into()))));
                }
                continue;
            }
            match ready!(Pin::new(&mut this.body).poll_frame(context)) {
                Some(Ok(frame)) => this.rest = frame.into_data().unwrap_or_default(),
                Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
                None => {
                    let last = decoder.finish();
                    this.decoder = None;
                    let last = last?;
                    if !last.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(last.into()))));
                    }
                }
            }
        }
    }
}
