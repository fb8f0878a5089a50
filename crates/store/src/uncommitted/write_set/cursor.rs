//! A cursor over one table's own writes, in key order, deletes included.

use super::arena::Arena;
use super::large_values::LargeValues;
use super::order::{Order, Position};
use super::table::TableSet;
use base::Value;
use base::limits::MAX_PAGE_BYTES;

/// A cursor over one table's own writes; see the module. It borrows the write set: after a write a new cursor seeks the
/// position of the old one, which takes O(log n).
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    set: &'a TableSet,
    order: &'a Order,
    arena: &'a Arena,
    large: &'a LargeValues,
    at: Option<Position>,
}

impl<'a> Cursor<'a> {
    /// Creates a cursor. Panics if the table was not sorted.
    pub(super) fn new(set: &'a TableSet, arena: &'a Arena, large: &'a LargeValues) -> Self {
        let order = set.order().expect("a cursor is asked for after sorting");
        Cursor { set, order, arena, large, at: None }
    }

    /// Moves to the first write at or after `key`.
    pub fn seek(&mut self, key: &[u8]) {
        self.at = Some(self.order.seek(key, self.set.keys(self.arena)).0);
    }

    /// Moves to the last write before `key`.
    pub fn seek_before(&mut self, key: &[u8]) {
        self.at = self.order.before(self.order.seek(key, self.set.keys(self.arena)).0);
    }

    /// Moves to the first write.
    pub fn seek_first(&mut self) {
        self.at = Some(self.order.first());
    }

    /// Moves to the last write.
    pub fn seek_last(&mut self) {
        self.at = self.order.before(self.order.end());
    }

    /// Moves to the next write. Without an entry, it stays without.
    #[inline]
    pub fn next(&mut self) {
        self.at = self.at.filter(|&at| self.order.entry(at).is_some()).map(|at| self.order.after(at));
    }

    /// Moves to the previous write. Without an entry, it stays without.
    #[inline]
    pub fn prev(&mut self) {
        self.at = self.at.filter(|&at| self.order.entry(at).is_some()).and_then(|at| self.order.before(at));
    }

    /// Moves over the next writes, or the previous ones, `most` or fewer, and passes each key with its value to `each`.
    /// It ends on the last one passed, and returns their number. It stops before `limit` in its direction, before a
    /// delete or a value outside the pages, at the end of some blocks of the order, and before keys and values would
    /// have more than [`MAX_PAGE_BYTES`] together; then [`Cursor::next`] or [`Cursor::prev`] moves on.
    pub fn run<const FORWARD: bool>(
        &mut self,
        limit: Option<&[u8]>,
        most: u32,
        mut each: impl FnMut(&'a [u8], &'a [u8]),
    ) -> u32 {
        let Some(at) = self.at.filter(|&at| self.order.entry(at).is_some()) else { return 0 };
        let rest = self.order.rest_of_block::<FORWARD>(at);
        let count = rest.len().min(most as usize);
        let entry = |step: usize| {
            let ranked = if FORWARD { &rest[step] } else { &rest[rest.len() - 1 - step] };
            self.set.entry(ranked.entry())
        };
        let is_within = |key| limit.is_none_or(|limit| if FORWARD { key < limit } else { key > limit });
        let are_all_within = count > 0 && is_within(entry(count - 1).key(self.arena));
        let (mut shown, mut bytes) = (0, 0);
        for step in 0..count {
            let entry = entry(step);
            let (key, Value::Inline(value)) = (entry.key(self.arena), entry.own(self.arena, self.large))
            else {
                break;
            };
            bytes += key.len() + value.len();
            if bytes > MAX_PAGE_BYTES || !(are_all_within || is_within(key)) {
                break;
            }
            each(key, value);
            shown += 1;
        }
        self.at = Some(Order::moved::<FORWARD>(at, shown));
        shown as u32
    }

    /// Returns the key and what was written, unless the cursor is off an end.
    #[inline]
    pub fn entry(&self) -> Option<(&'a [u8], Value<'a>)> {
        let entry = self.set.entry(self.order.entry(self.at?)?);
        Some((entry.key(self.arena), entry.own(self.arena, self.large)))
    }

    /// Returns whether the transaction deleted any range of this table.
    pub fn has_ranges(&self) -> bool {
        self.set.ranges.len() > 0
    }

    /// Returns the range delete that covers `key`, as `[start, end)`.
    pub fn covering(&self, key: &[u8]) -> Option<(&'a [u8], Option<&'a [u8]>)> {
        self.set.ranges.covering(key)
    }
}
