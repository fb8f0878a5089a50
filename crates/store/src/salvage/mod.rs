//! The export of what can still be read of a damaged directory. It writes nothing and opens nothing.
//!
//! 1. *Start* (`start`): the newer intact superblock, or else what the log's segment headers state about the database.
//! 2. *The log* (`replay`): its commits from there on, in order, into a memtable, up to the first that cannot be read.
//! 3. *Walk* (`walk`): every tree from its root. A page or value that does not match its pointer is left out with
//!    everything below it, and the keys that it should contain are recorded as lost.
//! 4. *Scan* (`scan`), only if something was lost: the whole data file is searched for leaves, which are identified by
//!    checksum, place and table. For each key the version of the newest leaf counts; if the newest leaf around a key
//!    does not have it, it was deleted.
//!
//! # Guarantees
//! Only data that was verified to the last byte is exported, so no value is wrong: each was committed once. The results
//! of steps 2 and 3 are [`Trust::Certain`]: together they are the database as of [`Report::commit`], except for what is
//! listed as lost. What only step 4 found is [`Trust::Uncertain`]: it was true once, and may have been changed or
//! deleted since. The two are never mixed.
//!
//! Entries with a TTL ([`crate::ttl`]) are exported without their dates, and also if they have expired and no merge has
//! dropped them yet, because nothing deleted them. If a table's row of the catalog is lost, its dates are exported as
//! part of the values.
//!
//! The memory is the log's contents, a path of pages, and for a scan the first and last key of each leaf.

mod report;
mod export;
mod start;
mod replay;
mod walk;
mod stacked;
mod scan;
mod blend;

pub use export::salvage;
pub use report::{Lost, Report, Sink, StoredOptions, StoredTtl, TableReport, Trust};
