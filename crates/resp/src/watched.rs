//! The keys that WATCH has looked at.

use crate::fault::Done;
use crate::space::Space;
use std::collections::BTreeMap;

/// What a key takes beside its bytes.
const EACH_BYTES: usize = 96;

/// The keys that WATCH has looked at, each with the number of its database.
pub type Watches = BTreeMap<(usize, Vec<u8>), Seen>;

/// Returns the memory in bytes that a key takes.
pub fn watch_bytes(key: &[u8]) -> usize {
    key.len() + EACH_BYTES
}

/// What WATCH has seen of a key.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// The version that it had; 0 if it did not exist.
    pub version: u64,
    /// What [`creations`](crate::versions::Versions::creations) returned before that: an absent key has no version that
    /// could tell whether it was created and removed meanwhile.
    pub creations: u64,
}

/// Returns whether the keys are as they were.
///
/// # Errors
/// Those of reading a key.
pub fn are_unchanged(watched: &Watches, space: &mut Space<'_>) -> Done<bool> {
    let own = space.database;
    let mut are_unchanged = true;
    for ((database, key), Seen { version, creations }) in watched {
        space.database = *database;
        let found = space.version(key)?;
        are_unchanged &= found == *version && (found != 0 || space.creations(key) == *creations);
    }
    space.database = own;
    Ok(are_unchanged)
}
