//! Names of databases, and maps from names, in which one hash finds what a request names.
//!
//! The hash has a random key at each start, so clients cannot choose names that collide. It takes a fifth of the time
//! of the standard library's hash, which dominates the cost of looking up a short name.

use std::collections::HashMap;

/// A map from names.
pub type Names<T> = HashMap<Box<str>, T, foldhash::fast::RandomState>;

/// The longest name of a database.
pub const MAX_NAME_BYTES: usize = 64;

/// Returns whether a database can have this name. No other name is used in a path.
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
