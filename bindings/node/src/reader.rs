//! Reads: of the newest state, of a snapshot, or within a transaction.

use crate::bytes::Bytes;
use crate::database::NativeTable;
use crate::packed;
use crate::promise::{now, promise};
use binding::{Direction, Failure, Kind, Outcome, Source, Steps};
use napi::bindgen_prelude::{BufferSlice, Either3, Object, Undefined};
use napi::{Env, Result};
use napi_derive::napi;
use pando::{Expiry, Resident, Span, Table};
use std::ops::Bound;
use std::sync::{Arc, Mutex};
use std::thread;

/// What is read.
#[napi]
pub struct Reader {
    source: Source,
}

impl Reader {
    pub(crate) fn new(source: Source) -> Self {
        Reader { source }
    }

    pub(crate) fn source(&self) -> &Source {
        &self.source
    }
}

/// A copy of a value.
fn get(source: &Source, table: &Table, key: &[u8]) -> Outcome<Option<Vec<u8>>> {
    let mut copy = None;
    source.read(|reads| reads.get_with(table, key, &mut |value| copy = Some(value.to_vec())))?;
    Ok(copy)
}

/// A copy of a value, if memory says what it is. A transaction's thread may hold it for long.
fn get_resident(source: &Source, table: &Table, key: &[u8]) -> Outcome<Resident<Vec<u8>>> {
    match source {
        Source::Database(handle) => Ok(handle.open()?.snapshot()?.get_resident(table, key)?),
        Source::Snapshot(held) => held.read(|snapshot| snapshot.get_resident(table, key)),
        Source::Transaction(_) => Ok(Resident::WouldWait),
    }
}

#[napi]
impl Reader {
    /// Returns a value at once if memory holds it, and otherwise a promise.
    #[napi]
    pub fn get<'e>(
        &self,
        env: &'e Env,
        table: &NativeTable,
        key: BufferSlice<'_>,
    ) -> Result<Either3<Bytes, Undefined, Object<'e>>> {
        match now(|| get_resident(&self.source, &table.table, &key))? {
            Resident::Found(value) => Ok(Either3::A(Bytes(value))),
            Resident::Absent => Ok(Either3::B(())),
            Resident::WouldWait => {
                let (source, table, key) = (self.source.clone(), table.table.clone(), key.to_vec());
                promise(env, move || Ok(get(&source, &table, &key)?.map(Bytes))).map(Either3::C)
            }
        }
    }

    /// Returns a value, and waits for the disk if need be.
    #[napi]
    pub fn get_sync(&self, table: &NativeTable, key: BufferSlice<'_>) -> Result<Option<Bytes>> {
        now(|| {
            loop {
                match get(&self.source, &table.table, &key) {
                    // A thread of the pool reads from the snapshot; it waits for no more than the disk.
                    Err(failure) if failure.kind == Kind::InUse => thread::yield_now(),
                    done => return Ok(done?.map(Bytes)),
                }
            }
        })
    }

    #[napi]
    pub fn has<'e>(&self, env: &'e Env, table: &NativeTable, key: BufferSlice<'_>) -> Result<Object<'e>> {
        let (source, table, key) = (self.source.clone(), table.table.clone(), key.to_vec());
        promise(env, move || source.read(|reads| reads.contains(&table, &key)))
    }

    /// Returns how many milliseconds the entry of a key still lives; infinity if it never expires.
    #[napi]
    pub fn expiry<'e>(&self, env: &'e Env, table: &NativeTable, key: BufferSlice<'_>) -> Result<Object<'e>> {
        let (source, table, key) = (self.source.clone(), table.table.clone(), key.to_vec());
        promise(env, move || {
            let expiry = source.read(|reads| reads.expiry(&table, &key))?;
            Ok(expiry.map(|expiry| match expiry {
                Expiry::Never => f64::INFINITY,
                Expiry::In(ttl) => ttl.as_secs_f64() * 1e3,
            }))
        })
    }

    /// Returns packed values of packed keys.
    #[napi]
    pub fn get_many<'e>(
        &self,
        env: &'e Env,
        table: &NativeTable,
        packed: BufferSlice<'_>,
    ) -> Result<Object<'e>> {
        let (source, table, packed) = (self.source.clone(), table.table.clone(), packed.to_vec());
        promise(env, move || {
            let source = source.at_one_moment()?;
            let mut values = Vec::new();
            for key in packed::keys(&packed)? {
                packed::push_value(&mut values, get(&source, &table, key)?.as_deref())?;
            }
            Ok(Bytes(values))
        })
    }

    /// Returns a byte for each of packed keys: whether it exists, 1 or 0.
    #[napi]
    pub fn has_many<'e>(
        &self,
        env: &'e Env,
        table: &NativeTable,
        packed: BufferSlice<'_>,
    ) -> Result<Object<'e>> {
        let (source, table, packed) = (self.source.clone(), table.table.clone(), packed.to_vec());
        promise(env, move || {
            let source = source.at_one_moment()?;
            let keys = packed::keys(&packed)?;
            let found = keys.iter().map(|key| source.read(|reads| reads.contains(&table, key)).map(u8::from));
            Ok(Bytes(found.collect::<Outcome<_>>()?))
        })
    }

    /// Opens a scan of one moment. With `keys_only` values are neither read nor shown.
    #[napi]
    pub fn scan(&self, table: &NativeTable, range: NativeRange<'_>, keys_only: bool) -> Result<Scan> {
        now(|| {
            let new = if keys_only { Steps::over_keys } else { Steps::new };
            let steps = new(self.source.at_one_moment()?, table.table.clone(), range.span());
            Ok(Scan { steps: Arc::new(Mutex::new(Some(steps))) })
        })
    }

    /// Ends a snapshot.
    #[napi]
    pub fn close(&self) -> Result<()> {
        now(|| match &self.source {
            Source::Snapshot(held) => held.close(),
            Source::Database(_) | Source::Transaction(_) => Ok(()),
        })
    }
}

/// Which keys.
#[napi(object, object_to_js = false)]
pub struct NativeRange<'a> {
    pub prefix: Option<BufferSlice<'a>>,
    pub gte: Option<BufferSlice<'a>>,
    pub gt: Option<BufferSlice<'a>>,
    pub lt: Option<BufferSlice<'a>>,
    pub lte: Option<BufferSlice<'a>>,
}

impl NativeRange<'_> {
    pub(crate) fn span(&self) -> Span {
        let mut span = self.prefix.as_ref().map_or_else(Span::all, |prefix| Span::prefix(prefix));
        if let Some(key) = &self.gte {
            span = span.starting(Bound::Included(key));
        }
        if let Some(key) = &self.gt {
            span = span.starting(Bound::Excluded(key));
        }
        if let Some(key) = &self.lt {
            span = span.until(key);
        }
        if let Some(key) = &self.lte {
            // The next key after it in byte order is it with a zero byte.
            span = span.until(&[key, &[0][..]].concat());
        }
        span
    }
}

/// Records in order.
#[napi]
pub struct Scan {
    steps: Arc<Mutex<Option<Steps>>>,
}

#[napi]
impl Scan {
    /// Returns the next records, packed; an empty buffer at the end.
    #[napi]
    pub fn next<'e>(&self, env: &'e Env, reverse: bool) -> Result<Object<'e>> {
        let steps = Arc::clone(&self.steps);
        promise(env, move || {
            let mut steps = steps.try_lock().map_err(|_| Failure::in_use("the iterator"))?;
            let steps = steps.as_mut().ok_or_else(|| Failure::closed("the iterator"))?;
            let direction = if reverse { Direction::Backward } else { Direction::Forward };
            let (mut records, mut packed) = (Vec::new(), Ok(()));
            steps.run(direction, |key, value| {
                if packed.is_ok() {
                    packed = packed::push_record(&mut records, key, value);
                }
            })?;
            packed.map(|()| Bytes(records))
        })
    }

    /// Goes to a place: the next records are those at or after `key`, or in reverse those up to it.
    #[napi]
    pub fn seek(&self, key: BufferSlice<'_>, reverse: bool) -> Result<()> {
        now(|| {
            let mut steps = self.steps.try_lock().map_err(|_| Failure::in_use("the iterator"))?;
            let steps = steps.as_mut().ok_or_else(|| Failure::closed("the iterator"))?;
            if reverse { steps.seek(&[&key, &[0][..]].concat()) } else { steps.seek(&key) }
        })
    }

    /// Ends the scan; what it read can be freed.
    #[napi]
    pub fn close(&self) -> Result<()> {
        now(|| {
            let mut steps = self.steps.try_lock().map_err(|_| Failure::in_use("the iterator"))?;
            drop(steps.take());
            Ok(())
        })
    }
}
