//! Responses, as handlers give them.

use crate::wire::body::Body;
use axum::http::header::{CONTENT_TYPE, HeaderName};
use axum::http::{HeaderValue, Response, StatusCode};
use bytes::Bytes;
use serde::Serialize;

/// The number of the commit that a request made.
pub const COMMIT: HeaderName = HeaderName::from_static("pando-commit");
/// An object a line.
pub const NDJSON: &str = "application/x-ndjson";

/// 200 with a value.
pub fn found(value: Body) -> Response<Body> {
    typed("application/octet-stream", Response::new(value))
}

/// 404 without more: that a key is absent is an answer, not a problem.
pub fn absent() -> Response<Body> {
    empty(StatusCode::NOT_FOUND)
}

/// 304: the client has it.
pub fn not_modified() -> Response<Body> {
    empty(StatusCode::NOT_MODIFIED)
}

/// Nothing but a status.
pub fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// 204, with the number of the commit if there was one.
pub fn done(commit: Option<u64>) -> Response<Body> {
    let mut response = empty(StatusCode::NO_CONTENT);
    if let Some(number) = commit {
        response.headers_mut().insert(COMMIT, HeaderValue::from(number));
    }
    response
}

/// A response of JSON.
pub fn json(status: StatusCode, value: &impl Serialize) -> Response<Body> {
    let mut text = serde_json::to_vec(value).expect("what is answered is plain data");
    text.push(b'\n');
    let mut response = whole("application/json", text);
    *response.status_mut() = status;
    response
}

/// 200 with a body that is there.
pub fn whole(content_type: &'static str, body: impl Into<Bytes>) -> Response<Body> {
    typed(content_type, Response::new(Body::whole(body)))
}

/// 200 with a body that comes piece by piece.
pub fn streamed(content_type: &'static str, body: axum::body::Body) -> Response<Body> {
    typed(content_type, Response::new(Body::from(body)))
}

/// The response as one of that type.
pub fn typed(content_type: &'static str, mut response: Response<Body>) -> Response<Body> {
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// A page that is always the same. No script or style comes from elsewhere, and no other site may frame it.
pub fn page(content_type: &'static str, content: &'static [u8]) -> Response<Body> {
    let mut response = whole(content_type, content);
    let headers = response.headers_mut();
    let policy = "default-src 'self'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; \
                  frame-ancestors 'none'";
    headers.insert("content-security-policy", HeaderValue::from_static(policy));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    response
}
