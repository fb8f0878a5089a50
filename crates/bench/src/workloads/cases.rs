//! Helpers that several workloads share.

/// The number of duplicates that a workload tries to insert to check that they are refused.
const DUPLICATES: usize = 1000;

/// Returns the step through `n` with which about [`DUPLICATES`] are tried.
pub(super) fn duplicate_step(n: usize) -> usize {
    n.div_ceil(DUPLICATES).max(1)
}

/// Returns the names of the two cases of a load: without and with the time of its checkpoint.
pub(super) fn cases(name: &str) -> [String; 2] {
    [name.to_owned(), format!("{name} + checkpoint")]
}
