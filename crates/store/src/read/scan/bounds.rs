//! Bounds of the keys of a table, from one seek in each layer.

use super::Cursor;
use crate::read::handle::Table;
use crate::read::shortcut::Written;
use crate::read::snapshot::Snapshot;
use crate::state::ttl::Reading;
use base::{CommitTs, Result, Span, TableId};

impl Snapshot {
    /// Returns a key that is at or after every key of the table: the last existing one, one that was added since, or a
    /// deleted one that no merge has dropped yet. It takes one look into each layer, however many there are. O(log n).
    pub fn last_key_bound(&self, table: &Table) -> Result<Option<Vec<u8>>> {
        let reading = table.check(self)?;
        Cursor::last_key_bound(self, table.id(), reading)
    }
}

impl<'a> Cursor<'a> {
    /// Creates a cursor for bounds only: it sees every key of each memtable, whenever it was committed. A cursor as of
    /// a time skips later keys, of which there may be any number.
    fn over_keys(snapshot: &'a Snapshot, table: TableId, reading: Reading) -> Result<Self> {
        let of = (None, snapshot.known());
        Self::new(snapshot, CommitTs::MAX, (Vec::new(), Written::Nothing), of, table, reading, Span::all())
    }

    /// Returns a key that is at or after every key of the table, in the snapshot or later. It takes one seek in each
    /// layer.
    pub(crate) fn last_key_bound(
        snapshot: &'a Snapshot,
        table: TableId,
        reading: Reading,
    ) -> Result<Option<Vec<u8>>> {
        let mut cursor = Self::over_keys(snapshot, table, reading)?;
        cursor.steps.taken += 1;
        Ok(cursor.merged.last_key_of_any()?.map(<[u8]>::to_vec))
    }

    /// Returns a key before which the table has no record from `from` on; `None`: it has none at all.
    pub(crate) fn next_key_bound(
        snapshot: &'a Snapshot,
        table: TableId,
        reading: Reading,
        from: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        let mut cursor = Self::over_keys(snapshot, table, reading)?;
        cursor.steps.taken += 1;
        Ok(cursor.merged.first_key_of_any(from)?.map(<[u8]>::to_vec))
    }
}
