//! `import` into a server: a batch is one request, and therefore one transaction. With `--bulk` the whole input is one
//! request.
//!
//! A long value is sent separately in pieces, as a transaction of its own. The records before it are sent first, so
//! that the last of several records with the same key stays here too.

use super::items::{Item, Items, Loaded, Record};
use crate::failure::{Failure, Outcome};
use crate::output::{Cell, Format, Rows};
use crate::remote::Remote;
use crate::{text, tree};
use indicatif::ProgressBar;
use std::fs::File;
use std::io::{self, Read};

/// The longest value in the lines of a batch. The server accepts lines of up to 4 MiB, and in JSON a byte may take six.
const LONG_BYTES: u64 = 512 << 10;

/// A table of a server.
pub(super) struct ServerTable<'a> {
    pub remote: &'a Remote,
    pub name: &'a str,
    /// The durability of each commit, as in addresses.
    pub durability: &'static str,
}

impl ServerTable<'_> {
    /// Sends a batch and counts what the server has committed. Except for its long values, the batch is all or nothing.
    pub fn write(&self, batch: Vec<Item>, loaded: &mut Loaded) -> Outcome {
        let (mut lines, mut waiting) = (Vec::new(), Loaded::default());
        for item in batch {
            let (key, bytes, ttl, long): (_, _, _, Option<Box<dyn Read>>) = match item {
                Item::File(entry) if entry.bytes > LONG_BYTES => {
                    let refused =
                        |cause| Failure::system(format_args!("open {}", entry.path.display()), cause);
                    (entry.key, entry.bytes, None, Some(Box::new(File::open(&entry.path).map_err(refused)?)))
                }
                Item::Record(Record { key, value, ttl }) if value.len() as u64 > LONG_BYTES => {
                    (key, value.len() as u64, ttl, Some(Box::new(std::io::Cursor::new(value))))
                }
                Item::File(entry) => {
                    let record = Record::new(entry.key, tree::read(&entry.path)?);
                    add_line(&record, &mut lines)?;
                    (record.key, record.value.len() as u64, None, None)
                }
                Item::Record(record) => {
                    add_line(&record, &mut lines)?;
                    (record.key, record.value.len() as u64, record.ttl, None)
                }
            };
            let record_bytes = key.len() as u64 + bytes;
            if let Some(mut long) = long {
                self.send(&mut lines, &mut waiting, loaded)?;
                let ttl = ttl.map_or(String::new(), |ttl| format!("&ttl_ms={}", ttl.as_millis()));
                let path = format!("{}?durability={}{ttl}", Remote::entry(self.name, &key), self.durability);
                let within = |failure| match failure {
                    Failure::Engine(error) => {
                        Failure::Engine(error.within(format_args!("key {}", text::name(&key))))
                    }
                    other => other,
                };
                self.remote.ask("PUT", &path, Some(&mut long)).map_err(within)?;
                loaded.records += 1;
                loaded.bytes += record_bytes;
                loaded.commits += 1;
            } else {
                waiting.records += 1;
                waiting.bytes += record_bytes;
            }
        }
        self.send(&mut lines, &mut waiting, loaded)
    }

    /// Sends all of `items` as one request while they are read: all or nothing.
    pub fn write_all(&self, items: Items, bar: &ProgressBar) -> Outcome<Loaded> {
        let loaded = Loaded { commits: 1, ..Loaded::default() };
        let mut lines = Lines { items, line: Vec::new(), sent: 0, loaded, failure: None, bar };
        let answer = self.remote.ask("POST", &self.path(), Some(&mut lines));
        match lines.failure {
            Some(failure) => Err(failure),
            None => answer.map(|_| lines.loaded),
        }
    }

    fn path(&self) -> String {
        format!("{}/entries?durability={}", Remote::table(self.name), self.durability)
    }

    fn send(&self, lines: &mut Vec<u8>, waiting: &mut Loaded, loaded: &mut Loaded) -> Outcome {
        if lines.is_empty() {
            return Ok(());
        }
        self.remote.ask("POST", &self.path(), Some(&mut &lines[..]))?;
        let Loaded { records, bytes, .. } = std::mem::take(waiting);
        loaded.records += records;
        loaded.bytes += bytes;
        loaded.commits += 1;
        lines.clear();
        Ok(())
    }
}

/// Records as a body of lines. If one cannot be read, the body is incomplete, and so the server stores nothing.
struct Lines<'a> {
    items: Items,
    line: Vec<u8>,
    /// The number of bytes of the current line that were sent.
    sent: usize,
    loaded: Loaded,
    failure: Option<Failure>,
    bar: &'a ProgressBar,
}

impl Lines<'_> {
    fn next_line(&mut self, item: Item) -> Outcome {
        let Item::Record(record) = item else { unreachable!("a tree is not loaded in bulk") };
        if record.value.len() as u64 > LONG_BYTES {
            let key = text::name(&record.key);
            let message = format!(
                "key {key}: a value of more than 512 KiB needs a request of its own: leave out --bulk"
            );
            return Err(Failure::Failed(message));
        }
        self.line.clear();
        self.sent = 0;
        add_line(&record, &mut self.line)?;
        self.loaded.records += 1;
        self.loaded.bytes += record.bytes();
        self.bar.set_position(self.loaded.records);
        Ok(())
    }
}

impl Read for Lines<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.sent == self.line.len() {
            let Some(item) = self.items.next() else { return Ok(0) };
            if let Err(failure) = item.and_then(|item| self.next_line(item)) {
                self.failure = Some(failure);
                return Err(io::Error::other("a record could not be read"));
            }
        }
        let bytes = (&self.line[self.sent..]).read(out)?;
        self.sent += bytes;
        Ok(bytes)
    }
}

fn add_line(record: &Record, lines: &mut Vec<u8>) -> Outcome {
    let cells = [Cell::Bytes(&record.key), Cell::Bytes(&record.value)];
    let written = match record.ttl {
        Some(ttl) => Rows::new(lines, Format::Ndjson, &["key", "value", "ttl_ms"])
            .and_then(|mut rows| rows.row(&[cells[0], cells[1], Cell::Number(ttl.as_millis() as u64)])),
        None => Rows::new(lines, Format::Ndjson, &["key", "value"]).and_then(|mut rows| rows.row(&cells)),
    };
    written.map_err(|cause| Failure::system("encode a record", cause))
}
