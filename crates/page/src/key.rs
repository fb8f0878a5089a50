//! Keys put together again: a page keeps what all of its keys begin with once, and of each entry the rest.

use crate::{Page, Parts};

/// Suffixes up to this long are copied as if they were this long: without a loop, and without a call.
const SHORT_BYTES: usize = 32;

/// The key of one entry of a leaf after another: the prefix stays, the suffix is put behind it.
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
    /// The prefix, then the suffix, then anything: room for a short suffix at least.
    bytes: Vec<u8>,
    prefix_len: usize,
    len: usize,
}

impl LeafKey {
    /// Goes on with the entries of `page`.
    pub fn enter(&mut self, page: Page<'_>) {
        let prefix = page.prefix();
        self.prefix_len = prefix.len();
        self.make_room(SHORT_BYTES);
        self.bytes[..prefix.len()].copy_from_slice(prefix);
        self.len = prefix.len();
    }

    /// Takes the key of the entry that `parts` are of, in the page that was entered. O(1) for suffixes of up to 32
    /// bytes.
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

    /// A longer suffix, and one at the page's very end.
    #[inline(never)]
    fn set_long(&mut self, suffix: &[u8]) {
        self.make_room(suffix.len());
        self.bytes[self.prefix_len..][..suffix.len()].copy_from_slice(suffix);
    }

    /// Room for a suffix; the memory is kept from page to page.
    fn make_room(&mut self, suffix_len: usize) {
        let len = self.prefix_len + suffix_len;
        if self.bytes.len() < len {
            self.bytes.resize(len, 0);
        }
    }

    /// The key.
    #[inline]
    pub fn get(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}
