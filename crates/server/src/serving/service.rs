//! The steps of each request: it gets its response from memory at once, or from its handler.
//!
//! 1. [`find`] looks at the method and the path once, and finds the operation.
//! 2. [`Service::admit`] checks whether the request is authorized.
//! 3. If the value is in memory, the thread that read the socket responds, without a hand-off and without a lock.
//! 4. An invalid request is refused before its body is received: because of its query, its head or its method.
//! 5. The handler of the operation runs.
//! 6. [`Noted`] counts the request, writes its log line, and keeps it if it was slow. Most responses from memory are
//!    only counted.
//!
//! [`find`]: crate::routes::tree::find

use crate::access::auth::{Gatekeeper, Turn};
use crate::access::cors::{Cors, preflight};
use crate::access::glance::Glance;
use crate::access::pass::Pass;
use crate::access::proxies::{Peer, Proxies};
use crate::access::sites::{check_host, check_one_host, check_origin};
use crate::calls::call::{Call, TRANSACTION};
use crate::calls::operation::{Access, Operation, Pending};
use crate::calls::parts::{AnyParts, IsShipped, Parts};
use crate::calls::target::Target;
use crate::config::{Config, Limits, Renewed};
use crate::data::databases::DEFAULT_DATABASE;
use crate::data::open::{Open, SHIPPED_WITHIN, never_shipped, not_shipped};
use crate::data::replicas::{Replicas, redirected};
use crate::limits::receive::{RequestBody, check_head, is_to_be_heard, lend, throw_away};
use crate::limits::room::Room;
use crate::routes::tree::Found;
use crate::serving::answering::Answering;
use crate::serving::coded;
use crate::serving::noted::{Noted, count, is_only_counted};
#[cfg(feature = "remote")]
use crate::serving::store;
use crate::shipping::Ship;
use crate::watch::watcher::Watch;
use crate::wire::body::{Body, Look};
use crate::wire::problem::{Answer, Problem, Reason};
use crate::wire::response::{COMMIT, MIN_COMMIT};
use axum::http::header::{AUTHORIZATION, EXPECT};
use axum::http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, Version};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

/// Responds to requests. Cheap to clone: each connection has a clone.
#[derive(Clone, Debug)]
pub struct Service {
    parts: AnyParts,
    settings: Arc<Settings>,
    /// The other end of the connection.
    peer: Peer,
}

/// What requests depend on with any engine: parts of the server and of its configuration.
#[derive(Debug)]
struct Settings {
    keeper: Arc<Gatekeeper>,
    room: Arc<Room>,
    watch: Arc<Watch>,
    limits: Limits,
    allow_anyone: bool,
    cors: Cors,
    proxies: Proxies,
}

impl Service {
    /// Creates a service with these parts.
    ///
    /// # Errors
    /// `Invalid` if an origin whose pages are allowed is none, or a proxy that is trusted is none.
    pub fn new(parts: AnyParts, config: &Config) -> pando::Result<Self> {
        let cors = Cors::new(&config.cors_origins)?;
        let proxies = Proxies::new(&config.trusted_proxies)?;
        let (limits, allow_anyone) = (config.limits.clone(), config.allow_anyone);
        let (keeper, room, watch) = (parts.keeper(), parts.room(), parts.watch());
        let settings = Settings { keeper, room, watch, limits, allow_anyone, cors, proxies };
        Ok(Service { parts, settings: Arc::new(settings), peer: Peer::Unknown })
    }

    /// Returns the service of a connection to `peer`.
    pub fn of(self, peer: Peer) -> Self {
        Service { peer, ..self }
    }

    /// Returns the service of connections that begin after the configuration was read again.
    ///
    /// # Errors
    /// `Invalid` if an origin whose pages are allowed is none. Nothing has changed then.
    pub fn renewed(&self, renewed: &Renewed) -> pando::Result<Self> {
        let cors = Cors::new(&renewed.cors_origins)?;
        let limits = renewed.limits_from(&self.settings.limits);
        let used = &self.settings;
        used.room.renew(&limits);
        used.watch.slow.renew(limits.slow);
        let settings = Settings {
            keeper: Arc::clone(&used.keeper),
            room: Arc::clone(&used.room),
            watch: Arc::clone(&used.watch),
            limits,
            allow_anyone: used.allow_anyone,
            cors,
            proxies: used.proxies.clone(),
        };
        Ok(Service { parts: self.parts.clone(), settings: Arc::new(settings), peer: self.peer })
    }

    /// Returns what is counted of requests and connections.
    pub fn watch(&self) -> &Arc<Watch> {
        &self.settings.watch
    }

    /// Returns the bounds that requests share.
    pub fn room(&self) -> Arc<Room> {
        Arc::clone(&self.settings.room)
    }

    /// Returns the limits on clients.
    pub fn limits(&self) -> &Limits {
        &self.settings.limits
    }

    /// Checks whether the request is authorized.
    #[inline]
    fn admit<B>(
        &self,
        request: &Request<B>,
        found: &Found,
        glance: Glance<'_>,
        is_allowed_origin: bool,
    ) -> Answer<Turn> {
        let (method, headers, path) = (request.method(), request.headers(), request.uri().path());
        check_one_host(request.version(), glance)?;
        if !is_allowed_origin {
            check_origin(method, headers, glance)?;
        }
        let unguarded = || if self.settings.allow_anyone { Ok(()) } else { check_host(glance) };
        let turn = self.settings.keeper.admit(headers, found.need(method, path), unguarded)?;
        found.refuse_raw_write(method, path)?;
        match &self.parts {
            AnyParts::Native(parts) => {
                if let Some(replicas) = parts.data.databases.replicas()
                    && replicas.is_replica()
                {
                    keep_from_writing(replicas, request, found)?;
                }
            }
            #[cfg(feature = "remote")]
            AnyParts::Remote(_) => store::check(headers, found)?,
        }
        Ok(turn)
    }

    /// Returns the response from memory, if the value is there.
    #[inline]
    fn recall<B>(&self, request: &Request<B>, found: &Found) -> Option<Response<Body>> {
        // HEAD may find the operation of GET, and is left to its handler.
        let recall = found.operation()?.recall.filter(|_| *request.method() == Method::GET)?;
        recall(self.parts.native()?, Target::new(request.uri(), found.captured()), request.headers())
    }

    /// Refuses a request whose query or head is wrong, before its body is received.
    fn check<B: http_body::Body>(&self, request: &Request<B>, found: &Found) -> Answer<()> {
        let limits = &self.settings.limits;
        let is_import = found.operation().is_some_and(|operation| operation.is_import);
        found.check_query(request.uri().query())?;
        check_head(request, if is_import { limits.import_bytes } else { limits.body_bytes })
    }

    /// Returns the response to a request for the operation in `found`. It is ready at once if memory has it. If a
    /// client is still sending a body that nothing reads, the body is received first for a bounded time.
    pub fn answer<B>(&self, found: Found, request: Request<B>) -> Answering
    where
        B: http_body::Body<Data = bytes::Bytes> + Unpin + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let begun = Instant::now();
        let glance = Glance::at(request.headers());
        // A client of HTTP/2 can always read a response while it sends.
        let reads_late = request.version() != Version::HTTP_2;
        let origin = self.settings.cors.origin(request.headers());
        // A response is a few hundred bytes, so it is changed where it is, and not moved.
        let mut at_once = origin.as_ref().and_then(|_| preflight(request.method(), request.headers()));
        let (mut turn, mut wanted) = (None, None);
        if at_once.is_none() {
            let admitted = self.admit(&request, &found, glance, origin.is_some());
            let refusal = match admitted.and_then(|turn| Ok((turn, min_commit(request.headers(), glance)?))) {
                Ok(admitted) => {
                    (turn, wanted) = admitted;
                    if wanted.is_none() {
                        at_once = self.recall(&request, &found);
                    }
                    if at_once.is_none() { self.check(&request, &found) } else { Ok(()) }
                }
                Err(problem) => Err(problem),
            };
            if let Err(problem) = refusal {
                at_once = Some(found.response(&problem, request.uri().path()));
            }
        }
        let client = || self.settings.proxies.client(self.peer, request.headers());
        let watch = &self.settings.watch;
        let Some(response) = &mut at_once else {
            let noted = Noted::new(watch, &request, glance, found, begun, false, client);
            let admitted = Admitted { found, noted, origin, turn, wanted };
            return Answering::later(self.clone().handle(request, admitted, reads_late));
        };
        let is_heard = reads_late && is_to_be_heard(response.status());
        match is_only_counted(watch, glance) {
            true => count(watch, &found, begun.elapsed(), response),
            false => Noted::new(watch, &request, glance, found, begun, true, client).end(watch, response),
        }
        self.settings.cors.mark(origin, response);
        if is_heard && has_unread_body(&request, glance) {
            let limit_bytes = self.settings.limits.body_bytes;
            return Answering::later(async move {
                throw_away(request.into_body(), limit_bytes).await;
                at_once.expect("it was made above")
            });
        }
        Answering::Ready(at_once)
    }

    /// Runs the handler of a request that was admitted.
    async fn handle<B>(self, request: Request<B>, admitted: Admitted, reads_late: bool) -> Response<Body>
    where
        B: http_body::Body<Data = bytes::Bytes> + Unpin + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let Service { parts, settings, .. } = self;
        let Admitted { found, noted, origin, turn, wanted } = admitted;
        let (mut head, body) = request.into_parts();
        let uri = head.uri.clone();
        let authorization = head.headers.get(AUTHORIZATION).cloned();
        let asked = coded::Asked::of(found.operation(), &head.headers);
        let (body, left) = lend(body, &head.headers);
        let results = head.extensions.remove();
        let call = Call { uri: head.uri, headers: head.headers, captured: found.captured(), results };
        let answer = match found.operation() {
            Some(operation) => match coded::decoded(&settings.room, operation, &call.headers, body) {
                Ok(body) => match &parts {
                    AnyParts::Native(parts) => run(parts, operation, call, &uri, body, wanted).await,
                    #[cfg(feature = "remote")]
                    AnyParts::Remote(parts) => store::run(parts, operation, call, body).await,
                },
                Err(problem) => Err(problem),
            },
            None => {
                // The unread rest comes back when the body is dropped.
                drop(body);
                Err(found.refusal(uri.path()))
            }
        };
        let answer = match head.method {
            Method::GET => answer.and_then(|response| settings.room.count(response)),
            _ => answer,
        };
        let mut response = answer.unwrap_or_else(|problem| found.response(&problem, uri.path()));
        // A response that is sent in pieces may hold a place of a stream, which would wait for the client's body.
        let is_whole = matches!(response.body(), Body::Whole(_));
        let left = left.take().filter(|_| reads_late && is_whole && is_to_be_heard(response.status()));
        noted.end(&settings.watch, &mut response);
        let look = || -> Look {
            let headers = authorization.map(|value| (AUTHORIZATION, value)).into_iter().collect();
            let pass = Pass::new(Arc::clone(&settings.keeper), &headers);
            Box::new(move || pass.is_valid())
        };
        let response = response.map(|body| body.while_permitted(look));
        let mut response = asked.answered(&settings.room, response);
        settings.cors.mark(origin, &mut response);
        let response = response.map(|body| body.keeps(turn));
        if let Some(body) = left {
            throw_away(body, settings.limits.body_bytes).await;
        }
        response
    }
}

/// What was found out about a request before its handler runs.
struct Admitted {
    found: Found,
    noted: Noted,
    /// The origin of the page that sent it, if such pages may use the server.
    origin: Option<HeaderValue>,
    turn: Turn,
    /// The commit that the database must have first.
    wanted: Option<u64>,
}

/// Refuses a request that a replica leaves to its primary: one that writes, or that belongs to a transaction, which
/// only the primary can have begun.
#[cold]
fn keep_from_writing<B>(replicas: &Replicas, request: &Request<B>, found: &Found) -> Answer<()> {
    let is_of_primary = found.operation().is_some_and(Operation::is_of_primary);
    if is_of_primary || request.headers().contains_key(TRANSACTION) {
        return Err(replicas.refuse(request.uri()));
    }
    Ok(())
}

/// Returns the commit that the database must have before the request is served.
#[inline]
fn min_commit(headers: &HeaderMap, glance: Glance<'_>) -> Answer<Option<u64>> {
    if !glance.has_special_headers {
        return Ok(None);
    }
    let Some(value) = headers.get(MIN_COMMIT) else { return Ok(None) };
    let number = value.to_str().ok().and_then(|digits| digits.parse().ok());
    let wrong = || Problem::bad_request("`pando-min-commit` must be the number of a commit");
    number.map(Some).ok_or_else(wrong)
}

/// Runs an operation, after the database has the commit that is `wanted`. The call has the address `uri`.
async fn run(
    parts: &Parts,
    operation: &Operation,
    call: Call,
    uri: &Uri,
    body: RequestBody,
    wanted: Option<u64>,
) -> Answer {
    let database = match operation.access {
        Access::Default(_) => DEFAULT_DATABASE,
        Access::Database(_) => Target::new(uri, call.captured).database(),
        Access::Nothing | Access::Any | Access::All(_) => return (operation.run)(parts, call, body).await,
    };
    if let Some(commit) = wanted {
        has_commit(parts, operation, database, commit).await?;
    }
    if operation.method == "GET" || operation.method == "HEAD" {
        return (operation.run)(parts, call, body).await;
    }
    let is_in_transaction = call.headers.contains_key(TRANSACTION);
    let answer = write(parts, database, is_in_transaction, (operation.run)(parts, call, body)).await;
    // The engine refuses what a replica may not commit.
    redirected(answer, parts.data.databases.replicas().map(|replicas| &**replicas), uri)
}

/// Waits until the database has a commit.
async fn has_commit(parts: &Parts, operation: &Operation, database: &str, commit: u64) -> Answer<()> {
    let begun = Instant::now();
    loop {
        // It is found again each time: a database in use cannot be replaced by a new copy, which may have the commit.
        let found = match operation.access {
            // `/v0` gets a new copy a little later than the other operations.
            Access::Default(_) => parts.entity().open().ok(),
            _ => Some(parts.data().database(database).await?),
        };
        let newest = found.map_or(Ok(0), |open| Ok::<_, Problem>(open.db.snapshot()?.commit_number()))?;
        if newest >= commit {
            return Ok(());
        }
        if begun.elapsed() >= APPLIED_WITHIN {
            let detail = format!(
                "commit {commit} was not applied within {} s; the newest one here is {newest}: try again, or \
                 ask the primary",
                APPLIED_WITHIN.as_secs()
            );
            let mut problem = Problem::new(StatusCode::GATEWAY_TIMEOUT, "not-applied", detail);
            problem.retry_after_s = Some(1);
            return Err(problem);
        }
        sleep(APPLIED_LOOK).await;
    }
}

/// Does the `work` of a request that may write to a database.
///
/// 1. The request is refused if another writer has taken over.
/// 2. The response names a commit that the database had after the write, unless the handler has named one, the response
///    begins before its statements are complete, or the write waits for the commit of its transaction.
/// 3. In sync mode, the response waits until the commit is in the bucket, unless the handler has waited for that in
///    vain: that of SQL waits before its last piece.
async fn write(parts: &Parts, database: &str, is_in_transaction: bool, work: Pending) -> Answer {
    let databases = &parts.data.databases;
    let refusal = |open: &Open| open.ship().and_then(|ship| ship.refusal());
    if parts.shipping != IsShipped::No
        && let Some(error) = databases.with_open(database, refusal).flatten()
    {
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "fenced", error.to_string()));
    }
    let newest = |open: &Open| Ok(open.db.snapshot()?.commit_number());
    let before = match parts.shipping {
        IsShipped::InSync => databases.with_open(database, newest).transpose()?,
        IsShipped::No | IsShipped::Later => None,
    };
    let mut answer = work.await;
    if let Ok(response) = &mut answer
        && !is_in_transaction
        && response.status().is_success()
        && matches!(response.body(), Body::Whole(_))
        && !response.headers().contains_key(COMMIT)
        // The database may have been closed since, which does not undo the write.
        && let Some(Ok::<_, Problem>(commit)) = databases.with_open(database, newest)
    {
        response.headers_mut().insert(COMMIT, commit.into());
    }
    if parts.shipping == IsShipped::InSync && !says_not_shipped(&answer) {
        let open = match parts.data().database(database).await {
            Ok(open) => open,
            // It was dropped, or never created.
            Err(problem) if problem.status == StatusCode::NOT_FOUND => return answer,
            Err(problem) => return Err(problem),
        };
        let commit = newest(&open)?;
        // A refusal may say what was stored before it, as that of an import in several transactions does.
        if (answer.is_ok() || before != Some(commit))
            && let Some(ship) = open.ship()
        {
            is_shipped(ship, commit).await?;
        }
    }
    answer
}

/// Returns whether the answer says that the write is not in the bucket.
fn says_not_shipped(answer: &Answer) -> bool {
    let reason = match answer {
        Ok(response) => response.extensions().get().map(|Reason(kind)| *kind),
        Err(problem) => Some(problem.kind),
    };
    matches!(reason, Some("not-shipped" | "fenced"))
}

/// Waits until a commit is in the bucket.
async fn is_shipped(ship: &dyn Ship, commit: u64) -> Answer<()> {
    let (shipped, outcome) = oneshot::channel();
    ship.when_shipped(commit, Box::new(|done| drop(shipped.send(done))));
    match timeout(SHIPPED_WITHIN, outcome).await {
        Ok(Ok(done)) => done.map_err(|error| never_shipped(&error)),
        _ => Err(not_shipped()),
    }
}

/// The longest time that a request waits for that commit.
const APPLIED_WITHIN: Duration = Duration::from_secs(5);
/// The interval at which it looks.
const APPLIED_LOOK: Duration = Duration::from_millis(2);

/// Returns whether a request has an unread body, which its client sends without waiting for permission.
#[inline]
fn has_unread_body<B: http_body::Body>(request: &Request<B>, glance: Glance<'_>) -> bool {
    let asks_first = || glance.has_special_headers && request.headers().contains_key(EXPECT);
    !request.body().is_end_stream() && !asks_first()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::response::whole;

    #[test]
    fn a_handler_that_waited_for_the_bucket_is_believed() {
        let late = || not_shipped();
        let fenced = || never_shipped(&pando::Error::new(pando::ErrorKind::Fenced, "another writer"));
        // The handler of SQL makes a response of its problem.
        for answer in [Ok(late().response()), Err(late()), Ok(fenced().response()), Err(fenced())] {
            assert!(says_not_shipped(&answer), "{answer:?}");
        }
        let others = [
            Ok(whole("text/plain", "stored")),
            Err(Problem::bad_request("no")),
            Ok(Problem::busy("x").response()),
        ];
        for answer in others {
            assert!(!says_not_shipped(&answer), "{answer:?}");
        }
    }
}
