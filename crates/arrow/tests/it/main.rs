//! The integration tests of this crate, in one program.

mod round_trip;
mod conversions;
mod keys;
mod batches;
mod hostile;
