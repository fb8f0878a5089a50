//! Which deltas of a stack are merged into one: tiers above, one level below (lazy levelling, Dayan and Idreos, SIGMOD
//! 2018).
//!
//! 1. *Tiers.* Sizes fall into classes, each ten times the last. Ten neighbours of a class become one delta of the
//!    next, so that a record is written once for each class that it passes.
//! 2. *The lowest delta* is the one with most of the records. When the deltas above it reach three quarters of its
//!    size, in bytes or in records (deletes are small), all are merged with it. The same happens at half of its size if
//!    a tier of half of them is due, because the result of that tier would soon be written again. So a growing table's
//!    lowest delta is written little more than twice, and replaced or deleted records take at most three quarters of
//!    the size of the live ones.
//! 3. *Merges proceed in slices.* While a large one is in progress, smaller ones begin above it and go first: they end
//!    soon, and keep the number of deltas that reads check low.
//!
//! The plan depends only on sizes, so that a simulation of years of writing is a test of milliseconds.

use crate::state::catalog::RequestedLayout;
use crate::state::stack::Role;
use std::ops::RangeInclusive;

pub use crate::state::stack::FAN;

/// The ratio of the sizes of two neighbouring classes.
const CLASS_RATIO: u64 = FAN as u64;
/// The upper limit of the smallest class, in bytes.
const LEAST_CLASS_BYTES: u64 = 256 << 10;
/// The size of the deltas above the lowest at which all are merged, in eighths of the lowest.
const MOST_EIGHTHS: u64 = 6;
/// The size at which all are merged if half of what lies above is due anyway, in eighths of the lowest.
const LEAST_EIGHTHS: u64 = 4;
/// The share of the lowest delta, and the bytes, that may lie above it when a table that is to become a B+tree is
/// merged like one.
const FLATTEN_SHARE: u64 = 8;
const FLATTEN_BYTES: u64 = 4 << 20;

/// How much a checkpoint may merge, and whether it merges until nothing is left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quota {
    pub bytes: u64,
    pub wholly: bool,
}

/// The size of a delta, as the plan sees it.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// The bytes of its pages.
    pub bytes: u64,
    /// The number of its records, deletes included.
    pub records: u64,
    /// The role of the delta.
    pub role: Role,
    /// Whether the delta has a filter, or needs none.
    pub filtered: bool,
}

/// The next step of a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// No step.
    Rest,
    /// Continue with the filling delta at this position.
    GoOn(usize),
    /// Merge these deltas into one.
    Begin(RangeInclusive<usize>),
    /// Merge everything above the lowest delta into it, as a B+tree's checkpoint does.
    Flatten,
    /// Turn the only remaining delta into a B+tree.
    BecomeBTree,
}

/// Returns the plan for a stack of these sizes, newest first. With `wholly`, it merges until nothing is left. For `fan`
/// see [`FAN`].
pub fn plan(sizes: &[Size], wanted: RequestedLayout, wholly: bool, fan: usize) -> Plan {
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
    let bytes = bytes_of(above);
    let records: u64 = above.iter().map(|size| size.records).sum();
    match wanted {
        RequestedLayout::BTree if above.is_empty() => return Plan::BecomeBTree,
        RequestedLayout::BTree if bytes <= FLATTEN_BYTES.max(lowest.bytes / FLATTEN_SHARE) => {
            return Plan::Flatten;
        }
        RequestedLayout::BTree => return all,
        RequestedLayout::Lsm => {}
    }
    let come_to = |eighths| bytes * 8 >= lowest.bytes * eighths || records * 8 >= lowest.records * eighths;
    if !above.is_empty() && (come_to(MOST_EIGHTHS) || wholly) {
        return all;
    }
    match tier(above, fan) {
        Some(tier) if come_to(LEAST_EIGHTHS) && bytes_of(&above[tier.clone()]) * 2 >= bytes => all,
        Some(tier) => Plan::Begin(tier),
        None if !lowest.filtered => Plan::Begin(above.len()..=above.len()),
        None => Plan::Rest,
    }
}

fn bytes_of(sizes: &[Size]) -> u64 {
    sizes.iter().map(|size| size.bytes).sum()
}

fn class(bytes: u64) -> u32 {
    (bytes / LEAST_CLASS_BYTES).checked_ilog(CLASS_RATIO).map_or(0, |class| class + 1)
}

/// Returns the smallest class with enough neighbours: an older delta counts as no smaller than a newer one. If every
/// class has many, it returns all: while a large merge is in progress, deltas come faster than it proceeds.
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
    (sizes.len() > 2 * fan).then(|| 0..=sizes.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::stack::MOST_STACKED;

    fn rests(bytes: u64) -> Size {
        Size { bytes, records: bytes / 100, role: Role::Rests, filtered: true }
    }

    /// The result of a simulation.
    #[derive(Default)]
    struct Outcome {
        /// The bytes that all merges wrote.
        written: u64,
        /// The greatest number of deltas at any time.
        most: usize,
        /// The most bytes that they took after the table had grown.
        most_bytes: u64,
    }

    /// Simulates `spills` of `spill` bytes, each followed by slices of `pace` times as much. When the table has reached
    /// `live_bytes`, its records are overwritten at random: the lowest delta does not get larger.
    fn simulate(spill: u64, spills: u64, pace: u64, live_bytes: u64) -> Outcome {
        let (mut stack, mut outcome) = (Vec::<Size>::new(), Outcome::default());
        for done in 1..=spills {
            stack.insert(0, rests(spill));
            let mut quota = spill * pace;
            while quota > 0 {
                match plan(&stack, RequestedLayout::Lsm, false, FAN) {
                    Plan::Begin(range) => {
                        stack[range.clone()].iter_mut().for_each(|size| size.role = Role::Moves);
                        stack.insert(range.end() + 1, Size { role: Role::Fills, ..rests(0) });
                    }
                    Plan::GoOn(at) => {
                        let first =
                            (0..at).rev().take_while(|&i| stack[i].role == Role::Moves).last().unwrap();
                        let left = bytes_of(&stack[first..at]);
                        let moved = left.min(quota);
                        for size in &mut stack[first..at] {
                            size.bytes -= size.bytes * moved / left.max(1);
                        }
                        (quota, outcome.written) = (quota - moved, outcome.written + moved);
                        let bytes = stack[at].bytes + moved;
                        stack[at] = Size { role: Role::Fills, ..rests(bytes) };
                        if moved == left {
                            let is_lowest = at + 1 == stack.len();
                            stack[at] = rests(if is_lowest { bytes.min(live_bytes) } else { bytes });
                            stack.drain(first..at);
                        }
                    }
                    Plan::Rest => break,
                    other => panic!("{other:?}"),
                }
            }
            outcome.most = outcome.most.max(stack.len());
            if done * spill > live_bytes {
                outcome.most_bytes = outcome.most_bytes.max(bytes_of(&stack));
            }
        }
        outcome
    }

    #[test]
    fn growing_tables_are_written_a_few_times_and_stay_few() {
        for (spills, most_written) in [(20, 1.5), (128, 2.8), (490, 3.0), (3000, 4.2)] {
            let spill = 8 << 20;
            let Outcome { written, most, .. } = simulate(spill, spills, 8, u64::MAX);
            let times = written as f64 / (spills * spill) as f64;
            assert!(times < most_written, "{spills} spills: written {times:.2} times, {most} deltas");
            assert!(most < MOST_STACKED, "{spills} spills: {most} deltas");
        }
    }

    #[test]
    fn what_is_overwritten_takes_less_than_what_lives() {
        let spill = 8 << 20;
        for live in [20, 160, 400] {
            let [grown, overwritten] =
                [live, live * 6].map(|spills| simulate(spill, spills, 8, live * spill));
            let times = (overwritten.written - grown.written) as f64 / (5 * live * spill) as f64;
            let room = overwritten.most_bytes as f64 / (live * spill) as f64;
            assert!(times < 4.0 && room < 2.0, "{live} spills: written {times:.2} times, room {room:.2}");
        }
    }

    #[test]
    fn what_is_wanted_comes_about() {
        assert_eq!(plan(&[], RequestedLayout::Lsm, true, FAN), Plan::Rest);
        assert_eq!(plan(&[rests(9 << 20)], RequestedLayout::Lsm, true, FAN), Plan::Rest);
        assert_eq!(plan(&[rests(9 << 20)], RequestedLayout::BTree, false, FAN), Plan::BecomeBTree);
        assert_eq!(
            plan(&[rests(1 << 20), rests(9 << 20)], RequestedLayout::BTree, false, FAN),
            Plan::Flatten
        );
        assert_eq!(
            plan(&[rests(8 << 20), rests(9 << 20)], RequestedLayout::BTree, false, FAN),
            Plan::Begin(0..=1)
        );
        assert_eq!(plan(&[rests(1 << 20), rests(9 << 20)], RequestedLayout::Lsm, false, FAN), Plan::Rest);
        assert_eq!(
            plan(&[rests(1 << 20), rests(9 << 20)], RequestedLayout::Lsm, true, FAN),
            Plan::Begin(0..=1)
        );
        let unfiltered = Size { filtered: false, ..rests(9 << 20) };
        assert_eq!(plan(&[unfiltered], RequestedLayout::Lsm, false, FAN), Plan::Begin(0..=0));
    }
}
