//! Gathering changes into the body of a segment.

use crate::bucket::Bucket;
use crate::format::PartList;
use crate::name;
use crate::parts::PartWriter;
use crate::segment::{Change, Content, push_change};
use crate::source::Stamp;
use base::checksum::Running;
use base::{Error, Result};
use std::io::{self, Write};
use std::time::Instant;

/// A longer change is stored as parts, so that no request grows without a bound.
const MOST_INLINE_BYTES: usize = 4 << 20;

/// Changes that go into one segment.
#[derive(Debug)]
pub(crate) struct Batch {
    pub body: Vec<u8>,
    pub first: Stamp,
    pub last: Stamp,
    pub count: u64,
    pub last_change: u64,
    /// The bytes of its changes, wherever they are.
    pub bytes: u64,
    /// The bytes of their parts in the bucket.
    pub part_bytes: u64,
    pub began: Instant,
}

/// Receives one change: in memory at first, and as parts once it is long.
pub(crate) struct ChangeWriter<'a> {
    bucket: &'a Bucket,
    /// The segment that the change will be in.
    segment: u64,
    head: Vec<u8>,
    parts: Option<PartWriter>,
    bytes: u64,
    sum: Running,
    failure: Option<Error>,
}

/// A change that was received.
pub(crate) struct Received {
    pub bytes: u64,
    pub sum: u64,
    content: Stored,
}

enum Stored {
    Here(Vec<u8>),
    Parts(PartList),
}

impl<'a> ChangeWriter<'a> {
    pub fn new(bucket: &'a Bucket, segment: u64) -> Self {
        let (head, sum) = (Vec::new(), Running::unseeded());
        ChangeWriter { bucket, segment, head, parts: None, bytes: 0, sum, failure: None }
    }

    pub fn finish(self) -> Result<Received> {
        let content = match self.parts {
            None => Stored::Here(self.head),
            Some(parts) => Stored::Parts(parts.finish()?),
        };
        Ok(Received { bytes: self.bytes, sum: self.sum.finish(), content })
    }

    /// Returns the error within [`Write::write`], if there was one, and otherwise `error`.
    pub fn failure(&mut self, error: Error) -> Error {
        self.failure.take().unwrap_or(error)
    }

    fn spill(&mut self, bytes: &[u8]) -> io::Result<()> {
        let parts = self.parts.as_mut().expect("it was made before");
        parts.write_all(bytes).inspect_err(|error| {
            self.failure =
                Some(parts.failure(Error::io("write a change", io::Error::other(error.to_string()))));
        })
    }
}

impl Write for ChangeWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.parts.is_none() && self.head.len() + bytes.len() > MOST_INLINE_BYTES {
            self.parts = Some(PartWriter::new(self.bucket, name::change(self.segment)));
            let head = std::mem::take(&mut self.head);
            self.spill(&head)?;
        }
        match self.parts {
            None => self.head.extend_from_slice(bytes),
            Some(_) => self.spill(bytes)?,
        }
        self.sum.update(bytes);
        self.bytes += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Batch {
    /// Adds a change to `batch`, or begins one.
    pub fn add(batch: &mut Option<Batch>, stamp: Stamp, change: Received) {
        let batch = batch.get_or_insert_with(|| Batch {
            body: Vec::new(),
            first: stamp,
            last: stamp,
            count: 0,
            last_change: 0,
            bytes: 0,
            part_bytes: 0,
            began: Instant::now(),
        });
        let content = match &change.content {
            Stored::Here(bytes) => Content::Here(bytes),
            Stored::Parts(list) => {
                batch.part_bytes += list.stored_bytes();
                Content::Parts(list.clone())
            }
        };
        let Stamp { commit, time_ms } = stamp;
        push_change(&mut batch.body, &Change { commit, time_ms, bytes: change.bytes, content });
        batch.last = stamp;
        batch.count += 1;
        batch.last_change = change.sum;
        batch.bytes += change.bytes;
    }
}
