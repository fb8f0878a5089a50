//! Finds the operation of a request: its path is split once, along a tree of all paths.
//!
//! 1. The tree is built once from the table of operations, with a node for each segment of their paths. A parameter is
//!    one nonempty segment. `{key}` is the rest of the path, with its slashes.
//! 2. [`find`] follows the path as deep as possible. It allocates nothing and copies nothing of the path: it returns
//!    the positions of the parameters ([`Captured`]).
//! 3. HEAD finds the operation of GET, unless it has an entry of its own.
//! 4. If there is no operation, the deepest node determines which permission a token needs to learn this: that of the
//!    strictest operation at or below the node. For GET and HEAD these are the operations that read, for other methods
//!    those that write.
//! 5. The log shows a path up to the first parameter that it leaves out. Of an unknown path it shows one segment more
//!    than is known, because what follows may be a key.

use crate::access::auth::Need;
use crate::access::reserved::refuse_reserved;
use crate::calls::operation::{Access, LEFT_OUT, Operation};
use crate::calls::target::{Captured, table_name};
use crate::data::databases::DEFAULT_DATABASE;
use crate::routes::parameters::{Known, check_query, query_of};
use crate::routes::table::operations;
use crate::watch::observe::Kind;
use crate::wire::body::Body;
use crate::wire::problem::{Answer, Problem};
use axum::http::{HeaderValue, Method, Response};
use std::sync::LazyLock;

/// The path at and below which tables are raw ones.
const RAW_TABLE: &str = "/v1/databases/{database}/tables/{table}";

/// The segment below which Hrana is spoken.
const HRANA: &str = "/hrana";
const NO_SUCH_HRANA: &str = "there is no such path below /hrana: Hrana is spoken over HTTP and in JSON, at \
                             v2/pipeline, v3/pipeline and v3/cursor; its form in Protobuf and WebSockets are \
                             not supported";
const NO_HRANA: &str = "Hrana is spoken below /v1/databases/{database}/hrana/: give this as the client's \
                        URL, with the slash at its end";

/// Returns whether a client of Hrana sends requests to such a path.
fn is_pipeline(path: &str) -> bool {
    path.ends_with("/pipeline") || path.ends_with("/cursor")
}

/// A segment of a path.
#[derive(Debug, Default)]
struct Node {
    /// The path up to this node, as in the table.
    path: String,
    /// The nodes of fixed segments, before the node of any other segment.
    literals: Vec<(&'static str, usize)>,
    parameter: Option<usize>,
    /// The node of all the rest of a path. A node that has it has no other.
    rest: Option<usize>,
    asked: Vec<Asked>,
    /// The methods, as the header `Allow` lists them.
    allowed: String,
    unlisted: Unlisted,
    /// Whether the node is at or below a table that has records.
    is_raw_table: bool,
    /// The first parameter that the log leaves out.
    left_out: Option<usize>,
}

/// An operation, and what is derived from its entry.
#[derive(Debug)]
struct Asked {
    method: Method,
    operation: &'static Operation,
    query: Vec<Known>,
}

/// The permission that is needed to learn that there is no such operation.
#[derive(Clone, Copy, Debug)]
struct Unlisted {
    reading: Access,
    writing: Access,
}

impl Default for Unlisted {
    fn default() -> Self {
        Unlisted { reading: Access::Any, writing: Access::Any }
    }
}

/// The result of finding a request's operation.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// The deepest node on the path.
    node: &'static Node,
    asked: Option<&'static Asked>,
    captured: Captured,
    /// The length of the part of the path that was followed. For an unknown path it includes the first unknown segment.
    seen_bytes: usize,
    is_whole: bool,
}

/// The tree of all paths. Its first node is before the first slash.
static TREE: LazyLock<Vec<Node>> = LazyLock::new(tree);

/// Finds the operation of `method` on `path`.
#[inline]
pub fn find(method: &Method, path: &str) -> Found {
    let tree: &'static [Node] = &TREE;
    let (mut node, mut captured) = (&tree[0], Captured::default());
    // Paths begin with a slash, except for `*` and the authority that CONNECT names.
    let mut left = path.strip_prefix('/');
    let (mut seen_bytes, mut is_whole) = (path.len(), left.is_some());
    while let Some(rest) = left {
        let start = path.len() - rest.len();
        if let Some(next) = node.rest.filter(|_| !rest.is_empty()) {
            captured.push(start, path.len());
            (node, seen_bytes) = (&tree[next], path.len());
            break;
        }
        // Segments are short, so that a search with vectors would take longer to begin than this takes to end.
        let (segment, after) = match rest.bytes().position(|byte| byte == b'/') {
            Some(length) => (&rest[..length], Some(&rest[length + 1..])),
            None => (rest, None),
        };
        seen_bytes = start + segment.len();
        left = after;
        let next = if let Some((_, next)) = node.literals.iter().find(|(literal, _)| *literal == segment) {
            *next
        } else if let Some(next) = node.parameter.filter(|_| !segment.is_empty()) {
            captured.push(start, seen_bytes);
            next
        } else {
            is_whole = false;
            break;
        };
        node = &tree[next];
    }
    let asked = if is_whole { node.asked_by(method) } else { None };
    Found { node, asked, captured, seen_bytes, is_whole }
}

impl Node {
    #[inline]
    fn asked_by(&self, method: &Method) -> Option<&Asked> {
        let by = |method: &Method| self.asked.iter().find(|asked| asked.method == *method);
        by(method).or_else(|| if *method == Method::HEAD { by(&Method::GET) } else { None })
    }
}

impl Found {
    /// Returns the operation, if there is one.
    #[inline]
    pub fn operation(&self) -> Option<&'static Operation> {
        self.asked.map(|asked| asked.operation)
    }

    /// Returns the positions of the path's parameters.
    #[inline]
    pub fn captured(&self) -> Captured {
        self.captured
    }

    /// Returns the kind that the request counts as.
    #[inline]
    pub fn kind(&self) -> Kind {
        self.operation().map_or(Kind::Other, |operation| operation.kind)
    }

    /// Returns the permission that a request with this method and path needs.
    #[inline]
    pub fn need<'r>(&self, method: &Method, path: &'r str) -> Need<'r> {
        let access = match self.operation() {
            Some(operation) => operation.access,
            None if *method == Method::GET || *method == Method::HEAD => self.node.unlisted.reading,
            None => self.node.unlisted.writing,
        };
        match access {
            Access::Nothing if self.is_whole => Need::Nothing,
            Access::Nothing | Access::Any => Need::Any,
            Access::Default(scope) => Need::In(DEFAULT_DATABASE, scope),
            Access::Database(scope) => match self.captured.get(path, 0) {
                Some(database) => Need::In(database, scope),
                None => Need::Any,
            },
            Access::All(scope) => Need::All(scope),
        }
    }

    /// Refuses a request that writes to, creates or drops a table with a reserved name ([`rows::is_reserved`]). For a
    /// PATCH, the body is checked (`operations/tables.rs`); for a batch, each operation (`operations/batch.rs`).
    ///
    /// # Errors
    /// 403 for a reserved name.
    #[inline]
    pub fn refuse_raw_write(&self, method: &Method, path: &str) -> Answer<()> {
        if !self.node.is_raw_table || [Method::GET, Method::HEAD, Method::PATCH].contains(method) {
            return Ok(());
        }
        // The handler refuses an invalid name.
        match self.captured.get(path, 1) {
            Some(table) => table_name(table).map_or(Ok(()), |name| refuse_reserved(&name)),
            None => Ok(()),
        }
    }

    /// Refuses a query with parameters that the operation does not have.
    ///
    /// # Errors
    /// 400 for such a query.
    #[inline]
    pub fn check_query(&self, query: Option<&str>) -> Answer<()> {
        match (query, self.asked) {
            (Some(query), Some(asked)) if !asked.operation.has_any_query => check_query(&asked.query, query),
            _ => Ok(()),
        }
    }

    /// Returns the response to a request that failed, in the form that clients of its path read.
    pub fn response(&self, problem: &Problem, path: &str) -> Response<Body> {
        match self.node.path.contains(HRANA) || self.asked.is_none() && is_pipeline(path) {
            true => problem.hrana_response(),
            false => problem.response(),
        }
    }

    /// Returns the problem of a request that has no operation.
    pub fn refusal(&self, path: &str) -> Problem {
        match &self.node {
            node if self.is_whole && !node.asked.is_empty() => Problem::method_not_allowed(),
            node if node.path.contains(HRANA) => Problem::not_found(NO_SUCH_HRANA),
            _ if is_pipeline(path) => Problem::not_found(NO_HRANA),
            node if node.path.starts_with("/v0") => Problem::bad_request("there is no such path below /v0"),
            _ => Problem::not_found("there is nothing at this path"),
        }
    }

    /// Returns the header `Allow`, which a 405 must have (RFC 9110, 15.5.6).
    pub fn allowed(&self) -> HeaderValue {
        HeaderValue::from_str(&self.node.allowed).expect("methods are letters")
    }

    /// Returns the part of the path that the log shows.
    pub fn shown<'r>(&self, path: &'r str) -> &'r str {
        let hidden = self.node.left_out.and_then(|index| self.captured.start(index));
        &path[..hidden.unwrap_or(self.seen_bytes)]
    }
}

fn tree() -> Vec<Node> {
    let mut tree = vec![Node::default()];
    for operation in operations() {
        let mut at = 0;
        for segment in operation.path.split('/').skip(1) {
            at = child(&mut tree, at, segment);
        }
        let method = Method::from_bytes(operation.method.as_bytes()).expect("methods are letters");
        tree[at].asked.push(Asked { method, operation, query: query_of(operation) });
    }
    for node in &mut tree {
        let parameters = || node.path.split('/').filter(|segment| segment.starts_with('{'));
        // The segments of most requests, `v0` and `v1`, are the shortest ones of their node.
        node.literals.sort_by_key(|(literal, _)| literal.len());
        assert!(node.rest.is_none() || node.literals.is_empty() && node.parameter.is_none(), "{}", node.path);
        node.left_out = parameters().position(|name| LEFT_OUT.contains(&name));
        node.is_raw_table = is_below(&node.path, RAW_TABLE);
        node.unlisted =
            Unlisted { reading: strictest(&node.path, true), writing: strictest(&node.path, false) };
        let mut methods: Vec<&str> = node.asked.iter().map(|asked| asked.operation.method).collect();
        if methods.contains(&"GET") && !methods.contains(&"HEAD") {
            methods.push("HEAD");
        }
        node.allowed = methods.join(", ");
    }
    tree
}

/// Returns the child of node `at` for `segment`, and creates it if it is new.
fn child(tree: &mut Vec<Node>, at: usize, segment: &'static str) -> usize {
    let new = tree.len();
    let node = &mut tree[at];
    let path = format!("{}/{segment}", node.path);
    let next = match segment {
        "{key}" => *node.rest.get_or_insert(new),
        segment if segment.starts_with('{') => *node.parameter.get_or_insert(new),
        segment => match node.literals.iter().find(|(literal, _)| *literal == segment) {
            Some((_, next)) => *next,
            None => {
                node.literals.push((segment, new));
                new
            }
        },
    };
    if next == new {
        tree.push(Node { path, ..Node::default() });
    }
    next
}

fn is_below(path: &str, root: &str) -> bool {
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns the permission of the strictest operation at or below `path`, of those that read or of those that write. If
/// they need different kinds of permission, it is any token.
fn strictest(path: &str, reading: bool) -> Access {
    let below = || operations().filter(|operation| is_below(operation.path, path));
    let is_asked = |operation: &&Operation| matches!(operation.method, "GET" | "HEAD") == reading;
    let has_asked = below().any(|operation| is_asked(&operation));
    let accesses =
        below().filter(|operation| !has_asked || is_asked(operation)).map(|operation| operation.access);
    let stricter = |one, other| match (one, other) {
        (Access::Default(one), Access::Default(other)) => Access::Default(one.max(other)),
        (Access::Database(one), Access::Database(other)) => Access::Database(one.max(other)),
        (Access::All(one), Access::All(other)) => Access::All(one.max(other)),
        (one, other) if one == other => one,
        _ => Access::Any,
    };
    accesses.reduce(stricter).unwrap_or(Access::Any)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::tokens::Scope;
    use axum::http::StatusCode;

    const DB: &str = "/v1/databases/d";

    #[test]
    fn reserved_tables_are_refused_to_every_method_that_writes() {
        let status = |method: Method, path: &str| {
            find(&method, path).refuse_raw_write(&method, path).err().map(|it| it.status)
        };
        let tables = "/v1/databases/d/tables";
        for name in ["rows%2Fcatalog", "rows%2f1.1%2Ff", "%72ows%2F1%2F1%2Fi"] {
            for rest in ["", "/entries", "/entries/k", "/entries/a/b"] {
                let path = format!("{tables}/{name}{rest}");
                for method in [Method::PUT, Method::POST, Method::DELETE, Method::from_bytes(b"X").unwrap()] {
                    assert_eq!(status(method, &path), Some(StatusCode::FORBIDDEN), "{path}");
                }
                assert_eq!(status(Method::GET, &path), None);
            }
        }
        for free in ["rows", "rowsx%2Fa", "Rows%2Fcatalog", "a%2Frows%2F", "%ff"] {
            assert_eq!(status(Method::PUT, &format!("{tables}/{free}")), None, "{free}");
        }
        assert_eq!(status(Method::PUT, "/v1/databases/d/documents/rows%2Fx/1"), None);
    }

    #[test]
    fn each_path_has_its_need() {
        let scope = |method: Method, path: &str| match find(&method, path).need(&method, path) {
            Need::In(_, scope) => Some(scope),
            _ => None,
        };
        let cases = [
            (Method::GET, "/v0/entity".to_owned(), Scope::Read),
            (Method::PUT, "/v0/entity".to_owned(), Scope::Write),
            (Method::GET, DB.to_owned(), Scope::Read),
            (Method::PUT, DB.to_owned(), Scope::Admin),
            (Method::DELETE, DB.to_owned(), Scope::Admin),
            (Method::GET, format!("{DB}/stats"), Scope::Read),
            (Method::GET, format!("{DB}/advise"), Scope::Read),
            (Method::GET, format!("{DB}/backup"), Scope::Admin),
            (Method::POST, format!("{DB}/compact"), Scope::Admin),
            (Method::POST, format!("{DB}/sql"), Scope::Read),
            (Method::POST, format!("{DB}/batch"), Scope::Write),
            (Method::POST, format!("{DB}/transactions/x/commit"), Scope::Write),
            (Method::PUT, format!("{DB}/tables/t"), Scope::Write),
            (Method::DELETE, format!("{DB}/tables/t"), Scope::Admin),
            (Method::GET, format!("{DB}/tables/t/entries/k"), Scope::Read),
            (Method::DELETE, format!("{DB}/tables/t/entries/a/b"), Scope::Write),
            (Method::POST, format!("{DB}/tables/t/entries"), Scope::Write),
            (Method::GET, format!("{DB}/documents/t/1"), Scope::Read),
            (Method::POST, format!("{DB}/documents/t"), Scope::Write),
            (Method::GET, format!("{DB}/nothing"), Scope::Admin),
            // These have no operations.
            (Method::POST, "/v0/nothing".to_owned(), Scope::Write),
            (Method::PUT, format!("{DB}/documents"), Scope::Write),
            (Method::DELETE, format!("{DB}/tables"), Scope::Admin),
            (Method::DELETE, format!("{DB}/tables/t/entries/"), Scope::Write),
            (Method::PATCH, format!("{DB}/stats"), Scope::Read),
            (Method::GET, format!("{DB}/batch"), Scope::Write),
        ];
        for (method, path, expected) in cases {
            assert_eq!(scope(method.clone(), &path), Some(expected), "{method} {path}");
        }
        let need = |method: Method, path: &'static str| find(&method, path).need(&method, path);
        assert_eq!(need(Method::GET, "/healthz"), Need::Nothing);
        assert_eq!(need(Method::GET, "/healthz/x"), Need::Any);
        assert_eq!(need(Method::GET, "/debug/profile"), Need::All(Scope::Admin));
        assert_eq!(need(Method::GET, "/debug"), Need::All(Scope::Admin));
        for path in ["/v0x", "/v1/databases/", "/v1/databases", "/v1/x", "/", "", "*"] {
            assert_eq!([need(Method::GET, path), need(Method::PUT, path)], [Need::Any; 2], "{path}");
        }
    }

    #[test]
    fn each_request_counts_as_what_it_is() {
        let kind = |method: Method, path: &str| find(&method, path).kind();
        let entries = "/v1/databases/d/tables/t/entries";
        assert_eq!(kind(Method::PUT, &format!("{entries}/k")), Kind::Put);
        assert_eq!(kind(Method::HEAD, &format!("{entries}/k")), Kind::Get);
        assert_eq!(kind(Method::GET, entries), Kind::Range);
        assert_eq!(kind(Method::POST, "/v1/databases/d/batch"), Kind::Transaction);
        assert_eq!(kind(Method::POST, "/v1/databases/d/sql"), Kind::Sql);
        assert_eq!(kind(Method::GET, "/v1/databases/d/tables/t"), Kind::Other);
        assert_eq!(kind(Method::PUT, "/v1/databases/d/documents/t/1/2"), Kind::Put);
        assert_eq!(kind(Method::GET, "/v1/databases/d/documents/t"), Kind::Range);
    }

    #[test]
    fn a_path_is_taken_apart_once() {
        let parts = |path: &'static str| {
            let found = find(&Method::GET, path);
            let parts: Vec<&str> = (0..3).map_while(|index| found.captured().get(path, index)).collect();
            (found.operation().map(|operation| operation.path), parts)
        };
        let entry = Some("/v1/databases/{database}/tables/{table}/entries/{key}");
        let (operation, found) = parts("/v1/databases/d/tables/t%C3%A4/entries/a%2Fb/c%00");
        assert_eq!((operation, &found[..]), (entry, &["d", "t%C3%A4", "a%2Fb/c%00"][..]));
        assert_eq!(parts("/v1/databases/d/tables/t/entries//k/").1[2], "/k/");
        assert_eq!(parts("/v1/databases/d/tables/t/entries//"), (entry, vec!["d", "t", "/"]));
        for nothing in [
            "/v1/databases/d/tables/t/entries/",
            "/v1/databases//tables/t/entries/k",
            "/v1/databases/d/tables//entries/k",
            "/v1/databases/d/",
            "/v1",
            "/v1/",
            "//",
            "*",
            "",
        ] {
            assert_eq!(parts(nothing).0, None, "{nothing}");
        }
        assert_eq!(parts("/").0, Some("/"));
        assert_eq!(parts("/v1/databases/d").1, ["d"]);
    }

    #[test]
    fn a_slip_of_the_pen_is_refused() {
        let is_good = |method: Method, target: &str| {
            let (path, query) = target.split_once('?').unwrap();
            find(&method, path).check_query(Some(query)).is_ok()
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
            (Method::GET, "/?x=y".to_owned()),
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

    #[test]
    fn lines_have_no_keys_and_no_tokens() {
        for (path, shown) in [
            ("/v0/entity".to_owned(), "/v0/entity".to_owned()),
            (format!("{DB}/tables/t/entries/a/b"), format!("{DB}/tables/t/entries/")),
            (format!("{DB}/tables/t/entries"), format!("{DB}/tables/t/entries")),
            (format!("{DB}/tables/entries"), format!("{DB}/tables/entries")),
            (format!("{DB}/tables/entries/explain"), format!("{DB}/tables/entries/explain")),
            (format!("{DB}/documents/t/1/2"), format!("{DB}/documents/t/")),
            (format!("{DB}/documents/t"), format!("{DB}/documents/t")),
            (format!("{DB}/transactions"), format!("{DB}/transactions")),
            (format!("{DB}/transactions/0123/commit"), format!("{DB}/transactions/")),
            (format!("{DB}/transactions/0123/x"), format!("{DB}/transactions/")),
            (format!("{DB}/stats"), format!("{DB}/stats")),
            // These paths do not exist.
            (format!("{DB}/nothing"), format!("{DB}/nothing")),
            (format!("{DB}/nothing/k"), format!("{DB}/nothing")),
            (format!("{DB}/tables//entries/k"), format!("{DB}/tables/")),
            (String::new(), String::new()),
        ] {
            assert_eq!(find(&Method::GET, &path).shown(&path), shown);
        }
    }
}
