//! The phase hook. A program that wants to know when the engine seals, flushes, merges or recovers, and for how long,
//! sets a function here. `pando` uses it to make spans of `tracing` without a dependency in the crates below it.
//!
//! A phase happens seldom compared with commits and reads, or waits for a disk anyway. While no hook is set, its
//! boundary costs one load and reads no clock.

use crate::hook;
use std::fmt;
use std::panic::{self, AssertUnwindSafe};

/// A kind of work that the engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// A database is being opened: the log is read, and its commits are applied.
    Recovery,
    /// The open memtable is sealed, and another takes its place.
    Seal,
    /// The log is flushed to the disk.
    LogFlush,
    /// A step of a checkpoint, such as absorbing or merging.
    Checkpoint {
        /// The number of the checkpoint.
        number: u64,
        /// The name of the step.
        step: &'static str,
    },
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Phase::Recovery => f.write_str("recovery"),
            Phase::Seal => f.write_str("seal"),
            Phase::LogFlush => f.write_str("log flush"),
            Phase::Checkpoint { number, step } => write!(f, "checkpoint {number}: {step}"),
        }
    }
}

/// A function that is called on the thread that does the work. It must call the work exactly once. Locks of the engine
/// may be held, so it must not call the engine. Its own panic is printed, as panics are, and does not propagate.
pub type Hook = fn(Phase, &mut dyn FnMut());

static HOOK: hook::Hook<Hook> = hook::Hook::new();

/// Runs every phase of every thread within `hook` from now on. A process has one hook: the first stays set, and later
/// calls enable it again. Returns false if `hook` is another one.
pub fn listen(hook: Hook) -> bool {
    HOOK.listen(hook)
}

/// Disables the hook. A phase that began before may still end in it.
pub fn ignore() {
    HOOK.ignore();
}

/// Runs `work`, which is `phase`, and returns its result.
#[inline]
pub fn within<R>(phase: Phase, work: impl FnOnce() -> R) -> R {
    match HOOK.heard_by() {
        Some(hook) => observed(hook, phase, work),
        None => work(),
    }
}

#[cold]
fn observed<R>(hook: Hook, phase: Phase, work: impl FnOnce() -> R) -> R {
    let (mut work, mut done) = (Some(work), None);
    let heard =
        panic::catch_unwind(AssertUnwindSafe(|| hook(phase, &mut || done = work.take().map(|work| work()))));
    match (done, work, heard) {
        // A hook's own panic was printed and does not propagate: the engine may be between two steps that belong
        // together.
        (Some(done), ..) => done,
        // The hook did not call the work.
        (None, Some(work), _) => work(),
        // The work panicked.
        (None, None, Err(panic)) => panic::resume_unwind(panic),
        (None, None, Ok(())) => unreachable!("work that was done left an answer"),
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use std::sync::Mutex;

    static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());

    fn note(phase: Phase, work: &mut dyn FnMut()) {
        SEEN.lock().unwrap().push(format!("begin {phase}"));
        if phase != Phase::Recovery {
            work();
        }
        let panics = matches!(phase, Phase::Checkpoint { number: 13, .. });
        assert!(!panics, "a hook that panics");
        SEEN.lock().unwrap().push(format!("end {phase}"));
    }

    #[test]
    fn phases_are_seen_while_somebody_listens() {
        assert_eq!(within(Phase::Seal, || 1), 1);
        assert!(SEEN.lock().unwrap().is_empty(), "nobody listens");
        assert!(listen(note));
        assert_eq!(within(Phase::Checkpoint { number: 7, step: "absorb" }, || 2), 2);
        assert_eq!(*SEEN.lock().unwrap(), ["begin checkpoint 7: absorb", "end checkpoint 7: absorb"]);
        assert_eq!(within(Phase::Recovery, || 3), 3, "what a hook leaves undone is done");
        assert_eq!(
            within(Phase::Checkpoint { number: 13, step: "absorb" }, || 5),
            5,
            "a hook's panic ends there"
        );
        let panic = panic::catch_unwind(|| within(Phase::Seal, || panic!("the work's own")));
        assert!(panic.is_err());
        SEEN.lock().unwrap().truncate(4);
        ignore();
        assert_eq!((within(Phase::LogFlush, || 4), SEEN.lock().unwrap().len()), (4, 4));
        assert!(!listen(|_, work| work()), "one hook per process");
    }
}
