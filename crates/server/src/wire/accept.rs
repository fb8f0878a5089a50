//! Streams of Arrow, for clients that ask for them.

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;

/// The type of such a response.
pub const ARROW_STREAM: &str = "application/vnd.apache.arrow.stream";

/// How many bytes of a stream are held back until its end: they belong to its last message, so that a stream that was
/// cut off ends within a message. Readers take the end of the input after a whole message for the end of the stream.
const HELD_BYTES: usize = 8;

/// Returns whether the client accepts a stream of Arrow, and names it before other types.
pub fn is_accepted(headers: &HeaderMap) -> bool {
    let accepted = headers.get(ACCEPT).and_then(|types| types.to_str().ok()).unwrap_or_default();
    let first = accepted.split(',').next().unwrap_or_default();
    let mut parts = first.split(';').map(str::trim);
    let is_named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(ARROW_STREAM));
    let is_never = |part: &str| part.strip_prefix("q=").is_some_and(|q| q.parse() == Ok(0.0));
    is_named && !parts.any(is_never)
}

/// Takes what can be sent before the end of a stream.
pub fn sendable(written: &mut Vec<u8>) -> Vec<u8> {
    let held = written.split_off(written.len().saturating_sub(HELD_BYTES));
    std::mem::replace(written, held)
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
        assert!(!accepted("application/vnd.apache.arrow.stream;q=0, application/json"));
        assert!(!accepted("application/x-ndjson, application/vnd.apache.arrow.stream"));
        assert!(!is_accepted(&HeaderMap::new()));
    }

    #[test]
    fn the_end_of_what_is_written_is_held_back() {
        let mut written: Vec<u8> = (0..100).collect();
        assert_eq!(sendable(&mut written), (0..92).collect::<Vec<u8>>());
        assert_eq!(written, (92..100).collect::<Vec<u8>>());
        assert!(sendable(&mut written).is_empty() && written.len() == HELD_BYTES);
    }
}
