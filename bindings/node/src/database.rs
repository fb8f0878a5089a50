//! Databases and their tables.

use crate::packed;
use crate::pool::Urgency;
use crate::promise::{now, promise, promise_with};
use crate::reader::{NativeRange, Reader};
use crate::transaction::Tx;
use binding::{Begun, Failure, Handle, Held, Kind, Outcome, Source, options, upkeep};
use napi::bindgen_prelude::{BufferSlice, Object};
use napi::{Env, Result};
use napi_derive::napi;
use pando::{ErrorKind, TableOptions, TransactionOptions};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// An open database.
#[napi]
pub struct NativeDatabase {
    handle: Arc<Handle>,
}

/// A table.
#[napi]
pub struct NativeTable {
    pub(crate) table: pando::Table,
}

/// Opens the database in `path`, or one in memory.
#[napi]
pub fn open<'e>(
    env: &'e Env,
    path: Option<String>,
    create: bool,
    given: HashMap<String, String>,
) -> Result<Object<'e>> {
    promise(env, move || {
        let mut builder = pando::Database::builder();
        for (name, value) in &given {
            builder = options::set(builder, name, value)?;
        }
        let db = match path.map(PathBuf::from) {
            Some(path) if create => builder.create(path)?,
            Some(path) => builder.open(path)?,
            None => builder.in_memory()?,
        };
        Ok(NativeDatabase { handle: Handle::new(db) })
    })
}

/// Restores a backup of a folder into the directory `target`.
#[napi]
pub fn restore<'e>(
    env: &'e Env,
    folder: String,
    target: String,
    at: Option<String>,
    progress: &NativeProgress,
) -> Result<Object<'e>> {
    let state = Arc::clone(&progress.state);
    promise(env, move || {
        let (folder, target) = (Path::new(&folder), Path::new(&target));
        Ok(upkeep::restore(folder, at.as_deref(), target, &mut |done, expected| state.set(done, expected))?
            as f64)
    })
}

/// How far long work is. The thread of the work writes it, and JavaScript reads it from time to time.
#[napi]
#[derive(Default)]
pub struct NativeProgress {
    state: Arc<Numbers>,
}

#[derive(Default)]
struct Numbers {
    done: AtomicU64,
    expected: AtomicU64,
    is_ended: AtomicBool,
}

impl Numbers {
    /// Notes the numbers. Returns whether the work goes on.
    fn set(&self, done: u64, expected: u64) -> bool {
        self.done.store(done, Ordering::SeqCst);
        self.expected.store(expected, Ordering::SeqCst);
        !self.is_ended.load(Ordering::SeqCst)
    }
}

#[napi]
impl NativeProgress {
    #[napi(constructor)]
    pub fn new() -> Self {
        Self::default()
    }

    #[napi(getter)]
    pub fn done(&self) -> f64 {
        self.state.done.load(Ordering::SeqCst) as f64
    }

    #[napi(getter)]
    pub fn expected(&self) -> f64 {
        self.state.expected.load(Ordering::SeqCst) as f64
    }

    /// Ends the work the next time that it reports.
    #[napi]
    pub fn end(&self) {
        self.state.is_ended.store(true, Ordering::SeqCst);
    }
}

impl NativeDatabase {
    /// The database, for objects that outlive this one.
    pub(crate) fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }
}

#[napi]
impl NativeDatabase {
    /// Runs `work` on a thread of the pool.
    pub(crate) fn run<'e, T: napi::bindgen_prelude::ToNapiValue + Send + 'static>(
        &self,
        env: &'e Env,
        work: impl FnOnce(&pando::Database) -> Outcome<T> + Send + 'static,
    ) -> Result<Object<'e>> {
        let handle = Arc::clone(&self.handle);
        promise(env, move || work(handle.open()?))
    }

    #[napi]
    pub fn close<'e>(&self, env: &'e Env) -> Result<Object<'e>> {
        let handle = Arc::clone(&self.handle);
        // The other threads may all have calls that wait for a transaction of SQL.
        promise_with(env, Urgency::Urgent, move || handle.close())
    }

    #[napi(getter)]
    pub fn is_closed(&self) -> bool {
        self.handle.is_closed()
    }

    #[napi]
    pub fn checkpoint<'e>(&self, env: &'e Env) -> Result<Object<'e>> {
        self.run(env, |db| Ok(db.checkpoint()?))
    }

    #[napi]
    pub fn sync<'e>(&self, env: &'e Env) -> Result<Object<'e>> {
        self.run(env, |db| Ok(db.sync()?))
    }

    #[napi]
    pub fn catch_up<'e>(&self, env: &'e Env) -> Result<Object<'e>> {
        self.run(env, |db| Ok(db.catch_up()?))
    }

    #[napi]
    pub fn check<'e>(&self, env: &'e Env, progress: &NativeProgress) -> Result<Object<'e>> {
        let state = Arc::clone(&progress.state);
        self.run(env, move |db| upkeep::check(db, &mut |done, expected| state.set(done, expected)))
    }

    /// Returns the length of the data file before and after.
    #[napi]
    pub fn compact<'e>(&self, env: &'e Env, progress: &NativeProgress) -> Result<Object<'e>> {
        let state = Arc::clone(&progress.state);
        self.run(env, move |db| {
            let done = upkeep::compact(db, &mut |done, expected| state.set(done, expected))?;
            Ok(vec![done.data_file_bytes_before as f64, done.data_file_bytes as f64])
        })
    }

    #[napi]
    pub fn stats<'e>(&self, env: &'e Env) -> Result<Object<'e>> {
        self.run(env, |db| {
            let numbers = db.stats()?.numbers();
            Ok(numbers.into_iter().map(|(name, number)| (name, number as f64)).collect::<HashMap<_, _>>())
        })
    }

    #[napi]
    pub fn backup<'e>(
        &self,
        env: &'e Env,
        folder: String,
        incremental: bool,
        progress: &NativeProgress,
    ) -> Result<Object<'e>> {
        let state = Arc::clone(&progress.state);
        self.run(env, move |db| {
            let mut go_on = |done, expected| state.set(done, expected);
            upkeep::back_up(db, Path::new(&folder), incremental, &mut go_on)
        })
    }

    #[napi]
    pub fn tables<'e>(&self, env: &'e Env) -> Result<Object<'e>> {
        self.run(env, |db| Ok(db.tables()?.iter().map(|table| table.name().to_owned()).collect::<Vec<_>>()))
    }

    #[napi]
    pub fn drop_table<'e>(&self, env: &'e Env, name: String) -> Result<Object<'e>> {
        self.run(env, move |db| Ok(db.drop_table(&name)?))
    }

    #[napi]
    pub fn rename_table<'e>(&self, env: &'e Env, name: String, new_name: String) -> Result<Object<'e>> {
        self.run(env, move |db| Ok(db.rename_table(&name, &new_name).map(drop)?))
    }

    #[napi]
    pub fn set_layout<'e>(&self, env: &'e Env, name: String, layout: String) -> Result<Object<'e>> {
        self.run(env, move |db| Ok(db.set_layout(&name, layout.parse()?)?))
    }

    #[napi]
    pub fn set_compression<'e>(&self, env: &'e Env, name: String, compression: String) -> Result<Object<'e>> {
        self.run(env, move |db| Ok(db.set_compression(&name, compression.parse()?)?))
    }

    /// Without a number entries never expire.
    #[napi]
    pub fn set_ttl<'e>(&self, env: &'e Env, name: String, ttl_ms: Option<f64>) -> Result<Object<'e>> {
        self.run(env, move |db| Ok(db.set_ttl(&name, ttl_ms.map(ttl).transpose()?)?))
    }

    #[napi]
    pub fn oldest_change<'e>(&self, env: &'e Env) -> Result<Object<'e>> {
        self.run(env, |db| Ok(db.oldest_change()? as f64))
    }

    #[napi(getter)]
    pub fn is_read_only(&self) -> Result<bool> {
        now(|| Ok(self.handle.open()?.is_read_only()))
    }

    /// Opens a table; without options as it is, or as a new one by default.
    #[napi]
    pub fn table<'e>(
        &self,
        env: &'e Env,
        name: String,
        create: bool,
        given: Option<NativeTableOptions>,
    ) -> Result<Object<'e>> {
        self.run(env, move |db| {
            let table = match (create, given) {
                (false, _) => db.table(&name)?.ok_or_else(|| missing(&name))?,
                (true, None) => db.ensure_table(&name)?,
                (true, Some(given)) => db.ensure_table_with(&name, &given.read()?)?,
            };
            Ok(NativeTable { table })
        })
    }

    /// What reads the newest state.
    #[napi]
    pub fn reader(&self) -> Reader {
        Reader::new(Source::Database(Arc::clone(&self.handle)))
    }

    /// What reads this moment.
    #[napi]
    pub fn snapshot(&self) -> Result<Reader> {
        now(|| Ok(Reader::new(Source::Snapshot(Held::take(&self.handle)?))))
    }

    /// Applies packed writes in a transaction of their own.
    #[napi]
    pub fn write<'e>(
        &self,
        env: &'e Env,
        table: &NativeTable,
        packed: BufferSlice<'_>,
        durability: Option<String>,
    ) -> Result<Object<'e>> {
        let (table, packed) = (table.table.clone(), packed.to_vec());
        self.run(env, move |db| {
            let (options, writes) = (transaction_options(db, durability, None)?, packed::writes(&packed)?);
            Ok(db.write_with(&options, |tx| packed::apply(tx, &table, &writes))?)
        })
    }

    /// Sets a key whose entry expires after so many milliseconds, in a transaction of its own.
    #[napi]
    pub fn put_with_ttl<'e>(
        &self,
        env: &'e Env,
        table: &NativeTable,
        key: BufferSlice<'_>,
        value: BufferSlice<'_>,
        ttl_ms: f64,
        durability: Option<String>,
    ) -> Result<Object<'e>> {
        let (table, key, value) = (table.table.clone(), key.to_vec(), value.to_vec());
        self.run(env, move |db| {
            let (options, ttl) = (transaction_options(db, durability, None)?, ttl(ttl_ms)?);
            Ok(db.write_with(&options, |tx| tx.put_with_ttl(&table, &key, &value, ttl))?)
        })
    }

    /// Lets the entry of a key expire after so many milliseconds, or never, in a transaction of its own. Returns
    /// whether the key exists.
    #[napi]
    pub fn set_expiry<'e>(
        &self,
        env: &'e Env,
        table: &NativeTable,
        key: BufferSlice<'_>,
        ttl_ms: Option<f64>,
        durability: Option<String>,
    ) -> Result<Object<'e>> {
        let (table, key) = (table.table.clone(), key.to_vec());
        self.run(env, move |db| {
            let options = transaction_options(db, durability, None)?;
            let ttl = ttl_ms.map(ttl).transpose()?;
            Ok(db.write_with(&options, |tx| tx.set_expiry(&table, &key, ttl))?)
        })
    }

    /// Deletes the keys of a range, in a transaction of its own.
    #[napi]
    pub fn delete_range<'e>(
        &self,
        env: &'e Env,
        table: &NativeTable,
        range: NativeRange<'_>,
        durability: Option<String>,
        isolation: Option<String>,
    ) -> Result<Object<'e>> {
        let (table, span) = (table.table.clone(), range.span());
        self.run(env, move |db| {
            let options = transaction_options(db, durability, isolation)?;
            Ok(db.write_with(&options, |tx| tx.delete_range(&table, span.clone()))?)
        })
    }

    /// Begins a transaction.
    #[napi]
    pub fn begin<'e>(
        &self,
        env: &'e Env,
        durability: Option<String>,
        isolation: Option<String>,
    ) -> Result<Object<'e>> {
        let handle = Arc::clone(&self.handle);
        promise(env, move || {
            let options = transaction_options(handle.open()?, durability, isolation)?;
            Ok(Tx::new(Begun::begin(&handle, &options)?))
        })
    }
}

fn transaction_options(
    db: &pando::Database,
    durability: Option<String>,
    isolation: Option<String>,
) -> Outcome<TransactionOptions> {
    let mut given = db.transaction_options();
    if let Some(word) = durability {
        given.durability = options::durability(&word)?;
    }
    if let Some(word) = isolation {
        given.isolation = options::isolation(&word)?;
    }
    Ok(given)
}

/// That there is no such table.
#[cold]
pub(crate) fn missing(name: &str) -> Failure {
    Failure::new(Kind::Engine(ErrorKind::Missing), format!("there is no table {name:?}"))
}

/// A time to live in milliseconds.
pub(crate) fn ttl(ms: f64) -> Outcome<Duration> {
    Duration::try_from_secs_f64(ms / 1e3).map_err(|_| Failure::invalid(format!("the TTL is {ms} ms")))
}

/// The options of a table.
#[napi(object)]
pub struct NativeTableOptions {
    pub layout: Option<String>,
    pub compression: Option<String>,
    pub ttl_ms: Option<f64>,
    pub ttl_by_key: Option<bool>,
}

impl NativeTableOptions {
    pub(crate) fn read(self) -> Outcome<TableOptions> {
        let mut options = TableOptions::default();
        if let Some(word) = self.layout {
            options.layout = word.parse()?;
        }
        if let Some(word) = self.compression {
            options.compression = word.parse()?;
        }
        options.ttl = self.ttl_ms.map(ttl).transpose()?;
        options.ttl_by_key = self.ttl_by_key.unwrap_or(false);
        Ok(options)
    }
}

#[napi]
impl NativeTable {
    #[napi(getter)]
    pub fn name(&self) -> String {
        self.table.name().to_owned()
    }

    #[napi(getter)]
    pub fn layout(&self) -> String {
        self.table.layout().to_string()
    }
}
