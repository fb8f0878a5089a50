//! Every operation of the HTTP interface, collected from the modules of the handlers.

use crate::calls::operation::Operation;
use crate::operations::{
    advise, backup, backups, batch, changes, consumers, dashboard, databases, debug, documents, entries,
    expiry, explain, health, history, hrana, maintenance, outcome, pages, promote, ranges, readers, settings,
    statements, tables, tokens, transaction, v0,
};

/// The entries, in the order in which the OpenAPI document has them.
const TABLE: &[&[Operation]] = &[
    health::OPERATIONS,
    pages::OPERATIONS,
    dashboard::OPERATIONS,
    debug::OPERATIONS,
    history::OPERATIONS,
    settings::OPERATIONS,
    tokens::OPERATIONS,
    promote::OPERATIONS,
    v0::OPERATIONS,
    databases::OPERATIONS,
    readers::OPERATIONS,
    advise::OPERATIONS,
    maintenance::OPERATIONS,
    backup::OPERATIONS,
    backups::OPERATIONS,
    changes::OPERATIONS,
    consumers::OPERATIONS,
    batch::OPERATIONS,
    statements::OPERATIONS,
    hrana::OPERATIONS,
    transaction::OPERATIONS,
    outcome::OPERATIONS,
    documents::list::OPERATIONS,
    documents::range::OPERATIONS,
    documents::import::OPERATIONS,
    documents::one::OPERATIONS,
    tables::OPERATIONS,
    explain::OPERATIONS,
    ranges::OPERATIONS,
    entries::OPERATIONS,
    expiry::OPERATIONS,
];

/// Returns every operation.
pub fn operations() -> impl Iterator<Item = &'static Operation> {
    TABLE.iter().copied().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::tokens::Scope;
    use crate::calls::operation::{Access, LEFT_OUT};
    use crate::routes::tree::find;
    use axum::http::Method;
    use std::collections::BTreeSet;

    /// Returns the row of docs/http.md for an operation.
    fn row(operation: &Operation) -> String {
        let word = |scope| match scope {
            Scope::Read => "`read`",
            Scope::Write => "`write`",
            Scope::Admin => "`admin`",
        };
        let scope = match operation.access {
            Access::Nothing => "no token".to_owned(),
            Access::Any => "any token".to_owned(),
            Access::Default(scope) | Access::Database(scope) => word(scope).to_owned(),
            Access::All(scope) => format!("{}, for all databases", word(scope)),
        };
        let Operation { method, path, kind, .. } = operation;
        format!("| `{method} {path}` | {scope} | `{}` |", kind.name())
    }

    #[test]
    fn the_docs_list_every_operation_and_no_other() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/http.md");
        let page = std::fs::read_to_string(page).unwrap();
        let (_, section) = page.split_once("\n## Operations\n").expect("the page has the section");
        let section = section.split("\n## ").next().unwrap_or_default();
        let listed: Vec<&str> = section.lines().filter(|line| line.starts_with("| `")).collect();
        let expected: Vec<String> = operations().map(row).collect();
        assert_eq!(listed, expected, "the table of docs/http.md is to be:\n{}", expected.join("\n"));
    }

    #[test]
    fn the_docs_list_what_a_server_over_a_store_refuses_and_nothing_else() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/http.md");
        let page = std::fs::read_to_string(page).unwrap();
        let (_, section) = page.split_once("\n## Over a remote store\n").expect("the page has the section");
        let section = section.split("\n## ").next().unwrap_or_default();
        let listed: Vec<&str> = section.lines().filter(|line| line.starts_with("| `")).collect();
        let row = |operation: &Operation| {
            let capability = operation.needs?.name();
            Some(format!("| `{} {}` | `{capability}` |", operation.method, operation.path))
        };
        let expected: Vec<String> = operations().filter_map(row).collect();
        assert_eq!(listed, expected, "the table of docs/http.md is to be:\n{}", expected.join("\n"));
    }

    #[cfg(feature = "remote")]
    #[test]
    fn each_entry_has_a_handler_over_a_store_or_needs_what_a_store_does_not_have() {
        for operation in operations() {
            let Operation { method, path, needs, remote, .. } = operation;
            assert_ne!(needs.is_some(), remote.is_some(), "{method} {path}: {needs:?}");
        }
    }

    #[test]
    fn every_entry_is_complete_and_found_by_its_path() {
        let mut seen = BTreeSet::new();
        for operation in operations() {
            let Operation { method, path, .. } = *operation;
            assert!(seen.insert((method, path)), "{method} {path} twice");
            assert!(!operation.summary.is_empty(), "{method} {path}");
            assert!(
                operation.responses.iter().any(|(status, _)| *status < 300),
                "{method} {path}: no success"
            );
            let parameters: Vec<&str> = path.split('/').filter(|part| part.starts_with('{')).collect();
            let known = ["{database}", "{table}", "{file}", "{consumer}", "{reader}", "{token}", "{commit}"];
            let is_shown = |name: &&&str| known.contains(*name);
            let shown = parameters.iter().take_while(is_shown).count();
            assert!(parameters[shown..].iter().all(|name| LEFT_OUT.contains(name)), "{path}");
            let named = matches!(operation.access, Access::Database(_));
            assert_eq!(named, parameters.first() == Some(&"{database}"), "{method} {path}");
            // A request for this path finds the operation, with the parameters at their positions.
            let asked = path.replace(['{', '}'], "");
            let found = find(&method.parse().unwrap(), &asked);
            assert!(found.operation().is_some_and(|is| std::ptr::eq(is, operation)), "{method} {path}");
            for (index, name) in parameters.iter().enumerate() {
                assert_eq!(
                    found.captured().get(&asked, index),
                    Some(name.trim_matches(['{', '}'])),
                    "{path}"
                );
            }
            if method == "GET" {
                let head = find(&Method::HEAD, &asked).operation().expect("HEAD is wherever GET is");
                assert_eq!((head.access, head.kind, head.path), (operation.access, operation.kind, path));
            }
        }
    }
}
