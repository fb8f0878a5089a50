//! The limits of the engine, with their reasons.

/// The unit of space in the data file in bytes: 4 KiB, the page size of the page cache, which disks write without
/// reading it first. Every page and extent is a whole number of units.
pub const UNIT_BYTES: usize = 4096;

/// The smallest page size in bytes.
pub const MIN_PAGE_BYTES: usize = 4 << 10;
/// The largest page size in bytes: offsets within a page have 16 bits.
pub const MAX_PAGE_BYTES: usize = 64 << 10;
/// The default page size in bytes.
pub const DEFAULT_PAGE_BYTES: usize = 16 << 10;

/// The longest value in bytes that is written to the log, and the longest in a single extent. Up to this length,
/// writing the bytes twice costs less than the second flush that a value outside the log needs. Verifying an extent
/// needs all of it in memory.
pub const MAX_LOGGED_VALUE_BYTES: usize = 1 << 20;
/// The size in bytes of a piece of a longer value. A piece is verified as a whole, so a reader holds one in memory.
pub const PIECE_BYTES: usize = 256 << 10;
/// The largest number of pieces of a value.
pub const MAX_PIECES: usize = 64 << 10;
/// The longest value in bytes: 16 GiB. Its index of pieces takes 1 MiB.
pub const MAX_VALUE_BYTES: u64 = PIECE_BYTES as u64 * MAX_PIECES as u64;

/// Commit timestamps in files stay below this. A node of a memtable has 56 bits for one, so a file cannot bring it near
/// that end. A million commits a second reach it after a thousand years.
pub const TIMESTAMP_LIMIT: u64 = 1 << 55;
/// LSNs, and the numbers of checkpoints, segments and generations, stay below this in files, so that sums of them
/// cannot overflow.
pub const NUMBER_LIMIT: u64 = 1 << 62;

/// Returns the error for a database that has no number left after that of its last `what`.
#[cold]
pub fn used_up(what: &str, last: u64) -> crate::Error {
    crate::Error::corruption(format!(
        "the last {what} has number {last}, and there is none after it: no database gets so far, so a file \
         was forged or damaged; restore from a backup"
    ))
}

/// Returns the longest key in bytes that pages of `page_bytes` can hold: a quarter of a page less its bookkeeping, so
/// that an inner page always has room for three entries.
pub const fn max_key_bytes(page_bytes: usize) -> usize {
    page_bytes / 4 - 96
}

/// Returns the longest value in bytes that is stored in a page: a quarter of a page, so that a leaf always has room
/// for two records. A longer value is stored in an extent of its own, and the page has a reference to it.
pub const fn max_inline_bytes(page_bytes: usize) -> usize {
    page_bytes / 4 - 96
}

/// The greatest length, in bytes, of the beginning of a value that its page has besides the reference: as much as
/// SQLite leaves of a long record in a page of 4 KiB, so that short columns before a long one are read without it.
pub const MAX_BEGINNING_BYTES: usize = 480;

/// Returns the number of bytes of the beginning of a value that its page has besides the reference, for a value of
/// `len_bytes`: a sixteenth of it, because a merge writes the beginning again, but not the value.
pub const fn beginning_bytes(len_bytes: u64) -> usize {
    if len_bytes / 16 < MAX_BEGINNING_BYTES as u64 { (len_bytes / 16) as usize } else { MAX_BEGINNING_BYTES }
}

/// Returns whether `page_bytes` is a power of two from [`MIN_PAGE_BYTES`] through [`MAX_PAGE_BYTES`].
pub const fn is_page_size(page_bytes: usize) -> bool {
    page_bytes.is_power_of_two() && page_bytes >= MIN_PAGE_BYTES && page_bytes <= MAX_PAGE_BYTES
}

/// The longest name of a table in bytes of UTF-8.
pub const MAX_TABLE_NAME_BYTES: usize = 255;

/// Returns whether a page that holds only what it must has 32 bytes left, for the nonce and the tag of an encrypted
/// database. The header of a page has 64 bytes, a slot and what a cell needs besides key and value at most 28.
const fn leaves_room(page_bytes: usize) -> bool {
    let (key, value, entry) = (max_key_bytes(page_bytes), max_inline_bytes(page_bytes), 28);
    let two_records = 2 * (key + value + entry);
    let three_keys = 3 * (key + entry);
    64 + two_records + 32 <= page_bytes && 64 + three_keys + 32 <= page_bytes
}

const _: () = assert!(is_page_size(DEFAULT_PAGE_BYTES));
const _: () = assert!(PIECE_BYTES.is_multiple_of(UNIT_BYTES) && PIECE_BYTES <= MAX_LOGGED_VALUE_BYTES);
const _: () =
    assert!(leaves_room(MIN_PAGE_BYTES) && leaves_room(DEFAULT_PAGE_BYTES) && leaves_room(MAX_PAGE_BYTES));
const _: () = assert!(max_inline_bytes(MAX_PAGE_BYTES) < MAX_LOGGED_VALUE_BYTES);
const _: () = assert!(max_key_bytes(MIN_PAGE_BYTES) >= 511, "keys as long as LMDB's fit the smallest page");
const _: () = assert!(crate::LargeRef::BYTES + MAX_BEGINNING_BYTES <= max_inline_bytes(MIN_PAGE_BYTES));
const _: () = assert!(MAX_TABLE_NAME_BYTES <= max_key_bytes(MIN_PAGE_BYTES));
