//! The OpenAPI 3.1 document, which is generated from the table of operations. A test checks every line of it against a
//! running server.

use crate::calls::meanings::Meaning;
use crate::calls::operation::{Access, Operation};
use crate::routes::bodies::{any_object, body, schemas, table_name};
use crate::routes::parameters::parameter;
use crate::routes::table::operations;
use serde_json::{Map, Value, json};
use std::sync::OnceLock;

/// The response that any operation can return that waits.
const BUSY: Meaning =
    (503, "The server is busy, or its remote store cannot be reached; try again after `retry-after` seconds");

/// The response of a replica to an operation that writes.
const ELSEWHERE: Meaning = (307, "The server is a replica; `location` is the same path on its primary");
/// The response of a database that did not get the commit in `pando-min-commit`, or whose store is slow.
const NOT_APPLIED: Meaning = (
    504,
    "The commit in `pando-min-commit` was not applied within 5 seconds, or a remote store ended a \
     statement that took too long",
);

/// The response to an operation that a remote store does not have.
const NOT_OVER_STORE: Meaning =
    (501, "The server is over a remote store, and does not have what `capability` names");
/// The response to a request with an option that a remote store does not have.
const NO_SUCH_OPTION: Meaning =
    (422, "The server is over a remote store, and an option of the request needs what `capability` names");

/// Returns the document, which is generated once.
pub fn text() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| document().to_string())
}

fn document() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for operation in operations() {
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method.to_lowercase()] = describe(operation, operation.method, operation.summary);
    }
    // Each GET also responds to HEAD.
    for operation in operations().filter(|operation| operation.method == "GET") {
        let path = &mut paths[operation.path];
        if path["head"].is_null() {
            path["head"] = describe(operation, "HEAD", "Same as GET, but returns headers only");
        }
    }
    let mut schemas = schemas();
    schemas.insert("Problem".to_owned(), problem());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Pando",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Databases over HTTP. Keys and values are bytes. Addresses have them \
                            percent-encoded, \
                            and bodies as they are. JSON has them as text, or as hexadecimal digits in a member \
                            whose name ends in `_hex`.",
            "license": { "name": "MIT OR Apache-2.0" },
        },
        "security": [{ "token": [] }, {}],
        "paths": paths,
        "components": {
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            "schemas": schemas,
        },
    })
}

fn problem() -> Value {
    json!({
        "type": "object",
        "description": "A problem as defined by RFC 9457",
        "required": ["type", "title", "status", "detail"],
        "properties": {
            "type": { "type": "string" },
            "title": { "type": "string" },
            "status": { "type": "integer" },
            "detail": { "type": "string" },
            "commit": {
                "type": "string",
                "description": "Of the problem `indeterminate` over a remote store: the name of the commit, \
                                by which `.../commits/{commit}/outcome` finds out whether it happened",
            },
            "capability": {
                "type": "string",
                "description": "What the server does not have, because it is over a remote store",
            },
        },
    })
}

/// Responses that any operation can return: the address or a header is wrong, or a token is missing or too narrow.
const ALWAYS: &[(u16, &str)] = &[
    (400, "The request is not valid; `detail` says what is wrong with it"),
    (401, "A token is required"),
    (
        403,
        "The token does not allow the request, a page of another site may have sent it, or the name of \
         the table is reserved",
    ),
    (
        429,
        "The token has used up its rate, or a limit on what clients hold is reached; `retry-after` says when",
    ),
];

fn describe(operation: &Operation, method: &str, summary: &str) -> Value {
    let in_path = operation.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let in_path = in_path.map(|name| {
        let schema = match name {
            "database" => json!({ "type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$" }),
            "table" => table_name(),
            _ => json!({ "type": "string", "minLength": 1 }),
        };
        json!({ "name": name, "in": "path", "required": true, "schema": schema })
    });
    let busy = (!operation.is_at_once).then_some(&BUSY);
    let is_in_database = matches!(operation.access, Access::Default(_) | Access::Database(_));
    let late = is_in_database.then_some(&NOT_APPLIED);
    let elsewhere = operation.is_of_primary().then_some(&ELSEWHERE);
    let over_store = match operation.needs {
        Some(_) => Some(&NOT_OVER_STORE),
        None => is_in_database.then_some(&NO_SUCH_OPTION),
    };
    let meanings = ALWAYS.iter().chain(elsewhere).chain(busy).chain(late).chain(over_store);
    let meanings = meanings.chain(operation.responses);
    let reads_own_writes = is_in_database.then(|| parameter("min-commit"));
    let others = operation.parameters.iter().map(|name| parameter(name));
    let parameters: Vec<Value> = in_path.chain(others).chain(reads_own_writes).collect();
    let responses: Map<String, Value> = meanings
        .map(|&(status, meaning)| (status.to_string(), response(operation, method, status, meaning)))
        .collect();
    let words = operation.path.split(['/', '{', '}', '.']).filter(|word| !word.is_empty());
    let words = words.collect::<Vec<_>>().join("_");
    let id = if words.is_empty() { "dashboard" } else { &words };
    let mut described = json!({
        "operationId": format!("{}_{id}", method.to_lowercase()),
        "summary": summary,
        "tags": [tag(operation.path)],
        "parameters": parameters,
        "responses": responses,
    });
    if let Some(capability) = operation.needs {
        described["x-pando-capability"] = capability.name().into();
    }
    if !operation.body.is_empty() {
        described["requestBody"] = body(operation.body);
    }
    described
}

fn tag(path: &str) -> &'static str {
    match path {
        path if path.starts_with("/v0") => "/v0: keys and values",
        path if path.contains("/entries") => "Records",
        path if path.contains("/documents") => "Documents",
        path if path.contains("/tables") => "Tables",
        path if path.ends_with("/sql") => "SQL",
        path if path.contains("/hrana") => "Hrana",
        path if ["/batch", "/transactions", "/commits"].iter().any(|part| path.contains(part)) => {
            "Transactions"
        }
        path if path.starts_with("/v1/databases") => "Databases",
        _ => "The server",
    }
}

/// Returns the description of a response.
fn response(operation: &Operation, method: &str, status: u16, meaning: &str) -> Value {
    if status == 307 {
        return json!({ "description": meaning });
    }
    let is_silent = operation.content.is_empty() || matches!(status, 202 | 204 | 304);
    if method == "HEAD" || (status < 400 && is_silent) {
        return json!({ "description": meaning });
    }
    // An absent key is a response without a body.
    match operation.content {
        [VALUE] if status == 404 && operation.path.ends_with("{key}") => {
            json!({ "description": "The key does not exist; with a problem as the body, the table or \
                                    database does not exist" })
        }
        [VALUE] if status == 404 && operation.parameters.contains(&"id") => json!({ "description": meaning }),
        _ if status >= 400 => {
            let problem = json!({ "$ref": "#/components/schemas/Problem" });
            let is_hrana = operation.path.contains("/hrana");
            let kind = if is_hrana { "application/json" } else { "application/problem+json" };
            json!({ "description": meaning, "content": { kind: { "schema": problem } } })
        }
        content => {
            let content: Map<String, Value> =
                content.iter().map(|kind| ((*kind).to_owned(), json!({ "schema": schema(kind) }))).collect();
            json!({ "description": meaning, "content": content })
        }
    }
}

/// The content type of a value.
const VALUE: &str = "application/octet-stream";

fn schema(kind: &str) -> Value {
    match kind {
        "application/json" => any_object(),
        kind if kind.starts_with("text/") => json!({ "type": "string" }),
        _ => json!({}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_document_describes_every_operation_once_and_nothing_else() {
        let document = document();
        let mut ids = BTreeSet::new();
        for operation in operations() {
            let described = &document["paths"][operation.path][operation.method.to_lowercase()];
            assert_eq!(described["summary"], operation.summary, "{operation:?}");
            assert!(ids.insert(described["operationId"].to_string()), "{operation:?} twice");
        }
        for (path, methods) in document["paths"].as_object().unwrap() {
            for method in methods.as_object().unwrap().keys().filter(|method| *method != "head") {
                let is_there = |operation: &Operation| {
                    operation.path == path && operation.method.eq_ignore_ascii_case(method)
                };
                assert!(operations().any(is_there), "{method} {path}");
            }
            assert_eq!(
                methods["head"].is_null(),
                methods["get"].is_null(),
                "{path}: HEAD is wherever GET is"
            );
        }
    }
}
