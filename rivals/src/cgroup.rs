//! Memory cgroups: the kernel limits a repetition's memory, and its share of the page cache counts as its own.
//!
//! An engine that reads its files through a memory map or the page cache needs no cache of its own, and can use all
//! memory of the machine. In a cgroup it has as much as an engine with a budget. Linux has two interfaces, and both are
//! used: a hierarchy for each resource (version 1), or one for all of them (version 2).

use crate::engine::Outcome;
use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

/// The memory hierarchy of version 1, and the only hierarchy of version 2.
const VERSION_1: &str = "/sys/fs/cgroup/memory";
const VERSION_2: &str = "/sys/fs/cgroup";

/// A cgroup with a limit, which is removed at the end.
pub struct Cgroup {
    dir: PathBuf,
    limit_bytes: u64,
}

impl Cgroup {
    /// Creates a cgroup whose processes have at most `limit_bytes` of memory, page cache included, and no swap if the
    /// kernel counts that.
    ///
    /// Errors: a text that says what to do, if the machine has no cgroups or this user may not create one.
    pub fn new(limit_bytes: u64) -> Result<Self, String> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let name = format!("rivals-{}-{}", process::id(), NUMBER.fetch_add(1, Ordering::SeqCst));
        let is_version_1 = Path::new(VERSION_1).join("memory.limit_in_bytes").exists();
        let cgroup = Cgroup {
            dir: Path::new(if is_version_1 { VERSION_1 } else { VERSION_2 }).join(name),
            limit_bytes,
        };
        cgroup.create(is_version_1).map_err(|error| {
            let dir = cgroup.dir.display();
            let hint = "run it as root, with memory cgroups enabled";
            format!("cannot create the memory cgroup {dir}: {error}; {hint}")
        })?;
        Ok(cgroup)
    }

    fn create(&self, is_version_1: bool) -> std::io::Result<()> {
        let limit = self.limit_bytes.to_string();
        fs::create_dir(&self.dir)?;
        match is_version_1 {
            true => {
                fs::write(self.dir.join("memory.limit_in_bytes"), &limit)?;
                // The limit of memory and swap together.
                let both = self.dir.join("memory.memsw.limit_in_bytes");
                if both.exists() { fs::write(both, &limit) } else { Ok(()) }
            }
            false => {
                fs::write(self.dir.join("memory.max"), &limit)?;
                let swap = self.dir.join("memory.swap.max");
                if swap.exists() { fs::write(swap, "0") } else { Ok(()) }
            }
        }
    }

    /// Returns the directory that [`enter`] takes.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the limit if the kernel has killed a process that needed more.
    pub fn exceeded(&self) -> Option<u64> {
        let killed = ["memory.oom_control", "memory.events"].iter().any(|name| {
            let text = fs::read_to_string(self.dir.join(name)).unwrap_or_default();
            text.lines().any(|line| line.strip_prefix("oom_kill ").is_some_and(|count| count.trim() != "0"))
        });
        killed.then_some(self.limit_bytes)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // What remains of the page cache passes to the parent. A directory that stays does no harm.
        let _ = fs::remove_dir(&self.dir);
    }
}

/// Moves this process into the cgroup of `dir`. Memory that it has already stays where it was counted, so call this
/// first.
pub fn enter(dir: &Path) -> Outcome<()> {
    Ok(fs::write(dir.join("cgroup.procs"), process::id().to_string())?)
}
