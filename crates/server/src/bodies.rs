//! What bodies of requests look like, for the OpenAPI document, which knows them by name.

use serde_json::{Map, Value, json};

/// The bound is one of bytes: of characters that take several, fewer are too many.
pub fn table_name() -> Value {
    json!({ "type": "string", "minLength": 1, "maxLength": 255 })
}

/// The body called `name`.
pub fn body(name: &str) -> Value {
    let of = |kind: &str, required: bool, schema: Value| {
        let content = json!({ kind: { "schema": schema } });
        json!({ "required": required, "content": content })
    };
    let object = |properties: Value| {
        json!({
            "type": "object", "properties": properties, "additionalProperties": false,
        })
    };
    let json_of = |properties: Value| of("application/json", false, object(properties));
    let ttl = || json!({ "type": ["integer", "null"], "minimum": 1, "maximum": u64::MAX });
    match name {
        "value" => of("application/octet-stream", false, json!({})),
        "document" => of("application/json", true, json!({ "type": "object" })),
        "records" => of("application/x-ndjson", false, json!({})),
        "rows" => json!({ "required": false, "content": {
            "application/x-ndjson": { "schema": {} }, "text/csv": { "schema": { "type": "string" } },
        } }),
        "database" => json_of(json!({ "page_bytes": { "enum": [4096, 8192, 16384, 32768, 65536, null] } })),
        "table" => json_of(json!({
            "layout": { "enum": ["btree", "lsm", null] }, "ttl_ms": ttl(),
            "compression": { "enum": ["lz4", "none", null] },
        })),
        "change" => {
            let mut name = table_name();
            name["type"] = json!(["string", "null"]);
            let layout = json!({ "enum": ["btree", "lsm", null] });
            let compression = json!({ "enum": ["lz4", "none", null] });
            let change = object(
                json!({ "name": name, "layout": layout, "ttl_ms": ttl(), "compression": compression }),
            );
            of("application/json", true, change)
        }
        "transaction" => json_of(json!({
            "durability": { "enum": ["sync", "buffered", "lazy", null] },
            "isolation": { "enum": ["serializable", "snapshot", null] },
        })),
        "sql" => {
            let ms = json!({ "type": ["integer", "null"], "minimum": 1 });
            let read_only = json!({ "type": "boolean" });
            let sql = json!({ "type": "string", "examples": ["SELECT 1 + 1"] });
            let mut asks = object(json!({
                "sql": sql, "params": sql_params(), "timeout_ms": ms, "read_only": read_only,
            }));
            asks["required"] = json!(["sql"]);
            of("application/json", true, asks)
        }
        "batch" => {
            let mut batch = object(json!({ "operations": { "type": "array", "items": step() } }));
            batch["required"] = json!(["operations"]);
            of("application/json", true, batch)
        }
        other => unreachable!("no body {other} is described"),
    }
}

/// Values of SQL's parameters, by place or by name.
fn sql_params() -> Value {
    let object = |name: &str, is: Value| {
        let properties = json!({ name: is });
        json!({
            "type": "object", "required": [name], "properties": properties, "additionalProperties": false,
        })
    };
    let value = json!({ "anyOf": [
        { "type": ["null", "boolean", "number", "string"] },
        object("bytes", json!({ "type": "string", "pattern": HEX })),
        object("float", json!({ "enum": ["inf", "-inf"] })),
    ] });
    json!({ "anyOf": [
        { "type": "null" },
        { "type": "array", "items": value },
        { "type": "object", "additionalProperties": value },
    ] })
}

/// Bytes as digits.
const HEX: &str = "^([0-9a-fA-F]{2})*$";

/// An operation of a batch: which members it has, one of each row.
fn step() -> Value {
    const KEY: &[&str] = &["key", "key_hex"];
    const VALUE: &[&str] = &["value", "value_hex"];
    const START: &[&str] = &["start", "start_hex"];
    const END: &[&str] = &["end", "end_hex"];
    let of = |op: &str, rows: &[&[&str]]| {
        let member = |name: &str| match name {
            "absent" => json!({ "const": true }),
            name if name.ends_with("_hex") => json!({ "type": "string", "pattern": HEX }),
            _ => json!({ "type": "string" }),
        };
        let names = rows.iter().copied().flatten();
        let mut properties: Map<String, Value> =
            names.map(|name| ((*name).to_owned(), member(name))).collect();
        properties.insert("op".to_owned(), json!({ "const": op }));
        properties.insert("table".to_owned(), table_name());
        let one_of = |row: &&[&str]| {
            let each = row.iter().map(|name| json!({ "required": [name] }));
            json!({ "oneOf": each.collect::<Vec<_>>() })
        };
        json!({
            "type": "object",
            "required": ["op", "table"],
            "properties": properties,
            "additionalProperties": false,
            "allOf": rows.iter().map(one_of).collect::<Vec<_>>(),
        })
    };
    json!({ "oneOf": [
        of("put", &[KEY, VALUE]),
        of("insert", &[KEY, VALUE]),
        of("check", &[KEY, &["value", "value_hex", "absent"]]),
        of("delete", &[KEY]),
        of("delete_range", &[&["prefix", "prefix_hex"]]),
        of("delete_range", &[START]),
        of("delete_range", &[END]),
        of("delete_range", &[START, END]),
    ] })
}
