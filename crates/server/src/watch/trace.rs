//! The id of each request, and an optional log line about it.
//!
//! A request keeps the id that its client sent (`x-request-id`), or gets a new one; the response carries it. If the
//! request has a `traceparent` (W3C Trace Context), the line names its trace. The line is a `tracing` event with the
//! target `access`. It has the path without the query, without keys, because they are data, and without transaction
//! tokens, because anybody who knows such a token can use the transaction.

use crate::spans::Parent;
use crate::wire::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Version};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The header of the request id.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The longest id that is kept.
const MAX_ID_BYTES: usize = 128;

/// The parts of a log line that are kept while the request runs.
#[derive(Debug)]
pub struct Line {
    version: Version,
    method: Method,
    path: String,
    id: HeaderValue,
    parent: Option<Parent>,
    client: Option<IpAddr>,
}

/// Generates ids that no other start of the server generates.
#[derive(Debug)]
pub struct Ids {
    start: u64,
    next: AtomicU64,
}

impl Ids {
    /// Creates a generator from the random number `start`.
    pub fn new(start: u64) -> Self {
        Ids { start, next: AtomicU64::new(1) }
    }

    fn next(&self) -> HeaderValue {
        // Relaxed: each number is given out once, in any order.
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        HeaderValue::from_str(&format!("{:016x}-{number:x}", self.start)).expect("hexadecimal digits")
    }

    /// Returns the id that the client sent, or a new one.
    pub fn id_of(&self, headers: &HeaderMap) -> HeaderValue {
        let is_good = |id: &&HeaderValue| !id.is_empty() && id.len() <= MAX_ID_BYTES && id.to_str().is_ok();
        headers.get(REQUEST_ID).filter(is_good).cloned().unwrap_or_else(|| self.next())
    }
}

/// Returns whether log lines are enabled.
#[inline]
pub fn is_wanted() -> bool {
    tracing::enabled!(target: "access", tracing::Level::INFO)
}

impl Line {
    /// Creates the line of a request; `shown` is its path without keys and tokens, `client` the address that it comes
    /// from.
    pub fn new<B>(request: &Request<B>, shown: &str, id: HeaderValue, client: Option<IpAddr>) -> Self {
        let (version, method) = (request.version(), request.method().clone());
        Line { version, method, path: shown.to_owned(), id, parent: Parent::of(request.headers()), client }
    }

    /// Writes the line.
    pub fn write(&self, response: &Response<Body>, took: Duration) {
        let id = self.id.to_str().unwrap_or_default();
        let length = http_body::Body::size_hint(response.body()).exact();
        tracing::info!(
            target: "access",
            version = ?self.version,
            method = %self.method,
            path = %self.path,
            status = response.status().as_u16(),
            us = took.as_micros() as u64,
            bytes = length,
            id,
            client = self.client.map(tracing::field::display),
            trace = self.parent.map(|parent| format!("{:032x}", parent.trace)),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_kept_if_they_are_good() {
        let ids = Ids::new(7);
        let of =
            |id: &str| ids.id_of(&HeaderMap::from_iter([(REQUEST_ID, HeaderValue::from_str(id).unwrap())]));
        assert_eq!(of("mine"), "mine");
        assert_ne!(of(&"x".repeat(129)).len(), 129);
        assert_ne!(ids.id_of(&HeaderMap::new()), ids.id_of(&HeaderMap::new()));
    }
}
