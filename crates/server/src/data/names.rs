//! Names: which ones a database can have, and maps by name, in which what a request names is found by one hash.
//!
//! The hash is keyed by chance at each start, so that nobody can choose names that fall on one another; it takes a
//! fifth of the time that the standard library's does, which is most of what finding a short name costs.

use std::collections::HashMap;

/// Things by their names.
pub type Names<T> = HashMap<Box<str>, T, foldhash::fast::RandomState>;

/// The longest name of a database.
pub const MAX_NAME_BYTES: usize = 64;

/// Whether a database can be called so. Nothing else comes near the file system.
pub fn is_name(name: &str) -> bool {
    let letters = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=MAX_NAME_BYTES).contains(&name.len()) && name.bytes().all(letters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_be_paths_are_none() {
        for name in ["a", "A-1_b", "x".repeat(64).as_str()] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", ".", "..", "a/b", "a\0", "a.b", "ä", "x".repeat(65).as_str(), "a b", "~"] {
            assert!(!is_name(name), "{name}");
        }
    }
}
