//! One connection of HTTP/1, from its first byte to its last.
//!
//! 1. Requests are served one after the other. When the server ends, the request in progress gets its response, and no
//!    further one is served. A head that has begun has [`LAST_HEAD`] to arrive completely.
//! 2. An idle connection is closed: no request began, no byte was written and no work was in progress for as long as a
//!    head may take. That covers clients that never send, that send a byte at a time without ending a head, and that do
//!    not read their response. `receive` decides how long a body may pause. A client in the middle of a head gets 408.
//! 3. A client that has closed only its sending side still gets a response, because it cannot be distinguished from one
//!    that has disconnected until something is written. Only SQL statements are cancelled [`GRACE`] after such a close,
//!    because they may take long without writing, and others wait for their place.
//! 4. What the client sends passes a [`Gate`], which also adds a body to refusals of the HTTP library. The library
//!    refuses a head only between two responses, so only the first write after a response is compared with a refusal:
//!    a value may contain the same bytes. [`Sending`] notes when a response has ended.
//! 5. A stream that lost its place ([`streams`](crate::limits::streams)) ends with its connection.
//! 6. There is no timer for each request. Each connection has one, which fires seldom and compares counters. It and the
//!    other events that a request does not cause are polled only when they have happened ([`Rare`]).

use crate::limits::streams::Place;
use crate::routes::tree::find;
use crate::serving::answering::Answering;
use crate::serving::patience::{LAST_WORDS, LOOKS, Timers};
use crate::serving::rare::Rare;
use crate::serving::service::Service;
use crate::watch::watcher::Watch;
use crate::wire::body::{Body, Working};
use crate::wire::gate::{Gate, Refusal, UNREADABLE_END};
use crate::wire::stream::{Stream, hand_over};
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{Notify, watch};
use tokio::time::{Interval, sleep, timeout};

/// How long SQL statements continue after their client stops sending.
const GRACE: Duration = Duration::from_secs(2);

/// How long a head that has begun when the server ends may take to arrive completely.
const LAST_HEAD: Duration = Duration::from_millis(500);

/// The events and state of a connection. Only one thread reads and writes them.
#[derive(Debug, Default)]
struct Signs {
    /// The number of requests begun and writes made.
    events: AtomicU64,
    /// Whether a request, or the next piece of its response, is in progress.
    working: Arc<Working>,
    /// Whether that work ends with the client, as SQL statements do.
    is_given_up_early: AtomicBool,
    /// Notifies that the client has stopped sending.
    has_ended: Notify,
    /// Notifies that the stream has lost its place.
    cut: Arc<Notify>,
    /// Whether a request has begun whose response has not been handed over completely to the library.
    is_responding: Arc<AtomicBool>,
    /// Whether all responses were sent, so that a write can only be a refusal of the library, until a request begins.
    is_between: AtomicBool,
    /// Whether a head is being received.
    is_within_head: AtomicBool,
    /// Whether the rest of a head did not arrive in time, so that the client gets 408.
    is_late: AtomicBool,
    reader: Mutex<Option<Waker>>,
}

impl Signs {
    fn note(&self) {
        // Relaxed for both: only one thread uses it, so that this needs no atomic addition.
        self.events.store(self.events.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// Notes that a request has begun.
    fn begin(&self, is_given_up_early: bool) {
        self.note();
        self.working.set(true);
        // Relaxed for these: as above.
        self.is_responding.store(true, Ordering::Relaxed);
        self.is_between.store(false, Ordering::Relaxed);
        self.is_given_up_early.store(is_given_up_early, Ordering::Relaxed);
    }

    /// Notes that the library has nothing more to write at the moment.
    fn flushed(&self) {
        // Relaxed for both: only one thread uses them.
        if !self.is_responding.load(Ordering::Relaxed) {
            self.is_between.store(true, Ordering::Relaxed);
        }
    }

    /// Returns whether a head has begun to arrive, and no request is in progress.
    fn is_awaiting_head(&self) -> bool {
        // Relaxed for both: only one thread uses them.
        self.is_within_head.load(Ordering::Relaxed) && !self.is_responding.load(Ordering::Relaxed)
    }

    /// Returns a body that notes its end.
    fn sending(&self, body: Body) -> Sending {
        Sending { body, is_responding: Arc::clone(&self.is_responding) }
    }

    /// Returns whether to check that the client has stopped sending.
    fn looks_for_end(&self) -> bool {
        // Relaxed: see above.
        self.working.get() && self.is_given_up_early.load(Ordering::Relaxed)
    }

    /// Closes the connection if its stream loses its place.
    fn end_with(&self, place: &Place) {
        place.cut_by(&self.cut);
    }

    /// Tells the reader of a head that it is late. Returns whether a head is being read.
    fn tell_late(&self) -> bool {
        // Relaxed: see above.
        if !self.is_within_head.load(Ordering::Relaxed) {
            return false;
        }
        self.is_late.store(true, Ordering::Relaxed); // Relaxed: as above.
        let reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner).take();
        reader.into_iter().for_each(Waker::wake);
        true
    }
}

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
    let signs = Arc::new(Signs { is_between: AtomicBool::new(true), ..Signs::default() });
    let mut http = http1::Builder::new();
    http.max_buf_size(head_bytes).half_close(true);
    let answer = service_fn(|request: Request<Incoming>| {
        let found = find(request.method(), request.uri().path());
        signs.begin(found.operation().is_some_and(|operation| operation.ends_with_client));
        let answering = service.answer(found, request);
        if matches!(answering, Answering::Ready(_)) {
            signs.working.set(false);
        }
        Responding { answering, signs: &signs }
    });
    let watched = Watched {
        stream,
        ahead,
        signs: Arc::clone(&signs),
        watch: Arc::clone(service.watch()),
        gate: Gate::new(),
        refusal: None,
    };
    let mut connection = pin!(http.serve_connection(TokioIo::new(watched), answer));
    let ending = async move { ending.wait_for(|ending| *ending).await.is_ok() };
    let event = pin!(event(&signs, ending, timers.looks(patience)));
    let mut event = Rare::new(event);
    let outcome = tokio::select! {
        biased;
        outcome = connection.as_mut() => outcome,
        event = &mut event => match event {
            Event::ServerEnds => {
                connection.as_mut().graceful_shutdown();
                tokio::select! {
                    outcome = connection => outcome,
                    () = silence(&signs, timers.looks(patience)) => return,
                    () = signs.cut.notified() => return,
                    () = late_head(&signs, &timers) => {
                        tracing::debug!("a connection whose request had not arrived was closed");
                        return;
                    }
                }
            }
            Event::Silence => {
                if signs.tell_late() {
                    let _ = timeout(LAST_WORDS, connection).await;
                }
                tracing::debug!("an idle connection was closed");
                return;
            }
            Event::Cut => {
                tracing::warn!("a stream whose client read nothing was ended in favour of another");
                return;
            }
            Event::ClientLeft => {
                tracing::debug!("the client of running statements has disconnected");
                return;
            }
        },
    };
    if let Err(error) = outcome {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// The response to a request, and what the connection has to know of it.
struct Responding<'s> {
    answering: Answering,
    signs: &'s Signs,
}

impl Future for Responding<'_> {
    type Output = Result<Response<Sending>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // A response that is there at once is whole, and has no place of a stream.
        let is_ready = matches!(self.answering, Answering::Ready(_));
        let Ok(mut response) = ready!(Pin::new(&mut self.answering).poll(context));
        if !is_ready {
            self.signs.working.set(false);
            if let Some(place) = response.extensions_mut().remove::<Arc<Place>>() {
                self.signs.end_with(&place);
            }
            response.body_mut().be_watched_by(&self.signs.working);
        }
        Poll::Ready(Ok(response.map(|body| self.signs.sending(body))))
    }
}

/// The body of a response, which notes when the library needs it no more: all of the response was handed over then.
struct Sending {
    body: Body,
    is_responding: Arc<AtomicBool>,
}

impl HttpBody for Sending {
    type Data = Bytes;
    type Error = axum::Error;

    #[inline]
    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        // Relaxed: only one thread uses it.
        self.is_responding.store(false, Ordering::Relaxed);
    }
}

/// What ends a connection, beside its client and errors.
enum Event {
    /// The server ends.
    ServerEnds,
    /// Nothing has happened for a while.
    Silence,
    /// The stream has lost its place.
    Cut,
    /// The client of running statements has disconnected.
    ClientLeft,
}

/// Returns the first event. `ending` returns when the server ends.
async fn event(signs: &Signs, ending: impl Future<Output = bool>, look: Interval) -> Event {
    tokio::select! {
        _ = ending => Event::ServerEnds,
        () = silence(signs, look) => Event::Silence,
        () = signs.cut.notified() => Event::Cut,
        () = end(signs) => Event::ClientLeft,
    }
}

/// Returns after nothing has happened for the time of [`LOOKS`] `look`s.
async fn silence(signs: &Signs, mut look: Interval) {
    let (mut seen, mut quiet) = (0, 0);
    loop {
        look.tick().await;
        // Relaxed: only one thread uses them.
        let events = signs.events.load(Ordering::Relaxed);
        if events != seen || signs.working.get() {
            (seen, quiet) = (events, 0);
        } else {
            quiet += 1;
            if quiet >= LOOKS {
                return;
            }
        }
    }
}

/// Returns if the client is in the middle of a head, and still is after [`LAST_HEAD`].
async fn late_head(signs: &Signs, timers: &Timers) {
    if signs.is_awaiting_head() {
        timers.sleep(LAST_HEAD).await;
    }
    if !signs.is_awaiting_head() {
        std::future::pending().await
    }
}

/// Returns after the client of running statements has stopped sending and nothing has happened for a while since.
async fn end(signs: &Signs) {
    loop {
        signs.has_ended.notified().await;
        // Relaxed for both: only one thread uses them.
        let events = signs.events.load(Ordering::Relaxed);
        sleep(GRACE).await;
        // Relaxed: see above.
        if signs.looks_for_end() && signs.events.load(Ordering::Relaxed) == events {
            return;
        }
    }
}

/// A socket with a gate, which notes each write.
struct Watched {
    stream: Stream,
    /// What was read before it was known that this is HTTP/1.
    ahead: Bytes,
    signs: Arc<Signs>,
    watch: Arc<Watch>,
    gate: Gate,
    /// The response that replaces the library's refusal.
    refusal: Option<Refusal>,
}

impl Watched {
    fn stream(self: Pin<&mut Self>) -> Pin<&mut Stream> {
        Pin::new(&mut self.get_mut().stream)
    }

    fn noted(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(written) = &written {
            self.signs.note();
            self.watch.traffic.sent(*written.as_ref().unwrap_or(&0));
        }
        written
    }

    /// Replaces a head of the library's own, and everything after it, by a refusal with a body. Returns whether `bytes`
    /// was such a head. A part of a response of the service is none, whatever its bytes.
    fn poll_refuse(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<bool>> {
        // Relaxed: only one thread uses it.
        if !self.signs.is_between.load(Ordering::Relaxed) {
            return Poll::Ready(Ok(false));
        }
        if self.refusal.is_none() {
            // Relaxed: only one thread uses it.
            let is_late = self.signs.is_late.load(Ordering::Relaxed);
            self.refusal = Refusal::instead_of(bytes, self.gate.refusal(), is_late);
            if let Some(refusal) = &self.refusal {
                self.watch.traffic.refused(refusal.reason());
            }
        }
        let Some(refusal) = &mut self.refusal else { return Poll::Ready(Ok(false)) };
        while !refusal.left().is_empty() {
            let sent = ready!(Pin::new(&mut self.stream).poll_write(context, refusal.left()))?;
            refusal.sent(sent);
            self.watch.traffic.sent(sent);
        }
        self.signs.note();
        Poll::Ready(Ok(true))
    }

    /// Checks whether the client of running statements has stopped sending, and registers to be woken when it does.
    fn look_for_end(&mut self, context: &mut Context<'_>) {
        if let Poll::Ready(true) = self.stream.poll_has_ended(context) {
            self.signs.has_ended.notify_one();
        }
    }

    /// Returns whether the head that is being read is refused in any case, because the gate has refused it or it is
    /// late.
    fn is_refused(&self) -> bool {
        // Relaxed: only one thread uses it.
        self.gate.is_closed() || self.signs.is_late.load(Ordering::Relaxed)
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.is_refused() {
            buffer.put_slice(&UNREADABLE_END[..UNREADABLE_END.len().min(buffer.remaining())]);
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        let read = match this.ahead.is_empty() {
            true => Pin::new(&mut this.stream).poll_read(context, buffer),
            false => {
                hand_over(&mut this.ahead, buffer);
                Poll::Ready(Ok(()))
            }
        };
        let Poll::Ready(read) = read else {
            if this.gate.is_within_head() {
                let mut reader = this.signs.reader.lock().unwrap_or_else(PoisonError::into_inner);
                *reader = Some(context.waker().clone());
            }
            return Poll::Pending;
        };
        this.watch.traffic.received(buffer.filled().len() - before);
        let passed = this.gate.look(&mut buffer.filled_mut()[before..]);
        buffer.set_filled(before + passed);
        // Relaxed: only one thread uses it.
        this.signs.is_within_head.store(this.gate.is_within_head(), Ordering::Relaxed);
        Poll::Ready(read)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if ready!(self.poll_refuse(context, bytes))? {
            return Poll::Ready(Ok(bytes.len()));
        }
        let written = self.as_mut().stream().poll_write(context, bytes);
        self.noted(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if ready!(self.poll_refuse(context, slices.first().map_or(&[], |slice| slice)))? {
            return Poll::Ready(Ok(slices.iter().map(|slice| slice.len()).sum()));
        }
        let written = self.as_mut().stream().poll_write_vectored(context, slices);
        self.noted(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.signs.looks_for_end() {
            self.look_for_end(context);
        }
        // The library flushes the socket when it has written everything it has.
        self.signs.flushed();
        self.stream().poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_shutdown(context)
    }
}
