//! Gets that memory can answer, answered on the thread that read the socket: no hand-off, no routing, no lock.
//!
//! Whatever is not such a get, or is not quite as it should be, is left to the routes: `None`.

use crate::data::conditions::Conditions;
use crate::data::open::Open;
use crate::operations::place::Entry;
use crate::operations::{self, v0};
use crate::serving::service::App;
use crate::wire::body::Body;
use crate::wire::target;
use axum::http::header::{CONTENT_TYPE, IF_MATCH, IF_NONE_MATCH};
use axum::http::{HeaderValue, Method, Request, Response, StatusCode};
use pando::{Resident, Table};

/// The answer, if memory has it.
#[inline]
pub fn answer<B>(app: &App, request: &Request<B>) -> Option<Response<Body>> {
    if request.method() != Method::GET {
        return None;
    }
    if request.uri().path() == v0::ENTITY_PATH {
        let query = request.uri().query()?;
        let id = target::parameter(Some(query), "id").ok()??;
        // What else is asked for is for the routes to refuse.
        if id.is_empty() || query.contains('&') {
            return None;
        }
        return match resident(&app.default, &app.entity.load(), &id)? {
            Some(value) => Some(app.body_of(value).map_or_else(|busy| busy.response(), found)),
            None => Some(absent()),
        };
    }
    let entry = Entry::of(request.uri().path())?.ok()?;
    if request.uri().query().is_some() {
        return None;
    }
    let headers = request.headers();
    if [IF_MATCH, IF_NONE_MATCH, operations::TRANSACTION].iter().any(|name| headers.contains_key(name)) {
        return None;
    }
    let value = app.databases.with_open(entry.database, |open| {
        open.with_known_table(&entry.table, |table| resident(open, table, &entry.key))
    });
    match value??? {
        Some(value) => {
            let answer = operations::whole(app, value, &Conditions::default(), false);
            Some(answer.unwrap_or_else(|busy| busy.response()))
        }
        None => Some(absent()),
    }
}

/// What memory knows of `key`: a value, that it is absent, or nothing.
#[inline]
fn resident(open: &Open, table: &Table, key: &[u8]) -> Option<Option<Vec<u8>>> {
    match open.db.snapshot().ok()?.get_resident(table, key).ok()? {
        Resident::Found(value) => Some(Some(value)),
        Resident::Absent => Some(None),
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
