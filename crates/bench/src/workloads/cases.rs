//! What several workloads share.

/// How many duplicates a workload tries to insert when it checks that they are refused.
const DUPLICATES: usize = 1000;

/// Every so-many-th of `n`, so that about [`DUPLICATES`] are tried.
pub(super) fn duplicate_step(n: usize) -> usize {
    n.div_ceil(DUPLICATES).max(1)
}

/// The names of the two cases that a load has: without and with the time of its checkpoint.
pub(super) fn cases(name: &str) -> [String; 2] {
    [name.to_owned(), format!("{name} + checkpoint")]
}
