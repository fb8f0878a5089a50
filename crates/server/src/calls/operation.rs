//! One operation of the HTTP interface: everything about it except its handler.
//!
//! Each module of `operations` has the entries of its own handlers in its `OPERATIONS`, and `routes::table` collects
//! them. Each entry has a handler for a server over a remote store as well, or names the capability that it needs of
//! Pando's own engine. Everything else is derived from these entries: which handler a request gets, what a token must
//! allow, what a request counts as, which parameters it may have, what `Allow` lists, what the log leaves out of a
//! path, the OpenAPI document, and the tables of docs/http.md, which tests compare.

use crate::access::tokens::Scope;
use crate::calls::call::Call;
use crate::calls::meanings::Meaning;
use crate::calls::parts::Parts;
use crate::calls::target::Target;
use crate::data::engine::Native;
#[cfg(feature = "remote")]
use crate::data::engine::Remote;
use crate::limits::receive::RequestBody;
use crate::watch::observe::Kind;
use crate::wire::body::Body;
use crate::wire::problem::Answer;
use axum::http::{HeaderMap, Response};
use pando::remote::Capability;
use std::pin::Pin;

/// The future that a handler returns.
pub type Pending = Pin<Box<dyn Future<Output = Answer> + Send>>;
/// Calls a handler with the parts of the server that it names, and with the body if it uses one.
pub type Run<E = Native> = fn(&Parts<E>, Call, RequestBody) -> Pending;
/// Returns a response on the thread that read the socket if the value is in memory, without a hand-off and without a
/// lock. In every other case it returns `None`, and the handler runs.
pub type Recall = fn(&Parts, Target<'_>, &HeaderMap) -> Option<Response<Body>>;

/// Path parameters that the log leaves out, with all that follows them. Keys are data, and a client that knows the
/// token of a transaction can use it.
pub const LEFT_OUT: [&str; 2] = ["{key}", "{transaction}"];

/// The permission that a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// None: the health of the server is public.
    Nothing,
    /// Any token: the response depends on the token, or contains no user's data.
    Any,
    /// This scope in the database of `/v0`.
    Default(Scope),
    /// This scope in the database that the path names.
    Database(Scope),
    /// This scope in all databases.
    All(Scope),
}

/// Creates an operation whose handler is generic over the engine, so that it is also that of a server over a remote
/// store. The arguments are those of [`Operation::new`].
macro_rules! on_both {
    ($method:expr, $path:expr, $access:expr, $kind:expr, $summary:expr, $run:expr $(,)?) => {{
        let operation =
            $crate::calls::operation::Operation::new($method, $path, $access, $kind, $summary, $run);
        #[cfg(feature = "remote")]
        let operation = operation.on_store($run);
        operation
    }};
    // With a handler of its own for a server over a remote store.
    (
        $method:expr, $path:expr, $access:expr, $kind:expr, $summary:expr, $run:expr,
        store: $on_store:expr $(,)?
    ) => {{
        let operation =
            $crate::calls::operation::Operation::new($method, $path, $access, $kind, $summary, $run);
        #[cfg(feature = "remote")]
        let operation = operation.on_store($on_store);
        operation
    }};
}
pub(crate) use on_both;

/// An operation. Each GET also responds to HEAD. HEAD has an entry only where it has a handler of its own.
#[derive(Debug)]
pub struct Operation {
    /// The method.
    pub method: &'static str,
    /// The path, with its parameters in braces. Each parameter is one segment, and `{key}` is the rest of the path.
    pub path: &'static str,
    /// The permission that the operation needs.
    pub access: Access,
    /// The kind that the operation counts as.
    pub kind: Kind,
    /// Calls the handler.
    pub run: Run,
    /// Calls the handler of a server over a remote store.
    #[cfg(feature = "remote")]
    pub remote: Option<Run<Remote>>,
    /// What a server over a remote store does not have, so that it refuses the operation.
    pub needs: Option<Capability>,
    /// Responds from memory.
    pub recall: Option<Recall>,
    /// A description of one line.
    pub summary: &'static str,
    /// Parameters of the query and headers, by their names in `routes::parameters`.
    pub parameters: &'static [&'static str],
    /// The body, by its name in `routes::bodies`. Empty if the operation has no body.
    pub body: &'static str,
    /// The statuses in addition to those that every operation has.
    pub responses: &'static [Meaning],
    /// The content types of a successful response. Empty if the response has no body.
    pub content: &'static [&'static str],
    /// Whether the query may have any parameters, which are ignored. A link to a page may carry some.
    pub has_any_query: bool,
    /// Whether the body may be as long as the body of an import.
    pub is_import: bool,
    /// Whether the response is immediate even under load, so that it is never a 503 for being busy.
    pub is_at_once: bool,
    /// Whether the operation ends soon after its client stops sending, because it may take long.
    pub ends_with_client: bool,
    /// Whether the request sets its own duration, so that it never counts as slow.
    pub is_timed: bool,
    /// Whether a replica runs the operation itself although its method is not GET, because it commits nothing, or
    /// refuses what it would commit.
    pub runs_on_replicas: bool,
}

impl Operation {
    /// Creates an operation that has no body and returns JSON.
    pub const fn new(
        method: &'static str,
        path: &'static str,
        access: Access,
        kind: Kind,
        summary: &'static str,
        run: Run,
    ) -> Self {
        Operation {
            method,
            path,
            access,
            kind,
            run,
            #[cfg(feature = "remote")]
            remote: None,
            needs: None,
            recall: None,
            summary,
            parameters: &[],
            body: "",
            responses: &[],
            content: &["application/json"],
            has_any_query: false,
            is_import: false,
            is_at_once: false,
            ends_with_client: false,
            is_timed: false,
            runs_on_replicas: false,
        }
    }

    /// Adds a function that responds from memory.
    pub const fn recalled_by(mut self, recall: Recall) -> Self {
        self.recall = Some(recall);
        self
    }

    /// Sets the handler of a server over a remote store.
    #[cfg(feature = "remote")]
    pub const fn on_store(mut self, run: Run<Remote>) -> Self {
        self.remote = Some(run);
        self
    }

    /// Names what a server over a remote store does not have. It refuses the operation with 501.
    pub const fn needs(mut self, capability: Capability) -> Self {
        self.needs = Some(capability);
        self
    }

    /// Sets the parameters.
    pub const fn takes(mut self, parameters: &'static [&'static str]) -> Self {
        self.parameters = parameters;
        self
    }

    /// Sets the body.
    pub const fn receives(mut self, body: &'static str) -> Self {
        self.body = body;
        self
    }

    /// Sets the statuses.
    pub const fn responses(mut self, responses: &'static [Meaning]) -> Self {
        self.responses = responses;
        self
    }

    /// Sets the content types of a successful response.
    pub const fn sends(mut self, content: &'static [&'static str]) -> Self {
        self.content = content;
        self
    }

    /// Allows any query.
    pub const fn with_any_query(mut self) -> Self {
        self.has_any_query = true;
        self
    }

    /// Allows a body as long as the body of an import.
    pub const fn importing(mut self) -> Self {
        self.is_import = true;
        self
    }

    /// Marks the response as immediate.
    pub const fn at_once(mut self) -> Self {
        self.is_at_once = true;
        self
    }

    /// Ends the operation soon after its client stops sending.
    pub const fn ending_with_client(mut self) -> Self {
        self.ends_with_client = true;
        self
    }

    /// Lets a replica run the operation itself.
    pub const fn on_replicas(mut self) -> Self {
        self.runs_on_replicas = true;
        self
    }

    /// Returns whether a replica has to leave the operation to its primary.
    pub fn is_of_primary(&self) -> bool {
        !(self.runs_on_replicas || self.method == "GET" || self.method == "HEAD")
    }

    /// Marks the duration as set by the request.
    pub const fn timed(mut self) -> Self {
        self.is_timed = true;
        self
    }
}
