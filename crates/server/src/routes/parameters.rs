//! Parameters of queries and headers. The OpenAPI document refers to them by name, and queries are checked against
//! them, so exactly the described parameters are accepted.

use crate::calls::operation::Operation;
use crate::operations::backup::LEAST_RATE_BYTES;
use crate::wire::form::LONGEST_CUT_BYTES;
use crate::wire::problem::{Answer, Problem};
use crate::wire::target::names;
use serde_json::{Value, json};

/// A parameter that a query may have.
#[derive(Debug)]
pub struct Known {
    name: String,
    /// Whether it can be repeated.
    is_list: bool,
}

/// Returns the parameters of an operation's query.
pub fn query_of(operation: &Operation) -> Vec<Known> {
    let described = operation.parameters.iter().map(|name| parameter(name));
    let in_query = described.filter(|parameter| parameter["in"] == "query");
    let known = |parameter: Value| {
        let is_list = parameter["schema"]["type"] == "array";
        Known { name: parameter["name"].as_str().unwrap_or_default().to_owned(), is_list }
    };
    in_query.map(known).collect()
}

/// Refuses a query with an unknown or repeated parameter. A misspelt parameter would otherwise be ignored without
/// notice.
///
/// # Errors
/// 400 for such a query.
pub fn check_query(known: &[Known], query: &str) -> Answer<()> {
    for (at, name) in names(Some(query)).enumerate() {
        let Some(found) = known.iter().find(|known| known.name == name) else {
            let known: Vec<&str> = known.iter().map(|known| &known.name[..]).collect();
            let which = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let detail = format!(
                "{name:?} is not a parameter of this path; its parameters: {which}; nothing was done"
            );
            return Err(Problem::bad_request(detail));
        };
        if !found.is_list && names(Some(query)).take(at).any(|before| before == name) {
            return Err(Problem::bad_request(format!(
                "the parameter {name:?} appears twice; nothing was done"
            )));
        }
    }
    Ok(())
}

/// A list of tags, or `*`.
const TAGS: &str = r#"^(\*|(W/)?"[!#-~]*"( ?, ?(W/)?"[!#-~]*")*)$"#;

/// Returns the description of a parameter of the query or of a header.
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
        "tables" | "value_bytes" | "column_bytes" => of_bounds(name),
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
        "after" | "consumer" | "acknowledge" | "changed" | "wait" | "feed" | "rows" => of_changes(name),
        "point" | "keep_ttl" => of_the_dashboard(name),
        "min-commit" => header(
            "pando-min-commit",
            "Wait until the database has this commit, for at most 5 seconds: the number in the header \
             `pando-commit` of an earlier write, so that a replica shows that write",
            json!({ "type": "integer", "minimum": 0 }),
        ),
        "last-event-id" => header(
            "last-event-id",
            "Continue after this commit; clients of server-sent events send this header by themselves; \
             replaces `after`",
            json!({ "type": "string", "pattern": "^[0-9]+$" }),
        ),
        "lines" | "delimiter" | "insert" | "schema" | "made" | "unique" | "layout" | "ttl_ms"
        | "entry_ttl" | "compression" | "chunk" => of_rows(name),
        "if-match" => {
            header("if-match", "Act only if the value has one of these tags; `*`: only if it exists", tags())
        }
        "if-none-match" => header(
            "if-none-match",
            "Act only if the value has none of these tags; `*`: only if it does not exist",
            tags(),
        ),
        "range" | "if-range" | "content-encoding" => of_bytes(name),
        other => unreachable!("no parameter {other} is described"),
    }
}

/// Returns the headers that say which bytes are sent, and how.
fn of_bytes(name: &str) -> Value {
    let header = |meaning: &str, schema: Value| {
        let mut header = query(name, meaning, schema);
        header["in"] = json!("header");
        header
    };
    match name {
        "range" => header(
            "Return only these bytes, as in `bytes=0-99`, `bytes=100-` or `bytes=-100`; several ranges are \
             ignored",
            json!({ "type": "string" }),
        ),
        "if-range" => {
            header("Return a part only if the value still has this tag", json!({ "type": "string" }))
        }
        _ => header(
            "How the body is compressed; the limit of an import applies to the decoded body",
            json!({ "type": "string", "enum": ["gzip", "zstd", "identity"] }),
        ),
    }
}

fn query(name: &str, meaning: &str, schema: Value) -> Value {
    json!({ "name": name, "in": "query", "required": false, "description": meaning, "schema": schema })
}

/// Returns the parameters that the dashboard needed first.
fn of_the_dashboard(name: &str) -> Value {
    match name {
        "point" => {
            let number = json!({ "type": "integer", "minimum": 0, "maximum": u64::MAX });
            query("after", "Only the points after the point with this number", number)
        }
        _ => query(
            "keep_ttl",
            "Let the entry expire when the one that it replaces would have, in a table with `ttl_by_key`",
            json!({ "type": "boolean" }),
        ),
    }
}

/// Returns the parameters that select documents by the leading values of a key.
fn of_leading_values(name: &str) -> Value {
    let (name, meaning) = match name {
        "first" => ("start", "Start at these leading values of the key (inclusive), separated by slashes"),
        "behind" => ("end", "Stop before these leading values of the key (exclusive), separated by slashes"),
        _ => ("prefix", "Only documents whose key begins with these values, separated by slashes"),
    };
    query(name, meaning, json!({ "type": "string" }))
}

/// Returns the parameters that replace the counted operations of an advice.
fn of_advice(name: &str) -> Value {
    let meaning = match name {
        "reads" => "Assume this many look-ups of each table, instead of the number counted so far",
        "scanned" => "Assume that cursors pass this many records of each table",
        _ => "Assume this many puts and deletes in each table",
    };
    query(name, meaning, json!({ "type": "integer", "minimum": 0, "maximum": u64::MAX }))
}

/// Returns the parameters of a profile.
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

/// Returns the parameters that limit a response.
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
            let meaning = match name {
                "value_bytes" => {
                    "Return at most this many bytes of each value; a longer value has its length as \
                     `value_bytes`"
                }
                _ => {
                    "Return at most this many bytes of each value of text, bytes or JSON, each document with \
                     its key and cursor"
                }
            };
            query("value_bytes", meaning, number)
        }
    }
}

/// Returns the parameters of backups.
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

/// Returns the parameters of a stream of changes.
fn of_changes(name: &str) -> Value {
    match name {
        "after" => {
            let number = json!({ "type": "integer", "minimum": 0, "maximum": u64::MAX });
            query("after", "Begin after the commit of this number; 0: as far back as possible", number)
        }
        "consumer" => {
            let name = json!({ "type": "string", "minLength": 1, "maxLength": 100 });
            query("consumer", "Begin after what this consumer has acknowledged", name)
        }
        "acknowledge" => {
            let number = json!({ "type": "integer", "minimum": 0, "maximum": u64::MAX });
            let meaning = "The commit up to which everything is done; one before the position has no effect";
            query("acknowledge", meaning, number)
        }
        "changed" => {
            let several = json!({ "type": "array", "items": { "type": "string" } });
            query("table", "Only changes of these tables", several)
        }
        "rows" => {
            let meaning = "Show rows with their columns, and definitions, for the tables of SQL and typed \
                           tables, instead of the bytes that are stored; `table` takes their names";
            query("rows", meaning, json!({ "type": "boolean" }))
        }
        "wait" => {
            let seconds = json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX });
            query("wait", "End after this many seconds without a change; without it, never", seconds)
        }
        _ => {
            let words = json!({ "type": "string", "enum": ["ndjson", "sse", "binary"] });
            query(
                "format",
                "The format: lines, server-sent events, or the bytes that a copy applies; the default \
                 follows the header `accept`",
                words,
            )
        }
    }
}

/// Returns the parameters of rows in the forms of files.
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
        "entry_ttl" => {
            let number = json!({ "type": "integer", "minimum": 1, "maximum": u64::MAX - 1 });
            let meaning = "How long the entry lives in milliseconds, in a table with `ttl_by_key`; \
                           without it, for ever";
            query("ttl_ms", meaning, number)
        }
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
    use crate::access::cors::preflight;
    use crate::routes::table::operations;
    use axum::http::header::{ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_REQUEST_METHOD};
    use axum::http::{HeaderMap, HeaderValue, Method};

    #[test]
    fn a_page_of_another_site_may_send_every_header_that_an_operation_takes() {
        let asks = (ACCESS_CONTROL_REQUEST_METHOD, HeaderValue::from_static("GET"));
        let reply = preflight(&Method::OPTIONS, &HeaderMap::from_iter([asks])).unwrap();
        let allowed = reply.headers()[ACCESS_CONTROL_ALLOW_HEADERS].to_str().unwrap();
        let names = operations().flat_map(|operation| operation.parameters.iter());
        let mut count = 0;
        for parameter in names.map(|name| parameter(name)).filter(|parameter| parameter["in"] == "header") {
            let name = parameter["name"].as_str().unwrap().to_lowercase();
            assert!(allowed.split(", ").any(|allowed| allowed == name), "{name}");
            count += 1;
        }
        assert!(count > 5, "{count}");
    }
}
