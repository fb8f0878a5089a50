//! Split, merge, borrow.
use crate::{EditCounters, NoRoom, Page, PageMut};

impl Page<'_> {
    /// Where to split so that both halves hold about as many bytes, when an entry is to be inserted at
    /// `insert_at`: 1..count.
    pub fn split_position(self, insert_at: usize) -> usize {
        let _ = insert_at;
        unimplemented!()
    }

    /// The key that the parent must hold for a right page that begins with this page's entry `at` (1..count):
    /// of an inner page entry `at`'s key; of a leaf the shortest one that is greater than key `at - 1` and not
    /// greater than key `at`. Call it before [`PageMut::split`] or a borrow, on the page that gives entries away.
    pub fn separator(self, at: usize, into: &mut Vec<u8>) {
        let _ = (at, into);
        unimplemented!()
    }
}

impl PageMut<'_> {
    /// Moves entries `at..` (`at` in 1..=count) to `right`, freshly initialised with this page's kind and level.
    /// An inner `right` has no key for its entry 0: take [`Page::separator`] first. Both pages choose
    /// their own prefixes.
    pub fn split(&mut self, right: &mut PageMut<'_>, at: usize, counters: &mut EditCounters) {
        let _ = (right, at, counters);
        unimplemented!()
    }

    /// Appends all entries of `right`, the next sibling. `separator` is the parent's key for `right`; leaves ignore it.
    pub fn merge(
        &mut self,
        right: Page<'_>,
        separator: &[u8],
        counters: &mut EditCounters,
    ) -> Result<(), NoRoom> {
        let _ = (right, separator, counters);
        unimplemented!()
    }

    /// Moves the first `n` (fewer than all) entries of `right`, the next sibling, to this page's end. `separator` is
    /// the parent's key for `right` up to now; the new one is `right.separator(n)`, to be taken before.
    pub fn borrow_from_right(
        &mut self,
        right: &mut PageMut<'_>,
        n: usize,
        separator: &[u8],
        counters: &mut EditCounters,
    ) -> Result<(), NoRoom> {
        let _ = (right, n, separator, counters);
        unimplemented!()
    }

    /// Moves the last `n` (fewer than all) entries of `left`, the previous sibling, to this page's front. `separator`
    /// is the parent's key for this page up to now; the new one is `left.separator(count - n)`, to be taken
    /// before.
    pub fn borrow_from_left(
        &mut self,
        left: &mut PageMut<'_>,
        n: usize,
        separator: &[u8],
        counters: &mut EditCounters,
    ) -> Result<(), NoRoom> {
        let _ = (left, n, separator, counters);
        unimplemented!()
    }
}
