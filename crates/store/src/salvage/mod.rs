//! What can still be read of a damaged directory, and what cannot. Writes nothing and opens nothing.
//!
//! 1. *Where to begin* (`start`): the newer whole superblock, else what the log's segment headers say of the database.
//! 2. *The log* (`replay`): its commits from there on, in order, into a memtable, up to the first that cannot be
//!    read.
//! 3. *Walk* (`walk`): every tree from its root. A page or value that is not what its pointer promises is left out
//!    with all that lies below it, and the keys that were to be found there are noted as lost.
//! 4. *Scan* (`scan`), only where something was lost: all of the data file is searched for leaves, which prove
//!    themselves by checksum, place and table. Of each key the version of the newest leaf counts; if the newest leaf
//!    around a key does not have it, it was deleted.
//!
//! # What is promised
//! Nothing is exported that was not verified to the last byte, so no value is wrong: each was committed once. What
//! comes from steps 2 and 3 is [`Trust::Certain`]: together it is the database as of [`Report::commit`], less what is
//! listed as lost. What only step 4 found is [`Trust::Uncertain`]: it was true once, and may have been changed or
//! deleted since. The two are never mixed.
//!
//! Entries that live for a time ([`crate::ttl`]) come out without their dates, and also if they have expired and no
//! merge has dropped them yet: nobody deleted them. Where a table's row of the catalog is lost, its dates do as well.
//!
//! Memory: what the log holds, a path of pages, and of a scan the first and last key of each leaf.

mod report;
mod export;
mod start;
mod replay;
mod walk;
mod stacked;
mod scan;
mod blend;

pub use export::salvage;
pub use report::{Lost, Report, Sink, TableReport, Trust};
