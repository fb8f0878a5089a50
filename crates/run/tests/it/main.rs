//! The integration tests of this crate, in one program: there is one to link, and they share their fixtures.

mod beginnings;
mod behaviour;
mod build;
mod common;
mod compressed;
mod large;
mod model;
mod newest;
mod relocate;
mod resident;
mod slices;
