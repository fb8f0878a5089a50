//! What a request must be allowed to do, from its method and path alone: one place to read, before anything is looked
//! up.
//!
//! | path | read | write | admin |
//! |---|---|---|---|
//! | `/v0/...`, entries | GET, HEAD | PUT, POST, DELETE | |
//! | a database | GET, its options, stats, readers, advise | | PUT, DELETE, checkpoint, compact, check, sync, backup |
//! | tables, explain | GET | PUT | PATCH, DELETE |
//! | documents | GET | PUT, POST, DELETE | |
//! | batch, transactions | | all | |
//! | sql | statements that only read | others (`v1::sql` looks at each) | |
//! | `/metrics` | GET, in all databases | | |
//! | `/debug/...` | | | all, in all databases |
//!
//! `/healthz` and `/readyz` need nothing, the rest any token.
//!
//! Whatever the token, tables that belong to typed ones are not written to by their names ([`refuse_raw_write`]).

use crate::access::auth::{Need, Scope};
use crate::data::databases::DEFAULT_DATABASE;
use crate::operations::place;
use crate::watch::observe::Kind;
use crate::wire::problem::{Answer, Problem};
use axum::http::{Method, StatusCode};

/// What `method` on `path` needs.
#[inline]
pub fn need<'r>(method: &Method, path: &'r str) -> Need<'r> {
    let reads = *method == Method::GET || *method == Method::HEAD;
    let read_or = |other| if reads { Scope::Read } else { other };
    if is_below(path, "/v0") {
        return Need::In(DEFAULT_DATABASE, read_or(Scope::Write));
    }
    if let Some(database) = place::database(path) {
        return Need::In(database, in_database(method, path, read_or));
    }
    match path {
        "/healthz" | "/readyz" => Need::Nothing,
        "/metrics" => Need::All(Scope::Read),
        path if is_below(path, "/debug") => Need::All(Scope::Admin),
        _ => Need::Any,
    }
}

/// Refuses a request that writes to, makes or drops a table with a reserved name ([`rows::is_reserved`]). Of a PATCH,
/// the body tells (`v1/tables.rs`); of a batch, each operation (`v1/batch.rs`).
///
/// # Errors
/// 403.
#[inline]
pub fn refuse_raw_write(method: &Method, path: &str) -> Answer<()> {
    if [Method::GET, Method::HEAD, Method::PATCH].contains(method) {
        return Ok(());
    }
    match place::part_of(path, "tables") {
        // The route refuses what is no name.
        Some(_) => place::table(path).map_or(Ok(()), |name| refuse_reserved(&name)),
        None => Ok(()),
    }
}

/// Refuses a table with a reserved name.
///
/// # Errors
/// 403.
#[inline]
pub fn refuse_reserved(table: &str) -> Answer<()> {
    rows::refuse_reserved(table).map_err(|error| {
        let mut problem = Problem::new(StatusCode::FORBIDDEN, "reserved-table", error.message());
        problem.cause = Some(error);
        problem
    })
}

/// What a request counts as.
#[inline]
pub fn kind(method: &Method, path: &str) -> Kind {
    let single = || match *method {
        Method::GET | Method::HEAD => Kind::Get,
        Method::PUT => Kind::Put,
        Method::DELETE => Kind::Delete,
        _ => Kind::Other,
    };
    if path == "/v0/entity" {
        return single();
    }
    if path == "/v0/entities" {
        return Kind::Range;
    }
    let Some(rest) = path.strip_prefix("/v1/databases/").and_then(|rest| rest.split_once('/')) else {
        return Kind::Other;
    };
    let mut parts = rest.1.split('/');
    match (parts.next(), parts.nth(1), parts.next()) {
        (Some("tables"), Some("entries"), Some(_)) => single(),
        (Some("tables"), Some("entries"), None) => Kind::Range,
        (Some("documents"), Some(_), _) => single(),
        (Some("documents"), None, _) => Kind::Range,
        (Some("batch" | "transactions"), ..) => Kind::Transaction,
        (Some("sql"), ..) => Kind::Sql,
        _ => Kind::Other,
    }
}

/// Whether it is an import, whose body may be longer than others'.
#[inline]
pub fn is_import(method: &Method, path: &str) -> bool {
    if *method != Method::POST || place::database(path).is_none() {
        return false;
    }
    let parts: Vec<&str> = path.split('/').skip(4).take(4).collect();
    matches!(parts[..], ["documents", _] | ["tables", _, "entries"])
}

fn in_database(method: &Method, path: &str, read_or: impl Fn(Scope) -> Scope) -> Scope {
    let mut parts = path.split('/').skip(4);
    match (parts.next(), parts.next(), parts.next()) {
        (None | Some(""), ..) => read_or(Scope::Admin),
        (Some("options" | "stats" | "readers" | "advise" | "sql"), ..) => Scope::Read,
        (Some("batch" | "transactions"), ..) => Scope::Write,
        (Some("documents"), ..) => read_or(Scope::Write),
        (Some("tables"), _, Some("entries")) => read_or(Scope::Write),
        (Some("tables"), ..) if *method == Method::PUT => Scope::Write,
        (Some("tables"), ..) => read_or(Scope::Admin),
        _ => Scope::Admin,
    }
}

fn is_below(path: &str, root: &str) -> bool {
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_tables_are_refused_to_every_method_that_writes() {
        let status = |method: Method, path: &str| refuse_raw_write(&method, path).err().map(|it| it.status);
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
        let scope = |method: Method, path: &str| match need(&method, path) {
            Need::In(_, scope) => Some(scope),
            _ => None,
        };
        let db = "/v1/databases/d";
        let cases = [
            (Method::GET, "/v0/entity".to_owned(), Scope::Read),
            (Method::PUT, "/v0/entity".to_owned(), Scope::Write),
            (Method::GET, db.to_owned(), Scope::Read),
            (Method::PUT, db.to_owned(), Scope::Admin),
            (Method::DELETE, db.to_owned(), Scope::Admin),
            (Method::GET, format!("{db}/stats"), Scope::Read),
            (Method::GET, format!("{db}/advise"), Scope::Read),
            (Method::GET, format!("{db}/backup"), Scope::Admin),
            (Method::POST, format!("{db}/compact"), Scope::Admin),
            (Method::POST, format!("{db}/sql"), Scope::Read),
            (Method::POST, format!("{db}/batch"), Scope::Write),
            (Method::POST, format!("{db}/transactions/x/commit"), Scope::Write),
            (Method::PUT, format!("{db}/tables/t"), Scope::Write),
            (Method::DELETE, format!("{db}/tables/t"), Scope::Admin),
            (Method::GET, format!("{db}/tables/t/entries/k"), Scope::Read),
            (Method::DELETE, format!("{db}/tables/t/entries/a/b"), Scope::Write),
            (Method::POST, format!("{db}/tables/t/entries"), Scope::Write),
            (Method::GET, format!("{db}/documents/t/1"), Scope::Read),
            (Method::POST, format!("{db}/documents/t"), Scope::Write),
            (Method::GET, format!("{db}/nothing"), Scope::Admin),
        ];
        for (method, path, expected) in cases {
            assert_eq!(scope(method.clone(), &path), Some(expected), "{method} {path}");
        }
        let entries = "/v1/databases/d/tables/t/entries";
        assert_eq!(kind(&Method::PUT, &format!("{entries}/k")), Kind::Put);
        assert_eq!(kind(&Method::GET, entries), Kind::Range);
        assert_eq!(kind(&Method::POST, "/v1/databases/d/batch"), Kind::Transaction);
        assert_eq!(kind(&Method::POST, "/v1/databases/d/sql"), Kind::Sql);
        assert_eq!(kind(&Method::GET, "/v1/databases/d/tables/t"), Kind::Other);
        assert_eq!(kind(&Method::PUT, "/v1/databases/d/documents/t/1/2"), Kind::Put);
        assert_eq!(kind(&Method::GET, "/v1/databases/d/documents/t"), Kind::Range);
        assert_eq!(need(&Method::GET, "/healthz"), Need::Nothing);
        assert_eq!(need(&Method::GET, "/debug/profile"), Need::All(Scope::Admin));
        assert_eq!(need(&Method::GET, "/v0x"), Need::Any);
    }
}
