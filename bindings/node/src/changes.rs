//! Changes: every commit in order, and named consumers of them.
//!
//! A wait takes no thread: a commit, or the end of the database, rings a bell, which settles a promise.

use crate::bytes::Bytes;
use crate::database::NativeDatabase;
use crate::promise::{now, promise};
use binding::{Failure, Handle, Outcome};
use napi::bindgen_prelude::{BufferSlice, Object};
use napi::{Env, JsDeferred, Result};
use napi_derive::napi;
use pando::changes::TableChange;
use pando::{Change, Changes, ChangesOptions, Consumer, Operation};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

/// An operation of a commit.
#[napi(object, object_from_js = false)]
pub struct NativeOperation {
    pub kind: &'static str,
    pub table: String,
    pub key: Option<Bytes>,
    pub value: Option<Bytes>,
    pub end: Option<Bytes>,
    pub former: Option<String>,
}

/// One commit.
#[napi(object, object_from_js = false)]
pub struct NativeChange {
    pub commit_number: f64,
    pub time_ms: Option<f64>,
    pub operations: Vec<NativeOperation>,
}

fn operation(kind: &'static str, table: &str) -> NativeOperation {
    NativeOperation { kind, table: table.to_owned(), key: None, value: None, end: None, former: None }
}

fn read_operation(read: &Operation<'_>) -> Outcome<NativeOperation> {
    let bytes = |bytes: &[u8]| Some(Bytes(bytes.to_vec()));
    Ok(match read {
        Operation::Table(TableChange::Created(table)) => operation("createTable", table.name()),
        Operation::Table(TableChange::Altered(table)) => operation("alterTable", table.name()),
        Operation::Table(TableChange::Dropped { name, .. }) => operation("dropTable", name),
        Operation::Table(TableChange::Renamed { from, table }) => {
            NativeOperation { former: Some(from.to_string()), ..operation("renameTable", table.name()) }
        }
        Operation::Put { table, key, value } => NativeOperation {
            key: bytes(key),
            value: Some(Bytes(value.to_vec()?)),
            ..operation("put", table.name())
        },
        Operation::Delete { table, key } => {
            NativeOperation { key: bytes(key), ..operation("del", table.name()) }
        }
        Operation::DeleteRange { table, start, end } => NativeOperation {
            key: bytes(start),
            end: end.and_then(bytes),
            ..operation("deleteRange", table.name())
        },
    })
}

fn read_change(change: &Change<'_>) -> Outcome<NativeChange> {
    let mut read = Vec::new();
    let mut operations = change.operations()?;
    while let Some(operation) = operations.next()? {
        read.push(read_operation(&operation)?);
    }
    Ok(NativeChange {
        commit_number: change.commit_number() as f64,
        time_ms: change.time_ms().map(|time_ms| time_ms as f64),
        operations: read,
    })
}

/// A promise that waits for the next change.
type Waiting = JsDeferred<(), fn(Env) -> Result<()>>;

/// Settles the promise of the call that waits.
#[derive(Default)]
struct Bell(Mutex<Option<Waiting>>);

impl Bell {
    /// Replaces the promise, and fulfils the one before.
    fn set(&self, waits: Option<Waiting>) {
        let before = std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), waits);
        if let Some(before) = before {
            before.resolve(|_| Ok(()));
        }
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.set(None);
    }
}

/// A reader of changes.
#[napi]
pub struct NativeChanges {
    inner: Arc<Mutex<Option<Changes>>>,
    bell: Arc<Bell>,
}

impl NativeChanges {
    fn new(changes: Changes) -> Self {
        NativeChanges { inner: Arc::new(Mutex::new(Some(changes))), bell: Arc::default() }
    }
}

#[napi]
impl NativeChanges {
    /// Returns the next change, if there is one now.
    #[napi]
    pub fn next<'e>(&self, env: &'e Env) -> Result<Object<'e>> {
        let inner = Arc::clone(&self.inner);
        promise(env, move || {
            let mut inner = inner.try_lock().map_err(|_| Failure::in_use("the reader of changes"))?;
            let changes = inner.as_mut().ok_or_else(|| Failure::closed("the reader of changes"))?;
            let Some(change) = changes.next()? else { return Ok(None) };
            let read = read_change(&change);
            if read.is_err() {
                // The next call reads it again.
                changes.repeat();
            }
            read.map(Some)
        })
    }

    /// Returns a promise that is fulfilled when `next` has something to return: a change, an error or the end.
    #[napi]
    pub fn ready<'e>(&self, env: &'e Env) -> Result<Object<'e>> {
        let (deferred, promise) = env.create_deferred::<(), fn(Env) -> Result<()>>()?;
        self.bell.set(Some(deferred));
        let waker = Waker::from(Arc::clone(&self.bell));
        let is_ready = match self.inner.try_lock() {
            Ok(inner) => inner.as_ref().is_none_or(|changes| changes.is_ready(&waker)),
            Err(_) => true,
        };
        if is_ready {
            self.bell.set(None);
        }
        Ok(promise)
    }

    /// Fulfils the promise of `ready` that nobody waits for any longer: it would keep the event loop alive.
    #[napi]
    pub fn rest(&self) {
        self.bell.set(None);
    }

    /// Ends the reader, and fulfils the promise of a call that waits.
    #[napi]
    pub fn close(&self) -> Result<()> {
        let taken = self.inner.try_lock().ok().and_then(|mut inner| inner.take());
        self.bell.set(None);
        now(|| {
            drop(taken);
            Ok(())
        })
    }
}

/// A named consumer.
#[napi]
pub struct NativeConsumer {
    handle: Arc<Handle>,
    inner: Arc<Mutex<Option<Consumer>>>,
}

/// The largest integer up to which a number of JavaScript is exact.
const MOST_EXACT: f64 = 9_007_199_254_740_991.0;

/// The number of a commit.
fn commit_of(number: f64) -> Outcome<u64> {
    match number {
        0.0..=MOST_EXACT if number.fract() == 0.0 => Ok(number as u64),
        _ => Err(Failure::invalid(format!("{number} is not the number of a commit"))),
    }
}

fn options(tables: &[String], prefix: Option<&[u8]>) -> ChangesOptions {
    let mut options = ChangesOptions::default();
    for table in tables {
        options = options.table(table);
    }
    if let Some(prefix) = prefix { options.prefix(prefix) } else { options }
}

fn with<T>(
    handle: &Handle,
    inner: &Mutex<Option<Consumer>>,
    work: impl FnOnce(&mut Consumer) -> pando::Result<T>,
) -> Outcome<T> {
    handle.open()?;
    let mut inner = inner.try_lock().map_err(|_| Failure::in_use("the consumer"))?;
    Ok(work(inner.as_mut().ok_or_else(|| Failure::closed("the consumer"))?)?)
}

#[napi]
impl NativeConsumer {
    /// The last commit that was acknowledged.
    #[napi]
    pub fn position(&self) -> Result<f64> {
        now(|| with(&self.handle, &self.inner, |consumer| Ok(consumer.position() as f64)))
    }

    #[napi]
    pub fn changes<'e>(
        &self,
        env: &'e Env,
        tables: Vec<String>,
        prefix: Option<BufferSlice<'_>>,
    ) -> Result<Object<'e>> {
        let (handle, inner) = (Arc::clone(&self.handle), Arc::clone(&self.inner));
        let options = options(&tables, prefix.as_deref());
        promise(env, move || {
            with(&handle, &inner, |consumer| consumer.changes_with(options)).map(NativeChanges::new)
        })
    }

    #[napi]
    pub fn acknowledge<'e>(&self, env: &'e Env, commit: f64) -> Result<Object<'e>> {
        let (handle, inner) = (Arc::clone(&self.handle), Arc::clone(&self.inner));
        promise(env, move || {
            let commit = commit_of(commit)?;
            with(&handle, &inner, |consumer| consumer.acknowledge(commit))
        })
    }

    #[napi]
    pub fn close(&self) -> Result<()> {
        now(|| {
            drop(self.inner.try_lock().map_err(|_| Failure::in_use("the consumer"))?.take());
            Ok(())
        })
    }
}

/// What is known of a consumer that need not be open.
#[napi(object, object_from_js = false)]
pub struct NativeConsumerInfo {
    pub name: String,
    pub position: f64,
    pub is_lost: bool,
}

#[napi]
impl NativeDatabase {
    #[napi]
    pub fn changes<'e>(
        &self,
        env: &'e Env,
        after: f64,
        tables: Vec<String>,
        prefix: Option<BufferSlice<'_>>,
    ) -> Result<Object<'e>> {
        let options = options(&tables, prefix.as_deref());
        self.run(env, move |db| {
            let after = commit_of(after)?;
            Ok(NativeChanges::new(db.changes_with(options.after(after))?))
        })
    }

    #[napi]
    pub fn consumer<'e>(&self, env: &'e Env, name: String) -> Result<Object<'e>> {
        let handle = Arc::clone(self.handle());
        self.run(env, move |db| {
            Ok(NativeConsumer { inner: Arc::new(Mutex::new(Some(db.consumer(&name)?))), handle })
        })
    }

    #[napi]
    pub fn consumers<'e>(&self, env: &'e Env) -> Result<Object<'e>> {
        self.run(env, |db| {
            let known = db.consumers()?.into_iter().map(|one| NativeConsumerInfo {
                name: one.name,
                position: one.position as f64,
                is_lost: one.is_lost,
            });
            Ok(known.collect::<Vec<_>>())
        })
    }

    #[napi]
    pub fn drop_consumer<'e>(&self, env: &'e Env, name: String) -> Result<Object<'e>> {
        self.run(env, move |db| Ok(db.drop_consumer(&name)?))
    }
}
