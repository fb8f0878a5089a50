//! The target of a request: parameters and path segments, percent-decoded into bytes.
//!
//! Keys are bytes, so nothing here assumes UTF-8. A `+` is a plus, because the contract uses percent-encoding and not
//! the encoding of forms. Text without an escape is borrowed, so the usual look-up copies nothing.

use std::borrow::Cow;

/// A `%` that two hexadecimal digits do not follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadEscape;

/// Percent-decodes `text`.
pub fn decode(text: &str) -> Result<Cow<'_, [u8]>, BadEscape> {
    let bytes = text.as_bytes();
    let Some(first) = bytes.iter().position(|&byte| byte == b'%') else { return Ok(Cow::Borrowed(bytes)) };
    let mut decoded = Vec::with_capacity(bytes.len());
    decoded.extend_from_slice(&bytes[..first]);
    let mut rest = &bytes[first..];
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let (digits, behind) = rest.split_first_chunk::<2>().ok_or(BadEscape)?;
        let [high, low] = digits.map(|digit| char::from(digit).to_digit(16));
        decoded.push((high.ok_or(BadEscape)? << 4 | low.ok_or(BadEscape)?) as u8);
        rest = behind;
    }
    Ok(Cow::Owned(decoded))
}

/// Returns the first parameter called `name` in a query, not decoded.
pub fn raw_parameter<'q>(query: Option<&'q str>, name: &str) -> Option<&'q str> {
    raw_parameters(query, name).next()
}

/// Returns all parameters called `name`, not decoded.
pub fn raw_parameters<'q>(query: Option<&'q str>, name: &str) -> impl Iterator<Item = &'q str> {
    let pairs = query.unwrap_or_default().split('&');
    pairs.filter_map(move |pair| match pair.split_once('=') {
        Some((key, value)) => (key == name).then_some(value),
        None => (pair == name).then_some(""),
    })
}

/// Returns the names of all parameters, not decoded.
pub fn names(query: Option<&str>) -> impl Iterator<Item = &str> {
    let pairs = query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| pair.split_once('=').map_or(pair, |(name, _)| name))
}

/// Returns the first parameter called `name`, decoded; `None` if it is missing.
pub fn parameter<'q>(query: Option<&'q str>, name: &str) -> Result<Option<Cow<'q, [u8]>>, BadEscape> {
    raw_parameter(query, name).map(decode).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_can_be_spelled() {
        for byte in 0..=255u8 {
            for text in [format!("a%{byte:02x}b"), format!("a%{byte:02X}b")] {
                assert_eq!(decode(&text).unwrap(), &[b'a', byte, b'b'][..]);
            }
        }
        assert_eq!(decode("a+b").unwrap(), &b"a+b"[..]);
        assert!(matches!(decode("plain"), Ok(Cow::Borrowed(b"plain"))));
    }

    #[test]
    fn what_is_no_escape_is_refused() {
        for text in ["%", "a%", "%4", "%zz", "%4g", "%%41", "%+1"] {
            assert_eq!(decode(text), Err(BadEscape), "{text}");
        }
    }

    #[test]
    fn parameters_are_found_by_name() {
        let query = Some("a=1&id=x%20y&id=z&flag&empty=");
        assert_eq!(parameter(query, "id").unwrap().unwrap(), &b"x y"[..]);
        assert_eq!(raw_parameters(query, "id").collect::<Vec<_>>(), ["x%20y", "z"]);
        assert_eq!((raw_parameter(query, "flag"), raw_parameter(query, "empty")), (Some(""), Some("")));
        assert_eq!(names(query).collect::<Vec<_>>(), ["a", "id", "id", "flag", "empty"]);
        assert_eq!(names(Some("&=x&&y&")).collect::<Vec<_>>(), ["", "y"]);
        assert_eq!((raw_parameter(query, "i"), raw_parameter(None, "id")), (None, None));
    }
}
