//! Where a backup's bytes go to and come from: a file in a directory, or a stream that cannot seek.

use super::folder::open_file;
use base::{Error, Result};
use io::File;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use std::sync::Arc;

/// Takes bytes, in order.
pub(super) trait Sink {
    fn write(&mut self, bytes: &[u8]) -> Result<()>;
}

/// Gives bytes, in order.
pub(super) trait Source {
    /// As many as there are, at most as many as fit; 0 at the end alone.
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize>;
    /// What messages call it.
    fn name(&self) -> &str;
}

/// A stream, in either direction.
pub(super) struct Stream<'a, T: ?Sized>(pub &'a mut T);

impl<T: Write + ?Sized> Sink for Stream<'_, T> {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.write_all(bytes).map_err(|cause| Error::io("write the backup", cause))
    }
}

impl<T: Read + ?Sized> Source for Stream<'_, T> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        loop {
            match self.0.read(buffer) {
                Err(cause) if cause.kind() == ErrorKind::Interrupted => {}
                read => return read.map_err(|cause| Error::io("read the backup", cause)),
            }
        }
    }

    fn name(&self) -> &str {
        "the stream"
    }
}

/// A file, from its beginning.
#[derive(Debug)]
pub(super) struct InFile {
    file: Arc<dyn File>,
    at: u64,
}

impl InFile {
    pub fn new(file: Arc<dyn File>) -> Self {
        InFile { file, at: 0 }
    }

    pub fn open(path: &Path) -> Result<Self> {
        Ok(InFile::new(open_file(path)?))
    }
}

impl Sink for InFile {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_at(bytes, self.at)?;
        self.at += bytes.len() as u64;
        Ok(())
    }
}

impl Source for InFile {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let read = self.file.read_at(buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }

    fn name(&self) -> &str {
        self.file.name()
    }
}
