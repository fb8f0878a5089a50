//! One operation, step by step: what explains itself writes down what it did, for a person.
//!
//! Operations that are explained go a way of their own beside the ordinary one, made of the same parts, so that the
//! ordinary one pays nothing; tests hold their answers against each other.

use crate::seams::Stopwatch;

/// An operation, from its beginning to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explanation {
    /// In the order in which they were done.
    pub steps: Vec<Step>,
}

/// A part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// What was done, or asked.
    pub what: String,
    /// What came of it.
    pub outcome: String,
    /// Pages that were looked at, in order.
    pub pages: Vec<Touched>,
    /// Bytes that it found, wrote or sent.
    pub bytes: u64,
    /// Nanoseconds.
    pub ns: u64,
}

/// A page that was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched {
    /// Where in the data file it lies, in units of 4 KiB.
    pub unit: u64,
    /// Its height above the leaves.
    pub level: u8,
    /// Keys in it.
    pub entries: u64,
    /// Bytes of it.
    pub bytes: u64,
    /// Whether it was in memory; else it was read from the file.
    pub was_resident: bool,
    /// Nanoseconds to get at it and to search it.
    pub ns: u64,
}

impl Explanation {
    /// Does `work`, which fills in what came of it, and times it. The answer is `work`'s.
    pub fn step<T>(&mut self, what: impl Into<String>, work: impl FnOnce(&mut Step) -> T) -> T {
        let mut step = Step { what: what.into(), ..Step::default() };
        let watch = Stopwatch::start();
        let answer = work(&mut step);
        step.ns = watch.elapsed_ns();
        self.steps.push(step);
        answer
    }

    /// Nanoseconds of all steps.
    pub fn total_ns(&self) -> u64 {
        self.steps.iter().map(|step| step.ns).sum()
    }

    /// Pages that were in memory, and pages that were read.
    pub fn pages(&self) -> (usize, usize) {
        let all = || self.steps.iter().flat_map(|step| &step.pages);
        let resident = all().filter(|page| page.was_resident).count();
        (resident, all().count() - resident)
    }
}
