//! Streams of Arrow, for clients that ask for them.

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;

/// The type of such a response.
pub const ARROW_STREAM: &str = "application/vnd.apache.arrow.stream";

/// Returns whether the client accepts a stream of Arrow, and names it before other types.
pub fn is_accepted(headers: &HeaderMap) -> bool {
    let accepted = headers.get(ACCEPT).and_then(|types| types.to_str().ok()).unwrap_or_default();
    let first = accepted.split([',', ';']).next().unwrap_or_default();
    first.trim().eq_ignore_ascii_case(ARROW_STREAM)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrow_is_sent_to_those_who_name_it_first() {
        let accepted = |types: &str| is_accepted(&HeaderMap::from_iter([(ACCEPT, types.parse().unwrap())]));
        assert!(accepted(ARROW_STREAM));
        assert!(accepted("Application/vnd.apache.arrow.stream;q=0.9, */*"));
        assert!(!accepted("*/*"));
        assert!(!accepted("application/x-ndjson, application/vnd.apache.arrow.stream"));
        assert!(!is_accepted(&HeaderMap::new()));
    }
}
