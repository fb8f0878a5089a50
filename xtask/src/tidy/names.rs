//! Names that pages give: files and functions that they mention are there, and ARCHITECTURE's table of floors says
//! what the manifests say.

use super::layers::{floor_of, own_dependencies};
use super::tree::{Finding, Tree};
use crate::source::find_word;

/// The page with the table of floors.
const ARCHITECTURE: &str = "ARCHITECTURE.md";
/// Pages whose functions are looked for as well.
const OF_FUNCTIONS: [&str; 2] = [ARCHITECTURE, "docs/walks.md"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.texts.iter().filter(|file| file.path.ends_with(".md")) {
        let of_functions = OF_FUNCTIONS.contains(&file.path.as_str());
        for (line, name) in in_backticks(&file.text) {
            if is_file_name(name) && !is_there(tree, name) {
                let message = format!("there is no file `{name}`, nor one of that path under crates/");
                findings.push(Finding::error(&file.path, line, message));
            }
            if let Some(function) = function_of(name).filter(|_| of_functions)
                && !is_defined(tree, function)
            {
                let message = format!("no source defines a function `{function}`");
                findings.push(Finding::error(&file.path, line, message));
            }
        }
    }
    if let Some(page) = tree.text(ARCHITECTURE) {
        floors(tree, page, &mut findings);
    }
    findings
}

/// What stands between backticks outside of fences, each with its line.
fn in_backticks(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            found.extend(line.split('`').skip(1).step_by(2).map(|name| (index + 1, name)));
        }
    }
    found
}

/// Whether `name` is the path of a Rust file: `store/src/commit/steps.rs`, not `steps.rs`.
fn is_file_name(name: &str) -> bool {
    let is_path = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    name.ends_with(".rs") && name.contains("src/") && name.chars().all(is_path)
}

fn is_there(tree: &Tree, name: &str) -> bool {
    tree.paths.iter().any(|path| path == name || path.strip_prefix("crates/") == Some(name))
}

/// `f` of `Type::f`.
fn function_of(name: &str) -> Option<&str> {
    let (of, function) = name.split_once("::")?;
    let is_name = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let is_function = function.starts_with(|c: char| c.is_ascii_lowercase()) && is_name(function);
    (of.starts_with(|c: char| c.is_ascii_uppercase()) && is_name(of) && is_function).then_some(function)
}

/// Whether a source defines it, as a function or as a field of a structure.
fn is_defined(tree: &Tree, function: &str) -> bool {
    let (of_function, of_field) = (format!("fn {function}"), format!("{function}:"));
    let mut lines = tree.sources.iter().flat_map(|source| &source.lines);
    lines.any(|line| {
        find_word(&line.code, &of_function, 0).is_some() || line.code.trim_start().contains(&of_field)
    })
}

/// Each crate has one row, with its floor and all of its dependencies within the workspace.
fn floors(tree: &Tree, page: &str, findings: &mut Vec<Finding>) {
    for name in tree.crates() {
        let Some(manifest) = tree.text(&format!("crates/{name}/Cargo.toml")) else { continue };
        let link = format!("(crates/{name}/src/");
        let Some((index, row)) = page.lines().enumerate().find(|(_, line)| is_row_of(line, &link)) else {
            let message = format!("the table of floors has no row for crate `{name}`");
            findings.push(Finding::error(ARCHITECTURE, 1, message));
            continue;
        };
        let wanted = (floor_of(name), own_dependencies(manifest).join(", "));
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let said = (cells.get(1).map_or("", |cell| cell), cells.get(3).map_or("", |cell| cell));
        if said != (wanted.0.as_str(), wanted.1.as_str()) {
            let message = format!("`{name}` is on floor {}, and depends on: {}", wanted.0, wanted.1);
            findings.push(Finding::error(ARCHITECTURE, index + 1, message));
        }
    }
}

fn is_row_of(line: &str, link: &str) -> bool {
    line.starts_with('|') && line.split('|').nth(2).is_some_and(|cell| cell.contains(link))
}

#[cfg(test)]
mod tests {
    use super::super::planted::tree;
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        check(&tree(files)).iter().map(|finding| format!("{}:{}", finding.path, finding.line)).collect()
    }

    #[test]
    fn files_that_pages_name_are_there() {
        let source = ("crates/io/src/a.rs", "fn f() {}\n");
        assert!(
            found(&[source, ("docs/a.md", "See `io/src/a.rs`, `crates/io/src/a.rs`, `b.rs`.\n")]).is_empty()
        );
        assert_eq!(found(&[source, ("docs/a.md", "x\nSee `io/src/b.rs`.\n")]), ["docs/a.md:2"]);
        assert!(found(&[source, ("docs/a.md", "```\n`io/src/b.rs`\n```\n")]).is_empty());
    }

    #[test]
    fn functions_that_walks_name_are_there() {
        let source = ("crates/io/src/a.rs", "struct A {\n    field: u8,\n}\nimpl A {\n    fn f() {}\n}\n");
        let good = "`A::f`, `A::field`, `A::B`, `std::fs`\n";
        assert!(found(&[source, ("docs/walks.md", good)]).is_empty());
        assert_eq!(found(&[source, ("docs/walks.md", "`A::f`\n`A::g`\n")]), ["docs/walks.md:2"]);
        assert!(found(&[source, ("docs/other.md", "`A::g`\n")]).is_empty());
    }

    #[test]
    fn the_table_of_floors_is_that_of_the_manifests() {
        let io = (
            "crates/io/Cargo.toml",
            "[dependencies]\nbase.workspace = true\n[dev-dependencies]\nsim = \"1\"\n",
        );
        let check_row = |row: &str| found(&[io, ("ARCHITECTURE.md", &format!("# A\n{row}\n"))]);
        assert!(check_row("| 1 | [io](crates/io/src/lib.rs) | base | files |").is_empty());
        assert_eq!(check_row("| 2 | [io](crates/io/src/lib.rs) | base | files |"), ["ARCHITECTURE.md:2"]);
        assert_eq!(check_row("| 1 | [io](crates/io/src/lib.rs) | | files |"), ["ARCHITECTURE.md:2"]);
        assert_eq!(check_row("| 1 | io | base | files |"), ["ARCHITECTURE.md:1"]);
    }
}
