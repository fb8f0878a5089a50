//! Every operation of the HTTP interface: what the OpenAPI document says, line by line.

/// What an operation does, takes and answers.
#[derive(Debug)]
pub struct Operation {
    /// In lower case, as the document has it.
    pub method: &'static str,
    /// With its parameters in braces.
    pub path: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Parameters of the query and headers, by their names in `openapi`.
    pub parameters: &'static [&'static str],
    /// What the body is, by its name in `openapi`; empty: it has none.
    pub body: &'static str,
    /// The answers beyond those that every operation has: a status and what it means.
    pub answers: &'static [(u16, &'static str)],
}

const fn operation(
    method: &'static str,
    path: &'static str,
    summary: &'static str,
    parameters: &'static [&'static str],
    body: &'static str,
    answers: &'static [(u16, &'static str)],
) -> Operation {
    Operation { method, path, summary, parameters, body, answers }
}

const DONE: (u16, &str) = (204, "Done");
/// Any operation that is not answered at once may be told so.
pub const BUSY: (u16, &str) = (503, "The server is busy; try again after `retry-after` seconds");
const MISSING: (u16, &str) = (404, "The database, table, key or other resource does not exist");
const CONFLICT: (u16, &str) =
    (409, "A conflict with another transaction or the current state; `detail` names table and key");
const FULL: (u16, &str) = (507, "The disk or the memory budget is full; nothing was written");
const FAILED: (u16, &str) = (412, "A condition does not hold; nothing was done");
const TOO_LARGE: (u16, &str) = (413, "The body is too long; nothing was stored");
const LATE: (u16, &str) = (408, "The body arrived too slowly");
const VALUE: (u16, &str) = (200, "The value, byte for byte");

/// The methods of a path, as the header `Allow` lists them; empty where nothing is.
pub fn methods_of(path: &str) -> String {
    let there = OPERATIONS.iter().filter(|operation| operation.is_at(path));
    let mut methods: Vec<String> = there.map(|operation| operation.method.to_uppercase()).collect();
    // HEAD is wherever GET is, also where the document does not say what it is for.
    if methods.iter().any(|method| method == "GET") && !methods.iter().any(|method| method == "HEAD") {
        methods.push("HEAD".to_owned());
    }
    methods.join(", ")
}

impl Operation {
    /// Whether `path` is one of those that its own stands for: a parameter is one segment, a key all the rest.
    pub fn is_at(&self, path: &str) -> bool {
        let mut segments = path.split('/');
        for part in self.path.split('/') {
            let Some(segment) = segments.next() else { return false };
            match part {
                "{key}" => return !segment.is_empty() || segments.next().is_some(),
                part if part.starts_with('{') && !segment.is_empty() => {}
                part if part == segment => {}
                _ => return false,
            }
        }
        segments.next().is_none()
    }
}

/// Every operation there is.
pub const OPERATIONS: &[Operation] = &[
    operation("get", "/healthz", "Check that the process responds", &[], "", &[(200, "It does")]),
    operation("head", "/healthz", "Same as GET, but returns headers only", &[], "", &[(200, "It does")]),
    operation(
        "get",
        "/readyz",
        "Check that the server accepts requests, including writes",
        &[],
        "",
        &[(200, "It does"), (503, "It does not")],
    ),
    operation(
        "head",
        "/readyz",
        "Same as GET, but returns headers only",
        &[],
        "",
        &[(200, "It does"), (503, "It does not")],
    ),
    operation(
        "get",
        "/metrics",
        "Get all metrics in the format of Prometheus",
        &["tables"],
        "",
        &[(200, "Text, version 0.0.4")],
    ),
    operation(
        "head",
        "/metrics",
        "Same as GET, but returns headers only",
        &["tables"],
        "",
        &[(200, "They are there")],
    ),
    operation("get", "/openapi.json", "Get this document", &[], "", &[(200, "JSON")]),
    operation(
        "head",
        "/openapi.json",
        "Same as GET, but returns headers only",
        &[],
        "",
        &[(200, "It is there")],
    ),
    operation("get", "/docs", "Read this document as a page", &[], "", &[(200, "A page")]),
    operation("head", "/docs", "Same as GET, but returns headers only", &[], "", &[(200, "It is there")]),
    operation("get", "/", "Open the dashboard", &[], "", &[(200, "A page")]),
    operation("head", "/", "Same as GET, but returns headers only", &[], "", &[(200, "It is there")]),
    operation(
        "get",
        "/debug/profile",
        "Profile the running server and get a flame graph",
        &["kind", "seconds", "last", "form"],
        "",
        &[(200, "The flame graph, or folded text"), CONFLICT, (501, "Not on this system")],
    ),
    operation(
        "get",
        "/debug/slow",
        "List the slowest requests of the last ten minutes and where their time went",
        &[],
        "",
        &[(200, "JSON")],
    ),
    operation("get", "/v1/server", "Get counters since the start of the server", &[], "", &[(200, "JSON")]),
    operation(
        "head",
        "/v1/server",
        "Same as GET, but returns headers only",
        &[],
        "",
        &[(200, "It is there")],
    ),
    operation("get", "/v0/entity", "Get a value of the default table", &["id"], "", &[VALUE, MISSING]),
    operation(
        "put",
        "/v0/entity",
        "Set a key of the default table",
        &["id"],
        "value",
        &[(201, "Stored"), TOO_LARGE, LATE, FULL],
    ),
    operation(
        "delete",
        "/v0/entity",
        "Delete a key of the default table",
        &["id"],
        "",
        &[(202, "Deleted, or was not there"), FULL],
    ),
    operation(
        "get",
        "/v0/entities",
        "Get the records of [start, end), one chunk each: key, line feed, value",
        &["from", "end"],
        "",
        &[(200, "The records")],
    ),
    operation("get", "/v0/status", "Check that the server responds", &[], "", &[(200, "It does")]),
    operation("get", "/v1/databases", "List the databases that the token may use", &[], "", &[(200, "JSON")]),
    operation(
        "get",
        "/v1/databases/{database}",
        "Get a database: its tables and counters",
        &[],
        "",
        &[(200, "JSON"), MISSING],
    ),
    operation(
        "put",
        "/v1/databases/{database}",
        "Create a database",
        &[],
        "database",
        &[(201, "Made"), (200, "It was there"), CONFLICT, TOO_LARGE, LATE, FULL],
    ),
    operation(
        "delete",
        "/v1/databases/{database}",
        "Drop a database and everything in it",
        &[],
        "",
        &[DONE, MISSING, CONFLICT],
    ),
    operation(
        "get",
        "/v1/databases/{database}/options",
        "List the options with their values and where they were set",
        &[],
        "",
        &[(200, "JSON"), MISSING],
    ),
    operation(
        "get",
        "/v1/databases/{database}/stats",
        "Get counters and sizes",
        &[],
        "",
        &[(200, "JSON"), MISSING],
    ),
    operation(
        "get",
        "/v1/databases/{database}/readers",
        "List open snapshots and transactions",
        &[],
        "",
        &[(200, "JSON"), MISSING],
    ),
    operation(
        "get",
        "/v1/databases/{database}/advise",
        "Get the recommended layout of each table, the cost of operations in either layout, and of a switch",
        &["reads", "scanned", "writes"],
        "",
        &[(200, "JSON"), MISSING],
    ),
    operation(
        "post",
        "/v1/databases/{database}/checkpoint",
        "Write a checkpoint: merge all logged changes into the data file",
        &[],
        "",
        &[DONE, MISSING, FULL],
    ),
    operation(
        "post",
        "/v1/databases/{database}/compact",
        "Shrink the files of the database",
        &[],
        "",
        &[(200, "JSON"), MISSING, FULL],
    ),
    operation(
        "post",
        "/v1/databases/{database}/check",
        "Verify everything on disk",
        &[],
        "",
        &[(200, "JSON: `sound`, and the problems found"), MISSING],
    ),
    operation(
        "post",
        "/v1/databases/{database}/sync",
        "Sync: make every commit durable",
        &[],
        "",
        &[DONE, MISSING],
    ),
    operation(
        "get",
        "/v1/databases/{database}/backup",
        "Take a hot backup for `pando restore`, in full or since another backup",
        &["since", "rate"],
        "",
        &[(200, "The backup"), MISSING, CONFLICT],
    ),
    operation(
        "post",
        "/v1/databases/{database}/batch",
        "Run operations on several tables in one transaction: all or none",
        &["durability", "transaction"],
        "batch",
        &[(200, "JSON: the commit"), MISSING, CONFLICT, FAILED, TOO_LARGE, LATE, FULL],
    ),
    operation(
        "post",
        "/v1/databases/{database}/sql",
        "Run one SQL statement, or several as one transaction",
        &["format", "durability"],
        "sql",
        &[
            (200, "The results; in NDJSON the last line states whether all statements were completed"),
            MISSING,
            CONFLICT,
            TOO_LARGE,
            LATE,
            (422, "The statements exceeded their time limit; nothing was changed"),
            (501, "The server was built without SQL"),
            FULL,
        ],
    ),
    operation(
        "post",
        "/v1/databases/{database}/transactions",
        "Begin an interactive transaction",
        &[],
        "transaction",
        &[(201, "JSON: the transaction's token"), MISSING, TOO_LARGE, LATE, (429, "Too many are open"), FULL],
    ),
    operation(
        "delete",
        "/v1/databases/{database}/transactions/{transaction}",
        "Roll back a transaction",
        &[],
        "",
        &[DONE, MISSING, CONFLICT],
    ),
    operation(
        "post",
        "/v1/databases/{database}/transactions/{transaction}/commit",
        "Commit a transaction",
        &[],
        "",
        &[(200, "JSON: the commit"), MISSING, CONFLICT, FULL],
    ),
    operation(
        "get",
        "/v1/databases/{database}/documents",
        "List the typed tables with their columns, keys and indexes",
        &[],
        "",
        &[(200, "JSON"), MISSING],
    ),
    operation(
        "get",
        "/v1/databases/{database}/documents/{table}",
        "Get documents as NDJSON or CSV, from a range of the primary key or of an index",
        &["index", "first", "behind", "beginning", "reverse", "limit", "cursor", "lines", "transaction"],
        "",
        &[
            (200, "One document on each line; with a limit, the last line has a cursor if there are more"),
            MISSING,
            CONFLICT,
        ],
    ),
    operation(
        "post",
        "/v1/databases/{database}/documents/{table}",
        "Import documents from NDJSON or CSV in one transaction; with a schema, create the table first",
        &[
            "lines",
            "delimiter",
            "insert",
            "schema",
            "made",
            "unique",
            "layout",
            "ttl_ms",
            "compression",
            "chunk",
            "durability",
        ],
        "rows",
        &[(200, "JSON: how many, and the commit"), MISSING, CONFLICT, TOO_LARGE, LATE, FULL],
    ),
    operation(
        "get",
        "/v1/databases/{database}/documents/{table}/{key}",
        "Get the document of a primary key",
        &["if-match", "if-none-match", "transaction"],
        "",
        &[(200, "JSON: one member for each column"), (304, "The client has it"), MISSING, CONFLICT, FAILED],
    ),
    operation(
        "put",
        "/v1/databases/{database}/documents/{table}/{key}",
        "Put a document; with a condition, compare and swap",
        &["if-match", "if-none-match", "durability", "transaction"],
        "document",
        &[DONE, MISSING, CONFLICT, FAILED, TOO_LARGE, LATE, FULL],
    ),
    operation(
        "delete",
        "/v1/databases/{database}/documents/{table}/{key}",
        "Delete a document; succeeds if it does not exist",
        &["if-match", "if-none-match", "durability", "transaction"],
        "",
        &[DONE, MISSING, CONFLICT, FAILED, FULL],
    ),
    operation("get", "/v1/databases/{database}/tables", "List tables", &[], "", &[(200, "JSON"), MISSING]),
    operation(
        "get",
        "/v1/databases/{database}/tables/{table}",
        "A table",
        &[],
        "",
        &[(200, "JSON"), MISSING],
    ),
    operation(
        "put",
        "/v1/databases/{database}/tables/{table}",
        "Create a table",
        &[],
        "table",
        &[(201, "Made"), (200, "It was there"), MISSING, CONFLICT, TOO_LARGE, LATE, FULL],
    ),
    operation(
        "patch",
        "/v1/databases/{database}/tables/{table}",
        "Alter a table: its name, layout, compression or TTL, while it is in use",
        &[],
        "change",
        &[(200, "JSON"), MISSING, CONFLICT, TOO_LARGE, LATE, FULL],
    ),
    operation(
        "delete",
        "/v1/databases/{database}/tables/{table}",
        "Drop a table and everything in it",
        &[],
        "",
        &[DONE, MISSING, CONFLICT, FULL],
    ),
    operation(
        "get",
        "/v1/databases/{database}/tables/{table}/explain",
        "Explain a get or a scan step by step: memtables, filters, pages, time",
        &["one_key", "start", "end", "prefix", "explained"],
        "",
        &[(200, "JSON: the steps"), MISSING],
    ),
    operation(
        "get",
        "/v1/databases/{database}/tables/{table}/entries",
        "Get records as NDJSON, from a range or for a list of keys",
        &[
            "key",
            "start",
            "end",
            "prefix",
            "reverse",
            "limit",
            "cursor",
            "keys_only",
            "value_bytes",
            "transaction",
        ],
        "",
        &[
            (200, "One record on each line; with a limit, the last line has a cursor if there are more"),
            MISSING,
            CONFLICT,
        ],
    ),
    operation(
        "post",
        "/v1/databases/{database}/tables/{table}/entries",
        "Import records from NDJSON in one transaction",
        &["durability"],
        "records",
        &[(200, "JSON: how many, and the commit"), MISSING, CONFLICT, TOO_LARGE, LATE, FULL],
    ),
    operation(
        "delete",
        "/v1/databases/{database}/tables/{table}/entries",
        "Delete all records of a range without reading them",
        &["start", "end", "prefix", "durability", "transaction"],
        "",
        &[DONE, MISSING, CONFLICT, FULL],
    ),
    operation(
        "get",
        "/v1/databases/{database}/tables/{table}/entries/{key}",
        "Get the value of a key",
        &["if-match", "if-none-match", "transaction"],
        "",
        &[VALUE, (304, "The client has it"), MISSING, CONFLICT, FAILED],
    ),
    operation(
        "head",
        "/v1/databases/{database}/tables/{table}/entries/{key}",
        "Get the length and the tag of a value",
        &["if-match", "if-none-match", "transaction"],
        "",
        &[(200, "The key exists"), (304, "The client has it"), MISSING, CONFLICT, FAILED],
    ),
    operation(
        "put",
        "/v1/databases/{database}/tables/{table}/entries/{key}",
        "Put a value; with a condition, compare and swap",
        &["if-match", "if-none-match", "durability", "transaction"],
        "value",
        &[DONE, MISSING, CONFLICT, FAILED, TOO_LARGE, LATE, FULL],
    ),
    operation(
        "delete",
        "/v1/databases/{database}/tables/{table}/entries/{key}",
        "Delete a key; succeeds if it does not exist",
        &["if-match", "if-none-match", "durability", "transaction"],
        "",
        &[DONE, MISSING, CONFLICT, FAILED, FULL],
    ),
];
