//! The descriptor of a run: its root and its size. It has 48 bytes in the catalog; only this file encodes and decodes
//! it.
//!
//! | bytes | field | meaning |
//! |---|---|---|
//! | 0-15 | root | `PagePtr`; zeros when the run is empty |
//! | 16 | height | levels; 0 when the run is empty |
//! | 17 | flags | bit 0: holds deletes, as it lies over other runs |
//! | 18-23 | saved units | what compressed leaves take less than others, little-endian |
//! | 24-31 | records | how many, little-endian |
//! | 32-39 | bytes | of keys and values, little-endian |
//! | 40-47 | leaves | pages of records, little-endian |

use base::limits::{MAX_PAGE_BYTES, UNIT_BYTES};
use base::{Error, PagePtr, Result, codec};
use page::{Kind, Page};

/// The largest number of levels of a run. Half-full pages of the least fan-out (three children) reach more pages in 32
/// levels than a page pointer can name.
pub const MAX_HEIGHT: usize = 32;

/// Records, and the bytes of keys and values, are no more than this: a data file has at most 2^52 bytes, and
/// compression makes its pages at most 16 times shorter. So sums over many runs cannot overflow.
pub(crate) const MAX_CONTENT: u64 = 1 << 56;
const _: () = assert!(MAX_CONTENT >= (PagePtr::MAX_UNIT + 1) * MAX_PAGE_BYTES as u64);

/// A B+tree of immutable pages, given by its root.
///
/// ```
/// use pando_run::Run;
/// assert_eq!(Run::decode(&Run::EMPTY.encode()).unwrap(), Run::EMPTY);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The root page; `None` when the run is empty.
    pub root: Option<PagePtr>,
    /// The number of levels: 0 when the run is empty, 1 when the root is a leaf.
    pub height: u8,
    /// The number of records. It is exact until a range is removed without reading its leaves; from then on it is an
    /// estimate.
    pub records: u64,
    /// The bytes of keys and values. An estimate whenever `records` is one.
    pub bytes: u64,
    /// The exact number of leaf pages.
    pub leaves: u64,
    /// The exact number of units that compressing the leaves saves, compared with leaves of a whole page each.
    pub saved_units: u64,
    /// Whether records may be deletes. A run that has no run below it has no deletes.
    pub deletes: bool,
}

/// The flag of [`Run::deletes`].
const DELETES_FLAG: u8 = 1;

impl Run {
    /// The empty run.
    pub const EMPTY: Run =
        Run { root: None, height: 0, records: 0, bytes: 0, leaves: 0, saved_units: 0, deletes: false };
    /// The length of the encoded form in bytes.
    pub const BYTES: usize = 48;

    /// Returns the on-disk form.
    pub fn encode(&self) -> [u8; Run::BYTES] {
        let mut out = [0; Run::BYTES];
        if let Some(root) = self.root {
            out[..16].copy_from_slice(&root.encode());
        }
        out[16] = self.height;
        out[17] = if self.deletes { DELETES_FLAG } else { 0 };
        // A data file has fewer than 2^40 units; a forged value may be larger.
        let saved = self.saved_units.min((1 << 48) - 1).to_le_bytes();
        out[18..24].copy_from_slice(&saved[..6]);
        out[24..32].copy_from_slice(&self.records.to_le_bytes());
        out[32..40].copy_from_slice(&self.bytes.to_le_bytes());
        out[40..].copy_from_slice(&self.leaves.to_le_bytes());
        out
    }

    /// Decodes the on-disk form. Returns [`ErrorKind::Corruption`](base::ErrorKind::Corruption) if the height fits no
    /// tree, the flags are unknown, its leaves would take no space, or no data file could hold it.
    pub fn decode(bytes: &[u8; Run::BYTES]) -> Result<Run> {
        let mut reader = codec::Reader::new(bytes);
        let mut parts =
            || Some((reader.array()?, reader.array::<8>()?, reader.u64()?, reader.u64()?, reader.u64()?));
        let (root, [height, flags, saved @ ..], records, size, leaves) =
            parts().expect("48 bytes hold the fields");
        let root: [u8; PagePtr::BYTES] = root;
        let saved_units = saved.iter().rev().fold(0, |units, &byte: &u8| units << 8 | u64::from(byte));
        let most_saved = leaves.saturating_mul((MAX_PAGE_BYTES / UNIT_BYTES) as u64 - 1);
        if usize::from(height) > MAX_HEIGHT || flags > DELETES_FLAG || saved_units > most_saved {
            return Err(Error::corruption(format!(
                "run descriptor: height {height} (at most {MAX_HEIGHT}), flags {flags} (0 or 1), \
                 {saved_units} units saved (at most {most_saved})"
            )));
        }
        if height == 0
            && (root != [0; PagePtr::BYTES] || flags != 0 || records != 0 || size != 0 || leaves != 0)
        {
            return Err(Error::corruption("run descriptor: height is 0, but it has a root or records"));
        }
        if leaves > PagePtr::MAX_UNIT || records.max(size) > MAX_CONTENT {
            return Err(Error::corruption(format!(
                "run descriptor: {records} records with {size} bytes in {leaves} leaves fit no data file"
            )));
        }
        let root = (height > 0).then(|| PagePtr::decode(&root));
        Ok(Run { root, height, records, bytes: size, leaves, saved_units, deletes: flags == DELETES_FLAG })
    }

    /// Returns the root and its level, or `None` when the run is empty.
    #[inline]
    pub(crate) fn top(&self) -> Option<(PagePtr, u8)> {
        self.root.map(|root| (root, self.height.saturating_sub(1)))
    }
}

/// Checks that the leaf `page`, reached through `ptr`, is one; that it is not empty; and that it holds deletes only
/// in a run that may.
#[inline]
pub(crate) fn expect_leaf(page: Page<'_>, ptr: PagePtr, deletes: bool) -> Result<()> {
    expect_level(page, ptr, 0)?;
    if page.deletes() == 0 || deletes { Ok(()) } else { Err(deletes_nothing(page, ptr)) }
}

#[cold]
fn deletes_nothing(page: Page<'_>, ptr: PagePtr) -> Error {
    let deletes = page.deletes();
    Error::corruption(format!("page at {ptr:?}: {deletes} deletes in a run that has no run below it"))
}

/// Checks that `page`, reached through `ptr`, has the level that its parent says and is not empty: with this, every
/// descent ends and every inner page has a child for every key.
#[inline]
pub(crate) fn expect_level(page: Page<'_>, ptr: PagePtr, level: u8) -> Result<()> {
    let kind = if level == 0 { Kind::Leaf } else { Kind::Inner };
    if page.level() == level && page.kind() == kind && page.count() > 0 {
        return Ok(());
    }
    Err(misplaced(page, ptr, level))
}

#[cold]
fn misplaced(page: Page<'_>, ptr: PagePtr, level: u8) -> Error {
    Error::corruption(format!(
        "page at {ptr:?}: {:?} of level {} with {} entries, expected level {level} and at least one entry",
        page.kind(),
        page.level(),
        page.count()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_comes_back() {
        let run = Run {
            root: Some(PagePtr::new(9, 4, 7).with_flags(1)),
            height: 3,
            records: 10,
            bytes: 200,
            leaves: 2,
            saved_units: 3,
            deletes: true,
        };
        assert_eq!(Run::decode(&run.encode()).unwrap(), run);
    }

    #[test]
    fn bytes_that_fit_no_run_are_refused() {
        let root = Some(PagePtr::new(9, 4, 7));
        let good = Run { root, height: 3, records: 10, bytes: 200, leaves: 2, ..Run::EMPTY }.encode();
        for (at, value) in [(16, 0), (16, 33), (17, 2), (18, 31), (23, 9), (31, 2), (39, 2), (45, 1)] {
            let mut bad = good;
            bad[at] = value;
            assert!(Run::decode(&bad).is_err(), "byte {at} = {value}");
        }
    }
}
