//! ETags, and the conditions that requests make with them: compare-and-swap in HTTP's own words (RFC 9110, 13.1).
//!
//! An ETag is 16 bytes of the value's SHA-256: it depends on nothing but the value, so that it is the same after a
//! restart, a backup or a copy, and nobody can make two values that have the same.

use crate::auth::hex;
use crate::problem::{Answer, Problem};
use axum::http::header::{HeaderName, IF_MATCH, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use pando::{Table, Transaction};
use sha2::{Digest, Sha256};
use std::io::Read;

/// The ETag of a value, quotes included.
pub fn etag(value: &[u8]) -> String {
    tag_of(&Sha256::digest(value))
}

fn tag_of(hash: &[u8]) -> String {
    format!("\"{}\"", hex(&hash[..16]))
}

/// An ETag as a header.
pub fn etag_header(tag: &str) -> HeaderValue {
    HeaderValue::from_str(tag).expect("hexadecimal digits in quotes")
}

/// The tags that a header lists.
#[derive(Clone, Debug)]
enum Tags {
    /// `*`: whatever there is.
    Any,
    These(Vec<String>),
}

/// What must be so, or nothing is done.
#[derive(Clone, Debug, Default)]
pub struct Conditions {
    is: Option<Tags>,
    is_not: Option<Tags>,
}

impl Conditions {
    /// Those that the headers make.
    ///
    /// # Errors
    /// 400 for a list that is none.
    pub fn of(headers: &HeaderMap) -> Answer<Self> {
        Ok(Conditions { is: tags(headers, IF_MATCH)?, is_not: tags(headers, IF_NONE_MATCH)? })
    }

    /// Whether there are any.
    pub fn are_there(&self) -> bool {
        self.is.is_some() || self.is_not.is_some()
    }

    /// Checks them against the value's tag; `None`: the key is absent.
    ///
    /// # Errors
    /// 412.
    pub fn check(&self, current: Option<&str>) -> Answer<()> {
        let held = |tags: &Tags| match (tags, current) {
            (_, None) => false,
            (Tags::Any, Some(_)) => true,
            (Tags::These(tags), Some(tag)) => tags.iter().any(|listed| listed == tag),
        };
        if self.is.as_ref().is_some_and(|tags| !held(tags)) {
            return Err(failed("`if-match` names another value than there is"));
        }
        if self.is_not.as_ref().is_some_and(held) {
            return Err(failed("`if-none-match` names the value that there is"));
        }
        Ok(())
    }

    /// Checks them against what the transaction sees, which its commit then makes sure of.
    pub fn check_in(&self, tx: &Transaction, table: &Table, key: &[u8]) -> Answer<()> {
        if !self.are_there() {
            return Ok(());
        }
        self.check(current(tx, table, key)?.as_deref())
    }

    /// Whether a client that has these needs no copy.
    pub fn has_this_already(&self, tag: &str) -> bool {
        self.is_not.is_some() && self.check(Some(tag)).is_err()
    }
}

/// The tag of what `key` holds; long values are read for it, piece by piece.
fn current(tx: &Transaction, table: &Table, key: &[u8]) -> Answer<Option<String>> {
    let Some(mut reader) = tx.value_reader(table, key)? else { return Ok(None) };
    let (mut hash, mut piece) = (Sha256::new(), vec![0; 64 << 10]);
    loop {
        match reader.read(&mut piece).map_err(|error| Problem::internal(error.to_string()))? {
            0 => return Ok(Some(tag_of(&hash.finalize()))),
            count => hash.update(&piece[..count]),
        }
    }
}

fn failed(detail: &str) -> Problem {
    Problem::new(StatusCode::PRECONDITION_FAILED, "precondition-failed", detail)
}

fn tags(headers: &HeaderMap, name: HeaderName) -> Answer<Option<Tags>> {
    let wrong = || Problem::bad_request(format!("`{name}` is `*`, or tags in quotes with commas between"));
    let mut listed = Vec::new();
    for value in headers.get_all(&name) {
        let text = value.to_str().map_err(|_| wrong())?.trim();
        if text == "*" {
            return Ok(Some(Tags::Any));
        }
        for tag in text.split(',') {
            // A weak tag stands for the same bytes here.
            let tag = tag.trim();
            let tag = tag.strip_prefix("W/").unwrap_or(tag);
            let quoted = tag.len() >= 2 && tag.starts_with('"') && tag.ends_with('"');
            if !quoted {
                return Err(wrong());
            }
            listed.push(tag.to_owned());
        }
    }
    Ok(if listed.is_empty() { None } else { Some(Tags::These(listed)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_hold_or_fail() {
        let tag = etag(b"value");
        let check = |name: HeaderName, value: &str, current: Option<&str>| {
            let headers = HeaderMap::from_iter([(name, value.parse().unwrap())]);
            Conditions::of(&headers)
                .and_then(|conditions| conditions.check(current))
                .map_err(|p| p.status.as_u16())
        };
        assert_eq!(check(IF_MATCH, &tag, Some(&tag)), Ok(()));
        assert_eq!(check(IF_MATCH, &format!("\"x\", {tag}"), Some(&tag)), Ok(()));
        assert_eq!(check(IF_MATCH, &tag, Some("\"other\"")), Err(412));
        assert_eq!(check(IF_MATCH, &tag, None), Err(412));
        assert_eq!(check(IF_MATCH, "*", None), Err(412));
        assert_eq!(check(IF_MATCH, "*", Some(&tag)), Ok(()));
        assert_eq!(check(IF_NONE_MATCH, "*", None), Ok(()));
        assert_eq!(check(IF_NONE_MATCH, "*", Some(&tag)), Err(412));
        assert_eq!(check(IF_NONE_MATCH, &tag, Some(&tag)), Err(412));
        assert_eq!(check(IF_NONE_MATCH, &tag, Some("\"other\"")), Ok(()));
        assert_eq!(check(IF_MATCH, "bare", Some(&tag)), Err(400));
    }
}
