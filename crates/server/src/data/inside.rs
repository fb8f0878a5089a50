//! What lies in a directory before a database is made there, listed or removed: only what is all a database's goes.

use pando::{Error, Result, is_database_file};
use std::fs;
use std::path::Path;

/// What lies in a directory.
pub struct Inside {
    /// Files of a database.
    pub ours: bool,
    /// Anything else.
    pub others: bool,
}

impl Inside {
    /// Of one that is not there: nothing.
    pub fn of(path: &Path) -> Result<Self> {
        use std::io::ErrorKind::{NotADirectory, NotFound};
        let mut inside = Inside { ours: false, others: false };
        let failed = |error| Error::io(format!("look into {}", path.display()), error);
        let entries = match fs::read_dir(path) {
            Ok(entries) => entries,
            Err(error) if matches!(error.kind(), NotFound | NotADirectory) => return Ok(inside),
            Err(error) => return Err(failed(error)),
        };
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
            let is_ours = is_file && entry.file_name().to_str().is_some_and(is_database_file);
            inside.ours |= is_ours;
            inside.others |= !is_ours;
        }
        Ok(inside)
    }
}

/// Removes a directory with all it holds.
pub fn remove(path: &Path) -> Result<()> {
    fs::remove_dir_all(path).map_err(|error| Error::io(format!("remove {}", path.display()), error))
}
