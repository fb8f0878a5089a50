//! What a user calls: [`cpu`], [`alloc`] and [`lock`] watch for some time; a [`Recording`] watches until it is stopped.

use crate::folded::Profile;
use crate::ring::Ring;
use crate::{allocator, locks, native};
use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The thread that adds samples up. Its own CPU time is left out.
const DRAINER: &str = "pando-profile";
const DRAIN_EVERY: Duration = Duration::from_millis(10);
/// Kernels round this up to their tick, often 4 ms.
const CPU_PERIOD: Duration = Duration::from_micros(1_999);

/// What a profile samples.
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

/// Why a recording cannot start.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// Another recording is running; a process can have one at a time.
    Busy,
    /// The program does not use [`Allocator`](crate::Allocator) as its global allocator.
    NoAllocator,
    /// The operating system or the processor is not supported.
    Unsupported,
    /// The operating system refused.
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

/// Records CPU time for `time`, and returns the profile.
///
/// # Errors
/// As for [`Recording::start`].
pub fn cpu(time: Duration) -> Result<Profile, Error> {
    watch(Kind::Cpu, time)
}

/// Records allocations for `time`, and returns the profile.
///
/// # Errors
/// As for [`Recording::start`].
pub fn alloc(time: Duration) -> Result<Profile, Error> {
    watch(Kind::Alloc, time)
}

/// Records waits for locks for `time`, and returns the profile.
///
/// # Errors
/// As for [`Recording::start`].
pub fn lock(time: Duration) -> Result<Profile, Error> {
    watch(Kind::Lock, time)
}

fn watch(kind: Kind, time: Duration) -> Result<Profile, Error> {
    let recording = Recording::start(kind)?;
    thread::sleep(time);
    Ok(recording.stop())
}

static BUSY: AtomicBool = AtomicBool::new(false);
static RING: OnceLock<Ring> = OnceLock::new();

/// Where sources put samples; `None` before the first recording.
pub(crate) fn ring() -> Option<&'static Ring> {
    RING.get()
}

/// Stacks, each a thread's name and addresses, with the sum of what they stand for.
pub(crate) type Sums = HashMap<([u64; 2], Box<[u64]>), u64>;

/// A running recording. Dropping it stops it and discards its samples.
#[derive(Debug)]
pub struct Recording {
    kind: Kind,
    began: Instant,
    stopping: Arc<AtomicBool>,
    /// `None` once it is stopped.
    drainer: Option<JoinHandle<(Sums, u64)>>,
}

impl Recording {
    /// Starts a recording. It costs about a thousandth of the CPU time, 1 MB of memory, and the memory of distinct
    /// stacks.
    ///
    /// # Errors
    /// [`Error::Busy`] while another recording runs in this process; [`Error::NoAllocator`] for allocations in a
    /// program without [`Allocator`](crate::Allocator); [`Error::Unsupported`]; [`Error::System`].
    pub fn start(kind: Kind) -> Result<Self, Error> {
        Self::start_with(kind, add)
    }

    /// The same, where `each` takes what is in the ring, and is called every [`DRAIN_EVERY`].
    pub(crate) fn start_with(
        kind: Kind,
        each: impl Fn(&Ring, &mut Sums) + Send + 'static,
    ) -> Result<Self, Error> {
        if BUSY.swap(true, Ordering::SeqCst) {
            return Err(Error::Busy);
        }
        Self::start_alone(kind, each).inspect_err(|_| BUSY.store(false, Ordering::SeqCst))
    }

    fn start_alone(kind: Kind, each: impl Fn(&Ring, &mut Sums) + Send + 'static) -> Result<Self, Error> {
        native::prepare()?;
        let ring = RING.get_or_init(Ring::new);
        // What a signal brought after the recording before.
        ring.drain(|_| ());
        ring.take_lost();
        let stopping = Arc::new(AtomicBool::new(false));
        let drainer = {
            let stopping = stopping.clone();
            thread::Builder::new()
                .name(DRAINER.into())
                .spawn(move || drain(ring, &stopping, each))
                .map_err(Error::System)?
        };
        let recording = Recording { kind, began: Instant::now(), stopping, drainer: Some(drainer) };
        let started = match kind {
            Kind::Cpu => native::start_ticks(ring, CPU_PERIOD),
            Kind::Alloc => allocator::start(),
            Kind::Lock => locks::start(),
        };
        started.map(|()| recording)
    }

    /// Has the drainer take what is there, soon.
    pub(crate) fn hurry(&self) {
        if let Some(drainer) = &self.drainer {
            drainer.thread().unpark();
            // It takes some microseconds; the caller waits for names much longer.
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Stops the recording and returns the profile. Looking up names takes up to about 100 ms for a large program.
    pub fn stop(mut self) -> Profile {
        let time = self.began.elapsed();
        let (sums, lost) = self.end();
        Profile::new(self.kind, time, &sums, lost)
    }

    fn end(&mut self) -> (Sums, u64) {
        let Some(drainer) = self.drainer.take() else { return (Sums::new(), 0) };
        match self.kind {
            Kind::Cpu => native::stop_ticks(),
            Kind::Alloc => allocator::stop(),
            Kind::Lock => locks::stop(),
        }
        self.stopping.store(true, Ordering::SeqCst);
        drainer.thread().unpark();
        let ended = drainer.join();
        BUSY.store(false, Ordering::SeqCst);
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.end();
    }
}

/// The drainer's work, until it is told to stop.
fn drain(ring: &Ring, stopping: &AtomicBool, each: impl Fn(&Ring, &mut Sums)) -> (Sums, u64) {
    allocator::mute();
    let mut sums = Sums::new();
    loop {
        // Looked at before the ring: what came before it was told to stop is taken.
        let last = stopping.load(Ordering::SeqCst);
        each(ring, &mut sums);
        if last {
            return (sums, ring.take_lost());
        }
        thread::park_timeout(DRAIN_EVERY);
    }
}

/// Adds what is in the ring to `sums`, but for what the drainer itself did.
pub(crate) fn add(ring: &Ring, sums: &mut Sums) {
    let mut own = [0_u8; 16];
    own[..DRAINER.len()].copy_from_slice(DRAINER.as_bytes());
    let own = [0, 8].map(|at| u64::from_ne_bytes(own[at..at + 8].try_into().expect("8 bytes")));
    ring.drain(|sample| {
        if sample.thread != own {
            *sums.entry((sample.thread, sample.frames.into())).or_default() += sample.weight;
        }
    });
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
