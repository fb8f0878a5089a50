//! Finds out whether a directory holds only a database's files, before a database is created there, listed or removed.

use pando::{Error, Result, is_database_file};
use std::fs;
use std::path::Path;

/// The kinds of files that a directory holds.
pub struct Inside {
    /// Whether there are files of a database.
    pub ours: bool,
    /// Whether there are other files.
    pub others: bool,
}

impl Inside {
    /// Looks into the directory. A missing one holds nothing.
    pub fn read(path: &Path) -> Result<Self> {
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

/// Removes a directory with all its files.
pub fn remove(path: &Path) -> Result<()> {
    fs::remove_dir_all(path).map_err(|error| Error::io(format!("remove {}", path.display()), error))
}
