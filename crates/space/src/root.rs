//! The root of the map, which the superblock stores, and ranges of units.

use base::PagePtr;
use std::fmt;

/// The root of the space map, which the superblock stores.
///
/// On disk, 24 bytes: the pointer (16, zeros for none) and the number of units (8, little-endian).
///
/// ```
/// use pando_space::SpaceRoot;
/// let root = SpaceRoot { map: Some(base::PagePtr::new(2, 1, 77)), units: 16 };
/// assert_eq!(SpaceRoot::decode(&root.encode()), root);
/// assert_eq!(SpaceRoot::decode(&[0; 24]), SpaceRoot::EMPTY);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceRoot {
    /// The pointer to the only chunk of the bitmap, or to the directory of several. `None` before the first save.
    pub map: Option<PagePtr>,
    /// The number of units that the map covers.
    pub units: u64,
}

impl SpaceRoot {
    /// The length of the encoded form in bytes.
    pub const BYTES: usize = 24;
    /// The root of a map that was never saved.
    pub const EMPTY: SpaceRoot = SpaceRoot { map: None, units: 0 };

    /// Returns the on-disk form.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        if let Some(map) = self.map {
            out[..16].copy_from_slice(&map.encode());
        }
        out[16..].copy_from_slice(&self.units.to_le_bytes());
        out
    }

    /// Decodes the on-disk form. Any 24 bytes decode to a root; [`Space::load`](crate::Space::load) checks it.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Self {
        let (ptr, units) = bytes.split_at(16);
        let ptr: &[u8; 16] = ptr.try_into().expect("16 bytes");
        let units = u64::from_le_bytes(units.try_into().expect("8 bytes"));
        SpaceRoot { map: (*ptr != [0; 16]).then(|| PagePtr::decode(ptr)), units }
    }
}

/// A range of `units` units from `unit` on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extent {
    /// The first unit.
    pub unit: u64,
    /// The number of units.
    pub units: u64,
}

impl Extent {
    /// Returns the unit after the last.
    #[inline]
    pub fn end(self) -> u64 {
        self.unit + self.units
    }
}

impl From<PagePtr> for Extent {
    fn from(ptr: PagePtr) -> Self {
        Extent { unit: ptr.unit(), units: ptr.units() }
    }
}

impl fmt::Debug for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.unit, self.units)
    }
}
