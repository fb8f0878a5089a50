//! The target of a request: the values of its path's parameters, and its query.

use crate::wire::problem::{Answer, Problem};
use crate::wire::target::decode;
use axum::http::Uri;
use std::borrow::Cow;

/// The largest number of parameters in a path.
const MOST: usize = 3;

/// The positions of the parameters in a path, in order. The path is split once, and nothing of it is copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// The first byte of each parameter, and the byte after it.
    spans: [(u32, u32); MOST],
    count: u8,
}

impl Captured {
    /// Adds a parameter.
    #[inline]
    pub fn push(&mut self, start: usize, end: usize) {
        self.spans[usize::from(self.count)] = (start as u32, end as u32);
        self.count += 1;
    }

    /// Returns the value of parameter `index` in `path`, not decoded.
    #[inline]
    pub fn get(self, path: &str, index: usize) -> Option<&str> {
        let (start, end) = *self.spans[..usize::from(self.count)].get(index)?;
        path.get(start as usize..end as usize)
    }

    /// Returns the position of the first byte of parameter `index`.
    pub fn start(self, index: usize) -> Option<usize> {
        Some(self.spans[..usize::from(self.count)].get(index)?.0 as usize)
    }
}

/// The target of a request.
#[derive(Clone, Copy, Debug)]
pub struct Target<'r> {
    uri: &'r Uri,
    captured: Captured,
}

impl<'r> Target<'r> {
    /// Creates the target of `uri` with the parameters of its path.
    #[inline]
    pub fn new(uri: &'r Uri, captured: Captured) -> Self {
        Target { uri, captured }
    }

    /// Returns the query, not decoded.
    #[inline]
    pub fn query(self) -> Option<&'r str> {
        self.uri.query()
    }

    /// Returns the name of the database, not decoded. A valid name has nothing to decode.
    #[inline]
    pub fn database(self) -> &'r str {
        self.raw(0)
    }

    /// Returns the name of the table.
    ///
    /// # Errors
    /// 400 if it is not UTF-8.
    #[inline]
    pub fn table(self) -> Answer<Cow<'r, str>> {
        table_name(self.raw(1))
    }

    /// Returns the parameter after the database, not decoded: a table's name, or a transaction's token.
    #[inline]
    pub fn second(self) -> &'r str {
        self.raw(1)
    }

    /// Returns the key.
    ///
    /// # Errors
    /// 400 if its encoding is not valid.
    #[inline]
    pub fn key(self) -> Answer<Cow<'r, [u8]>> {
        Ok(decode(self.raw_key())?)
    }

    /// Returns the key, not decoded, with its slashes.
    #[inline]
    pub fn raw_key(self) -> &'r str {
        self.raw(2)
    }

    #[inline]
    fn raw(self, index: usize) -> &'r str {
        self.captured.get(self.uri.path(), index).unwrap_or_default()
    }
}

/// Decodes the name of a table.
///
/// # Errors
/// 400 if it is not UTF-8.
#[inline]
pub fn table_name(segment: &str) -> Answer<Cow<'_, str>> {
    let wrong = || Problem::bad_request("the name of a table must be UTF-8");
    Ok(match decode(segment)? {
        Cow::Borrowed(_) => Cow::Borrowed(segment),
        Cow::Owned(bytes) => Cow::Owned(String::from_utf8(bytes).map_err(|_| wrong())?),
    })
}
