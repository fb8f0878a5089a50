//! Where in the protocol a crash struck: a moment belongs to the step whose next event it prevented.

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
    /// All, in the order of the table.
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

    /// The step of a checkpoint.
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

    /// As the table shows it.
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

/// Which step was under way at each moment of a disk's history.
#[derive(Clone, Debug, Default)]
pub struct Course {
    /// Each step with the number of events before its first, ascending.
    steps: Vec<(usize, Phase)>,
}

impl Course {
    /// `phase` begins after `events` events.
    pub fn enter(&mut self, events: usize, phase: Phase) {
        self.steps.push((events, phase));
    }

    /// The step that was begun after exactly `events` events was `phase`, as its events showed.
    pub fn correct(&mut self, events: usize, phase: Phase) {
        if let Some(last) = self.steps.last_mut().filter(|step| step.0 == events) {
            last.1 = phase;
        }
    }

    /// The step under way when the power went after `events` events.
    pub fn at(&self, events: usize) -> Phase {
        let after = self.steps.partition_point(|step| step.0 <= events);
        self.steps[after.saturating_sub(1)].1
    }

    /// Enters the steps of an opening, which began after `start` events, as its events tell them.
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

    /// Whether `name` is a file that these events did not make: the end block goes to the segment before.
    fn is_end(&self, name: &str, events: &[Event]) -> bool {
        !events.iter().any(|event| match event {
            Event::Create { name: made, .. } | Event::Rename { to: made, .. } => **made == *name,
            _ => false,
        })
    }
}
