//! The names of the results. A result has the suffix `.part` until it is complete: a part of it, which a killed command
//! leaves, opens and passes all checks, and could be taken for all that is left.

use crate::failure::{Failure, Outcome};
use pando::salvage::Trust;
use std::fs;
use std::path::{Path, PathBuf};

/// The directories or files that the command writes, one for each degree of trust. Without [`Results::complete`], those
/// that were made are removed again: they would be in the way of the next attempt.
#[derive(Debug)]
pub struct Results {
    outs: [PathBuf; 2],
    made: Vec<PathBuf>,
}

impl Results {
    /// Checks that neither OUT nor `OUT.uncertain` exists, nor a part of them.
    pub fn new(out: &Path) -> Outcome<Self> {
        let results = Results { outs: [out.to_owned(), with_suffix(out, ".uncertain")], made: Vec::new() };
        for out in &results.outs {
            check_absent(out)?;
            let part = with_suffix(out, ".part");
            if exists(&part) {
                return Err(Failure::Usage(format!(
                    "{} exists already, perhaps from a salvage that was interrupted; remove it, or name \
                     another path",
                    part.display()
                )));
            }
        }
        Ok(results)
    }

    /// Returns the path at which to write the records of this trust.
    pub fn part(&self, trust: Trust) -> PathBuf {
        with_suffix(&self.outs[trust as usize], ".part")
    }

    /// Notes that [`Results::part`] was made, and did not exist before.
    pub fn note(&mut self, trust: Trust) {
        self.made.push(self.part(trust));
    }

    /// Gives the results their names, which makes them complete, and returns these names. The uncertain records come
    /// first: where OUT exists, nothing is missing beside it.
    pub fn complete(&mut self) -> Outcome<Vec<PathBuf>> {
        let mut written = Vec::new();
        for trust in [Trust::Uncertain, Trust::Certain] {
            let (part, out) = (self.part(trust), &self.outs[trust as usize]);
            let Some(made) = self.made.iter_mut().find(|made| **made == part) else { continue };
            check_absent(out)?;
            let failed =
                |cause| Failure::system(format!("rename {} to {}", part.display(), out.display()), cause);
            fs::rename(&part, out).map_err(failed)?;
            out.clone_into(made);
            written.insert(0, out.clone());
        }
        let folder = self.outs[0].parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let synced = fs::File::open(folder).and_then(|folder| folder.sync_all());
        synced.map_err(|cause| Failure::system(format!("sync the directory {}", folder.display()), cause))?;
        self.made.clear();
        Ok(written)
    }
}

impl Drop for Results {
    fn drop(&mut self) {
        for made in &self.made {
            let _ = if made.is_dir() { fs::remove_dir_all(made) } else { fs::remove_file(made) };
        }
    }
}

fn check_absent(out: &Path) -> Outcome {
    if !exists(out) {
        return Ok(());
    }
    Err(Failure::Usage(format!("{} exists already; name a path that does not exist", out.display())))
}

/// Returns whether there is something of this name, including a symbolic link that leads nowhere.
fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
