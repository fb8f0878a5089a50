//! What a run leaves: the histories of its disks, where each moment lies in the protocol, and what a crash there must
//! preserve.

use crate::copying::Copies;
use crate::model::Model;
use crate::phase::Course;
use io::sim::SimDisk;
use store::Options;

/// What a crash must preserve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Promise {
    /// Whether the database exists.
    pub exists: bool,
    /// Commits that survive a power loss.
    pub synced: u64,
    /// Commits that survive a killed process.
    pub buffered: u64,
}

/// What a run crossed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crossed {
    /// Memtables sealed.
    pub seals: u64,
    /// Checkpoints made.
    pub checkpoints: u64,
    /// Log segments begun because another was full.
    pub switches: u64,
}

/// One opening of the database, and what happened until it ended.
#[derive(Debug)]
pub struct Session {
    /// The disk, with its history.
    pub disk: SimDisk,
    /// The first moment that belongs to the session, in events.
    pub first: usize,
    /// The last one.
    pub last: usize,
    /// Where in the protocol each moment lies.
    pub course: Course,
    /// What was promised from a number of events on, ascending.
    pub promises: Vec<(usize, Promise)>,
}

impl Session {
    /// What a crash after `events` events must preserve.
    pub fn promise(&self, events: usize) -> Promise {
        let after = self.promises.partition_point(|promise| promise.0 <= events);
        self.promises[after.saturating_sub(1)].1
    }
}

/// What a seed's run left.
#[derive(Debug)]
pub struct Run {
    /// What the database was opened with.
    pub options: Options,
    /// What it should hold after each commit.
    pub model: Model,
    /// Its sessions.
    pub sessions: Vec<Session>,
    /// What they crossed together.
    pub crossed: Crossed,
    /// Backups taken meanwhile.
    pub copies: Copies,
    /// How often a reader in another process looked.
    pub looks: u64,
    /// Commits that a consumer was given.
    pub given: u64,
}
