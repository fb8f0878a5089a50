//! What the operating system says about the process and about the disk.

use pando::{Error, Result};
use std::path::Path;

/// The room on the file system of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disk {
    /// The bytes that this user can still write.
    pub free_bytes: u64,
    /// The bytes of the whole file system.
    pub total_bytes: u64,
}

impl Disk {
    /// Returns the room on the file system that holds `dir`.
    ///
    /// # Errors
    /// `Io` if the directory cannot be inspected.
    pub fn of(dir: &Path) -> Result<Self> {
        let found = rustix::fs::statvfs(dir)
            .map_err(|error| Error::io(format!("find the free room of {}", dir.display()), error.into()))?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        Ok(Disk { free_bytes: bytes(found.f_bavail), total_bytes: bytes(found.f_blocks) })
    }
}

/// The resources that this process uses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Process {
    /// The CPU time of all threads, in seconds.
    pub cpu_s: f64,
    /// The memory that is in use, in bytes.
    pub resident_bytes: u64,
    /// The address space, in bytes.
    pub virtual_bytes: u64,
    /// The number of open files, sockets included.
    pub open_files: u64,
    /// The largest number of open files; `None` if there is no limit.
    pub max_files: Option<u64>,
    /// The number of threads.
    pub threads: u64,
    /// When the process started, in seconds since 1970.
    pub started_s: f64,
}

impl Process {
    /// Returns the resources of this process. `None` if the system does not say.
    #[cfg(target_os = "linux")]
    pub fn this() -> Option<Self> {
        use procfs::process::{LimitValue, Process as Entry};
        let entry = Entry::myself().ok()?;
        let stat = entry.stat().ok()?;
        let ticks = procfs::ticks_per_second() as f64;
        let max_files = match entry.limits().ok()?.max_open_files.soft_limit {
            LimitValue::Value(files) => Some(files),
            LimitValue::Unlimited => None,
        };
        Some(Process {
            cpu_s: (stat.utime + stat.stime) as f64 / ticks,
            resident_bytes: stat.rss.saturating_mul(procfs::page_size()),
            virtual_bytes: stat.vsize,
            open_files: entry.fd_count().ok()? as u64,
            max_files,
            threads: stat.num_threads.max(0) as u64,
            started_s: procfs::boot_time_secs().ok()? as f64 + stat.starttime as f64 / ticks,
        })
    }

    /// Returns `None`: only Linux is asked.
    #[cfg(not(target_os = "linux"))]
    pub fn this() -> Option<Self> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_has_room() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::of(dir.path()).unwrap();
        assert!(disk.free_bytes > 0 && disk.free_bytes <= disk.total_bytes, "{disk:?}");
        assert!(Disk::of(&dir.path().join("none")).is_err());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_process_says_what_it_uses() {
        let dir = tempfile::tempdir().unwrap();
        let files: Vec<_> =
            (0..200).map(|n| std::fs::File::create(dir.path().join(n.to_string())).unwrap()).collect();
        let after = Process::this().unwrap();
        // Other tests open and close files meanwhile, so there is no "before" to compare with.
        assert!(after.open_files >= files.len() as u64, "{after:?}");
        assert!(after.max_files.is_none_or(|most| most >= after.open_files));
        assert!(after.resident_bytes > 1 << 20 && after.virtual_bytes > after.resident_bytes, "{after:?}");
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
        assert!((now - 3600.0..now + 2.0).contains(&after.started_s), "{after:?}");
    }
}
