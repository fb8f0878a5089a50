//! The files that the checks look at, and what a check finds in them.

use crate::source::Source;
use std::path::Path;
use std::process::Command;
use std::{fmt, fs, io};

/// Something that a check found.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    pub(super) path: String,
    pub(super) line: usize,
    pub(super) message: String,
    error: bool,
}

impl Finding {
    pub(super) fn error(path: &str, line: usize, message: impl Into<String>) -> Self {
        Finding { path: path.to_string(), line, message: message.into(), error: true }
    }

    pub(super) fn warning(path: &str, line: usize, message: impl Into<String>) -> Self {
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
pub(super) struct TextFile {
    pub path: String,
    pub text: String,
}

/// The files that the checks look at.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// Every path, also of files that are no text.
    pub paths: Vec<String>,
    /// Every text file.
    pub texts: Vec<TextFile>,
    /// The Rust files among them, scanned.
    pub sources: Vec<Source>,
    /// Directories that no file may name, since they are this machine's.
    pub places: Vec<String>,
}

impl Tree {
    /// Lists and reads the tree at `root`. Files that are new and not ignored count: they are about to be
    /// tracked. No file may name `places`.
    pub fn read(root: &Path, places: Vec<String>) -> io::Result<Tree> {
        let listing = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(root)
            .output()?;
        if !listing.status.success() {
            let message = String::from_utf8_lossy(&listing.stderr).trim().to_string();
            return Err(io::Error::other(format!("git ls-files: {message}")));
        }
        let names = String::from_utf8_lossy(&listing.stdout).into_owned();
        let mut tree = Tree { places, ..Tree::default() };
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

    pub fn add(&mut self, path: &str, bytes: Vec<u8>) {
        self.paths.push(path.to_string());
        if let Ok(text) = String::from_utf8(bytes) {
            if path.ends_with(".rs") {
                self.sources.push(Source::new(path, &text));
            }
            self.texts.push(TextFile { path: path.to_string(), text });
        }
    }

    pub fn text(&self, path: &str) -> Option<&str> {
        self.texts.iter().find(|file| file.path == path).map(|file| file.text.as_str())
    }

    /// The names of the directories right under `crates/`, each once.
    pub fn crates(&self) -> Vec<&str> {
        let names = self.paths.iter().filter_map(|path| path.strip_prefix("crates/")?.split_once('/'));
        let mut names: Vec<_> = names.map(|(name, _)| name).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

/// The crate a path belongs to: `crates/io/src/os.rs` to `io`, `xtask/...` to `xtask`.
pub(super) fn crate_of(path: &str) -> Option<&str> {
    match path.split('/').collect::<Vec<_>>()[..] {
        ["crates", name, _, ..] => Some(name),
        ["xtask", ..] => Some("xtask"),
        _ => None,
    }
}
