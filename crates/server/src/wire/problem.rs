//! Errors as RFC 9457 problems: a status, a type that programs can distinguish, and a message for people.

use crate::wire::body::Body;
use crate::wire::target::BadEscape;
use axum::http::header::{CONTENT_TYPE, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, Response, StatusCode};
use pando::remote::{Capability, InDoubt, Unsupported};
use pando::{Error, ErrorKind};
use serde_json::{Value, json};

/// The problem of what a server over a remote store does not have.
const UNSUPPORTED: &str = "unsupported";

/// The reason why a request failed.
#[derive(Debug)]
pub struct Problem {
    /// The status of the response.
    pub status: StatusCode,
    /// The name by which programs distinguish problems: the end of the `type` member.
    pub kind: &'static str,
    /// A message with what happened, where, and what to do.
    pub detail: String,
    /// The number of seconds after which a retry may succeed.
    pub retry_after_s: Option<u32>,
    /// The address to which the client should send the request instead.
    pub location: Option<String>,
    /// What the server does not have, if that is the reason.
    pub capability: Option<Capability>,
    /// The library's error, if there was one.
    pub cause: Option<Error>,
}

/// The name of the problem in a response, as an extension of it.
#[derive(Clone, Copy, Debug)]
pub struct Reason(pub &'static str);

/// The result of a handler.
pub type Answer<T = Response<Body>> = Result<T, Problem>;

impl Problem {
    /// Creates a problem with `status`.
    pub fn new(status: StatusCode, kind: &'static str, detail: impl Into<String>) -> Self {
        Problem {
            status,
            kind,
            detail: detail.into(),
            retry_after_s: None,
            location: None,
            capability: None,
            cause: None,
        }
    }

    /// Creates a 400.
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Problem::new(StatusCode::BAD_REQUEST, "bad-request", detail)
    }

    /// Creates a 404.
    pub fn not_found(detail: impl Into<String>) -> Self {
        Problem::new(StatusCode::NOT_FOUND, "not-found", detail)
    }

    /// Creates a 405.
    pub fn method_not_allowed() -> Self {
        Problem::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method-not-allowed",
            "this path does not support the method; the header `allow` lists those that it supports",
        )
    }

    /// Creates a 413.
    pub fn too_large(limit_bytes: u64) -> Self {
        let detail = format!("the body is longer than {limit_bytes} bytes; nothing was stored");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", detail)
    }

    /// Creates a 503: a limit is reached, and one more request would only use memory.
    pub fn busy(what: &str) -> Self {
        let detail = format!("{what}; nothing was done; try again in a moment");
        let mut problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "busy", detail);
        problem.retry_after_s = Some(1);
        problem
    }

    /// Creates a 500: the server itself failed.
    pub fn internal(detail: impl Into<String>) -> Self {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
    }

    /// Creates a 501: a server over a remote store has no such operation.
    #[cfg(feature = "remote")]
    pub fn unsupported(capability: Capability) -> Self {
        let mut problem = Problem::new(StatusCode::NOT_IMPLEMENTED, UNSUPPORTED, capability.advice());
        problem.capability = Some(capability);
        problem
    }

    /// Returns the problem as an error of the library.
    pub fn into_error(self) -> Error {
        self.cause.unwrap_or_else(|| Error::new(ErrorKind::Io, self.detail))
    }

    /// Returns the JSON document of the problem.
    pub fn to_json(&self) -> Value {
        let mut members = json!({
            "type": format!("urn:pando:problem:{}", self.kind),
            "title": self.status.canonical_reason().unwrap_or_default(),
            "status": self.status.as_u16(),
            "detail": self.detail,
        });
        if let Some(capability) = self.capability {
            members["capability"] = json!(capability.name());
        }
        if let Some(commit) = self.cause.as_ref().and_then(InDoubt::in_error) {
            members["commit"] = json!(commit.to_string());
        }
        members
    }

    /// Returns the response.
    pub fn response(&self) -> Response<Body> {
        let status = self.status;
        let mut response = Response::new(Body::whole(self.to_json().to_string()));
        *response.status_mut() = status;
        response.extensions_mut().insert(Reason(self.kind));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.retry_after_s {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(location) = self.location.as_ref().and_then(|address| HeaderValue::from_str(address).ok())
        {
            headers.insert(LOCATION, location);
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            // Browsers can ask for this kind of credentials: the token is the password of any user.
            let basic = "Basic realm=\"Pando: a token as the password\", charset=\"UTF-8\"";
            headers.append(WWW_AUTHENTICATE, HeaderValue::from_static(basic));
        }
        response
    }
}

/// The response to a client of Hrana, which reads a message and a code.
impl Problem {
    /// Returns the response with these members beside those of a problem.
    pub fn hrana_response(&self) -> Response<Body> {
        let mut members = self.to_json();
        members["message"] = json!(self.detail);
        members["code"] = json!(self.kind.to_uppercase().replace('-', "_"));
        let mut response = self.response();
        *response.body_mut() = Body::whole(members.to_string());
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }
}

impl From<BadEscape> for Problem {
    fn from(BadEscape: BadEscape) -> Self {
        Problem::bad_request("a % in the address is not followed by two hexadecimal digits")
    }
}

/// Returns whether the error comes from the operating system.
fn is_of_the_system(error: &Error) -> bool {
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        if error.is::<std::io::Error>() {
            return true;
        }
        cause = error.source();
    }
    false
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let unsupported = Unsupported::in_error(&error);
        let (status, kind) = match error.kind() {
            ErrorKind::Invalid if unsupported.is_some() => (StatusCode::UNPROCESSABLE_ENTITY, UNSUPPORTED),
            ErrorKind::Conflict => (StatusCode::CONFLICT, "conflict"),
            ErrorKind::SnapshotTooOld => (StatusCode::CONFLICT, "snapshot-too-old"),
            ErrorKind::TooOld => (StatusCode::GONE, "too-old"),
            ErrorKind::Exists => (StatusCode::CONFLICT, "exists"),
            ErrorKind::Mismatch => (StatusCode::CONFLICT, "mismatch"),
            // A missing file is not the same as a missing key or table.
            ErrorKind::Missing if is_of_the_system(&error) => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
            ErrorKind::Missing => (StatusCode::NOT_FOUND, "not-found"),
            ErrorKind::Invalid => (StatusCode::BAD_REQUEST, "bad-request"),
            ErrorKind::Full => (StatusCode::INSUFFICIENT_STORAGE, "full"),
            ErrorKind::Latched => (StatusCode::SERVICE_UNAVAILABLE, "latched"),
            ErrorKind::Fenced => (StatusCode::SERVICE_UNAVAILABLE, "fenced"),
            // The server opens no database read-only, except as a replica.
            ErrorKind::ReadOnly => (StatusCode::SERVICE_UNAVAILABLE, "replica"),
            ErrorKind::Closed => (StatusCode::SERVICE_UNAVAILABLE, "closed"),
            ErrorKind::Locked => (StatusCode::SERVICE_UNAVAILABLE, "locked"),
            ErrorKind::Indeterminate => (StatusCode::INTERNAL_SERVER_ERROR, "indeterminate"),
            ErrorKind::Corruption | ErrorKind::Foreign => (StatusCode::INTERNAL_SERVER_ERROR, "corruption"),
            _ => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
        };
        let mut problem = Problem::new(status, kind, error.to_string());
        problem.capability = unsupported.map(|refused| refused.capability);
        problem.cause = Some(error);
        problem
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_gone_is_no_absent_table() {
        let missing = || Error::new(ErrorKind::Missing, "it is missing");
        assert_eq!(Problem::from(missing()).status, StatusCode::NOT_FOUND);
        let gone = std::io::Error::from(std::io::ErrorKind::NotFound);
        assert_eq!(Problem::from(missing().caused_by(gone)).status, StatusCode::INTERNAL_SERVER_ERROR);
        let within = missing().caused_by(missing().caused_by(std::io::Error::other("gone")));
        assert_eq!(Problem::from(within).status, StatusCode::INTERNAL_SERVER_ERROR);
    }
}
