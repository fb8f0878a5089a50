//! The facts of a request that are counted and logged at its end.

use crate::access::glance::Glance;
use crate::routes::tree::Found;
use crate::spans::{Parent, Phases, RequestSpan, Spans};
use crate::watch::slow::{Asked, Slow};
use crate::watch::trace::{self, Line, REQUEST_ID};
use crate::watch::watcher::Watch;
use crate::wire::body::Body;
use crate::wire::problem::Reason;
use axum::http::header::ALLOW;
use axum::http::{HeaderValue, Method, Request, Response, StatusCode, Uri};
use std::net::IpAddr;
use std::time::{Duration, Instant, SystemTime};

/// The facts that are logged and counted at the end of a request.
pub struct Noted {
    begun: Instant,
    found: Found,
    /// The id that the response carries. If the response came from memory, it is set only if the client sent it, or if
    /// a log line is wanted.
    id: Option<HeaderValue>,
    line: Option<Line>,
    /// The method and address of a request that was handed to its handler. Only such a request can be slow.
    asked: Option<(Method, Uri)>,
    /// The client's span, if requests are exported.
    parent: Option<Parent>,
}

/// Returns whether a request whose response is there at once is only counted: its response carries no id, and neither
/// the log nor a collector of traces wants it. [`count`] does the rest.
#[inline]
pub fn is_only_counted(watch: &Watch, glance: Glance<'_>) -> bool {
    !glance.has_special_headers && watch.spans.is_none() && !trace::is_wanted()
}

/// Counts a request that `took` so long, and completes its refusal.
#[inline]
pub fn count(watch: &Watch, found: &Found, took: Duration, response: &mut Response<Body>) {
    watch.observed.note(found.kind(), took, response.status().as_u16());
    if let Some(Reason(reason)) = response.extensions().get() {
        watch.traffic.refused(reason);
    }
    if response.status() == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, found.allowed());
    }
}

impl Noted {
    /// Keeps what is known at the beginning of a request. `at_once` says that its response is there already; `client`
    /// returns the address of its client.
    #[inline]
    pub fn new<B>(
        watch: &Watch,
        request: &Request<B>,
        glance: Glance<'_>,
        found: Found,
        begun: Instant,
        at_once: bool,
        client: impl FnOnce() -> Option<IpAddr>,
    ) -> Self {
        let headers = request.headers();
        let wanted = trace::is_wanted();
        let has_id = || glance.has_special_headers && headers.contains_key(REQUEST_ID);
        let id = (!at_once || wanted || has_id()).then(|| watch.ids.id_of(headers));
        let shown = || found.shown(request.uri().path());
        let line = id.as_ref().filter(|_| wanted);
        let line = line.map(|id| Line::new(request, shown(), id.clone(), client()));
        let asked = (!at_once).then(|| (request.method().clone(), request.uri().clone()));
        let parent = watch.spans.as_ref().and_then(|_| Parent::of(headers));
        Noted { begun, found, id, line, asked, parent }
    }

    /// Counts the request, writes its log line, and completes the headers of its response.
    #[inline]
    pub fn end(self, watch: &Watch, response: &mut Response<Body>) {
        let took = self.begun.elapsed();
        count(watch, &self.found, took, response);
        if let Some(spans) = &watch.spans {
            self.export(&**spans, response, took);
        }
        if let Some(line) = self.line {
            line.write(response, took);
        }
        // The duration of a profile is set by its request.
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
    }

    /// Exports the request to a collector of traces.
    #[cold]
    fn export(&self, spans: &dyn Spans, response: &Response<Body>, took: Duration) {
        let (operation, now) = (self.found.operation(), SystemTime::now());
        spans.take(&RequestSpan {
            parent: self.parent,
            method: operation.map_or("", |operation| operation.method),
            route: operation.map_or("", |operation| operation.path),
            status: response.status().as_u16(),
            request_id: self.id.as_ref().and_then(|id| id.to_str().ok()),
            begun: now.checked_sub(took).unwrap_or(now),
            took,
            phases: response.extensions().get().copied(),
        });
    }
}
