//! ETags, and the conditions that requests make with them: compare-and-swap by conditional requests (RFC 9110, 13.1).
//!
//! An ETag is 16 bytes of the value's SHA-256. It depends only on the value, so it is the same after a restart, a
//! backup or a copy, and nobody can construct two values with the same ETag.

use crate::wire::digits::hex;
use crate::wire::problem::{Answer, Problem};
use axum::http::header::{HeaderName, IF_MATCH, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use pando::{ReadTables, Table, ValueReader};
use sha2::{Digest, Sha256};
use std::io::Read;

/// Returns the ETag of a value, with quotes.
pub fn etag(value: &[u8]) -> String {
    tag_of(&Sha256::digest(value))
}

fn tag_of(hash: &[u8]) -> String {
    format!("\"{}\"", hex(&hash[..16]))
}

/// Returns an ETag as the value of a header.
pub fn etag_header(tag: &str) -> HeaderValue {
    HeaderValue::from_str(tag).expect("hexadecimal digits in quotes")
}

/// The tags that a header lists.
#[derive(Clone, Debug)]
enum Tags {
    /// `*`: any value.
    Any,
    These(Vec<String>),
}

/// The conditions of a request. If they do not hold, nothing is done.
#[derive(Clone, Debug, Default)]
pub struct Conditions {
    is: Option<Tags>,
    is_not: Option<Tags>,
}

impl Conditions {
    /// Reads the conditions from the headers.
    ///
    /// # Errors
    /// 400 for a malformed list of tags.
    pub fn from_headers(headers: &HeaderMap) -> Answer<Self> {
        Ok(Conditions { is: tags(headers, IF_MATCH)?, is_not: tags(headers, IF_NONE_MATCH)? })
    }

    /// Returns whether there are any conditions.
    pub fn are_there(&self) -> bool {
        self.is.is_some() || self.is_not.is_some()
    }

    /// Returns whether the conditions name tags, so that the value must be read to compute its tag. `*` only asks
    /// whether a value exists.
    pub fn name_tags(&self) -> bool {
        [&self.is, &self.is_not].iter().any(|tags| matches!(tags, Some(Tags::These(_))))
    }

    /// Checks the conditions against the value's tag; `None`: the key is absent.
    ///
    /// # Errors
    /// 412 if a condition does not hold.
    pub fn check(&self, current: Option<&str>) -> Answer<()> {
        self.check_match(current)?;
        if self.is_not.as_ref().is_some_and(|tags| tags.hold(current)) {
            return Err(failed("the tag of the current value is in `if-none-match`"));
        }
        Ok(())
    }

    /// Checks the conditions against what the transaction sees. Its commit then detects concurrent changes.
    pub fn check_in(&self, tx: &impl ReadTables, table: &Table, key: &[u8]) -> Answer<()> {
        if !self.are_there() {
            return Ok(());
        }
        let current = match self.name_tags() {
            true => tx.value_reader(table, key)?.map(tag_of_long).transpose()?,
            false => tx.contains(table, key)?.then(String::new),
        };
        self.check(current.as_deref())
    }

    /// Returns whether a client that reads a value with this tag already has it.
    ///
    /// # Errors
    /// 412 if `If-Match` requires another value.
    pub fn has_this_already(&self, tag: &str) -> Answer<bool> {
        self.check_match(Some(tag))?;
        Ok(self.is_not.as_ref().is_some_and(|tags| tags.hold(Some(tag))))
    }

    fn check_match(&self, current: Option<&str>) -> Answer<()> {
        if self.is.as_ref().is_some_and(|tags| !tags.hold(current)) {
            return Err(failed("the tag of the current value is not in `if-match`"));
        }
        Ok(())
    }
}

impl Tags {
    /// Returns whether the current value's tag, if there is a value, is one of these.
    fn hold(&self, current: Option<&str>) -> bool {
        match (self, current) {
            (_, None) => false,
            (Tags::Any, Some(_)) => true,
            (Tags::These(tags), Some(tag)) => tags.iter().any(|listed| listed == tag),
        }
    }
}

/// Computes the tag of a long value, which is read in pieces.
pub fn tag_of_long(mut reader: ValueReader) -> Answer<String> {
    let (mut hash, mut piece) = (Sha256::new(), vec![0; 64 << 10]);
    loop {
        match reader.read(&mut piece).map_err(|error| Problem::internal(error.to_string()))? {
            0 => return Ok(tag_of(&hash.finalize())),
            count => hash.update(&piece[..count]),
        }
    }
}

fn failed(detail: &str) -> Problem {
    Problem::new(StatusCode::PRECONDITION_FAILED, "precondition-failed", detail)
}

fn tags(headers: &HeaderMap, name: HeaderName) -> Answer<Option<Tags>> {
    let wrong = || Problem::bad_request(format!("`{name}` must be `*`, or quoted tags separated by commas"));
    let mut listed = None;
    for value in headers.get_all(&name) {
        let text = value.as_bytes().trim_ascii();
        if text == b"*" {
            return Ok(Some(Tags::Any));
        }
        // A weak tag says that a value is equivalent, not that it is the same. A writer needs the same value (RFC 9110,
        // 13.1.1), and a reader accepts an equivalent one (13.1.2).
        let tags = list(text).ok_or_else(wrong)?.into_iter().filter(|tag| !tag.is_weak || name != IF_MATCH);
        listed.get_or_insert_with(Vec::new).extend(tags.map(|tag| tag.quoted));
    }
    Ok(listed.map(Tags::These))
}

/// A tag of a list.
struct Listed {
    is_weak: bool,
    /// The tag with its quotes.
    quoted: String,
}

/// Parses the tags of one header; returns `None` if it is not a list of tags. Between quotes any byte except a quote is
/// allowed, even a comma. Members of the list may be empty, but not all of them.
fn list(text: &[u8]) -> Option<Vec<Listed>> {
    let begun = |text: &[u8]| text.iter().position(|byte| !b", \t".contains(byte)).unwrap_or(text.len());
    let (mut tags, mut rest) = (Vec::new(), &text[begun(text)..]);
    while !rest.is_empty() {
        let (is_weak, tag) = rest.strip_prefix(b"W/").map_or((false, rest), |tag| (true, tag));
        let quoted = tag.strip_prefix(b"\"")?;
        let length = quoted.iter().position(|&byte| byte == b'"')?;
        let text = format!("\"{}\"", String::from_utf8_lossy(&quoted[..length]));
        tags.push(Listed { is_weak, quoted: text });
        rest = quoted[length + 1..].trim_ascii_start();
        if rest.first().is_some_and(|byte| *byte != b',') {
            return None;
        }
        rest = &rest[begun(rest)..];
    }
    (!tags.is_empty()).then_some(tags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_hold_or_fail() {
        let tag = etag(b"value");
        let check = |name: HeaderName, value: &str, current: Option<&str>| {
            let headers = HeaderMap::from_iter([(name, value.parse().unwrap())]);
            Conditions::from_headers(&headers)
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
        assert_eq!(check(IF_MATCH, &format!("\"a,b\" ,{tag}"), Some(&tag)), Ok(()));
        // A weak tag matches for a reader, and not for a writer.
        assert_eq!(check(IF_MATCH, &format!("W/{tag}"), Some(&tag)), Err(412));
        assert_eq!(check(IF_MATCH, &format!("W/\"x\", {tag}"), Some(&tag)), Ok(()));
        assert_eq!(check(IF_NONE_MATCH, &format!("W/{tag}"), Some(&tag)), Err(412));
        assert_eq!(check(IF_NONE_MATCH, ", \"a,b\",, \"c\",", Some(&tag)), Ok(()));
        for bad in ["bare", "", ",", "\"a\" \"b\"", "\"a", "W/", "\"", "*, \"a\""] {
            assert_eq!(check(IF_MATCH, bad, Some(&tag)), Err(400), "{bad}");
        }
    }

    #[test]
    fn a_reader_has_only_what_it_names() {
        let of = |is: &str, is_not: &str| {
            let given = [(IF_MATCH, is), (IF_NONE_MATCH, is_not)];
            let given = given.into_iter().filter(|(_, value)| !value.is_empty());
            let headers = given.map(|(name, value)| (name, value.parse().unwrap())).collect();
            Conditions::from_headers(&headers)
                .unwrap()
                .has_this_already("\"t\"")
                .map_err(|p| p.status.as_u16())
        };
        assert_eq!([of("", ""), of("", "\"x\""), of("\"t\"", "\"x\"")], [Ok(false); 3]);
        assert_eq!([of("", "\"t\""), of("*", "*"), of("\"t\"", "\"t\"")], [Ok(true); 3]);
        assert_eq!([of("\"x\"", ""), of("\"x\"", "\"y\""), of("\"x\"", "\"t\"")], [Err(412); 3]);
    }
}
