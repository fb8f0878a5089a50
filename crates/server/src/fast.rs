//! Gets that memory can answer, answered on the thread that read the socket: no hand-off, no routing, no lock.
//!
//! Whatever is not such a get, or is not quite as it should be, is left to the routes: `None`.

use crate::app::App;
use crate::body::Body;
use crate::{target, v0};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Method, Request, Response, StatusCode};
use pando::Resident;

/// The answer, if memory has it.
#[inline]
pub fn answer<B>(app: &App, request: &Request<B>) -> Option<Response<Body>> {
    if request.method() != Method::GET || request.uri().path() != v0::ENTITY_PATH {
        return None;
    }
    let id = target::parameter(request.uri().query(), "id").ok()??;
    if id.is_empty() {
        return None;
    }
    let snapshot = app.default.db.snapshot().ok()?;
    match snapshot.get_resident(&app.entity.load(), &id).ok()? {
        Resident::Found(value) => Some(found(Body::whole(value))),
        Resident::Absent => Some(absent()),
        Resident::WouldWait => None,
    }
}

/// 200 with a value.
pub fn found(value: Body) -> Response<Body> {
    let mut response = Response::new(value);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    response
}

/// 404 without more: that a key is absent is an answer, not a problem.
pub fn absent() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}
