//! A folder as a store, which stays the folder that was opened.
//!
//! `LocalFileSystem` creates missing folders at each put. If the disk of a bucket is unmounted, it would go on in a new
//! folder on the disk below, where nothing that was shipped before exists. Therefore:
//! 1. The root must be the directory that was opened, with the same device and inode. It is never created again.
//! 2. The root is compared before an operation, so that a put creates nothing elsewhere, and again after it, so that
//!    no put that went elsewhere meanwhile counts, and no object is missing only because the root is.
//! 3. An object has its name before the directory is synced. If that fails, the object can be read, and is lost with
//!    the power nevertheless. So a put that fails with [`Unsynced`] does not count, whatever is read afterwards; and
//!    after a put that failed, no put counts before the directories of that object were synced.

use async_trait::async_trait;
use base::sync::lock;
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// The folder is missing, or another one is in its place.
#[derive(Debug)]
struct Replaced {
    root: PathBuf,
}

impl fmt::Display for Replaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let root = self.root.display();
        write!(f, "the folder {root} is not the one that was opened: was its disk unmounted?")
    }
}

impl std::error::Error for Replaced {}

/// A directory could not be synced.
#[derive(Debug)]
pub(crate) struct Unsynced {
    dir: PathBuf,
    cause: io::Error,
}

impl Unsynced {
    /// Returns whether a put that failed with `error` may have left an object that is not durable.
    pub fn is_in(error: &Error) -> bool {
        matches!(error, Error::Generic { source, .. } if source.is::<Unsynced>())
    }
}

impl fmt::Display for Unsynced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the directory {} cannot be synced", self.dir.display())
    }
}

impl std::error::Error for Unsynced {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.cause)
    }
}

/// The root directory, and which one it is.
#[derive(Clone, Debug)]
struct Root {
    path: PathBuf,
    /// The device and the inode.
    identity: (u64, u64),
}

impl Root {
    fn open(path: PathBuf) -> io::Result<Self> {
        let identity = Self::identity(&path)?;
        Ok(Root { path, identity })
    }

    fn identity(path: &std::path::Path) -> io::Result<(u64, u64)> {
        let found = std::fs::metadata(path)?;
        Ok((found.dev(), found.ino()))
    }

    /// Checks that the directory is the one that was opened.
    fn check(&self) -> Result<()> {
        let source: Box<dyn std::error::Error + Send + Sync> = match Self::identity(&self.path) {
            Ok(found) if found == self.identity => return Ok(()),
            Ok(_) => Box::new(Replaced { root: self.path.clone() }),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Box::new(Replaced { root: self.path.clone() })
            }
            Err(error) => Box::new(error),
        };
        Err(Error::Generic { store: "folder", source })
    }

    /// Returns `items`, with a check before and after them.
    fn around<T: Send + 'static>(
        &self,
        items: BoxStream<'static, Result<T>>,
    ) -> BoxStream<'static, Result<T>> {
        if let Err(error) = self.check() {
            return stream::once(async { Err(error) }).boxed();
        }
        let root = self.clone();
        let after =
            stream::once(async move { root.check().err().map(Err) }).filter_map(|found| async { found });
        items.chain(after).boxed()
    }
}

/// The store of a folder.
#[derive(Clone, Debug)]
pub(crate) struct Folder {
    files: Arc<LocalFileSystem>,
    root: Arc<Root>,
    /// Directories that may have entries that are not durable: those of objects whose puts failed.
    unsynced: Arc<Mutex<BTreeSet<PathBuf>>>,
    sync: fn(&std::path::Path) -> io::Result<()>,
}

fn sync(dir: &std::path::Path) -> io::Result<()> {
    std::fs::File::open(dir)?.sync_all()
}

impl Folder {
    /// Opens the folder at `path`, which exists. Every object is synced, and so is its name.
    pub fn open(path: &str) -> Result<Self> {
        let failed = |source| Error::Generic { store: "folder", source: Box::new(source) };
        // The files are below the same path: a link in it may lead elsewhere later.
        let root = Root::open(std::fs::canonicalize(path).map_err(failed)?).map_err(failed)?;
        let files = LocalFileSystem::new_with_prefix(&root.path)?.with_fsync(true);
        Ok(Folder { files: Arc::new(files), root: Arc::new(root), unsynced: Arc::default(), sync })
    }

    /// Syncs the directories of `location`, whose put failed, and those that remain from earlier puts.
    fn sync_after(&self, location: Option<&Path>) -> Result<()> {
        let mut unsynced = lock(&self.unsynced);
        if let Some(location) = location {
            let path = self.files.path_to_filesystem(location)?;
            let dirs = path.ancestors().skip(1);
            unsynced.extend(dirs.take_while(|dir| dir.starts_with(&self.root.path)).map(PathBuf::from));
        }
        while let Some(dir) = unsynced.first() {
            match (self.sync)(dir) {
                // The put may have failed before it was made.
                Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
                    let source = Box::new(Unsynced { dir: dir.clone(), cause });
                    return Err(Error::Generic { store: "folder", source });
                }
                _ => drop(unsynced.pop_first()),
            }
        }
        Ok(())
    }
}

impl fmt::Display for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.files.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for Folder {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        self.root.check()?;
        let put = self.files.put_opts(location, payload, opts).await;
        self.root.check()?;
        self.sync_after(put.is_err().then_some(location))?;
        put
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.root.check()?;
        self.files.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let read = self.files.get_opts(location, options).await;
        self.root.check()?;
        read
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.root.around(self.files.delete_stream(locations))
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.root.around(self.files.list(prefix))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.root.around(self.files.list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let listed = self.files.list_with_delimiter(prefix).await;
        self.root.check()?;
        listed
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.root.check()?;
        let copied = self.files.copy_opts(from, to, options).await;
        self.root.check()?;
        copied
    }
}

#[cfg(test)]
mod tests {
    use super::Folder;
    use crate::bucket::{Bucket, Created};
    use bytes::Bytes;
    use std::fs;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_folder_that_is_gone_or_another_one_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let (root, aside) = (dir.path().join("disk/bucket"), dir.path().join("aside"));
        let bucket = Bucket::connect(root.to_str().unwrap()).unwrap();
        let object = Bytes::from_static(b"object");
        assert!(matches!(bucket.create("log/1", &object).unwrap(), Created::Ours));
        let refused = |bucket: &Bucket| {
            let said = [
                bucket.create("log/2", &object).unwrap_err(),
                bucket.put("parts/1", &object).unwrap_err(),
                bucket.get("log/1").unwrap_err(),
                bucket.get_start("log/1", 2).unwrap_err(),
                bucket.exists("log/3").unwrap_err(),
                bucket.list("log", None).unwrap_err(),
                bucket.list("log", Some("log/0")).unwrap_err(),
                bucket.folders("").unwrap_err(),
                bucket.delete("log/1").unwrap_err(),
            ];
            for error in said {
                let text = error.to_string();
                assert!(
                    error.kind() == base::ErrorKind::Io && text.contains("was its disk unmounted?"),
                    "{text}"
                );
            }
        };
        // As after the end of a mount: the path is gone, or is an empty directory.
        fs::rename(dir.path().join("disk"), &aside).unwrap();
        refused(&bucket);
        assert!(!dir.path().join("disk").exists(), "nothing was created");
        fs::create_dir_all(&root).unwrap();
        refused(&bucket);
        assert_eq!(fs::read_dir(&root).unwrap().count(), 0);
        fs::remove_dir_all(dir.path().join("disk")).unwrap();
        fs::rename(&aside, dir.path().join("disk")).unwrap();
        assert!(matches!(bucket.create("log/2", &object).unwrap(), Created::Ours));
        assert_eq!(bucket.list("log", None).unwrap(), ["log/1", "log/2"]);
        bucket.delete("log/1").unwrap();
    }

    static CANNOT_SYNC: AtomicBool = AtomicBool::new(false);

    /// An object that can be read after a failure is not durable before its directories were synced.
    #[test]
    fn a_put_whose_directory_was_not_synced_does_not_count() {
        let dir = tempfile::tempdir().unwrap();
        let mut folder = Folder::open(dir.path().to_str().unwrap()).unwrap();
        folder.sync = |dir| match CANNOT_SYNC.load(Ordering::SeqCst) {
            true => Err(std::io::Error::from_raw_os_error(5)),
            false => super::sync(dir),
        };
        let bucket = Bucket::over(Arc::new(folder), "shop", "mem://").unwrap();
        let object = Bytes::from_static(b"object");
        let refused = |name: &str| {
            let error = bucket.create(name, &object).unwrap_err();
            let text = error.to_string();
            assert!(error.kind() == base::ErrorKind::Io && text.contains("cannot be synced"), "{text}");
            assert!(bucket.exists(name).unwrap(), "it can be read");
        };
        assert!(matches!(bucket.create("log/1", &object).unwrap(), Created::Ours));
        CANNOT_SYNC.store(true, Ordering::SeqCst);
        // As after a put that failed when the object had its name.
        refused("log/1");
        refused("log/1");
        // Its own directory is synced by the put, and the one that failed before is not.
        refused("base/1");
        CANNOT_SYNC.store(false, Ordering::SeqCst);
        for name in ["log/1", "base/1", "log/2"] {
            assert!(matches!(bucket.create(name, &object).unwrap(), Created::Ours), "{name}");
        }
        let other = Bytes::from_static(b"other");
        assert!(matches!(bucket.create("log/1", &other).unwrap(), Created::Theirs(found) if found == object));
    }

    /// Its bytes have no blocks, and reading it would reserve memory for all of them.
    #[test]
    fn an_object_that_is_longer_than_any_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let bucket = Bucket::connect(dir.path().to_str().unwrap()).unwrap();
        let file = fs::File::create(dir.path().join("lineage")).unwrap();
        file.set_len((256 << 20) + 1).unwrap();
        let error = bucket.get("lineage").unwrap_err();
        let text = error.to_string();
        assert!(
            error.kind() == base::ErrorKind::Corruption && text.contains("/lineage has 268435457"),
            "{text}"
        );
        file.set_len(100).unwrap();
        assert_eq!(bucket.get("lineage").unwrap().unwrap().len(), 100);
    }

    #[test]
    fn a_folder_that_must_exist_is_not_created() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("missing");
        for url in [missing.to_str().unwrap().to_owned(), format!("file://{}", missing.display())] {
            let error = Bucket::connect_existing(&url).unwrap_err();
            assert_eq!(error.kind(), base::ErrorKind::Missing, "{error}");
            assert!(error.to_string().contains("there is no such folder"), "{error}");
            assert!(!missing.exists());
        }
        fs::create_dir(&missing).unwrap();
        Bucket::connect_existing(missing.to_str().unwrap()).unwrap();
    }
}
