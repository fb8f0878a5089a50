//! The numbers that bound everything, with their reasons.

/// The unit of space in the data file. Every page and extent is a whole number of them: 4 KiB is what disks
/// write without a read before, and what the page cache works in.
pub const UNIT_BYTES: usize = 4096;

/// The smallest page.
pub const MIN_PAGE_BYTES: usize = 4 << 10;
/// The largest page: offsets inside a page are 16-bit.
pub const MAX_PAGE_BYTES: usize = 64 << 10;
/// The page size of a database that names none.
pub const DEFAULT_PAGE_BYTES: usize = 16 << 10;

/// The longest value that travels through the log, and the longest that lies in one extent, in bytes. Up to here the
/// second flush that a value outside the log costs is dearer than writing its bytes twice; and to verify an extent it
/// is read whole.
pub const MAX_LOGGED_VALUE_BYTES: usize = 1 << 20;
/// The bytes of a longer value that lie, and are verified, together: a reader holds this much of it in memory.
pub const PIECE_BYTES: usize = 256 << 10;
/// Pieces of one value, at most.
pub const MAX_PIECES: usize = 64 << 10;
/// The longest value, in bytes: 16 GiB, whose index of pieces takes 1 MiB.
pub const MAX_VALUE_BYTES: u64 = (PIECE_BYTES * MAX_PIECES) as u64;

/// The longest key that pages of `page_bytes` hold: a quarter of a page less the room its bookkeeping needs, so
/// that an inner page always has room for three entries.
pub const fn max_key_bytes(page_bytes: usize) -> usize {
    page_bytes / 4 - 96
}

/// The longest value kept inside a page; a longer one lies in an extent of its own and the page keeps a reference.
/// A quarter of a page: a leaf then always holds at least two records.
pub const fn max_inline_bytes(page_bytes: usize) -> usize {
    page_bytes / 4 - 96
}

/// Whether `page_bytes` is a power of two between [`MIN_PAGE_BYTES`] and [`MAX_PAGE_BYTES`].
pub const fn is_page_size(page_bytes: usize) -> bool {
    page_bytes.is_power_of_two() && page_bytes >= MIN_PAGE_BYTES && page_bytes <= MAX_PAGE_BYTES
}

/// The longest table name, in bytes of UTF-8.
pub const MAX_TABLE_NAME_BYTES: usize = 255;

const _: () = assert!(is_page_size(DEFAULT_PAGE_BYTES));
const _: () = assert!(PIECE_BYTES.is_multiple_of(UNIT_BYTES) && PIECE_BYTES <= MAX_LOGGED_VALUE_BYTES);
const _: () = assert!(max_inline_bytes(MAX_PAGE_BYTES) < MAX_LOGGED_VALUE_BYTES);
const _: () = assert!(max_key_bytes(MIN_PAGE_BYTES) >= 511, "keys as long as LMDB's fit the smallest page");
const _: () = assert!(MAX_TABLE_NAME_BYTES <= max_key_bytes(MIN_PAGE_BYTES));
