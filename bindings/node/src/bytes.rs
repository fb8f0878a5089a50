//! Bytes as a Buffer of Node.

use napi::bindgen_prelude::{Buffer, BufferSlice, ToNapiValue};
use napi::{Env, Result, sys};

/// Up to so many bytes are copied: Node has memory at hand for them, and a buffer that lends foreign memory costs more
/// than the copy.
const MOST_COPIED_BYTES: usize = 16 << 10;

/// Bytes for JavaScript.
pub struct Bytes(pub Vec<u8>);

impl ToNapiValue for Bytes {
    // SAFETY: Node-API calls it on the thread of `env`, which the trait demands.
    unsafe fn to_napi_value(env: sys::napi_env, Bytes(bytes): Self) -> Result<sys::napi_value> {
        if bytes.len() > MOST_COPIED_BYTES {
            // SAFETY: as the trait demands of the caller.
            return unsafe { Buffer::to_napi_value(env, Buffer::from(bytes)) };
        }
        let slice = BufferSlice::copy_from(&Env::from_raw(env), bytes)?;
        // SAFETY: as the trait demands of the caller.
        unsafe { BufferSlice::to_napi_value(env, slice) }
    }
}
