//! The eviction policy: S3-FIFO (Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023).
//!
//! A page enters a small queue, a tenth of all pages. Most pages are touched once and are evicted from there: a scan
//! passes through it and never reaches the main queue. A page that was touched again while in the small queue, or that
//! comes back soon after its eviction (which the ghost table records), enters the main queue. That queue works as a
//! clock: touched pages get another round. (SIEVE is simpler, but a scan pushes through its one queue.)
//!
//! A page has one visited bit instead of the paper's two-bit counter, so a hit writes at most once between two looks of
//! the evictor. The ghost table is direct-mapped: a collision drops a page early, which costs one wrong guess.
//!
//! All of it is O(1) amortised, and runs under the pool's lock.

const NONE: u32 = u32::MAX;

/// The evictor's decision about a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The page was touched since the last look, or is pinned.
    Stays,
    /// The page was not touched.
    Goes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queue {
    Out,
    Small,
    Main,
}

/// A frame's links in its queue, from oldest to newest.
#[derive(Clone, Copy, Debug)]
struct Node {
    older: u32,
    newer: u32,
    queue: Queue,
    /// The name of the page in the ghost table.
    key: u32,
}

#[derive(Debug)]
struct List {
    oldest: u32,
    newest: u32,
    len: usize,
}

/// The queues of all linked frames.
#[derive(Debug)]
pub(crate) struct Policy {
    nodes: Vec<Node>,
    small: List,
    main: List,
    ghosts: Vec<Ghost>,
    /// The number of evictions from the small queue, which gives a ghost's age.
    clock: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Ghost {
    key: u32,
    left_at: u32,
}

/// The memory in bytes that the policy uses for a frame.
pub(crate) const FRAME_BYTES: usize = 2 * (size_of::<Node>() + size_of::<Ghost>());

impl Policy {
    pub(crate) fn new() -> Self {
        let list = || List { oldest: NONE, newest: NONE, len: 0 };
        Policy { nodes: Vec::new(), small: list(), main: list(), ghosts: Vec::new(), clock: 0 }
    }

    /// Returns whether `frame` holds a queued page.
    pub(crate) fn is_queued(&self, frame: u32) -> bool {
        self.nodes[frame as usize].queue != Queue::Out
    }

    /// Returns how many pages are queued.
    pub(crate) fn len(&self) -> usize {
        self.small.len + self.main.len
    }

    /// Grows the tables to `frames` frames.
    pub(crate) fn cover(&mut self, frames: usize) {
        let out = Node { older: NONE, newer: NONE, queue: Queue::Out, key: 0 };
        if frames > self.nodes.len() {
            self.nodes.resize(frames, out);
        }
        let ghosts = frames.next_power_of_two();
        if ghosts > self.ghosts.len() {
            // The old ghosts would be at other places now. Dropping them costs a few wrong guesses while the pool
            // grows.
            self.ghosts = vec![Ghost::default(); ghosts];
        }
    }

    /// Queues a new page in `frame`; `name` identifies it. Returns whether it is back soon after its eviction.
    pub(crate) fn insert(&mut self, frame: u32, name: u64) -> bool {
        let key = fold(name);
        self.nodes[frame as usize].key = key;
        let is_back = self.left_lately(key);
        self.push(frame, if is_back { Queue::Main } else { Queue::Small });
        is_back
    }

    /// Removes the page in `frame`, which left for another reason than eviction.
    pub(crate) fn remove(&mut self, frame: u32) {
        let node = self.nodes[frame as usize];
        let list = match node.queue {
            Queue::Out => return,
            Queue::Small => &mut self.small,
            Queue::Main => &mut self.main,
        };
        list.len -= 1;
        match node.older {
            NONE => list.oldest = node.newer,
            older => self.nodes[older as usize].newer = node.newer,
        }
        match node.newer {
            NONE => list.newest = node.older,
            newer => self.nodes[newer as usize].older = node.older,
        }
        self.nodes[frame as usize].queue = Queue::Out;
    }

    /// Returns the frame whose page is evicted, no longer queued, or `None` if all stay. `look` clears the visited bit.
    pub(crate) fn evict(&mut self, mut look: impl FnMut(u32) -> Fate) -> Option<u32> {
        // Two rounds: the first look may find every page touched, the second then finds those that are not pinned.
        for _ in 0..2 * self.len() {
            let from_small = self.small.len * 10 > self.len() || self.main.len == 0;
            let frame = if from_small { self.small.oldest } else { self.main.oldest };
            self.remove(frame);
            match look(frame) {
                Fate::Stays => self.push(frame, Queue::Main),
                Fate::Goes => {
                    if from_small {
                        self.remember(self.nodes[frame as usize].key);
                    }
                    return Some(frame);
                }
            }
        }
        None
    }

    fn push(&mut self, frame: u32, queue: Queue) {
        let list = if queue == Queue::Small { &mut self.small } else { &mut self.main };
        let older = std::mem::replace(&mut list.newest, frame);
        list.len += 1;
        match older {
            NONE => list.oldest = frame,
            older => self.nodes[older as usize].newer = frame,
        }
        let node = &mut self.nodes[frame as usize];
        (node.older, node.newer, node.queue) = (older, NONE, queue);
    }

    fn remember(&mut self, key: u32) {
        self.clock = self.clock.wrapping_add(1);
        let at = key as usize & (self.ghosts.len() - 1);
        self.ghosts[at] = Ghost { key, left_at: self.clock };
    }

    /// Returns whether the page left the small queue at most as many evictions ago as the main queue has pages.
    fn left_lately(&self, key: u32) -> bool {
        let ghost = self.ghosts[key as usize & (self.ghosts.len() - 1)];
        ghost.key == key
            && self.clock.wrapping_sub(ghost.left_at) as usize <= self.main.len.max(self.small.len)
    }
}

/// Returns 32 bits that are never 0, which stands for an empty ghost.
fn fold(name: u64) -> u32 {
    ((name ^ name >> 32) as u32).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{HashMap, HashSet};

    /// Runs `trace` on a cache of `size` pages; returns how many were hits.
    fn hits(size: u32, trace: impl Iterator<Item = u64>) -> usize {
        let (mut policy, mut visited) = (Policy::new(), HashSet::new());
        let (mut frame_of, mut page_in) = (HashMap::new(), HashMap::new());
        policy.cover(size as usize);
        let mut hits = 0;
        for page in trace {
            if let Some(&frame) = frame_of.get(&page) {
                visited.insert(frame);
                hits += 1;
                continue;
            }
            let next = frame_of.len() as u32;
            let frame = if next < size {
                next
            } else {
                let look = |frame| if visited.remove(&frame) { Fate::Stays } else { Fate::Goes };
                policy.evict(look).expect("nothing is pinned")
            };
            if let Some(old) = page_in.insert(frame, page) {
                frame_of.remove(&old);
            }
            frame_of.insert(page, frame);
            policy.insert(frame, page.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            assert_eq!(policy.len(), frame_of.len());
        }
        hits
    }

    #[test]
    fn a_scan_does_not_push_out_what_is_used() {
        let warm = (0..5).flat_map(|_| 0..80);
        // 10,000 pages that come once, with the 80 hot ones touched in between.
        let scan = (0..10_000u64).flat_map(|i| [1000 + i, i % 80]);
        let hits = hits(100, warm.chain(scan));
        assert!(hits >= 4 * 80 + 9_900, "{hits} hits");
    }

    #[test]
    fn pinned_pages_stay_and_removed_ones_are_gone() {
        let mut policy = Policy::new();
        policy.cover(4);
        (0..4).for_each(|frame| _ = policy.insert(frame, u64::from(frame) + 1));
        policy.remove(1);
        let look = |frame| if frame == 0 { Fate::Stays } else { Fate::Goes };
        assert_eq!(policy.evict(look), Some(2));
        assert_eq!(policy.evict(look), Some(3));
        assert_eq!(policy.evict(look), None);
        assert_eq!(policy.len(), 1);
    }
}
