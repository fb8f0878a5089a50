//! A writer of backups: records one after the other, through one buffer, with a running hash of everything.

use super::channel::Sink;
use super::format::{Header, Kind, RecordHead, Totals};
use base::Result;
use base::checksum::Running;

/// The size at which the buffer is written to the sink.
const BUFFER_BYTES: usize = 128 << 10;

/// A writer of one backup.
pub(super) struct Writer<'a> {
    sink: &'a mut dyn Sink,
    backup: u64,
    totals: Totals,
    running: Running,
    buffer: Vec<u8>,
}

impl<'a> Writer<'a> {
    /// Writes the header.
    pub fn begin(sink: &'a mut dyn Sink, header: &Header) -> Result<Self> {
        let (totals, running) = (Totals::default(), Running::unseeded());
        let buffer = Vec::with_capacity(BUFFER_BYTES);
        let mut writer = Writer { sink, backup: header.id, totals, running, buffer };
        writer.put(&header.encode())?;
        Ok(writer)
    }

    /// Writes a record whose payload is made of `parts`.
    pub fn record(&mut self, kind: Kind, parts: &[&[u8]]) -> Result<()> {
        let payload_bytes = parts.iter().map(|part| part.len()).sum();
        let head = RecordHead { kind, payload_bytes, sequence: self.totals.records };
        self.put(&head.seal(self.backup, parts))?;
        parts.iter().try_for_each(|part| self.put(part))?;
        self.totals.records += 1;
        self.totals.commits += u64::from(kind == Kind::Commit);
        self.totals.pages += u64::from(kind == Kind::Page);
        Ok(())
    }

    /// Writes the end record, and returns the totals in it.
    pub fn end(mut self) -> Result<Totals> {
        self.totals.hash = self.running.finish();
        let totals = self.totals;
        self.record(Kind::End, &[&totals.encode()])?;
        self.flush()?;
        Ok(totals)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.running.update(bytes);
        self.totals.bytes += bytes.len() as u64;
        if self.buffer.len() + bytes.len() > BUFFER_BYTES {
            self.flush()?;
        }
        if bytes.len() > BUFFER_BYTES {
            return self.sink.write(bytes);
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.sink.write(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}
