//! The source of a replica, by its address.

#[cfg(feature = "ship")]
use super::bucket::FromBucket;
use super::http::{FromServer, Primary};
use crate::failure::Outcome;
use server::following::Source;
use std::sync::Arc;
use std::time::Duration;

/// Returns the source at `address`. A bucket is asked for new segments every `interval`. `primary` is the address of
/// the server that accepts writes, if it is not `address`.
pub fn source(address: &str, primary: Option<&str>, interval: Duration) -> Outcome<Arc<dyn Source>> {
    if let Some(server) = Primary::at(address)? {
        return Ok(Arc::new(FromServer::new(server, primary)?));
    }
    #[cfg(feature = "ship")]
    return Ok(Arc::new(FromBucket::connect(address, primary, interval)?));
    #[cfg(not(feature = "ship"))]
    {
        let _ = (primary, interval);
        let message = format!(
            "{address}: this `pando` was built without buckets; follow http://HOST:PORT or https://HOST:PORT"
        );
        Err(crate::failure::Failure::Usage(message))
    }
}
