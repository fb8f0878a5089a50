//! What a store has to do with other processes: they may not have its files, a child may not use it, and readers beside
//! a writer are shown what they may read.

use crate::state::board::Board;
use crate::state::seats::Seat;
use base::sync::lock;
use base::{CheckpointNo, CommitTs, Error, ErrorKind, Result};
use io::Lock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};

/// The locks of a store on its lock file and on its data file.
pub(crate) type Locks = [Box<dyn Lock>; 2];

/// See the module.
#[derive(Debug)]
pub(crate) struct Processes {
    /// The process that opened the store: a child that was forked since is refused everything.
    origin: io::Origin,
    /// Released by closing, so that the directory can be opened again although snapshots still live.
    locks: Mutex<Option<Locks>>,
    /// Where readers in other processes see how far they may read. `None`: there are no such readers.
    board: Option<Board>,
    /// What has another process keep what this store reads ([`crate::beside`]). Empty: no other process can write it.
    /// Here, so that snapshots find what they read also after closing.
    seat: OnceLock<Mutex<Seat>>,
    is_beside: AtomicBool,
}

impl Processes {
    /// Those of a store that this process opens now.
    pub fn new(locks: Option<Locks>, board: Option<Board>, seat: Option<Seat>) -> Processes {
        let is_beside = AtomicBool::new(seat.is_some());
        let seat = seat.map_or_else(OnceLock::new, |seat| OnceLock::from(Mutex::new(seat)));
        Processes { origin: io::Origin::here(), locks: Mutex::new(locks), board, seat, is_beside }
    }

    /// Whether this is a child process that inherited the store.
    #[inline]
    pub fn is_forked(&self) -> bool {
        self.origin.is_forked()
    }

    /// Refuses a child process that inherited the store. A load and a comparison, of what never changes.
    #[inline]
    pub fn check(&self) -> Result<()> {
        if self.is_forked() { Err(forked()) } else { Ok(()) }
    }

    /// Lets a writer open the directory, which looks at `seat`. A store does so once.
    pub fn give_up_locks_for(&self, seat: Seat) {
        let is_first = self.seat.set(Mutex::new(seat)).is_ok();
        assert!(is_first, "a store stands by once");
        self.unlock();
    }

    /// Another process writes what this store reads.
    pub fn note_writer(&self) {
        self.is_beside.store(true, Ordering::SeqCst);
    }

    /// Lets others open the directory.
    pub fn unlock(&self) {
        lock(&self.locks).take();
    }

    /// Whether there may be readers in other processes.
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

    /// The same, and the newest checkpoint.
    pub fn show_checkpoint(&self, visible: CommitTs, checkpoint: CheckpointNo) {
        if let Some(board) = &self.board {
            board.show_checkpoint(visible, checkpoint);
        }
    }

    /// The seat beside a writer, if this store has one.
    pub fn seat(&self) -> Option<MutexGuard<'_, Seat>> {
        self.seat.get().map(lock)
    }

    /// Whether another process writes what this store reads, or has written it since the store was opened.
    pub fn is_beside(&self) -> bool {
        self.is_beside.load(Ordering::SeqCst)
    }

    /// Refuses what a store cannot do that reads beside another process.
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
