//! `import` into a server: a batch is a request, and so one transaction.
//!
//! A long value goes by itself, piece by piece: its transaction is its own. What stands before it is sent before it, so
//! that the last of several records of the same key stays here too.

use super::{Item, Loaded};
use crate::failure::{Failure, Outcome};
use crate::output::{Cell, Format, Rows};
use crate::remote::Remote;
use crate::{text, tree};
use std::fs::File;
use std::io::Read;

/// Longer values are not among the lines of a batch, which the server takes up to 4 MiB each: in JSON a byte may
/// become six.
const LONG_BYTES: u64 = 512 << 10;

/// A table of a server.
pub(super) struct ServerTable<'a> {
    pub remote: &'a Remote,
    pub name: &'a str,
    /// What each commit is to survive, as addresses have it.
    pub durability: &'static str,
}

impl ServerTable<'_> {
    /// Sends a batch, all of it or nothing but for its long values.
    pub fn write(&self, batch: Vec<Item>) -> Outcome<Loaded> {
        let mut loaded = Loaded::default();
        let mut lines = Vec::new();
        for item in batch {
            let (key, bytes, long): (_, _, Option<Box<dyn Read>>) = match item {
                Item::File(entry) if entry.bytes > LONG_BYTES => {
                    let refused =
                        |cause| Failure::system(format_args!("open {}", entry.path.display()), cause);
                    (entry.key, entry.bytes, Some(Box::new(File::open(&entry.path).map_err(refused)?)))
                }
                Item::Record(key, value) if value.len() as u64 > LONG_BYTES => {
                    (key, value.len() as u64, Some(Box::new(std::io::Cursor::new(value))))
                }
                Item::File(entry) => {
                    let value = tree::read(&entry.path)?;
                    add_line(&entry.key, &value, &mut lines)?;
                    (entry.key, value.len() as u64, None)
                }
                Item::Record(key, value) => {
                    add_line(&key, &value, &mut lines)?;
                    (key, value.len() as u64, None)
                }
            };
            loaded.records += 1;
            loaded.bytes += key.len() as u64 + bytes;
            if let Some(mut long) = long {
                self.send(&mut lines, &mut loaded)?;
                let path = format!("{}?durability={}", Remote::entry(self.name, &key), self.durability);
                let within = |failure| match failure {
                    Failure::Engine(error) => {
                        Failure::Engine(error.within(format_args!("key {}", text::show(&key))))
                    }
                    other => other,
                };
                self.remote.ask("PUT", &path, Some(&mut long)).map_err(within)?;
                loaded.commits += 1;
            }
        }
        self.send(&mut lines, &mut loaded)?;
        Ok(loaded)
    }

    fn send(&self, lines: &mut Vec<u8>, loaded: &mut Loaded) -> Outcome {
        if lines.is_empty() {
            return Ok(());
        }
        let path = format!("{}/entries?durability={}", Remote::table(self.name), self.durability);
        self.remote.ask("POST", &path, Some(&mut &lines[..]))?;
        loaded.commits += 1;
        lines.clear();
        Ok(())
    }
}

fn add_line(key: &[u8], value: &[u8], lines: &mut Vec<u8>) -> Outcome {
    let rows = Rows::new(lines, Format::Ndjson, &["key", "value"]);
    rows.and_then(|mut rows| rows.row(&[Cell::Bytes(key), Cell::Bytes(value)]))
        .map_err(|cause| Failure::system("write a record down", cause))
}
