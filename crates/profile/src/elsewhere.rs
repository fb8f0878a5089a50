//! A replacement for targets whose registers and unwind tables this crate does not read: every recording fails with an
//! error.

use crate::kind::Error;
use crate::ring::Ring;
use std::time::Duration;

pub(crate) fn prepare() -> Result<(), Error> {
    Err(Error::Unsupported)
}

pub(crate) fn capture(_ring: &Ring, _weight: u64) {}

pub(crate) fn start_ticks(_ring: &'static Ring, _period: Duration) -> Result<(), Error> {
    Err(Error::Unsupported)
}

pub(crate) fn stop_ticks() {}
