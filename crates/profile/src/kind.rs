//! The kinds of recordings, and the errors of starting one.

use std::fmt;
use std::str::FromStr;

/// The quantity that a profile samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// CPU time of all threads, in samples: one at every tick of the kernel (100 to 500 a second) on each processor.
    Cpu,
    /// Bytes that were requested from the allocator, sampled once every 64 KiB. Memory that is freed is not
    /// subtracted.
    Alloc,
    /// Nanoseconds spent waiting for the engine's locks, flushes, page reads and room in memory.
    Lock,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 3] = [Kind::Cpu, Kind::Alloc, Kind::Lock];

    /// Returns the unit of a profile's numbers.
    pub fn unit(self) -> &'static str {
        match self {
            Kind::Cpu => "samples",
            Kind::Alloc => "bytes",
            Kind::Lock => "ns",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Cpu => "cpu",
            Kind::Alloc => "alloc",
            Kind::Lock => "lock",
        })
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Kind::ALL.into_iter().find(|kind| kind.to_string() == text);
        known.ok_or_else(|| format!("`{text}` is not a kind of profile: cpu, alloc or lock"))
    }
}

/// The error of a recording that cannot start.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// Another recording is running; a process can have one at a time.
    Busy,
    /// The program does not use [`Allocator`](crate::Allocator) as its global allocator.
    NoAllocator,
    /// The operating system or the processor is not supported.
    Unsupported,
    /// The operating system refused the request.
    System(std::io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Busy => f.write_str("another profile is being recorded; only one at a time is possible"),
            Error::NoAllocator => f.write_str(
                "this program cannot profile allocations: install `profile::Allocator` as its \
                             global allocator",
            ),
            Error::Unsupported => f.write_str("profiles need Linux on x86-64 or AArch64"),
            Error::System(cause) => write!(f, "the operating system refused to profile: {cause}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::System(cause) => Some(cause),
            Error::Busy | Error::NoAllocator | Error::Unsupported => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_named_as_they_are_written() {
        for kind in Kind::ALL {
            assert_eq!(kind.to_string().parse::<Kind>(), Ok(kind));
        }
        assert!("gpu".parse::<Kind>().is_err_and(|error| error.contains("cpu, alloc or lock")));
    }
}
