//! The floors. A crate depends on lower floors only; siblings do not know each other.
//!
//! Cargo keeps dependencies free of circles, and no more: that `page` may not know `pool` is said here. Crates beside
//! the house (benchmarks, simulation, checks) may look into every floor and into each other; of the floors, only
//! the command may look at them, as it runs them.

use super::tree::{Finding, Tree};

/// Every crate and its floor.
const FLOORS: &[(&str, u8)] = &[
    ("base", 0),
    ("rows-derive", 0),
    ("sqlite-format", 1),
    ("io", 1),
    ("page", 1),
    ("log", 2),
    ("space", 2),
    ("pool", 2),
    ("memtable", 3),
    ("run", 3),
    ("txn", 3),
    ("store", 4),
    ("pando", 5),
    ("rows", 6),
    ("profile", 6),
    ("ship", 6),
    ("sqlite", 6),
    ("postgres", 7),
    ("arrow", 7),
    ("sql", 7),
    ("resp", 7),
    ("mcp", 8),
    ("hrana", 8),
    ("server", 9),
    ("cli", 10),
    ("bench", BESIDE),
    ("rivals", BESIDE),
    ("sim", BESIDE),
    ("fuzz", BESIDE),
    ("xtask", BESIDE),
];

/// The command's floor: the highest.
const COMMAND: u8 = 10;
/// No floor at all.
const BESIDE: u8 = u8::MAX;

/// Crates that the tests of any floor may use: a store to run on.
const FOR_TESTS: &[&str] = &["postgres"];

/// The floor of a crate in the house; `None` for crates beside it and unknown ones.
pub(super) fn floor(name: &str) -> Option<u8> {
    known(name).filter(|&floor| floor != BESIDE)
}

/// The floor as a page writes it.
pub(super) fn floor_of(name: &str) -> String {
    floor(name).map_or("beside".to_string(), |floor| floor.to_string())
}

/// The crates of the workspace that a manifest depends on, tests aside, by name.
pub(super) fn own_dependencies(manifest: &str) -> Vec<&str> {
    let tables = dependencies_where(manifest, |table| !table.contains("dev-dependencies"));
    let mut names: Vec<_> =
        tables.into_iter().map(|(_, name)| name).filter(|name| known(name).is_some()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn known(name: &str) -> Option<u8> {
    FLOORS.iter().find(|(known, _)| *known == name).map(|&(_, floor)| floor)
}

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for name in tree.crates() {
        let path = format!("crates/{name}/Cargo.toml");
        let Some(manifest) = tree.text(&path) else { continue };
        let Some(from) = known(name) else {
            let message = format!("crate `{name}` has no floor: give it one in xtask/src/tidy/layers.rs");
            findings.push(Finding::error(&path, 1, message));
            continue;
        };
        let of_tests = dependencies_where(manifest, |table| table.contains("dev-dependencies"));
        for (line, dependency) in dependencies(manifest) {
            let Some(to) = known(dependency) else { continue };
            let is_for_tests = FOR_TESTS.contains(&dependency) && of_tests.contains(&(line, dependency));
            if dependency != name && !may_depend(from, to) && !is_for_tests {
                let message = format!(
                    "`{name}` ({}) may not depend on `{dependency}` ({}): move what is needed down, or \
                     define a trait here that the higher floor implements",
                    describe(from),
                    describe(to)
                );
                findings.push(Finding::error(&path, line, message));
            }
        }
    }
    findings
}

fn may_depend(from: u8, to: u8) -> bool {
    match (from, to) {
        (BESIDE, _) | (COMMAND, BESIDE) => true,
        (_, BESIDE) => false,
        (from, to) => to < from,
    }
}

fn describe(floor: u8) -> String {
    if floor == BESIDE { "beside the floors".to_string() } else { format!("floor {floor}") }
}

/// The names in every dependency table of a manifest, development ones included, each with its line. The project's
/// prefix is taken off.
fn dependencies(manifest: &str) -> Vec<(usize, &str)> {
    dependencies_where(manifest, |_| true)
}

/// Those in tables whose names `is_wanted` wants.
fn dependencies_where(manifest: &str, is_wanted: impl Fn(&str) -> bool) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut inside = false;
    for (index, line) in manifest.lines().enumerate() {
        let line = line.trim();
        if let Some(table) = line.strip_prefix('[') {
            let table = table.trim_end_matches(']');
            inside = table.ends_with("dependencies") && is_wanted(table);
            // `[dependencies.name]` is a table of one dependency.
            if let Some((_, name)) = table.rsplit_once("dependencies.").filter(|_| is_wanted(table)) {
                found.push((index + 1, own_name(name)));
            }
        } else if inside && !line.starts_with('#') {
            let end = line.find(['.', '=', ' ']).unwrap_or(0);
            found.extend((end > 0).then(|| (index + 1, own_name(&line[..end]))));
        }
    }
    found
}

fn own_name(name: &str) -> &str {
    match name.trim_matches('"') {
        "pando-db" => "pando",
        name => name.strip_prefix("pando-db-").unwrap_or(name),
    }
}

#[cfg(test)]
mod tests {
    use super::super::planted::found;
    use super::*;

    #[test]
    fn a_higher_floor_and_a_sibling_are_refused() {
        let up = "[dependencies]\nbase.workspace = true\nstore.workspace = true\n";
        assert_eq!(found(check, "crates/io/Cargo.toml", up), ["crates/io/Cargo.toml:3"]);
        let sibling = "[package]\nname = \"pando-db-log\"\n[dependencies]\nspace = { workspace = true }\n";
        assert_eq!(found(check, "crates/log/Cargo.toml", sibling), ["crates/log/Cargo.toml:4"]);
        let prefixed = "[dev-dependencies.pando-db-run]\nworkspace = true\n";
        assert_eq!(found(check, "crates/txn/Cargo.toml", prefixed), ["crates/txn/Cargo.toml:1"]);
        let target = "[target.'cfg(loom)'.dependencies]\npando-db = \"1\"\n";
        assert_eq!(found(check, "crates/base/Cargo.toml", target), ["crates/base/Cargo.toml:2"]);
    }

    #[test]
    fn tests_alone_may_use_a_store_to_run_on() {
        let tests = "[dev-dependencies]\npostgres.workspace = true\n";
        assert!(found(check, "crates/sqlite/Cargo.toml", tests).is_empty());
        let library = "[dependencies]\npostgres.workspace = true\n";
        assert_eq!(found(check, "crates/sqlite/Cargo.toml", library).len(), 1);
        let other = "[dev-dependencies]\nsql.workspace = true\n";
        assert_eq!(found(check, "crates/sqlite/Cargo.toml", other).len(), 1);
    }

    #[test]
    fn lower_floors_and_what_lies_beside_are_allowed() {
        let down = "[dependencies]\nbase.workspace = true\nio.workspace = true\npage.workspace = true\n";
        assert!(found(check, "crates/pool/Cargo.toml", down).is_empty());
        let bench = "[dependencies]\nbench.workspace = true\n";
        assert!(found(check, "crates/cli/Cargo.toml", bench).is_empty());
        assert_eq!(found(check, "crates/pando/Cargo.toml", bench).len(), 1);
        assert!(found(check, "crates/sim/Cargo.toml", "[dependencies]\nstore.workspace = true\n").is_empty());
    }

    #[test]
    fn a_new_crate_needs_a_floor() {
        assert_eq!(found(check, "crates/cellar/Cargo.toml", "[package]\n").len(), 1);
    }
}
