//! The roots of the runs that a catalog or a record of the log names.
//!
//! A page belongs to one run. A damaged or forged catalog could name one run many times, and each would be read to
//! memory of its own.

use base::{Error, Result, TableId};
use run::Run;
use std::collections::HashSet;

/// The roots of runs; see the module.
#[derive(Debug, Default)]
pub(crate) struct Roots {
    units: HashSet<u64>,
}

impl Roots {
    /// Adds the roots of `runs`, which belong to `table`. Empty runs have none.
    ///
    /// Errors: [`Corruption`](base::ErrorKind::Corruption) if another run has the same root.
    pub fn add(&mut self, table: TableId, runs: &[Run]) -> Result<()> {
        for root in runs.iter().filter_map(|run| run.root) {
            if !self.units.insert(root.unit()) {
                let unit = root.unit();
                return Err(Error::corruption(format!(
                    "a run of {table} has its root at unit {unit}, where another run has its own"
                )));
            }
        }
        Ok(())
    }
}
