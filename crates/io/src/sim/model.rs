//! What a disk holds: as the process sees it, as it is durable, and the pending changes between the two.
//!
//! One function, [`Model::apply`], moves the state by one [`Event`]. The running disk and the replay of its history
//! both use it, so they cannot drift apart.
//!
//! 1. A file's `live` content is what the process reads. Its `durable` content is what every crash preserves. Its
//!    `pending` changes, applied to the durable content in order, give the live one.
//! 2. A successful sync makes the live content durable, except for the *abandoned* changes: those that were pending
//!    when an earlier sync failed. The kernel treats their pages as written and will not write them again. They stay
//!    pending until the same bytes are written again and synced. (Lengths are metadata, which the next successful sync
//!    writes.)
//! 3. Names work in the same way: `names`, `durable_names`, and `name_changes` between them. Only a directory sync
//!    settles them.

use super::content::{Content, Payload};
use super::event::{Event, NodeId};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) type Names = BTreeMap<Arc<str>, NodeId>;

/// The state of a disk. It is shared copy-on-write: a clone costs a few reference counts a file.
#[derive(Clone, Default)]
pub(super) struct Model {
    /// The number of events so far.
    pub(super) events: usize,
    pub(super) names: Names,
    pub(super) durable_names: Arc<Names>,
    pub(super) name_changes: Arc<Vec<(usize, NameChange)>>,
    pub(super) nodes: BTreeMap<NodeId, Node>,
}

#[derive(Clone, Default)]
pub(super) struct Node {
    pub(super) live: Arc<Content>,
    pub(super) durable: Arc<Content>,
    pub(super) pending: Arc<Vec<Pending>>,
}

/// A change of a file that no sync has settled.
#[derive(Clone)]
pub(super) struct Pending {
    pub(super) event: usize,
    pub(super) change: Change,
    abandoned: bool,
}

#[derive(Clone)]
pub(super) enum Change {
    Write(Payload),
    Resize(u64),
    Allocate { offset: u64, len: u64 },
    Discard { offset: u64, len: u64 },
}

#[derive(Clone)]
pub(super) enum NameChange {
    Create { name: Arc<str>, node: NodeId },
    Rename { from: Arc<str>, to: Arc<str>, node: NodeId },
    Remove { name: Arc<str>, node: NodeId },
}

impl Model {
    /// Creates a disk on which exactly `files` are durable.
    pub(super) fn holding(files: &BTreeMap<Arc<str>, Arc<Content>>) -> Model {
        let mut model = Model::default();
        for (node, (name, content)) in files.iter().enumerate() {
            model.names.insert(Arc::clone(name), node as NodeId);
            let node_state =
                Node { live: Arc::clone(content), durable: Arc::clone(content), ..Node::default() };
            model.nodes.insert(node as NodeId, node_state);
        }
        model.durable_names = Arc::new(model.names.clone());
        model
    }

    pub(super) fn apply(&mut self, event: &Event) {
        let at = self.events;
        self.events += 1;
        match event {
            Event::Create { name, node } => {
                self.nodes.insert(*node, Node::default());
                self.rename(at, NameChange::Create { name: Arc::clone(name), node: *node });
            }
            Event::Rename { from, to } => {
                let (from, to, node) = (Arc::clone(from), Arc::clone(to), self.names[from]);
                self.rename(at, NameChange::Rename { from, to, node });
            }
            Event::Remove { name } => {
                let (name, node) = (Arc::clone(name), self.names[name]);
                self.rename(at, NameChange::Remove { name, node });
            }
            Event::DirSync => {
                self.durable_names = Arc::new(self.names.clone());
                self.name_changes = Arc::default();
            }
            Event::Write { node, payload, .. } => self.node(*node).change(at, Change::Write(payload.clone())),
            Event::Resize { node, len, .. } => self.node(*node).change(at, Change::Resize(*len)),
            Event::Allocate { node, offset, len, .. } => {
                self.node(*node).change(at, Change::Allocate { offset: *offset, len: *len });
            }
            Event::Discard { node, offset, len, .. } => {
                self.node(*node).change(at, Change::Discard { offset: *offset, len: *len });
            }
            Event::Sync { node, .. } => self.node(*node).sync(),
            Event::FailedSync { node, .. } => self.node(*node).abandon(),
            Event::Mark(_) => {}
        }
    }

    fn node(&mut self, node: NodeId) -> &mut Node {
        self.nodes.get_mut(&node).expect("events name files that were created")
    }

    fn rename(&mut self, at: usize, change: NameChange) {
        change.apply(&mut self.names);
        Arc::make_mut(&mut self.name_changes).push((at, change));
    }

    /// Drops the files that no name, settled or not, and no handle reaches.
    pub(super) fn collect(&mut self, is_open: impl Fn(NodeId) -> bool) {
        let named: Vec<NodeId> = self.reachable();
        self.nodes.retain(|&node, _| is_open(node) || named.binary_search(&node).is_ok());
    }

    /// Returns the files that can have a name after a crash, or have one now. Sorted.
    pub(super) fn reachable(&self) -> Vec<NodeId> {
        let changed = self.name_changes.iter().map(|(_, change)| change.node());
        let names = self.names.values().chain(self.durable_names.values());
        let mut nodes: Vec<NodeId> = names.copied().chain(changed).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }
}

impl NameChange {
    fn node(&self) -> NodeId {
        match self {
            NameChange::Create { node, .. }
            | NameChange::Rename { node, .. }
            | NameChange::Remove { node, .. } => *node,
        }
    }

    /// Applies the change. Does nothing if its file or name is missing, because its creation may have been lost.
    pub(super) fn apply(&self, names: &mut Names) {
        match self {
            NameChange::Create { name, node } => {
                names.insert(Arc::clone(name), *node);
            }
            NameChange::Rename { from, to, node } if names.get(from) == Some(node) => {
                names.remove(from);
                names.insert(Arc::clone(to), *node);
            }
            NameChange::Remove { name, node } if names.get(name) == Some(node) => {
                names.remove(name);
            }
            _ => {}
        }
    }
}

impl Change {
    pub(super) fn apply(&self, content: &mut Content) {
        match self {
            Change::Write(payload) => payload.apply(content),
            Change::Resize(len) => content.resize(*len),
            Change::Allocate { offset, len } => content.allocate(*offset, *len),
            Change::Discard { offset, len } => content.punch(*offset, *len),
        }
    }

    /// Returns the range whose earlier bytes this change replaces.
    fn replaces(&self) -> (u64, u64) {
        match self {
            Change::Write(payload) => (payload.offset(), payload.end()),
            Change::Resize(len) => (*len, u64::MAX),
            Change::Allocate { .. } => (0, 0),
            Change::Discard { offset, len } => (*offset, offset.saturating_add(*len)),
        }
    }
}

impl Node {
    fn change(&mut self, event: usize, change: Change) {
        change.apply(Arc::make_mut(&mut self.live));
        Arc::make_mut(&mut self.pending).push(Pending { event, change, abandoned: false });
    }

    fn abandon(&mut self) {
        Arc::make_mut(&mut self.pending).iter_mut().for_each(|pending| pending.abandoned = true);
    }

    fn sync(&mut self) {
        if !self.pending.iter().any(|pending| pending.abandoned) {
            self.durable = Arc::clone(&self.live);
            self.pending = Arc::default();
            return;
        }
        let durable = Arc::make_mut(&mut self.durable);
        let mut left: Vec<Pending> = Vec::new();
        for pending in self.pending.iter() {
            match &pending.change {
                Change::Write(payload) if pending.abandoned => {
                    durable.resize(durable.len().max(payload.end()));
                    left.push(pending.clone());
                }
                change => {
                    change.apply(durable);
                    let (start, end) = change.replaces();
                    left.retain_mut(|abandoned| abandoned.trim(start, end));
                }
            }
        }
        debug_assert_eq!(durable.len(), self.live.len());
        self.pending = Arc::new(left);
    }
}

impl Pending {
    /// Removes the effect of the change on `start..end`. Returns whether anything is left of the change.
    fn trim(&mut self, start: u64, end: u64) -> bool {
        match &mut self.change {
            Change::Write(payload) => payload.without(start, end).map(|left| *payload = left).is_some(),
            Change::Resize(_) | Change::Allocate { .. } | Change::Discard { .. } => true,
        }
    }
}
