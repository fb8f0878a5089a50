//! A cursor that writes, where a read fails: what it reads later is validated all the same.

use base::{ErrorKind, Result, Span};
use io::sim::{CallKind, Fault, FaultError, SimDisk};
use pando_store::{CursorMut, Options, RequestedLayout, Store, Table, Transaction, TransactionOptions};
use std::sync::Arc;

const KEYS: u32 = 4000;

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

/// A database with keys from 0 on, whose pages are not in memory.
fn unread(disk: &SimDisk) -> Result<(Arc<Store>, Table)> {
    let options = Options { page_bytes: Some(4096), memory_bytes: 8 << 20, ..Options::default() };
    let store = pando_store::open_or_create(disk.dir(), &options)?;
    let mut tx = Transaction::begin(&store, TransactionOptions::default())?;
    let table = tx.create_table("t", RequestedLayout::BTree)?;
    (0..KEYS).try_for_each(|number| tx.put(&table, &key(number), &[0; 500]))?;
    store.acknowledge(tx.apply()?)?;
    while store.checkpoint()? {}
    store.close()?;
    drop((store, table));
    let store = pando_store::open_or_create(disk.dir(), &options)?;
    let table = store.snapshot()?.table("t")?.expect("it was committed");
    Ok((store, table))
}

/// Goes somewhere with `before`, fails to seek the key 3000, and takes a step with `after`. What that finds is then
/// changed by others, so the transaction must not commit.
fn read_after_a_failed_seek(
    before: impl FnOnce(&mut CursorMut<'_>) -> Result<()>,
    after: impl FnOnce(&mut CursorMut<'_>) -> Result<Option<u32>>,
) -> Result<Option<u32>> {
    let disk = SimDisk::new();
    let (store, table) = unread(&disk)?;
    let mut tx = Transaction::begin(&store, TransactionOptions::default())?;
    let mut cursor = tx.cursor_mut(&table, Span::all())?;
    before(&mut cursor)?;
    disk.inject(Fault { call: CallKind::Read, nth: 1, sticky: true, error: FaultError::Io });
    let failed = cursor.seek(&key(3000)).map(drop).map_err(|error| error.kind());
    assert_eq!((failed, disk.faults_hit() > 0), (Err(ErrorKind::Io), true));
    disk.clear_faults();
    let found = after(&mut cursor)?;
    tx.put(&table, b"derived", b"1")?;
    if let Some(number) = found {
        let mut other = Transaction::begin(&store, TransactionOptions::default())?;
        other.put(&table, &key(number), b"changed")?;
        store.acknowledge(other.apply()?)?;
        let applied = tx.apply().map(drop).map_err(|error| error.kind());
        assert_eq!(applied, Err(ErrorKind::Conflict), "it has read {number}");
    }
    Ok(found)
}

fn number(found: Option<(&[u8], &[u8])>) -> Option<u32> {
    found.map(|(key, _)| u32::from_be_bytes(key.try_into().expect("4 bytes")))
}

#[test]
fn what_is_read_after_a_seek_that_failed_is_validated() -> Result<()> {
    let first = |cursor: &mut CursorMut<'_>| cursor.next().map(drop);
    let last = |cursor: &mut CursorMut<'_>| cursor.prev().map(drop);
    let next = |cursor: &mut CursorMut<'_>| cursor.next().map(number);
    let prev = |cursor: &mut CursorMut<'_>| cursor.prev().map(number);
    assert_eq!(read_after_a_failed_seek(|_| Ok(()), next)?, Some(0), "it has not moved");
    assert_eq!(read_after_a_failed_seek(|_| Ok(()), prev)?, Some(KEYS - 1), "it has not moved");
    assert_eq!(read_after_a_failed_seek(first, next)?, Some(1), "it stands where it was");
    assert_eq!(read_after_a_failed_seek(last, prev)?, Some(KEYS - 2), "it stands where it was");
    Ok(())
}

#[test]
fn a_seek_that_failed_leaves_the_cursor_off_its_end() -> Result<()> {
    let off = |cursor: &mut CursorMut<'_>| {
        cursor.seek(&key(KEYS))?;
        cursor.next().map(drop)
    };
    let on_and_back = |cursor: &mut CursorMut<'_>| {
        assert_eq!(cursor.next().map(number)?, None, "nothing follows the end");
        cursor.prev().map(number)
    };
    assert_eq!(read_after_a_failed_seek(off, on_and_back)?, Some(KEYS - 1));
    Ok(())
}
