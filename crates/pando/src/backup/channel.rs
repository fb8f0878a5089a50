//! Where a backup's bytes go to and come from: a file in a directory, or a stream that cannot seek.

use base::{Error, ErrorKind, Result};
use io::{Dir, File, OsDir};
use std::io::{ErrorKind as IoErrorKind, Read, Write};
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
                Err(cause) if cause.kind() == IoErrorKind::Interrupted => {}
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

/// Opens a file anywhere. [`ErrorKind::Missing`] if there is none.
pub(super) fn open_file(path: &Path) -> Result<Arc<dyn File>> {
    if !path.exists() {
        let message = format!("there is no file {}", path.display());
        return Err(Error::new(ErrorKind::Missing, message));
    }
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| Error::invalid(format!("{} is not the name of a file", path.display())))?;
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    OsDir::open(folder.unwrap_or(Path::new(".")))?.open_to_read(name)
}
