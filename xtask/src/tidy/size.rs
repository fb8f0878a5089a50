//! Sizes: a line that a diff can show beside another, a function that fits a screen or nearly, a file that one
//! sitting can read.

use super::tree::{Finding, Tree};
use crate::source::{Source, find_word};

/// rustfmt's `max_width`: what it could not break must be broken by hand.
const MAX_CODE_CHARS: usize = 110;
/// Comments, which rustfmt leaves alone, may run a little wider.
const MAX_COMMENT_CHARS: usize = 120;
/// From here on a file should be thought about.
const LONG_FILE_LINES: usize = 500;
const MAX_FILE_LINES: usize = 800;
const MAX_FUNCTION_LINES: usize = 100;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in &tree.sources {
        lines(source, &mut findings);
        if !source.is_test_file() {
            file(source, &mut findings);
            functions(source, &mut findings);
        }
    }
    findings
}

fn lines(source: &Source, findings: &mut Vec<Finding>) {
    for (index, line) in source.lines.iter().enumerate() {
        let chars = line.raw.chars().count();
        let limit = if line.code.trim().is_empty() { MAX_COMMENT_CHARS } else { MAX_CODE_CHARS };
        if chars > limit && !line.raw.contains("://") {
            let message = format!("{chars} characters, more than {limit}: break the line");
            findings.push(Finding::error(&source.path, index + 1, message));
        }
    }
}

fn file(source: &Source, findings: &mut Vec<Finding>) {
    let count = source.lines.len();
    if count > MAX_FILE_LINES {
        let message = format!("{count} lines, more than {MAX_FILE_LINES}: divide the file by what it does");
        findings.push(Finding::error(&source.path, count, message));
    } else if count > LONG_FILE_LINES {
        let message = format!("{count} lines, more than {LONG_FILE_LINES}: is this still one thing?");
        findings.push(Finding::warning(&source.path, count, message));
    }
}

fn functions(source: &Source, findings: &mut Vec<Finding>) {
    for (index, line) in source.lines.iter().enumerate().filter(|(_, line)| !line.test) {
        let Some((column, name)) = function_at(&line.code) else { continue };
        let count = source.end_of_item(index, column) - index + 1;
        if count > MAX_FUNCTION_LINES {
            let message = format!(
                "`fn {name}` has {count} lines, more than {MAX_FUNCTION_LINES}: give its steps \
                 functions of their own"
            );
            findings.push(Finding::error(&source.path, index + 1, message));
        }
    }
}

/// The column and the name of a function whose head stands on this line; function pointer types have no name.
fn function_at(code: &str) -> Option<(usize, String)> {
    let at = find_word(code, "fn", 0)?;
    let rest = code[at + 2..].trim_start();
    let name: String = rest.chars().take_while(|&c| c.is_alphanumeric() || c == '_').collect();
    (!name.is_empty()).then(|| (code[..at].chars().count(), name))
}

#[cfg(test)]
mod tests {
    use super::super::planted::found;
    use super::*;

    const PATH: &str = "crates/io/src/a.rs";

    #[test]
    fn a_long_line_is_found_and_an_address_is_not() {
        let long = "x".repeat(MAX_CODE_CHARS + 1);
        assert_eq!(found(check, PATH, &format!("ok\n{long}\n")), ["crates/io/src/a.rs:2"]);
        assert!(found(check, PATH, &"é".repeat(MAX_CODE_CHARS)).is_empty(), "characters, not bytes");
        assert!(found(check, PATH, &format!("// https://{long}")).is_empty());
        assert!(found(check, PATH, &format!("// {long}")).is_empty());
        assert_eq!(found(check, PATH, &format!("// {long}{long}")).len(), 1);
    }

    #[test]
    fn a_long_file_is_found_unless_it_is_a_test() {
        let text = "\n".repeat(MAX_FILE_LINES + 1);
        assert_eq!(found(check, PATH, &text), ["crates/io/src/a.rs:801"]);
        assert!(found(check, "crates/io/tests/a.rs", &text).is_empty());
        let tree = super::super::planted::tree(&[(PATH, &"\n".repeat(LONG_FILE_LINES + 1))]);
        assert!(check(&tree).iter().all(|finding| !finding.is_error()));
        assert_eq!(check(&tree).len(), 1);
    }

    #[test]
    fn a_long_function_is_found_whatever_braces_its_strings_hold() {
        let body = "    let x = \"}\"; // }\n".repeat(MAX_FUNCTION_LINES);
        let text = format!("fn short(a: [u8; 4]) {{\n}}\npub fn long() {{\n{body}}}\n");
        assert_eq!(found(check, PATH, &text), ["crates/io/src/a.rs:3"]);
        assert!(found(check, PATH, &format!("#[cfg(test)]\nmod tests {{\n{text}}}\n")).is_empty());
    }
}
