//! Whole keys: a page stores the common prefix of its keys once, and the rest of each key in its entry.

use crate::{Page, Parts};

/// Suffixes up to this long are copied as if they had this length: without a loop, and without a call.
const SHORT_BYTES: usize = 32;

/// The key of one entry of a leaf after another: the prefix stays, and the suffix is copied after it.
///
/// ```
/// # use base::{CheckpointNo, DatabaseId};
/// # use pando_page::{EditCounters, Kind, LeafKey, PageMut, Value};
/// let mut bytes = vec![0; 4096];
/// let mut leaf = PageMut::init(&mut bytes, Kind::Leaf, 0, CheckpointNo(1));
/// for (at, key) in [b"apple", b"apply"].into_iter().enumerate() {
///     leaf.insert(at, key, Value::Inline(b"red"), &mut EditCounters::default()).unwrap();
/// }
/// let page = leaf.as_page();
/// let mut key = LeafKey::default();
/// key.enter(page);
/// key.set(page, page.parts(1));
/// assert_eq!(key.get(), b"apply");
/// ```
#[derive(Debug, Default)]
pub struct LeafKey {
    /// The prefix, then the suffix, then unused bytes: room for a short suffix at least.
    bytes: Vec<u8>,
    prefix_len: usize,
    len: usize,
}

impl LeafKey {
    /// Continues with the entries of `page`.
    pub fn enter(&mut self, page: Page<'_>) {
        let prefix = page.prefix();
        self.prefix_len = prefix.len();
        self.make_room(SHORT_BYTES);
        self.bytes[..prefix.len()].copy_from_slice(prefix);
        self.len = prefix.len();
    }

    /// Sets the key to that of the entry of `parts`, in the page that was entered. O(1) for suffixes of up to 32 bytes.
    #[inline]
    pub fn set(&mut self, page: Page<'_>, parts: Parts) {
        let suffix_len = parts.suffix_len();
        self.len = self.prefix_len + suffix_len;
        let (from, into) = (&page.bytes()[parts.start()..], &mut self.bytes[self.prefix_len..]);
        match (from.first_chunk::<SHORT_BYTES>(), into.first_chunk_mut::<SHORT_BYTES>()) {
            (Some(from), Some(into)) if suffix_len <= SHORT_BYTES => *into = *from,
            _ => self.set_long(&from[..suffix_len]),
        }
    }

    /// Copies a longer suffix, or one at the page's very end.
    #[inline(never)]
    fn set_long(&mut self, suffix: &[u8]) {
        self.make_room(suffix.len());
        self.bytes[self.prefix_len..][..suffix.len()].copy_from_slice(suffix);
    }

    /// Makes room for a suffix; the memory is reused from page to page.
    fn make_room(&mut self, suffix_len: usize) {
        let len = self.prefix_len + suffix_len;
        if self.bytes.len() < len {
            self.bytes.resize(len, 0);
        }
    }

    /// Returns the key.
    #[inline]
    pub fn get(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}
