//! The record of one explained operation, step by step, for a person to read.
//!
//! Explained operations take a path of their own, made of the same parts as the ordinary path, so that the ordinary
//! path pays nothing. Tests compare the results of both.

use crate::env::Stopwatch;

/// The steps of one operation, from its beginning to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explanation {
    /// The steps, in the order in which they were done.
    pub steps: Vec<Step>,
}

/// One step of an operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// The action or the request.
    pub what: String,
    /// The result of the step.
    pub outcome: String,
    /// The pages that the step used, in order.
    pub pages: Vec<Touched>,
    /// Bytes that the step found, wrote or sent.
    pub bytes: u64,
    /// The duration in nanoseconds.
    pub ns: u64,
}

/// A page that an operation used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched {
    /// The page's place in the data file, in units of 4 KiB.
    pub unit: u64,
    /// The page's height above the leaves.
    pub level: u8,
    /// The number of keys in the page.
    pub entries: u64,
    /// The page's length in bytes.
    pub bytes: u64,
    /// Whether the page was in memory. If not, it was read from the file.
    pub was_resident: bool,
    /// Nanoseconds to get and to search the page.
    pub ns: u64,
}

impl Explanation {
    /// Runs `work`, which fills in the step's result, records how long it took, and returns what `work` returned.
    pub fn step<T>(&mut self, what: impl Into<String>, work: impl FnOnce(&mut Step) -> T) -> T {
        let mut step = Step { what: what.into(), ..Step::default() };
        let watch = Stopwatch::start();
        let answer = work(&mut step);
        step.ns = watch.elapsed_ns();
        self.steps.push(step);
        answer
    }

    /// Returns the nanoseconds of all steps.
    pub fn total_ns(&self) -> u64 {
        self.steps.iter().map(|step| step.ns).sum()
    }

    /// Returns how many pages were in memory and how many were read.
    pub fn pages(&self) -> (usize, usize) {
        let all = || self.steps.iter().flat_map(|step| &step.pages);
        let resident = all().filter(|page| page.was_resident).count();
        (resident, all().count() - resident)
    }
}
