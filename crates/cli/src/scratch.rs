//! A directory for the time of one run.

use crate::failure::{Failure, Outcome};
use std::path::{Path, PathBuf};

/// A directory that is removed, with all it holds, when this is dropped; unless its user named it.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    remove: bool,
}

impl Scratch {
    /// `named`, which must be missing or empty and stays, or a new directory: under `target` if the current
    /// directory has one, since that is on a real disk, else among the system's temporary files.
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

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves the directory where it is: what went wrong in it is to be looked at.
    pub fn keep(&mut self) {
        self.remove = false;
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.remove {
            // What cannot be removed is left: the run's result stands without it.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

fn random_suffix() -> u32 {
    base::seams::Random::from_entropy().next_u64() as u32
}
