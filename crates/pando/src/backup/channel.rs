//! The source and the target of a backup's bytes: a file in a directory, or a stream that cannot seek.

use base::{Error, ErrorKind, Result};
use io::{Dir, File, OsDir};
use std::io::{ErrorKind as IoErrorKind, Read, Write};
use std::path::Path;
use std::sync::Arc;

/// A target that takes bytes in order.
pub(super) trait Sink {
    fn write(&mut self, bytes: &[u8]) -> Result<()>;
}

/// A source that yields bytes in order.
pub(super) trait Source {
    /// Reads at least one byte and at most what fits into `buffer`. Returns 0 only at the end.
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize>;
    /// Returns the name of the source in messages.
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

/// A file that is read or written from its beginning.
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

    /// Returns the length of the file in bytes.
    pub fn len_bytes(&self) -> Result<u64> {
        self.file.len()
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

/// Opens a file at any path. Returns [`ErrorKind::Missing`] if it does not exist.
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
