//! A directory for the duration of one run.

use crate::failure::{Failure, Outcome};
use std::path::{Path, PathBuf};

/// A directory that is removed with all its files when this is dropped, unless the user named it.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    remove: bool,
}

impl Scratch {
    /// Uses the directory `named`, which must be missing or empty and is kept. Without it, creates a new directory:
    /// under `target` if the current directory has one, because that is on a real disk, else among the system's
    /// temporary files.
    pub fn new(named: Option<&Path>, purpose: &str) -> Outcome<Self> {
        let create = |path: &Path| {
            let made = std::fs::create_dir_all(path);
            made.map_err(|cause| Failure::system(format_args!("create {}", path.display()), cause))
        };
        if let Some(path) = named {
            create(path)?;
            let mut entries = std::fs::read_dir(path)
                .map_err(|cause| Failure::system(format_args!("read {}", path.display()), cause))?;
            return match entries.next() {
                None => Ok(Scratch { path: path.to_owned(), remove: false }),
                Some(_) => {
                    Err(Failure::Usage(format!("{} is not empty; name another directory", path.display())))
                }
            };
        }
        let target = Path::new("target");
        let parent = if target.is_dir() { target.to_owned() } else { std::env::temp_dir() };
        let name = format!("pando-{purpose}-{}-{:08x}", std::process::id(), random_suffix());
        let path = parent.join(name);
        create(&path)?;
        Ok(Scratch { path, remove: true })
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps the directory, so that the cause of a failure can be inspected.
    pub fn keep(&mut self) {
        self.remove = false;
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.remove {
            // A directory that cannot be removed stays; it does not change the run's result.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

fn random_suffix() -> u32 {
    base::env::Random::from_entropy().next_u64() as u32
}
