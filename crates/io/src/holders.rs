//! The holders of a lock, for messages alone: the kernel's own list, where it shows one.
//!
//! Shared holders of a lock write nothing, so the list is the only place that knows them. A line of `/proc/locks` is
//! `1: FLOCK  ADVISORY  READ 12633 fe:00:9977868 0 EOF`: process, then device and inode of the file.

use std::fs;
use std::os::unix::fs::MetadataExt;

/// Returns the known processes that have `file` locked, or none where the system does not say.
pub(crate) fn of(file: &fs::File) -> Vec<u32> {
    let (Ok(metadata), Ok(locks)) = (file.metadata(), fs::read_to_string("/proc/locks")) else {
        return Vec::new();
    };
    let (major, minor) = device(metadata.dev());
    let place = format!("{major:02x}:{minor:02x}:{}", metadata.ino());
    let mut found: Vec<u32> = locks.lines().filter_map(|line| holder(line, &place)).collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn holder(line: &str, place: &str) -> Option<u32> {
    let mut words = line.split_whitespace().skip(1);
    let (kind, _, _, process, file) =
        (words.next()?, words.next()?, words.next()?, words.next()?, words.next()?);
    // A process of another namespace has the number 0 here.
    let process = process.parse().ok().filter(|&process| process > 0)?;
    (kind == "FLOCK" && file == place).then_some(process)
}

/// Splits a device number into its two halves, as Linux does.
fn device(number: u64) -> (u64, u64) {
    let major = (number >> 32 & 0xffff_f000) | (number >> 8 & 0xfff);
    let minor = (number >> 12 & 0xffff_ff00) | (number & 0xff);
    (major, minor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_list() {
        let line = "1: FLOCK  ADVISORY  READ 12633 fe:00:9977868 0 EOF";
        assert_eq!(holder(line, "fe:00:9977868"), Some(12633));
        assert_eq!(holder(line, "fe:00:997786"), None);
        for other in [
            "1: POSIX  ADVISORY  READ 12633 fe:00:9977868 0 EOF",
            "1: -> FLOCK ADVISORY WRITE 9 fe:00:9977868 0 EOF",
            "2: FLOCK  ADVISORY  WRITE 0 fe:00:9977868 0 EOF",
            "3: FLOCK",
            "",
        ] {
            assert_eq!(holder(other, "fe:00:9977868"), None, "{other}");
        }
        assert_eq!(device(65024), (0xfe, 0));
    }
}
