//! The requests of one connection.
//!
//! 1. What has arrived is read completely, and then the requests in it begin, so that the responses that memory has are
//!    written together.
//! 2. A response that is there at once is sent by the task of the connection. Any other request gets a task of its own,
//!    and so does a body for which the client has no room yet.
//! 3. After [`STREAMS`] requests, other connections of the thread get their turn.

use crate::limits::streams::Place;
use crate::routes::tree::find;
use crate::serving::answering::Answering;
use crate::serving::http2::STREAMS;
use crate::serving::http2::received::Received;
use crate::serving::http2::reply::Sent;
use crate::serving::http2::streams::{OneStream, Promise, Streams};
use crate::serving::http2::wire::Wire;
use crate::serving::service::Service;
use crate::watch::observe::Kind;
use crate::wire::body::Body;
use axum::http::header::{CONTENT_LENGTH, HOST};
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderValue, Method, Request, Response, Uri};
use bytes::Bytes;
use h2::RecvStream;
use h2::server::{Builder, Connection, Handshake, SendResponse};
use http_body::Body as _;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// The number of requests for which a connection that waits keeps memory, of some hundred bytes each.
const KEPT_REQUESTS: usize = 8;

/// The requests of one connection.
pub struct Session {
    service: Service,
    streams: Arc<Streams>,
    http: Http,
    /// The requests that have arrived, and have not begun.
    arrived: Vec<(Request<RecvStream>, SendResponse<Bytes>)>,
    is_ending: bool,
}

enum Http {
    Handshake(Handshake<Wire, Bytes>),
    Open(Connection<Wire, Bytes>),
}

impl Session {
    /// Begins the handshake on `wire`.
    pub fn new(builder: &Builder, wire: Wire, service: Service, streams: Arc<Streams>) -> Self {
        let http = Http::Handshake(builder.handshake(wire));
        Session { service, streams, http, arrived: Vec::new(), is_ending: false }
    }

    /// Lets the client know that further requests are not accepted. Those in progress are completed.
    pub fn end(&mut self) {
        self.is_ending = true;
        if let Http::Open(http) = &mut self.http {
            http.graceful_shutdown();
        }
    }

    /// Returns whether a request is in progress, or a response that the client has not received.
    pub fn has_streams(&self) -> bool {
        match &self.http {
            Http::Handshake(_) => false,
            Http::Open(http) => http.has_streams(),
        }
    }

    /// Serves requests until the connection ends.
    pub async fn run(&mut self) -> Result<(), h2::Error> {
        poll_fn(|context| self.poll(context)).await
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(), h2::Error>> {
        let http = loop {
            match &mut self.http {
                Http::Open(http) => break http,
                Http::Handshake(handshake) => {
                    let mut http = ready!(Pin::new(handshake).poll(context))?;
                    if self.is_ending {
                        http.graceful_shutdown();
                    }
                    self.http = Http::Open(http);
                }
            }
        };
        let mut begun = 0;
        loop {
            while self.arrived.len() < STREAMS as usize {
                match http.poll_accept(context) {
                    Poll::Ready(Some(arrived)) => self.arrived.push(arrived?),
                    Poll::Ready(None) => return Poll::Ready(Ok(())),
                    Poll::Pending => break,
                }
            }
            if self.arrived.is_empty() {
                // A burst of requests leaves no memory in a connection that waits.
                self.arrived.shrink_to(KEPT_REQUESTS);
                return Poll::Pending;
            }
            begun += self.arrived.len();
            for (request, stream) in self.arrived.drain(..) {
                begin(&self.service, &self.streams, request, stream);
            }
            // The next turn writes the responses.
            if begun >= STREAMS as usize {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
    }
}

/// What a response is sent with.
struct Outgoing {
    streams: Arc<Streams>,
    stream: SendResponse<Bytes>,
    is_head: bool,
    is_read: bool,
    /// The memory that the handler of statements counts before they run.
    promise: Option<Arc<Promise>>,
}

/// Begins a request.
fn begin(
    service: &Service,
    streams: &Arc<Streams>,
    request: Request<RecvStream>,
    stream: SendResponse<Bytes>,
) {
    streams.begin();
    let (mut head, body) = request.into_parts();
    let body = Received::new(body, &head.headers);
    as_http1(&mut head.uri, &mut head.headers);
    let is_head = head.method == Method::HEAD;
    let is_read = is_head || head.method == Method::GET;
    let found = find(&head.method, head.uri.path());
    let runs_statements = found.operation().is_some_and(|operation| operation.kind == Kind::Sql);
    let promise = runs_statements.then(|| Promise::new(streams));
    if let Some(promise) = &promise {
        head.extensions.insert(promise.results());
    }
    let answer = service.answer(found, Request::from_parts(head, body));
    let out = Outgoing { streams: Arc::clone(streams), stream, is_head, is_read, promise };
    match answer {
        // No such response has a place of a stream, which it could lose.
        Answering::Ready(response) => out.send_now(response.expect("it is sent once")),
        later => streams.spawn(|one| out.send_later(later, one)),
    }
}

impl Outgoing {
    /// Sends a response that is there at once.
    fn send_now(self, response: Response<Body>) {
        let streams = Arc::clone(&self.streams);
        match self.send(response, None) {
            Sent::Whole => streams.ended(true),
            Sent::Reset => streams.ended(false),
            Sent::Head(pieces) => streams.spawn(|one| async move {
                one.responds();
                pieces.send(&one).await;
            }),
        }
    }

    /// Sends a response when it is there, unless the client resets the stream before.
    async fn send_later(mut self, mut answer: Answering, one: Arc<OneStream>) {
        let response = poll_fn(|context| {
            // First: a request that its client has given up by now does not begin.
            if self.stream.poll_reset(context).is_ready() {
                return Poll::Ready(None);
            }
            Pin::new(&mut answer).poll(context).map(Result::ok)
        });
        let Some(response) = response.await else { return };
        drop(answer);
        one.responds();
        match self.send(response, Some(&one)) {
            Sent::Whole => one.complete(),
            Sent::Reset => {}
            Sent::Head(pieces) => pieces.send(&one).await,
        }
    }

    fn send(mut self, mut response: Response<Body>, one: Option<&Arc<OneStream>>) -> Sent {
        self.streams.watch().traffic.second_version();
        let place = response.extensions_mut().remove::<Arc<Place>>();
        if let (Some(place), Some(one)) = (&place, one) {
            place.cut_by(one.cut());
        }
        if self.is_head {
            response = without_body(response);
        }
        let promised = self.promise.and_then(|promise| promise.take());
        self.streams.charge(response, self.is_read, place.is_some(), promised).send(&mut self.stream)
    }
}

/// Gives a request the form that one of HTTP/1 has: a path, and the host in a header. If it names two different hosts,
/// it has both, and is refused as one of HTTP/1 is.
fn as_http1(uri: &mut Uri, headers: &mut axum::http::HeaderMap) {
    let Some(authority) = uri.authority() else { return };
    let Ok(host) = HeaderValue::from_str(authority.as_str()) else { return };
    let is_named = headers.get_all(HOST).iter().any(|named| named == host);
    let path = uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    if !is_named {
        headers.append(HOST, host);
    }
    *uri = Uri::from(path);
}

/// Returns the response to HEAD: it has the length of the body, and no body.
fn without_body(mut response: Response<Body>) -> Response<Body> {
    if let Some(bytes) = response.body().size_hint().exact().filter(|bytes| *bytes > 0) {
        response.headers_mut().entry(CONTENT_LENGTH).or_insert_with(|| HeaderValue::from(bytes));
    }
    response.map(|_| Body::empty())
}
