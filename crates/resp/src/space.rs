//! The keys of one of Redis' databases, as one snapshot or transaction has them.
//!
//! 1. A key that has expired by the one time of the snapshot or transaction does not exist for any command. A command
//!    that writes removes it in passing; otherwise [`Space::sweep`] does.
//! 2. A command that fails has changed nothing: its caller rolls back to the savepoint before it.

mod collections;

use crate::fault::{Done, Fault};
use crate::layout::{self, BEFORE_PART, Event, HEADER_BYTES, HEADERS, Header, Kind};
use crate::tables::{DATABASES, Tables};
use crate::versions::Versions;
use pando::{Cursor, Savepoint, Snapshot, Span, Table, Transaction};
use std::io::{Read, Seek};
use std::ops::Bound;

/// The longest value in bytes of which a scan over headers reads all.
const SHORT_BYTES: u64 = 4096;

/// Where commands read, and where they write.
#[derive(Debug)]
pub enum Source<'a> {
    /// A snapshot, for commands that only read.
    Snapshot(&'a Snapshot),
    /// A transaction.
    Transaction(&'a mut Transaction),
}

/// The keys of one database.
#[derive(Debug)]
pub struct Space<'a> {
    source: Source<'a>,
    tables: &'a Tables,
    /// The number of the database.
    pub database: usize,
    /// The time by which keys have expired.
    pub now_ms: u64,
    versions: &'a Versions,
    /// Whether this transaction has checked the generations that are given next, by database.
    pub are_generations_checked: [bool; DATABASES],
    /// Whether the client has waited already for what the command pops.
    pub is_waiting: bool,
    /// Whether a list or a sorted set got an element, for which clients may wait.
    pub has_pushed: bool,
    /// Whether the last command found nothing to pop, and can wait for it.
    pub would_block: bool,
    /// The messages to publish after the commit: channel and text.
    pub messages: Vec<(Vec<u8>, Vec<u8>)>,
}

/// A key that exists.
#[derive(Debug)]
pub struct Entry {
    /// Its header.
    pub header: Header,
    record: Vec<u8>,
}

impl Entry {
    /// Returns the entry with other elements.
    pub fn with_generation(&self, generation: u64) -> Entry {
        Entry { header: Header { generation, ..self.header }, record: self.record.clone() }
    }

    /// Returns the value of a string.
    ///
    /// # Errors
    /// [`Fault::WRONG_TYPE`] if it is none.
    pub fn string(&self) -> Done<&[u8]> {
        if self.header.kind == Kind::String {
            Ok(&self.record[HEADER_BYTES..])
        } else {
            Err(Fault::WRONG_TYPE)
        }
    }
}

impl<'a> Space<'a> {
    /// Creates the space of a database.
    pub fn new(source: Source<'a>, tables: &'a Tables, database: usize, versions: &'a Versions) -> Self {
        let now_ms = versions.now_ms();
        Space {
            source,
            tables,
            database,
            now_ms,
            versions,
            are_generations_checked: [false; DATABASES],
            is_waiting: false,
            has_pushed: false,
            would_block: false,
            messages: Vec::new(),
        }
    }

    /// Returns a random number.
    pub fn random(&self) -> u64 {
        self.versions.random()
    }

    /// Returns the table of the database, if it exists.
    ///
    /// # Errors
    /// If a table with other contents has its name.
    pub fn table(&self) -> Done<Option<&'a Table>> {
        self.tables[self.database].keys(self.database)
    }

    /// Returns the numbers of the databases that clients can use.
    pub fn usable_databases(&self) -> impl Iterator<Item = usize> + use<'a> {
        let slots = self.tables.iter().enumerate();
        slots.filter(|(_, slot)| !slot.is_foreign()).map(|(database, _)| database)
    }

    fn get(&self, key: &[u8]) -> Done<Option<Vec<u8>>> {
        let Some(table) = self.table()? else { return Ok(None) };
        Ok(match &self.source {
            Source::Snapshot(snapshot) => snapshot.get(table, key)?,
            Source::Transaction(tx) => tx.get(table, key)?,
        })
    }

    fn cursor(&self, span: Span) -> Done<Option<Cursor<'_>>> {
        let Some(table) = self.table()? else { return Ok(None) };
        Ok(Some(match &self.source {
            Source::Snapshot(snapshot) => snapshot.cursor(table, span)?,
            Source::Transaction(tx) => tx.cursor(table, span)?,
        }))
    }

    /// Returns the transaction and the table to write to. Commands that write are run in a transaction only, after the
    /// table was created.
    fn writer(&mut self) -> Done<(&mut Transaction, &'a Table)> {
        let table = self.table()?.ok_or(Fault::fixed("ERR the table of this database does not exist"))?;
        match &mut self.source {
            Source::Transaction(tx) => Ok((tx, table)),
            Source::Snapshot(_) => Err(Fault::fixed("ERR a command that writes was run as one that reads")),
        }
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Done {
        let (tx, table) = self.writer()?;
        Ok(tx.put(table, key, value)?)
    }

    fn delete(&mut self, key: &[u8]) -> Done {
        let (tx, table) = self.writer()?;
        Ok(tx.delete(table, key)?)
    }

    /// Marks a state to which a command that fails returns; `None` outside of a transaction.
    pub fn savepoint(&mut self) -> Option<Savepoint> {
        match &mut self.source {
            Source::Transaction(tx) => Some(tx.savepoint()),
            Source::Snapshot(_) => None,
        }
    }

    /// Undoes what was written since the savepoint.
    pub fn rollback(&mut self, savepoint: &Savepoint) -> Done {
        match &mut self.source {
            Source::Transaction(tx) => Ok(tx.rollback_to(savepoint)?),
            Source::Snapshot(_) => Ok(()),
        }
    }

    /// Keeps what was written since the savepoint.
    pub fn release(&mut self, savepoint: &Savepoint) -> Done {
        match &mut self.source {
            Source::Transaction(tx) => Ok(tx.release(savepoint)?),
            Source::Snapshot(_) => Ok(()),
        }
    }

    /// Calls `with` on the value of a string, or with `None` if the key does not exist. This copies nothing.
    ///
    /// # Errors
    /// [`Fault::WRONG_TYPE`] if the key holds a collection.
    pub fn with_string(&self, key: &[u8], with: impl FnOnce(Option<&[u8]>)) -> Done {
        let now_ms = self.now_ms;
        let mut with = Some(with);
        let mut read = |record: &[u8]| -> Done {
            let header = Header::decode(record)?;
            let with = with.take().expect("a value is read once");
            if header.has_expired(now_ms) {
                with(None);
                return Ok(());
            }
            if header.kind != Kind::String {
                return Err(Fault::WRONG_TYPE);
            }
            with(Some(&record[HEADER_BYTES..]));
            Ok(())
        };
        let key = layout::header_key(key);
        let found = match (self.table()?, &self.source) {
            (None, _) => None,
            (Some(table), Source::Snapshot(snapshot)) => snapshot.get_with(table, &key, &mut read)?,
            (Some(table), Source::Transaction(tx)) => tx.get_with(table, &key, &mut read)?,
        };
        match (found, with) {
            (Some(done), _) => done,
            (None, Some(with)) => {
                with(None);
                Ok(())
            }
            (None, None) => Ok(()),
        }
    }

    /// Returns the key's entry, if the key exists and has not expired.
    pub fn find(&self, key: &[u8]) -> Done<Option<Entry>> {
        Ok(self.find_stored(key)?.filter(|entry| !entry.header.has_expired(self.now_ms)))
    }

    fn find_stored(&self, key: &[u8]) -> Done<Option<Entry>> {
        let Some(record) = self.get(&layout::header_key(key))? else { return Ok(None) };
        Ok(Some(Entry { header: Header::decode(&record)?, record }))
    }

    /// Returns the key's entry for a command that writes: an expired one is removed.
    pub fn find_to_write(&mut self, key: &[u8]) -> Done<Option<Entry>> {
        match self.find_stored(key)? {
            Some(entry) if entry.header.has_expired(self.now_ms) => {
                self.erase(key, &entry.header)?;
                Ok(None)
            }
            found => Ok(found),
        }
    }

    /// Stores the header of a collection after its elements have changed. Without elements the key ceases to exist.
    pub fn save(&mut self, key: &[u8], header: &Header, event: Event) -> Done {
        if header.count == 0 {
            return self.erase(key, header);
        }
        self.store(key, header, event, b"")
    }

    /// Sets a key to a string. `old` is the header of what the key held before.
    pub fn put_string(
        &mut self,
        key: &[u8],
        value: &[u8],
        expires_ms: u64,
        old: Option<&Header>,
        event: Event,
    ) -> Done {
        if let Some(old) = old.filter(|old| old.kind != Kind::String) {
            self.erase_elements(old)?;
        }
        let header = Header {
            expires_ms,
            indexed_ms: old.map_or(0, |old| old.indexed_ms),
            version: old.map_or(0, |old| old.version),
            ..Header::new(Kind::String, 0)
        };
        self.store(key, &header, event, value)
    }

    /// Stores a header, with a new version, and its expiry in the index.
    fn store(&mut self, key: &[u8], header: &Header, event: Event, value: &[u8]) -> Done {
        if header.indexed_ms != header.expires_ms {
            if header.indexed_ms != 0 {
                self.delete(&layout::expiry_key(header.indexed_ms, key))?;
            }
            if header.expires_ms != 0 {
                self.put(&layout::expiry_key(header.expires_ms, key), b"")?;
            }
        }
        if header.version == 0 {
            self.versions.note_creation(self.database, key);
        }
        let version = self.versions.after(header.version);
        let header = Header { version, event: event as u8, ..*header };
        self.has_pushed |= matches!(header.kind, Kind::List | Kind::Sorted);
        self.put(&layout::header_key(key), &header.encode(value))
    }

    /// Stores an entry under its key or another one, unchanged except for its expiry.
    pub fn put_entry(
        &mut self,
        key: &[u8],
        entry: &Entry,
        expires_ms: u64,
        indexed_ms: u64,
        event: Event,
    ) -> Done {
        // The version is that of another key, or of this one.
        self.versions.note_creation(self.database, key);
        let header = Header { expires_ms, indexed_ms, ..entry.header };
        let value = if header.kind == Kind::String { &entry.record[HEADER_BYTES..] } else { b"" };
        self.store(key, &header, event, value)
    }

    /// Removes a key's record and leaves its elements to another key.
    pub fn detach(&mut self, key: &[u8], header: &Header) -> Done {
        if header.indexed_ms != 0 {
            self.delete(&layout::expiry_key(header.indexed_ms, key))?;
        }
        self.delete(&layout::header_key(key))
    }

    /// Removes a key with its elements. The cost does not depend on their number.
    pub fn erase(&mut self, key: &[u8], header: &Header) -> Done {
        if header.count > 0 {
            self.erase_elements(header)?;
        }
        self.detach(key, header)
    }

    fn erase_elements(&mut self, header: &Header) -> Done {
        let (tx, table) = self.writer()?;
        Ok(tx.delete_range(table, layout::elements(header.generation, b""))?)
    }

    /// Removes a key if it exists, and returns whether it did.
    pub fn remove(&mut self, key: &[u8]) -> Done<bool> {
        let Some(entry) = self.find_to_write(key)? else { return Ok(false) };
        self.erase(key, &entry.header)?;
        Ok(true)
    }

    /// Removes all keys of this database.
    pub fn flush(&mut self) -> Done {
        if self.table()?.is_none() {
            return Ok(());
        }
        let all = Span::between(Bound::Included(&[HEADERS]), Bound::Unbounded);
        let (tx, table) = self.writer()?;
        Ok(tx.delete_range(table, all)?)
    }

    /// Returns the value of an element.
    pub fn element(&self, header: &Header, part: &[u8]) -> Done<Option<Vec<u8>>> {
        self.get(&layout::element_key(header.generation, part))
    }

    /// Sets the value of an element.
    pub fn put_element(&mut self, header: &Header, part: &[u8], value: &[u8]) -> Done {
        self.put(&layout::element_key(header.generation, part), value)
    }

    /// Removes an element.
    pub fn delete_element(&mut self, header: &Header, part: &[u8]) -> Done {
        self.delete(&layout::element_key(header.generation, part))
    }

    /// Calls `each` on the elements whose parts are in `[start, end)`, in their order or backwards, until it returns
    /// false. The span of parts is within those that begin with `prefix`.
    pub fn each_element(
        &self,
        header: &Header,
        span: &Parts<'_>,
        mut each: impl FnMut(&[u8], &[u8]) -> Done<bool>,
    ) -> Done {
        let all = layout::elements(header.generation, span.prefix);
        let key = |part: &[u8]| layout::element_key(header.generation, part);
        let mut limited = match span.start {
            Bound::Unbounded => all,
            Bound::Included(part) => all.starting(Bound::Included(&key(part))),
            Bound::Excluded(part) => all.starting(Bound::Excluded(&key(part))),
        };
        limited = match span.end {
            Bound::Unbounded => limited,
            Bound::Excluded(part) => limited.until(&key(part)),
            Bound::Included(part) => limited.until(&[&key(part)[..], &[0]].concat()),
        };
        let Some(mut cursor) = self.cursor(limited)? else { return Ok(()) };
        loop {
            let found = if span.backwards { cursor.prev()? } else { cursor.next()? };
            let Some((key, value)) = found else { return Ok(()) };
            if !each(&key[BEFORE_PART..], value)? {
                return Ok(());
            }
        }
    }

    /// Calls `each` on the keys from `start` on with their headers, in order, until it returns false. Expired keys are
    /// left out.
    pub fn each_key(&self, start: &[u8], mut each: impl FnMut(&[u8], &Header) -> Done<bool>) -> Done {
        let start = layout::header_key(start);
        let span = Span::prefix(&[HEADERS]).starting(Bound::Included(&start));
        let Some(mut cursor) = self.cursor(span)? else { return Ok(()) };
        while cursor.advance()? {
            let header = match cursor.value_len() {
                Some(length) if length > SHORT_BYTES => {
                    let mut first = [0; HEADER_BYTES];
                    let mut reader = cursor.value_reader()?.expect("it has a value");
                    let read = reader.rewind().and_then(|()| reader.read_exact(&mut first));
                    read.map_err(|error| pando::Error::io("read the header of a long value", error))?;
                    Header::decode(&first)?
                }
                _ => Header::decode(cursor.value()?.unwrap_or_default())?,
            };
            let key = cursor.key().expect("it is at a record");
            if !header.has_expired(self.now_ms) && !each(&key[1..], &header)? {
                break;
            }
        }
        Ok(())
    }

    /// Returns a version by which a later look can tell whether the key has changed; 0 if it does not exist.
    pub fn version(&self, key: &[u8]) -> Done<u64> {
        let version = self.find(key)?.map_or(0, |entry| entry.header.version);
        // The key does not get this version again, also if it is removed and created anew.
        self.versions.pass(version);
        Ok(version)
    }

    /// Returns a number that tells whether an absent key was created since; see [`Versions::creations`].
    pub fn creations(&self, key: &[u8]) -> u64 {
        self.versions.creations(self.database, key)
    }

    /// Removes up to `most` keys that have expired. Returns how many expiries it has looked at.
    pub fn sweep(&mut self, most: usize) -> Done<usize> {
        let mut due = Vec::new();
        if let Some(mut cursor) = self.cursor(layout::expired(self.now_ms))? {
            while due.len() < most
                && let Some((record_key, _)) = cursor.next()?
            {
                due.push(record_key.to_vec());
            }
        }
        for record_key in &due {
            let Some((moment, key)) = layout::parse_expiry_key(record_key) else { continue };
            match self.find_stored(key)? {
                Some(entry) if entry.header.expires_ms == moment => self.erase(key, &entry.header)?,
                _ => self.delete(record_key)?,
            }
        }
        Ok(due.len())
    }
}

/// Which elements of a collection, and in which order.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'p> {
    /// The bytes with which all parts begin.
    pub prefix: &'p [u8],
    /// The first part.
    pub start: Bound<&'p [u8]>,
    /// The last part.
    pub end: Bound<&'p [u8]>,
    /// Whether the last part comes first.
    pub backwards: bool,
}

impl Parts<'_> {
    /// All elements.
    pub const ALL: Parts<'static> =
        Parts { prefix: b"", start: Bound::Unbounded, end: Bound::Unbounded, backwards: false };
}
