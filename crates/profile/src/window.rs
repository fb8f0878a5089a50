//! A continuous recording that keeps the last seconds, to find out why something was slow just now.
//!
//! The drainer adds samples up for each second, and drops seconds that are older than the window. A query adds the
//! seconds up and looks the names up, while the recording continues.

use crate::folded::{Profile, Sums};
use crate::kind::{Error, Kind};
use crate::recording::{Recording, add};
use crate::ring::Ring;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The time span whose samples are added up separately.
const STEP: Duration = Duration::from_secs(1);

/// A continuous recording, which keeps the last seconds. It stops when it is dropped.
///
/// ```
/// # use std::time::Duration;
/// let window = pando_profile::Window::start(pando_profile::Kind::Cpu, Duration::from_secs(60))?;
/// // ... later, when something was slow:
/// let profile = window.last(Duration::from_secs(10));
/// assert_eq!(profile.kind(), pando_profile::Kind::Cpu);
/// # Ok::<(), pando_profile::Error>(())
/// ```
#[derive(Debug)]
pub struct Window {
    recording: Recording,
    kind: Kind,
    began: Instant,
    steps: Arc<Mutex<Steps>>,
}

/// The sums of the steps, oldest first.
#[derive(Debug)]
struct Steps {
    keep: Duration,
    steps: VecDeque<Step>,
}

#[derive(Debug)]
struct Step {
    began: Instant,
    sums: Sums,
    lost: u64,
}

impl Window {
    /// Starts recording, and keeps the samples of the last `keep`. It costs as much as a [`Recording`] for as long as
    /// it runs: about a thousandth of the CPU time, and up to 100 KB for each second that is kept.
    ///
    /// # Errors
    /// The errors of [`Recording::start`]. Until the window is dropped, other recordings fail with [`Error::Busy`].
    pub fn start(kind: Kind, keep: Duration) -> Result<Self, Error> {
        let began = Instant::now();
        let steps = Arc::new(Mutex::new(Steps { keep, steps: VecDeque::new() }));
        let shared = Arc::clone(&steps);
        let each = move |ring: &Ring, _: &mut Sums| locked(&shared).drain(ring, Instant::now());
        let recording = Recording::start_with(kind, each)?;
        Ok(Window { recording, kind, began, steps })
    }

    /// Returns a profile of the last `time`, to the second, as far as it is kept. Looking up names takes up to about
    /// 100 ms for a large program.
    pub fn last(&self, time: Duration) -> Profile {
        self.recording.hurry();
        let (sums, lost) = locked(&self.steps).last(time, Instant::now());
        let kept = locked(&self.steps).keep;
        Profile::new(self.kind, time.min(kept).min(self.began.elapsed()), &sums, lost)
    }
}

fn locked(steps: &Mutex<Steps>) -> MutexGuard<'_, Steps> {
    steps.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Steps {
    fn drain(&mut self, ring: &Ring, now: Instant) {
        if self.steps.back().is_none_or(|last| now.saturating_duration_since(last.began) >= STEP) {
            self.steps.push_back(Step { began: now, sums: Sums::new(), lost: 0 });
        }
        while self
            .steps
            .front()
            .is_some_and(|first| now.saturating_duration_since(first.began) > self.keep + STEP)
        {
            self.steps.pop_front();
        }
        if let Some(step) = self.steps.back_mut() {
            add(ring, &mut step.sums);
            step.lost += ring.take_lost();
        }
    }

    fn last(&self, time: Duration, now: Instant) -> (Sums, u64) {
        let (mut sums, mut lost) = (Sums::new(), 0);
        // A step counts if most of it lies within the time.
        let is_within = |step: &&Step| now.saturating_duration_since(step.began) <= time + STEP / 2;
        for step in self.steps.iter().rev().take_while(is_within) {
            lost += step.lost;
            for (stack, weight) in &step.sums {
                *sums.entry(stack.clone()).or_default() += weight;
            }
        }
        (sums, lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::Sample;

    #[test]
    fn what_is_older_is_forgotten() {
        let ring = Ring::new();
        let mut steps = Steps { keep: Duration::from_secs(5), steps: VecDeque::new() };
        let start = Instant::now();
        let after = |ms: u64| start + Duration::from_millis(ms);
        for ms in (0..20_000).step_by(100) {
            ring.push(Sample { weight: 1, thread: [1, 1], frames: &[7] });
            steps.drain(&ring, after(ms));
        }
        assert!((6..=7).contains(&steps.steps.len()), "{}", steps.steps.len());
        let sum = |seconds| steps.last(Duration::from_secs(seconds), after(19_900)).0.values().sum::<u64>();
        assert_eq!((sum(1), sum(3)), (10, 30));
        assert!((50..=70).contains(&sum(100)), "{}", sum(100));
    }
}
