//! What a path under `/v1` names, decoded: a database, a table, a key.

use crate::wire::problem::{Answer, Problem};
use crate::wire::target::decode;
use std::borrow::Cow;

/// Before the name of a database.
const BEFORE: &str = "/v1/databases/";

/// A record's address, in the shape that needs nothing looked up or copied.
#[derive(Debug)]
pub struct Entry<'p> {
    /// The database's name, as it stands there: a good one has nothing to decode.
    pub database: &'p str,
    /// The table's name.
    pub table: Cow<'p, str>,
    /// The key.
    pub key: Cow<'p, [u8]>,
}

/// The name of the database, as it stands there.
pub fn database(path: &str) -> Option<&str> {
    path.strip_prefix(BEFORE)?.split('/').next().filter(|name| !name.is_empty())
}

/// What stands behind `/v1/databases/{database}/{what}/`, up to the next slash.
pub fn part_of<'p>(path: &'p str, what: &str) -> Option<&'p str> {
    let (_, rest) = path.strip_prefix(BEFORE)?.split_once('/')?;
    rest.strip_prefix(what)?.strip_prefix('/')?.split('/').next()
}

/// What stands behind `/v1/databases/{database}/documents/{table}/`, slashes too.
pub fn document_key(path: &str) -> Option<&str> {
    let (_, rest) = path.strip_prefix(BEFORE)?.split_once('/')?;
    Some(rest.strip_prefix("documents/")?.split_once('/')?.1)
}

/// The name of the table.
///
/// # Errors
/// 400 if it is not UTF-8.
pub fn table(path: &str) -> Answer<Cow<'_, str>> {
    text(part_of(path, "tables").unwrap_or_default())
}

/// A segment as text.
fn text(segment: &str) -> Answer<Cow<'_, str>> {
    let wrong = || Problem::bad_request("the name of a table must be UTF-8");
    Ok(match decode(segment)? {
        Cow::Borrowed(_) => Cow::Borrowed(segment),
        Cow::Owned(bytes) => Cow::Owned(String::from_utf8(bytes).map_err(|_| wrong())?),
    })
}

impl<'p> Entry<'p> {
    /// Of `/v1/databases/{database}/tables/{table}/entries/{key}`; `None` for another path. The key is all the rest,
    /// slashes too.
    pub fn of(path: &'p str) -> Option<Answer<Entry<'p>>> {
        let (database, rest) = path.strip_prefix(BEFORE)?.split_once('/')?;
        let (table, rest) = rest.strip_prefix("tables/")?.split_once('/')?;
        let key = rest.strip_prefix("entries/")?;
        if key.is_empty() {
            return None;
        }
        let entry = || Ok(Entry { database, table: text(table)?, key: decode(key)? });
        Some(entry())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_named_by_bytes() {
        let entry = |path| Entry::of(path).unwrap().unwrap();
        let found = entry("/v1/databases/d/tables/t%C3%A4/entries/a%2Fb/c%00");
        assert_eq!((found.database, &*found.table, &*found.key), ("d", "tä", &b"a/b/c\0"[..]));
        assert!(Entry::of("/v1/databases/d/tables/%ff/entries/k").unwrap().is_err());
        assert!(Entry::of("/v1/databases/d/tables/t/entries/%f").unwrap().is_err());
        for other in ["/v1/databases/d/tables/t/entries/", "/v1/databases/d/tables/t", "/v0/entity", "/v1"] {
            assert!(Entry::of(other).is_none(), "{other}");
        }
    }

    #[test]
    fn parts_are_found() {
        assert_eq!(database("/v1/databases/d"), Some("d"));
        assert_eq!(database("/v1/databases/"), None);
        assert_eq!(part_of("/v1/databases/d/transactions/x/commit", "transactions"), Some("x"));
        assert_eq!(document_key("/v1/databases/d/documents/t/a%2Fb/c"), Some("a%2Fb/c"));
        assert_eq!(document_key("/v1/databases/d/documents/t"), None);
        assert_eq!(table("/v1/databases/d/tables/a%20b/entries").unwrap(), "a b");
    }
}
