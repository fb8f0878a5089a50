//! The logical catalog: table name to id and options, as rows of table 0.
//!
//! The rows are logged and isolated like any others: a table is created and dropped in a transaction, and a transaction
//! that writes to a table has read its row, so that a concurrent drop conflicts.
//!
//! A row's value:
//!
//! | offset | bytes | field |
//! |---:|---:|---|
//! | 0 | 4 | table id |
//! | 4 | 1 | wanted layout: 1 B+tree, 2 LSM |
//! | 5 | 0 or 17 | none, or the options of a table with a TTL |
//! | | 0 or 2 | none, or 2 and 1: leaves are compressed with LZ4 |
//!
//! | offset | bytes | field of a table with a TTL ([`crate::ttl`]) |
//! |---:|---:|---|
//! | 5 | 1 | 1: each of its values begins with its date |
//! | 6 | 8 | how long an entry lives, in milliseconds, not 0; 2^64 - 1: until it is deleted |
//! | 14 | 8 | what was put before this time, in milliseconds since 1970, has expired |

use crate::state::ttl::Ttl;
use base::codec::{Reader, Writer};
use base::limits::MAX_TABLE_NAME_BYTES;
use base::{Error, Result, TableId};
use std::fmt;
use std::str::FromStr;

/// The layout that a table's owner asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RequestedLayout {
    /// One B+tree, edited in place by each checkpoint: fast reads and scans, and the least space.
    #[default]
    BTree,
    /// A log-structured merge tree: sorted runs with filters, merged in the background. Writes cost the same however
    /// large the table is; reads ask several runs.
    Lsm,
}

impl RequestedLayout {
    /// All layouts.
    pub const ALL: [RequestedLayout; 2] = [RequestedLayout::BTree, RequestedLayout::Lsm];

    /// Returns the layout's name: `btree` or `lsm`.
    pub fn name(self) -> &'static str {
        match self {
            RequestedLayout::BTree => "btree",
            RequestedLayout::Lsm => "lsm",
        }
    }
}

impl fmt::Display for RequestedLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for RequestedLayout {
    type Err = Error;

    /// ```
    /// use pando_store::RequestedLayout;
    /// assert_eq!("lsm".parse::<RequestedLayout>()?, RequestedLayout::Lsm);
    /// assert!("heap".parse::<RequestedLayout>().is_err());
    /// # base::Result::Ok(())
    /// ```
    fn from_str(name: &str) -> Result<Self> {
        let found = RequestedLayout::ALL.into_iter().find(|layout| layout.name() == name);
        found.ok_or_else(|| Error::invalid(format!("a table's layout must be btree or lsm, not {name:?}")))
    }
}

/// The compression of the runs that merges write for an LSM table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Compression {
    /// No compression: leaves are stored as they are.
    #[default]
    None,
    /// LZ4, a leaf at a time ([`page::compressed`]): less space and fewer bytes read and written, for a few
    /// microseconds each time a leaf is read from the disk. A leaf in memory is never compressed.
    Lz4,
}

impl Compression {
    /// All compressions.
    pub const ALL: [Compression; 2] = [Compression::None, Compression::Lz4];

    /// Returns the compression's name: `none` or `lz4`.
    pub fn name(self) -> &'static str {
        match self {
            Compression::None => "none",
            Compression::Lz4 => "lz4",
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Compression {
    type Err = Error;

    /// ```
    /// use pando_store::Compression;
    /// assert_eq!("lz4".parse::<Compression>()?, Compression::Lz4);
    /// assert!("zip".parse::<Compression>().is_err());
    /// # base::Result::Ok(())
    /// ```
    fn from_str(name: &str) -> Result<Self> {
        let found = Compression::ALL.into_iter().find(|compression| compression.name() == name);
        found
            .ok_or_else(|| Error::invalid(format!("a table's compression must be none or lz4, not {name:?}")))
    }
}

/// A row of the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableRow {
    /// The id of the table.
    pub id: TableId,
    /// The layout of the table.
    pub layout: RequestedLayout,
    /// The TTL, if the table's values have dates.
    pub ttl: Option<Ttl>,
    /// The compression of its leaves, while it is an LSM table.
    pub compression: Compression,
}

const BTREE_TAG: u8 = 1;
const LSM_TAG: u8 = 2;
const TTL_TAG: u8 = 1;
const COMPRESSION_TAG: u8 = 2;
const LZ4_TAG: u8 = 1;

impl TableRow {
    /// Returns the least time, in milliseconds since 1970, that the database had reached when this row was committed.
    pub(crate) fn floor_ms(&self) -> u64 {
        self.ttl.map_or(0, |ttl| ttl.floor_ms)
    }

    /// Returns the encoded value of the row.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(24);
        out.put_u32(self.id.0);
        out.put_u8(match self.layout {
            RequestedLayout::BTree => BTREE_TAG,
            RequestedLayout::Lsm => LSM_TAG,
        });
        if let Some(ttl) = self.ttl {
            out.put_u8(TTL_TAG);
            out.put_u64(ttl.ms);
            out.put_u64(ttl.floor_ms);
        }
        match self.compression {
            Compression::None => {}
            Compression::Lz4 => [COMPRESSION_TAG, LZ4_TAG].into_iter().for_each(|byte| out.put_u8(byte)),
        }
        out
    }

    /// Reads a row's value.
    pub fn decode(name: &[u8], value: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(value);
        let row = (|| {
            let id = TableId(reader.u32()?);
            let layout = match reader.u8()? {
                BTREE_TAG => RequestedLayout::BTree,
                LSM_TAG => RequestedLayout::Lsm,
                _ => return None,
            };
            let mut row = TableRow { id, layout, ttl: None, compression: Compression::None };
            while !reader.is_empty() {
                let is_plain = row.compression == Compression::None;
                match reader.u8()? {
                    TTL_TAG if row.ttl.is_none() && is_plain => {
                        row.ttl = Some(Ttl { ms: reader.u64()?, floor_ms: reader.u64()? });
                    }
                    COMPRESSION_TAG if is_plain && reader.u8()? == LZ4_TAG => {
                        row.compression = Compression::Lz4;
                    }
                    _ => return None,
                }
            }
            // With a TTL by key there is nothing that a floor could keep expired.
            let is_sound = row.ttl.is_none_or(|ttl| !ttl.is_by_key() || ttl == Ttl::BY_KEY);
            ((TableId::FIRST_USER..TableId(u32::MAX)).contains(&id) && is_sound).then_some(row)
        })();
        let name = String::from_utf8_lossy(name);
        row.ok_or_else(|| {
            Error::corruption(format!("catalog row of table {name:?} cannot be decoded: {value:02x?}"))
        })
    }
}

/// Rejects a name that is empty or too long.
pub fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > MAX_TABLE_NAME_BYTES {
        let length = name.len();
        return Err(Error::invalid(format!(
            "a table name must have 1 to {MAX_TABLE_NAME_BYTES} bytes, not {length}"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_and_others_are_refused() {
        let ttl = Ttl { ms: 60_000, floor_ms: 7 };
        let (layout, compression) = (RequestedLayout::Lsm, Compression::None);
        let row = TableRow { id: TableId(16), layout, ttl: Some(ttl), compression };
        let plain = TableRow { ttl: None, ..row };
        let bytes = row.encode();
        // These bytes are in docs/format.md.
        assert_eq!(bytes, b"\x10\0\0\0\x02\x01\x60\xea\0\0\0\0\0\0\x07\0\0\0\0\0\0\0");
        assert_eq!(TableRow::decode(b"t", &bytes).unwrap(), row);
        assert_eq!(TableRow::decode(b"t", &plain.encode()).unwrap(), plain);
        for cut in (0..bytes.len()).filter(|cut| *cut != 5) {
            assert!(TableRow::decode(b"t", &bytes[..cut]).is_err(), "cut at {cut}");
        }
        for (at, byte) in [(5, 2), (5, 0), (4, 3)] {
            let mut forged = bytes.clone();
            forged[at] = byte;
            assert!(TableRow::decode(b"t", &forged).is_err(), "{byte} at {at}");
        }
        let compressed = TableRow { compression: Compression::Lz4, ..plain };
        // These bytes are in docs/format.md.
        assert_eq!(compressed.encode(), b"\x10\0\0\0\x02\x02\x01");
        let both = TableRow { ttl: row.ttl, ..compressed };
        for row in [compressed, both] {
            let bytes = row.encode();
            assert_eq!(TableRow::decode(b"t", &bytes).unwrap(), row);
            assert!(TableRow::decode(b"t", &bytes[..bytes.len() - 1]).is_err());
            assert!(TableRow::decode(b"t", &[&bytes[..], &[2, 1]].concat()).is_err(), "said twice");
            let other = [&bytes[..bytes.len() - 1], &[2]].concat();
            assert!(TableRow::decode(b"t", &other).is_err(), "another method");
        }
        let misplaced = [&compressed.encode()[..], &bytes[5..]].concat();
        assert!(TableRow::decode(b"t", &misplaced).is_err(), "out of order");
        let by_key = TableRow { ttl: Some(Ttl::BY_KEY), ..row };
        assert_eq!(TableRow::decode(b"t", &by_key.encode()).unwrap(), by_key);
        let forged = TableRow { ttl: Some(Ttl { floor_ms: 7, ..Ttl::BY_KEY }), ..row };
        assert!(TableRow::decode(b"t", &forged.encode()).is_err());
    }
}
