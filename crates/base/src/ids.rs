//! Identifiers. Each is a number with one meaning, in a type of its own, so that two meanings cannot be mixed up.

use crate::limits::UNIT_BYTES;
use std::fmt;

/// The id of a table. It is never reused, even after the table is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub u32);

impl TableId {
    /// The table of the catalog's logical rows: from a table's name to its id and options. They are logged like the
    /// rows of any table.
    pub const CATALOG: TableId = TableId(0);
    /// The table of the catalog's physical rows: from a table's id to its run. Only checkpoints write them, and they
    /// are never logged.
    pub const PHYSICAL: TableId = TableId(1);
    /// The table that records the database that this one replicates, and up to which commit. It is logged like any
    /// table.
    pub const LINEAGE: TableId = TableId(2);
    /// The first id of a user's table.
    pub const FIRST_USER: TableId = TableId(16);
}

impl fmt::Display for TableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "table {}", self.0)
    }
}

/// A position in the log's byte stream. It only grows: no position is ever written twice with different bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A commit timestamp: a commit's place in the total order of commits. 0 is before the first commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitTs(pub u64);

impl CommitTs {
    /// A timestamp after every commit.
    pub const MAX: CommitTs = CommitTs(u64::MAX);
}

/// The number of a checkpoint. The *birth* of a page is the checkpoint that wrote it. 0 is the empty database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CheckpointNo(pub u64);

/// The id of a database, drawn at random when it is created. It seeds every checksum, so that a page or a log block of
/// another database is never accepted as one of this database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DatabaseId(pub u64);

/// A pointer to a page or an extent: its place, its length, and the checksum of its contents.
///
/// The checksum is stored with the pointer, not only in the page: a flipped bit, a misdirected write and a lost write
/// are all found before a byte is returned.
///
/// Encoded it has 16 bytes, two little-endian `u64`. The first packs the unit (bits 0-39), the length in units (bits
/// 40-55) and flags (bits 56-63); the second is the checksum.
///
/// ```
/// use pando_base::PagePtr;
/// let ptr = PagePtr::new(7, 4, 0xfeed);
/// assert_eq!((ptr.unit(), ptr.units(), ptr.checksum()), (7, 4, 0xfeed));
/// assert_eq!(PagePtr::decode(&ptr.encode()), ptr);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PagePtr {
    place: u64,
    checksum: u64,
}

const UNIT_BITS: u32 = 40;
const LENGTH_BITS: u32 = 16;
const FLAG_SHIFT: u32 = UNIT_BITS + LENGTH_BITS;

impl PagePtr {
    /// The length of the encoded form in bytes.
    pub const BYTES: usize = 16;
    /// The largest unit number: 4 PiB of data file.
    pub const MAX_UNIT: u64 = (1 << UNIT_BITS) - 1;
    /// The longest extent in units: 256 MiB less one unit.
    pub const MAX_UNITS: u64 = (1 << LENGTH_BITS) - 1;
    /// Flag: the subtree has large values, so it cannot be dropped without reading it.
    pub const HAS_LARGE: u8 = 1;
    /// Flag of a large reference: the pointer leads to the index of the value's pieces.
    pub const IN_PIECES: u8 = 2;
    /// Flag: the page is not on disk, and the unit is an index into an editor's dirty pages. Never written to a file.
    pub const IN_MEMORY: u8 = 0x80;

    /// Creates a pointer to `units` units from `unit` on. Panics if a part does not fit its bits: places come from the
    /// space map, which never returns such places, and pointers in a file are read by [`PagePtr::decode`].
    #[inline]
    pub fn new(unit: u64, units: u64, checksum: u64) -> Self {
        assert!(
            unit <= Self::MAX_UNIT && units <= Self::MAX_UNITS,
            "extent {unit}+{units} does not fit a page pointer"
        );
        PagePtr { place: unit | (units << UNIT_BITS), checksum }
    }

    /// Returns a copy of the pointer that has exactly these flags.
    #[inline]
    #[must_use]
    pub fn with_flags(self, flags: u8) -> Self {
        let place = self.place & ((1 << FLAG_SHIFT) - 1);
        PagePtr { place: place | (u64::from(flags) << FLAG_SHIFT), ..self }
    }

    /// Returns the first unit.
    #[inline]
    pub fn unit(self) -> u64 {
        self.place & Self::MAX_UNIT
    }

    /// Returns the length in units of [`UNIT_BYTES`].
    #[inline]
    pub fn units(self) -> u64 {
        (self.place >> UNIT_BITS) & Self::MAX_UNITS
    }

    /// Returns the flags.
    #[inline]
    pub fn flags(self) -> u8 {
        (self.place >> FLAG_SHIFT) as u8
    }

    /// Returns the checksum of the contents.
    #[inline]
    pub fn checksum(self) -> u64 {
        self.checksum
    }

    /// Returns the offset in the data file in bytes.
    #[inline]
    pub fn offset_bytes(self) -> u64 {
        self.unit() * UNIT_BYTES as u64
    }

    /// Returns the length in bytes.
    #[inline]
    pub fn len_bytes(self) -> usize {
        self.units() as usize * UNIT_BYTES
    }

    /// Encodes the pointer as 16 bytes.
    #[inline]
    pub fn encode(self) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        out[..8].copy_from_slice(&self.place.to_le_bytes());
        out[8..].copy_from_slice(&self.checksum.to_le_bytes());
        out
    }

    /// Decodes 16 bytes. Any 16 bytes decode to a pointer. Whether it lies within the file is checked when it is
    /// followed.
    #[inline]
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Self {
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        PagePtr { place: word(0), checksum: word(8) }
    }
}

impl fmt::Debug for PagePtr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unit {}+{} ({:016x})", self.unit(), self.units(), self.checksum)
    }
}
