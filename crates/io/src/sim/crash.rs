//! The result of a power loss: durable content plus a choice among the pending changes, made by a [`Fate`].
//!
//! A [`Crash`] is one moment. Its pending changes, those of names and those of all files that can have a name
//! afterwards, are numbered in the order in which they happened. A fate says for each number whether that change
//! reached the disk, and if it is a write, which of its sectors. Then:
//!
//! 1. names: the durable ones, changed by the kept changes in order;
//! 2. bytes: the durable ones, changed by the kept (parts of) changes in order. A file is as long as its last kept
//!    sector needs, with zeros in the gaps;
//! 3. length: left so, or forced to the old one, the new one, or one between.

use super::content::{Content, fold};
use super::event::NodeId;
use super::model::{Change, Model, NameChange, Names};
use base::env::Random;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A choice of the pending changes that survive a power loss. Changes are numbered from 0 in the order in which they
/// happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fate {
    /// No change survives.
    Nothing,
    /// All changes survive, as after a killed process.
    Everything,
    /// Creates, renames and removes survive, but no bytes and no lengths.
    NamesOnly,
    /// Bytes and lengths survive, but no creates, renames and removes.
    DataOnly,
    /// The first changes survive, this many of them.
    Prefix(usize),
    /// All changes but this one survive.
    DropOne(usize),
    /// Only this change survives.
    KeepOne(usize),
    /// All changes before this write survive, none after it, and of the write itself only these sectors, counted from
    /// the first that it touches.
    Torn {
        /// The number of the write.
        write: usize,
        /// The size of a sector in bytes: 512 or 4096.
        sector_bytes: u64,
        /// The sectors that survive.
        kept: Range<u64>,
    },
    /// All names and bytes survive, but files are as long as they were at their last sync.
    OldLengths,
    /// All names and the new lengths survive, but no bytes: new bytes read as zeros.
    NewLengths,
    /// All names and bytes survive. Each file is cut or extended to a random length between the old and the new one,
    /// which the seed determines.
    LengthsBetween(u64),
    /// Each change is kept, lost or torn at either sector size, and some lengths are between. The seed determines
    /// which.
    Subset(u64),
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// What happens to one change.
enum Keep {
    Lost,
    Whole,
    Sectors { sector_bytes: u64, kept: Range<u64> },
    Scattered { sector_bytes: u64, seed: u64 },
}

enum Length {
    AsKept,
    Old,
    New,
    Between(u64),
}

impl Fate {
    fn of_change(&self, number: usize, is_name: bool) -> Keep {
        let kept = match self {
            Fate::Nothing => false,
            Fate::Everything | Fate::OldLengths | Fate::LengthsBetween(_) => true,
            Fate::NamesOnly | Fate::NewLengths => is_name,
            Fate::DataOnly => !is_name,
            Fate::Prefix(count) => number < *count,
            Fate::DropOne(dropped) => number != *dropped,
            Fate::KeepOne(kept) => number == *kept,
            Fate::Torn { write, sector_bytes, kept } if number == *write => {
                return Keep::Sectors { sector_bytes: *sector_bytes, kept: kept.clone() };
            }
            Fate::Torn { write, .. } => number < *write,
            Fate::Subset(seed) => return Fate::by_chance(*seed, number),
        };
        if kept { Keep::Whole } else { Keep::Lost }
    }

    /// Some subsets keep little, some much: a fair coin for each of many changes would make all subsets alike.
    fn by_chance(seed: u64, number: usize) -> Keep {
        let kept_of_8 = 1 + Random::seeded(seed).below(7);
        let mut random = Random::seeded(fold(seed, number as u64));
        match random.below(8) {
            0 => Keep::Scattered { sector_bytes: 512, seed: random.next_u64() },
            1 => Keep::Scattered { sector_bytes: 4096, seed: random.next_u64() },
            _ if random.chance(kept_of_8, 8) => Keep::Whole,
            _ => Keep::Lost,
        }
    }

    fn of_length(&self, node: NodeId) -> Length {
        match self {
            Fate::OldLengths => Length::Old,
            Fate::NewLengths => Length::New,
            Fate::LengthsBetween(seed) => Length::Between(fold(*seed, node)),
            Fate::Subset(seed) => {
                let mut random = Random::seeded(fold(!*seed, node));
                match random.below(8) {
                    0 => Length::New,
                    1 => Length::Between(random.next_u64()),
                    _ => Length::AsKept,
                }
            }
            _ => Length::AsKept,
        }
    }
}

/// One moment of a disk, from which every power loss can be made.
pub(super) struct Crash {
    pub(super) event: usize,
    names: Arc<Names>,
    name_changes: Vec<(usize, NameChange)>,
    files: BTreeMap<NodeId, Unsettled>,
    pending: usize,
    last_of_512: Option<(usize, u64)>,
    last_of_4096: Option<(usize, u64)>,
}

/// A file with its numbered pending changes.
struct Unsettled {
    durable: Arc<Content>,
    live_len: u64,
    changes: Vec<(usize, Change)>,
}

impl Crash {
    pub(super) fn new(model: &Model) -> Crash {
        let reachable = model.reachable();
        let of_files = reachable.iter().flat_map(|node| model.nodes[node].pending.iter().map(|p| p.event));
        // One file can have several pieces of one event left; they share its number.
        let mut order: Vec<usize> = model.name_changes.iter().map(|(at, _)| *at).chain(of_files).collect();
        order.sort_unstable();
        order.dedup();
        let number = |event: &usize| order.binary_search(event).expect("every pending event is in the order");

        let mut files = BTreeMap::new();
        for node in &reachable {
            let state = &model.nodes[node];
            let changes = state.pending.iter().map(|p| (number(&p.event), p.change.clone())).collect();
            let (durable, live_len) = (Arc::clone(&state.durable), state.live.len());
            files.insert(*node, Unsettled { durable, live_len, changes });
        }
        let name_changes =
            model.name_changes.iter().map(|(at, change)| (number(at), change.clone())).collect();
        let names = Arc::clone(&model.durable_names);
        let [last_of_512, last_of_4096] =
            [512, 4096].map(|sector_bytes| last_of_several(&files, sector_bytes));
        let (event, pending) = (model.events, order.len());
        Crash { event, names, name_changes, files, pending, last_of_512, last_of_4096 }
    }

    /// Returns how many changes are pending.
    pub(super) fn pending(&self) -> usize {
        self.pending
    }

    /// Returns the last pending write of more than one sector: its number, and how many sectors it touches.
    pub(super) fn last_to_tear(&self, sector_bytes: u64) -> Option<(usize, u64)> {
        if sector_bytes == 512 { self.last_of_512 } else { self.last_of_4096 }
    }

    /// Returns whether any file's length is pending.
    pub(super) fn lengths_differ(&self) -> bool {
        self.files.values().any(|file| file.durable.len() != file.live_len)
    }

    /// Returns the files as `fate` leaves them.
    pub(super) fn files(&self, fate: &Fate) -> BTreeMap<Arc<str>, Arc<Content>> {
        let mut names = Arc::clone(&self.names);
        for (number, change) in &self.name_changes {
            // A directory entry is smaller than a sector, so it survives as a whole or not at all.
            if matches!(fate.of_change(*number, true), Keep::Whole) {
                change.apply(Arc::make_mut(&mut names));
            }
        }
        names.iter().map(|(name, node)| (Arc::clone(name), self.files[node].after(fate, *node))).collect()
    }
}

fn last_of_several(files: &BTreeMap<NodeId, Unsettled>, sector_bytes: u64) -> Option<(usize, u64)> {
    let changes = files.values().flat_map(|file| &file.changes);
    let several = changes.filter_map(|(number, change)| match change {
        Change::Write(payload) => Some((*number, payload.sectors(sector_bytes))).filter(|write| write.1 > 1),
        _ => None,
    });
    several.max()
}

impl Unsettled {
    fn after(&self, fate: &Fate, node: NodeId) -> Arc<Content> {
        let mut content = Arc::clone(&self.durable);
        for (number, change) in &self.changes {
            match (fate.of_change(*number, false), change) {
                (Keep::Lost, _) => {}
                (Keep::Sectors { sector_bytes, kept }, Change::Write(payload)) => {
                    payload.apply_sectors(Arc::make_mut(&mut content), sector_bytes, |s| kept.contains(&s));
                }
                (Keep::Scattered { sector_bytes, seed }, Change::Write(payload)) => {
                    let mut random = Random::seeded(seed);
                    payload.apply_sectors(Arc::make_mut(&mut content), sector_bytes, |_| random.chance(1, 2));
                }
                (_, change) => change.apply(Arc::make_mut(&mut content)),
            }
        }
        let (old, new) = (self.durable.len(), self.live_len);
        let len = match fate.of_length(node) {
            Length::AsKept => content.len(),
            Length::Old => old,
            Length::New => new,
            Length::Between(seed) => old.min(new) + Random::seeded(seed).below(old.abs_diff(new) + 1),
        };
        if len != content.len() {
            Arc::make_mut(&mut content).resize(len);
        }
        content
    }
}
