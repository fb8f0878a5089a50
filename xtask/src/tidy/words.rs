//! What may not be written: unfinished work, noise, panics without a reason, the clock outside its door, and paths of
//! a machine: those that people have, and that of this tree.

use super::layers;
use super::tree::{Finding, Tree, crate_of};
use crate::source::{Source, find_word};

/// A call that is banned in some code, and what to write instead.
struct Ban {
    call: &'static str,
    instead: &'static str,
    /// The highest floor on which it is banned; `None` bans it in every crate, tests included.
    up_to: Option<u8>,
}

const ENGINE: Option<u8> = Some(5);
const LIBRARIES: Option<u8> = Some(8);
const STORE: Option<u8> = Some(4);

const BANS: &[Ban] = &[
    Ban { call: "todo!", instead: "finish it, or leave it out", up_to: None },
    Ban { call: "unimplemented!", instead: "finish it, or leave it out", up_to: None },
    Ban { call: "dbg!", instead: "take it out", up_to: None },
    Ban { call: concat!("#[", "ignore"), instead: "run the test, or delete it", up_to: None },
    Ban { call: "println!", instead: "a library does not print: return it", up_to: LIBRARIES },
    Ban { call: "print!", instead: "a library does not print: return it", up_to: LIBRARIES },
    Ban { call: "eprintln!", instead: "a library does not print: return an error", up_to: LIBRARIES },
    Ban { call: "eprint!", instead: "a library does not print: return an error", up_to: LIBRARIES },
    Ban {
        call: ".unwrap()",
        instead: "`?` for bad input, `expect(\"reason\")` for an invariant",
        up_to: ENGINE,
    },
    Ban { call: "Instant::now", instead: "time comes through `base::env`", up_to: STORE },
    Ban { call: "SystemTime::now", instead: "time comes through `base::env`", up_to: STORE },
];

/// The files of floors 0-4 that may read the clock, each with its reason.
const CLOCK_FILES: &[(&str, &str)] = &[("crates/base/src/env.rs", "the door itself")];

/// Words that mark unfinished work. In halves, so that this file does not hold them.
const UNFINISHED: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

/// Directories of people's machines. In halves, for the same reason.
const MACHINE: [&str; 2] = [concat!("/ro", "ot"), concat!("/ho", "me")];

/// First parts of paths that say nothing of a machine.
const COMMON: [&str; 6] = ["tmp", "var", "usr", "opt", "mnt", "srv"];

/// The directory that gives this machine away in `path`: its first part, unless every machine has that.
pub(super) fn place_of(path: &str) -> Option<String> {
    let first = path.strip_prefix('/')?.split('/').next()?;
    let is_known = first.is_empty() || COMMON.contains(&first);
    Some(format!("/{first}")).filter(|place| !is_known && !MACHINE.contains(&place.as_str()))
}

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in &tree.sources {
        bans(source, &mut findings);
    }
    for file in tree.texts.iter().filter(|file| !file.path.ends_with(".lock")) {
        for (index, line) in file.text.lines().enumerate() {
            if let Some(word) = UNFINISHED.iter().find(|word| find_word(line, word, 0).is_some()) {
                let message = format!("`{word}`: finish it, or put it where open work is kept");
                findings.push(Finding::error(&file.path, index + 1, message));
            }
            let below = |place: &&str| has_path(line, place) && line.contains(&format!("{place}/"));
            let own = tree.places.iter().map(String::as_str).find(below);
            if let Some(path) = MACHINE.into_iter().find(|path| has_path(line, path)).or(own) {
                let message = format!("`{path}` is a place on one machine: use a relative or a made-up path");
                findings.push(Finding::error(&file.path, index + 1, message));
            }
        }
    }
    findings
}

fn bans(source: &Source, findings: &mut Vec<Finding>) {
    // What a build script prints, Cargo reads.
    let is_library = !source.path.ends_with("/build.rs");
    let floor = crate_of(&source.path).and_then(layers::floor).filter(|_| is_library);
    for (index, line) in source.lines.iter().enumerate() {
        let test = line.test || source.is_test_file();
        for ban in BANS.iter().filter(|ban| calls(&line.code, ban.call)) {
            let banned = match ban.up_to {
                None => true,
                Some(top) => !test && floor.is_some_and(|floor| floor <= top),
            };
            let clock =
                ban.call.ends_with("::now") && CLOCK_FILES.iter().any(|(path, _)| *path == source.path);
            if banned && !clock {
                let message = format!("`{}` is banned here: {}", ban.call, ban.instead);
                findings.push(Finding::error(&source.path, index + 1, message));
            }
        }
    }
}

/// Whether `code` holds `call`, not as the end of a longer name (`println!` is no `print!`, nor `eprintln!`).
fn calls(code: &str, call: &str) -> bool {
    code.match_indices(call).any(|(at, _)| {
        let starts_word = call.starts_with(|c: char| c.is_alphanumeric());
        let before = code[..at].chars().next_back();
        !(starts_word && before.is_some_and(|c| c.is_alphanumeric() || c == '_'))
    })
}

/// Whether `line` names the absolute path `path` or something under it: what stands before must not make it a part
/// of a longer path or address, what follows must end the name.
fn has_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + path.len()..].chars().next();
        let inside =
            |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '~' | '}' | ')' | '/' | '>');
        !before.is_some_and(inside) && !after.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '-'))
    })
}

#[cfg(test)]
mod tests {
    use super::super::planted::found;
    use super::*;

    const STORE_FILE: &str = "crates/store/src/a.rs";

    #[test]
    fn each_ban_bites() {
        for ban in BANS {
            let text = format!("fn f() {{\n    let a = b{}(x);\n}}\n", ban.call);
            let text = if ban.call.starts_with('.') { text } else { text.replace("= b", "= ") };
            assert_eq!(found(check, STORE_FILE, &text), ["crates/store/src/a.rs:2"], "{}", ban.call);
        }
    }

    #[test]
    fn bans_have_their_bounds() {
        let unwrap = "fn f() {\n    a.unwrap();\n}\n";
        assert!(found(check, "crates/cli/src/a.rs", unwrap).is_empty());
        assert!(found(check, "crates/store/tests/a.rs", unwrap).is_empty());
        assert!(found(check, STORE_FILE, &format!("#[cfg(test)]\nmod tests {{\n{unwrap}}}\n")).is_empty());
        assert!(found(check, STORE_FILE, "/// a.unwrap()\nfn f() { a.unwrap_or(1); }\n").is_empty());
        assert!(found(check, "crates/sim/src/main.rs", "fn f() { println!(); }\n").is_empty());
        assert!(found(check, "crates/pando/src/a.rs", "fn f() { Instant::now(); }\n").is_empty());
        assert!(found(check, "crates/base/src/env.rs", "fn f() { SystemTime::now(); }\n").is_empty());
        assert_eq!(found(check, "crates/cli/tests/a.rs", "fn f() { dbg!(1); }\n").len(), 1);
    }

    #[test]
    fn unfinished_work_is_found_in_comments_and_pages() {
        for word in UNFINISHED {
            assert_eq!(found(check, STORE_FILE, &format!("// {word}: later\n")).len(), 1);
            assert_eq!(found(check, "docs/a.md", &format!("a\n{word}\n")), ["docs/a.md:2"]);
            assert!(found(check, "docs/a.md", &format!("{word}YZ\n")).is_empty());
        }
    }

    #[test]
    fn the_place_of_the_tree_is_found() {
        assert_eq!(place_of("/data7/pando").as_deref(), Some("/data7"));
        assert_eq!(place_of("/tmp/pando"), None);
        assert_eq!(place_of(&format!("{}/ann/pando", MACHINE[1])), None, "found anyway");
        assert_eq!(place_of("C:\\pando"), None);
        let mut tree =
            super::super::planted::tree(&[("docs/a.md", "a\nin /data7/x\n/v1/data7/x\n/data7: a route\n")]);
        assert!(check(&tree).is_empty());
        tree.places.extend(place_of("/data7/pando"));
        assert_eq!(check(&tree).iter().map(|finding| finding.line).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn paths_of_a_machine_are_found() {
        for path in MACHINE {
            assert_eq!(found(check, "docs/a.md", &format!("in `{path}/x`\n")).len(), 1);
            assert_eq!(found(check, "a.toml", &format!("path = \"{path}\"\n")).len(), 1);
            assert!(
                found(check, "docs/a.md", &format!("read{path} https://a.b{path}/ {path}ing\n")).is_empty()
            );
        }
    }
}
