//! A bucket: a folder of an object store, called from threads that may wait.
//!
//! 1. An object is created by a conditional put, or not at all. Only parts, whose names are unique, are put
//!    without a condition.
//! 2. The outcome of a put can be unknown: a request or its answer was lost. [`Bucket::create`] then reads the object
//!    and compares it with what it wanted to put. While the outcome is unknown it returns an error, and its caller
//!    has to come back with the same bytes.
//! 3. A listing is a hint: it may be late. What it shows is read before it counts, and what it does not show may exist.

use crate::connect::{self, Absent};
use crate::folder::Unsynced;
use base::{Error, ErrorKind, Result};
use bytes::Bytes;
use futures_util::future::join_all;
use futures_util::{StreamExt as _, TryStreamExt as _};
use object_store::path::Path;
use object_store::{GetOptions, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, PutPayload};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::runtime::{Builder, Runtime};

/// No object is longer. The longest are segments, of 64 MiB, and the manifest of a base: it has 56 bytes for each part
/// of 8 MiB, so this is that of a base of 37 TiB.
const MOST_OBJECT_BYTES: u64 = 256 << 20;

/// A folder of an object store, which holds one lineage.
///
/// ```
/// # fn main() -> pando::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// let bucket = pando_ship::Bucket::connect(dir.path().to_str().unwrap())?;
/// assert!(bucket.within("orders")?.to_string().ends_with("/orders"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Bucket {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    shown: String,
    /// Which database of its name it is for; `None` for the newest one. See `incarnation`.
    incarnation: Option<Incarnation>,
    runtime: Arc<Runtime>,
    puts: Arc<AtomicU64>,
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bucket").field("url", &self.shown).finish_non_exhaustive()
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

/// One database of a name.
#[derive(Clone, Debug)]
struct Incarnation {
    number: u64,
    /// The prefix of the first one, and how messages show it.
    home: Path,
    shown: String,
}

/// What became of an object that was to be created.
#[derive(Debug)]
pub(crate) enum Created {
    /// It exists, with these bytes.
    Ours,
    /// It exists with other bytes.
    Theirs(Bytes),
}

impl Bucket {
    /// Connects to the bucket at `url`: `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX`, `az://CONTAINER/PREFIX`,
    /// `file:///FOLDER`, or the path of a folder. The credentials come from the environment variables that the store's
    /// own tools read, such as `AWS_ACCESS_KEY_ID`. The call sends no request; it creates a folder that does not exist.
    ///
    /// The folder must stay the same directory from then on, and is not created again. While it is missing or another
    /// directory is in its place, as after its disk was unmounted, each request fails with `Io`.
    ///
    /// # Errors
    /// `Invalid` if the address has another form, or if an environment variable has an invalid value.
    pub fn connect(url: &str) -> Result<Self> {
        Self::connect_with(url, Absent::Create)
    }

    /// Connects to the bucket at `url` as [`Bucket::connect`] does, but never creates a folder. Use it to read a
    /// bucket.
    ///
    /// # Errors
    /// Those of [`Bucket::connect`], and `Missing` if the folder does not exist.
    pub fn connect_existing(url: &str) -> Result<Self> {
        Self::connect_with(url, Absent::Refuse)
    }

    fn connect_with(url: &str, absent: Absent) -> Result<Self> {
        let (store, prefix) = connect::open(url, absent)?;
        Self::over(store, &prefix, url.trim_end_matches('/'))
    }

    /// Returns a bucket in `store`, below `prefix`. Messages of errors call the bucket `shown`.
    ///
    /// # Errors
    /// `Invalid` if `prefix` is not a valid path; `Io` if the thread for requests cannot be started.
    pub fn over(store: Arc<dyn ObjectStore>, prefix: &str, shown: &str) -> Result<Self> {
        let runtime =
            Builder::new_multi_thread().worker_threads(1).thread_name("pando-bucket").enable_all().build();
        let runtime =
            runtime.map_err(|cause| Error::io("start the thread for requests to the bucket", cause))?;
        let (prefix, shown) = (path(prefix)?, shown.to_owned());
        let (incarnation, runtime) = (None, Arc::new(runtime));
        Ok(Bucket { store, prefix, shown, incarnation, runtime, puts: Arc::default() })
    }

    /// Returns the folder `name` of this bucket as a bucket of its own. Use one for each of several databases.
    ///
    /// # Errors
    /// `Invalid` if `name` is not a valid path.
    pub fn within(&self, name: &str) -> Result<Self> {
        let prefix = path(&format!("{}/{name}", self.prefix))?;
        let shown = format!("{}/{name}", self.shown);
        Ok(Bucket { prefix, shown, incarnation: None, puts: Arc::default(), ..self.clone() })
    }

    /// Returns the number of the database that the bucket is for; `None` for the newest one of its name.
    pub(crate) fn own_incarnation(&self) -> Option<u64> {
        self.incarnation.as_ref().map(|incarnation| incarnation.number)
    }

    /// Returns the bucket of all databases of this name.
    pub(crate) fn of_name(&self) -> Self {
        let (prefix, shown) = self.home();
        let (prefix, shown) = (prefix.clone(), shown.to_owned());
        Bucket { prefix, shown, incarnation: None, ..self.clone() }
    }

    /// Returns where a name's databases are: the prefix of the first one, and how messages show it.
    fn home(&self) -> (&Path, &str) {
        match &self.incarnation {
            Some(incarnation) => (&incarnation.home, &incarnation.shown),
            None => (&self.prefix, &self.shown),
        }
    }

    /// Returns the bucket of one database of this name, with this folder below [`Bucket::home`]. It counts the same
    /// puts.
    pub(crate) fn of_incarnation(&self, number: u64, folder: Option<&str>) -> Self {
        let (home, shown) = self.home();
        let incarnation = Some(Incarnation { number, home: home.clone(), shown: shown.to_owned() });
        let (prefix, shown) = match folder {
            None => (home.clone(), shown.to_owned()),
            Some(folder) => {
                let folder = Path::from(folder);
                let parts = home.parts().chain(folder.parts());
                let prefix = Path::from_iter(parts.map(|part| part.as_ref().to_owned()));
                (prefix, format!("{shown}/{folder}"))
            }
        };
        Bucket { prefix, shown, incarnation, ..self.clone() }
    }

    /// Returns how many puts were sent.
    pub(crate) fn puts(&self) -> u64 {
        self.puts.load(Ordering::SeqCst)
    }

    /// Creates the object `name`; see the module's second rule.
    pub(crate) fn create(&self, name: &str, bytes: &Bytes) -> Result<Created> {
        let refused = match self.put_with(name, bytes, PutMode::Create) {
            Ok(()) => return Ok(Created::Ours),
            // It may be there, and may be lost with the power.
            Err(refused) if Unsynced::is_in(&refused) => return Err(self.failed(name, "create", refused)),
            Err(refused) => refused,
        };
        match (self.get(name)?, refused) {
            (Some(found), _) if found == bytes => Ok(Created::Ours),
            (Some(found), _) => Ok(Created::Theirs(found)),
            (None, refused) => Err(self.failed(name, "create", refused)),
        }
    }

    /// Puts the object `name`, and replaces one that exists.
    pub(crate) fn put(&self, name: &str, bytes: &Bytes) -> Result<()> {
        let done = self.put_with(name, bytes, PutMode::Overwrite);
        done.map_err(|error| self.failed(name, "write", error))
    }

    fn put_with(&self, name: &str, bytes: &Bytes, mode: PutMode) -> object_store::Result<()> {
        self.puts.fetch_add(1, Ordering::SeqCst);
        let (path, payload) = (self.path(name), PutPayload::from(bytes.clone()));
        let options = PutOptions::from(mode);
        self.runtime.block_on(self.store.put_opts(&path, payload, options)).map(drop)
    }

    /// Returns the object `name`; `None` if there is none.
    pub(crate) fn get(&self, name: &str) -> Result<Option<Bytes>> {
        self.runtime.block_on(self.fetch(name))
    }

    /// Returns the object of each name, `None` if there is none, with all requests on their way at once.
    pub(crate) fn get_all(&self, names: &[String]) -> Vec<Result<Option<Bytes>>> {
        self.runtime.block_on(join_all(names.iter().map(|name| self.fetch(name))))
    }

    async fn fetch(&self, name: &str) -> Result<Option<Bytes>> {
        let path = self.path(name);
        let read = async {
            let found = self.store.get_opts(&path, GetOptions::default()).await?;
            // The store reserves memory for all of it.
            match found.meta.size {
                0..=MOST_OBJECT_BYTES => found.bytes().await.map(Ok),
                bytes => Ok(Err(bytes)),
            }
        };
        match read.await {
            Ok(Ok(bytes)) => Ok(Some(bytes)),
            Ok(Err(bytes)) => {
                let message =
                    format!("{}/{name} has {bytes} bytes, and no object of Pando has so many", self.shown);
                Err(Error::corruption(message))
            }
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.failed(name, "read", error)),
        }
    }

    /// Returns the first `bytes` bytes of the object `name`, which has at least that many; `None` if there is no such
    /// object.
    pub(crate) fn get_start(&self, name: &str, bytes: u64) -> Result<Option<Bytes>> {
        let path = self.path(name);
        match self.runtime.block_on(self.store.get_range(&path, 0..bytes)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.failed(name, "read", error)),
        }
    }

    /// Returns the object `name`.
    ///
    /// # Errors
    /// `Corruption` if there is none.
    pub(crate) fn expect(&self, name: &str) -> Result<Bytes> {
        let missing = || Error::corruption(format!("{}/{name} is missing", self.shown));
        self.get(name)?.ok_or_else(missing)
    }

    /// Returns whether the object `name` exists.
    pub(crate) fn exists(&self, name: &str) -> Result<bool> {
        match self.runtime.block_on(self.store.head(&self.path(name))) {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(self.failed(name, "look for", error)),
        }
    }

    /// Deletes the object `name`, if there is one.
    pub(crate) fn delete(&self, name: &str) -> Result<()> {
        match self.runtime.block_on(self.store.delete(&self.path(name))) {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failed(name, "delete", error)),
        }
    }

    /// Lists the names in `folder`, sorted; only those after `after`, if it is given.
    pub(crate) fn list(&self, folder: &str, after: Option<&str>) -> Result<Vec<String>> {
        let prefix = self.path(folder);
        let listed = match after {
            Some(after) => self.store.list_with_offset(Some(&prefix), &self.path(after)),
            None => self.store.list(Some(&prefix)),
        };
        let names = listed.map_ok(|meta| self.name_of(&meta.location)).boxed();
        let names: object_store::Result<Vec<_>> = self.runtime.block_on(names.try_collect());
        let mut names = names.map_err(|error| self.failed(folder, "list", error))?;
        names.sort_unstable();
        Ok(names)
    }

    /// Lists what lies directly in `folder`, or in the bucket: folders, by name.
    pub(crate) fn folders(&self, folder: &str) -> Result<Vec<String>> {
        let prefix = self.path(folder);
        let listed = self.runtime.block_on(self.store.list_with_delimiter(Some(&prefix)));
        let listed = listed.map_err(|error| self.failed(folder, "list", error))?;
        Ok(listed.common_prefixes.iter().map(|path| self.name_of(path)).collect())
    }

    fn path(&self, name: &str) -> Path {
        Path::from_iter(
            self.prefix.parts().chain(Path::from(name).parts()).map(|part| part.as_ref().to_owned()),
        )
    }

    fn name_of(&self, path: &Path) -> String {
        let own = self.prefix.as_ref();
        path.as_ref().strip_prefix(own).unwrap_or(path.as_ref()).trim_start_matches('/').to_owned()
    }

    fn failed(&self, name: &str, what: &str, error: object_store::Error) -> Error {
        use object_store::Error as Cause;
        let kind = match &error {
            Cause::NotImplemented { .. } | Cause::NotSupported { .. } | Cause::InvalidPath { .. } => {
                ErrorKind::Invalid
            }
            _ => ErrorKind::Io,
        };
        Error::new(kind, format!("cannot {what} {}/{name}", self.shown)).caused_by(error)
    }
}

fn path(text: &str) -> Result<Path> {
    let refused =
        |error| Error::invalid(format!("{text:?} is not a valid path in a bucket")).caused_by(error);
    Path::parse(text.trim_matches('/')).map_err(refused)
}
