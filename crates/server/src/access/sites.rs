//! Refuses requests that pages of other sites make a browser send.
//!
//! 1. For a request that changes something, a browser sends the site of the page in `Origin`. The browser's stored
//!    credentials would go with such a request. [`check_origin`] allows it only if the page is this server's own.
//! 2. For other requests, a browser sends in `Sec-Fetch-Site` whether the page is of the same site, and in
//!    `Sec-Fetch-Mode` whether the user follows a link. Everything else that a page of another site loads from here is
//!    refused. The page could not read it, but a value that is a script would be run there.
//! 3. A site whose name resolves to this machine (DNS rebinding) is the server itself in the browser's view, and can
//!    read every response. It has none of the credentials. If no credentials are required because the server listens on
//!    this machine only, [`check_host`] allows only requests for an address or for a name that nobody can register.

use crate::access::glance::{FETCH_SITE, Glance};
use crate::wire::problem::{Answer, Problem};
use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, Version};
use std::cell::Cell;
use std::net::{Ipv4Addr, Ipv6Addr};

const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
/// The longest host that a thread remembers: an IPv6 address in brackets, and a port.
const REMEMBERED_BYTES: usize = 47;

/// Refuses a request that a page of another site makes a browser send.
///
/// # Errors
/// 403 for a request that changes something, or starts work, if its `Origin` is not this server, and for a request with
/// which a page of another site loads something.
#[inline]
pub fn check_origin(method: &Method, headers: &HeaderMap, glance: Glance<'_>) -> Answer<()> {
    if glance.is_of_page { check_page(method, headers) } else { Ok(()) }
}

fn check_page(method: &Method, headers: &HeaderMap) -> Answer<()> {
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

/// Refuses a request without exactly one host. Programs between client and server might understand it differently (RFC
/// 9112, 3.2).
///
/// # Errors
/// 400 if the host is missing or ambiguous.
#[inline]
pub fn check_one_host(version: Version, glance: Glance<'_>) -> Answer<()> {
    match glance.hosts {
        1 => Ok(()),
        0 if version < Version::HTTP_11 => Ok(()),
        count => Err(not_one_host(count)),
    }
}

#[cold]
fn not_one_host(count: usize) -> Problem {
    Problem::bad_request(format!("a request must have one `host` header, but this one has {count}"))
}

/// Refuses requests for names that anybody can register, and those for more than one host.
///
/// # Errors
/// 403 for such a name.
#[inline]
pub fn check_host(glance: Glance<'_>) -> Answer<()> {
    match glance.hosts <= 1 && glance.host.is_none_or(|host| is_known_here(host.as_bytes())) {
        true => Ok(()),
        false => Err(foreign()),
    }
}

/// Returns whether a host is an address or a name that only this machine's network resolves: see [`is_here`]. Requests
/// of one thread mostly have one host, so the thread remembers the last one that is here.
#[inline]
fn is_known_here(host: &[u8]) -> bool {
    thread_local! {
        static LAST: Cell<([u8; REMEMBERED_BYTES], u8)> = const { Cell::new(([0; REMEMBERED_BYTES], 0)) };
    }
    let (bytes, count) = LAST.get();
    // At first this is the empty host, which is here.
    if bytes[..usize::from(count)] == *host {
        return true;
    }
    let is_here = is_here(host);
    if is_here && host.len() <= REMEMBERED_BYTES {
        let mut bytes = [0; REMEMBERED_BYTES];
        bytes[..host.len()].copy_from_slice(host);
        LAST.set((bytes, host.len() as u8));
    }
    is_here
}

#[cold]
fn foreign() -> Problem {
    let detail = "this server has no tokens, so it accepts only IP addresses and `localhost` as `host`: a \
                  page of \
                  another site may have sent this request. Create a token with `pando token create`, or start \
                  the server with --allow-anyone";
    Problem::new(StatusCode::FORBIDDEN, "forbidden", detail)
}

/// Returns whether a host, with or without a port, is an address or a name that only this machine's network resolves:
/// one without a dot, or `localhost` with names before it.
fn is_here(host: &[u8]) -> bool {
    if let Some(rest) = host.strip_prefix(b"[") {
        let address = rest.split(|byte| *byte == b']').next().filter(|address| address.len() < rest.len());
        let address = address.and_then(|address| std::str::from_utf8(address).ok());
        return address.is_some_and(|address| address.parse::<Ipv6Addr>().is_ok());
    }
    let end = host.iter().position(|byte| *byte == b':').unwrap_or(host.len());
    let Ok(name) = std::str::from_utf8(&host[..end]) else { return false };
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
        let check = |method: Method, origin| {
            let headers = headers(origin);
            check_origin(&method, &headers, Glance::at(&headers)).is_ok()
        };
        assert!(check(Method::POST, "http://127.0.0.1:7263"));
        assert!(!check(Method::POST, "http://evil.example"));
        assert!(!check(Method::PUT, "null"));
        assert!(check(Method::GET, "http://evil.example"));
        let none = HeaderMap::new();
        assert!(check_origin(&Method::POST, &none, Glance::at(&none)).is_ok());
    }

    #[test]
    fn a_page_of_another_site_loads_nothing() {
        let check = |site: &str, mode: &str| {
            let named = [(FETCH_SITE, site), (FETCH_MODE, mode)];
            let named = named.into_iter().filter(|(_, value)| !value.is_empty());
            let headers = named.map(|(name, value)| (name, value.parse().unwrap())).collect();
            check_origin(&Method::GET, &headers, Glance::at(&headers)).is_ok()
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
        let of = |name: &str| HeaderMap::from_iter([(HOST, host(name))]);
        let check = |headers: &HeaderMap| check_host(Glance::at(headers));
        for here in [
            "127.0.0.1:7263",
            "127.0.0.1",
            "[::1]:7263",
            "[::1]",
            "localhost",
            "LocalHost:1",
            "a.localhost:1",
        ] {
            assert!(check(&of(here)).is_ok(), "{here}");
        }
        for name in ["pando", "box:7263", ""] {
            assert!(check(&of(name)).is_ok(), "{name}");
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
            let problem = check(&of(name)).expect_err(name);
            assert_eq!(problem.status, StatusCode::FORBIDDEN, "{name}");
        }
        // The thread remembers only what is here, and only as a whole.
        for (name, is_right) in [("10.0.0.1:80", true), ("10.0.0.1:8", true), ("10.0.0.1:80.evil", true)] {
            assert_eq!(check(&of(name)).is_ok(), is_right, "{name}");
        }
        let long = format!("[{}]", "::1".repeat(20));
        for name in ["10.0.0.1.evil.example", "localhost", "evil.example", "localhost", &long, "10.0.0.1"] {
            let is_right = ["localhost", "10.0.0.1"].contains(&name);
            assert!((0..2).all(|_| check(&of(name)).is_ok() == is_right), "{name}");
        }
        let mut headers = of("localhost");
        headers.append(HOST, host("evil.example"));
        assert!(check(&headers).is_err(), "each of several");
        assert!(check(&HeaderMap::new()).is_ok());
    }
}
