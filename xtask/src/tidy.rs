//! How the tree must look, as a test.
//!
//! 1. `Tree::read` lists the files that git tracks, or would track, and scans the Rust among them once.
//! 2. Each check walks that tree and answers with findings: a file, a line, what is wrong and what to do.
//! 3. Errors fail the run; warnings are printed.
//!
//! What is allowed to break a rule is listed beside the rule, with the reason. There is no comment that switches a
//! check off in place: an exception is argued for here, where exceptions can be counted.

mod tree;
mod layers;
mod circles;
mod docs;
mod names;
mod patches;
mod prose;
mod size;
mod sound;
mod versions;
mod words;

use std::io;
use std::path::Path;
pub use tree::Finding;
use tree::Tree;

/// Runs every check over the tree at `root`; the findings come in order of path and line.
pub fn check(root: &Path) -> io::Result<Vec<Finding>> {
    let place = root.canonicalize()?.to_str().and_then(words::place_of);
    let tree = Tree::read(root, place.into_iter().collect())?;
    let checks = [
        size::check,
        layers::check,
        circles::check,
        sound::check,
        words::check,
        docs::check,
        names::check,
        prose::check,
        patches::check,
        versions::check,
    ];
    let mut findings: Vec<_> = checks.iter().flat_map(|check| check(&tree)).collect();
    findings.sort();
    Ok(findings)
}

/// What the checks' own tests share: trees made of a few planted files.
#[cfg(test)]
mod planted {
    use super::*;

    pub fn tree(files: &[(&str, &str)]) -> Tree {
        let mut tree = Tree::default();
        files.iter().for_each(|(path, text)| tree.add(path, text.as_bytes().to_vec()));
        tree
    }

    /// `path:line` of what `check` finds in one planted file.
    pub fn found(check: fn(&Tree) -> Vec<Finding>, path: &str, text: &str) -> Vec<String> {
        let findings = check(&tree(&[(path, text)]));
        findings.iter().map(|finding| format!("{}:{}", finding.path, finding.line)).collect()
    }
}
