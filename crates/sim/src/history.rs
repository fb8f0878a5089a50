//! The result of a run: the histories of its disks, the protocol step of each moment, and what a crash at a moment must
//! preserve.

use crate::copying::Copies;
use crate::model::Model;
use crate::phase::Course;
use io::sim::SimDisk;
use store::Options;

/// The state that a crash must preserve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Promise {
    /// Whether the database exists.
    pub exists: bool,
    /// The number of commits that survive a power loss.
    pub synced: u64,
    /// The number of commits that survive a killed process.
    pub buffered: u64,
}

/// The counts of protocol events in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crossed {
    /// The number of sealed memtables.
    pub seals: u64,
    /// The number of checkpoints.
    pub checkpoints: u64,
    /// The number of log segments that were begun because another was full.
    pub switches: u64,
}

/// One opening of the database, and the events until it ended.
#[derive(Debug)]
pub struct Session {
    /// The disk with its history.
    pub disk: SimDisk,
    /// The first moment of the session, in events.
    pub first: usize,
    /// The last moment of the session, in events.
    pub last: usize,
    /// The protocol step of each moment.
    pub course: Course,
    /// The promises, each with the number of events from which it holds, ascending.
    pub promises: Vec<(usize, Promise)>,
}

impl Session {
    /// Returns what a crash after `events` events must preserve.
    pub fn promise(&self, events: usize) -> Promise {
        let after = self.promises.partition_point(|promise| promise.0 <= events);
        self.promises[after.saturating_sub(1)].1
    }
}

/// The result of a seed's run.
#[derive(Debug)]
pub struct Run {
    /// The options with which the database was opened.
    pub options: Options,
    /// The expected content after each commit.
    pub model: Model,
    /// The sessions of the run.
    pub sessions: Vec<Session>,
    /// The counts of all sessions.
    pub crossed: Crossed,
    /// The backups taken meanwhile.
    pub copies: Copies,
    /// The number of times that a reader in another process looked.
    pub looks: u64,
    /// The number of commits that were delivered to a consumer.
    pub given: u64,
}
