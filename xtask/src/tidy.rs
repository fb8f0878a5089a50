//! How the tree must look, as a test.
//!
//! 1. `Tree::read` lists the files that git tracks, or would track, and scans the Rust among them once.
//! 2. Each check walks that tree and answers with findings: a file, a line, what is wrong and what to do.
//! 3. Errors fail the run; warnings are printed.
//!
//! What is allowed to break a rule is listed beside the rule, with the reason. There is no comment that switches a
//! check off in place: an exception is argued for here, where exceptions can be counted.

mod circles;
mod docs;
mod layers;
mod names;
mod patches;
mod prose;
mod size;
mod sound;
mod words;

use crate::source::Source;
use std::path::Path;
use std::process::Command;
use std::{fmt, fs, io};

/// Something that a check found.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    path: String,
    line: usize,
    message: String,
    error: bool,
}

impl Finding {
    fn error(path: &str, line: usize, message: impl Into<String>) -> Self {
        Finding { path: path.to_string(), line, message: message.into(), error: true }
    }

    fn warning(path: &str, line: usize, message: impl Into<String>) -> Self {
        Finding { error: false, ..Finding::error(path, line, message) }
    }

    /// Whether it fails the run.
    pub fn is_error(&self) -> bool {
        self.error
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = if self.error { "error" } else { "warning" };
        write!(f, "{}:{}: {level}: {}", self.path, self.line, self.message)
    }
}

/// A file as text; its path is from the root, with `/`.
#[derive(Debug)]
struct TextFile {
    path: String,
    text: String,
}

/// The files that the checks look at.
#[derive(Debug, Default)]
struct Tree {
    /// Every path, also of files that are no text.
    paths: Vec<String>,
    /// Every text file.
    texts: Vec<TextFile>,
    /// The Rust files among them, scanned.
    sources: Vec<Source>,
    /// Directories that no file may name, since they are this machine's.
    places: Vec<String>,
}

impl Tree {
    /// Lists and reads the tree at `root`. Files that are new and not ignored count: they are about to be tracked.
    fn read(root: &Path) -> io::Result<Tree> {
        let listing = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(root)
            .output()?;
        if !listing.status.success() {
            let message = String::from_utf8_lossy(&listing.stderr).trim().to_string();
            return Err(io::Error::other(format!("git ls-files: {message}")));
        }
        let names = String::from_utf8_lossy(&listing.stdout).into_owned();
        let places = root.canonicalize()?.to_str().and_then(words::place_of);
        let mut tree = Tree { places: places.into_iter().collect(), ..Tree::default() };
        for path in names.split('\0').filter(|path| !path.is_empty()) {
            match fs::read(root.join(path)) {
                Ok(bytes) => tree.add(path, bytes),
                // Deleted, the deletion not staged yet.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(io::Error::other(format!("{path}: {error}"))),
            }
        }
        Ok(tree)
    }

    fn add(&mut self, path: &str, bytes: Vec<u8>) {
        self.paths.push(path.to_string());
        if let Ok(text) = String::from_utf8(bytes) {
            if path.ends_with(".rs") {
                self.sources.push(Source::new(path, &text));
            }
            self.texts.push(TextFile { path: path.to_string(), text });
        }
    }

    fn text(&self, path: &str) -> Option<&str> {
        self.texts.iter().find(|file| file.path == path).map(|file| file.text.as_str())
    }

    /// The names of the directories right under `crates/`, each once.
    fn crates(&self) -> Vec<&str> {
        let names = self.paths.iter().filter_map(|path| path.strip_prefix("crates/")?.split_once('/'));
        let mut names: Vec<_> = names.map(|(name, _)| name).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

/// The crate a path belongs to: `crates/io/src/os.rs` to `io`, `xtask/...` to `xtask`.
fn crate_of(path: &str) -> Option<&str> {
    match path.split('/').collect::<Vec<_>>()[..] {
        ["crates", name, _, ..] => Some(name),
        ["xtask", ..] => Some("xtask"),
        _ => None,
    }
}

/// Runs every check over the tree at `root`; the findings come in order of path and line.
pub fn check(root: &Path) -> io::Result<Vec<Finding>> {
    let tree = Tree::read(root)?;
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
