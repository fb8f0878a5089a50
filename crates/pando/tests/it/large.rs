//! Values that are streamed: what they cost, what is left of those that are given up, and who waits for whom.

use io::sim::{Event, SimDisk};
use pando::{
    Database, Durability, ErrorKind, OwnedValueWriter, Result, Snapshot, Table, Transaction,
    TransactionOptions, limits,
};
use std::io::{Read, Seek, SeekFrom};

/// Bytes that a seed determines, at any length, read in uneven pieces.
struct Stream {
    seed: u64,
    position: u64,
    len: u64,
}

impl Stream {
    fn new(seed: u64, len: u64) -> Self {
        Stream { seed, position: 0, len }
    }

    fn byte(seed: u64, position: u64) -> u8 {
        ((position / 997).wrapping_mul(seed | 1) ^ position) as u8
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let most = (self.len - self.position).min(40_000 + self.position % 9_000) as usize;
        let count = most.min(buffer.len());
        for (at, byte) in buffer[..count].iter_mut().enumerate() {
            *byte = Stream::byte(self.seed, self.position + at as u64);
        }
        self.position += count as u64;
        Ok(count)
    }
}

/// Yields some bytes, then fails.
struct Failing(Stream);

impl Read for Failing {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self.0.read(buffer)? {
            0 => Err(std::io::Error::other("the line was cut")),
            count => Ok(count),
        }
    }
}

#[track_caller]
fn expect(snapshot: &Snapshot, table: &Table, key: &[u8], seed: u64, len: u64) {
    let mut reader = snapshot.value_reader(table, key).unwrap().expect("it is there");
    assert_eq!(reader.len_bytes(), len);
    let mut buffer = vec![0; 100_000];
    let mut position = 0;
    loop {
        let count = reader.read(&mut buffer).unwrap();
        if count == 0 {
            break;
        }
        let good = |(at, byte): (usize, &u8)| *byte == Stream::byte(seed, position + at as u64);
        assert!(buffer[..count].iter().enumerate().all(good), "behind byte {position}");
        position += count as u64;
    }
    assert_eq!(position, len);
}

fn used_bytes(db: &Database) -> u64 {
    db.stats().unwrap().data_used_bytes
}

#[test]
fn a_value_is_read_and_sought_in_before_and_after_a_checkpoint_and_after_reopening() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let open = || Database::builder().memory_bytes(8 << 20).create(dir.path());
    let len = (5 << 20) + 4321;
    {
        let db = open()?;
        let table = db.ensure_table("t")?;
        let mut tx = db.begin()?;
        assert_eq!(tx.put_reader(&table, b"k", Stream::new(3, len))?, len);
        assert_eq!((tx.value_len(&table, b"k")?, tx.contains(&table, b"k")?), (Some(len), true));
        let mut end = Vec::new();
        let mut own = tx.value_reader(&table, b"k")?.expect("it was put");
        own.seek(SeekFrom::End(-300)).unwrap();
        own.read_to_end(&mut end).unwrap();
        assert!((0..300).all(|at| end[at] == Stream::byte(3, len - 300 + at as u64)));
        tx.commit()?;
        expect(&db.snapshot()?, &table, b"k", 3, len);
        assert_eq!(db.check()?.orphan_units, 0);
    }
    for _ in 0..2 {
        let db = open()?;
        let table = db.ensure_table("t")?;
        assert_eq!(db.check()?.orphan_units, 0);
        expect(&db.snapshot()?, &table, b"k", 3, len);
        db.checkpoint()?;
        expect(&db.snapshot()?, &table, b"k", 3, len);
        let snapshot = db.snapshot()?;
        let mut cursor = snapshot.cursor(&table, ..)?;
        assert!(cursor.advance()? && cursor.value_len() == Some(len) && cursor.current().is_none());
        assert_eq!(cursor.value()?.map(<[u8]>::len), Some(len as usize));
        assert!(!cursor.advance()?);
        assert_eq!(db.check()?.large_values, 1);
    }
    Ok(())
}

#[test]
fn what_is_given_up_leaves_no_space_behind() -> Result<()> {
    let db = Database::builder().in_memory()?;
    let table = db.ensure_table("t")?;
    db.checkpoint()?;
    let before = used_bytes(&db);
    let len = 3 << 20;
    let mut tx = db.begin()?;
    let failed = tx.put_reader(&table, b"k", Failing(Stream::new(1, len))).unwrap_err();
    assert!(failed.kind() == ErrorKind::Io && failed.to_string().contains("the line was cut"), "{failed}");
    assert_eq!((used_bytes(&db), tx.get(&table, b"k")?), (before, None));
    tx.put_reader(&table, b"k", Stream::new(1, len))?;
    let one = used_bytes(&db) - before;
    assert!((len..len + (1 << 20)).contains(&one));
    // Replaced: only the newer one stays.
    tx.put_reader(&table, b"k", Stream::new(2, len))?;
    assert_eq!(used_bytes(&db) - before, one);
    // With a savepoint both stay, until it is gone back to.
    let savepoint = tx.savepoint();
    tx.put_reader(&table, b"k", Stream::new(3, len))?;
    tx.delete_range(&table, ..)?;
    assert_eq!((used_bytes(&db) - before, tx.value_len(&table, b"k")?), (2 * one, None));
    tx.rollback_to(&savepoint)?;
    assert_eq!((used_bytes(&db) - before, tx.value_len(&table, b"k")?), (one, Some(len)));
    // A reader of the transaction's own value keeps it, whatever becomes of the transaction.
    let mut reader = tx.value_reader(&table, b"k")?.expect("it was put");
    assert_eq!(db.check()?.orphan_units, 0);
    tx.abort();
    assert_eq!(used_bytes(&db) - before, one);
    let mut all = Vec::new();
    reader.read_to_end(&mut all).unwrap();
    assert!(all.iter().enumerate().all(|(at, byte)| *byte == Stream::byte(2, at as u64)));
    drop(reader);
    assert_eq!((used_bytes(&db), db.check()?.orphan_units), (before, 0));
    Ok(())
}

#[test]
fn a_replaced_value_stays_for_its_readers_and_its_space_comes_back() -> Result<()> {
    let db = Database::builder().in_memory()?;
    let table = db.ensure_table("t")?;
    let len = 2 << 20;
    db.write(|tx| tx.put_reader(&table, b"k", Stream::new(1, len)))?;
    let first = db.snapshot()?;
    let mut reader = first.value_reader(&table, b"k")?.expect("it was put");
    db.write(|tx| tx.put_reader(&table, b"k", Stream::new(2, len)))?;
    db.checkpoint()?;
    expect(&first, &table, b"k", 1, len);
    drop(first);
    db.write(|tx| tx.put_reader(&table, b"k", Stream::new(3, len)))?;
    db.checkpoint()?;
    let mut all = Vec::new();
    reader.read_to_end(&mut all).unwrap();
    assert!(all.iter().enumerate().all(|(at, byte)| *byte == Stream::byte(1, at as u64)));
    drop(reader);
    db.delete(&table, b"k")?;
    for _ in 0..3 {
        db.put(&table, b"other", b"")?;
        db.checkpoint()?;
    }
    let stats = db.stats()?;
    assert!(stats.data_used_bytes + stats.data_retired_bytes < 1 << 20, "{stats:?}");
    assert_eq!(db.check()?.orphan_units, 0);
    Ok(())
}

/// The data file before the log, the log if the durability asks for it, and no more.
#[test]
fn flushes_are_counted() -> Result<()> {
    let disk = SimDisk::new();
    let db = Database::builder().create_in(disk.dir())?;
    let table = db.ensure_table("t")?;
    for (durability, flushes) in [(Durability::Sync, 2), (Durability::Buffered, 1)] {
        // Small first, so that the log has a segment with room.
        db.put(&table, b"small", b"")?;
        let options = TransactionOptions { durability, ..db.transaction_options() };
        let mut tx = db.begin_with(&options)?;
        for key in 0..3u8 {
            tx.put_reader(&table, &[key], Stream::new(1, limits::MAX_LOGGED_VALUE_BYTES as u64 + 1))?;
        }
        let before = disk.event_count();
        tx.commit()?;
        let syncs = disk.events_since(before).into_iter().filter(|event| matches!(event, Event::Sync { .. }));
        assert_eq!(syncs.count(), flushes, "{durability:?}");
    }
    Ok(())
}

/// Writes `len` bytes to each value, by turns.
fn append_by_turns(values: &mut [(OwnedValueWriter, u64)], len: u64) -> Result<()> {
    for from in (0..len).step_by(100_000) {
        for (value, seed) in &mut *values {
            let piece: Vec<u8> =
                (from..len.min(from + 100_000)).map(|position| Stream::byte(*seed, position)).collect();
            value.append(&piece)?;
        }
    }
    Ok(())
}

#[test]
fn values_are_written_by_turns_while_their_transaction_goes_on() -> Result<()> {
    let db = Database::builder().in_memory()?;
    let table = db.ensure_table("t")?;
    let (before, len) = (used_bytes(&db), 3 << 20);
    let mut tx = db.begin()?;
    let begin = |tx: &Transaction, seed: u64| Ok((tx.owned_value_writer(&table, [seed as u8])?, seed));
    let mut values = (1..=3).map(|seed| begin(&tx, seed)).collect::<Result<Vec<_>>>()?;
    append_by_turns(&mut values, len)?;
    assert!(used_bytes(&db) - before > 2 * len);
    assert_eq!(tx.get(&table, [1])?, None);
    tx.put(&table, [1], b"older")?;
    // The last one is given up, and its space is free at once.
    let with_three = used_bytes(&db);
    drop(values.pop());
    assert!(with_three - used_bytes(&db) > len - (1 << 20));
    for (value, _) in values {
        assert_eq!((value.len_bytes(), tx.finish_value(value)?), (len, len));
    }
    assert_eq!(tx.value_len(&table, [1])?, Some(len));
    tx.commit()?;
    let snapshot = db.snapshot()?;
    expect(&snapshot, &table, &[1], 1, len);
    expect(&snapshot, &table, &[2], 2, len);
    assert_eq!(snapshot.value_len(&table, [3])?, None);
    drop(snapshot);
    db.write(|tx| tx.delete_range(&table, ..))?;
    for _ in 0..3 {
        db.put(&table, b"other", b"")?;
        db.checkpoint()?;
    }
    assert_eq!(db.check()?.orphan_units, 0);
    assert!(used_bytes(&db) - before < 1 << 20);
    Ok(())
}

#[test]
fn a_value_can_be_put_by_a_later_transaction_of_the_same_database() -> Result<()> {
    let (db, other) = (Database::builder().in_memory()?, Database::builder().in_memory()?);
    let table = db.ensure_table("t")?;
    let (before, len) = (used_bytes(&db), 2 << 20);
    let begun = || -> Result<OwnedValueWriter> {
        let tx = db.begin()?;
        let mut values = [(tx.owned_value_writer(&table, b"k")?, 5)];
        tx.abort();
        append_by_turns(&mut values, len)?;
        let [(value, _)] = values;
        Ok(value)
    };
    let mut tx = db.begin()?;
    assert_eq!(tx.finish_value(begun()?)?, len);
    tx.commit()?;
    expect(&db.snapshot()?, &table, b"k", 5, len);
    let foreign = other.begin()?.finish_value(begun()?).unwrap_err();
    assert_eq!(foreign.kind(), ErrorKind::Invalid, "{foreign}");
    let late = begun()?;
    db.drop_table("t")?;
    let missing = db.begin()?.finish_value(late).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::Missing, "{missing}");
    // What was given up is free again.
    for _ in 0..3 {
        db.ensure_table("other")?;
        db.drop_table("other")?;
        db.checkpoint()?;
    }
    assert_eq!(db.check()?.orphan_units, 0);
    assert!(used_bytes(&db) - before < 1 << 20);
    Ok(())
}
