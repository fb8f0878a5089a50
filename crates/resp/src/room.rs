//! Memory that all connections share: for long commands that are being received, and for long replies.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The bytes that one connection may hold without taking a share.
const FREE_BYTES: usize = 64 << 10;
/// A share grows by this many bytes at a time, so that most calls change nothing that is shared.
const STEP_BYTES: usize = 256 << 10;

/// A bound in bytes.
#[derive(Debug)]
pub struct Room {
    most_bytes: usize,
    used_bytes: AtomicUsize,
}

impl Room {
    /// Creates a room of `most_bytes`.
    pub fn new(most_bytes: usize) -> Arc<Self> {
        Arc::new(Room { most_bytes, used_bytes: AtomicUsize::new(0) })
    }

    /// Returns the bytes of all shares.
    pub fn used_bytes(&self) -> usize {
        self.used_bytes.load(Ordering::SeqCst)
    }
}

/// What one holder has of a room.
#[derive(Debug)]
pub struct Share {
    room: Arc<Room>,
    bytes: usize,
}

impl Share {
    /// Creates a share of nothing.
    pub fn new(room: &Arc<Room>) -> Self {
        Share { room: Arc::clone(room), bytes: 0 }
    }

    /// Returns a share of nothing of the same room.
    pub fn empty(&self) -> Self {
        Share::new(&self.room)
    }

    /// Changes the share to what is needed for `held_bytes`. Returns false, and changes nothing, if that exceeds the
    /// bound of all.
    pub fn set(&mut self, held_bytes: usize) -> bool {
        let bytes = match held_bytes {
            0..=FREE_BYTES => 0,
            more => more.div_ceil(STEP_BYTES) * STEP_BYTES,
        };
        let used = &self.room.used_bytes;
        if bytes > self.bytes {
            let more = bytes - self.bytes;
            // Not added first and taken back: others would meet a room that is full only for a moment.
            let fits = |used: usize| used.checked_add(more).filter(|sum| *sum <= self.room.most_bytes);
            if used.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fits).is_err() {
                return false;
            }
        } else if bytes < self.bytes {
            used.fetch_sub(self.bytes - bytes, Ordering::SeqCst);
        }
        self.bytes = bytes;
        true
    }

    /// Gives back what is not needed for `held_bytes`.
    pub fn shrink(&mut self, held_bytes: usize) {
        if held_bytes < self.bytes {
            let is_less = self.set(held_bytes);
            debug_assert!(is_less, "less always fits");
        }
    }

    /// Takes over what `other` has, which is of the same room.
    pub fn join(&mut self, mut other: Share) {
        debug_assert!(Arc::ptr_eq(&self.room, &other.room), "shares of one room");
        self.bytes += std::mem::take(&mut other.bytes);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.room.used_bytes.fetch_sub(self.bytes, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_end_at_the_bound_and_are_given_back() {
        let room = Room::new(4 * STEP_BYTES);
        let (mut one, mut other) = (Share::new(&room), Share::new(&room));
        assert!(one.set(FREE_BYTES) && one.bytes == 0);
        assert!(one.set(3 * STEP_BYTES) && !other.set(STEP_BYTES + 1));
        assert!(other.set(STEP_BYTES) && !one.set(3 * STEP_BYTES + 1));
        assert_eq!((one.bytes, other.bytes), (3 * STEP_BYTES, STEP_BYTES), "a refusal changes nothing");
        one.join(other);
        assert_eq!((one.bytes, room.used_bytes.load(Ordering::SeqCst)), (4 * STEP_BYTES, 4 * STEP_BYTES));
        assert!(one.set(0));
        drop(one);
        assert_eq!(room.used_bytes.load(Ordering::SeqCst), 0);
    }

    /// A thread asks again and again for more than there is, while another takes what always fits.
    #[test]
    fn a_share_that_is_refused_takes_no_room_meanwhile() {
        let room = Room::new(4 * STEP_BYTES);
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut greedy = Share::new(&room);
                while !is_over.load(Ordering::SeqCst) {
                    assert!(!greedy.set(5 * STEP_BYTES));
                }
            });
            let mut modest = Share::new(&room);
            let refused = (0..200_000).filter(|n| !modest.set(n % 2 * STEP_BYTES)).count();
            is_over.store(true, Ordering::SeqCst);
            assert_eq!(refused, 0);
        });
    }
}
