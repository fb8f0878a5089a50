//! Docs: every crate opens with its purpose and has its public items documented; every relative link leads to a file,
//! and its anchor to a heading.

use super::tree::{Finding, Tree};

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for name in tree.crates() {
        crate_head(tree, name, &mut findings);
    }
    for file in tree.texts.iter().filter(|file| file.path.ends_with(".md")) {
        for (line, target) in links(&file.text) {
            let (target, anchor) = target.split_once('#').unwrap_or((target, ""));
            let wanted =
                if target.is_empty() { Some(file.path.clone()) } else { resolve(&file.path, target) };
            let Some(wanted) = wanted.filter(|path| exists(tree, path)) else {
                let message = format!("the link to `{target}` leads nowhere");
                findings.push(Finding::error(&file.path, line, message));
                continue;
            };
            let page = tree.text(&wanted).filter(|_| wanted.ends_with(".md"));
            if !anchor.is_empty() && page.is_some_and(|page| !anchors(page).iter().any(|name| name == anchor))
            {
                let message = format!("`{wanted}` has no heading `#{anchor}`");
                findings.push(Finding::error(&file.path, line, message));
            }
        }
    }
    findings
}

fn crate_head(tree: &Tree, name: &str, findings: &mut Vec<Finding>) {
    let manifest_path = format!("crates/{name}/Cargo.toml");
    let Some(manifest) = tree.text(&manifest_path) else {
        findings.push(Finding::error(&manifest_path, 1, "a directory under crates/ without a manifest"));
        return;
    };
    let roots = ["lib", "main"].map(|root| format!("crates/{name}/src/{root}.rs"));
    let roots: Vec<_> = roots.iter().filter_map(|path| Some((path, tree.text(path)?))).collect();
    if roots.is_empty() {
        findings.push(Finding::error(&manifest_path, 1, "a crate without src/lib.rs or src/main.rs"));
    }
    for (path, text) in &roots {
        if !text.starts_with("//!") {
            findings.push(Finding::error(path, 1, "the file must open with `//!`: what the crate is for"));
        }
    }
    let by_workspace = manifest.contains("[lints]\nworkspace = true");
    if !by_workspace && !roots.iter().any(|(_, text)| text.contains("#![deny(missing_docs)]")) {
        let message = "public items may go undocumented: add `[lints]` with `workspace = true`";
        findings.push(Finding::error(&manifest_path, 1, message));
    }
}

/// The targets of inline links and of link definitions, outside code, each with its line. Addresses are left out.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if !fenced {
            let definition = line.starts_with('[').then(|| line.split_once("]: ")).flatten();
            found.extend(definition.map(|(_, target)| (index + 1, target.trim())));
            found.extend(inline_links(line).map(|target| (index + 1, target)));
        }
    }
    found.retain(|(_, target)| !target.contains("://") && !target.starts_with("mailto:"));
    found
}

/// `target` of each `[text](target)` in a line. What stands in backticks is skipped: odd pieces between them.
fn inline_links(line: &str) -> impl Iterator<Item = &str> {
    let in_code = |at: usize| line[..at].matches('`').count() % 2 == 1;
    line.match_indices("](").filter(move |&(at, _)| !in_code(at)).filter_map(|(at, _)| {
        let rest = &line[at + 2..];
        let target = &rest[..rest.find(')')?];
        target.split_whitespace().next()
    })
}

/// The path that `target` names, as seen from the file at `from`; `None` if it leads out of the tree.
fn resolve(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = if target.starts_with('/') { Vec::new() } else { from.split('/').collect() };
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// Whether `wanted` is a file of the tree or a directory that holds one.
fn exists(tree: &Tree, wanted: &str) -> bool {
    let inside = format!("{wanted}/");
    tree.paths.iter().any(|path| *path == wanted || path.starts_with(&inside))
}

/// The anchors of a page's headings, as GitHub makes them: in lower case, without punctuation, with hyphens for spaces;
/// the second of a name gets `-1`.
fn anchors(page: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut fenced = false;
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        let title = line.trim_start_matches('#');
        if fenced || title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let kept = title.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let name: String =
            kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect();
        let before = found.iter().filter(|other| **other == name).count();
        found.push(if before == 0 { name } else { format!("{name}-{before}") });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::planted::tree;
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        check(&tree(files)).iter().map(|finding| format!("{}:{}", finding.path, finding.line)).collect()
    }

    #[test]
    fn a_crate_says_what_it_is_for() {
        let manifest = ("crates/io/Cargo.toml", "[lints]\nworkspace = true\n");
        assert!(found(&[manifest, ("crates/io/src/lib.rs", "//! Files.\n")]).is_empty());
        assert_eq!(found(&[manifest, ("crates/io/src/lib.rs", "mod a;\n")]), ["crates/io/src/lib.rs:1"]);
        assert_eq!(found(&[manifest]), ["crates/io/Cargo.toml:1"]);
        assert_eq!(found(&[("crates/io/src/lib.rs", "//! Files.\n")]), ["crates/io/Cargo.toml:1"]);
    }

    #[test]
    fn a_crate_has_its_items_documented() {
        let manifest = ("crates/io/Cargo.toml", "[package]\n");
        assert_eq!(found(&[manifest, ("crates/io/src/lib.rs", "//! Files.\n")]), ["crates/io/Cargo.toml:1"]);
        let denies = ("crates/io/src/lib.rs", "//! Files.\n#![deny(missing_docs)]\n");
        assert!(found(&[manifest, denies]).is_empty());
    }

    #[test]
    fn links_lead_somewhere() {
        let target = ("docs/b.md", "");
        let from = |text: &'static str| found(&[("docs/a.md", text), target, ("README.md", "")]);
        assert_eq!(from("x\n[c](c.md)"), ["docs/a.md:2"]);
        assert_eq!(from("[c](../b.md) and [d](../../README.md)"), ["docs/a.md:1", "docs/a.md:1"]);
        assert_eq!(from("[c]: c.md"), ["docs/a.md:1"]);
        assert!(from("# Part\n[r](../README.md), [d](../docs), [s](#part), [w](https://x.y/z)").is_empty());
        assert!(from("`[c](c.md)`\n```\n[c](c.md)\n```\n").is_empty());
    }

    #[test]
    fn anchors_lead_to_headings() {
        let page = ("docs/b.md", "# `a/b.rs`: Two Words\n## x_y\n## x_y\n```\n# code\n```\n#none\n");
        let from = |text: &'static str| found(&[("docs/a.md", text), page]);
        assert!(from("[a](b.md#abrs-two-words), [b](b.md#x_y), [c](b.md#x_y-1)").is_empty());
        assert_eq!(from("[a](b.md#part)"), ["docs/a.md:1"]);
        assert_eq!(from("[a](b.md#code) [b](b.md#none)"), ["docs/a.md:1", "docs/a.md:1"]);
        assert_eq!(from("x\n[a](#part)"), ["docs/a.md:2"]);
    }
}
