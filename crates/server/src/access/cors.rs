//! Pages of other sites that may use the server from a browser (CORS, as the Fetch standard defines it).
//!
//! 1. Only the sites that the configuration names are allowed. There is no `*`: a server without tokens would be open
//!    to every page that its user visits.
//! 2. A browser asks first, with OPTIONS and without credentials. Such a preflight needs no token and does nothing.
//! 3. Credentials that a browser stores are not allowed (`Access-Control-Allow-Credentials`): a page sends its token
//!    itself, in `Authorization`.

use crate::wire::body::Body;
use crate::wire::response::empty;
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Uri};
use pando::{Error, Result};

/// What a page may send.
const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, PUT, POST, PATCH, DELETE");
const REQUEST_HEADERS: HeaderValue = HeaderValue::from_static(
    "accept, authorization, content-encoding, content-type, if-match, if-none-match, if-range, \
     last-event-id, pando-min-commit, pando-transaction, range, traceparent, x-request-id",
);
/// What a page may read, beside the headers that every page may read.
const RESPONSE_HEADERS: HeaderValue = HeaderValue::from_static(
    "accept-ranges, allow, content-range, etag, location, pando-commit, retry-after, x-request-id",
);
/// How long a browser remembers the response to a preflight, in seconds.
const MAX_AGE_S: HeaderValue = HeaderValue::from_static("600");

/// The sites whose pages may use the server.
#[derive(Debug, Default)]
pub struct Cors(Box<[HeaderValue]>);

impl Cors {
    /// Allows the pages of these origins, as in `https://app.example`.
    ///
    /// # Errors
    /// `Invalid` if one of them is not an origin: a scheme, a host and maybe a port.
    pub fn new(origins: &[String]) -> Result<Self> {
        let parse = |origin: &String| {
            let is_origin = origin.parse::<Uri>().is_ok_and(|uri| {
                let host = uri.authority().map_or("", |authority| authority.as_str());
                let scheme = uri.scheme_str().unwrap_or_default();
                let is_web = ["http", "https"].contains(&scheme) && !host.contains(['@', '*']);
                is_web && *origin == format!("{scheme}://{host}")
            });
            let is_lower = !origin.bytes().any(|byte| byte.is_ascii_uppercase());
            let value = HeaderValue::from_str(origin).ok().filter(|_| is_origin && is_lower);
            value.ok_or_else(|| {
                Error::invalid(format!(
                    "{origin:?} is not an origin: write a scheme, a host and optionally a port in lower \
                     case, as in https://app.example or http://localhost:3000"
                ))
            })
        };
        origins.iter().map(parse).collect::<Result<_>>().map(Cors)
    }

    /// Returns the origin of a request if its pages may use the server.
    #[inline]
    pub fn origin(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        if self.0.is_empty() {
            return None;
        }
        headers.get(ORIGIN).filter(|origin| self.0.contains(origin)).cloned()
    }

    /// Adds to a response that pages of other sites may read it. `origin` is that of the request, if it is allowed.
    pub fn mark(&self, origin: Option<HeaderValue>, response: &mut Response<Body>) {
        if self.0.is_empty() {
            return;
        }
        let headers = response.headers_mut();
        // The response to one site is not that to another.
        headers.append(VARY, HeaderValue::from_static("origin"));
        if let Some(origin) = origin {
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, RESPONSE_HEADERS);
        }
    }
}

/// Returns the response to a preflight, which is a request with this method and these headers from an allowed origin.
#[inline]
pub fn preflight(method: &Method, headers: &HeaderMap) -> Option<Response<Body>> {
    if *method != Method::OPTIONS || !headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD) {
        return None;
    }
    let mut response = empty(StatusCode::NO_CONTENT);
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, REQUEST_HEADERS);
    headers.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE_S);
    Some(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_a_scheme_a_host_and_maybe_a_port() {
        let parsed = |origin: &str| Cors::new(&[origin.to_owned()]).is_ok();
        for right in ["https://app.example", "http://localhost:3000", "http://[::1]:80", "http://10.0.0.1"] {
            assert!(parsed(right), "{right}");
        }
        for wrong in [
            "*",
            "",
            "null",
            "app.example",
            "https://app.example/",
            "https://a/b",
            "ftp://a",
            "HTTPS://a",
            "https://A.example",
            "https://*.example",
            "https://user@a",
            "https://a b",
            "https://",
        ] {
            assert!(!parsed(wrong), "{wrong}");
        }
    }

    #[test]
    fn only_what_is_named_is_allowed() {
        let cors = Cors::new(&["https://app.example".to_owned()]).unwrap();
        let allowed = |origin: &str| {
            cors.origin(&HeaderMap::from_iter([(ORIGIN, HeaderValue::from_str(origin).unwrap())])).is_some()
        };
        assert!(allowed("https://app.example"));
        for other in
            ["http://app.example", "https://app.example:8443", "https://app.example.evil.example", "null"]
        {
            assert!(!allowed(other), "{other}");
        }
        assert!(cors.origin(&HeaderMap::new()).is_none());
    }
}
