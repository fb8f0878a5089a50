//! What the engine's own counters cost a read: instructions, beside the same code without them.
//!
//! `mutants/guard/counters/without.patch` takes away what a read counts, and with it what is timed of one in so many.
//! It is applied to the scratch copy that mutants are applied to, and both trees are counted as the guard counts them
//! ([`guard`]). A read may spend 2% on being counted, whichever it is.

use crate::guard::{self, Figures};
use crate::mutants::{Copy, git};
use std::io::{self, Write};
use std::path::Path;

const PATCH: &str = "mutants/guard/counters/without.patch";
/// Operations that read.
const READS: [&str; 5] = ["begin_read", "get_hit", "get_memtable", "get_miss", "scan"];
const MOST_SHARE: f64 = 0.02;

/// Prints both counts for each operation that reads. Answers whether none spends too much.
pub(crate) fn run(root: &Path, out: &mut dyn Write) -> io::Result<bool> {
    let with = guard::count(root, &guard::target(root))?;
    let copy = Copy::new(root)?;
    git(copy.tree(), &["apply", &root.join(PATCH).to_string_lossy()])?;
    let without = guard::count(copy.tree(), copy.build());
    copy.restore()?;
    judge(&with, &without?, out)
}

fn judge(with: &Figures, without: &Figures, out: &mut dyn Write) -> io::Result<bool> {
    writeln!(out, "instructions    without     with    share")?;
    let mut all_cheap = true;
    for read in READS {
        let key = (read.to_owned(), "instructions".to_owned());
        let (Some(with), Some(without)) = (with.get(&key), without.get(&key)) else {
            return Err(io::Error::other(format!("the guard counts no `{read}` any more")));
        };
        let share = (with - without) / with;
        let much = share > MOST_SHARE;
        all_cheap &= !much;
        let verdict = if much { "  too much" } else { "" };
        writeln!(out, "{read:<14} {without:>8.1} {with:>8.1} {:>7.1}%{verdict}", 100.0 * share)?;
    }
    Ok(all_cheap)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(of: impl Fn(&str) -> f64) -> Figures {
        READS.iter().map(|&read| ((read.into(), "instructions".into()), of(read))).collect()
    }

    #[test]
    fn what_costs_a_read_more_than_its_share_is_named() {
        let (cheap, dear) =
            (figures(|_| 1000.0), figures(|read| if read == "scan" { 1025.0 } else { 1000.0 }));
        let mut said = Vec::new();
        assert!(judge(&cheap, &cheap, &mut said).unwrap());
        assert!(!judge(&dear, &cheap, &mut said).unwrap());
        let said = String::from_utf8(said).unwrap();
        assert_eq!(said.matches("too much").count(), 1, "{said}");
        assert!(said.contains("scan             1000.0   1025.0     2.4%  too much"), "{said}");
        assert!(judge(&Figures::new(), &cheap, &mut Vec::new()).is_err());
    }
}
