//! The integration tests of this crate, in one program: there is one to link, and they share their fixtures.

mod common;
mod crash;
mod flush;
mod foreign;
mod mapped;
mod reopen;
mod spares;
