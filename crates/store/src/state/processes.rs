//! The store's relation to other processes: they must not use its files, a forked child must not use it, and readers
//! beside a writer must see only what they may read.

use crate::state::board::Board;
use crate::state::seats::Seat;
use base::sync::lock;
use base::{CheckpointNo, CommitTs, Error, ErrorKind, Result};
use io::Lock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};

/// The locks of a store on its lock file and on its data file.
pub(crate) type Locks = [Box<dyn Lock>; 2];

/// The store's relation to other processes; see the module.
#[derive(Debug)]
pub(crate) struct Processes {
    /// The process that opened the store: a child that was forked since gets an error from every call.
    origin: io::Origin,
    /// The locks. Closing releases them, so that the directory can be opened again although snapshots still live.
    locks: Mutex<Option<Locks>>,
    /// The board for readers in other processes. `None`: there are no such readers.
    board: Option<Board>,
    /// The seat that makes another process keep what this store reads ([`crate::beside`]). Empty: no other process can
    /// write. It is here, so that snapshots find what they read also after closing.
    seat: OnceLock<Mutex<Seat>>,
    is_beside: AtomicBool,
    /// The newest view with pages that the writer may have used again; 0: none.
    lost_through: AtomicU64,
    /// The epoch of the board of the writer that this store follows; 0 before the first.
    epoch: AtomicU64,
}

impl Processes {
    /// Creates the state of a store that this process opens now.
    pub fn new(locks: Option<Locks>, board: Option<Board>, seat: Option<Seat>) -> Processes {
        let is_beside = AtomicBool::new(seat.is_some());
        let seat = seat.map_or_else(OnceLock::new, |seat| OnceLock::from(Mutex::new(seat)));
        let (origin, locks, lost_through) = (io::Origin::here(), Mutex::new(locks), AtomicU64::new(0));
        Processes { origin, locks, board, seat, is_beside, lost_through, epoch: AtomicU64::new(0) }
    }

    /// Returns whether this is a child process that inherited the store.
    #[inline]
    pub fn is_forked(&self) -> bool {
        self.origin.is_forked()
    }

    /// Returns an error in a child process that inherited the store. It costs a load and a comparison of constant data.
    #[inline]
    pub fn check(&self) -> Result<()> {
        if self.is_forked() { Err(forked()) } else { Ok(()) }
    }

    /// Lets a writer that respects `seat` open the directory. A store calls this at most once.
    pub fn give_up_locks_for(&self, seat: Seat) {
        let is_first = self.seat.set(Mutex::new(seat)).is_ok();
        assert!(is_first, "a store stands by once");
        self.unlock();
    }

    /// Notes that another process writes what this store reads.
    pub fn note_writer(&self) {
        self.is_beside.store(true, Ordering::SeqCst);
    }

    /// Releases the locks, so that others can open the directory.
    pub fn unlock(&self) {
        lock(&self.locks).take();
    }

    /// Returns whether there may be readers in other processes.
    pub fn may_be_read(&self) -> bool {
        self.board.is_some()
    }

    /// Shows readers in other processes what they may read. The caller holds the commit lock.
    #[inline]
    pub fn show(&self, visible: CommitTs) {
        if let Some(board) = &self.board {
            board.show(visible);
        }
    }

    /// Stops showing commits to readers in other processes. The caller holds the commit lock.
    pub fn end_showing(&self) {
        if let Some(board) = &self.board {
            board.end();
        }
    }

    /// Shows readers in other processes what they may read, and the newest checkpoint. The caller holds the commit
    /// lock.
    pub fn show_checkpoint(&self, visible: CommitTs, checkpoint: CheckpointNo) {
        if let Some(board) = &self.board {
            board.show_checkpoint(visible, checkpoint);
        }
    }

    /// Returns whether the writer that this store follows has taken its seat away.
    pub fn has_lost_seat(&self) -> bool {
        self.seat().is_some_and(|seat| seat.is_lost())
    }

    /// Notes that the writer may have used pages of the views up to number `view` again, and of no later one.
    pub fn note_lost_through(&self, view: u64) {
        self.lost_through.store(view, Ordering::SeqCst);
    }

    /// Returns the newest view with pages that the writer may have used again; 0: none.
    pub fn lost_through(&self) -> u64 {
        self.lost_through.load(Ordering::SeqCst)
    }

    /// Notes the epoch of the writer that this store follows from now on.
    pub fn note_epoch(&self, epoch: u64) {
        self.epoch.store(epoch, Ordering::SeqCst);
    }

    /// Returns the epoch of the writer that this store follows; 0 before the first.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::SeqCst)
    }

    /// Returns the seat with which this store follows a writer, if it has one.
    pub fn seat(&self) -> Option<MutexGuard<'_, Seat>> {
        self.seat.get().map(lock)
    }

    /// Returns whether another process writes what this store reads, or has written it since the store was opened.
    pub fn is_beside(&self) -> bool {
        self.is_beside.load(Ordering::SeqCst)
    }

    /// Returns an error for operations that are impossible while another process writes the database.
    pub fn check_not_beside(&self, what: &str, call: &str) -> Result<()> {
        if !self.is_beside() {
            return Ok(());
        }
        let message = format!(
            "{what} is not possible while another process has the database open for writing; call {call} in \
             that process, or try again after it has closed the database"
        );
        Err(Error::new(ErrorKind::Locked, message))
    }
}

#[cold]
fn forked() -> Error {
    let message = "the database was opened before this process was forked, and its threads run only in the \
                   parent; open the database in the child after the parent has closed it";
    Error::new(ErrorKind::Forked, message)
}
