//! One version of one key, as it is stored in the arena.
//!
//! ```text
//!   commit timestamp u64 · older version * · key bytes u32 · value bytes u32 (or a marker) · key · value
//! ```
//!
//! 1. A record is written whole before a pointer to it is published, and never changes after. Until then it is a
//!    [`Draft`], which lacks its timestamp and the older version: a commit writes its drafts before it has either.
//! 2. The versions of a key form a chain, newest first; timestamps never increase along it. Of two versions
//!    with one timestamp the first in the chain was applied last, and counts.

use crate::arena::{Arena, Bump};
use base::keys::head8;
use base::{CommitTs, Large, LargeRef, Value};
use std::alloc::Layout;
use std::cell::Cell;
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

/// A record that is not published yet. Dropped, it leaves its memory unused.
#[derive(Debug)]
pub(crate) struct Draft<'m> {
    /// Null once the record is finished.
    header: Cell<*mut Header>,
    memtable: PhantomData<&'m Arena>,
}

// SAFETY: a draft is the only pointer to its record, and as good as a `&'m mut` to it.
unsafe impl Send for Draft<'_> {}

impl<'m> Draft<'m> {
    /// Returns a draft that is finished.
    pub const fn none() -> Draft<'m> {
        Draft { header: Cell::new(ptr::null_mut()), memtable: PhantomData }
    }

    /// Writes what a change of `key` consists of.
    #[inline]
    pub fn write(bump: &mut Bump, arena: &'m Arena, key: &[u8], value: Value<'_>) -> Draft<'m> {
        let (value_bytes, payload) = match value {
            Value::Inline(value) => {
                assert!(value.len() < LARGE as usize, "a value of {} bytes in memory", value.len());
                (value.len() as u32, value)
            }
            Value::Large(large) => (LARGE, &large.encoded_reference()[..]),
            Value::Deleted => (TOMBSTONE, &[][..]),
        };
        let size = mem::size_of::<Header>() + key.len() + payload.len();
        let layout = Layout::from_size_align(size, mem::align_of::<Header>()).expect("a record fits memory");
        let at = bump.low(arena, layout);
        let (ts, older) = (CommitTs(0), ptr::null());
        // SAFETY: `at` is fresh memory of this layout, which no other thread knows yet: the header fits at its
        // front and is aligned, and the two copies end where the layout ends.
        unsafe {
            at.cast::<Header>().write(Header { ts, older, key_bytes: key.len() as u32, value_bytes });
            let bytes = at.add(mem::size_of::<Header>());
            ptr::copy_nonoverlapping(key.as_ptr(), bytes, key.len());
            ptr::copy_nonoverlapping(payload.as_ptr(), bytes.add(key.len()), payload.len());
        }
        Draft { header: Cell::new(at.cast()), memtable: PhantomData }
    }

    /// Turns the draft into one without the memtable's lifetime.
    ///
    /// # Safety
    /// It is used only as long as the memtable lives.
    #[inline]
    pub unsafe fn detach(self) -> Draft<'static> {
        Draft { header: self.header, memtable: PhantomData }
    }

    /// Returns its key. It must not be finished.
    #[inline]
    pub fn key(&self) -> &'m [u8] {
        let header = self.header.get();
        assert!(!header.is_null(), "the draft was finished");
        Record { header, memtable: PhantomData }.key()
    }

    /// Returns its effect on the key. It must not be finished.
    pub fn value(&self) -> Value<'m> {
        let header = self.header.get();
        assert!(!header.is_null(), "the draft was finished");
        Record { header, memtable: PhantomData }.found()
    }

    /// Returns the head of its key after `skip` bytes.
    #[inline]
    pub fn head(&self, skip: usize) -> u64 {
        head8(&self.key()[skip..])
    }

    /// Completes the record, once: a change by commit `ts` of the key whose newest version is `older`.
    #[inline]
    pub fn finish(&self, ts: CommitTs, older: Option<Record<'m>>) -> Record<'m> {
        debug_assert!(older.is_none_or(|older| older.ts() <= ts), "commits are applied in their order");
        let header = self.header.replace(ptr::null_mut());
        assert!(!header.is_null(), "the draft was finished");
        // SAFETY: `write` wrote the header. The draft was the only pointer to it, and has just lost it. The bytes
        // that `key` lent are others.
        unsafe {
            (*header).ts = ts;
            (*header).older = older.map_or(ptr::null(), |older| older.header);
        }
        Record { header, memtable: PhantomData }
    }
}

impl<'m> Record<'m> {
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
        // SAFETY: by `Draft::finish` or the contract of `from_ptr` this is a written record, immutable, that lives
        // for 'm.
        unsafe { &*self.header }
    }

    #[inline]
    pub fn ts(self) -> CommitTs {
        self.header().ts
    }

    #[inline]
    pub fn key(self) -> &'m [u8] {
        // SAFETY: `Draft::write` wrote this many bytes right after the header, in the same allocation.
        unsafe { slice::from_raw_parts(self.header.add(1).cast(), self.header().key_bytes as usize) }
    }

    /// Returns the effect of the change on the key.
    #[inline]
    pub fn found(self) -> Value<'m> {
        match self.header().value_bytes {
            TOMBSTONE => Value::Deleted,
            LARGE => Value::Large(Large::of(self.behind_key(LargeRef::BYTES))),
            value_bytes => Value::Inline(self.behind_key(value_bytes as usize)),
        }
    }

    /// Returns the `len` bytes after the key: as many as `Draft::write` wrote there for this kind of value.
    #[inline]
    fn behind_key(self, len: usize) -> &'m [u8] {
        // SAFETY: `Draft::write` wrote this many bytes right after the key, in the same allocation: `found`, which
        // alone calls this, derives the length from the header as `write` set it.
        unsafe {
            let key = self.header.add(1).cast::<u8>();
            slice::from_raw_parts(key.add(self.header().key_bytes as usize), len)
        }
    }

    /// Returns this version and all older ones.
    pub fn versions(self) -> impl Iterator<Item = Record<'m>> {
        std::iter::successors(Some(self), |record| {
            // SAFETY: `older` was set by `Draft::finish` from a record of the same memtable.
            unsafe { Record::from_ptr(record.header().older) }
        })
    }

    /// Returns the newest version at or before `at`, from this one on. Costs one step for each newer version.
    #[inline]
    pub fn visible(self, at: CommitTs) -> Option<Record<'m>> {
        let mut record = self;
        while record.ts() > at {
            // SAFETY: `older` was set by `Draft::finish` from a record of the same memtable.
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
