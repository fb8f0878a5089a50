//! The patches under `mutants/` still apply: a mutant that nobody can plant proves nothing, and that is better known
//! when the code is changed than when the mutants are run.
//!
//! A hunk applies if the lines that it expects, unchanged and removed ones, follow each other somewhere in its file.

use super::tree::{Finding, Tree};

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let is_patch = |path: &str| path.starts_with("mutants/") && path.ends_with(".patch");
    let patches = tree.texts.iter().filter(|file| is_patch(&file.path));
    let stale = |(path, line, hunk): (&str, usize, Hunk<'_>)| {
        let message = match tree.text(hunk.target) {
            None => format!("changes `{}`, which is not there", hunk.target),
            Some(text) if hunk.applies_to(text) => return None,
            Some(_) => format!("no longer applies to `{}`: make the same break in the new code", hunk.target),
        };
        Some(Finding::error(path, line, message))
    };
    let all = patches
        .flat_map(|file| hunks(&file.text).into_iter().map(|(line, hunk)| (file.path.as_str(), line, hunk)));
    all.filter_map(stale).collect()
}

/// One `@@` of a unified diff.
struct Hunk<'a> {
    /// The file that it changes.
    target: &'a str,
    /// The lines that it expects there.
    expected: Vec<&'a str>,
}

impl Hunk<'_> {
    fn applies_to(&self, text: &str) -> bool {
        let lines: Vec<_> = text.lines().collect();
        lines.windows(self.expected.len().max(1)).any(|window| window == self.expected)
    }
}

/// The hunks of a patch, each with the line that it begins in.
fn hunks(patch: &str) -> Vec<(usize, Hunk<'_>)> {
    let mut hunks: Vec<(usize, Hunk<'_>)> = Vec::new();
    let mut target = "";
    let mut is_inside = false;
    for (index, line) in patch.lines().enumerate() {
        if let Some(path) = line.strip_prefix("--- a/") {
            (target, is_inside) = (path, false);
        } else if line.starts_with("@@ ") {
            hunks.push((index + 1, Hunk { target, expected: Vec::new() }));
            is_inside = true;
        } else if line.starts_with("diff ") {
            is_inside = false;
        } else if is_inside && let Some((_, hunk)) = hunks.last_mut() {
            match line.as_bytes().first() {
                Some(b' ' | b'-') => hunk.expected.push(&line[1..]),
                // What an editor that trims lines leaves of an empty one.
                None => hunk.expected.push(""),
                _ => {}
            }
        }
    }
    hunks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::planted;

    const PATCH: &str = "# breaks: it\n\ndiff --git a/src/a.rs b/src/a.rs\n--- a/src/a.rs\n+++ b/src/a.rs\n\
                         @@ -1,3 +1,3 @@ fn a()\n one\n-two\n+2\n three\n";

    #[test]
    fn a_patch_that_no_longer_applies_is_found() {
        let found =
            |source| check(&planted::tree(&[("src/a.rs", source), ("mutants/01-a.patch", PATCH)])).len();
        assert_eq!(found("zero\none\ntwo\nthree\nfour\n"), 0);
        assert_eq!(found("one\ntwo\nand a half\nthree\n"), 1);
        assert_eq!(found("one\n2\nthree\n"), 1);
        assert_eq!(check(&planted::tree(&[("mutants/01-a.patch", PATCH)])).len(), 1, "its file is gone");
        assert_eq!(check(&planted::tree(&[("elsewhere/01-a.patch", PATCH)])).len(), 0);
    }
}
