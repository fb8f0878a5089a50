//! The tools: their names, what an agent reads about them, and the functions that do their work.

use crate::arguments::Arguments;
use crate::failure::Outcome;
use crate::held::Held;
use crate::shown::Object;
use crate::{describe, records, statements};
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

/// A tool.
pub struct Entry {
    /// The name of the tool.
    pub name: &'static str,
    /// What it does, for the agent.
    description: &'static str,
    /// Whether it changes the database.
    pub writes: bool,
    /// The arguments: name, and what it is.
    arguments: &'static [Argument],
    /// Does the work of a call.
    pub run: fn(&Held, &Arguments) -> Outcome<Value>,
}

/// An argument: its name, its JSON type, whether it is required, and what it is.
struct Argument(&'static str, &'static str, bool, &'static str);

const TABLE: Argument = Argument("table", "string", true, "The name of the table");
const KEY: Argument = Argument("key", "string", false, "The key, as text");
const KEY_HEX: Argument =
    Argument("key_hex", "string", false, "The key, as hexadecimal digits, instead of `key`");
const SQL: Argument = Argument("sql", "string", true, "One statement, in SQLite's dialect");
const PARAMS: Argument = Argument(
    "params",
    "array",
    false,
    "A value for each `?`: null, numbers, texts, or {\"hex\": \"c0ffee\"}",
);
const VALUE_LIMIT: Argument =
    Argument("value_limit", "integer", false, "Show at most this many bytes of each value (default 4096)");

/// All tools; those that write are offered only where that is allowed.
pub const ENTRIES: &[Entry] = &[
    Entry {
        name: "list_tables",
        description: "Lists tables. Typed tables have columns: query them with SQL. Plain tables map keys to \
                      values, which are bytes: use get and scan. Views and virtual tables are not listed: \
                      SELECT type, name, sql FROM sqlite_schema.",
        writes: false,
        arguments: &[],
        run: describe::list,
    },
    Entry {
        name: "describe_table",
        description: "Describes a table: columns, primary key and indexes of a table with columns; layout, \
                      time to live and approximate number of records of a table of keys and values.",
        writes: false,
        arguments: &[TABLE],
        run: describe::one,
    },
    Entry {
        name: "get",
        description: "Returns the value of a key in a table of keys and values. Bytes that are not UTF-8 are \
                      shown as hexadecimal digits, in value_hex.",
        writes: false,
        arguments: &[TABLE, KEY, KEY_HEX, VALUE_LIMIT],
        run: records::get,
    },
    Entry {
        name: "scan",
        description: "Returns records of a table of keys and values in key order. If there are more, `next` \
                      has the arguments with which the next call goes on.",
        writes: false,
        arguments: &[
            TABLE,
            Argument("prefix", "string", false, "Only keys with this prefix"),
            Argument("prefix_hex", "string", false, "The prefix, as hexadecimal digits"),
            Argument("start", "string", false, "The first key (inclusive)"),
            Argument("start_hex", "string", false, "The first key, as hexadecimal digits"),
            Argument("end", "string", false, "Stop before this key (exclusive)"),
            Argument("end_hex", "string", false, "The end, as hexadecimal digits"),
            Argument("last", "string", false, "The last key (inclusive), instead of `end`"),
            Argument("last_hex", "string", false, "The last key, as hexadecimal digits"),
            Argument("reverse", "boolean", false, "Descending order"),
            Argument("limit", "integer", false, "At most this many records (default 100, at most 10000)"),
            VALUE_LIMIT,
        ],
        run: records::scan,
    },
    Entry {
        name: "query",
        description: "Runs one SQL statement that only reads, over typed tables and views, and returns its \
                      rows. SQLite's dialect; CTEs, window functions and JSON functions work. A value that is \
                      too long for a result is cut: {\"truncated\": true}; read the rest with substr().",
        writes: false,
        arguments: &[
            SQL,
            PARAMS,
            Argument("limit", "integer", false, "At most this many rows (default 100, at most 10000)"),
        ],
        run: statements::query,
    },
    Entry {
        name: "explain",
        description: "Explains how a statement would be run (give `sql`), or how a key of a table of \
                      keys and values is looked up (give `table` and `key`): which memtables, filters and \
                      pages are read.",
        writes: false,
        arguments: &[
            Argument("sql", "string", false, "One statement; it is not run"),
            PARAMS,
            Argument("table", "string", false, "The name of a table of keys and values"),
            KEY,
            KEY_HEX,
        ],
        run: statements::explain,
    },
    Entry {
        name: "put",
        description: "Sets a key of a table of keys and values to a value. The write is durable when the \
                      call returns.",
        writes: true,
        arguments: &[
            TABLE,
            KEY,
            KEY_HEX,
            Argument("value", "string", false, "The value, as text"),
            Argument("value_hex", "string", false, "The value, as hexadecimal digits, instead of `value`"),
        ],
        run: records::put,
    },
    Entry {
        name: "delete",
        description: "Deletes a key of a table of keys and values.",
        writes: true,
        arguments: &[TABLE, KEY, KEY_HEX],
        run: records::delete,
    },
    Entry {
        name: "create_table",
        description: "Creates a table of keys and values. Create tables with columns with execute and \
                      CREATE TABLE.",
        writes: true,
        arguments: &[
            TABLE,
            Argument(
                "layout",
                "string",
                false,
                "btree (default; reads and scans) or lsm (many random writes)",
            ),
        ],
        run: records::create_table,
    },
    Entry {
        name: "execute",
        description: "Runs one SQL statement that may write (INSERT, UPDATE, DELETE, CREATE TABLE, VIEW or \
                      TRIGGER, …), in a transaction of its own, and returns how many rows it changed, and \
                      rows of RETURNING.",
        writes: true,
        arguments: &[
            SQL,
            PARAMS,
            Argument("limit", "integer", false, "Show at most this many rows (default 100, at most 10000)"),
        ],
        run: statements::execute,
    },
];

impl Entry {
    /// Returns the arguments, as members of a JSON schema.
    pub fn properties(&self) -> Object {
        let property = |&Argument(name, kind, _, description): &Argument| {
            let mut property = json!({ "type": kind, "description": description });
            if kind == "array" {
                property["items"] = json!({});
            }
            (name.to_owned(), property)
        };
        self.arguments.iter().map(property).collect()
    }

    /// Returns the tool in the form that the protocol describes.
    pub fn tool(&self) -> Tool {
        let required: Vec<&str> =
            self.arguments.iter().filter(|argument| argument.2).map(|argument| argument.0).collect();
        let mut schema = JsonObject::new();
        schema.insert("type".to_owned(), "object".into());
        schema.insert("properties".to_owned(), self.properties().into());
        schema.insert("required".to_owned(), required.into());
        schema.insert("additionalProperties".to_owned(), false.into());
        let annotations =
            ToolAnnotations::new().read_only(!self.writes).destructive(self.writes).open_world(false);
        Tool::new(self.name, self.description, schema).with_annotations(annotations)
    }
}
