//! One connection of HTTP/2 (RFC 9113), from its preface to its last stream.
//!
//! 1. A client has at most [`STREAMS`] requests at a time on a connection. Each runs in a task of its own, on the
//!    thread of its connection. A client that resets a stream ends the work for it.
//! 2. A client that resets more than [`RESETS`] streams beyond those that it lets end is disconnected: each reset frees
//!    a place of (1), so that this bound alone would not limit the work (CVE-2023-44487).
//! 3. A stream whose client takes nothing for as long as a head may take is reset. A stream that has lost its place
//!    ([`limits::streams`](crate::limits::streams)) is reset, too; other streams of its connection go on.
//! 4. A connection is closed after a head's time without a stream. PING and SETTINGS do not keep it open. The library
//!    reads no further while it has one of them to acknowledge, so that a flood of them takes no memory.
//! 5. The memory of a connection is bounded: [`CONNECTION_WINDOW_BYTES`] of bodies that no handler has read, the header
//!    lists of its streams, [`SEND_BYTES`] for each stream of bodies in the library, and responses that wait to be sent
//!    ([`reply`]).
//! 6. When the server ends, it sends GOAWAY, and completes the streams in progress.

mod received;
mod reply;
mod streams;
mod wire;

use crate::limits::streams::Place;
use crate::routes::tree::find;
use crate::serving::http2::received::Complete;
use crate::serving::http2::reply::Reply;
use crate::serving::http2::streams::{Spawner, Streams};
use crate::serving::http2::wire::Wire;
use crate::serving::patience::LAST_WORDS;
use crate::serving::service::Service;
use crate::wire::body::Body;
use crate::wire::stream::Stream;
use axum::http::header::{CONTENT_LENGTH, HOST};
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderValue, Method, Uri};
use bytes::Bytes;
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::time::timeout;

/// The largest number of streams that a connection has at a time. RFC 9113 advises against fewer than 100.
const STREAMS: u32 = 100;
/// The number of streams that a client can reset beyond those that it lets end.
const RESETS: u32 = 100;
/// The number of bytes of one body that a client can send before a handler reads them.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;
/// The same for all bodies of a connection together.
const CONNECTION_WINDOW_BYTES: u32 = 512 << 10;
/// The number of bytes of one response that the library keeps for a slow client. The unit in which bodies are handed to
/// it comes on top.
const SEND_BYTES: usize = 32 << 10;
/// The number of streams with errors of the client after which the library closes the connection.
const FAULTY_STREAMS: usize = 100;

/// Serves `stream` until its client disconnects, exceeds a limit, or the server ends. `ahead` is what was read of it
/// already.
pub async fn serve(stream: Stream, ahead: Bytes, service: Service, mut ending: watch::Receiver<bool>) {
    let (patience, head_bytes) = (service.limits().head_timeout, service.limits().head_bytes);
    let watch = Arc::clone(service.watch());
    let _counted = watch.versions.connection();
    let streams = Streams::new(service.room(), Arc::clone(&watch), RESETS);
    let mut http = http2::Builder::new(Spawner(Arc::clone(&streams)));
    http.max_concurrent_streams(STREAMS)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_header_list_size(u32::try_from(head_bytes).unwrap_or(u32::MAX))
        .max_send_buf_size(SEND_BYTES)
        .max_local_error_reset_streams(FAULTY_STREAMS);
    let answer = service_fn(|request| answer(&service, &streams, request));
    let wire = Wire::new(stream, ahead, watch);
    let mut connection = pin!(http.serve_connection(TokioIo::new(wire), answer));
    let mut idle = pin!(streams.idle(patience));
    let mut ending = pin!(async move { ending.wait_for(|ending| *ending).await.is_ok() });
    let mut is_ending = false;
    let outcome = loop {
        tokio::select! {
            outcome = connection.as_mut() => break outcome,
            _ = &mut ending, if !is_ending => {
                is_ending = true;
                connection.as_mut().graceful_shutdown();
            }
            () = &mut idle => {
                connection.as_mut().graceful_shutdown();
                let _ = timeout(LAST_WORDS, connection).await;
                tracing::debug!("an idle connection was closed");
                return;
            }
            () = streams.exhausted() => {
                tracing::warn!("a client that resets its requests again and again was disconnected");
                return;
            }
        }
    };
    if let Err(error) = outcome {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// Returns the response to a request, whose stream begins now.
fn answer(
    service: &Service,
    streams: &Arc<Streams>,
    mut request: Request<Incoming>,
) -> impl Future<Output = Result<Response<Reply>, Infallible>> + Send + 'static + use<> {
    let (streams, stream) = (Arc::clone(streams), streams.begin());
    as_http1(&mut request);
    let is_head = *request.method() == Method::HEAD;
    let is_read = is_head || *request.method() == Method::GET;
    let found = find(request.method(), request.uri().path());
    let answer = service.answer(found, request.map(Complete::new));
    async move {
        let Ok(mut response) = answer.await;
        streams.watch().versions.request();
        stream.responds();
        let place = response.extensions_mut().remove::<Arc<Place>>();
        if let Some(place) = &place {
            place.cut_by(stream.cut());
        }
        if is_head {
            response = without_body(response);
        }
        let response = streams.charge(Arc::clone(&stream), response, is_read, place.is_some());
        if response.body().is_end_stream() {
            stream.complete();
        }
        Ok(response)
    }
}

/// Gives a request the form that one of HTTP/1 has: a path, and the host in a header. If it names two different hosts,
/// it has both, and is refused as one of HTTP/1 is.
fn as_http1(request: &mut Request<Incoming>) {
    let Some(authority) = request.uri().authority() else { return };
    let Ok(host) = HeaderValue::from_str(authority.as_str()) else { return };
    let is_named = request.headers().get_all(HOST).iter().any(|named| named == host);
    let path = request.uri().path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    if !is_named {
        request.headers_mut().append(HOST, host);
    }
    *request.uri_mut() = Uri::from(path);
}

/// Returns the response to HEAD: it has the length of the body, and no body.
fn without_body(mut response: Response<Body>) -> Response<Body> {
    if let Some(bytes) = response.body().size_hint().exact().filter(|bytes| *bytes > 0) {
        response.headers_mut().entry(CONTENT_LENGTH).or_insert_with(|| HeaderValue::from(bytes));
    }
    response.map(|_| Body::empty())
}
