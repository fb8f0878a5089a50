//! Sends a response over HTTP/2.
//!
//! 1. A short body for which the client has room is sent with its head, and needs no task. Most responses end here.
//! 2. Any other body is handed to the library in pieces of at most [`PIECE_BYTES`], each when the client has room, so
//!    that the library holds little of it, and so that each piece that the client takes can be noted.
//! 3. Memory that is counted for a response is released when the library has sent the last piece, or drops it.

use crate::serving::http2::date;
use crate::serving::http2::streams::{Charge, OneStream};
use crate::wire::body::Body;
use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, SendStream};
use http_body::Body as _;
use hyper::Response;
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, DATE, HeaderMap, HeaderName, HeaderValue, TE, TRANSFER_ENCODING, UPGRADE,
};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// The longest piece: a frame of the length that every client accepts.
const PIECE_BYTES: usize = 16 << 10;

/// A response, and the memory that is counted for it.
pub struct Reply {
    /// The response.
    pub response: Response<Body>,
    /// Its memory; `None` if it is not counted here.
    pub charge: Option<Charge>,
}

/// How far a response was sent.
pub enum Sent {
    /// To its end, as far as the library is concerned.
    Whole,
    /// Its head. The body follows in pieces.
    Head(Pieces),
    /// Not at all, because the client has reset the stream.
    Reset,
}

/// The body of a response that is sent in pieces.
pub struct Pieces {
    sink: SendStream<Bytes>,
    body: Body,
    /// What is left of the last frame of the body.
    rest: Bytes,
    charge: Option<Arc<Charge>>,
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

fn charged(bytes: Bytes, charge: Option<&Arc<Charge>>) -> Bytes {
    match charge {
        Some(charge) => Bytes::from_owner(Charged { bytes, _charge: Arc::clone(charge) }),
        None => bytes,
    }
}

/// Removes headers that are about a connection of HTTP/1. HTTP/2 has none of them (RFC 9113, 8.2.2), and the library
/// would refuse the response.
fn strip_connection_headers(headers: &mut HeaderMap) {
    static OF_CONNECTIONS: [HeaderName; 6] = [
        CONNECTION,
        TRANSFER_ENCODING,
        UPGRADE,
        TE,
        HeaderName::from_static("keep-alive"),
        HeaderName::from_static("proxy-connection"),
    ];
    // Almost no response has one, and few names are compared faster than six are looked up.
    if !headers.keys().any(|name| OF_CONNECTIONS.contains(name)) {
        return;
    }
    for name in &OF_CONNECTIONS {
        if headers.remove(name).is_some() {
            tracing::warn!(%name, "a header that HTTP/2 does not have was removed from a response");
        }
    }
}

impl Reply {
    /// Sends the head, and the body with it if there is room.
    pub fn send(self, stream: &mut SendResponse<Bytes>) -> Sent {
        let (mut head, mut body) = self.response.into_parts();
        let is_empty = body.is_end_stream();
        strip_connection_headers(&mut head.headers);
        head.headers.entry(DATE).or_insert_with(date::now);
        if !is_empty && let Some(bytes) = body.size_hint().exact() {
            head.headers.entry(CONTENT_LENGTH).or_insert_with(|| HeaderValue::from(bytes));
        }
        let mut sink = match stream.send_response(Response::from_parts(head, ()), is_empty) {
            Ok(_) if is_empty => return Sent::Whole,
            Ok(sink) => sink,
            Err(error) => {
                tracing::debug!(%error, "a response was not sent");
                // Without effect on a stream that the client has reset.
                stream.send_reset(Reason::INTERNAL_ERROR);
                return Sent::Reset;
            }
        };
        let charge = self.charge.map(Arc::new);
        if let Body::Whole(whole) = &mut body
            && let Some(bytes) = whole.take_if(|bytes| bytes.len() <= PIECE_BYTES)
        {
            sink.reserve_capacity(bytes.len());
            if sink.capacity() >= bytes.len() {
                return match sink.send_data(charged(bytes, charge.as_ref()), true) {
                    Ok(()) => Sent::Whole,
                    Err(_) => Sent::Reset,
                };
            }
            *whole = Some(bytes);
        }
        Sent::Head(Pieces { sink, body, rest: Bytes::new(), charge })
    }
}

impl Pieces {
    /// Sends the pieces, and notes in `stream` how far that is. Returns after the last one, or when the client has
    /// reset the stream.
    pub async fn send(mut self, stream: &OneStream) {
        if let Err(error) = poll_fn(|context| self.poll_send(context, stream)).await {
            tracing::debug!(%error, "a response ended early");
        }
    }

    fn poll_send(&mut self, context: &mut Context<'_>, stream: &OneStream) -> Poll<Result<(), h2::Error>> {
        loop {
            // It also registers to be woken.
            if let Poll::Ready(reason) = self.sink.poll_reset(context)? {
                return Poll::Ready(Err(reason.into()));
            }
            // It asks for a byte only: what a stream reserves is not there for others, and the library raises it to the
            // length of the piece. The body is not asked for more before there is room.
            self.sink.reserve_capacity(1);
            while self.sink.capacity() == 0 {
                match ready!(self.sink.poll_capacity(context)) {
                    Some(room) => room?,
                    None => return Poll::Ready(Err(Reason::CANCEL.into())),
                };
            }
            while self.rest.is_empty() {
                let polled = Pin::new(&mut self.body).poll_frame(context);
                stream.looks(polled.is_pending());
                match ready!(polled) {
                    // No body has trailers.
                    Some(Ok(frame)) => self.rest = frame.into_data().unwrap_or_default(),
                    Some(Err(error)) => {
                        tracing::debug!(%error, "a response broke off");
                        self.sink.send_reset(Reason::INTERNAL_ERROR);
                        stream.complete();
                        return Poll::Ready(Ok(()));
                    }
                    None => {
                        stream.complete();
                        return Poll::Ready(self.sink.send_data(Bytes::new(), true));
                    }
                }
            }
            let piece = self.rest.split_to(self.rest.len().min(PIECE_BYTES));
            let is_last = self.rest.is_empty() && self.body.is_end_stream();
            self.sink.send_data(charged(piece, self.charge.as_ref()), is_last)?;
            stream.hand_over();
            if is_last {
                stream.complete();
                return Poll::Ready(Ok(()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_connections_are_removed() {
        let mut headers = HeaderMap::new();
        headers.insert("etag", HeaderValue::from_static("1"));
        strip_connection_headers(&mut headers);
        assert_eq!(headers.len(), 1);
        let names = ["connection", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade"];
        for name in names {
            headers.append(name, HeaderValue::from_static("close"));
            headers.append(name, HeaderValue::from_static("again"));
        }
        strip_connection_headers(&mut headers);
        assert_eq!(headers.into_iter().map(|(name, _)| name.unwrap()).collect::<Vec<_>>(), ["etag"]);
    }
}
