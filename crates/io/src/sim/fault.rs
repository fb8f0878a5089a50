//! Faults: calls that are made to fail, by kind and by count.

use base::Error;
use rustix::io::Errno;
use std::fmt;

/// A kind of call, to count and to make fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CallKind {
    /// [`Dir::create`](crate::Dir::create).
    Create,
    /// [`Dir::open`](crate::Dir::open).
    Open,
    /// [`Dir::rename`](crate::Dir::rename).
    Rename,
    /// [`Dir::remove`](crate::Dir::remove).
    Remove,
    /// [`Dir::list`](crate::Dir::list).
    List,
    /// [`Dir::sync`](crate::Dir::sync).
    DirSync,
    /// [`Dir::lock`](crate::Dir::lock).
    Lock,
    /// [`File::read_at`](crate::File::read_at).
    Read,
    /// [`Dir::check_in_place`](crate::Dir::check_in_place): a failure is a directory that was moved or deleted.
    InPlace,
    /// [`File::write_at`](crate::File::write_at).
    Write,
    /// [`LogMap::write`](crate::LogMap::write): a failure is a file system that was shut down.
    Store,
    /// [`File::set_len`](crate::File::set_len).
    Resize,
    /// [`File::allocate`](crate::File::allocate).
    Allocate,
    /// [`File::sync`](crate::File::sync).
    Sync,
    /// [`File::map`](crate::File::map).
    Map,
    /// [`File::discard`](crate::File::discard).
    Discard,
    /// All calls. It is last, because it counts the others.
    Any,
}

impl CallKind {
    /// Every kind but [`Any`](CallKind::Any).
    pub const EACH: [CallKind; CallKind::Any as usize] = [
        CallKind::Create,
        CallKind::Open,
        CallKind::Rename,
        CallKind::Remove,
        CallKind::List,
        CallKind::DirSync,
        CallKind::Lock,
        CallKind::Read,
        CallKind::InPlace,
        CallKind::Write,
        CallKind::Store,
        CallKind::Resize,
        CallKind::Allocate,
        CallKind::Sync,
        CallKind::Map,
        CallKind::Discard,
    ];
}

/// A call that is made to fail.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// The kind of calls to count.
    pub call: CallKind,
    /// The number of the call that fails, counted from the injection: 1 is the next one.
    pub nth: u64,
    /// Whether all later calls fail, too.
    pub sticky: bool,
    /// The error that the failing call returns.
    pub error: FaultError,
}

/// The errors that a disk returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultError {
    /// `EIO`: [`ErrorKind::Io`](base::ErrorKind::Io).
    Io,
    /// `ENOSPC`: [`ErrorKind::Full`](base::ErrorKind::Full).
    Full,
}

impl FaultError {
    #[cold]
    pub(super) fn refuse(self, what: impl fmt::Display) -> Error {
        let errno = match self {
            FaultError::Io => Errno::IO,
            FaultError::Full => Errno::NOSPC,
        };
        Error::io(format_args!("{what} (simulated disk)"), errno.into())
    }
}

#[derive(Default)]
pub(super) struct Faults {
    calls: [u64; CallKind::Any as usize + 1],
    armed: Vec<Fault>,
    hits: u64,
}

impl Faults {
    pub(super) fn inject(&mut self, fault: Fault) {
        assert!(fault.nth > 0, "calls are counted from 1");
        self.armed.push(fault);
    }

    pub(super) fn clear(&mut self) {
        self.armed.clear();
    }

    pub(super) fn calls(&self, kind: CallKind) -> u64 {
        self.calls[kind as usize]
    }

    pub(super) fn hits(&self) -> u64 {
        self.hits
    }

    /// Counts one call of `kind`. Returns the error with which it must fail, if it must.
    pub(super) fn strike(&mut self, kind: CallKind) -> Option<FaultError> {
        self.calls[kind as usize] += 1;
        self.calls[CallKind::Any as usize] += 1;
        let mut struck = None;
        self.armed.retain_mut(|fault| {
            if fault.call != kind && fault.call != CallKind::Any {
                return true;
            }
            if fault.nth > 1 {
                fault.nth -= 1;
                return true;
            }
            struck = struck.or(Some(fault.error));
            fault.sticky
        });
        self.hits += u64::from(struck.is_some());
        struck
    }
}
