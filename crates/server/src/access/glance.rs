//! What one look at the headers of a request finds.

use crate::watch::trace::REQUEST_ID;
use crate::wire::response::MIN_COMMIT;
use axum::http::header::{EXPECT, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, HeaderValue};

/// The header in which a browser sends whether a request comes from a page of the same site.
pub const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// What one look at the headers of a request finds. To look each name up costs more, as a request has few headers, and
/// most have none of these names.
#[derive(Clone, Copy, Debug)]
pub struct Glance<'h> {
    /// The number of hosts.
    pub hosts: usize,
    /// The last host.
    pub host: Option<&'h HeaderValue>,
    /// Whether a browser may have sent the request for a page.
    pub is_of_page: bool,
    /// Whether there is a header that changes how a request is served, whatever its operation: `expect`,
    /// `pando-min-commit` or `x-request-id`.
    pub has_special_headers: bool,
}

impl<'h> Glance<'h> {
    /// Looks at the headers.
    #[inline]
    pub fn at(headers: &'h HeaderMap) -> Self {
        let mut glance = Glance { hosts: 0, host: None, is_of_page: false, has_special_headers: false };
        for (name, value) in headers {
            if *name == HOST {
                (glance.hosts, glance.host) = (glance.hosts + 1, Some(value));
            }
            glance.is_of_page |= *name == ORIGIN || *name == FETCH_SITE;
            glance.has_special_headers |= *name == EXPECT || *name == MIN_COMMIT || *name == REQUEST_ID;
        }
        glance
    }
}
