//! Which deltas of a stack are merged into one: tiers above, one level below (lazy levelling, Dayan and Idreos, SIGMOD
//! 2018).
//!
//! 1. *Tiers.* Sizes fall into classes, each eight times the last. Eight neighbours of a class become one delta of the
//!    next, so that a record is written once for each class that it passes.
//! 2. *The lowest delta* is the one with most of the records. When those above it come to half its size, in bytes or in
//!    records (deletes are small), all are merged with it: while a table grows it is written three times all together,
//!    and what is overwritten or deleted never takes more than half of what lives.
//! 3. *Merges go on in slices.* While a large one is under way, smaller ones begin above it, and go first: they are
//!    done soon, and keep reads from asking many deltas.
//!
//! It knows sizes alone, so that a simulation of years of writing is a test of milliseconds.

use super::stack::{MOST_STACKED, Role};
use crate::catalog::WantedLayout;
use std::ops::RangeInclusive;

/// So many neighbours of a class are merged; simulations merge sooner.
pub const FAN: usize = 8;
/// So many times larger is the next class.
const CLASS_RATIO: u64 = FAN as u64;
/// The smallest class ends here, in bytes.
const LEAST_CLASS_BYTES: u64 = 256 << 10;
/// All are merged when those above come to this share of the lowest: one half.
const LOWEST_SHARE: u64 = 2;
/// A table that is to become a B+tree is merged like one as soon as no more than this lies above its lowest delta: a
/// share of it, or so many bytes.
const FLATTEN_SHARE: u64 = 8;
const FLATTEN_BYTES: u64 = 4 << 20;

/// What the plan knows of a delta.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Bytes of its pages.
    pub bytes: u64,
    /// Records, deletes included.
    pub records: u64,
    /// What becomes of it.
    pub role: Role,
    /// Whether it has a filter, or needs none.
    pub filtered: bool,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Nothing.
    Rest,
    /// Go on with the delta at this position, which fills.
    GoOn(usize),
    /// Merge these into one.
    Begin(RangeInclusive<usize>),
    /// Merge all above the lowest delta into it, as a B+tree's checkpoint does.
    Flatten,
    /// The one delta that is left becomes a B+tree.
    BecomeBTree,
}

/// The plan for a stack of these sizes, newest first. `wholly`: until nothing is left to merge. `fan`: see [`FAN`].
pub fn plan(sizes: &[Size], wanted: WantedLayout, wholly: bool, fan: usize) -> Plan {
    let Some((lowest, above)) = sizes.split_last() else { return Plan::Rest };
    let fresh = sizes.iter().take_while(|size| size.role == Role::Rests).count();
    if fresh < sizes.len() {
        let filling = (fresh..sizes.len()).find(|&at| sizes[at].role == Role::Fills);
        return match (tier(&sizes[..fresh], fan), filling) {
            (Some(tier), _) => Plan::Begin(tier),
            (None, Some(at)) => Plan::GoOn(at),
            (None, None) => Plan::Rest,
        };
    }
    let all = Plan::Begin(0..=above.len());
    let bytes: u64 = above.iter().map(|size| size.bytes).sum();
    let records: u64 = above.iter().map(|size| size.records).sum();
    match wanted {
        WantedLayout::BTree if above.is_empty() => return Plan::BecomeBTree,
        WantedLayout::BTree if bytes <= FLATTEN_BYTES.max(lowest.bytes / FLATTEN_SHARE) => {
            return Plan::Flatten;
        }
        WantedLayout::BTree => return all,
        WantedLayout::Lsm => {}
    }
    let is_much = bytes * LOWEST_SHARE >= lowest.bytes || records * LOWEST_SHARE >= lowest.records;
    if !above.is_empty() && (is_much || wholly) {
        return all;
    }
    match tier(above, fan) {
        Some(tier) => Plan::Begin(tier),
        None if !lowest.filtered => Plan::Begin(above.len()..=above.len()),
        None => Plan::Rest,
    }
}

fn class(bytes: u64) -> u32 {
    (bytes / LEAST_CLASS_BYTES).checked_ilog(CLASS_RATIO).map_or(0, |class| class + 1)
}

/// The smallest class with enough neighbours: an older delta counts as no smaller than a newer one.
fn tier(sizes: &[Size], fan: usize) -> Option<RangeInclusive<usize>> {
    let mut first = 0;
    let mut largest = 0;
    for (at, size) in sizes.iter().enumerate() {
        let class = class(size.bytes);
        if class > largest {
            (first, largest) = (at, class);
        }
        let is_last = sizes.get(at + 1).is_none_or(|next| self::class(next.bytes) > largest);
        if is_last && at + 1 - first >= fan {
            return Some(first..=at);
        }
    }
    (sizes.len() > MOST_STACKED / 2).then(|| 0..=sizes.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rests(bytes: u64) -> Size {
        Size { bytes, records: bytes / 100, role: Role::Rests, filtered: true }
    }

    /// Spills of `spill` bytes until `total` are written, each followed by slices of `pace` times as much. Answers the
    /// bytes written by all merges together, and the most deltas there ever were.
    fn simulate(spill: u64, total: u64, pace: u64) -> (u64, usize) {
        let (mut stack, mut written, mut most) = (Vec::<Size>::new(), 0, 0);
        for _ in 0..total / spill {
            stack.insert(0, rests(spill));
            let mut quota = spill * pace;
            while quota > 0 {
                match plan(&stack, WantedLayout::Lsm, false, FAN) {
                    Plan::Begin(range) => {
                        stack[range.clone()].iter_mut().for_each(|size| size.role = Role::Moves);
                        stack.insert(range.end() + 1, Size { role: Role::Fills, ..rests(0) });
                    }
                    Plan::GoOn(at) => {
                        let first =
                            (0..at).rev().take_while(|&i| stack[i].role == Role::Moves).last().unwrap();
                        let left: u64 = stack[first..at].iter().map(|size| size.bytes).sum();
                        let moved = left.min(quota);
                        for size in &mut stack[first..at] {
                            size.bytes -= size.bytes * moved / left.max(1);
                        }
                        stack[at].bytes += moved;
                        stack[at].records = stack[at].bytes / 100;
                        (quota, written) = (quota - moved, written + moved);
                        if moved == left {
                            stack[at].role = Role::Rests;
                            stack.drain(first..at);
                        }
                    }
                    Plan::Rest => break,
                    other => panic!("{other:?}"),
                }
            }
            most = most.max(stack.len());
        }
        (written, most)
    }

    #[test]
    fn growing_tables_are_written_a_few_times_and_stay_few() {
        for (total_spills, most_written) in [(20, 5.0), (128, 5.0), (400, 5.5), (3000, 6.5)] {
            let spill = 8 << 20;
            let total = spill * total_spills;
            let (written, most) = simulate(spill, total, 8);
            let times = written as f64 / total as f64;
            assert!(times < most_written, "{total_spills} spills: written {times:.2} times, {most} deltas");
            assert!(most < MOST_STACKED, "{total_spills} spills: {most} deltas");
        }
    }

    #[test]
    fn what_is_wanted_comes_about() {
        assert_eq!(plan(&[], WantedLayout::Lsm, true, FAN), Plan::Rest);
        assert_eq!(plan(&[rests(9 << 20)], WantedLayout::Lsm, true, FAN), Plan::Rest);
        assert_eq!(plan(&[rests(9 << 20)], WantedLayout::BTree, false, FAN), Plan::BecomeBTree);
        assert_eq!(plan(&[rests(1 << 20), rests(9 << 20)], WantedLayout::BTree, false, FAN), Plan::Flatten);
        assert_eq!(
            plan(&[rests(8 << 20), rests(9 << 20)], WantedLayout::BTree, false, FAN),
            Plan::Begin(0..=1)
        );
        assert_eq!(plan(&[rests(1 << 20), rests(9 << 20)], WantedLayout::Lsm, false, FAN), Plan::Rest);
        assert_eq!(plan(&[rests(1 << 20), rests(9 << 20)], WantedLayout::Lsm, true, FAN), Plan::Begin(0..=1));
        let unfiltered = Size { filtered: false, ..rests(9 << 20) };
        assert_eq!(plan(&[unfiltered], WantedLayout::Lsm, false, FAN), Plan::Begin(0..=0));
    }
}
