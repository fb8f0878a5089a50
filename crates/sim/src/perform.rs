//! Runs the operations of scripts in the engine and in the model, and compares what they read.

use crate::model::{BY_KEY_MS, Change, Draft, text};
use crate::workload::{Op, PAGE_BYTES, TABLES};
use base::{Error, ErrorKind};
use std::fmt;
use std::time::Duration;
use store::ttl::{Expiry, Ttl};
use store::{Compression, RequestedLayout, Table, Transaction};

/// The reason why an operation failed.
#[derive(Debug)]
pub enum Trouble {
    /// The engine returned an error.
    Engine(String, Error),
    /// The read result differs from the model.
    Wrong(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Engine(what, error) => write!(f, "{what}: {error:?}"),
            Trouble::Wrong(what) => f.write_str(what),
        }
    }
}

/// Runs one operation in the engine and in the model.
pub fn perform(tx: &mut Transaction, draft: &mut Draft, op: &Op) -> Result<(), Trouble> {
    let failed = |error| Trouble::Engine(described(op), error);
    match op {
        Op::Save => draft.save(tx.savepoint()),
        Op::Spill => tx.spill().map_err(failed)?,
        Op::RollBack => {
            if let Some(savepoint) = draft.roll_back() {
                tx.rollback_to(&savepoint).map_err(failed)?;
            }
        }
        Op::Get(name, key) => {
            let found = match open_table(tx, draft, name)? {
                Some(table) => tx.get(&table, key).map_err(failed)?,
                None => None,
            };
            draft.read_key(name, key);
            same(op, found.as_deref(), draft.state.get(name, key, draft.now))?;
            if let Some(table) = open_table(tx, draft, name)? {
                check_expiry(tx, &table, draft, op, key)?;
            }
        }
        Op::Scan(name, start, end, backward) => {
            if let Some(table) = open_table(tx, draft, name)? {
                scan(tx, &table, draft, op, *backward)?;
            }
            draft.read_range(name, start, end);
        }
        Op::Drop(name) => {
            if let Some(table) = open_table(tx, draft, name)? {
                tx.drop_table(&table).map_err(failed)?;
                draft.write(Change::Drop(name));
            }
        }
        Op::SetLayout(name, layout) => {
            if let Some(table) = open_table(tx, draft, name)? {
                tx.set_layout(&table, *layout).map_err(failed)?;
                if draft.state.layout(name) != Some(*layout) {
                    draft.write(Change::SetLayout(name, *layout));
                }
            }
        }
        Op::SetCompression(name, compression) => {
            if let Some(table) = open_table(tx, draft, name)? {
                let is_refused = *compression == Compression::Lz4
                    && draft.state.layout(name) != Some(RequestedLayout::Lsm);
                match tx.set_compression(&table, *compression) {
                    Err(error) if is_refused && error.kind() == ErrorKind::Invalid => {}
                    Err(error) => return Err(failed(error)),
                    Ok(()) if is_refused => return Err(Trouble::Wrong(format!("{op:?} of a B+tree"))),
                    Ok(()) if draft.state.compression(name) == Some(*compression) => {}
                    Ok(()) => draft.write(Change::SetCompression(name, *compression)),
                }
            }
        }
        Op::SetTtl(name, ttl_ms) => {
            if let Some(table) = open_table(tx, draft, name)? {
                let had_none = !draft.state.is_dated(name);
                let by_key = draft.state.has_ttl_by_key(name);
                match tx.set_ttl(&table, ttl_ms.map(Duration::from_millis)) {
                    // Nothing may have been written to it; all that is known here is that the table did not exist.
                    Err(error) if (had_none || by_key) && error.kind() == ErrorKind::Invalid => {}
                    Err(error) => return Err(failed(error)),
                    Ok(()) if by_key => return Err(Trouble::Wrong(format!("{op:?} of a TTL by key"))),
                    Ok(()) if had_none && ttl_ms.is_none() => {}
                    Ok(()) if had_none && !draft.state.range(name, b"", &[255], 0).is_empty() => {
                        return Err(Trouble::Wrong(format!("{op:?} of a table that has entries")));
                    }
                    Ok(()) => draft.write(Change::SetTtl(name, *ttl_ms, draft.now)),
                }
            }
        }
        Op::Rename(name, new) => {
            if let Some(table) = open_table(tx, draft, name)? {
                let is_taken = open_table(tx, draft, new)?.is_some();
                match tx.rename_table(&table, new) {
                    Ok(_) if !is_taken => draft.write(Change::Rename(name, new)),
                    Err(error) if is_taken && error.kind() == ErrorKind::Exists => {}
                    Err(error) => return Err(failed(error)),
                    Ok(_) => return Err(Trouble::Wrong(format!("{op:?} went over a table"))),
                }
            }
        }
        Op::Put(name, ..)
        | Op::Stream(name, ..)
        | Op::Insert(name, ..)
        | Op::Delete(name, _)
        | Op::Remove(name, _)
        | Op::Load(name, _)
        | Op::DeleteRange(name, ..) => {
            let table = make_table(tx, draft, name)?;
            write(tx, &table, draft, op)?;
        }
    }
    Ok(())
}

fn same(op: &Op, found: Option<&[u8]>, expected: Option<&[u8]>) -> Result<(), Trouble> {
    if found == expected {
        return Ok(());
    }
    let lengths = (found.map(<[u8]>::len), expected.map(<[u8]>::len));
    Err(Trouble::Wrong(format!("{op:?} read a wrong value (its length and the expected one: {lengths:?})")))
}

fn open_table(tx: &Transaction, draft: &mut Draft, name: &'static str) -> Result<Option<Table>, Trouble> {
    let table = tx.table(name).map_err(|error| Trouble::Engine(format!("table {name}"), error))?;
    draft.read_table(name);
    if table.is_some() != draft.state.has(name) {
        return Err(Trouble::Wrong(format!(
            "table {name} is there: {}, expected the opposite",
            table.is_some()
        )));
    }
    Ok(table)
}

fn make_table(tx: &mut Transaction, draft: &mut Draft, name: &'static str) -> Result<Table, Trouble> {
    debug_assert!(TABLES.contains(&name));
    if let Some(table) = open_table(tx, draft, name)? {
        return Ok(table);
    }
    let (layout, ttl_ms) = (first_layout(name), first_ttl(name, draft.now));
    let compression = first_compression(name, layout, tx.store().page_bytes());
    let ttl = ttl_ms.map(|ttl_ms| match ttl_ms {
        BY_KEY_MS => Ok(Ttl::BY_KEY),
        ttl_ms => Ttl::new(Duration::from_millis(ttl_ms)),
    });
    let table = ttl
        .transpose()
        .and_then(|ttl| tx.create_table_with(name, layout, ttl, compression))
        .map_err(|error| Trouble::Engine(format!("creating table {name}"), error))?;
    draft.write(Change::Create(name, table.id().0, layout, compression, ttl_ms));
    Ok(table)
}

/// Returns the TTL of a new table. Most tables have one, from a few turns to longer than most runs, or by key.
fn first_ttl(name: &str, now: u64) -> Option<u64> {
    let at = TABLES.iter().position(|table| *table == name).unwrap_or(0) as u64;
    let by_key = Some(BY_KEY_MS);
    [None, Some(12), by_key, None, Some(150), None, by_key, Some(4000)][(now / 8 + at) as usize % 8]
}

/// Returns the TTL of an entry in a table with a TTL by key; `None`: it never expires.
fn ttl_of(value: &[u8]) -> Option<u64> {
    [None, Some(3), Some(40), Some(3000)][value.len() % 4]
}

/// Checks when an entry expires.
fn check_expiry(tx: &Transaction, table: &Table, draft: &Draft, op: &Op, key: &[u8]) -> Result<(), Trouble> {
    let name = table.name();
    if !draft.state.has_ttl_by_key(name) {
        return Ok(());
    }
    let found = tx.expiry(table, key).map_err(|error| Trouble::Engine(described(op), error))?;
    let expected =
        draft.state.get(name, key, draft.now).and(draft.state.date(name, key)).map(|date| match date {
            u64::MAX => Expiry::Never,
            date => Expiry::In(Duration::from_millis(date - draft.now)),
        });
    if found == expected {
        return Ok(());
    }
    Err(Trouble::Wrong(format!("{op:?}: it expires {found:?}, and should {expected:?}")))
}

/// Returns the compression of a new table. One of the LSM tables is compressed from the beginning, if pages are large
/// enough.
fn first_compression(name: &str, layout: RequestedLayout, page_bytes: usize) -> Compression {
    match layout {
        RequestedLayout::Lsm if name == TABLES[0] && page_bytes > PAGE_BYTES => Compression::Lz4,
        _ => Compression::None,
    }
}

/// Returns the layout of a new table. Half of the tables begin in each layout.
pub fn first_layout(name: &str) -> RequestedLayout {
    match TABLES.iter().position(|table| *table == name) {
        Some(at) if at % 2 == 0 => RequestedLayout::Lsm,
        _ => RequestedLayout::BTree,
    }
}

fn write(tx: &mut Transaction, table: &Table, draft: &mut Draft, op: &Op) -> Result<(), Trouble> {
    let failed = |error| Trouble::Engine(described(op), error);
    let by_key = draft.state.has_ttl_by_key(table.name());
    let time_ms = tx.store().time_ms();
    let now = if by_key { u64::MAX } else { time_ms };
    match op {
        Op::Put(name, key, value) => {
            let ttl = ttl_of(value).filter(|_| by_key);
            match ttl {
                Some(ttl) => {
                    tx.put_with_ttl(table, key, value, Duration::from_millis(ttl)).map_err(failed)?
                }
                None => tx.put(table, key, value).map_err(failed)?,
            }
            let date = ttl.map_or(now, |ttl| time_ms + ttl);
            draft.write(Change::Put(name, key.clone(), value.clone(), date));
        }
        Op::Load(name, records) => {
            tx.bulk_load(table, records.iter().cloned().map(Ok)).map_err(failed)?;
            for (key, value) in records {
                draft.write(Change::Put(name, key.clone(), value.clone(), now));
            }
        }
        Op::Stream(name, key, value, piece_bytes, gives_up) => {
            let ttl = ttl_of(value).filter(|_| by_key);
            let date = ttl.map_or(now, |ttl| time_ms + ttl);
            let writer = match ttl {
                Some(ttl) => tx.value_writer_with_ttl(table, key, Duration::from_millis(ttl)),
                None => tx.value_writer(table, key),
            };
            let mut writer = writer.map_err(failed)?;
            let pieces = value.chunks(*piece_bytes);
            let most = if *gives_up { pieces.len() - 1 } else { pieces.len() };
            pieces.take(most).try_for_each(|piece| writer.append(piece)).map_err(failed)?;
            if !gives_up {
                let len = writer.finish().map_err(failed)?;
                draft.write(Change::Put(name, key.clone(), value.clone(), date));
                let read = tx.value_len(table, key).map_err(failed)?;
                if (len, read) != (value.len() as u64, Some(len)) {
                    return Err(Trouble::Wrong(format!(
                        "{}: {len} bytes put, {read:?} found",
                        described(op)
                    )));
                }
            }
        }
        Op::Insert(name, key, value) => {
            draft.read_key(name, key);
            match (tx.insert(table, key, value), draft.state.get(name, key, draft.now)) {
                (Ok(()), None) => draft.write(Change::Put(name, key.clone(), value.clone(), now)),
                (Err(error), Some(_)) if error.kind() == ErrorKind::Exists => {}
                (Err(error), _) => return Err(failed(error)),
                (Ok(()), Some(_)) => {
                    return Err(Trouble::Wrong(format!("{op:?} went over a key that is present")));
                }
            }
        }
        Op::Delete(name, key) => {
            tx.delete(table, key).map_err(failed)?;
            draft.write(Change::Delete(name, key.clone()));
        }
        Op::Remove(name, key) => {
            draft.read_key(name, key);
            let old = tx.remove(table, key).map_err(failed)?;
            same(op, old.as_deref(), draft.state.get(name, key, draft.now))?;
            if old.is_some() {
                draft.write(Change::Delete(name, key.clone()));
            }
        }
        Op::DeleteRange(name, start, end) if start < end => {
            tx.delete_range(table, &(&**start..&**end).into()).map_err(failed)?;
            draft.write(Change::DeleteRange(name, start.clone(), end.clone()));
        }
        _ => {}
    }
    Ok(())
}

fn scan(tx: &Transaction, table: &Table, draft: &Draft, op: &Op, backward: bool) -> Result<(), Trouble> {
    let Op::Scan(name, start, end, _) = op else { return Ok(()) };
    let failed = |error| Trouble::Engine(described(op), error);
    let mut expected = draft.state.range(name, start, end, draft.now);
    if backward {
        expected.reverse();
    }
    let mut cursor = tx.cursor(table, (&**start..&**end).into()).map_err(failed)?;
    for at in 0..=expected.len() {
        let found = if backward { cursor.prev() } else { cursor.next() }.map_err(failed)?;
        if found != expected.get(at).copied() {
            let keys = (found.map(|record| text(record.0)), expected.get(at).map(|r| text(r.0)));
            return Err(Trouble::Wrong(format!("{op:?}: record {at} and the one expected are {keys:?}")));
        }
    }
    Ok(())
}

/// Returns an operation for a message, with its value shortened.
fn described(op: &Op) -> String {
    format!("{op:?}").chars().take(160).collect()
}
