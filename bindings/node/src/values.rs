//! Values of any length, read and written a piece at a time.

use crate::bytes::Bytes;
use crate::database::{NativeTable, ttl};
use crate::promise::{now, promise};
use crate::reader::Reader;
use crate::transaction::Tx;
use binding::{Failure, Outcome, ReadValue, WrittenValue};
use napi::bindgen_prelude::{BufferSlice, Object};
use napi::{Env, Result};
use napi_derive::napi;
use std::io::SeekFrom;
use std::sync::Arc;

/// A value that is read from any place.
#[napi]
pub struct NativeValueReader {
    value: Arc<ReadValue>,
}

/// A value that is written a piece at a time.
#[napi]
pub struct NativeValueWriter {
    value: Arc<WrittenValue>,
}

#[napi]
impl Reader {
    /// Opens the value of a key; undefined if there is none.
    #[napi]
    pub fn open_value<'e>(
        &self,
        env: &'e Env,
        table: &NativeTable,
        key: BufferSlice<'_>,
    ) -> Result<Object<'e>> {
        let (source, table, key) = (self.source().clone(), table.table.clone(), key.to_vec());
        promise(env, move || {
            let opened = ReadValue::open(&source, &table, &key)?;
            Ok(opened.map(|value| NativeValueReader { value: Arc::new(value) }))
        })
    }
}

/// A place or a length in bytes.
fn whole(bytes: f64) -> Outcome<u64> {
    if bytes >= 0.0 && bytes.fract() == 0.0 && bytes < u64::MAX as f64 {
        Ok(bytes as u64)
    } else {
        Err(Failure::invalid(format!("a place in a value is {bytes}; it must be a whole number from 0 on")))
    }
}

#[napi]
impl NativeValueReader {
    /// The length of the value.
    #[napi(getter)]
    pub fn length(&self) -> f64 {
        self.value.len_bytes() as f64
    }

    /// Goes to a place. Reads nothing.
    #[napi]
    pub fn seek(&self, position: f64) -> Result<()> {
        now(|| self.value.seek(SeekFrom::Start(whole(position)?)).map(drop))
    }

    /// Returns the next bytes; none at the end.
    #[napi]
    pub fn read<'e>(&self, env: &'e Env, most: f64) -> Result<Object<'e>> {
        let value = Arc::clone(&self.value);
        promise(env, move || {
            let most = usize::try_from(whole(most)?).unwrap_or(usize::MAX);
            let mut bytes = Vec::with_capacity(most.min(1 << 20));
            value.read(most, &mut |part| bytes.extend_from_slice(part))?;
            Ok(Bytes(bytes))
        })
    }

    /// Ends the reader.
    #[napi]
    pub fn close(&self) -> Result<()> {
        now(|| self.value.close())
    }
}

#[napi]
impl Tx {
    /// Begins a value, whose entry may expire after so many milliseconds.
    #[napi]
    pub fn write_value<'e>(
        &self,
        env: &'e Env,
        table: &NativeTable,
        key: BufferSlice<'_>,
        ttl_ms: Option<f64>,
    ) -> Result<Object<'e>> {
        let (begun, table, key) = (Arc::clone(self.begun()), table.table.clone(), key.to_vec());
        promise(env, move || {
            let ttl = ttl_ms.map(ttl).transpose()?;
            Ok(NativeValueWriter { value: Arc::new(WrittenValue::begin(&begun, &table, &key, ttl)?) })
        })
    }
}

#[napi]
impl NativeValueWriter {
    #[napi]
    pub fn append<'e>(&self, env: &'e Env, bytes: BufferSlice<'_>) -> Result<Object<'e>> {
        let (value, bytes) = (Arc::clone(&self.value), bytes.to_vec());
        promise(env, move || value.append(&bytes))
    }

    /// Sets the key to the value; returns its length.
    #[napi]
    pub fn finish<'e>(&self, env: &'e Env) -> Result<Object<'e>> {
        let value = Arc::clone(&self.value);
        promise(env, move || Ok(value.finish()? as f64))
    }

    /// Gives the value up.
    #[napi]
    pub fn abandon(&self) -> Result<()> {
        now(|| self.value.abandon())
    }
}
