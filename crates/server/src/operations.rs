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
pub const BUSY: (u16, &str) =
    (503, "As many are at it as are allowed; try again after `retry-after` seconds");
const MISSING: (u16, &str) = (404, "There is no such thing");
const CONFLICT: (u16, &str) =
    (409, "Another transaction got in between, or the state forbids it; the detail names table and key");
const FULL: (u16, &str) = (507, "The disk or the memory budget is full; nothing was written");
const FAILED: (u16, &str) = (412, "A condition does not hold; nothing was done");
const TOO_LARGE: (u16, &str) = (413, "The body is longer than may be; nothing was stored");
const LATE: (u16, &str) = (408, "Nothing of the body came for too long");
const VALUE: (u16, &str) = (200, "The value, as it is");

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
    operation("get", "/healthz", "Whether the process answers", &[], "", &[(200, "It does")]),
    operation("head", "/healthz", "Same as GET, but returns headers only", &[], "", &[(200, "It does")]),
    operation(
        "get",
        "/readyz",
        "Whether it takes requests, writes too",
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
        "Everything that is counted, for Prometheus",
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
    operation("get", "/openapi.json", "This document", &[], "", &[(200, "JSON")]),
    operation(
        "head",
        "/openapi.json",
        "Same as GET, but returns headers only",
        &[],
        "",
        &[(200, "It is there")],
    ),
    operation("get", "/docs", "This document, to be read", &[], "", &[(200, "A page")]),
    operation("head", "/docs", "Same as GET, but returns headers only", &[], "", &[(200, "It is there")]),
    operation("get", "/", "The dashboard", &[], "", &[(200, "A page")]),
    operation("head", "/", "Same as GET, but returns headers only", &[], "", &[(200, "It is there")]),
    operation(
        "get",
        "/debug/profile",
        "A flame graph of the running server",
        &["kind", "seconds", "last", "form"],
        "",
        &[(200, "The flame graph, or folded text"), CONFLICT, (501, "Not on this system")],
    ),
    operation(
        "get",
        "/debug/slow",
        "The slowest requests of the last ten minutes, and what their time went to",
        &[],
        "",
        &[(200, "JSON")],
    ),
    operation("get", "/v1/server", "What the server does: counts since its start", &[], "", &[(200, "JSON")]),
    operation(
        "head",
        "/v1/server",
        "Same as GET, but returns headers only",
        &[],
        "",
        &[(200, "It is there")],
    ),
    operation("get", "/v0/entity", "The value of a key of the default table", &["id"], "", &[VALUE, MISSING]),
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
        "Remove a key of the default table",
        &["id"],
        "",
        &[(202, "Removed, or absent"), FULL],
    ),
    operation(
        "get",
        "/v0/entities",
        "The records of [start, end), a chunk each: key, line feed, value",
        &["from", "end"],
        "",
        &[(200, "The records")],
    ),
    operation("get", "/v0/status", "Whether it serves", &[], "", &[(200, "It does")]),
    operation("get", "/v1/databases", "All databases that the token may see", &[], "", &[(200, "JSON")]),
    operation(
        "get",
        "/v1/databases/{database}",
        "A database: its tables, its counts",
        &[],
        "",
        &[(200, "JSON"), MISSING],
    ),
    operation(
        "put",
        "/v1/databases/{database}",
        "Make a database",
        &[],
        "database",
        &[(201, "Made"), (200, "It was there"), CONFLICT, TOO_LARGE, LATE, FULL],
    ),
    operation(
        "delete",
        "/v1/databases/{database}",
        "Drop a database with all it holds",
        &[],
        "",
        &[DONE, MISSING, CONFLICT],
    ),
    operation(
        "get",
        "/v1/databases/{database}/options",
        "Each option, its value, and who set it",
        &[],
        "",
        &[(200, "JSON"), MISSING],
    ),
    operation(
        "get",
        "/v1/databases/{database}/stats",
        "Counts and sizes",
        &[],
        "",
        &[(200, "JSON"), MISSING],
    ),
    operation(
        "get",
        "/v1/databases/{database}/readers",
        "Open snapshots and transactions",
        &[],
        "",
        &[(200, "JSON"), MISSING],
    ),
    operation(
        "get",
        "/v1/databases/{database}/advise",
        "The layout that each table wants, what operations cost in either, and what a switch would",
        &["reads", "scanned", "writes"],
        "",
        &[(200, "JSON"), MISSING],
    ),
    operation(
        "post",
        "/v1/databases/{database}/checkpoint",
        "Merge what the log holds into the trees",
        &[],
        "",
        &[DONE, MISSING, FULL],
    ),
    operation(
        "post",
        "/v1/databases/{database}/compact",
        "Make the files as small as they get",
        &[],
        "",
        &[(200, "JSON"), MISSING, FULL],
    ),
    operation(
        "post",
        "/v1/databases/{database}/check",
        "Verify everything on the disk",
        &[],
        "",
        &[(200, "JSON: `sound`, and what is not"), MISSING],
    ),
    operation(
        "post",
        "/v1/databases/{database}/sync",
        "Make every commit durable",
        &[],
        "",
        &[DONE, MISSING],
    ),
    operation(
        "get",
        "/v1/databases/{database}/backup",
        "A hot backup, for `pando restore`: everything, or what changed since another",
        &["since", "rate"],
        "",
        &[(200, "The backup"), MISSING, CONFLICT],
    ),
    operation(
        "post",
        "/v1/databases/{database}/batch",
        "Operations over several tables, all or none",
        &["durability", "transaction"],
        "batch",
        &[(200, "JSON: the commit"), MISSING, CONFLICT, FAILED, TOO_LARGE, LATE, FULL],
    ),
    operation(
        "post",
        "/v1/databases/{database}/sql",
        "Run a statement of SQL, or several as one transaction",
        &["format", "durability"],
        "sql",
        &[
            (200, "What they answer: as NDJSON the last line says whether all was done"),
            MISSING,
            CONFLICT,
            TOO_LARGE,
            LATE,
            (422, "They took longer than they may; nothing was changed"),
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
        &[(201, "JSON: its token"), MISSING, TOO_LARGE, LATE, (429, "As many are open as may be"), FULL],
    ),
    operation(
        "delete",
        "/v1/databases/{database}/transactions/{transaction}",
        "Give a transaction up",
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
        "All typed tables: columns, keys, indexes",
        &[],
        "",
        &[(200, "JSON"), MISSING],
    ),
    operation(
        "get",
        "/v1/databases/{database}/documents/{table}",
        "Documents as NDJSON or CSV: a range of the primary key, or of an index",
        &["index", "first", "behind", "beginning", "reverse", "limit", "cursor", "lines", "transaction"],
        "",
        &[
            (200, "A document a line; with a limit, a cursor in the last line if there is more"),
            MISSING,
            CONFLICT,
        ],
    ),
    operation(
        "post",
        "/v1/databases/{database}/documents/{table}",
        "Documents of NDJSON or CSV, in one transaction, with the making of the table if it has a schema",
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
        "The document of a primary key",
        &["if-match", "if-none-match", "transaction"],
        "",
        &[(200, "JSON: a member for each column"), (304, "The client has it"), MISSING, CONFLICT, FAILED],
    ),
    operation(
        "put",
        "/v1/databases/{database}/documents/{table}/{key}",
        "Set a document; with a condition, compare and swap",
        &["if-match", "if-none-match", "durability", "transaction"],
        "document",
        &[DONE, MISSING, CONFLICT, FAILED, TOO_LARGE, LATE, FULL],
    ),
    operation(
        "delete",
        "/v1/databases/{database}/documents/{table}/{key}",
        "Remove a document, present or not",
        &["if-match", "if-none-match", "durability", "transaction"],
        "",
        &[DONE, MISSING, CONFLICT, FAILED, FULL],
    ),
    operation("get", "/v1/databases/{database}/tables", "All tables", &[], "", &[(200, "JSON"), MISSING]),
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
        "Make a table",
        &[],
        "table",
        &[(201, "Made"), (200, "It was there"), MISSING, CONFLICT, TOO_LARGE, LATE, FULL],
    ),
    operation(
        "patch",
        "/v1/databases/{database}/tables/{table}",
        "Give a table another name, or another layout while it is used",
        &[],
        "change",
        &[(200, "JSON"), MISSING, CONFLICT, TOO_LARGE, LATE, FULL],
    ),
    operation(
        "delete",
        "/v1/databases/{database}/tables/{table}",
        "Drop a table with all it holds",
        &[],
        "",
        &[DONE, MISSING, CONFLICT, FULL],
    ),
    operation(
        "get",
        "/v1/databases/{database}/tables/{table}/explain",
        "A get, or a scan of a range, done once more and told step by step: memtables, filters, pages, time",
        &["one_key", "start", "end", "prefix", "explained"],
        "",
        &[(200, "JSON: the steps"), MISSING],
    ),
    operation(
        "get",
        "/v1/databases/{database}/tables/{table}/entries",
        "Records as NDJSON: a range, or those of some keys",
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
            (200, "A record a line; with a limit, a cursor in the last line if there is more"),
            MISSING,
            CONFLICT,
        ],
    ),
    operation(
        "post",
        "/v1/databases/{database}/tables/{table}/entries",
        "Records of NDJSON, in one transaction",
        &["durability"],
        "records",
        &[(200, "JSON: how many, and the commit"), MISSING, CONFLICT, TOO_LARGE, LATE, FULL],
    ),
    operation(
        "delete",
        "/v1/databases/{database}/tables/{table}/entries",
        "Remove a range, unread",
        &["start", "end", "prefix", "durability", "transaction"],
        "",
        &[DONE, MISSING, CONFLICT, FULL],
    ),
    operation(
        "get",
        "/v1/databases/{database}/tables/{table}/entries/{key}",
        "The value of a key",
        &["if-match", "if-none-match", "transaction"],
        "",
        &[VALUE, (304, "The client has it"), MISSING, CONFLICT, FAILED],
    ),
    operation(
        "head",
        "/v1/databases/{database}/tables/{table}/entries/{key}",
        "Length and tag of a value",
        &["if-match", "if-none-match", "transaction"],
        "",
        &[(200, "There is one"), (304, "The client has it"), MISSING, CONFLICT, FAILED],
    ),
    operation(
        "put",
        "/v1/databases/{database}/tables/{table}/entries/{key}",
        "Set a key; with a condition, compare and swap",
        &["if-match", "if-none-match", "durability", "transaction"],
        "value",
        &[DONE, MISSING, CONFLICT, FAILED, TOO_LARGE, LATE, FULL],
    ),
    operation(
        "delete",
        "/v1/databases/{database}/tables/{table}/entries/{key}",
        "Remove a key, present or not",
        &["if-match", "if-none-match", "durability", "transaction"],
        "",
        &[DONE, MISSING, CONFLICT, FAILED, FULL],
    ),
];
