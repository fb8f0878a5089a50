//! What the bindings repeat of the workspace, since each has one of its own, which inherits nothing: its version,
//! and the versions of its dependencies, so that a binding runs on what the workspace's tests have run on.

use super::tree::{Finding, TextFile, Tree};
use std::collections::{BTreeMap, BTreeSet};

/// How a file says which version it has, or needs of another package of this repository: what stands before the
/// version on its line.
const BEFORE: [&str; 4] = ["version = \"=", "version = \"", "\"version\": \"", "#define PANDO_VERSION \""];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(wanted) = tree.text("Cargo.toml").and_then(workspace_version) else { return Vec::new() };
    let files = tree.texts.iter().filter(|file| repeats_it(&file.path));
    let mut findings: Vec<_> = files.flat_map(|file| differing(file, wanted)).collect();
    let locked = tree.text("Cargo.lock").map(locked).unwrap_or_default();
    let is_lock = |file: &&TextFile| file.path.starts_with("bindings/") && file.path.ends_with("/Cargo.lock");
    findings.extend(tree.texts.iter().filter(is_lock).flat_map(|file| unlike(file, &locked)));
    findings
}

/// The versions of each package in a lock file.
fn locked(text: &str) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut versions: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for package in text.split("[[package]]").skip(1) {
        let value = |name: &str| package.lines().find_map(|line| line.strip_prefix(name)?.split('"').nth(1));
        if let (Some(name), Some(version)) = (value("name = "), value("version = ")) {
            versions.entry(name).or_default().insert(version);
        }
    }
    versions
}

/// The packages that a binding locks to a version that the workspace does not have.
fn unlike(file: &TextFile, wanted: &BTreeMap<&str, BTreeSet<&str>>) -> Vec<Finding> {
    let both =
        locked(&file.text).into_iter().filter_map(|(name, found)| Some((name, found, wanted.get(name)?)));
    let differing = both.filter(|(_, found, wanted)| found.is_disjoint(wanted));
    let finding = |(name, _, wanted): (&str, _, &BTreeSet<&str>)| {
        let version = wanted.first().copied().unwrap_or_default();
        let advice =
            format!("the workspace has another {name}: `cargo update -p {name} --precise {version}`");
        Finding::error(&file.path, 1, advice)
    };
    differing.map(finding).collect()
}

/// The version under `[workspace.package]`.
fn workspace_version(manifest: &str) -> Option<&str> {
    let package = manifest.split("[workspace.package]").nth(1)?;
    let line = package.lines().find(|line| line.starts_with("version = "))?;
    line.split('"').nth(1)
}

fn repeats_it(path: &str) -> bool {
    let ends = ["/Cargo.toml", "/package.json", "/cbindgen.toml"];
    path.starts_with("bindings/") && ends.iter().any(|end| path.ends_with(end))
}

fn differing<'a>(file: &'a TextFile, wanted: &'a str) -> impl Iterator<Item = Finding> + 'a {
    file.text.lines().enumerate().filter_map(move |(index, line)| {
        let found = version_of(line)?;
        let message = format!("version {found}, and the workspace has {wanted}: all are released together");
        (found != wanted).then(|| Finding::error(&file.path, index + 1, message))
    })
}

/// The version that a line names for this repository's own packages: for itself, or for one that has a path.
fn version_of(line: &str) -> Option<&str> {
    let begins = |before: &&str| line.trim_start().starts_with(before);
    let is_own = line.contains("path = ") || BEFORE.iter().any(begins);
    let start = BEFORE.iter().filter_map(|before| Some(line.find(before)? + before.len())).max()?;
    let rest = line[start..].split('"').next()?;
    is_own.then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::super::planted::tree;
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        let root = "[workspace.package]\nversion = \"1.2.3\"\n";
        check(&tree(&[("Cargo.toml", root), (path, text)])).len()
    }

    #[test]
    fn another_version_is_found() {
        assert_eq!(found("bindings/c/Cargo.toml", "[package]\nversion = \"1.2.3\"\n"), 0);
        assert_eq!(found("bindings/c/Cargo.toml", "[package]\nversion = \"1.2.2\"\n"), 1);
        assert_eq!(found("bindings/c/Cargo.toml", "a = { version = \"=1.2.2\", path = \"../a\" }\n"), 1);
        assert_eq!(found("bindings/c/Cargo.toml", "a = { version = \"=1.2.3\", path = \"../a\" }\n"), 0);
        assert_eq!(found("bindings/node/package.json", "{\n  \"version\": \"1.2.4\"\n}"), 1);
        assert_eq!(found("bindings/c/cbindgen.toml", "#define PANDO_VERSION \"1.2.4\"\n"), 1);
    }

    #[test]
    fn another_version_of_a_dependency_is_found() {
        let root = ("Cargo.toml", "[workspace.package]\nversion = \"1.2.3\"\n");
        let lock = |version| format!("[[package]]\nname = \"lz4\"\nversion = \"{version}\"\n");
        let found = |theirs: &str| {
            let (ours, theirs) = (lock("1.0.0") + &lock("2.0.0"), theirs.to_owned());
            check(&tree(&[root, ("Cargo.lock", &ours), ("bindings/c/Cargo.lock", &theirs)])).len()
        };
        assert_eq!(found(&lock("1.0.1")), 1);
        assert_eq!(found(&lock("2.0.0")), 0);
        assert_eq!(found("[[package]]\nname = \"own\"\nversion = \"7.0.0\"\n"), 0);
    }

    #[test]
    fn versions_of_others_are_their_own() {
        assert_eq!(found("bindings/c/Cargo.toml", "pyo3 = { version = \"0.30\" }\n"), 0);
        assert_eq!(found("bindings/c/Cargo.toml", "rust-version = \"1.95\"\n"), 0);
        assert_eq!(found("fuzz/Cargo.toml", "version = \"0.0.0\"\n"), 0);
    }
}
