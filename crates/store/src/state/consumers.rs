//! Named consumers: positions in the log that outlive the process.
//!
//! A consumer is a file `consumer-<name in hexadecimal>`. It contains the last acknowledged commit, and what a feed
//! needs to continue from there. A new file is written beside it, synced, and renamed over it, so that after a crash
//! either the old or the new position exists. The log is synced first: a position never names a commit that a crash can
//! undo.
//!
//! | bytes | field |
//! |---|---|
//! | 8 | magic, `PANDOCON` |
//! | 4 | format version, 1 |
//! | 8 | database id |
//! | 8 | the last commit that was acknowledged |
//! | 24 | where in the log the next record begins: segment, generation, LSN |
//! | varint, bytes | the consumer's name |
//! | varint | how many tables there were as of that commit |
//! | for each: varint, bytes, varint, bytes | its name, and its row of the catalog |
//! | 8 | checksum of everything before |
//!
//! All numbers are little-endian.
//!
//! *Across a reopening.* The log from the oldest position on is kept when a database is opened, and the extents that
//! its records refer to are claimed before anything is allocated. The previous process kept them, so they still exist
//! (`crate::open::kept`). If that fails, the consumer has lost its position, and returns an error.

use crate::state::feeds::{Held, Hold};
use crate::state::names::{Names, TableInfo};
use base::codec::{Reader, Writer};
use base::limits::TIMESTAMP_LIMIT;
use base::{CommitTs, DatabaseId, Error, ErrorKind, Result, checksum};
use io::{Dir, File};
use log::Position;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The prefix of the names of these files.
pub(crate) const CONSUMER_PREFIX: &str = "consumer-";
/// The suffix of a file that is being written.
const NEW_SUFFIX: &str = ".new";
const MAGIC: [u8; 8] = *b"PANDOCON";
const FORMAT: u32 = 1;
/// The longest name in bytes: file names have at most 255.
const MAX_NAME_BYTES: usize = 100;
/// The longest file in bytes: it has room for two million tables with names of a hundred bytes.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// A consumer that the store knows.
#[derive(Debug)]
pub(crate) struct Known {
    pub hold: Arc<Hold>,
    /// Whether a handle is open.
    pub is_open: AtomicBool,
}

/// All consumers, by name.
pub(crate) type Consumers = BTreeMap<String, Arc<Known>>;

/// Rejects a name that no consumer can have.
pub(crate) fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > MAX_NAME_BYTES {
        let length = name.len();
        return Err(Error::invalid(format!(
            "the name of a consumer must have 1 to {MAX_NAME_BYTES} bytes, not {length}"
        )));
    }
    // Names are labels of metrics, and words in logs. Consumers from before this rule can be opened, and dropped.
    if let Some(control) = name.chars().find(|character| character.is_control()) {
        return Err(Error::invalid(format!(
            "the name of a consumer must not have a control character, as {control:?} in {name:?} is"
        )));
    }
    Ok(())
}

fn file_name(name: &str) -> String {
    let digits: String = name.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("{CONSUMER_PREFIX}{digits}")
}

/// Writes the position of consumer `name`, durably.
pub(crate) fn write(dir: &dyn Dir, database: DatabaseId, name: &str, held: &Held) -> Result<()> {
    let (path, new) = (file_name(name), file_name(name) + NEW_SUFFIX);
    let bytes = encode(database, name, held);
    if bytes.len() as u64 > MAX_FILE_BYTES {
        let message = format!("the names of the tables do not fit the {MAX_FILE_BYTES} bytes of {path}");
        return Err(Error::new(ErrorKind::Full, message));
    }
    if dir.list()?.contains(&new) {
        dir.remove(&new)?;
    }
    let file = dir.create(&new)?;
    file.write_at(&bytes, 0)?;
    file.sync()?;
    dir.rename(&new, &path)?;
    dir.sync()
}

/// Removes consumer `name`, durably.
pub(crate) fn remove(dir: &dyn Dir, name: &str) -> Result<()> {
    dir.remove(&file_name(name))?;
    dir.sync()
}

/// Returns the consumers of `database`. A file that cannot be read is an error: it keeps no data, and that would
/// otherwise be noticed late.
pub(crate) fn read_all(dir: &dyn Dir, database: DatabaseId) -> Result<Vec<(String, Held)>> {
    let mut found = Vec::new();
    for name in dir.list()?.iter().filter(|name| name.starts_with(CONSUMER_PREFIX)) {
        if name.ends_with(NEW_SUFFIX) {
            continue;
        }
        let bytes = read_bounded(&*dir.open(name)?)?;
        let read = bytes.and_then(|bytes| decode(&bytes, database));
        found.push(read.filter(|(consumer, _)| file_name(consumer) == *name).ok_or_else(|| {
            Error::corruption(format!(
                "{name}: the position of a consumer cannot be read; remove the file to drop the consumer"
            ))
        })?);
    }
    Ok(found)
}

/// Returns the bytes of a file; `None` if it is longer than the file of any consumer. Length costs a sparse file
/// nothing, so it is checked before memory is allocated.
fn read_bounded(file: &dyn File) -> Result<Option<Vec<u8>>> {
    let len = file.len()?;
    if len > MAX_FILE_BYTES {
        return Ok(None);
    }
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(Some(bytes))
}

fn encode(database: DatabaseId, name: &str, held: &Held) -> Vec<u8> {
    let mut out = Vec::new();
    out.put(&MAGIC);
    out.put_u32(FORMAT);
    out.put_u64(database.0);
    out.put_u64(held.last.0);
    out.put(&held.at.encode());
    out.put_bytes(name.as_bytes());
    out.put_varint(held.names.len() as u64);
    for table in held.names.values() {
        out.put_bytes(table.name().as_bytes());
        out.put_bytes(&table.encode_row());
    }
    out.put_u64(checksum::header(&out));
    out
}

fn decode(bytes: &[u8], database: DatabaseId) -> Option<(String, Held)> {
    let (body, sum) = bytes.split_last_chunk()?;
    if checksum::header(body) != u64::from_le_bytes(*sum) {
        return None;
    }
    let mut reader = Reader::new(body);
    let is_ours = reader.array()? == MAGIC && reader.u32()? == FORMAT && reader.u64()? == database.0;
    let (last, at) = (CommitTs(reader.u64()?), Position::decode(&reader.array()?));
    let name = std::str::from_utf8(reader.bytes()?).ok()?.to_owned();
    let mut names = Names::new();
    for _ in 0..reader.varint()? {
        let table = TableInfo::decode(reader.bytes()?, reader.bytes()?).ok()?;
        names.insert(table.id(), table);
    }
    (is_ours && reader.is_empty() && last.0 < TIMESTAMP_LIMIT)
        .then(|| (name, Held { last, at, names: Arc::new(names) }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use io::MemDir;

    #[test]
    fn a_place_comes_back_and_a_damaged_one_is_found() -> Result<()> {
        let (dir, database) = (MemDir::new(), DatabaseId(7));
        let row = crate::catalog::TableRow {
            id: base::TableId(16),
            layout: crate::RequestedLayout::Lsm,
            ttl: None,
            compression: crate::Compression::None,
        };
        let table = TableInfo::decode(b"t", &row.encode())?;
        let at = Position { segment: 3, generation: 2, lsn: base::Lsn(40) };
        let held = Held { last: CommitTs(9), at, names: Arc::new(Names::from([(table.id(), table)])) };
        write(&dir, database, "mail", &held)?;
        write(&dir, database, "a/b", &Held { last: CommitTs(1), ..held.clone() })?;
        write(&dir, database, "mail", &Held { last: CommitTs(10), ..held.clone() })?;
        let mut found = read_all(&dir, database)?;
        found.sort_by(|a, b| a.0.cmp(&b.0));
        let shown: Vec<_> = found.iter().map(|(name, held)| (&name[..], held.last.0, held.at)).collect();
        assert_eq!(shown, [("a/b", 1, at), ("mail", 10, at)]);
        assert_eq!(found[1].1.names, held.names);
        remove(&dir, "a/b")?;
        assert_eq!(read_all(&dir, database)?.len(), 1);
        assert!(read_all(&dir, DatabaseId(8)).is_err(), "another database");
        let file = dir.open(&file_name("mail"))?;
        for byte in 0..file.len()? {
            let mut old = [0];
            file.read_exact_at(&mut old, byte)?;
            file.write_at(&[old[0] ^ 4], byte)?;
            assert!(read_all(&dir, database).is_err(), "byte {byte}");
            file.write_at(&old, byte)?;
        }
        Ok(())
    }
}
