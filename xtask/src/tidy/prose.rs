//! Words that public text does without, because readers stumbled over them: each with what to write instead.
//!
//! The check reads the text in [`SCOPES`]. To hold more text to it, clean the text and add a line there.

use super::tree::{Finding, Tree};
use crate::source::{Line, find_word};

/// Words and phrases in lower case, and what to write instead.
const WORDS: &[(&str, &str)] = &[
    ("whoever", "name who does it: \"a thread that ...\", \"the caller\""),
    ("whosoever", "name who does it: \"a thread that ...\", \"the caller\""),
    ("likewise", "say again what holds: \"the same as GET, without a body\""),
    ("none any more", "say what it is now: \"the handle is stale\""),
    ("by halves", "say what cannot happen: \"no commit is applied partially\""),
    ("as many as are", "give the number, or \"all\""),
    ("held against nobody", "say what does conflict, and what does not"),
    ("comes to nothing", "say what happens: \"is rolled back\""),
];

/// The part of a file that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// All of a page; what stands in backticks or between fences is code, and left out.
    Page,
    /// The documentation comments of a Rust file, which are help texts as well.
    Documentation,
    /// The string literals of a Rust file outside of tests: messages.
    Literals,
}

/// Which files, by how their paths begin and end, and which part of them.
struct Scope {
    under: &'static str,
    ending: &'static str,
    part: Part,
}

const SCOPES: &[Scope] = &[
    Scope { under: "", ending: ".md", part: Part::Page },
    Scope { under: "scripts/", ending: "", part: Part::Page },
    Scope { under: "bindings/", ending: ".py", part: Part::Page },
    Scope { under: "bindings/", ending: ".pyi", part: Part::Page },
    Scope { under: "bindings/", ending: ".h", part: Part::Page },
    Scope { under: "bindings/", ending: ".go", part: Part::Page },
    Scope { under: "bindings/", ending: ".js", part: Part::Page },
    Scope { under: "bindings/", ending: ".d.ts", part: Part::Page },
    Scope { under: "bindings/", ending: ".rs", part: Part::Documentation },
    Scope { under: "bindings/", ending: ".rs", part: Part::Literals },
    Scope { under: "crates/", ending: ".rs", part: Part::Documentation },
    Scope { under: "crates/", ending: ".rs", part: Part::Literals },
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    SCOPES.iter().flat_map(|scope| check_scope(tree, scope)).collect()
}

fn check_scope(tree: &Tree, scope: &Scope) -> Vec<Finding> {
    let is_in = |path: &str| path.starts_with(scope.under) && path.ends_with(scope.ending);
    let mut findings = Vec::new();
    match scope.part {
        Part::Page => {
            for file in tree.texts.iter().filter(|file| is_in(&file.path)) {
                find(&file.path, &page_lines(&file.text), &mut findings);
            }
        }
        part => {
            for source in tree.sources.iter().filter(|source| is_in(&source.path) && !source.is_test_file()) {
                let lines: Vec<_> = source.lines.iter().map(|line| text_of(line, part)).collect();
                find(&source.path, &lines, &mut findings);
            }
        }
    }
    findings
}

/// The lines of a page without its code.
fn page_lines(text: &str) -> Vec<String> {
    let mut fenced = false;
    let prose = text.lines().map(|line| {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            return String::new();
        }
        let outside = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        if fenced { String::new() } else { outside }
    });
    prose.collect()
}

fn text_of(line: &Line, part: Part) -> String {
    if line.test {
        return String::new();
    }
    let comment = line.comment.trim_start();
    match part {
        Part::Literals => {
            let raw = line.raw.replacen(&line.comment, "", usize::from(!line.comment.is_empty()));
            let inside = |(raw, code): (char, char)| if raw == code { ' ' } else { raw };
            raw.chars().zip(line.code.chars()).map(inside).collect()
        }
        _ if comment.starts_with("///") || comment.starts_with("//!") => comment[3..].to_string(),
        _ => String::new(),
    }
}

/// A phrase may go on in the next line.
fn find(path: &str, lines: &[String], findings: &mut Vec<Finding>) {
    let clean = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
    let lines: Vec<_> = lines.iter().map(|line| clean(line)).collect();
    for (index, line) in lines.iter().enumerate() {
        let next = lines.get(index + 1).map_or("", String::as_str);
        let both = format!("{line} {next}");
        for (word, instead) in WORDS {
            if find_word(&both, word, 0).is_some_and(|at| at < line.len()) {
                let message = format!("\"{word}\" puzzles readers: {instead}");
                findings.push(Finding::error(path, index + 1, message));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::planted::{found, tree};
    use super::*;

    #[test]
    fn each_word_is_found_in_a_page() {
        for (word, _) in WORDS {
            assert_eq!(
                found(check, "docs/a.md", &format!("ok\nSo {word}, it is.\n")),
                ["docs/a.md:2"],
                "{word}"
            );
            let capital = format!("{}{}", word[..1].to_uppercase(), &word[1..]);
            assert_eq!(found(check, "README.md", &format!("{capital} is.\n")), ["README.md:1"], "{word}");
        }
    }

    #[test]
    fn a_phrase_over_two_lines_is_found_once() {
        assert_eq!(found(check, "docs/a.md", "Of these it is none\nany more.\n"), ["docs/a.md:1"]);
        assert_eq!(found(check, "docs/a.md", "a\nwhoever\nb\n"), ["docs/a.md:2"]);
    }

    #[test]
    fn code_and_longer_words_are_not_prose() {
        assert!(found(check, "docs/a.md", "`whoever` and\n```\nwhoever\n```\n").is_empty());
        assert!(found(check, "docs/a.md", "whoevers, notlikewise\n").is_empty());
        assert!(found(check, "xtask/src/a.rs", "/// Whoever.\nfn f() {}\n").is_empty(), "not in a scope");
    }

    #[test]
    fn a_part_of_a_rust_file_is_read_by_itself() {
        let text =
            "/// Whoever comes.\n// whoever\nfn f() -> &'static str {\n    \"likewise\" // whoever\n}\n";
        let tests = "#[cfg(test)]\nmod tests {\n    const A: &str = \"likewise\";\n}\n";
        let tree = tree(&[("crates/io/src/a.rs", &format!("{text}{tests}"))]);
        let lines = |part| {
            let findings = check_scope(&tree, &Scope { under: "crates/io/", ending: ".rs", part });
            findings.iter().map(|finding| finding.line).collect::<Vec<_>>()
        };
        assert_eq!(lines(Part::Documentation), [1]);
        assert_eq!(lines(Part::Literals), [4]);
    }
}
