//! Responses of handlers.

use crate::wire::body::Body;
use axum::http::header::{CONTENT_TYPE, HeaderName};
use axum::http::{HeaderValue, Response, StatusCode};
use bytes::Bytes;
use serde::Serialize;

/// The header with the number of the commit that a request made.
pub const COMMIT: HeaderName = HeaderName::from_static("pando-commit");
/// The header with the number of the commit that the database must have before a request is served.
pub const MIN_COMMIT: HeaderName = HeaderName::from_static("pando-min-commit");
/// Shorter responses are not counted.
pub const FREE_ANSWER_BYTES: usize = 64 << 10;

/// Marks a response whose body is in memory, and which the service counts because its handler has not.
#[derive(Clone, Copy, Debug)]
pub struct Uncounted;

/// The content type of one object per line.
pub const NDJSON: &str = "application/x-ndjson";

/// Returns 200 with a value.
#[inline]
pub fn found(value: Body) -> Response<Body> {
    // It is checked when this is compiled, and not for each value.
    static OCTETS: HeaderValue = HeaderValue::from_static("application/octet-stream");
    let mut response = Response::new(value);
    response.headers_mut().insert(CONTENT_TYPE, OCTETS.clone());
    response
}

/// Returns 404 without a body: an absent key is a result, not a problem.
pub fn absent() -> Response<Body> {
    empty(StatusCode::NOT_FOUND)
}

/// Returns 304: the client already has the value.
pub fn not_modified() -> Response<Body> {
    empty(StatusCode::NOT_MODIFIED)
}

/// Returns a response with only a status.
pub fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// Returns 204, with the number of the commit if there was one.
pub fn done(commit: Option<u64>) -> Response<Body> {
    let mut response = empty(StatusCode::NO_CONTENT);
    if let Some(number) = commit {
        response.headers_mut().insert(COMMIT, HeaderValue::from(number));
    }
    response
}

/// Returns a response of JSON.
pub fn json(status: StatusCode, value: &impl Serialize) -> Response<Body> {
    let mut text = serde_json::to_vec(value).expect("what is answered is plain data");
    text.push(b'\n');
    let mut response = whole("application/json", text);
    *response.status_mut() = status;
    response
}

/// Returns 200 with a body that is in memory. The service counts it if it is not short.
pub fn whole(content_type: &'static str, body: impl Into<Bytes>) -> Response<Body> {
    let body = body.into();
    let is_short = body.len() <= FREE_ANSWER_BYTES;
    let mut response = typed(content_type, Response::new(Body::whole(body)));
    if !is_short {
        response.extensions_mut().insert(Uncounted);
    }
    response
}

/// Returns 200 with a body that is a part of the program, or is counted elsewhere.
pub fn fixed(content_type: &'static str, body: impl Into<Bytes>) -> Response<Body> {
    typed(content_type, Response::new(Body::whole(body)))
}

/// Returns 200 with a body that is sent in pieces.
pub fn streamed(content_type: &'static str, body: axum::body::Body) -> Response<Body> {
    typed(content_type, Response::new(Body::from(body)))
}

/// Sets the content type of the response.
pub fn typed(content_type: &'static str, mut response: Response<Body>) -> Response<Body> {
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// Returns a page that never changes. It loads no script or style from elsewhere, and no other site may frame it.
pub fn page(content_type: &'static str, content: &'static [u8]) -> Response<Body> {
    let mut response = fixed(content_type, content);
    let headers = response.headers_mut();
    let policy = "default-src 'self'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; \
                  frame-ancestors 'none'";
    headers.insert("content-security-policy", HeaderValue::from_static(policy));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    response
}
