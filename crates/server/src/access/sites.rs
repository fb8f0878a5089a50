//! What pages of other sites can have a browser send here, and what is refused of it.
//!
//! 1. A browser says which page a request comes from, in `Origin`, where the request changes something; credentials
//!    that it keeps would go with it. [`check_origin`]: such a page is this server's own, or nothing is done.
//! 2. Of other requests it says in `Sec-Fetch-Site` whether the page is of the same site, and in `Sec-Fetch-Mode`
//!    whether somebody goes where a link leads. Anything else that another's page loads from here is refused: it is not
//!    shown to it, but a value that is a script, say, would be run there.
//! 3. A site whose name is made to lead to this machine (DNS rebinding) is, for the browser, the server itself, and is
//!    shown everything. It has none of the credentials. Where none are asked for, because the server listens to this
//!    machine alone, [`check_host`]: a request is for an address, or for a name that nobody can buy.

use crate::wire::problem::{Answer, Problem};
use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, Version};
use std::net::{Ipv4Addr, Ipv6Addr};

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// Refuses what a page of another site has a browser send.
///
/// # Errors
/// 403 for a request that changes something, or asks for work, whose `Origin` is not this server, and for one that
/// another site's page loads something with.
pub fn check_origin(method: &Method, headers: &HeaderMap) -> Answer<()> {
    if headers.get(FETCH_SITE).is_some_and(|site| site != "same-origin" && site != "none")
        && headers.get(FETCH_MODE).is_none_or(|mode| mode != "navigate")
    {
        return Err(of_another());
    }
    let Some(origin) = headers.get(ORIGIN) else { return Ok(()) };
    let host = headers.get(HOST).map_or(&b""[..], |host| host.as_bytes());
    let own = [&b"http://"[..], b"https://"].iter().any(|scheme| {
        origin.as_bytes().strip_prefix(*scheme).is_some_and(|rest| rest.eq_ignore_ascii_case(host))
    });
    if own || *method == Method::GET || *method == Method::HEAD {
        return Ok(());
    }
    Err(of_another())
}

#[cold]
fn of_another() -> Problem {
    Problem::new(StatusCode::FORBIDDEN, "forbidden", "a page of another site sent this request")
}

/// Refuses requests that do not say once for whom they are: programs on the way might understand them differently (RFC
/// 9112, 3.2).
///
/// # Errors
/// 400.
#[inline]
pub fn check_one_host(version: Version, headers: &HeaderMap) -> Answer<()> {
    match headers.get_all(HOST).iter().count() {
        1 => Ok(()),
        0 if version < Version::HTTP_11 => Ok(()),
        count => Err(not_one_host(count)),
    }
}

#[cold]
fn not_one_host(count: usize) -> Problem {
    Problem::bad_request(format!("a request must have one `host` header, but this one has {count}"))
}

/// Refuses requests for names that may be anybody's.
///
/// # Errors
/// 403.
#[inline]
pub fn check_host(headers: &HeaderMap) -> Answer<()> {
    match headers.get_all(HOST).iter().all(|host| is_here(host.as_bytes())) {
        true => Ok(()),
        false => Err(foreign()),
    }
}

#[cold]
fn foreign() -> Problem {
    let detail = "this server has no tokens, so it accepts only IP addresses and `localhost` as `host`: a \
                  page of \
                  another site may have sent this request. Create a token with `pando token create`, or start \
                  the server with --allow-anyone";
    Problem::new(StatusCode::FORBIDDEN, "forbidden", detail)
}

/// Whether a host, with its port or without, is an address, or a name of this machine's network alone: one without a
/// dot, or `localhost` with names before it.
fn is_here(host: &[u8]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return false };
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split_once(']').is_some_and(|(address, _)| address.parse::<Ipv6Addr>().is_ok());
    }
    let name = host.split_once(':').map_or(host, |(name, _)| name);
    !name.contains('.')
        || name.parse::<Ipv4Addr>().is_ok()
        || name.rsplit_once('.').is_some_and(|(_, last)| last.eq_ignore_ascii_case("localhost"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_another_site_changes_nothing() {
        let headers = |origin: &str| {
            HeaderMap::from_iter([(ORIGIN, origin.parse().unwrap()), (HOST, host("127.0.0.1:7263"))])
        };
        let check = |method: Method, origin| check_origin(&method, &headers(origin)).is_ok();
        assert!(check(Method::POST, "http://127.0.0.1:7263"));
        assert!(!check(Method::POST, "http://evil.example"));
        assert!(!check(Method::PUT, "null"));
        assert!(check(Method::GET, "http://evil.example"));
        assert!(check_origin(&Method::POST, &HeaderMap::new()).is_ok());
    }

    #[test]
    fn a_page_of_another_site_loads_nothing() {
        let check = |site: &str, mode: &str| {
            let named = [(FETCH_SITE, site), (FETCH_MODE, mode)];
            let named = named.into_iter().filter(|(_, value)| !value.is_empty());
            let headers = named.map(|(name, value)| (name, value.parse().unwrap())).collect();
            check_origin(&Method::GET, &headers).is_ok()
        };
        assert!(check("same-origin", "cors") && check("none", "navigate") && check("", "no-cors"));
        assert!(check("cross-site", "navigate"), "a link may lead here");
        for mode in ["no-cors", "cors", "websocket", ""] {
            assert!(!check("cross-site", mode) && !check("same-site", mode), "{mode}");
        }
    }

    fn host(text: &str) -> axum::http::HeaderValue {
        text.parse().unwrap()
    }

    #[test]
    fn a_name_that_somebody_can_buy_is_not_here() {
        for here in [
            "127.0.0.1:7263",
            "127.0.0.1",
            "[::1]:7263",
            "[::1]",
            "localhost",
            "LocalHost:1",
            "a.localhost:1",
        ] {
            assert!(check_host(&HeaderMap::from_iter([(HOST, host(here))])).is_ok(), "{here}");
        }
        for name in ["pando", "box:7263", ""] {
            assert!(check_host(&HeaderMap::from_iter([(HOST, host(name))])).is_ok(), "{name}");
        }
        for name in [
            "evil.example:7263",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "evil.",
            "a.b:1",
            "[::1",
            "[evil.example]",
            "1.2.3",
        ] {
            let problem = check_host(&HeaderMap::from_iter([(HOST, host(name))])).expect_err(name);
            assert_eq!(problem.status, StatusCode::FORBIDDEN, "{name}");
        }
        let mut headers = HeaderMap::from_iter([(HOST, host("localhost"))]);
        headers.append(HOST, host("evil.example"));
        assert!(check_host(&headers).is_err(), "each of several");
        assert!(check_host(&HeaderMap::new()).is_ok());
    }
}
