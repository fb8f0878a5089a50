//! The token in a request.

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Returns the token in the `Authorization` header: after `Bearer`, or as the password of `Basic`, which browsers can
/// ask for.
pub fn credentials(headers: &HeaderMap) -> Option<Vec<u8>> {
    let header = headers.get(AUTHORIZATION)?.as_bytes();
    let (scheme, rest) = header.split_at_checked(header.iter().position(|&byte| byte == b' ')?)?;
    let rest = rest.trim_ascii();
    if scheme.eq_ignore_ascii_case(b"bearer") {
        return Some(rest.to_vec());
    }
    if !scheme.eq_ignore_ascii_case(b"basic") {
        return None;
    }
    let pair = STANDARD.decode(rest).ok()?;
    let colon = pair.iter().position(|&byte| byte == b':')?;
    Some(pair[colon + 1..].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_sends_the_token_as_a_password() {
        let found =
            |header: &str| credentials(&HeaderMap::from_iter([(AUTHORIZATION, header.parse().unwrap())]));
        assert_eq!(found("Basic dXNlcjpwYW5kb18x").unwrap(), b"pando_1");
        assert_eq!(found("Basic OnA=").unwrap(), b"p");
        assert_eq!(found("bearer  pando_1 ").unwrap(), b"pando_1");
        for wrong in ["Basic", "Basic !!", "Basic dXNlcg==", "Digest x", ""] {
            assert_eq!(found(wrong), None, "{wrong:?}");
        }
        assert_eq!(credentials(&HeaderMap::new()), None);
    }
}
