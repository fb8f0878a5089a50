//! A file that notes which units are written, and refuses writes on demand.

use base::{Error, ErrorKind, Result};
use io::{Dir, File, LogMap, MemDir};
use pando_space::Space;
use std::sync::{Arc, Mutex};

/// See the file's head.
#[derive(Debug)]
pub struct Recorder {
    inner: Arc<dyn File>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    written: Vec<u64>,
    /// So many more writes and length changes succeed.
    allowed: Option<u64>,
}

impl Recorder {
    /// An empty one, in memory.
    pub fn new() -> Arc<Recorder> {
        let inner = MemDir::new().create("data").unwrap();
        Arc::new(Recorder { inner, state: Mutex::default() })
    }

    /// The units written since the last call.
    pub fn take_written(&self) -> Vec<u64> {
        std::mem::take(&mut self.state.lock().unwrap().written)
    }

    /// After `writes` more, all fail; `None`: none fails.
    pub fn allow(&self, writes: Option<u64>) {
        self.state.lock().unwrap().allowed = writes;
    }

    fn admit(&self) -> Result<()> {
        match &mut self.state.lock().unwrap().allowed {
            Some(0) => Err(Error::new(ErrorKind::Full, "no room")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl File for Recorder {
    fn name(&self) -> &str {
        "data"
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.inner.read_at(buffer, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.admit()?;
        self.state
            .lock()
            .unwrap()
            .written
            .extend(offset / 4096..(offset + bytes.len() as u64).div_ceil(4096));
        self.inner.write_at(bytes, offset)
    }
    fn len(&self) -> Result<u64> {
        self.inner.len()
    }
    fn id(&self) -> Result<io::FileId> {
        self.inner.id()
    }
    fn set_len(&self, len: u64) -> Result<()> {
        self.admit()?;
        self.inner.set_len(len)
    }
    fn allocate_at(&self, offset: u64, len: u64) -> Result<bool> {
        self.admit()?;
        self.inner.allocate_at(offset, len)
    }
    fn sync(&self) -> Result<()> {
        self.inner.sync()
    }
    fn map(&self, len: u64) -> Result<Option<Arc<dyn LogMap>>> {
        self.inner.map(len)
    }
    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.inner.discard(offset, len)
    }
}

/// A whole trim, and how many units it gave back.
pub fn trim(space: &mut Space, keep_units: u64) -> u64 {
    let (mut trim, mut given) = (space.trim(keep_units), 0);
    while let Some(units) = space.trim_on(&mut trim).unwrap() {
        given += units;
    }
    given
}
