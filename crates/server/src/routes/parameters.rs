//! Which parameters a query may have: those of the operation that is asked for, each once.
//!
//! The operations and their parameters are those of the OpenAPI document: what is described is what is taken.

use crate::operations::v0::ENTITY_PATH;
use crate::routes::openapi::parameter;
use crate::routes::table::{OPERATIONS, Operation};
use crate::wire::problem::{Answer, Problem};
use crate::wire::target::names;
use axum::http::Method;
use serde_json::Value;

/// Refuses a query with a parameter that the operation does not have, or has once: a misspelt one would be taken to be
/// heard, and do something else than was meant.
///
/// # Errors
/// 400.
#[inline]
pub fn check_query(method: &Method, path: &str, query: Option<&str>) -> Answer<()> {
    match query {
        // The usual one, whose handler says what is missing.
        Some(query) if path == ENTITY_PATH && query.starts_with("id=") && !query.contains('&') => Ok(()),
        Some(query) if ["/v0", "/v1", "/debug", "/metrics"].iter().any(|root| path.starts_with(root)) => {
            check_names(method, path, query)
        }
        _ => Ok(()),
    }
}

fn check_names(method: &Method, path: &str, query: &str) -> Answer<()> {
    let method = if *method == Method::HEAD { Method::GET } else { method.clone() };
    let is_asked = |operation: &&Operation| {
        operation.method.eq_ignore_ascii_case(method.as_str()) && operation.is_at(path)
    };
    let Some(operation) = OPERATIONS.iter().find(is_asked) else { return Ok(()) };
    let known = query_of(operation);
    let mut seen = Vec::new();
    for name in names(Some(query)) {
        let Some((_, is_list)) = known.iter().find(|(known, _)| known == name) else {
            let known: Vec<&str> = known.iter().map(|(name, _)| &name[..]).collect();
            let which = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let detail = format!(
                "{name:?} is not a parameter of this path; its parameters: {which}; nothing was done"
            );
            return Err(Problem::bad_request(detail));
        };
        if !is_list && seen.contains(&name) {
            return Err(Problem::bad_request(format!(
                "the parameter {name:?} appears twice; nothing was done"
            )));
        }
        seen.push(name);
    }
    Ok(())
}

/// The parameters of an operation's query, and whether each may be there several times.
fn query_of(operation: &Operation) -> Vec<(String, bool)> {
    let described = operation.parameters.iter().map(|name| parameter(name));
    let in_query = described.filter(|parameter| parameter["in"] == "query");
    let name = |parameter: Value| {
        let is_list = parameter["schema"]["type"] == "array";
        (parameter["name"].as_str().unwrap_or_default().to_owned(), is_list)
    };
    in_query.map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_pen_is_refused() {
        let is_good = |method: Method, target: &str| {
            let (path, query) = target.split_once('?').unwrap();
            check_query(&method, path, Some(query)).is_ok()
        };
        let entries = "/v1/databases/d/tables/t/entries";
        for (method, target) in [
            (Method::GET, format!("{entries}?start=a&end=b&limit=1&value_bytes=7")),
            (Method::HEAD, format!("{entries}?start=a")),
            (Method::GET, format!("{entries}?key=a&key=b")),
            (Method::DELETE, format!("{entries}?prefix=")),
            (Method::PUT, format!("{entries}/k?durability=lazy")),
            (Method::PUT, "/v0/entity?id=k".to_owned()),
            (Method::GET, "/v0/entities?start=a&end=b".to_owned()),
            (Method::GET, "/metrics?tables=all".to_owned()),
            (Method::GET, "/nothing?x=y".to_owned()),
            (Method::POST, "/v1/databases/d/documents/t?format=csv&delimiter=%3B&index=a&index=b".to_owned()),
        ] {
            assert!(is_good(method.clone(), &target), "{method} {target}");
        }
        for (method, target) in [
            (Method::GET, format!("{entries}?start=a&edn=b")),
            (Method::GET, format!("{entries}?limit=1&limit=2")),
            (Method::GET, format!("{entries}?durability=lazy")),
            (Method::GET, format!("{entries}/k?limit=1")),
            (Method::PUT, format!("{entries}/k?durabilty=lazy")),
            (Method::DELETE, format!("{entries}?edn=b")),
            (Method::PUT, "/v0/entity?id=k&id=l".to_owned()),
            (Method::PUT, "/v0/entity?id=k&durability=lazy".to_owned()),
            (Method::GET, "/v0/entities?start=a&edn=b".to_owned()),
            (Method::GET, "/metrics?table=all".to_owned()),
        ] {
            assert!(!is_good(method.clone(), &target), "{method} {target}");
        }
    }
}
