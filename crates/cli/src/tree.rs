//! Directory trees as records. The key is the path from the root, with `/` between its parts, and the value is the
//! file's content. Links and special files are skipped; empty directories have no record.

use crate::failure::{Failure, Outcome};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A file of a tree.
#[derive(Clone, Debug)]
pub struct Entry {
    pub key: Vec<u8>,
    pub path: PathBuf,
    /// The length of the file when it was listed.
    pub bytes: u64,
}

/// The limits of listing a tree.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub files: usize,
    pub bytes: u64,
    /// The length beyond which a file is skipped.
    pub file_bytes: u64,
}

impl Limits {
    /// No limits.
    pub const NONE: Limits = Limits { files: usize::MAX, bytes: u64::MAX, file_bytes: u64::MAX };
}

/// Lists the files below `root`, in the order of names within each directory.
pub fn list(root: &Path, limits: Limits) -> Outcome<Vec<Entry>> {
    let (mut files, mut bytes) = (Vec::new(), 0_u64);
    let mut directories = vec![(root.to_owned(), Vec::new())];
    while let Some((directory, key)) = directories.pop() {
        let mut below = Vec::new();
        for entry in read_dir(&directory)? {
            let key = join(&key, entry.file_name().as_bytes());
            let refused = |cause| Failure::system(format_args!("read {}", entry.path().display()), cause);
            let metadata = entry.metadata().map_err(refused)?;
            if metadata.is_dir() {
                below.push((entry.path(), key));
            } else if metadata.is_file() && metadata.len() <= limits.file_bytes {
                if files.len() == limits.files || bytes + metadata.len() > limits.bytes {
                    return Ok(files);
                }
                bytes += metadata.len();
                files.push(Entry { key, path: entry.path(), bytes: metadata.len() });
            }
        }
        // The stack returns the last one first.
        directories.extend(below.into_iter().rev());
    }
    Ok(files)
}

fn read_dir(directory: &Path) -> Outcome<Vec<fs::DirEntry>> {
    let entries = fs::read_dir(directory).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let mut entries =
        entries.map_err(|cause| Failure::system(format_args!("read {}", directory.display()), cause))?;
    entries.sort_by_key(fs::DirEntry::file_name);
    Ok(entries)
}

fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    if directory.is_empty() { name.to_vec() } else { [directory, b"/", name].concat() }
}

/// Reads a file.
pub fn read(path: &Path) -> Outcome<Vec<u8>> {
    fs::read(path).map_err(|cause| Failure::system(format_args!("read {}", path.display()), cause))
}

/// Returns the path that `key` names; `None` if it is not a path, or leads out of the tree.
pub fn path_of(key: &[u8]) -> Option<&Path> {
    let plain = |part: &[u8]| !matches!(part, b"" | b"." | b"..") && !part.contains(&0);
    key.split(|byte| *byte == b'/').all(plain).then(|| Path::new(OsStr::from_bytes(key)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_keys_that_stay_in_the_tree_are_paths() {
        for good in ["a", "a/b", "..a/b..", "a b/ü"] {
            assert_eq!(path_of(good.as_bytes()), Some(Path::new(good)));
        }
        for bad in ["", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "a\0"] {
            assert_eq!(path_of(bad.as_bytes()), None, "{bad:?}");
        }
    }
}
