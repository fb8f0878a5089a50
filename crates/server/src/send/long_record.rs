//! A record with a long value, which is written while it is read, in the memory of one piece.

use crate::data::engine::Engine;
use crate::data::open::Open;
use crate::limits::room::CHUNK_BYTES;
use crate::wire::body::counted;
use crate::wire::digits::write_digits;
use crate::wire::form::{Form, write_escaped};
use bytes::Bytes;
use pando::{Expiry, ValueReader};
use std::any::Any;
use std::io::{self, Read, Seek};
use std::str;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;

/// The longest value that is read as a whole to be written among other records.
pub const LONG_BYTES: u64 = 1 << 20;
/// The number of bytes that are read at once.
const PIECE_BYTES: usize = 64 << 10;

/// The encoding of the bytes of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writing {
    Plain,
    Text,
    Digits,
}

/// The part of a record that is still to be written.
#[derive(Debug)]
pub struct LongRecord {
    key: Vec<u8>,
    form: Form,
    /// When the record expires, in a table with a TTL by key.
    life: Option<Expiry>,
    /// The encoding; `None` before the first piece.
    writing: Option<Writing>,
    reader: Box<ValueReader>,
    left_bytes: u64,
    /// The bytes that follow the value.
    after: Vec<u8>,
    _open: Arc<dyn Any + Send + Sync>,
}

impl LongRecord {
    /// Creates the record of `key` with the value of `reader`, which is at its beginning, in the database `open`.
    pub fn new<E: Engine>(
        form: Form,
        key: &[u8],
        reader: ValueReader,
        life: Option<Expiry>,
        open: &Arc<Open<E>>,
    ) -> Self {
        let (key, left_bytes, reader) = (key.to_vec(), reader.len_bytes(), Box::new(reader));
        LongRecord {
            key,
            form,
            life,
            writing: None,
            reader,
            left_bytes,
            after: Vec::new(),
            _open: Arc::<Open<E>>::clone(open),
        }
    }

    /// Returns the bytes that follow the record.
    pub fn after(&mut self) -> &mut Vec<u8> {
        &mut self.after
    }

    /// Returns the memory of the record in bytes if it must be one piece; `None` if it can be several.
    pub fn whole_bytes(&self) -> Option<u64> {
        let is_whole = self.form.is_apart() && self.writing.is_none() && self.left_bytes <= CHUNK_BYTES;
        is_whole.then_some(self.key.len() as u64 + 1 + self.left_bytes)
    }

    /// Returns the whole record. `memory`, which it is counted as, is released when the last of it was sent. Reads from
    /// the disk.
    pub fn read_whole(mut self, memory: OwnedSemaphorePermit) -> io::Result<Bytes> {
        let mut all = Vec::with_capacity(self.whole_bytes().unwrap_or_default() as usize);
        while let Some(piece) = self.next_piece()? {
            all.extend_from_slice(&piece);
        }
        Ok(counted(all, memory))
    }

    /// Returns the next piece; `None` at the end. Reads from the disk.
    pub fn next_piece(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut out = Vec::new();
        let writing = match self.writing {
            Some(writing) => writing,
            None => self.begin(&mut out)?,
        };
        if self.left_bytes > 0 {
            let mut piece = vec![0; self.left_bytes.min(PIECE_BYTES as u64) as usize];
            self.reader.read_exact(&mut piece)?;
            self.left_bytes -= piece.len() as u64;
            match writing {
                Writing::Plain => out.append(&mut piece),
                Writing::Text => write_escaped(&piece, &mut out),
                Writing::Digits => write_digits(&piece, &mut out),
            }
        }
        if self.left_bytes == 0 {
            out.append(&mut self.after);
        }
        Ok((!out.is_empty()).then_some(out))
    }

    /// Writes the bytes before the value. To find out whether the value is text, it is read once more.
    fn begin(&mut self, out: &mut Vec<u8>) -> io::Result<Writing> {
        let writing = match self.form {
            Form::Lines => Writing::Plain,
            Form::Ndjson { .. } if is_text(&mut self.reader)? => Writing::Text,
            Form::Ndjson { .. } => Writing::Digits,
        };
        match writing {
            Writing::Plain => self.form.write(&self.key, None, self.life, out),
            _ => {
                let end = self.form.write_open(&self.key, writing == Writing::Text, self.life, out);
                self.after.splice(0..0, end);
            }
        }
        Ok(*self.writing.insert(writing))
    }
}

/// Returns whether `reader` has only UTF-8, and rewinds it.
fn is_text(reader: &mut (impl Read + Seek)) -> io::Result<bool> {
    let (mut piece, mut kept, mut is_text) = (vec![0; PIECE_BYTES], 0, true);
    while is_text {
        let count = reader.read(&mut piece[kept..])?;
        let filled = kept + count;
        if count == 0 {
            is_text = filled == 0;
            break;
        }
        match str::from_utf8(&piece[..filled]) {
            Ok(_) => kept = 0,
            // The piece ends within a character, whose bytes are checked together with the next piece.
            Err(error) if error.error_len().is_none() => {
                piece.copy_within(error.valid_up_to()..filled, 0);
                kept = filled - error.valid_up_to();
            }
            Err(_) => is_text = false,
        }
    }
    reader.rewind()?;
    Ok(is_text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::form::bytes_of;
    use pando::{Database, Table};
    use serde_json::{Map, Value};
    use tokio::sync::Semaphore;

    fn stored(value: &[u8]) -> (Arc<Open>, Table) {
        let db = Database::builder().in_memory().unwrap();
        let table = db.ensure_table("t").unwrap();
        db.put(&table, b"k\"", value).unwrap();
        (Arc::new(Open::alone(db)), table)
    }

    fn record(form: Form, value: &[u8]) -> LongRecord {
        let (open, table) = stored(value);
        let reader = open.db.snapshot().unwrap().value_reader(&table, b"k\"").unwrap().unwrap();
        LongRecord::new(form, b"k\"", reader, Some(Expiry::Never), &open)
    }

    fn all(mut record: LongRecord) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(piece) = record.next_piece().unwrap() {
            all.extend_from_slice(&piece);
        }
        all
    }

    #[test]
    fn what_is_written_in_pieces_is_what_is_written_at_once() {
        let umlauts = "ä\"\\\n\u{1}€".repeat(40_000);
        for value in
            [umlauts.as_bytes(), &umlauts.as_bytes()[..300_000], &[0xff; 200_000], &[b'a'; 65_536], b""]
        {
            let form = Form::Ndjson { keys_only: false, value_bytes: None };
            let (mut at_once, mut long) = (Vec::new(), record(form, value));
            form.write(b"k\"", Some(value), Some(Expiry::Never), &mut at_once);
            long.after().extend_from_slice(b"{}\n");
            at_once.extend_from_slice(b"{}\n");
            let pieces = all(long);
            let objects = |text: &[u8]| -> Vec<Map<String, Value>> {
                text.split(|&byte| byte == b'\n')
                    .filter(|line| !line.is_empty())
                    .map(|line| serde_json::from_slice(line).unwrap())
                    .collect()
            };
            assert_eq!(objects(&pieces), objects(&at_once));
            assert_eq!(bytes_of(&objects(&pieces)[0], "value").unwrap().unwrap(), value);
        }
    }

    #[test]
    fn a_record_of_the_contract_is_whole_and_counted_until_it_is_sent() {
        let memory = Arc::new(Semaphore::new(10));
        let value = vec![7; 200_000];
        let long = record(Form::Lines, &value);
        assert_eq!(long.whole_bytes(), Some(200_003));
        let whole = long.read_whole(Arc::clone(&memory).try_acquire_many_owned(4).unwrap()).unwrap();
        assert_eq!((&whole[..3], whole.len(), memory.available_permits()), (&b"k\"\n"[..], 200_003, 6));
        let rest = whole.slice(100..);
        drop(whole);
        assert_eq!(memory.available_permits(), 6);
        drop(rest);
        assert_eq!(memory.available_permits(), 10);
        assert_eq!(all(record(Form::Lines, &value)).len(), 200_003);
    }
}
