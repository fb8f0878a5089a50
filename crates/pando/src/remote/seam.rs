//! The two traits that an adapter of a remote store implements, and what they pass.
//!
//! 1. A store keeps records: (table id, key) to value. It knows nothing of tables, savepoints and entries with a TTL.
//!    The catalog is a table of such records.
//! 2. A session is one transaction of the store. Its reads see one state, and its commit succeeds only if the reads and
//!    the writes could have happened at one moment among all commits ([`Mode::Write`]). The store has seen the reads,
//!    so the commit does not repeat them.
//! 3. Writes are sent once, with the commit. Until then they are with the client.
//! 4. A commit whose response was lost is neither assumed nor repeated: the adapter finds out its outcome, or reports
//!    that it could not ([`Failure::Unknown`]).
//! 5. An error has the reason as its cause ([`Fault`](crate::remote::Fault)) if callers can do something about it.

use base::{DatabaseId, Error, Result, Span, TableId};
use std::fmt;
use std::time::Duration;

/// A store of records in another process, usually on other machines.
pub trait Store: fmt::Debug + Send + Sync {
    /// Returns the name of the product, for messages.
    fn name(&self) -> &'static str;

    /// Returns the id of the database, which was chosen at random when it was created.
    fn id(&self) -> u64;

    /// Returns the largest sizes that the store accepts.
    fn limits(&self) -> Limits;

    /// Returns the number of connections that are open now, idle ones included.
    fn connections(&self) -> usize;

    /// Returns a session. The session uses no connection before its first call.
    fn session(&self, mode: Mode) -> Box<dyn Session>;

    /// Deletes the records of a table whose date ([`Put::is_dated`]) is before `oldest_ms`, among the first `most`
    /// records from `start` on. A record that is replaced at the same time stays.
    ///
    /// # Errors
    /// `Io` if the store cannot be reached.
    fn delete_older(&self, table: TableId, oldest_ms: u64, start: &[u8], most: usize) -> Result<Swept>;

    /// Returns whether the commit with this token happened. If it has not happened yet, the call makes certain that it
    /// does not happen later.
    ///
    /// # Errors
    /// `Io` if the store cannot be reached; `TooOld` if the store may have forgotten the token.
    fn outcome(&self, token: Token) -> Result<bool>;

    /// Closes the connections that no session has used for `unused_for`. Later calls open new ones.
    fn close_idle(&self, unused_for: Duration);

    /// Closes the connections that no session uses. Later calls fail with `Closed`, except for [`Store::outcome`].
    fn close(&self);
}

/// One transaction of a store. Dropping it ends the transaction, without effect unless it was committed.
pub trait Session: fmt::Debug + Send {
    /// Returns the values of these records, in this order, in one round trip. If the values reach `most_bytes`, the
    /// list ends with the value that reaches it. The first two values are always returned.
    ///
    /// # Errors
    /// `Conflict` if no serial order explains what was read so far; `SnapshotTooOld` if the store has ended the
    /// transaction; `Io` if the connection is lost.
    fn get_many(&mut self, keys: &[(TableId, &[u8])], most_bytes: usize) -> Result<Vec<Option<Vec<u8>>>>;

    /// Returns the records at the beginning of a span, in this order and at most `most`, in one round trip. The record
    /// that reaches the number of bytes is the last one of the page.
    ///
    /// # Errors
    /// As for [`Session::get_many`].
    fn fetch(&mut self, table: TableId, span: &Span, order: Order, most: Most) -> Result<Page>;

    /// Returns the time of the transaction by the store's clock, in milliseconds since 1970. Every call returns the
    /// same time.
    ///
    /// # Errors
    /// As for [`Session::get_many`].
    fn time_ms(&mut self) -> Result<u64>;

    /// Commits the transaction with these writes, and ends the session.
    ///
    /// # Errors
    /// See [`Failure`].
    fn commit(&mut self, commit: &Commit<'_>) -> std::result::Result<(), Failure>;
}

/// The kind of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Reads that all see one state, which exists in some serial order of all commits.
    Snapshot,
    /// One call of [`Session::get_many`], without a transaction around it. [`Session::time_ms`] then returns the time
    /// of that call.
    Single,
    /// The same as `Single`, for one record and the row of its table. The newest committed state of a single record is
    /// serializable, so the store need not compare this read with the writes of others ([with one
    /// exception](crate::remote::RemoteDatabase::get)).
    Record,
    /// Reads and writes, serializable.
    Write,
    /// Reads and writes under snapshot isolation: only writes of the same record conflict.
    WriteOverSnapshot,
}

/// The largest sizes that a store accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The longest key in bytes.
    pub max_key_bytes: usize,
    /// The longest value in bytes.
    pub max_value_bytes: usize,
    /// The largest size of a transaction's writes in the client's memory, in bytes.
    pub max_transaction_bytes: usize,
}

impl Limits {
    /// Returns these limits, in bytes.
    #[must_use]
    pub fn new(max_key_bytes: usize, max_value_bytes: usize, max_transaction_bytes: usize) -> Self {
        Limits { max_key_bytes, max_value_bytes, max_transaction_bytes }
    }
}

/// The order in which records are fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Ascending keys.
    Forward,
    /// Descending keys.
    Backward,
}

/// The size at which a page of records ends, whichever of the two limits it reaches first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Most {
    /// The number of records.
    pub records: usize,
    /// The number of bytes of values.
    pub bytes: usize,
}

/// Adjacent records of a span.
#[derive(Debug)]
pub struct Page {
    /// The keys and values.
    pub records: Vec<(Vec<u8>, Vec<u8>)>,
    /// Whether the span has no record after these. A page without records must be the last.
    pub is_last: bool,
}

/// The result of [`Store::delete_older`].
#[derive(Debug)]
pub struct Swept {
    /// The number of records that it deleted.
    pub deleted: u64,
    /// The last key that it looked at; `None` if the table has no further records.
    pub last: Option<Vec<u8>>,
}

/// A table, the first key to delete, and the first one to keep.
type RangeDelete<'a> = (TableId, &'a [u8], Option<&'a [u8]>);

/// The writes of a transaction, each list in ascending order of tables and keys.
#[derive(Debug, Default)]
pub struct Commit<'a> {
    /// The records that must have exactly these values, although the session did not read them.
    pub checks: Vec<(TableId, &'a [u8], &'a [u8])>,
    /// The ranges to delete before anything else is written: table, start, and the end if there is one.
    pub ranges: Vec<RangeDelete<'a>>,
    /// The records to set.
    pub puts: Vec<Put<'a>>,
    /// The records to delete. No record is in this list and in `puts`.
    pub deletes: Vec<(TableId, &'a [u8])>,
}

impl Commit<'_> {
    /// Returns whether nothing is written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty() && self.puts.is_empty() && self.deletes.is_empty()
    }
}

/// A record to set.
#[derive(Clone, Copy, Debug)]
pub struct Put<'a> {
    /// The table of the record.
    pub table: TableId,
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
    /// Whether the store writes the time of the transaction before the value: 8 bytes, big-endian, in milliseconds
    /// since 1970 by the clock that [`Session::time_ms`] reads.
    pub is_dated: bool,
}

/// The reason why a commit failed.
#[derive(Debug)]
pub enum Failure {
    /// A record of [`Commit::checks`] has another value than it must have. Nothing was written.
    Unmet,
    /// The connection was lost, and it is certain that nothing was or will be written.
    NotCommitted(Error),
    /// The connection was lost, and the store could not be asked whether it committed. [`Store::outcome`] returns that.
    Unknown(Token, Error),
    /// Nothing was written, for this reason; `Conflict` if the transaction should run again.
    Refused(Error),
}

/// The name of a commit, which the store keeps with the commit's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token(pub [u8; 16]);

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::str::FromStr for Token {
    type Err = Error;

    /// ```
    /// use pando::remote::Token;
    /// let token: Token = "000102030405060708090a0b0c0d0e0f".parse()?;
    /// assert_eq!(token.to_string(), "000102030405060708090a0b0c0d0e0f");
    /// assert!("00".parse::<Token>().is_err());
    /// # pando::Result::Ok(())
    /// ```
    fn from_str(text: &str) -> Result<Self> {
        let bad = || Error::invalid(format!("a token has 32 hexadecimal digits, not {text:?}"));
        if text.len() != 32 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(bad());
        }
        Ok(Token(u128::from_str_radix(text, 16).map_err(|_| bad())?.to_be_bytes()))
    }
}

/// Returns the id of a store as table handles have it.
pub(super) fn id_of(store: &dyn Store) -> DatabaseId {
    DatabaseId(store.id())
}
