//! One version of one key, as it is stored in the arena.
//!
//! ```text
//!   commit timestamp u64 · older version * · key bytes u32 · value bytes u32 (or a marker) · key · value
//! ```
//!
//! 1. A record is written whole before a pointer to it is published, and never changes after.
//! 2. The versions of a key form a chain, newest first; timestamps never increase along it. Of two versions
//!    with one timestamp the first in the chain was applied last, and counts.

use crate::arena::{Arena, Bump};
use base::{CommitTs, LargeRef, Value};
use std::alloc::Layout;
use std::cmp::Ordering;
use std::marker::PhantomData;
use std::{mem, ptr, slice};

/// The fixed part of a record. The key and the value follow it.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Header {
    ts: CommitTs,
    older: *const Header,
    key_bytes: u32,
    /// The length of the value, or [`TOMBSTONE`] or [`LARGE`].
    value_bytes: u32,
}

const TOMBSTONE: u32 = u32::MAX;
/// The marker of a value that is a large reference of [`LargeRef::BYTES`] bytes.
const LARGE: u32 = u32::MAX - 1;

/// A record that lives as long as the memtable that is borrowed for `'m`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'m> {
    header: *const Header,
    memtable: PhantomData<&'m Arena>,
}

// SAFETY: a record is as good as a `&'m` to bytes that never change.
unsafe impl Send for Record<'_> {}
// SAFETY: as above.
unsafe impl Sync for Record<'_> {}

impl<'m> Record<'m> {
    /// Writes a record of a change of `key`.
    pub fn create(
        bump: &mut Bump,
        arena: &'m Arena,
        ts: CommitTs,
        key: &[u8],
        value: Value<'_>,
        older: Option<Record<'m>>,
    ) -> Record<'m> {
        debug_assert!(older.is_none_or(|older| older.ts() <= ts), "commits are applied in their order");
        let reference;
        let (value_bytes, payload) = match value {
            Value::Inline(value) => {
                assert!(value.len() < LARGE as usize, "a value of {} bytes in memory", value.len());
                (value.len() as u32, value)
            }
            Value::Large(large) => {
                reference = large.encode();
                (LARGE, &reference[..])
            }
            Value::Deleted => (TOMBSTONE, &[][..]),
        };
        let size = mem::size_of::<Header>() + key.len() + payload.len();
        let layout = Layout::from_size_align(size, mem::align_of::<Header>()).expect("a record fits memory");
        let at = bump.low(arena, layout);
        let older = older.map_or(ptr::null(), |older| older.header);
        // SAFETY: `at` is fresh memory of this layout, which nobody else knows yet: the header fits at its
        // front and is aligned, and the two copies end where the layout ends.
        unsafe {
            at.cast::<Header>().write(Header { ts, older, key_bytes: key.len() as u32, value_bytes });
            let bytes = at.add(mem::size_of::<Header>());
            ptr::copy_nonoverlapping(key.as_ptr(), bytes, key.len());
            ptr::copy_nonoverlapping(payload.as_ptr(), bytes.add(key.len()), payload.len());
        }
        Record { header: at.cast(), memtable: PhantomData }
    }

    /// Returns the record at `header`, or `None` for null.
    ///
    /// # Safety
    /// `header` is null, or came from [`Record::as_ptr`] of a record of the memtable that `'m` borrows, and
    /// was read so that the writing of the record happened before.
    #[inline]
    pub unsafe fn from_ptr(header: *const Header) -> Option<Record<'m>> {
        (!header.is_null()).then_some(Record { header, memtable: PhantomData })
    }

    /// Returns the pointer that a node's slot holds.
    #[inline]
    pub fn as_ptr(self) -> *mut Header {
        self.header.cast_mut()
    }

    #[inline]
    fn header(self) -> &'m Header {
        // SAFETY: by `create` or the contract of `from_ptr` this is a written record, immutable, that lives
        // for 'm.
        unsafe { &*self.header }
    }

    #[inline]
    pub fn ts(self) -> CommitTs {
        self.header().ts
    }

    #[inline]
    pub fn key(self) -> &'m [u8] {
        // SAFETY: `create` wrote this many bytes right after the header, in the same allocation.
        unsafe { slice::from_raw_parts(self.header.add(1).cast(), self.header().key_bytes as usize) }
    }

    /// Returns the effect of the change on the key.
    #[inline]
    pub fn found(self) -> Value<'m> {
        match self.header().value_bytes {
            TOMBSTONE => Value::Deleted,
            LARGE => {
                let bytes = self.behind_key(LargeRef::BYTES);
                Value::Large(LargeRef::decode(bytes.first_chunk().expect("asked for as many")))
            }
            value_bytes => Value::Inline(self.behind_key(value_bytes as usize)),
        }
    }

    /// Returns the `len` bytes after the key: as many as `create` wrote there for this kind of value.
    #[inline]
    fn behind_key(self, len: usize) -> &'m [u8] {
        // SAFETY: `create` wrote this many bytes right after the key, in the same allocation: `found`, which alone
        // calls this, derives the length from the header as `create` set it.
        unsafe {
            let key = self.header.add(1).cast::<u8>();
            slice::from_raw_parts(key.add(self.header().key_bytes as usize), len)
        }
    }

    /// Returns this version and all older ones.
    pub fn versions(self) -> impl Iterator<Item = Record<'m>> {
        std::iter::successors(Some(self), |record| {
            // SAFETY: `older` was set by `create` from a record of the same memtable.
            unsafe { Record::from_ptr(record.header().older) }
        })
    }

    /// Returns the newest version at or before `at`, from this one on. Costs one step for each newer version.
    #[inline]
    pub fn visible(self, at: CommitTs) -> Option<Record<'m>> {
        let mut record = self;
        while record.ts() > at {
            // SAFETY: `older` was set by `create` from a record of the same memtable.
            record = unsafe { Record::from_ptr(record.header().older) }?;
        }
        Some(record)
    }
}

/// Compares `key` with a record's key whose head (`base::keys::head8`) is equal. If one of them is no longer than a
/// head, it is a prefix of the other up to zeros, and the shorter comes first.
#[inline]
pub(crate) fn compare_behind_head(key: &[u8], other: &[u8]) -> Ordering {
    if key.len() <= 8 || other.len() <= 8 { key.len().cmp(&other.len()) } else { key[8..].cmp(&other[8..]) }
}
