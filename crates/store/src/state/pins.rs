//! The checkpoints that are being copied, so that nothing of them is freed.

use crate::state::superblock::Superblock;
use crate::state::tables::Tables;
use base::CheckpointNo;
use base::sync::lock;
use std::sync::{Arc, Mutex};

/// The newest checkpoint, and those that are being copied.
#[derive(Debug)]
pub(crate) struct Pins {
    state: Mutex<PinState>,
}

#[derive(Debug)]
struct PinState {
    newest: Superblock,
    tables: Arc<Tables>,
    pinned: Vec<CheckpointNo>,
}

impl Pins {
    pub fn new(newest: Superblock, tables: Arc<Tables>) -> Self {
        Pins { state: Mutex::new(PinState { newest, tables, pinned: Vec::new() }) }
    }

    /// Switches to the checkpoint of `newest`. Nothing that only its predecessor needs is free yet.
    pub fn switch(&self, newest: Superblock, tables: Arc<Tables>) {
        let mut state = lock(&self.state);
        (state.newest, state.tables) = (newest, tables);
    }

    /// Returns the checkpoints that are pinned.
    pub fn all(&self) -> Vec<CheckpointNo> {
        lock(&self.state).pinned.clone()
    }

    /// Returns how many are pinned.
    pub fn count(&self) -> usize {
        lock(&self.state).pinned.len()
    }

    /// Pins the newest checkpoint. Returns it with the result of `look`, which sees a time before any switch to a later
    /// one.
    pub fn pin<T>(&self, look: impl FnOnce() -> T) -> (Superblock, Arc<Tables>, T) {
        let mut state = lock(&self.state);
        let newest = state.newest;
        state.pinned.push(newest.checkpoint);
        (newest, Arc::clone(&state.tables), look())
    }

    /// Returns the newest checkpoint.
    pub fn newest(&self) -> Superblock {
        lock(&self.state).newest
    }

    pub fn unpin(&self, checkpoint: CheckpointNo) {
        let mut state = lock(&self.state);
        let at = state.pinned.iter().position(|&pinned| pinned == checkpoint);
        state.pinned.swap_remove(at.expect("only what is pinned is unpinned"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;

    #[test]
    fn no_checkpoint_is_switched_to_while_a_pin_looks() {
        let options = Options { memory_bytes: 4 << 20, ..Options::default() };
        let store = crate::open_or_create(Arc::new(io::MemDir::new()), &options).unwrap();
        let pins = &store.checkpoints.pins;
        let (pinned, _, is_held) = pins.pin(|| pins.state.try_lock().is_err());
        assert!(is_held, "a switch waits for the lock");
        pins.unpin(pinned.checkpoint);
    }
}
