//! Giving memory back: whole chunks of frames, those with the least used pages first.

use super::{Misses, State};
use base::budget::{Given, Need};
use base::sync::lock;

impl Misses {
    /// Frees about `bytes`, by whole chunks: those whose pages are used least. A wish frees chunks of which less than a
    /// quarter was used since the last look, and never the last chunk. A caller that must have the memory gets the last
    /// chunk only if the last chunks of all databases are much of the budget. With no frame at all, each read would
    /// wait for one of the few pages of the overdraft.
    pub(crate) fn give(&self, bytes: usize, need: Need) -> Given {
        let before = self.ledger.used_bytes();
        let chunk_bytes = self.page_bytes * self.frames.chunk_frames();
        let spares_last = match need {
            Need::Wish => true,
            Need::Must => self.ledger.can_spare_for_each(chunk_bytes),
            Need::All => false,
        };
        let mut state = lock(&self.state);
        let state = &mut *state;
        state.limbo.reclaim(&self.frames, &self.slots);
        let bytes = if need == Need::Must { state.growth.gift(before, bytes) } else { bytes };
        let given = || before.saturating_sub(self.ledger.used_bytes());
        let mut by_use = None;
        let chunks_before = state.counts.given_chunks;
        while given() + state.limbo.leaving() * chunk_bytes < bytes {
            let by_use = by_use.get_or_insert_with(|| self.by_use(state, need, spares_last).into_iter());
            let Some(chunk) = by_use.next() else { break };
            for number in self.numbers(chunk) {
                if state.policy.is_queued(number) {
                    state.policy.remove(number);
                    self.frames.unlink(number, &mut state.limbo);
                }
            }
            state.limbo.leave(&self.frames, chunk);
            state.counts.given_chunks += 1;
        }
        if need == Need::Must && state.counts.given_chunks > chunks_before {
            state.growth.given(before);
        }
        state.limbo.reclaim(&self.frames, &self.slots);
        match given() {
            0 if state.limbo.leaving() > 0 => Given::Soon,
            given => Given::Bytes(given),
        }
    }

    /// Returns the chunks to free, in order: chunks without a frame that a loader holds, the least recently used pages
    /// first; but not the last of all chunks if `spares_last`. O(frames).
    fn by_use(&self, state: &mut State, need: Need, spares_last: bool) -> Vec<usize> {
        let chunk_frames = self.frames.chunk_frames();
        let mut idle = vec![0; state.limbo.places()];
        state.limbo.idle().for_each(|number| idle[self.frames.chunk_of(number)] += 1);
        let used = |chunk: usize| {
            let queued = self.numbers(chunk).filter(|&number| state.policy.is_queued(number));
            let touched = queued.map(|number| self.frames.is_touched(number));
            touched.fold((0, 0), |(pages, used), (visited, pinned)| {
                (pages + 1, used + usize::from(visited) + chunk_frames * usize::from(pinned))
            })
        };
        let uses = state.limbo.staying().map(|chunk| (chunk, used(chunk)));
        let whole = uses.filter(|&(chunk, (pages, _))| pages + idle[chunk] == chunk_frames);
        let mut chunks: Vec<_> = whole.map(|(chunk, (_, used))| (used, chunk)).collect();
        chunks.sort_unstable();
        if need == Need::Wish {
            let spared = |&(used, _): &(usize, usize)| used * 4 >= chunk_frames;
            if let Some(&(_, chunk)) = chunks.first().filter(|first| spared(first)) {
                self.give_second_chance(state, chunk);
            }
            chunks.retain(|chunk| !spared(chunk));
        }
        if spares_last {
            chunks.truncate(state.limbo.staying().count().saturating_sub(1));
        }
        chunks.into_iter().map(|(_, chunk)| chunk).collect()
    }

    /// Clears the visited bits of a chunk, so that the next wish can free it if it is not used again.
    fn give_second_chance(&self, state: &State, chunk: usize) {
        for number in self.numbers(chunk).filter(|&number| state.policy.is_queued(number)) {
            self.frames.take_touched(number);
        }
    }
}
