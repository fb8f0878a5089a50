//! The part of a value that a request asks for (RFC 9110, 14).
//!
//! 1. One range of bytes gets 206, or 416 if the value has no such bytes. Everything else (several ranges, another
//!    unit, a malformed range) is ignored, as RFC 9110 permits: the response is the whole value.
//! 2. With `If-Range` the part is sent only if the value still has that tag. A date never holds, because values have
//!    none.

use crate::wire::problem::Problem;
use axum::http::header::{CONTENT_RANGE, IF_RANGE, RANGE};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode};

/// The range of a request, and the tag on which it depends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AskedPart {
    range: Option<Range>,
    if_tag: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Range {
    /// From this byte to that one, or to the end.
    From(u64, Option<u64>),
    /// The last bytes.
    Last(u64),
}

/// What a request gets of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The whole value.
    All,
    /// The bytes from `start` to `end`, exclusive.
    Bytes {
        /// The first byte.
        start: u64,
        /// The byte after the last one.
        end: u64,
    },
    /// Nothing: the value ends before the range.
    Beyond,
}

impl AskedPart {
    /// Reads the range of a request.
    pub fn from_headers(headers: &HeaderMap) -> Self {
        let mut ranges = headers.get_all(RANGE).iter();
        let (Some(first), None) = (ranges.next(), ranges.next()) else { return AskedPart::default() };
        let range = first.to_str().ok().and_then(Range::parse);
        let if_tag = headers.get(IF_RANGE).map(|tag| String::from_utf8_lossy(tag.as_bytes()).into_owned());
        AskedPart { range, if_tag }
    }

    /// Returns whether the value's tag decides.
    pub fn names_tag(&self) -> bool {
        self.range.is_some() && self.if_tag.as_ref().is_some_and(|tag| tag.starts_with('"'))
    }

    /// Returns which part of a value of `len_bytes` is sent. Its tag is `tag`; `None` if it is not known.
    pub fn of(&self, len_bytes: u64, tag: Option<&str>) -> Part {
        // Only a strong tag says that the bytes are the same, and only those are compared.
        let holds = self.if_tag.as_deref().is_none_or(|wanted| tag == Some(wanted));
        let (start, end) = match self.range.filter(|_| holds) {
            None => return Part::All,
            Some(Range::From(first, last)) => {
                (first, last.map_or(len_bytes, |last| len_bytes.min(last.saturating_add(1))))
            }
            Some(Range::Last(0)) => return Part::Beyond,
            Some(Range::Last(bytes)) => (len_bytes.saturating_sub(bytes), len_bytes),
        };
        if start >= len_bytes { Part::Beyond } else { Part::Bytes { start, end } }
    }
}

impl Range {
    /// Parses one range of bytes; returns `None` for anything else.
    fn parse(text: &str) -> Option<Self> {
        let (unit, range) = text.split_once('=')?;
        if !unit.trim().eq_ignore_ascii_case("bytes") {
            return None;
        }
        let (first, last) = range.trim().split_once('-')?;
        let number = |digits: &str| {
            let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
            // A number that does not fit lies beyond every value.
            is_number.then(|| digits.parse().unwrap_or(u64::MAX))
        };
        match (first, last) {
            ("", last) => number(last).map(Range::Last),
            (first, "") => Some(Range::From(number(first)?, None)),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                (first <= last).then_some(Range::From(first, Some(last)))
            }
        }
    }
}

/// Makes the response with a part of a value of `len_bytes` of it.
pub fn partial<B>(mut response: Response<B>, start: u64, end: u64, len_bytes: u64) -> Response<B> {
    *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    let range = format!("bytes {start}-{}/{len_bytes}", end - 1);
    let range = HeaderValue::from_str(&range).expect("digits");
    response.headers_mut().insert(CONTENT_RANGE, range);
    response
}

/// Returns the response for a range that begins after the end of a value of `len_bytes`.
pub fn beyond(len_bytes: u64) -> Response<crate::wire::body::Body> {
    let detail = format!("the value has {len_bytes} bytes, and none of them are in the range");
    let mut response = Problem::new(StatusCode::RANGE_NOT_SATISFIABLE, "range", detail).response();
    let range = HeaderValue::from_str(&format!("bytes */{len_bytes}")).expect("digits");
    response.headers_mut().insert(CONTENT_RANGE, range);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(range: &str, if_range: Option<&str>) -> AskedPart {
        let mut headers = HeaderMap::from_iter([(RANGE, range.parse().unwrap())]);
        if let Some(tag) = if_range {
            headers.insert(IF_RANGE, tag.parse().unwrap());
        }
        AskedPart::from_headers(&headers)
    }

    #[test]
    fn one_range_of_bytes_is_a_part() {
        let of = |range: &str, len_bytes| asked(range, None).of(len_bytes, None);
        let bytes = |start, end| Part::Bytes { start, end };
        for (range, part) in [
            ("bytes=0-0", bytes(0, 1)),
            ("bytes=2-5", bytes(2, 6)),
            ("Bytes = 2-5", bytes(2, 6)),
            ("bytes=2-", bytes(2, 10)),
            ("bytes=9-99999999999999999999999", bytes(9, 10)),
            ("bytes=-3", bytes(7, 10)),
            ("bytes=-30", bytes(0, 10)),
            ("bytes=10-", Part::Beyond),
            ("bytes=99999999999999999999999-", Part::Beyond),
            ("bytes=-0", Part::Beyond),
        ] {
            assert_eq!(of(range, 10), part, "{range}");
        }
        for ignored in [
            "bytes=0-1,3-4",
            "bytes=5-2",
            "bytes=-",
            "bytes=a-b",
            "bytes=+1-2",
            "items=0-1",
            "bytes",
            "",
            "bytes=1",
        ] {
            assert_eq!(of(ignored, 10), Part::All, "{ignored}");
        }
        assert_eq!((of("bytes=0-", 0), of("bytes=-1", 0)), (Part::Beyond, Part::Beyond), "an empty value");
        let mut twice = HeaderMap::new();
        twice.append(RANGE, "bytes=0-1".parse().unwrap());
        twice.append(RANGE, "bytes=3-4".parse().unwrap());
        assert_eq!(AskedPart::from_headers(&twice).of(10, None), Part::All);
    }

    #[test]
    fn a_changed_value_is_sent_as_a_whole() {
        let of = |if_range: &str| asked("bytes=0-0", Some(if_range)).of(10, Some("\"t\""));
        assert_eq!(of("\"t\""), Part::Bytes { start: 0, end: 1 });
        for other in ["\"u\"", "W/\"t\"", "Wed, 21 Oct 2015 07:28:00 GMT", "*"] {
            assert_eq!(of(other), Part::All, "{other}");
        }
        assert!(asked("bytes=0-0", Some("\"t\"")).names_tag() && !asked("bytes=0-0", None).names_tag());
        assert!(!asked("bytes=0-0,2-3", Some("\"t\"")).names_tag(), "the tag decides nothing");
    }
}
