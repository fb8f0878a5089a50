//! Split, merge and borrow: entries move between siblings, through the allocator of the page they move to.
//!
//! A page that loses entries is laid out anew: its remaining cells are packed against its end, so that the freed bytes
//! are one gap for later inserts. This is part of the operation, costs one pass over a page that was read anyway, and
//! is not counted as a compaction. A page that only receives entries keeps its cells, unless its prefix has to change.
//!
//! An inner page's entry 0 has no key. When it moves to a place after other entries, it takes the parent's key for its
//! page, the `separator`; when an entry becomes entry 0, its key moves up to the parent.
//!
//! A page laid out anew takes the longest prefix that its first and last key share. If the page is shorter with only
//! the part that fits the header, it takes that part.

use crate::copy::copy_short;
use crate::edit::{is_deleted, is_large};
use crate::header::{HEADER_BYTES, HEADER_PREFIX_BYTES, SLOT_BYTES, Slot, cell_bytes, field};
use crate::view::Cell;
use crate::{EditCounters, Kind, NoRoom, Page, PageMut};
use std::ops::Range;

/// Entries of one page that are to be laid out in another.
#[derive(Clone)]
pub(crate) struct Piece<'p> {
    pub page: Page<'p>,
    pub range: Range<usize>,
    /// The key that entry 0 of an inner page takes if another entry precedes it.
    pub separator: &'p [u8],
}

impl<'p> From<Page<'p>> for Piece<'p> {
    fn from(page: Page<'p>) -> Self {
        Piece { page, range: 0..page.count(), separator: &[] }
    }
}

impl<'p> Piece<'p> {
    /// Returns entry `i`'s key without its first `skip` bytes, in two parts.
    #[inline]
    pub fn key_behind(&self, i: usize, skip: usize) -> [&'p [u8]; 2] {
        if i < self.page.kind().first_keyed() {
            return [&[], &self.separator[skip..]];
        }
        let (prefix, suffix) = (self.page.prefix(), self.page.suffix(i));
        match prefix.len() > skip {
            true => [&prefix[skip..], suffix],
            false => [&[], &suffix[skip - prefix.len()..]],
        }
    }
}

/// Returns how many first bytes two keys share.
pub(crate) fn common_len(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Returns the bytes that a page's header and its prefix take up.
fn front_bytes(prefix_len: usize) -> usize {
    HEADER_BYTES + if prefix_len > HEADER_PREFIX_BYTES { cell_bytes(prefix_len) } else { 0 }
}

/// Returns the length, without the gap, of a page whose prefix has `prefix_len` bytes and whose entries are those of
/// the pieces, one after the other.
pub(crate) fn laid_out_bytes(prefix_len: usize, pieces: &[Piece<'_>]) -> usize {
    let mut total = front_bytes(prefix_len);
    let mut at = 0;
    for piece in pieces {
        for i in piece.range.clone() {
            let cell = piece.page.cell(i);
            let suffix_len = match at < piece.page.kind().first_keyed() {
                true => 0,
                false => piece.key_behind(i, prefix_len).iter().map(|part| part.len()).sum(),
            };
            total += SLOT_BYTES + cell_bytes(cell.front.len() + suffix_len + cell.back.len());
            at += 1;
        }
    }
    total
}

/// Returns the longest prefix that all keys of the pieces share, laid out one after the other: the common prefix of the
/// first and the last key.
fn common_prefix(pieces: &[Piece<'_>]) -> Vec<u8> {
    let entries = || pieces.iter().flat_map(|piece| piece.range.clone().map(move |i| (piece, i)));
    let unkeyed = pieces.first().map_or(0, |piece| piece.page.kind().first_keyed());
    let last =
        pieces.iter().rev().find(|piece| !piece.range.is_empty()).map(|piece| (piece, piece.range.end - 1));
    let (Some((piece, i)), Some((last_piece, last_i))) = (entries().nth(unkeyed), last) else {
        return Vec::new();
    };
    let mut first = piece.key_behind(i, 0).concat();
    let shared = common_len(&first, &last_piece.key_behind(last_i, 0).concat());
    first.truncate(shared);
    first
}

impl Page<'_> {
    /// Returns how many first bytes all keys of a leaf share; 0 if it is empty. They can be more than the prefix has.
    pub fn shared_len(self) -> usize {
        match self.count().checked_sub(1) {
            Some(last) => self.prefix().len() + common_len(self.suffix(0), self.suffix(last)),
            None => 0,
        }
    }

    /// Returns where to split when an entry is to be inserted at `insert_at`: so that both halves hold about as many
    /// bytes. If the entry comes after all others, it returns the count, so that ascending inserts leave full pages.
    pub fn split_position(self, insert_at: usize) -> usize {
        let count = self.count();
        if insert_at == count {
            return count;
        }
        let total = self.used_bytes() - front_bytes(self.prefix().len());
        let mut left = 0;
        let half = self.slots().iter().take_while(|&&slot| {
            left += self.cell_len(Slot::decode(slot)) + SLOT_BYTES;
            left <= total / 2
        });
        half.count().clamp(1, count.saturating_sub(1).max(1))
    }

    /// Returns in `into` the key that the parent must hold for a right page that begins with this page's entry `at`
    /// (1..count). For an inner page it is entry `at`'s key. For a leaf it is the shortest key that is greater than key
    /// `at - 1` and not greater than key `at`. Call it before [`PageMut::split`] or a borrow, on the page that loses
    /// entries.
    pub fn separator(self, at: usize, into: &mut Vec<u8>) {
        self.copy_key(at, into);
        if self.kind() == Kind::Leaf {
            let shared = common_len(self.suffix(at - 1), self.suffix(at));
            into.truncate(self.prefix().len() + shared + 1);
        }
    }
}

impl PageMut<'_> {
    /// Moves entries `at..` (`at` in 1..=count) to `right`, freshly initialised with this page's kind and level. An
    /// inner `right` has no key for its entry 0, so take [`Page::separator`] first. Both pages choose their own
    /// prefixes. If `at` is the count, nothing moves and `right` stays empty; the next key inserted there is then the
    /// separator.
    ///
    /// ```
    /// use base::CheckpointNo;
    /// use pando_page::{EditCounters, Kind, PageMut, Value};
    /// let (mut a, mut b) = (vec![0; 4096], vec![0; 4096]);
    /// let mut counters = EditCounters::default();
    /// let mut left = PageMut::init(&mut a, Kind::Leaf, 0, CheckpointNo(1));
    /// for (at, key) in ["plum", "prune", "quince"].iter().enumerate() {
    ///     left.insert(at, key.as_bytes(), Value::Inline(b""), &mut counters).unwrap();
    /// }
    /// let mut separator = Vec::new();
    /// left.as_page().separator(2, &mut separator);
    /// assert_eq!(separator, b"q");
    /// let mut right = PageMut::init(&mut b, Kind::Leaf, 0, CheckpointNo(1));
    /// left.split(&mut right, 2, &mut counters);
    /// assert_eq!((left.as_page().count(), right.as_page().count()), (2, 1));
    /// assert_eq!(left.as_page().prefix(), b"p");
    /// ```
    pub fn split(&mut self, right: &mut PageMut<'_>, at: usize, counters: &mut EditCounters) {
        let count = self.as_page().count();
        assert!((1..=count).contains(&at), "a page of {count} entries cannot be split at {at}");
        counters.splits += 1;
        if at < count {
            let image = self.bytes.to_vec();
            let page = Page::trusted(&image);
            right.keep(page, at..count, counters);
            self.keep(page, 0..at, counters);
        }
    }

    /// Appends all entries of `right`, the next sibling, which the caller then drops. `separator` is the parent's key
    /// for `right`; leaves ignore it. Returns `NoRoom`, without a change, if they do not fit.
    pub fn merge(
        &mut self,
        right: Page<'_>,
        separator: &[u8],
        counters: &mut EditCounters,
    ) -> Result<(), NoRoom> {
        self.receive_behind(Piece { separator, ..right.into() }, counters)?;
        counters.merges += 1;
        Ok(())
    }

    /// Moves the first `n` (fewer than all) entries of `right`, the next sibling, to this page's end. `separator` is
    /// the parent's old key for `right`, which leaves ignore. The new one is `right.separator(n)`, to be taken before
    /// the call. Returns `NoRoom`, without a change, if they do not fit.
    pub fn borrow_from_right(
        &mut self,
        right: &mut PageMut<'_>,
        n: usize,
        separator: &[u8],
        counters: &mut EditCounters,
    ) -> Result<(), NoRoom> {
        let image = right.bytes.to_vec();
        let page = Page::trusted(&image);
        assert!((1..page.count()).contains(&n), "{n} of {} entries cannot be borrowed", page.count());
        self.receive_behind(Piece { page, range: 0..n, separator }, counters)?;
        right.keep(page, n..page.count(), counters);
        counters.borrows += 1;
        Ok(())
    }

    /// Moves the last `n` (fewer than all) entries of `left`, the previous sibling, to this page's front. `separator`
    /// is the parent's old key for this page, which leaves ignore. The new one is `left.separator(count - n)`, to be
    /// taken before the call. Returns `NoRoom`, without a change, if they do not fit.
    pub fn borrow_from_left(
        &mut self,
        left: &mut PageMut<'_>,
        n: usize,
        separator: &[u8],
        counters: &mut EditCounters,
    ) -> Result<(), NoRoom> {
        let (left_image, image) = (left.bytes.to_vec(), self.bytes.to_vec());
        let (page, own) = (Page::trusted(&left_image), Page::trusted(&image));
        let count = page.count();
        assert!((1..count).contains(&n), "{n} of {count} entries cannot be borrowed");
        let moved = Piece { page, range: count - n..count, separator: &[] };
        let pieces = [moved, Piece { separator, ..own.into() }];
        let prefix = common_prefix(&pieces);
        if laid_out_bytes(prefix.len(), &pieces) > self.bytes.len() {
            return Err(NoRoom);
        }
        self.lay_out(&prefix, &pieces, counters);
        left.keep(page, 0..count - n, counters);
        counters.borrows += 1;
        Ok(())
    }

    /// Appends `piece`, under this page's prefix if its keys share that, else under the longest prefix that all keys
    /// share.
    fn receive_behind(&mut self, piece: Piece<'_>, counters: &mut EditCounters) -> Result<(), NoRoom> {
        let own = self.as_page();
        let pieces = [own.into(), piece.clone()];
        let mut prefix = common_prefix(&pieces);
        let keeps = prefix.starts_with(own.prefix());
        if keeps {
            prefix.truncate(own.prefix().len());
        }
        if laid_out_bytes(prefix.len(), &pieces) > self.bytes.len() {
            return Err(NoRoom);
        }
        if keeps {
            return self.append(&piece, counters);
        }
        let image = self.bytes.to_vec();
        self.lay_out(&prefix, &[Page::trusted(&image).into(), piece], counters);
        Ok(())
    }

    /// Appends the entries of `piece` under this page's prefix, which their keys must share.
    fn append(&mut self, piece: &Piece<'_>, counters: &mut EditCounters) -> Result<(), NoRoom> {
        let prefix_len = usize::from(field::prefix_len(self.bytes));
        let keyed = piece.page.kind().first_keyed();
        let mut range = piece.range.clone();
        while !range.is_empty() {
            let (i, at) = (range.start, self.as_page().count());
            let alike = i.min(at) >= keyed && piece.page.prefix().len() == prefix_len;
            if alike && self.append_alike(piece.page, range.clone(), counters) {
                break;
            }
            let cell = piece.page.cell(i);
            let [lead, suffix] = match at < keyed {
                true => [&[][..], &[]],
                false => piece.key_behind(i, prefix_len),
            };
            self.put(at, lead, Cell { suffix, ..cell }, counters)?;
            counters.bytes_moved += cell.bytes() as u64;
            range.start += 1;
        }
        Ok(())
    }

    /// Appends entries of a page with the same prefix, as most halves of a split have: cells are copied as they are,
    /// and slots with new offsets. All of the entries have keys. Returns `false`, without effect, if the gap is too
    /// small.
    fn append_alike(&mut self, page: Page<'_>, range: Range<usize>, counters: &mut EditCounters) -> bool {
        let slots = &page.slots()[range];
        let cells_bytes: usize = slots.iter().map(|&slot| page.cell_len(Slot::decode(slot))).sum();
        if self.as_page().gap_bytes() < SLOT_BYTES * slots.len() + cells_bytes {
            return false;
        }
        let count = self.as_page().count();
        let has_marks = page.has_large() || page.deletes() > 0;
        let mut offset = field::cells_start(self.bytes) as usize;
        for (at, &slot) in (count..).zip(slots) {
            let slot = Slot::decode(slot);
            let cell = &page.bytes[slot.offset()..slot.offset() + page.cell_len(slot)];
            offset -= cell.len();
            copy_short(&mut self.bytes[offset..offset + cell.len()], cell);
            self.set_slot(at, Slot::new(slot.head(), offset, slot.suffix_len()));
            if has_marks {
                let front = &cell[..page.kind().front_bytes()];
                self.add_large(i32::from(is_large(front)));
                self.add_deletes(i32::from(is_deleted(front)));
            }
        }
        field::set_cells_start(self.bytes, offset as u32);
        field::set_count(self.bytes, (count + slots.len()) as u16);
        counters.bytes_moved += cells_bytes as u64;
        true
    }

    /// Replaces this page's entries by the entries `range` of `page`, under the longest prefix that saves bytes.
    fn keep(&mut self, page: Page<'_>, range: Range<usize>, counters: &mut EditCounters) {
        debug_assert_eq!(page.bytes.len(), self.bytes.len());
        let pieces = [Piece { page, range, separator: &[] }];
        let mut prefix = common_prefix(&pieces);
        let bytes = |prefix_len| laid_out_bytes(prefix_len, &pieces);
        if prefix.len() > HEADER_PREFIX_BYTES && bytes(prefix.len()) > bytes(HEADER_PREFIX_BYTES) {
            prefix.truncate(HEADER_PREFIX_BYTES);
        }
        self.lay_out(&prefix, &pieces, counters);
    }

    /// Empties the page and writes the pieces' entries to it, one after the other. The caller knows that they fit under
    /// this prefix. The entries that remain when a page loses some do fit. A prefix in the header costs nothing. A
    /// longer prefix that is new is taken only if it costs less. A longer prefix that grows costs one granule at most,
    /// while a removed entry had three.
    pub(crate) fn lay_out(&mut self, prefix: &[u8], pieces: &[Piece<'_>], counters: &mut EditCounters) {
        self.reset();
        self.set_prefix(prefix);
        for piece in pieces {
            self.append(piece, counters).expect("what is laid out was measured before");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Value;
    use base::CheckpointNo;

    /// Builds a full page whose keys share 16 bytes, and all but the last one 17. A prefix of 17 would cost 20 bytes
    /// among the cells and save none: the cells are rounded up.
    #[test]
    fn a_prefix_that_leaves_the_header_for_nothing_is_cut() {
        let (mut bytes, mut other) = (vec![0; 4096], vec![0; 4096]);
        let mut counters = EditCounters::default();
        let mut page = PageMut::init(&mut bytes, Kind::Leaf, 0, CheckpointNo(1));
        let tiny = (0..255).map(|n| vec![b'a', n]);
        let small = (0..60).map(|n| vec![b'a', 255, 0, n]);
        // The last key first: it keeps the prefix short.
        for tail in [vec![b'b']].into_iter().chain(tiny).chain(small) {
            let key = [&b"sixteen bytes..."[..], &tail].concat();
            let at = page.as_page().search(&key).unwrap_err();
            page.insert(at, &key, Value::Inline(b""), &mut counters).unwrap();
        }
        let count = page.as_page().count();
        assert_eq!((page.as_page().free_bytes(), page.as_page().prefix().len()), (0, 16));
        let mut right = PageMut::init(&mut other, Kind::Leaf, 0, CheckpointNo(1));
        page.split(&mut right, count - 1, &mut counters);
        assert_eq!((page.as_page().count(), page.as_page().prefix().len()), (count - 1, 16));
        assert_eq!(page.as_page().search(b"sixteen bytes...a\x07"), Ok(7));
    }
}
