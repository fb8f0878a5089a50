//! The user's interface: [`cpu`], [`alloc`] and [`lock`] record for some time; a [`Recording`] records until it is
//! stopped.

use crate::folded::{Profile, Sums};
use crate::kind::{Error, Kind};
use crate::ring::{self, Ring};
use crate::{allocator, locks, native};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The name of the thread that adds samples up. Its own CPU time is left out.
const DRAINER: &str = "pando-profile";
const DRAIN_EVERY: Duration = Duration::from_millis(10);
/// Kernels round this up to their tick, often 4 ms.
const CPU_PERIOD: Duration = Duration::from_micros(1_999);

/// Records CPU time for `time`, and returns the profile.
///
/// # Errors
/// The errors of [`Recording::start`].
pub fn cpu(time: Duration) -> Result<Profile, Error> {
    watch(Kind::Cpu, time)
}

/// Records allocations for `time`, and returns the profile.
///
/// # Errors
/// The errors of [`Recording::start`].
pub fn alloc(time: Duration) -> Result<Profile, Error> {
    watch(Kind::Alloc, time)
}

/// Records waits for locks for `time`, and returns the profile.
///
/// # Errors
/// The errors of [`Recording::start`].
pub fn lock(time: Duration) -> Result<Profile, Error> {
    watch(Kind::Lock, time)
}

fn watch(kind: Kind, time: Duration) -> Result<Profile, Error> {
    let recording = Recording::start(kind)?;
    thread::sleep(time);
    Ok(recording.stop())
}

static BUSY: AtomicBool = AtomicBool::new(false);

/// A running recording. Dropping it stops it and discards its samples.
#[derive(Debug)]
pub struct Recording {
    kind: Kind,
    began: Instant,
    stopping: Arc<AtomicBool>,
    /// The drainer; `None` after the recording was stopped.
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

    /// Starts a recording in which `each` takes what is in the ring, and is called every [`DRAIN_EVERY`].
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
        let ring = ring::ensure();
        // These samples came from a late signal of the recording before.
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

    /// Makes the drainer empty the ring soon.
    pub(crate) fn hurry(&self) {
        if let Some(drainer) = &self.drainer {
            drainer.thread().unpark();
            // The drainer takes some microseconds; looking up names afterwards takes much longer.
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

/// Runs the drainer until `stopping` is set.
fn drain(ring: &Ring, stopping: &AtomicBool, each: impl Fn(&Ring, &mut Sums)) -> (Sums, u64) {
    allocator::mute();
    let mut sums = Sums::new();
    loop {
        // It is read before the ring, so that everything recorded before `stopping` was set is taken.
        let last = stopping.load(Ordering::SeqCst);
        each(ring, &mut sums);
        if last {
            return (sums, ring.take_lost());
        }
        thread::park_timeout(DRAIN_EVERY);
    }
}

/// Adds what is in the ring to `sums`, except for samples of the drainer itself.
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
