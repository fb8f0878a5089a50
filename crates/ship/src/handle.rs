//! The handle of a shipper.

use crate::bucket::Bucket;
use crate::options::Options;
use crate::shipper::Worker;
use crate::source::Source;
use crate::status::{Board, State, Status};
use base::sync::lock;
use base::{Error, ErrorKind, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// Ships a database's commits to a bucket, in a thread of its own, until it is stopped or dropped.
pub struct Shipper {
    source: Arc<dyn Source>,
    board: Arc<Board>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl std::fmt::Debug for Shipper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shipper").field("status", &self.status()).finish_non_exhaustive()
    }
}

impl Shipper {
    pub(crate) fn over(source: Arc<dyn Source>, bucket: Bucket, options: Options) -> Result<Self> {
        let board = Arc::<Board>::default();
        let worker = Worker::new(Arc::clone(&source), bucket, options, Arc::clone(&board))?;
        let ending = Arc::clone(&board);
        let work = move || {
            if catch_unwind(AssertUnwindSafe(|| worker.run())).is_err() {
                // Callers that wait for a commit get the error.
                ending.end(Some(Error::new(ErrorKind::Closed, "the thread that ships has panicked")));
            }
        };
        let thread = Builder::new().name("pando-ship".to_owned()).spawn(work);
        let thread = thread.map_err(|cause| Error::io("start a thread", cause))?;
        Ok(Shipper { source, board, thread: Mutex::new(Some(thread)) })
    }

    /// Waits until the commit with this number, and all before it, are in the bucket. Commits that wait at the same
    /// time share one put.
    ///
    /// # Errors
    /// `Fenced` if another writer has taken the lineage over: the commit is then only in this database. `Closed` if
    /// shipping was stopped; otherwise the error that ended shipping.
    pub fn wait(&self, commit: u64) -> Result<()> {
        self.board.wait(commit, None).map(drop)
    }

    /// Waits as [`Shipper::wait`] does, for at most `time`. Returns `false` if the commit is not in the bucket by then.
    ///
    /// # Errors
    /// As for [`Shipper::wait`].
    pub fn wait_for(&self, commit: u64, time: Duration) -> Result<bool> {
        self.board.wait(commit, Some(Instant::now() + time))
    }

    /// Calls `shipped` once the commit with this number, and all before it, are in the bucket, or, with the error of
    /// [`Shipper::wait`], once it is certain that they never will be. The call is on the thread that ships, or at once
    /// on the caller's thread. `shipped` must not wait.
    pub fn when_shipped(&self, commit: u64, shipped: impl FnOnce(Result<()>) + Send + 'static) {
        self.board.when_shipped(commit, Box::new(shipped));
    }

    /// Returns the progress of shipping.
    #[must_use]
    pub fn status(&self) -> Status {
        self.board.status(self.source.newest().ok())
    }

    /// Returns the error that ended shipping, or `None` if shipping continues.
    pub fn ended(&self) -> Option<Error> {
        self.board.ended()
    }

    /// Ships what is committed, within [`Options::stop_within`], and ends. A second call has no effect.
    ///
    /// # Errors
    /// The error that kept the last commits from the bucket; `Fenced` if another writer has taken over.
    pub fn stop(&self) -> Result<()> {
        self.board.stop();
        self.join()
    }

    /// Stops as [`Shipper::stop`] does, and then records in the bucket that this writer has ended. Another writer can
    /// then take its place without a confirmation. As long as no other writer has, this one can be started again.
    ///
    /// # Errors
    /// As for [`Shipper::stop`].
    pub fn release(&self) -> Result<()> {
        self.board.release();
        self.join()
    }

    /// Stops as [`Shipper::stop`] does, and then records in the bucket that the database was dropped. From then on a
    /// server that restores a bucket leaves the database out, and another one can be shipped under its name. Everything
    /// that was shipped stays in the bucket, and can be restored: see [`Bucket::incarnation`].
    ///
    /// Remove the directory of the database after this call, and only if it succeeds. After an error you can ship the
    /// database again; if the bucket has recorded the drop nevertheless, the database begins a new lineage.
    ///
    /// # Errors
    /// As for [`Shipper::stop`]. The bucket may have recorded the drop, unless the error is `Fenced` or `Mismatch`.
    pub fn drop_database(&self) -> Result<()> {
        self.board.drop_database();
        self.join()
    }

    fn join(&self) -> Result<()> {
        if let Some(thread) = lock(&self.thread).take() {
            // A panic has ended shipping with an error already.
            let _ = thread.join();
        }
        match self.board.ended() {
            Some(error) if self.board.status(None).state != State::Stopped => Err(error),
            _ => Ok(()),
        }
    }
}

impl Drop for Shipper {
    fn drop(&mut self) {
        // Nobody is left to get the error; call `stop` to get it.
        let _ = self.stop();
    }
}
