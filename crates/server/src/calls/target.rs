//! What the target of a request names: the values of its path's parameters, and its query.

use crate::wire::problem::{Answer, Problem};
use crate::wire::target::decode;
use axum::http::Uri;
use std::borrow::Cow;

/// No path has more parameters.
const MOST: usize = 3;

/// Where in a path its parameters stand, in order. So the path is taken apart once, and nothing of it is copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// The first byte of each, and the one behind it.
    spans: [(u32, u32); MOST],
    count: u8,
}

impl Captured {
    /// One more.
    #[inline]
    pub fn push(&mut self, start: usize, end: usize) {
        self.spans[usize::from(self.count)] = (start as u32, end as u32);
        self.count += 1;
    }

    /// The value of parameter `index`, as it stands in `path`.
    #[inline]
    pub fn get(self, path: &str, index: usize) -> Option<&str> {
        let (start, end) = *self.spans[..usize::from(self.count)].get(index)?;
        path.get(start as usize..end as usize)
    }

    /// The first byte of parameter `index`.
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
    /// `uri`, with the parameters of its path.
    #[inline]
    pub fn new(uri: &'r Uri, captured: Captured) -> Self {
        Target { uri, captured }
    }

    /// The query, as it stands there.
    #[inline]
    pub fn query(self) -> Option<&'r str> {
        self.uri.query()
    }

    /// The name of the database, as it stands there: a good one has nothing to decode.
    #[inline]
    pub fn database(self) -> &'r str {
        self.raw(0)
    }

    /// The name of the table.
    ///
    /// # Errors
    /// 400 if it is not UTF-8.
    #[inline]
    pub fn table(self) -> Answer<Cow<'r, str>> {
        table_name(self.raw(1))
    }

    /// What follows the database, as it stands there: a table's name, or a transaction's token.
    #[inline]
    pub fn second(self) -> &'r str {
        self.raw(1)
    }

    /// The key.
    ///
    /// # Errors
    /// 400 if it is not well encoded.
    #[inline]
    pub fn key(self) -> Answer<Cow<'r, [u8]>> {
        Ok(decode(self.raw_key())?)
    }

    /// The key, as it stands there, slashes too.
    #[inline]
    pub fn raw_key(self) -> &'r str {
        self.raw(2)
    }

    #[inline]
    fn raw(self, index: usize) -> &'r str {
        self.captured.get(self.uri.path(), index).unwrap_or_default()
    }
}

/// The name of a table, decoded.
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
