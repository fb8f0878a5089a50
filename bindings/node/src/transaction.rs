//! Transactions.

use crate::bytes::Bytes;
use crate::database::{NativeTable, NativeTableOptions, missing, ttl};
use crate::packed;
use crate::promise::promise;
use crate::reader::{NativeRange, Reader};
use binding::{Begun, Failure, Source};
use napi::bindgen_prelude::{BufferSlice, ClassInstance, Object};
use napi::{Env, Result};
use napi_derive::napi;
use pando::Savepoint;
use std::slice;
use std::sync::{Arc, Mutex};

/// A transaction.
#[napi]
pub struct Tx {
    begun: Arc<Begun>,
    /// Its savepoints, the oldest first.
    savepoints: Arc<Mutex<Vec<Savepoint>>>,
}

impl Tx {
    pub(crate) fn new(begun: Arc<Begun>) -> Self {
        Tx { begun, savepoints: Arc::default() }
    }

    pub(crate) fn begun(&self) -> &Arc<Begun> {
        &self.begun
    }
}

#[napi]
impl Tx {
    /// What reads within the transaction.
    #[napi]
    pub fn reader(&self) -> Reader {
        Reader::new(Source::Transaction(Arc::clone(&self.begun)))
    }

    #[napi]
    pub fn create_table<'e>(
        &self,
        env: &'e Env,
        name: String,
        given: NativeTableOptions,
    ) -> Result<Object<'e>> {
        let begun = Arc::clone(&self.begun);
        promise(env, move || {
            let options = given.read()?;
            Ok(NativeTable { table: begun.write(|tx| tx.create_table(&name, &options))? })
        })
    }

    #[napi]
    pub fn drop_table<'e>(&self, env: &'e Env, name: String) -> Result<Object<'e>> {
        let begun = Arc::clone(&self.begun);
        promise(env, move || {
            let table = begun.read(|tx| tx.table(&name))?.ok_or_else(|| missing(&name))?;
            begun.write(|tx| tx.drop_table(&table))
        })
    }

    /// Applies packed writes in their order. `places` has 32 bits for each of them, the place in `tables` of its table;
    /// without it they are all of the first one.
    #[napi]
    pub fn write<'e>(
        &self,
        env: &'e Env,
        tables: Vec<ClassInstance<'_, NativeTable>>,
        places: Option<BufferSlice<'_>>,
        packed: BufferSlice<'_>,
    ) -> Result<Object<'e>> {
        let tables: Vec<_> = tables.iter().map(|table| table.table.clone()).collect();
        let (places, packed) = (places.map(|places| places.to_vec()), packed.to_vec());
        let begun = Arc::clone(&self.begun);
        promise(env, move || {
            let no_table = || Failure::misuse("a packed write has no table");
            let writes = packed::writes(&packed)?;
            let Some(places) = places else {
                let table = tables.first().ok_or_else(no_table)?;
                return begun.write(|tx| packed::apply(tx, table, &writes));
            };
            let table_of = |place: &[u8; 4]| tables.get(u32::from_le_bytes(*place) as usize);
            let tables: Option<Vec<_>> = places.as_chunks().0.iter().map(table_of).collect();
            let tables = tables.filter(|tables| tables.len() == writes.len()).ok_or_else(no_table)?;
            begun.write(|tx| {
                let mut all = tables.iter().zip(&writes);
                all.try_for_each(|(table, write)| packed::apply(tx, table, slice::from_ref(write)))
            })
        })
    }

    #[napi]
    pub fn insert<'e>(
        &self,
        env: &'e Env,
        table: &NativeTable,
        key: BufferSlice<'_>,
        value: BufferSlice<'_>,
    ) -> Result<Object<'e>> {
        let (begun, table) = (Arc::clone(&self.begun), table.table.clone());
        let (key, value) = (key.to_vec(), value.to_vec());
        promise(env, move || begun.write(|tx| tx.insert(&table, &key, &value)))
    }

    /// Sets a key whose entry expires after so many milliseconds.
    #[napi]
    pub fn put_with_ttl<'e>(
        &self,
        env: &'e Env,
        table: &NativeTable,
        key: BufferSlice<'_>,
        value: BufferSlice<'_>,
        ttl_ms: f64,
    ) -> Result<Object<'e>> {
        let (begun, table) = (Arc::clone(&self.begun), table.table.clone());
        let (key, value) = (key.to_vec(), value.to_vec());
        promise(env, move || {
            let ttl = ttl(ttl_ms)?;
            begun.write(|tx| tx.put_with_ttl(&table, &key, &value, ttl))
        })
    }

    /// Lets the entry of a key expire after so many milliseconds, or never. Returns whether the key exists.
    #[napi]
    pub fn set_expiry<'e>(
        &self,
        env: &'e Env,
        table: &NativeTable,
        key: BufferSlice<'_>,
        ttl_ms: Option<f64>,
    ) -> Result<Object<'e>> {
        let (begun, table, key) = (Arc::clone(&self.begun), table.table.clone(), key.to_vec());
        promise(env, move || {
            let ttl = ttl_ms.map(ttl).transpose()?;
            begun.write(|tx| tx.set_expiry(&table, &key, ttl))
        })
    }

    #[napi]
    pub fn delete_range<'e>(
        &self,
        env: &'e Env,
        table: &NativeTable,
        range: NativeRange<'_>,
    ) -> Result<Object<'e>> {
        let (begun, table, span) = (Arc::clone(&self.begun), table.table.clone(), range.span());
        promise(env, move || begun.write(|tx| tx.delete_range(&table, span)))
    }

    /// Deletes a key and returns the value that it had.
    #[napi]
    pub fn remove<'e>(&self, env: &'e Env, table: &NativeTable, key: BufferSlice<'_>) -> Result<Object<'e>> {
        let (begun, table, key) = (Arc::clone(&self.begun), table.table.clone(), key.to_vec());
        promise(env, move || Ok(begun.write(|tx| tx.remove(&table, &key))?.map(Bytes)))
    }

    /// Begins a savepoint, and returns its number.
    #[napi]
    pub fn savepoint<'e>(&self, env: &'e Env) -> Result<Object<'e>> {
        let (begun, savepoints) = (Arc::clone(&self.begun), Arc::clone(&self.savepoints));
        promise(env, move || {
            let mut savepoints = savepoints.try_lock().map_err(|_| Failure::in_use("the transaction"))?;
            savepoints.push(begun.write(|tx| Ok(tx.savepoint()))?);
            Ok((savepoints.len() - 1) as f64)
        })
    }

    /// Ends the savepoint of this number and those after it; the writes since it began are kept or undone.
    #[napi]
    pub fn end_savepoint<'e>(&self, env: &'e Env, number: u32, keep: bool) -> Result<Object<'e>> {
        let (begun, savepoints) = (Arc::clone(&self.begun), Arc::clone(&self.savepoints));
        promise(env, move || {
            let mut savepoints = savepoints.try_lock().map_err(|_| Failure::in_use("the transaction"))?;
            let found = savepoints.get(number as usize);
            let ended = found.ok_or_else(|| Failure::invalid("there is no such savepoint"))?;
            begun.write(|tx| {
                if !keep {
                    tx.rollback_to(ended)?;
                }
                tx.release(ended)
            })?;
            savepoints.truncate(number as usize);
            Ok(())
        })
    }

    /// Commits; returns the number of the commit.
    #[napi]
    pub fn commit<'e>(&self, env: &'e Env) -> Result<Object<'e>> {
        let begun = Arc::clone(&self.begun);
        promise(env, move || Ok(begun.commit()? as f64))
    }

    #[napi]
    pub fn rollback<'e>(&self, env: &'e Env) -> Result<Object<'e>> {
        let begun = Arc::clone(&self.begun);
        promise(env, move || begun.roll_back())
    }
}
