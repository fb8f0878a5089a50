//! Values of any length: read and written a piece at a time.

use crate::code::pando_code;
use crate::db::pando_db;
use crate::error::{ErrorOut, call, pando_error};
use crate::expiry::ttl_of;
use crate::memory::{self, Buffer, Bytes, Out, Ref, handle, handles};
use crate::snapshot::pando_snapshot;
use crate::table::pando_table;
use crate::tx::pando_tx;
use binding::{Outcome, ReadValue, Source, WrittenValue};
use std::ffi::c_void;
use std::io::SeekFrom;
use std::ptr;
use std::sync::Arc;

/// A reader of a value of any length, from any place. The value stays as it was when the reader was opened, whatever is
/// committed meanwhile. Of a value of more than 1 MiB, memory holds a piece of 256 KiB. A reader keeps the disk space
/// of its value, as a snapshot does. Free it with pando_value_reader_free.
pub struct pando_value_reader {
    _private: (),
}

/// A writer of a value of any length, a piece at a time. Other calls can use the transaction meanwhile, and do not see
/// the value before pando_value_writer_finish. Beyond 1 MiB the value is written to the data file as it arrives, and
/// memory holds a piece of 256 KiB. Free it with pando_value_writer_free, which gives up a value that is not finished.
pub struct pando_value_writer {
    _private: (),
}

handles! {
    pando_value_reader = ReadValue, "the reader of a value", b"pandorea";
    pando_value_writer = WrittenValue, "the writer of a value", b"pandowri";
}

/// Opens a reader, and stores its handle.
fn open(
    source: impl FnOnce() -> Outcome<Source>,
    (table, key): (Ref<'_, pando_table>, Bytes<'_>),
    reader: Out<*mut pando_value_reader>,
    error: ErrorOut,
) -> pando_code {
    call(error, || {
        let reader = reader.required("reader", ptr::null_mut())?;
        let Some(opened) = ReadValue::open(&source()?, &table.get()?.table, key.key()?)? else {
            return Ok(pando_code::PANDO_ABSENT);
        };
        reader.set(handle(opened));
        Ok(pando_code::PANDO_OK)
    })
}

/// Opens a reader of the newest value of `key`. Returns PANDO_ABSENT if the key does not exist. Threads: any number at
/// the same time.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_db_value_reader(
    db: *mut pando_db,
    table: *const pando_table,
    key: *const c_void,
    key_len: usize,
    reader: *mut *mut pando_value_reader,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (db, table, key, reader, error) = unsafe {
        (Ref::of_mut(db), Ref::new(table), Bytes::new(key, key_len), Out::new(reader), Out::new(error))
    };
    open(|| Ok(Source::Database(Arc::clone(db.get()?))), (table, key), reader, error)
}

/// Opens a reader of the value of `key` in the snapshot. Returns PANDO_ABSENT if the key does not exist. The reader can
/// outlive the snapshot. Threads: one call at a time for each snapshot.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_snapshot_value_reader(
    snapshot: *const pando_snapshot,
    table: *const pando_table,
    key: *const c_void,
    key_len: usize,
    reader: *mut *mut pando_value_reader,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (snapshot, table, key, reader, error) = unsafe {
        (Ref::new(snapshot), Ref::new(table), Bytes::new(key, key_len), Out::new(reader), Out::new(error))
    };
    open(|| Ok(Source::Snapshot(Arc::clone(snapshot.get()?))), (table, key), reader, error)
}

/// Opens a reader of the value of `key` as the transaction sees it, with its own writes. Returns PANDO_ABSENT if the
/// key does not exist. The reader can outlive the transaction. Threads: one call at a time for each transaction.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_tx_value_reader(
    tx: *const pando_tx,
    table: *const pando_table,
    key: *const c_void,
    key_len: usize,
    reader: *mut *mut pando_value_reader,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (tx, table, key, reader, error) = unsafe {
        (Ref::new(tx), Ref::new(table), Bytes::new(key, key_len), Out::new(reader), Out::new(error))
    };
    open(|| Ok(Source::Transaction(Arc::clone(&tx.get()?.begun))), (table, key), reader, error)
}

/// Returns the length of the value in bytes; 0 if `reader` is no reader of a value. Threads: any number at the same
/// time.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_value_reader_len(reader: *const pando_value_reader) -> u64 {
    // SAFETY: as the header demands of its arguments.
    let reader = unsafe { Ref::new(reader) };
    reader.get().map_or(0, ReadValue::len_bytes)
}

/// Copies the next bytes to the caller's buffer and stores how many there are: as many as the buffer takes, except at
/// the value's end; 0 after it. What was read is verified. After an error, the reader is where the call began, and what
/// the buffer has is undefined. Threads: one call at a time for each reader.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_value_reader_read(
    reader: *mut pando_value_reader,
    buffer: *mut c_void,
    buffer_len: usize,
    read_len: *mut usize,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (reader, mut buffer, read_len, error) = unsafe {
        (Ref::of_mut(reader), Buffer::new(buffer, buffer_len), Out::new(read_len), Out::new(error))
    };
    call(error, || {
        let read_len = read_len.required("read_len", 0)?;
        buffer = buffer.checked()?;
        let count = reader.get()?.read(buffer_len, &mut |part| buffer = buffer.filled_with(part))?;
        read_len.set(count);
        Ok(pando_code::PANDO_OK)
    })
}

/// Goes to the byte `position`, counted from 0; after the value's end there is nothing to read. Threads: one call at a
/// time for each reader.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_value_reader_seek(
    reader: *mut pando_value_reader,
    position: u64,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (reader, error) = unsafe { (Ref::of_mut(reader), Out::new(error)) };
    call(error, || {
        reader.get()?.seek(SeekFrom::Start(position))?;
        Ok(pando_code::PANDO_OK)
    })
}

/// Frees a reader of a value.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_value_reader_free(reader: *mut pando_value_reader) {
    // SAFETY: as the header demands of its arguments.
    unsafe { memory::free(reader) };
}

/// Begins a value for `key`. `ttl_ms` is as for pando_tx_put_with_ttl in a table with a TTL by key, and PANDO_NEVER in
/// every other; the time counts from this call. Several values can be written by turns. A transaction that runs again
/// after a conflict needs a source that can be read again: open it after pando_tx_begin. Threads:
/// one call at a time for each transaction.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_tx_value_writer(
    tx: *mut pando_tx,
    table: *const pando_table,
    key: *const c_void,
    key_len: usize,
    ttl_ms: u64,
    writer: *mut *mut pando_value_writer,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (tx, table, key, writer, error) = unsafe {
        (Ref::of_mut(tx), Ref::new(table), Bytes::new(key, key_len), Out::new(writer), Out::new(error))
    };
    call(error, || {
        let writer = writer.required("writer", ptr::null_mut())?;
        let (tx, table, key) = (tx.get()?, table.get()?, key.key()?);
        let begun = WrittenValue::begin(&tx.begun, &table.table, key, ttl_of(ttl_ms))?;
        writer.set(handle(begun));
        Ok(pando_code::PANDO_OK)
    })
}

/// Appends `len` bytes to the value. A value has at most 16 GiB. After every error except PANDO_IN_USE the value is
/// given up: it cannot be finished. The transaction can go on. Threads: one call at a time for each writer.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_value_writer_append(
    writer: *mut pando_value_writer,
    data: *const c_void,
    len: usize,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (writer, data, error) = unsafe { (Ref::of_mut(writer), Bytes::new(data, len), Out::new(error)) };
    call(error, || {
        let writer = writer.get()?;
        match data.value() {
            Ok(bytes) => writer.append(bytes)?,
            Err(failure) => {
                // The value would lack these bytes.
                writer.abandon()?;
                return Err(failure);
            }
        }
        Ok(pando_code::PANDO_OK)
    })
}

/// Sets the key to the value in the transaction, and ends the writer whatever the result is, except PANDO_IN_USE: the
/// value can be finished after the other call. Stores the length of the value; `value_len` may be NULL. The value is
/// durable when the transaction is. Threads: one call at a time for each writer and its transaction.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_value_writer_finish(
    writer: *mut pando_value_writer,
    value_len: *mut u64,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (writer, value_len, error) = unsafe { (Ref::of_mut(writer), Out::new(value_len), Out::new(error)) };
    call(error, || {
        value_len.set(0);
        value_len.set(writer.get()?.finish()?);
        Ok(pando_code::PANDO_OK)
    })
}

/// Frees a writer of a value. A value that was not finished is given up.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_value_writer_free(writer: *mut pando_value_writer) {
    // SAFETY: as the header demands of its arguments.
    unsafe { memory::free(writer) };
}

#[cfg(test)]
mod tests {
    use binding::{Begun, Failure, Handle, Kind, ReadValue, Source, WrittenValue};
    use pando::{Database, TransactionOptions};
    use std::fs;
    use std::sync::Arc;

    /// Bytes of which no 64 in a row are in two places.
    fn unlike(len: u32) -> Vec<u8> {
        (0..len / 4).flat_map(|at| at.wrapping_mul(0x9e37_79b1).to_le_bytes()).collect()
    }

    #[test]
    fn a_read_that_fails_skips_no_byte() -> Result<(), Failure> {
        let dir = tempfile::tempdir().unwrap();
        let value = unlike(3 << 20);
        {
            let db = Database::builder().create(dir.path())?;
            let table = db.ensure_table("t")?;
            db.put(&table, b"k", &value)?;
            db.checkpoint()?;
        }
        // A byte of the second piece.
        let (mut damaged, sought) = (0, &value[400_000..400_064]);
        for file in fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap().path()) {
            let mut bytes = fs::read(&file).unwrap();
            if let Some(at) = bytes.windows(sought.len()).position(|window| window == sought) {
                bytes[at] ^= 1;
                fs::write(&file, bytes).unwrap();
                damaged += 1;
            }
        }
        assert_eq!(damaged, 1);
        let handle = Handle::new(Database::builder().create(dir.path())?);
        let table = handle.open()?.ensure_table("t")?;
        let source = Source::Database(Arc::clone(&handle));
        let reader = ReadValue::open(&source, &table, b"k")?.expect("it was put");
        let read = |most| {
            let mut got = Vec::new();
            reader.read(most, &mut |part| got.extend_from_slice(part)).map(|_| got)
        };
        assert!(read(1000)? == value[..1000]);
        for _ in 0..2 {
            assert!(read(700_000).is_err());
        }
        assert!(read(1000)? == value[1000..2000]);
        Ok(())
    }

    #[test]
    fn a_writer_survives_a_finish_while_another_call_uses_the_transaction() -> Result<(), Failure> {
        let handle = Handle::new(Database::builder().in_memory()?);
        let table = handle.open()?.ensure_table("t")?;
        let begun = Begun::begin(&handle, &TransactionOptions::default())?;
        let writer = WrittenValue::begin(&begun, &table, b"k", None)?;
        writer.append(b"ab")?;
        let refused = begun.read(|_| Ok(writer.finish()))?;
        assert_eq!(refused.unwrap_err().kind, Kind::InUse);
        writer.append(b"c")?;
        assert_eq!(writer.finish()?, 3);
        assert_eq!(begun.read(|tx| tx.get(&table, b"k"))?.as_deref(), Some(&b"abc"[..]));
        Ok(())
    }
}
