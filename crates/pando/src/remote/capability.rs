//! What the engine can do and a remote store cannot, where a program or a client can ask for it: options of shared
//! types, and requests to a server.
//!
//! Everything else that a remote store cannot do has no method on its handles, so a program that calls it does not
//! compile.

use crate::database::TableOptions;
use base::{Error, Result};
use std::fmt;
use store::{Compression, RequestedLayout as Layout};

/// A capability of the engine that a remote store does not have.
///
/// The handles of a store reject those that concern tables. A server over a store rejects the others, for which it has
/// requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Capability {
    /// The choice between B+tree and LSM tables: the store has its own layout.
    Layouts,
    /// The compression of a table's pages: the store compresses as it likes.
    Compression,
    /// A TTL of its own for each entry of a table.
    TtlByKey,
    /// Changes of a table that exists, other than its name.
    TableChanges,
    /// A durability for a single write.
    Durability,
    /// Numbers of commits, in the order of commits.
    CommitNumbers,
    /// The feed of changes, and its consumers.
    Changes,
    /// Backups.
    Backups,
    /// Checkpoints, compactions and checks, and the list of those in progress.
    Maintenance,
    /// Counters, sizes and options of a database, their history, and advice from them.
    Statistics,
    /// The list of transactions and snapshots that keep old versions.
    Readers,
    /// The explanation of one read down to its pages.
    Explain,
    /// The removal of a whole database.
    DropDatabase,
    /// Replicas, and their promotion.
    Replicas,
    /// The dashboard, which shows figures of the engine.
    Dashboard,
}

impl Capability {
    /// All capabilities, each of which a store or a server can reject.
    pub const ALL: [Capability; 15] = [
        Capability::Layouts,
        Capability::Compression,
        Capability::TtlByKey,
        Capability::TableChanges,
        Capability::Durability,
        Capability::CommitNumbers,
        Capability::Changes,
        Capability::Backups,
        Capability::Maintenance,
        Capability::Statistics,
        Capability::Readers,
        Capability::Explain,
        Capability::DropDatabase,
        Capability::Replicas,
        Capability::Dashboard,
    ];

    /// Returns the name, as in `ttl-by-key`: lower-case words with hyphens.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Capability::Layouts => "layouts",
            Capability::Compression => "compression",
            Capability::TtlByKey => "ttl-by-key",
            Capability::TableChanges => "table-changes",
            Capability::Durability => "durability",
            Capability::CommitNumbers => "commit-numbers",
            Capability::Changes => "changes",
            Capability::Backups => "backups",
            Capability::Maintenance => "maintenance",
            Capability::Statistics => "statistics",
            Capability::Readers => "readers",
            Capability::Explain => "explain",
            Capability::DropDatabase => "drop-database",
            Capability::Replicas => "replicas",
            Capability::Dashboard => "dashboard",
        }
    }

    /// Returns a sentence that says why a remote store does not have the capability, and what to do instead.
    #[must_use]
    pub const fn advice(self) -> &'static str {
        match self {
            Capability::Layouts => "a remote store keeps tables in its own layout; leave out the option",
            Capability::Compression => {
                "a remote store compresses tables in its own way; leave out the option"
            }
            Capability::TtlByKey => "a remote store has TTLs of whole tables only; leave out the option",
            Capability::TableChanges => {
                "a remote store changes only the name of a table; create another table and copy the records"
            }
            Capability::Durability => {
                "each commit is as durable as the configuration of the store says; leave out the durability"
            }
            Capability::CommitNumbers => {
                "a remote store has no order of commits; leave out the commit's number"
            }
            Capability::Changes => "a remote store has no order of commits, and so no feed of changes",
            Capability::Backups => "use the backups of the store",
            Capability::Maintenance => "the store maintains its files itself",
            Capability::Statistics => "use the statistics of the store",
            Capability::Readers => "the store lists its own transactions",
            Capability::Explain => "use the explanations of the store",
            Capability::DropDatabase => "other servers may use the database; drop its schema in the store",
            Capability::Replicas => "the store replicates itself",
            Capability::Dashboard => "use `/metrics`, and the tools of the store",
        }
    }

    /// Returns the error with which a store rejects this capability: `Invalid`, with [`Unsupported`] as its cause.
    ///
    /// ```
    /// use pando::remote::{Capability, Unsupported};
    /// let error = Capability::Backups.refusal();
    /// assert_eq!(Unsupported::in_error(&error).map(|refused| refused.capability), Some(Capability::Backups));
    /// ```
    #[cold]
    #[must_use]
    pub fn refusal(self) -> Error {
        Error::invalid(self.advice()).caused_by(Unsupported { capability: self })
    }
}

/// The cause of the error with which a remote store rejects a [`Capability`]. [`Unsupported::in_error`] finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// The capability that the store does not have.
    pub capability: Capability,
}

impl Unsupported {
    /// Returns the cause of `error` if a store rejected a capability, and `None` for every other error.
    #[must_use]
    pub fn in_error(error: &Error) -> Option<Unsupported> {
        std::error::Error::source(error)?.downcast_ref().copied()
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the capability `{}` belongs to Pando's own engine", self.capability.name())
    }
}

impl std::error::Error for Unsupported {}

/// Rejects the options of a table that need a capability of the engine.
pub(super) fn check_options(options: &TableOptions) -> Result<()> {
    // Every field is named, so that a new option is either refused here or implemented.
    let TableOptions { layout, ttl: _, ttl_by_key, compression } = *options;
    if layout != Layout::default() {
        return Err(Capability::Layouts.refusal());
    }
    if compression != Compression::default() {
        return Err(Capability::Compression.refusal());
    }
    if ttl_by_key {
        return Err(Capability::TtlByKey.refusal());
    }
    Ok(())
}
