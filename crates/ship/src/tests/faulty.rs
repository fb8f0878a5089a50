//! An object store that loses requests and responses, delivers requests late and twice, and, on request, ignores the
//! condition of puts. Everything follows from a seed.

use crate::bucket::Bucket;
use async_trait::async_trait;
use base::env::Random;
use base::sync::lock;
use futures_util::stream::BoxStream;
use futures_util::{FutureExt as _, StreamExt as _};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt as _, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// A request that is still under way.
#[derive(Debug)]
enum Late {
    Put(Path, PutPayload, PutMode),
    Delete(Path),
}

/// Something that happens elsewhere.
type Meanwhile = Box<dyn FnOnce() + Send>;

pub struct Faulty {
    pub inner: Arc<InMemory>,
    state: Mutex<(Random, Vec<Late>)>,
    /// Of a hundred requests, so many go wrong.
    faults: AtomicU64,
    /// Every request fails.
    away: AtomicBool,
    /// Whether puts are unconditional: all of them, or all but those that probe for it.
    ignores_conditions: AtomicBool,
    fools_probes: AtomicBool,
    /// Happens before the next put whose name contains the word, and before such a get.
    before_put: Mutex<Option<(&'static str, Meanwhile)>>,
    before_get: Mutex<Option<(&'static str, Meanwhile)>>,
}

impl fmt::Debug for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Faulty")
    }
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a faulty store")
    }
}

fn lost() -> Error {
    Error::Generic { store: "faulty", source: "the request timed out".into() }
}

impl Faulty {
    pub fn new(seed: u64) -> Arc<Self> {
        Arc::new(Faulty {
            inner: Arc::new(InMemory::new()),
            state: Mutex::new((Random::seeded(seed), Vec::new())),
            faults: AtomicU64::new(0),
            away: AtomicBool::new(false),
            ignores_conditions: AtomicBool::new(false),
            fools_probes: AtomicBool::new(false),
            before_put: Mutex::default(),
            before_get: Mutex::default(),
        })
    }

    pub fn set_faults(&self, of_hundred: u64) {
        self.faults.store(of_hundred, Ordering::SeqCst);
    }

    pub fn set_away(&self, away: bool) {
        self.away.store(away, Ordering::SeqCst);
    }

    pub fn ignore_conditions(&self, fools_probes: bool) {
        self.ignores_conditions.store(true, Ordering::SeqCst);
        self.fools_probes.store(fools_probes, Ordering::SeqCst);
    }

    /// Lets `meanwhile` happen before the next put whose name contains `word`.
    pub fn before_put(&self, word: &'static str, meanwhile: impl FnOnce() + Send + 'static) {
        *lock(&self.before_put) = Some((word, Box::new(meanwhile)));
    }

    /// Lets `meanwhile` happen before the next get whose name contains `word`.
    pub fn before_get(&self, word: &'static str, meanwhile: impl FnOnce() + Send + 'static) {
        *lock(&self.before_get) = Some((word, Box::new(meanwhile)));
    }

    pub fn bucket(self: &Arc<Self>) -> Bucket {
        Bucket::over(Arc::clone(self) as _, "prefix", "mem://prefix").unwrap()
    }

    /// The names and bytes of all objects.
    pub fn objects(&self) -> Vec<(Path, bytes::Bytes)> {
        let paths: Vec<_> = now(self.inner.list(None).map(|meta| meta.unwrap().location).collect());
        paths.into_iter().map(|path| (path.clone(), self.read(&path))).collect()
    }

    pub fn read(&self, path: &Path) -> bytes::Bytes {
        now(async { self.inner.get(path).await.unwrap().bytes().await.unwrap() })
    }

    pub fn write(&self, path: &Path, bytes: &[u8]) {
        now(self.inner.put(path, bytes.to_vec().into())).unwrap();
    }

    pub fn remove(&self, path: &Path) {
        now(self.inner.delete(path)).unwrap();
    }

    /// Deletes the objects of the first database of the name, as the docs say it.
    pub fn remove_first_incarnation(&self) {
        let objects = self.objects().into_iter().map(|(path, _)| path);
        objects.filter(|path| !path.as_ref().contains("incarnations")).for_each(|path| self.remove(&path));
    }

    /// Delivers every request that is under way, in a random order.
    pub fn deliver_all(&self) {
        let late = {
            let (random, late) = &mut *lock(&self.state);
            random.shuffle(late);
            std::mem::take(late)
        };
        late.into_iter().for_each(|late| self.deliver(late));
    }

    /// Delivers some of the requests that are under way, and says what becomes of the next one: a number below 100.
    fn roll(&self) -> u64 {
        let (due, roll) = {
            let (random, late) = &mut *lock(&self.state);
            let mut due = Vec::new();
            while !late.is_empty() && random.chance(1, 8) {
                let at = random.below(late.len() as u64) as usize;
                due.push(late.swap_remove(at));
            }
            (due, random.below(100))
        };
        due.into_iter().for_each(|late| self.deliver(late));
        roll
    }

    fn deliver(&self, late: Late) {
        match late {
            Late::Put(path, payload, mode) => {
                let mode = self.effective(&path, mode);
                let _ = now(self.inner.put_opts(&path, payload, PutOptions::from(mode)));
            }
            Late::Delete(path) => {
                let _ = now(self.inner.delete(&path));
            }
        }
    }

    fn effective(&self, path: &Path, mode: PutMode) -> PutMode {
        let spared = path.as_ref().contains("probe") && !self.fools_probes.load(Ordering::SeqCst);
        let fools = self.ignores_conditions.load(Ordering::SeqCst) && !spared;
        if fools { PutMode::Overwrite } else { mode }
    }

    fn later(&self, late: Late) {
        lock(&self.state).1.push(late);
    }

    fn check_away(&self) -> Result<()> {
        if self.away.load(Ordering::SeqCst) { Err(lost()) } else { Ok(()) }
    }
}

/// Lets happen what is to happen before a request for `path`.
fn meet(before: &Mutex<Option<(&'static str, Meanwhile)>>, path: &Path) {
    let meanwhile = lock(before).take_if(|(word, _)| path.as_ref().contains(*word));
    if let Some((_, meanwhile)) = meanwhile {
        // Its own requests wait, which a thread that waits for a request cannot.
        std::thread::spawn(meanwhile).join().expect("it does not panic");
    }
}

/// The result of a future of the store in memory, which never waits.
fn now<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("the store in memory never waits")
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.check_away()?;
        meet(&self.before_put, path);
        let (roll, faults) = (self.roll(), self.faults.load(Ordering::SeqCst));
        let mode = options.mode.clone();
        let late = || Late::Put(path.clone(), payload.clone(), mode.clone());
        match roll {
            // The request is lost, or arrives later.
            _ if roll < faults / 4 => return Err(lost()),
            _ if roll < faults / 2 => {
                self.later(late());
                return Err(lost());
            }
            // It arrives twice, now and later.
            _ if roll < faults * 3 / 4 => self.later(late()),
            _ => {}
        }
        let mode = self.effective(path, options.mode);
        let done = self.inner.put_opts(path, payload.clone(), PutOptions::from(mode)).await;
        // The answer is lost.
        if (faults * 3 / 4..faults).contains(&roll) { Err(lost()) } else { done }
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        Err(Error::NotImplemented { operation: "this".into(), implementer: "Faulty".into() })
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        self.check_away()?;
        meet(&self.before_get, path);
        if self.roll() < self.faults.load(Ordering::SeqCst) / 8 {
            return Err(lost());
        }
        self.inner.get_opts(path, options).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        if self.check_away().is_err() || self.roll() < self.faults.load(Ordering::SeqCst) / 8 {
            return futures_util::stream::once(async { Err(lost()) }).boxed();
        }
        if self.roll() < self.faults.load(Ordering::SeqCst) / 4 {
            let all: Vec<_> = now(paths.collect());
            all.iter().flatten().for_each(|path| self.later(Late::Delete(path.clone())));
            return futures_util::stream::iter(all).boxed();
        }
        self.inner.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        if self.check_away().is_err() {
            return futures_util::stream::once(async { Err(lost()) }).boxed();
        }
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.check_away()?;
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        Err(Error::NotImplemented { operation: "this".into(), implementer: "Faulty".into() })
    }
}
