//! The traits for the simulated disk. Every call counts itself, fails if a fault says so, and records what it did.
//!
//! A write that fails has written some whole sectors of its first half, as real ones may. A sync that fails abandons
//! the pending changes. Any other call that fails has no effect.

use super::Payload;
use super::SimDisk;
use super::disk::State;
use super::event::{Event, NodeId};
use super::fault::{CallKind, FaultError};
use crate::dir::{Holders, check_name};
use crate::file::{checked_end, place_in_map};
use crate::{Dir, File, FileId, Lock, LogMap};
use base::sync::MutexGuard;
use base::{Error, ErrorKind, Result};
use std::fmt;
use std::sync::Arc;

/// The longest simulated file: files are in memory, with an entry for each block, 128 MiB of entries at most.
const LONGEST_FILE_BYTES: u64 = 64 << 30;

fn check_len(name: &str, offset: u64, len: u64) -> Result<()> {
    if checked_end(name, offset, len)? > LONGEST_FILE_BYTES {
        return Err(FaultError::Full.refuse(format_args!("put {len} bytes at {offset} of {name}")));
    }
    Ok(())
}

/// Locks the disk and counts a call. Fails as an injected fault says; `what` names the call in the message.
fn call(disk: &SimDisk, kind: CallKind, what: impl fmt::Display) -> Result<MutexGuard<'_, State>> {
    let mut state = disk.state();
    match state.faults.strike(kind) {
        Some(error) => Err(error.refuse(what)),
        None => Ok(state),
    }
}

#[derive(Debug)]
pub(super) struct SimDir {
    disk: SimDisk,
}

impl SimDir {
    pub(super) fn new(disk: SimDisk) -> SimDir {
        SimDir { disk }
    }

    fn file(&self, state: &mut State, name: Arc<str>, node: NodeId) -> Arc<dyn File> {
        state.opened(node);
        Arc::new(SimFile { disk: self.disk.clone(), name, node })
    }
}

#[cold]
fn missing(name: &str) -> Error {
    Error::new(ErrorKind::Io, format!("there is no {name} on the simulated disk"))
}

impl Dir for SimDir {
    fn create(&self, name: &str) -> Result<Arc<dyn File>> {
        check_name(name)?;
        let mut state = call(&self.disk, CallKind::Create, format_args!("create {name}"))?;
        if state.model.names.contains_key(name) {
            return Err(Error::new(ErrorKind::Io, format!("{name} exists already on the simulated disk")));
        }
        // A number is reused once its file is unreachable.
        let node = state.model.nodes.last_key_value().map_or(0, |(&last, _)| last + 1);
        let name = Arc::<str>::from(name);
        state.record(&Event::Create { name: Arc::clone(&name), node });
        Ok(self.file(&mut state, name, node))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn File>> {
        check_name(name)?;
        let mut state = call(&self.disk, CallKind::Open, format_args!("open {name}"))?;
        let node = *state.model.names.get(name).ok_or_else(|| missing(name))?;
        Ok(self.file(&mut state, name.into(), node))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        check_name(from)?;
        check_name(to)?;
        let mut state = call(&self.disk, CallKind::Rename, format_args!("rename {from} to {to}"))?;
        if !state.model.names.contains_key(from) {
            return Err(missing(from));
        }
        if from != to {
            state.record(&Event::Rename { from: from.into(), to: to.into() });
        }
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<()> {
        check_name(name)?;
        let mut state = call(&self.disk, CallKind::Remove, format_args!("remove {name}"))?;
        if !state.model.names.contains_key(name) {
            return Err(missing(name));
        }
        state.record(&Event::Remove { name: name.into() });
        Ok(())
    }

    fn list(&self) -> Result<Vec<String>> {
        let state = call(&self.disk, CallKind::List, "list the directory")?;
        Ok(state.model.names.keys().map(|name| name.to_string()).collect())
    }

    fn sync(&self) -> Result<()> {
        call(&self.disk, CallKind::DirSync, "sync the directory")?.record(&Event::DirSync);
        Ok(())
    }

    fn lock(&self, name: &str) -> Result<Box<dyn Lock>> {
        self.take_lock(name, Holders::Owner)
    }

    fn lock_existing(&self, name: &str) -> Result<Box<dyn Lock>> {
        if !self.disk.state().model.names.contains_key(name) {
            return Err(missing(name));
        }
        self.take_lock(name, Holders::Owner)
    }

    fn lock_shared(&self, name: &str) -> Result<Box<dyn Lock>> {
        self.take_lock(name, Holders::Readers(1))
    }

    fn check_in_place(&self, files: &[&dyn File]) -> Result<()> {
        let state = call(&self.disk, CallKind::InPlace, "find the directory where it was opened")?;
        for file in files {
            if state.model.names.get(file.name()) != Some(&file.id()?.number) {
                let message = format!("{} lost its name (simulated disk)", file.name());
                return Err(Error::new(ErrorKind::Io, message));
            }
        }
        Ok(())
    }

    fn describe(&self) -> String {
        "simulated disk".into()
    }
}

impl SimDir {
    fn take_lock(&self, name: &str, who: Holders) -> Result<Box<dyn Lock>> {
        check_name(name)?;
        let mut state = call(&self.disk, CallKind::Lock, format_args!("lock {name}"))?;
        let name = Arc::<str>::from(name);
        if !Holders::join(&mut state.locks, Arc::clone(&name), who) {
            let owner = std::process::id();
            return Err(Error::new(
                ErrorKind::Locked,
                format!("{name} is held by process {owner} (simulated disk)"),
            ));
        }
        Ok(Box::new(SimLock { disk: self.disk.clone(), name }))
    }
}

/// A lock, which is no file of the disk: a crash leaves no lock.
#[derive(Debug)]
struct SimLock {
    disk: SimDisk,
    name: Arc<str>,
}

impl Lock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        Holders::leave(&mut self.disk.state().locks, &self.name);
    }
}

struct SimFile {
    disk: SimDisk,
    name: Arc<str>,
    node: NodeId,
}

impl SimFile {
    fn call(&self, kind: CallKind, what: fmt::Arguments<'_>) -> Result<MutexGuard<'_, State>> {
        call(&self.disk, kind, format_args!("{what} of {}", self.name))
    }

    fn record_write(&self, state: &mut State, bytes: &[u8], offset: u64) {
        if !bytes.is_empty() {
            let payload = Payload::new(bytes, offset);
            state.record(&Event::Write { name: Arc::clone(&self.name), node: self.node, payload });
        }
    }
}

impl File for SimFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let what = format_args!("read {} bytes at {offset}", buffer.len());
        let state = self.call(CallKind::Read, what)?;
        Ok(state.model.nodes[&self.node].live.read(buffer, offset))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let len = bytes.len() as u64;
        check_len(&self.name, offset, len)?;
        let mut state = self.disk.state();
        let (written, refused) = match state.faults.strike(CallKind::Write) {
            Some(error) => (len / 2 / 512 * 512, Some(error)),
            None => (state.fits(self.node, offset, len), None),
        };
        let written = written.min(state.fits(self.node, offset, len));
        self.record_write(&mut state, &bytes[..written as usize], offset);
        match refused.or((written < len).then_some(FaultError::Full)) {
            Some(error) => Err(error.refuse(format_args!("write {len} bytes at {offset} of {}", self.name))),
            None => Ok(()),
        }
    }

    fn len(&self) -> Result<u64> {
        Ok(self.disk.state().model.nodes[&self.node].live.len())
    }

    fn id(&self) -> Result<FileId> {
        Ok(FileId { volume: 0, number: self.node })
    }

    fn set_len(&self, len: u64) -> Result<()> {
        check_len(&self.name, 0, len)?;
        let mut state = self.call(CallKind::Resize, format_args!("set {len} as the length"))?;
        state.record(&Event::Resize { name: Arc::clone(&self.name), node: self.node, len });
        Ok(())
    }

    /// Allocates as much as fits, and returns an error if some of it does not fit.
    fn allocate_at(&self, offset: u64, len: u64) -> Result<bool> {
        check_len(&self.name, offset, len)?;
        let what = format_args!("allocate {len} bytes at {offset}");
        let mut state = self.call(CallKind::Allocate, what)?;
        if !state.maps || len == 0 {
            return Ok(false);
        }
        let fits = state.fits(self.node, offset, len);
        state.record(&Event::Allocate { name: Arc::clone(&self.name), node: self.node, offset, len: fits });
        if fits < len {
            return Err(FaultError::Full.refuse(format_args!("{what} of {}", self.name)));
        }
        Ok(true)
    }

    fn room_bytes(&self) -> Result<Option<u64>> {
        Ok(Some(self.disk.state().room_bytes()))
    }

    fn sync(&self) -> Result<()> {
        let mut state = self.disk.state();
        let (name, node) = (Arc::clone(&self.name), self.node);
        match state.faults.strike(CallKind::Sync) {
            Some(error) => {
                state.record(&Event::FailedSync { name, node });
                Err(error.refuse(format_args!("sync the data of {}", self.name)))
            }
            None => {
                state.record(&Event::Sync { name, node });
                Ok(())
            }
        }
    }

    fn map(&self, len: u64) -> Result<Option<Arc<dyn LogMap>>> {
        let mut state = self.call(CallKind::Map, format_args!("map {len} bytes"))?;
        if len > state.model.nodes[&self.node].live.len() {
            return Err(Error::invalid(format!("{} is shorter than a mapping of {len} bytes", self.name)));
        }
        if !state.maps || len == 0 {
            return Ok(None);
        }
        state.opened(self.node);
        let file = SimFile { disk: self.disk.clone(), name: Arc::clone(&self.name), node: self.node };
        Ok(Some(Arc::new(SimMap { file, len })))
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        checked_end(&self.name, offset, len)?;
        let mut state = self.call(CallKind::Discard, format_args!("discard {len} bytes at {offset}"))?;
        if len > 0 {
            state.record(&Event::Discard { name: Arc::clone(&self.name), node: self.node, offset, len });
        }
        Ok(())
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        self.disk.state().closed(self.node);
    }
}

impl fmt::Debug for SimFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on the simulated disk", self.name)
    }
}

#[derive(Debug)]
struct SimMap {
    file: SimFile,
    len: u64,
}

impl LogMap for SimMap {
    /// Stores `bytes`. A store that a fault hits has stored the first half of its bytes.
    ///
    /// # Panics
    /// If the file was cut or the bytes have no disk space: the engine maps only what it has allocated.
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        place_in_map(offset, bytes, self.len);
        let end = offset + bytes.len() as u64;
        let mut state = self.file.disk.state();
        let live = &state.model.nodes[&self.file.node].live;
        let written = (offset / 4096..end.div_ceil(4096)).all(|block| live.is_allocated(block * 4096));
        assert!(
            end <= live.len() && written,
            "SIGBUS: store of {} bytes at {offset} of {}, which holds no such bytes on the disk",
            bytes.len(),
            self.file.name
        );
        let struck = state.faults.strike(CallKind::Store);
        let stored = if struck.is_some() { &bytes[..bytes.len() / 2] } else { bytes };
        self.file.record_write(&mut state, stored, offset);
        match struck {
            Some(error) => {
                let what = format_args!("store {} bytes at {offset} of {}", bytes.len(), self.file.name);
                Err(error.refuse(what))
            }
            None => Ok(()),
        }
    }
}
