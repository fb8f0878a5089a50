//! The keys that WATCH has looked at.

use crate::fault::Done;
use crate::space::Space;

/// A key that WATCH has looked at.
#[derive(Clone, Debug)]
pub struct Watched {
    /// The number of its database.
    pub database: usize,
    /// The key.
    pub key: Vec<u8>,
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
pub fn are_unchanged(watched: &[Watched], space: &mut Space<'_>) -> Done<bool> {
    let own = space.database;
    let mut are_unchanged = true;
    for Watched { database, key, version, creations } in watched {
        space.database = *database;
        let found = space.version(key)?;
        are_unchanged &= found == *version && (found != 0 || space.creations(key) == *creations);
    }
    space.database = own;
    Ok(are_unchanged)
}
