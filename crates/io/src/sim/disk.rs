//! The simulated disk: its state, its history, and the requests of a test harness.

use super::content::BLOCK_BYTES;
use super::crash::{Crash, Fate};
use super::event::{Event, NodeId};
use super::fault::{CallKind, Fault, Faults};
use super::handles::SimDir;
use super::image::{Image, ImageKind, Images};
use super::model::Model;
use crate::Dir;
use crate::dir::Holders;
use base::env::Random;
use base::sync::{Mutex, MutexGuard, lock};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// A disk with one directory; see [the module](super). A clone is another handle to the same disk.
#[derive(Clone)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
}

/// The state, protected by one lock.
pub(super) struct State {
    pub(super) model: Model,
    history: History,
    pub(super) faults: Faults,
    pub(super) locks: BTreeMap<Arc<str>, Holders>,
    /// The number of handles of each file.
    open: BTreeMap<NodeId, usize>,
    capacity_bytes: Option<u64>,
    pub(super) maps: bool,
}

/// The events since `first`, and the states at regular intervals before them.
struct History {
    kept: bool,
    first: usize,
    events: Vec<Event>,
    states: Vec<Model>,
}

/// The largest number of events that are replayed to reach a past moment.
const EVENTS_PER_STATE: usize = 64;

impl Default for SimDisk {
    fn default() -> SimDisk {
        SimDisk::new()
    }
}

impl SimDisk {
    /// Creates an empty disk of unlimited size, without faults, which supports mappings and keeps its history.
    pub fn new() -> SimDisk {
        SimDisk::holding(Model::default())
    }

    pub(super) fn holding(model: Model) -> SimDisk {
        let history = History { kept: true, first: model.events, events: Vec::new(), states: Vec::new() };
        let state = State {
            model,
            history,
            faults: Faults::default(),
            locks: BTreeMap::new(),
            open: BTreeMap::new(),
            capacity_bytes: None,
            maps: true,
        };
        SimDisk { state: Arc::new(Mutex::new(state)) }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Returns the disk's directory.
    pub fn dir(&self) -> Arc<dyn Dir> {
        Arc::new(SimDir::new(self.clone()))
    }

    /// Sets whether files can be mapped and space be allocated. The default is that they can.
    pub fn set_maps(&self, maps: bool) {
        self.state().maps = maps;
    }

    /// Limits the disk to `bytes`, or removes the limit with `None`. Blocks of 4 KiB that were written or allocated
    /// take space. A write that does not fit fails with [`ErrorKind::Full`](base::ErrorKind::Full), after writing what
    /// fits.
    pub fn set_capacity(&self, bytes: impl Into<Option<u64>>) {
        self.state().capacity_bytes = bytes.into();
    }

    /// Returns how many bytes of disk space the files take.
    pub fn used_bytes(&self) -> u64 {
        self.state().used_bytes()
    }

    /// Makes a call fail. Several faults may be armed.
    pub fn inject(&self, fault: Fault) {
        self.state().faults.inject(fault);
    }

    /// Disarms all faults.
    pub fn clear_faults(&self) {
        self.state().faults.clear();
    }

    /// Drops the lock of this file, as when the file is deleted and created anew.
    pub fn lose_lock(&self, name: &str) {
        self.state().locks.remove(name);
    }

    /// Drops all locks, as a file system does that does not keep them.
    pub fn lose_locks(&self) {
        self.state().locks.clear();
    }

    /// Returns how many calls were made to fail by [`inject`](SimDisk::inject).
    pub fn faults_hit(&self) -> u64 {
        self.state().faults.hits()
    }

    /// Returns how many calls of `kind` were made, including failed ones.
    pub fn calls(&self, kind: CallKind) -> u64 {
        self.state().faults.calls(kind)
    }

    /// Records a note of the harness, such as "commit 7 acknowledged". Returns the index of its event.
    pub fn mark(&self, label: impl Into<Arc<str>>) -> usize {
        let mut state = self.state();
        state.record(&Event::Mark(label.into()));
        state.model.events - 1
    }

    /// Returns how many events have happened.
    pub fn event_count(&self) -> usize {
        self.state().model.events
    }

    /// Returns the recorded events, and the index of the first, which is not 0 if some were dropped.
    pub fn events(&self) -> (usize, Vec<Event>) {
        let state = self.state();
        (state.history.first, state.history.events.clone())
    }

    /// Returns the events after the first `at`, as far as they are recorded.
    pub fn events_since(&self, at: usize) -> Vec<Event> {
        let state = self.state();
        let History { first, events, .. } = &state.history;
        events.get(at.saturating_sub(*first)..).unwrap_or_default().to_vec()
    }

    /// Drops the recorded events, and records no more if `kept` is false. Use it for long runs that take their images
    /// by [`images_now`](SimDisk::images_now) alone.
    pub fn keep_history(&self, kept: bool) {
        let mut state = self.state();
        let first = state.model.events;
        state.history = History { kept, first, events: Vec::new(), states: Vec::new() };
    }

    /// Returns the images of the moment after the first `at` events; `at` may be [`event_count`](SimDisk::event_count).
    /// `random` picks the samples and the seeds.
    ///
    /// # Panics
    /// If that part of the history is not recorded.
    pub fn images(&self, at: usize, kinds: &[ImageKind], random: &mut Random) -> Images {
        Images::new(&self.state().at(at), kinds, random)
    }

    /// Returns the images of this moment. It needs no history; the disk may continue while they are made.
    pub fn images_now(&self, kinds: &[ImageKind], random: &mut Random) -> Images {
        Images::new(&self.state().model, kinds, random)
    }

    /// Returns one image, to reproduce a failure.
    ///
    /// # Panics
    /// If that part of the history is not recorded.
    pub fn image(&self, at: usize, fate: Fate) -> Image {
        Image::new(&Crash::new(&self.state().at(at)), fate)
    }

    /// Returns the disk that a killed process leaves to the next one: everything as the process saw it, pending changes
    /// still pending, no locks, no handles. The two disks are separate from here on.
    pub fn after_kill(&self) -> SimDisk {
        let state = self.state();
        let mut model = state.model.clone();
        model.collect(|_| false);
        let next = SimDisk::holding(model);
        {
            let mut next = next.state();
            (next.maps, next.capacity_bytes) = (state.maps, state.capacity_bytes);
        }
        next
    }
}

impl fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        let files = state.model.names.iter().map(|(name, node)| (name, &state.model.nodes[node].live));
        write!(f, "simulated disk after {} events: ", state.model.events)?;
        f.debug_map().entries(files).finish()
    }
}

impl State {
    /// Applies `event` and records it.
    pub(super) fn record(&mut self, event: &Event) {
        let history = &mut self.history;
        if history.kept {
            if history.events.len().is_multiple_of(EVENTS_PER_STATE) {
                history.states.push(self.model.clone());
            }
            history.events.push(event.clone());
        }
        self.model.apply(event);
        if matches!(event, Event::DirSync) {
            self.model.collect(|node| self.open.contains_key(&node));
        }
    }

    /// Returns the state after the first `at` events.
    fn at(&self, at: usize) -> Model {
        if at == self.model.events {
            return self.model.clone();
        }
        let History { first, events, states, .. } = &self.history;
        assert!((*first..*first + events.len()).contains(&at), "event {at} is not recorded");
        let index = (at - first) / EVENTS_PER_STATE;
        let mut model = states[index].clone();
        for event in &events[index * EVENTS_PER_STATE..at - first] {
            model.apply(event);
        }
        model
    }

    pub(super) fn opened(&mut self, node: NodeId) {
        *self.open.entry(node).or_default() += 1;
    }

    pub(super) fn closed(&mut self, node: NodeId) {
        let count = self.open.get_mut(&node).expect("only open files are closed");
        *count -= 1;
        if *count == 0 {
            self.open.remove(&node);
        }
    }

    /// Returns the bytes in use. Removed files free their space when their last handle is closed, as on a real disk.
    fn used_bytes(&self) -> u64 {
        let named = self.model.names.values();
        let nodes: BTreeSet<&NodeId> = named.chain(self.open.keys()).collect();
        let blocks = nodes.iter().map(|node| self.model.nodes[node].live.allocated_blocks());
        blocks.sum::<u64>() * BLOCK_BYTES as u64
    }

    pub(super) fn room_bytes(&self) -> u64 {
        self.capacity_bytes.map_or(u64::MAX, |capacity| capacity.saturating_sub(self.used_bytes()))
    }

    /// Returns how many of `len` bytes at `offset` of a file can be written: all, or those before the first block that
    /// needs space and finds none.
    pub(super) fn fits(&self, node: NodeId, offset: u64, len: u64) -> u64 {
        const BLOCK: u64 = BLOCK_BYTES as u64;
        if self.capacity_bytes.is_none() {
            return len;
        }
        let live = &self.model.nodes[&node].live;
        let mut room = self.room_bytes();
        let blocks = (offset / BLOCK..(offset + len).div_ceil(BLOCK)).map(|block| block * BLOCK);
        for block in blocks.filter(|&block| !live.is_allocated(block)) {
            match room.checked_sub(BLOCK) {
                Some(left) => room = left,
                None => return block.saturating_sub(offset),
            }
        }
        len
    }
}
