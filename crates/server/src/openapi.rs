//! The OpenAPI 3.1 document, at `/openapi.json`, and a page that shows it, at `/docs`.
//!
//! The document is written from one table, [`OPERATIONS`]: what stands there is what is said, and a test asks a running
//! server for every line of it.

use crate::app::App;
use crate::bodies::{body, schemas, table_name};
use crate::body::Body;
use crate::form::LONGEST_CUT_BYTES;
use crate::operations::{BUSY, OPERATIONS, Operation};
use crate::problem::{Answer, Problem};
use crate::v1::LEAST_RATE_BYTES;
use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Method, Response};
use axum::routing::any;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::sync::OnceLock;

/// The paths.
pub fn routes() -> Router<Arc<App>> {
    Router::new().route("/openapi.json", any(show_document)).route("/docs", any(show_page))
}

async fn show_document(method: Method) -> Answer {
    page(&method, "application/json", text().as_bytes())
}

async fn show_page(method: Method) -> Answer {
    page(&method, "text/html; charset=utf-8", include_bytes!("docs.html"))
}

/// A page that is always the same. No script or style comes from elsewhere, and no other site may frame it.
pub fn page(method: &Method, content_type: &'static str, content: &'static [u8]) -> Answer {
    if *method != Method::GET && *method != Method::HEAD {
        return Err(Problem::method_not_allowed());
    }
    let mut response = Response::new(Body::whole(content));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    let policy = "default-src 'self'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; \
                  frame-ancestors 'none'";
    headers.insert("content-security-policy", HeaderValue::from_static(policy));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    Ok(response)
}

/// The document, made once.
fn text() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| document().to_string())
}

fn document() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for operation in OPERATIONS {
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method] = describe(operation);
    }
    // HEAD is wherever GET is.
    for operation in OPERATIONS.iter().filter(|operation| operation.method == "get") {
        let path = &mut paths[operation.path];
        if path["head"].is_null() {
            let summary = "Same as GET, but returns headers only";
            path["head"] = describe(&Operation { method: "head", summary, ..*operation });
        }
    }
    let mut schemas = schemas();
    schemas.insert("Problem".to_owned(), problem());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Pando",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Databases over HTTP. Keys and values are bytes: percent-encoded in addresses, as \
                            they are in bodies, and in JSON as text, or in hexadecimal digits under the name with \
                            `_hex` behind it.",
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
        "description": "RFC 9457",
        "required": ["type", "title", "status", "detail"],
        "properties": {
            "type": { "type": "string" },
            "title": { "type": "string" },
            "status": { "type": "integer" },
            "detail": { "type": "string" },
        },
    })
}

/// Answers that any operation may get: the address or a header is wrong, a token is missing or too narrow.
const ALWAYS: &[(u16, &str)] = &[
    (400, "The request is not as it should be"),
    (401, "A token is needed"),
    (
        403,
        "The token does not reach so far, a page of another site may have sent the request, or the name of \
         the table is reserved",
    ),
];

/// Paths that are answered at once, whatever is at work.
const AT_ONCE: &[&str] =
    &["/", "/docs", "/openapi.json", "/healthz", "/v0/status", "/v1/server", "/debug/slow"];

fn describe(operation: &Operation) -> Value {
    let in_path = operation.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let in_path = in_path.map(|name| {
        let schema = match name {
            "database" => json!({ "type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$" }),
            "table" => table_name(),
            _ => json!({ "type": "string", "minLength": 1 }),
        };
        json!({ "name": name, "in": "path", "required": true, "schema": schema })
    });
    let parameters: Vec<Value> =
        in_path.chain(operation.parameters.iter().map(|name| parameter(name))).collect();
    let busy = (!AT_ONCE.contains(&operation.path)).then_some(&BUSY);
    let answers = ALWAYS.iter().chain(busy).chain(operation.answers);
    let responses: Map<String, Value> = answers
        .map(|&(status, meaning)| (status.to_string(), response(operation, status, meaning)))
        .collect();
    let words = operation.path.split(['/', '{', '}', '.']).filter(|word| !word.is_empty());
    let words = words.collect::<Vec<_>>().join("_");
    let id = if words.is_empty() { "dashboard" } else { &words };
    let mut described = json!({
        "operationId": format!("{}_{id}", operation.method),
        "summary": operation.summary,
        "tags": [tag(operation.path)],
        "parameters": parameters,
        "responses": responses,
    });
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
        path if path.contains("/batch") || path.contains("/transactions") => "Transactions",
        path if path.starts_with("/v1/databases") => "Databases",
        _ => "The server",
    }
}

/// What an answer carries.
fn response(operation: &Operation, status: u16, meaning: &str) -> Value {
    let of = |kind: &str, schema: Value| {
        let content = json!({ kind: { "schema": schema } });
        json!({ "description": meaning, "content": content })
    };
    let silent = matches!(status, 202 | 204 | 304) || (status == 201 && operation.path.starts_with("/v0"));
    let absent_key = status == 404 && operation.method == "get";
    match (status, operation.path) {
        (200, path) if path.ends_with("/documents/{table}") && operation.method == "get" => {
            json!({ "description": meaning, "content": {
                "application/x-ndjson": { "schema": {} }, "text/csv": { "schema": { "type": "string" } },
            } })
        }
        (200, path) if path.contains("/documents") => of("application/json", json!({ "type": "object" })),
        (404, path) if path.contains("/documents") => {
            of("application/problem+json", json!({ "$ref": "#/components/schemas/Problem" }))
        }
        _ if silent || operation.method == "head" => json!({ "description": meaning }),
        (404, "/v0/entity") => json!({ "description": meaning }),
        (404, path) if absent_key && path.ends_with("{key}") => {
            json!({ "description": "The key is absent; or, with a problem, table or database are" })
        }
        (400.., _) => of("application/problem+json", json!({ "$ref": "#/components/schemas/Problem" })),
        (_, "/healthz" | "/readyz" | "/metrics" | "/v0/status") => {
            of("text/plain", json!({ "type": "string" }))
        }
        (_, "/debug/profile") => {
            json!({ "description": meaning, "content": { "image/svg+xml": {}, "text/plain": {} } })
        }
        (_, path) if path.ends_with("/sql") => json!({ "description": meaning, "content": {
            "application/x-ndjson": { "schema": {} },
            "application/json": { "schema": { "type": "object" } },
            "text/csv": { "schema": { "type": "string" } },
        } }),
        (_, "/docs" | "/") => of("text/html", json!({ "type": "string" })),
        (_, "/v0/entities") => of("application/octet-stream", json!({})),
        (_, path) if path.ends_with("{key}") || path.ends_with("/backup") || path == "/v0/entity" => {
            of("application/octet-stream", json!({}))
        }
        (_, path) if path.ends_with("/entries") && operation.method == "get" => {
            of("application/x-ndjson", json!({}))
        }
        _ => of("application/json", json!({ "type": "object" })),
    }
}

/// A list of tags, or `*`.
const TAGS: &str = r#"^(\*|(W/)?"[!#-~]*"( ?, ?(W/)?"[!#-~]*")*)$"#;

/// A parameter of the query or a header.
pub fn parameter(name: &str) -> Value {
    let described = |name: &str, place: &str, required: bool, meaning: &str, schema: Value| {
        json!({
            "name": name, "in": place, "required": required, "description": meaning, "schema": schema,
        })
    };
    let query = |name: &str, required: bool, meaning: &str, schema: Value| {
        described(name, "query", required, meaning, schema)
    };
    let header = |name: &str, meaning: &str, schema: Value| described(name, "header", false, meaning, schema);
    let tags = || json!({ "type": "string", "minLength": 1, "pattern": TAGS, "examples": ["*", "\"0123\""] });
    let text = || json!({ "type": "string" });
    match name {
        "id" => {
            query("id", true, "The key: bytes, percent-encoded", json!({ "type": "string", "minLength": 1 }))
        }
        "from" => query("start", true, "The first key", json!({ "type": "string", "minLength": 1 })),
        "key" => {
            let several = json!({ "type": "array", "items": { "type": "string" }, "maxItems": 1000 });
            query("key", false, "These keys, in this order", several)
        }
        "one_key" => query("key", false, "Look this key up; else a range is read", text()),
        "start" => query("start", false, "The first key", text()),
        "end" => query("end", false, "The first key behind the last", text()),
        "prefix" => query("prefix", false, "Keys that begin so", text()),
        "index" => query("index", false, "In the order of this index; else of the primary key", text()),
        "first" => query("start", false, "The first values of the key, with slashes between them", text()),
        "behind" => query("end", false, "Likewise, of the first that is left out", text()),
        "beginning" => query("prefix", false, "Those whose key begins with these values", text()),
        "reverse" => query("reverse", false, "From the last to the first", json!({ "type": "boolean" })),
        "limit" => {
            let number = json!({ "type": "integer", "minimum": 1, "maximum": u64::MAX });
            query("limit", false, "At most so many", number)
        }
        "reads" | "scanned" | "writes" => {
            let meaning = match name {
                "reads" => "As if each table were asked for so many look-ups; else from what was counted",
                "scanned" => "Likewise, as if cursors passed so many records",
                _ => "Likewise, as if it took so many puts and deletes",
            };
            query(name, false, meaning, json!({ "type": "integer", "minimum": 0, "maximum": u64::MAX }))
        }
        "explained" => {
            let number = json!({ "type": "integer", "minimum": 1, "maximum": 100_000 });
            query("limit", false, "At most so many records of a scan", number)
        }
        "cursor" => query(
            "cursor",
            false,
            "On from here: of the last line of the page before",
            json!({ "type": "string", "pattern": "^([0-9a-f]{2})*$" }),
        ),
        "tables" | "value_bytes" => of_bounds(name),
        "keys_only" => query("keys_only", false, "Without values", json!({ "type": "boolean" })),
        "durability" => {
            let words = json!({ "type": "string", "enum": ["sync", "buffered", "lazy"] });
            query(
                "durability",
                false,
                "What the write is to survive; unless it is said, what the server was told",
                words,
            )
        }
        "transaction" => {
            let token = json!({ "type": "string", "pattern": "^[0-9a-f]{32}$" });
            header("pando-transaction", "The token of the transaction that the request belongs to", token)
        }
        "kind" => query(
            "kind",
            false,
            "What to look at",
            json!({ "type": "string", "enum": ["cpu", "alloc", "lock"] }),
        ),
        "seconds" => {
            query("seconds", false, "For how long", json!({ "type": "integer", "minimum": 1, "maximum": 60 }))
        }
        "last" => {
            let seconds = json!({ "type": "integer", "minimum": 1, "maximum": 60 });
            query("last", false, "Of so many seconds up to now, where the server keeps them", seconds)
        }
        "format" => {
            let words = json!({ "type": "string", "enum": ["ndjson", "json", "csv"] });
            query("format", false, "How rows are written; unless it is said, as NDJSON", words)
        }
        "since" | "rate" => of_backup(name),
        "lines" | "delimiter" | "insert" | "schema" | "made" | "unique" | "layout" | "ttl_ms"
        | "compression" | "chunk" => of_rows(name),
        "form" => query("form", false, "As what", json!({ "type": "string", "enum": ["svg", "folded"] })),
        "if-match" => {
            header("if-match", "Only if the value has one of these tags; `*`: if there is one", tags())
        }
        "if-none-match" => {
            header("if-none-match", "Only if the value has none of these tags; `*`: if there is none", tags())
        }
        other => unreachable!("no parameter {other} is described"),
    }
}

fn query(name: &str, meaning: &str, schema: Value) -> Value {
    json!({ "name": name, "in": "query", "required": false, "description": meaning, "schema": schema })
}

/// Parameters that bound an answer.
fn of_bounds(name: &str) -> Value {
    match name {
        "tables" => {
            let words = json!({ "type": "string", "enum": ["top", "all"] });
            let meaning = "`all`: every table; else the 100 that are used most, and one sample of the others";
            query("tables", meaning, words)
        }
        _ => {
            let number = json!({ "type": "integer", "minimum": 0, "maximum": LONGEST_CUT_BYTES });
            let meaning = "Only so many bytes of each value; a longer one has its length as `value_bytes`";
            query("value_bytes", meaning, number)
        }
    }
}

/// Parameters of backups.
fn of_backup(name: &str) -> Value {
    match name {
        "since" => {
            let digits = json!({ "type": "string", "pattern": "^([0-9a-f]{2})+$" });
            query(
                "since",
                "Only what changed since this backup: what `BackupInfo::to_bytes` says of it",
                digits,
            )
        }
        _ => {
            let bytes = json!({ "type": "integer", "minimum": LEAST_RATE_BYTES, "maximum": u64::MAX });
            query("rate", "At most so many bytes a second", bytes)
        }
    }
}

/// Parameters of rows that are read or written as files have them.
fn of_rows(name: &str) -> Value {
    let indexes =
        || json!({ "type": "array", "items": { "type": "string", "examples": ["by_town=town desc"] } });
    match name {
        "lines" => {
            let words = json!({ "type": "string", "enum": ["ndjson", "csv"] });
            query("format", "How rows are written down; CSV has a header, and no pages", words)
        }
        "delimiter" => {
            let one = json!({ "type": "string", "pattern": "^[!#-~\t ]$" });
            query("delimiter", "What stands between the fields of CSV; unless it is said, a comma", one)
        }
        "insert" => query(
            "insert",
            "A row whose key is there is a failure, instead of taken over",
            json!({ "type": "boolean" }),
        ),
        "schema" => {
            let words = json!({ "type": "string", "examples": ["id int key, name text null"] });
            query("schema", "Make the table: its columns", words)
        }
        "made" => query("index", "Of a table that is made: an index, its name and columns", indexes()),
        "unique" => query("unique", "Likewise, a unique one", indexes()),
        "layout" => {
            let words = json!({ "type": "string", "enum": ["btree", "lsm"] });
            query("layout", "How the table is laid out that is made; of one that is there, how it is", words)
        }
        "ttl_ms" => {
            let number = json!({ "type": "integer", "minimum": 1, "maximum": u64::MAX });
            query("ttl_ms", "Likewise: how long its rows live", number)
        }
        "compression" => {
            let words = json!({ "type": "string", "enum": ["lz4", "none"] });
            query("compression", "Likewise: how its pages are compressed, if it is an LSM table", words)
        }
        _ => {
            let number = json!({ "type": "integer", "minimum": 1, "maximum": u64::MAX });
            query("chunk", "Commit every so many rows; those before a failure stay", number)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_document_describes_every_operation_once() {
        let document = document();
        let mut ids = BTreeSet::new();
        for operation in OPERATIONS {
            let described = &document["paths"][operation.path][operation.method];
            assert!(described["summary"].is_string(), "{operation:?}");
            assert!(ids.insert(described["operationId"].to_string()), "{operation:?} twice");
        }
    }
}
