//! Maps by name: what a request names is found by one hash of the name.
//!
//! The hash is keyed by chance at each start, so that nobody can choose names that fall on one another; it takes a
//! fifth of the time that the standard library's does, which is most of what finding a short name costs.

use std::collections::HashMap;

/// Things by their names.
pub type Names<T> = HashMap<Box<str>, T, foldhash::fast::RandomState>;
