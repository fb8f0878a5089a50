//! The threads of a replica: one that finds databases, and one for each database that follows it.
//!
//! 1. At the start, every database that the directory lacks is copied before a request is accepted. A database that it
//!    has is served at once, however old it is, and also if the source cannot be reached. With a default database to
//!    serve, the server starts although another one cannot be copied, and tries again.
//! 2. A thread holds its database open while it follows. After an error it pauses, for longer each time, and resumes.
//! 3. If the next commit is no longer available, the database is copied anew beside the old one, which is served until
//!    the copy is complete.
//! 4. The file `replica` in the directory says that its databases follow. Without it they could be served as a
//!    primary's by mistake, and with a commit of their own they could follow no more.

use crate::data::databases::{DEFAULT_DATABASE, Databases};
use crate::data::end::End;
use crate::data::held::Data;
use crate::data::inside::remove;
use crate::data::names::is_name;
use crate::data::promotion::take_over_all;
use crate::data::replicas::{Progress, Replicas};
use crate::data::v0::EntityTable;
use crate::following::{Feed, Source};
use crate::wire::digits::{hex, random};
use crate::wire::problem::{Answer, Problem};
use pando::{Error, ErrorKind, Result};
use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The file that marks the directory of a replica. Its first line is the address that is followed, its second line the
/// id of the replica.
const MARKER: &str = "replica";
/// The pauses after errors: doubled each time, up to the second.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// The pause between looks for new databases.
const LOOK: Duration = Duration::from_secs(2);

/// Feeds that begin after a copy that was just made, by name.
pub type Begun = Vec<(String, Box<dyn Feed>)>;

/// The threads.
pub struct Followers {
    data: Arc<Data>,
    entity: Arc<EntityTable>,
    replicas: Arc<Replicas>,
    end: End,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// The databases that have a thread.
    followed: Mutex<BTreeSet<String>>,
    /// Held while the server becomes a primary.
    promoting: Mutex<()>,
}

impl std::fmt::Debug for Followers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Followers").field("replicas", &self.replicas).finish_non_exhaustive()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Returns the address that the databases of `dir` follow; `None` if they are a primary's.
///
/// # Errors
/// `Io` if the file that says so cannot be read.
pub fn followed_by(dir: &Path) -> Result<Option<String>> {
    let lines = marker(dir)?;
    Ok(lines.map(|lines| lines.lines().next().unwrap_or_default().trim().to_owned()))
}

fn marker(dir: &Path) -> Result<Option<String>> {
    let path = dir.join(MARKER);
    match fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io(format!("read {}", path.display()), error)),
    }
}

fn sync(dir: &Path) -> std::io::Result<()> {
    fs::File::open(dir)?.sync_all()
}

/// Marks `dir` as the directory of a replica. Returns the id of the replica, which it keeps as long as the directory.
///
/// # Errors
/// `Io` if the file that says so cannot be written.
pub fn mark(dir: &Path, address: &str) -> Result<String> {
    let path = dir.join(MARKER);
    let id = match marker(dir)?.as_deref().and_then(|lines| lines.lines().nth(1)) {
        Some(id) => id.to_owned(),
        None => {
            let mut bytes = [0; 8];
            random(&mut bytes)?;
            hex(&bytes)
        }
    };
    let written = fs::File::create(&path).and_then(|mut file| {
        writeln!(file, "{address}\n{id}")?;
        file.sync_all()?;
        sync(dir)
    });
    written.map_err(|error| Error::io(format!("write {}", path.display()), error))?;
    Ok(id)
}

/// Removes the mark of a replica.
pub fn unmark(dir: &Path) -> Result<()> {
    let removed = match fs::remove_file(dir.join(MARKER)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        done => done,
    };
    removed
        .and_then(|()| sync(dir))
        .map_err(|error| Error::io(format!("remove {}", dir.join(MARKER).display()), error))
}

/// Checks that the directory is used as what it is, and marks it if it becomes a replica's. Returns the state of the
/// replica that follows `source`.
///
/// # Errors
/// `Mismatch` if a replica's directory is to be a primary's, or the other way.
pub fn check_role(
    databases: &Databases,
    dir: &Path,
    source: Option<Arc<dyn Source>>,
) -> Result<Option<Replicas>> {
    let shown = dir.display();
    match (followed_by(dir)?, source) {
        (None, None) => Ok(None),
        (Some(_), Some(source)) => Ok(Some(Replicas::new(mark(dir, source.address())?, source))),
        (Some(address), None) => {
            let message = format!(
                "{shown} is a replica of {address}: serve it with --follow {address}, or make it a primary \
                 with `pando promote {shown}`"
            );
            Err(Error::new(ErrorKind::Mismatch, message))
        }
        (None, Some(source)) => {
            if databases.names().map_err(Problem::into_error)?.is_empty() {
                return Ok(Some(Replicas::new(mark(dir, source.address())?, source)));
            }
            let message = "it has databases of its own, which cannot follow: name a new or empty directory";
            Err(Error::new(ErrorKind::Mismatch, format!("{shown}: {message}")))
        }
    }
}

/// Copies the databases that the directory lacks.
///
/// # Errors
/// Those of the source, unless there is a default database to serve.
pub fn copy_missing(databases: &Databases, replicas: &Replicas) -> Result<Begun> {
    let has_default = databases.path(DEFAULT_DATABASE).is_dir();
    let mut begun = Vec::new();
    let names = match names(replicas) {
        Err(error) if has_default => {
            tracing::error!(%error, "the source cannot be reached; what is here is served");
            return Ok(begun);
        }
        names => names?,
    };
    for name in names {
        if !databases.path(&name).is_dir() {
            let progress = replicas.progress(&name);
            match copy_new(databases, replicas, &name, &progress) {
                Ok(feed) => begun.push((name, feed)),
                Err(error) if has_default => {
                    progress.failed(&error);
                    let message = "the replica serves the others, and tries again";
                    tracing::error!(%error, database = %name, message);
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(begun)
}

/// Returns the names that the source has, and that a database can have.
fn names(replicas: &Replicas) -> Result<Vec<String>> {
    let mut names = replicas.source.databases()?;
    names.retain(|name| is_name(name));
    Ok(names)
}

/// Copies a database beside the one that may exist.
pub fn copy(
    databases: &Databases,
    replicas: &Replicas,
    name: &str,
    progress: &Progress,
) -> Result<Box<dyn Feed>> {
    let path = databases.copying(name)?;
    progress.copies();
    let copied = replicas.source.copy(name, &path, progress);
    match copied {
        Ok(feed) => {
            tracing::info!(database = %name, "the database was copied");
            Ok(feed)
        }
        Err(error) => {
            if path.exists() {
                remove(&path)?;
            }
            Err(error.within(format!("copying the database {name}")))
        }
    }
}

/// Copies a database that the directory lacks.
pub fn copy_new(
    databases: &Databases,
    replicas: &Replicas,
    name: &str,
    progress: &Progress,
) -> Result<Box<dyn Feed>> {
    let feed = copy(databases, replicas, name, progress)?;
    databases.replace(name).map_err(Problem::into_error)?;
    progress.copied();
    Ok(feed)
}

/// Puts the complete copy of the database `name` in the place of the one that is there. Waits for requests that use the
/// old one, as long as `goes_on` returns `true` after each wait. Returns `false` if it gave up. `entity` uses the
/// default database, and is detached meanwhile.
pub fn exchange(
    databases: &Databases,
    entity: Option<&EntityTable>,
    name: &str,
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<bool> {
    let entity = entity.filter(|_| name == DEFAULT_DATABASE);
    let replaced = loop {
        if let Some(entity) = entity {
            // Each time: a request that found its table may have attached it again.
            entity.detach();
        }
        match databases.replace(name) {
            Ok(None) if goes_on() => {
                tracing::warn!(database = %name, "requests still use the old copy");
            }
            done => break done,
        }
    };
    if let Some(entity) = entity {
        // Also after an error: whatever is there is served.
        entity.attach(databases.open(name).map_err(Problem::into_error)?)?;
    }
    Ok(replaced.map_err(Problem::into_error)?.is_some())
}

impl Followers {
    /// Starts the threads. `begun` has the feeds of databases that were just copied.
    pub fn start(
        data: Arc<Data>,
        entity: Arc<EntityTable>,
        replicas: Arc<Replicas>,
        begun: Begun,
    ) -> Result<Arc<Self>> {
        let (end, threads, followed) = (End::default(), Mutex::default(), Mutex::default());
        let promoting = Mutex::default();
        let followers = Followers { data, entity, replicas, end, threads, followed, promoting };
        let followers = Arc::new(followers);
        followers.begin(begun)?;
        Ok(followers)
    }

    fn begin(self: &Arc<Self>, begun: Begun) -> Result<()> {
        for (name, feed) in begun {
            self.spawn(&name, Some(feed))?;
        }
        for name in self.data.databases.names().map_err(Problem::into_error)? {
            self.spawn(&name, None)?;
        }
        let this = Arc::clone(self);
        self.thread("pando-replica", move || this.find_databases())
    }

    fn thread(&self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
        let thread = thread::Builder::new().name(name.to_owned()).spawn(work);
        locked(&self.threads).push(thread.map_err(|error| Error::io("start a thread", error))?);
        Ok(())
    }

    /// Starts the thread of a database, if it has none.
    fn spawn(self: &Arc<Self>, name: &str, feed: Option<Box<dyn Feed>>) -> Result<()> {
        if !locked(&self.followed).insert(name.to_owned()) {
            return Ok(());
        }
        let (this, name, progress) = (Arc::clone(self), name.to_owned(), self.replicas.progress(name));
        self.thread("pando-follow", move || this.follow(&name, &progress, feed))
    }

    /// Ends the threads, and waits for them.
    pub fn stop(&self) {
        self.end.set(true);
        loop {
            // A thread that finds a database may start another one meanwhile.
            self.replicas.end();
            let Some(thread) = locked(&self.threads).pop() else { return };
            let _ = thread.join();
        }
    }

    /// Looks for new databases of the source.
    fn find_databases(self: &Arc<Self>) {
        while !self.end.is_over() {
            self.end.pause(LOOK);
            // The threads of databases report a source that cannot be reached.
            for name in names(&self.replicas).unwrap_or_default() {
                if !self.end.is_over()
                    && let Err(error) = self.spawn(&name, None)
                {
                    tracing::error!(%error, database = %name, "the database is not followed");
                }
            }
        }
    }

    /// Follows a database until the end.
    fn follow(&self, name: &str, progress: &Progress, mut feed: Option<Box<dyn Feed>>) {
        let mut pause = PAUSES.0;
        while !self.end.is_over() {
            let before = self.applied(name);
            let Err(error) = self.follow_once(name, progress, &mut feed) else { continue };
            feed = None;
            if progress.failed(&error) {
                tracing::warn!(%error, database = %name, "the replica does not follow; it tries again");
            }
            pause = if self.applied(name) > before { PAUSES.0 } else { (pause * 2).min(PAUSES.1) };
            self.end.pause(pause);
        }
    }

    fn applied(&self, name: &str) -> Option<u64> {
        let open = self.data.databases.get_open(name)?;
        Some(open.db.snapshot().ok()?.commit_number())
    }

    fn follow_once(&self, name: &str, progress: &Progress, feed: &mut Option<Box<dyn Feed>>) -> Result<()> {
        let (databases, source) = (&self.data.databases, &self.replicas.source);
        let path = databases.path(name);
        if feed.is_none() && !path.is_dir() {
            *feed = Some(copy_new(databases, &self.replicas, name, progress)?);
        }
        let open = databases.open(name).map_err(Problem::into_error)?;
        let is_empty = open.db.snapshot()?.commit_number() == 0;
        let mut follow = || -> Result<()> {
            let mut feed = match feed.take() {
                Some(feed) => feed,
                // The default database was created because the source had none.
                None if is_empty => return Err(Error::new(ErrorKind::TooOld, "the database is empty")),
                None => source.resume(name, &path, &open.db)?,
            };
            feed.run(&open.db, progress)
        };
        match follow() {
            Err(error) if error.kind() == ErrorKind::TooOld => {
                tracing::warn!(%error, database = %name, "the database is copied anew");
                drop(open);
                *feed = Some(self.copy_anew(name, progress)?);
                Ok(())
            }
            done => done,
        }
    }

    /// Replaces the database by a new copy.
    fn copy_anew(&self, name: &str, progress: &Progress) -> Result<Box<dyn Feed>> {
        let databases = &self.data.databases;
        let feed = copy(databases, &self.replicas, name, progress)?;
        if !exchange(databases, Some(&self.entity), name, &mut || !self.end.is_over())? {
            return Err(Error::new(ErrorKind::Closed, "the server ends"));
        }
        progress.copied();
        Ok(feed)
    }

    /// Makes the server a primary: every database of the source is here, has what the source has, takes over as far as
    /// the source can do so, and accepts writes. Returns the names and last commits. A server that is a primary already
    /// stays one.
    ///
    /// # Errors
    /// If a database cannot take over. The server then goes on as a replica.
    pub fn promote(self: &Arc<Self>) -> Answer<Vec<(String, u64)>> {
        let _promoting = locked(&self.promoting);
        let databases = &self.data.databases;
        if self.replicas.is_replica() {
            self.stop();
            let taken = take_over_all(databases, &self.replicas, Some(&self.entity));
            if let Err(error) = taken.and_then(|_| unmark(databases.dir())) {
                self.end.set(false);
                self.replicas.clear();
                locked(&self.followed).clear();
                self.begin(Vec::new())?;
                return Err(error.into());
            }
            self.replicas.promote();
            tracing::info!(ship_mode = databases.ship_mode(), "the server is a primary now");
        }
        // An earlier attempt may have failed here.
        databases.begin_writing()?;
        // The source may have dropped it.
        self.entity.attach(databases.create(DEFAULT_DATABASE, None)?.0)?;
        let last = |(name, open): (String, Arc<crate::data::open::Open>)| {
            Ok((name, open.db.snapshot()?.commit_number()))
        };
        databases.all_open().into_iter().map(last).collect()
    }
}
