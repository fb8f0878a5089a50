//! One connection of HTTP/2 (RFC 9113), from its preface to its last stream.
//!
//! 1. A client has at most [`STREAMS`] requests at a time on a connection, which run on the thread of the connection
//!    ([`session`]). A client that resets a stream ends the work for it.
//! 2. A client that resets more than [`RESETS`] streams beyond those that it lets end is disconnected: each reset frees
//!    a place of (1), so that this bound alone would not limit the work (CVE-2023-44487).
//! 3. A stream whose client takes nothing for as long as a head may take is reset. A stream that has lost its place
//!    ([`limits::streams`](crate::limits::streams)) is reset, too; other streams of its connection go on.
//! 4. A connection is closed after a head's time without a stream: the client learns that it ends, and what it has sent
//!    until then is completed. PING and SETTINGS do not keep it open. The library reads no further while it has one of
//!    them to acknowledge, so that a flood of them takes no memory.
//! 5. The memory of a connection is bounded: [`CONNECTION_WINDOW_BYTES`] of bodies that no handler has read, the header
//!    lists of its streams, [`SEND_BYTES`] for each stream of bodies in the library, and responses that wait to be sent
//!    ([`reply`]).
//! 6. When the server ends, it sends GOAWAY, and completes the streams in progress. It does not wait for a client to
//!    acknowledge that.

mod date;
mod received;
mod reply;
mod session;
mod streams;
mod wire;

use crate::serving::http2::session::Session;
use crate::serving::http2::streams::Streams;
use crate::serving::http2::wire::Wire;
use crate::serving::patience::{LAST_WORDS, Timers};
use crate::serving::service::Service;
use crate::wire::stream::Stream;
use bytes::Bytes;
use h2::server::Builder;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// The largest number of streams that a connection has at a time. RFC 9113 advises against fewer than 100.
const STREAMS: u32 = 100;
/// The number of streams that a client can reset beyond those that it lets end.
const RESETS: u32 = 100;
/// The number of bytes of one body that a client can send before a handler reads them.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;
/// The number of bytes of all bodies of a connection together that a client can send before handlers read them.
const CONNECTION_WINDOW_BYTES: u32 = 512 << 10;
/// The number of bytes of one response that the library keeps for a slow client. The unit in which bodies are handed to
/// it comes on top.
const SEND_BYTES: usize = 32 << 10;
/// The number of streams that the library remembers after a reset, and for how long. A client may send more of a body
/// until it hears that the body was refused; for a stream that is forgotten, that would be an error of the client.
const REMEMBERED_STREAMS: usize = 2 * STREAMS as usize;
const REMEMBERED_FOR: Duration = Duration::from_secs(30);
/// The number of streams with errors of the client after which the library closes the connection.
const FAULTY_STREAMS: usize = 100;

/// Serves `stream` until its client disconnects, exceeds a limit, or the server ends. `ahead` is what was read of it
/// already.
pub async fn serve(
    stream: Stream,
    ahead: Bytes,
    service: Service,
    timers: Timers,
    mut ending: watch::Receiver<bool>,
) {
    let (patience, head_bytes) = (service.limits().head_timeout, service.limits().head_bytes);
    let watch = Arc::clone(service.watch());
    let _counted = watch.versions.connection();
    let streams = Streams::new(service.room(), Arc::clone(&watch), RESETS);
    let wire = Wire::new(stream, ahead, watch);
    let mut session = Session::new(&builder(head_bytes), wire, service, Arc::clone(&streams));
    let mut idle = pin!(streams.idle(timers.looks(patience)));
    let mut ending = pin!(async move { ending.wait_for(|ending| *ending).await.is_ok() });
    let mut is_ending = false;
    let outcome = loop {
        tokio::select! {
            biased;
            outcome = session.run() => break outcome,
            _ = &mut ending, if !is_ending => {
                is_ending = true;
                session.end();
            }
            () = &mut idle => {
                if std::mem::replace(&mut is_ending, true) {
                    tracing::debug!("a connection whose client took nothing was closed");
                    return;
                }
                session.end();
                // A request that arrives now is completed, and may stall.
                idle.set(streams.idle(timers.looks(patience)));
            }
            () = streams.quiet(LAST_WORDS), if is_ending => {
                // The library waits for an acknowledgement of the end, which a client need not send.
                if !session.has_streams() {
                    tracing::debug!("a connection without requests was closed");
                    return;
                }
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

/// Returns the library's settings of a connection whose requests have heads of at most `head_bytes`.
fn builder(head_bytes: usize) -> Builder {
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(STREAMS)
        .initial_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_header_list_size(u32::try_from(head_bytes).unwrap_or(u32::MAX))
        .max_send_buffer_size(SEND_BYTES)
        .max_concurrent_reset_streams(REMEMBERED_STREAMS)
        .reset_stream_duration(REMEMBERED_FOR)
        .max_local_error_reset_streams(Some(FAULTY_STREAMS));
    builder
}
