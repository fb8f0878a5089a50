//! The integration tests of this crate, in one program: there is one to link, and they share their fixtures.

mod batch;
mod build_beside;
mod crash;
mod dynamic;
mod examples;
mod files;
mod hostile;
mod index_crash;
mod model;
mod raw_writes;
mod support;
mod typed;
