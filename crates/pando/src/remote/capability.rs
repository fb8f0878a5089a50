//! What a remote store cannot do although the shared types can ask for it.
//!
//! Everything else that it cannot do is no method of its handles, and does not compile: checkpoints, backups, checks,
//! feeds of changes, layouts, `explain`.

use crate::database::TableOptions;
use base::{Error, Result};
use std::fmt;
use store::{Compression, RequestedLayout as Layout};

/// A capability of the engine that a remote store does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Capability {
    /// The choice between B+tree and LSM tables: the store has its own layout.
    Layouts,
    /// The compression of a table's pages: the store compresses as it likes.
    Compression,
    /// A TTL of its own for each entry of a table.
    TtlByKey,
}

impl Capability {
    /// All capabilities that can be refused.
    pub const ALL: [Capability; 3] = [Capability::Layouts, Capability::Compression, Capability::TtlByKey];

    /// Returns the name: `layouts`, `compression` or `ttl-by-key`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Capability::Layouts => "layouts",
            Capability::Compression => "compression",
            Capability::TtlByKey => "ttl-by-key",
        }
    }
}

/// The cause of the error with which a remote store refuses a [`Capability`]. Find it with [`Unsupported::in_error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// What the store does not have.
    pub capability: Capability,
}

impl Unsupported {
    /// Returns the cause of `error` if a store refused a capability.
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
        return Err(refused(Capability::Layouts, "a remote store keeps tables in its own layout"));
    }
    if compression != Compression::default() {
        return Err(refused(Capability::Compression, "a remote store compresses tables in its own way"));
    }
    if ttl_by_key {
        return Err(refused(Capability::TtlByKey, "a remote store has TTLs of whole tables only"));
    }
    Ok(())
}

#[cold]
fn refused(capability: Capability, why: &str) -> Error {
    let message = format!("{why}; leave out the option");
    Error::invalid(message).caused_by(Unsupported { capability })
}
