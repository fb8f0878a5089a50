//! What all requests share, and the way of each: answered here and now if memory can tell, else handed on.

use crate::access::auth::{Gatekeeper, random};
use crate::access::sites::{check_host, check_one_host, check_origin};
use crate::config::{Config, share_bytes};
use crate::data::databases::{DEFAULT_DATABASE, Databases};
use crate::data::open::Open;
use crate::data::transactions::Transactions;
use crate::limits::receive::{Reception, check_head, is_to_be_heard, lend, throw_away};
use crate::limits::streams::{StreamPermit, Streams};
use crate::operations::place::Entry;
use crate::operations::{self, debug, health, pages, v0};
use crate::routes::parameters::check_query;
use crate::routes::table::methods_of;
use crate::routes::tree::{is_import, kind, need, refuse_raw_write};
use crate::routes::{fast, openapi};
use crate::send::long_record::{CHUNK_BYTES, counted};
use crate::watch::observe::{Kind, Observed};
use crate::watch::slow::{Asked, Phases, Slow, SlowRequests};
use crate::watch::trace::{self, Ids, Line, REQUEST_ID};
use crate::wire::body::Body;
use crate::wire::problem::{Answer, Problem};
use arc_swap::ArcSwap;
use axum::Router;
use axum::http::header::{ALLOW, EXPECT};
use axum::http::{HeaderValue, Method, Request, Response, StatusCode, Uri};
use pando::{Budget, Error, Result, Table};
use profile::{Window, freed};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower_service::Service as _;

/// The memory of chunks that are read whole, of all streams: at least the longest one.
const CHUNKS_KIB: usize = 128 << 10;
const _: () = assert!(CHUNKS_KIB as u64 * 1024 > CHUNK_BYTES + (1 << 20), "and its key");

/// The memory of values that were read whole, until their clients have taken them.
const ANSWERS_KIB: usize = 256 << 10;
/// A shorter one is not counted.
const FREE_ANSWER_BYTES: usize = 64 << 10;

/// A process that has grown by less keeps its free memory.
const GROWN_BYTES: u64 = 8 << 20;

/// Requests of SQL that wait for those at work; their statements are counted as bodies that are received.
#[cfg(feature = "sql")]
const WAITING_STATEMENTS: usize = 1024;

/// What all requests share.
#[derive(Debug)]
pub struct App {
    /// How the server is run.
    pub config: Config,
    /// All databases.
    pub databases: Databases,
    /// The transactions that clients hold.
    pub transactions: Arc<Transactions>,
    /// Who may do what.
    pub keeper: Gatekeeper,
    /// The database of `/v0`.
    pub default: Arc<Open>,
    /// The table of `/v0`.
    pub entity: ArcSwap<Table>,
    /// The bounds of request bodies.
    pub reception: Reception,
    /// What requests took.
    pub observed: Observed,
    /// The slowest of them.
    pub slow: SlowRequests,
    /// The CPU profile of the last seconds, if it is kept.
    pub window: Option<Window>,
    /// When the server was started.
    pub started: Instant,
    /// Places of connections: those that are taken are connections.
    pub places: Arc<Semaphore>,
    streams: Arc<Streams>,
    answers: Arc<Semaphore>,
    #[cfg(feature = "sql")]
    statements: Arc<Semaphore>,
    /// Places of requests that wait for their statements to run.
    #[cfg(feature = "sql")]
    waiting_statements: Arc<Semaphore>,
    ids: Ids,
    ending: AtomicBool,
    /// The memory of the process after it gave some back last, or the least since.
    resident_bytes: AtomicU64,
}

/// Answers requests. Cheap to clone: each connection has one.
#[derive(Clone)]
pub struct Service {
    app: Arc<App>,
    router: Router,
}

impl App {
    /// Over the databases of the directory; the default one is opened, or made.
    pub fn new(config: Config) -> Result<Arc<Self>> {
        let budget = Budget::new(config.memory_bytes.unwrap_or_else(share_bytes));
        let databases = Databases::new(&config.dir, budget, config.durability, config.limits.open_databases)?;
        let (default, _) = databases.create(DEFAULT_DATABASE, None).map_err(Problem::into_error)?;
        let limits = &config.limits;
        let transactions = Transactions::new(limits.transactions, limits.transaction_idle);
        let entity = default.table_or_create(v0::TABLE, &v0::table_options())?;
        let window = config.profile_window.map(|keep| Window::start(profile::Kind::Cpu, keep)).transpose();
        let window = window.map_err(|error| Error::invalid(error.to_string()))?;
        #[cfg(feature = "sql")]
        sql::limit_memory(config.limits.sql_memory_bytes).map_err(Error::from)?;
        let mut start = [0; 8];
        random(&mut start)?;
        Ok(Arc::new(App {
            observed: Observed::new(),
            slow: SlowRequests::new(limits.slow),
            window,
            started: Instant::now(),
            places: Arc::new(Semaphore::new(limits.connections)),
            ids: Ids::new(u64::from_le_bytes(start)),
            ending: AtomicBool::new(false),
            resident_bytes: AtomicU64::new(0),
            reception: Reception::new(&config.limits),
            streams: Streams::new(config.limits.streams, Arc::new(Semaphore::new(CHUNKS_KIB))),
            answers: Arc::new(Semaphore::new(ANSWERS_KIB)),
            #[cfg(feature = "sql")]
            statements: Arc::new(Semaphore::new(config.limits.statements)),
            #[cfg(feature = "sql")]
            waiting_statements: Arc::new(Semaphore::new(WAITING_STATEMENTS)),
            entity: ArcSwap::from_pointee(entity),
            transactions: Arc::new(transactions),
            keeper: Gatekeeper::new(&config.dir)?,
            databases,
            default,
            config,
        }))
    }

    /// Connections that are open.
    pub fn connections(&self) -> usize {
        self.config.limits.connections.saturating_sub(self.places.available_permits())
    }

    /// Streams under way.
    pub fn streams(&self) -> usize {
        self.streams.count()
    }

    /// The server is about to end: nobody should send requests any more.
    pub fn end(&self) {
        self.ending.store(true, Ordering::SeqCst);
    }

    /// Whether it is.
    pub fn is_ending(&self) -> bool {
        self.ending.load(Ordering::SeqCst)
    }

    /// What is looked after every second, where one may wait: first what is quick, and what somebody waits for.
    pub fn look_after(&self) {
        if let Err(error) = self.keeper.refresh() {
            tracing::error!(%error, "the tokens could not be read again; the earlier ones stay valid");
        }
        self.transactions.give_up_idle();
        self.databases.tick();
        self.databases.close_idle();
        self.give_back_memory();
    }

    /// Gives back what the allocator keeps of freed memory, whenever the process has grown by some: what clients were
    /// sent was allocated by one thread and freed by another, and would stay.
    fn give_back_memory(&self) {
        let Some(resident) = freed::resident_bytes() else { return };
        // Relaxed on all: one thread alone looks after this.
        let before = self.resident_bytes.load(Ordering::Relaxed);
        if resident < before + (before / 8).max(GROWN_BYTES) {
            self.resident_bytes.fetch_min(resident, Ordering::Relaxed); // Relaxed: as above.
            return;
        }
        freed::give_back();
        let after = freed::resident_bytes().unwrap_or(resident);
        self.resident_bytes.store(after, Ordering::Relaxed); // Relaxed: as above.
    }

    /// Whether the request may be looked at at all.
    #[inline]
    fn admit<B>(&self, request: &Request<B>) -> Answer<()> {
        check_one_host(request.version(), request.headers())?;
        check_origin(request.method(), request.headers())?;
        if !self.config.allow_anyone && !self.keeper.is_on_guard() {
            check_host(request.headers())?;
        }
        let (method, path) = (request.method(), request.uri().path());
        self.keeper.admit(request.headers(), need(method, path))?;
        refuse_raw_write(method, path)
    }

    /// A value as the body of an answer. One that is not short is counted until the last of it was sent.
    #[inline]
    pub fn body_of(&self, value: Vec<u8>) -> Answer<Body> {
        Ok(match self.answer_memory(value.len())? {
            Some(memory) => Body::whole(counted(value, memory)),
            None => Body::whole(value),
        })
    }

    /// The memory of an answer of that length; none if it is short, and not counted.
    #[inline]
    pub fn answer_memory(&self, bytes: usize) -> Answer<Option<OwnedSemaphorePermit>> {
        if bytes <= FREE_ANSWER_BYTES {
            return Ok(None);
        }
        let busy =
            |_| Problem::busy("responses that clients have not read yet fill the memory reserved for them");
        let kib = bytes.div_ceil(1024).min(ANSWERS_KIB) as u32;
        Arc::clone(&self.answers).try_acquire_many_owned(kib).map_err(busy).map(Some)
    }

    /// The right to stream, for as long as it is kept, as soon as there is a place.
    pub async fn stream_permit(&self) -> Answer<StreamPermit> {
        self.streams.take().await
    }
}

#[cfg(feature = "sql")]
impl App {
    /// The right to run statements, for as long as it is kept. Those who ask wait in order, no longer than for
    /// `patience`.
    pub async fn statement_permit(&self, patience: std::time::Duration) -> Answer<OwnedSemaphorePermit> {
        if let Ok(permit) = Arc::clone(&self.statements).try_acquire_owned() {
            return Ok(permit);
        }
        let busy = || Problem::busy("the limit of running and waiting SQL requests is reached (--max-sql)");
        let _place = Arc::clone(&self.waiting_statements).try_acquire_owned().map_err(|_| busy())?;
        if self.config.limits.statements == 0 {
            return Err(busy());
        }
        let permit = tokio::time::timeout(patience, Arc::clone(&self.statements).acquire_owned()).await;
        permit.map_err(|_| busy())?.map_err(|_| busy())
    }
}

impl Service {
    /// Answers for `app`.
    pub fn new(app: Arc<App>) -> Self {
        let routes = v0::routes()
            .merge(operations::routes())
            .merge(health::routes())
            .merge(openapi::routes())
            .merge(pages::routes())
            .merge(debug::routes())
            .fallback(nothing_here);
        let router = routes.with_state(Arc::clone(&app));
        Service { app, router }
    }

    /// How the server is run.
    pub fn config(&self) -> &Config {
        &self.app.config
    }

    /// The response to a request whose body is not to be received.
    fn refusal<B: http_body::Body>(&self, request: &Request<B>) -> Option<Response<Body>> {
        let limits = &self.app.config.limits;
        let is_import = is_import(request.method(), request.uri().path());
        let limit_bytes = if is_import { limits.import_bytes } else { limits.body_bytes };
        let uri = request.uri();
        let checked = check_query(request.method(), uri.path(), uri.query());
        checked.and_then(|()| check_head(request, limit_bytes)).err().map(|problem| problem.response())
    }

    /// The response to a request. Ready at once if memory can tell. A client that is still sending a body which nobody
    /// takes is heard first, for a while: it may not look at an answer before.
    pub fn answer<B>(
        &self,
        request: Request<B>,
    ) -> impl Future<Output = std::result::Result<Response<Body>, Infallible>> + use<B>
    where
        B: http_body::Body<Data = bytes::Bytes> + Unpin + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let begun = Instant::now();
        let limit_bytes = self.app.config.limits.body_bytes;
        let ready = match self.app.admit(&request) {
            Ok(()) => fast::answer(&self.app, &request).or_else(|| self.refusal(&request)),
            Err(problem) => Some(problem.response()),
        };
        let noted = Noted::of(&self.app, &request, begun, ready.is_some());
        let later = match ready {
            Some(response) => {
                let left = is_to_be_heard(response.status()).then(|| left_of(request)).flatten();
                Err((noted.end(&self.app, response), left))
            }
            None => Ok((self.router.clone(), Arc::clone(&self.app), request, noted)),
        };
        async move {
            let (response, left) = match later {
                Err(answered) => answered,
                Ok((mut router, app, request, noted)) => {
                    let (mut parts, body) = request.into_parts();
                    // It is answered as GET is, and the HTTP library leaves the body out. Single records have a HEAD of
                    // their own, which reads no long value.
                    if parts.method == Method::HEAD && Entry::of(parts.uri.path()).is_none() {
                        parts.method = Method::GET;
                    }
                    let (body, left) = lend(body, &parts.headers);
                    let Ok(response) = router.call(Request::from_parts(parts, body)).await;
                    let left = left.take().filter(|_| is_to_be_heard(response.status()));
                    (noted.end(&app, response.map(Body::from)), left)
                }
            };
            if let Some(body) = left {
                throw_away(body, limit_bytes).await;
            }
            Ok(response)
        }
    }
}

/// The body of a request that is answered without it, unless its client waits to be asked for it.
#[cold]
fn left_of<B: http_body::Body>(request: Request<B>) -> Option<B> {
    let asks_first = request.headers().contains_key(EXPECT);
    (!asks_first && !request.body().is_end_stream()).then(|| request.into_body())
}

/// What is said and counted of a request at its end.
struct Noted {
    begun: Instant,
    kind: Kind,
    /// The id that the answer carries: of one that was answered at once only where the client gave it, or a line is
    /// wanted.
    id: Option<HeaderValue>,
    line: Option<Line>,
    /// What was asked, of one that was handed on: only such a one is slow.
    asked: Option<(Method, Uri)>,
}

impl Noted {
    #[inline]
    fn of<B>(app: &App, request: &Request<B>, begun: Instant, at_once: bool) -> Self {
        let (headers, path) = (request.headers(), request.uri().path());
        let wanted = trace::is_wanted();
        let id = (!at_once || wanted || headers.contains_key(REQUEST_ID)).then(|| app.ids.id_of(headers));
        let line =
            id.as_ref().filter(|_| wanted).map(|id| Line::new(request.method(), path, headers, id.clone()));
        let asked = (!at_once).then(|| (request.method().clone(), request.uri().clone()));
        Noted { begun, kind: kind(request.method(), path), id, line, asked }
    }

    #[inline]
    fn end(self, app: &App, mut response: Response<Body>) -> Response<Body> {
        let took = self.begun.elapsed();
        app.observed.note(self.kind, took, response.status().as_u16());
        if let Some(line) = self.line {
            line.write(&response, took);
        }
        if let (StatusCode::METHOD_NOT_ALLOWED, Some((_, uri))) = (response.status(), &self.asked) {
            response.headers_mut().insert(ALLOW, allowed(uri.path()));
        }
        // A profile takes as long as it was asked to.
        let may_be_slow = |(_, uri): &(_, Uri)| app.slow.is_slow(took) && uri.path() != "/debug/profile";
        if let Some((method, uri)) = self.asked.filter(may_be_slow) {
            app.slow.note(Slow {
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

/// What a 405 has to say (RFC 9110, 15.5.6): the methods that there are.
fn allowed(path: &str) -> HeaderValue {
    HeaderValue::from_str(&methods_of(path)).expect("methods are letters")
}

async fn nothing_here() -> Problem {
    Problem::not_found("there is nothing at this path")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_nobody_takes_are_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let app = App::new(Config::new(dir.path())).unwrap();
        let held: Vec<Body> = (0..1000).map_while(|_| app.body_of(vec![7; 1 << 20]).ok()).collect();
        assert_eq!(held.len(), 256);
        let refused = app.body_of(vec![7; FREE_ANSWER_BYTES + 1]).unwrap_err();
        assert_eq!((refused.status, refused.retry_after_s), (StatusCode::SERVICE_UNAVAILABLE, Some(1)));
        assert!(app.body_of(vec![7; FREE_ANSWER_BYTES]).is_ok(), "a short one is not counted");
        drop(held);
        assert!(app.body_of(vec![7; 1 << 20]).is_ok());
    }
}
