//! Query parameters that several operations share.

use crate::data::engine::Engine;
use crate::wire::problem::{Answer, Problem};
use crate::wire::target::{parameter, raw_parameter};
use pando::{Durability, Span};
use std::ops::Bound;
use std::time::Duration;

/// Parses a flag: present without a value, `true` or `false`.
pub fn flag(query: Option<&str>, name: &str) -> Answer<bool> {
    match raw_parameter(query, name) {
        None | Some("false") => Ok(false),
        Some("" | "true") => Ok(true),
        Some(_) => Err(Problem::bad_request(format!("`{name}` must be true or false"))),
    }
}

/// Returns the span that `start`, `end` and `prefix` describe.
pub fn span(query: Option<&str>) -> Answer<Span> {
    let (start, end) = (parameter(query, "start")?, parameter(query, "end")?);
    match parameter(query, "prefix")? {
        Some(_) if start.is_some() || end.is_some() => {
            Err(Problem::bad_request("`prefix` cannot be combined with `start` or `end`"))
        }
        Some(prefix) => Ok(Span::prefix(&prefix)),
        None => {
            let start = start.as_deref().map_or(Bound::Unbounded, Bound::Included);
            Ok(Span::between(start, end.as_deref().map_or(Bound::Unbounded, Bound::Excluded)))
        }
    }
}

/// Returns the largest number of records that the request wants.
pub fn limit(query: Option<&str>) -> Answer<Option<u64>> {
    // With a limit of 0 there would be no last record for the cursor to name.
    let wrong = || Problem::bad_request("`limit` must be a whole number, 1 or more");
    let number = raw_parameter(query, "limit").map(|number| number.parse().map_err(|_| wrong()));
    match number.transpose()? {
        Some(0) => Err(wrong()),
        limit => Ok(limit),
    }
}

/// Returns the durability of a write: the request's, or the server's default `usual`.
///
/// # Errors
/// 400 for an unknown one; 422 for one that the engine `E` does not let a write choose.
pub fn durability<E: Engine>(query: Option<&str>, usual: Durability) -> Answer<Durability> {
    let durability = raw_parameter(query, "durability").map_or(Ok(usual), durability_of)?;
    E::check_durability(durability)?;
    Ok(durability)
}

/// Returns how long the entry that is put lives; `None`: until it is deleted.
pub fn entry_ttl(query: Option<&str>) -> Answer<Option<Duration>> {
    let wrong = |_| Problem::bad_request("`ttl_ms` must be a whole number of milliseconds");
    let digits = raw_parameter(query, "ttl_ms");
    digits.map(|digits| digits.parse().map(Duration::from_millis).map_err(wrong)).transpose()
}

/// Parses the name of a durability.
pub fn durability_of(word: &str) -> Answer<Durability> {
    match word {
        "sync" => Ok(Durability::Sync),
        "buffered" => Ok(Durability::Buffered),
        "lazy" => Ok(Durability::Lazy),
        _ => Err(Problem::bad_request("`durability` must be sync, buffered or lazy")),
    }
}
