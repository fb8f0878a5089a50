//! The way of each request: answered here and now if memory can tell, else by its handler.
//!
//! 1. [`find`] has looked at the method and the path, once: which operation is asked for.
//! 2. [`Service::admit`]: whether the request may be looked at at all.
//! 3. What memory knows is answered on the thread that read the socket, without a hand-off and without a lock.
//! 4. A request that cannot be right is refused before its body is received: its query, its head, its method.
//! 5. The handler of the operation answers.
//! 6. [`Noted`] counts the request, writes its line, and keeps it if it was slow.
//!
//! [`find`]: crate::routes::tree::find

use crate::access::sites::{check_host, check_one_host, check_origin};
use crate::calls::call::Call;
use crate::calls::operation::{Access, Operation, Pending};
use crate::calls::parts::{IsShipped, Parts};
use crate::calls::target::Target;
use crate::config::{Config, Limits};
use crate::data::databases::DEFAULT_DATABASE;
use crate::data::open::Open;
use crate::limits::receive::{check_head, is_to_be_heard, lend, throw_away};
use crate::routes::tree::Found;
use crate::watch::slow::{Asked, Phases, Slow};
use crate::watch::trace::{self, Line, REQUEST_ID};
use crate::watch::watcher::Watch;
use crate::wire::body::Body;
use crate::wire::problem::{Answer, Problem};
use axum::http::header::{ALLOW, EXPECT};
use axum::http::{HeaderValue, Method, Request, Response, StatusCode, Uri};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::time::timeout;

/// Answers requests. Cheap to clone: each connection has one.
#[derive(Clone, Debug)]
pub struct Service {
    parts: Arc<Parts>,
    settings: Arc<Settings>,
}

/// What of the configuration requests depend on.
#[derive(Debug)]
struct Settings {
    limits: Limits,
    allow_anyone: bool,
}

impl Service {
    /// Answers with these parts.
    pub fn new(parts: Arc<Parts>, config: &Config) -> Self {
        let settings = Settings { limits: config.limits.clone(), allow_anyone: config.allow_anyone };
        Service { parts, settings: Arc::new(settings) }
    }

    /// The limits on clients.
    pub fn limits(&self) -> &Limits {
        &self.settings.limits
    }

    /// Whether the request may be looked at at all.
    #[inline]
    fn admit<B>(&self, request: &Request<B>, found: &Found) -> Answer<()> {
        let (method, headers, path) = (request.method(), request.headers(), request.uri().path());
        check_one_host(request.version(), headers)?;
        check_origin(method, headers)?;
        if !self.settings.allow_anyone && !self.parts.keeper.is_on_guard() {
            check_host(headers)?;
        }
        self.parts.keeper.admit(headers, found.need(method, path))?;
        found.refuse_raw_write(method, path)
    }

    /// The answer of memory, if it has one.
    #[inline]
    fn recall<B>(&self, request: &Request<B>, found: &Found) -> Option<Response<Body>> {
        // HEAD may ask for what GET does, and is for its handler.
        let recall = found.operation()?.recall.filter(|_| *request.method() == Method::GET)?;
        recall(&self.parts, Target::new(request.uri(), found.captured()), request.headers())
    }

    /// Refuses a request whose query or head is wrong, before its body is received.
    fn check<B: http_body::Body>(&self, request: &Request<B>, found: &Found) -> Answer<()> {
        let limits = &self.settings.limits;
        let is_import = found.operation().is_some_and(|operation| operation.is_import);
        found.check_query(request.uri().query())?;
        check_head(request, if is_import { limits.import_bytes } else { limits.body_bytes })
    }

    /// The response to a request, which asks for what was `found`. Ready at once if memory can tell. A client that is
    /// still sending a body which nobody takes is heard first, for a while: it may not look at an answer before.
    pub fn answer<B>(
        &self,
        found: Found,
        request: Request<B>,
    ) -> impl Future<Output = Result<Response<Body>, Infallible>> + use<B>
    where
        B: http_body::Body<Data = bytes::Bytes> + Unpin + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let begun = Instant::now();
        let limit_bytes = self.settings.limits.body_bytes;
        let answer = match self.admit(&request, &found) {
            Ok(()) => self.recall(&request, &found).map(Ok),
            Err(problem) => Some(Err(problem)),
        };
        let answer = answer.or_else(|| self.check(&request, &found).err().map(Err));
        let noted = Noted::of(&self.parts.watch, &request, found, begun, answer.is_some());
        let later = match answer {
            Some(answer) => {
                let response = answer.unwrap_or_else(|problem| problem.response());
                let left = is_to_be_heard(response.status()).then(|| left_of(request)).flatten();
                Err((noted.end(&self.parts.watch, response), left))
            }
            None => Ok((Arc::clone(&self.parts), request, noted)),
        };
        async move {
            let (response, left) = match later {
                Err(answered) => answered,
                Ok((parts, request, noted)) => {
                    let (head, body) = request.into_parts();
                    let (body, left) = lend(body, &head.headers);
                    let call = Call { uri: head.uri, headers: head.headers, captured: found.captured() };
                    let answer = match found.operation() {
                        Some(operation) => match Writing::of(&parts, operation, &call) {
                            None => (operation.run)(&parts, call, body).await,
                            Some(writing) => writing.run(&parts, (operation.run)(&parts, call, body)).await,
                        },
                        None => {
                            // So that what is left of it comes back.
                            drop(body);
                            Err(found.refusal())
                        }
                    };
                    let response = answer.unwrap_or_else(|problem| problem.response());
                    let left = left.take().filter(|_| is_to_be_heard(response.status()));
                    (noted.end(&parts.watch, response), left)
                }
            };
            if let Some(body) = left {
                throw_away(body, limit_bytes).await;
            }
            Ok(response)
        }
    }
}

/// A request that may write to a database that is shipped.
struct Writing {
    database: String,
}

impl Writing {
    /// `None` if nothing is shipped, or the request only reads.
    fn of(parts: &Parts, operation: &Operation, call: &Call) -> Option<Self> {
        if parts.shipping == IsShipped::No || operation.method == "GET" || operation.method == "HEAD" {
            return None;
        }
        let database = match operation.access {
            Access::Default(_) => DEFAULT_DATABASE,
            Access::Database(_) => call.target().database(),
            Access::Nothing | Access::Any | Access::All(_) => return None,
        };
        Some(Writing { database: database.to_owned() })
    }

    /// Refuses it where another writer has taken over. In sync mode, its answer waits until what was committed is in
    /// the bucket.
    async fn run(self, parts: &Parts, work: Pending) -> Answer {
        let data = parts.data();
        let refusal = |open: &Open| open.ship.as_ref().and_then(|ship| ship.refusal());
        if let Some(error) = data.databases.with_open(&self.database, refusal).flatten() {
            return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "fenced", error.to_string()));
        }
        let answer = work.await?;
        if parts.shipping == IsShipped::InSync
            && let Some(open) = data.databases.get_open(&self.database)
            && let Some(ship) = &open.ship
        {
            let newest = open.db.snapshot()?.commit_number();
            let (shipped, outcome) = oneshot::channel();
            ship.when_shipped(newest, Box::new(|done| drop(shipped.send(done))));
            match timeout(SHIPPED_WITHIN, outcome).await {
                Ok(Ok(done)) => done?,
                _ => return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not-shipped", NOT_SHIPPED)),
            }
        }
        Ok(answer)
    }
}

/// How long a write waits for the bucket.
const SHIPPED_WITHIN: Duration = Duration::from_secs(30);
const NOT_SHIPPED: &str = "the write is stored in this database, but was not in the bucket within 30 s; \
                           it is shipped when the bucket can be reached again, and is lost if this machine is \
                           lost before";

/// The body of a request that is answered without it, unless its client waits to be asked for it.
#[cold]
fn left_of<B: http_body::Body>(request: Request<B>) -> Option<B> {
    let asks_first = request.headers().contains_key(EXPECT);
    (!asks_first && !request.body().is_end_stream()).then(|| request.into_body())
}

/// What is said and counted of a request at its end.
struct Noted {
    begun: Instant,
    found: Found,
    /// The id that the answer carries: of one that was answered at once only where the client gave it, or a line is
    /// wanted.
    id: Option<HeaderValue>,
    line: Option<Line>,
    /// What was asked, of one that was handed on: only such a one is slow.
    asked: Option<(Method, Uri)>,
}

impl Noted {
    #[inline]
    fn of<B>(watch: &Watch, request: &Request<B>, found: Found, begun: Instant, at_once: bool) -> Self {
        let headers = request.headers();
        let wanted = trace::is_wanted();
        let id = (!at_once || wanted || headers.contains_key(REQUEST_ID)).then(|| watch.ids.id_of(headers));
        let shown = || found.shown(request.uri().path());
        let line = id.as_ref().filter(|_| wanted);
        let line = line.map(|id| Line::new(request.method(), shown(), headers, id.clone()));
        let asked = (!at_once).then(|| (request.method().clone(), request.uri().clone()));
        Noted { begun, found, id, line, asked }
    }

    #[inline]
    fn end(self, watch: &Watch, mut response: Response<Body>) -> Response<Body> {
        let took = self.begun.elapsed();
        watch.observed.note(self.found.kind(), took, response.status().as_u16());
        if let Some(line) = self.line {
            line.write(&response, took);
        }
        if response.status() == StatusCode::METHOD_NOT_ALLOWED {
            response.headers_mut().insert(ALLOW, self.found.allowed());
        }
        // A profile takes as long as it was asked to.
        let is_timed = self.found.operation().is_some_and(|operation| operation.is_timed);
        if let Some((method, uri)) = self.asked.filter(|_| watch.slow.is_slow(took) && !is_timed) {
            watch.slow.note(Slow {
                method: method.to_string(),
                target: uri.to_string(),
                status: response.status().as_u16(),
                at: self.begun,
                took,
                statements: response.extensions().get::<Asked>().cloned(),
                phases: response.extensions().get::<Phases>().copied(),
            });
        }
        if let Some(id) = self.id {
            response.headers_mut().insert(REQUEST_ID, id);
        }
        response
    }
}
