//! The protocol step in which a crash happens: a moment belongs to the step whose next event it prevents.

use io::sim::{Event, SimDisk};
use store::checkpoint::Step;

/// A step of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)] // Their labels say what they are.
pub enum Phase {
    Creation,
    RecoveryRead,
    RecoveryRewrite,
    RecoveryGeneration,
    RecoveryEnd,
    RecoveryCheckpoint,
    Append,
    SegmentSwitch,
    Seal,
    GroupSync,
    SyncLog,
    Absorb,
    Compact,
    Relocate,
    PhysicalRows,
    SpaceMap,
    SyncData,
    Superblock,
    SyncSuperblock,
    Switch,
    Note,
    Free,
    Close,
}

impl Phase {
    /// All steps in the order of the table.
    pub const ALL: [Phase; 23] = [
        Phase::Creation,
        Phase::RecoveryRead,
        Phase::RecoveryRewrite,
        Phase::RecoveryGeneration,
        Phase::RecoveryEnd,
        Phase::RecoveryCheckpoint,
        Phase::Append,
        Phase::SegmentSwitch,
        Phase::Seal,
        Phase::GroupSync,
        Phase::SyncLog,
        Phase::Absorb,
        Phase::Compact,
        Phase::Relocate,
        Phase::PhysicalRows,
        Phase::SpaceMap,
        Phase::SyncData,
        Phase::Superblock,
        Phase::SyncSuperblock,
        Phase::Switch,
        Phase::Note,
        Phase::Free,
        Phase::Close,
    ];

    /// Returns the phase of a checkpoint's step.
    pub fn of_checkpoint(step: Step) -> Phase {
        match step {
            Step::SyncLog => Phase::SyncLog,
            Step::Absorb => Phase::Absorb,
            Step::Compact => Phase::Compact,
            Step::Relocate => Phase::Relocate,
            Step::PhysicalRows => Phase::PhysicalRows,
            Step::SpaceMap => Phase::SpaceMap,
            Step::SyncData => Phase::SyncData,
            Step::Superblock => Phase::Superblock,
            Step::SyncSuperblock => Phase::SyncSuperblock,
            Step::Switch => Phase::Switch,
            Step::Note => Phase::Note,
            Step::Free | Step::DropLog | Step::Done => Phase::Free,
        }
    }

    /// Returns the label in the table.
    pub fn label(self) -> &'static str {
        match self {
            Phase::Creation => "creation",
            Phase::RecoveryRead => "recovery: read",
            Phase::RecoveryRewrite => "recovery: tail again",
            Phase::RecoveryGeneration => "recovery: generation",
            Phase::RecoveryEnd => "recovery: end block",
            Phase::RecoveryCheckpoint => "recovery: checkpoint",
            Phase::Append => "commit append",
            Phase::SegmentSwitch => "segment switch",
            Phase::Seal => "seal",
            Phase::GroupSync => "group sync",
            Phase::SyncLog => "cp: sync log",
            Phase::Absorb => "cp: absorb",
            Phase::Compact => "cp: compact",
            Phase::Relocate => "cp: relocate",
            Phase::PhysicalRows => "cp: physical rows",
            Phase::SpaceMap => "cp: space map",
            Phase::SyncData => "cp: sync data",
            Phase::Superblock => "cp: superblock",
            Phase::SyncSuperblock => "cp: sync superblock",
            Phase::Switch => "cp: switch",
            Phase::Note => "cp: note in log",
            Phase::Free => "cp: free",
            Phase::Close => "close",
        }
    }
}

/// The step in progress at each moment of a disk's history.
#[derive(Clone, Debug, Default)]
pub struct Course {
    /// The steps, each with the number of events before its first, ascending.
    steps: Vec<(usize, Phase)>,
}

impl Course {
    /// Notes that `phase` begins after `events` events.
    pub fn enter(&mut self, events: usize, phase: Phase) {
        self.steps.push((events, phase));
    }

    /// Corrects the step that was begun after exactly `events` events to `phase`, as its events showed.
    pub fn correct(&mut self, events: usize, phase: Phase) {
        if let Some(last) = self.steps.last_mut().filter(|step| step.0 == events) {
            last.1 = phase;
        }
    }

    /// Returns the step in progress at a power loss after `events` events.
    pub fn at(&self, events: usize) -> Phase {
        let after = self.steps.partition_point(|step| step.0 <= events);
        self.steps[after.saturating_sub(1)].1
    }

    /// Enters the steps of an opening, which began after `start` events, as derived from its events.
    pub fn enter_recovery(&mut self, disk: &SimDisk, start: usize, created: bool) {
        if created {
            self.enter(start, Phase::Creation);
            return;
        }
        self.enter(start, Phase::RecoveryRead);
        let events = disk.events_since(start);
        let mut phase = Phase::RecoveryRead;
        for (at, event) in (start..).zip(&events) {
            let next = match (phase, event) {
                (Phase::RecoveryRead, Event::Write { .. } | Event::Sync { .. }) => Phase::RecoveryRewrite,
                (
                    Phase::RecoveryRead | Phase::RecoveryRewrite,
                    Event::Create { .. } | Event::Rename { .. },
                ) => Phase::RecoveryGeneration,
                (Phase::RecoveryGeneration, Event::Write { name, .. }) if self.is_end(name, &events) => {
                    Phase::RecoveryEnd
                }
                (Phase::RecoveryEnd, Event::Write { name, .. }) if **name == *"data" => {
                    Phase::RecoveryCheckpoint
                }
                _ => phase,
            };
            if next != phase {
                self.enter(at, next);
                phase = next;
            }
        }
    }

    /// Returns whether `name` is a file that these events did not create: the end block is written to the previous
    /// segment.
    fn is_end(&self, name: &str, events: &[Event]) -> bool {
        !events.iter().any(|event| match event {
            Event::Create { name: made, .. } | Event::Rename { to: made, .. } => **made == *name,
            _ => false,
        })
    }
}
