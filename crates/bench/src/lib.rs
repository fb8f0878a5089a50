//! Pando's workloads: exact definitions, verified results, and one row of figures for each case.
//!
//! ```text
//!   cli ──► workloads ──► bed (a database, or a bare editor, in a directory of its own)
//!                │  └───► records (what is written, and whether it is all there)
//!                ├──────► measure (time, memory, bytes, flushes)
//!                └──────► report (a row; rows as a table or as JSON)
//! ```
//! The modules are listed in their order. A module uses those before it, except that [`cli`] and `quick` use each
//! other, as do [`sink`] and `through_sql`:
//!
//! 1. [`settings`]: the flags that workloads share. [`alloc`], [`measure`]: counters and timers.
//! 2. [`records`], [`zipf`]: the data that is written. [`bed`], [`sink`]: the destinations. [`http`]: clients of a
//!    server.
//! 3. [`report`]: a row of figures.
//! 4. [`workloads`]: the workloads, a file each.
//! 5. [`results`] reads saved rows, [`compare`] compares two files of them, and [`page`] draws them.
//! 6. [`cli`]: the loop over workloads. `quick`: the suite that `report` runs if it gets no files.
//!
//! # Rules
//! 1. A workload checks what it wrote: every record with its value, nothing else, and duplicates refused. A wrong
//!    result is a failure and produces no row.
//! 2. A row names its durability. Rows of different durability are different cases, and never one column.
//! 3. The work around the measured part (making the keys, opening, checking) is outside its timer.

pub mod settings;
pub mod alloc;
pub mod measure;
pub mod report;
pub mod records;
pub mod zipf;
pub mod bed;
pub mod sink;
#[cfg(feature = "sql")]
pub mod through_sql;
pub mod http;
pub mod workloads;
pub mod results;
pub mod compare;
pub mod page;
mod quick;
pub mod cli;

use std::fmt;

/// The reason why a workload has no figures.
#[derive(Debug)]
pub enum Failure {
    /// An error of the engine.
    Engine(pando::Error),
    /// An error of the host: a directory, a thread, the process's own counters.
    Host(std::io::Error),
    /// A wrong result of the engine.
    Wrong(String),
    /// Flags that this workload does not support.
    Usage(String),
}

/// The result of a workload or of a part of it.
pub type Outcome<T> = Result<T, Failure>;

/// Fails with a wrong result unless `right`.
pub(crate) fn ensure(right: bool, what: impl FnOnce() -> String) -> Outcome<()> {
    if right { Ok(()) } else { Err(Failure::Wrong(what())) }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Engine(error) => write!(f, "{error}"),
            Failure::Host(error) => write!(f, "{error}"),
            Failure::Wrong(what) => write!(f, "wrong answer: {what}"),
            Failure::Usage(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Failure::Engine(error) => Some(error),
            Failure::Host(error) => Some(error),
            Failure::Wrong(_) | Failure::Usage(_) => None,
        }
    }
}

impl From<pando::Error> for Failure {
    fn from(error: pando::Error) -> Self {
        Failure::Engine(error)
    }
}

impl From<rustix::io::Errno> for Failure {
    fn from(error: rustix::io::Errno) -> Self {
        Failure::Host(error.into())
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Failure::Host(error)
    }
}
