//! Values too long for a page: how their bytes are stored, and how they are read a piece at a time.
//!
//! ```text
//!   LargeRef ──► extent                                   up to 1 MiB: the value, then zeros to the end of the unit
//!   LargeRef ──► index ──► piece, piece, ... piece        longer: `PagePtr::IN_PIECES` is set
//!                index = piece units u32 · zero u32 · length u64 · a PagePtr a piece · zeros to the end of the unit
//! ```
//! All pieces except the last have the same length, so a division leads from an offset to its piece. Each lies where
//! there was space. The index has the checksum of each piece, and the reference that of the index. So a piece is
//! verified before a byte of it is returned, and a reader holds one index (at most 1 MiB and a unit) and one piece.
//!
//! The claims of a reference, an index and a piece are trusted only after they were found to agree: [`Pieces::open`].

use crate::allocate::Allocate;
use base::limits::{
    MAX_LOGGED_VALUE_BYTES, MAX_PIECES, MAX_VALUE_BYTES, PIECE_BYTES, UNIT_BYTES, beginning_bytes,
};
use base::sync::{Mutex, lock};
use base::{CheckpointNo, DatabaseId, Error, ErrorKind, LargeRef, PagePtr, Result, checksum};
use io::File;
use page::Value;
use pool::Pool;
use space::Space;

const INDEX_HEADER_BYTES: usize = 16;

/// Returns the units of an index of `pieces` pieces.
fn index_units(pieces: usize) -> u64 {
    (INDEX_HEADER_BYTES + pieces * PagePtr::BYTES).div_ceil(UNIT_BYTES) as u64
}

/// The parts of one large value, found and checked. Its bytes are not read yet.
#[derive(Clone, Debug)]
pub struct Pieces {
    len_bytes: u64,
    piece_bytes: u64,
    index: Option<PagePtr>,
    pieces: Vec<PagePtr>,
}

impl Pieces {
    /// Finds the parts of a value: reads the index, if it has one.
    ///
    /// Errors: [`ErrorKind::Corruption`] if the reference or the index contradict themselves, the limits or the file;
    /// then nothing is allocated except the index.
    pub fn open(pool: &Pool, large: LargeRef) -> Result<Pieces> {
        pool.judge(Pieces::find(&**pool.file(), pool.database(), large))
    }

    /// Finds the parts of a value for a caller that has a data file and no pool: reads the index, if it has one. For
    /// errors see [`Pieces::open`].
    pub fn find(file: &dyn File, database: DatabaseId, large: LargeRef) -> Result<Pieces> {
        let LargeRef { ptr, len_bytes, .. } = large;
        let file_bytes = file.len()?;
        if len_bytes == 0 || len_bytes > file_bytes {
            return Err(wrong(large, format_args!("it is larger than its file of {file_bytes} bytes")));
        }
        match ptr.flags() {
            0 => {
                let fits = len_bytes.div_ceil(UNIT_BYTES as u64) == ptr.units();
                if !fits || len_bytes > MAX_LOGGED_VALUE_BYTES as u64 {
                    return Err(wrong(large, "its length does not match its extent"));
                }
                Ok(Pieces { len_bytes, piece_bytes: len_bytes, index: None, pieces: vec![ptr] })
            }
            PagePtr::IN_PIECES => Pieces::read_index(file, database, large),
            flags => Err(wrong(large, format_args!("its flags are {flags}"))),
        }
    }

    fn read_index(file: &dyn File, database: DatabaseId, large: LargeRef) -> Result<Pieces> {
        let LargeRef { ptr, len_bytes, .. } = large;
        if ptr.units() > index_units(MAX_PIECES) || len_bytes > MAX_VALUE_BYTES {
            return Err(wrong(large, "its index or its value exceeds the largest possible length"));
        }
        if ptr.unit() == 0 {
            return Err(wrong(large, "its index overlaps the superblock"));
        }
        let mut bytes = vec![0; ptr.len_bytes()];
        file.read_exact_at(&mut bytes, ptr.offset_bytes())?;
        let found = checksum::extent(database, ptr.unit(), &bytes);
        if found != ptr.checksum() {
            return Err(wrong(large, format_args!("its index has checksum {found:016x}")));
        }
        let (header, entries) = bytes.split_at(INDEX_HEADER_BYTES);
        let word = |at: usize| u64::from_le_bytes(*header[at..].first_chunk().expect("16 bytes"));
        // The upper half of the first word is zero: a piece has fewer than 2^32 units.
        let (piece_units, indexed_bytes) = (word(0), word(8));
        let most_units = (MAX_LOGGED_VALUE_BYTES / UNIT_BYTES) as u64;
        if piece_units == 0 || piece_units > most_units || indexed_bytes != len_bytes {
            let what = format!("its index has pieces of {piece_units} units for {indexed_bytes} bytes");
            return Err(wrong(large, what));
        }
        let piece_bytes = piece_units * UNIT_BYTES as u64;
        let count = len_bytes.div_ceil(piece_bytes);
        if count > MAX_PIECES as u64 || index_units(count as usize) != ptr.units() {
            return Err(wrong(large, format_args!("its index does not have room for {count} pieces")));
        }
        let (entries, padding) = entries.split_at(count as usize * PagePtr::BYTES);
        let decode = |entry: &[u8]| PagePtr::decode(entry.try_into().expect("16 bytes"));
        let pieces: Vec<PagePtr> = entries.chunks_exact(PagePtr::BYTES).map(decode).collect();
        let found = Pieces { len_bytes, piece_bytes, index: Some(ptr.with_flags(0)), pieces };
        let fits = |(at, piece): (usize, &PagePtr)| {
            piece.flags() == 0 && piece.units() == (found.bytes_of(at) as u64).div_ceil(UNIT_BYTES as u64)
        };
        if !found.pieces.iter().enumerate().all(fits) || padding.iter().any(|&byte| byte != 0) {
            return Err(wrong(large, "a piece in its index has a wrong length"));
        }
        Ok(found)
    }

    /// Returns the length of the value in bytes.
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Returns how many pieces there are: at least one.
    pub fn count(&self) -> usize {
        self.pieces.len()
    }

    /// Returns every extent of the value, the index first if there is one.
    pub fn extents(&self) -> impl Iterator<Item = PagePtr> {
        self.index.into_iter().chain(self.pieces.iter().copied())
    }

    /// Returns every extent of the value, the index first, each with the number of bytes that its checksum covers.
    pub fn parts(&self) -> impl Iterator<Item = (PagePtr, u64)> {
        let index = self.index.into_iter().map(|ptr| (ptr, ptr.len_bytes() as u64));
        index.chain(self.pieces.iter().enumerate().map(|(at, ptr)| (*ptr, self.bytes_of(at) as u64)))
    }

    /// Returns the piece that has byte `offset`, and the offset in the piece. `offset` must be less than the length.
    pub fn place_of(&self, offset: u64) -> (usize, usize) {
        ((offset / self.piece_bytes) as usize, (offset % self.piece_bytes) as usize)
    }

    fn bytes_of(&self, at: usize) -> usize {
        self.piece_bytes.min(self.len_bytes - at as u64 * self.piece_bytes) as usize
    }

    /// Reads the bytes that a page has beside a reference. Returns none if they cannot be read: a checkpoint then
    /// continues, and the next read of the value reports the damage.
    fn beginning(&self, pool: &Pool) -> Vec<u8> {
        let mut first = Vec::new();
        if self.read(pool, 0, &mut first).is_ok() {
            first.truncate(beginning_bytes(self.len_bytes));
        }
        first.shrink_to_fit();
        first
    }

    /// Reads piece `at` into `buffer`, replacing its contents. The piece is read from the file and verified. After an
    /// error the buffer is empty.
    pub fn read(&self, pool: &Pool, at: usize, buffer: &mut Vec<u8>) -> Result<()> {
        buffer.clear();
        buffer.resize(self.bytes_of(at), 0);
        pool.read_extent_into(self.pieces[at], buffer).inspect_err(|_| buffer.clear())
    }
}

/// Adds `piece_bytes` zeros to `value`, which is to have `len_bytes` in the end.
///
/// A forged reference may claim 16 GiB in a sparse file. So memory is reserved for as much as was read and verified
/// before, and for 1 MiB at first, and not for what the reference claims.
///
/// Errors: [`ErrorKind::Full`] if there is no memory.
pub fn add_piece(value: &mut Vec<u8>, piece_bytes: usize, len_bytes: u64) -> Result<()> {
    let read = value.len();
    if value.capacity() - read < piece_bytes {
        let rest = usize::try_from(len_bytes).unwrap_or(usize::MAX).saturating_sub(read);
        let more = rest.min(read.max(MAX_LOGGED_VALUE_BYTES)).max(piece_bytes);
        value.try_reserve_exact(more).map_err(|refused| {
            let message = format!(
                "there is not enough memory for a value of {len_bytes} bytes; read it piece by piece"
            );
            Error::new(ErrorKind::Full, message).caused_by(refused)
        })?;
    }
    value.resize(read + piece_bytes, 0);
    Ok(())
}

/// Reads a whole large value, every piece verified.
///
/// Errors: those of [`Pieces::open`] and of reading; [`ErrorKind::Full`] if there is no memory for it.
pub fn read_large(pool: &Pool, large: LargeRef) -> Result<Vec<u8>> {
    let pieces = Pieces::open(pool, large)?;
    let mut value = Vec::new();
    for (at, ptr) in pieces.pieces.iter().enumerate() {
        let begin = value.len();
        add_piece(&mut value, pieces.bytes_of(at), large.len_bytes)?;
        pool.read_extent_into(*ptr, &mut value[begin..])?;
    }
    if LargeRef::head_of(&value) != large.head {
        return Err(wrong(
            large,
            format_args!("its first bytes differ from those in its reference, {:02x?}", large.head),
        ));
    }
    Ok(value)
}

/// Writes `bytes` to the extent that begins at `unit`, and zeros to the end of its last unit, which the checksum does
/// not cover.
pub fn write_extent(pool: &Pool, unit: u64, bytes: &[u8]) -> Result<PagePtr> {
    let units = bytes.len().div_ceil(UNIT_BYTES) as u64;
    let ptr = PagePtr::new(unit, units, checksum::extent(pool.database(), unit, bytes));
    let (whole, rest) = bytes.split_at(bytes.len() / UNIT_BYTES * UNIT_BYTES);
    if !whole.is_empty() {
        pool.file().write_at(whole, ptr.offset_bytes())?;
    }
    if !rest.is_empty() {
        let mut last = [0; UNIT_BYTES];
        last[..rest.len()].copy_from_slice(rest);
        pool.file().write_at(&last, ptr.offset_bytes() + whole.len() as u64)?;
    }
    Ok(ptr)
}

/// Returns the bytes of the index of a value of `len_bytes` in `pieces` of `piece_bytes` each (the last may be
/// shorter), in whole units. Write it with [`write_extent`]; the reference is the pointer that returns, with
/// [`PagePtr::IN_PIECES`].
pub fn encode_index(len_bytes: u64, piece_bytes: usize, pieces: &[PagePtr]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(index_units(pieces.len()) as usize * UNIT_BYTES);
    bytes.extend_from_slice(&((piece_bytes / UNIT_BYTES) as u64).to_le_bytes());
    bytes.extend_from_slice(&len_bytes.to_le_bytes());
    for piece in pieces {
        bytes.extend_from_slice(&piece.encode());
    }
    bytes.resize(bytes.capacity(), 0);
    bytes
}

/// Writes `value`, of at most [`MAX_LOGGED_VALUE_BYTES`], to an extent of its own. Returns what a page has of it, in
/// `buffer`.
pub(crate) fn write_large<'b>(
    pool: &Pool,
    space: &mut dyn Allocate,
    value: &[u8],
    buffer: &'b mut Vec<u8>,
) -> Result<Value<'b>> {
    let large = write_to_extent(pool, space, value)?;
    Ok(Value::Large(large.encode_with(&value[..beginning_bytes(large.len_bytes)], buffer)))
}

fn write_to_extent(pool: &Pool, space: &mut dyn Allocate, value: &[u8]) -> Result<LargeRef> {
    let unit = space.for_value(value.len().div_ceil(UNIT_BYTES) as u64)?;
    let (ptr, head) = (write_extent(pool, unit, value)?, LargeRef::head_of(value));
    Ok(LargeRef { ptr, len_bytes: value.len() as u64, head })
}

/// Transfers a value to which the log referred to the checkpoint: its extents are saved as used. Returns what a page
/// has of it, in `buffer`.
pub(crate) fn adopt_large<'b>(
    pool: &Pool,
    space: &Mutex<Space>,
    large: LargeRef,
    buffer: &'b mut Vec<u8>,
) -> Result<Value<'b>> {
    let pieces = Pieces::open(pool, large)?;
    let mut locked = lock(space);
    pieces.extents().for_each(|ptr| locked.adopt(ptr.unit()));
    drop(locked);
    Ok(Value::Large(large.encode_with(&pieces.beginning(pool), buffer)))
}

/// Retires the extents of a value that checkpoint `at` no longer reaches.
///
/// Errors: those of [`Pieces::open`]; [`ErrorKind::Corruption`] if one of them is not in use, as in a forged file.
pub(crate) fn retire_large(
    pool: &Pool,
    space: &Mutex<Space>,
    large: LargeRef,
    at: CheckpointNo,
) -> Result<()> {
    let pieces = Pieces::open(pool, large)?;
    let mut space = lock(space);
    pieces.extents().try_for_each(|ptr| space.retire(ptr, at))
}

/// Copies a large value that lies in one extent to a lower place, or returns `None` if there is none. Any lower place
/// suffices, even one after the border: a value that waited for a gap before the border would keep the whole end of the
/// file.
pub(crate) fn move_large(pool: &Pool, space: &Mutex<Space>, large: LargeRef) -> Result<Option<LargeRef>> {
    let units = large.ptr.units();
    if !lock(space).has_room_before(large.ptr.unit(), units) {
        return Ok(None);
    }
    write_to_extent(pool, &mut { space }, &read_large(pool, large)?).map(Some)
}

/// Returns the bytes of the value itself, wherever it is stored.
#[inline]
pub(crate) fn value_bytes(value: Value<'_>) -> u64 {
    match value {
        Value::Inline(bytes) => bytes.len() as u64,
        Value::Large(large) => large.reference().len_bytes,
        Value::Deleted => 0,
    }
}

/// Returns the hash under which a record is conserved, as [`page::Page::record_sum`] counts it.
#[inline]
pub(crate) fn record_hash(key: &[u8], value: Value<'_>) -> u64 {
    match value {
        Value::Inline(bytes) => checksum::record(key, bytes),
        Value::Large(large) => checksum::record(key, large.bytes()),
        Value::Deleted => checksum::record(key, &[]),
    }
}

#[cold]
pub(crate) fn wrong(large: LargeRef, what: impl std::fmt::Display) -> Error {
    Error::corruption(format!("large value of {} bytes at {:?}: {what}", large.len_bytes, large.ptr))
}

const _: () = assert!(PIECE_BYTES <= MAX_LOGGED_VALUE_BYTES);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_for_a_value_grows_with_what_was_read() {
        for len_bytes in [1 << 20, (1 << 20) + 1, (9 << 20) - 7, MAX_VALUE_BYTES] {
            let mut value = Vec::new();
            let mut moves = 0;
            while (value.len() as u64) < len_bytes.min(64 << 20) {
                let (read, capacity) = (value.len(), value.capacity());
                let piece = PIECE_BYTES.min((len_bytes - read as u64) as usize);
                add_piece(&mut value, piece, len_bytes).unwrap();
                moves += usize::from(value.capacity() > capacity);
                let bound = (2 * read).max(MAX_LOGGED_VALUE_BYTES) as u64;
                let reserved = value.capacity() as u64;
                assert!(reserved <= bound.min(len_bytes), "{reserved} bytes after {read} of {len_bytes}");
            }
            assert!(moves <= 8, "it is copied {moves} times");
        }
    }
}
