//! Long streams as objects of a few MiB: the parts of a base, and of a change that is too long for a segment.

use crate::bucket::Bucket;
use crate::format::{self, PartEntry, PartList};
use crate::name;
use base::env::Random;
use base::{Error, Result};
use bytes::Bytes;
use std::io::{self, Read, Write};

/// A part's length, before compression.
pub(crate) const PART_BYTES: usize = 8 << 20;

/// Writes a stream as parts in a folder of a bucket.
pub(crate) struct PartWriter {
    bucket: Bucket,
    folder: String,
    list: PartList,
    buffer: Vec<u8>,
    /// Why a write failed: an `io::Error` has no room for it.
    failure: Option<Error>,
}

impl PartWriter {
    /// Creates a writer of parts that no other writer names, because their attempt is a random number.
    pub fn new(bucket: &Bucket, folder: String) -> Self {
        Self::of_attempt(bucket, folder, Random::from_entropy().next_u64().max(1))
    }

    /// Creates a writer of parts of `attempt`, which is of this writer alone.
    pub fn of_attempt(bucket: &Bucket, folder: String, attempt: u64) -> Self {
        let list = PartList { attempt, entries: Vec::new() };
        PartWriter { bucket: bucket.clone(), folder, list, buffer: Vec::new(), failure: None }
    }

    /// Uploads the rest, and returns what was written.
    pub fn finish(mut self) -> Result<PartList> {
        if !self.buffer.is_empty() {
            self.upload()?;
        }
        Ok(self.list)
    }

    /// Returns the error within [`Write::write`], if there was one, and otherwise `error`.
    pub fn failure(&mut self, error: Error) -> Error {
        self.failure.take().unwrap_or(error)
    }

    /// Deletes what was uploaded, as far as that works now: no manifest or segment will name it.
    pub fn delete(self) {
        for index in 0..self.list.entries.len() {
            let _ = self.bucket.delete(&name::part(&self.folder, self.list.attempt, index));
        }
    }

    fn upload(&mut self) -> Result<()> {
        let raw_bytes = self.buffer.len() as u64;
        let (codec, stored) = format::pack(std::mem::take(&mut self.buffer));
        let entry =
            PartEntry { stored_bytes: stored.len() as u64, raw_bytes, codec, hash: format::hash(&stored) };
        let name = name::part(&self.folder, self.list.attempt, self.list.entries.len());
        self.bucket.put(&name, &Bytes::from(stored))?;
        self.list.entries.push(entry);
        Ok(())
    }
}

impl Write for PartWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(PART_BYTES - self.buffer.len());
        self.buffer.extend_from_slice(&bytes[..taken]);
        if self.buffer.len() == PART_BYTES {
            self.upload().map_err(|error| {
                let said = io::Error::other(error.to_string());
                self.failure = Some(error);
                said
            })?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads a stream from its parts, each verified before its first byte is returned.
pub(crate) struct PartReader<'a> {
    bucket: &'a Bucket,
    folder: String,
    list: &'a PartList,
    next: usize,
    part: Vec<u8>,
    read: usize,
    failure: Option<Error>,
    progress: &'a mut dyn FnMut(u64),
}

impl<'a> PartReader<'a> {
    /// Creates a reader of the parts. `progress` is called with the stored bytes of each part.
    pub fn new(
        bucket: &'a Bucket,
        folder: String,
        list: &'a PartList,
        progress: &'a mut dyn FnMut(u64),
    ) -> Self {
        PartReader { bucket, folder, list, next: 0, part: Vec::new(), read: 0, failure: None, progress }
    }

    /// Returns the error within [`Read::read`], if there was one, and otherwise `error`.
    pub fn failure(&mut self, error: Error) -> Error {
        self.failure.take().unwrap_or(error)
    }

    fn fetch(&mut self, entry: PartEntry) -> Result<()> {
        let name = name::part(&self.folder, self.list.attempt, self.next);
        let stored = self.bucket.expect(&name)?;
        let (expected, found) = (hex::encode(&entry.hash), hex::encode(&format::hash(&stored)));
        if expected != found {
            let shown = format!("{}/{name}", self.bucket);
            return Err(Error::corruption(format!("{shown}: expected SHA-256 {expected}, found {found}")));
        }
        self.part = format::unpack(&name, entry.codec, &stored, entry.raw_bytes, PART_BYTES)?;
        (self.progress)(entry.stored_bytes);
        (self.read, self.next) = (0, self.next + 1);
        Ok(())
    }
}

impl Read for PartReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.read == self.part.len() {
            let Some(&entry) = self.list.entries.get(self.next) else { return Ok(0) };
            self.fetch(entry).map_err(|error| {
                let said = io::Error::other(error.to_string());
                self.failure = Some(error);
                said
            })?;
        }
        let taken = buffer.len().min(self.part.len() - self.read);
        buffer[..taken].copy_from_slice(&self.part[self.read..self.read + taken]);
        self.read += taken;
        Ok(taken)
    }
}
