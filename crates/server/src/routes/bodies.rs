//! The bodies of requests, for the OpenAPI document, which refers to them by name.

use serde_json::{Map, Value, json};

/// Returns the schema of a table's name. The limit is in bytes, so with characters of several bytes fewer characters
/// are allowed.
pub fn table_name() -> Value {
    json!({ "type": "string", "minLength": 1, "maxLength": 255 })
}

/// Returns the body called `name`.
pub fn body(name: &str) -> Value {
    let of = |kind: &str, required: bool, schema: Value| {
        let content = json!({ kind: { "schema": schema } });
        json!({ "required": required, "content": content })
    };
    match name {
        "value" => of("application/octet-stream", false, json!({})),
        "document" => of("application/json", true, reference("Document")),
        "merge-patch" => of("application/merge-patch+json", true, reference("Document")),
        "records" => of("application/x-ndjson", false, json!({})),
        "rows" => json!({ "required": false, "content": {
            "application/x-ndjson": { "schema": {} }, "text/csv": { "schema": { "type": "string" } },
        } }),
        "database" => of("application/json", false, reference("NewDatabase")),
        "table" => of("application/json", false, reference("NewTable")),
        "change" => of("application/json", true, reference("TableChange")),
        "token" => of("application/json", true, reference("NewToken")),
        "transaction" => of("application/json", false, reference("NewTransaction")),
        "sql" => of("application/json", true, reference("Statements")),
        "pipeline" => of("application/json", true, reference("HranaPipeline")),
        "cursor" => of("application/json", true, reference("HranaCursor")),
        "batch" => of("application/json", true, reference("Batch")),
        other => unreachable!("no body {other} is described"),
    }
}

/// Returns a reference to a schema. Generators of clients make a type of its name.
fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// Returns the schema of one of these words.
fn words(words: &[&str]) -> Value {
    json!({ "type": "string", "enum": words })
}

/// Returns a reference to a schema, or null. A list of values with null among them is no type to generators of Go
/// clients.
fn nullable(name: &str) -> Value {
    json!({ "anyOf": [reference(name), { "type": "null" }] })
}

/// Returns the schema of an object with any members. Generators of TypeScript clients need it in words: to them, an
/// object of which nothing is said has no members.
pub fn any_object() -> Value {
    json!({ "type": "object", "additionalProperties": true })
}

/// Returns the schema of an object without other members.
fn object(properties: Value) -> Value {
    json!({
        "type": "object", "properties": properties, "additionalProperties": false,
    })
}

/// Returns the schemas of bodies by name.
pub fn schemas() -> Map<String, Value> {
    let ttl = || json!({ "type": ["integer", "null"], "minimum": 1, "maximum": u64::MAX });
    let layout = || nullable("Layout");
    let compression = || nullable("Compression");
    let mut name = table_name();
    name["type"] = json!(["string", "null"]);
    let mut statements = object(json!({
        "sql": { "type": "string", "examples": ["SELECT 1 + 1"] },
        "params": sql_params(),
        "timeout_ms": { "type": ["integer", "null"], "minimum": 1 },
        "read_only": { "type": "boolean" },
    }));
    statements["required"] = json!(["sql"]);
    let steps = steps();
    let one_of: Vec<Value> = steps.iter().map(|(name, _)| reference(name)).collect();
    let mut batch = object(json!({ "operations": { "type": "array", "items": { "oneOf": one_of } } }));
    batch["required"] = json!(["operations"]);
    let database = json!({ "page_bytes": nullable("PageBytes") });
    let table = json!({
        "layout": layout(),
        "ttl_ms": ttl(),
        "ttl_by_key": { "type": "boolean" },
        "compression": compression(),
    });
    let change = json!({ "name": name, "layout": layout(), "ttl_ms": ttl(), "compression": compression() });
    let transaction = json!({ "durability": nullable("Durability"), "isolation": nullable("Isolation") });
    let mut token = object(json!({
        "name": { "type": "string", "minLength": 1, "maxLength": 100 },
        "scope": words(&["read", "write", "admin"]),
        "database": { "type": ["string", "null"] },
        "rate": { "type": ["integer", "null"], "minimum": 1, "maximum": u32::MAX },
        "concurrency": { "type": ["integer", "null"], "minimum": 1, "maximum": u32::MAX },
        "expires_in_s": { "type": ["integer", "null"], "minimum": 1 },
    }));
    token["required"] = json!(["name", "scope"]);
    let named = [
        ("Document", any_object()),
        ("PageBytes", json!({ "type": "integer", "enum": [4096, 8192, 16384, 32768, 65536] })),
        ("Layout", words(&["btree", "lsm"])),
        ("Compression", words(&["lz4", "none"])),
        ("Durability", words(&["sync", "buffered", "lazy"])),
        ("Isolation", words(&["serializable", "snapshot"])),
        ("NewDatabase", object(database)),
        ("NewTable", object(table)),
        ("TableChange", object(change)),
        ("NewToken", token),
        ("NewTransaction", object(transaction)),
        ("Statements", statements),
        ("SqlValue", sql_value()),
        ("SqlBytes", sql_form("bytes", json!({ "type": "string", "pattern": HEX }))),
        ("SqlFloat", sql_form("float", words(&["inf", "-inf"]))),
        ("Batch", batch),
        ("HranaPipeline", hrana("requests", json!({ "type": "array", "items": any_object() }))),
        ("HranaCursor", hrana("batch", any_object())),
    ];
    named.into_iter().chain(steps).map(|(name, schema)| (name.to_owned(), schema)).collect()
}

/// Returns the schema of a request of Hrana with the member `name`. Its specification describes the rest.
fn hrana(name: &str, schema: Value) -> Value {
    json!({
        "type": "object",
        "required": [name],
        "properties": { "baton": { "type": ["string", "null"] }, name: schema },
    })
}

/// Returns the schema of SQL parameters, by position or by name.
fn sql_params() -> Value {
    json!({ "anyOf": [
        { "type": "null" },
        { "type": "array", "items": reference("SqlValue") },
        { "type": "object", "additionalProperties": reference("SqlValue") },
    ] })
}

/// Returns the schema of a value of SQL. Each alternative has one type, because generators of Go clients know no
/// schema of several.
fn sql_value() -> Value {
    json!({ "anyOf": [
        { "type": "null" },
        { "type": "boolean" },
        { "type": "number", "format": "double" },
        { "type": "string" },
        reference("SqlBytes"),
        reference("SqlFloat"),
    ] })
}

/// Returns the schema of a value of SQL that JSON cannot express by itself.
fn sql_form(name: &str, is: Value) -> Value {
    let mut form = object(json!({ name: is }));
    form["required"] = json!([name]);
    form
}

/// Bytes as hexadecimal digits.
const HEX: &str = "^([0-9a-fA-F]{2})*$";

/// Returns the operations of a batch by name, with the members of each.
fn steps() -> [(&'static str, Value); 8] {
    const KEY: &[&str] = &["key", "key_hex"];
    const VALUE: &[&str] = &["value", "value_hex"];
    const START: &[&str] = &["start", "start_hex"];
    const END: &[&str] = &["end", "end_hex"];
    let of = |op: &str, rows: &[&[&str]]| {
        let member = |name: &str| match name {
            "absent" => json!({ "type": "boolean", "const": true, "description": "The key must be absent" }),
            name if name.ends_with("_hex") => json!({ "type": "string", "pattern": HEX }),
            _ => json!({ "type": "string" }),
        };
        let names = rows.iter().copied().flatten();
        let mut properties: Map<String, Value> =
            names.map(|name| ((*name).to_owned(), member(name))).collect();
        properties.insert("op".to_owned(), json!({ "type": "string", "const": op }));
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
    [
        ("PutStep", of("put", &[KEY, VALUE])),
        ("InsertStep", of("insert", &[KEY, VALUE])),
        ("CheckStep", of("check", &[KEY, &["value", "value_hex", "absent"]])),
        ("DeleteStep", of("delete", &[KEY])),
        ("DeletePrefixStep", of("delete_range", &[&["prefix", "prefix_hex"]])),
        ("DeleteFromStep", of("delete_range", &[START])),
        ("DeleteToStep", of("delete_range", &[END])),
        ("DeleteRangeStep", of("delete_range", &[START, END])),
    ]
}
