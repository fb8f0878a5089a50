//! Ships the commits of a database to object storage, and restores databases and follows them from there.
//!
//! ```text
//!   Database ──changes──► Batch ──► Segment ──conditional put──► log/N   ─┐
//!       └─────backup────► parts ──────────────► base/E-C                  ├─► restore, as of any commit
//!                                                                         ┘
//! ```
//! [`Shipper`] ships, [`restore()`] restores, and a [`Follower`] keeps a replica up to date; [`Bucket`] is the place in
//! object storage.
//!
//! A *lineage* is the history of one database in a bucket: bases, and a log of segments that has every commit between
//! them. It has one writer at a time. Conditional puts alone decide which one writes: see `writer`.
//!
//! Reading order: `name`, `format`, `segment`, `objects` (the bytes; `docs/replication.md` describes them), `folder`,
//! `connect` and `bucket` (requests whose outcome can be unknown), `parts`, `source` (what of a database is needed),
//! `gather`, `incarnation` (several databases of one name), `lineage` (what a bucket has), `ahead`, `candidate` (which
//! database may write it), `writer` (taking over, fencing, appending), `bases`, `options`, `retention`, `status`,
//! `shipper` (the thread), `handle`, `restore`, `listing`, `database` (the database that is shipped or restored),
//! `follower` (replicas).
#![deny(missing_docs, unsafe_code)]

mod name;
mod format;
mod segment;
mod objects;
mod folder;
mod connect;
mod bucket;
mod parts;
mod source;
mod gather;
mod incarnation;
mod lineage;
mod ahead;
mod candidate;
mod writer;
mod bases;
mod options;
mod retention;
mod status;
mod shipper;
mod handle;
mod restore;
mod listing;
mod database;
mod follower;
#[cfg(test)]
mod tests;

pub use bucket::Bucket;
pub use database::restore;
pub use follower::{Advance, Follower, was_dropped};
pub use handle::Shipper;
pub use listing::{Listing, NamedListing, Reach};
pub use options::Options;
pub use restore::{Goal, Report, moment};
pub use status::{State, Status};
