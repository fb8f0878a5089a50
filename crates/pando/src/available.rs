//! The memory that this process may use: the machine's, or less if a control group limits it.
//!
//! A control group's limit applies to all groups below it, so the smallest limit on the path up to the root counts.
//! Version 2 has one hierarchy (`0::/path` in `/proc/self/cgroup`); version 1 has one for memory (`N:memory:/path`).
//! Inside a container the path may be that of the host, while the mounted tree begins at the container's own group.
//! Therefore a directory that does not exist is skipped, and the root of the mounted tree is always read.

use std::path::Path;

/// The memory that is assumed if the machine's cannot be found out.
const UNKNOWN_BYTES: usize = 1 << 30;

/// The bytes that this process may use, and the source of that figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Available {
    pub bytes: usize,
    pub from: &'static str,
}

/// Returns the memory that this process may use.
pub(crate) fn available() -> Available {
    available_below(Path::new("/"))
}

fn available_below(root: &Path) -> Available {
    let unknown = Available { bytes: UNKNOWN_BYTES, from: "memory of unknown size" };
    let machine = machine_bytes(root).map(|bytes| Available { bytes, from: "the machine's memory" });
    let machine = machine.unwrap_or(unknown);
    match group_bytes(root) {
        Some(bytes) if bytes < machine.bytes => Available { bytes, from: "the control group's limit" },
        _ => machine,
    }
}

fn machine_bytes(root: &Path) -> Option<usize> {
    let text = std::fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
    line.split_whitespace().nth(1)?.parse::<usize>().ok()?.checked_mul(1024)
}

/// Returns the smallest limit of the control groups that this process is in.
fn group_bytes(root: &Path) -> Option<usize> {
    let groups = std::fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let limits = groups.lines().filter_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let (mount, file) = match controllers {
            "" => ("sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|one| one == "memory") => {
                ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => return None,
        };
        least_limit(&root.join(mount), path.trim_start_matches('/'), file)
    });
    limits.min()
}

/// Returns the smallest limit from the group at `path` up to the root of the hierarchy. The word `max`, which means no
/// limit, does not parse as a number.
fn least_limit(mount: &Path, path: &str, file: &str) -> Option<usize> {
    let limit = |group: &Path| {
        std::fs::read_to_string(mount.join(group).join(file)).ok()?.trim().parse::<usize>().ok()
    };
    Path::new(path).ancestors().filter_map(limit).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a tree of files with these contents, and returns the memory that is found available in it.
    fn available_in(files: &[(&str, &str)]) -> usize {
        let root = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        available_below(root.path()).bytes
    }

    #[test]
    fn the_least_limit_on_the_way_up_counts() {
        const MEMINFO: (&str, &str) = ("proc/meminfo", "MemTotal:       8388608 kB\nMemFree: 1 kB\n");
        assert_eq!(available_in(&[]), UNKNOWN_BYTES);
        assert_eq!(available_in(&[MEMINFO]), 8 << 30);
        let two = [
            MEMINFO,
            ("proc/self/cgroup", "0::/a/b/c\n"),
            ("sys/fs/cgroup/a/b/c/memory.max", "max\n"),
            ("sys/fs/cgroup/a/b/memory.max", "4294967296\n"),
            ("sys/fs/cgroup/a/memory.max", "1073741824\n"),
        ];
        assert_eq!(available_in(&two), 1 << 30);
        assert_eq!(available_in(&two[..4]), 4 << 30);
        let one = [
            MEMINFO,
            ("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/docker/0123\n1:name=systemd:/x\n"),
            ("sys/fs/cgroup/memory/docker/0123/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648\n"),
        ];
        assert_eq!(available_in(&one), 2 << 30);
        let mounted =
            [MEMINFO, ("proc/self/cgroup", "0::/host/pod\n"), ("sys/fs/cgroup/memory.max", "65536000")];
        assert_eq!(available_in(&mounted), 65_536_000);
        let garbage = [MEMINFO, ("proc/self/cgroup", "::\n\n0:\nx"), ("sys/fs/cgroup/memory.max", "-1")];
        assert_eq!(available_in(&garbage), 8 << 30);
    }
}
