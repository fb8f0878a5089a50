//! Circles of imports inside a crate: files that use each other, directly or through others.
//!
//! Cargo refuses circles between crates; inside of one nobody does, and files that all know each other can only be
//! read and changed together. So the largest circle of each crate has a size that it may not exceed.
//!
//! 1. `Module::all` finds a crate's files by their module paths, and in each the paths that begin with `crate`,
//!    `self`, `super` or the name of a child. Tests are left out.
//! 2. `resolve` follows such a path, through re-exports, to the file that defines what it names. A `pub use` is a
//!    re-export only: it makes no edge.
//! 3. `largest_circle` is the largest set of files of which each reaches each other.
//! 4. Where a crate has wings, `lib.rs` lists them in the order in which they may use each other, and `upward` finds
//!    the files that use a later one.

use super::tree::{Finding, Tree};
use crate::source::Source;
use std::collections::{BTreeMap, BTreeSet};

/// What the largest circle of a crate may have, in files.
const USUAL_FILES: usize = 3;
/// The crates that have a larger one, each with its size. These numbers may only fall.
const LARGER: &[(&str, usize)] = &[("sql", 12)];
/// The crates whose modules use only those that `lib.rs` lists before them.
const ORDERED: &[&str] = &["hrana", "mcp", "memtable", "profile", "resp", "run", "server", "store"];
/// A re-export of a re-export is followed so often.
const MOST_HOPS: usize = 8;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut names = tree.crates();
    names.push("xtask");
    let circles = names.into_iter().filter_map(|name| check_crate(tree, name, allowed(name)));
    circles.chain(ORDERED.iter().flat_map(|name| upward(tree, name))).collect()
}

/// The files of a crate that use a module which its root lists after theirs.
fn upward(tree: &Tree, name: &str) -> Vec<Finding> {
    let modules = Module::all(tree, name);
    let Some(root) = modules.get("") else { return Vec::new() };
    let wing = |path: &str| path.split("::").next().unwrap_or_default().to_string();
    let place = |path: &str| root.children.iter().position(|child| *child == wing(path));
    let mut findings = Vec::new();
    for (from, targets) in edges(&modules) {
        for target in targets.iter().filter(|target| place(&from).is_some() && place(target) > place(&from)) {
            let message = format!(
                "`{}` may not use `{target}`, since the root lists `{}` after it: move what is \
                 needed to a wing before both",
                wing(&from),
                wing(target)
            );
            findings.push(Finding::error(modules[&from].file, 1, message));
        }
    }
    findings
}

fn allowed(name: &str) -> usize {
    LARGER.iter().find(|(larger, _)| *larger == name).map_or(USUAL_FILES, |&(_, files)| files)
}

fn check_crate(tree: &Tree, name: &str, allowed: usize) -> Option<Finding> {
    let modules = Module::all(tree, name);
    let circle = largest_circle(&edges(&modules));
    let root = modules.get("")?.file;
    if circle.len() > allowed {
        let files: Vec<_> = circle.iter().map(|path| modules[path].file).collect();
        let message = format!(
            "{} files of `{name}` use each other in a circle, {allowed} may: {}; move what two of them need \
             into a file that uses neither",
            files.len(),
            files.join(", ")
        );
        return Some(Finding::error(root, 1, message));
    }
    (circle.len() < allowed && allowed > USUAL_FILES).then(|| {
        let message = format!(
            "the largest circle of `{name}` has {} files, and {allowed} are allowed: lower the number in \
             xtask/src/tidy/circles.rs",
            circle.len()
        );
        Finding::warning(root, 1, message)
    })
}

/// A file as a module.
struct Module<'a> {
    file: &'a str,
    /// The modules that it declares, in order.
    children: Vec<String>,
    /// Absolute paths that its code goes through, re-exports aside.
    used: Vec<Vec<String>>,
    /// What its `use` declarations name, by the name here. A glob's name is `*` and a number.
    names: BTreeMap<String, Vec<String>>,
}

impl<'a> Module<'a> {
    /// The modules of a crate that have files, by their paths: `a::b`, the root's being empty.
    fn all(tree: &'a Tree, name: &str) -> BTreeMap<String, Module<'a>> {
        let folder = if name == "xtask" { "xtask/src/".to_string() } else { format!("crates/{name}/src/") };
        let inside = |source: &'a Source| source.path.strip_prefix(&folder).map(|path| (path, source));
        let has_lib =
            tree.sources.iter().any(|source| inside(source).is_some_and(|(path, _)| path == "lib.rs"));
        let sources: BTreeMap<String, &Source> = tree
            .sources
            .iter()
            .filter(|source| !source.is_test_file())
            .filter_map(inside)
            .filter(|(path, _)| !path.starts_with("bin/") && (*path != "main.rs" || !has_lib))
            .map(|(path, source)| (module_path(path), source))
            .collect();
        let paths: BTreeSet<&str> = sources.keys().map(String::as_str).collect();
        sources.iter().map(|(path, source)| (path.clone(), Module::new(path, source, &paths))).collect()
    }

    fn new(path: &str, source: &'a Source, modules: &BTreeSet<&str>) -> Self {
        let mut module =
            Module { file: &source.path, children: Vec::new(), used: Vec::new(), names: BTreeMap::new() };
        let tokens = tokens(source);
        // In a declaration: whether it is public. A declaration ends with `;`.
        let mut declaration = None;
        let mut at = 0;
        while at < tokens.len() {
            let token = tokens[at].as_str();
            let before = at.checked_sub(1).map_or("", |before| &tokens[before]);
            match token {
                "use" => declaration = Some(matches!(before, "pub" | ")")),
                ";" => declaration = None,
                "mod" => module.children.extend(tokens.get(at + 1).cloned()),
                _ => {}
            }
            let begins = tokens.get(at + 1).is_some_and(|next| next == "::") && !matches!(before, "::" | ".");
            let Some(start) = begins.then(|| absolute(path, token, modules)).flatten() else {
                at += 1;
                continue;
            };
            let mut found = Vec::new();
            at = read_path(&tokens, at + 2, start, &mut found);
            for (name, target) in found {
                if declaration.is_some() {
                    let name = if name == "*" { format!("*{}", module.names.len()) } else { name };
                    module.names.insert(name, target.clone());
                }
                if declaration != Some(true) {
                    module.used.push(target);
                }
            }
        }
        module
    }
}

/// `a::b` of `a/b.rs` and of `a/b/mod.rs`; nothing of the root.
fn module_path(file: &str) -> String {
    let path = file.trim_end_matches(".rs");
    let path = path.strip_suffix("/mod").unwrap_or(path);
    if matches!(path, "lib" | "main") { String::new() } else { path.replace('/', "::") }
}

/// Where a path leads that begins with `first` in the module at `path`; `None` if out of the crate.
fn absolute(path: &str, first: &str, modules: &BTreeSet<&str>) -> Option<Vec<String>> {
    let mut parts = parts_of(path);
    match first {
        "crate" => parts.clear(),
        "self" => {}
        "super" => drop(parts.pop()?),
        child => {
            parts.push(child.to_string());
            modules.contains(parts.join("::").as_str()).then_some(())?;
        }
    }
    Some(parts)
}

fn parts_of(path: &str) -> Vec<String> {
    path.split("::").filter(|part| !part.is_empty()).map(str::to_string).collect()
}

/// The words, `::` and other signs of a file's code, tests left out.
fn tokens(source: &Source) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    for line in source.lines.iter().filter(|line| !line.test) {
        let mut rest = line.code.trim_start();
        while let Some(first) = rest.chars().next() {
            let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            let end = match word {
                0 if rest.starts_with("::") => 2,
                0 => first.len_utf8(),
                word => word,
            };
            tokens.push(rest[..end].to_string());
            rest = rest[end..].trim_start();
        }
    }
    tokens
}

/// Reads what follows `start::` at token `at`, with all branches of braces: each end with the name that it gets here.
/// Returns the token after it.
fn read_path(
    tokens: &[String],
    mut at: usize,
    start: Vec<String>,
    found: &mut Vec<(String, Vec<String>)>,
) -> usize {
    let token = |at: usize| tokens.get(at).map_or("", String::as_str);
    let mut path = start;
    loop {
        match token(at) {
            "{" => {
                at += 1;
                while !matches!(token(at), "}" | "") {
                    at = if token(at) == "," { at + 1 } else { read_path(tokens, at, path.clone(), found) };
                }
                return at + 1;
            }
            "super" => drop(path.pop()),
            "self" => {}
            "*" => {
                found.push(("*".to_string(), path));
                return at + 1;
            }
            word if word.starts_with(|c: char| c.is_alphabetic() || c == '_') => path.push(word.to_string()),
            // `::<T>` and what else ends a path; never without going on.
            _ => {
                found.extend(path.last().cloned().map(|name| (name, path)));
                return at + 1;
            }
        }
        at += 1;
        if token(at) == "::" {
            at += 1;
        } else {
            let is_renamed = token(at) == "as";
            let name = if is_renamed { Some(token(at + 1).to_string()) } else { path.last().cloned() };
            found.extend(name.map(|name| (name, path)));
            return if is_renamed { at + 2 } else { at };
        }
    }
}

/// The module that defines what `path` names.
fn resolve(modules: &BTreeMap<String, Module<'_>>, path: &[String], hops: usize) -> String {
    let mut at = String::new();
    for (index, part) in path.iter().enumerate() {
        let child = if at.is_empty() { part.clone() } else { format!("{at}::{part}") };
        if modules.contains_key(&child) {
            at = child;
            continue;
        }
        let target = modules.get(&at).and_then(|module| module.names.get(part));
        return match target.filter(|_| hops < MOST_HOPS) {
            Some(target) => {
                let whole = [target.as_slice(), &path[index + 1..]].concat();
                resolve(modules, &whole, hops + 1)
            }
            None => at,
        };
    }
    at
}

fn edges(modules: &BTreeMap<String, Module<'_>>) -> BTreeMap<String, BTreeSet<String>> {
    let of = |(path, module): (&String, &Module<'_>)| {
        let mut targets: BTreeSet<_> = module.used.iter().map(|used| resolve(modules, used, 0)).collect();
        targets.remove(path);
        (path.clone(), targets)
    };
    modules.iter().map(of).collect()
}

/// The largest set of modules of which each reaches each other; empty if there is no circle.
fn largest_circle(edges: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<String> {
    let reached: BTreeMap<_, _> = edges.keys().map(|from| (from, reachable(edges, from))).collect();
    let circle = |from: &String| -> BTreeSet<String> {
        reached[from]
            .iter()
            .filter(|to| reached.get(to).is_some_and(|back| back.contains(from)))
            .cloned()
            .collect()
    };
    edges.keys().map(circle).max_by_key(BTreeSet::len).unwrap_or_default()
}

/// What is reached from `from` in one step or more.
fn reachable(edges: &BTreeMap<String, BTreeSet<String>>, from: &str) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(next) = open.pop() {
        for target in edges.get(next).into_iter().flatten() {
            if reached.insert(target.clone()) {
                open.push(target);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::super::planted::tree;
    use super::*;

    /// The files of the largest circle, without `crates/a/src/`.
    fn circle(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<_> =
            files.iter().map(|(path, text)| (format!("crates/a/src/{path}"), *text)).collect();
        let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        let tree = tree(&files);
        let modules = Module::all(&tree, "a");
        let circle = largest_circle(&edges(&modules));
        circle.iter().map(|path| modules[path].file.replace("crates/a/src/", "")).collect()
    }

    #[test]
    fn a_circle_larger_than_allowed_fails() {
        let files = [
            ("crates/a/src/lib.rs", "mod b;\nmod c;\n"),
            ("crates/a/src/b.rs", "use crate::c::C;\n"),
            ("crates/a/src/c.rs", "fn c() -> crate::b::B {}\n"),
        ];
        let check = |allowed| check_crate(&tree(&files), "a", allowed);
        let found = check(1).expect("two files, one allowed");
        assert!(found.is_error() && found.message.contains("b.rs, crates/a/src/c.rs"), "{found}");
        assert_eq!(check(2), None);
        assert_eq!(check(USUAL_FILES), None, "the usual number is no reason to lower it");
        assert!(
            check(USUAL_FILES + 1).is_some_and(|found| !found.is_error()),
            "a number that could be lower"
        );
    }

    #[test]
    fn a_chain_is_no_circle() {
        let files =
            [("lib.rs", "mod b;\nmod c;\n"), ("b.rs", "use crate::c::C;\n"), ("c.rs", "pub struct C;\n")];
        assert!(circle(&files).is_empty());
    }

    #[test]
    fn a_circle_goes_through_several_files_and_braces() {
        let files = [
            ("lib.rs", "mod b;\nmod c;\nmod d;\nmod e;\n"),
            ("b.rs", "use crate::{\n    c::{C, More},\n    e::E,\n};\n"),
            ("c.rs", "fn f() {\n    super::d::f::<u8>();\n}\n"),
            ("d/mod.rs", "mod g;\nuse g::G;\n"),
            ("d/g.rs", "use super::super::b as base;\n"),
            ("e.rs", "// crate::b\nfn f() -> &str { \"crate::b\" }\n"),
        ];
        assert_eq!(circle(&files), ["b.rs", "c.rs", "d/mod.rs", "d/g.rs"]);
    }

    #[test]
    fn a_re_export_leads_to_the_file_that_defines() {
        let page = "mod c;\nmod d;\npub(crate) use c::{C, inner as outer};\npub use self::d::D;\n";
        let files = [
            ("lib.rs", "mod b;\npub use b::D as Named;\n"),
            ("b/mod.rs", page),
            ("b/c.rs", "use super::D;\npub struct C;\n"),
            ("b/d.rs", "pub struct D;\n"),
        ];
        assert!(circle(&files).is_empty(), "the contents page is in no circle");
        let through = [files[0], files[1], files[2], ("b/d.rs", "use crate::b::outer;\n")];
        assert_eq!(circle(&through), ["b/c.rs", "b/d.rs"]);
        let twice = [files[0], files[1], ("b/c.rs", "use crate::Named;\n"), ("b/d.rs", "use super::C;\n")];
        assert_eq!(circle(&twice), ["b/c.rs", "b/d.rs"]);
    }

    #[test]
    fn a_wing_uses_only_those_before_it() {
        let files = [
            ("crates/a/src/lib.rs", "mod b;\npub mod c;\npub use c::C;\n"),
            ("crates/a/src/b/mod.rs", "mod d;\n"),
            ("crates/a/src/b/d.rs", "use crate::C;\n"),
            ("crates/a/src/c.rs", "pub struct C;\n"),
        ];
        let found = upward(&tree(&files), "a");
        assert_eq!(
            found.iter().map(|found| found.path.as_str()).collect::<Vec<_>>(),
            ["crates/a/src/b/d.rs"]
        );
        let down =
            [("crates/a/src/lib.rs", "pub mod c;\nmod b;\npub use c::C;\n"), files[1], files[2], files[3]];
        assert!(upward(&tree(&down), "a").is_empty());
    }

    #[test]
    fn tests_are_left_out() {
        let with_test = "pub struct C;\n#[cfg(test)]\nmod tests {\n    use crate::b::B;\n}\n";
        let files = [("lib.rs", "mod b;\nmod c;\n"), ("b.rs", "use crate::c::C;\n"), ("c.rs", with_test)];
        assert!(circle(&files).is_empty());
        let own_file = [
            files[0],
            files[1],
            ("c.rs", "#[cfg(test)]\nmod tests;\n"),
            ("c/tests.rs", "use crate::b::B;\n"),
        ];
        assert!(circle(&own_file).is_empty());
    }
}
