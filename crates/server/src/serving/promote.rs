//! Makes the directory of a replica that does not run a primary's.

use crate::config::share_bytes;
use crate::data::databases::Databases;
use crate::data::followers::{followed_by, unmark};
use crate::data::promotion::take_over_all;
use crate::data::replicas::Replicas;
use crate::following::Source;
use crate::serving::lock::DirLock;
use pando::{Budget, Durability, Error, ErrorKind, Result};
use std::path::Path;
use std::sync::Arc;

/// Makes the directory `dir` of a replica that does not run a primary's. It gets every database of `source` with
/// everything that the source has, and each takes over as far as the source can do so. `memory_bytes` is for all
/// databases together; `None` means a quarter of the machine's memory. Returns the names of the databases with their
/// last commits.
///
/// # Errors
/// `Mismatch` if `dir` is not a replica's; `Locked` while a server uses it; those of the source. The directory is still
/// that of a replica then.
pub fn promote(
    dir: &Path,
    source: Arc<dyn Source>,
    memory_bytes: Option<usize>,
) -> Result<Vec<(String, u64)>> {
    if followed_by(dir)?.is_none() {
        return Err(Error::new(ErrorKind::Mismatch, format!("{} is not a replica", dir.display())));
    }
    let _lock = DirLock::take(dir)?;
    let budget = Budget::new(memory_bytes.unwrap_or_else(share_bytes));
    let mut databases = Databases::new(dir, budget, Durability::Sync, 1, None)?;
    // Nobody learns of the id: the source is not followed any more.
    let replicas = Arc::new(Replicas::new(String::new(), source));
    databases.follow(Arc::clone(&replicas));
    let promoted = take_over_all(&databases, &replicas, None);
    databases.close_all()?;
    let promoted = promoted?;
    unmark(dir).map(|()| promoted)
}
