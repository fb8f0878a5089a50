//! The OpenAPI 3.1 document, at `/openapi.json`, and a page that shows it, at `/docs`.
//!
//! The document is written from one table, [`OPERATIONS`]: what stands there is what is said, and a test asks a running
//! server for every line of it.

use crate::operations::LEAST_RATE_BYTES;
use crate::routes::bodies::{body, schemas, table_name};
use crate::routes::table::{BUSY, OPERATIONS, Operation};
use crate::serving::service::App;
use crate::wire::body::Body;
use crate::wire::form::LONGEST_CUT_BYTES;
use crate::wire::problem::{Answer, Problem};
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
        },
    })
}

/// Answers that any operation may get: the address or a header is wrong, a token is missing or too narrow.
const ALWAYS: &[(u16, &str)] = &[
    (400, "The request is not valid; `detail` says what is wrong with it"),
    (401, "A token is required"),
    (
        403,
        "The token does not allow the request, a page of another site may have sent it, or the name of \
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
            json!({ "description": "The key does not exist; with a problem as the body, the table or \
                                    database does not exist" })
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
        "from" => {
            query("start", true, "Start at this key (inclusive)", json!({ "type": "string", "minLength": 1 }))
        }
        "key" => {
            let several = json!({ "type": "array", "items": { "type": "string" }, "maxItems": 1000 });
            query("key", false, "Return the records of these keys, in this order", several)
        }
        "one_key" => query("key", false, "Look up this key; without it, a range is scanned", text()),
        "start" => query("start", false, "Start at this key (inclusive)", text()),
        "end" => query("end", false, "Stop before this key (exclusive)", text()),
        "prefix" => query("prefix", false, "Only keys that begin with these bytes", text()),
        "index" => query("index", false, "Use the order of this index instead of the primary key's", text()),
        "reverse" => query("reverse", false, "Return the last record first", json!({ "type": "boolean" })),
        "limit" => {
            let number = json!({ "type": "integer", "minimum": 1, "maximum": u64::MAX });
            query("limit", false, "Return at most this many", number)
        }
        "explained" => {
            let number = json!({ "type": "integer", "minimum": 1, "maximum": 100_000 });
            query("limit", false, "Scan at most this many records", number)
        }
        "cursor" => query(
            "cursor",
            false,
            "Continue from the cursor in the last line of the page before",
            json!({ "type": "string", "pattern": "^([0-9a-f]{2})*$" }),
        ),
        "tables" | "value_bytes" => of_bounds(name),
        "keys_only" => {
            query("keys_only", false, "Return keys without their values", json!({ "type": "boolean" }))
        }
        "durability" => {
            let words = json!({ "type": "string", "enum": ["sync", "buffered", "lazy"] });
            query(
                "durability",
                false,
                "What the write must survive; the default is the server's --durability",
                words,
            )
        }
        "transaction" => {
            let token = json!({ "type": "string", "pattern": "^[0-9a-f]{32}$" });
            header(
                "pando-transaction",
                "The token of the interactive transaction that the request belongs to",
                token,
            )
        }
        "format" => {
            let words = json!({ "type": "string", "enum": ["ndjson", "json", "csv"] });
            query("format", false, "The format of rows; the default is NDJSON", words)
        }
        "first" | "behind" | "beginning" => of_leading_values(name),
        "reads" | "scanned" | "writes" => of_advice(name),
        "kind" | "seconds" | "last" | "form" => of_profile(name),
        "since" | "rate" => of_backup(name),
        "lines" | "delimiter" | "insert" | "schema" | "made" | "unique" | "layout" | "ttl_ms"
        | "compression" | "chunk" => of_rows(name),
        "if-match" => {
            header("if-match", "Act only if the value has one of these tags; `*`: only if it exists", tags())
        }
        "if-none-match" => header(
            "if-none-match",
            "Act only if the value has none of these tags; `*`: only if it does not exist",
            tags(),
        ),
        other => unreachable!("no parameter {other} is described"),
    }
}

fn query(name: &str, meaning: &str, schema: Value) -> Value {
    json!({ "name": name, "in": "query", "required": false, "description": meaning, "schema": schema })
}

/// Parameters that select documents by the leading values of a key.
fn of_leading_values(name: &str) -> Value {
    let (name, meaning) = match name {
        "first" => ("start", "Start at these leading values of the key (inclusive), separated by slashes"),
        "behind" => ("end", "Stop before these leading values of the key (exclusive), separated by slashes"),
        _ => ("prefix", "Only documents whose key begins with these values, separated by slashes"),
    };
    query(name, meaning, json!({ "type": "string" }))
}

/// Parameters that replace the counted operations of an advice.
fn of_advice(name: &str) -> Value {
    let meaning = match name {
        "reads" => "Assume this many look-ups of each table, instead of the number counted so far",
        "scanned" => "Assume that cursors pass this many records of each table",
        _ => "Assume this many puts and deletes in each table",
    };
    query(name, meaning, json!({ "type": "integer", "minimum": 0, "maximum": u64::MAX }))
}

/// Parameters of a profile.
fn of_profile(name: &str) -> Value {
    let words = |words: &[&str]| json!({ "type": "string", "enum": words });
    let seconds = || json!({ "type": "integer", "minimum": 1, "maximum": 60 });
    let (meaning, schema) = match name {
        "kind" => ("What to sample", words(&["cpu", "alloc", "lock"])),
        "seconds" => ("How many seconds to sample", seconds()),
        "last" => ("Return a profile of the last seconds, if the server has --profile-window", seconds()),
        _ => ("A picture or folded text", words(&["svg", "folded"])),
    };
    query(name, meaning, schema)
}

/// Parameters that bound an answer.
fn of_bounds(name: &str) -> Value {
    match name {
        "tables" => {
            let words = json!({ "type": "string", "enum": ["top", "all"] });
            let meaning =
                "`all`: every table; the default is the 100 most used tables, and one sample for the others";
            query("tables", meaning, words)
        }
        _ => {
            let number = json!({ "type": "integer", "minimum": 0, "maximum": LONGEST_CUT_BYTES });
            let meaning = "Return at most this many bytes of each value; a longer value has its length as \
                           `value_bytes`";
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
                "Only what changed since this backup, given as the bytes of `BackupInfo::to_bytes` in \
                 hexadecimal digits",
                digits,
            )
        }
        _ => {
            let bytes = json!({ "type": "integer", "minimum": LEAST_RATE_BYTES, "maximum": u64::MAX });
            query("rate", "Send at most this many bytes a second", bytes)
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
            query("format", "The format of rows; CSV has a header and no pages", words)
        }
        "delimiter" => {
            let one = json!({ "type": "string", "pattern": "^[!#-~\t ]$" });
            query("delimiter", "The separator between fields of CSV; the default is a comma", one)
        }
        "insert" => query(
            "insert",
            "Fail if a row with the same key exists, instead of replacing it",
            json!({ "type": "boolean" }),
        ),
        "schema" => {
            let words = json!({ "type": "string", "examples": ["id int key, name text null"] });
            query("schema", "Create the table with these columns", words)
        }
        "made" => query("index", "An index of the new table: its name and columns", indexes()),
        "unique" => query("unique", "A unique index of the new table: its name and columns", indexes()),
        "layout" => {
            let words = json!({ "type": "string", "enum": ["btree", "lsm"] });
            query("layout", "The layout of the new table; must match if the table exists", words)
        }
        "ttl_ms" => {
            let number = json!({ "type": "integer", "minimum": 1, "maximum": u64::MAX });
            query(
                "ttl_ms",
                "How long rows of the new table live, in milliseconds; must match if the table exists",
                number,
            )
        }
        "compression" => {
            let words = json!({ "type": "string", "enum": ["lz4", "none"] });
            query(
                "compression",
                "The compression of the new table, if it is an LSM table; must match if the table exists",
                words,
            )
        }
        _ => {
            let number = json!({ "type": "integer", "minimum": 1, "maximum": u64::MAX });
            query("chunk", "Commit after this many rows; rows committed before a failure stay", number)
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
