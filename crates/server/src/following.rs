//! The server's interface to the code with which a replica follows another server, or a bucket.
//!
//! A replica has a thread for each database. It calls [`Source::copy`] for a database that it does not have, or whose
//! next commit is no longer available, and [`Source::resume`] for one that it has. Then it calls [`Feed::run`], which
//! applies commits until the server ends or an error occurs; after an error the thread resumes.

use pando::{Database, Result};
use std::fmt::Debug;
use std::path::Path;
use std::time::Duration;

/// The databases that a replica follows.
pub trait Source: Debug + Send + Sync {
    /// Returns the address that was given to the server.
    fn address(&self) -> &str;

    /// Returns the address of the server that accepts writes, without a path; `None` if it is not known.
    fn primary(&self) -> Option<&str>;

    /// Returns for how long a feed that follows may get no message from the source. After that, a database is no longer
    /// taken for one that has everything.
    fn quiet(&self) -> Duration {
        Duration::from_secs(3)
    }

    /// Returns the names of the databases that can be followed.
    ///
    /// # Errors
    /// If the source cannot be reached.
    fn databases(&self) -> Result<Vec<String>>;

    /// Returns the names of the databases that a replica has to take over when it becomes the primary, as the source
    /// has them now: nothing is remembered from an earlier call. Those that `is_taken` names need not be looked at
    /// again. Returns no names if the source cannot fence its writer; then the databases that the replica has are all,
    /// and the source need not be there any more.
    ///
    /// # Errors
    /// If the source cannot be reached.
    fn to_take_over(&self, is_taken: &dyn Fn(&str) -> bool) -> Result<Vec<String>>;

    /// Copies the database `name` into the directory `dir`, which does not exist, and returns a feed that continues
    /// after the copy.
    ///
    /// # Errors
    /// If the source cannot be reached or has no such database. What is in `dir` then is removed by the caller.
    fn copy(&self, name: &str, dir: &Path, watch: &dyn Watch) -> Result<Box<dyn Feed>>;

    /// Returns a feed that continues after the last commit of `db`, which is in the directory `dir`.
    ///
    /// # Errors
    /// `TooOld` if the source no longer has the commit after the last one. `Mismatch` if `db` is not a copy of the
    /// database that the source has under this name.
    fn resume(&self, name: &str, dir: &Path, db: &Database) -> Result<Box<dyn Feed>>;

    /// Applies what the source has, and makes `db` the database in whose place it was, as far as the source can do so.
    /// Afterwards `db` may make commits of its own.
    ///
    /// # Errors
    /// If something of it fails. The replica then goes on as one.
    fn take_over(&self, name: &str, dir: &Path, db: &Database) -> Result<TakeOver>;
}

/// The result of [`Source::take_over`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakeOver {
    /// The database has taken over.
    Done,
    /// The source has dropped the database, and still has everything that the copy has. The copy is removed, because a
    /// database whose drop was acknowledged must not come back.
    WasDropped,
    /// The copy cannot continue: the source has another database under this name, or no longer has the next commit. The
    /// database is copied anew, and is to take over after that.
    IsOutdated,
}

/// The commits of a database, as its source makes them.
pub trait Feed: Send {
    /// Applies commits to `db` until `watch` is over.
    ///
    /// # Errors
    /// `TooOld` if the next commit is no longer available: the database must be copied again. After any other error the
    /// caller resumes a while later.
    fn run(&mut self, db: &Database, watch: &dyn Watch) -> Result<()>;
}

/// What a feed looks at, and what it reports.
pub trait Watch: Send + Sync {
    /// Returns the id of the replica. It belongs to the directory, and is random, so that a source can tell replicas
    /// apart.
    fn replica(&self) -> &str;

    /// Returns whether the feed is to end.
    fn is_over(&self) -> bool;

    /// Waits for `time`, or until the feed is to end.
    fn pause(&self, time: Duration);

    /// Notes that the source was reached, and has this newest commit.
    fn reached(&self, newest_commit: u64);
}
