//! Entries with a limited life: tables with a TTL.
//!
//! 1. *A date before each value.* A table that was created with a TTL is *dated*: every value in it, wherever it is
//!    stored, begins with the time of its put, 8 bytes. Whether a table is dated never changes while it holds anything;
//!    the TTL of its entries may. Everything below transactions and snapshots does not know dates: for log, memtables,
//!    runs and backups it is a value. For a value outside the pages the reference has the date, too
//!    ([`LargeRef::head`]).
//! 2. *One time for each snapshot.* It is read from the clock when the snapshot first meets a dated table, and stays:
//!    so what the snapshot sees does not change while it lives. An entry that has expired by then does not exist for
//!    any read (`Reading`), and so for `insert`, `compare_and_swap` and `remove`. A newer version that has expired
//!    hides the older ones, as a delete does.
//! 3. *Time never goes back, and does not jump* (`crate::time`): it passes as the process's monotonic clock does,
//!    whatever the wall clock shows, and continues across a reopening. So an entry that was absent once stays absent.
//! 4. *Entries that have expired for good are dropped in passing*: if a checkpoint or a merge processes an entry
//!    anyway, it turns an expired one into a delete (it does not omit it, because an older version may lie below), and
//!    a sweep finds those in a B+tree (`crate::checkpoint::sweep`). The limit by which a checkpoint drops is that of
//!    the rows that it has absorbed.
//! 5. *Changing a table's TTL* makes no expired entry visible again: the row records what had expired by the old one
//!    ([`Ttl::floor_ms`]), as of its commit (`stamp_floors`). So that a checkpoint drops nothing that a new TTL keeps,
//!    it fixes its time under the commit lock, and only if it absorbs the newest rows; otherwise it drops by the time
//!    of the checkpoint before (`Store::dropping_time_ms`). During a recovery, when newer rows may follow, nothing is
//!    dropped.
//! 6. *A TTL by key*: in a table of this kind the 8 bytes are the time at which the entry expires, or all ones: never.
//!    The row has the TTL 0, so that the other rules hold as they are: an entry has expired once its date is reached.
//!    Whether a table has a TTL by key never changes.
//!
//! The reasons are in docs/decisions/0024-ttl.md, 0031-time-of-a-database.md and 0041-ttl-by-key.md.

use crate::state::catalog::TableRow;
use base::op::{Decoder, Op};
use base::{Error, LargeRef, Result, TableId};
use page::Value;
use run::WriteContext;
use std::time::Duration;

/// The length of the date before each value of a dated table: milliseconds since 1970, little-endian.
pub(crate) const DATE_BYTES: usize = 8;

/// The time at which an entry expires that never does.
pub(crate) const NEVER_MS: u64 = u64::MAX;

/// When an entry expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// Never: the entry lives until it is deleted.
    Never,
    /// After this time.
    In(Duration),
}

/// The catalog's data of a dated table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ttl {
    /// The time that an entry lives, in milliseconds; [`Ttl::FOR_EVER`]: until it is deleted; 0: a TTL by key.
    pub ms: u64,
    /// The time before which every put has expired, whatever [`Ttl::ms`] is.
    pub floor_ms: u64,
}

impl Ttl {
    /// The TTL of entries that do not expire.
    pub const FOR_EVER: u64 = u64::MAX;

    /// The TTL of a table whose entries each have their own.
    pub const BY_KEY: Ttl = Ttl { ms: 0, floor_ms: 0 };

    /// The TTL with which nothing has expired or will.
    pub(crate) const NONE: Ttl = Ttl { ms: Self::FOR_EVER, floor_ms: 0 };

    /// Creates a TTL: at least 1 ms, and less than [`Ttl::FOR_EVER`].
    ///
    /// # Errors
    /// [`Invalid`](base::ErrorKind::Invalid) for less or more.
    pub fn new(ttl: Duration) -> Result<Ttl> {
        match u64::try_from(ttl.as_millis()) {
            Ok(0) => Err(Error::invalid("a table's TTL must be at least 1 ms")),
            Ok(Self::FOR_EVER) | Err(_) => Err(Error::invalid(
                "a table's TTL must be less than 2^64-1 ms; omit the TTL to keep entries forever",
            )),
            Ok(ms) => Ok(Ttl { ms, floor_ms: 0 }),
        }
    }

    /// Returns how long an entry lives; `None`: it does not expire, or has a TTL of its own.
    pub fn duration(self) -> Option<Duration> {
        (self.ms != Self::FOR_EVER && !self.is_by_key()).then(|| Duration::from_millis(self.ms))
    }

    /// Returns whether each entry has a TTL of its own.
    pub fn is_by_key(self) -> bool {
        self.ms == Self::BY_KEY.ms
    }

    /// Returns the TTL after a change to `ms` at `now_ms`: what has expired by then stays expired.
    fn changed(self, ms: u64, now_ms: u64) -> Ttl {
        Ttl { ms, floor_ms: self.oldest_ms(now_ms) }
    }

    /// Returns the TTL after a change to `ttl` at `now_ms`; `None`: entries live for ever.
    pub(crate) fn change_to(self, ttl: Option<Duration>, now_ms: u64) -> Result<Ttl> {
        let ms = ttl.map(Ttl::new).transpose()?.map_or(Ttl::FOR_EVER, |ttl| ttl.ms);
        Ok(self.changed(ms, now_ms))
    }

    /// Returns the oldest date that has not expired: an entry lives as long as its age is less than the TTL.
    pub fn oldest_ms(self, now_ms: u64) -> u64 {
        now_ms.saturating_add(1).saturating_sub(self.ms).max(self.floor_ms)
    }
}

/// The way in which the values of a table are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Values without dates.
    #[default]
    Plain,
    /// Values after dates. What has a date before `oldest_ms` has expired. With `is_by_key` a date is the time at
    /// which the entry expires.
    Dated { oldest_ms: u64, is_by_key: bool },
}

impl Reading {
    /// Returns how the values of a table are read at a time; `ttl` is that of its row.
    pub fn at(ttl: Option<Ttl>, now_ms: impl FnOnce() -> u64) -> Reading {
        match ttl {
            None => Reading::Plain,
            Some(ttl) => Reading::Dated { oldest_ms: ttl.oldest_ms(now_ms()), is_by_key: ttl.is_by_key() },
        }
    }

    /// Returns whether values have a date.
    #[inline]
    pub fn is_dated(self) -> bool {
        matches!(self, Reading::Dated { .. })
    }

    /// Returns whether each entry has a TTL of its own.
    pub fn is_by_key(self) -> bool {
        matches!(self, Reading::Dated { is_by_key: true, .. })
    }

    /// Returns the date of a value that is put at a time: with a TTL by key, that of an entry that never expires.
    pub fn date_of_put(self, now_ms: u64) -> [u8; DATE_BYTES] {
        if self.is_by_key() { NEVER_MS.to_le_bytes() } else { now_ms.to_le_bytes() }
    }

    /// Returns the date before a value; `None` if it is deleted, has expired or has no date.
    ///
    /// # Errors
    /// As [`Reading::value`].
    pub fn date(self, value: Value<'_>) -> Result<Option<u64>> {
        match value {
            _ if self.has_expired(value)? || !self.is_dated() => Ok(None),
            Value::Inline(stored) => Ok(stored.first_chunk().map(|date| u64::from_le_bytes(*date))),
            Value::Large(large) => Ok(Some(u64::from_le_bytes(large.reference().head))),
            Value::Deleted => Ok(None),
        }
    }

    /// Returns the number of bytes before each value.
    #[inline]
    pub fn front_bytes(self) -> usize {
        if self.is_dated() { DATE_BYTES } else { 0 }
    }

    /// Returns the value that `stored` holds; `None` if it has expired.
    ///
    /// # Errors
    /// [`Corruption`](base::ErrorKind::Corruption) if it should have a date, and is too short for one.
    #[inline]
    pub fn value(self, stored: &[u8]) -> Result<Option<&[u8]>> {
        match self {
            Reading::Plain => Ok(Some(stored)),
            Reading::Dated { oldest_ms, .. } => dated(stored, oldest_ms),
        }
    }

    /// Returns a copy of the value that `stored` holds. Errors are those of [`Reading::value`].
    #[inline(always)]
    pub fn copy(self, stored: &[u8]) -> Result<Option<Vec<u8>>> {
        match self {
            Reading::Plain => Ok(Some(stored.to_vec())),
            Reading::Dated { oldest_ms, .. } => copy_dated(stored, oldest_ms),
        }
    }

    /// Returns the length in bytes of the value that a record holds; `None` if it is deleted or has expired.
    ///
    /// # Errors
    /// As [`Reading::value`].
    pub fn len_bytes(self, value: Value<'_>) -> Result<Option<u64>> {
        match value {
            Value::Inline(stored) => Ok(self.value(stored)?.map(|value| value.len() as u64)),
            Value::Large(large) => {
                let large = large.reference();
                let len_bytes = large.len_bytes.saturating_sub(self.front_bytes() as u64);
                Ok(self.is_alive(large).then_some(len_bytes))
            }
            Value::Deleted => Ok(None),
        }
    }

    /// Returns whether a value outside the pages has not expired.
    #[inline]
    pub fn is_alive(self, large: LargeRef) -> bool {
        match self {
            Reading::Plain => true,
            Reading::Dated { oldest_ms, .. } => u64::from_le_bytes(large.head) >= oldest_ms,
        }
    }

    /// Returns whether a record's value has expired. A delete has not.
    ///
    /// # Errors
    /// As [`Reading::value`].
    #[inline]
    pub fn has_expired(self, value: Value<'_>) -> Result<bool> {
        match value {
            _ if self == Reading::Plain => Ok(false),
            Value::Inline(stored) => self.value(stored).map(|value| value.is_none()),
            Value::Large(large) => Ok(!self.is_alive(large.reference())),
            Value::Deleted => Ok(false),
        }
    }

    /// Turns a record's expired value into a delete for a checkpoint, and frees its extents through `context`.
    ///
    /// # Errors
    /// As [`Reading::value`]; those of giving extents up.
    #[inline]
    pub fn unless_expired<'v>(self, value: Value<'v>, context: &WriteContext<'_>) -> Result<Value<'v>> {
        if !self.has_expired(value)? {
            return Ok(value);
        }
        context.retire_value(value)?;
        Ok(Value::Deleted)
    }

    /// Returns a large value, read completely as it is stored, without its date.
    pub fn whole(self, mut stored: Vec<u8>) -> Vec<u8> {
        // A forged reference may be shorter than a date.
        stored.drain(..self.front_bytes().min(stored.len()));
        stored
    }
}

/// This is out of line: tables without a TTL, which are most, pay one comparison.
fn dated(stored: &[u8], oldest_ms: u64) -> Result<Option<&[u8]>> {
    let Some((date, value)) = stored.split_first_chunk() else {
        let length = stored.len();
        return Err(Error::corruption(format!(
            "a value of a table with a TTL has {length} bytes, too few for its date of {DATE_BYTES} bytes"
        )));
    };
    Ok((u64::from_le_bytes(*date) >= oldest_ms).then_some(value))
}

#[cold]
fn copy_dated(stored: &[u8], oldest_ms: u64) -> Result<Option<Vec<u8>>> {
    Ok(dated(stored, oldest_ms)?.map(<[u8]>::to_vec))
}

/// Adds to the rows of a commit that changes TTLs what has expired by the old one at its commit: in its record, which
/// is encoded, and neither staged nor applied yet. The caller holds the commit lock.
pub(crate) fn stamp_floors(record: &mut [u8], changed: &[(TableId, Ttl)], now_ms: u64) {
    let begins_at = record.as_ptr().addr();
    let mut rows = Vec::new();
    for (table, op) in Decoder::begin(record).into_iter().flatten() {
        match op {
            Op::Attach { .. } => {}
            Op::Put { key, value } if table == TableId::CATALOG => {
                let row = TableRow::decode(key, value).expect("it was encoded a moment ago");
                let before = changed.iter().find(|(id, _)| *id == row.id).map(|(_, before)| *before);
                let ttl = row.ttl.zip(before).map(|(ttl, before)| before.changed(ttl.ms, now_ms));
                if ttl.is_some() {
                    rows.push((value.as_ptr().addr() - begins_at, TableRow { ttl, ..row }.encode()));
                }
            }
            _ if table == TableId::CATALOG => {}
            _ => break,
        }
    }
    for (at, row) in rows {
        record[at..][..row.len()].copy_from_slice(&row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_lives_for_its_ttl_and_no_change_brings_it_back() {
        let ttl = Ttl::new(Duration::from_millis(50)).unwrap();
        let lives = |ttl: Ttl, date: u64, now: u64| {
            let stored = [&date.to_le_bytes()[..], b"v"].concat();
            let reading = Reading::at(Some(ttl), || now);
            let large = LargeRef { ptr: base::PagePtr::new(2, 1, 0), len_bytes: 9, head: date.to_le_bytes() };
            assert_eq!(reading.value(&stored).unwrap().is_some(), reading.is_alive(large));
            reading.value(&stored).unwrap() == Some(b"v")
        };
        assert!(lives(ttl, 100, 100) && lives(ttl, 100, 149) && !lives(ttl, 100, 150));
        assert!(lives(ttl, 100, 0), "a date ahead of the time has not expired");
        let longer = ttl.changed(1_000, 160);
        assert!(!lives(longer, 110, 160) && lives(longer, 111, 160) && lives(longer, 111, 1_110));
        assert!(!lives(longer.changed(Ttl::FOR_EVER, 1_111), 111, 1_111));
        assert!(lives(Ttl { ms: Ttl::FOR_EVER, floor_ms: 0 }, 0, u64::MAX));
        let by_key = |until: u64, now: u64| lives(Ttl::BY_KEY, until, now);
        assert!(by_key(100, 99) && !by_key(100, 100) && by_key(NEVER_MS, u64::MAX - 1));
        assert!(Ttl::new(Duration::from_micros(999)).is_err());
        assert!(Ttl::new(Duration::from_millis(u64::MAX)).is_err() && Ttl::new(Duration::MAX).is_err());
        let longest = Duration::from_millis(u64::MAX - 1);
        assert_eq!(Ttl::new(longest).unwrap().duration(), Some(longest), "and none is taken for another");
        assert_eq!(
            Reading::at(Some(ttl), || 7).value(&[1; 7]).unwrap_err().kind(),
            base::ErrorKind::Corruption
        );
    }
}
