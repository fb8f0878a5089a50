//! One operation of the HTTP interface: all there is to say of it, beside its handler.
//!
//! Each module of `operations` has the entries of its own handlers in its `OPERATIONS`, and `routes::table` collects
//! them. Everything else is made of these entries: which handler a request gets, what a token must allow, what a
//! request counts as, which parameters it may have, what `Allow` lists, what the log leaves out of a path, the OpenAPI
//! document, and the table of docs/http.md, which a test compares.

use crate::access::auth::Scope;
use crate::calls::call::Call;
use crate::calls::meanings::Meaning;
use crate::calls::parts::Parts;
use crate::calls::target::Target;
use crate::limits::receive::RequestBody;
use crate::watch::observe::Kind;
use crate::wire::body::Body;
use crate::wire::problem::Answer;
use axum::http::{HeaderMap, Response};
use std::pin::Pin;

/// What a handler works on.
pub type Pending = Pin<Box<dyn Future<Output = Answer> + Send>>;
/// Calls a handler, with the parts of the server that it names, and with the body if it has a use for that.
pub type Run = fn(&Parts, Call, RequestBody) -> Pending;
/// Answers on the thread that read the socket, if memory knows the answer: no hand-off and no lock. Whatever is not
/// quite as it should be is left to the handler: `None`.
pub type Recall = fn(&Parts, Target<'_>, &HeaderMap) -> Option<Response<Body>>;

/// Parameters of a path that the log leaves out, with all that follows: keys are data, and a client that knows
/// the token of a transaction can use it.
pub const LEFT_OUT: [&str; 2] = ["{key}", "{transaction}"];

/// What a request must be allowed to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing: whether the server is well is nobody's secret.
    Nothing,
    /// Any token will do: the answer depends on it, or says nothing of anybody's data.
    Any,
    /// This much in the database of `/v0`.
    Default(Scope),
    /// This much in the database that the path names.
    Database(Scope),
    /// This much in all databases.
    All(Scope),
}

/// An operation. HEAD is wherever GET is: only where it has a handler of its own, it has an entry.
#[derive(Debug)]
pub struct Operation {
    /// The method.
    pub method: &'static str,
    /// The path, with its parameters in braces: each is one segment, and `{key}` all the rest.
    pub path: &'static str,
    /// What it needs.
    pub access: Access,
    /// What it counts as.
    pub kind: Kind,
    /// Calls the handler.
    pub run: Run,
    /// Answers from memory.
    pub recall: Option<Recall>,
    /// One line.
    pub summary: &'static str,
    /// Parameters of the query and headers, by their names in `routes::parameters`.
    pub parameters: &'static [&'static str],
    /// What the body is, by its name in `routes::bodies`; empty: it has none.
    pub body: &'static str,
    /// The statuses beyond those that every operation has.
    pub answers: &'static [Meaning],
    /// The types of a body that comes with success; none: it has no body.
    pub content: &'static [&'static str],
    /// Whether its query may have any parameters, which mean nothing: a link to a page may carry some.
    pub has_any_query: bool,
    /// Whether the body may be as long as that of an import.
    pub is_import: bool,
    /// Whether it is answered at once, whatever is at work: it is never 503 for being busy.
    pub is_at_once: bool,
    /// Whether it ends soon after its client sends nothing more, as it may take long.
    pub ends_with_client: bool,
    /// Whether it takes as long as it is asked to, so that it is never slow.
    pub is_timed: bool,
}

impl Operation {
    /// An operation that takes nothing, and answers with JSON.
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
            recall: None,
            summary,
            parameters: &[],
            body: "",
            answers: &[],
            content: &["application/json"],
            has_any_query: false,
            is_import: false,
            is_at_once: false,
            ends_with_client: false,
            is_timed: false,
        }
    }

    /// The same, which memory may answer.
    pub const fn recalled_by(mut self, recall: Recall) -> Self {
        self.recall = Some(recall);
        self
    }

    /// The same with parameters.
    pub const fn takes(mut self, parameters: &'static [&'static str]) -> Self {
        self.parameters = parameters;
        self
    }

    /// The same with a body.
    pub const fn receives(mut self, body: &'static str) -> Self {
        self.body = body;
        self
    }

    /// The same with these statuses.
    pub const fn answers(mut self, answers: &'static [Meaning]) -> Self {
        self.answers = answers;
        self
    }

    /// The same with success of these types.
    pub const fn sends(mut self, content: &'static [&'static str]) -> Self {
        self.content = content;
        self
    }

    /// The same, with whatever query.
    pub const fn with_any_query(mut self) -> Self {
        self.has_any_query = true;
        self
    }

    /// The same, whose body may be as long as that of an import.
    pub const fn importing(mut self) -> Self {
        self.is_import = true;
        self
    }

    /// The same, answered at once.
    pub const fn at_once(mut self) -> Self {
        self.is_at_once = true;
        self
    }

    /// The same, which ends soon after its client sends nothing more.
    pub const fn ending_with_client(mut self) -> Self {
        self.ends_with_client = true;
        self
    }

    /// The same, which takes as long as it is asked to.
    pub const fn timed(mut self) -> Self {
        self.is_timed = true;
        self
    }
}
