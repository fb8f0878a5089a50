//! Backward validation: a transaction may commit if no commit since it began changed what it depends on.
//!
//! 1. A table whose newest change is not after the snapshot is skipped as a whole.
//! 2. *Serializable*: every key read, every range read and every written key that was read before must be
//!    unchanged. Blind writes depend on nothing. A range was read from its start to the last key returned, absent
//!    keys included, so a key that appeared in between is found: there are no phantoms.
//! 3. *Snapshot*: every key written, every range deleted, and every range that the transaction [requires
//!    unchanged](ReadSet::require), must be unchanged (first committer wins).
//!
//! Validation may be repeated with a later `since`: what was unchanged up to some commit needs to be checked only
//! against later commits. So the long part runs before the critical section, and the rest inside it.

use crate::{Isolation, ReadSet};
use base::{CommitTs, Error, ErrorKind, TableId};
use std::fmt;
use std::ops::Bound;

/// The recent commits. The store implements it over the open and the sealed memtables, which reach back at least to
/// the snapshot of the oldest read-write transaction.
pub trait History {
    /// Returns the newest change of `key` by a put, a delete or a range delete, if it came after `since`.
    fn newest_in(&self, table: TableId, key: &[u8], since: CommitTs) -> Option<CommitTs>;

    /// Returns a key in `start..end` that changed after `since`; for a range delete that overlaps the range, any key
    /// of that range delete.
    fn changed_in(&self, table: TableId, start: &[u8], end: Bound<&[u8]>, since: CommitTs)
    -> Option<Vec<u8>>;

    /// Returns a timestamp at or after the newest change of `table`; 0 if the history has none.
    fn table_newest(&self, table: TableId) -> CommitTs;
}

/// Something that a transaction wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrittenKey<'a> {
    /// A put or a delete of one key.
    Key {
        /// The key.
        key: &'a [u8],
        /// Whether the transaction looked the key up in its snapshot before it wrote it.
        read: bool,
    },
    /// A key that was read and then written, and whose write was rolled back to a savepoint: only the read counts.
    Read {
        /// The key.
        key: &'a [u8],
    },
    /// A range delete of `[start, end)`. Without `end`, the range ends at the end of the table.
    Range {
        /// The first key that is deleted.
        start: &'a [u8],
        /// The first key after the range.
        end: Option<&'a [u8]>,
    },
}

/// The reason why a transaction may not commit: after it began, another one changed this key, or created or dropped
/// this table. It is the cause of an error of kind [`Conflict`](ErrorKind::Conflict), and [`Conflict::in_error`] finds
/// it there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    table: TableId,
    name: Option<String>,
    key: Option<Vec<u8>>,
}

impl Conflict {
    /// Creates a conflict at a key of a table.
    pub fn at(table: TableId, key: Vec<u8>) -> Self {
        Conflict { table, name: None, key: Some(key) }
    }

    /// Creates a conflict about the table itself, which another transaction created or dropped.
    pub fn about_table(table: TableId, name: impl Into<String>) -> Self {
        Conflict { table, name: Some(name.into()), key: None }
    }

    /// Adds the name of its table to the conflict.
    #[must_use]
    pub fn in_table(self, name: Option<&str>) -> Self {
        Conflict { name: name.map(str::to_owned), ..self }
    }

    /// Returns the conflict that caused `error`, or `None` if another cause did.
    #[must_use]
    pub fn in_error(error: &Error) -> Option<&Conflict> {
        std::error::Error::source(error)?.downcast_ref()
    }

    /// Returns the id of the table.
    pub fn table_id(&self) -> TableId {
        self.table
    }

    /// Returns the name of the table, or `None` if the transaction never opened the table.
    pub fn table(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the key that was changed. If a range delete changed it, this is some key that the range delete covers.
    /// Returns `None` if the table itself was created or dropped.
    pub fn key(&self) -> Option<&[u8]> {
        self.key.as_deref()
    }

    /// Returns what was changed, for a message.
    fn place(&self) -> String {
        let table = match &self.name {
            Some(name) => format!("table {name:?}"),
            None => self.table.to_string(),
        };
        match &self.key {
            Some(key) => format!("conflict in {table} at key {}", ShownKey(key)),
            None => format!("conflict about {table}"),
        }
    }
}

/// Checks that nothing that the transaction depends on was changed after `since`. O(reads) look-ups in the history
/// for tables that changed, O(1) for others. `writes` may leave out tables whose [`History::table_newest`] is at or
/// before `since`, and tables whose keys the caller knows to be unchanged.
///
/// ```
/// # use std::ops::Bound;
/// use base::{CommitTs, TableId};
/// use pando_txn::{History, Isolation, ReadSet, validate};
///
/// /// A history in which key `k` of table 16 changed at 5.
/// struct One;
/// impl History for One {
///     fn newest_in(&self, _: TableId, key: &[u8], since: CommitTs) -> Option<CommitTs> {
///         (key == b"k" && since < CommitTs(5)).then_some(CommitTs(5))
///     }
///     fn changed_in(&self, _: TableId, start: &[u8], _: Bound<&[u8]>, since: CommitTs) -> Option<Vec<u8>> {
///         (start <= &b"k"[..] && since < CommitTs(5)).then(|| b"k".to_vec())
///     }
///     fn table_newest(&self, _: TableId) -> CommitTs {
///         CommitTs(5)
///     }
/// }
///
/// let mut reads = ReadSet::new();
/// reads.key(TableId(16), b"k");
/// let check = |since| validate(&reads, &mut std::iter::empty(), Isolation::Serializable, since, &One);
/// assert!(check(CommitTs(5)).is_ok());
/// assert_eq!(check(CommitTs(4)).unwrap_err().key(), Some(&b"k"[..]));
/// ```
pub fn validate(
    reads: &ReadSet,
    writes: &mut dyn Iterator<Item = (TableId, WrittenKey<'_>)>,
    isolation: Isolation,
    since: CommitTs,
    history: &dyn History,
) -> Result<(), Conflict> {
    // The writes are first: a key that the transaction wrote says more than one in a range that it read. They come
    // grouped by table, so remembering the result for the last table is enough.
    let mut last = None;
    for (table, written) in writes {
        let changed = match last {
            Some((known, changed)) if known == table => changed,
            _ => history.table_newest(table) > since,
        };
        last = Some((table, changed));
        if changed && let Some(key) = conflicting(written, table, isolation, since, history) {
            return Err(Conflict::at(table, key));
        }
    }
    if isolation == Isolation::Serializable || reads.is_required() {
        for table in reads.tables().filter(|&table| history.table_newest(table) > since) {
            validate_reads(reads, table, since, history)?;
        }
    }
    Ok(())
}

fn validate_reads(
    reads: &ReadSet,
    table: TableId,
    since: CommitTs,
    history: &dyn History,
) -> Result<(), Conflict> {
    for key in reads.keys_of(table) {
        if history.newest_in(table, key, since).is_some() {
            return Err(Conflict::at(table, key.to_vec()));
        }
    }
    for (start, end) in reads.ranges_of(table) {
        if let Some(key) = history.changed_in(table, start, end, since) {
            return Err(Conflict::at(table, key));
        }
    }
    Ok(())
}

/// Returns the key at which this write conflicts, if it does.
fn conflicting(
    written: WrittenKey<'_>,
    table: TableId,
    isolation: Isolation,
    since: CommitTs,
    history: &dyn History,
) -> Option<Vec<u8>> {
    let serializable = isolation == Isolation::Serializable;
    match written {
        WrittenKey::Key { key, read } if read || !serializable => {
            history.newest_in(table, key, since).map(|_| key.to_vec())
        }
        WrittenKey::Read { key } if serializable => {
            history.newest_in(table, key, since).map(|_| key.to_vec())
        }
        WrittenKey::Range { start, end } if !serializable => {
            history.changed_in(table, start, end.map_or(Bound::Unbounded, Bound::Excluded), since)
        }
        _ => None,
    }
}

/// The longest key in bytes that messages show in full.
const SHOWN_KEY_BYTES: usize = 48;

/// A key in a message: as text if all of it is printable, else in hexadecimal digits.
struct ShownKey<'a>(&'a [u8]);

impl fmt::Display for ShownKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = &self.0[..self.0.len().min(SHOWN_KEY_BYTES)];
        if shown.iter().all(|byte| (b' '..=b'~').contains(byte)) {
            write!(f, "\"{}\"", shown.escape_ascii())?;
        } else {
            write!(f, "0x")?;
            shown.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        }
        if shown.len() < self.0.len() {
            write!(f, "... ({} bytes)", self.0.len())?;
        }
        Ok(())
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.key {
            Some(_) => "another transaction changed it after this one began",
            None => "another transaction created or dropped it after this one began",
        })
    }
}

impl std::error::Error for Conflict {}

impl From<Conflict> for Error {
    fn from(conflict: Conflict) -> Error {
        Error::new(ErrorKind::Conflict, conflict.place()).caused_by(conflict)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conflict_names_its_key() {
        let shown = |key: &[u8]| Error::from(Conflict::at(TableId(17), key.to_vec()));
        let named = Error::from(Conflict::at(TableId(17), b"k".to_vec()).in_table(Some("people")));
        assert!(named.to_string().starts_with("conflict in table \"people\" at key \"k\": another"));
        assert!(shown(b"user 1").message().starts_with("conflict in table 17 at key \"user 1\""));
        assert!(shown(&[0, 0xab]).message().ends_with("at key 0x00ab"));
        assert!(shown(&[b'x'; 100]).message().ends_with("x\"... (100 bytes)"));
        assert!(shown(b"").is_retryable());
    }

    #[test]
    fn the_cause_of_a_conflict_is_data() {
        let of_key = Error::from(Conflict::at(TableId(17), vec![0, 1]).in_table(Some("people")));
        let cause = Conflict::in_error(&of_key).unwrap();
        assert_eq!((cause.table(), cause.key()), (Some("people"), Some(&[0, 1][..])));
        let of_table = Error::from(Conflict::about_table(TableId(17), "people"));
        let cause = Conflict::in_error(&of_table).unwrap();
        assert_eq!((cause.table_id(), cause.table(), cause.key()), (TableId(17), Some("people"), None));
        assert!(of_table.to_string().contains("created or dropped"), "{of_table}");
        assert!(Conflict::in_error(&Error::new(ErrorKind::Conflict, "by hand")).is_none());
    }
}
